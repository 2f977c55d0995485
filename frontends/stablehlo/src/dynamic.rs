//! Operations with numbers as operands. If these numbers are sizes, they become the ordinary operations with the sizes
//! in their attributes.
//!
//! For example, `dynamic_broadcast_in_dim %x, %sizes` is an ordinary broadcast if the integers in `%sizes` are known
//! polynomials of sizes.
//!
//! The operands with the sizes stay operands of the instruction. An instruction without an operation in the IR is
//! written again with them.

use crate::attrs::{Attributes as _, braces, field, field_ints};
use crate::known::Growth;
use crate::sizes::is_reduce_window;
use crate::translate::{Body, Translator};
use optc_hlo::size;
use optc_ir::Size;
use optc_layout::{XlaArray, XlaDim, XlaShape, XlaType};
use optc_mlir_syntax::Parsed;
use optc_mlir_syntax::{Op, Use};
use optc_mlir_syntax::{int, symbol};
use std::borrow::Cow;
use std::sync::Arc;

/// The most dimensions of a slice that is a gather of one place.
const MOST_DIMS: usize = 64;

/// The dimension of a size; `None` for a negative number.
fn dim(size: &Size) -> Option<XlaDim> {
    Some(match size.as_constant() {
        Some(n) => XlaDim::Size(u64::try_from(n).ok()?),
        None => XlaDim::Named(Arc::from(size.to_text())),
    })
}

/// The array with these sizes.
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

/// Returns whether `a <= b` is possible.
fn may_be_at_most(a: &Size, b: &Size) -> bool {
    a.minus(b).is_none_or(|over| !over.is_at_least(1))
}

/// The range of a slice in one dimension.
struct Range {
    start: Size,
    limit: Size,
    step: Size,
}

impl Range {
    /// `count` elements from a place on, clamped to lie within `n`.
    fn near(place: Option<&Size>, count: &Size, n: &Size) -> Option<Range> {
        let start = match place {
            Some(place) => place.minimum(&n.minus(count)?)?.maximum(&Size::default())?,
            None => Size::default(),
        };
        Some(Range {
            limit: start.plus(count)?,
            start,
            step: Size::constant(1),
        })
    }

    /// The number of elements, if the range can lie within `n` elements.
    fn count(&self, n: &Size) -> Option<Size> {
        let step = self.step.as_constant().filter(|&step| 1 <= step)?;
        let inside = may_be_at_most(&Size::default(), &self.start)
            && may_be_at_most(&self.start, &self.limit)
            && may_be_at_most(&self.limit, n);
        let length = self.limit.minus(&self.start)?;
        length.quotient_up(&Size::constant(step)).filter(|_| inside)
    }
}

/// `count` evenly spaced places that provably lie within `n` elements.
fn spaced(number: &Growth, count: &Size, n: &Size) -> Option<Range> {
    let to = |limit: Size| Range {
        start: number.start.clone(),
        limit,
        step: number.step.clone(),
    };
    if !number.start.is_at_least(0) || !number.step.is_at_least(1) {
        return None;
    }
    // All places up to the end.
    let all = to(n.clone());
    if all.count(n).as_ref() == Some(count) {
        return Some(all);
    }
    let one = Size::constant(1);
    let reach = count.minus(&one)?.times(&number.step)?;
    let limit = number.start.plus(&reach)?.plus(&one)?;
    n.minus(&limit)?.is_at_least(0).then(|| to(limit))
}

/// The slice that a gather of known places is.
#[derive(Default)]
struct Cut {
    /// The range of each dimension, and its number of elements.
    ranges: Vec<Range>,
    counts: Vec<Size>,
    /// The dimensions that are kept, each with the dimension of the indices along which its places grow.
    kept: Vec<(usize, Option<usize>)>,
}

impl Cut {
    /// Adds dimension `d` of `n` elements: `count` elements from each of its places. `batch` has the sizes of the
    /// indices; `dropped` is true if the dimension is not one of the result.
    fn push(
        &mut self,
        d: usize,
        number: Option<&Growth>,
        (n, count): (&Size, &Size),
        (batch, dropped): (&[Size], bool),
    ) -> Option<()> {
        let one = count.as_constant() == Some(1);
        let (range, own) = match number {
            Some(number) if number.step != Size::default() => {
                let own = batch.get(number.axis)?;
                if !one || !dropped {
                    return None;
                }
                self.kept.push((d, Some(number.axis)));
                (spaced(number, own, n)?, own)
            }
            number => {
                if !dropped {
                    self.kept.push((d, None));
                } else if !one {
                    return None;
                }
                (Range::near(number.map(|n| &n.start), count, n)?, count)
            }
        };
        if range.count(n)? != *own {
            return None;
        }
        self.ranges.push(range);
        self.counts.push(own.clone());
        Some(())
    }

    /// The source of each dimension of the result: the next dimension of the operand, or the one that grows along the
    /// next dimension of the indices.
    fn order(&self, rank: usize, offsets: &[usize], batch: usize) -> Option<Vec<usize>> {
        let mut others = self.kept.iter().filter(|(_, axis)| axis.is_none());
        let mut axes = 0..batch;
        let source = |place: usize| match offsets.contains(&place) {
            true => others.next().map(|other| other.0),
            false => {
                let axis = axes.next()?;
                let mut grows = self.kept.iter();
                grows.find(|(_, own)| *own == Some(axis)).map(|own| own.0)
            }
        };
        (0..rank).map(source).collect()
    }
}

fn bounds(ranges: &[Range]) -> impl Iterator<Item = &Size> {
    ranges.iter().flat_map(|range| [&range.start, &range.limit])
}

/// The ranges in the text form of a slice.
fn texts(ranges: &[Range]) -> String {
    let one = |r: &Range| format!("[{}:{}:{}]", r.start, r.limit, r.step);
    let all: Vec<String> = ranges.iter().map(one).collect();
    format!("{{{}}}", all.join(", "))
}

impl<'a> Translator<'a> {
    /// An operation with sizes as operands, as instructions; `None` if the sizes are unknown.
    pub(crate) fn dynamic(
        &mut self,
        body: &mut Body<'a>,
        op: &Op<'a>,
        operands: &[usize],
        shape: &Arc<XlaShape>,
    ) -> Parsed<Option<Vec<usize>>> {
        let Some(array) = shape.as_array() else {
            return Ok(None);
        };
        let [x, ..] = *operands else { return Ok(None) };
        // The sizes of convolutions are named as for static ones.
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
            ("stablehlo.dynamic_gather", [_, _, _]) => self.gathered(body, op, operands, shape),
            ("stablehlo.gather", &[x, _]) => {
                let open = body.array(x).is_some_and(|x| x.sizes().is_none());
                let taken = op.needs_ints(&["slice_sizes"])?;
                let taken: Vec<Size> = taken
                    .iter()
                    .map(|&n| Size::constant(i128::from(n)))
                    .collect();
                Ok(match open {
                    true => self.known_places(body, op, x, &taken, shape),
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

    /// A gather whose slices have these sizes, as a slice where its places are known.
    fn gathered(
        &mut self,
        body: &mut Body<'a>,
        op: &Op<'a>,
        operands: &[usize],
        shape: &Arc<XlaShape>,
    ) -> Parsed<Option<Vec<usize>>> {
        let Some(taken) = body.integers(op, 2) else {
            return Ok(None);
        };
        let x = operands[0];
        if let Some(made) = self.known_places(body, op, x, &taken, shape) {
            return Ok(Some(made));
        }
        if !body.has_sizes(&[x], &taken) {
            return Ok(None);
        }
        let list: Vec<String> = taken.iter().map(Size::to_string).collect();
        let attrs = self.gather(op, format!("{{{}}}", list.join(",")))?;
        let gather = body.push("gather", shape.clone(), operands.to_vec(), attrs);
        Ok(Some(vec![gather]))
    }

    /// A reduction over windows of unknown sizes.
    fn windows(
        &mut self,
        body: &mut Body<'a>,
        op: &Op<'a>,
        operands: &[usize],
        shape: &Arc<XlaShape>,
    ) -> Parsed<Option<Vec<usize>>> {
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

    /// A gather of known places: a slice, without the dropped dimensions. Along dimensions of the indices, places are
    /// evenly spaced. Any other place too near to the end is clamped, as in every gather.
    fn known_places(
        &self,
        body: &mut Body<'a>,
        op: &Op<'a>,
        x: usize,
        taken: &[Size],
        shape: &Arc<XlaShape>,
    ) -> Option<Vec<usize>> {
        let text = self.aliases.resolve(op.attr("dimension_numbers")?);
        let vector = field(text, "index_vector_dim").and_then(int).unwrap_or(0);
        let used = op.operands.get(1)?;
        let indices = sizes(body.array(body.value(used).ok()?)?)?;
        let batch = match indices.split_last() {
            // The vector after the last dimension is one number.
            _ if usize::try_from(vector) == Ok(indices.len()) => &indices[..],
            Some((_, batch)) if usize::try_from(vector) == Ok(batch.len()) => batch,
            _ => return None,
        };
        let numbers = match body.integers(op, 1) {
            Some(numbers) if batch.is_empty() => numbers.into_iter().map(Growth::same).collect(),
            _ => body.grid(used)?,
        };
        let list = |name: &str| -> Option<Vec<usize>> {
            let list = field_ints(text, name)?.into_iter();
            list.map(|n| usize::try_from(n).ok()).collect()
        };
        let (mapped, dropped) = (list("start_index_map")?, list("collapsed_slice_dims")?);
        let offsets = list("offset_dims")?;
        if !list("operand_batching_dims")?.is_empty() {
            return None;
        }
        let from = body.array(x)?.clone();
        let whole = sizes(&from)?;
        if numbers.len() != mapped.len() || taken.len() != whole.len() || MOST_DIMS < whole.len() {
            return None;
        }
        let mut cut = Cut::default();
        for (d, (n, count)) in whole.iter().zip(taken).enumerate() {
            let number = mapped.iter().position(|&m| m == d).map(|at| &numbers[at]);
            cut.push(d, number, (n, count), (batch, dropped.contains(&d)))?;
        }
        let order = cut.order(shape.as_array()?.dims.len(), &offsets, batch.len())?;
        let Cut {
            ranges,
            counts,
            kept,
        } = cut;
        let result: Vec<Size> = order.iter().map(|&d| counts[d].clone()).collect();
        let all = order.len() == kept.len() && result == sizes(shape.as_array()?)?;
        if !all || !body.has_sizes(&[x], bounds(&ranges)) {
            return None;
        }
        let part = resized(&from, &counts)?;
        let short: Vec<Size> = kept.iter().map(|&(d, _)| counts[d].clone()).collect();
        let short = resized(&from, &short)?;
        let attrs = vec![("slice", Cow::Owned(texts(&ranges)))];
        let mut at = body.push("slice", part, vec![x], attrs);
        if kept.len() != counts.len() {
            at = body.push("reshape", short, vec![at], Vec::new());
        }
        let place = |d: &usize| kept.iter().position(|(own, _)| own == d);
        let perm: Vec<usize> = order.iter().filter_map(place).collect();
        if !perm.iter().copied().eq(0..perm.len()) {
            let perm: Vec<String> = perm.iter().map(usize::to_string).collect();
            let dims = Cow::Owned(format!("{{{}}}", perm.join(",")));
            at = body.push(
                "transpose",
                shape.clone(),
                vec![at],
                vec![("dimensions", dims)],
            );
        }
        Some(vec![at])
    }
}

impl<'a> Body<'a> {
    /// The number of elements of a slice whose limits are its starts plus these.
    pub(crate) fn taken(&self, op: &Op<'a>) -> Option<&Vec<Size>> {
        let &[_, starts, limits, _] = &op.operands[..] else {
            return None;
        };
        let (from, sizes) = self.known.sums.get(&(limits.name, limits.part))?;
        (*from == (starts.name, starts.part)).then_some(sizes)
    }

    /// The known integers of an operand.
    fn integers(&self, op: &Op<'a>, number: usize) -> Option<Vec<Size>> {
        let used: &Use<'a> = op.operands.get(number)?;
        self.known.get(used).cloned()
    }
}

/// The amounts before, after and between the elements of each dimension.
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

/// The amounts in the text form of a pad, if all are numbers.
fn numbers(amounts: &[[Size; 3]]) -> Option<String> {
    let mut parts = Vec::with_capacity(amounts.len());
    for amount in amounts {
        let [low, high, between] = amount.each_ref().map(|n| n.as_constant());
        parts.push(format!("{}_{}_{}", low?, high?, between?));
    }
    Some(parts.join("x"))
}

/// A pad by sizes as a concatenation with the added elements. `None` if elements are added between others, or may be
/// cut off.
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
    // For each dimension, the shapes of the added parts and of the whole.
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

/// A slice of known sizes with a computed start. The sizes are the numbers of elements along each dimension that is not
/// whole.
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

/// The windows of a reduction in HLO text, with sizes in parentheses.
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
