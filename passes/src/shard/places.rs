//! The digits that may be coordinates of devices: those of the loops of each operation, carried from one operation to
//! the next.

use optc_check::mesh::Site;
use optc_ir::Func;
use optc_ir::entity::EntityId;
use optc_ir::shard::Piece;
use rustc_hash::FxHashMap;

/// The most digits of one operation that come from others, for one extent.
const MOST_CARRIED: usize = 4;

/// The digits of each operation, by the extent of the axis.
pub(super) struct Places {
    /// For each operation of the body and each extent, the digits of loops.
    pub(super) ops: Vec<Vec<Vec<Piece>>>,
    /// Those of them that other operations lead to, and that may be split alone. Any other digit below the major one is
    /// split only below another axis.
    pub(super) carried: Vec<Vec<Vec<Piece>>>,
    /// For each operation of the body and each axis, the digits of loops to which the pins lead.
    pub(super) led: Vec<Vec<Vec<Piece>>>,
    /// The different extents of the axes.
    pub(super) extents: Vec<u64>,
    /// True for an operation that has all digits that its loops admit.
    pub(super) complete: Vec<bool>,
    /// The digits of values that were carried to the operations beside them, a count of the work.
    pub(super) carries: usize,
}

/// Finds the digits. `pinned` has the digits of pins with their axes. `states` is the most states of an operation: one
/// with fewer has all digits of its loops.
pub(super) fn places(
    func: &Func,
    sites: &[Site],
    axes: &[u64],
    pinned: &[(optc_ir::Value, usize, Vec<Piece>)],
    states: usize,
) -> Places {
    let mut pins = Finder::of(func, sites, axes, axes.to_vec());
    for (value, axis, pieces) in pinned {
        pins.reach(*value, *axis, pieces.clone());
    }
    pins.run();
    let mut extents: Vec<u64> = axes.to_vec();
    extents.sort_unstable();
    extents.dedup();
    let mut found = Finder::of(func, sites, axes, extents);
    for at in 0..sites.len() {
        found.seed(at, states);
    }
    found.places.led = std::mem::take(&mut pins.places.ops);
    for at in 0..sites.len() {
        found.follow(at);
    }
    found.run();
    found.places.carries = found.seen.len() + pins.seen.len();
    found.places
}

struct Finder<'a> {
    func: &'a Func,
    sites: &'a [Site],
    axes: &'a [u64],
    /// The operations that read or make a value, with the number of the port.
    ports: Vec<Vec<(usize, Result<usize, usize>)>>,
    seen: FxHashMap<(usize, usize, Vec<Piece>), ()>,
    work: Vec<(optc_ir::Value, usize, Vec<Piece>)>,
    places: Places,
}

impl<'a> Finder<'a> {
    fn of(func: &'a Func, sites: &'a [Site], axes: &'a [u64], extents: Vec<u64>) -> Finder<'a> {
        let mut ports = vec![Vec::new(); func.values.len()];
        for (at, &op) in func.body.iter().enumerate() {
            let data = &func.ops[op];
            for (i, v) in data.operands.iter().enumerate() {
                ports[v.index()].push((at, Ok(i)));
            }
            for (i, v) in data.results.iter().enumerate() {
                ports[v.index()].push((at, Err(i)));
            }
        }
        Finder {
            func,
            sites,
            axes,
            ports,
            seen: FxHashMap::default(),
            work: Vec::new(),
            places: Places {
                ops: vec![vec![Vec::new(); extents.len()]; sites.len()],
                carried: vec![vec![Vec::new(); extents.len()]; sites.len()],
                led: Vec::new(),
                complete: vec![false; sites.len()],
                carries: 0,
                extents,
            },
        }
    }

    /// Gives an operation the digits of its own loops: all of them if its states are few, else the major ones, at each
    /// nesting of the axes.
    fn seed(&mut self, at: usize, states: usize) {
        let site = &self.sites[at];
        self.places.complete[at] = true;
        let mut whole: Vec<Vec<Piece>> = vec![Vec::new(); self.places.extents.len()];
        let mut major = whole.clone();
        for id in 0..site.domain.loops.len() {
            let Some(extent) = site.loop_extent(id) else {
                continue;
            };
            for (slot, &n) in self.places.extents.iter().enumerate() {
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
                self.places.complete[at] &= few;
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
        let slot = |n: &u64| self.places.extents.iter().position(|e| e == n);
        let number = |lists: &[Vec<Piece>]| {
            let each = self
                .axes
                .iter()
                .map(|n| slot(n).map_or(1, |s| 1 + lists[s].len()));
            each.fold(1usize, usize::saturating_mul)
        };
        self.places.complete[at] &= number(&whole) <= states;
        let chosen = match self.places.complete[at] {
            true => whole,
            false => major,
        };
        for (slot, pieces) in chosen.into_iter().enumerate() {
            for piece in pieces {
                self.give(at, slot, piece);
            }
        }
    }

    /// Gives an operation the digits to which the pins lead, before it has those of other operations.
    fn follow(&mut self, at: usize) {
        for (axis, pieces) in self.places.led[at].clone().into_iter().enumerate() {
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
        let carried = &self.places.carried[at][slot];
        let full = MOST_CARRIED <= carried.len() || carried.contains(&piece);
        let major = self.sites[at].loop_extent(piece.dim) == Some(piece.high());
        if self.places.complete[at] || full && !major {
            return;
        }
        self.give(at, slot, piece);
        if !major {
            self.places.carried[at][slot].push(piece);
        }
    }

    fn give(&mut self, at: usize, slot: usize, piece: Piece) {
        if self.places.ops[at][slot].contains(&piece) {
            return;
        }
        let Some(divided) = self.sites[at].divided(&[Some(piece)]) else {
            return;
        };
        self.places.ops[at][slot].push(piece);
        let data = &self.func.ops[self.func.body[at]];
        let operands = data.operands.iter().zip(&divided.operands);
        for (&value, sharding) in operands.chain(data.results.iter().zip(&divided.results)) {
            if let Some(split) = sharding.on(0).filter(|s| !s.pieces().is_empty()) {
                self.reach(value, slot, split.pieces().to_vec());
            }
        }
    }

    fn reach(&mut self, value: optc_ir::Value, slot: usize, pieces: Vec<Piece>) {
        let key = (value.index(), slot, pieces.clone());
        if self.seen.insert(key, ()).is_none() {
            self.work.push((value, slot, pieces));
        }
    }

    fn run(&mut self) {
        while let Some((value, slot, pieces)) = self.work.pop() {
            for (at, port) in self.ports[value.index()].clone() {
                let own = self.sites[at].loop_pieces(port, &pieces);
                if let &[piece] = own.as_slice() {
                    self.carry(at, slot, piece);
                }
            }
        }
    }
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
