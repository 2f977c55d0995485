//! `hbir.reduce`: one number for all elements along `axes` (ONNX `ReduceSum`, `ReduceMean`, …, StableHLO `reduce`
//! with a known body).
//!
//! The sum of no elements is 0, their product 1, their maximum the least value of the type, and their minimum the
//! greatest value.

use crate::lists::distinct_axes;
use crate::prelude::*;
use optc_ir::op::Partial;
use optc_ir::tensor::int_range;

words! {
    /// The function of a reduction.
    pub enum ReduceKind {
        /// The sum.
        Sum = "sum",
        /// The mean.
        Mean = "mean",
        /// The maximum.
        Max = "max",
        /// The minimum.
        Min = "min",
        /// The product.
        Prod = "prod",
        /// `sum |x|`.
        L1 = "l1",
        /// `sqrt(sum x^2)`.
        L2 = "l2",
        /// `sum x^2`.
        SumSquare = "sum_square",
        /// `log(sum x)`.
        LogSum = "log_sum",
        /// `log(sum e^x)`.
        LogSumExp = "log_sum_exp",
        /// The bits that all elements have.
        And = "and",
        /// The bits that at least one element has.
        Or = "or",
    }
}

attributes! {
    /// One number for all elements along some axes.
    pub struct Reduce {
        /// The function.
        kind: ReduceKind [REDUCE_C1],
        /// The axes; negative ones count from the end. All of them when absent.
        axes: Option<Vec<i64>>,
        /// True if the axes stay, with extents of 1.
        keepdims: bool = false,
    }
}

impl ReduceKind {
    /// The function that combines partial results, if the kind has such a function.
    #[must_use]
    pub fn combine(self) -> Option<Combine> {
        match self {
            ReduceKind::Sum | ReduceKind::L1 | ReduceKind::SumSquare => Some(Combine::Add),
            ReduceKind::Prod => Some(Combine::Multiply),
            ReduceKind::Max => Some(Combine::Max),
            ReduceKind::Min => Some(Combine::Min),
            ReduceKind::Mean
            | ReduceKind::L2
            | ReduceKind::LogSum
            | ReduceKind::LogSumExp
            | ReduceKind::And
            | ReduceKind::Or => None,
        }
    }
}

impl Reduce {
    /// The axes, counted from the front.
    ///
    /// # Errors
    /// C2: each axis is an axis of the operand and occurs once.
    pub fn reduced(&self, op: &OpRef<'_>) -> Result<Vec<usize>, OpError> {
        let rank = op.operand(0)?.rank();
        match &self.axes {
            Some(axes) => distinct_axes(op, REDUCE_C2, "axes", axes, rank),
            None => Ok((0..rank).collect()),
        }
    }
}

impl Operation for Reduce {
    const NAME: &'static str = "hbir.reduce";
    const SUMMARY: &'static str =
        "sum, mean, max, min, prod, l1, l2, sum_square, log_sum, log_sum_exp, and, or along axes";
    const FAMILY: &'static str = "reduce";
    const OPERANDS: (usize, usize) = (1, 1);
    const CODES: &'static [Code] = CODES;

    /// C3: the operand of a kind with a logarithm is of floats. C4: the operand of a kind on bits is not.
    fn infer(&self, op: &OpRef<'_>) -> Result<Vec<Inferred>, OpError> {
        let x = op.operand(0)?;
        let refuse = |code: Code, wanted: &str| {
            let kind = self.kind.word();
            let message = format!("hbir.reduce of kind {kind} of {}, wanted {wanted}", x.dtype);
            Err(OpError::new(code, message))
        };
        match self.kind {
            ReduceKind::LogSum | ReduceKind::LogSumExp if !x.dtype.is_float() => {
                return refuse(REDUCE_C3, "a float type");
            }
            ReduceKind::And | ReduceKind::Or if x.dtype.is_float() => {
                return refuse(REDUCE_C4, "i1 or an integer type");
            }
            _ => {}
        }
        let axes = self.reduced(op)?;
        one(without(&x.dims, &axes, self.keepdims), x.dtype)
    }

    fn eval(&self, call: &Call<'_>) -> Result<Vec<Tensor>, EvalError> {
        let x = call.input(0);
        let rank = x.shape.len();
        let axes = self.reduced(call.op)?;
        let kept: Vec<usize> = (0..rank).filter(|d| !axes.contains(d)).collect();
        let last = x.transposed(&[kept, axes.clone()].concat());
        let n: usize = axes.iter().map(|&a| x.shape[a]).product();
        let rows = call.shape().iter().product();
        if x.dtype.is_float() {
            let mut row = vec![0.0; n];
            return Ok(call.floats((0..rows).map(|r| {
                last.read_f64(r * n, &mut row);
                reduce_floats(self.kind, &row)
            })));
        }
        Ok(call.integers((0..rows).map(|r| {
            let row: Vec<i128> = (r * n..(r + 1) * n).map(|i| last.i128_at(i)).collect();
            reduce_integers(self.kind, &row, x.dtype)
        })))
    }

    fn over_axes(&self, op: &OpRef<'_>, axes: &Axes<'_>) -> Option<OverAxes> {
        let reduced = self.reduced(op).ok()?.into_iter();
        let labels: Option<Vec<usize>> = reduced.map(|d| axes.label(0, d)).collect();
        let reduced = labels?.into_iter().flat_map(|label| axes.all(label));
        let reduced: Vec<usize> = reduced.collect();
        let own = axes.own(0);
        let is_reduced = |run: &Run| run.iter().any(|axis| reduced.contains(axis));
        let at = own.iter().enumerate().filter(|(_, run)| is_reduced(run));
        let over = Reduce {
            axes: Some(at.map(|(at, _)| at as i64).collect()),
            ..self.clone()
        };
        let kept = |run: &Run| match (is_reduced(run), self.keepdims) {
            (false, _) => Some(run.clone()),
            (true, true) => Some(Run::new()),
            (true, false) => None,
        };
        let result = own.iter().filter_map(kept).collect();
        Some(OverAxes::new(over.write(), vec![own], vec![result]))
    }

    /// The reduced dimensions are reduction loops if partial results of the kind can be combined; otherwise they are
    /// needed whole.
    fn iteration_domain(&self, op: &OpRef<'_>) -> Result<IterationDomain, OpError> {
        let along = match self.kind.combine() {
            Some(combine) => LoopKind::Reduce(combine),
            None => LoopKind::Whole,
        };
        iteration_domain(op, &self.reduced(op)?, self.keepdims, along)
    }

    /// Partial means of floats can be combined too, as a weighted sum, although the loops do not say so.
    fn partial(&self, op: &OpRef<'_>) -> Option<Partial> {
        let is_mean = self.kind == ReduceKind::Mean && op.operand(0).ok()?.dtype.is_float();
        let mean = is_mean.then_some(Partial::Mean);
        self.kind.combine().map(Partial::from).or(mean)
    }
}

/// The dimensions that remain after a reduction.
pub(crate) fn without(dims: &[Dim], axes: &[usize], keep: bool) -> Vec<Dim> {
    let dim = |(d, dim): (usize, &Dim)| match (axes.contains(&d), keep) {
        (false, _) => Some(dim.clone()),
        (true, true) => Some(Dim::Fixed(1)),
        (true, false) => None,
    };
    dims.iter().enumerate().filter_map(dim).collect()
}

/// The loops of a reduction: of the kind `along` for reduced dimensions, parallel for the others.
pub(crate) fn iteration_domain(
    op: &OpRef<'_>,
    axes: &[usize],
    keep: bool,
    along: LoopKind,
) -> Result<IterationDomain, OpError> {
    let mut domain = IterationDomain::new(op, FreedomClass::Ordered);
    let mut result = Vec::new();
    for (d, dim) in op.operand(0)?.dims.iter().enumerate() {
        let reduced = axes.contains(&d);
        let id = domain.add_for(dim, if reduced { along } else { LoopKind::Parallel });
        domain.operands[0][d] = IndexExpr::of(id);
        match (reduced, keep) {
            (false, _) => result.push(IndexExpr::of(id)),
            (true, true) => result.push(IndexExpr::zero()),
            (true, false) => {}
        }
    }
    domain.results = vec![result];
    Ok(domain)
}

#[expect(clippy::cast_precision_loss, reason = "a count of elements")]
fn reduce_floats(kind: ReduceKind, row: &[f64]) -> f64 {
    let sum = |f: fn(f64) -> f64| row.iter().map(|&x| f(x)).fold(0.0, |a, b| a + b);
    let greatest = || {
        row.iter().fold(
            f64::NEG_INFINITY,
            |a, &b| if a.is_nan() || b < a { a } else { b },
        )
    };
    match kind {
        ReduceKind::Mean => sum(|x| x) / row.len() as f64,
        ReduceKind::Max => greatest(),
        ReduceKind::Min => row.iter().fold(
            f64::INFINITY,
            |a, &b| if a.is_nan() || a < b { a } else { b },
        ),
        ReduceKind::Prod => row.iter().product(),
        ReduceKind::L1 => sum(f64::abs),
        ReduceKind::L2 => sum(|x| x * x).sqrt(),
        ReduceKind::SumSquare => sum(|x| x * x),
        ReduceKind::LogSum => sum(|x| x).ln(),
        ReduceKind::LogSumExp => {
            let top = greatest();
            let shift = if top.is_finite() { top } else { 0.0 };
            row.iter().map(|x| (x - shift).exp()).sum::<f64>().ln() + shift
        }
        ReduceKind::Sum | ReduceKind::And | ReduceKind::Or => sum(|x| x),
    }
}

fn reduce_integers(kind: ReduceKind, row: &[i128], dtype: DType) -> i128 {
    let sum = |f: fn(i128) -> i128| row.iter().fold(0i128, |a, &x| a.wrapping_add(f(x)));
    let (low, high) = int_range(dtype);
    match kind {
        ReduceKind::Mean => sum(|x| x).checked_div(row.len() as i128).unwrap_or(0),
        ReduceKind::Max => row.iter().copied().fold(low, i128::max),
        ReduceKind::Min => row.iter().copied().fold(high, i128::min),
        ReduceKind::Prod => row.iter().fold(1i128, |a, &x| a.wrapping_mul(x)),
        ReduceKind::L1 => sum(i128::abs),
        ReduceKind::L2 => sum(|x| x.wrapping_mul(x)).max(0).isqrt(),
        ReduceKind::SumSquare => sum(|x| x.wrapping_mul(x)),
        ReduceKind::And => row
            .iter()
            .fold(if dtype.is_bool() { 1 } else { -1 }, |a, &x| a & x),
        ReduceKind::Or => row.iter().fold(0, |a, &x| a | x),
        ReduceKind::Sum | ReduceKind::LogSum | ReduceKind::LogSumExp => sum(|x| x),
    }
}

codes! {
    const CODES;

    REDUCE_C1 = program(
        "`kind` of `hbir.reduce` is no known reduction",
        r#"%0 = "hbir.reduce"(%x) <{kind = "median"}> : (tensor<2x3xf32>) -> tensor<2x1xf32>"#,
        "use one of the kinds that the message lists",
    );
    REDUCE_C2 = program(
        "`axes` of `hbir.reduce` names an axis twice, or one that the operand does not have",
        r#"%0 = "hbir.reduce"(%x) <{kind = "sum", axes = [1, -1]}> : (tensor<2x3xf32>) -> tensor<2x1xf32>"#,
        "count axes from 0, or from the end with negative numbers: rank 3 has the axes -3 to 2",
    );
    REDUCE_C3 = program(
        "a reduction with a logarithm of something else than floats",
        r#"%0 = "hbir.reduce"(%x) <{kind = "log_sum"}> : (tensor<2xsi8>) -> tensor<1xsi8>"#,
        "cast the operand to a float type",
    );
    REDUCE_C4 = program(
        "a reduction of bits of something else than integers and truth values",
        r#"%0 = "hbir.reduce"(%x) <{kind = "or"}> : (tensor<2xf32>) -> tensor<f32>"#,
        "compare first, or cast the operand to an integer type",
    );
}
