//! Element-wise operations, one or several that follow one another, in one nest of loops: operands in any order and broadcast, what
//! lies between operations in a few lines of the cache.
//!
//! Elements are computed with as `f32` or as `i32`, whatever their type is; the result of each operation is rounded, or wraps around, as
//! its type says.

use crate::access::Access;
use crate::element::{Element, Kind, elements, elements_mut};
use crate::kernels::product::{self, Cell};
use crate::kernels::vectorized;
use crate::memory::In;
use crate::nest::{Loop, Nest, Steps};
use crate::ops::kernel::{Kernel, Scratch};
use crate::ops::math::{erf, exp, greater, lesser, sigmoid, tanh};
use crate::team::{self, Context, Share};
use bytemuck::{cast_slice, cast_slice_mut};
use half::{bf16, f16};

/// Elements that an operation is done on at once.
const PART: usize = 512;
/// Lines of an operand that lies across the result: so many are turned at once, a line of the cache from each.
const ACROSS: usize = 16;
/// The most operands of a chain.
pub(crate) const MOST_OPERANDS: usize = 7;
/// The most operations of a chain.
pub(crate) const MOST_CODES: usize = 24;

/// What an operation does with its elements.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) enum Code {
    Same,
    Neg,
    Abs,
    Exp,
    Log,
    Sqrt,
    Rsqrt,
    Reciprocal,
    Erf,
    Tanh,
    Sigmoid,
    Silu,
    Relu,
    Sin,
    Cos,
    Floor,
    Ceil,
    HardSwish,
    Gelu,
    GeluTanh,
    /// At least the one, at most the other.
    Clamp(f32, f32),
    LeakyRelu(f32),
    Elu(f32),
    HardSigmoid(f32, f32),
    Add,
    Sub,
    Mul,
    Div,
    Pow,
    Max,
    Min,
    Prelu,
    /// A number in another type.
    Cast,
    /// An integer times a scale.
    Dequantize,
    /// The nearest integer, ties to even, as great as its type has it; and the same plus an integer.
    Round,
    RoundPlus,
}

/// Where the elements of an operation come from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum From {
    /// An operand of the chain.
    Operand(usize),
    /// The result of an operation before.
    Code(usize),
}

/// An operation of a chain; one of one operand has it twice.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Link {
    pub(crate) code: Code,
    /// The type of its result.
    pub(crate) kind: Kind,
    pub(crate) from: [From; 2],
}

/// Operations in order; the last one gives the result.
#[derive(Debug)]
pub(crate) struct Chain {
    links: Vec<Link>,
    /// The types of the operands.
    operands: Vec<Kind>,
    nest: Nest<{ MOST_OPERANDS + 1 }>,
    block: Block,
}

/// What is done at once: some steps of a loop around the innermost one, each with some of its elements.
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
    fn of(nest: &mut Nest<{ MOST_OPERANDS + 1 }>) -> Block {
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
    pub(crate) fn of(
        target: &Access,
        operands: &[(Access, Kind)],
        links: Vec<Link>,
    ) -> Option<Chain> {
        if MOST_OPERANDS < operands.len() || links.is_empty() || MOST_CODES < links.len() {
            return None;
        }
        let none = Access::none(&target.shape());
        let all: [&Access; MOST_OPERANDS + 1] = std::array::from_fn(|k| match k {
            0 => target,
            _ => operands.get(k - 1).map_or(&none, |(access, _)| access),
        });
        let mut nest = Nest::of(all)?;
        let block = Block::of(&mut nest);
        Some(Chain {
            links,
            operands: operands.iter().map(|(_, kind)| *kind).collect(),
            nest,
            block,
        })
    }
}

/// Where an operand is read.
#[derive(Clone, Copy)]
enum Source<'a> {
    Beside(&'a [u8]),
    /// In the bytes of the result, where that has the same element.
    Same,
    /// Elsewhere in the buffer that the result lies in, which it does not write.
    Among,
}

/// Numbers of `f32` or `i32`.
type Part = [u32; PART];

/// One run's memory.
struct Work<'a> {
    sources: &'a [Source<'a>],
    /// Elements of operands that do not lie side by side, then of results.
    parts: Vec<Part>,
}

/// Does something with the type of elements of a kind.
macro_rules! with_type {
    ($kind:expr, $element:ident => $work:expr) => {
        match $kind {
            Kind::F32 => {
                type $element = f32;
                $work
            }
            Kind::F16 => {
                type $element = f16;
                $work
            }
            Kind::BF16 => {
                type $element = bf16;
                $work
            }
            Kind::I8 => {
                type $element = i8;
                $work
            }
            Kind::U8 => {
                type $element = u8;
                $work
            }
            Kind::I32 => {
                type $element = i32;
                $work
            }
        }
    };
}

impl Kernel for Chain {
    fn name(&self) -> &'static str {
        if self.links.len() == 1 {
            "elementwise"
        } else {
            "chain"
        }
    }

    fn run(
        &self,
        _: usize,
        ins: &[In<'_>],
        out: &mut [u8],
        cx: &mut Context<'_>,
    ) -> Result<(), String> {
        let mut sources = Vec::with_capacity(ins.len());
        for operand in ins {
            sources.push(match operand {
                In::Bytes(bytes) => Source::Beside(bytes),
                In::Same => Source::Same,
                In::Among => Source::Among,
            });
        }
        if sources.len() != self.operands.len() {
            return Err("it has another number of operands".to_owned());
        }
        let size = self.target().size();
        let inside = |k: usize| {
            let own = self.operands[k].size();
            match sources[k] {
                Source::Beside(source) => self.nest.fits(k + 1, source.len() / own),
                Source::Among => self.nest.fits(k + 1, out.len() / own),
                Source::Same => own == size,
            }
        };
        if !self.nest.fits(0, out.len() / size) || !(0..sources.len()).all(inside) {
            return Err("an element lies outside of its buffer".to_owned());
        }
        // What lies elsewhere in the buffer of the result may be in the part of another thread.
        let apart = !sources.iter().any(|s| matches!(s, Source::Among));
        let count = self.nest.count().saturating_mul(self.block.around.0 as u64);
        let threads = match apart {
            true => cx
                .team
                .worth(count, team::ELEMENTS / self.links.len() as u64),
            false => 1,
        };
        match self.shared(threads) {
            None => self.some(&self.nest, &self.block, &sources, out),
            Some((number, shares)) => {
                let loops = self.nest.loops().len();
                cx.team.share_bytes(out, size, &shares, |share, out| {
                    let (mut nest, mut block) = (self.nest.clone(), self.block);
                    let steps = share.units.clone();
                    if number < loops {
                        nest = nest.part(number, steps, share.places.start);
                    } else {
                        block.around.0 = steps.len();
                        let add = block.around.1.map(|step| step * steps.start as i64);
                        nest = nest.moved(add, share.places.start);
                    }
                    self.some(&nest, &block, &sources, out)
                })
            }
        }
    }

    fn scratch(&self) -> Scratch {
        let parts = self.operands.len() + self.links.len();
        [0, 0, 0, parts * size_of::<Part>()]
    }
}

impl Chain {
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

    /// The loops of a nest, which is this one or a part of it.
    fn some(
        &self,
        nest: &Nest<{ MOST_OPERANDS + 1 }>,
        block: &Block,
        sources: &[Source<'_>],
        out: &mut [u8],
    ) -> Result<(), String> {
        let mut parts = vec![[0u32; PART]; self.operands.len() + self.links.len()];
        for (k, source) in sources
            .iter()
            .enumerate()
            .filter(|(k, _)| self.is_still(*k))
        {
            if let Source::Beside(source) = source {
                let at = self.nest.base(k + 1) as usize;
                with_type!(self.operands[k], E => {
                    let part: &mut [<E as Element>::Number] = cast_slice_mut(&mut parts[k]);
                    part.fill(elements::<E>(source)?[at].read());
                });
            }
        }
        let mut work = Work { sources, parts };
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

    /// Whether an operand is one number, which is brought to its part once.
    fn is_still(&self, k: usize) -> bool {
        self.nest.is_still(k + 1)
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
        (nest, block): (&Nest<{ MOST_OPERANDS + 1 }>, &Block),
        work: &mut Work<'_>,
        out: &mut [u8],
        at: [i64; MOST_OPERANDS + 1],
    ) -> Result<(), String> {
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
    ) -> Result<(), String> {
        let target = lattice(0);
        let count = target.lines.0 * target.along.0;
        let operands = self.operands.len();
        let in_place = |k: usize| {
            let whole = self.operands[k].size() == size_of::<u32>();
            whole && lattice(k + 1).is_line()
        };
        for k in 0..operands {
            let own = lattice(k + 1);
            // What is written over has the elements of the result.
            let (source, own) = match work.sources[k] {
                Source::Beside(_) if in_place(k) || self.is_still(k) => continue,
                Source::Beside(source) => (source, own),
                Source::Among => (&*out, own),
                Source::Same => (&*out, lattice(0)),
            };
            let to = &mut work.parts[k][..count];
            with_type!(self.operands[k], E => own.fetch::<E>(elements(source)?, cast_slice_mut(to)));
        }
        let last = self.links.len() - 1;
        let written = self.target().size() == size_of::<u32>() && target.is_line();
        for (number, link) in self.links.iter().enumerate() {
            let (before, rest) = work.parts.split_at_mut(operands + number);
            let part = |from: From| -> Result<&[u32], String> {
                Ok(match from {
                    From::Code(i) => &before[operands + i][..count],
                    From::Operand(k) => match work.sources[k] {
                        Source::Beside(source) if in_place(k) => {
                            let from = lattice(k + 1).from as usize;
                            let words: &[u32] =
                                bytemuck::try_cast_slice(source).map_err(|e| e.to_string())?;
                            &words[from..from + count]
                        }
                        _ => &before[k][..count],
                    },
                })
            };
            let (a, b) = (part(link.from[0])?, part(link.from[1])?);
            let to = match number == last && written {
                true => {
                    let to = target.from as usize;
                    let words: &mut [u32] =
                        bytemuck::try_cast_slice_mut(out).map_err(|e| e.to_string())?;
                    &mut words[to..to + count]
                }
                false => &mut rest[0][..count],
            };
            let kinds = link.from.map(|from| self.kind(from));
            compute(link, kinds, a, b, to);
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

/// Numbers as what their type has of them.
#[inline(always)]
fn narrowed<E: Element>(part: &mut [E::Number]) {
    if size_of::<E>() != size_of::<E::Number>() {
        part.iter_mut().for_each(|x| *x = E::of(*x).read());
    }
}

/// One operation on numbers, from types to a type.
#[inline(always)]
fn compute(link: &Link, from: [Kind; 2], a: &[u32], b: &[u32], to: &mut [u32]) {
    match (from[0].is_float(), link.kind.is_float()) {
        (true, true) => apply(link.code, cast_slice(a), cast_slice(b), cast_slice_mut(to)),
        (false, false) => whole(link.code, cast_slice(a), cast_slice(b), cast_slice_mut(to)),
        (false, true) => {
            let (a, to): (&[i32], &mut [f32]) = (cast_slice(a), cast_slice_mut(to));
            if link.code == Code::Dequantize {
                dequantized(a, cast_slice(b), to);
            } else {
                to.iter_mut().zip(a).for_each(|(to, &a)| *to = a as f32);
            }
        }
        (true, false) => {
            let (a, to): (&[f32], &mut [i32]) = (cast_slice(a), cast_slice_mut(to));
            let (low, high) = match link.kind {
                Kind::U8 => (0.0, 255.0),
                _ => (-128.0, 127.0),
            };
            match (link.code, link.kind) {
                (Code::RoundPlus, _) => {
                    let pairs = a.iter().zip(cast_slice::<u32, i32>(b));
                    let all = to.iter_mut().zip(pairs);
                    all.for_each(|(to, (&a, &b))| *to = few(nearest(a) + b as f32, low, high));
                }
                (Code::Round, _) => {
                    let all = to.iter_mut().zip(a);
                    // Bounds that are whole numbers are the same before rounding.
                    all.for_each(|(to, &a)| *to = few(a, low, high));
                }
                (_, Kind::I32) => to.iter_mut().zip(a).for_each(|(to, &a)| *to = a as i32),
                _ => {
                    let all = to.iter_mut().zip(a);
                    all.for_each(|(to, a)| *to = few(a.trunc(), low, high));
                }
            }
        }
    }
}

/// Integers by scales, rounded once: what `f32` has exactly is multiplied as such.
#[inline(always)]
fn dequantized(a: &[i32], b: &[f32], to: &mut [f32]) {
    let bits = a.iter().fold(0, |bits, &a| bits | a ^ (a >> 31));
    let all = to.iter_mut().zip(a.iter().zip(b));
    if bits < 1 << 24 {
        return all.for_each(|(to, (&a, b))| *to = a as f32 * b);
    }
    all.for_each(|(to, (&a, &b))| *to = (f64::from(a) * f64::from(b)) as f32);
}

/// What rounds a number of less than 2^22 to a whole one, ties to even, when it is added: the whole number is in the lowest bits.
const ROUND: f32 = 12_582_912.0;

/// The nearest whole number, if it is one of some bits; 0 of what is no number.
#[inline(always)]
fn nearest(x: f32) -> f32 {
    let x = if x.is_nan() { 0.0 } else { x };
    held(x, -2_097_152.0, 2_097_152.0) + ROUND - ROUND
}

/// The nearest integer of 8 bits, ties to even; 0 of what is no number.
#[inline(always)]
fn few(x: f32, low: f32, high: f32) -> i32 {
    let x = if x.is_nan() { 0.0 } else { x };
    let bits = (held(x, low, high) + ROUND).to_bits();
    bits.cast_signed() - ROUND.to_bits().cast_signed()
}

/// One operation on integers.
#[inline(always)]
fn whole(code: Code, a: &[i32], b: &[i32], to: &mut [i32]) {
    match code {
        Code::Neg => one(a, to, i32::wrapping_neg),
        Code::Abs => one(a, to, i32::wrapping_abs),
        Code::Relu => one(a, to, |x| x.max(0)),
        Code::Add => two(a, b, to, i32::wrapping_add),
        Code::Sub => two(a, b, to, i32::wrapping_sub),
        Code::Mul => two(a, b, to, i32::wrapping_mul),
        Code::Max => two(a, b, to, i32::max),
        Code::Min => two(a, b, to, i32::min),
        _ => to.copy_from_slice(a),
    }
}

/// Whether an operation is one of integers.
pub(crate) fn of_integers(code: Code) -> bool {
    matches!(
        code,
        Code::Same
            | Code::Cast
            | Code::Neg
            | Code::Abs
            | Code::Relu
            | Code::Add
            | Code::Sub
            | Code::Mul
            | Code::Max
            | Code::Min
    )
}

/// Where a block of a value lies: lines and elements, how many there are and how far apart.
#[derive(Clone, Copy, Debug)]
struct Lattice {
    from: i64,
    lines: (usize, i64),
    along: (usize, i64),
}

impl Lattice {
    /// Whether all elements lie side by side, in order.
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

    /// Brings the elements side by side, as numbers.
    #[inline(always)]
    fn fetch<E: Cell>(&self, source: &[E], to: &mut [E::Number]) {
        let ((lines, around), (count, step)) = (self.lines, self.along);
        if around == 1 && lines % 8 == 0 && 1 < step {
            let mut starts = [0; PART / 8];
            for (i, start) in starts.iter_mut().enumerate() {
                *start = self.from + step * i as i64;
            }
            let mut cells = [E::zeroed(); PART];
            let cells = &mut cells[..to.len()];
            product::turn_in(source, &starts[..count], cells);
            return to
                .iter_mut()
                .zip(&*cells)
                .for_each(|(to, x)| *to = x.read());
        }
        for (line, to) in to.chunks_exact_mut(count).enumerate() {
            if 0 < line && around == 0 {
                break;
            }
            let from = self.line(line);
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

    /// Brings the elements to their places.
    #[inline(always)]
    fn store<E: Cell>(&self, found: &[E::Number], out: &mut [E]) {
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

#[inline(always)]
fn one<N: Copy>(a: &[N], to: &mut [N], f: impl Fn(N) -> N) {
    to.iter_mut().zip(a).for_each(|(to, &a)| *to = f(a));
}

#[inline(always)]
fn two<N: Copy>(a: &[N], b: &[N], to: &mut [N], f: impl Fn(N, N) -> N) {
    let pairs = a.iter().zip(b);
    to.iter_mut()
        .zip(pairs)
        .for_each(|(to, (&a, &b))| *to = f(a, b));
}

/// One operation on some elements.
#[inline(always)]
fn apply(code: Code, a: &[f32], b: &[f32], to: &mut [f32]) {
    match code {
        Code::Same | Code::Cast | Code::Dequantize | Code::Round | Code::RoundPlus => {
            to.copy_from_slice(a);
        }
        Code::Neg => one(a, to, |x: f32| -x),
        Code::Abs => one(a, to, f32::abs),
        Code::Exp => one(a, to, exp),
        Code::Log => one(a, to, f32::ln),
        Code::Sqrt => one(a, to, f32::sqrt),
        Code::Rsqrt => one(a, to, |x: f32| 1.0 / x.sqrt()),
        Code::Reciprocal => one(a, to, |x: f32| 1.0 / x),
        Code::Erf => one(a, to, erf),
        Code::Tanh => one(a, to, tanh),
        Code::Sigmoid => one(a, to, sigmoid),
        Code::Silu => one(a, to, |x: f32| x * sigmoid(x)),
        Code::Relu => one(a, to, |x: f32| if x < 0.0 { 0.0 } else { x }),
        Code::Sin => one(a, to, f32::sin),
        Code::Cos => one(a, to, f32::cos),
        Code::Floor => one(a, to, f32::floor),
        Code::Ceil => one(a, to, f32::ceil),
        Code::HardSwish => one(a, to, |x: f32| x * held(x / 6.0 + 0.5, 0.0, 1.0)),
        Code::Gelu => one(a, to, |x: f32| {
            0.5 * x * (1.0 + erf(x * std::f32::consts::FRAC_1_SQRT_2))
        }),
        Code::GeluTanh => one(a, to, |x: f32| {
            let inner = 0.797_884_6 * (x + 0.044_715 * x * x * x);
            0.5 * x * (1.0 + tanh(inner))
        }),
        Code::Clamp(low, high) => one(a, to, |x: f32| held(x, low, high)),
        Code::LeakyRelu(alpha) => one(a, to, |x: f32| if x < 0.0 { alpha * x } else { x }),
        Code::Elu(alpha) => one(
            a,
            to,
            |x: f32| if x < 0.0 { alpha * (exp(x) - 1.0) } else { x },
        ),
        Code::HardSigmoid(alpha, beta) => one(a, to, |x: f32| held(alpha * x + beta, 0.0, 1.0)),
        Code::Add => two(a, b, to, |a: f32, b: f32| a + b),
        Code::Sub => two(a, b, to, |a: f32, b: f32| a - b),
        Code::Mul => two(a, b, to, |a: f32, b: f32| a * b),
        Code::Div => two(a, b, to, |a: f32, b: f32| a / b),
        Code::Pow => {
            let all = |power: f32| b.iter().all(|&b| b == power);
            match () {
                () if all(2.0) => one(a, to, |x: f32| x * x),
                () if all(3.0) => one(a, to, |x: f32| x * x * x),
                () => two(a, b, to, f32::powf),
            }
        }
        Code::Max => two(a, b, to, greater),
        Code::Min => two(a, b, to, lesser),
        Code::Prelu => two(
            a,
            b,
            to,
            |x: f32, slope: f32| if x < 0.0 { slope * x } else { x },
        ),
    }
}

/// At least the one, at most the other; a number that is none stays.
#[inline(always)]
fn held(x: f32, low: f32, high: f32) -> f32 {
    let x = if x < low { low } else { x };
    if high < x { high } else { x }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn scaled_integers_are_rounded_once() {
        let edge = 1 << 24;
        let near = |n: i32| [n - 1, n, n + 1, -n - 1, -n, 1 - n];
        let all = [0, i32::MAX, i32::MIN, 77].into_iter().chain(near(edge));
        let scales = [0.3, 1e-44, -1e30, f32::INFINITY, f32::NAN, 0.0];
        for a in all.chain((0..1000).map(|i| i * 16_763)) {
            for b in scales {
                let mut found = [0.0; 3];
                dequantized(&[a, 1, -1], &[b; 3], &mut found);
                for (found, a) in found.into_iter().zip([a, 1, -1]) {
                    let wanted = (f64::from(a) * f64::from(b)) as f32;
                    let same = found.to_bits() == wanted.to_bits();
                    assert!(same || found.is_nan() && wanted.is_nan(), "{a} {b}");
                }
            }
        }
    }

    #[test]
    fn numbers_are_rounded_to_integers_of_8_bits() {
        let halves = (-600..600).map(|i| i as f32 / 2.0);
        let near = halves.flat_map(|x| [x, x.next_up(), x.next_down()]);
        let ends = [f32::INFINITY, f32::NEG_INFINITY, 3e9, -1e-40, -0.0];
        for x in near.chain(ends) {
            for (low, high) in [(-128.0, 127.0), (0.0, 255.0)] {
                let wanted = x.round_ties_even().clamp(low, high) as i32;
                assert_eq!(few(x, low, high), wanted, "{x}");
            }
        }
        assert_eq!(few(f32::NAN, -128.0, 127.0), 0);
    }
}
