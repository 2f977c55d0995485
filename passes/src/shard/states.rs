//! The states of an operation: a digit of a loop, or none, for each axis of the mesh.

use indexmap::IndexSet;
use optc_check::mesh::{Divided, Site};
use optc_ir::shard::{Piece, Sharding};

/// The states of an operation, and whether they are all that there are.
#[derive(Clone, Debug)]
pub(super) struct States {
    /// The shardings of each state; the first one splits nothing.
    pub(super) all: Vec<Divided>,
    /// False if states were dropped.
    pub(super) complete: bool,
}

/// The digits from which the states of an operation are made.
pub(super) struct Digits<'a> {
    /// The digits of each axis.
    pub(super) axes: Vec<&'a [Piece]>,
    /// The digits of each axis that may be split alone; `None` is all.
    pub(super) alone: Option<Vec<&'a [Piece]>>,
    /// The digits of each axis to which the pins lead.
    pub(super) led: &'a [Vec<Piece>],
}

impl Digits<'_> {
    /// Returns whether every digit is the major one of its loop, lies below the digit of another axis, or may be split
    /// alone.
    fn admit(&self, site: &Site, chosen: &[Option<Piece>]) -> bool {
        let Some(alone) = &self.alone else {
            return true;
        };
        chosen.iter().zip(alone).all(|(piece, alone)| {
            let Some(piece) = piece else { return true };
            let mut others = chosen.iter().flatten();
            is_major(site, piece)
                || others.any(|o| o.dim == piece.dim && o.stride == piece.high())
                || alone.contains(piece)
        })
    }

    /// The place of a state among too many: those of the digits of pins first, then those that split no loop over several
    /// axes.
    fn rank(&self, site: &Site, chosen: &[Option<Piece>]) -> usize {
        let split = || {
            chosen
                .iter()
                .enumerate()
                .filter_map(|(axis, p)| Some((axis, p.as_ref()?)))
        };
        let led = |(axis, piece): &(usize, &Piece)| self.led[*axis].contains(piece);
        let minor = |other: &(usize, &Piece)| !led(other) && !is_major(site, other.1);
        match split().all(|other| led(&other)) {
            true => 0,
            false => 1 + split().filter(minor).count(),
        }
    }
}

fn is_major(site: &Site, piece: &Piece) -> bool {
    site.loop_extent(piece.dim) == Some(piece.high())
}

/// The states of an operation, at most `most`. Of too many, those of the digits of pins stay; of the others those that
/// split a loop over several axes are dropped first, then those with few parts. The one that splits nothing stays.
pub(super) fn states(site: &Site, digits: &Digits<'_>, most: usize) -> States {
    let mut all = Vec::new();
    let mut chosen: Vec<Option<Piece>> = Vec::new();
    let limit = most.saturating_mul(64);
    let whole = extend(site, digits, &mut chosen, &mut all, limit);
    let mut seen = IndexSet::new();
    all.retain(|(_, divided)| seen.insert(divided.clone()));
    let complete = whole && all.len() <= most;
    if most < all.len() {
        all[1..].sort_by_key(|(rank, d)| (*rank, std::cmp::Reverse(d.parts)));
        all.truncate(most);
    }
    let all = all.into_iter().map(|(_, divided)| divided).collect();
    States { all, complete }
}

/// Adds all choices of digits after the chosen ones, each with its rank; returns false if there are more than the limit.
fn extend(
    site: &Site,
    digits: &Digits<'_>,
    chosen: &mut Vec<Option<Piece>>,
    all: &mut Vec<(usize, Divided)>,
    limit: usize,
) -> bool {
    if limit <= all.len() {
        return false;
    }
    let Some(own) = digits.axes.get(chosen.len()) else {
        if digits.admit(site, chosen) {
            let rank = digits.rank(site, chosen);
            all.extend(site.divided(chosen).map(|divided| (rank, divided)));
        }
        return true;
    };
    chosen.push(None);
    let mut whole = extend(site, digits, chosen, all, limit);
    chosen.pop();
    for piece in *own {
        if chosen.iter().flatten().all(|other| other.is_beside(piece)) {
            chosen.push(Some(*piece));
            whole &= extend(site, digits, chosen, all, limit);
            chosen.pop();
        }
    }
    whole
}

/// The shardings in which a value may be stored: all combinations, one split an axis, of those in which it is made and
/// read, or only these if the combinations are more than `most`. The flag says whether they are all.
pub(super) fn stored<'a>(
    seen: impl Iterator<Item = &'a Sharding>,
    axes: usize,
    most: usize,
) -> (Vec<Sharding>, bool) {
    let mut ends: IndexSet<Sharding> = IndexSet::from([Sharding::replicated()]);
    for sharding in seen {
        let mut kept = sharding.clone();
        for split in sharding.splits() {
            if split.pieces().is_empty() {
                kept = kept.without(split.axis);
            }
        }
        ends.insert(kept);
    }
    let mut all = vec![Sharding::replicated()];
    for axis in 0..axes {
        let splits: IndexSet<_> = ends.iter().filter_map(|s| s.on(axis)).collect();
        let mut more = Vec::new();
        for sharding in &all {
            for &split in &splits {
                let beside = sharding.pieces();
                let mut beside =
                    beside.flat_map(|(_, a)| split.pieces().iter().map(move |b| (a, b)));
                if beside.all(|(a, b)| a.is_beside(b)) {
                    more.push(sharding.clone().with(split.clone()));
                }
            }
        }
        all.extend(more);
        if most < all.len() {
            return (ends.into_iter().take(2 * most).collect(), false);
        }
    }
    (all, true)
}
