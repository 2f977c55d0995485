//! Shardings in the form of Shardy: the mesh, attributes of ports, and constraints.

use optc_ir::shard::{self, Mesh};
use optc_ir::{Attr, Func, Module};
use optc_ops::{AxisPart, DimSplit, stated_split};
use std::fmt::Write;

/// The mesh of a module, by its name in the text.
pub(super) struct Named {
    name: String,
    pub(super) mesh: Mesh,
}

/// The mesh of a module, if it has one.
pub(super) fn named(module: &Module) -> Option<Named> {
    let mesh = shard::mesh(module).ok()??;
    let kept = others(module).find_map(|other| {
        let (name, rest) = other.strip_prefix("sdy.mesh @")?.split_once(" = ")?;
        rest.starts_with(&axes(&mesh)).then(|| name.to_owned())
    });
    let name = kept.unwrap_or_else(|| "mesh".to_owned());
    Some(Named { name, mesh })
}

/// The operations beside the functions, as they were read.
pub(super) fn others(module: &Module) -> impl Iterator<Item = &str> {
    let others = module.attrs.get("stablehlo.others");
    let others = others.and_then(Attr::as_array).unwrap_or_default();
    others.iter().filter_map(Attr::as_str)
}

/// The line of the mesh; `None` if it is among the operations that were read.
pub(super) fn line(module: &Module, named: &Named) -> Option<String> {
    let text = format!("sdy.mesh @{} = {}", named.name, axes(&named.mesh));
    let known = others(module).any(|other| other.starts_with(&text));
    (!known).then(|| text + ">")
}

fn axes(mesh: &Mesh) -> String {
    let axis = |axis: &shard::MeshAxis| format!("\"{}\"={}", axis.name, axis.extent);
    let axes: Vec<String> = mesh.axes.iter().map(axis).collect();
    format!("<[{}]", axes.join(", "))
}

impl Named {
    /// The sharding `#sdy.sharding<@mesh, [{"data"}, {?}]>`.
    pub(super) fn sharding(&self, splits: &[DimSplit]) -> String {
        let dims: Vec<String> = splits.iter().map(dim).collect();
        format!("#sdy.sharding<@{}, [{}]>", self.name, dims.join(", "))
    }

    /// The sharding of an argument or result, unless its text states one.
    pub(super) fn port(&self, func: &Func, number: usize, result: bool) -> Option<String> {
        let (found, value) = match result {
            true => (
                shard::result(func, number, &self.mesh),
                func.results.get(number)?,
            ),
            false => (
                shard::argument(func, number, &self.mesh),
                func.args.get(number)?,
            ),
        };
        let shape = func.ty(*value).as_tensor()?.shape()?;
        let stated = stated_split(&found.ok()??, &shape, &self.mesh)?;
        // A port keeps its dimensions; a split of an inner digit is left to the constraint behind it.
        (stated.extents == shape).then(|| self.sharding(&stated.splits))
    }
}

/// The axes of a dimension in braces.
fn dim(split: &DimSplit) -> String {
    let axis = |axis: &AxisPart| {
        let mut text = format!("\"{}\"", axis.name);
        if let Some(after) = axis.after {
            let _ = write!(text, ":({after}){}", axis.extent);
        }
        text
    };
    let open = split.open.then(|| "?".to_owned());
    let axes: Vec<String> = split.axes.iter().map(axis).chain(open).collect();
    format!("{{{}}}", axes.join(", "))
}
