//! Splits over a mesh in the text of a module: `MESH`, the splits of arguments, weights and results, and the functions
//! that place them.
//!
//! Example: `hbir.sharding_constraint` with `split = ["data:4", ""]` is the line `_shard(x, "data", None)`, and an
//! argument that is split so has the entry `((8, 64), (8, 64), ("data", None))`: its shape, its digits, their axes.
//!
//! A mesh of JAX has no parts of axes. An axis of which a part splits some value is several axes here: `model` of 8
//! devices, of which 4 split one dimension and 2 another, is `model0` and `model1`.

use super::words::{quoted, tuple};
use crate::codes;
use optc_ir::shard::{self, Mesh, Sharding};
use optc_ir::{Diagnostic, Func, Module, Op, Operation, Value};
use optc_ops::{AxisPart, DimSplit, ShardingConstraint, StatedSplit, stated_split};
use std::collections::BTreeSet;
use std::fmt::Write;

/// The mesh of a module, its axes cut where a part of one splits a value.
pub(super) struct Shards {
    pub(super) mesh: Mesh,
    /// The cuts of each axis: the extents before them, from 1 to the extent of the axis.
    cuts: Vec<BTreeSet<u64>>,
}

/// The digits of a value as a device has them; `None` if parts differ in extent.
pub(super) fn parts_of(stated: &StatedSplit) -> Option<Vec<u64>> {
    let digits = stated.extents.iter().zip(&stated.splits);
    let own = digits.map(|(&n, split)| {
        let parts: u64 = split.axes.iter().map(|part| part.extent).product();
        n.is_multiple_of(parts).then(|| n / parts)
    });
    own.collect()
}

impl Shards {
    /// The mesh of a module; `None` if it has none.
    pub(super) fn of(module: &Module) -> Result<Option<Shards>, Box<Diagnostic>> {
        let Some(mesh) = shard::mesh(module).ok().flatten() else {
            return Ok(None);
        };
        let ends = mesh
            .axes
            .iter()
            .map(|axis| BTreeSet::from([1, axis.extent]));
        let mut shards = Shards {
            cuts: ends.collect(),
            mesh,
        };
        for func in &module.funcs {
            let constraints = func.body.iter().filter_map(|&op| constraint(func, op));
            let mut all: Vec<Vec<DimSplit>> = constraints.collect();
            for value in func.values.ids() {
                all.extend(shards.value(func, value).map(|stated| stated.splits));
            }
            for number in 0..func.results.len() {
                all.extend(shards.returned(func, number).map(|stated| stated.splits));
            }
            for part in all.iter().flatten().flat_map(|split| &split.axes) {
                shards.cut(part);
            }
        }
        let even = |cuts: &BTreeSet<u64>| {
            let mut pairs = cuts.iter().zip(cuts.iter().skip(1));
            pairs.all(|(low, high)| high.is_multiple_of(*low))
        };
        if let Some(at) = shards.cuts.iter().position(|cuts| !even(cuts)) {
            let axis = &shards.mesh.axes[at];
            let message = format!(
                "found parts of the axis `{axis}` that do not divide one another, wanted parts that are axes of one mesh"
            );
            return Err(Box::new(Diagnostic::error(codes::JAX_MESH, message)));
        }
        Ok(Some(shards))
    }

    fn cut(&mut self, part: &AxisPart) {
        if let (Some(axis), Some(after)) = (self.mesh.axis(&part.name), part.after) {
            self.cuts[axis].extend([after, after.saturating_mul(part.extent)]);
        }
    }

    /// The names of the parts of an axis and their extents.
    fn parts(&self, axis: usize) -> Vec<(u64, u64, String)> {
        let cuts: Vec<u64> = self.cuts[axis].iter().copied().collect();
        let name = &self.mesh.axes[axis].name;
        if cuts.len() < 3 {
            return vec![(1, self.mesh.axes[axis].extent, name.to_string())];
        }
        let part = |(i, pair): (usize, &[u64])| (pair[0], pair[1] / pair[0], format!("{name}{i}"));
        cuts.windows(2).enumerate().map(part).collect()
    }

    /// The axes of each dimension, `"data", None`.
    pub(super) fn split(&self, splits: &[DimSplit]) -> Vec<String> {
        splits.iter().map(|split| self.dim(split)).collect()
    }

    fn dim(&self, split: &DimSplit) -> String {
        let names = |part: &AxisPart| -> Vec<String> {
            let Some(axis) = self.mesh.axis(&part.name) else {
                return Vec::new();
            };
            let from = part.after.unwrap_or(1);
            let inside = |(after, _, _): &&(u64, u64, String)| {
                from <= *after && *after < from.saturating_mul(part.extent)
            };
            let parts = self.parts(axis);
            parts
                .iter()
                .filter(inside)
                .map(|(_, _, name)| quoted(name))
                .collect()
        };
        let names: Vec<String> = split.axes.iter().flat_map(names).collect();
        match names.as_slice() {
            [] if split.open => "P.UNCONSTRAINED".to_owned(),
            [] => "None".to_owned(),
            [one] => one.clone(),
            all => tuple(all),
        }
    }

    pub(super) fn stated(
        &self,
        func: &Func,
        value: Value,
        sharding: &Sharding,
    ) -> Option<StatedSplit> {
        stated_split(sharding, &func.ty(value).as_tensor()?.shape()?, &self.mesh)
    }

    fn value(&self, func: &Func, value: Value) -> Option<StatedSplit> {
        let sharding = shard::stored(func, value, &self.mesh).ok()??;
        self.stated(func, value, &sharding)
    }

    /// The entry of a value that comes from outside: its shape, its digits, and their axes.
    pub(super) fn entry(&self, func: &Func, value: Value) -> Option<String> {
        let shape = func.ty(value).as_tensor()?.shape()?;
        let stated = self.value(func, value)?;
        // JAX places no array whose parts differ in extent.
        parts_of(&stated)?;
        let StatedSplit { extents, splits } = stated;
        Some(tuple([
            tuple(shape),
            tuple(extents),
            tuple(self.split(&splits)),
        ]))
    }

    pub(super) fn returned(&self, func: &Func, number: usize) -> Option<StatedSplit> {
        let sharding = shard::result(func, number, &self.mesh).ok()??;
        self.stated(func, func.results[number], &sharding)
    }

    /// The entry of a result; `None` if no split is stated.
    fn result(&self, func: &Func, number: usize) -> Option<String> {
        let shape = func.ty(func.results[number]).as_tensor()?.shape()?;
        let StatedSplit { extents, splits } = self.returned(func, number)?;
        Some(tuple([
            tuple(shape),
            tuple(extents),
            tuple(self.split(&splits)),
        ]))
    }

    /// The names of some axes: one as it is, several as a tuple.
    pub(super) fn names(&self, axes: &[usize]) -> String {
        let parts = axes.iter().flat_map(|&axis| self.parts(axis));
        let names: Vec<String> = parts.map(|(_, _, name)| quoted(&name)).collect();
        match names.as_slice() {
            [one] => one.clone(),
            all => tuple(all),
        }
    }

    /// The lines that state the mesh and the splits, and the functions for them. `weights` has the keys and entries of
    /// the weights, if main takes any; `by_parts` says that there is a program of one device.
    pub(super) fn text(
        &self,
        entry: &Func,
        weights: Option<&[(String, String)]>,
        by_parts: bool,
    ) -> String {
        let axes = (0..self.mesh.axes.len()).flat_map(|axis| self.parts(axis));
        let axes: Vec<String> = axes
            .map(|(_, n, name)| format!("{}: {n}", quoted(&name)))
            .collect();
        let list = |items: Vec<Option<String>>| {
            let texts = items
                .into_iter()
                .map(|item| item.unwrap_or_else(|| "None".to_owned()));
            texts.collect::<Vec<_>>().join(", ")
        };
        let args = entry.args.iter().map(|&arg| self.entry(entry, arg));
        let results = (0..entry.results.len()).map(|i| self.result(entry, i));
        let mut out = format!(
            "\nMESH = {{{}}}\n# Of each argument and result: its shape, its digits, and their axes of the mesh.\n",
            axes.join(", ")
        );
        let _ = writeln!(out, "IN = [{}]", list(args.collect()));
        let _ = writeln!(out, "OUT = [{}]", list(results.collect()));
        if let Some(weights) = weights {
            out.push_str("WEIGHTS = {\n");
            for (key, entry) in weights {
                let _ = writeln!(out, "    {}: {entry},", quoted(key));
            }
            out.push_str("}\n");
        }
        out.push_str(FUNCTIONS);
        out.push_str(match (weights.is_some(), by_parts) {
            (true, false) => WITH_WEIGHTS,
            (false, false) => WITHOUT_WEIGHTS,
            (true, true) => PARTS_WITH_WEIGHTS,
            (false, true) => PARTS_WITHOUT_WEIGHTS,
        });
        out
    }
}

/// The splits that an operation states, if it does that alone.
pub(super) fn constraint(func: &Func, op: Op) -> Option<Vec<DimSplit>> {
    let op = func.op_ref(op);
    ShardingConstraint::of(&op).ok().map(|made| made.split.0)
}

/// The functions of a module with a mesh.
const FUNCTIONS: &str = r#"

def mesh(devices=None):
    """The mesh of these devices, or of those of JAX."""
    kinds = (jax.sharding.AxisType.Auto,) * len(MESH)
    return jax.make_mesh(tuple(MESH.values()), tuple(MESH), kinds, devices=devices)


def _shard(x, *split):
    """x with its split stated, in a program for a mesh."""
    over = jax.sharding.get_abstract_mesh()
    return x if over.empty else lax.with_sharding_constraint(x, P(*split))


def _placed(x, entry, over):
    """A whole array as its digits, split over a mesh."""
    shape, digits, split = entry or (x.shape, x.shape, ())
    return jax.device_put(np.reshape(x, digits), NamedSharding(over, P(*split)))


def _whole(x, entry):
    """The value of digits."""
    return x.reshape(entry[0]) if entry else x


def whole(found):
    """The results of `sharded`, each in its own shape: one that is split within a dimension comes as its digits."""
    return _whole(found, OUT[0]) if len(OUT) == 1 else tuple(map(_whole, found, OUT))
"#;

/// The function that places what a main with weights takes.
macro_rules! place_weights {
    () => {
        r#"

def place(over, args, weights):
    """Whole arguments and weights as `sharded` takes them."""
    args = [_placed(x, entry, over) for x, entry in zip(args, IN)]
    return args, {key: _placed(x, WEIGHTS.get(key), over) for key, x in weights.items()}
"#
    };
}

/// The same of a main without weights.
macro_rules! place_args {
    () => {
        r#"

def place(over, args):
    """Whole arguments as `sharded` takes them."""
    return [_placed(x, entry, over) for x, entry in zip(args, IN)],
"#
    };
}

/// The splits of the results of a main.
macro_rules! results {
    () => {
        r#"

def _results(over):
    """The splits of the results."""
    whole = [entry and entry[0] == entry[1] for entry in OUT]
    splits = [NamedSharding(over, P(*entry[2])) if same else None for entry, same in zip(OUT, whole)]
    return splits[0] if len(splits) == 1 else tuple(splits)
"#
    };
}

/// The map of `part` over a mesh.
macro_rules! mapped {
    () => {
        r#"

def _split(entry):
    """The axes of the digits of a value."""
    return P(*entry[2]) if entry else P()


def _mapped(over, run, given, splits):
    """The results of a program of one device, on all devices of a mesh, as digits."""
    out = tuple(map(_split, OUT))
    each = jax.shard_map(run, mesh=over, in_specs=splits, out_specs=out if len(out) != 1 else out[0], check_vma=False)
    return each(*given)
"#
    };
}

/// The function for a mesh, of a part that takes weights.
const PARTS_WITH_WEIGHTS: &str = concat!(
    place_weights!(),
    mapped!(),
    r#"

def sharded(over):
    """part on all devices of a mesh, compiled: a function of what `place` returns."""
    def run(args, weights):
        splits = tuple(map(_split, IN)), {key: _split(WEIGHTS.get(key)) for key in weights}
        one = lambda args, weights: part(*args, weights=weights)
        return _mapped(over, one, (tuple(args), weights), splits)
    return jax.jit(run)
"#
);

/// The same of a part without weights.
const PARTS_WITHOUT_WEIGHTS: &str = concat!(
    place_args!(),
    mapped!(),
    r#"

def sharded(over):
    """part on all devices of a mesh, compiled: a function of what `place` returns."""
    return jax.jit(lambda args: _mapped(over, part, args, tuple(map(_split, IN))))
"#
);

/// The function for a mesh, of a main that takes weights.
const WITH_WEIGHTS: &str = concat!(
    place_weights!(),
    results!(),
    r#"

def sharded(over):
    """main on a mesh, compiled: a function of what `place` returns, called under `jax.set_mesh`."""
    def run(args, weights):
        weights = {key: _whole(x, WEIGHTS.get(key)) for key, x in weights.items()}
        return main(*map(_whole, args, IN), weights=weights)
    return jax.jit(run, out_shardings=_results(over))
"#
);

/// The same of a main without weights.
const WITHOUT_WEIGHTS: &str = concat!(
    place_args!(),
    results!(),
    r#"

def sharded(over):
    """main on a mesh, compiled: a function of what `place` returns, called under `jax.set_mesh`."""
    return jax.jit(lambda args: main(*map(_whole, args, IN)), out_shardings=_results(over))
"#
);
