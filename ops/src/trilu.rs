//! `hbir.trilu`: the elements on and above (with `upper`) or on and below the k-th diagonal of the last two dimensions;
//! all other elements are zeros (ONNX `Trilu`).

use crate::prelude::*;

attributes! {
    /// The upper or lower triangle of the last two dimensions.
    pub struct Trilu {
        /// The number of columns from the main diagonal to the k-th one, to the right.
        k: i64 = 0,
        /// True if the upper triangle stays, false for the lower one.
        upper: bool = true,
    }
}

impl Operation for Trilu {
    const NAME: &'static str = "hbir.trilu";
    const SUMMARY: &'static str = "the upper or lower triangle of the last two dimensions";
    const FAMILY: &'static str = "elementwise";
    const OPERANDS: (usize, usize) = (1, 1);
    const CODES: &'static [Code] = CODES;

    /// C1: rank 2 or more.
    fn infer(&self, op: &OpRef<'_>) -> Result<Vec<Inferred>, OpError> {
        let x = op.operand(0)?;
        if x.rank() < 2 {
            let message = format!("hbir.trilu of {}, wanted rank 2 or more", show(&x.dims));
            return Err(OpError::new(TRILU_C1, message));
        }
        one(x.dims.clone(), x.dtype)
    }

    fn eval(&self, call: &Call<'_>) -> Result<Vec<Tensor>, EvalError> {
        let x = call.input(0);
        let [.., rows, columns] = x.shape[..] else {
            return Err(EvalError::new("rank below 2"));
        };
        let keeps = |i: usize| {
            let (row, column) = ((i / columns % rows) as i64, (i % columns) as i64);
            let diagonal = row.saturating_add(self.k);
            if self.upper {
                diagonal <= column
            } else {
                column <= diagonal
            }
        };
        Ok(if x.dtype.is_float() {
            call.floats((0..x.len()).map(|i| if keeps(i) { x.f64_at(i) } else { 0.0 }))
        } else {
            call.integers((0..x.len()).map(|i| if keeps(i) { x.i128_at(i) } else { 0 }))
        })
    }

    fn iteration_domain(&self, op: &OpRef<'_>) -> Result<IterationDomain, OpError> {
        let rank = op.operand(0)?.rank();
        let matrix: Vec<usize> = (rank.saturating_sub(2)..rank).collect();
        IterationDomain::broadcasting_along(op, &matrix)
    }

    /// The form has rows and columns last. If the axes have them exchanged, the upper triangle becomes the lower one.
    fn over_axes(&self, op: &OpRef<'_>, axes: &Axes<'_>) -> Option<OverAxes> {
        let rank = op.operand(0).ok()?.rank();
        let [rows, columns] = [rank.checked_sub(2)?, rank - 1].map(|d| axes.label(0, d));
        let (rows, columns) = (axes.whole(rows?)?, axes.whole(columns?)?);
        let exchanged = columns < rows;
        let over = Trilu {
            k: if exchanged {
                self.k.checked_neg()?
            } else {
                self.k
            },
            upper: self.upper != exchanged,
        };
        let mut own = axes.own(0);
        own.retain(|run| *run != rows && *run != columns);
        own.extend(if exchanged {
            [columns, rows]
        } else {
            [rows, columns]
        });
        Some(OverAxes::new(over.write(), vec![own.clone()], vec![own]))
    }
}

codes! {
    const CODES;

    TRILU_C1 = program(
    "the operand of `hbir.trilu` has fewer than 2 dimensions",
    r#"%0 = "hbir.trilu"(%x) : (tensor<3xf32>) -> tensor<3xf32>"#,
    "the last two dimensions are rows and columns of matrices",
);
}
