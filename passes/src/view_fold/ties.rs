//! What tells choices of equal bytes apart, besides what is written of constants at compile time.

use super::label_order::label_order;
use super::layouts::{LayoutId, Layouts};
use super::signature::Signature;
use optc_ir::{FreedomClass, Role};

/// Families that go along their axes element by element, again and again: from one line of memory to the next where the
/// axis is not innermost.
const ALONG: &[&str] = &["softmax", "norm", "reduce"];

/// How often a byte that is read in strides counts, where one that is written of a constant counts once: it is read in
/// every run.
const STRIDED: u64 = 8;

/// The tie breaker of an operation with these layouts at its ports: its largest operand's bytes where what it works along
/// does not lie in unit strides.
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
