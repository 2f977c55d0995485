//! The context of a module's import: data that the functions share while they are built.

use super::effect::Effects;
use crate::codes;
use crate::module::HloModule;
use indexmap::{IndexMap, IndexSet};
use optc_ir::{Diagnostic, Registry};
use std::sync::Arc;

/// The data that all functions of a module share.
pub(super) struct ModuleCx<'a> {
    pub(super) hlo: &'a HloModule<'a>,
    pub(super) registry: &'a Registry,
    /// The names of computations that became functions, in the order in which they are needed.
    pub(super) names: IndexMap<usize, Arc<str>>,
    pub(super) taken: IndexSet<Arc<str>>,
    /// The number of instructions of each opcode that stayed opaque.
    pub(super) opaque: IndexMap<&'a str, usize>,
    /// The names of constants whose elements the text omits.
    pub(super) elided: IndexSet<String>,
    /// The known value of each parameter, by computation.
    pub(super) known: Vec<Vec<Option<f64>>>,
    pub(super) effects: Effects,
}

impl ModuleCx<'_> {
    /// The name of a computation's function.
    pub(super) fn function_name(&mut self, index: usize) -> Arc<str> {
        if let Some(name) = self.names.get(&index) {
            return name.clone();
        }
        let wanted = if index == self.hlo.entry {
            "main"
        } else {
            self.hlo.computations[index].name
        };
        let mut name: Arc<str> = Arc::from(wanted);
        let mut n = 0;
        while !self.taken.insert(name.clone()) {
            n += 1;
            name = Arc::from(format!("{wanted}.f{n}"));
        }
        self.names.insert(index, name.clone());
        name
    }

    /// A unique name for the elements of a constant that the text omits, based on the name of its instruction. Each
    /// such constant has its own name, since their elements may differ.
    pub(super) fn elided(&mut self, wanted: &str) -> String {
        let mut name = wanted.to_owned();
        let mut n = 0;
        while !self.elided.insert(name.clone()) {
            n += 1;
            name = format!("{wanted}.{n}");
        }
        name
    }

    pub(super) fn remarks(&self) -> Vec<Diagnostic> {
        let remark = |(opcode, count): (&&str, &usize)| {
            let message = format!("`{opcode}` has no equivalent and stays opaque, {count} times");
            Diagnostic::remark(codes::HLO_OPAQUE, message)
        };
        self.opaque.iter().map(remark).collect()
    }
}
