//! Windows that slide over spatial dimensions, and interpolation.
//!
//! Example: a convolution with a kernel of 3, stride 2 and padding 1 is a `tensor.pad` with zeros, then a
//! `linalg.generic` that reads the padded operand at `position * 2 + tap`, or one of the named convolutions of MLIR.

use super::body::{Body, Idx, Scalar};
use super::constant::{line_digits, numbers};
use super::digits::extents;
use super::mem::{Mem, Outcome, Port};
use super::nest::{Nest, map_text};
use super::products::{contracted, start};
use super::types::{limit_text, number_text};
use super::writer::{Init, Writer};
use crate::unwritten::{Form, Unwritten, first, known};
use optc_ir::op::{Direction, OpRef, Operation};
use optc_ir::{DType, OpData, Size, Type, Value};
use optc_layout::{Cuts, Digit};
use optc_ops::{AvgPool, Conv, MaxPool, Resize, Slide};
use std::fmt::Write as _;

/// The numbers of a window's loops.
const BATCH: usize = 0;
const GROUP: usize = 1;
const OUT: usize = 2;
const IN: usize = 3;
/// The first of the positions in the result, one for each spatial dimension.
const AT: usize = 4;
/// The first of the positions in the kernel.
const TAP: usize = 8;
/// The first of the spatial dimensions of the operand; these are not loops.
const FROM: usize = 12;

/// The largest number of windows along a dimension for which the elements of each window are counted.
const MAX_TABLE: u64 = 1 << 24;

/// Writes the operation if it is a convolution, pool or resize.
pub(super) fn write(w: &mut Writer<'_>, data: &OpData) -> Form<()> {
    let form = match &*data.name {
        Conv::NAME => conv,
        AvgPool::NAME | MaxPool::NAME => pool,
        Resize::NAME => return resize(w, data),
        _ => return Err(Unwritten::NoForm),
    };
    first([false, true], |plain| form(w, data, plain))
}

/// Digits in terms of loops: one loop for each dimension, or two if it is cut into groups of `at` elements.
fn by_loops(digits: &[Digit], loops: &[(usize, Option<(usize, u64)>)]) -> Option<Vec<Digit>> {
    let mut cuts = Cuts::of(&[digits]);
    for (dim, (_, outer)) in loops.iter().enumerate() {
        if let Some((_, at)) = outer {
            cuts.cut(dim, *at);
        }
    }
    let of = |d: &Digit| {
        let (inner, outer) = loops.get(d.of)?;
        Some(match outer {
            Some((outer, at)) if *at <= d.div => {
                Digit::new(*outer, d.div.checked_div(*at)?, d.extent)
            }
            _ => Digit::new(*inner, d.div, d.extent),
        })
    };
    cuts.refine(digits)?.iter().map(of).collect()
}

/// The operand of a window, with each spatial dimension as one digit; `None` if one is cut.
fn operand(
    port: Port,
    rank: usize,
    slides: &[Slide],
    channel: (usize, Option<(usize, u64)>),
) -> Option<Port> {
    let mut loops = vec![(BATCH, None), channel];
    for (s, slide) in slides.iter().enumerate() {
        let plain = *slide == Slide::POINT;
        loops.push((if plain { AT + s } else { FROM + s }, None));
    }
    let mut digits = by_loops(&port.digits, &loops)?;
    if loops.len() != rank {
        return None;
    }
    for (s, slide) in slides.iter().enumerate() {
        if *slide == Slide::POINT {
            continue;
        }
        match digits.iter().filter(|d| d.of == FROM + s).count() {
            // A dimension of extent 1, which may be padded.
            0 => digits.push(Digit::new(FROM + s, 1, 1)),
            1 => {}
            _ => return None,
        }
    }
    let mem = port.mem;
    Some(Port { mem, digits })
}

/// The number of elements that the windows read beyond the operand and the padding before it. With `ceil`, the last
/// window may also reach beyond the padding at the end.
fn after(w: &Writer<'_>, slide: &Slide, n: u64, count: u64, ceil: bool) -> Outcome<u64> {
    if !w.sizes.stands(n) && !w.sizes.stands(count) {
        let steps = (count.max(1) - 1).saturating_mul(slide.stride as u64);
        let reach = steps.saturating_add(slide.span() as u64);
        return Ok(reach.saturating_sub(n.saturating_add(slide.low as u64)));
    }
    if slide.high == 0 && !ceil {
        return Ok(0);
    }
    let number = |n: usize| Size::from(n as u64);
    let (n, count) = (w.sizes.size(n), w.sizes.size(count));
    let steps = count.minus(&number(1));
    let steps = steps.and_then(|s| s.times(&number(slide.stride)));
    let reach = steps.and_then(|s| s.plus(&number(slide.span())));
    let own = n.plus(&number(slide.low));
    let rest = reach.and_then(|r| r.minus(&own?)?.maximum(&Size::default()));
    w.number(&rest.ok_or_else(|| w.refuse("its windows are not known"))?)
}

impl Writer<'_> {
    /// Pads a tensor with a number.
    pub(super) fn padded(
        &mut self,
        mem: &Mem,
        low: &[u64],
        high: &[u64],
        number: &str,
    ) -> Outcome<Mem> {
        if low.iter().chain(high).all(|n| *n == 0) {
            return Ok(mem.clone());
        }
        let sum = |(&n, (&low, &high)): (&u64, (&u64, &u64))| {
            let more = self.sizes.size(low).plus(&self.sizes.size(high))?;
            self.sizes.plus(n, &more)
        };
        let shape: Option<Vec<u64>> = mem
            .shape
            .iter()
            .zip(low.iter().zip(high))
            .map(sum)
            .collect();
        let shape = shape.ok_or_else(|| self.refuse("its windows are not known"))?;
        let name = self.fresh();
        let element = super::types::dtype_name(mem.dtype).unwrap_or_default();
        let typed = match mem.dtype.is_bool() {
            true => String::new(),
            false => format!(" : {element}"),
        };
        self.line(&format!("{name} = arith.constant {number}{typed}"));
        let index: Vec<String> = (0..shape.len())
            .map(|i| format!("%it_{i}: index"))
            .collect();
        let out = Mem {
            name: self.fresh(),
            shape,
            dtype: mem.dtype,
        };
        self.line(&format!(
            "{} = tensor.pad {} low{} high{} {{",
            out.name,
            mem.name,
            self.sizes.list(low),
            self.sizes.list(high)
        ));
        self.line(&format!("^bb0({}):", index.join(", ")));
        self.line(&format!("  tensor.yield {name} : {element}"));
        self.line(&format!(
            "}} : {} to {}",
            self.sizes.ty(mem),
            self.sizes.ty(&out)
        ));
        Ok(out)
    }
}

/// The operand, with the padding that windows read.
fn surrounded(
    w: &mut Writer<'_>,
    x: &Port,
    (slides, ceil): (&[Slide], bool),
    y: &[u64],
    number: &str,
) -> Outcome<Port> {
    let mem = w.reshape(&x.mem, &extents(&x.digits));
    let (mut low, mut high) = (vec![0; mem.shape.len()], vec![0; mem.shape.len()]);
    for (i, digit) in x.digits.iter().enumerate() {
        if let Some(s) = digit.of.checked_sub(FROM) {
            low[i] = slides[s].low as u64;
            high[i] = after(w, &slides[s], digit.extent, y[2 + s], ceil)?;
        }
    }
    let mem = w.padded(&mem, &low, &high, number)?;
    let mut digits = x.digits.clone();
    for (digit, &n) in digits.iter_mut().zip(&mem.shape) {
        digit.extent = n;
    }
    Ok(Port { mem, digits })
}

/// Returns whether window positions are cut by an unknown size, for which there is no indexing map.
fn uneven(w: &Writer<'_>, nest: &Nest) -> bool {
    let moves = nest.loops.iter().filter(|l| (AT..FROM).contains(&l.of));
    moves.into_iter().any(|l| w.sizes.stands(l.div))
}

/// The indexing map of the operand of windows.
fn window_map(nest: &Nest, digits: &[Digit], slides: &[Slide]) -> String {
    let at = digits.iter().map(|digit| {
        let Some(s) = digit.of.checked_sub(FROM) else {
            let at = nest.place(digit);
            return at.map_or("0".to_owned(), |i| format!("d{i}"));
        };
        let mut sum = String::new();
        for (id, step) in nest.loops.iter().enumerate() {
            let by = match step.of {
                of if of == AT + s => slides[s].stride as u64,
                of if of == TAP + s => slides[s].dilation as u64,
                _ => continue,
            };
            let by = by.saturating_mul(step.div);
            let plus = if sum.is_empty() { "" } else { " + " };
            let _ = match by {
                1 => write!(sum, "{plus}d{id}"),
                _ => write!(sum, "{plus}d{id} * {by}"),
            };
        }
        if sum.is_empty() { "0".to_owned() } else { sum }
    });
    map_text(nest.loops.len(), &at.collect::<Vec<_>>())
}

/// The bias of a convolution, if there is one. It has no form if its channels are cut otherwise than the loop `outer`.
fn bias(
    w: &mut Writer<'_>,
    data: &OpData,
    outer: (usize, Option<(usize, u64)>),
    plain: bool,
) -> Form<Option<Port>> {
    let Some(&value) = data.operands.get(2) else {
        return Ok(None);
    };
    let Port { mem, digits } = w.operand(value, plain)?;
    let digits = known(by_loops(&digits, &[outer]))?;
    Ok(Some(Port { mem, digits }))
}

fn conv(w: &mut Writer<'_>, data: &OpData, plain: bool) -> Form<()> {
    let op = w.op_ref(data);
    let about = known(w.typed::<Conv>(data))?;
    let (slides, groups) = (about.slides(&op)?, about.groups()?);
    if about.transposed {
        return transposed_conv(w, data, &about, &slides);
    }
    let dtype = w.tensor(data.results[0])?.dtype;
    let (x_shape, y_shape) = (w.shape(data.operands[0])?, w.shape(data.results[0])?);
    let (ins, outs) = (x_shape[1] / groups, y_shape[1] / groups);
    let (inner, outer) = ((IN, Some((GROUP, ins))), (OUT, Some((GROUP, outs))));
    let port = w.operand(data.operands[0], plain)?;
    let x = known(operand(port, x_shape.len(), &slides, inner))?;
    let weights = w.operand(data.operands[1], plain)?;
    let taps = (0..slides.len()).map(|s| (TAP + s, None));
    let loops: Vec<_> = [outer, (IN, None)].into_iter().chain(taps).collect();
    let own = known(by_loops(&weights.digits, &loops))?;
    let weights = Port {
        digits: own,
        mem: weights.mem,
    };
    let at = (0..slides.len()).map(|s| (AT + s, None));
    let loops: Vec<_> = [(BATCH, None), outer].into_iter().chain(at).collect();
    let out = known(by_loops(&w.wanted(data.results[0], plain)?, &loops))?;
    let bias = bias(w, data, outer, plain)?;
    let moved = |digits: &[Digit]| -> Vec<Digit> {
        digits.iter().filter(|d| d.of < FROM).copied().collect()
    };
    let own = moved(&x.digits);
    let mut all: Vec<&[Digit]> = vec![&out, &own, &weights.digits];
    all.extend(bias.as_ref().map(|p| &*p.digits));
    let nest = known(Nest::of(&all))?;
    if uneven(w, &nest) || x_shape[1] % groups != 0 {
        return Err(Unwritten::NoForm);
    }
    let init = start(w, &nest, bias.as_ref(), &out, dtype);
    let mem = if slides.iter().all(|s| *s == Slide::POINT) {
        contracted(w, &nest, &[x, weights], &out, init)
    } else {
        let zero = number_text(0.0, x.mem.dtype);
        let x = surrounded(w, &x, (&slides, false), &y_shape, &zero)?;
        match named(w, &nest, [&x, &weights], (&out, &init), &slides) {
            Some(mem) => mem,
            None => slid(w, &nest, [&x, &weights], (&out, init), &slides),
        }
    };
    let mem = w.narrowed(&mem, dtype);
    let digits = w.wanted(data.results[0], plain)?;
    w.settle(data.results[0], &mem, &digits)?;
    Ok(())
}

/// A convolution as a `linalg.generic`.
fn slid(
    w: &mut Writer<'_>,
    nest: &Nest,
    [x, weights]: [&Port; 2],
    (out, init): (&[Digit], Mem),
    slides: &[Slide],
) -> Mem {
    let own = nest.refined(&x.digits);
    let taps = nest.refined(&weights.digits);
    let out = nest.refined(out);
    let ins = [
        w.reshape(&x.mem, &extents(&own)),
        w.reshape(&weights.mem, &extents(&taps)),
    ];
    let maps = [
        window_map(nest, &own, slides),
        nest.map(&taps),
        nest.map(&out),
    ];
    let into = w.reshape(&init, &extents(&out));
    w.loops(&maps, &nest.kinds(&out), &ins, &into, |b, xs, acc| {
        let (x, y) = (b.cast(&xs[0], acc.ty), b.cast(&xs[1], acc.ty));
        let product = b.mul(&x, &y);
        b.add(acc, &product)
    })
}

/// MLIR's named convolutions, with the order of loops of operand, weights and result.
const NAMED: &[(&str, [&[usize]; 3])] = &[
    (
        "conv_2d_nchw_fchw",
        [
            &[BATCH, IN, FROM, FROM + 1],
            &[OUT, IN, TAP, TAP + 1],
            &[BATCH, OUT, AT, AT + 1],
        ],
    ),
    (
        "conv_2d_nhwc_hwcf",
        [
            &[BATCH, FROM, FROM + 1, IN],
            &[TAP, TAP + 1, IN, OUT],
            &[BATCH, AT, AT + 1, OUT],
        ],
    ),
    (
        "conv_2d_nhwc_fhwc",
        [
            &[BATCH, FROM, FROM + 1, IN],
            &[OUT, TAP, TAP + 1, IN],
            &[BATCH, AT, AT + 1, OUT],
        ],
    ),
    (
        "depthwise_conv_2d_nchw_chw",
        [
            &[BATCH, GROUP, FROM, FROM + 1],
            &[GROUP, TAP, TAP + 1],
            &[BATCH, GROUP, AT, AT + 1],
        ],
    ),
    (
        "depthwise_conv_2d_nhwc_hwc",
        [
            &[BATCH, FROM, FROM + 1, GROUP],
            &[TAP, TAP + 1, GROUP],
            &[BATCH, AT, AT + 1, GROUP],
        ],
    ),
];

/// A named convolution of MLIR.
fn named(
    w: &mut Writer<'_>,
    nest: &Nest,
    [x, weights]: [&Port; 2],
    (out, init): (&[Digit], &Mem),
    slides: &[Slide],
) -> Option<Mem> {
    let alike = [x.mem.dtype, weights.mem.dtype]
        .iter()
        .all(|d| *d == init.dtype);
    let moves = slides.iter().all(|s| *s != Slide::POINT);
    if slides.len() != 2 || !moves || !alike || !init.dtype.is_float() {
        return None;
    }
    let ports = [&x.digits, &weights.digits, &nest.refined(out)];
    let fitting = NAMED.iter().find_map(|(name, orders)| {
        let shapes = ports.iter().zip(orders).map(|(p, order)| full(p, order));
        let shapes: Option<Vec<Vec<u64>>> = shapes.collect();
        Some((*name, shapes?))
    });
    let (name, shapes) = fitting?;
    let x = w.reshape(&x.mem, &shapes[0]);
    let weights = w.reshape(&weights.mem, &shapes[1]);
    let into = w.reshape(init, &shapes[2]);
    let list = |of: fn(&Slide) -> usize| {
        let all: Vec<usize> = slides.iter().map(of).collect();
        format!("dense<{all:?}> : tensor<{}xi64>", all.len())
    };
    let text = format!(
        "linalg.{name} {{dilations = {}, strides = {}}} ins({}, {} : {}, {}) outs({} : {}) -> {}",
        list(|s| s.dilation),
        list(|s| s.stride),
        x.name,
        weights.name,
        w.sizes.ty(&x),
        w.sizes.ty(&weights),
        into.name,
        w.sizes.ty(&into),
        w.sizes.ty(&into)
    );
    Some(w.put(&text, &into.shape, into.dtype))
}

/// The extents of digits in the order of these loops, 1 if there is no digit; `None` if the digits are in another
/// order.
fn full(digits: &[Digit], order: &[usize]) -> Option<Vec<u64>> {
    let mut rest = digits.iter().peekable();
    let of = |loop_: &usize| {
        let own = rest.next_if(|d| d.of == *loop_ && d.div == 1);
        own.map_or(1, |d| d.extent)
    };
    let shape: Vec<u64> = order.iter().map(of).collect();
    rest.peek().is_none().then_some(shape)
}

/// A transposed convolution. Each element of the result is a sum over the positions of the kernel of the input element
/// that contributes through it, if there is one.
fn transposed_conv(w: &mut Writer<'_>, data: &OpData, about: &Conv, slides: &[Slide]) -> Form<()> {
    let groups = about.groups().unwrap_or(1);
    let dtype = w.tensor(data.results[0])?.dtype;
    let (x_shape, y_shape) = (w.shape(data.operands[0])?, w.shape(data.results[0])?);
    let w_shape = w.shape(data.operands[1])?;
    let (ins, outs) = (x_shape[1] / groups, y_shape[1] / groups);
    let x = w.operand(data.operands[0], false)?;
    let x_mem = w.reshape(&x.mem, &extents(&x.digits));
    let weights = w.operand(data.operands[1], true)?;
    let taps = (0..slides.len()).map(|s| (TAP + s, None));
    let loops: Vec<_> = [(IN, Some((GROUP, ins))), (OUT, None)]
        .into_iter()
        .chain(taps)
        .collect();
    let at = (0..slides.len()).map(|s| (AT + s, None));
    let outer = (OUT, Some((GROUP, outs)));
    let of_result: Vec<_> = [(BATCH, None), outer].into_iter().chain(at).collect();
    let out = by_loops(&w.wanted(data.results[0], true)?, &of_result);
    let (own, out) = (known(by_loops(&weights.digits, &loops))?, known(out)?);
    let bias = bias(w, data, outer, true)?;
    let mut all: Vec<&[Digit]> = vec![&out, &own];
    all.extend(bias.as_ref().map(|p| &*p.digits));
    let nest = known(Nest::of(&all))?;
    let init = start(w, &nest, bias.as_ref(), &out, dtype);
    let sums = init.dtype;
    let port = Port {
        mem: weights.mem,
        digits: own,
    };
    let body = |b: &mut Body, nest: &Nest, xs: &[Scalar], acc: &Scalar| {
        let (group, inner) = (nest.index(b, GROUP), nest.index(b, IN));
        let outer = b.scaled(&group, ins);
        let channel = b.plus(&outer, &inner);
        let mut index = vec![nest.index(b, BATCH), channel];
        let mut inside: Option<Scalar> = None;
        for (s, slide) in slides.iter().enumerate() {
            let (at, tap) = (nest.index(b, AT + s), nest.index(b, TAP + s));
            let (place, fits) = source(b, &at, &tap, slide, x_shape[2 + s]);
            index.push(place);
            inside = Some(match inside {
                Some(all) => b.op("arith.andi", &[&all, &fits]),
                None => fits,
            });
        }
        let x = b.read(&x_mem, &x.digits, &index);
        let (x, y) = (b.cast(&x, acc.ty), b.cast(&xs[0], acc.ty));
        let product = b.mul(&x, &y);
        let zero = b.number(0.0, acc.ty);
        let added = match &inside {
            Some(inside) => b.select(inside, &product, &zero),
            None => product,
        };
        b.add(acc, &added)
    };
    debug_assert_eq!(
        w_shape.len(),
        x_shape.len(),
        "the shape rule has checked it"
    );
    let mem = w.generic(&nest, &[port], (&out, sums), Init::Tensor(init), body);
    let mem = w.narrowed(&mem, dtype);
    let digits = w.wanted(data.results[0], true)?;
    w.settle(data.results[0], &mem, &digits)?;
    Ok(())
}

/// The input element that contributes to a position of the result through a position of the kernel, and a condition
/// that is true if it exists.
fn source(b: &mut Body, at: &Idx, tap: &Idx, slide: &Slide, n: u64) -> (Idx, Scalar) {
    let number = |n: usize| i64::try_from(n).unwrap_or(i64::MAX);
    let moved = b.plus(at, &Idx::Const(number(slide.low)));
    let reach = b.times(tap, number(slide.dilation));
    let from = b.minus(&moved, &reach);
    let extent = b.extent(n);
    let end = b.times(&extent, number(slide.stride));
    let (low, high) = (
        b.index_compare("sge", &from, &Idx::Const(0)),
        b.index_compare("slt", &from, &end),
    );
    let within = b.op("arith.andi", &[&low, &high]);
    let last = match end {
        Idx::Const(end) => Idx::Const((end - 1).max(0)),
        open @ Idx::Name(_) => b.minus(&open, &Idx::Const(1)),
    };
    let kept = b.clamped(&from, 0, &last);
    let rest = b.modulo(&kept, slide.stride as u64);
    let whole = b.index_compare("eq", &rest, &Idx::Const(0));
    let fits = b.op("arith.andi", &[&within, &whole]);
    (b.over(&kept, slide.stride as u64), fits)
}

fn pool(w: &mut Writer<'_>, data: &OpData, plain: bool) -> Form<()> {
    let op = w.op_ref(data);
    let (max, mean) = (w.typed::<MaxPool>(data), w.typed::<AvgPool>(data));
    let slides = match (&max, &mean) {
        (Some(pool), _) => pool.slides(&op),
        (None, Some(pool)) => pool.slides(&op),
        _ => return Err(Unwritten::NoForm),
    }?;
    let ceil =
        max.as_ref().is_some_and(|p| p.ceil_mode) || mean.as_ref().is_some_and(|p| p.ceil_mode);
    let dtype = w.tensor(data.results[0])?.dtype;
    let (x_shape, y_shape) = (w.shape(data.operands[0])?, w.shape(data.results[0])?);
    let port = w.operand(data.operands[0], plain)?;
    let x = known(operand(port, x_shape.len(), &slides, (OUT, None)))?;
    let counted = |n: &&u64| !w.sizes.stands(**n);
    if y_shape.iter().filter(counted).any(|n| MAX_TABLE < *n) {
        return Err(w.refuse("it has too many windows").into());
    }
    let at = (0..slides.len()).map(|s| (AT + s, None));
    let loops: Vec<_> = [(BATCH, None), (OUT, None)].into_iter().chain(at).collect();
    let out = known(by_loops(&w.wanted(data.results[0], plain)?, &loops))?;
    let own: Vec<Digit> = x.digits.iter().filter(|d| d.of < FROM).copied().collect();
    let taps = slides.iter().enumerate();
    let taps = taps.filter(|(_, s)| s.kernel != 1);
    let taps: Vec<Digit> = taps
        .map(|(i, s)| Digit::new(TAP + i, 1, s.kernel as u64))
        .collect();
    let nest = known(Nest::of(&[&out, &own, &taps]))?;
    if uneven(w, &nest) {
        return Err(Unwritten::NoForm);
    }
    let sums = Writer::sum_type(dtype);
    let (fill, init) = match &max {
        Some(_) => (limit_text(x.mem.dtype, false), limit_text(sums, false)),
        None => (number_text(0.0, x.mem.dtype), number_text(0.0, sums)),
    };
    let x = surrounded(w, &x, (&slides, ceil), &y_shape, &fill)?;
    let refined = nest.refined(&x.digits);
    let window = w.empty(&extents(&taps), DType::F32);
    let ins = [w.reshape(&x.mem, &extents(&refined)), window];
    let done = nest.refined(&out);
    let maps = [
        window_map(&nest, &refined, &slides),
        nest.map(&taps),
        nest.map(&done),
    ];
    let into = w.filled(&init, &extents(&done), sums);
    let mem = w.loops(
        &maps,
        &nest.kinds(&done),
        &ins,
        &into,
        |b, xs, acc| match &max {
            Some(_) => b.max(acc, &xs[0]),
            None => b.add(acc, &xs[0]),
        },
    );
    let mem = match &mean {
        Some(pool) => divided(w, mem, &done, pool, (&slides, &x_shape, &y_shape))?,
        None => mem,
    };
    let mem = w.narrowed(&mem, dtype);
    let digits = w.wanted(data.results[0], plain)?;
    w.settle(data.results[0], &mem, &digits)?;
    Ok(())
}

/// Divides window sums by the number of elements that count. That number is a product over the spatial dimensions.
fn divided(
    w: &mut Writer<'_>,
    mem: Mem,
    done: &[Digit],
    pool: &AvgPool,
    (slides, x, y): (&[Slide], &[u64], &[u64]),
) -> Outcome<Mem> {
    let dtype = mem.dtype;
    let mut ports = vec![Port {
        mem,
        digits: done.to_vec(),
    }];
    let mut constant = 1.0;
    for (s, slide) in slides.iter().enumerate() {
        if [x[2 + s], y[2 + s]].iter().any(|&n| w.sizes.stands(n)) {
            let inside = (slide.low, slide.high) == (0, 0) || pool.count_include_pad;
            if pool.ceil_mode || !inside {
                return Err(w.refuse("the elements that its windows count are not known"));
            }
            constant *= slide.kernel as f64;
            continue;
        }
        let (n, low) = (x[2 + s], slide.low as u64);
        let (first, end) = match pool.count_include_pad {
            true => (0, n + low + slide.high as u64),
            false => (low, low + n),
        };
        let inside = |at: u64| {
            let place = |k: usize| at * slide.stride as u64 + (k * slide.dilation) as u64;
            let counts = (0..slide.kernel).filter(|&k| (first..end).contains(&place(k)));
            counts.count() as f64
        };
        let counts: Vec<f64> = (0..y[2 + s]).map(inside).collect();
        match counts.first() {
            Some(one) if counts.iter().all(|c| c == one) => constant *= one,
            _ => {
                let mem = numbers(w, &counts, dtype);
                let digits = line_digits(AT + s, y[2 + s]);
                ports.push(Port { mem, digits });
            }
        }
    }
    let all: Vec<&[Digit]> = ports.iter().map(|p| &*p.digits).collect();
    let nest = Nest::of(&all).unwrap_or_else(|| Nest::plain(done));
    let out = (done, dtype);
    let mem = w.generic(&nest, &ports, out, Init::Empty, |b, _, xs, _| {
        let mut count = b.number(constant, dtype);
        for other in &xs[1..] {
            count = b.mul(&count, other);
        }
        b.div(&xs[0], &count)
    });
    Ok(mem)
}

/// Interpolation, one dimension after the other: each position sums the elements that it reads, multiplied by their
/// weights.
fn resize(w: &mut Writer<'_>, data: &OpData) -> Form<()> {
    let dtype = w.tensor(data.results[0])?.dtype;
    let of = |&v: &Value| Ok(Type::tensor(&w.shape(v)?, w.tensor(v)?.dtype));
    let types: Vec<Type> = data.operands.iter().map(of).collect::<Outcome<_>>()?;
    let op = OpRef {
        operands: types.iter().collect(),
        ..w.op_ref(data)
    };
    let steps = w.typed::<Resize>(data).and_then(|r| r.interpolations(&op));
    let steps = known(steps)?;
    let open = |n: u64| w.sizes.stands(n);
    let (from, to) = (w.shape(data.operands[0])?, w.shape(data.results[0])?);
    if steps.iter().any(|s| open(from[s.axis]) || open(to[s.axis])) {
        return Err(w
            .refuse("the size that it interpolates is not known")
            .into());
    }
    let single = |taps: &Vec<(usize, f64)>| matches!(taps[..], [(_, 1.0)]);
    let moves = steps.iter().all(|step| step.taps.iter().all(single));
    let mut shape = from;
    if shape.contains(&0) || !(moves || dtype.is_float()) {
        return Err(Unwritten::NoForm);
    }
    let sums = if moves {
        dtype
    } else {
        Writer::sum_type(dtype)
    };
    let mut x = w.operand(data.operands[0], true)?;
    for step in &steps {
        shape[step.axis] = step.taps.len() as u64;
        let out = super::digits::row_major(&shape);
        let most = step.taps.iter().map(Vec::len).max().unwrap_or(0).max(1);
        let tap = shape.len();
        let table = |of: &dyn Fn(&(usize, f64)) -> f64| -> Vec<f64> {
            let row = |taps: &Vec<(usize, f64)>| {
                let mut row: Vec<f64> = taps.iter().map(of).collect();
                row.resize(most, 0.0);
                row
            };
            step.taps.iter().flat_map(row).collect()
        };
        let places = numbers(w, &table(&|t| t.0 as f64), DType::SI64);
        let weights = numbers(w, &table(&|t| t.1), Writer::sum_type(sums));
        let mut own = line_digits(step.axis, shape[step.axis]);
        own.extend(line_digits(tap, most as u64));
        let ins = [places, weights].map(|mem| Port {
            mem,
            digits: own.clone(),
        });
        let nest = known(Nest::of(&[&out, &own]))?;
        let mem = w.reshape(&x.mem, &extents(&x.digits));
        let init = Init::Fill(number_text(0.0, sums));
        let (rank, digits) = (shape.len(), x.digits.clone());
        let made = w.generic(&nest, &ins, (&out, sums), init, |b, nest, xs, acc| {
            let mut index: Vec<Idx> = (0..rank).map(|d| nest.index(b, d)).collect();
            index[step.axis] = b.as_index(&xs[0]);
            let x = b.read(&mem, &digits, &index);
            let x = b.cast(&x, acc.ty);
            if moves {
                return x;
            }
            let weight = b.cast(&xs[1], acc.ty);
            let zero = b.number(0.0, acc.ty);
            let none = b.compare(Direction::Eq, &weight, &zero);
            let part = b.mul(&x, &weight);
            let part = b.select(&none, &zero, &part);
            b.add(acc, &part)
        });
        x = Port {
            mem: made,
            digits: out,
        };
    }
    let mem = w.narrowed(&x.mem, dtype);
    w.settle(data.results[0], &mem, &x.digits)?;
    Ok(())
}
