//! Element types that are only stored and moved: every bit of an element is preserved, and nothing computes with them.

use crate::ops_support;

use ops_support::{bools, check, f32s, i64s, infer, ints, props, refuse, run, type_of};
use optc_ir::{Attr, AttrDict, Bindings, DType, MiniFloat, Tensor, Type};
use std::sync::Arc;

const F8: DType = DType::Mini(MiniFloat::E4M3FN);

const STORED: [DType; 4] = [
    F8,
    DType::Mini(MiniFloat::E2M1FN),
    DType::Complex64,
    DType::Complex128,
];

/// The results, with the types that the shape rule infers.
#[track_caller]
fn go(name: &str, inputs: &[Tensor], props: &AttrDict) -> Vec<Tensor> {
    let operands: Vec<Type> = inputs.iter().map(type_of).collect();
    let inferred = infer(name, &operands, &[], props).unwrap_or_else(|e| panic!("{name}: {e}"));
    let results = inferred
        .into_iter()
        .map(|i| optc_ir::TensorType::from(i).into());
    let results: Vec<Type> = results.collect();
    let found = run(name, inputs, &results, props, &Bindings::default());
    found.unwrap_or_else(|e| panic!("{name}: {e}"))
}

fn none() -> AttrDict {
    AttrDict::new()
}

/// Elements that use the whole range of bits, including NaN of fp8 and in the parts of complex numbers.
fn stored(dtype: DType, shape: &[usize], first: u128) -> Tensor {
    let high = u128::MAX << (dtype.bits() - 1);
    let n: usize = shape.iter().product();
    let bits = (0..n as u128).map(|i| {
        if i % 2 == 0 {
            first + i
        } else {
            high | (first + i)
        }
    });
    Tensor::from_bits(dtype, shape.to_vec(), bits)
}

/// Checks that element `i` of the result is element `places[i]` of the operand.
#[track_caller]
fn moves(
    name: &str,
    x: &Tensor,
    rest: &[Tensor],
    props: &AttrDict,
    shape: &[usize],
    places: &[usize],
) {
    let inputs: Vec<Tensor> = std::iter::once(x).chain(rest).cloned().collect();
    let found = go(name, &inputs, props);
    assert_eq!(
        found,
        [x.gather(shape.to_vec(), |i| places[i])],
        "{name} of {}",
        x.dtype
    );
}

#[test]
fn bits_arrive_where_elements_go() {
    for dtype in STORED {
        let x = stored(dtype, &[2, 3], 1);
        let all = |name: &str, props: &AttrDict, shape: &[usize], places: &[usize]| {
            moves(name, &x, &[], props, shape, places);
        };
        all(
            "hbir.transpose",
            &props! { perm: [1, 0] },
            &[3, 2],
            &[0, 3, 1, 4, 2, 5],
        );
        all(
            "hbir.reshape",
            &props! { shape: [3, 2] },
            &[3, 2],
            &[0, 1, 2, 3, 4, 5],
        );
        all("hbir.identity", &none(), &[2, 3], &[0, 1, 2, 3, 4, 5]);
        all(
            "hbir.tile",
            &props! { repeats: [1, 2] },
            &[2, 6],
            &[0, 1, 2, 0, 1, 2, 3, 4, 5, 3, 4, 5],
        );
        let slice = props! { starts: [0, 1], limits: [2, 3] };
        all("hbir.slice", &slice, &[2, 2], &[1, 2, 4, 5]);
        let places = [i64s(&[2], &[2, 0])];
        moves(
            "hbir.gather",
            &x,
            &places,
            &props! { axis: 1 },
            &[2, 2],
            &[2, 0, 5, 3],
        );
    }
}

#[test]
fn bits_of_several_operands_arrive() {
    for dtype in STORED {
        let (x, y) = (stored(dtype, &[1, 2], 1), stored(dtype, &[1, 2], 5));
        let both = go("hbir.concat", &[x.clone(), y.clone()], &props! { axis: 0 }).remove(0);
        assert_eq!((both.dtype, &both.shape[..]), (dtype, &[2, 2][..]));
        assert_eq!(both.gather(vec![1, 2], |i| i), x);
        assert_eq!(both.gather(vec![1, 2], |i| 2 + i), y);
        let chosen = go(
            "hbir.select",
            &[bools(&[1, 2], &[1, 0]), x.clone(), y.clone()],
            &none(),
        );
        assert_eq!(chosen, [both.gather(vec![1, 2], |i| [0, 3][i])]);
        let padded = go(
            "hbir.pad",
            std::slice::from_ref(&x),
            &props! { low: [0, 1], high: [0, 0] },
        )
        .remove(0);
        let zero = Tensor::from_bits(dtype, vec![1, 1], [0]);
        assert_eq!(padded.gather(vec![1, 1], |_| 0), zero);
        assert_eq!(padded.gather(vec![1, 2], |i| 1 + i), x);
        let written = go(
            "hbir.scatter_nd",
            &[x.clone(), i64s(&[1, 2], &[0, 1]), y.gather(vec![1], |_| 0)],
            &none(),
        );
        assert_eq!(written, [both.gather(vec![1, 2], |i| [0, 2][i])]);
    }
}

#[test]
fn bytes_are_those_of_memory() {
    let x = Tensor::from_bits(DType::Complex64, vec![1], [0x4000_0000_3F80_0000]);
    assert_eq!(x.to_bytes(), [0, 0, 0x80, 0x3F, 0, 0, 0, 0x40]);
    for dtype in STORED {
        let x = stored(dtype, &[2, 3], 3);
        let back = Tensor::from_bytes(dtype, vec![2, 3], &x.to_bytes()).unwrap();
        assert_eq!(back, x);
        let dense = Attr::Dense(Arc::new(optc_ops::tensor_dense(&x)));
        let constant = AttrDict::new().with("value", dense);
        assert_eq!(go("hbir.constant", &[], &constant), [x]);
    }
}

#[test]
fn arithmetic_is_refused() {
    for dtype in STORED {
        let x = type_of(&stored(dtype, &[2, 3], 0));
        refuse("hbir.neg", std::slice::from_ref(&x), &none(), "unary-c1");
        refuse("hbir.abs", std::slice::from_ref(&x), &none(), "unary-c1");
        refuse("hbir.not", std::slice::from_ref(&x), &none(), "unary-c1");
        refuse("hbir.add", &[x.clone(), x.clone()], &none(), "binary-c2");
        refuse(
            "hbir.bit_and",
            &[x.clone(), x.clone()],
            &none(),
            "binary-c2",
        );
        let sum = props! { kind: "sum", axes: [1] };
        refuse(
            "hbir.reduce",
            std::slice::from_ref(&x),
            &sum,
            "element-type-stored",
        );
        let less = props! { direction: "lt" };
        refuse(
            "hbir.compare",
            &[x.clone(), x.clone()],
            &less,
            "element-type-stored",
        );
        let axis = props! { axis: 1 };
        refuse(
            "hbir.softmax",
            std::slice::from_ref(&x),
            &axis,
            "softmax-c1",
        );
        refuse(
            "hbir.cumsum",
            std::slice::from_ref(&x),
            &axis,
            "element-type-stored",
        );
        let rows = type_of(&i64s(&[1], &[0]));
        let none_of = AttrDict::new();
        refuse("hbir.gather", &[rows, x.clone()], &none_of, "gather-c2");
    }
}

#[test]
fn small_floats_are_converted() {
    let to = |dtype| AttrDict::new().with("to", Attr::Type(Type::Scalar(dtype)));
    let x = f32s(&[6], &[1.0, -1.5, 0.3, 464.0, 465.0, 1e-9]);
    let small = Tensor::from_bits(F8, vec![6], [0x38, 0xBC, 0x2A, 0x7E, 0x7F, 0]);
    check("hbir.cast", &[x], &to(F8), std::slice::from_ref(&small));
    let back = go("hbir.cast", std::slice::from_ref(&small), &to(DType::F32));
    let wanted = f32s(&[6], &[1.0, -1.5, 0.3125, 448.0, f64::NAN, 0.0]);
    for i in 0..6 {
        let (a, b) = (back[0].f64_at(i), wanted.f64_at(i));
        assert!(a == b || a.is_nan() && b.is_nan(), "{a} {b}");
    }
    let whole = ints(DType::SI32, &[6], &[1, -1, 0, 448, 0, 0]);
    check("hbir.cast", &[small], &to(DType::SI32), &[whole]);
    let complex = type_of(&stored(DType::Complex64, &[2], 0));
    refuse("hbir.cast", &[complex], &to(DType::F32), "cast-c1");
}

#[test]
fn names_are_mlirs_and_the_dialects() {
    for small in MiniFloat::ALL {
        let dtype = DType::Mini(small);
        assert_eq!(DType::parse(small.name()), Some(dtype));
        assert_eq!(DType::parse(&dtype.to_string()), Some(dtype));
    }
    assert_eq!(DType::parse("complex<f32>"), Some(DType::Complex64));
    assert_eq!(DType::parse("!hbir.f32"), None);
    assert_eq!(
        (F8.bits(), STORED[1].bits(), DType::Complex128.bits()),
        (8, 4, 128)
    );
}
