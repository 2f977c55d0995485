//! Compiles a function to steps: the slot of each operand and result, and the kernel of each step.
//!
//! For `relu(add(a, b))` with a planned arena, the arguments `a` and `b` get buffers, both results get offsets in the arena
//! or in a result's buffer, and the two operations become one step with a fused element-wise kernel.

use crate::access::Access;
use crate::buffer::{Buffer, gather, scatter};
use crate::codes;
use crate::job::Job;
use crate::join::joined;
use crate::memory::{Memory, Slot, Storage};
use crate::ops::{self, Kernel, Site};
use crate::tiles::{self, Run, Tiled, Untiled};
use indexmap::IndexMap;
use optc_interp::{
    DataSource, MAX_CALL_DEPTH, MAX_STEPS, RunError, argument_keys, check_inputs, constant,
    result_keys,
};
use optc_ir::entity::SideTable;
use optc_ir::memory::{self, Place, State};
use optc_ir::op::in_place;
use optc_ir::op::part::Port;
use optc_ir::{
    Bindings, Control, Diagnostic, Dim, EvalContext, Func, Loc, Module, Op, Part, Registry, Size,
    Structure, Tensor, TensorType, Type, Value, ValueDef, named_sizes,
};
use optc_kernels::gemm::Scratch;
use optc_kernels::isa::{Isa, VARIABLE};
use optc_kernels::team::Team;
use optc_layout::Layout;
use optc_tile::Schedule;
use std::sync::{Arc, Mutex};

/// A value, or the diagnostic that says why something cannot be run.
pub(crate) type Outcome<T> = Result<T, Box<Diagnostic>>;

/// Options of the executor.
#[derive(Clone, Debug, Default)]
pub struct ExecOptions {
    /// Most bytes that arguments, results, constants and the arena may take together.
    pub memory_limit: Option<u64>,
    /// Fill memory with poison before each run, so that reads of uninitialized memory show.
    pub poison: bool,
    /// Run every operation by its declared semantics, without kernels.
    pub generic: bool,
    /// Leave out the steps that only move elements, except those of integers of 32 bits and more, which may be indices.
    /// Results are wrong; the time that is left is what no layout can save.
    pub skip_moves: bool,
    /// Threads that share the work of a step, the calling thread included; 0 counts as 1. Results do not depend on the
    /// number.
    pub threads: usize,
    /// Share small work too, which is slower: for tests with small programs.
    pub always_share: bool,
    /// Run groups of operations tile by tile, as the plan in the program says.
    pub tiles: bool,
    /// The instruction set of the kernels; `None` for that of the variable `OPTC_ISA`, or the greatest of the machine. Sums of
    /// floats are rounded otherwise with another set.
    pub isa: Option<Isa>,
}

/// One operation to run, or several that were fused.
#[derive(Debug)]
pub(crate) struct Step {
    pub(crate) op: Op,
    pub(crate) work: Work,
    /// The values that it reads: for several fused operations, the operands of all.
    pub(crate) operands: Vec<Value>,
    /// Bytes of its operands and results.
    pub(crate) bytes: u64,
}

impl Step {
    fn of(run: Run, others: &mut IndexMap<Op, Work>) -> Step {
        match run {
            Run::Tiles(op, tiled) => Step {
                op,
                bytes: tiled.bytes(),
                operands: Vec::new(),
                work: Work::Tiles(tiled),
            },
            Run::Job(job) => Step {
                op: job.op,
                work: match job.kernel {
                    Some(kernel) => Work::Kernel(kernel),
                    None => others.shift_remove(&job.op).unwrap_or(Work::Generic),
                },
                operands: job.operands,
                bytes: job.bytes,
            },
        }
    }
}

/// The implementation of a step.
#[derive(Debug)]
pub(crate) enum Work {
    /// The declared semantics, on gathered operands.
    Generic,
    /// A kernel on the buffers.
    Kernel(Box<dyn Kernel>),
    /// A call of another function, on gathered operands.
    Call(Arc<Executable>),
    /// Control flow: functions that are run in a loop or conditionally, on gathered operands.
    Control(Runs),
    /// A group, tile by tile.
    Tiles(Box<Tiled>),
}

impl Work {
    /// Operations of the functions that it runs.
    fn called(&self) -> u64 {
        match self {
            Work::Call(callee) => callee.count,
            Work::Control(runs) => {
                let all = runs.functions.values().flatten().map(|f| f.count);
                all.fold(0, u64::saturating_add)
            }
            Work::Generic | Work::Kernel(_) | Work::Tiles(_) => 0,
        }
    }
}

/// The operations of a function that do something.
struct Compiled {
    jobs: Vec<Job>,
    /// The work of jobs without a kernel.
    others: IndexMap<Op, Work>,
    /// Operations that a run executes, those of called functions included.
    count: u64,
}

/// The functions that an operation runs.
#[derive(Debug)]
pub(crate) struct Runs {
    pub(crate) control: Control,
    /// The executables by name. A function that refuses the sizes has its diagnostic, which is reported when the function
    /// is run.
    pub(crate) functions: IndexMap<Arc<str>, Outcome<Arc<Executable>>>,
    /// The operands that are constants.
    pub(crate) known: Vec<Option<Arc<Tensor>>>,
}

/// A function that can be run, with its constants.
#[derive(Debug)]
pub struct Executable {
    pub(crate) func: Func,
    pub(crate) registry: Registry,
    pub(crate) bindings: Bindings,
    pub(crate) options: ExecOptions,
    pub(crate) isa: Isa,
    pub(crate) steps: Vec<Step>,
    pub(crate) slots: SideTable<Value, Option<Slot>>,
    pub(crate) constants: Vec<Buffer>,
    pub(crate) arena: usize,
    pub(crate) arguments: Vec<usize>,
    pub(crate) results: Vec<usize>,
    pub(crate) own: Vec<usize>,
    pub(crate) argument_keys: Vec<String>,
    pub(crate) result_keys: Vec<String>,
    /// The groups that run untiled.
    untiled: Vec<Untiled>,
    /// Operations that a run executes, those of called functions included.
    pub(crate) count: u64,
    pub(crate) team: Arc<Team>,
    /// The memory of the previous run.
    pub(crate) spare: Mutex<Option<Memory>>,
}

impl Executable {
    /// Prepares a function of a module whose memory is planned, for inputs of the sizes that `inputs` have.
    ///
    /// # Errors
    /// Inputs do not fit, sizes are unknown, an operation cannot be run, a constant cannot be read, there is too little memory, or
    /// the machine lacks the instruction set.
    pub fn new(
        module: &Module,
        registry: &Registry,
        func: &str,
        inputs: &IndexMap<String, Tensor>,
        data: &dyn DataSource,
        bindings: &Bindings,
        options: &ExecOptions,
    ) -> Result<Executable, Box<Diagnostic>> {
        if State::of(module).is_none() {
            let message = "the memory of the program is not decided";
            return Err(Box::new(Diagnostic::error(
                codes::EXECUTION_UNPLANNED,
                message,
            )));
        }
        let module = named_sizes(module, registry);
        let plain = func.strip_prefix('@').unwrap_or(func);
        let Some(found) = module.funcs.iter().find(|f| &*f.name == plain) else {
            let error = RunError::NoFunction {
                name: plain.to_owned(),
                known: module
                    .funcs
                    .iter()
                    .map(|f| format!("@{}", f.name))
                    .collect::<Vec<_>>()
                    .join(", "),
            };
            return Err(Box::new(error.to_diagnostic()));
        };
        let bound = check_inputs(found, inputs, bindings)
            .map_err(|e| Box::new(RunError::Input(e).to_diagnostic()))?;
        let executable = instructions(options)?.scope(|| {
            let mut compiler = Compiler {
                module: &module,
                registry,
                data,
                options,
                called: IndexMap::new(),
                invariant_arguments: invariant_arguments(&module, registry),
                depth: 0,
                team: Arc::new(team(options)?),
            };
            compiler.func(found, bound, &[])
        })?;
        if MAX_STEPS < executable.count {
            let error = RunError::Steps {
                func: plain.to_owned(),
                found: executable.count,
                limit: MAX_STEPS,
            };
            return Err(Box::new(error.to_diagnostic()));
        }
        executable.fits()?;
        Ok(executable)
    }

    /// Bytes that a run takes: arguments, results, constants, the arena, values with memory of their own, the packed
    /// constants of kernels, and their scratch memory on each thread. Of called functions the largest one counts.
    #[must_use]
    pub fn memory_bytes(&self) -> u64 {
        let constants = self.constants.iter().map(|c| c.bytes().len());
        let lists = [&self.arguments, &self.results, &self.own];
        let (mut kept, mut called) = (0usize, 0u64);
        let mut kernel_scratch = Scratch::default();
        for step in &self.steps {
            match &step.work {
                Work::Call(callee) => called = called.max(callee.memory_bytes()),
                Work::Control(runs) => {
                    let all = runs.functions.values().flatten().map(|f| f.memory_bytes());
                    called = all.fold(called, u64::max);
                }
                Work::Kernel(kernel) => {
                    kept = kept.saturating_add(kernel.packed_bytes());
                    let own = kernel.scratch();
                    kernel_scratch = std::array::from_fn(|i| kernel_scratch[i].max(own[i]));
                }
                Work::Tiles(tiled) => {
                    kept = kept.saturating_add(tiled.packed_bytes());
                    let own = tiled.kernel_scratch();
                    kernel_scratch = std::array::from_fn(|i| kernel_scratch[i].max(own[i]));
                }
                Work::Generic => {}
            }
        }
        let all = lists.into_iter().flatten().copied().chain(constants);
        let kernel_scratch = kernel_scratch
            .into_iter()
            .fold(self.scratch().unwrap_or(0), usize::saturating_add);
        let kernel_scratch = kernel_scratch.saturating_mul(self.team.threads());
        let own = [self.arena, kept, kernel_scratch].into_iter().chain(all);
        let own = own.fold(0u64, |sum, n| sum.saturating_add(n as u64));
        own.saturating_add(called)
    }

    /// The groups of the function that do not run tile by tile although the options ask for it.
    #[must_use]
    pub fn untiled(&self) -> &[Untiled] {
        &self.untiled
    }

    /// Bytes of scratch memory of one program of a group, the greatest of all groups; `None` if no group runs in tiles.
    pub(crate) fn scratch(&self) -> Option<usize> {
        let all = self.steps.iter().filter_map(|step| match &step.work {
            Work::Tiles(tiled) => Some(tiled.scratch),
            Work::Generic | Work::Kernel(_) | Work::Call(_) | Work::Control(_) => None,
        });
        all.max()
    }

    fn fits(&self) -> Outcome<()> {
        let needed = self.memory_bytes();
        match self.options.memory_limit.filter(|&limit| limit < needed) {
            None => Ok(()),
            Some(limit) => Err(too_little(needed, &format!("the limit is {limit}"))),
        }
    }
}

pub(crate) fn too_little(needed: u64, why: &str) -> Box<Diagnostic> {
    let message = format!("the program needs {needed} bytes of memory, {why}");
    Box::new(Diagnostic::error(codes::EXECUTION_MEMORY, message))
}

struct Compiler<'a> {
    module: &'a Module,
    registry: &'a Registry,
    data: &'a dyn DataSource,
    options: &'a ExecOptions,
    called: IndexMap<String, Arc<Executable>>,
    /// For operations that are the only ones to run their functions: the result of [`invariant_arguments`], by the name of
    /// the function that contains the operation and the operation.
    invariant_arguments: IndexMap<(String, Op), Vec<Vec<Option<usize>>>>,
    /// Nesting depth of the function that is being compiled.
    depth: usize,
    team: Arc<Team>,
}

impl Compiler<'_> {
    /// Prepares a function; `known` has the values of the arguments that are the same in every run.
    fn func(
        &mut self,
        found: &Func,
        mut bindings: Bindings,
        known: &[Option<Arc<Tensor>>],
    ) -> Outcome<Executable> {
        let func = concrete(found, &mut bindings, self.registry);
        agree(found, &func, &bindings, self.registry)?;
        let mut builder = Builder {
            arguments: Vec::new(),
            results: vec![0; func.results.len()],
            own: Vec::new(),
            constants: Vec::new(),
            slots: SideTable::new(None),
            inside: IndexMap::new(),
            func: &func,
            registry: self.registry,
            data: self.data,
            bindings: &bindings,
        };
        builder.place_nested()?;
        builder.place_arguments(known)?;
        let Compiled {
            jobs,
            mut others,
            count,
        } = self.compiled(&mut builder)?;
        let (runs, untiled) = self.planned(jobs, &builder)?;
        let steps = runs
            .into_iter()
            .map(|run| Step::of(run, &mut others))
            .collect();
        for (number, &value) in func.results.iter().enumerate() {
            let layout = layout_of(&func, value)?;
            builder.results[number] = usize::try_from(layout.bytes()).unwrap_or(usize::MAX);
        }
        let Builder {
            arguments,
            results,
            own,
            constants,
            slots,
            ..
        } = builder;
        let arena = usize::try_from(memory::arena(&func)).unwrap_or(usize::MAX);
        Ok(Executable {
            argument_keys: argument_keys(&func),
            result_keys: result_keys(&func),
            registry: self.registry.clone(),
            options: self.options.clone(),
            isa: Isa::current(),
            func,
            bindings,
            steps,
            slots,
            constants,
            arena,
            arguments,
            results,
            own,
            untiled,
            count,
            team: Arc::clone(&self.team),
            spare: Mutex::default(),
        })
    }

    /// Places the results of all operations and compiles those that do something.
    fn compiled(&mut self, builder: &mut Builder<'_>) -> Outcome<Compiled> {
        let func = builder.func;
        let mut compiled = Compiled {
            jobs: Vec::new(),
            others: IndexMap::new(),
            count: func.body.len() as u64,
        };
        for &op in &func.body {
            if !builder.place(op)? {
                continue;
            }
            let kernel = match self.work(builder, op)? {
                Work::Kernel(kernel) => {
                    let moves = self.options.skip_moves && kernel.only_moves();
                    if kernel.is_idle() || moves && !builder.may_be_indices(op) {
                        continue;
                    }
                    Some(kernel)
                }
                work => {
                    compiled.count = compiled.count.saturating_add(work.called());
                    compiled.others.insert(op, work);
                    None
                }
            };
            compiled.jobs.push(Job {
                op,
                kernel,
                operands: func.ops[op].operands.clone(),
                bytes: builder.touched(op),
            });
        }
        Ok(compiled)
    }

    /// Fuses jobs, and plans the groups that run tile by tile; the other groups are returned with their reasons.
    fn planned(&self, jobs: Vec<Job>, builder: &Builder<'_>) -> Outcome<(Vec<Run>, Vec<Untiled>)> {
        let Some(first) = jobs.first() else {
            return Ok((Vec::new(), Vec::new()));
        };
        let site = Site {
            func: builder.func,
            op: first.op,
            registry: self.registry,
            slots: &builder.slots,
            constants: &builder.constants,
            bindings: builder.bindings,
        };
        let kernels = self.options.tiles && !self.options.generic && !self.options.skip_moves;
        let schedule = match kernels {
            true => Schedule::read(builder.func, self.registry).map_err(first_of)?,
            false => None,
        };
        Ok(match schedule {
            Some(schedule) => tiles::planned(jobs, &schedule, site, self.team.threads()),
            None => {
                let runs = joined(jobs, site, true).into_iter().map(Run::Job);
                (runs.collect(), Vec::new())
            }
        })
    }

    fn work(&mut self, builder: &Builder<'_>, op: Op) -> Outcome<Work> {
        let func = builder.func;
        let data = &func.ops[op];
        let unknown = |why: &str| {
            let message = format!("{} cannot be run: {why}", data.name);
            let error = Diagnostic::error(codes::EXECUTION_UNSUPPORTED, message);
            Box::new(error.at(data.span, "this operation"))
        };
        match self.registry.structure(&data.name) {
            Structure::Opaque => {
                let decl = self.registry.get(&data.name);
                let control = decl.and_then(|decl| decl.control(&func.op_ref(op)));
                let control =
                    control.ok_or_else(|| unknown("it is an operation of another format"))?;
                let known = data.operands.iter().map(|&v| builder.tensor(v));
                let known: Vec<_> = known.collect();
                let at = (func.name.to_string(), op);
                let arguments = self
                    .invariant_arguments
                    .get(&at)
                    .cloned()
                    .unwrap_or_default();
                let mut functions = IndexMap::new();
                for (number, name) in control.functions().enumerate() {
                    let known: Vec<_> = arguments.get(number).map_or_else(Vec::new, |operands| {
                        let of = |&operand: &Option<usize>| known.get(operand?)?.clone();
                        operands.iter().map(of).collect()
                    });
                    let made = match self.callee(builder, op, name, &known) {
                        Err(refused) if refused.code != codes::EXECUTION_FAILED.name => {
                            return Err(refused);
                        }
                        made => made,
                    };
                    functions.insert(name.clone(), made);
                }
                return Ok(Work::Control(Runs {
                    control,
                    functions,
                    known,
                }));
            }
            Structure::Call => {
                let callee = func.callee(op).unwrap_or_default().to_owned();
                return Ok(Work::Call(self.callee(builder, op, &callee, &[])?));
            }
            Structure::Plain | Structure::View | Structure::Convert | Structure::Constant => {}
        }
        if self.registry.get(&data.name).is_none() {
            return Err(unknown("nothing declares it"));
        }
        // Kernels expect at least one element. Operations that only move elements may have empty operands among others.
        let empty = |values: &[Value]| {
            let mut places = values.iter().filter_map(|&v| builder.slots[v].as_ref());
            places.any(|slot| slot.access.count() == 0)
        };
        let decl = self.registry.get(&data.name);
        let computes = decl.is_some_and(|decl| ops::computes(decl.family()));
        let nothing = empty(&data.results) || computes && empty(&data.operands);
        if self.options.generic || nothing {
            return Ok(Work::Generic);
        }
        let kernel = ops::kernel(&Site {
            func,
            op,
            registry: self.registry,
            slots: &builder.slots,
            constants: &builder.constants,
            bindings: builder.bindings,
        });
        Ok(kernel.map_or(Work::Generic, Work::Kernel))
    }

    /// A function that an operation runs; `known` has the values of the arguments that are the same whenever the operation
    /// runs it.
    fn callee(
        &mut self,
        builder: &Builder<'_>,
        op: Op,
        name: &str,
        known: &[Option<Arc<Tensor>>],
    ) -> Outcome<Arc<Executable>> {
        if let Some(known) = self.called.get(name) {
            return Ok(Arc::clone(known));
        }
        let refused = |message: String| {
            let error = Diagnostic::error(codes::EXECUTION_UNSUPPORTED, message);
            Box::new(error.at(builder.func.ops[op].span, "run here"))
        };
        let target = self.module.funcs.iter().find(|f| *f.name == *name);
        let target = target.ok_or_else(|| refused(format!("there is no function @{name}")))?;
        if MAX_CALL_DEPTH <= self.depth {
            let message = format!("functions run one another more than {MAX_CALL_DEPTH} deep");
            return Err(refused(message));
        }
        self.depth += 1;
        let made = self.func(target, builder.bindings.clone(), known);
        self.depth -= 1;
        let made = Arc::new(made?);
        self.called.insert(name.to_owned(), Arc::clone(&made));
        Ok(made)
    }
}

/// For each operation that is the only one to run its functions, and for each argument of these: the operand that the
/// argument equals in every run.
fn invariant_arguments(
    module: &Module,
    registry: &Registry,
) -> IndexMap<(String, Op), Vec<Vec<Option<usize>>>> {
    use optc_ir::op::ControlPort::{Argument, Given, Operand};
    let mut all = IndexMap::new();
    for site in optc_ir::Site::alone(module, registry) {
        let counts = site.functions.iter().map(|f| f.args.len());
        let mut arguments: Vec<Vec<Option<usize>>> = counts.map(|n| vec![None; n]).collect();
        for group in &site.joined {
            let operand = group.iter().find_map(|joint| match joint.place {
                Operand(i) if joint.axis.is_none() => Some(i),
                _ => None,
            });
            // A carried value is invariant if its value for the next round is its argument.
            let stays = |given: usize, value: Value| {
                group.iter().any(|joint| match joint.place {
                    Argument(f, i) => f == given && site.functions[f].args[i] == value,
                    _ => false,
                })
            };
            let changes = group.iter().any(|joint| match joint.place {
                Given(f, i) => !stays(f, site.functions[f].results[i]),
                _ => false,
            });
            for joint in group.iter().filter(|_| !changes) {
                if let Argument(f, i) = joint.place {
                    arguments[f][i] = operand;
                }
            }
        }
        all.insert((site.func.name.to_string(), site.op), arguments);
    }
    all
}

fn instructions(options: &ExecOptions) -> Outcome<Isa> {
    Isa::choose(options.isa).map_err(|error| {
        let hint =
            format!("without `--isa` and `{VARIABLE}` the greatest set of the machine is used");
        Box::new(Diagnostic::error(codes::EXECUTION_ISA, error.to_string()).hint(hint))
    })
}

fn team(options: &ExecOptions) -> Outcome<Team> {
    Team::new(options.threads, options.always_share).map_err(|why| {
        let message = format!("{} threads cannot be had: {why}", options.threads);
        Box::new(Diagnostic::error(codes::EXECUTION_FAILED, message))
    })
}

fn first_of(diags: Vec<Diagnostic>) -> Box<Diagnostic> {
    let none = || Diagnostic::error(codes::EXECUTION_FAILED, "the plan of tiles is none");
    Box::new(diags.into_iter().next().unwrap_or_else(none))
}

/// The function with numbers in place of named sizes. Sizes follow from `bindings` and from the shape rules of operations;
/// a name that no argument has gets the size that an operation infers.
fn concrete(func: &Func, bindings: &mut Bindings, registry: &Registry) -> Func {
    let mut func = func.clone();
    for op in func.body.clone() {
        let data = &mut func.ops[op];
        if !bindings.0.is_empty() && registry.structure(&data.name) == Structure::Plain {
            data.props = bindings.numbers(&data.props);
        }
    }
    for value in func.values.ids().collect::<Vec<_>>() {
        settle(&mut func, value, bindings, None);
    }
    for op in func.body.clone() {
        let results = func.ops[op].results.clone();
        if results.iter().all(|&v| is_settled(&func, v)) {
            continue;
        }
        let inferred = registry.get(&func.ops[op].name);
        let inferred = inferred.and_then(|decl| decl.infer(&func.op_ref(op)).ok());
        for (&result, inferred) in results.iter().zip(inferred.into_iter().flatten()) {
            settle(&mut func, result, bindings, Some(&inferred.dims));
        }
    }
    func
}

fn is_settled(func: &Func, value: Value) -> bool {
    let ty = func.ty(value).as_tensor();
    ty.is_none_or(|ty| ty.dims.iter().all(|d| d.fixed().is_some()))
}

/// Replaces the sizes of a type by numbers, if all are known; `given` are the extents that an operation infers.
fn settle(func: &mut Func, value: Value, bindings: &mut Bindings, given: Option<&[Dim]>) {
    let Some(ty) = func.ty(value).as_tensor() else {
        return;
    };
    if is_settled(func, value) || given.is_some_and(|given| given.len() != ty.rank()) {
        return;
    }
    let given = |axis: usize| bindings.size(given?.get(axis)?);
    let found: Option<Vec<u64>> = (0..ty.rank())
        .map(|axis| bindings.size(&ty.dims[axis]).or_else(|| given(axis)))
        .collect();
    // Values that nothing in the body defines any more keep their types.
    let Some(found) = found else { return };
    let dims = found.iter().map(|&n| Dim::Fixed(n)).collect();
    let said = ty.dims.clone();
    let ty = TensorType { dims, ..ty.clone() };
    func.values[value].ty = Type::Tensor(Arc::new(ty));
    for (dim, n) in said.iter().zip(found) {
        if let Some(name) = dim.size().as_ref().and_then(Size::as_name) {
            bindings.0.entry(Arc::from(name)).or_insert(n);
        }
    }
}

/// Checks that operations accept the sizes that names are bound to; `found` is the function with named sizes.
fn agree(found: &Func, func: &Func, bindings: &Bindings, registry: &Registry) -> Outcome<()> {
    for &op in &func.body {
        let data = &func.ops[op];
        let mut values = data.operands.iter().chain(&data.results);
        let named = values.any(|&v| found.ty(v) != func.ty(v));
        let Some(decl) = registry.get(&data.name).filter(|_| named) else {
            continue;
        };
        if matches!(decl.structure(), Structure::Call | Structure::Opaque) {
            continue;
        }
        let refused = |why: String, hint: Option<String>| {
            let error =
                Diagnostic::error(codes::EXECUTION_FAILED, why).at(data.span, "this operation");
            let hint = hint.unwrap_or_else(|| "give inputs of other sizes".to_owned());
            Err(Box::new(error.hint(hint)))
        };
        let inferred = match decl.infer(&func.op_ref(op)) {
            Ok(inferred) => inferred,
            Err(e) => {
                return refused(
                    format!("{} of @{}: {}", data.name, func.name, e.message),
                    e.hint,
                );
            }
        };
        for (&result, wanted) in data.results.iter().zip(&inferred) {
            let Some(own) = func.ty(result).as_tensor() else {
                continue;
            };
            let sizes = own.dims.iter().zip(&wanted.dims);
            let mut sizes = sizes.map(|(own, dim)| (own.fixed(), bindings.size(dim)));
            let differs = sizes.find_map(|pair| match pair {
                (Some(own), Some(wanted)) if own != wanted => Some((own, wanted)),
                _ => None,
            });
            if let Some((own, wanted)) = differs {
                let why = format!(
                    "{} of @{} gives a size of {wanted} where the program says {own}",
                    data.name, func.name
                );
                return refused(why, None);
            }
        }
    }
    Ok(())
}

fn layout_of(func: &Func, value: Value) -> Outcome<Layout> {
    let refused = |why: String| {
        let error = Diagnostic::error(codes::EXECUTION_UNSUPPORTED, why);
        let span = func.def_op(value).map_or(func.span, |op| func.ops[op].span);
        Box::new(error.at(span, "here"))
    };
    let ty = func.ty(value);
    let Some(tensor) = ty.as_tensor() else {
        let text = optc_ir::text::print_type(ty);
        return Err(refused(format!(
            "only tensors can be computed, found the type `{text}`"
        )));
    };
    match tensor.layout() {
        Some(Ok(layout)) => Ok(layout),
        Some(Err(e)) => Err(refused(e.to_string())),
        None => {
            let text = optc_ir::text::print_type(ty);
            Err(refused(format!(
                "a size of {text} is not known before the program runs"
            )))
        }
    }
}

/// Assigns slots to the values of a function.
struct Builder<'a> {
    func: &'a Func,
    registry: &'a Registry,
    data: &'a dyn DataSource,
    bindings: &'a Bindings,
    slots: SideTable<Value, Option<Slot>>,
    /// Slots of values that are computed inside of others, and of these others.
    inside: IndexMap<Value, Slot>,
    constants: Vec<Buffer>,
    arguments: Vec<usize>,
    results: Vec<usize>,
    own: Vec<usize>,
}

impl Builder<'_> {
    /// Slot of a value that fills a buffer in its layout.
    fn whole(&self, value: Value, storage: Storage, offset: u64) -> Outcome<Slot> {
        let layout = layout_of(self.func, value)?;
        let access = Access::of(&layout)
            .ok_or_else(|| too_little(layout.bytes(), "more than can be addressed"))?;
        let ty = self.func.ty(value).as_tensor();
        let size =
            |n: u64| usize::try_from(n).map_err(|_| too_little(n, "more than can be addressed"));
        Ok(Slot {
            storage,
            offset: size(offset)?,
            bytes: size(layout.bytes())?,
            access: Arc::new(access),
            dtype: ty.map_or(optc_ir::DType::F32, |ty| ty.dtype),
            width: layout.elem_bits(),
            part: false,
        })
    }

    /// Returns whether results are integers that may be indices, which have to be in bounds.
    fn may_be_indices(&self, op: Op) -> bool {
        let results = &self.func.ops[op].results;
        let mut types = results.iter().filter_map(|&v| self.func.ty(v).as_tensor());
        types.any(|ty| !ty.dtype.is_float() && 32 <= ty.dtype.bits())
    }

    /// Assigns slots to the results of an operation; returns whether the operation has to be run.
    fn place(&mut self, op: Op) -> Outcome<bool> {
        let data = &self.func.ops[op];
        let places = memory::places(data).ok().flatten();
        let places = places.unwrap_or_else(|| vec![Place::Own; data.results.len()]);
        let mut runs = data.results.is_empty();
        let parts = in_place::settled(self.func, op, self.registry);
        let cut = |number: usize| parts.iter().any(|p| p.part == Port::Result(number));
        for (number, (&result, place)) in data.results.iter().zip(places).enumerate() {
            if let Some(slot) = self.inside.get(&result) {
                runs = true;
                self.slots[result] = Some(slot.clone());
                continue;
            }
            let slot = match place {
                Place::Inside => {
                    let message = format!("result {number} of {} lies inside no value", data.name);
                    let error = Diagnostic::error(codes::EXECUTION_UNPLANNED, message);
                    return Err(Box::new(error.at(data.span, "this operation")));
                }
                Place::Constant => {
                    return self.constants(op).map(|()| false);
                }
                Place::Alias(operand) => self.alias(op, result, operand, cut(number))?,
                Place::Pieces => match self.in_pieces(op) {
                    Some(slot) => slot,
                    None => {
                        runs = true;
                        self.first(result, Place::Own)?
                    }
                },
                Place::Over(operand) => {
                    runs = true;
                    let operand = self.operand(op, operand)?;
                    let (storage, offset) = (operand.storage, operand.offset);
                    self.whole(result, storage, offset as u64)?
                }
                Place::Arena(_) | Place::Result(_) | Place::Own => {
                    runs = true;
                    self.first(result, place)?
                }
            };
            self.slots[result] = Some(slot);
        }
        Ok(runs)
    }

    /// Slot of a result that consists of its operands' bytes; `None` if the operands are in several buffers, or their
    /// accesses cannot be joined along a dimension.
    fn in_pieces(&self, op: Op) -> Option<Slot> {
        let data = &self.func.ops[op];
        let [result] = data.results[..] else {
            return None;
        };
        let shape = self.func.ty(result).as_tensor().and_then(ops::shape)?;
        let slots = data.operands.iter().map(|&v| self.slots[v].clone());
        let slots = slots.collect::<Option<Vec<Slot>>>()?;
        let first = slots.first()?;
        let alike = |slot: &&Slot| slot.storage == first.storage && slot.width == first.width;
        let width = usize::try_from(first.width).ok()?;
        if !slots.iter().all(|slot| alike(&slot)) || width % 8 != 0 {
            return None;
        }
        let shapes: Vec<Vec<usize>> = slots.iter().map(|slot| slot.access.shape()).collect();
        let differs = |&d: &usize| shapes.iter().any(|own| own.get(d) != shape.get(d));
        let dim = (0..shape.len()).find(differs)?;
        let start = slots.iter().map(|slot| slot.offset).min()?;
        let end = slots.iter().map(|slot| slot.range().end).max()?;
        let moved = |slot: &Slot| {
            let by = (slot.offset - start) * 8;
            let by = by
                .is_multiple_of(width)
                .then(|| i64::try_from(by / width).ok())?;
            Some(((*slot.access).clone(), by?))
        };
        let all = slots.iter().map(moved).collect::<Option<Vec<_>>>()?;
        let access = Access::joined(dim, &all)?;
        (access.shape() == shape).then(|| Slot {
            offset: start,
            bytes: end - start,
            access: Arc::new(access),
            part: true,
            ..first.clone()
        })
    }

    /// Slot of a value in memory of its own: the arena, a result's buffer or a buffer of its own.
    fn first(&mut self, value: Value, place: Place) -> Outcome<Slot> {
        match place {
            Place::Arena(offset) => self.whole(value, Storage::Arena, offset),
            Place::Result(number) => self.whole(value, Storage::Result(number), 0),
            _ => {
                let slot = self.whole(value, Storage::Own(self.own.len()), 0)?;
                self.own.push(slot.bytes);
                Ok(slot)
            }
        }
    }

    /// Assigns slots to arguments; `known` has the values of those that are constants.
    fn place_arguments(&mut self, known: &[Option<Arc<Tensor>>]) -> Outcome<()> {
        for (number, &arg) in self.func.args.iter().enumerate() {
            if let Some(tensor) = known.get(number).and_then(Option::as_ref)
                && self.store_constant(arg, tensor)?
            {
                continue;
            }
            if let Some(slot) = self.inside.get(&arg) {
                self.slots[arg] = Some(slot.clone());
                continue;
            }
            let storage = Storage::Argument(self.arguments.len());
            let slot = self.whole(arg, storage, 0)?;
            self.arguments.push(slot.bytes);
            self.slots[arg] = Some(slot);
        }
        Ok(())
    }

    /// Assigns slots to values that are computed inside of others (concatenation in place), and to these others.
    fn place_nested(&mut self) -> Outcome<()> {
        let func = self.func;
        let wholes = in_place::wholes(func, self.registry);
        if wholes.is_empty() {
            return Ok(());
        }
        for &op in func.body.iter().rev() {
            let data = &func.ops[op];
            if data.attrs.get(in_place::IN_PLACE).is_none() {
                continue;
            }
            // Parts of values that are assembled from several pieces.
            let mut pieces: IndexMap<Value, Vec<(Part, Access)>> = IndexMap::new();
            for part in in_place::settled(func, op, self.registry) {
                let ends = (part.part.value(data), part.whole.value(data));
                let (Port::Operand(_), (Some(small), Some(whole))) = (part.part, ends) else {
                    continue;
                };
                let inner = in_place::path(func, small).last().copied();
                if !inner.is_some_and(|v| wholes.contains_key(&v)) {
                    continue;
                }
                let slot = self.whole_of(whole)?;
                let shape = func.ty(small).as_tensor().and_then(ops::shape);
                let access = shape.and_then(|shape| ops::part(&part, &shape, &slot.access));
                let access = access.ok_or_else(|| self.nowhere(op))?;
                self.map_back(small, access, &slot, &mut pieces)?;
            }
            for (value, pieces) in pieces {
                let slot = self.whole_of(data.results[0])?;
                let access = self.assembled(value, &pieces);
                let access = access.ok_or_else(|| self.nowhere(op))?;
                let mut more = IndexMap::new();
                self.map_back(value, access, &slot, &mut more)?;
                if !more.is_empty() {
                    return Err(self.nowhere(op));
                }
            }
        }
        Ok(())
    }

    fn nowhere(&self, op: Op) -> Box<Diagnostic> {
        let data = &self.func.ops[op];
        let message = format!("an operand of {} has no place in its result", data.name);
        let error = Diagnostic::error(codes::EXECUTION_UNSUPPORTED, message);
        Box::new(error.at(data.span, "this operation"))
    }

    /// Slot of a value that others are computed inside of.
    fn whole_of(&mut self, value: Value) -> Outcome<Slot> {
        if let Some(known) = self.inside.get(&value) {
            return Ok(known.clone());
        }
        let ValueDef::Result(op, number) = self.func.values[value].def else {
            let message = "values lie inside an argument";
            return Err(Box::new(Diagnostic::error(
                codes::EXECUTION_UNPLANNED,
                message,
            )));
        };
        let places = memory::places(&self.func.ops[op]).ok().flatten();
        let place = places.and_then(|places| places.get(number).copied());
        let slot = match place {
            Some(place @ (Place::Arena(_) | Place::Result(_) | Place::Own)) => {
                self.first(value, place)?
            }
            _ => return Err(self.nowhere(op)),
        };
        self.inside.insert(value, slot.clone());
        Ok(slot)
    }

    /// Maps the access of a value back through views and slices, to the value that is computed. Slices are collected in
    /// `pieces`.
    fn map_back(
        &mut self,
        value: Value,
        access: Access,
        slot: &Slot,
        pieces: &mut IndexMap<Value, Vec<(Part, Access)>>,
    ) -> Outcome<()> {
        let func = self.func;
        let mut access = access;
        let path = in_place::path(func, value);
        for (&at, &up) in path.iter().zip(path.iter().skip(1)) {
            let Some(op) = func.def_op(at) else { continue };
            let parts = in_place::settled(func, op, self.registry);
            let cut = parts.into_iter().find(|p| {
                matches!(p.part, Port::Result(_)) && p.part.value(&func.ops[op]) == Some(at)
            });
            if let Some(cut) = cut {
                pieces.entry(up).or_default().push((cut, access));
                return Ok(());
            }
            let back = ops::operand_access(func, op, self.registry, self.bindings, &access);
            access = back.ok_or_else(|| self.nowhere(op))?;
        }
        if let Some(&value) = path.last() {
            let slot = Slot {
                access: Arc::new(access),
                part: true,
                ..slot.clone()
            };
            self.inside.insert(value, slot);
        }
        Ok(())
    }

    /// Access of a value, given the accesses of all its parts.
    fn assembled(&self, value: Value, pieces: &[(Part, Access)]) -> Option<Access> {
        let shape = self.func.ty(value).as_tensor().and_then(ops::shape)?;
        let own: Vec<u64> = shape.iter().map(|&n| n as u64).collect();
        let numbers = Access::of(&Layout::row_major(&own, 8))?;
        let mut offsets = vec![None; numbers.count()];
        for (part, access) in pieces {
            let picked = ops::part(part, &access.shape(), &numbers)?;
            let mut places = access.offsets().into_iter();
            picked.each(|number| offsets[number as usize] = places.next());
        }
        let offsets = offsets.into_iter().collect::<Option<Vec<i64>>>()?;
        Some(Access::listed(shape, offsets).try_sum())
    }

    fn operand(&self, op: Op, number: usize) -> Outcome<Slot> {
        let data = &self.func.ops[op];
        let value = data.operands.get(number);
        let slot = value.and_then(|&v| self.slots[v].clone());
        slot.ok_or_else(|| {
            let message = format!("operand {number} of {} lies nowhere", data.name);
            Box::new(Diagnostic::error(codes::EXECUTION_UNPLANNED, message))
        })
    }

    /// Slot of a result that aliases an operand; `cut` if it is a part of it.
    fn alias(&self, op: Op, result: Value, number: usize, cut: bool) -> Outcome<Slot> {
        let operand = self.operand(op, number)?;
        let decl = self.registry.get(&self.func.ops[op].name);
        let cuts = cut || decl.is_some_and(|decl| decl.is_part());
        if !cuts && !operand.part {
            return self.whole(result, operand.storage, operand.offset as u64);
        }
        let results = &self.func.ops[op].results;
        let at = results.iter().position(|&v| v == result).unwrap_or(0);
        let (registry, bindings) = (self.registry, self.bindings);
        let access = ops::aliased(self.func, op, at, registry, bindings, &operand.access);
        let Some(access) = access else {
            let message = format!("{} gives no part of its operand", self.func.ops[op].name);
            return Err(Box::new(Diagnostic::error(
                codes::EXECUTION_UNSUPPORTED,
                message,
            )));
        };
        Ok(Slot {
            access: Arc::new(access),
            part: true,
            ..operand
        })
    }

    /// Computes the results of an operation whose operands are constants.
    fn constants(&mut self, op: Op) -> Outcome<()> {
        let data = &self.func.ops[op];
        let failed = |why: String| {
            let error = Diagnostic::error(codes::EXECUTION_FAILED, format!("{}: {why}", data.name));
            Box::new(error.at(data.span, "this operation"))
        };
        if self.registry.structure(&data.name) == Structure::View
            && let [operand] = data.operands[..]
            && let Some(operand) = &self.slots[operand]
        {
            let slot = self.whole(data.results[0], operand.storage, operand.offset as u64)?;
            self.slots[data.results[0]] = Some(slot);
            return Ok(());
        }
        let tensors = match self.registry.structure(&data.name) {
            Structure::Constant => {
                let ty = self.func.ty(data.results[0]).as_tensor();
                let ty = ty.ok_or_else(|| failed("it is no tensor".to_owned()))?;
                let shape = ty
                    .shape()
                    .and_then(|s| s.iter().map(|&n| usize::try_from(n).ok()).collect());
                let read = constant(&data.props, ty, shape, self.data);
                vec![read.map_err(|e| failed(e.to_string()))?]
            }
            _ => {
                let inputs: Outcome<Vec<Tensor>> =
                    data.operands.iter().map(|&v| self.constant(v)).collect();
                let inputs = inputs?;
                let refs: Vec<&Tensor> = inputs.iter().collect();
                let cx = EvalContext {
                    bindings: self.bindings,
                };
                let decl = self.registry.get(&data.name);
                let decl = decl.ok_or_else(|| failed("nothing declares it".to_owned()))?;
                let tensors = decl.eval(&self.func.op_ref(op), &refs, &cx);
                tensors.map_err(|e| failed(e.to_string()))?
            }
        };
        for (&result, tensor) in data.results.iter().zip(&tensors) {
            if !self.store_constant(result, tensor)? {
                return Err(failed(
                    "its value has another type than it declares".to_owned(),
                ));
            }
        }
        Ok(())
    }

    /// Stores a constant value; returns false if its shape or type is not the declared one.
    fn store_constant(&mut self, value: Value, tensor: &Tensor) -> Outcome<bool> {
        let slot = self.whole(value, Storage::Constant(self.constants.len()), 0)?;
        if tensor.shape != slot.access.shape() || tensor.dtype != slot.dtype {
            return Ok(false);
        }
        let buffer = Buffer::new(slot.bytes, false);
        let mut buffer =
            buffer.ok_or_else(|| too_little(slot.bytes as u64, "more than there is"))?;
        scatter(tensor, buffer.bytes_mut(), &slot.access, slot.width);
        self.constants.push(buffer);
        self.slots[value] = Some(slot);
        Ok(true)
    }

    /// The tensor of a value that is a constant.
    fn tensor(&self, value: Value) -> Option<Arc<Tensor>> {
        let slot = self.slots[value].as_ref()?;
        matches!(slot.storage, Storage::Constant(_)).then_some(())?;
        self.constant(value).ok().map(Arc::new)
    }

    fn constant(&self, value: Value) -> Outcome<Tensor> {
        let refused = |why: String| Box::new(Diagnostic::error(codes::EXECUTION_FAILED, why));
        let Some(slot) = &self.slots[value] else {
            return Err(refused("a constant lies nowhere".to_owned()));
        };
        let buffer = match slot.storage {
            Storage::Constant(number) => self.constants.get(number),
            _ => None,
        };
        let bytes = buffer.and_then(|b| b.bytes().get(slot.range()));
        let bytes = bytes.unwrap_or_default();
        gather(bytes, &slot.access, slot.dtype, slot.width).map_err(|e| refused(e.to_string()))
    }

    /// Bytes of the operands and results of an operation.
    fn touched(&self, op: Op) -> u64 {
        let data = &self.func.ops[op];
        let values = data.operands.iter().chain(&data.results);
        let bytes = |&value: &Value| self.slots[value].as_ref().map(Slot::touched);
        values.filter_map(bytes).sum()
    }
}

/// The name or source location of an operation in its original format.
pub(crate) fn source(loc: &Loc) -> String {
    match loc {
        Loc::Unknown => String::new(),
        Loc::Name(name) => name.to_string(),
        Loc::File(file, line, column) => format!("{file}:{line}:{column}"),
        Loc::Fused(parts) => parts.first().map_or(String::new(), source),
    }
}

/// A program that is compiled may run on any thread, and on several at once.
const _: fn() = || {
    fn shared<T: Send + Sync>() {}
    shared::<Executable>();
};
