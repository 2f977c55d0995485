//! The registry: operations by name, and what is asked of every function.

use crate::codes;
use crate::diag::Diagnostic;
use crate::module::Func;
use crate::op::decl::OpDecl;
use crate::op::declared::Declared;
use crate::op::effect::Effect;
use crate::op::error::OpError;
use crate::op::op_ref::OpRef;
use crate::op::operation::{Operation, Structure, not_a_rearrangement};
use crate::op::rearrangement::ViewDims;
use crate::types::{TensorType, Type};
use indexmap::IndexMap;
use std::sync::Arc;

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
    /// The declaration of this name, to keep.
    #[must_use]
    pub fn shared(&self, name: &str) -> Option<Arc<dyn OpDecl>> {
        self.decls.get(name).cloned()
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
    /// The result types of an operation by its shape rule, row-major.
    ///
    /// # Errors
    /// Nobody declared it (`hbir-op-unknown`), or the first of its constraints that does not hold.
    pub fn result_types(&self, op: &OpRef<'_>) -> Result<Vec<Type>, OpError> {
        let decl = self.get(op.name).ok_or_else(|| {
            let message = format!("found {}, wanted an operation that is declared", op.name);
            OpError::new(codes::HBIR_OP_UNKNOWN, message)
        })?;
        let inferred = decl.infer(op)?.into_iter();
        Ok(inferred.map(|x| TensorType::from(x).into()).collect())
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
