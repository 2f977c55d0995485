//! Values in memory with padding: the places of a buffer, and the digits that they hold.
//!
//! A place is one dimension of a value's tensor in the text. It holds a digit, and may have more positions than the
//! digit has values. Example: a digit of 5 values in a place of 8 positions leaves 3 positions of padding at the end.
//!
//! If a dimension is cut in two, its digits together may count beyond its extent. Example: 7 elements in blocks of 4
//! are two blocks, and the last position of the second block is padding. Such a dimension is *ragged*; its digits fill
//! a shape that is larger than the value's own.
//!
//! A layout that is no order of digits is described by the steps that make it from the row-major tensor: pads, crops,
//! reshapes and transposes.

use super::digits::{extents, row_major, volume};
use optc_layout::{Digit, Layout, Mode, Rearrangement, explain};

/// A dimension of a tensor in memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) struct StoredDim {
    pub(super) digit: Digit,
    /// The number of positions; at least the number of the digit's values.
    pub(super) extent: u64,
}

/// The memory of a value.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(super) struct Stored {
    /// The extents of the value.
    pub(super) shape: Vec<u64>,
    /// The extents that the digits count to.
    pub(super) filled: Vec<u64>,
    /// The dimensions of the memory, major to minor, except those of one position.
    pub(super) places: Vec<StoredDim>,
    /// The steps from the row-major tensor, if the memory is no order of digits. There is one place then.
    pub(super) steps: Vec<StoreStep>,
}

/// A step from a row-major tensor to memory.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(super) enum StoreStep {
    /// Pads the tensor to `shape`; its elements begin at the positions `low`.
    Pad { low: Vec<u64>, shape: Vec<u64> },
    /// Keeps the first positions of a line.
    Crop { shape: Vec<u64> },
    /// Reshapes the positions.
    Reshape { shape: Vec<u64> },
    /// Permutes the dimensions.
    Transpose { perm: Vec<usize>, shape: Vec<u64> },
}

impl StoreStep {
    /// The extents after the step.
    pub(super) fn shape(&self) -> &[u64] {
        match self {
            StoreStep::Pad { shape, .. }
            | StoreStep::Crop { shape }
            | StoreStep::Reshape { shape }
            | StoreStep::Transpose { shape, .. } => shape,
        }
    }

    /// The step for a rearrangement of a tensor with these extents.
    fn of(rearrangement: Rearrangement, from: &[u64]) -> Option<StoreStep> {
        Some(match rearrangement {
            Rearrangement::Pad { low, high } => {
                let sides = low.iter().zip(&high);
                let sum = |(n, (low, high)): (&u64, (&u64, &u64))| {
                    n.checked_add(*low)?.checked_add(*high)
                };
                let shape: Option<Vec<u64>> = from.iter().zip(sides).map(sum).collect();
                let shape = shape?;
                StoreStep::Pad { low, shape }
            }
            Rearrangement::Crop { high } => {
                let shape = from.iter().map(|n| n.checked_sub(high));
                let shape = shape.collect::<Option<Vec<u64>>>()?;
                StoreStep::Crop { shape }
            }
            Rearrangement::Reshape { shape } => StoreStep::Reshape { shape },
            Rearrangement::Transpose { perm } => {
                let shape = perm.iter().map(|&p| from.get(p).copied());
                let shape = shape.collect::<Option<Vec<u64>>>()?;
                StoreStep::Transpose { perm, shape }
            }
        })
    }
}

/// A tensor in tiles, as `tensor.pack` makes it from a tensor of whole dimensions.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Tiles {
    /// For each outer dimension, the dimension of the tensor.
    pub(super) outer: Vec<usize>,
    /// For each tile dimension, the dimension of the tensor and the tile's extent.
    pub(super) inner: Vec<(usize, u64)>,
    /// The extents of the result.
    pub(super) shape: Vec<u64>,
}

impl Stored {
    /// The memory of a layout. `None` if elements share an offset, are reversed or interleave, or if the layout cuts or
    /// pads an unknown size.
    pub(super) fn of(shape: &[u64], layout: &Layout, open: impl Fn(u64) -> bool) -> Option<Stored> {
        if shape.contains(&0) {
            return Some(Stored::exact(shape, &row_major(shape)));
        }
        if let Some(digits) = Digit::all(shape, layout) {
            return Some(Stored::exact(shape, &digits));
        }
        if let Some(stored) = Stored::digital(shape, layout, &open) {
            return Some(stored);
        }
        match shape.iter().any(|&n| open(n)) {
            true => None,
            false => Stored::stepwise(shape, layout),
        }
    }

    /// Memory that is described by steps.
    fn stepwise(shape: &[u64], layout: &Layout) -> Option<Stored> {
        let explained = explain(layout).ok()?;
        let mut steps: Vec<StoreStep> = Vec::with_capacity(explained.steps.len());
        for (rearrangement, _) in explained.steps {
            let from = steps.last().map_or(shape, StoreStep::shape);
            steps.push(StoreStep::of(rearrangement, from)?);
        }
        let last = steps.last().map_or(shape, StoreStep::shape);
        let place = StoredDim {
            digit: Digit::new(0, 1, explained.positions),
            extent: explained.positions,
        };
        (!steps.is_empty() && volume(last) == explained.positions).then_some(Stored {
            shape: shape.to_vec(),
            filled: shape.to_vec(),
            places: vec![place],
            steps,
        })
    }

    /// Memory that is an order of digits, with padding after and between them.
    fn digital(shape: &[u64], layout: &Layout, open: impl Fn(u64) -> bool) -> Option<Stored> {
        let modes = layout.modes()?;
        let mut filled = Vec::with_capacity(shape.len());
        for (dim, &n) in shape.iter().enumerate() {
            let own = modes.iter().filter(|m| m.dim == dim && 1 < m.count);
            let mut own: Vec<Mode> = own.copied().collect();
            own.sort_by_key(|m| m.div);
            let mut count = 1u64;
            for mode in &own {
                if mode.div != count {
                    return None;
                }
                count = count.checked_mul(mode.count)?;
            }
            let whole = own.len() == 1 && own[0].extent == n && own[0].count == n;
            if count < n || open(n) && !whole {
                return None;
            }
            filled.push(count);
        }
        let place = |m: &Mode| StoredDim {
            digit: Digit::new(m.dim, m.div, m.count),
            extent: m.extent,
        };
        let places = modes.iter().filter(|m| m.extent != 1).map(place);
        Some(Stored {
            shape: shape.to_vec(),
            places: places.collect(),
            filled,
            steps: Vec::new(),
        })
    }

    /// Memory without padding.
    pub(super) fn exact(shape: &[u64], digits: &[Digit]) -> Stored {
        let place = |&digit: &Digit| StoredDim {
            digit,
            extent: digit.extent,
        };
        Stored {
            shape: shape.to_vec(),
            filled: shape.to_vec(),
            places: digits.iter().map(place).collect(),
            steps: Vec::new(),
        }
    }

    /// The digits of the memory; they fill the shape `filled`.
    pub(super) fn digits(&self) -> Vec<Digit> {
        let digits = self.places.iter().map(|p| p.digit);
        digits.filter(|d| d.extent != 1).collect()
    }

    /// The number of positions of each dimension of the memory.
    pub(super) fn extents(&self) -> Vec<u64> {
        self.places.iter().map(|p| p.extent).collect()
    }

    /// The number of positions of each dimension of the memory that hold a digit's value.
    pub(super) fn counts(&self) -> Vec<u64> {
        self.places.iter().map(|p| p.digit.extent).collect()
    }

    /// The memory with enough positions for `count` indices of a dimension that is in one place. `None` if the
    /// dimension is not in one place.
    pub(super) fn with_room(&self, dim: usize, count: u64) -> Option<Stored> {
        let mut wider = self.clone();
        let mut own = wider
            .places
            .iter_mut()
            .filter(|p| p.digit.of == dim && p.digit.extent != 1);
        let (place, None) = (own.next()?, own.next()) else {
            return None;
        };
        place.extent = place.extent.max(count);
        wider.stretched(dim, count)
    }

    /// The same memory with `count` indices of a dimension that is in one place, some of them in its padding. `None` if
    /// the dimension is not in one place, or if the place has too few positions.
    pub(super) fn stretched(&self, dim: usize, count: u64) -> Option<Stored> {
        let own: Vec<usize> = (0..self.places.len())
            .filter(|&i| self.places[i].digit.of == dim && self.places[i].digit.extent != 1)
            .collect();
        let &[at] = own.as_slice() else { return None };
        if self.places[at].extent < count || !self.is_digital() {
            return None;
        }
        let mut wider = self.clone();
        wider.places[at].digit.extent = count;
        wider.filled[dim] = count;
        Some(wider)
    }

    /// Returns whether every position of the memory holds an element.
    pub(super) fn is_exact(&self) -> bool {
        !self.is_ragged() && self.is_full()
    }

    /// Returns whether every position of each place holds a value of its digit.
    fn is_full(&self) -> bool {
        self.places.iter().all(|p| p.extent == p.digit.extent)
    }

    /// Returns whether some dimension is ragged, or the memory is no order of digits.
    pub(super) fn is_ragged(&self) -> bool {
        self.filled != self.shape || !self.is_digital()
    }

    /// Returns whether the memory is an order of digits.
    pub(super) fn is_digital(&self) -> bool {
        self.steps.is_empty()
    }

    /// The digits of the value as a dense tensor.
    pub(super) fn dense(&self) -> Vec<Digit> {
        match self.is_ragged() {
            true => row_major(&self.shape),
            false => self.digits(),
        }
    }

    /// Returns whether these digits, in any order, fill the shape of the memory rather than the value's own shape.
    pub(super) fn holds(&self, digits: &[Digit]) -> bool {
        self.is_digital() && self.is_ragged() && volume(&extents(digits)) == volume(&self.filled)
    }

    /// The tiles that the memory consists of, if it is a tiling of a tensor of whole dimensions.
    pub(super) fn tiles(&self, from: &[Digit]) -> Option<Tiles> {
        let of = |dim: usize| from.iter().position(|d| d.of == dim);
        let whole = |d: &Digit| d.div == 1 && self.shape.get(d.of) == Some(&d.extent);
        let long = self.shape.iter().filter(|n| **n != 1).count();
        if !self.is_digital() || !from.iter().all(whole) || from.len() != long {
            return None;
        }
        let (mut outer, mut inner) = (Vec::new(), Vec::new());
        let mut shape = Vec::new();
        for place in &self.places {
            let at = of(place.digit.of)?;
            let others = self
                .places
                .iter()
                .filter(|p| p.digit.of == place.digit.of && *p != place);
            let others: Vec<&StoredDim> = others.collect();
            let full = place.extent == place.digit.extent;
            let is_outer = match (&others[..], place.digit.div) {
                ([], 1) => full,
                ([lower], div) if lower.digit.div == 1 && div == lower.extent && full => true,
                ([upper], 1) if upper.digit.div == place.extent && full => false,
                _ => return None,
            };
            match is_outer {
                // Tiles are inside of all outer dimensions.
                true if !inner.is_empty() => return None,
                true => {
                    outer.push(at);
                    shape.push(place.extent);
                }
                false => inner.push((at, place.extent)),
            }
        }
        // A dimension within a single tile has one outer position.
        for at in 0..from.len() {
            if !outer.contains(&at) {
                outer.push(at);
                shape.push(1);
            }
        }
        shape.extend(inner.iter().map(|t| t.1));
        (!inner.is_empty()).then_some(Tiles {
            outer,
            inner,
            shape,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use optc_layout::notation::parse_tensor;

    fn stored(text: &str) -> Option<Stored> {
        let layout = parse_tensor(text).expect("a layout").layout;
        Stored::of(layout.shape(), &layout, |_| false)
    }

    #[test]
    fn padding_behind_a_digit_is_not_ragged() {
        let lies = stored("tensor<3x14x20xf32, {xla = \"2,1,0:T(8,128)\"}>").expect("digits");
        assert_eq!(lies.extents(), [3, 16, 128]);
        assert_eq!(lies.counts(), [3, 14, 20]);
        assert!(!lies.is_ragged() && !lies.is_exact());
    }

    #[test]
    fn padding_inside_of_a_dimension_is_ragged() {
        let lies = stored("tensor<14x200xf32, {xla = \"1,0:T(8,128)\"}>").expect("digits");
        assert_eq!(lies.extents(), [2, 2, 8, 128]);
        assert_eq!(lies.filled, [16, 256]);
        assert!(lies.is_ragged());
        assert!(
            stored("tensor<16x256xf32, {xla = \"1,0:T(8,128)\"}>").is_some_and(|s| s.is_exact())
        );
    }

    #[test]
    fn tiles_are_inside_of_what_they_are_of() {
        let lies = stored("tensor<14x200x1xf32, {xla = \"1,0,2:T(8,128)\"}>").expect("digits");
        let tiles = lies.tiles(&row_major(&[14, 200, 1]));
        let wanted = Tiles {
            outer: vec![0, 1],
            inner: vec![(0, 8), (1, 128)],
            shape: vec![2, 2, 8, 128],
        };
        assert_eq!(tiles, Some(wanted));
        let lies = stored("tensor<5x7xf32, {block = \"2H4W\"}>").expect("digits");
        let tiles = lies.tiles(&row_major(&[5, 7])).map(|t| t.shape);
        assert_eq!(tiles, Some(vec![3, 2, 2, 4]));
        let lies = stored("tensor<2x9x13xf32, {block = \"4C4W\"}>").expect("digits");
        let tiles = lies.tiles(&row_major(&[2, 9, 13]));
        assert_eq!(tiles.map(|t| t.inner), Some(vec![(2, 16), (1, 4)]));
        // Two levels of tiles of one dimension need two packs.
        let lies = stored("tensor<14x200xbf16, {xla = \"1,0:T(8,128)(2,1)\"}>").expect("digits");
        assert_eq!(lies.tiles(&row_major(&[14, 200])), None);
    }

    #[test]
    fn tiles_across_merged_dimensions_are_made_in_steps() {
        let text =
            "tensor<3x1x6x50x16xf32, {digits = \"7:d3/8 3:(d0*d2)/8 8:d3 8:(d0*d2) 16:d4\"}>";
        let lies = stored(text).expect("steps");
        assert!(!lies.is_digital() && !lies.is_exact());
        assert_eq!(lies.extents(), [7 * 3 * 8 * 8 * 16]);
        assert_eq!(lies.steps.last().map(|s| volume(s.shape())), Some(21504));
    }

    #[test]
    fn layouts_that_run_backwards_have_no_places() {
        let backwards = stored("tensor<5xf32, {strides = [-1], offset = 4}>");
        assert_eq!(backwards, None);
    }
}
