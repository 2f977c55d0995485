//! Compositions: operations that reduce along dimensions of their first operand and compute element-wise around the
//! reductions.
//!
//! An operation states its composition once, beside its attributes. Formats that have no operation of their own for it
//! write its stages.
//!
//! ```
//! use optc_ir::op::{Combine, Composition, Expr};
//!
//! // A softmax along dimension 1 of its only operand.
//! let mut softmax = Composition::new(1, vec![1]);
//! let greatest = softmax.reduce(Combine::Max, Expr::A, Expr::A);
//! let powers = softmax.each((Expr::A - greatest).exp());
//! let sum = softmax.reduce(Combine::Add, powers.clone(), Expr::A);
//! softmax.each(powers / sum);
//! assert_eq!(softmax.stages.len(), 4);
//! ```

use crate::op::evaluate::Numbers;
use crate::op::expression::{Binary, Expr};
use crate::op::iteration_domain::Combine;
use crate::op::op_ref::OpRef;
use crate::tensor::{EvalError, Offsets, Tensor};
use crate::types::DType;

/// The stages that compute an operation's result, which has the shape of operand 0.
///
/// Expressions name operands by their numbers, and the stages behind them: of an operation with two operands,
/// [`Expr::Operand`] 2 is the first stage. Numbers narrower than `f32` are computed in `f32`; the last stage is converted
/// to the type of the result.
#[derive(Clone, Debug, PartialEq)]
pub struct Composition {
    /// For each operand the dimension of operand 0 that its first dimension stands for. The following dimensions stand
    /// for the following ones; dimensions of extent 1 broadcast.
    pub at: Vec<usize>,
    /// The dimensions of operand 0 along which elements are combined, ascending.
    pub along: Vec<usize>,
    /// The number of groups into which dimension 1 is cut, if the elements of a group are combined along it too.
    pub groups: Option<u64>,
    /// The stages; the last one is [`Stage::Each`] and gives the result.
    pub stages: Vec<Stage>,
}

/// A step of a [`Composition`].
#[derive(Clone, Debug, PartialEq)]
pub enum Stage {
    /// A number for each element of operand 0.
    Each(Expr),
    /// A number for all elements that are combined.
    Reduce {
        /// How two numbers become one.
        combine: Combine,
        /// The number of each element.
        of: Expr,
        /// The stage's value, in terms of the combination ([`Expr::A`]) and of the number of elements ([`Expr::B`]).
        then: Expr,
    },
}

impl Composition {
    /// A composition without stages, of so many operands of the shape of the first.
    #[must_use]
    pub fn new(operands: usize, along: Vec<usize>) -> Composition {
        Composition {
            at: vec![0; operands],
            along,
            groups: None,
            stages: Vec::new(),
        }
    }

    /// A composition without stages of an operation whose operands broadcast by numpy's rule.
    #[must_use]
    pub fn broadcasting(op: &OpRef<'_>, along: Vec<usize>) -> Composition {
        let rank = |i: usize| op.operand(i).map_or(0, |ty| ty.rank());
        let ranks = (0..op.operands.len()).map(|i| rank(0).saturating_sub(rank(i)));
        Composition {
            at: ranks.collect(),
            ..Composition::new(0, along)
        }
    }

    /// Adds a stage with a number for each element. Returns the stage as an operand of further expressions.
    pub fn each(&mut self, expr: Expr) -> Expr {
        self.add(Stage::Each(expr))
    }

    /// Adds a reduction. Returns the stage as an operand of further expressions.
    pub fn reduce(&mut self, combine: Combine, of: Expr, then: Expr) -> Expr {
        self.add(Stage::Reduce { combine, of, then })
    }

    fn add(&mut self, stage: Stage) -> Expr {
        self.stages.push(stage);
        Expr::Operand(self.at.len() + self.stages.len() - 1)
    }

    /// The number of consecutive indices of dimension 1 that are combined, of so many in all; `None` without groups, or
    /// if the groups do not divide them.
    #[must_use]
    pub fn group(&self, channels: u64) -> Option<u64> {
        let groups = self.groups.filter(|&n| 0 < n)?;
        channels.is_multiple_of(groups).then_some(channels / groups)
    }
}

impl Combine {
    /// The function of two numbers.
    #[must_use]
    pub fn function(self) -> Binary {
        match self {
            Combine::Add => Binary::Add,
            Combine::Multiply => Binary::Mul,
            Combine::Max => Binary::Max,
            Combine::Min => Binary::Min,
        }
    }
}

impl Composition {
    /// The result for these operands: floats as `f64`, rounded once to `dtype`.
    ///
    /// # Errors
    /// An expression reads an operand or a stage that is missing, or an operand is not of floats.
    pub fn eval(&self, inputs: &[&Tensor], dtype: DType) -> Result<Tensor, EvalError> {
        let wrong = || EvalError::new("a composition reads what it does not have");
        let shape = &inputs.first().ok_or_else(wrong)?.shape;
        let mut values = Vec::with_capacity(self.at.len() + self.stages.len());
        for (x, &at) in inputs.iter().zip(&self.at) {
            // The operand with further dimensions of extent 1, so that numpy's rule broadcasts it.
            let mut dims = x.shape.clone();
            dims.resize(shape.len().saturating_sub(at), 1);
            let at = Offsets::broadcast(&dims, shape);
            values.push(Numbers::floats(at.picked(&x.to_f64())));
        }
        let (lanes, count) = lanes(self, shape);
        for stage in &self.stages {
            let made = stage.eval(&values, &lanes, count).ok_or_else(wrong)?;
            values.push(Numbers::floats(made));
        }
        let last = values.pop().and_then(|x| x.all(lanes.len()));
        Ok(Tensor::from_f64(
            dtype,
            shape.clone(),
            last.ok_or_else(wrong)?,
        ))
    }
}

impl Stage {
    /// A number for each element, of the operands and the stages before. `lanes` has for each element the first one that it
    /// is combined with, `count` is the number of elements that are combined.
    fn eval(&self, values: &[Numbers], lanes: &[usize], count: f64) -> Option<Vec<f64>> {
        let (combine, of, then) = match self {
            Stage::Each(expr) => return expr.evaluated(values)?.all(lanes.len()),
            Stage::Reduce { combine, of, then } => (combine, of, then),
        };
        let mut combined: Vec<Option<f64>> = vec![None; lanes.len()];
        let each = of.evaluated(values)?.all(lanes.len())?;
        for (x, &lane) in each.into_iter().zip(lanes) {
            let both = combined[lane].map(|y| combine.of_floats(y, x));
            combined[lane] = both.or(Some(x));
        }
        let combined = combined.into_iter().map(Option::unwrap_or_default);
        let operands = [combined.collect(), vec![count]].map(Numbers::floats);
        let made = then.evaluated(&operands)?.all(lanes.len())?;
        Some(lanes.iter().map(|&lane| made[lane]).collect())
    }
}

/// For each element the first element that it is combined with, and the number of elements of one combination.
#[expect(clippy::cast_precision_loss, reason = "a count of elements")]
fn lanes(composition: &Composition, shape: &[usize]) -> (Vec<usize>, f64) {
    let channels = shape.get(1).map_or(0, |&n| n as u64);
    let group = composition.group(channels);
    let group = group.and_then(|n| usize::try_from(n).ok()).unwrap_or(1);
    let along = |d: &usize| composition.along.contains(d);
    let first = |d: usize, i: usize| match (along(&d), d) {
        (true, _) => 0,
        (false, 1) => i - i % group,
        (false, _) => i,
    };
    let total: usize = shape.iter().product();
    let lane = |element: usize| {
        let (mut rest, mut stride, mut lane) = (element, 1, 0);
        for (d, &n) in shape.iter().enumerate().rev() {
            lane += first(d, rest % n) * stride;
            (rest, stride) = (rest / n, stride * n);
        }
        lane
    };
    let dims = shape.iter().enumerate().filter(|(d, _)| along(d));
    let count: usize = dims.map(|(_, &n)| n).product();
    ((0..total).map(lane).collect(), (count * group) as f64)
}
