//! Products: matrix products, contractions and convolutions, as `tl.dot` over blocks, in a loop if the sum is long.
//!
//! The axes at which an operand is computed tell its place: an axis of both operands is a batch, an axis of one operand
//! alone is a row or a column. A convolution is a product whose rows are the positions of the result; the positions of
//! its window are loops.

use super::axis::{AxisId, Kind, axes_of_all, subscript, union};
use super::cx::Reason;
use super::kernel::{Contraction, Kernel, Val};
use super::words::{block_type, zero};
use optc_ir::op::iteration_domain::{IterationDomain, LoopKind};
use optc_ir::{DType, Op, Operation, Value};
use optc_ops::Softmax;
use optc_target::Precision;
use optc_tile::Expr;

/// The elements that the operands of one `tl.dot` of f32 may have together: the vector units hold them in registers.
/// Triton 3.9 spills blocks of 64 by 64 with a sum of 32, and none with a sum of 16.
const MAX_F32_OPERANDS: u64 = 2048;
/// The longest sum of one `tl.dot` of 16 bits and less, which the matrix units read from shared memory.
const MAX_NARROW_SUM: u64 = 64;
/// The shortest sum of one `tl.dot`, and the longest.
const MIN_SUM: u64 = 16;
const MAX_SUM: u64 = 128;
/// The elements of products that are multiplied one by one, where `tl.dot` does not take the type, or where an operand
/// has neither rows nor columns.
const MAX_PLAIN: u64 = 8192;
/// The longest sum of a product without rows or without columns that is a loop over single elements, as the window of
/// a depthwise convolution.
const MAX_SINGLE_STEPS: u64 = 15;

/// The state of a softmax whose axis is the sum of a product.
struct Online {
    /// The variables of the factor of a step and of the sum so far, and their axes.
    factor: String,
    sum: String,
    axes: Vec<AxisId>,
}

/// The loops of a product.
struct Loops<'d> {
    op: Op,
    domain: &'d IterationDomain,
    /// The loops that sum, with their extents.
    sums: &'d [(usize, u64)],
    /// The loop whose steps a `tl.dot` takes together, and its extent.
    longest: usize,
    extent: u64,
    /// The types of both operands.
    types: (DType, DType),
}

/// The parts of a product that do not change over its loops.
struct Sum<'d> {
    op: Op,
    domain: &'d IterationDomain,
    /// The axis along which a `tl.dot` sums; `None` if each step of the loops has one element of it.
    chunk: Option<AxisId>,
}

/// The layout of a `tl.dot`: the axes of batch, rows and columns.
struct Sides {
    batch: Vec<AxisId>,
    rows: Vec<AxisId>,
    columns: Vec<AxisId>,
}

impl Sides {
    /// The axes in the order of the accumulator's dimensions.
    fn order(&self) -> Vec<AxisId> {
        [&self.batch[..], &self.rows, &self.columns].concat()
    }
}

impl Kernel<'_> {
    pub(super) fn product(&mut self, op: Op, index: &[Expr]) -> Result<Val, Reason> {
        let domain = self.domain(op);
        let op_ref = self.cx.func.op_ref(op);
        if domain.operands.len() < 2 {
            return Err("a product of other than two operands".to_owned());
        }
        if domain.loops.iter().any(|l| l.kind == LoopKind::Whole) {
            return Err("its loops are unknown".to_owned());
        }
        let mut steps = self.steps(&domain, 0, index)?;
        let operands = [0, 1].map(|i| op_ref.operand(i).map(|t| t.dtype));
        let [Ok(left), Ok(right)] = operands else {
            return Err("it has no operands".to_owned());
        };
        let types = (left, right);
        let sums: Vec<(usize, u64)> = domain
            .loops
            .iter()
            .enumerate()
            .filter(|(_, l)| matches!(l.kind, LoopKind::Reduce(_) | LoopKind::Inner))
            .map(|(id, l)| (id, l.extent))
            .collect();
        self.probed(&domain, &steps, left)?;
        if sums.iter().all(|(_, n)| *n == 1) {
            return self.scaled(op, &domain, steps, &sums, index);
        }
        if let Some(probe) = &mut self.probe {
            probe.nested |= 0 < self.depth;
        }
        let longest = sums.iter().max_by_key(|(_, n)| *n).copied();
        let (longest, extent) = longest.ok_or("it has no sum")?;
        let level = self.level(&axes_of_all(index));
        let loops = Loops {
            op,
            domain: &domain,
            sums: &sums,
            longest,
            extent,
            types,
        };
        self.depth += 1;
        let made = self.at_level(level, |kernel| kernel.looped(&loops, &mut steps));
        self.depth -= 1;
        let val = made?;
        self.with_bias(op, &domain, &steps, val)
    }

    /// Opens the loops of a sum and sums.
    fn looped(&mut self, loops: &Loops<'_>, steps: &mut [Option<Expr>]) -> Result<Val, Reason> {
        let (domain, extent) = (loops.domain, loops.extent);
        let mut known = steps.to_vec();
        for &(id, _) in loops.sums {
            known[id] = Some(Expr::default());
        }
        let mut sides = Vec::with_capacity(2);
        for i in [0, 1] {
            let from = self.operand_index(domain, i, &known)?;
            sides.push(self.vectors(&axes_of_all(&from)));
        }
        let within = |a: &[AxisId], b: &[AxisId]| a.iter().all(|x| b.contains(x));
        let flat = within(&sides[0], &sides[1]) || within(&sides[1], &sides[0]);
        let batch = sides[0].iter().any(|a| sides[1].contains(a));
        if batch && 1 < self.depth && self.probe.is_none() {
            // The blocks of another product would cut its batch; as a kernel of its own it has a program for each step.
            return Err("a batch inside of the sum of another product".to_owned());
        }
        let single = flat && extent <= MAX_SINGLE_STEPS;
        let mut opened = Vec::new();
        for &(id, n) in loops.sums {
            if id == loops.longest && !single || n == 1 {
                steps[id].get_or_insert_with(Expr::default);
            } else {
                let axis = self.open(n, 1);
                opened.push(axis);
                steps[id] = Some(Expr::axis(axis));
            }
        }
        let mut sum = Sum {
            op: loops.op,
            domain,
            chunk: None,
        };
        if single {
            return self.summed(&sum, steps, &opened, loops.types);
        }
        let both = self.blocks(&union(&sides[0], &sides[1]));
        let most = match loops.types.0.bits() <= 16 {
            _ if flat => MAX_PLAIN / both,
            true => MAX_NARROW_SUM,
            false => MAX_F32_OPERANDS / (self.blocks(&sides[0]) + self.blocks(&sides[1])),
        };
        let most = 1 << most.clamp(MIN_SUM, MAX_SUM).ilog2();
        let all = extent.next_power_of_two().max(MIN_SUM);
        let chunk = match all <= most {
            true => self.add(extent, all, Kind::Whole),
            false => {
                let chunk = self.open(extent, most);
                opened.push(chunk);
                chunk
            }
        };
        steps[loops.longest] = Some(Expr::axis(chunk));
        sum.chunk = Some(chunk);
        self.summed(&sum, steps, &opened, loops.types)
    }

    /// Notes the product for the choice of blocks.
    fn probed(
        &mut self,
        domain: &IterationDomain,
        steps: &[Option<Expr>],
        dtype: DType,
    ) -> Result<(), Reason> {
        if self.probe.is_none() || self.depth != 0 {
            return Ok(());
        }
        let mut known = steps.to_vec();
        let mut operations: u64 = 1;
        for (id, l) in domain.loops.iter().enumerate() {
            if known[id].is_none() {
                known[id] = Some(Expr::default());
                operations = operations.saturating_mul(l.extent);
            }
        }
        let left = axes_of_all(&self.operand_index(domain, 0, &known)?);
        let right = axes_of_all(&self.operand_index(domain, 1, &known)?);
        if let Some(probe) = &mut self.probe {
            let roots = probe.roots;
            let own = |axes: Vec<AxisId>| -> Vec<AxisId> {
                axes.into_iter().filter(|a| *a < roots).collect()
            };
            if operations > probe.product.as_ref().map_or(1, |p| p.operations) {
                let [left, right] = [own(left), own(right)];
                probe.product = Some(Contraction {
                    operations,
                    left,
                    right,
                    dtype,
                });
            }
        }
        Ok(())
    }

    /// A product whose sums have one element.
    fn scaled(
        &mut self,
        op: Op,
        domain: &IterationDomain,
        mut steps: Vec<Option<Expr>>,
        sums: &[(usize, u64)],
        index: &[Expr],
    ) -> Result<Val, Reason> {
        for &(id, _) in sums {
            steps[id] = Some(Expr::default());
        }
        let [a, b] = self.sides(op, domain, &steps)?;
        let (a, b) = (self.widened(a), self.widened(b));
        let axes = union(&a.axes, &b.axes);
        let val = Val {
            text: format!("{} * {}", self.spread(&a, &axes), self.spread(&b, &axes)),
            axes,
            dtype: a.dtype,
            zero: a.zero || b.zero,
            level: a.level.max(b.level),
        };
        let val = self.set("product", val, &axes_of_all(index));
        self.with_bias(op, domain, &steps, val)
    }

    /// Both operands at these steps.
    fn sides(
        &mut self,
        op: Op,
        domain: &IterationDomain,
        steps: &[Option<Expr>],
    ) -> Result<[Val; 2], Reason> {
        let values = self.cx.func.ops[op].operands.clone();
        let mut both = Vec::with_capacity(2);
        for (i, &value) in values.iter().enumerate().take(2) {
            let from = self.operand_index(domain, i, steps)?;
            let (val, guards) = self.windowed(value, &from)?;
            let val = match val.zero {
                true => val,
                false => self.guarded(&val, &guards, zero(val.dtype)),
            };
            both.push(val);
        }
        let b = both.pop().ok_or("it has no operands")?;
        let a = both.pop().ok_or("it has no operands")?;
        Ok([a, b])
    }

    /// Adds the bias.
    fn with_bias(
        &mut self,
        op: Op,
        domain: &IterationDomain,
        steps: &[Option<Expr>],
        mut val: Val,
    ) -> Result<Val, Reason> {
        for &i in &domain.epilogue {
            let from = self.operand_index(domain, i, steps)?;
            let bias = self.value(self.cx.func.ops[op].operands[i], &from)?;
            let bias = self.widened(bias);
            let axes = union(&val.axes, &bias.axes);
            let text = format!(
                "{} + {}",
                self.spread(&val, &axes),
                self.spread(&bias, &axes)
            );
            let dtype = val.dtype;
            let sum = Val {
                text,
                axes,
                dtype,
                zero: false,
                level: val.level.max(bias.level),
            };
            val = self.set("biased", sum, &[]);
        }
        Ok(val)
    }

    /// The sum of products over the loops that are open, which it closes.
    fn summed(
        &mut self,
        sum: &Sum<'_>,
        steps: &[Option<Expr>],
        opened: &[AxisId],
        types: (DType, DType),
    ) -> Result<Val, Reason> {
        let outer = self.scopes.len() - 1 - opened.len();
        let online = match sum.chunk {
            Some(chunk) if opened == [chunk] => self.online(sum, chunk, steps, outer)?,
            _ => None,
        };
        let [a, b] = self.sides(sum.op, sum.domain, steps)?;
        let to = self.cx.func.op_ref(sum.op);
        let to = to.result(0).map_err(|e| e.message)?.dtype;
        let held = match (types.0, to) {
            _ if to.is_int() => to,
            (DType::F64, _) => DType::F64,
            _ => DType::F32,
        };
        let chunk: Vec<AxisId> = sum.chunk.into_iter().collect();
        let without = |axes: &[AxisId]| -> Vec<AxisId> {
            axes.iter()
                .copied()
                .filter(|a| !chunk.contains(a))
                .collect()
        };
        let (left, right) = (without(&a.axes), without(&b.axes));
        let common = |own: &[AxisId], other: &[AxisId], both: bool| -> Vec<AxisId> {
            let kept = own.iter().copied().filter(|x| other.contains(x) == both);
            kept.collect()
        };
        let sides = Sides {
            batch: common(&left, &right, true),
            rows: common(&left, &right, false),
            columns: common(&right, &left, false),
        };
        let bytes = types.0.bits() == 8 && types.0 == types.1 && types.0.is_signed();
        let takes = match types.0 {
            DType::F16 | DType::BF16 | DType::F32 | DType::F64 => types.0 == types.1,
            _ => bytes && to.bits() == 32,
        };
        let takes = takes && !sides.rows.is_empty() && !sides.columns.is_empty();
        match sum
            .chunk
            .filter(|x| a.axes.contains(x) && b.axes.contains(x))
        {
            Some(chunk) if takes => {
                let stated = self.cx.func.ops[sum.op].attrs.str(Precision::STATED);
                let precision = Precision::of_product(stated, self.cx.precision);
                let types = (types.0, held, precision);
                self.dotted(chunk, opened, [a, b], types, &sides, online)
            }
            _ => self.multiplied(sum.chunk, opened, [a, b], held, online),
        }
    }

    /// An operand as a matrix: its axes as dimensions, several of them merged.
    fn matrix(&self, val: &Val, parts: [&[AxisId]; 3]) -> String {
        let order: Vec<AxisId> = parts.concat();
        let mut sorted = order.clone();
        sorted.sort_unstable();
        let mut text = self.spread(val, &sorted);
        let sizes =
            |axes: &[AxisId]| -> Vec<u64> { axes.iter().map(|&a| self.axes[a].block).collect() };
        if val.axes != sorted {
            text = format!("tl.broadcast_to({text}, {:?})", sizes(&sorted));
        }
        if order != sorted {
            let places: Vec<usize> = order
                .iter()
                .map(|a| sorted.iter().position(|b| a == b).unwrap_or(0))
                .collect();
            text = format!("tl.permute({text}, {places:?})");
        }
        let mut shape: Vec<u64> = parts[1..].iter().map(|p| self.blocks(p)).collect();
        if !parts[0].is_empty() {
            shape.insert(0, self.blocks(parts[0]));
        }
        if sizes(&order) != shape {
            text = format!("tl.reshape({text}, {shape:?})");
        }
        text
    }

    /// Products by `tl.dot`.
    fn dotted(
        &mut self,
        chunk: AxisId,
        opened: &[AxisId],
        operands: [Val; 2],
        (dtype, held, precision): (DType, DType, Precision),
        sides: &Sides,
        online: Option<Online>,
    ) -> Result<Val, Reason> {
        let kind = block_type(dtype).ok_or("a type that kernels lack")?;
        let accumulator = block_type(held).ok_or("a type that kernels lack")?;
        let along = [chunk];
        let mut texts = Vec::with_capacity(2);
        for (val, left) in operands.into_iter().zip([true, false]) {
            let val = self.inside(val, chunk);
            let parts: [&[AxisId]; 3] = match left {
                true => [&sides.batch, &sides.rows, &along],
                false => [&sides.batch, &along, &sides.columns],
            };
            let text = self.matrix(&val, parts);
            texts.push(match val.dtype == dtype {
                true => text,
                false => format!("({text}).to({kind})"),
            });
        }
        let shape = {
            let mut shape = vec![self.blocks(&sides.rows), self.blocks(&sides.columns)];
            if !sides.batch.is_empty() {
                shape.insert(0, self.blocks(&sides.batch));
            }
            shape
        };
        let precision = match dtype {
            DType::F32 => format!(", input_precision=\"{precision}\""),
            _ => String::new(),
        };
        let out = match held.is_int() || held == DType::F64 {
            true => format!(", out_dtype={accumulator}"),
            false => String::new(),
        };
        let (a, b) = (&texts[0], &texts[1]);
        let name = self.names.fresh("sum");
        if opened.is_empty() {
            self.line(format!("{name} = tl.dot({a}, {b}{precision}{out})"));
        } else {
            let outer = self.scopes.len() - 1 - opened.len();
            self.line_at(
                outer,
                format!("{name} = tl.zeros({shape:?}, {accumulator})"),
            );
            let mut start = name.clone();
            if let Some(online) = &online {
                let factor = self.rows_of(&online.factor, &online.axes, sides);
                start = format!("{name} * {factor}");
            }
            self.line(format!(
                "{name} = tl.dot({a}, {b}, {start}{precision}{out})"
            ));
            for &axis in opened.iter().rev() {
                self.close(axis);
            }
            if let Some(online) = &online {
                let total = self.rows_of(&online.sum, &online.axes, sides);
                self.line(format!("{name} = {name} / {total}"));
            }
        }
        Ok(self.unfolded(&name, held, sides))
    }

    /// A number for each row of an accumulator.
    fn rows_of(&self, name: &str, axes: &[AxisId], sides: &Sides) -> String {
        let val = Val {
            text: name.to_owned(),
            axes: axes.to_vec(),
            dtype: DType::F32,
            zero: false,
            level: 0,
        };
        // The rows and the columns of one side are all that the state depends on.
        match axes.iter().any(|a| sides.columns.contains(a)) {
            true => self.matrix(&val, [&sides.batch, &[], &sides.columns]),
            false => self.matrix(&val, [&sides.batch, &sides.rows, &[]]),
        }
    }

    /// The accumulator as a value, one dimension for each axis.
    fn unfolded(&mut self, name: &str, held: DType, sides: &Sides) -> Val {
        let order = sides.order();
        let mut sorted = order.clone();
        sorted.sort_unstable();
        let sizes: Vec<u64> = order.iter().map(|&a| self.axes[a].block).collect();
        let one = |axes: &[AxisId]| axes.len() == 1;
        let plain = one(&sides.rows) && one(&sides.columns) && sides.batch.len() <= 1;
        let mut text = name.to_owned();
        if !plain {
            text = format!("tl.reshape({text}, {sizes:?})");
            if order.is_empty() {
                text = format!("tl.sum(tl.reshape({name}, [1]), axis=0)");
            }
        }
        if order != sorted {
            let places: Vec<usize> = sorted
                .iter()
                .map(|a| order.iter().position(|b| a == b).unwrap_or(0))
                .collect();
            text = format!("tl.permute({text}, {places:?})");
        }
        let val = Val {
            text,
            axes: sorted,
            dtype: held,
            zero: false,
            level: self.scopes.len() - 1,
        };
        if val.text == name {
            return val;
        }
        let name = self.names.fresh("product");
        self.line(format!("{name} = {}", val.text));
        Val { text: name, ..val }
    }

    /// The operand with zeros outside of the sum.
    fn inside(&mut self, val: Val, chunk: AxisId) -> Val {
        let Some(mask) = self.axes[chunk].mask.clone().filter(|_| !val.zero) else {
            return val;
        };
        if !val.axes.contains(&chunk) {
            return val;
        }
        let mask = format!("{mask}{}", subscript(&[chunk], &val.axes));
        let text = format!("tl.where({mask}, {}, {})", val.text, zero(val.dtype));
        let val = Val {
            text,
            zero: true,
            ..val
        };
        self.set("inside", val, &[])
    }

    /// Products one by one, for types that `tl.dot` does not take.
    fn multiplied(
        &mut self,
        chunk: Option<AxisId>,
        opened: &[AxisId],
        [mut a, mut b]: [Val; 2],
        held: DType,
        online: Option<Online>,
    ) -> Result<Val, Reason> {
        let kind = block_type(held).ok_or("a type that kernels lack")?;
        if let Some(chunk) = chunk {
            (a, b) = (self.inside(a, chunk), self.inside(b, chunk));
        }
        let axes = union(&a.axes, &b.axes);
        if MAX_PLAIN < self.blocks(&axes) && self.probe.is_none() {
            return Err("`tl.dot` does not take its type, and its blocks are too large".to_owned());
        }
        let mut text = format!(
            "{}.to({kind}) * {}.to({kind})",
            self.spread(&a, &axes),
            self.spread(&b, &axes)
        );
        let mut kept = axes.clone();
        if let Some(at) = axes.iter().position(|&x| Some(x) == chunk) {
            text = format!("tl.sum({text}, axis={at})");
            kept.remove(at);
        }
        let name = self.names.fresh("sum");
        if opened.is_empty() {
            self.line(format!("{name} = {text}"));
        } else {
            let outer = self.scopes.len() - 1 - opened.len();
            let shape: Vec<u64> = kept.iter().map(|&a| self.axes[a].block).collect();
            let start = match shape.is_empty() {
                true => format!("tl.full((), {}, {kind})", zero(held)),
                false => format!("tl.zeros({shape:?}, {kind})"),
            };
            self.line_at(outer, format!("{name} = {start}"));
            match &online {
                Some(online) => {
                    let factor = format!("{}{}", online.factor, subscript(&online.axes, &kept));
                    self.line(format!("{name} = {name} * {factor} + {text}"));
                }
                None => self.line(format!("{name} += {text}")),
            }
            for &axis in opened.iter().rev() {
                self.close(axis);
            }
            if let Some(online) = &online {
                let total = format!("{}{}", online.sum, subscript(&online.axes, &kept));
                self.line(format!("{name} = {name} / {total}"));
            }
        }
        Ok(Val {
            text: name,
            axes: kept,
            dtype: held,
            zero: false,
            level: self.scopes.len() - 1,
        })
    }

    /// If an operand is proportional to a softmax along the sum, computes the softmax online: the greatest element and
    /// the sum so far are kept, and the accumulator is rescaled.
    fn online(
        &mut self,
        sum: &Sum<'_>,
        chunk: AxisId,
        steps: &[Option<Expr>],
        outer: usize,
    ) -> Result<Option<Online>, Reason> {
        let values = self.cx.func.ops[sum.op].operands.clone();
        let mut found = None;
        for (i, &value) in values.iter().enumerate().take(2) {
            let index = self.operand_index(sum.domain, i, steps)?;
            if let Some((value, index)) = self.softmax_behind(value, index, chunk) {
                if found.is_some() {
                    return Ok(None);
                }
                found = Some((value, index));
            }
        }
        let Some((value, index)) = found else {
            return Ok(None);
        };
        let Some(&(op, _)) = self.makers.get(&value) else {
            return Ok(None);
        };
        let x = self.cx.func.ops[op].operands[0];
        let x = self.value(x, &index)?;
        let x = self.widened(x);
        let Some(at) = x.axes.iter().position(|&a| a == chunk) else {
            return Ok(None);
        };
        let mut axes = x.axes.clone();
        axes.remove(at);
        let shape: Vec<u64> = axes.iter().map(|&a| self.axes[a].block).collect();
        let top = self.names.fresh("top");
        let (now, total) = (self.names.fresh("now"), self.names.fresh("total"));
        let start = |x: &str| match shape.is_empty() {
            true => format!("tl.full((), {x}, tl.float32)"),
            false => format!("tl.full({shape:?}, {x}, tl.float32)"),
        };
        self.line_at(outer, format!("{top} = {}", start("float(\"-inf\")")));
        self.line_at(outer, format!("{total} = {}", start("0.0")));
        let masked = match &self.axes[chunk].mask {
            Some(mask) => format!(
                "tl.where({mask}{}, {}, float(\"-inf\"))",
                subscript(&[chunk], &x.axes),
                x.text
            ),
            None => x.text.clone(),
        };
        let scores = self.names.fresh("scores");
        let terms = self.names.fresh("terms");
        let (factor, shift) = (self.names.fresh("factor"), self.names.fresh("shift"));
        let rows = subscript(&axes, &x.axes);
        self.line(format!("{scores} = {masked}"));
        self.line(format!(
            "{now} = tl.maximum({top}, tl.max({scores}, axis={at}))"
        ));
        // A row in which nothing is greater than minus infinity so far.
        self.line(format!(
            "{shift} = tl.where({now} == float(\"-inf\"), 0.0, {now})"
        ));
        self.line(format!("{factor} = tl.exp({top} - {shift})"));
        self.line(format!("{terms} = tl.exp({scores} - {shift}{rows})"));
        self.line(format!(
            "{total} = {total} * {factor} + tl.sum({terms}, axis={at})"
        ));
        self.line(format!("{top} = {now}"));
        let val = Val {
            text: terms,
            axes: x.axes.clone(),
            dtype: DType::F32,
            zero: true,
            level: self.scopes.len() - 1,
        };
        self.remember(value, &index, &val);
        Ok(Some(Online {
            factor,
            sum: total,
            axes,
        }))
    }

    /// The softmax to which a value is proportional along an axis, and its index.
    fn softmax_behind(
        &self,
        mut value: Value,
        mut index: Vec<Expr>,
        chunk: AxisId,
    ) -> Option<(Value, Vec<Expr>)> {
        loop {
            let &(op, result) = self.makers.get(&value)?;
            let op_ref = self.cx.func.op_ref(op);
            if let Ok(softmax) = Softmax::of(&op_ref) {
                let axis = softmax.along(&op_ref).ok()?;
                let along = index[axis] == Expr::axis(chunk);
                let others = index.iter().enumerate();
                let once = others
                    .filter(|(d, _)| *d != axis)
                    .all(|(_, e)| !e.depends_on(chunk));
                return (along && once).then_some((value, index));
            }
            if self.stored.contains(&value) {
                return None;
            }
            let domain = self.domain(op);
            let operands = &self.cx.func.ops[op].operands;
            let i = (0..operands.len()).find(|&i| {
                self.makers.contains_key(&operands[i])
                    && self.cx.registry.is_proportional(&op_ref, i)
            })?;
            let steps = self.steps(&domain, result, &index).ok()?;
            index = self.operand_index(&domain, i, &steps).ok()?;
            value = operands[i];
        }
    }
}
