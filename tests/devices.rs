//! The programs of one device that `per-device` makes: run on all devices of a mesh, operation by operation, they compute
//! what the whole program does.

use indexmap::IndexMap;
use optc_compare::{Fill, RandomSource, SplitMix64, compare, random_inputs};
use optc_interp::{argument_keys, result_keys, run_reference};
use optc_ir::entity::EntityId;
use optc_ir::shard::{self, Held, Mesh, Piece, Sharding, Split};
use optc_ir::{Bindings, Func, FuncBuilder, Module, NewOp, Op, Partial, Registry, Tensor, Value};
use optc_ops::Reshard;
use optc_passes::manager::{Hooks, run};
use optc_passes::{PassContext, PassList};
use optc_tests::check::{self, cases, words};
use optc_tests::generate::{Profile, program_of};
use std::sync::Arc;

const MESH: &str = "a:2,b:3,c:2";

/// A random sharding of a value.
fn sharding(rng: &mut SplitMix64, func: &Func, value: Value, mesh: &Mesh) -> Sharding {
    let Some(ty) = func.ty(value).as_tensor() else {
        return Sharding::replicated();
    };
    let shape = ty.shape().expect("known sizes");
    let mut made = Sharding::replicated();
    for (axis, of) in mesh.axes.iter().enumerate() {
        let dim = usize::try_from(rng.below(shape.len() as u64 + 1)).expect("a few");
        let Some(&n) = shape.get(dim) else { continue };
        let strides: Vec<u64> = (1..=n)
            .filter(|s| n.is_multiple_of(s * of.extent))
            .collect();
        if strides.is_empty() {
            continue;
        }
        let at = usize::try_from(rng.below(strides.len() as u64)).expect("a few");
        let piece = Piece {
            dim,
            stride: strides[at],
            extent: of.extent,
        };
        let tried = made.clone().with(Split::over(axis, &[piece]));
        if tried.fits(ty, mesh).is_ok() {
            made = tried;
        }
    }
    made
}

/// States random shardings of everything.
fn shard(module: &mut Module, mesh: &Mesh, rng: &mut SplitMix64) {
    module.attrs.set(shard::MESH, mesh.attr());
    let func = &mut module.funcs[0];
    let made = func
        .body
        .iter()
        .flat_map(|&op| func.ops[op].results.clone());
    let values: Vec<Value> = func.args.iter().copied().chain(made).collect();
    for value in values {
        let sharding = sharding(rng, func, value, mesh);
        shard::set_value(func, value, &sharding, mesh);
    }
    for op in func.body.clone() {
        if rng.below(3) == 0 {
            let operands = func.ops[op].operands.clone();
            let takes = operands.iter().map(|&v| sharding(rng, func, v, mesh));
            let takes: Vec<Sharding> = takes.collect();
            shard::set_take(func, op, &takes, mesh);
        }
    }
    for i in 0..func.results.len() {
        let sharding = sharding(rng, func, func.results[i], mesh);
        shard::set_result(func, i, &sharding, mesh);
    }
}

/// The coordinates of all devices.
fn devices(mesh: &Mesh) -> Vec<Vec<u64>> {
    let mut all = vec![Vec::new()];
    for axis in &mesh.axes {
        let more = |known: Vec<u64>| (0..axis.extent).map(move |c| [&known[..], &[c]].concat());
        all = all.into_iter().flat_map(more).collect();
    }
    all
}

/// The elements of a value that a device has, in the order in which it has them.
fn held(shape: &[usize], sharding: &Sharding, device: &[u64]) -> Vec<usize> {
    let strides = optc_ir::tensor::row_major_strides(shape);
    let has = |&at: &usize| {
        sharding.splits().iter().all(|split| {
            let coordinate = split.pieces().iter().fold(0, |c, piece| {
                let index = (at / strides[piece.dim] % shape[piece.dim]) as u64;
                c * piece.extent + index / piece.stride % piece.extent
            });
            split.pieces().is_empty() || coordinate == device[split.axis]
        })
    };
    (0..shape.iter().product()).filter(has).collect()
}

/// A device's part of a value. The first device along an axis of partial sums has all, the others zeros.
fn part(whole: &Tensor, sharding: &Sharding, device: &[u64]) -> Tensor {
    let shape = whole.shape.iter().enumerate();
    let local = shape.map(|(d, &n)| sharding.local(d, n as u64) as usize);
    let sums = sharding.splits().iter().filter(|s| s.pieces().is_empty());
    let zero = sums.into_iter().any(|s| device[s.axis] != 0);
    let values = held(&whole.shape, sharding, device).into_iter();
    let values = values.map(|at| if zero { 0.0 } else { whole.f64_at(at) });
    Tensor::from_f64(whole.dtype, local.collect(), values)
}

/// The value of which devices have these parts.
///
/// # Panics
/// Devices that must have the same differ.
fn whole(parts: &[Tensor], shape: &[usize], sharding: &Sharding, devices: &[Vec<u64>]) -> Tensor {
    let mut found: Vec<Option<f64>> = vec![None; shape.iter().product()];
    for (part, device) in parts.iter().zip(devices) {
        let free = |axis: usize| sharding.on(axis).is_none() && device[axis] != 0;
        if (0..device.len()).any(free) {
            let same: Vec<u64> = (0..device.len())
                .map(|axis| if free(axis) { 0 } else { device[axis] })
                .collect();
            let first = devices.iter().position(|d| *d == same).expect("a device");
            assert_eq!(part.to_bytes(), parts[first].to_bytes(), "copies differ");
            continue;
        }
        for (k, at) in held(shape, sharding, device).into_iter().enumerate() {
            let new = part.f64_at(k);
            let kind = sharding.splits().iter().find_map(|s| match s.held {
                Held::Partial(kind) => Some(kind),
                Held::Digits(_) => None,
            });
            found[at] = Some(match (found[at], kind) {
                (None, _) => new,
                (Some(old), Some(Partial::Add)) => old + new,
                (Some(old), Some(Partial::Multiply)) => old * new,
                (Some(old), Some(Partial::Max)) => old.max(new),
                (Some(old), Some(Partial::Min)) => old.min(new),
                (Some(_), _) => panic!("two devices have one element"),
            });
        }
    }
    let values = found
        .into_iter()
        .map(|value| value.expect("some device has it"));
    Tensor::from_f64(parts[0].dtype, shape.to_vec(), values)
}

/// The results of one operation.
fn eval(func: &Func, op: Op, given: &[Tensor], registry: &Registry) -> Vec<Tensor> {
    let data = &func.ops[op];
    let mut b = FuncBuilder::new(registry);
    let operands = data.operands.iter().enumerate();
    let args = operands.map(|(i, &v)| b.arg(&format!("x{i}"), func.ty(v).clone()));
    let args: Vec<Value> = args.collect();
    let mut new = NewOp::new(&data.name, &args, data.props.clone());
    new.results = Some(data.results.iter().map(|&v| func.ty(v).clone()).collect());
    let results = b.add(new).expect("the types are those of the rule");
    let module = b.finish(&results);
    let keys = argument_keys(&module.funcs[0]).into_iter();
    let inputs: IndexMap<String, Tensor> = keys.zip(given.iter().cloned()).collect();
    let none = Bindings::default();
    let mut made = run_reference(&module, registry, "main", &inputs, &RandomSource, &none)
        .unwrap_or_else(|e| panic!("{}: {e}", data.name));
    let keys = result_keys(&module.funcs[0]).into_iter();
    keys.map(|key| made.swap_remove(&key).expect("a result"))
        .collect()
}

/// The results of the program of one device on all devices.
fn on_devices(
    module: &Module,
    func: &Func,
    inputs: &IndexMap<String, Tensor>,
    mesh: &Mesh,
    registry: &Registry,
) -> Vec<Tensor> {
    let main = &module.funcs[0];
    let devices = devices(mesh);
    let mut values: Vec<Vec<Tensor>> = vec![Vec::new(); func.values.len()];
    for (i, key) in argument_keys(main).iter().enumerate() {
        let sharding = shard::argument(main, i, mesh).expect("a sharding");
        let sharding = sharding.expect("it is stated");
        let parts = devices.iter().map(|d| part(&inputs[key], &sharding, d));
        values[func.args[i].index()] = parts.collect();
    }
    for &op in &func.body {
        let data = &func.ops[op];
        if let Some(Reshard { from, to }) = Reshard::of(&func.op_ref(op), mesh) {
            let parts = &values[data.operands[0].index()];
            let local = parts[0].shape.iter().enumerate();
            let times = |d: usize| {
                from.pieces()
                    .filter(move |(_, p)| p.dim == d)
                    .map(|(_, p)| p.extent)
            };
            let shape = local.map(|(d, &n)| n * times(d).product::<u64>() as usize);
            let all = whole(parts, &shape.collect::<Vec<_>>(), &from, &devices);
            let new = devices.iter().map(|d| part(&all, &to, d)).collect();
            values[data.results[0].index()] = new;
            continue;
        }
        for at in 0..devices.len() {
            let given = data.operands.iter().map(|v| values[v.index()][at].clone());
            let made = eval(func, op, &given.collect::<Vec<_>>(), registry);
            for (&value, new) in data.results.iter().zip(made) {
                values[value.index()].push(new);
            }
        }
    }
    let results = func.results.iter().enumerate().map(|(i, v)| {
        let sharding = shard::result(main, i, mesh)
            .expect("a sharding")
            .unwrap_or_default();
        let shape = main.ty(main.results[i]).as_tensor().and_then(|t| t.shape());
        let shape = shape
            .expect("known sizes")
            .iter()
            .map(|&n| n as usize)
            .collect::<Vec<_>>();
        whole(&values[v.index()], &shape, &sharding, &devices)
    });
    results.collect()
}

#[test]
fn devices_together_compute_what_the_program_does() {
    let registry = Arc::new(optc_ops::registry());
    let mesh: Mesh = MESH.parse().expect("a mesh");
    let stages = PassList::builtin().parse("per-device").expect("a pass");
    let (mut made, mut reshards, total) = (0, 0, cases(120));
    for seed in 0..total {
        let mut rng = SplitMix64::new(seed);
        let mut module = program_of(seed, Profile::Mixed, 6, &registry);
        let none = Bindings::default();
        let inputs = random_inputs(&module, "main", Fill::Normal, seed, &none, &registry);
        let inputs = inputs.expect("inputs");
        let wanted = run_reference(&module, &registry, "main", &inputs, &RandomSource, &none);
        let wanted = wanted.expect("numbers");
        shard(&mut module, &mesh, &mut rng);
        let mut cx = PassContext::new(registry.clone(), check::target("xla"));
        let mut hooks = Hooks {
            verify_each: true,
            ..Hooks::default()
        };
        run(&mut module, &stages, &mut cx, &mut hooks)
            .unwrap_or_else(|d| panic!("{seed}: {}", words(&d)));
        let Some(func) = shard::part(&module, &module.funcs[0]) else {
            continue;
        };
        made += 1;
        let is_reshard = |op: &&Op| Reshard::of(&func.op_ref(**op), &mesh).is_some();
        reshards += func.body.iter().filter(is_reshard).count();
        let found = on_devices(&module, func, &inputs, &mesh, &registry);
        for (found, (key, wanted)) in found.iter().zip(&wanted) {
            if let Err(why) = compare(found, wanted) {
                panic!("{seed}: {key}: {why}\n{}", optc_ir::text::print(&module));
            }
        }
    }
    assert!(
        total / 4 < made,
        "{made} of {total} programs have one of one device"
    );
    assert!(made < reshards as u64, "{reshards} conversions");
}
