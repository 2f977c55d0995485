//! Layouts: the place of each element in a linear buffer, and the notation in which it is written.

use std::ops::Deref;
use std::sync::{Arc, OnceLock};

use crate::error::LayoutError;
use crate::modes::Mode;
use crate::notation::block::BlockNotation;
use crate::notation::fields::{as_ints, permutation};
use crate::notation::{Notation, NotationKind, simplest};
use crate::placement::Placement;

/// A [`Placement`] (a function from the logical indices of a shape to offsets in a linear buffer) and the notation in
/// which the function was given.
///
/// Comparison ([`Placement::same_function`]) and hashing ([`Placement::function_hash`]) use only the function. A layout
/// has no `Eq`, because the notation is part of the value. Offsets and sizes count elements unless a name says bytes.
/// Cloning is cheap.
#[derive(Clone, Debug)]
pub struct Layout {
    inner: Arc<Inner>,
}

#[derive(Debug)]
struct Inner {
    placement: Placement,
    /// The notation. For a function given as modes it is computed when it is first needed.
    notation: OnceLock<Notation>,
}

impl Deref for Layout {
    type Target = Placement;

    fn deref(&self) -> &Placement {
        &self.inner.placement
    }
}

impl Layout {
    /// The layout that `notation` describes for a tensor of `shape` (elements along each dimension) whose element type
    /// has `elem_bits` bits.
    ///
    /// A notation with its own element width (`E(n)`, `ebits`) overrides `elem_bits`; an XLA
    /// notation without one stores whole bytes.
    ///
    /// # Errors
    /// A notation of another rank, digits that are not a bijection, strides that leave their buffer, sizes of 2^63 and
    /// more, padding to 2^63 - 1 bytes and more.
    pub fn new(notation: Notation, shape: &[u64], elem_bits: u32) -> Result<Layout, LayoutError> {
        let placement = notation.place(shape, elem_bits)?;
        Ok(Self::from_parts(placement, notation))
    }

    /// A function with a notation that is known to describe it.
    pub(crate) fn from_parts(placement: Placement, notation: Notation) -> Self {
        let placement = placement.with_splits(notation.splits());
        Self::of_inner(placement, OnceLock::from(notation))
    }

    fn of_inner(placement: Placement, notation: OnceLock<Notation>) -> Self {
        Self {
            inner: Arc::new(Inner {
                placement,
                notation,
            }),
        }
    }

    /// The layout with this function, written like `hint` if possible, else as simply as possible.
    ///
    /// # Errors
    /// No notation writes the function.
    pub(crate) fn written(
        placement: Placement,
        hint: Option<&Notation>,
    ) -> Result<Layout, LayoutError> {
        let notation = simplest(&placement, hint)?;
        Ok(Self::from_parts(placement, notation))
    }

    /// The dense row-major layout of a shape.
    ///
    /// A shape of 2^63 elements and more saturates: [`Placement::positions`] is `i64::MAX`, and indices behind that are
    /// out of range.
    #[must_use]
    pub fn row_major(shape: &[u64], elem_bits: u32) -> Layout {
        Self::from_parts(Placement::row_major(shape, elem_bits), Notation::RowMajor)
    }

    /// The dense layout whose dimensions follow `order`, major to minor.
    ///
    /// # Errors
    /// `order` is not a permutation of the dimensions, or the size overflows.
    pub fn from_order(
        shape: &[u64],
        elem_bits: u32,
        order: &[usize],
    ) -> Result<Layout, LayoutError> {
        let ints = as_ints(order);
        let order = permutation("order", &ints, shape.len())?;
        Layout::new(
            Notation::Block(BlockNotation::simple(order, Vec::new())),
            shape,
            elem_bits,
        )
    }

    /// The layout whose physical digits are `modes`, major to minor: the inverse of
    /// [`Placement::modes`].
    ///
    /// The layout is written as an order if the modes are whole dimensions, else as a block, else in digits.
    ///
    /// # Errors
    /// The modes of a dimension are not a mixed radix of its size, or the size overflows.
    pub fn from_modes(
        shape: &[u64],
        elem_bits: u32,
        modes: &[Mode],
    ) -> Result<Layout, LayoutError> {
        let placement = Placement::from_modes(shape, elem_bits, modes)?;
        Ok(Self::of_inner(placement, OnceLock::new()))
    }

    /// The notation of the layout.
    #[must_use]
    pub fn notation(&self) -> &Notation {
        let Inner {
            placement,
            notation,
        } = &*self.inner;
        notation.get_or_init(|| of_modes(placement))
    }

    /// Buffer size in bytes of the largest part if an XLA layout splits a dimension over several memories (`SC`); else
    /// [`Placement::bytes`].
    #[must_use]
    pub fn part_bytes(&self) -> u64 {
        match self.notation() {
            Notation::Xla(xla) if !self.splits().is_empty() && self.elements() != 0 => {
                let part = xla.part_bytes(self.shape(), self.storage().type_bits);
                part.unwrap_or_else(|_| self.bytes())
            }
            _ => self.bytes(),
        }
    }

    /// The layout of the same notation for another shape of the same rank.
    ///
    /// # Errors
    /// The notation does not fit the shape.
    pub fn with_shape(&self, shape: &[u64]) -> Result<Layout, LayoutError> {
        Layout::new(self.notation().clone(), shape, self.storage().type_bits)
    }

    /// The layout with the same offsets in a buffer in another memory space.
    ///
    /// # Errors
    /// Block and strided notation have no memory space other than 0, and no other notation writes
    /// the function.
    pub fn in_space(&self, space: u32) -> Result<Layout, LayoutError> {
        if space == self.space() {
            return Ok(self.clone());
        }
        let mut storage = self.storage();
        storage.space = space;
        let placement = self.with_storage(storage);
        if let Notation::Xla(xla) = self.notation() {
            let notation = Notation::Xla(xla.in_space(space));
            return Ok(Self::from_parts(placement, notation));
        }
        Self::written(placement, Some(self.notation()))
    }

    /// The layout with the same offsets for an element type of `type_bits` bits in a memory space. The notation is one
    /// that can state both.
    ///
    /// # Errors
    /// Neither tiles nor digits write the function.
    pub fn stored_as(&self, type_bits: u32, space: u32) -> Result<Layout, LayoutError> {
        let mut storage = self.storage();
        (storage.type_bits, storage.space) = (type_bits, space);
        let placement = self.with_storage(storage);
        let notation = match self.notation() {
            Notation::Xla(xla) => Notation::Xla(xla.clone().stored(storage)),
            _ => {
                let write = |kind| Notation::RowMajor.convert(&placement, kind);
                write(NotationKind::Xla).or_else(|_| write(NotationKind::Digits))?
            }
        };
        Ok(Self::from_parts(placement, notation))
    }

    /// The layout in another notation.
    ///
    /// # Errors
    /// [`LayoutError::Inexpressible`] says why the notation cannot write this function.
    pub fn convert(&self, kind: NotationKind) -> Result<Layout, LayoutError> {
        let notation = self.notation().convert(self, kind)?;
        Ok(Self::from_parts(Placement::clone(self), notation))
    }

    /// A guess at the intended notation if it fits the shape badly: a block is larger than the dimension it names and
    /// fits another one.
    #[must_use]
    pub fn notation_hint(&self) -> Option<String> {
        self.notation().written()?.mistake(self.shape())
    }
}

/// The notation of a function given as modes; digits can write all of these.
fn of_modes(placement: &Placement) -> Notation {
    let found = simplest(placement, None);
    debug_assert!(found.is_ok(), "{found:?} for {placement:?}");
    found.unwrap_or(Notation::RowMajor)
}
