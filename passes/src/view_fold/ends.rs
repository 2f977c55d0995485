//! Orders that end in runs of roles: the orders that a port may have.
//!
//! Example: a port of a matrix product with the end `[M, K]` takes `batch m k` and, cut, `m0 batch m1 k`; it does not
//! take `m k batch`.

use super::rows::Ends;
use super::signature::{LabelDigit, LabelOrder, Signature};
use optc_layout::Mode;
use optc_target::PortRole;

/// An order, split into the digits before its runs and the run of each role.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Parts {
    pub(crate) before: LabelOrder,
    pub(crate) runs: Vec<(PortRole, LabelOrder)>,
}

/// Returns whether a port takes these digits by an alternative that lists ends.
pub(crate) fn accepts_by(sig: &Signature, ends: &Ends, port: usize, modes: &[Mode]) -> bool {
    // Dimensions that are not shared with other ports are ignored.
    let digit = |m: &Mode| sig.label_digit(port, m);
    let long = modes.iter().filter(|m| 1 < m.extent);
    let order: LabelOrder = long.filter_map(digit).collect();
    let of_port = &ends.ports[port];
    let mut taken = of_port.iter().map(|end| parts(sig, ends, end, &order));
    of_port.is_empty() || taken.any(|parts| parts.is_some())
}

/// Returns whether an alternative takes orders at a port in which a digit of this label is innermost.
pub(crate) fn may_end_in(sig: &Signature, ends: &Ends, port: usize, label: usize) -> bool {
    let long = |role: PortRole| sig.long_labels(port).any(|(l, _)| sig.port_role(l) == role);
    let innermost = |end: &Vec<PortRole>| end.iter().rev().copied().find(|&role| long(role));
    let of_port = &ends.ports[port];
    let mut all = of_port.iter().map(innermost);
    of_port.is_empty() || all.any(|role| role.is_none_or(|role| role == sig.port_role(label)))
}

/// An order split at its end; `None` where the order has another end.
pub(crate) fn parts(
    sig: &Signature,
    ends: &Ends,
    end: &[PortRole],
    order: &[LabelDigit],
) -> Option<Parts> {
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
        // The operation works along one dimension: its digits must be in natural order.
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

/// The default order of a port whose own order no alternative takes: the batch, then the runs of the first end. `None`
/// where the own order is taken.
pub(crate) fn default_order(sig: &Signature, port: usize) -> Option<Vec<usize>> {
    let ends = || sig.orders.iter().filter_map(|rule| rule.ends.as_ref());
    let end = ends().next()?.ports.get(port)?.first()?;
    let labels = sig.labels(port);
    let shape = &sig.shapes[port];
    let dims: Vec<usize> = (0..shape.len()).collect();
    let natural = in_sequence(sig, port, &dims);
    let as_it_stands = |ends: &Ends| {
        let any = Ends {
            least: 1,
            whole: Vec::new(),
            ..ends.clone()
        };
        accepts_by(sig, &any, port, &natural)
    };
    if ends().any(as_it_stands) {
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

/// The modes of whole dimensions, major to minor.
pub(crate) fn in_sequence(sig: &Signature, port: usize, order: &[usize]) -> Vec<Mode> {
    let whole = |&dim: &usize| {
        let count = sig.shapes[port][dim];
        let (div, extent) = (1, count);
        Mode {
            dim,
            div,
            count,
            extent,
        }
    };
    order.iter().map(whole).collect()
}
