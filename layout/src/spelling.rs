//! How a layout is written: the encoding's keys, parsed and printed.

use std::fmt;

use crate::digits::DigitsSpelling;
use crate::error::LayoutError;
use crate::xla::XlaSpelling;

/// A value of one key of the encoding dictionary, as the IR's parser hands it over.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum Field {
    /// `offset = 3`
    Int(i64),
    /// `block = "2W2H"`
    Str(String),
    /// `order = [1, 0]`
    Ints(Vec<i64>),
    /// `order = [[0, 1], [1, 0]]`
    IntLists(Vec<Vec<i64>>),
}

/// How a layout is written; the same function may have many spellings.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum Spelling {
    /// No encoding: row-major and dense.
    RowMajor,
    /// `axes`, `block`, `order`.
    Block(BlockSpelling),
    /// `strides`, `offset`, `size`.
    Strided(StridedSpelling),
    /// `digits`, `tail`, `space`, `ebits`, `offset`, `size`.
    Digits(DigitsSpelling),
    /// `xla`.
    Xla(XlaSpelling),
}

/// The notations that a layout can be asked to be written in.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Notation {
    /// `block` and `order`.
    Block,
    /// `strides`, `offset` and `size`.
    Strided,
    /// `digits`.
    Digits,
    /// XLA's `minor_to_major` and tiles.
    Xla,
}

impl Notation {
    /// The notation's name on the command line.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Notation::Block => "block",
            Notation::Strided => "strided",
            Notation::Digits => "digits",
            Notation::Xla => "xla",
        }
    }
}

/// One factor of a block: `extent` steps of dimension `dim`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Factor {
    /// How many steps, at least 1.
    pub extent: u64,
    /// The logical dimension.
    pub dim: usize,
}

/// The block/order notation, checked against a rank but not against a shape.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct BlockSpelling {
    /// Names of the dimensions, one letter each, where the text gives them.
    pub(crate) axes: Option<String>,
    /// Whether dimensions are written by number.
    pub(crate) numbered: bool,
    /// Inside of the block, outermost level first, each major to minor.
    pub(crate) levels: Vec<Vec<Factor>>,
    /// Dimensions of the grid of blocks, major to minor.
    pub(crate) order: Vec<usize>,
    /// Orders of the sub-blocks, one a level after the first, or empty when not written.
    pub(crate) inner_orders: Vec<Vec<usize>>,
}

/// The strided notation, all in elements.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct StridedSpelling {
    /// Distance between neighbours along each dimension.
    pub(crate) strides: Vec<i64>,
    /// Offset of element 0.
    pub(crate) offset: u64,
    /// Positions of the buffer where the text gives them.
    pub(crate) size: Option<u64>,
}

const KEYS: &str =
    "one of axes, block, digits, ebits, offset, order, size, space, strides, tail, xla";

/// The fields of an encoding, looked up by key.
pub(crate) struct Fields<'a>(&'a [(String, Field)]);

impl<'a> Fields<'a> {
    fn new(fields: &'a [(String, Field)]) -> Result<Self, LayoutError> {
        for (i, (key, _)) in fields.iter().enumerate() {
            if fields[..i].iter().any(|(other, _)| other == key) {
                return Err(LayoutError::RepeatedKey { key: key.clone() });
            }
        }
        Ok(Self(fields))
    }

    fn get(&self, key: &str) -> Option<&'a Field> {
        self.0
            .iter()
            .find(|(name, _)| name == key)
            .map(|(_, field)| field)
    }

    fn only(&self, keys: &[&str], wanted: &'static str) -> Result<(), LayoutError> {
        match self.0.iter().find(|(key, _)| !keys.contains(&key.as_str())) {
            Some((key, _)) => Err(LayoutError::UnknownKey {
                key: key.clone(),
                wanted,
            }),
            None => Ok(()),
        }
    }

    pub(crate) fn text(&self, key: &str) -> Result<Option<&'a str>, LayoutError> {
        match self.get(key) {
            None => Ok(None),
            Some(Field::Str(text)) => Ok(Some(text)),
            Some(_) => Err(LayoutError::FieldKind {
                key: key.to_owned(),
                wanted: "a string",
            }),
        }
    }

    pub(crate) fn int(&self, key: &str) -> Result<Option<i64>, LayoutError> {
        match self.get(key) {
            None => Ok(None),
            Some(Field::Int(value)) => Ok(Some(*value)),
            Some(_) => Err(LayoutError::FieldKind {
                key: key.to_owned(),
                wanted: "a number",
            }),
        }
    }

    /// A number that is at least `least`.
    pub(crate) fn natural(&self, key: &str, least: i64) -> Result<Option<u64>, LayoutError> {
        let Some(found) = self.int(key)? else {
            return Ok(None);
        };
        if found < least {
            let wanted = if least <= 0 { "0 or more" } else { "1 or more" };
            return Err(LayoutError::FieldRange {
                key: key.to_owned(),
                found,
                wanted,
            });
        }
        Ok(Some(found.unsigned_abs()))
    }

    fn ints(&self, key: &str) -> Result<Option<&'a [i64]>, LayoutError> {
        match self.get(key) {
            None => Ok(None),
            Some(Field::Ints(list)) => Ok(Some(list)),
            Some(Field::IntLists(lists)) if lists.is_empty() => Ok(Some(&[])),
            Some(_) => Err(LayoutError::FieldKind {
                key: key.to_owned(),
                wanted: "a list of numbers",
            }),
        }
    }
}

impl Spelling {
    /// Reads the keys of an encoding for a tensor of `rank` dimensions; none is row-major.
    ///
    /// # Errors
    /// Unknown, repeated or mixed keys, and every mistake inside a value that the rank alone
    /// shows. What depends on the sizes is checked by [`crate::Layout::new`].
    pub fn from_fields(fields: &[(String, Field)], rank: usize) -> Result<Spelling, LayoutError> {
        let fields = Fields::new(fields)?;
        let has = |key| fields.get(key).is_some();
        if fields.0.is_empty() {
            Ok(Spelling::RowMajor)
        } else if has("xla") {
            fields.only(&["xla"], "`xla` alone")?;
            let text = fields.text("xla")?.unwrap_or_default();
            XlaSpelling::parse(text, rank).map(Spelling::Xla)
        } else if has("digits") {
            let keys = ["digits", "ebits", "offset", "size", "space", "tail"];
            fields.only(
                &keys,
                "beside `digits` only ebits, offset, size, space, tail",
            )?;
            DigitsSpelling::from_fields(&fields, rank).map(Spelling::Digits)
        } else if has("strides") {
            fields.only(
                &["strides", "offset", "size"],
                "beside `strides` only offset, size",
            )?;
            StridedSpelling::from_fields(&fields, rank).map(Spelling::Strided)
        } else if has("block") || has("order") || has("axes") {
            fields.only(&["axes", "block", "order"], "one of axes, block, order")?;
            BlockSpelling::from_fields(&fields, rank).map(Spelling::Block)
        } else {
            fields.only(&[], KEYS)?;
            Ok(Spelling::RowMajor)
        }
    }

    /// The canonical keys and values, in alphabetical order; none for row-major.
    #[must_use]
    pub fn fields(&self) -> Vec<(String, Field)> {
        let fields = match self {
            Spelling::RowMajor => Vec::new(),
            Spelling::Block(block) => block.fields(),
            Spelling::Strided(strided) => strided.fields(),
            Spelling::Digits(digits) => digits.fields(),
            Spelling::Xla(xla) => vec![("xla", Field::Str(xla.to_string()))],
        };
        fields
            .into_iter()
            .map(|(key, field)| (key.to_owned(), field))
            .collect()
    }

    /// The notation that this spelling uses; `None` for row-major without an encoding.
    #[must_use]
    pub fn notation(&self) -> Option<Notation> {
        match self {
            Spelling::RowMajor => None,
            Spelling::Block(_) => Some(Notation::Block),
            Spelling::Strided(_) => Some(Notation::Strided),
            Spelling::Digits(_) => Some(Notation::Digits),
            Spelling::Xla(_) => Some(Notation::Xla),
        }
    }

    /// The memory space that is written, 0 where none is.
    #[must_use]
    pub fn space(&self) -> u32 {
        match self {
            Spelling::RowMajor | Spelling::Block(_) | Spelling::Strided(_) => 0,
            Spelling::Digits(digits) => digits.space,
            Spelling::Xla(xla) => xla.space,
        }
    }

    /// The bits that an element of a type of `type_bits` bits takes: in XLA's notation whole bytes, unless
    /// it says otherwise.
    #[must_use]
    pub fn element_bits(&self, type_bits: u32) -> u32 {
        match self {
            Spelling::RowMajor | Spelling::Block(_) | Spelling::Strided(_) => type_bits,
            Spelling::Digits(digits) => digits.element_bits.unwrap_or(type_bits),
            Spelling::Xla(xla) => match xla.element_bits {
                0 => type_bits.checked_next_multiple_of(8).unwrap_or(type_bits),
                bits => bits,
            },
        }
    }
}

/// The canonical text between the braces: `block = "2W2H", order = [1, 0]`.
impl fmt::Display for Spelling {
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

/// Indices as the numbers of a field.
fn as_ints(list: &[usize]) -> Vec<i64> {
    list.iter()
        .map(|&i| i64::try_from(i).unwrap_or(i64::MAX))
        .collect()
}

/// Checks that `list` is a permutation of `0..rank`.
pub(crate) fn permutation(
    key: &'static str,
    list: &[i64],
    rank: usize,
) -> Result<Vec<usize>, LayoutError> {
    let error = || LayoutError::NotPermutation {
        key,
        found: list.to_vec(),
        rank,
    };
    let mut seen = vec![false; rank];
    let mut order = Vec::with_capacity(rank);
    for &entry in list {
        let dim = usize::try_from(entry)
            .ok()
            .filter(|&dim| dim < rank)
            .ok_or_else(error)?;
        if std::mem::replace(&mut seen[dim], true) {
            return Err(error());
        }
        order.push(dim);
    }
    if order.len() == rank {
        Ok(order)
    } else {
        Err(error())
    }
}

/// The default letters of a rank, if it has any.
pub(crate) fn default_axes(rank: usize) -> Option<&'static str> {
    match rank {
        1 => Some("W"),
        2 => Some("HW"),
        3 => Some("HWC"),
        4 => Some("NHWC"),
        5 => Some("NDHWC"),
        _ => None,
    }
}

impl StridedSpelling {
    fn from_fields(fields: &Fields<'_>, rank: usize) -> Result<Self, LayoutError> {
        let strides = fields.ints("strides")?.unwrap_or(&[]).to_vec();
        if strides.len() != rank {
            return Err(LayoutError::RankMismatch {
                key: "strides",
                found: strides.len(),
                rank,
            });
        }
        let offset = fields.natural("offset", 0)?.unwrap_or(0);
        Ok(Self {
            strides,
            offset,
            size: fields.natural("size", 0)?,
        })
    }

    fn fields(&self) -> Vec<(&'static str, Field)> {
        let mut fields = Vec::new();
        if self.offset != 0 {
            fields.push(("offset", Field::Int(self.offset as i64)));
        }
        if let Some(size) = self.size {
            fields.push(("size", Field::Int(size as i64)));
        }
        fields.push(("strides", Field::Ints(self.strides.clone())));
        fields
    }

    /// Elements between neighbours along each dimension.
    #[must_use]
    pub fn strides(&self) -> &[i64] {
        &self.strides
    }

    /// Offset of element 0 in elements.
    #[must_use]
    pub fn offset(&self) -> u64 {
        self.offset
    }
}

impl BlockSpelling {
    /// A grid order with at most one level of inner factors, all by the default names.
    pub(crate) fn simple(order: Vec<usize>, factors: Vec<Factor>) -> Self {
        let levels = if factors.is_empty() {
            Vec::new()
        } else {
            vec![factors]
        };
        let numbered = default_axes(order.len()).is_none();
        Self {
            axes: None,
            numbered,
            levels,
            order,
            inner_orders: Vec::new(),
        }
    }

    fn from_fields(fields: &Fields<'_>, rank: usize) -> Result<Self, LayoutError> {
        let axes = fields
            .text("axes")?
            .map(|text| checked_axes(text, rank))
            .transpose()?;
        let (levels, numbered) = match fields.text("block")? {
            Some(text) => BlockText {
                text,
                axes: axes.as_deref(),
                rank,
                at: 0,
            }
            .levels()?,
            None => (Vec::new(), default_axes(rank).is_none()),
        };
        let (order, inner_orders) = read_orders(fields, rank, levels.len())?;
        let block = Self {
            axes,
            numbered,
            levels,
            order,
            inner_orders,
        };
        block.check_levels()?;
        Ok(block)
    }

    /// The rules for a level that another level cuts.
    fn check_levels(&self) -> Result<(), LayoutError> {
        for (i, pair) in self.levels.windows(2).enumerate() {
            let [outer, inner] = pair else { continue };
            for (j, factor) in outer.iter().enumerate() {
                if outer[..j].iter().any(|other| other.dim == factor.dim) {
                    let axis = self.axis_name(factor.dim);
                    return Err(LayoutError::RepeatedInLevel { level: i + 1, axis });
                }
            }
            let missing = |factor: &&Factor| outer.iter().all(|other| other.dim != factor.dim);
            if let Some(factor) = inner.iter().find(missing) {
                let axis = self.axis_name(factor.dim);
                return Err(LayoutError::NotInOuterLevel { level: i + 2, axis });
            }
        }
        Ok(())
    }

    /// A dimension's name in this spelling: its letter, or `d` and its number.
    #[must_use]
    pub fn axis_name(&self, dim: usize) -> String {
        let letters = self.axes.as_deref().or(default_axes(self.order.len()));
        match letters.and_then(|letters| letters.chars().nth(dim)) {
            Some(letter) if !self.numbered => letter.to_string(),
            _ => format!("d{dim}"),
        }
    }

    /// Dimensions of the grid of blocks, major to minor.
    #[must_use]
    pub fn order(&self) -> &[usize] {
        &self.order
    }

    /// The inside of the block, outermost level first, each level major to minor.
    #[must_use]
    pub fn levels(&self) -> &[Vec<Factor>] {
        &self.levels
    }

    /// The text of the `block` key; empty without a block.
    #[must_use]
    pub fn block_text(&self) -> String {
        let space = if self.numbered { " " } else { "" };
        let level = |factors: &Vec<Factor>| {
            let one = |factor: &Factor| format!("{}{}", factor.extent, self.axis_name(factor.dim));
            factors.iter().map(one).collect::<Vec<_>>().join(space)
        };
        self.levels.iter().map(level).collect::<Vec<_>>().join("|")
    }

    fn fields(&self) -> Vec<(&'static str, Field)> {
        let mut fields = Vec::new();
        if let Some(axes) = &self.axes {
            fields.push(("axes", Field::Str(axes.clone())));
        }
        if !self.levels.is_empty() {
            fields.push(("block", Field::Str(self.block_text())));
        }
        let order = as_ints(&self.order);
        if self.inner_orders.is_empty() {
            fields.push(("order", Field::Ints(order)));
        } else {
            let inner = self.inner_orders.iter().map(|list| as_ints(list));
            fields.push((
                "order",
                Field::IntLists(std::iter::once(order).chain(inner).collect()),
            ));
        }
        fields
    }
}

/// Checks that `axes` has one letter a dimension, each once.
fn checked_axes(axes: &str, rank: usize) -> Result<String, LayoutError> {
    let distinct = |(i, letter): (usize, char)| {
        letter.is_ascii_alphabetic() && !axes.chars().take(i).any(|other| other == letter)
    };
    let found = axes.chars().count();
    if found == rank && axes.chars().enumerate().all(distinct) {
        Ok(axes.to_owned())
    } else {
        Err(LayoutError::Axes {
            axes: axes.to_owned(),
            found,
            rank,
        })
    }
}

/// The grid's order and the inner orders; a missing `order` is the identity.
fn read_orders(
    fields: &Fields<'_>,
    rank: usize,
    levels: usize,
) -> Result<(Vec<usize>, Vec<Vec<usize>>), LayoutError> {
    match fields.get("order") {
        None => Ok(((0..rank).collect(), Vec::new())),
        Some(Field::IntLists(lists)) if !lists.is_empty() => {
            if lists.len() != levels.max(1) {
                return Err(LayoutError::OrderLevels {
                    found: lists.len(),
                    levels,
                });
            }
            let mut orders = Vec::new();
            for list in lists {
                orders.push(permutation("order", list, rank)?);
            }
            let inner = orders.split_off(1);
            Ok((orders.swap_remove(0), inner))
        }
        Some(_) => {
            let list = fields.ints("order")?.unwrap_or(&[]);
            Ok((permutation("order", list, rank)?, Vec::new()))
        }
    }
}

/// The most block sizes that a `block` has. Those above 1 are at most 62, since their product is
/// below 2^63; the bound keeps a text of many ones from costing time beyond its worth.
const MAX_FACTORS: usize = 256;

/// Reader of the text of a `block` key.
struct BlockText<'a> {
    text: &'a str,
    axes: Option<&'a str>,
    rank: usize,
    at: usize,
}

impl BlockText<'_> {
    fn levels(mut self) -> Result<(Vec<Vec<Factor>>, bool), LayoutError> {
        let (mut levels, mut level) = (Vec::new(), Vec::new());
        let (mut by_letter, mut by_number) = (false, false);
        let mut factors = 0;
        loop {
            self.skip_spaces();
            match self.peek() {
                Some('|') if !level.is_empty() => {
                    self.at += 1;
                    levels.push(std::mem::take(&mut level));
                }
                Some(c) if c.is_ascii_digit() => {
                    factors += 1;
                    if MAX_FACTORS < factors {
                        return Err(self.error("at most 256 block sizes"));
                    }
                    let (factor, numbered) = self.factor()?;
                    by_letter |= !numbered;
                    by_number |= numbered;
                    level.push(factor);
                }
                None if !level.is_empty() => {
                    levels.push(level);
                    return Ok((levels, by_number && !by_letter));
                }
                _ => return Err(self.error("a block size followed by a dimension")),
            }
        }
    }

    fn factor(&mut self) -> Result<(Factor, bool), LayoutError> {
        let start = self.at;
        let extent = self.number()?;
        if extent == 0 {
            self.at = start;
            return Err(self.error("a block size of 1 or more"));
        }
        let (dim, numbered) = self.axis()?;
        Ok((Factor { extent, dim }, numbered))
    }

    fn axis(&mut self) -> Result<(usize, bool), LayoutError> {
        let letters = self.axes.or(default_axes(self.rank)).unwrap_or("");
        let Some(letter) = self.peek().filter(char::is_ascii_alphabetic) else {
            return Err(self.error("the letter of a dimension"));
        };
        self.at += 1;
        if let Some(dim) = letters.chars().position(|other| other == letter) {
            return Ok((dim, false));
        }
        let numbered = letter == 'd' && self.peek().is_some_and(|c| c.is_ascii_digit());
        let mut name = letter.to_string();
        if numbered {
            let number = self.number()?;
            if let Some(dim) = usize::try_from(number).ok().filter(|&dim| dim < self.rank) {
                return Ok((dim, true));
            }
            name = format!("d{number}");
        }
        let wanted = match (letters, self.rank) {
            (_, 0) => "none: the tensor has no dimensions".to_owned(),
            ("", rank) => format!("d0 to d{}", rank - 1),
            (letters, _) => format!("one of {letters}"),
        };
        Err(LayoutError::UnknownAxis {
            letter: name,
            wanted,
        })
    }

    fn number(&mut self) -> Result<u64, LayoutError> {
        let rest = &self.text[self.at..];
        let len = rest
            .find(|c: char| !c.is_ascii_digit())
            .unwrap_or(rest.len());
        let value = rest[..len].parse::<i64>();
        let value = value.map_err(|_| self.error("a number below 2^63"))?;
        self.at += len;
        Ok(value.unsigned_abs())
    }

    fn peek(&self) -> Option<char> {
        self.text[self.at..].chars().next()
    }

    fn skip_spaces(&mut self) {
        while self.peek() == Some(' ') {
            self.at += 1;
        }
    }

    fn error(&self, wanted: &str) -> LayoutError {
        syntax("block", self.text, self.at, wanted)
    }
}

/// A mistake at byte `offset` of the value of `key`.
pub(crate) fn syntax(key: &'static str, text: &str, offset: usize, wanted: &str) -> LayoutError {
    let found = match text.get(offset..).and_then(|rest| rest.chars().next()) {
        Some(c) => format!("`{c}`"),
        None => "the end".to_owned(),
    };
    LayoutError::Syntax {
        key,
        text: text.to_owned(),
        offset,
        found,
        wanted: wanted.to_owned(),
    }
}
