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
use crate::unwritten::{Form, Unwritten, first, known};
use optc_ir::op::{Binary, Combine, Direction, Expr, Operation, Role, Stage};
use optc_ir::{DType, OpData};
use optc_layout::{Cuts, Digit};
use optc_ops::{ArgMax, ArgMin, Reduce, ReduceKind};

/// Writes the operation if it is one of these.
pub(super) fn write(w: &mut Writer<'_>, data: &OpData) -> Form<()> {
    first(How::ALL, |how| match &*data.name {
        Reduce::NAME => reduce(w, data, how),
        ArgMax::NAME | ArgMin::NAME => arg(w, data, how),
        _ => composed(w, data, how),
    })
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

    /// Combines all dimensions but the kept digits: `of` an element, by a function of two numbers.
    fn combined(
        &self,
        w: &mut Writer<'_>,
        ins: &[Port],
        (combine, dtype): (Combine, DType),
        of: impl FnOnce(&mut Body, &[Scalar]) -> Scalar,
    ) -> Port {
        let init = match combine {
            Combine::Add => number_text(0.0, dtype),
            Combine::Multiply => number_text(1.0, dtype),
            Combine::Max => limit_text(dtype, false),
            Combine::Min => limit_text(dtype, true),
        };
        self.reduced(w, ins, (init, dtype), |b, _, xs, acc| {
            let x = of(b, xs);
            match combine {
                Combine::Add => b.add(acc, &x),
                Combine::Multiply => b.mul(acc, &x),
                Combine::Max => b.max(acc, &x),
                Combine::Min => b.min(acc, &x),
            }
        })
    }

    /// The maximum, or the minimum.
    fn extreme(&self, w: &mut Writer<'_>, x: &Port, greatest: bool) -> Port {
        let combine = if greatest { Combine::Max } else { Combine::Min };
        let how = (combine, Writer::sum_type(x.mem.dtype));
        self.combined(w, std::slice::from_ref(x), how, |_, xs| xs[0].clone())
    }
}

fn reduce(w: &mut Writer<'_>, data: &OpData, how: How) -> Form<()> {
    let Reduce { kind, .. } = known(w.typed(data))?;
    let freedom = freedom(w, data)?;
    let found = ports(w, data, &freedom, how)?;
    let (ins, out, limits) = (&found.ins, &found.out, &found.limits);
    let x = &ins[0];
    let dtype = x.mem.dtype;
    if kind == ReduceKind::L2 && !dtype.is_float() {
        return Err(Unwritten::NoForm);
    }
    let nest = known(Nest::of(&[out, &x.digits]))?;
    let nest = nest.within(limits);
    let kept = Kept {
        kept: nest.refined(out),
        nest: &nest,
    };
    let sums = Writer::sum_type(dtype);
    let count = nest.combined(&kept.kept);
    let made = match kind {
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
        _ => {
            // Kinds whose parts do not combine by themselves add up.
            let combine = kind.combine().unwrap_or(Combine::Add);
            kept.combined(w, ins, (combine, sums), |b, xs| match kind {
                ReduceKind::L1 => b.abs(&xs[0]),
                ReduceKind::L2 | ReduceKind::SumSquare => b.mul(&xs[0], &xs[0]),
                _ => xs[0].clone(),
            })
        }
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
    Ok(())
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
    let sum = kept.combined(w, &ins, (Combine::Add, sums), |b, xs| {
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

/// Writes an operation by its composition: a `linalg.generic` for each stage.
fn composed(w: &mut Writer<'_>, data: &OpData, how: How) -> Form<()> {
    let (composition, freedom) = (w.registry.composition(&w.op_ref(data)), freedom(w, data)?);
    let composition = known(composition)?;
    let found = ports(w, data, &freedom, how)?;
    let (ins, out, limits) = (&found.ins, &found.out, &found.limits);
    let channels = w.shape(data.operands[0])?.get(1).copied();
    let group = channels.and_then(|channels| composition.group(channels));
    let channel = freedom.operands[0].get(1).copied().flatten();
    // The elements of a group are not those of a whole dimension, so limits along channels do not apply.
    let limited = limits.iter().any(|l| Some(l.0) == channel);
    if composition.groups.is_some() && (group.is_none() || limited) {
        return Err(Unwritten::NoForm);
    }
    let mut all: Vec<&[Digit]> = vec![out];
    all.extend(ins.iter().map(|p| &*p.digits));
    let mut cuts = Cuts::of(&all);
    if let (Some(group), Some(channel)) = (group, channel) {
        cuts.cut(channel, group);
    }
    let nest = known(Nest::cut(&all, cuts))?;
    let nest = nest.within(limits);
    let along = |d: usize| {
        let dim = freedom.operands[0].iter().position(|l| *l == Some(d));
        dim.is_some_and(|dim| composition.along.contains(&dim))
    };
    let kept = |d: &&Digit| match group {
        Some(group) if Some(d.of) == channel => group <= d.div,
        _ => !along(d.of),
    };
    let kept: Vec<Digit> = nest.loops.iter().filter(kept).copied().collect();
    let stages = Stages {
        count: nest.combined(&kept),
        kept: Kept { nest: &nest, kept },
        out,
        operands: ins,
    };
    let mem = known(stages.write(w, &composition.stages)?)?;
    found.settle(w, &mem);
    Ok(())
}

/// The stages of a composition.
struct Stages<'n> {
    kept: Kept<'n>,
    /// The number of elements that are combined.
    count: u64,
    /// The digits of the result.
    out: &'n [Digit],
    operands: &'n [Port],
}

/// A stage that has been written, or one that is computed again where it is read.
enum Made<'s> {
    Stored(Port),
    Again(&'s Expr),
}

impl Stages<'_> {
    /// Writes all stages; the memory of the last one.
    fn write(&self, w: &mut Writer<'_>, stages: &[Stage]) -> Outcome<Option<Mem>> {
        let stored = |port: &Port| Made::Stored(port.clone());
        let mut made: Vec<Made<'_>> = self.operands.iter().map(stored).collect();
        let dtype = self.operands[0].mem.dtype;
        let wide = Writer::sum_type(dtype);
        let nest = self.kept.nest;
        for (i, stage) in stages.iter().enumerate() {
            let is_last = i + 1 == stages.len();
            let next = match stage {
                Stage::Each(expr) if !is_last && is_cheap(expr) => Made::Again(expr),
                Stage::Each(expr) => {
                    let (expr, ins) = read(expr, &made);
                    let to = if is_last { dtype } else { wide };
                    let out = (self.out, to);
                    let mem = w.generic(nest, &ins, out, Init::Empty, |b, _, xs, _| {
                        built(&expr, b, xs)
                    });
                    if is_last {
                        return Ok(Some(mem));
                    }
                    let digits = nest.refined(self.out);
                    Made::Stored(Port { mem, digits })
                }
                Stage::Reduce { combine, of, then } => {
                    let (of, ins) = read(of, &made);
                    let how = (*combine, wide);
                    let port = self.kept.combined(w, &ins, how, |b, xs| built(&of, b, xs));
                    Made::Stored(match then {
                        Expr::Operand(0) => port,
                        then => {
                            let mem = finished(w, &port, |b, x| {
                                let count = match then.reads(1) {
                                    true => b.count(self.count, x.ty),
                                    false => x.clone(),
                                };
                                built(then, b, &[x.clone(), count])
                            });
                            Port { mem, ..port }
                        }
                    })
                }
            };
            made.push(next);
        }
        Ok(None)
    }
}

/// Returns whether an expression is computed again rather than stored: it is sums, differences and products alone.
fn is_cheap(expr: &Expr) -> bool {
    match expr {
        Expr::Operand(_) | Expr::Number(_) => true,
        Expr::Binary(Binary::Add | Binary::Sub | Binary::Mul, parts) => parts.iter().all(is_cheap),
        _ => false,
    }
}

/// An expression in terms of the stored values that it reads, and these.
fn read(expr: &Expr, made: &[Made<'_>]) -> (Expr, Vec<Port>) {
    let (mut at, mut ports) = (vec![None; made.len()], Vec::new());
    let mut found = |i: usize, port: &Port| {
        *at[i].get_or_insert_with(|| {
            ports.push(port.clone());
            ports.len() - 1
        })
    };
    fn replaced(
        expr: &Expr,
        made: &[Made<'_>],
        found: &mut dyn FnMut(usize, &Port) -> usize,
    ) -> Expr {
        expr.with_operands(&mut |i| match made.get(i) {
            Some(Made::Stored(port)) => Expr::Operand(found(i, port)),
            Some(Made::Again(expr)) => replaced(expr, made, found),
            None => Expr::Operand(i),
        })
    }
    let expr = replaced(expr, made, &mut found);
    (expr, ports)
}

/// An expression of one element of each operand.
fn built(expr: &Expr, b: &mut Body, xs: &[Scalar]) -> Scalar {
    let operands: Vec<(Scalar, DType)> = xs.iter().map(|x| (x.clone(), x.ty)).collect();
    let Ok(made) = expr.build(&operands, b);
    made.unwrap_or_else(|| xs[0].clone())
}

/// The position of the extreme element: first the extreme is reduced, then the first or last position that has it.
fn arg(w: &mut Writer<'_>, data: &OpData, how: How) -> Form<()> {
    let greatest = w.typed::<ArgMax>(data);
    let last = match (&greatest, w.typed::<ArgMin>(data)) {
        (Some(arg), _) => arg.select_last_index,
        (None, Some(arg)) => arg.select_last_index,
        _ => return Err(Unwritten::NoForm),
    };
    let freedom = freedom(w, data)?;
    let found = ports(w, data, &freedom, how)?;
    let (ins, out, limits) = (&found.ins, &found.out, &found.limits);
    let nest = known(Nest::of(&[out, &ins[0].digits]))?;
    let nest = nest.within(limits);
    let axis = known(freedom.labels.iter().position(|l| l.role == Role::Axis))?;
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
    Ok(())
}
