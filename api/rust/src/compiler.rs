//! Settings that compilations share, and the steps from an input to a folded program.

use crate::error::Error;
use crate::format::Format;
use crate::input::read_file;
use crate::program::{self, Program};
use crate::target::{self, Added};
use indexmap::IndexMap;
use optc_check::stats::Stats;
#[cfg(feature = "emit")]
use optc_emit::{OutputFormat, WriteOp};
#[cfg(feature = "emit")]
use optc_ir::Operation;
use optc_ir::size::SizeTable;
use optc_ir::{Bindings, Diagnostic, Module, Registry, compared_sizes};
use optc_passes::manager::{Hooks, Timing};
use optc_passes::shard::Wishes;
use optc_passes::{Boundary, PassContext, PassList, Reports, Stage};
use optc_target::{Precision, Target};
#[cfg(feature = "onnx")]
use std::collections::BTreeSet;
use std::path::Path;
use std::sync::Arc;

/// Settings that compilations share: operations, passes, rules, target, boundary.
///
/// ```
/// use optc::{Bindings, Boundary, Compiler, Precision};
/// use std::sync::Arc;
///
/// let mut compiler = Compiler::new();
/// compiler.target = Some(Arc::new(optc::find_target("onnxruntime")?));
/// compiler.precision = Some(Precision::Ieee);
/// compiler.boundary = Boundary { free_all: true, ..Boundary::default() };
/// compiler.bindings = Bindings([("batch".into(), 8)].into_iter().collect());
/// let text = "%0 = \"hbir.transpose\"(%x) <{perm = [1, 0]}> : (tensor<?x3xf32>) -> tensor<3x?xf32>";
/// let answer = compiler.fold(&compiler.parse("example.ir", text)?)?;
/// assert_eq!(answer.stats().movement_bytes, 0);
/// # Ok::<(), optc::Error>(())
/// ```
#[derive(Clone, Debug)]
pub struct Compiler {
    registry: Arc<Registry>,
    passes: PassList,
    targets: Vec<Added>,
    /// The target; `None` leaves the choice to [`Compiler::default_target`].
    pub target: Option<Arc<Target>>,
    /// The precision of products of f32; `None` leaves it to the target's own, which is that of IEEE 754. It decides
    /// the rates of plans and estimates, and what is written for a machine. The interpreter and the executor compute as
    /// before.
    pub precision: Option<Precision>,
    /// The arguments and results that may change their layouts.
    pub boundary: Boundary,
    /// The mesh of devices and the shardings for the pass `shard`.
    pub shard: Wishes,
    /// The sizes of symbols at which costs are compared; the default is 128.
    pub bindings: Bindings,
    /// True if remarks name the options that were tried, which takes several more searches.
    pub explain_remarks: bool,
    /// The operators of ONNX models that stay whole although operations could replace them.
    #[cfg(feature = "onnx")]
    pub whole_operators: optc_onnx::Whole,
    /// The nodes of ONNX models that stay unchanged, by name, or by the name of the first output for a node without a
    /// name.
    #[cfg(feature = "onnx")]
    pub held_nodes: BTreeSet<Arc<str>>,
}

/// The results of running a pipeline, beside the program.
///
/// ```
/// use optc::{FoldReport, MemoryUse, Report, Reports, bound_sizes};
///
/// let compiler = optc::Compiler::new();
/// let text = "%0 = \"hbir.relu\"(%x) : (tensor<?xf32>) -> tensor<?xf32>";
/// let mut program = compiler.parse("example.ir", text)?;
/// assert_eq!(optc::default_target(&program)?.name, compiler.default_target(&program)?.name);
/// let Report { timings, reports, .. } = compiler.compile(&mut program, "view-fold,bufferize,plan-memory")?;
/// assert_eq!(timings[0].pass, "view-fold");
/// let reports: Reports = reports;
/// assert_eq!(reports.get::<FoldReport>().expect("it ran").bytes_after, 0);
/// let sizes = optc::SizeTable::new(&compiler.bindings.0);
/// assert_eq!(bound_sizes(&program.module, &sizes).into_values().collect::<Vec<_>>(), [128]);
/// let memory = MemoryUse::of(&program.module, compiler.registry());
/// println!("{memory:?}");
/// # Ok::<(), optc::Error>(())
/// ```
#[derive(Clone, Debug)]
pub struct Report {
    /// One entry per pass, in order.
    pub timings: Vec<Timing>,
    /// Remarks about changes that the passes made or could not make.
    pub remarks: Vec<Diagnostic>,
    /// The reports of the passes, each in a type of its own: [`crate::FoldReport`] is that of `view-fold`.
    pub reports: Reports,
}

impl Default for Compiler {
    fn default() -> Self {
        Self::new()
    }
}

impl Compiler {
    /// A compiler with the `hbir` dialect, the built-in passes and default settings.
    #[must_use]
    pub fn new() -> Compiler {
        let registry = optc_ops::registry();
        #[cfg(all(feature = "onnx", feature = "interp"))]
        let registry = {
            let mut registry = registry;
            registry.extend(|all: &mut optc_interp::Messages| all.0.push(optc_onnx::nameless));
            registry
        };
        Compiler {
            registry: Arc::new(registry),
            passes: PassList::builtin(),
            targets: Vec::new(),
            target: None,
            precision: None,
            boundary: Boundary::default(),
            shard: Wishes::default(),
            bindings: Bindings::default(),
            explain_remarks: false,
            #[cfg(feature = "onnx")]
            whole_operators: optc_onnx::Whole::None,
            #[cfg(feature = "onnx")]
            held_nodes: BTreeSet::new(),
        }
    }

    /// The known operations.
    #[must_use]
    pub fn registry(&self) -> &Arc<Registry> {
        &self.registry
    }

    /// The known operations, to be extended.
    pub fn registry_mut(&mut self) -> &mut Registry {
        Arc::make_mut(&mut self.registry)
    }

    /// Sets how a format writes an operation: as operations that the format has. An operation with an expression or a
    /// composition needs no writer, since every format writes these.
    ///
    /// The operations of a writer are checked. An error of [`onnx::emit`](crate::onnx::emit) and the other emitters names the
    /// operation and its place: that of the writer, of the first operation that is not well formed, or
    /// `writer-result` if number or types of the results differ.
    ///
    /// ```
    /// use optc::ops::{Atan2, Opaque};
    /// use optc::{Attr, Compiler, FuncBuilder, OpError, OpRef, OutputFormat, Value};
    ///
    /// /// A node of an own domain, whose operators the runtime registers.
    /// fn in_onnx(op: &OpRef<'_>, operands: &[Value], b: &mut FuncBuilder<'_>) -> Result<Vec<Value>, OpError> {
    ///     let types = op.results.iter().map(|&ty| ty.clone()).collect();
    ///     let mut node = Opaque::foreign("com.acme", "Atan2", operands, types);
    ///     node.props.set("onnx.fast", Attr::int(1));
    ///     b.add(node)
    /// }
    ///
    /// let mut compiler = Compiler::new();
    /// compiler.write_in::<Atan2>(OutputFormat::Onnx, in_onnx);
    /// let text = r#"%0 = "hbir.atan2"(%y, %x) : (tensor<2xf32>, tensor<2xf32>) -> tensor<2xf32>"#;
    /// let program = compiler.parse("example.ir", text)?;
    /// let no_files = |_: &str, _, _, _| Err("there are no files".to_owned());
    /// let options = optc::onnx::Options::default();
    /// let model = optc::onnx::emit(&program.module, compiler.registry(), options, &no_files).unwrap();
    /// assert!(model.bytes.windows(8).any(|bytes| bytes == b"com.acme"));
    /// # Ok::<(), optc::Error>(())
    /// ```
    #[cfg(feature = "emit")]
    pub fn write_in<T: Operation>(&mut self, format: OutputFormat, writer: impl WriteOp + 'static) {
        optc_emit::write_in::<T>(self.registry_mut(), format, writer);
    }

    /// The known passes.
    #[must_use]
    pub fn passes(&self) -> &PassList {
        &self.passes
    }

    /// The known passes, to be extended or changed: `passes_mut().get_mut::<Canonicalize>()` has the rules of
    /// `canonicalize`.
    pub fn passes_mut(&mut self) -> &mut PassList {
        &mut self.passes
    }

    /// Adds a target by the text of its file, which has its name. The rows may name the families of this compiler's
    /// operations, so that operations are added first.
    ///
    /// # Errors
    /// The text is refused, or there is a target of this name.
    pub fn add_target(&mut self, text: &str) -> Result<(), Error> {
        let added = target::added(text, &self.registry, &self.targets)?;
        self.targets.push(added);
        Ok(())
    }

    /// Requests that a result is written in the memory of an argument; see [`Boundary::aliases`]. Both are named as in
    /// files of inputs and results.
    ///
    /// ```
    /// let mut compiler = optc::Compiler::new();
    /// compiler.target = Some(std::sync::Arc::new(optc::find_target("cpu")?));
    /// compiler.alias("past", "result0");
    /// let text = "func.func @main(%past: tensor<8x4xf32>, %new: tensor<1x4xf32>) -> tensor<9x4xf32> {
    ///   %0 = \"hbir.concat\"(%past, %new) <{axis = 0}> : (tensor<8x4xf32>, tensor<1x4xf32>) -> tensor<9x4xf32>
    ///   return %0 : tensor<9x4xf32>
    /// }";
    /// let mut program = compiler.parse("grow.ir", text)?;
    /// compiler.compile(&mut program, "view-fold")?;
    /// assert!(optc::text::print(&program.module).contains("in_place = [0]"));
    /// # Ok::<(), optc::Error>(())
    /// ```
    pub fn alias(&mut self, argument: &str, result: &str) {
        let pair = (argument.to_owned(), result.to_owned());
        self.boundary.aliases.push(pair);
    }

    /// The names of the built-in targets, then those of the added ones in order.
    #[must_use]
    pub fn target_names(&self) -> Vec<&str> {
        target::names(&self.targets)
    }

    /// The file of a built-in or added target, with its name and generation; `None` if there is no target of this name.
    #[must_use]
    pub fn target_file(&self, name: &str) -> Option<String> {
        target::file_of(name, &self.targets)
    }

    /// The target with this name, or the one in this file. Its rows may name the families of this compiler's
    /// operations.
    ///
    /// # Errors
    /// As for [`find_target`](crate::find_target).
    pub fn find_target(&self, name: &str) -> Result<Target, Error> {
        target::find_with(name, &self.registry, &self.targets)
    }

    /// The default target of a program, as [`default_target`](crate::default_target) gives it; `hbir.target` may name an
    /// added one.
    ///
    /// # Errors
    /// The program names a target that does not exist.
    pub fn default_target(&self, program: &Program) -> Result<Target, Error> {
        target::default_with(program, &self.targets)
    }

    /// Reads and verifies a file. Its format is that of its extension, unless `from` gives one.
    ///
    /// # Errors
    /// The file cannot be read, or its contents are refused.
    pub fn load(&self, path: &Path, from: Option<Format>) -> Result<Program, Error> {
        let bytes = read_file(path)?;
        let mut read = self.read(&path.display().to_string(), &bytes, from, false);
        let mut program = read.remove(0)?;
        program.folder = path.parent().map(Path::to_path_buf).unwrap_or_default();
        Ok(program)
    }

    /// Reads and verifies a text in optc's own format; `name` is its name in messages.
    ///
    /// # Errors
    /// The text is refused.
    pub fn parse(&self, name: &str, text: &str) -> Result<Program, Error> {
        let program = self.read_unverified(name, text.as_bytes(), Some(Format::Ir), false);
        self.verified(program).remove(0)
    }

    /// Reads and verifies an input that is already in memory: one program, or with `split` one for each module between
    /// `// -----`. The list is never empty.
    pub fn read(
        &self,
        name: &str,
        bytes: &[u8],
        from: Option<Format>,
        split: bool,
    ) -> Vec<Result<Program, Error>> {
        self.verified(self.read_unverified(name, bytes, from, split))
    }

    /// Reads and verifies one program that is in no file. An ONNX model keeps its bytes, from which the elements of its
    /// constants are read, and is called `NAME.onnx`.
    ///
    /// ```
    /// let bytes = b"%0 = \"hbir.relu\"(%x) : (tensor<2xf32>) -> tensor<2xf32>";
    /// let program = optc::Compiler::new().read_memory("<bytes>", std::sync::Arc::from(&bytes[..]), None)?;
    /// assert_eq!((program.format, &*program.name), (optc::Format::Ir, "<bytes>"));
    /// # Ok::<(), optc::Error>(())
    /// ```
    ///
    /// # Errors
    /// The contents are refused.
    pub fn read_memory(
        &self,
        name: &str,
        bytes: Arc<[u8]>,
        from: Option<Format>,
    ) -> Result<Program, Error> {
        let format = from.map_or_else(|| Format::detect(name, &bytes), Ok);
        let format = format.map_err(|diag| Error::about(name, *diag))?;
        let is_model = format == Format::Onnx;
        let name = match is_model && Format::of_extension(name) != Some(format) {
            true => format!("{name}.onnx"),
            false => name.to_owned(),
        };
        let mut program = self.read(&name, &bytes, Some(format), false).remove(0)?;
        program.kept = is_model.then_some(bytes);
        Ok(program)
    }

    /// Reads one input without verifying it; with `split`, the modules between `// -----` separately.
    fn read_unverified(
        &self,
        name: &str,
        bytes: &[u8],
        from: Option<Format>,
        split: bool,
    ) -> Vec<Result<Program, Error>> {
        match from.map_or_else(|| Format::detect(name, bytes), Ok) {
            Err(diag) => vec![Err(Error::about(name, *diag))],
            Ok(Format::Ir) => program::read_text(name, bytes, split),
            #[cfg(feature = "hlo")]
            Ok(Format::Hlo) => vec![program::read_hlo(name, bytes)],
            #[cfg(feature = "onnx")]
            Ok(Format::Onnx) => {
                let options = optc_onnx::Options {
                    name: None,
                    whole: self.whole_operators,
                    held: self.held_nodes.clone(),
                };
                vec![program::read_onnx(name, bytes, options)]
            }
            #[cfg(feature = "stablehlo")]
            Ok(Format::StableHlo) => vec![program::read_stablehlo(name, bytes)],
            #[cfg(feature = "linalg")]
            Ok(Format::Linalg) => vec![program::read_linalg(name, bytes)],
            #[cfg(not(all(
                feature = "hlo",
                feature = "linalg",
                feature = "onnx",
                feature = "stablehlo"
            )))]
            Ok(format) => vec![Err(program::without_front_end(name, format))],
        }
    }

    fn verified(&self, programs: Vec<Result<Program, Error>>) -> Vec<Result<Program, Error>> {
        let check = |program: Result<Program, Error>| {
            let program = program?;
            self.verify(&program)?;
            Ok(program)
        };
        programs.into_iter().map(check).collect()
    }

    /// A program from a module that was built; `name` is its name in messages.
    ///
    /// # Errors
    /// The module does not verify.
    pub fn program(&self, name: &str, module: Module) -> Result<Program, Error> {
        let program = Program::built(name, module);
        self.verify(&program)?;
        Ok(program)
    }

    /// Checks that a program is well formed. If a target chose its layouts (`hbir.target`), that target must accept
    /// them. If its memory is planned, no values that are needed at the same time may share bytes. A target that is
    /// neither built in nor this compiler's is unknown here, and is not checked.
    ///
    /// # Errors
    /// All defects of the program.
    pub fn verify(&self, program: &Program) -> Result<(), Error> {
        let module = &program.module;
        optc_ir::verify::verify(module, &self.registry).map_err(|d| program.error(d))?;
        let diags = optc_check::check_memory(module, &self.registry);
        if !diags.is_empty() {
            return Err(program.error(diags));
        }
        let Some(target) = self.target_of(module) else {
            return Ok(());
        };
        let diags = optc_check::check_target(module, &self.registry, &target);
        if diags.is_empty() {
            Ok(())
        } else {
            Err(program.error(diags))
        }
    }

    /// The target that chose a module's layouts, if it is known here.
    #[must_use]
    pub fn target_of(&self, module: &Module) -> Option<Arc<Target>> {
        let name = module.attrs.str("hbir.target")?;
        match &self.target {
            Some(own) if own.name == name => Some(own.clone()),
            _ => target::named(name, &self.targets).ok().map(Arc::new),
        }
    }

    /// Reads a pipeline, `canonicalize,view-fold{max-layouts=8}`.
    ///
    /// # Errors
    /// It names a pass or option that does not exist.
    pub fn pipeline(&self, text: &str) -> Result<Vec<Stage>, Error> {
        self.passes
            .parse(text)
            .map_err(|d| Error::about("--pass", *d))
    }

    /// The context of the passes for this program.
    ///
    /// # Errors
    /// The program names a target that does not exist, and no other is given; or the target has no products of
    /// f32 at [`Compiler::precision`].
    pub fn context(&self, program: &Program) -> Result<PassContext, Error> {
        let target = match &self.target {
            Some(target) => target.clone(),
            None => Arc::new(self.default_target(program)?),
        };
        let target = match self.precision {
            None => target,
            Some(precision) => Arc::new(target::at_precision(&target, precision)?),
        };
        let mut cx = PassContext::new(self.registry.clone(), target);
        cx.boundary = self.boundary.clone();
        cx.shard = self.shard.clone();
        cx.bindings = self.compared(&program.module);
        cx.explain_remarks = self.explain_remarks;
        Ok(cx)
    }

    /// Runs a pipeline on a program. The program stays unchanged if a pass refuses it.
    ///
    /// # Errors
    /// A name in the pipeline is unknown, a pass refuses the program, the result is not well formed.
    pub fn compile(&self, program: &mut Program, pipeline: &str) -> Result<Report, Error> {
        let stages = self.pipeline(pipeline)?;
        let mut cx = self.context(program)?;
        let timings = self.run_passes(program, &stages, &mut cx, &mut Hooks::default())?;
        Ok(Report {
            timings,
            remarks: cx.remarks,
            reports: cx.reports,
        })
    }

    /// Names sizes without a name if a value has two of them, since reshapes in a program without layouts could not
    /// distinguish them. Run before passes that end with `normalize-layouts`.
    pub fn name_sizes(&self, program: &mut Program) {
        optc_ir::name_arguments(&mut program.module, &self.registry);
    }

    /// Runs passes on a program in a context of its own, with hooks around each pass. The program stays unchanged if a
    /// pass refuses it.
    ///
    /// # Errors
    /// A pass refuses the program, or leaves it not well formed.
    pub fn run_passes(
        &self,
        program: &mut Program,
        stages: &[Stage],
        cx: &mut PassContext,
        hooks: &mut Hooks<'_>,
    ) -> Result<Vec<Timing>, Error> {
        let mut module = program.module.clone();
        let timings = optc_passes::manager::run(&mut module, stages, cx, hooks)
            .map_err(|diags| program.error(diags))?;
        program.module = module;
        Ok(timings)
    }

    /// The sizes at which the costs of a program, and of what passes make of it, are compared: the bound ones, and
    /// numbers for other names that make no dimension empty.
    ///
    /// ```
    /// let compiler = optc::Compiler::new();
    /// let text = "%0 = \"hbir.slice\"(%x) <{starts = [0], limits = [\"N//160\"]}> : \
    ///     (tensor<?xf32, {dims = [\"N\"]}>) -> tensor<?xf32, {dims = [\"N//160\"]}>";
    /// let program = compiler.parse("example.ir", text)?;
    /// assert_eq!(compiler.sizes(&program).get("N"), 320);
    /// # Ok::<(), optc::Error>(())
    /// ```
    #[must_use]
    pub fn sizes(&self, program: &Program) -> SizeTable {
        self.sizes_of(&program.module)
    }

    fn compared(&self, module: &Module) -> IndexMap<Arc<str>, u64> {
        compared_sizes(module, &self.registry, &self.bindings.0)
    }

    /// The figures of a program, at its [sizes](Compiler::sizes).
    #[must_use]
    pub fn stats(&self, program: &Program) -> Stats {
        self.stats_at(program, &self.sizes(program))
    }

    /// The figures of a program at the sizes of another one, such as that before the passes.
    #[must_use]
    pub fn stats_at(&self, program: &Program, sizes: &SizeTable) -> Stats {
        self.stats_of(&program.module, sizes)
    }

    pub(crate) fn stats_of(&self, module: &Module, sizes: &SizeTable) -> Stats {
        match self.target_of(module) {
            Some(target) => Stats::on(module, &self.registry, sizes, &target),
            None => Stats::at(module, &self.registry, sizes),
        }
    }

    pub(crate) fn sizes_of(&self, module: &Module) -> SizeTable {
        SizeTable::new(&self.compared(module))
    }

    /// Runs the entry function by the reference interpreter; keys are argument and result names.
    ///
    /// # Errors
    /// The inputs do not fit, external data is absent, an operation cannot be executed.
    #[cfg(feature = "interp")]
    pub fn run(
        &self,
        program: &Program,
        inputs: &indexmap::IndexMap<String, optc_ir::Tensor>,
        data: &dyn optc_interp::DataSource,
    ) -> Result<indexmap::IndexMap<String, optc_ir::Tensor>, Error> {
        let entry = program.entry().map_or("main", |f| &*f.name);
        let (module, registry) = (&program.module, &*self.registry);
        optc_interp::run_reference(module, registry, entry, inputs, data, &Bindings::default())
            .map_err(|e| program.error(vec![e.to_diagnostic()]))
    }
}
