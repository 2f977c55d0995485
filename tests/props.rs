//! Properties of random programs.

mod brute;
mod copies;
mod copies_place;
mod twice;

use copies::{Counted, Found, least_below};
use optc_check::{Certificate, Stats};
use optc_ir::size::SizeTable;
use optc_ir::{DType, Dim, FuncBuilder, Module, Registry, TensorType, text, verify};
use optc_ops::{Tanh, Transpose, ints};
use optc_passes::Boundary;
use optc_passes::view_fold::Proof;
use optc_target::Target;
use optc_tests::check::{
    Ran, cases, in_pieces, parse, round_trip, run_on, run_passes, same_meaning, target, words,
};
use optc_tests::{Must, Profile, Transformer, program, transformer};
use std::cell::RefCell;
use std::sync::Arc;

const TARGETS: [&str; 2] = ["cpu", "journey6"];

fn free() -> Boundary {
    Boundary {
        free_all: true,
        ..Boundary::default()
    }
}

/// The seeds, multiplied in number by `OPTC_PROPS_FACTOR`.
fn more(seeds: std::ops::Range<u64>) -> std::ops::Range<u64> {
    seeds.start..cases(seeds.end)
}

/// Checks a property of programs; a failure is reported on the smallest program that shows it.
#[track_caller]
fn for_programs(
    seeds: std::ops::Range<u64>,
    profile: Profile,
    property: impl Fn(&Module, &Arc<Registry>) -> Result<(), String>,
) {
    let registry = Arc::new(optc_ops::registry());
    for seed in more(seeds) {
        let module = program(seed, profile, &registry);
        if let Err(problem) = property(&module, &registry) {
            let mut fails = |m: &Module| property(m, &registry).is_err();
            let small = optc_reduce::reduce(&module, &registry, &mut fails);
            let small = small.map_or(module, |reduced| reduced.module);
            let reason = property(&small, &registry).err().unwrap_or(problem);
            panic!("{profile:?} seed {seed}: {reason}\n{}", text::print(&small));
        }
    }
}

fn fold(
    module: &Module,
    target: &str,
    boundary: &Boundary,
    registry: &Arc<Registry>,
) -> Result<Ran, String> {
    run_passes(module, "view-fold", target, boundary, registry)
}

#[test]
fn programs_verify_and_round_trip() {
    for_programs(0..400, Profile::Mixed, |module, registry| {
        round_trip(module, registry)?;
        Ok(())
    });
}

#[test]
fn the_generator_is_deterministic_and_varied() {
    let registry = optc_ops::registry();
    let mut names = indexmap::IndexSet::new();
    for seed in 0..300 {
        let module = program(seed, Profile::Mixed, &registry);
        let again = text::print(&program(seed, Profile::Mixed, &registry));
        assert_eq!(text::print(&module), again, "seed {seed}");
        assert!(
            !module.funcs[0].results.is_empty(),
            "seed {seed} returns nothing"
        );
        let ops = &module.funcs[0].ops;
        names.extend(
            module.funcs[0]
                .body
                .iter()
                .map(|&op| ops[op].name.to_string()),
        );
    }
    assert!(30 <= names.len(), "only {names:?}");
}

#[test]
fn canonicalize_keeps_the_meaning() {
    for_programs(0..250, Profile::Mixed, |module, registry| {
        let ran = run_passes(
            module,
            "canonicalize",
            "cpu",
            &Boundary::default(),
            registry,
        )?;
        round_trip(&ran.module, registry)?;
        same_meaning(module, &ran.module, registry)
    });
}

#[test]
fn view_fold_keeps_the_meaning() {
    for target in TARGETS {
        for boundary in [Boundary::default(), free()] {
            for_programs(0..150, Profile::Mixed, |module, registry| {
                let ran = fold(module, target, &boundary, registry)?;
                round_trip(&ran.module, registry)?;
                same_meaning(module, &ran.module, registry)
            });
        }
    }
}

#[test]
fn view_fold_leaves_no_reshape_and_no_transpose() {
    for target in TARGETS {
        for_programs(0..300, Profile::Mixed, |module, registry| {
            let ran = fold(module, target, &Boundary::default(), registry)?;
            let stats = Stats::of(&ran.module, registry);
            if (stats.reshape, stats.transpose) == (0, 0) {
                Ok(())
            } else {
                Err(format!(
                    "{target}: {} reshapes, {} transposes stay",
                    stats.reshape, stats.transpose
                ))
            }
        });
    }
}

#[test]
fn view_fold_is_never_worse() {
    for target in TARGETS {
        for boundary in [Boundary::default(), free()] {
            for_programs(0..300, Profile::Mixed, |module, registry| {
                let ran = fold(module, target, &boundary, registry)?;
                let report = ran.fold().ok_or("no report")?;
                let (before, after) = (report.bytes_before, report.bytes_after);
                if report.lower_bound_bytes <= after && after <= before {
                    Ok(())
                } else {
                    let bound = report.lower_bound_bytes;
                    Err(format!(
                        "{target}: {after} bytes, {before} before, bound {bound}"
                    ))
                }
            });
        }
    }
}

#[test]
fn rules_never_make_it_worse() {
    for_programs(0..150, Profile::Mixed, |module, registry| {
        let bytes = |pipeline: &str| -> Result<u64, String> {
            let ran = run_passes(module, pipeline, "cpu", &Boundary::default(), registry)?;
            let stats = Stats::on(&ran.module, registry, &SizeTable::default(), &target("cpu"));
            Ok(stats.layout_bytes())
        };
        let (all, none) = (bytes("view-fold")?, bytes("view-fold{rules=none}")?);
        if all <= none {
            Ok(())
        } else {
            Err(format!("{all} bytes with rules, {none} without"))
        }
    });
}

#[test]
fn passes_twice_are_passes_once() {
    for (pipeline, target) in [
        ("canonicalize", "cpu"),
        ("view-fold", "cpu"),
        ("default", "cpu"),
        ("view-fold", "journey6"),
    ] {
        for_programs(0..150, Profile::Mixed, |module, registry| {
            let once = run_passes(module, pipeline, target, &Boundary::default(), registry)?.module;
            let twice = run_passes(&once, pipeline, target, &Boundary::default(), registry)?.module;
            let (once, twice) = (text::print(&once), text::print(&twice));
            if once == twice {
                Ok(())
            } else {
                Err(format!(
                    "{pipeline} on {target} once:\n{once}\ntwice:\n{twice}"
                ))
            }
        });
    }
}

#[test]
fn pipelines_are_deterministic() {
    for_programs(0..100, Profile::Mixed, |module, registry| {
        let printed = parse(&text::print(module));
        let run = |m: &Module| -> Result<String, String> {
            let ran = run_passes(m, "default", "cpu", &Boundary::default(), registry)?;
            let certificate = ran.certificate(m).to_text();
            Ok(text::print(&ran.module) + &certificate)
        };
        let (a, b, c) = (run(module)?, run(module)?, run(&printed)?);
        if a != b {
            return Err("two runs give different texts".to_owned());
        }
        if a != c {
            return Err(format!("the printed program folds differently:\n{a}\n{c}"));
        }
        Ok(())
    });
}

fn check(
    original: &Module,
    folded: &Module,
    certificate: &Certificate,
    target: &str,
    registry: &Registry,
) -> Result<(), String> {
    let target = Target::builtin(target).map_err(|e| e.to_string())?;
    verify::verify(folded, registry).map_err(|d| words(&d))?;
    optc_check::check(original, folded, certificate, registry, &target).map_err(|d| words(&d))
}

#[test]
fn certificates_are_accepted() {
    for target in TARGETS {
        for boundary in [Boundary::default(), free()] {
            for_programs(0..200, Profile::Mixed, |module, registry| {
                let ran = fold(module, target, &boundary, registry)?;
                let certificate = ran.certificate(module);
                let text = certificate.to_text();
                let read = Certificate::from_text(&text).map_err(|d| words(&[*d]))?;
                if read != certificate {
                    return Err("the certificate does not read back".to_owned());
                }
                check(module, &ran.module, &certificate, target, registry)
            });
        }
    }
}

#[test]
fn certificates_refuse_other_claims() {
    let registry = Arc::new(optc_ops::registry());
    let module = program(3, Profile::Moves, &registry);
    let ran = fold(&module, "cpu", &Boundary::default(), &registry).expect("folds");
    let good = ran.certificate(&module);
    assert!(check(&module, &ran.module, &good, "cpu", &registry).is_ok());
    let mut claims = Vec::new();
    claims.push(Certificate {
        movement_bytes: good.movement_bytes + 1,
        ..good.clone()
    });
    claims.push(Certificate {
        target: "journey6".to_owned(),
        ..good.clone()
    });
    let mut shorter = good.clone();
    shorter.witness.funcs[0].operations.pop();
    claims.push(shorter);
    let mut moved = good.clone();
    let by = moved.witness.funcs[0].values[0].by;
    moved.witness.funcs[0]
        .values
        .iter_mut()
        .for_each(|held| held.by = by);
    claims.push(moved);
    claims.push(Certificate {
        folded: good.original,
        ..good.clone()
    });
    for claim in claims {
        let answer = check(&module, &ran.module, &claim, "cpu", &registry);
        assert!(answer.is_err(), "{}", claim.to_text());
    }
    let other = program(4, Profile::Moves, &registry);
    assert!(check(&other, &ran.module, &good, "cpu", &registry).is_err());
}

/// All permutations of `0..n`.
fn permutations(n: usize) -> Vec<Vec<usize>> {
    if n == 0 {
        return vec![Vec::new()];
    }
    let shorter = permutations(n - 1);
    let insert = |p: &Vec<usize>| -> Vec<Vec<usize>> {
        let at = |i: usize| [&p[..i], &[n - 1], &p[i..]].concat();
        (0..=p.len()).map(at).collect()
    };
    shorter.iter().flat_map(insert).collect()
}

/// The passes turn transpose(transpose(x, p), q) into one transpose by `p[q[i]]`, or into nothing.
#[test]
fn permutations_compose_and_cancel() {
    let registry = Arc::new(optc_ops::registry());
    for p in permutations(3) {
        for q in permutations(3) {
            let mut b = FuncBuilder::new(&registry);
            let x = b.arg("x", TensorType::fixed(&[2, 3, 5], DType::F32));
            let y = b.must(&Transpose { perm: ints(&p) }, &[x]);
            let z = b.must(&Transpose { perm: ints(&q) }, &[y]);
            let z = b.must(&Tanh {}, &[z]);
            let module = b.finish(&[z]);
            let ran = run_passes(
                &module,
                "canonicalize",
                "cpu",
                &Boundary::default(),
                &registry,
            );
            let module = ran.expect("canonicalizes").module;
            let func = &module.funcs[0];
            let left: Vec<Vec<i64>> = func
                .body
                .iter()
                .filter(|&&op| &*func.ops[op].name == "hbir.transpose")
                .map(|&op| func.ops[op].props.ints("perm").expect("a permutation"))
                .collect();
            let both: Vec<usize> = q.iter().map(|&i| p[i]).collect();
            if both == [0, 1, 2] {
                assert!(left.is_empty(), "{p:?} then {q:?}");
            } else {
                let both: Vec<i64> = both.iter().map(|&i| i64::try_from(i).unwrap()).collect();
                assert_eq!(left, [both], "{p:?} then {q:?}");
            }
        }
    }
}

/// Statistics of folds against the least bytes over all layouts.
#[derive(Default)]
struct Tally {
    tried: u32,
    moving: u32,
    proven: u32,
    tight: u32,
    /// The number of programs that compute something several times, and of those among them that move the least bytes
    /// possible.
    twice: [u32; 2],
}

/// The largest number of orders in which an operation may run, for programs that compute values several times.
const MOST_RUNS: usize = 2;

/// Folds tiny programs and compares with all layouts. Bounds must hold, and a proof of optimality must be right among
/// programs that compute each value once. A program that computes values several times may move less than those, but no
/// less than the best program that does so.
fn against_all_layouts(
    seeds: std::ops::Range<u64>,
    profile: Profile,
    check: impl Fn(u64, u64) -> bool,
) -> Tally {
    let mut tally = Tally::default();
    let registry = Arc::new(optc_ops::registry());
    for seed in more(seeds) {
        let module = program(seed, profile, &registry);
        for boundary in [Boundary::default(), free()] {
            let Some(least) = brute::least_bytes(&module, boundary.free_all, 1) else {
                continue;
            };
            let ran = fold(&module, "cpu", &boundary, &registry).expect("folds");
            let stats = Stats::of(&ran.module, &registry);
            let report = ran.fold().expect("a report");
            // Bounds do not include copies that another choice might save.
            let bound = report.lower_bound_bytes.saturating_sub(stats.copy_bytes);
            let found = stats.movement_bytes;
            let free = boundary.free_all;
            let context = || {
                let text = text::print(&module);
                format!(
                    "seed {seed}, free boundary {free}, {found} bytes, bound {bound}, least {least}\n{text}"
                )
            };
            assert!(bound <= least, "{}", context());
            let optimal = report.proof == optc_passes::view_fold::Proof::Optimal;
            if report.rules_fired.contains_key("compute-twice") {
                assert!(found < least && bound <= found, "{}", context());
                tally.twice[0] += 1;
                if let Some(fewest) = brute::least_bytes(&module, free, MOST_RUNS) {
                    assert!(fewest <= found, "fewest {fewest}, {}", context());
                    tally.twice[1] += u32::from(fewest == found);
                }
                continue;
            }
            assert!(check(found, least), "{}", context());
            assert!(!optimal || found == least, "{}", context());
            tally.tried += 1;
            tally.moving += u32::from(least != 0);
            tally.proven += u32::from(least != 0 && optimal);
            tally.tight += u32::from(least != 0 && bound == least);
        }
    }
    tally
}

#[test]
fn view_fold_finds_the_minimum_of_all_layouts() {
    let tally = against_all_layouts(0..600, Profile::Tiny, |found, least| found == least);
    let Tally { tried, moving, .. } = tally;
    assert!(
        500 < tried && 100 < moving,
        "{tried} programs, {moving} of them move bytes"
    );
    let (proven, tight) = (tally.proven, tally.tight);
    assert!(
        moving * 9 < tight * 10 && proven == tight,
        "of {moving} programs that move bytes {tight} have a tight bound, {proven} a proof"
    );
}

/// The number of programs that move bytes, and the number of those among them whose bound equals the moved bytes. No
/// bound may exceed the result with any number of candidates.
fn against_more_candidates(
    seeds: std::ops::Range<u64>,
    profile: Profile,
    target: &str,
    boundary: &Boundary,
) -> (u32, u32) {
    let registry = Arc::new(optc_ops::registry());
    let machine = self::target(target);
    let (mut moving, mut tight) = (0, 0);
    for seed in more(seeds) {
        let module = program(seed, profile, &registry);
        let found = |passes: &str| {
            let ran = run_passes(&module, passes, target, boundary, &registry);
            let ran = ran.unwrap_or_else(|e| panic!("{target} seed {seed}: {e}"));
            let report = ran.fold().expect("a report");
            let stats = Stats::on(&ran.module, &registry, &SizeTable::default(), &machine);
            // A bound holds for programs that compute values as often as the result does, or once.
            let bytes = match report.rules_fired.contains_key("compute-twice") {
                true => u64::MAX,
                false => stats.layout_bytes() + stats.copy_bytes,
            };
            (report.lower_bound_bytes, bytes)
        };
        let each = [
            "view-fold",
            "view-fold{max-layouts=3}",
            "view-fold{max-layouts=30}",
        ];
        let all: Vec<(u64, u64)> = each.into_iter().map(found).collect();
        let least = all.iter().map(|(_, bytes)| *bytes).min().unwrap_or(0);
        let bound = all.iter().map(|(bound, _)| *bound).max().unwrap_or(0);
        let text = || text::print(&module);
        assert!(bound <= least, "{target} seed {seed}: {all:?}\n{}", text());
        moving += u32::from(least != 0);
        tight += u32::from(least != 0 && bound == least);
    }
    (moving, tight)
}

/// Targets whose rows list the ends of matrices.
#[test]
fn bounds_hold_where_rows_list_ends() {
    for (profile, seeds, least) in [(Profile::Tiny, 0..120, 20), (Profile::Mixed, 0..60, 40)] {
        let against =
            |target, boundary| against_more_candidates(seeds.clone(), profile, target, &boundary);
        let standard = against("onnx", Boundary::default());
        let own = against("onnxruntime", free());
        let (moving, tight) = (standard.0 + own.0, standard.1 + own.1);
        assert!(
            least < moving && moving < 3 * tight,
            "{profile:?}: {tight} of {moving} bounds are tight"
        );
    }
}

#[test]
fn bounds_hold_for_parts_of_tensors() {
    let tally = against_all_layouts(0..500, Profile::TinyParts, |found, least| least <= found);
    let Tally {
        tried,
        moving,
        proven,
        ..
    } = tally;
    assert!(
        200 < tried && 50 < moving && 20 < proven,
        "{tried} programs, {moving} of them move bytes, {proven} of them with a proof"
    );
}

/// A machine whose reductions do not take parts, and whose products take operands in one piece.
const PARTIAL: &str = r#"
name = "partial"
summary = "some rows take parts"
spelling = "order"

[[memory]]
name = "dram"
bandwidth = 20.0e9

[units.core]
summary = "one core"

[[rows]]
unit = "core"
families = ["elementwise", "concat", "slice", "broadcast", "gather"]
parts = "any"
take = [{ share = "all" }]

[[rows]]
unit = "core"
families = ["softmax", "norm", "reduce"]
take = [{ share = "all" }]

[[rows]]
unit = "core"
families = ["matmul"]
parts = "leading"
take = [{ share = ["k"], one_run = ["k"], not_innermost = ["batch"] }]

[[rows]]
unit = "core"
families = ["source"]
parts = "any"
take = [{}]

[[rows]]
unit = "core"
families = ["barrier"]
take = [{ order = "logical" }]
"#;

/// A machine whose products are slower for some order at each port.
fn slower_products() -> Target {
    let row = r#"take = [{ share = ["k"], one_run = ["k"], not_innermost = ["batch"] }]"#;
    let slower = r#"
slower = [
  { port = "left", innermost = ["m"], factor = 0.75 },
  { port = "right", innermost = ["k"], factor = 1.5 },
  { port = "result", innermost = ["n", "batch"], factor = 3 },
]"#;
    let text = PARTIAL.replace("\"partial\"", "\"slower\"");
    Target::parse(&text.replace(row, &format!("{row}{slower}"))).expect("a target")
}

/// Statistics of folds against an exhaustive search.
#[derive(Default, Debug)]
struct Against {
    known: u32,
    /// Programs in which something must be moved, copied or repeated.
    costly: u32,
    /// Those of them that a fold solves with the least cost.
    least: u32,
    /// Those of them for which the fold proves it.
    proven: u32,
    /// Programs whose bound is reached by some solution.
    tight: u32,
}

/// Compares a fold with an exhaustive search: a proof of optimality must be right, and no bound may exceed the optimum.
fn against_everything(
    module: &Module,
    machine: &Arc<Target>,
    boundary: &Boundary,
    registry: &Arc<Registry>,
    tally: &mut Against,
) -> Result<(), String> {
    let ran = run_on(module, "view-fold", machine.clone(), boundary, registry)?;
    let stats = Stats::on(&ran.module, registry, &SizeTable::default(), machine);
    let report = ran.fold().expect("a report");
    let proven = report.proof == Proof::Optimal;
    for counted in [Counted::Moved, Counted::Expanded] {
        let expanded = if counted == Counted::Moved {
            0
        } else {
            stats.expand_bytes
        };
        let found = stats.layout_bytes() + stats.copy_bytes + expanded;
        let least = least_below(
            found + 1,
            module,
            registry,
            machine,
            boundary.free_all,
            counted,
        );
        let bound = report.lower_bound_bytes;
        let context = || {
            format!(
                "{} with {counted:?}, free boundary {}: {found} bytes, bound {bound}, proof {}, {least:?}\n{}",
                machine.name,
                boundary.free_all,
                report.proof.name(),
                text::print(&ran.module)
            )
        };
        let least = match least {
            Found::Unknown => return Ok(()),
            // The search does not model values in pieces.
            Found::NothingBelow if 0 < in_pieces(&ran.module) => return Ok(()),
            Found::NothingBelow => return Err(format!("not covered: {}", context())),
            Found::Least(least) => least,
        };
        if least < bound {
            return Err(format!("the bound is too high: {}", context()));
        }
        if proven && least < found {
            return Err(format!("not optimal: {}", context()));
        }
        if counted == Counted::Moved {
            tally.known += 1;
            tally.costly += u32::from(0 < least);
            tally.least += u32::from(0 < least && least == found);
            tally.proven += u32::from(0 < least && proven);
            tally.tight += u32::from(0 < least && bound == least);
        }
    }
    Ok(())
}

#[test]
fn what_is_called_optimal_is_with_everything_that_may_lie_elsewhere() {
    let partial = Arc::new(Target::parse(PARTIAL).expect("a target"));
    let slower = Arc::new(slower_products());
    assert!(slower.has_prices());
    for machine in [target("cpu"), target("cpu:bytes"), partial, slower] {
        let tally = RefCell::new(Against::default());
        for_programs(0..300, Profile::TinyCopies, |module, registry| {
            for boundary in [Boundary::default(), free()] {
                let mut sum = tally.borrow_mut();
                against_everything(module, &machine, &boundary, registry, &mut sum)?;
            }
            Ok(())
        });
        let tally = tally.into_inner();
        let Against {
            known,
            costly,
            least,
            proven,
            tight,
        } = tally;
        let often = costly * 99 <= least * 100 && costly < 3 * proven && proven <= tight;
        assert!(
            500 < known && 300 < costly && often,
            "{}: {tally:?}",
            machine.name
        );
    }
}

/// Instead of a conversion before a broadcast that is copied, a conversion after a broadcast that is read in place may
/// take fewer bytes in total.
#[test]
fn a_broadcast_that_stays_between_orders_is_not_called_optimal() {
    let registry = Arc::new(optc_ops::registry());
    let module = parse(
        r#"func.func @main(%x: tensor<3x2xf32>) -> tensor<2x2x3xf32> {
  %0 = "hbir.broadcast"(%x) <{shape = [2, 3, 2]}> : (tensor<3x2xf32>) -> tensor<2x3x2xf32>
  %1 = "hbir.transpose"(%0) <{perm = [0, 2, 1]}> : (tensor<2x3x2xf32>) -> tensor<2x2x3xf32>
  return %1 : tensor<2x2x3xf32>
}"#,
    );
    let cpu = target("cpu");
    let ran = fold(&module, "cpu", &Boundary::default(), &registry).expect("folds");
    let (stats, report) = (
        Stats::of(&ran.module, &registry),
        ran.fold().expect("a report"),
    );
    let found = stats.movement_bytes + stats.copy_bytes + stats.expand_bytes;
    let all = Counted::Expanded;
    let least = least_below(found + 1, &module, &registry, &cpu, false, all);
    assert_eq!(least, Found::Least(96));
    let proven = report.proof == Proof::Optimal;
    assert!(!proven || found == 96, "{found} bytes");
    // The layout in which nothing is copied is among the candidates.
    assert_eq!(found, 96, "{}", report.proof.name());
}

#[test]
fn transformers_fold_to_nothing() {
    let registry = Arc::new(optc_ops::registry());
    let sizes = [Dim::Fixed(2), transformer::symbolic_batch()];
    for batch in sizes {
        let model = Transformer {
            layers: 2,
            batch,
            ..Transformer::default()
        };
        let module = model.module(&registry);
        let parsed = round_trip(&module, &registry).expect("round trip");
        let ran = run_passes(&parsed, "default", "cpu", &Boundary::default(), &registry);
        let ran = ran.expect("folds");
        let stats = Stats::of(&ran.module, &registry);
        assert_eq!(
            (stats.reshape, stats.transpose, stats.movement_bytes),
            (0, 0, 0)
        );
        same_meaning(&module, &ran.module, &registry).expect("same meaning");
    }
}

#[test]
fn transformers_have_the_size_they_say() {
    let registry = optc_ops::registry();
    for layers in [1, 3] {
        let model = Transformer {
            layers,
            ..Transformer::default()
        };
        let ops = Stats::of(&model.module(&registry), &registry).ops;
        assert_eq!(ops, (layers * transformer::LAYER_OPS + 1) as u64);
    }
}
