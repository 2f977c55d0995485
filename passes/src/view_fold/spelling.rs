//! How chosen layouts are written in types.

use optc_layout::{Layout, Notation, Piece, Spelling};
use optc_target::{Style, Target};

/// The spelling of a layout in the target's style.
pub(crate) fn spell(layout: &Layout, target: &Target) -> Spelling {
    match target.style {
        Style::Order => plain(layout),
        Style::Block => block(layout, target.block).unwrap_or_else(|| plain(layout)),
    }
}

fn plain(layout: &Layout) -> Spelling {
    if layout.is_row_major_order() {
        return Spelling::RowMajor;
    }
    let layout = canonical(layout).unwrap_or_else(|| layout.clone());
    [Notation::Block, Notation::Digits]
        .into_iter()
        .find_map(|n| layout.respell(n).ok())
        .map_or_else(|| layout.spelling().clone(), |l| l.spelling().clone())
}

/// The same function spelled from its pieces alone, so that it does not matter how it came about.
fn canonical(layout: &Layout) -> Option<Layout> {
    let same = Layout::from_pieces(layout.shape(), layout.elem_bits(), &layout.pieces()?).ok()?;
    same.same_function(layout).then_some(same)
}

/// `block = "128C"` with an order of the grid, where that is the function.
fn block(layout: &Layout, size: u64) -> Option<Spelling> {
    let shape = layout.shape();
    let last = shape.len().checked_sub(1)?;
    let order = grid_order(layout, last)?;
    let letter = letter(shape.len(), last)?;
    let fields = [
        (
            "block".to_owned(),
            optc_layout::Field::Str(format!("{size}{letter}")),
        ),
        ("order".to_owned(), optc_layout::Field::Ints(order)),
    ];
    let spelling = Spelling::from_fields(&fields, shape.len()).ok()?;
    let candidate = Layout::new(spelling, shape, layout.elem_bits()).ok()?;
    candidate
        .same_function(layout)
        .then(|| candidate.spelling().clone())
}

/// The dimensions of the grid of blocks, major to minor: as the pieces come, the last dimension
/// where its outer piece is, dimensions of extent 1 in their logical place.
fn grid_order(layout: &Layout, last: usize) -> Option<Vec<i64>> {
    let pieces: Vec<Piece> = layout.pieces()?;
    let inner = pieces.last()?;
    if inner.dim != last || inner.div != 1 {
        return None;
    }
    let mut order: Vec<usize> = Vec::new();
    for piece in &pieces {
        if order.contains(&piece.dim) {
            continue;
        }
        let outer_of_last =
            piece.dim == last && pieces.iter().filter(|p| p.dim == last).count() > 1;
        if piece.dim != last || outer_of_last {
            order.push(piece.dim);
        }
    }
    if !order.contains(&last) {
        order.push(last);
    }
    for dim in 0..=last {
        if !order.contains(&dim) {
            let at = order.iter().position(|&d| dim < d).unwrap_or(order.len());
            order.insert(at, dim);
        }
    }
    order.into_iter().map(|d| i64::try_from(d).ok()).collect()
}

fn letter(rank: usize, dim: usize) -> Option<String> {
    let letters = match rank {
        1 => "W",
        2 => "HW",
        3 => "HWC",
        4 => "NHWC",
        5 => "NDHWC",
        _ => return Some(format!("d{dim}")),
    };
    letters.get(dim..=dim).map(str::to_owned)
}
