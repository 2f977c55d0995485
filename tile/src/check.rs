//! What must hold of a plan.

use crate::plan::{GROUPS, OpTile, Order, Plan};
use crate::region::Tiling;
use crate::span::{Span, Tile};
use crate::sum::Sum;
use crate::units::units;
use optc_ir::diag::Diagnostic;
use optc_ir::module::Value;
use optc_ir::module::{Func, Op};
use optc_ir::op::Registry;
use optc_ir::op::access_of;
use optc_ir::types::TensorType;
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
    let running = Running::of(func, registry, &plan);
    let most = most_elements(func);
    for &op in &func.body {
        if let Err(diag) = running.check(func, registry, &plan, op) {
            diags.push(diag.at(func.ops[op].span, "this operation"));
            continue;
        }
        let Some(tile) = plan.tiles.get(&op) else {
            continue;
        };
        let grid = plan.groups[tile.group].grid();
        let checked = check_tile(func, op, tile, &grid, most)
            .and_then(|()| check_loops(func, registry, op, tile, &plan, &mut made));
        if let Err(diag) = checked {
            diags.push(diag.at(func.ops[op].span, "this operation"));
        }
    }
    if let Err(cycle) = units(func, Some(&plan), registry) {
        let hint = "leave out an operation that needs what is computed outside of the group";
        let diag = Diagnostic::error("tile-cycle", cycle.to_string()).hint(hint);
        diags.push(diag.at(func.ops[cycle.op].span, "its first operation"));
    }
    if diags.is_empty() { Ok(()) } else { Err(diags) }
}

/// The values that are right up to a factor at every step of a part of their axis: the part, and the
/// dimension.
struct Running<'p> {
    values: BTreeMap<Value, (usize, &'p Span, usize)>,
}

impl<'p> Running<'p> {
    fn of(func: &Func, registry: &Registry, plan: &'p Plan) -> Running<'p> {
        let mut values = BTreeMap::new();
        for (&op, tile) in plan.tiles.iter().filter(|(_, t)| !t.reduce.is_empty()) {
            let data = &func.ops[op];
            let access = access_of(registry.get(&data.name), &func.op_ref(op));
            let (Some(dim), Some((_, size))) = (access.running_dim(), access.running()) else {
                continue;
            };
            let whole = tile.reduce[0].is_whole(size);
            if let Some(&value) = data.results.first().filter(|_| !whole) {
                values.insert(value, (tile.group, &tile.reduce[0], dim));
            }
        }
        Running { values }
    }

    /// Every use of such a value adds up over the same part of its axis, in the same group.
    fn check(
        &self,
        func: &Func,
        registry: &Registry,
        plan: &Plan,
        op: Op,
    ) -> Result<(), Diagnostic> {
        if self.values.is_empty() {
            return Ok(());
        }
        let data = &func.ops[op];
        let refuse = |what: String| {
            let hint = "what reads it adds up over the same part of its axis, in the same group";
            Err(Diagnostic::error("tile-running", what).hint(hint))
        };
        for value in data.results.iter().filter(|v| self.values.contains_key(v)) {
            if func.results.contains(value) {
                let span = self.values[value].1;
                return refuse(format!(
                    "{} runs on along `{span}`, and the function returns it",
                    data.name
                ));
            }
        }
        let runs = data.results.iter().any(|v| self.values.contains_key(v));
        let reads = data.operands.iter().any(|v| self.values.contains_key(v));
        if (runs || reads) && plan.tiles.get(&op).is_some_and(|t| 1 < t.count()) {
            return refuse(format!("{} has several parts, wanted one", data.name));
        }
        for (i, operand) in data.operands.iter().enumerate() {
            let Some(&(group, span, dim)) = self.values.get(operand) else {
                continue;
            };
            let access = access_of(registry.get(&data.name), &func.op_ref(op));
            let tile = plan.tiles.get(&op).filter(|t| t.group == group);
            let which = access.reduction_along(i, dim);
            let part = tile.and_then(|t| t.reduce.get(which?));
            let once = data.operands.iter().filter(|v| *v == operand).count() == 1;
            if part != Some(span) || access.kept(i, dim).is_none() || !once {
                return refuse(format!(
                    "operand {i} of {} runs on along `{span}` of dimension {dim}, and it does not add up over that",
                    data.name
                ));
            }
        }
        Ok(())
    }
}

/// What the operations so far make in their groups.
#[derive(Default)]
struct Made<'p> {
    /// The tile of the operation, which of its results it is, and the axes at whose last step alone
    /// the value is complete.
    values: BTreeMap<Value, (&'p OpTile, usize, Vec<usize>)>,
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
    let mut sums = Vec::new();
    for piece in tile.pieces() {
        sums.extend(check_piece(func, registry, op, &piece, plan, made)?);
    }
    sums.sort_unstable();
    sums.dedup();
    if let Some(tile) = plan.tiles.get(&op).filter(|t| 0 < t.count()) {
        for (r, &value) in func.ops[op].results.iter().enumerate() {
            made.values.insert(value, (tile, r, sums.clone()));
        }
    }
    Ok(())
}

/// One part of what an operation makes; the axes at whose last step alone it is complete.
fn check_piece(
    func: &Func,
    registry: &Registry,
    op: Op,
    tile: &OpTile,
    plan: &Plan,
    made: &Made<'_>,
) -> Result<Vec<usize>, Diagnostic> {
    let data = &func.ops[op];
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
    let sum = Sum::of(&tile.reduce, &grid);
    Sum::check_parts(&tile.reduce, &access.sums(), &grid)
        .map_err(|fault| Diagnostic::error("tile-sum", format!("{} {fault}", data.name)))?;
    let loose = |axis: &&usize| group.axes[**axis].order == Order::Parallel;
    if let Some(axis) = sum.axes.iter().find(loose) {
        let message = format!(
            "{} adds up along g{axis}, which is parallel, wanted arbitrary",
            data.name
        );
        return Err(Diagnostic::error("tile-order", message));
    }
    let mut waits = Vec::new();
    let inputs = sizes(&data.operands);
    for (i, (&operand, shape)) in data.operands.iter().zip(&inputs).enumerate() {
        let inside = made.values.get(&operand);
        let inside = inside.filter(|m| m.0.group == tile.group);
        if let Some(read) = tile.reads.get(i).and_then(Option::as_ref) {
            check_read(&data.name, i, read, inside.is_some(), &grid, || {
                (access.operand(i, &steps, shape, &grid).tile, shape)
            })?;
        }
        let Some((maker, result, partial)) = inside else {
            continue;
        };
        waits.extend(partial);
        let wanted = access.operand(i, &steps, shape, &grid).tile;
        if maker.holding(*result, &wanted, shape, &grid).is_none() {
            let given: Vec<String> = maker.tiles_of(*result).map(Tile::to_string).collect();
            let given = given.join(" and ");
            let message = format!(
                "{} needs {wanted} of its operand {i}, of which the group makes {given}",
                data.name
            );
            return Err(Diagnostic::error("tile-uncovered", message));
        }
    }
    let run: Vec<usize> = (0..grid.len()).collect();
    sum.check_order(&run, &waits, &grid).map_err(|fault| {
        let hint = "the axes of a sum come last in the grid, behind those of the sums that read it";
        Diagnostic::error("tile-order", format!("{} {fault}", data.name)).hint(hint)
    })?;
    let sums = sum.complete_after(&access, waits);
    let depends = |axis: &&usize| tile.results.iter().any(|t| t.depends_on(**axis));
    if let Some(axis) = sums.iter().find(depends) {
        let message = format!(
            "the tile of {} depends on g{axis}, along which it is added up",
            data.name
        );
        return Err(Diagnostic::error("tile-order", message));
    }
    Ok(sums)
}

/// The block of an operand that is fetched holds what the tile needs.
fn check_read<'a>(
    name: &str,
    operand: usize,
    read: &Tile,
    inside: bool,
    grid: &[u64],
    wanted: impl Fn() -> (Tile, &'a Vec<u64>),
) -> Result<(), Diagnostic> {
    if inside {
        let message = format!("{name} reads operand {operand}, which its group makes, from memory");
        let hint = "`read` is for values from memory; its list is empty for the others";
        return Err(Diagnostic::error("tile-uncovered", message).hint(hint));
    }
    let (wanted, shape) = wanted();
    if read.holds(&wanted, shape, grid) {
        return Ok(());
    }
    let message =
        format!("{name} needs {wanted} of its operand {operand}, of which it reads {read}");
    Err(Diagnostic::error("tile-uncovered", message))
}

fn check_tile(
    func: &Func,
    op: Op,
    tile: &OpTile,
    grid: &[u64],
    most: u64,
) -> Result<(), Diagnostic> {
    let empty = tile.results.is_empty().then(|| tile.clone());
    let mut pieces = tile.pieces().chain(empty);
    pieces.try_for_each(|piece| {
        check_spans(func, op, &piece, grid)?;
        check_elements(&func.ops[op].name, &piece, most)
    })
}

fn check_spans(func: &Func, op: Op, tile: &OpTile, grid: &[u64]) -> Result<(), Diagnostic> {
    let data = &func.ops[op];
    let spans = |t: &OpTile| -> Vec<Span> {
        let results = t.results.iter().flat_map(|t| t.0.iter());
        let reads = t.reads.iter().flatten().flat_map(|t| t.0.iter());
        results.chain(&t.reduce).chain(reads).cloned().collect()
    };
    for span in spans(tile) {
        check_span(&data.name, &span, grid)?;
    }
    for (i, (read, &value)) in tile.reads.iter().zip(&data.operands).enumerate() {
        let rank = func.ty(value).as_tensor().map_or(0, TensorType::rank);
        if let Some(read) = read
            && read.0.len() != rank
        {
            let message = format!(
                "operand {i} of {} is read in blocks {read} of {} spans, wanted {rank}, one a dimension",
                data.name,
                read.0.len()
            );
            return Err(Diagnostic::error("tile-rank", message));
        }
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

/// How many times more elements than the largest value of a function a tile may have: blocks of a power of
/// two are up to twice as long in each dimension, and windows reach around.
const MOST: u64 = 64;
/// The elements that a tile may have where all values are small.
const LEAST: u64 = 1 << 16;

/// The elements that a tile of this function may have, none clipped: what a plan asks to be held is
/// bounded by what the program has.
fn most_elements(func: &Func) -> u64 {
    let types = func.values.iter().filter_map(|(_, v)| v.ty.as_tensor());
    let elements = types.filter_map(TensorType::shape).map(|shape| {
        let sizes = shape.iter();
        sizes.fold(1u64, |all, &n| all.saturating_mul(n))
    });
    let largest = elements.max().unwrap_or(1);
    largest.saturating_mul(MOST).max(LEAST)
}

/// No tile has far more elements than the values of the function.
fn check_elements(name: &str, tile: &OpTile, most: u64) -> Result<(), Diagnostic> {
    let mut tiles = tile.results.iter().chain(tile.reads.iter().flatten());
    let Some(tile) = tiles.find(|t| most < t.elements()) else {
        return Ok(());
    };
    let message = format!(
        "the tile {tile} of {name} has {} elements, wanted at most {most}",
        tile.elements()
    );
    let hint = "an extent is the size of the dimension for all of it";
    Err(Diagnostic::error("tile-axis", message).hint(hint))
}
