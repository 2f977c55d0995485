//! A dialect of one's own: operations, a rule that finds one of them, a pass that lowers it.
//!
//! `acme.gate` and `acme.hard_tanh` are element-wise, `acme.shuffle` a rearrangement that folds away, `acme.energy` a reduction that
//! runs tile by tile, `acme.unit` a normalization. [`compiler`] gives a compiler that knows them all; nothing of optc's sources is touched.

mod energy;
mod gate;
mod hard_tanh;
mod lower_gates;
mod make_gates;
mod shuffle;
mod unit;

use optc::Compiler;
use optc::passes::canonicalize::Canonicalize;
use std::sync::Arc;

pub use energy::Energy;
pub use gate::Gate;
pub use hard_tanh::HardTanh;
pub use lower_gates::{GateReport, LowerGates};
pub use make_gates::make_gates;
pub use shuffle::Shuffle;
pub use unit::Unit;

/// A compiler with the operations, the rule and the pass.
#[must_use]
pub fn compiler() -> Compiler {
    let mut compiler = Compiler::new();
    let registry = compiler.registry_mut();
    registry.add::<Energy>();
    registry.add::<Gate>();
    registry.add::<HardTanh>();
    registry.add::<Shuffle>();
    registry.add::<Unit>();
    let canonicalize = compiler.passes_mut().get_mut::<Canonicalize>();
    if let Some(canonicalize) = canonicalize {
        canonicalize.rules.push(Arc::new(make_gates()));
    }
    compiler.passes_mut().add(Arc::new(LowerGates));
    compiler
}
