//! `gather`: copies the slices along an axis that indices select.

use crate::access::Access;
use crate::buffer::gather;
use crate::error::StepError;
use crate::memory::{In, Slot};
use crate::nest::Nest;
use crate::ops::copy::copy_at;
use crate::ops::kernel::{Call, Kernel, Site};
use bytemuck::Pod;
use optc_ir::{DType, Operation};
use optc_kernels::gemm::within;
use optc_kernels::geometry::reach;
use optc_ops::Gather as Op;

/// A gather along an axis.
#[derive(Debug)]
pub(crate) struct Gather {
    /// Loops over all dimensions but the axis, in the result and in the operand.
    nest: Nest<2>,
    /// The offsets of the operand along the axis.
    axis: Vec<i64>,
    /// The offset in the result for each index.
    to: Vec<i64>,
    reach: [(i64, i64); 2],
    indices: Slot,
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
        let reach = [reach(yb, &yt), reach(xb, &xt)];
        let named: Vec<Vec<i64>> = yt.drain(axis..axis + rank).collect();
        let along = xt.remove(axis);
        let sum = |base: i64, tables: Vec<Vec<i64>>| Access::Sum { base, tables };
        let to = sum(0, named).offsets();
        let (target, source) = (sum(yb, yt), sum(xb, xt));
        Some(Gather {
            nest: Nest::of([&target, &source])?,
            axis: along,
            to,
            reach,
            indices: indices.clone(),
            size: x.width as usize / 8,
        })
    }
}

impl Kernel for Gather {
    fn name(&self) -> &'static str {
        "gather"
    }

    fn run(&self, Call { ins, out, cx, .. }: Call<'_>) -> Result<(), StepError> {
        let [In::Bytes(source), In::Bytes(indices)] = ins else {
            return Err(StepError::OperandWrittenOver);
        };
        let lengths = [out.len() / self.size, source.len() / self.size];
        within(self.reach, lengths)?;
        let indices = read(&self.indices, indices)?;
        for (to, index) in self.to.iter().zip(indices) {
            let from = along(&self.axis, index)?;
            copy_at(&self.nest, self.size, [*to, from], source, out, cx.moved);
        }
        Ok(())
    }
}

/// Indices in row-major order.
///
/// # Errors
/// The bytes are no elements of the type.
pub(super) fn read(slot: &Slot, bytes: &[u8]) -> Result<Vec<i64>, StepError> {
    fn all<T: Pod + Into<i64>>(access: &Access, bytes: &[u8]) -> Option<Vec<i64>> {
        let list: &[T] = bytemuck::try_cast_slice(bytes).ok()?;
        let reach = access.reach()?;
        within([reach], [list.len()]).ok()?;
        let mut indices = Vec::with_capacity(access.count());
        access.each(|at| indices.push(list[at as usize].into()));
        Some(indices)
    }
    let found = match (slot.dtype, slot.width) {
        (DType::SI64, 64) => all::<i64>(&slot.access, bytes),
        (DType::SI32, 32) => all::<i32>(&slot.access, bytes),
        _ => None,
    };
    if let Some(found) = found {
        return Ok(found);
    }
    let tensor = gather(bytes, &slot.access, slot.dtype, slot.width)?;
    Ok((0..slot.access.count()).map(|i| tensor.i64_at(i)).collect())
}

/// The offset of an index along an axis; negative indices count from the end.
///
/// # Errors
/// The index is out of bounds.
pub(super) fn along(axis: &[i64], index: i64) -> Result<i64, StepError> {
    let n = axis.len() as i64;
    let place = if index < 0 { index + n } else { index };
    let found = usize::try_from(place).ok();
    let found = found.and_then(|place| axis.get(place).copied());
    found.ok_or(StepError::Index { index, extent: n })
}
