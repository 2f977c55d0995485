//! Tiles as block specs.

use super::words::tuple;
use optc_tile::{Expr, Span, Tile};

/// An expression over the grid indices, in Python. Divisors are typed: with 64-bit types, JAX takes a plain number for
/// 64 bits there, which a kernel has not.
pub(super) fn python(expr: &Expr) -> String {
    let text = expr.to_string();
    let mut words = text.split(' ');
    let mut out: Vec<String> = Vec::new();
    while let Some(word) = words.next() {
        let sign = match word {
            "floordiv" => "//",
            "mod" => "%",
            _ => {
                out.push(word.to_owned());
                continue;
            }
        };
        let divisor = words.next().unwrap_or_default();
        let (number, rest) = divisor.split_at(divisor.find(')').unwrap_or(divisor.len()));
        out.push(format!("{sign} np.int32({number}){rest}"));
    }
    out.join(" ")
}

/// The block index of a span, if the span is a block in every program.
fn block_of(span: &Span, grid: &[u64]) -> Option<Expr> {
    let extent = i64::try_from(span.extent).ok()?;
    let (step, least) = span.start.steps();
    let whole = step % extent == 0 && least % extent == 0;
    whole.then(|| span.start.floordiv(extent, grid))
}

/// The spec of an array of this shape, cut into these tiles. If a tile is no block in some dimension, all dimensions
/// use element offsets, as a TPU requires.
pub(super) fn block_spec(shape: &[u64], tile: &Tile, grid: &[u64]) -> String {
    let axes: Vec<String> = (0..grid.len()).map(|a| format!("g{a}")).collect();
    let lambda = if axes.is_empty() {
        "lambda:".to_owned()
    } else {
        format!("lambda {}:", axes.join(", "))
    };
    let blocks: Option<Vec<Expr>> = tile.0.iter().map(|s| block_of(s, grid)).collect();
    let (sizes, index): (Vec<String>, Vec<String>) = match blocks {
        Some(blocks) => {
            let sizes = tile.0.iter().map(|s| s.extent.to_string());
            (sizes.collect(), blocks.iter().map(python).collect())
        }
        None => {
            let spans = tile.0.iter().zip(shape);
            spans.map(|(span, &size)| element(span, size, grid)).unzip()
        }
    };
    format!("pl.BlockSpec({}, {lambda} {})", tuple(sizes), tuple(index))
}

/// The spec of a dimension by element offset: its extent, with padding as far as the tile exceeds the array, and the
/// offset in the padded array.
fn element(span: &Span, size: u64, grid: &[u64]) -> (String, String) {
    let (low, high) = span.start.range(grid);
    let before = low.min(0).unsigned_abs();
    let end = high.saturating_add(span.extent.cast_signed());
    let behind = end.saturating_sub(size.cast_signed()).max(0);
    let extent = span.extent;
    let mode = if before == 0 && behind == 0 {
        format!("pl.Element({extent})")
    } else {
        format!("pl.Element({extent}, ({before}, {behind}))")
    };
    (mode, python(&span.start.offset(before.cast_signed())))
}
