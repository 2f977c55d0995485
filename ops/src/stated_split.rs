//! Shardings as partitioners state them: for each dimension a list of axes of the mesh, major to minor.
//!
//! Example: `model@d1/32` on `tensor<8x64xf32>` is the axis `model` on dimension 1. `model@d1/16` is an inner digit of
//! that dimension: it is stated of the dimensions 8, 2, 2, 16, into which the value is reshaped.

use crate::sharding_constraint::{AxisPart, DimSplit};
use optc_ir::shard::{Mesh, Piece, Sharding};
use std::cmp::Reverse;

/// A sharding of a value whose dimensions are cut into digits.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StatedSplit {
    /// The extents of all digits, the dimensions one after the other, major to minor.
    pub extents: Vec<u64>,
    /// The axes of each digit.
    pub splits: Vec<DimSplit>,
}

/// The sharding of a value of this shape as lists of axes; `None` for digits that cut no dimension evenly. Partial results are not
/// stated, as a partitioner makes them where it needs them.
#[must_use]
pub fn stated_split(sharding: &Sharding, shape: &[u64], mesh: &Mesh) -> Option<StatedSplit> {
    let mut made = StatedSplit {
        extents: Vec::with_capacity(shape.len()),
        splits: Vec::with_capacity(shape.len()),
    };
    let mut parts: Vec<(Piece, AxisPart)> = Vec::new();
    for split in sharding.splits() {
        let name = &mesh.axes[split.axis].name;
        let several = 1 < split.pieces().len();
        let mut after = 1;
        for piece in split.pieces() {
            let part = AxisPart {
                name: name.clone(),
                after: several.then_some(after),
                extent: piece.extent,
            };
            parts.push((*piece, part));
            after *= piece.extent;
        }
    }
    parts.sort_by_key(|(piece, _)| (piece.dim, Reverse(piece.stride)));
    for (dim, &extent) in shape.iter().enumerate() {
        let mut left = extent;
        let mut end = extent;
        let mut digit = DimSplit::default();
        for (piece, part) in parts.iter().filter(|(piece, _)| piece.dim == dim) {
            // A padded dimension is split by its first digit.
            let first = digit.axes.is_empty() && left == extent && left <= piece.high();
            if piece.high() != end && !first {
                if !left.is_multiple_of(piece.high()) {
                    return None;
                }
                made.extents.push(left / piece.high());
                made.splits.push(std::mem::take(&mut digit));
                left = piece.high();
            }
            digit.axes.push(part.clone());
            end = piece.stride;
        }
        made.extents.push(left);
        made.splits.push(digit);
    }
    Some(made)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn cut(texts: &[&str], shape: &[u64]) -> Option<(Vec<u64>, Vec<String>)> {
        let mesh: Mesh = "data:4,model:8".parse().unwrap();
        let sharding = Sharding::parse(texts.iter().copied(), &mesh).unwrap();
        let StatedSplit { extents, splits } = stated_split(&sharding, shape, &mesh)?;
        Some((extents, splits.iter().map(DimSplit::to_string).collect()))
    }

    fn found(extents: &[u64], splits: &[&str]) -> Option<(Vec<u64>, Vec<String>)> {
        let splits = splits.iter().map(|s| (*s).to_owned()).collect();
        Some((extents.to_vec(), splits))
    }

    #[test]
    fn outer_digits_are_dimensions() {
        assert_eq!(
            cut(&["data@d0/2"], &[8, 64]),
            found(&[8, 64], &["data:4", ""])
        );
        let both = cut(&["data@d0/16", "model@d0/2"], &[64]);
        assert_eq!(both, found(&[64], &["data:4 model:8"]));
        assert_eq!(cut(&["data@sum"], &[8]), found(&[8], &[""]));
        assert_eq!(cut(&["data@d0/2 padded"], &[5]), found(&[5], &["data:4"]));
    }

    #[test]
    fn inner_digits_are_dimensions_of_their_own() {
        let inner = cut(&["model@d1/4"], &[8, 96]);
        assert_eq!(inner, found(&[8, 3, 32], &["", "", "model:8"]));
        let apart = cut(&["data@d0/24", "model@d0/2"], &[96]);
        assert_eq!(apart, found(&[6, 16], &["data:4", "model:8"]));
        assert_eq!(cut(&["model@d0/5"], &[96]), None);
    }

    #[test]
    fn parts_of_an_axis_split_several_dimensions() {
        let merged = cut(&["model@d0/2%4*d1%2"], &[8, 2]);
        assert_eq!(merged, found(&[8, 2], &["model:(1)4", "model:(4)2"]));
    }
}
