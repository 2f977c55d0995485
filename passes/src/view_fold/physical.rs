//! Physical forms: which digits fill the lanes and the rows of a tile, and which number the tiles.
//!
//! Example: the row-major form of a value of shape (8, 197, 768) has the dimension of 768 in the lanes, that of 197 in
//! the rows, and that of 8 in the grid. With a tile of 8 rows and 128 lanes, the rows are padded to 200.
//!
//! On a machine with tiles a layout is a *grid* of digits in some order around a *tile*. Each of the two places of the
//! tile is filled by a run: one digit or several merged ones, padded up as one number. The element width and the
//! extents of the two runs determine the tile, unless the program's text states another one.

use super::maps::FastSet;
use optc_layout::{Layout, Mode, Notation, TileDim, ViewMap, XlaNotation, propagate};
use optc_target::Target;
use std::sync::Arc;

/// The place of a digit.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) enum Place {
    /// In the grid: the digit numbers tiles, or there are no tiles.
    Grid,
    /// In the rows of the tile.
    Row,
    /// In the lanes of the tile.
    Lane,
    /// Innermost in a value without tiles, padded up to the least run of the machine.
    Short,
}

/// One digit of a dimension: `extent` values of `index / div`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) struct Digit {
    pub(crate) dim: usize,
    pub(crate) div: u64,
    pub(crate) extent: u64,
    pub(crate) place: Place,
}

/// Tiles in the order of application, extents major to minor.
pub(crate) type Tiles = Arc<[Vec<u64>]>;

/// Digits major to minor: those of the grid, then those in the rows, then those in the lanes. Every extent is above 1.
/// On a machine with plain values, a form with all digits in the grid is a plain value.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) struct Physical {
    pub(crate) digits: Vec<Digit>,
    /// The tiles that the text states, where they are not those of the target's formats.
    pub(crate) stated: Option<Tiles>,
}

impl Physical {
    /// A form whose tiles are the machine's own.
    pub(crate) fn new(digits: Vec<Digit>) -> Physical {
        Physical {
            digits,
            stated: None,
        }
    }

    /// The digits of a place.
    pub(crate) fn at(&self, place: Place) -> impl Iterator<Item = &Digit> + Clone {
        self.digits.iter().filter(move |d| d.place == place)
    }

    /// The number of positions of the runs in a place, before padding.
    fn extent(&self, place: Place) -> Option<u64> {
        self.at(place)
            .try_fold(1u64, |n, d| n.checked_mul(d.extent))
    }

    /// Row-major: the last dimension in the lanes, the one before it in the rows. Dimensions of extent 1 have no digit.
    pub(crate) fn natural(shape: &[u64]) -> Physical {
        let order: Vec<usize> = (0..shape.len()).collect();
        Physical::of_order(shape, &order)
    }

    /// Whole dimensions in this order, major to minor: the last one in the lanes, the one before it in the rows.
    pub(crate) fn of_order(shape: &[u64], order: &[usize]) -> Physical {
        let long: Vec<usize> = order.iter().copied().filter(|&d| 1 < shape[d]).collect();
        let n = long.len();
        let place = |i: usize| match n - i {
            1 => Place::Lane,
            2 => Place::Row,
            _ => Place::Grid,
        };
        let digit = |(i, &dim): (usize, &usize)| Digit {
            dim,
            div: 1,
            extent: shape[dim],
            place: place(i),
        };
        Physical::new(long.iter().enumerate().map(digit).collect())
    }

    /// Whole dimensions in this order, major to minor, without tiles. If `run` is given and the last dimension has
    /// fewer elements, it is padded up to a run of the machine.
    pub(crate) fn plain(shape: &[u64], order: &[usize], run: Option<u64>) -> Physical {
        let mut form = Physical::of_order(shape, order);
        for digit in &mut form.digits {
            digit.place = Place::Grid;
        }
        if let (Some(run), Some(last)) = (run, form.digits.last_mut())
            && last.extent < run
        {
            last.place = Place::Short;
        }
        form
    }

    /// The form of a layout without tiles with these digits; only the innermost digit may be padded, to whole lanes or
    /// to a run. `None` for other digits.
    pub(crate) fn of_modes(modes: &[Mode], bits: u32, target: &Target) -> Option<Physical> {
        let run = target.plain(bits)?;
        let tiles = target.full_tiles(bits);
        let lanes = tiles.first().and_then(|t| t.last().copied()).unwrap_or(1);
        let real: Vec<&Mode> = modes.iter().filter(|m| 1 < m.extent).collect();
        let mut digits = Vec::with_capacity(real.len());
        for (i, mode) in real.iter().enumerate() {
            let place = match mode.extent == mode.count {
                true => Place::Grid,
                false if i + 1 < real.len() => return None,
                false if mode.extent == mode.count.next_multiple_of(lanes) => Place::Lane,
                false if mode.extent == run => Place::Short,
                false => return None,
            };
            digits.push(Digit {
                dim: mode.dim,
                div: mode.div,
                extent: mode.count,
                place,
            });
        }
        digits.retain(|d| 1 < d.extent);
        Some(Physical::new(digits))
    }

    /// Returns whether the value is in no tile, on a machine that has such values.
    fn is_plain(&self, bits: u32, target: &Target) -> bool {
        let tiled = |d: &Digit| matches!(d.place, Place::Row | Place::Lane);
        self.stated.is_none() && target.plain(bits).is_some() && !self.digits.iter().any(tiled)
    }

    /// The form that XLA's text states for a shape. `None` where a tile merges dimensions or has more than two, or the
    /// text states more than an order and tiles.
    pub(crate) fn of_text(xla: &XlaNotation, shape: &[u64]) -> Option<Physical> {
        let sizes = |tile: &Vec<TileDim>| -> Option<Vec<u64>> {
            let size = |dim: &TileDim| match dim {
                TileDim::Size(n) => Some(*n),
                TileDim::Combined => None,
            };
            tile.iter().map(size).collect()
        };
        let tiles: Option<Vec<Vec<u64>>> = xla.tiles().iter().map(sizes).collect();
        let tiles = tiles?;
        let plain = xla.tail_alignment() == 1
            && xla.element_bits() == 0
            && xla.split_configs().is_empty()
            && xla.metadata_bytes() == 0;
        if !plain || shape.len() != xla.minor_to_major().len() {
            return None;
        }
        let order: Vec<usize> = xla.minor_to_major().iter().rev().copied().collect();
        let Some(first) = tiles.first() else {
            return Some(Physical::of_order(shape, &order));
        };
        if 2 < first.len() {
            return None;
        }
        // The dimensions that the first tile covers are in its places. A dimension of extent 1 leaves its place empty.
        let n = order.len();
        let place = |i: usize| match (first.len(), n - i) {
            (_, 1) => Place::Lane,
            (2, 2) => Place::Row,
            _ => Place::Grid,
        };
        let digits = order.iter().enumerate().filter(|&(_, &dim)| 1 < shape[dim]);
        let digit = |(i, &dim): (usize, &usize)| Digit {
            dim,
            div: 1,
            extent: shape[dim],
            place: place(i),
        };
        Some(Physical {
            digits: digits.map(digit).collect(),
            stated: Some(tiles.into()),
        })
    }

    /// Returns whether stated tiles are among the machine's tiles for elements of this width: its own, or tiles with
    /// fewer rows or, if they have one dimension, shorter ones.
    pub(crate) fn is_of(&self, bits: u32, target: &Target) -> bool {
        let Some(stated) = &self.stated else {
            return true;
        };
        let long = 1 << 20;
        let own = match stated.first().map(Vec::len) {
            Some(1) => target.tiles(bits, &[long]),
            _ => target.tiles(bits, &[long, long]),
        };
        match (stated.split_first(), own.split_first()) {
            (Some((tile, inside)), Some((whole, then))) => {
                let lanes = tile.len() < 2 || tile.last() == whole.last();
                let fits = tile.iter().zip(whole).all(|(n, most)| n <= most);
                lanes && fits && tile.len() == whole.len() && inside == then
            }
            (None, None) => true,
            _ => false,
        }
    }

    /// The tiles: the stated ones, else those of the target's format.
    pub(crate) fn tiles_of(&self, rank: usize, bits: u32, target: &Target) -> Option<Tiles> {
        if let Some(stated) = &self.stated {
            return Some(stated.clone());
        }
        if self.is_plain(bits, target) {
            let short = self.at(Place::Short).next().is_some();
            let run = target.plain(bits).filter(|_| short);
            return Some(run.map(|run| vec![run]).into_iter().collect());
        }
        let (rows, lanes) = (self.extent(Place::Row)?, self.extent(Place::Lane)?);
        let alone = self.digits.iter().all(|d| d.place == Place::Lane);
        let tiles = match rank {
            0 => target.tiles(bits, &[]),
            1 if alone => target.tiles(bits, &[lanes]),
            _ => target.tiles(bits, &[rows, lanes]),
        };
        Some(tiles.into())
    }

    /// The layout of a value of this shape in this form.
    pub(crate) fn layout(&self, shape: &[u64], bits: u32, target: &Target) -> Option<Layout> {
        let tiles = self.tiles_of(shape.len(), bits, target)?;
        let grid = self.at(Place::Grid).map(|d| d.extent);
        let mut base: Vec<u64> = grid.collect();
        let first = tiles.first().map_or(0, Vec::len);
        if 2 <= first || (first == 0 && self.at(Place::Row).next().is_some()) {
            base.push(self.extent(Place::Row)?);
        }
        let lanes = self.at(Place::Lane).chain(self.at(Place::Short));
        if 1 <= first || lanes.clone().next().is_some() {
            base.push(lanes.map(|d| d.extent).try_fold(1, u64::checked_mul)?);
        }
        let rank = base.len();
        let order: Vec<String> = (0..rank).rev().map(|d| d.to_string()).collect();
        let text = match first {
            0 => order.join(","),
            _ => format!("{}:{}", order.join(","), optc_target::tiles_text(&tiles)),
        };
        let notation = Notation::Xla(XlaNotation::parse(&text, rank).ok()?.packed(bits));
        let based = Layout::new(notation, &base, bits).ok()?;
        let extents: Vec<u64> = self.digits.iter().map(|d| d.extent).collect();
        let mut places: Vec<usize> = (0..self.digits.len()).collect();
        places.sort_by(|&a, &b| {
            let (a, b) = (&self.digits[a], &self.digits[b]);
            a.dim.cmp(&b.dim).then(b.div.cmp(&a.div))
        });
        let map = ViewMap {
            shape: Some(extents),
            perm: Some(places),
            result: shape.to_vec(),
        };
        propagate(&based, &map).ok()
    }

    /// The one canonical spelling of the form. Digits of a tile in front of inner digits that fill whole tiles only
    /// number these tiles, so they belong to the grid. Digits at the end of the grid that continue such inner digits
    /// are merged with them.
    pub(crate) fn canonical(self, rank: usize, bits: u32, target: &Target) -> Physical {
        if self.is_plain(bits, target) {
            return self.plain_canonical(rank, bits, target);
        }
        self.tiled_canonical(rank, bits, target)
    }

    /// Puts innermost digits that fill whole lanes into the lanes. A run that is whole already has no padding.
    fn plain_canonical(mut self, rank: usize, bits: u32, target: &Target) -> Physical {
        let product = self.at(Place::Short).map(|d| d.extent);
        let product = product.fold(1u64, u64::saturating_mul);
        if target
            .plain(bits)
            .is_some_and(|run| product.is_multiple_of(run))
        {
            for digit in &mut self.digits {
                digit.place = Place::Grid;
            }
        }
        if self.at(Place::Short).next().is_some() {
            return self;
        }
        let tiles = target.full_tiles(bits);
        let lanes = tiles.first().and_then(|t| t.last().copied()).unwrap_or(0);
        let mut innermost = 1u64;
        for i in (0..self.digits.len()).rev() {
            innermost = innermost.saturating_mul(self.digits[i].extent);
            if lanes != 0 && innermost.is_multiple_of(lanes) {
                let mut whole = self.clone();
                for digit in &mut whole.digits[i..] {
                    digit.place = Place::Lane;
                }
                return whole.tiled_canonical(rank, bits, target);
            }
        }
        self.digits = joined(self.digits);
        self
    }

    fn tiled_canonical(self, rank: usize, bits: u32, target: &Target) -> Physical {
        let Some(tiles) = self.tiles_of(rank, bits, target) else {
            return self;
        };
        let (rows, lanes) = match tiles.first().map(Vec::as_slice) {
            Some(&[rows, lanes]) => (rows, lanes),
            Some(&[lanes]) => (1, lanes),
            _ => return self,
        };
        let take = |form: &Physical, place| form.at(place).copied().collect::<Vec<Digit>>();
        let mut grid = take(&self, Place::Grid);
        let (mut of_rows, mut of_lanes) = (take(&self, Place::Row), take(&self, Place::Lane));
        let product =
            |digits: &[Digit]| digits.iter().fold(1u64, |n, d| n.saturating_mul(d.extent));
        let whole = |digits: &[Digit], tile: u64| product(digits).is_multiple_of(tile);
        let to_grid = |digit: Digit| Digit {
            place: Place::Grid,
            ..digit
        };
        // The rows of a tile with one row number tiles.
        let kept = usize::from(rows != 1);
        while kept < of_rows.len() && whole(&of_rows[1..], rows) {
            grid.push(to_grid(of_rows.remove(0)));
        }
        if 1 < of_lanes.len()
            && whole(&of_lanes[1..], lanes)
            && let Some((outer, inner)) = cut_at(&of_rows, rows)
        {
            grid.extend(outer.into_iter().map(to_grid));
            of_rows = inner;
            while 1 < of_lanes.len() && whole(&of_lanes[1..], lanes) {
                grid.push(to_grid(of_lanes.remove(0)));
            }
        }
        let continues = |grid: &[Digit], run: &[Digit]| match (grid.last(), run.first()) {
            (Some(g), Some(r)) => g.dim == r.dim && r.div.checked_mul(r.extent) == Some(g.div),
            _ => false,
        };
        while product(&of_rows) <= rows && whole(&of_lanes, lanes) && continues(&grid, &of_lanes) {
            let outer = grid.pop().map(|d| Digit {
                place: Place::Lane,
                ..d
            });
            of_lanes.splice(0..0, outer);
            of_lanes = joined(of_lanes);
        }
        while whole(&of_rows, rows) && continues(&grid, &of_rows) {
            let outer = grid.pop().map(|d| Digit {
                place: Place::Row,
                ..d
            });
            of_rows.splice(0..0, outer);
            of_rows = joined(of_rows);
        }
        let canonical = Physical {
            digits: joined([grid, of_rows, of_lanes].concat()),
            stated: self.stated.clone(),
        };
        // The new extents of the runs may have other tiles. Then this would be another layout.
        if canonical.tiles_of(rank, bits, target).as_ref() == Some(&tiles) {
            canonical
        } else {
            self
        }
    }

    /// The form of the result for which a map is a view; `None` where the map cuts digits.
    pub(crate) fn through(&self, shape: &[u64], map: &ViewMap) -> Option<Physical> {
        let middle = map.shape.as_deref().unwrap_or(shape);
        let from = strides(shape)?;
        let mut atoms: Vec<Atom> = Vec::with_capacity(self.digits.len());
        for digit in &self.digits {
            atoms.push(Atom {
                weight: digit.div.checked_mul(from[digit.dim])?,
                extent: digit.extent,
                place: digit.place,
            });
        }
        let identity: Vec<usize> = (0..middle.len()).collect();
        let perm = map.perm.as_deref().unwrap_or(&identity);
        let cut = strides(middle)?;
        let atoms = split(atoms, &cut)?;
        let permuted: Vec<u64> = perm.iter().map(|&axis| middle[axis]).collect();
        let to = strides(&permuted)?;
        let mut place_of = vec![0; middle.len()];
        for (i, &axis) in perm.iter().enumerate() {
            place_of[axis] = i;
        }
        let moved = atoms.into_iter().map(|atom| {
            let axis = axis_of(&cut, middle, atom.weight)?;
            let weight = (atom.weight / cut[axis]).checked_mul(to[place_of[axis]])?;
            Some(Atom { weight, ..atom })
        });
        let moved: Vec<Atom> = moved.collect::<Option<_>>()?;
        let ends = strides(&map.result)?;
        let atoms = split(moved, &ends)?;
        let digit = |atom: &Atom| {
            let dim = axis_of(&ends, &map.result, atom.weight)?;
            Some(Digit {
                dim,
                div: atom.weight / ends[dim],
                extent: atom.extent,
                place: atom.place,
            })
        };
        let digits: Vec<Digit> = atoms.iter().map(digit).collect::<Option<_>>()?;
        Some(Physical {
            digits: joined(digits),
            stated: self.stated.clone(),
        })
    }
}

/// The digits of a run outside and inside of one tile of `tile` positions; `None` where the run cannot be cut there.
fn cut_at(run: &[Digit], tile: u64) -> Option<(Vec<Digit>, Vec<Digit>)> {
    let mut inside = Vec::new();
    let mut product = 1u64;
    for (i, digit) in run.iter().enumerate().rev() {
        let all = product.checked_mul(digit.extent)?;
        if all <= tile {
            inside.insert(0, *digit);
            product = all;
            continue;
        }
        let mut outside = run[..i].to_vec();
        let inner = tile / product;
        if !tile.is_multiple_of(product) || !digit.extent.is_multiple_of(inner) {
            return None;
        }
        outside.push(Digit {
            div: digit.div.checked_mul(inner)?,
            extent: digit.extent / inner,
            ..*digit
        });
        if 1 < inner {
            inside.insert(
                0,
                Digit {
                    extent: inner,
                    ..*digit
                },
            );
        }
        return Some((outside, inside));
    }
    Some((Vec::new(), inside))
}

/// The digits, with adjacent digits of one dimension in one place joined.
pub(crate) fn joined(digits: Vec<Digit>) -> Vec<Digit> {
    let mut out: Vec<Digit> = Vec::with_capacity(digits.len());
    for digit in digits {
        match out.last_mut() {
            Some(last)
                if last.dim == digit.dim
                    && last.place == digit.place
                    && digit.div.checked_mul(digit.extent) == Some(last.div) =>
            {
                last.div = digit.div;
                last.extent = last.extent.saturating_mul(digit.extent);
            }
            _ => out.push(digit),
        }
    }
    out
}

/// A digit of the row-major index: `extent` values of `index / weight`.
#[derive(Clone, Copy, Debug)]
struct Atom {
    weight: u64,
    extent: u64,
    place: Place,
}

/// The weight of each dimension in the row-major index.
fn strides(shape: &[u64]) -> Option<Vec<u64>> {
    let mut all = vec![1; shape.len()];
    let mut weight = 1u64;
    for (dim, &size) in shape.iter().enumerate().rev() {
        all[dim] = weight;
        weight = weight.checked_mul(size)?;
    }
    Some(all)
}

/// The dimension longer than 1 that contains a weight.
fn axis_of(strides: &[u64], shape: &[u64], weight: u64) -> Option<usize> {
    (0..shape.len())
        .find(|&dim| 1 < shape[dim] && strides[dim] <= weight && weight / strides[dim] < shape[dim])
}

/// Atoms, cut at the weights at which dimensions begin; `None` where a cut is impossible.
fn split(atoms: Vec<Atom>, cuts: &[u64]) -> Option<Vec<Atom>> {
    let mut sorted: FastSet<u64> = cuts.iter().copied().collect();
    sorted.sort_unstable_by(|a, b| b.cmp(a));
    let mut out = Vec::with_capacity(atoms.len());
    for atom in atoms {
        let mut rest = atom;
        for &cut in &sorted {
            let end = rest.weight.checked_mul(rest.extent)?;
            if cut <= rest.weight || end <= cut {
                continue;
            }
            if !cut.is_multiple_of(rest.weight) || !end.is_multiple_of(cut) {
                return None;
            }
            out.push(Atom {
                weight: cut,
                extent: end / cut,
                place: rest.place,
            });
            rest.extent = cut / rest.weight;
        }
        out.push(rest);
    }
    Some(out)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn target() -> Target {
        Target::builtin("tpu").expect("builtin")
    }

    #[test]
    fn a_form_and_the_text_of_it_are_one_function() {
        let cases: &[(&[u64], u32, &str)] = &[
            (&[197, 768], 16, "1,0:T(8,128)(2,1)"),
            (&[8, 197, 768], 16, "2,0,1:T(8,128)(2,1)"),
            (&[8, 197, 768], 32, "0,2,1:T(8,128)"),
            (&[300], 16, "0:T(512)(128)(2,1)"),
            (&[1, 1000], 32, "1,0:T(1,128)"),
        ];
        for &(shape, bits, text) in cases {
            let xla = XlaNotation::parse(text, shape.len()).expect("text");
            let stated = Layout::new(Notation::Xla(xla.clone()), shape, bits).expect("layout");
            let form = Physical::of_text(&xla, shape).expect("form");
            let built = form.layout(shape, bits, &target()).expect("layout");
            assert!(built.same_function(&stated), "{text}: {}", built.notation());
            let free = Physical {
                stated: None,
                ..form
            };
            let built = free.layout(shape, bits, &target()).expect("layout");
            assert!(built.same_function(&stated), "{text}: {}", built.notation());
        }
    }

    #[test]
    fn a_form_goes_through_a_map_as_its_layout_does() {
        let shape = [4, 49, 64];
        let form = Physical::natural(&shape);
        let layout = form.layout(&shape, 32, &target()).expect("layout");
        let maps = [
            ViewMap::reshape(&[4, 7, 7, 64]),
            ViewMap::reshape(&[196, 64]),
            ViewMap::transpose(&shape, &[2, 0, 1]).expect("perm"),
            ViewMap {
                shape: Some(vec![2, 2, 7, 7, 64]),
                perm: Some(vec![0, 2, 1, 3, 4]),
                result: vec![14, 14, 64],
            },
        ];
        for map in &maps {
            let there = propagate(&layout, map).expect("a view");
            let form = form.through(&shape, map).expect("a form");
            let built = form.layout(&map.result, 32, &target()).expect("layout");
            assert!(built.same_function(&there), "{map:?}: {form:?}");
        }
        let cut = ViewMap::reshape(&[4, 7, 448]);
        let form = form.through(&shape, &cut).expect("a form");
        let lanes: Vec<&Digit> = form.at(Place::Lane).collect();
        assert_eq!(lanes.len(), 1);
        assert_eq!((lanes[0].dim, lanes[0].div, lanes[0].extent), (2, 1, 64));
        let across = ViewMap::reshape(&[4, 14, 224]);
        assert!(Physical::natural(&shape).through(&shape, &across).is_none());
    }
}
