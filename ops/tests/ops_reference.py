#!/usr/bin/env python3
"""Writes ops_reference.txt: results of onnxruntime for the operations of the dialect.

Made with onnxruntime 1.31.1 and onnx 1.23.2:  python3 ops_reference.py > ops_reference.txt
A case is: `op NAME`, `attr NAME KIND VALUE...`, `in DTYPE SHAPE : NUMBERS`, `out DTYPE SHAPE : NUMBERS`, a blank line.
"""
import numpy as np, onnx, onnxruntime as ort
from onnx import helper as h

rng = np.random.default_rng(7)
NAMES = {np.dtype("float32"): "f32", np.dtype("float64"): "f64", np.dtype("float16"): "f16", np.dtype("int64"): "si64",
         np.dtype("int32"): "si32", np.dtype("int8"): "si8", np.dtype("uint8"): "ui8", np.dtype("bool"): "i1"}

def f(*shape): return np.round(rng.standard_normal(shape), 3).astype(np.float32)
def i(*shape, lo=-5, hi=6, dtype=np.int64): return rng.integers(lo, hi, shape).astype(dtype)
def b(*shape): return rng.integers(0, 2, shape).astype(bool)

def run(kind, inputs, attrs, n_out, opset):
    names = [f"x{k}" if x is not None else "" for k, x in enumerate(inputs)]
    outs = [f"y{k}" for k in range(n_out)]
    node = h.make_node(kind, names, outs, **attrs)
    gi = [h.make_tensor_value_info(n, h.np_dtype_to_tensor_dtype(x.dtype), x.shape) for n, x in zip(names, inputs) if x is not None]
    g = h.make_graph([node], "g", gi, [h.make_value_info(o, onnx.TypeProto()) for o in outs])
    m = h.make_model(g, opset_imports=[h.make_opsetid("", opset)], ir_version=10)
    so = ort.SessionOptions(); so.log_severity_level = 4
    s = ort.InferenceSession(m.SerializeToString(), so, providers=["CPUExecutionProvider"])
    return s.run(None, {n: x for n, x in zip(names, inputs) if x is not None})

def text(x):
    v = x.reshape(-1)
    if x.dtype.kind == "f":
        return " ".join(np.format_float_positional(e, trim="-") if np.isfinite(e) else str(e) for e in v)
    return " ".join(str(int(e)) for e in v)

def tensor(word, x):
    print(f"{word} {NAMES[x.dtype]} {'x'.join(map(str, x.shape)) or '-'} : {text(x)}")

def attr(name, v):
    if isinstance(v, bool): return f"attr {name} bool {int(v)}"
    if isinstance(v, int): return f"attr {name} int {v}"
    if isinstance(v, float): return f"attr {name} float {v!r}"
    if isinstance(v, type): return f"attr {name} type {NAMES[np.dtype(v)]}"
    if isinstance(v, str): return f"attr {name} str {v}"
    if v and isinstance(v[0], float): return f"attr {name} floats " + " ".join(map(repr, v))
    return f"attr {name} ints " + " ".join(map(str, v))

def case(op, kind, inputs, props=None, attrs=None, extra=(), n_out=1, opset=21):
    """extra: further ONNX inputs that are attributes in the dialect"""
    out = run(kind, list(inputs) + list(extra), attrs or {}, n_out, opset)
    print("op hbir." + op)
    for k, v in (props or {}).items(): print(attr(k, v))
    for x in inputs: tensor("in", x)
    for y in out: tensor("out", y)
    print()

i64 = lambda *v: np.array(v, np.int64)
f32 = lambda *v: np.array(v, np.float32)

for op, kind in dict(neg="Neg", abs="Abs", sign="Sign", exp="Exp", erf="Erf", tanh="Tanh", sigmoid="Sigmoid", relu="Relu", sin="Sin",
                     cos="Cos", tan="Tan", atan="Atan", sinh="Sinh", cosh="Cosh", asinh="Asinh", floor="Floor", ceil="Ceil", round="Round",
                     softplus="Softplus", softsign="Softsign", hard_swish="HardSwish", mish="Mish", gelu="Gelu", selu="Selu",
                     is_nan="IsNaN", is_inf="IsInf").items():
    case(op, kind, [f(2, 5) * 2])
for op, kind in dict(log="Log", sqrt="Sqrt", reciprocal="Reciprocal").items():
    case(op, kind, [np.abs(f(6)) + np.float32(0.1)])
for op, kind in dict(asin="Asin", acos="Acos", atanh="Atanh").items():
    case(op, kind, [np.clip(f(6) / 3, -0.9, 0.9).astype(np.float32)])
case("acosh", "Acosh", [np.abs(f(6)) + np.float32(1)])
case("gelu", "Gelu", [f(8)], dict(approximate="tanh"), dict(approximate="tanh"))
for op, kind, a in [("hard_sigmoid", "HardSigmoid", dict(alpha=0.3, beta=0.4)), ("leaky_relu", "LeakyRelu", dict(alpha=0.2)),
                    ("elu", "Elu", dict(alpha=1.5)), ("celu", "Celu", dict(alpha=1.5)), ("thresholded_relu", "ThresholdedRelu", dict(alpha=0.5))]:
    case(op, kind, [f(2, 6)], a, a)
case("not", "Not", [b(5)])
case("clamp", "Clip", [f(6)], dict(min=-0.5, max=0.5), extra=[np.array(-0.5, np.float32), np.array(0.5, np.float32)])
for op, kind in dict(add="Add", sub="Sub", mul="Mul", div="Div", max="Max", min="Min").items():
    case(op, kind, [f(2, 1, 3), f(4, 1) + np.float32(3)])
    case(op, kind, [i(2, 3), i(3, lo=1)])
case("pow", "Pow", [np.abs(f(2, 3)), f(3)])
case("mod", "Mod", [i(12, lo=-9, hi=9), i(12, lo=1, hi=5) * np.where(b(12), 1, -1)])
case("mod", "Mod", [f(6) * 5, f(6)], dict(fmod=True), dict(fmod=1))
case("prelu", "PRelu", [f(2, 3, 2), f(3, 1)])
for op, kind in {"and": "And", "or": "Or", "xor": "Xor"}.items():
    case(op, kind, [b(2, 4), b(4)])
case("shift_left", "BitShift", [i(5, lo=0, hi=255, dtype=np.uint8), i(5, lo=0, hi=7, dtype=np.uint8)], attrs=dict(direction="LEFT"))
case("shift_right", "BitShift", [i(5, lo=0, hi=255, dtype=np.uint8), i(5, lo=0, hi=7, dtype=np.uint8)], attrs=dict(direction="RIGHT"))
for op, kind in dict(bit_and="BitwiseAnd", bit_or="BitwiseOr", bit_xor="BitwiseXor").items():
    case(op, kind, [i(6), i(6)])
for d, kind in dict(eq="Equal", lt="Less", le="LessOrEqual", gt="Greater", ge="GreaterOrEqual").items():
    case("compare", kind, [i(2, 4, lo=0, hi=3), i(4, lo=0, hi=3)], dict(direction=d))
case("select", "Where", [b(2, 1), f(3), f(2, 3)])
case("cast", "Cast", [f(8) * 3], dict(to=np.int32), dict(to=6))
case("cast", "Cast", [f(8)], dict(to=np.float16), dict(to=10))
case("cast", "Cast", [i(8, lo=-400, hi=400)], dict(to=np.uint8), dict(to=2))
case("cast", "Cast", [i(8)], dict(to=bool), dict(to=9))
for s, t in [((3,), (3,)), ((2, 3), (3,)), ((3,), (3, 4)), ((2, 3), (3, 4)), ((5, 1, 2, 3), (4, 3, 2)), ((3,), (2, 3, 4)), ((2, 17, 9), (9, 11))]:
    case("matmul", "MatMul", [f(*s), f(*t)])
case("matmul", "MatMulInteger", [i(3, 4, lo=-99, hi=99, dtype=np.int8), i(4, 2, lo=-99, hi=99, dtype=np.int8)], dict(to=np.int32))
case("linear", "Gemm", [f(4, 3), f(5, 3), f(5)], attrs=dict(transB=1))
convs = [((1, 2, 7), (3, 2, 3), dict(strides=[2], pads=[1, 0])), ((2, 3, 6, 5), (4, 3, 3, 2), dict(strides=[1, 2], pads=[1, 0, 2, 1])),
         ((1, 4, 6, 6), (6, 2, 3, 3), dict(group=2, dilations=[2, 1])), ((1, 4, 5, 5), (4, 1, 3, 3), dict(group=4, pads=[1, 1, 1, 1])),
         ((1, 2, 4, 4, 3), (2, 2, 2, 2, 2), dict(strides=[2, 1, 1])), ((1, 3, 4, 4), (5, 3, 1, 1), {})]
for s, t, a in convs:
    case("conv", "Conv", [f(*s), f(*t), f(t[0])], a, a)
    case("conv", "Conv", [f(*s), f(*t)], a, a)
for s, t, a in [((1, 2, 4), (2, 3, 3), dict(strides=[2], pads=[1, 0], output_padding=[1])),
                ((2, 4, 3, 3), (4, 2, 3, 2), dict(group=2, strides=[2, 1], dilations=[1, 2], pads=[1, 0, 0, 1]))]:
    case("conv", "ConvTranspose", [f(*s), f(*t), f(t[1] * a.get("group", 1))], dict(a, transposed=True), a)
pools = [((1, 2, 7), dict(kernel=[3], strides=[2])), ((1, 2, 6, 7), dict(kernel=[3, 2], strides=[2, 2], pads=[1, 0, 1, 1])),
         ((1, 1, 6, 6), dict(kernel=[3, 3], strides=[2, 2], ceil_mode=True)), ((1, 1, 5, 5, 4), dict(kernel=[2, 2, 2], strides=[1, 2, 1])),
         ((1, 1, 7, 7), dict(kernel=[2, 2], strides=[3, 3], pads=[1, 1, 1, 1], ceil_mode=True))]
for s, a in pools:
    o = {("kernel_shape" if k == "kernel" else k): (int(v) if isinstance(v, bool) else v) for k, v in a.items()}
    x = f(*s)
    case("max_pool", "MaxPool", [x], a, o)
    case("avg_pool", "AveragePool", [x], a, o)
    case("avg_pool", "AveragePool", [x], dict(a, count_include_pad=True), dict(o, count_include_pad=1))
case("max_pool", "MaxPool", [f(1, 2, 8)], dict(kernel=[3], dilations=[2]), dict(kernel_shape=[3], dilations=[2]))
case("max_pool", "MaxPool", [i(1, 2, 8, lo=0, hi=9, dtype=np.uint8)], dict(kernel=[3]), dict(kernel_shape=[3]))
for k, kind in dict(sum="Sum", mean="Mean", max="Max", min="Min", prod="Prod", l1="L1", l2="L2", sum_square="SumSquare", log_sum_exp="LogSumExp").items():
    case("reduce", "Reduce" + kind, [f(3, 2, 4)], dict(kind=k, axes=[0, 2]), dict(keepdims=0), [i64(0, 2)], opset=18)
    case("reduce", "Reduce" + kind, [f(3, 2)], dict(kind=k, axes=[-1], keepdims=True), dict(keepdims=1), [i64(-1)], opset=18)
for k, kind in dict(sum="Sum", max="Max", min="Min", prod="Prod").items():
    case("reduce", "Reduce" + kind, [i(3, 4)], dict(kind=k), dict(keepdims=0), opset=18)
case("reduce", "ReduceLogSum", [np.abs(f(3, 4))], dict(kind="log_sum", axes=[1]), dict(keepdims=0), [i64(1)], opset=18)
for op, kind in dict(arg_max="ArgMax", arg_min="ArgMin").items():
    x = i(3, 5, lo=0, hi=3).astype(np.float32)
    case(op, kind, [x], dict(axis=1), dict(axis=1, keepdims=0))
    case(op, kind, [x], dict(axis=0, keepdims=True, select_last_index=True), dict(axis=0, keepdims=1, select_last_index=1))
case("softmax", "Softmax", [f(2, 3, 4)], dict(axis=1), dict(axis=1))
case("log_softmax", "LogSoftmax", [f(2, 3, 4)], {}, {})
case("layer_norm", "LayerNormalization", [f(2, 3, 4), f(4), f(4)], dict(epsilon=0.01), dict(epsilon=0.01))
case("layer_norm", "LayerNormalization", [f(2, 3, 4), f(3, 4)], dict(axis=1), dict(axis=1))
case("batch_norm", "BatchNormalization", [f(2, 3, 4), f(3), f(3), f(3), np.abs(f(3))], dict(epsilon=0.01), dict(epsilon=0.01))
case("instance_norm", "InstanceNormalization", [f(2, 3, 4, 2), f(3), f(3)], dict(epsilon=0.01), dict(epsilon=0.01))
case("group_norm", "GroupNormalization", [f(2, 4, 3), f(4), f(4)], dict(epsilon=0.01, num_groups=2), dict(epsilon=0.01, num_groups=2))
case("concat", "Concat", [f(2, 1, 3), f(2, 2, 3), f(2, 3, 3)], dict(axis=-2), dict(axis=-2))
case("slice", "Slice", [f(5, 7)], dict(starts=[1, 6], limits=[5, -1], strides=[2, -3]), extra=[i64(1, 6), i64(5, -100), i64(0, 1), i64(2, -3)])
case("split", "Split", [f(2, 6)], dict(axis=1, sizes=[1, 3, 2]), dict(axis=1), [i64(1, 3, 2)], n_out=3)
for mode in ["constant", "reflect", "edge", "wrap"]:
    case("pad", "Pad", [f(3, 4)], dict(low=[1, 2], high=[2, 3], mode=mode, **(dict(value=1.5) if mode == "constant" else {})), dict(mode=mode),
         [i64(1, 2, 2, 3)] + ([np.array(1.5, np.float32)] if mode == "constant" else []))
case("pad", "Pad", [f(3, 4)], dict(low=[-1, 1], high=[0, -2]), extra=[i64(-1, 1, 0, -2)])
case("gather", "Gather", [f(3, 4, 2), i(2, 2, lo=-4, hi=4)], dict(axis=1), dict(axis=1))
case("gather", "Gather", [f(3, 4), i(lo=-3, hi=3)], dict(axis=0), dict(axis=0))
case("gather_elements", "GatherElements", [f(3, 4), i(2, 4, lo=-3, hi=3)], dict(axis=0), dict(axis=0))
case("gather_nd", "GatherND", [f(2, 3, 4), i(5, 2, lo=-2, hi=2)])
case("gather_nd", "GatherND", [f(2, 3, 4, 2), i(2, 3, 2, lo=-3, hi=3)], dict(batch_dims=1), dict(batch_dims=1))
for r in ["none", "add", "mul", "max", "min"]:
    at = np.array([[0, 2, 1], [-1, 0, 2]]) if r == "none" else i(2, 3, lo=-4, hi=4)
    case("scatter_elements", "ScatterElements", [f(4, 3), at, f(2, 3)], dict(axis=0, reduction=r), dict(axis=0, reduction=r))
    at = np.array([[0, 2], [1, 0], [-1, 1]]) if r == "none" else i(3, 2, lo=-2, hi=2)
    case("scatter_nd", "ScatterND", [f(4, 3, 2), at, f(3, 2)], dict(reduction=r), dict(reduction=r))
for e in [0, 1]:
    for r in [0, 1]:
        case("cumsum", "CumSum", [f(3, 4)], dict(axis=1, exclusive=bool(e), reverse=bool(r)), dict(exclusive=e, reverse=r), [np.array(1, np.int64)])
case("top_k", "TopK", [f(3, 5)], dict(k=3, axis=1), dict(axis=1), [i64(3)], n_out=2)
case("top_k", "TopK", [f(5, 3)], dict(k=2, axis=0, largest=False), dict(axis=0, largest=0), [i64(2)], n_out=2)
case("tile", "Tile", [f(2, 3)], dict(repeats=[2, 3]), extra=[i64(2, 3)])
case("broadcast", "Expand", [f(3, 1)], dict(shape=[2, 1, 4]), extra=[i64(2, 1, 4)])
for upper in [0, 1]:
    for k in [-1, 0, 2]:
        case("trilu", "Trilu", [f(2, 3, 4)], dict(upper=bool(upper), k=k), dict(upper=upper), [np.array(k, np.int64)])
for ct in ["half_pixel", "pytorch_half_pixel", "align_corners", "asymmetric", "half_pixel_symmetric"]:
    for mode in ["nearest", "linear", "cubic"]:
        for sizes in [[1, 1, 7, 3], [1, 1, 2, 9]]:
            p = dict(mode=mode, coordinate_transformation_mode=ct)
            case("resize", "Resize", [f(1, 1, 4, 5)], dict(p, sizes=sizes), p, [None, None, i64(*sizes)], opset=19)
    p = dict(mode="linear", coordinate_transformation_mode=ct)
    case("resize", "Resize", [f(1, 1, 4, 5)], dict(p, scales=[1.0, 1.0, 0.6, 1.5]), p, [None, f32(1, 1, 0.6, 1.5)], opset=19)
for nm in ["round_prefer_floor", "round_prefer_ceil", "floor", "ceil"]:
    p = dict(mode="nearest", coordinate_transformation_mode="asymmetric", nearest_mode=nm)
    case("resize", "Resize", [f(1, 1, 4, 4)], dict(p, scales=[1.0, 1.0, 2.0, 2.0]), p, [None, f32(1, 1, 2, 2)], opset=19)
p = dict(mode="cubic", cubic_coeff_a=-0.5, exclude_outside=1)
case("resize", "Resize", [f(1, 1, 4, 4)], dict(mode="cubic", cubic_coeff_a=-0.5, exclude_outside=True, scales=[1.0, 1.0, 2.0, 2.0]), p, [None, f32(1, 1, 2, 2)], opset=19)
for mode in ["DCR", "CRD"]:
    case("depth_to_space", "DepthToSpace", [f(1, 8, 2, 3)], dict(blocksize=2, mode=mode), dict(blocksize=2, mode=mode))
case("space_to_depth", "SpaceToDepth", [f(1, 2, 4, 6)], dict(blocksize=2), dict(blocksize=2))
for eq, *shapes in [("bij,bjk->bik", (2, 3, 4), (2, 4, 2)), ("bhid,bhjd->bijh", (2, 3, 2, 4), (2, 3, 3, 4)), ("ij->ji", (2, 3)), ("...ij,...jk->...ik", (3, 1, 2, 3), (1, 2, 3, 2)),
                    ("i,j->ji", (3,), (2,)), ("ijk->ki", (2, 3, 4)), ("ij,ij->", (2, 3), (2, 3)), ("ab,bc,cd->ad", (2, 3), (3, 4), (4, 2)), ("bij,bjk", (2, 3, 4), (2, 4, 2))]:
    case("einsum", "Einsum", [f(*s) for s in shapes], dict(equation=eq), dict(equation=eq))
case("transpose", "Transpose", [f(2, 3, 4)], dict(perm=[2, 0, 1]), dict(perm=[2, 0, 1]))
case("reshape", "Reshape", [f(2, 6)], dict(shape=[3, -1]), extra=[i64(3, -1)])
case("flatten", "Flatten", [f(2, 3, 4)], dict(axis=-1), dict(axis=-1))
case("squeeze", "Squeeze", [f(1, 3, 1)], dict(axes=[-1]), extra=[i64(-1)])
case("unsqueeze", "Unsqueeze", [f(3, 2)], dict(axes=[0, 3]), extra=[i64(0, 3)])
case("quantize", "QuantizeLinear", [f(3, 4) * 50, np.array(0.5, np.float32), np.array(100, np.uint8)])
case("quantize", "QuantizeLinear", [f(3, 4) * 50, np.abs(f(4)) + np.float32(0.2), i(4, dtype=np.int8)], dict(axis=1), dict(axis=1))
case("dequantize", "DequantizeLinear", [i(3, 4, dtype=np.int8), np.abs(f(3)), i(3, dtype=np.int8)], dict(axis=0), dict(axis=0))
for a in [dict(kernel=[5, 3], strides=[5, 2], ceil_mode=True), dict(kernel=[2, 3], strides=[2, 3], pads=[0, 0, 0, 1], dilations=[2, 2], ceil_mode=True)]:
    # Windows that are larger than what they pool.
    o = {("kernel_shape" if k == "kernel" else k): (int(v) if isinstance(v, bool) else v) for k, v in a.items()}
    x = f(1, 2, 2, 4)
    case("max_pool", "MaxPool", [x], a, o, opset=19)
    case("avg_pool", "AveragePool", [x], a, o, opset=19)
    case("avg_pool", "AveragePool", [x], dict(a, count_include_pad=True), dict(o, count_include_pad=1), opset=19)
