//! The answer of a compilation: each value that went in is held where the answer says, or its reason is true.

use optc::{Absence, Answer, Compiler, Error, Fate, Holder, Program, ViewDecision};
use optc_ir::{Attr, AttrDict, Func, Loc, Module, Op, TensorType, Type, Value};
use optc_tests::check::{cases, parse, same_meaning};
use optc_tests::paths::{files, root};
use optc_tests::{Profile, program};
use std::collections::BTreeSet;
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

fn values(func: &Func) -> Vec<Value> {
    let results = func
        .body
        .iter()
        .flat_map(|&op| func.ops[op].results.clone());
    func.args.iter().copied().chain(results).collect()
}

/// Appends operations that bring a holder, made row-major, to the indices of the value that went in.
fn unfolded(func: &mut Func, holder: &Holder) -> Value {
    let ty = func.ty(holder.value).as_tensor().expect("a tensor");
    let (own, dtype) = (ty.without_layout(), ty.dtype);
    let n_ops = func.body.len();
    let mut push = |name: &str, operand: Value, attr: Option<(&str, Attr)>, ty: TensorType| {
        let mut props = AttrDict::new();
        if let Some((name, attr)) = attr {
            props.set(name, attr);
        }
        let types = vec![Type::from(ty)];
        let op = func.push_op(name, vec![operand], props, types, Loc::Unknown);
        func.ops[op].results[0]
    };
    let mut at = push("hbir.layout_convert", holder.value, None, own);
    for map in &holder.map {
        let shape = map.shape.clone().expect("a map states its shape");
        let perm = map.perm.clone().expect("a map states its permutation");
        let turned: Vec<u64> = perm.iter().map(|&p| shape[p]).collect();
        let ty = |dims: &[u64]| TensorType::fixed(dims, dtype);
        let ints = |of: &[u64]| Some(("shape", Attr::ints(of)));
        at = push("hbir.reshape", at, ints(&shape), ty(&shape));
        at = push(
            "hbir.transpose",
            at,
            Some(("perm", Attr::ints(&perm))),
            ty(&turned),
        );
        at = push("hbir.reshape", at, ints(&map.result), ty(&map.result));
    }
    // The value is read before other elements replace its own.
    if let Some(update) = holder.place.until {
        let read = func.body.split_off(n_ops);
        let before = func.body.iter().position(|&op| op == update.op);
        let before = before.expect("the update is in the function");
        func.body.splice(before..before, read);
    }
    at
}

/// The counts of the answers for one program.
#[derive(Default, Debug)]
struct Count {
    held: usize,
    holders: usize,
    mapped: usize,
    dead: usize,
    inside: usize,
    views: usize,
    moved: usize,
    computed: usize,
}

/// Checks everything that an answer says of the values and operations that went in.
fn check(before: &Module, answer: &Answer, count: &mut Count) -> Result<(), String> {
    let registry = optc_ops::registry();
    let (mut stated, mut found) = (before.clone(), answer.program().module.clone());
    let said = |e: Error| e.to_string();
    for func in &before.funcs {
        let live = needed(func);
        for value in values(func) {
            let holders = match answer.fate(value).map_err(said)? {
                Fate::Held(holders) => holders,
                Fate::Absent(Absence::Dead) => {
                    count.dead += 1;
                    let is_dead = !live.contains(&value);
                    if is_dead {
                        continue;
                    } else {
                        return Err(format!("{value} is not dead"));
                    }
                }
                Fate::Absent(Absence::Inside(ops)) => {
                    count.inside += 1;
                    let there = |of: &optc::OpOf| found.funcs[of.func].body.contains(&of.op);
                    match !ops.is_empty() && ops.iter().all(there) {
                        true => continue,
                        false => return Err(format!("{value} is inside of no operation")),
                    }
                }
                other => return Err(format!("{value} is lost: {other:?}")),
            };
            count.held += 1;
            for holder in holders {
                count.holders += 1;
                count.mapped += usize::from(!holder.map.is_empty());
                layout_fits(func, value, &holder)?;
                if func
                    .ty(value)
                    .as_tensor()
                    .is_none_or(|ty| ty.shape().is_none())
                {
                    continue;
                }
                let at = before.funcs.iter().position(|f| f.name == func.name);
                let (at, of) = (at.unwrap_or(0), holder.func);
                if at == of && before.funcs.len() == found.funcs.len() {
                    let new = unfolded(&mut found.funcs[of], &holder);
                    found.funcs[of].add_result(new, None);
                    stated.funcs[at].add_result(value, None);
                }
            }
        }
        for &op in &func.body {
            is_view(func, op, answer, count)?;
        }
    }
    same_meaning(&stated, &found, &registry)
}

/// The values that a result of the function depends on; operations of random programs have no effects.
fn needed(func: &Func) -> BTreeSet<Value> {
    let mut needed: BTreeSet<Value> = func.results.iter().copied().collect();
    for &op in func.body.iter().rev() {
        let data = &func.ops[op];
        if data.results.iter().any(|v| needed.contains(v)) {
            needed.extend(data.operands.iter().copied());
            needed.extend(data.results.iter().copied());
        }
    }
    needed.extend(func.args.iter().copied());
    needed
}

/// Checks the layout of a value that went in, element by element, against that of its holder.
fn layout_fits(func: &Func, value: Value, holder: &Holder) -> Result<(), String> {
    let (Some(seen), Some(ty)) = (&holder.layout, func.ty(value).as_tensor()) else {
        let tensor = func
            .ty(value)
            .as_tensor()
            .is_some_and(|ty| ty.shape().is_some());
        return match tensor && holder.map.is_empty() {
            true => Err(format!("{value} has no layout where it is")),
            false => Ok(()),
        };
    };
    let own = holder.place.layout.as_ref().expect("it has a layout");
    let shape = ty.shape().unwrap_or_default();
    let total: u64 = shape.iter().product();
    let mut shapes = vec![own.layout().shape().to_vec()];
    shapes.extend(holder.map.iter().map(|map| map.result.clone()));
    for k in 0..total.min(512) {
        let number = k * total / total.min(512);
        let index = at(&shape, number);
        let mut there = Some(index.clone());
        for (map, shape) in holder.map.iter().zip(&shapes).rev() {
            there = there.and_then(|index| map.operand_index(shape, &index));
        }
        let wanted = there.and_then(|index| own.offset(&index));
        if seen.offset(&index) != wanted {
            return Err(format!(
                "{value}{index:?}: {:?}, wanted {wanted:?}",
                seen.offset(&index)
            ));
        }
    }
    Ok(())
}

fn at(shape: &[u64], mut number: u64) -> Vec<u64> {
    let mut index = vec![0; shape.len()];
    for (i, &size) in index.iter_mut().zip(shape).rev() {
        *i = number % size;
        number /= size;
    }
    index
}

/// Checks what an answer says of a rearrangement: a view has one buffer, anything else moves bytes.
fn is_view(func: &Func, op: Op, answer: &Answer, count: &mut Count) -> Result<(), String> {
    let registry = optc_ops::registry();
    if registry.rearrangement(&func.op_ref(op)).is_err() {
        return Ok(());
    }
    match answer.is_view(op).map_err(|e| e.to_string())? {
        ViewDecision::View {
            operand, result, ..
        } => {
            count.views += 1;
            match operand.place.buffer == result.place.buffer {
                true => Ok(()),
                false => Err(format!("{op} is a view of another buffer")),
            }
        }
        ViewDecision::Moved(ops) => {
            count.moved += 1;
            let body = |of: &optc::OpOf| &answer.program().module.funcs[of.func];
            let there = |of: &optc::OpOf| body(of).body.contains(&of.op);
            match !ops.is_empty() && ops.iter().all(there) {
                true => Ok(()),
                false => Err(format!("{op} is moved by no operation")),
            }
        }
        ViewDecision::Computed => {
            count.computed += 1;
            Ok(())
        }
        ViewDecision::Absent(_) => Ok(()),
        other => Err(format!("{other:?} is not known here")),
    }
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
