//! `hbir.select`: `y = cond ? a : b` (ONNX `Where`, StableHLO `select`), with numpy's broadcasting.

use crate::prelude::*;
use crate::shape::{broadcast, operand_dims};
use optc_ir::tensor::Data;

attributes! {
    /// `a` where the condition holds, else `b`.
    pub struct Select {}
}

impl Operation for Select {
    const NAME: &'static str = "hbir.select";
    const SUMMARY: &'static str = "a where the condition holds, else b";
    const FAMILY: &'static str = "elementwise";
    const OPERANDS: (usize, usize) = (3, 3);
    const MOVES_ONLY: bool = true;
    const PASSES_ON: bool = true;
    const CODES: &'static [Code] = CODES;

    /// C1: the condition is `i1`. C2: both branches have one element type. C3: the shapes broadcast.
    fn infer(&self, op: &OpRef<'_>) -> Result<Vec<Inferred>, OpError> {
        let cond = op.operand(0)?.dtype;
        if !cond.is_bool() {
            let message = format!("hbir.select has a condition of {cond}, wanted i1");
            return Err(OpError::new(SELECT_C1, message));
        }
        let dtype = common_dtype(op, SELECT_C2, 1..3)?;
        one(broadcast(op, SELECT_C3, &operand_dims(op)?)?, dtype)
    }

    fn expression(&self) -> Option<Expr> {
        Some(Expr::A.select(Expr::B, Expr::C))
    }

    /// Elements of every type are moved, including those that no operation computes with.
    fn eval(&self, call: &Call<'_>) -> Result<Vec<Tensor>, EvalError> {
        let shape = call.shape();
        let walk = |i: usize| Offsets::broadcast(&call.input(i).shape, &shape);
        let (cond, a, b) = (call.input(0), call.input(1), call.input(2));
        let at = walk(0).zip(walk(1)).zip(walk(2));
        let pick = |c: usize| cond.i64_at(c) != 0;
        let data = match (&a.data, &b.data) {
            (Data::F32(a), Data::F32(b)) => Data::F32(
                at.map(|((c, i), j)| if pick(c) { a[i] } else { b[j] })
                    .collect(),
            ),
            (Data::F64(a), Data::F64(b)) => Data::F64(
                at.map(|((c, i), j)| if pick(c) { a[i] } else { b[j] })
                    .collect(),
            ),
            (Data::I64(a), Data::I64(b)) => Data::I64(
                at.map(|((c, i), j)| if pick(c) { a[i] } else { b[j] })
                    .collect(),
            ),
            (Data::Bits(a), Data::Bits(b)) => Data::Bits(
                at.map(|((c, i), j)| if pick(c) { a[i] } else { b[j] })
                    .collect(),
            ),
            (Data::F32(_) | Data::F64(_) | Data::I64(_) | Data::Bits(_), _) => {
                return Err(EvalError::new("the branches hold different kinds of data"));
            }
        };
        Ok(vec![Tensor {
            dtype: call.dtype(),
            shape,
            data,
        }])
    }
}

codes! {
    const CODES;

    SELECT_C1 = program(
        "the condition of `hbir.select` is not of `i1`",
        r#"%0 = "hbir.select"(%x, %y, %z) : (tensor<2xf32>, tensor<2xf32>, tensor<2xf32>) -> tensor<2xf32>"#,
        "compare first: `hbir.compare` gives `i1`",
    );
    SELECT_C2 = program(
        "the branches of `hbir.select` have different element types",
        r#"%0 = "hbir.select"(%x, %y, %z) : (tensor<2xi1>, tensor<2xf32>, tensor<2xsi8>) -> tensor<2xf32>"#,
        "convert one of them with `hbir.cast`",
    );
    SELECT_C3 = program(
        "condition and branches of `hbir.select` do not broadcast",
        r#"%0 = "hbir.select"(%x, %y, %z) : (tensor<2xi1>, tensor<2xf32>, tensor<3xf32>) -> tensor<2xf32>"#,
        "make the sizes equal, or 1, in every dimension counted from the last",
    );
}
