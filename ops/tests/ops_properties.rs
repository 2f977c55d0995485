//! Properties of every operation: shape rules agree with results, also for symbolic sizes; labels of the layout freedom
//! mean what they say; and nothing panics, whatever the operands and attributes.

use crate::ops_support;

use ops_support::{Case, Random, data_len, infer, op_ref, props, run, seeds, ty, type_of};
use optc_ir::{
    Attr, AttrDict, Axes, Bindings, DType, Digit, Dim, EvalContext, Freedom, FreedomClass,
    LaidPort, OverAxes, Role, Run, Size, Tensor, TensorType, Traffic, Type,
};
use std::sync::Arc;

#[test]
fn seeds_cover_every_operation() {
    let seeds = seeds();
    for decl in optc_ops::registry().all() {
        assert!(
            seeds.iter().any(|s| s.name == decl.name()),
            "{} has no seed",
            decl.name()
        );
    }
}

fn types(tensors: &[Tensor]) -> Vec<Type> {
    tensors.iter().map(type_of).collect()
}

fn freedom_of(case: &Case) -> Freedom {
    let (operands, results) = (types(&case.inputs), types(&case.wanted));
    let registry = optc_ops::registry();
    let decl = registry.get(&case.name).unwrap();
    decl.freedom(&op_ref(&case.name, &operands, &results, &case.props))
}

/// Every dimension has a mark, every mark is a label, and a granule divides all extents to which it applies.
#[test]
fn freedoms_are_well_formed() {
    for case in seeds() {
        let freedom = freedom_of(&case);
        let sides = [
            (&case.inputs, &freedom.operands),
            (&case.wanted, &freedom.results),
        ];
        for (tensors, marks) in sides {
            assert_eq!(tensors.len(), marks.len(), "{}", case.name);
            for (tensor, marks) in tensors.iter().zip(marks) {
                assert_eq!(
                    tensor.shape.len(),
                    marks.len(),
                    "{}: {freedom:?}",
                    case.name
                );
                for (&n, mark) in tensor.shape.iter().zip(marks) {
                    let Some(mark) = mark else { continue };
                    let granule = freedom.labels[*mark].granule as usize;
                    assert!(
                        granule == 0 || n % granule == 0,
                        "{}: {freedom:?}",
                        case.name
                    );
                }
            }
        }
        for (id, label) in freedom.labels.iter().enumerate() {
            let extents = extents(&case, &freedom, id);
            let equal = extents.windows(2).all(|w| w[0] == w[1]);
            assert!(
                label.granule != 0 || equal,
                "{}: label {id}, {freedom:?}",
                case.name
            );
        }
    }
}

/// The extents of all dimensions with a label.
fn extents(case: &Case, freedom: &Freedom, label: usize) -> Vec<usize> {
    let marks = freedom.operands.iter().chain(&freedom.results);
    let tensors = case.inputs.iter().chain(&case.wanted);
    let pairs = tensors.zip(marks).flat_map(|(t, m)| t.shape.iter().zip(m));
    pairs
        .filter(|(_, m)| **m == Some(label))
        .map(|(n, _)| *n)
        .collect()
}

/// Along a parallel or batch label, an element of a result depends only on elements of the operands with the same
/// index.
#[test]
fn parallel_labels_are_independent() {
    let mut checked = 0;
    for case in seeds() {
        let freedom = freedom_of(&case);
        let ordered = matches!(
            freedom.class,
            FreedomClass::Ordered | FreedomClass::Contract | FreedomClass::Window
        );
        if !ordered {
            continue;
        }
        for (i, marks) in freedom.operands.iter().enumerate() {
            for (d, mark) in marks.iter().enumerate() {
                let Some(mark) = *mark else { continue };
                let label = freedom.labels[mark];
                let free = matches!(label.role, Role::Parallel | Role::Batch);
                if free && label.granule == 0 && case.inputs[i].dtype.is_float() {
                    check_independent(&case, &freedom, i, d, mark);
                    checked += 1;
                }
            }
        }
    }
    assert!(200 < checked, "{checked} labels checked");
}

/// Changes operand `i` at one index of dimension `d`, and checks that the results change at that index only.
fn check_independent(case: &Case, freedom: &Freedom, i: usize, d: usize, label: usize) {
    if !freedom.results.iter().any(|m| m.contains(&Some(label))) {
        return;
    }
    let eval = |inputs: &[Tensor]| {
        run(
            &case.name,
            inputs,
            &types(&case.wanted),
            &case.props,
            &Bindings::default(),
        )
        .unwrap()
    };
    let before = eval(&case.inputs);
    let mut changed = case.inputs.clone();
    let x = &case.inputs[i];
    let at = x.shape[d] - 1;
    let values: Vec<f64> = (0..x.len())
        .map(|e| {
            if index_of(e, &x.shape)[d] == at {
                x.f64_at(e) + 0.37
            } else {
                x.f64_at(e)
            }
        })
        .collect();
    changed[i] = Tensor::from_f64(x.dtype, x.shape.clone(), values);
    for ((a, b), marks) in before.iter().zip(&eval(&changed)).zip(&freedom.results) {
        for e in 0..a.len() {
            let index = index_of(e, &a.shape);
            let there = marks
                .iter()
                .zip(&index)
                .all(|(m, &n)| *m != Some(label) || n == at);
            let same = a.f64_at(e) == b.f64_at(e) || a.f64_at(e).is_nan();
            assert!(
                there || same,
                "{}: operand {i}, dimension {d}: {freedom:?}",
                case.name
            );
        }
    }
}

fn index_of(mut element: usize, shape: &[usize]) -> Vec<usize> {
    let mut index = vec![0; shape.len()];
    for d in (0..shape.len()).rev() {
        index[d] = element % shape[d];
        element /= shape[d];
    }
    index
}

/// The result type that the shape rule infers for symbols agrees with the one for their values. A symbol is passed
/// through if the operation does nothing along its dimension.
#[test]
fn symbols_pass_through() {
    let families = [
        "elementwise",
        "softmax",
        "norm",
        "reduce",
        "matmul",
        "conv",
        "pool",
    ];
    let registry = optc_ops::registry();
    let mut passed = 0;
    for case in seeds() {
        let freedom = freedom_of(&case);
        let family = registry.get(&case.name).unwrap().family();
        for (id, label) in freedom.labels.iter().enumerate() {
            if !matches!(label.role, Role::Parallel | Role::Batch) || label.granule != 0 {
                continue;
            }
            let symbol = |tensors: &[Tensor], marks: &[Vec<Option<usize>>]| -> Vec<Type> {
                tensors
                    .iter()
                    .zip(marks)
                    .map(|(t, m)| with_symbol(t, m, id))
                    .collect()
            };
            let operands = symbol(&case.inputs, &freedom.operands);
            let results = symbol(&case.wanted, &freedom.results);
            let found = infer(&case.name, &operands, &results, &case.props);
            if !families.contains(&family) {
                continue;
            }
            let found = found.unwrap_or_else(|e| panic!("{}: {}", case.name, e.message));
            for (found, wanted) in found.into_iter().zip(results) {
                let dims = &wanted.as_tensor().unwrap().dims;
                assert_eq!(&found.dims, dims, "{} {:?}", case.name, case.props);
                passed += 1;
            }
        }
    }
    assert!(200 < passed, "{passed} results checked");
}

fn with_symbol(tensor: &Tensor, marks: &[Option<usize>], label: usize) -> Type {
    let dim = |(&n, m): (&usize, &Option<usize>)| match m {
        Some(m) if *m == label => Dim::Symbol(Arc::from("S")),
        _ => Dim::Fixed(n as u64),
    };
    TensorType::new(
        tensor.shape.iter().zip(marks).map(dim).collect(),
        tensor.dtype,
    )
    .into()
}

/// With any dimensions unknown the shape rule still accepts the operation, and infers nothing wrong.
#[test]
fn unknown_dimensions_are_not_contradicted() {
    let mut random = Random(1);
    for case in seeds() {
        if case.name == "hbir.conv" || case.name.ends_with("_nd") || case.name == "hbir.one_hot" {
            continue; // these want a kernel, a depth or a pair of known size
        }
        for _ in 0..8 {
            let mut operands = Vec::new();
            for tensor in &case.inputs {
                let dim = |&n: &usize| match random.below(3) {
                    0 => Dim::Unknown,
                    _ => Dim::Fixed(n as u64),
                };
                let dims = tensor.shape.iter().map(dim).collect();
                operands.push(Type::from(TensorType::new(dims, tensor.dtype)));
            }
            let Ok(found) = infer(&case.name, &operands, &types(&case.wanted), &case.props) else {
                assert!(
                    matches!(&*case.name, "hbir.constant" | "hbir.call" | "func.call"),
                    "{}",
                    case.name
                );
                continue;
            };
            for (found, wanted) in found.iter().zip(&case.wanted) {
                assert_eq!(found.dims.len(), wanted.shape.len(), "{}", case.name);
                for (dim, &n) in found.dims.iter().zip(&wanted.shape) {
                    let fits = dim.fixed().is_none_or(|m| m == n as u64);
                    assert!(fits, "{}: {found:?} for {:?}", case.name, wanted.shape);
                }
            }
        }
    }
}

#[test]
fn rearrangements_are_views() {
    let registry = optc_ops::registry();
    for case in seeds() {
        let freedom = freedom_of(&case);
        let (operands, results) = (types(&case.inputs), types(&case.wanted));
        let op = op_ref(&case.name, &operands, &results, &case.props);
        let view = registry.rearrangement(&op);
        // `canonicalize` writes barriers that are rearrangements as reshapes and transposes.
        let class = freedom.class;
        let may = matches!(class, FreedomClass::Rearrange | FreedomClass::Barrier);
        let must = class == FreedomClass::Rearrange;
        assert!(if view.is_ok() { may } else { !must }, "{}", case.name);
        let Ok(view) = view else { continue };
        let shape: Vec<i64> = view
            .shape
            .iter()
            .map(|d| d.fixed().unwrap() as i64)
            .collect();
        let props = AttrDict::new()
            .with("shape", Attr::ints(&shape))
            .with("perm", Attr::ints(&view.perm));
        let as_view = op_ref("hbir.view", &operands, &results, &props);
        let inputs: Vec<&Tensor> = case.inputs.iter().collect();
        let bindings = Bindings::default();
        let cx = EvalContext {
            bindings: &bindings,
        };
        let found = registry
            .get("hbir.view")
            .unwrap()
            .eval(&as_view, &inputs, &cx)
            .unwrap();
        let wanted = registry
            .get(&case.name)
            .unwrap()
            .eval(&op, &inputs, &cx)
            .unwrap();
        assert_eq!(found, wanted, "{}", case.name);
    }
}

#[test]
fn traffic_is_counted_in_its_class() {
    let registry = optc_ops::registry();
    let traffic = |name: &str, operands: &[Type], results: &[Type], props: &AttrDict| {
        registry
            .get(name)
            .unwrap()
            .traffic(&op_ref(name, operands, results, props))
    };
    let f = |dims: &str| [ty(dims, DType::F32)];
    let perm = |p: [i64; 3]| props! { perm: p };
    let move_of = |x: &str, y: &str, p| traffic("hbir.transpose", &f(x), &f(y), &perm(p));
    assert_eq!(move_of("2x3x4", "3x2x4", [1, 0, 2]), Traffic::Movement);
    assert_eq!(move_of("2x1x4", "1x2x4", [1, 0, 2]), Traffic::None);
    assert_eq!(move_of("Bx1x4", "1xBx4", [1, 0, 2]), Traffic::None);
    assert_eq!(move_of("Bx2x4", "2xBx4", [1, 0, 2]), Traffic::Movement);
    let none = AttrDict::new();
    assert_eq!(
        traffic("hbir.reshape", &f("2x3"), &f("6"), &none),
        Traffic::None
    );
    assert_eq!(
        traffic("hbir.layout_convert", &f("2"), &f("2"), &none),
        Traffic::Movement
    );
    assert_eq!(
        traffic("hbir.broadcast", &f("1x3"), &f("2x3"), &none),
        Traffic::Expand
    );
    assert_eq!(
        traffic("hbir.broadcast", &f("3"), &f("1x3"), &none),
        Traffic::None
    );
    assert_eq!(
        traffic("hbir.tile", &f("3"), &f("6"), &props! { repeats: [2] }),
        Traffic::Expand
    );
    let two = [ty("2", DType::F32), ty("3", DType::F32)];
    let axis = props! { axis: 0 };
    assert_eq!(
        traffic("hbir.concat", &two, &f("5"), &axis),
        Traffic::Copy(Size::from(20), Size::from(20))
    );
    assert_eq!(
        traffic("hbir.concat", &f("5"), &f("5"), &axis),
        Traffic::None
    );
    assert_eq!(
        traffic(
            "hbir.split",
            &f("5"),
            &two,
            &props! { axis: 0, sizes: [2, 3] }
        ),
        Traffic::Copy(Size::from(20), Size::from(20))
    );
    assert_eq!(
        traffic(
            "hbir.split",
            &f("5"),
            &f("5"),
            &props! { axis: 0, sizes: [5] }
        ),
        Traffic::None
    );
    assert_eq!(
        traffic(
            "hbir.slice",
            &f("5"),
            &f("2"),
            &props! { starts: [1], limits: [3] }
        ),
        Traffic::Copy(Size::from(8), Size::from(8))
    );
    assert_eq!(
        traffic(
            "hbir.slice",
            &f("5"),
            &f("5"),
            &props! { starts: [0], limits: [5] }
        ),
        Traffic::None
    );
    let back = props! { starts: [4], limits: [-1], strides: [-1] };
    assert_eq!(
        traffic("hbir.slice", &f("5"), &f("5"), &back),
        Traffic::Copy(Size::from(20), Size::from(20))
    );
    assert_eq!(
        traffic("hbir.subview", &f("5"), &f("2"), &none),
        Traffic::None
    );
    assert_eq!(traffic("hbir.pad", &f("5"), &f("5"), &none), Traffic::None);
    assert_eq!(
        traffic("hbir.pad", &f("5"), &f("7"), &props! { low: [2] }),
        Traffic::Copy(Size::from(20), Size::from(28))
    );
    assert_eq!(
        traffic(
            "hbir.pad",
            &f("5"),
            &f("5"),
            &props! { low: [1], high: [-1] }
        ),
        Traffic::Copy(Size::from(20), Size::from(20))
    );
    let mirrored = props! { low: [2], mode: "reflect" };
    assert_eq!(
        traffic("hbir.pad", &f("5"), &f("7"), &mirrored),
        Traffic::Copy(Size::from(28), Size::from(28))
    );
    let indexed = [ty("5", DType::F32), ty("2", DType::SI64)];
    assert_eq!(
        traffic("hbir.gather", &indexed, &f("2"), &none),
        Traffic::Copy(Size::from(8), Size::from(8))
    );
    let written = [
        ty("5", DType::F32),
        ty("2", DType::SI64),
        ty("2", DType::F32),
    ];
    assert_eq!(
        traffic("hbir.scatter_elements", &written, &f("5"), &none),
        Traffic::Copy(Size::from(20), Size::from(20))
    );
    let block = props! { blocksize: 2 };
    let pixels = |x: &str, y: &str| traffic("hbir.depth_to_space", &f(x), &f(y), &block);
    assert_eq!(pixels("1x4x2x3", "1x1x4x6"), Traffic::Movement);
    assert_eq!(pixels("1x4x1x1", "1x1x2x2"), Traffic::None);
    let swap = props! { equation: "ij->ji" };
    assert_eq!(
        traffic("hbir.einsum", &f("2x3"), &f("3x2"), &swap),
        Traffic::Movement
    );
    assert_eq!(
        traffic("hbir.einsum", &f("1x3"), &f("3x1"), &swap),
        Traffic::None
    );
}

const NAMES: [&str; 43] = [
    "axis",
    "axes",
    "perm",
    "shape",
    "starts",
    "limits",
    "strides",
    "sizes",
    "kernel",
    "pads",
    "dilations",
    "group",
    "k",
    "depth",
    "blocksize",
    "low",
    "high",
    "repeats",
    "value",
    "to",
    "kind",
    "mode",
    "equation",
    "direction",
    "lhs_batch",
    "rhs_batch",
    "lhs_contract",
    "rhs_contract",
    "batch_dims",
    "num_groups",
    "scales",
    "output_padding",
    "reduction",
    "data",
    "transposed",
    "broadcast",
    "ceil_mode",
    "keepdims",
    "fmod",
    "epsilon",
    "largest",
    "upper",
    "coordinate_transformation_mode",
];
const WORDS: [&str; 20] = [
    "sum",
    "mean",
    "log_sum_exp",
    "constant",
    "reflect",
    "wrap",
    "edge",
    "CRD",
    "DCR",
    "linear",
    "cubic",
    "nearest",
    "align_corners",
    "eq",
    "lt",
    "ij,jk->ik",
    "...i->i...",
    "ii",
    "add",
    "S",
];
const DTYPES: [&str; 9] = [
    "f32", "f16", "bf16", "f64", "i1", "si8", "ui8", "si64", "ui64",
];
const EXTREMES: [i64; 6] = [
    i64::MIN,
    i64::MAX,
    i64::MAX - 1,
    1 << 32,
    -(1 << 40),
    1 << 62,
];

fn random_int(random: &mut Random) -> i64 {
    match random.below(24) {
        0 => random.pick(&EXTREMES),
        n => n as i64 % 8 - 2,
    }
}

fn random_attr(random: &mut Random) -> Attr {
    match random.below(12) {
        0 => Attr::Bool(random.below(2) == 0),
        1 => Attr::str(random.pick(&WORDS)),
        2 => Attr::float(random.pick(&[0.0, -1.0, 1e300, f64::NAN, 2.0, f64::INFINITY])),
        3 => Attr::Type(Type::Scalar(DType::parse(random.pick(&DTYPES)).unwrap())),
        4 => Attr::Array(vec![Attr::float(1.5); random.below(5)]),
        5 => Attr::Array(vec![Attr::str("S"), Attr::int(2), Attr::int(-1)]),
        6 | 7 => Attr::int(random_int(random)),
        _ => {
            let n = random.below(5);
            Attr::Array((0..n).map(|_| Attr::int(random_int(random))).collect())
        }
    }
}

fn random_type(random: &mut Random, known: bool) -> Type {
    let rank = random.below(6);
    let dim = |random: &mut Random| match random.below(if known { 8 } else { 12 }) {
        n @ 0..=7 => Dim::Fixed([1, 2, 3, 4, 0, 2, 1, 6][n]),
        8 | 9 => Dim::Symbol(Arc::from("S")),
        10 => Dim::Unknown,
        _ => Dim::Fixed(random.pick(&[u64::MAX, 1 << 33, 1 << 63])),
    };
    let dims = (0..rank).map(|_| dim(random)).collect();
    TensorType::new(dims, DType::parse(random.pick(&DTYPES)).unwrap()).into()
}

fn random_tensor(random: &mut Random, ty: &Type) -> Option<Tensor> {
    let ty = ty.as_tensor()?;
    let shape: Vec<usize> = ty.shape()?.iter().map(|&n| n as usize).collect();
    let n = ty.elements().filter(|&n| n < 1 << 12)? as usize;
    let values: Vec<f64> = (0..n).map(|_| random.below(9) as f64 - 4.0).collect();
    Some(Tensor::from_f64(ty.dtype, shape, values))
}

/// Calls every query of one operation. An accepted operation with known operands must evaluate to what its shape rule
/// infers, or give an error.
fn ask_everything(
    name: &str,
    operands: &[Type],
    results: &[Type],
    props: &AttrDict,
    seed: u64,
) -> bool {
    let registry = optc_ops::registry();
    let decl = registry.get(name).unwrap();
    let op = op_ref(name, operands, results, props);
    let inferred = decl.infer(&op);
    let _ = (
        decl.effect(&op),
        decl.rearrangement(&op).is_ok(),
        decl.partial(&op),
        decl.freedom(&op),
        decl.traffic(&op),
    );
    let mut random = Random(seed);
    let inputs: Option<Vec<Tensor>> = operands
        .iter()
        .map(|t| random_tensor(&mut random, t))
        .collect();
    let Some(inputs) = inputs else { return false };
    let small = |dims: &[Dim]| {
        dims.iter()
            .map(|d| d.fixed().unwrap_or(2))
            .try_fold(1u64, u64::checked_mul)
    };
    let bounded = |ty: &TensorType| small(&ty.dims).is_some_and(|n| n < 1 << 16);
    if let Ok(inferred) = &inferred
        && !inferred.iter().all(|t| bounded(&t.clone().into()))
    {
        return false;
    }
    match run(name, &inputs, results, props, &Bindings::default()) {
        Err(_) => false,
        Ok(found) => {
            let inferred = inferred.expect("what is evaluated has a shape");
            assert_eq!(found.len(), inferred.len(), "{name}");
            for (found, inferred) in found.iter().zip(inferred) {
                assert_eq!(data_len(found), found.len(), "{name} {props:?}");
                assert_eq!(found.dtype, inferred.dtype, "{name}");
                let fits = found.shape.iter().zip(&inferred.dims);
                let mut fits = fits.map(|(&n, d)| d.fixed().is_none_or(|m| m == n as u64));
                assert!(fits.all(|fits| fits), "{name}: {inferred:?}");
            }
            true
        }
    }
}

#[test]
fn nothing_panics_on_random_operations() {
    let registry = optc_ops::registry();
    let names: Vec<&str> = registry.all().iter().map(|d| d.name()).collect();
    let mut random = Random(2);
    for round in 0..60_000 {
        let name = random.pick(&names);
        let known = random.below(4) != 0;
        let operands: Vec<Type> = (0..random.below(4))
            .map(|_| random_type(&mut random, known))
            .collect();
        let results: Vec<Type> = (0..1 + random.below(2))
            .map(|_| random_type(&mut random, known))
            .collect();
        let mut props = AttrDict::new();
        for _ in 0..random.below(8) {
            let attr = random_attr(&mut random);
            props.set(random.pick(&NAMES), attr);
        }
        ask_everything(name, &operands, &results, &props, round);
    }
}

/// Valid operations with a few attributes and types changed.
#[test]
fn nothing_panics_on_changed_operations() {
    let seeds = seeds();
    let mut random = Random(3);
    let mut evaluated = 0;
    for round in 0..60_000 {
        let case = random.pick(&seeds);
        let mut operands = types(&case.inputs);
        let mut results = types(&case.wanted);
        let mut props = case.props.clone();
        for _ in 0..random.below(3) {
            change(&mut random, &mut operands, &mut results, &mut props);
        }
        evaluated += u32::from(ask_everything(
            &case.name, &operands, &results, &props, round,
        ));
    }
    assert!(10_000 < evaluated, "{evaluated} evaluated");
}

fn change(random: &mut Random, operands: &mut [Type], results: &mut [Type], props: &mut AttrDict) {
    let names: Vec<String> = props.iter().map(|(name, _)| name.to_owned()).collect();
    match random.below(4) {
        0 if !names.is_empty() => {
            let attr = random_attr(random);
            props.set(&random.pick(&names), attr);
        }
        1 if !names.is_empty() => {
            let name = random.pick(&names);
            if let Some(Attr::Array(mut list)) = props.get(&name).cloned() {
                if !list.is_empty() {
                    let at = random.below(list.len());
                    list[at] = Attr::int(random_int(random));
                }
                props.set(&name, Attr::Array(list));
            } else {
                props.set(&name, Attr::int(random_int(random)));
            }
        }
        2 if !operands.is_empty() => {
            let at = random.below(operands.len());
            let mut ty = operands[at].as_tensor().unwrap().clone();
            if !ty.dims.is_empty() {
                let d = random.below(ty.dims.len());
                ty.dims[d] = Dim::Fixed([0, 1, 2, 3, 7][random.below(5)]);
            }
            operands[at] = ty.into();
        }
        _ => results[0] = random_type(random, true),
    }
}

/// The number of orders of axes that are tried for each operation.
const ORDERS: usize = 24;

/// An operation over other axes computes the same: its operands and results are in the order of the axes.
#[test]
fn operations_over_other_axes_compute_the_same() {
    let mut random = Random(7);
    let mut said: std::collections::BTreeMap<String, usize> = std::collections::BTreeMap::new();
    for case in seeds() {
        let freedom = freedom_of(&case);
        if freedom.class != FreedomClass::Ordered {
            continue;
        }
        let before = run(
            &case.name,
            &case.inputs,
            &types(&case.wanted),
            &case.props,
            &Bindings::default(),
        );
        let Ok(before) = before else { continue };
        for _ in 0..ORDERS {
            let Some(ports) = laid_ports(&case, &before, &freedom, &mut random) else {
                continue;
            };
            let (operands, results) = (types(&case.inputs), types(&before));
            let op = op_ref(&case.name, &operands, &results, &case.props);
            let registry = optc_ops::registry();
            let decl = registry.get(&case.name).unwrap();
            for axes in Axes::suggested(&freedom, &ports, &Dim::Fixed) {
                if let Some(form) = decl.over_axes(&op, &axes) {
                    *said.entry(case.name.clone()).or_default() += 1;
                    check_over_axes(&case, &before, &axes, form);
                }
            }
        }
    }
    for name in [
        "softmax",
        "batch_norm",
        "gather_nd",
        "trilu",
        "top_k",
        "tile",
        "slice",
    ] {
        let name = format!("hbir.{name}");
        assert!(said.contains_key(&name), "{name} is over no axes: {said:?}");
    }
    assert!(1000 < said.values().sum::<usize>(), "{said:?}");
}

/// Ports that follow one random order of the labels, each restricted to its own labels. Occasionally a label that may
/// be cut is cut in two.
fn laid_ports(
    case: &Case,
    results: &[Tensor],
    freedom: &Freedom,
    random: &mut Random,
) -> Option<Vec<LaidPort>> {
    let mut order: Vec<(usize, Option<bool>)> = Vec::new();
    for (label, data) in freedom.labels.iter().enumerate() {
        let cut = data.granule.is_multiple_of(2) && random.below(4) == 0;
        let parts: &[Option<bool>] = if cut {
            &[Some(true), Some(false)]
        } else {
            &[None]
        };
        for &part in parts {
            order.insert(random.below(order.len() + 1), (label, part));
        }
    }
    let tensors = case.inputs.iter().chain(results);
    let labels = freedom.operands.iter().chain(&freedom.results);
    let port = |(tensor, labels): (&Tensor, &Vec<Option<usize>>)| {
        let shape: Vec<u64> = tensor.shape.iter().map(|&n| n as u64).collect();
        let mut digits = Vec::new();
        for &(label, part) in &order {
            let Some(dim) = labels.iter().position(|l| *l == Some(label)) else {
                continue;
            };
            let n = shape[dim];
            let (div, extent) = match part {
                None => (1, n),
                Some(_) if !n.is_multiple_of(2) => return None,
                Some(true) => (2, n / 2),
                Some(false) => (1, 2),
            };
            digits.push(Digit::new(dim, div, extent));
        }
        LaidPort::new(labels, shape, &digits)
    };
    tensors.zip(labels).map(port).collect()
}

/// For each element of a tensor in the order of these dimensions, its number in the tensor's own order.
fn places(axes: &Axes<'_>, port: usize, runs: &[Run]) -> Vec<usize> {
    let laid = &axes.ports()[port];
    let shape: Vec<usize> = laid.shape.iter().map(|&n| n as usize).collect();
    let digits = axes.digits(port, runs);
    let n: usize = shape.iter().product();
    let mut places = vec![0; n];
    for e in 0..n {
        let index = index_of(e, &shape);
        let at = digits.iter().fold(0, |at, d| {
            let dim = laid.labels.iter().position(|l| *l == Some(d.of)).unwrap();
            let (div, extent) = (d.div as usize, d.extent as usize);
            at * extent + index[dim] / div % extent
        });
        places[at] = e;
    }
    places
}

fn check_over_axes(case: &Case, before: &[Tensor], axes: &Axes<'_>, form: OverAxes) {
    let shaped = |port: usize, runs: &[Run]| -> Vec<usize> {
        let extents = axes.extents(port, runs);
        extents.into_iter().map(|n| n as usize).collect()
    };
    let inputs: Vec<Tensor> = (form.operands.iter())
        .map(|(port, runs)| {
            let places = places(axes, *port, runs);
            case.inputs[*port].gather(shaped(*port, runs), |i| places[i])
        })
        .collect();
    let n = case.inputs.len();
    let wanted: Vec<Tensor> = (form.results.iter().zip(before).enumerate())
        .map(|(i, (runs, tensor))| {
            let places = places(axes, n + i, runs);
            tensor.gather(shaped(n + i, runs), |i| places[i])
        })
        .collect();
    let found = run(
        &case.name,
        &inputs,
        &types(&wanted),
        &form.props,
        &Bindings::default(),
    );
    let found = found.unwrap_or_else(|e| panic!("{} {form:?}: {e:?}", case.name));
    for (a, b) in found.iter().zip(&wanted) {
        assert_eq!(a.shape, b.shape, "{} {form:?}", case.name);
        for e in 0..a.len() {
            let (x, y) = (a.f64_at(e), b.f64_at(e));
            let same =
                x == y || (x - y).abs() <= 1e-5 * y.abs().max(1.0) || x.is_nan() && y.is_nan();
            assert!(same, "{} {form:?}: {x} is not {y}", case.name);
        }
    }
}
