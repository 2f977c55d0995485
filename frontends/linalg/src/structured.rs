//! Structured operations of `linalg`: loops over all combinations of indices, maps from the loops to the indices of each
//! operand, and a body that computes one element.
//!
//! A result is computed in the order of the loops, and transposed to its own order.

use crate::func::{FuncCx, Splat, Val};
use crate::maps::{Map, map};
use crate::named::{Loops, loops};
use crate::types::Ty;
use indexmap::IndexMap;
use optc_ir::{DType, NewOp, Operation, Type, Value};
use optc_mlir_syntax::{Op, Parsed, Region, Use, int};
use optc_ops::{Broadcast, Iota, Reduce, ReduceKind, Softmax};

/// A structured operation with its operands.
pub(crate) struct Structured<'a, 'm> {
    pub(crate) op: &'m Op<'a>,
    pub(crate) body: &'m Region<'a>,
    pub(crate) ins: Vec<Use<'a>>,
    pub(crate) outs: Vec<Use<'a>>,
    /// The maps of the operands, then those of the results.
    pub(crate) maps: Vec<Map>,
    /// The number of iterations of each loop.
    pub(crate) extents: Vec<u64>,
    /// True for the loops along which results are combined.
    pub(crate) reduced: Vec<bool>,
}

/// The last operation of a body that combines its result with another value.
pub(crate) struct Combined<'a, 'm> {
    pub(crate) op: &'m Op<'a>,
    pub(crate) kind: ReduceKind,
    /// The name of the value that is combined.
    pub(crate) value: &'a str,
}

impl<'a, 'm> FuncCx<'a, 'm>
where
    'm: 'a,
{
    /// The results of an operation of `linalg`.
    pub(crate) fn structured(&mut self, op: &'m Op<'a>) -> Parsed<Option<Vec<Val<'a>>>> {
        let whole = match op.name {
            "linalg.fill" => self.fill(op)?,
            "linalg.transpose" => self.transpose(op)?,
            "linalg.broadcast" => self.repeat(op)?,
            "linalg.softmax" => self.softmax(op)?,
            _ => return self.generic(op),
        };
        Ok(whole.map(|val| vec![val]))
    }

    fn fill(&mut self, op: &Op<'a>) -> Parsed<Option<Val<'a>>> {
        let ([number, _], [result]) = (&op.operands[..], &op.result_types[..]) else {
            return Ok(None);
        };
        let Ty::Tensor(shape, dtype) = self.ty(result) else {
            return Ok(None);
        };
        Ok(match self.val(number)? {
            Val::Number(splat, _) if splat.dtype == dtype => Some(Val::Splat(Splat {
                shape,
                ..splat.clone()
            })),
            _ => None,
        })
    }

    fn transpose(&mut self, op: &Op<'a>) -> Parsed<Option<Val<'a>>> {
        let ([x, _], Some(perm)) = (&op.operands[..], self.indices(op, "permutation")) else {
            return Ok(None);
        };
        let Some(value) = self.tensor(x)? else {
            return Ok(None);
        };
        let value = self.transposed(value, &perm);
        Ok(value.map(Val::Tensor))
    }

    /// A broadcast: `dimensions` are those that the operand lacks.
    fn repeat(&mut self, op: &Op<'a>) -> Parsed<Option<Val<'a>>> {
        let ([x, _], Some(new)) = (&op.operands[..], self.indices(op, "dimensions")) else {
            return Ok(None);
        };
        let result = op.result_types.first().map(|text| self.ty(text));
        let Some(Ty::Tensor(shape, _)) = result else {
            return Ok(None);
        };
        let Some(value) = self.tensor(x)? else {
            return Ok(None);
        };
        let kept = |(d, &n): (usize, &u64)| if new.contains(&d) { 1 } else { n };
        let ones: Vec<u64> = shape.iter().enumerate().map(kept).collect();
        let value = self.reshaped(value, &ones);
        let value = value.and_then(|value| self.broadcast(value, &shape));
        Ok(value.map(Val::Tensor))
    }

    fn softmax(&mut self, op: &Op<'a>) -> Parsed<Option<Val<'a>>> {
        let (Some(x), Some(axis)) = (op.operands.first(), op.attr("dimension").and_then(int))
        else {
            return Ok(None);
        };
        let Some(value) = self.tensor(x)? else {
            return Ok(None);
        };
        Ok(self.one(&Softmax { axis }, &[value]).map(Val::Tensor))
    }

    /// An operation by its maps and its body.
    fn generic(&mut self, op: &'m Op<'a>) -> Parsed<Option<Vec<Val<'a>>>> {
        let Some(found) = self.loops(op)? else {
            return Ok(None);
        };
        if !found.reduced.contains(&true) {
            return self.pointwise(&found);
        }
        let Some(combined) = found.combined() else {
            return Ok(None);
        };
        let plain = found
            .maps
            .iter()
            .flatten()
            .all(|index| index.dim().is_some());
        let mut value = self.contraction(&found, &combined)?;
        if value.is_none() && !plain {
            value = self.window(&found, &combined)?;
        }
        if value.is_none() && plain {
            value = self.reduction(&found, &combined)?;
        }
        let Some(value) = value else {
            return Ok(None);
        };
        let value = self.begun(&found, &combined, value)?;
        Ok(value.map(|value| vec![Val::Tensor(value)]))
    }

    /// The loops, maps and operands of an operation.
    fn loops(&mut self, op: &'m Op<'a>) -> Parsed<Option<Structured<'a, 'm>>> {
        let [body] = &op.regions[..] else {
            return Ok(None);
        };
        let count = op.result_types.len();
        let (true, Some(first)) = (count != 0, op.operands.len().checked_sub(count)) else {
            return Ok(None);
        };
        let Some(Loops { reduced, maps }) = self.stated(op) else {
            return Ok(None);
        };
        if maps.len() != op.operands.len() {
            return Ok(None);
        }
        let mut extents = vec![None; reduced.len()];
        for (used, map) in op.operands.iter().zip(&maps) {
            let Some(shape) = self.extents(used)?.filter(|shape| shape.len() == map.len()) else {
                return Ok(None);
            };
            for (index, n) in map.iter().zip(shape) {
                if let Some(dim) = index.dim() {
                    extents[dim] = Some(n);
                }
            }
        }
        let Some(extents) = extents.into_iter().collect::<Option<Vec<u64>>>() else {
            return Ok(None);
        };
        let (ins, outs) = op.operands.split_at(first);
        Ok(Some(Structured {
            op,
            body,
            ins: ins.to_vec(),
            outs: outs.to_vec(),
            maps,
            extents,
            reduced,
        }))
    }

    /// The loops and maps that an operation states, or that its name means.
    fn stated(&self, op: &Op<'a>) -> Option<Loops> {
        match op.name {
            "linalg.generic" => {
                let kinds = entries(self.aliases.resolve(op.attr("iterator_types")?))?;
                let reduced = kinds
                    .iter()
                    .map(|kind| kind.contains("reduction"))
                    .collect::<Vec<_>>();
                if kinds.iter().any(|kind| kind.contains("window")) {
                    return None;
                }
                let texts = entries(self.aliases.resolve(op.attr("indexing_maps")?))?;
                let map = |text: &'a str| {
                    map(self.aliases.resolve(text)).filter(|(n, _)| *n == reduced.len())
                };
                let maps: Option<Vec<Map>> =
                    texts.into_iter().map(|text| Some(map(text)?.1)).collect();
                Some(Loops {
                    reduced,
                    maps: maps?,
                })
            }
            "linalg.reduce" => {
                let axes = self.indices(op, "dimensions")?;
                let [x, _] = &op.operand_types[..] else {
                    return None;
                };
                let Ty::Tensor(shape, _) = self.ty(x) else {
                    return None;
                };
                let all: Vec<usize> = (0..shape.len()).collect();
                let reduced: Vec<bool> = all.iter().map(|d| axes.contains(d)).collect();
                let of = |dims: Vec<usize>| {
                    dims.into_iter()
                        .map(crate::maps::Linear::of)
                        .collect::<Map>()
                };
                let left = all.iter().copied().filter(|&d| !reduced[d]).collect();
                Some(Loops {
                    maps: vec![of(all), of(left)],
                    reduced,
                })
            }
            name => {
                let Ty::Tensor(shape, _) = self.ty(op.result_types.first()?) else {
                    return None;
                };
                let list = |name: &str| self.ints(op, name);
                let (strides, dilations) = (list("strides"), list("dilations"));
                loops(
                    name,
                    op.operands.len(),
                    shape.len(),
                    strides.as_deref(),
                    dilations.as_deref(),
                )
            }
        }
    }

    /// The extents of a use; those of a number are none. `None` if it is no tensor of known sizes.
    fn extents(&self, used: &Use<'a>) -> Parsed<Option<Vec<u64>>> {
        Ok(match self.val(used)? {
            Val::Tensor(value) => self.b.tensor(*value).and_then(optc_ir::TensorType::shape),
            Val::Splat(splat) | Val::Number(splat, _) => Some(splat.shape.clone()),
            Val::Empty(shape, _) => Some(shape.clone()),
            Val::Parts(parts) => Some(parts.shape.clone()),
            Val::Computed(_) => None,
        })
    }

    /// An operation without reductions.
    fn pointwise(&mut self, found: &Structured<'a, 'm>) -> Parsed<Option<Vec<Val<'a>>>> {
        let count = found.outs.len();
        let orders: Option<Vec<Vec<usize>>> = found.maps[found.ins.len()..]
            .iter()
            .map(|map| dims(map))
            .collect();
        let loops = found.extents.len();
        let Some(orders) = orders.filter(|all| all.iter().all(|order| order.len() == loops)) else {
            return Ok(None);
        };
        let Some(end) = found
            .body
            .ops
            .last()
            .filter(|end| end.operands.len() == count)
        else {
            return Ok(None);
        };
        let names: Vec<&Use<'a>> = end.operands.iter().collect();
        let Some(values) = self.evaluated(found, &names, None)? else {
            return Ok(None);
        };
        let mut results = Vec::with_capacity(count);
        for (value, order) in values.into_iter().zip(orders) {
            let whole = self.broadcast(value, &found.extents);
            match whole.and_then(|whole| self.transposed(whole, &order)) {
                Some(value) => results.push(Val::Tensor(value)),
                None => return Ok(None),
            }
        }
        Ok(Some(results))
    }

    /// A reduction of a value that the body computes from the operands.
    fn reduction(
        &mut self,
        found: &Structured<'a, 'm>,
        combined: &Combined<'a, 'm>,
    ) -> Parsed<Option<Value>> {
        let Some(order) = found.maps.last().and_then(|map| dims(map)) else {
            return Ok(None);
        };
        let left: Vec<usize> = (0..found.extents.len())
            .filter(|&d| !found.reduced[d])
            .collect();
        if order.len() != left.len() || order.iter().any(|&d| found.reduced[d]) {
            return Ok(None);
        }
        let used = Use {
            name: combined.value,
            part: 0,
            span: combined.op.span,
        };
        let Some(values) = self.evaluated(found, &[&used], Some(combined))? else {
            return Ok(None);
        };
        let axes: Vec<usize> = (0..found.extents.len())
            .filter(|&d| found.reduced[d])
            .collect();
        Ok((|| {
            let whole = self.broadcast(values[0], &found.extents)?;
            let reduce = Reduce {
                kind: combined.kind,
                axes: Some(optc_ops::ints(&axes)),
                keepdims: false,
            };
            let value = self.one(&reduce, &[whole])?;
            let place = |d: &usize| left.iter().position(|l| l == d);
            let perm: Option<Vec<usize>> = order.iter().map(place).collect();
            self.transposed(value, &perm?)
        })())
    }

    /// A reduced value combined with that from which the sum begins.
    fn begun(
        &mut self,
        found: &Structured<'a, 'm>,
        combined: &Combined<'a, 'm>,
        value: Value,
    ) -> Parsed<Option<Value>> {
        let begin = found.outs[0];
        if let Val::Splat(splat) = self.val(&begin)?
            && is_neutral(combined.kind, splat)
        {
            return Ok(Some(value));
        }
        let Some(begin) = self.tensor(&begin)? else {
            return Ok(None);
        };
        let begin = self.unrepeated(begin);
        let dtype = self.dtype(value);
        Ok(self.element(combined.op, &[value, begin], dtype))
    }

    /// The operand of a broadcast, which an element-wise operation repeats itself.
    fn unrepeated(&self, value: Value) -> Value {
        let func = &self.b.func;
        let made = func.def_op(value).map(|op| &func.ops[op]);
        match made.map(|data| (&*data.name, &data.operands[..])) {
            Some((Broadcast::NAME, &[operand])) => operand,
            _ => value,
        }
    }

    /// The values of some names of the body, over the loops: each has an axis for each loop, of extent 1 if it is the same
    /// in all iterations, or rank 0.
    fn evaluated(
        &mut self,
        found: &Structured<'a, 'm>,
        names: &[&Use<'a>],
        without: Option<&Combined<'a, 'm>>,
    ) -> Parsed<Option<Vec<Value>>> {
        let mut known: IndexMap<&str, Value> = IndexMap::new();
        let operands = found.ins.iter().chain(&found.outs);
        for ((name, _), (used, map)) in found.body.args.iter().zip(operands.zip(&found.maps)) {
            let needs = |op: &&Op<'a>| op.operands.iter().any(|o| o.name == *name);
            let skipped = without.is_some_and(|combined| found.is_result(name, combined));
            if skipped || !found.body.ops.iter().any(|op| needs(&op)) {
                continue;
            }
            match self.aligned(used, map, &found.extents)? {
                Some(value) => known.insert(name, value),
                None => return Ok(None),
            };
        }
        for op in &found.body.ops {
            if op.name == "linalg.yield" || without.is_some_and(|c| std::ptr::eq(c.op, op)) {
                continue;
            }
            let Some(value) = self.computed(op, &known, &found.extents)? else {
                return Ok(None);
            };
            if let [(name, 1)] = op.results[..] {
                known.insert(name, value);
            }
        }
        let mut values = Vec::with_capacity(names.len());
        for used in names {
            match self.inner(used, &known)? {
                Some(value) => values.push(value),
                None => return Ok(None),
            }
        }
        Ok(Some(values))
    }

    /// A value of a body: one of its own, or a number from outside.
    fn inner(&mut self, used: &Use<'a>, known: &IndexMap<&str, Value>) -> Parsed<Option<Value>> {
        if let Some(value) = known.get(used.name) {
            return Ok(Some(*value));
        }
        match self.val(used) {
            Ok(Val::Number(splat, _)) => {
                let splat = splat.clone();
                Ok(self.splat(&splat))
            }
            _ => Ok(None),
        }
    }

    /// The result of one operation of a body.
    fn computed(
        &mut self,
        op: &'m Op<'a>,
        known: &IndexMap<&str, Value>,
        extents: &[u64],
    ) -> Parsed<Option<Value>> {
        let [result] = op.result_types[..] else {
            return Ok(None);
        };
        let Ty::Scalar(dtype) = self.ty(result) else {
            return Ok(None);
        };
        match op.name {
            "arith.constant" => {
                let made = self.constant(op)?;
                return Ok(made.first().and_then(|val| self.settled(val)));
            }
            "linalg.index" => {
                let dim = op
                    .attr("dim")
                    .and_then(int)
                    .and_then(|d| usize::try_from(d).ok());
                return Ok(dim.and_then(|dim| self.counted(dim, extents)));
            }
            _ => {}
        }
        let mut operands = Vec::with_capacity(op.operands.len());
        for used in &op.operands {
            match self.inner(used, known)? {
                Some(value) => operands.push(value),
                None => return Ok(None),
            }
        }
        let value = self.element(op, &operands, dtype);
        Ok(value.filter(|&value| self.dtype(value) == dtype))
    }

    /// The index of a loop.
    fn counted(&mut self, dim: usize, extents: &[u64]) -> Option<Value> {
        let n = *extents.get(dim)?;
        let ty = Type::tensor(&[n], DType::SI64);
        let made = NewOp::of(&Iota { axis: 0 }, &[]).typed(vec![ty]);
        let value = self.b.add_one(made).ok()?;
        self.reshaped(value, &spread(&[dim], extents))
    }

    /// An operand in the order of the loops, with an axis for each. A tensor of one number has rank 0.
    fn aligned(&mut self, used: &Use<'a>, map: &Map, extents: &[u64]) -> Parsed<Option<Value>> {
        if let Val::Splat(splat) = self.val(used)? {
            let number = Splat {
                shape: Vec::new(),
                ..splat.clone()
            };
            return Ok(self.splat(&number));
        }
        let Some(value) = self.tensor(used)? else {
            return Ok(None);
        };
        Ok(self.over_loops(value, map, extents))
    }

    fn over_loops(&mut self, value: Value, map: &Map, extents: &[u64]) -> Option<Value> {
        let shape = self.shape(value);
        // The only index of a dimension of extent 1 is 0.
        let zero = |(d, index): (usize, &crate::maps::Linear)| {
            shape[d] == 1 && index.terms.is_empty() && index.constant == 0
        };
        let kept: Vec<usize> = (0..map.len()).filter(|&d| !zero((d, &map[d]))).collect();
        let map: Map = kept.iter().map(|&d| map[d].clone()).collect();
        let shape: Vec<u64> = kept.iter().map(|&d| shape[d]).collect();
        let value = self.reshaped(value, &shape)?;
        let own = dims(&map)?;
        let mut perm: Vec<usize> = (0..own.len()).collect();
        perm.sort_by_key(|&i| own[i]);
        let value = self.transposed(value, &perm)?;
        self.reshaped(value, &spread(&own, extents))
    }
}

impl<'a, 'm> Structured<'a, 'm> {
    /// Returns whether an argument of the body is the element of the result.
    pub(crate) fn is_result(&self, name: &str, _: &Combined<'a, 'm>) -> bool {
        let args = self.body.args.get(self.ins.len()..).unwrap_or_default();
        args.iter().any(|(arg, _)| *arg == name)
    }

    /// The last operation of the body, if it combines the only result with a value that does not depend on it.
    fn combined(&self) -> Option<Combined<'a, 'm>> {
        let ([_], [.., (result, _)]) = (&self.outs[..], &self.body.args[..]) else {
            return None;
        };
        if self.body.args.len() != self.ins.len() + 1 {
            return None;
        }
        let (end, ops) = self.body.ops.split_last()?;
        let [given] = end.operands[..] else {
            return None;
        };
        let op = ops
            .iter()
            .find(|op| op.results.iter().any(|(name, _)| *name == given.name))?;
        let [a, b] = op.operands[..] else { return None };
        let value = match (a.name == *result, b.name == *result) {
            (true, false) => b.name,
            (false, true) => a.name,
            _ => return None,
        };
        let reads = |other: &&Op<'a>| {
            let names = |name: &str| other.operands.iter().any(|o| o.name == name);
            !std::ptr::eq(*other, op) && (names(result) || names(given.name))
        };
        if ops.iter().any(|other| reads(&other)) {
            return None;
        }
        Some(Combined {
            op,
            kind: kind(op.name, op.result_types.first()?)?,
            value,
        })
    }

    /// The operation of the body that defines a name.
    pub(crate) fn defines(&self, name: &str) -> Option<&'m Op<'a>> {
        let mut ops = self.body.ops.iter();
        ops.find(|op| op.results.iter().any(|(own, _)| *own == name))
    }

    /// The number of the operand that an argument of the body is an element of.
    pub(crate) fn operand(&self, name: &str) -> Option<usize> {
        let at = self.body.args.iter().position(|(arg, _)| *arg == name)?;
        (at < self.ins.len()).then_some(at)
    }
}

/// The reduction by an operation; one on bits only of truth values.
fn kind(name: &str, ty: &str) -> Option<ReduceKind> {
    let truth = ty == "i1";
    Some(match name {
        "arith.addf" => ReduceKind::Sum,
        "arith.addi" if !truth => ReduceKind::Sum,
        "arith.mulf" => ReduceKind::Prod,
        "arith.muli" if !truth => ReduceKind::Prod,
        "arith.maximumf" => ReduceKind::Max,
        "arith.maxsi" if !truth => ReduceKind::Max,
        "arith.minimumf" => ReduceKind::Min,
        "arith.minsi" if !truth => ReduceKind::Min,
        "arith.andi" => ReduceKind::And,
        "arith.ori" => ReduceKind::Or,
        _ => return None,
    })
}

/// Returns whether a number changes nothing that it is combined with.
fn is_neutral(kind: ReduceKind, splat: &Splat) -> bool {
    let (element, dtype) = (splat.element(), splat.dtype);
    if dtype.is_float() {
        let x = element.f64_at(0);
        return match kind {
            ReduceKind::Sum => x == 0.0,
            ReduceKind::Prod => x == 1.0,
            ReduceKind::Max => x == f64::NEG_INFINITY,
            ReduceKind::Min => x == f64::INFINITY,
            _ => false,
        };
    }
    let (n, (low, high)) = (element.i128_at(0), optc_ir::tensor::int_range(dtype));
    match kind {
        ReduceKind::Sum | ReduceKind::Or => n == 0,
        ReduceKind::Prod => n == 1,
        ReduceKind::Max => n == low,
        ReduceKind::Min => n == high,
        ReduceKind::And => n == -1 || dtype.is_bool() && n == 1,
        _ => false,
    }
}

/// The loops of a map, if each index is a loop of its own.
pub(crate) fn dims(map: &[crate::maps::Linear]) -> Option<Vec<usize>> {
    let own: Option<Vec<usize>> = map.iter().map(crate::maps::Linear::dim).collect();
    let own = own?;
    let apart = own.iter().enumerate().all(|(i, d)| !own[..i].contains(d));
    apart.then_some(own)
}

/// The extents of some loops, with 1 for all others.
fn spread(dims: &[usize], extents: &[u64]) -> Vec<u64> {
    let extent = |(d, &n): (usize, &u64)| if dims.contains(&d) { n } else { 1 };
    extents.iter().enumerate().map(extent).collect()
}

/// The entries of a list in brackets.
fn entries(text: &str) -> Option<Vec<&str>> {
    let inner = text.trim().strip_prefix('[')?.strip_suffix(']')?;
    let (mut depth, mut start, mut found) = (0usize, 0, Vec::new());
    let mut before = ' ';
    for (at, c) in inner.char_indices() {
        match c {
            '(' | '[' | '<' => depth += 1,
            ')' | ']' => depth = depth.saturating_sub(1),
            '>' if before != '-' => depth = depth.saturating_sub(1),
            ',' if depth == 0 => {
                found.push(inner[start..at].trim());
                start = at + 1;
            }
            _ => {}
        }
        before = c;
    }
    found.push(inner[start..].trim());
    found.retain(|entry| !entry.is_empty());
    Some(found)
}
