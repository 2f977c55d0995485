//! How a format writes an operation that it does not have: by operations that it has.

use indexmap::IndexMap;
use optc_ir::{FuncBuilder, OpError, OpRef, Operation, Registry, Value};
use std::fmt;
use std::sync::Arc;

/// A format that has operations of its own, in which a program is written.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
#[non_exhaustive]
pub enum OutputFormat {
    /// ONNX models.
    Onnx,
    /// HLO text.
    Hlo,
    /// StableHLO text.
    StableHlo,
}

impl fmt::Display for OutputFormat {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            OutputFormat::Onnx => "ONNX",
            OutputFormat::Hlo => "HLO",
            OutputFormat::StableHlo => "StableHLO",
        })
    }
}

/// Writes an operation in a format, as operations that the format has.
///
/// A function with the arguments of [`WriteOp::write`] implements it.
pub trait WriteOp: Send + Sync {
    /// Builds the operations that stand for `op`, and returns the values in place of its results, in order.
    ///
    /// `operands` are those of the operation: the arguments of the function that `b` builds, with their layouts. The
    /// returned values have the shapes and element types of `op.results`. An operation that is only in the format is an
    /// [`Opaque::foreign`](optc_ops::Opaque::foreign).
    ///
    /// # Errors
    /// The operation cannot be written in the format, or the builder refuses an operation.
    fn write(
        &self,
        op: &OpRef<'_>,
        operands: &[Value],
        b: &mut FuncBuilder<'_>,
    ) -> Result<Vec<Value>, OpError>;
}

impl<F> WriteOp for F
where
    F: Fn(&OpRef<'_>, &[Value], &mut FuncBuilder<'_>) -> Result<Vec<Value>, OpError> + Send + Sync,
{
    fn write(
        &self,
        op: &OpRef<'_>,
        operands: &[Value],
        b: &mut FuncBuilder<'_>,
    ) -> Result<Vec<Value>, OpError> {
        self(op, operands, b)
    }
}

/// The writers of a registry, by format and operation.
#[derive(Clone, Default)]
struct Writers(IndexMap<OutputFormat, IndexMap<&'static str, Arc<dyn WriteOp>>>);

/// Sets how a format writes an operation, in place of the form that the format has for it. It replaces an earlier writer.
pub fn write_in<T: Operation>(
    registry: &mut Registry,
    format: OutputFormat,
    writer: impl WriteOp + 'static,
) {
    registry.extend(|writers: &mut Writers| {
        let all = writers.0.entry(format).or_default();
        all.insert(T::NAME, Arc::new(writer));
    });
}

/// The writer of the operation of this name in a format.
#[cfg(any(feature = "onnx", feature = "hlo"))]
pub(crate) fn writer<'r>(
    registry: &'r Registry,
    name: &str,
    format: OutputFormat,
) -> Option<&'r dyn WriteOp> {
    let writers = registry.extension::<Writers>()?;
    writers.0.get(&format)?.get(name).map(|writer| &**writer)
}
