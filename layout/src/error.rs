//! Why a layout cannot be read or built.

/// Why a layout's text or numbers are refused.
///
/// Messages are lower-case, without a final period, and say what was found and what was wanted.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum LayoutError {
    /// A key that no notation has.
    #[error("unknown layout key `{key}`, expected {wanted}")]
    UnknownKey {
        /// The key as written.
        key: String,
        /// The keys that may stand here.
        wanted: String,
    },
    /// A key that stands twice.
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
        /// What is allowed.
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
        /// What stands there.
        found: String,
        /// What should.
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
    /// A number of axis letters that is not the rank.
    #[error("`axes = \"{axes}\"` names {found} dimensions, expected {rank} different letters")]
    Axes {
        /// The letters as written.
        axes: String,
        /// How many there are.
        found: usize,
        /// The number of dimensions.
        rank: usize,
    },
    /// A letter of a block that names no dimension.
    #[error("`{letter}` names no dimension, expected {wanted}")]
    UnknownAxis {
        /// The name as written.
        letter: String,
        /// The names there are.
        wanted: String,
    },
    /// Lists of orders that do not fit the levels of the block.
    #[error("`order` has {found} lists for {levels} levels, expected one a level")]
    OrderLevels {
        /// How many lists there are.
        found: usize,
        /// How many levels the block has.
        levels: usize,
    },
    /// A level that another cuts names a dimension twice.
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
        /// How many entries there are.
        found: usize,
        /// The number of dimensions.
        rank: usize,
    },
    /// Sizes that do not fit in 63 bits: positions, or bytes where padding makes them.
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
    /// Digits that leave a part of an index out.
    #[error("no digit holds {part}: elements would share a position")]
    MissingDigit {
        /// The part, as an expression of the notation.
        part: String,
    },
    /// Digits that hold a part of an index twice or cut across each other.
    #[error("digit `{digit}` overlaps digit `{other}`: together they are no mixed radix")]
    OverlappingDigits {
        /// The digit.
        digit: String,
        /// The digit that it overlaps.
        other: String,
    },
    /// Merges that do not follow one order of the dimensions.
    #[error("`{merge}` does not go with the other merges of its dimensions")]
    MergeConflict {
        /// The merge as written.
        merge: String,
    },
    /// A dimension of unknown size without a bound.
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
    /// Physical digits that are no mixed radix of their dimensions.
    #[error("the digits of dimension {dim} do not cover its {size} indices once each")]
    Modes {
        /// The dimension.
        dim: usize,
        /// Its size.
        size: u64,
    },
    /// A notation that cannot say this function.
    #[error("{notation} notation cannot express this layout: {reason}")]
    Inexpressible {
        /// The notation's name.
        notation: &'static str,
        /// Why not.
        reason: String,
    },
}

impl LayoutError {
    /// The encoding's key at whose value the mistake lies, and the byte offset in a string value.
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
    /// What stands there.
    pub found: String,
    /// What was wanted, or what is wrong.
    pub wanted: String,
    /// What the writer may have meant.
    pub hint: Option<String>,
    /// The rule of its notation that the layout breaks, where the text itself reads.
    pub layout: Option<Box<LayoutError>>,
    /// What part of the text it stands in.
    pub part: TextPart,
}

/// The part of a type's text in which a mistake stands.
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
