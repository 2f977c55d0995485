//! The tile of a value, read from the elements in it.

use optc_ir::TensorType;
use optc_layout::{Layout, Notation, NotationKind, TileDim, XlaNotation};
use optc_target::Target;

/// The number of tiles whose corners are compared.
pub(super) const CORNERS: u64 = 256;

/// The elements in the tile of one port.
#[derive(Clone, Default)]
pub(super) struct Port {
    /// The layout, on a machine that also has values without tiles; it is read directly.
    pub(super) line: Option<Layout>,
    /// Dimensions that fill the lanes, and the rows, ordered by how fast they change.
    pub(super) places: [Vec<usize>; 2],
    /// The elements in the lanes, and in the rows, of the first tile.
    pub(super) elements: [Vec<Vec<u64>>; 2],
    /// The rows for each smaller number of rows, if no text fixes the number.
    pub(super) fewer: Vec<Vec<Vec<u64>>>,
    /// The elements at the corners of the first tiles.
    pub(super) corners: Vec<Option<Vec<u64>>>,
    /// True if the rows number tiles as well: one tile is as wide as the value, and nothing is packed.
    pub(super) loose: bool,
    /// True if the value lies in tiles; some element widths have none.
    pub(super) tiled: bool,
    /// The sizes of the tile.
    pub(super) sizes: Vec<u64>,
}

/// The tile of a value; `None` if it lies in none.
pub(super) fn port_of(ty: &TensorType, target: &Target) -> Option<Port> {
    let layout = ty.layout()?.ok()?;
    if target.plain(layout.elem_bits()).is_some() || layout.elements() == 0 {
        return Some(Port {
            line: (layout.elements() != 0).then_some(layout),
            ..Port::default()
        });
    }
    let (tiles, certain) = tiles_of(&layout, target);
    let first = tiles.first().cloned().unwrap_or_default();
    let (rows, lanes) = match first.split_last() {
        Some((&lanes, rows)) => (rows.iter().product::<u64>(), lanes),
        None => (1, 1),
    };
    // Elements that are packed together lie along the rows.
    let pack = match tiles.get(1).map(Vec::as_slice) {
        Some(&[pack, 1]) if 2 <= first.len() => pack,
        _ => 1,
    };
    let in_row = |i: u64| (i / pack) * lanes * pack + i % pack;
    let along = |positions: Vec<u64>| -> Vec<Vec<u64>> {
        positions
            .into_iter()
            .filter_map(|p| layout.element_at(p))
            .collect()
    };
    let of_lanes = (0..lanes).map(|j| if 2 <= first.len() { j * pack } else { j });
    let mut lane_elements = along(of_lanes.collect());
    if first.len() < 2 {
        lane_elements.sort();
    }
    let row_elements = along((0..rows).map(in_row).collect());
    // The rows of a tile that no text fixes, as they are if they end earlier.
    let mut fewer = Vec::new();
    let mut n = rows;
    while !certain && pack < n {
        n /= 2;
        fewer.push(along((0..n).map(in_row).collect()));
    }
    let tile = rows.saturating_mul(lanes).max(1);
    let corners = (0..CORNERS.min(layout.positions() / tile)).map(|k| layout.element_at(k * tile));
    Some(Port {
        line: None,
        places: [changing(&lane_elements), changing(&row_elements)],
        corners: corners.collect(),
        loose: !certain || is_loose(&layout, &tiles),
        tiled: !first.is_empty(),
        sizes: first,
        elements: [lane_elements, row_elements],
        fewer,
    })
}

/// Returns whether the layout with tiles of one row is the same function.
pub(super) fn is_loose(layout: &Layout, tiles: &[Vec<u64>]) -> bool {
    let written = match layout.notation() {
        Notation::Xla(_) => None,
        _ => layout.convert(NotationKind::Xla).ok(),
    };
    let Notation::Xla(xla) = written.as_ref().unwrap_or(layout).notation() else {
        return false;
    };
    let [tile] = tiles else { return false };
    let [_, lanes] = tile.as_slice() else {
        return false;
    };
    let mut minor = xla.minor_to_major().to_vec();
    if xla.tiles().is_empty() {
        // The order of dimensions of extent 1 is arbitrary; the last place is harmless.
        minor.sort_by_key(|&d| layout.shape()[d] == 1);
    }
    let minor: Vec<String> = minor.iter().map(usize::to_string).collect();
    let text = format!("{}:T(1,{lanes})", minor.join(","));
    let Ok(notation) = XlaNotation::parse(&text, layout.rank()) else {
        return false;
    };
    let notation = Notation::Xla(notation.packed(layout.elem_bits()));
    let one = Layout::new(notation, layout.shape(), layout.elem_bits());
    one.is_ok_and(|one| one.same_function(layout))
}

/// Dimensions along which elements differ, those that change fastest last.
pub(super) fn changing(elements: &[Vec<u64>]) -> Vec<usize> {
    let rank = elements.first().map_or(0, Vec::len);
    let mut dims: Vec<(usize, usize)> = Vec::new();
    for dim in 0..rank {
        let changes = elements
            .windows(2)
            .filter(|w| w[0][dim] != w[1][dim])
            .count();
        if 0 < changes {
            dims.push((changes, dim));
        }
    }
    dims.sort_unstable();
    dims.into_iter().map(|(_, dim)| dim).collect()
}

/// The tiles of a layout, and whether they are certain. They are the tiles that its text states, as far as the target
/// has such tiles, or those of the target's format if an order without tiles is the same function. Otherwise they are
/// whole tiles of the target, filled by digits that no text of one order states.
pub(super) fn tiles_of(layout: &Layout, target: &Target) -> (Vec<Vec<u64>>, bool) {
    let whole = target.full_tiles(layout.elem_bits());
    let stated = match layout.notation() {
        Notation::Xla(xla) => sizes_of(xla),
        _ => Some(Vec::new()),
    };
    match stated {
        Some(tiles) if tiles.is_empty() => {
            if let Some(tiles) = of_order(layout, target) {
                return (tiles, true);
            }
        }
        // A text may spell digits by nested tiles that the machine does not have.
        Some(tiles) if are_of_machine(&tiles, &whole) => return (tiles, true),
        _ => {}
    }
    (whole, false)
}

/// Returns whether a machine whose whole tiles are these has the tiles that a text states.
fn are_of_machine(tiles: &[Vec<u64>], whole: &[Vec<u64>]) -> bool {
    let lanes = |tiles: &[Vec<u64>]| tiles.first().and_then(|t| t.last().copied());
    match tiles.first().map(Vec::as_slice) {
        Some(&[length]) => length.is_multiple_of(lanes(whole).unwrap_or(1)),
        Some(&[_, _]) => lanes(tiles) == lanes(whole) && tiles.get(1..) == whole.get(1..),
        _ => false,
    }
}

/// The number of positions in the tile that the text of a layout states, if the machine has it, or in a whole tile.
pub(crate) fn positions_of_tile(layout: &Layout, target: &Target) -> u64 {
    let whole = target.full_tiles(layout.elem_bits());
    let stated = match layout.notation() {
        Notation::Xla(xla) => sizes_of(xla).unwrap_or_default(),
        _ => Vec::new(),
    };
    let tiles = match are_of_machine(&stated, &whole) {
        true => stated,
        false => whole,
    };
    let first = tiles.first().into_iter().flatten();
    first.fold(1u64, |n, &size| n.saturating_mul(size))
}

/// The tiles of a text; `None` if one of them merges dimensions.
pub(super) fn sizes_of(xla: &XlaNotation) -> Option<Vec<Vec<u64>>> {
    let size = |dim: &TileDim| match dim {
        TileDim::Size(n) => Some(*n),
        TileDim::Combined => None,
    };
    let tiles = xla.tiles().iter();
    tiles.map(|tile| tile.iter().map(size).collect()).collect()
}

/// The tiles of the target's format, if an order of dimensions without tiles is the same function.
pub(super) fn of_order(layout: &Layout, target: &Target) -> Option<Vec<Vec<u64>>> {
    let written = layout.convert(NotationKind::Xla).ok()?;
    let Notation::Xla(xla) = written.notation() else {
        return None;
    };
    if !xla.tiles().is_empty() {
        return None;
    }
    // The order of dimensions of extent 1 is arbitrary.
    let order = xla.minor_to_major().iter().rev().copied();
    let is_long = |d: &usize| 1 < layout.shape()[*d];
    let long: Vec<usize> = order.filter(is_long).collect();
    let unit = (0..layout.rank()).filter(|d| !is_long(d));
    let order: Vec<usize> = unit.chain(long).collect();
    let physical: Vec<u64> = order.iter().map(|&d| layout.shape()[d]).collect();
    let tiles = target.tiles(layout.elem_bits(), &physical);
    if tiles.is_empty() {
        return Some(tiles);
    }
    let minor: Vec<String> = order.iter().rev().map(usize::to_string).collect();
    let text = format!("{}:{}", minor.join(","), optc_target::tiles_text(&tiles));
    let notation = XlaNotation::parse(&text, layout.rank()).ok()?;
    let notation = Notation::Xla(notation.packed(layout.elem_bits()));
    let tiled = Layout::new(notation, layout.shape(), layout.elem_bits()).ok()?;
    tiled.same_function(layout).then_some(tiles)
}
