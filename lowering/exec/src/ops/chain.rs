//! Element-wise operations on `f32`, one or several that follow one another, in one nest of loops: operands in any order and
//! broadcast, what lies between operations in a few lines of the cache.

use crate::access::Access;
use crate::kernels::{product, vectorized};
use crate::memory::In;
use crate::moved::Moved;
use crate::nest::Nest;
use crate::ops::kernel::{Kernel, floats, floats_mut};
use crate::ops::math::{erf, exp, greater, lesser, sigmoid, tanh};

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
    pub(crate) from: [From; 2],
}

/// Operations in order; the last one gives the result.
#[derive(Debug)]
pub(crate) struct Chain {
    links: Vec<Link>,
    operands: usize,
    nest: Nest<{ MOST_OPERANDS + 1 }>,
    block: Block,
}

/// What is done at once: some steps of a loop around the innermost one, each with some of its elements.
#[derive(Debug)]
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
    pub(crate) fn of(target: &Access, operands: &[Access], links: Vec<Link>) -> Option<Chain> {
        if MOST_OPERANDS < operands.len() || links.is_empty() || MOST_CODES < links.len() {
            return None;
        }
        let none = Access::none(&target.shape());
        let all: [&Access; MOST_OPERANDS + 1] = std::array::from_fn(|k| match k {
            0 => target,
            _ => operands.get(k - 1).unwrap_or(&none),
        });
        let mut nest = Nest::of(all)?;
        let block = Block::of(&mut nest);
        Some(Chain {
            links,
            operands: operands.len(),
            nest,
            block,
        })
    }
}

/// Where an operand is read.
#[derive(Clone, Copy)]
enum Source<'a> {
    Beside(&'a [f32]),
    /// In the bytes of the result, where that has the same element.
    Same,
    /// Elsewhere in the buffer that the result lies in, which it does not write.
    Among,
}

/// One run's memory.
struct Work<'a> {
    sources: Vec<Source<'a>>,
    /// Elements of operands that do not lie side by side, then of results.
    parts: Vec<[f32; PART]>,
}

impl Kernel for Chain {
    fn name(&self) -> &'static str {
        if self.links.len() == 1 {
            "elementwise"
        } else {
            "chain"
        }
    }

    fn run(&self, _: usize, ins: &[In<'_>], out: &mut [u8], _: &mut Moved) -> Result<(), String> {
        let out = floats_mut(out)?;
        let mut sources = Vec::with_capacity(ins.len());
        for operand in ins {
            sources.push(match operand {
                In::Bytes(bytes) => Source::Beside(floats(bytes)?),
                In::Same => Source::Same,
                In::Among => Source::Among,
            });
        }
        if sources.len() != self.operands {
            return Err("it has another number of operands".to_owned());
        }
        let inside = |k: usize| match sources[k] {
            Source::Beside(source) => self.nest.fits(k + 1, source.len()),
            Source::Among => self.nest.fits(k + 1, out.len()),
            Source::Same => true,
        };
        if !self.nest.fits(0, out.len()) || !(0..self.operands).all(inside) {
            return Err("an element lies outside of its buffer".to_owned());
        }
        let parts = vec![[0f32; PART]; self.operands + self.links.len()];
        let mut work = Work { sources, parts };
        // Inside of the walk, which is a function of its own.
        self.nest.each(|at| {
            vectorized(
                #[inline(always)]
                || self.inner(&mut work, out, at),
            );
        });
        Ok(())
    }
}

impl Chain {
    /// The two innermost loops, block by block.
    #[inline(always)]
    fn inner(&self, work: &mut Work<'_>, out: &mut [f32], at: [i64; MOST_OPERANDS + 1]) {
        let (n, steps) = self.nest.inner;
        let (m, around) = self.block.around;
        for line in (0..m).step_by(self.block.lines) {
            let lines = self.block.lines.min(m - line);
            for first in (0..n).step_by(self.block.along) {
                let count = self.block.along.min(n - first);
                let lattice = |k: usize| Lattice {
                    from: at[k] + around[k] * line as i64 + steps[k] * first as i64,
                    lines: (lines, around[k]),
                    along: (count, steps[k]),
                };
                self.part(work, out, lattice);
            }
        }
    }

    /// One block, of which `lattice` says where each value has it: the result, then the operands.
    #[inline(always)]
    fn part(&self, work: &mut Work<'_>, out: &mut [f32], lattice: impl Fn(usize) -> Lattice) {
        let target = lattice(0);
        let count = target.lines.0 * target.along.0;
        for k in 0..self.operands {
            let own = lattice(k + 1);
            // What is written over has the elements of the result.
            let (source, own) = match work.sources[k] {
                Source::Beside(_) if own.is_line() => continue,
                Source::Beside(source) => (source, own),
                Source::Among => (&*out, own),
                Source::Same => (&*out, lattice(0)),
            };
            own.fetch(source, &mut work.parts[k][..count]);
        }
        for (number, link) in self.links.iter().enumerate() {
            let (before, rest) = work.parts.split_at_mut(self.operands + number);
            let part = |from: From| -> &[f32] {
                match from {
                    From::Code(i) => &before[self.operands + i][..count],
                    From::Operand(k) => match work.sources[k] {
                        Source::Beside(source) if lattice(k + 1).is_line() => {
                            let from = lattice(k + 1).from as usize;
                            &source[from..from + count]
                        }
                        _ => &before[k][..count],
                    },
                }
            };
            let (a, b) = (part(link.from[0]), part(link.from[1]));
            let last = number + 1 == self.links.len();
            if last && target.is_line() {
                let to = target.from as usize;
                apply(link.code, a, b, &mut out[to..to + count]);
            } else {
                apply(link.code, a, b, &mut rest[0][..count]);
            }
        }
        if !target.is_line() {
            let found = work.parts.last().map_or(&[][..], |part| &part[..count]);
            target.store(found, out);
        }
    }
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

    /// Brings the elements side by side.
    #[inline(always)]
    fn fetch(&self, source: &[f32], to: &mut [f32]) {
        let ((lines, around), (count, step)) = (self.lines, self.along);
        if around == 1 && lines % 8 == 0 && 1 < step {
            let mut starts = [0; PART / 8];
            for (i, start) in starts.iter_mut().enumerate() {
                *start = self.from + step * i as i64;
            }
            product::turn_in(source, &starts[..count], to);
            return;
        }
        for (line, to) in to.chunks_exact_mut(count).enumerate() {
            if 0 < line && around == 0 {
                break;
            }
            let from = self.line(line);
            match step {
                0 => to.fill(source[from as usize]),
                1 => to.copy_from_slice(&source[from as usize..from as usize + count]),
                _ => {
                    for (i, to) in to.iter_mut().enumerate() {
                        *to = source[(from + step * i as i64) as usize];
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
    fn store(&self, found: &[f32], out: &mut [f32]) {
        let (count, step) = self.along;
        for (line, found) in found.chunks_exact(count).enumerate() {
            let to = self.line(line);
            if step == 1 {
                out[to as usize..to as usize + count].copy_from_slice(found);
                continue;
            }
            for (i, x) in found.iter().enumerate() {
                out[(to + step * i as i64) as usize] = *x;
            }
        }
    }
}

#[inline(always)]
fn one(a: &[f32], to: &mut [f32], f: impl Fn(f32) -> f32) {
    to.iter_mut().zip(a).for_each(|(to, &a)| *to = f(a));
}

#[inline(always)]
fn two(a: &[f32], b: &[f32], to: &mut [f32], f: impl Fn(f32, f32) -> f32) {
    let pairs = a.iter().zip(b);
    to.iter_mut()
        .zip(pairs)
        .for_each(|(to, (&a, &b))| *to = f(a, b));
}

/// One operation on some elements.
#[inline(always)]
fn apply(code: Code, a: &[f32], b: &[f32], to: &mut [f32]) {
    match code {
        Code::Same => to.copy_from_slice(a),
        Code::Neg => one(a, to, |x| -x),
        Code::Abs => one(a, to, f32::abs),
        Code::Exp => one(a, to, exp),
        Code::Log => one(a, to, f32::ln),
        Code::Sqrt => one(a, to, f32::sqrt),
        Code::Rsqrt => one(a, to, |x| 1.0 / x.sqrt()),
        Code::Reciprocal => one(a, to, |x| 1.0 / x),
        Code::Erf => one(a, to, erf),
        Code::Tanh => one(a, to, tanh),
        Code::Sigmoid => one(a, to, sigmoid),
        Code::Silu => one(a, to, |x| x * sigmoid(x)),
        Code::Relu => one(a, to, |x| if x < 0.0 { 0.0 } else { x }),
        Code::Sin => one(a, to, f32::sin),
        Code::Cos => one(a, to, f32::cos),
        Code::Floor => one(a, to, f32::floor),
        Code::Ceil => one(a, to, f32::ceil),
        Code::HardSwish => one(a, to, |x| x * held(x / 6.0 + 0.5, 0.0, 1.0)),
        Code::Gelu => one(a, to, |x| {
            0.5 * x * (1.0 + erf(x * std::f32::consts::FRAC_1_SQRT_2))
        }),
        Code::GeluTanh => one(a, to, |x| {
            let inner = 0.797_884_6 * (x + 0.044_715 * x * x * x);
            0.5 * x * (1.0 + tanh(inner))
        }),
        Code::Clamp(low, high) => one(a, to, |x| held(x, low, high)),
        Code::LeakyRelu(alpha) => one(a, to, |x| if x < 0.0 { alpha * x } else { x }),
        Code::Elu(alpha) => one(a, to, |x| if x < 0.0 { alpha * (exp(x) - 1.0) } else { x }),
        Code::HardSigmoid(alpha, beta) => one(a, to, |x| held(alpha * x + beta, 0.0, 1.0)),
        Code::Add => two(a, b, to, |a, b| a + b),
        Code::Sub => two(a, b, to, |a, b| a - b),
        Code::Mul => two(a, b, to, |a, b| a * b),
        Code::Div => two(a, b, to, |a, b| a / b),
        Code::Pow => {
            let all = |power: f32| b.iter().all(|&b| b == power);
            match () {
                () if all(2.0) => one(a, to, |x| x * x),
                () if all(3.0) => one(a, to, |x| x * x * x),
                () => two(a, b, to, f32::powf),
            }
        }
        Code::Max => two(a, b, to, greater),
        Code::Min => two(a, b, to, lesser),
        Code::Prelu => two(a, b, to, |x, slope| if x < 0.0 { slope * x } else { x }),
    }
}

/// At least the one, at most the other; a number that is none stays.
#[inline(always)]
fn held(x: f32, low: f32, high: f32) -> f32 {
    let x = if x < low { low } else { x };
    if high < x { high } else { x }
}
