//! The functions and conditions that equations of local rules may name.

use crate::names_of_rules::{Arg, Named};
use crate::rules::{Refusal, Site, ensure};
use optc_ir::size::Size;
use optc_ir::{Attr, Attributes, Dim, TensorType, Value};
use optc_ops::{
    Bound, Bounds, Constant, Gather, Pad, Reshape, Slice, Transpose, dense_tensor, may_reshape,
};

/// All of them.
pub(crate) const NAMED: &[Named] = &[
    Named::Attribute("compose", compose),
    Named::Attribute("result-shape", |site, _| {
        let dims = &tensor(site, site.result(0)?)?.dims;
        ensure(one_unknown(dims), "two sizes are unknown")?;
        attr(&Reshape::of_dims(dims), "shape")
    }),
    Named::Attribute("block-shape", |site, _| {
        let shape: Option<Vec<u64>> = blocks(site)?.shape.iter().map(Dim::fixed).collect();
        Ok(Attr::ints(&shape.ok_or(Refusal("a size is unknown"))?))
    }),
    Named::Attribute("block-perm", |site, _| Ok(Attr::ints(&blocks(site)?.perm))),
    Named::Attribute("index-start", |site, _| attr(&picked(site)?, "starts")),
    Named::Attribute("index-limit", |site, _| attr(&picked(site)?, "limits")),
    Named::Condition("same-type", |site, args| {
        let [a, b] = args else {
            return Err(Refusal("wanted two values"));
        };
        let same = site.func.ty(a.value()?) == site.func.ty(b.value()?);
        ensure(same, "the types differ")
    }),
    Named::Condition("identity", |_, args| {
        let perm = perm(args.first())?;
        let stays = perm.iter().enumerate().all(|(i, &p)| i == p);
        ensure(stays, "the axes move")
    }),
    Named::Condition("known-sizes", |site, args| {
        let dims = &tensor(site, value(args)?)?.dims;
        ensure(!dims.contains(&Dim::Unknown), "a size is unknown")
    }),
    Named::Condition("fixed-sizes", |site, args| {
        let shape = tensor(site, value(args)?)?.shape();
        ensure(shape.is_some(), "a size is unknown")
    }),
    Named::Condition("repeats-nothing", |site, args| {
        let long = |value| -> Result<Vec<Dim>, Refusal> {
            let dims = tensor(site, value)?.dims.iter();
            Ok(dims.filter(|d| !d.is_one()).cloned().collect())
        };
        let (x, y) = (long(value(args)?)?, long(site.result(0)?)?);
        ensure(x == y, "the result has more elements")?;
        ensure(!x.contains(&Dim::Unknown), "a size is unknown")
    }),
    Named::Condition("steps-of-one", |site, _| {
        let steps = site.typed::<Slice>()?.strides.unwrap_or_default();
        ensure(steps.iter().all(|&s| s == 1), "the slice strides")
    }),
    Named::Condition("pads-nothing", |site, _| {
        let pad = site.typed::<Pad>()?;
        let mut amounts = pad.low.iter().chain(&pad.high).flatten().copied();
        ensure(amounts.all(|n| n == 0), "the pad adds or takes elements")
    }),
    // Through unknown sizes, an invalid program may demand another number of elements.
    Named::Condition("may-reshape", |site, args| {
        let (x, y) = (tensor(site, value(args)?)?, tensor(site, site.result(0)?)?);
        ensure(
            may_reshape(&x.dims, &y.dims),
            "the reshapes do not fit each other",
        )
    }),
];

/// The type of a value that is a tensor.
pub(super) fn tensor<'a>(site: &Site<'a>, value: Value) -> Result<&'a TensorType, Refusal> {
    site.func.ty(value).as_tensor().ok_or(Refusal("no tensor"))
}

fn value(args: &[Arg<'_>]) -> Result<Value, Refusal> {
    args.first().ok_or(Refusal("wanted a value"))?.value()
}

fn one_unknown(dims: &[Dim]) -> bool {
    dims.iter().filter(|d| matches!(d, Dim::Unknown)).count() <= 1
}

/// An attribute as an operation writes it.
fn attr(op: &impl Attributes, name: &str) -> Result<Attr, Refusal> {
    let attr = op.write().get(name).cloned();
    attr.ok_or(Refusal("the operation has no such attribute"))
}

fn perm(arg: Option<&Arg<'_>>) -> Result<Vec<usize>, Refusal> {
    let ints = arg
        .ok_or(Refusal("wanted a permutation"))?
        .attr()?
        .as_ints();
    let ints = ints.ok_or(Refusal("the attributes do not fit"))?;
    let axis = |p: i64| usize::try_from(p).map_err(|_| Refusal("a negative axis"));
    ints.into_iter().map(axis).collect()
}

/// The permutation that is the first one and then the second one.
fn compose(_: &Site<'_>, args: &[Arg<'_>]) -> Result<Attr, Refusal> {
    let (p, q) = (perm(args.first())?, perm(args.get(1))?);
    let both: Option<Vec<usize>> = q.iter().map(|&i| p.get(i).copied()).collect();
    let both = both.ok_or(Refusal("the ranks differ"))?;
    attr(&Transpose::of_perm(&both), "perm")
}

/// The reshape and the transpose that an operation on blocks is.
fn blocks(site: &Site<'_>) -> Result<optc_ir::op::ViewDims, Refusal> {
    let view = site.registry.rearrangement(&site.op_ref());
    view.map_err(|_| Refusal("the block does not divide the operand"))
}

/// The slice of a gather's operand that its one index names.
fn picked(site: &Site<'_>) -> Result<Slice, Refusal> {
    let gather = site.typed::<Gather>()?;
    let from = tensor(site, site.operand(0)?)?;
    let sizes: Option<Vec<Size>> = from.dims.iter().map(Dim::size).collect();
    let sizes = sizes.ok_or(Refusal("a size is unknown"))?;
    let axis = gather.along(&site.op_ref());
    let axis = axis.map_err(|_| Refusal("there is no such axis"))?;
    let constant = site.producer::<Constant>(1)?.typed::<Constant>()?;
    let dense = match &constant.value {
        Some(Attr::Dense(dense)) => dense,
        _ => return Err(Refusal("the index lies in a file")),
    };
    let index = dense_tensor(dense).map_err(|_| Refusal("the index has no elements"))?;
    ensure(index.len() == 1, "there are several indices")?;
    let index = i128::from(index.i64_at(0));
    // The fewest positions that the axis must have.
    let least = if index < 0 { -index } else { index + 1 };
    ensure(
        sizes[axis].is_at_least(least),
        "the index may be out of bounds",
    )?;
    let past = |n: i128| match index < 0 {
        true => sizes[axis].plus(&Size::constant(index + n)),
        false => Some(Size::constant(index + n)),
    };
    let (at, end) = (past(0).zip(past(1))).ok_or(Refusal("the index has no notation"))?;
    let one = |dim: usize, of_axis: &Size, other: Size| match dim == axis {
        true => of_axis.clone(),
        false => other,
    };
    let bounds = |ends: Vec<Size>| Bounds(ends.into_iter().map(Bound::At).collect());
    let start = |dim: usize| one(dim, &at, Size::constant(0));
    let end = |dim: usize| one(dim, &end, sizes[dim].clone());
    Ok(Slice {
        starts: bounds((0..sizes.len()).map(start).collect()),
        limits: bounds((0..sizes.len()).map(end).collect()),
        strides: None,
    })
}
