//! A contraction whose result is only added to something begins its sums with that: a bias or a residual costs no step of its own.
//!
//! The contraction runs where the addition does and writes where that does. Whatever it reads must be as it was then, so no step
//! between may have written there, and the sum lies beside it; what is added lies beside it too, or exactly on it.

use crate::compile::{Step, Work};
use crate::memory::Slot;
use crate::ops::{Contract, Site};
use indexmap::IndexMap;
use optc_ir::{Op, Operation, Value};
use optc_ops::Add;

/// The most steps between a contraction and the addition.
const FAR: usize = 64;

/// Steps with such contractions joined to their additions, whose place and operation they have; which steps these are. `site`
/// is at any operation of the function.
pub(crate) fn begin(mut steps: Vec<Step>, site: Site<'_>) -> (Vec<Step>, Vec<bool>) {
    let number: IndexMap<Op, usize> = steps.iter().enumerate().map(|(i, s)| (s.op, i)).collect();
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
    site.func
        .results
        .iter()
        .for_each(|&value| reads(value, None));
    let mut gone = vec![false; steps.len()];
    let mut begun = vec![false; steps.len()];
    for at in 0..steps.len() {
        let contracts =
            matches!(&steps[at].work, Work::Kernel(kernel) if kernel.name() == "contract");
        let results = &site.func.ops[steps[at].op].results;
        let reader = results.first().and_then(|v| *readers.get(v)?);
        let to = reader.and_then(|op| number.get(&op).copied());
        let Some(to) = to.filter(|to| contracts && at < *to && to - at <= FAR) else {
            continue;
        };
        if let Some((contract, operands)) = joined(&steps, &gone, at, to, site) {
            let results = &site.func.ops[steps[to].op].results;
            let touched = operands.iter().chain(results).filter_map(|&v| site.slot(v));
            steps[to].bytes = touched.map(Slot::touched).sum();
            steps[to].work = Work::Kernel(Box::new(contract));
            steps[to].operands = operands;
            (gone[at], begun[to]) = (true, true);
        }
    }
    let kept: Vec<usize> = (0..steps.len()).filter(|&i| !gone[i]).collect();
    let begun = kept.iter().map(|&i| begun[i]).collect();
    let mut at = 0;
    steps.retain(|_| {
        at += 1;
        !gone[at - 1]
    });
    (steps, begun)
}

/// A contraction with the addition that reads its result, and the operands of both.
fn joined(
    steps: &[Step],
    gone: &[bool],
    at: usize,
    to: usize,
    site: Site<'_>,
) -> Option<(Contract, Vec<Value>)> {
    let func = site.func;
    let (own, adds) = (&func.ops[steps[at].op], &func.ops[steps[to].op]);
    let product = *own.results.first()?;
    let plain = &*adds.name == Add::NAME && matches!(steps[to].work, Work::Kernel(_));
    let [left, right] = adds.operands[..] else {
        return None;
    };
    let start = if left == product { right } else { left };
    if !plain || start == product || own.operands.len() != 2 {
        return None;
    }
    let result = site.slot(*adds.results.first()?)?;
    let begins = site.slot(start)?;
    let exact = begins.range() == result.range() && begins.access == result.access;
    let same = site.slot(product)?.access.shape() == result.access.shape();
    if !same || begins.overlaps(result) && !(exact && begins.storage == result.storage) {
        return None;
    }
    for &operand in &own.operands {
        let slot = site.slot(operand)?;
        let written = |i: usize| {
            let results = &func.ops[steps[i].op].results;
            let mut places = results.iter().map(|&v| site.slot(v));
            !gone[i] && places.any(|place| place.is_none_or(|place| place.overlaps(slot)))
        };
        if slot.overlaps(result) || (at + 1..to).any(written) {
            return None;
        }
    }
    let of = Site {
        op: steps[at].op,
        ..site
    };
    let contract = Contract::to(&of, result, Some(begins))?;
    Some((contract, vec![own.operands[0], own.operands[1], start]))
}
