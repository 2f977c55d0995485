//! `optc bench`: times a program in the physical executor, as a whole and step by step.

mod calibrate;

use crate::args::{BenchArgs, Versus};
use crate::driver::Main;
use crate::failure::{Failure, Status};
use crate::inputs::{self, Input};
use crate::run::{prepare, read_values};
use crate::streams::Streams;
use crate::terminal;
use cpu_time::ThreadTime;
use indexmap::IndexMap;
use optc::exec::{ExecOptions, Executable, Profile, StepProfile};
use optc::interp::{Fill, compare, compare_exact, random_inputs, run_reference};
use optc::{Compiler, Program, Tensor, write_aside};
use serde_json::json;
use std::fmt::Write as _;
use std::path::Path;
use std::time::Duration;

/// The number of slowest steps in the table.
const SLOWEST: usize = 10;

/// A program that is timed.
struct Timed {
    name: &'static str,
    executable: Executable,
    threads: usize,
    best: Option<Profile>,
    times: Vec<Duration>,
}

pub(crate) fn command(
    driver: &Main,
    args: &BenchArgs,
    streams: &mut Streams<'_>,
) -> Result<Status, Failure> {
    if let Some(to) = &args.calibrate {
        return calibrate::command(args, to, streams);
    }
    let Some(input) = &args.input else {
        return Err(Failure::usage("there is no program\n".to_owned()));
    };
    let compiler = inputs::compiler(driver, &args.compile)?;
    let [before, program] = passed(&compiler, args, input, streams)?;
    let name = inputs::function(&program, args.func.as_deref())?;
    let values = match &args.inputs {
        Some(path) => read_values(&program, &name, Some(path), &compiler.bindings)?,
        None => made_up(&compiler, &program, &name)?,
    };
    let options = ExecOptions {
        memory_limit: args.memory_limit,
        threads: usize::from(args.threads),
        tiles: args.tiles || args.vs == Some(Versus::Untiled),
        isa: args.instructions.isa,
        ..ExecOptions::default()
    };
    let case = Case {
        compiler: &compiler,
        program: &program,
        func: &name,
        values: &values,
    };
    let mut all = vec![case.timed("program", &program, &options)?];
    match args.vs {
        Some(Versus::Before) => all.push(case.timed("before", &before, &options)?),
        Some(Versus::Untiled) => {
            let untiled = ExecOptions {
                tiles: false,
                ..options.clone()
            };
            all.push(case.timed("untiled", &program, &untiled)?);
        }
        Some(Versus::Reference) | None => {}
    }
    case.run_in_turn(&mut all, args.runs)?;
    let mut text = String::new();
    all.iter().for_each(|timed| timed.write(&mut text));
    if let [after, before] = &all[..] {
        let _ = writeln!(
            text,
            "{} / program {:.3}",
            before.name,
            before.median() / after.median()
        );
    }
    let differs = match args.vs {
        Some(Versus::Reference) => case.beside_reference(&mut all[0], &mut text)?,
        Some(Versus::Untiled) => {
            // One more run, in memory that exposes reads of bytes that were never written.
            let poisoned = ExecOptions {
                poison: true,
                ..options.clone()
            };
            let checked = case.timed("poisoned", &program, &poisoned)?.executable;
            case.beside_untiled([&checked, &all[1].executable], &mut text)?
        }
        Some(Versus::Before) | None => None,
    };
    streams.print(&text);
    if let (Some(path), Some(best)) = (&args.trace, &all[0].best) {
        write_aside(path, trace(best).as_bytes())?;
    }
    match differs {
        Some(differs) => Err(Failure::check(differs + "\n")),
        None => Ok(Status::Done),
    }
}

/// The program before and after the passes.
fn passed(
    compiler: &Compiler,
    args: &BenchArgs,
    input: &Path,
    streams: &mut Streams<'_>,
) -> Result<[Program; 2], Failure> {
    let stages = inputs::stages(compiler, &args.compile, "")?;
    let input = Input::read(input, streams)?;
    let mut program = input.program(compiler, args.compile.from.as_deref())?;
    inputs::set_data(&mut program, args.compile.data.as_deref())?;
    inputs::check_bindings(&args.compile.bind, &[&program])?;
    let before = program.clone();
    let mut cx = inputs::context(compiler, &program, &args.compile)?;
    terminal::doing(|| format!("{}: passes", program.name));
    compiler.run_passes(
        &mut program,
        &stages,
        &mut cx,
        &mut optc::passes::Hooks::default(),
    )?;
    Ok([before, program])
}

/// A function on inputs, whose results are compared.
struct Case<'a> {
    compiler: &'a Compiler,
    program: &'a Program,
    func: &'a str,
    values: &'a IndexMap<String, Tensor>,
}

impl Case<'_> {
    /// A program that is timed on the inputs.
    fn timed(
        &self,
        name: &'static str,
        program: &Program,
        options: &ExecOptions,
    ) -> Result<Timed, Failure> {
        let values = (self.func, self.values);
        let executable = prepare(self.compiler, &mut program.clone(), values, options, true)?;
        Ok(Timed {
            name,
            executable,
            threads: options.threads,
            best: None,
            times: Vec::new(),
        })
    }

    /// Runs programs by turns. The direction alternates from round to round, so that no program always runs after the
    /// same one.
    fn run_in_turn(&self, all: &mut [Timed], runs: u32) -> Result<(), Failure> {
        let name = &self.program.name;
        for round in 0..runs {
            terminal::doing(|| format!("{name}: run {} of {runs}", round + 1));
            let (first, last) = (round % 2 == 0, all.len());
            for at in 0..last {
                let at = if first { at } else { last - 1 - at };
                all[at].run(self.program, self.values)?;
            }
        }
        Ok(())
    }

    fn run(&self, executable: &Executable) -> Result<IndexMap<String, Tensor>, Failure> {
        let results = executable.run(self.values);
        Ok(results.map_err(|diag| self.program.error(vec![*diag]))?)
    }

    /// Times the reference interpreter; the first result that differs from its own.
    fn beside_reference(
        &self,
        timed: &mut Timed,
        text: &mut String,
    ) -> Result<Option<String>, Failure> {
        let Case {
            compiler, program, ..
        } = *self;
        let data = inputs::weights(program, true);
        let (module, registry) = (&program.module, compiler.registry());
        terminal::doing(|| format!("{}: the reference", program.name));
        let start = ThreadTime::now();
        let bindings = &compiler.bindings;
        let wanted = run_reference(module, registry, self.func, self.values, &*data, bindings)
            .map_err(|e| program.error(vec![e.to_diagnostic()]))?;
        let time = start.elapsed().as_secs_f64();
        let ratio = time / timed.median();
        let _ = writeln!(
            text,
            "reference {:.3} ms, reference / program {ratio:.3}",
            time * 1e3
        );
        let found = self.run(&timed.executable)?;
        let differs = wanted.iter().find_map(|(key, wanted)| {
            let mismatch = compare(found.get(key)?, wanted).err()?;
            Some(format!("result `{key}`: {mismatch}"))
        });
        if differs.is_none() {
            text.push_str("the results agree with the reference\n");
        }
        Ok(differs)
    }

    /// The first result of a program on tiles that differs from that of the untiled program.
    fn beside_untiled(
        &self,
        [tiled, untiled]: [&Executable; 2],
        text: &mut String,
    ) -> Result<Option<String>, Failure> {
        let (found, wanted) = (self.run(tiled)?, self.run(untiled)?);
        let differs = wanted.iter().find_map(|(key, wanted)| {
            let mismatch = compare_exact(found.get(key)?, wanted).err()?;
            Some(format!("result `{key}` on tiles and untiled: {mismatch}"))
        });
        if differs.is_none() {
            text.push_str("the results are those of the untiled program, bit for bit\n");
        }
        Ok(differs)
    }
}

fn made_up(
    compiler: &Compiler,
    program: &Program,
    func: &str,
) -> Result<IndexMap<String, Tensor>, Failure> {
    let (module, registry) = (&program.module, compiler.registry());
    let inputs = random_inputs(module, func, Fill::Normal, 0, &compiler.bindings, registry);
    Ok(inputs.map_err(|e| program.error(vec![e.to_diagnostic()]))?)
}

impl Timed {
    fn run(&mut self, program: &Program, values: &IndexMap<String, Tensor>) -> Result<(), Failure> {
        let profile = self.executable.profile(values);
        let (_, profile) = profile.map_err(|diag| program.error(vec![*diag]))?;
        let time = steps(&profile, self.threads);
        self.times.push(time);
        let best = self.best.as_ref();
        if best.is_none_or(|best| time < steps(best, self.threads)) {
            self.best = Some(profile);
        }
        Ok(())
    }

    /// The median in seconds.
    fn median(&self) -> f64 {
        let mut times = self.times.clone();
        times.sort_unstable();
        times
            .get(times.len() / 2)
            .map_or(0.0, Duration::as_secs_f64)
    }

    fn write(&self, text: &mut String) {
        let Some(best) = &self.best else { return };
        let least = steps(best, self.threads).as_secs_f64();
        let _ = writeln!(
            text,
            "{}: median {:.3} ms {}, least {:.3} ms, {} runs, {} steps",
            self.name,
            self.median() * 1e3,
            match self.threads {
                1 => "of a processor".to_owned(),
                n => format!("on {n} threads"),
            },
            least * 1e3,
            self.times.len(),
            best.steps.len()
        );
        let rate = best.bytes() as f64 / least.max(1e-9) / 1e9;
        let rows = [
            ("bytes of operands and results", best.bytes()),
            ("moved without computing", best.moved()),
            ("of them staged", best.staged()),
            ("memory", self.executable.memory_bytes()),
        ];
        for (name, n) in rows {
            let _ = writeln!(text, "  {name:<30} {n:>16}");
        }
        let _ = writeln!(text, "  {:<30} {rate:>13.3} GB/s", "bandwidth");
        for untiled in self.executable.untiled() {
            let _ = writeln!(
                text,
                "  group {} is run untiled: {}",
                untiled.group, untiled.why
            );
        }
        table(text, best, self.threads);
    }
}

/// The time of a step: of the processor, or of the clock if threads share the work.
fn took(step: &StepProfile, threads: usize) -> Duration {
    match threads {
        1 => step.cpu,
        _ => step.time,
    }
}

/// The time of the steps, without filling arguments and reading results.
fn steps(profile: &Profile, threads: usize) -> Duration {
    profile.steps.iter().map(|s| took(s, threads)).sum()
}

/// The kinds of operations with their kernels, and the slowest steps.
fn table(text: &mut String, profile: &Profile, threads: usize) {
    let whole = steps(profile, threads).as_secs_f64();
    let mut kinds: IndexMap<(&str, &str), (usize, f64, u64)> = IndexMap::new();
    for step in &profile.steps {
        let kind = kinds.entry((&step.op, step.kernel)).or_default();
        kind.0 += 1;
        kind.1 += took(step, threads).as_secs_f64();
        kind.2 += step.bytes;
    }
    kinds.sort_by(|_, a, _, b| b.1.total_cmp(&a.1));
    let _ = writeln!(
        text,
        "  {:<20} {:<12} {:>6} {:>10} {:>6} {:>9}",
        "operation", "kernel", "steps", "ms", "%", "GB/s"
    );
    for ((op, kernel), (count, seconds, bytes)) in kinds {
        let share = 100.0 * seconds / whole.max(1e-9);
        let rate = bytes as f64 / seconds.max(1e-9) / 1e9;
        let _ = writeln!(
            text,
            "  {op:<20} {kernel:<12} {count:>6} {:>10.3} {share:>6.1} {rate:>9.3}",
            seconds * 1e3
        );
    }
    let mut slowest: Vec<&StepProfile> = profile.steps.iter().collect();
    slowest.sort_by_key(|step| std::cmp::Reverse(took(step, threads)));
    let _ = writeln!(text, "  slowest steps");
    for step in slowest.into_iter().take(SLOWEST) {
        let ms = took(step, threads).as_secs_f64() * 1e3;
        let _ = writeln!(
            text,
            "  {:<20} {:<12} {ms:>10.3} ms  {}",
            step.op, step.kernel, step.source
        );
    }
}

/// The steps as Chrome's trace events.
fn trace(profile: &Profile) -> String {
    let event = |step: &StepProfile| {
        json!({
            "name": step.op,
            "cat": step.kernel,
            "ph": "X",
            "pid": 1,
            "tid": 1,
            "ts": step.begin.as_secs_f64() * 1e6,
            "dur": step.time.as_secs_f64() * 1e6,
            "args": {
                "source": step.source,
                "bytes": step.bytes,
                "cpu": step.cpu.as_secs_f64() * 1e6,
                "threads": step.threads,
                "staged": step.staged,
                "moved": step.moved,
            },
        })
    };
    let events: Vec<_> = profile.steps.iter().map(event).collect();
    format!(
        "{:#}\n",
        json!({ "traceEvents": events, "displayTimeUnit": "ms" })
    )
}
