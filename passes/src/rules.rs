//! The interface of local rules: equations ([`Rewrite`]), and rules in code for what no equation says.
//!
//! Example: `(transpose :perm ?p ?x) => ?x if (identity ?p)` is a rule as it is. A rule in code sees a [`Site`], an
//! operation, and states its changes in a [`Patch`].

pub use crate::names_of_rules::{Arg, Named};
pub use crate::rewrite::Rewrite;
pub use crate::terms::EquationError;
use optc_ir::{AttrDict, Func, Op, OpRef, Operation, Registry, Type, Value};
use std::sync::Arc;

/// The reason why a rule does not apply, in words.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Refusal(pub &'static str);

/// Turns a condition that does not hold into a refusal.
///
/// # Errors
/// The condition does not hold.
pub fn ensure(condition: bool, reason: &'static str) -> Result<(), Refusal> {
    if condition {
        Ok(())
    } else {
        Err(Refusal(reason))
    }
}

/// One operation as a local rule sees it.
#[derive(Clone, Copy, Debug)]
pub struct Site<'a> {
    /// The function.
    pub func: &'a Func,
    /// The operation.
    pub op: Op,
    /// The known operations.
    pub registry: &'a Registry,
}

impl<'a> Site<'a> {
    /// The full name of the operation.
    #[must_use]
    pub fn name(&self) -> &'a str {
        &self.func.ops[self.op].name
    }
    /// The operation as its declaration sees it.
    #[must_use]
    pub fn op_ref(&self) -> OpRef<'a> {
        self.func.op_ref(self.op)
    }
    /// Its inherent attributes.
    #[must_use]
    pub fn props(&self) -> &'a AttrDict {
        &self.func.ops[self.op].props
    }
    /// Operand `i`.
    ///
    /// # Errors
    /// It does not exist.
    pub fn operand(&self, i: usize) -> Result<Value, Refusal> {
        self.func.ops[self.op]
            .operands
            .get(i)
            .copied()
            .ok_or(Refusal("too few operands"))
    }
    /// Result `i`.
    ///
    /// # Errors
    /// It does not exist.
    pub fn result(&self, i: usize) -> Result<Value, Refusal> {
        self.func.ops[self.op]
            .results
            .get(i)
            .copied()
            .ok_or(Refusal("too few results"))
    }
    /// The attributes of the operation, if it is a `T`.
    ///
    /// # Errors
    /// It is another operation, or its attributes are malformed.
    pub fn typed<T: Operation>(&self) -> Result<T, Refusal> {
        T::of(&self.func.op_ref(self.op)).map_err(|_| Refusal("the attributes do not fit"))
    }
    /// The operation that produces operand `i`, if it is a `T`.
    ///
    /// # Errors
    /// Operand `i` comes from elsewhere.
    pub fn producer<T: Operation>(&self, i: usize) -> Result<Site<'a>, Refusal> {
        let value = self.operand(i)?;
        let op = self
            .func
            .def_op(value)
            .ok_or(Refusal("the operand is an argument"))?;
        ensure(
            &*self.func.ops[op].name == T::NAME,
            "another operation produces the operand",
        )?;
        Ok(Site { op, ..*self })
    }
}

/// The changes of a rule: new operations, and the values that replace the results.
#[derive(Debug)]
pub struct Patch<'a> {
    func: &'a mut Func,
    registry: &'a Registry,
    at: Op,
    pub(crate) ops: Vec<Op>,
    pub(crate) replacement: Option<Vec<Value>>,
}

impl<'a> Patch<'a> {
    pub(crate) fn new(func: &'a mut Func, registry: &'a Registry, at: Op) -> Patch<'a> {
        Patch {
            func,
            registry,
            at,
            ops: Vec::new(),
            replacement: None,
        }
    }

    /// Makes an operation with one result; the shape rule gives its type.
    ///
    /// # Errors
    /// The operation is unknown or its operands do not fit.
    pub fn op<T: Operation>(&mut self, op: &T, operands: &[Value]) -> Result<Value, Refusal> {
        self.inferred(Arc::from(T::NAME), operands, op.write())
    }

    /// Makes an operation with results of these types.
    pub fn op_typed<T: Operation>(
        &mut self,
        op: &T,
        operands: &[Value],
        types: Vec<Type>,
    ) -> Vec<Value> {
        self.make(Arc::from(T::NAME), operands, op.write(), types)
    }

    /// The operation itself, with its attributes, on other operands.
    pub(crate) fn same_op(&mut self, operands: &[Value], types: Vec<Type>) -> Vec<Value> {
        let data = &self.func.ops[self.at];
        self.make(data.name.clone(), operands, data.props.clone(), types)
    }

    /// Makes an operation with one result; the shape rule gives its type.
    pub(crate) fn inferred(
        &mut self,
        name: Arc<str>,
        operands: &[Value],
        props: AttrDict,
    ) -> Result<Value, Refusal> {
        let types = self.infer(&name, operands, &props)?;
        Ok(self.make(name, operands, props, types)[0])
    }

    /// Makes an operation with results of these types, if they agree with the shape rule.
    pub(crate) fn checked(
        &mut self,
        name: Arc<str>,
        operands: &[Value],
        props: AttrDict,
        types: Vec<Type>,
    ) -> Result<Vec<Value>, Refusal> {
        let inferred = self.infer(&name, operands, &props)?;
        let agree = |(found, wanted): (&Type, &Type)| {
            let (Some(found), Some(wanted)) = (found.as_tensor(), wanted.as_tensor()) else {
                return found == wanted;
            };
            let mut dims = found.dims.iter().zip(&wanted.dims);
            found.dtype == wanted.dtype
                && found.rank() == wanted.rank()
                && dims.all(|(a, b)| !a.differs(b))
        };
        let fits = inferred.len() == types.len() && inferred.iter().zip(&types).all(agree);
        ensure(fits, "the shape rule has another result")?;
        Ok(self.make(name, operands, props, types))
    }

    /// The result types of an operation by its shape rule.
    fn infer(
        &self,
        name: &str,
        operands: &[Value],
        props: &AttrDict,
    ) -> Result<Vec<Type>, Refusal> {
        let view = OpRef {
            name,
            operands: operands.iter().map(|&v| self.func.ty(v)).collect(),
            results: Vec::new(),
            props,
        };
        if self.registry.get(name).is_none() {
            return Err(Refusal("an operation of the patch is unknown"));
        }
        let types = self.registry.result_types(&view);
        types.map_err(|_| Refusal("the shape rule refuses the patch"))
    }

    fn make(
        &mut self,
        name: Arc<str>,
        operands: &[Value],
        props: AttrDict,
        types: Vec<Type>,
    ) -> Vec<Value> {
        let data = &self.func.ops[self.at];
        let (loc, span) = (data.loc.clone(), data.span);
        let op = self
            .func
            .make_op(name, operands.to_vec(), props, types, loc);
        self.func.ops[op].span = span;
        self.ops.push(op);
        self.func.ops[op].results.clone()
    }

    /// The type of a value.
    #[must_use]
    pub fn ty(&self, value: Value) -> Type {
        self.func.ty(value).clone()
    }

    /// Replaces the results of the operation by these values.
    pub fn replace(&mut self, values: &[Value]) {
        self.replacement = Some(values.to_vec());
    }
}

/// The root of a rule that looks at operations of every name.
pub const EVERY_OP: &str = "*";

/// A rule that is always an improvement and whose order does not matter; `canonicalize` applies it. A rule that an
/// equation says is a [`Rewrite`].
pub trait LocalRule: Send + Sync {
    /// Its kebab-case name.
    fn name(&self) -> &str;
    /// The equation that the rule stands for, as documentation prints it.
    fn equation(&self) -> &str;
    /// A summary in one line.
    fn summary(&self) -> &str {
        ""
    }
    /// The name of the operations that the rule looks at; [`EVERY_OP`] for all.
    fn root(&self) -> &str;
    /// Looks at the operation. Returns the changes to make, or the reason why the rule does not apply.
    ///
    /// # Errors
    /// The rule does not apply.
    fn plan(&self, site: Site<'_>) -> Result<Plan, Refusal>;
}

/// The changes that a rule decided on, as a function that writes them into a [`Patch`].
pub type Plan = Box<dyn FnOnce(&mut Patch<'_>) -> Result<(), Refusal>>;
