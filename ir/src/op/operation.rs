//! What an operation declares: a typed struct of its attributes and everything the compiler asks of it.

use crate::attr::AttrDict;
use crate::diag::{Code, nearest};
use crate::op::access::Access;
use crate::op::{
    Attributes, Effect, EvalContext, Field, Freedom, Inferred, OpDecl, OpError, OpRef, Traffic,
    ViewDims, compatible, missing_extent,
};
use crate::size::Size;
use crate::tensor::{EvalError, Tensor};
use crate::types::{DType, Dim, Type};
use std::marker::PhantomData;

/// What the compiler itself makes of an operation, beyond what it declares.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum Structure {
    /// Nothing: its declaration says all.
    Plain,
    /// Renames the elements of its operand where they lie: the layouts of operand and result must agree
    /// with [`Operation::rearrangement`].
    View,
    /// The same value in the result's layout.
    Convert,
    /// Elements that the program carries.
    Constant,
    /// The results of another function of the module.
    Call,
    /// An operation of another format: the results are what their types say, and need be no tensors.
    Opaque,
}

/// How partial results of a reduction that is cut become one.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum Partial {
    /// The sum.
    Add,
    /// The sum of means, each weighted by its share of the elements.
    Mean,
    /// The product.
    Multiply,
    /// The greatest.
    Max,
    /// The least.
    Min,
}

/// The constant operands of an operation, as far as they are known.
pub type Known<'a> = dyn Fn(usize) -> Option<Tensor> + 'a;

/// An operation of a dialect: the struct has its attributes, the implementation everything that passes,
/// interpreters and emitters ask of it.
///
/// A user of the library implements it as the `hbir` dialect does, and registers it with
/// [`Registry::add`](crate::Registry::add).
pub trait Operation: Attributes + Send + Sync + 'static {
    /// The full name, `hbir.reshape`.
    const NAME: &'static str;
    /// One line for the reference.
    const SUMMARY: &'static str;
    /// The row of a target's table this operation is looked up in: `elementwise`, `softmax`,
    /// `norm`, `reduce`, `concat`, `slice`, `broadcast`, `gather`, `matmul`, `conv`, `pool`,
    /// `resize`, `rearrange`, `source`, `barrier`.
    const FAMILY: &'static str;
    /// The least and the greatest number of operands.
    const OPERANDS: (usize, usize);
    /// Whether it takes and gives every element type, also those that nothing computes with: it moves
    /// elements alone.
    const MOVES_ONLY: bool = false;
    /// What the compiler itself makes of it.
    const STRUCTURE: Structure = Structure::Plain;
    /// Whether attributes that the struct does not name are kept. Otherwise they are refused.
    const OPEN: bool = false;
    /// The numbered constraints, sorted by code.
    const CODES: &'static [Code] = &[];

    /// Its attributes; the operation is looked up by its name first.
    ///
    /// # Errors
    /// It is another operation (`operation-kind`), or an attribute is missing or of the wrong kind.
    fn of(op: &OpRef<'_>) -> Result<Self, OpError> {
        if op.name == Self::NAME {
            return Self::read(op);
        }
        let message = format!("found {}, wanted {}", op.name, Self::NAME);
        Err(OpError::new("operation-kind", message))
    }

    /// The shape rule: result types from operand types and attributes, or the numbered constraint
    /// that does not hold.
    ///
    /// # Errors
    /// The first constraint that does not hold.
    fn infer(&self, op: &OpRef<'_>) -> Result<Vec<Inferred>, OpError>;

    /// The reference semantics on logical, row-major tensors.
    ///
    /// # Errors
    /// An operand's data is out of the operation's domain (an index out of bounds).
    fn eval(&self, call: &Call<'_>) -> Result<Vec<Tensor>, EvalError>;

    /// What running it does besides.
    fn effect(&self, op: &OpRef<'_>) -> Effect;

    /// How orders of operands map to orders of results.
    fn freedom(&self, op: &OpRef<'_>) -> Freedom {
        Freedom::barrier(op)
    }

    /// The loops and what they touch of the operands and results, all of whose sizes are known.
    ///
    /// # Errors
    /// A constraint does not hold; then every dimension is touched whole.
    fn access(&self, op: &OpRef<'_>) -> Result<Access, OpError> {
        Ok(Access::of_freedom(op, &self.freedom(op)))
    }

    /// What executing it moves.
    fn traffic(&self, op: &OpRef<'_>) -> Traffic {
        let _ = op;
        Traffic::None
    }

    /// The view that does the same, of an operation that only renames elements.
    ///
    /// # Errors
    /// It does more (`not-a-rearrangement`), or the first of its constraints that does not hold.
    fn rearrangement(&self, op: &OpRef<'_>) -> Result<ViewDims, OpError> {
        Err(not_a_rearrangement(op))
    }

    /// How partial results become one, if it may be cut along what it adds up: by default as its
    /// loops say.
    fn partial(&self, op: &OpRef<'_>) -> Option<Partial> {
        self.access(op).ok()?.partial()
    }

    /// The operand that it only rearranges, given the operands that are constants: the other side of a
    /// product with a permutation matrix.
    fn permutes(&self, op: &OpRef<'_>, known: &Known<'_>) -> Option<usize> {
        let _ = (op, known);
        None
    }

    /// Whether every element of its results is one of its first operand's, wherever it lies.
    fn passes_on(&self) -> bool {
        false
    }

    /// The operand that holds indices, and the sizes that they index: an index is below all of them.
    fn indexed(&self, op: &OpRef<'_>) -> Option<(usize, Vec<Dim>)> {
        let _ = op;
        None
    }
}

/// The error of an operation that does more than rearrange.
#[must_use]
pub fn not_a_rearrangement(op: &OpRef<'_>) -> OpError {
    OpError::new(
        "not-a-rearrangement",
        format!("{} does more than rearrange", op.name),
    )
}

/// A registered [`Operation`].
pub(crate) struct Declared<T>(PhantomData<fn() -> T>);

impl<T: Operation> Declared<T> {
    pub(crate) const NEW: Declared<T> = Declared(PhantomData);

    /// The struct and the result types, all attributes known.
    fn checked(&self, op: &OpRef<'_>) -> Result<(T, Vec<Inferred>), OpError> {
        operand_count(op, T::OPERANDS)?;
        if !T::OPEN {
            known_attributes(op, T::FIELDS)?;
        }
        let typed = T::read(op)?;
        let inferred = typed.infer(op)?;
        if !T::MOVES_ONLY {
            computable(op, &inferred)?;
        }
        Ok((typed, inferred))
    }

    /// The struct, if the shape rule holds and the result types are what it says.
    fn well_formed(&self, op: &OpRef<'_>) -> Option<T> {
        let (typed, inferred) = self.checked(op).ok()?;
        let fits = |(i, wanted): (usize, &Inferred)| {
            op.result(i)
                .is_ok_and(|found| compatible(&found.dims, &wanted.dims))
        };
        let ok = inferred.len() == op.results.len() && inferred.iter().enumerate().all(fits);
        ok.then_some(typed)
    }
}

impl<T: Operation> OpDecl for Declared<T> {
    fn name(&self) -> &'static str {
        T::NAME
    }
    fn summary(&self) -> &'static str {
        T::SUMMARY
    }
    fn family(&self) -> &'static str {
        T::FAMILY
    }
    fn structure(&self) -> Structure {
        T::STRUCTURE
    }
    fn fields(&self) -> &'static [Field] {
        T::FIELDS
    }
    fn attributes(&self, op: &OpRef<'_>) -> Result<AttrDict, OpError> {
        T::of(op).map(|typed| typed.write())
    }
    fn codes(&self) -> &'static [Code] {
        T::CODES
    }
    fn infer(&self, op: &OpRef<'_>) -> Result<Vec<Inferred>, OpError> {
        self.checked(op).map(|(_, inferred)| inferred)
    }
    fn eval(
        &self,
        op: &OpRef<'_>,
        inputs: &[&Tensor],
        cx: &EvalContext<'_>,
    ) -> Result<Vec<Tensor>, EvalError> {
        evaluate::<T>(self, op, inputs, cx)
    }
    fn effect(&self, op: &OpRef<'_>) -> Effect {
        T::read(op).map_or(Effect::Write, |typed| typed.effect(op))
    }
    fn freedom(&self, op: &OpRef<'_>) -> Freedom {
        match self.well_formed(op) {
            Some(typed) => typed.freedom(op),
            None => Freedom::barrier(op),
        }
    }
    fn access(&self, op: &OpRef<'_>) -> Access {
        let access = self.well_formed(op).and_then(|t| t.access(op).ok());
        access.unwrap_or_else(|| Access::whole(op))
    }
    fn traffic(&self, op: &OpRef<'_>) -> Traffic {
        T::read(op).map_or(Traffic::None, |typed| typed.traffic(op))
    }
    fn rearrangement(&self, op: &OpRef<'_>) -> Result<ViewDims, OpError> {
        T::read(op)?.rearrangement(op)
    }
    fn partial(&self, op: &OpRef<'_>) -> Option<Partial> {
        self.well_formed(op)?.partial(op)
    }
    fn permutes(&self, op: &OpRef<'_>, known: &Known<'_>) -> Option<usize> {
        T::read(op).ok()?.permutes(op, known)
    }
    fn passes_on(&self, op: &OpRef<'_>) -> bool {
        T::read(op).is_ok_and(|typed| typed.passes_on())
    }
    fn indexed(&self, op: &OpRef<'_>) -> Option<(usize, Vec<Dim>)> {
        T::read(op).ok()?.indexed(op)
    }
}

/// Refuses an attribute that the operation does not know: what it says would be lost.
fn known_attributes(op: &OpRef<'_>, fields: &[Field]) -> Result<(), OpError> {
    let known = |name: &str| fields.iter().any(|f| f.name == name);
    let Some((name, _)) = op.props.iter().find(|(name, _)| !known(name)) else {
        return Ok(());
    };
    let names: Vec<&str> = fields.iter().map(|f| f.name).collect();
    let wanted = match names.as_slice() {
        [] => "none".to_owned(),
        names => format!("`{}`", names.join("`, `")),
    };
    let message = format!(
        "{} has the attribute `{name}`, which it does not know, wanted {wanted}",
        op.name
    );
    let error = OpError::new("attribute-unknown", message);
    Err(match nearest(name, names.iter().copied()) {
        Some(near) => error.hint(format!("did you mean `{near}`?")),
        None => error.hint("what means nothing to the operation goes into `{…}` behind it"),
    })
}

/// Refuses element types that are only stored and moved.
fn computable(op: &OpRef<'_>, results: &[Inferred]) -> Result<(), OpError> {
    let operands = op.operands.iter().filter_map(|ty| ty.as_tensor());
    let types = operands.map(|t| t.dtype);
    let mut types = types.chain(results.iter().map(|r| r.dtype));
    let Some(stored) = types.find(|dtype| !dtype.computes()) else {
        return Ok(());
    };
    let message = format!("{} of {stored}, wanted a type to compute with", op.name);
    Err(OpError::new("element-type-stored", message)
        .hint("such elements are moved and, small floats, converted by hbir.cast"))
}

/// Refuses a wrong number of operands.
fn operand_count(op: &OpRef<'_>, wanted: (usize, usize)) -> Result<(), OpError> {
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

impl From<OpError> for EvalError {
    fn from(error: OpError) -> EvalError {
        EvalError::new(error.message)
    }
}

/// The most elements that the reference semantics take or give.
const MAX_ELEMENTS: usize = 1 << 31;

/// Shape and element type of one result of an evaluation.
#[derive(Clone, Debug)]
pub struct Target {
    /// The extents.
    pub shape: Vec<usize>,
    /// The element type.
    pub dtype: DType,
}

/// One evaluation: the operation with the operands' true extents as its types, so that the
/// constraints of the shape rule hold for them.
pub struct Call<'a> {
    /// The operation.
    pub op: &'a OpRef<'a>,
    /// The operands' elements.
    pub inputs: &'a [&'a Tensor],
    /// Shape and element type of the results.
    pub results: Vec<Target>,
    cx: &'a EvalContext<'a>,
}

impl Call<'_> {
    /// Extents between operand and result as numbers; one that is bound to nothing follows from
    /// the number of elements of the first operand.
    ///
    /// # Errors
    /// One is bound to no number, or the elements do not make the shape.
    pub fn bind(&self, dims: &[Dim]) -> Result<Vec<usize>, EvalError> {
        bind_dims(dims, self.cx, Some(self.input(0).len()))
    }
    /// The number that a size is during this evaluation.
    ///
    /// # Errors
    /// It is bound to none.
    pub fn number(&self, size: &Size) -> Result<i64, EvalError> {
        let bound = size.eval(&|name| self.cx.bindings.0.get(name).copied());
        bound
            .and_then(|n| i64::try_from(n).ok())
            .ok_or_else(|| EvalError::new(format!("the size {size} is bound to no number")))
    }
    /// Operand `i`; the shape rule has checked that it is there.
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
    /// The first result from floats.
    pub fn floats(&self, values: impl IntoIterator<Item = f64>) -> Vec<Tensor> {
        vec![Tensor::from_f64(self.dtype(), self.shape(), values)]
    }
    /// The first result from integers.
    pub fn integers(&self, values: impl IntoIterator<Item = i128>) -> Vec<Tensor> {
        vec![Tensor::from_i128(self.dtype(), self.shape(), values)]
    }
}

/// Runs the reference semantics on the operation with the operands' extents put in; the shape rule gives
/// the results' extents.
fn evaluate<T: Operation>(
    decl: &Declared<T>,
    op: &OpRef<'_>,
    inputs: &[&Tensor],
    cx: &EvalContext<'_>,
) -> Result<Vec<Tensor>, EvalError> {
    inputs.iter().try_for_each(|t| believable(&t.shape))?;
    let types: Vec<Type> = inputs.iter().map(|t| tensor_type(t)).collect();
    let concrete = OpRef {
        name: op.name,
        operands: types.iter().collect(),
        results: op.results.clone(),
        props: op.props,
    };
    let (typed, inferred) = decl.checked(&concrete)?;
    let elements = inputs
        .first()
        .filter(|_| T::STRUCTURE == Structure::Convert || typed.rearrangement(&concrete).is_ok())
        .map(|t| t.len());
    let mut results = Vec::with_capacity(inferred.len());
    for result in inferred {
        let shape = bind_dims(&result.dims, cx, elements)?;
        results.push(Target {
            shape,
            dtype: result.dtype,
        });
    }
    typed.eval(&Call {
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
