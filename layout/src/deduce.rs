//! Given two layouts and no logical map, finds a map for which one is a view of the other.
//!
//! For example, for `f32[2,3]{1,0}` and `f32[3,2]{0,1}` the map is the transpose by `[1, 0]`: both buffers have element
//! (i, j) of the first tensor at position 3 i + j.
//!
//! The elements of both tensors are cut into factors by their positions. A factor is a part of the row-major number
//! with its own positions, and the factor with the smallest step must be the same on both sides. Factors of different
//! sizes are cut at each other. Runs without a common cut, like 3·4 and 4·3, become one reshape of the run. The places
//! of the factors then give the map.

use crate::chain::{Chain, Cut, eval, gcd, split};
use crate::compare::{compare_storage, decide};
use crate::dims::product;
use crate::function::independent_groups;
use crate::layout::Layout;
use crate::map::{ViewMap, ViewMapError};
use crate::not_view::{NotView, NotViewReason};
use crate::placement::Placement;
use crate::propagation::merge_neighbours;

/// The chain of maps from `input` to `output` for which the buffer stays unchanged. Each map applies to the result of
/// the one before it. There is one map if a reshape, a transpose and a reshape suffice, and at most three.
///
/// A reshape is preferred to a transpose, and a transpose of whole dimensions to one of parts. Dimensions of size 1 may
/// move anywhere.
///
/// # Errors
/// The buffers differ in size, element width or memory space, the tensors differ in the number of elements, or some
/// position holds elements that do not correspond.
pub fn deduce(input: &Layout, output: &Layout) -> Result<Vec<ViewMap>, NotView> {
    search(input, output).map_err(NotView::from)
}

fn search(input: &Placement, output: &Placement) -> Result<Vec<ViewMap>, NotViewReason> {
    if input.elements() != output.elements() {
        return Err(NotViewReason::Map(ViewMapError::Elements {
            from: input.shape().to_vec(),
            to: output.shape().to_vec(),
        }));
    }
    compare_storage(input, output)?;
    let reshape = ViewMap::reshape(output.shape());
    if decide(input, &reshape, output).is_ok() {
        return Ok(vec![reshape]);
    }
    if input.elements() == 0 {
        return Ok(vec![reshape]);
    }
    let (from, to) = (input.function(), output.function());
    if from.offset != to.offset {
        return Err(NotViewReason::Offset {
            input: from.offset,
            output: to.offset,
        });
    }
    let (Some(source), Some(target)) = (Side::new(input), Side::new(output)) else {
        return Err(NotViewReason::Positions);
    };
    let matched = Matching::new(source, target)?;
    Ok(matched.maps(input.shape(), output.shape()))
}

/// A part of the row-major number of one side: `(number / div) % count`, and its positions.
#[derive(Clone)]
struct IndexPart {
    div: u64,
    count: u64,
    chain: Chain,
}

impl IndexPart {
    /// The distance between its first two elements.
    fn step(&self) -> i64 {
        eval(&self.chain, 1)
    }

    /// Returns whether all its steps are equal.
    fn is_linear(&self) -> bool {
        matches!(self.chain[..], [Cut { size: 1, .. }])
    }

    /// The parts at its own cuts. Each step of the chain is then the first step of a part.
    fn at_its_cuts(self) -> Vec<IndexPart> {
        let mut rest = self;
        let mut parts = Vec::new();
        let mut sizes: Vec<u64> = rest.chain.iter().map(|cut| cut.size).collect();
        sizes.reverse();
        let mut below = 1u64;
        for size in sizes {
            if size % below == 0
                && let Some((above, inner)) = rest.cut(size / below)
            {
                parts.push(inner);
                (rest, below) = (above, size);
            }
        }
        parts.push(rest);
        parts
    }

    /// The parts above and below `inner` elements; `None` unless the positions are a sum over both.
    fn cut(&self, inner: u64) -> Option<(IndexPart, IndexPart)> {
        if inner <= 1 || self.count <= inner || !self.count.is_multiple_of(inner) {
            return None;
        }
        let (above, below) = split(&self.chain, self.count, inner)?;
        let major = IndexPart {
            div: self.div.checked_mul(inner)?,
            count: self.count / inner,
            chain: above,
        };
        let minor = IndexPart {
            div: self.div,
            count: inner,
            chain: below,
        };
        Some((major, minor))
    }
}

/// One tensor: its dimensions in the counting order of its function, and its parts.
struct Side {
    /// Dimensions longer than 1, major to minor in the counting order.
    order: Vec<usize>,
    parts: Vec<IndexPart>,
}

impl Side {
    /// The parts of a layout; `None` if it is not a sum over groups of dimensions.
    fn new(layout: &Placement) -> Option<Side> {
        let function = layout.function();
        if function.program.is_some() {
            return None;
        }
        let order = function.dims(layout.shape());
        let sizes: Vec<u64> = order.iter().map(|&dim| layout.shape()[dim]).collect();
        let mut parts = Vec::new();
        let mut div = 1u64;
        if sizes.is_empty() {
            return Some(Side { order, parts });
        }
        for (_, count, chain) in independent_groups(&function.chain, &sizes)
            .into_iter()
            .rev()
        {
            parts.extend(IndexPart { div, count, chain }.at_its_cuts());
            div = div.checked_mul(count)?;
        }
        Some(Side { order, parts })
    }

    /// Takes the part with the smallest step.
    fn take_innermost(&mut self) -> Option<IndexPart> {
        let innermost = (0..self.parts.len()).min_by_key(|&i| {
            let step = self.parts[i].step();
            (step.unsigned_abs(), step, self.parts[i].div)
        })?;
        Some(self.parts.swap_remove(innermost))
    }

    /// Takes the linear part whose steps continue a run that ends at `stride`.
    fn take_continuing(&mut self, stride: i64) -> Option<IndexPart> {
        let continues = |part: &IndexPart| part.is_linear() && part.step() == stride;
        let i = self.parts.iter().position(continues)?;
        Some(self.parts.swap_remove(i))
    }
}

/// Parts of both sides at the same positions.
struct Pair {
    /// Minor to major; one part, unless a run is regrouped.
    source: Vec<IndexPart>,
    /// Minor to major.
    target: Vec<IndexPart>,
}

/// All pairs of parts, innermost first.
struct Matching {
    source_order: Vec<usize>,
    target_order: Vec<usize>,
    pairs: Vec<Pair>,
}

impl Matching {
    fn new(mut source: Side, mut target: Side) -> Result<Self, NotViewReason> {
        let mut pairs = Vec::new();
        loop {
            let (a, b) = match (source.take_innermost(), target.take_innermost()) {
                (None, None) => break,
                (Some(a), Some(b)) => (a, b),
                _ => return Err(NotViewReason::Positions),
            };
            if a.step() != b.step() {
                return Err(NotViewReason::Steps {
                    input: a.step(),
                    output: b.step(),
                });
            }
            pairs.push(pair(a, b, &mut source, &mut target)?);
        }
        Ok(Self {
            source_order: source.order,
            target_order: target.order,
            pairs,
        })
    }

    /// The maps: a transpose to the source's counting order if that is not the logical one, the rearrangement of the
    /// parts, and a transpose from the target's counting order.
    fn maps(&self, from: &[u64], to: &[u64]) -> Vec<ViewMap> {
        let logical_source = self.source_order.is_sorted();
        let logical_target = self.target_order.is_sorted();
        let mut maps = Vec::new();
        if !logical_source {
            let shape = Some(long_sizes(from));
            let perm = Some(ranks(&self.source_order));
            let result = sizes_in(&self.source_order, from);
            maps.push(ViewMap {
                shape,
                perm,
                result,
            });
        }
        let result = match logical_target {
            true => to.to_vec(),
            false => sizes_in(&self.target_order, to),
        };
        self.rearrange(result, &mut maps);
        if !logical_target {
            let shape = Some(sizes_in(&self.target_order, to));
            let order = ranks(&self.target_order);
            let place = |dim| order.iter().position(|&other| other == dim);
            let perm = (0..order.len()).filter_map(place).collect();
            maps.push(ViewMap {
                shape,
                perm: Some(perm),
                result: to.to_vec(),
            });
        }
        maps
    }

    /// The map between the row-major numbers of both sides' counting orders.
    fn rearrange(&self, result: Vec<u64>, maps: &mut Vec<ViewMap>) {
        let adjacent = |pair: &Pair| runs_on(&pair.source) && runs_on(&pair.target);
        if self.pairs.iter().all(adjacent) {
            let whole = |parts: &[IndexPart]| (parts[0].div, count(parts));
            let source: Vec<_> = self.pairs.iter().map(|pair| whole(&pair.source)).collect();
            let target: Vec<_> = self.pairs.iter().map(|pair| whole(&pair.target)).collect();
            maps.push(permutation(&source, &target, result));
            return;
        }
        // The map goes through the physical order, since a regrouped run is not a run of the logical number.
        let physical = |side: fn(&Pair) -> &[IndexPart]| -> Vec<(u64, u64)> {
            let parts = self.pairs.iter().flat_map(side);
            parts.map(|part| (part.div, part.count)).collect()
        };
        let source = physical(|pair| &pair.source);
        let target = physical(|pair| &pair.target);
        let (before, between) = (falling(&source), falling(&target));
        maps.push(permutation(
            &source,
            &before,
            between.iter().map(|p| p.1).rev().collect(),
        ));
        let last = permutation(&between, &target, result);
        maps.push(last);
    }
}

/// The parts as digits of a number that counts them in the order of the list, minor first.
fn falling(parts: &[(u64, u64)]) -> Vec<(u64, u64)> {
    let mut div = 1u64;
    let next = |&(_, count): &(u64, u64)| {
        let part = (div, count);
        div = div.saturating_mul(count);
        part
    };
    parts.iter().map(next).collect()
}

/// The map that moves each part of `source` to the part of `target` with the same number. A part is `(number / div) %
/// count`.
fn permutation(source: &[(u64, u64)], target: &[(u64, u64)], result: Vec<u64>) -> ViewMap {
    let by_div = |parts: &[(u64, u64)]| {
        let mut list: Vec<usize> = (0..parts.len()).collect();
        list.sort_by_key(|&i| std::cmp::Reverse(parts[i].0));
        list
    };
    let (rows, columns) = (by_div(source), by_div(target));
    let perm: Vec<usize> = columns
        .iter()
        .filter_map(|part| rows.iter().position(|other| other == part))
        .collect();
    let sizes: Vec<u64> = rows.iter().map(|&i| source[i].1).collect();
    let (shape, perm) = merge_neighbours(&sizes, &perm);
    ViewMap {
        shape: Some(shape.to_vec()),
        perm: Some(perm.to_vec()),
        result,
    }
}

fn count(parts: &[IndexPart]) -> u64 {
    product(&parts.iter().map(|part| part.count).collect::<Vec<_>>())
}

/// Returns whether the parts, minor to major, are one run of the row-major number.
fn runs_on(parts: &[IndexPart]) -> bool {
    parts
        .windows(2)
        .all(|pair| pair[0].div.checked_mul(pair[0].count) == Some(pair[1].div))
}

fn long_sizes(shape: &[u64]) -> Vec<u64> {
    shape.iter().copied().filter(|&size| 1 < size).collect()
}

fn sizes_in(order: &[usize], shape: &[u64]) -> Vec<u64> {
    order.iter().map(|&dim| shape[dim]).collect()
}

/// The rank of each dimension among those listed.
fn ranks(order: &[usize]) -> Vec<usize> {
    let rank = |dim: &usize| order.iter().filter(|other| *other < dim).count();
    order.iter().map(rank).collect()
}

/// Pairs two innermost parts with the same step: cuts the longer one, or regroups the run.
fn pair(
    a: IndexPart,
    b: IndexPart,
    source: &mut Side,
    target: &mut Side,
) -> Result<Pair, NotViewReason> {
    let same = |a: IndexPart, b: IndexPart| match a.chain == b.chain {
        true => Ok(Pair {
            source: vec![a],
            target: vec![b],
        }),
        false => Err(NotViewReason::Positions),
    };
    if a.count == b.count {
        return same(a, b);
    }
    let common = gcd(a.count, b.count);
    if common == a.count
        && let Some((rest, inner)) = b.cut(a.count)
    {
        target.parts.push(rest);
        return same(a, inner);
    }
    if common == b.count
        && let Some((rest, inner)) = a.cut(b.count)
    {
        source.parts.push(rest);
        return same(inner, b);
    }
    if let (Some((above_a, inner_a)), Some((above_b, inner_b))) = (a.cut(common), b.cut(common)) {
        source.parts.push(above_a);
        target.parts.push(above_b);
        return same(inner_a, inner_b);
    }
    regroup(a, b, source, target)
}

/// Extends two runs until both have the same length.
fn regroup(
    a: IndexPart,
    b: IndexPart,
    source: &mut Side,
    target: &mut Side,
) -> Result<Pair, NotViewReason> {
    if !a.is_linear() || !b.is_linear() {
        return Err(NotViewReason::Runs {
            input: a.count,
            output: b.count,
        });
    }
    let step = a.step();
    let (mut run_a, mut run_b) = (vec![a], vec![b]);
    loop {
        let (length_a, length_b) = (count(&run_a), count(&run_b));
        if length_a == length_b {
            return Ok(Pair {
                source: run_a,
                target: run_b,
            });
        }
        let (run, side, length, wanted) = match length_a < length_b {
            true => (&mut run_a, &mut *source, length_a, length_b),
            false => (&mut run_b, &mut *target, length_b, length_a),
        };
        let stop = i64::try_from(length).ok().and_then(|n| step.checked_mul(n));
        let next = stop.and_then(|stride| side.take_continuing(stride));
        let next = next.ok_or(NotViewReason::Runs {
            input: length_a,
            output: length_b,
        })?;
        let useful = gcd(next.count, wanted / gcd(wanted, length));
        match next.cut(useful) {
            Some((rest, inner)) => {
                side.parts.push(rest);
                run.push(inner);
            }
            None => run.push(next),
        }
    }
}
