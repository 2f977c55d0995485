//! Reductions, softmax and normalizations.
//!
//! Example: a softmax is four `linalg.generic`: the maximum, the exponentials of the differences from it, their sum,
//! and the quotients.

use super::body::{Body, Scalar};
use super::mem::{Mem, Outcome, Port};
use super::nest::Nest;
use super::ports::{freedom, ports};
use super::types::{limit_text, number_text};
use super::writer::{How, Init, Writer};
use optc_ir::op::{Direction, Operation, Role};
use optc_ir::{DType, OpData};
use optc_layout::{Cuts, Digit};
use optc_ops::{
    ArgMax, ArgMin, GroupNorm, InstanceNorm, LayerNorm, LogSoftmax, Reduce, ReduceKind, RmsNorm,
    Softmax,
};

/// Writes the operation if it is one of these; returns whether it did.
pub(super) fn write(w: &mut Writer<'_>, data: &OpData) -> Outcome<bool> {
    let forms = |w: &mut Writer<'_>, how| -> Outcome<bool> {
        match &*data.name {
            Reduce::NAME => reduce(w, data, how),
            Softmax::NAME | LogSoftmax::NAME => softmax(w, data, how),
            LayerNorm::NAME | RmsNorm::NAME | InstanceNorm::NAME | GroupNorm::NAME => {
                norm(w, data, how)
            }
            ArgMax::NAME | ArgMin::NAME => arg(w, data, how),
            _ => Ok(false),
        }
    };
    for how in How::ALL {
        if forms(w, how)? {
            return Ok(true);
        }
    }
    Ok(false)
}

/// Loops over the digits of an operand, and the digits that the result keeps.
struct Kept<'n> {
    nest: &'n Nest,
    kept: Vec<Digit>,
}

impl Kept<'_> {
    /// Reduces all dimensions but the kept digits: `of` an element, combined from `init` on.
    fn reduced(
        &self,
        w: &mut Writer<'_>,
        ins: &[Port],
        (init, dtype): (String, DType),
        step: impl FnOnce(&mut Body, &Nest, &[Scalar], &Scalar) -> Scalar,
    ) -> Port {
        let out = (&*self.kept, dtype);
        let mem = w.generic(self.nest, ins, out, Init::Fill(init), step);
        let digits = self.kept.clone();
        Port { mem, digits }
    }

    fn sum(
        &self,
        w: &mut Writer<'_>,
        ins: &[Port],
        dtype: DType,
        of: impl FnOnce(&mut Body, &[Scalar]) -> Scalar,
    ) -> Port {
        let zero = (number_text(0.0, dtype), dtype);
        self.reduced(w, ins, zero, |b, _, xs, acc| {
            let x = of(b, xs);
            b.add(acc, &x)
        })
    }

    /// The maximum, or the minimum.
    fn extreme(&self, w: &mut Writer<'_>, x: &Port, greatest: bool) -> Port {
        let dtype = Writer::sum_type(x.mem.dtype);
        let init = (limit_text(dtype, !greatest), dtype);
        self.reduced(
            w,
            std::slice::from_ref(x),
            init,
            |b, _, xs, acc| match greatest {
                true => b.max(acc, &xs[0]),
                false => b.min(acc, &xs[0]),
            },
        )
    }
}

fn reduce(w: &mut Writer<'_>, data: &OpData, how: How) -> Outcome<bool> {
    let Some(Reduce { kind, .. }) = w.typed(data) else {
        return Ok(false);
    };
    let freedom = freedom(w, data)?;
    let Some(found) = ports(w, data, &freedom, how)? else {
        return Ok(false);
    };
    let (ins, out, limits) = (&found.ins, &found.out, &found.limits);
    let x = &ins[0];
    let dtype = x.mem.dtype;
    if kind == ReduceKind::L2 && !dtype.is_float() {
        return Ok(false);
    }
    let Some(nest) = Nest::of(&[out, &x.digits]) else {
        return Ok(false);
    };
    let nest = nest.within(limits);
    let kept = Kept {
        kept: nest.refined(out),
        nest: &nest,
    };
    let sums = Writer::sum_type(dtype);
    let count = nest.combined(&kept.kept);
    let made = match kind {
        ReduceKind::Max => kept.extreme(w, x, true),
        ReduceKind::Min => kept.extreme(w, x, false),
        ReduceKind::Prod => {
            let one = (number_text(1.0, sums), sums);
            kept.reduced(w, ins, one, |b, _, xs, acc| b.mul(acc, &xs[0]))
        }
        ReduceKind::And | ReduceKind::Or => {
            let and = kind == ReduceKind::And;
            let init = match (and, dtype.is_bool()) {
                (true, true) => "true",
                (false, true) => "false",
                (true, false) => "-1",
                (false, false) => "0",
            };
            let opcode = if and { "arith.andi" } else { "arith.ori" };
            kept.reduced(w, ins, (init.to_owned(), sums), |b, _, xs, acc| {
                b.op(opcode, &[acc, &xs[0]])
            })
        }
        ReduceKind::LogSumExp => log_sum_exp(w, &kept, x, sums),
        _ => kept.sum(w, ins, sums, |b, xs| match kind {
            ReduceKind::L1 => b.abs(&xs[0]),
            ReduceKind::L2 | ReduceKind::SumSquare => b.mul(&xs[0], &xs[0]),
            _ => xs[0].clone(),
        }),
    };
    let made = match kind {
        ReduceKind::Mean => finished(w, &made, |b, x| {
            let n = b.count(count, x.ty);
            b.div(x, &n)
        }),
        ReduceKind::L2 => finished(w, &made, Body::sqrt),
        ReduceKind::LogSum => finished(w, &made, |b, x| b.op("math.log", &[x])),
        _ => made.mem,
    };
    let mem = w.narrowed(&made, dtype);
    found.settle(w, &mem);
    Ok(true)
}

/// An element-wise function of a tensor.
fn finished(w: &mut Writer<'_>, port: &Port, of: impl FnOnce(&mut Body, &Scalar) -> Scalar) -> Mem {
    let nest = Nest::plain(&port.digits);
    let (ins, dtype) = (std::slice::from_ref(port), port.mem.dtype);
    w.generic(
        &nest,
        ins,
        (&port.digits, dtype),
        Init::Empty,
        |b, _, xs, _| of(b, &xs[0]),
    )
}

/// The logarithm of a sum of exponentials. The maximum is subtracted first, so that no exponential exceeds 1.
fn log_sum_exp(w: &mut Writer<'_>, kept: &Kept<'_>, x: &Port, sums: DType) -> Port {
    let most = kept.extreme(w, x, true);
    let most = Port {
        mem: finished(w, &most, |b, x| {
            let (size, limit) = (b.abs(x), b.number(f64::INFINITY, x.ty));
            let finite = b.compare(Direction::Lt, &size, &limit);
            let zero = b.number(0.0, x.ty);
            b.select(&finite, x, &zero)
        }),
        ..most
    };
    let ins = [x.clone(), most.clone()];
    let sum = kept.sum(w, &ins, sums, |b, xs| {
        let off = b.sub(&xs[0], &xs[1]);
        b.op("math.exp", &[&off])
    });
    let nest = Nest::plain(&kept.kept);
    let mem = w.generic(
        &nest,
        &[sum, most],
        (&kept.kept, sums),
        Init::Empty,
        |b, _, xs, _| {
            let log = b.op("math.log", &[&xs[0]]);
            b.add(&log, &xs[1])
        },
    );
    let digits = kept.kept.clone();
    Port { mem, digits }
}

fn softmax(w: &mut Writer<'_>, data: &OpData, how: How) -> Outcome<bool> {
    let log = &*data.name == LogSoftmax::NAME;
    let freedom = freedom(w, data)?;
    let Some(found) = ports(w, data, &freedom, how)? else {
        return Ok(false);
    };
    let (ins, out, limits) = (&found.ins, &found.out, &found.limits);
    let x = ins[0].clone();
    let Some(nest) = Nest::of(&[out, &x.digits]) else {
        return Ok(false);
    };
    let nest = nest.within(limits);
    let along = |d: &Digit| freedom.labels[d.of].role == Role::Axis;
    let kept: Vec<Digit> = nest.loops.iter().filter(|d| !along(d)).copied().collect();
    let kept = Kept { nest: &nest, kept };
    let sums = Writer::sum_type(x.mem.dtype);
    let most = kept.extreme(w, &x, true);
    let ins = [x.clone(), most.clone()];
    let dtype = x.mem.dtype;
    let mem = if log {
        let sum = kept.sum(w, &ins, sums, |b, xs| {
            let off = b.sub(&xs[0], &xs[1]);
            b.op("math.exp", &[&off])
        });
        let ins = [x, most, sum];
        w.generic(&nest, &ins, (out, dtype), Init::Empty, |b, _, xs, _| {
            let off = b.sub(&xs[0], &xs[1]);
            let log = b.op("math.log", &[&xs[2]]);
            b.sub(&off, &log)
        })
    } else {
        let mem = w.generic(&nest, &ins, (out, sums), Init::Empty, |b, _, xs, _| {
            let off = b.sub(&xs[0], &xs[1]);
            b.op("math.exp", &[&off])
        });
        let digits = nest.refined(out);
        let powers = Port { mem, digits };
        let sum = kept.sum(w, std::slice::from_ref(&powers), sums, |_, xs| {
            xs[0].clone()
        });
        let ins = [powers, sum];
        w.generic(&nest, &ins, (out, dtype), Init::Empty, |b, _, xs, _| {
            b.div(&xs[0], &xs[1])
        })
    };
    found.settle(w, &mem);
    Ok(true)
}

/// The parameters of a normalization.
struct Norm {
    epsilon: f64,
    /// True if the mean is subtracted first.
    centred: bool,
    /// The number of channels in a group, if channels are grouped.
    group: Option<u64>,
}

impl Norm {
    fn of(w: &Writer<'_>, data: &OpData) -> Option<Norm> {
        let plain = |epsilon, centred| Norm {
            epsilon,
            centred,
            group: None,
        };
        if let Some(norm) = w.typed::<LayerNorm>(data) {
            return Some(plain(norm.epsilon, true));
        }
        if let Some(norm) = w.typed::<RmsNorm>(data) {
            return Some(plain(norm.epsilon, false));
        }
        if let Some(norm) = w.typed::<InstanceNorm>(data) {
            return Some(plain(norm.epsilon, true));
        }
        let norm = w.typed::<GroupNorm>(data)?;
        let channels = w.shape(data.operands[0]).ok()?.get(1).copied()?;
        Some(Norm {
            group: channels.checked_div(norm.groups().ok()?),
            ..plain(norm.epsilon, true)
        })
    }
}

fn norm(w: &mut Writer<'_>, data: &OpData, how: How) -> Outcome<bool> {
    let (Some(about), freedom) = (Norm::of(w, data), freedom(w, data)?) else {
        return Ok(false);
    };
    let Some(found) = ports(w, data, &freedom, how)? else {
        return Ok(false);
    };
    let (ins, out, limits) = (&found.ins, &found.out, &found.limits);
    // The elements of a group are not those of a whole dimension, so limits along channels do not apply.
    if about.group.is_some() && limits.iter().any(|l| l.0 == 1) {
        return Ok(false);
    }
    let mut all: Vec<&[Digit]> = vec![out];
    all.extend(ins.iter().map(|p| &*p.digits));
    let mut cuts = Cuts::of(&all);
    // Channels are label 1.
    if let Some(group) = about.group {
        cuts.cut(1, group);
    }
    let Some(nest) = Nest::cut(&all, cuts) else {
        return Ok(false);
    };
    let nest = nest.within(limits);
    let kept = |d: &&Digit| match (about.group, freedom.labels[d.of].role) {
        (Some(group), Role::Axis) if d.of == 1 => group <= d.div,
        (_, role) => role != Role::Axis,
    };
    let own: Vec<Digit> = nest.loops.iter().filter(kept).copied().collect();
    let count = nest.combined(&own);
    let kept = Kept {
        nest: &nest,
        kept: own,
    };
    let x = ins[0].clone();
    let dtype = x.mem.dtype;
    let sums = Writer::sum_type(dtype);
    let mut first = vec![x.clone()];
    if about.centred {
        let sum = kept.sum(w, &first, sums, |_, xs| xs[0].clone());
        let mem = finished(w, &sum, |b, x| {
            let n = b.count(count, x.ty);
            b.div(x, &n)
        });
        first.push(Port { mem, ..sum });
    }
    let off = |b: &mut Body, xs: &[Scalar]| match about.centred {
        true => b.sub(&xs[0], &xs[1]),
        false => xs[0].clone(),
    };
    let squares = kept.sum(w, &first, sums, |b, xs| {
        let off = off(b, xs);
        b.mul(&off, &off)
    });
    let mem = finished(w, &squares, |b, x| {
        let (n, epsilon) = (b.count(count, x.ty), b.number(about.epsilon, x.ty));
        let mean = b.div(x, &n);
        let sum = b.add(&mean, &epsilon);
        let (one, root) = (b.number(1.0, x.ty), b.sqrt(&sum));
        b.div(&one, &root)
    });
    let at = first.len();
    first.push(Port { mem, ..squares });
    first.extend(ins[1..].iter().cloned());
    let mem = w.generic(&nest, &first, (out, dtype), Init::Empty, |b, _, xs, _| {
        let off = off(b, xs);
        let mut y = b.mul(&off, &xs[at]);
        if let Some(scale) = xs.get(at + 1) {
            y = b.mul(&y, scale);
        }
        if let Some(bias) = xs.get(at + 2) {
            y = b.add(&y, bias);
        }
        y
    });
    found.settle(w, &mem);
    Ok(true)
}

/// The position of the extreme element: first the extreme is reduced, then the first or last position that has it.
fn arg(w: &mut Writer<'_>, data: &OpData, how: How) -> Outcome<bool> {
    let greatest = w.typed::<ArgMax>(data);
    let last = match (&greatest, w.typed::<ArgMin>(data)) {
        (Some(arg), _) => arg.select_last_index,
        (None, Some(arg)) => arg.select_last_index,
        _ => return Ok(false),
    };
    let freedom = freedom(w, data)?;
    let Some(found) = ports(w, data, &freedom, how)? else {
        return Ok(false);
    };
    let (ins, out, limits) = (&found.ins, &found.out, &found.limits);
    let Some(nest) = Nest::of(&[out, &ins[0].digits]) else {
        return Ok(false);
    };
    let nest = nest.within(limits);
    let Some(axis) = freedom.labels.iter().position(|l| l.role == Role::Axis) else {
        return Ok(false);
    };
    let kept = Kept {
        kept: nest.refined(out),
        nest: &nest,
    };
    let most = kept.extreme(w, &ins[0], greatest.is_some());
    let to = w.tensor(data.results[0])?.dtype;
    let ins = [ins[0].clone(), most];
    let init = (limit_text(to, !last), to);
    let made = kept.reduced(w, &ins, init, |b, nest, xs, acc| {
        let at = nest.index(b, axis);
        let at = b.of_index(&at, acc.ty);
        let mut same = b.compare(Direction::Eq, &xs[0], &xs[1]);
        if xs[0].ty.is_float() {
            let nan = b.is_nan(&xs[0]);
            same = b.op("arith.ori", &[&same, &nan]);
        }
        let best = match last {
            true => b.max(acc, &at),
            false => b.min(acc, &at),
        };
        b.select(&same, &best, acc)
    });
    found.settle(w, &made.mem);
    Ok(true)
}
