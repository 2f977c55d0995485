//! State that is kept across programs: partial results, and the running state of online computations.

use super::cx::Reason;
use super::member::Member;
use super::words::{Names, dtype, tuple, wide};
use super::writer::{Online, Writer};
use optc_ir::{DType, Partial};
use optc_ops::Conv;
use optc_tile::{Rescale, Span, Tile};

impl Writer<'_> {
    /// The first step and the repeated step of a softmax whose axis is cut.
    pub(super) fn online(
        &mut self,
        member: &Member<'_>,
        axis: usize,
    ) -> Result<[Vec<String>; 2], Reason> {
        let cx = self.cx;
        let value = cx.func.ops[member.schedule.op].results[0];
        let dtype = dtype(cx.tensor(value)?.dtype);
        let base = (cx.name)(value);
        let rows = rows_of(&member.part.results[0], axis);
        let extents: Vec<u64> = rows.0.iter().map(|s| s.extent).collect();
        let mut memory = |names: &mut Names, what: &str| {
            let name = names.fresh(&format!("{base}_{what}"));
            let held = format!("pltpu.VMEM({}, jnp.float32)", tuple(&extents));
            self.scratch.push((name.clone(), held));
            name
        };
        let (top, sum) = (
            memory(&mut self.names, "max"),
            memory(&mut self.names, "sum"),
        );
        let mut fresh = |what: &str| self.names.fresh(&format!("{base}_{what}"));
        let (x, now, shift, factor) = (fresh("in"), fresh("now"), fresh("shift"), fresh("factor"));
        let result = self.names.fresh(&base);
        let arg = self.argument(&member.operands[0])?;
        let shape = tuple(&extents);
        let first = vec![
            format!("{top}[...] = jnp.full({shape}, -jnp.inf, jnp.float32)"),
            format!("{sum}[...] = jnp.zeros({shape}, jnp.float32)"),
        ];
        let exp = format!("jnp.exp({x} - {shift})");
        let narrow = if dtype == "jnp.float32" {
            String::new()
        } else {
            format!(".astype({dtype})")
        };
        let lines = vec![
            format!("{x} = ({arg}).astype(jnp.float32)"),
            format!("{now} = jnp.maximum({top}[...], jnp.max({x}, axis={axis}, keepdims=True))"),
            format!("{shift} = jnp.where({now} == -jnp.inf, 0, {now})"),
            format!("{factor} = jnp.exp({top}[...] - {shift})"),
            format!("{result} = {exp}"),
            format!(
                "{sum}[...] = {sum}[...] * {factor} + jnp.sum({result}, axis={axis}, keepdims=True)"
            ),
            format!("{top}[...] = {now}"),
        ];
        let name = format!("{result}{narrow}");
        self.local.insert((value, member.number), name);
        let online = Online {
            factor,
            sum,
            rows,
            axis,
        };
        self.online.insert(value, online);
        Ok([first, lines])
    }

    /// A running number per row of an online operand, broadcast to the rows of the accumulating result.
    fn rows(
        &mut self,
        member: &Member<'_>,
        of: &Rescale,
        name: impl Fn(&Online) -> String,
    ) -> Result<String, Reason> {
        let Rescale { op, kept } = of;
        let value = self.cx.func.ops[*op].results[0];
        let online = self.online.get(&value);
        let online =
            online.ok_or("it reads a value that is computed only at the last step of a sum")?;
        let result = &member.part.results[0].0;
        let span = |(d, at): (usize, &Option<usize>)| match *at {
            Some(at) if d != online.axis => result[at].clone(),
            _ => Span::whole(1),
        };
        let read = Tile(kept.iter().enumerate().map(span).collect());
        let mut sizes = self.cx.shape(value)?;
        sizes[online.axis] = 1;
        let (have, text) = (online.rows.clone(), name(online));
        let mut text = self.part(&text, [&have, &read], (sizes, DType::F32))?;
        let rows: Vec<u64> = read.0.iter().map(|s| s.extent).collect();
        let mut ends: Vec<usize> = (0..kept.len()).filter(|&d| kept[d].is_some()).collect();
        ends.sort_by_key(|&d| kept[d]);
        let rest: Vec<usize> = (0..kept.len()).filter(|&d| kept[d].is_none()).collect();
        let mut shape = vec![1; result.len()];
        for (d, at) in kept.iter().enumerate() {
            if let Some(at) = at {
                shape[*at] = rows[d];
            }
        }
        ends.extend(rest);
        if !ends.is_sorted() && ends.iter().filter(|&&d| rows[d] != 1).count() > 1 {
            text = format!("jnp.transpose({text}, {})", tuple(&ends));
        }
        if shape != rows {
            text = format!("{text}.reshape{}", tuple(&shape));
        }
        Ok(text)
    }

    /// The first, the repeated and the last step of a reduction that is cut.
    pub(super) fn reduction(&mut self, member: &Member) -> Result<[String; 3], Reason> {
        let cx = self.cx;
        let data = &cx.func.ops[member.schedule.op];
        let ([value], Some(combine)) = (&data.results[..], member.schedule.combine) else {
            return Err("its reduction cannot be cut".to_owned());
        };
        let ty = cx.tensor(*value)?.clone();
        let held = wide(ty.dtype);
        let extents: Vec<u64> = member.part.results[0].0.iter().map(|s| s.extent).collect();
        let name = self.names.fresh(&format!("{}_sum", (cx.name)(*value)));
        let memory = format!("pltpu.VMEM({}, {})", tuple(&extents), dtype(held));
        self.scratch.push((name.clone(), memory));
        let args = self.arguments(member, &member.schedule.epilogue)?;
        let part = self
            .expressions(member, &args, Some(held))?
            .pop()
            .ok_or("it has no result")?;
        let start = match combine {
            Partial::Add => "0",
            Partial::Multiply => "1",
            Partial::Max => "-jnp.inf",
            Partial::Min => "jnp.inf",
            Partial::Mean => return Err("its reduction cannot be cut".to_owned()),
        };
        let start = format!(
            "{name}[...] = jnp.full({}, {start}, {})",
            tuple(&extents),
            dtype(held)
        );
        let mut scaled = format!("{name}[...]");
        let mut whole = scaled.clone();
        for of in &member.schedule.rescales {
            let factor = self.rows(member, of, |r| r.factor.clone())?;
            let sum = self.rows(member, of, |r| format!("{}[...]", r.sum))?;
            scaled = format!("{scaled} * {factor}");
            whole = format!("{whole} / {sum}");
        }
        let each = match combine {
            Partial::Add if !member.schedule.rescales.is_empty() => {
                format!("{name}[...] = {scaled} + {part}")
            }
            Partial::Add | Partial::Mean => format!("{name}[...] += {part}"),
            Partial::Multiply => format!("{name}[...] *= {part}"),
            Partial::Max => format!("{name}[...] = jnp.maximum({name}[...], {part})"),
            Partial::Min => format!("{name}[...] = jnp.minimum({name}[...], {part})"),
        };
        for &i in &member.schedule.epilogue {
            let bias = self.argument(&member.operands[i])?;
            whole = match cx.typed::<Conv>(member.schedule.op) {
                Some(_) => {
                    self.helpers.insert("_column");
                    format!("{whole} + _column({bias}, {})", extents.len() - 2)
                }
                None => format!("{whole} + {bias}"),
            };
        }
        if held != ty.dtype {
            whole = format!("({whole}).astype({})", dtype(ty.dtype));
        }
        let result = self.names.fresh(&(cx.name)(*value));
        let last = format!("{result} = {whole}");
        self.local.insert((*value, member.number), result);
        Ok([start, each, last])
    }
}

/// The tile that holds one number for each row along an axis of a tile.
fn rows_of(tile: &Tile, axis: usize) -> Tile {
    let mut rows = tile.clone();
    rows.0[axis] = Span::whole(1);
    rows
}
