//! Layouts that the target allows at a port of an operation, the other ports left aside.
//!
//! Example: at the left operand of a matmul on `cpu`, the orders `m k` and `k m` are allowed. The order `k0 m k1` is
//! allowed only if the innermost run `k1` is long enough, because K is in two runs.

use super::ends;
use super::layouts::{LayoutId, Layouts};
use super::physical::Physical;
use super::runs;
use super::signature::{ContractRole, Signature};
use super::tiled;
use optc_ir::Role;
use optc_layout::{Layout, Mode};
use optc_target::Accept;

/// Returns whether the target's row takes a layout other than the default one at a port, in some form. This agrees with
/// the checker of certificates.
pub(crate) fn admits(
    sig: &Signature,
    layouts: &mut Layouts,
    port: usize,
    layout: LayoutId,
) -> bool {
    if sig.is_tiled() {
        return tiled::accepts(sig, layouts, port, layout);
    }
    let data_port = port == 0 || port == sig.n_operands;
    let modes = match sig.accept {
        Accept::Any => return true,
        Accept::ChannelOrders if !data_port => return true,
        // A call, or another operation that runs functions, takes its default alone.
        Accept::RowMajor if !sig.declared.is_empty() => return false,
        Accept::RowMajor => return layouts.get(layout).is_row_major_order(),
        _ => layouts.modes(layout),
    };
    let Some(modes) = modes else { return false };
    let shape = &sig.shapes[port];
    let real = |p: &&Mode| 1 < p.extent && (1 < p.count || shape[p.dim] == 1);
    let innermost = modes.iter().rfind(real);
    match sig.accept {
        Accept::Any | Accept::RowMajor => true,
        Accept::CommonOrder | Accept::Matrices | Accept::ContractRuns | Accept::ChannelOrders => {
            accepts_order(sig, layouts, port, layout, &modes)
        }
        Accept::MinRun => innermost.is_none_or(|p| p.div == 1 && sig.parameter <= p.extent),
        Accept::LastBlock => innermost.is_none_or(|p| {
            p.dim + 1 == shape.len() && p.div == 1 && p.extent.is_multiple_of(sig.parameter)
        }),
    }
}

/// The layout of a value where nothing is chosen: naive lowering uses it at this port.
pub(crate) fn default_layout(sig: &Signature, layouts: &mut Layouts, port: usize) -> LayoutId {
    if let Some(&layout) = sig.declared.get(port) {
        return layout;
    }
    if sig.is_tiled() {
        let by_roles = sig
            .takes_roles()
            .then(|| tiled::default(sig, layouts, port));
        let natural = |layouts: &mut Layouts| layouts.row_major(&sig.shapes[port], sig.bits[port]);
        let by_run = |layouts: &mut Layouts| default_run(sig, layouts, port);
        let found = by_roles.flatten().or_else(|| by_run(layouts));
        return found.unwrap_or_else(|| natural(layouts));
    }
    if sig.accept == Accept::ContractRuns
        && let Some(order) = contract_default(sig, port)
    {
        return layouts.ordered(&sig.shapes[port], sig.bits[port], &order);
    }
    if sig.accept == Accept::ChannelOrders
        && sig.channels_last
        && let [only] = channel_orders(sig, layouts, port)[..]
    {
        return only;
    }
    if sig.accept == Accept::Matrices
        && let Some(order) = ends::default_order(sig, port)
    {
        return layouts.ordered(&sig.shapes[port], sig.bits[port], &order);
    }
    let (shape, bits) = (&sig.shapes[port], sig.bits[port]);
    let wanted = match sig.accept {
        Accept::MinRun | Accept::LastBlock => sig.parameter,
        Accept::RowMajor
        | Accept::CommonOrder
        | Accept::ContractRuns
        | Accept::Matrices
        | Accept::ChannelOrders
        | Accept::Any => 1,
    };
    let Some(&last) = shape.last() else {
        return layouts.row_major(shape, bits);
    };
    let fits = match sig.accept {
        Accept::LastBlock => last.is_multiple_of(wanted),
        _ => wanted <= last || shape.iter().all(|&n| n <= 1),
    };
    if fits {
        return layouts.row_major(shape, bits);
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
    let found = layouts.of_modes(shape, bits, &modes);
    found.unwrap_or_else(|| layouts.row_major(shape, bits))
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
/// are not innermost, then the innermost role. That role is the first of [`runs::TRIED`] that the row takes there. K is
/// one run in the order of [`Signature::reference_k`]. `None` where row-major is taken.
fn contract_default(sig: &Signature, port: usize) -> Option<Vec<usize>> {
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
    if in_order && accepts_contract(sig, port, &in_sequence(sig, port, &long)) {
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
    let mut orders = runs::TRIED.into_iter().map(ending_in);
    let taken = |order: &Vec<usize>| accepts_contract(sig, port, &in_sequence(sig, port, order));
    orders
        .find(taken)
        .or_else(|| Some(ending_in(ContractRole::K)))
}

/// The modes of whole dimensions, major to minor.
fn in_sequence(sig: &Signature, port: usize, order: &[usize]) -> Vec<Mode> {
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

/// Returns whether the target lets the operation read or write a layout at a port, the other ports left aside.
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
    if sig.is_tiled() {
        return tiled::accepts(sig, layouts, port, layout);
    }
    let Some(modes) = layouts.modes(layout) else {
        return false;
    };
    match sig.accept {
        Accept::RowMajor => false,
        Accept::Any => true,
        // A port that shares no dimension has its default layout.
        Accept::CommonOrder if sig.labels(port).iter().all(Option::is_none) => false,
        Accept::CommonOrder | Accept::Matrices | Accept::ContractRuns | Accept::ChannelOrders => {
            accepts_order(sig, layouts, port, layout, &modes)
        }
        Accept::MinRun => modes
            .last()
            .is_some_and(|p| p.div == 1 && layouts.is_at_least(p.extent, sig.parameter)),
        Accept::LastBlock => accepts_last_block(sig, port, &modes),
    }
}

/// Returns whether a row that takes orders takes the order of a layout with these digits.
fn accepts_order(
    sig: &Signature,
    layouts: &mut Layouts,
    port: usize,
    layout: LayoutId,
    modes: &[Mode],
) -> bool {
    let ordered = |takes: fn(&Signature, usize, &[Mode]) -> bool| {
        is_unpadded(modes) && takes(sig, port, modes)
    };
    match sig.accept {
        Accept::ContractRuns => ordered(accepts_contract),
        Accept::ChannelOrders => {
            channel_orders(sig, layouts, port).contains(&layout)
                || (sig.is_pointwise_conv() && ordered(accepts_pointwise))
                || (sig.patches && port == sig.n_operands && is_unpadded(modes))
                || (sig.patches && port == 0 && ends_in_patch(sig, modes))
        }
        _ => ordered(ends::accepts),
    }
}

pub(crate) fn is_unpadded(modes: &[Mode]) -> bool {
    modes.iter().all(|p| p.extent == p.count)
}

/// Returns whether a contraction takes these digits: M, N and batch in any digits, K in one run or in allowed several
/// runs, batch not innermost, and an innermost run as the row demands.
pub(crate) fn accepts_contract(sig: &Signature, port: usize, modes: &[Mode]) -> bool {
    runs::ends_well(sig, port, modes) && has_runs(sig, port, modes)
}

/// Returns whether K is in one run, or in several where a long run is innermost, and batch is not innermost. M, N and
/// batch may be in any digits.
fn has_runs(sig: &Signature, port: usize, modes: &[Mode]) -> bool {
    let labels = sig.labels(port);
    let role = |p: &Mode| labels[p.dim].map_or(ContractRole::Other, |l| sig.contract_role(l));
    let long: Vec<ContractRole> = modes.iter().filter(|p| 1 < p.count).map(role).collect();
    if long.last() == Some(&ContractRole::Batch) && long.iter().any(|r| *r != ContractRole::Batch) {
        return false;
    }
    let first = long.iter().position(|r| *r == ContractRole::K);
    let last = long.iter().rposition(|r| *r == ContractRole::K);
    match (first, last) {
        (Some(a), Some(b)) => {
            long[a..=b].iter().all(|r| *r == ContractRole::K) || ends_in_run(sig, port, modes)
        }
        _ => true,
    }
}

/// Returns whether the innermost run of a port is long enough for K to be in several runs.
fn ends_in_run(sig: &Signature, port: usize, modes: &[Mode]) -> bool {
    let run = runs::innermost(sig, port, modes).map_or(1, |(_, run)| run);
    let bits = u64::from(sig.bits[port]).saturating_mul(run);
    sig.several_runs.is_some_and(|least| least <= bits)
}

/// Returns whether a pointwise convolution takes these digits. It contracts the channels of a group, which must be one
/// run in the data and in the weights. Batch and spatial dimensions are M. The groups are a batch and not innermost.
pub(crate) fn accepts_pointwise(sig: &Signature, port: usize, modes: &[Mode]) -> bool {
    const WEIGHTS: usize = 1;
    if port != 0 && port != WEIGHTS && port != sig.n_operands {
        return true;
    }
    let Some(digits) = sig.grouped_digits(port, modes) else {
        return false;
    };
    let long: Vec<&(Mode, bool)> = digits.iter().filter(|(p, _)| 1 < p.extent).collect();
    let ends_in_groups = long.last().is_some_and(|(_, across)| *across);
    if ends_in_groups && long.iter().any(|(_, across)| !across) {
        return false;
    }
    if port == sig.n_operands {
        return true;
    }
    let is_k = |(p, across): &&(Mode, bool)| p.dim == 1 && !across;
    let first = long.iter().position(is_k);
    let last = long.iter().rposition(is_k);
    match (first, last) {
        (Some(a), Some(b)) => long[a..=b].iter().all(is_k),
        _ => true,
    }
}

/// Returns whether the data of a patches convolution has its dimensions whole, and innermost one along which a patch
/// has several elements. The summed elements then are in runs.
fn ends_in_patch(sig: &Signature, modes: &[Mode]) -> bool {
    let (data, weights) = (&sig.shapes[0], &sig.shapes[1]);
    let whole = |m: &Mode| m.div == 1 && m.count == data[m.dim] && m.extent == m.count;
    let long = modes.iter().rfind(|m| 1 < m.count);
    let inside = |m: &Mode| m.dim != 0 && weights.get(m.dim).is_some_and(|&n| 1 < n);
    modes.iter().all(whole) && long.is_none_or(inside)
}

/// Returns whether the last dimension is in blocks with a block innermost, and the other dimensions are whole, in any
/// order.
fn accepts_last_block(sig: &Signature, port: usize, modes: &[Mode]) -> bool {
    let shape = &sig.shapes[port];
    let Some(last_dim) = shape.len().checked_sub(1) else {
        return true;
    };
    let Some(inner) = modes.last() else {
        return false;
    };
    if inner.dim != last_dim || inner.div != 1 || !inner.extent.is_multiple_of(sig.parameter) {
        return false;
    }
    let outer = &modes[..modes.len() - 1];
    let mut seen = vec![false; shape.len()];
    outer.iter().all(|p| {
        let fresh = !std::mem::replace(&mut seen[p.dim], true);
        let whole = p.dim == last_dim || (p.div == 1 && p.extent == shape[p.dim]);
        let cut = p.dim != last_dim || inner.extent == sig.parameter;
        fresh && whole && cut
    })
}

/// The layouts of a window operation's port: channels before spatial dimensions, or after them.
pub(crate) fn channel_orders(sig: &Signature, layouts: &mut Layouts, port: usize) -> Vec<LayoutId> {
    let (labels, shape) = (sig.labels(port), &sig.shapes[port]);
    let is_weight = port == 1 && 1 < sig.n_operands;
    let place = |dim: usize| -> (usize, usize) {
        let rank = match labels[dim].map(|l| sig.freedom.labels[l].role) {
            Some(Role::Batch) => 0,
            Some(Role::Channel) if is_weight && dim == 0 => 0,
            Some(Role::Spatial | Role::Axis) => 1,
            Some(Role::Channel) => 2,
            Some(Role::Parallel) | None => 1,
        };
        (rank, dim)
    };
    let mut last: Vec<usize> = (0..shape.len()).collect();
    last.sort_by_key(|&dim| place(dim));
    let first = layouts.row_major(shape, sig.bits[port]);
    match Layout::from_order(shape, sig.bits[port], &last) {
        // Weights stay as declared where the other ports have one order.
        Ok(layout) if sig.channels_last && !is_weight => vec![layouts.intern(layout)],
        _ if sig.channels_last => vec![first],
        Ok(layout) => vec![first, layouts.intern(layout)],
        Err(_) => vec![first],
    }
}
