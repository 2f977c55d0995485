//! The greatest or least `k` elements along an axis: one pass that skips elements no better than the `k`-th best so far.

use crate::access::Access;
use crate::error::StepError;
use crate::memory::In;
use crate::ops::kernel::{Call, Kernel, Site};
use half::{bf16, f16};
use optc_ir::{DType, Operation};
use optc_kernels::element::{Element, Kind, elements};
use optc_kernels::gemm::{Scratch, within};
use optc_ops::TopK as Op;
use std::cell::Cell;

/// The first `k` elements along an axis, with their indices.
#[derive(Debug)]
pub(crate) struct TopK {
    kind: Kind,
    largest: bool,
    k: usize,
    /// The offsets along the axis, of the operand and of both results.
    axes: [Vec<i64>; 3],
    /// The offset of each lane along the axis, in the operand and in both results.
    lanes: Vec<[i64; 3]>,
    reach: [(i64, i64); 3],
}

/// The indices that a thread keeps from the first result to the second.
#[derive(Debug, Default)]
struct Spare {
    /// The address of the kernel whose results it has.
    owner: usize,
    picked: Vec<u32>,
}

thread_local! {
    static SPARE: Cell<Spare> = const {
        Cell::new(Spare {
            owner: 0,
            picked: Vec::new(),
        })
    };
}

/// Numbers that map to unsigned integers of the same order.
trait Ranked: Copy {
    fn rank(self) -> u32;
}

impl Ranked for f32 {
    /// NaN is the greatest, and zeros are equal.
    #[inline(always)]
    fn rank(self) -> u32 {
        let bits = (self + 0.0).to_bits();
        // Negative numbers have all bits flipped, others the sign bit; there is no branch.
        let turned = (bits.cast_signed() >> 31).cast_unsigned() | 1 << 31;
        if self.is_nan() {
            u32::MAX
        } else {
            bits ^ turned
        }
    }
}

impl Ranked for i32 {
    #[inline(always)]
    fn rank(self) -> u32 {
        self.cast_unsigned() ^ 1 << 31
    }
}

impl TopK {
    pub(crate) fn of(site: &Site<'_>) -> Option<TopK> {
        if &*site.data().name != Op::NAME {
            return None;
        }
        let of = site.func.op_ref(site.op);
        let (top, all) = (Op::of(&of).ok()?, site.all()?);
        let axis = top.along(&of).ok()?;
        let [x, values, places] = all[..] else {
            return None;
        };
        let alike = x.width == values.width && x.dtype == values.dtype;
        let wide = places.dtype == DType::SI64 && places.width == 64;
        let n = *x.access.shape().get(axis)?;
        if !alike || !wide || u32::try_from(n).is_err() {
            return None;
        }
        let (mut axes, mut begins) = (Vec::with_capacity(3), Vec::with_capacity(3));
        for slot in &all {
            let (base, mut tables) = (*slot.access).clone().into_sum()?;
            axes.push(tables.remove(axis));
            begins.push(Access::Sum { base, tables }.offsets());
        }
        let lanes = (0..begins[0].len()).map(|i| std::array::from_fn(|k| begins[k][i]));
        let reach = [x, values, places].map(|slot| slot.access.reach());
        let [Some(a), Some(b), Some(c)] = reach else {
            return None;
        };
        Some(TopK {
            kind: x.kind()?,
            largest: top.largest,
            k: axes[1].len(),
            lanes: lanes.collect(),
            axes: axes.try_into().ok()?,
            reach: [a, b, c],
        })
    }

    /// Sets `picked` to the indices of each lane's first elements, in order.
    fn pick<E: Element>(&self, x: &[u8], picked: &mut Vec<u32>) -> Result<(), StepError>
    where
        E::Number: Ranked,
    {
        let x = elements::<E>(x)?;
        within([self.reach[0]], [x.len()])?;
        let turned = if self.largest { 0 } else { u32::MAX };
        let room = 2 * self.k.max(32);
        let mut best: Vec<u64> = Vec::with_capacity(room);
        picked.clear();
        for [begin, ..] in &self.lanes {
            let mut least = 0;
            best.clear();
            for (i, at) in self.axes[0].iter().enumerate() {
                let rank = x[(begin + at) as usize].read().rank() ^ turned;
                // Of equal elements the lower index is first.
                let own = u64::from(rank) << 32 | u64::from(!(i as u32));
                if least < own {
                    best.push(own);
                    if best.len() == room {
                        best.select_nth_unstable_by(self.k - 1, |a, b| b.cmp(a));
                        best.truncate(self.k);
                        least = best[self.k - 1];
                    }
                }
            }
            best.sort_unstable_by(|a, b| b.cmp(a));
            picked.extend(best.iter().take(self.k).map(|&own| !(own as u32)));
        }
        Ok(())
    }

    fn picked(&self, x: &[u8], picked: &mut Vec<u32>) -> Result<(), StepError> {
        match self.kind {
            Kind::F32 => self.pick::<f32>(x, picked),
            Kind::F16 => self.pick::<f16>(x, picked),
            Kind::BF16 => self.pick::<bf16>(x, picked),
            Kind::I8 => self.pick::<i8>(x, picked),
            Kind::U8 => self.pick::<u8>(x, picked),
            Kind::I32 => self.pick::<i32>(x, picked),
        }
    }

    /// Writes `read(lane, index)` for each picked element; the lane is its offset in the operand.
    fn write<T>(
        &self,
        result: usize,
        picked: &[u32],
        out: &mut [T],
        read: impl Fn(i64, u32) -> T,
    ) -> Result<(), StepError> {
        within([self.reach[result]], [out.len()])?;
        for (lane, picked) in self.lanes.iter().zip(picked.chunks_exact(self.k)) {
            for (to, &i) in self.axes[result].iter().zip(picked) {
                out[(lane[result] + to) as usize] = read(lane[0], i);
            }
        }
        Ok(())
    }

    fn values<const N: usize>(
        &self,
        picked: &[u32],
        x: &[u8],
        out: &mut [u8],
    ) -> Result<(), StepError> {
        let (x, out) = (x.as_chunks::<N>().0, out.as_chunks_mut::<N>().0);
        self.write(1, picked, out, |begin, i| {
            x[(begin + self.axes[0][i as usize]) as usize]
        })
    }
}

impl Kernel for TopK {
    fn name(&self) -> &'static str {
        "top_k"
    }

    fn packed_bytes(&self) -> usize {
        size_of_val(&self.lanes[..])
    }

    fn scratch(&self) -> Scratch {
        let best = 2 * self.k.max(32) * size_of::<u64>();
        [0, 0, 0, self.lanes.len() * self.k * size_of::<u32>() + best]
    }

    /// The indices are computed with the first result and kept for the second, which the same thread writes next.
    fn run(&self, call: Call<'_>) -> Result<(), StepError> {
        let (result, out) = (call.result, call.out);
        let [In::Bytes(x)] = call.ins else {
            return Err(StepError::OperandWrittenOver);
        };
        let own = std::ptr::from_ref(self).addr();
        let mut spare = SPARE.take();
        if result == 0 || spare.owner != own {
            self.picked(x, &mut spare.picked)?;
        }
        let picked = &spare.picked;
        let written = match (result, self.kind.size()) {
            (0, 1) => self.values::<1>(picked, x, out),
            (0, 2) => self.values::<2>(picked, x, out),
            (0, _) => self.values::<4>(picked, x, out),
            _ => {
                let out = bytemuck::try_cast_slice_mut(out)?;
                self.write(2, picked, out, |_, i| i64::from(i))
            }
        };
        spare.owner = if result == 0 { own } else { 0 };
        SPARE.set(spare);
        written
    }
}
