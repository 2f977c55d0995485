//! The command line.

use clap::builder::PossibleValue;
use clap::{Args, Parser, Subcommand, ValueEnum};
use optc::exec::Isa;
use optc::layout;
use optc::passes::Hooks;
use std::path::PathBuf;
use std::sync::LazyLock;

/// Makes the reshapes and transposes of a tensor program disappear.
#[derive(Parser, Debug)]
#[command(
    name = "optc",
    version,
    subcommand_negates_reqs = true,
    override_usage = Cli::USAGE,
    after_help = "IN is a file or - for standard input. \
        Exit status: 0 done, 1 the input was refused or a check failed, 2 wrong usage.\n\
        Inputs are at most 2 GiB, from a pipe or a device 512 MiB. An output takes its place whole, \
        after all is read, so that OUT may be IN; a pipe or a device is written to. \
        A write that fails is status 1; a reader that closed standard output early, as head does, is no failure.\n\
        Examples:\n  \
        optc model.onnx -o model.opt.onnx\n  \
        optc --pass=canonicalize,view-fold --target=cpu model.onnx -o folded.ir\n  \
        optc --pass=view-fold --free-boundary --remarks head.ir\n  \
        optc --pass=view-fold --emit=svg model.onnx -o model.svg\n  \
        optc report model.onnx -o report.html\n  \
        optc --pass=view-fold --print-ir-diff --timing head.ir"
)]
pub(crate) struct Cli {
    #[command(subcommand)]
    pub(crate) command: Option<Command>,
    #[command(flatten)]
    pub(crate) rewrite: RewriteArgs,
    /// Log what the compiler does; twice and three times for more (or set OPTC_LOG)
    #[arg(short, long, global = true, action = clap::ArgAction::Count)]
    pub(crate) verbose: u8,
    /// Show no progress on a terminal
    #[arg(short, long, global = true)]
    pub(crate) quiet: bool,
}

impl Cli {
    /// The forms of the command line.
    pub(crate) const USAGE: &str = "optc [OPTIONS] <IN>\n       optc <COMMAND> …";
}

#[derive(Subcommand, Debug)]
pub(crate) enum Command {
    /// Count operations and the bytes they move
    Stats(StatsArgs),
    /// Write a page that shows what passes make of a program, and why bytes still move
    Report(ReportArgs),
    /// One layout at a time: an element's position, a size, another notation, a view, a drawing
    Layout(LayoutArgs),
    /// Run a program on inputs from an .npz file
    Run(RunArgs),
    /// Test that two programs compute the same, or check a certificate
    Verify(VerifyArgs),
    /// Run file tests: files with RUN: and CHECK: headers
    Test(TestArgs),
    /// Run conformance vectors
    Spec(SpecArgs),
    /// List the targets, or explain one
    Targets(TargetsArgs),
    /// Say what a code in a diagnostic means, with an example and what to do about it
    Explain(ExplainArgs),
    /// Time a program in the physical executor, step by step
    Bench(BenchArgs),
    /// Find the smallest program on which a command still fails
    Reduce(ReduceArgs),
    /// Write a script that completes the command line in a shell
    Completions(CompletionsArgs),
}

/// Options for reading an input as a program, and for the passes that run on it.
#[derive(Args, Debug, Default)]
pub(crate) struct CompileArgs {
    /// Passes to run, P{option=value} with options; an empty list runs none
    #[arg(long, value_name = "P[,P…]", overrides_with = "pass")]
    pub(crate) pass: Option<String>,
    /// Name of a target, or the path of its .toml file
    #[arg(long, value_name = "T")]
    pub(crate) target: Option<String>,
    /// Precision of products of f32 on the target: what plans count with and what is written; without it every bit counts
    #[arg(long, value_name = "P", value_parser = optc::Precision::NAMES)]
    pub(crate) precision: Option<String>,
    /// Format of the input, where the extension does not tell it
    #[arg(long, value_name = "FORMAT", value_parser = optc::Format::NAMES)]
    pub(crate) from: Option<String>,
    /// Layout of an argument or result: x='{block = "128W", order = [0, 1]}'
    #[arg(long, value_name = "X={…}")]
    pub(crate) pin: Vec<String>,
    /// Write a result in the memory of an argument: past=present. Of a result that begins with the argument only the rest is written
    #[arg(long, value_name = "X=Y", value_delimiter = ',')]
    pub(crate) alias: Vec<String>,
    /// Arguments and results whose layout may be chosen; all when none is named
    #[arg(
        long,
        value_name = "X,…",
        num_args = 0..=1,
        require_equals = true,
        default_missing_value = "",
        value_delimiter = ','
    )]
    pub(crate) free_boundary: Option<Vec<String>>,
    /// Keep the boundary's layouts also in a file of bare operations
    #[arg(long)]
    pub(crate) pin_boundary: bool,
    /// Numbers for named sizes: those at which costs are compared and, for `run` and `verify`, those of the inputs
    #[arg(long, value_name = "B=1,S=128", value_delimiter = ',')]
    pub(crate) bind: Vec<String>,
    /// Look for external weights in this folder instead of the one of the program
    #[arg(long, value_name = "DIR")]
    pub(crate) data: Option<PathBuf>,
    /// Rewrite rules of view-fold: none, all, or their names
    #[arg(long, value_name = "none|all|a,b")]
    pub(crate) rules: Option<String>,
    /// Bytes that may be alive at once: parts that keep more are copied, and what stays above is refused
    #[arg(long, value_name = "BYTES", value_parser = clap::value_parser!(u64).range(1..))]
    pub(crate) max_live: Option<u64>,
    /// Mesh of devices for the pass shard: names and numbers of devices, and the link of the target after an @
    #[arg(long, value_name = "DATA:4,MODEL:2")]
    pub(crate) mesh: Option<String>,
    /// Sharding of an argument, a result or a location: x='[data, _, model]', one entry a dimension, `?` for any
    #[arg(long, value_name = "X=[…]")]
    pub(crate) shard: Vec<String>,
    /// After every pass also check the memory, and that the target takes the layouts
    #[arg(long)]
    pub(crate) verify_each: bool,
    /// Do not check that every pass leaves a well-formed program
    #[arg(long, conflicts_with = "verify_each")]
    pub(crate) no_verify: bool,
}

impl CompileArgs {
    /// The checks around each pass.
    pub(crate) fn hooks(&self) -> Hooks<'static> {
        Hooks {
            verify_each: self.verify_each,
            unverified: self.no_verify,
            ..Hooks::default()
        }
    }
}

#[derive(Args, Debug)]
pub(crate) struct RewriteArgs {
    /// The program: a file, or - for standard input
    #[arg(value_name = "IN", required_unless_present_any = ["list_passes", "list_rules", "list_ops"])]
    pub(crate) input: Option<PathBuf>,
    #[command(flatten)]
    pub(crate) compile: CompileArgs,
    /// Format of the output
    #[arg(long, value_name = "F", value_enum)]
    pub(crate) emit: Option<Emit>,
    /// Where to write the output; standard output when left out or -
    #[arg(short, long, value_name = "OUT")]
    pub(crate) output: Option<PathBuf>,
    /// Draw the layouts of values in memory, and the elements that a conversion moves, in place of operations (--emit=svg)
    #[arg(long)]
    pub(crate) layouts: bool,
    /// Draw the offsets and live ranges of values in the arena in place of operations (--emit=svg, after plan-memory)
    #[arg(long, conflicts_with = "layouts")]
    pub(crate) arena: bool,
    /// States of the program that a picture shows: before the passes, after them, or both (with passes)
    #[arg(long, value_name = "before|after|both", value_enum)]
    pub(crate) emit_stage: Option<EmitStage>,
    /// Print the program before this pass, or before every one
    #[arg(
        long,
        value_name = "P|all",
        num_args = 0..=1,
        require_equals = true,
        default_missing_value = "all",
        value_delimiter = ','
    )]
    pub(crate) print_ir_before: Vec<String>,
    /// Print the program after this pass, or after every one
    #[arg(long, value_name = "P|all", value_delimiter = ',')]
    pub(crate) print_ir_after: Vec<String>,
    /// Write the input and the program after each pass into this folder, a numbered file each
    #[arg(long, value_name = "DIR")]
    pub(crate) print_ir_dir: Option<PathBuf>,
    /// Print what each pass changed
    #[arg(long)]
    pub(crate) print_ir_diff: bool,
    /// Print how long each pass took
    #[arg(long)]
    pub(crate) timing: bool,
    /// List all passes with their options, and the named pipelines
    #[arg(long)]
    pub(crate) list_passes: bool,
    /// List the rewrite rules of all passes with their equations
    #[arg(long)]
    pub(crate) list_rules: bool,
    /// List all operations with their families, which the rows of targets name
    #[arg(long)]
    pub(crate) list_ops: bool,
    /// Treat the modules between `// -----` one by one; a refused module does not prevent the printing of the others
    #[arg(long)]
    pub(crate) split_input_file: bool,
    /// Compare diagnostics with the `expected-error` comments of the input
    #[arg(long)]
    pub(crate) verify_diagnostics: bool,

    /// True if remarks are read although they are not printed, as in file tests.
    #[arg(skip)]
    pub(crate) explains_remarks: bool,
    /// The name of the program, for reproducers and messages.
    #[arg(skip)]
    pub(crate) program: &'static str,
    /// Say what passes did and could not do
    #[arg(
        long,
        value_name = "text|json",
        value_enum,
        num_args = 0..=1,
        require_equals = true,
        default_missing_value = "text"
    )]
    pub(crate) remarks: Option<RemarkStyle>,
    /// Print the figures of `optc stats`, before and after, to standard error
    #[arg(long)]
    pub(crate) stats: bool,
    /// Before a model is written, run it and the original on seeded inputs and edge values, by the reference interpreter
    #[arg(long)]
    pub(crate) check: bool,
    /// Print a report of a written model as JSON
    #[arg(long)]
    pub(crate) json: bool,
    /// Print the chain of rewrites that led to a value's form, instead of the program; or of all that came from a node,
    /// called by its `loc` name
    #[arg(long, value_name = "%v")]
    pub(crate) explain: Option<String>,
    /// Write the certificate of view-fold
    #[arg(long, value_name = "OUT")]
    pub(crate) certificate: Option<PathBuf>,
    /// Where to write a reproducer, should the compiler fail
    #[arg(long, value_name = "FILE")]
    pub(crate) reproducer: Option<PathBuf>,
}

/// The format of the output.
#[derive(Clone, Copy, PartialEq, Eq, Debug, ValueEnum)]
pub(crate) enum Emit {
    /// optc's own text
    Ir,
    /// The program as JSON, as docs/json.md describes it
    Json,
    /// HLO text with layouts
    Hlo,
    /// MLIR text in upstream's dialects: linalg, tensor, arith
    Linalg,
    /// StableHLO text for JAX; the pipeline then ends with `normalize-layouts`
    #[value(name = "stablehlo")]
    StableHlo,
    /// An ONNX model; the pipeline then ends with `normalize-layouts`
    Onnx,
    /// A Python module: a Pallas kernel for each group of a plan, jnp for the rest
    Pallas,
    /// A Python module on arrays of JAX, with kernels where there is a plan
    Jax,
    /// A Python module: Triton kernels for each group of a plan, torch for the rest
    Triton,
    /// A graph for graphviz
    Dot,
    /// A picture
    Svg,
    /// Graphs for Google's Model Explorer; beside OUT.json, OUT.bytes.json has the bytes as node data
    ModelExplorer,
    /// A picture of layouts, `--emit=svg --layouts`
    #[value(skip)]
    Layouts,
    /// A picture of an arena, `--emit=svg --arena`
    #[value(skip)]
    Arena,
}

impl Emit {
    /// The formats in the spelling of `--emit=`.
    pub(crate) const NAMES: &str =
        "ir, json, hlo, stablehlo, linalg, onnx, pallas, jax, triton, dot, svg and model-explorer";

    /// The format of a file with this extension; `Err` for an extension that no format has.
    pub(crate) fn of_extension(extension: Option<&str>) -> Result<Emit, &str> {
        match extension {
            Some("json") => Ok(Emit::Json),
            Some("hlo") => Ok(Emit::Hlo),
            Some("onnx") => Ok(Emit::Onnx),
            Some("py") => Ok(Emit::Pallas),
            Some("dot" | "gv") => Ok(Emit::Dot),
            Some("svg") => Ok(Emit::Svg),
            Some(other @ ("png" | "pdf")) => Err(other),
            _ => Ok(Emit::Ir),
        }
    }

    /// Returns whether the output is a drawing of the program.
    pub(crate) fn is_picture(self) -> bool {
        match self {
            Emit::Dot | Emit::Svg | Emit::Layouts | Emit::Arena | Emit::ModelExplorer => true,
            Emit::Ir | Emit::Json | Emit::Hlo | Emit::StableHlo => false,
            Emit::Linalg | Emit::Onnx | Emit::Pallas | Emit::Jax | Emit::Triton => false,
        }
    }
}

/// The states of the program that a picture shows.
#[derive(Clone, Copy, PartialEq, Eq, Debug, ValueEnum)]
pub(crate) enum EmitStage {
    /// As it was read
    Before,
    /// As the passes left it
    After,
    /// Both, side by side
    Both,
}

/// The form of remarks.
#[derive(Clone, Copy, PartialEq, Eq, Debug, ValueEnum)]
pub(crate) enum RemarkStyle {
    /// As diagnostics
    Text,
    /// One JSON object a line
    Json,
}

#[derive(Args, Debug)]
#[command(
    after_help = "Examples:\n  optc stats model.onnx\n  optc stats --pass=canonicalize,view-fold --json model.onnx\n  optc stats --pass=view-fold --fail-if='movement_bytes>0' head.ir\n  optc stats --compare before.ir after.ir\n  optc stats --estimate --cast=si8 --pass=canonicalize,view-fold --target=journey6 model.onnx"
)]
pub(crate) struct StatsArgs {
    /// The program: a file, or - for standard input
    #[arg(value_name = "IN", required_unless_present = "compare")]
    pub(crate) input: Option<PathBuf>,
    #[command(flatten)]
    pub(crate) compile: CompileArgs,
    /// Print JSON
    #[arg(long)]
    pub(crate) json: bool,
    /// Fail if this holds: movement_bytes>0, transpose!=0, before.reshape<2; several by commas
    #[arg(long, value_name = "COND", value_delimiter = ',')]
    pub(crate) fail_if: Vec<String>,
    /// Compare two programs: their figures, what is alive at most, and the operations that make the difference
    #[arg(long, value_names = ["A", "B"], num_args = 2, conflicts_with_all = ["input", "pass"])]
    pub(crate) compare: Option<Vec<PathBuf>>,
    /// Number of operations to list, those that differ most first (default 20)
    #[arg(long, value_name = "N", conflicts_with = "input")]
    pub(crate) top: Option<usize>,
    /// Model the time on the target by a roofline; nothing is measured
    #[arg(long, conflicts_with = "compare")]
    pub(crate) estimate: bool,
    /// Price floats as this element type in the estimate; the program stays
    #[arg(long, value_name = "TYPE", requires = "estimate")]
    pub(crate) cast: Option<String>,
    /// Estimate with units from a quarter to four times as fast, and say where this gain is crossed
    #[arg(
        long,
        value_name = "GAIN",
        num_args = 0..=1,
        require_equals = true,
        default_missing_value = "1.4",
        requires = "estimate"
    )]
    pub(crate) sweep: Option<String>,
}

#[derive(Args, Debug)]
#[command(
    after_help = "The pipeline is `default` without --pass.\n\nExamples:\n  optc report model.onnx -o report.html\n  optc report --target=tpu --free-boundary model.onnx -o report.html"
)]
pub(crate) struct ReportArgs {
    /// The program: a file, or - for standard input
    #[arg(value_name = "IN")]
    pub(crate) input: PathBuf,
    #[command(flatten)]
    pub(crate) compile: CompileArgs,
    /// The file of the page; standard output when left out or -
    #[arg(short, long, value_name = "OUT.html")]
    pub(crate) output: Option<PathBuf>,
}

#[derive(Args, Debug)]
#[command(
    after_help = "Examples:\n  optc layout index 'f32[3,5]{1,0:T(2,2)}' 2,3\n  optc layout view 'tensor<128x128xsi8>' 'tensor<4x32x128xsi8>'\n  optc layout view --deduce 'f32[4,6]{1,0}' 'f32[6,4]{0,1}'\n  optc layout draw 'f32[3,5]{1,0:T(2,2)}' --axes=xla -o tiles.svg\n  optc layout compose '(6,2):(8,2)' '(4,3):(3,1)'"
)]
pub(crate) struct LayoutArgs {
    #[command(subcommand)]
    pub(crate) command: LayoutCommand,
}

#[derive(Subcommand, Debug)]
pub(crate) enum LayoutCommand {
    /// The position of one element in the buffer, in elements
    Index {
        /// tensor<4x8xsi8, {block = "2W2H", order = [1, 0]}>
        tensor: String,
        /// The logical index: 2,3 (left out for a tensor of rank 0)
        #[arg(default_value = "", allow_hyphen_values = true)]
        index: String,
    },
    /// The size of the buffer in bytes, padding included
    Size {
        /// tensor<4x8xsi8, {block = "2W2H", order = [1, 0]}>
        tensor: String,
    },
    /// The same function in another notation
    Convert {
        /// The notation
        #[arg(long, value_enum)]
        to: Notation,
        /// tensor<4x8xsi8, {block = "2W2H", order = [1, 0]}>
        tensor: String,
    },
    /// Whether a reshape and a transpose between two layouts move nothing
    View {
        /// The operand
        input: String,
        /// The result
        output: String,
        /// The shape the operand is first reshaped to; its own when left out
        #[arg(long, value_name = "N,…")]
        shape: Option<String>,
        /// perm[i] is the input axis of output axis i; the identity when left out
        #[arg(long, value_name = "N,…")]
        perm: Option<String>,
        /// Find the chain of transposes and reshapes for which it is a view
        #[arg(long, conflicts_with_all = ["shape", "perm"])]
        deduce: bool,
    },
    /// The layout as pad, reshape and transpose, in words and as a program
    Explain {
        /// tensor<4x8xsi8, {block = "2W2H", order = [1, 0]}>
        tensor: String,
    },
    /// One layout after another, in CuTe's algebra: the number k goes to OUTER(INNER(k))
    Compose {
        /// (6,2):(8,2), or a tensor without padding
        outer: String,
        /// (4,3):(3,1), or a tensor without padding
        inner: String,
    },
    /// The layout that gives back the number from its value, in CuTe's algebra
    Inverse {
        /// (4,8):(8,1), or a tensor without padding
        layout: String,
        /// The longest layout R with LAYOUT(R(k)) = k; else the L with L(LAYOUT(k)) = k
        #[arg(long)]
        right: bool,
    },
    /// The layout that takes what another leaves out, in CuTe's algebra
    Complement {
        /// (4,2):(1,16), or a tensor without padding
        layout: String,
        /// Numbers below this are taken; what LAYOUT reaches when left out
        #[arg(long, value_name = "N")]
        below: Option<u64>,
    },
    /// Every cell with its linear index, padding hatched, tiles outlined
    Draw {
        /// tensor<4x8xsi8, {block = "2W2H", order = [1, 0]}>
        tensor: String,
        /// Where to write an SVG file, or - for standard output; a drawing of text when left out
        #[arg(short, long, value_name = "OUT")]
        output: Option<PathBuf>,
        /// Names of the dimensions: own, xla, or one letter a dimension
        #[arg(long, value_name = "NAMES", default_value = "own")]
        axes: String,
        /// Colours in the drawing of text; NO_COLOR turns auto off
        #[arg(long, value_enum, default_value = "auto")]
        color: Color,
    },
    /// Time the queries of a layout on this machine, or a conversion to another layout
    Bench {
        /// tensor<4x8xsi8, {block = "2W2H", order = [1, 0]}>
        tensor: String,
        /// The same tensor in the layout to convert it to
        target: Option<String>,
        /// Threads that convert
        #[arg(long, value_name = "N", default_value_t = 1)]
        threads: usize,
        #[command(flatten)]
        instructions: Instructions,
    },
}

/// The condition under which text is coloured.
#[derive(Clone, Copy, PartialEq, Eq, Debug, ValueEnum)]
pub(crate) enum Color {
    /// On a terminal
    Auto,
    /// Always
    Always,
    /// Never
    Never,
}

/// A notation of layouts.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Notation {
    /// One that a tensor type has as its encoding.
    Encoding(layout::NotationKind),
    /// CuTe's.
    Cute,
}

/// All notations, in the order of the help.
static NOTATIONS: LazyLock<Vec<Notation>> = LazyLock::new(|| {
    let encodings = layout::NotationKind::ALL.iter().copied();
    let encodings = encodings.map(Notation::Encoding);
    encodings.chain([Notation::Cute]).collect()
});

impl ValueEnum for Notation {
    fn value_variants<'a>() -> &'a [Self] {
        &NOTATIONS
    }

    fn to_possible_value(&self) -> Option<PossibleValue> {
        let (name, summary) = match self {
            Notation::Encoding(notation) => (notation.name(), notation.summary()),
            Notation::Cute => ("cute", "CuTe's shape:stride, nested modes; no padding"),
        };
        Some(PossibleValue::new(name).help(summary))
    }
}

#[derive(Args, Debug)]
#[command(
    after_help = "Examples:\n  optc run model.onnx --inputs a.npz --output b.npz\n  optc run --pass=view-fold --exec=naive head.ir --inputs a.npz --output b.npz"
)]
pub(crate) struct RunArgs {
    /// The program: a file, or - for standard input
    #[arg(value_name = "IN")]
    pub(crate) input: PathBuf,
    #[command(flatten)]
    pub(crate) compile: CompileArgs,
    /// The arguments, by name
    #[arg(long, value_name = "A.npz")]
    pub(crate) inputs: Option<PathBuf>,
    /// Where to write the results, by name
    #[arg(long, value_name = "B.npz")]
    pub(crate) output: PathBuf,
    /// How to run it
    #[arg(long, value_enum, default_value = "reference")]
    pub(crate) exec: Exec,
    /// The most memory that --exec=physical may take, in bytes
    #[arg(long, value_name = "BYTES")]
    pub(crate) memory_limit: Option<u64>,
    /// With --exec=physical, run the groups of a plan of tiles (`tile-propagate`) tile by tile, not operation by operation
    #[arg(long)]
    pub(crate) tiles: bool,
    /// The threads of --exec=physical; results are the same for any number
    #[arg(long, value_name = "N", default_value_t = 1, value_parser = clap::value_parser!(u16).range(1..=1024))]
    pub(crate) threads: u16,
    #[command(flatten)]
    pub(crate) instructions: Instructions,
    /// The function; main, or the first one, when left out
    #[arg(long, value_name = "NAME")]
    pub(crate) func: Option<String>,
}

/// The instruction set of the physical executor.
#[derive(Args, Clone, Copy, Debug)]
pub(crate) struct Instructions {
    /// The instruction set of the physical executor: portable, avx2 or avx512. The variable OPTC_ISA names one too; without
    /// both, the greatest of this machine
    #[arg(long, value_name = "SET")]
    pub(crate) isa: Option<Isa>,
}

/// The way in which a program is run.
#[derive(Clone, Copy, PartialEq, Eq, Debug, ValueEnum)]
pub(crate) enum Exec {
    /// On logical tensors
    Reference,
    /// On flat poisoned buffers, addressed by the layouts
    Naive,
    /// Program by program, as the plan of tiles says
    Tiled,
    /// In real buffers, strided, tiled and padded as the layouts say; the pipeline then ends with bufferize,plan-memory
    Physical,
}

#[derive(Args, Debug)]
#[command(
    after_help = "An opaque operation without effects (effect = \"pure\") is a function that nobody knows: \
        it gives equal results for equal operands.\n\n\
        Examples:\n  optc verify model.onnx folded.ir\n  optc verify --seeds=8 a.ir b.ir\n  optc verify --certificate fold.cert canonical.ir"
)]
pub(crate) struct VerifyArgs {
    /// The two programs; with --certificate one: the program the certificate is about
    #[arg(value_name = "IN", num_args = 1..=2, required = true)]
    pub(crate) inputs: Vec<PathBuf>,
    /// Check this certificate instead of testing
    #[arg(long, value_name = "C")]
    pub(crate) certificate: Option<PathBuf>,
    #[command(flatten)]
    pub(crate) options: VerifyOptions,
}

#[derive(Args, Debug)]
pub(crate) struct VerifyOptions {
    /// How many random inputs to test on, besides edge values
    #[arg(long, value_name = "N", default_value_t = 2)]
    pub(crate) seeds: u64,
    /// Run on logical tensors alone, not also on the layouts
    #[arg(long)]
    pub(crate) reference_only: bool,
    /// Look for external weights in this folder instead of the one of the program
    #[arg(long, value_name = "DIR")]
    pub(crate) data: Option<PathBuf>,
    /// Invent the numbers of weights whose files are absent
    #[arg(long)]
    pub(crate) random_weights: bool,
    /// Sizes of symbols; small ones, another for each, are chosen for what is left out
    #[arg(long, value_name = "B=1,S=128", value_delimiter = ',')]
    pub(crate) bind: Vec<String>,
    /// Format of the inputs, where the extension does not tell it
    #[arg(long, value_name = "FORMAT", value_parser = optc::Format::NAMES)]
    pub(crate) from: Option<String>,
    /// Name of a target, or the path of its .toml file (for --certificate)
    #[arg(long, value_name = "T")]
    pub(crate) target: Option<String>,
    /// The function; main when left out
    #[arg(long, value_name = "NAME")]
    pub(crate) func: Option<String>,
}

#[derive(Args, Debug)]
#[command(
    after_help = "Examples:\n  optc test mycases/\n  optc test --bless mycases/\n  optc test --show mycases/one.ir"
)]
pub(crate) struct TestArgs {
    /// Files, or folders that are searched for files with a RUN: header
    #[arg(value_name = "PATH", required = true)]
    pub(crate) paths: Vec<PathBuf>,
    /// Print the difference each test's passes make
    #[arg(long)]
    pub(crate) show: bool,
    /// Write the result of each test into `snapshots` beside it; from then on tests there must have the same results
    #[arg(long)]
    pub(crate) bless: bool,
}

#[derive(Args, Debug)]
#[command(after_help = "Examples:\n  optc spec spec/vectors/*.json")]
pub(crate) struct SpecArgs {
    /// Files of vectors
    #[arg(value_name = "FILE.json", required = true)]
    pub(crate) files: Vec<PathBuf>,
}

#[derive(Args, Debug)]
#[command(
    after_help = "Examples:\n  optc targets\n  optc targets journey6\n  optc targets cpu --toml > mine.toml"
)]
pub(crate) struct TargetsArgs {
    /// Name of a target, or the path of its .toml file
    #[arg(value_name = "NAME")]
    pub(crate) target: Option<String>,
    /// Print the target's file, to be changed and read with --target
    #[arg(long, requires = "target")]
    pub(crate) toml: bool,
}

#[derive(Args, Debug)]
#[command(after_help = "Examples:\n  optc explain reshape-volume-mismatch")]
pub(crate) struct ExplainArgs {
    /// The code, as it stands in brackets after error, warning or remark
    pub(crate) code: String,
}

#[derive(Args, Debug)]
#[command(
    after_help = "The program runs on one thread, in the executor of `optc run --exec=physical`; inputs, and weights that are not there, are random.\n\n\
        Examples:\n  optc bench --pass=canonicalize,view-fold model.onnx\n  optc bench --pass=canonicalize,view-fold --vs before --trace trace.json model.onnx"
)]
pub(crate) struct BenchArgs {
    /// The program: a file, or - for standard input
    #[arg(value_name = "IN", required_unless_present = "calibrate")]
    pub(crate) input: Option<PathBuf>,
    #[command(flatten)]
    pub(crate) compile: CompileArgs,
    /// Inputs from an .npz file; random ones when left out
    #[arg(long, value_name = "A.npz")]
    pub(crate) inputs: Option<PathBuf>,
    /// A program to time besides: the program without its passes, the program untiled (and itself with --tiles), or the reference interpreter
    #[arg(long, value_name = "before|untiled|reference", value_enum)]
    pub(crate) vs: Option<Versus>,
    /// Measure what the orders that `cpu` calls free cost its kernels, and write its rows with that
    #[arg(long, value_name = "OUT.toml", conflicts_with = "input")]
    pub(crate) calibrate: Option<PathBuf>,
    /// Runs of each program
    #[arg(long, value_name = "N", default_value_t = 5, value_parser = clap::value_parser!(u32).range(1..=10_000))]
    pub(crate) runs: u32,
    /// Write the steps of the fastest run as a trace that Chrome and Perfetto show
    #[arg(long, value_name = "OUT.json")]
    pub(crate) trace: Option<PathBuf>,
    /// The function; main, or the first one, when left out
    #[arg(long, value_name = "NAME")]
    pub(crate) func: Option<String>,
    /// The most memory that the program may take, in bytes
    #[arg(long, value_name = "BYTES")]
    pub(crate) memory_limit: Option<u64>,
    /// Run the groups of a plan of tiles (`tile-propagate`) tile by tile, not operation by operation
    #[arg(long)]
    pub(crate) tiles: bool,
    /// The threads that share the work of a step
    #[arg(long, value_name = "N", default_value_t = 1, value_parser = clap::value_parser!(u16).range(1..=1024))]
    pub(crate) threads: u16,
    #[command(flatten)]
    pub(crate) instructions: Instructions,
}

/// A program to compare times with.
#[derive(Clone, Copy, PartialEq, Eq, Debug, ValueEnum)]
pub(crate) enum Versus {
    /// The same program without its passes
    Before,
    /// The same program, its groups operation by operation
    Untiled,
    /// The reference interpreter
    Reference,
}

#[derive(Args, Debug)]
#[command(
    after_help = "Examples:\n  optc reduce --test='optc --pass=view-fold --target=tpu' crash.ir -o small.ir\n  optc reduce --test='python check.py %s' --says=differs model.onnx -o small.onnx"
)]
pub(crate) struct ReduceArgs {
    /// The command: %s is the file of the program, which otherwise is the last argument; it fails with another exit status than 0
    #[arg(long, value_name = "CMD")]
    pub(crate) test: String,
    /// A text that the command must print when it fails
    #[arg(long, value_name = "TEXT")]
    pub(crate) says: Option<String>,
    /// The program: a file, or - for standard input
    #[arg(value_name = "IN")]
    pub(crate) input: PathBuf,
    /// The file for the smallest program; its extension is the format that the command reads
    #[arg(short, long, value_name = "OUT")]
    pub(crate) output: PathBuf,
    /// Format of the input, where the extension does not tell it
    #[arg(long, value_name = "FORMAT", value_parser = optc::Format::NAMES)]
    pub(crate) from: Option<String>,
}

#[derive(Args, Debug)]
#[command(after_help = "Examples:\n  \
        optc completions bash > ~/.local/share/bash-completion/completions/optc\n  \
        optc completions zsh > ~/.zfunc/_optc")]
pub(crate) struct CompletionsArgs {
    /// The shell
    pub(crate) shell: clap_complete::Shell,
}
