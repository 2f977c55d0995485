//! Element-wise operations, one or several that follow one another, in one nest of loops: operands in any order and broadcast, what
//! lies between operations in a few lines of the cache.

use crate::access::Access;
use crate::error::StepError;
use crate::memory::In;
use crate::nest::Nest;
use crate::ops::kernel::{Call, Family, Kernel};
use bytemuck::{cast_slice, cast_slice_mut};
use optc_kernels::element::{Element, Kind, elements, elements_mut};
use optc_kernels::gemm::Scratch;
use optc_kernels::links::{
    ChainOp, From, MOST_CODES, MOST_OPERANDS, PART, Part, compute, narrowed,
};
use optc_kernels::loops::{Loop, Steps};
use optc_kernels::product::{self, PackElement};
use optc_kernels::requantize::RequantizeLoop;
use optc_kernels::team::{self, Share, Team};
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

/// One run's memory.
struct Work<'a> {
    frame: &'a Frame,
    sources: &'a [In<'a>],
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

    fn run(&self, Call { ins, out, cx, .. }: Call<'_>) -> Result<(), StepError> {
        if ins.len() != self.operands.len() {
            return Err(StepError::OperandCount);
        }
        let mut frames = self.frames.iter();
        frames.try_for_each(|frame| self.framed(frame, ins, out, cx.team))
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
        sources: &[In<'_>],
        out: &mut [u8],
        team: &Team,
    ) -> Result<(), StepError> {
        let Frame { nest, block } = frame;
        let size = self.target().size();
        let kind = |k: usize| k.checked_sub(1).map_or(self.target(), |k| self.operands[k]);
        nest.check(sources, out, |k| kind(k).size())?;
        // Other bytes of the result's buffer may belong to the part of another thread.
        let apart = !sources.iter().any(|s| matches!(s, In::Aliased));
        let count = nest.count().saturating_mul(block.around.0 as u64);
        let threads = match apart {
            true => team.worth(count, team::ELEMENTS / self.links.len() as u64),
            false => 1,
        };
        match frame.shared(threads) {
            None => self.some(frame, (nest, block), sources, out),
            Some((number, shares)) => {
                let loops = nest.loops().len();
                team.share_bytes(out, size, &shares, |share, out| {
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
        sources: &[In<'_>],
        out: &mut [u8],
    ) -> Result<(), StepError> {
        let mut parts = vec![[0u32; PART]; self.operands.len() + self.links.len()];
        for (k, source) in sources
            .iter()
            .enumerate()
            .filter(|(k, _)| frame.is_still(*k))
        {
            if let In::Bytes(source) = source {
                let at = frame.nest.base(k + 1) as usize;
                with_type!(self.operands[k], E => {
                    let part: &mut [<E as Element>::Number] = cast_slice_mut(&mut parts[k]);
                    part.fill(elements::<E>(source)?[at].read());
                });
            }
        }
        let number = |k: usize| match sources[k] {
            In::Bytes(_) if frame.is_still(k) => Some(parts[k][0]),
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
                let elements = Elements {
                    chain: self,
                    frame: work.frame,
                    sources: work.sources,
                    target: lattice(0),
                    count: lines * count,
                    lattice,
                };
                elements.fetch(&mut work.parts, out)?;
                match &work.rescale {
                    Some(rescale) => elements.rescale(rescale, &mut work.parts, out)?,
                    None => elements.compute(&mut work.parts, out)?,
                }
            }
        }
        Ok(())
    }
}

/// The elements of one block.
struct Elements<'a, F> {
    chain: &'a Chain,
    frame: &'a Frame,
    sources: &'a [In<'a>],
    /// The location of the result.
    target: Lattice,
    /// The location of each value: the result, then the operands.
    lattice: F,
    count: usize,
}

impl<F: Fn(usize) -> Lattice> Elements<'_, F> {
    /// Returns whether an operand beside the result is read in its buffer.
    #[inline(always)]
    fn is_in_place(&self, k: usize) -> bool {
        let whole = self.chain.operands[k].size() == size_of::<u32>();
        whole && (self.lattice)(k + 1).is_line()
    }

    /// The numbers of an operand, in its buffer or in the part that [`fetch`](Elements::fetch) packed.
    #[inline(always)]
    fn operand<'b>(&'b self, k: usize, parts: &'b [Part]) -> Result<&'b [u32], StepError> {
        match self.sources[k] {
            In::Bytes(source) if self.is_in_place(k) => {
                let from = (self.lattice)(k + 1).from as usize;
                let words: &[u32] = bytemuck::try_cast_slice(source)?;
                Ok(&words[from..from + self.count])
            }
            _ => Ok(&parts[k][..self.count]),
        }
    }

    /// Packs the operands that are not read in their buffers.
    #[inline(always)]
    fn fetch(&self, parts: &mut [Part], out: &[u8]) -> Result<(), StepError> {
        for (k, part) in parts.iter_mut().enumerate().take(self.sources.len()) {
            let own = (self.lattice)(k + 1);
            // The overwritten operand has the elements of the result.
            let (source, own) = match self.sources[k] {
                In::Bytes(_) if self.is_in_place(k) || self.frame.is_still(k) => continue,
                In::Bytes(source) => (source, own),
                In::Aliased => (out, own),
                In::Inplace => (out, self.target),
            };
            let to = &mut part[..self.count];
            with_type!(self.chain.operands[k], E => own.fetch::<E>(elements(source)?, cast_slice_mut(to)));
        }
        Ok(())
    }

    /// Computes all operations as one loop over operand `k`.
    #[inline(always)]
    fn rescale(
        &self,
        (k, rescale): &(usize, RequantizeLoop),
        parts: &mut [Part],
        out: &mut [u8],
    ) -> Result<(), StepError> {
        let (before, to) = parts.split_at_mut(self.sources.len());
        let from = self.operand(*k, before)?;
        let first = self.target.from as usize;
        let places = first..first + self.count;
        match self.chain.target() {
            Kind::I8 if self.target.is_line() => {
                rescale.run((from, &mut elements_mut::<i8>(out)?[places]));
            }
            Kind::U8 if self.target.is_line() => {
                rescale.run((from, &mut elements_mut::<u8>(out)?[places]));
            }
            kind => {
                let Some(to) = to.last_mut().map(|to| &mut to[..self.count]) else {
                    return Ok(());
                };
                to.copy_from_slice(from);
                rescale.run(&mut *to);
                with_type!(kind, E => self.target.store::<E>(cast_slice(to), elements_mut(out)?));
            }
        }
        Ok(())
    }

    /// Computes the operations one after another.
    #[inline(always)]
    fn compute(&self, parts: &mut [Part], out: &mut [u8]) -> Result<(), StepError> {
        let (links, operands, target) = (&self.chain.links, self.sources.len(), self.target);
        let last = links.len() - 1;
        let kind = self.chain.target();
        let written = kind.size() == size_of::<u32>() && target.is_line();
        for (number, link) in links.iter().enumerate() {
            let (before, rest) = parts.split_at_mut(operands + number);
            let part = |from: From| match from {
                From::Code(i) => Ok(&before[operands + i][..self.count]),
                From::Operand(k) => self.operand(k, before),
            };
            let (a, b) = (part(link.from[0])?, part(link.from[1])?);
            let to = match number == last && written {
                true => {
                    let to = target.from as usize;
                    let words: &mut [u32] = bytemuck::try_cast_slice_mut(out)?;
                    &mut words[to..to + self.count]
                }
                false => &mut rest[0][..self.count],
            };
            let kinds = link.from.map(|from| self.chain.kind(from));
            if self.count < MANY {
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
            let found = parts.last().map_or(&[][..], |part| &part[..self.count]);
            with_type!(kind, E => target.store::<E>(cast_slice(found), elements_mut(out)?));
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
