//! `hbir.constant`: elements known at compile time (ONNX `Constant` and initializers, StableHLO `constant`).
//!
//! Either `value` is a dense attribute, whose type is the result's. Or `data` names elements in a file,
//! `#hbir.external<"file", offset, length>`, which are evaluated only by a caller that may read files.

use crate::iota::source;
use crate::prelude::*;
use optc_ir::attr::Dense;
use optc_ir::tensor::storage_bytes;
use optc_ir::types::Type;
use std::sync::Arc;

attributes! {
    /// Elements known at compile time.
    pub struct Constant {
        /// The elements, as a dense attribute.
        value: Option<Attr>,
        /// The file that holds the elements, as an external attribute.
        data: Option<Attr>,
    }
}

impl Constant {
    /// A constant of these elements; a single value is repeated for all elements of a larger shape.
    #[must_use]
    pub fn floats(shape: &[u64], values: &[f32]) -> Constant {
        let ty = Type::tensor(shape, DType::F32);
        let bytes = values.iter().flat_map(|x| x.to_le_bytes()).collect();
        let splat = values.len() == 1 && shape.iter().product::<u64>() != 1;
        Constant::dense(Dense { ty, bytes, splat })
    }

    /// A constant of these elements.
    #[must_use]
    pub fn dense(dense: Dense) -> Constant {
        Constant {
            value: Some(Attr::Dense(Arc::new(dense))),
            data: None,
        }
    }

    /// A constant whose elements are `length` bytes of a file, from byte `offset` on.
    #[must_use]
    pub fn external(file: &str, offset: u64, length: u64) -> Constant {
        let data = Attr::External {
            file: Arc::from(file),
            offset,
            length,
        };
        Constant {
            value: None,
            data: Some(data),
        }
    }
}

impl Operation for Constant {
    const NAME: &'static str = "hbir.constant";
    const SUMMARY: &'static str = "elements known at compile time";
    const FAMILY: &'static str = "source";
    const OPERANDS: (usize, usize) = (0, 0);
    const MOVES_ONLY: bool = true;
    const STRUCTURE: Structure = Structure::Constant;
    const CODES: &'static [Code] = CODES;

    /// C1: exactly one of `value` and `data` is there. C2: `value` is a dense tensor whose bytes fill its type. C3: the
    /// result has that type. C4: the external bytes fill the result's type.
    fn infer(&self, op: &OpRef<'_>) -> Result<Vec<Inferred>, OpError> {
        match (&self.value, &self.data) {
            (Some(Attr::Dense(dense)), None) => infer_dense(op, dense),
            (None, Some(Attr::External { length, .. })) => infer_external(op, *length),
            _ => {
                let message =
                    "hbir.constant wants either `value` = dense<…> or `data` = #hbir.external<…>";
                Err(OpError::new(CONSTANT_C1, message))
            }
        }
    }

    fn eval(&self, _: &Call<'_>) -> Result<Vec<Tensor>, EvalError> {
        match &self.value {
            Some(Attr::Dense(dense)) => Ok(vec![dense_tensor(dense)?]),
            _ => Err(EvalError::new(
                "the elements lie in a file that the operation alone cannot read",
            )),
        }
    }

    fn iteration_domain(&self, op: &OpRef<'_>) -> Result<IterationDomain, OpError> {
        source(op)
    }
}

fn infer_dense(op: &OpRef<'_>, dense: &Dense) -> Result<Vec<Inferred>, OpError> {
    let ty = dense
        .ty
        .as_tensor()
        .ok_or_else(|| OpError::new(CONSTANT_C2, "hbir.constant has a value that is no tensor"))?;
    let wanted = if dense.splat {
        Some(storage_bytes(ty.dtype) as u64)
    } else {
        file_bytes(ty)
    };
    if wanted != Some(dense.bytes.len() as u64) {
        let found = dense.bytes.len();
        let wanted = wanted.map_or_else(|| "known sizes".into(), |n| n.to_string());
        let message = format!(
            "hbir.constant has {found} bytes for {}, wanted {wanted}",
            show(&ty.dims)
        );
        return Err(OpError::new(CONSTANT_C2, message));
    }
    if let Ok(result) = op.result(0)
        && (result.dtype != ty.dtype || !compatible(&result.dims, &ty.dims))
    {
        let message = format!(
            "hbir.constant has a value of {} {} and a result of {} {}, wanted one type",
            show(&ty.dims),
            ty.dtype,
            show(&result.dims),
            result.dtype
        );
        return Err(OpError::new(CONSTANT_C3, message));
    }
    one(ty.dims.clone(), ty.dtype)
}

fn infer_external(op: &OpRef<'_>, length: u64) -> Result<Vec<Inferred>, OpError> {
    let result = op.result(0)?;
    let wanted = file_bytes(result);
    if wanted != Some(length) {
        let wanted = wanted.map_or_else(|| "known sizes".into(), |n| n.to_string());
        let message = format!(
            "hbir.constant of {} {} lies in {length} bytes, wanted {wanted}",
            show(&result.dims),
            result.dtype
        );
        return Err(OpError::new(CONSTANT_C4, message));
    }
    one(result.dims.clone(), result.dtype)
}

/// The number of bytes of all elements in a file.
fn file_bytes(ty: &TensorType) -> Option<u64> {
    ty.elements()?.checked_mul(storage_bytes(ty.dtype) as u64)
}

/// The elements of a dense attribute.
///
/// # Errors
/// The attribute is no tensor of known extents, or its bytes do not fill its type.
pub fn dense_tensor(dense: &Dense) -> Result<Tensor, EvalError> {
    let ty = dense
        .ty
        .as_tensor()
        .ok_or_else(|| EvalError::new("the value is no tensor"))?;
    let known = ty
        .shape()
        .filter(|_| ty.elements().is_some_and(|n| n < 1 << 32));
    let shape = known.ok_or_else(|| EvalError::new("the value has no size that can be held"))?;
    let shape: Vec<usize> = shape
        .iter()
        .map(|&n| usize::try_from(n).unwrap_or(usize::MAX))
        .collect();
    if !dense.splat {
        return Tensor::from_bytes(ty.dtype, shape, &dense.bytes);
    }
    let element = Tensor::from_bytes(ty.dtype, vec![], &dense.bytes)?;
    let n = shape.iter().product();
    let data = element.data.repeated(n);
    Ok(Tensor {
        dtype: ty.dtype,
        shape,
        data,
    })
}

/// The dense attribute that holds the elements of a tensor.
#[must_use]
pub fn tensor_dense(tensor: &Tensor) -> Dense {
    let shape: Vec<u64> = tensor.shape.iter().map(|&n| n as u64).collect();
    let ty = TensorType::fixed(&shape, tensor.dtype).into();
    Dense {
        ty,
        bytes: tensor.to_bytes(),
        splat: false,
    }
}

codes! {
    const CODES;

    CONSTANT_C1 = program(
        "`hbir.constant` has neither or both of the attributes `value` and `data`, or one of another kind",
        r#"%0 = "hbir.constant"() : () -> tensor<3xf32>"#,
        "give the elements in `value = dense<…>`, or their place in a file in `data = #hbir.external<…>`",
    );
    CONSTANT_C2 = input(
        "the value of `hbir.constant` is no tensor, or has more or fewer bytes than its type needs",
        "a module built by code whose `value` is a `Dense` of 4 bytes for `tensor<2xf32>`; the parser refuses such a text with `dense-shape` or `dense-hex`",
        "make the value with `optc_ops::tensor_dense`, which fills the type",
    );
    CONSTANT_C3 = program(
        "the result of `hbir.constant` has another type than its value",
        r#"%0 = "hbir.constant"() <{value = dense<[1, 2, 3]> : tensor<3xsi8>}> : () -> tensor<3xf32>"#,
        "give value and result one type, or convert with `hbir.cast`",
    );
    CONSTANT_C4 = program(
        "the external bytes of `hbir.constant` are more or fewer than its type needs",
        r#"%0 = "hbir.constant"() <{data = #hbir.external<"w", 0, 11>}> : () -> tensor<3xf32>"#,
        "the length is the number of elements times the bytes of one; the numbers after the file are offset and length",
    );
}
