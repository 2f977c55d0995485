//! Fuses epilogues: element-wise operations on the sums of a contraction or convolution run before the sums are stored, so
//! that sums are never in memory. The same applies to floats of a softmax or norm that are rounded to integers.
//!
//! As in [`crate::prologue`], the fused step runs at the position of the element-wise step and writes its result; operands
//! must still have their values there. Every other operand of the element-wise step is a constant number. An epilogue of
//! floats is a single loop, as several loops would cost more than a step of their own. Its result has the access of the
//! floats, as the order in which they are summed may depend on it.
//!
//! A contraction of bytes to `si32`, then `dequantize(sum, 0.02)` and `round` to `si8` becomes one step that writes `si8`.

use crate::access::Access;
use crate::job::{FARTHEST, ReadInstead};
use crate::memory::Slot;
use crate::ops::{Family, Kernel, Site, pieces};
use indexmap::IndexMap;
use optc_ir::{Op, Value};
use optc_kernels::element::Kind;
use optc_kernels::epilogue::{Dequantization, Epilogue};
use optc_kernels::links::{ChainOp, Code, From};

/// The operand number of the dequantized sums.
const SUMS: usize = usize::MAX;

/// A step before epilogues are fused.
#[derive(Clone, Debug)]
pub(crate) struct Known<'a> {
    pub(crate) op: Op,
    pub(crate) kernel: Option<&'a dyn Kernel>,
    pub(crate) operands: &'a [Value],
    /// For a chain of several element-wise operations, the operations and their links.
    pub(crate) several: Option<(&'a [ChainOp], &'a [Op])>,
}

/// Result of fusion for a step.
#[derive(Debug)]
pub(crate) enum EpilogueResult {
    Stays,
    /// The step has been fused into the user of its sums.
    Gone,
    /// The step computes the sums with the epilogue, and their operands.
    Sum(Box<dyn Kernel>, Vec<Value>),
}

/// Fuses steps that compute sums with the element-wise steps that are their only users; values of `instead` have other
/// readers. `site` is at any operation of the function.
pub(crate) fn fuse_epilogues(
    steps: &[Known<'_>],
    instead: &ReadInstead,
    site: Site<'_>,
) -> Vec<EpilogueResult> {
    let mut readers: IndexMap<Value, Vec<Option<Op>>> = IndexMap::new();
    for &op in &site.func.body {
        for &value in &site.func.ops[op].operands {
            readers.entry(value).or_default().push(Some(op));
        }
    }
    for &value in site.func.results.iter().chain(&instead.values) {
        readers.entry(value).or_default().push(None);
    }
    let mut made: Vec<EpilogueResult> = steps.iter().map(|_| EpilogueResult::Stays).collect();
    for (to, step) in steps.iter().enumerate() {
        let Some(links) = links(step, site) else {
            continue;
        };
        let members = step.several.map_or(std::slice::from_ref(&step.op), |s| s.1);
        let member = |reader: &Option<Op>| reader.is_some_and(|op| members.contains(&op));
        let mut before = (to.saturating_sub(FARTHEST)..to).rev();
        let at = before.find(|&at| {
            let sum = site.func.ops[steps[at].op].results.first();
            let readers = sum.and_then(|sum| readers.get(sum));
            readers.is_some_and(|all| all.iter().all(member))
        });
        let Some(at) = at.filter(|&at| matches!(made[at], EpilogueResult::Stays)) else {
            continue;
        };
        if let Some((kernel, operands)) = joined(steps, &made, (at, to), links, site) {
            made[at] = EpilogueResult::Gone;
            made[to] = EpilogueResult::Sum(kernel, operands);
        }
    }
    made
}

/// The operations of an element-wise step.
fn links(step: &Known<'_>, site: Site<'_>) -> Option<Vec<ChainOp>> {
    if let Some((links, _)) = step.several {
        return Some(links.to_vec());
    }
    let alone = matches!(step.kernel?.family(), Family::Elementwise | Family::Chain);
    let pieces = pieces(&site.at(step.op)).filter(|_| alone)?;
    Some(crate::ops::links(&pieces))
}

/// The kernel of both steps, with the operands of the sum.
fn joined(
    steps: &[Known<'_>],
    made: &[EpilogueResult],
    (at, to): (usize, usize),
    links: Vec<ChainOp>,
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
    // The sum's operands must still have their values at the element-wise step.
    for &operand in sum.operands {
        let slot = site.slot(operand)?;
        let written =
            |i: usize| !matches!(made[i], EpilogueResult::Gone) && site.writes(steps[i].op, slot);
        if slot.overlaps(result) || (at + 1..to).any(written) {
            return None;
        }
    }
    let values = (summed, own, result);
    let scale = scale(&links, step.operands, values, site);
    let scaled = scale.and_then(|(scale, done)| {
        let links = behind(&links, done)?;
        epilogue_of(step.operands, values, (Some(scale), links), site)
    });
    let plain = || epilogue_of(step.operands, values, (None, links.clone()), site);
    let kernel = |epilogue: Epilogue| {
        sum.kernel?
            .with_epilogue(&site, sum.operands, result, epilogue)
    };
    let kernel = scaled
        .and_then(kernel)
        .or_else(|| plain().and_then(kernel))?;
    Some((kernel, sum.operands.to_vec()))
}

/// The epilogue of an element-wise step with these operations, after a dequantization if `scale` is given.
fn epilogue_of(
    operands: &[Value],
    (summed, own, result): (Value, &Slot, &Slot),
    (scale, links): (Option<Dequantization>, Vec<ChainOp>),
    site: Site<'_>,
) -> Option<Epilogue> {
    // The sums are the first operand of the epilogue; the numbers follow.
    let used = |k: usize| links.iter().any(|l| l.from.contains(&From::Operand(k)));
    let (mut numbers, mut places) = (Vec::new(), Vec::with_capacity(operands.len()));
    for (k, &operand) in operands.iter().enumerate() {
        if scale.is_some() && operand == summed && used(k) {
            return None;
        }
        if operand == summed || scale.is_some() && !used(k) {
            places.push(0);
            continue;
        }
        numbers.push(site.number(operand)?);
        places.push(numbers.len());
    }
    let moved = |from: From| match from {
        From::Operand(SUMS) => Some(From::Operand(0)),
        From::Operand(k) => places.get(k).map(|&place| From::Operand(place)),
        From::Code(i) => Some(From::Code(i)),
    };
    let links = links.into_iter().map(|link| {
        let [a, b] = link.from;
        let from = [moved(a)?, moved(b)?];
        Some(ChainOp { from, ..link })
    });
    let links = links.collect::<Option<_>>()?;
    let epilogue = match scale {
        Some(scale) => Epilogue::scaled(scale, links, numbers)?,
        None => Epilogue::of(own.kind()?, links, numbers)?,
    };
    // From `f32` to `f32`, several loops cost more in an epilogue than in a step of their own. Otherwise they pay, as no
    // 32-bit sums are stored.
    let floats = own.kind() == Some(Kind::F32) && result.kind() == Some(Kind::F32);
    (!floats || epilogue.is_one_loop()).then_some(epilogue)
}

/// A cast of integer sums to floats, multiplied by constants and optionally added to constants, as a dequantization; with
/// the number of operations that it consists of.
fn scale(
    links: &[ChainOp],
    operands: &[Value],
    (summed, own, result): (Value, &Slot, &Slot),
    site: Site<'_>,
) -> Option<(Dequantization, usize)> {
    let operand = |from: From| match from {
        From::Operand(k) => operands.get(k).copied(),
        From::Code(_) => None,
    };
    let cast = links.first()?;
    let floats = |link: &&ChainOp| link.kind == Kind::F32;
    let whole = cast.code == Code::Cast && own.kind() == Some(Kind::I32);
    if !floats(&cast) || !whole || operand(cast.from[0]) != Some(summed) {
        return None;
    }
    // The other operand of operation `at`, if it has this code and uses the previous result.
    let other = |at: usize, code: Code| {
        let link = links.get(at).filter(floats).filter(|l| l.code == code)?;
        let before = From::Code(at - 1);
        let other = match link.from {
            [a, b] if a == before && b != before => b,
            [a, b] if b == before && a != before => a,
            _ => return None,
        };
        operand(other).and_then(|value| constants(value, site))
    };
    let factors = other(1, Code::Mul)?;
    let terms = other(2, Code::Add);
    let done = 2 + usize::from(terms.is_some());
    let terms = terms.unwrap_or_else(|| (Vec::new(), vec![-0.0]));
    let (shape, count) = match factors.1.len() < terms.1.len() {
        true => (&terms.0, terms.1.len()),
        false => (&factors.0, factors.1.len()),
    };
    let each = |(own, list): &(Vec<usize>, Vec<f32>)| match list[..] {
        [one] => Some(vec![one; count]),
        _ => (own == shape).then(|| list.clone()),
    };
    let values = each(&factors)?.into_iter().zip(each(&terms)?);
    let access = Access::row_major(shape).broadcast(&result.access.shape());
    let Access::Sum { base: 0, tables } = access else {
        return None;
    };
    let values = values.map(|(factor, term)| [factor, term]).collect();
    Some((Dequantization { values, tables }, done))
}

/// The elements of a constant of floats, with its shape, if all are finite.
fn constants(value: Value, site: Site<'_>) -> Option<(Vec<usize>, Vec<f32>)> {
    let slot = site.slot(value)?;
    let bytes = site.constant_buffer(value)?.get(slot.range())?;
    let floats: &[f32] = bytemuck::try_cast_slice(bytes).ok()?;
    if slot.kind() != Some(Kind::F32) {
        return None;
    }
    let mut list = Vec::with_capacity(slot.access.count());
    slot.access.each(|at| {
        let found = usize::try_from(at).ok().and_then(|at| floats.get(at));
        list.extend(found.filter(|x| x.is_finite()));
    });
    let whole = list.len() == slot.access.count() && !list.is_empty();
    whole.then(|| (slot.access.shape(), list))
}

/// The operations after the first `done`, of whose results only the last one is used; it becomes operand [`SUMS`].
fn behind(links: &[ChainOp], done: usize) -> Option<Vec<ChainOp>> {
    let moved = |from: From| match from {
        From::Code(i) if i + 1 < done => None,
        From::Code(i) if i + 1 == done => Some(From::Operand(SUMS)),
        From::Code(i) => Some(From::Code(i - done)),
        From::Operand(k) => Some(From::Operand(k)),
    };
    let rest = links.iter().skip(done).map(|link| {
        let [a, b] = link.from;
        let from = [moved(a)?, moved(b)?];
        Some(ChainOp { from, ..*link })
    });
    rest.collect()
}
