//! Keeps plans of tiles valid after a pass.

use optc_ir::{Diagnostic, Func, Module, Registry};
use optc_tile::{Plan, Unit, readers};
use petgraph::algo::tarjan_scc;
use petgraph::graph::DiGraph;

/// Drops the groups that depend on themselves since a pass replaced some of their operations. Returns a remark for
/// each. A plan that cannot be read is left to the verifier.
pub(crate) fn keep(module: &mut Module, registry: &Registry, pass: &str) -> Vec<Diagnostic> {
    let mut remarks = Vec::new();
    for func in &mut module.funcs {
        let Ok(Some(plan)) = Plan::read(func) else {
            continue;
        };
        let cyclic = cyclic(func, &plan, registry);
        if !cyclic.contains(&true) {
            continue;
        }
        for (number, _) in cyclic.iter().enumerate().filter(|(_, cyclic)| **cyclic) {
            let message = format!(
                "group {number} of @{} is dropped: after pass `{pass}` it needs a value that is computed from its own \
                 results",
                func.name
            );
            let remark = Diagnostic::remark(optc_tile::shared_codes::TILE_CYCLE, message);
            let first = plan.groups[number].ops.first();
            let span = first.map_or(func.span, |&op| func.ops[op].span);
            remarks.push(remark.at(span, "its first operation"));
        }
        without(plan, &cyclic).write(func);
    }
    remarks
}

/// For each group, whether it needs a value that is computed from its own results.
fn cyclic(func: &Func, plan: &Plan, registry: &Registry) -> Vec<bool> {
    let (units, readers) = readers(func, plan, registry);
    let edges = readers.iter().zip(0u32..);
    let edges = edges.flat_map(|(to, from)| to.iter().map(move |&to| (from, to as u32)));
    let graph: DiGraph<(), ()> = DiGraph::from_edges(edges);
    let mut out = vec![false; plan.groups.len()];
    for together in tarjan_scc(&graph).iter().filter(|nodes| 1 < nodes.len()) {
        for node in together {
            if let Unit::Group(group) = units[node.index()] {
                out[group] = true;
            }
        }
    }
    out
}

/// The plan without some of its groups.
fn without(mut plan: Plan, dropped: &[bool]) -> Plan {
    let mut number = Vec::with_capacity(dropped.len());
    let mut next = 0usize;
    for &dropped in dropped {
        number.push(next);
        next += usize::from(!dropped);
    }
    plan.tiles.retain(|_, tile| !dropped[tile.group]);
    for tile in plan.tiles.values_mut() {
        tile.group = number[tile.group];
    }
    let mut at = 0;
    plan.groups.retain(|_| {
        at += 1;
        !dropped[at - 1]
    });
    plan
}
