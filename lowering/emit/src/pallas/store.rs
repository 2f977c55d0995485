//! Stores of a group's results: one block for each program, or copies of parts to their positions.

use super::cx::{Reason, shape_of};
use super::words::{boxed, in_memory, tuple};
use super::writer::{Output, Writer};
use optc_tile::block::{Grid, check_revisits};
use optc_tile::{GroupSchedule, Order, Span, Tile};
use std::collections::BTreeSet;

/// The largest number of programs whose blocks are checked one by one.
const MAX_PROGRAMS: u64 = 1 << 16;

/// Checks that every block of an output is written by consecutive programs only.
pub(super) fn written_once(group: &GroupSchedule, tile: &Tile) -> Result<(), Reason> {
    if MAX_PROGRAMS < group.programs() {
        return Ok(());
    }
    let extents = group.axes.iter().map(|a| a.extent.cast_signed());
    let grid = Grid::new(extents.collect()).map_err(|e| e.to_string())?;
    let orders: Vec<Order> = group.axes.iter().map(|a| a.order).collect();
    let block = |program: &[i64]| tile.0.iter().map(|s| s.start.eval(program)).collect();
    check_revisits(&grid, &orders, block).map_err(|e| e.to_string())
}

/// One way in which a span is clipped at the ends of a dimension.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
struct Clip {
    /// The number of elements cut off at the front, and the number of remaining elements.
    low: u64,
    count: u64,
    /// The start of the span, if something is cut off.
    start: Option<i64>,
}

/// The largest number of ways in which a part may be clipped.
const MAX_CLIPS: usize = 16;

/// The ways in which programs clip a span.
fn clips(span: &Span, size: u64, grid: &[u64]) -> Result<Vec<Clip>, Reason> {
    let mut axes = Vec::new();
    span.start.axes(&mut |axis| axes.push(axis));
    axes.sort_unstable();
    axes.dedup();
    let steps = axes.iter().map(|&a| grid[a]);
    let steps = steps.fold(1u64, u64::saturating_mul);
    if MAX_PROGRAMS < steps {
        return Err("a part of its output starts in too many places".to_owned());
    }
    let mut found = BTreeSet::new();
    let mut index = vec![0i64; grid.len()];
    for n in 0..steps {
        let mut rest = n;
        for &a in &axes {
            index[a] = (rest % grid[a]).cast_signed();
            rest /= grid[a];
        }
        let start = span.start.eval(&index);
        let part = span.clipped(&index, size);
        let count = part.end - part.start;
        let low = if count == 0 {
            0
        } else {
            part.start.cast_signed() - start
        };
        let start = (count < span.extent && 0 < count).then_some(start);
        let low = low.unsigned_abs();
        found.insert(Clip { low, count, start });
    }
    Ok(found.into_iter().collect())
}

impl Writer<'_> {
    /// Copies a part of an output to its position, with one copy for each way in which it is clipped at the ends of the
    /// value.
    ///
    /// One loop over the dimensions multiplies the cases. Each case has the condition, the range that is copied and the
    /// destination, so that these three stay consistent.
    pub(super) fn stores(
        &mut self,
        output: &Output,
        tile: &Tile,
        text: &str,
    ) -> Result<Vec<String>, Reason> {
        let grid = self.group.grid();
        let ty = self.cx.tensor(output.value)?;
        let shape = shape_of(ty)?;
        let extents: Vec<u64> = tile.0.iter().map(|s| s.extent).collect();
        // A part has two dimensions at least, as the output has.
        let units = vec!["0".to_owned(); 2usize.saturating_sub(extents.len())];
        let index = [&units[..], &vec![":".to_owned(); extents.len()]].concat();
        let extents = tuple(boxed(&extents));
        let held = format!("pltpu.VMEM({extents}, {})", in_memory(ty.dtype));
        let part = self.names.fresh(&format!("{}_part", output.name));
        self.scratch.push((part.clone(), held));
        let mut copies: Vec<(Vec<String>, Vec<String>, Vec<String>)> =
            vec![(Vec::new(), units.clone(), units)];
        for (span, &size) in tile.0.iter().zip(&shape) {
            let start = self.python(&span.start);
            let cases = clips(span, size, &grid)?;
            let one = cases.len() == 1;
            let mut all = Vec::with_capacity(copies.len() * cases.len());
            for (conditions, from, to) in &copies {
                for clip in cases.iter().filter(|clip| 0 < clip.count) {
                    let (mut conditions, mut from, mut to) =
                        (conditions.clone(), from.clone(), to.clone());
                    match clip.start {
                        _ if one => {}
                        Some(at) => conditions.push(format!("{start} == {at}")),
                        None => {
                            let last = size.cast_signed() - span.extent.cast_signed();
                            conditions.push(format!("0 <= {start}"));
                            conditions.push(format!("{start} <= {last}"));
                        }
                    }
                    let whole = clip.low == 0 && clip.count == span.extent;
                    from.push(match whole {
                        true => ":".to_owned(),
                        false => format!("{}:{}", clip.low, clip.low + clip.count),
                    });
                    to.push(match clip.count == size {
                        true => ":".to_owned(),
                        false => {
                            let first = span.start.offset(clip.low.cast_signed());
                            format!("pl.ds({}, {})", self.python(&first), clip.count)
                        }
                    });
                    all.push((conditions, from, to));
                }
            }
            copies = all;
            if MAX_CLIPS < copies.len() {
                return Err("a part of its output is clipped in too many ways".to_owned());
            }
        }
        let mut lines = vec![format!("{part}[{}] = {text}", index.join(", "))];
        for (conditions, from, to) in copies {
            let (from, to) = (from.join(", "), to.join(", "));
            let copy = format!(
                "pltpu.sync_copy({part}.at[{from}], {}.at[{to}])",
                output.name
            );
            if conditions.is_empty() {
                lines.push(copy);
            } else {
                let all = match conditions.as_slice() {
                    [one] => one.clone(),
                    all => format!("({})", all.join(") & (")),
                };
                lines.push(format!("@pl.when({all})"));
                lines.push("def _store():".to_owned());
                lines.push(format!("    {copy}"));
            }
        }
        Ok(lines)
    }
}
