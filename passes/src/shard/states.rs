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

/// The states of an operation with these digits for each axis, at most `most`. States with more parts come first; then
/// those of axes in the order of the mesh.
pub(super) fn states(site: &Site, digits: &[&[Piece]], most: usize) -> States {
    let mut all = Vec::new();
    let mut chosen: Vec<Option<Piece>> = Vec::new();
    let limit = most.saturating_mul(64);
    let whole = extend(site, digits, &mut chosen, &mut all, limit);
    let mut seen = IndexSet::new();
    all.retain(|divided| seen.insert(divided.clone()));
    let complete = whole && all.len() <= most;
    if most < all.len() {
        // What splits nothing stays first, and what is split least is dropped first.
        all[1..].sort_by_key(|d| std::cmp::Reverse(d.parts));
        all.truncate(most);
    }
    States { all, complete }
}

/// Adds all choices of digits after the chosen ones; returns false if there are more than the limit.
fn extend(
    site: &Site,
    digits: &[&[Piece]],
    chosen: &mut Vec<Option<Piece>>,
    all: &mut Vec<Divided>,
    limit: usize,
) -> bool {
    if limit <= all.len() {
        return false;
    }
    let Some(own) = digits.get(chosen.len()) else {
        all.extend(site.divided(chosen));
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
