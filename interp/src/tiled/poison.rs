//! Values for elements that a tile does not have.

use optc_ir::{DType, Data, Tensor};

/// The value of a read outside a tile.
#[derive(Clone, Copy, PartialEq, Debug)]
pub(super) enum Poison {
    /// NaN, or the least integer.
    Nan,
    /// A small number. If a result changes with another poison, it depends on missing elements.
    Small,
    /// A large number, for the same test.
    Large,
}

/// A tensor of poison.
pub(super) fn poisoned(dtype: DType, shape: &[usize], poison: Poison) -> Tensor {
    match poison {
        Poison::Nan => filled(dtype, shape, f64::NAN, i64::MIN),
        Poison::Small => filled(dtype, shape, 0.75, 0),
        Poison::Large => filled(dtype, shape, 3e4, i64::MAX),
    }
}

/// A tensor of one number: `float` or `integer`, by its element type.
pub(super) fn filled(dtype: DType, shape: &[usize], float: f64, integer: i64) -> Tensor {
    let count = shape.iter().product();
    let shape = shape.to_vec();
    if !dtype.is_int() {
        return Tensor::from_f64(dtype, shape, std::iter::repeat_n(float, count));
    }
    let integer = match dtype {
        DType::Int { bits, .. } if integer == i64::MIN && 1 < bits => i64::MIN >> (64 - bits),
        DType::Int { .. } | DType::F64 | DType::F32 | DType::F16 | DType::BF16 => integer,
        DType::Mini(_) | DType::Complex64 | DType::Complex128 => integer,
    };
    Tensor::from_i64(dtype, shape, std::iter::repeat_n(integer, count))
}

/// Returns whether two elements are the same number; NaN equals NaN.
pub(super) fn same_element(a: &Tensor, i: usize, b: &Tensor, j: usize) -> bool {
    match (&a.data, &b.data) {
        (Data::F32(x), Data::F32(y)) => x[i] == y[j] || x[i].is_nan() && y[j].is_nan(),
        (Data::F64(x), Data::F64(y)) => x[i] == y[j] || x[i].is_nan() && y[j].is_nan(),
        (Data::I64(x), Data::I64(y)) => x[i] == y[j],
        (Data::Bits(x), Data::Bits(y)) => x[i] == y[j],
        (Data::F32(_) | Data::F64(_) | Data::I64(_) | Data::Bits(_), _) => false,
    }
}

/// Copies element `j` of `from` to element `i` of `into`; both hold elements of one kind.
pub(super) fn copy_element(into: &mut Tensor, i: usize, from: &Tensor, j: usize) {
    match (&mut into.data, &from.data) {
        (Data::F32(x), Data::F32(y)) => x[i] = y[j],
        (Data::F64(x), Data::F64(y)) => x[i] = y[j],
        (Data::I64(x), Data::I64(y)) => x[i] = y[j],
        (Data::Bits(x), Data::Bits(y)) => x[i] = y[j],
        (Data::F32(_) | Data::F64(_) | Data::I64(_) | Data::Bits(_), _) => {}
    }
}
