//! Plans of tiles on random programs: execution tile by tile gives the same as the operations.

use indexmap::IndexMap;
use optc_cli::{Main, Streams};
use optc_compare::{Fill, RandomSource, SplitMix64, compare, random_inputs};
use optc_interp::{RunError, run_reference, run_tiled};
use optc_ir::entity::EntityId;
use optc_ir::op::iteration_domain::{IndexExpr, IterationDomain};
use optc_ir::op::iteration_domain_of;
use optc_ir::{Bindings, Func, Module, Op, Registry, Tensor, Value, text, verify};
use optc_passes::manager::Hooks;
use optc_passes::tile_propagate::TileReport;
use optc_passes::{PassContext, PassList};
use optc_target::Target;
use optc_tests::check::cases;
use optc_tests::generate::{Profile, program, program_of};
use optc_tests::paths::{files, root};
use optc_tile::Tiling;
use optc_tile::{
    Axis, Expr, Group, GroupSchedule, OpSchedule, OpTile, Order, PartSchedule, Plan, Schedule,
    Source, Span, Tile, Unit,
};
use std::collections::BTreeMap;
use std::sync::Arc;

fn below(rng: &mut SplitMix64, n: u64) -> u64 {
    rng.below(n.max(1))
}

fn shape_of(func: &Func, value: Value) -> Option<Vec<u64>> {
    func.ty(value).as_tensor()?.shape()
}

/// A random plan of one group: a random operation in random blocks, perhaps with a reduction that is cut, and some of
/// the operations before it, each on the tile that is needed.
fn plan(func: &Func, registry: &Registry, rng: &mut SplitMix64) -> Option<Plan> {
    let domain: Vec<IterationDomain> = func
        .body
        .iter()
        .map(|&op| iteration_domain_of(registry.get(&func.ops[op].name), &func.op_ref(op)))
        .collect();
    let count = func.body.len() as u64;
    let back = if below(rng, 4) == 0 { count } else { 3 };
    let root = usize::try_from(count - 1 - below(rng, back.min(count))).ok()?;
    let &[result] = func.ops[func.body[root]].results.as_slice() else {
        return None;
    };
    let shape = shape_of(func, result)?;
    if shape.contains(&0) {
        return None;
    }
    let mut axes = Vec::new();
    let mut spans: Vec<Span> = shape.iter().map(|&n| Span::whole(n)).collect();
    let mut dims: Vec<usize> = (0..shape.len()).collect();
    for i in (1..dims.len()).rev() {
        dims.swap(i, usize::try_from(below(rng, i as u64 + 1)).ok()?);
    }
    let mut reduce = Vec::new();
    for d in dims {
        if below(rng, 3) == 0 {
            continue;
        }
        let extent = 1 + below(rng, shape[d]);
        let start = Expr::axis(axes.len()).times(i64::try_from(extent).ok()?);
        spans[d] = Span::new(start, extent);
        axes.push(Axis {
            extent: shape[d].div_ceil(extent),
            order: Order::Parallel,
        });
    }
    let reductions: Vec<(usize, u64)> = domain[root].reductions().map(|r| (r.0, r.1)).collect();
    if below(rng, 2) == 0 && !reductions.is_empty() {
        reduce = reductions.iter().map(|&(_, n)| Span::whole(n)).collect();
        let i = usize::try_from(below(rng, reductions.len() as u64)).ok()?;
        let size = reductions[i].1.max(1);
        let extent = 1 + below(rng, size);
        let start = Expr::axis(axes.len()).times(i64::try_from(extent).ok()?);
        reduce[i] = Span::new(start, extent);
        axes.push(Axis {
            extent: size.div_ceil(extent),
            order: Order::Arbitrary,
        });
    }
    let grid: Vec<u64> = axes.iter().map(|a| a.extent).collect();
    let mut uses = vec![0usize; func.values.len()];
    let mut inside = vec![0usize; func.values.len()];
    for &op in &func.body {
        for operand in &func.ops[op].operands {
            uses[operand.index()] += 1;
        }
    }
    for value in &func.results {
        uses[value.index()] += 1;
    }
    let mut plan = Plan::default();
    let mut needs: BTreeMap<Value, Tile> = [(result, Tile(spans))].into_iter().collect();
    let mut ops = Vec::new();
    for (i, &op) in func.body.iter().enumerate().take(root + 1).rev() {
        let data = &func.ops[op];
        let local = |v: &Value| inside[v.index()] == uses[v.index()] && needs.contains_key(v);
        let joins = i == root || data.results.iter().all(local) && below(rng, 6) != 0;
        if !joins || data.results.is_empty() || &*data.name == "hbir.constant" {
            continue;
        }
        let results: Vec<Tile> = data.results.iter().map(|v| needs[v].clone()).collect();
        let shapes: Option<Vec<Vec<u64>>> =
            data.results.iter().map(|&v| shape_of(func, v)).collect();
        let shapes = shapes?;
        let shapes: Vec<&[u64]> = shapes.iter().map(Vec::as_slice).collect();
        let reduce = if i == root {
            reduce.clone()
        } else {
            Vec::new()
        };
        let Ok(steps) = domain[i].steps(&results, &reduce, &shapes, &grid) else {
            if i == root {
                return None;
            }
            continue;
        };
        for (k, &operand) in data.operands.iter().enumerate() {
            let region = domain[i].operand(k, &steps, &shape_of(func, operand)?, &grid);
            let tile = match needs.get(&operand) {
                Some(known) => known.union(&region.tile, &grid),
                None => region.tile,
            };
            needs.insert(operand, tile);
            inside[operand.index()] += 1;
        }
        let tile = OpTile {
            group: 0,
            results,
            reduce,
            ..OpTile::default()
        };
        plan.tiles.insert(op, tile);
        ops.push(op);
    }
    ops.reverse();
    let some = !ops.is_empty();
    plan.groups.push(Group { axes, ops });
    some.then_some(plan)
}

type Values = IndexMap<String, Tensor>;

struct Case {
    module: Module,
    inputs: Values,
    wanted: Values,
}

/// A random program of at most 12 operations with a random plan.
fn case(seed: u64, registry: &Registry) -> Option<(Case, Plan)> {
    let mut module = if seed.is_multiple_of(2) {
        let count = usize::try_from(2 + seed % 11).ok()?;
        program_of(seed, Profile::Mixed, count, registry)
    } else {
        program(seed, Profile::Mixed, registry)
    };
    let mut rng = SplitMix64::new(seed ^ 0x7469_6c65);
    if 12 < module.funcs[0].body.len() {
        return None;
    }
    let plan = plan(&module.funcs[0], registry, &mut rng)?;
    plan.write(&mut module.funcs[0]);
    let bindings = Bindings::default();
    let inputs = random_inputs(
        &module,
        "main",
        Fill::Normal,
        seed,
        &bindings,
        &optc_ops::registry(),
    )
    .ok()?;
    let wanted =
        run_reference(&module, registry, "main", &inputs, &RandomSource, &bindings).ok()?;
    let case = Case {
        module,
        inputs,
        wanted,
    };
    Some((case, plan))
}

fn run(case: &Case, registry: &Registry) -> Result<Values, RunError> {
    let bindings = Bindings::default();
    run_tiled(
        &case.module,
        registry,
        "main",
        &case.inputs,
        &RandomSource,
        &bindings,
    )
}

fn difference(case: &Case, found: &Values) -> Option<String> {
    let pairs = case
        .wanted
        .iter()
        .map(|(key, wanted)| (key, &found[key], wanted));
    pairs
        .filter_map(|(key, a, b)| compare(a, b).err().map(|e| format!("{key}: {e}")))
        .next()
}

/// The plans of `tests/plans`, which the peers run too.
#[test]
fn plans_of_the_project_run_tile_by_tile() {
    let registry = optc_ops::registry();
    let bindings = Bindings::default();
    let folder = concat!(env!("CARGO_MANIFEST_DIR"), "/plans");
    let mut paths: Vec<_> = std::fs::read_dir(folder)
        .expect("the folder is there")
        .map(|entry| entry.expect("an entry").path())
        .collect();
    paths.sort();
    assert!(10 <= paths.len(), "{paths:?}");
    for path in paths {
        let source = std::fs::read_to_string(&path).expect("a program");
        let module = text::parse(&source).unwrap_or_else(|e| panic!("{}: {e:?}", path.display()));
        verify::verify(&module, &registry).unwrap_or_else(|e| panic!("{}: {e:?}", path.display()));
        let inputs = random_inputs(
            &module,
            "main",
            Fill::Normal,
            3,
            &bindings,
            &optc_ops::registry(),
        )
        .expect("inputs");
        let run = |tiled: bool| {
            let run = if tiled { run_tiled } else { run_reference };
            let found = run(
                &module,
                &registry,
                "main",
                &inputs,
                &RandomSource,
                &bindings,
            );
            found.unwrap_or_else(|e| panic!("{}: {e}", path.display()))
        };
        let case = Case {
            wanted: run(false),
            module: module.clone(),
            inputs: inputs.clone(),
        };
        if let Some(why) = difference(&case, &run(true)) {
            panic!("{}: {why}", path.display());
        }
    }
}

#[test]
fn random_plans_give_what_the_operations_give() {
    let registry = optc_ops::registry();
    let (mut ran, mut large) = (0, 0);
    for seed in 0..cases(2000) {
        let Some((case, plan)) = case(seed, &registry) else {
            continue;
        };
        let found = run(&case, &registry);
        let found =
            found.unwrap_or_else(|e| panic!("seed {seed}: {e}\n{}", text::print(&case.module)));
        if let Some(why) = difference(&case, &found) {
            panic!("seed {seed}: {why}\n{}", text::print(&case.module));
        }
        ran += 1;
        large += u64::from(1 < plan.groups[0].ops.len() && 1 < plan.groups[0].programs());
    }
    assert!(
        cases(600) < ran && cases(100) < large,
        "{ran} cases, {large} of several operations"
    );
}

/// The planner's plan of a random program, for several sizes of memory and rules for blocks. It verifies, moves no less
/// than its bound, and gives the same numbers tile by tile.
#[test]
fn plans_of_the_planner_give_what_the_operations_give() {
    let registry = Arc::new(optc_ops::registry());
    let bindings = Bindings::default();
    let (mut ran, mut cut) = (0, 0);
    for seed in 0..cases(400) {
        let count = usize::try_from(2 + seed % 11).expect("a number");
        let mut module = program_of(seed, Profile::Mixed, count, &registry);
        let inputs = random_inputs(
            &module,
            "main",
            Fill::Normal,
            seed,
            &bindings,
            &optc_ops::registry(),
        );
        let inputs = inputs.expect("known sizes");
        let run = |module: &Module, tiled: bool| {
            let run = if tiled { run_tiled } else { run_reference };
            run(module, &registry, "main", &inputs, &RandomSource, &bindings)
        };
        let Ok(wanted) = run(&module, false) else {
            continue;
        };
        let targets = ["cpu", "tpu", "mosaic_gpu", "triton"];
        let target = targets[usize::try_from(seed % 4).expect("a number")];
        let memory = 1u64 << (7 + seed / 4 % 8);
        let pipeline = format!("tile-propagate{{memory={memory}}}");
        let stages = PassList::builtin().parse(&pipeline).expect("built in");
        let target = Arc::new(Target::builtin(target).expect("built in"));
        let mut cx = PassContext::new(registry.clone(), target);
        optc_passes::manager::run(&mut module, &stages, &mut cx, &mut Hooks::default())
            .unwrap_or_else(|e| panic!("seed {seed}: {e:?}\n{}", text::print(&module)));
        verify::verify(&module, &registry)
            .unwrap_or_else(|e| panic!("seed {seed}: {e:?}\n{}", text::print(&module)));
        let report = cx.reports.get::<TileReport>().expect("the pass reports");
        for group in &report.groups {
            let (moved, bound) = (group.tiled_bytes, group.lower_bound_bytes);
            assert!(
                bound <= moved && group.footprint <= memory,
                "seed {seed}: {group:?}\n{}",
                text::print(&module)
            );
            let alone = group.untiled_bytes == group.unfused_bytes;
            assert!(
                alone || moved <= group.untiled_bytes,
                "seed {seed}: more than in one program: {group:?}\n{}",
                text::print(&module)
            );
            cut += u64::from(1 < group.grid.iter().product::<u64>());
        }
        let found = run(&module, true)
            .unwrap_or_else(|e| panic!("seed {seed}: {e}\n{}", text::print(&module)));
        let case = Case {
            module,
            inputs,
            wanted,
        };
        if let Some(why) = difference(&case, &found) {
            panic!("seed {seed}: {why}\n{}", text::print(&case.module));
        }
        ran += 1;
    }
    assert!(
        cases(300) < ran && cases(150) < cut,
        "{ran} programs, {cut} groups that are cut"
    );
}

/// If a tile is made smaller or moved, the plan is refused, or the tile was larger than needed; the result is never
/// wrong.
#[test]
fn plans_that_are_changed_are_refused_or_still_right() {
    let registry = optc_ops::registry();
    let (mut refused, mut right) = (0u64, 0u64);
    for seed in 0..cases(2000) {
        let Some((mut case, mut plan)) = case(seed, &registry) else {
            continue;
        };
        let mut rng = SplitMix64::new(seed);
        let ops: Vec<Op> = plan.groups[0].ops.clone();
        let op = ops[usize::try_from(below(&mut rng, ops.len() as u64)).expect("a number")];
        let Some(tile) = plan.tiles.get_mut(&op) else {
            continue;
        };
        let rank = tile.results[0].0.len();
        if rank == 0 {
            continue;
        }
        let d = usize::try_from(below(&mut rng, rank as u64)).expect("a number");
        let span = &mut tile.results[0].0[d];
        match below(&mut rng, 3) {
            0 => span.start = span.start.offset(1),
            1 => span.start = span.start.offset(-1),
            _ if 1 < span.extent => span.extent -= 1,
            _ => continue,
        }
        plan.write(&mut case.module.funcs[0]);
        match run(&case, &registry) {
            Err(_) => refused += 1,
            Ok(found) => {
                if let Some(why) = difference(&case, &found) {
                    panic!("seed {seed}: {why}\n{}", text::print(&case.module));
                }
                right += 1;
            }
        }
    }
    assert!(
        cases(50) < refused && 0 < right,
        "{refused} refused, {right} right"
    );
}

/// The Python text of each plan; it is run with JAX outside of cargo.
#[test]
fn plans_become_the_same_kernels() {
    let mut settings = insta::Settings::new();
    settings.set_snapshot_path(root().join("snapshots/plans"));
    settings.set_prepend_module_to_snapshot(false);
    settings.set_omit_expression(true);
    for plan in files(&root().join("tests/plans"), "ir") {
        let (mut output, mut errors) = (Vec::new(), Vec::new());
        let mut streams = Streams {
            input: &mut std::io::empty(),
            output: &mut output,
            errors: &mut errors,
        };
        let args = ["optc".into(), "--emit=pallas".into(), plan.clone()];
        let status = Main::default().call(args, &mut streams);
        let errors = String::from_utf8_lossy(&errors);
        assert_eq!(status, 0, "{}: {errors}", plan.display());
        let stem = plan.file_stem().unwrap_or_default().to_string_lossy();
        let text = String::from_utf8_lossy(&output);
        settings.bind(|| insta::assert_snapshot!(&*stem, text));
    }
}

/// The Triton kernels of whole blocks; they are compiled and run in Triton's interpreter outside of cargo.
#[test]
fn blocks_become_the_same_triton_kernels() {
    blocks_become_the_same("triton", "triton");
}

/// The Pallas kernels of the same blocks; both stages of a TPU's compiler take them outside of cargo.
#[test]
fn blocks_become_the_same_pallas_kernels() {
    blocks_become_the_same("tpu", "pallas");
}

/// Compares the modules of whole blocks, planned for a target and written in a format, with their snapshots.
fn blocks_become_the_same(target: &str, format: &str) {
    let mut settings = insta::Settings::new();
    settings.set_snapshot_path(root().join("snapshots").join(format));
    settings.set_prepend_module_to_snapshot(false);
    settings.set_omit_expression(true);
    let cases = root().join("tests/cases/lowering/triton");
    let mut blocks = files(&cases, "ir");
    blocks.extend(files(&cases, "mlir"));
    blocks.push(root().join("tests/models/micro_attention_full.onnx"));
    for block in blocks {
        let (mut output, mut errors) = (Vec::new(), Vec::new());
        let mut streams = Streams {
            input: &mut std::io::empty(),
            output: &mut output,
            errors: &mut errors,
        };
        let args = [
            "optc".into(),
            format!("--target={target}").into(),
            "--pass=inline,canonicalize,view-fold,tile-propagate".into(),
            format!("--emit={format}").into(),
            block.clone(),
        ];
        let status = Main::default().call(args, &mut streams);
        let errors = String::from_utf8_lossy(&errors);
        assert_eq!(status, 0, "{}: {errors}", block.display());
        let stem = block.file_stem().unwrap_or_default().to_string_lossy();
        let text = String::from_utf8_lossy(&output);
        assert!(
            !text.contains("has no kernel: "),
            "{stem}: all of it is in kernels"
        );
        settings.bind(|| insta::assert_snapshot!(&*stem, text));
    }
}

/// All indices within these extents, the last one fastest: the programs of a grid in execution order.
fn indices(grid: &[u64]) -> Vec<Vec<i64>> {
    let mut all = vec![Vec::new()];
    for &n in grid {
        let longer = all.iter().flat_map(|head: &Vec<i64>| {
            (0..n.cast_signed()).map(move |i| [head.as_slice(), &[i]].concat())
        });
        all = longer.collect();
    }
    all
}

/// Counts of the checked facts of schedules, so that a test can require some of each kind.
#[derive(Default)]
struct Seen {
    /// Loop steps whose reads were compared.
    steps: u64,
    /// Operands that the group computes.
    made: u64,
    /// Programs in which a value was incomplete.
    incomplete: u64,
    /// Elements of live-outs.
    written: u64,
}

/// The ranges of the reductions that a program adds.
fn reduced(op: &OpSchedule, program: &[i64]) -> Vec<std::ops::Range<u64>> {
    let spans = op.reduce.iter().zip(&op.reduced);
    spans.map(|(span, &n)| span.clipped(program, n)).collect()
}

/// Determines for each operation and program whether its result is complete. A reduction accumulates over consecutive
/// programs, from its first part until every element is included.
fn completion(
    group: &GroupSchedule,
    number: usize,
    complete: &mut BTreeMap<Op, Vec<bool>>,
    programs: &[Vec<i64>],
) {
    let op = &group.ops[number];
    let makers: Vec<Op> = op.parts[0]
        .operands
        .iter()
        .filter_map(|operand| match operand.source {
            Source::Made { op, .. } => Some(op),
            Source::Memory => None,
        })
        .collect();
    let sizes: u64 = op.reduced.iter().take(op.reduce.len()).product();
    let mut parts: Vec<Vec<std::ops::Range<u64>>> = Vec::new();
    let mut out = Vec::with_capacity(programs.len());
    for (p, program) in programs.iter().enumerate() {
        let runs = makers.iter().all(|maker| complete[maker][p]);
        if !runs || op.sequential.is_empty() || op.online.is_some() {
            out.push(runs);
            continue;
        }
        parts.push(reduced(op, program));
        let volume = |part: &Vec<std::ops::Range<u64>>| -> u64 {
            part.iter().map(|r| r.end - r.start).product()
        };
        let whole = parts.iter().map(volume).sum::<u64>() == sizes;
        for (i, a) in parts.iter().enumerate().filter(|_| whole) {
            let apart = |b: &Vec<std::ops::Range<u64>>| {
                let mut pairs = a.iter().zip(b);
                volume(a) == 0
                    || volume(b) == 0
                    || pairs.any(|(a, b)| a.end <= b.start || b.end <= a.start)
            };
            assert!(parts[..i].iter().all(apart), "{op:?} adds a part twice");
        }
        out.push(whole);
        if whole {
            parts.clear();
        }
    }
    assert!(parts.is_empty(), "{op:?} is not complete at the end");
    complete.insert(op.op, out);
}

/// Checks the reads of one part in one program, step by step of its loops: each is in the tile that the schedule has
/// for the operand, and in the tile of its source.
fn reads(
    func: &Func,
    domain: &IterationDomain,
    group: &GroupSchedule,
    part: &PartSchedule,
    program: &[i64],
    seen: &mut Seen,
) {
    let steps = part.steps.spans.iter().zip(&domain.loops);
    let ranges: Vec<_> = steps.map(|(s, l)| s.clipped(program, l.extent)).collect();
    let volume: u64 = ranges.iter().map(|r| r.end - r.start).product();
    if 512 < volume {
        return;
    }
    let extents: Vec<u64> = ranges.iter().map(|r| r.end - r.start).collect();
    for (operand, dims) in part.operands.iter().zip(&domain.operands) {
        let shape = shape_of(func, operand.value).expect("known sizes");
        let mut tiles: Vec<&Tile> = operand.tile.iter().chain(&operand.fetched).collect();
        if let Source::Made { op, result, part } = operand.source {
            let maker = group.ops.iter().find(|o| o.op == op).expect("a maker");
            tiles.push(&maker.parts[part].results[result]);
            seen.made += 1;
        }
        for step in indices(&extents) {
            let at = |id: usize| step[id] + ranges[id].start.cast_signed();
            let place = dims.iter().zip(&shape).map(|(index, &n)| match index {
                IndexExpr::Sum { terms, offset } => {
                    Some(terms.iter().map(|&(id, by)| at(id) * by).sum::<i64>() + offset)
                }
                IndexExpr::Digit { of, by, extent } => {
                    Some(at(*of) / by.cast_signed() % extent.cast_signed())
                }
                // The whole dimension is read; its ends are checked.
                IndexExpr::Whole => n.checked_sub(1).map(u64::cast_signed),
            });
            let place: Option<Vec<i64>> = place.collect();
            let inside = |place: &Vec<i64>| {
                let mut pairs = place.iter().zip(&shape);
                pairs.all(|(&i, &n)| 0 <= i && i < n.cast_signed())
            };
            let Some(place) = place.filter(inside) else {
                continue;
            };
            seen.steps += 1;
            for tile in &tiles {
                let mut spans = tile.0.iter().zip(&shape).zip(&place);
                let holds = spans.all(|((span, &n), &i)| {
                    let range = span.clipped(program, n);
                    range.contains(&i.unsigned_abs())
                });
                assert!(
                    holds,
                    "{part:?} reads {place:?} in {program:?}, not in {tile}"
                );
            }
        }
    }
}

/// The elements of a live-out that no complete program writes.
fn unwritten(
    shape: &[u64],
    op: &OpSchedule,
    result: usize,
    programs: &[Vec<i64>],
    complete: &[bool],
) -> u64 {
    let elements: u64 = shape.iter().product();
    let mut written = vec![false; usize::try_from(elements).expect("few elements")];
    for (program, _) in programs.iter().zip(complete).filter(|(_, done)| **done) {
        for tile in op.parts.iter().map(|part| &part.results[result]) {
            let ranges: Vec<_> = tile.0.iter().zip(shape).collect();
            let ranges: Vec<_> = ranges
                .iter()
                .map(|(s, n)| s.clipped(program, **n))
                .collect();
            let extents: Vec<u64> = ranges.iter().map(|r| r.end - r.start).collect();
            for at in indices(&extents) {
                let places = at.iter().zip(&ranges).zip(shape);
                let number = places.fold(0, |n, ((&i, r), &size)| {
                    n * size + r.start + i.unsigned_abs()
                });
                written[usize::try_from(number).expect("an element")] = true;
            }
        }
    }
    written.iter().filter(|done| !**done).count() as u64
}

/// Compares a schedule with a count program by program.
fn check_schedule(func: &Func, registry: &Registry, schedule: &Schedule, seen: &mut Seen) {
    let mut done: Vec<Op> = Vec::new();
    let mut group_of: BTreeMap<Op, usize> = BTreeMap::new();
    for &unit in &schedule.units {
        let ops: Vec<Op> = match unit {
            Unit::Op(op) => vec![op],
            Unit::Group(g) => schedule.groups[g].ops.iter().map(|o| o.op).collect(),
        };
        if let Unit::Group(g) = unit {
            group_of.extend(ops.iter().map(|&op| (op, g)));
        }
        for op in ops {
            let makers = func.ops[op].operands.iter().filter_map(|&v| func.def_op(v));
            assert!(makers.clone().all(|maker| done.contains(&maker)));
            done.push(op);
        }
    }
    assert_eq!(done.len(), func.body.len(), "each operation runs once");
    for (number, group) in schedule.groups.iter().enumerate() {
        let programs = indices(&group.grid());
        let mut complete: BTreeMap<Op, Vec<bool>> = BTreeMap::new();
        for (i, op) in group.ops.iter().enumerate() {
            completion(group, i, &mut complete, &programs);
            let last = |axes: &[usize], program: &[i64]| {
                let mut axes = axes.iter();
                axes.all(|&a| program[a] + 1 == group.axes[a].extent.cast_signed())
            };
            for (program, &found) in programs.iter().zip(&complete[&op.op]) {
                assert_eq!(
                    found,
                    last(&op.completes_after, program),
                    "{op:?} in {program:?}"
                );
                seen.incomplete += u64::from(!found);
            }
            let domain =
                iteration_domain_of(registry.get(&func.ops[op.op].name), &func.op_ref(op.op));
            for part in &op.parts {
                for program in programs.iter().step_by(1 + programs.len() / 16) {
                    reads(func, &domain, group, part, program, seen);
                }
            }
            for (r, &value) in func.ops[op.op].results.iter().enumerate() {
                let outside = func
                    .body
                    .iter()
                    .filter(|o| group_of.get(*o) != Some(&number));
                let mut outside = outside.map(|&o| &func.ops[o].operands);
                let leaves =
                    func.results.contains(&value) || outside.any(|all| all.contains(&value));
                assert_eq!(leaves, schedule.is_live_out(value), "{value}");
                if leaves {
                    let shape = shape_of(func, value).expect("known sizes");
                    let missing = unwritten(&shape, op, r, &programs, &complete[&op.op]);
                    assert_eq!(missing, 0, "{op:?}: elements of result {r}");
                    seen.written += shape.iter().product::<u64>();
                }
            }
        }
    }
}

/// Each fact of a schedule is true, for random plans and for those of the project: the order of operations, the
/// programs in which a reduction is complete, the reads of an operand, and the written elements.
#[test]
fn schedules_say_what_programs_do() {
    let registry = optc_ops::registry();
    let mut seen = Seen::default();
    let mut modules: Vec<(String, Module)> = Vec::new();
    for path in files(&root().join("tests/plans"), "ir") {
        let source = std::fs::read_to_string(&path).expect("a program");
        modules.push((
            path.display().to_string(),
            text::parse(&source).expect("it reads"),
        ));
    }
    for seed in 0..cases(600) {
        if let Some((case, _)) = case(seed, &registry) {
            modules.push((format!("seed {seed}"), case.module));
        }
    }
    let mut checked = 0;
    for (name, module) in &modules {
        let func = &module.funcs[0];
        let schedule = Schedule::read(func, &registry);
        let schedule =
            schedule.unwrap_or_else(|e| panic!("{name}: {e:?}\n{}", text::print(module)));
        let Some(schedule) = schedule else { continue };
        let few = |g: &GroupSchedule| g.programs() <= 1 << 12;
        if schedule.groups.iter().all(few) {
            check_schedule(func, &registry, &schedule, &mut seen);
            checked += 1;
        }
    }
    let counts = [
        checked,
        seen.steps,
        seen.made,
        seen.incomplete,
        seen.written,
    ];
    assert!(counts.iter().all(|&n| cases(100) < n), "{counts:?}");
}
