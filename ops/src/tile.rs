//! `hbir.tile`: the operand repeated `repeats[d]` times along each dimension (ONNX `Tile`).

use crate::broadcast;
use crate::prelude::*;
use optc_ir::op::AxisOf;

attributes! {
    /// The operand repeated along each dimension.
    pub struct Tile {
        /// The number of repetitions along each dimension.
        repeats: Vec<i64>,
    }
}

impl Operation for Tile {
    const NAME: &'static str = "hbir.tile";
    const SUMMARY: &'static str = "repeated a number of times along each dimension";
    const FAMILY: &'static str = "broadcast";
    const OPERANDS: (usize, usize) = (1, 1);
    const MOVES_ONLY: bool = true;
    const PASSES_ON: bool = true;
    const CODES: &'static [Code] = CODES;

    /// C1: one number for each dimension, none below 0. C2: the extents stay below 2^64.
    fn infer(&self, op: &OpRef<'_>) -> Result<Vec<Inferred>, OpError> {
        let x = op.operand(0)?;
        let found = &self.repeats;
        let repeats: Option<Vec<u64>> = found.iter().map(|&n| u64::try_from(n).ok()).collect();
        let repeats = repeats.filter(|r| r.len() == x.rank()).ok_or_else(|| {
            let message = format!(
                "hbir.tile of {} has repeats = {found:?}, wanted {} numbers of 0 or more",
                show(&x.dims),
                x.rank()
            );
            OpError::new(TILE_C1, message)
        })?;
        let times = |(dim, &r): (&Dim, &u64)| match dim {
            Dim::Fixed(n) => n.checked_mul(r).map(Dim::Fixed),
            other => Some(computed(other, |n| n.times(&Size::from(r)))),
        };
        let dims: Option<Vec<Dim>> = x.dims.iter().zip(&repeats).map(times).collect();
        let dims = dims.ok_or_else(|| {
            OpError::new(
                TILE_C2,
                format!("hbir.tile of {} by {found:?} is too large", show(&x.dims)),
            )
        })?;
        one(dims, x.dtype)
    }

    fn eval(&self, call: &Call<'_>) -> Result<Vec<Tensor>, EvalError> {
        let (x, shape) = (call.input(0), call.shape());
        let strides = x.strides();
        let mut walk = Offsets::new(&shape, vec![0; shape.len()], 0);
        let place = |index: &[usize]| -> usize {
            index
                .iter()
                .zip(&x.shape)
                .zip(&strides)
                .map(|((i, n), s)| i % n * s)
                .sum()
        };
        Ok(vec![x.gather(shape, |_| {
            let at = place(walk.index());
            walk.next();
            at
        })])
    }

    fn iteration_domain(&self, op: &OpRef<'_>) -> Result<IterationDomain, OpError> {
        let (x, y) = (op.operand(0)?, op.result(0)?);
        let mut domain = IterationDomain::broadcasting(op)?;
        for (id, (a, b)) in x.dims.iter().zip(&y.dims).enumerate() {
            if a != b {
                domain.along(id);
            }
        }
        Ok(domain)
    }

    /// A repeated dimension must be one axis. If its extent in the operand is 1, it may also be several axes, each
    /// repeated by its own extent.
    fn over_axes(&self, op: &OpRef<'_>, axes: &Axes<'_>) -> Option<OverAxes> {
        let each = axes.each();
        let mut repeats = vec![1i64; each.len()];
        for (dim, &n) in self.repeats.iter().enumerate().filter(|(_, n)| **n != 1) {
            let one = op.operand(0).ok()?.dims[dim].is_one();
            let label = axes.label(1, dim)?;
            match axes.of_label(label) {
                AxisOf::Whole(at) => repeats[at] = n,
                AxisOf::Unit => return None,
                AxisOf::Cut if one => {
                    for at in axes.all(label) {
                        repeats[at] = i64::try_from(axes.extent(1, at)).ok()?;
                    }
                }
                AxisOf::Cut => return None,
            }
        }
        let props = Tile { repeats }.write();
        Some(OverAxes::new(props, vec![each.clone()], vec![each]))
    }

    /// The result is a repetition of the operand if only dimensions of extent 1 are repeated.
    fn parts(&self, op: &OpRef<'_>, _: &Known<'_>) -> Vec<Part> {
        broadcast::as_part(op)
    }

    fn traffic(&self, op: &OpRef<'_>) -> Traffic {
        broadcast::traffic(op)
    }
}

codes! {
    const CODES;

    TILE_C1 = program(
        "`repeats` of `hbir.tile` does not have one number from 0 on for each dimension",
        r#"%0 = "hbir.tile"(%x) <{repeats = [1, 2]}> : (tensor<2xf32>) -> tensor<2x4xf32>"#,
        "give one entry a dimension; 1 leaves it as it is",
    );
    TILE_C2 = program(
        "`hbir.tile` gives a size above 2^64",
        r#"%0 = "hbir.tile"(%x) <{repeats = [9223372036854775807]}> : (tensor<4294967296xf32>) -> tensor<4xf32>"#,
        "repeat less often",
    );
}
