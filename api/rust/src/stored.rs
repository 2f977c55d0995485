//! Layouts of values, sizes that are only named included.

use optc_ir::{Dim, StandIns};
use optc_layout::{Layout, Mode, Notation, Spread, TileDim};
use std::fmt;
use std::sync::Arc;

/// The layout of a value in its compact buffer. A number stands for each size that is only named, as `B` in `B×4`.
///
/// Offsets, strides and padding count elements.
#[derive(Clone, Debug)]
pub struct Stored {
    layout: Layout,
    numbers: Arc<StandIns>,
}

impl Stored {
    pub(crate) fn new(layout: Layout, numbers: Arc<StandIns>) -> Stored {
        Stored { layout, numbers }
    }

    /// The layout, in which numbers stand for sizes that are only named; see [`Stored::dim`].
    #[must_use]
    pub fn layout(&self) -> &Layout {
        &self.layout
    }

    /// The size that a number in the layout is or stands for.
    #[must_use]
    pub fn dim(&self, number: u64) -> Dim {
        self.numbers.dim(number)
    }

    /// The sizes of the dimensions.
    #[must_use]
    pub fn dims(&self) -> Vec<Dim> {
        self.layout.shape().iter().map(|&n| self.dim(n)).collect()
    }

    /// The notation in which the layout is written.
    #[must_use]
    pub fn notation(&self) -> &Notation {
        self.layout.notation()
    }

    /// The digits of the layout, major to minor; `None` if it has no digits.
    #[must_use]
    pub fn digits(&self) -> Option<Vec<Mode>> {
        self.layout.modes()
    }

    /// The stride of each dimension, 0 for one of size 1; `None` if a dimension has several digits or the layout none.
    #[must_use]
    pub fn strides(&self) -> Option<Vec<Dim>> {
        let digits = Spread::of(self.layout.positions()).strides(&self.layout)?;
        let mut strides = vec![None; self.layout.rank()];
        for digit in digits {
            let stride = u64::try_from(digit.stride).ok()?;
            if strides[digit.dim].replace(stride).is_some() {
                return None;
            }
        }
        let strides = strides.into_iter();
        Some(strides.map(|s| self.dim(s.unwrap_or(0))).collect())
    }

    /// The tiles of an XLA layout, the outermost first; empty for other layouts.
    #[must_use]
    pub fn tiles(&self) -> &[Vec<TileDim>] {
        match self.layout.notation() {
            Notation::Xla(layout) => layout.tiles(),
            _ => &[],
        }
    }

    /// The positions of the buffer that no element has. `None` if a size is only named.
    #[must_use]
    pub fn padding(&self) -> Option<u64> {
        let positions = self.layout.positions();
        (!self.is_named()).then(|| positions.saturating_sub(self.layout.elements()))
    }

    /// The position of an element. `None` if the index is outside, or if a size is only named.
    #[must_use]
    pub fn offset(&self, index: &[u64]) -> Option<u64> {
        match self.is_named() {
            true => None,
            false => self.layout.index(index),
        }
    }

    /// Returns whether a size is only named.
    #[must_use]
    pub fn is_named(&self) -> bool {
        let shape = self.layout.shape();
        shape.iter().any(|&n| self.numbers.stands(n))
    }
}

impl fmt::Display for Stored {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let text = match self.layout.notation() {
            Notation::RowMajor => "row-major".to_owned(),
            other => other.to_string(),
        };
        f.write_str(&self.numbers.reword(&text))
    }
}
