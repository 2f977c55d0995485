//! What must hold of a plan.

use crate::diag::Diagnostic;
use crate::module::Value;
use crate::module::{Func, Op};
use crate::op::Registry;
use crate::tile::access::access_of;
use crate::tile::plan::{GROUPS, OpTile, Order, Plan};
use crate::tile::span::{Span, Tile};
use crate::types::TensorType;
use std::collections::BTreeMap;

/// Checks the tiles of a function; a tile that is still to be found is none.
///
/// # Errors
/// Everything found that does not hold, of one operation the first only.
pub fn check(func: &Func, registry: &Registry) -> Result<(), Vec<Diagnostic>> {
    let Some(plan) = Plan::read(func)? else {
        return Ok(());
    };
    let mut diags = Vec::new();
    let mut made = Made::default();
    for &op in &func.body {
        let Some(tile) = plan.tiles.get(&op) else {
            continue;
        };
        let grid = plan.groups[tile.group].grid();
        let checked = check_tile(func, op, tile, &grid)
            .and_then(|()| check_loops(func, registry, op, tile, &plan, &mut made));
        if let Err(diag) = checked {
            diags.push(diag.at(func.ops[op].span, "this operation"));
        }
    }
    if diags.is_empty() { Ok(()) } else { Err(diags) }
}

/// What the operations so far make in their groups.
#[derive(Default)]
struct Made<'p> {
    /// The group, the tile, and the axes at whose last step alone the value is complete.
    values: BTreeMap<Value, (usize, &'p Tile, Vec<usize>)>,
}

/// The operation can make the tile, from what the others of its group make; sums are complete where
/// they are read.
fn check_loops<'p>(
    func: &Func,
    registry: &Registry,
    op: Op,
    tile: &OpTile,
    plan: &'p Plan,
    made: &mut Made<'p>,
) -> Result<(), Diagnostic> {
    let data = &func.ops[op];
    if tile.results.is_empty() {
        return Ok(());
    }
    let group = &plan.groups[tile.group];
    let grid = group.grid();
    let sizes = |values: &[Value]| -> Vec<Vec<u64>> {
        let size = |&v: &Value| func.ty(v).as_tensor().and_then(TensorType::shape);
        values.iter().map(|v| size(v).unwrap_or_default()).collect()
    };
    let shapes = sizes(&data.results);
    let shapes: Vec<&[u64]> = shapes.iter().map(Vec::as_slice).collect();
    let access = access_of(registry.get(&data.name), &func.op_ref(op));
    let steps = access
        .steps(&tile.results, &tile.reduce, &shapes, &grid)
        .map_err(|fault| Diagnostic::error("tile-cut", format!("{}: {fault}", data.name)))?;
    let mut sums = Vec::new();
    for span in &tile.reduce {
        span.start.axes(&mut |axis| sums.push(axis));
    }
    let loose = |axis: &&usize| group.axes[**axis].order == Order::Parallel;
    if let Some(axis) = sums.iter().find(loose) {
        let message = format!(
            "{} adds up along g{axis}, which is parallel, wanted arbitrary",
            data.name
        );
        return Err(Diagnostic::error("tile-order", message));
    }
    let inputs = sizes(&data.operands);
    for (i, (&operand, shape)) in data.operands.iter().zip(&inputs).enumerate() {
        let Some((from, given, partial)) = made.values.get(&operand) else {
            continue;
        };
        if *from != tile.group {
            continue;
        }
        sums.extend(partial);
        let wanted = access.operand(i, &steps, shape, &grid).tile;
        let mut spans = given.0.iter().zip(&wanted.0).zip(shape);
        if !spans.all(|((a, b), &n)| a.holds(b, n, &grid)) {
            let message = format!(
                "{} needs {wanted} of its operand {i}, of which the group makes {given}",
                data.name
            );
            return Err(Diagnostic::error("tile-uncovered", message));
        }
    }
    sums.sort_unstable();
    sums.dedup();
    let depends = |axis: &&usize| tile.results.iter().any(|t| t.depends_on(**axis));
    if let Some(axis) = sums.iter().find(depends) {
        let message = format!(
            "the tile of {} depends on g{axis}, along which it is added up",
            data.name
        );
        return Err(Diagnostic::error("tile-order", message));
    }
    if let Some(tile) = plan.tiles.get(&op) {
        for (&value, result) in data.results.iter().zip(&tile.results) {
            made.values
                .insert(value, (tile.group, result, sums.clone()));
        }
    }
    Ok(())
}

fn check_tile(func: &Func, op: Op, tile: &OpTile, grid: &[u64]) -> Result<(), Diagnostic> {
    let data = &func.ops[op];
    let spans = |t: &OpTile| -> Vec<Span> {
        let results = t.results.iter().flat_map(|t| t.0.iter());
        results.chain(&t.reduce).cloned().collect()
    };
    for span in spans(tile) {
        check_span(&data.name, &span, grid)?;
    }
    for (i, (result, &value)) in tile.results.iter().zip(&data.results).enumerate() {
        let rank = func.ty(value).as_tensor().map_or(0, TensorType::rank);
        if result.0.len() != rank {
            let message = format!(
                "result {i} of {} has a tile {result} of {} spans, wanted {rank}, one a dimension",
                data.name,
                result.0.len()
            );
            return Err(Diagnostic::error("tile-rank", message));
        }
    }
    Ok(())
}

/// The span names axes that exist and is not empty.
fn check_span(name: &str, span: &Span, grid: &[u64]) -> Result<(), Diagnostic> {
    let mut missing = None;
    span.start.axes(&mut |axis| {
        if grid.len() <= axis {
            missing = Some(axis);
        }
    });
    if let Some(axis) = missing {
        let message = format!(
            "the tile of {name} names g{axis} in `{span}`, wanted one of the {} axes of its grid",
            grid.len()
        );
        let hint = format!("`{GROUPS}` of the function lists the grids");
        return Err(Diagnostic::error("tile-axis", message).hint(hint));
    }
    if span.extent == 0 {
        let message = format!("the tile of {name} has the empty span `{span}`");
        return Err(Diagnostic::error("tile-axis", message).hint("an extent is at least 1"));
    }
    Ok(())
}
