//! Checks of a single tile.

use crate::codes;
use crate::plan::{GROUPS, OpTile};
use crate::span::Span;
use optc_ir::diag::Diagnostic;
use optc_ir::module::{Func, Op};
use optc_ir::types::TensorType;

/// Checks that the tiles of an operation have a span for each dimension, use only axes of the grid, and are not larger
/// than the limit.
pub(crate) fn check_tile(
    func: &Func,
    op: Op,
    tile: &OpTile,
    grid: &[u64],
    limit: &Limit,
) -> Result<(), Diagnostic> {
    let empty = tile.results.is_empty().then(|| tile.clone());
    let mut parts = tile.parts().chain(empty);
    parts.try_for_each(|part| {
        check_spans(func, op, &part, grid)?;
        limit.check(&func.ops[op].name, &part)
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
            return Err(Diagnostic::error(codes::TILE_RANK, message));
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
            return Err(Diagnostic::error(codes::TILE_RANK, message));
        }
    }
    Ok(())
}

/// Checks that the span names axes that exist and is not empty.
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
        return Err(Diagnostic::error(codes::TILE_AXIS, message).hint(hint));
    }
    if span.extent == 0 {
        let message = format!("the tile of {name} has the empty span `{span}`");
        return Err(Diagnostic::error(codes::TILE_AXIS, message).hint("an extent is at least 1"));
    }
    Ok(())
}

/// The factor by which a tile may exceed the largest value of a function. Blocks of powers of two are up to twice as
/// long in each dimension, and windows overlap.
const MOST: u64 = 64;
/// The elements that a tile may have even if all values are small.
const LEAST: u64 = 1 << 16;

/// The most elements of a tile of a function, counted before clipping. The memory that a plan needs is thus bounded by
/// the sizes of the program.
pub(crate) struct Limit {
    elements: u64,
}

impl Limit {
    pub(crate) fn of(func: &Func) -> Limit {
        let types = func.values.iter().filter_map(|(_, v)| v.ty.as_tensor());
        let elements = types.filter_map(TensorType::shape).map(|shape| {
            let sizes = shape.iter();
            sizes.fold(1u64, |all, &n| all.saturating_mul(n))
        });
        let largest = elements.max().unwrap_or(1);
        let elements = largest.saturating_mul(MOST).max(LEAST);
        Limit { elements }
    }

    /// Checks that no tile has far more elements than the values of the function.
    fn check(&self, name: &str, tile: &OpTile) -> Result<(), Diagnostic> {
        let most = self.elements;
        let mut tiles = tile.results.iter().chain(tile.reads.iter().flatten());
        let Some(tile) = tiles.find(|t| most < t.elements()) else {
            return Ok(());
        };
        let message = format!(
            "the tile {tile} of {name} has {} elements, wanted at most {most}",
            tile.elements()
        );
        let hint = "an extent is the size of the dimension for all of it";
        Err(Diagnostic::error(codes::TILE_AXIS, message).hint(hint))
    }
}
