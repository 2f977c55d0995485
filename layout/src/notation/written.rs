//! The traits that each notation implements in its own file: reading, printing, the function of a layout that is
//! written in it, and writing a function in it.

use crate::build::element_count;
use crate::error::LayoutError;
use crate::function::Function;
use crate::map::Renaming;
use crate::notation::fields::{Field, Fields};
use crate::placement::{Placement, Split, Storage};

/// The properties of a notation as a whole.
pub(crate) struct Rules {
    /// Its name on the command line and in errors.
    pub(crate) name: &'static str,
    /// A short description.
    pub(crate) summary: &'static str,
    /// The keys of its own. An encoding in this notation has at least one of them.
    pub(crate) own: &'static [&'static str],
    /// The keys that are allowed beside them.
    pub(crate) others: &'static [&'static str],
    /// The message for any other key: what was expected.
    pub(crate) wanted: &'static str,
    /// Its rank among the notations that are tried if the caller names none, the lowest first.
    pub(crate) choice: u8,
    /// True if the notation states the element width and the memory space.
    pub(crate) says_storage: bool,
}

/// A layout in one notation, checked against a rank but not against a shape.
pub(crate) trait Written {
    /// The canonical keys and values, in alphabetical order.
    fn fields(&self) -> Vec<(&'static str, Field)>;

    /// The positions of the elements of a shape. The number of positions of the buffer is written to `storage`, which
    /// holds the element width and the memory space.
    ///
    /// # Errors
    /// The layout does not fit the shape, or sizes exceed 63 bits.
    fn function(&self, shape: &[u64], storage: &mut Storage) -> Result<Function, LayoutError>;

    /// Dimensions that are cut into parts in different memories.
    fn splits(&self) -> Vec<Split> {
        Vec::new()
    }

    /// The memory space, 0 if none is stated.
    fn space(&self) -> u32 {
        0
    }

    /// The bits of an element of a type of `type_bits` bits.
    fn element_bits(&self, type_bits: u32) -> u32 {
        type_bits
    }

    /// Hints for writing the same layout in another notation.
    fn hints(&self) -> Hints<'_> {
        Hints::default()
    }

    /// A guess at the intended text if the layout fits the shape badly.
    fn mistake(&self, _shape: &[u64]) -> Option<String> {
        None
    }

    /// The placement of the elements of a tensor of `shape` whose type has `type_bits` bits.
    ///
    /// # Errors
    /// As [`Written::function`], and padding to 2^63 - 1 bytes and more.
    fn place(&self, shape: &[u64], type_bits: u32) -> Result<Placement, LayoutError> {
        let overflow = || LayoutError::overflow(shape);
        let elements = element_count(shape).ok_or_else(overflow)?;
        let mut storage = Storage {
            positions: 0,
            type_bits,
            bits: self.element_bits(type_bits),
            space: self.space(),
        };
        let mut function = self.function(shape, &mut storage)?;
        if elements == 0 {
            storage.positions = 0;
            function = Function::empty();
        }
        let bits = u128::from(storage.positions) * u128::from(storage.bits);
        if elements < storage.positions && i64::MAX as u128 <= bits / 8 {
            return Err(overflow());
        }
        Ok(Placement::new(shape, elements, function, storage).with_splits(self.splits()))
    }
}

/// A notation: it reads and writes layouts.
pub(crate) trait Notate: Written + Sized {
    /// Its name and its keys.
    const RULES: Rules;

    /// Reads the keys of an encoding for a tensor of `rank` dimensions.
    ///
    /// # Errors
    /// Every mistake inside a value that the rank alone shows.
    fn from_fields(fields: &Fields<'_>, rank: usize) -> Result<Self, LayoutError>;

    /// Writes a function that is a chain and not split over memories. If the notation states nothing about buffers, the
    /// buffer must be plain.
    ///
    /// # Errors
    /// [`LayoutError::Inexpressible`] with the reason.
    fn of(placement: &Placement, hints: &Hints<'_>) -> Result<Self, LayoutError>;

    /// Writes the function of a reshaped tensor like the tensor itself; `None` if another notation is shorter.
    fn like(&self, _placement: &Placement) -> Option<Self> {
        None
    }

    /// The layout of the transposed tensor; `None` if that is the one without an encoding.
    fn transposed(&self, renaming: &Renaming<'_>) -> Option<Self>;

    /// The error for a function that the notation cannot write.
    fn refuse(reason: impl Into<String>) -> LayoutError {
        let (notation, reason) = (Self::RULES.name, reason.into());
        LayoutError::Inexpressible { notation, reason }
    }
}

/// Properties of a layout's present notation that its function does not show.
#[derive(Clone, Copy, Default)]
pub(crate) struct Hints<'a> {
    /// The dimensions of the grid, major to minor, and the levels of a block.
    pub(crate) blocks: Option<(&'a [usize], &'a [Vec<Factor>])>,
    /// The number of nested tiles.
    pub(crate) nested: usize,
}

/// One factor of a block: `extent` steps of dimension `dim`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Factor {
    /// The number of steps, at least 1.
    pub extent: u64,
    /// The logical dimension.
    pub dim: usize,
}

/// Refuses a layout of another rank.
pub(crate) fn expect_rank(key: &'static str, found: usize, rank: usize) -> Result<(), LayoutError> {
    if found == rank {
        Ok(())
    } else {
        Err(LayoutError::RankMismatch { key, found, rank })
    }
}
