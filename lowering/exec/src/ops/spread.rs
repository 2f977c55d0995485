//! What sums of products of bytes are scaled by before anything else is done with them: a factor and a term of each row or column, of each product
//! by itself where a convolution has groups.

use crate::kernels::product::MOST_COLUMNS;
use indexmap::IndexMap;

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
    /// Those of a product whose right operand begins here.
    pub(crate) fn of(&self, right: i64) -> Option<&Spread> {
        match self {
            Spreads::Same(spread) => Some(spread),
            Spreads::Groups(all) => all.get(&right),
        }
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

/// A sum, multiplied as `f32` and added to, as its bits.
#[inline(always)]
pub(crate) fn scaled(sum: i32, [by, plus]: [f32; 2]) -> i32 {
    (sum as f32 * by + plus).to_bits().cast_signed()
}

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
