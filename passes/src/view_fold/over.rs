//! The orders that an operation takes on a target where values are row-major: those in which it is the same operation
//! over permuted axes.
//!
//! Example: a softmax along axis 1 of shape (2, 3, 4), with all ports in the order `[0, 2, 1]`, is a softmax along axis
//! 2 of shape (2, 4, 3).

use optc_ir::{AttrDict, Freedom, LaidPort, OpDecl, OpRef, Registry, Type, is_over_axes};
use std::fmt;
use std::hash::{Hash, Hasher};
use std::sync::Arc;

/// An operation that can be asked which orders it takes: its declaration, attributes, and types without layouts.
#[derive(Clone)]
pub(crate) struct Over {
    decl: Arc<dyn OpDecl>,
    props: AttrDict,
    operands: Vec<Type>,
    results: Vec<Type>,
}

impl Over {
    /// The operation, if it does not take all orders. `None` for an element-wise operation whose operands have the
    /// dimensions of its result: it takes any order.
    pub(crate) fn of(op: &OpRef<'_>, registry: &Registry) -> Option<Over> {
        let decl = registry.shared(op.name)?;
        let rank = |ty: &Type| ty.as_tensor().map_or(0, |ty| ty.rank());
        let of_result = op.results.first().map_or(0, |ty| rank(ty));
        let alike = |ty: &&Type| matches!(rank(ty), n if n == 0 || n == of_result);
        let free = decl
            .freedom(op)
            .labels
            .iter()
            .all(|l| l.role == optc_ir::Role::Parallel);
        if decl.family() == "elementwise" && free && op.operands.iter().all(alike) {
            return None;
        }
        let plain = |ty: &&Type| match ty.as_tensor() {
            Some(tensor) => tensor.without_layout().into(),
            None => (*ty).clone(),
        };
        Some(Over {
            decl,
            props: op.props.clone(),
            operands: op.operands.iter().map(plain).collect(),
            results: op.results.iter().map(plain).collect(),
        })
    }

    /// Returns whether the operation, over permuted axes, takes ports with these layouts.
    pub(crate) fn takes(&self, freedom: &Freedom, ports: &[LaidPort]) -> bool {
        let op = OpRef {
            name: self.decl.name(),
            operands: self.operands.iter().collect(),
            results: self.results.iter().collect(),
            props: &self.props,
        };
        is_over_axes(&*self.decl, &op, freedom, ports)
    }

    fn key(&self) -> (&'static str, &AttrDict, &[Type], &[Type]) {
        (self.decl.name(), &self.props, &self.operands, &self.results)
    }
}

impl PartialEq for Over {
    fn eq(&self, other: &Over) -> bool {
        self.key() == other.key()
    }
}

impl Eq for Over {}

impl Hash for Over {
    fn hash<H: Hasher>(&self, state: &mut H) {
        // Attributes have no hash. Few operations have the same name and types.
        (self.decl.name(), &self.operands, &self.results).hash(state);
    }
}

impl fmt::Debug for Over {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.key().fmt(f)
    }
}
