//! The context in which the kernel of a group is written.

use optc_ir::{DType, Func, Op, Operation, Registry, TensorType, Value};
use optc_target::Precision;
use optc_tile::Schedule;

/// The reason why a group has no kernel, in words.
pub(super) type Reason = String;

/// The constant context of one group.
pub(super) struct Cx<'a> {
    pub(super) func: &'a Func,
    pub(super) registry: &'a Registry,
    pub(super) schedule: &'a Schedule,
    /// The name of a value.
    pub(super) name: &'a dyn Fn(Value) -> String,
    /// The bytes of the memory that blocks are in, if the target states them.
    pub(super) memory: Option<u64>,
    /// The precision of products of f32 that state none of their own.
    pub(super) precision: Option<Precision>,
}

pub(super) fn shape_of(ty: &TensorType) -> Result<Vec<u64>, Reason> {
    ty.shape()
        .ok_or_else(|| "a size is not a number".to_owned())
}

impl Cx<'_> {
    pub(super) fn tensor(&self, value: Value) -> Result<&TensorType, Reason> {
        let ty = self.func.ty(value).as_tensor();
        ty.ok_or_else(|| format!("{value} is no tensor"))
    }
    pub(super) fn shape(&self, value: Value) -> Result<Vec<u64>, Reason> {
        shape_of(self.tensor(value)?)
    }
    /// The extents of a value and its element type.
    pub(super) fn array(&self, value: Value) -> Result<(Vec<u64>, DType), Reason> {
        let ty = self.tensor(value)?;
        Ok((shape_of(ty)?, ty.dtype))
    }
    /// The typed attributes of an operation, if it is a `T`.
    pub(super) fn typed<T: Operation>(&self, op: Op) -> Option<T> {
        T::of(&self.func.op_ref(op)).ok()
    }
}
