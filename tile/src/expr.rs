//! Starts of tiles: expressions over the indices of a grid.
//!
//! The text is that of MLIR's affine expressions: `g0 * 32 + (g1 floordiv 4) * 8`, `g0 mod 4`. Factors and divisors are
//! numbers, and a divisor is at least 1. `floordiv` rounds down and `mod` is never negative.
//!
//! For example, `(g0 * 32 + 5) floordiv 8` is read as `g0 * 4`.

use smallvec::{SmallVec, smallvec};
use std::cmp::Ordering;
use std::fmt;
use thiserror::Error;

/// A sum of a number and of grid indices, quotients and remainders, each with a factor.
///
/// Each expression has one spelling: the terms are sorted, each atom occurs once, and no factor is 0.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Default)]
pub struct Expr {
    terms: Terms,
    constant: i64,
}

/// The terms of a sum. Most starts are a number, or one axis times a number.
type Terms = SmallVec<[(Atom, i64); 1]>;

/// A term without its factor.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
enum Atom {
    /// The index along this axis of the grid.
    Axis(usize),
    /// The quotient, rounded down.
    Div(Box<Expr>, i64),
    /// The remainder, at least 0.
    Mod(Box<Expr>, i64),
}

/// The reason why a text is not an expression.
#[derive(Clone, PartialEq, Eq, Debug, Error)]
#[error("`{text}`: found {found}, wanted {wanted}")]
pub struct ExprError {
    /// The whole text.
    pub text: String,
    /// The text found there.
    pub found: String,
    /// The text that may be there.
    pub wanted: &'static str,
}

impl Expr {
    /// A number.
    #[must_use]
    pub fn number(n: i64) -> Expr {
        Expr {
            terms: Terms::new(),
            constant: n,
        }
    }

    /// The index along an axis of the grid.
    #[must_use]
    pub fn axis(axis: usize) -> Expr {
        Expr::atom(Atom::Axis(axis))
    }

    fn atom(atom: Atom) -> Expr {
        Expr {
            terms: smallvec![(atom, 1)],
            constant: 0,
        }
    }

    /// The number, if the expression is one.
    #[must_use]
    pub fn as_number(&self) -> Option<i64> {
        self.terms.is_empty().then_some(self.constant)
    }

    /// The sum.
    #[must_use]
    pub fn plus(&self, other: &Expr) -> Expr {
        if other.terms.is_empty() {
            return self.offset(other.constant);
        }
        if self.terms.is_empty() {
            return other.offset(self.constant);
        }
        let terms = self.factors(other).filter_map(|(atom, n, m)| {
            let n = n.saturating_add(m);
            (n != 0).then(|| (atom.clone(), n))
        });
        Expr {
            terms: terms.collect(),
            constant: self.constant.saturating_add(other.constant),
        }
    }

    /// The terms of both expressions in order, each with its factor in one and in the other.
    fn factors<'a>(&'a self, other: &'a Expr) -> impl Iterator<Item = (&'a Atom, i64, i64)> {
        let (mut a, mut b) = (self.terms.iter().peekable(), other.terms.iter().peekable());
        std::iter::from_fn(move || {
            let order = match (a.peek(), b.peek()) {
                (Some((x, _)), Some((y, _))) => x.cmp(y),
                (Some(_), None) => Ordering::Less,
                (None, Some(_)) => Ordering::Greater,
                (None, None) => return None,
            };
            let left = if order.is_le() { a.next() } else { None };
            let right = if order.is_ge() { b.next() } else { None };
            let (atom, _) = left.or(right)?;
            let factor = |term: Option<&(Atom, i64)>| term.map_or(0, |(_, n)| *n);
            Some((atom, factor(left), factor(right)))
        })
    }

    /// The sum with a number.
    #[must_use]
    pub fn offset(&self, n: i64) -> Expr {
        Expr {
            terms: self.terms.clone(),
            constant: self.constant.saturating_add(n),
        }
    }

    /// The product with a number.
    #[must_use]
    pub fn times(&self, n: i64) -> Expr {
        if n == 0 {
            return Expr::default();
        }
        let times = |(atom, m): &(Atom, i64)| (atom.clone(), m.saturating_mul(n));
        Expr {
            terms: self.terms.iter().map(times).collect(),
            constant: self.constant.saturating_mul(n),
        }
    }

    /// The difference.
    #[must_use]
    pub fn minus(&self, other: &Expr) -> Expr {
        self.plus(&other.times(-1))
    }

    /// The quotient by `by`, which is at least 1, rounded down, for a grid of these extents.
    #[must_use]
    pub fn floordiv(&self, by: i64, grid: &[u64]) -> Expr {
        let by = by.max(1);
        if by == 1 {
            return self.clone();
        }
        let (whole, rest) = self.split(by);
        let (low, high) = rest.range(grid);
        if low.div_euclid(by) == high.div_euclid(by) {
            return whole.offset(low.div_euclid(by));
        }
        // If d divides by: (d x + r) / by = (x + r / d) / (by / d), rounded down throughout.
        let step = rest.terms.iter().fold(by, |d, (_, n)| gcd(d, *n));
        let rest = rest.shrink(step);
        let by = by / step;
        if by == 1 {
            return whole.plus(&rest);
        }
        if let Some((scale, scaled, _)) = rest.apart(by, grid) {
            return whole.plus(&scaled.floordiv(by / scale, grid));
        }
        match (rest.terms.as_slice(), rest.constant) {
            ([(Atom::Div(inner, first), 1)], 0) => match first.checked_mul(by) {
                Some(both) => whole.plus(&inner.floordiv(both, grid)),
                None => whole,
            },
            _ => whole.plus(&Expr::atom(Atom::Div(Box::new(rest), by))),
        }
    }

    /// The remainder by `by`, which is at least 1, for a grid of these extents.
    #[must_use]
    pub fn rem(&self, by: i64, grid: &[u64]) -> Expr {
        let by = by.max(1);
        let (_, rest) = self.split(by);
        let (low, high) = rest.range(grid);
        if low.div_euclid(by) == high.div_euclid(by) {
            return rest.offset(-low.div_euclid(by).saturating_mul(by));
        }
        let step = rest.terms.iter().fold(by, |d, (_, n)| gcd(d, *n));
        let left = rest.constant.rem_euclid(step);
        let (rest, by) = (rest.shrink(step), by / step);
        if let Some((scale, scaled, below)) = rest.apart(by, grid) {
            let inner = scaled.rem(by / scale, grid).times(scale).plus(&below);
            return inner.times(step).offset(left);
        }
        let inner = match (rest.terms.as_slice(), rest.constant) {
            ([(Atom::Mod(inner, first), 1)], 0) if first % by == 0 => inner.rem(by, grid),
            _ => Expr::atom(Atom::Mod(Box::new(rest), by)),
        };
        inner.times(step).offset(left)
    }

    /// Splits a sum into `d`, `x` and `r`: the sum is `d x + r`, `d` divides `by`, and `r` is at least 0 and below `d`.
    /// Its quotient by `by` is then the quotient of `x` by `by / d`, and its remainder is `d` times the remainder of
    /// `x`, plus `r`.
    fn apart(&self, by: i64, grid: &[u64]) -> Option<(i64, Expr, Expr)> {
        let mut scales: Vec<i64> = self.terms.iter().map(|(_, n)| gcd(by, *n)).collect();
        scales.retain(|&scale| 1 < scale);
        scales.sort_unstable();
        scales.dedup();
        scales.into_iter().rev().find_map(|scale| {
            let (scaled, below) = self.split(scale);
            let (low, high) = below.range(grid);
            (0 <= low && high < scale).then_some((scale, scaled, below))
        })
    }

    /// The quotient of the terms that `by` divides, and the rest, with a constant from 0 to below `by`.
    fn split(&self, by: i64) -> (Expr, Expr) {
        let (mut whole, mut rest) = (Expr::default(), Expr::default());
        for (atom, n) in &self.terms {
            if n % by == 0 {
                whole.terms.push((atom.clone(), n / by));
            } else {
                rest.terms.push((atom.clone(), *n));
            }
        }
        whole.constant = self.constant.div_euclid(by);
        rest.constant = self.constant.rem_euclid(by);
        (whole, rest)
    }

    /// The quotient by a number that divides every term, with the possible exception of the constant.
    fn shrink(&self, by: i64) -> Expr {
        let terms = self.terms.iter().map(|(a, n)| (a.clone(), n / by));
        Expr {
            terms: terms.collect(),
            constant: self.constant.div_euclid(by),
        }
    }

    /// The least and the greatest value over a grid of these extents. They are exact if no index is in two terms.
    #[must_use]
    pub fn range(&self, grid: &[u64]) -> (i64, i64) {
        let terms = self.terms.iter().map(|(atom, n)| (atom, *n));
        range_of(self.constant, terms, grid)
    }

    /// The least and the greatest value of the difference `self - other`, as [`Expr::range`] of [`Expr::minus`].
    #[must_use]
    pub fn range_of_minus(&self, other: &Expr, grid: &[u64]) -> (i64, i64) {
        let constant = self.constant.saturating_sub(other.constant);
        let terms = self.factors(other);
        let terms = terms.map(|(atom, n, m)| (atom, n.saturating_sub(m)));
        range_of(constant, terms.filter(|(_, n)| *n != 0), grid)
    }

    /// `step` and `least` such that every value is `least` plus a multiple of `step`. `step` is as large as possible,
    /// and `least` is from 0 to below `step`. A number alone has step 0.
    #[must_use]
    pub fn steps(&self) -> (i64, i64) {
        let step = self.terms.iter().fold(0, |d, (atom, n)| {
            gcd(d, n.saturating_mul(atom.step().max(1)))
        });
        match step {
            0 => (0, self.constant),
            step => (step, self.constant.rem_euclid(step)),
        }
    }

    /// The value for the program at `index`, which has one number per axis.
    #[must_use]
    pub fn eval(&self, index: &[i64]) -> i64 {
        let value = |(atom, n): &(Atom, i64)| atom.eval(index).saturating_mul(*n);
        let sum = self.terms.iter().map(value);
        sum.fold(self.constant, i64::saturating_add)
    }

    /// Calls `see` with every axis that the value may depend on.
    pub fn axes(&self, see: &mut dyn FnMut(usize)) {
        for (atom, _) in &self.terms {
            match atom {
                Atom::Axis(axis) => see(*axis),
                Atom::Div(inner, _) | Atom::Mod(inner, _) => inner.axes(see),
            }
        }
    }

    /// Returns whether the value may depend on this axis.
    #[must_use]
    pub fn depends_on(&self, axis: usize) -> bool {
        let mut found = false;
        self.axes(&mut |a| found |= a == axis);
        found
    }

    /// Returns whether the expression is a sum of indices with factors, without quotients and remainders.
    #[must_use]
    pub fn is_plain(&self) -> bool {
        self.terms.iter().all(|(a, _)| matches!(a, Atom::Axis(_)))
    }

    /// The expression with each axis replaced by an expression, for a grid of these extents.
    #[must_use]
    pub fn substitute(&self, with: &dyn Fn(usize) -> Expr, grid: &[u64]) -> Expr {
        let mut out = Expr::number(self.constant);
        for (atom, n) in &self.terms {
            let atom = match atom {
                Atom::Axis(axis) => with(*axis),
                Atom::Div(inner, by) => inner.substitute(with, grid).floordiv(*by, grid),
                Atom::Mod(inner, by) => inner.substitute(with, grid).rem(*by, grid),
            };
            out = out.plus(&atom.times(*n));
        }
        out
    }

    /// Calls `see` with each axis that is alone in a quotient or remainder, and the number of its steps after which the
    /// quotient changes or the remainder starts again.
    pub fn cuts(&self, see: &mut dyn FnMut(usize, u64)) {
        for (atom, _) in &self.terms {
            let (Atom::Div(inner, by) | Atom::Mod(inner, by)) = atom else {
                continue;
            };
            match (inner.terms.as_slice(), inner.constant) {
                ([(Atom::Axis(axis), n)], 0) if 0 < *n && by % n == 0 => {
                    see(*axis, (by / n).unsigned_abs());
                }
                _ => inner.cuts(see),
            }
        }
    }

    /// Reads a text.
    ///
    /// # Errors
    /// The text is not an expression.
    pub fn parse(text: &str) -> Result<Expr, ExprError> {
        let mut reader = Reader {
            text,
            rest: text,
            depth: 0,
        };
        let expr = reader.sum()?;
        if reader.rest.trim_start().is_empty() {
            Ok(expr)
        } else {
            Err(reader.error("`+`, `-`, `*`, `floordiv`, `mod` or the end"))
        }
    }
}

/// The least and the greatest value of a sum, if no index is in two terms.
fn range_of<'a>(
    constant: i64,
    terms: impl Iterator<Item = (&'a Atom, i64)>,
    grid: &[u64],
) -> (i64, i64) {
    terms.fold((constant, constant), |(low, high), (atom, n)| {
        let (a, b) = atom.range(grid);
        let (a, b) = (a.saturating_mul(n), b.saturating_mul(n));
        (low.saturating_add(a.min(b)), high.saturating_add(a.max(b)))
    })
}

impl Atom {
    fn range(&self, grid: &[u64]) -> (i64, i64) {
        match self {
            Atom::Axis(axis) => {
                let extent = grid.get(*axis).copied().unwrap_or(1);
                let last = extent.saturating_sub(1);
                (0, i64::try_from(last).unwrap_or(i64::MAX))
            }
            Atom::Div(inner, by) => {
                let (low, high) = inner.range(grid);
                (low.div_euclid(*by), high.div_euclid(*by))
            }
            Atom::Mod(inner, by) => {
                let (low, high) = inner.range(grid);
                if low.div_euclid(*by) == high.div_euclid(*by) {
                    (low.rem_euclid(*by), high.rem_euclid(*by))
                } else {
                    (0, by - 1)
                }
            }
        }
    }

    /// A number that divides every value.
    fn step(&self) -> i64 {
        match self {
            Atom::Axis(_) | Atom::Div(..) => 1,
            Atom::Mod(inner, by) => {
                let (step, least) = inner.steps();
                gcd(gcd(step, least), *by)
            }
        }
    }

    fn eval(&self, index: &[i64]) -> i64 {
        match self {
            Atom::Axis(axis) => index.get(*axis).copied().unwrap_or(0),
            Atom::Div(inner, by) => inner.eval(index).div_euclid(*by),
            Atom::Mod(inner, by) => inner.eval(index).rem_euclid(*by),
        }
    }
}

/// The greatest common divisor of the amounts; `gcd(0, n)` is `n`.
pub(crate) fn gcd(a: i64, b: i64) -> i64 {
    let (mut a, mut b) = (a.saturating_abs(), b.saturating_abs());
    while b != 0 {
        (a, b) = (b, a % b);
    }
    a
}

impl fmt::Display for Expr {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut first = true;
        for (atom, n) in &self.terms {
            let leading = first;
            match (first, *n < 0) {
                (true, false) => {}
                (true, true) => f.write_str("-")?,
                (false, false) => f.write_str(" + ")?,
                (false, true) => f.write_str(" - ")?,
            }
            first = false;
            match (n.unsigned_abs(), atom) {
                // A sign belongs to the first factor only.
                (1, Atom::Div(..) | Atom::Mod(..)) if leading && *n < 0 => write!(f, "({atom})")?,
                (1, _) => write!(f, "{atom}")?,
                (n, Atom::Axis(_)) => write!(f, "{atom} * {n}")?,
                (n, Atom::Div(..) | Atom::Mod(..)) => write!(f, "({atom}) * {n}")?,
            }
        }
        match self.constant {
            n if first => write!(f, "{n}"),
            0 => Ok(()),
            n if n < 0 => write!(f, " - {}", n.unsigned_abs()),
            n => write!(f, " + {n}"),
        }
    }
}

impl fmt::Display for Atom {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (inner, word, by) = match self {
            Atom::Axis(axis) => return write!(f, "g{axis}"),
            Atom::Div(inner, by) => (inner, "floordiv", by),
            Atom::Mod(inner, by) => (inner, "mod", by),
        };
        match (inner.terms.as_slice(), inner.constant) {
            ([(Atom::Axis(_), 1)], 0) => write!(f, "{inner} {word} {by}"),
            _ => write!(f, "({inner}) {word} {by}"),
        }
    }
}

/// The deepest nesting of parentheses that is read.
const MAX_DEPTH: usize = 32;
/// The greatest number that is read.
const MAX_NUMBER: i64 = 1 << 40;
/// The greatest number of a grid axis that is read.
const MAX_AXIS: i64 = 1 << 10;
/// The grid for reading a text, which does not state one: any extent is possible.
static ANY_GRID: [u64; 1 << 10] = [u64::MAX; 1 << 10];

struct Reader<'a> {
    text: &'a str,
    rest: &'a str,
    depth: usize,
}

impl Reader<'_> {
    fn error(&self, wanted: &'static str) -> ExprError {
        let rest = self.rest.trim_start();
        let found = match rest.chars().next() {
            None => "the end".to_owned(),
            Some(_) => {
                let word: String = rest.chars().take_while(|c| c.is_alphanumeric()).collect();
                let word = if word.is_empty() {
                    rest.chars().take(1).collect()
                } else {
                    word
                };
                format!("`{word}`")
            }
        };
        ExprError {
            text: self.text.to_owned(),
            found,
            wanted,
        }
    }

    fn take(&mut self, word: &str) -> bool {
        let rest = self.rest.trim_start();
        match rest.strip_prefix(word) {
            Some(after)
                if !word.ends_with(char::is_alphanumeric)
                    || !after.starts_with(|c: char| c.is_alphanumeric() || c == '_') =>
            {
                self.rest = after;
                true
            }
            _ => false,
        }
    }

    fn digits(&mut self) -> Option<i64> {
        let rest = self.rest.trim_start();
        let end = rest
            .find(|c: char| !c.is_ascii_digit())
            .unwrap_or(rest.len());
        let number = rest[..end].parse().ok().filter(|n| *n <= MAX_NUMBER)?;
        self.rest = &rest[end..];
        Some(number)
    }

    fn sum(&mut self) -> Result<Expr, ExprError> {
        let mut out = self.product()?;
        loop {
            if self.take("+") {
                out = out.plus(&self.product()?);
            } else if self.take("-") {
                out = out.minus(&self.product()?);
            } else {
                return Ok(out);
            }
        }
    }

    fn product(&mut self) -> Result<Expr, ExprError> {
        let mut out = self.factor()?;
        loop {
            if self.take("*") {
                let by = self.factor()?;
                out = match (out.as_number(), by.as_number()) {
                    (_, Some(n)) => out.times(n),
                    (Some(n), None) => by.times(n),
                    (None, None) => return Err(self.error("a product with a number")),
                };
            } else if self.take("floordiv") {
                let by = self.divisor()?;
                out = out.floordiv(by, &ANY_GRID);
            } else if self.take("mod") {
                let by = self.divisor()?;
                out = out.rem(by, &ANY_GRID);
            } else {
                return Ok(out);
            }
        }
    }

    fn divisor(&mut self) -> Result<i64, ExprError> {
        let before = self.rest;
        match self.digits().filter(|n| 0 < *n) {
            Some(n) => Ok(n),
            None => {
                self.rest = before;
                Err(self.error("a number of at least 1"))
            }
        }
    }

    fn factor(&mut self) -> Result<Expr, ExprError> {
        if self.take("(") {
            self.deeper()?;
            let inner = self.sum()?;
            self.depth -= 1;
            if !self.take(")") {
                return Err(self.error("`)`"));
            }
            return Ok(inner);
        }
        if self.take("-") {
            self.deeper()?;
            let inner = self.factor()?;
            self.depth -= 1;
            return Ok(inner.times(-1));
        }
        if let Some(n) = self.digits() {
            return Ok(Expr::number(n));
        }
        let rest = self.rest.trim_start();
        if let Some(after) = rest.strip_prefix('g')
            && after.starts_with(|c: char| c.is_ascii_digit())
        {
            let before = self.rest;
            self.rest = after;
            if let Some(axis) = self.digits().filter(|n| *n < MAX_AXIS) {
                return Ok(Expr::axis(usize::try_from(axis).unwrap_or(0)));
            }
            self.rest = before;
        }
        Err(self.error("a number, a grid index `g0` or `(`"))
    }

    fn deeper(&mut self) -> Result<(), ExprError> {
        self.depth += 1;
        if self.depth <= MAX_DEPTH {
            return Ok(());
        }
        Err(self.error("fewer parentheses inside one another"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn same(text: &str, wanted: &str, grid: &[u64]) {
        let found = Expr::parse(text).unwrap();
        let found = found.substitute(&Expr::axis, grid);
        assert_eq!(found.to_string(), wanted, "{text}");
    }

    #[test]
    fn texts_have_one_spelling() {
        let grid = &[4, 8];
        same("0", "0", grid);
        same("2*g1 + g0*3 - 1", "g0 * 3 + g1 * 2 - 1", grid);
        same("-(g0 - 3)", "-g0 + 3", grid);
        same("(g0 * 32 + g1 * 4) floordiv 32", "g0", grid);
        same("(g0 * 32 + g1 * 4) mod 32", "g1 * 4", grid);
        same("(g1 * 8) floordiv 32", "g1 floordiv 4", grid);
        same("(g1 * 8) mod 32", "(g1 mod 4) * 8", grid);
        same("(g1 * 8 + 5) mod 32", "(g1 mod 4) * 8 + 5", grid);
        same("((g1 floordiv 2) floordiv 2)", "g1 floordiv 4", grid);
        same("(g1 mod 4) mod 2", "g1 mod 2", grid);
        same("(g0 * 8 + g1) floordiv 24", "g0 floordiv 3", grid);
        same("(g0 * 8 + g1) mod 24", "g1 + (g0 mod 3) * 8", grid);
        same("(g0 * 7 + g1) mod 21", "(g0 * 7 + g1) mod 21", grid);
        same("9 - g1 mod 4", "-(g1 mod 4) + 9", grid);
        same("-(g1 mod 4) + 9", "-(g1 mod 4) + 9", grid);
        same("0 - (g1 floordiv 2) + g0", "g0 - g1 floordiv 2", grid);
        same("0 - (g1 floordiv 2) * 2", "-(g1 floordiv 2) * 2", grid);
        same(
            "(g0 * 3 - 1) floordiv 2",
            "(g0 * 3 + 1) floordiv 2 - 1",
            grid,
        );
    }

    #[test]
    fn bad_texts_say_where() {
        for (text, wanted) in [
            ("", "found the end, wanted a number"),
            ("g0 * g1", "wanted a product with a number"),
            ("g0 floordiv 0", "found `0`, wanted a number of at least 1"),
            ("(g0", "found the end, wanted `)`"),
            ("g0 h", "found `h`, wanted `+`"),
            ("99999999999999999999", "wanted a number"),
        ] {
            let error = Expr::parse(text).unwrap_err().to_string();
            assert!(error.contains(wanted), "{text}: {error}");
        }
        assert!(Expr::parse(&"(".repeat(10_000)).is_err());
        assert!(Expr::parse(&"-".repeat(10_000)).is_err());
    }

    /// Compares values at every index with direct arithmetic, and checks that ranges and steps hold and that texts read
    /// back.
    #[test]
    fn quotients_and_remainders_are_those_of_the_values() {
        let grid = [3u64, 5, 4];
        let mut sums = Vec::new();
        for a in [-3i64, 0, 1, 4, 6, 12] {
            for b in [0i64, 2, 3, 8] {
                for c in [-1i64, 0, 5] {
                    let sum = Expr::axis(0).times(a).plus(&Expr::axis(1).times(b));
                    sums.push(sum.plus(&Expr::axis(2)).offset(c));
                    sums.push(sum.offset(c));
                }
            }
        }
        for sum in &sums {
            for by in [1i64, 2, 3, 4, 6, 12] {
                let (quotient, rest) = (sum.floordiv(by, &grid), sum.rem(by, &grid));
                let deep = quotient.rem(3, &grid).plus(&rest.floordiv(2, &grid));
                for i in 0..60i64 {
                    let at = [i / 20, i / 4 % 5, i % 4];
                    let n = sum.eval(&at);
                    assert_eq!(quotient.eval(&at), n.div_euclid(by), "{sum} / {by}");
                    assert_eq!(rest.eval(&at), n.rem_euclid(by), "{sum} % {by}");
                    let wanted = n.div_euclid(by).rem_euclid(3) + n.rem_euclid(by).div_euclid(2);
                    assert_eq!(deep.eval(&at), wanted, "{deep}");
                    for e in [sum, &quotient, &rest, &deep] {
                        let value = e.eval(&at);
                        let (low, high) = e.range(&grid);
                        assert!(low <= value && value <= high, "{e}");
                        let (step, least) = e.steps();
                        let fits = match step {
                            0 => value == least,
                            step => value.rem_euclid(step) == least,
                        };
                        assert!(fits, "{e} at {at:?}: {step} {least}");
                        let back = Expr::parse(&e.to_string()).unwrap();
                        assert_eq!(back.eval(&at), value, "{e}");
                    }
                }
            }
        }
    }
}
