//! Attributes of the module, its functions, arguments and results that are kept as text.
//!
//! They are in `stablehlo.attributes` of the module and `stablehlo.attrs` of a port; `stablehlo.others` has the
//! operations beside the functions.

use crate::attrs::field;
use crate::names::Names;
use optc_ir::{Attr, Func, Module};
use optc_mlir_syntax::Aliases;
use optc_mlir_syntax::Tree;
use optc_mlir_syntax::int;
use std::sync::Arc;

/// Writes them to the module and to its functions.
pub(crate) fn attach(module: &mut Module, tree: &Tree<'_>, aliases: &Aliases<'_>, names: &Names) {
    if tree.name.is_none() {
        module.name = None;
    }
    if !tree.attrs.is_empty() {
        let text = Attr::str(tree.attrs);
        module.attrs.set("stablehlo.attributes", text);
    }
    if !tree.others.is_empty() {
        let texts = tree.others.iter().map(|text| Attr::str(text)).collect();
        module.attrs.set("stablehlo.others", Attr::Array(texts));
    }
    let entry = crate::translate::entry(tree);
    for func in &mut module.funcs {
        let stated = func.attrs.str("hlo.name").unwrap_or(&func.name).to_owned();
        let found = tree.funcs.iter().enumerate().find(|(i, made)| {
            let main = Some(*i) == entry && &*func.name == "main";
            main || (Some(*i) != entry && made.name == names.original(&stated))
        });
        if let Some((_, made)) = found {
            mark(func, made, aliases);
        }
    }
}

fn mark(func: &mut Func, made: &optc_mlir_syntax::Func<'_>, aliases: &Aliases<'_>) {
    let results = func.results.len();
    for (number, text) in made.arg_attrs.iter().enumerate() {
        let Some(port) = func.arg_ports.get_mut(number).filter(|_| !text.is_empty()) else {
            continue;
        };
        port.attrs.set("stablehlo.attrs", kept(text, aliases));
        let alias = field(text, "tf.aliasing_output").and_then(int);
        if let Some(result) = alias.and_then(|n| usize::try_from(n).ok())
            && result < results
        {
            port.attrs.set("hbir.alias", Attr::ints(&[result]));
        }
    }
    for (number, text) in made.result_attrs.iter().enumerate() {
        if let Some(port) = func
            .result_ports
            .get_mut(number)
            .filter(|_| !text.is_empty())
        {
            port.attrs.set("stablehlo.attrs", kept(text, aliases));
        }
    }
}

/// A dictionary with its aliases expanded.
fn kept(text: &str, aliases: &Aliases<'_>) -> Attr {
    let op = optc_mlir_syntax::Op {
        text,
        ..optc_mlir_syntax::Op::default()
    };
    let text = optc_mlir_syntax::verbatim(&op, aliases, &crate::syntax::MLIR, |_| false).text;
    Attr::Str(Arc::from(text))
}
