//! Orders that fit together at the ports of an operation, in terms of labels.
//!
//! Example: a reduction over `k` whose result has the order `j i` has the operand in an order such as `j i k`, `j k i`
//! or `k j i`.

use super::label_order::label_order;
use super::layouts::{LayoutId, Layouts};
use super::maps::{FastMap, FastSet};
use super::matrices;
use super::physical::Place;
use super::restrict::{Restricted, alike, is_its_own, restrict};
use super::rows::{accepts_layout, channel_orders, contracts_pixels, default_layout};
use super::signature::{ContractRole, LabelDigit, LabelOrder, Signature};
use super::tiled;

/// All orders of the operation's labels that extend `order`. They add the labels of the fullest port that `order`
/// lacks, then those that only other ports have (the axis of a gather). Added labels go in the place of labels that
/// drop out, beside their logical neighbour, innermost, or outermost.
pub(crate) fn extend(sig: &Signature, order: &LabelOrder) -> Vec<LabelOrder> {
    let mut all = with_labels_of(sig, order, sig.fullest);
    for &port in &sig.besides {
        let mut longer: Vec<LabelOrder> = Vec::new();
        for known in &all {
            for option in with_labels_of(sig, known, port) {
                if !longer.contains(&option) {
                    longer.push(option);
                }
            }
        }
        all = longer;
    }
    all
}

/// The labels of a port that an order lacks.
fn lacking(sig: &Signature, order: &[LabelDigit], port: usize) -> Vec<LabelDigit> {
    let unknown = |(label, _): &(usize, u64)| order.iter().all(|d| d.label != *label);
    let digit = |(label, extent)| LabelDigit::in_grid(label, 1, extent);
    sig.long_labels(port).filter(unknown).map(digit).collect()
}

/// Extends an order by the labels of a port that it lacks. They go beside their logical neighbour, in the place of the
/// label that the port does not have, innermost, and outermost.
fn with_labels_of(sig: &Signature, order: &LabelOrder, port: usize) -> Vec<LabelOrder> {
    let missing = lacking(sig, order, port);
    if missing.is_empty() {
        return vec![order.clone()];
    }
    let mut beside = order.clone();
    for digit in &missing {
        let labels = sig.labels(port);
        let at = labels
            .iter()
            .position(|l| *l == Some(digit.label))
            .unwrap_or(0);
        let before = labels[..at].iter().rev().flatten();
        let neighbour = before
            .copied()
            .find_map(|l| beside.iter().rposition(|d| d.label == l));
        beside.insert(neighbour.map_or(0, |n| n + 1), *digit);
    }
    let mut inner: LabelOrder = order.iter().chain(&missing).copied().collect();
    if sig.is_tiled() {
        place_last(sig, &mut beside);
        place_last(sig, &mut inner);
    }
    let outer: LabelOrder = missing.iter().chain(order).copied().collect();
    let labels = sig.labels(port);
    let dropped = order.iter().position(|d| !labels.contains(&Some(d.label)));
    let instead = dropped.map(|at| {
        let mut instead = order.clone();
        instead.splice(at..at, missing);
        if sig.is_tiled() {
            place_last(sig, &mut instead);
        }
        instead
    });
    let mut all = vec![beside];
    for option in instead.into_iter().chain([inner, outer]) {
        if !all.contains(&option) {
            all.push(option);
        }
    }
    all
}

/// Puts the last digit into the lanes and the one before it into the rows. Where values may lie plain, all digits go
/// into the grid.
fn place_last(sig: &Signature, order: &mut LabelOrder) {
    let n = order.len();
    for (i, digit) in order.iter_mut().enumerate() {
        digit.place = match n - i {
            _ if sig.lines.is_some() => Place::Grid,
            1 => Place::Lane,
            2 => Place::Row,
            _ => Place::Grid,
        };
    }
}

/// Memoized layouts at the ports of an operation that follow orders of its labels.
#[derive(Clone, Default)]
pub(crate) struct Followed(FastMap<LabelOrder, Vec<Option<Option<LayoutId>>>>);

/// Layouts at other ports that fit this layout at this port.
pub(crate) fn transfers(
    sig: &Signature,
    layouts: &mut Layouts,
    followed: &mut Followed,
    port: usize,
    layout: LayoutId,
) -> Vec<(usize, LayoutId)> {
    if sig.is_tiled() {
        return match (sig.is_common_order(), sig.takes_roles()) {
            (true, _) => ordered_transfers(sig, layouts, followed, port, layout),
            (false, true) => tiled::transfers(sig, layouts, port, layout),
            (false, false) => Vec::new(),
        };
    }
    if sig.is_common_order() {
        return ordered_transfers(sig, layouts, followed, port, layout);
    }
    let rule = &sig.orders[0];
    if !rule.shared.is_empty() {
        contract_transfers(sig, layouts, port, layout)
    } else if rule.ends.is_some() {
        let mut out = Vec::new();
        for form in matrices::forms(sig, layouts, (port, layout), true) {
            let others = form.into_iter().enumerate().filter(|(p, _)| *p != port);
            for other in others {
                if !out.contains(&other) {
                    out.push(other);
                }
            }
        }
        out
    } else if rule.channels.is_some() {
        channel_transfers(sig, layouts, port, layout)
    } else {
        Vec::new()
    }
}

/// The orders of all labels that agree with this layout at this port.
pub(crate) fn common_orders(
    sig: &Signature,
    layouts: &mut Layouts,
    port: usize,
    layout: LayoutId,
) -> Vec<LabelOrder> {
    let full = sig.fullest;
    let Some(order) = label_order(sig, layouts, port, layout) else {
        return Vec::new();
    };
    let lacks = missing_labels(sig, port, full);
    // An operand with labels of its own in the place of the missing ones is no broadcast operand. Example: the operand
    // of a `top_k` along the axis.
    let is_broadcast_operand = port < sig.n_operands
        && !matches!(sig.family, "broadcast" | "gather")
        && !sig.besides.contains(&port);
    if 0 < lacks && is_broadcast_operand {
        return Vec::new();
    }
    extend(sig, &order)
}

fn missing_labels(sig: &Signature, port: usize, full: usize) -> usize {
    let dims = sig.labels(full).iter().zip(&sig.shapes[full]);
    dims.filter(|(l, n)| l.is_some_and(|l| !sig.has_label(port, l)) && 1 < **n)
        .count()
}

fn ordered_transfers(
    sig: &Signature,
    layouts: &mut Layouts,
    followed: &mut Followed,
    port: usize,
    layout: LayoutId,
) -> Vec<(usize, LayoutId)> {
    let others = match sig.hub {
        Some(hub) if hub != port => hub..hub + 1,
        _ => 0..sig.n_ports(),
    };
    // At ports that all look alike, the layout that follows an order is the same for all operations.
    let mut rest = others.clone().filter(|&o| o != port);
    if is_its_own(sig, layouts, port, layout) && rest.all(|o| alike(sig, o, port)) {
        let found = layouts.of_own_digits(layout, |layouts| {
            let order = label_order(sig, layouts, port, layout)?;
            restrict(sig, layouts, port, &order, port)
        });
        let rest = others.filter(|&o| o != port);
        return found.map_or_else(Vec::new, |there| rest.map(|o| (o, there)).collect());
    }
    let mut out = FastSet::default();
    for order in common_orders(sig, layouts, port, layout) {
        // If every label has one extent, the layout does not depend on the port that the order comes from.
        let mut known = match sig.is_even && sig.hub.is_none() {
            true => {
                let none = || vec![None; sig.n_ports()];
                let known = followed.0.get_mut(&order);
                Some(known.map_or_else(none, std::mem::take))
            }
            false => None,
        };
        let mut restricted = Restricted::new(layouts, &order, port, layout);
        for other in others.clone().filter(|&o| o != port) {
            let layout = match &mut known {
                Some(known) => {
                    *known[other].get_or_insert_with(|| restricted.at(sig, layouts, other))
                }
                None => restricted.at(sig, layouts, other),
            };
            out.extend(layout.map(|l| (other, l)));
        }
        if let Some(known) = known {
            followed.0.insert(order, known);
        }
    }
    out.into_iter().collect()
}

/// Hands an order on: from an operand of a contraction to the result, from the result to the operands, and the order of
/// K from one operand to the other.
fn contract_transfers(
    sig: &Signature,
    layouts: &mut Layouts,
    port: usize,
    layout: LayoutId,
) -> Vec<(usize, LayoutId)> {
    let Some(order) = label_order(sig, layouts, port, layout) else {
        return Vec::new();
    };
    let mut out = Vec::new();
    for other in (0..sig.n_ports().min(3)).filter(|&o| o != port) {
        for full in splice(sig, &order, other) {
            if let Some(l) = restrict(sig, layouts, other, &full, port)
                && !out.contains(&(other, l))
            {
                out.push((other, l));
            }
        }
    }
    out
}

/// `order` restricted to the labels of `other`, with the labels that it lacks added as one run: in the place of the
/// labels that drop out, innermost, and outermost.
fn splice(sig: &Signature, order: &LabelOrder, other: usize) -> Vec<LabelOrder> {
    let labels = sig.labels(other);
    let run = lacking(sig, order, other);
    let keeps = |d: &&LabelDigit| labels.contains(&Some(d.label));
    let kept: LabelOrder = order.iter().filter(keeps).copied().collect();
    let gap = order.iter().position(|d| !labels.contains(&Some(d.label)));
    let before = gap.map_or(kept.len(), |g| order[..g].iter().filter(keeps).count());
    let mut all: Vec<LabelOrder> = Vec::new();
    for at in [before, kept.len(), 0] {
        let mut option = kept.clone();
        option.splice(at..at, run.iter().copied());
        if !all.contains(&option) {
            all.push(option);
        }
    }
    all
}

fn channel_transfers(
    sig: &Signature,
    layouts: &mut Layouts,
    port: usize,
    layout: LayoutId,
) -> Vec<(usize, LayoutId)> {
    let mine = channel_orders(sig, layouts, port);
    let Some(style) = mine.iter().position(|&l| l == layout) else {
        return pixel_transfers(sig, layouts, port, layout);
    };
    let mut out = Vec::new();
    for other in (0..sig.n_ports()).filter(|&o| o != port) {
        if let Some(&l) = channel_orders(sig, layouts, other).get(style) {
            out.push((other, l));
        }
    }
    out
}

/// Hands the order of K on from one of the two operands of a pointwise convolution to the other one.
fn pixel_transfers(
    sig: &Signature,
    layouts: &mut Layouts,
    port: usize,
    layout: LayoutId,
) -> Vec<(usize, LayoutId)> {
    if 1 < port || !contracts_pixels(sig, layouts, port, layout) {
        return Vec::new();
    }
    let Some(order) = label_order(sig, layouts, port, layout) else {
        return Vec::new();
    };
    let k = sig.k_digits(port, &order);
    let other = 1 - port;
    let there = default_layout(sig, layouts, other);
    let there = label_order(sig, layouts, other, there);
    let there = there.and_then(|there| with_k(sig, layouts, other, &there, &k));
    there.map(|layout| (other, layout)).into_iter().collect()
}

/// The default layout of a port with the digits of K in the order `key`, as one run. The run stands at the first digit
/// of K, or at the last one where the target does not take that order.
pub(super) fn with_k(
    sig: &Signature,
    layouts: &mut Layouts,
    port: usize,
    order: &[LabelDigit],
    key: &[LabelDigit],
) -> Option<LayoutId> {
    let is_k = |d: &LabelDigit| sig.contract_role(d.label) == ContractRole::K;
    let others = |part: &[LabelDigit]| -> Vec<LabelDigit> {
        part.iter().filter(|d| !is_k(d)).copied().collect()
    };
    let places = [order.iter().position(is_k)?, order.iter().rposition(is_k)?];
    let asks = sig.has_order(|rule| !rule.shared.is_empty());
    places.into_iter().find_map(|at| {
        let (before, after) = order.split_at(at);
        let full = [others(before), key.to_vec(), others(after)].concat();
        let layout = restrict(sig, layouts, port, &full, port)?;
        (!asks || accepts_layout(sig, layouts, port, layout)).then_some(layout)
    })
}
