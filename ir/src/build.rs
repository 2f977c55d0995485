//! The builder of functions: adds one operation after another, with the result types that its shape rule infers.
//!
//! ```
//! # use optc_ir::{DType, FuncBuilder, Registry, TensorType};
//! let registry = Registry::empty();
//! let mut b = FuncBuilder::new(&registry);
//! let x = b.arg("x", TensorType::fixed(&[2, 3], DType::F32));
//! let module = b.finish(&[x]);
//! assert_eq!(module.funcs[0].args, [x]);
//! ```

use crate::attr::AttrDict;
use crate::codes;
use crate::module::{Func, Loc, Module, Value};
use crate::op::{OpError, OpRef, Operation, Registry, check_results};
use crate::types::{TensorType, Type};
use std::sync::Arc;

/// An operation to add, by its name.
#[derive(Clone, Debug)]
pub struct NewOp<'a> {
    /// The full name, `hbir.reshape`.
    pub name: &'a str,
    /// The operands.
    pub operands: Vec<Value>,
    /// Inherent attributes.
    pub props: AttrDict,
    /// Discardable attributes.
    pub attrs: AttrDict,
    /// The result types, if they differ from those of the shape rule: types with layouts, or the types of an operation
    /// that has no rule. The rule sees them too.
    pub results: Option<Vec<Type>>,
    /// The source location. Where it is unknown, the location of the builder is used.
    pub loc: Loc,
}

impl<'a> NewOp<'a> {
    /// An operation of this name.
    #[must_use]
    pub fn new(name: &'a str, operands: &[Value], props: AttrDict) -> NewOp<'a> {
        NewOp {
            name,
            operands: operands.to_vec(),
            props,
            attrs: AttrDict::new(),
            results: None,
            loc: Loc::Unknown,
        }
    }

    /// An operation from a struct of typed attributes.
    #[must_use]
    pub fn of<T: Operation>(op: &T, operands: &[Value]) -> NewOp<'a> {
        NewOp::new(T::NAME, operands, op.write())
    }

    /// The same operation with explicit result types.
    #[must_use]
    pub fn typed(mut self, results: Vec<Type>) -> NewOp<'a> {
        self.results = Some(results);
        self
    }
}

/// A function under construction.
///
/// An operation that its shape rule refuses is not added. So the function verifies, except for the rules about whole
/// functions: names of ports, calls.
#[derive(Clone, Debug)]
pub struct FuncBuilder<'r> {
    /// The function so far.
    pub func: Func,
    /// The location of the operations that follow.
    pub loc: Loc,
    registry: &'r Registry,
}

impl<'r> FuncBuilder<'r> {
    /// An empty `@main`.
    #[must_use]
    pub fn new(registry: &'r Registry) -> FuncBuilder<'r> {
        FuncBuilder::named("main", registry)
    }

    /// An empty function of this name.
    #[must_use]
    pub fn named(name: &str, registry: &'r Registry) -> FuncBuilder<'r> {
        FuncBuilder {
            func: Func::new(name),
            loc: Loc::Unknown,
            registry,
        }
    }

    /// The registry of known operations.
    #[must_use]
    pub fn registry(&self) -> &'r Registry {
        self.registry
    }

    /// Adds an argument.
    pub fn arg(&mut self, name: &str, ty: impl Into<Type>) -> Value {
        self.func.add_arg(ty.into(), Some(name))
    }

    /// Adds an operation and returns its results.
    ///
    /// # Errors
    /// The registry does not know the operation (`hbir-op-unknown`), its shape rule refuses it, or an operand is of
    /// another function (`value-foreign`). Nothing is added then.
    pub fn op<T: Operation>(&mut self, op: &T, operands: &[Value]) -> Result<Vec<Value>, OpError> {
        self.add(NewOp::of(op, operands))
    }

    /// Adds an operation that has one result.
    ///
    /// # Errors
    /// As [`FuncBuilder::op`]. Also: the number of results is not 1 (`result-count`).
    pub fn one<T: Operation>(&mut self, op: &T, operands: &[Value]) -> Result<Value, OpError> {
        self.add_one(NewOp::of(op, operands))
    }

    /// Adds an operation by its name.
    ///
    /// # Errors
    /// As [`FuncBuilder::op`]. Also: an operand is a value of another function (`value-foreign`). An operation without a declaration must state its result types. Stated result types of a
    /// declared operation must be those of the shape rule, except for layouts and for sizes that are left open.
    pub fn add(&mut self, op: NewOp<'_>) -> Result<Vec<Value>, OpError> {
        let types = self.result_types(&op)?;
        Ok(self.push(op, types))
    }

    /// Adds an operation that has one result by its name.
    ///
    /// # Errors
    /// As [`FuncBuilder::add`]. Also: the number of results is not 1 (`result-count`).
    pub fn add_one(&mut self, op: NewOp<'_>) -> Result<Value, OpError> {
        let types = self.result_types(&op)?;
        if types.len() != 1 {
            let message = format!("{} has {} results, wanted 1", op.name, types.len());
            return Err(OpError::new(codes::RESULT_COUNT, message));
        }
        Ok(self.push(op, types)[0])
    }

    /// The types that the results of an operation would have. Nothing is added.
    ///
    /// # Errors
    /// As [`FuncBuilder::add`].
    pub fn result_types(&self, op: &NewOp<'_>) -> Result<Vec<Type>, OpError> {
        let Some(stated) = &op.results else {
            return self.inferred(op);
        };
        let view = self.view(op)?;
        if let Some(decl) = self.registry.get(op.name) {
            check_results(&view, decl)?;
        }
        Ok(stated.clone())
    }

    /// The row-major types that the shape rule infers for an operation. Result types that the operation states are not
    /// returned.
    ///
    /// # Errors
    /// The registry does not know the operation (`hbir-op-unknown`), or its shape rule refuses it.
    pub fn inferred(&self, op: &NewOp<'_>) -> Result<Vec<Type>, OpError> {
        self.registry.result_types(&self.view(op)?)
    }

    /// The operation as its declaration sees it.
    fn view<'a>(&'a self, op: &'a NewOp<'_>) -> Result<OpRef<'a>, OpError> {
        let mut operands = Vec::with_capacity(op.operands.len());
        for (i, &value) in op.operands.iter().enumerate() {
            let Some(data) = self.func.values.get(value) else {
                let message = format!("operand {i} is a value of another function");
                let hint = "a value is used in the function whose builder made it";
                return Err(OpError::new(codes::VALUE_FOREIGN, message).hint(hint));
            };
            operands.push(&data.ty);
        }
        Ok(OpRef {
            name: op.name,
            operands,
            results: op.results.iter().flatten().collect(),
            props: &op.props,
        })
    }

    /// Adds an operation whose results have these types, unchecked.
    pub fn push(&mut self, op: NewOp<'_>, types: Vec<Type>) -> Vec<Value> {
        let loc = if op.loc == Loc::Unknown {
            self.loc.clone()
        } else {
            op.loc
        };
        let made = self
            .func
            .make_op(Arc::from(op.name), op.operands, op.props, types, loc);
        self.func.ops[made].attrs = op.attrs;
        self.func.body.push(made);
        self.func.ops[made].results.clone()
    }

    /// The tensor type of a value; `None` if it is no tensor.
    #[must_use]
    pub fn tensor(&self, value: Value) -> Option<&TensorType> {
        self.func.ty(value).as_tensor()
    }

    /// A module of this function alone, which returns `results`.
    #[must_use]
    pub fn finish(mut self, results: &[Value]) -> Module {
        results.iter().for_each(|&v| self.func.add_result(v, None));
        Module {
            funcs: vec![self.func],
            ..Module::default()
        }
    }
}
