//! Forms of an operation, joined from parts of all ports that agree.
//!
//! Example: the result of a matmul has a run of M in the rows and a run of N in the lanes. A form joins it with a part
//! of the left operand that has the same run of M, and a part of the right operand that has the same run of N. The two
//! operands must have the same run of K.

use super::Part;
use super::build::{CHEAPEST, Run, build, cheapest};
use super::parts::{agree, parts};
use super::takes::rules_of;
use crate::view_fold::layouts::{LayoutId, Layouts};
use crate::view_fold::signature::Signature;
use optc_target::PortRole;

/// The most parts of one port that are joined with those of others.
pub(super) const MOST_PARTS: usize = 24;

/// The most forms that are joined from the parts of all ports. Without a limit they are all combinations of these parts.
pub(super) const MOST_FORMS: usize = 512;

/// The parts of each port, and the layouts there with these parts.
pub(crate) type PortParts = Vec<Vec<(Part, Vec<LayoutId>)>>;

/// The forms that are joined from parts of all ports: per port the layouts that it may have. If no known layout of a
/// port has the part that the others demand, one is made.
pub(crate) fn join(
    sig: &Signature,
    layouts: &mut Layouts,
    parts: &PortParts,
    rule: usize,
) -> Vec<Vec<Vec<LayoutId>>> {
    let mut forms: Vec<Vec<Vec<LayoutId>>> = Vec::new();
    let of_rule = |parts: &Vec<(Part, Vec<LayoutId>)>| {
        let taken = parts
            .iter()
            .filter(|(part, _)| part.rules & (1 << rule) != 0);
        taken.cloned().collect()
    };
    let parts: &PortParts = &parts.iter().map(of_rule).collect();
    let n = sig.n_ports();
    // The result and the data come first: their tiles determine those of all other ports.
    let mut order: Vec<usize> = (0..n).collect();
    order.sort_by_key(|&p| (p < sig.n_operands && p != 0, p == 0));
    let mut chosen: Vec<Option<&Part>> = vec![None; n];
    let mut ids: Vec<Vec<LayoutId>> = vec![Vec::new(); n];
    descend(
        (sig, rule),
        layouts,
        parts,
        &order,
        &mut chosen,
        &mut ids,
        &mut forms,
    );
    forms
}

pub(super) fn descend<'p>(
    (sig, rule): (&Signature, usize),
    layouts: &mut Layouts,
    parts: &'p PortParts,
    order: &[usize],
    chosen: &mut Vec<Option<&'p Part>>,
    ids: &mut Vec<Vec<LayoutId>>,
    forms: &mut Vec<Vec<Vec<LayoutId>>>,
) {
    if MOST_FORMS <= forms.len() {
        return;
    }
    let Some((&port, rest)) = order.split_first() else {
        forms.push(ids.clone());
        return;
    };
    let mut seen: Vec<LayoutId> = Vec::new();
    for (part, known) in parts[port].iter().take(MOST_PARTS) {
        let fits = (0..chosen.len()).all(|other| {
            chosen[other].is_none_or(|there| agree(sig, (other, there), (port, part)))
        });
        if !fits {
            continue;
        }
        seen.extend(known);
        chosen[port] = Some(part);
        ids[port].clone_from(known);
        descend((sig, rule), layouts, parts, rest, chosen, ids, forms);
        chosen[port] = None;
    }
    // With more candidates, the forms that fewer candidates give are there too.
    let made = made((sig, rule), layouts, port, chosen);
    if let Some(made) = made.filter(|id| !seen.contains(id)) {
        ids[port] = vec![made];
        descend((sig, rule), layouts, parts, rest, chosen, ids, forms);
    }
}

/// A layout of a port that agrees with the parts of the others.
pub(super) fn made(
    (sig, rule): (&Signature, usize),
    layouts: &mut Layouts,
    port: usize,
    chosen: &[Option<&Part>],
) -> Option<LayoutId> {
    let shape = &sig.shapes[port];
    let by_role = runs_by_role(sig, port, chosen);
    let mut best: Option<(u64, LayoutId)> = None;
    let empty = || (by_role.len() < 2 || sig.lines.is_some()).then_some(None);
    let runs: Vec<Run> = by_role.iter().map(|(_, run)| run.clone()).collect();
    let options: Vec<Option<Run>> = runs.iter().cloned().map(Some).chain(empty()).collect();
    for lanes in &options {
        for rows in &options {
            let same = lanes.as_ref().map(|l| &l.digits) == rows.as_ref().map(|r| &r.digits);
            let empty = lanes.is_none() || rows.is_none();
            let lines = sig.lines.is_some() && rows.is_none();
            if (same && lanes.is_some()) || (empty && 1 < runs.len() && !lines) {
                continue;
            }
            let Some(form) = build(sig, port, lanes.clone(), rows.clone(), &[]) else {
                continue;
            };
            let Some(id) = layouts.formed(shape, sig.bits[port], &form) else {
                continue;
            };
            let bytes = layouts.bytes(id);
            let taken = rules_of(sig, layouts, port, id) & (1 << rule) != 0;
            if taken && best.is_none_or(|(least, _)| bytes < least) {
                best = Some((bytes, id));
            }
        }
    }
    if runs.is_empty() {
        // Nothing determines the tile: row-major if it is taken, else the layout of least padding.
        let natural = layouts.row_major(shape, sig.bits[port]);
        let all = [natural]
            .into_iter()
            .chain(cheapest(sig, layouts, port, CHEAPEST));
        let all: Vec<LayoutId> = all.collect();
        let mut taken = all.into_iter();
        let taken = taken.find(|&id| rules_of(sig, layouts, port, id) & (1 << rule) != 0);
        best = taken.map(|id| (0, id));
    }
    let made = best.map(|(_, id)| id)?;
    let part = parts(sig, layouts, port, made)?;
    let mut others = chosen.iter().enumerate();
    let fits = others
        .all(|(other, there)| there.is_none_or(|there| agree(sig, (other, there), (port, &part))));
    fits.then_some(made)
}

/// Digits of a port that other ports have put into places, by their roles.
fn runs_by_role(sig: &Signature, port: usize, chosen: &[Option<&Part>]) -> Vec<(PortRole, Run)> {
    let shape = &sig.shapes[port];
    let mut by_role: Vec<(PortRole, Run)> = Vec::new();
    for part in chosen.iter().flatten() {
        for digit in part.runs.iter().flat_map(|run| &run.digits) {
            let Some(dim) = sig
                .labels(port)
                .iter()
                .position(|l| *l == Some(digit.label))
            else {
                continue;
            };
            if shape[dim] == 1 {
                continue;
            }
            let extent = if digit.extent == 0 {
                shape[dim]
            } else {
                digit.extent
            };
            let role = sig.port_role(digit.label);
            let entry = (dim, digit.div, extent);
            match by_role.iter_mut().find(|(r, _)| *r == role) {
                Some((_, run)) if run.digits.contains(&entry) => {}
                Some((_, run)) => run.digits.push(entry),
                None => by_role.push((
                    role,
                    Run {
                        digits: vec![entry],
                    },
                )),
            }
        }
    }
    by_role
}
