//! A tile of a value: the start and the extent in each dimension.

use crate::expr::{Expr, ExprError};
use std::fmt;
use thiserror::Error;

/// The part of one dimension that a program works on: `extent` elements from `start` on.
///
/// Positions before 0 and from the end of the dimension on are not elements: they are clipped. The text is `16 @ g0 *
/// 16`; `16` alone starts at 0.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct Span {
    /// The first element, over the indices of the grid.
    pub start: Expr,
    /// The number of elements.
    pub extent: u64,
}

/// A box of a value: one span a dimension.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Default)]
pub struct Tile(pub Vec<Span>);

/// The reason why a text is not a span.
#[derive(Clone, PartialEq, Eq, Debug, Error)]
pub enum SpanError {
    /// The text before `@` is not a number of elements.
    #[error("`{text}` does not start with a number of elements, wanted `16 @ g0 * 16` or `16`")]
    Extent {
        /// The text.
        text: String,
    },
    /// The text after `@` is not an expression.
    #[error(transparent)]
    Start(#[from] ExprError),
}

/// The greatest extent that is read.
const MAX_EXTENT: u64 = 1 << 40;

impl Span {
    /// All of a dimension.
    #[must_use]
    pub fn whole(extent: u64) -> Span {
        Span {
            start: Expr::default(),
            extent,
        }
    }

    /// `extent` elements from an expression on.
    #[must_use]
    pub fn new(start: Expr, extent: u64) -> Span {
        Span { start, extent }
    }

    /// Returns whether the span is all of a dimension of this size in every program.
    #[must_use]
    pub fn is_whole(&self, size: u64) -> bool {
        match self.start.as_number() {
            Some(start) => start <= 0 && size <= self.extent.saturating_sub(start.unsigned_abs()),
            None => false,
        }
    }

    /// Reads a text.
    ///
    /// # Errors
    /// The text is not a span.
    pub fn parse(text: &str) -> Result<Span, SpanError> {
        let (extent, start) = match text.split_once('@') {
            Some((extent, start)) => (extent, Expr::parse(start)?),
            None => (text, Expr::default()),
        };
        let digits = extent.trim();
        let plain = !digits.is_empty() && digits.bytes().all(|b| b.is_ascii_digit());
        let extent = digits.parse().ok().filter(|n| plain && *n <= MAX_EXTENT);
        let extent = extent.ok_or_else(|| SpanError::Extent {
            text: text.to_owned(),
        })?;
        Ok(Span { start, extent })
    }

    /// The elements `start..end` of the program at `index`, clipped to a dimension of this size.
    #[must_use]
    pub fn clipped(&self, index: &[i64], size: u64) -> std::ops::Range<u64> {
        let start = self.start.eval(index);
        let end = start.saturating_add(i64::try_from(self.extent).unwrap_or(i64::MAX));
        let clip = |n: i64| u64::try_from(n).unwrap_or(0).min(size);
        let (start, end) = (clip(start), clip(end));
        start..end.max(start)
    }

    /// The spans of `x floordiv by` and `x mod by` for x over the span: the blocks of `by` elements that the span
    /// touches, and its part of a block. The flag is true if the pair is exact, that is, not larger than the span.
    #[must_use]
    pub fn divide(&self, by: u64, grid: &[u64]) -> (Span, Span, bool) {
        let Ok(step) = i64::try_from(by.max(1)) else {
            return (Span::whole(1), self.clone(), true);
        };
        if by <= 1 {
            return (self.clone(), Span::whole(1), true);
        }
        let outer = self.start.floordiv(step, grid);
        let phase = self.start.rem(step, grid);
        let (first, last) = phase.range(grid);
        let (first, last) = (first.unsigned_abs(), last.unsigned_abs());
        if last.saturating_add(self.extent) <= by {
            return (Span::new(outer, 1), Span::new(phase, self.extent), true);
        }
        let blocks = last.saturating_add(self.extent).div_ceil(by).max(1);
        let exact = first == 0 && last == 0 && self.extent.is_multiple_of(by);
        (Span::new(outer, blocks), Span::whole(by), exact)
    }

    /// The smallest span that holds both in every program.
    #[must_use]
    pub fn union(&self, other: &Span, grid: &[u64]) -> Span {
        let (low, high) = other.start.range_of_minus(&self.start, grid);
        let end = i64::try_from(other.extent).unwrap_or(i64::MAX);
        let end = high.saturating_add(end).max(0).unsigned_abs();
        let before = low.min(0).unsigned_abs();
        Span {
            start: self.start.offset(low.min(0)),
            extent: self.extent.max(end).saturating_add(before),
        }
    }

    /// Returns whether `self` contains `inner` in every program, both clipped to a dimension of this size.
    #[must_use]
    pub fn holds(&self, inner: &Span, size: u64, grid: &[u64]) -> bool {
        if self.is_whole(size) {
            return true;
        }
        let number = |n: u64| i64::try_from(n).unwrap_or(i64::MAX);
        let (own, size) = (number(self.extent), number(size));
        let (least, most) = inner.start.range_of_minus(&self.start, grid);
        let starts = 0 <= least || self.start.range(grid).1 <= 0;
        let ends = most.saturating_add(number(inner.extent)) <= own
            || size <= self.start.range(grid).0.saturating_add(own);
        starts && ends
    }

    /// The span without the elements that lie behind the end of a dimension of this size in every program. An extent
    /// that is a power of two stays one.
    #[must_use]
    pub fn trimmed(&self, size: u64, grid: &[u64]) -> Span {
        let before = self.start.range(grid).0.min(0).unsigned_abs();
        let reached = size.saturating_add(before).max(1);
        let extent = match self.extent.is_power_of_two() {
            true => reached.checked_next_power_of_two().unwrap_or(u64::MAX),
            false => reached,
        };
        Span {
            start: self.start.clone(),
            extent: self.extent.min(extent),
        }
    }

    /// The span with each axis replaced by an expression.
    #[must_use]
    pub fn substitute(&self, with: &dyn Fn(usize) -> Expr, grid: &[u64]) -> Span {
        Span {
            start: self.start.substitute(with, grid),
            extent: self.extent,
        }
    }
}

impl Tile {
    /// All of a value of this shape.
    #[must_use]
    pub fn whole(shape: &[u64]) -> Tile {
        Tile(shape.iter().map(|&n| Span::whole(n)).collect())
    }

    /// The number of elements before clipping.
    #[must_use]
    pub fn elements(&self) -> u64 {
        let extents = self.0.iter().map(|s| s.extent);
        extents.fold(1, u64::saturating_mul)
    }

    /// Returns whether the tile holds no element of a value of this shape in any program.
    #[must_use]
    pub fn is_outside(&self, shape: &[u64], grid: &[u64]) -> bool {
        let number = |n: u64| i64::try_from(n).unwrap_or(i64::MAX);
        self.0.iter().zip(shape).any(|(span, &size)| {
            let (low, high) = span.start.range(grid);
            high.saturating_add(number(span.extent)) <= 0 || number(size) <= low
        })
    }

    /// Returns whether the tile has all elements of a value of this shape that `inner` has, in every program; the ranks
    /// are equal.
    #[must_use]
    pub fn holds(&self, inner: &Tile, shape: &[u64], grid: &[u64]) -> bool {
        let mut spans = self.0.iter().zip(&inner.0).zip(shape);
        spans.all(|((a, b), &n)| a.holds(b, n, grid)) || inner.is_outside(shape, grid)
    }

    /// Returns whether the tile may differ between programs that differ in this index.
    #[must_use]
    pub fn depends_on(&self, axis: usize) -> bool {
        self.0.iter().any(|s| s.start.depends_on(axis))
    }

    /// The smallest box that holds both in every program; the ranks are equal.
    #[must_use]
    pub fn union(&self, other: &Tile, grid: &[u64]) -> Tile {
        let pairs = self.0.iter().zip(&other.0);
        Tile(pairs.map(|(a, b)| a.union(b, grid)).collect())
    }

    /// The tile with each span that reaches over both ends of its dimension in every program replaced by the whole
    /// dimension. A span that is clipped at an end in some program stays as it is.
    #[must_use]
    pub fn bounded(mut self, shape: &[u64], grid: &[u64]) -> Tile {
        for (span, &size) in self.0.iter_mut().zip(shape) {
            let (low, high) = span.start.range(grid);
            let end = low.saturating_add(i64::try_from(span.extent).unwrap_or(i64::MAX));
            if high <= 0 && i64::try_from(size).is_ok_and(|n| n <= end) {
                *span = Span::whole(size);
            }
        }
        self
    }

    /// The tile without the elements that lie behind the ends of a value of this shape in every program. Extents that
    /// are powers of two stay powers of two.
    #[must_use]
    pub fn trimmed(mut self, shape: &[u64], grid: &[u64]) -> Tile {
        for (span, &size) in self.0.iter_mut().zip(shape) {
            if size < span.extent {
                *span = span.trimmed(size, grid);
            }
        }
        self
    }

    /// The tile with each axis replaced by an expression.
    #[must_use]
    pub fn substitute(&self, with: &dyn Fn(usize) -> Expr, grid: &[u64]) -> Tile {
        Tile(self.0.iter().map(|s| s.substitute(with, grid)).collect())
    }
}

impl fmt::Display for Span {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.start.as_number() {
            Some(0) => write!(f, "{}", self.extent),
            _ => write!(f, "{} @ {}", self.extent, self.start),
        }
    }
}

impl fmt::Display for Tile {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let spans: Vec<String> = self.0.iter().map(Span::to_string).collect();
        write!(f, "[{}]", spans.join(", "))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn span(text: &str) -> Span {
        Span::parse(text).unwrap()
    }

    #[test]
    fn texts_read_back() {
        for text in ["16", "16 @ g0 * 16", "3 @ g0 * 2 - 1", "1 @ g1 floordiv 4"] {
            assert_eq!(span(text).to_string(), text);
        }
        for text in ["", "@ g0", "x @ g0", "-1", "16 @", "99999999999999999"] {
            assert!(Span::parse(text).is_err(), "{text}");
        }
    }

    /// Compares `divide`, `union` and `holds` with the elements of every program.
    #[test]
    fn spans_are_sets_of_elements() {
        let grid = [3u64, 4];
        let programs: Vec<[i64; 2]> = (0..12).map(|i| [i / 4, i % 4]).collect();
        let mut spans = Vec::new();
        for a in [-2i64, 0, 1, 2, 4] {
            for b in [0i64, 2, 8] {
                for c in [-3i64, 0, 1] {
                    for extent in [1u64, 2, 3, 4, 8] {
                        let start = Expr::axis(0).times(a).plus(&Expr::axis(1).times(b));
                        spans.push(Span::new(start.offset(c), extent));
                    }
                }
            }
        }
        let ends = |s: &Span, at: &[i64]| {
            let start = s.start.eval(at);
            (start, start + i64::try_from(s.extent).unwrap())
        };
        for a in &spans {
            for by in [2i64, 3, 4, 8] {
                let (outer, inner, exact) = a.divide(by.unsigned_abs(), &grid);
                let mut tight = true;
                for at in &programs {
                    let (start, end) = ends(a, at);
                    let (o, i) = (ends(&outer, at), ends(&inner, at));
                    for x in start..end {
                        let (q, r) = (x.div_euclid(by), x.rem_euclid(by));
                        assert!(o.0 <= q && q < o.1, "{a} / {by} = {outer}");
                        assert!(i.0 <= r && r < i.1, "{a} % {by} = {inner}");
                    }
                    tight &= (o.1 - o.0) * (i.1 - i.0) == end - start;
                }
                assert_eq!(exact, tight, "{a} by {by}: {outer} and {inner}");
            }
        }
        for (i, a) in spans.iter().enumerate() {
            for b in spans.iter().skip(i % 7).step_by(7) {
                let both = a.union(b, &grid);
                let mut holds = true;
                for at in &programs {
                    let (x, y, u) = (ends(a, at), ends(b, at), ends(&both, at));
                    assert!(
                        u.0 <= x.0.min(y.0) && x.1.max(y.1) <= u.1,
                        "{a}, {b}: {both}"
                    );
                    let (x, y) = (a.clipped(at, 7), b.clipped(at, 7));
                    holds &= y.is_empty() || x.start <= y.start && y.end <= x.end;
                }
                assert!(holds || !a.holds(b, 7, &grid), "{a} does not hold {b}");
            }
        }
    }
}
