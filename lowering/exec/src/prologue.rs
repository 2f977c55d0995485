//! Fuses prologues into contractions and convolutions.
//!
//! - An addition that is the only user of a contraction gives the initial values of its accumulators: a bias or a residual
//!   costs no step of its own.
//! - A norm with constant mean and variance that is the only user of a convolution is folded into its weights and bias.
//! - A multiplication by a constant number, whose only user is a contraction, is applied when the operand is packed.
//!
//! The fused step runs at the position of the addition or norm and writes its result. Its operands must still have their
//! values there: no step in between may write to them, and the result must not overlap them. The other operand of the
//! addition must not overlap the result either, unless it has exactly the same elements.

use crate::job::{FARTHEST, ReadInstead};
use crate::memory::Slot;
use crate::ops::{Bytes, Contract, Convolution, Family, Kernel, Scaled, Site, known_factors};
use indexmap::IndexMap;
use optc_ir::{Op, Operation, Value};
use optc_kernels::element::Kind;
use optc_ops::{Add, Mul};

/// Result of fusion for a step.
#[derive(Debug)]
pub(crate) enum PrologueResult {
    Stays,
    /// The step has been fused into another one.
    Gone,
    /// A contraction with fused scales or initial values, or a convolution with a folded norm, and its operands.
    Sum(Box<dyn Kernel>, Vec<Value>),
}

/// Fuses additions with contractions, norms with convolutions, and scalings of operands with contractions. `kernels` are
/// the families of the steps' kernels, `instead` the values that are read in place of operands. `site` is at any operation of
/// the function.
pub(crate) fn fuse_prologues(
    steps: &[Op],
    kernels: &[Option<Family>],
    instead: &ReadInstead,
    site: Site<'_>,
) -> Vec<PrologueResult> {
    let number: IndexMap<Op, usize> = steps.iter().enumerate().map(|(i, &op)| (op, i)).collect();
    let mut readers: IndexMap<Value, Option<Op>> = IndexMap::new();
    let mut reads = |value: Value, op: Option<Op>| {
        readers
            .entry(value)
            .and_modify(|known| *known = None)
            .or_insert(op);
    };
    for &op in &site.func.body {
        let operands = &site.func.ops[op].operands;
        operands.iter().for_each(|&value| reads(value, Some(op)));
    }
    let results = &site.func.results;
    let others = results.iter().chain(&instead.values);
    others.for_each(|&value| reads(value, None));
    let mut prologues = Prologues {
        steps,
        fused: steps.iter().map(|_| PrologueResult::Stays).collect(),
        site,
    };
    for (at, &op) in steps.iter().enumerate() {
        let contracts = kernels[at] == Some(Family::Contraction);
        if !contracts && kernels[at] != Some(Family::Convolution) {
            continue;
        }
        let alone = |value: Value| (*readers.get(&value)?).and_then(|op| number.get(&op).copied());
        let to = site.func.ops[op].results.first().and_then(|&v| alone(v));
        let stays = |step: usize| matches!(prologues.fused[step], PrologueResult::Stays);
        // Of two products that are added, one gives the initial values of the other.
        let free = |to: usize| kernels[to].is_some() && stays(to);
        let near = to.filter(|&to| at < to && to - at <= FARTHEST && free(to));
        let mut scales: Scaled = [None; 2];
        let mut multiplied = Vec::new();
        for (side, &operand) in site.func.ops[op].operands.iter().take(2).enumerate() {
            let from = site.func.def_op(operand).and_then(|op| number.get(&op));
            let from = from.copied().filter(|&from| {
                contracts
                    && alone(operand) == Some(at)
                    && kernels[from] == Some(Family::Elementwise)
            });
            if let Some(from) = from.filter(|from| stays(*from))
                && let Some(scale) = prologues.scale(from, near.unwrap_or(at))
            {
                scales[side] = Some(scale);
                multiplied.push(from);
            }
        }
        let sum = near.and_then(|to| {
            let sum = match contracts {
                true => prologues.added((at, to), (scales, instead.products.get(&op))),
                false => prologues.normed((at, to)),
            };
            Some((sum?, to))
        });
        let whole = || {
            let sum = Some(scales).filter(|scales| scales.iter().any(Option::is_some))?;
            Some((scaled(&site.at(op), sum)?, at))
        };
        if let Some(((kernel, operands), to)) = sum.or_else(whole) {
            let gone = multiplied.into_iter().chain([at]);
            gone.for_each(|step| prologues.fused[step] = PrologueResult::Gone);
            prologues.fused[to] = PrologueResult::Sum(kernel, operands);
        }
    }
    prologues.fused
}

/// A fused kernel, and its operands.
type Sum = (Box<dyn Kernel>, Vec<Value>);

/// The steps of a function, and the results of fusion so far.
struct Prologues<'a> {
    steps: &'a [Op],
    fused: Vec<PrologueResult>,
    site: Site<'a>,
}

impl<'a> Prologues<'a> {
    fn at(&self, step: usize) -> Site<'a> {
        self.site.at(self.steps[step])
    }

    /// Returns whether a slot still has the value of step `from` at step `to`, whose result does not overlap it.
    fn is_kept(&self, slot: &Slot, (from, to): (usize, usize), result: &Slot) -> bool {
        let stays = |i: &usize| !matches!(self.fused[*i], PrologueResult::Gone);
        let mut between = (from + 1..to).filter(stays);
        !slot.overlaps(result) && !between.any(|i| self.site.writes(self.steps[i], slot))
    }

    /// The operand of a multiplication and its constant factor, if the operand still has its value at step `to`.
    fn scale(&self, from: usize, to: usize) -> Option<(Value, f32)> {
        let (site, data) = (self.site, self.at(from).data());
        let [a, b] = data.operands[..] else {
            return None;
        };
        let number = |value: Value| match site.number(value)? {
            (Kind::F32, bits) => Some(f32::from_bits(bits)),
            _ => None,
        };
        let (value, by) = match (number(a), number(b)) {
            (None, Some(by)) => (a, by),
            (Some(by), None) => (b, by),
            _ => return None,
        };
        let (slot, own) = (site.slot(value)?, site.slot(*data.results.first()?)?);
        let same = slot.kind() == Some(Kind::F32)
            && own.kind() == Some(Kind::F32)
            && slot.access.shape() == own.access.shape();
        let result = site.slot(*self.at(to).data().results.first()?)?;
        let kept = self.is_kept(slot, (from, to), result);
        (&*data.name == Mul::NAME && same && kept).then_some((value, by))
    }

    /// A contraction fused with the addition that uses its result, and the operands of both.
    fn added(&self, of: (usize, usize), (scales, bytes): (Scaled, Option<&Bytes>)) -> Option<Sum> {
        let site = self.at(of.0);
        let (own, adds) = (site.data(), self.at(of.1).data());
        let product = *own.results.first()?;
        let [left, right] = adds.operands[..] else {
            return None;
        };
        let start = if left == product { right } else { left };
        if &*adds.name != Add::NAME || start == product || own.operands.len() != 2 {
            return None;
        }
        let result = site.slot(*adds.results.first()?)?;
        let begins = site.slot(start)?;
        // Sums of 16 bits would have to be rounded before the addition.
        if matches!(result.kind()?, Kind::F16 | Kind::BF16) {
            return None;
        }
        let exact = begins.range() == result.range() && begins.access == result.access;
        let same = site.slot(product)?.access.shape() == result.access.shape();
        let mut operands = read(&own.operands, scales);
        if let Some(bytes) = bytes {
            bytes.read(&mut operands);
        }
        let valid = self.operands_valid(of, &operands, result);
        if !same || begins.overlaps(result) && !exact || !valid {
            return None;
        }
        let contract = Contract::to(&site, result, Some(begins), None, scales, bytes)?;
        operands.push(start);
        Some((Box::new(contract), operands))
    }

    /// A convolution with the norm that uses its result folded into it, and its operands.
    fn normed(&self, of: (usize, usize)) -> Option<Sum> {
        let (site, norm) = (self.at(of.0), self.at(of.1));
        let factors = known_factors(&norm)?;
        let (own, norm) = (site.data(), norm.data());
        let result = site.slot(*norm.results.first()?)?;
        let sums = *own.results.first()?;
        let same = norm.operands.first() == Some(&sums)
            && site.slot(sums)?.access.shape() == result.access.shape();
        if !same || !self.operands_valid(of, &own.operands, result) {
            return None;
        }
        let convolution = Convolution::normed(&site, result, factors)?;
        Some((Box::new(convolution), own.operands.clone()))
    }

    /// Returns whether operands still have the values of the first step at the second one, whose result does not
    /// overlap them.
    fn operands_valid(&self, of: (usize, usize), operands: &[Value], result: &Slot) -> bool {
        let mut slots = operands.iter().map(|&operand| self.site.slot(operand));
        slots.all(|slot| slot.is_some_and(|slot| self.is_kept(slot, of, result)))
    }
}

/// A contraction with scaled operands and no addition, and its operands.
fn scaled(of: &Site<'_>, scales: Scaled) -> Option<Sum> {
    let data = of.data();
    let result = of.slot(*data.results.first()?)?;
    let start = match data.operands[..] {
        [_, _] => None,
        [_, _, start] => Some(of.slot(start)?),
        _ => return None,
    };
    let contract = Contract::to(of, result, start, None, scales, None)?;
    Some((Box::new(contract), read(&data.operands, scales)))
}

/// The operands of a contraction with scaled operands replaced by the unscaled ones.
fn read(operands: &[Value], scales: Scaled) -> Vec<Value> {
    let mut read = operands.to_vec();
    for (to, scale) in read.iter_mut().zip(scales) {
        *to = scale.map_or(*to, |(value, _)| value);
    }
    read
}
