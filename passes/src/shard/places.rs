//! The digits that may be coordinates of devices: those of the loops of each operation, carried from one operation to
//! the next. Operations with equal loops are asked once which digits of values a digit of a loop leads to, and back.

use super::sites::{Port, Sites};
use crate::view_fold::maps::FastSet;
use optc_check::mesh::Site;
use optc_ir::entity::EntityId;
use optc_ir::shard::Piece;
use optc_ir::{Func, Value};
use rustc_hash::{FxHashMap, FxHashSet};
use std::rc::Rc;

/// The most digits of one operation that come from others, for one extent.
const MOST_CARRIED: usize = 4;

/// The digits of each operation, by the extent of the axis.
pub(super) struct Places {
    /// For each operation of the body and each extent, the digits of loops.
    pub(super) ops: Lists,
    /// Those of them that other operations lead to, and that may be split alone. Any other digit below the major one is
    /// split only below another axis.
    pub(super) carried: Lists,
    /// For each operation of the body and each axis, the digits of loops to which the pins lead.
    pub(super) led: Lists,
    /// The different extents of the axes.
    pub(super) extents: Vec<u64>,
    /// True for an operation that has all digits that its loops admit.
    pub(super) complete: Vec<bool>,
    /// The digits of values that were carried to the operations beside them, a count of the work.
    pub(super) carries: usize,
    /// The questions that sites were asked about digits, a count of the work.
    pub(super) asked: usize,
}

/// A few lists of digits for each operation of the body.
pub(super) struct Lists {
    each: usize,
    all: Vec<Vec<Piece>>,
}

impl Lists {
    fn over(n_ops: usize, each: usize) -> Lists {
        let all = vec![Vec::new(); n_ops * each];
        Lists { each, all }
    }

    /// The lists of an operation.
    pub(super) fn at(&self, at: usize) -> &[Vec<Piece>] {
        &self.all[at * self.each..][..self.each]
    }

    fn list(&mut self, at: usize, slot: usize) -> &mut Vec<Piece> {
        &mut self.all[at * self.each + slot]
    }
}

/// Finds the digits. `pinned` has the digits of pins with their axes. `states` is the most states of an operation: one
/// with fewer has all digits of its loops.
pub(super) fn places(
    func: &Func,
    sites: &Sites,
    axes: &[u64],
    pinned: &[(Value, usize, Vec<Piece>)],
    states: usize,
) -> Places {
    let mut pins = Finder::of(func, sites, axes, axes.to_vec());
    for (value, axis, pieces) in pinned {
        let digits = pins.interned(pieces);
        pins.reach(*value, *axis, digits);
    }
    pins.run();
    let mut extents: Vec<u64> = axes.to_vec();
    extents.sort_unstable();
    extents.dedup();
    let mut found = Finder::of(func, sites, axes, extents);
    found.seed_all(states);
    found.places.led = pins.places.ops;
    for at in 0..sites.len() {
        found.follow(at);
    }
    found.run();
    found.places.carries = found.seen.len() + pins.seen.len();
    found.places.asked += pins.places.asked;
    found.places
}

/// The number of a split of a value in the table of its digits.
type Digits = u32;

/// The splits of all operands and then of all results; `None` for one that is not split.
type Led = Rc<[Option<Digits>]>;

/// The digits of the loops of a site, for each extent; the flag says whether they are all.
type Own = (bool, Rc<[Vec<Piece>]>);

struct Finder<'a> {
    func: &'a Func,
    sites: &'a Sites,
    axes: &'a [u64],
    /// The different digits of values.
    digits: FastSet<Vec<Piece>>,
    /// For a site and a digit of its loops, the digits of its operands and then of its results; `None` if the loops are
    /// not split so.
    led: FxHashMap<(usize, Piece), Option<Led>>,
    /// For a site and the digits of one of its ports, the digit of its loops; `None` if it is not one.
    back: FxHashMap<(usize, Port, Digits), Option<Piece>>,
    /// The numbers of values, with those of their digits and of the extent.
    seen: FxHashSet<(u32, u32)>,
    work: Vec<(Value, usize, Digits)>,
    places: Places,
}

impl<'a> Finder<'a> {
    fn of(func: &'a Func, sites: &'a Sites, axes: &'a [u64], extents: Vec<u64>) -> Finder<'a> {
        let lists = || Lists::over(sites.len(), extents.len());
        Finder {
            func,
            sites,
            axes,
            digits: FastSet::default(),
            led: FxHashMap::default(),
            back: FxHashMap::default(),
            seen: FxHashSet::default(),
            work: Vec::new(),
            places: Places {
                ops: lists(),
                carried: lists(),
                led: Lists::over(0, 0),
                complete: vec![false; sites.len()],
                carries: 0,
                asked: 0,
                extents,
            },
        }
    }

    /// Gives each operation the digits of its own loops.
    fn seed_all(&mut self, states: usize) {
        let mut known: FxHashMap<usize, Own> = FxHashMap::default();
        for at in 0..self.sites.len() {
            let number = self.sites.number(at);
            let own = known.entry(number).or_insert_with(|| {
                let (complete, own) = self.own(self.sites.numbered(number), states);
                (complete, own.into())
            });
            let (complete, own) = own.clone();
            self.places.complete[at] = complete;
            for (slot, pieces) in own.iter().enumerate() {
                pieces.iter().for_each(|&piece| self.give(at, slot, piece));
            }
        }
    }

    /// The digits of the loops of a site: all of them if its states are few, else the major ones, at each nesting of the
    /// axes. The flag says whether they are all.
    fn own(&self, site: &Site, states: usize) -> (bool, Vec<Vec<Piece>>) {
        let extents = &self.places.extents;
        let mut complete = true;
        let mut whole: Vec<Vec<Piece>> = vec![Vec::new(); extents.len()];
        let mut major = whole.clone();
        for id in 0..site.domain.loops.len() {
            let Some(extent) = site.loop_extent(id) else {
                continue;
            };
            for (slot, &n) in extents.iter().enumerate() {
                let digit = |stride| Piece {
                    dim: id,
                    stride,
                    extent: n,
                };
                let strides = (1..=extent / n).filter(|s| extent.is_multiple_of(s * n));
                let few = extent <= 4096;
                let mine = strides
                    .take_while(|_| few)
                    .map(digit)
                    .filter(|p| site.admits(p));
                whole[slot].extend(mine);
                complete &= few;
                for outer in nestings(self.axes) {
                    let stride = extent / (n * outer).max(1);
                    let digit = digit(stride);
                    if stride * n * outer == extent
                        && site.admits(&digit)
                        && !major[slot].contains(&digit)
                    {
                        major[slot].push(digit);
                    }
                }
            }
        }
        let slot = |n: &u64| extents.iter().position(|e| e == n);
        let each = self
            .axes
            .iter()
            .map(|n| slot(n).map_or(1, |s| 1 + whole[s].len()));
        complete &= each.fold(1usize, usize::saturating_mul) <= states;
        (complete, if complete { whole } else { major })
    }

    /// Gives an operation the digits to which the pins lead, before it has those of other operations.
    fn follow(&mut self, at: usize) {
        for (axis, pieces) in self.places.led.at(at).to_vec().into_iter().enumerate() {
            let slot = self
                .places
                .extents
                .iter()
                .position(|&n| n == self.axes[axis]);
            for piece in pieces {
                slot.into_iter()
                    .for_each(|slot| self.carry(at, slot, piece));
            }
        }
    }

    /// Gives an operation a digit of another one.
    fn carry(&mut self, at: usize, slot: usize, piece: Piece) {
        if self.places.complete[at] {
            return;
        }
        let carried = self.places.carried.list(at, slot);
        let full = MOST_CARRIED <= carried.len() || carried.contains(&piece);
        let major = self.sites.at(at).loop_extent(piece.dim) == Some(piece.high());
        if full && !major {
            return;
        }
        self.give(at, slot, piece);
        if !major {
            self.places.carried.list(at, slot).push(piece);
        }
    }

    fn give(&mut self, at: usize, slot: usize, piece: Piece) {
        if self.places.ops.list(at, slot).contains(&piece) {
            return;
        }
        let Some(led) = self.led(self.sites.number(at), piece) else {
            return;
        };
        self.places.ops.list(at, slot).push(piece);
        let data = &self.func.ops[self.func.body[at]];
        let values = data.operands.iter().chain(&data.results);
        for (&value, &digits) in values.zip(led.iter()) {
            if let Some(digits) = digits {
                self.reach(value, slot, digits);
            }
        }
    }

    /// The digits of the operands and results of a site to which a digit of its loops leads.
    fn led(&mut self, number: usize, piece: Piece) -> Option<Led> {
        if let Some(known) = self.led.get(&(number, piece)) {
            return known.clone();
        }
        self.places.asked += 1;
        let divided = self.sites.numbered(number).divided(&[Some(piece)]);
        let led = divided.map(|divided| {
            let all = divided.operands.iter().chain(&divided.results);
            let own = all.map(|sharding| {
                let split = sharding.on(0).filter(|s| !s.pieces().is_empty());
                split.map(|split| self.interned(split.pieces()))
            });
            own.collect::<Led>()
        });
        self.led.insert((number, piece), led.clone());
        led
    }

    /// The digit of the loops of a site that leads to these digits of a port.
    fn back(&mut self, number: usize, port: Port, digits: Digits) -> Option<Piece> {
        let known = self.back.entry((number, port, digits));
        *known.or_insert_with(|| {
            self.places.asked += 1;
            let pieces = &self.digits[digits as usize];
            let own = self.sites.numbered(number).loop_pieces(port, pieces);
            match *own.as_slice() {
                [piece] => Some(piece),
                _ => None,
            }
        })
    }

    fn interned(&mut self, pieces: &[Piece]) -> Digits {
        let number = match self.digits.get_index_of(pieces) {
            Some(known) => known,
            None => self.digits.insert_full(pieces.to_vec()).0,
        };
        short(number)
    }

    fn reach(&mut self, value: Value, slot: usize, digits: Digits) {
        let split = short(slot) + digits * short(self.places.extents.len());
        if self.seen.insert((short(value.index()), split)) {
            self.work.push((value, slot, digits));
        }
    }

    fn run(&mut self) {
        let sites = self.sites;
        while let Some((value, slot, digits)) = self.work.pop() {
            for &(at, port) in sites.ports(value) {
                if let Some(piece) = self.back(sites.number(at), port, digits) {
                    self.carry(at, slot, piece);
                }
            }
        }
    }
}

/// The stored form of a number of values or splits.
fn short(number: usize) -> u32 {
    u32::try_from(number).expect("fewer than 2^32 of them fit the memory")
}

/// The products of any axes, 1 included: what may lie outside of a digit of one dimension.
fn nestings(axes: &[u64]) -> Vec<u64> {
    let mut all = vec![1u64];
    for &n in axes {
        let more: Vec<u64> = all.iter().map(|m| m.saturating_mul(n)).collect();
        all.extend(more);
    }
    all.sort_unstable();
    all.dedup();
    all
}
