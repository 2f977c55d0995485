//! The form in which most operations of the dialect are declared.

use crate::op::{EvalContext, Freedom, Inferred, OpDecl, OpError, OpRef, Traffic};
use crate::ops::shape::{compatible, missing_extent};
use crate::size::Size;
use crate::tensor::{EvalError, Tensor};
use crate::tile::Access;
use crate::types::{DType, Dim, Type};

/// The most elements that the reference semantics take or give.
const MAX_ELEMENTS: usize = 1 << 31;

pub(crate) type InferFn = fn(&OpRef<'_>) -> Result<Vec<Inferred>, OpError>;
pub(crate) type EvalFn = fn(&Call<'_>) -> Result<Vec<Tensor>, EvalError>;
pub(crate) type FreedomFn = fn(&OpRef<'_>) -> Freedom;
pub(crate) type AccessFn = fn(&OpRef<'_>) -> Result<Access, OpError>;
pub(crate) type TrafficFn = fn(&OpRef<'_>) -> Traffic;

/// One operation as a table entry.
#[derive(Clone, Copy)]
pub(crate) struct Decl {
    name: &'static str,
    summary: &'static str,
    family: &'static str,
    /// The least and the greatest number of operands.
    operands: (usize, usize),
    infer: InferFn,
    eval: EvalFn,
    freedom: FreedomFn,
    /// The loops, where the freedom does not say enough.
    access: Option<AccessFn>,
    traffic: TrafficFn,
}

impl Decl {
    /// A declaration that is a barrier and moves nothing.
    pub(crate) const fn new(
        name: &'static str,
        family: &'static str,
        summary: &'static str,
        operands: (usize, usize),
        infer: InferFn,
        eval: EvalFn,
    ) -> Decl {
        let freedom = Freedom::barrier;
        Decl {
            name,
            summary,
            family,
            operands,
            infer,
            eval,
            freedom,
            access: None,
            traffic: no_traffic,
        }
    }
    pub(crate) const fn freedom(mut self, freedom: FreedomFn) -> Decl {
        self.freedom = freedom;
        self
    }
    pub(crate) const fn access(mut self, access: AccessFn) -> Decl {
        self.access = Some(access);
        self
    }
    pub(crate) const fn traffic(mut self, traffic: TrafficFn) -> Decl {
        self.traffic = traffic;
        self
    }
}

impl Decl {
    /// Whether the shape rule holds and the result types are what it says.
    fn well_formed(&self, op: &OpRef<'_>) -> bool {
        let Ok(inferred) = self.infer(op) else {
            return false;
        };
        let fits = |(i, wanted): (usize, &Inferred)| {
            op.result(i)
                .is_ok_and(|found| compatible(&found.dims, &wanted.dims))
        };
        inferred.len() == op.results.len() && inferred.iter().enumerate().all(fits)
    }
}

fn no_traffic(_: &OpRef<'_>) -> Traffic {
    Traffic::None
}

impl OpDecl for Decl {
    fn name(&self) -> &'static str {
        self.name
    }
    fn summary(&self) -> &'static str {
        self.summary
    }
    fn family(&self) -> &'static str {
        self.family
    }
    fn infer(&self, op: &OpRef<'_>) -> Result<Vec<Inferred>, OpError> {
        operand_count(op, self.operands)?;
        (self.infer)(op)
    }
    fn eval(
        &self,
        op: &OpRef<'_>,
        inputs: &[&Tensor],
        cx: &EvalContext<'_>,
    ) -> Result<Vec<Tensor>, EvalError> {
        evaluate(self, op, inputs, cx, self.eval)
    }
    fn freedom(&self, op: &OpRef<'_>) -> Freedom {
        if self.well_formed(op) {
            (self.freedom)(op)
        } else {
            Freedom::barrier(op)
        }
    }
    fn access(&self, op: &OpRef<'_>) -> Access {
        match self.access {
            Some(access) if self.well_formed(op) => {
                access(op).unwrap_or_else(|_| Access::whole(op))
            }
            Some(_) => Access::whole(op),
            None => Access::of_freedom(op, &self.freedom(op)),
        }
    }
    fn traffic(&self, op: &OpRef<'_>) -> Traffic {
        (self.traffic)(op)
    }
}

/// Refuses a wrong number of operands.
pub(crate) fn operand_count(op: &OpRef<'_>, wanted: (usize, usize)) -> Result<(), OpError> {
    let found = op.operands.len();
    if wanted.0 <= found && found <= wanted.1 {
        return Ok(());
    }
    let wanted = match wanted {
        (a, b) if a == b => format!("{a}"),
        (a, usize::MAX) => format!("at least {a}"),
        (a, b) => format!("{a} to {b}"),
    };
    let message = format!("{} has {found} operands, wanted {wanted}", op.name);
    Err(OpError::new("operand-count", message))
}

/// Shape and element type of one result of an evaluation.
#[derive(Clone, Debug)]
pub(crate) struct Target {
    pub(crate) shape: Vec<usize>,
    pub(crate) dtype: DType,
}

/// One evaluation: the operation with the operands' true extents as its types, so that the
/// constraints of the shape rule hold for them.
pub(crate) struct Call<'a> {
    pub(crate) op: &'a OpRef<'a>,
    pub(crate) inputs: &'a [&'a Tensor],
    pub(crate) results: Vec<Target>,
    cx: &'a EvalContext<'a>,
}

impl Call<'_> {
    /// Extents between operand and result as numbers; one that is bound to nothing follows from
    /// the number of elements of the first operand.
    pub(crate) fn bind(&self, dims: &[Dim]) -> Result<Vec<usize>, EvalError> {
        bind_dims(dims, self.cx, Some(self.input(0).len()))
    }
    /// The number that a size is during this evaluation.
    pub(crate) fn number(&self, size: &Size) -> Result<i64, EvalError> {
        let bound = size.eval(&|name| self.cx.bindings.0.get(name).copied());
        bound
            .and_then(|n| i64::try_from(n).ok())
            .ok_or_else(|| EvalError::new(format!("the size {size} is bound to no number")))
    }
    /// Operand `i`; the shape rule has checked that it is there.
    pub(crate) fn input(&self, i: usize) -> &Tensor {
        self.inputs[i]
    }
    /// The shape of the first result.
    pub(crate) fn shape(&self) -> Vec<usize> {
        self.results[0].shape.clone()
    }
    /// The element type of the first result.
    pub(crate) fn dtype(&self) -> DType {
        self.results[0].dtype
    }
    /// The first result from floats.
    pub(crate) fn floats(&self, values: impl IntoIterator<Item = f64>) -> Vec<Tensor> {
        vec![Tensor::from_f64(self.dtype(), self.shape(), values)]
    }
    /// The first result from integers.
    pub(crate) fn integers(&self, values: impl IntoIterator<Item = i128>) -> Vec<Tensor> {
        vec![Tensor::from_i128(self.dtype(), self.shape(), values)]
    }
}

/// Runs `eval` on the operation with the operands' extents put in; the shape rule of `decl` gives
/// the results' extents.
pub(crate) fn evaluate(
    decl: &dyn OpDecl,
    op: &OpRef<'_>,
    inputs: &[&Tensor],
    cx: &EvalContext<'_>,
    eval: impl FnOnce(&Call<'_>) -> Result<Vec<Tensor>, EvalError>,
) -> Result<Vec<Tensor>, EvalError> {
    inputs.iter().try_for_each(|t| believable(&t.shape))?;
    let types: Vec<Type> = inputs.iter().map(|t| tensor_type(t)).collect();
    let concrete = OpRef {
        name: op.name,
        operands: types.iter().collect(),
        results: op.results.clone(),
        props: op.props,
    };
    let inferred = decl
        .infer(&concrete)
        .map_err(|e| EvalError::new(e.message))?;
    let elements = inputs
        .first()
        .filter(|_| decl.family() == "rearrange")
        .map(|t| t.len());
    let mut results = Vec::with_capacity(inferred.len());
    for result in inferred {
        let shape = bind_dims(&result.dims, cx, elements)?;
        results.push(Target {
            shape,
            dtype: result.dtype,
        });
    }
    eval(&Call {
        op: &concrete,
        inputs,
        results,
        cx,
    })
}

/// Refuses extents whose product is too large; those of 0 count as 1, so that every stride can be
/// computed.
fn believable(shape: &[usize]) -> Result<(), EvalError> {
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

fn tensor_type(tensor: &Tensor) -> Type {
    let shape: Vec<u64> = tensor.shape.iter().map(|&n| n as u64).collect();
    Type::tensor(&shape, tensor.dtype)
}

/// The extents as numbers; one that is bound to nothing follows from the number of `elements`.
fn bind_dims(
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
