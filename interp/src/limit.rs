//! Limits on the size of a tensor, and on the bytes and operations of one run.

use crate::error::OpFailure;
use optc_ir::DType;
use std::cell::Cell;

/// The most elements of one tensor. A program that declares more is refused before anything is allocated.
pub const MAX_ELEMENTS: u64 = 1 << 31;

/// The most bytes that the values of one run, inputs included, may take at once as the interpreters hold them. A
/// constant counts from its first to its last use.
pub const MAX_BYTES: u64 = 1 << 31;

/// The most operations that one run executes. Operations of called functions and of loops count every time. The limit
/// is about forty times the count of the largest models; reaching it takes seconds with small tensors.
pub const MAX_STEPS: u64 = 1 << 22;

/// The rest of both limits during a run.
#[derive(Debug)]
pub struct Budget {
    bytes: Cell<u64>,
    steps: Cell<u64>,
}

impl Default for Budget {
    fn default() -> Budget {
        Budget::new()
    }
}

impl Budget {
    /// Both limits, of which nothing is used.
    #[must_use]
    pub fn new() -> Budget {
        Budget {
            bytes: Cell::new(MAX_BYTES),
            steps: Cell::new(MAX_STEPS),
        }
    }

    /// The bytes of a value; refuses one that exceeds the remaining bytes.
    pub(crate) fn room(&self, dtype: DType, shape: &[usize]) -> Result<u64, OpFailure> {
        let bytes = held_bytes(dtype, shape)?;
        match bytes <= self.bytes.get() {
            true => Ok(bytes),
            false => Err(OpFailure::Memory {
                shape: shape_text(shape),
                bytes,
                held: MAX_BYTES - self.bytes.get(),
                limit: MAX_BYTES,
            }),
        }
    }

    /// Counts a value that is held from now on.
    ///
    /// # Errors
    /// It does not fit.
    pub fn hold(&self, dtype: DType, shape: &[usize]) -> Result<u64, OpFailure> {
        let bytes = self.room(dtype, shape)?;
        self.bytes.set(self.bytes.get() - bytes);
        Ok(bytes)
    }

    /// Releases bytes that were counted.
    pub(crate) fn release(&self, bytes: u64) {
        self.bytes.set(self.bytes.get() + bytes);
    }

    /// Counts the operations of a function that is about to run; false if the limit is exceeded.
    pub(crate) fn step(&self, operations: usize) -> bool {
        let left = self.steps.get().checked_sub(operations as u64);
        self.steps.set(left.unwrap_or(0));
        left.is_some()
    }
}

/// The bytes that a tensor takes in memory: the width is that of the Rust type that holds its elements, not that of its
/// element type.
pub(crate) fn held_bytes(dtype: DType, shape: &[usize]) -> Result<u64, OpFailure> {
    let width = match dtype {
        DType::F32 | DType::F16 | DType::BF16 => 4,
        DType::F64 | DType::Int { .. } => 8,
        DType::Mini(_) | DType::Complex64 | DType::Complex128 => 16,
    };
    Ok(elements_within_limit(shape)? * width)
}

/// The number of elements of a shape.
///
/// # Errors
/// They are more than [`MAX_ELEMENTS`].
pub fn elements_within_limit(shape: &[usize]) -> Result<u64, OpFailure> {
    if shape.contains(&0) {
        return Ok(0);
    }
    let count = shape.iter().try_fold(1u64, |a, &n| a.checked_mul(n as u64));
    count
        .filter(|&n| n <= MAX_ELEMENTS)
        .ok_or_else(|| OpFailure::TooLarge {
            shape: shape_text(shape),
            limit: MAX_ELEMENTS,
        })
}

/// `2x3x5`; `scalar` for rank 0.
#[must_use]
pub fn shape_text(shape: &[usize]) -> String {
    let parts: Vec<String> = shape.iter().map(usize::to_string).collect();
    if parts.is_empty() {
        "scalar".to_owned()
    } else {
        parts.join("x")
    }
}

/// The logical index of the element with this row-major number, as `[1, 0, 2]`.
#[must_use]
pub fn index_text(number: usize, shape: &[usize]) -> String {
    let mut rest = number;
    let mut index = vec![0; shape.len()];
    for (e, &n) in index.iter_mut().zip(shape).rev() {
        *e = rest % n.max(1);
        rest /= n.max(1);
    }
    format!("{index:?}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_released_may_be_held_again() {
        let budget = Budget::new();
        let third = [(1 << 29) / 3];
        let held: Vec<u64> = (0..3)
            .map(|_| budget.hold(DType::F32, &third).unwrap())
            .collect();
        assert!(budget.hold(DType::F32, &third).is_err());
        budget.release(held[0]);
        assert!(budget.hold(DType::F64, &third).is_err());
        assert!(budget.hold(DType::F16, &third).is_ok());
    }

    #[test]
    fn operations_are_counted() {
        let budget = Budget::new();
        assert!(budget.step(1 << 21));
        assert!(budget.step(1 << 21));
        assert!(!budget.step(1));
    }
}
