//! `part`: the program of one device of a mesh, on its parts of all values.
//!
//! Example: a product whose sum is split over `model` is a product of parts and `lax.psum(…, "model")`. `sharded` maps
//! `part` over the mesh (`jax.shard_map`), so that the collectives are those that the shardings of the program state.
//!
//! - An operation is the same operation on parts: digits that are split are left out of their dimensions.
//! - A value that is read or stored in another sharding is converted in the steps of [`optc_check::mesh::steps`].
//! - A program has a part if it states the sharding of every value, without padding, and each operation whose loops are
//!   split is one of [`BY_PARTS`], element-wise or a view. Otherwise XLA's partitioner splits `main`.

use super::form::Site;
use super::moves;
use super::ops::write;
use super::rearrange::rearrangement;
use super::shards::{Shards, parts_of};
use super::whole::{Function, Parts, site, targets};
use super::words::{Names, tuple};
use crate::python::{definition, value_names};
use indexmap::IndexMap;
use optc_check::mesh::{Divided, Links, Site as Loops, steps};
use optc_ir::entity::EntityId;
use optc_ir::shard::{self, Sharding};
use optc_ir::{Diagnostic, Dim, Func, Op, OpRef, Operation, Registry, Structure, Value};
use optc_ops::{
    ArgMax, ArgMin, AvgPool, BatchNorm, Broadcast, Concat, Constant, Conv, Cumprod, Cumsum,
    DotGeneral, Einsum, Flatten, Gather, GatherElements, InstanceNorm, LayerNorm, Linear,
    LogSoftmax, Matmul, MaxPool, Reduce, Reshape, RmsNorm, Slice, Softmax, Split, Squeeze, Subview,
    TopK, Transpose, Unsqueeze,
};
use std::collections::BTreeMap;

/// The operations whose form on parts is their form on whole values, besides element-wise ones and views.
const BY_PARTS: &[&str] = &[
    ArgMax::NAME,
    ArgMin::NAME,
    AvgPool::NAME,
    BatchNorm::NAME,
    Broadcast::NAME,
    Concat::NAME,
    Conv::NAME,
    Cumprod::NAME,
    Cumsum::NAME,
    DotGeneral::NAME,
    Einsum::NAME,
    Flatten::NAME,
    Gather::NAME,
    GatherElements::NAME,
    InstanceNorm::NAME,
    LayerNorm::NAME,
    Linear::NAME,
    LogSoftmax::NAME,
    Matmul::NAME,
    MaxPool::NAME,
    Reduce::NAME,
    Reshape::NAME,
    RmsNorm::NAME,
    Slice::NAME,
    Softmax::NAME,
    Split::NAME,
    Squeeze::NAME,
    Subview::NAME,
    TopK::NAME,
    Transpose::NAME,
    Unsqueeze::NAME,
];

/// The program of one device, or the reason why there is none.
pub(super) type Written = Result<String, String>;

/// The state of the function that is being written.
struct Part<'a> {
    inner: Function<'a>,
    shards: &'a Shards,
    links: &'a Links,
    /// The sharding in which each value is stored.
    stored: Vec<Sharding>,
    /// Names of the function.
    fresh: Names,
    /// The values that are converted already.
    read: IndexMap<(Value, Sharding), String>,
}

/// The function `part`, or the reason why the program has none.
pub(super) fn part(
    func: &Func,
    registry: &Registry,
    functions: &BTreeMap<&str, String>,
    parts: &mut Parts,
    links: &Links,
) -> Result<Written, Box<Diagnostic>> {
    let Some(shards) = parts.shards.clone() else {
        return Ok(Err("the program states no mesh".to_owned()));
    };
    let stored = |v: Value| -> Option<Sharding> {
        let sharding = shard::stored(func, v, &shards.mesh).ok()??;
        let known = func.ty(v).as_tensor()?.shape().is_some() && !sharding.is_partial();
        let whole = !sharding.splits().iter().any(|split| split.padded);
        (known && whole).then_some(sharding)
    };
    let made = func.body.iter().flat_map(|&op| func.ops[op].results.iter());
    let names = value_names(func, &parts.functions);
    let mut known = vec![Sharding::replicated(); func.values.len()];
    for &value in func.args.iter().chain(made) {
        match stored(value) {
            Some(sharding) => known[value.index()] = sharding,
            None => {
                let name = &names[value.index()];
                return Ok(Err(format!("`{name}` has no sharding without padding")));
            }
        }
    }
    let mut fresh = Names::within(&parts.functions);
    for name in &names {
        fresh.fresh(name);
    }
    let mut part = Part {
        inner: Function {
            func,
            registry,
            functions,
            names,
            lines: Vec::new(),
        },
        shards: &shards,
        links,
        stored: known,
        fresh,
        read: IndexMap::new(),
    };
    if let Err(why) = part.arguments(parts) {
        return Ok(Err(why));
    }
    for &op in &func.body {
        if let Err(why) = part.operation(op, parts)? {
            return Ok(Err(format!("{}: {why}", func.ops[op].name)));
        }
    }
    let results = match part.results(parts) {
        Ok(results) => results,
        Err(why) => return Ok(Err(why)),
    };
    let args: Vec<&str> = func.args.iter().map(|&v| part.inner.name(v)).collect();
    let options = parts.style.options();
    let results: Vec<&str> = results.iter().map(String::as_str).collect();
    let lines = &part.inner.lines;
    Ok(Ok(definition("part", &args, &options, lines, &results)))
}

type Formed<T> = Result<T, String>;

impl Part<'_> {
    fn shape(&self, value: Value) -> Vec<u64> {
        let tensor = self.inner.func.ty(value).as_tensor();
        tensor
            .and_then(optc_ir::TensorType::shape)
            .unwrap_or_default()
    }

    /// The dimensions of a part.
    fn local(&self, value: Value, sharding: &Sharding) -> Vec<u64> {
        local(&self.shape(value), sharding)
    }

    /// A value that comes from outside, in its stored sharding: its digits as the device has them, or all of it.
    fn entered(&self, value: Value, text: String, parts: &mut Parts) -> Formed<String> {
        let stored = &self.stored[value.index()];
        if self.shards.entry(self.inner.func, value).is_none() {
            return self.converted(text, &Sharding::replicated(), stored, parts);
        }
        let shape = self.shape(value);
        let stated = self.shards.stated(self.inner.func, value, stored);
        let digits = stated.as_ref().and_then(parts_of);
        let digits = digits.ok_or("its digits are not dimensions")?;
        let to = local(&shape, stored);
        Ok(match digits == to {
            true => text,
            false => format!("{text}.reshape{}", tuple(to)),
        })
    }

    fn arguments(&mut self, parts: &mut Parts) -> Formed<()> {
        for &arg in &self.inner.func.args {
            let name = self.inner.name(arg).to_owned();
            let text = self.entered(arg, name.clone(), parts)?;
            if text != name {
                self.inner.lines.push(format!("{name} = {text}"));
            }
        }
        Ok(())
    }

    /// The results in the digits that are split outside.
    fn results(&mut self, parts: &mut Parts) -> Formed<Vec<String>> {
        let func = self.inner.func;
        let mut all = Vec::with_capacity(func.results.len());
        for (i, &value) in func.results.iter().enumerate() {
            let stored = self.stored[value.index()].clone();
            let wanted = shard::result(func, i, &self.shards.mesh).ok().flatten();
            let wanted = wanted.unwrap_or_else(|| stored.clone());
            let Some(stated) = self.shards.returned(func, i) else {
                let whole = Sharding::replicated();
                let name = self.inner.name(value).to_owned();
                all.push(self.converted(name, &stored, &whole, parts)?);
                continue;
            };
            let name = self.inner.name(value).to_owned();
            let text = self.converted(name, &stored, &wanted, parts)?;
            let digits = parts_of(&stated).ok_or("its digits are not dimensions")?;
            all.push(match digits == self.local(value, &wanted) {
                true => text,
                false => format!("{text}.reshape{}", tuple(digits)),
            });
        }
        Ok(all)
    }

    /// An expression of a value in another sharding.
    fn converted(
        &self,
        mut text: String,
        from: &Sharding,
        to: &Sharding,
        parts: &mut Parts,
    ) -> Formed<String> {
        let texts = |sharding: &Sharding| sharding.texts(&self.shards.mesh).join(", ");
        let none = || format!("[{}] does not become [{}]", texts(from), texts(to));
        for step in steps(from, to, self.links).ok_or_else(none)? {
            let made = moves::step(&text, &step, self.shards, &mut parts.helpers);
            text = made.ok_or_else(none)?;
        }
        Ok(text)
    }

    /// The operand of an operation in the sharding in which it is read.
    fn operand(&mut self, value: Value, read: &Sharding, parts: &mut Parts) -> Formed<String> {
        let name = self.inner.name(value).to_owned();
        let stored = self.stored[value.index()].clone();
        if stored == *read {
            return Ok(name);
        }
        let key = (value, read.clone());
        if let Some(known) = self.read.get(&key) {
            return Ok(known.clone());
        }
        let text = self.converted(name.clone(), &stored, read, parts)?;
        let new = self.fresh.fresh(&name);
        self.inner.lines.push(format!("{new} = {text}"));
        self.read.insert(key, new.clone());
        Ok(new)
    }

    fn operation(&mut self, op: Op, parts: &mut Parts) -> Result<Formed<()>, Box<Diagnostic>> {
        let func = self.inner.func;
        let data = &func.ops[op];
        let loops = Loops::of(func, op, self.inner.registry);
        if loops.source {
            return self.source(op, parts);
        }
        let stored = |v: &Value| self.stored[v.index()].clone();
        let kept: Vec<Sharding> = data.operands.iter().map(stored).collect();
        let takes = shard::take(func, op, &self.shards.mesh).ok().flatten();
        let results: Vec<Sharding> = data.results.iter().map(stored).collect();
        let divided = loops.following(&takes.unwrap_or(kept), &results, self.links.0.len());
        let mut args = Vec::with_capacity(data.operands.len());
        for (&value, read) in data.operands.iter().zip(&divided.operands) {
            match self.operand(value, read, parts) {
                Ok(text) => args.push(text),
                Err(why) => return Ok(Err(why)),
            }
        }
        let texts = match divided.parts {
            1 => self.inner.texts(op, &args, parts)?,
            _ => match self.by_parts(op, args, &divided, parts) {
                Some(texts) => texts,
                None => return Ok(Err("it has no form on parts".to_owned())),
            },
        };
        Ok(self.made(op, texts, &divided.results, parts))
    }

    /// A constant that is placed by its parts, or a value that each device makes whole and takes its part of.
    fn source(&mut self, op: Op, parts: &mut Parts) -> Result<Formed<()>, Box<Diagnostic>> {
        let func = self.inner.func;
        let mut texts = self.inner.texts(op, &[], parts)?;
        let placed = Constant::of(&func.op_ref(op)).is_ok_and(|constant| constant.data.is_some());
        let results = &func.ops[op].results;
        if let (true, [text], &[value]) = (placed, &mut texts[..], &results[..]) {
            match self.entered(value, std::mem::take(text), parts) {
                Ok(entered) => *text = entered,
                Err(why) => return Ok(Err(why)),
            }
            let stored = self.stored[value.index()].clone();
            return Ok(self.made(op, texts, &[stored], parts));
        }
        let whole = vec![Sharding::replicated(); results.len()];
        Ok(self.made(op, texts, &whole, parts))
    }

    /// Adds the lines of results that are made in these shardings.
    fn made(
        &mut self,
        op: Op,
        texts: Vec<String>,
        made: &[Sharding],
        parts: &mut Parts,
    ) -> Formed<()> {
        let results = &self.inner.func.ops[op].results;
        let names: Vec<String> = results
            .iter()
            .map(|&v| self.inner.name(v).to_owned())
            .collect();
        // A call has all results in one expression.
        let apart = texts.len() == results.len();
        if !apart {
            let line = format!("{} = {}", targets(&names), texts.join(", "));
            self.inner.lines.push(line);
        }
        for (i, &value) in results.iter().enumerate() {
            let text = if apart { &texts[i] } else { &names[i] };
            let stored = &self.stored[value.index()];
            let text = self.converted(text.clone(), &made[i], stored, parts)?;
            if text != names[i] {
                self.inner.lines.push(format!("{} = {text}", names[i]));
            }
        }
        Ok(())
    }

    /// The expressions of an operation on parts; `None` if it has none.
    fn by_parts(
        &self,
        op: Op,
        mut args: Vec<String>,
        divided: &Divided,
        parts: &mut Parts,
    ) -> Option<Vec<String>> {
        let registry = self.inner.registry;
        let op_ref = self.inner.func.op_ref(op);
        let extents = |all: Vec<Vec<u64>>, shardings: &[Sharding]| -> Vec<Vec<u64>> {
            let each = all.iter().zip(shardings);
            each.map(|(shape, sharding)| local(shape, sharding))
                .collect()
        };
        let whole = site(
            &op_ref,
            registry,
            parts.style.precision(self.inner.func, op),
        )?;
        let operands = extents(whole.operands.clone(), &divided.operands);
        let results = extents(whole.results.clone(), &divided.results);
        if self.inner.structure(op) == Structure::View {
            let view = registry.rearrangement(&op_ref).ok()?;
            let shape: Option<Vec<u64>> = view.shape.iter().map(Dim::fixed).collect();
            let inner = regrouped(&whole.operands[0], &divided.operands[0], &shape?)?;
            let text = rearrangement(&args[0], &operands[0], &inner, &view.perm, &results[0]);
            return Some(vec![text]);
        }
        if !has_parts(&op_ref, registry) {
            return None;
        }
        // A bias is added to one of the partial sums.
        let sums = divided.results.iter().flat_map(Sharding::splits);
        let sums: Vec<usize> = sums
            .filter(|s| s.pieces().is_empty())
            .map(|s| s.axis)
            .collect();
        if let (false, Some(bias)) = (sums.is_empty(), args.get_mut(2)) {
            parts.helpers.insert("_once");
            *bias = format!("_once({bias}, {})", self.shards.names(&sums));
        }
        let local = Site {
            operands,
            results,
            ..whole
        };
        let written = write(&local, &args)?;
        parts.helpers.extend(&written.helpers);
        Some(written.results)
    }
}

/// Returns whether the form of an operation on parts is that on whole values.
fn has_parts(op: &OpRef<'_>, registry: &Registry) -> bool {
    match op.name {
        // The form of a transposed convolution has the number of groups.
        Conv::NAME => {
            Conv::of(op).is_ok_and(|conv| !conv.transposed || conv.groups().is_ok_and(|n| n == 1))
        }
        name => {
            let structure = registry.structure(name);
            BY_PARTS.contains(&name)
                || structure == Structure::Convert
                || registry.expression(op).is_some()
        }
    }
}

/// The dimensions of a part of a value of this shape.
fn local(shape: &[u64], sharding: &Sharding) -> Vec<u64> {
    let dims = shape.iter().enumerate();
    dims.map(|(dim, &n)| sharding.local(dim, n)).collect()
}

/// The dimensions of a part of a value that is reshaped from one shape to another; `None` if a digit that is split is cut
/// unevenly.
fn regrouped(from: &[u64], sharding: &Sharding, to: &[u64]) -> Option<Vec<u64>> {
    let below = |dim: usize| -> u64 { from[dim + 1..].iter().product() };
    let mut extents = to.to_vec();
    for (_, piece) in sharding.pieces() {
        let flat = |n: u64| n * below(piece.dim);
        let (low, high) = (flat(piece.stride), flat(piece.high()));
        let mut stride = 1;
        for (extent, &n) in extents.iter_mut().zip(to).rev() {
            let (a, b) = (low.max(stride), high.min(stride * n));
            if a < b {
                let parts = b / a;
                let even = b.is_multiple_of(a) && extent.is_multiple_of(parts);
                even.then(|| *extent /= parts)?;
            }
            stride *= n;
        }
    }
    Some(extents)
}
