//! Lower bounds of the padding of the layouts that a row takes at a port.
//!
//! Example: with 128 lanes, a dimension of 100 elements in the lanes is padded to 128. No layout with this dimension
//! whole in the lanes has less padding than 28 positions a line.

use super::takes::{is_alone, may_end_in};
use crate::view_fold::layouts::Layouts;
use crate::view_fold::signature::{Signature, TileRule};
use optc_target::PortRole;

/// The known facts about the lanes of a layout.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) struct InLanes {
    /// The label of the innermost digit.
    pub(crate) innermost: usize,
    /// True if the run in the lanes fills them, false if it is padded.
    pub(crate) filled: bool,
}

/// The least padding, in bytes, of any layout that the row takes at a port.
pub(crate) fn least_padding(
    sig: &Signature,
    layouts: &Layouts,
    port: usize,
    lanes: Option<InLanes>,
) -> u64 {
    let innermost = lanes.map(|lanes| lanes.innermost);
    let elements = sig.elements(port);
    let bits = sig.bits[port];
    if elements == 0 {
        return 0;
    }
    if let Some(positions) = least_run(sig, port, innermost) {
        return padding(bits, positions, elements);
    }
    if !sig.takes_roles() {
        return 0;
    }
    let mut least = u64::MAX;
    let lines = sig.lines.is_some();
    for rule in &sig.tiles {
        let written = rule.writes_any && sig.n_operands <= port;
        if lines && rule.is_by_roles() && !written {
            if innermost.is_none_or(|label| may_end_in(sig, rule, port, label)) {
                least = least.min(least_line(sig, layouts, rule, port, innermost));
            }
            continue;
        }
        if lines || !rule.is_by_roles() || written {
            return 0;
        }
        match least_tile(sig, layouts, rule, port, lanes) {
            Some(positions) => least = least.min(positions),
            None => return 0,
        }
    }
    if least == u64::MAX {
        return 0;
    }
    padding(bits, least, elements)
}

/// The longest run of a role that an alternative may have in a place of a tile. Runs of a part of its digits divide it.
struct RoleRuns {
    role: PortRole,
    /// The labels that it holds.
    labels: Vec<usize>,
    /// Its elements.
    extent: u64,
}

/// The runs of a place of a tile, by role. Dimensions of one role form one run, but for those that share none.
/// `None` if a long dimension has no label.
fn runs_of_place(
    sig: &Signature,
    rule: &TileRule,
    port: usize,
    place: usize,
) -> Option<Vec<RoleRuns>> {
    let listed = rule.ports[port][place].as_deref();
    let mut runs: Vec<RoleRuns> = Vec::new();
    let dims = sig.labels(port).iter().zip(&sig.shapes[port]);
    for (label, &size) in dims.filter(|(_, n)| 1 < **n) {
        let label = (*label)?;
        let role = sig.port_role(label);
        if listed.is_some_and(|all| !all.iter().any(|r| r.covers(role))) {
            continue;
        }
        let joins = |run: &&mut RoleRuns| {
            let mut both = [run.labels[0], label].into_iter();
            run.role == role && !both.any(|label| is_alone(sig, label))
        };
        match runs.iter_mut().find(joins) {
            Some(run) => {
                run.labels.push(label);
                run.extent = run.extent.saturating_mul(size);
            }
            None => runs.push(RoleRuns {
                role,
                labels: vec![label],
                extent: size,
            }),
        }
    }
    Some(runs)
}

/// Returns whether an alternative takes tiles of rows whose lanes are empty, though the port has dimensions for them.
pub(crate) fn may_lack_lanes(sig: &Signature, rule: &TileRule, port: usize) -> bool {
    let runs = |place: usize| runs_of_place(sig, rule, port, place);
    let empty = |(lanes, rows)| may_be_empty(rule, lanes, rows);
    sig.lines.is_none() && runs(0).as_deref().zip(runs(1).as_deref()).is_none_or(empty)
}

/// Returns whether a place may be empty: another one has all kinds of roles that the alternative lists.
fn may_be_empty(rule: &TileRule, lanes: &[RoleRuns], rows: &[RoleRuns]) -> bool {
    let mut kinds: Vec<PortRole> = lanes.iter().chain(rows).map(|r| r.role.kind()).collect();
    kinds.sort_unstable();
    kinds.dedup();
    !rule.distinct || kinds.len() < 2
}

/// The fewest positions of a port in tiles of rows and lanes that one alternative takes. `None` if nothing is known,
/// the greatest number if there is no such tile.
fn least_tile(
    sig: &Signature,
    layouts: &Layouts,
    rule: &TileRule,
    port: usize,
    known: Option<InLanes>,
) -> Option<u64> {
    let (bits, elements) = (sig.bits[port], sig.elements(port));
    let rank = sig.shapes[port].len();
    let lanes = runs_of_place(sig, rule, port, 0)?;
    let rows = runs_of_place(sig, rule, port, 1)?;
    let may_be_empty = may_be_empty(rule, &lanes, &rows);
    let fits = |run: u64| {
        let filled = run.is_multiple_of(layouts.lanes(bits));
        known.is_none_or(|known| known.filled == filled)
    };
    let mut least = u64::MAX;
    let held = |run: &&RoleRuns| known.is_none_or(|k| run.labels.contains(&k.innermost));
    for lane in lanes.iter().filter(held) {
        let apart = |row: &&RoleRuns| !rule.distinct || row.role.kind() != lane.role.kind();
        for l in divisors(lane.extent).into_iter().filter(|&l| fits(l)) {
            if may_be_empty {
                let lines = (elements / l).saturating_mul(layouts.in_lanes(bits, l));
                least = least.min(lines);
            }
            for r in rows
                .iter()
                .filter(apart)
                .flat_map(|row| divisors(row.extent))
            {
                let tiles = r.saturating_mul(l);
                if elements.is_multiple_of(tiles) {
                    let tile = layouts.padded(rank, bits, r, l);
                    least = least.min(tile.saturating_mul(elements / tiles));
                }
            }
        }
    }
    if may_be_empty && known.is_none_or(|known| !known.filled) {
        least = least.min(elements.saturating_mul(layouts.lanes(bits)));
    }
    Some(least)
}

/// Bytes of positions beside those of the elements.
fn padding(bits: u32, positions: u64, elements: u64) -> u64 {
    let bytes = |n: u64| n.saturating_mul(u64::from(bits)).div_ceil(8);
    bytes(positions).saturating_sub(bytes(elements))
}

/// The number of elements along each role, or kind of role, of a port; `None` if a long dimension has no label.
fn along_roles(
    sig: &Signature,
    port: usize,
    kind: impl Fn(PortRole) -> PortRole,
) -> Option<Vec<(PortRole, u64)>> {
    let mut along: Vec<(PortRole, u64)> = Vec::new();
    let dims = sig.labels(port).iter().zip(&sig.shapes[port]);
    for (label, &size) in dims.filter(|(_, n)| 1 < **n) {
        let role = kind(sig.port_role((*label)?));
        match along.iter_mut().find(|(known, _)| *known == role) {
            Some((_, n)) => *n = n.saturating_mul(size),
            None => along.push((role, size)),
        }
    }
    Some(along)
}

/// Of the runs that divide a digit of `extent` elements and are no multiple of the lanes, the one with the least
/// padding: its elements and its positions. `None` where all of them fill whole lanes.
pub(crate) fn least_padded_run(layouts: &Layouts, bits: u32, extent: u64) -> Option<(u64, u64)> {
    let runs = divisors(extent).into_iter();
    if runs.as_slice() == [1] {
        // For very large extents nothing is known.
        return Some((1, 1));
    }
    least_padded(layouts, bits, runs)
}

/// [`least_padded_run`] for runs of a part of one digit and some elements of what a larger value has beside it.
pub(crate) fn least_crossing_run(
    layouts: &Layouts,
    bits: u32,
    extent: u64,
    beside: u64,
) -> Option<(u64, u64)> {
    let (inner, outer) = (divisors(extent), divisors(beside));
    let known = |n: u64, runs: &[u64]| n == 1 || runs != [1];
    if !known(extent, &inner) || !known(beside, &outer) {
        return Some((1, 1));
    }
    let outer = outer.into_iter().filter(|&n| n != 1);
    let runs = outer.flat_map(|m| inner.iter().map(move |n| m.saturating_mul(*n)));
    least_padded(layouts, bits, runs)
}

/// Of these runs, the padded one with the least padding for each element: its elements and its positions.
pub(super) fn least_padded(
    layouts: &Layouts,
    bits: u32,
    runs: impl Iterator<Item = u64>,
) -> Option<(u64, u64)> {
    let padded = runs.map(|run| (run, layouts.in_lanes(bits, run)));
    let padded = padded.filter(|(run, lanes)| run != lanes);
    // The fewest positions for each element.
    padded.min_by(|(a, x), (b, y)| {
        let wide = |n: u64, m: u64| u128::from(n) * u128::from(m);
        wide(*x, *b).cmp(&wide(*y, *a))
    })
}

/// The least padding of the lines of one alternative at a port, in bytes.
pub(crate) fn least_line_padding(
    sig: &Signature,
    layouts: &Layouts,
    rule: &TileRule,
    port: usize,
    innermost: Option<usize>,
) -> u64 {
    let elements = sig.elements(port);
    if elements == 0 {
        return 0;
    }
    let positions = least_line(sig, layouts, rule, port, innermost);
    padding(sig.bits[port], positions, elements)
}

/// The fewest positions of a port that has all labels of a common order, if the innermost run is of one dimension and
/// padded up.
pub(super) fn least_run(sig: &Signature, port: usize, innermost: Option<usize>) -> Option<u64> {
    let count = |port: usize| sig.labels(port).iter().flatten().count();
    if sig.lines.is_none() || count(port) < count(sig.fullest) {
        return None;
    }
    let runs = sig
        .tiles
        .iter()
        .map(|rule| rule.shares_all.then_some(rule.run));
    let run = runs.collect::<Option<Vec<u64>>>()?.into_iter().min()?;
    let shape = &sig.shapes[port];
    let elements = sig.elements(port);
    let dims = sig.labels(port).iter().zip(shape);
    let ends = dims.filter(|(label, n)| 1 < **n && innermost.is_none_or(|l| **label == Some(l)));
    let padded = |&n: &u64| (elements / n).saturating_mul(n.max(run));
    ends.map(|(_, n)| padded(n)).min()
}

/// The fewest positions of a port whose lanes hold one of the roles that the rule lists there.
pub(super) fn least_line(
    sig: &Signature,
    layouts: &Layouts,
    rule: &TileRule,
    port: usize,
    innermost: Option<usize>,
) -> u64 {
    let (bits, elements) = (sig.bits[port], sig.elements(port));
    let Some(listed) = &rule.ports[port][0] else {
        return elements;
    };
    let Some(mut along) = along_roles(sig, port, |role| role) else {
        return elements;
    };
    let own = innermost.map(|label| sig.port_role(label));
    along.retain(|(role, _)| listed.iter().any(|r| r.covers(*role)));
    along.retain(|(role, _)| own.is_none_or(|own| own == *role));
    let lanes = along.iter().flat_map(|&(_, n)| divisors(n));
    let padded = |l: u64| layouts.padded(2, bits, 1, l).saturating_mul(elements / l);
    lanes.map(padded).min().unwrap_or(elements)
}

/// The divisors of a number, without 1 unless there is no other. For a very large number 1 alone, which has no padding.
pub(super) fn divisors(n: u64) -> Vec<u64> {
    const MOST: u64 = 1 << 24;
    if n <= 1 || MOST < n {
        return vec![1];
    }
    let small: Vec<u64> = (1..)
        .take_while(|d| d * d <= n)
        .filter(|d| n.is_multiple_of(*d))
        .collect();
    let mut all: Vec<u64> = small
        .iter()
        .flat_map(|&d| [d, n / d])
        .filter(|&d| 1 < d)
        .collect();
    all.sort_unstable();
    all.dedup();
    all
}
