//! Parts and combinations of parts: slices, splits, concatenations and padding, along the first digit of a dimension.
//!
//! Example: the elements 2 to 4 of a line are `tensor.extract_slice %x[2] [3] [1]`. A part with a negative stride is no
//! slice and is read element by element.

use super::body::{Body, Idx, Scalar};
use super::digits::extents;
use super::mem::{Mem, Outcome, Port};
use super::nest::Nest;
use super::types::number_text;
use super::writer::{Init, Writer};
use crate::unwritten::{Form, Unwritten, first, known};
use optc_ir::op::{OpRef, Operation};
use optc_ir::{OpData, Size, Value};
use optc_layout::{Cuts, Digit};
use optc_ops::{Concat, Pad, PadMode, PadValue, Slice, SlicePart, Split, Subview};

/// Returns whether an operation is a subview that does not repeat elements.
pub(super) fn is_part(op: &OpRef<'_>) -> bool {
    Subview::of(op).is_ok_and(|part| !part.broadcast)
}

/// Writes the operation if it is one of these.
pub(super) fn write(w: &mut Writer<'_>, data: &OpData) -> Form<()> {
    let op = w.op_ref(data);
    match &*data.name {
        Slice::NAME | Subview::NAME => {
            let parts = match w.typed::<Slice>(data) {
                Some(slice) => slice.parts(&op),
                None => Subview::of(&op).and_then(|part| part.parts(&op)),
            };
            let parts = parts.map_err(|e| w.refuse(&e.to_string()))?;
            let (x, y) = (data.operands[0], data.results[0]);
            let ranges = ranges(w, x, &parts)?;
            part(w, x, y, &ranges)?;
            Ok(())
        }
        Split::NAME => split(w, data),
        Concat::NAME => concat(w, data),
        Pad::NAME => pad(w, data),
        _ => Err(Unwritten::NoForm),
    }
}

/// The range of one dimension: its first element, the number of elements and the stride.
#[derive(Clone, Copy, Debug)]
struct Range {
    start: u64,
    size: u64,
    stride: i64,
}

fn ranges(w: &Writer<'_>, x: Value, parts: &[SlicePart]) -> Outcome<Vec<Range>> {
    let shape = w.shape(x)?;
    let range = |(part, &n): (&SlicePart, &u64)| {
        let unknown = || w.refuse("its part is not known");
        let start = w.number(&part.start)?;
        let size = w.number(&part.size.size().ok_or_else(unknown)?)?;
        let steps = i128::from(part.stride) * (i128::from(size.max(1)) - 1);
        let last = i128::from(start) + steps;
        let inside = size == 0 || (start < n && 0 <= last && last < i128::from(n));
        // The shape rule has checked unknown sizes.
        let open = [start, size, n].iter().any(|&n| w.sizes.stands(n));
        let stride = part.stride;
        match inside || open {
            true => Ok(Range {
                start,
                size,
                stride,
            }),
            false => Err(unknown()),
        }
    };
    parts.iter().zip(&shape).map(range).collect()
}

/// A part of a value: a slice of its digits if they contain it, else element by element.
fn part(w: &mut Writer<'_>, x: Value, y: Value, ranges: &[Range]) -> Outcome<()> {
    let (from, to) = (w.digits(x)?, w.digits(y)?);
    let shape = w.shape(x)?;
    if let Some((cut, offsets, sizes, strides)) = sliced(&from, &to, &shape, ranges) {
        let mem = w.mem(x)?;
        let mem = w.reshape(&mem, &extents(&cut));
        let kept: Vec<Digit> = cut
            .iter()
            .zip(&sizes)
            .map(|(d, &n)| Digit::new(d.of, d.div, n))
            .filter(|d| d.extent != 1)
            .collect();
        let out = Mem {
            name: String::new(),
            shape: sizes.clone(),
            dtype: mem.dtype,
        };
        let text = format!(
            "tensor.extract_slice {}{} {} {strides:?} : {} to {}",
            mem.name,
            w.sizes.list(&offsets),
            w.sizes.list(&sizes),
            w.sizes.ty(&mem),
            w.sizes.ty(&out)
        );
        let made = w.put(&text, &sizes, mem.dtype);
        return w.settle(y, &made, &kept);
    }
    let read = w.indexed(x)?;
    let nest = Nest::plain(&to);
    let out = (&*to, read.mem.dtype);
    let made = w.generic(&nest, &[], out, Init::Empty, |b, nest, _, _| {
        let index: Vec<Idx> = ranges
            .iter()
            .enumerate()
            .map(|(d, range)| {
                let at = nest.index(b, d);
                let step = b.times(&at, range.stride);
                let start = b.extent(range.start);
                b.plus(&step, &start)
            })
            .collect();
        b.read(&read.mem, &read.digits, &index)
    });
    w.settle(y, &made, &to)
}

/// Digits, with the offset, size and stride of each.
type Sliced = (Vec<Digit>, Vec<u64>, Vec<u64>, Vec<u64>);

/// The part of a tensor as a slice of digits; `None` if it is not one.
fn sliced(from: &[Digit], to: &[Digit], shape: &[u64], ranges: &[Range]) -> Option<Sliced> {
    if ranges.iter().any(|r| r.size == 0) {
        return None;
    }
    let digits = Cuts::of(&[from, to]).refine(from)?;
    let (mut offsets, mut sizes) = (vec![0; digits.len()], extents(&digits));
    let mut strides = vec![1; digits.len()];
    for (dim, range) in ranges.iter().enumerate() {
        if range.size == shape[dim] && range.stride == 1 {
            continue;
        }
        // The part is a range of the dimension's first digit.
        let first = (0..digits.len())
            .filter(|&i| digits[i].of == dim)
            .max_by_key(|&i| digits[i].div)?;
        let low = digits[first].div;
        let stride = u64::try_from(range.stride).ok().filter(|s| 0 < *s)?;
        if low == 1 {
            (offsets[first], sizes[first], strides[first]) = (range.start, range.size, stride);
            continue;
        }
        let whole = [range.start, range.size].iter().all(|n| n % low == 0);
        if !whole || stride != 1 {
            return None;
        }
        (offsets[first], sizes[first]) = (range.start / low, range.size / low);
    }
    Some((digits, offsets, sizes, strides))
}

fn split(w: &mut Writer<'_>, data: &OpData) -> Form<()> {
    let Split { axis, sizes } = known(w.typed(data))?;
    let x = data.operands[0];
    let shape = w.shape(x)?;
    let rank = i64::try_from(shape.len()).unwrap_or(i64::MAX);
    let axis = usize::try_from(if axis < 0 { axis + rank } else { axis });
    let axis = known(axis.ok())?;
    let mut start = 0;
    for (&y, &size) in data.results.iter().zip(&sizes) {
        let size = u64::try_from(size).unwrap_or(0);
        let mut ranges: Vec<Range> = shape
            .iter()
            .map(|&size| Range {
                start: 0,
                size,
                stride: 1,
            })
            .collect();
        (ranges[axis].start, ranges[axis].size) = (start, size);
        part(w, x, y, &ranges)?;
        start += size;
    }
    Ok(())
}

fn concat(w: &mut Writer<'_>, data: &OpData) -> Form<()> {
    let op = w.op_ref(data);
    let axis = known(w.typed::<Concat>(data))?.along(&op)?;
    first([false, true], |plain| joined(w, data, axis, plain))
}

/// Inserts the parts one after the other, each in the order of the result's digits.
fn joined(w: &mut Writer<'_>, data: &OpData, axis: usize, plain: bool) -> Form<()> {
    let result = data.results[0];
    let (out, dtype) = (w.wanted(result, plain)?, w.tensor(result)?.dtype);
    let mut ins = Vec::with_capacity(data.operands.len());
    for &value in &data.operands {
        ins.push((w.operand(value, plain)?, w.shape(value)?[axis]));
    }
    let mut cuts = Cuts::of(&[&out]);
    ins.iter().for_each(|(port, _)| cuts.add(&port.digits));
    let digits = known(cuts.refine(&out))?;
    let along = digits.iter().enumerate().filter(|(_, d)| d.of == axis);
    let Some(first) = along.max_by_key(|(_, d)| d.div).map(|(i, _)| i) else {
        // The result has one element: take it from the only operand that has one.
        let one = ins.iter().find(|(_, n)| *n == 1);
        let one = one.filter(|_| !extents(&digits).contains(&0));
        let Port { mem, digits } = known(one)?.0.clone();
        return Ok(w.settle(result, &mem, &digits)?);
    };
    let low = digits[first].div;
    if ins.iter().any(|(_, n)| n % low != 0) {
        return Err(Unwritten::NoForm);
    }
    let shape = extents(&digits);
    let mut into = w.empty(&shape, dtype);
    let mut start = Size::default();
    for (port, n) in ins {
        if n == 0 {
            continue;
        }
        let mut own = digits.clone();
        own[first].extent = n / low;
        let sizes = extents(&own);
        own.retain(|d| d.extent != 1);
        let mem = w.arrange(&port.mem, &port.digits, &own);
        let mem = w.reshape(&mem, &sizes);
        let mut offsets = vec!["0".to_owned(); shape.len()];
        offsets[first] = match start.as_constant() {
            Some(n) => n.to_string(),
            None => w.sizes.written(&start),
        };
        let strides = vec![1; shape.len()];
        let text = format!(
            "tensor.insert_slice {} into {}[{}] {} {strides:?} : {} into {}",
            mem.name,
            into.name,
            offsets.join(", "),
            w.sizes.list(&sizes),
            w.sizes.ty(&mem),
            w.sizes.ty(&into)
        );
        into = w.put(&text, &shape, dtype);
        let next = start.plus(&w.sizes.size(n / low));
        start = next.ok_or_else(|| w.refuse("a size is not known"))?;
    }
    let digits = w.wanted(result, plain)?;
    w.settle(result, &into, &digits)?;
    Ok(())
}

fn pad(w: &mut Writer<'_>, data: &OpData) -> Form<()> {
    let op = w.op_ref(data);
    let about = known(w.typed::<Pad>(data))?;
    let amounts = about.amounts(&op);
    let amounts = amounts.map_err(|e| w.refuse(&e.to_string()))?;
    let result = data.results[0];
    let dtype = w.tensor(result)?.dtype;
    let number = match about.value {
        _ if !dtype.computes() => return Err(Unwritten::NoForm),
        PadValue::Int(n) if dtype.is_int() && !dtype.is_bool() => n.to_string(),
        PadValue::Int(n) => number_text(n as f64, dtype),
        PadValue::Float(x) => number_text(x, dtype),
    };
    let positive = amounts.low.iter().chain(&amounts.high).all(|n| 0 <= *n);
    let x = w.operand(data.operands[0], false)?;
    if about.mode == PadMode::Constant && positive {
        let amount = |n: i64| n.unsigned_abs();
        if let Some(made) = around(w, result, &x, &amounts.low, &amounts.high, &number, amount)? {
            let (mem, digits) = made;
            w.settle(result, &mem, &digits)?;
            return Ok(());
        }
    }
    let shape = w.shape(data.operands[0])?;
    let to = w.digits(result)?;
    let mem = w.reshape(&x.mem, &extents(&x.digits));
    let nest = Nest::plain(&to);
    let made = w.generic(&nest, &[], (&to, dtype), Init::Empty, |b, nest, _, _| {
        let mut inside: Option<Scalar> = None;
        let mut index = Vec::with_capacity(shape.len());
        for (d, &n) in shape.iter().enumerate() {
            let at = nest.index(b, d);
            let from = b.minus(&at, &Idx::Const(amounts.low[d]));
            let (place, fits) = source(b, &from, n, about.mode);
            index.push(place);
            inside = match (inside, fits) {
                (Some(a), Some(c)) => Some(b.op("arith.andi", &[&a, &c])),
                (a, c) => a.or(c),
            };
        }
        if shape.contains(&0) {
            return b.literal(&number, super::types::wide(dtype));
        }
        let x = b.read(&mem, &x.digits, &index);
        match inside {
            Some(inside) => {
                let fill = b.literal(&number, x.ty);
                b.select(&inside, &x, &fill)
            }
            None => x,
        }
    });
    w.settle(result, &made, &to)?;
    Ok(())
}

/// The source index for a position of a padded dimension, and a condition that is true inside (`None` if every position
/// has a source).
fn source(b: &mut Body, from: &Idx, n: u64, mode: PadMode) -> (Idx, Option<Scalar>) {
    let extent = b.extent(n);
    let last = match &extent {
        Idx::Const(n) => Idx::Const((n - 1).max(0)),
        Idx::Name(_) => b.minus(&extent, &Idx::Const(1)),
    };
    match mode {
        PadMode::Constant => {
            let (low, high) = (
                b.index_compare("sge", from, &Idx::Const(0)),
                b.index_compare("slt", from, &extent),
            );
            let inside = b.op("arith.andi", &[&low, &high]);
            (b.clamped(from, 0, &last), Some(inside))
        }
        PadMode::Edge => (b.clamped(from, 0, &last), None),
        PadMode::Reflect => {
            // A negative index is reflected at 0, one beyond the end at the last element.
            let below = b.minus(&Idx::Const(0), from);
            let low = b.index_compare("slt", from, &Idx::Const(0));
            let from = b.index_select(&low, &below, from);
            let twice = b.times(&last, 2);
            let mirrored = b.minus(&twice, &from);
            let high = b.index_compare("sgt", &from, &last);
            let place = b.index_select(&high, &mirrored, &from);
            (b.clamped(&place, 0, &last), None)
        }
        PadMode::Wrap => {
            let rest = b.index(from);
            let by = match &extent {
                Idx::Const(n) => b.index(&Idx::Const((*n).max(1))),
                Idx::Name(name) => name.clone(),
            };
            let rest = Idx::Name(b.put(&format!("arith.remsi {rest}, {by} : index")));
            let place = b.counted_back(&rest, n.max(1));
            (b.clamped(&place, 0, &last), None)
        }
    }
}

/// Pads a tensor in its digits; `None` if the padding cannot be expressed in them.
fn around(
    w: &mut Writer<'_>,
    result: Value,
    x: &Port,
    low: &[i64],
    high: &[i64],
    number: &str,
    amount: fn(i64) -> u64,
) -> Outcome<Option<(Mem, Vec<Digit>)>> {
    let out = w.digits(result)?;
    let mut own = x.digits.clone();
    // A dimension of extent 1 that is padded gets a digit where the result has it, or first.
    for dim in 0..low.len() {
        let padded = (low[dim], high[dim]) != (0, 0);
        if padded && !own.iter().any(|d| d.of == dim) {
            own.insert(0, Digit::new(dim, 1, 1));
        }
    }
    let Some(mut digits) = Cuts::of(&[&out, &own]).refine(&own) else {
        return Ok(None);
    };
    let shape = extents(&digits);
    let (mut before, mut behind) = (vec![0; digits.len()], vec![0; digits.len()]);
    for dim in 0..low.len() {
        let (l, h) = (amount(low[dim]), amount(high[dim]));
        if (l, h) == (0, 0) {
            continue;
        }
        let along = digits.iter().enumerate().filter(|(_, d)| d.of == dim);
        let first = along.max_by_key(|(_, d)| d.div).map(|(i, d)| (i, d.div));
        let Some((first, by)) = first.filter(|(_, by)| l % by == 0 && h % by == 0) else {
            return Ok(None);
        };
        (before[first], behind[first]) = (l / by, h / by);
    }
    let mem = w.reshape(&x.mem, &shape);
    let mem = w.padded(&mem, &before, &behind, number)?;
    for (digit, &n) in digits.iter_mut().zip(&mem.shape) {
        digit.extent = n;
    }
    digits.retain(|d| d.extent != 1);
    Ok(Some((mem, digits)))
}
