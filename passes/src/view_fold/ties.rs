//! Tie breakers between choices of equal bytes, besides the bytes that are written of constants at compile time.

use super::label_order::label_order;
use super::layouts::{LayoutId, Layouts};
use super::signature::Signature;
use optc_ir::{FreedomClass, Role};

/// Families that go along their axes element by element several times: from one line of memory to the next where the
/// axis is not innermost.
const ALONG: &[&str] = &["softmax", "norm", "reduce"];

/// The weight of a byte that is read in strides, relative to a byte of a constant that is written: it is read in every
/// run.
const STRIDED: u64 = 8;

/// The tie breaker of an operation with this layout at its first operand: a multiple of the operand's bytes if the axis
/// that the operation works along does not have unit stride.
pub(crate) fn strided(sig: &Signature, layouts: &mut Layouts, operand: LayoutId) -> u64 {
    let along = sig.freedom.class == FreedomClass::Ordered && ALONG.contains(&sig.family);
    if !along || sig.is_tiled() || sig.n_operands == 0 {
        return 0;
    }
    let is_axis = |label: usize| sig.freedom.labels[label].role == Role::Axis;
    let mut dims = sig.labels(0).iter().zip(&sig.shapes[0]);
    if !dims.any(|(label, &n)| 1 < n && label.is_some_and(is_axis)) {
        return 0;
    }
    let order = label_order(sig, layouts, 0, operand);
    let innermost = order.and_then(|order| order.last().copied());
    match innermost.is_some_and(|digit| is_axis(digit.label)) {
        true => 0,
        false => layouts.bytes(operand).saturating_mul(STRIDED),
    }
}
