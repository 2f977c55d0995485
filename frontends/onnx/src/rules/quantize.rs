//! Quantization.

use super::{Rule, native};
use crate::builder::{Stop, Val};
use crate::node::{Done, NodeCx};
use crate::tensor::dtype;
use optc_ir::{Attr, AttrDict, DType, Type};

/// The rules of this family.
pub(super) static RULES: &[Rule] = &[
    native("DequantizeLinear", dequantize),
    native("QuantizeLinear", quantize),
];

/// The operands `x`, `scale` and, if given, the zero point; and the axis of a scale of rank 1.
fn common(cx: &NodeCx<'_, '_>) -> Result<(Vec<Val>, AttrDict), Stop> {
    if cx.int("block_size").unwrap_or(0) != 0 {
        return Err(Stop::opaque("it quantizes in blocks"));
    }
    let (x, scale) = (cx.need(0)?, cx.need(1)?);
    let operands = [x, scale].into_iter().chain(cx.input(2)).collect();
    let mut dict = AttrDict::new();
    if cx.rank(scale)? != 0 {
        let axis = cx.axis(cx.int("axis").unwrap_or(1), cx.rank(x)?)?;
        dict.set("axis", Attr::int(axis as i64));
    }
    Ok((operands, dict))
}

fn quantize(cx: &mut NodeCx<'_, '_>) -> Done {
    let (operands, mut dict) = common(cx)?;
    let named = cx.int("output_dtype").filter(|&code| code != 0);
    let to = match (operands.get(2), named) {
        (Some(&zero), _) => cx.dtype(zero)?,
        (None, None) => DType::UI8,
        (None, Some(code)) => dtype(i32::try_from(code).unwrap_or(-1))
            .map_err(|found| Stop::opaque(format!("it quantizes to {found}")))?,
    };
    dict.set("to", Attr::Type(Type::Scalar(to)));
    cx.finish("hbir.quantize", &operands, dict)
}

fn dequantize(cx: &mut NodeCx<'_, '_>) -> Done {
    let (operands, dict) = common(cx)?;
    cx.finish("hbir.dequantize", &operands, dict)
}
