//! The trait of operations: a typed struct of attributes and everything the compiler asks of it.

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
use crate::op::part::Part;
use crate::op::rearrangement::ViewDims;
use crate::op::traffic::Traffic;
use crate::tensor::{EvalError, Tensor};
use crate::types::Dim;

/// The role that an operation has for the compiler itself, beyond its declaration.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum Structure {
    /// Nothing: its declaration says all.
    Plain,
    /// Renames the elements of its operand where they lie: the layouts of operand and result must agree
    /// with [`Operation::rearrangement`].
    View,
    /// The same value in the result's layout.
    Convert,
    /// Elements that the program carries.
    Constant,
    /// The results of another function of the module.
    Call,
    /// An operation of another format: the results are what their types say, and need be no tensors.
    Opaque,
}

/// The constant operands of an operation, as far as they are known.
pub type Known<'a> = dyn Fn(usize) -> Option<Tensor> + 'a;

/// An operation of a dialect: the struct has its attributes, the implementation everything that passes,
/// interpreters and emitters ask of it.
///
/// A user of the library implements it as the `hbir` dialect does, and registers it with
/// [`Registry::add`](crate::Registry::add).
pub trait Operation: Attributes + Send + Sync + 'static {
    /// The full name, `hbir.reshape`.
    const NAME: &'static str;
    /// One line for the reference.
    const SUMMARY: &'static str;
    /// The row of a target's table this operation is looked up in: `elementwise`, `softmax`,
    /// `norm`, `reduce`, `concat`, `slice`, `broadcast`, `gather`, `matmul`, `conv`, `pool`,
    /// `resize`, `rearrange`, `source`, `barrier`.
    const FAMILY: &'static str;
    /// The row in which it is looked up where it is no barrier, if that is another one than [`Operation::FAMILY`], unless its
    /// attributes say more.
    const FAMILY_IF_FREE: Option<&'static str> = None;
    /// The least and the greatest number of operands.
    const OPERANDS: (usize, usize);
    /// Whether it takes and gives every element type, also those that nothing computes with: it moves
    /// elements alone.
    const MOVES_ONLY: bool = false;
    /// The role that the operation has for the compiler itself.
    const STRUCTURE: Structure = Structure::Plain;
    /// Whether attributes that the struct does not name are kept. Otherwise they are refused.
    const OPEN: bool = false;
    /// The numbered constraints, sorted by code.
    const CODES: &'static [Code] = &[];

    /// Whether its result always is a part of its operand where that lies.
    const IS_PART: bool = false;

    /// Its attributes; the operation is looked up by its name first.
    ///
    /// # Errors
    /// It is another operation (`operation-kind`), or an attribute is missing or of the wrong kind.
    fn of(op: &OpRef<'_>) -> Result<Self, OpError> {
        if op.name == Self::NAME {
            return Self::read(op);
        }
        let message = format!("found {}, wanted {}", op.name, Self::NAME);
        Err(OpError::new(codes::OPERATION_KIND, message))
    }

    /// The shape rule: result types from operand types and attributes, or the numbered constraint
    /// that does not hold.
    ///
    /// # Errors
    /// The first constraint that does not hold.
    fn infer(&self, op: &OpRef<'_>) -> Result<Vec<Inferred>, OpError>;

    /// The result's element as an expression of one element of each operand, for an operation whose operands broadcast to its one result. Formats without an
    /// operation of their own for it write the expression.
    fn expression(&self) -> Option<Expr> {
        None
    }

    /// The result as reductions and element-wise work between them. Formats without an operation of their own for it write the
    /// stages.
    fn composition(&self, op: &OpRef<'_>) -> Option<Composition> {
        let _ = op;
        None
    }

    /// The reference semantics on logical, row-major tensors: by default those of its [expression](Operation::expression) or of
    /// its [composition](Operation::composition).
    ///
    /// # Errors
    /// An operand's data is out of the operation's domain (an index out of bounds).
    fn eval(&self, call: &Call<'_>) -> Result<Vec<Tensor>, EvalError> {
        if let Some(expression) = self.expression() {
            return call.elementwise(&expression);
        }
        let composition = self
            .composition(call.op)
            .ok_or_else(|| EvalError::new(format!("nobody says what {} gives", Self::NAME)))?;
        Ok(vec![composition.eval(call.inputs, call.dtype())?])
    }

    /// The row in which it is looked up where it is no barrier, if that is another one than [`Operation::FAMILY`].
    fn family_if_free(&self, op: &OpRef<'_>) -> Option<&'static str> {
        let _ = op;
        Self::FAMILY_IF_FREE
    }

    /// Effects besides giving results.
    fn effect(&self, op: &OpRef<'_>) -> Effect;

    /// Itself with its axes permuted: what it becomes where its operands and results are tensors over these axes, attributes,
    /// parameters and indices included. Nothing where it has no such form; then a format without layouts has it in its own
    /// dimensions alone.
    ///
    /// By default an `elementwise` operation whose operands broadcast to its result, and that works along no dimension, is itself over
    /// any axes.
    fn over_axes(&self, op: &OpRef<'_>, axes: &Axes<'_>) -> Option<OverAxes> {
        match Self::FAMILY {
            "elementwise" => {
                over_axes::elementwise(op, &Freedom::of(op, &self.iteration_domain(op).ok()?), axes)
            }
            _ => None,
        }
    }

    /// The loops and what they touch of the operands and results. What its layouts leave free ([`Freedom::of`]) and how tiles
    /// are carried through it follow from them.
    ///
    /// By default the operands of an `elementwise` operation broadcast to its result, and what only renames elements has the
    /// loops of its view; nothing is known of any other operation.
    ///
    /// # Errors
    /// A constraint does not hold; then nothing is known of it.
    fn iteration_domain(&self, op: &OpRef<'_>) -> Result<IterationDomain, OpError> {
        if Self::FAMILY == "elementwise" {
            return IterationDomain::broadcasting(op);
        }
        match self.rearrangement(op) {
            Ok(view) => IterationDomain::of_view(op, &view),
            Err(_) => Ok(IterationDomain::whole(op)),
        }
    }

    /// Data that executing the operation moves.
    fn traffic(&self, op: &OpRef<'_>) -> Traffic {
        let _ = op;
        Traffic::None
    }

    /// The view that does the same, of an operation that only renames elements.
    ///
    /// # Errors
    /// It does more (`not-a-rearrangement`), or the first of its constraints that does not hold.
    fn rearrangement(&self, op: &OpRef<'_>) -> Result<ViewDims, OpError> {
        Err(not_a_rearrangement(op))
    }

    /// How partial results become one, if it may be cut along what it adds up: by default as its
    /// loops say.
    fn partial(&self, op: &OpRef<'_>) -> Option<Partial> {
        self.iteration_domain(op).ok()?.partial()
    }

    /// The operand that it only rearranges, given the operands that are constants: the other side of a
    /// product with a permutation matrix.
    fn permutes(&self, op: &OpRef<'_>, known: &Known<'_>) -> Option<usize> {
        let _ = (op, known);
        None
    }

    /// The ports that are parts of other ports, given the operands that are constants. One that lies in the bytes of its
    /// whole is not copied.
    fn parts(&self, op: &OpRef<'_>, known: &Known<'_>) -> Vec<Part> {
        let _ = (op, known);
        Vec::new()
    }

    /// Whether every element of its results is one of its operands', wherever it lies; those that say which are left out.
    fn passes_on(&self) -> bool {
        false
    }

    /// The functions of the module that it runs in order to give its results.
    fn control(&self, op: &OpRef<'_>) -> Option<Control> {
        let _ = op;
        None
    }

    /// The operand that holds indices, and the sizes that they index: an index is below all of them.
    fn indexed(&self, op: &OpRef<'_>) -> Option<(usize, Vec<Dim>)> {
        let _ = op;
        None
    }
}

/// The error of an operation that does more than rearrange.
#[must_use]
pub fn not_a_rearrangement(op: &OpRef<'_>) -> OpError {
    OpError::new(
        codes::NOT_A_REARRANGEMENT,
        format!("{} does more than rearrange", op.name),
    )
}
