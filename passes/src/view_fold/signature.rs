//! Signatures: what the search knows of an operation, shared by all operations that look alike.
//!
//! A signature is the layout freedom an operation declares, the rule of the target for its family,
//! and the shapes at its ports. Which orders fit together is decided here, in terms of labels.

use super::layouts::{LayoutId, Layouts};
use super::maps::{FastMap, FastSet};
use optc_ir::entity::EntityId;
use optc_ir::entity_id;
use optc_ir::{Freedom, FreedomClass, Role};
use optc_layout::{Layout, Piece};
use optc_target::{Accept, Target};
use std::sync::Arc;

entity_id! {
    /// A signature.
    SignatureId, "s"
}

/// What the search knows of an operation.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Signature {
    /// The family, as the operation declares it.
    pub family: &'static str,
    /// The target's rule for the family.
    pub accept: Accept,
    /// The parameter of the rule: elements of a run or block.
    pub parameter: u64,
    /// The declared freedom.
    pub freedom: Freedom,
    /// Extents at each port, operands before results.
    pub shapes: Vec<Vec<u64>>,
    /// Element width in bits at each port.
    pub bits: Vec<u32>,
    /// How many of the ports are operands.
    pub n_operands: usize,
    /// Of a call and of what runs functions: the layout at each port, which is fixed; else empty.
    pub(crate) declared: Vec<LayoutId>,
    /// The port whose labels are most: the one a common order is spelled by.
    pub(crate) fullest: usize,
    /// The ports that have labels which the fullest port lacks: the operand of a gather, along its axis.
    pub(crate) besides: Vec<usize>,
    /// Of an operation of very many ports in one order, the port that hears of every order first and
    /// tells the others: the largest one.
    pub(crate) hub: Option<usize>,
    /// Of a contraction: the labels of K in the order that its operands have by default.
    pub reference_k: Vec<usize>,
}

/// One digit of an order in terms of labels: `count` values of `label / div`, on `extent` positions.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) struct LabelDigit {
    pub(crate) label: usize,
    pub(crate) div: u64,
    pub(crate) extent: u64,
}

/// An order of labels, major to minor.
pub(crate) type LabelOrder = Vec<LabelDigit>;

/// Interned signatures and their answered questions.
#[derive(Default)]
pub(crate) struct Signatures {
    known: FastSet<Arc<Signature>>,
    defaults: Vec<Vec<Option<LayoutId>>>,
    transfers: FastMap<(SignatureId, usize, LayoutId), Vec<(usize, LayoutId)>>,
    accepts: FastMap<(SignatureId, usize, LayoutId), bool>,
}

impl Signature {
    pub(crate) fn new(
        family: &'static str,
        freedom: Freedom,
        shapes: Vec<Vec<u64>>,
        bits: Vec<u32>,
        n_operands: usize,
        declared: Vec<LayoutId>,
        target: &Target,
    ) -> Signature {
        let row = target.row(family);
        let accept = match freedom.class {
            FreedomClass::Barrier => Accept::RowMajor,
            FreedomClass::Rearrange
            | FreedomClass::Ordered
            | FreedomClass::Contract
            | FreedomClass::Window
            | FreedomClass::Source => target.accept(family),
        };
        let parameter = row.and_then(|r| r.run.or(r.block)).unwrap_or(1);
        let mut signature = Signature {
            family,
            accept,
            parameter,
            freedom,
            shapes,
            bits,
            n_operands,
            declared,
            reference_k: Vec::new(),
            fullest: 0,
            besides: Vec::new(),
            hub: None,
        };
        signature.reference_k = signature.default_k();
        signature.fullest = fullest_port(&signature);
        signature.besides = besides(&signature);
        signature.hub = hub(&signature);
        signature
    }

    /// The order of K of the first operand that has it in one run in row-major, else of the first.
    fn default_k(&self) -> Vec<usize> {
        if self.freedom.class != FreedomClass::Contract {
            return Vec::new();
        }
        let is_k = |label: &usize| self.contract_role(*label) == ContractRole::K;
        let of = |port: usize| -> Vec<usize> {
            self.labels(port)
                .iter()
                .flatten()
                .copied()
                .filter(is_k)
                .collect()
        };
        let one_run = |port: &usize| {
            let dims = self.labels(*port).iter().zip(&self.shapes[*port]);
            let long: Vec<bool> = dims
                .filter(|(_, n)| 1 < **n)
                .map(|(label, _)| label.is_some_and(|l| is_k(&l)))
                .collect();
            long.windows(2).filter(|w| !w[0] && w[1]).count()
                + usize::from(long.first() == Some(&true))
                <= 1
        };
        let ports = 0..self.n_operands.min(2);
        ports
            .clone()
            .find(one_run)
            .or(ports.clone().next())
            .map_or_else(Vec::new, of)
    }

    /// The first port whose last dimension has an unknown size that the target pads, and to how
    /// many elements it does.
    pub(crate) fn padded_unknown(&self, layouts: &Layouts) -> Option<(usize, u64)> {
        let least = self.parameter;
        let known = |shape: &Vec<u64>| match (self.accept, shape.last()) {
            (Accept::MinRun, Some(&last)) => {
                !layouts.is_unknown(last) || layouts.is_at_least(last, least)
            }
            (Accept::LastBlock, Some(&last)) => {
                last.is_multiple_of(least) || !layouts.is_unknown(last)
            }
            _ => true,
        };
        let port = self.shapes.iter().position(|shape| !known(shape))?;
        Some((port, least))
    }

    /// The labels at a port, one a dimension.
    #[must_use]
    pub fn labels(&self, port: usize) -> &[Option<usize>] {
        let (operands, results) = (&self.freedom.operands, &self.freedom.results);
        let at = if port < self.n_operands {
            operands.get(port)
        } else {
            results.get(port - self.n_operands)
        };
        at.map_or(&[], Vec::as_slice)
    }

    /// The number of ports.
    #[must_use]
    pub fn n_ports(&self) -> usize {
        self.shapes.len()
    }

    fn has_label(&self, port: usize, label: usize) -> bool {
        self.labels(port).contains(&Some(label))
    }

    /// What a label is in a contraction.
    pub(crate) fn contract_role(&self, label: usize) -> ContractRole {
        let (a, b) = (self.has_label(0, label), self.has_label(1, label));
        let c = self.has_label(self.n_operands, label);
        match (a, b, c) {
            (true, true, true) => ContractRole::Batch,
            (true, true, false) => ContractRole::K,
            (true, false, _) => ContractRole::M,
            (false, true, _) => ContractRole::N,
            (false, false, _) => ContractRole::Other,
        }
    }

    /// Whether one order is shared by all ports (as against one rule a port).
    pub(crate) fn is_common_order(&self) -> bool {
        self.freedom.class == FreedomClass::Ordered
            && matches!(self.accept, Accept::CommonOrder | Accept::MinRun)
    }

    /// The groups of a convolution that only mixes channels, those of one group each: every kernel
    /// extent is 1 and the spatial extents stay. Nothing for any other operation.
    pub(crate) fn pointwise_groups(&self) -> Option<u64> {
        if self.freedom.class != FreedomClass::Window || self.n_operands < 2 {
            return None;
        }
        let result = self.n_operands;
        let kernel = self.shapes[1].get(2..)?;
        let spatial = |port: usize| -> Vec<u64> {
            let dims = self.labels(port).iter().zip(&self.shapes[port]);
            dims.filter(|(l, _)| self.is_role(**l, Role::Spatial))
                .map(|(_, &n)| n)
                .collect()
        };
        if kernel.iter().any(|&k| k != 1) || spatial(0) != spatial(result) {
            return None;
        }
        let second_of = |port: usize| Some((self.shapes[port].get(1)?, *self.labels(port).get(1)?));
        let ((&input, channel), (&output, label)) = (second_of(0)?, second_of(result)?);
        let (&inside, _) = second_of(1)?;
        let straight =
            self.labels(1).first() == Some(&label) && self.is_role(channel, Role::Channel);
        if !straight || inside == 0 || !input.is_multiple_of(inside) {
            return None;
        }
        let groups = input / inside;
        let whole = self.shapes[1][0] == output && groups != 0 && output.is_multiple_of(groups);
        whole.then_some(groups)
    }

    /// Whether this is a convolution that only mixes channels.
    pub(crate) fn is_pointwise_conv(&self) -> bool {
        self.pointwise_groups().is_some()
    }

    /// The digits of a pointwise convolution's data or result with each channel digit in one group or
    /// across groups; nothing where a digit is neither. `true` marks those across groups.
    fn grouped_digits(&self, port: usize, digits: &[Piece]) -> Option<Vec<(Piece, bool)>> {
        let groups = self.pointwise_groups()?;
        let inner = self.shapes[port].get(1)? / groups.max(1);
        let mut out = Vec::with_capacity(digits.len() + 1);
        for piece in digits {
            if piece.dim != 1 || groups == 1 {
                out.push((*piece, false));
                continue;
            }
            let end = piece.div.checked_mul(piece.extent)?;
            if inner <= piece.div {
                if !piece.div.is_multiple_of(inner) {
                    return None;
                }
                out.push((*piece, true));
            } else if end <= inner {
                if !inner.is_multiple_of(end) {
                    return None;
                }
                out.push((*piece, false));
            } else {
                if !inner.is_multiple_of(piece.div) || !end.is_multiple_of(inner) {
                    return None;
                }
                let (low, high) = (inner / piece.div, end / inner);
                let outer = Piece {
                    div: inner,
                    count: high,
                    extent: high,
                    ..*piece
                };
                let inside = Piece {
                    count: low,
                    extent: low,
                    ..*piece
                };
                out.extend([(outer, true), (inside, false)]);
            }
        }
        Some(out)
    }

    /// The digits of K in an order of labels at a port; inside a group those of the data count as the
    /// weights' label.
    pub(crate) fn k_digits(&self, port: usize, order: &[LabelDigit]) -> Vec<LabelDigit> {
        let is_k = |d: &&LabelDigit| self.contract_role(d.label) == ContractRole::K;
        let groups = self.pointwise_groups().unwrap_or(1);
        let (channel, label) = match (self.labels(0), self.labels(self.n_operands.min(1))) {
            ([_, Some(channel), ..], [_, label, ..]) if port == 0 && 1 < groups => {
                (*channel, *label)
            }
            _ => return order.iter().filter(is_k).copied().collect(),
        };
        let pieces: Vec<Piece> = order
            .iter()
            .filter(|d| d.label == channel)
            .map(|d| Piece {
                dim: 1,
                div: d.div,
                count: d.extent,
                extent: d.extent,
            })
            .collect();
        let inside = self.grouped_digits(port, &pieces).unwrap_or_default();
        let digit = |(p, across): &(Piece, bool)| {
            (!across && 1 < p.extent).then_some(LabelDigit {
                label: label?,
                div: p.div,
                extent: p.extent,
            })
        };
        inside.iter().filter_map(digit).collect()
    }

    fn is_role(&self, label: Option<usize>, role: Role) -> bool {
        label.is_some_and(|l| self.freedom.labels[l].role == role)
    }
}

/// Ports from which on orders go through one port instead of from each to each.
const MANY_PORTS: usize = 64;

/// What a label is in a contraction.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum ContractRole {
    Batch,
    M,
    N,
    K,
    Other,
}

impl Signatures {
    /// Answers about layouts of a function with unknown sizes do not hold for another.
    pub(crate) fn forget(&mut self) {
        self.transfers.clear();
        self.accepts.clear();
    }

    pub(crate) fn intern(&mut self, signature: Signature) -> SignatureId {
        SignatureId::from_index(self.known.insert_full(Arc::new(signature)).0)
    }

    pub(crate) fn get(&self, id: SignatureId) -> &Signature {
        &self.known[id.index()]
    }

    /// A signature, to keep without a copy of what it has of each port.
    pub(crate) fn shared(&self, id: SignatureId) -> Arc<Signature> {
        self.known[id.index()].clone()
    }

    pub(crate) fn len(&self) -> usize {
        self.known.len()
    }

    /// [`default_layout`], asked once a signature and port.
    pub(crate) fn default_at(
        &mut self,
        layouts: &mut Layouts,
        id: SignatureId,
        port: usize,
    ) -> LayoutId {
        if self.defaults.len() <= id.index() {
            self.defaults.resize(id.index() + 1, Vec::new());
        }
        let known = &mut self.defaults[id.index()];
        if known.len() <= port {
            known.resize(port + 1, None);
        }
        let sig = &self.known[id.index()];
        *known[port].get_or_insert_with(|| default_layout(sig, layouts, port))
    }

    /// Whether the target lets the operation read or write this layout at this port, the other
    /// ports left aside.
    pub(crate) fn accepts(
        &mut self,
        layouts: &mut Layouts,
        id: SignatureId,
        port: usize,
        layout: LayoutId,
    ) -> bool {
        if let Some(&known) = self.accepts.get(&(id, port, layout)) {
            return known;
        }
        let answer = accepts_layout(self.get(id), layouts, port, layout);
        self.accepts.insert((id, port, layout), answer);
        answer
    }

    /// Layouts at other ports that go well with this layout at this port.
    pub(crate) fn transfers(
        &mut self,
        layouts: &mut Layouts,
        id: SignatureId,
        port: usize,
        layout: LayoutId,
    ) -> Vec<(usize, LayoutId)> {
        if let Some(known) = self.transfers.get(&(id, port, layout)) {
            return known.clone();
        }
        let answer = if self.accepts(layouts, id, port, layout) {
            transfers(self.get(id), layouts, port, layout)
        } else {
            Vec::new()
        };
        self.transfers.insert((id, port, layout), answer.clone());
        answer
    }
}

/// The layout a value has where nothing is chosen: what naive lowering uses at this port.
pub(crate) fn default_layout(sig: &Signature, layouts: &mut Layouts, port: usize) -> LayoutId {
    if let Some(&layout) = sig.declared.get(port) {
        return layout;
    }
    if sig.accept == Accept::ContractRuns
        && let Some(order) = contract_default(sig, port)
    {
        return layouts.ordered(&sig.shapes[port], sig.bits[port], &order);
    }
    let (shape, bits) = (&sig.shapes[port], sig.bits[port]);
    let wanted = match sig.accept {
        Accept::MinRun | Accept::LastBlock => sig.parameter,
        Accept::RowMajor
        | Accept::CommonOrder
        | Accept::ContractRuns
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
    let mut pieces: Vec<Piece> = Vec::new();
    for (dim, &count) in shape.iter().enumerate() {
        let is_last = dim + 1 == shape.len();
        let extent = if is_last {
            count.div_ceil(wanted).saturating_mul(wanted)
        } else {
            count
        };
        if 1 < extent {
            pieces.push(Piece {
                dim,
                div: 1,
                count,
                extent,
            });
        }
    }
    match Layout::from_pieces(shape, bits, &pieces) {
        Ok(layout) => layouts.intern(layout),
        Err(_) => layouts.row_major(shape, bits),
    }
}

/// The order of a contraction's port by default, where row-major is none that the kernel takes:
/// batch, then M and N, then K in one run in the order of [`reference_k`].
fn contract_default(sig: &Signature, port: usize) -> Option<Vec<usize>> {
    let labels = sig.labels(port);
    let role = |dim: usize| labels[dim].map_or(ContractRole::Other, |l| sig.contract_role(l));
    let long: Vec<usize> = (0..labels.len())
        .filter(|&d| sig.shapes[port].get(d).is_some_and(|&n| 1 < n))
        .collect();
    let k: Vec<usize> = long
        .iter()
        .copied()
        .filter(|&d| role(d) == ContractRole::K)
        .collect();
    let place = |dim: &usize| {
        sig.reference_k
            .iter()
            .position(|l| labels[*dim] == Some(*l))
    };
    let in_order = k.windows(2).all(|w| place(&w[0]) < place(&w[1]));
    let one_run = long
        .iter()
        .skip_while(|d| role(**d) != ContractRole::K)
        .take_while(|d| role(**d) == ContractRole::K)
        .count()
        == k.len();
    let ends_in_batch = long.last().is_some_and(|&d| role(d) == ContractRole::Batch)
        && long.iter().any(|&d| role(d) != ContractRole::Batch);
    if in_order && one_run && !ends_in_batch {
        return None;
    }
    let mut order: Vec<usize> = (0..labels.len()).collect();
    order.sort_by_key(|&dim| match role(dim) {
        ContractRole::Batch => (0, 0),
        ContractRole::M | ContractRole::N | ContractRole::Other => (1, 0),
        ContractRole::K => (2, place(&dim).unwrap_or(0)),
    });
    Some(order)
}

pub(crate) fn accepts_layout(
    sig: &Signature,
    layouts: &mut Layouts,
    port: usize,
    layout: LayoutId,
) -> bool {
    if layout == default_layout(sig, layouts, port) {
        return true;
    }
    let Some(pieces) = layouts.pieces(layout) else {
        return false;
    };
    match sig.accept {
        Accept::RowMajor => false,
        Accept::Any => true,
        Accept::CommonOrder => is_unpadded(&pieces),
        Accept::ContractRuns => is_unpadded(&pieces) && accepts_contract(sig, port, &pieces),
        Accept::ChannelOrders => {
            channel_orders(sig, layouts, port).contains(&layout)
                || (sig.is_pointwise_conv()
                    && is_unpadded(&pieces)
                    && accepts_pointwise(sig, port, &pieces))
        }
        Accept::MinRun => pieces
            .last()
            .is_some_and(|p| p.div == 1 && layouts.is_at_least(p.extent, sig.parameter)),
        Accept::LastBlock => accepts_last_block(sig, port, &pieces),
    }
}

pub(crate) fn is_unpadded(pieces: &[Piece]) -> bool {
    pieces.iter().all(|p| p.extent == p.count)
}

/// M, N and batch in any digits, K in one run, batch not innermost.
pub(crate) fn accepts_contract(sig: &Signature, port: usize, pieces: &[Piece]) -> bool {
    let labels = sig.labels(port);
    let role = |p: &Piece| labels[p.dim].map_or(ContractRole::Other, |l| sig.contract_role(l));
    let long: Vec<ContractRole> = pieces.iter().filter(|p| 1 < p.count).map(role).collect();
    if long.last() == Some(&ContractRole::Batch) && long.iter().any(|r| *r != ContractRole::Batch) {
        return false;
    }
    let first = long.iter().position(|r| *r == ContractRole::K);
    let last = long.iter().rposition(|r| *r == ContractRole::K);
    match (first, last) {
        (Some(a), Some(b)) => long[a..=b].iter().all(|r| *r == ContractRole::K),
        _ => true,
    }
}

/// A pointwise convolution contracts the channels of a group: they are one run, batch and spatial
/// are M, the groups are a batch and not innermost.
pub(crate) fn accepts_pointwise(sig: &Signature, port: usize, pieces: &[Piece]) -> bool {
    if port != 0 && port != sig.n_operands {
        return true;
    }
    let Some(digits) = sig.grouped_digits(port, pieces) else {
        return false;
    };
    let long: Vec<&(Piece, bool)> = digits.iter().filter(|(p, _)| 1 < p.extent).collect();
    let ends_in_groups = long.last().is_some_and(|(_, across)| *across);
    if ends_in_groups && long.iter().any(|(_, across)| !across) {
        return false;
    }
    if port != 0 {
        return true;
    }
    let is_k = |(p, across): &&(Piece, bool)| p.dim == 1 && !across;
    let first = long.iter().position(is_k);
    let last = long.iter().rposition(is_k);
    match (first, last) {
        (Some(a), Some(b)) => long[a..=b].iter().all(is_k),
        _ => true,
    }
}

/// Other dimensions whole, in any order; the last one in blocks, a block innermost.
fn accepts_last_block(sig: &Signature, port: usize, pieces: &[Piece]) -> bool {
    let shape = &sig.shapes[port];
    let Some(last_dim) = shape.len().checked_sub(1) else {
        return true;
    };
    let Some(inner) = pieces.last() else {
        return false;
    };
    if inner.dim != last_dim || inner.div != 1 || !inner.extent.is_multiple_of(sig.parameter) {
        return false;
    }
    let outer = &pieces[..pieces.len() - 1];
    let mut seen = vec![false; shape.len()];
    outer.iter().all(|p| {
        let fresh = !std::mem::replace(&mut seen[p.dim], true);
        let whole = p.dim == last_dim || (p.div == 1 && p.extent == shape[p.dim]);
        let cut = p.dim != last_dim || inner.extent == sig.parameter;
        fresh && whole && cut
    })
}

/// The layouts of a window operation's port: channels before spatial, or after.
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
        Ok(layout) => vec![first, layouts.intern(layout)],
        Err(_) => vec![first],
    }
}

/// The order of labels that a layout at a port spells, if it is one.
pub(crate) fn label_order(
    sig: &Signature,
    layouts: &mut Layouts,
    port: usize,
    layout: LayoutId,
) -> Option<LabelOrder> {
    let labels = sig.labels(port);
    let pieces = layouts.pieces(layout)?;
    let digit = |p: &Piece| {
        let label = labels.get(p.dim).copied().flatten()?;
        Some(LabelDigit {
            label,
            div: p.div,
            extent: p.extent,
        })
    };
    let shape = &sig.shapes[port];
    let long = |p: &&Piece| 1 < p.extent && (1 < shape[p.dim] || labels[p.dim].is_some());
    pieces.iter().filter(long).map(digit).collect()
}

/// The layout at a port that follows an order of labels: what the port lacks drops out.
pub(crate) fn restrict(
    sig: &Signature,
    layouts: &mut Layouts,
    port: usize,
    order: &[LabelDigit],
    source: usize,
) -> Option<LayoutId> {
    let (labels, shape) = (sig.labels(port), &sig.shapes[port]);
    let mut pieces: Vec<Piece> = Vec::with_capacity(order.len());
    let mut covered = vec![false; shape.len()];
    for (at, digit) in order.iter().enumerate() {
        let Some(dim) = labels.iter().position(|l| *l == Some(digit.label)) else {
            continue;
        };
        let size = shape[dim];
        let granule = sig.freedom.labels[digit.label].granule;
        let from = extent_of(sig, source, digit.label).unwrap_or(size);
        let outermost = is_outermost(order, at);
        if from != size && digit.div != 1 && (granule == 0 || !granule.is_multiple_of(digit.div)) {
            return None;
        }
        covered[dim] = true;
        let whole = if from == size {
            None
        } else {
            Some(size.div_ceil(digit.div))
        };
        let (count, extent) = match (outermost, whole) {
            (true, Some(count)) => (count, count),
            (false, Some(_)) => (digit.extent.min(size), digit.extent),
            (_, None) => {
                let upper = size.div_ceil(digit.div);
                (upper.min(digit.extent), digit.extent)
            }
        };
        if 1 < extent {
            pieces.push(Piece {
                dim,
                div: digit.div,
                count,
                extent,
            });
        }
    }
    let complete = (0..shape.len()).all(|d| covered[d] || shape[d] == 1);
    if !complete {
        return None;
    }
    if from_differs_with_inner_cut(sig, port, source, order) {
        return None;
    }
    Layout::from_pieces(shape, sig.bits[port], &pieces)
        .ok()
        .map(|l| layouts.intern(l))
}

fn extent_of(sig: &Signature, port: usize, label: usize) -> Option<u64> {
    let dim = sig.labels(port).iter().position(|l| *l == Some(label))?;
    Some(sig.shapes[port][dim])
}

fn is_outermost(order: &[LabelDigit], at: usize) -> bool {
    order
        .iter()
        .all(|d| d.label != order[at].label || d.div <= order[at].div)
}

/// Whether a cut label has another extent at the two ports while the smaller one ends inside a cut.
fn from_differs_with_inner_cut(
    sig: &Signature,
    port: usize,
    source: usize,
    order: &[LabelDigit],
) -> bool {
    order.iter().any(|d| {
        let (a, b) = (
            extent_of(sig, port, d.label),
            extent_of(sig, source, d.label),
        );
        match (a, b) {
            (Some(a), Some(b)) if a != b => !a.is_multiple_of(d.div) || !b.is_multiple_of(d.div),
            _ => false,
        }
    })
}

/// All labels of the operation in an order: those of the fullest port that `order` lacks, and those that
/// only other ports have (the axis of a gather), put beside their logical neighbour, innermost, or
/// outermost.
pub(crate) fn extend(sig: &Signature, order: &LabelOrder) -> Vec<LabelOrder> {
    let mut all = with_labels_of(sig, order, sig.fullest);
    for &port in &sig.besides {
        let mut longer: Vec<LabelOrder> = Vec::new();
        for known in &all {
            for option in with_labels_of(sig, known, port) {
                if !longer.contains(&option) {
                    longer.push(option);
                }
            }
        }
        all = longer;
    }
    all
}

/// The labels of a port that an order lacks.
fn lacking(sig: &Signature, order: &[LabelDigit], port: usize) -> Vec<LabelDigit> {
    let dims = sig.labels(port).iter().zip(&sig.shapes[port]);
    dims.filter_map(|(label, &n)| {
        let label = (*label)?;
        let known = order.iter().any(|d| d.label == label);
        (1 < n && !known).then_some(LabelDigit {
            label,
            div: 1,
            extent: n,
        })
    })
    .collect()
}

/// An order with the labels of a port that it lacks beside their logical neighbour there, innermost,
/// and outermost.
fn with_labels_of(sig: &Signature, order: &LabelOrder, port: usize) -> Vec<LabelOrder> {
    let missing = lacking(sig, order, port);
    if missing.is_empty() {
        return vec![order.clone()];
    }
    let mut beside = order.clone();
    for digit in &missing {
        let labels = sig.labels(port);
        let at = labels
            .iter()
            .position(|l| *l == Some(digit.label))
            .unwrap_or(0);
        let before = labels[..at].iter().rev().flatten();
        let neighbour = before
            .copied()
            .find_map(|l| beside.iter().rposition(|d| d.label == l));
        beside.insert(neighbour.map_or(0, |n| n + 1), *digit);
    }
    let inner: LabelOrder = order.iter().chain(&missing).copied().collect();
    let outer: LabelOrder = missing.iter().chain(order).copied().collect();
    let mut all = vec![beside];
    for option in [inner, outer] {
        if !all.contains(&option) {
            all.push(option);
        }
    }
    all
}

/// The port whose labels are most: the one a common order is spelled by.
fn fullest_port(sig: &Signature) -> usize {
    let long = |port: usize| {
        let dims = sig.labels(port).iter().zip(&sig.shapes[port]);
        dims.filter(|(l, n)| l.is_some() && 1 < **n).count()
    };
    let result = sig.n_operands.min(sig.n_ports().saturating_sub(1));
    (0..sig.n_ports()).fold(
        result,
        |best, port| if long(best) < long(port) { port } else { best },
    )
}

/// The ports that have labels which the fullest port lacks.
fn besides(sig: &Signature) -> Vec<usize> {
    let known: FastSet<usize> = sig.labels(sig.fullest).iter().flatten().copied().collect();
    let lacks = |&port: &usize| {
        let mut dims = sig.labels(port).iter().zip(&sig.shapes[port]);
        dims.any(|(l, &n)| 1 < n && l.is_some_and(|l| !known.contains(&l)))
    };
    (0..sig.n_ports()).filter(lacks).collect()
}

fn hub(sig: &Signature) -> Option<usize> {
    if sig.n_ports() <= MANY_PORTS || !sig.is_common_order() {
        return None;
    }
    let elements = |port: &usize| {
        let sizes = sig.shapes[*port].iter();
        sizes.fold(1u64, |n, &d| n.saturating_mul(d))
    };
    (0..sig.n_ports()).rev().max_by_key(elements)
}

fn transfers(
    sig: &Signature,
    layouts: &mut Layouts,
    port: usize,
    layout: LayoutId,
) -> Vec<(usize, LayoutId)> {
    match sig.accept {
        Accept::CommonOrder | Accept::MinRun if sig.is_common_order() => {
            ordered_transfers(sig, layouts, port, layout)
        }
        Accept::ContractRuns => contract_transfers(sig, layouts, port, layout),
        Accept::ChannelOrders => channel_transfers(sig, layouts, port, layout),
        Accept::LastBlock
        | Accept::CommonOrder
        | Accept::MinRun
        | Accept::RowMajor
        | Accept::Any => Vec::new(),
    }
}

/// The orders of all labels that agree with this layout at this port.
pub(crate) fn common_orders(
    sig: &Signature,
    layouts: &mut Layouts,
    port: usize,
    layout: LayoutId,
) -> Vec<LabelOrder> {
    let full = sig.fullest;
    let Some(order) = label_order(sig, layouts, port, layout) else {
        return Vec::new();
    };
    let lacks = missing_labels(sig, port, full);
    let is_broadcast_operand =
        port < sig.n_operands && !matches!(sig.family, "broadcast" | "gather");
    if 0 < lacks && is_broadcast_operand {
        return Vec::new();
    }
    extend(sig, &order)
}

fn missing_labels(sig: &Signature, port: usize, full: usize) -> usize {
    let dims = sig.labels(full).iter().zip(&sig.shapes[full]);
    dims.filter(|(l, n)| l.is_some_and(|l| !sig.has_label(port, l)) && 1 < **n)
        .count()
}

fn ordered_transfers(
    sig: &Signature,
    layouts: &mut Layouts,
    port: usize,
    layout: LayoutId,
) -> Vec<(usize, LayoutId)> {
    let others = match sig.hub {
        Some(hub) if hub != port => hub..hub + 1,
        _ => 0..sig.n_ports(),
    };
    let mut out = FastSet::default();
    for order in common_orders(sig, layouts, port, layout) {
        for other in others.clone().filter(|&o| o != port) {
            if let Some(l) = restrict(sig, layouts, other, &order, port) {
                out.insert((other, l));
            }
        }
    }
    out.into_iter().collect()
}

/// From an operand of a contraction to the result, from the result to the operands, and the order
/// of K from one operand to the other.
fn contract_transfers(
    sig: &Signature,
    layouts: &mut Layouts,
    port: usize,
    layout: LayoutId,
) -> Vec<(usize, LayoutId)> {
    let Some(order) = label_order(sig, layouts, port, layout) else {
        return Vec::new();
    };
    let mut out = Vec::new();
    for other in (0..sig.n_ports().min(3)).filter(|&o| o != port) {
        for full in splice(sig, &order, other) {
            if let Some(l) = restrict(sig, layouts, other, &full, port)
                && !out.contains(&(other, l))
            {
                out.push((other, l));
            }
        }
    }
    out
}

/// `order` restricted to the labels of `other`, its missing labels as one run: in the place of what
/// drops out, innermost, and outermost.
fn splice(sig: &Signature, order: &LabelOrder, other: usize) -> Vec<LabelOrder> {
    let labels = sig.labels(other);
    let run: LabelOrder = labels
        .iter()
        .zip(&sig.shapes[other])
        .filter_map(|(l, &n)| {
            let label = (*l)?;
            let known = order.iter().any(|d| d.label == label);
            (!known && 1 < n).then_some(LabelDigit {
                label,
                div: 1,
                extent: n,
            })
        })
        .collect();
    let keeps = |d: &&LabelDigit| labels.contains(&Some(d.label));
    let kept: LabelOrder = order.iter().filter(keeps).copied().collect();
    let gap = order.iter().position(|d| !labels.contains(&Some(d.label)));
    let before = gap.map_or(kept.len(), |g| order[..g].iter().filter(keeps).count());
    let mut all: Vec<LabelOrder> = Vec::new();
    for at in [before, kept.len(), 0] {
        let mut option = kept.clone();
        option.splice(at..at, run.iter().copied());
        if !all.contains(&option) {
            all.push(option);
        }
    }
    all
}

fn channel_transfers(
    sig: &Signature,
    layouts: &mut Layouts,
    port: usize,
    layout: LayoutId,
) -> Vec<(usize, LayoutId)> {
    let mine = channel_orders(sig, layouts, port);
    let Some(style) = mine.iter().position(|&l| l == layout) else {
        return Vec::new();
    };
    let mut out = Vec::new();
    for other in (0..sig.n_ports()).filter(|&o| o != port) {
        if let Some(&l) = channel_orders(sig, layouts, other).get(style) {
            out.push((other, l));
        }
    }
    out
}
