//! The gain of the fold in execution: unfolded programs, folded ones, and unfolded ones without any moves, in turns.
//!
//! ```sh
//! cargo bench -p optc-bench --bench execution                        # the models and blocks in tests
//! cargo bench -p optc-bench --bench execution -- a.onnx b.onnx --rounds=20
//! cargo bench -p optc-bench --bench execution -- a.onnx --steps          # where the time goes, by operation and kernel
//! cargo bench -p optc-bench --bench execution -- --recurrent             # LSTM, GRU and plain networks, with files after it those too
//! cargo bench -p optc-bench --bench execution -- --layout-bound          # windows, shuffled channels, pixels and heads, in three types
//! cargo bench -p optc-bench --bench execution -- --layout-bound=heads    # those with this in their names
//! cargo bench -p optc-bench --bench execution -- --layout-bound --tiled  # groups tile by tile, beside the same program untiled
//! ```
//!
//! All runs are on one thread; times are processor time of the steps. `A` is the program as it was read, with every
//! transpose, copy and non-view reshape executed. `B` is folded for `cpu`. `C` is `A` without the steps that only move:
//! its values are wrong but its sizes are right, so it is the ceiling of the gain.
//!
//! A round is A-B-C-C-B-A; each program's time is the mean of its two. A copy of 32 MB is timed around each of the six
//! runs; a round is discarded if its slowest copy takes more than 1.25 times the usual. `A / B` is the speedup of the
//! folded program. `gain` is the relative reduction of `B` and of `C` below `A`, the median over rounds. `share` is the
//! fraction of the ceiling that the fold reaches, with the lower end of a 95 % bootstrap interval over rounds.
//!
//! With `--tiled` a round is U-T-T-U of one program, folded and with a plan of tiles for `cpu`: untiled, and with its
//! groups tile by tile.
#![expect(clippy::print_stdout, reason = "a benchmark prints its figures")]

use indexmap::IndexMap;
use optc_compare::{Fill, RandomSource, random_inputs};
use optc_exec::{ExecOptions, Executable};
use optc_interp::{FallbackSource, FolderSource};
use optc_ir::{Bindings, Diagnostic, Module, Registry, Tensor, text};
use optc_passes::manager::{Hooks, run};
use optc_passes::{PassContext, PassList};
use optc_target::Target;
use optc_tests::layout_bound::{Numbers, blocks};
use std::hint::black_box;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, Instant};

const ROUNDS: usize = 12;
const FOLD: &str = "inline,canonicalize,view-fold,bufferize,plan-memory";
const TILES: &str = "inline,canonicalize,view-fold,tile-propagate,bufferize,plan-memory";
const PLAN: &str = "inline,bufferize,plan-memory";
/// The size in bytes of the copy that detects disturbances of the machine, and the largest accepted slowdown of it.
const CANARY: usize = 32 << 20;
const DISTURBED: f64 = 1.25;
/// The number of bootstrap samples.
const SAMPLES: usize = 4000;

fn main() {
    let args: Vec<String> = std::env::args().skip(1).collect();
    let registry = Arc::new(optc_ops::registry());
    let rounds = args
        .iter()
        .find_map(|a| a.strip_prefix("--rounds=")?.parse().ok());
    let mut paths: Vec<PathBuf> = args
        .iter()
        .filter(|a| !a.starts_with('-'))
        .map(PathBuf::from)
        .collect();
    let bound = args.iter().find_map(|a| a.strip_prefix("--layout-bound"));
    let recurrent = args.iter().any(|a| a == "--recurrent");
    if paths.is_empty() && bound.is_none() && !recurrent {
        let root = optc_tests::paths::root();
        paths = optc_tests::paths::files(&root.join("tests/models"), "onnx");
        paths.extend(optc_tests::paths::files(&root.join("tests/blocks"), "ir"));
    }
    let by_step = args.iter().any(|a| a == "--steps");
    let tiled = args.iter().any(|a| a == "--tiled");
    if tiled {
        println!(
            "| program | groups | left | untiled ms | tiled ms | rounds | untiled / tiled | from | to | moved untiled MB | moved tiled MB |"
        );
        println!("|---|{}", "---|".repeat(10));
    } else if by_step {
        println!("| program | operation | kernel | steps A | A ms | steps B | B ms | C ms |");
        println!("|---|{}", "---|".repeat(7));
    } else {
        heading();
    }
    let mut canary = Canary::new();
    let count = rounds.unwrap_or(ROUNDS);
    let mut tried = |name: &str, module: Result<Module, String>, folder: &Path| {
        if tiled {
            let pair = module.and_then(|module| Pair::of(&module, folder, &registry));
            match pair.and_then(|pair| pair.row(name, count, &mut canary)) {
                Ok(row) => println!("{row}"),
                Err(why) => println!("| {name} | {why} |"),
            }
            return;
        }
        match module.and_then(|module| Trial::of(&module, folder, &registry)) {
            Ok(trial) if by_step => trial.steps(name, count),
            Ok(trial) => trial.row(name, count, &mut canary),
            Err(why) => println!("| {name} | {why} |"),
        }
    };
    for path in paths {
        let name = path.file_stem().unwrap_or_default().to_string_lossy();
        let folder = path.parent().unwrap_or(Path::new("."));
        tried(&name, read(&path), folder);
    }
    for &network in NETWORKS.iter().filter(|_| recurrent) {
        let module = text::parse(&network_text(network)).map_err(first);
        tried(network.0, module, Path::new("."));
    }
    let wanted = bound.map(|of| of.trim_start_matches('='));
    let blocks = Numbers::ALL.iter().flat_map(|&n| blocks(n, false));
    for block in blocks.filter(|b| wanted.is_some_and(|part| b.name.contains(part))) {
        let module = text::parse(&block.text).map_err(first);
        tried(&block.name, module, Path::new("."));
    }
}

/// Recurrent networks: a name; the cell with its number of gates and of kept states; the direction; and the sizes:
/// steps, sequences, inputs and states.
type Network = (
    &'static str,
    (&'static str, usize, usize),
    &'static str,
    [usize; 4],
);

const NETWORKS: &[Network] = &[
    ("gru_24x2x256", ("gru", 3, 1), "forward", [24, 2, 256, 256]),
    (
        "gru_200x1x256",
        ("gru", 3, 1),
        "bidirectional",
        [200, 1, 128, 256],
    ),
    (
        "lstm_32x1x128",
        ("lstm", 4, 2),
        "forward",
        [32, 1, 128, 128],
    ),
    (
        "lstm_20x8x512",
        ("lstm", 4, 2),
        "bidirectional",
        [20, 8, 512, 512],
    ),
    ("plain_64x4x96", ("plain", 1, 1), "reverse", [64, 4, 96, 96]),
];

/// A network with random weights.
fn network_text((_, (cell, gates, kept), direction, sizes): Network) -> String {
    let [steps, batch, read, hidden] = sizes;
    let directions = if direction == "bidirectional" { 2 } else { 1 };
    let rows = gates * hidden;
    let (mut lines, mut types) = (String::new(), format!("tensor<{steps}x{batch}x{read}xf32>"));
    let x = types.clone();
    let shapes = [vec![rows, read], vec![rows, hidden], vec![2 * rows]];
    for (i, shape) in shapes.into_iter().enumerate() {
        let bytes = 4 * directions * shape.iter().product::<usize>();
        let dims: String = shape.iter().map(|n| format!("{n}x")).collect();
        let ty = format!("tensor<{directions}x{dims}f32>");
        lines += &format!(
            "  %w{i} = \"hbir.constant\"() <{{data = #hbir.external<\"w{i}\", 0, {bytes}>}}> : () -> {ty}\n"
        );
        types += &format!(", {ty}");
    }
    let last = format!("tensor<{directions}x{batch}x{hidden}xf32>");
    let mut results = vec![format!("tensor<{steps}x{directions}x{batch}x{hidden}xf32>")];
    results.resize(1 + kept, last);
    let names: Vec<String> = (0..=kept).map(|i| format!("%{i}")).collect();
    let (names, results) = (names.join(", "), results.join(", "));
    let linear = if cell == "gru" {
        ", linear_before_reset = true"
    } else {
        ""
    };
    format!(
        "func.func @main(%x: {x}) -> ({results}) {{\n{lines}  {names} = \"hbir.recurrent\"(%x, %w0, %w1, %w2) \
         <{{cell = \"{cell}\", direction = \"{direction}\"{linear}}}> : ({types}) -> ({results})\n  return {names} : {results}\n}}\n"
    )
}

fn heading() {
    println!(
        "| program | A ms | B ms | C ms | rounds | A / B | gain B % | gain C % | share % | at least % | moved A MB | moved B MB |"
    );
    println!("|---|{}", "---|".repeat(11));
}

/// A copy that always takes the same time, unless other processes disturb the machine.
struct Canary {
    from: Vec<u8>,
    to: Vec<u8>,
}

impl Canary {
    fn new() -> Canary {
        Canary {
            from: vec![1; CANARY],
            to: vec![0; CANARY],
        }
    }

    /// The time of a copy in seconds, after one copy that faults its pages in.
    fn time(&mut self) -> f64 {
        self.copy();
        self.copy().min(self.copy())
    }

    fn copy(&mut self) -> f64 {
        let start = Instant::now();
        self.to.copy_from_slice(black_box(&self.from));
        black_box(&mut self.to);
        start.elapsed().as_secs_f64()
    }
}

/// The three programs and their inputs.
struct Trial {
    programs: [Executable; 3],
    inputs: IndexMap<String, Tensor>,
}

/// The processor time of each program in a round, in seconds, and the slowest canary.
type Round = ([f64; 3], f64);

/// An operation and its kernel.
type Kind = (String, &'static str);

/// The least time of a turn in seconds: a faster program runs several times in its turn.
const TURN: f64 = 0.01;

impl Trial {
    fn of(module: &Module, folder: &Path, registry: &Arc<Registry>) -> Result<Trial, String> {
        let main = module.funcs.first().ok_or("no function")?.name.to_string();
        let bindings = Bindings::default();
        let inputs = random_inputs(module, &main, Fill::Normal, 1, &bindings, registry);
        let inputs = inputs.map_err(|e| e.to_string())?;
        let unfolded = planned(module, PLAN, registry)?;
        let folded = planned(module, FOLD, registry)?;
        let data = FallbackSource {
            first: FolderSource::new(folder.to_owned()),
            second: RandomSource,
        };
        let made = |module: &Module, skip_moves: bool| {
            let options = ExecOptions {
                skip_moves,
                ..ExecOptions::default()
            };
            let made =
                Executable::new(module, registry, &main, &inputs, &data, &bindings, &options);
            made.map_err(|d| d.message)
        };
        let programs = [
            made(&unfolded, false)?,
            made(&folded, false)?,
            made(&unfolded, true)?,
        ];
        Ok(Trial { programs, inputs })
    }

    /// The processor time of all steps in seconds, and the bytes of moves.
    fn once(&self, program: usize) -> Result<(f64, u64), String> {
        let (_, profile) = self.programs[program]
            .profile(&self.inputs)
            .map_err(|d| d.message)?;
        let cpu: Duration = profile.steps.iter().map(|step| step.cpu).sum();
        Ok((cpu.as_secs_f64(), profile.moved()))
    }

    /// Prints the time by operation and kernel: medians over rounds of the three programs.
    fn steps(&self, name: &str, count: usize) {
        let mut found: IndexMap<Kind, [Vec<(usize, f64)>; 3]> = IndexMap::new();
        for _ in 0..count {
            for program in [0, 1, 2] {
                let profile = match self.programs[program].profile(&self.inputs) {
                    Ok((_, profile)) => profile,
                    Err(why) => return println!("| {name} | {} |", why.message),
                };
                let mut sums: IndexMap<Kind, (usize, f64)> = IndexMap::new();
                for step in profile.steps {
                    let sum = sums.entry((step.op, step.kernel)).or_default();
                    *sum = (sum.0 + 1, sum.1 + step.cpu.as_secs_f64() * 1e3);
                }
                for (key, sum) in sums {
                    found.entry(key).or_default()[program].push(sum);
                }
            }
        }
        let ms = |runs: &[(usize, f64)]| match runs {
            [] => 0.0,
            _ => median(runs.iter().map(|(_, ms)| *ms).collect()),
        };
        let steps = |runs: &[(usize, f64)]| runs.first().map_or(0, |(n, _)| *n);
        found.sort_by(|_, a, _, b| ms(&b[0]).total_cmp(&ms(&a[0])));
        for ((op, kernel), [a, b, c]) in &found {
            println!(
                "| {name} | {op} | {kernel} | {} | {:.3} | {} | {:.3} | {:.3} |",
                steps(a),
                ms(a),
                steps(b),
                ms(b),
                ms(c),
            );
        }
    }

    fn round(&self, turns: usize, canary: &mut Canary) -> Result<Round, String> {
        let (mut times, mut slowest) = ([0.0; 3], canary.time());
        for program in [0, 1, 2, 2, 1, 0] {
            for _ in 0..turns {
                times[program] += self.once(program)?.0 / (2 * turns) as f64;
            }
            slowest = slowest.max(canary.time());
        }
        Ok((times, slowest))
    }

    fn row(&self, name: &str, count: usize, canary: &mut Canary) {
        let measured = || {
            let moved = [self.once(0)?.1, self.once(1)?.1];
            let (once, _) = self.round(1, canary)?;
            let turns = (TURN / once[0]).ceil().clamp(1.0, 1000.0) as usize;
            let rounds: Result<Vec<Round>, String> =
                (0..count).map(|_| self.round(turns, canary)).collect();
            Ok::<_, String>((moved, rounds?))
        };
        let (moved, rounds) = match { measured }() {
            Ok(found) => found,
            Err(why) => return println!("| {name} | {why} |"),
        };
        let usual = median(rounds.iter().map(|(_, slowest)| *slowest).collect());
        let kept: Vec<[f64; 3]> = rounds
            .iter()
            .filter(|(_, slowest)| *slowest <= usual * DISTURBED)
            .map(|(times, _)| *times)
            .collect();
        let all: Vec<usize> = (0..kept.len()).collect();
        let [b, c] = gains(&kept, &all);
        let mut shares: Vec<f64> = samples(kept.len())
            .map(|sample| {
                let [b, c] = gains(&kept, &sample);
                b / c
            })
            .collect();
        shares.sort_by(f64::total_cmp);
        let low = shares.get(shares.len() / 40).copied().unwrap_or(f64::NAN);
        let ms = |k: usize| median(kept.iter().map(|t| t[k] * 1e3).collect());
        let mb = |bytes: u64| bytes as f64 / 1e6;
        println!(
            "| {name} | {:.3} | {:.3} | {:.3} | {} of {count} | {:.2} | {:.1} | {:.1} | {:.0} | {:.0} | {:.2} | {:.2} |",
            ms(0),
            ms(1),
            ms(2),
            kept.len(),
            1.0 / (1.0 - b),
            b * 100.0,
            c * 100.0,
            b / c * 100.0,
            low * 100.0,
            mb(moved[0]),
            mb(moved[1]),
        );
    }
}

/// One program, untiled and tile by tile, and its inputs.
struct Pair {
    programs: [Executable; 2],
    inputs: IndexMap<String, Tensor>,
}

impl Pair {
    fn of(module: &Module, folder: &Path, registry: &Arc<Registry>) -> Result<Pair, String> {
        let main = module.funcs.first().ok_or("no function")?.name.to_string();
        let bindings = Bindings::default();
        let inputs = random_inputs(module, &main, Fill::Normal, 1, &bindings, registry);
        let inputs = inputs.map_err(|e| e.to_string())?;
        let module = planned(module, TILES, registry)?;
        let data = FallbackSource {
            first: FolderSource::new(folder.to_owned()),
            second: RandomSource,
        };
        let made = |tiles: bool| {
            let options = ExecOptions {
                tiles,
                ..ExecOptions::default()
            };
            let made = Executable::new(
                &module, registry, &main, &inputs, &data, &bindings, &options,
            );
            made.map_err(|d| d.message)
        };
        let programs = [made(false)?, made(true)?];
        Ok(Pair { programs, inputs })
    }

    /// The processor time of all steps in seconds, the bytes of moves, and the number of groups that ran tile by tile.
    fn once(&self, program: usize) -> Result<(f64, u64, usize), String> {
        let (_, profile) = self.programs[program]
            .profile(&self.inputs)
            .map_err(|d| d.message)?;
        let cpu: Duration = profile.steps.iter().map(|step| step.cpu).sum();
        let groups = profile.steps.iter().filter(|step| step.kernel == "tiles");
        Ok((cpu.as_secs_f64(), profile.moved(), groups.count()))
    }

    fn row(&self, name: &str, count: usize, canary: &mut Canary) -> Result<String, String> {
        let (once, plain, _) = self.once(0)?;
        let (_, moved, groups) = self.once(1)?;
        let turns = (TURN / once).ceil().clamp(1.0, 1000.0) as usize;
        let mut rounds: Vec<([f64; 2], f64)> = Vec::with_capacity(count);
        for _ in 0..count {
            let (mut times, mut slowest) = ([0.0; 2], canary.time());
            for program in [0, 1, 1, 0] {
                for _ in 0..turns {
                    times[program] += self.once(program)?.0 / (2 * turns) as f64;
                }
                slowest = slowest.max(canary.time());
            }
            rounds.push((times, slowest));
        }
        let usual = median(rounds.iter().map(|(_, slowest)| *slowest).collect());
        let kept = rounds
            .iter()
            .filter(|(_, slowest)| *slowest <= usual * DISTURBED);
        let kept: Vec<[f64; 2]> = kept.map(|(times, _)| *times).collect();
        let ratio =
            |sample: &[usize]| median(sample.iter().map(|&i| kept[i][0] / kept[i][1]).collect());
        let mut ratios: Vec<f64> = samples(kept.len()).map(|sample| ratio(&sample)).collect();
        ratios.sort_by(f64::total_cmp);
        let at = |k: usize| ratios.get(k).copied().unwrap_or(f64::NAN);
        let ms = |k: usize| median(kept.iter().map(|t| t[k] * 1e3).collect());
        let all: Vec<usize> = (0..kept.len()).collect();
        Ok(format!(
            "| {name} | {groups} | {} | {:.3} | {:.3} | {} of {count} | {:.2} | {:.2} | {:.2} | {:.2} | {:.2} |",
            self.programs[1].untiled().len(),
            ms(0),
            ms(1),
            kept.len(),
            ratio(&all),
            at(SAMPLES / 40),
            at(SAMPLES - 1 - SAMPLES / 40),
            plain as f64 / 1e6,
            moved as f64 / 1e6,
        ))
    }
}

/// The relative reductions of the folded program and of the ceiling below the unfolded program: medians over some
/// rounds.
fn gains(rounds: &[[f64; 3]], sample: &[usize]) -> [f64; 2] {
    [1, 2].map(|k| {
        median(
            sample
                .iter()
                .map(|&i| 1.0 - rounds[i][k] / rounds[i][0])
                .collect(),
        )
    })
}

fn median(mut values: Vec<f64>) -> f64 {
    values.sort_by(f64::total_cmp);
    let (n, half) = (values.len(), values.len() / 2);
    match n % 2 {
        _ if n == 0 => f64::NAN,
        1 => values[half],
        _ => f64::midpoint(values[half - 1], values[half]),
    }
}

/// Bootstrap samples of rounds, each of `n` rounds; the same ones in every run.
fn samples(n: usize) -> impl Iterator<Item = Vec<usize>> {
    let mut state = 0x9E37_79B9_7F4A_7C15u64;
    let mut next = move || {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        (state % n as u64) as usize
    };
    (0..SAMPLES).map(move |_| (0..n).map(|_| next()).collect())
}

fn read(path: &Path) -> Result<Module, String> {
    let bytes = std::fs::read(path).map_err(|e| e.to_string())?;
    if path.extension().is_some_and(|e| e == "onnx") {
        let name = path.file_name().map(|n| n.to_string_lossy().into_owned());
        let options = optc_onnx::Options {
            name,
            ..optc_onnx::Options::default()
        };
        let import = optc_onnx::import(&bytes, &options);
        return Ok(import.map_err(first)?.module);
    }
    let source = String::from_utf8(bytes).map_err(|e| e.to_string())?;
    text::parse(&source).map_err(first)
}

/// The message of the first error.
fn first(diags: Vec<Diagnostic>) -> String {
    diags
        .into_iter()
        .next()
        .map(|d| d.message)
        .unwrap_or_default()
}

fn planned(module: &Module, passes: &str, registry: &Arc<Registry>) -> Result<Module, String> {
    let stages = PassList::builtin().parse(passes).expect("built-in passes");
    let target = Target::builtin("cpu").expect("a built-in target");
    let mut cx = PassContext::new(registry.clone(), Arc::new(target));
    let mut module = module.clone();
    let ran = run(&mut module, &stages, &mut cx, &mut Hooks::default());
    ran.map_err(first)?;
    Ok(module)
}
