#!/usr/bin/env python3
"""Writes ops_special.txt: what numpy, Python's math and the reference of ONNX make of special values, for element-wise operations.

Made with numpy 2 and onnx 1.23.2:  python3 ops_special.py > ops_special.txt
A case is as ops_reference.py has it. Floats are computed in 64 bits and rounded once, integers as Python has them, and wrapped.
"""
import math
from fractions import Fraction
import numpy as np, onnx
from onnx import helper as h
from onnx.reference import ReferenceEvaluator

np.seterr(all="ignore")
NAMES = {"float32": "f32", "float16": "f16", "int64": "si64", "int32": "si32", "int8": "si8", "uint8": "ui8", "bool": "i1"}
POSITIVE = [0.0, np.inf, 1e-45, 1.17549435e-38, 6e-8, 1e-5, 0.25, 0.5, 0.75, 1.0, 1.5, 2.0, 2.5, 3.0, 3.5, 6.5, 20.0, 88.5, 103.0, 709.0, 65504.0,
            8388608.5, 1e20, 3.4028235e38]
PAIRED = [0.0, np.inf, 6e-8, 0.5, 1.0, 2.0, 2.5, 3.0, 3.4028235e38]
INTEGERS = [0, 1, 2, 3, 7, 8, 31, 63, 100, 127, 128, 255, 2**31 - 1, 2**31, 2**63 - 1]

def floats(kind, positive=POSITIVE):
    with np.errstate(over="ignore"):
        x = np.array([v for p in positive for v in (p, -p)] + [np.nan], dtype=kind)
    return x[np.sort(np.unique(x.view(f"u{x.itemsize}"), return_index=True)[1])]

def integers(kind, positive=INTEGERS):
    low, high = (0, 1) if kind == "bool" else (np.iinfo(kind).min, np.iinfo(kind).max)
    return [v for v in dict.fromkeys(v for p in positive for v in (p, -p, -p - 1)) if low <= v <= high]

def text(x):
    if x.dtype.kind == "f":
        return " ".join(np.format_float_scientific(e, trim="-") if np.isfinite(e) else str(e) for e in x)
    return " ".join(str(int(e)) for e in x)

def case(op, props, inputs, output):
    print("op hbir." + op)
    for name, value in props.items():
        kind = "bool" if isinstance(value, bool) else "str" if isinstance(value, str) else "type" if isinstance(value, type) else "float"
        word = {"bool": lambda: int(value), "str": lambda: value, "type": lambda: NAMES[np.dtype(value).name], "float": lambda: repr(value)}[kind]()
        print(f"attr {name} {kind} {word}")
    for word, x in [("in", x) for x in inputs] + [("out", output)]:
        print(f"{word} {NAMES[x.dtype.name]} {len(x)} : {text(x)}")
    print()

def of_onnx(kind, **attrs):
    """The reference of ONNX, of numbers of 64 bits."""
    def run(x, *more):
        names = [f"x{i}" for i in range(1 + len(more))]
        node = h.make_node(kind, names, ["y"], **attrs)
        value = lambda n: h.make_tensor_value_info(n, onnx.TensorProto.DOUBLE, None)
        model = h.make_model(h.make_graph([node], "g", [value(n) for n in names], [value("y")]), opset_imports=[h.make_opsetid("", 22)])
        return ReferenceEvaluator(model).run(None, dict(zip(names, [x, *more])))[0]
    return run

def each(f):
    return lambda *xs: np.array([f(*map(float, v)) for v in zip(*xs)])

softplus = lambda x: np.logaddexp(x, 0.0)
sigmoid = lambda x: np.where(x < 0, np.exp(np.minimum(x, 0)) / (1 + np.exp(np.minimum(x, 0))), 1 / (1 + np.exp(-np.maximum(x, 0)))) + 0 * np.where(np.isnan(x), x, 0)
UNARY = dict(
    neg=np.negative, abs=np.abs, sign=np.sign, exp=np.exp, expm1=np.expm1, log=np.log, log1p=np.log1p, sqrt=np.sqrt, cbrt=np.cbrt,
    rsqrt=lambda x: 1 / np.sqrt(x), reciprocal=np.reciprocal, erf=each(math.erf), erfc=each(math.erfc), tanh=np.tanh, sigmoid=sigmoid,
    relu=of_onnx("Relu"), sin=np.sin, cos=np.cos, tan=np.tan, asin=np.arcsin, acos=np.arccos, atan=np.arctan, sinh=np.sinh, cosh=np.cosh,
    asinh=np.arcsinh, acosh=np.arccosh, atanh=np.arctanh, floor=np.floor, ceil=np.ceil, round=np.rint, silu=lambda x: x * sigmoid(x),
    softplus=softplus, softsign=of_onnx("Softsign"), hard_swish=of_onnx("HardSwish"), mish=lambda x: x * np.tanh(softplus(x)),
    is_nan=np.isnan, is_inf=np.isinf, selu=of_onnx("Selu"), identity=lambda x: x)
# The reference of ONNX has an error function of 32 bits.
WITH = [("gelu", {}, each(lambda x: 0.5 * x * (1 + math.erf(x / math.sqrt(2))))), ("gelu", dict(approximate="tanh"), of_onnx("Gelu", approximate="tanh")),
        ("elu", dict(alpha=1.5), of_onnx("Elu", alpha=1.5)), ("celu", dict(alpha=1.5), lambda x: np.where(x < 0, 1.5 * np.expm1(np.minimum(x, 0) / 1.5), x)),
        ("leaky_relu", dict(alpha=0.25), of_onnx("LeakyRelu", alpha=0.25)), ("leaky_relu", dict(alpha=-2.0), of_onnx("LeakyRelu", alpha=-2.0)),
        ("thresholded_relu", dict(alpha=0.5), lambda x: np.where(x <= 0.5, 0.0, x)),
        ("hard_sigmoid", dict(alpha=0.25, beta=0.5), of_onnx("HardSigmoid", alpha=0.25, beta=0.5)),
        ("clamp", dict(min=-3.0, max=20.0), lambda x: np.clip(x, -3.0, 20.0)), ("clamp", dict(max=0.5), lambda x: np.minimum(x, 0.5))]
def maximum(x, y): return np.where(np.isnan(x) | np.isnan(y), np.nan, np.where(x > y, x, y))
def minimum(x, y): return np.where(np.isnan(x) | np.isnan(y), np.nan, np.where(x < y, x, y))
BINARY = [("add", {}, np.add), ("sub", {}, np.subtract), ("mul", {}, np.multiply), ("div", {}, np.divide), ("pow", {}, np.power),
          ("atan2", {}, np.arctan2), ("max", {}, maximum), ("min", {}, minimum), ("mod", dict(fmod=True), np.fmod),
          ("mod", {}, lambda x, y: np.where(np.isinf(y) & np.isfinite(x), np.where((x < 0) == (y < 0), x, np.where(x == 0, x, y)), np.mod(x, y))),
          ("prelu", {}, lambda x, s: np.where(x < 0, s * x, x))]
COMPARE = dict(eq=np.equal, ne=np.not_equal, lt=np.less, le=np.less_equal, gt=np.greater, ge=np.greater_equal)

for kind in ["float32", "float16"]:
    x = floats(kind)
    wide = x.astype(np.float64)
    for op, props, f in [(op, {}, f) for op, f in UNARY.items()] + WITH:
        y = f(wide)
        case(op, props, [x], y if y.dtype == bool else y.astype(kind))
    paired = floats(kind, PAIRED)
    a, b = (v.reshape(-1) for v in np.meshgrid(paired, paired))
    for op, props, f in BINARY if kind == "float32" else []:
        case(op, props, [a, b], f(a.astype(np.float64), b.astype(np.float64)).astype(kind))
    for word, f in COMPARE.items() if kind == "float32" else []:
        case("compare", dict(direction=word), [a, b], f(a, b))
    for to in ["int8", "uint8", "int32"]:
        low, high = np.iinfo(to).min, np.iinfo(to).max
        whole = [0 if math.isnan(v) else min(max(v, low), high) for v in wide]
        case("cast", dict(to=np.dtype(to).type), [x], np.array([int(v) for v in whole]).astype(to))

truncated = lambda a, b: 0 if b == 0 else abs(a) // abs(b) * (1 if (a < 0) == (b < 0) else -1)
def power(a, b):
    if 0 <= b: return pow(a, b, 2**64)
    return 0 if a == 0 else math.trunc(Fraction(1, a) ** min(-b, 2 + b % 2))
def shifted_left(width): return lambda a, b: a << b if 0 <= b < width else 0
def shifted_right(width): return lambda a, b: a >> (b if 0 <= b < width else width)
WHOLE = [("neg", {}, lambda a: -a), ("abs", {}, abs), ("sign", {}, lambda a: (a > 0) - (a < 0)), ("relu", {}, lambda a: max(a, 0)), ("not", {}, lambda a: ~a),
         ("clamp", dict(min=-3.0, max=20.0), lambda a: min(max(a, -3), 20))]
for kind in ["int8", "uint8", "int64"]:
    width, values = 8 * np.dtype(kind).itemsize, integers(kind)
    made = lambda list: np.array([v % 2**width for v in list], np.uint64).astype(kind)
    for op, props, f in WHOLE:
        case(op, props, [made(values)], made([f(v) for v in values]))
    paired = integers(kind, [0, 1, 3, 8, width // 2, 2 ** (width - 1) - 1, 2 ** (width - 1), 2**width - 1])
    pairs = [(a, b) for a in paired for b in paired]
    both = [made([a for a, _ in pairs]), made([b for _, b in pairs])]
    for op, props, f in [("add", {}, lambda a, b: a + b), ("sub", {}, lambda a, b: a - b), ("mul", {}, lambda a, b: a * b), ("div", {}, truncated),
                         ("mod", {}, lambda a, b: a % b if b else 0), ("mod", dict(fmod=True), lambda a, b: a - truncated(a, b) * b if b else 0), ("pow", {}, power),
                         ("max", {}, max), ("min", {}, min), ("and", {}, lambda a, b: a & b), ("or", {}, lambda a, b: a | b), ("xor", {}, lambda a, b: a ^ b),
                         ("shift_left", {}, shifted_left(width)), ("shift_right", {}, shifted_right(width))]:
        case(op, props, both, made([f(a, b) for a, b in pairs]))
    for word, f in COMPARE.items() if kind != "int64" else []:
        case("compare", dict(direction=word), both, f(*(np.array(v, object) for v in zip(*pairs))).astype(bool))
both = [np.array([0, 0, 1, 1], bool), np.array([0, 1, 0, 1], bool)]
for op, f in {"add": np.logical_or, "mul": np.logical_and, "max": np.logical_or, "min": np.logical_and, "and": np.logical_and, "or": np.logical_or,
              "xor": np.logical_xor}.items():
    case(op, {}, both, f(*both))
case("not", {}, both[:1], ~both[0])
