//! Layer norm and RMS norm from their parts, and scales and biases into them.

use super::seen::{Placed, Seen, Sight};
use super::{Leaves, Raised, number};
use crate::rules::{Refusal, ensure};
use optc_ir::Value;
use optc_ops::{Add, Div, LayerNorm, Mul, Pow, RmsNorm, Rsqrt, Sqrt};

/// The divisor of a norm: sqrt(mean of squares + epsilon).
struct Root {
    /// The value whose squares are averaged.
    of: Seen,
    axes: Vec<usize>,
    epsilon: f64,
}

/// A product of a value with the reciprocal of such a root, and perhaps with a scale.
struct Normed {
    value: Seen,
    root: Root,
    scale: Option<Seen>,
}

/// (x - mean x) / sqrt(mean of squares + epsilon), perhaps scaled before it is multiplied out.
pub(super) fn layer_norm(sight: &Sight<'_>, root: Value) -> Result<Raised, Refusal> {
    let raise = |normed: Normed| {
        let (x, axes) = sight.centred(&normed.value)?;
        let (of, same) = sight.centred(&normed.root.of)?;
        let agree = axes == same && axes == normed.root.axes && sight.same(&x, &of);
        agree.then_some((x, normed))
    };
    let found = normed(sight, root)?.into_iter().find_map(raise);
    let (x, normed) = found.ok_or(Refusal("no difference from the mean is divided"))?;
    let (axis, scale) = trailing(sight, &normed)?;
    let x = sight
        .whole(&x)
        .ok_or(Refusal("the operand has another type"))?;
    let epsilon = normed.root.epsilon;
    Ok(Raised::new(
        LayerNorm { axis, epsilon },
        Leaves::scaled(x, axis, scale),
    ))
}

/// x / sqrt(mean of squares + epsilon), perhaps scaled before it is multiplied out.
pub(super) fn rms_norm(sight: &Sight<'_>, root: Value) -> Result<Raised, Refusal> {
    let mut all = normed(sight, root)?.into_iter();
    let found = all.find(|normed| sight.same(&normed.value, &normed.root.of));
    let normed = found.ok_or(Refusal("another value is squared than is divided"))?;
    ensure(sight.centred(&normed.value).is_none(), "it is a layer norm")?;
    let (axis, scale) = trailing(sight, &normed)?;
    let x = sight
        .whole(&normed.value)
        .ok_or(Refusal("the operand has another type"))?;
    let epsilon = normed.root.epsilon;
    Ok(Raised::new(
        RmsNorm { axis, epsilon },
        Leaves::scaled(x, axis, scale),
    ))
}

/// norm(x, 1) * w is norm(x, w).
pub(super) fn scale(sight: &Sight<'_>, root: Value) -> Result<Raised, Refusal> {
    let root = sight.seen(root).ok_or(Refusal("no tensor"))?;
    for [norm, by] in sight.pairs::<Mul>(&root) {
        if let Some((norm, operands)) = sight.operands::<LayerNorm>(&norm)
            && let [x, one] = &operands[..]
            && sight.number(one) == Some(1.0)
        {
            let (axis, scale) = placed(sight, x, norm.axis, &by)?;
            return Ok(Raised::new(LayerNorm { axis, ..norm }, scale));
        }
        if let Some((norm, operands)) = sight.operands::<RmsNorm>(&norm)
            && let [x, one] = &operands[..]
            && sight.number(one) == Some(1.0)
        {
            let (axis, scale) = placed(sight, x, norm.axis, &by)?;
            return Ok(Raised::new(RmsNorm { axis, ..norm }, scale));
        }
    }
    Err(Refusal("no norm without a scale"))
}

/// layer_norm(x, w) + b is layer_norm(x, w, b).
pub(super) fn bias(sight: &Sight<'_>, root: Value) -> Result<Raised, Refusal> {
    let root = sight.seen(root).ok_or(Refusal("no tensor"))?;
    for [norm, bias] in sight.pairs::<Add>(&root) {
        let Some((norm, operands)) = sight.operands::<LayerNorm>(&norm) else {
            continue;
        };
        let [x, scale] = &operands[..] else { continue };
        let (axis, mut leaves) = placed(sight, x, norm.axis, &bias)?;
        leaves.first = vec![leaves.first[0], scale.value];
        return Ok(Raised::new(LayerNorm { axis, ..norm }, leaves));
    }
    Err(Refusal("no norm without a bias"))
}

/// The ways to read a value as a norm.
fn normed(sight: &Sight<'_>, root: Value) -> Result<Vec<Normed>, Refusal> {
    let seen = sight.seen(root).ok_or(Refusal("no tensor"))?;
    let mut all = Vec::new();
    let mut add = |value: &Seen, root: Option<Root>, scale: Option<Seen>| {
        let value = value.clone();
        all.extend(root.map(|root| Normed { value, root, scale }));
    };
    for [value, by] in sight.pairs::<Mul>(&seen) {
        add(&value, inverse_root(sight, &by), None);
        for [factor, scale] in sight.pairs::<Mul>(&by) {
            add(&value, inverse_root(sight, &factor), Some(scale));
        }
        for [value, scale] in sight.pairs::<Mul>(&value) {
            add(&value, inverse_root(sight, &by), Some(scale));
        }
    }
    if let Some([value, by]) = sight.binary::<Div>(&seen) {
        add(&value, square_root(sight, &by), None);
        for [value, scale] in sight.pairs::<Mul>(&value) {
            add(&value, square_root(sight, &by), Some(scale));
        }
    }
    ensure(
        !all.is_empty(),
        "nothing is divided by the root of a mean of squares and a constant",
    )?;
    Ok(all)
}

/// 1 / sqrt(mean of squares + epsilon).
fn inverse_root(sight: &Sight<'_>, seen: &Seen) -> Option<Root> {
    let power = || {
        let [x, power] = sight.binary::<Pow>(seen)?;
        sight.is_number(&power, -0.5).then_some(x)
    };
    match sight.unary::<Rsqrt>(seen).or_else(power) {
        Some(x) => radicand(sight, &x),
        None => square_root(sight, &sight.inverted(seen)?),
    }
}

/// sqrt(mean of squares + epsilon).
fn square_root(sight: &Sight<'_>, seen: &Seen) -> Option<Root> {
    let power = || {
        let [x, power] = sight.binary::<Pow>(seen)?;
        sight.is_number(&power, 0.5).then_some(x)
    };
    radicand(sight, &sight.unary::<Sqrt>(seen).or_else(power)?)
}

fn radicand(sight: &Sight<'_>, seen: &Seen) -> Option<Root> {
    let (mean, epsilon) = sight.plus_number(seen)?;
    let epsilon = shortest(epsilon);
    let (of, axes) = sight.mean_of_squares(&mean)?;
    (0.0 <= epsilon && epsilon.is_finite()).then_some(Root { of, axes, epsilon })
}

/// A number of type `f32` as the shortest decimal that rounds to it: 1e-5 in place of 9.99999975e-6.
fn shortest(x: f64) -> f64 {
    #[expect(
        clippy::cast_possible_truncation,
        reason = "the number is compared again"
    )]
    let short = x as f32;
    match short.to_string().parse() {
        Ok(decimal) if f64::from(short) == x => decimal,
        _ => x,
    }
}

/// The first axis of a norm over the last ones, and its scale in the shape of the axes.
fn trailing(sight: &Sight<'_>, normed: &Normed) -> Result<(i64, Option<Placed>), Refusal> {
    let mut axes = normed.root.axes.clone();
    axes.sort_unstable();
    let rank = sight.ty.rank();
    let first = axes.first().copied().unwrap_or(rank);
    ensure(
        first < rank && axes.into_iter().eq(first..rank),
        "the axes are not the last ones",
    )?;
    let scale = normed.scale.as_ref();
    let scale = scale.map(|scale| place(sight, scale, first)).transpose()?;
    Ok((number(first), scale))
}

/// The operands of a norm that gets a scale or a bias, and its axis counted from the front.
fn placed(sight: &Sight<'_>, x: &Seen, axis: i64, by: &Seen) -> Result<(i64, Leaves), Refusal> {
    let rank = sight.ty.rank();
    let from_end = || {
        usize::try_from(axis.unsigned_abs())
            .ok()
            .and_then(|n| rank.checked_sub(n))
    };
    let first = usize::try_from(axis).ok().or_else(from_end);
    let first = first
        .filter(|&a| a < rank)
        .ok_or(Refusal("there is no such axis"))?;
    let x = sight
        .whole(x)
        .ok_or(Refusal("the operand has another type"))?;
    let by = place(sight, by, first)?;
    Ok((number(first), Leaves::scaled(x, number(first), Some(by))))
}

/// The value of a scale or bias that follows the dimensions from `first` on, and no other ones.
fn place(sight: &Sight<'_>, seen: &Seen, first: usize) -> Result<Placed, Refusal> {
    let base = sight.base(seen);
    let dims = &sight.ty.dims;
    let along: Vec<usize> = base.at.iter().flatten().copied().collect();
    let long = (0..dims.len()).filter(|&d| first <= d && !dims[d].is_one());
    let runs = base
        .at
        .iter()
        .enumerate()
        .filter(|(_, at)| at.is_some())
        .map(|(d, _)| d);
    ensure(
        runs.eq(long),
        "the scale or bias does not have an element for each normalized one",
    )?;
    ensure(along.is_sorted(), "the scale or bias is transposed")?;
    let ty = sight.type_of(base.value).ok_or(Refusal("no tensor"))?;
    let rest = (0..ty.rank()).filter(|k| !along.contains(k));
    ensure(
        rest.into_iter().all(|k| ty.dims[k].is_one()),
        "the scale or bias has more elements",
    )?;
    ensure(
        ty.dtype == sight.ty.dtype,
        "the scale or bias has another type",
    )?;
    let reshaped = ty.dims != dims[first..];
    Ok(Placed {
        value: base.value,
        reshaped,
    })
}
