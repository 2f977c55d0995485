//! Values without bytes: they lie in those of others, one after another along one dimension, as an operation that is
//! `in_pieces` says of its operands.
//!
//! Along that dimension elements lie anywhere; beside it all pieces have the same digits with the same strides, so that where
//! an element lies is a sum of what each of its indices adds. A view that rearranges this dimension alone, and a part of
//! it, are in pieces again. Sizes and strides decide; no element is enumerated.

use crate::reader::Reader;
use crate::site::Site;
use optc_ir::op::part::Port;
use optc_ir::{Op, Part, Value, ValueDef};
use optc_layout::{Pick, Spread, Stride};
use optc_target::{Parts, Target};
use std::ops::Range;

/// Where a value lies that is in pieces.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Pieces {
    /// The dimension along which they follow one another.
    pub dim: usize,
    /// The digits of the other dimensions, the same in all pieces.
    pub beside: Vec<Stride>,
    /// The values whose buffers the pieces are in, in the order in which they come first.
    pub bases: Vec<Value>,
}

/// The most buffers that one value lies in.
const MOST_BASES: usize = 1024;

/// Of a piece that has bytes: where it lies, and the value whose buffer that is.
#[derive(Clone, Debug)]
pub struct Whole {
    /// Where the root of the piece lies.
    pub spread: Spread,
    /// The value with the buffer.
    pub base: Value,
}

impl Pieces {
    /// The same beside, whatever buffers these are.
    fn is_like(&self, other: &Pieces) -> bool {
        let sorted = |pieces: &Pieces| {
            let digit = |s: &Stride| (s.dim, s.div, s.count, s.stride);
            let mut digits: Vec<_> = pieces.beside.iter().map(digit).collect();
            digits.sort_unstable();
            digits
        };
        self.dim == other.dim && sorted(self) == sorted(other)
    }

    /// With the dimensions that were at these places now at those.
    fn renumbered(&self, dim: usize, dims: &[(usize, usize)]) -> Option<Pieces> {
        let moved = |s: &Stride| {
            let (_, to) = dims.iter().find(|(from, _)| *from == s.dim)?;
            Some(Stride { dim: *to, ..*s })
        };
        Some(Pieces {
            dim,
            beside: self.beside.iter().map(moved).collect::<Option<_>>()?,
            bases: self.bases.clone(),
        })
    }

    /// Seen through a reshape, a transpose and a reshape that rearrange nothing but the dimension of the pieces.
    fn through(&self, from: &[u64], middle: &[u64], perm: &[usize], to: &[u64]) -> Option<Pieces> {
        let (&n, inner) = from.get(self.dim..)?.split_first()?;
        let long =
            |dims: &[u64]| -> Vec<u64> { dims.iter().copied().filter(|&d| d != 1).collect() };
        let (outer, inner) = (long(&from[..self.dim]), long(inner));
        let cut = located(middle, (&outer, n, &inner))?;
        let class = |p: usize| usize::from(cut.start <= p) + usize::from(cut.end <= p);
        let moved: Vec<usize> = perm
            .iter()
            .copied()
            .filter(|&p| middle.get(p) != Some(&1))
            .collect();
        let kept = moved.windows(2).all(|pair| {
            let (a, b) = (class(pair[0]), class(pair[1]));
            a < b || a == b && (a == 1 || pair[0] < pair[1])
        });
        let again = located(to, (&outer, n, &inner))?;
        let mut own = again.clone().filter(|&d| to[d] != 1);
        let (Some(dim), None, true) = (own.next(), own.next(), kept) else {
            return None;
        };
        let places = |dims: &[u64], own: usize| -> Vec<usize> {
            let others = (0..dims.len()).filter(|&d| d != own && dims[d] != 1);
            others.collect()
        };
        let dims: Vec<(usize, usize)> = places(from, self.dim)
            .into_iter()
            .zip(places(to, dim))
            .collect();
        self.renumbered(dim, &dims)
    }

    /// The part that has some indices along the dimension of the pieces, and all of the others.
    fn cut(&self, picks: &[Pick], whole: &[u64], part: &[u64]) -> Option<Pieces> {
        let mut dims = Vec::with_capacity(picks.len());
        let mut dim = None;
        for (d, pick) in picks.iter().enumerate() {
            let all = pick.from.is_some_and(|at| {
                pick.start == 0 && pick.step == 1 && part.get(at) == whole.get(d)
            });
            match pick.from {
                Some(at) if d == self.dim => dim = Some(at),
                Some(at) if all => dims.push((d, at)),
                _ if whole.get(d) == Some(&1) => {}
                _ => return None,
            }
        }
        let read = |d: usize| Some(d) == dim || dims.iter().any(|&(_, to)| to == d);
        let repeats = (0..part.len()).any(|d| part[d] != 1 && !read(d));
        self.renumbered(dim?, &dims).filter(|_| !repeats)
    }
}

/// The dimensions of a shape whose product is `n`, between outer and inner ones; ones count nowhere.
fn located(shape: &[u64], (outer, n, inner): (&[u64], u64, &[u64])) -> Option<Range<usize>> {
    if n < 2 {
        return None;
    }
    let mut at = 0;
    let mut skip = |wanted: u64| {
        while shape.get(at) == Some(&1) {
            at += 1;
        }
        at += 1;
        shape.get(at - 1) == Some(&wanted)
    };
    if !outer.iter().all(|&wanted| skip(wanted)) {
        return None;
    }
    let start = at;
    let mut product = 1u64;
    while product < n {
        product = product.checked_mul(*shape.get(at)?)?;
        at += 1;
    }
    let rest = shape.get(at..)?.iter().copied().filter(|&d| d != 1);
    (product == n && rest.eq(inner.iter().copied())).then_some(start..at)
}

impl Site<'_> {
    /// The dimension along which all operands of an operation are its result, one after another.
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
        // What has named sizes is in no arena; elements of some bits are read from bytes of their own.
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

    /// Whether the size of a value is a number.
    fn is_sized(&self, value: Value) -> bool {
        let ty = self.func.ty(value).as_tensor();
        ty.is_some_and(|ty| ty.shape().is_some())
    }

    /// Where the result of an operation lies whose operands follow one another along a dimension and stay where they are.
    /// `known` has where those lie that are in pieces themselves, `whole` where others do.
    ///
    /// # Errors
    /// It cannot lie so; the text says why.
    pub fn gathered(
        &mut self,
        op: Op,
        known: &dyn Fn(Value) -> Option<Pieces>,
        whole: &mut dyn FnMut(&mut Site<'_>, Value) -> Result<Whole, String>,
    ) -> Result<Pieces, String> {
        let dim = self
            .joins(op)
            .ok_or("its operands are not all there is of its result, one after another")?;
        let mut found: Option<Pieces> = None;
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
                    strides.map(|strides| Pieces {
                        dim,
                        beside: strides.into_iter().filter(|s| s.dim != dim).collect(),
                        bases: vec![base],
                    })
                }
            };
            let own =
                own.ok_or_else(|| fault("does not lie evenly beside the joined dimension"))?;
            match &mut found {
                None if own.dim == dim => found = Some(own),
                Some(first) if first.is_like(&own) => {
                    for base in own.bases {
                        if !first.bases.contains(&base) {
                            first.bases.push(base);
                        }
                    }
                }
                None | Some(_) => {
                    return Err(fault(
                        "lies otherwise than the first one, beside the joined dimension",
                    ));
                }
            }
        }
        let found = found.ok_or("it has no operand")?;
        match found.bases.len() <= MOST_BASES {
            true => Ok(found),
            false => Err(format!("it lies in more than {MOST_BASES} buffers")),
        }
    }

    /// Where a view lies, given where its root does.
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

    /// Where a part lies whose whole, or the root of that, is in pieces.
    pub fn cut(&mut self, op: Op, part: &Part, root: &Pieces) -> Option<Pieces> {
        let data = &self.func.ops[op];
        let (small, large) = (part.part.value(data)?, part.whole.value(data)?);
        let whole = self.viewed(large, root)?;
        let picks = self.picks(part)?;
        let (large, small) = (self.layout(large)?.shape(), self.layout(small)?.shape());
        whole.cut(&picks, large, small)
    }
}

/// Whether the row of a target lets an operation read an operand that lies in pieces.
///
/// # Errors
/// It does not; the text says why.
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
    let own = reader
        .role(pieces.dim)
        .ok_or("the dimension of the pieces is none of its loops")?;
    if !reader.row.pieces.contains(&own) || reader.runs().any(|wanted| wanted == own) {
        return Err(format!("its row takes no pieces along {}", own.name()));
    }
    if !pieces.beside.iter().any(|s| s.stride == 1) {
        return Err("no elements of a piece are one run there".to_owned());
    }
    reader.finds_runs(&pieces.beside)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn pieces(dim: usize, beside: &[usize]) -> Pieces {
        let digit = |&dim: &usize| Stride {
            dim,
            div: 1,
            count: 2,
            compact: 1,
            stride: 7,
        };
        Pieces {
            dim,
            beside: beside.iter().map(digit).collect(),
            bases: Vec::new(),
        }
    }

    #[test]
    fn shuffles_of_the_dimension_are_in_pieces() {
        let own = pieces(1, &[0, 2]);
        // A shuffle, under dimensions of one.
        let seen = own.through(&[2, 6, 5], &[2, 2, 3, 5], &[0, 2, 1, 3], &[2, 6, 5]);
        assert_eq!(seen, Some(pieces(1, &[0, 2])));
        let seen = own.through(&[2, 6, 5], &[2, 1, 6, 5], &[1, 0, 2, 3], &[1, 2, 1, 6, 5]);
        assert_eq!(seen, Some(pieces(3, &[1, 4])));
        // Another dimension is cut, comes in between, or is joined.
        assert_eq!(
            own.through(&[4, 6, 5], &[2, 2, 6, 5], &[0, 1, 2, 3], &[4, 6, 5]),
            None
        );
        assert_eq!(
            own.through(&[2, 6, 5], &[2, 6, 5], &[1, 0, 2], &[6, 2, 5]),
            None
        );
        assert_eq!(
            own.through(&[2, 6, 5], &[2, 2, 3, 5], &[0, 1, 2, 3], &[2, 2, 3, 5]),
            None
        );
        assert_eq!(
            own.through(&[2, 6, 5], &[2, 6, 5], &[0, 1, 2], &[12, 5]),
            None
        );
        assert_eq!(
            own.through(&[2, 6, 5], &[2, 2, 3, 5], &[1, 0, 2, 3], &[2, 6, 5]),
            None
        );
    }

    #[test]
    fn parts_of_the_dimension_are_in_pieces() {
        let own = pieces(1, &[0, 2]);
        let pick = |from: Option<usize>, start, step| Pick { from, start, step };
        let all = |d| pick(Some(d), 0, 1);
        let cut = own.cut(
            &[all(0), pick(Some(1), 5, -2), all(2)],
            &[2, 6, 5],
            &[2, 3, 5],
        );
        assert_eq!(cut, Some(pieces(1, &[0, 2])));
        let cut = own.cut(
            &[all(0), all(1), pick(Some(2), 1, 1)],
            &[2, 6, 5],
            &[2, 6, 4],
        );
        assert_eq!(cut, None);
        let cut = own.cut(&[all(0), pick(None, 3, 1), all(1)], &[2, 6, 5], &[2, 5]);
        assert_eq!(cut, None);
        // A dimension of the part that no dimension of the whole comes from repeats it.
        let cut = own.cut(&[all(0), all(1), all(2)], &[2, 6, 5], &[2, 6, 5, 3]);
        assert_eq!(cut, None);
    }
}
