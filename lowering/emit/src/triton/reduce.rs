//! Reductions along dimensions: sums, extremes, norms, softmax, windows of pooling.

use super::axis::{AxisId, Kind, axes_of, axes_of_all, union};
use super::cx::Reason;
use super::kernel::{Kernel, Val};
use super::words::{block_type, float, greatest, least, literal, wide};
use optc_ir::op::iteration_domain::LoopKind;
use optc_ir::{DType, Op, Value};
use optc_ops::{
    AvgPool, BatchNorm, GroupNorm, InstanceNorm, LayerNorm, LogSoftmax, Reduce, ReduceKind,
    RmsNorm, Softmax,
};
use optc_tile::Expr;

/// The elements that a program holds of one value that it reduces at once.
const MAX_AT_ONCE: u64 = 8192;

/// The combination of elements.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Fold {
    Sum,
    Product,
    Max,
    Min,
}

impl Fold {
    /// The number that changes nothing.
    fn neutral(self, dtype: DType) -> String {
        match self {
            Fold::Sum => literal(0.0, dtype),
            Fold::Product => literal(1.0, dtype),
            Fold::Max => least(dtype),
            Fold::Min => greatest(dtype),
        }
    }

    /// The reduction of a tensor along a dimension.
    fn along(self, text: &str, axis: usize) -> String {
        match self {
            Fold::Sum => format!("tl.sum({text}, axis={axis})"),
            Fold::Product => format!("tl.reduce({text}, {axis}, _times)"),
            Fold::Max => format!("tl.max({text}, axis={axis})"),
            Fold::Min => format!("tl.min({text}, axis={axis})"),
        }
    }

    fn pair(self, a: &str, b: &str) -> String {
        match self {
            Fold::Sum => format!("{a} + {b}"),
            Fold::Product => format!("{a} * {b}"),
            Fold::Max => format!("tl.maximum({a}, {b})"),
            Fold::Min => format!("tl.minimum({a}, {b})"),
        }
    }
}

/// A function that computes an element at the indices of the reduced dimensions.
type Element<'f, K> = &'f mut dyn FnMut(&mut K, &[Expr]) -> Result<Val, Reason>;

/// A function that gives the index of an operand.
type Place<'f, K> = &'f dyn Fn(&K, Value) -> Result<Vec<Expr>, Reason>;

/// A dimension that is reduced.
pub(super) enum Over {
    /// All of it is at this index already.
    Shared(Expr),
    /// An axis of this extent is added.
    Fresh(u64),
}

impl Kernel<'_> {
    /// The axes of an index that together run over all of a dimension in each program.
    fn covering(&self, expr: &Expr, size: u64) -> Option<Vec<AxisId>> {
        let axes = axes_of(expr);
        let probing = self.probe.as_ref().map_or(0, |p| p.roots);
        let whole = |&a: &AxisId| self.axes[a].kind == Kind::Whole || a < probing;
        let count: u64 = axes.iter().map(|&a| self.axes[a].extent).product();
        let range = expr.range(&self.grid()) == (0, size.cast_signed() - 1);
        (expr.is_plain() && axes.iter().all(whole) && count == size && range).then_some(axes)
    }

    /// A dimension of an index as it is reduced: shared if the program has all of it.
    fn over(&mut self, expr: &Expr, size: u64) -> Over {
        let Some(axes) = self.covering(expr, size) else {
            return Over::Fresh(size);
        };
        if let Some(probe) = &mut self.probe {
            let roots = probe.roots;
            probe.whole.extend(axes.iter().filter(|a| **a < roots));
        }
        Over::Shared(expr.clone())
    }

    /// Reduces over dimensions. `body` computes the element at the indices of these dimensions; `outer` are the axes of
    /// all other indices that it uses.
    pub(super) fn fold(
        &mut self,
        over: &[Over],
        outer: &[AxisId],
        fold: Fold,
        body: Element<'_, Self>,
    ) -> Result<Val, Reason> {
        let level = self.level(outer);
        self.at_level(level, |kernel| {
            let held = kernel.blocks(outer);
            let fresh: Vec<u64> = over
                .iter()
                .map(|o| match o {
                    Over::Shared(_) => 1,
                    Over::Fresh(n) => n.next_power_of_two(),
                })
                .collect();
            let all: u64 = fresh.iter().product();
            let at_once = held.saturating_mul(all) <= MAX_AT_ONCE;
            let longest = (0..fresh.len())
                .rev()
                .max_by_key(|&d| fresh[d])
                .unwrap_or(0);
            let mut opened = Vec::new();
            let mut reduced = Vec::new();
            let mut index = Vec::with_capacity(over.len());
            for (d, over) in over.iter().enumerate() {
                let axis = match over {
                    Over::Shared(expr) => {
                        reduced.extend(axes_of(expr));
                        index.push(expr.clone());
                        continue;
                    }
                    Over::Fresh(1) => {
                        index.push(Expr::default());
                        continue;
                    }
                    Over::Fresh(n) if at_once => kernel.add(*n, fresh[d], Kind::Whole),
                    Over::Fresh(n) => {
                        let room = (MAX_AT_ONCE / 2 / held.max(1)).max(1);
                        let block = match d == longest {
                            true => (1 << room.ilog2()).min(fresh[d]).min(1024),
                            false => 1,
                        };
                        let axis = kernel.open(*n, block);
                        opened.push(axis);
                        axis
                    }
                };
                reduced.push(axis);
                index.push(Expr::axis(axis));
            }
            let element = body(kernel, &index)?;
            kernel.folded(&element, &reduced, &opened, fold)
        })
    }

    /// Reduces an element along its axes, and over the loops that are open, which it closes.
    fn folded(
        &mut self,
        element: &Val,
        reduced: &[AxisId],
        opened: &[AxisId],
        fold: Fold,
    ) -> Result<Val, Reason> {
        let dtype = element.dtype;
        let vectors = self.vectors(reduced);
        let missing: Vec<AxisId> = vectors
            .iter()
            .copied()
            .filter(|a| !element.axes.contains(a))
            .collect();
        let axes = union(&element.axes, &missing);
        let mut text = self.spread(element, &axes);
        if !missing.is_empty() {
            let sizes: Vec<u64> = axes.iter().map(|&a| self.axes[a].block).collect();
            text = format!("tl.broadcast_to({text}, {sizes:?})");
        }
        let masks: Vec<String> = vectors
            .iter()
            .filter_map(|&a| {
                let mask = self.axes[a].mask.as_ref()?;
                Some(format!("{mask}{}", super::axis::subscript(&[a], &axes)))
            })
            .collect();
        let zero = element.zero && fold == Fold::Sum && missing.is_empty();
        if !masks.is_empty() && !zero {
            let neutral = fold.neutral(dtype);
            text = format!("tl.where({}, {text}, {neutral})", masks.join(" & "));
        }
        if fold == Fold::Product {
            self.helpers.insert("_times");
        }
        let mut kept = axes;
        for a in &vectors {
            if let Some(at) = kept.iter().position(|x| x == a) {
                text = fold.along(&text, at);
                kept.remove(at);
            }
        }
        let name = self.names.fresh("fold");
        if opened.is_empty() {
            self.line(format!("{name} = {text}"));
        } else {
            let outer = self.scopes.len() - 1 - opened.len();
            let shape: Vec<u64> = kept.iter().map(|&a| self.axes[a].block).collect();
            let kind = block_type(dtype).ok_or("a type that kernels lack")?;
            let neutral = fold.neutral(dtype);
            let start = match shape.is_empty() {
                true => format!("tl.full((), {neutral}, {kind})"),
                false => format!("tl.full({shape:?}, {neutral}, {kind})"),
            };
            self.line_at(outer, format!("{name} = {start}"));
            self.line(format!("{name} = {}", fold.pair(&name, &text)));
            for &axis in opened.iter().rev() {
                self.close(axis);
            }
        }
        Ok(Val {
            text: name,
            axes: kept,
            dtype,
            zero: false,
            level: self.scopes.len() - 1,
        })
    }

    /// A new value computed from others, of which `form` writes the text from theirs.
    pub(super) fn computed(
        &mut self,
        wanted: &str,
        vals: &[&Val],
        form: impl FnOnce(&[String]) -> String,
    ) -> Val {
        let axes = vals.iter().fold(Vec::new(), |all, v| union(&all, &v.axes));
        let texts: Vec<String> = vals.iter().map(|v| self.spread(v, &axes)).collect();
        let val = Val {
            text: form(&texts),
            axes,
            dtype: vals.first().map_or(DType::F32, |v| v.dtype),
            zero: false,
            level: vals.iter().map(|v| v.level).max().unwrap_or(0),
        };
        self.set(wanted, val, &[])
    }

    fn input(&mut self, value: Value, index: &[Expr]) -> Result<Val, Reason> {
        let val = self.value(value, index)?;
        Ok(self.widened(val))
    }

    pub(super) fn reduce(&mut self, op: Op, index: &[Expr]) -> Result<Val, Reason> {
        let reduce = self.typed::<Reduce>(op)?;
        let op_ref = self.cx.func.op_ref(op);
        let x = self.cx.func.ops[op].operands[0];
        let sizes = self.shape(x)?;
        let axes = reduce.reduced(&op_ref).map_err(|e| e.message)?;
        let dtype = op_ref.result(0).map_err(|e| e.message)?.dtype;
        let mut template = Vec::with_capacity(sizes.len());
        let mut rest = index.iter();
        for d in 0..sizes.len() {
            let reduced = axes.contains(&d);
            if reduced && !reduce.keepdims {
                template.push(Expr::default());
            } else {
                let at = rest.next().cloned().unwrap_or_default();
                template.push(if reduced { Expr::default() } else { at });
            }
        }
        let kind = reduce.kind;
        let fold = match kind {
            ReduceKind::Max => Fold::Max,
            ReduceKind::Min => Fold::Min,
            ReduceKind::Prod => Fold::Product,
            ReduceKind::Sum
            | ReduceKind::L1
            | ReduceKind::SumSquare
            | ReduceKind::Mean
            | ReduceKind::L2
            | ReduceKind::LogSum => Fold::Sum,
            ReduceKind::LogSumExp | ReduceKind::And | ReduceKind::Or => {
                return Err(format!("the reduction `{kind:?}` has no form in a kernel"));
            }
        };
        let over: Vec<Over> = axes.iter().map(|&d| Over::Fresh(sizes[d])).collect();
        let outer = axes_of_all(&template);
        let held = wide(dtype);
        let kind_text = block_type(held).ok_or("a type that kernels lack")?;
        let val = self.fold(&over, &outer, fold, &mut |kernel, at| {
            let mut from = template.clone();
            for (&d, expr) in axes.iter().zip(at) {
                from[d] = expr.clone();
            }
            let val = kernel.input(x, &from)?;
            let zero = val.zero;
            let form = match kind {
                ReduceKind::L1 => "tl.abs({})",
                ReduceKind::SumSquare | ReduceKind::L2 => "{} * {}",
                _ if val.dtype != held => "{}.to(KIND)",
                _ => return Ok(val),
            };
            let form = form.replace("KIND", &kind_text);
            let made = kernel.computed("term", &[&val], |x| form.replace("{}", &x[0]));
            Ok(Val {
                dtype: held,
                zero,
                ..made
            })
        })?;
        let count: u64 = axes.iter().map(|&d| sizes[d]).product();
        Ok(match kind {
            ReduceKind::Mean if held.is_float() => {
                self.computed("mean", &[&val], |x| format!("{} / {count}", x[0]))
            }
            ReduceKind::Mean => return Err("a mean of integers".to_owned()),
            ReduceKind::L2 => self.computed("root", &[&val], |x| format!("tl.sqrt({})", x[0])),
            ReduceKind::LogSum => self.computed("log", &[&val], |x| format!("tl.log({})", x[0])),
            _ => val,
        })
    }

    pub(super) fn softmax(&mut self, op: Op, index: &[Expr], log: bool) -> Result<Val, Reason> {
        let op_ref = self.cx.func.op_ref(op);
        let axis = match log {
            false => Softmax::of_op(self, op)?.along(&op_ref),
            true => LogSoftmax::of_op(self, op)?.along(&op_ref),
        };
        let axis = axis.map_err(|e| e.message)?;
        let x = self.cx.func.ops[op].operands[0];
        let size = self.shape(x)?[axis];
        let mut outer = index.to_vec();
        outer[axis] = Expr::default();
        let outer_axes = axes_of_all(&outer);
        let at = |expr: &Expr| {
            let mut from = outer.clone();
            from[axis] = expr.clone();
            from
        };
        let over = |kernel: &mut Self| [kernel.over(&index[axis], size)];
        let along = over(self);
        let top = self.fold(&along, &outer_axes, Fold::Max, &mut |kernel, e| {
            kernel.input(x, &at(&e[0]))
        })?;
        let total = self.fold(&along, &outer_axes, Fold::Sum, &mut |kernel, e| {
            let val = kernel.input(x, &at(&e[0]))?;
            Ok(kernel.computed("term", &[&val, &top], |x| {
                format!("tl.exp({} - {})", x[0], x[1])
            }))
        })?;
        let val = self.input(x, index)?;
        Ok(match log {
            false => self.computed("softmax", &[&val, &top, &total], |x| {
                format!("tl.exp({} - {}) / {}", x[0], x[1], x[2])
            }),
            true => self.computed("log_softmax", &[&val, &top, &total], |x| {
                format!("{} - {} - tl.log({})", x[0], x[1], x[2])
            }),
        })
    }

    /// Mean and reciprocal root of the variance over dimensions; `at` gives the index of the operand.
    fn moments(
        &mut self,
        x: Value,
        over: &[Over],
        outer: &[AxisId],
        at: &dyn Fn(&[Expr]) -> Vec<Expr>,
        (count, epsilon, center): (u64, f64, bool),
    ) -> Result<(Option<Val>, Val), Reason> {
        let mean = match center {
            false => None,
            true => {
                let sum = self.fold(over, outer, Fold::Sum, &mut |kernel, e| {
                    kernel.input(x, &at(e))
                })?;
                Some(self.computed("mean", &[&sum], |x| format!("{} / {count}", x[0])))
            }
        };
        let sum = self.fold(over, outer, Fold::Sum, &mut |kernel, e| {
            let val = kernel.input(x, &at(e))?;
            Ok(match &mean {
                Some(mean) => kernel.computed("term", &[&val, mean], |x| {
                    format!("({0} - {1}) * ({0} - {1})", x[0], x[1])
                }),
                None => {
                    let square = kernel.computed("term", &[&val], |x| format!("{0} * {0}", x[0]));
                    Val {
                        zero: val.zero,
                        ..square
                    }
                }
            })
        })?;
        let epsilon = float(epsilon);
        let scale = self.computed("scale", &[&sum], |x| {
            format!("tl.rsqrt({} / {count} + {epsilon})", x[0])
        });
        Ok((mean, scale))
    }

    /// A normalization of trailing dimensions.
    pub(super) fn last_norm(
        &mut self,
        op: Op,
        index: &[Expr],
        center: bool,
    ) -> Result<Val, Reason> {
        let op_ref = self.cx.func.op_ref(op);
        let (first, epsilon) = match center {
            true => {
                let norm = self.typed::<LayerNorm>(op)?;
                (norm.first_axis(&op_ref), norm.epsilon)
            }
            false => {
                let norm = self.typed::<RmsNorm>(op)?;
                (norm.first_axis(&op_ref), norm.epsilon)
            }
        };
        let first = first.map_err(|e| e.message)?;
        let data = &self.cx.func.ops[op];
        let x = data.operands[0];
        let sizes = self.shape(x)?;
        let over: Vec<Over> = (first..sizes.len())
            .map(|d| self.over(&index[d], sizes[d]))
            .collect();
        let lead = index[..first].to_vec();
        let outer = axes_of_all(&lead);
        let at = |e: &[Expr]| [&lead[..], e].concat();
        let count = sizes[first..].iter().product();
        let (mean, scale) = self.moments(x, &over, &outer, &at, (count, epsilon, center))?;
        let val = self.input(x, index)?;
        let normal = self.normal(&val, mean.as_ref(), &scale);
        self.affine(op, normal, &|kernel, value| kernel.aligned(value, index))
    }

    fn normal(&mut self, val: &Val, mean: Option<&Val>, scale: &Val) -> Val {
        match mean {
            Some(mean) => self.computed("normal", &[val, mean, scale], |x| {
                format!("({} - {}) * {}", x[0], x[1], x[2])
            }),
            None => self.computed("normal", &[val, scale], |x| format!("{} * {}", x[0], x[1])),
        }
    }

    /// A normalized value, scaled and shifted by the other operands, whose indices `at` gives.
    fn affine(&mut self, op: Op, mut val: Val, at: Place<'_, Self>) -> Result<Val, Reason> {
        let operands = self.cx.func.ops[op].operands.clone();
        for (&value, sign) in operands[1..].iter().zip(["*", "+"]) {
            let from = at(self, value)?;
            let other = self.input(value, &from)?;
            val = self.computed("affine", &[&val, &other], |x| {
                format!("{} {sign} {}", x[0], x[1])
            });
        }
        Ok(val)
    }

    /// A normalization by given means and variances.
    pub(super) fn batch_norm(&mut self, op: Op, index: &[Expr]) -> Result<Val, Reason> {
        let epsilon = float(self.typed::<BatchNorm>(op)?.epsilon);
        let domain = self.domain(op);
        let steps = self.steps(&domain, 0, index)?;
        let operands = self.cx.func.ops[op].operands.clone();
        let mut vals = Vec::with_capacity(5);
        for (i, &value) in operands.iter().enumerate() {
            let from = self.operand_index(&domain, i, &steps)?;
            vals.push(self.input(value, &from)?);
        }
        let factor = self.computed("factor", &[&vals[1], &vals[4]], |x| {
            format!("{} * tl.rsqrt({} + {epsilon})", x[0], x[1])
        });
        let all = [&vals[0], &vals[3], &factor, &vals[2]];
        Ok(self.computed("normal", &all, |x| {
            format!("({} - {}) * {} + {}", x[0], x[1], x[2], x[3])
        }))
    }

    /// A normalization of the positions of each channel, or of each group of channels.
    pub(super) fn channel_norm(
        &mut self,
        op: Op,
        index: &[Expr],
        groups: Option<u64>,
    ) -> Result<Val, Reason> {
        let epsilon = match groups {
            Some(_) => self.typed::<GroupNorm>(op)?.epsilon,
            None => self.typed::<InstanceNorm>(op)?.epsilon,
        };
        let x = self.cx.func.ops[op].operands[0];
        let sizes = self.shape(x)?;
        let grid = self.grid();
        let each = groups.map_or(1, |g| (sizes[1] / g.max(1)).max(1));
        let group = index[1].floordiv(each.cast_signed(), &grid);
        let mut over: Vec<Over> = vec![Over::Fresh(each)];
        over.extend((2..sizes.len()).map(|d| Over::Fresh(sizes[d])));
        let batch = index[0].clone();
        let outer = axes_of_all([&batch, &group]);
        let at = |e: &[Expr]| {
            let channel = group.times(each.cast_signed()).plus(&e[0]);
            [&[batch.clone(), channel], &e[1..]].concat()
        };
        let count = each * sizes[2..].iter().product::<u64>();
        let (mean, scale) = self.moments(x, &over, &outer, &at, (count, epsilon, true))?;
        let val = self.input(x, index)?;
        let normal = self.normal(&val, mean.as_ref(), &scale);
        self.affine(op, normal, &|_, _| Ok(vec![index[1].clone()]))
    }

    /// The greatest element or the mean of each window.
    pub(super) fn pool(&mut self, op: Op, index: &[Expr], max: bool) -> Result<Val, Reason> {
        let domain = self.domain(op);
        let steps = self.steps(&domain, 0, index)?;
        let x = self.cx.func.ops[op].operands[0];
        let inner: Vec<usize> = (0..domain.loops.len())
            .filter(|&id| domain.loops[id].kind == LoopKind::Inner)
            .collect();
        if domain.loops.iter().any(|l| l.kind == LoopKind::Whole) {
            return Err("its loops are unknown".to_owned());
        }
        let window: u64 = inner.iter().map(|&id| domain.loops[id].extent).product();
        let level = self.level(&axes_of_all(index));
        let dtype = self.tensor(x)?.dtype;
        let padded = !max && !AvgPool::of_op(self, op)?.count_include_pad;
        let fold = if max { Fold::Max } else { Fold::Sum };
        let (sum, count) = self.at_level(level, |kernel| {
            let mut steps = steps.clone();
            let mut opened = Vec::new();
            for &id in &inner {
                let n = domain.loops[id].extent;
                steps[id] = Some(if n == 1 {
                    Expr::default()
                } else {
                    let axis = kernel.open(n, 1);
                    opened.push(axis);
                    Expr::axis(axis)
                });
            }
            let from = kernel.operand_index(&domain, 0, &steps)?;
            let (val, guards) = kernel.windowed(x, &from)?;
            let val = kernel.widened(val);
            let other = if max {
                least(wide(dtype))
            } else {
                "0.0".to_owned()
            };
            let val = kernel.guarded(&val, &guards, &other);
            if padded && !guards.is_empty() {
                let own = kernel.vectors(&axes_of_all(guards.iter().map(|g| &g.index)));
                let mask = kernel.mask(&own, &guards).unwrap_or_default();
                let count = kernel.names.fresh("count");
                let shape: Vec<u64> = own.iter().map(|&a| kernel.axes[a].block).collect();
                let outer = kernel.scopes.len() - 1 - opened.len();
                let start = match shape.is_empty() {
                    true => "tl.full((), 0.0, tl.float32)".to_owned(),
                    false => format!("tl.zeros({shape:?}, tl.float32)"),
                };
                kernel.line_at(outer, format!("{count} = {start}"));
                kernel.line(format!("{count} += tl.where({mask}, 1.0, 0.0)"));
                let sum = kernel.folded(&val, &[], &opened, fold)?;
                let count = Val {
                    text: count,
                    axes: own,
                    dtype: DType::F32,
                    zero: false,
                    level: kernel.scopes.len() - 1,
                };
                return Ok((sum, Some(count)));
            }
            Ok((kernel.folded(&val, &[], &opened, fold)?, None))
        })?;
        if max {
            return Ok(sum);
        }
        Ok(match count {
            Some(count) => {
                self.computed("mean", &[&sum, &count], |x| format!("{} / {}", x[0], x[1]))
            }
            None => self.computed("mean", &[&sum], |x| format!("{} / {window}", x[0])),
        })
    }
}

/// The typed attributes of an operation.
trait OfOp: Sized {
    fn of_op(kernel: &Kernel<'_>, op: Op) -> Result<Self, Reason>;
}

impl<T: optc_ir::Operation> OfOp for T {
    fn of_op(kernel: &Kernel<'_>, op: Op) -> Result<T, Reason> {
        kernel.typed::<T>(op)
    }
}
