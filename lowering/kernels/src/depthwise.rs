//! Depthwise convolutions: every group has one channel. They run along rows of a plane (channels first) or along channels
//! (channels last).
//!
//! Along rows, a plane is copied with its padding, and the kernel's taps are shifted rows of the copy. Along channels, a
//! position of the result sums, for each tap, the vector of channels at the tap times the vector of the tap's weights.

use crate::channels::{self, Positions, Quantized, Reads};
use crate::dequantize::{Dequantize, is_scale, scaled, scaled_bytes};
use crate::element::{Element, Float, Kind, elements, elements_mut, same, same_mut};
use crate::epilogue::Epilogue;
use crate::error::KernelError;
use crate::geometry::{ConvDim, ConvOffsets, reach, step};
use crate::isa::Isa;
use crate::links::Part;
use crate::product::{
    self, Byte, FLIPPED_ZERO, MOST_COLUMNS, PLACES, Quad, Requantize, RowConv, Weights,
    row_conv_fits,
};
use crate::taps::Taps;
use crate::team::{self, Share, Team};
use crate::vectorized::vectorized;
use half::{bf16, f16};
use std::borrow::Cow;
use std::ops::Range;

/// Elements of a row that are summed in registers.
const BLOCK: usize = 16;
/// Channels that are summed in registers.
const CHANNELS: usize = 32;
/// Rows of a result that are summed at once.
const ROWS: usize = 8;

/// Rows of the kernel whose bytes are multiplied at once, as a quad.
const QUAD: usize = 4;

/// Rows of the result whose lines of quads are made before they are read; reading what was stored just before is slow.
const LINES: usize = 8;

/// Most products of 8-bit integers whose sum is exact in `f32`.
const MOST_EXACT: usize = 256;

/// A convolution with one channel a group. Floats are multiplied as `f32`. Bytes are multiplied in quads: four rows or
/// columns of the kernel along rows, four taps along channels. Along channels this needs VNNI; without it, bytes are
/// multiplied as `f32`.
#[derive(Debug)]
pub struct Depthwise {
    kinds: [Kind; 2],
    base: [i64; 4],
    tables: [Vec<Vec<i64>>; 4],
    /// Along rows, then along columns.
    dims: [ConvDim; 2],
    reach: [(i64, i64); 4],
    /// True if channels are contiguous in the operand and in the result.
    channels: bool,
    /// True if columns are contiguous in the result, and in the operand.
    together: bool,
    neighbours: bool,
    packed: Packed,
    /// Epilogue of the sums.
    epilogue: Option<Epilogue>,
    /// For operands of bytes with a zero point, true if the bytes are unsigned; weights are then `i8`.
    quantized: Option<bool>,
    /// Scales and biases of each channel, applied to sums before the epilogue.
    dequantize: Option<Dequantize>,
}

/// Inputs that replace the operands of a depthwise convolution.
#[derive(Debug, Default)]
pub struct Replacement<'a> {
    /// Constant weights.
    pub weights: Option<Cow<'a, [u8]>>,
    /// For operands of bytes with a zero point, true if the bytes are unsigned.
    pub quantized: Option<bool>,
    /// Scale and bias of the sums of each channel.
    pub scales: Option<Vec<[f32; 2]>>,
}

/// Constant weights, packed with all channels of a tap together.
#[derive(Debug)]
enum Packed {
    Nothing,
    Floats(Vec<f32>),
    Signed(channels::Places<i8>),
    Unsigned(channels::Places<u8>),
}

/// Shape of a padded plane in memory.
struct Plane {
    /// Elements of a row of the padded plane, elements of a phase of a row, and the number of phases.
    row: usize,
    phase: usize,
    phases: usize,
}

/// A padded plane in memory, whose rows are `apart` elements apart.
struct Padded<P> {
    plane: Plane,
    apart: usize,
    cells: Vec<P>,
}

/// Operands of a convolution of planes.
#[derive(Clone, Copy)]
struct Operands<'a, E, T> {
    x: &'a [E],
    w: &'a [E],
    bias: Option<&'a [T]>,
    /// Signs and zero point of bytes.
    bytes: Quantized,
}

impl Depthwise {
    /// The convolution of groups of one channel, of elements `kinds[0]` into elements `kinds[1]`; `None` if there is no kernel for it.
    pub fn of(
        places: &ConvOffsets,
        kinds: [Kind; 2],
        replacement: Replacement<'_>,
        epilogue: Option<Epilogue>,
    ) -> Option<Depthwise> {
        let [y, x, w, _] = &places.tables;
        let Replacement {
            weights,
            quantized,
            scales,
        } = replacement;
        if !takes(kinds, epilogue.is_some()) || !Depthwise::is(places) {
            return None;
        }
        let mut tables = places.tables.clone();
        let mut dims = places.dims.clone();
        if let [only] = dims[..] {
            let one = ConvDim {
                kernel: 1,
                stride: 1,
                dilation: 1,
                low: 0,
                input: 1,
                output: 1,
            };
            dims = vec![one, only];
            tables.iter_mut().for_each(|t| t.insert(3, vec![0]));
        }
        let dims: [ConvDim; 2] = dims.try_into().ok()?;
        let even = |t: &Vec<i64>| step(t) == Some(1);
        let channels = y[2].len() == 1 && even(&x[1]) && even(&y[1]) && step(&w[0]).is_some();
        // Along channels, bytes may be summed as `f32`, which has to be exact.
        let count: usize = dims.iter().map(|s| s.kernel).product();
        if channels && !kinds[0].is_float() && MOST_EXACT < count {
            return None;
        }
        let [together, neighbours] = [0, 1].map(|k| step(&tables[k][4]) == Some(1));
        let reach = std::array::from_fn(|k| reach(places.base[k], &tables[k]));
        let mut made = Depthwise {
            kinds,
            base: places.base,
            tables,
            dims,
            reach,
            channels,
            together,
            neighbours,
            packed: Packed::Nothing,
            epilogue,
            quantized,
            dequantize: scales.map(|list| match channels {
                true => Dequantize::columns(list, MOST_COLUMNS),
                false => Dequantize::Rows(list),
            }),
        };
        if let Some(weights) = weights.filter(|_| channels) {
            made.packed = made.pack(&weights).unwrap_or(Packed::Nothing);
        }
        // Along channels, only the loops over bytes know zero points and scales.
        let bytes = matches!(made.packed, Packed::Signed(_)) || !channels;
        let plain = made.quantized.is_none() && made.dequantize.is_none();
        (plain || bytes).then_some(made)
    }

    /// Returns whether every group has one channel and there are at most two spatial dimensions.
    pub fn is(places: &ConvOffsets) -> bool {
        let [y, x, _, _] = &places.tables;
        let one = x[1].len() == 1 && y[2].len() == 1;
        x[2].len() == 1 && (2 <= x[1].len() || one) && places.dims.len() <= 2
    }

    /// The entries of `values` for each channel of the result, at the offsets of the bias. `None` if these depend on
    /// anything but the channel.
    pub fn of_channels(places: &ConvOffsets, values: &[[f32; 2]]) -> Option<Vec<[f32; 2]>> {
        let (base, begins) = (places.base[3], &places.tables[3]);
        let mut others = begins
            .iter()
            .enumerate()
            .filter(|(d, _)| ![1, 2].contains(d));
        if others.any(|(_, table)| table.iter().any(|&at| at != 0)) {
            return None;
        }
        let all = begins[1]
            .iter()
            .flat_map(|g| begins[2].iter().map(move |o| base + g + o));
        all.map(|at| values.get(usize::try_from(at).ok()?).copied())
            .collect()
    }

    /// Quantizes weights: each channel as bytes times a scale. Returns the bytes at the offsets of the weights, and for
    /// each channel the scale of its sums, which is the channel's scale times that of the operand, and their bias.
    pub fn scaled_bytes(
        places: &ConvOffsets,
        weights: &[f32],
        scale: f32,
        begins: Option<&[f32]>,
    ) -> Option<(Vec<u8>, Vec<[f32; 2]>)> {
        let begins: Vec<[f32; 2]> = match begins {
            Some(list) => list.iter().map(|&x| [0.0, x]).collect(),
            None => vec![[0.0, -0.0]],
        };
        let mut list = Depthwise::of_channels(places, &begins)?;
        let w = &places.tables[2];
        let mut inner = vec![places.base[2]];
        for table in &w[2..] {
            inner = inner
                .iter()
                .flat_map(|at| table.iter().map(move |step| at + step))
                .collect();
        }
        let mut bytes = vec![0u8; weights.len()];
        let channels = w[0].iter().flat_map(|g| w[1].iter().map(move |o| g + o));
        for (by, channel) in list.iter_mut().zip(channels) {
            let at = |place: &i64| usize::try_from(channel + place);
            let own: Vec<usize> = inner.iter().map(at).collect::<Result<_, _>>().ok()?;
            let numbers = own.iter().map(|&at| weights.get(at).copied());
            let (times, found) = scaled_bytes(&numbers.collect::<Option<Vec<f32>>>()?)?;
            for (&at, byte) in own.iter().zip(found) {
                bytes[at] = byte.cast_unsigned();
            }
            by[0] = scale * times;
        }
        let fits = |&[by, plus]: &[f32; 2]| is_scale(by) && plus.is_finite();
        list.iter().all(fits).then_some((bytes, list))
    }

    /// Bytes of the packed weights.
    pub fn packed_bytes(&self) -> usize {
        match &self.packed {
            Packed::Nothing => 0,
            Packed::Floats(weights) => size_of_val(&weights[..]),
            Packed::Signed(weights) => weights.bytes(),
            Packed::Unsigned(weights) => weights.bytes(),
        }
    }

    /// Packs constant weights.
    fn pack(&self, weights: &[u8]) -> Option<Packed> {
        if !self.inside(2, weights.len() / self.kinds[0].size()) {
            return None;
        }
        let bytes = match self.kinds[0] {
            Kind::I8 => self.places(elements(weights).ok()?).map(Packed::Signed),
            Kind::U8 => self.places(elements(weights).ok()?).map(Packed::Unsigned),
            _ => None,
        };
        bytes.or_else(|| {
            let weights = numbers(self.kinds[0], weights).ok()?;
            Some(Packed::Floats(self.by_taps(&weights)))
        })
    }

    /// Packs weights of bytes for VNNI along channels, if that is possible.
    fn places<B: Byte>(&self, weights: &[B]) -> Option<channels::Places<B>> {
        self.beside()?;
        let w = &self.tables[2];
        let count = w[4].len();
        channels::Places::of(w[3].len() * count, w[0].len(), |place, channel| {
            let at = w[3][place / count] + w[4][place % count] + w[0][channel];
            weights[(self.base[2] + at) as usize]
        })
    }

    fn inside(&self, k: usize, n: usize) -> bool {
        let (low, high) = self.reach[k];
        0 <= low && high < n as i64
    }

    /// Packs weights as `f32`, all channels of a tap together.
    fn by_taps(&self, weights: &[f32]) -> Vec<f32> {
        let w = &self.tables[2];
        let mut all = Vec::new();
        for row in &w[3] {
            for column in &w[4] {
                let at = |c: &i64| weights[(self.base[2] + row + column + c) as usize];
                all.extend(w[0].iter().map(at));
            }
        }
        all
    }

    /// Writes the result.
    pub fn run(
        &self,
        out: &mut [u8],
        x: &[u8],
        w: &[u8],
        (bias, zero): (Option<&[u8]>, u8),
        team: &Team,
    ) -> Result<(), KernelError> {
        let sums = self.epilogue.is_some();
        let zero = match self.quantized {
            None => Quantized::PLAIN,
            Some(unsigned) => Quantized {
                sign_flipped: !unsigned,
                zero: if unsigned { zero } else { zero ^ FLIPPED_ZERO },
            },
        };
        let bias = (bias, zero);
        match self.kinds {
            [Kind::F32, _] => self.typed::<f32, f32, f32>(out, x, w, bias, team),
            [Kind::BF16, Kind::F32] => self.typed::<bf16, f32, f32>(out, x, w, bias, team),
            [Kind::BF16, _] => self.typed::<bf16, bf16, bf16>(out, x, w, bias, team),
            [Kind::F16, Kind::F32] => self.typed::<f16, f32, f32>(out, x, w, bias, team),
            [Kind::F16, _] => self.typed::<f16, f16, f16>(out, x, w, bias, team),
            [Kind::I8, Kind::I8] if sums => self.typed::<i8, i32, i8>(out, x, w, bias, team),
            [Kind::I8, Kind::U8] if sums => self.typed::<i8, i32, u8>(out, x, w, bias, team),
            [Kind::U8, Kind::I8] if sums => self.typed::<u8, i32, i8>(out, x, w, bias, team),
            [Kind::U8, Kind::U8] if sums => self.typed::<u8, i32, u8>(out, x, w, bias, team),
            [Kind::I8, Kind::I8] => self.typed::<i8, i8, i8>(out, x, w, bias, team),
            [Kind::I8, _] => self.typed::<i8, i32, i32>(out, x, w, bias, team),
            [Kind::U8, Kind::U8] => self.typed::<u8, u8, u8>(out, x, w, bias, team),
            [Kind::U8, _] => self.typed::<u8, i32, i32>(out, x, w, bias, team),
            [Kind::I32, _] => Err(KernelError::NoKernel),
        }
    }

    fn typed<E: Operand, T: Float, O: Float + Element<Number = T::Number>>(
        &self,
        out: &mut [u8],
        x: &[u8],
        w: &[u8],
        (bias, bytes): (Option<&[u8]>, Quantized),
        team: &Team,
    ) -> Result<(), KernelError> {
        let (out, x) = (elements_mut::<O>(out)?, elements::<E>(x)?);
        let bias = bias.map(elements::<T>).transpose()?;
        let size = size_of::<E>();
        let lengths = [
            out.len(),
            x.len(),
            w.len() / size,
            bias.map_or(usize::MAX >> 1, <[T]>::len),
        ];
        if !lengths
            .into_iter()
            .enumerate()
            .all(|(k, n)| self.inside(k, n))
        {
            return Err(KernelError::OutOfBounds);
        }
        if self.channels {
            if E::whole_channels(self, out, (x, bytes), w, bias, team)? {
                return Ok(());
            }
            let own = match &self.packed {
                Packed::Floats(_) => Vec::new(),
                _ => self.by_taps(&numbers(self.kinds[0], w)?),
            };
            let weights = match &self.packed {
                Packed::Floats(weights) => weights,
                _ => &own,
            };
            let floats = (same::<E, f32>(x), bias.map(same::<T, f32>), self.beside());
            if let (Some(x), None | Some(Some(_)), Some(beside)) = floats
                && same::<O, f32>(&[]).is_some()
            {
                let start = self.begins(floats.1.flatten());
                return self.shared(out, team, |share, out| {
                    if let Some(out) = same_mut::<O, f32>(out) {
                        self.columns(out, x, weights, &start, beside, share);
                    }
                });
            }
            self.shared(out, team, |share, out| {
                vectorized(
                    #[inline(always)]
                    || self.channels_last(out, x, weights, bias, share),
                );
            })
        } else {
            let operands = Operands {
                x,
                w: elements::<E>(w)?,
                bias,
                bytes,
            };
            self.shared(out, team, |share, out| {
                vectorized(
                    #[inline(always)]
                    || E::channels_first(self, out, operands, share),
                );
            })
        }
    }

    /// Shares the units of work, rows of an image or its channels, between threads.
    fn shared<T: Element>(
        &self,
        out: &mut [T],
        team: &Team,
        work: impl Fn(&Share, &mut [T]) + Sync,
    ) -> Result<(), KernelError> {
        let yt = &self.tables[0];
        let [rows, columns] = &self.dims;
        let taps = (rows.kernel * columns.kernel) as u64;
        let count: u64 = yt.iter().map(|t| t.len() as u64).product();
        let threads = team.worth(count.saturating_mul(taps), team::PRODUCTS);
        let (unit, inner): (usize, &[usize]) = match self.channels {
            true => (3, &[1, 2, 4]),
            false => (1, &[2, 3, 4]),
        };
        let whole = 0..yt[0].len() * yt[unit].len();
        let mut shares = Vec::new();
        if 1 < threads {
            let ends = |d: &usize| (yt[*d].iter().min(), yt[*d].iter().max());
            let rest = inner.iter().map(ends).fold((0, 0), |sum, (low, high)| {
                let [low, high] = [low, high].map(|end| end.copied().unwrap_or(0));
                (sum.0 + low, sum.1 + high)
            });
            let spans = pairs(yt[0].len(), yt[unit].len()).map(|(n, i)| {
                let at = self.base[0] + yt[0][n] + yt[unit][i];
                (at + rest.0, at + rest.1)
            });
            shares = team::shares(&spans.collect::<Vec<_>>(), threads);
        }
        if shares.is_empty() {
            let all = Share {
                units: whole,
                places: 0..out.len(),
            };
            work(&all, out);
            return Ok(());
        }
        team.share(out, &shares, |share, out| {
            work(share, out);
            Ok(())
        })
    }

    /// Bytes of scratch memory that a thread needs.
    pub fn scratch(&self) -> usize {
        let parts = self.epilogue.as_ref().map_or(0, Epilogue::scratch);
        let sums = match self.channels {
            true => self.tables[1][1].len(),
            false => (1 + ROWS) * self.dims[1].output.next_multiple_of(BLOCK),
        };
        let (plane, height) = self.plane();
        let planes = match (self.channels, self.kinds[0].is_float()) {
            (true, _) => 0,
            (false, true) => height * plane.row,
            (false, false) => {
                // Elements, and quads of them.
                let line = Depthwise::line(&plane);
                let groups = self.dims[0].kernel.div_ceil(QUAD);
                let sums = LINES * self.dims[1].output.next_multiple_of(PLACES);
                let quads = (height * line).div_ceil(QUAD) + LINES * groups * line;
                let bytes = (height * self.line_plane().0.row).div_ceil(QUAD);
                quads.max(bytes + 2 * self.dims[0].output * size_of::<usize>()) + sums
            }
        };
        (sums + planes) * size_of::<f32>() + parts
    }

    /// Applies the epilogue to sums.
    #[inline(always)]
    fn made<T: Float>(&self, parts: &mut [Part], sums: &mut [T]) {
        if let (Some(epilogue), Ok(sums)) = (&self.epilogue, bytemuck::try_cast_slice_mut(sums)) {
            epilogue.all(parts, sums);
        }
    }

    /// Requantization of integer sums in registers, if the epilogue is one.
    fn requantize<O>(&self) -> Option<Requantize> {
        let requantize = self.epilogue.as_ref()?.requantize()?;
        (requantize.size() == size_of::<O>()).then_some(requantize)
    }

    fn parts(&self) -> Vec<Part> {
        self.epilogue
            .as_ref()
            .map_or_else(Vec::new, Epilogue::parts)
    }

    /// Shape of a padded plane, and the number of its rows.
    fn plane(&self) -> (Plane, usize) {
        let [rows, columns] = &self.dims;
        let blocks = columns.output.div_ceil(BLOCK) * BLOCK;
        let phases = columns.stride;
        let reach = (columns.kernel - 1) * columns.dilation;
        let phase = blocks + reach / phases + 1;
        let plane = Plane {
            row: phase * phases,
            phase,
            phases,
        };
        (plane, rows.last() + 1)
    }

    /// Strides between columns of the operand and of the result, if they are not negative.
    fn beside(&self) -> Option<[usize; 2]> {
        let [y, x, _, _] = &self.tables;
        let forward = |table: &[i64]| usize::try_from(step(table)?).ok();
        Some([forward(&x[4])?, forward(&y[4])?])
    }

    /// Initial value of the sums of each contiguous channel.
    fn begins<T: Float>(&self, bias: Option<&[T]>) -> Vec<T> {
        let at = |offset: &i64, bias: &[T]| bias[(self.base[3] + offset) as usize];
        match bias {
            Some(bias) => self.tables[3][1].iter().map(|b| at(b, bias)).collect(),
            None => vec![T::zeroed(); self.tables[1][1].len()],
        }
    }

    /// The units of a share: an image and one of `count` rows or groups.
    fn units(&self, share: &Share, count: usize) -> impl Iterator<Item = (usize, usize)> {
        let units = pairs(self.tables[0][0].len(), count);
        units.take(share.units.end).skip(share.units.start)
    }

    /// Sets `taps` to those of a position that are inside of the operand: the index of the tap's first channel and of
    /// its first weight.
    #[inline(always)]
    fn taps_at(&self, taps: &mut Vec<(usize, usize)>, n: usize, [r, c]: [usize; 2]) {
        let ([rows, columns], xt) = (&self.dims, &self.tables[1]);
        let from = self.base[1] + xt[0][n];
        taps.clear();
        for (kr, kc) in pairs(rows.kernel, columns.kernel) {
            if let (Some(i), Some(j)) = (rows.reads(r, kr), columns.reads(c, kc)) {
                let at = (from + xt[3][i] + xt[4][j]) as usize;
                taps.push((at, (kr * columns.kernel + kc) * xt[1].len()));
            }
        }
    }

    /// Convolves channels of `f32`. Columns whose taps are all inside are computed at once, the others one by one.
    fn columns(
        &self,
        out: &mut [f32],
        x: &[f32],
        w: &[f32],
        start: &[f32],
        [read, write]: [usize; 2],
        share: &Share,
    ) {
        let [yt, xt, _, _] = &self.tables;
        let base = self.base[0] - share.places.start as i64;
        let [rows, columns] = &self.dims;
        let (count, isa) = (xt[1].len(), Isa::current());
        let reach = (columns.kernel - 1) * columns.dilation;
        let first = columns.low.div_ceil(columns.stride).min(columns.output);
        let inner = (columns.input + columns.low).checked_sub(reach + 1);
        let end = inner.map_or(0, |last| last / columns.stride + 1);
        let end = end.clamp(first, columns.output);
        let mut taps: Vec<(usize, usize)> = Vec::new();
        let mut parts = self.parts();
        for (n, r) in self.units(share, rows.output) {
            let to = base + yt[0][n] + yt[3][r];
            let mut some = |range: Range<usize>| {
                self.taps_at(&mut taps, n, [r, range.start]);
                let sums = Taps {
                    taps: &taps,
                    broadcast_weights: false,
                    positions: range.len(),
                    read: read * columns.stride,
                    write,
                    count,
                };
                let to = (to + yt[4][range.start]) as usize;
                sums.run(isa, x, w, start, &mut out[to..]);
            };
            (0..first).for_each(|c| some(c..c + 1));
            if first < end {
                some(first..end);
            }
            (end..columns.output).for_each(|c| some(c..c + 1));
            // The epilogue runs while the sums of the row are in the cache.
            let (to, whole) = (to as usize, write == count);
            match &self.epilogue {
                Some(epilogue) if whole => {
                    let sums = &mut out[to..to + columns.output * count];
                    epilogue.all(&mut parts, bytemuck::cast_slice_mut(sums));
                }
                Some(epilogue) => {
                    for at in yt[4].iter().map(|column| to + *column as usize) {
                        let sums = &mut out[at..at + count];
                        epilogue.all(&mut parts, bytemuck::cast_slice_mut(sums));
                    }
                }
                None => {}
            }
        }
    }

    #[inline(always)]
    fn channels_last<E: Float, T: Float, O: Element<Number = T::Number>>(
        &self,
        out: &mut [O],
        x: &[E],
        w: &[f32],
        bias: Option<&[T]>,
        share: &Share,
    ) {
        let [yt, xt, _, _] = &self.tables;
        let base = self.base[0] - share.places.start as i64;
        let [rows, columns] = &self.dims;
        let count = xt[1].len();
        let start = self.begins(bias);
        let mut taps: Vec<(usize, usize)> = Vec::new();
        let (mut parts, mut sums) = (self.parts(), vec![T::zeroed(); count]);
        for (n, r) in self.units(share, rows.output) {
            for c in 0..columns.output {
                self.taps_at(&mut taps, n, [r, c]);
                let to = (base + yt[0][n] + yt[3][r] + yt[4][c]) as usize;
                let place = &mut out[to..to + count];
                let whole = count / CHANNELS * CHANNELS;
                for at in (0..whole).step_by(CHANNELS) {
                    some_channels::<_, _, CHANNELS>(&mut sums, x, w, &start, &taps, at);
                }
                let eights = count / 8 * 8;
                for at in (whole..eights).step_by(8) {
                    some_channels::<_, _, 8>(&mut sums, x, w, &start, &taps, at);
                }
                for at in eights..count {
                    some_channels::<_, _, 1>(&mut sums, x, w, &start, &taps, at);
                }
                self.made(&mut parts, &mut sums);
                let all = place.iter_mut().zip(&sums);
                all.for_each(|(to, sum)| *to = O::of(sum.read()));
            }
        }
    }

    /// Convolves rows of planes.
    #[inline(always)]
    fn planes<O: Copy, K: PlaneKernel<O>>(&self, out: &mut [O], share: &Share, mut kernel: K) {
        let ([yt, xt, _, _], rows) = (&self.tables, self.dims[0].output);
        let base = self.base[0] - share.places.start as i64;
        let parts = self.parts();
        let mut result = PlaneRows {
            of: self,
            out,
            parts,
        };
        for (n, g) in self.units(share, yt[1].len()) {
            kernel.load(self.base[1] + xt[0][n] + xt[1][g], g);
            for first in (0..rows).step_by(kernel.rows()) {
                let some = first..(first + kernel.rows()).min(rows);
                kernel.prepare(&some);
                for (o, channel) in yt[2].iter().enumerate() {
                    let to = base + yt[0][n] + yt[1][g] + channel;
                    kernel.convolve(o, some.clone(), to, &mut result);
                }
            }
        }
    }

    /// Offset of the weights of channel `o` of group `g`.
    fn weights_at(&self, [g, o]: [usize; 2]) -> i64 {
        self.base[2] + self.tables[2][0][g] + self.tables[2][1][o]
    }

    /// The bias of channel `o` of group `g`.
    fn bias_of<T: Float>(&self, bias: Option<&[T]>, [g, o]: [usize; 2]) -> T {
        let at = self.base[3] + self.tables[3][1][g] + self.tables[3][2][o];
        bias.map_or(T::zeroed(), |bias| bias[at as usize])
    }

    /// A channel with the quads of weights at `taps`: the offset of each, and the row and the column of its four weights
    /// in the kernel. Weights beyond the kernel are 0. `kernel` gets the quads and the initial value of the sums, with
    /// compensation.
    fn channel<E: Byte, T: Float, W>(
        &self,
        operands: &Operands<'_, E, T>,
        channel: [usize; 2],
        taps: impl Iterator<Item = (usize, [[usize; 2]; QUAD])>,
        kernel: impl FnOnce(Vec<(usize, Quad<E>)>, i32) -> W,
    ) -> Channel<W> {
        let (wt, base) = (&self.tables[2], self.weights_at(channel));
        let weight = |[kr, kc]: [usize; 2]| match (wt[3].get(kr), wt[4].get(kc)) {
            (Some(row), Some(column)) => operands.w[(base + row + column) as usize],
            _ => E::zeroed(),
        };
        let taps = taps.map(|(at, places)| (at, places.map(weight)));
        let taps: Vec<(usize, Quad<E>)> = taps.collect();
        let numbers = taps.iter().flat_map(|tap| tap.1).map(Byte::number);
        let weights = numbers.fold(0i32, i32::wrapping_add);
        let begin: i32 = bytemuck::cast(self.bias_of(operands.bias, channel).read());
        let begin = begin.wrapping_sub(operands.bytes.compensation::<E>(weights));
        let [g, o] = channel;
        Channel {
            weights: kernel(taps, begin),
            scale: match &self.dequantize {
                Some(Dequantize::Rows(list)) => Some(list[g * self.tables[0][2].len() + o]),
                _ => None,
            },
        }
    }

    /// Shape of a padded plane of bytes for [`RowConv`], with room for what is read behind the last column, and the number
    /// of rows.
    fn line_plane(&self) -> (Plane, usize) {
        let (_, height) = self.plane();
        let columns = &self.dims[1];
        let vectors = columns.output.div_ceil(PLACES) - 1;
        let fours = columns.kernel.div_ceil(QUAD) - 1;
        let last = vectors * PLACES * columns.stride + fours * QUAD * columns.dilation;
        let row = (last + product::READ).max(columns.low + columns.input);
        let plane = Plane {
            row,
            phase: row,
            phases: 1,
        };
        (plane, height)
    }

    /// Convolves bytes along channels, four taps at once. Returns false if the machine or the strides do not allow it.
    fn bytes_channels_last<E: Float + Byte, T: Float, O: Element<Number = T::Number>>(
        &self,
        out: &mut [O],
        (x, bytes): (&[E], Quantized),
        known: Option<&channels::Places<E>>,
        w: &[u8],
        bias: Option<&[T]>,
        team: &Team,
    ) -> Result<bool, KernelError> {
        let own = match known {
            None => self.places(elements::<E>(w)?),
            Some(_) => None,
        };
        let (Some(weights), Some([_, step])) = (known.or(own.as_ref()), self.beside()) else {
            return Ok(false);
        };
        let [rows, columns] = &self.dims;
        let begins = self.begins(bias);
        let begins = begins.iter().map(|begin| bytemuck::cast(begin.read()));
        let width = columns.last() + 1;
        let places = pairs(rows.kernel, columns.kernel);
        let places = places.map(|(kr, kc)| kr * width + kc * columns.dilation);
        let lines = ByteLines {
            of: self,
            operand: (x, bytes),
            weights,
            begins: weights.begins(begins, bytes),
            scales: match &self.dequantize {
                Some(Dequantize::Columns(list)) => Some(list),
                _ => None,
            },
            width,
            places: places.collect(),
            step,
        };
        self.shared(out, team, |share, out| lines.rows(out, share))?;
        Ok(true)
    }

    /// Copies rows of an operand, from offset `from` on, into a padded plane.
    #[inline(always)]
    fn fill<E: Copy, P: Copy>(
        &self,
        Padded {
            plane,
            apart,
            cells,
        }: &mut Padded<P>,
        (x, from): (&[E], i64),
        element: impl Fn(E) -> P,
    ) {
        let ([rows, columns], xt) = (&self.dims, &self.tables[1]);
        for (to, row) in cells.chunks_exact_mut(*apart).skip(rows.low).zip(&xt[3]) {
            let (to, at) = (&mut to[..plane.row], from + row);
            if plane.phases == 1 && self.neighbours {
                let fits = columns.input.min(plane.row - columns.low);
                let to = &mut to[columns.low..columns.low + fits];
                each(&x[at as usize..at as usize + fits], to, &element);
            } else if plane.phases == 2 && self.neighbours {
                let row = &x[at as usize..at as usize + columns.input];
                plane.split_into_phases(to, columns, |from, to| {
                    let (pairs, last) = row[from..].as_chunks::<2>();
                    let all = to.iter_mut().zip(pairs);
                    all.for_each(|(to, pair)| *to = element(pair[0]));
                    if let (Some(to), [x]) = (to.get_mut(pairs.len()), last) {
                        *to = element(*x);
                    }
                });
            } else {
                plane.split_into_phases(to, columns, |from, to| {
                    let columns = xt[4][from..].iter().step_by(plane.phases);
                    let all = to.iter_mut().zip(columns);
                    all.for_each(|(to, column)| *to = element(x[(at + column) as usize]));
                });
            }
        }
    }

    /// As [`fill`](Depthwise::fill), for bytes, whose sign bit is flipped where the kernel expects it.
    #[inline(always)]
    fn fill_bytes<E: Byte>(&self, padded: &mut Padded<E>, from: (&[E], i64), bytes: Quantized) {
        match bytes.sign_flipped {
            true => self.fill(padded, from, |x| x.sign_flipped()),
            false => self.fill(padded, from, |x| x),
        }
    }

    /// Elements of a row of a plane of integers.
    fn line(plane: &Plane) -> usize {
        plane.row.next_multiple_of(PLACES)
    }
}

impl<P: Copy> Padded<P> {
    /// A plane of `height` rows whose padding is `rest`.
    fn of((plane, height): (Plane, usize), apart: usize, rest: P) -> Padded<P> {
        Padded {
            cells: vec![rest; height * apart],
            apart,
            plane,
        }
    }
}

impl Plane {
    /// Index of a column in a row.
    fn place(&self, column: usize) -> usize {
        column % self.phases * self.phase + column / self.phases
    }

    /// Splits a row into phases. `some(first, to)` copies the elements `first`, `first + phases`, .. of the operand to
    /// `to`.
    #[inline(always)]
    fn split_into_phases<E>(
        &self,
        to: &mut [E],
        columns: &ConvDim,
        some: impl Fn(usize, &mut [E]),
    ) {
        for from in 0..self.phases.min(columns.input) {
            let place = from + columns.low;
            let Some(fits) = self.phase.checked_sub(place / self.phases) else {
                continue;
            };
            let count = (columns.input - from).div_ceil(self.phases).min(fits);
            let at = self.place(place);
            some(from, &mut to[at..at + count]);
        }
    }
}

/// The rows of the result of a share.
struct PlaneRows<'a, O> {
    of: &'a Depthwise,
    out: &'a mut [O],
    /// Scratch memory of the epilogue.
    parts: Vec<Part>,
}

impl<O: Copy> PlaneRows<'_, O> {
    /// Applies the epilogue to the sums of rows, `apart` sums each, and writes them to a plane at offset `to`.
    #[inline(always)]
    fn write<S: Float>(
        &mut self,
        (sums, apart): (&mut [S], usize),
        rows: Range<usize>,
        to: i64,
        element: impl Fn(S) -> O,
    ) {
        let Depthwise { tables, dims, .. } = self.of;
        self.of.made(&mut self.parts, sums);
        for (r, line) in rows.zip(sums.chunks_exact(apart)) {
            let (line, to) = (&line[..dims[1].output], to + tables[0][3][r]);
            if self.of.together {
                let to = to as usize;
                each(line, &mut self.out[to..to + line.len()], &element);
            } else {
                for (&sum, offset) in line.iter().zip(&tables[0][4]) {
                    self.out[(to + offset) as usize] = element(sum);
                }
            }
        }
    }
}

impl<O: Element> PlaneRows<'_, O> {
    /// Writes the sums of rows of bytes, with a scale and a bias if they are given.
    #[inline(always)]
    fn write_sums(
        &mut self,
        (sums, apart): (&mut [i32], usize),
        scale: Option<[f32; 2]>,
        rows: Range<usize>,
        to: i64,
    ) {
        if let Some(by) = scale {
            sums.iter_mut().for_each(|sum| *sum = scaled(*sum, by));
        }
        self.write((sums, apart), rows, to, |sum| O::of(bytemuck::cast(sum)));
    }
}

/// One way to convolve the rows of a plane.
trait PlaneKernel<O> {
    /// Rows of the result that are computed at once.
    fn rows(&self) -> usize;

    /// Loads a plane, which begins at offset `from` of the operand, and the weights of group `g`.
    fn load(&mut self, from: i64, g: usize);

    /// Prepares the computation of rows, which is the same for all channels of a group.
    fn prepare(&mut self, _: &Range<usize>) {}

    /// Computes rows of channel `o` of the group, whose plane of the result begins at offset `to`.
    fn convolve(&mut self, o: usize, rows: Range<usize>, to: i64, result: &mut PlaneRows<'_, O>);
}

/// Convolves planes of floats: the taps of the kernel are shifted rows of the padded plane.
struct FloatPlane<'a, E, T> {
    of: &'a Depthwise,
    operands: Operands<'a, E, T>,
    padded: Padded<f32>,
    taps: Vec<(usize, usize)>,
    /// Weights and initial sums of the channels of a group.
    weights: Vec<f32>,
    starts: Vec<T>,
    isa: Isa,
    /// Sums of whole blocks of columns, and their results.
    sums: Vec<f32>,
    lines: Vec<T>,
}

impl<'a, E: Float, T: Float> FloatPlane<'a, E, T> {
    #[inline(always)]
    fn of(of: &'a Depthwise, operands: Operands<'a, E, T>) -> FloatPlane<'a, E, T> {
        let [rows, columns] = &of.dims;
        let (plane, height) = of.plane();
        let places = pairs(rows.kernel, columns.kernel).map(|(kr, kc)| {
            let (column, row) = (kc * columns.dilation, kr * rows.dilation);
            row * plane.row + plane.place(column)
        });
        let taps = places.enumerate().map(|(i, at)| (at, i)).collect();
        let apart = plane.row;
        FloatPlane {
            taps,
            padded: Padded::of((plane, height), apart, 0f32),
            of,
            operands,
            weights: Vec::new(),
            starts: Vec::new(),
            isa: Isa::current(),
            sums: vec![0f32; ROWS * columns.output.next_multiple_of(BLOCK)],
            lines: vec![T::zeroed(); ROWS * columns.output],
        }
    }
}

impl<E: Float, T: Float, O: Element<Number = T::Number>> PlaneKernel<O> for FloatPlane<'_, E, T> {
    #[inline(always)]
    fn rows(&self) -> usize {
        ROWS
    }

    #[inline(always)]
    fn load(&mut self, from: i64, g: usize) {
        let Operands { x, w, bias, .. } = self.operands;
        let tables = &self.of.tables;
        self.of.fill(&mut self.padded, (x, from), |x| x.float());
        self.weights.clear();
        self.starts.clear();
        for o in 0..tables[0][2].len() {
            let base = self.of.weights_at([g, o]);
            for row in &tables[2][3] {
                let at = |column: &i64| w[(base + row + column) as usize].float();
                self.weights.extend(tables[2][4].iter().map(at));
            }
            self.starts.push(self.of.bias_of(bias, [g, o]));
        }
    }

    #[inline(always)]
    fn convolve(&mut self, o: usize, some: Range<usize>, to: i64, result: &mut PlaneRows<'_, O>) {
        let [rows, columns] = &self.of.dims;
        let (width, read) = (self.sums.len() / ROWS, rows.stride * self.padded.apart);
        let all = Taps {
            taps: &self.taps,
            broadcast_weights: true,
            positions: some.len(),
            read,
            write: width,
            count: width,
        };
        let source = &self.padded.cells[some.start * read..];
        let weights = &self.weights[o * self.taps.len()..][..self.taps.len()];
        all.run(self.isa, source, weights, &[0.0], &mut self.sums);
        let (lines, start) = (
            &mut self.lines[..some.len() * columns.output],
            self.starts[o],
        );
        let each = lines.chunks_exact_mut(columns.output);
        for (line, sums) in each.zip(self.sums.chunks_exact(width)) {
            let all = line.iter_mut().zip(sums);
            all.for_each(|(to, &sum)| *to = T::with(sum, start));
        }
        let sums = (lines, columns.output);
        result.write(sums, some, to, |sum| O::of(sum.read()));
    }
}

/// The weights of a channel, and the scale and the bias of its sums.
struct Channel<W> {
    weights: W,
    scale: Option<[f32; 2]>,
}

/// Convolves planes of bytes in quads.
///
/// With [`Weights`], four rows that the kernel reads for a row of the result are interleaved into a line of quads, and
/// multiplied by quads of four rows of weights. With [`RowConv`], quads of four columns are made in registers from the
/// padded plane.
struct BytePlane<'a, E, T, W> {
    of: &'a Depthwise,
    operands: Operands<'a, E, T>,
    requantize: Option<Requantize>,
    padded: Padded<E>,
    channels: Vec<Channel<W>>,
    /// Interleaved lines.
    lines: Vec<Quad<E>>,
    /// For each row, the index of its first byte in the plane and of its first sum.
    begins: Vec<[usize; 2]>,
    /// Sums of [`LINES`] rows.
    sums: Vec<i32>,
}

impl<'a, E: Float + Byte, T: Float, W> BytePlane<'a, E, T, W> {
    /// The convolution with planes of `height` rows, `apart` bytes apart. Without quads in registers, `groups` quads of
    /// rows are interleaved for a row of the result.
    #[inline(always)]
    fn of(
        of: &'a Depthwise,
        operands: Operands<'a, E, T>,
        requantize: Option<Requantize>,
        (plane, height): (Plane, usize),
        (apart, groups): (usize, usize),
    ) -> BytePlane<'a, E, T, W> {
        BytePlane {
            padded: Padded::of((plane, height), apart, bytemuck::cast(operands.bytes.zero)),
            lines: vec![[E::zeroed(); QUAD]; LINES * groups * apart],
            channels: Vec::new(),
            begins: Vec::new(),
            sums: vec![0i32; LINES * of.dims[1].output.next_multiple_of(PLACES)],
            of,
            operands,
            requantize,
        }
    }
}

impl<E: Float + Byte, T: Float, O: Element> PlaneKernel<O> for BytePlane<'_, E, T, Weights<E>> {
    #[inline(always)]
    fn rows(&self) -> usize {
        LINES
    }

    #[inline(always)]
    fn load(&mut self, from: i64, g: usize) {
        let Operands { x, bytes, .. } = self.operands;
        let [rows, columns] = &self.of.dims;
        self.of.fill_bytes(&mut self.padded, (x, from), bytes);
        let Padded { plane, apart, .. } = &self.padded;
        self.channels.clear();
        for o in 0..self.of.tables[0][2].len() {
            let taps = pairs(rows.kernel.div_ceil(QUAD), columns.kernel).map(|(group, kc)| {
                let place = group * apart + plane.place(kc * columns.dilation);
                (place, std::array::from_fn(|i| [group * QUAD + i, kc]))
            });
            let channel = self.of.channel(&self.operands, [g, o], taps, Weights::of);
            self.channels.push(channel);
        }
    }

    #[inline(always)]
    fn prepare(&mut self, some: &Range<usize>) {
        let rows = &self.of.dims[0];
        let Padded { apart, cells, .. } = &self.padded;
        let groups = rows.kernel.div_ceil(QUAD);
        let lines = self.lines.chunks_exact_mut(groups * apart);
        for (r, line) in some.clone().zip(lines) {
            for (group, line) in line.chunks_exact_mut(*apart).enumerate() {
                let from = std::array::from_fn(|i| {
                    // Rows beyond the kernel's last one have weights 0.
                    let kr = (group * QUAD + i).min(rows.kernel - 1);
                    &cells[(r * rows.stride + kr * rows.dilation) * apart..][..*apart]
                });
                product::interleave(from, line);
            }
        }
    }

    #[inline(always)]
    fn convolve(&mut self, o: usize, some: Range<usize>, to: i64, result: &mut PlaneRows<'_, O>) {
        let (Channel { weights, scale }, count) = (&self.channels[o], self.of.dims[1].output);
        let lines = self.lines.chunks_exact(self.lines.len() / LINES);
        if let Some(requantize) = self.requantize.filter(|_| weights.requantizes()) {
            for (r, line) in some.zip(lines) {
                let to = (to + self.of.tables[0][3][r]) as usize;
                let to = &mut result.out[to..to + count];
                weights.requantized(line, to, (&requantize, *scale));
            }
            return;
        }
        let long = self.sums.len() / LINES;
        let sums = &mut self.sums[..some.len() * long];
        for (line, sums) in lines.zip(sums.chunks_exact_mut(long)) {
            weights.sums(line, sums);
        }
        result.write_sums((sums, long), *scale, some, to);
    }
}

impl<E: Float + Byte, T: Float, O: Element> PlaneKernel<O> for BytePlane<'_, E, T, RowConv<E>> {
    #[inline(always)]
    fn rows(&self) -> usize {
        match self.requantize {
            Some(_) => self.of.dims[0].output.max(1),
            None => LINES,
        }
    }

    #[inline(always)]
    fn load(&mut self, from: i64, g: usize) {
        let Operands { x, bytes, .. } = self.operands;
        let [rows, columns] = &self.of.dims;
        self.of.fill_bytes(&mut self.padded, (x, from), bytes);
        self.channels.clear();
        for o in 0..self.of.tables[0][2].len() {
            let taps = pairs(rows.kernel, columns.kernel.div_ceil(QUAD)).map(|(kr, four)| {
                let row = kr * rows.dilation * self.padded.apart;
                let place = row + four * QUAD * columns.dilation;
                (place, std::array::from_fn(|i| [kr, four * QUAD + i]))
            });
            let steps = (columns.stride, columns.dilation);
            let weights = |taps, begin| RowConv::of(taps, begin, steps);
            let channel = self.of.channel(&self.operands, [g, o], taps, weights);
            self.channels.push(channel);
        }
    }

    #[inline(always)]
    fn convolve(&mut self, o: usize, some: Range<usize>, to: i64, result: &mut PlaneRows<'_, O>) {
        let Channel { weights, scale } = &self.channels[o];
        let (Depthwise { tables, dims, .. }, cells) = (self.of, &self.padded.cells);
        let (from, count) = (dims[0].stride * self.padded.apart, dims[1].output);
        let long = count.next_multiple_of(PLACES);
        let place = |r: usize| match self.requantize {
            Some(_) => (to + tables[0][3][r]) as usize,
            None => (r - some.start) * long,
        };
        self.begins.clear();
        self.begins
            .extend(some.clone().map(|r| [r * from, place(r)]));
        if let Some(requantize) = &self.requantize {
            let to = (&mut *result.out, count);
            return weights.requantized(cells, &self.begins, to, (requantize, *scale));
        }
        weights.sums(cells, &self.begins, (&mut self.sums, count));
        let sums = &mut self.sums[..some.len() * long];
        result.write_sums((sums, long), *scale, some, to);
    }
}

/// Rows of a convolution of bytes along channels.
struct ByteLines<'a, E> {
    of: &'a Depthwise,
    operand: (&'a [E], Quantized),
    weights: &'a channels::Places<E>,
    begins: Vec<i32>,
    scales: Option<&'a [channels::Scales]>,
    /// Columns that the kernel reads for a row, with padding, and the column of each tap of the first position.
    width: usize,
    places: Vec<usize>,
    /// Elements between two positions of the result.
    step: usize,
}

impl<E: Float + Byte> ByteLines<'_, E> {
    /// Computes the rows of a share.
    fn rows<O: Element>(&self, out: &mut [O], share: &Share) {
        let (of, count) = (self.of, self.of.tables[1][1].len());
        let (yt, [rows, columns]) = (&of.tables[0], &of.dims);
        let requantize = of.requantize::<O>();
        let direct = requantize.is_some() || of.epilogue.is_none() && size_of::<O>() == 4;
        let base = of.base[0] - share.places.start as i64;
        let mut lines = Vec::with_capacity(rows.kernel * self.width);
        let mut parts = of.parts();
        let mut sums = vec![0i32; if direct { 0 } else { columns.output * count }];
        let positions = |step: usize| Positions {
            count: columns.output,
            step,
        };
        for (n, r) in of.units(share, rows.output) {
            self.read(&mut lines, n, r);
            let reads = Reads {
                columns: &lines,
                places: &self.places,
                stride: columns.stride,
            };
            let out = &mut out[(base + yt[0][n] + yt[3][r]) as usize..];
            if direct {
                let (to, how) = ((out, positions(self.step)), (&requantize, self.scales));
                let how = (how.0.as_ref(), how.1);
                self.weights
                    .line(self.operand, &self.begins, &reads, to, how);
                continue;
            }
            let own = (&mut sums[..], positions(count));
            self.weights
                .line(self.operand, &self.begins, &reads, own, (None, None));
            self.scale(&mut sums);
            if let Some(epilogue) = &of.epilogue {
                epilogue.all(&mut parts, bytemuck::cast_slice_mut(&mut sums));
            }
            vectorized(
                #[inline(always)]
                || {
                    for (c, sums) in sums.chunks_exact(count).enumerate() {
                        let to = out[c * self.step..][..count].iter_mut();
                        to.zip(sums)
                            .for_each(|(to, &sum)| *to = O::of(bytemuck::cast(sum)));
                    }
                },
            );
        }
    }

    /// Sets `lines` to the offset of the first channel of each column that row `r` of image `n` reads.
    fn read(&self, lines: &mut Vec<Option<usize>>, n: usize, r: usize) {
        let ([rows, columns], xt) = (&self.of.dims, &self.of.tables[1]);
        let from = self.of.base[1] + xt[0][n];
        lines.clear();
        for kr in 0..rows.kernel {
            let row = rows.reads(r, kr).map(|i| from + xt[3][i]);
            lines.extend((0..self.width).map(|at| {
                let column = at.checked_sub(columns.low).and_then(|j| xt[4].get(j))?;
                Some((row? + column) as usize)
            }));
        }
    }

    /// Applies the scale and the bias of each channel to sums, if there are some.
    fn scale(&self, sums: &mut [i32]) {
        let Some(scales) = self.scales else { return };
        for line in sums.chunks_exact_mut(self.of.tables[1][1].len()) {
            for (sums, [by, plus]) in line.chunks_mut(MOST_COLUMNS).zip(scales) {
                let all = sums.iter_mut().zip(by.iter().zip(plus));
                all.for_each(|(sum, (&by, &plus))| *sum = scaled(*sum, [by, plus]));
            }
        }
    }
}

/// Returns whether there is a kernel for elements `kinds[0]` whose results are elements `kinds[1]`.
fn takes(kinds: [Kind; 2], with_epilogue: bool) -> bool {
    match kinds {
        [Kind::F32, Kind::F32] | [Kind::F16, Kind::F16 | Kind::F32] => true,
        [Kind::BF16, Kind::BF16 | Kind::F32] => true,
        [Kind::I8, Kind::I8 | Kind::I32] | [Kind::U8, Kind::U8 | Kind::I32] => true,
        [Kind::I8, Kind::U8 | Kind::F32] | [Kind::U8, Kind::I8 | Kind::F32] => with_epilogue,
        _ => false,
    }
}

/// Maps each element; the last ones as a full vector that overlaps the previous one, if the slice has one.
#[inline(always)]
fn each<A: Copy, B: Copy>(from: &[A], to: &mut [B], f: impl Fn(A) -> B) {
    let (places, left) = to.as_chunks_mut::<PLACES>();
    let (lines, rest) = from.as_chunks::<PLACES>();
    for (to, line) in places.iter_mut().zip(lines) {
        *to = line.map(&f);
    }
    if rest.is_empty() {
        return;
    }
    match (from.last_chunk::<PLACES>(), places.is_empty()) {
        (Some(line), false) => {
            if let Some(to) = to.last_chunk_mut::<PLACES>() {
                *to = line.map(&f);
            }
        }
        _ => {
            let all = left.iter_mut().zip(rest);
            all.for_each(|(to, x)| *to = f(*x));
        }
    }
}

/// All pairs of indices below `a` and `b`.
fn pairs(a: usize, b: usize) -> impl Iterator<Item = (usize, usize)> {
    (0..a).flat_map(move |i| (0..b).map(move |j| (i, j)))
}

/// Sums `N` channels from `at` on.
#[inline(always)]
fn some_channels<E: Float, T: Float, const N: usize>(
    out: &mut [T],
    x: &[E],
    w: &[f32],
    start: &[T],
    taps: &[(usize, usize)],
    at: usize,
) {
    let mut sums = [0f32; N];
    for &(from, weights) in taps {
        let (x, w) = (
            &x[from + at..from + at + N],
            &w[weights + at..weights + at + N],
        );
        for i in 0..N {
            sums[i] += w[i] * x[i].float();
        }
    }
    let (out, start) = (&mut out[at..at + N], &start[at..at + N]);
    for i in 0..N {
        out[i] = T::with(sums[i], start[i]);
    }
}

/// Elements of an operand, and the loops for them.
trait Operand: Float {
    /// Convolves contiguous channels without converting them to `f32`. Returns false if there is no such kernel.
    fn whole_channels<T: Float, O: Element<Number = T::Number>>(
        of: &Depthwise,
        out: &mut [O],
        x: (&[Self], Quantized),
        w: &[u8],
        bias: Option<&[T]>,
        team: &Team,
    ) -> Result<bool, KernelError> {
        let _ = (of, out, x, w, bias, team);
        Ok(false)
    }

    /// Convolves rows of planes.
    fn channels_first<T: Float, O: Element<Number = T::Number>>(
        of: &Depthwise,
        out: &mut [O],
        operands: Operands<'_, Self, T>,
        share: &Share,
    );
}

macro_rules! floats {
    ($($element:ty),*) => {$(
        impl Operand for $element {
            #[inline(always)]
            fn channels_first<T: Float, O: Element<Number = T::Number>>(
                of: &Depthwise,
                out: &mut [O],
                operands: Operands<'_, $element, T>,
                share: &Share,
            ) {
                of.planes(out, share, FloatPlane::of(of, operands));
            }
        }
    )*};
}

floats!(f32, bf16, f16);

macro_rules! bytes {
    ($($element:ty, $packed:ident;)*) => {$(
        impl Operand for $element {
            fn whole_channels<T: Float, O: Element<Number = T::Number>>(
                of: &Depthwise,
                out: &mut [O],
                x: (&[$element], Quantized),
                w: &[u8],
                bias: Option<&[T]>,
                team: &Team,
            ) -> Result<bool, KernelError> {
                let known = match &of.packed {
                    Packed::$packed(weights) => Some(weights),
                    _ => None,
                };
                of.bytes_channels_last(out, x, known, w, bias, team)
            }

            #[inline(always)]
            fn channels_first<T: Float, O: Element<Number = T::Number>>(
                of: &Depthwise,
                out: &mut [O],
                operands: Operands<'_, $element, T>,
                share: &Share,
            ) {
                let columns = &of.dims[1];
                let requantize = of.requantize::<O>().filter(|_| of.together);
                if row_conv_fits(columns.stride, columns.dilation) {
                    let plane = of.line_plane();
                    let apart = (plane.0.row, 0);
                    let kernel = BytePlane::of(of, operands, requantize, plane, apart);
                    of.planes::<_, BytePlane<_, _, RowConv<_>>>(out, share, kernel);
                } else {
                    let plane = of.plane();
                    let groups = of.dims[0].kernel.div_ceil(QUAD);
                    let apart = (Depthwise::line(&plane.0), groups);
                    let kernel = BytePlane::of(of, operands, requantize, plane, apart);
                    of.planes::<_, BytePlane<_, _, Weights<_>>>(out, share, kernel);
                }
            }
        }
    )*};
}

bytes!(i8, Signed; u8, Unsigned;);

/// Elements converted to `f32`.
fn numbers(kind: Kind, bytes: &[u8]) -> Result<Vec<f32>, KernelError> {
    fn all<E: Float>(bytes: &[u8]) -> Result<Vec<f32>, KernelError> {
        Ok(elements::<E>(bytes)?.iter().map(|x| x.float()).collect())
    }
    match kind {
        Kind::F32 => all::<f32>(bytes),
        Kind::BF16 => all::<bf16>(bytes),
        Kind::F16 => all::<f16>(bytes),
        Kind::I8 => all::<i8>(bytes),
        Kind::U8 => all::<u8>(bytes),
        Kind::I32 => all::<i32>(bytes),
    }
}
