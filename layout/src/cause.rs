//! Explains in words which property of two layouts keeps a chain from being a view.
//!
//! The decision compares functions and finds an offset that differs; a user wants to know the dimension. The
//! explanations here are true statements about the layouts, and the decision does not depend on them.

use crate::dims::Dims;
use crate::map::ViewMap;
use crate::modes::Mode;
use crate::placement::Placement;

/// One of the two tensors of a chain.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Side {
    /// The operand.
    Operand,
    /// The result.
    Result,
}

/// The property that keeps a chain from being a view, found after the decision.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Cause {
    /// The map cuts a dimension at an index that is not a boundary of the layout.
    Cut {
        /// The tensor that has the dimension.
        of: Side,
        /// The dimension.
        dim: usize,
        /// Elements of the dimension inside of the cut.
        at: u64,
        /// Elements of the dimension in the layout's tile, block or run.
        tile: u64,
    },
    /// The first dimension, from the innermost outwards, that is in another one's place.
    Order {
        /// The result's dimension at that place in its layout.
        wanted: usize,
        /// The result's dimension that the operand has at that place.
        found: usize,
    },
    /// A dimension whose runs have different lengths.
    Runs {
        /// The result's dimension.
        dim: usize,
        /// Elements of a run in the operand.
        found: u64,
        /// Elements of a run in the result.
        wanted: u64,
    },
    /// A dimension that only one of the two pads.
    Padded {
        /// The tensor that pads it.
        of: Side,
        /// Its dimension.
        dim: usize,
        /// Indices of the run.
        from: u64,
        /// Positions that the run takes.
        to: u64,
    },
    /// A dimension with different padding.
    Padding {
        /// The result's dimension.
        dim: usize,
        /// Positions of a run in the operand.
        found: u64,
        /// Positions of a run in the result.
        wanted: u64,
    },
}

impl std::fmt::Display for Side {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(match self {
            Self::Operand => "operand",
            Self::Result => "result",
        })
    }
}

impl std::fmt::Display for Cause {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Cut { of, dim, at, tile } => {
                write!(
                    f,
                    "dimension {dim} of the {of} is cut at {at} inside a tile of {tile}"
                )
            }
            Self::Padded { of, dim, from, to } => {
                write!(
                    f,
                    "dimension {dim} of the {of} is padded from {from} to {to}"
                )
            }
            Self::Order { wanted, found } => write!(
                f,
                "where the result wants dimension {wanted}, the operand has what becomes dimension {found}"
            ),
            Self::Runs { dim, found, wanted } => write!(
                f,
                "dimension {dim} is in runs of {found} in the operand and of {wanted} in the result"
            ),
            Self::Padding { dim, found, wanted } => write!(
                f,
                "dimension {dim} takes {found} positions in the operand and {wanted} in the result"
            ),
        }
    }
}

/// The first cause that the layouts show; `None` if they are not mixed-radix or show none.
pub(crate) fn cause(input: &Placement, map: &ViewMap, output: &Placement) -> Option<Cause> {
    let middle = map.shape.as_deref().unwrap_or(input.shape());
    let perm: Dims = match &map.perm {
        Some(perm) => Dims::from_slice(perm),
        None => (0..middle.len()).collect(),
    };
    let permuted: Vec<u64> = perm.iter().map(|&axis| middle[axis]).collect();
    let (from, to) = (input.modes()?, output.modes()?);
    // Without a transpose, each shape cuts the other.
    let (operand, result): (&[u64], &[u64]) = match &map.perm {
        None => (input.shape(), output.shape()),
        Some(_) => (&[], &[]),
    };
    cut(Side::Operand, input.shape(), &[middle, result], &from)
        .or_else(|| {
            let shapes = [&permuted[..], operand];
            cut(Side::Result, output.shape(), &shapes, &to)
        })
        .or_else(|| {
            let plain = middle == input.shape() && permuted == output.shape();
            plain.then(|| runs(&perm, &from, &to)).flatten()
        })
        .or_else(|| padded(Side::Result, &to, &from))
        .or_else(|| padded(Side::Operand, &from, &to))
}

/// The cut of a tile of the operand by the map, whatever the result's layout.
pub(crate) fn propagation_cause(input: &Placement, map: &ViewMap) -> Option<Cause> {
    let middle = map.shape.as_deref().unwrap_or(input.shape());
    cut(Side::Operand, input.shape(), &[middle], &input.modes()?)
}

/// A cut of a reshape between `own` and the others, in either direction, that is not at the boundary of a digit.
fn cut(of: Side, own: &[u64], others: &[&[u64]], modes: &[Mode]) -> Option<Cause> {
    let mut cuts = Vec::new();
    for other in others {
        let mut inside = 1u64;
        for &size in other.iter().rev() {
            inside = inside.checked_mul(size)?;
            cuts.push(inside);
        }
    }
    let mut inside = 1u64;
    for (dim, &size) in own.iter().enumerate().rev() {
        let all = inside.checked_mul(size)?;
        let within = cuts.iter().filter(|&&cut| inside < cut && cut < all);
        for cut in within.filter(|&&cut| cut.is_multiple_of(inside)) {
            let at = cut / inside;
            let tiles = modes.iter().filter(|p| p.dim == dim).map(|p| p.div);
            if let Some(tile) = tiles
                .filter(|&div| 1 < div && !at.is_multiple_of(div))
                .max()
            {
                return Some(Cause::Cut { of, dim, at, tile });
            }
        }
        inside = all;
    }
    None
}

/// A run with more positions than indices that has no equal on the other side.
fn padded(of: Side, own: &[Mode], other: &[Mode]) -> Option<Cause> {
    let padding = |p: &&Mode| p.count < p.extent;
    let alone = |p: &&Mode| {
        let same = |o: &Mode| (o.count, o.extent) == (p.count, p.extent);
        !other.iter().any(same)
    };
    let found = own.iter().filter(padding).rfind(alone)?;
    Some(Cause::Padded {
        of,
        dim: found.dim,
        from: found.count,
        to: found.extent,
    })
}

/// The first difference of the digits of a transpose, from the innermost outwards.
fn runs(perm: &[usize], from: &[Mode], to: &[Mode]) -> Option<Cause> {
    let becomes = |dim: usize| perm.iter().position(|&axis| axis == dim);
    let real = |modes: &[Mode]| -> Vec<Mode> {
        let counted = modes.iter().filter(|p| 1 < p.count);
        counted.rev().copied().collect()
    };
    for (a, b) in real(from).iter().zip(&real(to)) {
        let found = becomes(a.dim)?;
        if found != b.dim {
            let wanted = b.dim;
            return Some(Cause::Order { wanted, found });
        }
        if a.count != b.count || a.div != b.div {
            let (found, wanted) = (a.count, b.count);
            let dim = b.dim;
            return (found != wanted).then_some(Cause::Runs { dim, found, wanted });
        }
        if a.extent != b.extent {
            let (found, wanted) = (a.extent, b.extent);
            let dim = b.dim;
            return Some(Cause::Padding { dim, found, wanted });
        }
    }
    None
}
