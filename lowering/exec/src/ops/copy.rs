//! Data movement: layout conversions, rearrangements that are no views, slices, splits, concatenations, broadcasts, pads.
//!
//! A concatenation of `[2, 3]` and `[2, 5]` along dimension 1 is two pieces: loops that copy each operand to its columns of
//! the result `[2, 8]`. A piece whose operand is already in its place in the result is left out.

use crate::access::Access;
use crate::convert::{ConversionOptions, ConversionPlan};
use crate::error::StepError;
use crate::memory::{In, Slot};
use crate::moved::Moved;
use crate::nest::Nest;
use crate::ops::Context;
use crate::ops::kernel::{Call, Kernel, Site, part, rearranged};
use optc_ir::op::in_place;
use optc_ir::op::part::Port;
use optc_ir::types::TensorType;
use optc_ir::{Func, Operation, Structure, Value};
use optc_kernels::error::KernelError;
use optc_kernels::product::copy_line;
use optc_kernels::team;
use optc_ops::{Pad, PadMode};

/// A copy of elements of one operand to their places in a result.
#[derive(Debug)]
struct Piece {
    operand: usize,
    nest: Nest<2>,
}

/// Copies pieces of operands into results.
#[derive(Debug)]
pub(crate) struct Copy {
    /// The pieces of each result.
    results: Vec<Vec<Piece>>,
    /// Elements that come from no operand, or from an operand once more.
    padding: Padding,
    /// The conversion between layouts, if the operation is one.
    plan: Option<ConversionPlan>,
    /// Bytes of an element.
    size: usize,
}

impl Copy {
    /// The copies of an operation that only moves elements; elements that are in their places already are not copied.
    pub(crate) fn of(site: &Site<'_>) -> Option<Copy> {
        let (func, op, registry) = (site.func, site.op, site.registry);
        let data = site.data();
        let slots = |value: Value| site.slot(value);
        let operand = slots(*data.operands.first()?)?;
        let size = bytes_of_element(operand)?;
        let same = |slot: &Slot| slot.width == operand.width && slot.dtype == operand.dtype;
        if !site.all()?.into_iter().all(same) {
            return None;
        }
        let one = |source: &Access| {
            let target = slots(data.results[0])?;
            let pieces = piece(0, (operand, source), (target, &target.access))?;
            Some(vec![pieces])
        };
        let name = &*data.name;
        let of = func.op_ref(op);
        let padding = match name {
            Pad::NAME => Padding::of(site)?,
            _ => Padding::default(),
        };
        let results = if registry.structure(name) == Structure::Convert
            || data.operands.len() == 1 && registry.get(name)?.rearrangement(&of).is_ok()
        {
            one(&rearranged(
                func,
                op,
                registry,
                site.bindings,
                &operand.access,
            )?)?
        } else {
            pieces(site, &padding)?
        };
        let converts = registry.structure(name) == Structure::Convert;
        let part = operand.part || slots(data.results[0])?.part;
        let plan = match converts && !part {
            true => conversion(func, data.operands[0], data.results[0]),
            false => None,
        };
        Some(Copy {
            results,
            padding,
            plan,
            size,
        })
    }
}

/// The conversion plan from the layout of one value to that of another.
fn conversion(func: &Func, from: Value, to: Value) -> Option<ConversionPlan> {
    let layout = |value: Value| {
        let ty: &TensorType = func.ty(value).as_tensor()?;
        ty.layout()?.ok()
    };
    let (from, to) = (layout(from)?, layout(to)?);
    ConversionPlan::new(&from, &to, ConversionOptions::default()).ok()
}

fn bytes_of_element(slot: &Slot) -> Option<usize> {
    let bits = slot.width as usize;
    matches!(bits, 8 | 16 | 32 | 64 | 128).then_some(bits / 8)
}

/// The copy from one slot to another, as boxes; none if both are the same place.
fn piece(
    operand: usize,
    (source, from): (&Slot, &Access),
    (target, to): (&Slot, &Access),
) -> Option<Vec<Piece>> {
    if source.storage == target.storage && source.range() == target.range() && from == to {
        return Some(Vec::new());
    }
    let boxes = Nest::boxes([to, from])?.into_iter();
    Some(boxes.map(|nest| Piece { operand, nest }).collect())
}

/// The elements that a pad adds.
#[derive(Debug, Default)]
struct Padding {
    /// Boxes of the result that are filled with the pad value.
    boxes: Vec<Nest<1>>,
    /// The bytes of the pad value.
    value: Vec<u8>,
    /// Boxes of the result that repeat elements of the operand (edge, wrap, reflect).
    pieces: Vec<Piece>,
}

impl Padding {
    fn of(site: &Site<'_>) -> Option<Padding> {
        let of = site.func.op_ref(site.op);
        let data = site.data();
        let pad = Pad::of(&of).ok()?;
        let amounts = pad.amounts(&of).ok()?;
        if amounts.low.iter().chain(&amounts.high).any(|&n| n < 0) {
            return None;
        }
        let operand = site.slot(*data.operands.first()?)?;
        let result = site.slot(*data.results.first()?)?;
        let (own, shape) = (operand.access.shape(), result.access.shape());
        let mut padding = Padding {
            value: pad.value.element(result.dtype).to_bytes(),
            ..Padding::default()
        };
        let mut inner: Vec<Vec<usize>> = shape.iter().map(|&n| (0..n).collect()).collect();
        for (d, &n) in shape.iter().enumerate() {
            let low = usize::try_from(amounts.low[d]).ok()?.min(n);
            let high = usize::try_from(amounts.high[d]).ok()?.min(n - low);
            for range in [0..low, n - high..n] {
                if range.is_empty() {
                    continue;
                }
                let mut pick = inner.clone();
                pick[d] = range.collect();
                let target = result.access.picked(&pick);
                if pad.mode == PadMode::Constant {
                    padding.boxes.push(Nest::of([&target])?);
                    continue;
                }
                let mut sources = Vec::with_capacity(pick.len());
                for (d, pick) in pick.iter().enumerate() {
                    let source = |&at: &usize| source(at, amounts.low[d], own[d], pad.mode);
                    sources.push(pick.iter().map(source).collect::<Option<Vec<usize>>>()?);
                }
                let nest = Nest::of([&target, &operand.access.picked(&sources)])?;
                padding.pieces.push(Piece { operand: 0, nest });
            }
            inner[d] = (low..n - high).collect();
        }
        Some(padding)
    }

    /// The number of elements that it adds.
    fn count(&self) -> u64 {
        let boxes: u64 = self.boxes.iter().map(Nest::count).sum();
        let pieces: u64 = self.pieces.iter().map(|piece| piece.nest.count()).sum();
        boxes.saturating_add(pieces)
    }
}

/// The operand's index that a pad of this mode reads at index `at` of the result; `low` elements come before the operand's
/// `n`.
fn source(at: usize, low: i64, n: usize, mode: PadMode) -> Option<usize> {
    let (at, n) = (i64::try_from(at).ok()? - low, i64::try_from(n).ok()?);
    let place = match mode {
        PadMode::Constant => at,
        PadMode::Edge => at.clamp(0, (n - 1).max(0)),
        PadMode::Wrap => at.checked_rem_euclid(n)?,
        PadMode::Reflect if at < 0 => -at,
        PadMode::Reflect if n <= at => 2 * (n - 1) - at,
        PadMode::Reflect => at,
    };
    usize::try_from(place)
        .ok()
        .filter(|&place| place < n as usize)
}

/// The copies of an operation whose results are parts of its operand, or whose operands are parts that fill its result.
fn pieces(site: &Site<'_>, padding: &Padding) -> Option<Vec<Vec<Piece>>> {
    let data = site.data();
    let slot = |port: Port| site.slot(port.value(data)?);
    let known = |i: usize| in_place::constant(site.func, *data.operands.get(i)?);
    let of = site.func.op_ref(site.op);
    let decl = site.registry.get(&data.name)?;
    if decl.updates(&of).is_some() {
        return None;
    }
    let parts = decl.parts(&of, &known);
    let mut results: Vec<Vec<Piece>> = data.results.iter().map(|_| Vec::new()).collect();
    let mut filled = vec![usize::try_from(padding.count()).ok()?; results.len()];
    for one in &parts {
        let (small, large) = (slot(one.part)?, slot(one.whole)?);
        let there = part(one, &small.access.shape(), &large.access)?;
        let (result, piece) = match (one.part, one.whole) {
            (Port::Operand(i), Port::Result(r)) => {
                (r, piece(i, (small, &small.access), (large, &there))?)
            }
            (Port::Result(r), Port::Operand(i)) => {
                (r, piece(i, (large, &there), (small, &small.access))?)
            }
            _ => return None,
        };
        filled[result] += small.access.count();
        results[result].extend(piece);
    }
    let whole =
        |(result, n): (&Value, usize)| site.slot(*result).map(|s| s.access.count()) == Some(n);
    data.results
        .iter()
        .zip(filled)
        .all(whole)
        .then_some(results)
}

impl Kernel for Copy {
    fn name(&self) -> &'static str {
        "copy"
    }

    fn only_moves(&self) -> bool {
        true
    }

    fn is_idle(&self) -> bool {
        self.plan.is_none() && self.padding.count() == 0 && self.results.iter().all(Vec::is_empty)
    }

    fn run(&self, call: Call<'_>) -> Result<(), StepError> {
        let Call {
            result,
            ins,
            out,
            mut cx,
        } = call;
        if let (Some(plan), [In::Bytes(source)]) = (&self.plan, ins) {
            let fits = |bytes: &[u8], wanted: u64| bytes.len() as u64 == wanted;
            if fits(source, plan.source_bytes()) && fits(out, plan.target_bytes()) {
                let done = plan.execute_with(cx.team, source, out, cx.moved);
                return Ok(done?);
            }
        }
        for nest in &self.padding.boxes {
            if !nest.fits(0, out.len() / self.size) {
                return Err(KernelError::OutOfBounds.into());
            }
            fill(nest, &self.padding.value, out, cx.moved);
        }
        let pieces = self.results.get(result).into_iter().flatten();
        for Piece { operand, nest } in pieces.chain(&self.padding.pieces) {
            let source = match ins.get(*operand) {
                Some(In::Bytes(source)) => Some(*source),
                Some(In::Aliased) => None,
                Some(In::Inplace) | None => {
                    return Err(StepError::CopyWrittenOver);
                }
            };
            let elements = source.map_or(out.len(), <[u8]>::len) / self.size;
            if !nest.fits(0, out.len() / self.size) || !nest.fits(1, elements) {
                return Err(KernelError::OutOfBounds.into());
            }
            match source {
                Some(source) => shared(nest, self.size, source, out, &mut cx)?,
                None => copy_among(nest, self.size, out, cx.moved),
            }
        }
        Ok(())
    }
}

/// Copies elements of `size` bytes, shared by threads.
fn shared(
    nest: &Nest<2>,
    size: usize,
    source: &[u8],
    out: &mut [u8],
    cx: &mut Context<'_>,
) -> Result<(), StepError> {
    let threads = cx.team.worth(nest.count(), team::ELEMENTS);
    let found = match threads {
        1 => None,
        _ => {
            let loops: Vec<_> = nest.loops().into_iter().map(|l| (l, 1)).collect();
            team::along(nest.base(0), &loops, threads)
        }
    };
    let Some((number, shares)) = found else {
        copy_at(nest, size, [0, 0], source, out, cx.moved);
        return Ok(());
    };
    let bytes = nest.count().saturating_mul(size as u64);
    cx.moved.add(bytes, bytes);
    cx.team.share_bytes(out, size, &shares, |share, out| {
        let part = nest.part(number, share.units.clone(), share.places.start);
        copy_at(&part, size, [0, 0], source, out, &mut Moved::default());
        Ok(())
    })
}

/// Copies elements of `size` bytes, with all places shifted by `by` elements.
///
/// # Panics
/// An element is out of bounds.
pub(crate) fn copy_at(
    nest: &Nest<2>,
    size: usize,
    by: [i64; 2],
    source: &[u8],
    out: &mut [u8],
    moved: &mut Moved,
) {
    let bytes = nest.count().saturating_mul(size as u64);
    moved.add(bytes, bytes);
    match size {
        1 => copy::<1>(nest, by, source, out),
        2 => copy::<2>(nest, by, source, out),
        4 => copy::<4>(nest, by, source, out),
        8 => copy::<8>(nest, by, source, out),
        _ => copy::<16>(nest, by, source, out),
    }
}

/// Fills places with one element.
fn fill(nest: &Nest<1>, value: &[u8], out: &mut [u8], moved: &mut Moved) {
    let size = value.len();
    moved.add(0, nest.count().saturating_mul(size as u64));
    let (n, [step]) = nest.inner;
    nest.each(|[at]| {
        for i in 0..n as i64 {
            let at = (at + step * i) as usize * size;
            out[at..at + size].copy_from_slice(value);
        }
    });
}

/// Copies elements of `size` bytes within one buffer.
fn copy_among(nest: &Nest<2>, size: usize, out: &mut [u8], moved: &mut Moved) {
    let bytes = nest.count().saturating_mul(size as u64);
    moved.add(bytes, bytes);
    let (n, [to, from]) = nest.inner;
    nest.each(|[at, read]| {
        let (run, times) = if (to, from) == (1, 1) { (n, 1) } else { (1, n) };
        for i in 0..times as i64 {
            let (at, read) = (
                (at + to * i) as usize * size,
                (read + from * i) as usize * size,
            );
            out.copy_within(read..read + run * size, at);
        }
    });
}

fn copy<const N: usize>(nest: &Nest<2>, by: [i64; 2], source: &[u8], out: &mut [u8]) {
    let (source, _) = source.as_chunks::<N>();
    let (out, _) = out.as_chunks_mut::<N>();
    let (n, [to, from]) = nest.inner;
    nest.each(|[at, read]| {
        let places = |i: usize| {
            let at = at + by[0] + to * i as i64;
            let read = read + by[1] + from * i as i64;
            (at as usize, read as usize)
        };
        let (at, read) = places(0);
        match (to, from) {
            (1, 1) => copy_line(&source[read..read + n], &mut out[at..at + n]),
            (1, 0) => out[at..at + n].fill(source[read]),
            _ => {
                for i in 0..n {
                    let (at, read) = places(i);
                    out[at] = source[read];
                }
            }
        }
    });
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn elements_are_copied_to_places_that_go_back() {
        let access = |base: i64, strides: &[i64]| Access::strided(&[2, 3], strides).moved(base);
        for [to, from] in [
            [access(5, &[-3, -1]), access(0, &[3, 1])],
            [access(2, &[3, -1]), access(0, &[1, 2])],
            [access(0, &[3, 1]), access(5, &[-3, -1])],
            [access(1, &[-1, 2]), access(4, &[1, -2])],
        ] {
            let nest = Nest::of([&to, &from]).expect("both are sums");
            let source: Vec<u8> = (10..16).collect();
            let (mut out, mut moved) = ([0; 6], Moved::default());
            copy_at(&nest, 1, [0, 0], &source, &mut out, &mut moved);
            let (mut places, mut wanted) = (Vec::new(), [0; 6]);
            to.each(|at| places.push(at as usize));
            let mut places = places.into_iter();
            from.each(|at| {
                let place = places.next().expect("there are as many");
                wanted[place] = source[at as usize];
            });
            assert_eq!(out, wanted, "{to:?} {from:?}");
            let nest = Nest::of([&to]).expect("it is a sum");
            fill(&nest, &[7], &mut out, &mut moved);
            assert_eq!(out, [7; 6]);
        }
    }
}
