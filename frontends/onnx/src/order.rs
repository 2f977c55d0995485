//! The names of a graph and the topological order of its nodes.

use crate::codes;
use crate::functions::FlatNode;
use crate::node::label;
use crate::opaque;
use indexmap::{IndexMap, IndexSet};
use optc_ir::Diagnostic;
use std::cmp::Reverse;
use std::collections::BinaryHeap;

/// The most nodes of a cycle that a diagnostic names.
const NAMED: usize = 8;

/// Nodes in topological order; the order of the file if that is topological.
pub(crate) struct Ordered {
    /// Positions of the nodes.
    pub(crate) order: Vec<usize>,
    /// For each node, the values of the graph that its subgraphs use.
    pub(crate) captured: Vec<Captured>,
}

/// Names that the subgraphs of a node take from the graph, each with its name inside.
pub(crate) type Captured = IndexMap<String, String>;

/// Sorts the nodes; `known` are the names of inputs and initializers.
pub(crate) fn sort(
    nodes: &[FlatNode],
    known: &IndexSet<String>,
) -> Result<Ordered, Vec<Diagnostic>> {
    let makers = makers(nodes, known)?;
    let captured: Vec<_> = nodes.iter().map(|n| captures(n, &makers, known)).collect();
    let mut errors = Vec::new();
    let mut waiting = vec![0usize; nodes.len()];
    let mut readers: Vec<Vec<usize>> = vec![Vec::new(); nodes.len()];
    for (i, flat) in nodes.iter().enumerate() {
        for name in flat
            .node
            .input
            .iter()
            .filter(|n| !n.is_empty())
            .chain(captured[i].keys())
        {
            if let Some(&maker) = makers.get(name.as_str()) {
                readers[maker].push(i);
                waiting[i] += 1;
            } else if !known.contains(name) {
                errors.push(undefined(flat, name));
            }
        }
    }
    if !errors.is_empty() {
        return Err(errors);
    }
    let order = kahn(&mut waiting, &readers);
    if order.len() < nodes.len() {
        return Err(vec![cycle(nodes, &waiting)]);
    }
    Ok(Ordered { order, captured })
}

/// The node that defines each name.
fn makers<'a>(
    nodes: &'a [FlatNode],
    known: &IndexSet<String>,
) -> Result<IndexMap<&'a str, usize>, Vec<Diagnostic>> {
    let mut makers: IndexMap<&str, usize> = IndexMap::new();
    let mut errors = Vec::new();
    for (i, flat) in nodes.iter().enumerate() {
        for name in flat.node.output.iter().filter(|n| !n.is_empty()) {
            let other = makers.insert(name, i);
            if other.is_some() || known.contains(name) {
                let first = other.map_or_else(
                    || "an input or initializer of the graph".to_owned(),
                    |j| label(&nodes[j].node),
                );
                let message = format!("{} defines `{name}` again", label(&flat.node));
                let note = format!("the first definition is {first}");
                errors.push(Diagnostic::error(codes::DUPLICATE_NAME, message).note(note));
            }
        }
    }
    if errors.is_empty() {
        Ok(makers)
    } else {
        Err(errors)
    }
}

/// The names that the subgraphs of a node take from the graph. Other names are not resolved here.
fn captures(flat: &FlatNode, makers: &IndexMap<&str, usize>, known: &IndexSet<String>) -> Captured {
    let found = opaque::captured(&flat.node.attribute);
    let pairs = found.into_iter().map(|name| (flat.outer_name(&name), name));
    pairs
        .filter(|(outer, _)| makers.contains_key(outer.as_str()) || known.contains(outer))
        .collect()
}

fn undefined(flat: &FlatNode, name: &str) -> Diagnostic {
    let message = format!("{} uses `{name}`, which nothing defines", label(&flat.node));
    Diagnostic::error(codes::UNDEFINED_VALUE, message)
}

/// Kahn's algorithm; of the ready nodes it takes the one that is first in the file.
fn kahn(waiting: &mut [usize], readers: &[Vec<usize>]) -> Vec<usize> {
    let ready = waiting
        .iter()
        .enumerate()
        .filter(|&(_, &n)| n == 0)
        .map(|(i, _)| Reverse(i));
    let mut ready: BinaryHeap<Reverse<usize>> = ready.collect();
    let mut order = Vec::with_capacity(waiting.len());
    while let Some(Reverse(i)) = ready.pop() {
        order.push(i);
        for &reader in &readers[i] {
            waiting[reader] -= 1;
            if waiting[reader] == 0 {
                ready.push(Reverse(reader));
            }
        }
    }
    order
}

fn cycle(nodes: &[FlatNode], waiting: &[usize]) -> Diagnostic {
    let stuck = nodes.iter().zip(waiting).filter(|&(_, &n)| n != 0);
    let names: Vec<String> = stuck
        .map(|(flat, _)| label(&flat.node))
        .take(NAMED)
        .collect();
    let message = format!("the graph has a cycle among {}", names.join(", "));
    Diagnostic::error(codes::GRAPH_CYCLE, message)
}
