//! The current function and the values of the names in it.

use crate::module::{Func, Value, ValueDef};
use crate::span::Span;
use indexmap::{IndexMap, IndexSet};
use std::sync::Arc;

/// The function that is being read.
#[derive(Debug)]
pub(super) struct Scope<'s> {
    pub(super) func: Func,
    pub(super) slots: IndexMap<&'s str, Slot>,
    /// For each value, true if something uses it. Kept for bare files only.
    pub(super) used: Vec<bool>,
    /// The span of the `return`, after it was read.
    pub(super) returned: Option<Span>,
    /// True if the `return` was refused.
    pub(super) return_refused: bool,
    /// Uses of names before their definition: the number of the error, and the name.
    pub(super) undefined: Vec<(usize, &'s str)>,
}

impl<'s> Scope<'s> {
    pub(super) fn new(name: &str, bare: bool) -> Self {
        let mut func = Func::new(name);
        func.bare = bare;
        Scope {
            func,
            slots: IndexMap::new(),
            used: Vec::new(),
            returned: None,
            return_refused: false,
            undefined: Vec::new(),
        }
    }

    pub(super) fn finish_return(&mut self, values: &[Value], span: Span) {
        self.returned = Some(span);
        self.return_refused = false;
        values.iter().for_each(|&v| self.func.add_result(v, None));
    }
}

/// The meaning of a name in the text.
#[derive(Clone, Copy, Debug)]
pub(super) enum Slot {
    /// `count` values, from `first` on.
    Values { first: Value, count: u32 },
    /// A name whose definition or first use was refused.
    Refused,
}

/// Names the results of the function after their values, if the text names these with more than digits. Results that
/// have a name keep it.
pub(super) fn name_results(func: &mut Func) {
    let mut taken: IndexSet<Arc<str>> = func
        .result_ports
        .iter()
        .filter_map(|p| p.name.clone())
        .collect();
    for (port, &value) in func.result_ports.iter_mut().zip(&func.results) {
        let data = &func.values[value];
        let (None, Some(name), ValueDef::Result(..)) = (&port.name, &data.name, data.def) else {
            continue;
        };
        let in_words = !name.contains('#') && !name.bytes().all(|b| b.is_ascii_digit());
        if in_words && taken.insert(name.clone()) {
            port.name = Some(name.clone());
        }
    }
}
