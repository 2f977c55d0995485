//! Every operation against numbers computed by hand, and a refusal by every operation.

#![expect(clippy::approx_constant, reason = "the numbers are computed by hand")]
#![expect(
    clippy::cloned_ref_to_slice_refs,
    reason = "the lists of operands look alike"
)]

use crate::ops_support;

use ops_support::{
    bools, check, count, f32s, i64s, infer, ints, props, refuse, refuse_typed, run, ty, type_of,
};
use optc_ir::{Attr, AttrDict, Bindings, DType, Dense, Tensor, TensorType, Type};
use std::sync::Arc;

const F32: DType = DType::F32;
const NONE: &[Type] = &[];

fn none() -> AttrDict {
    AttrDict::new()
}

#[track_caller]
fn unary(name: &str, props: AttrDict, x: &[f64], y: &[f64]) {
    check(name, &[f32s(&[x.len()], x)], &props, &[f32s(&[y.len()], y)]);
}

#[test]
fn unary_operations() {
    unary("hbir.neg", none(), &[1.0, -2.0], &[-1.0, 2.0]);
    unary("hbir.abs", none(), &[1.0, -2.0], &[1.0, 2.0]);
    unary("hbir.sign", none(), &[3.0, -2.0, 0.0], &[1.0, -1.0, 0.0]);
    unary("hbir.exp", none(), &[0.0, 1.0], &[1.0, 2.718_281_828]);
    unary("hbir.log", none(), &[1.0, 2.718_281_828], &[0.0, 1.0]);
    unary("hbir.sqrt", none(), &[4.0, 2.0], &[2.0, 1.414_213_562]);
    unary("hbir.rsqrt", none(), &[4.0, 0.25], &[0.5, 2.0]);
    unary("hbir.cbrt", none(), &[-27.0, 8.0], &[-3.0, 2.0]);
    // Near 0 the naive formulas give 0.
    unary("hbir.expm1", none(), &[1e-20, 1.0], &[1e-20, 1.718_281_8]);
    unary("hbir.log1p", none(), &[1e-20, 1.0], &[1e-20, 0.693_147_2]);
    unary("hbir.reciprocal", none(), &[4.0, -0.5], &[0.25, -2.0]);
    unary(
        "hbir.erf",
        none(),
        &[0.5, -1.0, 2.0],
        &[0.520_499_878, -0.842_700_793, 0.995_322_265],
    );
    unary(
        "hbir.erfc",
        none(),
        &[-1.0, 0.5, 2.0, 6.0],
        &[1.842_700_793, 0.479_500_122, 0.004_677_735, 0.0],
    );
    unary("hbir.tanh", none(), &[0.0, 1.0], &[0.0, 0.761_594_156]);
    unary(
        "hbir.sigmoid",
        none(),
        &[0.0, 1.0, -1000.0],
        &[0.5, 0.731_058_579, 0.0],
    );
    unary("hbir.relu", none(), &[-1.0, 2.0], &[0.0, 2.0]);
    unary("hbir.sin", none(), &[0.0, 1.0], &[0.0, 0.841_470_985]);
    unary("hbir.cos", none(), &[0.0, 1.0], &[1.0, 0.540_302_306]);
    unary("hbir.tan", none(), &[0.0, 1.0], &[0.0, 1.557_407_725]);
    unary("hbir.asin", none(), &[0.0, 1.0], &[0.0, 1.570_796_327]);
    unary("hbir.acos", none(), &[0.0, 1.0], &[1.570_796_327, 0.0]);
    unary("hbir.atan", none(), &[0.0, 1.0], &[0.0, 0.785_398_163]);
    unary("hbir.sinh", none(), &[0.0, 1.0], &[0.0, 1.175_201_194]);
    unary("hbir.cosh", none(), &[0.0, 1.0], &[1.0, 1.543_080_635]);
    unary("hbir.asinh", none(), &[0.0, 1.0], &[0.0, 0.881_373_587]);
    unary("hbir.acosh", none(), &[1.0, 2.0], &[0.0, 1.316_957_897]);
    unary("hbir.atanh", none(), &[0.0, 0.5], &[0.0, 0.549_306_144]);
    unary("hbir.floor", none(), &[1.5, -1.5], &[1.0, -2.0]);
    unary("hbir.ceil", none(), &[1.5, -1.5], &[2.0, -1.0]);
    unary(
        "hbir.round",
        none(),
        &[0.5, 1.5, 2.5, -0.6],
        &[0.0, 2.0, 2.0, -1.0],
    );
    unary(
        "hbir.gelu",
        none(),
        &[1.0, -1.0],
        &[0.841_344_746, -0.158_655_254],
    );
    let tanh = props! { approximate: "tanh" };
    unary(
        "hbir.gelu",
        tanh,
        &[1.0, -1.0],
        &[0.841_191_990, -0.158_808_009],
    );
    unary("hbir.silu", none(), &[1.0, 0.0], &[0.731_058_579, 0.0]);
    unary(
        "hbir.softplus",
        none(),
        &[0.0, 100.0],
        &[0.693_147_181, 100.0],
    );
    unary("hbir.softsign", none(), &[1.0, -3.0], &[0.5, -0.75]);
    unary(
        "hbir.hard_swish",
        none(),
        &[-4.0, 0.0, 3.0, 1.0],
        &[0.0, 0.0, 3.0, 0.666_666_667],
    );
    unary(
        "hbir.hard_sigmoid",
        none(),
        &[-4.0, 1.0, 9.0],
        &[0.0, 0.7, 1.0],
    );
    unary(
        "hbir.leaky_relu",
        props! { alpha: 0.1 },
        &[-2.0, 2.0],
        &[-0.2, 2.0],
    );
    unary(
        "hbir.elu",
        props! { alpha: 2.0 },
        &[-1.0, 2.0],
        &[-1.264_241_118, 2.0],
    );
    unary(
        "hbir.selu",
        none(),
        &[-1.0, 1.0],
        &[-1.111_330_738, 1.050_700_987],
    );
    unary(
        "hbir.celu",
        props! { alpha: 2.0 },
        &[-2.0, 2.0],
        &[-1.264_241_118, 2.0],
    );
    unary(
        "hbir.thresholded_relu",
        props! { alpha: 1.0 },
        &[1.0, 1.5],
        &[0.0, 1.5],
    );
    unary("hbir.mish", none(), &[1.0, 0.0], &[0.865_098_388, 0.0]);
    unary(
        "hbir.clamp",
        props! { min: 0.0, max: 1.0 },
        &[-2.0, 0.5, 2.0],
        &[0.0, 0.5, 1.0],
    );
    unary("hbir.clamp", props! { min: 0.0 }, &[-2.0, 2.0], &[0.0, 2.0]);
    unary("hbir.identity", none(), &[-2.0, 2.0], &[-2.0, 2.0]);
    let split = AttrDict::new().with("split", Attr::Array(vec![Attr::str("data:2")]));
    unary(
        "hbir.sharding_constraint",
        split,
        &[-2.0, 2.0],
        &[-2.0, 2.0],
    );
}

#[test]
fn unary_operations_on_other_types() {
    let (nan, inf) = (f64::NAN, f64::INFINITY);
    let x = f32s(&[3], &[nan, -inf, 1.0]);
    check(
        "hbir.is_nan",
        std::slice::from_ref(&x),
        &none(),
        &[bools(&[3], &[1, 0, 0])],
    );
    check("hbir.is_inf", &[x], &none(), &[bools(&[3], &[0, 1, 0])]);
    check(
        "hbir.not",
        &[bools(&[2], &[1, 0])],
        &none(),
        &[bools(&[2], &[0, 1])],
    );
    let bytes = ints(DType::UI8, &[2], &[0, 5]);
    check(
        "hbir.not",
        &[bytes],
        &none(),
        &[ints(DType::UI8, &[2], &[255, 250])],
    );
    let least = ints(DType::SI8, &[1], &[-128]);
    check(
        "hbir.neg",
        &[least],
        &none(),
        &[ints(DType::SI8, &[1], &[-128])],
    );
    let x = i64s(&[3], &[-7, 0, 7]);
    check(
        "hbir.clamp",
        &[x],
        &props! { min: -1.0, max: 3 },
        &[i64s(&[3], &[-1, 0, 3])],
    );
    // The result is rounded once, to the element type: bfloat16 cannot represent 1 + 2^-9.
    let x = Tensor::from_f64(DType::BF16, vec![1], [1.0 / 512.0]);
    check(
        "hbir.exp",
        &[x],
        &none(),
        &[Tensor::from_f64(DType::BF16, vec![1], [1.0])],
    );
}

#[test]
fn unary_operations_refuse() {
    let names = optc_ops::registry();
    let floats_only = names.all().into_iter().map(|d| d.name()).filter(|name| {
        infer(name, &[ty("2", F32)], NONE, &none()).is_ok()
            && infer(name, &[ty("2", DType::BOOL)], NONE, &none())
                .is_err_and(|e| e.code == "unary-c1")
    });
    assert_eq!(
        floats_only.count(),
        45,
        "operations of one operand that refuse i1"
    );
    refuse("hbir.not", &[ty("2", F32)], &none(), "unary-c1");
    refuse("hbir.exp", &[ty("2", DType::SI32)], &none(), "unary-c1");
    refuse(
        "hbir.gelu",
        &[ty("2", F32)],
        &props! { approximate: "fast" },
        "unary-c2",
    );
    refuse("hbir.identity", &[], &none(), "operand-count");
    refuse(
        "hbir.elu",
        &[ty("2", F32)],
        &props! { alpha: "x" },
        "attribute-kind",
    );
}

#[track_caller]
fn binary(name: &str, a: &[f64], b: &[f64], y: &[f64]) {
    let tensor = |v: &[f64]| f32s(&[v.len()], v);
    check(name, &[tensor(a), tensor(b)], &none(), &[tensor(y)]);
}

#[track_caller]
fn binary_ints(name: &str, dtype: DType, a: &[i64], b: &[i64], y: &[i64]) {
    let tensor = |v: &[i64]| ints(dtype, &[v.len()], v);
    check(name, &[tensor(a), tensor(b)], &none(), &[tensor(y)]);
}

#[test]
fn binary_operations() {
    let nan = f64::NAN;
    binary("hbir.add", &[1.0, 2.0], &[10.0, 20.0], &[11.0, 22.0]);
    binary("hbir.sub", &[1.0, 2.0], &[10.0, 20.0], &[-9.0, -18.0]);
    binary("hbir.mul", &[1.0, 2.0], &[10.0], &[10.0, 20.0]);
    binary("hbir.div", &[1.0, -3.0], &[4.0, 2.0], &[0.25, -1.5]);
    binary("hbir.pow", &[2.0, 9.0], &[3.0, 0.5], &[8.0, 3.0]);
    let (quarter, half) = (0.785_398_2, 3.141_592_7);
    binary(
        "hbir.atan2",
        &[1.0, 0.0, -1.0],
        &[1.0, -1.0, 1.0],
        &[quarter, half, -quarter],
    );
    binary(
        "hbir.max",
        &[1.0, nan, 3.0],
        &[2.0, 0.0, nan],
        &[2.0, nan, nan],
    );
    binary(
        "hbir.min",
        &[1.0, nan, 3.0],
        &[2.0, 0.0, nan],
        &[1.0, nan, nan],
    );
    binary("hbir.mod", &[5.5, -5.5], &[2.0, 2.0], &[1.5, 0.5]);
    binary("hbir.prelu", &[-2.0, 2.0], &[0.5], &[-1.0, 2.0]);
    let (a, b) = (f32s(&[2, 1], &[1.0, 2.0]), f32s(&[3], &[10.0, 20.0, 30.0]));
    let y = f32s(&[2, 3], &[11.0, 21.0, 31.0, 12.0, 22.0, 32.0]);
    check("hbir.add", &[a, b], &none(), &[y]);
}

#[test]
fn binary_operations_on_integers() {
    binary_ints("hbir.add", DType::SI8, &[127, -1], &[1, 1], &[-128, 0]);
    binary_ints("hbir.sub", DType::UI8, &[0], &[1], &[255]);
    binary_ints(
        "hbir.mul",
        DType::SI32,
        &[1 << 20],
        &[1 << 11],
        &[-(1 << 31)],
    );
    binary_ints(
        "hbir.div",
        DType::SI32,
        &[7, -7, 1],
        &[2, 2, 0],
        &[3, -3, 0],
    );
    binary_ints(
        "hbir.pow",
        DType::SI64,
        &[3, 2, -1],
        &[4, -1, -3],
        &[81, 0, -1],
    );
    binary_ints("hbir.mod", DType::SI64, &[-7, 7], &[3, -3], &[2, -2]);
    let (a, b) = (i64s(&[2], &[-7, 7]), i64s(&[2], &[3, -3]));
    check(
        "hbir.mod",
        &[a, b],
        &props! { fmod: true },
        &[i64s(&[2], &[-1, 1])],
    );
    binary_ints("hbir.and", DType::BOOL, &[1, 1, 0], &[1, 0, 0], &[1, 0, 0]);
    binary_ints("hbir.or", DType::BOOL, &[1, 1, 0], &[1, 0, 0], &[1, 1, 0]);
    binary_ints("hbir.xor", DType::BOOL, &[1, 1, 0], &[1, 0, 0], &[0, 1, 0]);
    binary_ints(
        "hbir.shift_left",
        DType::UI8,
        &[1, 255, 1],
        &[3, 1, 9],
        &[8, 254, 0],
    );
    binary_ints("hbir.shift_right", DType::UI8, &[8, 255], &[3, 9], &[1, 0]);
    binary_ints("hbir.shift_right", DType::SI8, &[-8], &[2], &[-2]);
    binary_ints("hbir.bit_and", DType::UI8, &[12], &[10], &[8]);
    binary_ints("hbir.bit_or", DType::UI8, &[12], &[10], &[14]);
    binary_ints("hbir.bit_xor", DType::UI8, &[12], &[10], &[6]);
    // The 64 bits of -1 are the greatest ui64.
    let ui64 = DType::parse("ui64").unwrap();
    binary_ints("hbir.max", ui64, &[-1], &[1], &[-1]);
    binary_ints("hbir.div", ui64, &[-1], &[2], &[i64::MAX]);
}

#[test]
fn binary_operations_refuse() {
    refuse(
        "hbir.add",
        &[ty("2", F32), ty("2", DType::SI32)],
        &none(),
        "binary-c1",
    );
    refuse(
        "hbir.sub",
        &[ty("2", DType::BOOL), ty("2", DType::BOOL)],
        &none(),
        "binary-c2",
    );
    refuse(
        "hbir.and",
        &[ty("2", F32), ty("2", F32)],
        &none(),
        "binary-c2",
    );
    refuse(
        "hbir.bit_or",
        &[ty("2", DType::BOOL), ty("2", DType::BOOL)],
        &none(),
        "binary-c2",
    );
    refuse(
        "hbir.mul",
        &[ty("2", F32), ty("3", F32)],
        &none(),
        "binary-c3",
    );
    refuse(
        "hbir.prelu",
        &[ty("2", F32), ty("3x2", F32)],
        &none(),
        "binary-c4",
    );
}

#[test]
fn compare_and_select() {
    let (a, b) = (f32s(&[3], &[1.0, 2.0, f64::NAN]), f32s(&[1], &[2.0]));
    let compare = |direction: &str, wanted: &[i64]| {
        let y = bools(&[3], wanted);
        check(
            "hbir.compare",
            &[a.clone(), b.clone()],
            &props! { direction: direction },
            &[y],
        );
    };
    compare("eq", &[0, 1, 0]);
    compare("ne", &[1, 0, 1]);
    compare("lt", &[1, 0, 0]);
    compare("le", &[1, 1, 0]);
    compare("gt", &[0, 0, 0]);
    compare("ge", &[0, 1, 0]);
    let cond = bools(&[2, 1], &[1, 0]);
    let (a, b) = (f32s(&[2], &[1.0, 2.0]), f32s(&[], &[9.0]));
    let y = f32s(&[2, 2], &[1.0, 2.0, 9.0, 9.0]);
    check("hbir.select", &[cond, a, b], &none(), &[y]);

    let two = [ty("2", F32), ty("2", F32)];
    refuse(
        "hbir.compare",
        &two,
        &props! { direction: "above" },
        "compare-c2",
    );
    let mixed = [ty("2", F32), ty("2", DType::SI8)];
    refuse(
        "hbir.compare",
        &mixed,
        &props! { direction: "eq" },
        "compare-c1",
    );
    let shapes = [ty("2", F32), ty("3", F32)];
    refuse(
        "hbir.compare",
        &shapes,
        &props! { direction: "eq" },
        "compare-c3",
    );
    let cond = ty("2", DType::BOOL);
    refuse(
        "hbir.select",
        &[ty("2", F32), two[0].clone(), two[1].clone()],
        &none(),
        "select-c1",
    );
    refuse(
        "hbir.select",
        &[cond.clone(), mixed[0].clone(), mixed[1].clone()],
        &none(),
        "select-c2",
    );
    refuse(
        "hbir.select",
        &[cond, shapes[0].clone(), shapes[1].clone()],
        &none(),
        "select-c3",
    );
}

#[test]
fn bitcast_convert() {
    let bits = |x: Tensor, y: Tensor| {
        let to = y.dtype;
        check("hbir.bitcast_convert", &[x], &props! { to: to }, &[y]);
    };
    let floats = f32s(&[3], &[1.0, -0.0, f64::INFINITY]);
    let words = [0x3F80_0000, -0x8000_0000, 0x7F80_0000];
    bits(floats.clone(), ints(DType::SI32, &[3], &words));
    bits(ints(DType::SI32, &[3], &words), floats);
    bits(
        ints(DType::SI8, &[2], &[-1, 5]),
        ints(DType::UI8, &[2], &[255, 5]),
    );
    let four = |sign| DType::Int { bits: 4, sign };
    let (signed, unsigned) = (four(optc_ir::Sign::Signed), four(optc_ir::Sign::Unsigned));
    bits(ints(signed, &[2], &[-8, 7]), ints(unsigned, &[2], &[8, 7]));
    for to in [DType::SI64, DType::BOOL] {
        let code = "bitcast-convert-c1";
        refuse(
            "hbir.bitcast_convert",
            &[ty("2", F32)],
            &props! { to: to },
            code,
        );
    }
    refuse(
        "hbir.bitcast_convert",
        &[ty("2", DType::UI8)],
        &props! { to: DType::BOOL },
        "bitcast-convert-c1",
    );
    refuse(
        "hbir.bitcast_convert",
        &[ty("2", F32)],
        &none(),
        "attribute-missing",
    );
}

#[test]
fn cast() {
    let x = f32s(&[5], &[1.9, -1.9, 300.0, -1e30, f64::NAN]);
    let to = |dtype: DType, wanted: &[i64]| {
        let y = ints(dtype, &[5], wanted);
        check(
            "hbir.cast",
            std::slice::from_ref(&x),
            &props! { to: dtype },
            &[y],
        );
    };
    to(DType::SI8, &[1, -1, 127, -128, 0]);
    to(DType::UI8, &[1, 0, 255, 0, 0]);
    to(DType::BOOL, &[1, 1, 1, 1, 1]);
    let wide = i64s(&[2], &[300, -1]);
    check(
        "hbir.cast",
        &[wide.clone()],
        &props! { to: DType::UI8 },
        &[ints(DType::UI8, &[2], &[44, 255])],
    );
    check(
        "hbir.cast",
        &[wide],
        &props! { to: F32 },
        &[f32s(&[2], &[300.0, -1.0])],
    );
    let half = Tensor::from_f64(DType::F16, vec![1], [0.1]);
    check(
        "hbir.cast",
        &[f32s(&[1], &[0.1])],
        &props! { to: DType::F16 },
        &[half],
    );
    refuse("hbir.cast", &[ty("2", F32)], &none(), "attribute-missing");
}

#[test]
fn matrix_products() {
    let (a, b) = (count(&[2, 3]), count(&[3, 2]));
    let y = f32s(&[2, 2], &[10.0, 13.0, 28.0, 40.0]);
    check("hbir.matmul", &[a.clone(), b.clone()], &none(), &[y]);
    check(
        "hbir.matmul",
        &[count(&[3]), b],
        &none(),
        &[f32s(&[2], &[10.0, 13.0])],
    );
    check(
        "hbir.matmul",
        &[a.clone(), count(&[3])],
        &none(),
        &[f32s(&[2], &[5.0, 14.0])],
    );
    check(
        "hbir.matmul",
        &[count(&[3]), count(&[3])],
        &none(),
        &[f32s(&[], &[5.0])],
    );
    // Batch dimensions [2, 1] and [2].
    let (l, r) = (count(&[2, 1, 1, 2]), count(&[2, 2, 1]));
    let y = f32s(&[2, 2, 1, 1], &[1.0, 3.0, 3.0, 13.0]);
    check("hbir.matmul", &[l, r], &none(), &[y]);
    let small = ints(DType::SI8, &[1, 2], &[100, 100]);
    let wanted = ints(DType::SI32, &[1, 1], &[20000]);
    let inputs = [small.clone(), ints(DType::SI8, &[2, 1], &[100, 100])];
    check(
        "hbir.matmul",
        &inputs,
        &props! { to: DType::SI32 },
        &[wanted],
    );

    let w = f32s(&[2, 3], &[1.0, 0.0, 0.0, 1.0, 1.0, 1.0]);
    let y = f32s(&[2, 2], &[10.0, 23.0, 13.0, 32.0]);
    check(
        "hbir.linear",
        &[a.clone(), w.clone(), f32s(&[2], &[10.0, 20.0])],
        &none(),
        &[y],
    );
    check(
        "hbir.linear",
        &[a, w],
        &none(),
        &[f32s(&[2, 2], &[0.0, 3.0, 3.0, 12.0])],
    );

    refuse(
        "hbir.matmul",
        &[ty("2x3", F32), ty("3x2", DType::F16)],
        &none(),
        "matmul-c1",
    );
    refuse(
        "hbir.matmul",
        &[ty("", F32), ty("3x2", F32)],
        &none(),
        "matmul-c2",
    );
    refuse(
        "hbir.matmul",
        &[ty("2x3", F32), ty("2x3", F32)],
        &none(),
        "matmul-c3",
    );
    refuse(
        "hbir.matmul",
        &[ty("4x2x3", F32), ty("5x3x2", F32)],
        &none(),
        "matmul-c4",
    );
    refuse(
        "hbir.linear",
        &[ty("2x3", F32), ty("4x3", DType::F16)],
        &none(),
        "linear-c1",
    );
    refuse(
        "hbir.linear",
        &[ty("", F32), ty("4x3", F32)],
        &none(),
        "linear-c2",
    );
    refuse(
        "hbir.linear",
        &[ty("2x3", F32), ty("4", F32)],
        &none(),
        "linear-c3",
    );
    refuse(
        "hbir.linear",
        &[ty("2x3", F32), ty("3x4", F32)],
        &none(),
        "linear-c4",
    );
    refuse(
        "hbir.linear",
        &[ty("2x3", F32), ty("4x3", F32), ty("3", F32)],
        &none(),
        "linear-c5",
    );
}

#[test]
fn dot_general() {
    // y[b, m, n] = sum_k a[m, b, k] c[k, n, b]
    let lists = props! { lhs_batch: [1], rhs_batch: [2], lhs_contract: [2], rhs_contract: [0] };
    let y = f32s(&[2, 2, 1], &[2.0, 10.0, 11.0, 27.0]);
    check(
        "hbir.dot_general",
        &[count(&[2, 2, 2]), count(&[2, 1, 2])],
        &lists,
        &[y],
    );
    let operands = [ty("2x3", F32), ty("3x2", F32)];
    let mixed = [ty("2x3", F32), ty("3x2", DType::SI8)];
    refuse("hbir.dot_general", &mixed, &none(), "dot-general-c1");
    let lists = props! { lhs_contract: [2], rhs_contract: [0] };
    refuse("hbir.dot_general", &operands, &lists, "dot-general-c2");
    let lists = props! { lhs_contract: [0, 1], rhs_contract: [0] };
    refuse("hbir.dot_general", &operands, &lists, "dot-general-c2");
    let lists = props! { lhs_contract: [0], rhs_contract: [0] };
    refuse("hbir.dot_general", &operands, &lists, "dot-general-c3");
}

#[test]
fn conv() {
    let x = count(&[1, 1, 3, 3]);
    let w = f32s(&[1, 1, 2, 2], &[1.0, 0.0, 0.0, 1.0]);
    let y = f32s(&[1, 1, 2, 2], &[14.0, 16.0, 20.0, 22.0]);
    check(
        "hbir.conv",
        &[x.clone(), w.clone(), f32s(&[1], &[10.0])],
        &none(),
        &[y],
    );
    let props = props! { strides: [2, 2], pads: [1, 1, 0, 0] };
    check(
        "hbir.conv",
        &[x.clone(), w],
        &props,
        &[f32s(&[1, 1, 2, 2], &[0.0, 2.0, 6.0, 12.0])],
    );
    let w = f32s(&[1, 1, 2, 2], &[1.0, 0.0, 0.0, 1.0]);
    let y = f32s(&[1, 1, 1, 1], &[8.0]);
    check("hbir.conv", &[x, w], &props! { dilations: [2, 2] }, &[y]);
    // Two groups on one dimension: each channel has its own weight.
    let (x, w) = (count(&[1, 2, 2]), f32s(&[2, 1, 1], &[1.0, 10.0]));
    let y = f32s(&[1, 2, 2], &[0.0, 1.0, 20.0, 30.0]);
    check("hbir.conv", &[x, w], &props! { group: 2 }, &[y]);
    // Transposed: 1 and 2, each multiplied by [1, 10], at distance 2.
    let (x, w) = (
        f32s(&[1, 1, 2], &[1.0, 2.0]),
        f32s(&[1, 1, 2], &[1.0, 10.0]),
    );
    let transposed = props! { transposed: true, strides: [2], output_padding: [1] };
    let y = f32s(&[1, 1, 5], &[1.0, 10.0, 2.0, 20.0, 0.0]);
    check("hbir.conv", &[x, w], &transposed, &[y]);

    let x = ty("1x4x5x5", F32);
    let w = |dims| ty(dims, F32);
    refuse(
        "hbir.conv",
        &[x.clone(), ty("8x4x3x3", DType::F16)],
        &none(),
        "conv-c1",
    );
    refuse("hbir.conv", &[x.clone(), w("8x4x3")], &none(), "conv-c2");
    refuse("hbir.conv", &[x.clone(), w("8x4x?x3")], &none(), "conv-c3");
    let w_3 = w("8x4x3x3");
    refuse(
        "hbir.conv",
        &[x.clone(), w_3.clone()],
        &props! { strides: [0, 1] },
        "conv-c4",
    );
    refuse(
        "hbir.conv",
        &[x.clone(), w_3.clone()],
        &props! { group: 2 },
        "conv-c5",
    );
    refuse("hbir.conv", &[x.clone(), w("8x4x7x3")], &none(), "conv-c6");
    refuse("hbir.conv", &[x, w_3, w("4")], &none(), "conv-c7");
}

#[test]
fn pooling() {
    let x = count(&[1, 1, 3, 3]);
    let kernel = props! { kernel: [2, 2] };
    let y = f32s(&[1, 1, 2, 2], &[4.0, 5.0, 7.0, 8.0]);
    check("hbir.max_pool", std::slice::from_ref(&x), &kernel, &[y]);
    let y = f32s(&[1, 1, 2, 2], &[2.0, 3.0, 5.0, 6.0]);
    check("hbir.avg_pool", std::slice::from_ref(&x), &kernel, &[y]);
    let padded = |count: bool| {
        props! { kernel: [2, 2], strides: [2, 2], pads: [1, 1, 0, 0], count_include_pad: count }
    };
    let y = f32s(&[1, 1, 2, 2], &[0.0, 1.5, 4.5, 6.0]);
    check(
        "hbir.avg_pool",
        std::slice::from_ref(&x),
        &padded(false),
        &[y],
    );
    let y = f32s(&[1, 1, 2, 2], &[0.0, 0.75, 2.25, 6.0]);
    check(
        "hbir.avg_pool",
        std::slice::from_ref(&x),
        &padded(true),
        &[y],
    );
    // The last window of three elements in twos, rounded up, has one element.
    let ceil = props! { kernel: [2], strides: [2], ceil_mode: true, count_include_pad: true };
    let y = f32s(&[1, 1, 2], &[0.5, 2.0]);
    check("hbir.avg_pool", &[count(&[1, 1, 3])], &ceil, &[y]);

    refuse("hbir.max_pool", &[ty("3x3", F32)], &kernel, "pool-c1");
    refuse(
        "hbir.max_pool",
        &[ty("1x1x3x3", F32)],
        &props! { kernel: [2] },
        "pool-c2",
    );
    refuse(
        "hbir.max_pool",
        &[ty("1x1x3x3", F32)],
        &props! { kernel: [4, 4] },
        "pool-c3",
    );
    refuse(
        "hbir.avg_pool",
        &[ty("1x1x3x3", DType::SI8)],
        &kernel,
        "pool-c4",
    );
    refuse(
        "hbir.max_pool",
        &[ty("1x1x3x3", DType::BOOL)],
        &kernel,
        "pool-c5",
    );
}

#[test]
fn reductions() {
    let x = f32s(&[2, 2], &[1.0, -2.0, 3.0, 4.0]);
    let reduce = |kind: &str, wanted: &[f64]| {
        let props = props! { kind: kind, axes: [1] };
        check(
            "hbir.reduce",
            std::slice::from_ref(&x),
            &props,
            &[f32s(&[2], wanted)],
        );
    };
    reduce("sum", &[-1.0, 7.0]);
    reduce("mean", &[-0.5, 3.5]);
    reduce("max", &[1.0, 4.0]);
    reduce("min", &[-2.0, 3.0]);
    reduce("prod", &[-2.0, 12.0]);
    reduce("l1", &[3.0, 7.0]);
    reduce("l2", &[2.236_067_977, 5.0]);
    reduce("sum_square", &[5.0, 25.0]);
    reduce("log_sum", &[f64::NAN, 1.945_910_149]);
    reduce("log_sum_exp", &[1.048_587_352, 4.313_261_688]);
    let bits = |kind: &str, wanted: &[i64]| {
        let props = props! { kind: kind, axes: [1] };
        let x = ints(DType::UI8, &[2, 3], &[12, 10, 14, 1, 2, 4]);
        let y = ints(DType::UI8, &[2], wanted);
        check("hbir.reduce", &[x], &props, &[y]);
    };
    bits("and", &[8, 0]);
    bits("or", &[14, 7]);
    let none_left = ints(DType::UI8, &[1, 0], &[]);
    let every = props! { kind: "and", axes: [1] };
    let ones = ints(DType::UI8, &[1], &[255]);
    check("hbir.reduce", &[none_left], &every, &[ones]);
    refuse("hbir.reduce", &[ty("3", F32)], &every, "reduce-c4");
    let all = props! { kind: "sum", keepdims: true };
    check("hbir.reduce", &[x], &all, &[f32s(&[1, 1], &[6.0])]);
    let columns = props! { kind: "mean", axes: [-2] };
    check(
        "hbir.reduce",
        &[i64s(&[2, 2], &[1, -2, 4, -3])],
        &columns,
        &[i64s(&[2], &[2, -2])],
    );
    let empty = f32s(&[2, 0], &[]);
    let most = props! { kind: "max", axes: [1] };
    check(
        "hbir.reduce",
        &[empty],
        &most,
        &[f32s(&[2], &[f64::NEG_INFINITY; 2])],
    );

    let x = f32s(&[2, 3], &[1.0, 5.0, 5.0, 0.0, f64::NAN, 9.0]);
    let arg = |name: &str, last: bool, wanted: &[i64]| {
        let props = props! { axis: 1, select_last_index: last };
        check(
            name,
            std::slice::from_ref(&x),
            &props,
            &[i64s(&[2], wanted)],
        );
    };
    arg("hbir.arg_max", false, &[1, 1]);
    arg("hbir.arg_max", true, &[2, 1]);
    arg("hbir.arg_min", false, &[0, 1]);

    let x = ty("2x3", F32);
    refuse(
        "hbir.reduce",
        std::slice::from_ref(&x),
        &props! { kind: "median" },
        "reduce-c1",
    );
    let twice = props! { kind: "sum", axes: [1, -1] };
    refuse("hbir.reduce", std::slice::from_ref(&x), &twice, "reduce-c2");
    refuse(
        "hbir.reduce",
        &[ty("2", DType::SI8)],
        &props! { kind: "log_sum" },
        "reduce-c3",
    );
    refuse(
        "hbir.arg_max",
        std::slice::from_ref(&x),
        &props! { axis: 2 },
        "arg-c1",
    );
    refuse(
        "hbir.arg_min",
        &[ty("2x0", F32)],
        &props! { axis: 1 },
        "arg-c2",
    );
}

#[test]
fn softmax() {
    let x = f32s(&[2, 2], &[0.0, 0.0, 1000.0, 1000.0]);
    check(
        "hbir.softmax",
        std::slice::from_ref(&x),
        &none(),
        &[f32s(&[2, 2], &[0.5; 4])],
    );
    let y = f32s(&[2, 2], &[0.0, 0.0, 1.0, 1.0]);
    check(
        "hbir.softmax",
        std::slice::from_ref(&x),
        &props! { axis: 0 },
        &[y],
    );
    let y = f32s(&[2, 2], &[-1000.0, -1000.0, 0.0, 0.0]);
    check("hbir.log_softmax", &[x], &props! { axis: 0 }, &[y]);
    refuse(
        "hbir.softmax",
        &[ty("2", DType::SI8)],
        &none(),
        "softmax-c1",
    );
    refuse(
        "hbir.log_softmax",
        &[ty("2", F32)],
        &props! { axis: 1 },
        "softmax-c2",
    );
}

#[test]
fn norms() {
    let x = f32s(&[1, 2, 2], &[1.0, 3.0, 2.0, 6.0]);
    let (scale, bias) = (f32s(&[2], &[1.0, 2.0]), f32s(&[2], &[10.0, 20.0]));
    let epsilon = props! { epsilon: 0.0 };
    let y = f32s(&[1, 2, 2], &[9.0, 22.0, 9.0, 22.0]);
    check(
        "hbir.layer_norm",
        &[x.clone(), scale.clone(), bias.clone()],
        &epsilon,
        &[y],
    );
    let props_rms = props! { epsilon: 0.0, axis: -1 };
    // The root mean square of 3 and 4 is 5 / sqrt(2).
    let root = 2f64.sqrt();
    let x_rms = f32s(&[1, 2], &[3.0 / root, 4.0 / root]);
    check(
        "hbir.rms_norm",
        &[x_rms, f32s(&[1], &[1.0 / root])],
        &props_rms,
        &[f32s(&[1, 2], &[0.6, 0.8])],
    );
    let (mean, variance) = (f32s(&[2], &[1.0, 2.0]), f32s(&[2], &[1.0, 4.0]));
    let y = f32s(&[1, 2, 2], &[10.0, 12.0, 20.0, 24.0]);
    let inputs = [x.clone(), scale.clone(), bias.clone(), mean, variance];
    check("hbir.batch_norm", &inputs, &epsilon, &[y]);
    let y = f32s(&[1, 2, 2], &[9.0, 11.0, 18.0, 22.0]);
    check(
        "hbir.instance_norm",
        &[x.clone(), scale.clone(), bias.clone()],
        &epsilon,
        &[y.clone()],
    );
    let two = props! { epsilon: 0.0, num_groups: 2 };
    check(
        "hbir.group_norm",
        &[x.clone(), scale.clone(), bias.clone()],
        &two,
        &[y],
    );
    // One group: mean 3, variance 14 / 4.
    let d = 3.5f64.sqrt();
    let y = f32s(
        &[1, 2, 2],
        &[10.0 - 2.0 / d, 10.0, 20.0 - 2.0 / d, 20.0 + 6.0 / d],
    );
    check(
        "hbir.group_norm",
        &[x, scale, bias],
        &props! { epsilon: 0.0, num_groups: 1 },
        &[y],
    );

    let (x, c) = (ty("1x4x2", F32), ty("4", F32));
    refuse(
        "hbir.layer_norm",
        &[x.clone(), ty("2", DType::F16)],
        &none(),
        "norm-c1",
    );
    refuse(
        "hbir.layer_norm",
        &[x.clone(), ty("2", F32)],
        &props! { axis: 3 },
        "norm-c2",
    );
    refuse(
        "hbir.rms_norm",
        &[x.clone(), ty("3", F32)],
        &none(),
        "norm-c3",
    );
    let three = |x: &Type, c: &Type| [x.clone(), c.clone(), c.clone()];
    refuse("hbir.instance_norm", &three(&c, &c), &none(), "norm-c4");
    refuse(
        "hbir.instance_norm",
        &three(&x, &ty("3", F32)),
        &none(),
        "norm-c5",
    );
    refuse(
        "hbir.group_norm",
        &three(&x, &c),
        &props! { num_groups: 3 },
        "norm-c6",
    );
    let five = [x.clone(), c.clone(), c.clone(), c.clone(), ty("2", F32)];
    refuse("hbir.batch_norm", &five, &none(), "norm-c5");
}

#[test]
fn concat_and_split() {
    let y = f32s(&[2, 3], &[0.0, 1.0, 0.0, 2.0, 3.0, 1.0]);
    check(
        "hbir.concat",
        &[count(&[2, 2]), count(&[2, 1])],
        &props! { axis: 1 },
        &[y],
    );
    let parts = [
        f32s(&[2, 1], &[0.0, 3.0]),
        f32s(&[2, 2], &[1.0, 2.0, 4.0, 5.0]),
    ];
    check(
        "hbir.split",
        &[count(&[2, 3])],
        &props! { axis: 1, sizes: [1, 2] },
        &parts,
    );

    let axis = props! { axis: 0 };
    refuse(
        "hbir.concat",
        &[ty("2", F32), ty("2", DType::SI8)],
        &axis,
        "concat-c1",
    );
    refuse(
        "hbir.concat",
        &[ty("2", F32)],
        &props! { axis: 1 },
        "concat-c2",
    );
    refuse(
        "hbir.concat",
        &[ty("2x2", F32), ty("2x3", F32)],
        &axis,
        "concat-c3",
    );
    refuse(
        "hbir.split",
        &[ty("4", F32)],
        &props! { axis: 1, sizes: [4] },
        "split-c1",
    );
    refuse(
        "hbir.split",
        &[ty("4", F32)],
        &props! { axis: 0, sizes: [5, -1] },
        "split-c2",
    );
    refuse(
        "hbir.split",
        &[ty("4", F32)],
        &props! { axis: 0, sizes: [2, 1] },
        "split-c3",
    );
}

#[test]
fn slices() {
    let x = count(&[2, 5]);
    let part = props! { starts: [1, 1], limits: [2, 5], strides: [1, 2] };
    check(
        "hbir.slice",
        std::slice::from_ref(&x),
        &part,
        &[f32s(&[1, 2], &[6.0, 8.0])],
    );
    check(
        "hbir.subview",
        std::slice::from_ref(&x),
        &part,
        &[f32s(&[1, 2], &[6.0, 8.0])],
    );
    let back = props! { starts: [1, 4], limits: [-1, 0], strides: [-1, -2] };
    check(
        "hbir.slice",
        &[x],
        &back,
        &[f32s(&[2, 2], &[9.0, 7.0, 4.0, 2.0])],
    );
    let y = f32s(&[2, 2], &[0.0, 1.0, 0.0, 1.0]);
    check(
        "hbir.subview",
        &[count(&[2])],
        &props! { broadcast: true },
        &[y],
    );
    let all = props! { starts: [0, i64::MAX], limits: [i64::MAX, -1], strides: [1, -1] };
    check(
        "hbir.slice",
        &[count(&[1, 2])],
        &all,
        &[f32s(&[1, 2], &[1.0, 0.0])],
    );

    let x = [ty("4", F32)];
    refuse(
        "hbir.slice",
        &x,
        &props! { starts: [0, 0], limits: [1, 1] },
        "slice-c1",
    );
    refuse(
        "hbir.slice",
        &x,
        &props! { starts: [0], limits: [1], strides: [0] },
        "slice-c2",
    );
    refuse(
        "hbir.slice",
        &x,
        &props! { starts: [0], limits: [5] },
        "slice-c3",
    );
    refuse(
        "hbir.slice",
        &x,
        &props! { starts: [4], limits: [0], strides: [-1] },
        "slice-c3",
    );
    refuse(
        "hbir.subview",
        &x,
        &props! { starts: [3], limits: [2] },
        "slice-c3",
    );
    let wide = [ty("3", F32)];
    refuse_typed(
        "hbir.subview",
        &x,
        &wide,
        &props! { broadcast: true },
        "broadcast-c2",
    );
}

#[test]
fn pads() {
    let x = count(&[3]);
    let pad = |mode: &str, wanted: &[f64]| {
        let props = props! { low: [2], high: [1], value: 9.0, mode: mode };
        check(
            "hbir.pad",
            std::slice::from_ref(&x),
            &props,
            &[f32s(&[6], wanted)],
        );
    };
    pad("constant", &[9.0, 9.0, 0.0, 1.0, 2.0, 9.0]);
    pad("reflect", &[2.0, 1.0, 0.0, 1.0, 2.0, 1.0]);
    pad("edge", &[0.0, 0.0, 0.0, 1.0, 2.0, 2.0]);
    pad("wrap", &[1.0, 2.0, 0.0, 1.0, 2.0, 0.0]);
    let cut = props! { low: [-1], high: [1] };
    check("hbir.pad", &[x], &cut, &[f32s(&[3], &[1.0, 2.0, 0.0])]);

    let x = [ty("3", F32)];
    refuse("hbir.pad", &x, &props! { low: [1, 1], high: [0] }, "pad-c1");
    refuse(
        "hbir.pad",
        &x,
        &props! { low: [1], high: [0], mode: "mirror" },
        "pad-c2",
    );
    refuse(
        "hbir.pad",
        &x,
        &props! { low: [-1], high: [0], mode: "edge" },
        "pad-c3",
    );
    refuse("hbir.pad", &x, &props! { low: [-2], high: [-2] }, "pad-c4");
    refuse(
        "hbir.pad",
        &x,
        &props! { low: [3], high: [0], mode: "reflect" },
        "pad-c5",
    );
}

#[test]
fn gathers() {
    let x = count(&[2, 3]);
    let y = f32s(&[2, 1, 2], &[2.0, 0.0, 5.0, 3.0]);
    check(
        "hbir.gather",
        &[x.clone(), i64s(&[1, 2], &[-1, 0])],
        &props! { axis: 1 },
        &[y],
    );
    let y = f32s(&[1, 3], &[3.0, 1.0, 5.0]);
    check(
        "hbir.gather_elements",
        &[x.clone(), i64s(&[1, 3], &[1, 0, -1])],
        &none(),
        &[y],
    );
    let at = i64s(&[2, 2], &[0, 1, 1, -1]);
    check(
        "hbir.gather_nd",
        &[x.clone(), at],
        &none(),
        &[f32s(&[2], &[1.0, 5.0])],
    );
    let at = i64s(&[2, 1], &[2, 0]);
    let batch = props! { batch_dims: 1 };
    check(
        "hbir.gather_nd",
        &[x.clone(), at],
        &batch,
        &[f32s(&[2], &[2.0, 3.0])],
    );
    let far = [x, i64s(&[1], &[2])];
    let error = run("hbir.gather", &far, NONE, &none(), &Bindings::default()).unwrap_err();
    assert_eq!(error, "index 2 is out of bounds of 2 elements");

    let (x, at) = (ty("2x3", F32), ty("2x2", DType::SI64));
    refuse(
        "hbir.gather",
        &[x.clone(), at.clone()],
        &props! { axis: 2 },
        "gather-c1",
    );
    refuse("hbir.gather", &[x.clone(), x.clone()], &none(), "gather-c2");
    let elements = "hbir.gather_elements";
    refuse(
        elements,
        &[x.clone(), at.clone()],
        &props! { axis: 2 },
        "gather-elements-c1",
    );
    refuse(
        elements,
        &[x.clone(), x.clone()],
        &none(),
        "gather-elements-c2",
    );
    refuse(
        elements,
        &[x.clone(), ty("2", DType::SI64)],
        &none(),
        "gather-elements-c3",
    );
    refuse(
        elements,
        &[x.clone(), ty("2x4", DType::SI64)],
        &none(),
        "gather-elements-c4",
    );
    refuse(
        "hbir.gather_nd",
        &[x.clone(), at.clone()],
        &props! { batch_dims: 2 },
        "gather-nd-c1",
    );
    refuse(
        "hbir.gather_nd",
        &[x.clone(), x.clone()],
        &none(),
        "gather-nd-c3",
    );
    refuse(
        "hbir.gather_nd",
        &[x.clone(), ty("2x2", F32)],
        &none(),
        "gather-nd-c2",
    );
}

#[test]
fn dynamic_update_slices() {
    let name = "hbir.dynamic_update_slice";
    let x = count(&[3, 4]);
    let u = f32s(&[2, 1], &[-1.0, -2.0]);
    let start = |i: i64| i64s(&[], &[i]);
    let written = |at: [usize; 2]| {
        let mut all: Vec<f64> = (0..12).map(f64::from).collect();
        all[at[0]] = -1.0;
        all[at[1]] = -2.0;
        f32s(&[3, 4], &all)
    };
    for (i, j, at) in [(1, 2, [6, 10]), (-5, 0, [0, 4]), (9, 9, [7, 11])] {
        let inputs = [x.clone(), u.clone(), start(i), start(j)];
        check(name, &inputs, &none(), &[written(at)]);
    }
    let whole = [i64s(&[2], &[1, 2]), i64s(&[2], &[3, 4]), start(1)];
    check(name, &whole, &none(), &[i64s(&[2], &[3, 4])]);

    let (x, s) = (ty("4x5", F32), ty("", DType::SI32));
    let u = ty("2x5", F32);
    let some = |u: &Type, starts: &[&Type]| {
        let starts = starts.iter().map(|t| (*t).clone());
        let all: Vec<Type> = [x.clone(), u.clone()].into_iter().chain(starts).collect();
        all
    };
    refuse(name, &some(&u, &[&s]), &none(), "dynamic-update-slice-c1");
    let (float, vector) = (ty("", F32), ty("1", DType::SI32));
    for bad in [float, vector] {
        let operands = some(&u, &[&s, &bad]);
        refuse(name, &operands, &none(), "dynamic-update-slice-c2");
    }
    for bad in [ty("2", F32), ty("2x6", F32)] {
        let operands = some(&bad, &[&s, &s]);
        refuse(name, &operands, &none(), "dynamic-update-slice-c3");
    }
    let bytes = some(&ty("2x5", DType::SI8), &[&s, &s]);
    refuse(name, &bytes, &none(), "dynamic-update-slice-c4");
}

#[test]
fn scatters() {
    let x = f32s(&[4], &[1.0, 2.0, 3.0, 4.0]);
    let inputs = [x.clone(), i64s(&[2], &[-1, 0]), f32s(&[2], &[10.0, 20.0])];
    let y = f32s(&[4], &[20.0, 2.0, 3.0, 10.0]);
    check("hbir.scatter_elements", &inputs, &none(), &[y]);
    let with = |reduction: &str, wanted: &[f64]| {
        let at = i64s(&[3, 1], &[1, 1, 2]);
        let inputs = [x.clone(), at, f32s(&[3], &[10.0, -1.0, 2.0])];
        let props = props! { reduction: reduction };
        check("hbir.scatter_nd", &inputs, &props, &[f32s(&[4], wanted)]);
    };
    with("none", &[1.0, -1.0, 2.0, 4.0]);
    with("add", &[1.0, 11.0, 5.0, 4.0]);
    with("mul", &[1.0, -20.0, 6.0, 4.0]);
    with("max", &[1.0, 10.0, 3.0, 4.0]);
    with("min", &[1.0, -1.0, 2.0, 4.0]);
    // A part: the second row.
    let inputs = [
        count(&[2, 2]),
        i64s(&[1, 1], &[1]),
        f32s(&[1, 2], &[8.0, 9.0]),
    ];
    check(
        "hbir.scatter_nd",
        &inputs,
        &none(),
        &[f32s(&[2, 2], &[0.0, 1.0, 8.0, 9.0])],
    );

    let (x, at) = (ty("4", F32), ty("2", DType::SI64));
    let name = "hbir.scatter_elements";
    let all = |x: &Type, at: &Type, u: &Type| [x.clone(), at.clone(), u.clone()];
    let u = ty("2", F32);
    refuse(
        name,
        &all(&x, &at, &u),
        &props! { axis: 1 },
        "scatter-elements-c1",
    );
    refuse(name, &all(&x, &u, &u), &none(), "scatter-elements-c2");
    refuse(
        name,
        &all(&x, &ty("2x1", DType::SI64), &u),
        &none(),
        "scatter-elements-c3",
    );
    refuse(
        name,
        &all(&x, &at, &ty("3", F32)),
        &none(),
        "scatter-elements-c4",
    );
    refuse(
        name,
        &all(&x, &at, &u),
        &props! { reduction: "avg" },
        "scatter-elements-c5",
    );
    let name = "hbir.scatter_nd";
    let at = ty("2x1", DType::SI64);
    refuse(
        name,
        &all(&x, &ty("2x1", F32), &u),
        &none(),
        "scatter-nd-c1",
    );
    refuse(
        name,
        &all(&x, &ty("2x2", DType::SI64), &u),
        &none(),
        "scatter-nd-c2",
    );
    refuse(name, &all(&x, &at, &ty("3", F32)), &none(), "scatter-nd-c3");
    refuse(
        name,
        &all(&x, &at, &ty("2", DType::SI8)),
        &none(),
        "scatter-nd-c4",
    );
    refuse(
        name,
        &all(&x, &at, &u),
        &props! { reduction: "avg" },
        "scatter-nd-c5",
    );
}

#[test]
fn cumprod() {
    let x = i64s(&[3], &[2, 3, 4]);
    let products = |exclusive: bool, reverse: bool, wanted: &[i64]| {
        let props = props! { axis: 0, exclusive: exclusive, reverse: reverse };
        let wanted = [i64s(&[3], wanted)];
        check("hbir.cumprod", std::slice::from_ref(&x), &props, &wanted);
    };
    products(false, false, &[2, 6, 24]);
    products(true, false, &[1, 2, 6]);
    products(false, true, &[24, 12, 4]);
    products(true, true, &[12, 4, 1]);
    let x = f32s(&[2, 2], &[0.5, 4.0, -2.0, 3.0]);
    let wanted = [f32s(&[2, 2], &[0.5, 4.0, -1.0, 12.0])];
    check("hbir.cumprod", &[x], &props! { axis: 0 }, &wanted);

    let axis = props! { axis: 1 };
    refuse("hbir.cumprod", &[ty("3", F32)], &axis, "cumprod-c1");
    let axis = props! { axis: 0 };
    refuse("hbir.cumprod", &[ty("3", DType::BOOL)], &axis, "cumprod-c2");
}

#[test]
fn cumsum_and_top_k() {
    let x = i64s(&[3], &[1, 2, 3]);
    let sums = |exclusive: bool, reverse: bool, wanted: &[i64]| {
        let props = props! { axis: 0, exclusive: exclusive, reverse: reverse };
        check(
            "hbir.cumsum",
            std::slice::from_ref(&x),
            &props,
            &[i64s(&[3], wanted)],
        );
    };
    sums(false, false, &[1, 3, 6]);
    sums(true, false, &[0, 1, 3]);
    sums(false, true, &[6, 5, 3]);
    sums(true, true, &[5, 3, 0]);
    let x = f32s(&[2, 3], &[1.0, 3.0, 3.0, 4.0, 0.0, 5.0]);
    let wanted = [
        f32s(&[2, 2], &[3.0, 3.0, 5.0, 4.0]),
        i64s(&[2, 2], &[1, 2, 2, 0]),
    ];
    check(
        "hbir.top_k",
        std::slice::from_ref(&x),
        &props! { k: 2 },
        &wanted,
    );
    let wanted = [f32s(&[1, 3], &[1.0, 0.0, 3.0]), i64s(&[1, 3], &[0, 1, 0])];
    check(
        "hbir.top_k",
        &[x],
        &props! { k: 1, axis: 0, largest: false },
        &wanted,
    );

    refuse(
        "hbir.cumsum",
        &[ty("3", F32)],
        &props! { axis: 1 },
        "cumsum-c1",
    );
    refuse(
        "hbir.cumsum",
        &[ty("3", DType::BOOL)],
        &props! { axis: 0 },
        "cumsum-c2",
    );
    refuse(
        "hbir.top_k",
        &[ty("3", F32)],
        &props! { axis: 1, k: 1 },
        "top-k-c1",
    );
    refuse("hbir.top_k", &[ty("3", F32)], &props! { k: 4 }, "top-k-c2");
}

#[test]
fn repetitions() {
    let y = f32s(&[2, 3], &[0.0, 0.0, 0.0, 1.0, 1.0, 1.0]);
    check(
        "hbir.broadcast",
        &[count(&[2, 1])],
        &props! { shape: [-1, 3] },
        &[y],
    );
    let y = f32s(&[2, 2], &[0.0, 1.0, 0.0, 1.0]);
    check("hbir.broadcast", &[count(&[2])], &none(), &[y]);
    let y = f32s(&[2, 4], &[0.0, 1.0, 0.0, 1.0, 0.0, 1.0, 0.0, 1.0]);
    check(
        "hbir.tile",
        &[count(&[1, 2])],
        &props! { repeats: [2, 2] },
        &[y],
    );
    let y = f32s(&[3, 3], &[0.0, 1.0, 0.0, 0.0, 0.0, 1.0, 0.0, 0.0, 0.0]);
    let at = i64s(&[3], &[1, -1, 7]);
    check(
        "hbir.one_hot",
        std::slice::from_ref(&at),
        &props! { depth: 3 },
        &[y],
    );
    // Index 1 of depth 2 selects row 1, so does -1, and 7 selects nothing.
    let y = i64s(&[2, 3], &[5, 5, 5, 9, 9, 5]);
    check(
        "hbir.one_hot",
        &[at, i64s(&[2], &[5, 9])],
        &props! { depth: 2, axis: 0 },
        &[y],
    );
    let x = f32s(&[2, 3], &[1.0, 2.0, 3.0, 4.0, 5.0, 6.0]);
    let y = f32s(&[2, 3], &[1.0, 2.0, 3.0, 0.0, 5.0, 6.0]);
    check("hbir.trilu", std::slice::from_ref(&x), &none(), &[y]);
    let y = f32s(&[2, 3], &[0.0, 0.0, 0.0, 4.0, 0.0, 0.0]);
    check("hbir.trilu", &[x], &props! { upper: false, k: -1 }, &[y]);

    refuse(
        "hbir.broadcast",
        &[ty("2", F32)],
        &props! { shape: [-2] },
        "broadcast-c1",
    );
    refuse(
        "hbir.broadcast",
        &[ty("2", F32)],
        &props! { shape: [3] },
        "broadcast-c2",
    );
    refuse(
        "hbir.tile",
        &[ty("2", F32)],
        &props! { repeats: [1, 2] },
        "tile-c1",
    );
    refuse(
        "hbir.tile",
        &[ty("4294967296", F32)],
        &props! { repeats: [i64::MAX] },
        "tile-c2",
    );
    let at = ty("3", DType::SI64);
    refuse(
        "hbir.one_hot",
        &[ty("3", F32)],
        &props! { depth: 3 },
        "one-hot-c1",
    );
    refuse(
        "hbir.one_hot",
        &[at.clone()],
        &props! { depth: 3, axis: 2 },
        "one-hot-c2",
    );
    refuse(
        "hbir.one_hot",
        &[at.clone()],
        &props! { depth: 0 },
        "one-hot-c3",
    );
    refuse(
        "hbir.one_hot",
        &[at, ty("3", F32)],
        &props! { depth: 3 },
        "one-hot-c4",
    );
    refuse("hbir.trilu", &[ty("3", F32)], &none(), "trilu-c1");
}

#[test]
fn sources() {
    let y = i64s(&[2, 3], &[0, 1, 2, 0, 1, 2]);
    check("hbir.iota", &[], &props! { axis: 1 }, &[y]);
    let dense = |ty: Type, bytes: Vec<u8>, splat| {
        AttrDict::new().with("value", Attr::Dense(Arc::new(Dense { ty, bytes, splat })))
    };
    let si8 = ty("3", DType::SI8);
    let y = ints(DType::SI8, &[3], &[1, -1, 2]);
    check(
        "hbir.constant",
        &[],
        &dense(si8.clone(), vec![1, 255, 2], false),
        &[y],
    );
    let y = ints(DType::SI8, &[3], &[7, 7, 7]);
    check(
        "hbir.constant",
        &[],
        &dense(si8.clone(), vec![7], true),
        &[y],
    );

    refuse_typed(
        "hbir.iota",
        &[],
        &[ty("3", F32)],
        &props! { axis: 1 },
        "iota-c1",
    );
    refuse_typed(
        "hbir.iota",
        &[],
        &[ty("3", DType::BOOL)],
        &none(),
        "iota-c2",
    );
    refuse("hbir.constant", &[], &none(), "constant-c1");
    refuse(
        "hbir.constant",
        &[],
        &dense(si8.clone(), vec![7], false),
        "constant-c2",
    );
    let whole = dense(si8, vec![1, 2, 3], false);
    refuse_typed("hbir.constant", &[], &[ty("3", F32)], &whole, "constant-c3");
    let data = Attr::External {
        file: Arc::from("w"),
        offset: 0,
        length: 11,
    };
    let data = AttrDict::new().with("data", data);
    refuse_typed("hbir.constant", &[], &[ty("3", F32)], &data, "constant-c4");
    let cast = run(
        "hbir.constant",
        &[],
        &[ty("11", DType::SI8)],
        &data,
        &Bindings::default(),
    );
    assert!(cast.unwrap_err().contains("a file"));
}

#[test]
fn resize() {
    let x = f32s(&[2], &[1.0, 2.0]);
    let resize = |props: AttrDict, wanted: &[f64]| {
        check(
            "hbir.resize",
            std::slice::from_ref(&x),
            &props,
            &[f32s(&[wanted.len()], wanted)],
        );
    };
    resize(props! { scales: [2.0] }, &[1.0, 1.0, 2.0, 2.0]);
    resize(
        props! { sizes: [4], mode: "linear" },
        &[1.0, 1.25, 1.75, 2.0],
    );
    let corners =
        props! { sizes: [3], mode: "linear", coordinate_transformation_mode: "align_corners" };
    resize(corners, &[1.0, 1.5, 2.0]);
    // Positions are scaled by the stated scales, not by the ratio of the extents.
    let both = props! { scales: [1.6], sizes: [4], mode: "linear" };
    resize(both, &[1.0, 1.4375, 2.0, 2.0]);
    let nearest = props! { sizes: [3], coordinate_transformation_mode: "tf_half_pixel_for_nn", nearest_mode: "floor" };
    resize(nearest, &[1.0, 2.0, 2.0]);
    let smooth = props! { scales: [0.5], mode: "linear", antialias: true };
    let y = f32s(&[2], &[1.625, 3.375]);
    let four = f32s(&[4], &[1.0, 2.0, 3.0, 4.0]);
    check("hbir.resize", &[four], &smooth, &[y]);
    let crop = |roi| {
        props! { sizes: [3], mode: "linear", coordinate_transformation_mode: "tf_crop_and_resize" }
            .with("roi", roi)
            .with("extrapolation_value", Attr::float(-7.0))
    };
    let floats = |list: &[f64]| Attr::Array(list.iter().map(|&v| Attr::float(v)).collect());
    let three = f32s(&[3], &[1.0, 2.0, 3.0]);
    let y = f32s(&[3], &[2.0, 3.0, -7.0]);
    check("hbir.resize", &[three], &crop(floats(&[0.5, 1.5])), &[y]);
    let x = [ty("2", F32)];
    refuse("hbir.resize", &x, &crop(floats(&[0.5])), "resize-c5");
    let plain = props! { sizes: [3] }.with("roi", floats(&[0.5, 1.5]));
    refuse("hbir.resize", &x, &plain, "resize-c5");
    refuse(
        "hbir.resize",
        &x,
        &props! { sizes: [4], mode: "area" },
        "resize-c1",
    );
    refuse("hbir.resize", &x, &none(), "resize-c2");
    refuse("hbir.resize", &x, &props! { scales: [-1.0] }, "resize-c3");
    refuse(
        "hbir.resize",
        &[ty("2", DType::BOOL)],
        &props! { sizes: [4] },
        "resize-c4",
    );
}

#[test]
fn grid_sample() {
    let x = f32s(&[1, 1, 2, 2], &[1.0, 2.0, 3.0, 4.0]);
    let at = |place: [f64; 2], props: AttrDict, wanted: f64| {
        let grid = f32s(&[1, 1, 1, 2], &place);
        let wanted = [f32s(&[1, 1, 1, 1], &[wanted])];
        check("hbir.grid_sample", &[x.clone(), grid], &props, &wanted);
    };
    at([0.0, 0.0], none(), 2.5);
    // The first coordinate is along the last dimension.
    at([1.0, -1.0], props! { align_corners: true }, 2.0);
    at([0.4, -0.4], props! { mode: "nearest" }, 2.0);
    // Half of the position is outside.
    at([-1.0, -0.5], none(), 0.5);
    at([-9.0, -0.5], props! { padding_mode: "border" }, 1.0);
    at([-9.0, -0.5], none(), 0.0);
    // Positions far away, on both sides.
    at([1e10, -0.5], props! { padding_mode: "border" }, 2.0);
    at(
        [f64::INFINITY, -0.5],
        props! { padding_mode: "border" },
        2.0,
    );
    at([-1e10, -0.5], props! { padding_mode: "border" }, 1.0);
    at([1e10, -0.5], none(), 0.0);
    // A position half an element beyond the edge is reflected to the first element.
    at([-1.5, -0.5], props! { padding_mode: "reflection" }, 1.0);
    at(
        [0.0, 0.0],
        props! { mode: "cubic", padding_mode: "border" },
        2.5,
    );
    let types = [ty("1x1x2x2", F32), ty("1x3x3x2", F32)];
    let area = props! { mode: "area" };
    refuse("hbir.grid_sample", &types, &area, "grid-sample-c1");
    let whole = [ty("1x1x2x2", DType::SI32), ty("1x3x3x2", F32)];
    refuse("hbir.grid_sample", &whole, &none(), "grid-sample-c2");
    let deep = [ty("1x1x2x2", F32), ty("1x3x3x3", F32)];
    refuse("hbir.grid_sample", &deep, &none(), "grid-sample-c3");
}

#[test]
fn rotary_embedding() {
    let name = "hbir.rotary_embedding";
    // Two positions: a quarter turn at the first, none at the second.
    let (cos, sin) = (f32s(&[2, 1], &[0.0, 1.0]), f32s(&[2, 1], &[1.0, 0.0]));
    let x = f32s(&[1, 1, 2, 3], &[1.0, 2.0, 5.0, 3.0, 4.0, 6.0]);
    let positions = i64s(&[1, 2], &[0, 1]);
    let y = f32s(&[1, 1, 2, 3], &[-2.0, 1.0, 5.0, 3.0, 4.0, 6.0]);
    let part = props! { size: 2, sequence_axis: 2 };
    let operands = [x.clone(), cos, sin, positions];
    check(name, &operands, &part, &[y.clone()]);
    let by_batch = [
        x,
        f32s(&[1, 2, 1], &[0.0, 1.0]),
        f32s(&[1, 2, 1], &[1.0, 0.0]),
    ];
    check(name, &by_batch, &part, &[y]);
    let pairs = [
        count(&[1, 1, 1, 4]),
        f32s(&[1, 1, 2], &[0.0, 0.0]),
        f32s(&[1, 1, 2], &[1.0, 1.0]),
    ];
    let halves = f32s(&[1, 1, 1, 4], &[-2.0, -3.0, 0.0, 1.0]);
    check(name, &pairs, &none(), &[halves]);
    let neighbours = f32s(&[1, 1, 1, 4], &[-1.0, 0.0, -3.0, 2.0]);
    check(name, &pairs, &props! { interleaved: true }, &[neighbours]);

    let angles = ty("1x5x3", F32);
    let types = |x: &str| [ty(x, F32), angles.clone(), angles.clone()];
    refuse(name, &types("1x5x6"), &none(), "rotary-embedding-c1");
    refuse(name, &types("1x2x5x7"), &none(), "rotary-embedding-c2");
    refuse(
        name,
        &types("1x2x5x6"),
        &props! { sequence_axis: 3 },
        "rotary-embedding-c2",
    );
    refuse(name, &types("1x2x4x6"), &none(), "rotary-embedding-c3");
    let floats = [
        ty("1x2x5x6", F32),
        ty("9x3", F32),
        ty("9x3", F32),
        ty("1x5", F32),
    ];
    refuse(name, &floats, &none(), "rotary-embedding-c4");
}

#[test]
fn permutation_matrices() {
    let is = |shape: &[usize], values: &[f64]| f32s(shape, values).is_permutation_matrix();
    assert!(is(&[2, 2], &[0.0, 1.0, 1.0, 0.0]));
    assert!(is(&[2, 3, 1], &[0.0, 0.0, 1.0, 1.0, 0.0, 0.0]));
    assert!(!is(&[2, 2], &[0.0, 1.0, 0.0, 1.0]));
    assert!(!is(&[2, 2], &[0.0, 1.0, 0.0, 0.0]));
    assert!(!is(&[2, 2], &[0.0, 2.0, 1.0, 0.0]));
    assert!(!is(&[1, 2], &[0.0, 1.0]));
    assert!(!i64s(&[2, 2], &[0, 1, 1, 0]).is_permutation_matrix());
}

#[test]
fn blocks_of_channels_and_pixels() {
    let x = count(&[1, 4, 1, 2]);
    let y = f32s(&[1, 1, 2, 4], &[0.0, 2.0, 1.0, 3.0, 4.0, 6.0, 5.0, 7.0]);
    check(
        "hbir.depth_to_space",
        std::slice::from_ref(&x),
        &props! { blocksize: 2 },
        &[y.clone()],
    );
    check("hbir.space_to_depth", &[y], &props! { blocksize: 2 }, &[x]);
    let x = count(&[1, 8, 1, 1]);
    let y = f32s(&[1, 2, 2, 2], &[0.0, 1.0, 2.0, 3.0, 4.0, 5.0, 6.0, 7.0]);
    check(
        "hbir.depth_to_space",
        &[x],
        &props! { blocksize: 2, mode: "CRD" },
        &[y],
    );

    let name = "hbir.depth_to_space";
    let x = [ty("1x4x1x2", F32)];
    refuse(
        name,
        &[ty("4x1x2", F32)],
        &props! { blocksize: 2 },
        "depth-to-space-c1",
    );
    refuse(name, &x, &props! { blocksize: 0 }, "depth-to-space-c2");
    refuse(name, &x, &props! { blocksize: 3 }, "depth-to-space-c3");
    refuse(
        "hbir.space_to_depth",
        &x,
        &props! { blocksize: 2 },
        "depth-to-space-c3",
    );
    refuse(
        name,
        &x,
        &props! { blocksize: 2, mode: "RCD" },
        "depth-to-space-c4",
    );
}

#[test]
fn einsum() {
    let (a, b) = (count(&[2, 3]), count(&[3, 2]));
    let check_two = |equation: &str, wanted: Tensor| {
        check(
            "hbir.einsum",
            &[a.clone(), b.clone()],
            &props! { equation: equation },
            &[wanted],
        );
    };
    check_two("ij,jk->ik", f32s(&[2, 2], &[10.0, 13.0, 28.0, 40.0]));
    check_two("ij,jk -> ki", f32s(&[2, 2], &[10.0, 28.0, 13.0, 40.0]));
    check_two("ij,jk", f32s(&[2, 2], &[10.0, 13.0, 28.0, 40.0]));
    // Both i and k are summed: 3 * 1 + 5 * 5 + 7 * 9.
    check_two("ij,jk->j", f32s(&[3], &[3.0, 25.0, 63.0]));
    let x = count(&[2, 2]);
    let check_one = |equation: &str, wanted: Tensor| {
        let inputs = std::slice::from_ref(&x);
        check(
            "hbir.einsum",
            inputs,
            &props! { equation: equation },
            &[wanted],
        );
    };
    check_one("ij->ji", f32s(&[2, 2], &[0.0, 2.0, 1.0, 3.0]));
    check_one("ii->i", f32s(&[2], &[0.0, 3.0]));
    check_one("ii", f32s(&[], &[3.0]));
    check_one("...j->...", f32s(&[2], &[1.0, 5.0]));
    let three = [count(&[2]), count(&[2]), count(&[2])];
    check(
        "hbir.einsum",
        &three,
        &props! { equation: "a,a,a->" },
        &[f32s(&[], &[1.0])],
    );

    let x = [ty("2x3", F32)];
    refuse(
        "hbir.einsum",
        &x,
        &props! { equation: "i1->i" },
        "einsum-c1",
    );
    refuse(
        "hbir.einsum",
        &x,
        &props! { equation: "i,j->i" },
        "einsum-c2",
    );
    refuse(
        "hbir.einsum",
        &x,
        &props! { equation: "ijk->i" },
        "einsum-c2",
    );
    refuse(
        "hbir.einsum",
        &x,
        &props! { equation: "ij->ii" },
        "einsum-c3",
    );
    refuse(
        "hbir.einsum",
        &x,
        &props! { equation: "ij->k" },
        "einsum-c3",
    );
    refuse(
        "hbir.einsum",
        &x,
        &props! { equation: "ii->i" },
        "einsum-c4",
    );
    let mixed = [ty("2", F32), ty("2", DType::SI8)];
    refuse(
        "hbir.einsum",
        &mixed,
        &props! { equation: "i,i->" },
        "einsum-c5",
    );
}

#[test]
fn rearrangements() {
    let x = count(&[2, 3]);
    let one = std::slice::from_ref(&x);
    let y = f32s(&[3, 2], &[0.0, 1.0, 2.0, 3.0, 4.0, 5.0]);
    check(
        "hbir.reshape",
        one,
        &props! { shape: [3, -1] },
        &[y.clone()],
    );
    check("hbir.reshape", one, &none(), &[y]);
    let y = f32s(&[3, 2], &[0.0, 3.0, 1.0, 4.0, 2.0, 5.0]);
    check(
        "hbir.transpose",
        one,
        &props! { perm: [1, 0] },
        &[y.clone()],
    );
    check(
        "hbir.squeeze",
        &[count(&[1, 2, 1])],
        &props! { axes: [0] },
        &[count(&[2, 1])],
    );
    check(
        "hbir.squeeze",
        &[count(&[1, 2, 1])],
        &none(),
        &[count(&[2])],
    );
    check(
        "hbir.unsqueeze",
        &[count(&[2])],
        &props! { axes: [-1, 0] },
        &[count(&[1, 2, 1])],
    );
    check(
        "hbir.flatten",
        &[count(&[2, 3, 2])],
        &props! { axis: 2 },
        &[count(&[6, 2])],
    );
    check(
        "hbir.flatten",
        &[count(&[2, 3])],
        &props! { axis: 0 },
        &[count(&[1, 6])],
    );
    let y = f32s(&[6], &[0.0, 3.0, 1.0, 4.0, 2.0, 5.0]);
    check(
        "hbir.view",
        &[count(&[6])],
        &props! { shape: [2, 3], perm: [1, 0] },
        &[y],
    );
    check("hbir.layout_convert", one, &none(), &[x.clone()]);

    let x = [ty("2x3", F32)];
    refuse(
        "hbir.reshape",
        &x,
        &props! { shape: [-1, -1] },
        "reshape-c1",
    );
    refuse(
        "hbir.reshape",
        &x,
        &props! { shape: [4, 5] },
        "reshape-volume-mismatch",
    );
    refuse(
        "hbir.reshape",
        &x,
        &props! { shape: [4, -1] },
        "reshape-volume-mismatch",
    );
    refuse(
        "hbir.transpose",
        &x,
        &props! { perm: [1, 0, 2] },
        "transpose-c1",
    );
    refuse(
        "hbir.transpose",
        &x,
        &props! { perm: [1, 1] },
        "transpose-c2",
    );
    refuse("hbir.squeeze", &x, &props! { axes: [2] }, "squeeze-c1");
    refuse("hbir.squeeze", &x, &props! { axes: [1] }, "squeeze-c2");
    refuse("hbir.unsqueeze", &x, &props! { axes: [3] }, "unsqueeze-c1");
    refuse("hbir.flatten", &x, &props! { axis: 3 }, "flatten-c1");
    let result = [ty("6", F32)];
    refuse_typed("hbir.view", &x, &result, &props! { shape: [-3] }, "view-c1");
    refuse_typed("hbir.view", &x, &result, &props! { perm: [0] }, "view-c2");
    refuse_typed(
        "hbir.view",
        &x,
        &result,
        &props! { perm: [0, 2] },
        "view-c3",
    );
    refuse_typed("hbir.view", &x, &[ty("5", F32)], &none(), "view-c4");
    refuse("hbir.layout_convert", &[], &none(), "operand-count");
}

#[test]
fn symbols_are_bound() {
    let bindings = Bindings([(Arc::from("B"), 2)].into_iter().collect());
    let eval = |name: &str, inputs: &[Tensor], result: Type, props: AttrDict| {
        run(name, inputs, &[result], &props, &bindings)
    };
    let shape = |entries: &[Attr]| AttrDict::new().with("shape", Attr::Array(entries.to_vec()));
    let x = [count(&[2, 6])];
    let named = shape(&[Attr::str("B"), Attr::int(3), Attr::int(-1)]);
    let y = eval("hbir.reshape", &x, ty("Bx3x2", F32), named.clone()).unwrap();
    assert_eq!(y[0].shape, [2, 3, 2]);
    let y = eval("hbir.reshape", &x, ty("3x?", F32), none()).unwrap();
    assert_eq!(y[0].shape, [3, 4]);
    let y = eval("hbir.view", &x, ty("6x?", F32), props! { perm: [1, 0] }).unwrap();
    assert_eq!(y, [x[0].transposed(&[1, 0])]);
    let wide = shape(&[Attr::str("B"), Attr::int(3)]);
    let y = eval("hbir.broadcast", &[count(&[3])], ty("Bx3", F32), wide).unwrap();
    assert_eq!(y[0].shape, [2, 3]);
    let y = eval("hbir.iota", &[], ty("B", DType::SI64), none()).unwrap();
    assert_eq!(y, [i64s(&[2], &[0, 1])]);
    let unbound = eval("hbir.iota", &[], ty("C", DType::SI64), none());
    assert_eq!(
        unbound.unwrap_err(),
        "the size C of a result is bound to no number"
    );
    let odd = eval(
        "hbir.reshape",
        &[count(&[3, 6])],
        ty("Bx3x2", F32),
        shape(&[Attr::str("B")]),
    );
    assert_eq!(
        odd.unwrap_err(),
        "hbir.reshape of [3, 6] to [2] changes the number of elements from 18 to 2"
    );
    // A name that is 0 equals none of the sizes tried before.
    let none_of = Bindings([(Arc::from("B"), 0)].into_iter().collect());
    let bounds = |text: &str| Attr::Array(vec![Attr::str(text)]);
    let props = AttrDict::new()
        .with("starts", bounds("B"))
        .with("limits", bounds("B+1"));
    let y = run(
        "hbir.slice",
        &[i64s(&[1], &[0])],
        &[ty("1", DType::SI64)],
        &props,
        &none_of,
    );
    assert_eq!(y.unwrap(), [i64s(&[1], &[0])]);
}

#[test]
fn shapes_of_symbols() {
    let dims = |name: &str, operands: &[Type], props: AttrDict| {
        let found = infer(name, operands, NONE, &props).unwrap_or_else(|e| panic!("{name}: {e}"));
        Type::from(TensorType::from(found[0].clone()))
    };
    let shape = |entries: &[Attr]| AttrDict::new().with("shape", Attr::Array(entries.to_vec()));
    let f = |d| ty(d, F32);
    let heads = shape(&[Attr::str("B"), Attr::int(197), Attr::int(12), Attr::int(-1)]);
    assert_eq!(
        dims("hbir.reshape", &[f("Bx197x768")], heads),
        f("Bx197x12x64")
    );
    assert_eq!(
        dims("hbir.reshape", &[f("Bx6x4")], props! { shape: [24, -1] }),
        f("24xB")
    );
    assert_eq!(
        dims("hbir.reshape", &[f("Bx6x4")], props! { shape: [-1, 4] }),
        f("6*Bx4")
    );
    assert_eq!(
        dims("hbir.reshape", &[f("Bx3x4")], props! { shape: [-1, 8] }),
        f("B+(B//2)x8")
    );
    assert_eq!(
        dims("hbir.reshape", &[f("?x4")], props! { shape: [-1] }),
        f("?")
    );
    assert_eq!(dims("hbir.add", &[f("Bx1"), f("?x4")], none()), f("?x4"));
    assert_eq!(dims("hbir.add", &[f("B"), f("4")], none()), f("4"));
    assert_eq!(dims("hbir.add", &[f("B"), f("1")], none()), f("B"));
    assert_eq!(
        dims("hbir.matmul", &[f("BxSx4"), f("4x5")], none()),
        f("BxSx5")
    );
    assert_eq!(dims("hbir.flatten", &[f("BxCx4")], none()), f("Bx4*C"));
    assert_eq!(dims("hbir.flatten", &[f("Bx3x4")], none()), f("Bx12"));
    let whole = props! { starts: [0, 1], limits: [i64::MAX, 3] };
    assert_eq!(dims("hbir.slice", &[f("Bx4")], whole), f("Bx2"));
    let part = AttrDict::new()
        .with("starts", Attr::Array(vec![Attr::int(0), Attr::str("P")]))
        .with(
            "limits",
            Attr::Array(vec![Attr::str("B"), Attr::str("P+S")]),
        );
    assert_eq!(dims("hbir.slice", &[f("Bx512")], part), f("BxS"));
    let odd = props! { starts: [0, 1], limits: [4, i64::MAX], strides: [1, 2] };
    assert_eq!(dims("hbir.slice", &[f("4xS")], odd), f("4xS//2"));
    let same = props! { pads: [1, 1] };
    assert_eq!(
        dims("hbir.conv", &[f("Bx3xL"), f("8x3x3")], same),
        f("Bx8xL")
    );
    let half = props! { pads: [1, 1], strides: [2] };
    assert_eq!(
        dims("hbir.conv", &[f("Bx3xL"), f("8x3x3")], half),
        f("Bx8x(L+1)//2")
    );
    assert_eq!(
        dims("hbir.concat", &[f("2xS"), f("2x1")], props! { axis: 1 }),
        f("2xS+1")
    );
    assert_eq!(dims("hbir.add", &[f("S+1"), f("T")], none()), f("S+1"));
    assert_eq!(
        dims("hbir.concat", &[f("Bx2"), f("Bx3")], props! { axis: 1 }),
        f("Bx5")
    );
    refuse(
        "hbir.reshape",
        &[f("Bx6")],
        &shape(&[Attr::str("B"), Attr::int(5)]),
        "reshape-volume-mismatch",
    );
    refuse(
        "hbir.reshape",
        &[f("Bx6")],
        &shape(&[Attr::str("B"), Attr::int(4), Attr::int(-1)]),
        "reshape-volume-mismatch",
    );
}

#[test]
fn messages_say_found_and_wanted() {
    let error = infer(
        "hbir.reshape",
        &[ty("2x3x4", F32)],
        NONE,
        &props! { shape: [4, 5] },
    );
    let wanted = "hbir.reshape of [2, 3, 4] to [4, 5] changes the number of elements from 24 to 20";
    assert_eq!(error.unwrap_err().message, wanted);
    let error = infer(
        "hbir.transpose",
        &[ty("2x3", F32)],
        NONE,
        &props! { perm: [0, 2] },
    );
    let wanted = "hbir.transpose has perm = [0, 2], wanted each of 0 to 1 once";
    assert_eq!(error.unwrap_err().message, wanted);
}

#[test]
fn calls_and_opaque_operations() {
    let results = [ty("2xB", F32)];
    let callee = AttrDict::new().with("callee", Attr::Symbol(Arc::from("f")));
    for name in ["hbir.call", "func.call"] {
        let found = infer(name, &[], &results, &callee).unwrap();
        assert_eq!(Type::from(TensorType::from(found[0].clone())), results[0]);
    }
    assert!(
        run(
            "hbir.call",
            &[],
            &[ty("2", F32)],
            &callee,
            &Bindings::default()
        )
        .is_err()
    );
    let kind = props! { kind: "NonZero" };
    assert_eq!(infer("hbir.opaque", &[], &results, &kind).unwrap().len(), 1);
    assert!(
        run(
            "hbir.opaque",
            &[],
            &[ty("2", F32)],
            &kind,
            &Bindings::default()
        )
        .is_err()
    );
    refuse("hbir.call", &[], &props! { callee: "f" }, "call-c1");
    refuse("hbir.opaque", &[], &props! { kind: "" }, "opaque-c1");
}

#[test]
fn quantization() {
    let x = f32s(&[2, 2], &[0.5, 1.5, -1.0, 300.0]);
    let (scale, zero) = (f32s(&[], &[1.0]), ints(DType::UI8, &[], &[1]));
    let y = ints(DType::UI8, &[2, 2], &[1, 3, 0, 255]);
    check("hbir.quantize", &[x.clone(), scale, zero], &none(), &[y]);
    let y = ints(DType::SI8, &[2, 2], &[0, 15, -1, 127]);
    let scale = f32s(&[2], &[1.0, 0.1]);
    check(
        "hbir.quantize",
        &[x, scale.clone()],
        &props! { to: DType::SI8 },
        &[y],
    );
    let y = ints(DType::SI8, &[2, 2], &[3, 3, -3, 0]);
    let zero = ints(DType::SI8, &[2], &[1, 2]);
    let wanted = f32s(&[2, 2], &[2.0, 2.0, -0.5, -0.2]);
    check(
        "hbir.dequantize",
        &[y, scale, zero],
        &props! { axis: 0 },
        &[wanted],
    );

    let (x, s) = (ty("2x2", F32), ty("2", F32));
    refuse(
        "hbir.quantize",
        &[ty("2x2", DType::SI8), s.clone()],
        &none(),
        "quantize-c1",
    );
    refuse(
        "hbir.quantize",
        &[x.clone(), ty("3", F32)],
        &none(),
        "quantize-c2",
    );
    let zero = ty("2", DType::SI8);
    let to = props! { to: DType::UI8 };
    refuse(
        "hbir.quantize",
        &[x.clone(), s.clone(), zero.clone()],
        &to,
        "quantize-c3",
    );
    refuse("hbir.dequantize", &[x, s.clone()], &none(), "quantize-c1");
    refuse(
        "hbir.dequantize",
        &[ty("2x2", DType::UI8), s, zero],
        &none(),
        "quantize-c3",
    );
}

#[test]
fn places_of_the_greatest() {
    let x = f32s(&[1, 1, 2, 2], &[1.0, 4.0, 3.0, 2.0]);
    let kernel = props! { kernel: [1, 2] };
    let found = infer("hbir.max_pool_indices", &[type_of(&x)], &[], &kernel).unwrap();
    assert_eq!(found[0].dtype, DType::SI64);
    let wanted = Tensor::from_i64(DType::SI64, vec![1, 1, 2, 1], [1, 2]);
    let results = [type_of(&wanted)];
    let given = run(
        "hbir.max_pool_indices",
        &[x],
        &results,
        &kernel,
        &Bindings::default(),
    );
    assert_eq!(given.unwrap(), [wanted]);
}

/// Every operation of the registry is in this file or in the list of one-operand operations.
#[test]
fn every_operation_is_tested() {
    let text = include_str!("ops_eval.rs");
    for decl in optc_ops::registry().all() {
        assert!(
            text.contains(&format!("\"{}\"", decl.name())),
            "{} has no test",
            decl.name()
        );
        assert!(!decl.summary().is_empty() && !decl.family().is_empty());
    }
    assert_eq!(type_of(&count(&[2])), ty("2", F32));
}

/// A sequence of multiples of one eighth, in mixed order.
fn sequence(shape: &[usize], step: usize) -> Tensor {
    let n: usize = shape.iter().product();
    let values: Vec<f64> = (0..n)
        .map(|i| (i * step % 11) as f64 / 8.0 - 0.625)
        .collect();
    f32s(shape, &values)
}

/// The operands of a recurrent network, for these sizes: sequence, batch, inputs, states, directions, gates; and the
/// initial states.
fn network([s, b, i, h, d, g]: [usize; 6], initial: &[usize]) -> Vec<Tensor> {
    let mut all = vec![
        sequence(&[s, b, i], 3),
        sequence(&[d, g * h, i], 5),
        sequence(&[d, g * h, h], 7),
        sequence(&[d, 2 * g * h], 2),
    ];
    all.extend(initial.iter().map(|&step| sequence(&[d, b, h], step)));
    all
}

/// The expected numbers are those of onnxruntime.
#[test]
fn recurrent() {
    let name = "hbir.recurrent";
    let last = [-0.265_592, 0.022_930];
    check(
        name,
        &network([2, 1, 1, 2, 1, 4], &[4, 6]),
        &props! { cell: "lstm" },
        &[
            f32s(&[2, 1, 1, 2], &[-0.275_023, 0.020_629, last[0], last[1]]),
            f32s(&[1, 1, 2], &last),
            f32s(&[1, 1, 2], &[-0.533_670, 0.065_064]),
        ],
    );
    check(
        name,
        &network([2, 1, 1, 1, 2, 4], &[]),
        &props! { cell: "lstm", direction: "bidirectional" },
        &[
            f32s(
                &[2, 2, 1, 1],
                &[-0.014_088, -0.022_836, -0.031_859, -0.031_956],
            ),
            f32s(&[2, 1, 1], &[-0.031_859, -0.022_836]),
            f32s(&[2, 1, 1], &[-0.056_820, -0.039_889]),
        ],
    );
    check(
        name,
        &network([2, 2, 1, 1, 1, 3], &[4]),
        &props! { cell: "gru", direction: "reverse" },
        &[
            f32s(&[2, 1, 2, 1], &[0.069_736, 0.329_528, 0.029_324, 0.418_542]),
            f32s(&[1, 2, 1], &[0.069_736, 0.329_528]),
        ],
    );
    check(
        name,
        &network([2, 1, 1, 2, 1, 3], &[4]),
        &props! { cell: "gru", linear_before_reset: true },
        &[
            f32s(
                &[2, 1, 1, 2],
                &[-0.058_823, 0.261_826, 0.310_062, 0.236_582],
            ),
            f32s(&[1, 1, 2], &[0.310_062, 0.236_582]),
        ],
    );
    check(
        name,
        &network([2, 1, 2, 2, 1, 1], &[]),
        &props! { cell: "plain" },
        &[
            f32s(
                &[2, 1, 1, 2],
                &[-0.344_663, -0.543_687, -0.634_332, -0.452_638],
            ),
            f32s(&[1, 1, 2], &[-0.634_332, -0.452_638]),
        ],
    );
    let types = |of: &[Tensor]| -> Vec<Type> { of.iter().map(type_of).collect() };
    let given = types(&network([2, 1, 1, 1, 1, 4], &[4]));
    // Elements after the end of a sequence are 0, and change no state.
    let first = [-0.058_823, 0.261_826];
    let mut short = network([2, 1, 1, 2, 1, 3], &[4]);
    short.push(i64s(&[1], &[1]));
    check(
        name,
        &short,
        &props! { cell: "gru", linear_before_reset: true, lengths: true },
        &[
            f32s(&[2, 1, 1, 2], &[first[0], first[1], 0.0, 0.0]),
            f32s(&[1, 1, 2], &first),
        ],
    );
    refuse(
        name,
        &types(&short),
        &props! { cell: "lstm", lengths: true },
        "recurrent-c3",
    );
    short.pop();
    refuse(
        name,
        &types(&short),
        &props! { cell: "gru", lengths: true },
        "recurrent-c2",
    );
    refuse(name, &given, &props! { cell: "lstm" }, "recurrent-c3");
    refuse(name, &given[..4], &props! { cell: "gru" }, "recurrent-c3");
    refuse(name, &given[..4], &props! { cell: "rnn" }, "recurrent-c1");
}

#[test]
fn dequantize_blocks() {
    let name = "hbir.dequantize_blocks";
    let u8s = |shape: &[usize], values: &[i64]| ints(DType::UI8, shape, values);
    // Two elements per byte, the first in the low bits; blocks of three, the last one incomplete.
    let packed = u8s(&[2, 2], &[0x21, 0x43, 0xF8, 0x90]);
    let scales = f32s(&[2, 2], &[1.0, 10.0, 0.5, 2.0]);
    let given = [packed.clone(), scales.clone()];
    check(
        name,
        &given,
        &props! { block: 3, bits: 4 },
        &[f32s(
            &[2, 4],
            &[-7.0, -6.0, -5.0, -40.0, 0.0, 3.5, -4.0, 2.0],
        )],
    );
    // Zero points 1 and 2, 3 and 4, packed in bytes; then as floats.
    let zeros = u8s(&[2, 1], &[0x21, 0x43]);
    let wanted = f32s(&[2, 4], &[0.0, 1.0, 2.0, 20.0, 2.5, 6.0, -1.5, 10.0]);
    check(
        name,
        &[packed.clone(), scales.clone(), zeros],
        &props! { block: 3, bits: 4 },
        &[wanted.clone()],
    );
    let zeros = f32s(&[2, 2], &[1.0, 2.0, 3.0, 4.0]);
    check(
        name,
        &[packed.clone(), scales.clone(), zeros],
        &props! { block: 3, bits: 4 },
        &[wanted],
    );
    // Blocks along a dimension other than the packed one.
    check(
        name,
        &[
            u8s(&[3, 1], &[0x21, 0x43, 0xF8]),
            f32s(&[2, 2], &[1.0, 10.0, 0.5, 2.0]),
        ],
        &props! { axis: 0, block: 2, bits: 4 },
        &[f32s(&[3, 2], &[-7.0, -60.0, -5.0, -40.0, 0.0, 14.0])],
    );
    check(
        name,
        &[u8s(&[1, 1], &[0b11_10_01_00]), f32s(&[1, 2], &[1.0, 10.0])],
        &props! { block: 2, bits: 2 },
        &[f32s(&[1, 4], &[-2.0, -1.0, 0.0, 10.0])],
    );
    check(
        name,
        &[u8s(&[1, 2], &[0, 255]), f32s(&[1, 1], &[2.0])],
        &props! { block: 16, bits: 8 },
        &[f32s(&[1, 2], &[-256.0, 254.0])],
    );
    // Unpacked elements have no default zero point.
    check(
        name,
        &[ints(DType::SI8, &[1, 2], &[-3, 4]), f32s(&[1, 1], &[2.0])],
        &props! { block: 16 },
        &[f32s(&[1, 2], &[-6.0, 8.0])],
    );
    let types: Vec<Type> = given.iter().map(type_of).collect();
    let (x, s) = (types[0].clone(), types[1].clone());
    let bits = |bits: i64| props! { block: 3, bits: bits };
    refuse(
        name,
        &[s.clone(), s.clone()],
        &bits(4),
        "dequantize-blocks-c1",
    );
    refuse(
        name,
        &[x.clone(), x.clone()],
        &bits(4),
        "dequantize-blocks-c1",
    );
    let wide = ty("2x2", DType::SI32);
    refuse(
        name,
        &[wide.clone(), s.clone()],
        &bits(4),
        "dequantize-blocks-c1",
    );
    refuse(
        name,
        &[x.clone(), s.clone(), wide],
        &bits(4),
        "dequantize-blocks-c1",
    );
    refuse(name, &types, &bits(3), "dequantize-blocks-c2");
    refuse(
        name,
        &types,
        &props! { block: 0, bits: 4 },
        "dequantize-blocks-c2",
    );
    refuse(name, &types, &bits(2), "dequantize-blocks-c3");
    refuse(name, &[x.clone(), s, x], &bits(4), "dequantize-blocks-c3");
}
