//! Machines with lines of lanes: checks of the elements at the positions of a buffer, line by line.

use super::defect::{Defect, Part};
use super::port::{CORNERS, Port, changing};
use super::site::Site;
use crate::digits::digits;
use optc_layout::{Layout, Mode};
use optc_target::Alternative;

/// The positions of a buffer that are sampled: some from its start, and some from each of its lines.
pub(super) fn samples(positions: u64) -> Vec<u64> {
    let step = (positions / CORNERS).max(1);
    let spread = (0..CORNERS).map(|k| k.saturating_mul(step));
    let mut all: Vec<u64> = (0..CORNERS)
        .chain(spread)
        .filter(|&p| p < positions)
        .collect();
    all.sort_unstable();
    all.dedup();
    all
}

/// Checks that ports with the same labels have the same elements, and the same padding, at the same positions.
pub(super) fn same_lines(site: &Site<'_>, ports: &[Option<Port>]) -> Result<(), Defect> {
    type Sizes = Vec<(usize, u64)>;
    let mut first: Vec<(Sizes, usize)> = Vec::new();
    for (i, port) in ports.iter().enumerate() {
        let Some(layout) = port.as_ref().and_then(|p| p.line.as_ref()) else {
            continue;
        };
        let labels = site.labels(i).iter().flatten();
        let mut sizes: Sizes = labels.map(|&l| (l, site.extent(i, l))).collect();
        sizes.retain(|(_, n)| 1 < *n);
        sizes.sort_unstable();
        if sizes.is_empty() {
            continue;
        }
        let Some((_, known)) = first.iter().find(|(other, _)| *other == sizes) else {
            first.push((sizes, i));
            continue;
        };
        let Some(other) = ports[*known].as_ref().and_then(|p| p.line.as_ref()) else {
            continue;
        };
        let labelled =
            |port: usize, layout: &Layout, p: u64| Some(site.index(port, &layout.element_at(p)?));
        let mut all = samples(layout.positions().min(other.positions())).into_iter();
        let same = layout.positions() == other.positions();
        if !same || all.any(|p| labelled(i, layout, p) != labelled(*known, other, p)) {
            return Err(Defect::Order(*known, i));
        }
    }
    Ok(())
}

/// Checks, on a machine of lines, that ports with different sizes have their common digits in one order. If they have
/// the same labels, as a slice and its operand have, the digits of the innermost padded run must be at the same places.
pub(super) fn same_digits(site: &Site<'_>, ports: &[Option<Port>]) -> Result<(), Defect> {
    let mut known: Vec<(usize, Vec<(usize, Mode)>)> = Vec::new();
    for (i, port) in ports.iter().enumerate() {
        let layout = port.as_ref().and_then(|p| p.line.as_ref());
        // A value that is cut across merged dimensions has no digits.
        let Some(Ok(modes)) = layout.map(digits) else {
            continue;
        };
        let labels = site.labels(i);
        let of = |mode: Mode| Some((labels.get(mode.dim).copied().flatten()?, mode));
        let Some(order) = modes.into_iter().map(of).collect::<Option<Vec<_>>>() else {
            continue;
        };
        if known.iter().any(|(j, other)| {
            site.labels(*j) == labels
                && site.func.ty(site.values[*j]) == site.func.ty(site.values[i])
                && *other == order
        }) {
            continue;
        }
        // The first port stands for all those with the same labels.
        let mut seen = false;
        let others = known.iter().filter(|(j, _)| {
            let alike = site.labels(*j) == labels;
            let again = alike && seen;
            seen |= alike;
            !again
        });
        for (j, other) in others {
            let lanes = lanes_of(site, i);
            let size = |port: usize, label: usize| site.extent(port, label);
            digits_agree(site, (*j, other), (i, &order), lanes, &size)?;
        }
        known.push((i, order));
    }
    Ok(())
}

/// The check of [`same_digits`] for two ports with these digits. `size` gives the extent of a label at a port.
fn digits_agree(
    site: &Site<'_>,
    (j, other): (usize, &[(usize, Mode)]),
    (i, order): (usize, &[(usize, Mode)]),
    lanes: u64,
    size: &dyn Fn(usize, usize) -> u64,
) -> Result<(), Defect> {
    if common_digits(order, |label| size(j, label)) != common_digits(other, |label| size(i, label))
    {
        return Err(Defect::Order(j, i));
    }
    let labels = site.labels(i);
    if site.labels(j) != labels {
        return Ok(());
    }
    let whole = |order: &[(usize, Mode)]| {
        let last = order.last();
        last.is_none_or(|(label, _)| size(i, *label) == size(j, *label))
    };
    let within = |small: usize, big: usize| {
        let mut labels = labels.iter().flatten();
        labels.all(|l| size(small, *l) <= size(big, *l))
    };
    let same = match whole(order) && whole(other) {
        true if within(i, j) => same_run_of_part(other, order, lanes, |l| size(i, l)),
        true if within(j, i) => same_run_of_part(order, other, lanes, |l| size(j, l)),
        _ => true,
    };
    match same {
        true => Ok(()),
        false => Err(Defect::Padding(j, i)),
    }
}

/// The labels and divisors of the digits that another port has too, adjacent ones merged. `than` gives its extents.
fn common_digits(order: &[(usize, Mode)], than: impl Fn(usize) -> u64) -> Vec<(usize, u64)> {
    let mut out: Vec<(usize, u64)> = Vec::new();
    for (label, mode) in order {
        if mode.count <= 1 || than(*label) <= mode.div {
            continue;
        }
        match out.last_mut() {
            Some((last, div))
                if last == label && mode.div.checked_mul(mode.count) == Some(*div) =>
            {
                *div = mode.div;
            }
            _ => out.push((*label, mode.div)),
        }
    }
    out
}

/// The number of lanes of the target's lines for a value.
pub(super) fn lanes_of(site: &Site<'_>, port: usize) -> u64 {
    let ty = site.func.ty(site.values[port]).as_tensor();
    let bits = ty.map(|ty| ty.dtype.bits());
    let tiles = site.target.full_tiles(bits.unwrap_or(32));
    tiles.first().and_then(|t| t.last().copied()).unwrap_or(1)
}

/// Returns whether the innermost run of a whole, restricted to a part, is the innermost run of the part. `size` gives
/// the extents of the part. The run ends with the padded digit; if none is padded, it ends where whole lines are
/// filled.
pub(super) fn same_run_of_part(
    whole: &[(usize, Mode)],
    part: &[(usize, Mode)],
    lanes: u64,
    size: impl Fn(usize) -> u64,
) -> bool {
    let padded = |order: &[(usize, Mode)]| {
        let is_padded = |(_, mode): &(usize, Mode)| mode.count != mode.extent;
        order.iter().rposition(is_padded)
    };
    let count = |order: &[(usize, Mode)]| -> u64 {
        let digits = order.iter().map(|(_, mode)| mode.count);
        digits.fold(1, u64::saturating_mul)
    };
    let left = |order: &[(usize, Mode)]| -> u64 {
        let digits = order.iter().map(|(label, mode)| {
            let there = size(*label).div_ceil(mode.div.max(1));
            mode.count.min(there).max(1)
        });
        digits.fold(1, u64::saturating_mul)
    };
    let of_part = padded(part).map(|at| (count(&part[at..]), part[at..].len() == 1));
    match padded(whole) {
        Some(at) => {
            let run = left(&whole[at..]);
            let first =
                |order: &[(usize, Mode)], at: usize| (order[at].1.count, order[at].1.extent);
            match of_part {
                // A single digit may be padded to less than a line.
                Some((_, true)) if at + 1 == whole.len() => {
                    first(whole, at) == first(part, part.len() - 1)
                }
                Some((there, _)) => there == run,
                None => run.is_multiple_of(lanes),
            }
        }
        None => {
            let Some((there, _)) = of_part else {
                return true;
            };
            let mut ends = (0..whole.len()).rev();
            let end = ends.find(|&at| count(&whole[at..]).is_multiple_of(lanes));
            end.is_some_and(|at| {
                let run = left(&whole[at..]);
                run == there && !run.is_multiple_of(lanes)
            })
        }
    }
}

/// Checks that the first positions of the ports with the most labels are a run of one dimension, padding counted.
pub(super) fn has_runs(site: &Site<'_>, ports: &[Option<Port>], run: u64) -> Result<(), Defect> {
    let n = |port: usize| site.labels(port).iter().flatten().count();
    let most = (0..ports.len()).map(n).max().unwrap_or(0);
    for (i, port) in ports.iter().enumerate().filter(|(i, _)| n(*i) == most) {
        let Some(layout) = port.as_ref().and_then(|p| p.line.as_ref()) else {
            continue;
        };
        let elements: Vec<Vec<u64>> = (0..run).filter_map(|p| layout.element_at(p)).collect();
        let short = layout.positions() < run && 1 < layout.elements();
        if short || 1 < changing(&elements).len() {
            return Err(Defect::NoRun { port: i, run });
        }
    }
    Ok(())
}

/// Checks that each line of lanes of a port, the first and others, holds elements along one of the roles that the
/// alternative lists there, and that ports have the same run of a label that both have in their lanes.
pub(super) fn lines_by_roles(
    site: &Site<'_>,
    ports: &[Option<Port>],
    alternative: &Alternative,
) -> Result<(), Defect> {
    let mut lanes_of: Vec<Option<Vec<Vec<u64>>>> = Vec::with_capacity(ports.len());
    for (i, port) in ports.iter().enumerate() {
        let layout = port.as_ref().and_then(|p| p.line.as_ref());
        let rule = site.rule(alternative, i);
        let (Some(layout), Some(listed)) = (layout, rule.lanes) else {
            lanes_of.push(None);
            continue;
        };
        let labels = site.labels(i).iter().flatten();
        let mut long = labels.filter(|&&l| 1 < site.extent(i, l));
        let covered = |l: &usize| listed.iter().any(|r| r.covers(site.role(*l)));
        if !long.any(covered) {
            lanes_of.push(None);
            continue;
        }
        let tiles = site.target.full_tiles(layout.elem_bits());
        let lanes = tiles.first().and_then(|t| t.last().copied()).unwrap_or(1);
        if !layout.positions().is_multiple_of(lanes) {
            return Err(Defect::NoLines { port: i, lanes });
        }
        let line = |k: u64| -> Vec<Vec<u64>> {
            let positions = (0..lanes).filter_map(|p| layout.element_at(k * lanes + p));
            positions.collect()
        };
        let count = layout.positions() / lanes;
        // An odd step meets every remainder of a number of lines that a row may have.
        let step = (count / CORNERS) | 1;
        let near = 0..CORNERS.min(count);
        let spread = (0..CORNERS).map(|k| k.saturating_mul(step));
        for k in near.chain(spread.filter(|&k| k < count)).chain([count - 1]) {
            let dims = changing(&line(k));
            let mut roles = site.labelled(i, &dims).into_iter();
            let one = roles.clone().next().flatten().map(|l| site.role(l));
            let Some(one) = one else {
                if dims.is_empty() {
                    continue;
                }
                return Err(Defect::NoRole(i, Part::Lanes));
            };
            if roles.any(|l| l.map(|l| site.role(l)) != Some(one)) {
                return Err(Defect::TwoRoles(i, Part::Lanes));
            }
            if !listed.iter().any(|r| r.covers(one)) {
                return Err(Defect::Role(i, one, Part::Lanes));
            }
        }
        lanes_of.push(Some(line(0)));
    }
    for i in 0..ports.len() {
        for j in 0..i {
            let aside = site.is_aside(i) || site.is_aside(j);
            if let (false, Some(a), Some(b)) = (aside, &lanes_of[j], &lanes_of[i])
                && !same_run(site, (j, a), (i, b))
            {
                return Err(Defect::LaneDigits(j, i));
            }
        }
    }
    Ok(())
}

/// Returns whether the lines of two ports run alike along the labels that both have there.
pub(super) fn same_run(
    site: &Site<'_>,
    (i, a): (usize, &[Vec<u64>]),
    (j, b): (usize, &[Vec<u64>]),
) -> bool {
    let shared = |port: usize, other: usize, elements: &[Vec<u64>]| -> Vec<usize> {
        let labels = site
            .labelled(port, &changing(elements))
            .into_iter()
            .flatten();
        let same = |l: &usize| {
            let n = site.extent(other, *l);
            n == site.extent(port, *l)
        };
        labels.filter(same).collect()
    };
    let (mut x, mut y) = (shared(i, j, a), shared(j, i, b));
    x.sort_unstable();
    y.sort_unstable();
    if x.is_empty() || y.is_empty() {
        return true;
    }
    x == y && site.along(i, a, &x) == site.along(j, b, &x)
}
