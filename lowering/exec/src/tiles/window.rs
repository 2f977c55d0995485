//! Convolutions on tiles: places that a window needs beyond the operand are padding of the tile, and groups of channels are
//! counted within the tile.

use super::group::{Bounds, Group};
use crate::tiles::error::TileError;
use optc_ir::{AttrDict, Attributes, Op, Operation};
use optc_ops::{Conv, Slide};
use std::ops::Range;

/// The parts of its operands that a convolution needs for a tile of its result, and its attributes on the tile; `None` for
/// any other operation.
///
/// # Errors
/// The tile cuts through groups of channels, or the operands' tiles do not contain what it needs.
pub(super) fn window(
    group: &Group<'_>,
    op: Op,
    own: &[Bounds],
    results: &[Bounds],
) -> Result<Option<(AttrDict, Vec<Bounds>)>, TileError> {
    let site = group.site(op);
    let data = site.data();
    let of = site.func.op_ref(op);
    if &*data.name != Conv::NAME {
        return Ok(None);
    }
    let conv = Conv::read(&of)?;
    let slides = conv.slides(&of)?;
    let groups = conv.groups()? as usize;
    if conv.transposed {
        return Err(TileError::Transposed);
    }
    let (x, y) = (
        group.shape(data.operands[0])?,
        group.shape(data.results[0])?,
    );
    let w = group.shape(data.operands[1])?;
    let [batch, outputs, positions @ ..] = &results[0][..] else {
        return Err(TileError::NoChannels);
    };
    let (inputs, made) = (x[1] / groups, y[1] / groups);
    let first = outputs.start / made;
    let last = (outputs.end - 1) / made;
    if first != last && (outputs.start % made != 0 || outputs.end % made != 0) {
        return Err(TileError::Groups);
    }
    let mut needs = vec![batch.clone(), first * inputs..(last + 1) * inputs];
    let (mut low, mut high) = (Vec::new(), Vec::new());
    for ((slide, range), &n) in slides.iter().zip(positions).zip(&x[2..]) {
        let (reads, before, behind) = reached(*slide, range, n);
        if reads.is_empty() {
            return Err(TileError::PaddingAlone);
        }
        needs.push(reads);
        low.push(before);
        high.push(behind);
    }
    let mut weights = vec![outputs.clone()];
    weights.extend(w[1..].iter().map(|&n| 0..n));
    let mut all = vec![needs, weights];
    if 2 < data.operands.len() {
        all.push(vec![outputs.clone()]);
    }
    let holds = |(own, needs): (&Bounds, &Bounds)| {
        let mut pairs = own.iter().zip(needs);
        pairs.all(|(own, needs)| own.start <= needs.start && needs.end <= own.end)
    };
    if own.len() != all.len() || !own.iter().zip(&all).all(holds) {
        return Err(TileError::MoreThanRead);
    }
    low.extend(high);
    let on_tile = Conv {
        pads: Some(low),
        group: (last + 1 - first) as i64,
        ..conv
    };
    Ok(Some((on_tile.write(), all)))
}

/// The elements that windows at some positions read, of `n`, and the padding before and behind them.
fn reached(slide: Slide, positions: &Range<usize>, n: usize) -> (Range<usize>, i64, i64) {
    let stride = slide.stride as i64;
    let start = positions.start as i64 * stride - slide.low as i64;
    let last = (positions.end as i64 - 1) * stride - slide.low as i64;
    let end = last + slide.span() as i64;
    let n = n as i64;
    let range = start.clamp(0, n) as usize..end.clamp(0, n) as usize;
    (range, (-start).max(0), (end - n).max(0))
}
