//! Softmax and log-softmax from their parts.

use super::seen::{Seen, Sight};
use super::{Leaves, Raised, number};
use crate::rules::{Refusal, ensure};
use optc_ir::{Operation, Value};
use optc_ops::{Exp, Log, LogSoftmax, Max, ReduceKind, Softmax, Sub};

/// exp(x - max x) / sum exp(x - max x), also as a product with the reciprocal of the sum.
pub(super) fn softmax(sight: &Sight<'_>, root: Value) -> Result<Raised, Refusal> {
    let root = sight.seen(root).ok_or(Refusal("no tensor"))?;
    let [powers, sum] = sight.quotient(&root).ok_or(Refusal("no quotient"))?;
    let shifted = sight
        .unary::<Exp>(&powers)
        .ok_or(Refusal("no exponential is divided"))?;
    along(sight, &shifted, &sum, |axis| Softmax { axis })
}

/// (x - max x) - log sum exp(x - max x).
pub(super) fn log_softmax(sight: &Sight<'_>, root: Value) -> Result<Raised, Refusal> {
    let root = sight.seen(root).ok_or(Refusal("no tensor"))?;
    let [shifted, log] = sight.difference(&root).ok_or(Refusal("no difference"))?;
    let sum = sight
        .unary::<Log>(&log)
        .ok_or(Refusal("no logarithm is subtracted"))?;
    along(sight, &shifted, &sum, |axis| LogSoftmax { axis })
}

/// The operation of a difference from the maximum, and of the sum of its exponentials along the same axis.
fn along<T: Operation + 'static>(
    sight: &Sight<'_>,
    shifted: &Seen,
    sum: &Seen,
    op: impl FnOnce(i64) -> T,
) -> Result<Raised, Refusal> {
    let (x, axis) = less_greatest(sight, shifted)?;
    of_powers(sight, sum, &x, axis)?;
    let x = sight
        .whole(&x)
        .ok_or(Refusal("the operand has another type"))?;
    Ok(Raised::new(op(number(axis)), Leaves::of(&[x])))
}

/// The operand and the axis of a difference from the maximum. Without the maximum, exponentials of large numbers would be
/// infinite, and a softmax is not.
fn less_greatest(sight: &Sight<'_>, seen: &Seen) -> Result<(Seen, usize), Refusal> {
    let [x, greatest] = sight
        .binary::<Sub>(seen)
        .ok_or(Refusal("no maximum is subtracted"))?;
    // JAX's maximum begins with an infinity of its own.
    let mut bounded = sight.pairs::<Max>(&greatest).into_iter();
    let lowest = |c: &Seen| sight.number(c) == Some(f64::NEG_INFINITY);
    let greatest = bounded
        .find_map(|[v, c]| lowest(&c).then_some(v))
        .unwrap_or(greatest);
    let found = sight
        .reduced(&greatest)
        .ok_or(Refusal("no maximum is subtracted"))?;
    let (ReduceKind::Max, of, axes) = found else {
        return Err(Refusal("another reduction than the maximum is subtracted"));
    };
    ensure(sight.same(&of, &x), "the maximum is that of another value")?;
    let [axis] = axes[..] else {
        return Err(Refusal("the maximum is not along one axis"));
    };
    Ok((x, axis))
}

/// Checks that a value is the sum of exp(x - max x) along the axis.
fn of_powers(sight: &Sight<'_>, sum: &Seen, x: &Seen, axis: usize) -> Result<(), Refusal> {
    let found = sight.reduced(sum).ok_or(Refusal("no sum along an axis"))?;
    let (ReduceKind::Sum, powers, axes) = found else {
        return Err(Refusal("another reduction than the sum"));
    };
    ensure(
        axes == [axis],
        "the sum is along another axis than the maximum",
    )?;
    let shifted = sight
        .unary::<Exp>(&powers)
        .ok_or(Refusal("no sum of exponentials"))?;
    let (of, along) = less_greatest(sight, &shifted)?;
    ensure(
        sight.same(&of, x) && along == axis,
        "the sum is that of another value",
    )
}
