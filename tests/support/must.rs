//! Building by generators, whose operations are always valid.

use optc_ir::op::Operation;
use optc_ir::{AttrDict, DType, FuncBuilder, NewOp, Type, Value};
use optc_ops::Constant;

/// Additions to a function by a generator, without error handling.
///
/// # Panics
/// An operation is refused, so the generator has a bug.
pub trait Must {
    /// Adds an operation with one result.
    fn must<T: Operation>(&mut self, op: &T, operands: &[Value]) -> Value;
    /// Adds an operation without attributes by its name.
    fn plain(&mut self, name: &str, operands: &[Value]) -> Value;
    /// Adds a constant of `f32` numbers.
    fn floats(&mut self, shape: &[u64], values: &[f32]) -> Value;
    /// Adds a constant whose bytes are in a file.
    fn external(&mut self, file: &str, offset: u64, shape: &[u64], dtype: DType) -> Value;
    /// The extents of a tensor; an unknown one counts as 1.
    fn shape(&self, value: Value) -> Vec<u64>;
    /// The number of operations so far.
    fn n_ops(&self) -> usize;
}

impl Must for FuncBuilder<'_> {
    fn must<T: Operation>(&mut self, op: &T, operands: &[Value]) -> Value {
        let found = self.one(op, operands);
        found.unwrap_or_else(|e| panic!("{}: {e}", T::NAME))
    }

    fn plain(&mut self, name: &str, operands: &[Value]) -> Value {
        let found = self.add_one(NewOp::new(name, operands, AttrDict::new()));
        found.unwrap_or_else(|e| panic!("{name}: {e}"))
    }

    fn floats(&mut self, shape: &[u64], values: &[f32]) -> Value {
        self.must(&Constant::floats(shape, values), &[])
    }

    fn external(&mut self, file: &str, offset: u64, shape: &[u64], dtype: DType) -> Value {
        let length = shape.iter().product::<u64>() * u64::from(dtype.bits() / 8);
        let constant = Constant::external(file, offset, length);
        let op = NewOp::of(&constant, &[]).typed(vec![Type::tensor(shape, dtype)]);
        self.add_one(op).expect("the bytes fill the type")
    }

    fn shape(&self, value: Value) -> Vec<u64> {
        let ty = self.tensor(value).cloned();
        ty.expect("a value is a tensor").shape_with(&|_| 1)
    }

    fn n_ops(&self) -> usize {
        self.func.body.len()
    }
}
