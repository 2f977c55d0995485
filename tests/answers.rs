//! The answer of a compilation: each value that went in is held where the answer says, or its reason is true.

use optc::{Absence, Answer, Compiler, Fate, Program, ViewDecision};
use optc_ir::Module;
use optc_tests::answers::{self, Count, Pair, values, with_holders, with_values};
use optc_tests::check::{cases, parse, same_meaning};
use optc_tests::paths::{files, root};
use optc_tests::{Profile, program};
use std::sync::Arc;

const PIPELINE: &str = "inline,canonicalize,view-fold,elide-copies";

fn compiler(target: &str) -> Compiler {
    let mut compiler = Compiler::new();
    compiler.target = Some(Arc::new(optc::find_target(target).expect("built in")));
    compiler
}

fn answer(compiler: &Compiler, module: &Module, pipeline: &str) -> Result<Answer, String> {
    let program = Program::built("test", module.clone());
    compiler
        .answer(&program, pipeline)
        .map_err(|e| e.to_string())
}

/// Checks everything that an answer says of the values and operations that went in.
fn check(before: &Module, answer: &Answer, count: &mut Count) -> Result<(), String> {
    let registry = optc_ops::registry();
    let pairs = answers::check(before, answer, &registry, count)?;
    let pairs: Vec<&Pair> = pairs.iter().collect();
    let (stated, found) = (with_values(before, &pairs), with_holders(answer, &pairs));
    same_meaning(&stated, &found, &registry)
}

#[test]
fn each_value_of_random_programs_is_where_the_answer_says() {
    let registry = optc_ops::registry();
    let mut count = Count::default();
    for (target, seeds) in [("cpu", 0..700), ("journey6", 700..1000)] {
        let compiler = compiler(target);
        for profile in [Profile::Mixed, Profile::Moves, Profile::Updates] {
            for seed in seeds.start..cases(seeds.end) {
                let module = program(seed, profile, &registry);
                let checked = answer(&compiler, &module, PIPELINE)
                    .and_then(|answer| check(&module, &answer, &mut count));
                if let Err(problem) = checked {
                    panic!(
                        "{profile:?} seed {seed} on {target}: {problem}\n{}",
                        optc_ir::text::print(&module)
                    );
                }
            }
        }
    }
    for some in [count.mapped, count.views, count.moved] {
        assert!(0 < some, "{count:?}");
    }
    assert!(count.holders < 3 * count.held, "{count:?}");
}

/// Checks the answers about the small models of the repository.
#[test]
fn each_value_of_the_models_is_where_the_answer_says() {
    let mut count = Count::default();
    let paths = files(&root().join("tests/models"), "onnx");
    for path in &paths {
        for target in ["cpu", "tpu"] {
            let compiler = compiler(target);
            let program = compiler.load(path, None).expect("the model is read");
            let answer = compiler.answer(&program, PIPELINE).expect("it folds");
            let checked = check(&program.module, &answer, &mut count);
            assert_eq!(checked, Ok(()), "{} on {target}", path.display());
        }
    }
    assert!(10 <= paths.len() && 100 < count.held, "{count:?}");
}

#[test]
fn places_in_memory_and_tiles_follow() {
    let registry = optc_ops::registry();
    let (mut places, mut tiles) = (0, 0);
    for seed in 0..cases(100) {
        let module = program(seed, Profile::Mixed, &registry);
        for (target, rest) in [("cpu", "bufferize,plan-memory"), ("tpu", "tile-propagate")] {
            let pipeline = format!("inline,canonicalize,view-fold,{rest}");
            let answer = answer(&compiler(target), &module, &pipeline).expect("the passes run");
            for value in module.funcs.iter().flat_map(values) {
                match answer.fate(value) {
                    Ok(Fate::Held(holders)) => {
                        places += holders.iter().filter(|h| h.place.memory.is_some()).count();
                        tiles += holders.iter().filter(|h| h.place.tiles.is_some()).count();
                    }
                    Ok(Fate::Absent(Absence::Dead | Absence::Inside(_))) => {}
                    other => panic!("seed {seed}: {value} is {other:?}"),
                }
            }
        }
    }
    assert!(
        500 < places && 100 < tiles,
        "{places} places, {tiles} tiles"
    );
}

/// The answer about a program in text.
fn answer_of(target: &str, pipeline: &str, body: &str) -> (Module, Answer) {
    let module = parse(body);
    let answer = answer(&compiler(target), &module, pipeline).expect("the passes run");
    check(&module, &answer, &mut Count::default()).expect("the answer is true");
    (module, answer)
}

#[test]
fn a_dead_value_and_one_inside_of_an_operation_are_told_apart() {
    let (module, answer) = answer_of(
        "cpu",
        PIPELINE,
        r#"func.func @main(%x: tensor<2x3xf32>, %y: tensor<2x3xf32>) -> tensor<3x3xf32> {
            %0 = "hbir.neg"(%x) : (tensor<2x3xf32>) -> tensor<2x3xf32>
            %1 = "hbir.einsum"(%x, %y) <{equation = "ab,ac->bc"}> : (tensor<2x3xf32>, tensor<2x3xf32>) -> tensor<3x3xf32>
            return %1 : tensor<3x3xf32>
        }"#,
    );
    let func = &module.funcs[0];
    let [neg, einsum] = [0, 1].map(|i| func.ops[func.body[i]].results[0]);
    assert!(matches!(answer.fate(neg), Ok(Fate::Absent(Absence::Dead))));
    let holders = answer.holders(einsum).expect("it went in");
    assert_eq!(holders.len(), 1);
    let made = answer.program().module.funcs[0].def_op(holders[0].value);
    let made = made.expect("an operation");
    assert_eq!(
        &*answer.program().module.funcs[0].ops[made].name,
        "hbir.dot_general"
    );
}

#[test]
fn the_middle_of_a_chain_is_a_view_of_what_the_chain_starts_at() {
    let (module, answer) = answer_of(
        "cpu",
        PIPELINE,
        r#"func.func @main(%x: tensor<2x3x4xf32>) -> tensor<4x6xf32> {
            %0 = "hbir.transpose"(%x) <{perm = [2, 0, 1]}> : (tensor<2x3x4xf32>) -> tensor<4x2x3xf32>
            %1 = "hbir.transpose"(%0) <{perm = [0, 2, 1]}> : (tensor<4x2x3xf32>) -> tensor<4x3x2xf32>
            %2 = "hbir.transpose"(%1) <{perm = [0, 2, 1]}> : (tensor<4x3x2xf32>) -> tensor<4x2x3xf32>
            %3 = "hbir.reshape"(%2) <{shape = [4, 6]}> : (tensor<4x2x3xf32>) -> tensor<4x6xf32>
            %4 = "hbir.relu"(%3) : (tensor<4x6xf32>) -> tensor<4x6xf32>
            return %4 : tensor<4x6xf32>
        }"#,
    );
    let func = &module.funcs[0];
    let middle = func.ops[func.body[1]].results[0];
    let holder = &answer.holders(middle).expect("it went in")[0];
    let layout = holder.layout.as_ref().expect("a tensor");
    assert_eq!(
        layout.strides(),
        Some([1, 4, 12].map(optc_ir::Dim::from).to_vec())
    );
    for &op in &func.body[..3] {
        assert!(
            matches!(answer.is_view(op), Ok(ViewDecision::View { .. })),
            "{op}"
        );
    }
    let kept = answer.conversions();
    assert_eq!(kept.len(), 1, "the result is pinned row-major");
    assert_eq!(kept[0].bytes, 2 * 96);
    assert!(kept[0].from.is_some() && kept[0].to.is_some());
}

#[test]
fn handles_of_other_programs_are_refused() {
    let text = r#"%0 = "hbir.relu"(%x) : (tensor<2x3xf32>) -> tensor<2x3xf32>"#;
    let (module, answer) = answer_of("cpu", PIPELINE, text);
    let own = module.funcs[0].args[0];
    assert!(answer.fate(own).is_ok());
    let other = parse(text).funcs[0].args[0];
    let folded = answer.program().module.funcs[0].args[0];
    for stale in [other, folded] {
        let error = answer.fate(stale).expect_err("a stale handle");
        assert_eq!(error.diagnostics[0].code.to_string(), "stale-handle");
    }
    // The new function refuses the handles of the old one, too.
    assert!(answer.program().module.funcs[0].values.get(own).is_none());
}

#[test]
fn programs_folded_on_eight_threads_have_the_bytes_of_one() {
    fn shared<T: Send + Sync>(_: &T) {}
    let registry = optc_ops::registry();
    let compiler = compiler("cpu");
    let program = |seed| Program::built("test", program(seed, Profile::Mixed, &registry));
    let folded = |program: &Program| {
        let answer = compiler.fold(program).expect("it folds");
        shared(&answer);
        answer.program().text()
    };
    let programs: Vec<Program> = (0..8).map(program).collect();
    let alone: Vec<String> = programs.iter().map(folded).collect();
    let folded = &folded;
    let together: Vec<String> = std::thread::scope(|scope| {
        let threads: Vec<_> = programs
            .iter()
            .map(|p| scope.spawn(move || folded(p)))
            .collect();
        let joined = threads.into_iter().map(|thread| thread.join());
        joined.map(|text| text.expect("no panic")).collect()
    });
    assert_eq!(alone, together);
}

/// A part of a value that is itself a part of a joined value lies in the joined value's buffer.
#[test]
fn a_part_of_a_part_is_in_the_outermost_buffer() {
    let (module, answer) = answer_of(
        "cpu",
        PIPELINE,
        r#"func.func @main(%x: tensor<4x6xf32>, %y: tensor<2x6xf32>) -> (tensor<6x6xf32>, tensor<2x6xf32>) {
            %0 = "hbir.exp"(%x) : (tensor<4x6xf32>) -> tensor<4x6xf32>
            %1 = "hbir.exp"(%y) : (tensor<2x6xf32>) -> tensor<2x6xf32>
            %2 = "hbir.slice"(%0) <{starts = [1, 0], limits = [3, 6]}> : (tensor<4x6xf32>) -> tensor<2x6xf32>
            %3 = "hbir.neg"(%2) : (tensor<2x6xf32>) -> tensor<2x6xf32>
            %4 = "hbir.concat"(%1, %0) <{axis = 0}> : (tensor<2x6xf32>, tensor<4x6xf32>) -> tensor<6x6xf32>
            return %4, %3 : tensor<6x6xf32>, tensor<2x6xf32>
        }"#,
    );
    let func = &module.funcs[0];
    let of = |i: usize| {
        let value = func.ops[func.body[i]].results[0];
        answer.holders(value).expect("it went in").remove(0)
    };
    let (joined, whole, part) = (of(4), of(0), of(2));
    assert_eq!(whole.place.buffer, joined.value, "written in place");
    assert_eq!(part.place.buffer, joined.value, "read in place");
    assert_eq!(whole.offset(&[0, 0]), Some(12));
    assert_eq!(part.offset(&[1, 2]), Some(12 + 12 + 2));
}

/// A size that only a run shows to be 1 leaves no map in numbers, which is not the map of equal indices.
#[test]
fn a_map_of_unknown_sizes_is_not_empty() {
    let module = parse(
        r#"func.func @main(%x: tensor<?x4x?xf32, {dims = ["b", 4, "s"]}>) -> tensor<1x?x4xf32, {dims = [1, "b", 4]}> {
            %0 = "hbir.squeeze"(%x) <{axes = [2]}> : (tensor<?x4x?xf32, {dims = ["b", 4, "s"]}>) -> tensor<?x4xf32, {dims = ["b", 4]}>
            %1 = "hbir.unsqueeze"(%0) <{axes = [0]}> : (tensor<?x4xf32, {dims = ["b", 4]}>) -> tensor<1x?x4xf32, {dims = [1, "b", 4]}>
            return %1 : tensor<1x?x4xf32, {dims = [1, "b", 4]}>
        }"#,
    );
    let answer = answer(&compiler("cpu"), &module, PIPELINE).expect("the passes run");
    let registry = optc_ops::registry();
    answers::check(&module, &answer, &registry, &mut Count::default()).expect("the answer is true");
    let func = &module.funcs[0];
    let squeezed = func.ops[func.body[0]].results[0];
    let holder = &answer.holders(squeezed).expect("it went in")[0];
    assert_eq!(
        holder.value,
        answer.program().module.funcs[0].args[0],
        "one reshape is left"
    );
    assert_eq!(holder.map, None);
}
