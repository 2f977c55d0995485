//! The parts of larger values that operations take where values lie in tiles.
//!
//! Example: of rows of 128 lanes in tiles of 8, a product that takes whole tiles reads rows 8 to 15 in place, and rows 4
//! to 11 from a copy. An operation that takes any part reads both in place.

use optc_layout::{Layout, Notation, Stride, TileDim};
use optc_target::{Parts, Row, Target, When};

/// Checks that operations of a row take a part of this layout with this offset and these digits.
///
/// # Errors
/// They do not; the text says why.
pub(super) fn takes(
    (row, parts): (&Row, Parts),
    layout: &Layout,
    target: &Target,
    (offset, digits): (i64, &[Stride]),
) -> Result<(), String> {
    let together = |n: u64| {
        let mut inner = digits.iter().filter(|s| s.compact < n);
        inner.all(|s| i64::try_from(s.compact) == Ok(s.stride))
    };
    if parts != Parts::Tiles {
        let tiled = row.taken().filter(|a| a.when != Some(When::Untiled));
        let run = tiled.filter_map(|a| a.run).max().unwrap_or(1);
        return match together(run) {
            true => Ok(()),
            false => Err(format!(
                "its innermost {run} elements are not together there"
            )),
        };
    }
    let tile = tile_of(layout, target);
    let between = |at: i64| i64::try_from(tile).is_ok_and(|tile| at % tile == 0);
    let mut outer = digits.iter().filter(|s| tile <= s.compact);
    match together(tile) && between(offset) && outer.all(|s| between(s.stride)) {
        true => Ok(()),
        false => Err(format!(
            "it does not consist of whole tiles of {tile} elements there"
        )),
    }
}

/// The number of positions in the tile of a layout: of the one that its text states if the target has such tiles, or of
/// a whole tile of the target.
fn tile_of(layout: &Layout, target: &Target) -> u64 {
    let positions = |tile: &[u64]| tile.iter().fold(1u64, |n, &size| n.saturating_mul(size));
    let whole = target.full_tiles(layout.elem_bits());
    let Some((full, inner)) = whole.split_first() else {
        return 1;
    };
    let lanes = full.last().copied().unwrap_or(1);
    let Notation::Xla(xla) = layout.notation() else {
        return positions(full);
    };
    let size = |dim: &TileDim| match dim {
        TileDim::Size(n) => *n,
        TileDim::Combined => 0,
    };
    let all = xla.tiles().iter();
    let tiles: Vec<Vec<u64>> = all.map(|tile| tile.iter().map(size).collect()).collect();
    let is_own = |tile: &[u64], rest: &[Vec<u64>]| match *tile {
        [length] => 0 < length && length.is_multiple_of(lanes),
        [rows, last] => 0 < rows && last == lanes && rest == inner,
        _ => false,
    };
    match tiles.split_first() {
        Some((tile, rest)) if is_own(tile, rest) => positions(tile),
        _ => positions(full),
    }
}
