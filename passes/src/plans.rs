//! Keeps plans of tiles true after a pass.

use optc_ir::entity::EntityId;
use optc_ir::tile::Plan;
use optc_ir::{Diagnostic, Func, Module, ValueDef};
use petgraph::algo::tarjan_scc;
use petgraph::graph::DiGraph;

/// Drops the groups that wait for themselves since a pass has replaced some of their operations; a remark for
/// each. A plan that cannot be read is left to the verifier.
pub(crate) fn keep(module: &mut Module, pass: &str) -> Vec<Diagnostic> {
    let mut remarks = Vec::new();
    for func in &mut module.funcs {
        let Ok(Some(plan)) = Plan::read(func) else {
            continue;
        };
        let cyclic = cyclic(func, &plan);
        if !cyclic.contains(&true) {
            continue;
        }
        for (number, _) in cyclic.iter().enumerate().filter(|(_, cyclic)| **cyclic) {
            let message = format!(
                "group {number} of @{} is dropped: after pass `{pass}` it needs a value that is computed from its own \
                 results",
                func.name
            );
            let remark = Diagnostic::remark("tile-cycle", message);
            let first = plan.groups[number].ops.first();
            let span = first.map_or(func.span, |&op| func.ops[op].span);
            remarks.push(remark.at(span, "its first operation"));
        }
        without(plan, &cyclic).write(func);
    }
    remarks
}

/// Of each group whether it needs a value that is computed from its own results.
fn cyclic(func: &Func, plan: &Plan) -> Vec<bool> {
    let mut graph: DiGraph<Option<usize>, ()> = DiGraph::new();
    let groups: Vec<_> = (0..plan.groups.len())
        .map(|group| graph.add_node(Some(group)))
        .collect();
    let mut node = vec![None; func.ops.len()];
    for &op in &func.body {
        let own = match plan.tiles.get(&op) {
            Some(tile) if &*func.ops[op].name != "hbir.constant" => groups[tile.group],
            _ => graph.add_node(None),
        };
        node[op.index()] = Some(own);
        for &operand in &func.ops[op].operands {
            if let ValueDef::Result(maker, _) = func.values[operand].def
                && let Some(maker) = node[maker.index()].filter(|maker| *maker != own)
            {
                graph.add_edge(maker, own, ());
            }
        }
    }
    let mut out = vec![false; plan.groups.len()];
    for together in tarjan_scc(&graph).iter().filter(|nodes| 1 < nodes.len()) {
        for group in together.iter().filter_map(|&node| graph[node]) {
            out[group] = true;
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
