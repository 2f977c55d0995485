//! The forms of a contraction as products of matrices. They follow from the end of one port's order.
//!
//! Example: the result has the order `batch m n`. The forms then have the left operand in `batch m k` or `batch k m`,
//! and the right one in `batch k n` or `batch n k`, as far as the row lists these ends.

use super::ends::{Parts, parts};
use super::label_order::label_order;
use super::layouts::{LayoutId, Layouts};
use super::restrict::restrict;
use super::rows::{Ends, takes_layout};
use super::signature::{LabelDigit, LabelOrder, Signature};
use optc_target::PortRole;

/// The whole dimensions of a role, in the order that the result or the operands have them.
fn natural(sig: &Signature, wanted: PortRole) -> LabelOrder {
    let labels: Vec<(usize, u64)> = match wanted {
        PortRole::K => {
            let size = |&label: &usize| Some((label, sig.extent(0, label)?));
            sig.reference_k.iter().filter_map(size).collect()
        }
        _ => {
            let of = |port: usize| -> Vec<(usize, u64)> {
                let dims = sig.labels(port).iter().zip(&sig.shapes[port]);
                dims.filter_map(|(label, &n)| Some(((*label)?, n)))
                    .filter(|(label, _)| sig.port_role(*label) == wanted)
                    .collect()
            };
            let mut all = [sig.n_operands, 0, 1].into_iter().map(of);
            all.find(|l| !l.is_empty()).unwrap_or_default()
        }
    };
    let long = labels.into_iter().filter(|(_, n)| 1 < *n);
    long.map(|(label, extent)| LabelDigit::in_grid(label, 1, extent))
        .collect()
}

/// Forms of all ports that fit one layout of one port, by every alternative that takes the layout there.
///
/// With `first` there are fewer forms. For the result, only the first end is used. For an operand, ends with the batch
/// inside are left out. An end that an earlier alternative has too is used only where it is the first one of its own
/// alternative.
pub(crate) fn forms(
    sig: &Signature,
    layouts: &mut Layouts,
    (port, layout): (usize, LayoutId),
    first: bool,
) -> Vec<Vec<LayoutId>> {
    let result = sig.n_operands;
    let mut out = Vec::new();
    if ![0, 1, result].contains(&port) {
        return out;
    }
    let Some(order) = label_order(sig, layouts, port, layout) else {
        return out;
    };
    let all: Vec<&Ends> = sig
        .orders
        .iter()
        .filter_map(|rule| rule.ends.as_ref())
        .collect();
    for (at, ends) in all.iter().enumerate() {
        for (i, end) in ends.ports[port].iter().enumerate() {
            let mut before = all[..at].iter();
            if first && i != 0 && before.any(|known| known.ports[port].contains(end)) {
                continue;
            }
            let Some(found) = parts(sig, ends, end, &order) else {
                continue;
            };
            let options = |p: usize| -> Vec<&Vec<PortRole>> {
                let mut all: Vec<&Vec<PortRole>> = ends.ports[p].iter().collect();
                match (p == port, first) {
                    (true, _) => all = vec![end],
                    (false, true) if p == result => all.truncate(1),
                    (false, true) => all.retain(|end| !end.contains(&PortRole::Batch)),
                    (false, false) => {}
                }
                all
            };
            for left in options(0) {
                for right in options(1) {
                    for written in options(result) {
                        let all = [left, right, written];
                        if let Some(form) = form(sig, layouts, (port, layout), &found, all)
                            && !out.contains(&form)
                        {
                            out.push(form);
                        }
                    }
                }
            }
        }
    }
    out
}

/// The form with these ends of the ports, given the parts of one port's order; `None` if a port does not take its
/// order.
fn form(
    sig: &Signature,
    layouts: &mut Layouts,
    (port, layout): (usize, LayoutId),
    found: &Parts,
    ends: [&Vec<PortRole>; 3],
) -> Option<Vec<LayoutId>> {
    let result = sig.n_operands;
    let known = |wanted: PortRole| found.runs.iter().find(|(role, _)| *role == wanted);
    let run = |wanted: PortRole| match known(wanted) {
        Some((_, digits)) => digits.clone(),
        None => natural(sig, wanted),
    };
    let is = |d: &LabelDigit, wanted: PortRole| sig.port_role(d.label) == wanted;
    // If the batch is inside of a matrix at this port, it stands before the matrices at the others.
    let mut before = found.before.clone();
    if let Some((_, batch)) = known(PortRole::Batch) {
        before = batch.clone();
    }
    let order_of = |end: &[PortRole], has: &dyn Fn(usize) -> bool| -> LabelOrder {
        let inside = end.contains(&PortRole::Batch);
        let mut order: LabelOrder = before
            .iter()
            .filter(|d| has(d.label) && !(inside && is(d, PortRole::Batch)))
            .copied()
            .collect();
        for &role in end {
            match role {
                PortRole::Batch => {
                    order.extend(before.iter().filter(|d| is(d, PortRole::Batch)).copied());
                }
                role => order.extend(run(role)),
            }
        }
        order
    };
    let written = order_of(ends[2], &|label| sig.has_label(result, label));
    let mut form = Vec::with_capacity(sig.n_ports());
    for p in 0..sig.n_ports() {
        if p == port {
            form.push(layout);
            continue;
        }
        let order = match p {
            0 => order_of(ends[0], &|label| sig.has_label(0, label)),
            1 => order_of(ends[1], &|label| sig.has_label(1, label)),
            p if p == result => written.clone(),
            _ => written
                .iter()
                .filter(|d| sig.has_label(p, d.label))
                .copied()
                .collect(),
        };
        let made = restrict(sig, layouts, p, &order, p)?;
        if (p < 2 || p == result) && !takes_layout(sig, layouts, p, made) {
            return None;
        }
        form.push(made);
    }
    Some(form)
}
