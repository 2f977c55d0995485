//! Compares two tensors within a tolerance.

use optc_interp::{index_text, well_formed};
use optc_ir::{DType, Data, Tensor};
use thiserror::Error;

/// The difference between two tensors.
#[derive(Clone, Debug, Error, PartialEq)]
#[error("{kind}")]
pub struct Mismatch {
    /// The kind of difference.
    pub kind: MismatchKind,
    /// The row-major number of the worst element, if elements differ.
    pub element: Option<usize>,
    /// The number of elements that differ by more than is allowed.
    pub count: usize,
}

/// The kinds of differences between two tensors.
#[derive(Clone, Debug, Error, PartialEq)]
pub enum MismatchKind {
    /// The element types.
    #[error("the element types differ: {left} and {right}")]
    DType {
        /// The type of the first tensor.
        left: DType,
        /// The type of the second tensor.
        right: DType,
    },
    /// The shapes.
    #[error("the shapes differ: {left:?} and {right:?}")]
    Shape {
        /// The shape of the first tensor.
        left: Vec<usize>,
        /// The shape of the second tensor.
        right: Vec<usize>,
    },
    /// The number of elements of one of the tensors is not that of its shape.
    #[error("a tensor does not hold as many elements as its shape says")]
    Malformed,
    /// Float elements.
    #[error(
        "{count} of {total} elements differ; the worst at {at}: {left:?} and {right:?}, \
         difference {difference:e}, allowed {allowed:e}"
    )]
    Float {
        /// The number of elements that differ.
        count: usize,
        /// The number of all elements.
        total: usize,
        /// The logical index of the worst.
        at: String,
        /// Its value in the first tensor.
        left: f64,
        /// Its value in the second tensor.
        right: f64,
        /// Their distance; infinite if only one of them is finite, or only one is NaN.
        difference: f64,
        /// The largest distance allowed.
        allowed: f64,
    },
    /// Integer elements.
    #[error("{count} of {total} elements differ; the first at {at}: {left} and {right}")]
    Int {
        /// The number of elements that differ.
        count: usize,
        /// The number of all elements.
        total: usize,
        /// The logical index of the first.
        at: String,
        /// Its value in the first tensor.
        left: i64,
        /// Its value in the second tensor.
        right: i64,
    },
    /// Elements of types that are only stored and moved, compared by their bits.
    #[error("{count} of {total} elements differ; the first at {at}: bits {left:#x} and {right:#x}")]
    Bits {
        /// The number of elements that differ.
        count: usize,
        /// The number of all elements.
        total: usize,
        /// The logical index of the first.
        at: String,
        /// Its bits in the first tensor.
        left: u128,
        /// Its bits in the second tensor.
        right: u128,
    },
}

/// The largest allowed distance of two elements, relative to max(1, max|b|) of the whole tensor. It is 0 for integers
/// and for types without arithmetic.
#[must_use]
pub fn tolerance(dtype: DType) -> f64 {
    match dtype {
        DType::F64 => 1e-9,
        DType::F32 => 1e-4,
        DType::F16 => 1e-2,
        DType::BF16 => 4e-2,
        DType::Int { .. } | DType::Mini(_) | DType::Complex64 | DType::Complex128 => 0.0,
    }
}

/// Compares `a` with the expected `b`: max|a−b| ≤ tolerance · max(1, max|b|), integers exactly.
///
/// max|b| is taken over the finite elements of `b`. NaN agrees only with NaN, and an infinity only with the same
/// infinity.
///
/// # Errors
/// The place and the size of the largest difference.
pub fn compare(a: &Tensor, b: &Tensor) -> Result<(), Mismatch> {
    within(a, b, tolerance(b.dtype))
}

/// Compares two tensors that must hold the same numbers: NaN agrees with NaN, and 0 with -0.
///
/// # Errors
/// The place and the size of the largest difference.
pub fn compare_exact(a: &Tensor, b: &Tensor) -> Result<(), Mismatch> {
    within(a, b, 0.0)
}

fn within(a: &Tensor, b: &Tensor, tolerance: f64) -> Result<(), Mismatch> {
    let whole = |kind| Mismatch {
        kind,
        element: None,
        count: 0,
    };
    if a.dtype != b.dtype {
        return Err(whole(MismatchKind::DType {
            left: a.dtype,
            right: b.dtype,
        }));
    }
    if a.shape != b.shape {
        let (left, right) = (a.shape.clone(), b.shape.clone());
        return Err(whole(MismatchKind::Shape { left, right }));
    }
    let sound = well_formed(a).and(well_formed(b)).is_ok();
    match (&a.data, &b.data) {
        _ if !sound => Err(whole(MismatchKind::Malformed)),
        (Data::I64(x), Data::I64(y)) => ints(x, y, &a.shape),
        (Data::F32(x), Data::F32(y)) => {
            let pair = |i: usize| (f64::from(x[i]), f64::from(y[i]));
            floats(x.len(), pair, tolerance, &a.shape)
        }
        (Data::F64(x), Data::F64(y)) => floats(x.len(), |i| (x[i], y[i]), tolerance, &a.shape),
        (Data::Bits(x), Data::Bits(y)) => bits(x, y, &a.shape),
        (Data::F32(_) | Data::F64(_) | Data::I64(_) | Data::Bits(_), _) => {
            Err(whole(MismatchKind::Malformed))
        }
    }
}

/// The first element that differs, and the number of elements that differ.
fn first_difference<T: PartialEq>(a: &[T], b: &[T]) -> Option<(usize, usize)> {
    let differ = |i: &usize| a[*i] != b[*i];
    let first = (0..a.len()).find(differ)?;
    Some((first, (first..a.len()).filter(differ).count()))
}

fn bits(a: &[u128], b: &[u128], shape: &[usize]) -> Result<(), Mismatch> {
    let Some((first, count)) = first_difference(a, b) else {
        return Ok(());
    };
    let kind = MismatchKind::Bits {
        count,
        total: a.len(),
        at: index_text(first, shape),
        left: a[first],
        right: b[first],
    };
    Err(Mismatch {
        kind,
        element: Some(first),
        count,
    })
}

fn ints(a: &[i64], b: &[i64], shape: &[usize]) -> Result<(), Mismatch> {
    let Some((first, count)) = first_difference(a, b) else {
        return Ok(());
    };
    let at = index_text(first, shape);
    let (left, right, total) = (a[first], b[first], a.len());
    let kind = MismatchKind::Int {
        count,
        total,
        at,
        left,
        right,
    };
    Err(Mismatch {
        kind,
        element: Some(first),
        count,
    })
}

fn floats(
    total: usize,
    pair: impl Fn(usize) -> (f64, f64),
    tolerance: f64,
    shape: &[usize],
) -> Result<(), Mismatch> {
    let finite = (0..total)
        .map(|i| pair(i).1.abs())
        .filter(|x| x.is_finite());
    let allowed = tolerance * finite.fold(1.0, f64::max);
    let mut count = 0;
    let mut worst: Option<(usize, f64)> = None;
    for i in 0..total {
        let (a, b) = pair(i);
        let difference = distance(a, b);
        if difference <= allowed {
            continue;
        }
        count += 1;
        if worst.is_none_or(|(_, d)| difference > d) {
            worst = Some((i, difference));
        }
    }
    let Some((element, difference)) = worst else {
        return Ok(());
    };
    let (left, right) = pair(element);
    let at = index_text(element, shape);
    let kind = MismatchKind::Float {
        count,
        total,
        at,
        left,
        right,
        difference,
        allowed,
    };
    Err(Mismatch {
        kind,
        element: Some(element),
        count,
    })
}

/// A flag for each element: true if two tensors differ there by more than is allowed. `None` if their types or shapes
/// differ.
pub(crate) fn differing(a: &Tensor, b: &Tensor) -> Option<Vec<bool>> {
    if a.dtype != b.dtype || a.shape != b.shape {
        return None;
    }
    Some(match (&a.data, &b.data) {
        (Data::Bits(x), Data::Bits(y)) => x.iter().zip(y).map(|(x, y)| x != y).collect(),
        (Data::I64(x), Data::I64(y)) => x.iter().zip(y).map(|(x, y)| x != y).collect(),
        _ => {
            let (x, y) = (a.to_f64(), b.to_f64());
            let finite = y.iter().map(|x| x.abs()).filter(|x| x.is_finite());
            let allowed = tolerance(b.dtype) * finite.fold(1.0, f64::max);
            let far = |(&x, &y): (&f64, &f64)| allowed < distance(x, y);
            x.iter().zip(&y).map(far).collect()
        }
    })
}

fn distance(a: f64, b: f64) -> f64 {
    if a == b || (a.is_nan() && b.is_nan()) {
        0.0
    } else if a.is_finite() && b.is_finite() {
        (a - b).abs()
    } else {
        f64::INFINITY
    }
}
