//! `hbir.bitcast_convert`: the same bits read as another element type of the same width (StableHLO and HLO
//! `bitcast_convert`). The shape stays. An `i1` has no bits of its own, so it is neither operand nor result.

use crate::prelude::*;

attributes! {
    /// The same bits as elements of another type of the same width.
    pub struct BitcastConvert {
        /// The element type of the result.
        to: DType,
    }
}

impl Operation for BitcastConvert {
    const NAME: &'static str = "hbir.bitcast_convert";
    const SUMMARY: &'static str = "the bits of x as elements of the type `to`, of the same width";
    const FAMILY: &'static str = "elementwise";
    const OPERANDS: (usize, usize) = (1, 1);
    const MOVES_ONLY: bool = true;
    const CODES: &'static [Code] = CODES;

    /// C1: both element types have the same number of bits, and neither is `i1`.
    fn infer(&self, op: &OpRef<'_>) -> Result<Vec<Inferred>, OpError> {
        let (x, to) = (op.operand(0)?, self.to);
        if to.bits() != x.dtype.bits() || to.is_bool() != x.dtype.is_bool() {
            let message = format!(
                "hbir.bitcast_convert reads {} as {to}, wanted a type of {} bits",
                x.dtype,
                x.dtype.bits()
            );
            return Err(OpError::new(BITCAST_CONVERT_C1, message));
        }
        one(x.dims.clone(), to)
    }

    fn eval(&self, call: &Call<'_>) -> Result<Vec<Tensor>, EvalError> {
        let bytes = call.input(0).to_bytes();
        let read = Tensor::from_bytes(call.dtype(), call.shape(), &bytes)?;
        Ok(vec![read])
    }
}

codes! {
    const CODES;

    BITCAST_CONVERT_C1 = program(
    "`hbir.bitcast_convert` reads elements as a type of another width, or `i1`, which has no bits of its own",
    r#"%0 = "hbir.bitcast_convert"(%x) <{to = si16}> : (tensor<2xf32>) -> tensor<2xsi16>"#,
    "read the bits as a type of the same width; `hbir.cast` converts the numbers",
);
}
