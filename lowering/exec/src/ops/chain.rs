//! Element-wise operations, one or several that follow one another, in one nest of loops: operands in any order and broadcast, what
//! lies between operations in a few lines of the cache.

use crate::access::Access;
use crate::error::StepError;
use crate::memory::In;
use crate::nest::Nest;
use crate::ops::Context;
use crate::ops::kernel::{Family, Kernel};
use bytemuck::{cast_slice, cast_slice_mut};
use optc_kernels::element::{Element, Kind, elements, elements_mut};
use optc_kernels::error::KernelError;
use optc_kernels::gemm::Scratch;
use optc_kernels::links::{
    ChainOp, From, MOST_CODES, MOST_OPERANDS, PART, Part, compute, narrowed,
};
use optc_kernels::loops::{Loop, Steps};
use optc_kernels::product::{self, PackElement};
use optc_kernels::requantize::RequantizeLoop;
use optc_kernels::team::{self, Share};
use optc_kernels::vectorized::{vectorized, vectorized_wide};
use optc_kernels::with_type;

/// Lines of an operand that lies across the result: so many are turned at once, a line of the cache from each.
const ACROSS: usize = 16;
/// Elements that are packed at once, if there are as many.
const WHOLE: usize = 16;
/// The longest lines that are short.
const SHORT: usize = 4 * WHOLE;
/// Elements from which on they are computed with vectors of 64 bytes, of which a loop has several at once.
const MANY: usize = 256;
/// Operations in order; the last one gives the result.
#[derive(Debug)]
pub(crate) struct Chain {
    links: Vec<ChainOp>,
    /// The types of the operands.
    operands: Vec<Kind>,
    /// Several, where an operand lies in pieces that do not lie alike.
    frames: Vec<Frame>,
}

type Loops = Nest<{ MOST_OPERANDS + 1 }>;

/// Some indices of the result.
#[derive(Debug)]
struct Frame {
    nest: Loops,
    block: Block,
}

impl Frame {
    /// True if an operand is one number, which is copied to its part once.
    fn is_still(&self, k: usize) -> bool {
        self.nest.is_still(k + 1)
    }
}

/// The unit of work: some steps of a loop around the innermost one, each with some of its elements.
#[derive(Clone, Copy, Debug)]
struct Block {
    /// The loop around: its extent, and what each step adds.
    around: (usize, [i64; MOST_OPERANDS + 1]),
    lines: usize,
    along: usize,
}

impl Block {
    /// Takes a loop out of a nest: the one along which an operand lies that lies across the result, or, where the innermost
    /// loop is short, the next one.
    fn of(nest: &mut Loops) -> Block {
        let (n, inner) = nest.inner;
        let across = nest.take(|steps| {
            let mut pairs = steps.iter().zip(&inner).skip(1);
            pairs.any(|(&around, &along)| around == 1 && 1 < along.abs())
        });
        if let Some(around) = across {
            let lines = ACROSS.min(around.0);
            let along = (PART / lines).min(n);
            return Block {
                around,
                lines,
                along,
            };
        }
        let next = match n <= PART / 2 {
            true => nest.take(|_| true),
            false => None,
        };
        let around = next.unwrap_or((1, [0; MOST_OPERANDS + 1]));
        Block {
            lines: (PART / n.clamp(1, PART)).min(around.0),
            along: PART.min(n),
            around,
        }
    }
}

impl Chain {
    /// The operations, in order.
    pub(crate) fn links(&self) -> &[ChainOp] {
        &self.links
    }

    pub(crate) fn of(
        target: &Access,
        operands: &[(Access, Kind)],
        links: Vec<ChainOp>,
    ) -> Option<Chain> {
        if MOST_OPERANDS < operands.len() || links.is_empty() || MOST_CODES < links.len() {
            return None;
        }
        let none = Access::constant_zero(&target.shape());
        let all: [&Access; MOST_OPERANDS + 1] = std::array::from_fn(|k| match k {
            0 => target,
            _ => operands.get(k - 1).map_or(&none, |(access, _)| access),
        });
        let nests = match all.iter().all(|access| access.is_sum()) {
            true => vec![Nest::of(all)?],
            false => Nest::boxes(all)?,
        };
        let framed = |mut nest: Loops| {
            let block = Block::of(&mut nest);
            Frame { nest, block }
        };
        Some(Chain {
            links,
            operands: operands.iter().map(|(_, kind)| *kind).collect(),
            frames: nests.into_iter().map(framed).collect(),
        })
    }
}

/// The location that an operand is read from.
#[derive(Clone, Copy)]
enum Source<'a> {
    Beside(&'a [u8]),
    /// In the bytes of the result, where that has the same element.
    Same,
    /// Elsewhere in the buffer that the result lies in, which it does not write.
    Among,
}

/// One run's memory.
struct Work<'a> {
    frame: &'a Frame,
    sources: &'a [Source<'a>],
    /// Elements of operands that do not lie side by side, then of results.
    parts: Vec<Part>,
    /// The loop of all operations together, and the operand that it runs over.
    rescale: Option<(usize, RequantizeLoop)>,
}

impl Kernel for Chain {
    fn name(&self) -> &'static str {
        if self.links.len() == 1 {
            "elementwise"
        } else {
            "chain"
        }
    }

    fn family(&self) -> Family {
        if self.links.len() == 1 {
            Family::Elementwise
        } else {
            Family::Chain
        }
    }

    fn run(
        &self,
        _: usize,
        ins: &[In<'_>],
        out: &mut [u8],
        cx: &mut Context<'_>,
    ) -> Result<(), StepError> {
        let mut sources = Vec::with_capacity(ins.len());
        for operand in ins {
            sources.push(match operand {
                In::Bytes(bytes) => Source::Beside(bytes),
                In::Inplace => Source::Same,
                In::Aliased => Source::Among,
            });
        }
        if sources.len() != self.operands.len() {
            return Err(StepError::OperandCount);
        }
        let mut frames = self.frames.iter();
        frames.try_for_each(|frame| self.framed(frame, &sources, out, cx))
    }

    fn scratch(&self) -> Scratch {
        let parts = self.operands.len() + self.links.len();
        [0, 0, 0, parts * size_of::<Part>()]
    }
}

impl Chain {
    /// The elements of a frame.
    fn framed(
        &self,
        frame: &Frame,
        sources: &[Source<'_>],
        out: &mut [u8],
        cx: &mut Context<'_>,
    ) -> Result<(), StepError> {
        let Frame { nest, block } = frame;
        let size = self.target().size();
        let inside = |k: usize| {
            let own = self.operands[k].size();
            match sources[k] {
                Source::Beside(source) => nest.fits(k + 1, source.len() / own),
                Source::Among => nest.fits(k + 1, out.len() / own),
                Source::Same => own == size,
            }
        };
        if !nest.fits(0, out.len() / size) || !(0..sources.len()).all(inside) {
            return Err(KernelError::OutOfBounds.into());
        }
        // Other bytes of the result's buffer may belong to the part of another thread.
        let apart = !sources.iter().any(|s| matches!(s, Source::Among));
        let count = nest.count().saturating_mul(block.around.0 as u64);
        let threads = match apart {
            true => cx
                .team
                .worth(count, team::ELEMENTS / self.links.len() as u64),
            false => 1,
        };
        match frame.shared(threads) {
            None => self.some(frame, (nest, block), sources, out),
            Some((number, shares)) => {
                let loops = nest.loops().len();
                cx.team.share_bytes(out, size, &shares, |share, out| {
                    let (mut nest, mut block) = (nest.clone(), *block);
                    let steps = share.units.clone();
                    if number < loops {
                        nest = nest.part(number, steps, share.places.start);
                    } else {
                        block.around.0 = steps.len();
                        let add = block.around.1.map(|step| step * steps.start as i64);
                        nest = nest.moved(add, share.places.start);
                    }
                    self.some(frame, (&nest, &block), sources, out)
                })
            }
        }
    }
}

impl Frame {
    /// The loop that threads share, the one around the innermost being the last, and the steps of each; blocks stay as they are.
    fn shared(&self, threads: usize) -> Option<(usize, Vec<Share>)> {
        if threads < 2 {
            return None;
        }
        let mut loops: Vec<_> = self.nest.loops().into_iter().map(|l| (l, 1)).collect();
        loops.last_mut()?.1 = self.block.along;
        let (extent, steps) = self.block.around;
        let around = Loop {
            extent,
            steps: Steps::Strides(steps),
        };
        loops.push((around, self.block.lines));
        team::along(self.nest.base(0), &loops, threads)
    }
}

impl Chain {
    /// The loops of a nest, which is that of a frame or a part of it.
    fn some(
        &self,
        frame: &Frame,
        (nest, block): (&Loops, &Block),
        sources: &[Source<'_>],
        out: &mut [u8],
    ) -> Result<(), StepError> {
        let mut parts = vec![[0u32; PART]; self.operands.len() + self.links.len()];
        for (k, source) in sources
            .iter()
            .enumerate()
            .filter(|(k, _)| frame.is_still(*k))
        {
            if let Source::Beside(source) = source {
                let at = frame.nest.base(k + 1) as usize;
                with_type!(self.operands[k], E => {
                    let part: &mut [<E as Element>::Number] = cast_slice_mut(&mut parts[k]);
                    part.fill(elements::<E>(source)?[at].read());
                });
            }
        }
        let number = |k: usize| match sources[k] {
            Source::Beside(_) if frame.is_still(k) => Some(parts[k][0]),
            _ => None,
        };
        let rescale = RequantizeLoop::of(&self.links, |k| self.operands[k], number);
        let rescale = rescale.filter(|(_, rescale)| rescale.scales());
        let mut work = Work {
            frame,
            sources,
            parts,
            rescale,
        };
        let mut done = Ok(());
        // Inside of the walk, which is a function of its own.
        nest.each(|at| {
            vectorized(
                #[inline(always)]
                || {
                    let found = self.inner((nest, block), &mut work, out, at);
                    done = std::mem::replace(&mut done, Ok(())).and(found);
                },
            );
        });
        done
    }
}

impl Chain {
    /// The type of the result.
    fn target(&self) -> Kind {
        self.links.last().map_or(Kind::F32, |link| link.kind)
    }

    fn kind(&self, from: From) -> Kind {
        match from {
            From::Operand(k) => self.operands[k],
            From::Code(i) => self.links[i].kind,
        }
    }

    /// The two innermost loops, block by block.
    #[inline(always)]
    fn inner(
        &self,
        (nest, block): (&Loops, &Block),
        work: &mut Work<'_>,
        out: &mut [u8],
        at: [i64; MOST_OPERANDS + 1],
    ) -> Result<(), StepError> {
        let (n, steps) = nest.inner;
        let (m, around) = block.around;
        for line in (0..m).step_by(block.lines) {
            let lines = block.lines.min(m - line);
            for first in (0..n).step_by(block.along) {
                let count = block.along.min(n - first);
                let lattice = |k: usize| Lattice {
                    from: at[k] + around[k] * line as i64 + steps[k] * first as i64,
                    lines: (lines, around[k]),
                    along: (count, steps[k]),
                };
                self.part(work, out, lattice)?;
            }
        }
        Ok(())
    }

    /// One block, of which `lattice` says where each value has it: the result, then the operands.
    #[inline(always)]
    fn part(
        &self,
        work: &mut Work<'_>,
        out: &mut [u8],
        lattice: impl Fn(usize) -> Lattice,
    ) -> Result<(), StepError> {
        let target = lattice(0);
        let count = target.lines.0 * target.along.0;
        let operands = self.operands.len();
        let in_place = |k: usize| {
            let whole = self.operands[k].size() == size_of::<u32>();
            whole && lattice(k + 1).is_line()
        };
        // The elements of an operand that are read where they lie.
        let sources = work.sources;
        let stays = |k: usize| -> Result<Option<&[u32]>, StepError> {
            let Source::Beside(source) = sources[k] else {
                return Ok(None);
            };
            if !in_place(k) {
                return Ok(None);
            }
            let from = lattice(k + 1).from as usize;
            let words: &[u32] = bytemuck::try_cast_slice(source)?;
            Ok(Some(&words[from..from + count]))
        };
        for k in 0..operands {
            let own = lattice(k + 1);
            // The overwritten operand has the elements of the result.
            let (source, own) = match work.sources[k] {
                Source::Beside(_) if in_place(k) || work.frame.is_still(k) => continue,
                Source::Beside(source) => (source, own),
                Source::Among => (&*out, own),
                Source::Same => (&*out, lattice(0)),
            };
            let to = &mut work.parts[k][..count];
            with_type!(self.operands[k], E => own.fetch::<E>(elements(source)?, cast_slice_mut(to)));
        }
        if let Some((k, rescale)) = work.rescale {
            let (before, to) = work.parts.split_at_mut(operands);
            let from = match stays(k)? {
                Some(words) => words,
                None => &before[k][..count],
            };
            let places = target.from as usize..target.from as usize + count;
            match self.target() {
                Kind::I8 if target.is_line() => {
                    rescale.run((from, &mut elements_mut::<i8>(out)?[places]));
                }
                Kind::U8 if target.is_line() => {
                    rescale.run((from, &mut elements_mut::<u8>(out)?[places]));
                }
                kind => {
                    let Some(to) = to.last_mut().map(|to| &mut to[..count]) else {
                        return Ok(());
                    };
                    to.copy_from_slice(from);
                    rescale.run(&mut *to);
                    with_type!(kind, E => target.store::<E>(cast_slice(to), elements_mut(out)?));
                }
            }
            return Ok(());
        }
        let last = self.links.len() - 1;
        let written = self.target().size() == size_of::<u32>() && target.is_line();
        for (number, link) in self.links.iter().enumerate() {
            let (before, rest) = work.parts.split_at_mut(operands + number);
            let part = |from: From| -> Result<&[u32], StepError> {
                Ok(match from {
                    From::Code(i) => &before[operands + i][..count],
                    From::Operand(k) => match stays(k)? {
                        Some(words) => words,
                        None => &before[k][..count],
                    },
                })
            };
            let (a, b) = (part(link.from[0])?, part(link.from[1])?);
            let to = match number == last && written {
                true => {
                    let to = target.from as usize;
                    let words: &mut [u32] = bytemuck::try_cast_slice_mut(out)?;
                    &mut words[to..to + count]
                }
                false => &mut rest[0][..count],
            };
            let kinds = link.from.map(|from| self.kind(from));
            if count < MANY {
                compute(link, kinds, a, b, to);
            } else {
                vectorized_wide(
                    #[inline(always)]
                    || compute(link, kinds, a, b, to),
                );
            }
            if number != last {
                with_type!(link.kind, E => narrowed::<E>(cast_slice_mut(to)));
            }
        }
        if !written {
            let found = work.parts.last().map_or(&[][..], |part| &part[..count]);
            with_type!(self.target(), E => target.store::<E>(cast_slice(found), elements_mut(out)?));
        }
        Ok(())
    }
}

/// The location of a block of a value: counts and strides of lines and elements.
#[derive(Clone, Copy, Debug)]
struct Lattice {
    from: i64,
    lines: (usize, i64),
    along: (usize, i64),
}

impl Lattice {
    /// Returns whether all elements are contiguous, in order.
    #[inline(always)]
    fn is_line(&self) -> bool {
        let (lines, around) = self.lines;
        let (count, step) = self.along;
        step == 1 && (lines == 1 || around == count as i64)
    }

    #[inline(always)]
    fn line(&self, line: usize) -> i64 {
        self.from + self.lines.1 * line as i64
    }

    /// Packs the elements, as numbers.
    #[inline(always)]
    fn fetch<E: PackElement>(&self, source: &[E], to: &mut [E::Number]) {
        let ((lines, around), (count, step)) = (self.lines, self.along);
        if around == 1 && lines % 8 == 0 && 1 < step {
            let mut starts = [0; PART / 8];
            for (i, start) in starts.iter_mut().enumerate() {
                *start = self.from + step * i as i64;
            }
            let mut cells = [E::zeroed(); PART];
            let cells = &mut cells[..to.len()];
            product::transpose_in(source, &starts[..count], cells);
            return to
                .iter_mut()
                .zip(&*cells)
                .for_each(|(to, x)| *to = x.read());
        }
        if self.is_line() {
            let source = &source[self.from as usize..self.from as usize + to.len()];
            for (to, x) in to.iter_mut().zip(source) {
                *to = x.read();
            }
            return;
        }
        let distinct = if around == 0 { 1 } else { lines };
        let long = match step {
            0 | 1 if count <= SHORT => self.short::<E>(source, to, distinct),
            _ => 0,
        };
        for line in long..distinct {
            let from = self.line(line);
            let to = &mut to[line * count..(line + 1) * count];
            match step {
                0 => to.fill(source[from as usize].read()),
                1 => {
                    let source = &source[from as usize..from as usize + count];
                    to.iter_mut().zip(source).for_each(|(to, x)| *to = x.read());
                }
                _ => {
                    for (i, to) in to.iter_mut().enumerate() {
                        *to = source[(from + step * i as i64) as usize].read();
                    }
                }
            }
        }
        if around == 0 {
            let (first, rest) = to.split_at_mut(count);
            for to in rest.chunks_exact_mut(count) {
                to.copy_from_slice(first);
            }
        }
    }

    /// The same for the first of some short lines, each of which is written some numbers too long: the next one writes over them. Gives
    /// how many these are.
    #[inline(always)]
    fn short<E: PackElement>(&self, source: &[E], to: &mut [E::Number], lines: usize) -> usize {
        let (count, step) = self.along;
        let most = to.len().saturating_sub(WHOLE) / count;
        for line in 0..lines.min(most) {
            let from = self.line(line) as usize;
            for part in (0..count).step_by(WHOLE) {
                let at = line * count + part;
                let to = &mut to[at..at + WHOLE];
                if step == 0 {
                    to.fill(source[from].read());
                } else if let Some(from) = source.get(from + part..from + part + WHOLE) {
                    for (to, x) in to.iter_mut().zip(from) {
                        *to = x.read();
                    }
                } else {
                    return line;
                }
            }
        }
        lines.min(most)
    }

    /// Brings the elements to their places.
    #[inline(always)]
    fn store<E: PackElement>(&self, found: &[E::Number], out: &mut [E]) {
        let (count, step) = self.along;
        for (line, found) in found.chunks_exact(count).enumerate() {
            let to = self.line(line);
            if step == 1 {
                let out = &mut out[to as usize..to as usize + count];
                out.iter_mut()
                    .zip(found)
                    .for_each(|(to, &x)| *to = E::of(x));
                continue;
            }
            for (i, x) in found.iter().enumerate() {
                out[(to + step * i as i64) as usize] = E::of(*x);
            }
        }
    }
}
