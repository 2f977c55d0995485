//! XLA's layout text: `1,0:T(8,128)(2,1)S(1)`, as the OpenXLA sources define it.

use std::fmt;

use crate::build::{BuildError, Builder};
use crate::chain::Chain;
use crate::error::LayoutError;
use crate::layout::Function;
use crate::program::Program;
use crate::spelling::{permutation, syntax};

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
pub struct XlaSpelling {
    /// Dimensions, most minor first.
    pub(crate) minor_to_major: Vec<usize>,
    /// Tiles in the order of application.
    pub(crate) tiles: Vec<Vec<TileDim>>,
    /// `L(n)`: the buffer is padded to a multiple of `n` elements.
    pub(crate) tail: u64,
    /// `E(n)`: bits of an element, 0 for the type's own bytes.
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

impl XlaSpelling {
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

    /// Reads the text between XLA's braces for a tensor of `rank` dimensions.
    ///
    /// # Errors
    /// Everything that XLA's own parser or its layout validation refuses.
    pub fn parse(text: &str, rank: usize) -> Result<Self, LayoutError> {
        let mut reader = Reader { text, at: 0 };
        let layout = reader.layout(rank)?;
        match reader.peek()? {
            None => Ok(layout),
            Some(_) => Err(reader.error(AFTER_LAYOUT)),
        }
    }

    /// Reads a layout that begins at byte `start` of `text`: the layout, and where it ends.
    pub(crate) fn parse_at(
        text: &str,
        start: usize,
        rank: usize,
    ) -> Result<(Self, usize), LayoutError> {
        let mut reader = Reader { text, at: start };
        let layout = reader.layout(rank)?;
        Ok((layout, reader.at))
    }

    /// Dimensions, most minor first.
    #[must_use]
    pub fn minor_to_major(&self) -> &[usize] {
        &self.minor_to_major
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

    /// The same layout in another memory space.
    #[must_use]
    pub fn in_space(&self, space: u32) -> Self {
        Self {
            space,
            ..self.clone()
        }
    }

    /// `SC(d:p,..)`: dimensions that are cut into parts in different memories.
    #[must_use]
    pub fn split_configs(&self) -> &[SplitConfig] {
        &self.splits
    }

    /// `M(n)`: bytes of dynamic sizes in front of the data; part of no size.
    #[must_use]
    pub fn metadata_bytes(&self) -> u64 {
        self.metadata_bytes
    }

    /// The physical extents after all tiles, major to minor: the shape of the buffer when the
    /// tensor is padded, reshaped and transposed as the tiles say.
    ///
    /// # Errors
    /// A shape of another rank, or extents of 2^63 and more.
    pub fn physical_shape(&self, shape: &[u64]) -> Result<Vec<u64>, LayoutError> {
        self.check_shape(shape)?;
        let overflow = || LayoutError::Overflow {
            shape: shape.to_vec(),
        };
        let major_to_minor = self.minor_to_major.iter().rev();
        let mut extents: Vec<u64> = major_to_minor.map(|&dim| shape[dim]).collect();
        if extents.is_empty() && self.tiles.is_empty() {
            return Ok(extents);
        }
        for tile in &self.tiles {
            extents = tiled_extents(extents, tile).ok_or_else(overflow)?;
        }
        Ok(extents)
    }

    /// Checks what the text alone cannot show: the rank, and split points against the sizes.
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

    /// The shape of the largest part, each split dimension replaced by its longest piece.
    pub(crate) fn largest_part(&self, shape: &[u64]) -> Vec<u64> {
        let mut part = shape.to_vec();
        for split in &self.splits {
            let place = self
                .minor_to_major
                .len()
                .checked_sub(1 + split.physical_dim);
            let Some(&dim) = place.and_then(|place| self.minor_to_major.get(place)) else {
                continue;
            };
            let ends = split.points.iter().copied().chain([shape[dim]]);
            let starts = [0].into_iter().chain(split.points.iter().copied());
            let sizes = starts
                .zip(ends)
                .map(|(start, end)| end.saturating_sub(start));
            part[dim] = sizes.max().unwrap_or(shape[dim]);
        }
        part
    }

    /// The order of the dimensions in which the chain of [`Self::build`] counts.
    pub(crate) fn chain_order(&self) -> Vec<usize> {
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

    /// The positions, and the buffer's size with its tail. No dimension is zero.
    pub(crate) fn build(&self, shape: &[u64]) -> Result<(Function, u64), LayoutError> {
        self.check_shape(shape)?;
        let overflow = || LayoutError::Overflow {
            shape: shape.to_vec(),
        };
        let (function, positions) = match self.chain(shape) {
            Ok((chain, positions)) => {
                let order = self.chain_order();
                (Function::new(&order, chain, shape, 0), positions)
            }
            Err(BuildError::Overflow) => return Err(overflow()),
            Err(BuildError::AcrossPadding) => {
                let program = Program::tiled(shape, &self.minor_to_major, &self.tiles);
                let (program, positions) = program?;
                (Function::program(program), positions)
            }
        };
        let padded = positions
            .checked_next_multiple_of(self.tail)
            .ok_or_else(overflow)?;
        i64::try_from(padded).map_err(|_| overflow())?;
        Ok((function, padded))
    }

    /// Positions over [`Self::chain_order`], and their number without the tail.
    fn chain(&self, shape: &[u64]) -> Result<(Chain, u64), BuildError> {
        let order = self.chain_order();
        let sizes: Vec<u64> = order.iter().map(|&dim| shape[dim]).collect();
        let mut builder = Builder::new(&sizes)?;
        let place = |dim: &usize| order.iter().position(|other| other == dim);
        let mut axes: Vec<usize> = self.minor_to_major.iter().rev().filter_map(place).collect();
        for tile in &self.tiles {
            axes = apply_tile(&mut builder, axes, tile)?;
        }
        builder.finish(&axes)
    }
}

/// Covers the most minor axes with a tile: block counts stay in place, the inside goes last.
fn apply_tile(
    builder: &mut Builder,
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

/// The extents behind one tile, major to minor.
fn tiled_extents(mut extents: Vec<u64>, tile: &[TileDim]) -> Option<Vec<u64>> {
    while extents.len() < tile.len() {
        extents.insert(0, 1);
    }
    let covered = extents.split_off(extents.len() - tile.len());
    let mut inside = Vec::new();
    let mut merged = 1u64;
    for (entry, extent) in tile.iter().zip(covered) {
        merged = merged.checked_mul(extent)?;
        if let TileDim::Size(size) = *entry {
            extents.push(merged.div_ceil(size));
            inside.push(size);
            merged = 1;
        }
    }
    extents.extend(inside);
    let mut product = 1u64;
    for &extent in &extents {
        product = product.checked_mul(extent)?;
    }
    i64::try_from(product).ok().map(|_| extents)
}

/// Canonical text, without spaces.
impl fmt::Display for XlaSpelling {
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

/// The length of the white space and comments at the start of `text`.
///
/// # Errors
/// The offset of a comment that does not end.
pub(crate) fn blank_prefix(text: &str) -> Result<usize, usize> {
    let mut at = 0;
    loop {
        let rest = &text[at..];
        at += rest.len() - rest.trim_start().len();
        let rest = &text[at..];
        if let Some(comment) = rest.strip_prefix("//") {
            let len = comment.find('\n').map_or(comment.len(), |len| len + 1);
            at += 2 + len;
        } else if let Some(comment) = rest.strip_prefix("/*") {
            at += 2 + comment.find("*/").ok_or(at)? + 2;
        } else {
            return Ok(at);
        }
    }
}

struct Reader<'a> {
    text: &'a str,
    at: usize,
}

impl Reader<'_> {
    /// A layout up to the first token that does not belong to it.
    fn layout(&mut self, rank: usize) -> Result<XlaSpelling, LayoutError> {
        let mut dims = Vec::new();
        if self.peek()?.is_some_and(|c| c.is_ascii_digit()) {
            dims.push(self.number()?);
            while self.eat(',')? {
                dims.push(self.number()?);
            }
        }
        let mut layout = XlaSpelling::untiled(permutation("xla", &dims, rank)?);
        if self.eat(':')? {
            self.attributes(&mut layout)?;
        }
        self.peek()?;
        Ok(layout)
    }

    fn attributes(&mut self, layout: &mut XlaSpelling) -> Result<(), LayoutError> {
        if self.eat('D')? {
            self.level_types()?;
        }
        if self.eat('T')? {
            layout.tiles.push(self.tile()?);
            while self.peek()? == Some('(') {
                layout.tiles.push(self.tile()?);
            }
        }
        if self.eat('L')? {
            layout.tail = self.argument(1)?;
        }
        if matches!(self.peek()?, Some('#' | '*')) {
            return Err(self.error("no index or pointer type: a dense array has none"));
        }
        if self.eat('E')? {
            layout.element_bits = self.small_argument()?;
        }
        if !self.next_is("SC")? && self.eat('S')? {
            layout.space = self.small_argument()?;
        }
        if self.next_is("SC")? {
            self.at += 2;
            self.split_configs(layout)?;
        }
        if self.peek()? == Some('P') {
            return Err(self.error("no physical shape: a dense array has none"));
        }
        if self.eat('M')? {
            layout.metadata_bytes = self.argument(0)?;
        }
        Ok(())
    }

    /// `D(...)` says nothing for a dense array and is dropped, as XLA does.
    fn level_types(&mut self) -> Result<(), LayoutError> {
        self.expect('(')?;
        if self.eat(')')? {
            return Ok(());
        }
        loop {
            let letter = self.peek()?.filter(|c| "DCSH".contains(*c));
            if letter.is_none() {
                return Err(self.error("a level type: D, C, S or H"));
            }
            self.at += 1;
            self.eat('+')?;
            self.eat('~')?;
            if !self.eat(',')? {
                return self.expect(')');
            }
        }
    }

    /// One or more `(d:p,..)`.
    fn split_configs(&mut self, layout: &mut XlaSpelling) -> Result<(), LayoutError> {
        let rank = layout.minor_to_major.len();
        loop {
            self.expect('(')?;
            let start = self.at;
            let found = usize::try_from(self.number()?).unwrap_or(usize::MAX);
            let taken = layout
                .splits
                .iter()
                .any(|split| split.physical_dim == found);
            if taken || rank <= found {
                self.at = start;
                let wanted = format!("a physical dimension below {rank}, each once");
                return Err(self.error(&wanted));
            }
            self.expect(':')?;
            let points = self.split_points()?;
            layout.splits.push(SplitConfig {
                physical_dim: found,
                points,
            });
            if self.peek()? != Some('(') {
                return Ok(());
            }
        }
    }

    /// Rising indices above 0, and the closing parenthesis.
    fn split_points(&mut self) -> Result<Vec<u64>, LayoutError> {
        let mut points: Vec<u64> = Vec::new();
        if self.eat(')')? {
            return Ok(points);
        }
        loop {
            let start = self.at;
            let point = self.number()?.unsigned_abs();
            let least = points.last().copied().unwrap_or(0);
            if point <= least {
                self.at = start;
                return Err(self.error(&format!("a split point above {least}")));
            }
            points.push(point);
            if !self.eat(',')? {
                self.expect(')')?;
                return Ok(points);
            }
        }
    }

    fn tile(&mut self) -> Result<Vec<TileDim>, LayoutError> {
        self.expect('(')?;
        let mut tile = vec![self.tile_dim()?];
        while self.eat(',')? {
            tile.push(self.tile_dim()?);
        }
        if tile.last() == Some(&TileDim::Combined) {
            return Err(self.error("a size: the last `*` has no dimension to merge with"));
        }
        self.expect(')')?;
        Ok(tile)
    }

    fn tile_dim(&mut self) -> Result<TileDim, LayoutError> {
        if self.eat('*')? {
            return Ok(TileDim::Combined);
        }
        let start = self.at;
        match self.number()?.unsigned_abs() {
            0 => {
                self.at = start;
                Err(self.error("a tile size of 1 or more"))
            }
            size => Ok(TileDim::Size(size)),
        }
    }

    fn argument(&mut self, least: u64) -> Result<u64, LayoutError> {
        self.expect('(')?;
        let start = self.at;
        let value = self.number()?.unsigned_abs();
        if value < least {
            self.at = start;
            return Err(self.error("1 or more"));
        }
        self.expect(')')?;
        Ok(value)
    }

    fn small_argument(&mut self) -> Result<u32, LayoutError> {
        let start = self.at;
        let value = u32::try_from(self.argument(0)?);
        value.map_err(|_| {
            self.at = start;
            self.error("a number below 2^32")
        })
    }

    fn number(&mut self) -> Result<i64, LayoutError> {
        self.skip_blank()?;
        let rest = &self.text[self.at..];
        let len = rest
            .find(|c: char| !c.is_ascii_digit())
            .unwrap_or(rest.len());
        let value = rest[..len].parse::<i64>();
        let value = value.map_err(|_| self.error("a number below 2^63"))?;
        self.at += len;
        let after = self.text[self.at..].chars().next();
        if after.is_some_and(|c| c.is_ascii_alphabetic() || c == '.' || c == '_') {
            return Err(self.error("the end of the number"));
        }
        Ok(value)
    }

    fn skip_blank(&mut self) -> Result<(), LayoutError> {
        match blank_prefix(&self.text[self.at..]) {
            Ok(len) => {
                self.at += len;
                Ok(())
            }
            Err(offset) => {
                self.at += offset;
                Err(self.error("a comment that ends with `*/`"))
            }
        }
    }

    fn peek(&mut self) -> Result<Option<char>, LayoutError> {
        self.skip_blank()?;
        Ok(self.text[self.at..].chars().next())
    }

    fn next_is(&mut self, word: &str) -> Result<bool, LayoutError> {
        self.skip_blank()?;
        Ok(self.text[self.at..].starts_with(word))
    }

    fn eat(&mut self, wanted: char) -> Result<bool, LayoutError> {
        let found = self.peek()? == Some(wanted);
        if found {
            self.at += wanted.len_utf8();
        }
        Ok(found)
    }

    fn expect(&mut self, wanted: char) -> Result<(), LayoutError> {
        if self.eat(wanted)? {
            Ok(())
        } else {
            Err(self.error(&format!("`{wanted}`")))
        }
    }

    fn error(&self, wanted: &str) -> LayoutError {
        syntax("xla", self.text, self.at, wanted)
    }
}
