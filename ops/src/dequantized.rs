//! Values that are integers scaled to floats.

use crate::prelude::*;
use crate::{Dequantize, DequantizeBlocks};
use optc_ir::entity::SideTable;
use optc_ir::{FreedomClass, Func, Op, Registry, Structure, Value};

/// The values of a function that are integers scaled to floats, also in another order, shape or layout.
pub struct Dequantized(SideTable<Value, bool>);

impl Dequantized {
    /// Collects these values in one walk over the function.
    #[must_use]
    pub fn of(func: &Func, registry: &Registry) -> Dequantized {
        let mut found = SideTable::new(false);
        let moves = |op: Op| {
            registry.structure(&func.ops[op].name) == Structure::Convert
                || registry.class(&func.op_ref(op)) == Some(FreedomClass::Rearrange)
        };
        for &op in &func.body {
            let data = &func.ops[op];
            let is = match &*data.name {
                Dequantize::NAME | DequantizeBlocks::NAME => true,
                _ => data.operands.first().is_some_and(|&from| found[from]) && moves(op),
            };
            for &result in data.results.iter().filter(|_| is) {
                found[result] = true;
            }
        }
        Dequantized(found)
    }

    /// Returns whether the first two operands of an operation are such values. Runtimes compute such a product on the
    /// integers.
    #[must_use]
    pub fn multiplied_by(&self, func: &Func, op: Op) -> bool {
        let operands = &func.ops[op].operands;
        1 < operands.len() && operands.iter().take(2).all(|&value| self.0[value])
    }
}
