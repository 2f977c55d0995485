//! Fourier transforms, as products with constant matrices of cosines and sines.

use super::{Rule, decomposed};
use crate::builder::{Stop, Val};
use crate::codes;
use crate::entries::{Entry, size_attr};
use crate::node::{Done, NodeCx, props};
use optc_ir::{Attr, DType, Dim, Tensor};
use optc_ops::{Mul, Reshape, Transpose, Unsqueeze, ints};
use std::f64::consts::TAU;

/// The rules of this family.
pub(super) static RULES: &[Rule] = &[
    decomposed("DFT", dft),
    decomposed("MelWeightMatrix", mel),
    decomposed("STFT", stft),
];

/// The most elements of a matrix: transforms of 2048 samples of one part have as many.
const MAX_ELEMENTS: u64 = 1 << 23;
/// The reason for which a larger matrix is not computed.
const TOO_LARGE: &str = "its matrix is too large to be computed at import";

/// The parts of a number, real and imaginary.
const PARTS: u64 = 2;

/// A discrete Fourier transform of numbers with `parts` parts.
struct Transform {
    /// The period of the lowest frequency.
    length: u64,
    /// The number of samples; those after it are 0.
    samples: u64,
    parts: u64,
    one_sided: bool,
    inverse: bool,
}

impl Transform {
    /// The number of results. The inverse of a one-sided transform has real ones.
    fn results(&self) -> u64 {
        match self.one_sided && !self.inverse {
            true => self.length / 2 + 1,
            false => self.length,
        }
    }

    fn result_parts(&self) -> u64 {
        if self.is_real() { 1 } else { PARTS }
    }

    fn is_real(&self) -> bool {
        self.one_sided && self.inverse
    }

    /// The factor of part `part` of sample `n` in part `to` of result `k`. The sum over samples of
    /// `x * (cos a + i sin a)` has the angle `a = -2 pi k n / length`; the inverse has `a = 2 pi k n / length` and
    /// divides by `length`. In the inverse of a one-sided transform a frequency stands for its conjugate too.
    fn factor(&self, [n, part, k, to]: [u64; 4]) -> f64 {
        // The angle of a reduced product is exact to the last places.
        let turned = u128::from(k) * u128::from(n) % u128::from(self.length);
        let angle = TAU * (turned as f64 / self.length as f64);
        let (angle, scale) = match self.inverse {
            true => (angle, 1.0 / self.length as f64),
            false => (-angle, 1.0),
        };
        let is_own_conjugate = n == 0 || n.checked_mul(2) == Some(self.length);
        let scale = match self.is_real() && !is_own_conjugate {
            true => 2.0 * scale,
            false => scale,
        };
        let factor = match (part, to) {
            (0, 0) | (1, 1) => angle.cos(),
            (0, _) => angle.sin(),
            _ => -angle.sin(),
        };
        scale * factor
    }

    /// The matrix with the dimensions `order` of sample, part, result and part of the result.
    fn matrix(
        &self,
        cx: &mut NodeCx<'_, '_>,
        dtype: DType,
        order: [usize; 4],
    ) -> Result<Val, Stop> {
        let extents = [
            self.samples,
            self.parts,
            self.results(),
            self.result_parts(),
        ];
        let shape = order.map(|d| extents[d]);
        let product = |all: u64, &n: &u64| all.checked_mul(n);
        let count = shape
            .iter()
            .try_fold(1, product)
            .filter(|&n| cx.file.spend_within(n, MAX_ELEMENTS));
        let count = count.ok_or_else(|| Stop::opaque(TOO_LARGE))?;
        let at = |mut place: u64| {
            let mut index = [0; 4];
            for (&d, extent) in order.iter().zip(shape).rev() {
                index[d] = place % extent;
                place /= extent;
            }
            self.factor(index)
        };
        let shape = shape.map(|n| n as usize).to_vec();
        let made = Tensor::from_f64(dtype, shape, (0..count).map(at));
        Ok(cx.b.literal(made, cx.loc.clone()))
    }
}

/// The number of parts of the numbers of a signal: its last dimension.
fn parts(dims: &[Dim]) -> Result<u64, Stop> {
    let last = dims.last().and_then(Dim::fixed);
    last.filter(|n| (1..=PARTS).contains(n))
        .ok_or_else(|| Stop::opaque("the last dimension of its signal is not 1 or 2"))
}

/// The constant in input `i`, a number of at least 1.
fn count(cx: &NodeCx<'_, '_>, i: usize, what: &str) -> Result<u64, Stop> {
    let given = cx.const_ints(i);
    let given = given.ok_or_else(|| Stop::opaque(format!("its {what} is computed at run time")))?;
    let first = given.first().and_then(|&n| u64::try_from(n).ok());
    first.filter(|&n| 0 < n).ok_or_else(|| {
        let message = format!("its {what} is {given:?}, wanted a number of at least 1");
        Stop::error(codes::WINDOW_LIST, message)
    })
}

/// The transform along an axis: the product with a matrix over samples and parts.
fn dft(cx: &mut NodeCx<'_, '_>) -> Done {
    let x = cx.need(0)?;
    let dims = cx.dims(x)?;
    let rank = dims.len();
    let axis = match (cx.opset < 20, cx.input(2)) {
        (true, _) => cx.int("axis").unwrap_or(1),
        (false, None) => -2,
        (false, Some(_)) => {
            let given = cx.const_ints(2).and_then(|axes| axes.first().copied());
            given.ok_or_else(|| Stop::opaque("its axis is computed at run time"))?
        }
    };
    let axis = cx.axis(axis, rank)?;
    if axis + 1 == rank {
        return Err(Stop::opaque("its axis is that of the parts"));
    }
    let own = cx.extent(x, axis)?.unsigned_abs();
    let (one_sided, inverse) = (cx.flag("onesided", false), cx.flag("inverse", false));
    let length = match cx.input(1) {
        Some(_) => count(cx, 1, "length")?,
        None if one_sided && inverse => own.saturating_sub(1).saturating_mul(2),
        None => own,
    };
    let read = match one_sided && inverse {
        true => length / 2 + 1,
        false => length,
    };
    let transform = Transform {
        length,
        samples: read.min(own),
        parts: parts(&dims)?,
        one_sided,
        inverse,
    };
    if length == 0 || transform.samples == 0 || MAX_RANK < rank {
        return Err(Stop::opaque(
            "it transforms no samples, or too many dimensions",
        ));
    }
    let matrix = transform.matrix(cx, cx.dtype(x)?, [0, 1, 2, 3])?;
    let x = cx.cut(
        x,
        axis,
        0,
        i64::try_from(transform.samples).unwrap_or(i64::MAX),
    )?;
    let letters: String = ('a'..='z').take(rank - 1).collect();
    let sample = &letters[axis..=axis];
    let result = letters.replace(sample, "K");
    let equation = format!("{letters}P,{sample}PKQ->{result}Q");
    let result = cx.einsum(&equation, &[x, matrix])?;
    cx.set(0, result);
    Ok(())
}

/// The most dimensions of a signal.
const MAX_RANK: usize = 20;

/// The transforms of overlapping frames: a convolution along the signal.
fn stft(cx: &mut NodeCx<'_, '_>) -> Done {
    let x = cx.need(0)?;
    let (dims, dtype) = (cx.dims(x)?, cx.dtype(x)?);
    let (parts, signal) = match dims.len() {
        2 => (
            1,
            cx.emit(
                &Unsqueeze {
                    axes: ints(&[1i64]),
                },
                &[x],
            )?,
        ),
        3 => (
            parts(&dims)?,
            cx.emit(
                &Transpose {
                    perm: ints(&[0i64, 2, 1]),
                },
                &[x],
            )?,
        ),
        rank => {
            return Err(Stop::opaque(format!(
                "its signal has rank {rank}, wanted 2 or 3"
            )));
        }
    };
    cx.need(1)?;
    let step = count(cx, 1, "frame step")?;
    let window = cx.input(2);
    let length = match (window, cx.input(3)) {
        (_, Some(_)) => count(cx, 3, "frame length")?,
        (Some(window), None) => cx.extent(window, 0)?.unsigned_abs(),
        (None, None) => cx.extent(x, 1)?.unsigned_abs(),
    };
    if length == 0 || dims[1].fixed().is_some_and(|n| n < length) {
        return Err(Stop::opaque(format!(
            "a frame has {length} samples, and the signal fewer"
        )));
    }
    let transform = Transform {
        length,
        samples: length,
        parts,
        one_sided: cx.flag("onesided", true),
        inverse: false,
    };
    let bins = transform.results();
    let kernel = transform.matrix(cx, dtype, [2, 3, 1, 0])?;
    let shape = [bins * PARTS, parts, length].map(|n| i64::try_from(n).unwrap_or(i64::MAX));
    let mut kernel = cx.reshape(kernel, &shape)?;
    if let Some(window) = window {
        if cx.rank(window)? != 1 || cx.extent(window, 0)?.unsigned_abs() != length {
            return Err(Stop::opaque(format!("its window has no {length} samples")));
        }
        let window = cx.cast(window, dtype)?;
        kernel = cx.emit(&Mul {}, &[kernel, window])?;
    }
    let strides = Attr::ints(&[i64::try_from(step).unwrap_or(i64::MAX)]);
    let dict = props([("strides", strides)]);
    let sums = cx.emit_named("hbir.conv", &[signal, kernel], dict)?;
    let sums = cx.emit(
        &Transpose {
            perm: ints(&[0i64, 2, 1]),
        },
        &[sums],
    )?;
    let sums_dims = cx.dims(sums)?;
    let [batch, frames, _] = &sums_dims[..] else {
        return Err(Stop::opaque("the result has no frames"));
    };
    if [batch, frames].contains(&&Dim::Unknown) {
        return Err(Stop::opaque("an extent it needs is unknown"));
    }
    let all = [batch, frames, &Dim::Fixed(bins), &Dim::Fixed(PARTS)];
    let shape = all.map(|dim| size_attr(&Entry::from(dim))).to_vec();
    cx.finish(&Reshape { shape: Some(shape) }, &[sums])
}

/// The matrix from frequencies to bands of equal width on the mel scale, each band a triangle; a constant.
fn mel(cx: &mut NodeCx<'_, '_>) -> Done {
    let [bands, length, rate] = [(0, "number of bands"), (1, "length"), (2, "sample rate")]
        .map(|(i, what)| count(cx, i, what));
    let (bands, length, rate) = (bands?, length?, rate?);
    let edge = |i: usize| {
        let given = cx.const_floats(i).and_then(|all| all.first().copied());
        given.ok_or_else(|| Stop::opaque("its edges are computed at run time"))
    };
    let (low, high) = (edge(3)?, edge(4)?);
    let code = i32::try_from(cx.int("output_datatype").unwrap_or(1)).unwrap_or(-1);
    let dtype = optc_onnx_proto::dtype(code);
    let dtype = dtype.map_err(|found| Stop::opaque(format!("it makes {found}")))?;
    let frequencies = length / 2 + 1;
    let total = frequencies.checked_mul(bands);
    let total = total.filter(|&n| cx.file.spend_within(n, MAX_ELEMENTS));
    let total = total.ok_or_else(|| Stop::opaque(TOO_LARGE))? as usize;
    let (first, last) = (to_mel(low), to_mel(high));
    let step = (last - first) / (bands + 2) as f64;
    let place = |i: u64| {
        let hertz = from_mel(i as f64 * step + first);
        let place = ((length + 1) as f64 * hertz / rate as f64).floor();
        let inside = (0.0..frequencies as f64).contains(&place);
        inside.then_some(place as usize)
    };
    let places: Option<Vec<usize>> = (0..bands + 2).map(place).collect();
    let places = places.ok_or_else(|| Stop::opaque("a band has frequencies that there are not"))?;
    let columns = bands as usize;
    let mut made = vec![0.0; total];
    for (band, ends) in places.windows(3).enumerate() {
        let (left, centre, right) = (ends[0], ends[1], ends[2]);
        let mut set = |row: usize, value: f64| made[row * columns + band] = value;
        // A band without a left side is whole at its centre.
        set(centre, 1.0);
        for row in left..centre {
            set(row, (row - left) as f64 / (centre - left) as f64);
        }
        for row in centre..right {
            set(row, (right - row) as f64 / (right - centre) as f64);
        }
    }
    let made = Tensor::from_f64(dtype, vec![frequencies as usize, columns], made);
    let value = cx.b.literal(made, cx.loc.clone());
    cx.set(0, value);
    Ok(())
}

fn to_mel(hertz: f64) -> f64 {
    2595.0 * (hertz / 700.0).ln_1p() / 10f64.ln()
}

fn from_mel(mel: f64) -> f64 {
    700.0 * (mel / 2595.0 * 10f64.ln()).exp_m1()
}
