//! Operations that read or write at computed positions: gathers, scatters, iotas and similar operations, cumulative sums
//! and products, sorting.
//!
//! Example: a `gather` is a `linalg.generic` over its result. The body reads an index with `tensor.extract`, adds the
//! extent if the index is negative, and reads the element at that position with another `tensor.extract`.

use super::body::{Body, Idx, Scalar};
use super::digits::{extents, row_major};
use super::mem::{Mem, Outcome, Port};
use super::nest::Nest;
use super::writer::{Init, Writer};
use crate::unwritten::{Form, Unwritten, known};
use optc_ir::op::{Direction, Operation};
use optc_ir::{DType, OpData, Value};
use optc_layout::Digit;
use optc_ops::{
    Cumprod, Cumsum, DynamicUpdateSlice, Gather, GatherElements, GatherNd, Iota, OneHot,
    RotaryEmbedding, ScatterElements, ScatterNd, ScatterReduction, Tile, TopK, Trilu,
};

/// Writes an operation if this module can write it. Returns whether it did.
pub(super) fn write(w: &mut Writer<'_>, data: &OpData) -> Form<()> {
    match &*data.name {
        Gather::NAME | GatherElements::NAME | GatherNd::NAME => gather(w, data),
        Iota::NAME | OneHot::NAME | Trilu::NAME | Tile::NAME => counted(w, data),
        ScatterNd::NAME | ScatterElements::NAME | DynamicUpdateSlice::NAME => scatter(w, data),
        Cumsum::NAME | Cumprod::NAME => running(w, data),
        RotaryEmbedding::NAME => rotated(w, data),
        TopK::NAME => top_k(w, data),
        _ => Err(Unwritten::NoForm),
    }
}

/// Writes a result whose elements `of` computes from their index.
fn elements(
    w: &mut Writer<'_>,
    result: Value,
    of: impl FnOnce(&mut Body, &[Idx]) -> Scalar,
) -> Outcome<()> {
    let (to, rank) = (w.digits(result)?, w.shape(result)?.len());
    let dtype = w.tensor(result)?.dtype;
    let nest = Nest::plain(&to);
    let made = w.generic(&nest, &[], (&to, dtype), Init::Empty, |b, nest, _, _| {
        let index: Vec<Idx> = (0..rank).map(|d| nest.index(b, d)).collect();
        of(b, &index)
    });
    w.settle(result, &made, &to)
}

/// Reads an index from an operand. A negative index counts from the end of a dimension of extent `n`.
fn place(b: &mut Body, indices: &Port, at: &[Idx], n: u64) -> Idx {
    let found = b.read(&indices.mem, &indices.digits, at);
    let found = b.as_index(&found);
    b.counted_back(&found, n)
}

fn gather(w: &mut Writer<'_>, data: &OpData) -> Form<()> {
    let op = w.op_ref(data);
    let (x, indices) = (w.indexed(data.operands[0])?, w.indexed(data.operands[1])?);
    let (x_shape, i_shape) = (w.shape(data.operands[0])?, w.shape(data.operands[1])?);
    let result = data.results[0];
    if let Some(axis) = w.typed::<Gather>(data).and_then(|g| g.along(&op).ok()) {
        elements(w, result, |b, at| {
            let inner = axis + i_shape.len();
            let place = place(b, &indices, &at[axis..inner], x_shape[axis]);
            let index = [&at[..axis], &[place], &at[inner..]].concat();
            b.read(&x.mem, &x.digits, &index)
        })?;
        return Ok(());
    }
    let along = w.typed::<GatherElements>(data);
    if let Some(axis) = along.and_then(|g| g.along(&op).ok()) {
        elements(w, result, |b, at| {
            let mut index = at.to_vec();
            index[axis] = place(b, &indices, at, x_shape[axis]);
            b.read(&x.mem, &x.digits, &index)
        })?;
        return Ok(());
    }
    let nd = w.typed::<GatherNd>(data);
    let (batch, depth) = known(nd)?.extents(&op)?;
    elements(w, result, |b, at| {
        let rows = i_shape.len() - 1;
        let mut index = at[..batch].to_vec();
        for d in 0..depth {
            let number = Idx::Const(i64::try_from(d).unwrap_or(0));
            let row = [&at[..rows], &[number]].concat();
            index.push(place(b, &indices, &row, x_shape[batch + d]));
        }
        index.extend_from_slice(&at[rows..]);
        b.read(&x.mem, &x.digits, &index)
    })?;
    Ok(())
}

/// Writes operations whose elements depend on their own index, and on elements of operands at computed indices.
fn counted(w: &mut Writer<'_>, data: &OpData) -> Form<()> {
    let op = w.op_ref(data);
    let result = data.results[0];
    let dtype = super::types::wide(w.tensor(result)?.dtype);
    if let Some(axis) = w.typed::<Iota>(data).and_then(|i| i.along(&op).ok()) {
        elements(w, result, |b, at| b.of_index(&at[axis], dtype))?;
        return Ok(());
    }
    if data.operands.is_empty() {
        return Err(Unwritten::NoForm);
    }
    let x = w.indexed(data.operands[0])?;
    let shape = w.shape(data.operands[0])?;
    if let Some(Trilu { k, upper }) = w.typed(data) {
        if !dtype.computes() {
            return Err(Unwritten::NoForm);
        }
        elements(w, result, |b, at| {
            let n = at.len();
            let diagonal = b.plus(&at[n - 2], &Idx::Const(k));
            let word = if upper { "sle" } else { "sge" };
            let keeps = b.index_compare(word, &diagonal, &at[n - 1]);
            let x = b.read(&x.mem, &x.digits, at);
            let zero = b.number(0.0, x.ty);
            b.select(&keeps, &x, &zero)
        })?;
        return Ok(());
    }
    if w.typed::<Tile>(data).is_some() {
        elements(w, result, |b, at| {
            let own = at.iter().zip(&shape);
            let index: Vec<Idx> = own.map(|(i, &n)| b.modulo(i, n)).collect();
            b.read(&x.mem, &x.digits, &index)
        })?;
        return Ok(());
    }
    let hot = known(w.typed::<OneHot>(data))?;
    let (axis, depth) = (hot.along(&op)?, hot.depth.unsigned_abs());
    let values = match data.operands.get(1) {
        Some(&values) => Some(w.indexed(values)?),
        None => None,
    };
    if values.is_none() && !dtype.computes() {
        return Err(Unwritten::NoForm);
    }
    elements(w, result, |b, at| {
        let mut row = at.to_vec();
        let own = row.remove(axis);
        let found = place(b, &x, &row, depth);
        let marked = b.index_compare("eq", &found, &own);
        let (off, on) = match &values {
            Some(values) => {
                let [off, on] =
                    [0, 1].map(|i| b.read(&values.mem, &values.digits, &[Idx::Const(i)]));
                (off, on)
            }
            None => (b.number(0.0, dtype), b.number(1.0, dtype)),
        };
        b.select(&marked, &on, &off)
    })?;
    Ok(())
}

impl Writer<'_> {
    /// Writes loops over `extents` that insert one element per step into a tensor, in row-major order. `step` returns the
    /// element and its position.
    fn sequential(
        &mut self,
        init: &Mem,
        extents: &[u64],
        step: impl FnOnce(&mut Body, &[Idx], &Mem) -> (Scalar, Vec<Idx>),
    ) -> Mem {
        // For a tensor of rank 0 the loops have one step.
        let extents = match extents {
            [] => &[1],
            all => all,
        };
        let ty = self.sizes.ty(init);
        let numbers: Vec<String> = [0, 1]
            .into_iter()
            .chain(extents.iter().copied())
            .map(|n| {
                if let Some(open) = self.sizes.index(n) {
                    return open;
                }
                let name = self.fresh();
                self.line(&format!("{name} = arith.constant {n} : index"));
                name
            })
            .collect();
        let (zero, one) = (&numbers[0], &numbers[1]);
        let result = self.fresh();
        let mut from = init.name.clone();
        for (d, end) in numbers[2..].iter().enumerate() {
            let name = match d {
                0 => result.clone(),
                _ => format!("%it_r{d}"),
            };
            self.line(&format!(
                "{name} = scf.for %it_{d} = {zero} to {end} step {one} iter_args(%it_t{d} = {from}) -> ({ty}) {{"
            ));
            from = format!("%it_t{d}");
        }
        let mut b = Body::new(6, &self.sizes);
        let index: Vec<Idx> = (0..extents.len())
            .map(|d| Idx::Name(format!("%it_{d}")))
            .collect();
        let into = Mem {
            name: from,
            ..init.clone()
        };
        let (made, places) = step(&mut b, &index, &into);
        let made = b.stored(&made, init.dtype);
        let places: Vec<String> = places.iter().map(|i| b.index(i)).collect();
        let text = format!(
            "tensor.insert {} into {}[{}] : {ty}",
            made.name,
            into.name,
            places.join(", ")
        );
        let mut last = b.put(&text);
        self.text.push_str(&b.text);
        for d in (0..extents.len()).rev() {
            self.line(&format!("scf.yield {last} : {ty}"));
            self.line("}");
            last = format!("%it_r{d}");
        }
        Mem {
            name: result,
            ..init.clone()
        }
    }
}

fn reduction(b: &mut Body, how: ScatterReduction, old: &Scalar, new: &Scalar) -> Scalar {
    match how {
        ScatterReduction::None => new.clone(),
        ScatterReduction::Add => b.add(old, new),
        ScatterReduction::Mul => b.mul(old, new),
        ScatterReduction::Max => b.max(old, new),
        ScatterReduction::Min => b.min(old, new),
    }
}

/// Writes a scatter: a copy of the first operand, into which the updates are written in row-major order.
fn scatter(w: &mut Writer<'_>, data: &OpData) -> Form<()> {
    let op = w.op_ref(data);
    let result = data.results[0];
    let shape = w.shape(data.operands[0])?;
    let (x, to) = (w.operand(data.operands[0], false)?, w.digits(result)?);
    let mem = w.arrange(&x.mem, &x.digits, &to);
    let init = w.reshape(&mem, &extents(&to));
    if shape.contains(&0) {
        w.set(result, init);
        return Ok(());
    }
    let second = w.indexed(data.operands[1])?;
    if &*data.name == DynamicUpdateSlice::NAME {
        return boxed(w, data, &init, &to, &second);
    }
    let updates = w.indexed(data.operands[2])?;
    let over = w.shape(data.operands[2])?;
    let rows = w.shape(data.operands[1])?.len().saturating_sub(1);
    let (how, axis, depth) = if let Some(s) = w.typed::<ScatterElements>(data) {
        (s.reduction, Some(s.along(&op)?), 0)
    } else if let Some(s) = w.typed::<ScatterNd>(data) {
        let depth = w.shape(data.operands[1])?.last().copied();
        if s.drop_outside {
            return Err(Unwritten::NoForm);
        }
        if depth.is_some_and(|n| w.sizes.stands(n)) {
            return Err(w.refuse("the length of an index is not known").into());
        }
        (s.reduction, None, depth.unwrap_or(0))
    } else {
        return Err(Unwritten::NoForm);
    };
    let made = w.sequential(&init, &over, |b, at, into| {
        let at = &at[..over.len()];
        let mut index = Vec::with_capacity(shape.len());
        match axis {
            Some(axis) => {
                index.extend_from_slice(at);
                index[axis] = place(b, &second, at, shape[axis]);
            }
            None => {
                for d in 0..depth {
                    let number = Idx::Const(i64::try_from(d).unwrap_or(0));
                    let row = [&at[..rows], &[number]].concat();
                    index.push(place(b, &second, &row, shape[index.len()]));
                }
                index.extend_from_slice(&at[rows..]);
            }
        }
        let new = b.read(&updates.mem, &updates.digits, at);
        let places = b.places(&to, &index);
        let made = match how {
            ScatterReduction::None => new,
            _ => {
                let old = element(b, into, &places);
                reduction(b, how, &old, &new)
            }
        };
        (made, places)
    });
    w.settle(result, &made, &to)?;
    Ok(())
}

/// The element of a tensor at these positions of its digits.
fn element(b: &mut Body, mem: &Mem, places: &[Idx]) -> Scalar {
    let names: Vec<String> = places.iter().map(|i| b.index(i)).collect();
    let text = format!(
        "tensor.extract {}[{}] : {}",
        mem.name,
        names.join(", "),
        b.sizes.ty(mem)
    );
    let raw = b.put(&text);
    b.widened(&raw, mem.dtype)
}

/// Writes a `dynamic_update_slice`: a box at the given starts, which are clamped so that the box lies within the tensor.
fn boxed(w: &mut Writer<'_>, data: &OpData, init: &Mem, to: &[Digit], update: &Port) -> Form<()> {
    let (shape, over) = (w.shape(data.operands[0])?, w.shape(data.operands[1])?);
    let mut starts = Vec::with_capacity(shape.len());
    for &value in &data.operands[2..] {
        starts.push(w.indexed(value)?);
    }
    let made = w.sequential(init, &over, |b, at, _| {
        let at = &at[..over.len()];
        let mut index = Vec::with_capacity(shape.len());
        for (d, start) in starts.iter().enumerate() {
            let first = b.read(&start.mem, &start.digits, &[]);
            let first = b.as_index(&first);
            let (whole, part) = (b.extent(shape[d]), b.extent(over[d]));
            let room = b.minus(&whole, &part);
            let first = b.clamped(&first, 0, &room);
            index.push(b.plus(&first, &at[d]));
        }
        let new = b.read(&update.mem, &update.digits, at);
        (new, b.places(to, &index))
    });
    w.settle(data.results[0], &made, to)?;
    Ok(())
}

/// Cumulative sums and products: each element combines the previous result with its own operand, or, if exclusive, with
/// the previous operand.
fn running(w: &mut Writer<'_>, data: &OpData) -> Form<()> {
    let op = w.op_ref(data);
    let (axis, exclusive, reverse, sum) = match w.typed::<Cumsum>(data) {
        Some(run) => (run.along(&op)?, run.exclusive, run.reverse, true),
        None => {
            let run = known(w.typed::<Cumprod>(data))?;
            (run.along(&op)?, run.exclusive, run.reverse, false)
        }
    };
    let result = data.results[0];
    let (shape, to) = (w.shape(result)?, w.digits(result)?);
    let x = w.indexed(data.operands[0])?;
    let dtype = x.mem.dtype;
    // Sums of narrow floats are accumulated in a wider type and narrowed at the end.
    let sums = super::types::wide(dtype);
    if shape.contains(&0) {
        let none = w.empty(&extents(&to), dtype);
        w.set(result, none);
        return Ok(());
    }
    let init = w.empty(&extents(&to), sums);
    let made = w.sequential(&init, &shape, |b, at, into| {
        let extent = b.extent(shape[axis]);
        let last = b.minus(&extent, &Idx::Const(1));
        let mut own = at.to_vec();
        if reverse {
            own[axis] = b.minus(&last, &at[axis]);
        }
        let one = Idx::Const(1);
        let (toward, back) = match reverse {
            true => (b.plus(&own[axis], &one), last.clone()),
            false => (b.minus(&own[axis], &one), Idx::Const(0)),
        };
        let first = b.index_compare("eq", &own[axis], &back);
        let mut before = own.clone();
        before[axis] = b.clamped(&toward, 0, &last);
        let places = b.places(&to, &before);
        let old = element(b, into, &places);
        let none = b.number(if sum { 0.0 } else { 1.0 }, sums);
        let old = b.select(&first, &none, &old);
        let from = if exclusive { &before } else { &own };
        let new = b.read(&x.mem, &x.digits, from);
        let new = match exclusive {
            true => b.select(&first, &none, &new),
            false => new,
        };
        let made = match sum {
            true => b.add(&old, &new),
            false => b.mul(&old, &new),
        };
        (made, b.places(&to, &own))
    });
    let made = w.narrowed(&made, dtype);
    w.settle(result, &made, &to)?;
    Ok(())
}

/// Rotates each pair of elements by the cosine and sine of its position.
fn rotated(w: &mut Writer<'_>, data: &OpData) -> Form<()> {
    let op = w.op_ref(data);
    let about = known(w.typed::<RotaryEmbedding>(data))?;
    let (axis, Some(size)) = (about.sequence()?, about.rotated(&op)?) else {
        return Err(Unwritten::NoForm);
    };
    let mut ports = Vec::with_capacity(data.operands.len());
    for &value in &data.operands {
        ports.push(w.indexed(value)?);
    }
    let table = w.shape(data.operands[1])?;
    let positions = match data.operands.get(3) {
        Some(&value) => Some(w.shape(value)?),
        None => None,
    };
    let last = w.shape(data.operands[0])?.last().copied().unwrap_or(0);
    if size == 0 {
        return Err(Unwritten::NoForm);
    }
    let (half, end) = (size / 2, i64::try_from(size).unwrap_or(i64::MAX));
    elements(w, data.results[0], |b, at| {
        let own = &at[3];
        // Elements that are not rotated read the last pair, so that the access is in bounds, but keep their own value.
        let kept = b.index_compare("sge", own, &Idx::Const(end));
        let near = match size == last {
            true => own.clone(),
            false => b.clamped(own, 0, &Idx::Const(end - 1)),
        };
        let (pair, number) = match about.interleaved {
            true => (b.over(&near, 2), b.modulo(&near, 2)),
            false => (b.modulo(&near, half), b.over(&near, half)),
        };
        let second = b.index_compare("eq", &number, &Idx::Const(1));
        let step = match about.interleaved {
            true => 1,
            false => i64::try_from(half).unwrap_or(i64::MAX),
        };
        let (below, above) = (
            b.minus(&near, &Idx::Const(step)),
            b.plus(&near, &Idx::Const(step)),
        );
        let other = b.index_select(&second, &below, &above);
        let batch = |n: u64| match n {
            1 => Idx::Const(0),
            _ => at[0].clone(),
        };
        let row = match &positions {
            Some(shape) => {
                let place = [batch(shape[0]), at[axis].clone()];
                let found = b.read(&ports[3].mem, &ports[3].digits, &place);
                vec![b.as_index(&found), pair]
            }
            None => vec![batch(table[0]), at[axis].clone(), pair],
        };
        let [cosine, sine] = [1, 2].map(|i| b.read(&ports[i].mem, &ports[i].digits, &row));
        let with = |last: &Idx| [&at[..3], std::slice::from_ref(last)].concat();
        let x = &ports[0];
        let own = b.read(&x.mem, &x.digits, at);
        let other = b.read(&x.mem, &x.digits, &with(&other));
        let (along, across) = (b.mul(&cosine, &own), b.mul(&sine, &other));
        let (less, more) = (b.sub(&along, &across), b.add(&along, &across));
        let made = b.select(&second, &more, &less);
        b.select(&kept, &own, &made)
    })?;
    Ok(())
}

/// The rank of each element along an axis: the number of elements that come before it in the result of a `top_k`.
/// `rivals` are the digits of the elements that it is compared with, with the loop `other` for the axis. `None` if there are no loops over both.
fn ranks(
    w: &mut Writer<'_>,
    x: &Mem,
    [whole, rivals]: [&[Digit]; 2],
    [axis, other]: [usize; 2],
    largest: bool,
) -> Option<Mem> {
    let long = DType::SI64;
    let port = Port {
        mem: x.clone(),
        digits: rivals.to_vec(),
    };
    let nest = Nest::of(&[whole, rivals])?;
    let zero = Init::Fill("0".to_owned());
    Some(
        w.generic(&nest, &[port], (whole, long), zero, |b, nest, xs, acc| {
            let at: Vec<Idx> = (0..other).map(|d| nest.index(b, d)).collect();
            let than = nest.index(b, other);
            let own = b.read(x, whole, &at);
            let better = before(b, &xs[0], &own, largest);
            let worse = before(b, &own, &xs[0], largest);
            let earlier = b.index_compare("slt", &than, &at[axis]);
            let truth = b.literal("true", DType::BOOL);
            let level = b.op("arith.xori", &[&worse, &truth]);
            let first = b.op("arith.andi", &[&earlier, &level]);
            let counts = b.op("arith.ori", &[&better, &first]);
            let one = b.cast(&counts, long);
            b.add(acc, &one)
        }),
    )
}

/// The first elements along an axis in sorted order. The rank of each element is the number of elements before it; then
/// the position with each rank is found.
fn top_k(w: &mut Writer<'_>, data: &OpData) -> Form<()> {
    let op = w.op_ref(data);
    let about = known(w.typed::<TopK>(data))?;
    let (axis, &[values, indices]) = (about.along(&op)?, &data.results[..]) else {
        return Err(Unwritten::NoForm);
    };
    let shape = w.shape(data.operands[0])?;
    let other = shape.len();
    let (x, whole, long) = (
        w.operand(data.operands[0], true)?,
        row_major(&shape),
        DType::SI64,
    );
    let x = Port {
        mem: w.reshape(&x.mem, &extents(&whole)),
        ..x
    };
    // The axis a second time, with a loop of its own.
    let turned = |d: &Digit| match d.of == axis {
        true => Digit { of: other, ..*d },
        false => *d,
    };
    let rivals: Vec<Digit> = whole.iter().map(turned).collect();
    let ranks = known(ranks(
        w,
        &x.mem,
        [&whole, &rivals],
        [axis, other],
        about.largest,
    ))?;
    let chosen = row_major(&w.shape(indices)?);
    let port = Port {
        mem: ranks,
        digits: rivals,
    };
    let nest = known(Nest::of(&[&chosen, &port.digits]))?;
    let places = w.generic(
        &nest,
        &[port],
        (&chosen, long),
        Init::Fill("0".to_owned()),
        |b, nest, xs, acc| {
            let (wanted, at) = (nest.index(b, axis), nest.index(b, other));
            let wanted = b.of_index(&wanted, long);
            let found = b.compare(Direction::Eq, &xs[0], &wanted);
            let place = b.of_index(&at, long);
            b.select(&found, &place, acc)
        },
    );
    elements(w, values, |b, at| {
        let found = b.read(&places, &chosen, at);
        let mut index = at.to_vec();
        index[axis] = b.as_index(&found);
        b.read(&x.mem, &whole, &index)
    })?;
    let to = w.tensor(indices)?.dtype;
    elements(w, indices, |b, at| {
        let found = b.read(&places, &chosen, at);
        b.cast(&found, to)
    })?;
    Ok(())
}

/// Computes whether `x` is sorted before `y`. NaN counts as the greatest number.
fn before(b: &mut Body, x: &Scalar, y: &Scalar, largest: bool) -> Scalar {
    let (high, low) = if largest { (x, y) } else { (y, x) };
    let above = b.compare(Direction::Gt, high, low);
    if !x.ty.is_float() {
        return above;
    }
    let (nan, other) = (b.is_nan(high), b.is_nan(low));
    let truth = b.literal("true", DType::BOOL);
    let number = b.op("arith.xori", &[&other, &truth]);
    let alone = b.op("arith.andi", &[&nan, &number]);
    b.op("arith.ori", &[&above, &alone])
}
