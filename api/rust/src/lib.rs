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
#[cfg(feature = "draw")]
mod report;
mod stored;
mod target;
mod tensor_layout;
#[cfg(all(
    feature = "emit-hlo",
    feature = "emit-linalg",
    feature = "emit-onnx",
    feature = "emit-stablehlo",
    feature = "interp"
))]
mod write;

pub use answer::{Absence, Answer, Conversion, Fate, Holder, Located, OpOf, Tiles, ViewDecision};
pub use compiler::{Compiler, Report};
pub use error::{Error, internal_error};
pub use format::Format;
pub use input::{MAX_FILE_BYTES, MAX_STREAM_BYTES, read_file, read_stream, read_text};
#[cfg(feature = "json")]
pub use json::to_json;
pub use output::{
    copy_aside, distinct_outputs, output_place, remove_drafts, write_aside, write_files,
};
#[cfg(feature = "draw")]
pub use picture::{
    Explored, State, arena_to_svg, layouts_to_svg, to_dot, to_model_explorer, to_svg,
};
pub use program::Program;
pub use stored::Stored;
pub use target::{default_target, find_target};
pub use tensor_layout::TensorLayout;

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
    Alternative, MemoryLevel, PortRole, PortRule, Precision, Precisions, PricedPort, Rates, Row,
    Slower, Style, Target, TargetError, Unit, When,
};

/// Times by a roofline model, not measured.
///
/// ```
/// use optc::SizeTable;
/// use optc::estimate::{Estimate, Item, Limit, Prices, outermost};
/// # let text = "%0 = \"hbir.transpose\"(%x) <{perm = [1, 0]}> : (tensor<2x3xf32>) -> tensor<3x2xf32>
/// #     %1 = \"hbir.relu\"(%0) : (tensor<3x2xf32>) -> tensor<3x2xf32>";
/// # let compiler = optc::Compiler::new();
/// # let mut program = compiler.parse("example.ir", text)?;
/// let target = optc::find_target("tpu")?;
/// let sizes = SizeTable::new(&compiler.bindings.0);
/// let prices = Prices { target: &target, sizes: &sizes, cast: None };
/// let estimate = Estimate::of(&program.module, compiler.registry(), &prices).expect("it has a memory");
/// assert!(estimate.items.iter().all(|item: &Item| item.limit() == Limit::Memory));
/// assert_eq!(outermost(&target).map(|level| level.bandwidth), Some(estimate.bandwidth));
/// # Ok::<(), optc::Error>(())
/// ```
pub mod estimate {
    pub use optc_check::estimate::{Estimate, Item, Limit, Prices, has_floats, outermost};
}

/// Text: parsing, printing and rendering of diagnostics.
///
/// ```
/// use optc::text::{Lines, Position, nearest, parse, print, print_type, render, split, value_names, verify};
/// let module = parse("%y = \"hbir.relu\"(%x) : (tensor<2xf32>) -> tensor<2xf32>").expect("it is a program");
/// verify(&module, optc::Compiler::new().registry()).expect("it is well formed");
/// assert!(print(&module).contains("\"hbir.relu\"(%x)"));
/// let func = &module.funcs[0];
/// assert_eq!(value_names(func)[&func.args[0]], "x");
/// assert_eq!(print_type(func.ty(func.args[0])), "tensor<2xf32>");
/// assert_eq!(nearest("hbir.rleu", ["hbir.relu", "hbir.exp"]), Some("hbir.relu"));
///
/// let lines = Lines::new("ab\nc");
/// let at: Position<'_> = lines.position(3);
/// assert_eq!((at.line, at.column), (2, 1));
///
/// let two = "%y = \n// -----\n%z = ";
/// let (_, first) = split(two)[0];
/// let problems = parse(first).expect_err("half a line");
/// assert!(render(&problems[0], "two.ir", first).contains("two.ir"));
/// ```
pub mod text {
    pub use optc_ir::diag::{Lines, Position, nearest};
    pub use optc_ir::render;
    pub use optc_ir::text::{parse, print, print_type, split, value_names};
    pub use optc_ir::verify::verify;
}

/// Expressions of element-wise operations, and compositions of reductions and expressions.
///
/// ```
/// use optc::expression::{Binary, Direction, Expr, ExprBuilder, Unary};
/// use optc::DType;
/// /// Writes an expression as C.
/// struct C;
///
/// impl ExprBuilder for C {
///     type Value = String;
///     type Error = std::fmt::Error;
///
///     fn number(&mut self, x: f64, _: DType) -> Result<Option<String>, std::fmt::Error> {
///         Ok(Some(format!("{x}f")))
///     }
///     fn unary(&mut self, function: Unary, x: &String, _: DType) -> Result<Option<String>, std::fmt::Error> {
///         Ok((function == Unary::Exp).then(|| format!("expf({x})")))
///     }
///     fn binary(&mut self, function: Binary, [a, b]: [&String; 2], _: DType) -> Result<Option<String>, std::fmt::Error> {
///         Ok((function == Binary::Mul).then(|| format!("{a} * {b}")))
///     }
///     fn compare(&mut self, _: Direction, _: [&String; 2], _: DType) -> Result<Option<String>, std::fmt::Error> {
///         Ok(None)
///     }
///     fn select(&mut self, [c, a, b]: [&String; 3], _: DType) -> Result<Option<String>, std::fmt::Error> {
///         Ok(Some(format!("({c} ? {a} : {b})")))
///     }
///     fn cast(&mut self, x: &String, _: DType, _: DType) -> Result<Option<String>, std::fmt::Error> {
///         Ok(Some(format!("(float)({x})")))
///     }
/// }
/// let expr = Expr::Operand(0).exp() * 2.0;
/// let text = expr.build(&[("x".to_owned(), DType::F32)], &mut C);
/// assert_eq!(text, Ok(Some("expf(x) * 2f".to_owned())));
/// ```
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
///
/// ```
/// use optc::layout::{Axes, Drawing, Explanation, Layout, NotView, Notation, NotationKind, Placement, Rearrangement, ViewMap};
/// use optc::layout::{XlaArray, XlaShape, deduce, explain, is_view};
/// let shape = XlaShape::parse("f32[2,3]{0,1:T(2,128)}").expect("a shape of HLO text");
/// let array: &XlaArray = shape.as_array().expect("no tuple");
/// let tiled = array.layout()?;
/// assert_eq!(tiled.bytes(), 4 * 4 * 128);
/// let how: Explanation = explain(&tiled).expect("pads, reshapes and transposes make it");
/// assert!(how.steps.iter().any(|(step, _)| matches!(step, Rearrangement::Pad { .. })));
/// let picture = Drawing::new(&tiled, &Axes::Own).expect("two dimensions are drawn");
/// assert!(picture.svg().contains("<svg") && !picture.terminal(false).is_empty());
///
/// let rows = Layout::row_major(&[2, 3], 32);
/// let columns = Layout::from_order(&[2, 3], 32, &[1, 0])?;
/// assert!(matches!(columns.convert(NotationKind::Digits)?.notation(), Notation::Digits(_)));
/// let places: &Placement = &columns;
/// assert_eq!((places.index(&[1, 0]), places.element_at(1)), (Some(1), Some(vec![1, 0])));
/// let turned = ViewMap { shape: None, perm: Some(vec![1, 0]), result: vec![3, 2] };
/// let why: NotView = is_view(&rows, &turned, &Layout::row_major(&[3, 2], 32)).expect_err("it moves elements");
/// println!("{}", why.reason);
/// let found = deduce(&rows, &Layout::from_order(&[3, 2], 32, &[1, 0])?).expect("one buffer");
/// assert_eq!(found.last().map(|map| &map.result[..]), Some(&[3, 2][..]));
/// # Ok::<(), optc::layout::LayoutError>(())
/// ```
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
///
/// ```
/// use optc::Tiles;
/// use optc::passes::{GroupReport, TileReport};
/// use optc::tile::{Group, OpTile, Plan, Tile};
/// use std::sync::Arc;
/// # let text = "%0 = \"hbir.transpose\"(%x) <{perm = [1, 0]}> : (tensor<2x3xf32>) -> tensor<3x2xf32>
/// #     %1 = \"hbir.relu\"(%0) : (tensor<3x2xf32>) -> tensor<3x2xf32>";
/// # let compiler = optc::Compiler::new();
/// # let mut program = compiler.parse("example.ir", text)?;
/// let mut compiler = compiler;
/// compiler.target = Some(Arc::new(optc::find_target("tpu")?));
/// let answer = compiler.answer(&program, "canonicalize,view-fold,tile-propagate")?;
/// let plan: &Plan = answer.plan(0).expect("the pass ran");
/// let group: &Group = &plan.groups[0];
/// println!("a grid of {:?}: {} programs", group.grid(), group.programs());
/// for (op, part) in &plan.tiles {
///     let part: &OpTile = part;
///     let tile: &Tile = part.tiles_of(0).next().expect("a result has a part");
///     println!("{op} computes {} elements in each", tile.elements());
/// }
/// let holder = &answer.holders(program.module.funcs[0].results[0])?[0];
/// let Tiles { group, parts, .. } = holder.place.tiles.as_ref().expect("a result of a group");
/// println!("{} parts in group {group}", parts.len());
/// let report: &TileReport = answer.report().reports.get().expect("the pass ran");
/// let first: &GroupReport = &report.groups[0];
/// assert_eq!(first.grid, plan.groups[*group].grid());
/// println!("{} bytes instead of {}", report.tiled_bytes, report.unfused_bytes);
/// # Ok::<(), optc::Error>(())
/// ```
pub mod tile {
    pub use optc_ir::op::iteration_domain::{Combine, IndexExpr, IterationDomain, Loop, LoopKind};
    pub use optc_ir::op::iteration_domain_of;
    pub use optc_tile::*;
}

/// The places of values in memory, as attributes that `bufferize` and `plan-memory` write.
///
/// ```
/// use optc::SizeTable;
/// use optc::memory::{ALIGNMENT, ARENA, MEMORY, STATE, Buffer, Memory, Place, State};
/// use optc::memory::{arena, check_memory, live_bytes, memory_of, most_alive, places, steps};
/// # let text = "%0 = \"hbir.transpose\"(%x) <{perm = [1, 0]}> : (tensor<2x3xf32>) -> tensor<3x2xf32>
/// #     %1 = \"hbir.relu\"(%0) : (tensor<3x2xf32>) -> tensor<3x2xf32>";
/// # let compiler = optc::Compiler::new();
/// # let mut program = compiler.parse("example.ir", text)?;
/// compiler.compile(&mut program, "bufferize,plan-memory")?;
/// let module = &program.module;
/// assert_eq!(State::of(module), Some(State::Planned));
/// assert_eq!(module.attrs.str(STATE), Some(State::Planned.word()));
/// let func = &module.funcs[0];
/// let first = places(&func.ops[func.body[0]]).expect("a list").expect("it is planned");
/// assert_eq!(first, [Place::Result(0)]);
/// let sizes = SizeTable::new(&compiler.bindings.0);
/// let decided: Vec<Memory> = memory_of(module, compiler.registry(), &sizes).expect("it is decided");
/// let buffers: &[Buffer] = &decided[0].buffers;
/// let (bytes, _) = most_alive(buffers);
/// assert!(check_memory(module, compiler.registry()).is_empty());
/// assert_eq!(arena(func) % ALIGNMENT, 0);
/// assert!(func.attrs.get(ARENA).is_some() && func.ops[func.body[0]].attrs.get(MEMORY).is_some());
/// assert_eq!(steps(buffers).into_iter().map(|(_, alive)| alive).max().unwrap_or(0), bytes);
/// assert_eq!(live_bytes(module, compiler.registry(), &sizes).expect("it is decided"), bytes);
/// # Ok::<(), optc::Error>(())
/// ```
pub mod memory {
    pub use optc_check::{Buffer, Memory, check_memory, most_alive, steps};
    pub use optc_ir::memory::{ALIGNMENT, ARENA, MEMORY, Place, STATE, State, arena, places};
    pub use optc_passes::bufferize::{live_bytes, memory_of};
}

/// Meshes of devices, and the splits of values over them.
///
/// ```
/// use optc::mesh::{Account, AxisLink, Cause, Collective, Done, Held, Kind, Links, Mesh, MeshAxis, Piece, ShardError};
/// use optc::mesh::{ShardReport, Sharding, Split, Wishes, argument, conversion, mesh, result, stored, take};
/// # let text = "%0 = \"hbir.relu\"(%x) : (tensor<8x6xf32>) -> tensor<8x6xf32>";
/// let mut compiler = optc::Compiler::new();
/// let devices: Mesh = "data:2,model:4".parse()?;
/// let axis: &MeshAxis = &devices.axes[1];
/// assert_eq!((&*axis.name, devices.devices()), ("model", 8));
/// let pins = vec![("x".to_owned(), "[data, _]".to_owned())];
/// compiler.shard = Wishes { mesh: Some(devices), pins };
/// let mut program = compiler.parse("example.ir", text)?;
/// let run = compiler.compile(&mut program, "shard")?;
/// let report: &ShardReport = run.reports.get().expect("it ran");
/// assert_eq!(report.account.collectives().count(), 0);
///
/// let devices = mesh(&program.module)?.expect("the pass states it");
/// let func = &program.module.funcs[0];
/// let x: Sharding = argument(func, 0, &devices)?.expect("the pass states it");
/// let split: &Split = x.on(0).expect("it is pinned");
/// assert_eq!(split.held, Held::Digits(vec![Piece { dim: 0, stride: 4, extent: 2 }]));
/// assert_eq!(Some(x), stored(func, func.args[0], &devices)?);
/// // Each device takes its part of `x` along `model`, which moves nothing, and computes that.
/// let taken: Vec<Sharding> = take(func, func.body[0], &devices)?.expect("`x` is stored otherwise");
/// assert_eq!(Some(taken[0].clone()), result(func, 0, &devices)?);
///
/// let links = Links(vec![AxisLink { extent: 2, bandwidth: 1e9, latency: 0.0 }]);
/// let part = Sharding::parse(["data@d0/4"], &devices)?;
/// let made: Vec<Collective> = conversion(&part, &Sharding::replicated(), 192, &links);
/// assert_eq!((made[0].kind, made[0].bytes), (Kind::AllGather, 96));
/// let target = optc::find_target("cpu")?;
/// let account = Account::of(&program.module, compiler.registry(), &target)?.expect("a mesh");
/// assert!(account.done.iter().all(|done: &Done| !matches!(done.cause, Cause::Made(_))));
/// let refused: ShardError = "data".parse::<Mesh>().expect_err("it has no extent");
/// println!("{refused}");
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub mod mesh {
    pub use optc_check::mesh::{
        Account, AxisLink, Cause, Collective, Done, Kind, Links, conversion,
    };
    pub use optc_ir::shard::{
        Held, Mesh, MeshAxis, Piece, ShardError, Sharding, Split, argument, mesh, result, stored,
        take,
    };
    pub use optc_passes::shard::{ShardReport, Wishes};
}

/// Execution: programs run in buffers with the layouts of their types, and conversions between layouts.
///
/// ```
/// use optc::exec::{ConversionOptions, ExecOptions, Executable, Isa, Moved, Padding, PlanCache, Profile, StepProfile};
/// use optc::interp::{Fill, NoData, random_inputs};
/// use optc::layout::Layout;
/// use optc::Bindings;
/// # let text = "%0 = \"hbir.transpose\"(%x) <{perm = [1, 0]}> : (tensor<2x3xf32>) -> tensor<3x2xf32>
/// #     %1 = \"hbir.relu\"(%0) : (tensor<3x2xf32>) -> tensor<3x2xf32>";
/// # let compiler = optc::Compiler::new();
/// # let mut program = compiler.parse("example.ir", text)?;
/// compiler.compile(&mut program, "canonicalize,view-fold,bufferize,plan-memory")?;
/// let (registry, sizes) = (compiler.registry(), Bindings::default());
/// let inputs = random_inputs(&program.module, "main", Fill::Normal, 0, &sizes, registry).expect("small inputs");
/// let options = ExecOptions { threads: 2, isa: Some(Isa::Portable), ..ExecOptions::default() };
/// let made = Executable::new(&program.module, registry, "main", &inputs, &NoData, &sizes, &options).expect("it is planned");
/// let (results, profile): (_, Profile) = made.profile(&inputs).expect("it runs");
/// assert_eq!(results["result0"].shape, [3, 2]);
/// assert!(profile.steps.iter().all(|step: &StepProfile| !step.kernel.is_empty()));
///
/// let (rows, columns) = (Layout::row_major(&[2, 3], 8), Layout::from_order(&[2, 3], 8, &[1, 0]).expect("an order"));
/// let zeros = ConversionOptions { padding: Padding::Zero, ..ConversionOptions::default() };
/// let plan = PlanCache::default().plan(&rows, &columns, zeros).expect("one shape");
/// let (mut out, mut moved) = ([0; 6], Moved::default());
/// plan.execute(&[1, 2, 3, 4, 5, 6], &mut out, &mut moved).expect("both buffers are large enough");
/// assert_eq!((out, moved.bytes()), ([1, 4, 2, 5, 3, 6], 12));
/// # Ok::<(), optc::Error>(())
/// ```
#[cfg(feature = "exec")]
pub mod exec {
    pub use optc_exec::{
        ConversionError, ConversionOptions, ConversionPlan, ExecOptions, Executable, ISA_VARIABLE,
        Isa, IsaError, Moved, Padding, PlanCache, Profile, StepProfile, Untiled,
    };
}

/// HLO text: read as a tree, from which the front end makes a [`Module`], and written from a module.
///
/// ```
/// use optc::hlo::{Emitted, HloModule, Instruction, ReadData, Strictness, emit, parse, print, printed};
/// # let text = "%0 = \"hbir.transpose\"(%x) <{perm = [1, 0]}> : (tensor<2x3xf32>) -> tensor<3x2xf32>
/// #     %1 = \"hbir.relu\"(%0) : (tensor<3x2xf32>) -> tensor<3x2xf32>";
/// # let compiler = optc::Compiler::new();
/// # let mut program = compiler.parse("example.ir", text)?;
/// let no_files: &ReadData<'_> = &|_, _, _, _| Err("there are no files".to_owned());
/// let Emitted { text, warnings } = emit(&program.module, compiler.registry(), None, no_files).expect("XLA has both");
/// assert!(warnings.is_empty());
/// let (tree, problems): (HloModule<'_>, _) = parse(&text, Strictness::Exact);
/// assert!(problems.is_empty());
/// assert!(print(&tree).contains("transpose"));
/// let root: &Instruction<'_> = tree.computations[0].root();
/// println!("{:?} in {} computations", root, printed(&tree).len());
/// # Ok::<(), optc::Error>(())
/// ```
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
///
/// ```
/// use optc::linalg::emit;
/// # let text = "%0 = \"hbir.transpose\"(%x) <{perm = [1, 0]}> : (tensor<2x3xf32>) -> tensor<3x2xf32>
/// #     %1 = \"hbir.relu\"(%0) : (tensor<3x2xf32>) -> tensor<3x2xf32>";
/// # let compiler = optc::Compiler::new();
/// # let mut program = compiler.parse("example.ir", text)?;
/// let no_files = |_: &str, _, _, _| Err("there are no files".to_owned());
/// let text = emit(&program.module, compiler.registry(), &no_files).expect("the sizes are known");
/// assert!(text.contains("linalg.transpose"));
/// # Ok::<(), optc::Error>(())
/// ```
#[cfg(feature = "emit-linalg")]
pub mod linalg {
    pub use optc_emit::ReadData;
    pub use optc_emit::linalg::emit;
}

/// StableHLO text, written from a module whose values are row-major.
///
/// ```
/// use optc::stablehlo::{Emitted, emit};
/// # let text = "%0 = \"hbir.transpose\"(%x) <{perm = [1, 0]}> : (tensor<2x3xf32>) -> tensor<3x2xf32>
/// #     %1 = \"hbir.relu\"(%0) : (tensor<3x2xf32>) -> tensor<3x2xf32>";
/// # let compiler = optc::Compiler::new();
/// # let mut program = compiler.parse("example.ir", text)?;
/// let no_files = |_: &str, _, _, _| Err("there are no files".to_owned());
/// let Emitted { text, .. } = emit(&program.module, compiler.registry(), None, &no_files).expect("all is row-major");
/// assert!(text.contains("stablehlo.transpose"));
/// # Ok::<(), optc::Error>(())
/// ```
#[cfg(feature = "emit-stablehlo")]
pub mod stablehlo {
    pub use optc_emit::hlo::{Emitted, ReadData};
    pub use optc_emit::stablehlo::emit;
}

/// ONNX models, written from a module whose values are row-major.
///
/// ```
/// use optc::onnx::{Emitted, Options, emit, files_of};
/// # let text = "%0 = \"hbir.transpose\"(%x) <{perm = [1, 0]}> : (tensor<2x3xf32>) -> tensor<3x2xf32>
/// #     %1 = \"hbir.relu\"(%0) : (tensor<3x2xf32>) -> tensor<3x2xf32>";
/// # let compiler = optc::Compiler::new();
/// # let mut program = compiler.parse("example.ir", text)?;
/// let no_files = |_: &str, _, _, _| Err("there are no files".to_owned());
/// let Emitted { bytes, files } =
///     emit(&program.module, compiler.registry(), Options::default(), &no_files).expect("ONNX has both");
/// assert!(files.is_empty() && files_of(&bytes).is_empty());
/// # Ok::<(), optc::Error>(())
/// ```
#[cfg(any(feature = "onnx", feature = "emit-onnx"))]
pub mod onnx {
    #[cfg(feature = "emit-onnx")]
    pub use optc_emit::onnx::{Emitted, Options, ReadData, emit, files_of, unread};
    #[cfg(feature = "onnx")]
    pub use optc_onnx::Whole;
}

/// Python with Pallas kernels, written from a module with a plan.
///
/// ```
/// use optc::pallas::emit;
/// use std::sync::Arc;
/// # let text = "%0 = \"hbir.transpose\"(%x) <{perm = [1, 0]}> : (tensor<2x3xf32>) -> tensor<3x2xf32>
/// #     %1 = \"hbir.relu\"(%0) : (tensor<3x2xf32>) -> tensor<3x2xf32>";
/// # let compiler = optc::Compiler::new();
/// # let mut program = compiler.parse("example.ir", text)?;
/// let mut compiler = compiler;
/// let target = Arc::new(optc::find_target("tpu")?);
/// compiler.target = Some(target.clone());
/// compiler.compile(&mut program, "canonicalize,view-fold,tile-propagate")?;
/// let python = emit(&program.module, compiler.registry(), &target).expect("it has a plan");
/// assert!(python.contains("pallas"));
/// # Ok::<(), optc::Error>(())
/// ```
#[cfg(feature = "emit-pallas")]
pub mod pallas {
    pub use optc_emit::pallas::emit;
}

/// Python on arrays of JAX.
///
/// ```
/// use optc::jax::emit;
/// # let text = "%0 = \"hbir.exp\"(%x) : (tensor<64x32xf32>) -> tensor<64x32xf32>";
/// # let compiler = optc::Compiler::new();
/// # let program = compiler.parse("example.ir", text)?;
/// let target = optc::find_target("cpu")?;
/// let python = emit(&program.module, compiler.registry(), &target).expect("jnp has it");
/// assert!(python.contains("jnp.exp(x)"));
/// # Ok::<(), optc::Error>(())
/// ```
#[cfg(feature = "emit-jax")]
pub mod jax {
    pub use optc_emit::jax::emit;
}

/// Python with Triton kernels, written from a module with a plan.
///
/// ```
/// use optc::triton::emit;
/// use std::sync::Arc;
/// # let text = "%0 = \"hbir.exp\"(%x) : (tensor<64x32xf32>) -> tensor<64x32xf32>
/// #     %1 = \"hbir.relu\"(%0) : (tensor<64x32xf32>) -> tensor<64x32xf32>";
/// # let mut compiler = optc::Compiler::new();
/// # let mut program = compiler.parse("example.ir", text)?;
/// compiler.target = Some(Arc::new(optc::find_target("triton")?));
/// compiler.compile(&mut program, "canonicalize,view-fold,tile-propagate")?;
/// let target = optc::find_target("triton")?;
/// let python = emit(&program.module, compiler.registry(), &target).expect("torch has all operations");
/// assert!(python.contains("@triton.jit"));
/// # Ok::<(), optc::Error>(())
/// ```
#[cfg(feature = "emit-triton")]
pub mod triton {
    pub use optc_emit::triton::emit;
}

/// Checks of the output of passes: certificates of folds, and the acceptance of a module by a target.
///
/// ```
/// use optc::check::{Certificate, Item, Source, check, check_target, items};
/// use optc::{FoldReport, SizeTable};
/// # let text = "%0 = \"hbir.transpose\"(%x) <{perm = [1, 0]}> : (tensor<2x3xf32>) -> tensor<3x2xf32>
/// #     %1 = \"hbir.relu\"(%0) : (tensor<3x2xf32>) -> tensor<3x2xf32>";
/// # let compiler = optc::Compiler::new();
/// # let mut program = compiler.parse("example.ir", text)?;
/// let before = program.module.clone();
/// let report = compiler.compile(&mut program, "view-fold")?;
/// let (after, target) = (&program.module, compiler.target_of(&program.module).expect("it is built in"));
/// let fold: &FoldReport = report.reports.get().expect("the pass ran");
/// let certificate: Certificate = fold.certificate(&before, after, compiler.registry(), &target);
/// check(&before, after, &certificate, compiler.registry(), &target).expect("the fold is right");
/// assert!(check_target(after, compiler.registry(), &target).is_empty());
/// let sizes = SizeTable::new(&compiler.bindings.0);
/// let moved = items(after, compiler.registry(), &sizes, None);
/// let by_ops = moved.iter().filter(|item: &&Item| matches!(item.of, Source::Op(_)));
/// assert_eq!(by_ops.map(|item| item.bytes).sum::<u64>(), certificate.movement_bytes);
/// # Ok::<(), optc::Error>(())
/// ```
pub mod check {
    pub use optc_check::{
        Certificate, Digest, Holder, Item, Source, ValuePosition, Witness, check, check_target,
        items,
    };
}

/// Smaller programs on which a test still fails.
///
/// ```
/// use optc::reduce::{Reduced, reduce};
/// # let text = "%0 = \"hbir.transpose\"(%x) <{perm = [1, 0]}> : (tensor<2x3xf32>) -> tensor<3x2xf32>
/// #     %1 = \"hbir.relu\"(%0) : (tensor<3x2xf32>) -> tensor<3x2xf32>";
/// # let compiler = optc::Compiler::new();
/// # let mut program = compiler.parse("example.ir", text)?;
/// let registry = compiler.registry();
/// let names = |module: &optc::Module| optc::text::print(module).contains("hbir.relu");
/// let found = reduce(&program.module, registry, &mut |module| names(module));
/// let Reduced { module, .. } = found.expect("the test fails on the program itself");
/// assert_eq!(module.funcs[0].body.len(), 1);
/// # Ok::<(), optc::Error>(())
/// ```
#[cfg(feature = "reduce")]
pub mod reduce {
    pub use optc_reduce::{Reduced, reduce};
}

/// Passes: running pipelines, and reports.
///
/// ```
/// use optc::passes::{AfterHook, Hooks, OptionInfo, RuleInfo, Timing, pipeline};
/// use optc::{PassInfo, PassList, Polynomials, Size, Stage, Stats};
/// # let text = "%0 = \"hbir.transpose\"(%x) <{perm = [1, 0]}> : (tensor<2x3xf32>) -> tensor<3x2xf32>
/// #     %1 = \"hbir.relu\"(%0) : (tensor<3x2xf32>) -> tensor<3x2xf32>";
/// # let compiler = optc::Compiler::new();
/// # let mut program = compiler.parse("example.ir", text)?;
/// let stages: Vec<Stage> = compiler.pipeline(&pipeline::DEFAULT.join(","))?;
/// let (mut cx, mut ran) = (compiler.context(&program)?, Vec::new());
/// let after: AfterHook<'_> = Box::new(|pass, _, _| ran.push(pass.to_owned()));
/// let mut hooks = Hooks { after: Some(after), ..Hooks::default() };
/// let times: Vec<Timing> = compiler.run_passes(&mut program, &stages, &mut cx, &mut hooks)?;
/// assert_eq!(times.len(), stages.len());
/// drop(hooks);
/// assert_eq!(ran, pipeline::DEFAULT);
/// let builtin: PassList = PassList::builtin();
/// for pass in builtin.iter() {
///     let PassInfo { name, options, .. } = pass.info();
///     let (rules, options): (Vec<RuleInfo>, &[OptionInfo]) = (pass.list_rules(), options);
///     println!("{name}: {} rules, {} options", rules.len(), options.len());
/// }
/// let figures: Stats = compiler.stats(&program);
/// let formulas: &Polynomials = &figures.polynomials;
/// let moved: &Size = formulas.movement.as_ref().expect("the layouts have one");
/// assert_eq!(moved.to_string(), figures.movement_bytes.to_string());
/// # Ok::<(), optc::Error>(())
/// ```
pub mod passes {
    pub use optc_check::stats;
    pub use optc_passes::manager::{AfterHook, Hooks, Timing, run};
    pub use optc_passes::pass::{OptionInfo, Options, PassInfo, RuleInfo};
    pub use optc_passes::tile_propagate::{GroupReport, TileReport};
    pub use optc_passes::{Report, Reports};
    pub use optc_passes::{canonicalize, pipeline, rules, tile_propagate, view_fold};
}

/// The two oracles, which run programs slowly and plainly: on logical tensors, or on poisoned buffers.
///
/// ```
/// use optc::Bindings;
/// use optc::interp::{EquivalenceOptions, Fill, Mismatch, NoData, NotEquivalent, RunError};
/// use optc::interp::{argument_keys, compare, compare_exact, equivalent, npz, random_inputs, result_keys, run_naive, run_reference, tolerance};
/// # let text = "%0 = \"hbir.transpose\"(%x) <{perm = [1, 0]}> : (tensor<2x3xf32>) -> tensor<3x2xf32>
/// #     %1 = \"hbir.relu\"(%0) : (tensor<3x2xf32>) -> tensor<3x2xf32>";
/// # let compiler = optc::Compiler::new();
/// # let mut program = compiler.parse("example.ir", text)?;
/// let before = program.module.clone();
/// compiler.compile(&mut program, "canonicalize,view-fold")?;
/// let (after, registry, sizes) = (&program.module, compiler.registry(), Bindings::default());
/// let inputs = random_inputs(&before, "main", Fill::Unique(0), 0, &sizes, registry).expect("small inputs");
/// let func = program.entry().expect("there is one");
/// assert_eq!((argument_keys(func), result_keys(func)), (vec!["x".to_owned()], vec!["result0".to_owned()]));
/// let wanted = run_reference(&before, registry, "main", &inputs, &NoData, &sizes).expect("it runs");
/// let found = run_naive(after, registry, "main", &inputs, &NoData, &sizes).expect("it runs on its layouts");
/// let same: Result<(), Mismatch> = compare(&found["result0"], &wanted["result0"]);
/// assert!(same.is_ok() && tolerance(optc::DType::F32) < 1e-3);
/// compare_exact(&found["result0"], &wanted["result0"]).expect("the program only moves");
/// let mut file = std::io::Cursor::new(Vec::new());
/// npz::write(&mut file, &wanted, npz::Packing::Stored).expect("memory is large enough");
/// assert_eq!(npz::read(file).expect("an archive").len(), 1);
/// let refused: RunError = run_reference(&before, registry, "other", &inputs, &NoData, &sizes).expect_err("no function");
/// println!("{refused}");
/// // The same in one call, on more inputs:
/// let same: Result<(), NotEquivalent> =
///     equivalent(&before, after, registry, &NoData, &NoData, &EquivalenceOptions::default());
/// assert!(same.is_ok());
/// # Ok::<(), optc::Error>(())
/// ```
///
/// The elements of constants in files come from a [`DataSource`](interp::DataSource):
///
/// ```
/// use optc::DType;
/// use optc::interp::{DataSource, FallbackSource, Fill, FolderSource, MemorySource, RandomSource, SplitMix64, random_tensor};
///
/// let mut files = MemorySource::default();
/// files.files.insert("weights.bin".to_owned(), vec![7; 8]);
/// let data = FallbackSource { first: files, second: RandomSource };
/// assert_eq!(data.read("weights.bin", 4, 4, DType::F32).expect("it has 8 bytes"), [7; 4]);
/// assert_eq!(data.read("other.bin", 0, 8, DType::F32).expect("it is made up").len(), 8);
/// assert!(FolderSource::new("no folder").read("weights.bin", 0, 4, DType::F32).is_err());
///
/// let input = random_tensor(DType::F32, vec![2, 3], Fill::Edge, &mut SplitMix64::new(1));
/// assert_eq!(input.len(), 6);
/// ```
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
