//! Costs of folded functions, as modules of their own.

use crate::pass::PassContext;
use optc_check::stats::Stats;
use optc_ir::size::SizeTable;
use optc_ir::{Attr, Func, Module};

/// Bytes of a module.
pub(super) struct Bytes {
    /// Bytes of movement, padding and copies, and prices of slower orders.
    pub(super) unrepeated: u64,
    /// The same plus the bytes of repetitions.
    pub(super) all: u64,
}

/// A module of folded functions.
pub(super) fn laid(funcs: Vec<Func>, cx: &PassContext) -> Module {
    let mut module = Module {
        funcs,
        ..Module::default()
    };
    module.attrs.set("hbir.target", Attr::str(&cx.target.name));
    module
}

/// The cost of a module.
pub(super) fn bytes(module: &Module, cx: &PassContext) -> Bytes {
    let sizes = SizeTable::new(&cx.bindings);
    let stats = Stats::on(module, &cx.registry, &sizes, &cx.target);
    let unrepeated = stats.layout_bytes().saturating_add(stats.copy_bytes);
    Bytes {
        unrepeated,
        all: unrepeated.saturating_add(stats.expand_bytes),
    }
}
