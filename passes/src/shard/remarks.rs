//! Remarks on collectives: which values force each, and what would remove it.

use super::report::ShardReport;
use crate::codes;
use crate::names::name_among;
use crate::pass::PassContext;
use optc_check::mesh::{Cause, Done, Site};
use optc_ir::shard::{Held, Mesh, Sharding, Split};
use optc_ir::text::value_names;
use optc_ir::{Diagnostic, Func, Module, Op};
use std::fmt::Write as _;

/// Adds a remark for each collective of the program.
pub(super) fn add(module: &Module, report: &ShardReport, cx: &mut PassContext) {
    let names: Vec<_> = module.funcs.iter().map(value_names).collect();
    for done in &report.account.done {
        let func = &module.funcs[done.func];
        let (op, span) = match done.cause {
            Cause::Made(op) | Cause::Read(op) => (Some(op), func.ops[op].span),
            Cause::Returned(_) => (None, func.span),
        };
        let value = name_among(func, &names[done.func], done.value);
        let message = message(func, done, &value, &report.mesh);
        let diag = Diagnostic::remark(codes::SHARD_COLLECTIVE, message).at(span, "here");
        let site = op.map(|op| Site::of(func, op, &cx.registry));
        cx.remarks
            .push(diag.note(removal(func, done, site.as_ref(), &report.mesh)));
    }
}

fn list(sharding: &Sharding, mesh: &Mesh) -> String {
    format!("[{}]", sharding.texts(mesh).join(", "))
}

fn message(func: &Func, done: &Done, value: &str, mesh: &Mesh) -> String {
    let mut text = String::new();
    for (i, c) in done.collectives.iter().enumerate() {
        let joint = if i == 0 { "" } else { ", " };
        let axis = &mesh.axes[c.axis].name;
        let _ = write!(
            text,
            "{joint}{} of {} bytes over `{axis}`",
            c.kind.name(),
            c.bytes
        );
    }
    let (from, to) = (list(&done.from, mesh), list(&done.to, mesh));
    let name = |op: Op| &func.ops[op].name;
    match done.cause {
        Cause::Made(op) => {
            let _ = write!(
                text,
                ": `{}` makes {value} as {from}, and it is stored as {to}",
                name(op)
            );
        }
        Cause::Read(op) => {
            let _ = write!(
                text,
                ": {value} is stored as {from}, and `{}` reads it as {to}",
                name(op)
            );
        }
        Cause::Returned(i) => {
            let _ = write!(
                text,
                ": {value} is stored as {from}, and result {i} of the function is {to}"
            );
        }
    }
    text
}

/// The change that would remove the first split that differs.
fn removal(func: &Func, done: &Done, site: Option<&Site>, mesh: &Mesh) -> String {
    let lost = |s: &&Split| done.to.on(s.axis) != Some(*s);
    let Some(split) = done.from.splits().iter().find(lost) else {
        return "would go if both sides had one sharding".to_owned();
    };
    let axis = &mesh.axes[split.axis];
    if let Held::Partial(_) = split.held {
        return format!(
            "would go if `{}` split no dimension that the operation sums over: pin another dimension of its operands, or none",
            axis.name
        );
    }
    let operand = match done.cause {
        Cause::Made(_) => None,
        Cause::Read(op) => func.ops[op].operands.iter().position(|&v| v == done.value),
        Cause::Returned(i) => {
            return format!(
                "would go if result {i} were free, or pinned to {}",
                list(&done.from, mesh)
            );
        }
    };
    let Some((operand, site)) = operand.zip(site) else {
        return format!(
            "would go if the value were stored as {}",
            list(&done.from, mesh)
        );
    };
    let dim = split.pieces().first().map_or(0, |p| p.dim);
    let pieces = site.loop_pieces(Ok(operand), split.pieces());
    let whole = pieces.is_empty() || !pieces.iter().all(|p| site.admits(p));
    match whole || pieces.len() != 1 {
        true => {
            let size = site.operands[operand]
                .as_ref()
                .map_or(0, |size| size.sizes[dim]);
            format!(
                "would go if `{}` split another dimension: the operation takes dimension {dim} of {size} elements in no parts like `{}`; an axis of the mesh in two, `{}0:…,{}1:…`, may split two dimensions instead",
                axis.name,
                split.text(mesh),
                axis.name,
                axis.name
            )
        }
        false => format!(
            "would go if the operation were split along dimension {dim} as well; its other operands or results are not, and that takes less time, or they are pinned"
        ),
    }
}
