//! `select`: one of two elements by a condition, in any layout; elements are copied as bytes.

use crate::error::StepError;
use crate::memory::In;
use crate::nest::Nest;
use crate::ops::kernel::{Call, Kernel, Site};
use bytemuck::Pod;
use optc_ir::Operation;
use optc_kernels::error::KernelError;

/// A select of elements of 1, 2, 4 or 8 bytes.
#[derive(Debug)]
pub(crate) struct Select {
    /// Bytes of an element.
    size: usize,
    /// Loops over the result, the condition and the branches.
    nest: Nest<4>,
}

impl Select {
    pub(crate) fn of(site: &Site<'_>) -> Option<Select> {
        let all = site.all()?;
        let [condition, a, b, target] = all[..] else {
            return None;
        };
        let sizes = matches!(target.width, 8 | 16 | 32 | 64) && condition.width == 8;
        let same = a.width == target.width && b.width == target.width;
        if &*site.data().name != optc_ops::Select::NAME || !sizes || !same {
            return None;
        }
        let shape = target.access.shape();
        let [condition, a, b] = [condition, a, b].map(|slot| slot.access.broadcast(&shape));
        Some(Select {
            size: target.width as usize / 8,
            nest: Nest::of([&*target.access, &condition, &a, &b])?,
        })
    }

    fn all<T: Pod>(&self, ins: &[In<'_>], out: &mut [u8]) -> Result<(), StepError> {
        let [condition, a, b] = ins else {
            return Err(StepError::OperandCount);
        };
        let out: &mut [T] = bytemuck::try_cast_slice_mut(out)?;
        // An operand in the result's bytes is read there, at the result's offset if the accesses are equal.
        let own = |operand: &In<'_>, k: usize| match operand {
            In::Inplace => 0,
            In::Bytes(_) | In::Aliased => k,
        };
        let (places, branches) = ([own(a, 2), own(b, 3)], [branch::<T>(a)?, branch::<T>(b)?]);
        // A condition in the result's bytes needs elements of one byte.
        let (given, truths) = (own(condition, 1), branch::<u8>(condition)?);
        if truths.is_none() && self.size != 1 {
            return Err(StepError::ConditionWrittenOver);
        }
        let lengths = branches.map(|branch| branch.map_or(out.len(), <[T]>::len));
        let fits = self.nest.fits(0, out.len())
            && self.nest.fits(given, truths.map_or(out.len(), <[u8]>::len))
            && places
                .iter()
                .zip(lengths)
                .all(|(&k, n)| self.nest.fits(k, n));
        if !fits {
            return Err(KernelError::OutOfBounds.into());
        }
        let (n, steps) = self.nest.inner;
        self.nest.each(|at| {
            let element = |k: usize, i: usize| (at[k] + steps[k] * i as i64) as usize;
            for i in 0..n {
                let place = element(given, i);
                let truth = match truths {
                    Some(truths) => truths[place],
                    None => bytemuck::bytes_of(&out[place])[0],
                };
                let branch = usize::from(truth == 0);
                let place = element(places[branch], i);
                out[element(0, i)] = match branches[branch] {
                    Some(values) => values[place],
                    None => out[place],
                };
            }
        });
        Ok(())
    }
}

/// The elements of a branch; `None` if they are in the result's bytes.
fn branch<'a, T: Pod>(operand: &In<'a>) -> Result<Option<&'a [T]>, StepError> {
    match *operand {
        In::Bytes(bytes) => Ok(Some(bytemuck::try_cast_slice(bytes)?)),
        In::Inplace | In::Aliased => Ok(None),
    }
}

impl Kernel for Select {
    fn name(&self) -> &'static str {
        "choice"
    }

    fn run(&self, Call { ins, out, .. }: Call<'_>) -> Result<(), StepError> {
        match self.size {
            1 => self.all::<u8>(ins, out),
            2 => self.all::<u16>(ins, out),
            4 => self.all::<u32>(ins, out),
            _ => self.all::<u64>(ins, out),
        }
    }
}
