//! A contraction whose result is only added to something begins its sums with that: a bias or a residual costs no step of its own.
//!
//! The contraction runs where the addition does and writes where that does. Whatever it reads must be as it was then, so no step
//! between may have written there, and the sum lies beside it; what is added lies beside it too, or exactly on it.

use crate::element::Kind;
use crate::ops::{CONTRACT, Contract, Site};
use indexmap::IndexMap;
use optc_ir::{Op, Operation, Value};
use optc_ops::Add;

/// The most steps between a contraction and the addition.
const FAR: usize = 64;

/// What becomes of a step.
#[derive(Debug)]
pub(crate) enum Begun {
    Stays,
    /// An addition does its work.
    Gone,
    /// An addition that is a contraction with a beginning, with the operands of both.
    Contract(Box<Contract>, Vec<Value>),
}

/// Joins contractions to the additions that alone read them. `kernels` are the names of the steps' own; `site` is at any operation
/// of the function.
pub(crate) fn begin(steps: &[Op], kernels: &[Option<&str>], site: Site<'_>) -> Vec<Begun> {
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
    results.iter().for_each(|&value| reads(value, None));
    let mut begun: Vec<Begun> = steps.iter().map(|_| Begun::Stays).collect();
    for (at, &op) in steps.iter().enumerate() {
        if kernels[at] != Some(CONTRACT) {
            continue;
        }
        let results = &site.func.ops[op].results;
        let reader = results.first().and_then(|v| *readers.get(v)?);
        let to = reader.and_then(|op| number.get(&op).copied());
        // An addition of two products begins with one of them.
        let free = |to: usize| kernels[to].is_some() && matches!(begun[to], Begun::Stays);
        let near = to.filter(|&to| at < to && to - at <= FAR && free(to));
        let Some(to) = near else {
            continue;
        };
        if let Some((contract, operands)) = joined(steps, &begun, at, to, site) {
            begun[at] = Begun::Gone;
            begun[to] = Begun::Contract(Box::new(contract), operands);
        }
    }
    begun
}

/// A contraction with the addition that reads its result, and the operands of both.
fn joined(
    steps: &[Op],
    begun: &[Begun],
    at: usize,
    to: usize,
    site: Site<'_>,
) -> Option<(Contract, Vec<Value>)> {
    let func = site.func;
    let (own, adds) = (&func.ops[steps[at]], &func.ops[steps[to]]);
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
    // Sums of 16 bits are rounded before something is added.
    if matches!(result.kind()?, Kind::F16 | Kind::BF16) {
        return None;
    }
    let exact = begins.range() == result.range() && begins.access == result.access;
    let same = site.slot(product)?.access.shape() == result.access.shape();
    if !same || begins.overlaps(result) && !exact {
        return None;
    }
    for &operand in &own.operands {
        let slot = site.slot(operand)?;
        let written = |i: usize| !matches!(begun[i], Begun::Gone) && site.writes(steps[i], slot);
        if slot.overlaps(result) || (at + 1..to).any(written) {
            return None;
        }
    }
    let of = Site {
        op: steps[at],
        ..site
    };
    let contract = Contract::to(&of, result, Some(begins), None)?;
    Some((contract, vec![own.operands[0], own.operands[1], start]))
}
