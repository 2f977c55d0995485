//! Convolutions as sums of contractions, one for each position of the kernel: no copy of the operand is made.

use crate::access::Access;
use crate::memory::In;
use crate::ops::contract::{Along, Products};
use crate::ops::elementwise::Fill;
use crate::ops::kernel::{Kernel, Slots, floats, floats_mut};
use optc_ir::{DType, Func, Op, Operation};
use optc_ops::Conv;

/// A convolution with groups, strides, dilations and padding.
#[derive(Debug)]
pub(crate) struct Convolution {
    /// For each position of the kernel that meets the operand.
    taps: Vec<Products>,
    /// What the result begins with: the bias, or 0.
    fill: Fill,
    biased: bool,
}

impl Convolution {
    pub(crate) fn of<'a>(func: &Func, op: Op, slots: &Slots<'a>) -> Option<Convolution> {
        let data = &func.ops[op];
        if &*data.name != Conv::NAME {
            return None;
        }
        let all = data.operands.iter().chain(&data.results);
        let all: Vec<_> = all.map(|&v| slots(v)).collect::<Option<_>>()?;
        if all.iter().any(|s| s.dtype != DType::F32 || s.width != 32) {
            return None;
        }
        let of = func.op_ref(op);
        let conv = Conv::of(&of).ok()?;
        if conv.transposed {
            return None;
        }
        let slides = conv.slides(&of).ok()?;
        let group = usize::try_from(conv.groups().ok()?).ok()?;
        let (x, w) = (&*all[0].access, &*all[1].access);
        let y = &*all[all.len() - 1].access;
        let grouped = |access: &Access, dim: usize| {
            let mut shape = access.shape();
            let channels = *shape.get(dim)?;
            shape.splice(dim..=dim, [group, channels / group]);
            Some(access.reshaped(&shape))
        };
        let (xs, ws, ys) = (grouped(x, 1)?, grouped(w, 0)?, grouped(y, 1)?);
        let (
            Access::Sum {
                base: xb,
                tables: xt,
            },
            Access::Sum {
                base: wb,
                tables: wt,
            },
            Access::Sum {
                base: yb,
                tables: yt,
            },
        ) = (&xs, &ws, &ys)
        else {
            return None;
        };
        let zero = |n: usize| vec![0i64; n];
        let still: [Along; 4] = [
            [yt[0].clone(), xt[0].clone(), zero(yt[0].len())],
            [yt[1].clone(), xt[1].clone(), wt[0].clone()],
            [yt[2].clone(), zero(yt[2].len()), wt[1].clone()],
            [zero(xt[2].len()), xt[2].clone(), wt[2].clone()],
        ];
        let kernel: Vec<usize> = slides.iter().map(|s| s.kernel).collect();
        let count: usize = kernel.iter().product();
        let mut taps = Vec::with_capacity(count);
        for tap in 0..count {
            let mut rest = tap;
            let mut base = [*yb, *xb, *wb];
            let mut along = still.to_vec();
            for (dim, slide) in slides.iter().enumerate().rev() {
                let at = rest % slide.kernel;
                rest /= slide.kernel;
                base[2] += wt[3 + dim].get(at)?;
                let (yt, xt) = (yt.get(3 + dim)?, xt.get(3 + dim)?);
                let read =
                    |o: usize| (o * slide.stride + at * slide.dilation).checked_sub(slide.low);
                let pairs = (0..yt.len()).filter_map(|o| Some((yt[o], *xt.get(read(o)?)?)));
                let (to, from): (Vec<i64>, Vec<i64>) = pairs.unzip();
                let (Some(&first), Some(&second)) = (to.first(), from.first()) else {
                    along.clear();
                    break;
                };
                base[0] += first;
                base[1] += second;
                let n = to.len();
                along.push([
                    to.iter().map(|t| t - first).collect(),
                    from.iter().map(|f| f - second).collect(),
                    zero(n),
                ]);
            }
            if !along.is_empty() {
                taps.push(Products::of(base, &along)?);
            }
        }
        let biased = data.operands.len() == 3;
        let bias = match biased {
            true => {
                let mut shape = vec![1; y.shape().len()];
                shape[1] = y.shape()[1];
                all[2].access.reshaped(&shape)
            }
            false => Access::Sum {
                base: 0,
                tables: Vec::new(),
            },
        };
        let fill = Fill::of(y, &bias.broadcast(&y.shape()))?;
        Some(Convolution { taps, fill, biased })
    }
}

impl Kernel for Convolution {
    fn name(&self) -> &'static str {
        "convolve"
    }

    fn run(&self, _: usize, ins: &[In<'_>], out: &mut [u8]) -> Result<(), String> {
        let [In::Bytes(x), In::Bytes(w), rest @ ..] = ins else {
            return Err("an operand is written over".to_owned());
        };
        let out = floats_mut(out)?;
        match (self.biased, rest) {
            (true, [In::Bytes(bias)]) => self.fill.run(floats(bias)?, out)?,
            _ => self.fill.run(&[0.0], out)?,
        }
        let (x, w) = (floats(x)?, floats(w)?);
        self.taps
            .iter()
            .try_for_each(|tap| tap.run(out, x, w, true))
    }
}
