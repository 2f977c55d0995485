//! The registry: operations by name, and the checks of functions as a whole.

use crate::codes;
use crate::diag::Diagnostic;
use crate::module::Func;
use crate::op::composition::Composition;
use crate::op::decl::OpDecl;
use crate::op::declared::Declared;
use crate::op::effect::Effect;
use crate::op::error::OpError;
use crate::op::expression::Expr;
use crate::op::freedom::FreedomClass;
use crate::op::op_ref::OpRef;
use crate::op::operation::{Operation, Structure, not_a_rearrangement};
use crate::op::rearrangement::ViewDims;
use crate::types::{TensorType, Type};
use indexmap::IndexMap;
use std::any::{Any, TypeId};
use std::sync::Arc;

/// The known operations, by name.
#[derive(Clone, Default)]
pub struct Registry {
    decls: IndexMap<&'static str, Arc<dyn OpDecl>>,
    checks: Vec<FuncCheck>,
    /// The facts about operations that other crates keep, each in a type of its own.
    extensions: IndexMap<TypeId, Arc<dyn Any + Send + Sync>>,
}

/// A check of attributes that belong to a function as a whole, such as a plan of tiles. Its diagnostics have codes of
/// the crate that defines the check.
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
    /// Adds an operation; it replaces one of the same name.
    pub fn add<T: Operation>(&mut self) {
        self.decls.insert(T::NAME, Arc::new(Declared::<T>::NEW));
    }
    /// Changes the facts about operations that another crate keeps in a type of its own. The first change is that of the
    /// default.
    pub fn extend<T: Clone + Default + Send + Sync + 'static>(
        &mut self,
        change: impl FnOnce(&mut T),
    ) {
        let mut value = self.extension::<T>().cloned().unwrap_or_default();
        change(&mut value);
        self.extensions.insert(TypeId::of::<T>(), Arc::new(value));
    }
    /// The facts about operations that another crate keeps in a type of its own, if there are any.
    #[must_use]
    pub fn extension<T: Send + Sync + 'static>(&self) -> Option<&T> {
        self.extensions.get(&TypeId::of::<T>())?.downcast_ref()
    }
    /// Adds a check that [`verify`](crate::verify::verify) makes of every function.
    pub fn add_check(&mut self, check: FuncCheck) {
        if !self
            .checks
            .iter()
            .any(|known| std::ptr::fn_addr_eq(*known, check))
        {
            self.checks.push(check);
        }
    }
    /// The checks of functions, in the order in which they were added.
    #[must_use]
    pub fn checks(&self) -> &[FuncCheck] {
        &self.checks
    }
    /// The declaration of this name.
    #[must_use]
    pub fn get(&self, name: &str) -> Option<&dyn OpDecl> {
        self.decls.get(name).map(|d| &**d)
    }
    /// The declaration of this name, as a shared pointer.
    #[must_use]
    pub fn shared(&self, name: &str) -> Option<Arc<dyn OpDecl>> {
        self.decls.get(name).cloned()
    }
    /// The structure of the operation of this name; [`Structure::Plain`] if it has no declaration.
    #[must_use]
    pub fn structure(&self, name: &str) -> Structure {
        self.get(name).map_or(Structure::Plain, OpDecl::structure)
    }
    /// The class of an operation's layout freedom; `None` if it has no declaration.
    #[must_use]
    pub fn class(&self, op: &OpRef<'_>) -> Option<FreedomClass> {
        Some(self.get(op.name)?.freedom(op).class)
    }
    /// The effect of an operation besides its results; [`Effect::Write`] if it has no declaration. For the effect of a
    /// call see [`Effects`](crate::effects::Effects).
    #[must_use]
    pub fn effect(&self, op: &OpRef<'_>) -> Effect {
        self.get(op.name).map_or(Effect::Write, |d| d.effect(op))
    }
    /// The expression of an element-wise operation.
    #[must_use]
    pub fn expression(&self, op: &OpRef<'_>) -> Option<Expr> {
        self.get(op.name)?.expression(op)
    }
    /// Returns whether the results of an operation are proportional to an operand: it scales or casts the elements, or
    /// moves them alone.
    #[must_use]
    pub fn is_proportional(&self, op: &OpRef<'_>, operand: usize) -> bool {
        match self.expression(op) {
            Some(expression) => expression.is_proportional_to(operand),
            None => {
                let converts = self.structure(op.name) == Structure::Convert;
                operand == 0 && (converts || self.rearrangement(op).is_ok())
            }
        }
    }
    /// The composition of an operation that reduces along dimensions of its first operand.
    #[must_use]
    pub fn composition(&self, op: &OpRef<'_>) -> Option<Composition> {
        self.get(op.name)?.composition(op)
    }
    /// The result types of an operation by its shape rule, row-major.
    ///
    /// # Errors
    /// The operation has no declaration (`hbir-op-unknown`), or the error of the first constraint that does not hold.
    pub fn result_types(&self, op: &OpRef<'_>) -> Result<Vec<Type>, OpError> {
        let decl = self.get(op.name).ok_or_else(|| {
            let message = format!("found {}, wanted an operation that is declared", op.name);
            OpError::new(codes::HBIR_OP_UNKNOWN, message)
        })?;
        let inferred = decl.infer(op)?.into_iter();
        Ok(inferred.map(|x| TensorType::from(x).into()).collect())
    }
    /// The equivalent view of an operation.
    ///
    /// # Errors
    /// The operation does more than rearrange (`not-a-rearrangement`), or the error of the first constraint that does
    /// not hold.
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
