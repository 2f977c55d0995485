//! Layouts that the alternatives of a row take at a port, the other ports left aside.

use super::{MOST_RULES, size_of};
use crate::view_fold::label_order::label_order;
use crate::view_fold::layouts::{LayoutId, Layouts};
use crate::view_fold::physical::Place;
use crate::view_fold::signature::{LabelDigit, LabelOrder, Signature, TileRule};
use optc_ir::{FreedomClass, Role};
use optc_target::PortRole;

/// The order of labels of a layout, as rows with roles read it. If no alternative takes its rows, and these rows could
/// number tiles as well, they are read as digits of the grid.
pub(super) fn role_order(
    sig: &Signature,
    layouts: &mut Layouts,
    port: usize,
    layout: LayoutId,
) -> Option<LabelOrder> {
    let mut order = label_order(sig, layouts, port, layout)?;
    let in_rows = |digit: &LabelDigit| digit.place == Place::Row;
    if rules_at(sig, port, &order) == 0 && order.iter().any(in_rows) && layouts.is_loose(layout) {
        for digit in order.iter_mut().filter(|d| in_rows(d)) {
            digit.place = Place::Grid;
        }
    }
    Some(order)
}

/// The alternatives that take an order at a port, the other ports left aside, as a set.
pub(super) fn rules_at(sig: &Signature, port: usize, order: &[LabelDigit]) -> u64 {
    let rules = sig.tiles.iter().take(MOST_RULES).enumerate();
    let taken = rules.filter(|(_, rule)| takes(sig, rule, port, order));
    taken.fold(0, |set, (i, _)| set | (1 << i))
}

/// Returns whether lanes and rows of a port hold only roles that an alternative of one common order lists for them.
pub(crate) fn lists(sig: &Signature, rule: &TileRule, port: usize, order: &[LabelDigit]) -> bool {
    let Some(places) = rule.ports.get(port) else {
        return true;
    };
    let listed = |digit: &LabelDigit| {
        let place = match digit.place {
            Place::Lane => 0,
            Place::Row => 1,
            Place::Grid | Place::Short => return true,
        };
        let role = sig.port_role(digit.label);
        let listed = |all: &Vec<PortRole>| all.iter().any(|r| r.covers(role));
        places[place].as_ref().is_none_or(listed)
    };
    order.iter().all(listed)
}

/// Returns whether an alternative takes an order at a port, the other ports left aside.
pub(super) fn takes(sig: &Signature, rule: &TileRule, port: usize, order: &[LabelDigit]) -> bool {
    if rule.shares_all || rule.logical {
        return false;
    }
    if !order.iter().all(|digit| may_be_cut(sig, port, digit)) {
        return false;
    }
    if sig.lines.is_some() && !fills_lanes(sig, rule, port, order) {
        return false;
    }
    let mut seen: Vec<PortRole> = Vec::new();
    for (place, roles) in [Place::Lane, Place::Row].into_iter().zip(&rule.ports[port]) {
        let mut own: Option<PortRole> = None;
        let in_place = || order.iter().filter(|d| d.place == place);
        if 1 < in_place().count() && in_place().any(|d| is_alone(sig, d.label)) {
            return false;
        }
        for digit in order.iter().filter(|d| d.place == place) {
            let role = sig.port_role(digit.label);
            // A run has one role.
            if own.is_some_and(|own| own != role) {
                return false;
            }
            own = Some(role);
            if roles
                .as_ref()
                .is_some_and(|all| !all.iter().any(|r| r.covers(role)))
            {
                return false;
            }
        }
        if let Some(own) = own {
            let kind = own.kind();
            if rule.distinct && seen.contains(&kind) {
                return false;
            }
            seen.push(kind);
        }
    }
    !is_underfilled(sig, rule, port, &seen)
}

/// Returns whether a dimension shares no run with another one: a window slides along it.
pub(super) fn is_alone(sig: &Signature, label: usize) -> bool {
    sig.freedom.labels[label].granule == 1
}

/// Returns whether the lanes are filled, if the port has a dimension that may fill them.
pub(super) fn fills_lanes(
    sig: &Signature,
    rule: &TileRule,
    port: usize,
    order: &[LabelDigit],
) -> bool {
    if order.iter().any(|d| d.place == Place::Lane) {
        return true;
    }
    let Some(roles) = &rule.ports[port][0] else {
        return true;
    };
    let short = order.iter().any(|d| d.place == Place::Short);
    !short && !has_role(sig, port, roles)
}

/// Returns whether the innermost run of an order has at least `run` elements of one dimension, padding included.
pub(super) fn has_run(order: &[LabelDigit], run: u64) -> bool {
    let Some(last) = order.last() else {
        return true;
    };
    let padded =
        last.place != Place::Grid && order.iter().filter(|d| d.place == last.place).count() == 1;
    padded || run <= last.extent
}

/// Returns whether a place of the tile is empty though the port has a dimension for it.
pub(super) fn is_underfilled(
    sig: &Signature,
    rule: &TileRule,
    port: usize,
    seen: &[PortRole],
) -> bool {
    let mut open: Vec<PortRole> = Vec::new();
    for (label, _) in sig.long_labels(port) {
        let role = sig.port_role(label);
        let listed = rule.ports[port].iter().any(|roles| {
            let roles = roles.as_ref();
            roles.is_none_or(|all| all.iter().any(|r| r.covers(role)))
        });
        if listed && !open.contains(&role.kind()) {
            open.push(role.kind());
        }
    }
    rule.distinct && seen.len() < open.len().min(2)
}

/// Returns whether an alternative takes layouts at a port whose innermost digit has this label.
pub(crate) fn may_end_in(sig: &Signature, rule: &TileRule, port: usize, label: usize) -> bool {
    let Some(roles) = lane_roles(rule, port) else {
        return true;
    };
    let listed = roles.iter().any(|r| r.covers(sig.port_role(label)));
    listed || !has_role(sig, port, roles)
}

/// Returns whether an alternative lists roles for the lanes of a port, and the port has one of them.
pub(crate) fn lists_lanes(sig: &Signature, rule: &TileRule, port: usize) -> bool {
    lane_roles(rule, port).is_some_and(|roles| has_role(sig, port, roles))
}

/// The roles that an alternative of roles lists for the lanes of a port; `None` where any may be there.
fn lane_roles(rule: &TileRule, port: usize) -> Option<&[PortRole]> {
    rule.ports.get(port).filter(|_| rule.is_by_roles())?[0].as_deref()
}

/// Returns whether a port has a dimension of one of these roles.
fn has_role(sig: &Signature, port: usize, roles: &[PortRole]) -> bool {
    let mut long = sig.long_labels(port);
    long.any(|(label, _)| roles.iter().any(|r| r.covers(sig.port_role(label))))
}

/// The number of elements that a port has along the role of a label: the longest run that may hold the label in the
/// lanes.
pub(crate) fn along_role(sig: &Signature, port: usize, label: usize) -> u64 {
    let role = sig.port_role(label);
    if sig.lines.is_none() && is_alone(sig, label) {
        return sig.extent(port, label).unwrap_or(1);
    }
    let dims = sig.labels(port).iter().zip(&sig.shapes[port]);
    let own = dims.filter(|(l, _)| l.is_some_and(|l| sig.port_role(l) == role));
    own.fold(1u64, |n, (_, &size)| n.saturating_mul(size))
}

/// Returns whether one alternative takes a layout at a port.
pub(crate) fn is_taken_by(
    sig: &Signature,
    layouts: &mut Layouts,
    rule: &TileRule,
    port: usize,
    layout: LayoutId,
) -> bool {
    let order = role_order(sig, layouts, port, layout);
    order.is_some_and(|order| takes(sig, rule, port, &order))
}

/// Returns whether the operation works along a digit as well as along its whole label. No window may slide over it. A
/// cut channel of a window operation must be cut in the weights too.
pub(super) fn may_be_cut(sig: &Signature, port: usize, digit: &LabelDigit) -> bool {
    if digit.div == 1 && digit.extent == size_of(sig, port, digit.label) {
        return true;
    }
    let granule = sig.freedom.labels[digit.label].granule;
    let along = granule == 0 || granule.is_multiple_of(digit.div);
    let window = sig.freedom.class == FreedomClass::Window;
    let channel = sig.freedom.labels[digit.label].role == Role::Channel;
    along && (!window || !channel || sig.n_operands < 2 || sig.has_label(1, digit.label))
}

/// Returns whether some alternative takes a layout at a port, the other ports left aside.
pub(crate) fn accepts(
    sig: &Signature,
    layouts: &mut Layouts,
    port: usize,
    layout: LayoutId,
) -> bool {
    let written = |rule: &TileRule| rule.writes_any && sig.n_operands <= port;
    if sig.tiles.iter().any(|rule| rule.is_any() || written(rule)) {
        return true;
    }
    let Some(order) = label_order(sig, layouts, port, layout) else {
        return false;
    };
    let mut rules = sig.tiles.iter();
    rules.any(|rule| match rule.shares_all {
        true => lists(sig, rule, port, &order) && (rule.run <= 1 || has_run(&order, rule.run)),
        false => false,
    }) || rules_of(sig, layouts, port, layout) != 0
}

/// The alternatives with roles that take a layout at a port, the other ports left aside, as a set.
pub(crate) fn rules_of(
    sig: &Signature,
    layouts: &mut Layouts,
    port: usize,
    layout: LayoutId,
) -> u64 {
    let order = role_order(sig, layouts, port, layout);
    order.map_or(0, |order| rules_at(sig, port, &order))
}
