//! Offsets of the elements of a value: a sum of one offset for each dimension's index, or a list.
//!
//! For a `tensor<2x3xf32>` that is column-major, the base is 0 and the tables are `[0, 1]` and `[0, 2, 4]`: element (1, 2)
//! has the offset 0 + 1 + 4 = 5.
//!
//! Layouts of digits have the form of a sum, whatever tiles and padding they have, and so have slices, broadcasts and
//! transposes of them. A reshape keeps the form if the offsets of each dimension that it splits are sums themselves.
//! Anything else is a list of the offset of every element.

use optc_layout::Layout;
use std::ops::Range;

/// The offset of each element, in elements of the buffer.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Access {
    /// `base` plus an offset for the index of each dimension.
    Sum {
        base: i64,
        /// For each dimension, the offset of each index; the first is 0.
        tables: Vec<Vec<i64>>,
    },
    /// The extents, and the offset of each element in row-major order; there is at least one element.
    Listed {
        shape: Vec<usize>,
        offsets: Vec<i64>,
    },
}

impl Access {
    /// The access of a layout; `None` if offsets do not fit in an `i64` or a `usize`.
    pub(crate) fn of(layout: &Layout) -> Option<Access> {
        let shape: Vec<usize> = sizes(layout.shape())?;
        if shape.contains(&0) {
            return Some(Access::constant_zero(&shape));
        }
        if let Some(modes) = layout.modes() {
            let mut tables: Vec<Vec<i64>> = shape.iter().map(|&n| vec![0; n]).collect();
            let mut stride = i64::try_from(layout.positions()).ok()?;
            for mode in modes {
                stride /= i64::try_from(mode.extent.max(1)).ok()?;
                let (div, count) = (mode.div.max(1), mode.count.max(1));
                for (i, offset) in tables[mode.dim].iter_mut().enumerate() {
                    let digit = (i as u64 / div) % count;
                    *offset += i64::try_from(digit).ok()? * stride;
                }
            }
            return Some(Access::Sum { base: 0, tables });
        }
        Access::by_index(layout, shape)
    }

    /// The access that maps every index to offset 0.
    pub(crate) fn constant_zero(shape: &[usize]) -> Access {
        let tables = shape.iter().map(|&n| vec![0; n]).collect();
        Access::Sum { base: 0, tables }
    }

    /// Elements with these offsets in row-major order; a sum if there are no elements.
    pub(crate) fn listed(shape: Vec<usize>, offsets: Vec<i64>) -> Access {
        match offsets.is_empty() {
            true => Access::constant_zero(&shape),
            false => Access::Listed { shape, offsets },
        }
    }

    /// Elements at constant strides.
    pub(crate) fn strided(shape: &[usize], strides: &[i64]) -> Access {
        let along = |(&n, stride): (&usize, &i64)| (0..n as i64).map(|i| i * stride).collect();
        let tables = shape.iter().zip(strides).map(along).collect();
        Access::Sum { base: 0, tables }
    }

    /// Returns whether offsets are a sum by dimension.
    /// Access of contiguous elements in row-major order.
    pub(crate) fn row_major(shape: &[usize]) -> Access {
        let mut strides = vec![1i64; shape.len()];
        for d in (1..shape.len()).rev() {
            strides[d - 1] = strides[d] * shape[d] as i64;
        }
        Access::strided(shape, &strides)
    }

    pub(crate) fn is_sum(&self) -> bool {
        matches!(self, Access::Sum { .. })
    }

    /// The base and the offsets along each dimension, if offsets are a sum by dimension.
    pub(crate) fn into_sum(self) -> Option<(i64, Vec<Vec<i64>>)> {
        match self {
            Access::Sum { base, tables } => Some((base, tables)),
            Access::Listed { .. } => None,
        }
    }

    /// The offsets by [`Layout::index`], as a sum if they are one.
    fn by_index(layout: &Layout, shape: Vec<usize>) -> Option<Access> {
        let count = shape.iter().try_fold(1usize, |a, &n| a.checked_mul(n))?;
        let mut index = vec![0u64; shape.len()];
        let mut offsets = Vec::with_capacity(count);
        for _ in 0..count {
            offsets.push(i64::try_from(layout.index(&index)?).ok()?);
            for (i, &n) in index.iter_mut().zip(&shape).rev() {
                *i += 1;
                if *i < n as u64 {
                    break;
                }
                *i = 0;
            }
        }
        Some(Access::listed(shape, offsets).try_sum())
    }

    /// The access as a sum, if it is one.
    pub(crate) fn try_sum(self) -> Access {
        let Access::Listed { shape, offsets } = &self else {
            return self;
        };
        let Some(&base) = offsets.first() else {
            return Access::constant_zero(shape);
        };
        let mut step = offsets.len();
        let mut tables = Vec::with_capacity(shape.len());
        for &n in shape {
            step /= n.max(1);
            tables.push((0..n).map(|i| offsets[i * step] - base).collect());
        }
        let sum = Access::Sum { base, tables };
        let mut same = true;
        let mut at = 0;
        sum.each(|offset| {
            same &= offsets[at] == offset;
            at += 1;
        });
        match same {
            true => sum,
            false => self,
        }
    }

    /// For a list: a dimension and at most `most` ranges of it such that the access is a sum in each range.
    pub(crate) fn pieces(&self, most: usize) -> Option<(usize, Vec<Range<usize>>)> {
        let Access::Listed { shape, offsets } = self else {
            return None;
        };
        (0..shape.len()).find_map(|dim| {
            let inner: usize = shape[dim + 1..].iter().product();
            let step = shape[dim] * inner;
            // Returns whether the elements at two indices of the dimension differ by a constant offset.
            let alike = |i: usize, j: usize| {
                let by = offsets[j * inner] - offsets[i * inner];
                let blocks = offsets.chunks_exact(step);
                blocks.into_iter().all(|block| {
                    let (a, b) = (&block[i * inner..][..inner], &block[j * inner..][..inner]);
                    a.iter().zip(b).all(|(a, b)| b - a == by)
                })
            };
            let mut ranges: Vec<Range<usize>> = Vec::new();
            for i in 0..shape[dim] {
                if let Some(range) = ranges.last_mut().filter(|r| alike(r.start, i)) {
                    range.end = i + 1;
                } else if ranges.len() == most {
                    return None;
                } else {
                    ranges.push(i..i + 1);
                }
            }
            let is_sum = |range: &Range<usize>| {
                let own = |(d, &n): (usize, &usize)| match d == dim {
                    true => range.clone().collect(),
                    false => (0..n).collect(),
                };
                let pick: Vec<Vec<usize>> = shape.iter().enumerate().map(own).collect();
                self.picked(&pick).try_sum().is_sum()
            };
            (1 < ranges.len() && ranges.iter().all(is_sum)).then_some((dim, ranges))
        })
    }

    /// Splits an access at dimension `from`: the offset at each index of the outer dimensions, in row-major order, and
    /// tables of the inner ones. `None` if the inner offsets are not the same at all outer indices.
    pub(crate) fn split(&self, from: usize) -> Option<(Vec<i64>, Vec<Vec<i64>>)> {
        match self {
            Access::Sum { base, tables } => {
                let outer = Access::Sum {
                    base: *base,
                    tables: tables.get(..from)?.to_vec(),
                };
                Some((outer.offsets(), tables[from..].to_vec()))
            }
            Access::Listed { shape, offsets } => {
                let inner: usize = shape.get(from..)?.iter().product();
                let blocks = offsets.chunks_exact(inner.max(1));
                let heads = blocks.clone().filter_map(|block| block.first().copied());
                let heads: Vec<i64> = heads.collect();
                let first = Access::Listed {
                    shape: shape[from..].to_vec(),
                    offsets: offsets.get(..inner)?.to_vec(),
                };
                let (_, tables) = first.try_sum().into_sum()?;
                let tail = Access::Sum { base: 0, tables };
                let mut alike = true;
                for (block, head) in blocks.zip(&heads) {
                    let mut own = block.iter();
                    tail.each(|offset| alike &= own.next() == Some(&(head + offset)));
                }
                let Access::Sum { tables, .. } = tail else {
                    return None;
                };
                alike.then_some((heads, tables))
            }
        }
    }

    /// The extents.
    pub(crate) fn shape(&self) -> Vec<usize> {
        match self {
            Access::Sum { tables, .. } => tables.iter().map(Vec::len).collect(),
            Access::Listed { shape, .. } => shape.clone(),
        }
    }

    /// The least and the greatest offset; `None` without elements.
    pub(crate) fn reach(&self) -> Option<(i64, i64)> {
        match self {
            Access::Sum { base, tables } => tables
                .iter()
                .try_fold((*base, *base), |(low, high), table| {
                    Some((low + table.iter().min()?, high + table.iter().max()?))
                }),
            Access::Listed { offsets, .. } => {
                Some((*offsets.iter().min()?, *offsets.iter().max()?))
            }
        }
    }

    /// Shifts all offsets by `by`.
    pub(crate) fn moved(mut self, by: i64) -> Access {
        match &mut self {
            Access::Sum { base, .. } => *base += by,
            Access::Listed { offsets, .. } => offsets.iter_mut().for_each(|at| *at += by),
        }
        self
    }

    /// The number of elements.
    pub(crate) fn count(&self) -> usize {
        self.shape().iter().product()
    }

    /// The offsets of all elements, in row-major order.
    pub(crate) fn offsets(&self) -> Vec<i64> {
        let mut all = Vec::with_capacity(self.count());
        self.each(|offset| all.push(offset));
        all
    }

    /// Calls with the offset of each element in row-major order.
    pub(crate) fn each(&self, mut call: impl FnMut(i64)) {
        match self {
            Access::Listed { offsets, .. } => offsets.iter().copied().for_each(call),
            Access::Sum { base, tables } => {
                let Some((last, outer)) = tables.split_last() else {
                    return call(*base);
                };
                if tables.iter().any(Vec::is_empty) {
                    return;
                }
                let mut index = vec![0usize; outer.len()];
                let mut at = *base;
                loop {
                    last.iter().for_each(|offset| call(at + offset));
                    let mut dim = outer.len();
                    loop {
                        let Some(next) = dim.checked_sub(1) else {
                            return;
                        };
                        dim = next;
                        let table = &outer[dim];
                        at -= table[index[dim]];
                        index[dim] += 1;
                        if index[dim] < table.len() {
                            at += table[index[dim]];
                            break;
                        }
                        index[dim] = 0;
                        at += table[0];
                    }
                }
            }
        }
    }

    /// The elements at the indices that `pick` lists for each dimension.
    pub(crate) fn picked(&self, pick: &[Vec<usize>]) -> Access {
        match self {
            Access::Sum { base, tables } => {
                let mut start = *base;
                let mut picked = Vec::with_capacity(tables.len());
                for (table, pick) in tables.iter().zip(pick) {
                    let first = pick.first().map_or(0, |&i| table[i]);
                    start += first;
                    picked.push(pick.iter().map(|&i| table[i] - first).collect());
                }
                Access::Sum {
                    base: start,
                    tables: picked,
                }
            }
            Access::Listed { shape, offsets } => {
                let strides = strides_of(shape);
                let tables = pick
                    .iter()
                    .zip(&strides)
                    .map(|(pick, &stride)| pick.iter().map(|&i| (i * stride) as i64).collect())
                    .collect();
                numbered(offsets, tables)
            }
        }
    }

    /// The concatenation of several values along a dimension, each with a number that is added to its offsets; `None` if
    /// other extents differ.
    pub(crate) fn joined(dim: usize, all: &[(Access, i64)]) -> Option<Access> {
        Access::one_sum(dim, all).or_else(|| Access::one_after_another(dim, all))
    }

    /// The concatenation as a sum, if it is one.
    fn one_sum(dim: usize, all: &[(Access, i64)]) -> Option<Access> {
        let mut found: Option<(i64, Vec<Vec<i64>>)> = None;
        for (access, by) in all {
            let (own, tables) = access.clone().moved(*by).into_sum()?;
            let Some((base, joined)) = &mut found else {
                tables.get(dim)?;
                found = Some((own, tables));
                continue;
            };
            let beside = |t: &[Vec<i64>]| -> Vec<Vec<i64>> {
                let all = t.iter().enumerate().filter(|&(d, _)| d != dim);
                all.map(|(_, table)| table.clone()).collect()
            };
            if beside(joined) != beside(&tables) {
                return None;
            }
            let by = own - *base;
            joined[dim].extend(tables.get(dim)?.iter().map(|at| at + by));
        }
        let (base, tables) = found?;
        Some(Access::Sum { base, tables })
    }

    /// The concatenation as a list.
    fn one_after_another(dim: usize, all: &[(Access, i64)]) -> Option<Access> {
        let mut shape = all.first()?.0.shape();
        let mut parts = Vec::with_capacity(all.len());
        let mut length = 0;
        for (access, by) in all {
            let own = access.shape();
            length += own.get(dim)?;
            let beside = own.iter().zip(&shape).enumerate();
            if own.len() != shape.len() || beside.into_iter().any(|(d, (a, b))| d != dim && a != b)
            {
                return None;
            }
            let offsets = access.clone().moved(*by).offsets();
            parts.push((own[dim..].iter().product::<usize>(), offsets));
        }
        shape[dim] = length;
        let blocks: usize = shape[..dim].iter().product();
        let mut offsets = Vec::with_capacity(shape.iter().product());
        for block in 0..blocks {
            for (n, part) in &parts {
                offsets.extend(part.get(block * n..(block + 1) * n)?);
            }
        }
        Some(Access::listed(shape, offsets).try_sum())
    }

    /// Broadcasts to a shape, as numpy does.
    pub(crate) fn broadcast(&self, shape: &[usize]) -> Access {
        let own = self.shape();
        let lead = shape.len().saturating_sub(own.len());
        let mut with_ones = vec![1usize; lead];
        with_ones.extend(&own);
        let access = self.reshaped(&with_ones);
        let pick: Vec<Vec<usize>> = with_ones
            .iter()
            .zip(shape)
            .map(|(&own, &n)| (0..n).map(|i| if own == 1 { 0 } else { i }).collect())
            .collect();
        access.picked(&pick)
    }

    /// Permutes dimensions: `perm[i]` is the dimension that becomes dimension `i`.
    pub(crate) fn transposed(&self, perm: &[usize]) -> Access {
        match self {
            Access::Sum { base, tables } => Access::Sum {
                base: *base,
                tables: perm.iter().map(|&p| tables[p].clone()).collect(),
            },
            Access::Listed { shape, offsets } => {
                let strides = strides_of(shape);
                let tables = perm
                    .iter()
                    .map(|&p| (0..shape[p]).map(|i| (i * strides[p]) as i64).collect())
                    .collect();
                numbered(offsets, tables)
            }
        }
    }

    /// The elements in row-major order under other extents.
    pub(crate) fn reshaped(&self, shape: &[usize]) -> Access {
        if self.shape() == shape {
            return self.clone();
        }
        if let Access::Sum { base, tables } = self
            && let Some(tables) = regrouped(tables, shape)
        {
            return Access::Sum {
                base: *base,
                tables,
            };
        }
        Access::listed(shape.to_vec(), self.offsets()).try_sum()
    }
}

/// Extents as `usize`, if they fit.
fn sizes(shape: &[u64]) -> Option<Vec<usize>> {
    shape.iter().map(|&n| usize::try_from(n).ok()).collect()
}

/// Tables of a reshape; `None` if the offsets are no sum by the new dimensions.
fn regrouped(tables: &[Vec<i64>], shape: &[usize]) -> Option<Vec<Vec<i64>>> {
    if shape.contains(&0) || tables.iter().any(Vec::is_empty) {
        return None;
    }
    let mut out = Vec::with_capacity(shape.len());
    // Old dimensions that are not yet consumed, the innermost last.
    let mut rest: Vec<Vec<i64>> = tables.iter().filter(|t| 1 < t.len()).cloned().collect();
    for &wanted in shape.iter().rev() {
        let mut made = vec![0i64];
        while made.len() < wanted {
            let next = rest.pop()?;
            let missing = wanted / made.len();
            if wanted % made.len() != 0 {
                return None;
            }
            if missing < next.len() {
                if next.len() % missing != 0 {
                    return None;
                }
                let inner = next[..missing].to_vec();
                let outer: Vec<i64> = next.iter().step_by(missing).copied().collect();
                let sum = |i: usize| outer[i / missing] + inner[i % missing];
                if (0..next.len()).any(|i| next[i] != sum(i)) {
                    return None;
                }
                rest.push(outer);
                made = joined(&inner, &made);
            } else {
                made = joined(&next, &made);
            }
        }
        if made.len() != wanted {
            return None;
        }
        out.push(made);
    }
    out.reverse();
    rest.is_empty().then_some(out)
}

/// The offsets of two dimensions merged into one.
fn joined(outer: &[i64], inner: &[i64]) -> Vec<i64> {
    let pairs = outer.iter().flat_map(|o| inner.iter().map(move |i| o + i));
    pairs.collect()
}

/// Row-major strides of a shape, in elements.
fn strides_of(shape: &[usize]) -> Vec<usize> {
    let mut strides = vec![1usize; shape.len()];
    for i in (1..shape.len()).rev() {
        strides[i - 1] = strides[i] * shape[i];
    }
    strides
}

/// The elements whose row-major indices are the sums of these tables.
fn numbered(offsets: &[i64], mut tables: Vec<Vec<i64>>) -> Access {
    let mut base = 0;
    for table in &mut tables {
        let first = table.first().copied().unwrap_or(0);
        base += first;
        table.iter_mut().for_each(|number| *number -= first);
    }
    let numbers = Access::Sum { base, tables };
    let mut found = Vec::with_capacity(numbers.count());
    numbers.each(|number| found.push(offsets[number as usize]));
    Access::listed(numbers.shape(), found)
}

#[cfg(test)]
mod tests {
    use super::*;
    use optc_layout::notation::parse_tensor;

    fn access(text: &str) -> (Layout, Access) {
        let layout = parse_tensor(text).expect("a tensor").layout;
        let access = Access::of(&layout).expect("it is small");
        (layout, access)
    }

    #[test]
    fn offsets_are_those_of_the_layout() {
        for text in [
            "tensor<3x5xf32>",
            "tensor<f32>",
            "tensor<3x5xf32, {order = [1, 0]}>",
            "tensor<5x7xf32, {block = \"2W4H\", order = [1, 0]}>",
            "tensor<3x5xf32, {xla = \"1,0:T(2,2)\"}>",
            "tensor<3x5xf32, {strides = [7, 1], offset = 3, size = 40}>",
            "tensor<4x6xf32, {digits = \"3:d1/2 4:d0 2:d1\"}>",
            "tensor<3x5x7xf32, {xla = \"2,1,0:T(4)\"}>",
        ] {
            let (layout, access) = access(text);
            let mut at = 0;
            let shape = layout.shape().to_vec();
            access.each(|offset| {
                let mut number = at;
                let mut index = vec![0; shape.len()];
                for (i, n) in index.iter_mut().zip(&shape).rev() {
                    *i = number % n;
                    number /= n;
                }
                assert_eq!(layout.index(&index), u64::try_from(offset).ok(), "{text}");
                at += 1;
            });
            assert_eq!(at, layout.elements(), "{text}");
        }
    }

    #[test]
    fn what_is_no_sum_is_one_from_some_dimension_on() {
        // Four rows at arbitrary offsets, of two by three elements.
        let heads = [0, 50, 7, 100];
        let tail = [0, 1, 2, 20, 21, 22];
        let listed = heads.iter().flat_map(|h| tail.iter().map(move |t| h + t));
        let listed = Access::Listed {
            shape: vec![2, 2, 2, 3],
            offsets: listed.collect(),
        };
        assert_eq!(listed.clone().try_sum(), listed);
        let part = listed.picked(&[vec![1], vec![1], vec![1], vec![2, 0]]);
        assert_eq!(part.offsets(), [122, 120]);
        assert_eq!(listed.split(1), None);
        let found = listed.split(2).expect("rows are alike");
        assert_eq!(found.0, heads);
        assert_eq!(found.1, [vec![0, 20], vec![0, 1, 2]]);
        let rows = Access::Sum {
            base: 3,
            tables: vec![vec![0, 10], vec![0, 1]],
        };
        let (heads, tables) = rows.split(1).expect("it is a sum");
        assert_eq!((heads, tables), (vec![3, 13], vec![vec![0, 1]]));
    }

    #[test]
    fn what_has_no_elements_is_a_sum() {
        let (_, none) = access("tensor<1x3x0xf32>");
        let rolled = Access::listed(vec![2, 2], vec![0, 5, 7, 1]);
        assert!(!rolled.is_sum());
        for empty in [
            none.reshaped(&[3, 0, 5]),
            none.broadcast(&[3, 1, 3, 0]),
            none.transposed(&[2, 0, 1]),
            rolled.picked(&[vec![], vec![1, 0]]),
            Access::Listed {
                shape: vec![2, 0],
                offsets: Vec::new(),
            }
            .try_sum(),
            Access::joined(0, &[(none.clone(), 3), (none.clone(), 9)]).expect("they are alike"),
        ] {
            assert!(empty.is_sum() && empty.count() == 0, "{empty:?}");
            assert_eq!(empty.pieces(3), None);
            assert!(empty.split(1).is_some());
            assert_eq!(empty.reshaped(&empty.shape()), empty);
            empty.each(|_| panic!("there is no element"));
        }
    }

    #[test]
    fn values_are_joined_whatever_their_strides_are() {
        let rows = |strides: &[i64], n: usize| (Access::strided(&[2, n], strides), 0);
        let (first, second) = (rows(&[10, 1], 3), rows(&[7, 2], 2));
        let alike = Access::joined(1, &[first.clone(), (rows(&[10, 1], 2).0, 100)]);
        let alike = alike.expect("they lie alike");
        assert!(alike.is_sum());
        assert_eq!(alike.offsets(), [0, 1, 2, 100, 101, 10, 11, 12, 110, 111]);
        let other = Access::joined(1, &[first.clone(), (second.0.clone(), 50)]);
        let other = other.expect("they have as many rows");
        assert_eq!(other.offsets(), [0, 1, 2, 50, 52, 10, 11, 12, 57, 59]);
        assert_eq!(other.shape(), [2, 5]);
        assert_eq!(Access::joined(0, &[first, second]), None);
    }

    #[test]
    fn reshapes_keep_the_order_of_elements() {
        let (_, rows) = access("tensor<4x6xf32, {order = [1, 0]}>");
        let before = rows.offsets();
        for shape in [
            vec![24],
            vec![2, 2, 6],
            vec![4, 3, 2],
            vec![8, 3],
            vec![3, 8],
            vec![1, 24, 1],
        ] {
            let after = rows.reshaped(&shape);
            assert_eq!(after.shape(), shape);
            assert_eq!(after.offsets(), before, "{shape:?}");
            let back = after.transposed(&(0..shape.len()).rev().collect::<Vec<_>>());
            assert_eq!(back.count(), 24);
        }
        let part = rows.picked(&[vec![1, 3], vec![0, 1, 2]]);
        assert_eq!(part.offsets(), [1, 5, 9, 3, 7, 11]);
        let wide = part.broadcast(&[2, 2, 3]);
        assert_eq!(wide.offsets()[..6], wide.offsets()[6..]);
    }
}
