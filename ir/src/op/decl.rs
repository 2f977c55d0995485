//! An operation's declaration with its type erased: what the registry holds and everybody asks.

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
use crate::op::part::Part;
use crate::op::rearrangement::ViewDims;
use crate::op::traffic::Traffic;
use crate::tensor::{EvalError, Tensor};
use crate::types::{Dim, Type};

/// Everything the compiler knows about one operation: a registered [`Operation`](crate::Operation), its types erased.
pub trait OpDecl: Send + Sync {
    /// The full name, `hbir.reshape`.
    fn name(&self) -> &'static str;

    /// One line for the reference.
    fn summary(&self) -> &'static str;

    /// The row of a target's table this operation is looked up in; see [`Operation::FAMILY`](crate::Operation::FAMILY).
    fn family(&self) -> &'static str;

    /// The row in which it is looked up where it is no barrier, if that is another one.
    fn family_if_free(&self) -> Option<&'static str>;

    /// The same of an operation with attributes.
    fn family_if_free_of(&self, op: &OpRef<'_>) -> Option<&'static str>;

    /// The row in which this operation is looked up.
    fn family_of(&self, op: &OpRef<'_>) -> &'static str {
        let free = |_: &&'static str| self.freedom(op).class != FreedomClass::Barrier;
        let other = self.family_if_free_of(op).filter(free);
        other.unwrap_or_else(|| self.family())
    }

    /// The role that the operation has for the compiler itself.
    fn structure(&self) -> Structure;

    /// Its attributes.
    fn fields(&self) -> &'static [Field];

    /// The attributes of an operation as they are read: those that have a default are filled in.
    ///
    /// # Errors
    /// It is another operation, or an attribute is missing or of the wrong kind.
    fn attributes(&self, op: &OpRef<'_>) -> Result<AttrDict, OpError>;

    /// Its numbered constraints.
    fn codes(&self) -> &'static [Code];

    /// The shape rule; see [`Operation::infer`](crate::Operation::infer). Wrong numbers of operands and attributes that the
    /// operation does not know are refused too.
    ///
    /// # Errors
    /// The first constraint that does not hold.
    fn infer(&self, op: &OpRef<'_>) -> Result<Vec<Inferred>, OpError>;

    /// The result's element as an expression of one element of each operand; see [`Operation::expression`](crate::Operation::expression).
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

    /// Effects besides giving results.
    fn effect(&self, op: &OpRef<'_>) -> Effect;

    /// How orders of operands map to orders of results; a barrier where the operation is not well formed.
    fn freedom(&self, op: &OpRef<'_>) -> Freedom;

    /// Itself with its axes permuted; see [`Operation::over_axes`](crate::Operation::over_axes). Nothing where the operation is not well
    /// formed.
    fn over_axes(&self, op: &OpRef<'_>, axes: &Axes<'_>) -> Option<OverAxes>;

    /// The loops by which tiles are carried; every dimension whole where the operation is not well formed.
    ///
    /// Read it by [`iteration_domain_of`].
    fn iteration_domain(&self, op: &OpRef<'_>) -> IterationDomain;

    /// Data that executing the operation moves.
    fn traffic(&self, op: &OpRef<'_>) -> Traffic;

    /// The view that does the same; see [`Operation::rearrangement`](crate::Operation::rearrangement).
    ///
    /// # Errors
    /// It does more than rearrange, or is not well formed.
    fn rearrangement(&self, op: &OpRef<'_>) -> Result<ViewDims, OpError>;

    /// How partial results become one.
    fn partial(&self, op: &OpRef<'_>) -> Option<Partial>;

    /// The operand that it only rearranges; see [`Operation::permutes`](crate::Operation::permutes).
    fn permutes(&self, op: &OpRef<'_>, known: &Known<'_>) -> Option<usize>;

    /// Whether its result always is a part of its operand where that lies.
    fn is_part(&self) -> bool;

    /// The ports that are parts of other ports; see [`Operation::parts`](crate::Operation::parts).
    fn parts(&self, op: &OpRef<'_>, known: &Known<'_>) -> Vec<Part>;

    /// Whether every element of its results is one of its operands'.
    fn passes_on(&self, op: &OpRef<'_>) -> bool;

    /// The functions of the module that it runs; see [`Operation::control`](crate::Operation::control).
    fn control(&self, op: &OpRef<'_>) -> Option<Control>;

    /// The operand that holds indices, and the sizes that they index.
    fn indexed(&self, op: &OpRef<'_>) -> Option<(usize, Vec<Dim>)>;
}

/// The access of an operation by its declaration; whole where a size is not known.
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
