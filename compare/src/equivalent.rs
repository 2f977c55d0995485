//! Tests whether two programs compute the same.

use crate::inputs::{Fill, has_digit, nearby, random_inputs};
use crate::matching::Matching;
use crate::same::Same;
use crate::sizes::Choices;
use crate::tensors::{Mismatch, compare, compare_exact, differing};
use indexmap::IndexMap;
use optc_interp::{Beside, DataSource, Memo, Opaque, RunError, find_func};
use optc_ir::{Bindings, Module, Registry, Tensor};
use std::sync::Arc;
use thiserror::Error;

/// Options for the comparison of two programs.
#[derive(Clone, Debug)]
pub struct EquivalenceOptions {
    /// The name of the function, in both modules.
    pub func: String,
    /// The seeds of runs on ordinary inputs.
    pub seeds: Vec<u64>,
    /// The fills of further runs, each with the first seed (0 if there is none). A run on whose inputs the first
    /// program fails is skipped.
    pub edges: Vec<Fill>,
    /// True if both programs are also run on their physical layouts.
    pub naive: bool,
    /// True if opaque operations without effects stand for unknown functions of their operands. If false, a program
    /// with such an operation cannot be run.
    pub uninterpreted: bool,
    /// The names of the two programs in messages.
    pub names: Arc<[String; 2]>,
    /// The sizes of symbols, by the names of the first program. Each unbound name gets a size of its own, or all get
    /// the same size if the first program does not run otherwise. These sizes go up to
    /// [`DEFAULT_SIZE`](crate::DEFAULT_SIZE), and all values together have at most
    /// [`MAX_CHOSEN_ELEMENTS`](crate::MAX_CHOSEN_ELEMENTS) elements. One more run has small sizes.
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

/// One of the two programs and one of the two interpreters.
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
    /// Returns whether this is a run of the first program.
    #[must_use]
    pub fn is_first(self) -> bool {
        matches!(self, Execution::ReferenceA | Execution::NaiveA)
    }

    /// The program and interpreter in words, given the names of the programs.
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

/// The reason why two programs are not shown to be equivalent.
#[derive(Debug, Error)]
pub enum NotEquivalent {
    /// Their arguments or results do not match.
    #[error("{0}")]
    Boundary(String),
    /// One of them cannot be run.
    #[error("{} cannot be run ({fill:?}, seed {seed}{sizes}): {source}", which.describe(names))]
    Run {
        /// The program and interpreter.
        which: Execution,
        /// The names of the programs in messages.
        names: Arc<[String; 2]>,
        /// The fill of the inputs.
        fill: Fill,
        /// The seed of the inputs.
        seed: u64,
        /// The chosen sizes, as `, B = 128`; empty if all are given.
        sizes: String,
        /// The cause.
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
        /// The program and interpreter.
        which: Execution,
        /// The names of the programs in messages.
        names: Arc<[String; 2]>,
        /// The program and interpreter that it was compared with.
        wanted: Execution,
        /// The fill of the inputs.
        fill: Fill,
        /// The seed of the inputs.
        seed: u64,
        /// The sizes that were chosen, as above.
        sizes: String,
        /// The place and size of the difference.
        mismatch: Box<Mismatch>,
    },
}

/// Tests whether two programs compute the same on seeded inputs and edge values.
///
/// Arguments and results are matched by name if both programs have the same names, else by position. Named sizes may
/// have other names in the second program, one name for each.
///
/// Both programs run by the reference interpreter and must agree within the tolerance of [`compare`]. With `naive` each
/// program also runs on its layouts and must give the numbers of its own reference run exactly.
///
/// # Errors
/// The first difference, or the reason why one of the programs cannot be run.
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
    let matching =
        Matching::new(func_a, func_b, names).map_err(|e| NotEquivalent::Boundary(e.to_string()))?;
    let same = options
        .uninterpreted
        .then(|| Same::of([(a, func_a), (b, func_b)], registry));
    let opaque = |which: usize| {
        same.as_ref()
            .map_or(Opaque::Refused, |same| same.opaque(which))
    };
    let opaque = [opaque(0), opaque(1)];
    let first = options.seeds.first().copied().unwrap_or(0);
    let choices = Choices::new([(a, func_a), (b, func_b)], &options.bindings);
    // The sizes that the first program runs with, and its results on the first inputs.
    let works = |sizes: &Bindings| {
        let inputs = random_inputs(a, &options.func, Fill::Normal, first, sizes, registry)?;
        let program = Beside {
            module: a,
            registry,
            data: data_a,
            opaque: opaque[0],
            memo: None,
        };
        program.reference(&options.func, &inputs, &options.bindings)
    };
    let mut known = IndexMap::new();
    let sizes = match &choices.large[..] {
        [one] => one,
        several => first_that(several, &works, &mut known).unwrap_or(&several[0]),
    };
    let small = first_that(&choices.small, &works, &mut known);
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
            opaque,
            memo: Memo::default(),
        };
        let ran = known.shift_remove(&std::ptr::from_ref(sizes));
        let ran = ran.filter(|_| fill == Fill::Normal && seed == first);
        trial.agree([(a, data_a), (b, data_b)], &matching, ran)?;
    }
    Ok(())
}

/// The results of a program, by the sizes that it ran with.
type Known = IndexMap<*const Bindings, IndexMap<String, Tensor>>;

/// The first sizes with which a program runs.
fn first_that<'s>(
    all: &'s [Bindings],
    works: &impl Fn(&Bindings) -> Result<IndexMap<String, Tensor>, RunError>,
    known: &mut Known,
) -> Option<&'s Bindings> {
    all.iter().find(|sizes| {
        let outputs = works(sizes);
        let ran = outputs.is_ok();
        known.extend(
            outputs
                .ok()
                .map(|found| (std::ptr::from_ref(*sizes), found)),
        );
        ran
    })
}

/// The number of runs on nearby inputs that show where the first program is discontinuous.
const NEARBY: u64 = 4;

/// Returns whether two outputs differ only in elements at which the first program itself is discontinuous. Such an
/// element depends on which of several equal numbers is taken, or on a number that lies at a rounding boundary. Inputs
/// that are off by less than rounding then give other elements, too.
fn undecided<'t>(found: &Tensor, wanted: &Tensor, near: impl Iterator<Item = &'t Tensor>) -> bool {
    let Some(mut differs) = differing(found, wanted) else {
        return false;
    };
    for near in near {
        let jumps = differing(near, wanted).unwrap_or_default();
        for (differs, jumps) in differs.iter_mut().zip(jumps) {
            *differs &= !jumps;
        }
    }
    !differs.contains(&true)
}

/// A comparison on one set of inputs.
struct Trial<'a> {
    registry: &'a Registry,
    options: &'a EquivalenceOptions,
    /// The sizes that the caller gave, by the names of the second program.
    renamed: &'a Bindings,
    fill: Fill,
    seed: u64,
    /// The sizes of all names in the arguments.
    sizes: &'a Bindings,
    /// The meaning of opaque operations, in both programs.
    opaque: [Opaque<'a>; 2],
    /// Results of costly operations, kept for the other runs on these inputs.
    memo: Memo,
}

impl Trial<'_> {
    /// Runs both programs and compares. `ran` has the results of the first program, if they are known.
    fn agree(
        &self,
        [(a, data_a), (b, data_b)]: [(&Module, &dyn DataSource); 2],
        matching: &Matching,
        ran: Option<IndexMap<String, Tensor>>,
    ) -> Result<(), NotEquivalent> {
        let (func, options) = (&self.options.func, self.options);
        let inputs = random_inputs(a, func, self.fill, self.seed, self.sizes, self.registry);
        let inputs = inputs.map_err(|e| self.failed(Execution::ReferenceA, e))?;
        if let Fill::Unique(digit) = self.fill
            && 0 < digit
            && !has_digit(&inputs, digit)
        {
            return Ok(());
        }
        let outputs_a = match ran {
            Some(outputs) => outputs,
            None => match self.run(Execution::ReferenceA, a, &inputs, data_a) {
                // Inputs that the first program itself refuses, such as infinite positions, say nothing about the
                // second.
                Err(_) if self.fill != Fill::Normal => return Ok(()),
                outputs => outputs?,
            },
        };
        if options.naive {
            let naive = self.run(Execution::NaiveA, a, &inputs, data_a)?;
            self.exact(Execution::NaiveA, &naive, Execution::ReferenceA, &outputs_a)?;
        }
        let given = matching.inputs(inputs.clone());
        let outputs_b = self.run(Execution::ReferenceB, b, &given, data_b)?;
        let near = |seed| {
            let inputs = nearby(&inputs, seed);
            self.run(Execution::ReferenceA, a, &inputs, data_a).ok()
        };
        self.compare(matching, &outputs_b, &outputs_a, near)?;
        if options.naive {
            let naive = self.run(Execution::NaiveB, b, &given, data_b)?;
            self.exact(Execution::NaiveB, &naive, Execution::ReferenceB, &outputs_b)?;
        }
        Ok(())
    }

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
        let opaque = self.opaque[usize::from(!which.is_first())];
        let program = Beside {
            module,
            registry: self.registry,
            data,
            opaque,
            memo: Some(&self.memo),
        };
        let func = &self.options.func;
        let bindings = match which.is_first() {
            true => &self.options.bindings,
            false => self.renamed,
        };
        let outputs = match which {
            Execution::ReferenceA | Execution::ReferenceB => {
                program.reference(func, inputs, bindings)
            }
            Execution::NaiveA | Execution::NaiveB => program.naive(func, inputs, bindings),
        };
        outputs.map_err(|e| self.failed(which, e))
    }

    /// Compares the second program's outputs with the first one's.
    fn compare(
        &self,
        matching: &Matching,
        found: &IndexMap<String, Tensor>,
        wanted: &IndexMap<String, Tensor>,
        nearby: impl Fn(u64) -> Option<IndexMap<String, Tensor>>,
    ) -> Result<(), NotEquivalent> {
        let mut near: Vec<IndexMap<String, Tensor>> = Vec::new();
        for (key_a, key_b) in &matching.results {
            let (found, wanted) = (&found[key_b], &wanted[key_a]);
            let Err(mismatch) = compare(found, wanted) else {
                continue;
            };
            if near.is_empty() {
                near.extend((0..NEARBY).filter_map(&nearby));
            }
            let near = near.iter().filter_map(|near| near.get(key_a));
            if !undecided(found, wanted, near) {
                let both = (Execution::ReferenceB, Execution::ReferenceA);
                return Err(self.differs(key_a, both.0, both.1, mismatch));
            }
        }
        Ok(())
    }

    /// Compares the outputs of one program run in two ways.
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
