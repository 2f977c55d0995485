//! What sums of products of bytes are scaled by before anything else is done with them: a factor and a term of each row or column, of each product
//! by itself where a convolution has groups.

use crate::kernels::product::MOST_COLUMNS;
use crate::nest::walk;
use crate::ops::finish::Finish;
use crate::ops::products::{Products, RIGHT, START};
use indexmap::IndexMap;
use indexmap::map::Entry;

/// What sums are multiplied by, and what is added then, of each row or of each column.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Spread {
    Rows(Vec<[f32; 2]>),
    /// Of some columns at once.
    Columns(Vec<[[f32; MOST_COLUMNS]; 2]>),
}

/// Those of all products.
#[derive(Debug)]
pub(crate) enum Spreads {
    Same(Spread),
    /// By the offset of the right operand.
    Groups(IndexMap<i64, Spread>),
}

impl Spreads {
    /// Those of a product.
    pub(crate) fn of(&self, at: [i64; 4]) -> Option<&Spread> {
        match self {
            Spreads::Same(spread) => Some(spread),
            Spreads::Groups(all) => all.get(&at[RIGHT]),
        }
    }

    /// The factors and the terms of a step with sums, of rows or of columns, as products have them whose sums begin with what these are.
    pub(crate) fn of_finish(of: &Products, along: &Products, finish: &Finish) -> Option<Spreads> {
        let values = finish.scales()?;
        let same = |a: &[[i64; 4]], b: &[[i64; 4]]| {
            a.len() == b.len() && a.iter().zip(b).all(|(a, b)| a[..START] == b[..START])
        };
        let alike = same(&of.rows, &along.rows)
            && same(&of.columns, &along.columns)
            && of.swapped == along.swapped;
        let begins = |products: &Products| {
            let mut all = Vec::new();
            walk(&products.batch, products.base, &mut |at| all.push(at));
            all
        };
        let (own, other) = (begins(of), begins(along));
        if !alike || !same(&own, &other) {
            return None;
        }
        let spread = |base: i64| {
            let number = |at: &[i64; 4]| {
                let at = usize::try_from(base + at[START]).ok()?;
                values.get(at).copied()
            };
            if along.columns.iter().all(|at| at[START] == 0) {
                let all = along.rows.iter().map(number).collect::<Option<_>>()?;
                return Some(Spread::Rows(all));
            }
            if along.rows.iter().any(|at| at[START] != 0) {
                return None;
            }
            let all = along.columns.iter().map(number).collect::<Option<_>>()?;
            Some(Spread::columns(all, of.micro.columns))
        };
        if !along.batch.iter().any(|l| l.moves(START)) {
            return Some(Spreads::Same(spread(along.base[START])?));
        }
        let mut bases = IndexMap::new();
        for (own, other) in own.iter().zip(&other) {
            if *bases.entry(own[RIGHT]).or_insert(other[START]) != other[START] {
                return None;
            }
        }
        let all = bases
            .into_iter()
            .map(|(at, base)| Some((at, spread(base)?)));
        Some(Spreads::Groups(all.collect::<Option<_>>()?))
    }
}

impl Spread {
    /// Of columns, so many of which are together.
    pub(crate) fn columns(list: Vec<[f32; 2]>, width: usize) -> Spread {
        let some = |columns: &[[f32; 2]]| {
            let mut two = [[0.0; MOST_COLUMNS]; 2];
            for (i, &[scale, plus]) in columns.iter().enumerate() {
                (two[0][i], two[1][i]) = (scale, plus);
            }
            two
        };
        Spread::Columns(list.chunks(width).map(some).collect())
    }
}

/// The most terms whose products of bytes are surely summed in 32 bits.
const MOST_SUMMED: usize = 65_000;

/// Whether any sum of 32 bits times a number is one that has all its bits.
pub(crate) fn is_scale(by: f32) -> bool {
    by.is_normal() && (by * 2.0f32.powi(31)).is_finite()
}

/// Numbers as bytes times a scale, where they are just that.
pub(crate) fn scaled_bytes(numbers: &[f32]) -> Option<(f32, Vec<i8>)> {
    let most = numbers.iter().fold(0.0, |most: f32, x| most.max(x.abs()));
    if most == 0.0 {
        return Some((1.0, vec![0; numbers.len()]));
    }
    let divided = (1..=128u8).rev().map(|n| most / f32::from(n));
    // The greatest number was rounded.
    let near = divided.flat_map(|scale| [scale, scale.next_up(), scale.next_down()]);
    let near = near.filter(|scale| scale.is_normal());
    let all = near.filter_map(|scale| {
        let bytes = numbers.iter().map(|&x| {
            let byte = (x / scale).round_ties_even();
            let same = (-128.0..=127.0).contains(&byte) && byte * scale == x;
            same.then_some(byte as i8)
        });
        Some((scale, bytes.collect::<Option<Vec<i8>>>()?))
    });
    // Of several the scale of the fewest bits: what sums are multiplied by it is the nearest to what it is.
    all.rev()
        .max_by_key(|(scale, _)| scale.to_bits().trailing_zeros())
}

impl Products {
    /// A constant operand as bytes, each row or column of which times a scale: the bytes where its elements lie, and what sums are multiplied by,
    /// these scales by that of the other operand, and what is added, where sums begin with something.
    pub(crate) fn scaled_bytes(
        &self,
        side: usize,
        constant: &[f32],
        scale: f32,
        begins: Option<&[f32]>,
    ) -> Option<(Vec<u8>, Spreads)> {
        let rows = side == self.sides().0;
        let (lanes, others) = match rows {
            true => (&self.rows, &self.columns),
            false => (&self.columns, &self.rows),
        };
        if others.iter().any(|at| at[START] != 0) || MOST_SUMMED < self.terms.len() {
            return None;
        }
        let mut bytes = vec![0u8; constant.len()];
        let mut group = |at: [i64; 4]| -> Option<Spread> {
            let mut list = Vec::with_capacity(lanes.len());
            for lane in lanes {
                let place = |term: &[i64; 4]| usize::try_from(at[side] + lane[side] + term[side]);
                let places = self
                    .terms
                    .iter()
                    .map(place)
                    .collect::<Result<Vec<_>, _>>()
                    .ok()?;
                let numbers = places.iter().map(|&at| constant.get(at).copied());
                let (own, found) = scaled_bytes(&numbers.collect::<Option<Vec<f32>>>()?)?;
                let places = places.iter().zip(found);
                places.for_each(|(&at, byte)| bytes[at] = byte.cast_unsigned());
                let plus = match begins {
                    Some(begins) => {
                        let at = usize::try_from(at[START] + lane[START]).ok()?;
                        *begins.get(at).filter(|x| x.is_finite())?
                    }
                    None => -0.0,
                };
                list.push([scale * own, plus]);
            }
            let all = list.iter().all(|&[by, _]| is_scale(by));
            all.then(|| match rows {
                true => Spread::Rows(list),
                false => Spread::columns(list, self.micro.columns),
            })
        };
        let moves = |k: usize| self.batch.iter().any(|l| l.moves(k));
        if !moves(side) && !moves(START) {
            let spread = group(self.base)?;
            return Some((bytes, Spreads::Same(spread)));
        }
        // Of groups each has a part of the constant for itself, and one beginning.
        if side != RIGHT {
            return None;
        }
        let mut begins = Vec::new();
        walk(&self.batch, self.base, &mut |at| begins.push(at));
        let (mut all, mut starts) = (IndexMap::new(), IndexMap::new());
        for at in begins {
            if *starts.entry(at[RIGHT]).or_insert(at[START]) != at[START] {
                return None;
            }
            if let Entry::Vacant(new) = all.entry(at[RIGHT]) {
                new.insert(group(at)?);
            }
        }
        Some((bytes, Spreads::Groups(all)))
    }
}
