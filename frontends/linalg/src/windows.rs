//! Convolutions and pools: operations that read an operand through windows, at a loop of the result times the stride plus
//! a loop of the window times the dilation.
//!
//! The operand is brought to the order batch, channels, spatial, and the result back to its own. Example:
//! `linalg.conv_2d_nhwc_hwcf` is an `hbir.conv` between transposes.

use crate::func::FuncCx;
use crate::maps::{Linear, Map};
use crate::structured::{Combined, Structured, dims};
use optc_ir::Operation;
use optc_ir::{DType, Value};
use optc_mlir_syntax::Parsed;
use optc_ops::{
    AvgPool, Bounds, Conv, MaxPool, Mul, Neg, Pad, PadMode, ReduceKind, Reshape, Slice,
};

/// A window along one dimension of the operand.
#[derive(Clone, Copy, Debug)]
struct Window {
    /// The dimension of the operand.
    axis: usize,
    /// The loop over the result.
    at: usize,
    stride: i64,
    /// The loop over the window, if it has more than one element.
    inside: Option<usize>,
    dilation: i64,
}

/// The loops of an operation on windows by the roles that they have.
#[derive(Default)]
struct Roles {
    windows: Vec<Window>,
    /// In the operand and the result.
    batch: Vec<usize>,
    /// In the operand, the weights and the result.
    group: Vec<usize>,
    /// In the operand and the weights.
    input: Vec<usize>,
    /// In the weights and the result.
    output: Vec<usize>,
}

impl<'a, 'm> FuncCx<'a, 'm>
where
    'm: 'a,
{
    /// A convolution or a pool; `None` if the operation is none.
    pub(crate) fn window(
        &mut self,
        found: &Structured<'a, 'm>,
        combined: &Combined<'a, 'm>,
    ) -> Parsed<Option<Value>> {
        let Some(out) = found.maps.last().and_then(|map| dims(map)) else {
            return Ok(None);
        };
        if let Some(product) = found.product(combined) {
            let Some(pair) = self.factors(found, &product)? else {
                return Ok(None);
            };
            let maps = product.operands.map(|i| &found.maps[i]);
            return Ok(self.convolution(found, pair, maps, &out));
        }
        let Some(operand) = found.operand(combined.value) else {
            return Ok(None);
        };
        let Some(x) = self.tensor(&found.ins[operand])? else {
            return Ok(None);
        };
        Ok(self.pool(found, combined.kind, x, &found.maps[operand], &out))
    }

    fn convolution(
        &mut self,
        found: &Structured<'a, 'm>,
        ([a, b], to): ([Value; 2], Option<DType>),
        maps: [&Map; 2],
        out: &[usize],
    ) -> Option<Value> {
        // Either factor may be the one with windows.
        let ([x, w], [map, weights]) = match dims(maps[1]) {
            Some(weights) => ([a, b], [maps[0].clone(), maps_of(&weights)]),
            None => ([b, a], [maps[1].clone(), maps[0].clone()]),
        };
        let weights = dims(&weights)?;
        let roles = Roles::of(found, &map, Some(&weights), out)?;
        let extents = |loops: &[usize]| loops.iter().map(|&d| found.extents[d]).collect::<Vec<_>>();
        let volume = |loops: &[usize]| loops.iter().map(|&d| found.extents[d]).product::<u64>();
        let x = self.fitted(found, x, &roles.windows)?;
        let (x, pads) = self.unpadded(x, &roles.windows, 0.0);
        let sizes = self.shape(x);
        let place = |d: &usize| map.iter().position(|index| index.dim() == Some(*d));
        let channels = [&roles.group[..], &roles.input].concat();
        let mut perm: Vec<usize> = [&roles.batch[..], &channels]
            .concat()
            .iter()
            .map(place)
            .collect::<Option<_>>()?;
        perm.extend(roles.windows.iter().map(|window| window.axis));
        let x = self.transposed(x, &perm)?;
        let mut shape = vec![volume(&roles.batch), volume(&channels)];
        shape.extend(roles.windows.iter().map(|window| sizes[window.axis]));
        let x = self.reshaped(x, &shape)?;
        let inside: Vec<usize> = roles
            .windows
            .iter()
            .filter_map(|window| window.inside)
            .collect();
        let order = [&roles.group[..], &roles.output, &roles.input, &inside].concat();
        let perm: Option<Vec<usize>> = order
            .iter()
            .map(|d| weights.iter().position(|w| w == d))
            .collect();
        let w = self.transposed(w, &perm?)?;
        let mut shape = vec![
            volume(&roles.group) * volume(&roles.output),
            volume(&roles.input),
        ];
        shape.extend(roles.windows.iter().map(|window| window.extent(found)));
        let w = self.reshaped(w, &shape)?;
        let conv = Conv {
            strides: Some(roles.windows.iter().map(|window| window.stride).collect()),
            pads,
            dilations: Some(roles.windows.iter().map(|window| window.dilation).collect()),
            group: i64::try_from(volume(&roles.group)).ok()?,
            transposed: false,
            output_padding: None,
            to,
        };
        let made = self.one(&conv, &[x, w])?;
        let at: Vec<usize> = roles.windows.iter().map(|window| window.at).collect();
        let order = [&roles.batch[..], &roles.group, &roles.output, &at].concat();
        self.ordered(made, &order, &extents(&order), out)
    }

    fn pool(
        &mut self,
        found: &Structured<'a, 'm>,
        kind: ReduceKind,
        x: Value,
        map: &Map,
        out: &[usize],
    ) -> Option<Value> {
        let roles = Roles::of(found, map, None, out)?;
        let x = self.fitted(found, x, &roles.windows)?;
        let neutral = match kind {
            ReduceKind::Max => f64::NEG_INFINITY,
            ReduceKind::Min => f64::INFINITY,
            _ => 0.0,
        };
        let (x, pads) = self.unpadded(x, &roles.windows, neutral);
        let sizes = self.shape(x);
        let place = |d: &usize| map.iter().position(|index| index.dim() == Some(*d));
        let mut perm: Vec<usize> = roles.batch.iter().map(place).collect::<Option<_>>()?;
        perm.extend(roles.windows.iter().map(|window| window.axis));
        let x = self.transposed(x, &perm)?;
        let others: Vec<u64> = roles.batch.iter().map(|&d| found.extents[d]).collect();
        let (first, rest) = match others.split_first() {
            Some((first, rest)) if !rest.is_empty() => (*first, rest.iter().product()),
            _ => (1, others.iter().product()),
        };
        let mut shape = vec![first, rest];
        shape.extend(roles.windows.iter().map(|window| sizes[window.axis]));
        let x = self.reshaped(x, &shape)?;
        let kernel: Vec<u64> = roles
            .windows
            .iter()
            .map(|window| window.extent(found))
            .collect();
        let made = self.pooled(kind, x, (&roles.windows, pads), &kernel)?;
        let mut order = roles.batch.clone();
        order.extend(roles.windows.iter().map(|window| window.at));
        let extents: Vec<u64> = order.iter().map(|&d| found.extents[d]).collect();
        self.ordered(made, &order, &extents, out)
    }

    fn pooled(
        &mut self,
        kind: ReduceKind,
        x: Value,
        (windows, pads): (&[Window], Option<Vec<i64>>),
        kernel: &[u64],
    ) -> Option<Value> {
        let strides = Some(windows.iter().map(|window| window.stride).collect());
        let dilations = Some(windows.iter().map(|window| window.dilation).collect());
        let greatest = MaxPool {
            kernel: optc_ops::ints(kernel),
            strides,
            dilations,
            pads,
            ceil_mode: false,
        };
        match kind {
            ReduceKind::Max => self.one(&greatest, &[x]),
            ReduceKind::Min if self.dtype(x).is_float() => {
                let x = self.one(&Neg {}, &[x])?;
                let made = self.one(&greatest, &[x])?;
                self.one(&Neg {}, &[made])
            }
            ReduceKind::Sum if self.dtype(x).is_float() => {
                let mean = AvgPool {
                    kernel: greatest.kernel,
                    strides: greatest.strides,
                    dilations: greatest.dilations,
                    pads: greatest.pads,
                    ceil_mode: false,
                    count_include_pad: true,
                };
                let made = self.one(&mean, &[x])?;
                let count = kernel.iter().product::<u64>();
                let dtype = self.dtype(x);
                #[expect(clippy::cast_precision_loss, reason = "a window has few elements")]
                let number = optc_ir::Tensor::from_f64(dtype, Vec::new(), [count as f64]);
                let number = self.splat(&crate::func::Splat {
                    shape: Vec::new(),
                    dtype,
                    bytes: number.to_bytes(),
                })?;
                self.one(&Mul {}, &[made, number])
            }
            _ => None,
        }
    }

    /// The part of an operand that the windows reach.
    fn fitted(
        &mut self,
        found: &Structured<'a, 'm>,
        x: Value,
        windows: &[Window],
    ) -> Option<Value> {
        let shape = self.shape(x);
        let mut limits = shape.clone();
        for window in windows {
            let steps =
                |extent: u64, by: i64| extent.checked_sub(1)?.checked_mul(u64::try_from(by).ok()?);
            let last = steps(found.extents[window.at], window.stride)?;
            let reach = last
                .checked_add(steps(window.extent(found), window.dilation)?)?
                .checked_add(1)?;
            if shape[window.axis] < reach {
                return None;
            }
            // A window that does not fit behind the last one changes nothing.
            if window.stride.unsigned_abs() <= shape[window.axis] - reach {
                limits[window.axis] = reach;
            }
        }
        if limits == shape {
            return Some(x);
        }
        let slice = Slice {
            starts: Bounds::of_ints(&vec![0; shape.len()]),
            limits: Bounds::of_ints(&optc_ops::ints(&limits)),
            strides: None,
        };
        self.one(&slice, &[x])
    }

    /// An operand without a pad by this number along the windows, and the pads as an operation on windows states them.
    fn unpadded(&mut self, x: Value, windows: &[Window], number: f64) -> (Value, Option<Vec<i64>>) {
        match self.before_pad(x, windows, number) {
            Some((x, pads)) => (x, Some(pads)),
            None => (x, None),
        }
    }

    fn before_pad(
        &mut self,
        x: Value,
        windows: &[Window],
        number: f64,
    ) -> Option<(Value, Vec<i64>)> {
        let long = |shape: &[u64]| {
            (0..shape.len())
                .filter(|&d| shape[d] != 1)
                .collect::<Vec<_>>()
        };
        let shape = self.shape(x);
        let (own, mut padded) = (long(&shape), x);
        // A reshape that adds or drops dimensions of extent 1.
        while let Some(op) = self.b.func.def_op(padded) {
            let data = &self.b.func.ops[op];
            let ([from], true) = (&data.operands[..], &*data.name == Reshape::NAME) else {
                break;
            };
            let (from, before) = (*from, self.shape(*from));
            let extents = |shape: &[u64]| long(shape).iter().map(|&d| shape[d]).collect::<Vec<_>>();
            if extents(&before) != extents(&shape) {
                break;
            }
            padded = from;
        }
        let data = &self.b.func.ops[self.b.func.def_op(padded)?];
        let op = self.b.func.op_ref_of(data);
        let pad = Pad::of(&op)
            .ok()
            .filter(|pad| pad.mode == PadMode::Constant)?;
        if pad.value.element(self.dtype(x)).f64_at(0) != number {
            return None;
        }
        let (from, amounts) = (data.operands[0], pad.amounts(&op).ok()?);
        let places = long(&self.shape(padded));
        let mut left = shape.clone();
        let mut pads = vec![[0, 0]; shape.len()];
        for (d, (&low, &high)) in amounts.low.iter().zip(&amounts.high).enumerate() {
            let amount = [low, high];
            if amount == [0, 0] {
                continue;
            }
            let axis = *own.get(places.iter().position(|&place| place == d)?)?;
            let on = windows.iter().any(|window| window.axis == axis);
            if !on || amount.iter().any(|&n| n < 0) {
                return None;
            }
            let both = amount[0].checked_add(amount[1])?;
            left[axis] = left[axis].checked_sub(both.unsigned_abs())?;
            pads[axis] = amount;
        }
        let side = |side: usize| windows.iter().map(move |window| (window.axis, side));
        let pads = side(0)
            .chain(side(1))
            .map(|(axis, side)| pads[axis][side])
            .collect();
        Some((self.reshaped(from, &left)?, pads))
    }

    /// A value over the loops `order`, of these extents, with its dimensions in the order of the result.
    fn ordered(
        &mut self,
        x: Value,
        order: &[usize],
        extents: &[u64],
        out: &[usize],
    ) -> Option<Value> {
        if order.len() != out.len() {
            return None;
        }
        let x = self.reshaped(x, extents)?;
        let perm: Option<Vec<usize>> = out
            .iter()
            .map(|d| order.iter().position(|o| o == d))
            .collect();
        self.transposed(x, &perm?)
    }
}

impl Window {
    /// The number of elements in the window.
    fn extent(&self, found: &Structured<'_, '_>) -> u64 {
        self.inside.map_or(1, |d| found.extents[d])
    }
}

impl Roles {
    /// The roles of all loops; `None` if one has no role.
    fn of(
        found: &Structured<'_, '_>,
        map: &Map,
        weights: Option<&[usize]>,
        out: &[usize],
    ) -> Option<Roles> {
        let mut roles = Roles::default();
        let mut seen = vec![false; found.extents.len()];
        let weighs = |d: usize| weights.is_some_and(|w| w.contains(&d));
        for (axis, index) in map.iter().enumerate() {
            if index.dim().is_some() {
                continue;
            }
            let window = window(index, axis, &found.reduced)?;
            let inside = window.inside.is_none_or(|d| weights.is_none() || weighs(d));
            if !out.contains(&window.at) || weighs(window.at) || !inside {
                return None;
            }
            for d in [Some(window.at), window.inside].into_iter().flatten() {
                if std::mem::replace(&mut seen[d], true) {
                    return None;
                }
            }
            roles.windows.push(window);
        }
        if roles.windows.is_empty() || 3 < roles.windows.len() {
            return None;
        }
        for d in map.iter().filter_map(Linear::dim) {
            if std::mem::replace(&mut seen[d], true) {
                return None;
            }
            match (weighs(d), out.contains(&d)) {
                (false, true) => roles.batch.push(d),
                (true, true) => roles.group.push(d),
                (true, false) => roles.input.push(d),
                (false, false) => return None,
            }
        }
        for &d in weights.unwrap_or_default() {
            let own = !seen[d] && out.contains(&d);
            if own {
                seen[d] = true;
                roles.output.push(d);
            } else if !seen[d] {
                return None;
            }
        }
        seen.iter().all(|&seen| seen).then_some(roles)
    }
}

/// The window of an index of two loops, or of one with a stride.
fn window(index: &Linear, axis: usize, reduced: &[bool]) -> Option<Window> {
    if index.constant != 0 || index.terms.iter().any(|(_, by)| *by < 1) {
        return None;
    }
    let (at, inside) = match index.terms[..] {
        [at] if !reduced[at.0] => (at, None),
        [a, b] => match (reduced[a.0], reduced[b.0]) {
            (false, true) => (a, Some(b)),
            (true, false) => (b, Some(a)),
            _ => return None,
        },
        _ => return None,
    };
    Some(Window {
        axis,
        at: at.0,
        stride: at.1,
        inside: inside.map(|(d, _)| d),
        dilation: inside.map_or(1, |(_, by)| by),
    })
}

/// The map to these loops.
fn maps_of(dims: &[usize]) -> Map {
    dims.iter().map(|&d| Linear::of(d)).collect()
}
