//! Dequantization of the accumulators of byte products: a scale and a bias of each row or column, of each group's product
//! where a convolution has groups.

use crate::product::MOST_COLUMNS;
use indexmap::IndexMap;

/// Scale and bias of each row or of each column. A sum is multiplied by the scale, then the bias is added.
#[derive(Clone, Debug, PartialEq)]
pub enum Dequantize {
    /// A scale and a bias of each row.
    Rows(Vec<[f32; 2]>),
    /// One pair of arrays for each panel of columns: scales, biases.
    Columns(Vec<[[f32; MOST_COLUMNS]; 2]>),
}

/// Scales and biases of all products.
#[derive(Debug)]
pub enum Dequantizes {
    /// The same for all products.
    Same(Dequantize),
    /// One for each group's product, by the offset of its right operand.
    Groups(IndexMap<i64, Dequantize>),
}

impl Dequantizes {
    /// Scales and biases of the product whose right operand begins at the offset `right`.
    pub fn of(&self, right: i64) -> Option<&Dequantize> {
        match self {
            Dequantizes::Same(dequantize) => Some(dequantize),
            Dequantizes::Groups(all) => all.get(&right),
        }
    }
}

impl Dequantize {
    /// Scales and biases of columns in panels of `width`.
    pub(crate) fn columns(list: Vec<[f32; 2]>, width: usize) -> Dequantize {
        let some = |columns: &[[f32; 2]]| {
            let mut two = [[0.0; MOST_COLUMNS]; 2];
            for (i, &[scale, bias]) in columns.iter().enumerate() {
                (two[0][i], two[1][i]) = (scale, bias);
            }
            two
        };
        Dequantize::Columns(list.chunks(width).map(some).collect())
    }
}

/// Bits of a sum that is scaled as `f32` and has a bias added.
#[inline(always)]
pub(crate) fn scaled(sum: i32, [by, bias]: [f32; 2]) -> i32 {
    (sum as f32 * by + bias).to_bits().cast_signed()
}

/// Returns whether the product of the scale and any `i32` is finite and the scale is a normal number.
pub(crate) fn is_scale(by: f32) -> bool {
    by.is_normal() && (by * 2.0f32.powi(31)).is_finite()
}

/// Numbers as one scale times bytes, if that is exact.
pub(crate) fn scaled_bytes(numbers: &[f32]) -> Option<(f32, Vec<i8>)> {
    let most = numbers.iter().fold(0.0, |most: f32, x| most.max(x.abs()));
    if most == 0.0 {
        return Some((1.0, vec![0; numbers.len()]));
    }
    let divided = (1..=128u8).rev().map(|n| most / f32::from(n));
    // The greatest number may have been rounded when it was scaled.
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
    // Of several scales, the one with the fewest significant bits: sums times it are rounded the least.
    all.rev()
        .max_by_key(|(scale, _)| scale.to_bits().trailing_zeros())
}
