//! `hbir.grid_sample`: the elements of `[N, C, D1 …]` at the positions in a grid `[N, E1 …, r]`, as `[N, C, E1 …]`
//! (ONNX `GridSample`).
//!
//! - Each vector in the last dimension of the grid is a position: the coordinate of the operand's last dimension comes
//!   first. Coordinates are from -1 at one end to 1 at the other. The ends are the centres of the outer elements with
//!   `align_corners`, else their outer edges.
//! - `mode` is linear, nearest (ties to even) or cubic (coefficient -0.75).
//! - `padding_mode` gives the values outside of the operand: zeros, the elements at the border, or the operand
//!   reflected at its border.
//!
//! Everything is computed in `f64` and rounded once.

use crate::pool;
use crate::prelude::*;

words! {
    /// The interpolation of a [`GridSample`].
    pub enum SampleMode {
        /// The two nearest elements along each dimension, weighted by their distance.
        Linear = "linear",
        /// The nearest element; on a tie the one with the even index.
        Nearest = "nearest",
        /// Four elements along each dimension, by Keys' cubic convolution with the coefficient -0.75.
        Cubic = "cubic",
    }
}

words! {
    /// Values outside of the operand of a [`GridSample`].
    pub enum SamplePadding {
        /// Zeros.
        Zeros = "zeros",
        /// The elements at the border.
        Border = "border",
        /// The operand reflected at its border.
        Reflection = "reflection",
    }
}

attributes! {
    /// The elements at the positions in a grid.
    pub struct GridSample {
        /// The interpolation.
        mode: SampleMode [GRID_SAMPLE_C1] = SampleMode::Linear,
        /// Values outside of the operand.
        padding_mode: SamplePadding [GRID_SAMPLE_C1] = SamplePadding::Zeros,
        /// True if -1 and 1 are the centres of the outer elements; otherwise they are the outer edges.
        align_corners: bool = false,
    }
}

impl Operation for GridSample {
    const NAME: &'static str = "hbir.grid_sample";
    const SUMMARY: &'static str = "elements at the places that a grid names";
    const FAMILY: &'static str = "resize";
    const OPERANDS: (usize, usize) = (2, 2);
    const CODES: &'static [Code] = CODES;

    /// C2: operand and grid are of floats. C3: they are `[N, C, D1 … Dr]` and `[N, E1 … Er, r]`.
    fn infer(&self, op: &OpRef<'_>) -> Result<Vec<Inferred>, OpError> {
        let (x, grid) = (op.operand(0)?, op.operand(1)?);
        let dtype = wants_float(op, GRID_SAMPLE_C2, 0)?;
        wants_float(op, GRID_SAMPLE_C2, 1)?;
        let (rank, spatial) = (x.rank(), x.rank().saturating_sub(2));
        let places = grid
            .dims
            .last()
            .is_some_and(|d| d.fixed().is_none_or(|n| n == spatial as u64));
        let batch = match (x.dims.first(), grid.dims.first()) {
            (Some(a), Some(b)) => unify(a, b),
            _ => None,
        };
        let Some(batch) = batch.filter(|_| 0 < spatial && grid.rank() == rank && places) else {
            let message = format!(
                "hbir.grid_sample of {} at {}, wanted [N, C, D1 …] and [N, E1 …, {spatial}]",
                show(&x.dims),
                show(&grid.dims)
            );
            return Err(OpError::new(GRID_SAMPLE_C3, message));
        };
        let mut dims = vec![batch, x.dims[1].clone()];
        dims.extend_from_slice(&grid.dims[1..rank - 1]);
        one(dims, dtype)
    }

    fn eval(&self, call: &Call<'_>) -> Result<Vec<Tensor>, EvalError> {
        let (x, grid) = (call.input(0).to_f64(), call.input(1).to_f64());
        let shape = &call.input(0).shape;
        let extents = &shape[2..];
        let volume: usize = extents.iter().product();
        let points: usize = call.shape()[2..].iter().product();
        let mut out = Vec::with_capacity(shape[0] * shape[1] * points);
        for n in 0..shape[0] {
            let start = n * points * extents.len();
            let places = &grid[start..start + points * extents.len()];
            let taps: Vec<Vec<(usize, f64)>> = places
                .chunks_exact(extents.len())
                .map(|place| taps(place, extents, self))
                .collect();
            for c in 0..shape[1] {
                let plane = &x[(n * shape[1] + c) * volume..][..volume];
                out.extend(
                    taps.iter()
                        .map(|t| t.iter().map(|&(i, w)| plane[i] * w).sum::<f64>()),
                );
            }
        }
        Ok(call.floats(out))
    }

    fn iteration_domain(&self, op: &OpRef<'_>) -> Result<IterationDomain, OpError> {
        let (grid, y) = (op.operand(1)?, op.result(0)?);
        let mut domain = IterationDomain::new(op, FreedomClass::Window);
        let mut ids = Vec::with_capacity(y.rank());
        for (d, dim) in y.dims.iter().enumerate() {
            let role = pool::role(d);
            let id = domain.add_as(dim.fixed().unwrap_or(0), LoopKind::Whole, role);
            if role == Role::Spatial {
                domain.uncut(id);
            }
            ids.push(id);
        }
        let last = grid.dims.last().unwrap_or(&Dim::Unknown);
        let coordinate = domain.add_for(last, LoopKind::Whole);
        domain.uncut(coordinate);
        domain.operands[0] = IndexExpr::each(&ids);
        domain.operands[1] = IndexExpr::each(&[&ids[..1], &ids[2..], &[coordinate]].concat());
        domain.results[0] = IndexExpr::each(&ids);
        Ok(domain)
    }
}

/// The elements of a plane that are read for one position, with their weights.
fn taps(place: &[f64], extents: &[usize], config: &GridSample) -> Vec<(usize, f64)> {
    let mut taps = vec![(0usize, 1.0)];
    for (d, &n) in extents.iter().enumerate() {
        let (along, count) = config.taps(place[extents.len() - 1 - d], n);
        let step = |&(i, w): &(usize, f64)| {
            along[..count]
                .iter()
                .map(move |&(j, v)| (i * n + j, w * v))
                .collect()
        };
        let next: Vec<Vec<(usize, f64)>> = taps.iter().map(step).collect();
        taps = next.concat();
    }
    taps
}

impl GridSample {
    /// The elements of a dimension of `n` that are read for a coordinate, with their weights, and the number of such
    /// elements. With zero padding, elements outside are left out.
    #[must_use]
    #[inline]
    #[expect(clippy::cast_possible_truncation, reason = "clamped before")]
    #[expect(clippy::cast_precision_loss, reason = "extents are below 2^53")]
    #[expect(clippy::cast_sign_loss, reason = "inside of the extent")]
    pub fn taps(&self, coordinate: f64, n: usize) -> ([(usize, f64); 4], usize) {
        let size = n as f64;
        let mut place = if self.align_corners {
            (coordinate + 1.0) / 2.0 * (size - 1.0)
        } else {
            ((coordinate + 1.0) * size - 1.0) / 2.0
        };
        // A position far away gives what one just outside gives. NaN counts as far before the first element.
        place = if place.is_nan() {
            -1e9
        } else {
            place.clamp(-1e9, 1e9)
        };
        if self.mode != SampleMode::Cubic {
            place = match self.padding_mode {
                SamplePadding::Border => place.clamp(0.0, size - 1.0),
                SamplePadding::Reflection => {
                    reflected(place, size, self.align_corners).clamp(0.0, size - 1.0)
                }
                SamplePadding::Zeros => place,
            };
        }
        let base = place.floor();
        let t = place - base;
        let (first, weights, count) = match self.mode {
            SampleMode::Nearest => (place.round_ties_even(), [1.0, 0.0, 0.0, 0.0], 1),
            SampleMode::Cubic => (base - 1.0, cubic(t), 4),
            SampleMode::Linear => (base, [1.0 - t, t, 0.0, 0.0], 2),
        };
        let (mut taps, mut found) = ([(0, 0.0); 4], 0);
        for (k, weight) in weights.into_iter().take(count).enumerate() {
            let at = first + k as f64;
            let inside = (0.0..size).contains(&at);
            let at = match self.padding_mode {
                _ if inside => at,
                SamplePadding::Border => at.clamp(0.0, size - 1.0),
                SamplePadding::Reflection => {
                    reflected(at, size, self.align_corners).clamp(0.0, size - 1.0)
                }
                SamplePadding::Zeros => continue,
            };
            taps[found] = (at as usize, weight);
            found += 1;
        }
        (taps, found)
    }
}

/// A position reflected at both borders until it is inside.
fn reflected(place: f64, size: f64, align: bool) -> f64 {
    let (low, high) = if align {
        (0.0, size - 1.0)
    } else {
        (-0.5, size - 0.5)
    };
    let span = high - low;
    if span <= 0.0 {
        return 0.0;
    }
    let beyond = (place - low).rem_euclid(2.0 * span);
    low + if span < beyond {
        2.0 * span - beyond
    } else {
        beyond
    }
}

/// The weights of the four elements around a position, which is `t` beyond the second one, with the coefficient -0.75.
fn cubic(t: f64) -> [f64; 4] {
    let a = -0.75;
    let near = |t: f64| ((a + 2.0) * t - (a + 3.0)) * t * t + 1.0;
    let far = |t: f64| ((a * t - 5.0 * a) * t + 8.0 * a) * t - 4.0 * a;
    [far(t + 1.0), near(t), near(1.0 - t), far(2.0 - t)]
}

codes! {
    const CODES;

    GRID_SAMPLE_C1 = program(
        "`mode` or `padding_mode` of `hbir.grid_sample` is no known word",
        r#"%0 = "hbir.grid_sample"(%x, %y) <{mode = "area"}> : (tensor<1x1x2x2xf32>, tensor<1x3x3x2xf32>) -> tensor<1x1x3x3xf32>"#,
        "use one of the words that the message lists",
    );
    GRID_SAMPLE_C2 = program(
        "`hbir.grid_sample` of integers or booleans, wanted floats",
        r#"%0 = "hbir.grid_sample"(%x, %y) : (tensor<1x1x2x2xsi32>, tensor<1x3x3x2xf32>) -> tensor<1x1x3x3xsi32>"#,
        "cast the operand to a float type",
    );
    GRID_SAMPLE_C3 = program(
        "operand and grid of `hbir.grid_sample` are not `[N, C, D1 …]` and `[N, E1 …, r]` with `r` spatial dimensions",
        r#"%0 = "hbir.grid_sample"(%x, %y) : (tensor<1x1x2x2xf32>, tensor<1x3x3x3xf32>) -> tensor<1x1x3x3xf32>"#,
        "give the grid one coordinate for each spatial dimension of the operand, in its last dimension",
    );
}
