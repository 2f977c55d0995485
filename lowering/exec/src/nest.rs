//! Nests of loops over the elements of several values at once, made from their accesses.
//!
//! Values of one shape whose offsets are sums by dimension become one nest. Values that consist of a few strided pieces
//! become one nest for each box of pieces.

use crate::access::Access;
use crate::error::StepError;
use crate::memory::In;
use optc_kernels::error::KernelError;
use optc_kernels::loops::{Loop, Steps, dimension, ordered, walk};
use std::ops::Range;

/// Most pieces of a dimension that become boxes of their own.
const MOST_PIECES: usize = 3;

/// Pieces of each dimension along which all offsets have constant strides, if some dimension has several pieces and none
/// has too many. Values whose offsets are no sums by dimension are cut into pieces whose offsets are.
fn pieces<const K: usize>(values: [&Access; K]) -> Option<Vec<Vec<Range<usize>>>> {
    let shape = values.first()?.shape();
    if values.iter().any(|access| access.shape() != shape) {
        return None;
    }
    let none: Vec<Vec<i64>> = shape.iter().map(|&n| vec![0; n]).collect();
    let all = values.map(|access| match access {
        Access::Sum { tables, .. } => tables,
        Access::Listed { .. } => &none,
    });
    let listed = |l: &Loop<K>| matches!(l.steps, Steps::Listed(_));
    let along = |dim: usize| {
        let tables: [&[i64]; K] = std::array::from_fn(|k| &all[k][dim][..]);
        let n = shape[dim];
        if dimension(tables).iter().any(listed) {
            let get = |j: usize| tables.map(|t| t.get(j).copied().unwrap_or(0));
            let found = runs(n, get);
            if found.len() <= MOST_PIECES {
                return found;
            }
        }
        std::iter::once(0..n).collect()
    };
    let mut dims: Vec<Vec<Range<usize>>> = (0..shape.len()).map(along).collect();
    for access in values {
        if let Access::Listed { .. } = access {
            let (dim, ranges) = access.pieces(MOST_PIECES)?;
            let ends = ranges.iter().map(|range| range.end);
            dims[dim] = ends.fold(std::mem::take(&mut dims[dim]), cut);
        }
    }
    dims.iter().any(|pieces| 1 < pieces.len()).then_some(dims)
}

/// Splits the range that contains the index `at`.
fn cut(ranges: Vec<Range<usize>>, at: usize) -> Vec<Range<usize>> {
    let both = |range: Range<usize>| match range.start < at && at < range.end {
        true => vec![range.start..at, at..range.end],
        false => vec![range],
    };
    ranges.into_iter().flat_map(both).collect()
}

/// The longest pieces along which offsets have one stride, from the first element on.
fn runs<const K: usize>(n: usize, get: impl Fn(usize) -> [i64; K]) -> Vec<Range<usize>> {
    let step = |i: usize| -> [i64; K] {
        let (a, b) = (get(i), get(i + 1));
        std::array::from_fn(|k| b[k] - a[k])
    };
    let mut runs = Vec::new();
    let mut from = 0;
    while from < n {
        let mut end = (from + 2).min(n);
        while end < n && step(end - 1) == step(from) {
            end += 1;
        }
        // A jump starts a new piece, rather than being a piece of two elements.
        if end == from + 2 && end + 1 < n && step(end) != step(from) && step(end - 1) == step(end) {
            end -= 1;
        }
        runs.push(from..end);
        from = end;
    }
    runs
}

/// Nested loops over the same indices of several values.
#[derive(Clone, Debug)]
pub(crate) struct Nest<const K: usize> {
    base: [i64; K],
    outer: Vec<Loop<K>>,
    /// The innermost loop: its extent and strides.
    pub(crate) inner: (usize, [i64; K]),
    /// The least and the greatest offset of each value; the first is greater than the second if there are no elements.
    reach: [(i64, i64); K],
}

impl<const K: usize> Nest<K> {
    /// The loops over values of one shape; the first value decides their order. If the offsets of some value are no sum by
    /// dimension, the outer dimensions become one loop with listed offsets.
    pub(crate) fn of(values: [&Access; K]) -> Option<Nest<K>> {
        if !values.iter().all(|access| access.is_sum()) {
            return Nest::listed(values);
        }
        let mut base = [0; K];
        let mut all: Vec<&Vec<Vec<i64>>> = Vec::with_capacity(K);
        for (k, access) in values.iter().enumerate() {
            let Access::Sum { base: own, tables } = access else {
                return None;
            };
            base[k] = *own;
            all.push(tables);
        }
        let rank = all.first()?.len();
        let same = |t: &&Vec<Vec<i64>>| {
            t.len() == rank && t.iter().zip(all[0]).all(|(a, b)| a.len() == b.len())
        };
        if !all.iter().all(same) {
            return None;
        }
        let mut reach = base.map(|b| (b, b));
        let mut loops = Vec::new();
        for dim in 0..rank {
            let along = |k: usize| all.get(k).and_then(|tables| tables.get(dim));
            let tables: [&[i64]; K] = std::array::from_fn(|k| along(k).map_or(&[][..], |t| &t[..]));
            for (reach, table) in reach.iter_mut().zip(tables) {
                let (Some(low), Some(high)) = (table.iter().min(), table.iter().max()) else {
                    *reach = (0, -1);
                    continue;
                };
                *reach = (reach.0 + low, reach.1 + high);
            }
            loops.extend(dimension(tables));
        }
        if all[0].iter().any(Vec::is_empty) {
            return Some(Nest {
                base,
                outer: Vec::new(),
                inner: (0, [0; K]),
                reach: [(0, -1); K],
            });
        }
        let mut outer = ordered(loops, 0);
        let inner = match outer.pop() {
            None => (1, [0; K]),
            Some(Loop {
                extent,
                steps: Steps::Strides(strides),
            }) => (extent, strides),
            Some(listed) => {
                outer.push(listed);
                (1, [0; K])
            }
        };
        Some(Nest {
            base,
            outer,
            inner,
            reach,
        })
    }

    /// The loops as boxes of constant strides, if dimensions consist of a few strided pieces.
    pub(crate) fn boxes(values: [&Access; K]) -> Option<Vec<Nest<K>>> {
        let Some(pieces) = pieces(values) else {
            return Some(vec![Nest::of(values)?]);
        };
        let mut picks: Vec<Vec<Vec<usize>>> = vec![Vec::new()];
        for along in pieces {
            let with = |pick: &Vec<Vec<usize>>| {
                let longer = along.iter().map(|range| {
                    let own: Vec<usize> = range.clone().collect();
                    pick.iter().cloned().chain([own]).collect()
                });
                longer.collect::<Vec<_>>()
            };
            picks = picks.iter().flat_map(with).collect();
        }
        let nest = |pick: &Vec<Vec<usize>>| {
            let picked = values.map(|access| access.picked(pick).try_sum());
            Nest::of(picked.each_ref())
        };
        picks.iter().map(nest).collect()
    }

    fn listed(values: [&Access; K]) -> Option<Nest<K>> {
        let shape = values.first()?.shape();
        if values.iter().any(|a| a.shape() != shape) || shape.contains(&0) {
            return None;
        }
        let from =
            (1..=shape.len()).find(|&from| values.iter().all(|a| a.split(from).is_some()))?;
        let mut split = Vec::with_capacity(K);
        for access in values {
            split.push(access.split(from)?);
        }
        let base: [i64; K] = std::array::from_fn(|k| split[k].0[0]);
        let begins = 0..split[0].0.len();
        let steps: Vec<[i64; K]> = begins
            .map(|i| std::array::from_fn(|k| split[k].0[i] - base[k]))
            .collect();
        let mut reach = base.map(|_| (0, 0));
        for (reach, (heads, tables)) in reach.iter_mut().zip(&split) {
            let ends = |table: &[i64]| Some((*table.iter().min()?, *table.iter().max()?));
            *reach = ends(heads)?;
            for table in tables {
                let (low, high) = ends(table)?;
                *reach = (reach.0 + low, reach.1 + high);
            }
        }
        let heads: [Vec<i64>; K] = std::array::from_fn(|k| steps.iter().map(|s| s[k]).collect());
        let mut loops = dimension(std::array::from_fn(|k| &heads[k][..]));
        for dim in 0..shape.len() - from {
            let tables: [&[i64]; K] = std::array::from_fn(|k| &split[k].1[dim][..]);
            loops.extend(dimension(tables));
        }
        let mut outer = ordered(loops, 0);
        let last = match outer.last().map(|l| (l.extent, &l.steps)) {
            Some((extent, &Steps::Strides(strides))) => Some((extent, strides)),
            _ => None,
        };
        if last.is_some() {
            outer.pop();
        }
        Some(Nest {
            base,
            outer,
            inner: last.unwrap_or((1, [0; K])),
            reach,
        })
    }

    /// Removes and returns the innermost of the outer loops whose strides satisfy `like`, if there is one.
    pub(crate) fn take(&mut self, like: impl Fn(&[i64; K]) -> bool) -> Option<(usize, [i64; K])> {
        let strides = |l: &Loop<K>| match l.steps {
            Steps::Strides(strides) => Some((l.extent, strides)),
            Steps::Listed(_) => None,
        };
        let at = self
            .outer
            .iter()
            .rposition(|l| strides(l).is_some_and(|(_, steps)| like(&steps)))?;
        strides(&self.outer.remove(at))
    }

    /// Checks that all elements of the result, which is the first value, and of the operands are within bounds.
    /// `size` gives the bytes of an element of each value.
    pub(crate) fn check(
        &self,
        ins: &[In<'_>],
        out: &[u8],
        size: impl Fn(usize) -> usize,
    ) -> Result<(), StepError> {
        let fits = |k: usize, bytes: &[u8]| self.fits(k, bytes.len() / size(k));
        let mut operands = (1..).zip(ins);
        let inside = operands.all(|(k, operand)| match operand {
            In::Bytes(bytes) => fits(k, bytes),
            In::Aliased => fits(k, out),
            In::Inplace => size(k) == size(0),
        });
        match inside && fits(0, out) {
            true => Ok(()),
            false => Err(KernelError::OutOfBounds.into()),
        }
    }

    /// Returns whether every offset of a value is below `n`.
    pub(crate) fn fits(&self, k: usize, n: usize) -> bool {
        let (low, high) = self.reach[k];
        high < low || 0 <= low && high < n as i64
    }

    /// Returns whether every offset of a value, shifted by `by`, is below `n`.
    pub(crate) fn fits_at(&self, k: usize, by: i64, n: usize) -> bool {
        let (low, high) = self.reach[k];
        high < low || 0 <= low.saturating_add(by) && high.saturating_add(by) < n as i64
    }

    /// Returns whether a value has a single offset.
    pub(crate) fn is_still(&self, k: usize) -> bool {
        let (low, high) = self.reach[k];
        low == high
    }

    /// The first offset of a value.
    pub(crate) fn base(&self, k: usize) -> i64 {
        self.base[k]
    }

    /// All loops, outermost first.
    pub(crate) fn loops(&self) -> Vec<Loop<K>> {
        let (extent, strides) = self.inner;
        let inner = Loop {
            extent,
            steps: Steps::Strides(strides),
        };
        self.outer.iter().cloned().chain([inner]).collect()
    }

    /// The nest with some steps of one of its loops only; offsets of the first value are relative to element `from`.
    pub(crate) fn part(&self, number: usize, steps: Range<usize>, from: usize) -> Nest<K> {
        let mut part = self.clone();
        if let Some(one) = part.outer.get_mut(number) {
            match &mut one.steps {
                Steps::Strides(_) => {
                    let add = one.at(steps.start);
                    part.base = std::array::from_fn(|k| part.base[k] + add[k]);
                }
                Steps::Listed(list) => *list = list[steps.clone()].to_vec(),
            }
            one.extent = steps.len();
        } else {
            let (_, strides) = part.inner;
            part.base = std::array::from_fn(|k| part.base[k] + strides[k] * steps.start as i64);
            part.inner.0 = steps.len();
        }
        part.base[0] -= from as i64;
        part
    }

    /// The nest with shifted offsets; offsets of the first value are relative to element `from`.
    pub(crate) fn moved(mut self, by: [i64; K], from: usize) -> Nest<K> {
        self.base = std::array::from_fn(|k| self.base[k] + by[k]);
        self.base[0] -= from as i64;
        self
    }

    /// The number of elements.
    pub(crate) fn count(&self) -> u64 {
        let outer = self.outer.iter().map(|l| l.extent as u64);
        outer.fold(self.inner.0 as u64, u64::saturating_mul)
    }

    /// Calls with the offsets at each start of the innermost loop.
    pub(crate) fn each(&self, mut call: impl FnMut([i64; K])) {
        if self.inner.0 != 0 {
            walk(&self.outer, self.base, &mut call);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn loops_follow_strides_and_list_the_rest() {
        let rows: Vec<i64> = vec![0, 1, 2, 10, 11, 12];
        let loops = dimension([&rows[..]]);
        let strides: Vec<_> = loops.iter().map(|l| (l.extent, &l.steps)).collect();
        let wanted = [(2, &Steps::Strides([10])), (3, &Steps::Strides([1]))];
        assert_eq!(strides, wanted);
        let ragged: Vec<i64> = vec![0, 1, 2, 10, 11];
        let loops = dimension([&ragged[..]]);
        assert!(matches!(loops[0].steps, Steps::Listed(_)));
        let mut found = Vec::new();
        walk(&loops, [0], &mut |[at]| found.push(at));
        assert_eq!(found, ragged);
    }

    #[test]
    fn outer_dimensions_without_a_sum_are_listed() {
        let heads = [0i64, 50, 7, 100];
        let offsets = heads.iter().flat_map(|h| (0..3).map(move |t| h + t));
        let listed = Access::Listed {
            shape: vec![2, 2, 3],
            offsets: offsets.collect(),
        };
        let plain = Access::Sum {
            base: 1,
            tables: vec![vec![0, 6], vec![0, 3], vec![0, 1, 2]],
        };
        let nest = Nest::of([&listed, &plain]).expect("the last dimension is a sum");
        assert_eq!((nest.inner, nest.count()), ((3, [1, 1]), 12));
        let mut begins = Vec::new();
        nest.each(|at| begins.push(at));
        assert_eq!(begins, [[0, 1], [50, 4], [7, 7], [100, 10]]);
        assert!(nest.fits(0, 103) && !nest.fits(0, 102));
        assert!(nest.fits(1, 13) && !nest.fits(1, 12));
    }

    #[test]
    fn what_is_rolled_is_cut_into_boxes() {
        let rolled: Vec<i64> = (0..7).map(|i| (i + 3) % 7 * 10).collect();
        let first = rolled[0];
        let rolled: Vec<i64> = rolled.iter().map(|at| at - first).collect();
        let value = |tables: Vec<Vec<i64>>| Access::Sum { base: 30, tables };
        let to = value(vec![rolled, vec![0, 1, 2, 3]]);
        let from = value(vec![(0..7).map(|i| i * 4).collect(), vec![0, 1, 2, 3]]);
        let boxes = Nest::boxes([&to, &from]).expect("they are sums");
        assert_eq!(boxes.len(), 2);
        let listed = |n: &Nest<2>| {
            let listed = |l: &Loop<2>| matches!(l.steps, Steps::Listed(_));
            n.loops().iter().any(listed)
        };
        assert!(!boxes.iter().any(listed));
        let mut found = Vec::new();
        for nest in &boxes {
            let (n, steps) = nest.inner;
            nest.each(|at| {
                found.extend((0..n as i64).map(|i| [at[0] + steps[0] * i, at[1] + steps[1] * i]));
            });
        }
        let mut wanted = Vec::new();
        to.each(|at| wanted.push([at, 0]));
        let mut number = 0;
        from.each(|at| {
            wanted[number][1] = at;
            number += 1;
        });
        found.sort_unstable();
        wanted.sort_unstable();
        assert_eq!(found, wanted);
        let woven: Vec<i64> = vec![0, 5, 1, 6, 2, 7, 30];
        let woven = value(vec![woven, vec![0, 1, 2, 3]]);
        let whole = Nest::boxes([&woven, &from]).expect("they are sums");
        assert_eq!(whole.len(), 1, "it is too many pieces");
    }

    #[test]
    fn values_joined_of_others_are_boxes() {
        let own = |strides: &[i64], n: usize, from: i64| (Access::strided(&[5, n], strides), from);
        let joined = Access::joined(1, &[own(&[9, 1], 4, 0), own(&[6, 1], 3, 100)]);
        let joined = joined.expect("they have as many rows");
        let plain = Access::strided(&[5, 7], &[7, 1]);
        let boxes = Nest::boxes([&plain, &joined]).expect("each is a sum");
        let inner: Vec<usize> = boxes.iter().map(|nest| nest.inner.0).collect();
        assert_eq!(inner, [4, 3]);
        let mut found = vec![None; 35];
        for nest in &boxes {
            let (n, steps) = nest.inner;
            nest.each(|at| {
                for i in 0..n as i64 {
                    found[(at[0] + i * steps[0]) as usize] = Some(at[1] + i * steps[1]);
                }
            });
        }
        let mut wanted = Vec::new();
        joined.each(|offset| wanted.push(Some(offset)));
        assert_eq!(found, wanted);
    }

    #[test]
    fn loops_that_are_one_are_joined() {
        let sum = |tables: Vec<Vec<i64>>| Access::Sum { base: 5, tables };
        let a = sum(vec![vec![0, 3, 6, 9], vec![0, 1, 2]]);
        let nest = Nest::of([&a, &a]).expect("both are sums");
        assert_eq!(nest.inner, (12, [1, 1]));
        assert!(nest.fits(0, 17) && !nest.fits(0, 16));
        let turned = sum(vec![vec![0, 1, 2, 3], vec![0, 4, 8]]);
        let nest = Nest::of([&a, &turned]).expect("both are sums");
        assert_eq!(nest.inner, (3, [1, 4]));
        let mut begins = Vec::new();
        nest.each(|at| begins.push(at));
        assert_eq!(begins, [[5, 5], [8, 6], [11, 7], [14, 8]]);
    }
}
