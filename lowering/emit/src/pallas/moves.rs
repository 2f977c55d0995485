//! Collectives between the parts of devices, as calls of helper functions.
//!
//! Example: `_gather(x, "model", ((1, 4, 8),))` gathers a value of which `model` splits a digit of dimension 1: 8 parts,
//! each of 4 elements that are neighbours on a device.

use super::shards::Shards;
use super::whole::Parts;
use super::words::tuple;
use optc_check::mesh::{Kind, Step, steps};
use optc_ir::Partial;
use optc_ir::shard::{Held, Piece, Sharding, Split};
use std::collections::BTreeSet;

/// The value in another sharding; `None` if no collectives of `lax` do that.
///
/// A whole value is one of a partial sum where all devices but the first have zeros.
pub(super) fn converted(
    mut text: String,
    from: &Sharding,
    to: &Sharding,
    parts: &mut Parts,
) -> Option<String> {
    let shards = parts.shards.clone()?;
    let partial = |s: &&Split| matches!(s.held, Held::Partial(Partial::Add));
    let sums: Vec<usize> = to.splits().iter().filter(partial).map(|s| s.axis).collect();
    if !sums.is_empty() {
        let whole = sums.iter().fold(to.clone(), |all, &axis| all.without(axis));
        parts.helpers.insert("_once");
        return (whole == *from).then(|| format!("_once({text}, {})", shards.names(&sums)));
    }
    for made in steps(from, to, parts.links.as_ref()?)? {
        text = step(&text, &made, &shards, &mut parts.helpers)?;
    }
    Some(text)
}

/// The value after a step of a conversion; `None` for partial results that are not combined by `lax`.
fn step(
    x: &str,
    step: &Step,
    shards: &Shards,
    helpers: &mut BTreeSet<&'static str>,
) -> Option<String> {
    let &[axis, ..] = &step.axes[..] else {
        return None;
    };
    let name = shards.names(&[axis]);
    let mut call = |helper: &'static str, rest: String| {
        helpers.extend(["_in", "_out", helper]);
        Some(format!("{helper}({x}, {name}, {rest})"))
    };
    let (before, after) = (digits(&step.from, axis), digits(&step.to, axis));
    match step.kind {
        None => call("_take", after?),
        Some(Kind::AllGather) => call("_gather", before?),
        Some(Kind::AllToAll) => {
            // The new digits are taken out of what is left of the value by all present splits.
            let (from, to) = (step.from.on(axis)?, step.to.on(axis)?);
            let there = positions(to.pieces(), &step.from);
            let here = positions(from.pieces(), &step.to);
            call("_exchange", format!("{here}, {there}"))
        }
        Some(Kind::Permute) => {
            let n: u64 = {
                let pieces = step.from.on(axis).or_else(|| step.to.on(axis))?.pieces();
                pieces.iter().map(|p| p.extent).product()
            };
            helpers.insert("_swap");
            Some(format!("_swap({x}, {}, {n})", shards.names(&step.axes)))
        }
        Some(Kind::ReduceScatter) => match partial(&step.from, axis)? {
            Partial::Add => call("_scatter", after?),
            kind => {
                let all = combined(x, &name, kind)?;
                helpers.extend(["_in", "_out", "_take"]);
                Some(format!("_take({all}, {name}, {})", after?))
            }
        },
        Some(Kind::AllReduce) => combined(x, &name, partial(&step.from, axis)?),
    }
}

fn partial(sharding: &Sharding, axis: usize) -> Option<Partial> {
    match sharding.on(axis)?.held {
        Held::Partial(partial) => Some(partial),
        Held::Digits(_) => None,
    }
}

/// The combination of partial results.
fn combined(x: &str, axis: &str, kind: Partial) -> Option<String> {
    Some(match kind {
        Partial::Add => format!("lax.psum({x}, {axis})"),
        Partial::Max => format!("lax.pmax({x}, {axis})"),
        Partial::Min => format!("lax.pmin({x}, {axis})"),
        Partial::Multiply => format!("jnp.prod(lax.all_gather({x}, {axis}), axis=0)"),
        Partial::Mean => return None,
    })
}

/// The digits that an axis splits, as they are put between those that the device has beside the other splits.
fn digits(sharding: &Sharding, axis: usize) -> Option<String> {
    let split = sharding.on(axis)?;
    let others = sharding.clone().without(axis);
    Some(positions(split.pieces(), &others))
}

/// For each digit its dimension, the elements below it on the device, and its extent. The digits of `others` are not on
/// the device, nor are those behind the digit in the list.
fn positions(pieces: &[Piece], others: &Sharding) -> String {
    let entry = |(i, piece): (usize, &Piece)| {
        let gone = others.pieces().map(|(_, p)| p).chain(&pieces[i + 1..]);
        let below = gone.filter(|p| p.dim == piece.dim && p.stride < piece.stride);
        let parts: u64 = below.map(|p| p.extent).product();
        tuple([piece.dim as u64, piece.stride / parts.max(1), piece.extent])
    };
    tuple(pieces.iter().enumerate().map(entry))
}

/// The helper functions: name and text.
pub(super) const HELPERS: &[(&str, &str)] = &[
    (
        "_exchange",
        r#"def _exchange(x, axis, here, there):
    """x with digits that an axis split on the device, and others split."""
    return _in(lax.all_to_all(_out(x, there), axis, 0, 0, tiled=True), here)
"#,
    ),
    (
        "_gather",
        r#"def _gather(x, axis, digits):
    """x with the digits that an axis split."""
    return _in(lax.all_gather(x, axis), digits)
"#,
    ),
    (
        "_in",
        r#"def _in(x, digits):
    """x with its first dimension put inside: of each digit the dimension, the elements below it, and its extent."""
    for dim, low, extent in digits:
        n, shape = x.shape[0] // extent, x.shape[1:]
        x = x.reshape(extent, n, *shape[:dim], shape[dim] // low, low, *shape[dim + 1:])
        x = jnp.moveaxis(x, 0, dim + 2)
        x = x.reshape(n, *shape[:dim], shape[dim] * extent, *shape[dim + 1:])
    return x[0]
"#,
    ),
    (
        "_once",
        r#"def _once(x, axes):
    """x on the first device of the axes, 0 on the others."""
    return jnp.where(lax.axis_index(axes) == 0, x, jnp.zeros_like(x))
"#,
    ),
    (
        "_out",
        r#"def _out(x, digits):
    """x with digits as its first dimension; the inverse of _in."""
    x = x[None]
    for dim, low, extent in reversed(digits):
        n, shape = x.shape[0], x.shape[1:]
        high = shape[dim] // (low * extent)
        x = x.reshape(n, *shape[:dim], high, extent, low, *shape[dim + 1:])
        x = jnp.moveaxis(x, dim + 2, 0)
        x = x.reshape(extent * n, *shape[:dim], high * low, *shape[dim + 1:])
    return x
"#,
    ),
    (
        "_scatter",
        r#"def _scatter(x, axis, digits):
    """The device's part of the sum over an axis."""
    return lax.psum_scatter(_out(x, digits), axis)
"#,
    ),
    (
        "_swap",
        r#"def _swap(x, axes, n):
    """x of the device whose coordinates along the two axes, of n devices each, are exchanged."""
    return lax.ppermute(x, axes, [(i * n + j, j * n + i) for i in range(n) for j in range(n)])
"#,
    ),
    (
        "_take",
        r#"def _take(x, axis, digits):
    """The device's part of x along an axis."""
    return lax.dynamic_index_in_dim(_out(x, digits), lax.axis_index(axis), 0, keepdims=False)
"#,
    ),
];
