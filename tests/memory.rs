//! `bufferize` and `plan-memory`: sharing of memory, refusals, and the size of arenas.

use optc_check::{MemoryUse, check_memory};
use optc_compare::SplitMix64;
use optc_ir::entity::SideTable;
use optc_ir::memory::{self, Place};
use optc_ir::op::in_place;
use optc_ir::{Func, Module, Op, Registry, Value, text};
use optc_passes::plan_memory::MemoryReport;
use optc_passes::{Boundary, PassList};
use optc_tests::check::{Ran, cases, parse, round_trip, run_passes, same_meaning, words};
use optc_tests::paths::{files, root};
use optc_tests::{Profile, Scale, program};
use std::sync::Arc;

const PLANNED: &str = "bufferize,plan-memory";
const FOLDED: &str = "canonicalize,view-fold,bufferize,plan-memory";

fn plan(module: &Module, passes: &str, target: &str, registry: &Arc<Registry>) -> Ran {
    match run_passes(module, passes, target, &Boundary::default(), registry) {
        Ok(ran) => ran,
        Err(problem) => panic!("{problem}\n{}", text::print(module)),
    }
}

/// The ranges of the arena and their live ranges, read from the attributes in another way than the checker does: from
/// every reader back to the first writer.
fn ranges(func: &Func, registry: &Registry) -> Vec<(u64, u64, usize, usize)> {
    let mut made: SideTable<Value, Option<(Op, usize)>> = SideTable::new(None);
    for &op in &func.body {
        for (i, &result) in func.ops[op].results.iter().enumerate() {
            made[result] = Some((op, i));
        }
    }
    let wholes = in_place::wholes(func, registry);
    // For a value in pieces, all values that it lies in.
    let sources = |value: Value| {
        let mut found = Vec::new();
        let mut left = vec![value];
        while let Some(at) = left.pop() {
            let Some((op, i)) = made[at] else { continue };
            let data = &func.ops[op];
            let place = memory::places(data).expect("well formed").expect("there")[i];
            match place {
                Place::Alias(operand) | Place::Over(operand) => left.push(data.operands[operand]),
                Place::Arena(offset) => found.push((at, offset)),
                Place::Inside => left.push(wholes[&at]),
                Place::Pieces => left.extend(&data.operands),
                Place::Own | Place::Constant | Place::Result(_) => {}
            }
        }
        found
    };
    let mut uses: Vec<(Value, usize)> =
        func.results.iter().map(|&v| (v, func.body.len())).collect();
    for (at, &op) in func.body.iter().enumerate() {
        let data = &func.ops[op];
        uses.extend(data.operands.iter().chain(&data.results).map(|&v| (v, at)));
    }
    let mut lives: SideTable<Value, Option<(u64, usize, usize)>> = SideTable::new(None);
    for (value, at) in uses {
        for (owner, offset) in sources(value) {
            let (_, from, until) = lives[owner].unwrap_or((offset, at, at));
            lives[owner] = Some((offset, from.min(at), until.max(at)));
        }
    }
    let mut all = Vec::new();
    for value in func.values.ids() {
        if let Some((offset, from, until)) = lives[value] {
            let ty = func.ty(value).as_tensor().expect("a tensor");
            let bytes = ty
                .layout()
                .expect("of known size")
                .expect("it fits")
                .bytes();
            all.push((offset, bytes, from, until));
        }
    }
    all
}

#[track_caller]
fn is_sound(module: &Module, what: &str, registry: &Registry) {
    for func in &module.funcs {
        let all = ranges(func, registry);
        for (i, &(x, a, from, to)) in all.iter().enumerate() {
            assert!(x + a <= memory::arena(func), "{what}");
            for &(y, b, other_from, other_to) in &all[i + 1..] {
                let together = from <= other_to && other_from <= to;
                let apart = a == 0 || b == 0 || x + a <= y || y + b <= x;
                assert!(!together || apart, "{what}\n{}", text::print(module));
            }
        }
    }
}

/// The pipeline that decides memory, with a limit of live bytes.
fn limited(limit: u64) -> String {
    let option = format!("{{max-live={limit}}}");
    format!("canonicalize,view-fold{option},bufferize{option},plan-memory")
}

/// A random program of large values, parts of them, computations on parts, and concats; parts are read again at the
/// end.
fn program_of_parts(seed: u64) -> Module {
    let mut rng = SplitMix64::new(seed);
    let mut below = |n: usize| usize::try_from(rng.below(n as u64)).expect("a usize");
    let mut text = String::from("func.func @main(%x: tensor<4x64xf32>) -> tensor<4x4xf32> {\n");
    // Each value with its number of columns.
    let mut all: Vec<(String, usize)> = vec![("%x".to_owned(), 64)];
    let add = |text: &mut String, line: String, columns: usize, all: &mut Vec<(String, usize)>| {
        let name = format!("%{}", all.len() - 1);
        *text += &format!("  {name} = {line} -> tensor<4x{columns}xf32>\n");
        all.push((name, columns));
    };
    for _ in 0..8 + below(16) {
        let (value, columns) = all[below(all.len())].clone();
        let ty = format!("tensor<4x{columns}xf32>");
        match below(5) {
            0 if 4 < columns => {
                let start = below(columns - 3);
                let line = format!(
                    "\"hbir.slice\"({value}) <{{limits = [4, {}], starts = [0, {start}]}}> : ({ty})",
                    start + 4
                );
                add(&mut text, line, 4, &mut all);
            }
            0 | 1 => add(
                &mut text,
                format!("\"hbir.neg\"({value}) : ({ty})"),
                columns,
                &mut all,
            ),
            2 | 3 => {
                let axis = below(2);
                let line = format!("\"hbir.softmax\"({value}) <{{axis = {axis}}}> : ({ty})");
                add(&mut text, line, columns, &mut all);
            }
            _ => {
                let (other, more) = all[below(all.len())].clone();
                let line = format!(
                    "\"hbir.concat\"({value}, {other}) <{{axis = 1}}> : ({ty}, tensor<4x{more}xf32>)"
                );
                add(&mut text, line, columns + more, &mut all);
            }
        }
    }
    let first = "\"hbir.slice\"(%x) <{limits = [4, 4], starts = [0, 0]}> : (tensor<4x64xf32>)";
    add(&mut text, first.to_owned(), 4, &mut all);
    let parts: Vec<String> = all
        .iter()
        .filter(|(_, columns)| *columns == 4)
        .map(|(name, _)| name.clone())
        .collect();
    for part in parts {
        let (sum, _) = all[all.len() - 1].clone();
        let ty = "tensor<4x4xf32>";
        add(
            &mut text,
            format!("\"hbir.add\"({sum}, {part}) : ({ty}, {ty})"),
            4,
            &mut all,
        );
    }
    let (sum, _) = &all[all.len() - 1];
    text += &format!("  return {sum} : tensor<4x4xf32>\n}}\n");
    text::parse(&text).expect("well formed")
}

#[test]
fn no_more_is_alive_than_the_limit_says() {
    let registry = Arc::new(optc_ops::registry());
    let (mut held, mut copied, mut refused) = (0, 0, 0);
    for (target, profile) in [
        ("cpu", Some(Profile::Mixed)),
        ("cpu", Some(Profile::TinyCopies)),
        ("cpu", None),
        ("journey6", Some(Profile::Mixed)),
        ("journey6", None),
        ("tpu", None),
    ] {
        for seed in 0..cases(15) {
            let module = match profile {
                Some(profile) => program(seed, profile, &registry),
                None => program_of_parts(seed),
            };
            let free = plan(&module, FOLDED, target, &registry);
            let live = |module: &Module| {
                let used = MemoryUse::of(module, &registry);
                used.expect("it is planned").live_bytes
            };
            let most = live(&free.module);
            let limits = [most, most.saturating_sub(1), most * 3 / 4, most / 2];
            for limit in limits.into_iter().filter(|&limit| limit != 0) {
                let what = format!("{target} {profile:?} seed {seed} at {limit} of {most}");
                let passes = limited(limit);
                let ran = run_passes(&module, &passes, target, &Boundary::default(), &registry);
                let ran = match ran {
                    Ok(ran) => ran,
                    Err(problem) => {
                        assert!(problem.starts_with("max-live: "), "{what}: {problem}");
                        assert!(limit < most, "{what}: {problem}");
                        refused += 1;
                        continue;
                    }
                };
                assert!(
                    live(&ran.module) <= limit,
                    "{what}\n{}",
                    text::print(&ran.module)
                );
                is_sound(&ran.module, &what, &registry);
                same_meaning(&module, &ran.module, &registry).expect("copies change no meaning");
                let remarks = ran.cx.remarks.iter();
                let copies = remarks.filter(|d| d.code.as_str() == "copied-for-memory");
                let copies = copies.count();
                // Copies appear exactly if the limit is below the need.
                assert_eq!(copies == 0, limit == most, "{what}");
                if copies == 0 {
                    assert_eq!(
                        text::print(&ran.module),
                        text::print(&free.module),
                        "{what}"
                    );
                }
                copied += copies;
                held += 1;
            }
        }
    }
    assert!(
        0 < held && 0 < copied && 0 < refused,
        "{held} held, {copied} copied, {refused} refused"
    );
}

#[test]
fn random_programs_are_placed_without_overlap() {
    let registry = Arc::new(optc_ops::registry());
    for (target, passes) in [
        ("cpu", PLANNED),
        ("cpu", FOLDED),
        ("journey6", FOLDED),
        ("tpu", FOLDED),
    ] {
        for seed in 0..cases(60) {
            let module = program(seed, Profile::Mixed, &registry);
            let what = format!("{target} {passes} seed {seed}");
            let ran = plan(&module, passes, target, &registry);
            is_sound(&ran.module, &what, &registry);
            round_trip(&ran.module, &registry).expect("it is read as it is written");
            same_meaning(&module, &ran.module, &registry).expect("attributes change no meaning");
            let used = MemoryUse::of(&ran.module, &registry).expect("it is planned");
            let report: &MemoryReport = ran.cx.reports.get().expect("the pass reports");
            let arena = report.funcs.iter().map(|f| f.arena_bytes).max();
            assert_eq!(arena, Some(used.arena_bytes), "{what}");
            assert!(used.live_bytes <= used.arena_bytes, "{what}");
            let again = plan(&ran.module, "plan-memory", target, &registry);
            assert_eq!(
                text::print(&again.module),
                text::print(&ran.module),
                "{what}"
            );
        }
    }
}

/// Values moved to other bytes are refused exactly if live bytes overlap.
#[test]
fn the_checker_refuses_what_overlaps() {
    let registry = Arc::new(optc_ops::registry());
    let (mut refused, mut taken) = (0, 0);
    for seed in 0..cases(80) {
        let module = program(seed, Profile::Mixed, &registry);
        let mut module = plan(&module, PLANNED, "cpu", &registry).module;
        let func = &mut module.funcs[0];
        let arena = memory::arena(func);
        let body = func.body.clone();
        for (at, op) in body.into_iter().enumerate() {
            let mut places = memory::places(&func.ops[op])
                .expect("well formed")
                .expect("there");
            for place in &mut places {
                if let Place::Arena(offset) = place {
                    let to = (seed * 64 * (at as u64 + 1)) % (arena.max(64));
                    *offset = match seed % 3 {
                        0 => 0,
                        1 => to / 64 * 64,
                        _ => *offset + if at == 3 { 64 } else { 0 },
                    };
                }
            }
            memory::set_places(&mut func.ops[op], &places);
        }
        let all = ranges(&module.funcs[0], &registry);
        let overlap = all.iter().enumerate().any(|(i, &(x, a, from, to))| {
            all[i + 1..].iter().any(|&(y, b, other_from, other_to)| {
                let apart = a == 0 || b == 0 || x + a <= y || y + b <= x;
                from <= other_to && other_from <= to && !apart
            })
        });
        let outside = all
            .iter()
            .any(|&(offset, bytes, ..)| arena < offset + bytes);
        let diags = check_memory(&module, &registry);
        assert_eq!(
            overlap || outside,
            !diags.is_empty(),
            "seed {seed}: {}\n{}",
            words(&diags),
            text::print(&module)
        );
        *match diags.is_empty() {
            true => &mut taken,
            false => &mut refused,
        } += 1;
    }
    assert!(5 < refused && 5 < taken, "{refused} refused, {taken} taken");
}

const HEAD: &str = "module attributes {hbir.memory = \"bufferized\"} {\n";

/// The first code that the checker reports for the body of a function of `%x: tensor<4x4xf32>`.
fn code(body: &str, result: &str) -> Option<String> {
    let text = format!(
        "{HEAD}  func.func @main(%x: tensor<4x4xf32>) -> tensor<4x4xf32> {{\n{body}\n    return {result} : tensor<4x4xf32>\n  }}\n}}\n"
    );
    let diags = check_memory(&parse(&text), &optc_ops::registry());
    diags.first().map(|d| d.code.to_string())
}

const TY: &str = "(tensor<4x4xf32>) -> tensor<4x4xf32>";

#[test]
fn the_checker_refuses_what_is_written_over() {
    let own =
        format!("    %0 = \"hbir.softmax\"(%x) <{{axis = 1}}> {{memory = [\"own\"]}} : {TY}\n");
    let fine = format!("{own}    %1 = \"hbir.exp\"(%0) {{memory = [\"over 0\"]}} : {TY}");
    assert_eq!(code(&fine, "%1"), None);
    assert_eq!(code(&fine, "%0").as_deref(), Some("memory-overlap"));
    let later = format!("{fine}\n    %2 = \"hbir.neg\"(%0) {{memory = [\"own\"]}} : {TY}");
    assert_eq!(code(&later, "%2").as_deref(), Some("memory-overlap"));
    let norm = format!(
        "{own}    %1 = \"hbir.softmax\"(%0) <{{axis = 1}}> {{memory = [\"over 0\"]}} : {TY}"
    );
    assert_eq!(code(&norm, "%1").as_deref(), Some("memory-alias"));
    let argument = format!("    %0 = \"hbir.exp\"(%x) {{memory = [\"over 0\"]}} : {TY}");
    assert_eq!(code(&argument, "%0").as_deref(), Some("memory-alias"));
    let alias = format!("    %0 = \"hbir.exp\"(%x) {{memory = [\"alias 0\"]}} : {TY}");
    assert_eq!(code(&alias, "%0").as_deref(), Some("memory-alias"));
    let turned = format!(
        "    %0 = \"hbir.transpose\"(%x) <{{perm = [1, 0]}}> {{memory = [\"alias 0\"]}} : {TY}"
    );
    assert_eq!(code(&turned, "%0").as_deref(), Some("memory-alias"));
    // The sum reads the transposed value from the bytes that it overwrites.
    let both = format!(
        "{own}    %1 = \"hbir.view\"(%0) <{{perm = [1, 0]}}> {{memory = [\"alias 0\"]}} : (tensor<4x4xf32>) -> tensor<4x4xf32, {{order = [1, 0]}}>
    %2 = \"hbir.add\"(%0, %1) {{memory = [\"over 0\"]}} : (tensor<4x4xf32>, tensor<4x4xf32, {{order = [1, 0]}}>) -> tensor<4x4xf32>"
    );
    assert_eq!(code(&both, "%2").as_deref(), Some("memory-alias"));
    let constant = format!("    %0 = \"hbir.exp\"(%x) {{memory = [\"constant\"]}} : {TY}");
    assert_eq!(code(&constant, "%0").as_deref(), Some("memory-place"));
    let result = format!(
        "{own}    %1 = \"hbir.softmax\"(%x) <{{axis = 0}}> {{memory = [\"result 0\"]}} : {TY}"
    );
    assert_eq!(code(&result, "%0").as_deref(), Some("memory-overlap"));
    assert_eq!(
        code(&result.replace("result 0", "result 1"), "%1").as_deref(),
        Some("memory-place")
    );
    assert_eq!(
        code(&result.replace("result 0", "arena 0"), "%1").as_deref(),
        Some("memory-place")
    );
    let nowhere = format!("    %0 = \"hbir.exp\"(%x) : {TY}");
    assert_eq!(code(&nowhere, "%0").as_deref(), Some("memory-syntax"));
    let operand = format!("    %0 = \"hbir.exp\"(%x) {{memory = [\"over 7\"]}} : {TY}");
    assert_eq!(code(&operand, "%0").as_deref(), Some("memory-place"));
}

/// The code that the checker reports for a program with a value in pieces: two values at these places, their concat,
/// and a ReLU of its upper half at another place, with `more` before it.
fn code_of_pieces([a, b, joined, relu]: [&str; 4], attribute: &str, more: &str) -> Option<String> {
    let (ty, both) = ("tensor<4x16xf32>", "tensor<8x16xf32>");
    let text = format!(
        r#"module attributes {{hbir.memory = "planned"}} {{
  func.func @main(%x: {ty}) -> {ty} attributes {{hbir.arena = 1024}} {{
    %0 = "hbir.exp"(%x) {{memory = ["{a}"]}} : ({ty}) -> {ty}
    %1 = "hbir.neg"(%x) {{memory = ["{b}"]}} : ({ty}) -> {ty}
    %2 = "hbir.concat"(%0, %1) <{{axis = 0}}> {{{attribute}memory = ["{joined}"]}} : ({ty}, {ty}) -> {both}
    %3 = "hbir.subview"(%2) <{{limits = [8, 16], starts = [4, 0], strides = [1, 1]}}> {{memory = ["alias 0"]}} : ({both}) -> {ty}
{more}    %4 = "hbir.relu"(%3) {{memory = ["{relu}"]}} : ({ty}) -> {ty}
    %5 = "hbir.softmax"(%4) <{{axis = 1}}> {{memory = ["result 0"]}} : ({ty}) -> {ty}
    return %5 : {ty}
  }}
}}
"#
    );
    let diags = check_memory(&parse(&text), &optc_ops::registry());
    diags.first().map(|d| d.code.to_string())
}

#[test]
fn the_checker_refuses_pieces_that_are_lost() {
    let code = |places, more| code_of_pieces(places, "in_pieces, ", more);
    let fine = ["arena 0", "arena 256", "pieces", "arena 512"];
    assert_eq!(code(fine, ""), None);
    let [a, b, pieces, relu] = fine;
    // At a place between two pieces, and at the place of a piece that is still read: all pieces are live until the last
    // reader.
    let between = ["arena 0", "arena 512", pieces, "arena 256"];
    assert_eq!(code(between, "").as_deref(), Some("memory-overlap"));
    assert_eq!(
        code([a, b, pieces, "arena 0"], "").as_deref(),
        Some("memory-overlap")
    );
    // Overwritten before the pieces are read, or in their place.
    let ty = "(tensor<4x16xf32>) -> tensor<4x16xf32>";
    let over = format!("    %6 = \"hbir.neg\"(%0) {{memory = [\"over 0\"]}} : {ty}\n");
    assert_eq!(code(fine, &over).as_deref(), Some("memory-overlap"));
    assert_eq!(
        code([a, b, pieces, "over 0"], "").as_deref(),
        Some("memory-place")
    );
    // Without the attribute the value cannot be in pieces; with it, it may still have memory of its own.
    let stored = code_of_pieces([a, b, pieces, relu], "", "");
    assert_eq!(stored.as_deref(), Some("memory-alias"));
    assert_eq!(code([a, b, "arena 512", "arena 0"], ""), None);
}

/// Passes that change operations refuse a program whose memory is decided.
#[test]
fn operations_stay_once_memory_is_decided() {
    let registry = Arc::new(optc_ops::registry());
    let module = program(1, Profile::Mixed, &registry);
    for pass in PassList::builtin().infos() {
        let passes = format!("bufferize,{}", pass.name);
        let ran = run_passes(&module, &passes, "cpu", &Boundary::default(), &registry);
        let stays = matches!(pass.name, "bufferize" | "plan-memory");
        assert_eq!(ran.is_ok(), stays, "{}", pass.name);
    }
}

/// The arena of a model is at most a tenth larger than its live bytes. If these are less than a page, the 64-byte
/// alignment dominates.
#[test]
fn arenas_of_models_are_close_to_what_is_alive() {
    let registry = Arc::new(optc_ops::registry());
    for path in files(&root().join("tests/models"), "onnx") {
        let bytes = std::fs::read(&path).expect("a model can be read");
        let import = optc_onnx::import(&bytes, &optc_onnx::Options::default());
        let module = import.expect("it imports").module;
        for (target, passes) in [
            ("cpu", "canonicalize,bufferize,plan-memory"),
            ("cpu", FOLDED),
            ("tpu", FOLDED),
        ] {
            let ran = plan(&module, passes, target, &registry);
            is_sound(&ran.module, &path.display().to_string(), &registry);
            let used = MemoryUse::of(&ran.module, &registry).expect("it is planned");
            let most = (used.live_bytes + used.live_bytes / 10).max(4096);
            assert!(used.arena_bytes <= most, "{}: {used:?}", path.display());
        }
    }
}

#[test]
fn arenas_of_generated_programs_are_close_to_what_is_alive() {
    let registry = Arc::new(optc_ops::registry());
    for kind in Scale::ALL {
        let module = parse(&kind.text(2000, &registry));
        let ran = plan(&module, PLANNED, "cpu", &registry);
        let used = MemoryUse::of(&ran.module, &registry).expect("it is planned");
        // Most values of random programs are smaller than a cache line.
        let more = match kind {
            Scale::Random => used.live_bytes / 4,
            _ => used.live_bytes / 10,
        };
        let most = (used.live_bytes + more).max(4096);
        assert!(used.arena_bytes <= most, "{}: {used:?}", kind.name());
    }
}
