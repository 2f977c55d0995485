//! The built-in rules of the search. Each is declared in one place, its equation beside its code.
//!
//! Example: `softmax-any-order` turns a transpose behind a softmax into one in front of it: `convert(softmax(x), o) =
//! softmax(convert(x, o))`.

use super::accepts::{
    accepts_layout, accepts_pointwise, channel_orders, default_layout, is_unpadded, takes_layout,
};
use super::label_order::label_order;
use super::layouts::{LayoutId, Layouts};
use super::matrices;
use super::orders::common_orders;
use super::physical::{Physical, Place};
use super::restrict::Restricted;
use super::rule::{Form, RuleContext, SearchRule};
use super::signature::{ContractRole, LabelDigit, Signature};
use super::tiled;
use crate::pass::RuleInfo;
use optc_ir::LaidPort;
use optc_layout::{Digit, Mode};
use optc_target::Accept;

/// A built-in rule: its equation and its code.
#[derive(Clone, Copy)]
pub(super) struct Builtin {
    name: &'static str,
    equation: &'static str,
    summary: &'static str,
    /// The operations and ports that the rule is about.
    concerns: fn(&Signature, usize) -> bool,
    apply: fn(&mut RuleContext<'_>),
}

impl SearchRule for Builtin {
    fn name(&self) -> &str {
        self.name
    }
    fn equation(&self) -> &str {
        self.equation
    }
    fn summary(&self) -> &str {
        self.summary
    }
    fn concerns(&self, signature: &Signature, port: usize) -> bool {
        (self.concerns)(signature, port)
    }
    fn apply(&self, cx: &mut RuleContext<'_>) {
        (self.apply)(cx);
    }
}

/// The rule that constants are written in any layout. It acts on storage groups, not on forms.
pub(super) const CONSTANT_ANY_LAYOUT: RuleInfo<'static> = RuleInfo {
    name: "constant-any-layout",
    equation: "convert(constant, o) = constant written in o",
    summary: "a constant is written in the layout that its readers want, at compile time",
};

/// The rule that cheap values are computed once for each order. It acts on the program, once its layouts are chosen.
pub(super) const COMPUTE_TWICE: RuleInfo<'static> = RuleInfo {
    name: "compute-twice",
    equation: "convert(ew(x, y), o) = ew(convert(x, o), convert(y, o)), beside ew(x, y)",
    summary: "what an element-wise operation or a broadcast gives is computed again in another order, where that converts fewer bytes",
};

/// The rules about operations, in the order in which they are tried.
pub(super) const BUILTIN: &[Builtin] = &[
    Builtin {
        name: "elementwise-any-order",
        equation: "convert(ew(x, y), o) = ew(convert(x, o), convert(y, o))",
        summary: "element-wise work is done in any order that all operands share",
        concerns: |sig, port| {
            let own = FAMILIES.contains(&sig.family) || WINDOWS.contains(&sig.family);
            common(sig, port) && !own
        },
        apply: common_order,
    },
    Builtin {
        name: "softmax-any-order",
        equation: "convert(softmax(x), o) = softmax(convert(x, o))",
        summary: "a softmax runs along its axis wherever that lies",
        concerns: |sig, port| common(sig, port) && sig.family == SOFTMAX,
        apply: common_order,
    },
    Builtin {
        name: "norm-any-order",
        equation: "convert(norm(x, s), o) = norm(convert(x, o), convert(s, o))",
        summary: "a normalization runs along its axes wherever they lie",
        concerns: |sig, port| common(sig, port) && sig.family == NORM,
        apply: common_order,
    },
    Builtin {
        name: "reduce-any-order",
        equation: "reduce(convert(x, o)) = convert(reduce(x), o without the reduced digits)",
        summary: "a reduction leaves the order of what it keeps",
        concerns: |sig, port| common(sig, port) && sig.family == REDUCE,
        apply: common_order,
    },
    Builtin {
        name: "concat-any-order",
        equation: "convert(concat(x, y), o) = concat(convert(x, o), convert(y, o))",
        summary: "parts in one order are joined in that order",
        concerns: |sig, port| common(sig, port) && sig.family == CONCAT,
        apply: common_order,
    },
    Builtin {
        name: "slice-any-order",
        equation: "slice(convert(x, o)) = convert(slice(x), o)",
        summary: "a part has the order of the whole",
        concerns: |sig, port| common(sig, port) && sig.family == SLICE,
        apply: common_order,
    },
    Builtin {
        name: "broadcast-any-order",
        equation: "convert(broadcast(x), o) = broadcast(convert(x, o restricted))",
        summary: "a broadcast reads what it has of the order it writes",
        concerns: |sig, port| common(sig, port) && sig.family == BROADCAST,
        apply: common_order,
    },
    Builtin {
        name: "gather-any-order",
        equation: "convert(gather(x, i), o) = gather(convert(x, o), convert(i, o))",
        summary: "a gather leaves the order of what it does not index",
        concerns: |sig, port| common(sig, port) && sig.family == GATHER,
        apply: common_order,
    },
    Builtin {
        name: "window-any-order",
        equation: "convert(window(x), o) = window(convert(x, o))",
        summary: "a window without weights slides along its dimensions wherever they lie",
        concerns: |sig, port| common(sig, port) && WINDOWS.contains(&sig.family),
        apply: common_order,
    },
    Builtin {
        name: "operator-any-order",
        equation: "convert(operator(x, p), o) = operator(convert(x, o), p)",
        summary: "an operator that stays opaque has the order of what it works on; what it is told to do has none",
        concerns: |sig, port| common(sig, port) && sig.family == OPERATOR,
        apply: common_order,
    },
    Builtin {
        name: "matmul-batch-anywhere",
        equation: "matmul(convert(a, batch moved), b) = matmul(a, b)",
        summary: "a contraction is repeated over its batch in any order",
        concerns: is_contraction,
        apply: |cx| contraction(cx, Departure::Batch),
    },
    Builtin {
        name: "matmul-transposed",
        equation: "convert(matmul(a, b), transposed) = matmul(transpose(b), transpose(a))",
        summary: "a contraction writes its transpose when its operands change places",
        concerns: is_contraction,
        apply: |cx| contraction(cx, Departure::Transposed),
    },
    Builtin {
        name: "matmul-permuted-k",
        equation: "matmul(convert(a, k permuted), b) = matmul(a, convert(b, k permuted))",
        summary: "a contraction sums in any order that both operands share",
        concerns: is_contraction,
        apply: |cx| contraction(cx, Departure::PermutedK),
    },
    Builtin {
        name: "matmul-of-matrices",
        equation: "convert(matmul(a, b), batch·mn) = matmul(convert(a, batch·mk), convert(b, batch·kn))",
        summary: "what stands before the matrices of a contraction is a batch, whichever operand has it",
        concerns: |sig, _| !sig.is_tiled() && sig.accept == Accept::Matrices,
        apply: |cx| {
            let found = matrices::forms(cx.signature, cx.layouts, (cx.port, cx.layout), false);
            cx.forms.extend(found.into_iter().map(Form::Exact));
        },
    },
    Builtin {
        name: "window-channels-last",
        equation: "convert(window(x, w), nhwc) = window_nhwc(convert(x, nhwc), convert(w, ohwi))",
        summary: "a convolution or a pool has its channels last at all ports, or first",
        concerns: |sig, _| !sig.is_tiled() && sig.accept == Accept::ChannelOrders,
        apply: channels_last,
    },
    Builtin {
        name: "conv1x1-as-matmul",
        equation: "conv_1x1(x, w) = matmul(pixels(x), w)",
        summary: "a convolution that mixes channels alone is a contraction of each pixel",
        concerns: |sig, port| {
            !sig.is_tiled()
                && sig.accept == Accept::ChannelOrders
                && sig.is_pointwise_conv()
                && (port == 1 || is_data_port(sig, port))
        },
        apply: pointwise,
    },
    Builtin {
        name: "patches-as-matmul",
        equation: "convert(conv(x, w), order) = matmul(patches(x), w)",
        summary: "a convolution that reads each position of its data once is a contraction that reads them in runs and writes its result in any order",
        concerns: |sig, port| sig.patches && (port == 1 || is_data_port(sig, port)),
        apply: |cx| {
            if contracts(cx.signature, cx.layouts, cx.port, cx.layout) {
                cx.forms.push(Form::Member(Vec::new()));
            }
        },
    },
    Builtin {
        name: "tile-by-roles",
        equation: "op(convert(x, tile), convert(y, tile)) = convert(op(x, y), tile)",
        summary: "an operation takes any two of the roles that its row lists in rows and lanes, alike at all ports that have them",
        concerns: |sig, _| sig.takes_roles(),
        apply: by_roles,
    },
    Builtin {
        name: "block-grid-any-order",
        equation: "tensor_op(convert(x, grid order)) = tensor_op(x)",
        summary: "an operation on blocks reads them in any order",
        concerns: |sig, _| !sig.is_tiled() && sig.accept == Accept::LastBlock,
        apply: blocks,
    },
];

const SOFTMAX: &str = "softmax";
const NORM: &str = "norm";
const REDUCE: &str = "reduce";
const CONCAT: &str = "concat";
const SLICE: &str = "slice";
const BROADCAST: &str = "broadcast";
const GATHER: &str = "gather";
const OPERATOR: &str = "operator";

/// Families of windows that have no weights.
const WINDOWS: &[&str] = &["pool", "resize"];

/// Families whose common orders have a rule of their own.
const FAMILIES: &[&str] = &[
    SOFTMAX, NORM, REDUCE, CONCAT, SLICE, BROADCAST, GATHER, OPERATOR,
];

/// The built-in rules, in the order in which they are tried.
#[must_use]
pub fn builtin_rules() -> Vec<RuleInfo<'static>> {
    let info = |rule: &'static Builtin| RuleInfo {
        name: rule.name,
        equation: rule.equation,
        summary: rule.summary,
    };
    BUILTIN
        .iter()
        .map(info)
        .chain([CONSTANT_ANY_LAYOUT, COMPUTE_TWICE])
        .collect()
}

/// Returns whether an operation has one order for all ports, and this port receives orders.
fn common(sig: &Signature, port: usize) -> bool {
    sig.is_common_order() && sig.hub.is_none_or(|hub| hub == port)
}

fn is_contraction(sig: &Signature, port: usize) -> bool {
    !sig.is_tiled() && sig.accept == Accept::ContractRuns && port <= 2
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

fn common_order(cx: &mut RuleContext<'_>) {
    let sig = cx.signature;
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
            None if sig.accept == Accept::MinRun && !sig.is_tiled() && broadcast() => {
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

/// Returns whether an operation takes these layouts, one a port, on a target where values are row-major.
fn is_over_axes(sig: &Signature, layouts: &mut Layouts, form: &[LayoutId]) -> bool {
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
    let dims = sig.labels(port).iter().zip(&sig.shapes[port]);
    let mut all: Vec<(usize, u64)> = dims
        .filter_map(|(label, &n)| Some(((*label)?, n)))
        .filter(|(_, n)| 1 < *n)
        .collect();
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
            let mut placed = Physical {
                digits: form.digits.clone(),
                stated: None,
            };
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

/// Adds the form of a layout that departs from the default in this way, with its order of K.
fn contraction(cx: &mut RuleContext<'_>, departure: Departure) {
    let sig = cx.signature;
    let Some(order) = label_order(sig, cx.layouts, cx.port, cx.layout) else {
        return;
    };
    if !accepts_layout(sig, cx.layouts, cx.port, cx.layout) {
        return;
    }
    let logical = default_layout(sig, cx.layouts, cx.port);
    let Some(logical) = label_order(sig, cx.layouts, cx.port, logical) else {
        return;
    };
    let of = |order: &[LabelDigit], roles: &[ContractRole]| -> Vec<LabelDigit> {
        let wanted = |d: &&LabelDigit| roles.contains(&sig.contract_role(d.label));
        order.iter().filter(wanted).copied().collect()
    };
    let k = of(&order, &[ContractRole::K]);
    let others = [ContractRole::M, ContractRole::N, ContractRole::K];
    let needs = if natural_k(sig, &k) && of(&order, &others) == of(&logical, &others) {
        Departure::Batch
    } else if natural_k(sig, &k) {
        Departure::Transposed
    } else {
        Departure::PermutedK
    };
    if needs == departure {
        cx.forms.push(Form::Member(if natural_k(sig, &k) {
            Vec::new()
        } else {
            k
        }));
    }
}

/// Returns whether K's digits are in the order that the operands have by default, each label whole.
fn natural_k(sig: &Signature, k: &[LabelDigit]) -> bool {
    let place = |d: &LabelDigit| sig.reference_k.iter().position(|l| *l == d.label);
    k.windows(2).all(|w| place(&w[0]) < place(&w[1])) && k.iter().all(|d| d.div == 1)
}

fn channels_last(cx: &mut RuleContext<'_>) {
    let sig = cx.signature;
    let last = |layouts: &mut Layouts, port| channel_orders(sig, layouts, port).last().copied();
    if last(cx.layouts, cx.port) != Some(cx.layout) {
        return;
    }
    let form: Option<Vec<LayoutId>> = (0..sig.n_ports()).map(|p| last(cx.layouts, p)).collect();
    cx.forms.extend(form.map(Form::Exact));
}

fn pointwise(cx: &mut RuleContext<'_>) {
    let sig = cx.signature;
    if !contracts_pixels(sig, cx.layouts, cx.port, cx.layout) {
        return;
    }
    let Some(order) = label_order(sig, cx.layouts, cx.port, cx.layout) else {
        return;
    };
    let k = sig.k_digits(cx.port, &order);
    cx.forms.push(Form::Member(if natural_k(sig, &k) {
        Vec::new()
    } else {
        k
    }));
}

/// Returns whether a port of a convolution is that of its data or its result.
pub(super) fn is_data_port(sig: &Signature, port: usize) -> bool {
    port == 0 || port == sig.n_operands
}

/// Returns whether a pointwise convolution takes a layout as a contraction. The convolution itself takes channels last,
/// even where groups are innermost, but only if all other ports have channels last as well.
pub(super) fn contracts_pixels(
    sig: &Signature,
    layouts: &mut Layouts,
    port: usize,
    layout: LayoutId,
) -> bool {
    let modes = layouts.modes(layout);
    modes.is_some_and(|p| is_unpadded(&p) && accepts_pointwise(sig, port, &p))
}

/// Returns whether a convolution takes a layout as a contraction, of pixels or of patches.
pub(super) fn contracts(
    sig: &Signature,
    layouts: &mut Layouts,
    port: usize,
    layout: LayoutId,
) -> bool {
    match sig.patches {
        true => takes_layout(sig, layouts, port, layout),
        false => contracts_pixels(sig, layouts, port, layout),
    }
}

/// Adds the digits in the tile at the port. Forms of the operation are joined from such parts.
fn by_roles(cx: &mut RuleContext<'_>) {
    let parts = tiled::parts(cx.signature, cx.layouts, cx.port, cx.layout);
    cx.forms.extend(parts.map(Form::Tile));
}

fn blocks(cx: &mut RuleContext<'_>) {
    let sig = cx.signature;
    if accepts_layout(sig, cx.layouts, cx.port, cx.layout) {
        cx.forms.push(Form::Member(Vec::new()));
    }
}
