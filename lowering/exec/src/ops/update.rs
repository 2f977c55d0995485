//! `dynamic_update_slice` and `scatter_nd`: boxes of the first operand are replaced. The operand is copied to the result
//! unless it lies there; then only the boxes are written.
//!
//! For a cache of 4096 rows that lies in the result, one new row at a start that is computed is one copy of that row.

use super::elements::copied;
use super::gather::{along, read};
use crate::access::Access;
use crate::error::StepError;
use crate::memory::{In, Slot};
use crate::nest::Nest;
use crate::ops::copy::copy_at;
use crate::ops::kernel::{Call, Kernel, Site};
use optc_ir::Operation;
use optc_kernels::error::KernelError;
use optc_ops::{DynamicUpdateSlice, ScatterNd, ScatterReduction};

/// Boxes of one shape that replace elements of an operand.
#[derive(Debug)]
pub(crate) struct Boxes {
    /// The copy of the operand to the result; `None` if the operand lies in the result.
    copy: Option<Nest<2>>,
    starts: Starts,
    /// Bytes of an element.
    size: usize,
}

/// The places of the boxes.
#[derive(Debug)]
enum Starts {
    /// One box. Its start along each dimension is an operand.
    Box {
        /// The slots of the starts, from operand 2 on.
        starts: Vec<Slot>,
        result: Access,
        update: Access,
    },
    /// One box for each index tuple, of all elements with these first indices.
    Tuples {
        indices: Slot,
        /// The number of numbers of a tuple.
        depth: usize,
        /// True if boxes outside of the result are left out.
        drop_outside: bool,
        /// The offsets of the result along the first dimensions.
        tables: Vec<Vec<i64>>,
        /// The offset of each box in the updates.
        from: Vec<i64>,
        /// The loops over one box, in the result and in the updates.
        nest: Nest<2>,
    },
}

impl Boxes {
    pub(crate) fn of(site: &Site<'_>) -> Option<Boxes> {
        let data = site.data();
        let all = site.all()?;
        let (&x, &y) = (all.first()?, all.last()?);
        let of = site.func.op_ref(site.op);
        let (update, starts) = match &*data.name {
            DynamicUpdateSlice::NAME => {
                let &update = all.get(1)?;
                let starts = all[2..all.len() - 1].iter().map(|&slot| slot.clone());
                let (result, update_access) = ((*y.access).clone(), (*update.access).clone());
                let starts = starts.collect();
                let starts = Starts::Box {
                    starts,
                    result,
                    update: update_access,
                };
                (update, starts)
            }
            ScatterNd::NAME if ScatterNd::of(&of).ok()?.reduction == ScatterReduction::None => {
                let (&indices, &update) = (all.get(1)?, all.get(2)?);
                let drop_outside = ScatterNd::of(&of).ok()?.drop_outside;
                (update, tuples(y, indices, update, drop_outside)?)
            }
            _ => return None,
        };
        let alike = |slot: &Slot| slot.width == y.width && slot.dtype == y.dtype;
        if !matches!(y.width, 8 | 16 | 32 | 64 | 128) || !alike(x) || !alike(update) {
            return None;
        }
        let copy = match x.is_at(y) {
            true => None,
            false => Some(Nest::of([&*y.access, &*x.access])?),
        };
        let size = y.width as usize / 8;
        Some(Boxes { copy, starts, size })
    }
}

/// The boxes of a `scatter_nd`.
fn tuples(result: &Slot, indices: &Slot, update: &Slot, drop_outside: bool) -> Option<Starts> {
    let shape = indices.access.shape();
    let (&depth, rows) = shape.split_last()?;
    let (base, mut tables) = (*result.access).clone().into_sum()?;
    let (update_base, mut own) = (*update.access).clone().into_sum()?;
    if tables.len() < depth || own.len() < rows.len() {
        return None;
    }
    let rest = tables.split_off(depth);
    let inner = own.split_off(rows.len());
    let sum = |base: i64, tables: Vec<Vec<i64>>| Access::Sum { base, tables };
    let nest = Nest::of([&sum(base, rest), &sum(update_base, inner)])?;
    Some(Starts::Tuples {
        indices: indices.clone(),
        depth,
        drop_outside,
        tables,
        from: sum(0, own).offsets(),
        nest,
    })
}

/// The loops over a box, in the result and in the update.
///
/// # Errors
/// The starts are no numbers, or the box has no loops.
fn placed(
    starts: &[Slot],
    result: &Access,
    update: &Access,
    ins: &[In<'_>],
) -> Result<Nest<2>, StepError> {
    let (whole, shape) = (result.shape(), update.shape());
    let mut picked = Vec::with_capacity(whole.len());
    for (d, (slot, from)) in starts.iter().zip(ins).enumerate() {
        let In::Bytes(bytes) = from else {
            return Err(StepError::OperandWrittenOver);
        };
        let start = read(slot, bytes)?.first().copied().unwrap_or(0).max(0);
        let last = whole[d]
            .checked_sub(shape[d])
            .ok_or(KernelError::OutOfBounds)?;
        let start = usize::try_from(start).unwrap_or(usize::MAX).min(last);
        picked.push((start..start + shape[d]).collect::<Vec<usize>>());
    }
    let nest = Nest::of([&result.picked(&picked), update]);
    nest.ok_or_else(|| KernelError::OutOfBounds.into())
}

impl Kernel for Boxes {
    fn name(&self) -> &'static str {
        "update"
    }

    fn run(&self, Call { ins, out, cx, .. }: Call<'_>) -> Result<(), StepError> {
        let Some(&x) = ins.first() else {
            return Err(StepError::OperandWrittenOver);
        };
        copied(self.copy.as_ref(), self.size, x, out, cx.moved)?;
        let fits = |nest: &Nest<2>, by: [i64; 2], lengths: [usize; 2]| {
            let inside = |k: usize| nest.fits_at(k, by[k], lengths[k] / self.size);
            match inside(0) && inside(1) {
                true => Ok(()),
                false => Err(StepError::from(KernelError::OutOfBounds)),
            }
        };
        match (&self.starts, ins) {
            (
                Starts::Box {
                    starts,
                    result,
                    update,
                },
                &[_, In::Bytes(from), ref at @ ..],
            ) => {
                if update.count() == 0 {
                    return Ok(());
                }
                let nest = placed(starts, result, update, at)?;
                fits(&nest, [0, 0], [out.len(), from.len()])?;
                copy_at(&nest, self.size, [0, 0], from, out, cx.moved);
                Ok(())
            }
            (
                Starts::Tuples {
                    indices,
                    depth,
                    drop_outside,
                    tables,
                    from: places,
                    nest,
                },
                &[_, In::Bytes(at), In::Bytes(from)],
            ) => {
                let all = read(indices, at)?;
                for (number, &place) in places.iter().enumerate() {
                    let tuple = all.get(number * depth..).unwrap_or_default();
                    let outside = |(table, &index): (&Vec<i64>, &i64)| {
                        usize::try_from(index).map_or(true, |index| table.len() <= index)
                    };
                    if *drop_outside && tables.iter().zip(tuple).any(outside) {
                        continue;
                    }
                    let mut to = 0;
                    for (table, &index) in tables.iter().zip(tuple) {
                        to += along(table, index)?;
                    }
                    fits(nest, [to, place], [out.len(), from.len()])?;
                    copy_at(nest, self.size, [to, place], from, out, cx.moved);
                }
                Ok(())
            }
            _ => Err(StepError::OperandWrittenOver),
        }
    }
}
