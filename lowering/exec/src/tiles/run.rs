//! Runs the programs of a group.

use super::form::{Form, TileStep};
use super::{Program, Tiled};
use crate::buffer::Buffer;
use crate::error::StepError;
use crate::memory::{In, Memory, Slot, Storage, Surroundings};
use crate::moved::Moved;
use crate::ops::{Call, Context};
use indexmap::IndexMap;
use optc_kernels::team::{self, Team};
use std::ops::Range;
use std::sync::{Mutex, PoisonError};

/// State that all programs share.
struct Shared<'a> {
    tiled: &'a Tiled,
    sources: Vec<&'a [u8]>,
    targets: Mutex<Vec<&'a mut [u8]>>,
    constants: &'a [Buffer],
}

/// A buffer, split into the results in it and the bytes between them.
struct Cut<'a> {
    results: Vec<(usize, &'a mut [u8])>,
    /// The bytes between results, each with its offset.
    others: Vec<(usize, &'a [u8])>,
}

impl Tiled {
    /// Runs all programs, shared by the threads of a team, and counts what is moved without computing.
    ///
    /// # Errors
    /// A kernel refuses its operands.
    pub(crate) fn run(
        &self,
        memory: &mut Memory,
        constants: &[Buffer],
        team: &Team,
        poison: bool,
    ) -> Result<Moved, StepError> {
        let mut taken: IndexMap<Storage, Buffer> = IndexMap::new();
        for target in &self.targets {
            if !taken.contains_key(&target.storage) {
                taken.insert(target.storage, memory.take(target.storage));
            }
        }
        let mut scratch = std::mem::take(&mut memory.scratch);
        let done = self.with(memory, &mut taken, &mut scratch, constants, team, poison);
        memory.scratch = scratch;
        for (storage, buffer) in taken {
            memory.give(storage, buffer);
        }
        done
    }

    fn with(
        &self,
        memory: &Memory,
        taken: &mut IndexMap<Storage, Buffer>,
        scratch: &mut [Buffer],
        constants: &[Buffer],
        team: &Team,
        poison: bool,
    ) -> Result<Moved, StepError> {
        let mut targets: Vec<Option<&mut [u8]>> = self.targets.iter().map(|_| None).collect();
        let mut others: IndexMap<Storage, Vec<(usize, &[u8])>> = IndexMap::new();
        for (&storage, buffer) in taken.iter_mut() {
            let cut = self
                .cut(storage, buffer.bytes_mut())
                .ok_or(StepError::TileOutOfBounds)?;
            for (number, bytes) in cut.results {
                targets[number] = Some(bytes);
            }
            others.insert(storage, cut.others);
        }
        let mut sources = Vec::with_capacity(self.sources.len());
        for source in &self.sources {
            let range = source.range();
            let bytes = match others.get(&source.storage) {
                None => memory.bytes(source, constants),
                Some(pieces) => pieces
                    .iter()
                    .find_map(|(from, bytes)| {
                        bytes.get(range.start.checked_sub(*from)?..range.end.checked_sub(*from)?)
                    })
                    .ok_or(StepError::TileOutOfBounds)?,
            };
            sources.push(bytes);
        }
        let targets: Option<Vec<&mut [u8]>> = targets.into_iter().collect();
        let shared = Shared {
            tiled: self,
            sources,
            targets: Mutex::new(targets.ok_or(StepError::TileOutOfBounds)?),
            constants,
        };
        let elements = self.bytes() / size_of::<f32>() as u64;
        let threads = team.worth(elements, team::OF_ROWS);
        let threads = threads.min(self.programs.len()).min(scratch.len()).max(1);
        let rooms: Vec<Mutex<&mut Buffer>> = scratch.iter_mut().map(Mutex::new).collect();
        let done: Vec<Mutex<Result<Moved, StepError>>> = (0..threads)
            .map(|_| Mutex::new(Ok(Moved::default())))
            .collect();
        let n = self.programs.len();
        team.each(threads, |thread| {
            let own = &self.programs[n * thread / threads..n * (thread + 1) / threads];
            let mut room = held(&rooms[thread]);
            *held(&done[thread]) = shared.run(own, room.bytes_mut(), poison);
        });
        let mut moved = Moved::default();
        for done in done {
            moved.merge(done.into_inner().unwrap_or_else(PoisonError::into_inner)?);
        }
        Ok(moved)
    }

    /// Splits a buffer into results and the bytes between them.
    fn cut<'a>(&self, storage: Storage, bytes: &'a mut [u8]) -> Option<Cut<'a>> {
        let mut here: Vec<(usize, &Slot)> = self.targets.iter().enumerate().collect();
        here.retain(|(_, target)| target.storage == storage);
        here.sort_by_key(|(_, target)| target.offset);
        let mut cut = Cut {
            results: Vec::with_capacity(here.len()),
            others: Vec::with_capacity(here.len() + 1),
        };
        let (mut rest, mut at) = (bytes, 0);
        for (number, target) in here {
            let (before, after) = rest.split_at_mut_checked(target.offset.checked_sub(at)?)?;
            let (own, after) = after.split_at_mut_checked(target.bytes)?;
            cut.others.push((at, before));
            cut.results.push((number, own));
            (rest, at) = (after, target.offset + target.bytes);
        }
        cut.others.push((at, rest));
        Some(cut)
    }
}

/// Locks a mutex, poisoned or not: a thread that failed has written its own part only.
fn held<T>(lock: &Mutex<T>) -> std::sync::MutexGuard<'_, T> {
    lock.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Shared<'_> {
    fn run(&self, programs: &[Program], room: &mut [u8], poison: bool) -> Result<Moved, StepError> {
        let team = Team::new(1, false)?;
        let mut moved = Moved::default();
        for program in programs {
            if poison {
                Buffer::poison(room);
            }
            let form = &self.tiled.forms[program.form];
            for step in &form.steps {
                let cx = Context {
                    team: &team,
                    moved: &mut moved,
                };
                self.step(form, step, program, room, cx)?;
            }
        }
        Ok(moved)
    }

    /// Runs a kernel on the tiles of a program.
    fn step(
        &self,
        form: &Form,
        step: &TileStep,
        program: &Program,
        room: &mut [u8],
        mut cx: Context<'_>,
    ) -> Result<(), StepError> {
        let parts = Parts {
            sources: &self.sources,
            constants: self.constants,
            form,
            program,
        };
        let run = |number: usize, ins: Option<Vec<In<'_>>>, out: &mut [u8], cx: Context<'_>| {
            step.kernel.run(Call {
                result: number,
                ins: &ins.ok_or(StepError::TileOutOfBounds)?,
                out,
                cx,
            })
        };
        for (number, result) in step.results.iter().enumerate() {
            let cx = cx.again();
            let Storage::Result(to) = result.storage else {
                let (around, out) =
                    Surroundings::of(room, result.range()).ok_or(StepError::TileOutOfBounds)?;
                let reads = |slot: &Slot| matches!(slot.storage, Storage::Result(_));
                let read = step.operands.iter().any(reads).then(|| held(&self.targets));
                let targets = read.as_ref().map_or(&[][..], |all| &all[..]);
                let operand = |slot: &Slot| match slot.storage {
                    Storage::Arena if slot.range() == result.range() => {
                        Some(In::same(slot, result))
                    }
                    Storage::Arena => around.get(slot.range()).map(In::Bytes),
                    _ => parts.of(slot, targets).map(In::Bytes),
                };
                let ins: Option<Vec<In<'_>>> = step.operands.iter().map(operand).collect();
                run(number, ins, out, cx)?;
                continue;
            };
            let mut targets = held(&self.targets);
            let (target, range) = parts.written(to).ok_or(StepError::TileOutOfBounds)?;
            let own = std::mem::take(targets.get_mut(target).ok_or(StepError::TileOutOfBounds)?);
            let done = Surroundings::of(own, range)
                .ok_or(StepError::TileOutOfBounds)
                .and_then(|(around, out)| {
                    let operand = |slot: &Slot| match slot.storage {
                        Storage::Arena => room.get(slot.range()).map(In::Bytes),
                        Storage::Result(from) if from == to => Some(In::same(slot, result)),
                        Storage::Result(from) => match parts.written(from)? {
                            // Written before to the same buffer: beside the result, or interleaved with it.
                            (same, bytes) if same == target => {
                                Some(around.get(bytes).map_or(In::Aliased, In::Bytes))
                            }
                            _ => parts.of(slot, &targets).map(In::Bytes),
                        },
                        _ => parts.of(slot, &targets).map(In::Bytes),
                    };
                    let ins: Option<Vec<In<'_>>> = step.operands.iter().map(operand).collect();
                    run(number, ins, out, cx)
                });
            targets[target] = own;
            done?;
        }
        Ok(())
    }
}

/// A program's parts of whole buffers.
#[derive(Clone, Copy)]
struct Parts<'a> {
    sources: &'a [&'a [u8]],
    constants: &'a [Buffer],
    form: &'a Form,
    program: &'a Program,
}

impl<'a> Parts<'a> {
    /// The bytes of a tile that is not in scratch memory.
    fn of<'t>(&self, slot: &Slot, targets: &'t [&mut [u8]]) -> Option<&'t [u8]>
    where
        'a: 't,
    {
        match slot.storage {
            Storage::Argument(number) => {
                let &(source, bytes) = self.form.reads.get(number)?;
                let begin = *self.program.reads.get(number)?;
                self.sources.get(source)?.get(begin..begin + bytes)
            }
            Storage::Constant(number) => self.constants.get(number)?.bytes().get(slot.range()),
            Storage::Result(number) => {
                let (target, range) = self.written(number)?;
                targets.get(target)?.get(range)
            }
            Storage::Arena | Storage::Own(_) => None,
        }
    }

    /// The whole buffer of a write, and the range of bytes in it.
    fn written(&self, number: usize) -> Option<(usize, Range<usize>)> {
        let &(target, bytes) = self.form.writes.get(number)?;
        let begin = *self.program.writes.get(number)?;
        Some((target, begin..begin + bytes))
    }
}
