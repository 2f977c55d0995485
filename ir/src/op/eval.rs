//! Evaluation by the reference semantics: numbers for symbolic sizes, elements of operands, extents of results.

use crate::attr::{Attr, AttrDict};
use crate::op::extents::missing_extent;
use crate::op::op_ref::OpRef;
use crate::op::rearrangement::ViewDims;
use crate::size::Size;
use crate::tensor::{EvalError, Tensor};
use crate::types::{DType, Dim};
use indexmap::IndexMap;
use std::sync::Arc;

/// The numbers of symbolic sizes during an evaluation.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Bindings(pub IndexMap<Arc<str>, u64>);

impl Bindings {
    /// The number of an extent; `None` if it is unknown or negative.
    #[must_use]
    pub fn size(&self, dim: &Dim) -> Option<u64> {
        match dim {
            Dim::Fixed(n) => Some(*n),
            Dim::Symbol(text) => self.0.get(text).copied().or_else(|| {
                let size = dim.size()?.eval(&|name| self.0.get(name).copied())?;
                u64::try_from(size).ok()
            }),
            Dim::Unknown => None,
        }
    }

    /// The attributes of an operation of the dialect, with the sizes that their lists name replaced by numbers.
    #[must_use]
    pub fn numbers(&self, props: &AttrDict) -> AttrDict {
        let number = |attr: &Attr| match attr {
            Attr::Str(text) => {
                let size = self.size(&Dim::named(text));
                let size = size.and_then(|n| i64::try_from(n).ok());
                size.map_or_else(|| attr.clone(), Attr::int)
            }
            other => other.clone(),
        };
        let value = |attr: &Attr| match attr {
            Attr::Array(list) => Attr::Array(list.iter().map(number).collect()),
            other => other.clone(),
        };
        props.iter().map(|(key, attr)| (key, value(attr))).collect()
    }
}

/// Evaluation context of the reference semantics.
#[derive(Clone, Copy, Debug)]
pub struct EvalContext<'a> {
    /// Sizes of the symbols.
    pub bindings: &'a Bindings,
}

/// The largest number of elements of an operand or result in the reference semantics.
const MAX_ELEMENTS: usize = 1 << 31;

/// Shape and element type of one result of an evaluation.
#[derive(Clone, Debug)]
pub struct Target {
    /// The extents.
    pub shape: Vec<usize>,
    /// The element type.
    pub dtype: DType,
}

/// One evaluation. The types of the operation have the operands' actual extents, so that the constraints of the shape
/// rule hold for them.
pub struct Call<'a> {
    /// The operation.
    pub op: &'a OpRef<'a>,
    /// The operands' elements.
    pub inputs: &'a [&'a Tensor],
    /// Shape and element type of the results.
    pub results: Vec<Target>,
    pub(super) cx: &'a EvalContext<'a>,
}

impl Call<'_> {
    /// The extents between operand and result as numbers. An unbound extent is computed from the number of elements of
    /// the first operand.
    ///
    /// # Errors
    /// An extent is unbound, or the shape has another number of elements.
    pub fn bind(&self, dims: &[Dim]) -> Result<Vec<usize>, EvalError> {
        bind_dims(dims, self.cx, Some(self.input(0).len()))
    }
    /// The number of a size during this evaluation.
    ///
    /// # Errors
    /// The size is unbound.
    pub fn number(&self, size: &Size) -> Result<i64, EvalError> {
        let bound = size.eval(&|name| self.cx.bindings.0.get(name).copied());
        bound
            .and_then(|n| i64::try_from(n).ok())
            .ok_or_else(|| EvalError::new(format!("the size {size} is bound to no number")))
    }
    /// Operand `i`; the shape rule has checked that it exists.
    ///
    /// # Panics
    /// There is no such operand.
    #[must_use]
    pub fn input(&self, i: usize) -> &Tensor {
        self.inputs[i]
    }
    /// The shape of the first result.
    #[must_use]
    pub fn shape(&self) -> Vec<usize> {
        self.results[0].shape.clone()
    }
    /// The element type of the first result.
    #[must_use]
    pub fn dtype(&self) -> DType {
        self.results[0].dtype
    }
    /// The first result, made from floats.
    pub fn floats(&self, values: impl IntoIterator<Item = f64>) -> Vec<Tensor> {
        vec![Tensor::from_f64(self.dtype(), self.shape(), values)]
    }
    /// The first result, made from integers.
    pub fn integers(&self, values: impl IntoIterator<Item = i128>) -> Vec<Tensor> {
        vec![Tensor::from_i128(self.dtype(), self.shape(), values)]
    }
    /// The first result of an operation that only renames the elements of its operand.
    ///
    /// # Errors
    /// An extent of the view is unbound.
    pub fn rearranged(&self, view: &ViewDims) -> Result<Vec<Tensor>, EvalError> {
        let x = self.input(0);
        if view.is_reshape() {
            return Ok(vec![x.reshaped(self.shape())]);
        }
        let transposed = x.reshaped(self.bind(&view.shape)?).transposed(&view.perm);
        Ok(vec![transposed.reshaped(self.shape())])
    }
}

/// Refuses extents whose product is too large. Extents of 0 count as 1, so that every stride can be computed.
pub(super) fn believable(shape: &[usize]) -> Result<(), EvalError> {
    let volume = shape
        .iter()
        .try_fold(1usize, |a, &n| a.checked_mul(n.max(1)));
    if volume.is_some_and(|n| n <= MAX_ELEMENTS) {
        return Ok(());
    }
    Err(EvalError::new(format!(
        "a tensor of {shape:?} has more than {MAX_ELEMENTS} elements"
    )))
}

/// The extents as numbers. An unbound extent is computed from the number of `elements`.
pub(super) fn bind_dims(
    dims: &[Dim],
    cx: &EvalContext<'_>,
    elements: Option<usize>,
) -> Result<Vec<usize>, EvalError> {
    let bound: Vec<Dim> = dims
        .iter()
        .map(|d| cx.bindings.size(d).map_or_else(|| d.clone(), Dim::Fixed))
        .collect();
    let missing = elements.and_then(|n| missing_extent(&bound, n as u64));
    let mut shape = Vec::with_capacity(dims.len());
    for dim in &bound {
        let extent = dim.fixed().or(missing).ok_or_else(|| {
            EvalError::new(format!("the size {dim} of a result is bound to no number"))
        })?;
        shape.push(usize::try_from(extent).unwrap_or(usize::MAX));
    }
    believable(&shape)?;
    let volume: usize = shape.iter().product();
    match elements.filter(|&n| volume != n) {
        Some(n) => Err(EvalError::new(format!(
            "{n} elements do not make a {shape:?}"
        ))),
        None => Ok(shape),
    }
}
