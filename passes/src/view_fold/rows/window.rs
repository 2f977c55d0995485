//! Layouts that a row takes at the ports of a window operation, on a machine without tiles: channels first or last, the
//! pixels of a convolution that only mixes channels, and patches.

use super::super::layouts::{LayoutId, Layouts};
use super::super::signature::Signature;
use super::{Channels, OrderRule, is_unpadded};
use optc_ir::Role;
use optc_layout::{Layout, Mode};

/// Returns whether a window operation takes a layout at a port. The layout of weights is free.
pub(super) fn takes_at_window(
    sig: &Signature,
    rule: &OrderRule,
    layouts: &mut Layouts,
    port: usize,
    layout: LayoutId,
) -> bool {
    let data_port = port == 0 || port == sig.n_operands;
    let placed = |layouts: &mut Layouts| match rule.channels {
        Some(channels) => channel_order(sig, layouts, port, channels) == Some(layout),
        None => takes_patches(sig, layouts, port, layout),
    };
    !data_port || placed(layouts) || contracts_pixels(sig, layouts, port, layout)
}

/// Returns whether a convolution that reads patches takes a layout at its data or its result.
fn takes_patches(sig: &Signature, layouts: &mut Layouts, port: usize, layout: LayoutId) -> bool {
    let Some(modes) = layouts.modes(layout) else {
        return false;
    };
    match port {
        0 => ends_in_patch(sig, &modes) || channel_orders(sig, layouts, 0).contains(&layout),
        _ => is_unpadded(&modes),
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

/// Returns whether a convolution of patches takes a layout as a contraction. Weights have an order of channels.
pub(crate) fn contracts_patches(
    sig: &Signature,
    layouts: &mut Layouts,
    port: usize,
    layout: LayoutId,
) -> bool {
    let data_port = port == 0 || port == sig.n_operands;
    (data_port && takes_patches(sig, layouts, port, layout))
        || channel_orders(sig, layouts, port).contains(&layout)
}

/// Returns whether a convolution that only mixes channels takes a layout as a contraction of pixels. It contracts the
/// channels of a group, which must be one run in the data and in the weights. Batch and spatial dimensions are M. The
/// groups are a batch and not innermost.
///
/// The convolution itself takes channels last, even where groups are innermost, but only if all other ports have
/// channels last as well.
pub(crate) fn contracts_pixels(
    sig: &Signature,
    layouts: &mut Layouts,
    port: usize,
    layout: LayoutId,
) -> bool {
    const WEIGHTS: usize = 1;
    if !sig.is_pointwise_conv() {
        return false;
    }
    let Some(modes) = layouts.modes(layout).filter(|modes| is_unpadded(modes)) else {
        return false;
    };
    if port != 0 && port != WEIGHTS && port != sig.n_operands {
        return true;
    }
    let Some(digits) = sig.grouped_digits(port, &modes) else {
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

/// The layouts of a window operation's port with its channels where the row lists them, the first place first. Weights
/// stay as declared where there is one place alone.
pub(crate) fn channel_orders(sig: &Signature, layouts: &mut Layouts, port: usize) -> Vec<LayoutId> {
    let places = sig.orders.iter().filter_map(|rule| rule.channels);
    let places: Vec<Channels> = places.collect();
    let is_weight = port == 1 && 1 < sig.n_operands;
    if is_weight && places.len() == 1 {
        return vec![layouts.row_major(&sig.shapes[port], sig.bits[port])];
    }
    let order = |&place: &Channels| channel_order(sig, layouts, port, place);
    places.iter().filter_map(order).collect()
}

/// The layout of a window operation's port with its channels in one place.
pub(super) fn channel_order(
    sig: &Signature,
    layouts: &mut Layouts,
    port: usize,
    channels: Channels,
) -> Option<LayoutId> {
    let (labels, shape) = (sig.labels(port), &sig.shapes[port]);
    // Row-major is known first: among forms of equal bytes the one with earlier layouts is chosen.
    let row_major = layouts.row_major(shape, sig.bits[port]);
    if channels == Channels::First {
        return Some(row_major);
    }
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
    let layout = Layout::from_order(shape, sig.bits[port], &last).ok()?;
    Some(layouts.intern(layout))
}
