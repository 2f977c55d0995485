//! What must hold of a plan.

use crate::diag::Diagnostic;
use crate::module::{Func, Op};
use crate::tile::plan::{GROUPS, OpTile, Plan};
use crate::tile::span::Span;
use crate::types::TensorType;

/// Checks the tiles of a function; a tile that is still to be found is none.
///
/// # Errors
/// Everything found that does not hold, of one operation the first only.
pub fn check(func: &Func) -> Result<(), Vec<Diagnostic>> {
    let Some(plan) = Plan::read(func)? else {
        return Ok(());
    };
    let mut diags = Vec::new();
    for (&op, tile) in &plan.tiles {
        let grid = plan.groups[tile.group].grid();
        if let Err(diag) = check_tile(func, op, tile, &grid) {
            diags.push(diag.at(func.ops[op].span, "this operation"));
        }
    }
    if diags.is_empty() { Ok(()) } else { Err(diags) }
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
