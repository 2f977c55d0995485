//! The answers about whole models: the places of their values, and what the executor finds there.

use indexmap::IndexMap;
use optc::exec::{ExecOptions, Executable, Isa};
use optc::interp::{
    FallbackSource, Fill, FolderSource, Mismatch, MismatchKind, RandomSource, compare,
    random_inputs,
};
use optc::{Answer, Bindings, Compiler, Dim, Func, Module, Program, Tensor, Value, find_target};
use optc_compare::nearby;
use optc_tests::answers::{Count, Pair, check, values, with_holders, with_values};
use optc_xtask::ChoreError;
use std::path::Path;
use std::sync::Arc;

const TARGETS: [&str; 4] = ["cpu", "onnxruntime", "tpu", "journey6"];

/// The most elements that one run returns; the values of a larger model are compared in several runs.
const MOST_ELEMENTS: u64 = 1 << 26;

/// The sizes that are tried for all names in the arguments of a model.
const SIZES: [u64; 10] = [32, 64, 16, 128, 256, 512, 8, 4, 2, 1];

/// The most differences that are printed for a model and target.
const MOST_PRINTED: usize = 5;

/// The runs on nearby inputs that show how far rounding leads.
const NEARBY: u64 = 4;

/// A model on one target.
struct Side {
    target: &'static str,
    compiler: Compiler,
    answer: Answer,
    pairs: Vec<Pair>,
    count: Count,
    compared: usize,
    /// Pairs that differ by no more than rounding makes.
    rounded: usize,
    problems: Vec<String>,
}

/// Checks the answers about these models for each target, and prints a line for each model and target.
pub(crate) fn run(models: &[String]) -> Result<(), ChoreError> {
    let mut wrong = 0;
    for path in models {
        wrong += model(path).map_err(ChoreError::of_model(path))?;
    }
    match wrong {
        0 => Ok(()),
        wrong => Err(ChoreError::Answers(wrong)),
    }
}

/// The number of wrong answers about a model.
fn model(path: &str) -> Result<usize, ChoreError> {
    let refused = |e: optc::Error| ChoreError::Refused(e.diagnostics);
    let program = Compiler::new().load(Path::new(path), None);
    let program = program.map_err(refused)?;
    let name = Path::new(path).file_name().unwrap_or_default();
    let mut sides = Vec::new();
    for target in TARGETS {
        let mut compiler = Compiler::new();
        compiler.target = Some(Arc::new(find_target(target).map_err(refused)?));
        let answer = match compiler.fold(&program) {
            Ok(answer) => answer,
            Err(error) => {
                let why = ChoreError::Refused(error.diagnostics);
                println!("{} {target}: refused: {why}", name.display());
                continue;
            }
        };
        let mut side = Side {
            target,
            answer,
            pairs: Vec::new(),
            count: Count::default(),
            compared: 0,
            rounded: 0,
            problems: Vec::new(),
            compiler,
        };
        let registry = side.compiler.registry();
        match check(&program.module, &side.answer, registry, &mut side.count) {
            Ok(pairs) => side.pairs = pairs,
            Err(problem) => side.problems.push(problem),
        }
        sides.push(side);
    }
    let not_run = compare_elements(&program, &mut sides).err();
    for side in &sides {
        println!("{} {}", name.display(), line(side));
        if let Some(why) = &not_run {
            println!("  the elements are not compared: {why}");
        }
        for problem in side.problems.iter().take(MOST_PRINTED) {
            println!("  wrong: {problem}");
        }
    }
    Ok(sides.iter().map(|side| side.problems.len()).sum())
}

fn line(side: &Side) -> String {
    let count = &side.count;
    let rearranged = [count.views, count.moved, count.computed];
    format!(
        "{}: values {}, held {}, holders {}, mapped {}, dead {}, inside {}, views {}, moved {}, computed {}, compared {} of {}, rounded {}, wrong {}",
        side.target,
        count.values,
        count.held,
        count.holders,
        count.mapped,
        count.dead,
        count.inside,
        rearranged[0],
        rearranged[1],
        rearranged[2],
        side.compared,
        side.pairs.len(),
        side.rounded,
        side.problems.len(),
    )
}

/// Runs the program that went in and the result of each target, and compares the values with their holders.
fn compare_elements(program: &Program, sides: &mut [Side]) -> Result<(), String> {
    let Some(func) = program.entry() else {
        return Err("there is no function".to_owned());
    };
    let plain = Compiler::new();
    let runner = Runner::new(program, func, &plain)?;
    let mut held: IndexMap<Value, &Pair> = IndexMap::new();
    let pairs: Vec<Vec<Pair>> = sides.iter().map(|side| side.pairs.clone()).collect();
    for pair in pairs.iter().flatten() {
        held.entry(pair.value).or_insert(pair);
    }
    let all = values(func).into_iter().filter(|v| held.contains_key(v));
    for part in runner.parts(func, all) {
        let asked: Vec<&Pair> = part.iter().map(|value| held[value]).collect();
        let stated = with_values(&program.module, &asked);
        let wanted = runner.run(&plain, stated, None)?;
        let wanted: IndexMap<Value, Tensor> = part.into_iter().zip(wanted).collect();
        for (side, pairs) in sides.iter_mut().zip(&pairs) {
            let pairs = pairs.iter().filter(|pair| wanted.contains_key(&pair.value));
            let pairs: Vec<&Pair> = pairs.collect();
            let made = with_holders(&side.answer, &pairs);
            match runner.run(&side.compiler, made, None) {
                Ok(found) => side.compare(&runner, &pairs, &found, &wanted),
                Err(problem) => side.problems.push(problem),
            }
        }
    }
    Ok(())
}

impl Side {
    /// Compares the elements of holders with those of the values.
    fn compare(
        &mut self,
        runner: &Runner<'_>,
        pairs: &[&Pair],
        found: &[Tensor],
        wanted: &IndexMap<Value, Tensor>,
    ) {
        self.compared += pairs.len();
        let both = pairs.iter().zip(found);
        let differing = both.filter_map(|(pair, found)| {
            let difference = compare(found, &wanted[&pair.value]).err()?;
            Some((*pair, difference))
        });
        let (asked, differences): (Vec<&Pair>, Vec<Mismatch>) = differing.unzip();
        if asked.is_empty() {
            return;
        }
        let stated = with_values(&runner.program.module, &asked);
        let isas = Isa::available().into_iter().rev().skip(1);
        let mut others = isas
            .filter_map(|isa| runner.run(&self.compiler, stated.clone(), Some(isa)).ok())
            .collect::<Vec<_>>();
        others.extend((0..NEARBY).filter_map(|seed| {
            let near = Runner {
                inputs: nearby(&runner.inputs, seed),
                ..runner.clone()
            };
            near.run(&self.compiler, stated.clone(), None).ok()
        }));
        for (i, (Pair { value, holder }, difference)) in asked.iter().zip(differences).enumerate() {
            let mut others = others.iter().map(|other| &other[i]);
            if others.any(|other| is_rounding(&difference, other, &wanted[value])) {
                self.rounded += 1;
            } else {
                let problem = format!("{value} at {holder}: {difference}");
                self.problems.push(problem);
            }
        }
    }
}

/// Returns whether a difference is no larger than one that rounding makes. The program that went in, with its sums or its
/// inputs rounded otherwise, then has one that is at least a quarter as large, and at least half as many that are above a
/// quarter of what is allowed. Elements at wrong places differ almost everywhere, and by as much as the elements
/// themselves.
fn is_rounding(found: &Mismatch, other: &Tensor, wanted: &Tensor) -> bool {
    let (least, largest) = match found.kind {
        MismatchKind::Float {
            difference,
            allowed,
            ..
        } => (allowed / 4.0, difference / 4.0),
        MismatchKind::Int { .. } => (0.0, 0.0),
        _ => return false,
    };
    let both = other.to_f64().into_iter().zip(wanted.to_f64());
    let distances = both.map(|(a, b)| (a - b).abs());
    let usual: Vec<f64> = distances.filter(|distance| least < *distance).collect();
    found.count <= 2 * usual.len() && usual.iter().any(|distance| largest <= *distance)
}

/// The inputs of a model, and the sizes of its names.
#[derive(Clone)]
struct Runner<'a> {
    program: &'a Program,
    inputs: IndexMap<String, Tensor>,
    bindings: Bindings,
}

impl<'a> Runner<'a> {
    /// A runner with the first sizes at which the model runs.
    fn new(program: &'a Program, func: &Func, compiler: &Compiler) -> Result<Runner<'a>, String> {
        let types = func.args.iter().filter_map(|&arg| func.ty(arg).as_tensor());
        let sizes = types.flat_map(|ty| &ty.dims).filter_map(Dim::size);
        let names: Vec<_> = sizes.flat_map(|size| size.names()).collect();
        let mut last = String::new();
        for size in SIZES {
            let bound = names.iter().map(|name| (name.clone(), size));
            let bindings = Bindings(bound.collect());
            let registry = compiler.registry();
            let inputs = random_inputs(
                &program.module,
                &func.name,
                Fill::Normal,
                0,
                &bindings,
                registry,
            );
            let runner = Runner {
                program,
                inputs: inputs.map_err(|e| e.to_string())?,
                bindings,
            };
            if names.is_empty() {
                return Ok(runner);
            }
            match runner.run(compiler, program.module.clone(), None) {
                Ok(_) => return Ok(runner),
                Err(why) => last = why,
            }
        }
        Err(last)
    }

    /// Values in parts of at most [`MOST_ELEMENTS`] elements.
    fn parts(&self, func: &Func, all: impl Iterator<Item = Value>) -> Vec<Vec<Value>> {
        let (mut parts, mut room) = (Vec::<Vec<Value>>::new(), 0);
        for value in all {
            let dims = func.ty(value).as_tensor().map_or(&[][..], |ty| &ty.dims);
            let sizes = dims.iter().map(|dim| self.bindings.size(dim).unwrap_or(1));
            let count = sizes.fold(1, u64::saturating_mul);
            match parts.last_mut().filter(|_| count <= room) {
                Some(part) => part.push(value),
                None => {
                    parts.push(vec![value]);
                    room = MOST_ELEMENTS;
                }
            }
            room = room.saturating_sub(count);
        }
        parts
    }

    /// The results of a module in the executor, without those of the program itself.
    fn run(
        &self,
        compiler: &Compiler,
        module: Module,
        isa: Option<Isa>,
    ) -> Result<Vec<Tensor>, String> {
        let own = self.program.entry().map_or(0, |func| func.results.len());
        let mut program = Program::built(&self.program.name, module);
        let planned = compiler.compile(&mut program, "bufferize,plan-memory");
        planned.map_err(|e| e.to_string())?;
        let data = FallbackSource {
            first: FolderSource::new(self.program.folder.clone()),
            second: RandomSource,
        };
        let made = Executable::new(
            &program.module,
            compiler.registry(),
            program.entry().map_or("main", |func| &*func.name),
            &self.inputs,
            &data,
            &self.bindings,
            &ExecOptions {
                poison: true,
                isa,
                ..ExecOptions::default()
            },
        );
        let results = made.and_then(|made| made.run(&self.inputs));
        let results = results.map_err(|diag| diag.message.clone())?;
        Ok(results.into_values().skip(own).collect())
    }
}

#[cfg(test)]
mod tests {
    use super::is_rounding;
    use optc::interp::compare;
    use optc::{DType, Tensor};

    #[test]
    fn rounding_is_told_from_elements_at_wrong_places() {
        let tensor =
            |of: &dyn Fn(u32) -> f64| Tensor::from_f64(DType::F32, vec![64], (0..64).map(of));
        let wanted = tensor(&|i| f64::from(i).sin());
        let other = tensor(&|i| f64::from(i).sin() + if i < 4 { 3e-4 } else { 0.0 });
        let near = tensor(&|i| f64::from(i).sin() - if i == 9 { 6e-4 } else { 0.0 });
        let turned = tensor(&|i| f64::from(63 - i).sin());
        let told = |found: &Tensor| {
            let difference = compare(found, &wanted).expect_err("they differ");
            is_rounding(&difference, &other, &wanted)
        };
        assert!(told(&near));
        assert!(!told(&turned));
    }
}
