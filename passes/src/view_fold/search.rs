//! The search: candidate layouts of each storage group, and forms of each operation in terms of candidates.
//!
//! Example: the boundary demands row-major at a result. The relu that produces it hands the demand on to its operand, a
//! transpose of a matmul's result. The group of the matmul thus gets the candidate that is row-major behind the
//! transpose.

use super::bound;
use super::groups::{Graph, Group, GroupData, Node, NodeData, NodeKind};
use super::layouts::{LayoutId, Layouts, MapId};
use super::maps::{FastMap, FastSet};
use super::price;
use super::rows::channel_orders;
use super::saturate::{Forms, Mode, ModeKey, RuleSet};
use super::signature::SignatureId;
use super::signatures::Signatures;
use super::ties;
use optc_check::amount::Amount;
use optc_ir::Value;
use optc_ir::entity::SideTable;
use optc_ir::size::{Size, SizeTable};
use std::collections::{BTreeSet, VecDeque};
use std::rc::Rc;
use std::sync::Arc;

/// The most layouts that a mask can hold. A larger `max-layouts` means this number.
pub(crate) const MASK_BITS: usize = 64;

/// The demand of a form at one port.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) struct Need {
    /// The acceptable layouts, as a set of candidates of the port's group.
    pub(crate) mask: u64,
    /// The smallest acceptable layout at the port itself, among those that no layout of the root gives.
    pub(crate) direct: Option<LayoutId>,
    /// For a constant: the layout of its root.
    pub(crate) constant: Option<LayoutId>,
}

/// One form of one node.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) struct NodeMode {
    pub(crate) needs: Vec<Need>,
    pub(crate) tie: u64,
    /// Bytes that the operation moves by itself.
    pub(crate) price: u64,
    /// The ports that are parts of others and copied, as a set.
    pub(crate) copies: u64,
}

impl NodeMode {
    /// A form that moves nothing by itself.
    pub(super) fn of(needs: Vec<Need>) -> NodeMode {
        NodeMode {
            needs,
            tie: 0,
            price: 0,
            copies: 0,
        }
    }
}

impl Need {
    /// The need of a constant that is written in this layout of its root.
    fn of_constant(root: LayoutId) -> Need {
        Need {
            mask: 0,
            direct: None,
            constant: Some(root),
        }
    }
}

pub(crate) struct Search<'a> {
    pub(crate) graph: &'a Graph,
    pub(crate) layouts: &'a mut Layouts,
    pub(crate) signatures: &'a mut Signatures,
    pub(crate) rules: &'a mut RuleSet,
    pub(crate) cap: usize,
    pub(crate) candidates: SideTable<Group, Vec<LayoutId>>,
    /// Candidates that a group keeps whatever the cap is.
    musts: SideTable<Group, Vec<LayoutId>>,
    /// The number of candidates that the cap left out.
    pub(crate) dropped: u64,
    /// The same by group.
    pub(crate) left_out: SideTable<Group, u64>,
    /// Lower bound of the bytes of every lowering, once computed.
    pub(crate) bound: Option<u64>,
    /// True if a bound will be needed once a choice is made.
    pub(super) is_bounded: bool,
    /// The bound with all states, if it was computed early.
    pub(super) fine: Option<bound::Fine>,
    forms_of: FastMap<ModeKey, Arc<Forms>>,
    /// Lists of candidates, interned once they are complete.
    lists: FastSet<Vec<LayoutId>>,
    /// The forms of operations that look alike and whose groups have the same candidates.
    modes_of: FastMap<(SignatureId, Vec<PortKey>), Modes>,
    /// The forms of nodes that are not operations.
    others: FastSet<Modes>,
    queue: VecDeque<(Group, LayoutId)>,
}

/// The forms of a node; nodes that look alike share them.
pub(super) type Modes = Rc<[Rc<NodeMode>]>;

/// All that the forms of an operation depend on at one port, besides its signature.
#[derive(Clone, PartialEq, Eq, Hash)]
struct PortKey {
    /// The number of the group's list of candidates.
    candidates: usize,
    maps: Arc<[MapId]>,
    bits: u32,
    constant: bool,
}

impl<'a> Search<'a> {
    pub(crate) fn new(
        graph: &'a Graph,
        layouts: &'a mut Layouts,
        signatures: &'a mut Signatures,
        rules: &'a mut RuleSet,
        cap: usize,
    ) -> Self {
        Search {
            graph,
            layouts,
            signatures,
            rules,
            cap: cap.min(MASK_BITS),
            candidates: SideTable::new(Vec::new()),
            musts: SideTable::new(Vec::new()),
            dropped: 0,
            left_out: SideTable::new(0),
            bound: None,
            is_bounded: false,
            fine: None,
            forms_of: FastMap::default(),
            lists: FastSet::default(),
            modes_of: FastMap::default(),
            others: FastSet::default(),
            queue: VecDeque::new(),
        }
    }

    /// The candidates, taken out of the search.
    pub(crate) fn take_candidates(&mut self) -> SideTable<Group, Vec<LayoutId>> {
        std::mem::replace(&mut self.candidates, SideTable::new(Vec::new()))
    }

    /// Seeds the candidates and lets every operation hand its demands on. A group keeps its mandatory candidates and
    /// the first others, up to the cap. With a larger cap it keeps a superset.
    pub(crate) fn demand(&mut self) {
        self.seed();
        while let Some((group, layout)) = self.queue.pop_front() {
            self.hand_on(group, layout);
        }
        for group in self.graph.groups.ids() {
            let musts = &self.musts[group];
            let known = &mut self.candidates[group];
            let all = known.len();
            if all <= self.cap {
                continue;
            }
            let mut at = 0;
            known.retain(|layout| {
                at += 1;
                at <= self.cap || musts.contains(layout)
            });
            let left = all - known.len();
            self.dropped = self.dropped.saturating_add(left as u64);
            self.left_out[group] += left as u64;
            tracing::debug!(%group, left, "candidate layouts left out at the cap");
        }
    }

    fn seed(&mut self) {
        let graph = self.graph;
        for (group, data) in graph.groups.iter() {
            if data.constant {
                let natural = self.layouts.row_major(&data.shape, data.bits);
                self.offer(group, natural, true);
            }
        }
        for (_, node) in graph.nodes.iter() {
            if let Some(layout) = node.pinned {
                self.offer_at(node.ports[0].value, layout, true);
            }
        }
        for &(value, layout) in &graph.stated {
            self.offer_at(value, layout, false);
        }
        for (_, node) in graph.nodes.iter() {
            for (port, data) in node.ports.iter().enumerate() {
                let layout = self.default_at(node, port);
                self.offer_at(data.value, layout, true);
                // A layout that no layout of the root gives is made by a conversion of some view, so one layout with a
                // view must be a candidate.
                if graph.at_root(self.layouts, data.value, layout).is_none() {
                    let natural = self.row_major_of(data.value);
                    self.offer_at(data.value, natural, true);
                }
            }
        }
        for (_, node) in graph.nodes.iter() {
            if let NodeKind::Alias(_, map) = node.kind {
                let (from, to) = (node.ports[0].value, node.ports[1].value);
                if let Some((_, there)) = self.bridge(from, to, map) {
                    self.offer_at(to, there, true);
                }
            }
        }
        if self.layouts.is_tiled() {
            self.seed_common();
        }
        for (_, node) in graph.nodes.iter() {
            let Some(id) = node.signature else { continue };
            // An operation with a price for its own order also gets an order with a lower price.
            for (port, data) in node.ports.iter().enumerate() {
                if let Some(layout) = self.signatures.cheaper_order(self.layouts, id, port) {
                    self.offer_at(data.value, layout, false);
                }
            }
            let sig = self.signatures.get(id);
            if sig.takes_roles() {
                self.seed_roles(node, id);
                continue;
            }
            if !sig.cuts.is_empty() {
                let wholes: BTreeSet<usize> = sig.cuts.iter().map(|cut| cut.whole).collect();
                for whole in wholes {
                    for &layout in self.signatures.uncut(self.layouts, id, whole).iter() {
                        self.offer_at(node.ports[whole].value, layout, false);
                    }
                }
                continue;
            }
            if !sig.has_order(|rule| rule.channels.is_some()) {
                continue;
            }
            for (port, data) in node.ports.iter().enumerate() {
                for layout in channel_orders(self.signatures.get(id), self.layouts, port) {
                    self.offer_at(data.value, layout, false);
                }
            }
        }
    }

    /// Offers the layouts of least padding for stored values that only operations of one common order use.
    fn seed_common(&mut self) {
        let graph = self.graph;
        for (group, data) in graph.groups.iter() {
            if data.is_known() || graph.is_streamed(group) {
                continue;
            }
            let ports = || data.producer.iter().chain(&data.uses);
            let by_roles = |&(node, _): &(Node, usize)| {
                let id = graph.nodes[node].signature;
                id.is_some_and(|id| self.signatures.get(id).takes_roles())
            };
            if ports().any(by_roles) {
                continue;
            }
            let common = ports().find_map(|&(node, port)| {
                let id = graph.nodes[node].signature?;
                let sig = self.signatures.get(id);
                (sig.is_common_order() && sig.fullest == port).then_some((node, port, id))
            });
            if let Some((node, port, id)) = common {
                let value = graph.nodes[node].ports[port].value;
                for &layout in self.signatures.cheapest(self.layouts, id, port).iter() {
                    self.offer_at(value, layout, false);
                }
            }
        }
    }

    /// Offers the layouts of least padding for an operation's ports, in tiles that its row takes.
    fn seed_roles(&mut self, node: &NodeData, id: SignatureId) {
        for (port, data) in node.ports.iter().enumerate() {
            for &layout in self.signatures.cheapest(self.layouts, id, port).iter() {
                self.offer_at(data.value, layout, false);
            }
        }
    }

    fn default_at(&mut self, node: &NodeData, port: usize) -> LayoutId {
        match node.signature {
            Some(id) => self.signatures.default_at(self.layouts, id, port),
            None => self.row_major_of(node.ports[port].value),
        }
    }

    fn offer_at(&mut self, value: Value, layout: LayoutId, must: bool) {
        let Some(member) = self.graph.member(value) else {
            return;
        };
        let group = member.group;
        if let Some(root) = self.graph.at_root(self.layouts, value, layout) {
            self.offer(group, root, must);
        }
    }

    fn offer(&mut self, group: Group, layout: LayoutId, must: bool) {
        if must && !self.musts[group].contains(&layout) {
            self.musts[group].push(layout);
        }
        let known = &mut self.candidates[group];
        if known.contains(&layout) {
            return;
        }
        if known.len() < MASK_BITS {
            known.push(layout);
            self.queue.push_back((group, layout));
        } else {
            self.dropped += 1;
            self.left_out[group] += 1;
            tracing::debug!(%group, %layout, "a group has as many candidates as there may be");
        }
    }

    /// Hands a new candidate on to every reader and the producer of a group.
    fn hand_on(&mut self, group: Group, layout: LayoutId) {
        let graph = self.graph;
        let data = &graph.groups[group];
        if data.constant {
            return;
        }
        for &(node, port) in data.producer.iter().chain(&data.uses) {
            let node = &graph.nodes[node];
            let value = node.ports[port].value;
            let Some(here) = graph.at_member(self.layouts, value, layout) else {
                continue;
            };
            match (&node.kind, node.signature) {
                (NodeKind::Alias(_, map), _) => {
                    let other = 1 - port;
                    let there = if port == 0 {
                        self.layouts.forward(here, *map)
                    } else {
                        self.layouts.backward(here, *map)
                    };
                    if let Some(there) = there {
                        self.offer_at(node.ports[other].value, there, false);
                    }
                }
                (_, Some(id)) if self.signatures.get(id).is_move() => {
                    for other in (0..node.ports.len()).filter(|&other| other != port) {
                        self.offer_at(node.ports[other].value, here, false);
                    }
                }
                (_, Some(id)) => {
                    let transfers = self.signatures.transfers(self.layouts, id, port, here);
                    for &(other, there) in transfers.iter() {
                        self.offer_at(node.ports[other].value, there, false);
                    }
                }
                (_, None) => {}
            }
        }
    }

    /// The forms of a node in terms of the candidates of its groups.
    pub(super) fn node_modes(&mut self, node: Node) -> Modes {
        let graph = self.graph;
        let data = &graph.nodes[node];
        let modes = match (&data.kind, data.signature) {
            (NodeKind::Alias(_, map), _) => self.alias_modes(node, *map),
            (NodeKind::Arg(_) | NodeKind::Return(_), _) => {
                let value = data.ports[0].value;
                let need = match data.pinned {
                    Some(layout) => self.need(value, &[layout], None),
                    None => self.any(value),
                };
                need.into_iter().map(|n| NodeMode::of(vec![n])).collect()
            }
            (NodeKind::Op(_), Some(id)) => return self.shared_modes(node, id),
            (NodeKind::Op(_), None) => Vec::new(),
        };
        let modes: Modes = modes.into_iter().map(Rc::new).collect();
        let at = self.others.insert_full(modes).0;
        self.others[at].clone()
    }

    /// The forms of an operation, shared with operations that look like it.
    fn shared_modes(&mut self, node: Node, id: SignatureId) -> Modes {
        let graph = self.graph;
        let key = |search: &mut Self, value: Value| {
            let member = graph.member(value)?;
            let list = &search.candidates[member.group];
            let candidates = match search.lists.get_index_of(list) {
                Some(known) => known,
                None => search.lists.insert_full(list.clone()).0,
            };
            let data = &graph.groups[member.group];
            Some(PortKey {
                candidates,
                maps: member.maps.clone(),
                bits: member.bits,
                constant: data.constant,
            })
        };
        let ports = graph.nodes[node].ports.iter();
        let keys: Option<Vec<PortKey>> = ports.map(|p| key(self, p.value)).collect();
        let Some(keys) = keys else {
            return self.op_modes(node, id).into_iter().map(Rc::new).collect();
        };
        let key = (id, keys);
        if let Some(known) = self.modes_of.get(&key) {
            return known.clone();
        }
        let modes: Modes = self.op_modes(node, id).into_iter().map(Rc::new).collect();
        self.modes_of.insert(key, modes.clone());
        modes
    }

    /// The need of a port that takes any layout: all candidates in which the value has a layout. If there are none, its
    /// default.
    fn any(&mut self, value: Value) -> Option<Need> {
        let graph = self.graph;
        let group = graph.member(value)?.group;
        let natural = self.row_major_of(value);
        if graph.groups[group].constant {
            let first = self.candidates[group][0];
            let reached = graph.at_member(self.layouts, value, first).is_some();
            return match reached {
                true => Some(Need::of_constant(first)),
                false => self.need(value, &[natural], Some(natural)),
            };
        }
        let mut mask = 0u64;
        for (at, layout) in self.candidates[group].clone().into_iter().enumerate() {
            if graph.at_member(self.layouts, value, layout).is_some() {
                mask |= 1u64 << at;
            }
        }
        Some(Need {
            mask,
            direct: (mask == 0).then_some(natural),
            constant: None,
        })
    }

    fn alias_modes(&mut self, node: Node, map: MapId) -> Vec<NodeMode> {
        let graph = self.graph;
        let [from, to] = [0, 1].map(|port| graph.nodes[node].ports[port].value);
        let mut here = self.demands_at(from);
        // The layout that demands nothing of the group: the group's value is converted to it.
        if let Some((bridge, _)) = self.bridge(from, to, map)
            && !here.contains(&bridge)
        {
            here.push(bridge);
        }
        let mut modes = Vec::new();
        for here in here {
            let Some(there) = self.layouts.forward(here, map) else {
                continue;
            };
            let needs = self
                .need(from, &[here], None)
                .zip(self.need(to, &[there], None));
            if let Some((a, b)) = needs
                && (b.mask != 0 || b.constant.is_some())
            {
                modes.push(NodeMode::of(vec![a, b]));
            }
        }
        modes
    }

    /// Layouts of the two sides of a kept rearrangement for which it is a view, one of them row-major.
    fn bridge(&mut self, from: Value, to: Value, map: MapId) -> Option<(LayoutId, LayoutId)> {
        let natural = self.row_major_of(from);
        if let Some(there) = self.layouts.forward(natural, map) {
            return Some((natural, there));
        }
        let natural = self.row_major_of(to);
        let here = self.layouts.backward(natural, map)?;
        Some((here, natural))
    }

    /// The layouts that are demanded at a port.
    pub(super) fn demands_at(&mut self, value: Value) -> Vec<LayoutId> {
        let Some(group) = self.graph.member(value).map(|m| m.group) else {
            return Vec::new();
        };
        let roots = self.candidates[group].clone();
        let graph = self.graph;
        roots
            .into_iter()
            .filter_map(|l| graph.at_member(self.layouts, value, l))
            .collect()
    }

    fn op_modes(&mut self, node: Node, id: SignatureId) -> Vec<NodeMode> {
        let graph = self.graph;
        let values: Vec<Value> = graph.nodes[node].ports.iter().map(|p| p.value).collect();
        if self.signatures.get(id).is_move() {
            let needs: Option<Vec<Need>> = values.iter().map(|&v| self.any(v)).collect();
            return needs.map(NodeMode::of).into_iter().collect();
        }
        let demands: Vec<Vec<LayoutId>> = values.iter().map(|&v| self.demands_at(v)).collect();
        let key = (id, demands);
        let forms = match self.forms_of.get(&key) {
            Some(known) => known.clone(),
            None => {
                let forms = self.rules.forms(self.signatures, self.layouts, &key);
                self.forms_of.insert(key, forms.clone());
                forms
            }
        };
        let mut out: Vec<NodeMode> = Vec::with_capacity(forms.modes.len());
        for mode in &forms.modes {
            if let Some(mode) = self.instantiate(node, id, &values, mode)
                && !out.contains(&mode)
            {
                out.push(mode);
            }
        }
        out
    }

    fn instantiate(
        &mut self,
        node: Node,
        id: SignatureId,
        values: &[Value],
        mode: &Mode,
    ) -> Option<NodeMode> {
        let mut needs = Vec::with_capacity(values.len());
        let mut tie = 0u64;
        for (port, &value) in values.iter().enumerate() {
            let default = self.signatures.default_at(self.layouts, id, port);
            let need = self.need(value, &mode.ports[port], Some(default))?;
            if let Some(layout) = need.constant {
                tie = tie.saturating_add(self.constant_tie(value, layout));
            }
            if self.graph.nodes[node].ports[port].is_result
                && need.mask == 0
                && need.constant.is_none()
            {
                return None;
            }
            needs.push(need);
        }
        if let Some(&operand) = mode.ports.first().and_then(|taken| taken.first()) {
            let strided = ties::strided(self.signatures.get(id), self.layouts, operand);
            tie = tie.saturating_add(strided);
        }
        Some(NodeMode {
            needs,
            tie,
            price: mode.price,
            copies: mode.copies,
        })
    }

    /// Compile-time bytes of writing a constant in a layout; 0 for the layout in the file.
    fn constant_tie(&mut self, value: Value, layout: LayoutId) -> u64 {
        let Some(member) = self.graph.member(value) else {
            return 0;
        };
        let data = &self.graph.groups[member.group];
        if layout == self.layouts.row_major(&data.shape, data.bits) {
            0
        } else {
            self.layouts.bytes(layout).saturating_mul(2)
        }
    }

    /// The need of a port that takes one of these layouts.
    fn need(
        &mut self,
        value: Value,
        accepted: &[LayoutId],
        default: Option<LayoutId>,
    ) -> Option<Need> {
        let group = self.graph.member(value)?.group;
        if self.graph.groups[group].constant {
            return self.constant_need(value, accepted, default);
        }
        let graph = self.graph;
        let mut mask = 0u64;
        let mut direct: Option<(u64, LayoutId)> = None;
        for &layout in accepted {
            let itself = match graph.at_root(self.layouts, value, layout) {
                Some(root) => match self.candidates[group].iter().position(|&c| c == root) {
                    Some(at) => {
                        mask |= 1u64 << at;
                        false
                    }
                    // The group has no room for another candidate: the value is converted on its own.
                    None => self.is_full(value, group),
                },
                None => true,
            };
            let bytes = self.layouts.bytes(layout);
            if itself && direct.is_none_or(|(least, _)| bytes < least) {
                direct = Some((bytes, layout));
            }
        }
        let direct = direct.map(|(_, layout)| layout);
        (mask != 0 || direct.is_some()).then_some(Need {
            mask,
            direct,
            constant: None,
        })
    }

    /// Returns whether a group has the most candidates possible, and the value has a layout in one of them.
    fn is_full(&mut self, value: Value, group: Group) -> bool {
        let graph = self.graph;
        let all = self.candidates[group].clone();
        all.len() == MASK_BITS
            && all
                .into_iter()
                .any(|l| graph.at_member(self.layouts, value, l).is_some())
    }

    fn constant_need(
        &mut self,
        value: Value,
        accepted: &[LayoutId],
        default: Option<LayoutId>,
    ) -> Option<Need> {
        let graph = self.graph;
        let mut best: Option<(u64, LayoutId)> = None;
        for &layout in accepted {
            let Some(root) = graph.at_root(self.layouts, value, layout) else {
                continue;
            };
            let tie = self.constant_tie(value, root);
            let allowed = self.rules.constants || tie == 0 || default == Some(layout);
            if allowed && best.is_none_or(|(least, _)| tie < least) {
                best = Some((tie, root));
            }
        }
        best.map(|(_, root)| Need::of_constant(root))
    }

    /// The bytes that naive lowering moves, and its padding. Every operation is in its default layouts. There is one
    /// conversion for each pair of a value and a layout that is read of it and differs from its own.
    pub(crate) fn naive_bytes(&mut self, sizes: &SizeTable) -> [Amount; 2] {
        let graph = self.graph;
        let mut total = Amount::default();
        let mut padded = Amount::default();
        for (_, data) in graph.groups.iter().filter(|(_, data)| !data.is_known()) {
            self.naive_group(data, [&mut total, &mut padded], sizes);
        }
        for (node, data) in graph.nodes.iter() {
            let signature = data.signature.filter(|_| !graph.is_known(node));
            if let Some(id) = signature.filter(|&id| self.signatures.get(id).has_prices()) {
                total.add(&self.naive_price(data, id), sizes);
            }
        }
        for (_, data) in graph.nodes.iter() {
            let (NodeKind::Alias(_, map), [from, to]) = (&data.kind, &data.ports[..]) else {
                continue;
            };
            let constant = graph
                .member(from.value)
                .map(|m| graph.groups[m.group].constant);
            let (from, to) = (self.row_major_of(from.value), self.row_major_of(to.value));
            if constant == Some(false) && self.layouts.forward(from, *map) != Some(to) {
                total.add(&self.layouts.amount(from), sizes);
                total.add(&self.layouts.amount(to), sizes);
            }
        }
        [total, padded]
    }

    /// Adds the conversions of one group in naive lowering, and the padding of what is stored.
    fn naive_group(
        &mut self,
        data: &GroupData,
        [total, padded]: [&mut Amount; 2],
        sizes: &SizeTable,
    ) {
        let graph = self.graph;
        let Some((producer, port)) = data.producer else {
            return;
        };
        let produced = self.required_at(producer, port);
        let touches = data.touches() + u64::from(data.may_be_part);
        let padding = self.layouts.padding(produced).saturating_mul(touches);
        padded.add(&Amount::from(Size::from(padding)), sizes);
        let mut seen: Vec<(Value, LayoutId)> = Vec::new();
        for &(node, port) in &data.uses {
            let value = graph.nodes[node].ports[port].value;
            let wanted = self.required_at(node, port);
            let have = graph.at_member(self.layouts, value, produced);
            if have == Some(wanted) || seen.contains(&(value, wanted)) {
                continue;
            }
            seen.push((value, wanted));
            total.add(&self.layouts.amount(produced), sizes);
            total.add(&self.layouts.amount(wanted), sizes);
            padded.add(
                &Amount::from(Size::from(self.layouts.padding(wanted))),
                sizes,
            );
            // If no view connects the two, a row-major copy stands between them.
            if have.is_none() && self.row_major_of(data.root) != produced {
                let between = self.row_major_of(value);
                if between != wanted {
                    total.add(&self.layouts.amount(between), sizes);
                    total.add(&self.layouts.amount(between), sizes);
                }
            }
        }
    }

    /// The price of an operation's default layouts.
    fn naive_price(&mut self, data: &NodeData, id: SignatureId) -> Amount {
        let ports: Vec<LayoutId> = (0..data.ports.len())
            .map(|port| self.default_at(data, port))
            .collect();
        let sig = self.signatures.shared(id);
        // Bytes of copies are counted elsewhere.
        let price = price::price_of(&sig, self.layouts, &ports);
        let known = ports.iter().all(|&id| {
            let bytes = self.layouts.amount(id).polynomial();
            bytes.is_some_and(|n| n.as_constant().is_some())
        });
        match known {
            true => Amount::from(Size::from(price)),
            false => Amount::At(price),
        }
    }

    fn row_major_of(&mut self, value: Value) -> LayoutId {
        let bits = self.graph.member(value).map_or(8, |m| m.bits);
        self.layouts.row_major(&self.graph.shapes[value], bits)
    }

    pub(super) fn required_at(&mut self, node: Node, port: usize) -> LayoutId {
        let graph = self.graph;
        let data = &graph.nodes[node];
        match data.pinned {
            Some(layout) => layout,
            None => self.default_at(data, port),
        }
    }
}
