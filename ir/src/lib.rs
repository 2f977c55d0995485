//! The SSA IR of optc: types, operations, text form, verifier, diagnostics.
//!
//! An internal part of `optc`; only the crate `optc` has a stable interface.
//!
//! The IR does no input or output; front ends and tools hand it text and bytes.
//!
//! After `verify` returns `Ok` no later stage panics. No file of this crate names an operation: the compiler knows a
//! built-in operation by its [`Structure`].
//!
//! # Files
//! - `op` has the declarations of operations: `operation.rs` is the trait [`Operation`], `decl.rs` the same trait with
//!   its type erased. `registry.rs` finds operations by name. `attributes.rs` makes a struct, a reader and a writer
//!   from one list of fields.
//! - `op/over_axes.rs`: an operation with its axes permuted. `op/iteration_domain.rs`: its loops. `op/control.rs`: the
//!   functions that loops and branches run.
//! - `analysis`: order of execution, uses, liveness, live-outs. `effects.rs`: the effects of functions besides their
//!   results.
//! - `build.rs` builds functions of typed operations, for front ends, tests and users.
//! - `trace.rs`: where the values that went into a pipeline are now.
//! - `memory.rs`: places of values in memory, as attributes. `size`: named sizes. `stand_in.rs`: primes that stand for
//!   named sizes in a decision. `compared_sizes.rs`: the numbers at which costs are compared.
//! - `shard`: splits of values over a mesh of devices, as attributes.

pub mod analysis;
pub mod attr;
mod build;
mod codes;
mod compared_sizes;
pub mod diag;
pub mod effects;
pub mod entity;
mod ids;
mod laid;
pub mod memory;
mod mini_float;
pub mod module;
pub mod op;
mod render;
pub mod shard;
pub mod short_float;
mod site;
pub mod size;
pub mod size_flow;
mod span;
pub mod stand_in;
pub mod tensor;
pub mod text;
pub mod trace;
pub mod types;
pub mod verify;

pub use attr::{Attr, AttrDict, Dense};
pub use build::{FuncBuilder, NewOp};
pub use codes::{CODES, shared as shared_codes};
pub use compared_sizes::{compared_sizes, unbound_sizes};
pub use diag::{Code, CodeName, Diagnostic, Example, Severity};
pub use laid::{is_over_axes, laid_port};
pub use mini_float::MiniFloat;
pub use module::{Func, Loc, Module, Op, OpData, Port, Value, ValueData, ValueDef};
pub use op::{
    Along, Attributes, Axes, Axis, AxisOf, Bindings, Call, Control, ControlPort, Effect,
    EvalContext, Expr, Freedom, FreedomClass, Inferred, Joint, Label, LaidPort, OpDecl, OpError,
    OpRef, Operation, OverAxes, Part, Partial, Registry, Role, Run, Slices, Structure, Traffic,
    Update, ViewDims,
};
pub use optc_layout::Digit;
pub use render::{render, render_in};
pub use site::Site;
pub use size::{Size, SizeTable};
pub use size_flow::{name_arguments, name_sizes, named_sizes};
pub use span::Span;
pub use stand_in::StandIns;
pub use tensor::{Data, EvalError, Tensor};
pub use types::{DType, Dim, Sign, TensorType, Type};
