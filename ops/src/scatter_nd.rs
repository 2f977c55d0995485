//! `hbir.scatter_nd` (ONNX `ScatterND`): a copy of the first operand with parts replaced. The last dimension of the
//! indices holds the coordinates of one part.

use crate::gather_nd::{indexed_all, nd_places};
use crate::over_axes::{among, of_dims, whole};
use crate::prelude::*;
use crate::scatter::{ScatterReduction, traffic, write};
use optc_ir::tensor::row_major_strides;

attributes! {
    /// A copy with parts replaced at given coordinates.
    pub struct ScatterNd {
        /// The combination of an element and its update.
        reduction: ScatterReduction [SCATTER_ND_C5] = ScatterReduction::None,
        /// True if an update whose coordinates are outside of the operand is left out, as in XLA. Negative coordinates
        /// are then outside. By default they count from the end, and coordinates outside are refused.
        drop_outside: bool = false,
    }
}

impl Operation for ScatterNd {
    const NAME: &'static str = "hbir.scatter_nd";
    const SUMMARY: &'static str = "a copy with parts written at coordinates";
    const FAMILY: &'static str = "gather";
    const OPERANDS: (usize, usize) = (3, 3);
    const MOVES_ONLY: bool = true;
    const CODES: &'static [Code] = CODES;

    /// C1: the indices are integers. C2: their last dimension is known and at most the rank. C3: the updates have the
    /// leading dimensions of the indices, then the dimensions of the operand without coordinates. C4: one element type.
    /// C5: a known reduction.
    fn infer(&self, op: &OpRef<'_>) -> Result<Vec<Inferred>, OpError> {
        let (x, indices, updates) = (op.operand(0)?, op.operand(1)?, op.operand(2)?);
        wants_index(op, SCATTER_ND_C1, 1)?;
        let depth = depth(op)?;
        let wanted = [&indices.dims[..indices.rank() - 1], &x.dims[depth..]].concat();
        if !compatible(&wanted, &updates.dims) {
            let message = format!(
                "hbir.scatter_nd has updates {}, wanted {}",
                show(&updates.dims),
                show(&wanted)
            );
            return Err(OpError::new(SCATTER_ND_C3, message));
        }
        common_dtype(op, SCATTER_ND_C4, [0, 2])?;
        self.reduction.check(op, SCATTER_ND_C5, x.dtype)?;
        one(x.dims.clone(), x.dtype)
    }

    fn eval(&self, call: &Call<'_>) -> Result<Vec<Tensor>, EvalError> {
        let x = call.input(0);
        let depth = depth(call.op)?;
        let part = x.shape[depth..].iter().product::<usize>();
        if self.drop_outside {
            let places = places_inside(&x.shape, call.input(1), depth);
            return write(call, self.reduction, &places, part);
        }
        let places = nd_places(&x.shape, call.input(1), 0, depth)?;
        let places: Vec<Option<usize>> = places.into_iter().map(Some).collect();
        write(call, self.reduction, &places, part)
    }

    fn iteration_domain(&self, op: &OpRef<'_>) -> Result<IterationDomain, OpError> {
        let (x, indices) = (op.operand(0)?, op.operand(1)?);
        let depth = depth(op)?;
        let mut domain = IterationDomain::new(op, FreedomClass::Ordered);
        let ids = domain.over(&x.dims);
        ids[..depth].iter().for_each(|&id| domain.along(id));
        let mut rows = Vec::with_capacity(indices.rank());
        for (d, dim) in indices.dims.iter().enumerate() {
            let role = match d + 1 == indices.rank() {
                true => Role::Axis,
                false => Role::Parallel,
            };
            rows.push(domain.add_as(dim.fixed().unwrap_or(0), LoopKind::Whole, role));
        }
        if let Some(&coordinate) = rows.last() {
            domain.uncut(coordinate);
        }
        domain.operands[0] = IndexExpr::each(&ids);
        domain.operands[1] = IndexExpr::each(&rows);
        domain.operands[2] =
            IndexExpr::each(&[&rows[..indices.rank() - 1], &ids[depth..]].concat());
        domain.results[0] = IndexExpr::each(&ids);
        Ok(domain)
    }

    /// The form has the coordinate dimensions first, in their order, then the rest.
    fn over_axes(&self, op: &OpRef<'_>, axes: &Axes<'_>) -> Option<OverAxes> {
        let depth = depth(op).ok()?;
        let coordinates = whole(axes, &of_dims(axes, 0, 0..depth))?;
        let rest = among(axes, &of_dims(axes, 0, depth..axes.ports()[0].labels.len()));
        let last = axes.ports()[1].labels.len().checked_sub(1)?;
        let rows = among(axes, &of_dims(axes, 1, 0..last));
        let coordinate = whole(axes, &of_dims(axes, 1, last..last + 1))?;
        let data = [&coordinates[..], &rest].concat();
        Some(OverAxes::new(
            self.write(),
            vec![
                data.clone(),
                [&rows[..], &coordinate].concat(),
                [&rows[..], &rest].concat(),
            ],
            vec![data],
        ))
    }

    fn updates(&self, _: &OpRef<'_>) -> Option<Update> {
        Some(Update { of: 0, by: 2 })
    }

    fn traffic(&self, op: &OpRef<'_>) -> Traffic {
        traffic(op)
    }

    fn indexed(&self, op: &OpRef<'_>) -> Option<(usize, Vec<Dim>)> {
        indexed_all(op)
    }
}

/// The place of the first element of each part; `None` for a part outside of the operand.
fn places_inside(x: &[usize], indices: &Tensor, depth: usize) -> Vec<Option<usize>> {
    let strides = row_major_strides(x);
    let rows: usize = indices.shape[..indices.shape.len() - 1].iter().product();
    let place = |row: usize| {
        (0..depth).try_fold(0, |at, d| {
            let index = usize::try_from(indices.i64_at(row * depth + d)).ok()?;
            (index < x[d]).then(|| at + index * strides[d])
        })
    };
    (0..rows).map(place).collect()
}

/// The number of coordinates of a part.
fn depth(op: &OpRef<'_>) -> Result<usize, OpError> {
    let (x, indices) = (op.operand(0)?, op.operand(1)?);
    let last = indices
        .dims
        .last()
        .and_then(Dim::fixed)
        .and_then(|n| usize::try_from(n).ok());
    last.filter(|&n| n <= x.rank()).ok_or_else(|| {
        let message = format!(
            "hbir.scatter_nd by indices {}, wanted a last dimension of at most {}",
            show(&indices.dims),
            x.rank()
        );
        OpError::new(SCATTER_ND_C2, message)
    })
}

codes! {
    const CODES;

    SCATTER_ND_C1 = program(
        "the indices of `hbir.scatter_nd` are no integers",
        r#"%0 = "hbir.scatter_nd"(%x, %y, %z) : (tensor<4xf32>, tensor<2x1xf32>, tensor<2xf32>) -> tensor<4xf32>"#,
        "cast the indices to `si64` or `si32`",
    );
    SCATTER_ND_C2 = program(
        "the last dimension of the indices is unknown, or longer than the rank of the first operand",
        r#"%0 = "hbir.scatter_nd"(%x, %y, %z) : (tensor<4xf32>, tensor<2x2xsi64>, tensor<2xf32>) -> tensor<4xf32>"#,
        "the last dimension holds one index tuple: at most as many numbers as the first operand has dimensions",
    );
    SCATTER_ND_C3 = program(
        "the updates of `hbir.scatter_nd` do not have the leading dimensions of the indices, then the dimensions left of the first operand",
        r#"%0 = "hbir.scatter_nd"(%x, %y, %z) : (tensor<4xf32>, tensor<2x1xsi64>, tensor<3xf32>) -> tensor<4xf32>"#,
        "give one slice of updates for each index tuple",
    );
    SCATTER_ND_C4 = program(
        "operand and updates of `hbir.scatter_nd` have different element types",
        r#"%0 = "hbir.scatter_nd"(%x, %y, %z) : (tensor<4xf32>, tensor<2x1xsi64>, tensor<2xsi8>) -> tensor<4xf32>"#,
        "convert one of them with `hbir.cast`",
    );
    SCATTER_ND_C5 = program(
        "`reduction` of `hbir.scatter_nd` is no known reduction",
        r#"%0 = "hbir.scatter_nd"(%x, %y, %z) <{reduction = "avg"}> : (tensor<4xf32>, tensor<2x1xsi64>, tensor<2xf32>) -> tensor<4xf32>"#,
        "use one of the words that the message lists",
    );
}
