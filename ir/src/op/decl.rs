//! The declaration of an operation with its type erased, as the registry holds it.

use crate::attr::AttrDict;
use crate::diag::Code;
use crate::op::attributes::Field;
use crate::op::composition::Composition;
use crate::op::control::Control;
use crate::op::effect::Effect;
use crate::op::error::OpError;
use crate::op::eval::EvalContext;
use crate::op::expression::Expr;
use crate::op::freedom::{Freedom, FreedomClass};
use crate::op::iteration_domain::IterationDomain;
use crate::op::iteration_domain::Partial;
use crate::op::op_ref::{Inferred, OpRef};
use crate::op::operation::{Known, Structure};
use crate::op::over_axes::{Axes, OverAxes};
use crate::op::part::{Part, Update};
use crate::op::rearrangement::ViewDims;
use crate::op::traffic::Traffic;
use crate::tensor::{EvalError, Tensor};
use crate::types::{Dim, Type};

/// The declaration of one operation: a registered [`Operation`](crate::Operation) with its type erased.
pub trait OpDecl: Send + Sync {
    /// The full name, `hbir.reshape`.
    fn name(&self) -> &'static str;

    /// The summary: one line for the reference.
    fn summary(&self) -> &'static str;

    /// The row of a target's table in which the operation is looked up; see
    /// [`Operation::FAMILY`](crate::Operation::FAMILY).
    fn family(&self) -> &'static str;

    /// The row for an operation that is no barrier, if it differs from [`OpDecl::family`].
    fn family_if_free(&self) -> Option<&'static str>;

    /// As [`OpDecl::family_if_free`], for an operation with attributes.
    fn family_if_free_of(&self, op: &OpRef<'_>) -> Option<&'static str>;

    /// The row in which an operation with attributes is looked up.
    fn family_of(&self, op: &OpRef<'_>) -> &'static str {
        let free = |_: &&'static str| self.freedom(op).class != FreedomClass::Barrier;
        let other = self.family_if_free_of(op).filter(free);
        other.unwrap_or_else(|| self.family())
    }

    /// The role that the operation has for the compiler itself.
    fn structure(&self) -> Structure;

    /// The attributes of the operation.
    fn fields(&self) -> &'static [Field];

    /// The attributes of an operation with the defaults filled in.
    ///
    /// # Errors
    /// The name is that of another operation, or an attribute is missing or of the wrong kind.
    fn attributes(&self, op: &OpRef<'_>) -> Result<AttrDict, OpError>;

    /// The numbered constraints.
    fn codes(&self) -> &'static [Code];

    /// The shape rule; see [`Operation::infer`](crate::Operation::infer). It also refuses a wrong number of operands,
    /// and attributes that the operation does not know.
    ///
    /// # Errors
    /// The first constraint that does not hold.
    fn infer(&self, op: &OpRef<'_>) -> Result<Vec<Inferred>, OpError>;

    /// The element of the result as an expression of one element of each operand; see
    /// [`Operation::expression`](crate::Operation::expression).
    fn expression(&self, op: &OpRef<'_>) -> Option<Expr>;

    /// The result as reductions and element-wise work; see [`Operation::composition`](crate::Operation::composition).
    fn composition(&self, op: &OpRef<'_>) -> Option<Composition>;

    /// The reference semantics on logical, row-major tensors.
    ///
    /// # Errors
    /// An operand's data is out of the operation's domain (an index out of bounds).
    fn eval(
        &self,
        op: &OpRef<'_>,
        inputs: &[&Tensor],
        cx: &EvalContext<'_>,
    ) -> Result<Vec<Tensor>, EvalError>;

    /// The effect besides the results.
    fn effect(&self, op: &OpRef<'_>) -> Effect;

    /// The relation between the orders of operands and results; a barrier if the operation is not well formed.
    fn freedom(&self, op: &OpRef<'_>) -> Freedom;

    /// The operation with its axes permuted; see [`Operation::over_axes`](crate::Operation::over_axes). `None` if the
    /// operation is not well formed.
    fn over_axes(&self, op: &OpRef<'_>, axes: &Axes<'_>) -> Option<OverAxes>;

    /// The loops along which tiles are propagated. Every dimension is whole if the operation is not well formed.
    ///
    /// Callers use [`iteration_domain_of`] instead, which also accepts unknown sizes.
    fn iteration_domain(&self, op: &OpRef<'_>) -> IterationDomain;

    /// The bytes that the operation moves.
    fn traffic(&self, op: &OpRef<'_>) -> Traffic;

    /// The equivalent view; see [`Operation::rearrangement`](crate::Operation::rearrangement).
    ///
    /// # Errors
    /// The operation does more than rearrange, or is not well formed.
    fn rearrangement(&self, op: &OpRef<'_>) -> Result<ViewDims, OpError>;

    /// The combination of partial results; see [`Operation::partial`](crate::Operation::partial).
    fn partial(&self, op: &OpRef<'_>) -> Option<Partial>;

    /// The operand that the operation only rearranges; see [`Operation::permutes`](crate::Operation::permutes).
    fn permutes(&self, op: &OpRef<'_>, known: &Known<'_>) -> Option<usize>;

    /// Returns whether the result always is a part of the operand in place; see
    /// [`Operation::IS_PART`](crate::Operation::IS_PART).
    fn is_part(&self) -> bool;

    /// The ports that are parts of other ports; see [`Operation::parts`](crate::Operation::parts).
    fn parts(&self, op: &OpRef<'_>, known: &Known<'_>) -> Vec<Part>;

    /// The operand that the operation copies and changes; see [`Operation::updates`](crate::Operation::updates).
    fn updates(&self, op: &OpRef<'_>) -> Option<Update>;

    /// Returns whether every element of the results is an element of an operand; see
    /// [`Operation::PASSES_ON`](crate::Operation::PASSES_ON).
    fn passes_on(&self, op: &OpRef<'_>) -> bool;

    /// The functions of the module that the operation runs; see [`Operation::control`](crate::Operation::control).
    fn control(&self, op: &OpRef<'_>) -> Option<Control>;

    /// The operand that holds indices, and the sizes that they index.
    fn indexed(&self, op: &OpRef<'_>) -> Option<(usize, Vec<Dim>)>;
}

/// The loops of an operation by its declaration. Every dimension is whole if there is no declaration, or if a size is
/// unknown.
#[must_use]
pub fn iteration_domain_of(decl: Option<&dyn OpDecl>, op: &OpRef<'_>) -> IterationDomain {
    let known = |ty: &&Type| ty.as_tensor().is_none_or(|t| t.shape().is_some());
    let all_known = op.operands.iter().chain(&op.results).all(known);
    match decl {
        Some(decl) if all_known => {
            let access = decl.iteration_domain(op);
            if access.fits(op) {
                access
            } else {
                IterationDomain::whole(op)
            }
        }
        _ => IterationDomain::whole(op),
    }
}
