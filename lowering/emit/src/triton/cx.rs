//! The context in which the kernels of a group are written.

use optc_ir::{Func, Op, Registry, TensorType, Value};
use optc_target::Precision;
use std::collections::BTreeMap;

/// The reason why a group has no kernel, in words.
pub(super) type Reason = String;

/// The operation of a group that computes a value, and the number of the result.
pub(super) type Makers = BTreeMap<Value, (Op, usize)>;

/// The constant context of one group.
pub(super) struct Cx<'a> {
    pub(super) func: &'a Func,
    pub(super) registry: &'a Registry,
    /// The name of a value.
    pub(super) name: &'a dyn Fn(Value) -> String,
    /// The precision of products of f32 that state none of their own.
    pub(super) precision: Option<Precision>,
    /// The number that all elements of a constant are.
    pub(super) splat: &'a dyn Fn(Value) -> Option<f64>,
}

impl<'a> Cx<'a> {
    pub(super) fn tensor(&self, value: Value) -> Result<&'a TensorType, Reason> {
        let ty = self.func.ty(value).as_tensor();
        ty.ok_or_else(|| format!("{value} is no tensor"))
    }

    pub(super) fn shape(&self, value: Value) -> Result<Vec<u64>, Reason> {
        let shape = self.tensor(value)?.shape();
        shape.ok_or_else(|| "a size is not a number".to_owned())
    }
}
