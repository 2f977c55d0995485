//! Runs a program that is compared with another one.

use crate::data::DataSource;
use crate::error::RunError;
use crate::frame::{Program, UNSCHEDULED};
use crate::memo::Memo;
use crate::naive::Physical;
use crate::reference::Logical;
use crate::uninterpreted::Opaque;
use crate::walk::run;
use indexmap::IndexMap;
use optc_ir::{Bindings, Module, Registry, Tensor};
use std::fmt;

/// A program that is compared with another one: opaque operations may be functions that both have in common, and
/// results of costly operations may be kept for the other program.
#[derive(Clone, Copy)]
pub struct Beside<'a> {
    /// The program.
    pub module: &'a Module,
    /// The operations.
    pub registry: &'a Registry,
    /// The bytes of external constants.
    pub data: &'a dyn DataSource,
    /// The meaning of opaque operations.
    pub opaque: Opaque<'a>,
    /// Results of costly operations.
    pub memo: Option<&'a Memo>,
}

impl Beside<'_> {
    /// Runs a function by the reference interpreter; the results by their keys.
    ///
    /// # Errors
    /// As for [`run_reference`](crate::run_reference).
    pub fn reference(
        &self,
        func: &str,
        inputs: &IndexMap<String, Tensor>,
        bindings: &Bindings,
    ) -> Result<IndexMap<String, Tensor>, RunError> {
        run(self.program(), &mut Logical, func, inputs, bindings)
    }

    /// Runs a function on physical buffers; the results by their keys.
    ///
    /// # Errors
    /// As for [`run_naive`](crate::run_naive).
    pub fn naive(
        &self,
        func: &str,
        inputs: &IndexMap<String, Tensor>,
        bindings: &Bindings,
    ) -> Result<IndexMap<String, Tensor>, RunError> {
        let mut memory = Physical::default();
        run(self.program(), &mut memory, func, inputs, bindings)
    }

    fn program(&self) -> Program<'_> {
        Program {
            module: self.module,
            registry: self.registry,
            data: self.data,
            schedules: &UNSCHEDULED,
            opaque: self.opaque,
            memo: self.memo,
        }
    }
}

impl fmt::Debug for Beside<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Beside")
            .field("opaque", &self.opaque)
            .finish_non_exhaustive()
    }
}
