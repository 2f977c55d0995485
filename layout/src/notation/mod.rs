//! The notations of layouts, one file each, and the table of them.
//!
//! A file holds all of its notation: the text (`fields`, `from_fields`), the meaning (`function`), and the way in which
//! a function is written (`of`). No notation refers to this table; their common parts are in `written`. CuTe's layouts
//! and XLA's shapes are texts of whole tensors, which [`parse_tensor`] distinguishes.

pub(crate) mod block;
pub(crate) mod cursor;
pub mod cute;
pub(crate) mod digits;
pub(crate) mod fields;
mod scan;
mod sort;
pub(crate) mod strided;
mod tensor;
pub(crate) mod written;
pub(crate) mod xla;
pub(crate) mod xla_shape;

use std::fmt;
use std::sync::LazyLock;

use crate::build::element_count;
use crate::error::LayoutError;
use crate::map::Renaming;
use crate::placement::{Placement, Split};

use block::BlockNotation;
use digits::DigitsNotation;
use fields::{Field, Fields};
use strided::StridedNotation;
use written::{Hints, Notate, Rules, Written};
use xla::XlaNotation;

pub use crate::error::{TextError, TextPart};
pub use tensor::{TensorText, cute_modes, mlir_bits, parse_tensor, xla_bits};

/// Declares the notations and the lookup by name.
macro_rules! notations {
    ($($(#[$doc:meta])* $notation:ident($written:ty),)*) => {
        /// The notation of a layout. One function may be written in many ways.
        #[derive(Clone, Debug, PartialEq, Eq, Hash)]
        pub enum Notation {
            /// No encoding: row-major and dense.
            RowMajor,
            $($(#[$doc])* $notation($written),)*
        }

        /// The notations in which a layout can be written on request.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
        pub enum NotationKind {
            $($(#[$doc])* $notation,)*
        }

        impl NotationKind {
            /// All notations.
            pub const ALL: &'static [NotationKind] = &[$(NotationKind::$notation,)*];

            fn rules(self) -> &'static Rules {
                match self {
                    $(NotationKind::$notation => &<$written>::RULES,)*
                }
            }

            fn read(self, fields: &Fields<'_>, rank: usize) -> Result<Notation, LayoutError> {
                match self {
                    $(NotationKind::$notation => {
                        <$written>::from_fields(fields, rank).map(Notation::$notation)
                    })*
                }
            }

            fn write(self, placement: &Placement, hints: &Hints<'_>) -> Result<Notation, LayoutError> {
                match self {
                    $(NotationKind::$notation => {
                        <$written>::of(placement, hints).map(Notation::$notation)
                    })*
                }
            }
        }

        impl Notation {
            /// The kind of notation; `None` for row-major without an encoding.
            #[must_use]
            pub fn kind(&self) -> Option<NotationKind> {
                match self {
                    Notation::RowMajor => None,
                    $(Notation::$notation(_) => Some(NotationKind::$notation),)*
                }
            }

            /// The written layout; `None` for row-major.
            pub(crate) fn written(&self) -> Option<&dyn Written> {
                match self {
                    Notation::RowMajor => None,
                    $(Notation::$notation(written) => Some(written),)*
                }
            }

            /// Another function in this notation, in a similar form; `None` for row-major, or if another notation is
            /// shorter.
            fn like(&self, placement: &Placement) -> Option<Notation> {
                match self {
                    Notation::RowMajor => None,
                    $(Notation::$notation(written) => {
                        written.like(placement).map(Notation::$notation)
                    })*
                }
            }

            /// The notation of a transposed tensor with its dimensions renamed; `None` for row-major.
            pub(crate) fn transposed(&self, renaming: &Renaming<'_>) -> Option<Notation> {
                match self {
                    Notation::RowMajor => None,
                    $(Notation::$notation(written) => {
                        let renamed = written.transposed(renaming);
                        Some(renamed.map_or(Notation::RowMajor, Notation::$notation))
                    })*
                }
            }
        }
    };
}

// An encoding is in the last notation that owns one of its keys.
notations! {
    /// `axes`, `block`, `order`.
    Block(BlockNotation),
    /// `strides`, `offset`, `size`.
    Strided(StridedNotation),
    /// `digits`, `tail`, `space`, `ebits`, `offset`, `size`.
    Digits(DigitsNotation),
    /// `xla`.
    Xla(XlaNotation),
}

impl NotationKind {
    /// The notation's name on the command line.
    #[must_use]
    pub fn name(self) -> &'static str {
        self.rules().name
    }

    /// A summary of the notation for the command line.
    #[must_use]
    pub fn summary(self) -> &'static str {
        self.rules().summary
    }

    /// Refuses placements that no notation of a kind can write: some buffers, and functions that are not chains.
    fn admit(self, placement: &Placement) -> Result<(), LayoutError> {
        let refuse = |reason: &str| LayoutError::Inexpressible {
            notation: self.name(),
            reason: reason.to_owned(),
        };
        if !placement.splits().is_empty() {
            return Err(refuse("it is split over several memories (SC)"));
        }
        if !self.rules().says_storage && !placement.storage().is_plain() {
            return Err(refuse(
                "the element width or the memory space is not the type's own",
            ));
        }
        if placement.function().program.is_some() {
            return Err(across_padding(self));
        }
        Ok(())
    }
}

/// The error for tiles that only XLA's notation writes.
pub(crate) fn across_padding(kind: NotationKind) -> LayoutError {
    let reason = "a tile with combined dimensions cuts across the padding of an earlier one";
    LayoutError::Inexpressible {
        notation: kind.name(),
        reason: reason.to_owned(),
    }
}

/// The keys of all notations, in words.
fn all_keys() -> String {
    let keys = |kind: &NotationKind| {
        let Rules { own, others, .. } = kind.rules();
        own.iter().chain(*others)
    };
    let mut keys: Vec<&str> = NotationKind::ALL.iter().flat_map(keys).copied().collect();
    keys.sort_unstable();
    keys.dedup();
    format!("one of {}", keys.join(", "))
}

/// The notation of a function: like `hint` if possible, else as simple as possible.
///
/// # Errors
/// No notation writes the function.
pub(crate) fn simplest(
    placement: &Placement,
    hint: Option<&Notation>,
) -> Result<Notation, LayoutError> {
    let admitted = |hint: &&Notation| {
        let kind = hint.kind();
        kind.is_some_and(|kind| kind.admit(placement).is_ok())
    };
    if let Some(like) = hint.filter(admitted).and_then(|hint| hint.like(placement)) {
        return Ok(like);
    }
    if placement.is_row_major() {
        return Ok(Notation::RowMajor);
    }
    static BY_CHOICE: LazyLock<Vec<NotationKind>> = LazyLock::new(|| {
        let mut kinds = NotationKind::ALL.to_vec();
        kinds.sort_by_key(|kind| kind.rules().choice);
        kinds
    });
    let write = |kind: &NotationKind| Notation::RowMajor.convert(placement, *kind);
    let found = BY_CHOICE.iter().find_map(|kind| write(kind).ok());
    // Digits can write the most, so their reason is reported.
    found.map_or_else(|| write(&NotationKind::Digits), Ok)
}

impl Notation {
    /// The notation with `*:d0` for each digit with all of its dimensions, if `replaced` accepts its number of
    /// positions. `shape` is in elements. Other notations are unchanged.
    #[must_use]
    pub fn with_whole_digits(self, shape: &[u64], replaced: &dyn Fn(u64) -> bool) -> Notation {
        match self {
            Notation::Digits(digits) => Notation::Digits(digits.with_whole(shape, replaced)),
            other => other,
        }
    }

    /// The notation of the dense layout whose dimensions follow `order`, a permutation, major to minor.
    #[must_use]
    pub fn of_order(order: Vec<usize>) -> Notation {
        match order.is_sorted() {
            true => Notation::RowMajor,
            false => Notation::Block(BlockNotation::simple(order, Vec::new())),
        }
    }

    /// The order of the dimensions, major to minor, if the notation states a dense order for all sizes; `None` if it
    /// states more or has another rank than `rank`.
    #[must_use]
    pub fn order(&self, rank: usize) -> Option<Vec<usize>> {
        let order = match self {
            Notation::RowMajor => (0..rank).collect(),
            Notation::Block(block) if block.levels().is_empty() => block.order().to_vec(),
            Notation::Xla(xla) => {
                let order: Vec<usize> = xla.minor_to_major().iter().rev().copied().collect();
                let dense = XlaNotation::from_minor_to_major(xla.minor_to_major()).ok()?;
                (*xla == dense).then_some(order)?
            }
            Notation::Block(_) | Notation::Strided(_) | Notation::Digits(_) => return None,
        };
        (order.len() == rank).then_some(order)
    }

    /// Reads the keys of an encoding for a tensor of `rank` dimensions; an encoding without keys is row-major.
    ///
    /// # Errors
    /// Unknown, repeated or mixed keys, and every mistake inside a value that the rank alone shows.
    /// [`crate::Layout::new`] checks the rest against the sizes.
    pub fn from_fields(fields: &[(String, Field)], rank: usize) -> Result<Notation, LayoutError> {
        let fields = Fields::new(fields)?;
        if fields.is_empty() {
            return Ok(Notation::RowMajor);
        }
        let has_own = |kind: &&NotationKind| {
            let mut own = kind.rules().own.iter();
            own.any(|key| fields.get(key).is_some())
        };
        let Some(&kind) = NotationKind::ALL.iter().rev().find(has_own) else {
            fields.only(|_| false, &all_keys())?;
            return Ok(Notation::RowMajor);
        };
        let Rules {
            own,
            others,
            wanted,
            ..
        } = kind.rules();
        fields.only(|key| own.contains(&key) || others.contains(&key), wanted)?;
        kind.read(&fields, rank)
    }

    /// The canonical keys and values, in alphabetical order; none for row-major.
    #[must_use]
    pub fn fields(&self) -> Vec<(String, Field)> {
        let fields = self.written().map_or_else(Vec::new, Written::fields);
        let owned = fields
            .into_iter()
            .map(|(key, field)| (key.to_owned(), field));
        owned.collect()
    }

    /// The placement of the elements of a tensor of `shape` with `type_bits` bits an element.
    pub(crate) fn place(&self, shape: &[u64], type_bits: u32) -> Result<Placement, LayoutError> {
        match self.written() {
            Some(written) => written.place(shape, type_bits),
            None if element_count(shape).is_none() => Err(LayoutError::overflow(shape)),
            None => Ok(Placement::row_major(shape, type_bits)),
        }
    }

    /// Writes the function of this notation in another one.
    ///
    /// # Errors
    /// [`LayoutError::Inexpressible`] with the reason.
    pub(crate) fn convert(
        &self,
        placement: &Placement,
        kind: NotationKind,
    ) -> Result<Notation, LayoutError> {
        if self.kind() == Some(kind) {
            return Ok(self.clone());
        }
        kind.admit(placement)?;
        let hints = self.written().map(Written::hints);
        kind.write(placement, &hints.unwrap_or_default())
    }

    /// Dimensions that are cut into parts in different memories.
    pub(crate) fn splits(&self) -> Vec<Split> {
        self.written().map_or_else(Vec::new, Written::splits)
    }

    /// The written memory space, 0 if none is written.
    #[must_use]
    pub fn space(&self) -> u32 {
        self.written().map_or(0, Written::space)
    }

    /// The bits of an element of a type of `type_bits` bits. In XLA's notation these are whole bytes, unless the layout
    /// states otherwise.
    #[must_use]
    pub fn element_bits(&self, type_bits: u32) -> u32 {
        let bits = |written: &dyn Written| written.element_bits(type_bits);
        self.written().map_or(type_bits, bits)
    }
}

/// The canonical text between the braces: `block = "2W2H", order = [1, 0]`.
impl fmt::Display for Notation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (i, (key, field)) in self.fields().iter().enumerate() {
            let comma = if i == 0 { "" } else { ", " };
            match field {
                Field::Int(value) => write!(f, "{comma}{key} = {value}")?,
                Field::Str(text) => write!(f, "{comma}{key} = \"{text}\"")?,
                Field::Ints(list) => write!(f, "{comma}{key} = {list:?}")?,
                Field::IntLists(lists) => write!(f, "{comma}{key} = {lists:?}")?,
            }
        }
        Ok(())
    }
}
