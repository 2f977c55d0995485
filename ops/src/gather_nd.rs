//! `hbir.gather_nd` (ONNX `GatherND`): parts of the operand at given coordinates. The last dimension of the indices
//! holds the coordinates of one part, in the dimensions that follow the first `batch_dims`. Operand and indices share
//! the first `batch_dims` dimensions. An index below 0 counts from the end.

use crate::gather::{position, traffic};
use crate::over_axes::{among, of_dims, whole};
use crate::prelude::*;
use optc_ir::tensor::row_major_strides;

attributes! {
    /// The parts of the operand at given coordinates.
    pub struct GatherNd {
        /// The number of leading dimensions that operand and indices share.
        batch_dims: i64 = 0,
    }
}

impl Operation for GatherNd {
    const NAME: &'static str = "hbir.gather_nd";
    const SUMMARY: &'static str = "the parts at places given by all their coordinates";
    const FAMILY: &'static str = "gather";
    const OPERANDS: (usize, usize) = (2, 2);
    const MOVES_ONLY: bool = true;
    const PASSES_ON: bool = true;
    const CODES: &'static [Code] = CODES;

    /// C1: operand and indices have equal leading `batch_dims` dimensions. C2: the indices are integers. C3: their last
    /// dimension is known, and is not more than the number of remaining dimensions.
    fn infer(&self, op: &OpRef<'_>) -> Result<Vec<Inferred>, OpError> {
        let (x, indices) = (op.operand(0)?, op.operand(1)?);
        let (batch, depth) = self.extents(op)?;
        wants_index(op, GATHER_ND_C2, 1)?;
        let lead = &indices.dims[..indices.rank() - 1];
        one([lead, &x.dims[batch + depth..]].concat(), x.dtype)
    }

    fn eval(&self, call: &Call<'_>) -> Result<Vec<Tensor>, EvalError> {
        let (x, indices) = (call.input(0), call.input(1));
        let (batch, depth) = self.extents(call.op)?;
        let places = nd_places(&x.shape, indices, batch, depth)?;
        let part: usize = x.shape[batch + depth..].iter().product();
        Ok(vec![
            x.gather(call.shape(), |i| places[i / part] + i % part),
        ])
    }

    fn iteration_domain(&self, op: &OpRef<'_>) -> Result<IterationDomain, OpError> {
        let (x, indices) = (op.operand(0)?, op.operand(1)?);
        let rows = indices.rank() - 1;
        let (batch, depth) = self.extents(op)?;
        let mut domain = IterationDomain::new(op, FreedomClass::Ordered);
        let ids = domain.over(&op.result(0)?.dims);
        let gathered: Vec<usize> = (batch..batch + depth)
            .map(|d| domain.add_for(&x.dims[d], LoopKind::Whole))
            .collect();
        let coordinate = domain.add_for(&indices.dims[rows], LoopKind::Whole);
        domain.uncut(coordinate);
        let own = [&ids[..batch], &gathered, &ids[rows..]].concat();
        domain.operands[0] = IndexExpr::each(&own);
        domain.operands[1] = IndexExpr::each(&[&ids[..rows], &[coordinate]].concat());
        domain.results[0] = IndexExpr::each(&ids);
        Ok(domain)
    }

    /// The form has the batch axes first, then the coordinate dimensions in their order, then the rest.
    fn over_axes(&self, op: &OpRef<'_>, axes: &Axes<'_>) -> Option<OverAxes> {
        let (batch, depth) = self.extents(op).ok()?;
        let labels = |dims: std::ops::Range<usize>| of_dims(axes, 0, dims);
        let shared = among(axes, &labels(0..batch));
        let coordinates = whole(axes, &labels(batch..batch + depth))?;
        let rest = among(axes, &labels(batch + depth..axes.ports()[0].labels.len()));
        let last = axes.ports()[1].labels.len().checked_sub(1)?;
        let rows = among(axes, &of_dims(axes, 1, batch..last));
        let coordinate = whole(axes, &of_dims(axes, 1, last..last + 1))?;
        let batch_dims = shared.len() as i64;
        Some(OverAxes::new(
            GatherNd { batch_dims }.write(),
            vec![
                [&shared[..], &coordinates, &rest].concat(),
                [&shared[..], &rows, &coordinate].concat(),
            ],
            vec![[&shared[..], &rows, &rest].concat()],
        ))
    }

    fn traffic(&self, op: &OpRef<'_>) -> Traffic {
        traffic(op)
    }

    fn indexed(&self, op: &OpRef<'_>) -> Option<(usize, Vec<Dim>)> {
        indexed_all(op)
    }
}

impl GatherNd {
    /// The number of batch dimensions, and the number of coordinates of a part.
    ///
    /// # Errors
    /// C1 or C3 does not hold.
    pub fn extents(&self, op: &OpRef<'_>) -> Result<(usize, usize), OpError> {
        let (x, indices) = (op.operand(0)?, op.operand(1)?);
        let batch = usize::try_from(self.batch_dims)
            .ok()
            .filter(|&b| b < x.rank() && b < indices.rank());
        let batch = batch
            .filter(|&b| compatible(&x.dims[..b], &indices.dims[..b]))
            .ok_or_else(|| {
                let message = format!(
                    "{} of {} by indices {}: the leading `batch_dims` dimensions of both must be equal",
                    op.name,
                    show(&x.dims),
                    show(&indices.dims)
                );
                OpError::new(GATHER_ND_C1, message)
            })?;
        let last = indices.dims.last().and_then(Dim::fixed);
        let depth = last
            .and_then(|n| usize::try_from(n).ok())
            .filter(|&n| n <= x.rank() - batch);
        let depth = depth.ok_or_else(|| {
            let message = format!(
                "{} by indices {}, wanted a last dimension of at most {}",
                op.name,
                show(&indices.dims),
                x.rank() - batch
            );
            OpError::new(GATHER_ND_C3, message)
        })?;
        Ok((batch, depth))
    }
}

/// For each vector of coordinates, the number of the first element of its part.
pub(crate) fn nd_places(
    x: &[usize],
    indices: &Tensor,
    batch: usize,
    depth: usize,
) -> Result<Vec<usize>, EvalError> {
    let strides = row_major_strides(x);
    let rows: usize = indices.shape[..indices.shape.len() - 1].iter().product();
    let per_batch = indices.shape[batch..indices.shape.len() - 1]
        .iter()
        .product::<usize>()
        .max(1);
    let sample: usize = x[batch..].iter().product();
    let row_place = |row: usize| {
        let mut at = row / per_batch * sample;
        for d in 0..depth {
            let index = indices.i64_at(row * depth + d);
            at += position(index, x[batch + d])? * strides[batch + d];
        }
        Ok(at)
    };
    (0..rows).map(row_place).collect()
}

/// The number of the operand with the indices, and all extents of the first operand: a coordinate may index any of
/// them.
pub(crate) fn indexed_all(op: &OpRef<'_>) -> Option<(usize, Vec<Dim>)> {
    Some((1, op.operand(0).ok()?.dims.clone()))
}

codes! {
    const CODES;

    GATHER_ND_C1 = program(
        "`batch_dims` of `hbir.gather_nd` counts dimensions that operand and indices do not share with equal sizes",
        r#"%0 = "hbir.gather_nd"(%x, %y) <{batch_dims = 2}> : (tensor<2x3xf32>, tensor<2x2xsi64>) -> tensor<2xf32>"#,
        "count only leading dimensions of equal size, fewer than the indices have",
    );
    GATHER_ND_C2 = program(
        "the indices of `hbir.gather_nd` are no integers",
        r#"%0 = "hbir.gather_nd"(%x, %y) : (tensor<2x3xf32>, tensor<2x2xf32>) -> tensor<2xf32>"#,
        "cast the indices to `si64` or `si32`",
    );
    GATHER_ND_C3 = program(
        "the last dimension of the indices is unknown, or longer than the dimensions that are left to index",
        r#"%0 = "hbir.gather_nd"(%x, %y) : (tensor<2x3xf32>, tensor<2x3xsi64>) -> tensor<2xf32>"#,
        "the last dimension holds one index tuple: at most as many numbers as the first operand has dimensions",
    );
}
