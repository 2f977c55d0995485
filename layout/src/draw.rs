//! Drawings of layouts: every cell with its linear index, padding hatched, tiles outlined.
//!
//! A page shows two dimensions; tensors of higher rank have a page for each index of the other dimensions. After the
//! pages, the buffer is drawn in the order of its positions.

use std::fmt::Write;

use crate::dims::{unravel, xla_letters};
use crate::layout::Layout;
use crate::notation::block::{BlockNotation, default_axes};
use crate::notation::written::Factor;
use crate::notation::xla::{TileDim, XlaNotation};
use crate::notation::{Notation, NotationKind};

/// The most rows and columns of a page that are drawn.
const MAX_SIDE: u64 = 64;
/// The most pages that are drawn.
const MAX_PAGES: u64 = 12;
/// The most positions of the buffer that are drawn.
const MAX_MEMORY: u64 = 512;
/// Positions of the buffer in one line, unless tiles determine the length.
const MEMORY_LINE: u64 = 24;
/// Pale colours of adjacent tiles.
const TINTS: [&str; 6] = [
    "#dbeafe", "#fef3c7", "#dcfce7", "#fce7f3", "#ede9fe", "#ffedd5",
];
/// The same colours in the 256 colours of terminals.
const TERMINAL_TINTS: [u8; 6] = [153, 229, 157, 218, 183, 223];
/// Colours and widths of the outlines, outermost level first.
const OUTLINES: [(&str, &str); 4] = [
    ("#0f172a", "3"),
    ("#c2410c", "2"),
    ("#15803d", "1.6"),
    ("#7c3aed", "1.4"),
];

/// Names of the dimensions on a drawing.
#[derive(Clone, Debug, PartialEq, Eq, Default)]
pub enum Axes {
    /// The layout's own letters, or those of its rank: `W`, `HW`, `HWC`, `NHWC`, `NDHWC`.
    #[default]
    Own,
    /// XLA's: `x`, `yx`, `zyx`, `pzyx`.
    Xla,
    /// One name per dimension.
    Named(Vec<String>),
}

/// The reason why a layout is not drawn.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum DrawError {
    /// A tensor without elements.
    #[error("a tensor without elements has nothing to draw")]
    Empty,
    /// The number of names is not that of dimensions.
    #[error("{found} names for {rank} dimensions, expected one each")]
    Names {
        /// The number of names.
        found: usize,
        /// The number of dimensions.
        rank: usize,
    },
}

/// A cell of a page: an index of the tensor, or of its padding.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Cell {
    /// Its position, if the layout gives it one.
    position: Option<u64>,
    padding: bool,
}

#[derive(Clone, Debug)]
struct Page {
    title: String,
    /// Rows of cells.
    cells: Vec<Vec<Cell>>,
}

/// A layout, ready to be written as SVG or for a terminal.
#[derive(Clone, Debug)]
pub struct Drawing {
    row_name: String,
    column_name: String,
    pages: Vec<Page>,
    /// The label of the element at each position, `None` for padding.
    memory: Vec<Option<String>>,
    /// Positions of a tile at each level, outermost first.
    volumes: Vec<u64>,
    /// Notes on omitted parts.
    notes: Vec<String>,
}

impl Drawing {
    /// Draws a layout.
    ///
    /// At most 64 rows, 64 columns, 12 pages and 512 positions are drawn. The drawing states what it omits.
    ///
    /// # Errors
    /// There are no elements, or the names do not fit the rank.
    pub fn new(layout: &Layout, axes: &Axes) -> Result<Drawing, DrawError> {
        if layout.elements() == 0 {
            return Err(DrawError::Empty);
        }
        let names = names(layout, axes)?;
        let plane = Plane::new(layout);
        let name = |dim: Option<usize>| dim.map_or_else(String::new, |dim| names[dim].clone());
        let mut notes = Vec::new();
        let pages = plane.pages(layout, &names, &mut notes);
        let shown = layout.positions().min(MAX_MEMORY);
        if shown < layout.positions() {
            notes.push(format!(
                "positions 0 to {} of {}",
                shown - 1,
                layout.positions()
            ));
        }
        let label = |e: Vec<u64>| {
            let parts: Vec<String> = e.iter().map(u64::to_string).collect();
            parts.join(",")
        };
        let memory = (0..shown)
            .map(|p| layout.element_at(p).map(label))
            .collect();
        Ok(Drawing {
            row_name: name(plane.row),
            column_name: name(plane.column),
            pages,
            memory,
            volumes: layout.tile_volumes(),
            notes,
        })
    }

    /// The outermost level, from 0, at which two positions lie in different tiles.
    fn border(&self, a: Option<u64>, b: Option<u64>) -> Option<usize> {
        match (a, b) {
            (Some(a), Some(b)) => self
                .volumes
                .iter()
                .position(|volume| a / volume != b / volume),
            (None, None) => None,
            _ => Some(0),
        }
    }

    /// The number of the outermost tile at a position.
    fn tile(&self, position: u64) -> u64 {
        self.volumes.first().map_or(0, |volume| position / volume)
    }

    /// Positions in one line of the buffer's picture.
    fn memory_line(&self) -> usize {
        let line = match self.volumes.first() {
            Some(&volume) if volume <= MEMORY_LINE => MEMORY_LINE / volume * volume,
            _ => MEMORY_LINE,
        };
        usize::try_from(line).unwrap_or(usize::MAX)
    }
}

/// The two dimensions of a page.
struct Plane {
    row: Option<usize>,
    column: Option<usize>,
}

impl Plane {
    /// The last two dimensions of a tensor of rank 2 and below; for a higher rank, the two most minor dimensions, in
    /// logical order.
    fn new(layout: &Layout) -> Plane {
        let rank = layout.rank();
        if rank <= 2 {
            return Plane {
                row: rank.checked_sub(2),
                column: rank.checked_sub(1),
            };
        }
        let mut minor = match layout.notation() {
            Notation::Xla(xla) => xla.minor_to_major()[..2].to_vec(),
            Notation::Block(block) => {
                let order = block.order();
                vec![order[rank - 1], order[rank - 2]]
            }
            _ => vec![rank - 1, rank - 2],
        };
        minor.sort_unstable();
        Plane {
            row: Some(minor[0]),
            column: Some(minor[1]),
        }
    }

    fn pages(&self, layout: &Layout, names: &[String], notes: &mut Vec<String>) -> Vec<Page> {
        let shape = layout.shape();
        let others: Vec<usize> = (0..shape.len())
            .filter(|&dim| Some(dim) != self.row && Some(dim) != self.column)
            .collect();
        let sizes: Vec<u64> = others.iter().map(|&dim| shape[dim]).collect();
        let count = sizes.iter().fold(1u64, |n, size| n.saturating_mul(*size));
        if MAX_PAGES < count {
            notes.push(format!("pages 1 to {MAX_PAGES} of {count}"));
        }
        let grown = self.grown(layout);
        let side = |dim: Option<usize>| dim.map_or(1, |dim| grown.shape()[dim]);
        for (what, dim) in [("rows", self.row), ("columns", self.column)] {
            if MAX_SIDE < side(dim) {
                let last = MAX_SIDE - 1;
                notes.push(format!("{what} 0 to {last} of {}", side(dim)));
            }
        }
        let page = |k: u64| {
            let mut e = vec![0; shape.len()];
            for (&dim, index) in others.iter().zip(unravel(k, &sizes)) {
                e[dim] = index;
            }
            let part = |&dim: &usize| format!("{} = {}", names[dim], e[dim]);
            let title = others.iter().map(part).collect::<Vec<_>>().join(", ");
            let cells = self.cells(layout, &grown, &mut e);
            Page { title, cells }
        };
        (0..count.min(MAX_PAGES)).map(page).collect()
    }

    /// The cells of the page through `e`.
    fn cells(&self, layout: &Layout, grown: &Layout, e: &mut [u64]) -> Vec<Vec<Cell>> {
        let side = |dim: Option<usize>| dim.map_or(1, |dim| grown.shape()[dim]).min(MAX_SIDE);
        let mut rows = Vec::new();
        for row in 0..side(self.row) {
            let mut line = Vec::new();
            for column in 0..side(self.column) {
                for (dim, index) in [(self.row, row), (self.column, column)] {
                    if let Some(dim) = dim {
                        e[dim] = index;
                    }
                }
                line.push(Cell {
                    position: grown.index(e),
                    padding: layout.index(e).is_none(),
                });
            }
            rows.push(line);
        }
        rows
    }

    /// The layout of the tensor grown by the padding in the plane, if blocks or tiles pad it.
    fn grown(&self, layout: &Layout) -> Layout {
        let tiled = matches!(layout.notation(), Notation::Xla(_) | Notation::Block(_));
        let mut grown = layout.clone();
        for dim in [self.row, self.column].into_iter().flatten() {
            while tiled && grown.shape()[dim] < MAX_SIDE {
                let mut shape = grown.shape().to_vec();
                shape[dim] += 1;
                match layout.with_shape(&shape) {
                    Ok(larger) if larger.positions() == layout.positions() => grown = larger,
                    _ => break,
                }
            }
        }
        match self.agrees(layout, &grown) {
            true => grown,
            false => layout.clone(),
        }
    }

    /// Returns whether every drawn element of the first page keeps its position.
    fn agrees(&self, layout: &Layout, grown: &Layout) -> bool {
        let cells = self.cells(layout, grown, &mut vec![0; layout.rank()]);
        let own = self.cells(layout, layout, &mut vec![0; layout.rank()]);
        let same = |(a, b): (&Vec<Cell>, &Vec<Cell>)| a.iter().zip(b).all(|(a, b)| a == b);
        own.iter().zip(&cells).all(same)
    }
}

fn names(layout: &Layout, axes: &Axes) -> Result<Vec<String>, DrawError> {
    let rank = layout.rank();
    let letters = |text: &str| text.chars().map(String::from).collect::<Vec<_>>();
    let numbered = || (0..rank).map(|dim| format!("d{dim}")).collect::<Vec<_>>();
    let known = match axes {
        Axes::Named(names) if names.len() == rank => Some(names.clone()),
        Axes::Named(names) => {
            let found = names.len();
            return Err(DrawError::Names { found, rank });
        }
        Axes::Xla => xla_letters(rank).map(letters),
        Axes::Own => match layout.notation() {
            Notation::Block(block) => Some((0..rank).map(|dim| block.axis_name(dim)).collect()),
            _ => default_axes(rank).map(letters),
        },
    };
    Ok(known.unwrap_or_else(numbered))
}

impl Layout {
    /// The number of positions of a tile at each level, outermost first, each dividing the one before it; empty without
    /// tiles.
    #[must_use]
    pub fn tile_volumes(&self) -> Vec<u64> {
        volumes(self)
    }

    /// The number of positions in a line of memory of a drawing: the last extent of the outermost tile, or else the
    /// innermost digits up to 64 positions; at least 1.
    #[must_use]
    pub fn line(&self) -> u64 {
        let tile = match self.notation() {
            Notation::Xla(xla) => xla.tiles().first().and_then(|tile| tile.last()),
            _ => None,
        };
        let tile = tile.and_then(|last| match *last {
            TileDim::Size(n) => Some(n),
            TileDim::Combined => None,
        });
        let smallest = || self.tile_volumes().last().copied();
        let innermost = || {
            let mut line = 1u64;
            for mode in self.modes()?.iter().rev() {
                line = line.saturating_mul(mode.extent);
                if 64 <= line {
                    break;
                }
            }
            Some(line)
        };
        let line = tile.or_else(smallest).or_else(innermost).unwrap_or(1);
        line.clamp(1, self.positions().max(1))
    }
}

/// The number of positions of a tile at each level, outermost first, each dividing the one before it.
fn volumes(layout: &Layout) -> Vec<u64> {
    let found = match layout.notation() {
        Notation::Xla(xla) => tile_volumes(xla, layout.shape()),
        Notation::Block(block) => block_volumes(block),
        _ => match layout.convert(NotationKind::Block) {
            Ok(other) => match other.notation() {
                Notation::Block(block) => block_volumes(block),
                _ => Vec::new(),
            },
            Err(_) => Vec::new(),
        },
    };
    let mut volumes: Vec<u64> = Vec::new();
    for volume in found {
        let fits = volumes
            .last()
            .is_none_or(|last| volume < *last && last.is_multiple_of(volume));
        if 1 < volume && volume < layout.positions() && fits {
            volumes.push(volume);
        }
    }
    volumes
}

/// The number of positions of each tile of XLA's notation. The inside of a tile is at the end of the final extents.
fn tile_volumes(xla: &XlaNotation, shape: &[u64]) -> Vec<u64> {
    let mut axes: Vec<(u64, usize)> = xla
        .minor_to_major()
        .iter()
        .rev()
        .map(|&dim| (shape[dim], 0))
        .collect();
    for (i, tile) in xla.tiles().iter().enumerate() {
        while axes.len() < tile.len() {
            axes.insert(0, (1, 0));
        }
        let covered = axes.split_off(axes.len() - tile.len());
        let mut inside = Vec::new();
        let mut merged = (1u64, 0usize);
        for (entry, (extent, level)) in tile.iter().zip(covered) {
            merged = (merged.0.saturating_mul(extent), level);
            if let TileDim::Size(size) = *entry {
                axes.push((merged.0.div_ceil(size), merged.1));
                inside.push((size, i + 1));
                merged = (1, 0);
            }
        }
        axes.extend(inside);
    }
    let volume = |level: usize| {
        let inside = axes.iter().rev().take_while(|axis| level <= axis.1);
        inside.fold(1u64, |n, axis| n.saturating_mul(axis.0))
    };
    (1..=xla.tiles().len()).map(volume).collect()
}

/// The number of positions of the block of each level, and of the part below a dimension that the last level names
/// again.
fn block_volumes(block: &BlockNotation) -> Vec<u64> {
    let product = |factors: &[Factor]| {
        let extents = factors.iter().map(|factor| factor.extent);
        extents.fold(1u64, u64::saturating_mul)
    };
    let mut volumes: Vec<u64> = Vec::new();
    let Some((last, outer)) = block.levels().split_last() else {
        return volumes;
    };
    let mut volume = product(last);
    for (i, factor) in last.iter().enumerate().rev() {
        if last[..i].iter().any(|other| other.dim == factor.dim) {
            volumes.push(product(&last[i..]));
        }
    }
    volumes.push(volume);
    let mut inner = last;
    for level in outer.iter().rev() {
        for factor in level {
            let own = inner.iter().filter(|other| other.dim == factor.dim);
            let size = own
                .map(|other| other.extent)
                .fold(1u64, u64::saturating_mul);
            volume = volume.saturating_mul(factor.extent.div_ceil(size));
        }
        volumes.push(volume);
        inner = level;
    }
    volumes.reverse();
    volumes
}

/// Sizes in the picture, in its own units.
struct Metrics {
    width: usize,
    height: usize,
    left: usize,
    top: usize,
    gap: usize,
}

impl Drawing {
    /// The drawing as an SVG file.
    #[must_use]
    pub fn svg(&self) -> String {
        let longest = self
            .pages
            .iter()
            .flat_map(|page| page.cells.iter().flatten())
            .filter_map(|cell| cell.position)
            .max()
            .unwrap_or(0)
            .to_string()
            .len();
        let labels = self.memory.iter().flatten().map(String::len).max();
        let metrics = Metrics {
            width: 14 + 8 * longest.max(2),
            height: 30,
            left: 56,
            top: 46,
            gap: 22,
        };
        let mut body = String::new();
        let (mut y, mut width) = (16, 320);
        for page in &self.pages {
            let (high, wide) = self.page_svg(page, &metrics, y, &mut body);
            y += high + metrics.gap;
            width = width.max(wide);
        }
        let cell = 12 + 7 * labels.unwrap_or(1).max(3);
        let (high, wide) = self.memory_svg(&metrics, cell, y, &mut body);
        y += high + metrics.gap;
        width = width.max(wide);
        for note in &self.notes {
            text(&mut body, (16, y), "note", &format!("drawn: {note}"));
            y += 18;
        }
        format!("{}{STYLE}{body}</svg>\n", head(width, y))
    }

    /// Draws one page at height `y`; returns its height and width.
    fn page_svg(&self, page: &Page, m: &Metrics, y: usize, out: &mut String) -> (usize, usize) {
        let rows = page.cells.len();
        let columns = page.cells.first().map_or(0, Vec::len);
        let top = y + m.top;
        if !page.title.is_empty() {
            text(out, (16, y + 12), "title", &page.title);
        }
        let middle = m.left + columns * m.width / 2;
        text(out, (middle, top - 24), "axis", &self.column_name);
        for column in 0..columns {
            let x = m.left + column * m.width + m.width / 2;
            text(out, (x, top - 8), "index", &column.to_string());
        }
        text(
            out,
            (14, top + rows * m.height / 2 + 4),
            "axis",
            &self.row_name,
        );
        for (row, line) in page.cells.iter().enumerate() {
            let y = top + row * m.height;
            if !self.row_name.is_empty() {
                text(out, (m.left - 14, y + 19), "index", &row.to_string());
            }
            for (column, cell) in line.iter().enumerate() {
                let x = m.left + column * m.width;
                let fill = cell.position.map(|p| self.tile(p));
                rect(out, (x, y), (m.width, m.height), fill, cell.padding);
                if let Some(position) = cell.position {
                    let class = if cell.padding { "unused" } else { "cell" };
                    text(out, (x + m.width / 2, y + 19), class, &position.to_string());
                }
            }
        }
        self.outlines(page, m, top, out);
        (m.top + rows * m.height, m.left + columns * m.width + 16)
    }

    /// Draws the lines between tiles, inner levels first, so that outer ones are on top.
    fn outlines(&self, page: &Page, m: &Metrics, top: usize, out: &mut String) {
        let rows = page.cells.len();
        let columns = page.cells.first().map_or(0, Vec::len);
        let at = |row: usize, column: usize| page.cells[row][column].position;
        for level in (0..self.volumes.len()).rev() {
            let mut path = String::new();
            for column in 1..columns {
                let x = m.left + column * m.width;
                let cut = |row| self.border(at(row, column - 1), at(row, column)) == Some(level);
                for (from, to) in runs(rows, cut) {
                    let _ = write!(
                        path,
                        "M{x} {}V{}",
                        top + from * m.height,
                        top + to * m.height
                    );
                }
            }
            for row in 1..rows {
                let y = top + row * m.height;
                let cut = |column| self.border(at(row - 1, column), at(row, column)) == Some(level);
                for (from, to) in runs(columns, cut) {
                    let _ = write!(
                        path,
                        "M{} {y}H{}",
                        m.left + from * m.width,
                        m.left + to * m.width
                    );
                }
            }
            stroke(out, &path, level);
        }
        let (right, bottom) = (m.left + columns * m.width, top + rows * m.height);
        stroke(
            out,
            &format!("M{} {top}H{right}V{bottom}H{}Z", m.left, m.left),
            0,
        );
    }

    /// Draws the buffer at height `y`; returns its height and width.
    fn memory_svg(&self, m: &Metrics, cell: usize, y: usize, out: &mut String) -> (usize, usize) {
        let line = self.memory_line();
        text(
            out,
            (16, y + 12),
            "title",
            "memory: each position and the element in it",
        );
        let top = y + 26;
        let height = m.height + 16;
        for (p, label) in self.memory.iter().enumerate() {
            let (x, y) = (16 + p % line * cell, top + p / line * height);
            let position = p as u64;
            text(out, (x + cell / 2, y + 10), "index", &p.to_string());
            let tile = Some(self.tile(position));
            rect(
                out,
                (x, y + 14),
                (cell, m.height - 4),
                tile,
                label.is_none(),
            );
            if let Some(label) = label {
                text(out, (x + cell / 2, y + 31), "cell", label);
            }
        }
        for level in (0..self.volumes.len()).rev() {
            let mut path = String::new();
            for p in 0..self.memory.len() {
                let (x, y) = (16 + p % line * cell, top + p / line * height + 14);
                let before = (p as u64).checked_sub(1);
                if p % line != 0 && self.border(before, Some(p as u64)) == Some(level) {
                    let _ = write!(path, "M{x} {y}V{}", y + m.height - 4);
                }
            }
            stroke(out, &path, level);
        }
        let lines = self.memory.len().div_ceil(line);
        (26 + lines * height, 32 + line.min(self.memory.len()) * cell)
    }
}

/// The runs of indices below `n` for which `holds` is true, as half-open ranges.
fn runs(n: usize, holds: impl Fn(usize) -> bool) -> Vec<(usize, usize)> {
    let mut runs: Vec<(usize, usize)> = Vec::new();
    for i in (0..n).filter(|&i| holds(i)) {
        match runs.last_mut() {
            Some((_, end)) if *end == i => *end = i + 1,
            _ => runs.push((i, i + 1)),
        }
    }
    runs
}

const STYLE: &str = "<style>\n\
    text{font-family:'DejaVu Sans',Helvetica,Arial,sans-serif;text-anchor:middle;fill:#0f172a}\n\
    .cell{font-size:13px}.unused{font-size:13px;fill:#64748b}.index{font-size:11px;fill:#64748b}\n\
    .axis{font-size:15px;font-weight:bold}.title,.note{text-anchor:start}\n\
    .title{font-size:13px;font-weight:bold}.note{font-size:12px;fill:#64748b}\n\
    </style>\n\
    <defs><pattern id=\"pad\" width=\"6\" height=\"6\" patternUnits=\"userSpaceOnUse\">\n\
    <rect width=\"6\" height=\"6\" fill=\"#ffffff\"/><path d=\"M0 6L6 0\" stroke=\"#94a3b8\" stroke-width=\"1\"/>\n\
    </pattern></defs>\n\
    <rect width=\"100%\" height=\"100%\" fill=\"#ffffff\"/>\n";

fn head(width: usize, height: usize) -> String {
    let size = format!("width=\"{width}\" height=\"{height}\" viewBox=\"0 0 {width} {height}\"");
    format!("<svg xmlns=\"http://www.w3.org/2000/svg\" {size}>\n")
}

fn text(out: &mut String, (x, y): (usize, usize), class: &str, content: &str) {
    if content.is_empty() {
        return;
    }
    let content = content.replace('&', "&amp;").replace('<', "&lt;");
    let _ = writeln!(
        out,
        "<text x=\"{x}\" y=\"{y}\" class=\"{class}\">{content}</text>"
    );
}

fn rect(
    out: &mut String,
    (x, y): (usize, usize),
    (width, height): (usize, usize),
    tile: Option<u64>,
    padding: bool,
) {
    let fill = match tile {
        _ if padding => "url(#pad)",
        Some(tile) => tint(tile),
        None => "#ffffff",
    };
    let place = format!("x=\"{x}\" y=\"{y}\" width=\"{width}\" height=\"{height}\"");
    let _ = writeln!(out, "<rect {place} fill=\"{fill}\" stroke=\"#cbd5e1\"/>");
}

fn tint(tile: u64) -> &'static str {
    TINTS[usize::try_from(tile % TINTS.len() as u64).unwrap_or(0)]
}

fn stroke(out: &mut String, path: &str, level: usize) {
    if path.is_empty() {
        return;
    }
    let (colour, width) = OUTLINES[level.min(OUTLINES.len() - 1)];
    let line = format!("fill=\"none\" stroke=\"{colour}\" stroke-width=\"{width}\"");
    let _ = writeln!(out, "<path d=\"{path}\" {line}/>");
}

/// Signs between cells: of the outermost level, the next level, deeper levels, and none.
const VERTICAL: [char; 4] = ['┃', '│', '┆', ' '];
const HORIZONTAL: [char; 4] = ['━', '─', '┄', ' '];

impl Drawing {
    /// The pages as text; `colours` tints the tiles with ANSI codes. Padding is in brackets.
    #[must_use]
    pub fn terminal(&self, colours: bool) -> String {
        let mut out = String::new();
        for (i, page) in self.pages.iter().enumerate() {
            if 0 < i {
                out.push('\n');
            }
            if !page.title.is_empty() {
                let _ = writeln!(out, "{}", page.title);
            }
            self.page_text(page, colours, &mut out);
        }
        for note in &self.notes {
            let _ = writeln!(out, "drawn: {note}");
        }
        out
    }

    fn page_text(&self, page: &Page, colours: bool, out: &mut String) {
        let label = |cell: &Cell| match cell.position {
            Some(position) if cell.padding => format!("[{position}]"),
            Some(position) => format!(" {position} "),
            None => "[ ]".to_owned(),
        };
        let labels = page.cells.iter().flatten().map(|cell| label(cell).len());
        let width = labels.max().unwrap_or(3).max(4);
        let columns = page.cells.first().map_or(0, Vec::len);
        let side = self.row_name.len().max(3);
        let _ = write!(out, "{:side$} ", "");
        for column in 0..columns {
            let name = match column {
                0 if !self.column_name.is_empty() => format!("{}={column}", self.column_name),
                _ => column.to_string(),
            };
            let _ = write!(out, " {name:>width$}");
        }
        out.push('\n');
        for (row, cells) in page.cells.iter().enumerate() {
            if 0 < row {
                self.line_between(&page.cells[row - 1], cells, (side, width), out);
            }
            let name = match row {
                0 if !self.row_name.is_empty() => format!("{}={row}", self.row_name),
                _ if self.row_name.is_empty() => String::new(),
                _ => row.to_string(),
            };
            let _ = write!(out, "{name:>side$} ");
            for (column, cell) in cells.iter().enumerate() {
                let before = column.checked_sub(1).map(|before| cells[before].position);
                let level = before.and_then(|before| self.border(before, cell.position));
                out.push(sign(VERTICAL, level));
                let text = format!("{:>width$}", label(cell));
                match cell.position.filter(|_| colours && !cell.padding) {
                    Some(position) => {
                        let tints = TERMINAL_TINTS.len() as u64;
                        let tint = usize::try_from(self.tile(position) % tints).unwrap_or(0);
                        let code = TERMINAL_TINTS[tint];
                        let _ = write!(out, "\u{1b}[30;48;5;{code}m{text}\u{1b}[0m");
                    }
                    None if colours => {
                        let _ = write!(out, "\u{1b}[2m{text}\u{1b}[0m");
                    }
                    None => out.push_str(&text),
                }
            }
            out.push('\n');
        }
    }

    /// The line between two rows, at the borders of tiles.
    fn line_between(
        &self,
        above: &[Cell],
        below: &[Cell],
        (side, width): (usize, usize),
        out: &mut String,
    ) {
        let levels: Vec<Option<usize>> = above
            .iter()
            .zip(below)
            .map(|(a, b)| self.border(a.position, b.position))
            .collect();
        if levels.iter().all(Option::is_none) {
            return;
        }
        let _ = write!(out, "{:side$} ", "");
        for level in levels {
            let sign = sign(HORIZONTAL, level);
            out.extend(std::iter::repeat_n(sign, width + 1));
        }
        out.push('\n');
    }
}

fn sign(signs: [char; 4], level: Option<usize>) -> char {
    level.map_or(signs[3], |level| signs[level.min(2)])
}
