//! What a notation has to say, one file each: how it is read and printed, which function a layout
//! written in it is, and how a function is written in it.

use crate::build::element_count;
use crate::error::LayoutError;
use crate::function::Function;
use crate::map::Renaming;
use crate::notation::fields::{Field, Fields};
use crate::placement::{Placement, Split, Storage};

/// What is true of a notation as a whole.
pub(crate) struct Rules {
    /// Its name on the command line and in errors.
    pub(crate) name: &'static str,
    /// What it writes, in a few words.
    pub(crate) summary: &'static str,
    /// The keys of which an encoding in this notation has at least one.
    pub(crate) own: &'static [&'static str],
    /// The keys that may stand with them.
    pub(crate) others: &'static [&'static str],
    /// What was expected in the place of any other key.
    pub(crate) wanted: &'static str,
    /// Its place among the notations that are tried where nobody asks for one, the lowest first.
    pub(crate) choice: u8,
    /// Whether it says the element width and the memory space.
    pub(crate) says_storage: bool,
}

/// A layout as it stands in one notation, checked against a rank but not against a shape.
pub(crate) trait Written {
    /// The canonical keys and values, in alphabetical order.
    fn fields(&self) -> Vec<(&'static str, Field)>;

    /// The positions that it gives the elements of a shape; those of the buffer go to `storage`, which
    /// has the element width and the memory space.
    ///
    /// # Errors
    /// What it says does not fit the shape, or sizes do not fit in 63 bits.
    fn function(&self, shape: &[u64], storage: &mut Storage) -> Result<Function, LayoutError>;

    /// Dimensions that it cuts into parts in different memories.
    fn splits(&self) -> Vec<Split> {
        Vec::new()
    }

    /// The memory space, 0 where none is said.
    fn space(&self) -> u32 {
        0
    }

    /// The bits that an element of a type of `type_bits` bits takes.
    fn element_bits(&self, type_bits: u32) -> u32 {
        type_bits
    }

    /// What it shows to a notation in which the same layout is to be written.
    fn hints(&self) -> Hints<'_> {
        Hints::default()
    }

    /// A guess at what the writer meant, where what stands there fits the shape badly.
    fn mistake(&self, _shape: &[u64]) -> Option<String> {
        None
    }

    /// Where it places the elements of a tensor of `shape`, whose type has `type_bits` bits.
    ///
    /// # Errors
    /// As [`Written::function`], and padding to 2^63 - 1 bytes and more.
    fn place(&self, shape: &[u64], type_bits: u32) -> Result<Placement, LayoutError> {
        let overflow = || LayoutError::Overflow {
            shape: shape.to_vec(),
        };
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

/// A notation: layouts are read in it and written in it.
pub(crate) trait Notate: Written + Sized {
    /// Its name and its keys.
    const RULES: Rules;

    /// Reads the keys of an encoding for a tensor of `rank` dimensions.
    ///
    /// # Errors
    /// Every mistake inside a value that the rank alone shows.
    fn from_fields(fields: &Fields<'_>, rank: usize) -> Result<Self, LayoutError>;

    /// Writes a function that is a chain, split over no memories and in a plain buffer where the
    /// notation says nothing about buffers.
    ///
    /// # Errors
    /// [`LayoutError::Inexpressible`] with the reason.
    fn of(placement: &Placement, hints: &Hints<'_>) -> Result<Self, LayoutError>;

    /// The function of a reshaped tensor written like the tensor itself, where that is at least as short
    /// as any other notation.
    fn like(&self, _placement: &Placement) -> Option<Self> {
        None
    }

    /// The same layout of the transposed tensor; `None` where it is the one without an encoding.
    fn transposed(&self, renaming: &Renaming<'_>) -> Option<Self>;

    /// The error for a function that the notation cannot write.
    fn refuse(reason: impl Into<String>) -> LayoutError {
        let (notation, reason) = (Self::RULES.name, reason.into());
        LayoutError::Inexpressible { notation, reason }
    }
}

/// What a layout's present notation shows that its function does not.
#[derive(Clone, Copy, Default)]
pub(crate) struct Hints<'a> {
    /// The dimensions of the grid, major to minor, and the levels of a block.
    pub(crate) blocks: Option<(&'a [usize], &'a [Vec<Factor>])>,
    /// How many tiles lie in one another.
    pub(crate) nested: usize,
}

/// One factor of a block: `extent` steps of dimension `dim`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Factor {
    /// How many steps, at least 1.
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
