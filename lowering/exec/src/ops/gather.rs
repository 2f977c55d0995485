//! The elements along an axis that indices name, copied from where they lie.

use crate::access::Access;
use crate::buffer::gather;
use crate::memory::In;
use crate::nest::Nest;
use crate::ops::copy::copy_at;
use crate::ops::kernel::{Kernel, Site, within};
use crate::team::Context;
use optc_ir::{DType, Operation};
use optc_ops::Gather as Op;
use std::sync::Arc;

/// Copies along an axis.
#[derive(Debug)]
pub(crate) struct Gather {
    /// The loops over all dimensions but the axis, in the result and in the operand.
    nest: Nest<2>,
    /// The offsets of the operand along the axis.
    axis: Vec<i64>,
    /// The offsets of the result for each index.
    to: Vec<i64>,
    reach: [(i64, i64); 2],
    indices: (Arc<Access>, DType, u32),
    /// Bytes of an element.
    size: usize,
}

impl Gather {
    pub(crate) fn of(site: &Site<'_>) -> Option<Gather> {
        if &*site.data().name != Op::NAME {
            return None;
        }
        let all = site.all()?;
        let [x, indices, y] = all[..] else {
            return None;
        };
        let bytes = matches!(x.width, 8 | 16 | 32 | 64 | 128);
        if !bytes || x.width != y.width || x.dtype != y.dtype {
            return None;
        }
        let of = site.func.op_ref(site.op);
        let axis = Op::of(&of).ok()?.along(&of).ok()?;
        let (xb, mut xt) = (*x.access).clone().into_sum()?;
        let (yb, mut yt) = (*y.access).clone().into_sum()?;
        let rank = indices.access.shape().len();
        if xt.iter().chain(&yt).any(Vec::is_empty) {
            return None;
        }
        let reach = |base: i64, tables: &[Vec<i64>]| {
            tables.iter().fold((base, base), |at, t| {
                let (low, high) = (t.iter().min(), t.iter().max());
                (
                    at.0 + low.copied().unwrap_or(0),
                    at.1 + high.copied().unwrap_or(0),
                )
            })
        };
        let reach = [reach(yb, &yt), reach(xb, &xt)];
        let named: Vec<Vec<i64>> = yt.drain(axis..axis + rank).collect();
        let along = xt.remove(axis);
        let mut to = Vec::new();
        Access::Sum {
            base: 0,
            tables: named,
        }
        .each(|offset| to.push(offset));
        let (target, source) = (
            Access::Sum {
                base: yb,
                tables: yt,
            },
            Access::Sum {
                base: xb,
                tables: xt,
            },
        );
        Some(Gather {
            nest: Nest::of([&target, &source])?,
            axis: along,
            to,
            reach,
            indices: (Arc::clone(&indices.access), indices.dtype, indices.width),
            size: x.width as usize / 8,
        })
    }
}

impl Kernel for Gather {
    fn name(&self) -> &'static str {
        "gather"
    }

    fn run(
        &self,
        _: usize,
        ins: &[In<'_>],
        out: &mut [u8],
        cx: &mut Context<'_>,
    ) -> Result<(), String> {
        let [In::Bytes(source), In::Bytes(indices)] = ins else {
            return Err("an operand is written over".to_owned());
        };
        let lengths = [out.len() / self.size, source.len() / self.size];
        within(self.reach, lengths)?;
        let (access, dtype, width) = &self.indices;
        let indices = gather(indices, access, *dtype, *width).map_err(|e| e.to_string())?;
        let n = self.axis.len() as i64;
        for (i, to) in self.to.iter().enumerate() {
            let index = indices.i64_at(i);
            let place = if index < 0 { index + n } else { index };
            let from = usize::try_from(place)
                .ok()
                .and_then(|place| self.axis.get(place));
            let Some(&from) = from else {
                return Err(format!(
                    "index {index} is out of bounds, the axis has {n} elements"
                ));
            };
            copy_at(
                &self.nest,
                self.size,
                [*to, from],
                source,
                out,
                &mut cx.moved,
            );
        }
        Ok(())
    }
}
