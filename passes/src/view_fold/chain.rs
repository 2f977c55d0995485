//! Why a conversion stays: the chains of operations to what fixes the two orders.

use super::groups::{Graph, Group, Node, NodeKind};
use super::maps::FastMap;
use super::search::Choice;
use super::signatures::Signatures;
use optc_ir::entity::EntityId;
use optc_ir::{FreedomClass, Func, Value};
use petgraph::graph::{NodeIndex, UnGraph};
use std::cell::Cell;
use std::collections::VecDeque;

/// Nodes that may be looked at for all chains of a function: this many, and so many times all nodes.
const LOOKS: usize = 1 << 16;
const LOOKS_A_NODE: usize = 8;

/// The dataflow of a function for the question which operation is near which.
pub(crate) struct Chains<'a> {
    func: &'a Func,
    graph: &'a Graph,
    anchors: Vec<bool>,
    net: UnGraph<Node, ()>,
    /// Nodes that may still be looked at; without more the rest stays unexplained.
    looks: Cell<usize>,
}

impl<'a> Chains<'a> {
    /// Joins nodes whose chosen forms agree on a group's produced layout: an order is handed on
    /// along these edges without a conversion.
    pub(crate) fn new(
        func: &'a Func,
        graph: &'a Graph,
        signatures: &Signatures,
        choice: &Choice,
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
            let produced = 1u64 << choice.groups[group].produced;
            for &(user, port) in &data.uses {
                let agrees = choice.modes[user]
                    .needs
                    .get(port)
                    .is_some_and(|n| n.mask & produced != 0);
                if agrees {
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
            anchors,
            looks: Cell::new(LOOKS + LOOKS_A_NODE * net.node_count()),
            net,
        }
    }

    /// The operations from the producer of a group back to what fixes its order.
    pub(crate) fn of_producer(&self, group: Group) -> Option<String> {
        let (producer, _) = self.graph.groups[group].producer?;
        self.chain(producer)
    }

    /// The operations from a reader of a group on to what fixes the order it wants.
    pub(crate) fn of_reader(&self, group: Group, reader: Option<optc_ir::Op>) -> Option<String> {
        let is_reader = |kind: &NodeKind| match (kind, reader) {
            (NodeKind::Op(op) | NodeKind::Alias(op, _), Some(wanted)) => *op == wanted,
            (NodeKind::Return(_), None) => true,
            _ => false,
        };
        let uses = &self.graph.groups[group].uses;
        let (node, _) = uses
            .iter()
            .find(|(n, _)| is_reader(&self.graph.nodes[*n].kind))?;
        self.chain(*node)
    }

    /// The shortest chain from a node to an anchor.
    fn chain(&self, from: Node) -> Option<String> {
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

    fn path(&self, from: Node, to: NodeIndex, parent: &FastMap<NodeIndex, NodeIndex>) -> String {
        let mut steps = vec![to];
        while let Some(&up) = steps.last().and_then(|at| parent.get(at)) {
            steps.push(up);
            if up == index(from) {
                break;
            }
        }
        steps.reverse();
        let names: Vec<String> = steps.iter().map(|&n| self.name(self.net[n])).collect();
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

fn index(node: Node) -> NodeIndex {
    NodeIndex::new(node.index())
}

/// What fixes an order: a pinned boundary, or an operation that does not take every order.
fn is_anchor(node: &super::groups::NodeData, signatures: &Signatures) -> bool {
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
