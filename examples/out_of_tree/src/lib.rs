//! A dialect of one's own: the operation `acme.gate`, a rule that finds it, a pass that lowers it.
//!
//! `acme.gate(x, g) = x · sigmoid(g)`, element by element. [`compiler`] gives a compiler that knows
//! all three; nothing of optc's sources is touched.

mod gate;
mod lower_gates;
mod make_gates;

use optc::Compiler;
use std::sync::Arc;

pub use gate::Gate;
pub use lower_gates::LowerGates;
pub use make_gates::MakeGates;

/// The name of the operation.
pub const GATE: &str = "acme.gate";

/// A compiler with the operation, the rule and the pass.
#[must_use]
pub fn compiler() -> Compiler {
    let mut compiler = Compiler::new();
    compiler.registry_mut().add(Gate);
    compiler.extra_mut().local.push(Arc::new(MakeGates));
    compiler.passes_mut().add(Arc::new(LowerGates));
    compiler
}
