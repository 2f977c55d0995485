//! Convolutions as matrix products (implicit im2col): positions of the result by output channels, with input channels and
//! taps of the kernel as terms. Only the panel that is multiplied next, or a padded image of the operand, is copied.
//!
//! A convolution of 3x3 from 16 to 32 channels with a result of 28x28 has 784 positions, 32 channels and 9 * 16 = 144
//! terms.
//!
//! A transposed convolution is decomposed into one convolution for each phase of its strides. Depthwise convolutions have
//! kernels of their own.

use crate::access::Access;
use crate::error::StepError;
use crate::memory::{In, Slot};
use crate::ops::bytes::{Bytes, Side, multiplied, scale_offsets};
use crate::ops::channels::{Factors, picked};
use crate::ops::elementwise::Fill;
use crate::ops::kernel::{Call, Family, Kernel, Site, floats};
use crate::ops::non_finite::NonFinite;
use bytemuck::cast_slice;
use optc_ir::{Op, Operation, Value};
use optc_kernels::depthwise::{Depthwise, Replacement};
use optc_kernels::element::{Kind, elements};
use optc_kernels::epilogue::{Dequantization, Epilogue};
use optc_kernels::gemm::Scratch;
use optc_kernels::gemm::{self, Along, InitialBytes, LEFT, Multiply, Products, RIGHT};
use optc_kernels::geometry::{ConvDim, ConvOffsets, DIMS, reach, step};
use optc_kernels::image::{self, Dim, Image};
use optc_kernels::loops::dimension;
use optc_kernels::team::Team;
use optc_kernels::window::Window;
use optc_ops::Conv;
use std::borrow::Cow;
use std::sync::Arc;

/// A convolution with groups, strides, dilations and padding.
#[derive(Debug)]
pub(crate) struct Convolution {
    work: Work,
    biased: bool,
    /// The operation that it computes.
    op: Op,
    /// Weights and a bias with a norm folded into them.
    folded_norm: Option<Arc<FoldedNorm>>,
    /// Bytes that are multiplied in place of the operands.
    bytes: Option<Bytes>,
    /// Fallback for weights that are infinite or NaN.
    non_finite: Option<NonFinite>,
}

/// Weights and one bias a channel of a convolution with a folded norm; weights are at the offsets of the operand.
#[derive(Debug)]
struct FoldedNorm {
    weights: Vec<f32>,
    bias: Vec<f32>,
}

#[derive(Debug)]
enum Work {
    /// One product over all taps.
    Whole(Box<dyn Multiply>),
    /// One product for each tap that reads the operand somewhere.
    Taps {
        taps: Vec<Box<dyn Multiply>>,
        fill: Fill,
    },
    Depthwise(Box<Depthwise>),
    /// A transposed convolution: positions of the result that read the same taps are one convolution.
    Phases {
        phases: Vec<Phase>,
        /// Initial values of the result, if some phase reads nothing.
        fill: Option<Fill>,
    },
}

/// A convolution, and its fallback for weights that are infinite or NaN.
#[derive(Debug)]
struct Phase {
    work: Work,
    non_finite: Option<NonFinite>,
}

impl FoldedNorm {
    /// Folds a norm's factors into the weights and bias of a convolution, if these are constants.
    fn of(site: &Site<'_>, of: &Factors) -> Option<FoldedNorm> {
        let list = |operand: usize| -> Option<(Vec<f32>, &Slot)> {
            let value = *site.data().operands.get(operand)?;
            let slot = site.slot(value).filter(|s| s.kind() == Some(Kind::F32))?;
            let bytes = site.constant_bytes(operand)?.get(slot.range())?;
            Some((floats(bytes).ok()?.to_vec(), slot))
        };
        let (mut weights, slot) = list(1)?;
        let (places, channels) = (slot.access.offsets(), of.factors.len());
        let scaled = picked(&weights, &places)?;
        if *slot.access.shape().first()? != channels || scaled.len() < channels {
            return None;
        }
        let each = scaled.len() / channels;
        let scaled = scaled.chunks_exact(each).zip(&of.factors);
        let scaled = scaled.flat_map(|(own, f)| own.iter().map(move |w| f64::from(*w) * f));
        for (&place, weight) in places.iter().zip(scaled) {
            weights[place as usize] = weight as f32;
        }
        let begins = match site.data().operands.len() {
            3 => list(2).and_then(|(values, slot)| picked(&values, &slot.access.offsets()))?,
            _ => vec![0.0; channels],
        };
        let all = begins.iter().zip(of.factors.iter().zip(&of.terms));
        let bias: Vec<f32> = all
            .map(|(b, (f, t))| (f64::from(*b) * f + t) as f32)
            .collect();
        (bias.len() == channels).then_some(FoldedNorm { weights, bias })
    }
}

impl Convolution {
    pub(crate) fn of(site: &Site<'_>) -> Option<Convolution> {
        let result = site.slot(*site.data().results.first()?)?;
        Convolution::to(site, result, None, None, None)
    }

    /// The convolution at a site with bytes in place of its operands. A depthwise convolution needs weights as `i8`.
    pub(crate) fn in_bytes(site: &Site<'_>, bytes: &Bytes) -> Option<Convolution> {
        let result = site.slot(*site.data().results.first()?)?;
        Convolution::to(site, result, None, None, Some(bytes))
    }

    /// The convolution at a site with a norm folded into it: sums are scaled by factors, added to terms, and stored in
    /// `result`.
    pub(crate) fn normed(site: &Site<'_>, result: &Slot, by: Factors) -> Option<Convolution> {
        let folded_norm = FoldedNorm::of(site, &by)?;
        let floats = result.kind() == Some(Kind::F32);
        Convolution::to(site, result, None, Some(Arc::new(folded_norm)), None).filter(|_| floats)
    }

    /// The convolution at a site whose sums are stored in `result`, with an epilogue, folded weights or bytes if they are
    /// given.
    fn to(
        site: &Site<'_>,
        result: &Slot,
        epilogue: Option<Epilogue>,
        folded_norm: Option<Arc<FoldedNorm>>,
        bytes: Option<&Bytes>,
    ) -> Option<Convolution> {
        let parts = Parts::of(site, result, epilogue, folded_norm, bytes)?;
        let (work, bytes) = parts.work()?;
        Some(Convolution {
            work,
            biased: parts.biased && !parts.is_scaled(),
            op: site.op,
            non_finite: parts.non_finite(),
            folded_norm: parts.folded_norm,
            bytes,
        })
    }
}

/// The parts of a convolution before a kernel is chosen.
struct Parts<'a> {
    site: &'a Site<'a>,
    result: &'a Slot,
    kinds: [Kind; 2],
    places: ConvOffsets,
    /// The bias of each element of the result.
    begins: Access,
    biased: bool,
    epilogue: Option<Epilogue>,
    folded_norm: Option<Arc<FoldedNorm>>,
    bytes: Option<&'a Bytes>,
}

/// The work of a convolution, and the bytes that it multiplies in place of the operands.
type Chosen = (Work, Option<Bytes>);

impl<'a> Parts<'a> {
    fn of(
        site: &'a Site<'a>,
        result: &'a Slot,
        epilogue: Option<Epilogue>,
        folded_norm: Option<Arc<FoldedNorm>>,
        bytes: Option<&'a Bytes>,
    ) -> Option<Parts<'a>> {
        let data = site.data();
        if &*data.name != Conv::NAME {
            return None;
        }
        let all = site.all()?;
        let kind = match bytes {
            Some(_) => Kind::I8,
            None => all[0].kind()?,
        };
        let kinds = [kind, result.kind()?];
        let sums = epilogue.as_ref().map_or(kinds[1], Epilogue::sums);
        let biased = data.operands.len() == 3;
        let same = bytes.is_some() || all[1].kind() == Some(kinds[0]);
        if !same || biased && folded_norm.is_none() && all[2].kind() != Some(sums) {
            return None;
        }
        let begins = begins(site, result, folded_norm.as_deref())?;
        let parts = Parts {
            places: conv_offsets(site, result, &begins, bytes)?,
            site,
            result,
            kinds,
            begins,
            biased,
            epilogue,
            folded_norm,
            bytes,
        };
        // Sums that are scaled take their bias with the scale.
        let takes = !parts.is_scaled() || !biased || parts.bias().is_some();
        takes.then_some(parts)
    }

    /// Returns whether products are of bytes in place of floats, so that sums are scaled.
    fn is_scaled(&self) -> bool {
        self.bytes.is_some_and(|bytes| bytes.scale.is_some())
    }

    /// The operands that are constants, a norm folded into them.
    fn floats(&self) -> [Option<&[u8]>; 2] {
        let folded = self.folded_norm.as_ref();
        let weights = folded.map(|norm| cast_slice(&norm.weights));
        let weights = weights.or(self.site.constant_bytes(1));
        [self.site.constant_bytes(0), weights]
    }

    /// The operands that are multiplied, if they are constants.
    fn constants(&self) -> [Option<&[u8]>; 2] {
        match self.bytes {
            Some(bytes) if !self.is_scaled() => bytes.constants(),
            _ => self.floats(),
        }
    }

    /// The bias, if it is a constant.
    fn bias(&self) -> Option<&'a [u8]> {
        self.site.constant_bytes(2).filter(|_| self.biased)
    }

    /// The offsets of the convolution with those of `along` in place of the bias.
    fn offsets(&self, along: &Access) -> Option<ConvOffsets> {
        conv_offsets(self.site, self.result, along, self.bytes)
    }

    /// The dequantization before the epilogue.
    fn scale(&self) -> Option<&Dequantization> {
        self.epilogue.as_ref()?.scale()
    }

    /// The epilogue, which takes floats if sums are scaled.
    fn scaled_epilogue(&self) -> Option<Epilogue> {
        match self.is_scaled() {
            true => Some(Epilogue::of_floats(self.epilogue.clone())),
            false => self.epilogue.clone(),
        }
    }

    /// The fallback for weights that are infinite or NaN.
    fn non_finite(&self) -> Option<NonFinite> {
        let whole = self.bytes.is_none() && !transposed(self.site);
        let epilogue = self.epilogue.as_ref();
        let of = || NonFinite::of(&self.places, self.kinds, self.floats()[1], epilogue);
        whole.then(of).flatten()
    }

    /// Chooses the kernel.
    fn work(&self) -> Option<Chosen> {
        if transposed(self.site) {
            return Some((self.phases()?, None));
        }
        let quantized = self.bytes.is_some() || self.scale().is_some();
        if quantized && Depthwise::is(&self.places) {
            return self.quantized_depthwise();
        }
        let replacement = Replacement {
            weights: self.constants()[1].map(Cow::Borrowed),
            ..Replacement::default()
        };
        let epilogue = self.epilogue.clone();
        if let Some(found) = Depthwise::of(&self.places, self.kinds, replacement, epilogue) {
            return Some((Work::Depthwise(Box::new(found)), None));
        }
        let known = self.constants().map(|c| c.is_some());
        match implicit_gemm(&self.places, known, self.kinds[0]) {
            Some(products) => self.whole(products, known),
            None => Some((self.taps(known)?, None)),
        }
    }

    /// A transposed convolution, phase by phase.
    fn phases(&self) -> Option<Work> {
        let plain = self.folded_norm.is_none() && self.bytes.is_none() && self.epilogue.is_none();
        let (places, begins) = (&self.places, &self.begins);
        let phases = || by_phase(places, self.kinds, self.floats(), self.result, begins);
        plain.then(phases).flatten()
    }

    /// A depthwise convolution of bytes, or with a dequantization.
    fn quantized_depthwise(&self) -> Option<Chosen> {
        let scales = match self.scale() {
            Some(scale) => {
                let offsets = self.offsets(&scale_offsets(scale))?;
                Some(Depthwise::of_channels(&offsets, &scale.values)?)
            }
            None => None,
        };
        let (weights, bias) = (self.floats()[1], self.bias());
        let replacement = quantized_replacement(&self.places, self.bytes, weights, bias, scales)?;
        let weights = replacement.weights.clone()?;
        let epilogue = self.scaled_epilogue();
        let work = Depthwise::of(&self.places, self.kinds, replacement, epilogue)?;
        let bytes = self.bytes.cloned().map(|mut bytes| {
            bytes.sides[1] = Side::Constant {
                bytes: weights.into(),
                zero: 0,
            };
            bytes
        });
        Some((Work::Depthwise(Box::new(work)), bytes))
    }

    /// One product over all taps.
    fn whole(&self, products: Products, known: [bool; 2]) -> Option<Chosen> {
        let (kinds, epilogue) = (self.kinds, self.epilogue.clone());
        let constants = (self.floats(), self.bias());
        let along = |along: &Access| implicit_gemm(&self.offsets(along)?, known, kinds[0]);
        let (product, bytes) = multiplied(products, kinds, self.bytes, constants, epilogue, along)?;
        Some((Work::Whole(product), bytes))
    }

    /// One product for each tap, of floats without an epilogue.
    fn taps(&self, known: [bool; 2]) -> Option<Work> {
        if self.kinds != [Kind::F32; 2] || self.epilogue.is_some() {
            return None;
        }
        let taps = per_tap(&self.places, known)?.into_iter();
        let taps = taps.map(|tap| gemm::typed(tap, self.kinds, [None; 2], None));
        Some(Work::Taps {
            taps: taps.collect::<Option<_>>()?,
            fill: Fill::of(&self.result.access, &self.begins, self.kinds[1])?,
        })
    }
}

/// Replacement operands of a quantized depthwise convolution: weights as `i8`, and an operand with a zero point. `scales`
/// are those of the epilogue's dequantization.
fn quantized_replacement(
    places: &ConvOffsets,
    bytes: Option<&Bytes>,
    floats: Option<&[u8]>,
    begins: Option<&[u8]>,
    scales: Option<Vec<[f32; 2]>>,
) -> Option<Replacement<'static>> {
    let bytes = bytes?;
    let [Side::Value(made), _] = &bytes.sides else {
        return None;
    };
    let (weights, scales) = match (bytes.scale, &bytes.sides[1]) {
        (None, Side::Constant { bytes, zero: 0 }) => (bytes.to_vec(), scales),
        (Some(scale), _) => {
            let begins = begins.map(elements::<f32>).transpose().ok()?;
            let floats = elements::<f32>(floats?).ok()?;
            let (bytes, scales) = Depthwise::scaled_bytes(places, floats, scale, begins)?;
            (bytes, Some(scales))
        }
        _ => return None,
    };
    Some(Replacement {
        weights: Some(weights.into()),
        quantized: Some(made.is_unsigned()),
        scales,
    })
}

/// Access of the bias for each element of the result; the first element if there is no bias.
fn begins(site: &Site<'_>, result: &Slot, folded_norm: Option<&FoldedNorm>) -> Option<Access> {
    let all = site.all()?;
    let shape = result.access.shape();
    let mut along = vec![1; shape.len()];
    *along.get_mut(1)? = *shape.get(1)?;
    let list = |n: usize| Access::Sum {
        base: 0,
        tables: vec![(0..n as i64).collect()],
    };
    let bias = match folded_norm {
        Some(norm) => list(norm.bias.len()).reshaped(&along),
        None if all.len() < 4 => return Some(Access::constant_zero(&shape)),
        None => all[2].access.reshaped(&along),
    };
    Some(bias.broadcast(&shape))
}

fn conv_offsets(
    site: &Site<'_>,
    result: &Slot,
    begins: &Access,
    bytes: Option<&Bytes>,
) -> Option<ConvOffsets> {
    let of = site.func.op_ref(site.op);
    let conv = Conv::of(&of).ok()?;
    let all = site.all()?;
    let group = usize::try_from(conv.groups().ok()?).ok()?;
    let [x, w] = [0, 1].map(|side| {
        let other = bytes.and_then(|bytes| bytes.access(side));
        other.unwrap_or(&all[side].access)
    });
    let y = &*result.access;
    let grouped = |access: &Access, dim: usize| {
        let mut shape = access.shape();
        let channels = *shape.get(dim)?;
        shape.splice(dim..=dim, [group, channels / group]);
        access.reshaped(&shape).into_sum()
    };
    let [(yb, yt), (xb, xt), (wb, mut wt), (bb, bt)] = [
        grouped(y, 1)?,
        grouped(x, 1)?,
        grouped(w, 0)?,
        grouped(begins, 1)?,
    ];
    if conv.transposed {
        wt.swap(1, 2);
    }
    let dims = conv.slides(&of).ok()?;
    let dims = dims.iter().enumerate().map(|(d, s)| {
        Some(ConvDim {
            kernel: s.kernel,
            stride: s.stride,
            dilation: s.dilation,
            low: s.low,
            input: xt.get(3 + d)?.len(),
            output: yt.get(3 + d)?.len(),
        })
    });
    let dims = dims.collect::<Option<Vec<ConvDim>>>()?;
    let all = yt.iter().chain(&xt).chain(&wt);
    let whole = !all.into_iter().any(Vec::is_empty);
    whole.then_some(ConvOffsets {
        base: [yb, xb, wb, bb],
        tables: [yt, xt, wt, bt],
        dims,
    })
}

fn transposed(site: &Site<'_>) -> bool {
    let of = Conv::of(&site.func.op_ref(site.op));
    of.is_ok_and(|conv| conv.transposed)
}

/// Decomposes a transposed convolution. Along each dimension, positions of the result that are congruent modulo the stride
/// read the same taps, in reverse order, and form a convolution with stride 1.
fn by_phase(
    places: &ConvOffsets,
    kinds: [Kind; 2],
    constants: [Option<&[u8]>; 2],
    result: &Slot,
    begins: &Access,
) -> Option<Work> {
    let known = constants.map(|c| c.is_some());
    let mut all = vec![Some(ConvOffsets {
        base: places.base,
        tables: places.tables.clone(),
        dims: Vec::new(),
    })];
    for (dim, slide) in places.dims.iter().enumerate() {
        let phases = 0..slide.stride.min(slide.output);
        let along = |of: &Option<ConvOffsets>| -> Vec<Option<ConvOffsets>> {
            let own = phases.clone();
            own.map(|phase| {
                of.as_ref()
                    .and_then(|of| phase_of(of, 3 + dim, (slide, phase)))
            })
            .collect()
        };
        all = all.iter().flat_map(along).collect();
    }
    let mut fill = None;
    let mut phases = Vec::with_capacity(all.len());
    for places in all {
        let Some(places) = places else {
            fill = Some(Fill::of(&result.access, begins, kinds[1])?);
            continue;
        };
        let replacement = Replacement {
            weights: constants[1].map(Cow::Borrowed),
            ..Replacement::default()
        };
        let work = match Depthwise::of(&places, kinds, replacement, None) {
            Some(found) => Work::Depthwise(Box::new(found)),
            None => {
                let products = implicit_gemm(&places, known, kinds[0])?;
                Work::Whole(gemm::typed(products, kinds, constants, None)?)
            }
        };
        let non_finite = NonFinite::of(&places, kinds, constants[1], None);
        phases.push(Phase { work, non_finite });
    }
    Some(Work::Phases { phases, fill })
}

/// The positions of one phase along dimension `dim`, the last one decomposed so far; `None` if they read nothing.
fn phase_of(
    of: &ConvOffsets,
    dim: usize,
    (slide, phase): (&ConvDim, usize),
) -> Option<ConvOffsets> {
    let number = |n: usize| i64::try_from(n).ok();
    let (stride, ahead) = (number(slide.stride)?, number(phase + slide.low)?);
    // The element that the first position reads at each tap, from the last tap on.
    let reads = (0..slide.kernel).rev().filter_map(|k| {
        let by = ahead - number(k * slide.dilation)?;
        (by % stride == 0).then_some((k, by / stride))
    });
    let reads: Vec<(usize, i64)> = reads.collect();
    let first = reads.first()?.1;
    let dilation = reads.get(1).map_or(1, |second| second.1 - first);
    // Elements before the first one that is read are dropped.
    let skip = usize::try_from(first).unwrap_or(0);
    let mut base = of.base;
    let mut tables = of.tables.clone();
    let from = |table: &mut Vec<i64>, base: &mut i64, kept: Vec<i64>| {
        let start = *kept.first()?;
        *base += start;
        *table = kept.into_iter().map(|at| at - start).collect();
        Some(())
    };
    let every = |table: &[i64]| {
        table
            .iter()
            .skip(phase)
            .step_by(slide.stride)
            .copied()
            .collect()
    };
    let (y, b) = (every(&tables[0][dim]), every(&tables[3][dim]));
    let x = tables[1][dim].iter().skip(skip).copied().collect();
    let w = reads.iter().map(|(k, _)| tables[2][dim].get(*k).copied());
    let w: Vec<i64> = w.collect::<Option<_>>()?;
    for (k, kept) in [y, x, w, b].into_iter().enumerate() {
        from(&mut tables[k][dim], &mut base[k], kept)?;
    }
    let mut dims = of.dims.clone();
    dims.push(ConvDim {
        kernel: reads.len(),
        stride: 1,
        dilation: usize::try_from(dilation).ok()?,
        low: usize::try_from(-first).unwrap_or(0),
        input: tables[1][dim].len(),
        output: tables[0][dim].len(),
    });
    Some(ConvOffsets { base, tables, dims })
}

/// The loops of a convolution that are not spatial.
fn still(places: &ConvOffsets) -> [Along; 4] {
    let [y, x, w, b] = &places.tables;
    let zero = |n: usize| vec![0i64; n];
    [
        [y[0].clone(), x[0].clone(), zero(y[0].len()), b[0].clone()],
        [y[1].clone(), x[1].clone(), w[0].clone(), b[1].clone()],
        [y[2].clone(), zero(y[2].len()), w[1].clone(), b[2].clone()],
        [
            zero(x[2].len()),
            x[2].clone(),
            w[2].clone(),
            zero(x[2].len()),
        ],
    ]
}

/// The convolution as one product over all taps, if the operand's offsets have a constant stride along spatial dimensions.
fn implicit_gemm(places: &ConvOffsets, known: [bool; 2], kind: Kind) -> Option<Products> {
    let [y, x, w, b] = &places.tables;
    let rank = places.dims.len();
    if DIMS < rank {
        return None;
    }
    let mut base = places.base;
    // Spatial dimensions, outermost first in the result.
    let mut order: Vec<usize> = (0..rank).collect();
    order.sort_by_key(|&d| std::cmp::Reverse(y[3 + d].get(1).copied().unwrap_or(0).abs()));
    let (mut positions, mut kernels) = (Vec::new(), Vec::new());
    let mut inside = true;
    let mut extents = Vec::new();
    for &d in &order {
        let slide = places.dims[d];
        let step = step(&x[3 + d])?;
        let (stride, dilation) = (slide.stride as i64, slide.dilation as i64);
        let low = slide.low as i64;
        inside &= slide.low == 0 && slide.last() < slide.input;
        base[LEFT] -= low * step;
        let n = slide.output as i64;
        positions.push([
            y[3 + d].clone(),
            (0..n).map(|o| o * stride * step).collect(),
            vec![0; slide.output],
            b[3 + d].clone(),
        ]);
        let taps = slide.kernel as i64;
        kernels.push([
            vec![0; slide.kernel],
            (0..taps).map(|k| k * dilation * step).collect(),
            w[2 + 1 + d].clone(),
            vec![0; slide.kernel],
        ]);
        extents.push((slide, step));
    }
    let mut loops: Vec<Along> = still(places).to_vec();
    // Bytes with several taps or a stride are packed once, into an image, and not for each position.
    let channels = still(places)[3][0].len();
    let apart = places.dims.iter().any(|s| 1 < s.kernel || 1 < s.stride);
    let beside = order.last().is_some_and(|&d| y[3 + d].get(1) == Some(&1));
    let imaged = kind.size() == 1 && channels.is_multiple_of(image::CHANNELS) && apart && beside;
    if inside && !imaged {
        loops.extend(positions);
        loops.extend(kernels);
        return Products::of(base, &loops, known, kind);
    }
    let kernels = [&positions[..], &kernels[..]];
    windowed(base, &loops, kernels, &extents, places, kind)
}

/// The sums of one step of each loop, the last loop fastest.
fn sums(loops: &[Along]) -> Vec<[i64; 4]> {
    loops.iter().fold(vec![[0i64; 4]], |all, along| {
        let longer = all.iter().flat_map(|at| {
            (0..along[0].len()).map(move |i| std::array::from_fn(|k| at[k] + along[k][i]))
        });
        longer.collect()
    })
}

/// Coordinates of `count` steps along each dimension, at `by` of each step; the last dimension is fastest.
fn coordinates(
    extents: &[(ConvDim, i64)],
    count: impl Fn(&ConvDim) -> usize,
    by: impl Fn(&ConvDim, i32) -> i32,
) -> Vec<[i32; DIMS]> {
    let skip = DIMS - extents.len();
    let slides = extents.iter().enumerate();
    slides.fold(vec![[0i32; DIMS]], |all, (d, (slide, _))| {
        let steps = || (0..count(slide) as i32).map(|i| by(slide, i));
        let longer = all.iter().flat_map(|at| {
            steps().map(move |step| {
                let mut next = *at;
                next[skip + d] = step;
                next
            })
        });
        longer.collect()
    })
}

/// The padded dimensions of the operand.
fn padded(extents: &[(ConvDim, i64)]) -> Option<[Dim; DIMS]> {
    let dims = std::array::from_fn(|d| match (d + extents.len()).checked_sub(DIMS) {
        None => Some(Dim::NONE),
        Some(d) => {
            let (slide, stride) = extents[d];
            Some(Dim {
                low: -i32::try_from(slide.low).ok()?,
                extent: slide.last() + 1,
                size: i32::try_from(slide.input).ok()?,
                stride,
            })
        }
    });
    let [Some(first), Some(second), Some(third)] = dims else {
        return None;
    };
    Some([first, second, third])
}

/// The stride between the first two offsets in the result.
fn result_step(list: &[[i64; 4]]) -> i64 {
    list.get(1)
        .zip(list.first())
        .map_or(0, |(b, a)| b[0] - a[0])
}

/// The product of a convolution with padding or an image: positions and terms are in the order in which a window has them.
fn windowed(
    base: [i64; 4],
    still: &[Along],
    [positions, kernels]: [&[Along]; 2],
    extents: &[(ConvDim, i64)],
    places: &ConvOffsets,
    kind: Kind,
) -> Option<Products> {
    // The product is made for a single position and tap first; then positions and terms are replaced.
    let mut products = Products::of(base, &still[1..3], [false; 2], kind)?;
    let images = dimension(std::array::from_fn(|k| &still[0][k][..]));
    products.batch.splice(0..0, images);
    let outputs = match (products.rows.len(), products.columns.len()) {
        (_, 1) => std::mem::take(&mut products.rows),
        (1, _) => std::mem::take(&mut products.columns),
        _ => return None,
    };
    let (channels, pixels, taps) = (sums(&still[3..]), sums(positions), sums(kernels));
    let (last, _) = extents.last()?;
    let by_pixels = result_step(&pixels[pixels.len().saturating_sub(last.output)..]);
    // Positions are columns if they are contiguous in the result, or if channels are not.
    let pixels_are_columns = by_pixels == 1 || result_step(&outputs) != 1;
    let tap_places = coordinates(extents, |s| s.kernel, |s, i| i * s.dilation as i32);
    let dims = padded(extents)?;
    // With a single position, each element is read once, so that an image would not be reused.
    let many = 1 < pixels.len() && 1 < tap_places.len();
    let imaged = pixels_are_columns && (kind.size() == 1 || kind.is_float() && many);
    let image = imaged.then(|| {
        let lines = channels.iter().map(|channel| channel[LEFT]).collect();
        let cell = if kind.size() == 1 { image::CHANNELS } else { 1 };
        Image::of(lines, cell, &tap_places, dims, last.stride)
    });
    let image = image.flatten();
    // If channels are innermost, the terms of a tap are contiguous where channels are. Otherwise terms follow the weights'
    // order.
    let channels_inside = !pixels_are_columns || kind.size() == 1 && image.is_some();
    let pairs =
        |outer: usize, inner: usize| (0..outer).flat_map(move |o| (0..inner).map(move |i| (o, i)));
    let (t, c) = (taps.len(), channels.len());
    let order: Vec<(usize, usize)> = match channels_inside {
        true => pairs(t, c).collect(),
        false => pairs(c, t).map(|(channel, tap)| (tap, channel)).collect(),
    };
    let term = |&(t, c): &(usize, usize)| std::array::from_fn(|k| taps[t][k] + channels[c][k]);
    products.terms = order.iter().map(term).collect();
    let in_line = |w: &[[i64; 4]]| w[1][LEFT] - w[0][LEFT] == 1;
    products.window = Some(Window {
        side: LEFT,
        positions: coordinates(
            extents,
            |s| s.output,
            |s, i| i * s.stride as i32 - s.low as i32,
        ),
        terms: order.iter().map(|&(tap, _)| tap_places[tap]).collect(),
        sizes: dims.map(|dim| dim.size),
        step: last.stride as i32,
        stride: step(&positions.last()?[LEFT])?,
        channels: c,
        contiguous: channels_inside && channels.windows(2).all(in_line),
        image,
    });
    products.swapped = pixels_are_columns;
    (products.rows, products.columns) = match pixels_are_columns {
        true => (outputs, pixels),
        false => (pixels, outputs),
    };
    // Offsets of the operands' own elements, as places in the padding are not read.
    products.offset_range = std::array::from_fn(|k| reach(places.base[k], &places.tables[k]));
    Some(products)
}

/// One product for each tap that reads the operand somewhere.
fn per_tap(places: &ConvOffsets, known: [bool; 2]) -> Option<Vec<Products>> {
    let [y, x, w, b] = &places.tables;
    let zero = |n: usize| vec![0i64; n];
    let count: usize = places.dims.iter().map(|s| s.kernel).product();
    let mut taps = Vec::with_capacity(count);
    for tap in 0..count {
        let mut rest = tap;
        let mut base = places.base;
        let mut along = still(places).to_vec();
        for (dim, slide) in places.dims.iter().enumerate().rev() {
            let at = rest % slide.kernel;
            rest /= slide.kernel;
            base[RIGHT] += w[3 + dim].get(at)?;
            let (yt, xt) = (y.get(3 + dim)?, x.get(3 + dim)?);
            let read = |o: usize| (o * slide.stride + at * slide.dilation).checked_sub(slide.low);
            let met = (0..yt.len()).filter_map(|o| Some((o, *xt.get(read(o)?)?)));
            let met: Vec<(usize, i64)> = met.collect();
            let Some(&(first, from)) = met.first() else {
                along.clear();
                break;
            };
            base[0] += yt[first];
            base[LEFT] += from;
            base[3] += b[3 + dim][first];
            along.push([
                met.iter().map(|m| yt[m.0] - yt[first]).collect(),
                met.iter().map(|m| m.1 - from).collect(),
                zero(met.len()),
                met.iter()
                    .map(|m| b[3 + dim][m.0] - b[3 + dim][first])
                    .collect(),
            ]);
        }
        if !along.is_empty() {
            taps.push(Products::of(base, &along, known, Kind::F32)?);
        }
    }
    Some(taps)
}

impl Kernel for Convolution {
    fn name(&self) -> &'static str {
        match &self.work {
            Work::Whole(_) | Work::Taps { .. } | Work::Phases { .. } => "convolve",
            Work::Depthwise(_) => "depthwise",
        }
    }

    fn family(&self) -> Family {
        Family::Convolution
    }

    fn with_epilogue(
        &self,
        site: &Site<'_>,
        _: &[Value],
        result: &Slot,
        epilogue: Epilogue,
    ) -> Option<Box<dyn Kernel>> {
        let own = site.at(self.op);
        let bytes = self.bytes.as_ref();
        let convolution = Convolution::to(
            &own,
            result,
            Some(epilogue),
            self.folded_norm.clone(),
            bytes,
        )?;
        Some(Box::new(convolution))
    }

    fn order(&self) -> Vec<u32> {
        self.work.order()
    }

    fn packed_bytes(&self) -> usize {
        let own = self.folded_norm.as_ref().map_or(0, |own| {
            size_of_val(&own.weights[..]) + size_of_val(&own.bias[..])
        });
        let bytes = self.bytes.as_ref().map_or(0, Bytes::packed_bytes);
        own + bytes + self.work.packed_bytes()
    }

    fn scratch(&self) -> Scratch {
        self.work.scratch()
    }

    fn run(&self, Call { ins, out, cx, .. }: Call<'_>) -> Result<(), StepError> {
        let [In::Bytes(x), In::Bytes(w), rest @ ..] = ins else {
            return Err(StepError::OperandWrittenOver);
        };
        let ([x, w], zeros) = match &self.bytes {
            Some(bytes) => bytes.given([x, w])?,
            None => ([*x, *w], [0; 2]),
        };
        let (w, bias) = match (&self.folded_norm, self.biased, rest) {
            (Some(own), ..) => (cast_slice(&own.weights), Some(cast_slice(&own.bias))),
            (None, true, [In::Bytes(bias)]) => (w, Some(*bias)),
            (None, true, _) => return Err(StepError::BiasWrittenOver),
            (None, false, _) => (w, None),
        };
        self.work.run(
            self.non_finite.as_ref(),
            out,
            [x, w],
            (zeros, bias),
            cx.team,
        )
    }
}

impl Work {
    fn order(&self) -> Vec<u32> {
        match self {
            Work::Whole(products) => products.order(),
            // Each tap is summed by itself.
            Work::Taps { taps, .. } => {
                let taps = taps.iter().flat_map(|tap| tap.order());
                std::iter::once(u32::MAX).chain(taps).collect()
            }
            Work::Depthwise(_) => Vec::new(),
            Work::Phases { phases, .. } => {
                phases.iter().flat_map(|phase| phase.work.order()).collect()
            }
        }
    }

    fn packed_bytes(&self) -> usize {
        match self {
            Work::Whole(products) => products.packed_bytes(),
            Work::Taps { .. } => 0,
            Work::Depthwise(work) => work.packed_bytes(),
            Work::Phases { phases, .. } => {
                phases.iter().map(|phase| phase.work.packed_bytes()).sum()
            }
        }
    }

    fn scratch(&self) -> Scratch {
        let most = |all: &mut dyn Iterator<Item = Scratch>| {
            all.fold(Scratch::default(), |most, own| {
                std::array::from_fn(|i| most[i].max(own[i]))
            })
        };
        match self {
            Work::Whole(products) => products.scratch(),
            Work::Taps { taps, .. } => most(&mut taps.iter().map(|tap| tap.scratch())),
            Work::Depthwise(work) => [0, 0, 0, work.scratch()],
            Work::Phases { phases, .. } => {
                most(&mut phases.iter().map(|phase| phase.work.scratch()))
            }
        }
    }

    fn run(
        &self,
        non_finite: Option<&NonFinite>,
        out: &mut [u8],
        [x, w]: [&[u8]; 2],
        (zeros, bias): ([u8; 2], Option<&[u8]>),
        team: &Team,
    ) -> Result<(), StepError> {
        if let Some(non_finite) = non_finite
            && non_finite.is_needed(w)?
        {
            return non_finite.run(out, [x, w], bias);
        }
        let start = bias.map_or(InitialBytes::Zero, InitialBytes::Values);
        match self {
            Work::Whole(products) => Ok(products.run(out, [x, w], zeros, start, team)?),
            Work::Depthwise(work) => Ok(work.run(out, x, w, (bias, zeros[0]), team)?),
            Work::Taps { taps, fill } => {
                fill.run(bias, out)?;
                let mut taps = taps.iter();
                let start = InitialBytes::Result;
                Ok(taps.try_for_each(|tap| tap.run(out, [x, w], zeros, start, team))?)
            }
            Work::Phases { phases, fill } => {
                if let Some(fill) = fill {
                    fill.run(bias, out)?;
                }
                phases.iter().try_for_each(|Phase { work, non_finite }| {
                    work.run(non_finite.as_ref(), out, [x, w], (zeros, bias), team)
                })
            }
        }
    }
}
