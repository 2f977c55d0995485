//! The built-in rules of the search: their equations, and the functions and conditions that these name.
//!
//! Example: `any-order` turns a transpose behind a softmax into one in front of it.

use super::context::{Form, Named, RuleContext};
use super::label_order::label_order;
use super::layouts::{LayoutId, Layouts};
use super::matrices;
use super::orders::common_orders;
use super::physical::{Physical, Place};
use super::restrict::Restricted;
use super::rows::{
    accepts_layout, channel_orders, contracts_patches, contracts_pixels, default_layout,
    is_over_axes,
};
use super::signature::{ContractRole, LabelDigit, Signature};
use super::tiled;
use crate::pass::RuleInfo;

/// The rule that constants are written in any layout. It acts on storage groups, not on forms.
pub(super) const CONSTANT_ANY_LAYOUT: RuleInfo<'static> = RuleInfo {
    name: "constant-any-layout",
    equation: "(convert ?o (constant ?c)) => (constant (convert ?o ?c))",
    summary: "a constant is written in the layout that its readers want, at compile time",
};

/// The rule that cheap values are computed once for each order. It acts on the program, once its layouts are chosen.
pub(super) const COMPUTE_TWICE: RuleInfo<'static> = RuleInfo {
    name: "compute-twice",
    equation: "(convert ?o (ordered ?xs)) => (ordered (convert ?o ?xs)) if (cheap ?xs)",
    summary: "what an element-wise operation or a broadcast gives is computed again in another order, where that converts fewer bytes",
};

/// The rules about operations, in the order in which they are tried.
pub(super) const RULES: &[RuleInfo<'static>] = &[
    RuleInfo {
        name: "any-order",
        equation: "(convert ?o (ordered ?xs)) => (ordered (convert ?o ?xs))",
        summary: "an operation that treats its dimensions apart runs in any order, each port in its part of it",
    },
    RuleInfo {
        name: "matmul-batch-anywhere",
        equation: "(convert ?o (contract ?xs)) => (contract (convert (k ?o) ?xs)) if (batch-moved ?o)",
        summary: "a contraction is repeated over its batch in any order",
    },
    RuleInfo {
        name: "matmul-transposed",
        equation: "(convert ?o (contract ?xs)) => (contract (convert (k ?o) ?xs)) if (transposed ?o)",
        summary: "a contraction writes its transpose when its operands change places",
    },
    RuleInfo {
        name: "matmul-permuted-k",
        equation: "(convert ?o (contract ?xs)) => (contract (convert (k ?o) ?xs)) if (k-permuted ?o)",
        summary: "a contraction sums in any order that both operands share",
    },
    RuleInfo {
        name: "matmul-of-matrices",
        equation: "(convert ?o (matrices ?xs)) => (matrices (convert (ends ?o) ?xs))",
        summary: "what stands before the matrices of a contraction is a batch, whichever operand has it",
    },
    RuleInfo {
        name: "window-channels-last",
        equation: "(convert ?o (window ?xs)) => (window (convert (channels-last) ?xs)) if (channels-last ?o)",
        summary: "a convolution or a pool has its channels last at all ports, or first",
    },
    RuleInfo {
        name: "conv1x1-as-matmul",
        equation: "(window ?xs) => (contract (pixels ?xs)) if (pointwise ?xs)",
        summary: "a convolution that mixes channels alone is a contraction of each pixel",
    },
    RuleInfo {
        name: "patches-as-matmul",
        equation: "(convert ?o (patched ?xs)) => (contract (convert (any) (patches ?xs))) if (contracted ?o)",
        summary: "a convolution that reads each position of its data once is a contraction that reads them in runs and writes its result in any order",
    },
    RuleInfo {
        name: "tile-by-roles",
        equation: "(convert ?o (roles ?xs)) => (roles (convert (tile ?o) ?xs))",
        summary: "an operation takes any two of the roles that its row lists in rows and lanes, alike at all ports that have them",
    },
    RuleInfo {
        name: "block-grid-any-order",
        equation: "(convert ?o (blocks ?xs)) => (blocks (convert (any) ?xs)) if (taken ?o)",
        summary: "an operation on blocks reads them in any order",
    },
];

/// The functions and conditions that equations of the search may name.
pub(super) const NAMED: &[Named] = &[
    Named::Order("any", |cx| cx.forms.push(Form::Member(Vec::new()))),
    Named::Order("k", order_of_k),
    Named::Order("ends", |cx| {
        let found = matrices::forms(cx.signature, cx.layouts, (cx.port, cx.layout), false);
        cx.forms.extend(found.into_iter().map(Form::Exact));
    }),
    Named::Order("channels-last", channels_last),
    Named::Order("tile", by_roles),
    Named::OrderIs("taken", |cx| {
        accepts_layout(cx.signature, cx.layouts, cx.port, cx.layout)
    }),
    Named::OrderIs("contracted", is_contracted),
    Named::OrderIs("batch-moved", |cx| departure(cx) == Some(Departure::Batch)),
    Named::OrderIs("transposed", |cx| {
        departure(cx) == Some(Departure::Transposed)
    }),
    Named::OrderIs("k-permuted", |cx| {
        departure(cx) == Some(Departure::PermutedK)
    }),
    Named::OrderIs("channels-last", |cx| {
        last_channels(cx.signature, cx.layouts, cx.port) == Some(cx.layout)
    }),
    Named::OperationIs("pointwise", Signature::is_pointwise_conv),
];

/// The function of an order that is the order itself: each port has its part.
pub(super) const FOLLOW: fn(&mut RuleContext<'_>) = common_order;

/// The built-in rules, in the order in which they are tried.
#[must_use]
pub fn builtin_rules() -> Vec<RuleInfo<'static>> {
    let own = RULES.iter().copied();
    own.chain([CONSTANT_ANY_LAYOUT, COMPUTE_TWICE]).collect()
}

/// The way in which a layout of a contraction's port departs from the default.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Departure {
    /// The batch alone is elsewhere.
    Batch,
    /// M, N and K are in another order, the digits of K in their own.
    Transposed,
    /// The digits of K are in another order.
    PermutedK,
}

/// Adds the forms in which all ports follow one order. Among very many ports, one hands the orders on.
fn common_order(cx: &mut RuleContext<'_>) {
    let sig = cx.signature;
    if sig.hub.is_some_and(|hub| hub != cx.port) {
        return;
    }
    for order in common_orders(sig, cx.layouts, cx.port, cx.layout) {
        // If every label has one extent, the forms do not depend on the port that the order comes from.
        if sig.is_even && cx.followed.contains(&order) {
            continue;
        }
        let forms = follow(sig, cx.layouts, &order, (cx.port, cx.layout));
        cx.forms.extend(forms.into_iter().map(Form::Exact));
        if sig.is_even {
            cx.followed.insert(order);
        }
    }
}

/// Forms with all ports in one order. Where the row wants long runs, a broadcast operand keeps its default if the
/// target refuses its part of the order. On a machine of lines, a broadcast operand lies in a line or in none, in this
/// order.
fn follow(
    sig: &Signature,
    layouts: &mut Layouts,
    order: &[LabelDigit],
    (source, layout): (usize, LayoutId),
) -> Vec<Vec<LayoutId>> {
    let full = sig.fullest;
    let n_full = sig.labels(full).iter().flatten().count();
    let mut forms = vec![Vec::with_capacity(sig.n_ports())];
    let mut restricted = Restricted::new(layouts, order, source, layout);
    // Ports of the same dimensions have the same layout.
    let like = |port: usize| match sig.lines {
        Some(_) => (0..port).find(|&other| long(sig, other) == long(sig, port)),
        None => None,
    };
    for port in 0..sig.n_ports() {
        let layout = restricted.at(sig, layouts, port);
        let accepted = layout.filter(|&l| accepts_layout(sig, layouts, port, l));
        let broadcast =
            || port < sig.n_operands && sig.labels(port).iter().flatten().count() < n_full;
        let lacks = || {
            let mut wanted = long(sig, full).into_iter();
            wanted.any(|(label, _)| !sig.has_label(port, label))
        };
        let taken = match accepted {
            _ if sig.lines.is_some() && lacks() => in_lines(sig, layouts, port, layout),
            None if sig.has_order(|rule| rule.run.is_some()) && broadcast() => {
                vec![default_layout(sig, layouts, port)]
            }
            Some(only) if like(port).is_none() => {
                forms.iter_mut().for_each(|form| form.push(only));
                continue;
            }
            _ => accepted.into_iter().collect(),
        };
        let like = like(port);
        let mut longer: Vec<Vec<LayoutId>> = Vec::with_capacity(forms.len());
        for mut form in forms {
            let mut fits = taken.clone();
            if let Some(other) = like {
                let there = form[other];
                fits.retain(|&l| l == there || layouts.form(l) == layouts.form(there));
            }
            let Some((&last, others)) = fits.split_last() else {
                continue;
            };
            for &layout in others {
                longer.push([&form[..], &[layout]].concat());
            }
            form.push(last);
            longer.push(form);
        }
        longer.truncate(MOST_FOLLOWED);
        forms = longer;
    }
    if sig.is_tiled() {
        forms.retain(|form| cut_alike(sig, layouts, form));
    }
    forms.retain(|form| is_over_axes(sig, layouts, form));
    forms
}

/// Returns whether ports of the same dimensions and different sizes (parts and their whole) have the same dimension
/// innermost in their lanes and in their rows. The checker demands this. A digit that the parts lack must not be
/// innermost in the whole.
fn cut_alike(sig: &Signature, layouts: &mut Layouts, form: &[LayoutId]) -> bool {
    let n = sig.n_ports();
    let pairs = (0..n).flat_map(|a| (a + 1..n).map(move |b| (a, b)));
    let mut cut =
        pairs.filter(|&(a, b)| sig.labels(a) == sig.labels(b) && sig.shapes[a] != sig.shapes[b]);
    cut.all(|(a, b)| {
        let both = |label: usize| {
            [a, b]
                .iter()
                .all(|&port| long(sig, port).iter().any(|(other, _)| *other == label))
        };
        let orders = [a, b].map(|port| label_order(sig, layouts, port, form[port]));
        let [Some(x), Some(y)] = orders else {
            return true;
        };
        let placed = |order: &[LabelDigit], place: Place| -> Vec<usize> {
            let there = order.iter().filter(|d| d.place == place && 1 < d.extent);
            there.map(|d| d.label).collect()
        };
        let places = [Place::Lane, Place::Row].map(|place| [placed(&x, place), placed(&y, place)]);
        // If a dimension of the tile has one element at the other port, the dimension behind it moves up.
        if !places.iter().flatten().flatten().all(|&label| both(label)) {
            return true;
        }
        let loose = [a, b].iter().any(|&port| layouts.is_loose(form[port]));
        places.iter().enumerate().all(|(at, [x, y])| {
            let open = x.is_empty() || y.is_empty() || (at == 1 && loose);
            open || x.last() == y.last()
        })
    })
}

/// The labels of a port that have more than one element there, with their sizes.
fn long(sig: &Signature, port: usize) -> Vec<(usize, u64)> {
    let mut all: Vec<(usize, u64)> = sig.long_labels(port).collect();
    all.sort_unstable();
    all
}

/// The most forms of one order that differ in the lines of broadcast operands.
const MOST_FOLLOWED: usize = 9;

/// Layouts that a port takes with a layout's order of digits, on a machine of lines: as it is, in no line, with the
/// innermost digit in a line, and padded to the shortest run.
fn in_lines(
    sig: &Signature,
    layouts: &mut Layouts,
    port: usize,
    layout: Option<LayoutId>,
) -> Vec<LayoutId> {
    let Some(layout) = layout else {
        return Vec::new();
    };
    let mut all = vec![layout];
    if let Some(form) = layouts.form(layout) {
        for innermost in [Place::Grid, Place::Lane, Place::Short] {
            let mut placed = Physical::new(form.digits.clone());
            let n = placed.digits.len();
            for (i, digit) in placed.digits.iter_mut().enumerate() {
                digit.place = if i + 1 == n { innermost } else { Place::Grid };
            }
            let found = layouts.formed(&sig.shapes[port], sig.bits[port], &placed);
            all.extend(found.filter(|l| !all.contains(l)));
        }
    }
    all.retain(|&l| {
        let order = label_order(sig, layouts, port, l);
        order.is_some() && tiled::accepts(sig, layouts, port, l)
    });
    all
}

/// The way in which an order departs from the default; `None` if the contraction does not take it.
fn departure(cx: &mut RuleContext<'_>) -> Option<Departure> {
    let sig = cx.signature;
    let order = cx.order()?;
    let taken = match sig.has_order(|rule| rule.channels.is_some()) {
        true => is_contracted(cx),
        false => cx.port <= 2 && accepts_layout(sig, cx.layouts, cx.port, cx.layout),
    };
    if !taken {
        return None;
    }
    let logical = default_layout(sig, cx.layouts, cx.port);
    let logical = label_order(sig, cx.layouts, cx.port, logical)?;
    if !natural_k(sig, &sig.k_digits(cx.port, &order)) {
        return Some(Departure::PermutedK);
    }
    let of_matrices = |order: &[LabelDigit]| -> Vec<LabelDigit> {
        let roles = [ContractRole::M, ContractRole::N, ContractRole::K];
        let wanted = |d: &&LabelDigit| roles.contains(&sig.contract_role(d.label));
        order.iter().filter(wanted).copied().collect()
    };
    Some(match of_matrices(&order) == of_matrices(&logical) {
        true => Departure::Batch,
        false => Departure::Transposed,
    })
}

/// Adds the form of all layouts with this order of K's digits.
fn order_of_k(cx: &mut RuleContext<'_>) {
    let sig = cx.signature;
    let Some(order) = cx.order() else { return };
    let k = sig.k_digits(cx.port, &order);
    cx.forms.push(Form::Member(match natural_k(sig, &k) {
        true => Vec::new(),
        false => k,
    }));
}

/// Returns whether K's digits are in the order that the operands have by default, each label whole.
fn natural_k(sig: &Signature, k: &[LabelDigit]) -> bool {
    let place = |d: &LabelDigit| sig.reference_k.iter().position(|l| *l == d.label);
    k.windows(2).all(|w| place(&w[0]) < place(&w[1])) && k.iter().all(|d| d.div == 1)
}

/// The layout of a window's port that has its channels last.
fn last_channels(sig: &Signature, layouts: &mut Layouts, port: usize) -> Option<LayoutId> {
    channel_orders(sig, layouts, port).last().copied()
}

fn channels_last(cx: &mut RuleContext<'_>) {
    let ports = 0..cx.signature.n_ports();
    let form: Option<Vec<LayoutId>> = ports
        .map(|port| last_channels(cx.signature, cx.layouts, port))
        .collect();
    cx.forms.extend(form.map(Form::Exact));
}

/// Returns whether a convolution takes the order as a contraction, of pixels or of patches.
fn is_contracted(cx: &mut RuleContext<'_>) -> bool {
    let sig = cx.signature;
    (cx.port == 1 || is_data_port(sig, cx.port)) && contracts(sig, cx.layouts, cx.port, cx.layout)
}

/// Returns whether a port of a convolution is that of its data or its result.
pub(super) fn is_data_port(sig: &Signature, port: usize) -> bool {
    port == 0 || port == sig.n_operands
}

/// Returns whether a convolution takes a layout as a contraction, of pixels or of patches.
pub(super) fn contracts(
    sig: &Signature,
    layouts: &mut Layouts,
    port: usize,
    layout: LayoutId,
) -> bool {
    match sig.has_order(|rule| rule.patches) {
        true => contracts_patches(sig, layouts, port, layout),
        false => contracts_pixels(sig, layouts, port, layout),
    }
}

/// Adds the digits in the tile at the port. Forms of the operation are joined from such parts.
fn by_roles(cx: &mut RuleContext<'_>) {
    let parts = tiled::parts(cx.signature, cx.layouts, cx.port, cx.layout);
    cx.forms.extend(parts.map(Form::Tile));
}
