//! One split: the part of an index that is the coordinate of a device along an axis.

use super::error::ShardError;
use super::mesh::Mesh;
use crate::codes;
use crate::op::Partial;
use std::fmt::Write as _;

/// A digit of one dimension: `(index / stride) % extent`.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct Piece {
    /// The dimension.
    pub dim: usize,
    /// The number of neighbouring elements that stay together.
    pub stride: u64,
    /// The number of parts.
    pub extent: u64,
}

impl Piece {
    /// The stride of the next more significant digit.
    #[must_use]
    pub fn high(&self) -> u64 {
        self.stride.saturating_mul(self.extent)
    }

    /// Returns whether two digits of one dimension have no common part, and the one divides the other.
    #[must_use]
    pub fn is_beside(&self, other: &Piece) -> bool {
        let above = |a: &Piece, b: &Piece| a.stride.is_multiple_of(b.high());
        self.dim != other.dim || above(self, other) || above(other, self)
    }
}

/// The content of the devices along an axis.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub enum Held {
    /// Each device has the elements whose digits, most significant first, are its coordinate. Several digits stand for
    /// one digit of merged dimensions.
    Digits(Vec<Piece>),
    /// Each device has a partial result; the value is their combination.
    Partial(Partial),
}

/// The split of a value over one axis of a mesh.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct Split {
    /// The number of the axis.
    pub axis: usize,
    /// The content of its devices.
    pub held: Held,
    /// True if the parts of a dimension may be larger than the dimension: the last ones are padded.
    pub padded: bool,
}

const PARTIALS: [(&str, Partial); 4] = [
    ("sum", Partial::Add),
    ("product", Partial::Multiply),
    ("max", Partial::Max),
    ("min", Partial::Min),
];

impl Split {
    /// The split of an axis by these digits, neighbouring ones joined.
    #[must_use]
    pub fn over(axis: usize, pieces: &[Piece]) -> Split {
        let mut joined: Vec<Piece> = Vec::with_capacity(pieces.len());
        for &piece in pieces.iter().filter(|p| p.extent != 1) {
            match joined.last_mut() {
                Some(last) if last.dim == piece.dim && last.stride == piece.high() => {
                    last.stride = piece.stride;
                    last.extent *= piece.extent;
                }
                _ => joined.push(piece),
            }
        }
        Split {
            axis,
            held: Held::Digits(joined),
            padded: false,
        }
    }

    /// Partial results along an axis.
    #[must_use]
    pub fn partial(axis: usize, partial: Partial) -> Split {
        Split {
            axis,
            held: Held::Partial(partial),
            padded: false,
        }
    }

    /// The digits; none for partial results.
    #[must_use]
    pub fn pieces(&self) -> &[Piece] {
        match &self.held {
            Held::Digits(pieces) => pieces,
            Held::Partial(_) => &[],
        }
    }

    /// The text `model@d1/32`, `data@d0%2*d1/8%2`, `model@sum` or `model@d2/2 padded`.
    #[must_use]
    pub fn text(&self, mesh: &Mesh) -> String {
        let mut text = format!("{}@", mesh.axes[self.axis].name);
        match &self.held {
            Held::Partial(partial) => {
                let known = PARTIALS.iter().find(|(_, p)| p == partial);
                text += known.map_or("mean", |(word, _)| word);
            }
            Held::Digits(pieces) => {
                for (i, piece) in pieces.iter().enumerate() {
                    text += if i == 0 { "" } else { "*" };
                    let _ = write!(text, "d{}", piece.dim);
                    if piece.stride != 1 {
                        let _ = write!(text, "/{}", piece.stride);
                    }
                    if 1 < pieces.len() {
                        let _ = write!(text, "%{}", piece.extent);
                    }
                }
            }
        }
        text + if self.padded { " padded" } else { "" }
    }

    /// Reads the text of a split.
    ///
    /// # Errors
    /// The text is no split (`shard-syntax`), or the mesh has no such axis (`shard-axis`).
    pub fn parse(text: &str, mesh: &Mesh) -> Result<Split, ShardError> {
        let error = || {
            let message = format!("found `{text}`, wanted the split of a value");
            ShardError::new(codes::SHARD_SYNTAX, message)
                .hint("write an axis of the mesh and a digit, `model@d1/32`, or a partial result, `model@sum`")
        };
        let (name, rest) = text.split_once('@').ok_or_else(error)?;
        let axis = mesh.axis(name).ok_or_else(|| mesh.unknown_axis(name))?;
        if let Some((_, partial)) = PARTIALS.iter().find(|(word, _)| *word == rest) {
            return Ok(Split::partial(axis, *partial));
        }
        let (digits, padded) = match rest.strip_suffix(" padded") {
            Some(digits) => (digits, true),
            None => (rest, false),
        };
        let whole = mesh.axes[axis].extent;
        let several = digits.contains('*');
        let mut pieces = Vec::new();
        for part in digits.split('*') {
            let piece = piece_of(part, (!several).then_some(whole)).ok_or_else(error)?;
            pieces.push(piece);
        }
        let product = pieces.iter().fold(1u64, |n, p| n.saturating_mul(p.extent));
        if product != whole {
            let message = format!(
                "found {product} parts in `{text}`, wanted {whole}, the extent of the axis"
            );
            return Err(ShardError::new(codes::SHARD_SPLIT, message));
        }
        let split = Split::over(axis, &pieces);
        Ok(Split { padded, ..split })
    }
}

/// The digit `dN/stride%extent`; `whole` is the extent of a digit that states none.
fn piece_of(text: &str, whole: Option<u64>) -> Option<Piece> {
    let number = |s: &str| s.parse().ok().filter(|&n: &u64| 0 < n);
    let (text, extent) = match text.split_once('%') {
        Some((text, extent)) => (text, number(extent)?),
        None => (text, whole?),
    };
    let (dim, stride) = match text.split_once('/') {
        Some((dim, stride)) => (dim, number(stride)?),
        None => (text, 1),
    };
    Some(Piece {
        dim: dim.strip_prefix('d')?.parse().ok()?,
        stride,
        extent,
    })
}
