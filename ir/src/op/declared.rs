//! An implementation of [`Operation`] as an [`OpDecl`]: operand counts, attributes and types are checked before a rule
//! runs.

use crate::attr::AttrDict;
use crate::codes;
use crate::diag::{Code, nearest};
use crate::op::attributes::Field;
use crate::op::composition::Composition;
use crate::op::control::Control;
use crate::op::decl::OpDecl;
use crate::op::effect::Effect;
use crate::op::error::OpError;
use crate::op::eval::{Call, EvalContext, Target, believable, bind_dims};
use crate::op::expression::Expr;
use crate::op::extents::compatible;
use crate::op::freedom::Freedom;
use crate::op::iteration_domain::{IterationDomain, Partial};
use crate::op::op_ref::{Inferred, OpRef};
use crate::op::operation::{Known, Operation, Structure};
use crate::op::over_axes::{Axes, OverAxes};
use crate::op::part::{Part, Update};
use crate::op::rearrangement::ViewDims;
use crate::op::traffic::Traffic;
use crate::tensor::{EvalError, Tensor};
use crate::types::{Dim, Type};
use std::marker::PhantomData;

/// A registered [`Operation`].
pub(crate) struct Declared<T>(PhantomData<fn() -> T>);

impl<T: Operation> Declared<T> {
    pub(crate) const NEW: Declared<T> = Declared(PhantomData);

    /// The struct and the result types, after all checks.
    fn checked(&self, op: &OpRef<'_>) -> Result<(T, Vec<Inferred>), OpError> {
        operand_count(op, T::OPERANDS)?;
        if !T::OPEN {
            known_attributes(op, T::FIELDS)?;
        }
        let typed = T::read(op)?;
        let inferred = typed.infer(op)?;
        if !T::MOVES_ONLY {
            computable(op, &inferred)?;
        }
        Ok((typed, inferred))
    }

    /// The struct, if the shape rule holds and infers the stated result types.
    fn well_formed(&self, op: &OpRef<'_>) -> Option<T> {
        let (typed, inferred) = self.checked(op).ok()?;
        has_results(op, &inferred).then_some(typed)
    }

    /// The loops, if the operation is well formed.
    fn loops(&self, op: &OpRef<'_>) -> Option<IterationDomain> {
        self.well_formed(op)?.iteration_domain(op).ok()
    }
}

impl<T: Operation> OpDecl for Declared<T> {
    fn name(&self) -> &'static str {
        T::NAME
    }
    fn summary(&self) -> &'static str {
        T::SUMMARY
    }
    fn family(&self) -> &'static str {
        T::FAMILY
    }
    fn family_if_free(&self) -> Option<&'static str> {
        T::FAMILY_IF_FREE
    }
    fn family_if_free_of(&self, op: &OpRef<'_>) -> Option<&'static str> {
        T::FAMILY_IF_FREE?;
        T::read(op).map_or(T::FAMILY_IF_FREE, |typed| typed.family_if_free(op))
    }
    fn structure(&self) -> Structure {
        T::STRUCTURE
    }
    fn fields(&self) -> &'static [Field] {
        T::FIELDS
    }
    fn attributes(&self, op: &OpRef<'_>) -> Result<AttrDict, OpError> {
        T::of(op).map(|typed| typed.write())
    }
    fn codes(&self) -> &'static [Code] {
        T::CODES
    }
    fn infer(&self, op: &OpRef<'_>) -> Result<Vec<Inferred>, OpError> {
        self.checked(op).map(|(_, inferred)| inferred)
    }
    fn expression(&self, op: &OpRef<'_>) -> Option<Expr> {
        T::read(op).ok()?.expression()
    }
    fn composition(&self, op: &OpRef<'_>) -> Option<Composition> {
        self.well_formed(op)?.composition(op)
    }
    fn eval(
        &self,
        op: &OpRef<'_>,
        inputs: &[&Tensor],
        cx: &EvalContext<'_>,
    ) -> Result<Vec<Tensor>, EvalError> {
        let concrete = Concrete::of(op, T::OPEN, inputs, cx)?;
        let op = &concrete.op(op);
        let (typed, inferred) = self.checked(op)?;
        let renames = T::STRUCTURE == Structure::Convert || typed.rearrangement(op).is_ok();
        let results = targets(inferred, renames, inputs, cx)?;
        typed.eval(&Call {
            op,
            inputs,
            results,
            cx,
        })
    }
    fn effect(&self, op: &OpRef<'_>) -> Effect {
        T::read(op).map_or(Effect::Write, |typed| typed.effect(op))
    }
    fn freedom(&self, op: &OpRef<'_>) -> Freedom {
        match self.loops(op) {
            Some(domain) => Freedom::of(op, &domain),
            None => Freedom::barrier(op),
        }
    }
    fn over_axes(&self, op: &OpRef<'_>, axes: &Axes<'_>) -> Option<OverAxes> {
        self.well_formed(op)?.over_axes(op, axes)
    }
    fn iteration_domain(&self, op: &OpRef<'_>) -> IterationDomain {
        match self.loops(op) {
            Some(domain) => domain.without_whole(),
            None => IterationDomain::whole(op),
        }
    }
    fn traffic(&self, op: &OpRef<'_>) -> Traffic {
        T::read(op).map_or(Traffic::None, |typed| typed.traffic(op))
    }
    fn rearrangement(&self, op: &OpRef<'_>) -> Result<ViewDims, OpError> {
        T::read(op)?.rearrangement(op)
    }
    fn partial(&self, op: &OpRef<'_>) -> Option<Partial> {
        self.well_formed(op)?.partial(op)
    }
    fn permutes(&self, op: &OpRef<'_>, known: &Known<'_>) -> Option<usize> {
        T::read(op).ok()?.permutes(op, known)
    }
    fn is_part(&self) -> bool {
        T::IS_PART
    }
    fn parts(&self, op: &OpRef<'_>, known: &Known<'_>) -> Vec<Part> {
        let Ok(typed) = T::read(op) else {
            return Vec::new();
        };
        let mut parts = typed.parts(op, known);
        parts.extend(typed.updates(op).and_then(|update| update.part(op)));
        fitting(parts, op)
    }
    fn updates(&self, op: &OpRef<'_>) -> Option<Update> {
        T::read(op).ok()?.updates(op)
    }
    fn passes_on(&self, op: &OpRef<'_>) -> bool {
        T::PASSES_ON && T::read(op).is_ok()
    }
    fn control(&self, op: &OpRef<'_>) -> Option<Control> {
        T::read(op).ok()?.control(op)
    }
    fn indexed(&self, op: &OpRef<'_>) -> Option<(usize, Vec<Dim>)> {
        T::read(op).ok()?.indexed(op)
    }
}

/// Returns whether an operation has results of these types.
fn has_results(op: &OpRef<'_>, inferred: &[Inferred]) -> bool {
    let fits = |(i, wanted): (usize, &Inferred)| {
        op.result(i)
            .is_ok_and(|found| compatible(&found.dims, &wanted.dims))
    };
    inferred.len() == op.results.len() && inferred.iter().enumerate().all(fits)
}

/// The parts that fit the types of the operation.
fn fitting(mut parts: Vec<Part>, op: &OpRef<'_>) -> Vec<Part> {
    parts.retain(|part| part.fits(op));
    parts
}

/// Refuses an attribute that the operation does not know, since its meaning would be lost.
fn known_attributes(op: &OpRef<'_>, fields: &[Field]) -> Result<(), OpError> {
    let known = |name: &str| fields.iter().any(|f| f.name == name);
    let Some((name, _)) = op.props.iter().find(|(name, _)| !known(name)) else {
        return Ok(());
    };
    let names: Vec<&str> = fields.iter().map(|f| f.name).collect();
    let wanted = match names.as_slice() {
        [] => "none".to_owned(),
        names => format!("`{}`", names.join("`, `")),
    };
    let message = format!(
        "{} has the attribute `{name}`, which it does not know, wanted {wanted}",
        op.name
    );
    let error = OpError::new(codes::ATTRIBUTE_UNKNOWN, message);
    Err(match nearest(name, names.iter().copied()) {
        Some(near) => error.hint(format!("did you mean `{near}`?")),
        None => {
            error.hint("attributes that the operation does not declare go into `{…}` after `<{…}>`")
        }
    })
}

/// Refuses element types that no operation computes with.
fn computable(op: &OpRef<'_>, results: &[Inferred]) -> Result<(), OpError> {
    let operands = op.operands.iter().filter_map(|ty| ty.as_tensor());
    let types = operands.map(|t| t.dtype);
    let mut types = types.chain(results.iter().map(|r| r.dtype));
    let Some(stored) = types.find(|dtype| !dtype.computes()) else {
        return Ok(());
    };
    let message = format!("{} of {stored}, wanted a type to compute with", op.name);
    Err(OpError::new(codes::ELEMENT_TYPE_STORED, message)
        .hint("such elements are moved and, small floats, converted by hbir.cast"))
}

/// Refuses a wrong number of operands.
fn operand_count(op: &OpRef<'_>, wanted: (usize, usize)) -> Result<(), OpError> {
    let found = op.operands.len();
    if wanted.0 <= found && found <= wanted.1 {
        return Ok(());
    }
    let wanted = match wanted {
        (a, b) if a == b => format!("{a}"),
        (a, usize::MAX) => format!("at least {a}"),
        (a, b) => format!("{a} to {b}"),
    };
    let message = format!("{} has {found} operands, wanted {wanted}", op.name);
    Err(OpError::new(codes::OPERAND_COUNT, message))
}

/// The types and attributes of an operation that is evaluated: the types have the actual extents of the operands.
struct Concrete {
    operands: Vec<Type>,
    results: Vec<Type>,
    numbers: Option<AttrDict>,
}

impl Concrete {
    /// The types and attributes for these operands; the attributes of an open operation stay as they are.
    fn of(
        op: &OpRef<'_>,
        is_open: bool,
        inputs: &[&Tensor],
        cx: &EvalContext<'_>,
    ) -> Result<Concrete, EvalError> {
        inputs.iter().try_for_each(|t| believable(&t.shape))?;
        let has_numbers = !is_open && !cx.bindings.0.is_empty();
        Ok(Concrete {
            operands: inputs.iter().map(|t| tensor_type(t)).collect(),
            // The result types and attributes get numbers too: the rule must not compare a number with a name, which
            // it takes to be at least 1 although it may be bound to 0.
            results: op.results.iter().map(|ty| bound(ty, cx)).collect(),
            numbers: has_numbers.then(|| cx.bindings.numbers(op.props)),
        })
    }

    /// The operation with these types and attributes.
    fn op<'a>(&'a self, op: &OpRef<'a>) -> OpRef<'a> {
        OpRef {
            name: op.name,
            operands: self.operands.iter().collect(),
            results: self.results.iter().collect(),
            props: self.numbers.as_ref().unwrap_or(op.props),
        }
    }
}

/// The shapes and types of the results; an operation that only renames elements has as many as its first operand.
fn targets(
    inferred: Vec<Inferred>,
    renames: bool,
    inputs: &[&Tensor],
    cx: &EvalContext<'_>,
) -> Result<Vec<Target>, EvalError> {
    let elements = inputs.first().filter(|_| renames).map(|t| t.len());
    let target = |result: Inferred| {
        let shape = bind_dims(&result.dims, cx, elements)?;
        let dtype = result.dtype;
        Ok(Target { shape, dtype })
    };
    inferred.into_iter().map(target).collect()
}

/// The type with bound sizes replaced by their numbers.
fn bound(ty: &Type, cx: &EvalContext<'_>) -> Type {
    let named = |dim: &Dim| matches!(dim, Dim::Symbol(_));
    let Some(tensor) = ty.as_tensor().filter(|ty| ty.dims.iter().any(named)) else {
        return ty.clone();
    };
    let mut tensor = tensor.clone();
    for dim in &mut tensor.dims {
        if let Some(n) = cx.bindings.size(dim) {
            *dim = Dim::Fixed(n);
        }
    }
    tensor.into()
}

fn tensor_type(tensor: &Tensor) -> Type {
    let shape: Vec<u64> = tensor.shape.iter().map(|&n| n as u64).collect();
    Type::tensor(&shape, tensor.dtype)
}
