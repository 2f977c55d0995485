//! Nested loops over several values at once, with the offsets that each step adds.
//!
//! A row-major value `[4, 3]`, strides (3, 1), that is copied to one with strides (1, 4) gives two loops. The outer one has
//! 3 steps that add 4 to the result's offset and 1 to the operand's, the inner one 4 steps that add 1 and 3. If both values
//! have strides (3, 1), the loops are fused into one of 12 steps that add 1 to both.

/// One loop over `K` values.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Loop<const K: usize> {
    /// The number of steps.
    pub extent: usize,
    /// The offsets that they add.
    pub steps: Steps<K>,
}

/// The offsets that a loop adds at each step.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Steps<const K: usize> {
    /// Constant strides, times the step.
    Strides([i64; K]),
    /// One entry for each step.
    Listed(Vec<[i64; K]>),
}

impl<const K: usize> Loop<K> {
    /// Returns whether some step adds to the offset of a value.
    pub(crate) fn moves(&self, value: usize) -> bool {
        match &self.steps {
            Steps::Strides(strides) => strides[value] != 0,
            Steps::Listed(list) => list.iter().any(|offsets| offsets[value] != 0),
        }
    }

    /// The offsets that a step adds.
    pub fn at(&self, step: usize) -> [i64; K] {
        match &self.steps {
            Steps::Strides(strides) => strides.map(|stride| stride * step as i64),
            Steps::Listed(list) => list.get(step).copied().unwrap_or([0; K]),
        }
    }
}

/// The loops over one dimension, outermost first, given each value's offsets along it.
pub fn dimension<const K: usize>(tables: [&[i64]; K]) -> Vec<Loop<K>> {
    let n = tables.iter().map(|t| t.len()).max().unwrap_or(0);
    if n == 1 {
        return Vec::new();
    }
    let get = |j: usize| tables.map(|t| t.get(j).copied().unwrap_or(0));
    let first = get(1);
    let run = (0..n)
        .take_while(|&j| get(j) == first.map(|s| s * j as i64))
        .count();
    if run == n {
        let steps = Steps::Strides(first);
        return vec![Loop { extent: n, steps }];
    }
    let sums = |period: usize| {
        (0..n).all(|j| {
            let (outer, inner) = (get(j / period * period), get(j % period));
            std::array::from_fn(|k| outer[k] + inner[k]) == get(j)
        })
    };
    // The longest inner loop for which all offsets are sums of an outer and an inner offset.
    let mut periods = (2..=run).rev().filter(|&d| n.is_multiple_of(d));
    if let Some(period) = periods.find(|&period| sums(period)) {
        let outer: [Vec<i64>; K] = tables.map(|t| t.iter().step_by(period).copied().collect());
        let mut loops = dimension(std::array::from_fn(|k| &outer[k][..]));
        let steps = Steps::Strides(first);
        loops.push(Loop {
            extent: period,
            steps,
        });
        return loops;
    }
    let steps = Steps::Listed((0..n).map(get).collect());
    vec![Loop { extent: n, steps }]
}

/// Sorts loops by the stride of value `by`, the largest outermost, and fuses loops that together have one stride.
pub fn ordered<const K: usize>(mut loops: Vec<Loop<K>>, by: usize) -> Vec<Loop<K>> {
    let size = |l: &Loop<K>| match &l.steps {
        Steps::Strides(strides) => {
            let rest: i64 = strides.iter().map(|s| s.abs()).max().unwrap_or(0);
            (strides[by].abs(), rest)
        }
        Steps::Listed(_) => (i64::MAX, i64::MAX),
    };
    loops.sort_by_key(|l| std::cmp::Reverse(size(l)));
    let mut joined: Vec<Loop<K>> = Vec::with_capacity(loops.len());
    for next in loops {
        let one = joined.last_mut().filter(|last| is_one(last, &next));
        match one {
            Some(last) => {
                last.extent *= next.extent;
                last.steps = next.steps;
            }
            None => joined.push(next),
        }
    }
    joined
}

fn is_one<const K: usize>(outer: &Loop<K>, inner: &Loop<K>) -> bool {
    match (&outer.steps, &inner.steps) {
        (Steps::Strides(a), Steps::Strides(b)) => {
            (0..K).all(|k| a[k] == b[k] * inner.extent as i64)
        }
        _ => false,
    }
}

/// Calls with the offsets at every step of nested loops, outermost first.
pub fn walk<const K: usize>(loops: &[Loop<K>], at: [i64; K], call: &mut impl FnMut([i64; K])) {
    let Some((first, rest)) = loops.split_first() else {
        return call(at);
    };
    for step in 0..first.extent {
        let add = first.at(step);
        walk(rest, std::array::from_fn(|k| at[k] + add[k]), call);
    }
}
