//! Tests that integer operations wrap: in all executors, a result is the exact number modulo 2 to the power of the width.
//! The operands include both ends of the range.

use indexmap::IndexMap;
use optc_compare::compare_exact;
use optc_exec::{ExecOptions, Executable, Isa};
use optc_interp::{NoData, run_naive, run_reference};
use optc_ir::{Bindings, DType, Module, Registry, Tensor, text};
use optc_passes::manager::{Hooks, run};
use optc_passes::{PassContext, PassList};
use optc_tests::check::{target, words};
use std::sync::Arc;

const TYPES: [(&str, u32, bool); 8] = [
    ("si64", 64, true),
    ("ui64", 64, false),
    ("si32", 32, true),
    ("ui32", 32, false),
    ("si16", 16, true),
    ("ui16", 16, false),
    ("si8", 8, true),
    ("ui8", 8, false),
];

/// One integer type.
#[derive(Clone, Copy)]
struct Int {
    name: &'static str,
    bits: u32,
    signed: bool,
}

impl Int {
    fn all() -> impl Iterator<Item = Int> {
        TYPES
            .into_iter()
            .map(|(name, bits, signed)| Int { name, bits, signed })
    }

    fn range(self) -> (i128, i128) {
        match self.signed {
            true => (-(1 << (self.bits - 1)), (1 << (self.bits - 1)) - 1),
            false => (0, (1 << self.bits) - 1),
        }
    }

    fn wrap(self, x: i128) -> i128 {
        let low = x.rem_euclid(1 << self.bits);
        match self.signed && low >> (self.bits - 1) == 1 {
            true => low - (1 << self.bits),
            false => low,
        }
    }

    /// `count` numbers of a cyclic list, from item `start` on: numbers at the ends of the range, numbers around 0, and one
    /// that no double represents.
    fn numbers(self, count: usize, start: usize) -> Vec<i128> {
        let (low, high) = self.range();
        let some = [
            high,
            low,
            1,
            high - 1,
            3,
            low + 1,
            0,
            high / 2 + 1,
            2,
            high / 3,
            low + 7,
        ];
        let all = some
            .into_iter()
            .chain([self.wrap(-1), self.wrap((1 << 53) + 1)]);
        all.cycle().skip(start).take(count).collect()
    }

    fn tensor(self, shape: &[usize], values: &[i128]) -> Tensor {
        let dtype = DType::parse(self.name).expect("a type");
        Tensor::from_i128(dtype, shape.to_vec(), values.iter().copied())
    }

    fn ty(self, shape: &[usize]) -> String {
        let dims: String = shape.iter().map(|n| format!("{n}x")).collect();
        format!("tensor<{dims}{}>", self.name)
    }
}

fn physical(module: &Module, inputs: &IndexMap<String, Tensor>, generic: bool, isa: Isa) -> Tensor {
    let registry = Arc::new(optc_ops::registry());
    let stages = PassList::builtin().parse("bufferize,plan-memory").unwrap();
    let mut cx = PassContext::new(registry.clone(), target("cpu"));
    let mut module = module.clone();
    run(&mut module, &stages, &mut cx, &mut Hooks::default())
        .unwrap_or_else(|d| panic!("{}", words(&d)));
    let options = ExecOptions {
        poison: true,
        generic,
        isa: Some(isa),
        ..ExecOptions::default()
    };
    let name = module.funcs[0].name.clone();
    let none = Bindings::default();
    let made = Executable::new(&module, &registry, &name, inputs, &NoData, &none, &options);
    let made = made.unwrap_or_else(|d| panic!("{}", words(&[*d])));
    let results = made
        .run(inputs)
        .unwrap_or_else(|d| panic!("{}", words(&[*d])));
    results.into_values().next().expect("one result")
}

/// Runs `op` on operands of type `int` in all executors, and compares each result with `wanted`, wrapped to the type `to`.
/// `op` is a name, optionally followed by a space and the attributes.
fn check(
    op: &str,
    operands: &[(Vec<usize>, Vec<i128>)],
    int: Int,
    to: Int,
    shape: &[usize],
    wanted: &[i128],
) {
    let names = ["x", "y", "z"];
    let used: Vec<String> = names[..operands.len()]
        .iter()
        .map(|n| format!("%{n}"))
        .collect();
    let types: Vec<String> = operands.iter().map(|(shape, _)| int.ty(shape)).collect();
    let (name, props) = op.split_once(' ').unwrap_or((op, ""));
    let result = to.ty(shape);
    let source = format!(
        "%0 = \"hbir.{name}\"({}) {props} : ({}) -> {result}\n",
        used.join(", "),
        types.join(", ")
    );
    let module = text::parse(&source).unwrap_or_else(|d| panic!("{source}: {}", words(&d)));
    let registry: Registry = optc_ops::registry();
    let inputs: IndexMap<String, Tensor> = (names.iter().zip(operands))
        .map(|(name, (shape, values))| ((*name).to_owned(), int.tensor(shape, values)))
        .collect();
    let wanted: Vec<i128> = wanted.iter().map(|&x| to.wrap(x)).collect();
    let wanted = to.tensor(shape, &wanted);
    let (main, none) = (module.funcs[0].name.clone(), Bindings::default());
    let first = |found: IndexMap<String, Tensor>| found.into_values().next().expect("one result");
    let reference = run_reference(&module, &registry, &main, &inputs, &NoData, &none);
    let naive = run_naive(&module, &registry, &main, &inputs, &NoData, &none);
    let found = [
        (
            "reference",
            first(reference.unwrap_or_else(|e| panic!("{source}: {e}"))),
        ),
        (
            "naive",
            first(naive.unwrap_or_else(|e| panic!("{source}: {e}"))),
        ),
        ("generic", physical(&module, &inputs, true, Isa::detect())),
    ];
    let kernels = Isa::available().into_iter();
    let kernels = kernels.map(|isa| (isa.name(), physical(&module, &inputs, false, isa)));
    for (how, found) in found.into_iter().chain(kernels) {
        compare_exact(&found, &wanted).unwrap_or_else(|e| panic!("{how}: {source}{e}"));
    }
}

/// A sum of products in wrapping 128-bit arithmetic.
fn dot(pairs: impl IntoIterator<Item = (i128, i128)>) -> i128 {
    let products = pairs.into_iter().map(|(a, b)| a.wrapping_mul(b));
    products.fold(0, i128::wrapping_add)
}

#[test]
fn products_wrap() {
    for int in Int::all() {
        let (a, b) = (int.numbers(15, 0), int.numbers(20, 4));
        let product = |b_at: &dyn Fn(usize, usize) -> usize| -> Vec<i128> {
            let sum = |i: usize, j: usize| dot((0..5).map(|k| (a[i * 5 + k], b[b_at(k, j)])));
            (0..3)
                .flat_map(|i| (0..4).map(move |j| (i, j)))
                .map(|(i, j)| sum(i, j))
                .collect()
        };
        let (straight, turned) = (product(&|k, j| k * 4 + j), product(&|k, j| j * 5 + k));
        let with = |b: &[usize]| [(vec![3, 5], a.clone()), (b.to_vec(), int.numbers(20, 4))];
        let same = |op: &str, b: &[usize], wanted: &[i128]| {
            check(op, &with(b), int, int, &[3, 4], wanted);
        };
        same("matmul", &[5, 4], &straight);
        same("linear", &[4, 5], &turned);
        same("einsum <{equation = \"ik,jk->ij\"}>", &[4, 5], &turned);
        let numbers = "<{lhs_batch = [], lhs_contract = [1], rhs_batch = [], rhs_contract = [0]}>";
        same(&format!("dot_general {numbers}"), &[5, 4], &straight);
        let diagonal: Vec<i128> = (0..3)
            .map(|i| dot((0..5).map(|k| (a[i * 5 + k], a[i * 5 + k]))))
            .collect();
        let twice = [(vec![3, 5], a.clone()), (vec![3, 5], a.clone())];
        check(
            "einsum <{equation = \"ik,ik->i\"}>",
            &twice,
            int,
            int,
            &[3],
            &diagonal,
        );
    }
}

#[test]
fn narrow_products_fill_wide_sums() {
    let wide = Int::all().find(|int| int.name == "si32").unwrap();
    for int in Int::all().filter(|int| int.bits == 8) {
        let (a, b) = (int.numbers(40, 0), int.numbers(40, 4));
        let wanted = [dot(a.iter().copied().zip(b.iter().copied()))];
        let operands = [(vec![1, 40], a), (vec![40, 1], b)];
        check(
            "matmul <{to = si32}>",
            &operands,
            int,
            wide,
            &[1, 1],
            &wanted,
        );
    }
}

#[test]
fn convolutions_wrap() {
    for int in Int::all() {
        for groups in [1, 2] {
            let (x, w) = (
                int.numbers(2 * 4 * 5, 0),
                int.numbers(6 * (4 / groups) * 3, 2),
            );
            let bias = int.numbers(6, 1);
            let (ins, outs) = (4 / groups, 6 / groups);
            let at = |n: usize, o: usize, p: usize| {
                let met = (0..ins).flat_map(|c| (0..3).map(move |k| (c, k)));
                let met = met.filter(|&(_, k)| (1..6).contains(&(p + k)));
                let pair = |(c, k): (usize, usize)| {
                    let channel = o / outs * ins + c;
                    (
                        x[(n * 4 + channel) * 5 + p + k - 1],
                        w[(o * ins + c) * 3 + k],
                    )
                };
                dot(met.map(pair)).wrapping_add(bias[o])
            };
            let places =
                (0..2).flat_map(|n| (0..6).flat_map(move |o| (0..5).map(move |p| (n, o, p))));
            let wanted: Vec<i128> = places.map(|(n, o, p)| at(n, o, p)).collect();
            let operands = [
                (vec![2, 4, 5], x.clone()),
                (vec![6, ins, 3], w.clone()),
                (vec![6], bias),
            ];
            let op = format!("conv <{{group = {groups}, pads = [1, 1]}}>");
            check(&op, &operands, int, int, &[2, 6, 5], &wanted);
        }
    }
}

#[test]
fn transposed_convolutions_wrap() {
    for int in Int::all() {
        let (x, w) = (int.numbers(2 * 4, 0), int.numbers(2 * 3 * 2, 2));
        let mut wanted = vec![0i128; 3 * 8];
        for (c, o, i, k) in (0..2).flat_map(|c| (0..24).map(move |r| (c, r / 8, r / 2 % 4, r % 2)))
        {
            let product = x[c * 4 + i].wrapping_mul(w[(c * 3 + o) * 2 + k]);
            let sum = &mut wanted[o * 8 + 2 * i + k];
            *sum = sum.wrapping_add(product);
        }
        let operands = [(vec![1, 2, 4], x), (vec![2, 3, 2], w)];
        let op = "conv <{strides = [2], transposed = true}>";
        check(op, &operands, int, int, &[1, 3, 8], &wanted);
    }
}

#[test]
fn reductions_wrap() {
    type Fold = fn(i128, i128) -> i128;
    let kinds: [(&str, i128, Fold); 4] = [
        ("sum", 0, i128::wrapping_add),
        ("prod", 1, i128::wrapping_mul),
        ("l1", 0, |sum, x| sum.wrapping_add(x.abs())),
        ("sum_square", 0, |sum, x| {
            sum.wrapping_add(x.wrapping_mul(x))
        }),
    ];
    for int in Int::all() {
        let x = int.numbers(3 * 9, 0);
        let operand = [(vec![3, 9], x.clone())];
        for (kind, first, fold) in kinds {
            let wanted: Vec<i128> = x
                .chunks(9)
                .map(|row| row.iter().fold(first, |a, &b| fold(a, b)))
                .collect();
            let op = format!("reduce <{{axes = [1], keepdims = false, kind = \"{kind}\"}}>");
            check(&op, &operand, int, int, &[3], &wanted);
        }
        type Ends = fn(i128, i128) -> i128;
        let ends: [(&str, Ends); 2] = [("max", i128::max), ("min", i128::min)];
        for (kind, end) in ends {
            let wanted: Vec<i128> = x
                .chunks(9)
                .map(|row| row.iter().copied().reduce(end).unwrap())
                .collect();
            let op = format!("reduce <{{axes = [1], keepdims = false, kind = \"{kind}\"}}>");
            check(&op, &operand, int, int, &[3], &wanted);
        }
    }
}

#[test]
fn running_sums_and_products_wrap() {
    for int in Int::all() {
        let x = int.numbers(13, 0);
        let operand = [(vec![13], x.clone())];
        let running = |first: i128, join: fn(i128, i128) -> i128| -> Vec<i128> {
            let mut so_far = first;
            x.iter()
                .map(|&x| {
                    so_far = join(so_far, x);
                    so_far
                })
                .collect()
        };
        check(
            "cumsum <{axis = 0}>",
            &operand,
            int,
            int,
            &[13],
            &running(0, i128::wrapping_add),
        );
        check(
            "cumprod <{axis = 0}>",
            &operand,
            int,
            int,
            &[13],
            &running(1, i128::wrapping_mul),
        );
    }
}

#[test]
fn pools_take_the_greatest() {
    for int in Int::all() {
        let x = int.numbers(12, 0);
        let wanted: Vec<i128> = x.windows(2).map(|pair| pair[0].max(pair[1])).collect();
        let operand = [(vec![1, 1, 12], x)];
        check(
            "max_pool <{kernel = [2]}>",
            &operand,
            int,
            int,
            &[1, 1, 11],
            &wanted,
        );
    }
}

#[test]
fn elements_wrap() {
    type Two = fn(i128, i128) -> i128;
    let two: [(&str, Two); 6] = [
        ("add", |a, b| a + b),
        ("sub", |a, b| a - b),
        ("mul", i128::wrapping_mul),
        ("div", |a, b| a.checked_div(b).unwrap_or(0)),
        ("max", i128::max),
        ("min", i128::min),
    ];
    for int in Int::all() {
        let (x, y) = (int.numbers(13 * 13, 0), int.numbers(13, 0));
        let y: Vec<i128> = (0..13 * 13).map(|i| y[i / 13]).collect();
        for (op, f) in two {
            let wanted: Vec<i128> = x.iter().zip(&y).map(|(&a, &b)| f(a, b)).collect();
            let operands = [(vec![169], x.clone()), (vec![169], y.clone())];
            check(op, &operands, int, int, &[169], &wanted);
        }
        type One = fn(i128) -> i128;
        let one: [(&str, One); 2] = [("neg", |x| -x), ("abs", i128::abs)];
        for (op, f) in one {
            let wanted: Vec<i128> = x.iter().map(|&x| f(x)).collect();
            check(op, &[(vec![169], x.clone())], int, int, &[169], &wanted);
        }
    }
}

#[test]
fn scattered_sums_wrap() {
    let index = Int::all().find(|int| int.name == "si64").unwrap();
    // `check` gives all operands one type, so that of the indices is also that of the elements.
    let x = index.numbers(3, 0);
    let updates = index.numbers(3, 5);
    let wanted = [
        x[0].wrapping_add(updates[0]).wrapping_add(updates[1]),
        x[1],
        x[2].wrapping_add(updates[2]),
    ];
    let operands = [(vec![3], x), (vec![3], vec![0, 0, 2]), (vec![3], updates)];
    let op = "scatter_elements <{axis = 0, reduction = \"add\"}>";
    check(op, &operands, index, index, &[3], &wanted);
}

#[test]
fn casts_wrap() {
    for from in Int::all() {
        let x = from.numbers(13, 0);
        for to in Int::all() {
            let op = format!("cast <{{to = {}}}>", to.name);
            check(&op, &[(vec![13], x.clone())], from, to, &[13], &x);
        }
    }
}

/// An integer is converted to the nearest float, with a single rounding.
#[test]
#[expect(clippy::cast_precision_loss, reason = "rounding is what is tested")]
fn casts_to_floats_round_once() {
    // The first two are so close to the midpoint of two floats that a double rounds them to the midpoint.
    let numbers: [i64; 5] = [
        (1 << 60) + (1 << 36) + 1,
        (1 << 60) + (3 << 36) - 1,
        i64::MAX,
        i64::MIN,
        (1 << 53) + 1,
    ];
    let source = "%0 = \"hbir.cast\"(%x) <{to = f32}> : (tensor<5xsi64>) -> tensor<5xf32>\n";
    let module = text::parse(source).unwrap();
    let registry = optc_ops::registry();
    let inputs = IndexMap::from([(
        "x".to_owned(),
        Tensor::from_i64(DType::SI64, vec![5], numbers),
    )]);
    let wanted = numbers.map(|x| f64::from(x as f32));
    let wanted = Tensor::from_f64(DType::F32, vec![5], wanted);
    let (main, none) = (module.funcs[0].name.clone(), Bindings::default());
    let reference = run_reference(&module, &registry, &main, &inputs, &NoData, &none).unwrap();
    compare_exact(&reference[0], &wanted).unwrap();
    for isa in Isa::available() {
        for generic in [true, false] {
            compare_exact(&physical(&module, &inputs, generic, isa), &wanted).unwrap();
        }
    }
}
