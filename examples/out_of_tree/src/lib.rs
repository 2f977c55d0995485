//! A dialect of one's own, and its command: operations, a rule that finds one of them, a pass that lowers it, a target.
//!
//! A team writes:
//!
//! - an operation: a file like `gate.rs` (attributes, shape rule, meaning), and a line in [`compiler`];
//! - the form of an operation in a format that has none for it, if its meaning is no expression or composition: a function
//!   like those of `writers.rs`;
//! - a rule: an equation like that of `make_gates.rs`;
//! - a pass: a file like `lower_gates.rs`;
//! - a target: a file like `acme.toml`, compiled in;
//! - the codes of its diagnostics: `codes.rs`;
//! - a `main` function of one line, around [`driver`];
//! - file tests: programs in `cases` with their commands and checks in comments, and their snapshots, which
//!   `acme-opt test --bless cases` writes. `tests/driver.rs` runs them in `cargo test`.
//!
//! Nothing else is needed: every subcommand, option, list, help text and completion of `optc` is there under the name
//! `acme-opt`, and knows these. Nothing is copied from optc.
//!
//! `acme.gate` and `acme.hard_tanh` are element-wise, `acme.shuffle` a rearrangement that folds away, `acme.energy` a reduction that
//! runs tile by tile, `acme.unit` a normalization. [`compiler`] gives a compiler that knows them all.

mod codes;
mod energy;
mod gate;
mod hard_tanh;
mod lower_gates;
mod make_gates;
mod shuffle;
mod unit;
mod writers;

use optc::passes::canonicalize::Canonicalize;
use optc::{Compiler, OutputFormat};
use optc_cli::Main;
use std::sync::Arc;

pub use codes::CODES;
pub use energy::Energy;
pub use gate::Gate;
pub use hard_tanh::HardTanh;
pub use lower_gates::{GateReport, LowerGates};
pub use make_gates::make_gates;
pub use shuffle::Shuffle;
pub use unit::Unit;

/// A compiler with the operations, the rule, the pass and the target.
///
/// # Panics
/// Never: the text of the target is well formed.
#[must_use]
pub fn compiler() -> Compiler {
    let mut compiler = Compiler::new();
    let registry = compiler.registry_mut();
    registry.add::<Energy>();
    registry.add::<Gate>();
    registry.add::<HardTanh>();
    registry.add::<Shuffle>();
    registry.add::<Unit>();
    compiler.write_in::<Gate>(OutputFormat::Onnx, writers::gate_in_onnx);
    for format in [OutputFormat::Hlo, OutputFormat::StableHlo] {
        compiler.write_in::<Gate>(format, writers::gate_in_hlo);
    }
    for format in [
        OutputFormat::Onnx,
        OutputFormat::Hlo,
        OutputFormat::StableHlo,
    ] {
        compiler.write_in::<Energy>(format, writers::energy);
    }
    let canonicalize = compiler.passes_mut().get_mut::<Canonicalize>();
    if let Some(canonicalize) = canonicalize {
        canonicalize.rules.push(Arc::new(make_gates()));
    }
    compiler.passes_mut().add(Arc::new(LowerGates));
    compiler
        .add_target(include_str!("acme.toml"))
        .expect("a well-formed target");
    compiler
}

/// The command around the compiler.
#[must_use]
pub fn driver() -> Main {
    Main::new(compiler())
        .name("acme-opt")
        .version(env!("CARGO_PKG_VERSION"))
        .about("Compiles the tensor programs of Acme")
        .codes(CODES)
}
