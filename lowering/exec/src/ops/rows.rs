//! Softmax, norms and reductions: along some dimensions, for each index of the others, in any order.

use crate::access::Access;
use crate::memory::In;
use crate::ops::kernel::{Kernel, Slots, floats, floats_mut};
use optc_ir::{DType, Func, Op, Operation};
use optc_ops::{LayerNorm, Reduce, ReduceKind, Softmax};

/// What is done along the dimensions.
#[derive(Clone, Copy, Debug)]
enum Work {
    Softmax,
    Norm { epsilon: f64 },
    Reduce(ReduceKind),
}

/// Rows of elements that are worked on one after another.
#[derive(Debug)]
pub(crate) struct Rows {
    work: Work,
    /// Where each row begins, in the result and in the operand.
    begins: Vec<[i64; 2]>,
    /// The offsets of its elements in the operand, and in the result where there is one for each.
    reads: Vec<i64>,
    writes: Vec<i64>,
    /// Of a norm, the offsets of scale and bias along a row.
    scale: Option<Vec<i64>>,
    bias: Option<Vec<i64>>,
    reach: [(i64, i64); 2],
}

impl Rows {
    pub(crate) fn of<'a>(func: &Func, op: Op, slots: &Slots<'a>) -> Option<Rows> {
        let data = &func.ops[op];
        let all = data.operands.iter().chain(&data.results);
        let all: Vec<_> = all.map(|&v| slots(v)).collect::<Option<_>>()?;
        if data.results.len() != 1 || all.iter().any(|s| s.dtype != DType::F32 || s.width != 32) {
            return None;
        }
        let of = func.op_ref(op);
        let source = &*all[0].access;
        let rank = source.shape().len();
        let (work, axes) = match &*data.name {
            Softmax::NAME => (Work::Softmax, vec![Softmax::of(&of).ok()?.along(&of).ok()?]),
            LayerNorm::NAME => {
                let norm = LayerNorm::of(&of).ok()?;
                let epsilon = norm.epsilon;
                (
                    Work::Norm { epsilon },
                    (norm.first_axis(&of).ok()?..rank).collect(),
                )
            }
            Reduce::NAME => {
                let reduce = Reduce::of(&of).ok()?;
                let known = matches!(
                    reduce.kind,
                    ReduceKind::Sum | ReduceKind::Mean | ReduceKind::Max | ReduceKind::Min
                );
                (
                    Work::Reduce(known.then_some(reduce.kind)?),
                    reduce.reduced(&of).ok()?,
                )
            }
            _ => return None,
        };
        let kept: Vec<usize> = (0..rank).filter(|d| !axes.contains(d)).collect();
        let Access::Sum { base, tables } = source else {
            return None;
        };
        let sum = |base: i64, tables: Vec<Vec<i64>>| {
            let access = Access::Sum { base, tables };
            let mut all = Vec::with_capacity(access.count());
            access.each(|offset| all.push(offset));
            all
        };
        let pick = |tables: &[Vec<i64>], dims: &[usize]| -> Vec<Vec<i64>> {
            dims.iter().map(|&d| tables[d].clone()).collect()
        };
        let reads = sum(0, pick(tables, &axes));
        let from = sum(*base, pick(tables, &kept));
        let target = &*all[all.len() - 1].access;
        let (to, writes) = match work {
            Work::Reduce(_) => {
                let shape: Vec<usize> = kept.iter().map(|&d| source.shape()[d]).collect();
                let flat = target.reshaped(&shape);
                let mut to = Vec::with_capacity(flat.count());
                flat.each(|offset| to.push(offset));
                (to, vec![0])
            }
            Work::Softmax | Work::Norm { .. } => {
                let Access::Sum { base, tables } = target else {
                    return None;
                };
                (sum(*base, pick(tables, &kept)), sum(0, pick(tables, &axes)))
            }
        };
        if to.len() != from.len() || reads.is_empty() {
            return None;
        }
        let along = |i: usize| -> Option<Vec<i64>> {
            let shape: Vec<usize> = axes.iter().map(|&d| source.shape()[d]).collect();
            let access = all[i].access.broadcast(&shape);
            let mut offsets = Vec::with_capacity(access.count());
            access.each(|offset| offsets.push(offset));
            (offsets.len() == reads.len()).then_some(offsets)
        };
        let norm = matches!(work, Work::Norm { .. });
        let scale = match norm && 1 < data.operands.len() {
            true => Some(along(1)?),
            false => None,
        };
        let bias = match norm && 2 < data.operands.len() {
            true => Some(along(2)?),
            false => None,
        };
        let span = |begins: &[i64], along: &[i64]| {
            let low = begins.iter().min().copied().unwrap_or(0)
                + along.iter().min().copied().unwrap_or(0);
            let high = begins.iter().max().copied().unwrap_or(-1)
                + along.iter().max().copied().unwrap_or(0);
            (low, high)
        };
        let reach = [span(&to, &writes), span(&from, &reads)];
        Some(Rows {
            work,
            begins: to.into_iter().zip(from).map(|(a, b)| [a, b]).collect(),
            reads,
            writes,
            scale,
            bias,
            reach,
        })
    }

    fn row(&self, row: &mut [f32], scale: Option<&[f32]>, bias: Option<&[f32]>) -> f32 {
        let n = row.len() as f64;
        let sum = |row: &[f32]| row.iter().map(|&x| f64::from(x)).sum::<f64>();
        match self.work {
            Work::Softmax => {
                let most = row.iter().copied().fold(f32::NEG_INFINITY, f32::max);
                row.iter_mut().for_each(|x| *x = (*x - most).exp());
                let whole = (1.0 / sum(row)) as f32;
                row.iter_mut().for_each(|x| *x *= whole);
                0.0
            }
            Work::Norm { epsilon } => {
                let mean = sum(row) / n;
                let variance = row
                    .iter()
                    .map(|&x| (f64::from(x) - mean).powi(2))
                    .sum::<f64>()
                    / n;
                let factor = 1.0 / (variance + epsilon).sqrt();
                for (i, x) in row.iter_mut().enumerate() {
                    let at = |table: &Option<Vec<i64>>, values: Option<&[f32]>, other: f32| {
                        let offset = table.as_ref().and_then(|t| usize::try_from(t[i]).ok());
                        offset
                            .and_then(|at| values?.get(at).copied())
                            .unwrap_or(other)
                    };
                    let normal = ((f64::from(*x) - mean) * factor) as f32;
                    *x = normal * at(&self.scale, scale, 1.0) + at(&self.bias, bias, 0.0);
                }
                0.0
            }
            Work::Reduce(ReduceKind::Max) => row.iter().copied().fold(f32::NEG_INFINITY, greater),
            Work::Reduce(ReduceKind::Min) => {
                -row.iter().map(|x| -x).fold(f32::NEG_INFINITY, greater)
            }
            Work::Reduce(ReduceKind::Mean) => (sum(row) / n) as f32,
            Work::Reduce(_) => sum(row) as f32,
        }
    }
}

/// The greater of two; a number that is none wins.
fn greater(a: f32, b: f32) -> f32 {
    if a.is_nan() || b < a { a } else { b }
}

impl Kernel for Rows {
    fn name(&self) -> &'static str {
        "rows"
    }

    fn run(&self, _: usize, ins: &[In<'_>], out: &mut [u8]) -> Result<(), String> {
        let Some(In::Bytes(source)) = ins.first() else {
            return Err("an operand is written over".to_owned());
        };
        let (out, source) = (floats_mut(out)?, floats(source)?);
        let more = |i: usize| match ins.get(i) {
            Some(In::Bytes(bytes)) => floats(bytes).map(Some),
            Some(In::Same) | None => Ok(None),
        };
        let (scale, bias) = (more(1)?, more(2)?);
        for ((low, high), n) in self.reach.into_iter().zip([out.len(), source.len()]) {
            if low < 0 || n as i64 <= high {
                return Err("an element lies outside of its buffer".to_owned());
            }
        }
        let mut row = vec![0f32; self.reads.len()];
        for &[to, from] in &self.begins {
            for (x, read) in row.iter_mut().zip(&self.reads) {
                *x = source[(from + read) as usize];
            }
            let one = self.row(&mut row, scale, bias);
            match self.work {
                Work::Reduce(_) => out[to as usize] = one,
                Work::Softmax | Work::Norm { .. } => {
                    for (x, write) in row.iter().zip(&self.writes) {
                        out[(to + write) as usize] = *x;
                    }
                }
            }
        }
        Ok(())
    }
}
