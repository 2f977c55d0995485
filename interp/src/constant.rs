//! The value of a constant, from the text or from a file.

use crate::data::DataSource;
use crate::error::OpFailure;
use crate::limit::{elements_within_limit, shape_text};
use optc_ir::tensor::storage_bytes;
use optc_ir::{Attr, AttrDict, Dense, EvalError, Tensor, TensorType};

/// The value of a constant by its attributes.
///
/// `shape` is that of the result type, if it is known.
///
/// # Errors
/// The attributes have no value or one that does not fit, or bytes cannot be read.
pub fn constant(
    props: &AttrDict,
    ty: &TensorType,
    shape: Option<Vec<usize>>,
    source: &dyn DataSource,
) -> Result<Tensor, OpFailure> {
    for (_, attr) in props.iter() {
        match attr {
            Attr::Dense(dense) => return from_dense(dense, ty, shape),
            Attr::External {
                file,
                offset,
                length,
            } => {
                let shape = shape.ok_or_else(|| {
                    OpFailure::Constant("an external constant needs a known shape".to_owned())
                })?;
                let wanted = byte_count(ty, &shape)?;
                if *length != wanted {
                    return Err(OpFailure::Constant(format!(
                        "the external data has {length} bytes, but {} elements of {} take {wanted}",
                        shape_text(&shape),
                        ty.dtype
                    )));
                }
                let bytes = source.read(file, *offset, *length, ty.dtype)?;
                return Ok(Tensor::from_bytes(ty.dtype, shape, &bytes)?);
            }
            Attr::Unit
            | Attr::Bool(_)
            | Attr::Int(..)
            | Attr::Float(..)
            | Attr::Str(_)
            | Attr::Array(_)
            | Attr::Dict(_)
            | Attr::Type(_)
            | Attr::Symbol(_)
            | Attr::Raw(_) => {}
        }
    }
    Err(OpFailure::Constant(
        "the constant has neither a dense nor an external value".to_owned(),
    ))
}

fn from_dense(
    dense: &Dense,
    ty: &TensorType,
    shape: Option<Vec<usize>>,
) -> Result<Tensor, OpFailure> {
    let written = dense.ty.as_tensor().and_then(TensorType::shape);
    let written = written.and_then(|s| s.into_iter().map(|n| usize::try_from(n).ok()).collect());
    let Some(shape) = shape.or(written) else {
        return Err(OpFailure::Constant(
            "a dense constant needs a known shape".to_owned(),
        ));
    };
    byte_count(ty, &shape)?;
    if dense.splat {
        let one = Tensor::from_bytes(ty.dtype, vec![1], &dense.bytes)?;
        return Ok(one.gather(shape, |_| 0));
    }
    let tensor = Tensor::from_bytes(ty.dtype, shape, &dense.bytes);
    Ok(tensor.map_err(|e| EvalError::new(format!("the dense value: {e}")))?)
}

fn byte_count(ty: &TensorType, shape: &[usize]) -> Result<u64, OpFailure> {
    Ok(elements_within_limit(shape)? * storage_bytes(ty.dtype) as u64)
}
