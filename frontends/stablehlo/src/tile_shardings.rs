//! Shardings of GSPMD: `mhlo.sharding` of ports, and calls of `@Sharding`.
//!
//! Example: `{devices=[2,1,4]<=[8] last_tile_dim_replicate}` on a matrix splits its rows in two and leaves the parts to 4
//! devices each. The text names no mesh. The mesh of a module has an axis for each digit of a device's number that some
//! sharding uses, `axis0` the most major: `axis0:2,axis1:4` if this is the only one.
//!
//! A sharding of another form stays as the text that it is: one device (`maximal`), manual, lists of devices that do
//! not count up, several kinds of dimensions behind the tiles. So do all shardings of a module with a mesh of Shardy.

use crate::shardings::{Dim, constraint, set_port, shape_of, sharding};
use optc_ir::shard::{self, Mesh};
use optc_ir::{Func, Module, Op};
use std::collections::BTreeSet;

const KEY: &str = "mhlo.sharding = \"";

/// A part of the number of a device: `(number / stride) % extent`.
type Digit = (u64, u64);

/// Converts the shardings that were kept as text.
pub(crate) fn attach(module: &mut Module) {
    if module.attrs.get(shard::MESH).is_some() {
        return;
    }
    let mut cuts = BTreeSet::from([1]);
    let mut devices = BTreeSet::new();
    for text in module.funcs.iter().flat_map(texts) {
        let Some(tiles) = tiles(&text) else { continue };
        devices.extend(tiles.devices);
        let digits = tiles.dims.iter().flatten();
        cuts.extend(digits.flat_map(|&(stride, extent)| [stride, stride * extent]));
    }
    let &[devices] = devices.into_iter().collect::<Vec<_>>().as_slice() else {
        return;
    };
    cuts.insert(devices);
    let cuts: Vec<u64> = cuts.into_iter().collect();
    if !cuts.windows(2).all(|pair| pair[1].is_multiple_of(pair[0])) {
        return;
    }
    let axes = cuts.windows(2).rev().map(|pair| pair[1] / pair[0]);
    let axes: Vec<String> = axes
        .enumerate()
        .map(|(i, n)| format!("axis{i}:{n}"))
        .collect();
    let Ok(mesh) = Mesh::of(axes.iter().map(String::as_str)) else {
        return;
    };
    module.attrs.set(shard::MESH, mesh.attr());
    let stated = Stated { mesh, cuts };
    for func in &mut module.funcs {
        ports(func, &stated);
        calls(func, &stated);
    }
}

/// The mesh, and the strides of its axes in a device's number, ascending, up to the number of devices.
struct Stated {
    mesh: Mesh,
    cuts: Vec<u64>,
}

impl Stated {
    /// A dimension as axes of the mesh, major to minor.
    fn dim(&self, digits: &[Digit]) -> Dim<'_> {
        let inside = |&(stride, extent): &Digit| {
            let axes = self.mesh.axes.iter().zip(self.cuts.iter().rev().skip(1));
            let own = axes.filter(move |(_, low)| stride <= **low && **low < stride * extent);
            own.map(|(axis, _)| (&*axis.name, None))
        };
        (digits.iter().flat_map(inside).collect(), false)
    }
}

/// The texts of all shardings of a function.
fn texts(func: &Func) -> Vec<String> {
    let ports = func.arg_ports.iter().chain(&func.result_ports);
    let ports = ports.filter_map(|port| port.attrs.str("stablehlo.attrs"));
    let calls = func.body.iter().filter_map(|&op| call(func, op));
    let all = ports.chain(calls).filter_map(stated_in);
    all.map(|(_, text)| text.to_owned()).collect()
}

/// The place of a sharding in the text of attributes, and the sharding.
fn stated_in(text: &str) -> Option<(std::ops::Range<usize>, &str)> {
    let at = text.find(KEY)?;
    let from = at + KEY.len();
    let length = text[from..].find('"')?;
    Some((at..from + length + 1, &text[from..from + length]))
}

/// The text of a call that states a sharding.
fn call(func: &Func, op: Op) -> Option<&str> {
    let props = &func.ops[op].props;
    let text = props.str("hlo.text")?;
    let is_call = props.str("kind") == Some("stablehlo.custom_call");
    (is_call && text.starts_with("stablehlo.custom_call @Sharding(")).then_some(text)
}

/// The digits of a device's number that split each dimension, major to minor.
struct Tiles {
    dims: Vec<Vec<Digit>>,
    /// The number of devices; `None` if nothing is split.
    devices: Option<u64>,
}

/// Reads `{replicated}`, `{devices=[2,4]<=[8]}`, `{devices=[2,4]<=[4,2]T(1,0)}` or `{devices=[2,2]0,1,2,3}`, each but the first
/// also with `last_tile_dim_replicate`.
fn tiles(text: &str) -> Option<Tiles> {
    let inner = text.strip_prefix('{')?.strip_suffix('}')?;
    if inner == "replicated" {
        return Some(Tiles {
            dims: Vec::new(),
            devices: None,
        });
    }
    let (extents, rest) = inner.strip_prefix("devices=[")?.split_once(']')?;
    let extents = numbers(extents)?;
    let (devices, flags) = rest.split_once(' ').unwrap_or((rest, ""));
    let replicated = match flags {
        "" => false,
        "last_tile_dim_replicate" => true,
        _ => return None,
    };
    let count = extents.iter().try_fold(1u64, |n, e| n.checked_mul(*e))?;
    let mut digits = ordered(devices, count)?;
    let mut dims = Vec::with_capacity(extents.len());
    for extent in extents.into_iter().rev() {
        dims.push(last(&mut digits, extent)?);
    }
    dims.reverse();
    if replicated {
        dims.pop();
    }
    Some(Tiles {
        dims,
        devices: Some(count),
    })
}

fn numbers(text: &str) -> Option<Vec<u64>> {
    let number = |text: &str| text.trim().parse().ok().filter(|&n: &u64| 0 < n);
    text.split(',').map(number).collect()
}

/// The digits of the numbers of devices in their order, major to minor: `<=[4,2]T(1,0)`, or all numbers one by one.
fn ordered(text: &str, count: u64) -> Option<Vec<Digit>> {
    let Some(rest) = text.strip_prefix("<=[") else {
        let up = text.split(',').map(|n| n.parse().ok());
        return up.eq((0..count).map(Some)).then(|| vec![(1, count)]);
    };
    let (extents, rest) = rest.split_once(']')?;
    let extents = numbers(extents)?;
    let mut stride = 1u64;
    let mut digits = Vec::with_capacity(extents.len());
    for &extent in extents.iter().rev() {
        digits.push((stride, extent));
        stride = stride.checked_mul(extent)?;
    }
    digits.reverse();
    if stride != count {
        return None;
    }
    if rest.is_empty() {
        return Some(digits);
    }
    let perm = rest.strip_prefix("T(")?.strip_suffix(')')?;
    let perm: Option<Vec<usize>> = perm.split(',').map(|p| p.trim().parse().ok()).collect();
    let perm = perm.filter(|perm| {
        let all: BTreeSet<usize> = perm.iter().copied().collect();
        perm.len() == digits.len() && all.len() == perm.len()
    })?;
    perm.iter().map(|&p| digits.get(p).copied()).collect()
}

/// Takes the most minor digits with this product, major to minor; `None` if a digit is cut unevenly.
fn last(digits: &mut Vec<Digit>, mut extent: u64) -> Option<Vec<Digit>> {
    let mut own = Vec::new();
    while extent != 1 {
        let (stride, n) = digits.pop()?;
        if extent.is_multiple_of(n) {
            if n != 1 {
                own.push((stride, n));
            }
            extent /= n;
        } else if n.is_multiple_of(extent) {
            digits.push((stride * extent, n / extent));
            own.push((stride, extent));
            extent = 1;
        } else {
            return None;
        }
    }
    own.reverse();
    Some(own)
}

/// Replaces the text of the sharding of each port by its splits.
fn ports(func: &mut Func, stated: &Stated) {
    let args: Vec<_> = func.args.iter().map(|&v| shape_of(func, v)).collect();
    let results: Vec<_> = func.results.iter().map(|&v| shape_of(func, v)).collect();
    let all = func.arg_ports.iter_mut().zip(args);
    for (port, shape) in all.chain(func.result_ports.iter_mut().zip(results)) {
        let text = port.attrs.str("stablehlo.attrs").map(str::to_owned);
        let found = text.as_deref().and_then(|text| {
            let (place, text) = stated_in(text)?;
            let tiles = tiles(text)?;
            let mut dims: Vec<Dim<'_>> = tiles.dims.iter().map(|dim| stated.dim(dim)).collect();
            let shape = shape?;
            if tiles.devices.is_none() {
                dims = vec![Dim::default(); shape.len()];
            }
            Some((place, sharding(&dims, &shape, &stated.mesh)?))
        });
        if let (Some(text), Some((place, sharding))) = (text, found) {
            let attr = shard::attr(&sharding, &stated.mesh);
            set_port(port, &text, place, attr);
        }
    }
}

/// Replaces the calls that state a sharding.
fn calls(func: &mut Func, stated: &Stated) {
    for &op in &func.body {
        let Some((_, text)) = call(func, op).and_then(stated_in) else {
            continue;
        };
        let Some(tiles) = tiles(text) else { continue };
        let rank = func.ops[op].operands.first();
        let rank = rank
            .and_then(|&v| func.ty(v).as_tensor())
            .map(optc_ir::TensorType::rank);
        let mut dims: Vec<Dim<'_>> = tiles.dims.iter().map(|dim| stated.dim(dim)).collect();
        if tiles.devices.is_none() {
            dims = vec![Dim::default(); rank.unwrap_or(0)];
        }
        if Some(dims.len()) == rank {
            constraint(&mut func.ops[op], &dims, &stated.mesh);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tiles_are_digits_of_the_numbers_of_devices() {
        let dims = |text: &str| tiles(text).map(|tiles| tiles.dims);
        let some = |dims: &[&[Digit]]| Some(dims.iter().map(|d| d.to_vec()).collect::<Vec<_>>());
        let plain = dims("{devices=[2,1,4]<=[8] last_tile_dim_replicate}");
        assert_eq!(plain, some(&[&[(4, 2)], &[]]));
        assert_eq!(
            dims("{devices=[1,2,4]<=[4,2]T(1,0) last_tile_dim_replicate}"),
            some(&[&[], &[(1, 2)]])
        );
        assert_eq!(
            dims("{devices=[4,2]<=[2,2,2]T(0,2,1)}"),
            some(&[&[(4, 2), (1, 2)], &[(2, 2)]])
        );
        assert_eq!(
            dims("{devices=[2,2]0,1,2,3}"),
            some(&[&[(2, 2)], &[(1, 2)]])
        );
        assert_eq!(dims("{replicated}"), some(&[]));
        for kept in [
            "{maximal device=0}",
            "{manual}",
            "{devices=[2,2]0,2,1,3}",
            "{devices=[2,2]<=[8]}",
            "{devices=[2,2]<=[2,2]T(0,0)}",
            "{devices=[2,0]<=[0]}",
            "{devices=[3,2]<=[2,3]}",
            "{devices=[1,2,4]<=[8] last_tile_dims={manual}}",
            "{devices=[2",
        ] {
            assert!(dims(kept).is_none(), "{kept}");
        }
    }
}
