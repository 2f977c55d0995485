//! Lower bound of the bytes that a group moves: the needed part of each input once, and each result that leaves the
//! group once.

use crate::tile_propagate::carry::{Carried, Given, carry};
use crate::tile_propagate::local::{Local, LocalOp, LocalSource, Shape};
use crate::tile_propagate::stored::bytes_of;
use optc_ir::op::iteration_domain::{IndexExpr, IterationDomain};
use optc_tile::Tiling;
use optc_tile::{Steps, Tile};
use std::collections::BTreeMap;

/// A lower bound of the bytes that a group moves with any tiles: the needed bytes of each input and the bytes of each
/// result that leaves the group. `whole` is the group without tiles, if there is such a plan.
pub(crate) fn lower_bound(local: &Local, whole: Option<&Carried>) -> u64 {
    let inputs = match whole {
        Some(carried) => needed_inputs(local, carried),
        None => local.inputs.iter().map(Shape::bytes).collect(),
    };
    let leaving = local.ops.iter().flat_map(LocalOp::live_outs);
    let leaving = leaving.map(|(_, shape)| shape.bytes());
    inputs
        .into_iter()
        .chain(leaving)
        .fold(0, u64::saturating_add)
}

/// A group without tiles: each result that leaves it is demanded as a whole.
pub(crate) fn whole(local: &Local) -> Option<(Vec<Given>, Carried)> {
    let whole = |op: &LocalOp| {
        let results = op.kind.results.iter().map(|s| Tile::whole(&s.dims));
        Given {
            results: op.live_out.contains(&true).then(|| vec![results.collect()]),
            ..Given::default()
        }
    };
    let given: Vec<Given> = local.ops.iter().map(whole).collect();
    let carried = carry(local, &given, &[], true).ok()?;
    Some((given, carried))
}

/// A lower bound of the bytes that a group needs of each input, with any tiles.
///
/// Several operations may read an input in ways that are not followed. Then only the largest part that one of them
/// reads is counted.
fn needed_inputs(local: &Local, carried: &Carried) -> Vec<u64> {
    let results = local
        .ops
        .iter()
        .map(|op| vec![Vec::new(); op.live_out.len()]);
    let mut reads: Vec<Vec<Vec<Read>>> = results.collect();
    let mut inputs: Vec<Vec<Read>> = vec![Vec::new(); local.inputs.len()];
    for (at, op) in local.ops.iter().enumerate().rev() {
        let domain = &op.kind.domain;
        let pieces = &carried.steps[at];
        // The largest share of an operation's results that is needed. At least this share of its operands is needed.
        let mut share = (0u64, 1u64);
        for (r, shape) in op.kind.results.iter().enumerate() {
            let made = pieces.iter().map(|steps| {
                let made = domain.result(r, steps, &shape.dims, &[]).tile;
                inside(&made, &shape.dims)
            });
            let all = made.fold(0, u64::saturating_add).max(1);
            let part = match op.live_out[r] {
                true => all,
                false => union(&reads[at][r], &shape.dims).min(all),
            };
            if u128::from(share.0) * u128::from(all) < u128::from(part) * u128::from(share.1) {
                share = (part, all);
            }
        }
        for (i, source) in op.operands.iter().enumerate() {
            let dims = &op.kind.operands[i].dims;
            for steps in pieces {
                let read = Read::of(domain, i, steps, dims, share);
                match *source {
                    LocalSource::Inside(from, r) => reads[from][r].push(read),
                    LocalSource::Outside(id) => inputs[id].push(read),
                }
            }
        }
    }
    let pairs = inputs.iter().zip(&local.inputs);
    let bytes =
        |(reads, shape): (&Vec<Read>, &Shape)| bytes_of(&[union(reads, &shape.dims)], shape.bits);
    pairs.map(bytes).collect()
}

/// The elements of a tile, without a grid, that are inside a value of this shape.
fn inside(tile: &Tile, shape: &[u64]) -> u64 {
    let spans = tile.0.iter().zip(shape);
    let lengths = spans
        .map(|(s, &n)| s.clipped(&[], n))
        .map(|r| r.end - r.start);
    lengths.fold(1, u64::saturating_mul)
}

/// Elements of a dimension: the first one, their number and their distance.
type Elements = (i64, u64, i64);

/// The need of an operation for an operand.
#[derive(Clone)]
struct Read {
    /// The number of needed elements.
    needed: u64,
    /// Per dimension the needed elements; `None` where they are no product of such sets.
    sets: Option<Vec<Elements>>,
}

impl Read {
    /// The elements that the steps read, scaled by the needed share.
    fn of(
        domain: &IterationDomain,
        operand: usize,
        steps: &Steps,
        dims: &[u64],
        share: (u64, u64),
    ) -> Read {
        let region = domain.operand(operand, steps, dims, &[]);
        let box_of = |d: usize| {
            let span = &region.tile.0[d];
            Some((span.start.as_number()?, span.extent, 1))
        };
        let set = |(d, index): (usize, &IndexExpr)| match index {
            IndexExpr::Sum { terms, offset } => match terms.as_slice() {
                [] => Some((*offset, 1, 1)),
                &[(id, stride)] if 0 < stride => {
                    let step = steps.spans.get(id)?;
                    let first = step.start.as_number()?.checked_mul(stride)?;
                    Some((first.checked_add(*offset)?, step.extent, stride))
                }
                _ => None,
            },
            IndexExpr::Whole => Some((0, dims[d], 1)),
            IndexExpr::Digit { .. } => None,
        };
        let full = region.needed == region.tile.elements();
        let index = domain.operands.get(operand).map_or(&[][..], Vec::as_slice);
        let sets = index.iter().enumerate();
        let sets = sets.map(|(d, i)| {
            let elements = if full { box_of(d) } else { set((d, i)) };
            elements.map(|elements| clipped(elements, dims[d]))
        });
        let sets: Option<Vec<Elements>> = sets.collect();
        let needed = match &sets {
            Some(sets) => sets.iter().fold(1u64, |n, set| n.saturating_mul(set.1)),
            None => region.needed.min(inside(&region.tile, dims)),
        };
        let part = u128::from(needed) * u128::from(share.0) / u128::from(share.1);
        Read {
            needed: u64::try_from(part).unwrap_or(u64::MAX),
            sets: sets.filter(|_| share.0 == share.1),
        }
    }
}

/// The elements that are inside a dimension of this size.
fn clipped((first, count, distance): Elements, size: u64) -> Elements {
    let size = i64::try_from(size).unwrap_or(i64::MAX);
    let before = first.min(0).saturating_neg();
    let skipped = (before / distance + i64::from(before % distance != 0)).unsigned_abs();
    let skipped = skipped.min(count);
    let first = first.saturating_add(distance.saturating_mul(skipped.cast_signed()));
    let behind = size.saturating_sub(first).saturating_sub(1);
    let room = match behind {
        0.. => (behind / distance).unsigned_abs() + 1,
        _ => 0,
    };
    (first, (count - skipped).min(room), distance)
}

/// The most reads of a value, and its greatest extent, with which elements are counted together.
const MAX_READS: usize = 32;
const MAX_COUNTED: u64 = 1 << 16;

/// The number of elements that any of these reads needs: exact where the reads are products of sets, else the number
/// for the largest read.
fn union(reads: &[Read], shape: &[u64]) -> u64 {
    let most = reads.iter().map(|r| r.needed).max().unwrap_or(0);
    let sets: Option<Vec<&Vec<Elements>>> = reads.iter().map(|r| r.sets.as_ref()).collect();
    let few = reads.len() <= MAX_READS && shape.iter().all(|&n| n <= MAX_COUNTED);
    let Some(sets) = sets.filter(|_| few && 1 < reads.len()) else {
        return most;
    };
    // The number of elements of the dimensions so far, by the set of reads that contain them.
    let mut counts: BTreeMap<u32, u64> = BTreeMap::new();
    counts.insert(u32::MAX, 1);
    for (d, &size) in shape.iter().enumerate() {
        let mut own: BTreeMap<u32, u64> = BTreeMap::new();
        let mut masks = vec![0u32; usize::try_from(size).unwrap_or(0)];
        for (i, set) in sets.iter().enumerate() {
            let (first, count, distance) = set[d];
            for (at, mask) in (0i64..).zip(&mut masks) {
                let from = at.saturating_sub(first);
                let within = 0 <= from && (from / distance).unsigned_abs() < count;
                if within && from % distance == 0 {
                    *mask |= 1 << i;
                }
            }
        }
        for mask in masks {
            *own.entry(mask).or_default() += 1;
        }
        let mut next: BTreeMap<u32, u64> = BTreeMap::new();
        for (mask, count) in &counts {
            for (other, more) in own.iter().filter(|(other, _)| *mask & **other != 0) {
                let sum = next.entry(mask & other).or_default();
                *sum = sum.saturating_add(count.saturating_mul(*more));
            }
        }
        counts = next;
    }
    counts.values().fold(0, |a, &n| a.saturating_add(n))
}
