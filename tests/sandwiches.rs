//! An operation along one axis between a transpose and its inverse moves nothing on `cpu`: every permutation of rank 4,
//! every axis, with a free and a pinned boundary. Without rules it does move.

use optc_check::Stats;
use optc_ir::tensor::Tensor;
use optc_ir::{Attr, DType, FuncBuilder, Module, NewOp, Registry, TensorType, Value};
use optc_ops::{
    ArgMax, Concat, Constant, Conv, Cumprod, Cumsum, Gather, GatherElements, LogSoftmax, Pad,
    PadMode, PadValue, Reduce, ReduceKind, ScatterElements, ScatterReduction, Slice, Softmax,
    Split, Tile, TopK, Transpose, ints, tensor_dense,
};
use optc_passes::Boundary;
use optc_tests::Must;
use optc_tests::check::{run_passes, same_meaning};
use std::sync::Arc;

const RANK: usize = 4;
/// Distinct primes, so that no two dimensions can be confused.
const SHAPE: [u64; RANK] = [2, 3, 5, 7];

/// A sandwich under construction: the operation's axis, and the transpose before it.
struct Sandwich<'r> {
    b: FuncBuilder<'r>,
    perm: Vec<usize>,
    axis: usize,
}

impl Sandwich<'_> {
    fn along(&self) -> i64 {
        i64::try_from(self.axis).expect("axes are small")
    }

    /// An argument whose transpose has this shape.
    fn input(&mut self, name: &str, shape: &[u64], dtype: DType) -> Value {
        let mut before = vec![0; shape.len()];
        for (to, &from) in self.perm.iter().enumerate() {
            before[from] = shape[to];
        }
        let x = self.b.arg(name, TensorType::fixed(&before, dtype));
        self.transposed(x, &self.perm.clone())
    }

    /// The argument that all operations have.
    fn x(&mut self) -> Value {
        let shape: Vec<u64> = self.perm.iter().map(|&from| SHAPE[from]).collect();
        self.input("x", &shape, DType::F32)
    }

    /// The shape of the operand with another extent along the axis.
    fn shape_with(&self, extent: u64) -> Vec<u64> {
        let mut shape: Vec<u64> = self.perm.iter().map(|&from| SHAPE[from]).collect();
        shape[self.axis] = extent;
        shape
    }

    fn transposed(&mut self, x: Value, perm: &[usize]) -> Value {
        let perm = ints(perm);
        self.b.must(&Transpose { perm }, &[x])
    }

    /// Transposes a result back. A dimension that the operation removed is left out; several dimensions made from one
    /// stay together.
    fn back(&mut self, y: Value, axes: usize) -> Value {
        let mut at = vec![Vec::new(); RANK];
        let mut next = 0;
        for (to, &from) in self.perm.iter().enumerate() {
            let n = if to == self.axis { axes } else { 1 };
            at[from] = (next..next + n).collect();
            next += n;
        }
        self.transposed(y, &at.concat())
    }

    /// One number for each dimension: `there` for the axis, `beside` for all others.
    fn one_axis(&self, there: i64, beside: i64) -> Vec<i64> {
        let mut all = vec![beside; RANK];
        all[self.axis] = there;
        all
    }
}

/// Makes the operation and returns its results, in the order of the argument.
type Filling = fn(&mut Sandwich<'_>) -> Vec<Value>;

/// A filling along the axis that keeps all dimensions.
macro_rules! plain {
    ($op:expr) => {
        |s| {
            let x = s.x();
            let make: fn(i64) -> _ = $op;
            let y = s.b.must(&make(s.along()), &[x]);
            vec![s.back(y, 1)]
        }
    };
}

fn pad(s: &mut Sandwich<'_>, mode: PadMode) -> Vec<Value> {
    let x = s.x();
    let pad = Pad {
        low: Some(s.one_axis(1, 0)),
        high: Some(s.one_axis(0, 0)),
        mode,
        value: PadValue::Int(0),
    };
    let y = s.b.must(&pad, &[x]);
    vec![s.back(y, 1)]
}

fn slice(s: &mut Sandwich<'_>) -> Vec<Value> {
    let x = s.x();
    let limits = ints(&s.shape_with(2));
    let slice = Slice {
        starts: optc_ops::Bounds::of_ints(&s.one_axis(1, 0)),
        limits: optc_ops::Bounds::of_ints(&limits),
        strides: None,
    };
    let y = s.b.must(&slice, &[x]);
    vec![s.back(y, 1)]
}

fn concat(s: &mut Sandwich<'_>) -> Vec<Value> {
    let (x, shape) = (s.x(), s.shape_with(11));
    let z = s.input("z", &shape, DType::F32);
    let axis = s.along();
    let y = s.b.must(&Concat { axis }, &[x, z]);
    vec![s.back(y, 1)]
}

fn split(s: &mut Sandwich<'_>) -> Vec<Value> {
    let x = s.x();
    let extent = i64::try_from(s.b.shape(x)[s.axis]).expect("extents are small");
    let (axis, sizes) = (s.along(), vec![1, extent - 1]);
    let parts = s.b.op(&Split { axis, sizes }, &[x]);
    let parts = parts.expect("the parts fill the axis");
    parts.into_iter().map(|part| s.back(part, 1)).collect()
}

fn tile(s: &mut Sandwich<'_>) -> Vec<Value> {
    let x = s.x();
    let repeats = s.one_axis(2, 1);
    let y = s.b.must(&Tile { repeats }, &[x]);
    vec![s.back(y, 1)]
}

fn reduce(s: &mut Sandwich<'_>, keepdims: bool) -> Vec<Value> {
    let x = s.x();
    let reduce = Reduce {
        kind: ReduceKind::Sum,
        axes: Some(vec![s.along()]),
        keepdims,
    };
    let y = s.b.must(&reduce, &[x]);
    vec![s.back(y, usize::from(keepdims))]
}

fn arg_max(s: &mut Sandwich<'_>, keepdims: bool) -> Vec<Value> {
    let x = s.x();
    let arg_max = ArgMax {
        axis: s.along(),
        keepdims,
        select_last_index: false,
    };
    let y = s.b.must(&arg_max, &[x]);
    vec![s.back(y, usize::from(keepdims))]
}

/// A gather by indices of this shape, which select the first two elements.
fn gather(s: &mut Sandwich<'_>, indices: &[u64]) -> Vec<Value> {
    let x = s.x();
    let n: u64 = indices.iter().product();
    let places: Vec<i64> = (0..n).map(|i| i64::from(i % 3 == 1)).collect();
    let shape = indices
        .iter()
        .map(|&n| usize::try_from(n).expect("extents are small"));
    let places = Tensor::from_i64(DType::SI64, shape.collect(), places);
    let places = s.b.must(&Constant::dense(tensor_dense(&places)), &[]);
    let y = s.b.must(&Gather { axis: s.along() }, &[x, places]);
    vec![s.back(y, indices.len())]
}

fn gather_at_run_time(s: &mut Sandwich<'_>) -> Vec<Value> {
    let x = s.x();
    let places = s.b.arg("i", TensorType::fixed(&[11], DType::SI64));
    let y = s.b.must(&Gather { axis: s.along() }, &[x, places]);
    vec![s.back(y, 1)]
}

fn top_k(s: &mut Sandwich<'_>) -> Vec<Value> {
    let x = s.x();
    let top_k = TopK {
        k: 2,
        axis: s.along(),
        largest: true,
        sorted: true,
    };
    let found = s.b.op(&top_k, &[x]).expect("every axis has two elements");
    found.into_iter().map(|y| s.back(y, 1)).collect()
}

fn gather_elements(s: &mut Sandwich<'_>) -> Vec<Value> {
    let (x, shape) = (s.x(), s.shape_with(11));
    let places = s.input("i", &shape, DType::SI64);
    let axis = s.along();
    let y = s.b.must(&GatherElements { axis }, &[x, places]);
    vec![s.back(y, 1)]
}

fn scatter_elements(s: &mut Sandwich<'_>) -> Vec<Value> {
    let (x, shape) = (s.x(), s.shape_with(1));
    let places = s.input("i", &shape, DType::SI64);
    let updates = s.input("u", &shape, DType::F32);
    let scatter = ScatterElements {
        axis: s.along(),
        reduction: ScatterReduction::None,
    };
    let y = s.b.must(&scatter, &[x, places, updates]);
    vec![s.back(y, 1)]
}

/// A 1x1 convolution, whose weights are a transposed argument too.
fn conv_of_one_pixel(s: &mut Sandwich<'_>) -> Vec<Value> {
    let x = s.x();
    let weights = [13, s.b.shape(x)[1], 1, 1];
    let w = s.input("w", &weights, DType::F32);
    let conv = Conv {
        strides: None,
        pads: None,
        dilations: None,
        group: 1,
        transposed: false,
        output_padding: None,
        to: None,
    };
    let y = s.b.must(&conv, &[x, w]);
    vec![s.back(y, 1)]
}

/// An ONNX operator with parameters given at run time, as vectors of these types, and results with these extents along
/// the axis.
fn operator(
    s: &mut Sandwich<'_>,
    kind: &str,
    stated: &[(&str, i64)],
    told: &[(u64, DType)],
    extents: &[u64],
) -> Vec<Value> {
    let x = s.x();
    let shapes: Vec<Vec<u64>> = extents.iter().map(|&n| s.shape_with(n)).collect();
    let made = opaque(s, (kind, x), stated, told, &shapes);
    made.into_iter().map(|y| s.back(y, 1)).collect()
}

/// An ONNX operator on a value, with parameters given as arguments, and results of these shapes.
fn opaque(
    s: &mut Sandwich<'_>,
    (kind, x): (&str, Value),
    stated: &[(&str, i64)],
    told: &[(u64, DType)],
    shapes: &[Vec<u64>],
) -> Vec<Value> {
    let mut operands = vec![x];
    for (i, &(n, dtype)) in told.iter().enumerate() {
        let vector = TensorType::fixed(&[n], dtype);
        operands.push(s.b.arg(&format!("p{i}"), vector));
    }
    let text = [("kind", kind), ("domain", ""), ("effect", "pure")];
    let text = text.map(|(name, text)| (name, Attr::str(text)));
    let numbers = stated.iter().map(|&(name, n)| (name, Attr::int(n)));
    let props = text.into_iter().chain(numbers).collect();
    let result = |shape: &Vec<u64>| TensorType::fixed(shape, DType::F32).into();
    let results = Some(shapes.iter().map(result).collect());
    let op = NewOp::new("hbir.opaque", &operands, props);
    let made = s.b.add(NewOp { results, ..op });
    made.expect("what it gives is stated")
}

/// An operator that removes an axis given at run time.
fn operator_away(s: &mut Sandwich<'_>, kind: &str, extent: Option<u64>) -> Vec<Value> {
    let x = match extent {
        Some(extent) => {
            let shape = s.shape_with(extent);
            s.input("x", &shape, DType::F32)
        }
        None => s.x(),
    };
    let mut shape = s.b.shape(x);
    shape.remove(s.axis);
    let stated: &[(&str, i64)] = match extent {
        Some(_) => &[],
        None => &[("onnx.keepdims", 0)],
    };
    let made = opaque(s, (kind, x), stated, &[(1, DType::SI64)], &[shape]);
    made.into_iter().map(|y| s.back(y, 0)).collect()
}

/// A new axis before this one, given at run time.
fn unsqueeze_at_run_time(s: &mut Sandwich<'_>) -> Vec<Value> {
    let x = s.x();
    let mut shape = s.b.shape(x);
    shape.insert(s.axis, 1);
    let made = opaque(s, ("Unsqueeze", x), &[], &[(1, DType::SI64)], &[shape]);
    made.into_iter().map(|y| s.back(y, 2)).collect()
}

/// As [`operator`], with the axis stated.
fn operator_along(
    s: &mut Sandwich<'_>,
    kind: &str,
    told: &[(u64, DType)],
    extents: &[u64],
) -> Vec<Value> {
    let axis = s.along();
    operator(s, kind, &[("onnx.axis", axis)], told, extents)
}

/// The operations that are put between a transpose and its inverse.
const FILLINGS: &[(&str, Filling)] = &[
    (
        "cumsum",
        plain!(|axis| Cumsum {
            axis,
            exclusive: false,
            reverse: true
        }),
    ),
    (
        "cumprod",
        plain!(|axis| Cumprod {
            axis,
            exclusive: true,
            reverse: false
        }),
    ),
    ("softmax", plain!(|axis| Softmax { axis })),
    ("log_softmax", plain!(|axis| LogSoftmax { axis })),
    ("pad", |s| pad(s, PadMode::Constant)),
    ("pad by edges", |s| pad(s, PadMode::Edge)),
    ("slice", slice),
    ("concat", concat),
    ("split", split),
    ("tile", tile),
    ("reduce", |s| reduce(s, true)),
    ("reduce away", |s| reduce(s, false)),
    ("arg_max", |s| arg_max(s, true)),
    ("arg_max away", |s| arg_max(s, false)),
    ("gather of one", |s| gather(s, &[])),
    ("gather", |s| gather(s, &[13])),
    ("gather by a table", |s| gather(s, &[11, 13])),
    ("gather at run time", gather_at_run_time),
    ("top_k", top_k),
    ("gather_elements", gather_elements),
    ("scatter_elements", scatter_elements),
    ("conv of one pixel", conv_of_one_pixel),
    ("Pad at run time", |s| {
        operator(s, "Pad", &[], &[(8, DType::SI64)], &[11])
    }),
    ("Slice at run time", |s| {
        let bounds = [(4, DType::SI64); 4];
        operator(s, "Slice", &[], &bounds, &[1])
    }),
    ("Tile at run time", |s| {
        operator(s, "Tile", &[], &[(4, DType::SI64)], &[210])
    }),
    ("Resize at run time", |s| {
        operator(s, "Resize", &[], &[(4, DType::F32)], &[13])
    }),
    ("ReduceSum at run time", |s| {
        operator(s, "ReduceSum", &[], &[(1, DType::SI64)], &[1])
    }),
    ("ReduceMax away at run time", |s| {
        operator_away(s, "ReduceMax", None)
    }),
    ("Squeeze at run time", |s| {
        operator_away(s, "Squeeze", Some(1))
    }),
    ("Unsqueeze at run time", unsqueeze_at_run_time),
    ("CenterCropPad at run time", |s| {
        operator(s, "CenterCropPad", &[], &[(4, DType::SI64)], &[11])
    }),
    ("Hardmax", |s| {
        operator_along(s, "Hardmax", &[], &[SHAPE[s.perm[s.axis]]])
    }),
    ("Split at run time", |s| {
        operator_along(s, "Split", &[(2, DType::SI64)], &[11, 13])
    }),
    ("TopK at run time", |s| {
        operator_along(s, "TopK", &[(1, DType::SI64)], &[2, 2])
    }),
    ("Compress at run time", |s| {
        operator_along(s, "Compress", &[(2, DType::BOOL)], &[1])
    }),
];

fn sandwich(filling: Filling, perm: &[usize], axis: usize, registry: &Registry) -> Module {
    let (b, perm) = (FuncBuilder::new(registry), perm.to_vec());
    let mut s = Sandwich { b, perm, axis };
    let results = filling(&mut s);
    s.b.finish(&results)
}

/// All permutations except the identity.
fn permutations() -> Vec<Vec<usize>> {
    let mut all = vec![Vec::new()];
    for _ in 0..RANK {
        let longer = |p: &Vec<usize>| {
            let p = p.clone();
            let rest: Vec<usize> = (0..RANK).filter(|d| !p.contains(d)).collect();
            rest.into_iter().map(move |d| [&p[..], &[d]].concat())
        };
        all = all.iter().flat_map(longer).collect();
    }
    all.retain(|p| !p.is_sorted());
    all
}

/// Folds a sandwich; returns it and the bytes that it still moves.
fn folded(
    module: &Module,
    pass: &str,
    boundary: &Boundary,
    registry: &Arc<Registry>,
) -> (Module, u64) {
    let pipeline = format!("canonicalize,{pass}");
    let ran = run_passes(module, &pipeline, "cpu", boundary, registry);
    let ran = ran.unwrap_or_else(|e| panic!("{e}"));
    let bytes = Stats::of(&ran.module, registry).movement_bytes;
    (ran.module, bytes)
}

/// Calls a function for every sandwich, with its name.
fn for_each(registry: &Registry, mut say: impl FnMut(&Module, &str)) {
    for (name, filling) in FILLINGS {
        for perm in permutations() {
            for axis in 0..RANK {
                let module = sandwich(*filling, &perm, axis, registry);
                say(&module, &format!("{name} along {axis} behind {perm:?}"));
            }
        }
    }
}

#[test]
fn nothing_moves_between_a_transpose_and_its_inverse() {
    let registry = Arc::new(optc_ops::registry());
    let free = Boundary {
        free_all: true,
        ..Boundary::default()
    };
    let mut failures = Vec::new();
    for_each(&registry, |module, name| {
        for boundary in [&Boundary::default(), &free] {
            let (_, bytes) = folded(module, "view-fold", boundary, &registry);
            if bytes != 0 {
                failures.push(format!("{name}: {bytes} bytes"));
            }
        }
    });
    let first: Vec<&str> = failures.iter().take(20).map(String::as_str).collect();
    let n = failures.len();
    assert!(first.is_empty(), "{n} of them move:\n{}", first.join("\n"));
}

/// One sandwich of each operation: it moves without rules, and it computes the same with them.
#[test]
fn rules_take_the_transposes_away_and_change_nothing_else() {
    let registry = Arc::new(optc_ops::registry());
    let pinned = Boundary::default();
    for (name, filling) in FILLINGS {
        let module = sandwich(*filling, &[1, 3, 0, 2], 1, &registry);
        let (_, bytes) = folded(&module, "view-fold{rules=none}", &pinned, &registry);
        assert_ne!(bytes, 0, "{name} moves nothing without rules");
        let (after, _) = folded(&module, "view-fold", &pinned, &registry);
        let same = same_meaning(&module, &after, &registry);
        assert_eq!(same, Ok(()), "{name}");
    }
}

/// Axes that are given at run time are unknown if the sizes do not determine them: of two dimensions of equal size
/// either may be removed.
#[test]
fn axes_that_the_sizes_do_not_say_keep_the_transposes() {
    let registry = Arc::new(optc_ops::registry());
    let moved = |shape: &[u64; 3], kind: &str, stated: &[(&str, i64)], result: &[u64]| {
        let (b, perm) = (FuncBuilder::new(&registry), vec![2, 1, 0]);
        let mut s = Sandwich { b, perm, axis: 1 };
        let x = s.input("x", shape, DType::F32);
        let made = opaque(
            &mut s,
            (kind, x),
            stated,
            &[(1, DType::SI64)],
            &[result.to_vec()],
        );
        let turned: Vec<usize> = (0..result.len()).rev().collect();
        let back = s.transposed(made[0], &turned);
        let module = s.b.finish(&[back]);
        folded(&module, "view-fold", &Boundary::default(), &registry).1
    };
    let away = [("onnx.keepdims", 0)];
    assert_eq!(moved(&[2, 3, 5], "ReduceSum", &away, &[2, 5]), 0);
    assert_ne!(moved(&[2, 5, 5], "ReduceSum", &away, &[2, 5]), 0);
    assert_eq!(moved(&[1, 1, 5], "Squeeze", &[], &[1, 5]), 0);
    assert_eq!(moved(&[2, 1, 5], "Squeeze", &[], &[2, 5]), 0);
    assert_ne!(moved(&[2, 3, 5], "Squeeze", &[], &[6, 5]), 0);
}

/// A convolution that reads each position of its input once can write its result in every order; one with overlapping
/// windows cannot.
#[test]
fn patches_are_written_in_every_order() {
    let registry = Arc::new(optc_ops::registry());
    let module = |perm: &[usize], data: [u64; 4], pad: i64| {
        let mut b = FuncBuilder::new(&registry);
        let x = b.arg("x", TensorType::fixed(&data, DType::F32));
        let w = b.arg("w", TensorType::fixed(&[11, 3, 2, 3], DType::F32));
        let conv = Conv {
            strides: Some(vec![2, 3]),
            pads: Some(vec![pad; 4]),
            dilations: None,
            group: 1,
            transposed: false,
            output_padding: None,
            to: None,
        };
        let y = b.must(&conv, &[x, w]);
        let perm = ints(perm);
        let t = b.must(&Transpose { perm }, &[y]);
        b.finish(&[t])
    };
    let pinned = Boundary::default();
    for perm in permutations() {
        let read_once = module(&perm, [2, 3, 10, 21], 0);
        let (after, bytes) = folded(&read_once, "view-fold", &pinned, &registry);
        assert_eq!(bytes, 0, "{perm:?}");
        let same = same_meaning(&read_once, &after, &registry);
        assert_eq!(same, Ok(()), "{perm:?}");
        let padded = module(&perm, [2, 3, 8, 19], 1);
        let (after, bytes) = folded(&padded, "view-fold", &pinned, &registry);
        assert_ne!(bytes, 0, "{perm:?}");
        assert_eq!(same_meaning(&padded, &after, &registry), Ok(()), "{perm:?}");
    }
}
