//! Copies that are made nevertheless, so that fewer bytes are alive at once.
//!
//! A part that is read in place keeps all of its parent alive. An operand that is written in place makes the whole
//! result exist from then on. While more bytes are alive than the limit, parts are copied. Candidates are sets of parts
//! in one buffer that is alive at the peak. In each step the set with the largest decrease of the excess for each byte
//! copied is chosen. Copies that turn out not to be needed are undone, the largest first.
//!
//! Example: a value of 100 MB of which only a slice of 1 MB is read late stays alive until then. A copy of the slice
//! lets the 100 MB go.
//!
//! This is a greedy search. It may copy more than necessary, and it does not see that several buffers must be dealt
//! with at once.

use super::decide::{Elided, elide, elide_stored};
use crate::bufferize::{above_limit, memory_of};
use crate::codes;
use crate::names::printed_name;
use crate::pass::PassContext;
use indexmap::IndexSet;
use optc_check::amount::bytes_of;
use optc_check::{Buffer, Memory, check_target, most_alive, steps};
use optc_ir::effects::Effects;
use optc_ir::entity::SideTable;
use optc_ir::op::in_place::settled;
use optc_ir::op::part::Port;
use optc_ir::size::SizeTable;
use optc_ir::{Diagnostic, Func, Module, Op, Operation, Value};
use optc_ops::Subview;
use std::cmp::{Ordering, Reverse};
use std::collections::BTreeSet;

/// A part: the number of the function, the operation, and its result or operand.
type PartPort = (usize, Op, Port);

/// The most sets of parts that are tried. Each trial is this pass over a copy of the module.
const MOST_TRIALS: usize = 2048;

/// The outcome of copying a set of parts.
struct Trial {
    module: Module,
    elided: Vec<Elided>,
    memory: Vec<Memory>,
    /// Bytes above the limit, summed over all positions of all bodies.
    excess: u128,
    /// Bytes read plus written that copies of all parts in place would cost.
    saved: u64,
}

/// A program with its copies elided, except for some.
pub(super) struct Kept {
    pub(super) module: Module,
    pub(super) elided: Vec<Elided>,
    /// Bytes of copies made for parts that the choice of layouts had placed.
    pub(super) undone: u64,
}

struct Within<'a> {
    /// The program with all copies. A subview in it is a part that the choice of layouts placed.
    plain: &'a Module,
    cx: &'a PassContext,
    sizes: SizeTable,
    limit: u64,
    /// The number of sets of parts that may still be tried.
    left: usize,
}

/// Elides the copies of a program, except for those that are needed to keep at most `limit` bytes alive at once.
///
/// # Errors
/// As far as the search sees, more bytes are alive whatever is copied.
pub(super) fn keep_within(
    plain: &Module,
    limit: u64,
    cx: &mut PassContext,
) -> Result<Kept, Box<Diagnostic>> {
    let mut within = Within {
        plain,
        cx,
        sizes: SizeTable::new(&cx.bindings),
        limit,
        left: MOST_TRIALS,
    };
    // If the result without a limit fits, it is kept.
    let unlimited = within.attempt(None)?;
    if unlimited.excess == 0 {
        return Ok(Kept {
            module: unlimited.module,
            elided: unlimited.elided,
            undone: 0,
        });
    }
    let free = within.attempt(Some(&IndexSet::new()))?;
    let (copied, found) = within.search(&free);
    let last = found.as_ref().unwrap_or(&free);
    if last.excess != 0 {
        return Err(Box::new(within.refused(last)));
    }
    let remarks: Vec<Diagnostic> = copied.iter().map(|&p| within.remark(p, &free)).collect();
    let stated = copied.iter().filter(|&&place| within.is_stated(place));
    let undone = stated.fold(0, |sum: u64, &place| {
        sum.saturating_add(within.bytes(place))
    });
    cx.remarks.extend(remarks);
    let Trial { module, elided, .. } = found.unwrap_or(free);
    Ok(Kept {
        module,
        elided,
        undone,
    })
}

impl Within<'_> {
    /// Returns whether the choice of layouts made the operation a part.
    fn is_stated(&self, (index, op, _): PartPort) -> bool {
        &*self.plain.funcs[index].ops[op].name == Subview::NAME
    }

    /// The program in which these parts are copied and every result is in one piece. For `None`, the program without a
    /// limit.
    ///
    /// # Errors
    /// The target does not take a copy instead of a part that the choice of layouts placed.
    fn attempt(&self, copied: Option<&IndexSet<PartPort>>) -> Result<Trial, Box<Diagnostic>> {
        let (registry, target) = (&self.cx.registry, &self.cx.target);
        let mut module = self.plain.clone();
        let mut is_undone = false;
        let places = || copied.into_iter().flatten();
        for &(index, op, _) in places().filter(|&&place| self.is_stated(place)) {
            Subview::copy(&mut module.funcs[index].ops[op]);
            is_undone = true;
        }
        let elided: Vec<Elided> = {
            let effects = Effects::of_module(&module, registry);
            let funcs = module.funcs.iter().enumerate();
            let of = |(index, func)| {
                let known = (&**registry, &effects);
                if copied.is_none() {
                    return elide(func, known, target);
                }
                let here = places().filter(|&&(at, ..)| at == index);
                let here: BTreeSet<(Op, Port)> = here.map(|&(_, op, port)| (op, port)).collect();
                elide_stored(func, known, target, here)
            };
            funcs.map(of).collect()
        };
        for (func, elided) in module.funcs.iter_mut().zip(&elided) {
            elided.apply(func);
        }
        if is_undone && let Some(diag) = check_target(&module, registry, target).into_iter().next()
        {
            return Err(Box::new(diag));
        }
        let memory = memory_of(&module, registry, &self.sizes)?;
        let excess = memory.iter().map(|of| excess(&of.buffers, self.limit));
        let excess = excess.fold(0, u128::saturating_add);
        let all = (0..module.funcs.len()).flat_map(|index| self.parts(&module, index));
        let saved = all.fold(0, |sum: u64, place| sum.saturating_add(self.bytes(place)));
        Ok(Trial {
            module,
            elided,
            memory,
            excess,
            saved,
        })
    }

    /// The parts of a function that are in place, in the order of its body.
    fn parts(&self, module: &Module, index: usize) -> Vec<PartPort> {
        let func = &module.funcs[index];
        let of = |&op: &Op| {
            let parts = settled(func, op, &self.cx.registry).into_iter();
            parts.map(move |part| (index, op, part.part))
        };
        func.body.iter().flat_map(of).collect()
    }

    /// Bytes read plus written if a part is copied.
    fn bytes(&self, (index, op, port): PartPort) -> u64 {
        let func = &self.plain.funcs[index];
        let ty = port
            .value(&func.ops[op])
            .and_then(|v| func.ty(v).as_tensor());
        let bytes = ty.map(|ty| bytes_of(&ty.without_layout(), &self.sizes).at(&self.sizes));
        bytes.unwrap_or(0).saturating_mul(2)
    }

    /// A set of parts whose copies keep the program within the limit, and the program; or the nearest found.
    fn search(&mut self, free: &Trial) -> (IndexSet<PartPort>, Option<Trial>) {
        let mut copied: IndexSet<PartPort> = IndexSet::new();
        let mut now: Option<Trial> = None;
        while now.as_ref().unwrap_or(free).excess != 0 {
            let base = now.as_ref().unwrap_or(free);
            let mut best: Option<(IndexSet<PartPort>, Trial)> = None;
            for set in self.sets(base) {
                if self.left == 0 {
                    break;
                }
                self.left -= 1;
                let with: IndexSet<PartPort> = copied.iter().copied().chain(set).collect();
                let Ok(trial) = self.attempt(Some(&with)) else {
                    continue;
                };
                let better = trial.excess < base.excess
                    && best
                        .as_ref()
                        .is_none_or(|(_, known)| by_gain(base, &trial, known) == Ordering::Greater);
                if better {
                    best = Some((with, trial));
                }
            }
            let Some((with, trial)) = best else { break };
            (copied, now) = (with, Some(trial));
        }
        if now.as_ref().is_some_and(|trial| trial.excess == 0) {
            let mut largest: Vec<PartPort> = copied.iter().copied().collect();
            largest.sort_by_key(|&place| Reverse(self.bytes(place)));
            for place in largest {
                if self.left == 0 {
                    break;
                }
                self.left -= 1;
                let without = copied.iter().copied().filter(|&p| p != place).collect();
                if let Ok(trial) = self.attempt(Some(&without))
                    && trial.excess == 0
                {
                    (copied, now) = (without, Some(trial));
                }
            }
        }
        (copied, now)
    }

    /// Sets of parts in the buffers that are alive at the highest peak: each part by itself, the parts that keep a
    /// buffer alive at that time, and all parts in a buffer.
    fn sets(&self, trial: &Trial) -> IndexSet<Vec<PartPort>> {
        let mut sets = IndexSet::new();
        let peaks = trial.memory.iter().map(|of| most_alive(&of.buffers));
        let highest = peaks
            .enumerate()
            .max_by_key(|&(index, (bytes, _))| (bytes, Reverse(index)));
        let Some((index, (_, peak))) = highest else {
            return sets;
        };
        let func = &trial.module.funcs[index];
        let memory = &trial.memory[index];
        let lives = Lives::of(func, memory);
        let parts = self.parts(&trial.module, index);
        for (number, buffer) in memory.buffers.iter().enumerate() {
            if peak < buffer.first || buffer.last < peak {
                continue;
            }
            let value = |&(_, op, port): &PartPort| port.value(&func.ops[op]);
            let inside =
                |place: &&PartPort| value(place).is_some_and(|v| memory.of[v] == Some(number));
            let all: Vec<PartPort> = parts.iter().filter(inside).copied().collect();
            let spans = |place: &&PartPort| {
                value(place).is_some_and(|v| lives.made[v] <= peak && peak <= lives.last[v])
            };
            let now: Vec<PartPort> = all.iter().filter(spans).copied().collect();
            sets.extend(all.iter().map(|&place| vec![place]));
            sets.extend([now, all].into_iter().filter(|set| 1 < set.len()));
        }
        sets
    }

    /// The error for a program that keeps more bytes alive than the limit.
    fn refused(&self, last: &Trial) -> Diagnostic {
        let funcs = last.module.funcs.iter().zip(&last.memory);
        let worst = funcs.max_by_key(|(_, memory)| most_alive(&memory.buffers).0);
        let Some((func, memory)) = worst else {
            return Diagnostic::error(codes::MAX_LIVE, "found no function");
        };
        let diag = above_limit(func, &memory.buffers, self.limit);
        let copied = "the search found no copy of a part that lowers this peak";
        diag.note(copied)
    }

    /// A remark on a copied part and the bytes that it would keep alive.
    fn remark(&self, place: PartPort, free: &Trial) -> Diagnostic {
        let (index, op, port) = place;
        let func = &self.plain.funcs[index];
        let memory = &free.memory[index];
        let value = port.value(&func.ops[op]);
        let name = value.map_or_else(String::new, |v| printed_name(func, v));
        let buffer = value.and_then(|v| memory.buffers.get(memory.of[v]?));
        let whole = buffer.map_or_else(String::new, |Buffer { value, bytes, .. }| {
            format!(
                "in place it shares the {bytes} bytes of {}, and then ",
                printed_name(func, *value)
            )
        });
        let (peak, _) = most_alive(&memory.buffers);
        let (bytes, limit) = (self.bytes(place), self.limit);
        let message = format!(
            "{name} is copied, {bytes} bytes read and written: {whole}{peak} bytes would be live at once, above the limit of {limit}"
        );
        let diag = Diagnostic::remark(codes::COPIED_FOR_MEMORY, message);
        diag.at(func.ops[op].span, "copied here")
    }
}

/// Compares two programs by the decrease of the excess for each byte copied, then by fewer bytes copied.
fn by_gain(base: &Trial, a: &Trial, b: &Trial) -> Ordering {
    let gain = |trial: &Trial| base.excess.saturating_sub(trial.excess);
    let cost = |trial: &Trial| u128::from(base.saved.saturating_sub(trial.saved));
    let (left, right) = (
        gain(a).saturating_mul(cost(b)),
        gain(b).saturating_mul(cost(a)),
    );
    left.cmp(&right).then(cost(b).cmp(&cost(a)))
}

/// Bytes above a limit, summed over the positions of a body.
fn excess(buffers: &[Buffer], limit: u64) -> u128 {
    let steps = steps(buffers);
    let ends = steps.iter().skip(1).map(|&(place, _)| place);
    let spans = steps.iter().zip(ends);
    spans.fold(0, |sum: u128, (&(place, bytes), end)| {
        let above = u128::from(bytes.saturating_sub(limit));
        sum.saturating_add(above.saturating_mul((end - place) as u128))
    })
}

/// The positions at which the values of a function are made and last read.
struct Lives {
    made: SideTable<Value, usize>,
    /// The last position at which the value, or a value in its bytes, is read.
    last: SideTable<Value, usize>,
}

impl Lives {
    fn of(func: &Func, memory: &Memory) -> Lives {
        let mut lives = Lives {
            made: SideTable::new(0),
            last: SideTable::new(0),
        };
        for &result in &func.results {
            lives.last[result] = func.body.len();
        }
        for (place, &op) in func.body.iter().enumerate().rev() {
            let data = &func.ops[op];
            let mut last = place;
            for &result in &data.results {
                lives.made[result] = place;
                lives.last[result] = lives.last[result].max(place);
                let shares = |&operand: &Value| {
                    memory.of[operand].is_some() && memory.of[operand] == memory.of[result]
                };
                if data.operands.iter().any(shares) {
                    last = last.max(lives.last[result]);
                }
            }
            for &operand in &data.operands {
                lives.last[operand] = lives.last[operand].max(last);
            }
        }
        lives
    }
}
