//! `optc bench --calibrate`: measures the cost for the kernels of the orders that a target's rows call free, as ratios
//! to row-major orders in the same rounds, and writes the rows of `cpu` with the measured prices.

use crate::args::BenchArgs;
use crate::failure::{Failure, Status};
use crate::run::prepare;
use crate::streams::Streams;
use crate::terminal;
use indexmap::IndexMap;
use optc::exec::{ExecOptions, Executable};
use optc::{Compiler, PricedPort, Program, Row, Target, Tensor, When, write_aside};
use serde::Deserialize;
use std::fmt::Write as _;
use std::path::Path;

/// The target whose rows are those of the executor.
const TARGET: &str = "cpu";

/// A kernel with values in another order; `@` marks the types whose order changes.
#[derive(Deserialize)]
struct Case {
    family: String,
    /// The values that lie in the other order.
    name: String,
    /// The port whose price the case measures, if the row has one.
    #[serde(default)]
    port: Option<PricedPort>,
    /// The operations for which the row has the price.
    #[serde(default)]
    when: Option<When>,
    /// True if the price is for values in several runs, not for the innermost dimension.
    #[serde(default)]
    several_runs: bool,
    text: String,
    /// Orders, or layouts as they are written between braces.
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

/// The largest price that counts as noise, in units of a conversion's read and write.
const NOTHING: f64 = 0.1;

/// A port and operations of a row that have a price, and whether the price is for several runs.
type Priced = (PricedPort, Option<When>, bool);

/// The measurements of a family.
#[derive(Default)]
struct Found {
    ratios: Vec<String>,
    /// For each priced port and each case: the extra time of the kernel, in units of a conversion's reads or writes of
    /// the port.
    prices: IndexMap<Priced, Vec<f64>>,
    /// True if all cases have kernels of their own.
    kernel: bool,
}

impl Found {
    /// The price of a port as a factor of its bytes: the mean of its cases, or 0 if the mean is not distinguishable
    /// from 0.
    fn factor(&self, of: Priced) -> Option<f64> {
        let prices = self.prices.get(&of)?;
        let n = u32::try_from(prices.len()).ok().filter(|&n| n != 0)?;
        let mean = prices.iter().sum::<f64>() / f64::from(n);
        Some(if mean < NOTHING { 0.0 } else { mean })
    }
}

pub(super) fn command(
    args: &BenchArgs,
    to: &Path,
    streams: &mut Streams<'_>,
) -> Result<Status, Failure> {
    let compiler = Compiler::default();
    let options = ExecOptions {
        isa: args.instructions.isa,
        ..ExecOptions::default()
    };
    let mut text = format!(
        "{:<12} {:<40} {:<12} {:>10} {:>10} {:>6} {:>6}\n",
        "family", "what lies otherwise", "kernel", "ms", "row-major", "ratio", "price"
    );
    let mut families: IndexMap<&str, Found> = IndexMap::new();
    let cases = cases();
    for case in &cases {
        terminal::doing(|| format!("{}: {}", case.family, case.name));
        let Measured {
            seconds,
            kernel,
            ratio,
            price,
        } = Measured::of(case, &compiler, &options, args.runs)?;
        let _ = writeln!(
            text,
            "{:<12} {:<40} {kernel:<12} {:>10.3} {:>10.3} {ratio:>6.2} {:>6}",
            case.family,
            case.name,
            seconds[1] * 1e3,
            seconds[0] * 1e3,
            price.map_or_else(|| "-".to_owned(), |price| format!("{price:.2}"))
        );
        let found = families.entry(&case.family).or_insert_with(|| Found {
            kernel: true,
            ..Found::default()
        });
        found.kernel &= kernel != "generic";
        found.ratios.push(format!("{} {ratio:.2}", case.name));
        if let Some((port, price)) = case.port.zip(price) {
            let of = (port, case.when, case.several_runs);
            found.prices.entry(of).or_default().push(price);
        }
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

/// The times of a case.
struct Measured {
    /// The least seconds in row-major order, and in the other orders.
    seconds: [f64; 2],
    /// The kernel that runs the other orders.
    kernel: &'static str,
    /// The median of the ratios of a round: the time in the other orders to that in row-major order.
    ratio: f64,
    /// The median of the extra times, in units of a conversion's reads or writes of the port.
    price: Option<f64>,
}

impl Measured {
    fn of(
        case: &Case,
        compiler: &Compiler,
        options: &ExecOptions,
        runs: u32,
    ) -> Result<Measured, Failure> {
        let timed = |text: &str| Timed::of(compiler, options, &case.family, text);
        let mut both = [timed(&case.program(false))?, timed(&case.program(true))?];
        let conversion = case.port.map(|port| timed(&case.conversion(port)));
        let mut conversion = conversion.transpose()?;
        let (mut ratios, mut prices) = (Vec::new(), Vec::new());
        let (mut least, mut kernel) = ([f64::INFINITY; 2], "");
        for _ in 0..runs {
            let mut turn = [0.0; 2];
            for which in [0, 1, 1, 0] {
                let (seconds, name) = both[which].run()?;
                turn[which] += seconds / 2.0;
                least[which] = seconds.min(least[which]);
                kernel = name;
            }
            ratios.push(turn[1] / turn[0]);
            if let Some(conversion) = &mut conversion {
                let (seconds, _) = conversion.run()?;
                prices.push(2.0 * (turn[1] - turn[0]) / seconds);
            }
        }
        let median = |mut all: Vec<f64>| {
            all.sort_by(f64::total_cmp);
            all.get(all.len() / 2).copied()
        };
        Ok(Measured {
            seconds: least,
            kernel,
            ratio: median(ratios).unwrap_or(f64::NAN),
            price: median(prices),
        })
    }
}

/// One program of a case, with inputs.
struct Timed {
    executable: Executable,
    values: IndexMap<String, Tensor>,
    program: Program,
}

impl Timed {
    fn of(
        compiler: &Compiler,
        options: &ExecOptions,
        name: &str,
        text: &str,
    ) -> Result<Timed, Failure> {
        let mut program = compiler.parse(name, text)?;
        let values = super::made_up(compiler, &program, "main")?;
        let executable = prepare(compiler, &mut program, ("main", &values), options, true)?;
        Ok(Timed {
            executable,
            values,
            program,
        })
    }

    /// Processor seconds, and the kernel that took most of them.
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
    /// A function that converts the value at a port from the other order to the row-major one.
    fn conversion(&self, port: PricedPort) -> String {
        let operation = self.text.trim_end().lines().last().unwrap_or_default();
        let types = operation.rsplit_once(" : (").map_or("", |(_, types)| types);
        let mut all = types.split("tensor").skip(1).map(str::trim_end);
        let ty = match port {
            PricedPort::Left => all.next(),
            PricedPort::Right => all.nth(1),
            PricedPort::Result => all.last(),
        };
        let ty = ty
            .and_then(|ty| ty.split_once('@'))
            .map_or("", |(ty, _)| ty);
        // The number of the order among the case's orders: types before this one may have others.
        let before = types
            .split(ty)
            .next()
            .map_or(0, |text| text.matches('@').count());
        let n = self.orders.len().max(1);
        let order = self.orders.get(before % n).map_or("", String::as_str);
        let ty = format!("tensor{ty}");
        let (from, to) = (format!("{ty}, {}>", layout(order)), format!("{ty}>"));
        format!(
            "func.func @main(%x: {from}) -> ({to}) {{\n  %r = \"hbir.layout_convert\"(%x) : ({from}) -> {to}\n  \
             func.return %r : {to}\n}}\n"
        )
    }

    /// The function, row-major or in the other orders.
    fn program(&self, other: bool) -> String {
        let mut body = String::new();
        for (i, part) in self.text.trim_end().split('@').enumerate() {
            if 0 < i && other {
                let order = &self.orders[(i - 1) % self.orders.len().max(1)];
                let _ = write!(body, ", {}", layout(order));
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

/// A layout in braces, given as an order or as fields.
fn layout(order: &str) -> String {
    match order.contains('=') {
        true => format!("{{{order}}}"),
        false => format!("{{order = {order}}}"),
    }
}

/// The port and the operations for which a line of a target's file states a price, in a table of its own or in an
/// alternative.
fn priced_in(line: &str) -> Option<Priced> {
    #[derive(Deserialize)]
    struct Line {
        table: Table,
    }
    #[derive(Deserialize)]
    struct Table {
        port: PricedPort,
        #[serde(default)]
        when: Option<When>,
        #[serde(default)]
        several_runs: Vec<String>,
    }
    let start = line.find("{ port").or_else(|| line.find('{'))?;
    let end = start + line[start..].find('}')?;
    let line = toml::from_str::<Line>(&format!("table = {}", &line[start..=end]));
    let Line { table } = line.ok()?;
    Some((table.port, table.when, !table.several_runs.is_empty()))
}

/// The prices that a row states, in alternatives and in `slower`.
fn stated_by(row: &Row) -> Vec<Priced> {
    let of_take = row.take.iter().filter_map(|a| a.price);
    let of_take = of_take.map(|price| (price.port, None, false));
    let of_ports = row.slower.iter();
    let of_ports = of_ports.map(|s| (s.port, s.when, !s.several_runs.is_empty()));
    of_take.chain(of_ports).collect()
}

/// A line that states a price, with the measured price. An alternative whose price is 0 has none, and a line of `slower`
/// whose price is 0 goes.
fn repriced(line: &str, factor: f64) -> String {
    let (before, after) = line.split_once("factor = ").unwrap_or((line, ""));
    let after = after.trim_start_matches(|c: char| c.is_ascii_digit() || c == '.');
    if 0.0 < factor {
        return format!("{before}factor = {factor:.2}{after}\n");
    }
    let after = after.strip_prefix(" }").unwrap_or(after);
    match before.split_once(", price = {") {
        Some((alternative, _)) => format!("{alternative}{after}\n"),
        None => String::new(),
    }
}

/// The file of the target with the measured prices in its rows.
fn calibrated(families: &IndexMap<&str, Found>) -> String {
    let target = Target::builtin(TARGET).ok();
    let mut text = String::new();
    let mut in_row = false;
    let mut of: Vec<(&str, &Found)> = Vec::new();
    for line in Target::source(TARGET).unwrap_or_default().lines() {
        if line.starts_with('[') {
            in_row = line == "[[rows]]";
            of.clear();
        }
        let measured = line.starts_with("kernel = ") || line.starts_with("evidence = ");
        if in_row && measured {
            continue;
        }
        let price = line.contains("factor = ").then(|| priced_in(line));
        let factor = |price| of.iter().find_map(|(_, found)| found.factor(price));
        match price.flatten().and_then(factor) {
            Some(factor) => text.push_str(&repriced(line, factor)),
            None => {
                text.push_str(line);
                text.push('\n');
            }
        }
        let Some(names) = line.strip_prefix("families = ").filter(|_| in_row) else {
            continue;
        };
        let names = names.split('"').skip(1).step_by(2);
        of.extend(names.filter_map(|name| Some((name, families.get(name)?))));
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
        for (name, found) in &of {
            let row = target.as_ref().and_then(|target| target.row(name));
            text.push_str(&unstated(row, name, found));
        }
    }
    text.replace("slower = [\n]\n", "")
}

/// Comments about the measured prices of a family for which its row has no line.
fn unstated(row: Option<&Row>, name: &str, found: &Found) -> String {
    let stated = row.map_or_else(Vec::new, stated_by);
    let mut text = String::new();
    for &of in found.prices.keys().filter(|of| !stated.contains(of)) {
        let Some(factor) = found.factor(of).filter(|&factor| 0.0 < factor) else {
            continue;
        };
        let (port, when, several_runs) = (of.0.name(), of.1, of.2);
        let place = if several_runs {
            "several runs"
        } else {
            "the order"
        };
        let when = when.map_or_else(String::new, |when| format!(", {}", when.describe()));
        let _ = writeln!(
            text,
            "# Measured and stated by no line: {name} takes {factor:.2} times the bytes of {port} for {place}{when}."
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
                let text = case.program(other);
                let program = compiler.parse(&case.family, &text);
                let program = program.unwrap_or_else(|e| panic!("{text}: {e:?}"));
                assert_eq!(program.module.funcs.len(), 1);
            }
        }
    }

    #[test]
    fn every_price_is_measured_beside_a_conversion() {
        let compiler = Compiler::default();
        let mut all: IndexMap<&str, Vec<Priced>> = IndexMap::new();
        let cases = cases();
        for case in &cases {
            let Some(port) = case.port else { continue };
            let of = (port, case.when, case.several_runs);
            all.entry(&case.family).or_default().push(of);
            let text = case.conversion(port);
            let program = compiler.parse(&case.family, &text);
            let program = program.unwrap_or_else(|e| panic!("{text}: {e:?}"));
            assert_eq!(compiler.stats(&program).layout_convert, 1, "{text}");
        }
        let target = Target::builtin(TARGET).expect("it is built in");
        let mut prices = 0;
        for (family, row) in &target.families {
            for price in stated_by(row) {
                assert!(all[family.as_str()].contains(&price), "{family}: {price:?}");
                prices += 1;
            }
        }
        assert!(3 < prices);
        let lines = Target::source(TARGET).unwrap_or_default().lines();
        let lines = lines.filter(|line| line.contains("factor = "));
        assert!(lines.clone().all(|line| priced_in(line).is_some()));
        assert_eq!(lines.count(), prices);
    }

    #[test]
    fn measured_rows_are_a_target() {
        let row = |text: &str, family: &str| {
            let target = Target::parse(text).expect("it reads back");
            target.row(family).expect("the row is there").clone()
        };
        let softmax = |measured: Vec<f64>| Found {
            ratios: vec!["across lines 1.25".to_owned()],
            prices: IndexMap::from([((PricedPort::Left, None, false), measured)]),
            kernel: true,
        };
        let of_ports = [
            (PricedPort::Left, false, 0.25),
            (PricedPort::Result, false, 0.05),
            (PricedPort::Left, true, 0.5),
        ];
        let matrices = Some(When::Matrices);
        let prices = of_ports.map(|(port, runs, price)| ((port, matrices, runs), vec![price]));
        let matmul = Found {
            prices: IndexMap::from(prices),
            ..Found::default()
        };
        let families = [("softmax", softmax(vec![0.5, 1.0])), ("matmul", matmul)];
        let text = calibrated(&IndexMap::from(families));
        let found = row(&text, "softmax");
        assert!(found.kernel && found.evidence.contains("across lines 1.25"));
        let price = found.take.iter().find_map(|a| a.price);
        assert_eq!(price.expect("it has a price").of(1000), 750);
        let slower = row(&text, "matmul").slower;
        let factors: Vec<u64> = slower.iter().map(|s| s.factor.thousandths()).collect();
        assert_eq!(factors, [250, 500]);
        assert!(!row(&text, "conv").evidence.contains("1.25"));
        assert!(!text.contains("stated by no line"));
    }

    #[test]
    fn a_price_of_zero_is_no_price() {
        let found = |of: &[Priced], price: f64| Found {
            prices: of.iter().map(|&of| (of, vec![price])).collect(),
            ..Found::default()
        };
        let left = (PricedPort::Left, None, false);
        let matrices = |port: PricedPort, runs: bool| (port, Some(When::Matrices), runs);
        let of_matrices = [
            matrices(PricedPort::Left, false),
            matrices(PricedPort::Result, false),
            matrices(PricedPort::Left, true),
        ];
        let text = calibrated(&IndexMap::from([
            ("softmax", found(&[left], 0.05)),
            ("matmul", found(&of_matrices, 0.0)),
            ("norm", found(&[left], 0.35)),
            ("reduce", found(&[left], 0.05)),
        ]));
        let target = Target::parse(&text).expect("it reads back");
        let row = target.row("softmax").expect("the row is there");
        assert_eq!(row.take.len(), 2);
        assert!(row.take.iter().all(|a| a.price.is_none()));
        let row = target.row("matmul").expect("this too");
        assert!(row.slower.is_empty() && !text.contains("slower = ["));
        let comments: Vec<&str> = text.lines().filter(|l| l.contains("no line")).collect();
        let wanted = "# Measured and stated by no line: norm takes 0.35 times the bytes of left for the order.";
        assert_eq!(comments, [wanted]);
    }
}
