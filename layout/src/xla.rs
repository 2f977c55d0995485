//! XLA's layout text: `1,0:T(8,128)(2,1)S(1)`, as the OpenXLA sources define it.

use std::fmt;

use crate::build::{BuildError, Builder};
use crate::chain::Chain;
use crate::error::LayoutError;
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
}

impl XlaSpelling {
    pub(crate) fn untiled(minor_to_major: Vec<usize>) -> Self {
        Self {
            minor_to_major,
            tiles: Vec::new(),
            tail: 1,
            element_bits: 0,
            space: 0,
        }
    }

    /// Reads the text between XLA's braces for a tensor of `rank` dimensions.
    ///
    /// # Errors
    /// Everything that XLA's own parser or its layout validation refuses.
    pub fn parse(text: &str, rank: usize) -> Result<Self, LayoutError> {
        Reader { text, at: 0 }.layout(rank)
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

    /// Positions over [`Self::chain_order`], and the buffer's size with its tail.
    pub(crate) fn build(&self, shape: &[u64]) -> Result<(Chain, u64), LayoutError> {
        let overflow = || LayoutError::Overflow {
            shape: shape.to_vec(),
        };
        let order = self.chain_order();
        let sizes: Vec<u64> = order.iter().map(|&dim| shape[dim]).collect();
        let mut builder = Builder::new(&sizes).map_err(|_| overflow())?;
        let place = |dim: &usize| order.iter().position(|other| other == dim);
        let mut axes: Vec<usize> = self.minor_to_major.iter().rev().filter_map(place).collect();
        for (i, tile) in self.tiles.iter().enumerate() {
            axes = apply_tile(&mut builder, axes, tile).map_err(|error| match error {
                BuildError::Overflow => overflow(),
                BuildError::AcrossPadding => LayoutError::TileAcrossPadding { tile: i + 1 },
            })?;
        }
        let (chain, positions) = builder.finish(&axes).map_err(|_| overflow())?;
        let padded = positions
            .checked_next_multiple_of(self.tail)
            .ok_or_else(overflow)?;
        i64::try_from(padded).map_err(|_| overflow())?;
        Ok((chain, padded))
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
        Ok(())
    }
}

struct Reader<'a> {
    text: &'a str,
    at: usize,
}

impl Reader<'_> {
    fn layout(mut self, rank: usize) -> Result<XlaSpelling, LayoutError> {
        let mut dims = Vec::new();
        if self.peek().is_some_and(|c| c.is_ascii_digit()) {
            dims.push(self.number()?);
            while self.eat(',') {
                dims.push(self.number()?);
            }
        }
        let mut layout = XlaSpelling::untiled(permutation("xla", &dims, rank)?);
        if self.eat(':') {
            self.attributes(&mut layout)?;
        }
        match self.peek() {
            None => Ok(layout),
            Some(_) => Err(self.error("the end, or attributes in the order T, L, E, S after `:`")),
        }
    }

    fn attributes(&mut self, layout: &mut XlaSpelling) -> Result<(), LayoutError> {
        if self.eat('D') {
            self.level_types()?;
        }
        if self.eat('T') {
            layout.tiles.push(self.tile()?);
            while self.peek() == Some('(') {
                layout.tiles.push(self.tile()?);
            }
        }
        if self.eat('L') {
            layout.tail = self.argument(1)?;
        }
        if self.eat('E') {
            layout.element_bits = self.small_argument()?;
        }
        if self.eat('S') {
            layout.space = self.small_argument()?;
        }
        Ok(())
    }

    /// `D(...)` says nothing for a dense array and is dropped, as XLA does.
    fn level_types(&mut self) -> Result<(), LayoutError> {
        self.expect('(')?;
        while let Some(c) = self.peek().filter(|c| "DCSH+~,".contains(*c)) {
            self.at += c.len_utf8();
        }
        self.expect(')')
    }

    fn tile(&mut self) -> Result<Vec<TileDim>, LayoutError> {
        self.expect('(')?;
        let mut tile = vec![self.tile_dim()?];
        while self.eat(',') {
            tile.push(self.tile_dim()?);
        }
        if tile.last() == Some(&TileDim::Combined) {
            return Err(self.error("a size: the last `*` has no dimension to merge with"));
        }
        self.expect(')')?;
        Ok(tile)
    }

    fn tile_dim(&mut self) -> Result<TileDim, LayoutError> {
        if self.eat('*') {
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
        self.skip_spaces();
        let rest = &self.text[self.at..];
        let len = rest
            .find(|c: char| !c.is_ascii_digit())
            .unwrap_or(rest.len());
        let value = rest[..len].parse::<i64>();
        let value = value.map_err(|_| self.error("a number below 2^63"))?;
        self.at += len;
        Ok(value)
    }

    fn skip_spaces(&mut self) {
        let rest = &self.text[self.at..];
        self.at += rest.len() - rest.trim_start().len();
    }

    fn peek(&mut self) -> Option<char> {
        self.skip_spaces();
        self.text[self.at..].chars().next()
    }

    fn eat(&mut self, wanted: char) -> bool {
        let found = self.peek() == Some(wanted);
        if found {
            self.at += wanted.len_utf8();
        }
        found
    }

    fn expect(&mut self, wanted: char) -> Result<(), LayoutError> {
        if self.eat(wanted) {
            Ok(())
        } else {
            Err(self.error(&format!("`{wanted}`")))
        }
    }

    fn error(&self, wanted: &str) -> LayoutError {
        syntax("xla", self.text, self.at, wanted)
    }
}
