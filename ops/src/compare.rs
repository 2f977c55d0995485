//! `hbir.compare`: `y = a direction b` as `i1` (ONNX `Equal`, `Less`, …; StableHLO `compare`), with numpy's
//! broadcasting. NaN is unequal to everything.

use crate::prelude::*;
use crate::shape::{broadcast, operand_dims};
pub use optc_ir::op::Direction;

attributes! {
    /// The truth of a relation between `a` and `b`, element by element.
    pub struct Compare {
        /// The relation.
        direction: Direction [COMPARE_C2],
    }
}

impl Operation for Compare {
    const NAME: &'static str = "hbir.compare";
    const SUMMARY: &'static str = "whether a is eq, ne, lt, le, gt or ge to b";
    const FAMILY: &'static str = "elementwise";
    const OPERANDS: (usize, usize) = (2, 2);
    const CODES: &'static [Code] = CODES;

    /// C1: one element type. C3: the shapes broadcast.
    fn infer(&self, op: &OpRef<'_>) -> Result<Vec<Inferred>, OpError> {
        common_dtype(op, COMPARE_C1, 0..2)?;
        let dims = broadcast(op, COMPARE_C3, &operand_dims(op)?)?;
        one(dims, DType::BOOL)
    }

    fn expression(&self) -> Option<Expr> {
        Some(self.direction.of(Expr::A, Expr::B))
    }
}

codes! {
    const CODES;

    COMPARE_C1 = program(
        "the two operands of `hbir.compare` have different element types",
        r#"%0 = "hbir.compare"(%x, %y) <{direction = "eq"}> : (tensor<2xf32>, tensor<2xsi8>) -> tensor<2xi1>"#,
        "convert one of them with `hbir.cast`",
    );
    COMPARE_C2 = program(
        "the attribute `direction` of `hbir.compare` is no known comparison",
        r#"%0 = "hbir.compare"(%x, %y) <{direction = "above"}> : (tensor<2xf32>, tensor<2xf32>) -> tensor<2xi1>"#,
        "use one of the directions that the message lists",
    );
    COMPARE_C3 = program(
        "the shapes of the two operands of `hbir.compare` do not broadcast",
        r#"%0 = "hbir.compare"(%x, %y) <{direction = "eq"}> : (tensor<2xf32>, tensor<3xf32>) -> tensor<2xi1>"#,
        "make the sizes equal, or 1, in every dimension counted from the last",
    );
}
