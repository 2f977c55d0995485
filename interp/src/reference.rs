//! The reference interpreter: logical semantics, layouts ignored.

use crate::data::DataSource;
use crate::error::{OpFailure, RunError};
use crate::frame::{Direct, Memory, Program, UNSCHEDULED};
use crate::uninterpreted::Opaque;
use crate::walk::run;
use indexmap::IndexMap;
use optc_ir::{Bindings, Module, Registry, Structure, Tensor, TensorType};
use std::sync::Arc;

/// Runs a function on logical tensors, by the semantics that the operations declare.
///
/// `inputs` are keyed by [`argument_keys`](crate::argument_keys), the results by [`result_keys`](crate::result_keys).
/// Symbols get their sizes from `bindings` and from the inputs' shapes. Values are freed after their last use.
/// Constants are read at their first use, from the text or from `data`. The module should be verified; an unverified
/// one gives an error.
///
/// Inputs that do not fit, operations without semantics, data that cannot be read, operands outside an operation's
/// domain. The error names the operation and its origin.
pub fn run_reference(
    module: &Module,
    registry: &Registry,
    func: &str,
    inputs: &IndexMap<String, Tensor>,
    data: &dyn DataSource,
    bindings: &Bindings,
) -> Result<IndexMap<String, Tensor>, RunError> {
    run(
        Program {
            module,
            registry,
            data,
            schedules: &UNSCHEDULED,
            opaque: Opaque::Refused,
            memo: None,
        },
        &mut Logical,
        func,
        inputs,
        bindings,
    )
}

/// Holds values as logical tensors.
pub(crate) struct Logical;

impl Memory for Logical {
    type Held = Arc<Tensor>;

    fn store(&mut self, tensor: Arc<Tensor>, _: &TensorType) -> Result<Arc<Tensor>, OpFailure> {
        Ok(tensor)
    }

    fn load(&mut self, held: &Arc<Tensor>, _: &TensorType) -> Result<Arc<Tensor>, OpFailure> {
        Ok(Arc::clone(held))
    }

    fn handles(&self, _: Structure) -> bool {
        false
    }

    fn direct(&mut self, step: &Direct<'_, Arc<Tensor>>) -> Result<Arc<Tensor>, OpFailure> {
        Ok(Arc::clone(step.operand))
    }
}
