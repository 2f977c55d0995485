//! Prices of operations: bytes that an operation moves by itself, or an equivalent of the time that it takes longer.
//!
//! Example: `cpu` has a price for a softmax whose axis is not innermost, a factor of the bytes of its operand.

use super::ends;
use super::label_order::label_order;
use super::layouts::{LayoutId, Layouts};
use super::rows::{Ends, OrderRule};
use super::signature::{Cut, LabelDigit, LabelOrder, Signature, TileRule};
use super::tiled::{self, MOST_RULES, Part};
use optc_layout::{Layout, Spread};
use optc_target::{Price, Slower};

/// The price of an operation with these layouts at its ports: the least price of an alternative that takes them. On a
/// machine without tiles the prices of single ports for their orders are added.
pub(crate) fn price_of(sig: &Signature, layouts: &mut Layouts, ports: &[LayoutId]) -> u64 {
    if sig.has_order_prices() {
        let by_port = ports.iter().enumerate();
        let by_port = by_port.map(|(port, &layout)| slower(sig, layouts, port, layout));
        let by_port = by_port.fold(0, u64::saturating_add);
        return by_port.saturating_add(order_price(sig, layouts, ports));
    }
    if sig.tiles.iter().all(|rule| rule.price.is_none()) {
        return 0;
    }
    // No alternative is known to take these layouts. One that does has at most the largest price.
    least_taken(sig, layouts, ports).unwrap_or_else(|| {
        let all = sig
            .tiles
            .iter()
            .map(|rule| rule_price(sig, rule, layouts, ports));
        all.max().unwrap_or(0)
    })
}

/// The least price of an alternative that takes these layouts, on a machine with tiles; `None` where none is known to.
pub(crate) fn least_taken(
    sig: &Signature,
    layouts: &mut Layouts,
    ports: &[LayoutId],
) -> Option<u64> {
    let own: Vec<Option<Part>> = ports
        .iter()
        .enumerate()
        .map(|(port, &layout)| tiled::parts(sig, layouts, port, layout))
        .collect();
    let by_roles = |i: usize, n: usize| {
        let taken = |part: &Option<Part>| part.as_ref().is_some_and(|p| p.rules & (1 << i) != 0);
        let both = |a: usize, b: usize| match (&own[a], &own[b]) {
            (Some(p), Some(q)) => tiled::agree(sig, (a, p), (b, q)),
            _ => false,
        };
        own[..n].iter().all(taken) && (0..n).all(|b| (0..b).all(|a| both(a, b)))
    };
    let mut least: Option<u64> = None;
    for (i, rule) in sig.tiles.iter().enumerate().take(MOST_RULES) {
        let n = match rule.writes_any {
            true => sig.n_operands,
            false => ports.len(),
        };
        let taken = match rule.shares_all {
            true => share(sig, rule, layouts, &ports[..n]),
            false => rule.logical || rule.is_any() || by_roles(i, n),
        };
        if taken {
            let price = rule_price(sig, rule, layouts, ports);
            least = Some(least.map_or(price, |known| known.min(price)));
        }
    }
    least
}

/// Returns whether the first ports have the digits in lanes and rows that an alternative of one common order lists.
/// That the ports have one order follows from the forms, if the row lists roles in no other alternative.
fn share(sig: &Signature, rule: &TileRule, layouts: &mut Layouts, ports: &[LayoutId]) -> bool {
    let mut orders: Vec<Option<LabelOrder>> = Vec::with_capacity(ports.len());
    for (port, &layout) in ports.iter().enumerate() {
        let order = label_order(sig, layouts, port, layout);
        if let Some(order) = &order
            && !tiled::lists(sig, rule, port, order)
        {
            return false;
        }
        orders.push(order);
    }
    (1..ports.len()).all(|p| !sig.takes_roles() || alike(&orders[0], &orders[p]))
}

/// Returns whether the labels that two orders share stand in one order and are cut alike in both.
fn alike(a: &Option<LabelOrder>, b: &Option<LabelOrder>) -> bool {
    let (Some(a), Some(b)) = (a, b) else {
        return false;
    };
    let shared = |order: &LabelOrder, other: &LabelOrder| -> LabelOrder {
        let both = |d: &&LabelDigit| other.iter().any(|o| o.label == d.label);
        order.iter().filter(both).copied().collect()
    };
    shared(a, b) == shared(b, a)
}

/// The price of a port for its innermost dimension and for torn runs, on a machine without tiles.
pub(crate) fn slower(sig: &Signature, layouts: &mut Layouts, port: usize, layout: LayoutId) -> u64 {
    if !is_slower(sig, port) {
        return 0;
    }
    let modes = layouts.modes(layout);
    let last = modes
        .as_ref()
        .and_then(|modes| modes.iter().rfind(|m| 1 < m.extent));
    let label = last.and_then(|m| sig.labels(port).get(m.dim).copied().flatten());
    let innermost = label.map_or(0, |label| {
        slower_with(sig, port, label, layouts.bytes(layout))
    });
    let torn = slower_at(sig, port).filter(|slower| {
        let all = modes.iter().flat_map(|modes| modes.iter());
        let runs = all.filter(|m| 1 < m.count).map(|m| {
            let label = sig.labels(port).get(m.dim).copied().flatten();
            label.is_some_and(|label| slower.is_of_runs(sig.port_role(label)))
        });
        runs_of(runs) > 1
    });
    torn.fold(innermost, |sum, slower| {
        sum.saturating_add(slower.price().of(layouts.bytes(layout)))
    })
}

/// The number of runs of consecutive `true` items.
fn runs_of(digits: impl Iterator<Item = bool>) -> usize {
    let (mut runs, mut inside) = (0, false);
    for is in digits {
        runs += usize::from(is && !inside);
        inside = is;
    }
    runs
}

/// An order with a lower price at a port than the default: some dimension moved innermost, the others unchanged. Among
/// orders of the least price, the one that moves the latest dimension is chosen.
pub(crate) fn cheaper_order(
    sig: &Signature,
    layouts: &mut Layouts,
    port: usize,
    default: LayoutId,
) -> Option<LayoutId> {
    let mut least = least_price(sig, layouts, port, default);
    let shape = sig.shapes[port].clone();
    let mut found = None;
    for dim in (0..shape.len()).rev().filter(|&dim| 1 < shape[dim]) {
        if least == 0 {
            break;
        }
        let others = (0..shape.len()).filter(|&other| other != dim);
        let order: Vec<usize> = others.chain([dim]).collect();
        let Ok(layout) = Layout::from_order(&shape, sig.bits[port], &order) else {
            continue;
        };
        let layout = layouts.intern(layout);
        let price = least_price(sig, layouts, port, layout);
        if price < least {
            (least, found) = (price, Some(layout));
        }
    }
    found
}

/// Returns whether some order of a port has a price.
pub(crate) fn is_slower(sig: &Signature, port: usize) -> bool {
    slower_at(sig, port).next().is_some()
}

/// The priced orders of a port.
fn slower_at(sig: &Signature, port: usize) -> impl Iterator<Item = &Slower> {
    let all = sig.slower.iter();
    all.filter(move |slower| slower.port.index(sig.n_operands) == port)
}

/// The price of a port with this many bytes where this label is innermost.
pub(crate) fn slower_with(sig: &Signature, port: usize, innermost: usize, bytes: u64) -> u64 {
    let role = sig.port_role(innermost);
    let own = slower_at(sig, port).filter(|slower| slower.is_of(role));
    own.fold(0, |sum, slower| {
        sum.saturating_add(slower.price().of(bytes))
    })
}

/// The least price of an alternative that takes these orders, on a machine without tiles.
fn order_price(sig: &Signature, layouts: &mut Layouts, ports: &[LayoutId]) -> u64 {
    if !sig.prices_orders() {
        return 0;
    }
    let modes: Vec<_> = ports.iter().map(|&layout| layouts.modes(layout)).collect();
    let takes = |ends: &Ends| {
        modes.iter().enumerate().all(|(port, modes)| {
            let Some(modes) = modes else { return false };
            ends::accepts_by(sig, ends, port, modes)
        })
    };
    let bytes = |port: usize| ports.get(port).map_or(0, |&layout| layouts.bytes(layout));
    least_of_orders(sig, takes, bytes)
}

/// The least price of the alternatives for which `takes` holds, given the bytes at each port.
fn least_of_orders(
    sig: &Signature,
    takes: impl Fn(&Ends) -> bool,
    bytes: impl Fn(usize) -> u64,
) -> u64 {
    let taken = |order: &&OrderRule| order.ends.as_ref().is_none_or(&takes);
    let price = |order: &OrderRule| {
        let of = |price: Price| price.of(bytes(price.port.index(sig.n_operands)));
        order.price.map_or(0, of)
    };
    let all = sig.orders.iter().filter(taken).map(price);
    all.min().unwrap_or(0)
}

/// The price of an alternative with these layouts at the ports.
pub(crate) fn rule_price(
    sig: &Signature,
    rule: &TileRule,
    layouts: &Layouts,
    ports: &[LayoutId],
) -> u64 {
    let Some(price) = rule.price else {
        return 0;
    };
    let port = ports.get(price.port.index(sig.n_operands));
    port.map_or(0, |&layout| price.of(layouts.bytes(layout)))
}

/// The parts that an operation copies with these layouts at its ports, as they do not lie evenly in their wholes: the set
/// of their ports, and the bytes read plus written.
pub(crate) fn copies(sig: &Signature, layouts: &Layouts, ports: &[LayoutId]) -> (u64, u64) {
    let is_copied = |cut: &&Cut| {
        let (whole, part) = (layouts.get(ports[cut.whole]), layouts.get(ports[cut.part]));
        let spread = Spread::of(whole.positions()).part(whole, part, &cut.picks);
        spread.is_none_or(|spread| spread.strides(part).is_none())
    };
    let all = sig.cuts.iter().filter(is_copied);
    all.fold((0, 0), |(set, bytes), cut| {
        (set | 1 << cut.part, bytes.saturating_add(cut.bytes))
    })
}

/// The least price of an operation with this layout at a port. It is 0 unless every alternative that takes the layout
/// there has a price for that port.
pub(crate) fn least_price(
    sig: &Signature,
    layouts: &mut Layouts,
    port: usize,
    layout: LayoutId,
) -> u64 {
    if sig.has_order_prices() {
        let own = slower(sig, layouts, port, layout);
        return own.saturating_add(least_order_price(sig, layouts, port, layout));
    }
    if !sig.has_prices() {
        return 0;
    }
    let rules = tiled::rules_of(sig, layouts, port, layout);
    let order = label_order(sig, layouts, port, layout);
    let bytes = layouts.bytes(layout);
    let is_result = sig.n_operands <= port;
    let mut least: Option<u64> = None;
    for (i, rule) in sig.tiles.iter().enumerate() {
        let shared = || match &order {
            Some(order) => tiled::lists(sig, rule, port, order),
            None => true,
        };
        let plain = rule.logical || rule.is_any() || MOST_RULES <= i;
        let plain = plain || (rule.shares_all && shared());
        let taken = plain || rules & (1 << i) != 0 || (rule.writes_any && is_result);
        if !taken {
            continue;
        }
        let of_port = rule.price.filter(|p| p.port.index(sig.n_operands) == port);
        let price = of_port.map_or(0, |price| price.of(bytes));
        least = Some(least.map_or(price, |known| known.min(price)));
    }
    least.unwrap_or(0)
}

/// [`least_price`] on a machine without tiles, where alternatives list ends of orders.
fn least_order_price(sig: &Signature, layouts: &mut Layouts, port: usize, layout: LayoutId) -> u64 {
    let Some(modes) = layouts.modes(layout).filter(|_| sig.prices_orders()) else {
        return 0;
    };
    let own = layouts.bytes(layout);
    least_of_orders(
        sig,
        |ends| ends::accepts_by(sig, ends, port, &modes),
        |priced| if priced == port { own } else { 0 },
    )
}
