//! Reasons why kernels refuse buffers.

use bytemuck::PodCastError;
use thiserror::Error;

/// A refusal of a kernel.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum KernelError {
    /// An offset is beyond the end of a buffer.
    #[error("an element lies outside of its buffer")]
    OutOfBounds,
    /// No kernel takes elements of this type.
    #[error("it has no kernel")]
    NoKernel,
    /// Bytes are no whole elements, or not aligned.
    #[error("{0}")]
    Cast(PodCastError),
    /// No more threads can be started.
    #[error("{0}")]
    Threads(String),
}

impl From<PodCastError> for KernelError {
    fn from(error: PodCastError) -> KernelError {
        KernelError::Cast(error)
    }
}
