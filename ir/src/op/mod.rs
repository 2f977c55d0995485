//! Operations as they declare themselves: attributes, shape rule, constraints, semantics, effects, layout
//! freedom, loops.
//!
//! An operation is a struct of its attributes that implements [`Operation`]. The registry holds it as [`OpDecl`], with
//! the type erased. A user of the library adds an operation by registering it.

mod attributes;
mod composition;
mod control;
mod decl;
mod declared;
mod effect;
mod error;
mod eval;
mod evaluate;
mod expression;
mod extents;
mod freedom;
mod freedom_of;
pub mod in_place;
pub mod iteration_domain;
mod op_ref;
mod operation;
mod over_axes;
pub mod part;
pub mod prelude;
mod rearranged;
mod rearrangement;
mod registry;
mod results;
mod traffic;

pub use attributes::{AttrValue, Attributes, Field, FieldValue, missing, read_field};
pub use composition::{Composition, Stage};
pub use control::{Control, ControlPort, Joint, Slices};
pub use decl::{OpDecl, iteration_domain_of};
pub use effect::Effect;
pub use error::OpError;
pub use eval::{Bindings, Call, EvalContext, Target};
pub use expression::{Binary, Direction, Expr, ExprBuilder, Unary};
pub use extents::{compatible, missing_extent, unify};
pub use freedom::{Freedom, FreedomClass, Label, Role};
pub use iteration_domain::{Combine, Partial};
pub use op_ref::{Inferred, OpRef};
pub use operation::{Known, Operation, Structure, not_a_rearrangement};
pub use over_axes::{Axes, Axis, AxisOf, LaidPort, OverAxes, Run, SizeOf};
pub use part::{Along, Part, Update};
pub use rearrangement::ViewDims;
pub use registry::{FuncCheck, Registry};
pub(crate) use results::check_results;
pub use traffic::Traffic;
