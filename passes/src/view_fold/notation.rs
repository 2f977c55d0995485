//! Notations of chosen layouts in types.

use optc_layout::{Layout, Mode, Notation, NotationKind};
use optc_target::{Style, Target};

/// The notation of a layout in the target's style.
pub(crate) fn spell(layout: &Layout, target: &Target) -> Notation {
    match target.style {
        Style::Order => plain(layout),
        Style::Block => block(layout, target.block).unwrap_or_else(|| plain(layout)),
    }
}

fn plain(layout: &Layout) -> Notation {
    if layout.is_row_major_order() {
        return Notation::RowMajor;
    }
    let layout = canonical(layout).unwrap_or_else(|| layout.clone());
    [NotationKind::Block, NotationKind::Digits]
        .into_iter()
        .find_map(|n| layout.convert(n).ok())
        .map_or_else(|| layout.notation().clone(), |l| l.notation().clone())
}

/// The same function, written from its modes alone, so that its origin does not matter.
fn canonical(layout: &Layout) -> Option<Layout> {
    let same = Layout::from_modes(layout.shape(), layout.elem_bits(), &layout.modes()?).ok()?;
    same.same_function(layout).then_some(same)
}

/// `block = "128C"` with an order of the grid; `None` if that is not the function.
fn block(layout: &Layout, size: u64) -> Option<Notation> {
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
    let notation = Notation::from_fields(&fields, shape.len()).ok()?;
    let candidate = Layout::new(notation, shape, layout.elem_bits()).ok()?;
    candidate
        .same_function(layout)
        .then(|| candidate.notation().clone())
}

/// The dimensions of the grid of blocks, major to minor. They stand in the order of the modes, the last dimension where
/// its outer mode is, and dimensions of extent 1 in their logical place.
fn grid_order(layout: &Layout, last: usize) -> Option<Vec<i64>> {
    let modes: Vec<Mode> = layout.modes()?;
    let inner = modes.last()?;
    if inner.dim != last || inner.div != 1 {
        return None;
    }
    let mut order: Vec<usize> = Vec::new();
    for mode in &modes {
        if order.contains(&mode.dim) {
            continue;
        }
        let outer_of_last = mode.dim == last && modes.iter().filter(|p| p.dim == last).count() > 1;
        if mode.dim != last || outer_of_last {
            order.push(mode.dim);
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
