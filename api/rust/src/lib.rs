//! optc makes the reshapes and transposes of tensor programs disappear.
//!
//! This crate is the façade, and the only crate whose names are kept stable. A [`Compiler`] holds the settings that all
//! compilations share (the known operations, the passes, the target, the options for the boundary). A [`Program`] is
//! one module with the text or file that it came from.
//!
//! ```
//! use optc::Compiler;
//!
//! let text = r#"
//!     %0 = "hbir.reshape"(%x) <{shape = [2, 3, 5]}> : (tensor<6x5xf32>) -> tensor<2x3x5xf32>
//!     %1 = "hbir.relu"(%0) : (tensor<2x3x5xf32>) -> tensor<2x3x5xf32>
//! "#;
//! let compiler = Compiler::new();
//! let mut program = compiler.parse("example.ir", text)?;
//! let before = compiler.stats(&program);
//! compiler.compile(&mut program, "canonicalize,view-fold")?;
//! let after = compiler.stats(&program);
//! assert_eq!((before.reshape, after.reshape), (1, 0));
//! assert_eq!(after.movement_bytes, 0);
//! assert!(program.text().contains("\"hbir.view\""));
//! # Ok::<(), optc::Error>(())
//! ```
//!
//! To build a program instead of reading one, add its operations to a [`FuncBuilder`] and pass the [`Module`] to
//! [`Compiler::program`]. To add an operation, declare its attributes with [`attributes!`], implement [`Operation`] and
//! add it to [`Compiler::registry_mut`]. To write it in
//! ONNX, HLO or StableHLO, give a [`WriteOp`] to [`Compiler::write_in`]. To add a pass, implement [`Pass`] and add it to [`Compiler::passes_mut`]. To
//! add rewrite rules, see [`passes::canonicalize::Canonicalize`] and [`passes::view_fold::ViewFold`]. To add a target, pass
//! the text of its file to [`Compiler::add_target`]. `optc_cli::Main` makes a command out of such a compiler.

mod answer;
pub mod codes;
mod compiler;
mod error;
mod format;
mod input;
#[cfg(feature = "json")]
mod json;
mod output;
#[cfg(feature = "draw")]
mod picture;
mod program;
mod stored;
mod target;

pub use answer::{Absence, Answer, Conversion, Fate, Holder, Located, OpOf, Tiles, ViewDecision};
pub use compiler::{Compiler, Report};
pub use error::Error;
pub use format::Format;
pub use input::{MAX_FILE_BYTES, MAX_STREAM_BYTES, read_file, read_stream, read_text};
#[cfg(feature = "json")]
pub use json::to_json;
pub use output::{
    copy_aside, distinct_outputs, output_place, remove_drafts, write_aside, write_files,
};
#[cfg(feature = "draw")]
pub use picture::{State, arena_to_svg, layouts_to_svg, to_dot, to_svg};
pub use program::Program;
pub use stored::Stored;
pub use target::{default_target, find_target};

pub use optc_check::MemoryUse;
pub use optc_check::stats::{Polynomials, Stats, bound_sizes};
#[cfg(feature = "emit")]
pub use optc_emit::{OutputFormat, WriteOp};
pub use optc_ir::{
    Attr, AttrDict, Attributes, Axes, Bindings, Call, Code, CodeName, DType, Data, Dense,
    Diagnostic, Dim, Effect, EvalContext, EvalError, Example, Expr, Freedom, FreedomClass, Func,
    FuncBuilder, Inferred, Label, Loc, Module, NewOp, Op, OpData, OpDecl, OpError, OpRef,
    Operation, OverAxes, Partial, Port, Registry, Role, Severity, Sign, Size, SizeTable, Span,
    Structure, Tensor, TensorType, Traffic, Type, Value, ValueData, ValueDef, ViewDims, attributes,
    codes, words,
};
pub use optc_passes::view_fold::{FoldReport, Freed, Keeper, NamedEnd, Proof, Reason};
pub use optc_passes::{
    Boundary, Changed, Outcome, Pass, PassContext, PassInfo, PassList, Phase, Reports, Stage,
};
pub use optc_target::{
    Alternative, MemoryLevel, PortRole, PortRule, PricedPort, Rates, Row, Slower, Style, Target,
    TargetError, Unit, When,
};

/// Times by a roofline model, not measured.
pub mod estimate {
    pub use optc_check::estimate::{Estimate, Item, Limit, Prices, has_floats, outermost};
}

/// Text: parsing, printing and rendering of diagnostics.
pub mod text {
    pub use optc_ir::diag::nearest;
    pub use optc_ir::render;
    pub use optc_ir::text::{parse, print, print_type, split, value_names};
    pub use optc_ir::verify::verify;
}

/// Expressions of element-wise operations, and compositions of reductions and expressions.
pub mod expression {
    pub use optc_ir::op::{
        Binary, Combine, Composition, Direction, Expr, ExprBuilder, Stage, Unary,
    };
}

/// The operations of the `hbir` dialect, each a struct of its attributes.
pub mod ops {
    pub use optc_ops::*;
}

/// Layouts: functions from logical indices to positions, and the test whether a rearrangement is a view.
pub mod layout {
    pub use optc_layout::{
        Axes, BlockNotation, Cause, DigitOp, DigitText, DigitsNotation, DrawError, Drawing,
        ExplainError, Explanation, Factor, Field, Layout, LayoutError, Mode, NotView,
        NotViewReason, Notation, NotationKind, Placement, Rearrangement, Side, SplitConfig,
        StridedNotation, TileDim, ViewMap, ViewMapError, XlaArray, XlaDim, XlaNotation, XlaShape,
        XlaType, deduce, dimension, explain, is_view, propagate, true_rank, xla_letters,
    };
    pub use optc_layout::{cute, notation};
}

/// Grids and blocks: the part of each value that one program works on.
pub mod tile {
    pub use optc_ir::op::iteration_domain::{Combine, IndexExpr, IterationDomain, Loop, LoopKind};
    pub use optc_ir::op::iteration_domain_of;
    pub use optc_tile::*;
}

/// The places of values in memory, as attributes that `bufferize` and `plan-memory` write.
pub mod memory {
    pub use optc_check::{Buffer, Memory, check_memory, most_alive, steps};
    pub use optc_ir::memory::{ALIGNMENT, ARENA, MEMORY, Place, STATE, State, arena, places};
    pub use optc_passes::bufferize::{live_bytes, memory_of};
}

/// Execution: programs run in buffers with the layouts of their types, and conversions between layouts.
#[cfg(feature = "exec")]
pub mod exec {
    pub use optc_exec::{
        ConversionError, ConversionOptions, ConversionPlan, ExecOptions, Executable, ISA_VARIABLE,
        Isa, IsaError, Moved, Padding, PlanCache, Profile, StepProfile, Untiled,
    };
}

/// HLO text: read as a tree, from which the front end makes a [`Module`], and written from a module.
#[cfg(any(feature = "hlo", feature = "emit-hlo"))]
pub mod hlo {
    #[cfg(feature = "emit-hlo")]
    pub use optc_emit::hlo::{Emitted, ReadData, emit};
    #[cfg(feature = "hlo")]
    pub use optc_hlo::{
        Attrs, Computation, HloModule, Instruction, PrintedComputation, PrintedInstruction,
        Strictness, parse, print, printed,
    };
}

/// MLIR text in the dialects of upstream, written from a module of known sizes.
#[cfg(feature = "emit-linalg")]
pub mod linalg {
    pub use optc_emit::ReadData;
    pub use optc_emit::linalg::emit;
}

/// StableHLO text, written from a module whose values are row-major.
#[cfg(feature = "emit-stablehlo")]
pub mod stablehlo {
    pub use optc_emit::hlo::{Emitted, ReadData};
    pub use optc_emit::stablehlo::emit;
}

/// ONNX models, written from a module whose values are row-major.
#[cfg(any(feature = "onnx", feature = "emit-onnx"))]
pub mod onnx {
    #[cfg(feature = "emit-onnx")]
    pub use optc_emit::onnx::{Emitted, Options, ReadData, emit, files_of, unread};
    #[cfg(feature = "onnx")]
    pub use optc_onnx::Whole;
}

/// Python with Pallas kernels, written from a module with a plan.
#[cfg(feature = "emit-pallas")]
pub mod pallas {
    pub use optc_emit::pallas::emit;
}

/// Checks of the output of passes: certificates of folds, and the acceptance of a module by a target.
pub mod check {
    pub use optc_check::{
        Certificate, Digest, Holder, Item, Source, ValuePosition, Witness, check, check_target,
        items,
    };
}

/// Smaller programs on which a test still fails.
#[cfg(feature = "reduce")]
pub mod reduce {
    pub use optc_reduce::{Reduced, reduce};
}

/// Passes: running pipelines, and reports.
pub mod passes {
    pub use optc_check::stats;
    pub use optc_passes::manager::{AfterHook, Hooks, Timing, run};
    pub use optc_passes::pass::{OptionInfo, Options, PassInfo, RuleInfo};
    pub use optc_passes::tile_propagate::{GroupReport, TileReport};
    pub use optc_passes::{Report, Reports};
    pub use optc_passes::{canonicalize, pipeline, rules, tile_propagate, view_fold};
}

/// The two oracles, which run programs slowly and plainly: on logical tensors, or on poisoned buffers.
#[cfg(feature = "interp")]
pub mod interp {
    pub use optc_compare::npz;
    pub use optc_compare::{
        BoundaryError, DEFAULT_SIZE, EquivalenceOptions, Execution, Fill, Mismatch, MismatchKind,
        NotEquivalent, RandomSource, SplitMix64, check_boundary, compare, compare_exact,
        equivalent, random_inputs, random_tensor, tolerance,
    };
    pub use optc_interp::{
        DataError, DataSource, FallbackSource, FolderSource, InputError, MemorySource, NoData,
        OpFailure, RunError, argument_keys, check_inputs, result_keys, run_naive, run_reference,
        run_tiled,
    };
}
