//! Products of integers that were scaled to floats.

use optc_ir::text::parse;
use optc_ir::{Inferred, OpError, OpRef, Operation, ViewDims, attributes};
use optc_ops::Dequantized;

attributes! {
    /// A rearrangement that is not optc's.
    pub struct Turn {}
}

impl Operation for Turn {
    const NAME: &'static str = "acme.turn";
    const SUMMARY: &'static str = "the transpose of a matrix";
    const FAMILY: &'static str = "rearrange";
    const OPERANDS: (usize, usize) = (1, 1);

    fn infer(&self, op: &OpRef<'_>) -> Result<Vec<Inferred>, OpError> {
        let x = op.operand(0)?;
        Ok(vec![Inferred {
            dims: x.dims.iter().rev().cloned().collect(),
            dtype: x.dtype,
        }])
    }

    fn rearrangement(&self, op: &OpRef<'_>) -> Result<ViewDims, OpError> {
        Ok(ViewDims {
            shape: op.operand(0)?.dims.clone(),
            perm: vec![1, 0],
        })
    }
}

/// Returns whether a product with this right operand multiplies dequantized operands.
#[track_caller]
fn multiplies(line: &str) -> bool {
    let text = format!(
        r#"func.func @main(%x: tensor<2x2xsi8>, %f: tensor<2x2xf32>, %s: tensor<f32>) -> tensor<2x2xf32> {{
  %0 = "hbir.dequantize"(%x, %s) : (tensor<2x2xsi8>, tensor<f32>) -> tensor<2x2xf32>
  %1 = {line} : (tensor<2x2xf32>) -> tensor<2x2xf32>
  %2 = "hbir.matmul"(%0, %1) : (tensor<2x2xf32>, tensor<2x2xf32>) -> tensor<2x2xf32>
  return %2 : tensor<2x2xf32>
}}"#
    );
    let mut registry = optc_ops::registry();
    registry.add::<Turn>();
    let module = parse(&text).expect("it is read");
    let func = &module.funcs[0];
    Dequantized::of(func, &registry).multiplied_by(func, func.body[2])
}

/// A fold replaces a rearrangement by views and conversions: these tell the same.
#[test]
fn every_rearrangement_keeps_dequantized_elements() {
    for line in [
        r#""acme.turn"(%0)"#,
        r#""hbir.transpose"(%0) <{perm = [1, 0]}>"#,
        r#""hbir.view"(%0) <{perm = [1, 0]}>"#,
        r#""hbir.layout_convert"(%0)"#,
        r#""hbir.reshape"(%0) <{shape = [2, 2]}>"#,
    ] {
        assert!(multiplies(line), "{line}");
    }
    for line in [
        r#""acme.turn"(%f)"#,
        r#""hbir.transpose"(%f) <{perm = [1, 0]}>"#,
        r#""hbir.relu"(%0)"#,
        r#""acme.other"(%0)"#,
    ] {
        assert!(!multiplies(line), "{line}");
    }
}
