//! `optc bench --calibrate`: what the orders that a target's rows call free cost the kernels, as ratios to row-major ones in the
//! same rounds, and the rows of `cpu` with what was measured.

use crate::args::BenchArgs;
use crate::failure::{Failure, Status};
use crate::run::prepare;
use crate::streams::Streams;
use crate::terminal;
use indexmap::IndexMap;
use optc::exec::{ExecOptions, Executable};
use optc::{Compiler, Program, Target, Tensor, write_aside};
use serde::Deserialize;
use std::fmt::Write as _;
use std::path::Path;

/// The target whose rows are those of the executor.
const TARGET: &str = "cpu";

/// A kernel with values in another order: `@` is where a type names it.
#[derive(Deserialize)]
struct Case {
    family: String,
    /// What lies otherwise.
    name: String,
    text: String,
    orders: Vec<String>,
}

/// The cases, as a table of texts.
const CASES: &str = include_str!("cases.toml");

#[derive(Deserialize)]
struct Cases {
    case: Vec<Case>,
}

fn cases() -> Vec<Case> {
    toml::from_str::<Cases>(CASES).map_or_else(|_| Vec::new(), |cases| cases.case)
}

/// What was found of a family.
#[derive(Default)]
struct Found {
    ratios: Vec<String>,
    /// Whether all cases have kernels of their own.
    kernel: bool,
}

pub(super) fn command(
    args: &BenchArgs,
    to: &Path,
    streams: &mut Streams<'_>,
) -> Result<Status, Failure> {
    let compiler = Compiler::default();
    let mut text = format!(
        "{:<12} {:<40} {:<12} {:>10} {:>10} {:>6}\n",
        "family", "what lies otherwise", "kernel", "ms", "row-major", "ratio"
    );
    let mut families: IndexMap<&str, Found> = IndexMap::new();
    let cases = cases();
    for case in &cases {
        terminal::doing(|| format!("{}: {}", case.family, case.name));
        let mut both = [
            Timed::of(&compiler, case, false)?,
            Timed::of(&compiler, case, true)?,
        ];
        let mut ratios = Vec::new();
        let (mut least, mut kernel) = ([f64::INFINITY; 2], "");
        for _ in 0..args.runs {
            let mut turn = [0.0; 2];
            for which in [0, 1, 1, 0] {
                let (seconds, name) = both[which].run()?;
                turn[which] += seconds / 2.0;
                least[which] = seconds.min(least[which]);
                kernel = name;
            }
            ratios.push(turn[1] / turn[0]);
        }
        ratios.sort_by(f64::total_cmp);
        let ratio = ratios[ratios.len() / 2];
        let _ = writeln!(
            text,
            "{:<12} {:<40} {kernel:<12} {:>10.3} {:>10.3} {ratio:>6.2}",
            case.family,
            case.name,
            least[1] * 1e3,
            least[0] * 1e3
        );
        let found = families.entry(&case.family).or_insert_with(|| Found {
            kernel: true,
            ..Found::default()
        });
        found.kernel &= kernel != "generic";
        found.ratios.push(format!("{} {ratio:.2}", case.name));
    }
    let rows = calibrated(&families);
    if to.as_os_str() == "-" {
        text.push('\n');
        text.push_str(&rows);
    } else {
        write_aside(to, rows.as_bytes())?;
    }
    streams.print(&text);
    Ok(Status::Done)
}

/// One program of a case, with inputs.
struct Timed {
    executable: Executable,
    values: IndexMap<String, Tensor>,
    program: Program,
}

impl Timed {
    fn of(compiler: &Compiler, case: &Case, other: bool) -> Result<Timed, Failure> {
        let mut program = compiler.parse(&case.family, &case.program(other))?;
        let values = super::made_up(compiler, &program, "main")?;
        let executable = prepare(
            compiler,
            &mut program,
            ("main", &values),
            &ExecOptions::default(),
            true,
        )?;
        Ok(Timed {
            executable,
            values,
            program,
        })
    }

    /// Seconds of a processor, and the kernel that took most of them.
    fn run(&mut self) -> Result<(f64, &'static str), Failure> {
        let (_, profile) = self
            .executable
            .profile(&self.values)
            .map_err(|diag| self.program.error(vec![*diag]))?;
        let slowest = profile.steps.iter().max_by_key(|step| step.cpu);
        let kernel = slowest.map_or("none", |step| step.kernel);
        Ok((super::steps(&profile, 1).as_secs_f64(), kernel))
    }
}

impl Case {
    /// The function, row-major or with the other orders.
    fn program(&self, other: bool) -> String {
        let mut body = String::new();
        for (i, part) in self.text.trim_end().split('@').enumerate() {
            if 0 < i && other {
                let order = &self.orders[(i - 1) % self.orders.len().max(1)];
                let _ = write!(body, ", {{order = {order}}}");
            }
            body.push_str(part);
        }
        let operation = body.lines().last().unwrap_or_default();
        let (types, result) =
            operation
                .rsplit_once(") -> ")
                .map_or(("", ""), |(before, result)| {
                    (
                        before.rsplit_once(" : (").map_or("", |(_, types)| types),
                        result,
                    )
                });
        let names = operation
            .split_once('(')
            .and_then(|(_, rest)| rest.split_once(')'))
            .map_or("", |(names, _)| names);
        let arguments: Vec<String> = names
            .split(", ")
            .zip(types.split(", tensor"))
            .filter(|(name, _)| *name != "%i")
            .map(|(name, ty)| format!("{name}: tensor{}", ty.trim_start_matches("tensor")))
            .collect();
        format!(
            "func.func @main({}) -> ({result}) {{\n  {body}\n  func.return %r : {result}\n}}\n",
            arguments.join(", ")
        )
    }
}

/// The file of the target with what was measured in its rows.
fn calibrated(families: &IndexMap<&str, Found>) -> String {
    let mut text = String::new();
    let mut in_row = false;
    for line in Target::source(TARGET).unwrap_or_default().lines() {
        if line.starts_with('[') {
            in_row = line == "[[rows]]";
        }
        let measured = line.starts_with("kernel = ") || line.starts_with("evidence = ");
        if in_row && measured {
            continue;
        }
        text.push_str(line);
        text.push('\n');
        let Some(names) = line.strip_prefix("families = ").filter(|_| in_row) else {
            continue;
        };
        let names = names.split('"').skip(1).step_by(2);
        let of: Vec<(&str, &Found)> = names
            .filter_map(|name| Some((name, families.get(name)?)))
            .collect();
        if of.is_empty() {
            continue;
        }
        let all = of.iter().all(|(_, found)| found.kernel);
        let _ = writeln!(text, "kernel = {all}");
        let ratios: Vec<String> = of
            .iter()
            .map(|(name, found)| format!("{name} {}", found.ratios.join(", ")))
            .collect();
        let _ = writeln!(
            text,
            "evidence = \"`optc bench --calibrate`, times as long as row-major: {}\"",
            ratios.join("; ")
        );
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_case_runs_in_both_orders() {
        let compiler = Compiler::default();
        let cases = cases();
        assert!(10 < cases.len());
        for case in &cases {
            for other in [false, true] {
                let program = compiler.parse(&case.family, &case.program(other));
                let program = program.unwrap_or_else(|e| panic!("{}: {e:?}", case.program(other)));
                assert_eq!(program.module.funcs.len(), 1);
            }
        }
    }

    #[test]
    fn measured_rows_are_a_target() {
        let mut families = IndexMap::new();
        let found = Found {
            ratios: vec!["across lines 1.25".to_owned()],
            kernel: true,
        };
        families.insert("norm", found);
        let text = calibrated(&families);
        let target = Target::parse(&text).expect("it reads back");
        let row = target.row("norm").expect("the row is there");
        assert!(row.kernel && row.evidence.contains("across lines 1.25"));
        assert!(
            !target
                .row("conv")
                .expect("this one too")
                .evidence
                .contains("1.25")
        );
    }
}
