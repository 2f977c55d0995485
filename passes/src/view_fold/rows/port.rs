//! Layouts that a row takes at one port of an operation, the other ports left aside.
//!
//! Example: at the left operand of a matmul on `cpu`, the orders `m k` and `k m` are taken. The order `k0 m k1` is
//! taken only if the innermost run `k1` is long enough, because K is in two runs.

use super::super::ends;
use super::super::layouts::{LayoutId, Layouts};
use super::super::physical::Physical;
use super::super::signature::{ContractRole, Signature};
use super::super::tiled;
use super::contract::{TRIED, has_runs};
use super::window::{channel_orders, takes_at_window};
use super::{Channels, OrderRule, is_unpadded};
use optc_layout::Mode;

/// Returns whether the row takes a layout at a port, in some form.
pub(crate) fn accepts_layout(
    sig: &Signature,
    layouts: &mut Layouts,
    port: usize,
    layout: LayoutId,
) -> bool {
    layout == default_layout(sig, layouts, port) || takes_layout(sig, layouts, port, layout)
}

/// [`accepts_layout`] for a layout that is not the default one.
pub(crate) fn takes_layout(
    sig: &Signature,
    layouts: &mut Layouts,
    port: usize,
    layout: LayoutId,
) -> bool {
    match sig.is_tiled() {
        true => tiled::accepts(sig, layouts, port, layout),
        false => sig
            .orders
            .iter()
            .any(|rule| takes_at(sig, rule, layouts, port, layout)),
    }
}

/// Returns whether an alternative takes a layout at a port, on a machine without tiles.
pub(crate) fn takes_at(
    sig: &Signature,
    rule: &OrderRule,
    layouts: &mut Layouts,
    port: usize,
    layout: LayoutId,
) -> bool {
    // A call, or another operation that runs functions, takes its default alone.
    if rule.logical {
        return sig.declared.is_empty() && layouts.get(layout).is_row_major_order();
    }
    if rule.is_any() {
        return true;
    }
    if rule.channels.is_some() || rule.patches {
        return takes_at_window(sig, rule, layouts, port, layout);
    }
    // A port that shares no dimension has its default layout.
    if rule.shares_all && sig.labels(port).iter().all(Option::is_none) {
        return layouts.get(layout).is_row_major_order();
    }
    let Some(modes) = layouts.modes(layout) else {
        return false;
    };
    let shape = &sig.shapes[port];
    let real = |m: &&Mode| 1 < m.extent && (1 < m.count || shape[m.dim] == 1);
    let innermost = modes.iter().rfind(real);
    let long_enough =
        |run: u64| innermost.is_none_or(|m| m.div == 1 && layouts.is_at_least(m.extent, run));
    let padded = rule.padded_to().is_some();
    (padded || is_unpadded(&modes))
        && rule.run.is_none_or(long_enough)
        && rule.block.is_none_or(|n| in_blocks(shape, &modes, n))
        && (rule.ends.as_ref()).is_none_or(|ends| ends::accepts_by(sig, ends, port, &modes))
        && has_runs(sig, rule, port, &modes)
}

/// Returns whether the last dimension is in blocks with a block innermost, and the other dimensions are whole, in any
/// order.
fn in_blocks(shape: &[u64], modes: &[Mode], block: u64) -> bool {
    let Some(last) = shape.len().checked_sub(1) else {
        return true;
    };
    let real = |m: &&Mode| 1 < m.extent && (1 < m.count || shape[m.dim] == 1);
    let whole = |m: &Mode| m.dim == last || (m.div == 1 && m.extent == shape[m.dim]);
    let inner = modes.iter().rfind(real);
    let ends_in_block =
        inner.is_some_and(|m| m.dim == last && m.div == 1 && m.extent.is_multiple_of(block));
    ends_in_block && modes.iter().filter(real).all(whole)
}

/// The layouts that the row lists for a port; `None` where it takes a family of layouts.
pub(crate) fn listed(sig: &Signature, layouts: &mut Layouts, port: usize) -> Option<Vec<LayoutId>> {
    if sig.is_tiled() {
        let logical = sig.tiles.iter().all(|rule| rule.logical);
        return logical.then(|| vec![default_layout(sig, layouts, port)]);
    }
    if sig.orders.iter().all(|rule| rule.logical) {
        return Some(vec![default_layout(sig, layouts, port)]);
    }
    let data_port = port == 0 || port == sig.n_operands;
    let channels = sig.orders.iter().all(|rule| rule.channels.is_some());
    (channels && data_port && !sig.is_pointwise_conv()).then(|| channel_orders(sig, layouts, port))
}

/// The layout of a value where nothing is chosen: naive lowering uses it at this port.
pub(crate) fn default_layout(sig: &Signature, layouts: &mut Layouts, port: usize) -> LayoutId {
    if let Some(&layout) = sig.declared.get(port) {
        return layout;
    }
    let (shape, bits) = (&sig.shapes[port], sig.bits[port]);
    if sig.is_tiled() {
        let by_roles = sig
            .takes_roles()
            .then(|| tiled::default(sig, layouts, port));
        let by_run = |layouts: &mut Layouts| default_run(sig, layouts, port);
        let found = by_roles.flatten().or_else(|| by_run(layouts));
        return found.unwrap_or_else(|| layouts.row_major(shape, bits));
    }
    let first = &sig.orders[0];
    let order = match first {
        rule if !rule.shared.is_empty() => contract_default(sig, rule, port),
        rule if rule.ends.is_some() && !rule.shares_all => ends::default_order(sig, port),
        rule if rule.channels == Some(Channels::Last) => {
            let [only] = channel_orders(sig, layouts, port)[..] else {
                return layouts.row_major(shape, bits);
            };
            return only;
        }
        _ => None,
    };
    if let Some(order) = order {
        return layouts.ordered(shape, bits, &order);
    }
    let padded = padded(sig, first, port);
    let padded = padded.and_then(|modes| layouts.of_modes(shape, bits, &modes));
    padded.unwrap_or_else(|| layouts.row_major(shape, bits))
}

/// Row-major with the last dimension padded to a run or block; `None` where it needs no padding.
fn padded(sig: &Signature, rule: &OrderRule, port: usize) -> Option<Vec<Mode>> {
    let wanted = rule.padded_to()?;
    let shape = &sig.shapes[port];
    let &last = shape.last()?;
    let fits = match rule.block {
        Some(block) => last.is_multiple_of(block),
        None => wanted <= last || shape.iter().all(|&n| n <= 1),
    };
    if fits {
        return None;
    }
    let mut modes: Vec<Mode> = Vec::new();
    for (dim, &count) in shape.iter().enumerate() {
        let is_last = dim + 1 == shape.len();
        let extent = if is_last {
            count.div_ceil(wanted).saturating_mul(wanted)
        } else {
            count
        };
        if 1 < extent {
            modes.push(Mode {
                dim,
                div: 1,
                count,
                extent,
            });
        }
    }
    Some(modes)
}

/// Row-major with the last dimension padded up to a run, where the row wants one.
fn default_run(sig: &Signature, layouts: &mut Layouts, port: usize) -> Option<LayoutId> {
    let wanted = sig.tiles.iter().any(|rule| rule.shares_all && 1 < rule.run);
    let shape = &sig.shapes[port];
    let order: Vec<usize> = (0..shape.len()).collect();
    let form = Physical::plain(shape, &order, sig.lines.filter(|_| wanted)?.into());
    layouts.formed(shape, sig.bits[port], &form)
}

/// The default order of a contraction's port where the kernel does not take row-major: batch first, then the roles that
/// are not innermost, then the innermost role. That role is the first of [`TRIED`] that the row takes there. K is one
/// run in the order of [`Signature::reference_k`]. `None` where row-major is taken.
fn contract_default(sig: &Signature, rule: &OrderRule, port: usize) -> Option<Vec<usize>> {
    let labels = sig.labels(port);
    let role = |dim: usize| labels[dim].map_or(ContractRole::Other, |l| sig.contract_role(l));
    let long: Vec<usize> = (0..labels.len())
        .filter(|&d| sig.shapes[port].get(d).is_some_and(|&n| 1 < n))
        .collect();
    let of_k = |d: &usize| role(*d) == ContractRole::K;
    let k: Vec<usize> = long.iter().copied().filter(of_k).collect();
    let place = |dim: &usize| {
        sig.reference_k
            .iter()
            .position(|l| labels[*dim] == Some(*l))
    };
    let in_order = k.windows(2).all(|w| place(&w[0]) < place(&w[1]));
    let taken =
        |order: &Vec<usize>| has_runs(sig, rule, port, &ends::in_sequence(sig, port, order));
    if in_order && taken(&long) {
        return None;
    }
    let ending_in = |last: ContractRole| {
        let mut order: Vec<usize> = (0..labels.len()).collect();
        order.sort_by_key(|&dim| match role(dim) {
            own if own == last => (2, place(&dim).unwrap_or(0)),
            ContractRole::Batch => (0, 0),
            ContractRole::K => (1, 1 + place(&dim).unwrap_or(0)),
            ContractRole::M | ContractRole::N | ContractRole::Other => (1, 0),
        });
        order
    };
    let mut orders = TRIED.into_iter().map(ending_in);
    orders
        .find(taken)
        .or_else(|| Some(ending_in(ContractRole::K)))
}
