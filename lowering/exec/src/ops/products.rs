//! Sums of products over loops: rows of one operand by columns of the other one, with loops around them.
//!
//! Of the loops that the result shares with one operand alone all together are the rows, or the columns, of a matrix product, and all
//! loops that the result has not are its terms: offsets are listed, so that no order of dimensions needs a copy. Columns are the side
//! that lies one after another in the result. A panel of columns is brought side by side just before it is used, or, of a constant,
//! when the program is prepared; rows are read where they lie if their terms are neighbours.
#![expect(unsafe_code, reason = "kernels take pointers to rows")]

use crate::isa::Isa;
use crate::kernels::product::{self, MOST_COLUMNS, Micro, Panel};
use crate::nest::{Loop, dimension, ordered, walk};
use crate::ops::window::Window;
use indexmap::IndexMap;
use std::cell::Cell;
use std::ops::Range;

/// The offsets of the result, the left and the right operand, and of what the result begins with, along one loop.
pub(crate) type Along = [Vec<i64>; 4];

/// The result, the operands, and what the result begins with.
pub(crate) const RESULT: usize = 0;
pub(crate) const LEFT: usize = 1;
pub(crate) const RIGHT: usize = 2;
pub(crate) const START: usize = 3;

/// The most terms that are summed before sums go to memory.
const TERMS: usize = 256;
/// Bytes of rows that are used with all columns before others are.
const ROWS_BYTES: usize = 256 << 10;
/// The most rows of a block.
const MOST_ROWS: usize = 1024;
/// Elements of results that are summed beside their place, of terms that are summed in several blocks.
const BESIDE: usize = 1 << 18;
/// With so few rows, columns are read where they lie.
const FEW_ROWS: usize = 48;

/// What the elements of a slice are read by.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Operands<'a> {
    pub(crate) left: &'a [f32],
    pub(crate) right: &'a [f32],
    pub(crate) start: Start<'a>,
}

/// What products are added to.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Start<'a> {
    Zero,
    /// Elements at the offsets of [`START`].
    Values(&'a [f32]),
    /// What is in the result.
    Result,
}

/// The loops of a contraction.
#[derive(Debug)]
pub(crate) struct Products {
    pub(crate) base: [i64; 4],
    /// Around the matrix product.
    pub(crate) batch: Vec<Loop<4>>,
    /// Offsets of the rows, of the columns and of the terms.
    pub(crate) rows: Vec<[i64; 4]>,
    pub(crate) columns: Vec<[i64; 4]>,
    pub(crate) terms: Vec<[i64; 4]>,
    /// Whether the columns are the left operand's.
    pub(crate) swapped: bool,
    /// The least and greatest offset of each.
    pub(crate) reach: [(i64, i64); 4],
    /// Which elements of an operand there are, if it slides.
    pub(crate) window: Option<Window>,
    /// Panels of a constant, by the offset that the loops around give it.
    packed: IndexMap<i64, Vec<f32>>,
    /// The rows of a constant, in groups of as many as a kernel has at once.
    packed_rows: IndexMap<i64, Vec<f32>>,
    micro: Micro,
}

impl Products {
    /// The products over loops with these offsets; which operands are constants. A loop is summed over if the result stays
    /// where it is.
    pub(crate) fn of(base: [i64; 4], loops: &[Along], known: [bool; 2]) -> Option<Products> {
        let (mut batch, mut rows, mut columns, mut terms) =
            (Vec::new(), Vec::new(), Vec::new(), Vec::new());
        let mut reach = base.map(|b| (b, b));
        for along in loops {
            let n = along[0].len();
            if along.iter().any(|t| t.len() != n) || n == 0 {
                return None;
            }
            for (reach, table) in reach.iter_mut().zip(along) {
                let (low, high) = (table.iter().min()?, table.iter().max()?);
                *reach = (reach.0 + low, reach.1 + high);
            }
            let moves = |k: usize| along[k].iter().any(|&offset| offset != 0);
            let list = match (moves(RESULT), moves(LEFT), moves(RIGHT)) {
                (true, true, false) => &mut rows,
                (true, false, true) => &mut columns,
                (false, _, _) => &mut terms,
                (true, _, _) => &mut batch,
            };
            list.extend(dimension(std::array::from_fn(|k| &along[k][..])));
        }
        let (rows, columns) = (ordered(rows, RESULT), ordered(columns, RESULT));
        let micro = Micro::of(Isa::detect());
        let costs = Costs {
            terms: &terms,
            known,
            micro,
        };
        let swapped = costs.of(&columns, &rows, RIGHT) < costs.of(&rows, &columns, LEFT);
        let side = if swapped { RIGHT } else { LEFT };
        let (rows, columns) = if swapped {
            (columns, rows)
        } else {
            (rows, columns)
        };
        Some(Products {
            base,
            batch: ordered(batch, RESULT),
            rows: flat(&rows),
            columns: flat(&columns),
            terms: flat(&ordered(terms, side)),
            swapped,
            reach,
            window: None,
            packed: IndexMap::new(),
            packed_rows: IndexMap::new(),
            micro,
        })
    }

    /// The operands whose elements are rows and columns.
    fn sides(&self) -> (usize, usize) {
        if self.swapped {
            (RIGHT, LEFT)
        } else {
            (LEFT, RIGHT)
        }
    }

    /// Bytes of panels that were made of constants.
    pub(crate) fn packed_bytes(&self) -> usize {
        let all = self.packed.values().chain(self.packed_rows.values());
        all.map(|panels| panels.len() * size_of::<f32>()).sum()
    }

    /// Brings an operand that is a constant into panels, or into groups of rows where they are not read where they lie.
    pub(crate) fn pack(&mut self, side: usize, constant: &[f32]) {
        let as_rows = side == self.sides().0;
        let (low, high) = self.reach[side];
        let read = as_rows && self.reads_rows();
        let slides = self.window.as_ref().is_some_and(|w| w.side == side);
        if slides || low < 0 || constant.len() as i64 <= high || read {
            return;
        }
        let mut offsets = Vec::new();
        walk(&self.batch, self.base, &mut |at| offsets.push(at[side]));
        offsets.sort_unstable();
        offsets.dedup();
        let (lanes, width) = match as_rows {
            true => (&self.rows, self.micro.rows),
            false => (&self.columns, self.micro.columns),
        };
        let whole = lanes.len().next_multiple_of(width) * self.terms.len();
        if 2 * constant.len().max(1 << 12) < whole * offsets.len() {
            return;
        }
        let mut made = IndexMap::new();
        for offset in offsets {
            let mut all = vec![0f32; whole];
            let mut at = 0;
            for block in self.blocks() {
                let terms: Vec<i64> = self.terms[block].iter().map(|t| t[side]).collect();
                for lanes in lanes.chunks(width) {
                    let lanes: Vec<i64> = lanes.iter().map(|c| c[side] + offset).collect();
                    let size = terms.len() * width;
                    product::pack(constant, &lanes, &terms, &mut all[at..at + size], width);
                    at += size;
                }
            }
            made.insert(offset, all);
        }
        match as_rows {
            true => self.packed_rows = made,
            false => self.packed = made,
        }
    }

    /// The terms that are summed at once.
    fn blocks(&self) -> Vec<Range<usize>> {
        let whole = self.terms.len();
        let (_, right) = self.sides();
        let inner = match &self.window {
            // One position of the kernel after another, where rows are read where they lie.
            Some(window) if window.side != right && self.reads_rows() => window.neighbours,
            _ => whole,
        };
        let pieces = inner.div_ceil(TERMS).max(1);
        let mut blocks = Vec::new();
        for from in (0..whole).step_by(inner.max(1)) {
            for piece in 0..pieces {
                blocks.push(from + inner * piece / pieces..from + inner * (piece + 1) / pieces);
            }
        }
        blocks
    }

    /// Whether rows are read where they lie.
    fn reads_rows(&self) -> bool {
        let (side, _) = self.sides();
        match &self.window {
            Some(window) if window.side == side => window.direct(),
            _ => even(self.terms.iter().map(|t| t[side]), 1),
        }
    }

    /// Writes the products, added to what the result begins with.
    pub(crate) fn run(&self, out: &mut [f32], given: Operands<'_>) -> Result<(), String> {
        let starts = match given.start {
            Start::Values(values) => values.len(),
            Start::Zero | Start::Result => usize::MAX >> 1,
        };
        let lengths = [out.len(), given.left.len(), given.right.len(), starts];
        for ((low, high), n) in self.reach.into_iter().zip(lengths) {
            if low < 0 || n as i64 <= high {
                return Err("an element lies outside of its buffer".to_owned());
            }
        }
        let mut work = Work::new(self, given);
        walk(&self.batch, self.base, &mut |at| work.product(out, at));
        Ok(())
    }
}

/// What it costs to take one operand as rows and the other one as columns.
struct Costs<'a> {
    terms: &'a [Loop<4>],
    /// Whether the left and the right operand are constants, which are packed once.
    known: [bool; 2],
    micro: Micro,
}

/// How elements are brought from one place to another, as multiplications of vectors that take as long for each. A panel
/// of the right operand or of the result is moved in lines, in squares that are turned, or one by one.
const LINES: f64 = 0.35;
const TURNED: f64 = 0.6;
const SINGLE: f64 = 2.0;

impl Costs<'_> {
    /// In multiplications of vectors; `side` is the operand of the rows.
    fn of(&self, rows: &[Loop<4>], columns: &[Loop<4>], side: usize) -> f64 {
        let other = LEFT + RIGHT - side;
        let count = |loops: &[Loop<4>]| loops.iter().map(|l| l.extent as f64).product::<f64>();
        let (m, n, k) = (count(rows), count(columns), count(self.terms));
        let lanes = self.micro.columns as f64 / 2.0;
        let at_once = self.micro.rows as f64;
        // What few rows leave idle: sums wait for one another.
        let rest = m % at_once;
        let busy = m - rest + if rest == 0.0 { 0.0 } else { rest.max(5.0) };
        let multiplied = busy * (n / lanes).ceil() * k;
        let neighbours = |loops: &[Loop<4>], k: usize| {
            loops
                .last()
                .is_some_and(|l| l.at(1)[k] == 1 && 8 <= l.extent)
        };
        let terms = ordered(self.terms.to_vec(), side);
        let even = terms.len() < 2 && terms.iter().all(|l| l.at(1)[side] == 1);
        let brought = |lanes: &[Loop<4>], k: usize| {
            let own = ordered(self.terms.to_vec(), k);
            match (neighbours(lanes, k), neighbours(&own, k)) {
                (true, _) => LINES,
                (_, true) => TURNED,
                _ => SINGLE,
            }
        };
        let left = match even || self.known[side - LEFT] {
            true => 0.0,
            false => m * k * brought(rows, side),
        };
        let blocks = (m * k.min(TERMS as f64) * 4.0 / ROWS_BYTES as f64).ceil();
        let right = match self.known[other - LEFT] {
            true => 0.0,
            false => n * k * blocks * brought(columns, other),
        };
        let written = match (neighbours(columns, RESULT), neighbours(rows, RESULT)) {
            (true, _) => 0.0,
            (_, true) => m * n * TURNED,
            _ => m * n * SINGLE,
        };
        multiplied + left + right + written
    }
}

/// The offsets at every step of some loops, outermost first.
pub(crate) fn flat<const K: usize>(loops: &[Loop<K>]) -> Vec<[i64; K]> {
    let mut all = Vec::new();
    walk(loops, [0; K], &mut |at| all.push(at));
    all
}

/// Whether offsets go on by the same step.
fn even(offsets: impl Iterator<Item = i64>, step: i64) -> bool {
    let mut last = None;
    offsets.into_iter().all(|offset| {
        let goes_on = last.is_none_or(|last: i64| last + step == offset);
        last = Some(offset);
        goes_on
    })
}

/// Memory that products need besides, which the next ones find again: what is mapped anew costs more than what is done with it.
#[derive(Debug, Default)]
struct Spare {
    /// The rows of a block side by side, by as many as a kernel has at once.
    slab: Vec<f32>,
    panel: Vec<f32>,
    /// Panels of the result whose columns do not lie side by side in it.
    beside: Vec<f32>,
}

thread_local! {
    static SPARE: Cell<Spare> = const { Cell::new(Spare { slab: Vec::new(), panel: Vec::new(), beside: Vec::new() }) };
}

impl Drop for Work<'_> {
    fn drop(&mut self) {
        SPARE.set(std::mem::take(&mut self.spare));
    }
}

/// One run, with the memory that it needs besides.
struct Work<'a> {
    of: &'a Products,
    given: Operands<'a>,
    blocks: Vec<Range<usize>>,
    /// Whether rows are read where they lie.
    direct: bool,
    spare: Spare,
    /// As many zeros as a row has terms outside of its operand.
    zeros: Vec<f32>,
    left: Vec<*const f32>,
    out: Vec<*mut f32>,
}

impl<'a> Work<'a> {
    fn new(of: &'a Products, given: Operands<'a>) -> Work<'a> {
        let mut spare = SPARE.take();
        spare.panel.resize(TERMS * MOST_COLUMNS, 0.0);
        Work {
            of,
            given,
            blocks: of.blocks(),
            direct: of.reads_rows(),
            spare,
            zeros: vec![0.0; of.window.as_ref().map_or(0, |w| w.neighbours)],
            left: Vec::new(),
            out: Vec::new(),
        }
    }

    fn operand(&self, side: usize) -> &'a [f32] {
        if side == LEFT {
            self.given.left
        } else {
            self.given.right
        }
    }

    /// One matrix product.
    fn product(&mut self, out: &mut [f32], at: [i64; 4]) {
        let of = self.of;
        let terms = self.blocks.iter().map(Range::len).max().unwrap_or(0).max(1);
        let most = (ROWS_BYTES / size_of::<f32>() / terms).clamp(of.micro.rows, MOST_ROWS);
        let beside = self.blocks.len() < 2 || even(of.columns.iter().map(|c| c[RESULT]), 1);
        let most = match beside {
            true => most,
            // The sums of all columns are kept beside.
            false => most.min(BESIDE / of.columns.len().next_multiple_of(MOST_COLUMNS).max(1)),
        };
        let most = (most / of.micro.rows).max(1) * of.micro.rows;
        for first in (0..of.rows.len()).step_by(most) {
            let rows = first..(first + most).min(of.rows.len());
            self.rows(out, at, rows);
        }
    }

    fn rows(&mut self, out: &mut [f32], at: [i64; 4], rows: Range<usize>) {
        let of = self.of;
        let (side, other) = of.sides();
        let width = of.micro.columns;
        let constant = of.packed.get(&at[other]);
        let mut packed = 0;
        if self.blocks.is_empty() {
            self.begin_all(out, at, rows);
            return;
        }
        let last = self.blocks.len() - 1;
        for number in 0..self.blocks.len() {
            let block = self.blocks[number].clone();
            let left_step = self.bring(at[side], rows.clone(), block.clone());
            for first in (0..of.columns.len()).step_by(width) {
                let columns = first..(first + width).min(of.columns.len());
                let size = block.len() * width;
                let lies = self.lies(rows.len(), at[other], &columns, &block);
                let (right, right_step) = match (constant, lies) {
                    (Some(all), _) => {
                        packed += size;
                        (all[packed - size..packed].as_ptr(), width)
                    }
                    (None, Some(found)) => found,
                    (None, None) => {
                        self.columns(at[other], columns.clone(), block.clone());
                        (self.spare.panel.as_ptr(), width)
                    }
                };
                let half = columns.len() <= width / 2;
                let used = if half { width / 2 } else { width };
                // Of several blocks each panel of sums has a place of its own.
                let own = if last == 0 { 0 } else { first / width };
                let panel = Panels {
                    at,
                    rows: rows.clone(),
                    columns: columns.clone(),
                    beside: own * rows.len() * MOST_COLUMNS,
                };
                let beside = self.places(out, &panel, used);
                let adds = 0 < number || !matches!(self.given.start, Start::Zero);
                match self.given.start {
                    Start::Values(start) if number == 0 => {
                        self.begin(start, at, rows.clone(), columns.clone());
                    }
                    _ if beside && adds && number == 0 => self.exchange(out, &panel, true),
                    _ => {}
                }
                // SAFETY: `bring` has made a pointer for each row to as many terms, which are inside of the left operand as
                // `run` has compared, of the slab, or of the zeros; the right panel has all columns of each term; the
                // places of the result have `used` columns each, inside of the result or of `beside`, and no other
                // row has them, as offsets in a result are all different.
                unsafe {
                    product::panel(
                        of.micro,
                        &Panel {
                            left: &self.left,
                            left_step,
                            right,
                            right_step,
                            terms: block.len(),
                            out: &self.out,
                            adds,
                            half,
                        },
                    );
                }
                if beside && number == last {
                    self.exchange(out, &panel, false);
                }
            }
        }
    }

    /// Where a panel of columns begins that is read where it lies, and from one term to the next.
    fn lies(
        &self,
        rows: usize,
        base: i64,
        columns: &Range<usize>,
        block: &Range<usize>,
    ) -> Option<(*const f32, usize)> {
        let of = self.of;
        let (_, side) = of.sides();
        let whole = columns.len() == of.micro.columns && rows <= FEW_ROWS && of.window.is_none();
        if !whole || !even(of.columns[columns.clone()].iter().map(|c| c[side]), 1) {
            return None;
        }
        let terms = &of.terms[block.clone()];
        let first = terms.first()?[side];
        let step = terms.get(1).map_or(1, |t| t[side] - first);
        let even = even(terms.iter().map(|t| t[side]), step);
        let from = usize::try_from(base + of.columns[columns.start][side] + first).ok()?;
        let step = usize::try_from(step).ok().filter(|_| even)?;
        Some((self.operand(side).get(from..)?.as_ptr(), step))
    }

    /// Results of no terms.
    fn begin_all(&self, out: &mut [f32], at: [i64; 4], rows: Range<usize>) {
        for row in &self.of.rows[rows] {
            for column in &self.of.columns {
                let from = at[START] + row[START] + column[START];
                let to = &mut out[(at[RESULT] + row[RESULT] + column[RESULT]) as usize];
                match self.given.start {
                    Start::Zero => *to = 0.0,
                    Start::Values(start) => *to = start[from as usize],
                    Start::Result => {}
                }
            }
        }
    }

    /// Finds or makes the rows of a block; gives the step from one term to the next.
    fn bring(&mut self, base: i64, rows: Range<usize>, block: Range<usize>) -> usize {
        let of = self.of;
        let (side, _) = of.sides();
        let source = self.operand(side);
        self.left.clear();
        let window = of.window.as_ref().filter(|w| w.side == side);
        if self.direct {
            let term = of.terms[block.start][side];
            for row in rows {
                let inside = window.is_none_or(|w| w.has(row, block.start));
                let at = base + of.rows[row][side] + term;
                self.left.push(match inside {
                    true => source[at as usize..].as_ptr(),
                    false => self.zeros.as_ptr(),
                });
            }
            return 1;
        }
        let width = of.micro.rows;
        let size = block.len() * width;
        if let Some(packed) = of.packed_rows.get(&base) {
            // Blocks of rows begin with a group.
            let all = of.rows.len().next_multiple_of(width);
            let from = &packed[all * block.start + rows.start / width * size..];
            for i in 0..rows.len() {
                self.left
                    .push(from[i / width * size + i % width..].as_ptr());
            }
            return width;
        }
        if let Some(window) = window.filter(|w| w.even) {
            let lines = window.lines(block.clone(), &of.terms);
            self.spare.slab.resize(rows.len() * block.len(), 0.0);
            for (row, to) in rows.zip(self.spare.slab.chunks_exact_mut(block.len())) {
                window.row(source, base + of.rows[row][side], row, &lines, to);
                self.left.push(to.as_ptr());
            }
            return 1;
        }
        self.spare
            .slab
            .resize(rows.len().div_ceil(width) * size, 0.0);
        let terms: Vec<i64> = of.terms[block.clone()].iter().map(|t| t[side]).collect();
        let groups = rows
            .clone()
            .step_by(width)
            .zip(self.spare.slab.chunks_exact_mut(size));
        match window {
            Some(window) => {
                for (first, group) in groups {
                    let some = first..(first + width).min(rows.end);
                    let offsets = [&of.rows[..], &of.terms[..]];
                    window.pack(source, base, (some, block.clone()), offsets, group, width)
                }
            }
            None => {
                let rows = of.rows[rows.clone()].iter();
                let starts: Vec<i64> = rows.map(|r| r[side] + base).collect();
                product::pack_groups(source, &starts, &terms, &mut self.spare.slab, width);
            }
        }
        for i in 0..rows.len() {
            self.left
                .push(self.spare.slab[i / width * size + i % width..].as_ptr());
        }
        width
    }

    /// Brings columns side by side.
    fn columns(&mut self, base: i64, columns: Range<usize>, block: Range<usize>) {
        let of = self.of;
        let (_, side) = of.sides();
        let source = self.operand(side);
        let width = of.micro.columns;
        let panel = &mut self.spare.panel[..block.len() * width];
        match of.window.as_ref().filter(|w| w.side == side) {
            Some(window) => window.pack(
                source,
                base,
                (columns, block),
                [&of.columns, &of.terms],
                panel,
                width,
            ),
            None => {
                let mut starts = [0i64; MOST_COLUMNS];
                let mut terms = [0i64; TERMS];
                for (start, column) in starts.iter_mut().zip(&of.columns[columns.clone()]) {
                    *start = column[side] + base;
                }
                for (term, found) in terms.iter_mut().zip(&of.terms[block.clone()]) {
                    *term = found[side];
                }
                let (starts, terms) = (&starts[..columns.len()], &terms[..block.len()]);
                product::pack(source, starts, terms, panel, width);
            }
        }
    }

    /// Where the rows of a panel of the result are written; whether that is beside it.
    fn places(&mut self, out: &mut [f32], panel: &Panels, used: usize) -> bool {
        let of = self.of;
        let list = &of.columns[panel.columns.clone()];
        let beside = list.len() != used || !even(list.iter().map(|c| c[RESULT]), 1);
        self.out.clear();
        if beside {
            let size = panel.rows.len() * MOST_COLUMNS;
            let needed = panel.beside + size;
            if self.spare.beside.len() < needed {
                self.spare.beside.resize(needed, 0.0);
            }
            let own = &mut self.spare.beside[panel.beside..needed];
            let rows = own.chunks_exact_mut(MOST_COLUMNS);
            self.out.extend(rows.map(<[f32]>::as_mut_ptr));
            return true;
        }
        let first = panel.at[RESULT] + list[0][RESULT];
        let (len, start) = (out.len(), out.as_mut_ptr());
        for row in &of.rows[panel.rows.clone()] {
            let place = (first + row[RESULT]) as usize;
            assert!(place + used <= len, "a row of the result lies inside of it");
            self.out.push(start.wrapping_add(place));
        }
        false
    }

    /// Sets the places to what the result begins with.
    fn begin(&mut self, start: &[f32], at: [i64; 4], rows: Range<usize>, columns: Range<usize>) {
        let columns = &self.of.columns[columns];
        let offsets = columns.iter().map(|c| c[START]);
        let (run, same) = (even(offsets.clone(), 1), even(offsets, 0));
        let first = at[START] + columns[0][START];
        for (row, &out) in self.of.rows[rows].iter().zip(&self.out) {
            let from = (first + row[START]) as usize;
            // SAFETY: `places` has made room for all columns of each row, which nobody else has now.
            let to = unsafe { std::slice::from_raw_parts_mut(out, columns.len()) };
            if run {
                to.copy_from_slice(&start[from..from + columns.len()]);
            } else if same {
                to.fill(start[from]);
            } else {
                for (to, column) in to.iter_mut().zip(columns) {
                    *to = start[(at[START] + row[START] + column[START]) as usize];
                }
            }
        }
    }

    /// Brings a panel from the result to its place beside, or back.
    fn exchange(&mut self, out: &mut [f32], panel: &Panels, reads: bool) {
        let columns = &self.of.columns[panel.columns.clone()];
        let rows = &self.of.rows[panel.rows.clone()];
        let beside = &mut self.spare.beside[panel.beside..][..rows.len() * MOST_COLUMNS];
        let at = |row: &[i64; 4]| panel.at[RESULT] + row[RESULT];
        let lines: Vec<Range<usize>> = lines(columns);
        if lines.len() * 4 <= columns.len() {
            for (row, beside) in rows.iter().zip(beside.chunks_exact_mut(MOST_COLUMNS)) {
                for line in &lines {
                    let first = (at(row) + columns[line.start][RESULT]) as usize;
                    let place = &mut out[first..first + line.len()];
                    match reads {
                        true => product::copy_line(place, &mut beside[line.clone()]),
                        false => product::copy_line(&beside[line.clone()], place),
                    }
                }
            }
            return;
        }
        let turned = match reads {
            true => 0,
            false => turned(out, beside, panel.at[RESULT], rows, columns),
        };
        let rest = beside.chunks_exact_mut(MOST_COLUMNS).zip(rows);
        for (beside, row) in rest.skip(turned) {
            for (beside, column) in beside.iter_mut().zip(columns) {
                let place = &mut out[(at(row) + column[RESULT]) as usize];
                match reads {
                    true => *beside = *place,
                    false => *place = *beside,
                }
            }
        }
    }
}

/// A panel of the result.
#[derive(Debug)]
struct Panels {
    at: [i64; 4],
    rows: Range<usize>,
    columns: Range<usize>,
    /// Where its sums lie that are not summed in their place.
    beside: usize,
}

/// Columns that lie side by side in the result.
fn lines(columns: &[[i64; 4]]) -> Vec<Range<usize>> {
    let mut lines: Vec<Range<usize>> = Vec::new();
    for (i, column) in columns.iter().enumerate() {
        match lines.last_mut() {
            Some(line) if columns[i - 1][RESULT] + 1 == column[RESULT] => line.end += 1,
            _ => lines.push(i..i + 1),
        }
    }
    lines
}

/// Writes the first rows of a panel, eight that are neighbours in the result at a time; gives how many.
fn turned(
    out: &mut [f32],
    beside: &[f32],
    base: i64,
    rows: &[[i64; 4]],
    columns: &[[i64; 4]],
) -> usize {
    let groups = rows.chunks_exact(8);
    let whole = groups
        .take_while(|rows| even(rows.iter().map(|r| r[RESULT]), 1))
        .count();
    for (first, columns) in columns.chunks(8).enumerate().map(|(i, c)| (i * 8, c)) {
        let places: [usize; 8] = std::array::from_fn(|j| {
            let column = columns.get(j).unwrap_or(&columns[0]);
            (base + column[RESULT]) as usize
        });
        for group in 0..whole {
            let begin = rows[group * 8][RESULT];
            let from = &beside[group * 8 * MOST_COLUMNS + first..];
            let places = places.map(|place| place.wrapping_add_signed(begin as isize));
            product::turn_out(from, MOST_COLUMNS, out, &places[..columns.len()]);
        }
    }
    whole * 8
}
