//! Sums that are scaled, rounded or otherwise computed with become elements before they are written: what an element-wise step
//! makes of them is done by the contraction or convolution that sums, and the sums are never in memory. Nor are the floats of a softmax or a norm
//! that are rounded to integers.
//!
//! The sum runs where the element-wise step does and writes where that does, as in [`crate::begin`]: no step between may have written
//! what it reads, and the result lies beside that. Every other operand of the step is one number that is known. What is made of floats is one loop over
//! them, as several cost more here than in a step of their own, and lies as they would, since the order in which they are summed may depend on it.

use crate::element::Kind;
use crate::ops::{Chain, Finish, From, Kernel, Link, Site, pieces};
use indexmap::IndexMap;
use optc_ir::{Op, Value};

/// The most steps between a sum and what is made of it.
const FAR: usize = 64;

/// A step as it is known here.
#[derive(Clone, Debug)]
pub(crate) struct Known<'a> {
    pub(crate) op: Op,
    pub(crate) kernel: Option<&'a dyn Kernel>,
    pub(crate) operands: &'a [Value],
    /// Of an element-wise step of several operations, what they do and which they are.
    pub(crate) several: Option<(&'a [Link], &'a [Op])>,
}

/// What becomes of a step.
#[derive(Debug)]
pub(crate) enum Finished {
    Stays,
    /// The step that reads its sums does its work.
    Gone,
    /// It sums as well, with the operands of that.
    Sum(Box<dyn Kernel>, Vec<Value>),
}

/// Joins steps that sum with the element-wise steps that alone read what they give; `site` is at any operation of the function.
pub(crate) fn finish(steps: &[Known<'_>], site: Site<'_>) -> Vec<Finished> {
    let mut readers: IndexMap<Value, Vec<Option<Op>>> = IndexMap::new();
    for &op in &site.func.body {
        for &value in &site.func.ops[op].operands {
            readers.entry(value).or_default().push(Some(op));
        }
    }
    for &value in &site.func.results {
        readers.entry(value).or_default().push(None);
    }
    let mut made: Vec<Finished> = steps.iter().map(|_| Finished::Stays).collect();
    for (to, step) in steps.iter().enumerate() {
        let Some(links) = links(step, site) else {
            continue;
        };
        let members = step.several.map_or(std::slice::from_ref(&step.op), |s| s.1);
        let member = |reader: &Option<Op>| reader.is_some_and(|op| members.contains(&op));
        let mut before = (to.saturating_sub(FAR)..to).rev();
        let at = before.find(|&at| {
            let sum = site.func.ops[steps[at].op].results.first();
            let readers = sum.and_then(|sum| readers.get(sum));
            readers.is_some_and(|all| all.iter().all(member))
        });
        let Some(at) = at.filter(|&at| matches!(made[at], Finished::Stays)) else {
            continue;
        };
        if let Some((kernel, operands)) = joined(steps, &made, (at, to), links, site) {
            made[at] = Finished::Gone;
            made[to] = Finished::Sum(kernel, operands);
        }
    }
    made
}

/// The operations of an element-wise step.
fn links(step: &Known<'_>, site: Site<'_>) -> Option<Vec<Link>> {
    if let Some((links, _)) = step.several {
        return Some(links.to_vec());
    }
    let alone = [Chain::ALONE, Chain::SEVERAL].contains(&step.kernel?.name());
    let pieces = pieces(&Site {
        op: step.op,
        ..site
    })
    .filter(|_| alone)?;
    Some(crate::ops::links(&pieces))
}

/// The kernel of both steps, with the operands of the sum.
fn joined(
    steps: &[Known<'_>],
    made: &[Finished],
    (at, to): (usize, usize),
    links: Vec<Link>,
    site: Site<'_>,
) -> Option<(Box<dyn Kernel>, Vec<Value>)> {
    let (sum, step) = (&steps[at], &steps[to]);
    let first = |op: Op| site.func.ops[op].results.first().copied();
    let (summed, result) = (first(sum.op)?, site.slot(first(step.op)?)?);
    let own = site.slot(summed)?;
    let same = match own.kind()? {
        Kind::I32 => result.kind()? != Kind::I32 && own.access.shape() == result.access.shape(),
        Kind::F32 => own.access == result.access,
        _ => false,
    };
    if !same {
        return None;
    }
    // The sums are the first operand of what is done, the numbers follow.
    let (mut numbers, mut places) = (Vec::new(), Vec::with_capacity(step.operands.len()));
    for &operand in step.operands {
        if operand == summed {
            places.push(0);
            continue;
        }
        numbers.push(site.number(operand)?);
        places.push(numbers.len());
    }
    let moved = |from: From| match from {
        From::Operand(k) => places.get(k).map(|&place| From::Operand(place)),
        From::Code(i) => Some(From::Code(i)),
    };
    let links = links.into_iter().map(|link| {
        let [a, b] = link.from;
        let from = [moved(a)?, moved(b)?];
        Some(Link { from, ..link })
    });
    let finish = Finish::of(own.kind()?, links.collect::<Option<_>>()?, numbers)?;
    // Several loops over floats cost more beside the sums than in a step of their own; integers are narrowed by them.
    if own.kind() == Some(Kind::F32) && result.kind() == Some(Kind::F32) && !finish.is_one_loop() {
        return None;
    }
    for &operand in sum.operands {
        let slot = site.slot(operand)?;
        let written =
            |i: usize| !matches!(made[i], Finished::Gone) && site.writes(steps[i].op, slot);
        if slot.overlaps(result) || (at + 1..to).any(written) {
            return None;
        }
    }
    let kernel = sum.kernel?.finished(&site, sum.operands, result, finish)?;
    Some((kernel, sum.operands.to_vec()))
}
