//! `hbir.resize`: interpolation to another number of elements (ONNX `Resize`).
//!
//! Sizes: `scales` has one factor for each dimension (the result has `floor(n * scale)` elements), `sizes` has the
//! extents of the result, as numbers or as named sizes in text, `"2*H"`. With both, the result has `sizes`, and
//! positions are scaled by `scales`; with `sizes` alone by the ratio of the extents.
//!
//! For example, linear interpolation of `[0, 10]` with `scales = [2.0]` reads the positions -0.25, 0.25, 0.75 and 1.25
//! (half_pixel), and gives `[0, 2.5, 7.5, 10]`.
//!
//! - `coordinate_transformation_mode` gives the position in the operand for index `o` of the result:
//!   half_pixel `(o + 0.5) / s - 0.5`, half_pixel_symmetric (which adds a correction for the rounding of the size),
//!   pytorch_half_pixel (0 if the result has one element), align_corners `o * (n - 1) / (m - 1)`, asymmetric `o / s`,
//!   tf_half_pixel_for_nn `(o + 0.5) / s`.
//! - tf_crop_and_resize resizes only the part that `roi` gives (all starts, then all ends, as fractions of `n - 1`).
//!   Positions outside of the operand have the value `extrapolation_value`.
//! - `mode` is nearest (`nearest_mode`: round_prefer_floor, round_prefer_ceil, floor, ceil), linear, or cubic
//!   (`cubic_coeff_a`, -0.75 when absent).
//! - Beyond the edge the value is that of the edge element. With `exclude_outside` positions there are left out, and
//!   the other weights are scaled to the sum 1.
//! - With `antialias`, the linear and cubic kernels are widened by the scale when the number of elements is reduced.
//!
//! Dimensions are independent: they are interpolated one after the other, in `f64`, and the result is rounded once.

use crate::lanes::Lanes;
use crate::prelude::*;
use optc_ir::field_values;
use optc_ir::op::AttrValue;

/// The extents of a result.
#[derive(Clone, Debug, PartialEq)]
pub struct Extents(pub Vec<Extent>);

/// An extent of a result.
#[derive(Clone, Debug, PartialEq)]
pub enum Extent {
    /// A number of elements.
    Number(f64),
    /// A named size.
    Named(Size),
}

impl AttrValue for Extents {
    const KIND: &'static str = "a list of numbers and sizes";
    fn from_attr(attr: &Attr) -> Option<Self> {
        let extent = |entry: &Attr| match entry {
            Attr::Str(text) => Some(Extent::Named(Size::of_text(text))),
            other => f64::from_attr(other).map(Extent::Number),
        };
        let list: Option<Vec<Extent>> = attr.as_array()?.iter().map(extent).collect();
        list.map(Extents)
    }
    fn to_attr(&self) -> Attr {
        let entry = |extent: &Extent| match extent {
            Extent::Number(n) => n.to_attr(),
            Extent::Named(size) => Attr::str(&size.to_text()),
        };
        Attr::Array(self.0.iter().map(entry).collect())
    }
}

field_values!(Extents);

words! {
    /// The interpolation of a [`Resize`].
    pub enum ResizeMode {
        /// The nearest element.
        Nearest = "nearest",
        /// Two elements, weighted by their distance.
        Linear = "linear",
        /// Four elements, by Keys' cubic convolution.
        Cubic = "cubic",
    }
}

words! {
    /// The position in an operand of `n` elements that is read for index `o` of a result of `m` elements, with scale
    /// `s`.
    pub enum Coordinates {
        /// `(o + 0.5) / s - 0.5`.
        HalfPixel = "half_pixel",
        /// As half_pixel, plus a shift that centres the result: both ends share the error from rounding the size.
        HalfPixelSymmetric = "half_pixel_symmetric",
        /// As half_pixel, but 0 if `m` is 1.
        PytorchHalfPixel = "pytorch_half_pixel",
        /// `o * (n - 1) / (m - 1)`, but 0 if `m` is 1.
        AlignCorners = "align_corners",
        /// `o / s`.
        Asymmetric = "asymmetric",
        /// `(o + 0.5) / s`.
        TfHalfPixelForNn = "tf_half_pixel_for_nn",
        /// As align_corners, but over the part that `roi` gives.
        TfCropAndResize = "tf_crop_and_resize",
    }
}

words! {
    /// The rounding of a position to an element.
    pub enum NearestMode {
        /// To the nearest; a half is rounded down.
        RoundPreferFloor = "round_prefer_floor",
        /// To the nearest; a half is rounded up.
        RoundPreferCeil = "round_prefer_ceil",
        /// Down.
        Floor = "floor",
        /// Up.
        Ceil = "ceil",
    }
}

attributes! {
    /// Interpolation to another number of elements.
    pub struct Resize {
        /// A factor for each dimension. At least one of `scales` and `sizes` must be there.
        scales: Option<Vec<f64>>,
        /// The extents of the result. At least one of `scales` and `sizes` must be there.
        sizes: Option<Extents>,
        /// The interpolation.
        mode: ResizeMode [RESIZE_C1] = ResizeMode::Nearest,
        /// The position that is read for each index of the result.
        coordinate_transformation_mode: Coordinates [RESIZE_C1] = Coordinates::HalfPixel,
        /// The rounding of positions in the mode nearest.
        nearest_mode: NearestMode [RESIZE_C1] = NearestMode::RoundPreferFloor,
        /// The coefficient of the cubic convolution.
        cubic_coeff_a: f64 = -0.75,
        /// True if positions beyond the edge are left out and the other weights scaled to the sum 1; otherwise they
        /// have the value of the edge element.
        exclude_outside: bool = false,
        /// True if linear and cubic kernels are widened by the scale when the number of elements is reduced.
        antialias: bool = false,
        /// The part that tf_crop_and_resize resizes, as fractions of `n - 1`: its start along every dimension, then its
        /// end along every dimension.
        roi: Option<Vec<f64>>,
        /// The value outside of the operand if a part is resized.
        extrapolation_value: f64 = 0.0,
    }
}

impl Resize {
    /// The interpolated dimensions, in order. `None` if a size is unknown, a constraint does not hold, or `roi` crops.
    #[must_use]
    pub fn interpolations(&self, op: &OpRef<'_>) -> Option<Vec<Interpolation>> {
        let x = op.operand(0).ok()?;
        if !self.region(x.rank()).ok()?.is_empty() {
            return None;
        }
        let targets = self.targets(x).ok()?;
        let mut all = Vec::new();
        for (axis, (dim, (target, scale))) in x.dims.iter().zip(&targets).enumerate() {
            let n = usize::try_from(dim.fixed()?).ok()?;
            let m = usize::try_from(target.fixed()?).ok()?;
            let scale = scale.unwrap_or_else(|| ratio(n, m));
            if n != m || scale != 1.0 {
                let way = Way {
                    by: self,
                    scale,
                    part: None,
                };
                let taps = (0..m).map(|o| way.taps(o, (n, m))).collect();
                all.push(Interpolation { axis, taps });
            }
        }
        Some(all)
    }

    /// For each dimension, the start and the end of the part that is resized, as fractions of `n - 1`; empty if the
    /// whole operand is resized.
    ///
    /// C5: `roi` has two numbers for each dimension with tf_crop_and_resize, and is absent otherwise.
    fn region(&self, rank: usize) -> Result<Vec<(f64, f64)>, OpError> {
        let crops = self.coordinate_transformation_mode == Coordinates::TfCropAndResize;
        if self.roi.as_ref().map(Vec::len) != crops.then_some(2 * rank) {
            let message = format!(
                "hbir.resize wants {} numbers in `roi` to crop, else none",
                2 * rank
            );
            return Err(OpError::new(RESIZE_C5, message));
        }
        let roi = self.roi.as_deref().unwrap_or_default();
        let (starts, ends) = roi.split_at(roi.len() / 2);
        Ok(starts.iter().copied().zip(ends.iter().copied()).collect())
    }

    /// For each dimension, the extent of the result and the scale. Without a scale it is the ratio of the extents.
    ///
    /// C2: `scales`, `sizes` or both, with one entry for each dimension. C3: scales are positive, sizes are not
    /// negative, and an empty dimension stays empty.
    fn targets(&self, x: &TensorType) -> Result<Vec<(Dim, Option<f64>)>, OpError> {
        if self.scales.is_none() && self.sizes.is_none() {
            let message = "hbir.resize wants `scales` or `sizes`";
            return Err(OpError::new(RESIZE_C2, message));
        }
        let counts = [
            self.scales.as_ref().map(Vec::len),
            self.sizes.as_ref().map(|sizes| sizes.0.len()),
        ];
        for count in counts.into_iter().flatten() {
            if count != x.rank() {
                let message = format!(
                    "hbir.resize of {} has {count} entries, wanted {}",
                    show(&x.dims),
                    x.rank()
                );
                return Err(OpError::new(RESIZE_C2, message));
            }
        }
        let target = |(d, dim): (usize, &Dim)| {
            let scale = self.scales.as_ref().map(|list| list[d]);
            let size = self.sizes.as_ref().map(|list| &list.0[d]);
            let by_scale = scale.map(|scale| scaled(dim, scale)).transpose()?;
            let dim = match (size, by_scale) {
                (Some(size), _) => sized(dim, size)?,
                (None, by_scale) => by_scale.unwrap_or(Dim::Unknown),
            };
            Ok((dim, scale))
        };
        x.dims.iter().enumerate().map(target).collect()
    }
}

impl Operation for Resize {
    const NAME: &'static str = "hbir.resize";
    const SUMMARY: &'static str = "interpolation to another number of elements";
    const FAMILY: &'static str = "resize";
    const OPERANDS: (usize, usize) = (1, 1);
    const CODES: &'static [Code] = CODES;

    /// C4: the operand is of numbers.
    fn infer(&self, op: &OpRef<'_>) -> Result<Vec<Inferred>, OpError> {
        let x = op.operand(0)?;
        self.region(x.rank())?;
        if x.dtype.is_bool() {
            return Err(OpError::new(
                RESIZE_C4,
                "hbir.resize of i1, wanted a float or an integer type",
            ));
        }
        one(self.targets(x)?.into_iter().map(|t| t.0).collect(), x.dtype)
    }

    fn eval(&self, call: &Call<'_>) -> Result<Vec<Tensor>, EvalError> {
        let x = call.op.operand(0)?;
        let roi = self.region(x.rank())?;
        let targets = self.targets(x)?;
        let mut shape = call.input(0).shape.clone();
        let original = shape.clone();
        let mut values = call.input(0).to_f64();
        for (axis, (&size, (_, scale))) in call.shape().iter().zip(&targets).enumerate() {
            let part = roi.get(axis).copied();
            let scale = scale.unwrap_or_else(|| ratio(shape[axis], size));
            if size != shape[axis] || scale != 1.0 || part.is_some() {
                let way = Way {
                    by: self,
                    scale,
                    part,
                };
                values = resize_axis(&values, &mut shape, axis, size, &way);
            }
        }
        for (axis, (&n, &part)) in original.iter().zip(&roi).enumerate() {
            let outside = Outside {
                n,
                part,
                value: self.extrapolation_value,
            };
            erase_outside(&mut values, &shape, axis, &outside);
        }
        Ok(call.floats(values))
    }

    /// The loop of a batch or channel dimension that keeps its size is parallel if there is no `roi`; every other
    /// dimension is needed whole.
    fn iteration_domain(&self, op: &OpRef<'_>) -> Result<IterationDomain, OpError> {
        let (x, y) = (op.operand(0)?, op.result(0)?);
        let mut domain = IterationDomain::new(op, FreedomClass::Window);
        for (d, (a, b)) in x.dims.iter().zip(&y.dims).enumerate() {
            let role = match d {
                0 if 2 < x.rank() => Role::Batch,
                1 if 2 < x.rank() => Role::Channel,
                _ => Role::Spatial,
            };
            // A spatial dimension that keeps its size may still be resampled.
            let kind = match a.same(b) && role != Role::Spatial && self.roi.is_none() {
                true => LoopKind::Parallel,
                false => LoopKind::Whole,
            };
            let id = domain.add_as(b.fixed().unwrap_or(0), kind, role);
            if !a.same(b) {
                domain.uncut(id);
            }
            domain.operands[0][d] = IndexExpr::of(id);
            domain.results[0][d] = IndexExpr::of(id);
        }
        Ok(domain)
    }
}

/// The interpolation of one dimension by an `hbir.resize`.
#[derive(Clone, PartialEq, Debug)]
pub struct Interpolation {
    /// The dimension.
    pub axis: usize,
    /// For each index of the result, the elements of the operand that are read, with their weights.
    pub taps: Vec<Vec<(usize, f64)>>,
}

/// The greatest extent that a resize accepts.
const MAX_EXTENT: f64 = 4_294_967_296.0;

#[expect(
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    reason = "checked before"
)]
#[expect(clippy::cast_precision_loss, reason = "extents are below 2^53")]
fn scaled(dim: &Dim, scale: f64) -> Result<Dim, OpError> {
    let Some(n) = dim.fixed() else {
        return Ok(if scale == 1.0 {
            dim.clone()
        } else if 0.0 < scale && scale < MAX_EXTENT && scale.fract() == 0.0 {
            computed(dim, |n| n.times(&Size::from(scale as u64)))
        } else {
            Dim::Unknown
        });
    };
    let size = (n as f64 * scale).floor();
    if 0.0 < scale && size < MAX_EXTENT {
        return Ok(Dim::Fixed(size as u64));
    }
    let message = format!("hbir.resize scales {n} elements by {scale}, wanted a positive factor");
    Err(OpError::new(RESIZE_C3, message))
}

#[expect(
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    reason = "checked before"
)]
fn sized(dim: &Dim, size: &Extent) -> Result<Dim, OpError> {
    let size = match size {
        Extent::Named(size) => return Ok(Dim::of_size(size)),
        Extent::Number(size) => *size,
    };
    if (0.0..MAX_EXTENT).contains(&size) && (dim.fixed() != Some(0) || size == 0.0) {
        return Ok(Dim::Fixed(size as u64));
    }
    Err(OpError::new(
        RESIZE_C3,
        format!("hbir.resize of {dim} elements to {size}"),
    ))
}

/// The scale from `n` to `m` elements.
#[expect(clippy::cast_precision_loss, reason = "extents are below 2^53")]
fn ratio(n: usize, m: usize) -> f64 {
    if n == 0 { 1.0 } else { m as f64 / n as f64 }
}

/// The values outside of the operand along a cropped dimension.
struct Outside {
    /// The extent of the operand.
    n: usize,
    /// The start and the end of the part that is resized, as fractions of `n - 1`.
    part: (f64, f64),
    value: f64,
}

/// Overwrites the results whose position along a cropped dimension is outside of the operand.
#[expect(clippy::cast_precision_loss, reason = "extents are below 2^53")]
fn erase_outside(values: &mut [f64], shape: &[usize], axis: usize, outside: &Outside) {
    let (n, m) = (outside.n as f64, shape[axis]);
    let beyond: Vec<bool> = (0..m)
        .map(|o| {
            let place = cropped(o as f64, n, m as f64, outside.part);
            !(0.0..=n - 1.0).contains(&place)
        })
        .collect();
    for (start, step) in Lanes::new(shape, axis).iter() {
        for (o, _) in beyond.iter().enumerate().filter(|(_, out)| **out) {
            values[start + o * step] = outside.value;
        }
    }
}

/// The position in a dimension of `n` elements for index `o` of `m`, if the part from `start` to `end` is resized.
fn cropped(o: f64, n: f64, m: f64, (start, end): (f64, f64)) -> f64 {
    if m <= 1.0 {
        return 0.5 * (start + end) * (n - 1.0);
    }
    start * (n - 1.0) + o * (end - start) * (n - 1.0) / (m - 1.0)
}

/// Interpolates one dimension.
fn resize_axis(
    x: &[f64],
    shape: &mut [usize],
    axis: usize,
    size: usize,
    way: &Way<'_>,
) -> Vec<f64> {
    let from = Lanes::new(shape, axis);
    let taps: Vec<Vec<(usize, f64)>> = (0..size).map(|o| way.taps(o, (from.n, size))).collect();
    shape[axis] = size;
    let to = Lanes::new(shape, axis);
    let mut out = vec![0.0; shape.iter().product()];
    for ((start, step), (out_start, out_step)) in from.iter().zip(to.iter()) {
        for (o, taps) in taps.iter().enumerate() {
            let sum = taps
                .iter()
                .map(|&(i, weight)| x[start + i * step] * weight)
                .sum();
            out[out_start + o * out_step] = sum;
        }
    }
    out
}

/// The parameters for the interpolation of one dimension.
struct Way<'a> {
    by: &'a Resize,
    scale: f64,
    /// The start and the end of the part that is resized; `None` for the whole dimension.
    part: Option<(f64, f64)>,
}

impl Way<'_> {
    /// The elements that are read for index `o` of the result, with their weights.
    #[expect(
        clippy::cast_possible_truncation,
        reason = "places are near the extent"
    )]
    #[expect(clippy::cast_precision_loss, reason = "extents are below 2^53")]
    fn taps(&self, o: usize, (n, m): (usize, usize)) -> Vec<(usize, f64)> {
        let place = match self.part {
            Some(part) => cropped(o as f64, n as f64, m as f64, part),
            None => self.place(o as f64, n as f64, m as f64),
        };
        let clamp = |i: i64| i.clamp(0, n as i64 - 1) as usize;
        if self.by.mode == ResizeMode::Nearest {
            let nearest = match self.by.nearest_mode {
                NearestMode::RoundPreferFloor => (place - 0.5).ceil(),
                NearestMode::RoundPreferCeil => (place + 0.5).floor(),
                NearestMode::Floor => place.floor(),
                NearestMode::Ceil => place.ceil(),
            };
            return vec![(clamp(nearest as i64), 1.0)];
        }
        let base = place.floor();
        let t = place - base;
        let (first, weights) = if self.by.antialias && self.scale < 1.0 {
            self.wide_weights(place)
        } else if self.by.mode == ResizeMode::Linear {
            (base as i64, vec![1.0 - t, t])
        } else {
            (
                base as i64 - 1,
                cubic_weights(t, self.by.cubic_coeff_a).to_vec(),
            )
        };
        let taps = weights
            .into_iter()
            .zip(first..)
            .map(|(weight, i)| (i, weight));
        if !self.by.exclude_outside {
            return taps.map(|(i, weight)| (clamp(i), weight)).collect();
        }
        let inside: Vec<(i64, f64)> = taps.filter(|(i, _)| (0..n as i64).contains(i)).collect();
        let total: f64 = inside.iter().map(|t| t.1).sum();
        inside
            .into_iter()
            .map(|(i, weight)| (clamp(i), weight / total))
            .collect()
    }

    /// The position in a dimension of `n` elements for index `o` of `m`.
    fn place(&self, o: f64, n: f64, m: f64) -> f64 {
        let scale = self.scale;
        let half_pixel = (o + 0.5) / scale - 0.5;
        match self.by.coordinate_transformation_mode {
            Coordinates::HalfPixelSymmetric => n / 2.0 * (1.0 - m / (scale * n)) + half_pixel,
            Coordinates::PytorchHalfPixel | Coordinates::AlignCorners if m <= 1.0 => 0.0,
            Coordinates::AlignCorners => o * (n - 1.0) / (m - 1.0),
            Coordinates::Asymmetric => o / scale,
            Coordinates::TfHalfPixelForNn => (o + 0.5) / scale,
            Coordinates::HalfPixel
            | Coordinates::PytorchHalfPixel
            | Coordinates::TfCropAndResize => half_pixel,
        }
    }

    /// The weights of a kernel that is widened by `1 / scale`, and the first element that it covers. The weights are
    /// scaled to the sum 1.
    #[expect(
        clippy::cast_possible_truncation,
        reason = "places are near the extent"
    )]
    #[expect(clippy::cast_precision_loss, reason = "extents are below 2^53")]
    fn wide_weights(&self, place: f64) -> (i64, Vec<f64>) {
        let scale = self.scale;
        let linear = self.by.mode == ResizeMode::Linear;
        let reach = if linear { 1.0 } else { 2.0 } / scale;
        let first = (place - reach).ceil() as i64;
        let last = (place + reach).floor() as i64;
        let weight = |i: i64| {
            let distance = ((i as f64 - place) * scale).abs();
            if linear {
                (1.0 - distance).max(0.0)
            } else if distance < 1.0 {
                cubic_weights(distance, self.by.cubic_coeff_a)[1]
            } else {
                cubic_weights((distance - 1.0).min(1.0), self.by.cubic_coeff_a)[0]
            }
        };
        let weights: Vec<f64> = (first..=last).map(weight).collect();
        let total: f64 = weights.iter().sum();
        (first, weights.into_iter().map(|w| w / total).collect())
    }
}

/// The weights of the four elements around a position, which is `t` beyond the second one (Keys' cubic convolution).
fn cubic_weights(t: f64, a: f64) -> [f64; 4] {
    let near = |t: f64| ((a + 2.0) * t - (a + 3.0)) * t * t + 1.0;
    let far = |t: f64| ((a * t - 5.0 * a) * t + 8.0 * a) * t - 4.0 * a;
    [far(t + 1.0), near(t), near(1.0 - t), far(2.0 - t)]
}

codes! {
    const CODES;

    RESIZE_C1 = program(
        "`mode`, `coordinate_transformation_mode` or `nearest_mode` of `hbir.resize` is no known word",
        r#"%0 = "hbir.resize"(%x) <{sizes = [4], mode = "area"}> : (tensor<2xf32>) -> tensor<4xf32>"#,
        "use one of the words that the message lists",
    );
    RESIZE_C2 = program(
        "`hbir.resize` has neither `scales` nor `sizes`, or not one entry a dimension",
        r#"%0 = "hbir.resize"(%x) : (tensor<2xf32>) -> tensor<4xf32>"#,
        "give `sizes = […]` or `scales = […]`; 1.0 leaves a dimension as it is",
    );
    RESIZE_C3 = program(
        "a scale of `hbir.resize` is not above 0, a size is negative, or an empty dimension would get elements",
        r#"%0 = "hbir.resize"(%x) <{scales = [-1.0]}> : (tensor<2xf32>) -> tensor<2xf32>"#,
        "give positive scales, or sizes from 0 on",
    );
    RESIZE_C4 = program(
        "`hbir.resize` of booleans, wanted numbers",
        r#"%0 = "hbir.resize"(%x) <{sizes = [4]}> : (tensor<2xi1>) -> tensor<4xi1>"#,
        "cast the operand to a number type",
    );
    RESIZE_C5 = program(
        "`roi` of `hbir.resize` is there without tf_crop_and_resize, or lacks a start and an end for each dimension",
        r#"%0 = "hbir.resize"(%x) <{sizes = [4], roi = [0.5]}> : (tensor<2xf32>) -> tensor<4xf32>"#,
        "give all starts, then all ends, in parts of the extent, or no `roi`",
    );
}
