//! An operation as its declaration sees it: name, types and attributes, without a function around it.
//!
//! Shape rules run on types that are not yet in a function (in a builder), or never will be (in an evaluation).

use crate::attr::{Attr, AttrDict};
use crate::codes;
use crate::op::error::OpError;
use crate::types::{DType, Dim, TensorType, Type};

/// One operation as its declaration sees it.
#[derive(Clone, Debug)]
pub struct OpRef<'a> {
    /// The full name.
    pub name: &'a str,
    /// The types of the operands.
    pub operands: Vec<&'a Type>,
    /// The types of the results.
    pub results: Vec<&'a Type>,
    /// Inherent attributes.
    pub props: &'a AttrDict,
}

impl<'a> OpRef<'a> {
    /// The tensor type of operand `i`.
    ///
    /// # Errors
    /// There is no such operand, or it is no tensor.
    pub fn operand(&self, i: usize) -> Result<&'a TensorType, OpError> {
        let ty = self
            .operands
            .get(i)
            .ok_or_else(|| OpError::new(codes::OPERAND_COUNT, format!("operand {i} is missing")))?;
        ty.as_tensor().ok_or_else(|| {
            OpError::new(codes::OPERAND_KIND, format!("operand {i} is not a tensor"))
        })
    }

    /// The tensor type of result `i`.
    ///
    /// # Errors
    /// There is no such result, or it is no tensor.
    pub fn result(&self, i: usize) -> Result<&'a TensorType, OpError> {
        let ty = self
            .results
            .get(i)
            .ok_or_else(|| OpError::new(codes::RESULT_COUNT, format!("result {i} is missing")))?;
        ty.as_tensor()
            .ok_or_else(|| OpError::new(codes::RESULT_KIND, format!("result {i} is not a tensor")))
    }

    /// The tensor type of the only result.
    ///
    /// # Errors
    /// There are several results or none, or it is no tensor.
    pub fn only_result(&self) -> Result<&'a TensorType, OpError> {
        if 1 < self.results.len() {
            let message = format!("{} has several results, wanted one", self.name);
            return Err(OpError::new(codes::RESULT_COUNT, message));
        }
        self.result(0)
    }

    /// A required attribute.
    ///
    /// # Errors
    /// The attribute is missing.
    pub fn attr(&self, name: &str) -> Result<&'a Attr, OpError> {
        self.props.get(name).ok_or_else(|| {
            OpError::new(
                codes::ATTRIBUTE_MISSING,
                format!("{} needs the attribute `{name}`", self.name),
            )
        })
    }

    /// A required list of integers.
    ///
    /// # Errors
    /// The attribute is missing or no list of integers.
    pub fn ints(&self, name: &str) -> Result<Vec<i64>, OpError> {
        self.attr(name)?.as_ints().ok_or_else(|| {
            OpError::new(
                codes::ATTRIBUTE_KIND,
                format!("`{name}` wants a list of integers"),
            )
        })
    }

    /// A required integer.
    ///
    /// # Errors
    /// The attribute is missing or no integer.
    pub fn int(&self, name: &str) -> Result<i64, OpError> {
        self.attr(name)?.as_int().ok_or_else(|| {
            OpError::new(codes::ATTRIBUTE_KIND, format!("`{name}` wants an integer"))
        })
    }
}

/// The shape and element type of a result, inferred by the shape rule. Layouts are chosen elsewhere.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Inferred {
    /// The extents.
    pub dims: Vec<Dim>,
    /// The element type.
    pub dtype: DType,
}

impl From<Inferred> for TensorType {
    fn from(x: Inferred) -> Self {
        TensorType::new(x.dims, x.dtype)
    }
}
