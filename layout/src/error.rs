//! Errors in reading and building layouts.

/// The reason why a layout's text or numbers are refused.
///
/// Messages are lower-case, without a final period, and state what was found and what was wanted.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum LayoutError {
    /// A key that no notation has.
    #[error("unknown layout key `{key}`, expected {wanted}")]
    UnknownKey {
        /// The key as written.
        key: String,
        /// The keys that are allowed here.
        wanted: String,
    },
    /// A key that occurs twice.
    #[error("layout key `{key}` is given twice")]
    RepeatedKey {
        /// The key as written.
        key: String,
    },
    /// A key whose value has the wrong kind.
    #[error("layout key `{key}` wants {wanted}")]
    FieldKind {
        /// The key.
        key: String,
        /// The kind of value it takes.
        wanted: &'static str,
    },
    /// A number outside what its key can hold.
    #[error("`{key}` is {found}, expected {wanted}")]
    FieldRange {
        /// The key.
        key: String,
        /// The number as written.
        found: i64,
        /// The allowed range.
        wanted: &'static str,
    },
    /// A piece of text inside a value that does not follow the notation.
    #[error("in `{key} = \"{text}\"` at character {offset}: found {found}, expected {wanted}")]
    Syntax {
        /// The key whose value is wrong.
        key: &'static str,
        /// The value.
        text: String,
        /// Byte offset of the mistake in the value.
        offset: usize,
        /// The text found there.
        found: String,
        /// The text expected there.
        wanted: String,
    },
    /// A list that is not a permutation of the dimensions.
    #[error("`{key}` is {found:?}, expected a permutation of 0 to {rank} (exclusive)")]
    NotPermutation {
        /// The key.
        key: &'static str,
        /// The list as written.
        found: Vec<i64>,
        /// The number of dimensions.
        rank: usize,
    },
    /// A number of axis letters that differs from the rank.
    #[error("`axes = \"{axes}\"` names {found} dimensions, expected {rank} different letters")]
    Axes {
        /// The letters as written.
        axes: String,
        /// The number of letters.
        found: usize,
        /// The number of dimensions.
        rank: usize,
    },
    /// A letter of a block that names no dimension.
    #[error("`{letter}` names no dimension, expected {wanted}")]
    UnknownAxis {
        /// The name as written.
        letter: String,
        /// The existing names.
        wanted: String,
    },
    /// The number of lists of orders differs from the number of inner levels of the block.
    #[error("`order` has {found} lists for {levels} levels, expected one a level")]
    OrderLevels {
        /// The number of lists.
        found: usize,
        /// The number of levels of the block.
        levels: usize,
    },
    /// A level that is not the last one names a dimension twice.
    #[error("level {level} of the block names {axis} twice; only the last level may")]
    RepeatedInLevel {
        /// The level, outermost 1.
        level: usize,
        /// The dimension's name.
        axis: String,
    },
    /// A level names a dimension that the one outside it does not.
    #[error("level {level} of the block cuts {axis}, which the level outside it does not name")]
    NotInOuterLevel {
        /// The level, outermost 1.
        level: usize,
        /// The dimension's name.
        axis: String,
    },
    /// A list whose length is not the rank.
    #[error("`{key}` has {found} entries, expected {rank}, one a dimension")]
    RankMismatch {
        /// The key.
        key: &'static str,
        /// The number of entries.
        found: usize,
        /// The number of dimensions.
        rank: usize,
    },
    /// Sizes that exceed 63 bits: positions, or bytes if padding makes them.
    #[error("the buffer of a tensor of shape {shape:?} has more than 2^63-1 positions or bytes")]
    Overflow {
        /// The shape.
        shape: Vec<u64>,
    },
    /// A strided layout that reaches outside its buffer.
    #[error("the strides reach offsets {low} to {high}, outside a buffer of {size} positions")]
    OutOfBuffer {
        /// The lowest offset.
        low: i128,
        /// The highest offset.
        high: i128,
        /// The buffer's size in elements.
        size: u64,
    },
    /// The digits omit a part of an index.
    #[error("no digit holds {part}: elements would share a position")]
    MissingDigit {
        /// The part, as an expression of the notation.
        part: String,
    },
    /// Two digits hold the same part of an index or cut across each other.
    #[error("digit `{digit}` overlaps digit `{other}`: together they are no mixed radix")]
    OverlappingDigits {
        /// The digit.
        digit: String,
        /// The digit that it overlaps.
        other: String,
    },
    /// The merges do not follow one order of the dimensions.
    #[error("`{merge}` does not go with the other merges of its dimensions")]
    MergeConflict {
        /// The merge as written.
        merge: String,
    },
    /// A dimension of unknown size has no bound.
    #[error("a dimension `?` has no bound, expected sizes or bounds: memory is laid out for them")]
    Unbounded,
    /// A split point outside its dimension.
    #[error(
        "`SC` cuts physical dimension {physical_dim} at {point}, expected points below its size {size}"
    )]
    SplitPoint {
        /// The physical dimension, 0 the most major one.
        physical_dim: usize,
        /// The point.
        point: u64,
        /// The dimension's size.
        size: u64,
    },
    /// Physical digits that are not a mixed radix of their dimensions.
    #[error("the digits of dimension {dim} do not cover its {size} indices once each")]
    Modes {
        /// The dimension.
        dim: usize,
        /// Its size.
        size: u64,
    },
    /// A notation that cannot express this function.
    #[error("{notation} notation cannot express this layout: {reason}")]
    Inexpressible {
        /// The notation's name.
        notation: &'static str,
        /// The reason.
        reason: String,
    },
}

impl LayoutError {
    pub(crate) fn overflow(shape: &[u64]) -> LayoutError {
        LayoutError::Overflow {
            shape: shape.to_vec(),
        }
    }

    /// The key of the encoding whose value is wrong, and the byte offset in a string value.
    #[must_use]
    pub fn place(&self) -> (Option<&str>, usize) {
        match self {
            LayoutError::Syntax { key, offset, .. } => (Some(key), *offset),
            LayoutError::UnknownKey { key, .. }
            | LayoutError::RepeatedKey { key }
            | LayoutError::FieldKind { key, .. }
            | LayoutError::FieldRange { key, .. } => (Some(key), 0),
            LayoutError::NotPermutation { key, .. } | LayoutError::RankMismatch { key, .. } => {
                (Some(key), 0)
            }
            LayoutError::Axes { .. } => (Some("axes"), 0),
            LayoutError::UnknownAxis { .. }
            | LayoutError::RepeatedInLevel { .. }
            | LayoutError::NotInOuterLevel { .. } => (Some("block"), 0),
            LayoutError::OrderLevels { .. } => (Some("order"), 0),
            LayoutError::MissingDigit { .. }
            | LayoutError::OverlappingDigits { .. }
            | LayoutError::MergeConflict { .. } => (Some("digits"), 0),
            LayoutError::SplitPoint { .. } => (Some("xla"), 0),
            LayoutError::OutOfBuffer { .. } => (Some("size"), 0),
            LayoutError::Overflow { .. }
            | LayoutError::Modes { .. }
            | LayoutError::Unbounded
            | LayoutError::Inexpressible { .. } => (None, 0),
        }
    }
}

/// A mistake in the text of a tensor type.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TextError {
    /// Byte offset in the text.
    pub offset: usize,
    /// The text found there.
    pub found: String,
    /// The text wanted there, or the defect.
    pub wanted: String,
    /// A guess at the intended text.
    pub hint: Option<String>,
    /// The rule of its notation that the layout breaks, if the text itself can be read.
    pub layout: Option<Box<LayoutError>>,
    /// The part of the text that contains the mistake.
    pub part: TextPart,
}

/// The part of a type's text that contains a mistake.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum TextPart {
    /// Element type, sizes and brackets, or the text of a notation other than XLA's.
    #[default]
    Type,
    /// XLA's layout.
    Layout,
    /// A tuple that nests too deeply.
    Depth,
}

impl std::fmt::Display for TextError {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let Self {
            offset,
            found,
            wanted,
            hint,
            layout,
            part: _,
        } = self;
        match layout {
            Some(error) => write!(f, "at character {offset}: {error}")?,
            None => write!(f, "at character {offset}: found {found}, expected {wanted}")?,
        }
        match hint {
            None => Ok(()),
            Some(hint) => write!(f, "; {hint}"),
        }
    }
}

impl std::error::Error for TextError {}

impl TextError {
    /// A mistake at byte `offset` of `text`.
    pub(crate) fn at(text: &str, offset: usize, wanted: &str) -> Self {
        let rest = text.get(offset..).unwrap_or_default();
        let end = |c: char| c.is_whitespace() || ",<>{}[]()=\"".contains(c);
        let len = rest.find(end).unwrap_or(rest.len());
        let found = match (&rest[..len], rest.chars().next()) {
            (_, None) => "the end".to_owned(),
            ("", Some(c)) => format!("`{c}`"),
            (word, _) => format!("`{word}`"),
        };
        Self {
            offset,
            found,
            wanted: wanted.to_owned(),
            hint: None,
            layout: None,
            part: TextPart::Type,
        }
    }
}
