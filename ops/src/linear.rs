//! `hbir.linear`: `y[.., n] = sum_k x[.., k] * w[n, k] + bias[n]` (torch `nn.Linear`).
//!
//! An attribute `to` names another element type for the result; without it the result has that of the operands.

use crate::contract::{Extents, permuted, products};
use crate::prelude::*;

attributes! {
    /// x times the transpose of the weights `[N, K]`, plus a bias `[N]`.
    pub struct Linear {
        /// The element type of the result; that of x when absent.
        to: Option<DType>,
    }
}

impl Operation for Linear {
    const NAME: &'static str = "hbir.linear";
    const SUMMARY: &'static str = "x times the transpose of the weights [N, K], plus a bias [N]";
    const FAMILY: &'static str = "matmul";
    const OPERANDS: (usize, usize) = (2, 3);
    const CODES: &'static [Code] = CODES;

    /// C1: one element type. C2: the input has rank 1 or more. C3: the weights have rank 2. C4: the contracted extents
    /// agree. C5: the bias has N elements, one for each row of the weights.
    fn infer(&self, op: &OpRef<'_>) -> Result<Vec<Inferred>, OpError> {
        let dtype = common_dtype(op, LINEAR_C1, 0..2)?;
        let (x, w) = (op.operand(0)?, op.operand(1)?);
        let Some((k, lead)) = x.dims.split_last() else {
            return Err(OpError::new(
                LINEAR_C2,
                "hbir.linear of a scalar, wanted rank 1 or more",
            ));
        };
        wants_rank(op, LINEAR_C3, 1, 2)?;
        let (n, k2) = (&w.dims[0], &w.dims[1]);
        if unify(k, k2).is_none() {
            let message = format!(
                "hbir.linear of {} with weights {} contracts {k} with {k2}, wanted equal sizes",
                show(&x.dims),
                show(&w.dims)
            );
            return Err(OpError::new(LINEAR_C4, message).hint("the weights are [N, K]"));
        }
        let to = self.to.unwrap_or(dtype);
        if 2 < op.operands.len() {
            check_bias(op, n, to)?;
        }
        one([lead, std::slice::from_ref(n)].concat(), to)
    }

    fn eval(&self, call: &Call<'_>) -> Result<Vec<Tensor>, EvalError> {
        let (x, w) = (call.input(0), call.input(1));
        let (n, k) = (w.shape[0], w.shape[1]);
        let m = x.shape[..x.shape.len() - 1].iter().product();
        // The weights are larger than the input, so they are read in place, and the input is transposed.
        let columns = x.reshaped(vec![m, k]).transposed(&[1, 0]);
        let sums = products(w, &columns, &[(0, 0)], Extents { m: n, k, n: m });
        let mut sums = sums.transposed(n, m);
        if let Some(bias) = call.inputs.get(2) {
            sums.add_bias(bias, 1);
        }
        Ok(vec![sums.into_tensor(call.dtype(), call.shape())])
    }

    /// The bias is an epilogue: it is added once, even if the sum over k is cut.
    fn iteration_domain(&self, op: &OpRef<'_>) -> Result<IterationDomain, OpError> {
        let mut domain = IterationDomain::new(op, FreedomClass::Contract);
        let (x, result) = (op.operand(0)?, op.result(0)?);
        let ids = domain.over(&result.dims);
        let (&n, lead) = ids
            .split_last()
            .ok_or_else(|| OpError::new(LINEAR_C2, "hbir.linear of a scalar"))?;
        let k = domain.add_for(&x.dims[lead.len()], LoopKind::Reduce(Combine::Add));
        domain.operands[0] = IndexExpr::each(&[lead, &[k]].concat());
        domain.operands[1] = IndexExpr::each(&[n, k]);
        for bias in 2..op.operands.len() {
            domain.operands[bias] = IndexExpr::each(&[n]);
            domain.epilogue.push(bias);
        }
        domain.results[0] = IndexExpr::each(&ids);
        Ok(domain)
    }

    fn permutes(&self, op: &OpRef<'_>, known: &Known<'_>) -> Option<usize> {
        permuted(op, known)
    }
}

fn check_bias(op: &OpRef<'_>, n: &Dim, dtype: DType) -> Result<(), OpError> {
    let bias = op.operand(2)?;
    let fits = bias.rank() == 1 && unify(&bias.dims[0], n).is_some() && bias.dtype == dtype;
    if fits {
        return Ok(());
    }
    let message = format!(
        "hbir.linear has a bias of {} {}, wanted [{n}] {dtype}",
        show(&bias.dims),
        bias.dtype
    );
    Err(OpError::new(LINEAR_C5, message))
}

codes! {
    const CODES;

    LINEAR_C1 = program(
        "the operands of `hbir.linear` have different element types",
        r#"%0 = "hbir.linear"(%x, %y) : (tensor<2x3xf32>, tensor<4x3xf16>) -> tensor<2x4xf32>"#,
        "convert one of them with `hbir.cast`",
    );
    LINEAR_C2 = program(
        "the input of `hbir.linear` is a scalar, wanted rank 1 or more",
        r#"%0 = "hbir.linear"(%x, %y) : (tensor<f32>, tensor<4x3xf32>) -> tensor<4xf32>"#,
        "the last dimension of the input is the one that is contracted",
    );
    LINEAR_C3 = program(
        "the weights of `hbir.linear` are not of rank 2",
        r#"%0 = "hbir.linear"(%x, %y) : (tensor<2x3xf32>, tensor<4xf32>) -> tensor<2x4xf32>"#,
        "the weights are [N, K]; use `hbir.matmul` for batches of weights",
    );
    LINEAR_C4 = program(
        "the last dimension of the input and of the weights differ",
        r#"%0 = "hbir.linear"(%x, %y) : (tensor<2x3xf32>, tensor<3x4xf32>) -> tensor<2x4xf32>"#,
        "the weights are [N, K], as torch has them; `hbir.matmul` takes [K, N]",
    );
    LINEAR_C5 = program(
        "the bias of `hbir.linear` is not a vector of as many elements as the weights have rows",
        r#"%0 = "hbir.linear"(%x, %y, %z) : (tensor<2x3xf32>, tensor<4x3xf32>, tensor<3xf32>) -> tensor<2x4xf32>"#,
        "give a bias [N] for weights [N, K]",
    );
}
