//! Reasons why a step cannot be run.

use optc_interp::MAX_STEPS;
use optc_ir::op::OpError;
use optc_ir::tensor::EvalError;
use optc_kernels::error::KernelError;
use thiserror::Error;

use crate::convert::ConversionError;

/// A refusal of a step while it runs.
#[derive(Debug, Error)]
pub(crate) enum StepError {
    #[error(transparent)]
    Kernel(#[from] KernelError),
    #[error(transparent)]
    Tensor(#[from] EvalError),
    #[error(transparent)]
    Operation(#[from] OpError),
    #[error(transparent)]
    Conversion(#[from] ConversionError),
    /// The result takes the place of an operand.
    #[error("an operand is written over")]
    OperandWrittenOver,
    /// The result takes the place of the bias.
    #[error("the bias is written over")]
    BiasWrittenOver,
    /// The result takes the place of the condition.
    #[error("the condition is written over")]
    ConditionWrittenOver,
    /// The result takes the place of bytes that are copied.
    #[error("bytes are written over")]
    BytesWrittenOver,
    /// The result takes the place of an operand, in another order.
    #[error("an operand is written over as it is copied")]
    CopyWrittenOver,
    /// An operand shares bytes with the result.
    #[error("an operand lies among what is written")]
    OperandAmongResult,
    /// The kernel was made for another number of operands.
    #[error("it has another number of operands")]
    OperandCount,
    /// The operation gives another number of results.
    #[error("it gives another number of results")]
    ResultCount,
    /// The operation gives fewer elements than the result has.
    #[error("it gives too few elements")]
    FewElements,
    /// The kernel has no result of this number.
    #[error("it has no such result")]
    NoResult,
    /// The kernel has no element types.
    #[error("it has no types")]
    NoTypes,
    /// No dialect declares the operation.
    #[error("nothing declares it")]
    Undeclared,
    /// Integers are given for floats.
    #[error("they are integers")]
    Integers,
    /// The offset of a weight is beyond the end of its buffer.
    #[error("a weight lies outside of its buffer")]
    WeightOutOfBounds,
    /// The bytes to copy are no operand.
    #[error("bytes are missing")]
    BytesMissing,
    /// The result has no room for the bytes.
    #[error("bytes have no place")]
    BytesNowhere,
    /// The zero point is no operand.
    #[error("the zero point is missing")]
    ZeroPointMissing,
    /// The zero point is neither a constant nor copied.
    #[error("the zero point is not known")]
    ZeroPointUnknown,
    /// A loop ended before it gave a part of a result.
    #[error("no round gave a part of a result")]
    NoRound,
    /// The part of a buffer that a tile takes is beyond its end.
    #[error("a tile lies outside of its buffer")]
    TileOutOfBounds,
    /// An index is beyond the end of its axis.
    #[error("index {index} is out of bounds, the axis has {extent} elements")]
    Index { index: i64, extent: i64 },
    /// An operation gives another number of results than it declares.
    #[error("it gives {0} results")]
    Results(usize),
    /// A result has another shape than its slot.
    #[error("its result has shape {0:?}")]
    ResultShape(Vec<usize>),
    /// The module has no function of this name.
    #[error("it runs no function @{0}")]
    NoFunction(String),
    /// A loop does not end.
    #[error("it did not end within {MAX_STEPS} operations")]
    Endless,
    /// Control flow is refused.
    #[error("{0}")]
    Control(String),
    /// The arguments of a function have other types.
    #[error("what it hands over does not fit @{0}")]
    Arguments(String),
}

impl From<bytemuck::PodCastError> for StepError {
    fn from(error: bytemuck::PodCastError) -> StepError {
        StepError::Kernel(KernelError::Cast(error))
    }
}
