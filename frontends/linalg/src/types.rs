//! Types of MLIR text.

use optc_ir::{DType, TensorType};

/// The most dimensions of a tensor that is read.
const MOST_DIMS: usize = 32;

/// A type, as far as it is read.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Ty {
    /// A tensor of known sizes and a known element type.
    Tensor(Vec<u64>, DType),
    /// A number; `index` is an integer of 64 bits.
    Scalar(DType),
    /// Any other type.
    Other,
}

/// The type with this text.
pub(crate) fn ty(text: &str) -> Ty {
    let text = text.trim();
    let Some(inner) = text.strip_prefix("tensor<") else {
        return element(text).map_or(Ty::Other, Ty::Scalar);
    };
    let tensor = inner.strip_suffix('>').and_then(|inner| {
        let mut dims = Vec::new();
        let mut rest = inner;
        while let Some((first, after)) = rest.split_once('x') {
            let Ok(size) = first.parse::<u64>() else {
                break;
            };
            dims.push(size);
            rest = after;
        }
        let dtype = DType::parse(rest)?;
        // All sizes in bits are numbers of the IR.
        let volume = dims
            .iter()
            .try_fold(128u64, |n, &d| n.checked_mul(d.max(1)))?;
        let fits = dims.len() <= MOST_DIMS && i64::try_from(volume).is_ok();
        fits.then_some(Ty::Tensor(dims, dtype))
    });
    tensor.unwrap_or(Ty::Other)
}

/// The element type of a number.
fn element(text: &str) -> Option<DType> {
    match text {
        "index" => Some(DType::SI64),
        _ => DType::parse(text),
    }
}

/// The type in the IR.
pub(crate) fn tensor(shape: &[u64], dtype: DType) -> TensorType {
    TensorType::fixed(shape, dtype)
}
