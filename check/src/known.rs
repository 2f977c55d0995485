//! Values that are known before a program runs.

use optc_ir::effects::Effects;
use optc_ir::entity::SideTable;
use optc_ir::{FreedomClass, Func, Registry, Value};

/// Marks the values known at compile time: sources, and values computed from these alone.
#[must_use]
pub fn known_values(
    func: &Func,
    registry: &Registry,
    effects: &Effects<'_>,
) -> SideTable<Value, bool> {
    let mut known: SideTable<Value, bool> = SideTable::new(false);
    for &op in &func.body {
        let data = &func.ops[op];
        let class = || registry.class(&func.op_ref(op));
        let all = if data.operands.is_empty() {
            class() == Some(FreedomClass::Source)
        } else {
            data.operands.iter().all(|&v| known[v]) && effects.of(func, op).is_pure()
        };
        for &result in &data.results {
            known[result] = all;
        }
    }
    known
}
