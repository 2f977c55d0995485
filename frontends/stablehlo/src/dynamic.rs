//! Operations that are handed numbers as operands: where these are sizes, they are the ordinary operations, with the
//! sizes in their attributes.
//!
//! The operands that say the sizes stay operands of the instruction: one that the IR has no operation for is written
//! again with them.

use crate::attrs::{braces, field, field_ints, int, symbol};
use crate::cursor::Step;
use crate::sizes::is_reduce_window;
use crate::translate::{Body, Translator};
use crate::tree::{Op, Use};
use optc_hlo::size;
use optc_ir::Size;
use optc_layout::{XlaArray, XlaDim, XlaShape, XlaType};
use std::borrow::Cow;
use std::sync::Arc;

/// How many dimensions a slice that is a gather of one place has at most.
const MOST_DIMS: usize = 64;

/// The dimension of a size; none of a negative number.
fn dim(size: &Size) -> Option<XlaDim> {
    Some(match size.as_constant() {
        Some(n) => XlaDim::Size(u64::try_from(n).ok()?),
        None => XlaDim::Named(Arc::from(size.to_text())),
    })
}

/// The same elements in an array of these sizes.
fn resized(array: &XlaArray, sizes: &[Size]) -> Option<Arc<XlaShape>> {
    let mut shape = XlaShape::Array(XlaArray {
        element: array.element,
        dims: sizes.iter().map(dim).collect::<Option<_>>()?,
        notation: None,
    });
    shape.complete();
    Some(Arc::new(shape))
}

fn sizes(array: &XlaArray) -> Option<Vec<Size>> {
    array.dims.iter().map(size).collect()
}

/// Whether `a <= b` is possible.
fn may_be_at_most(a: &Size, b: &Size) -> bool {
    a.minus(b).is_none_or(|over| !over.is_at_least(1))
}

/// The part of one dimension.
struct Range {
    start: Size,
    limit: Size,
    step: Size,
}

impl Range {
    /// The number of elements, if the range may lie within `n` of them.
    fn count(&self, n: &Size) -> Option<Size> {
        let step = self.step.as_constant().filter(|&step| 1 <= step)?;
        let inside = may_be_at_most(&Size::default(), &self.start)
            && may_be_at_most(&self.start, &self.limit)
            && may_be_at_most(&self.limit, n);
        let length = self.limit.minus(&self.start)?;
        length.quotient_up(&Size::constant(step)).filter(|_| inside)
    }
}

fn bounds(ranges: &[Range]) -> impl Iterator<Item = &Size> {
    ranges.iter().flat_map(|range| [&range.start, &range.limit])
}

/// The ranges as the text of a slice has them.
fn texts(ranges: &[Range]) -> String {
    let one = |r: &Range| format!("[{}:{}:{}]", r.start, r.limit, r.step);
    let all: Vec<String> = ranges.iter().map(one).collect();
    format!("{{{}}}", all.join(", "))
}

impl<'a> Translator<'a> {
    /// An operation whose operands say sizes as instructions; none where they are not known.
    pub(crate) fn dynamic(
        &mut self,
        body: &mut Body<'a>,
        op: &Op<'a>,
        operands: &[usize],
        shape: &Arc<XlaShape>,
    ) -> Step<Option<Vec<usize>>> {
        let Some(array) = shape.as_array() else {
            return Ok(None);
        };
        let [x, ..] = *operands else { return Ok(None) };
        // Sizes of convolutions are named as those of all of them are.
        if op.name != "stablehlo.dynamic_conv" && !self.is_sized(body, &[x], array) {
            return Ok(None);
        }
        match (op.name, operands) {
            ("stablehlo.real_dynamic_slice", &[x, starts, _, _]) => {
                if body.integers(op, 1).is_none() {
                    return Ok(placed(body, op, [x, starts], shape));
                }
                Ok(sliced(body, op, operands, shape))
            }
            ("stablehlo.custom_call", [_, _, ..]) if is_reduce_window(op) => {
                self.windows(body, op, operands, shape)
            }
            ("stablehlo.dynamic_gather", &[x, _, _]) => {
                let Some(taken) = body.integers(op, 2) else {
                    return Ok(None);
                };
                if let Some(made) = self.one_place(body, op, x, &taken, shape) {
                    return Ok(Some(made));
                }
                if !body.has_sizes(&[x], &taken) {
                    return Ok(None);
                }
                let list: Vec<String> = taken.iter().map(Size::to_string).collect();
                let attrs = self.gather(op, format!("{{{}}}", list.join(",")))?;
                Ok(Some(vec![body.push(
                    "gather",
                    shape.clone(),
                    operands.to_vec(),
                    attrs,
                )]))
            }
            ("stablehlo.gather", &[x, _]) => {
                let open = body.array(x).is_some_and(|x| x.sizes().is_none());
                let taken = op.needs_ints(&["slice_sizes"])?;
                let taken: Vec<Size> = taken
                    .iter()
                    .map(|&n| Size::constant(i128::from(n)))
                    .collect();
                Ok(match open {
                    true => self.one_place(body, op, x, &taken, shape),
                    false => None,
                })
            }
            ("stablehlo.dynamic_pad", &[x, fill, _, _, _]) => {
                let Some(amounts) = amounts(body, op) else {
                    return Ok(None);
                };
                if let Some(text) = numbers(&amounts) {
                    let attrs = vec![("padding", Cow::Owned(text))];
                    let operands = operands.to_vec();
                    return Ok(Some(vec![body.push("pad", shape.clone(), operands, attrs)]));
                }
                Ok(extended(body, [x, fill], &amounts, array).map(|at| vec![at]))
            }
            ("stablehlo.dynamic_conv", &[_, w, _]) => {
                let Some(pads) = body.integers(op, 2) else {
                    return Ok(None);
                };
                let number = |n: &Size| i64::try_from(n.as_constant()?).ok();
                let Some(pads) = pads.iter().map(number).collect() else {
                    return Ok(None);
                };
                let made = self.convolution(body, op, w, Some(pads))?;
                Ok(made.map(|(opcode, attrs)| {
                    vec![body.push(opcode, shape.clone(), operands.to_vec(), attrs)]
                }))
            }
            _ => Ok(None),
        }
    }

    /// A reduction over windows of sizes that are not known.
    fn windows(
        &mut self,
        body: &mut Body<'a>,
        op: &Op<'a>,
        operands: &[usize],
        shape: &Arc<XlaShape>,
    ) -> Step<Option<Vec<usize>>> {
        let Some(window) = window(body, op) else {
            return Ok(None);
        };
        let called = op.attr("called_computations").unwrap_or("");
        let name = symbol(called.trim_matches(['[', ']', ' ']));
        let Some((&name, _)) = self.funcs.get_key_value(name) else {
            return Ok(None);
        };
        let index = match self.done.get(name) {
            Some(&index) => index,
            None => self.copy(name, Vec::new(), op.span)?,
        };
        self.done.insert(name, index);
        let attrs = vec![
            ("window", Cow::Owned(window)),
            ("to_apply", Cow::Borrowed("")),
        ];
        let at = body.push("reduce-window", shape.clone(), operands.to_vec(), attrs);
        body.instructions[at].called = vec![("to_apply", vec![index])];
        Ok(Some(vec![at]))
    }

    /// A gather of one place that is known: a slice, without the dimensions that are dropped. A place too near to the end
    /// is moved, as every place of a gather is.
    fn one_place(
        &self,
        body: &mut Body<'a>,
        op: &Op<'a>,
        x: usize,
        taken: &[Size],
        shape: &Arc<XlaShape>,
    ) -> Option<Vec<usize>> {
        let text = self.aliases.resolve(op.attr("dimension_numbers")?);
        let vector = field(text, "index_vector_dim").and_then(int).unwrap_or(0);
        let indices = body.array(body.value(op.operands.get(1)?).ok()?)?;
        if 1 < indices.dims.len() || vector != 0 {
            return None;
        }
        let places = body.integers(op, 1)?;
        let mapped = field_ints(text, "start_index_map")?;
        let (from, array) = (body.array(x)?.clone(), shape.as_array()?);
        let whole = sizes(&from)?;
        if places.len() != mapped.len() || taken.len() != whole.len() || MOST_DIMS < whole.len() {
            return None;
        }
        let mut ranges = Vec::with_capacity(whole.len());
        for (d, (n, count)) in whole.iter().zip(taken).enumerate() {
            let at = mapped.iter().position(|&m| usize::try_from(m) == Ok(d));
            let start = match at {
                Some(at) => {
                    let last = n.minus(count)?;
                    places[at].minimum(&last)?.maximum(&Size::default())?
                }
                None => Size::default(),
            };
            ranges.push(Range {
                limit: start.plus(count)?,
                start,
                step: Size::constant(1),
            });
        }
        let counts = ranges.iter().zip(&whole).map(|(r, n)| r.count(n));
        let counts: Vec<Size> = counts.collect::<Option<_>>()?;
        let dropped = field_ints(text, "collapsed_slice_dims")?;
        let stays =
            |(d, _): &(usize, &Size)| !dropped.iter().any(|&m| usize::try_from(m) == Ok(*d));
        let kept: Vec<Size> = counts
            .iter()
            .enumerate()
            .filter(stays)
            .map(|(_, n)| n.clone())
            .collect();
        if counts != taken || kept != sizes(array)? || !body.has_sizes(&[x], bounds(&ranges)) {
            return None;
        }
        let part = resized(&from, &counts)?;
        let attrs = vec![("slice", Cow::Owned(texts(&ranges)))];
        let at = body.push("slice", part, vec![x], attrs);
        let made = match kept.len() == counts.len() {
            true => at,
            false => body.push("reshape", shape.clone(), vec![at], Vec::new()),
        };
        Some(vec![made])
    }
}

impl<'a> Body<'a> {
    /// How many elements a slice takes whose limits are its starts and these.
    pub(crate) fn taken(&self, op: &Op<'a>) -> Option<&Vec<Size>> {
        let &[_, starts, limits, _] = &op.operands[..] else {
            return None;
        };
        let (from, sizes) = self.known.sums.get(&(limits.name, limits.part))?;
        (*from == (starts.name, starts.part)).then_some(sizes)
    }

    /// The integers that an operand is known to be.
    fn integers(&self, op: &Op<'a>, number: usize) -> Option<Vec<Size>> {
        let used: &Use<'a> = op.operands.get(number)?;
        self.known.get(used).cloned()
    }
}

/// The elements before, after and between those of each dimension.
fn amounts<'a>(body: &Body<'a>, op: &Op<'a>) -> Option<Vec<[Size; 3]>> {
    let lists = [
        body.integers(op, 2)?,
        body.integers(op, 3)?,
        body.integers(op, 4)?,
    ];
    let rank = lists[0].len();
    let same = lists.iter().all(|list| list.len() == rank);
    let one = |d: usize| [0, 1, 2].map(|i: usize| lists[i][d].clone());
    (same && 0 < rank).then(|| (0..rank).map(one).collect())
}

/// Amounts as the text of a pad has them, where all are numbers.
fn numbers(amounts: &[[Size; 3]]) -> Option<String> {
    let mut parts = Vec::with_capacity(amounts.len());
    for amount in amounts {
        let [low, high, between] = amount.each_ref().map(|n| n.as_constant());
        parts.push(format!("{}_{}_{}", low?, high?, between?));
    }
    Some(parts.join("x"))
}

/// A pad by sizes as a concatenation with what it adds; none where something is added between elements, or it may be
/// that elements are cut off.
fn extended(
    body: &mut Body<'_>,
    [x, fill]: [usize; 2],
    amounts: &[[Size; 3]],
    to: &XlaArray,
) -> Option<usize> {
    let from = body.array(x)?.clone();
    let mut now = sizes(&from)?;
    if now.len() != amounts.len() || !body.array(fill)?.dims.is_empty() {
        return None;
    }
    // For each dimension the shapes of what is added, and of the whole.
    let mut steps = Vec::new();
    for (d, [low, high, between]) in amounts.iter().enumerate() {
        if between.as_constant() != Some(0) || !low.is_at_least(0) || !high.is_at_least(0) {
            return None;
        }
        let part = |amount: &Size| {
            let mut own = now.clone();
            own[d] = amount.clone();
            resized(&from, &own)
        };
        let both = [part(low)?, part(high)?];
        if low.as_constant() == Some(0) && high.as_constant() == Some(0) {
            continue;
        }
        now[d] = now[d].plus(low)?.plus(high)?;
        let added = [low, high].map(|amount| amount.as_constant() != Some(0));
        steps.push((d, both, added, resized(&from, &now)?));
    }
    let around = amounts.iter().flatten();
    if now != sizes(to)? || !body.has_sizes(&[x], around) {
        return None;
    }
    let mut at = x;
    for (d, both, added, whole) in steps {
        let [before, after] = both;
        let mut spread = |shape| {
            let attrs = vec![("dimensions", Cow::Borrowed("{}"))];
            body.push("broadcast", shape, vec![fill], attrs)
        };
        let before = added[0].then(|| spread(before));
        let after = added[1].then(|| spread(after));
        let parts = [before, Some(at), after];
        let axis = i64::try_from(d).ok()?;
        let attrs = vec![("dimensions", Cow::Owned(braces(&[axis])))];
        let parts = parts.into_iter().flatten().collect();
        at = body.push("concatenate", whole, parts, attrs);
    }
    Some(at)
}

fn sliced<'a>(
    body: &mut Body<'a>,
    op: &Op<'a>,
    operands: &[usize],
    shape: &Arc<XlaShape>,
) -> Option<Vec<usize>> {
    let lists = [
        body.integers(op, 1)?,
        body.integers(op, 2)?,
        body.integers(op, 3)?,
    ];
    let whole = sizes(body.array(operands[0])?)?;
    let mut ranges = Vec::with_capacity(whole.len());
    for d in 0..whole.len() {
        let [start, limit, step] = [0, 1, 2].map(|i| lists[i].get(d).cloned());
        ranges.push(Range {
            start: start?,
            limit: limit?,
            step: step?,
        });
    }
    let counts = ranges.iter().zip(&whole).map(|(r, n)| r.count(n));
    let counts: Vec<Size> = counts.collect::<Option<_>>()?;
    let x = operands[..1].to_vec();
    if counts != sizes(shape.as_array()?)? || !body.has_sizes(&x, bounds(&ranges)) {
        return None;
    }
    let attrs = vec![("slice", Cow::Owned(texts(&ranges)))];
    Some(vec![body.push(
        "slice",
        shape.clone(),
        operands.to_vec(),
        attrs,
    )])
}

/// A slice of known sizes whose start is a value: along each dimension that is not taken whole a number of elements.
fn placed<'a>(
    body: &mut Body<'a>,
    op: &Op<'a>,
    [x, starts]: [usize; 2],
    shape: &Arc<XlaShape>,
) -> Option<Vec<usize>> {
    let counts = body.taken(op)?.clone();
    let steps = body.integers(op, 3)?;
    let (whole, to) = (sizes(body.array(x)?)?, sizes(shape.as_array()?)?);
    let given = body.array(starts)?.clone();
    let wide = [XlaType::S32, XlaType::S64].contains(&given.element);
    let rank = u64::try_from(whole.len()).ok()?;
    let lists = [to.len(), steps.len()];
    if counts != to || given.sizes()? != [rank] || lists != [whole.len(); 2] || !wide {
        return None;
    }
    for ((n, count), step) in whole.iter().zip(&counts).zip(&steps) {
        let part = count.as_extent().is_some_and(|count| 1 <= count);
        let inside = may_be_at_most(count, n);
        if step.as_constant() != Some(1) || !(n == count || part && inside) {
            return None;
        }
    }
    let of_type = |dims: &[u64]| {
        let mut shape = XlaShape::Array(XlaArray::new(given.element, dims));
        shape.complete();
        Arc::new(shape)
    };
    let mut operands = vec![x];
    for d in 0..whole.len() {
        let attrs = vec![("slice", Cow::Owned(format!("{{[{d}:{}]}}", d + 1)))];
        let one = body.push("slice", of_type(&[1]), vec![starts], attrs);
        operands.push(body.push("reshape", of_type(&[]), vec![one], Vec::new()));
    }
    let counts: Vec<String> = counts.iter().map(Size::to_string).collect();
    let attrs = vec![(
        "dynamic_slice_sizes",
        Cow::Owned(format!("{{{}}}", counts.join(","))),
    )];
    Some(vec![body.push(
        "dynamic-slice",
        shape.clone(),
        operands,
        attrs,
    )])
}

/// The windows of a reduction as HLO text has them, sizes in parentheses.
fn window<'a>(body: &Body<'a>, op: &Op<'a>) -> Option<String> {
    let text = |size: &Size| match size.as_constant() {
        Some(n) => n.to_string(),
        None => format!("({})", size.to_string().replace(' ', "")),
    };
    let list = |number: usize| -> Option<Vec<String>> {
        Some(body.integers(op, number)?.iter().map(text).collect())
    };
    let pads: Vec<String> = list(6)?.chunks(2).map(|pair| pair.join("_")).collect();
    Some(format!(
        "{{size={} stride={} pad={} lhs_dilate={} rhs_dilate={}}}",
        list(2)?.join("x"),
        list(3)?.join("x"),
        pads.join("x"),
        list(4)?.join("x"),
        list(5)?.join("x"),
    ))
}
