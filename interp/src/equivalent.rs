//! Whether two programs compute the same.

use crate::compare::{Mismatch, compare, compare_exact};
use crate::data::DataSource;
use crate::error::RunError;
use crate::frame::{Program, UNSCHEDULED};
use crate::matching::Matching;
use crate::naive::Physical;
use crate::random::{Fill, random_inputs};
use crate::reference::Logical;
use crate::scope::find_func;
use crate::sizes::Choices;
use crate::uninterpreted::{Opaque, named_functions};
use crate::walk::{reachable, run};
use indexmap::{IndexMap, IndexSet};
use optc_ir::text::print;
use optc_ir::{AttrDict, Bindings, Func, Loc, Module, Port, Registry, Structure, Tensor};
use std::sync::Arc;
use thiserror::Error;

/// How two programs are compared.
#[derive(Clone, Debug)]
pub struct EquivalenceOptions {
    /// The function, in both modules.
    pub func: String,
    /// One run on ordinary inputs for each of these.
    pub seeds: Vec<u64>,
    /// More runs, with these fills, each with the first seed (0 if there is none).
    pub edges: Vec<Fill>,
    /// Whether both programs are also run on their physical layouts.
    pub naive: bool,
    /// Whether opaque operations without effects stand for functions of their operands that nobody knows;
    /// otherwise a program with one cannot be run.
    pub uninterpreted: bool,
    /// How messages call the two programs.
    pub names: Arc<[String; 2]>,
    /// The sizes of symbols, by the names of the first program. What is not bound gets another size for each name, or the
    /// same for all where the first program does not run so: up to [`DEFAULT_SIZE`](crate::DEFAULT_SIZE) and as far
    /// as all values have no more than [`MAX_CHOSEN_ELEMENTS`](crate::MAX_CHOSEN_ELEMENTS) elements; and in one more run
    /// some small ones.
    pub bindings: Bindings,
}

impl Default for EquivalenceOptions {
    fn default() -> Self {
        EquivalenceOptions {
            func: "main".to_owned(),
            seeds: vec![0, 1],
            edges: vec![
                Fill::Edge,
                Fill::NonFinite,
                Fill::Unique(0),
                Fill::Unique(1),
            ],
            naive: true,
            uninterpreted: false,
            names: Arc::new(["the first program", "the second program"].map(str::to_owned)),
            bindings: Bindings::default(),
        }
    }
}

/// One of the two programs, run in one of the two ways.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Execution {
    /// The first program by the reference interpreter.
    ReferenceA,
    /// The second program by the reference interpreter.
    ReferenceB,
    /// The first program on physical buffers.
    NaiveA,
    /// The second program on physical buffers.
    NaiveB,
}

impl Execution {
    /// Whether it is the first program.
    #[must_use]
    pub fn is_first(self) -> bool {
        matches!(self, Execution::ReferenceA | Execution::NaiveA)
    }

    /// What was run, where the programs are called so.
    #[must_use]
    pub fn describe(self, [a, b]: &[String; 2]) -> String {
        match self {
            Execution::ReferenceA => a.clone(),
            Execution::ReferenceB => b.clone(),
            Execution::NaiveA => format!("{a} on its layouts"),
            Execution::NaiveB => format!("{b} on its layouts"),
        }
    }
}

/// Why two programs are not seen to be equivalent.
#[derive(Debug, Error)]
pub enum NotEquivalent {
    /// Their arguments or results do not match.
    #[error("{0}")]
    Boundary(String),
    /// One of them cannot be run.
    #[error("{} cannot be run ({fill:?}, seed {seed}{sizes}): {source}", which.describe(names))]
    Run {
        /// Which program and how.
        which: Execution,
        /// How the programs are called.
        names: Arc<[String; 2]>,
        /// What the inputs held.
        fill: Fill,
        /// The seed of the inputs.
        seed: u64,
        /// The sizes that were chosen, `, B = 128`; empty where all are given.
        sizes: String,
        /// Why.
        source: Box<RunError>,
    },
    /// An output differs.
    #[error(
        "output `{output}` of {} differs from {} ({fill:?}, seed {seed}{sizes}): {mismatch}",
        which.describe(names), wanted.describe(names)
    )]
    Differs {
        /// The key of the output, of the first program.
        output: String,
        /// Which program and how.
        which: Execution,
        /// How the programs are called.
        names: Arc<[String; 2]>,
        /// What it was compared with.
        wanted: Execution,
        /// What the inputs held.
        fill: Fill,
        /// The seed of the inputs.
        seed: u64,
        /// The sizes that were chosen, as above.
        sizes: String,
        /// Where and how much.
        mismatch: Box<Mismatch>,
    },
}

/// Tests whether two programs compute the same on seeded inputs and edge values.
///
/// Arguments and results are matched by name if both programs have the same names, by position
/// otherwise. Named sizes may be called otherwise in the second program, each by one other name. Both programs run by the reference interpreter and must agree within the tolerance of
/// [`compare`]; with `naive` each also runs on its layouts and must give the numbers of its own
/// reference run exactly.
///
/// # Errors
/// The first difference, or why one of the programs cannot be run.
pub fn equivalent(
    a: &Module,
    b: &Module,
    registry: &Registry,
    data_a: &dyn DataSource,
    data_b: &dyn DataSource,
    options: &EquivalenceOptions,
) -> Result<(), NotEquivalent> {
    let names = &options.names;
    let boundary = |name: &str, e: RunError| NotEquivalent::Boundary(format!("{name}: {e}"));
    let func_a = find_func(a, &options.func).map_err(|e| boundary(&names[0], e))?;
    let func_b = find_func(b, &options.func).map_err(|e| boundary(&names[1], e))?;
    let matching = Matching::new(func_a, func_b, names).map_err(NotEquivalent::Boundary)?;
    let same = options
        .uninterpreted
        .then(|| Same::of((a, func_a), (b, func_b), registry));
    let first = options.seeds.first().copied().unwrap_or(0);
    let choices = Choices::new([(a, func_a), (b, func_b)], &options.bindings);
    let runs = |sizes: &Bindings| {
        let inputs = random_inputs(a, &options.func, Fill::Normal, first, sizes, registry)?;
        let program = program(a, registry, data_a, same.as_ref());
        let (func, given) = (&options.func, &options.bindings);
        run(program, &mut Logical, func, &inputs, given)
    };
    let works = |sizes: &&Bindings| runs(sizes).is_ok();
    let large = &choices.large;
    let sizes = match &large[..] {
        [one] => one,
        several => several.iter().find(works).unwrap_or(&large[0]),
    };
    let small = choices.small.iter().find(works);
    let normal = options.seeds.iter().map(|&seed| (Fill::Normal, seed));
    let edges = options.edges.iter().map(|&fill| (fill, first));
    let runs = normal.chain(edges).map(|(fill, seed)| (sizes, fill, seed));
    let other = small.map(|sizes| (sizes, Fill::Normal, first));
    for (sizes, fill, seed) in runs.chain(other) {
        let trial = Trial {
            registry,
            options,
            renamed: &matching.renamed(&options.bindings),
            fill,
            seed,
            sizes,
            same: same.as_ref(),
        };
        let inputs = random_inputs(a, &options.func, fill, seed, sizes, registry);
        let inputs = inputs.map_err(|e| trial.failed(Execution::ReferenceA, e))?;
        let outputs_a = trial.run(Execution::ReferenceA, a, &inputs, data_a)?;
        if options.naive {
            let naive = trial.run(Execution::NaiveA, a, &inputs, data_a)?;
            trial.exact(Execution::NaiveA, &naive, Execution::ReferenceA, &outputs_a)?;
        }
        let inputs = matching.inputs(inputs);
        let outputs_b = trial.run(Execution::ReferenceB, b, &inputs, data_b)?;
        trial.compare(&matching, &outputs_b, &outputs_a)?;
        if options.naive {
            let naive = trial.run(Execution::NaiveB, b, &inputs, data_b)?;
            trial.exact(Execution::NaiveB, &naive, Execution::ReferenceB, &outputs_b)?;
        }
    }
    Ok(())
}

fn program<'a>(
    module: &'a Module,
    registry: &'a Registry,
    data: &'a dyn DataSource,
    same: Option<&'a Same>,
) -> Program<'a> {
    Program {
        module,
        registry,
        data,
        schedules: &UNSCHEDULED,
        opaque: same.map_or(Opaque::Refused, |same| Opaque::Functions {
            same: &same.functions,
            loops: same.loops,
        }),
    }
}

/// What two programs have in common, as far as opaque operations go.
struct Same {
    /// The functions that they name.
    functions: IndexSet<Arc<str>>,
    /// Whether a loop or a branch names another one, or only running it tells the size of a result, so that all of them are run.
    /// Otherwise none is, however long it takes.
    loops: bool,
}

impl Same {
    fn of(a: (&Module, &Func), b: (&Module, &Func), registry: &Registry) -> Same {
        let functions = same_functions(a.0, b.0, registry);
        let differs = |(module, func): (&Module, &Func)| {
            reachable(module, func).into_iter().any(|func| {
                func.body.iter().any(|&op| {
                    let op = func.op_ref(op);
                    let control = registry.get(op.name).and_then(|decl| decl.control(&op));
                    let mut types = op.results.iter().filter_map(|ty| ty.as_tensor());
                    let open = types.any(|ty| ty.shape().is_none());
                    control.is_some_and(|c| {
                        open || c.functions().any(|name| !functions.contains(name))
                    })
                })
            })
        };
        let loops = differs(a) || differs(b);
        Same { functions, loops }
    }
}

/// A function without the names of its ports and without places: what it computes.
fn unnamed(func: &Func) -> Func {
    let mut func = func.clone();
    for port in func.arg_ports.iter_mut().chain(&mut func.result_ports) {
        *port = Port::default();
    }
    for value in func.args.clone() {
        func.values[value].name = None;
    }
    for op in func.body.clone() {
        func.ops[op].attrs = AttrDict::default();
        func.ops[op].loc = Loc::Unknown;
    }
    func.loc = Loc::Unknown;
    func
}

/// The functions that opaque operations of the first program name and that both programs have, with the
/// same text and the same texts of all that they call or name.
fn same_functions(a: &Module, b: &Module, registry: &Registry) -> IndexSet<Arc<str>> {
    let text = |module: &Module, name: &str| {
        let func = module.funcs.iter().find(|f| &*f.name == name)?;
        let funcs = reachable(module, func).into_iter().map(unnamed).collect();
        Some(print(&Module {
            funcs,
            ..Module::default()
        }))
    };
    let mut same = IndexSet::new();
    for func in &a.funcs {
        let ops = func.body.iter().map(|&op| &func.ops[op]);
        let opaque = ops.filter(|op| registry.structure(&op.name) == Structure::Opaque);
        for name in opaque.flat_map(|op| named_functions(&op.props)) {
            let found = text(a, name);
            if !same.contains(name) && found.is_some() && found == text(b, name) {
                same.insert(Arc::from(name));
            }
        }
    }
    same
}

/// One set of inputs.
struct Trial<'a> {
    registry: &'a Registry,
    options: &'a EquivalenceOptions,
    /// The sizes that the caller gave, by the names of the second program.
    renamed: &'a Bindings,
    fill: Fill,
    seed: u64,
    /// The sizes of all names in the arguments.
    sizes: &'a Bindings,
    /// The functions that opaque operations may name, where these are functions themselves.
    same: Option<&'a Same>,
}

impl Trial<'_> {
    /// The sizes that the caller did not give.
    fn chosen(&self) -> String {
        let given = &self.options.bindings.0;
        let chosen = self
            .sizes
            .0
            .iter()
            .filter(|(name, _)| !given.contains_key(*name));
        chosen
            .map(|(name, size)| format!(", {name} = {size}"))
            .collect()
    }

    fn failed(&self, which: Execution, source: RunError) -> NotEquivalent {
        NotEquivalent::Run {
            which,
            names: self.options.names.clone(),
            fill: self.fill,
            seed: self.seed,
            sizes: self.chosen(),
            source: Box::new(source),
        }
    }

    fn run(
        &self,
        which: Execution,
        module: &Module,
        inputs: &IndexMap<String, Tensor>,
        data: &dyn DataSource,
    ) -> Result<IndexMap<String, Tensor>, NotEquivalent> {
        let program = program(module, self.registry, data, self.same);
        let func = &self.options.func;
        let bindings = match which.is_first() {
            true => &self.options.bindings,
            false => self.renamed,
        };
        let outputs = match which {
            Execution::ReferenceA | Execution::ReferenceB => {
                run(program, &mut Logical, func, inputs, bindings)
            }
            Execution::NaiveA | Execution::NaiveB => {
                run(program, &mut Physical::default(), func, inputs, bindings)
            }
        };
        outputs.map_err(|e| self.failed(which, e))
    }

    /// The second program's outputs against the first one's.
    fn compare(
        &self,
        matching: &Matching,
        found: &IndexMap<String, Tensor>,
        wanted: &IndexMap<String, Tensor>,
    ) -> Result<(), NotEquivalent> {
        for (key_a, key_b) in &matching.results {
            compare(&found[key_b], &wanted[key_a]).map_err(|mismatch| {
                self.differs(
                    key_a,
                    Execution::ReferenceB,
                    Execution::ReferenceA,
                    mismatch,
                )
            })?;
        }
        Ok(())
    }

    /// Outputs of one program run in two ways.
    fn exact(
        &self,
        which: Execution,
        found: &IndexMap<String, Tensor>,
        wanted: Execution,
        expected: &IndexMap<String, Tensor>,
    ) -> Result<(), NotEquivalent> {
        for (key, tensor) in found {
            compare_exact(tensor, &expected[key])
                .map_err(|mismatch| self.differs(key, which, wanted, mismatch))?;
        }
        Ok(())
    }

    fn differs(
        &self,
        output: &str,
        which: Execution,
        wanted: Execution,
        mismatch: Mismatch,
    ) -> NotEquivalent {
        let (fill, seed) = (self.fill, self.seed);
        NotEquivalent::Differs {
            output: output.to_owned(),
            which,
            names: self.options.names.clone(),
            wanted,
            fill,
            seed,
            sizes: self.chosen(),
            mismatch: Box::new(mismatch),
        }
    }
}
