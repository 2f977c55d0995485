//! Shardings of Shardy: the mesh, the splits of arguments and results, and `sdy.sharding_constraint`.
//!
//! A module with one mesh gets it as `hbir.mesh`, its ports their splits as `hbir.shard`, and each constraint becomes an
//! `hbir.sharding_constraint`. A sharding of another form stays as the text that it is: one with priorities, with axes
//! that are explicitly replicated or unreduced, or of a port that leaves a dimension open. So do the shardings of a
//! module with several meshes.

use optc_ir::shard::{self, Mesh, Sharding};
use optc_ir::{Attr, AttrDict, Func, Module, OpData, Port};
use std::ops::Range;
use std::sync::Arc;

/// The name of the operation for a constraint.
const CONSTRAINT: &str = "hbir.sharding_constraint";

/// The mesh of a module.
struct Stated<'a> {
    name: &'a str,
    mesh: Mesh,
}

/// A dimension: its axes, major to minor, each with the extent before it if it is a part of an axis, and true if it is
/// open.
pub(crate) type Dim<'t> = (Vec<(&'t str, Option<(u64, u64)>)>, bool);

/// Converts the shardings that were kept as text.
pub(crate) fn attach(module: &mut Module) {
    let others = module.attrs.get("stablehlo.others").cloned();
    let texts = others.as_ref().and_then(Attr::as_array).unwrap_or_default();
    let meshes = texts
        .iter()
        .filter_map(|text| text.as_str()?.strip_prefix("sdy.mesh @"));
    let mut meshes = meshes.filter(|text| !text.contains("<[]"));
    let (Some(text), None) = (meshes.next(), meshes.next()) else {
        return;
    };
    let Some(stated) = stated(text) else {
        return;
    };
    module.attrs.set(shard::MESH, stated.mesh.attr());
    for func in &mut module.funcs {
        ports(func, &stated);
        constraints(func, &stated);
    }
}

/// The mesh of the text `mesh = <["data"=4, "model"=2]>`.
fn stated(text: &str) -> Option<Stated<'_>> {
    let (name, rest) = text.split_once(" = <[")?;
    let (axes, _) = rest.split_once(']')?;
    let axis = |text: &str| {
        let (name, extent) = text.trim().strip_prefix('"')?.split_once("\"=")?;
        Some(format!("{name}:{extent}"))
    };
    let axes: Option<Vec<String>> = axes.split(',').map(axis).collect();
    let mesh = Mesh::of(axes?.iter().map(String::as_str)).ok()?;
    Some(Stated { name, mesh })
}

/// The dimensions of a sharding `<@mesh, [{"data"}, {?}]>` of this mesh, and the text behind it.
fn dims<'t>(text: &'t str, stated: &Stated<'_>) -> Option<(Vec<Dim<'t>>, &'t str)> {
    let rest = text.strip_prefix("<@")?.strip_prefix(stated.name)?;
    let (list, rest) = rest.strip_prefix(", [")?.split_once(']')?;
    let rest = rest.strip_prefix('>')?;
    let mut dims = Vec::new();
    let mut left = list.trim();
    while let Some(inner) = left.strip_prefix('{') {
        let (inner, after) = inner.split_once('}')?;
        let mut dim: Dim<'t> = (Vec::new(), false);
        for word in inner
            .split(',')
            .map(str::trim)
            .filter(|word| !word.is_empty())
        {
            match word {
                _ if dim.1 => return None,
                "?" => dim.1 = true,
                axis => dim.0.push(axis_of(axis, &stated.mesh)?),
            }
        }
        dims.push(dim);
        left = after.trim_start_matches([',', ' ']);
    }
    left.is_empty().then_some((dims, rest))
}

/// An axis `"model"` of the mesh, or a part `"model":(1)2` of one.
fn axis_of<'t>(text: &'t str, mesh: &Mesh) -> Option<(&'t str, Option<(u64, u64)>)> {
    let (name, part) = text.strip_prefix('"')?.split_once('"')?;
    mesh.axis(name)?;
    if part.is_empty() {
        return Some((name, None));
    }
    let (after, extent) = part.strip_prefix(":(")?.split_once(')')?;
    Some((name, Some((after.parse().ok()?, extent.parse().ok()?))))
}

/// Replaces the text of the sharding of each port by its splits.
fn ports(func: &mut Func, stated: &Stated<'_>) {
    let args: Vec<_> = func.args.iter().map(|&v| shape_of(func, v)).collect();
    let results: Vec<_> = func.results.iter().map(|&v| shape_of(func, v)).collect();
    let all = func.arg_ports.iter_mut().zip(args);
    for (port, shape) in all.chain(func.result_ports.iter_mut().zip(results)) {
        let Some(text) = port.attrs.str("stablehlo.attrs") else {
            continue;
        };
        let text = text.to_owned();
        if let Some((attr, place)) = shape.and_then(|shape| port_of(&text, &shape, stated)) {
            set_port(port, &text, place, attr);
        }
    }
}

/// Puts the splits of a port in the place of their text among its attributes.
pub(crate) fn set_port(port: &mut Port, text: &str, place: Range<usize>, attr: Attr) {
    port.attrs.set(shard::PORT_SHARD, attr);
    let before = text[..place.start].trim_end_matches([',', ' ']);
    let after = text[place.end..].trim_start_matches([',', ' ']);
    let comma = if before == "{" || after == "}" {
        ""
    } else {
        ", "
    };
    let rest = format!("{before}{comma}{after}");
    match rest == "{}" {
        true => _ = port.attrs.remove("stablehlo.attrs"),
        false => port.attrs.set("stablehlo.attrs", Attr::str(&rest)),
    }
}

pub(crate) fn shape_of(func: &Func, value: optc_ir::Value) -> Option<Vec<u64>> {
    func.ty(value).as_tensor()?.shape()
}

/// The splits that the attributes of a port state, and their place in the text.
fn port_of(text: &str, shape: &[u64], stated: &Stated<'_>) -> Option<(Attr, Range<usize>)> {
    let key = "sdy.sharding = #sdy.sharding";
    let at = text.find(key)?;
    let (dims, after) = dims(&text[at + key.len()..], stated)?;
    let sharding = sharding(&dims, shape, &stated.mesh)?;
    let attr = shard::attr(&sharding, &stated.mesh);
    Some((attr, at..text.len() - after.len()))
}

/// The splits of closed dimensions; `None` where a dimension is open, an axis is split, or extents do not divide.
pub(crate) fn sharding(dims: &[Dim<'_>], shape: &[u64], mesh: &Mesh) -> Option<Sharding> {
    if dims.len() != shape.len() {
        return None;
    }
    let mut sharding = Sharding::replicated();
    for (dim, ((parts, open), &size)) in dims.iter().zip(shape).enumerate() {
        let (mut axes, mut left) = (Vec::new(), size);
        for (name, part) in parts {
            let axis = mesh.axis(name).filter(|_| part.is_none())?;
            let extent = mesh.axes[axis].extent;
            if !left.is_multiple_of(extent) {
                return None;
            }
            left /= extent;
            if extent != 1 {
                axes.push(axis);
            }
        }
        if *open {
            return None;
        }
        sharding = sharding.with_axes(dim, size, &axes, mesh).ok()?;
    }
    Some(sharding)
}

/// Replaces the operations that state a sharding.
fn constraints(func: &mut Func, stated: &Stated<'_>) {
    for &op in &func.body {
        let data = &mut func.ops[op];
        if data.props.str("kind") != Some("sdy.sharding_constraint") {
            continue;
        }
        let text = data.props.str("hlo.text").unwrap_or_default();
        let stated_dims = text.find("<@").and_then(|at| dims(&text[at..], stated));
        let Some((dims, _)) = stated_dims else {
            continue;
        };
        // The dimensions are those of the text, which the replacement drops.
        let dims: Vec<String> = dims.iter().map(|dim| dim_text(dim, &stated.mesh)).collect();
        replace(data, &dims);
    }
}

/// Makes an operation one that states these dimensions.
pub(crate) fn constraint(data: &mut OpData, dims: &[Dim<'_>], mesh: &Mesh) {
    let dims: Vec<String> = dims.iter().map(|dim| dim_text(dim, mesh)).collect();
    replace(data, &dims);
}

fn replace(data: &mut OpData, dims: &[String]) {
    let mut props = AttrDict::default();
    let texts = dims.iter().map(|dim| Attr::str(dim));
    props.set("split", Attr::Array(texts.collect()));
    data.name = Arc::from(CONSTRAINT);
    data.props = props;
}

/// A dimension as the operation states it, `data:4 model:(1)2 ?`.
fn dim_text((axes, open): &Dim<'_>, mesh: &Mesh) -> String {
    let axis = |(name, part): &(&str, Option<(u64, u64)>)| match part {
        Some((after, extent)) => format!("{name}:({after}){extent}"),
        None => {
            let extent = mesh.axis(name).map_or(1, |axis| mesh.axes[axis].extent);
            format!("{name}:{extent}")
        }
    };
    let words: Vec<String> = axes
        .iter()
        .map(axis)
        .chain(open.then(|| "?".to_owned()))
        .collect();
    words.join(" ")
}
