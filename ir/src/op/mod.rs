//! What an operation declares of itself: attributes, shape rule, constraints, semantics, effects, layout
//! freedom, loops.
//!
//! An operation is a struct of its attributes that implements [`Operation`]; the registry holds it with its
//! type erased, as [`OpDecl`]. A user of the library adds an operation by registering one more.

pub mod access;
mod attributes;
mod effect;
mod extents;
mod operation;
mod rearranged;
mod rearrangement;

pub use attributes::{AttrValue, Attributes, Field, FieldValue, missing, read_field};
pub use effect::Effect;
pub use extents::{compatible, missing_extent, unify};
use operation::Declared;
pub use operation::{Call, Known, Operation, Partial, Structure, Target, not_a_rearrangement};
pub use rearrangement::ViewDims;

use crate::attr::{Attr, AttrDict};
use crate::diag::{Code, Diagnostic};
use crate::module::{Func, Op};
use crate::op::access::Access;
use crate::size::Size;
use crate::tensor::{EvalError, Tensor};
use crate::types::{DType, Dim, TensorType, Type};
use indexmap::IndexMap;
use std::sync::Arc;
use thiserror::Error;

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
    /// The operation `op` of `func`.
    #[must_use]
    pub fn new(func: &'a Func, op: Op) -> Self {
        let data = &func.ops[op];
        OpRef {
            name: &data.name,
            operands: data.operands.iter().map(|&v| func.ty(v)).collect(),
            results: data.results.iter().map(|&v| func.ty(v)).collect(),
            props: &data.props,
        }
    }

    /// The tensor type of operand `i`.
    ///
    /// # Errors
    /// There is no such operand, or it is no tensor.
    pub fn operand(&self, i: usize) -> Result<&'a TensorType, OpError> {
        let ty = self
            .operands
            .get(i)
            .ok_or_else(|| OpError::new("operand-count", format!("operand {i} is missing")))?;
        ty.as_tensor()
            .ok_or_else(|| OpError::new("operand-kind", format!("operand {i} is not a tensor")))
    }

    /// The tensor type of result `i`.
    ///
    /// # Errors
    /// There is no such result, or it is no tensor.
    pub fn result(&self, i: usize) -> Result<&'a TensorType, OpError> {
        let ty = self
            .results
            .get(i)
            .ok_or_else(|| OpError::new("result-count", format!("result {i} is missing")))?;
        ty.as_tensor()
            .ok_or_else(|| OpError::new("result-kind", format!("result {i} is not a tensor")))
    }

    /// An attribute that must be there.
    ///
    /// # Errors
    /// The attribute is missing.
    pub fn attr(&self, name: &str) -> Result<&'a Attr, OpError> {
        self.props.get(name).ok_or_else(|| {
            OpError::new(
                "attribute-missing",
                format!("{} needs the attribute `{name}`", self.name),
            )
        })
    }

    /// A list of integers that must be there.
    ///
    /// # Errors
    /// The attribute is missing or no list of integers.
    pub fn ints(&self, name: &str) -> Result<Vec<i64>, OpError> {
        self.attr(name)?.as_ints().ok_or_else(|| {
            OpError::new(
                "attribute-kind",
                format!("`{name}` wants a list of integers"),
            )
        })
    }

    /// An integer that must be there.
    ///
    /// # Errors
    /// The attribute is missing or no integer.
    pub fn int(&self, name: &str) -> Result<i64, OpError> {
        self.attr(name)?
            .as_int()
            .ok_or_else(|| OpError::new("attribute-kind", format!("`{name}` wants an integer")))
    }
}

/// Why an operation is not well formed.
#[derive(Clone, Debug, Error, PartialEq, Eq)]
#[error("{message}")]
pub struct OpError {
    /// The stable kebab-case name of the diagnostic.
    pub code: &'static str,
    /// Found and wanted, in the user's terms.
    pub message: String,
    /// What might help.
    pub hint: Option<String>,
}

impl OpError {
    /// An error without a hint.
    #[must_use]
    pub fn new(code: &'static str, message: impl Into<String>) -> Self {
        Self {
            code,
            message: message.into(),
            hint: None,
        }
    }
    /// The same with a hint.
    #[must_use]
    pub fn hint(mut self, hint: impl Into<String>) -> Self {
        self.hint = Some(hint.into());
        self
    }
}

/// A result's shape and element type as the shape rule gives it; the layout is chosen elsewhere.
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

/// Sizes of symbols during evaluation.
#[derive(Clone, Debug, Default)]
pub struct Bindings(pub IndexMap<Arc<str>, u64>);

impl Bindings {
    /// The number of an extent; `None` where it is not known or no number of at least 0.
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
}

/// How the order of an operation's operands maps to the order of its results.
///
/// Every dimension of every operand and result carries a label; dimensions with the same label run
/// over the same index. `None` marks a dimension of extent 1 that is broadcast or dropped.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Freedom {
    /// What kind of agreement the operation needs.
    pub class: FreedomClass,
    /// What each label is.
    pub labels: Vec<Label>,
    /// Per operand, per dimension: an index into `labels`.
    pub operands: Vec<Vec<Option<usize>>>,
    /// Per result, per dimension: an index into `labels`.
    pub results: Vec<Vec<Option<usize>>>,
}

/// What kind of agreement an operation needs between the orders of its operands and results.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum FreedomClass {
    /// Only renames elements: reshape, transpose, view, squeeze. Part of the index map, never run.
    Rearrange,
    /// All operands and results follow one common order of labels, each restricted to its own.
    Ordered,
    /// A contraction: labels of both operands and the result are batch, of one operand and the
    /// result M or N, of both operands only K.
    Contract,
    /// A window slides over the spatial labels: the target lists the orders of batch, channel and
    /// spatial labels.
    Window,
    /// Has no tensor operands whose order matters and can write its result in any layout: a
    /// constant, an iota.
    Source,
    /// Nothing is known: operands and results are in the default layout.
    Barrier,
}

/// One label of a [`Freedom`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Label {
    /// What the operation does along it.
    pub role: Role,
    /// A cut of the label at `c` (into `x / c` and `x % c`) commutes with the operation only if
    /// `c` divides this: 0 allows every cut (equal extents everywhere), 1 none. Axes of concat,
    /// slice, split and pad carry the greatest common divisor of all offsets and extents.
    pub granule: u64,
}

/// What an operation does along a label.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Role {
    /// Independent along it.
    Parallel,
    /// Works along it: softmax, normalization, reduction, concat, slice, gather axis.
    Axis,
    /// Batch of a window operation.
    Batch,
    /// Channel (of the result, of a group, or of the input) of a window operation.
    Channel,
    /// Spatial dimension of a window operation.
    Spatial,
}

impl Freedom {
    /// A barrier.
    #[must_use]
    pub fn barrier(op: &OpRef<'_>) -> Freedom {
        let blank = |types: &[&Type]| {
            types
                .iter()
                .map(|t| vec![None; t.as_tensor().map_or(0, TensorType::rank)])
                .collect()
        };
        Freedom {
            class: FreedomClass::Barrier,
            labels: Vec::new(),
            operands: blank(&op.operands),
            results: blank(&op.results),
        }
    }
}

/// What executing an operation moves, in the classes of the statistics; bytes are logical.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Traffic {
    /// Computes, or is free.
    None,
    /// Only rearranges (transpose, layout_convert): reads and writes the whole value.
    Movement,
    /// Repeats elements.
    Expand,
    /// Copies a part or into a part: (bytes read, bytes written), polynomials in unknown sizes.
    Copy(Size, Size),
}

/// Evaluation context of the reference semantics.
#[derive(Clone, Copy, Debug)]
pub struct EvalContext<'a> {
    /// Sizes of the symbols.
    pub bindings: &'a Bindings,
}

/// Everything the compiler knows about one operation: a registered [`Operation`], its types erased.
pub trait OpDecl: Send + Sync {
    /// The full name, `hbir.reshape`.
    fn name(&self) -> &'static str;

    /// One line for the reference.
    fn summary(&self) -> &'static str;

    /// The row of a target's table this operation is looked up in; see [`Operation::FAMILY`].
    fn family(&self) -> &'static str;

    /// What the compiler itself makes of it.
    fn structure(&self) -> Structure;

    /// Its attributes.
    fn fields(&self) -> &'static [Field];

    /// The attributes of an operation as they are read: those that have a default are filled in.
    ///
    /// # Errors
    /// It is another operation, or an attribute is missing or of the wrong kind.
    fn attributes(&self, op: &OpRef<'_>) -> Result<AttrDict, OpError>;

    /// Its numbered constraints.
    fn codes(&self) -> &'static [Code];

    /// The shape rule; see [`Operation::infer`]. Wrong numbers of operands and attributes that the
    /// operation does not know are refused too.
    ///
    /// # Errors
    /// The first constraint that does not hold.
    fn infer(&self, op: &OpRef<'_>) -> Result<Vec<Inferred>, OpError>;

    /// The reference semantics on logical, row-major tensors.
    ///
    /// # Errors
    /// An operand's data is out of the operation's domain (an index out of bounds).
    fn eval(
        &self,
        op: &OpRef<'_>,
        inputs: &[&Tensor],
        cx: &EvalContext<'_>,
    ) -> Result<Vec<Tensor>, EvalError>;

    /// What running it does besides.
    fn effect(&self, op: &OpRef<'_>) -> Effect;

    /// How orders of operands map to orders of results; a barrier where the operation is not well formed.
    fn freedom(&self, op: &OpRef<'_>) -> Freedom;

    /// The loops; every dimension whole where the operation is not well formed.
    ///
    /// Read it by [`access_of`].
    fn access(&self, op: &OpRef<'_>) -> Access;

    /// What executing it moves.
    fn traffic(&self, op: &OpRef<'_>) -> Traffic;

    /// The view that does the same; see [`Operation::rearrangement`].
    ///
    /// # Errors
    /// It does more than rearrange, or is not well formed.
    fn rearrangement(&self, op: &OpRef<'_>) -> Result<ViewDims, OpError>;

    /// How partial results become one.
    fn partial(&self, op: &OpRef<'_>) -> Option<Partial>;

    /// The operand that it only rearranges; see [`Operation::permutes`].
    fn permutes(&self, op: &OpRef<'_>, known: &Known<'_>) -> Option<usize>;

    /// Whether every element of its results is one of its first operand's.
    fn passes_on(&self, op: &OpRef<'_>) -> bool;

    /// The operand that holds indices, and the sizes that they index.
    fn indexed(&self, op: &OpRef<'_>) -> Option<(usize, Vec<Dim>)>;
}

/// The known operations, by name.
#[derive(Clone, Default)]
pub struct Registry {
    decls: IndexMap<&'static str, Arc<dyn OpDecl>>,
    checks: Vec<FuncCheck>,
}

/// What verifies attributes that are about a function as a whole, such as a plan of tiles. Its diagnostics
/// carry codes of the crate that has it.
pub type FuncCheck = fn(&Func, &Registry) -> Result<(), Vec<Diagnostic>>;

impl std::fmt::Debug for Registry {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_set().entries(self.decls.keys()).finish()
    }
}

impl Registry {
    /// No operations.
    #[must_use]
    pub fn empty() -> Registry {
        Registry::default()
    }
    /// Adds an operation, in place of one of the same name.
    pub fn add<T: Operation>(&mut self) {
        self.decls.insert(T::NAME, Arc::new(Declared::<T>::NEW));
    }
    /// Adds what [`verify`](crate::verify::verify) asks of every function besides its operations.
    pub fn add_check(&mut self, check: FuncCheck) {
        if !self
            .checks
            .iter()
            .any(|known| std::ptr::fn_addr_eq(*known, check))
        {
            self.checks.push(check);
        }
    }
    /// What is asked of every function, in the order in which it was added.
    #[must_use]
    pub fn checks(&self) -> &[FuncCheck] {
        &self.checks
    }
    /// The declaration of this name.
    #[must_use]
    pub fn get(&self, name: &str) -> Option<&dyn OpDecl> {
        self.decls.get(name).map(|d| &**d)
    }
    /// What the compiler makes of the operation of this name; nothing of one that nobody declared.
    #[must_use]
    pub fn structure(&self, name: &str) -> Structure {
        self.get(name).map_or(Structure::Plain, OpDecl::structure)
    }
    /// What running an operation does besides giving its results; of one that nobody declared anything
    /// may be true. A call does what its function does: see
    /// [`Effects`](crate::effects::Effects).
    #[must_use]
    pub fn effect(&self, op: &OpRef<'_>) -> Effect {
        self.get(op.name).map_or(Effect::Write, |d| d.effect(op))
    }
    /// An operation as the view that does the same.
    ///
    /// # Errors
    /// It does more than rearrange (`not-a-rearrangement`), or the first of its constraints that does not
    /// hold.
    pub fn rearrangement(&self, op: &OpRef<'_>) -> Result<ViewDims, OpError> {
        match self.get(op.name) {
            Some(decl) => decl.rearrangement(op),
            None => Err(not_a_rearrangement(op)),
        }
    }
    /// All declarations, sorted by name.
    #[must_use]
    pub fn all(&self) -> Vec<&dyn OpDecl> {
        let mut all: Vec<&dyn OpDecl> = self.decls.values().map(|d| &**d).collect();
        all.sort_by_key(|d| d.name());
        all
    }
}
