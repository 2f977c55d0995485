//! Layouts that ports of an operation may have in one form, on a machine without tiles.
//!
//! Example: both operands of a matmul must have the digits of K in one sequence. The left operand in the order `k1 k0 m`
//! thus goes with the right one in `k1 k0 n`, not with one in `k0 k1 n`.

use super::super::ends::{Parts, parts};
use super::super::label_order::label_order;
use super::super::layouts::{LayoutId, Layouts};
use super::super::price;
use super::super::signature::{LabelDigit, LabelOrder, Signature};
use super::port::takes_at;
use super::window::{channel_order, channel_orders, contracts_pixels};
use super::{Channels, Ends, OrderRule, default_layout};
use optc_ir::{FreedomClass, LaidPort};
use optc_layout::{Digit, Mode};
use optc_target::PortRole;

/// The constraint that a layout at one port puts on another port.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Side {
    /// It goes with every layout.
    Any,
    /// It goes with layouts that have the same digits in sequence: label and divisor, a list for each role.
    Digits(Vec<Vec<(usize, u64)>>),
    /// It goes with layouts that have channels in one of these places, as a set.
    Channels(u64),
}

impl Side {
    /// Returns whether two ports with these constraints on each other fit together.
    pub(crate) fn fits(&self, other: &Side) -> bool {
        match (self, other) {
            (Side::Digits(a), Side::Digits(b)) => a == b,
            (Side::Channels(a), Side::Channels(b)) => a & b != 0,
            _ => true,
        }
    }
}

/// The pairs of ports that constrain one another, where ports do not share one order.
pub(crate) fn related(sig: &Signature) -> Vec<(usize, usize)> {
    let (contracts, result) = (sig.freedom.class == FreedomClass::Contract, sig.n_operands);
    let all = |is: fn(&OrderRule) -> bool| sig.orders.iter().all(is);
    if contracts && all(|rule| !rule.shared.is_empty()) {
        return vec![(0, 1)];
    }
    if contracts && all(|rule| rule.ends.is_some() && !rule.shares_all) {
        return vec![(0, 1), (0, result), (1, result)];
    }
    match all(|rule| rule.channels.is_some()) {
        true if sig.is_pointwise_conv() => vec![(0, 1)],
        true => vec![(0, result)],
        false => Vec::new(),
    }
}

/// The constraint of a layout at a port on another port, as far as the row wants both alike.
pub(crate) fn side(
    sig: &Signature,
    layouts: &mut Layouts,
    (port, layout): (usize, LayoutId),
    other: usize,
) -> Side {
    let first = &sig.orders[0];
    if first.channels.is_some() {
        return window_side(sig, layouts, port, layout);
    }
    let Some(order) = label_order(sig, layouts, port, layout) else {
        return Side::Any;
    };
    let of = |role: PortRole| of_role(sig, &order, role);
    Side::Digits(match first {
        rule if !rule.shared.is_empty() => rule.shared.iter().copied().map(of).collect(),
        // Digits of one role are in one order at all ports that have the role.
        rule if rule.ends.is_some() && !rule.shares_all => {
            let roles = [PortRole::Batch, PortRole::M, PortRole::N, PortRole::K];
            let both = roles
                .into_iter()
                .filter(|&role| has_role(sig, port, role) && has_role(sig, other, role));
            both.map(of).collect()
        }
        _ => vec![shared(sig, &order, other)],
    })
}

/// The digits of an order that exist at another port. A cut at or above the other port's extent does not exist there.
pub(crate) fn shared(sig: &Signature, order: &[LabelDigit], other: usize) -> Vec<(usize, u64)> {
    let exists = |d: &LabelDigit| sig.extent(other, d.label).is_some_and(|n| d.div < n);
    joined(order.iter().copied().filter(exists))
}

/// The constraint of a window operation's port: the place of channels. A convolution of pixels sums the data and the
/// weights in one order. Its data with channels first or last goes with any weights.
fn window_side(sig: &Signature, layouts: &mut Layouts, port: usize, layout: LayoutId) -> Side {
    let places = channel_orders(sig, layouts, port);
    if !sig.is_pointwise_conv() {
        let mut set = 0;
        for (i, _) in places.iter().enumerate().filter(|(_, l)| **l == layout) {
            set |= 1 << i;
        }
        return Side::Channels(set);
    }
    if port == 0 && places.contains(&layout) {
        return Side::Any;
    }
    match label_order(sig, layouts, port, layout) {
        Some(order) => Side::Digits(vec![joined(sig.k_digits(port, &order).into_iter())]),
        None => Side::Any,
    }
}

fn of_role(sig: &Signature, order: &[LabelDigit], role: PortRole) -> Vec<(usize, u64)> {
    let digits = order.iter().copied();
    joined(digits.filter(|d| sig.port_role(d.label) == role))
}

fn has_role(sig: &Signature, port: usize, role: PortRole) -> bool {
    let mut labels = sig.labels(port).iter().flatten();
    labels.any(|l| sig.port_role(*l) == role)
}

/// Label and divisor of each digit, with adjacent digits of one label joined.
fn joined(digits: impl Iterator<Item = LabelDigit>) -> Vec<(usize, u64)> {
    let mut out: Vec<LabelDigit> = Vec::new();
    for digit in digits {
        match out.last_mut() {
            Some(last)
                if last.label == digit.label
                    && digit.div.checked_mul(digit.extent) == Some(last.div) =>
            {
                *last = LabelDigit {
                    extent: last.extent.saturating_mul(digit.extent),
                    ..digit
                };
            }
            _ => out.push(digit),
        }
    }
    out.iter().map(|d| (d.label, d.div)).collect()
}

/// The price of an operation with these layouts, one a port; `None` where the row refuses them.
pub(crate) fn takes(sig: &Signature, layouts: &mut Layouts, form: &[LayoutId]) -> Option<u64> {
    if sig.is_tiled() {
        return price::least_taken(sig, layouts, form);
    }
    let mut ports = form.iter().enumerate();
    let defaults = ports.all(|(port, &l)| l == default_layout(sig, layouts, port));
    let mut rules = sig.orders.iter();
    let taken =
        rules.any(|rule| takes_by(sig, rule, layouts, form)) && is_over_axes(sig, layouts, form);
    (defaults || taken || stands_as_it_came(sig, layouts, form))
        .then(|| price::price_of(sig, layouts, form))
}

/// Returns whether a contraction of matrices is row-major at these ports. A program that stays as it came is so.
pub(super) fn stands_as_it_came(sig: &Signature, layouts: &mut Layouts, form: &[LayoutId]) -> bool {
    let ends = |rule: &OrderRule| rule.ends.is_some() && !rule.shares_all;
    sig.freedom.class == FreedomClass::Contract
        && sig.has_order(ends)
        && form.iter().all(|&l| layouts.get(l).is_row_major_order())
}

/// Returns whether an alternative takes these layouts, one a port.
fn takes_by(sig: &Signature, rule: &OrderRule, layouts: &mut Layouts, form: &[LayoutId]) -> bool {
    let mut ports = form.iter().enumerate();
    if !ports.all(|(port, &l)| takes_at(sig, rule, layouts, port, l)) {
        return false;
    }
    if let Some(channels) = rule.channels {
        return takes_channels(sig, channels, layouts, form);
    }
    if rule.logical || rule.is_any() || rule.patches {
        return true;
    }
    let Some(orders) = label_orders(sig, layouts, form) else {
        return rule.block.is_some();
    };
    if rule.shares_all {
        let mut apart = |port: usize| {
            let modes = layouts.modes(form[port]);
            let padded = modes.is_some_and(|m| m.iter().any(|m| m.extent != m.count));
            rule.run.is_some()
                && is_broadcast(sig, port)
                && (padded || layouts.get(form[port]).is_row_major_order())
        };
        let ports: Vec<usize> = (0..form.len()).collect();
        let ports: Vec<usize> = ports.into_iter().filter(|&p| !apart(p)).collect();
        return ports.iter().enumerate().all(|(i, &a)| {
            let mut others = ports[..i].iter();
            others.all(|&b| shared(sig, &orders[a], b) == shared(sig, &orders[b], a))
        });
    }
    if let Some(ends) = &rule.ends {
        return fits_matrices(sig, ends, &orders);
    }
    let of = |port: usize, role: PortRole| of_role(sig, &orders[port], role);
    rule.shared.iter().all(|&role| {
        let ports: Vec<usize> = (0..form.len())
            .filter(|&p| has_role(sig, p, role))
            .collect();
        ports.windows(2).all(|w| of(w[0], role) == of(w[1], role))
    })
}

/// The orders of labels at all ports; `None` where a layout has none.
fn label_orders(
    sig: &Signature,
    layouts: &mut Layouts,
    form: &[LayoutId],
) -> Option<Vec<LabelOrder>> {
    let ports = form.iter().enumerate();
    // Dimensions that are not shared with other ports are ignored.
    ports
        .map(|(port, &l)| {
            let modes = layouts.modes(l)?;
            let long = modes.iter().filter(|m| 1 < m.extent && 1 < m.count);
            Some(long.filter_map(|m| sig.label_digit(port, m)).collect())
        })
        .collect()
}

/// Returns whether an operand has fewer dimensions than the fullest port.
fn is_broadcast(sig: &Signature, port: usize) -> bool {
    let labels = |port: usize| sig.labels(port).iter().flatten().count();
    port < sig.n_operands && (0..sig.n_ports()).any(|other| labels(port) < labels(other))
}

/// Returns whether a window operation has its channels in one place at its data and its result, or contracts the
/// channels of each pixel.
fn takes_channels(
    sig: &Signature,
    channels: Channels,
    layouts: &mut Layouts,
    form: &[LayoutId],
) -> bool {
    let result = sig.n_operands;
    let mut data = [0, result].into_iter();
    if data.all(|port| channel_order(sig, layouts, port, channels) == Some(form[port])) {
        return true;
    }
    let mut ports = [0, 1, result].into_iter();
    let pixels = ports.all(|port| contracts_pixels(sig, layouts, port, form[port]));
    let mut summed = |port: usize| {
        let order = label_order(sig, layouts, port, form[port])?;
        Some(joined(sig.k_digits(port, &order).into_iter()))
    };
    pixels && summed(0) == summed(1)
}

/// Returns whether the ports of a contraction end in matrices as an alternative lists them, and the digits before these
/// are in one sequence.
fn fits_matrices(sig: &Signature, ends: &Ends, orders: &[LabelOrder]) -> bool {
    let ports = [0, 1, sig.n_operands];
    let split = |at: usize| -> Vec<Parts> {
        let all = ends.ports[ports[at]].iter();
        all.filter_map(|end| parts(sig, ends, end, &orders[ports[at]]))
            .collect()
    };
    let of_role = |parts: &Parts, wanted: PortRole| -> LabelOrder {
        let mut runs = parts.runs.iter();
        let found = runs.find(|(role, _)| *role == wanted);
        found.map_or_else(Vec::new, |(_, run)| run.clone())
    };
    let outer = |parts: &Parts| {
        let runs = [PortRole::Batch, PortRole::M, PortRole::N];
        let runs = runs.iter().flat_map(|&role| of_role(parts, role));
        parts
            .before
            .iter()
            .copied()
            .chain(runs)
            .collect::<LabelOrder>()
    };
    let alike = |own: &Parts, result: &Parts, at: usize, role: PortRole| {
        let both = |d: &LabelDigit| {
            let of = sig.port_role(d.label);
            sig.has_label(at, d.label) && (of == PortRole::Batch || of == role)
        };
        let sequence = |parts: &Parts| joined(outer(parts).into_iter().filter(both));
        sequence(own) == sequence(result)
    };
    let k = |parts: &Parts| joined(of_role(parts, PortRole::K).into_iter());
    let (left, right, result) = (split(0), split(1), split(2));
    left.iter().any(|l| {
        right.iter().any(|r| {
            let mut written = result.iter();
            k(l) == k(r)
                && written.any(|w| alike(l, w, 0, PortRole::M) && alike(r, w, 1, PortRole::N))
        })
    })
}

/// Returns whether an operation takes these layouts, one a port, on a target where values are row-major.
pub(crate) fn is_over_axes(sig: &Signature, layouts: &mut Layouts, form: &[LayoutId]) -> bool {
    let Some(over) = &sig.over else { return true };
    let port = |(port, &layout): (usize, &LayoutId)| {
        let modes = layouts.modes(layout)?;
        let digit = |m: &Mode| (m.extent == m.count).then(|| Digit::new(m.dim, m.div, m.extent));
        let digits: Option<Vec<Digit>> = modes.iter().map(digit).collect();
        LaidPort::new(sig.labels(port), sig.shapes[port].clone(), &digits?)
    };
    let ports: Option<Vec<LaidPort>> = form.iter().enumerate().map(port).collect();
    ports.is_some_and(|ports| over.takes(&sig.freedom, &ports))
}
