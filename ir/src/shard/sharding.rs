//! The sharding of a value: its splits over all axes.

use super::error::ShardError;
use super::mesh::Mesh;
use super::split::{Held, Piece, Split};
use crate::codes;
use crate::types::{Dim, TensorType};

/// The splits of a value, sorted by axis, at most one an axis.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Default)]
pub struct Sharding {
    splits: Vec<Split>,
}

impl Sharding {
    /// A value that is the same on all devices.
    #[must_use]
    pub fn replicated() -> Sharding {
        Sharding::default()
    }

    /// The splits, sorted by axis.
    #[must_use]
    pub fn splits(&self) -> &[Split] {
        &self.splits
    }

    /// The split over an axis.
    #[must_use]
    pub fn on(&self, axis: usize) -> Option<&Split> {
        let found = self.splits.binary_search_by_key(&axis, |s| s.axis);
        found.ok().map(|at| &self.splits[at])
    }

    /// The sharding with this split in place of the one over its axis.
    #[must_use]
    pub fn with(mut self, split: Split) -> Sharding {
        match self.splits.binary_search_by_key(&split.axis, |s| s.axis) {
            Ok(at) => self.splits[at] = split,
            Err(at) => self.splits.insert(at, split),
        }
        self
    }

    /// The sharding without a split over an axis.
    #[must_use]
    pub fn without(mut self, axis: usize) -> Sharding {
        self.splits.retain(|s| s.axis != axis);
        self
    }

    /// The sharding with a dimension of `size` elements split into its major parts over these axes of a mesh, the outermost
    /// one first. Parts that do not divide are rounded up.
    ///
    /// # Errors
    /// An axis has a split already (`shard-split`).
    pub fn with_axes(
        mut self,
        dim: usize,
        size: u64,
        axes: &[usize],
        mesh: &Mesh,
    ) -> Result<Sharding, ShardError> {
        let mut stride = size;
        for &axis in axes {
            if self.on(axis).is_some() {
                return Err(twice(axis, mesh));
            }
            let extent = mesh.axes[axis].extent;
            stride = stride.div_ceil(extent.max(1)).max(1);
            let piece = Piece {
                dim,
                stride,
                extent,
            };
            self = self.with(Split::over(axis, &[piece]));
        }
        Ok(self)
    }

    /// All digits with their axes.
    pub fn pieces(&self) -> impl Iterator<Item = (usize, &Piece)> {
        let each = |s: &'_ Split| s.axis;
        self.splits
            .iter()
            .flat_map(move |s| s.pieces().iter().map(move |p| (each(s), p)))
    }

    /// Returns whether the devices have partial results along an axis.
    #[must_use]
    pub fn is_partial(&self) -> bool {
        let partial = |s: &Split| matches!(s.held, Held::Partial(_));
        self.splits.iter().any(partial)
    }

    /// The number of parts into which the value is split.
    #[must_use]
    pub fn parts(&self) -> u64 {
        self.pieces().map(|(_, p)| p.extent).product()
    }

    /// The extent of a dimension on one device, padding included.
    #[must_use]
    pub fn local(&self, dim: usize, extent: u64) -> u64 {
        let here = self.pieces().filter(|(_, p)| p.dim == dim);
        let parts: u64 = here.map(|(_, p)| p.extent).product();
        extent.div_ceil(parts.max(1))
    }

    /// The texts of the splits.
    #[must_use]
    pub fn texts(&self, mesh: &Mesh) -> Vec<String> {
        self.splits.iter().map(|s| s.text(mesh)).collect()
    }

    /// The sharding of these texts.
    ///
    /// # Errors
    /// A text is no split, or two are over one axis (`shard-split`).
    pub fn parse<'a>(
        texts: impl IntoIterator<Item = &'a str>,
        mesh: &Mesh,
    ) -> Result<Sharding, ShardError> {
        let mut sharding = Sharding::default();
        for text in texts {
            let split = Split::parse(text, mesh)?;
            if sharding.on(split.axis).is_some() {
                return Err(twice(split.axis, mesh));
            }
            sharding = sharding.with(split);
        }
        Ok(sharding)
    }

    /// Checks that a tensor can be split so: dimensions exist, extents divide unless padding is stated, and digits do
    /// not overlap.
    ///
    /// # Errors
    /// The first rule that does not hold (`shard-split`).
    pub fn fits(&self, ty: &TensorType, mesh: &Mesh) -> Result<(), ShardError> {
        let error = |message: String| ShardError::new(codes::SHARD_SPLIT, message);
        for split in &self.splits {
            let text = split.text(mesh);
            for piece in split.pieces() {
                let Some(dim) = ty.dims.get(piece.dim) else {
                    let message = format!(
                        "found dimension {} in `{text}`, wanted one of the {} of the value",
                        piece.dim,
                        ty.rank()
                    );
                    return Err(error(message));
                };
                divides(piece, dim, split.padded)
                    .map_err(|(message, hint)| error(format!("`{text}`: {message}")).hint(hint))?;
            }
        }
        let all: Vec<(usize, &Piece)> = self.pieces().collect();
        for (i, (axis, piece)) in all.iter().enumerate() {
            if let Some((other, _)) = all[..i].iter().find(|(_, p)| !p.is_beside(piece)) {
                let name = |axis: usize| &mesh.axes[axis].name;
                let message = format!(
                    "found overlapping digits of dimension {} over the axes `{}` and `{}`, wanted digits side by side",
                    piece.dim,
                    name(*other),
                    name(*axis)
                );
                return Err(error(message).hint("the stride of the outer digit is a multiple of the stride times the extent of the inner one"));
            }
        }
        Ok(())
    }
}

/// The error of a second split over an axis.
fn twice(axis: usize, mesh: &Mesh) -> ShardError {
    let name = &mesh.axes[axis].name;
    let message = format!("found two splits over the axis `{name}`, wanted one");
    ShardError::new(codes::SHARD_SPLIT, message)
        .hint("an axis of the mesh splits a value once; write the mesh with two axes, `model0:2,model1:4`, for two splits")
}

/// Checks that a digit divides its dimension, or that its padding is stated; else found and wanted, and a hint.
fn divides(piece: &Piece, dim: &Dim, padded: bool) -> Result<(), (String, String)> {
    let parts = piece.extent;
    let Some(extent) = dim.fixed() else {
        let message = "found a dimension of unknown size, wanted a number".to_owned();
        return Err((
            message,
            "bind the size before the program is split".to_owned(),
        ));
    };
    if extent.is_multiple_of(piece.high()) || padded && extent <= piece.high() && 0 < extent {
        return Ok(());
    }
    let message = format!(
        "found extent {extent}, wanted a multiple of {} ({parts} parts of {})",
        piece.high(),
        piece.stride
    );
    let stride = extent.div_ceil(parts.max(1)).max(1);
    let hint = match extent.is_multiple_of(parts) {
        true => format!("write d{}/{stride}", piece.dim),
        false => format!("state the padding: `d{}/{stride} padded`", piece.dim),
    };
    Err((message, hint))
}
