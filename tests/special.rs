//! Zeros of both signs, infinities, NaN, and the least and greatest numbers: operations give the same results for them
//! in all executors, in whatever layout.

use indexmap::IndexMap;
use optc_compare::compare_exact;
use optc_exec::{ExecOptions, Executable, Isa};
use optc_interp::{NoData, run_naive, run_reference};
use optc_ir::verify::verify;
use optc_ir::{Bindings, DType, Module, Registry, Tensor, text};
use optc_passes::manager::{Hooks, run};
use optc_passes::{PassContext, PassList};
use optc_tests::check::{parse, target, words};
use std::sync::Arc;

/// Numbers at which functions have limits, extrema or cancellation, for each type.
const SPECIAL: &[f64] = &[
    0.0,
    f64::INFINITY,
    f64::NAN,
    3.402_823_466_385_288_6e38,
    1.175_494_350_822_287_5e-38,
    1e-45,
    3e-40,
    6e-8,
    1e-5,
    0.5,
    0.999_999_9,
    1.0,
    1.000_000_1,
    2.0,
    3.0,
    3.95,
    4.5,
    7.9,
    8.9,
    9.2,
    20.0,
    88.6,
    88.8,
    103.0,
    200.0,
    1e4,
    65_504.0,
    1e10,
    1e20,
    3e30,
];

const INTEGERS: &[f64] = &[
    0.0,
    1.0,
    2.0,
    3.0,
    7.0,
    31.0,
    127.0,
    128.0,
    255.0,
    32_767.0,
    2_147_483_647.0,
    2_147_483_648.0,
    4_294_967_296.0,
];

fn values(dtype: DType) -> Vec<f64> {
    if dtype.is_bool() {
        return vec![0.0, 1.0];
    }
    let list = if dtype.is_float() { SPECIAL } else { INTEGERS };
    list.iter().flat_map(|&x| [x, -x]).collect()
}

fn planned(module: &Module, registry: &Arc<Registry>) -> Module {
    let stages = PassList::builtin().parse("bufferize,plan-memory");
    let mut cx = PassContext::new(registry.clone(), target("cpu"));
    let mut module = module.clone();
    let stages = stages.expect("built-in passes");
    run(&mut module, &stages, &mut cx, &mut Hooks::default())
        .unwrap_or_else(|d| panic!("{}", words(&d)));
    module
}

/// The results of a program by the reference and by the kernels of each instruction set; other executors must be exact.
fn results(
    module: &Module,
    registry: &Arc<Registry>,
    inputs: &IndexMap<String, Tensor>,
) -> (Tensor, Vec<Tensor>) {
    let none = Bindings::default();
    let text = || text::print(module);
    let wanted = run_reference(module, registry, "main", inputs, &NoData, &none);
    let wanted = wanted.unwrap_or_else(|e| panic!("{e}\n{}", text()));
    let after = planned(module, registry);
    let naive = run_naive(&after, registry, "main", inputs, &NoData, &none);
    let naive = naive.unwrap_or_else(|e| panic!("{e}\n{}", text()));
    let physical = |isa: Isa, generic: bool| {
        let options = ExecOptions {
            poison: true,
            generic,
            isa: Some(isa),
            ..ExecOptions::default()
        };
        let made = Executable::new(&after, registry, "main", inputs, &NoData, &none, &options);
        let found = made.and_then(|made| made.run(inputs));
        let found = found.unwrap_or_else(|d| panic!("{}\n{}", words(&[*d]), text()));
        found[0].clone()
    };
    for same in [&naive[0], &physical(Isa::detect(), true)] {
        compare_exact(same, &wanted[0]).unwrap_or_else(|e| panic!("{e}\n{}", text()));
    }
    let kernels = Isa::available().into_iter();
    let kernels = kernels.map(|isa| physical(isa, false));
    (wanted[0].clone(), kernels.collect())
}

/// True if a number is the wanted one: within the rounding of its type, or exactly if that is 0, 1, not finite, or an
/// integer.
fn close(found: f64, wanted: f64, dtype: DType) -> bool {
    let tolerance = match dtype {
        DType::F32 => 1e-6,
        DType::F16 => 1e-3,
        DType::BF16 => 8e-3,
        _ => 0.0,
    };
    if wanted.is_nan() {
        return found.is_nan();
    }
    if !wanted.is_finite() || wanted.abs() == 1.0 || wanted == 0.0 {
        return found == wanted;
    }
    (found - wanted).abs() <= tolerance * wanted.abs().max(1.0)
}

/// An operation on operands of these types and layouts.
fn program(operation: &str, dtype: DType, operands: &[String], result: &str) -> String {
    let of = |list: Vec<String>| list.join(", ");
    let (name, attrs) = operation.split_once(' ').unwrap_or((operation, ""));
    let types = of(operands
        .iter()
        .map(|ty| format!("tensor<{}>", ty.replace('@', &dtype.to_string())))
        .collect());
    let arguments = operands.iter().enumerate();
    let arguments = of(arguments
        .map(|(i, ty)| format!("%x{i}: tensor<{}>", ty.replace('@', &dtype.to_string())))
        .collect());
    let names = of((0..operands.len()).map(|i| format!("%x{i}")).collect());
    format!(
        "func.func @main({arguments}) -> tensor<{result}> {{\n  \
         %y = \"{name}\"({names}) {attrs} : ({types}) -> tensor<{result}>\n  \
         return %y : tensor<{result}>\n}}\n"
    )
}

/// Runs an operation if it accepts this element type: along lines, across them, in short ones, and broadcast. Returns
/// the number of runs.
fn check(operation: &str, operands: usize, dtype: DType, registry: &Arc<Registry>) -> usize {
    let list = values(dtype);
    let n = list.len();
    // Every pair of numbers, with several orders of positions.
    let (rows, columns) = (n, n);
    let at = |i: usize| list[i % n];
    let forms: [(Vec<String>, String); 4] = {
        let whole = format!("{rows}x{columns}x@");
        let turned = format!("{rows}x{columns}x@, {{order = [1, 0]}}");
        let flat = format!("{}x@", rows * columns);
        let both = |a: &str, b: &str| vec![a.to_owned(), b.to_owned()][..operands].to_vec();
        [
            (both(&flat, &flat), flat.clone()),
            (both(&turned, &whole), whole.clone()),
            (both(&whole, &turned), turned.clone()),
            (both(&whole, &format!("1x{columns}x@")), whole),
        ]
    };
    let mut ran = 0;
    for (types, result) in forms {
        // Predicates give booleans; every other operation gives its operand's type or the stated one.
        let to = operation
            .split("to = ")
            .nth(1)
            .and_then(|rest| rest.split('}').next());
        let given = [to.map_or(dtype.to_string(), str::to_owned), "i1".to_owned()];
        let found = given.iter().find_map(|to| {
            let text = program(operation, dtype, &types, &result.replace('@', to));
            let module = text::parse(&text).ok()?;
            verify(&module, registry).is_ok().then_some(module)
        });
        let Some(module) = found else { continue };
        let inputs = types.iter().enumerate().map(|(k, ty)| {
            let sizes = ty.split(',').next().unwrap_or(ty);
            let shape: Vec<usize> = sizes.split('x').filter_map(|n| n.parse().ok()).collect();
            let count: usize = shape.iter().product();
            let number = |i: usize| match (k, count == n) {
                (0, false) => at(i / columns),
                _ => at(i),
            };
            let tensor = Tensor::from_f64(dtype, shape, (0..count).map(number));
            (format!("x{k}"), tensor)
        });
        let inputs: IndexMap<String, Tensor> = inputs.collect();
        let (wanted, found) = results(&module, registry, &inputs);
        for (found, isa) in found.iter().zip(Isa::available()) {
            for i in 0..wanted.len() {
                let (found, wanted_here) = (found.f64_at(i), wanted.f64_at(i));
                assert!(
                    close(found, wanted_here, wanted.dtype),
                    "{operation} of {dtype} at {i}, {isa}, of {:?}: {found:e}, wanted {wanted_here:e}",
                    inputs
                        .values()
                        .map(|t| t.f64_at(if t.len() == n { i % n } else { i }))
                        .collect::<Vec<_>>()
                );
            }
        }
        ran += 1;
    }
    ran
}

const TYPES: &[DType] = &[
    DType::F32,
    DType::F16,
    DType::BF16,
    DType::F64,
    DType::SI8,
    DType::UI8,
    DType::SI32,
    DType::SI64,
    DType::BOOL,
];

/// Operations with attributes, and their numbers of operands.
const SPELLED: &[(&str, usize)] = &[
    (r#"hbir.gelu <{approximate = "tanh"}>"#, 1),
    ("hbir.clamp <{min = -3.0, max = 20.0}>", 1),
    ("hbir.clamp <{max = 1.0}>", 1),
    ("hbir.leaky_relu <{alpha = -2.0}>", 1),
    ("hbir.hard_sigmoid <{alpha = 1.0e20}>", 1),
    ("hbir.cast <{to = si32}>", 1),
    ("hbir.cast <{to = si8}>", 1),
    ("hbir.cast <{to = ui8}>", 1),
    ("hbir.cast <{to = f32}>", 1),
    ("hbir.cast <{to = f16}>", 1),
    ("hbir.cast <{to = bf16}>", 1),
    ("hbir.cast <{to = i1}>", 1),
    (r#"hbir.compare <{direction = "eq"}>"#, 2),
    (r#"hbir.compare <{direction = "ne"}>"#, 2),
    (r#"hbir.compare <{direction = "lt"}>"#, 2),
    (r#"hbir.compare <{direction = "le"}>"#, 2),
    (r#"hbir.compare <{direction = "gt"}>"#, 2),
    (r#"hbir.compare <{direction = "ge"}>"#, 2),
];

#[test]
fn element_wise_operations_are_the_same_in_all_executors() {
    let registry = Arc::new(optc_ops::registry());
    let all = registry.all();
    let names = all.iter().filter(|decl| decl.family() == "elementwise");
    let names: Vec<&str> = names.map(|decl| decl.name()).collect();
    let mut operations: Vec<(&str, usize)> = names
        .iter()
        .flat_map(|&name| [(name, 1), (name, 2)])
        .collect();
    operations.extend(SPELLED);
    let mut ran = 0;
    for (operation, operands) in operations {
        for &dtype in TYPES {
            ran += check(operation, operands, dtype, &registry);
        }
    }
    assert!(1000 <= ran, "{ran}");
}

/// Checks a function of one operand at some numbers.
fn check_at(operation: &str, wanted: &[(f64, f64)]) {
    let registry = Arc::new(optc_ops::registry());
    let n = wanted.len();
    let text = program(
        operation,
        DType::F32,
        &[format!("{n}x@")],
        &format!("{n}xf32"),
    );
    let values = wanted.iter().map(|pair| pair.0);
    let x = Tensor::from_f64(DType::F32, vec![n], values);
    let inputs: IndexMap<String, Tensor> = [("x0".to_owned(), x)].into_iter().collect();
    let (reference, kernels) = results(&parse(&text), &registry, &inputs);
    for found in kernels.iter().chain([&reference]) {
        for (i, (x, wanted)) in wanted.iter().enumerate() {
            let found = found.f64_at(i);
            let same = found.to_bits() == wanted.to_bits() || found.is_nan() && wanted.is_nan();
            assert!(same, "{operation} of {x}: {found:?}, wanted {wanted:?}");
        }
    }
}

#[test]
fn functions_end_exactly() {
    let ends = [
        (20.0, 1.0),
        (-20.0, -1.0),
        (f64::INFINITY, 1.0),
        (f64::NEG_INFINITY, -1.0),
        (1e38, 1.0),
        (0.0, 0.0),
        (-0.0, -0.0),
        (f64::NAN, f64::NAN),
    ];
    check_at("hbir.erf", &ends);
    check_at("hbir.tanh", &ends);
    let gelu = [
        (1e4, 1e4),
        (-1e4, -0.0),
        (f64::INFINITY, f64::INFINITY),
        // Minus infinity times 0.
        (f64::NEG_INFINITY, f64::NAN),
        (-0.0, -0.0),
    ];
    check_at("hbir.gelu", &gelu);
    check_at(r#"hbir.gelu <{approximate = "tanh"}>"#, &gelu);
    check_at(
        "hbir.sigmoid",
        &[(200.0, 1.0), (-200.0, 1.0 / (1.0 + 200f64.exp()) * 0.0)],
    );
    check_at(
        "hbir.relu",
        &[(f64::NAN, f64::NAN), (f64::NEG_INFINITY, 0.0)],
    );
}

/// Convolutions and pools with infinities or NaN in the operand or in the weights, beside padding.
const PADDED: &[(&str, &[&str], &str)] = &[
    (
        "hbir.conv <{pads = [0, 1, 0, 1]}>",
        &["1x1x1x3x@", "1x1x1x3x@"],
        "1x1x1x3x@",
    ),
    (
        "hbir.conv <{pads = [1, 2, 1, 0], strides = [2, 1], dilations = [1, 2]}>",
        &["2x5x7x9x@", "4x5x3x3x@", "4x@"],
        "2x4x4x7x@",
    ),
    (
        "hbir.conv <{pads = [1, 1, 1, 1]}>",
        &["1x16x6x7x@, {order = [0, 2, 3, 1]}", "8x16x3x3x@"],
        "1x8x6x7x@, {order = [0, 2, 3, 1]}",
    ),
    (
        "hbir.conv <{pads = [1, 1, 1, 1], group = 20}>",
        &["1x20x6x7x@, {order = [0, 2, 3, 1]}", "20x1x3x3x@", "20x@"],
        "1x20x6x7x@, {order = [0, 2, 3, 1]}",
    ),
    (
        "hbir.conv <{pads = [2, 2, 2, 2], group = 3}>",
        &["1x3x20x19x@", "6x1x5x5x@"],
        "1x6x20x19x@",
    ),
    (
        "hbir.conv <{pads = [3, 3]}>",
        &["1x4x5x@", "3x4x7x@"],
        "1x3x5x@",
    ),
    (
        "hbir.conv <{transposed = true, pads = [1, 1, 1, 1], strides = [2, 2]}>",
        &["1x3x4x5x@", "3x2x3x3x@", "2x@"],
        "1x2x7x9x@",
    ),
    (
        "hbir.avg_pool <{kernel = [3, 3], pads = [1, 1, 1, 1]}>",
        &["1x2x9x50x@"],
        "1x2x9x50x@",
    ),
    (
        "hbir.avg_pool <{kernel = [3, 3], pads = [1, 1, 1, 1], count_include_pad = true}>",
        &["1x20x6x7x@, {order = [0, 2, 3, 1]}"],
        "1x20x6x7x@, {order = [0, 2, 3, 1]}",
    ),
    (
        "hbir.max_pool <{kernel = [3, 3], pads = [1, 1, 1, 1], strides = [2, 2]}>",
        &["1x3x20x21x@"],
        "1x3x10x11x@",
    ),
];

#[test]
fn padding_is_not_multiplied() {
    let registry = Arc::new(optc_ops::registry());
    let mut special = 0;
    for (operation, operands, result) in PADDED {
        for dtype in [DType::F32, DType::F16, DType::BF16] {
            let operands: Vec<String> = operands.iter().map(|&ty| ty.to_owned()).collect();
            let result = result.replace('@', &dtype.to_string());
            let module = parse(&program(operation, dtype, &operands, &result));
            verify(&module, &registry).unwrap_or_else(|d| panic!("{}", words(&d)));
            for (seed, odd) in [
                (0, f64::INFINITY),
                (1, f64::NEG_INFINITY),
                (2, f64::NAN),
                (3, 1.0),
            ] {
                for port in 0..operands.len().min(2) {
                    let inputs = operands.iter().enumerate().map(|(k, ty)| {
                        let sizes = ty.split(',').next().unwrap_or(ty);
                        let shape = sizes.split('x').filter_map(|n| n.parse().ok());
                        let shape: Vec<usize> = shape.collect();
                        let count: usize = shape.iter().product();
                        let number = |i: usize| match k == port && i % 13 == seed {
                            true => odd,
                            false => ((i * 7 + 3 * k + seed) % 11) as f64 / 4.0 - 1.0,
                        };
                        let tensor = Tensor::from_f64(dtype, shape, (0..count).map(number));
                        (format!("x{k}"), tensor)
                    });
                    let inputs: IndexMap<String, Tensor> = inputs.collect();
                    let (wanted, found) = results(&module, &registry, &inputs);
                    let places = (0..wanted.len()).flat_map(|i| found.iter().map(move |f| (f, i)));
                    for (found, i) in places {
                        let (a, b) = (found.f64_at(i), wanted.f64_at(i));
                        let near = (a - b).abs() <= 4e-2 * b.abs().max(1.0);
                        let same = a == b || a.is_nan() && b.is_nan() || near;
                        assert!(same, "{operation} of {dtype} {odd} at {i}: {a}, wanted {b}");
                        special += usize::from(!b.is_finite());
                    }
                }
            }
        }
    }
    assert!(1000 <= special, "{special}");
}
