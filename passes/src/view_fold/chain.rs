//! Explanations of conversions that stay: the chains of operations to those that fix the two orders.

use super::choose::Choice;
use super::conversion::Conversion;
use super::groups::{Graph, Group, Node, NodeData, NodeKind};
use super::maps::FastMap;
use super::signatures::Signatures;
use optc_ir::entity::EntityId;
use optc_ir::{FreedomClass, Func, Op, Value};
use petgraph::graph::{NodeIndex, UnGraph};
use std::cell::Cell;
use std::collections::VecDeque;

/// A budget of visited nodes for all chains of a function: this many, plus `LOOKS_A_NODE` times the number of nodes. One
/// search may visit the whole function, so that without a budget all of them would be quadratic.
const LOOKS: usize = 1 << 16;
const LOOKS_A_NODE: usize = 8;

/// The dataflow of a function, for searches of the operation nearest to another one.
pub(crate) struct Chains<'a> {
    func: &'a Func,
    graph: &'a Graph,
    choice: &'a Choice,
    anchors: Vec<bool>,
    net: UnGraph<Node, ()>,
    /// The remaining budget of visited nodes. Once it is spent, the rest stays unexplained.
    looks: Cell<usize>,
}

impl<'a> Chains<'a> {
    /// Joins nodes whose chosen forms agree on a group's produced layout. Along these edges an order is handed on
    /// without a conversion.
    pub(crate) fn new(
        func: &'a Func,
        graph: &'a Graph,
        signatures: &Signatures,
        choice: &'a Choice,
    ) -> Chains<'a> {
        let mut net = UnGraph::new_undirected();
        for node in graph.nodes.ids() {
            net.add_node(node);
        }
        for (group, data) in graph.groups.iter() {
            let Some((producer, _)) = data.producer else {
                continue;
            };
            if data.constant {
                continue;
            }
            for &(user, port) in &data.uses {
                if agrees(choice, group, user, port) {
                    net.add_edge(index(producer), index(user), ());
                }
            }
        }
        let anchors = graph
            .nodes
            .iter()
            .map(|(_, n)| is_anchor(n, signatures))
            .collect();
        Chains {
            func,
            graph,
            choice,
            anchors,
            looks: Cell::new(LOOKS + LOOKS_A_NODE * net.node_count()),
            net,
        }
    }

    /// Sets in a conversion the operations that fix the order of its value and the order that its reader wants. Returns
    /// the last node of each chain, if there is one within the budget.
    pub(crate) fn of(&self, conversion: &mut Conversion) -> [Option<Node>; 2] {
        let Some(member) = self.graph.member(conversion.of) else {
            return [None, None];
        };
        let producer = self.graph.groups[member.group].producer;
        let reader = conversion.readers.first().copied().flatten();
        let both = [
            producer.and_then(|(node, _)| self.chain(node)),
            self.reader(conversion.of, reader)
                .and_then(|node| self.chain(node)),
        ];
        let words = both.each_ref().map(|c| c.as_ref().map(|c| self.words(c)));
        [conversion.forced_by, conversion.wanted_by] = words;
        both.map(|chain| chain?.last().copied())
    }

    /// The node that reads a group for an operation. For `None`, a result of the function that needs a conversion.
    fn reader(&self, of: Value, reader: Option<Op>) -> Option<Node> {
        let Some(reader) = reader else {
            return self.unmet_results(of).next();
        };
        let uses = &self.graph.groups[self.graph.member(of)?.group].uses;
        let is_reader = |node: &Node| match self.graph.nodes[*node].kind {
            NodeKind::Op(op) | NodeKind::Alias(op, _) => op == reader,
            NodeKind::Arg(_) | NodeKind::Return(_) => false,
        };
        uses.iter().map(|(node, _)| *node).find(is_reader)
    }

    /// Results of the function that view this value's storage and cannot take the layout that it is produced in.
    pub(crate) fn unmet_results(&self, of: Value) -> impl Iterator<Item = Node> {
        let group = self.graph.member(of).map(|member| member.group);
        let uses = group.map_or(&[][..], |group| &self.graph.groups[group].uses);
        let unmet = move |&&(node, port): &&(Node, usize)| {
            let served = group.is_some_and(|group| agrees(self.choice, group, node, port));
            !served && matches!(self.graph.nodes[node].kind, NodeKind::Return(_))
        };
        uses.iter().filter(unmet).map(|(node, _)| *node)
    }

    /// The shortest chain from a node to an anchor.
    fn chain(&self, from: Node) -> Option<Vec<Node>> {
        let start = index(from);
        let mut parent: FastMap<NodeIndex, NodeIndex> = FastMap::default();
        let mut queue = VecDeque::from([start]);
        while let Some(at) = queue.pop_front() {
            if self.anchors[at.index()] {
                return Some(self.path(from, at, &parent));
            }
            self.looks.set(self.looks.get().checked_sub(1)?);
            for next in self.net.neighbors(at) {
                if next != start && !parent.contains_key(&next) {
                    parent.insert(next, at);
                    queue.push_back(next);
                }
            }
        }
        None
    }

    fn path(&self, from: Node, to: NodeIndex, parent: &FastMap<NodeIndex, NodeIndex>) -> Vec<Node> {
        let mut steps = vec![to];
        while let Some(&up) = steps.last().and_then(|at| parent.get(at)) {
            steps.push(up);
            if up == index(from) {
                break;
            }
        }
        steps.reverse();
        steps.into_iter().map(|n| self.net[n]).collect()
    }

    /// A chain in words.
    fn words(&self, chain: &[Node]) -> String {
        let names: Vec<String> = chain.iter().map(|&n| self.name(n)).collect();
        const SHOWN: usize = 6;
        if names.len() <= SHOWN {
            names.join(" -> ")
        } else {
            let (head, tail) = (&names[..SHOWN / 2], &names[names.len() - SHOWN / 2..]);
            let hidden = names.len() - SHOWN;
            format!(
                "{} -> … {hidden} more … -> {}",
                head.join(" -> "),
                tail.join(" -> ")
            )
        }
    }

    fn name(&self, node: Node) -> String {
        let data = &self.graph.nodes[node];
        match &data.kind {
            NodeKind::Arg(i) => format!("argument {}", self.port_name(*i)),
            NodeKind::Return(i) => format!("result {i}"),
            NodeKind::Op(op) | NodeKind::Alias(op, _) => {
                let data = &self.func.ops[*op];
                match &data.loc {
                    optc_ir::Loc::Name(name) => format!("{} \"{name}\"", data.name),
                    _ => data.name.to_string(),
                }
            }
        }
    }

    fn port_name(&self, i: usize) -> String {
        let value: Value = self.func.args[i];
        match &self.func.values[value].name {
            Some(name) => format!("%{name}"),
            None => format!("{i}"),
        }
    }
}

/// Returns whether a port takes the layout that its group is produced in.
fn agrees(choice: &Choice, group: Group, node: Node, port: usize) -> bool {
    let need = choice.modes[node].needs.get(port);
    need.is_some_and(|need| need.mask & (1u64 << choice.groups[group].produced) != 0)
}

fn index(node: Node) -> NodeIndex {
    NodeIndex::new(node.index())
}

/// Returns whether a node fixes an order: a pinned boundary, or an operation that does not take every order.
fn is_anchor(node: &NodeData, signatures: &Signatures) -> bool {
    if node.pinned.is_some() {
        return true;
    }
    node.signature.is_some_and(|id| {
        let sig = signatures.get(id);
        !sig.is_common_order()
            && !matches!(
                sig.freedom.class,
                FreedomClass::Source | FreedomClass::Rearrange
            )
    })
}
