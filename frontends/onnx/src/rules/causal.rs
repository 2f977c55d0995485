//! Convolutions that see the present and the past alone, with the last samples kept for the next call.

use super::{Rule, decomposed};
use crate::builder::{Stop, Val};
use crate::node::{Done, NodeCx, props};
use optc_ir::size::Size;
use optc_ir::{Attr, Dim};
use optc_ops::{Bound, Bounds, Concat, Silu, Slice};

/// The rules of this family.
pub(super) static RULES: &[Rule] = &[decomposed("CausalConvWithState", causal_conv)];

/// A convolution of each channel for itself, `[batch, channels, length]`, after the last samples of the past, which are 0 if
/// there are none. The second result is the last samples.
fn causal_conv(cx: &mut NodeCx<'_, '_>) -> Done {
    let (x, weights) = (cx.need(0)?, cx.need(1)?);
    if cx.rank(x)? != 3 || cx.rank(weights)? != 3 {
        return Err(Stop::opaque(
            "its input or its weights have other than 3 dimensions",
        ));
    }
    let activation = cx.string("activation").unwrap_or_default();
    if !["", "none", "silu", "swish"].contains(&&*activation) {
        return Err(Stop::opaque(format!("its activation is `{activation}`")));
    }
    let (channels, kernel) = (cx.extent(weights, 0)?, cx.extent(weights, 2)?);
    let before = kernel.saturating_sub(1).max(0);
    let past = cx.input(3);
    let joined = match past {
        Some(past) => cx.emit(&Concat { axis: 2 }, &[past, x])?,
        None => x,
    };
    let pad = if past.is_some() { 0 } else { before };
    let dict = props([
        ("group", Attr::int(channels)),
        ("pads", Attr::ints(&[pad, 0])),
    ]);
    let operands: Vec<Val> = [joined, weights].into_iter().chain(cx.input(2)).collect();
    let mut result = cx.emit_named("hbir.conv", &operands, dict)?;
    if activation == "silu" || activation == "swish" {
        result = cx.emit(&Silu {}, &[result])?;
    }
    cx.set(0, result);
    if cx.is_used(1) {
        let state = last_samples(cx, x, (past, joined), before)?;
        cx.set(1, state);
    }
    Ok(())
}

/// The last `count` samples of the past and the input.
fn last_samples(
    cx: &mut NodeCx<'_, '_>,
    x: Val,
    (past, joined): (Option<Val>, Val),
    count: i64,
) -> Result<Val, Stop> {
    let dims = cx.dims(x)?;
    let length = dims[2].size();
    let length = length.ok_or_else(|| Stop::opaque("its length is unknown"))?;
    let all = match past {
        Some(_) => joined,
        None => {
            let mut zeros = dims;
            zeros[2] = Dim::Fixed(count.unsigned_abs());
            let zero = cx.scalar_like(0.0, x)?;
            let zeros = cx.broadcast_to(zero, &zeros)?;
            cx.emit(&Concat { axis: 2 }, &[zeros, x])?
        }
    };
    let first = || Bound::At(Size::constant(0));
    let last = Slice {
        starts: Bounds(vec![first(), first(), Bound::At(length)]),
        limits: Bounds(vec![Bound::End, Bound::End, Bound::End]),
        strides: None,
    };
    cx.emit(&last, &[all])
}
