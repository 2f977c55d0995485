//! The block notation: `block = "2W2H", order = [1, 0]`, a grid of blocks around their inside.
//!
//! For example, in this layout of a tensor of 4x8 (H is dimension 0, W is dimension 1) a block has 2x2 elements, H
//! counting fastest, and the 4x2 blocks are ordered with H counting fastest, too. Element (1, 2) is in block (W 1, H
//! 0), number 2, at (0, 1) inside it, and so at position 2 * 4 + 1 = 9.

use crate::build::{Builder, Steps};
use crate::error::LayoutError;
use crate::function::Function;
use crate::map::Renaming;
use crate::modes::Mode;
use crate::notation::fields::{Field, Fields, as_ints, permutation, syntax};
use crate::notation::scan::Scan;
use crate::notation::written::{Factor, Hints, Notate, Rules, Written, expect_rank};
use crate::placement::{Placement, Storage};

/// The block/order notation, checked against a rank but not against a shape.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct BlockNotation {
    /// Names of the dimensions, one letter each, if the text gives them.
    pub(crate) axes: Option<String>,
    /// True if dimensions are written by number.
    pub(crate) numbered: bool,
    /// Inside of the block, outermost level first, each major to minor.
    pub(crate) levels: Vec<Vec<Factor>>,
    /// Dimensions of the grid of blocks, major to minor.
    pub(crate) order: Vec<usize>,
    /// Orders of the sub-blocks, one for each level after the first; empty if not written.
    pub(crate) inner_orders: Vec<Vec<usize>>,
}

impl BlockNotation {
    /// A grid order with at most one level of inner factors, with the default names.
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

    /// Checks the rules for a level that another level cuts.
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

    /// A dimension's name in this notation: its letter, or `d` and its number.
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

    /// The notation of a layout as a grid around a single block.
    ///
    /// # Errors
    /// [`LayoutError::Inexpressible`] with the reason.
    pub(crate) fn grid(placement: &Placement) -> Result<Self, LayoutError> {
        let shape = placement.shape();
        if placement.elements() == 0 {
            return Ok(Self::simple((0..shape.len()).collect(), Vec::new()));
        }
        let modes = placement
            .modes()
            .ok_or_else(|| Self::refuse(no_modes(placement)))?;
        if let Some(order) = whole_order(shape, &modes) {
            return Ok(Self::simple(order, Vec::new()));
        }
        let found = (0..=modes.len())
            .rev()
            .find_map(|grid| block_at(shape, &modes, grid));
        found.ok_or_else(|| {
            Self::refuse("its digits are not a grid of dimensions around one block each")
        })
    }
}

impl Written for BlockNotation {
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

    fn function(&self, shape: &[u64], storage: &mut Storage) -> Result<Function, LayoutError> {
        let rank = shape.len();
        expect_rank("order", self.order.len(), rank)?;
        if shape.contains(&0) {
            return Ok(Function::empty());
        }
        let overflow = |_| LayoutError::overflow(shape);
        let mut builder = Builder::new(shape).map_err(overflow)?;
        let mut inside: Vec<usize> = (0..rank).collect();
        let mut physical = Vec::new();
        let identity: Vec<usize> = (0..rank).collect();
        for (i, level) in self.levels.iter().enumerate() {
            let mut outside = Vec::with_capacity(rank);
            for (dim, axis) in inside.iter_mut().enumerate() {
                let own = level.iter().filter(|factor| factor.dim == dim);
                let size = own
                    .map(|factor| factor.extent)
                    .try_fold(1u64, u64::checked_mul);
                let size = size.ok_or_else(|| LayoutError::overflow(shape))?;
                let (outer, inner) = builder.cut(*axis, size).map_err(overflow)?;
                outside.push(outer);
                *axis = inner;
            }
            let order: Vec<usize> = match i.checked_sub(1) {
                None => self.order.clone(),
                Some(j) => match self.inner_orders.get(j) {
                    Some(order) => order.clone(),
                    None => outer_dims(&self.levels[j], &identity),
                },
            };
            physical.extend(order.iter().map(|&dim| outside[dim]));
        }
        match self.levels.last() {
            None => physical.extend(self.order.iter().map(|&dim| inside[dim])),
            Some(level) => {
                for (i, factor) in level.iter().enumerate() {
                    let later = level[i + 1..]
                        .iter()
                        .filter(|other| other.dim == factor.dim);
                    let below = later.map(|other| other.extent).product::<u64>();
                    let (outer, inner) =
                        builder.cut(inside[factor.dim], below).map_err(overflow)?;
                    physical.push(outer);
                    inside[factor.dim] = inner;
                }
            }
        }
        let (chain, positions) = builder.finish(&physical).map_err(overflow)?;
        storage.positions = positions;
        Ok(Function::logical(chain, 0))
    }

    fn hints(&self) -> Hints<'_> {
        Hints {
            blocks: Some((&self.order, &self.levels)),
            ..Hints::default()
        }
    }

    /// A guess at the intended dimension: the block is larger than the dimension it names and fits another one.
    fn mistake(&self, shape: &[u64]) -> Option<String> {
        if self.axes.is_some() || self.numbered {
            return None;
        }
        let letters = default_axes(shape.len())?;
        let factor = self
            .levels
            .first()?
            .iter()
            .find(|f| shape[f.dim] < f.extent)?;
        let fits = |&dim: &usize| {
            let size = shape[dim];
            dim != factor.dim && 0 < size && size.is_multiple_of(factor.extent)
        };
        let meant = (0..shape.len()).rev().find(fits)?;
        let (letter, size) = (self.axis_name(factor.dim), shape[factor.dim]);
        let other = format!("{}{}", factor.extent, self.axis_name(meant));
        let axes = match (letter.as_str(), shape.len()) {
            ("W", 3) if meant == 2 => " or axes = \"NHW\"",
            ("W", 4) if meant == 3 => " or axes = \"NCHW\"",
            ("W", 5) if meant == 4 => " or axes = \"NCDHW\"",
            _ => "",
        };
        let dim = factor.dim;
        let what = format!("{letter} is dimension {dim} (size {size}) of {letters}");
        Some(format!("{what}; did you mean {other}{axes}?"))
    }
}

impl Notate for BlockNotation {
    const RULES: Rules = Rules {
        name: "block",
        summary: "Blocks and their order",
        own: &["axes", "block", "order"],
        others: &[],
        wanted: "one of axes, block, order",
        choice: 0,
        says_storage: false,
    };

    fn from_fields(fields: &Fields<'_>, rank: usize) -> Result<Self, LayoutError> {
        let axes = fields
            .text("axes")?
            .map(|text| checked_axes(text, rank))
            .transpose()?;
        let (levels, numbered) = match fields.text("block")? {
            Some(text) => BlockText {
                scan: Scan::new(text),
                axes: axes.as_deref(),
                rank,
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

    /// A layout that is written as nested tiles becomes nested blocks if possible.
    fn of(placement: &Placement, hints: &Hints<'_>) -> Result<Self, LayoutError> {
        let block = Self::grid(placement)?;
        let nested = (1 < hints.nested).then(|| nested(&block)).flatten();
        let means_it = |block: &Self| {
            let again = block.place(placement.shape(), placement.storage().type_bits);
            again.is_ok_and(|again| again.same_function(placement))
        };
        Ok(nested.filter(means_it).unwrap_or(block))
    }

    /// The same block on some dimension of the result, if the function has one.
    fn like(&self, placement: &Placement) -> Option<Self> {
        let [level] = self.levels.as_slice() else {
            return None;
        };
        let &[Factor { extent, .. }] = level.as_slice() else {
            return None;
        };
        let shape = placement.shape();
        let order = whole_order(shape, &placement.modes()?)?;
        let dim = order.iter().rev().copied().find(|&dim| 1 < shape[dim])?;
        // The innermost dimension is in one block, or in several without a gap.
        let same = shape[dim].is_multiple_of(extent);
        same.then(|| Self::simple(order, vec![Factor { extent, dim }]))
    }

    fn transposed(&self, renaming: &Renaming<'_>) -> Option<Self> {
        let order = renaming.all(&self.order);
        if self.levels.is_empty() && order.is_sorted() && self.axes.is_none() {
            return None;
        }
        let letter = |axes: &String| {
            let letters = renaming.perm.iter().map(|&old| axes.chars().nth(old));
            letters.flatten().collect()
        };
        let renamed = |f: &Factor| Factor {
            dim: renaming.new[f.dim],
            ..*f
        };
        let level = |level: &Vec<Factor>| level.iter().map(renamed).collect();
        let inner_orders = self.inner_orders.iter();
        Some(Self {
            axes: self.axes.as_ref().map(letter),
            numbered: self.numbered,
            levels: self.levels.iter().map(level).collect(),
            order,
            inner_orders: inner_orders.map(|order| renaming.all(order)).collect(),
        })
    }
}

/// The dimensions in the order of a level, then the others.
fn outer_dims(level: &[Factor], all: &[usize]) -> Vec<usize> {
    let named = level.iter().map(|factor| factor.dim);
    let others = all
        .iter()
        .copied()
        .filter(|dim| level.iter().all(|f| f.dim != *dim));
    named.chain(others).collect()
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

/// Checks that `axes` has one distinct letter per dimension.
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

/// The most block sizes that a `block` has. At most 62 of them can be above 1, since their product is below 2^63. The
/// bound limits the cost of a text with many ones.
const MAX_FACTORS: usize = 256;

/// Reader of the text of a `block` key.
struct BlockText<'a> {
    scan: Scan<'a>,
    axes: Option<&'a str>,
    rank: usize,
}

impl BlockText<'_> {
    fn levels(mut self) -> Result<(Vec<Vec<Factor>>, bool), LayoutError> {
        let (mut levels, mut level) = (Vec::new(), Vec::new());
        let (mut by_letter, mut by_number) = (false, false);
        let mut factors = 0;
        loop {
            self.scan.skip_spaces();
            match self.scan.peek() {
                Some('|') if !level.is_empty() => {
                    self.scan.at += 1;
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
        let start = self.scan.at;
        let extent = self.number()?;
        if extent == 0 {
            self.scan.at = start;
            return Err(self.error("a block size of 1 or more"));
        }
        let (dim, numbered) = self.axis()?;
        Ok((Factor { extent, dim }, numbered))
    }

    fn axis(&mut self) -> Result<(usize, bool), LayoutError> {
        let letters = self.axes.or(default_axes(self.rank)).unwrap_or("");
        let Some(letter) = self.scan.peek().filter(char::is_ascii_alphabetic) else {
            return Err(self.error("the letter of a dimension"));
        };
        self.scan.at += 1;
        if let Some(dim) = letters.chars().position(|other| other == letter) {
            return Ok((dim, false));
        }
        let numbered = letter == 'd' && self.scan.peek().is_some_and(|c| c.is_ascii_digit());
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
        let number = self.scan.number();
        number.ok_or_else(|| self.error("a number below 2^63"))
    }

    fn error(&self, wanted: &str) -> LayoutError {
        syntax("block", self.scan.text, self.scan.at, wanted)
    }
}

/// The order of the dimensions; `None` unless each is one dense mode. Dimensions of size 1 are placed before the first
/// dimension with a larger number.
fn whole_order(shape: &[u64], modes: &[Mode]) -> Option<Vec<usize>> {
    let whole =
        |mode: &Mode| mode.div == 1 && mode.count == mode.extent && mode.count == shape[mode.dim];
    if !modes.iter().all(whole) {
        return None;
    }
    Some(with_units(
        shape,
        modes.iter().map(|mode| mode.dim).collect(),
    ))
}

/// Adds the dimensions that `order` lacks, each before the first dimension with a larger number.
fn with_units(shape: &[u64], mut order: Vec<usize>) -> Vec<usize> {
    for dim in 0..shape.len() {
        if !order.contains(&dim) {
            let place = order
                .iter()
                .position(|&other| dim < other)
                .unwrap_or(order.len());
            order.insert(place, dim);
        }
    }
    order
}

/// Nests a block with repeated dimensions: `4H128W2H` becomes `8H128W|2H1W`, each dimension once per level, and in both
/// levels.
fn nested(block: &BlockNotation) -> Option<BlockNotation> {
    let [factors] = &block.levels[..] else {
        return None;
    };
    let repeats = |(i, factor): (usize, &Factor)| factors[..i].iter().any(|f| f.dim == factor.dim);
    let cut = factors.iter().enumerate().position(repeats)?;
    let (outer, inner) = factors.split_at(cut);
    let named = |factor: &Factor| outer.iter().any(|f| f.dim == factor.dim);
    if !inner.iter().all(named) {
        return None;
    }
    let inside = |dim: usize| inner.iter().find(|f| f.dim == dim).map_or(1, |f| f.extent);
    let whole = |factor: &Factor| {
        let extent = factor.extent.checked_mul(inside(factor.dim))?;
        Some(Factor { extent, ..*factor })
    };
    let units = outer
        .iter()
        .filter(|f| inner.iter().all(|g| g.dim != f.dim));
    let units = units.map(|f| Factor { extent: 1, ..*f });
    let levels = vec![
        outer.iter().map(whole).collect::<Option<_>>()?,
        inner.iter().copied().chain(units).collect(),
    ];
    Some(BlockNotation {
        levels,
        ..block.clone()
    })
}

/// The reason why a layout has no modes.
fn no_modes(placement: &Placement) -> &'static str {
    if placement.function().order.is_some() {
        "it cuts across merged dimensions"
    } else if placement.function().offset != 0 {
        "element 0 does not lie at offset 0"
    } else {
        "its dimensions are not cut into digits that fill the buffer"
    }
}

/// A block notation whose grid is the first `grid` modes.
fn block_at(shape: &[u64], modes: &[Mode], grid: usize) -> Option<BlockNotation> {
    let (outer, inner) = modes.split_at(grid);
    let mut size = vec![1u64; shape.len()];
    for mode in inner.iter().rev() {
        // Inside the block the digits of a dimension follow one another, the leftmost is the most significant.
        if mode.div != size[mode.dim] {
            return None;
        }
        size[mode.dim] = mode.div.checked_mul(mode.extent)?;
    }
    let mut order = Vec::with_capacity(shape.len());
    for mode in outer {
        let blocks = shape[mode.dim].div_ceil(size[mode.dim]);
        if order.contains(&mode.dim) || mode.div != size[mode.dim] || mode.extent != blocks {
            return None;
        }
        order.push(mode.dim);
    }
    let covered = |dim: usize| order.contains(&dim) || shape[dim] <= size[dim];
    if !(0..shape.len()).all(covered) {
        return None;
    }
    let factor = |mode: &Mode| Factor {
        extent: mode.extent,
        dim: mode.dim,
    };
    let factors = inner.iter().map(factor).collect();
    Some(BlockNotation::simple(with_units(shape, order), factors))
}
