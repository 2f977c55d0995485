//! The kernel of one group and its `pallas_call`.

use super::cx::{Cx, Reason, shape_of};
use super::index::block_spec;
use super::member::{Makers, Member, Operand, members};
use super::store::written_once;
use super::words::{boxed, in_memory, tuple};
use super::writer::{Output, Writer};
use optc_ir::Value;
use optc_tile::{Order, Span, Tile};
use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write;

/// The kernel of a group.
pub(super) struct Kernel {
    /// The text of the kernel function.
    pub(super) text: String,
    /// The call; `{0}` and so on are placeholders for the inputs.
    pub(super) call: String,
    pub(super) inputs: Vec<Value>,
    pub(super) outputs: Vec<Value>,
    pub(super) helpers: BTreeSet<&'static str>,
}

/// Writes the kernel of a group and its call.
pub(super) fn kernel(cx: &Cx<'_>, number: usize, name: &str) -> Result<Kernel, Reason> {
    let group = &cx.schedule.groups[number];
    let grid = group.grid();
    let makers: Makers<'_> = group.ops.iter().map(|op| (op.op, op)).collect();
    let mut all = Vec::with_capacity(group.ops.len());
    for op in &group.ops {
        all.extend(members(cx, &grid, &makers, op)?);
    }
    Writer::new(cx, group, &all).text(name)
}

/// The lines of a kernel.
struct Stages {
    /// The lines of the first step along a set of axes.
    starts: BTreeMap<Vec<usize>, Vec<String>>,
    /// The lines of the last step along a set of axes; an empty set means every step. Each set contains the sets before
    /// it.
    stages: Vec<(BTreeSet<usize>, Vec<String>)>,
}

impl Writer<'_> {
    fn text(mut self, name: &str) -> Result<Kernel, Reason> {
        self.references();
        let outputs = self.outputs()?;
        let lines = self.stages(&outputs)?;
        let text = self.body(name, &outputs, &lines);
        let call = self.call(name, &outputs)?;
        Ok(Kernel {
            text,
            call,
            inputs: self.inputs.iter().map(|i| i.0).collect(),
            outputs: outputs.into_iter().map(|o| o.value).collect(),
            helpers: self.helpers,
        })
    }

    /// Names the blocks of values that are read from memory, each once.
    fn references(&mut self) {
        for member in self.members {
            let read = |o: &&Operand| o.local.is_none() && !o.absent;
            for operand in member.operands.iter().filter(read) {
                let key = operand.fetched();
                if !self.refs.contains_key(&key) {
                    let wanted = format!("{}_ref", (self.cx.name)(operand.value));
                    let reference = self.names.fresh(&wanted);
                    self.refs.insert(key.clone(), reference);
                    self.inputs.push(key);
                }
            }
        }
    }

    /// The live-outs of the group. Each block of them must be written by consecutive programs.
    fn outputs(&mut self) -> Result<Vec<Output>, Reason> {
        let cx = self.cx;
        let mut outputs: Vec<Output> = Vec::new();
        for member in self.members {
            let results = cx.func.ops[member.schedule.op].results.iter();
            let results = results.zip(&member.part.results).zip(&member.part.outside);
            for ((&value, tile), _) in results.filter(|(_, outside)| !**outside) {
                if !cx.schedule.is_live_out(value) {
                    continue;
                }
                match outputs.iter_mut().find(|o| o.value == value) {
                    Some(known) => known.tile = None,
                    None => outputs.push(Output {
                        value,
                        tile: Some(tile.clone()),
                        name: self.names.fresh(&format!("{}_out", (cx.name)(value))),
                    }),
                }
            }
        }
        for Output { value, tile, .. } in &outputs {
            if let Some(tile) = tile {
                written_once(self.group, tile)
                    .map_err(|why| format!("{}: {why}", (cx.name)(*value)))?;
            }
        }
        Ok(outputs)
    }

    /// The lines of each operation, under the last step of their completion axes.
    fn stages(&mut self, outputs: &[Output]) -> Result<Stages, Reason> {
        let cx = self.cx;
        let mut starts: BTreeMap<Vec<usize>, Vec<String>> = BTreeMap::new();
        let mut stages: BTreeMap<BTreeSet<usize>, Vec<String>> = BTreeMap::new();
        stages.insert(BTreeSet::new(), Vec::new());
        for member in self.members {
            let schedule = member.schedule;
            let name = &cx.func.ops[schedule.op].name;
            let before: BTreeSet<usize> = schedule.starts_after.iter().copied().collect();
            let after: BTreeSet<usize> = schedule.completes_after.iter().copied().collect();
            let [start, each, last] = self
                .operation(member)
                .map_err(|why| format!("{name}: {why}"))?;
            if !start.is_empty() {
                let first = starts.entry(schedule.sequential.clone()).or_default();
                first.extend(start);
            }
            stages.entry(before).or_default().extend(each);
            let stage = stages.entry(after).or_default();
            stage.extend(last);
            stage.extend(self.written(member, outputs)?);
        }
        let mut stages: Vec<(BTreeSet<usize>, Vec<String>)> = stages.into_iter().collect();
        stages.sort_by_key(|(axes, _)| axes.len());
        if !stages.is_sorted_by(|(a, _), (b, _)| a.is_subset(b)) {
            return Err("its reductions run over axes that are not nested".to_owned());
        }
        Ok(Stages { starts, stages })
    }

    /// The first, the repeated and the last step of an operation.
    fn operation(&mut self, member: &Member<'_>) -> Result<[Vec<String>; 3], Reason> {
        if let Some(axis) = member.schedule.online {
            let [start, each] = self.online(member, axis)?;
            return Ok([start, each, Vec::new()]);
        }
        if member.schedule.sequential.is_empty() {
            return Ok([Vec::new(), self.lines(member)?, Vec::new()]);
        }
        let lines = self.reduction(member)?;
        Ok(lines.map(|line| vec![line]))
    }

    /// Stores the live-outs of an operation.
    fn written(&mut self, member: &Member<'_>, outputs: &[Output]) -> Result<Vec<String>, Reason> {
        let mut lines = Vec::new();
        let results = self.cx.func.ops[member.schedule.op].results.iter();
        let results = results.zip(&member.part.results).zip(&member.part.outside);
        for ((value, part), _) in results.filter(|(_, outside)| !**outside) {
            let Some(output) = outputs.iter().find(|o| o.value == *value) else {
                continue;
            };
            let mut text = self.local[&(*value, member.number)].clone();
            let element = self.cx.tensor(*value)?.dtype;
            if element.is_bool() {
                text = format!("({text}).astype({})", in_memory(element));
            }
            match &output.tile {
                None => lines.extend(self.stores(output, part, &text)?),
                Some(tile) if tile.0.is_empty() => {
                    // Vector memory takes no scalars.
                    let one = format!("jnp.broadcast_to({text}, (1, 1))");
                    lines.push(format!("{}[...] = {one}", output.name));
                }
                Some(tile) if tile.0.len() == 1 => {
                    lines.push(format!("{}[0, :] = {text}", output.name));
                }
                Some(_) => lines.push(format!("{}[...] = {text}", output.name)),
            }
        }
        Ok(lines)
    }

    /// The kernel function. The stages are nested, so that later stages see the values of earlier ones.
    fn body(&self, name: &str, outputs: &[Output], lines: &Stages) -> String {
        let Stages { starts, stages } = lines;
        let grid = self.group.grid();
        let mut params: Vec<String> = self.inputs.iter().map(|k| self.refs[k].clone()).collect();
        params.extend(outputs.iter().map(|o| o.name.clone()));
        params.extend(self.scratch.iter().map(|s| s.0.clone()));
        let mut text = format!("def {name}({}):\n", params.join(", "));
        let programs = self.programs.iter().chain(starts.keys().flatten());
        let programs = programs.chain(stages.iter().flat_map(|s| &s.0));
        for axis in programs.collect::<BTreeSet<_>>() {
            let _ = writeln!(text, "    g{axis} = pl.program_id({axis})");
        }
        let at = |axes: &[usize], end: &dyn Fn(usize) -> u64| {
            let parts = axes.iter().map(|&a| format!("g{a} == {}", end(a)));
            match parts.collect::<Vec<_>>().as_slice() {
                [one] => one.clone(),
                all => format!("({})", all.join(") & (")),
            }
        };
        for (axes, lines) in starts {
            block(&mut text, 1, &at(axes, &|_| 0), "first");
            write_lines(&mut text, 2, lines);
            text.push('\n');
        }
        let mut known: &BTreeSet<usize> = &BTreeSet::new();
        for (depth, (axes, lines)) in stages.iter().enumerate() {
            let more: Vec<usize> = axes.difference(known).copied().collect();
            if !more.is_empty() {
                block(&mut text, depth, &at(&more, &|a| grid[a] - 1), "last");
            }
            write_lines(&mut text, depth + 1, lines);
            known = axes;
        }
        if 1 < stages.len() {
            text.push('\n');
        }
        text
    }

    fn call(&self, name: &str, outputs: &[Output]) -> Result<String, Reason> {
        let cx = self.cx;
        let grid = self.group.grid();
        // A single program gets an axis too: a TPU accepts no blocks without a grid.
        let shown: &[u64] = if grid.is_empty() { &[1] } else { &grid };
        let spec = |value: Value, tile: &Tile| -> Result<String, Reason> {
            // Blocks have two dimensions at least.
            let units = 2usize.saturating_sub(tile.0.len());
            let tile = Tile([vec![Span::whole(1); units], tile.0.clone()].concat());
            Ok(block_spec(&boxed(&cx.shape(value)?), &tile, shown))
        };
        let mut text = format!(
            "pl.pallas_call(\n        {name},\n        grid={},\n",
            tuple(shown)
        );
        text.push_str("        in_specs=[\n");
        for (value, tile) in &self.inputs {
            let _ = writeln!(text, "            {},", spec(*value, tile)?);
        }
        text.push_str("        ],\n        out_specs=[\n");
        for Output { value, tile, .. } in outputs {
            let spec = match tile {
                Some(tile) => spec(*value, tile)?,
                None => "pl.BlockSpec(memory_space=pl.ANY)".to_owned(),
            };
            let _ = writeln!(text, "            {spec},");
        }
        text.push_str("        ],\n        out_shape=[\n");
        for Output { value, .. } in outputs {
            let ty = cx.tensor(*value)?;
            let (shape, dtype) = (tuple(boxed(&shape_of(ty)?)), in_memory(ty.dtype));
            let _ = writeln!(text, "            jax.ShapeDtypeStruct({shape}, {dtype}),");
        }
        text.push_str("        ],\n");
        if !self.scratch.is_empty() {
            let all: Vec<&str> = self.scratch.iter().map(|s| s.1.as_str()).collect();
            let _ = writeln!(text, "        scratch_shapes=[{}],", all.join(", "));
        }
        let order = self.group.axes.iter().map(|a| match a.order {
            Order::Parallel => "\"parallel\"",
            Order::Arbitrary => "\"arbitrary\"",
        });
        let mut order: Vec<&str> = order.collect();
        order.resize(shown.len(), "\"arbitrary\"");
        let limit = cx.memory.map(|bytes| format!(", vmem_limit_bytes={bytes}"));
        let _ = writeln!(
            text,
            "        compiler_params=pltpu.CompilerParams(dimension_semantics={}{}),",
            tuple(order),
            limit.unwrap_or_default()
        );
        text.push_str("        interpret=interpret,\n    )");
        Ok(text)
    }
}

/// The header of a block of lines under a condition.
fn block(text: &mut String, depth: usize, condition: &str, name: &str) {
    let indent = "    ".repeat(depth);
    let _ = write!(
        text,
        "\n{indent}@pl.when({condition})\n{indent}def _{name}():\n"
    );
}

fn write_lines(text: &mut String, depth: usize, lines: &[String]) {
    let indent = "    ".repeat(depth);
    for line in lines {
        let _ = writeln!(text, "{indent}{line}");
    }
}
