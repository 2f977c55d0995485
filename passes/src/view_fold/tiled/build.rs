//! Layouts that a row takes: defaults, layouts that fit one at another port, and layouts of least padding.
//!
//! Example: the left operand of a matmul has the shape (12, 128, 64), with the roles batch, M and K. Its default form
//! has K in the lanes, M in the rows and the batch in the grid.

use super::size_of;
use super::takes::{accepts, role_order, takes};
use crate::view_fold::label_order::label_order;
use crate::view_fold::layouts::{LayoutId, Layouts};
use crate::view_fold::maps::FastSet;
use crate::view_fold::physical::{Digit, Physical, Place, joined};
use crate::view_fold::signature::{LabelDigit, Signature, TileRule};
use optc_ir::Role;
use optc_target::PortRole;

/// The number of layouts of least padding that are tried at a port whose tile no other port determines.
pub(super) const CHEAPEST: usize = 8;

/// The default runs of a port: the last label of each of the first two roles that the row takes, with the later
/// dimension in the lanes.
pub(crate) fn default(sig: &Signature, layouts: &mut Layouts, port: usize) -> Option<LayoutId> {
    let rule = sig.tiles.iter().find(|r| r.is_by_roles())?;
    let shape = &sig.shapes[port];
    let chosen: Vec<usize> = representatives(sig, rule);
    let labels = sig.labels(port);
    let mut dims: Vec<usize> = (0..labels.len())
        .filter(|&d| labels[d].is_some_and(|l| chosen.contains(&l)) && 1 < sig.shapes[port][d])
        .collect();
    // Batch and taps fill a tile only where no other role does.
    let rank = |d: &usize| match labels[*d].map(|l| sig.port_role(l)) {
        Some(PortRole::Batch | PortRole::Tap) => 1,
        _ => 0,
    };
    dims.sort_by_key(|d| (rank(d), std::cmp::Reverse(*d)));
    let kind = |d: usize| labels[d].map(|l| sig.port_role(l).kind());
    let mut pairs: Vec<(Option<usize>, Option<usize>)> = Vec::new();
    if let Some(&first) = dims.first() {
        let other = |d: &usize| *d != first && (!rule.distinct || kind(*d) != kind(first));
        let second = dims.iter().copied().find(other);
        let later = second.map_or(first, |second| second.max(first));
        let earlier = second.map(|second| second.min(first));
        pairs.push((Some(later), earlier));
    }
    // If the row does not take these two in these places, the first two that it takes.
    let all = (0..labels.len()).filter(|&d| labels[d].is_some() && 1 < sig.shapes[port][d]);
    let others: Vec<usize> = all.filter(|d| !dims.contains(d)).collect();
    dims.extend(others);
    for &lane in &dims {
        let rows = dims.iter().filter(|&&d| d != lane).map(|&d| Some(d));
        pairs.extend(rows.chain([None]).map(|row| (Some(lane), row)));
    }
    // If all roles of a place have a single element, the place is empty.
    pairs.extend(dims.iter().map(|&row| (None, Some(row))));
    pairs.push((None, None));
    let whole = |dim: usize| Run::whole(shape, dim);
    pairs.into_iter().find_map(|(lane, row)| {
        let form = build(sig, port, lane.map(whole), row.map(whole), &[])?;
        let id = layouts.formed(shape, sig.bits[port], &form)?;
        let order = role_order(sig, layouts, port, id)?;
        takes(sig, rule, port, &order).then_some(id)
    })
}

/// One label for each role: it fills a place of the tile at every port that has the label.
pub(super) fn representatives(sig: &Signature, rule: &TileRule) -> Vec<usize> {
    let mut roles: Vec<PortRole> = Vec::new();
    let mut chosen = Vec::new();
    let result = sig.n_operands.min(sig.n_ports().saturating_sub(1));
    for port in [result, 0, 1] {
        let Some(listed) = rule.ports.get(port) else {
            continue;
        };
        let dims = sig.labels(port).iter().zip(&sig.shapes[port]);
        for (label, &size) in dims.rev() {
            let Some(label) = label.filter(|_| 1 < size) else {
                continue;
            };
            let role = sig.port_role(label);
            let may = listed.iter().any(|roles| {
                roles
                    .as_ref()
                    .is_none_or(|all| all.iter().any(|r| r.covers(role)))
            });
            if may && !roles.contains(&role) {
                roles.push(role);
                chosen.push(label);
            }
        }
    }
    chosen
}

/// Digits that fill a place: dimension, divisor, extent.
#[derive(Clone, Debug, Default)]
pub(super) struct Run {
    pub(super) digits: Vec<(usize, u64, u64)>,
}

impl Run {
    /// All of a dimension.
    pub(super) fn whole(shape: &[u64], dim: usize) -> Run {
        Run {
            digits: vec![(dim, 1, shape[dim])],
        }
    }
}

/// A form with these runs. The other digits number tiles, in the order of `hint`, else in the logical order.
pub(super) fn build(
    sig: &Signature,
    port: usize,
    lanes: Option<Run>,
    rows: Option<Run>,
    hint: &[LabelDigit],
) -> Option<Physical> {
    let shape = &sig.shapes[port];
    let (lanes, rows) = (lanes.unwrap_or_default(), rows.unwrap_or_default());
    let mut grid: Vec<Digit> = Vec::new();
    for (dim, &size) in shape.iter().enumerate() {
        let runs = lanes.digits.iter().chain(&rows.digits);
        let mut taken: Vec<(u64, u64)> = runs
            .filter(|(d, ..)| *d == dim)
            .map(|&(_, div, extent)| (div, extent))
            .collect();
        taken.sort_unstable();
        let mut rest = Vec::new();
        let mut at = 1u64;
        for (div, extent) in taken {
            if div < at || !div.is_multiple_of(at) {
                return None;
            }
            if at < div {
                rest.push((at, div / at));
            }
            at = div.checked_mul(extent)?;
        }
        if at < size {
            if !size.is_multiple_of(at) {
                return None;
            }
            rest.push((at, size / at));
        } else if size < at {
            return None;
        }
        let digit = |&(div, extent): &(u64, u64)| Digit {
            dim,
            div,
            extent,
            place: Place::Grid,
        };
        grid.extend(rest.iter().rev().map(digit));
    }
    reorder(sig, port, &mut grid, hint);
    let placed = |run: &Run, place| -> Vec<Digit> {
        let digit = |&(dim, div, extent): &(usize, u64, u64)| Digit {
            dim,
            div,
            extent,
            place,
        };
        run.digits.iter().map(digit).collect()
    };
    let mut digits = grid;
    digits.extend(placed(&rows, Place::Row));
    digits.extend(placed(&lanes, Place::Lane));
    digits.retain(|d| 1 < d.extent);
    Some(Physical::new(joined(digits)))
}

/// Sorts the digits that stand in `hint` by their order there.
pub(super) fn reorder(sig: &Signature, port: usize, grid: &mut [Digit], hint: &[LabelDigit]) {
    let labels = sig.labels(port);
    let place = |d: &Digit| {
        let label = labels.get(d.dim).copied().flatten()?;
        hint.iter().position(|h| h.label == label && h.div == d.div)
    };
    let at: Vec<usize> = (0..grid.len())
        .filter(|&i| place(&grid[i]).is_some())
        .collect();
    let mut known: Vec<Digit> = at.iter().map(|&i| grid[i]).collect();
    known.sort_by_key(|d| place(d));
    for (i, digit) in at.into_iter().zip(known) {
        grid[i] = digit;
    }
}

/// The run of an order's digits in one place, as far as a port has them.
pub(super) fn run_at(
    sig: &Signature,
    port: usize,
    order: &[LabelDigit],
    place: Place,
    from: usize,
) -> Option<Run> {
    let mut digits = Vec::new();
    for d in order.iter().filter(|d| d.place == place) {
        let Some(dim) = sig.labels(port).iter().position(|l| *l == Some(d.label)) else {
            continue;
        };
        let size = sig.shapes[port][dim];
        if size == 1 {
            continue;
        }
        let whole = d.div == 1 && d.extent == size_of(sig, from, d.label);
        digits.push((dim, d.div, if whole { size } else { d.extent }));
    }
    (!digits.is_empty()).then_some(Run { digits })
}

/// Layouts at other ports that fit this one at this port. The run that both ports have stays. The other place is filled
/// with digits that the row takes there. Both orientations are tried.
pub(crate) fn transfers(
    sig: &Signature,
    layouts: &mut Layouts,
    port: usize,
    layout: LayoutId,
) -> Vec<(usize, LayoutId)> {
    let Some(order) = label_order(sig, layouts, port, layout) else {
        return Vec::new();
    };
    let mut out = FastSet::default();
    for other in (0..sig.n_ports()).filter(|&o| o != port) {
        let lanes = run_at(sig, other, &order, Place::Lane, port);
        let rows = run_at(sig, other, &order, Place::Row, port);
        let missing: Vec<Option<Run>> = match (&lanes, &rows) {
            (Some(_), Some(_)) => vec![None],
            _ => fillers(sig, port, other),
        };
        for fill in missing {
            let pair = match (lanes.clone(), rows.clone()) {
                (Some(lanes), Some(rows)) => (Some(lanes), Some(rows)),
                (Some(lanes), None) => (Some(lanes), fill),
                (None, Some(rows)) => (fill, Some(rows)),
                (None, None) => (fill, None),
            };
            for (lanes, rows) in [pair.clone(), (pair.1, pair.0)] {
                if lanes.is_none() {
                    continue;
                }
                let form = build(sig, other, lanes, rows, &order);
                let found = accepted(sig, layouts, other, form);
                out.extend(found.map(|(_, id)| (other, id)));
            }
        }
    }
    out.into_iter().collect()
}

/// Whole dimensions of a port that the other port lacks, the last one of each role.
pub(super) fn fillers(sig: &Signature, from: usize, port: usize) -> Vec<Option<Run>> {
    let mut roles: Vec<PortRole> = Vec::new();
    let mut all = Vec::new();
    let dims: Vec<usize> = (0..sig.shapes[port].len()).rev().collect();
    for dim in dims {
        let size = sig.shapes[port][dim];
        let Some(label) = sig.labels(port)[dim].filter(|_| 1 < size) else {
            continue;
        };
        let role = sig.port_role(label);
        if sig.has_label(from, label) || roles.contains(&role) {
            continue;
        }
        roles.push(role);
        let digits = vec![(dim, 1, size)];
        all.push(Some(Run { digits }));
    }
    if all.is_empty() {
        all.push(None);
    }
    all
}

/// The layouts of least padding that the row takes at a port: whole dimensions in lanes and rows.
pub(crate) fn cheapest(
    sig: &Signature,
    layouts: &mut Layouts,
    port: usize,
    n: usize,
) -> Vec<LayoutId> {
    let shape = &sig.shapes[port];
    let long: Vec<usize> = (0..shape.len()).filter(|&d| 1 < shape[d]).collect();
    let mut found: Vec<(u64, LayoutId)> = Vec::new();
    for &lane in long.iter().filter(|_| sig.is_common_order()) {
        let Some(run) = sig.lines else { break };
        let mut order: Vec<usize> = (0..shape.len()).filter(|&d| d != lane).collect();
        order.push(lane);
        let form = Physical::plain(shape, &order, Some(run));
        found.extend(accepted(sig, layouts, port, Some(form)));
    }
    let rows = [sig.lines.is_none(), sig.lines.is_some()];
    found.extend(in_tiles(sig, layouts, port, &long, rows));
    least(found, n)
}

/// The layouts, with their bytes, that the row takes at a port: each of these dimensions in the lanes, and each other one
/// in the rows if `filled`, and none if `empty`.
fn in_tiles(
    sig: &Signature,
    layouts: &mut Layouts,
    port: usize,
    dims: &[usize],
    [filled, empty]: [bool; 2],
) -> Vec<(u64, LayoutId)> {
    let whole = |dim: usize| Run::whole(&sig.shapes[port], dim);
    let mut found = Vec::new();
    for &lane in dims {
        let beside = dims.iter().copied().filter(|&row| filled && row != lane);
        for row in beside.map(Some).chain(empty.then_some(None)) {
            let form = build(sig, port, Some(whole(lane)), row.map(whole), &[]);
            found.extend(accepted(sig, layouts, port, form));
        }
    }
    found
}

/// The layout of a form with its bytes, if the row takes it at a port.
fn accepted(
    sig: &Signature,
    layouts: &mut Layouts,
    port: usize,
    form: Option<Physical>,
) -> Option<(u64, LayoutId)> {
    let id = layouts.formed(&sig.shapes[port], sig.bits[port], &form?)?;
    accepts(sig, layouts, port, id).then(|| (layouts.bytes(id), id))
}

/// The `n` layouts of the fewest bytes.
fn least(mut found: Vec<(u64, LayoutId)>, n: usize) -> Vec<LayoutId> {
    found.sort_by_key(|&(bytes, _)| bytes);
    found.dedup();
    found.into_iter().take(n).map(|(_, id)| id).collect()
}

/// The layouts of least padding of a port that other ports are parts of, with no cut dimension in their tiles. The parts
/// then lie evenly. At most `n`.
pub(crate) fn uncut(
    sig: &Signature,
    layouts: &mut Layouts,
    port: usize,
    n: usize,
) -> Vec<LayoutId> {
    let shape = &sig.shapes[port];
    let kept = |dim: &usize| {
        let label = sig.labels(port).get(*dim).copied().flatten();
        1 < shape[*dim] && label.is_some_and(|l| sig.freedom.labels[l].role != Role::Axis)
    };
    let kept: Vec<usize> = (0..shape.len()).filter(kept).collect();
    let rank = shape.iter().filter(|&&n| 1 < n).count();
    // A value of one dimension has empty rows.
    let found = in_tiles(sig, layouts, port, &kept, [true, rank == 1]);
    least(found, n)
}
