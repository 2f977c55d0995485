//! Scales and biases of rows or columns of products: of a dequantization after integer sums, and of `f32` constants that
//! equal bytes times a scale.

use crate::dequantize::{Dequantize, Dequantizes, is_scale, scaled_bytes};
use crate::epilogue::Epilogue;
use crate::gemm::{INITIAL, Products, RIGHT};
use crate::loops::walk;
use indexmap::IndexMap;
use indexmap::map::Entry;

/// The scales and biases of an epilogue's dequantization, by rows or by columns. `along` are the same products with the
/// offsets of the scales as those of the initial value. `None` if the scales vary otherwise.
pub fn of_epilogue(of: &Products, along: &Products, epilogue: &Epilogue) -> Option<Dequantizes> {
    let values = epilogue.scales()?;
    let same = |a: &[[i64; 4]], b: &[[i64; 4]]| {
        a.len() == b.len() && a.iter().zip(b).all(|(a, b)| a[..INITIAL] == b[..INITIAL])
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
    let dequantize = |base: i64| {
        let number = |at: &[i64; 4]| {
            let at = usize::try_from(base + at[INITIAL]).ok()?;
            values.get(at).copied()
        };
        if along.columns.iter().all(|at| at[INITIAL] == 0) {
            let all = along.rows.iter().map(number).collect::<Option<_>>()?;
            return Some(Dequantize::Rows(all));
        }
        if along.rows.iter().any(|at| at[INITIAL] != 0) {
            return None;
        }
        let all = along.columns.iter().map(number).collect::<Option<_>>()?;
        Some(Dequantize::columns(all, of.micro.columns))
    };
    if !along.batch.iter().any(|l| l.moves(INITIAL)) {
        return Some(Dequantizes::Same(dequantize(along.base[INITIAL])?));
    }
    let mut bases = IndexMap::new();
    for (own, other) in own.iter().zip(&other) {
        if *bases.entry(own[RIGHT]).or_insert(other[INITIAL]) != other[INITIAL] {
            return None;
        }
    }
    let all = bases
        .into_iter()
        .map(|(at, base)| Some((at, dequantize(base)?)));
    Some(Dequantizes::Groups(all.collect::<Option<_>>()?))
}

/// Most terms whose products of bytes surely fit in a sum of 32 bits.
const MOST_SUMMED: usize = 65_000;

impl Products {
    /// Quantizes a constant operand: each row or column as bytes times a scale. Returns the bytes at the offsets of its
    /// elements, and the scales of the sums, which are these scales times that of the other operand, with their biases.
    pub fn scaled_bytes(
        &self,
        side: usize,
        constant: &[f32],
        scale: f32,
        begins: Option<&[f32]>,
    ) -> Option<(Vec<u8>, Dequantizes)> {
        let rows = side == self.sides().0;
        let (lanes, others) = match rows {
            true => (&self.rows, &self.columns),
            false => (&self.columns, &self.rows),
        };
        if others.iter().any(|at| at[INITIAL] != 0) || MOST_SUMMED < self.terms.len() {
            return None;
        }
        let mut bytes = vec![0u8; constant.len()];
        let mut group = |at: [i64; 4]| -> Option<Dequantize> {
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
                        let at = usize::try_from(at[INITIAL] + lane[INITIAL]).ok()?;
                        *begins.get(at).filter(|x| x.is_finite())?
                    }
                    None => -0.0,
                };
                list.push([scale * own, plus]);
            }
            let all = list.iter().all(|&[by, _]| is_scale(by));
            all.then(|| match rows {
                true => Dequantize::Rows(list),
                false => Dequantize::columns(list, self.micro.columns),
            })
        };
        let moves = |k: usize| self.batch.iter().any(|l| l.moves(k));
        if !moves(side) && !moves(INITIAL) {
            let dequantize = group(self.base)?;
            return Some((bytes, Dequantizes::Same(dequantize)));
        }
        // With groups, each group has a part of the constant and one initial value of its own.
        if side != RIGHT {
            return None;
        }
        let mut begins = Vec::new();
        walk(&self.batch, self.base, &mut |at| begins.push(at));
        let (mut all, mut starts) = (IndexMap::new(), IndexMap::new());
        for at in begins {
            if *starts.entry(at[RIGHT]).or_insert(at[INITIAL]) != at[INITIAL] {
                return None;
            }
            if let Entry::Vacant(new) = all.entry(at[RIGHT]) {
                new.insert(group(at)?);
            }
        }
        Some((bytes, Dequantizes::Groups(all)))
    }
}
