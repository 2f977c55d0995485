//! Shared parts of the tests of operations: short ways to write tensors, attributes and checks.

#![allow(
    dead_code,
    unused_macros,
    unused_imports,
    reason = "each test binary uses its own part"
)]

use optc_ir::{
    Attr, AttrDict, Bindings, DType, Data, Dim, EvalContext, Inferred, OpError, OpRef, Registry,
    Tensor, TensorType, Type,
};
use std::sync::Arc;

pub(crate) mod draw;

/// Types that convert to an attribute.
pub(crate) trait IntoAttr {
    fn attr(self) -> Attr;
}
impl IntoAttr for Attr {
    fn attr(self) -> Attr {
        self
    }
}
impl IntoAttr for i64 {
    fn attr(self) -> Attr {
        Attr::int(self)
    }
}
impl IntoAttr for f64 {
    fn attr(self) -> Attr {
        Attr::float(self)
    }
}
impl IntoAttr for bool {
    fn attr(self) -> Attr {
        Attr::Bool(self)
    }
}
impl IntoAttr for &str {
    fn attr(self) -> Attr {
        Attr::str(self)
    }
}
impl IntoAttr for DType {
    fn attr(self) -> Attr {
        Attr::Type(Type::Scalar(self))
    }
}
impl<const N: usize> IntoAttr for [i64; N] {
    fn attr(self) -> Attr {
        Attr::ints(&self)
    }
}
impl<const N: usize> IntoAttr for [f64; N] {
    fn attr(self) -> Attr {
        Attr::Array(self.map(Attr::float).to_vec())
    }
}

/// Makes attributes: `props! { axis: 1, perm: [1, 0] }`.
macro_rules! props {
    ($($name:ident : $value:expr),* $(,)?) => {
        [$((stringify!($name), crate::ops_support::IntoAttr::attr($value))),*]
            .into_iter()
            .collect::<optc_ir::AttrDict>()
    };
}
pub(crate) use props;

pub(crate) fn f32s(shape: &[usize], values: &[f64]) -> Tensor {
    Tensor::from_f64(DType::F32, shape.to_vec(), values.iter().copied())
}
pub(crate) fn ints(dtype: DType, shape: &[usize], values: &[i64]) -> Tensor {
    Tensor::from_i64(dtype, shape.to_vec(), values.iter().copied())
}
pub(crate) fn i64s(shape: &[usize], values: &[i64]) -> Tensor {
    ints(DType::SI64, shape, values)
}
pub(crate) fn bools(shape: &[usize], values: &[i64]) -> Tensor {
    ints(DType::BOOL, shape, values)
}
/// The numbers 0, 1, 2, … as f32.
pub(crate) fn count(shape: &[usize]) -> Tensor {
    let n = shape.iter().product::<usize>() as i64;
    Tensor::from_i64(DType::F32, shape.to_vec(), 0..n)
}

/// A tensor type: numbers are extents, `?` is unknown, names are symbols.
pub(crate) fn ty(dims: &str, dtype: DType) -> Type {
    let dim = |text: &str| match text {
        "?" => Dim::Unknown,
        _ => text
            .parse()
            .map_or_else(|_| Dim::Symbol(Arc::from(text)), Dim::Fixed),
    };
    let dims = dims.split('x').filter(|t| !t.is_empty()).map(dim).collect();
    TensorType::new(dims, dtype).into()
}
pub(crate) fn type_of(tensor: &Tensor) -> Type {
    let shape: Vec<u64> = tensor.shape.iter().map(|&n| n as u64).collect();
    Type::tensor(&shape, tensor.dtype)
}

pub(crate) fn infer(
    name: &str,
    operands: &[Type],
    results: &[Type],
    props: &AttrDict,
) -> Result<Vec<Inferred>, OpError> {
    let registry = optc_ops::registry();
    let decl = registry.get(name).expect("a known operation");
    decl.infer(&op_ref(name, operands, results, props))
}

pub(crate) fn op_ref<'a>(
    name: &'a str,
    operands: &'a [Type],
    results: &'a [Type],
    props: &'a AttrDict,
) -> OpRef<'a> {
    OpRef {
        name,
        operands: operands.iter().collect(),
        results: results.iter().collect(),
        props,
    }
}

pub(crate) fn run(
    name: &str,
    inputs: &[Tensor],
    results: &[Type],
    props: &AttrDict,
    bindings: &Bindings,
) -> Result<Vec<Tensor>, String> {
    let registry = optc_ops::registry();
    let decl = registry.get(name).ok_or("an unknown operation")?;
    let types: Vec<Type> = inputs.iter().map(type_of).collect();
    let refs: Vec<&Tensor> = inputs.iter().collect();
    let op = op_ref(name, &types, results, props);
    decl.eval(&op, &refs, &EvalContext { bindings })
        .map_err(|e| e.to_string())
}

/// Evaluates and compares with `wanted`; floats must agree to 1e-6.
#[track_caller]
pub(crate) fn check(name: &str, inputs: &[Tensor], props: &AttrDict, wanted: &[Tensor]) {
    let results: Vec<Type> = wanted.iter().map(type_of).collect();
    let found = run(name, inputs, &results, props, &Bindings::default());
    let found = found.unwrap_or_else(|e| panic!("{name}: {e}"));
    assert_eq!(found.len(), wanted.len(), "{name}: the number of results");
    for (found, wanted) in found.iter().zip(wanted) {
        close(name, found, wanted, 1e-6);
    }
}

/// Compares two tensors; floats must agree to `tolerance`, relative to 1 or to the wanted number.
#[track_caller]
pub(crate) fn close(name: &str, found: &Tensor, wanted: &Tensor, tolerance: f64) {
    assert_eq!(found.dtype, wanted.dtype, "{name}: the element type");
    assert_eq!(found.shape, wanted.shape, "{name}: the shape");
    assert_eq!(
        data_len(found),
        wanted.len(),
        "{name}: the number of elements"
    );
    for i in 0..wanted.len() {
        let (a, b) = (found.f64_at(i), wanted.f64_at(i));
        let same = a == b || (a.is_nan() && b.is_nan());
        let near = wanted.dtype.is_float() && (a - b).abs() <= tolerance * b.abs().max(1.0);
        assert!(
            same || near,
            "{name}: element {i} is {a}, wanted {b}\n{found:?}\n{wanted:?}"
        );
    }
}

pub(crate) fn data_len(tensor: &Tensor) -> usize {
    match &tensor.data {
        Data::F32(v) => v.len(),
        Data::F64(v) => v.len(),
        Data::I64(v) => v.len(),
        Data::Bits(v) => v.len(),
    }
}

/// Checks that the shape rule refuses these operands with this code.
#[track_caller]
pub(crate) fn refuse(name: &str, operands: &[Type], props: &AttrDict, code: &str) {
    refuse_typed(name, operands, &[], props, code);
}
#[track_caller]
pub(crate) fn refuse_typed(
    name: &str,
    operands: &[Type],
    results: &[Type],
    props: &AttrDict,
    code: &str,
) {
    match infer(name, operands, results, props) {
        Ok(found) => panic!("{name} is accepted as {found:?}, wanted {code}"),
        Err(error) => assert_eq!(error.code, code, "{name}: {}", error.message),
    }
}

/// The generator splitmix64.
pub(crate) struct Random(pub(crate) u64);

impl Random {
    pub(crate) fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9E37_79B9_7F4A_7C15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
        z ^ (z >> 31)
    }
    /// A number from 0 to `n` exclusive.
    pub(crate) fn below(&mut self, n: usize) -> usize {
        (self.next() % n.max(1) as u64) as usize
    }
    pub(crate) fn pick<T: Clone>(&mut self, from: &[T]) -> T {
        from[self.below(from.len())].clone()
    }
}

/// One case of `ops_reference.txt` or `ops_special.txt`.
#[derive(Clone, Default)]
pub(crate) struct Case {
    pub(crate) name: String,
    pub(crate) props: AttrDict,
    pub(crate) inputs: Vec<Tensor>,
    pub(crate) wanted: Vec<Tensor>,
}

fn numbers<T: std::str::FromStr>(words: &[&str]) -> Vec<T> {
    words
        .iter()
        .map(|w| w.parse().ok().expect("a number"))
        .collect()
}

fn attr(kind: &str, words: &[&str]) -> Attr {
    let first = words.first().copied().unwrap_or("");
    match kind {
        "int" => Attr::int(first.parse().unwrap()),
        "float" => Attr::float(first.parse().unwrap()),
        "bool" => Attr::Bool(first == "1"),
        "str" => Attr::str(first),
        "type" => Attr::Type(Type::Scalar(DType::parse(first).unwrap())),
        "ints" => Attr::ints(&numbers::<i64>(words)),
        "floats" => Attr::Array(numbers(words).into_iter().map(Attr::float).collect()),
        other => panic!("an attribute of kind {other}"),
    }
}

fn tensor(words: &[&str]) -> Tensor {
    let dtype = DType::parse(words[0]).unwrap();
    let sizes: Vec<&str> = words[1].split('x').filter(|w| *w != "-").collect();
    let shape = numbers(&sizes);
    if dtype.is_float() {
        Tensor::from_f64(dtype, shape, numbers(&words[3..]))
    } else {
        Tensor::from_i64(dtype, shape, numbers(&words[3..]))
    }
}

/// All cases of `ops_reference.txt`.
pub(crate) fn cases() -> Vec<Case> {
    cases_of(include_str!("../ops_reference.txt"))
}

/// The cases of a text.
pub(crate) fn cases_of(text: &str) -> Vec<Case> {
    let mut cases: Vec<Case> = Vec::new();
    for line in text.lines() {
        let words: Vec<&str> = line.split_whitespace().collect();
        match words.as_slice() {
            [] => {}
            ["op", name] => cases.push(Case {
                name: (*name).into(),
                ..Case::default()
            }),
            [word, rest @ ..] => {
                let case = cases.last_mut().expect("a case begins with op");
                match (*word, rest) {
                    ("attr", [name, kind, words @ ..]) => case.props.set(name, attr(kind, words)),
                    ("in", rest) => case.inputs.push(tensor(rest)),
                    ("out", rest) => case.wanted.push(tensor(rest)),
                    _ => panic!("a line {line}"),
                }
            }
        }
    }
    cases
}

/// The cases with reference results, and one case for each operation that has none.
pub(crate) fn seeds() -> Vec<Case> {
    let mut seeds = cases();
    let mut add = |name: &str, inputs: Vec<Tensor>, props: AttrDict, wanted: Vec<Tensor>| {
        seeds.push(Case {
            name: name.into(),
            props,
            inputs,
            wanted,
        });
    };
    let x = count(&[2, 3, 4]);
    for name in [
        "hbir.cbrt",
        "hbir.expm1",
        "hbir.log1p",
        "hbir.rsqrt",
        "hbir.silu",
        "hbir.identity",
        "hbir.layout_convert",
    ] {
        add(name, vec![x.clone()], AttrDict::new(), vec![x.clone()]);
    }
    let split = ["", "data:3 ?", "model:2 rest:2"].map(Attr::str).to_vec();
    add(
        "hbir.sharding_constraint",
        vec![x.clone()],
        AttrDict::new().with("split", Attr::Array(split)),
        vec![x.clone()],
    );
    add(
        "hbir.rms_norm",
        vec![x.clone(), count(&[4])],
        AttrDict::new(),
        vec![x.clone()],
    );
    let angles = || count(&[2, 3, 2]);
    add(
        "hbir.rotary_embedding",
        vec![count(&[2, 5, 3, 4]), angles(), angles()],
        AttrDict::new(),
        vec![count(&[2, 5, 3, 4])],
    );
    add(
        "hbir.grid_sample",
        vec![count(&[2, 3, 4, 5]), count(&[2, 1, 3, 2])],
        AttrDict::new(),
        vec![count(&[2, 3, 1, 3])],
    );
    let view = props! { shape: [2, 12], perm: [1, 0] };
    add("hbir.view", vec![x.clone()], view, vec![count(&[12, 2])]);
    let part = props! { starts: [0, 1, 0], limits: [2, 3, 4] };
    add(
        "hbir.subview",
        vec![x.clone()],
        part,
        vec![count(&[2, 2, 4])],
    );
    add(
        "hbir.subview",
        vec![count(&[4])],
        props! { broadcast: true },
        vec![x.clone()],
    );
    add(
        "hbir.one_hot",
        vec![i64s(&[2], &[0, 1])],
        props! { depth: 3 },
        vec![count(&[2, 3])],
    );
    add(
        "hbir.linear",
        vec![x.clone(), count(&[5, 4])],
        AttrDict::new(),
        vec![count(&[2, 3, 5])],
    );
    add(
        "hbir.atan2",
        vec![x.clone(), count(&[4])],
        AttrDict::new(),
        vec![x.clone()],
    );
    add(
        "hbir.erfc",
        vec![x.clone()],
        AttrDict::new(),
        vec![x.clone()],
    );
    let start = || i64s(&[], &[1]);
    add(
        "hbir.dynamic_update_slice",
        vec![x.clone(), count(&[1, 3, 2]), start(), start(), start()],
        AttrDict::new(),
        vec![x.clone()],
    );
    let lists = props! { lhs_batch: [0], rhs_batch: [1], lhs_contract: [2], rhs_contract: [0] };
    add(
        "hbir.dot_general",
        vec![x, count(&[4, 2])],
        lists,
        vec![count(&[2, 3])],
    );
    add(
        "hbir.iota",
        vec![],
        props! { axis: 1 },
        vec![count(&[2, 3])],
    );
    add("hbir.call", vec![], AttrDict::new(), vec![count(&[2])]);
    add("func.call", vec![], AttrDict::new(), vec![count(&[2])]);
    add(
        "hbir.cumprod",
        vec![f32s(&[2, 2], &[1.0, 2.0, 3.0, 4.0])],
        props! { axis: 1 },
        vec![f32s(&[2, 2], &[1.0, 2.0, 3.0, 12.0])],
    );
    add(
        "hbir.max_pool_indices",
        vec![f32s(&[1, 1, 3], &[1.0, 3.0, 2.0])],
        props! { kernel: [2] },
        vec![Tensor::from_i64(DType::SI64, vec![1, 1, 2], [1, 1])],
    );
    add(
        "hbir.bitcast_convert",
        vec![f32s(&[2], &[0.0, 1.0])],
        AttrDict::new().with("to", Attr::Type(Type::Scalar(DType::SI32))),
        vec![Tensor::from_i64(DType::SI32, vec![2], [0, 0x3F80_0000])],
    );
    add(
        "hbir.dequantize_blocks",
        vec![
            Tensor::from_i64(DType::UI8, vec![1, 2], [0x21, 0x43]),
            f32s(&[1, 2], &[1.0, 2.0]),
        ],
        props! { block: 2, bits: 4 },
        vec![f32s(&[1, 4], &[-7.0, -6.0, -10.0, -8.0])],
    );
    add(
        "hbir.recurrent",
        vec![
            f32s(&[1, 1, 1], &[2.0]),
            f32s(&[1, 1, 1], &[0.25]),
            f32s(&[1, 1, 1], &[1.0]),
            f32s(&[1, 2], &[0.0, 0.0]),
        ],
        props! { cell: "plain" },
        vec![
            f32s(&[1, 1, 1, 1], &[0.462_117_16]),
            f32s(&[1, 1, 1], &[0.462_117_16]),
        ],
    );
    add(
        "hbir.opaque",
        vec![],
        props! { kind: "Loop" },
        vec![count(&[2])],
    );
    add(
        "hbir.constant",
        vec![],
        AttrDict::new(),
        vec![f32s(&[1], &[1.0])],
    );
    seeds
}
