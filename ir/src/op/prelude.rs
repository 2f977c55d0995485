//! The names that the file of an operation uses: `use optc_ir::op::prelude::*`.

pub use crate::attr::Attr;
pub use crate::diag::Code;
pub use crate::op::iteration_domain::{IndexExpr, IterationDomain, LoopKind};
pub use crate::op::part::Port;
pub use crate::op::{
    Along, Attributes, Axes, Binary, Call, Combine, Composition, Direction, Effect, Expr,
    FreedomClass, Inferred, Known, OpError, OpRef, Operation, OverAxes, Part, Role, Run, Structure,
    Traffic, Update, ViewDims, compatible, unify,
};
pub use crate::size::Size;
pub use crate::tensor::{EvalError, Offsets, Tensor};
pub use crate::types::{DType, Dim, TensorType};
pub use crate::{attributes, codes, words};
