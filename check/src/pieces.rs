//! Values in pieces: they have no bytes of their own and lie in those of other values, one after another along one
//! dimension, as an `in_pieces` operation states of its operands.
//!
//! Along that dimension the positions of elements are arbitrary. In the other dimensions all pieces have the same
//! digits with the same strides. Pieces that are joined again along another dimension are arbitrary along both, and so
//! are the dimensions that a view makes of these. The position of an element is then a sum: one term for all its
//! indices along such dimensions together, and one term for each digit of the other dimensions. A part of a value in
//! pieces is in pieces, too. Sizes and strides decide; no element is enumerated.
//!
//! For example, the join of two values of shape 2x3x5 along dimension 1 has shape 2x6x5. `dims` is {1}: an index below
//! 3 is in the buffer of the first value, others are in that of the second. `beside` has dimensions 0 and 2, with the
//! strides that both values have.

use crate::reader::Reader;
use crate::site::Site;
use optc_ir::op::part::Port;
use optc_ir::{Op, Part, Value, ValueDef};
use optc_layout::{Pick, Spread, Stride, gcd};
use optc_target::{Parts, PortRole, Target};
use std::collections::BTreeSet;
use std::ops::Range;

/// The place of a value in pieces.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Pieces {
    /// The dimensions along which positions are arbitrary.
    pub dims: BTreeSet<usize>,
    /// The digits of the other dimensions, the same in all pieces, major to minor.
    pub beside: Vec<Stride>,
    /// The elements that are adjacent along one of the dimensions.
    pub run: Option<Run>,
    /// The values whose buffers the pieces are in, in order of first appearance.
    pub bases: Vec<Value>,
}

/// Aligned runs: from each multiple of `elements` on, that many elements are adjacent.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Run {
    /// The dimension of the run.
    pub dim: usize,
    /// The length of the run, at least 2.
    pub elements: u64,
}

impl Run {
    /// The longest run whose length divides both the length of this one and `n`.
    fn within(self, n: u64) -> Option<Run> {
        let elements = gcd(self.elements, n);
        (1 < elements).then_some(Run { elements, ..self })
    }
}

/// The most buffers that one value lies in.
const MOST_BASES: usize = 1024;

/// The fewest bits of a run of elements if no digit of the other dimensions has stride 1.
const LEAST_RUN: u64 = 256;

/// A piece that has bytes: its place, and the value that owns the buffer.
#[derive(Clone, Debug)]
pub struct Whole {
    /// The place of the piece's root.
    pub spread: Spread,
    /// The value with the buffer.
    pub base: Value,
}

impl Pieces {
    /// A value by itself, as one piece of a join along a dimension.
    fn of(strides: Vec<Stride>, dim: usize, base: Value) -> Pieces {
        let unit = |s: &&Stride| s.dim == dim && s.stride == 1 && s.div == 1;
        let run = strides.iter().find(unit).map(|s| Run {
            dim,
            elements: s.count,
        });
        Pieces {
            dims: BTreeSet::from([dim]),
            beside: strides.into_iter().filter(|s| s.dim != dim).collect(),
            run,
            bases: vec![base],
        }
    }

    /// Adds dimensions along which positions are arbitrary.
    fn along(mut self, dims: &BTreeSet<usize>) -> Pieces {
        self.dims.extend(dims);
        self.beside.retain(|s| !dims.contains(&s.dim));
        self
    }

    /// The dimensions that the other one cuts differently, or that have other strides there.
    fn differing(&self, other: &Pieces) -> BTreeSet<usize> {
        let digits = |pieces: &Pieces| -> BTreeSet<(usize, u64, u64, i64)> {
            let digit = |s: &Stride| (s.dim, s.div, s.count, s.stride);
            pieces.beside.iter().map(digit).collect()
        };
        let (own, others) = (digits(self), digits(other));
        let dims = own.symmetric_difference(&others).map(|&(dim, ..)| dim);
        dims.chain(self.dims.union(&other.dims).copied()).collect()
    }

    /// The pieces seen through a reshape. Dimensions that are cut or joined are arbitrary if one of the old ones was.
    fn reshaped(self, from: &[u64], to: &[u64]) -> Option<Pieces> {
        let mut pieces = Pieces {
            dims: BTreeSet::new(),
            beside: Vec::new(),
            run: None,
            bases: self.bases,
        };
        for (old, new) in blocks(from, to)? {
            let long = |d: &usize| to[*d] != 1;
            let beside: Vec<&Stride> = self
                .beside
                .iter()
                .filter(|s| old.contains(&s.dim))
                .collect();
            let anywhere = old.clone().any(|d| self.dims.contains(&d));
            let digits = match anywhere {
                true => None,
                false => recut(&beside, (from, old.clone()), (to, new.clone())),
            };
            if let Some(digits) = digits {
                pieces.beside.extend(digits);
                continue;
            }
            pieces.dims.extend(new.clone().filter(long));
            let last = |dims: Range<usize>, shape: &[u64]| dims.rev().find(|&d| shape[d] != 1);
            if let Some(run) = self.run
                && last(old, from) == Some(run.dim)
                && let Some(dim) = last(new, to)
            {
                pieces.run = Run { dim, ..run }.within(to[dim]);
            }
        }
        pieces.beside.sort_by_key(|s| std::cmp::Reverse(s.compact));
        Some(pieces)
    }

    /// The pieces with dimension `perm[i]` at place `i`.
    fn transposed(mut self, perm: &[usize]) -> Option<Pieces> {
        let place = |d: usize| perm.iter().position(|&from| from == d);
        self.dims = self
            .dims
            .into_iter()
            .map(place)
            .collect::<Option<BTreeSet<usize>>>()?;
        for digit in &mut self.beside {
            digit.dim = place(digit.dim)?;
        }
        if let Some(run) = &mut self.run {
            run.dim = place(run.dim)?;
        }
        Some(self)
    }

    /// The pieces seen through a reshape, a transpose and a reshape.
    fn through(&self, from: &[u64], middle: &[u64], perm: &[usize], to: &[u64]) -> Option<Pieces> {
        let turned: Option<Vec<u64>> = perm.iter().map(|&d| middle.get(d).copied()).collect();
        let pieces = self.clone().reshaped(from, middle)?.transposed(perm)?;
        pieces.reshaped(&turned?, to)
    }

    /// The part with the picked indices along each dimension.
    fn cut(&self, picks: &[Pick], whole: &[u64], part: &[u64]) -> Option<Pieces> {
        let mut run = None;
        let (mut dims, mut beside) = (BTreeSet::new(), Vec::new());
        for (d, pick) in picks.iter().enumerate() {
            let own: Vec<&Stride> = self.beside.iter().filter(|s| s.dim == d).collect();
            if let Some(at) = pick.from {
                let n = part.get(at).copied()?;
                let all = pick.start == 0 && pick.step == 1 && Some(&n) == whole.get(d);
                match own[..] {
                    _ if n == 1 => {}
                    _ if self.dims.contains(&d) => {
                        dims.insert(at);
                    }
                    _ if all => beside.extend(own.iter().map(|s| Stride { dim: at, ..**s })),
                    [digit] if digit.div == 1 && Some(&digit.count) == whole.get(d) => {
                        beside.push(Stride {
                            dim: at,
                            count: n,
                            stride: digit.stride.checked_mul(pick.step)?,
                            ..*digit
                        });
                    }
                    _ => {
                        dims.insert(at);
                    }
                }
            }
            if let Some(own) = self.run.filter(|run| run.dim == d)
                && let Some(at) = pick.from.filter(|_| pick.step == 1)
            {
                let n = part.get(at).copied()?;
                run = Run { dim: at, ..own }.within(gcd(pick.start, n));
            }
        }
        let read = |d: usize| picks.iter().any(|pick| pick.from == Some(d));
        if (0..part.len()).any(|d| part[d] != 1 && !read(d)) {
            return None;
        }
        beside.sort_by_key(|s| std::cmp::Reverse(s.compact));
        Some(Pieces {
            dims,
            beside,
            run,
            bases: self.bases.clone(),
        })
    }
}

/// Pairs of ranges of dimensions of two shapes that have the same number of elements, each as small as possible, in
/// order. `None` if a shape has no elements, or if the numbers of elements differ.
fn blocks(from: &[u64], to: &[u64]) -> Option<Vec<(Range<usize>, Range<usize>)>> {
    if from.contains(&0) || to.contains(&0) {
        return None;
    }
    let mut blocks = Vec::new();
    let (mut i, mut j) = (0, 0);
    while i < from.len() || j < to.len() {
        let (a, b) = (i, j);
        let (mut p, mut q) = (1u64, 1u64);
        if from.get(i) == Some(&1) {
            i += 1;
        } else if to.get(j) == Some(&1) {
            j += 1;
        } else {
            (p, q) = (*from.get(i)?, *to.get(j)?);
            (i, j) = (i + 1, j + 1);
        }
        while p != q {
            let (shape, at, product) = match p < q {
                true => (from, &mut i, &mut p),
                false => (to, &mut j, &mut q),
            };
            *product = product.checked_mul(*shape.get(*at)?)?;
            *at += 1;
        }
        blocks.push((a..i, b..j));
    }
    Some(blocks)
}

/// The digits of some dimensions as digits of others with the same number of elements; `None` if a digit would have to
/// be cut unevenly.
fn recut(
    digits: &[&Stride],
    (from, old): (&[u64], Range<usize>),
    (to, new): (&[u64], Range<usize>),
) -> Option<Vec<Stride>> {
    // The digits in terms of element numbers, minor to major.
    let mut all: Vec<Stride> = Vec::with_capacity(digits.len());
    for d in old.rev() {
        let mut own: Vec<Stride> = digits.iter().filter(|s| s.dim == d).map(|s| **s).collect();
        own.sort_by_key(|s| s.div);
        let mut div = 1u64;
        for digit in &own {
            if digit.div != div {
                return None;
            }
            div = div.checked_mul(digit.count)?;
        }
        if div != from[d] {
            return None;
        }
        all.extend(own);
    }
    let mut all = all.into_iter();
    let mut rest: Option<Stride> = None;
    let mut out = Vec::new();
    for dim in new.rev() {
        let mut div = 1;
        let mut left = to[dim];
        while 1 < left {
            let digit = rest.take().or_else(|| all.next())?;
            let count = gcd(digit.count, left);
            if count != digit.count.min(left) {
                return None;
            }
            out.push(Stride {
                dim,
                div,
                count,
                ..digit
            });
            let by = i64::try_from(count).ok()?;
            if count < digit.count {
                rest = Some(Stride {
                    count: digit.count / count,
                    compact: digit.compact.checked_mul(count)?,
                    stride: digit.stride.checked_mul(by)?,
                    ..digit
                });
            }
            (div, left) = (div * count, left / count);
        }
    }
    Some(out)
}

impl Site<'_> {
    /// The dimension along which the operands of an operation, one after another, make up its result.
    #[must_use]
    pub fn joins(&self, op: Op) -> Option<usize> {
        let data = &self.func.ops[op];
        let parts = self.parts(op);
        let ([result], true) = (&data.results[..], 2 <= data.operands.len()) else {
            return None;
        };
        if parts.len() != data.operands.len() {
            return None;
        }
        let layout = self.layout(*result)?;
        // Values with named sizes are in no arena; elements that are not whole bytes need bytes of their own.
        if !self.is_sized(*result) || !layout.elem_bits().is_multiple_of(8) {
            return None;
        }
        let whole = layout.shape();
        let mut axis = None;
        let mut before = 0u64;
        for (number, part) in parts.iter().enumerate() {
            let own = self.layout(*data.operands.get(number)?)?;
            let shape = own.shape();
            let ends = part.part == Port::Operand(number) && part.whole == Port::Result(0);
            if !ends
                || own.space() != layout.space()
                || shape.len() != whole.len()
                || part.dims.len() != whole.len()
            {
                return None;
            }
            for (d, along) in part.dims.iter().enumerate() {
                if along.from != Some(d) || along.step != 1 {
                    return None;
                }
                let start = along
                    .start
                    .as_constant()
                    .and_then(|n| u64::try_from(n).ok())?;
                if shape[d] == whole[d] && start == 0 {
                    continue;
                }
                if axis.is_some_and(|known| known != d) || start != before {
                    return None;
                }
                axis = Some(d);
            }
            before = before.checked_add(axis.map_or(0, |d| shape[d]))?;
        }
        axis.filter(|&d| whole[d] == before)
    }

    /// Returns whether all sizes of a value are numbers.
    fn is_sized(&self, value: Value) -> bool {
        let ty = self.func.ty(value).as_tensor();
        ty.is_some_and(|ty| ty.shape().is_some())
    }

    /// The place of the result of an operation whose operands follow one another along a dimension and stay where they
    /// are. `known` gives the place of operands that are in pieces themselves, `whole` that of the others.
    ///
    /// # Errors
    /// The result cannot lie so; the text says why.
    pub fn gathered(
        &mut self,
        op: Op,
        known: &dyn Fn(Value) -> Option<Pieces>,
        whole: &mut dyn FnMut(&mut Site<'_>, Value) -> Result<Whole, String>,
    ) -> Result<Pieces, String> {
        let dim = self
            .joins(op)
            .ok_or("its operands do not fill its result, one after another")?;
        let mut all: Vec<(Pieces, u64)> = Vec::new();
        for (number, &value) in self.func.ops[op].operands.iter().enumerate() {
            let fault = |why: &str| format!("operand {number} {why}");
            let root = self.root(value);
            let own = match known(root) {
                Some(pieces) => self.viewed(value, &pieces),
                None => {
                    let Whole { spread, base } = whole(self, root).map_err(|why| fault(&why))?;
                    if !self.is_sized(base) {
                        return Err(fault("lies in a buffer whose size is not known"));
                    }
                    let strides = self.layout(value).and_then(|layout| spread.strides(layout));
                    strides.map(|strides| Pieces::of(strides, dim, base))
                }
            };
            let own =
                own.ok_or_else(|| fault("does not lie evenly beside the joined dimension"))?;
            let length = self.layout(value).map_or(1, |layout| layout.shape()[dim]);
            all.push((own, length));
        }
        let Some(((first, _), others)) = all.split_first() else {
            return Err("it has no operand".to_owned());
        };
        let mut dims = &first.dims | &BTreeSet::from([dim]);
        for (own, _) in others {
            dims.extend(first.differing(own));
        }
        let mut found: Option<Pieces> = None;
        for (own, length) in all {
            let run = own.run.and_then(|run| match run.dim == dim {
                true => run.within(length),
                false => Some(run),
            });
            let own = own.along(&dims);
            let Some(first) = &mut found else {
                found = Some(Pieces { run, ..own });
                continue;
            };
            let both = first.run.zip(run).filter(|(a, b)| a.dim == b.dim);
            first.run = both.and_then(|(a, b)| a.within(b.elements));
            for base in own.bases {
                if !first.bases.contains(&base) {
                    first.bases.push(base);
                }
            }
        }
        let found = found.ok_or("it has no operand")?;
        match found.bases.len() <= MOST_BASES {
            true => Ok(found),
            false => Err(format!("it lies in more than {MOST_BASES} buffers")),
        }
    }

    /// The place of a view, given that of its root.
    pub fn viewed(&mut self, value: Value, root: &Pieces) -> Option<Pieces> {
        if self.root(value) == value {
            return Some(root.clone());
        }
        let ValueDef::Result(op, _) = self.func.values[value].def else {
            return None;
        };
        let operand = *self.func.ops[op].operands.first()?;
        let from = self.viewed(operand, root)?;
        let dims = self.registry.rearrangement(&self.func.op_ref(op)).ok()?;
        let middle: Vec<u64> = dims
            .shape
            .iter()
            .map(|d| self.number(d))
            .collect::<Option<_>>()?;
        let shape = |site: &Self, v: Value| Some(site.layout(v)?.shape().to_vec());
        let ends = (shape(self, operand)?, shape(self, value)?);
        from.through(&ends.0, &middle, &dims.perm, &ends.1)
    }

    /// The place of a part whose whole, or the root of its whole, is in pieces.
    pub fn cut(&mut self, op: Op, part: &Part, root: &Pieces) -> Option<Pieces> {
        let data = &self.func.ops[op];
        let (small, large) = (part.part.value(data)?, part.whole.value(data)?);
        let whole = self.viewed(large, root)?;
        let picks = self.picks(part)?;
        let (large, small) = (self.layout(large)?.shape(), self.layout(small)?.shape());
        whole.cut(&picks, large, small)
    }
}

/// Checks that the row of a target lets an operation read an operand that lies in pieces.
///
/// # Errors
/// The row does not let it; the text says why.
pub fn takes_pieces(
    site: &Site<'_>,
    target: &Target,
    op: Op,
    operand: usize,
    pieces: &Pieces,
) -> Result<(), String> {
    let Some(reader) = Reader::of(site, target, op, operand)? else {
        return Ok(());
    };
    if reader.parts != Parts::Any {
        return Err("its row takes no parts of larger values".to_owned());
    }
    let roles: BTreeSet<Option<PortRole>> = pieces.dims.iter().map(|&d| reader.role(d)).collect();
    let [Some(own)] = roles.into_iter().collect::<Vec<_>>()[..] else {
        return Err("the pieces run along no loop of it, or along several".to_owned());
    };
    if !reader.row.pieces.contains(&own) {
        return Err(format!("its row takes no pieces along {}", own.name()));
    }
    if 1 < pieces.dims.len() && !reader.is_elementwise() && !reader.reads_lines(site, op) {
        return Err("it takes pieces along one dimension alone".to_owned());
    }
    let bits = site.func.ops[op]
        .operands
        .get(operand)
        .and_then(|&v| site.layout(v))
        .map_or(0, |layout| u64::from(layout.elem_bits()));
    let run = pieces
        .run
        .filter(|run| LEAST_RUN <= run.elements.saturating_mul(bits));
    let wants_run = reader.runs().any(|wanted| wanted == own);
    let is_own = |s: &&Stride| reader.role(s.dim) == Some(own);
    let mixed = pieces.beside.iter().any(|s| is_own(&s));
    // Indices along a loop may be at any positions if each of them has a line of elements.
    let lines = pieces.beside.iter().any(|s| s.stride == 1 && !is_own(&s));
    if wants_run && !lines && (run.is_none() || mixed) {
        return Err(format!(
            "{} is in runs that are too short there",
            own.name()
        ));
    }
    if run.is_none() && !pieces.beside.iter().any(|s| s.stride == 1) {
        return Err("no elements of a piece are one run there".to_owned());
    }
    reader.finds_runs(&pieces.beside)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn digit(dim: usize, count: u64, stride: i64) -> Stride {
        Stride {
            dim,
            div: 1,
            count,
            compact: stride.unsigned_abs(),
            stride,
        }
    }

    /// Pieces along the middle one of three dimensions.
    fn pieces() -> Pieces {
        Pieces {
            dims: BTreeSet::from([1]),
            beside: vec![digit(0, 2, 900), digit(2, 5, 1)],
            run: None,
            bases: Vec::new(),
        }
    }

    fn with(dims: &[usize], beside: &[Stride]) -> Pieces {
        Pieces {
            dims: dims.iter().copied().collect(),
            beside: beside.to_vec(),
            ..pieces()
        }
    }

    #[test]
    fn shuffles_of_the_dimension_are_in_pieces() {
        // A shuffle, under dimensions of one.
        let seen = pieces().through(&[2, 6, 5], &[2, 2, 3, 5], &[0, 2, 1, 3], &[2, 6, 5]);
        assert_eq!(seen, Some(pieces()));
        let seen = pieces().through(&[2, 6, 5], &[2, 1, 6, 5], &[1, 0, 2, 3], &[1, 2, 1, 6, 5]);
        let moved = [digit(1, 2, 900), digit(4, 5, 1)];
        assert_eq!(seen, Some(with(&[3], &moved)));
    }

    #[test]
    fn what_is_joined_with_a_dimension_of_pieces_lies_anywhere() {
        let through = |middle: &[u64], perm: &[usize], to: &[u64]| {
            pieces().through(&[2, 6, 5], middle, perm, to)
        };
        let lines = [digit(2, 5, 1)];
        assert_eq!(
            through(&[2, 6, 5], &[1, 0, 2], &[6, 2, 5]),
            Some(with(&[0], &[digit(1, 2, 900), lines[0]]))
        );
        assert_eq!(
            through(&[2, 2, 3, 5], &[0, 1, 2, 3], &[2, 2, 3, 5]),
            Some(with(&[1, 2], &[digit(0, 2, 900), digit(3, 5, 1)]))
        );
        let one = [digit(1, 5, 1)];
        assert_eq!(
            through(&[2, 6, 5], &[0, 1, 2], &[12, 5]),
            Some(with(&[0], &one))
        );
        assert_eq!(
            through(&[4, 3, 5], &[0, 1, 2], &[4, 3, 5]),
            Some(with(&[0, 1], &lines))
        );
        assert_eq!(
            through(&[2, 6, 5], &[0, 1, 2], &[60]),
            Some(with(&[0], &[]))
        );
        assert_eq!(through(&[2, 6, 6], &[0, 1, 2], &[2, 6, 6]), None);
    }

    #[test]
    fn digits_beside_are_cut_and_joined() {
        let own = with(&[0], &[digit(1, 4, 6), digit(2, 6, 1)]);
        let half = |dim, div, count, compact, stride| Stride {
            dim,
            div,
            count,
            compact,
            stride,
        };
        let seen = own.clone().reshaped(&[3, 4, 6], &[3, 8, 3]);
        let cut = [
            half(1, 2, 4, 6, 6),
            half(1, 1, 2, 3, 3),
            half(2, 1, 3, 1, 1),
        ];
        assert_eq!(seen, Some(with(&[0], &cut)));
        // No digit of 6 is a digit of 8.
        let seen = own.clone().reshaped(&[3, 4, 6], &[3, 3, 8]);
        assert_eq!(seen, Some(with(&[0, 1, 2], &[])));
        assert_eq!(own.reshaped(&[3, 4, 6], &[3, 4, 0]), None);
    }

    #[test]
    fn runs_go_on_as_far_as_all_pieces_have_them() {
        let run = |dim, elements| Run { dim, elements };
        let own = Pieces {
            run: Some(run(1, 32)),
            ..with(&[1], &[digit(0, 3, 64)])
        };
        let of = |pieces: Option<Pieces>| pieces.expect("is in pieces").run;
        assert_eq!(
            of(own.clone().reshaped(&[3, 64], &[3, 4, 16])),
            Some(run(2, 16))
        );
        assert_eq!(of(own.clone().reshaped(&[3, 64], &[192])), Some(run(0, 32)));
        assert_eq!(
            of(own.clone().reshaped(&[3, 64], &[3, 64, 1])),
            Some(run(1, 32))
        );
        assert_eq!(
            of(own.clone().reshaped(&[3, 64], &[1, 3, 8, 8])),
            Some(run(3, 8))
        );
        assert_eq!(
            of(own.through(&[3, 64], &[3, 2, 32], &[0, 2, 1], &[3, 64])),
            None
        );
        let cut = |start, step, n| {
            let picks = [
                Pick {
                    from: Some(0),
                    start: 0,
                    step: 1,
                },
                Pick {
                    from: Some(1),
                    start,
                    step,
                },
            ];
            of(own.cut(&picks, &[3, 64], &[3, n]))
        };
        assert_eq!(cut(16, 1, 48), Some(run(1, 16)));
        assert_eq!(cut(0, 1, 64), Some(run(1, 32)));
        assert_eq!(cut(0, 2, 32), None);
        assert_eq!(cut(1, 1, 32), None);
    }

    #[test]
    fn parts_of_the_dimension_are_in_pieces() {
        let own = pieces();
        let pick = |from: Option<usize>, start, step| Pick { from, start, step };
        let all = |d| pick(Some(d), 0, 1);
        let cut = own.cut(
            &[all(0), pick(Some(1), 5, -2), all(2)],
            &[2, 6, 5],
            &[2, 3, 5],
        );
        assert_eq!(cut, Some(own.clone()));
        let cut = own.cut(
            &[all(0), all(1), pick(Some(2), 4, -2)],
            &[2, 6, 5],
            &[2, 6, 3],
        );
        let steps = [
            digit(0, 2, 900),
            Stride {
                compact: 1,
                ..digit(2, 3, -2)
            },
        ];
        assert_eq!(cut, Some(with(&[1], &steps)));
        // A dimension that is cut and has several digits becomes arbitrary.
        let digits = [
            Stride {
                div: 5,
                ..digit(2, 2, 20)
            },
            digit(2, 5, 1),
        ];
        let cut = with(&[1], &digits).cut(
            &[all(0), all(1), pick(Some(2), 3, 1)],
            &[1, 6, 10],
            &[1, 6, 4],
        );
        assert_eq!(cut, Some(with(&[1, 2], &[])));
        let cut = own.cut(&[all(0), pick(None, 3, 1), all(1)], &[2, 6, 5], &[2, 5]);
        assert_eq!(cut, Some(with(&[], &[digit(0, 2, 900), digit(1, 5, 1)])));
        // A dimension of the part that comes from no dimension of the whole repeats it.
        let cut = own.cut(&[all(0), all(1), all(2)], &[2, 6, 5], &[2, 6, 5, 3]);
        assert_eq!(cut, None);
    }
}
