//! Orders that end in runs of roles: which a port may have, and which forms of a contraction follow from one.

use super::label_order::label_order;
use super::layouts::{LayoutId, Layouts};
use super::orders::restrict;
use super::physical::Place;
use super::signature::{Ends, LabelDigit, LabelOrder, Signature};
use optc_layout::Mode;
use optc_target::PortRole;

/// An order as what stands before its runs, and the run of each role.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Parts {
    before: LabelOrder,
    runs: Vec<(PortRole, LabelOrder)>,
}

/// Whether a port takes these digits by some alternative: always where none lists its ends.
pub(crate) fn accepts(sig: &Signature, port: usize, modes: &[Mode]) -> bool {
    let labels = sig.labels(port);
    let digit = |m: &Mode| {
        labels
            .get(m.dim)
            .copied()
            .flatten()
            .map(|label| LabelDigit {
                label,
                div: m.div,
                extent: m.extent,
                place: Place::Grid,
            })
    };
    let long = modes.iter().filter(|m| 1 < m.extent);
    let Some(order) = long.map(digit).collect::<Option<LabelOrder>>() else {
        return sig.ends.is_empty();
    };
    sig.ends.is_empty()
        || sig.ends.iter().any(|ends| {
            let of_port = &ends.ports[port];
            of_port.is_empty()
                || of_port
                    .iter()
                    .any(|end| parts(sig, ends, end, &order).is_some())
        })
}

/// An order by its end; nothing where it has another one.
fn parts(sig: &Signature, ends: &Ends, end: &[PortRole], order: &[LabelDigit]) -> Option<Parts> {
    let role = |d: &LabelDigit| sig.port_role(d.label);
    let mut rest = order.len();
    let mut runs = Vec::with_capacity(end.len());
    for &wanted in end.iter().rev() {
        let all = order.iter().filter(|d| role(d) == wanted).count();
        let run = order[..rest].iter().rev().take_while(|d| role(d) == wanted);
        let n = run.count();
        if n == 0 && all != 0 {
            return None;
        }
        let digits = order[rest - n..rest].to_vec();
        let elements = digits.iter().fold(1u64, |n, d| n.saturating_mul(d.extent));
        let cut = matches!(wanted, PortRole::M | PortRole::N) && !ends.whole.contains(&wanted);
        let partial = cut && ends.least <= elements;
        if n != all && !partial {
            return None;
        }
        // One dimension is worked along: its digits stand as they do in it.
        let natural = |d: &LabelDigit| (d.label, std::cmp::Reverse(d.div));
        if wanted == PortRole::Axis && !digits.is_sorted_by_key(natural) {
            return None;
        }
        rest -= n;
        runs.push((wanted, digits));
    }
    let alone = ends.alone || end.contains(&PortRole::Batch);
    (rest == 0 || !alone).then(|| Parts {
        before: order[..rest].to_vec(),
        runs,
    })
}

/// The whole dimensions of a role in the order that the result or the operands have them.
fn natural(sig: &Signature, wanted: PortRole) -> LabelOrder {
    let ports = [sig.n_operands, 0, 1];
    let labels: Vec<(usize, u64)> = match wanted {
        PortRole::K => {
            let size = |label: usize| {
                let at = sig.labels(0).iter().position(|l| *l == Some(label))?;
                Some((label, sig.shapes[0][at]))
            };
            sig.reference_k.iter().filter_map(|&l| size(l)).collect()
        }
        _ => {
            let of = |port: &usize| -> Vec<(usize, u64)> {
                let dims = sig.labels(*port).iter().zip(&sig.shapes[*port]);
                dims.filter_map(|(label, &n)| Some(((*label)?, n)))
                    .filter(|(label, _)| sig.port_role(*label) == wanted)
                    .collect()
            };
            ports
                .iter()
                .map(of)
                .find(|l| !l.is_empty())
                .unwrap_or_default()
        }
    };
    let digit = |(label, extent): (usize, u64)| LabelDigit {
        label,
        div: 1,
        extent,
        place: Place::Grid,
    };
    labels
        .into_iter()
        .filter(|(_, n)| 1 < *n)
        .map(digit)
        .collect()
}

/// The layouts of all ports that one layout of one port goes with, by every alternative that takes it there. With
/// `first`, of the other ports the first of their ends alone, and those operands that have no batch inside of them.
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
    for ends in &sig.ends {
        for end in &ends.ports[port] {
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

/// The form in which ports end so, given the parts of one of them.
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
    // Where the batch is inside of a matrix, it is before the matrices elsewhere.
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
            0 | 1 => order_of(ends[p], &|label| sig.has_label(p, label)),
            p if p == result => written.clone(),
            _ => written
                .iter()
                .filter(|d| sig.has_label(p, d.label))
                .copied()
                .collect(),
        };
        let made = restrict(sig, layouts, p, &order, p)?;
        let modes = layouts.modes(made)?;
        if (p < 2 || p == result) && !accepts(sig, p, &modes) {
            return None;
        }
        form.push(made);
    }
    Some(form)
}

/// The order of a port where its own is none that an alternative takes: the batch, then the runs of its first end.
pub(crate) fn default_order(sig: &Signature, port: usize) -> Option<Vec<usize>> {
    let end = sig.ends.first()?.ports.get(port)?.first()?;
    let labels = sig.labels(port);
    let shape = &sig.shapes[port];
    let natural: Vec<Mode> = (0..shape.len())
        .map(|dim| Mode {
            dim,
            div: 1,
            count: shape[dim],
            extent: shape[dim],
        })
        .collect();
    if accepts(sig, port, &natural) {
        return None;
    }
    let place = |dim: &usize| {
        let role = labels[*dim].map(|l| sig.port_role(l));
        let at = end.iter().position(|r| Some(*r) == role);
        let of_k = labels[*dim].and_then(|l| sig.reference_k.iter().position(|k| *k == l));
        (at.map_or(0, |at| at + 1), of_k)
    };
    let mut order: Vec<usize> = (0..labels.len()).collect();
    order.sort_by_key(place);
    Some(order)
}
