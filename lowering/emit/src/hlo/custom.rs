//! Custom calls, for operations without HLO instructions.

use super::func::{Outcome, Writer, escaped};
use super::shape::shape_text;
use super::tuple::Tree;
use optc_ir::op::Effect;
use optc_ir::{Op, OpData};
use optc_ops::Opaque;

/// The combined shape of the results of an operation.
pub(super) fn result_shape(w: &Writer<'_>, data: &OpData, tree: &Tree) -> Outcome<String> {
    let mut shapes = Vec::with_capacity(data.results.len());
    for &value in &data.results {
        shapes.push(shape_text(w.func.ty(value))?);
    }
    Ok(tree.shape(&mut shapes.into_iter()))
}

/// The attribute that marks a custom call as having a side effect, so that it is not removed; empty for a pure
/// operation.
fn side_effect(w: &Writer<'_>, data: &OpData) -> &'static str {
    match w.shared.registry.effect(&w.op_ref(data)) {
        Effect::Pure => "",
        _ => ", custom_call_has_side_effect=true",
    }
}

/// Writes an operation without instructions as a custom call with its name.
pub(super) fn custom_call(w: &mut Writer<'_>, op: Op) -> Outcome<()> {
    let data = &w.func.ops[op];
    let mut names = Vec::with_capacity(data.operands.len());
    for &value in &data.operands {
        names.push(w.name(value)?);
    }
    let tree = Tree::flat(data.results.len());
    let shape = result_shape(w, data, &tree)?;
    let target = match w.typed::<Opaque>(data) {
        Ok(made) => format!("{}.{}", made.domain.as_deref().unwrap_or(""), made.kind),
        Err(_) => data.name.to_string(),
    };
    let config = match data.props.str("backend_config") {
        Some(config) => escaped(config),
        None => {
            let fields = data.props.iter().filter(|(key, _)| *key != "effect");
            let text = |(key, value)| format!("{key} = {}", optc_ir::text::print_attr(value));
            escaped(&fields.map(text).collect::<Vec<String>>().join(", "))
        }
    };
    let attrs = format!(
        ", custom_call_target=\"{}\"{}, backend_config=\"{config}\"",
        escaped(target.trim_start_matches('.')),
        side_effect(w, data)
    );
    let name = w.raw(&shape, "custom-call", &names, &attrs);
    w.results(op, tree, &name)
}
