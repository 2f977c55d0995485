//! Uses: the operations that read a value, and whether the function returns it.

use crate::entity::SideTable;
use crate::module::{Func, Op, Value};

/// The uses of every value of a function.
#[derive(Clone, Debug)]
pub struct Uses {
    readers: SideTable<Value, Vec<Op>>,
    returned: SideTable<Value, bool>,
}

impl Uses {
    /// The uses by the operations of the body and by the results of the function.
    #[must_use]
    pub fn of(func: &Func) -> Uses {
        let mut readers = SideTable::new(Vec::new());
        for &op in &func.body {
            for &operand in &func.ops[op].operands {
                readers[operand].push(op);
            }
        }
        let mut returned = SideTable::new(false);
        for &value in &func.results {
            returned[value] = true;
        }
        Uses { readers, returned }
    }

    /// The operations that read a value, in the order of the body. An operation that reads it in several operands is
    /// listed once per operand.
    #[must_use]
    pub fn readers(&self, value: Value) -> &[Op] {
        &self.readers[value]
    }

    /// Returns whether the function returns a value.
    #[must_use]
    pub fn is_returned(&self, value: Value) -> bool {
        self.returned[value]
    }

    /// Returns whether an operation reads a value, or the function returns it.
    #[must_use]
    pub fn is_used(&self, value: Value) -> bool {
        self.is_returned(value) || !self.readers(value).is_empty()
    }
}
