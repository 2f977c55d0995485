//! `gather_elements` and `scatter_elements`: each index has an element of its own, which is read or written along an axis.

use crate::access::Access;
use crate::error::StepError;
use crate::memory::{In, Slot};
use crate::moved::Moved;
use crate::nest::Nest;
use crate::ops::copy::copy_at;
use crate::ops::gather::{along, read};
use crate::ops::kernel::{Call, Kernel, Site};
use optc_ir::Operation;
use optc_kernels::element::{Kind, elements, elements_mut};
use optc_kernels::error::KernelError;
use optc_kernels::gemm::within;
use optc_ops::{GatherElements, ScatterElements, ScatterReduction};

/// A gather or scatter of elements.
#[derive(Debug)]
pub(crate) struct Elements {
    /// The scatter; `None` for a gather.
    writes: Option<Writes>,
    /// Bytes of an element.
    size: usize,
    /// For each index, in row-major order: the offset of its own element, and the offset of the indexed element without the
    /// axis.
    places: Vec<[i64; 2]>,
    /// The offsets along the axis.
    axis: Vec<i64>,
    reach: [(i64, i64); 2],
    indices: Slot,
}

#[derive(Debug)]
struct Writes {
    /// True if updates are added to the elements that are there.
    adds: bool,
    /// The copy of the operand to the result; `None` if the operand lies in the result.
    copy: Option<Nest<2>>,
}

impl Elements {
    pub(crate) fn of(site: &Site<'_>) -> Option<Elements> {
        let of = site.func.op_ref(site.op);
        let all = site.all()?;
        let (axis, named, own, indices, writes) = match (&*site.data().name, &all[..]) {
            (GatherElements::NAME, &[x, indices, y]) => {
                let axis = GatherElements::of(&of).ok()?.along(&of).ok()?;
                (axis, x, y, indices, None)
            }
            (ScatterElements::NAME, &[x, indices, updates, y]) => {
                let scatter = ScatterElements::of(&of).ok()?;
                let adds = match scatter.reduction {
                    ScatterReduction::None => false,
                    ScatterReduction::Add if x.kind() == Some(Kind::F32) => true,
                    _ => return None,
                };
                if x.width != y.width || x.dtype != y.dtype {
                    return None;
                }
                let copy = match x.is_at(y) {
                    true => None,
                    false => Some(Nest::of([&*y.access, &*x.access])?),
                };
                let writes = Writes { adds, copy };
                (scatter.along(&of).ok()?, y, updates, indices, Some(writes))
            }
            _ => return None,
        };
        let alike = named.width == own.width && named.dtype == own.dtype;
        let shape = indices.access.shape();
        if !alike || !matches!(own.width, 8 | 16 | 32 | 64 | 128) || own.access.shape() != shape {
            return None;
        }
        let (base, mut tables) = (*named.access).clone().into_sum()?;
        let along = std::mem::replace(tables.get_mut(axis)?, vec![0; shape[axis]]);
        for (table, &n) in tables.iter_mut().zip(&shape) {
            if table.len() < n {
                return None;
            }
            table.truncate(n);
        }
        let rest = Access::Sum { base, tables };
        let (low, high) = rest.reach()?;
        let reach = (low + along.iter().min()?, high + along.iter().max()?);
        let reach = [own.access.reach()?, reach];
        let mut places = Vec::with_capacity(own.access.count());
        own.access.each(|at| places.push([at, 0]));
        let mut next = places.iter_mut();
        rest.each(|at| next.next().into_iter().for_each(|place| place[1] = at));
        Some(Elements {
            writes,
            size: own.width as usize / 8,
            places,
            axis: along,
            reach,
            indices: indices.clone(),
        })
    }

    /// Calls with the offsets of each index's own element and of the indexed element.
    #[inline(always)]
    fn each(&self, indices: &[i64], mut call: impl FnMut(usize, usize)) -> Result<(), StepError> {
        for (&[own, rest], &index) in self.places.iter().zip(indices) {
            call(own as usize, (rest + along(&self.axis, index)?) as usize);
        }
        Ok(())
    }

    fn moved<const N: usize>(
        &self,
        indices: &[i64],
        from: &[u8],
        out: &mut [u8],
    ) -> Result<(), StepError> {
        let (from, out) = (from.as_chunks::<N>().0, out.as_chunks_mut::<N>().0);
        match self.writes {
            None => self.each(indices, |own, named| out[own] = from[named]),
            Some(_) => self.each(indices, |own, named| out[named] = from[own]),
        }
    }
}

/// Copies the operand of an update to the result, unless it lies there.
///
/// # Errors
/// The operand is not where the plan says.
pub(super) fn copied(
    copy: Option<&Nest<2>>,
    size: usize,
    operand: In<'_>,
    out: &mut [u8],
    moved: &mut Moved,
) -> Result<(), StepError> {
    match (copy, operand) {
        (None, In::Inplace) => Ok(()),
        (Some(copy), In::Bytes(source)) => {
            if !copy.fits(0, out.len() / size) || !copy.fits(1, source.len() / size) {
                return Err(KernelError::OutOfBounds.into());
            }
            copy_at(copy, size, [0, 0], source, out, moved);
            Ok(())
        }
        _ => Err(StepError::OperandWrittenOver),
    }
}

impl Kernel for Elements {
    fn name(&self) -> &'static str {
        match self.writes {
            None => "gather",
            Some(_) => "scatter",
        }
    }

    fn packed_bytes(&self) -> usize {
        size_of_val(&self.places[..])
    }

    fn run(&self, Call { ins, out, cx, .. }: Call<'_>) -> Result<(), StepError> {
        let (indices, from) = match (&self.writes, ins) {
            (None, &[In::Bytes(x), In::Bytes(indices)]) => (indices, x),
            (Some(writes), &[x, In::Bytes(indices), In::Bytes(updates)]) => {
                copied(writes.copy.as_ref(), self.size, x, out, cx.moved)?;
                (indices, updates)
            }
            _ => return Err(StepError::OperandWrittenOver),
        };
        let lengths = match &self.writes {
            None => [out.len(), from.len()],
            Some(_) => [from.len(), out.len()],
        };
        within(self.reach, lengths.map(|n| n / self.size))?;
        let indices = read(&self.indices, indices)?;
        if self.writes.as_ref().is_some_and(|writes| writes.adds) {
            let (from, out) = (elements::<f32>(from)?, elements_mut::<f32>(out)?);
            return self.each(&indices, |own, named| out[named] += from[own]);
        }
        let bytes = (self.places.len() * self.size) as u64;
        cx.moved.add(bytes, bytes);
        match self.size {
            1 => self.moved::<1>(&indices, from, out),
            2 => self.moved::<2>(&indices, from, out),
            4 => self.moved::<4>(&indices, from, out),
            8 => self.moved::<8>(&indices, from, out),
            _ => self.moved::<16>(&indices, from, out),
        }
    }
}
