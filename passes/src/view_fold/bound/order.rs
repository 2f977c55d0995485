//! Consequences of one port's order for another port, where ports share a common order.

use super::relaxation::{Class, Lanes, Spread};
use crate::view_fold::layouts::{LayoutId, Layouts};
use crate::view_fold::physical::Place;
use crate::view_fold::restrict::restrict;
use crate::view_fold::signature::{LabelDigit, Signature};

/// Returns whether all alternatives of a row hold two ports to one order.
pub(super) fn shares_all(sig: &Signature, a: usize, b: usize) -> bool {
    let written = sig.n_operands <= a.max(b);
    let mut rules = sig.tiles.iter();
    rules.all(|rule| rule.shares_all && !(rule.writes_any && written))
}

/// Returns whether ports have one common order without padding, on a machine without tiles.
pub(super) fn is_unpadded_order(sig: &Signature) -> bool {
    let padded = sig.orders.iter().any(|rule| rule.padded_to().is_some());
    !sig.is_tiled() && sig.is_common_order() && !padded
}

/// Returns whether ports have one common order whose innermost digits are known.
fn tells_ends(sig: &Signature) -> bool {
    sig.is_common_order() && (sig.is_tiled() || is_unpadded_order(sig))
}

/// Returns whether two ports of one common order may have layouts of these classes. If both ports have both innermost
/// dimensions whole, these must be the same dimension. If they have the same dimensions, lanes are padded alike.
pub(super) fn ends_alike(
    sig: &Signature,
    layouts: &Layouts,
    (a, x): (usize, Class),
    (b, y): (usize, Class),
) -> bool {
    let (Some(p), Some(q)) = (x.label, y.label) else {
        return true;
    };
    if !tells_ends(sig) {
        return true;
    }
    let whole = |label: usize| {
        let here = sig.extent(a, label);
        here == sig.extent(b, label) && here.is_some_and(|n| 1 < n)
    };
    if p != q {
        return !(whole(p) && whole(q));
    }
    let shares_all = sig.tiles.iter().all(|rule| rule.shares_all);
    if !shares_all
        || !layouts.have_same_lanes(sig.bits[a], sig.bits[b])
        || !whole(p)
        || sig.labels(a) != sig.labels(b)
    {
        return true;
    }
    let Some((whole_of, part)) = whole_and_part(sig, a, b) else {
        return true;
    };
    let (x, y) = if whole_of == a { (x, y) } else { (y, x) };
    let mut sizes = sig.shapes[whole_of].iter().zip(&sig.shapes[part]);
    let odd = sizes.all(|(m, n)| (m / n) % 2 == 1);
    let same = sig.shapes[whole_of] == sig.shapes[part];
    match (x.lanes, y.lanes) {
        (Lanes::Any | Lanes::Whole, Lanes::Any) | (Lanes::Any, Lanes::Whole) => true,
        (Lanes::Whole, Lanes::Whole) => true,
        // A dimension that fills whole lanes may fill parts of them after a cut into an even number of parts, not an
        // odd one.
        (Lanes::Whole, _) => !odd,
        (_, Lanes::Whole) => false,
        _ => match (x.spread, y.spread) {
            (Spread::One, Spread::Several) => false,
            (Spread::Several, Spread::One) => !same,
            _ => true,
        },
    }
}

/// Returns whether a port may have a layout of this class beside a layout of this innermost digit at another port of
/// the common order. The digit must be innermost there too, if both ports have it and both have the dimension that
/// would be innermost instead.
pub(super) fn keeps_innermost(
    sig: &Signature,
    (a, last): (usize, Option<LabelDigit>),
    (b, class): (usize, Class),
) -> bool {
    if !tells_ends(sig) || !shares_all(sig, a, b) {
        return true;
    }
    let (Some(last), Some(q)) = (last, class.label) else {
        return true;
    };
    let size = |port: usize, label: usize| sig.extent(port, label).unwrap_or(1);
    let goes_on = last.div == 1 && 1 < last.extent && 1 < size(b, last.label);
    let there = 1 < size(b, q) && size(b, q) <= size(a, q);
    !(goes_on && there) || last.label == q
}

/// Of two ports with the same dimensions, the larger one and the smaller one, if every size of the smaller divides that
/// of the larger.
pub(super) fn whole_and_part(sig: &Signature, a: usize, b: usize) -> Option<(usize, usize)> {
    if sig.labels(a) != sig.labels(b) {
        return None;
    }
    let sizes = || sig.shapes[a].iter().zip(&sig.shapes[b]);
    let (whole, part) = match sizes().all(|(m, n)| n <= m) {
        true => (a, b),
        false if sizes().all(|(m, n)| m <= n) => (b, a),
        false => return None,
    };
    let mut sizes = sig.shapes[whole].iter().zip(&sig.shapes[part]);
    let even = sizes.all(|(m, n)| *n != 0 && m.is_multiple_of(*n));
    even.then_some((whole, part))
}

/// The only layout that a port of one common order can have beside that of another port, on a machine of lines; `None`
/// where there may be several. Ports with the same labels have the same digits in the same places, provided that
/// neither the run in lanes nor the innermost digit is cut.
pub(super) fn carried(
    sig: &Signature,
    layouts: &mut Layouts,
    (port, layout, order): (usize, LayoutId, &[LabelDigit]),
    other: usize,
) -> Option<LayoutId> {
    // The digits of a single element do not determine its padding.
    if order.is_empty() || restrict(sig, layouts, port, order, port) != Some(layout) {
        return None;
    }
    let mut there = sig.labels(other).iter().zip(&sig.shapes[other]);
    let held = |(label, &to): (&Option<usize>, &u64)| {
        to <= 1 || label.is_some_and(|l| sig.extent(port, l).is_some_and(|from| to <= from))
    };
    // A result with fewer dimensions lies as the others do. An operand with fewer may lie in no lines.
    let alike = sig.labels(port) == sig.labels(other) || sig.n_operands <= other;
    if sig.lines.is_none() || !alike || !there.all(held) {
        return None;
    }
    let whole = |d: &LabelDigit| sig.extent(port, d.label) == sig.extent(other, d.label);
    let mut in_run = order.iter().filter(|d| d.place != Place::Grid);
    if !in_run.all(whole) || !order.last().is_none_or(whole) {
        return None;
    }
    restrict(sig, layouts, other, order, port)
}

/// Returns whether another port of the common order may have a layout that is no candidate, beside this layout with
/// this order of labels.
pub(super) fn leaves_open(
    sig: &Signature,
    layouts: &mut Layouts,
    (a, x, order): (usize, LayoutId, Option<&[LabelDigit]>),
    (b, at_b): (usize, &[Option<LayoutId>]),
) -> bool {
    if sig.is_tiled() {
        if !shares_all(sig, a, b) {
            return true;
        }
        let there = order.and_then(|order| carried(sig, layouts, (a, x, order), b));
        return there.is_none_or(|there| !at_b.contains(&Some(there)));
    }
    if !is_unpadded_order(sig) {
        return true;
    }
    let Some(order) = order else {
        return true;
    };
    for (label, &n) in sig.labels(b).iter().zip(&sig.shapes[b]) {
        if n <= 1 {
            continue;
        }
        let Some(here) = label.and_then(|l| sig.extent(a, l)) else {
            return true;
        };
        // A cut of the longer port above the shorter port's extent may stand anywhere.
        if here < n && here <= largest_cut(n) {
            return true;
        }
        let torn =
            |d: &LabelDigit| Some(d.label) == *label && d.div < n && !n.is_multiple_of(d.div);
        if order.iter().any(torn) {
            return false;
        }
    }
    match restrict(sig, layouts, b, order, a) {
        Some(there) => !at_b.contains(&Some(there)),
        None => true,
    }
}

/// The largest divisor of `n` below `n`.
pub(super) fn largest_cut(n: u64) -> u64 {
    let factor = (2u64..)
        .take_while(|d| d.saturating_mul(*d) <= n)
        .find(|d| n.is_multiple_of(*d));
    factor.map_or(1, |d| n / d)
}
