//! The trait of operations: a struct of attributes, and the facts and rules that the compiler needs.

use crate::codes;
use crate::diag::Code;
use crate::op::attributes::Attributes;
use crate::op::composition::Composition;
use crate::op::control::Control;
use crate::op::effect::Effect;
use crate::op::error::OpError;
use crate::op::eval::Call;
use crate::op::expression::Expr;
use crate::op::freedom::Freedom;
use crate::op::iteration_domain::{IterationDomain, Partial};
use crate::op::op_ref::{Inferred, OpRef};
use crate::op::over_axes::{self, Axes, OverAxes};
use crate::op::part::{Part, Update};
use crate::op::rearrangement::ViewDims;
use crate::op::traffic::Traffic;
use crate::tensor::{EvalError, Tensor};
use crate::types::Dim;

/// The role that an operation has for the compiler itself, beyond its declaration.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum Structure {
    /// None: the declaration says everything.
    Plain,
    /// A view: the elements of the operand are renamed in place. The layouts of operand and result must agree with
    /// [`Operation::rearrangement`].
    View,
    /// A conversion: the same value in the layout of the result type.
    Convert,
    /// A constant: elements in the program.
    Constant,
    /// A call of another function of the module.
    Call,
    /// An operation of another format: the results are those of the stated types, which need not be tensors.
    Opaque,
}

/// A function from the number of an operand to its constant value, if that is known.
pub type Known<'a> = dyn Fn(usize) -> Option<Tensor> + 'a;

/// An operation of a dialect. The struct has its attributes; the implementation has the facts and rules that passes,
/// interpreters and emitters use.
///
/// A user of the library implements it in the same way as the `hbir` dialect, and registers it with
/// [`Registry::add`](crate::Registry::add).
pub trait Operation: Attributes + Send + Sync + 'static {
    /// The full name, `hbir.reshape`.
    const NAME: &'static str;
    /// The summary: one line for the reference.
    const SUMMARY: &'static str;
    /// The row of a target's table in which the operation is looked up: `elementwise`, `softmax`, `norm`, `reduce`,
    /// `concat`, `slice`, `broadcast`, `gather`, `matmul`, `conv`, `pool`, `resize`, `rearrange`, `source`, `barrier`.
    const FAMILY: &'static str;
    /// The row in which an operation that is no barrier is looked up, if that differs from [`Operation::FAMILY`]. Its
    /// attributes may select another row ([`Operation::family_if_free`]).
    const FAMILY_IF_FREE: Option<&'static str> = None;
    /// The least and the greatest number of operands.
    const OPERANDS: (usize, usize);
    /// True if operands and results may have any element type, including types that no operation computes with:
    /// elements are only moved.
    const MOVES_ONLY: bool = false;
    /// True if every element of the results is an element of an operand, at any position. Operands that select elements
    /// (indices, conditions) do not count.
    const PASSES_ON: bool = false;
    /// The role that the operation has for the compiler itself.
    const STRUCTURE: Structure = Structure::Plain;
    /// True if attributes that the struct does not name are kept. Otherwise they are refused.
    const OPEN: bool = false;
    /// The numbered constraints, sorted by code.
    const CODES: &'static [Code] = &[];

    /// True if the result always is a part of the operand in place.
    const IS_PART: bool = false;

    /// Reads the attributes of an operation, after a check of its name.
    ///
    /// # Errors
    /// The name is that of another operation (`operation-kind`), or an attribute is missing or of the wrong kind.
    fn of(op: &OpRef<'_>) -> Result<Self, OpError> {
        if op.name == Self::NAME {
            return Self::read(op);
        }
        let message = format!("found {}, wanted {}", op.name, Self::NAME);
        Err(OpError::new(codes::OPERATION_KIND, message))
    }

    /// The shape rule: infers the result types from operand types and attributes, or returns the numbered constraint
    /// that does not hold.
    ///
    /// # Errors
    /// The first constraint that does not hold.
    fn infer(&self, op: &OpRef<'_>) -> Result<Vec<Inferred>, OpError>;

    /// The element of the result as an expression of one element of each operand. It is for operations with one result,
    /// to which the operands broadcast. A format without an equivalent operation writes the expression.
    fn expression(&self) -> Option<Expr> {
        None
    }

    /// The result as reductions and element-wise work between them. Formats without an operation of their own for it write the
    /// stages.
    fn composition(&self, op: &OpRef<'_>) -> Option<Composition> {
        let _ = op;
        None
    }

    /// The reference semantics on logical, row-major tensors: by default those of its [expression](Operation::expression),
    /// its [composition](Operation::composition) or its [rearrangement](Operation::rearrangement).
    ///
    /// # Errors
    /// An operand's data is out of the operation's domain (an index out of bounds).
    fn eval(&self, call: &Call<'_>) -> Result<Vec<Tensor>, EvalError> {
        let composition = || self.composition(call.op);
        derived(call, self.expression(), &composition, &|| {
            self.rearrangement(call.op)
        })
    }

    /// The row in which an operation with these attributes is looked up if it is no barrier; see
    /// [`Operation::FAMILY_IF_FREE`].
    fn family_if_free(&self, op: &OpRef<'_>) -> Option<&'static str> {
        let _ = op;
        Self::FAMILY_IF_FREE
    }

    /// The effect besides the results: by default none.
    fn effect(&self, op: &OpRef<'_>) -> Effect {
        let _ = op;
        Effect::Pure
    }

    /// The operation with its axes permuted: its form if operands and results are tensors over these axes. The form
    /// includes attributes, parameters and indices. `None` if there is no such form; then a format without layouts can
    /// only write the operation in its own dimensions.
    ///
    /// The default: an `elementwise` operation whose operands broadcast to its result, and which works along no
    /// dimension, has its own attributes over any axes.
    fn over_axes(&self, op: &OpRef<'_>, axes: &Axes<'_>) -> Option<OverAxes> {
        match Self::FAMILY {
            "elementwise" => {
                over_axes::elementwise(op, &Freedom::of(op, &self.iteration_domain(op).ok()?), axes)
            }
            _ => None,
        }
    }

    /// The loops, and the indexing maps of operands and results. The freedom of layouts ([`Freedom::of`]) and the
    /// propagation of tiles follow from them.
    ///
    /// The default: the operands of an `elementwise` operation broadcast to its result, an operation that only renames
    /// elements has the loops of its equivalent view, and any other operation is a barrier.
    ///
    /// # Errors
    /// A constraint does not hold; the operation is then a barrier.
    fn iteration_domain(&self, op: &OpRef<'_>) -> Result<IterationDomain, OpError> {
        if Self::FAMILY == "elementwise" {
            return IterationDomain::broadcasting(op);
        }
        match self.rearrangement(op) {
            Ok(view) => IterationDomain::of_view(op, &view),
            Err(_) => Ok(IterationDomain::whole(op)),
        }
    }

    /// The bytes that the operation moves.
    fn traffic(&self, op: &OpRef<'_>) -> Traffic {
        let _ = op;
        Traffic::None
    }

    /// The equivalent view of an operation that only renames elements.
    ///
    /// # Errors
    /// The operation does more (`not-a-rearrangement`), or the first of its constraints that does not hold.
    fn rearrangement(&self, op: &OpRef<'_>) -> Result<ViewDims, OpError> {
        Err(not_a_rearrangement(op))
    }

    /// The combination of partial results, if a reduction of the operation may be cut. By default it follows from the
    /// loops.
    fn partial(&self, op: &OpRef<'_>) -> Option<Partial> {
        self.iteration_domain(op).ok()?.partial()
    }

    /// The operand that the operation only rearranges, given its constant operands: the other operand of a product with
    /// a permutation matrix, for example.
    fn permutes(&self, op: &OpRef<'_>, known: &Known<'_>) -> Option<usize> {
        let _ = (op, known);
        None
    }

    /// The ports that are parts of other ports, given the constant operands. A part in the bytes of its whole is not
    /// copied.
    fn parts(&self, op: &OpRef<'_>, known: &Known<'_>) -> Vec<Part> {
        let _ = (op, known);
        Vec::new()
    }

    /// The operand that the operation copies and changes, if it is an [`Update`]. Its part need not be declared.
    fn updates(&self, op: &OpRef<'_>) -> Option<Update> {
        let _ = op;
        None
    }

    /// The functions of the module that the operation runs to compute its results.
    fn control(&self, op: &OpRef<'_>) -> Option<Control> {
        let _ = op;
        None
    }

    /// The operand that holds indices, and the sizes that they index: every index is below all of these sizes.
    fn indexed(&self, op: &OpRef<'_>) -> Option<(usize, Vec<Dim>)> {
        let _ = op;
        None
    }
}

/// The results of an operation by the first of its other declarations that there is.
fn derived(
    call: &Call<'_>,
    expression: Option<Expr>,
    composition: &dyn Fn() -> Option<Composition>,
    rearrangement: &dyn Fn() -> Result<ViewDims, OpError>,
) -> Result<Vec<Tensor>, EvalError> {
    if let Some(expression) = expression {
        return call.elementwise(&expression);
    }
    if let Some(composition) = composition() {
        return Ok(vec![composition.eval(call.inputs, call.dtype())?]);
    }
    let view = rearrangement()
        .map_err(|_| EvalError::new(format!("nobody says what {} gives", call.op.name)))?;
    call.rearranged(&view)
}

/// The error of an operation that does more than rearrange.
#[must_use]
pub fn not_a_rearrangement(op: &OpRef<'_>) -> OpError {
    OpError::new(
        codes::NOT_A_REARRANGEMENT,
        format!("{} does more than rearrange", op.name),
    )
}
