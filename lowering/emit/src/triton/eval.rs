//! Values at an index: the choice between computing and loading, and the operations that only move elements.

use super::axis::{AxisId, Kind, axes_of, axes_of_all, union};
use super::cx::Reason;
use super::kernel::{Guard, Kernel, Val};
use super::number::Number;
use super::words::{literal, wide};
use optc_ir::op::iteration_domain::{IndexExpr, IterationDomain};
use optc_ir::op::iteration_domain_of;
use optc_ir::{DType, Op, Operation, Value};
use optc_ops::{
    AvgPool, BatchNorm, Broadcast, Concat, Conv, Dequantize, DotGeneral, Einsum, Gather,
    GatherElements, GatherNd, GroupNorm, Identity, InstanceNorm, Iota, IsInf, IsNan, LayerNorm,
    LayoutConvert, Linear, LogSoftmax, Matmul, MaxPool, OneHot, Pad, PadMode, PadValue, Quantize,
    Reduce, Relu, RmsNorm, Slice, Softmax, Split, Subview, Tile, Trilu,
};
use optc_tile::Expr;

/// Arithmetic operations that a graphics processor does in the time in which it moves a byte of its memory: the ratio of
/// the rate of f32 and the bandwidth in `targets/builtin/triton.toml`.
const OPERATIONS_PER_BYTE: u64 = 20;

impl Kernel<'_> {
    /// The value at an index, one expression for each dimension.
    ///
    /// A value of the group is computed, unless it would be computed so often that storing it is faster, or unless it
    /// cannot be computed at this index. It is then loaded, and another kernel stores it.
    pub(super) fn value(&mut self, value: Value, index: &[Expr]) -> Result<Val, Reason> {
        self.step()?;
        let extents: Vec<u64> = self.axes.iter().map(|a| a.extent).collect();
        if let Some(probe) = &mut self.probe {
            let roots = probe.roots.min(extents.len());
            for expr in index {
                probe.cuts.see(expr, &extents[..roots]);
            }
        }
        if let Some(known) = self.known(value, index) {
            return Ok(known);
        }
        let Some(&(op, result)) = self.makers.get(&value) else {
            return self.load(value, index, &[]);
        };
        if self.stored.contains(&value) || self.is_better_stored(value, index) {
            self.stored.insert(value);
            return self.load(value, index, &[]);
        }
        let mark = self.mark();
        let depth = self.depth;
        let made = self.made(op, result, index);
        self.depth = depth;
        match made {
            Ok(val) => {
                self.remember(value, index, &val);
                Ok(val)
            }
            Err(_) if value != self.root && self.probe.is_none() => {
                self.undo(mark);
                self.stored.insert(value);
                self.load(value, index, &[])
            }
            Err(why) => Err(why),
        }
    }

    /// Returns whether another kernel should store a value that this one needs at an index.
    fn is_better_stored(&self, value: Value, index: &[Expr]) -> bool {
        if value == self.root || self.probe.is_some() {
            return false;
        }
        let Ok(ty) = self.tensor(value) else {
            return false;
        };
        let elements = ty.elements().unwrap_or(1).max(1);
        let own = axes_of_all(index);
        let level = self.level(&own);
        let mut computed: u64 = 1;
        for (id, axis) in self.axes.iter().enumerate() {
            let times = match axis.kind {
                _ if own.contains(&id) => axis.extent,
                Kind::Program => axis.count(),
                Kind::Loop if axis.level <= level && self.is_open(id) => axis.count(),
                Kind::Loop | Kind::Whole => 1,
            };
            computed = computed.saturating_mul(times);
        }
        let more = computed.saturating_sub(elements);
        let cost = self.cost(value, 0).saturating_mul(more);
        let bytes = 2 * elements.saturating_mul(u64::from(ty.dtype.bits().div_ceil(8)));
        bytes.saturating_mul(OPERATIONS_PER_BYTE) < cost
    }

    /// Returns whether the loop over an axis is open: later loops at its level have replaced closed ones.
    fn is_open(&self, id: AxisId) -> bool {
        let level = self.axes[id].level;
        let newest = self
            .axes
            .iter()
            .rposition(|a| a.kind == Kind::Loop && a.level == level);
        level < self.scopes.len() && newest == Some(id)
    }

    /// The arithmetic operations for one element of a value, with those for its operands in the group.
    fn cost(&self, value: Value, depth: usize) -> u64 {
        let Some(&(op, _)) = self.makers.get(&value) else {
            return 0;
        };
        if 12 < depth || self.stored.contains(&value) {
            return 0;
        }
        let op_ref = self.cx.func.op_ref(op);
        let domain = self.domain(op);
        let sums: u64 = domain.sums().iter().product();
        let name = op_ref.name;
        let operands = &self.cx.func.ops[op].operands;
        let inner = |v: &Value| self.cost(*v, depth + 1);
        if is_product(name) {
            let inner: u64 = operands.iter().map(inner).max().unwrap_or(0);
            let taps = domain
                .loops
                .iter()
                .zip(0..)
                .filter(|(l, _)| l.kind == optc_ir::op::iteration_domain::LoopKind::Inner);
            let taps: u64 = taps.map(|(l, _)| l.extent).product();
            return sums.saturating_mul(taps).saturating_mul(2 + inner);
        }
        let inner: u64 = operands.iter().map(inner).sum();
        if name == Reduce::NAME || name == MaxPool::NAME || name == AvgPool::NAME {
            let from = op_ref.operand(0).ok().and_then(|t| t.elements());
            let to = op_ref.result(0).ok().and_then(|t| t.elements());
            let each = from.unwrap_or(1).div_ceil(to.unwrap_or(1).max(1)).max(9);
            return each.saturating_mul(1 + inner);
        }
        let own = match self.cx.registry.expression(&op_ref) {
            Some(_) if op_ref.operands.len() == 1 => 8,
            Some(_) => 1,
            None if self.is_normalized(name) => 12,
            None => 0,
        };
        inner.saturating_add(own)
    }

    fn is_normalized(&self, name: &str) -> bool {
        [
            Softmax::NAME,
            LogSoftmax::NAME,
            LayerNorm::NAME,
            RmsNorm::NAME,
            InstanceNorm::NAME,
            GroupNorm::NAME,
        ]
        .contains(&name)
    }

    pub(super) fn domain(&self, op: Op) -> IterationDomain {
        let op_ref = self.cx.func.op_ref(op);
        iteration_domain_of(self.cx.registry.get(op_ref.name), &op_ref)
    }

    /// The steps of the loops at which a result has an index; `None` for loops that the index does not tell.
    pub(super) fn steps(
        &self,
        domain: &IterationDomain,
        result: usize,
        index: &[Expr],
    ) -> Result<Vec<Option<Expr>>, Reason> {
        let grid = self.grid();
        let mut steps: Vec<Option<Expr>> = vec![None; domain.loops.len()];
        for (expr, at) in domain.results[result].iter().zip(index) {
            match expr {
                IndexExpr::Sum { terms, offset } => {
                    let mut rest = at.offset(-offset);
                    for (n, &(id, stride)) in terms.iter().enumerate() {
                        if n + 1 == terms.len() {
                            if stride != 1 {
                                return Err("a result has gaps".to_owned());
                            }
                            steps[id] = Some(rest);
                            break;
                        }
                        steps[id] = Some(rest.floordiv(stride, &grid));
                        rest = rest.rem(stride, &grid);
                    }
                }
                IndexExpr::Digit { of, by, .. } => {
                    let part = at.times(i64::try_from(*by).unwrap_or(i64::MAX));
                    steps[*of] = Some(match steps[*of].take() {
                        Some(known) => known.plus(&part),
                        None => part,
                    });
                }
                // The dimension has no loop; an operand that has it reads a step that is unknown.
                IndexExpr::Whole => {}
            }
        }
        Ok(steps)
    }

    /// The index of an operand at these steps.
    pub(super) fn operand_index(
        &self,
        domain: &IterationDomain,
        operand: usize,
        steps: &[Option<Expr>],
    ) -> Result<Vec<Expr>, Reason> {
        let grid = self.grid();
        let step = |id: usize| {
            let step = steps.get(id).cloned().flatten();
            match domain.loops[id].extent {
                1 => Ok(step.unwrap_or_default()),
                _ => step.ok_or_else(|| "a step of its loops is unknown".to_owned()),
            }
        };
        let one = |expr: &IndexExpr| -> Result<Expr, Reason> {
            Ok(match expr {
                IndexExpr::Sum { terms, offset } => {
                    let mut sum = Expr::number(*offset);
                    for &(id, stride) in terms {
                        sum = sum.plus(&step(id)?.times(stride));
                    }
                    sum
                }
                IndexExpr::Digit { of, by, extent } => {
                    let by = i64::try_from(*by).unwrap_or(i64::MAX);
                    let extent = i64::try_from(*extent).unwrap_or(i64::MAX);
                    step(*of)?.floordiv(by, &grid).rem(extent, &grid)
                }
                IndexExpr::Whole => return Err("its loops are unknown".to_owned()),
            })
        };
        domain.operands[operand].iter().map(one).collect()
    }

    /// The index of an operand that broadcasts to the result.
    pub(super) fn aligned(&self, value: Value, index: &[Expr]) -> Result<Vec<Expr>, Reason> {
        let shape = self.shape(value)?;
        let lead = index.len().checked_sub(shape.len());
        let lead = lead.ok_or("an operand has more dimensions than the result")?;
        let pairs = shape.iter().zip(&index[lead..]);
        Ok(pairs
            .map(|(&n, e)| if n == 1 { Expr::default() } else { e.clone() })
            .collect())
    }

    /// An operand at these steps, zero where its index is outside of it.
    pub(super) fn windowed(
        &mut self,
        value: Value,
        index: &[Expr],
    ) -> Result<(Val, Vec<Guard>), Reason> {
        let guards = self.outside(value, index)?;
        let count = self.guards.len();
        self.guards.extend(guards.iter().cloned());
        let made = self.value(value, index);
        self.guards.truncate(count);
        Ok((made?, guards))
    }

    /// The conditions under which an index is inside of a value.
    pub(super) fn outside(&self, value: Value, index: &[Expr]) -> Result<Vec<Guard>, Reason> {
        let (shape, grid) = (self.shape(value)?, self.grid());
        let reaches = |(e, n): &(&Expr, &u64)| {
            let (low, high) = e.range(&grid);
            low < 0 || n.cast_signed() <= high
        };
        let all = index.iter().zip(&shape).filter(reaches);
        let guard = |(e, n): (&Expr, &u64)| Guard {
            index: e.clone(),
            size: *n,
        };
        Ok(all.map(guard).collect())
    }

    /// The value where the guards hold, else a number.
    pub(super) fn guarded(&mut self, val: &Val, guards: &[Guard], other: &str) -> Val {
        if guards.is_empty() {
            return val.clone();
        }
        let own = axes_of_all(guards.iter().map(|g| &g.index));
        let axes = union(&val.axes, &self.vectors(&own));
        let Some(mask) = self.mask(&axes, guards) else {
            return val.clone();
        };
        let text = format!("tl.where({mask}, {}, {other})", self.spread(val, &axes));
        let wide = Val {
            text,
            axes,
            dtype: val.dtype,
            zero: other == "0.0" || other == "0",
            level: val.level,
        };
        self.set("part", wide, &own)
    }

    /// The value in the type in which a kernel computes.
    pub(super) fn widened(&mut self, val: Val) -> Val {
        let to = wide(val.dtype);
        if to == val.dtype {
            return val;
        }
        let text = format!("{}.to(tl.float32)", val.text);
        let wide = Val {
            text,
            dtype: to,
            ..val
        };
        self.set("wide", wide, &[])
    }

    /// A result of an operation at an index.
    fn made(&mut self, op: Op, result: usize, index: &[Expr]) -> Result<Val, Reason> {
        let func = self.cx.func;
        let op_ref = func.op_ref(op);
        let name = op_ref.name;
        for ty in op_ref.operands.iter().chain(&op_ref.results) {
            let dtype = ty.as_tensor().map(|t| t.dtype);
            if dtype.is_none_or(|d| super::words::block_type(d).is_none()) {
                return Err(format!("{name} has a type that kernels lack"));
            }
        }
        let made = match name {
            Matmul::NAME | Linear::NAME | DotGeneral::NAME | Einsum::NAME | Conv::NAME => {
                self.product(op, index)
            }
            Reduce::NAME => self.reduce(op, index),
            Softmax::NAME => self.softmax(op, index, false),
            LogSoftmax::NAME => self.softmax(op, index, true),
            LayerNorm::NAME => self.last_norm(op, index, true),
            RmsNorm::NAME => self.last_norm(op, index, false),
            BatchNorm::NAME => self.batch_norm(op, index),
            InstanceNorm::NAME => self.channel_norm(op, index, None),
            GroupNorm::NAME => {
                let norm = self.typed::<GroupNorm>(op)?;
                let groups = norm.groups().map_err(|e| e.message)?;
                self.channel_norm(op, index, Some(groups))
            }
            MaxPool::NAME => self.pool(op, index, true),
            AvgPool::NAME => self.pool(op, index, false),
            Concat::NAME => self.concat(op, index),
            Pad::NAME => self.pad(op, index),
            Gather::NAME | GatherElements::NAME | GatherNd::NAME => self.gather(op, index),
            Iota::NAME => self.iota(op, index),
            Trilu::NAME => self.trilu(op, index),
            OneHot::NAME => self.one_hot(op, index),
            Tile::NAME => self.tile(op, index),
            Quantize::NAME => self.quantize(op, index),
            Dequantize::NAME => self.dequantize(op, index),
            Slice::NAME | Split::NAME | Subview::NAME | Broadcast::NAME => {
                self.moved(op, result, index)
            }
            _ if self.cx.registry.rearrangement(&op_ref).is_ok() => self.moved(op, result, index),
            _ => self.elementwise(op, index),
        };
        made.map_err(|why| match why.starts_with("hbir.") {
            true => why,
            false => format!("{name}: {why}"),
        })
    }

    pub(super) fn typed<T: Operation>(&self, op: Op) -> Result<T, Reason> {
        T::of(&self.cx.func.op_ref(op)).map_err(|e| e.message)
    }

    /// The only operand of an operation that moves elements.
    fn moved(&mut self, op: Op, result: usize, index: &[Expr]) -> Result<Val, Reason> {
        let domain = self.domain(op);
        let steps = self.steps(&domain, result, index)?;
        let from = self.operand_index(&domain, 0, &steps)?;
        self.value(self.cx.func.ops[op].operands[0], &from)
    }

    fn elementwise(&mut self, op: Op, index: &[Expr]) -> Result<Val, Reason> {
        let op_ref = self.cx.func.op_ref(op);
        let data = &self.cx.func.ops[op];
        let expression = self.cx.registry.expression(&op_ref);
        let whole = match op_ref.name {
            Identity::NAME | LayoutConvert::NAME => Some("{}"),
            Relu::NAME => Some("relu"),
            IsNan::NAME => Some("({} != {})"),
            IsInf::NAME => Some("(tl.abs({}) == float(\"inf\"))"),
            _ => None,
        };
        if expression.is_none() && whole.is_none() {
            return Err("it has no form in a kernel".to_owned());
        }
        let domain = self.domain(op);
        let steps = self.steps(&domain, 0, index)?;
        let mut vals = Vec::with_capacity(data.operands.len());
        let mut axes: Vec<AxisId> = Vec::new();
        for (i, &value) in data.operands.iter().enumerate() {
            let from = self.operand_index(&domain, i, &steps)?;
            let val = self.value(value, &from)?;
            let val = self.widened(val);
            axes = union(&axes, &val.axes);
            vals.push(val);
        }
        if whole == Some("{}") {
            return Ok(vals.swap_remove(0));
        }
        let to = op_ref.result(0).map_err(|e| e.message)?.dtype;
        let mut texts = Vec::with_capacity(vals.len());
        for (i, val) in vals.iter().enumerate() {
            let dtype = op_ref.operand(i).map_err(|e| e.message)?.dtype;
            texts.push((self.spread(val, &axes), dtype));
        }
        let text = match (whole, &expression) {
            (Some("relu"), _) => {
                let dtype = wide(vals[0].dtype);
                let none = literal(0.0, dtype);
                match dtype.is_float() {
                    true => format!(
                        "tl.maximum({}, {none}, propagate_nan=tl.PropagateNan.ALL)",
                        texts[0].0
                    ),
                    false => format!("tl.maximum({}, {none})", texts[0].0),
                }
            }
            (Some(form), _) => form.replace("{}", &texts[0].0),
            (None, Some(expression)) => {
                let mut number = Number::kernel(&mut self.helpers);
                number
                    .build(expression, &texts)
                    .ok_or("it has no form in a kernel")?
            }
            (None, None) => return Err("it has no form in a kernel".to_owned()),
        };
        let held = wide(to);
        let val = Val {
            text,
            axes,
            dtype: held,
            zero: false,
            level: vals.iter().map(|v| v.level).max().unwrap_or(0),
        };
        let wanted = (self.cx.name)(data.results[0]);
        Ok(self.set(&wanted, val, &[]))
    }

    fn concat(&mut self, op: Op, index: &[Expr]) -> Result<Val, Reason> {
        let concat = self.typed::<Concat>(op)?;
        let op_ref = self.cx.func.op_ref(op);
        let axis = concat.along(&op_ref).map_err(|e| e.message)?;
        let operands = self.cx.func.ops[op].operands.clone();
        let mut before = 0i64;
        let mut joined: Option<(Val, i64)> = None;
        let grid = self.grid();
        let (first, last) = index[axis].range(&grid);
        for &value in &operands {
            let size = self.shape(value)?[axis].cast_signed();
            let (start, end) = (before, before + size);
            before = end;
            if last < start || end <= first || size == 0 {
                continue;
            }
            let mut from = index.to_vec();
            from[axis] = from[axis].offset(-start);
            let (val, _) = self.windowed(value, &from)?;
            joined = Some(match joined {
                None => (val, end),
                Some((front, border)) => {
                    let at = self.vectors(&axes_of(&index[axis]));
                    let axes = union(&union(&front.axes, &val.axes), &at);
                    let text = format!(
                        "tl.where({} < {border}, {}, {})",
                        self.index(&index[axis], &axes),
                        self.spread(&front, &axes),
                        self.spread(&val, &axes)
                    );
                    let dtype = if front.dtype == val.dtype {
                        val.dtype
                    } else {
                        wide(val.dtype)
                    };
                    let zero = front.zero && val.zero;
                    let both = Val {
                        text,
                        axes,
                        dtype,
                        zero,
                        level: front.level.max(val.level),
                    };
                    (self.set("joined", both, &axes_of_all(index)), end)
                }
            });
        }
        let (val, _) = joined.ok_or("it has no elements")?;
        Ok(val)
    }

    fn pad(&mut self, op: Op, index: &[Expr]) -> Result<Val, Reason> {
        let pad = self.typed::<Pad>(op)?;
        if pad.mode != PadMode::Constant {
            return Err("a mode of padding other than `constant`".to_owned());
        }
        let domain = self.domain(op);
        let steps = self.steps(&domain, 0, index)?;
        let from = self.operand_index(&domain, 0, &steps)?;
        let (val, guards) = self.windowed(self.cx.func.ops[op].operands[0], &from)?;
        let x = match pad.value {
            PadValue::Float(x) => x,
            #[expect(clippy::cast_precision_loss, reason = "padding is a small number")]
            PadValue::Int(n) => n as f64,
        };
        if x == 0.0 && val.zero {
            // A load under the guards has zeros there already; the axes of the guards are its own.
            let own = self.vectors(&axes_of_all(guards.iter().map(|g| &g.index)));
            if own.iter().all(|a| val.axes.contains(a)) {
                return Ok(val);
            }
        }
        let other = literal(x, val.dtype);
        Ok(self.guarded(&val, &guards, &other))
    }

    fn gather(&mut self, op: Op, index: &[Expr]) -> Result<Val, Reason> {
        let data = &self.cx.func.ops[op];
        let op_ref = self.cx.func.op_ref(op);
        let (x, indices) = (data.operands[0], data.operands[1]);
        let sizes = self.shape(x)?;
        let mut dynamic = Vec::new();
        let mut from: Vec<Expr>;
        if let Ok(gather) = Gather::of(&op_ref) {
            let axis = gather.along(&op_ref).map_err(|e| e.message)?;
            let rank = self.shape(indices)?.len();
            let at = self.value(indices, &index[axis..axis + rank])?;
            let at = self.wrapped(at, sizes[axis]);
            from = index[..axis].to_vec();
            from.push(Expr::default());
            from.extend_from_slice(&index[axis + rank..]);
            dynamic.push((axis, at));
        } else if let Ok(gather) = GatherElements::of(&op_ref) {
            let axis = gather.along(&op_ref).map_err(|e| e.message)?;
            let at = self.value(indices, index)?;
            let at = self.wrapped(at, sizes[axis]);
            from = index.to_vec();
            from[axis] = Expr::default();
            dynamic.push((axis, at));
        } else {
            let gather = self.typed::<GatherNd>(op)?;
            let (batch, depth) = gather.extents(&op_ref).map_err(|e| e.message)?;
            let rows = self.shape(indices)?.len() - 1;
            from = index[..batch].to_vec();
            for d in 0..depth {
                let mut place = index[..rows].to_vec();
                place.push(Expr::number(d as i64));
                let at = self.value(indices, &place)?;
                let at = self.wrapped(at, sizes[batch + d]);
                from.push(Expr::default());
                dynamic.push((batch + d, at));
            }
            from.extend_from_slice(&index[rows..]);
        }
        if self.makers.contains_key(&x) {
            self.stored.insert(x);
        }
        self.load(x, &from, &dynamic)
    }

    /// An index whose negative numbers count from the end.
    fn wrapped(&mut self, val: Val, size: u64) -> Val {
        let text = format!("tl.where({0} < 0, {0} + {size}, {0})", val.text);
        let val = Val {
            text,
            zero: false,
            ..val
        };
        self.set("at", val, &[])
    }

    fn iota(&mut self, op: Op, index: &[Expr]) -> Result<Val, Reason> {
        let op_ref = self.cx.func.op_ref(op);
        let axis = self.typed::<Iota>(op)?;
        let axis = axis.along(&op_ref).map_err(|e| e.message)?;
        let dtype = op_ref.result(0).map_err(|e| e.message)?.dtype;
        self.counted(&index[axis], dtype)
    }

    /// An index as numbers of a type.
    fn counted(&mut self, expr: &Expr, dtype: DType) -> Result<Val, Reason> {
        let all = axes_of(expr);
        let axes = self.vectors(&all);
        let text = self.index(expr, &axes);
        let held = wide(dtype);
        let to = super::words::block_type(held).ok_or("a type that kernels lack")?;
        let text = match expr.as_number() {
            #[expect(clippy::cast_precision_loss, reason = "an index of a value")]
            Some(n) => super::words::full(n as f64, held).unwrap_or(text),
            None => format!("({text} + tl.full((), 0, tl.int32)).to({to})"),
        };
        let val = Val {
            text,
            axes,
            dtype: held,
            zero: false,
            level: 0,
        };
        Ok(self.set("count", val, &all))
    }

    fn trilu(&mut self, op: Op, index: &[Expr]) -> Result<Val, Reason> {
        let Trilu { k, upper } = self.typed::<Trilu>(op)?;
        let rank = index.len();
        let val = self.value(self.cx.func.ops[op].operands[0], index)?;
        let distance = index[rank - 1].minus(&index[rank - 2]).offset(-k);
        let all = axes_of(&distance);
        let axes = union(&val.axes, &self.vectors(&all));
        let sign = if upper { ">=" } else { "<=" };
        let text = format!(
            "tl.where({} {sign} 0, {}, {})",
            self.index(&distance, &axes),
            self.spread(&val, &axes),
            literal(0.0, val.dtype)
        );
        let dtype = val.dtype;
        let val = Val {
            text,
            axes,
            dtype,
            zero: val.zero,
            level: val.level,
        };
        Ok(self.set("triangle", val, &all))
    }

    fn one_hot(&mut self, op: Op, index: &[Expr]) -> Result<Val, Reason> {
        let one_hot = self.typed::<OneHot>(op)?;
        let op_ref = self.cx.func.op_ref(op);
        let axis = one_hot.along(&op_ref).map_err(|e| e.message)?;
        let operands = self.cx.func.ops[op].operands.clone();
        if 1 < operands.len() {
            return Err("a form with two numbers".to_owned());
        }
        let mut place = index.to_vec();
        let at = place.remove(axis);
        let val = self.value(operands[0], &place)?;
        let to = wide(op_ref.result(0).map_err(|e| e.message)?.dtype);
        let all = axes_of(&at);
        let axes = union(&val.axes, &self.vectors(&all));
        let (x, depth) = (self.spread(&val, &axes), one_hot.depth);
        let kind = super::words::block_type(to).ok_or("a type that kernels lack")?;
        let at = self.index(&at, &axes);
        let text = format!("((tl.where({x} < 0, {x} + {depth}, {x})) == ({at})).to({kind})");
        let val = Val {
            text,
            axes,
            dtype: to,
            zero: false,
            level: val.level,
        };
        Ok(self.set("hot", val, &all))
    }

    fn tile(&mut self, op: Op, index: &[Expr]) -> Result<Val, Reason> {
        let x = self.cx.func.ops[op].operands[0];
        let (sizes, grid) = (self.shape(x)?, self.grid());
        let from = index.iter().zip(&sizes);
        let from: Vec<Expr> = from.map(|(e, &n)| e.rem(n.cast_signed(), &grid)).collect();
        self.value(x, &from)
    }

    /// The operands of a conversion from or to quantized numbers: the numbers, the scale and the zero point.
    fn quantized(&mut self, op: Op, index: &[Expr]) -> Result<(Vec<Val>, Vec<AxisId>), Reason> {
        let domain = self.domain(op);
        let steps = self.steps(&domain, 0, index)?;
        let operands = self.cx.func.ops[op].operands.clone();
        let mut vals = Vec::with_capacity(3);
        let mut axes = Vec::new();
        for (i, &value) in operands.iter().enumerate() {
            let from = self.operand_index(&domain, i, &steps)?;
            let val = self.value(value, &from)?;
            axes = union(&axes, &val.axes);
            vals.push(val);
        }
        Ok((vals, axes))
    }

    fn quantize(&mut self, op: Op, index: &[Expr]) -> Result<Val, Reason> {
        let to = self.cx.func.op_ref(op);
        let to = to.result(0).map_err(|e| e.message)?.dtype;
        if !to.is_int() {
            return Err("a quantized type that is no integer".to_owned());
        }
        let (vals, axes) = self.quantized(op, index)?;
        let x: Vec<String> = vals
            .iter()
            .map(|v| format!("{}.to(tl.float32)", self.spread(v, &axes)))
            .collect();
        self.helpers.insert("_round");
        let zero = x.get(2).map_or(String::new(), |z| format!(" + {z}"));
        let kind = super::words::block_type(to).ok_or("a type that kernels lack")?;
        let text = format!(
            "tl.minimum(tl.maximum(_round({} / {}){zero}, {}.0), {}.0).to({kind})",
            x[0],
            x[1],
            super::words::least(to),
            super::words::greatest(to)
        );
        let val = Val {
            text,
            axes,
            dtype: to,
            zero: false,
            level: vals.iter().map(|v| v.level).max().unwrap_or(0),
        };
        Ok(self.set("quantized", val, &[]))
    }

    fn dequantize(&mut self, op: Op, index: &[Expr]) -> Result<Val, Reason> {
        let (vals, axes) = self.quantized(op, index)?;
        let x: Vec<String> = vals
            .iter()
            .map(|v| format!("{}.to(tl.float32)", self.spread(v, &axes)))
            .collect();
        let zero = x.get(2).map_or(String::new(), |z| format!(" - {z}"));
        let val = Val {
            text: format!("({}{zero}) * {}", x[0], x[1]),
            axes,
            dtype: DType::F32,
            zero: false,
            level: vals.iter().map(|v| v.level).max().unwrap_or(0),
        };
        Ok(self.set("number", val, &[]))
    }
}

/// Returns whether an operation of this name sums products.
pub(super) fn is_product(name: &str) -> bool {
    [
        Matmul::NAME,
        Linear::NAME,
        DotGeneral::NAME,
        Einsum::NAME,
        Conv::NAME,
    ]
    .contains(&name)
}
