//! XLA's layout text, `1,0:T(8,128)(2,1)S(1)`, as the OpenXLA sources define it.
//!
//! For example, `1,0:T(2,2)` for a tensor of 3x5 pads it to 4x6 and lays it out as 2x3 tiles of 2x2. Element (2, 3) is
//! in tile (1, 1), at (0, 1) inside it, and so at position (1 * 3 + 1) * 4 + 1 = 17.

use std::fmt;

use crate::build::{BuildError, Builder, Steps};
use crate::chain::Chain;
use crate::error::LayoutError;
use crate::function::Function;
use crate::map::Renaming;
use crate::notation::block::BlockNotation;
use crate::notation::cursor::{Cursor, Mistake, Parsed, wanted_at};
use crate::notation::digits::DigitsNotation;
use crate::notation::fields::{Field, Fields, as_ints, permutation, syntax};
use crate::notation::sort::sorting_tiles;
use crate::notation::written::{Factor, Hints, Notate, Rules, Written, expect_rank};
use crate::placement::{Placement, Split, Storage};
use crate::program::Program;

/// One entry of a tile.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum TileDim {
    /// Tile size, at least 1.
    Size(u64),
    /// `*`: merged with the next more minor dimension.
    Combined,
}

/// A tiled layout in XLA's terms, checked against a rank but not against a shape.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct XlaNotation {
    /// Dimensions, most minor first.
    pub(crate) minor_to_major: Vec<usize>,
    /// Tiles in the order of application.
    pub(crate) tiles: Vec<Vec<TileDim>>,
    /// `L(n)`: the buffer is padded to a multiple of `n` elements.
    pub(crate) tail: u64,
    /// `E(n)`: bits of an element, 0 for the whole bytes of the type.
    pub(crate) element_bits: u32,
    /// `S(n)`: memory space.
    pub(crate) space: u32,
    /// `SC(d:p,..)`: dimensions that are cut into parts in different memories.
    pub(crate) splits: Vec<SplitConfig>,
    /// `M(n)`: bytes of dynamic sizes in front of the data.
    pub(crate) metadata_bytes: u64,
}

/// `SC(d:p1,p2)`: one dimension is cut into parts that lie in different memories.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct SplitConfig {
    /// The physical dimension, 0 the most major one.
    pub physical_dim: usize,
    /// The indices at which parts begin, rising, above 0 and below the dimension's size.
    pub points: Vec<u64>,
}

impl XlaNotation {
    pub(crate) fn untiled(minor_to_major: Vec<usize>) -> Self {
        Self {
            minor_to_major,
            tiles: Vec::new(),
            tail: 1,
            element_bits: 0,
            space: 0,
            splits: Vec::new(),
            metadata_bytes: 0,
        }
    }

    /// The default layout of a shape: dimensions descend, `{rank-1,...,0}`, and nothing is tiled.
    #[must_use]
    pub fn row_major(rank: usize) -> Self {
        Self::untiled((0..rank).rev().collect())
    }

    /// An untiled layout.
    ///
    /// # Errors
    /// The list is not a permutation of the dimensions.
    pub fn from_minor_to_major(minor_to_major: &[usize]) -> Result<Self, LayoutError> {
        let list = as_ints(minor_to_major);
        let rank = list.len();
        permutation("xla", &list, rank).map(Self::untiled)
    }

    /// Reads the text between XLA's braces for a tensor of `rank` dimensions.
    ///
    /// # Errors
    /// Everything that XLA's own parser or its layout validation refuses.
    pub fn parse(text: &str, rank: usize) -> Result<Self, LayoutError> {
        let mut cursor = Cursor::new(text, 0);
        let read = Self::read(&mut cursor, rank).and_then(|layout| match cursor.peek()? {
            None => Ok(layout),
            Some(_) => Err(cursor.wanted(AFTER_LAYOUT)),
        });
        read.map_err(|mistake| match mistake {
            Mistake::Syntax { offset, wanted, .. } | Mistake::Depth { offset, wanted } => {
                syntax("xla", text, offset, &wanted)
            }
            Mistake::Layout { error, .. } => *error,
        })
    }

    /// Dimensions, most minor first.
    #[must_use]
    pub fn minor_to_major(&self) -> &[usize] {
        &self.minor_to_major
    }

    /// The logical dimension at physical place `n` from the most minor one.
    #[must_use]
    pub fn minor(&self, n: usize) -> Option<usize> {
        self.minor_to_major.get(n).copied()
    }

    /// The logical dimension at physical place `n` from the most major one.
    #[must_use]
    pub fn major(&self, n: usize) -> Option<usize> {
        self.minor_to_major.iter().rev().nth(n).copied()
    }

    /// Tiles in the order of application.
    #[must_use]
    pub fn tiles(&self) -> &[Vec<TileDim>] {
        &self.tiles
    }

    /// `L(n)`: the buffer is padded to a multiple of this many elements; 1 for none.
    #[must_use]
    pub fn tail_alignment(&self) -> u64 {
        self.tail
    }

    /// `E(n)`: bits of an element, 0 for the whole bytes of its type.
    #[must_use]
    pub fn element_bits(&self) -> u32 {
        self.element_bits
    }

    /// `S(n)`: memory space; 0 main memory, 1 VMEM, 5 host.
    #[must_use]
    pub fn memory_space(&self) -> u32 {
        self.space
    }

    /// The layout in another memory space.
    #[must_use]
    pub fn in_space(&self, space: u32) -> Self {
        Self {
            space,
            ..self.clone()
        }
    }

    /// The layout with elements of this many bits, 0 for the whole bytes of their type.
    #[must_use]
    pub fn with_element_bits(&self, element_bits: u32) -> Self {
        Self {
            element_bits,
            ..self.clone()
        }
    }

    /// The layout with elements packed to the width of their type: `E(n)` if the width is not a multiple of 8.
    #[must_use]
    pub fn packed(&self, type_bits: u32) -> Self {
        self.with_element_bits(match type_bits % 8 {
            0 => 0,
            _ => type_bits,
        })
    }

    /// `SC(d:p,..)`: dimensions that are cut into parts in different memories.
    #[must_use]
    pub fn split_configs(&self) -> &[SplitConfig] {
        &self.splits
    }

    /// `M(n)`: bytes of dynamic sizes in front of the data. No size includes them.
    #[must_use]
    pub fn metadata_bytes(&self) -> u64 {
        self.metadata_bytes
    }

    /// The physical extents after all tiles, major to minor: the shape of the buffer after the pads, reshapes and
    /// transposes of the tiles.
    ///
    /// # Errors
    /// A shape of another rank, or extents of 2^63 and more.
    pub fn physical_shape(&self, shape: &[u64]) -> Result<Vec<u64>, LayoutError> {
        self.check_shape(shape)?;
        let axes: Vec<usize> = self.minor_to_major.iter().rev().copied().collect();
        if self.tiles.is_empty() {
            return Ok(axes.iter().map(|&dim| shape[dim]).collect());
        }
        let mut program = Program::new(shape);
        let tiled = self.tiled(&mut program, axes);
        let tiled = tiled.and_then(|axes| program.finish(axes));
        let (program, _) = tiled.map_err(|_| LayoutError::overflow(shape))?;
        let axes = program.axes().iter();
        Ok(axes.map(|&axis| program.extent(axis)).collect())
    }

    /// Checks properties that the text alone does not show: the rank, and split points against the sizes.
    ///
    /// # Errors
    /// The layout does not fit the shape.
    pub fn check_shape(&self, shape: &[u64]) -> Result<(), LayoutError> {
        let rank = self.minor_to_major.len();
        if rank != shape.len() {
            let (key, found) = ("xla", rank);
            return Err(LayoutError::RankMismatch {
                key,
                found,
                rank: shape.len(),
            });
        }
        for split in &self.splits {
            let dim = self.minor_to_major[rank - 1 - split.physical_dim];
            let size = shape[dim];
            if let Some(&point) = split.points.iter().find(|&&point| size <= point) {
                let physical_dim = split.physical_dim;
                return Err(LayoutError::SplitPoint {
                    physical_dim,
                    point,
                    size,
                });
            }
        }
        Ok(())
    }

    /// The dimension that a split cuts.
    fn split_dim(&self, split: &SplitConfig) -> Option<usize> {
        self.major(split.physical_dim)
    }

    /// Bytes of the largest part of a shape that is split over several memories (`SC`).
    ///
    /// # Errors
    /// Sizes that do not fit.
    pub(crate) fn part_bytes(&self, shape: &[u64], type_bits: u32) -> Result<u64, LayoutError> {
        let mut part = shape.to_vec();
        for split in &self.splits {
            let Some(dim) = self.split_dim(split) else {
                continue;
            };
            let ends = split.points.iter().copied().chain([shape[dim]]);
            let starts = [0].into_iter().chain(split.points.iter().copied());
            let sizes = starts
                .zip(ends)
                .map(|(start, end)| end.saturating_sub(start));
            part[dim] = sizes.max().unwrap_or(shape[dim]);
        }
        let whole = Self {
            splits: Vec::new(),
            ..self.clone()
        };
        Ok(whole.place(&part, type_bits)?.bytes())
    }

    /// The tiles with the element width and the memory space of a buffer.
    pub(crate) fn stored(self, storage: Storage) -> Self {
        let whole = storage.type_bits.checked_next_multiple_of(8);
        let own = whole.unwrap_or(storage.type_bits) == storage.bits;
        Self {
            space: storage.space,
            element_bits: if own { 0 } else { storage.bits },
            ..self
        }
    }

    /// The order in which the chain of [`Self::build`] counts the dimensions.
    fn chain_order(&self) -> Vec<usize> {
        let combined = self
            .tiles
            .iter()
            .flatten()
            .any(|dim| *dim == TileDim::Combined);
        if combined {
            self.minor_to_major.iter().rev().copied().collect()
        } else {
            (0..self.minor_to_major.len()).collect()
        }
    }

    /// The positions, and the buffer's size with its tail. No dimension may be zero.
    fn build(&self, shape: &[u64]) -> Result<(Function, u64), BuildError> {
        let (function, positions) = match self.chain(shape) {
            Ok((chain, positions)) => {
                let order = self.chain_order();
                (Function::new(&order, chain, shape, 0), positions)
            }
            Err(BuildError::Overflow) => return Err(BuildError::Overflow),
            Err(BuildError::AcrossPadding) => {
                let mut program = Program::new(shape);
                let axes = self.minor_to_major.iter().rev().copied().collect();
                let axes = self.tiled(&mut program, axes)?;
                let (program, positions) = program.finish(axes)?;
                (Function::program(program), positions)
            }
        };
        let padded = positions.checked_next_multiple_of(self.tail);
        let padded = padded.filter(|&padded| i64::try_from(padded).is_ok());
        Ok((function, padded.ok_or(BuildError::Overflow)?))
    }

    /// Positions over [`Self::chain_order`], and their number without the tail.
    fn chain(&self, shape: &[u64]) -> Result<(Chain, u64), BuildError> {
        let order = self.chain_order();
        let sizes: Vec<u64> = order.iter().map(|&dim| shape[dim]).collect();
        let mut builder = Builder::new(&sizes)?;
        let place = |dim: &usize| order.iter().position(|other| other == dim);
        let axes: Vec<usize> = self.minor_to_major.iter().rev().filter_map(place).collect();
        let axes = self.tiled(&mut builder, axes)?;
        builder.finish(&axes)
    }

    /// The axes after all tiles.
    fn tiled(
        &self,
        steps: &mut impl Steps,
        mut axes: Vec<usize>,
    ) -> Result<Vec<usize>, BuildError> {
        for tile in &self.tiles {
            axes = apply_tile(steps, axes, tile)?;
        }
        Ok(axes)
    }
}

impl Written for XlaNotation {
    fn fields(&self) -> Vec<(&'static str, Field)> {
        vec![("xla", Field::Str(self.to_string()))]
    }

    fn function(&self, shape: &[u64], storage: &mut Storage) -> Result<Function, LayoutError> {
        expect_rank("xla", self.minor_to_major.len(), shape.len())?;
        if shape.contains(&0) {
            return Ok(Function::empty());
        }
        self.check_shape(shape)?;
        let (function, positions) = self
            .build(shape)
            .map_err(|_| LayoutError::overflow(shape))?;
        storage.positions = positions;
        Ok(function)
    }

    fn splits(&self) -> Vec<Split> {
        let split = |split: &SplitConfig| {
            let (dim, points) = (self.split_dim(split)?, split.points.clone());
            Some(Split { dim, points })
        };
        self.splits.iter().filter_map(split).collect()
    }

    fn space(&self) -> u32 {
        self.space
    }

    /// Whole bytes, unless `E(n)` states otherwise.
    fn element_bits(&self, type_bits: u32) -> u32 {
        match self.element_bits {
            0 => type_bits.checked_next_multiple_of(8).unwrap_or(type_bits),
            bits => bits,
        }
    }

    fn hints(&self) -> Hints<'_> {
        Hints {
            nested: self.tiles.len(),
            ..Hints::default()
        }
    }
}

impl Notate for XlaNotation {
    const RULES: Rules = Rules {
        name: "xla",
        summary: "Minor to major, and tiles",
        own: &["xla"],
        others: &[],
        wanted: "`xla` alone",
        choice: 3,
        says_storage: true,
    };

    fn from_fields(fields: &Fields<'_>, rank: usize) -> Result<Self, LayoutError> {
        Self::parse(fields.text("xla")?.unwrap_or_default(), rank)
    }

    fn of(placement: &Placement, hints: &Hints<'_>) -> Result<Self, LayoutError> {
        tiles_of_blocks(placement, hints).or_else(|error| {
            match (combined(placement), DigitsNotation::of_chain(placement)) {
                (Some(xla), _) => Ok(xla),
                (None, Err(LayoutError::Inexpressible { reason, .. })) => Err(Self::refuse(reason)),
                (None, _) => Err(error),
            }
        })
    }

    /// Tiles that sort digits are longer than other notations, so only tiles of blocks are tried.
    fn like(&self, placement: &Placement) -> Option<Self> {
        tiles_of_blocks(placement, &Hints::default()).ok()
    }

    fn transposed(&self, renaming: &Renaming<'_>) -> Option<Self> {
        Some(Self {
            minor_to_major: renaming.all(&self.minor_to_major),
            ..self.clone()
        })
    }
}

/// Covers the most minor axes with a tile: block counts stay in place, and the insides move to the end.
fn apply_tile(
    builder: &mut impl Steps,
    mut axes: Vec<usize>,
    tile: &[TileDim],
) -> Result<Vec<usize>, BuildError> {
    while axes.len() < tile.len() {
        axes.insert(0, builder.unit_axis());
    }
    let covered = axes.split_off(axes.len() - tile.len());
    let mut inside = Vec::new();
    let mut carried: Option<usize> = None;
    for (&entry, &axis) in tile.iter().zip(&covered) {
        let axis = match carried.take() {
            Some(major) => builder.merge(major, axis)?,
            None => axis,
        };
        match entry {
            TileDim::Combined => carried = Some(axis),
            TileDim::Size(size) => {
                let (outer, inner) = builder.cut(axis, size)?;
                axes.push(outer);
                inside.push(inner);
            }
        }
    }
    axes.extend(inside);
    Ok(axes)
}

/// Canonical text, without spaces.
impl fmt::Display for XlaNotation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (i, dim) in self.minor_to_major.iter().enumerate() {
            write!(f, "{}{dim}", if i == 0 { "" } else { "," })?;
        }
        let mut colon = ":";
        for (i, tile) in self.tiles.iter().enumerate() {
            let letter = if i == 0 { "T" } else { "" };
            write!(f, "{}{letter}(", std::mem::take(&mut colon))?;
            for (j, dim) in tile.iter().enumerate() {
                let comma = if j == 0 { "" } else { "," };
                match dim {
                    TileDim::Size(size) => write!(f, "{comma}{size}")?,
                    TileDim::Combined => write!(f, "{comma}*")?,
                }
            }
            f.write_str(")")?;
        }
        let bits = u64::from(self.element_bits);
        let space = u64::from(self.space);
        for (letter, value, default) in [("L", self.tail, 1), ("E", bits, 0), ("S", space, 0)] {
            if value != default {
                write!(f, "{}{letter}({value})", std::mem::take(&mut colon))?;
            }
        }
        for (i, split) in self.splits.iter().enumerate() {
            let letters = if i == 0 { "SC" } else { "" };
            write!(f, "{}{letters}({split})", std::mem::take(&mut colon))?;
        }
        if self.metadata_bytes != 0 {
            write!(f, "{colon}M({})", self.metadata_bytes)?;
        }
        Ok(())
    }
}

/// `0:4,8`
impl fmt::Display for SplitConfig {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:", self.physical_dim)?;
        for (i, point) in self.points.iter().enumerate() {
            let comma = if i == 0 { "" } else { "," };
            write!(f, "{comma}{point}")?;
        }
        Ok(())
    }
}

const AFTER_LAYOUT: &str = "the end, or attributes in the order T, L, E, S, SC, M after `:`";

impl XlaNotation {
    /// Reads a layout up to the first token that does not belong to it.
    pub(crate) fn read(cursor: &mut Cursor<'_>, rank: usize) -> Parsed<XlaNotation> {
        cursor.skip()?;
        let start = cursor.position();
        let mut dims = Vec::with_capacity(rank);
        if cursor.peek()?.is_some_and(|c| c.is_ascii_digit()) {
            dims.push(number(cursor)?);
            while cursor.eat(b',')? {
                dims.push(number(cursor)?);
            }
        }
        let mut layout = XlaNotation::untiled(minor_to_major(dims, rank, start)?);
        if cursor.eat(b':')? {
            attributes(cursor, &mut layout)?;
        }
        cursor.skip()?;
        Ok(layout)
    }
}

/// The dimensions, each once; the layout begins at byte `start`.
fn minor_to_major(found: Vec<u64>, rank: usize, start: usize) -> Parsed<Vec<usize>> {
    let found: Vec<i64> = found.into_iter().map(u64::cast_signed).collect();
    permutation("xla", &found, rank).map_err(|error| Mistake::Layout {
        offset: start,
        error: Box::new(error),
    })
}

fn attributes(cursor: &mut Cursor<'_>, layout: &mut XlaNotation) -> Parsed<()> {
    if cursor.eat(b'D')? {
        level_types(cursor)?;
    }
    if cursor.eat(b'T')? {
        layout.tiles.push(tile(cursor)?);
        while cursor.peek()? == Some(b'(') {
            layout.tiles.push(tile(cursor)?);
        }
    }
    if cursor.eat(b'L')? {
        layout.tail = argument(cursor, 1)?;
    }
    if matches!(cursor.peek()?, Some(b'#' | b'*')) {
        return Err(cursor.wanted("no index or pointer type: a dense array has none"));
    }
    if cursor.eat(b'E')? {
        layout.element_bits = small_argument(cursor)?;
    }
    let mut splits = cursor.eat_text("SC")?;
    if !splits && cursor.eat(b'S')? {
        layout.space = small_argument(cursor)?;
        splits = cursor.eat_text("SC")?;
    }
    if splits {
        split_configs(cursor, layout)?;
    }
    if cursor.peek()? == Some(b'P') {
        return Err(cursor.wanted("no physical shape: a dense array has none"));
    }
    if cursor.eat(b'M')? {
        layout.metadata_bytes = argument(cursor, 0)?;
    }
    Ok(())
}

/// Skips `D(...)`, which is redundant for a dense array, as XLA does.
fn level_types(cursor: &mut Cursor<'_>) -> Parsed<()> {
    cursor.expect(b'(')?;
    let levels = cursor.list(b')', |cursor| {
        let mut known = false;
        for letter in *b"DCSH" {
            known = known || cursor.eat(letter)?;
        }
        if !known {
            return Err(cursor.wanted("a level type: D, C, S or H"));
        }
        cursor.eat(b'+')?;
        cursor.eat(b'~')
    });
    levels.map(drop)
}

/// One or more `(d:p,..)`.
fn split_configs(cursor: &mut Cursor<'_>, layout: &mut XlaNotation) -> Parsed<()> {
    let rank = layout.minor_to_major.len();
    loop {
        cursor.expect(b'(')?;
        let start = cursor.position();
        let found = usize::try_from(number(cursor)?).unwrap_or(usize::MAX);
        let taken = layout
            .splits
            .iter()
            .any(|split| split.physical_dim == found);
        if taken || rank <= found {
            let wanted = format!("a physical dimension below {rank}, each once");
            return Err(wanted_at(start, &wanted));
        }
        cursor.expect(b':')?;
        let points = split_points(cursor)?;
        layout.splits.push(SplitConfig {
            physical_dim: found,
            points,
        });
        if cursor.peek()? != Some(b'(') {
            return Ok(());
        }
    }
}

/// Rising indices above 0, and the closing parenthesis.
fn split_points(cursor: &mut Cursor<'_>) -> Parsed<Vec<u64>> {
    let mut least = 0;
    cursor.list(b')', |cursor| {
        let start = cursor.position();
        let point = number(cursor)?;
        if point <= least {
            return Err(wanted_at(start, &format!("a split point above {least}")));
        }
        least = point;
        Ok(point)
    })
}

fn tile(cursor: &mut Cursor<'_>) -> Parsed<Vec<TileDim>> {
    cursor.expect(b'(')?;
    let mut tile = vec![tile_dim(cursor)?];
    while cursor.eat(b',')? {
        tile.push(tile_dim(cursor)?);
    }
    if tile.last() == Some(&TileDim::Combined) {
        return Err(cursor.wanted("a size: the last `*` has no dimension to merge with"));
    }
    cursor.expect(b')')?;
    Ok(tile)
}

fn tile_dim(cursor: &mut Cursor<'_>) -> Parsed<TileDim> {
    if cursor.eat(b'*')? {
        return Ok(TileDim::Combined);
    }
    let start = cursor.position();
    match number(cursor)? {
        0 => Err(wanted_at(start, "a tile size of 1 or more")),
        size => Ok(TileDim::Size(size)),
    }
}

fn argument(cursor: &mut Cursor<'_>, least: u64) -> Parsed<u64> {
    cursor.expect(b'(')?;
    let start = cursor.position();
    let value = number(cursor)?;
    if value < least {
        return Err(wanted_at(start, "1 or more"));
    }
    cursor.expect(b')')?;
    Ok(value)
}

fn small_argument(cursor: &mut Cursor<'_>) -> Parsed<u32> {
    let start = cursor.position();
    let value = u32::try_from(argument(cursor, 0)?);
    value.map_err(|_| wanted_at(start, "a number below 2^32"))
}

fn number(cursor: &mut Cursor<'_>) -> Parsed<u64> {
    cursor.number("a number below 2^63")
}

/// The grid's dimensions and the levels of a block.
type Blocks<'a> = (&'a [usize], &'a [Vec<Factor>]);

/// Tiles for the blocks of a layout, which may be its notation or only its function.
fn tiles_of_blocks(placement: &Placement, hints: &Hints<'_>) -> Result<XlaNotation, LayoutError> {
    let (shape, storage) = (placement.shape(), placement.storage());
    let reversed = |order: &[usize]| order.iter().rev().copied().collect::<Vec<_>>();
    if placement.elements() == 0 {
        return Ok(XlaNotation::row_major(shape.len()).stored(storage));
    }
    if shape.is_empty() && placement.function().offset == 0 {
        let mut xla = XlaNotation::untiled(Vec::new()).stored(storage);
        if placement.positions() != 1 {
            xla.tiles.push(vec![TileDim::Size(placement.positions())]);
        }
        return Ok(xla);
    }
    let found;
    let blocks = match hints.blocks {
        Some(blocks) => blocks,
        None => {
            found = BlockNotation::grid(placement).map_err(|error| match error {
                LayoutError::Inexpressible { reason, .. } => XlaNotation::refuse(reason),
                other => other,
            })?;
            (found.order(), found.levels())
        }
    };
    let tiled = |order: &[usize], levels: &[Vec<Factor>]| {
        let untiled = XlaNotation::untiled(reversed(order));
        let tiles = tiles(order, levels);
        XlaNotation { tiles, ..untiled }.stored(storage)
    };
    let candidates = [
        Some(tiled(blocks.0, blocks.1)),
        levels_of_runs(blocks).map(|(order, levels)| tiled(&order, &levels)),
        grid_after_block(shape, blocks).map(|(order, levels)| tiled(&order, &levels)),
    ];
    let means_it = |xla: &XlaNotation| {
        let found = xla.place(shape, storage.type_bits);
        shape.len() == xla.minor_to_major.len()
            && found.is_ok_and(|found| found.same_function(placement))
    };
    let found = candidates.into_iter().flatten().find(means_it);
    let reason = "the inside of its blocks does not follow the order of the grid";
    found.ok_or_else(|| XlaNotation::refuse(reason))
}

/// Tiles over the most minor dimensions of `order` that contain every factor of the levels.
fn tiles(order: &[usize], levels: &[Vec<Factor>]) -> Vec<Vec<TileDim>> {
    let named = |dim: &usize| levels.iter().flatten().any(|factor| factor.dim == *dim);
    let first = order.iter().position(named).unwrap_or(order.len());
    let tile = |level: &Vec<Factor>| {
        let size = |&dim: &usize| {
            let own = level.iter().filter(|factor| factor.dim == dim);
            TileDim::Size(own.map(|factor| factor.extent).fold(1, u64::saturating_mul))
        };
        order[first..].iter().map(size).collect::<Vec<_>>()
    };
    levels
        .iter()
        .map(tile)
        .filter(|tile| !tile.is_empty())
        .collect()
}

/// One level with repeated dimensions as several levels without: `4H128W2H` becomes `8H128W|2H`.
fn levels_of_runs((grid, levels): Blocks<'_>) -> Option<(Vec<usize>, Vec<Vec<Factor>>)> {
    let [level] = levels else {
        return None;
    };
    let place = |dim: usize| grid.iter().position(|&other| other == dim);
    let mut runs: Vec<Vec<Factor>> = Vec::new();
    for &factor in level {
        match runs.last_mut() {
            Some(run)
                if run
                    .last()
                    .is_some_and(|last| place(last.dim) < place(factor.dim)) =>
            {
                run.push(factor);
            }
            _ => runs.push(vec![factor]),
        }
    }
    for i in (1..runs.len()).rev() {
        for j in 0..runs[i].len() {
            let Factor { extent, dim } = runs[i][j];
            match runs[i - 1].iter_mut().find(|factor| factor.dim == dim) {
                Some(outer) => outer.extent = outer.extent.checked_mul(extent)?,
                None => runs[i - 1].push(Factor { extent, dim }),
            }
        }
    }
    Some((grid.to_vec(), runs))
}

/// Dimensions that are whole in the block take their place in the order from the block.
fn grid_after_block(
    shape: &[u64],
    (grid, levels): Blocks<'_>,
) -> Option<(Vec<usize>, Vec<Vec<Factor>>)> {
    let [level] = levels else {
        return None;
    };
    let whole = |dim: usize| {
        let own = level.iter().filter(|factor| factor.dim == dim);
        shape[dim] <= own.map(|factor| factor.extent).fold(1, u64::saturating_mul)
    };
    let mut order: Vec<usize> = grid.iter().copied().filter(|&dim| !whole(dim)).collect();
    let mut from_block = Vec::new();
    for factor in level {
        if whole(factor.dim) && !from_block.contains(&factor.dim) {
            from_block.push(factor.dim);
        }
    }
    let others = |dim: &usize| !order.contains(dim) && !from_block.contains(dim);
    let mut head: Vec<usize> = (0..shape.len()).filter(others).collect();
    head.append(&mut order);
    head.extend(from_block);
    levels_of_runs((&head, levels))
}

/// Tiles over merged dimensions (`*`) and a tail, for layouts that blocks alone cannot express. They are derived from a
/// smaller layout in which each merge is one dimension and the buffer ends with its last digit.
fn combined(placement: &Placement) -> Option<XlaNotation> {
    let (shape, type_bits) = (placement.shape(), placement.storage().type_bits);
    let mut digits = DigitsNotation::of_chain(placement).ok()?;
    if digits.offset != 0 || digits.size.is_some() || placement.elements() == 0 {
        return None;
    }
    digits.tail = 1;
    let mut groups: Vec<Vec<usize>> = Vec::new();
    for digit in digits.digits.iter().filter(|digit| !digit.dims.is_empty()) {
        if !groups.contains(&digit.dims) {
            groups.push(digit.dims.clone());
        }
    }
    let mut seen = vec![false; shape.len()];
    for &dim in groups.iter().flatten() {
        if std::mem::replace(seen.get_mut(dim)?, true) {
            return None;
        }
    }
    groups.extend(
        (0..shape.len())
            .filter(|&dim| !seen[dim])
            .map(|dim| vec![dim]),
    );
    groups.sort_unstable();
    for digit in &mut digits.digits {
        let group = groups.iter().position(|group| *group == digit.dims);
        digit.dims = group.into_iter().collect();
    }
    let merged: Option<Vec<u64>> = groups
        .iter()
        .map(|group| {
            group
                .iter()
                .try_fold(1u64, |n, &dim| n.checked_mul(shape[dim]))
        })
        .collect();
    let merged = merged?;
    let smaller = digits.place(&merged, type_bits).ok()?;
    let mut xla = match tiles_of_blocks(&smaller, &Hints::default()) {
        Ok(xla) => xla,
        Err(_) => {
            let merges: Vec<bool> = groups.iter().map(|group| 1 < group.len()).collect();
            let (order, tiles) = sorting_tiles(&digits.digits, &merged, &merges)?;
            let sizes = |tile: Vec<u64>| tile.into_iter().map(TileDim::Size).collect();
            let tiles = tiles.into_iter().map(sizes).collect();
            let untiled = XlaNotation::untiled(order);
            XlaNotation { tiles, ..untiled }.stored(smaller.storage())
        }
    };
    let order = std::mem::take(&mut xla.minor_to_major);
    if let Some(first) = xla.tiles.first_mut() {
        let ahead = first.len().saturating_sub(order.len());
        let mut entries = first[..ahead].to_vec();
        for (&entry, &group) in first[ahead..].iter().rev().zip(&order).rev() {
            entries.extend(vec![TileDim::Combined; groups[group].len() - 1]);
            entries.push(entry);
        }
        *first = entries;
    }
    let dims = order.iter().flat_map(|&group| groups[group].iter().rev());
    xla.minor_to_major = dims.copied().collect();
    xla.tail = tail_between(smaller.positions(), placement.positions())?;
    let found = xla.place(shape, type_bits);
    found
        .is_ok_and(|found| found.same_function(placement))
        .then_some(xla)
}

/// An alignment that pads a buffer of `least` positions to `whole`: the smallest one among those tried.
fn tail_between(least: u64, whole: u64) -> Option<u64> {
    let gap = whole.checked_sub(least)?;
    if gap == 0 {
        return Some(1);
    }
    let near = (gap + 1..=gap.saturating_add(MOST_TAILS)).find(|tail| whole.is_multiple_of(*tail));
    Some(near.unwrap_or(whole))
}

/// The number of alignments that are tried before the whole buffer is taken.
const MOST_TAILS: u64 = 1024;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn physical_places() {
        let xla = XlaNotation::from_minor_to_major(&[1, 2, 0]).expect("a permutation");
        assert_eq!(
            [xla.minor(0), xla.minor(2), xla.minor(3)],
            [Some(1), Some(0), None]
        );
        assert_eq!(
            [xla.major(0), xla.major(2), xla.major(3)],
            [Some(0), Some(1), None]
        );
        assert_eq!(XlaNotation::row_major(3).to_string(), "2,1,0");
        assert!(XlaNotation::from_minor_to_major(&[1, 1]).is_err());
    }
}
