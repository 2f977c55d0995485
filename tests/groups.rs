//! Groups cut out of exported models, and random ones. Their plans compute the same as the operations, and cost hardly
//! more, in time of the model or in bytes, than the best plan found by trying all block sizes.

use optc_compare::{Fill, RandomSource, SplitMix64, compare, random_inputs};
use optc_interp::{run_reference, run_tiled};
use optc_ir::op::iteration_domain_of;
use optc_ir::{Bindings, Func, Module, Op, Registry, Value, text};
use optc_passes::manager::{Hooks, run};
use optc_passes::tile_propagate::{GroupReport, TileReport};
use optc_passes::{PassContext, PassList};
use optc_tests::check::{self, cases, words};
use optc_tests::generate::{Profile, program_of};
use optc_tests::paths::root;
use optc_tile::Tiling;
use optc_tile::{Axis, Expr, Group, OpTile, Order, Plan, Span, Steps, Tile};
use std::sync::Arc;

/// The groups of the project: the name and the program.
fn groups(small: bool) -> Vec<(String, Module)> {
    let folder = root().join("tests/cases/passes/tile-propagate/groups");
    let mut paths: Vec<_> = std::fs::read_dir(folder)
        .expect("the folder is there")
        .map(|entry| entry.expect("an entry").path())
        .collect();
    paths.sort();
    let mut out = Vec::new();
    for path in paths {
        let name = path
            .file_stem()
            .expect("a name")
            .to_string_lossy()
            .into_owned();
        if name.ends_with("_small") == small {
            let source = std::fs::read_to_string(&path).expect("a program");
            let module = text::parse(&source).unwrap_or_else(|e| panic!("{name}: {e:?}"));
            out.push((name, module));
        }
    }
    assert!(10 <= out.len(), "{} groups", out.len());
    out
}

/// The program after some passes, and the report of its groups' traffic.
fn planned(
    module: &Module,
    passes: &str,
    target: &str,
    registry: &Arc<Registry>,
) -> Result<(Module, TileReport), String> {
    let target = check::target(target);
    let stages = PassList::builtin().parse(passes).expect("built-in passes");
    let mut cx = PassContext::new(registry.clone(), target);
    let mut module = module.clone();
    let done = run(&mut module, &stages, &mut cx, &mut Hooks::default());
    done.map_err(|d| words(&d))?;
    let report = cx.reports.get::<TileReport>().cloned();
    Ok((module, report.unwrap_or_default()))
}

fn run_both(name: &str, module: &Module, registry: &Registry) {
    let bindings = Bindings::default();
    let inputs =
        random_inputs(module, "main", Fill::Normal, 3, &bindings, registry).expect("inputs");
    let run = |tiled: bool| {
        let run = if tiled { run_tiled } else { run_reference };
        let found = run(module, registry, "main", &inputs, &RandomSource, &bindings);
        found.unwrap_or_else(|e| panic!("{name}: {e}\n{}", text::print(module)))
    };
    let (wanted, found) = (run(false), run(true));
    for (key, wanted) in &wanted {
        if let Err(why) = compare(&found[key], wanted) {
            panic!("{name}: {key}: {why}\n{}", text::print(module));
        }
    }
}

/// With much memory and with less, for targets with and without rules for blocks.
#[test]
fn groups_of_models_run_tile_by_tile() {
    let registry = Arc::new(optc_ops::registry());
    let (mut several, mut runs) = (0, 0);
    for (name, module) in groups(true) {
        for target in ["cpu", "tpu"] {
            for memory in [1 << 24, 1 << 16, 1 << 14, 1 << 12] {
                let passes = format!("view-fold,tile-propagate{{memory={memory}}}");
                let (planned, report) = planned(&module, &passes, target, &registry)
                    .unwrap_or_else(|e| panic!("{name}: {e}"));
                let programs = |g: &GroupReport| g.grid.iter().product::<u64>();
                several += usize::from(report.groups.iter().any(|g| 1 < programs(g)));
                runs += 1;
                run_both(
                    &format!("{name}, {target}, {memory} bytes"),
                    &planned,
                    &registry,
                );
            }
        }
    }
    assert!(
        runs / 2 < several,
        "{several} of {runs} have several programs"
    );
}

/// A place at which a group may be cut, and the block sizes to try.
struct Place {
    op: Op,
    which: Which,
    extent: u64,
    sizes: Vec<u64>,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Which {
    Dim(usize),
    Sum(usize),
}

/// All block sizes of a short dimension; divisors, powers of two and multiples of `unit` of a long one.
fn sizes(extent: u64, unit: u64) -> Vec<u64> {
    let good = |b: &u64| {
        extent <= 12
            || extent.is_multiple_of(*b)
            || b.is_power_of_two()
            || 1 < unit && b.is_multiple_of(unit)
    };
    let legal = |b: &u64| *b == extent || b.is_multiple_of(unit);
    (1..=extent).filter(good).filter(legal).collect()
}

/// The cost of the best plan of one group over all block sizes and orders of axes. Tiles start from its last
/// operation, or from one whose result several others read in parts, with one reduction at a time. `None` if there are
/// too many plans to try, or if none fits.
fn exhaustive(
    module: &Module,
    members: &[Op],
    memory: u64,
    target: &str,
    registry: &Arc<Registry>,
    limit: usize,
) -> Option<u64> {
    let func = &module.funcs[0];
    let live_outs = {
        let mut plan = Plan {
            groups: vec![Group {
                axes: Vec::new(),
                ops: Vec::new(),
            }],
            ..Plan::default()
        };
        plan.tiles
            .extend(members.iter().map(|&op| (op, OpTile::default())));
        plan.live_outs(func)
    };
    use optc_ir::entity::EntityId;
    let leaves = |op: &&Op| func.ops[**op].results.iter().any(|v| live_outs[v.index()]);
    let last = *members.iter().rev().find(leaves)?;
    let first = exhaustive_from(module, (last, members), memory, target, registry, limit)?;
    let mut best = first;
    for &op in members.iter().filter(|&&op| op != last) {
        let readers = members.iter().filter(|&&reader| {
            let data = &func.ops[reader];
            let domain = iteration_domain_of(registry.get(&data.name), &func.op_ref(reader));
            let whole = Steps {
                spans: domain.loops.iter().map(|l| Span::whole(l.extent)).collect(),
                exact: true,
            };
            let mut operands = data.operands.iter().enumerate();
            operands.any(|(i, &v)| {
                let shape = func.ty(v).as_tensor().and_then(|t| t.shape());
                func.def_op(v) == Some(op)
                    && shape.is_some_and(|shape| {
                        let read = domain.operand(i, &whole, &shape, &[]).tile;
                        !read.0.iter().zip(&shape).all(|(s, &n)| s.is_whole(n))
                    })
            })
        });
        if 1 < readers.count() {
            let few = limit / 4;
            let found = exhaustive_from(module, (op, members), memory, target, registry, few);
            best = match (best, found.flatten()) {
                (Some(a), Some(b)) => Some(a.min(b)),
                (a, b) => a.or(b),
            };
        }
    }
    best
}

/// As [`exhaustive`], with tiles that are carried from those of one operation. `None` if there are too many plans to
/// try.
fn exhaustive_from(
    module: &Module,
    (root, members): (Op, &[Op]),
    memory: u64,
    target: &str,
    registry: &Arc<Registry>,
    limit: usize,
) -> Option<Option<u64>> {
    let func = &module.funcs[0];
    let shape = |v: Value| func.ty(v).as_tensor().and_then(|t| t.shape());
    let result = shape(func.ops[root].results[0])?;
    let tpu = target == "tpu";
    let mut dims = Vec::new();
    for (d, &extent) in result.iter().enumerate() {
        let unit = match result.len() - d {
            1 if tpu => 128,
            2 if tpu => 8,
            _ => 1,
        };
        dims.push(Place {
            op: root,
            which: Which::Dim(d),
            extent,
            sizes: sizes(extent, unit),
        });
    }
    let mut sums: Vec<Option<Place>> = vec![None];
    for &op in members {
        let domain = iteration_domain_of(registry.get(&func.ops[op].name), &func.op_ref(op));
        for (which, (_, extent, _)) in domain.reductions().enumerate() {
            let mut sizes = sizes(extent, if tpu { 128 } else { 1 });
            sizes.retain(|b| *b < extent);
            if !sizes.is_empty() {
                sums.push(Some(Place {
                    op,
                    which: Which::Sum(which),
                    extent,
                    sizes,
                }));
            }
        }
    }
    let blocks: usize = dims.iter().map(|p| p.sizes.len()).product();
    let all: usize = sums
        .iter()
        .map(|s| s.as_ref().map_or(1, |p| p.sizes.len()))
        .sum();
    if limit < blocks * all {
        return None;
    }
    let mut best = None;
    for sum in &sums {
        let mut places: Vec<&Place> = dims.iter().collect();
        places.extend(sum);
        let mut chosen = vec![0; places.len()];
        loop {
            let mut cut: Vec<usize> = (0..places.len())
                .filter(|&i| places[i].sizes[chosen[i]] < places[i].extent)
                .collect();
            let is_sum = |i: &usize| matches!(places[*i].which, Which::Sum(_));
            let sum_at: Vec<usize> = cut.iter().copied().filter(is_sum).collect();
            cut.retain(|i| !is_sum(i));
            for mut order in orders(&cut) {
                order.extend(&sum_at);
                let picked: Vec<(&Place, u64)> = order
                    .iter()
                    .map(|&i| (places[i], places[i].sizes[chosen[i]]))
                    .collect();
                let found = cost_of(module, (root, members), &picked, memory, target, registry);
                if let Some(cost) = found {
                    best = Some(best.map_or(cost, |b: u64| b.min(cost)));
                }
            }
            let Some(next) = (0..places.len()).find(|&i| chosen[i] + 1 < places[i].sizes.len())
            else {
                break;
            };
            chosen[next] += 1;
            chosen[..next].fill(0);
        }
    }
    Some(best)
}

/// All orders of these axes.
fn orders(axes: &[usize]) -> Vec<Vec<usize>> {
    let Some((&first, rest)) = axes.split_first() else {
        return vec![Vec::new()];
    };
    let mut out = Vec::new();
    for order in orders(rest) {
        for at in 0..=order.len() {
            let mut longer = order.clone();
            longer.insert(at, first);
            out.push(longer);
        }
    }
    out
}

/// The cost of a plan that cuts these places into these blocks. `None` if it is no plan, does not fit, or does
/// more work than the target allows.
fn cost_of(
    module: &Module,
    (root, members): (Op, &[Op]),
    picked: &[(&Place, u64)],
    memory: u64,
    target: &str,
    registry: &Arc<Registry>,
) -> Option<u64> {
    let mut module = module.clone();
    let func = &mut module.funcs[0];
    let mut tiles: Vec<OpTile> = vec![OpTile::default(); members.len()];
    let mut axes = Vec::new();
    let at = |op: Op| members.iter().position(|&m| m == op);
    let rank = |func: &Func, v: Value| func.ty(v).as_tensor().and_then(|t| t.shape());
    let mut results = Vec::new();
    for &value in &func.ops[root].results {
        results.push(Tile::whole(&rank(func, value)?));
    }
    for (place, block) in picked {
        let start = Expr::axis(axes.len()).times(i64::try_from(*block).ok()?);
        let span = Span::new(start, *block);
        match place.which {
            Which::Dim(d) => results.iter_mut().for_each(|t| t.0[d] = span.clone()),
            Which::Sum(which) => {
                let domain = iteration_domain_of(
                    registry.get(&func.ops[place.op].name),
                    &func.op_ref(place.op),
                );
                let all = domain.reductions().map(|(_, n, _)| Span::whole(n));
                let reduce = &mut tiles[at(place.op)?].reduce;
                *reduce = all.collect();
                reduce[which] = span;
            }
        }
        let order = match place.which {
            Which::Dim(_) => Order::Parallel,
            Which::Sum(_) => Order::Arbitrary,
        };
        axes.push(Axis {
            extent: place.extent.div_ceil(*block),
            order,
        });
    }
    tiles[at(root)?].results = results;
    let plan = Plan {
        groups: vec![Group {
            axes,
            ops: members.to_vec(),
        }],
        tiles: members.iter().copied().zip(tiles).collect(),
    };
    plan.write(func);
    let passes = format!("tile-propagate{{memory={memory}}}");
    let (_, report) = planned(&module, &passes, target, registry).ok()?;
    let group = report.groups.first()?;
    group.above_work.is_none().then(|| cost(group, target))
}

/// The figure that decides about plans of a target: modelled time in picoseconds, or bytes.
fn cost(group: &GroupReport, target: &str) -> u64 {
    match target {
        "tpu" => group.time_ps,
        _ => group.tiled_bytes,
    }
}

/// The planner's plan and the best plan over all block sizes. `None` if there is nothing to compare: several groups, or
/// too many sizes.
fn against_all(
    module: &Module,
    memory: u64,
    target: &str,
    registry: &Arc<Registry>,
    limit: usize,
) -> Option<(u64, u64, bool)> {
    let passes = format!("tile-propagate{{memory={memory}}}");
    let (done, report) = planned(module, &passes, target, registry).ok()?;
    let plan = Plan::read(&done.funcs[0]).ok()??;
    let ([group], [moved]) = (&plan.groups[..], &report.groups[..]) else {
        return None;
    };
    let best = exhaustive(module, &group.ops, memory, target, registry, limit)?;
    Some((
        cost(moved, target),
        best,
        moved.lower_bound_bytes < moved.tiled_bytes,
    ))
}

/// Compares with enough memory and with less; returns the number of compared plans.
fn near_the_best(small: bool, target: &str) -> usize {
    let registry = Arc::new(optc_ops::registry());
    let memories = if small {
        [1u64 << 15, 1 << 13, 1 << 12]
    } else {
        [1 << 23, 1 << 22, 1 << 21]
    };
    let mut compared = 0;
    for (name, module) in groups(small) {
        let (folded, _) = planned(&module, "view-fold", target, &registry)
            .unwrap_or_else(|e| panic!("{name}: {e}"));
        for memory in memories {
            let Some((found, best, _)) = against_all(&folded, memory, target, &registry, 1500)
            else {
                continue;
            };
            compared += 1;
            let near = best + best / if target == "tpu" { 10 } else { 20 };
            assert!(
                found <= near,
                "{name}, {target}, {memory} bytes: {found}, the best {best}"
            );
        }
    }
    compared
}

#[test]
fn plans_of_small_groups_are_near_the_best_on_cpu() {
    let compared = near_the_best(true, "cpu");
    assert!(2 <= compared, "{compared} compared");
}

#[test]
fn plans_of_small_groups_are_near_the_best_on_triton() {
    let compared = near_the_best(true, "triton");
    assert!(1 <= compared, "{compared} compared");
}

#[test]
fn plans_of_model_groups_are_near_the_best_on_tpu() {
    // Convolutions and gathers are in no group of this target.
    let compared = near_the_best(false, "tpu");
    assert!(8 <= compared, "{compared} compared");
}

#[test]
fn plans_of_random_groups_are_near_the_best() {
    let registry = Arc::new(optc_ops::registry());
    let (mut compared, mut cut) = (0, 0);
    for seed in 0..cases(400) {
        let count = usize::try_from(2 + seed % 11).expect("a number");
        let module = program_of(seed, Profile::Mixed, count, &registry);
        let mut rng = SplitMix64::new(seed);
        let memory = 64 << rng.below(6);
        let target = ["cpu", "triton"][usize::from(seed % 4 == 3)];
        let Some((found, best, above)) = against_all(&module, memory, target, &registry, 1000)
        else {
            continue;
        };
        compared += 1;
        cut += usize::from(above);
        let near = best + best / if target == "tpu" { 10 } else { 20 };
        assert!(
            found <= near,
            "seed {seed}, {target}, {memory} bytes: {found}, the best {best}\n{}",
            text::print(&module)
        );
    }
    assert!(
        cases(50) < compared as u64 && 0 < cut,
        "{compared} compared, {cut} above the bound"
    );
}

/// A complete plan that is read back is kept, and moves the same bytes.
#[test]
fn plans_that_are_complete_stay_as_they_are() {
    let registry = Arc::new(optc_ops::registry());
    let mut groups = 0;
    for seed in 0..cases(300) {
        let count = usize::try_from(2 + seed % 11).expect("a number");
        let module = program_of(seed, Profile::Mixed, count, &registry);
        let mut rng = SplitMix64::new(seed);
        let memory = 256 << rng.below(6);
        let target =
            ["cpu", "tpu", "triton", "mosaic_gpu"][usize::try_from(seed % 4).expect("few")];
        let passes = format!("tile-propagate{{memory={memory}}}");
        let Ok((once, first)) = planned(&module, &passes, target, &registry) else {
            continue;
        };
        if first.ungrouped != 0 {
            // Incomplete plans are planned again.
            continue;
        }
        let place = || {
            format!(
                "seed {seed}, {target}, {memory} bytes\n{}",
                text::print(&module)
            )
        };
        let (twice, second) = planned(&once, &passes, target, &registry)
            .unwrap_or_else(|e| panic!("{e}\n{}", place()));
        let (once, twice) = (text::print(&once), text::print(&twice));
        let mut pairs = once.lines().zip(twice.lines());
        if let Some((a, b)) = pairs.find(|(a, b)| a != b) {
            panic!("{a}\nthen {b}\n{}", place());
        }
        assert_eq!(first.tiled_bytes, second.tiled_bytes, "{}", place());
        groups += first.groups.len();
    }
    assert!(50 < groups, "{groups} groups");
}

/// The type with these extents.
fn ty(shape: &[u64]) -> String {
    let sizes: Vec<String> = shape.iter().map(u64::to_string).collect();
    format!("tensor<{}xf32>", sizes.join("x"))
}

/// A chain of reshapes and transposes between shapes whose extents are products of the same factors in different
/// groupings.
fn chain(count: usize) -> String {
    let factors = [2, 3, 4, 5, 7, 8, 9, 11, 13, 2, 4];
    let grouping = |step: usize| {
        let mut shape = [1u64; 5];
        for i in 0..factors.len() {
            shape[i % 5] *= factors[i * step % factors.len()];
        }
        shape
    };
    let mut text = String::new();
    let (mut x, mut shape) = ("%x".to_owned(), grouping(1));
    for i in 0..count {
        let (name, props, next) = if i % 2 == 0 {
            let next = grouping((i / 2 + 1) % 10 + 1);
            ("reshape", format!("shape = {next:?}"), next)
        } else {
            let mut next = shape;
            next.reverse();
            ("transpose", "perm = [4, 3, 2, 1, 0]".to_owned(), next)
        };
        text += &format!(
            "%{i} = \"hbir.{name}\"({x}) <{{{props}}}> : ({}) -> {}\n",
            ty(&shape),
            ty(&next)
        );
        (x, shape) = (format!("%{i}"), next);
    }
    text
}

/// Sums and transposes of a value with many dimensions.
fn many_dimensions(count: usize, rank: usize) -> String {
    let shape = ty(&vec![2; rank]);
    let mut text = String::new();
    let mut x = "%x".to_owned();
    for i in 0..count {
        text += &match i % 3 {
            0 => {
                let perm: Vec<String> = (0..rank)
                    .map(|d| ((d * 3 + i) % rank).to_string())
                    .collect();
                let perm = perm.join(", ");
                format!(
                    "%{i} = \"hbir.transpose\"({x}) <{{perm = [{perm}]}}> : ({shape}) -> {shape}\n"
                )
            }
            1 => format!("%{i} = \"hbir.exp\"({x}) : ({shape}) -> {shape}\n"),
            _ => format!("%{i} = \"hbir.add\"({x}, {x}) : ({shape}, {shape}) -> {shape}\n"),
        };
        x = format!("%{i}");
    }
    text
}

/// A split into many parts, an operation on each part, and a concat of all in reverse order.
fn split_and_concat(parts: usize) -> String {
    let (part, all) = (ty(&[2, 3]), ty(&[2 * parts as u64, 3]));
    let types = vec![part.as_str(); parts].join(", ");
    let sizes = vec!["2"; parts].join(", ");
    let mut text = format!(
        "%s:{parts} = \"hbir.split\"(%x) <{{axis = 0, sizes = [{sizes}]}}> : ({all}) -> ({types})\n"
    );
    for i in 0..parts {
        text += &format!("%e{i} = \"hbir.exp\"(%s#{i}) : ({part}) -> {part}\n");
    }
    let names: Vec<String> = (0..parts).rev().map(|i| format!("%e{i}")).collect();
    let names = names.join(", ");
    text + &format!("%c = \"hbir.concat\"({names}) <{{axis = 0}}> : ({types}) -> {all}\n")
}

/// The planner's work is proportional to the size of the program, and the starts of tiles stay sums of few terms.
#[test]
fn plans_take_work_in_proportion_to_the_program() {
    let registry = Arc::new(optc_ops::registry());
    let programs = [
        ("cuts that share nothing", chain(32)),
        ("many dimensions", many_dimensions(60, 20)),
        ("many parts", split_and_concat(1000)),
    ];
    for (name, source) in programs {
        let module = text::parse(&source).unwrap_or_else(|e| panic!("{name}: {e:?}"));
        let ops = module.funcs[0].body.len() as u64;
        for target in ["cpu", "triton"] {
            let (module, report) = planned(&module, "tile-propagate", target, &registry)
                .unwrap_or_else(|e| panic!("{name}: {e}"));
            let (candidates, carried) = (report.candidates, report.carried);
            assert!(
                candidates <= 200 * ops && carried <= 40_000 * ops,
                "{name} for {target}: {candidates} candidates, {carried} carried for {ops} operations"
            );
            let plan = Plan::read(&module.funcs[0])
                .expect("a plan")
                .expect("groups");
            let spans = plan
                .tiles
                .values()
                .flat_map(|t| t.results.iter().flat_map(|t| &t.0));
            for span in spans {
                let mut terms = 0;
                span.start.axes(&mut |_| terms += 1);
                assert!(terms <= 256, "{name} for {target}: {terms} terms in {span}");
            }
            let apart = report.groups.iter().filter(|g| g.apart).count();
            assert_eq!(
                name == "cuts that share nothing",
                1 < apart,
                "{name}: {apart} groups"
            );
        }
    }
}

/// A group is not cut at a number of operations where time decides: a chain that fits on chip is one group.
#[test]
fn a_long_chain_that_fits_is_one_group() {
    let registry = Arc::new(optc_ops::registry());
    let source: String = (0..100)
        .map(|i| {
            let x = if i == 0 {
                "%x".to_owned()
            } else {
                format!("%{}", i - 1)
            };
            let op = ["exp", "tanh", "abs"][i % 3];
            format!("%{i} = \"hbir.{op}\"({x}) : (tensor<256x512xf32>) -> tensor<256x512xf32>\n")
        })
        .collect();
    let module = text::parse(&source).expect("a program");
    for target in ["cpu", "tpu", "triton", "journey6"] {
        let (_, report) = planned(&module, "tile-propagate", target, &registry).expect("a plan");
        let counts: Vec<u64> = report.groups.iter().map(|g| g.ops).collect();
        let wanted: &[u64] = if target == "tpu" {
            &[100]
        } else {
            &[48, 48, 4]
        };
        assert_eq!(counts, wanted, "{target}");
    }
}

/// Two products of which the second is wide: rows are cut, as blocks of columns would compute the first product again.
#[test]
fn a_wide_product_does_not_repeat_the_one_before_it() {
    let registry = Arc::new(optc_ops::registry());
    let source = r#"%0 = "hbir.matmul"(%a, %b) : (tensor<512x1024xf32>, tensor<1024x256xf32>) -> tensor<512x256xf32>
%1 = "hbir.matmul"(%0, %c) : (tensor<512x256xf32>, tensor<256x65536xf32>) -> tensor<512x65536xf32>
"#;
    let module = text::parse(source).expect("a program");
    for target in ["cpu", "tpu", "triton", "journey6"] {
        let (_, report) = planned(&module, "tile-propagate", target, &registry).expect("a plan");
        assert!(!report.groups.is_empty(), "{target}");
        for group in &report.groups {
            assert!(group.work() <= 1.25, "{target}: {group:?}");
            assert!(group.above_work.is_none(), "{target}: {group:?}");
        }
    }
}

/// A plan by hand that repeats work is kept, with a remark that says by how much.
#[test]
fn a_plan_by_hand_that_repeats_work_is_told() {
    let registry = Arc::new(optc_ops::registry());
    let source = r#"func.func @main(%a: tensor<64x32xf32>, %b: tensor<32x32xf32>, %c: tensor<32x64xf32>) -> tensor<64x64xf32> attributes {hbir.groups = [{grid = [4]}]} {
  %0 = "hbir.matmul"(%a, %b) {tile = {group = 0, result = ["64", "32"]}} : (tensor<64x32xf32>, tensor<32x32xf32>) -> tensor<64x32xf32>
  %1 = "hbir.matmul"(%0, %c) {tile = {group = 0, result = ["64", "16 @ g0 * 16"]}} : (tensor<64x32xf32>, tensor<32x64xf32>) -> tensor<64x64xf32>
  return %1 : tensor<64x64xf32>
}"#;
    let mut module = text::parse(source).expect("a program");
    let stages = PassList::builtin().parse("tile-propagate").expect("a pass");
    let mut cx = PassContext::new(registry, check::target("cpu"));
    run(&mut module, &stages, &mut cx, &mut Hooks::default()).expect("a plan");
    let remarks: Vec<&str> = cx.remarks.iter().map(|r| r.message.as_str()).collect();
    let wanted = "group 0 does 2.00 times the work of its operations apart, wanted at most 1.25";
    assert!(remarks.contains(&wanted), "{remarks:?}");
}
