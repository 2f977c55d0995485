//! The form of a tile on chip: in the order of its value's layout, with the target's padding.
//!
//! Example: a tile of 5 rows and 100 columns of a row-major value takes 8 x 128 positions on a machine with tiles of 8
//! x 128.

use optc_ir::TensorType;
use optc_layout::{Mode, Notation};
use optc_target::Target;
use optc_tile::{Span, Tile};
use std::rc::Rc;

/// The order of a value's positions, major to minor, without the tiles of a machine.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) struct Stored {
    digits: Rc<[Digit]>,
}

/// One run of positions: `index[dim] / div`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
struct Digit {
    dim: usize,
    div: u64,
    /// The number of its values. `None` for the outermost digit of its dimension, which a tile may exceed.
    count: Option<u64>,
    /// The number of its positions if the tile has all its values, padding included.
    extent: u64,
}

impl Stored {
    /// The order of a value with known extents; row-major where its layout is no order of digits.
    pub(crate) fn of(tensor: &TensorType) -> Stored {
        let digits = match &tensor.notation {
            Notation::Block(block) if block.levels().iter().all(Vec::is_empty) => {
                whole(block.order().iter().copied())
            }
            Notation::Xla(xla) => whole(xla.minor_to_major().iter().rev().copied()),
            Notation::RowMajor => whole(0..tensor.rank()),
            _ => {
                let layout = tensor.layout().and_then(Result::ok);
                let modes = layout.and_then(|layout| layout.modes());
                modes.map_or_else(|| whole(0..tensor.rank()), |modes| cut(&modes))
            }
        };
        Stored {
            digits: digits.into(),
        }
    }

    /// The order of the dimensions.
    pub(crate) fn plain(rank: usize) -> Stored {
        Stored {
            digits: whole(0..rank).into(),
        }
    }

    /// Returns whether the order is that of the dimensions.
    pub(crate) fn is_plain(&self) -> bool {
        let own = self.digits.iter().enumerate();
        own.map(|(at, digit)| (at, digit.dim, digit.div))
            .all(|(at, dim, div)| at == dim && div == 1)
    }

    /// Returns whether the order is that of the dimensions with more than one element.
    pub(crate) fn is_plain_in(&self, dims: &[u64]) -> bool {
        let long = |d: usize| dims.get(d).is_some_and(|&n| 1 < n);
        let own = self.digits.iter().filter(|digit| long(digit.dim));
        let own = own.map(|digit| (digit.dim, digit.div.max(1)));
        own.eq((0..dims.len()).filter(|&d| long(d)).map(|d| (d, 1)))
    }

    /// The extents of a tile in positions, major to minor.
    fn extents(&self, tile: &Tile, grid: &[u64]) -> Vec<u64> {
        let mut out = vec![1; self.digits.len()];
        for (d, span) in tile.0.iter().enumerate() {
            let own = self.digits.iter().enumerate().filter(|(_, g)| g.dim == d);
            let mut own: Vec<(usize, &Digit)> = own.collect();
            own.sort_by_key(|(_, digit)| std::cmp::Reverse(digit.div));
            let mut rest: Span = span.clone();
            for (at, digit) in own {
                let values = match digit.div {
                    0 | 1 => rest.extent,
                    div => {
                        let (outer, inner, _) = rest.divide(div, grid);
                        rest = inner;
                        outer.extent
                    }
                };
                out[at] = match digit.count {
                    Some(count) if count <= values => digit.extent,
                    _ => values,
                };
            }
        }
        self.merge_padded(&mut out);
        out
    }

    /// A padded digit that is not adjacent to the lanes is merged with the next digit: their run is padded as one
    /// extent.
    fn merge_padded(&self, out: &mut [u64]) {
        let last = self.digits.len().saturating_sub(1);
        for (at, digit) in self.digits.iter().enumerate() {
            let padded = digit.count.is_some_and(|n| n < digit.extent) && out[at] == digit.extent;
            if padded && at + 1 < last {
                out[at + 1] = out[at + 1].saturating_mul(out[at]);
                out[at] = 1;
            }
        }
    }
}

fn whole(order: impl Iterator<Item = usize>) -> Vec<Digit> {
    let digit = |dim| Digit {
        dim,
        div: 1,
        count: None,
        extent: 1,
    };
    order.map(digit).collect()
}

fn cut(modes: &[Mode]) -> Vec<Digit> {
    let outermost = |mode: &Mode| {
        let mut own = modes.iter().filter(|p| p.dim == mode.dim);
        own.all(|other| other.div <= mode.div)
    };
    let digit = |mode: &Mode| Digit {
        dim: mode.dim,
        div: mode.div,
        count: (!outermost(mode)).then_some(mode.count),
        extent: mode.extent,
    };
    let used = modes.iter().filter(|mode| 1 < mode.count);
    used.map(digit).collect()
}

/// The bytes of a tile on chip, padding included: the extents in the order of the value's layout, in the target's tiles
/// for elements of this width. Saturates. A width without tiles is padded as 32 bits are, if there are tiles for 32
/// bits.
pub(crate) fn bytes_on_chip(
    target: &Target,
    stored: &Stored,
    tile: &Tile,
    bits: u32,
    grid: &[u64],
) -> u64 {
    let mut extents = stored.extents(tile, grid);
    if !target.formats.is_empty() {
        let mut tiles = target.tiles(bits, &extents);
        if tiles.is_empty() {
            tiles = target.tiles(32, &extents);
        }
        for tile in &tiles {
            let missing = tile.len().saturating_sub(extents.len());
            extents.splice(0..0, std::iter::repeat_n(1, missing));
            let from = extents.len() - tile.len();
            for (extent, &size) in extents[from..].iter_mut().zip(tile) {
                *extent = extent.div_ceil(size.max(1));
            }
            extents.extend(tile);
        }
    }
    bytes_of(&extents, bits)
}

/// The bytes of an array with these dimensions.
pub(crate) fn bytes_of(dims: &[u64], bits: u32) -> u64 {
    let elements = dims.iter().fold(1u64, |a, &n| a.saturating_mul(n));
    elements.saturating_mul(u64::from(bits)).div_ceil(8)
}
