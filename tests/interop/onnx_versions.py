#!/usr/bin/env python3
"""optc against every version of every operator of ONNX.

usage: python onnx_versions.py OPTC [--only TEXT] [--table] [--jobs N] [--keep FOLDER]

The versions are those of the schemas of the `onnx` package.  An example of each is a model of one node, in the first and
in the last operator set of the version.  It is imported. If docs/onnx-ops.md calls it native or decomposed, it has no
`hbir.opaque`, and the reference interpreter gives the numbers of a peer: onnxruntime, else onnx's reference evaluator,
else either of them on a newer spelling by onnx.version_converter.  It is written as a model again as in RUNS;
onnx.checker must accept that model as it did the original, and it must give the same numbers.  The outcome of an entry is

  same      everything that was run agrees
  checked   no peer runs the version or its result is random, and the written model is valid
  opaque    kept unchanged, as docs/onnx-ops.md says, and written unchanged, with the same numbers
  wrong     anything else

OLD are the operator sets in which no model is written: models in them are written in a newer one.  The exit status is 1
if an entry is wrong.  Needs numpy, onnx, onnxruntime and ml_dtypes.
"""
import argparse
import collections
import concurrent.futures
import dataclasses
import os
import pathlib
import re
import subprocess
import sys
import tempfile
import zlib

import numpy as np
import onnx
import onnx.defs
import onnx.numpy_helper
import onnx.shape_inference
import onnx.version_converter
from onnx import TensorProto, helper

from onnx_backend import compare as differs, stored
from onnx_out import NotRun, by_reference, by_runtime

ROOT = pathlib.Path(__file__).resolve().parents[2]
RUNS = [("no pass", ["--pass="]), ("its own target", []), ("folded for the cpu", ["--pass=default", "--target=cpu"])]
NEWEST = onnx.defs.onnx_opset_version()
# The oldest operator set of a written model.
LEAST = 7
LIMIT_S = 120


@dataclasses.dataclass
class Example:
    """A node: its inputs (arrays; constants are wrapped, missing ones None), attributes and number of outputs.

    `newer` is the equivalent in a version that a peer runs: an operator set, inputs and attributes. `names` are the names of
    the inputs if these are not in order."""
    inputs: list
    attributes: dict
    outputs: int = 1
    names: list | None = None
    newer: tuple | None = None


class Const(np.ndarray):
    """An array that becomes an initializer."""


def const(x, dtype=None):
    return np.asarray(x, dtype).view(Const)


def i64(*x):
    return const(x, np.int64)


class Made:
    """A generator of numbers, the same for each name."""

    def __init__(self, name):
        self.rng = np.random.default_rng(zlib.crc32(name.encode()))

    def f(self, *shape, low=-2.0, high=2.0, dtype=np.float32):
        return self.rng.uniform(low, high, shape).astype(dtype)

    def i(self, *shape, low=0, high=5, dtype=np.int64):
        return self.rng.integers(low, high, shape).astype(dtype)

    def b(self, *shape):
        return self.rng.integers(0, 2, shape).astype(bool)


FLOATS = ["Abs", "Asin", "Acos", "Asinh", "Atan", "Atanh", "Ceil", "Celu", "Cos", "Cosh", "Elu", "Erf", "Exp", "Floor", "Gelu",
          "HardSigmoid", "HardSwish", "IsNaN", "LeakyRelu", "Mish", "Neg", "Relu", "Round", "Selu", "Shrink", "Sigmoid", "Sign",
          "Sin", "Sinh", "Softplus", "Softsign", "Swish", "Tan", "Tanh", "ThresholdedRelu", "Identity"]
POSITIVE = ["Acosh", "Log", "Reciprocal", "Sqrt"]
PAIRS = ["Add", "Sub", "Mul", "Div", "Pow", "Less", "Greater", "LessOrEqual", "GreaterOrEqual", "Equal", "Mod"]
TRUTHS = ["And", "Or", "Xor"]
BITS = ["BitwiseAnd", "BitwiseOr", "BitwiseXor"]
REDUCTIONS = ["L1", "L2", "LogSum", "LogSumExp", "Max", "Mean", "Min", "Prod", "Sum", "SumSquare"]
EXAMPLES = {}


def example(*names):
    def register(function):
        for name in names:
            EXAMPLES[name] = function
        return function
    return register


def takes(name, version, dtype, at=0):
    """True if a version of an operator accepts this element type."""
    schema = onnx.defs.get_schema(name, version)
    names = {"float32": "float", "float64": "double"}
    return f"tensor({names.get(np.dtype(dtype).name, np.dtype(dtype).name)})" in schema.inputs[min(at, len(schema.inputs) - 1)].types


def has(name, version, attribute):
    return attribute in onnx.defs.get_schema(name, version).attributes


@example(*FLOATS)
def unary(m, name, v):
    near = {"Asin": 0.9, "Acos": 0.9, "Atanh": 0.9}.get(name, 3.0)
    made = [Example([m.f(2, 3, low=-near, high=near)], {})]
    for dtype in (np.float64, np.int32, np.int64, np.int8):
        if takes(name, v, dtype) and name not in ("Gelu", "HardSwish", "Erf"):
            made.append(Example([m.f(2, 3, low=-near, high=near).astype(dtype)], {}))
    return made


@example(*POSITIVE)
def positive(m, name, v):
    return [Example([m.f(2, 3, low=1.1, high=4)], {})]


@example(*PAIRS)
def pair(m, name, v):
    low = 1 if name in ("Div", "Pow", "Mod") else -3
    dtypes = [t for t in (np.float32, np.float64, np.int32, np.int64, np.uint8, np.int16) if takes(name, v, t)]
    made = []
    for dtype in dtypes:
        attributes = {"fmod": 1} if name == "Mod" and np.dtype(dtype).kind == "f" and v < 28 else {}
        x, y = (m.i(*s, low=max(low, 0) if np.dtype(dtype).kind == "u" else low, high=4).astype(dtype) for s in ((2, 3, 4), (2, 3, 4)))
        made.append(Example([x, y], dict(attributes)))
        if 7 <= v:
            made.append(Example([x, y[:1, :, :1]], dict(attributes)))
        else:
            made += old_broadcasts(x, y)
    if name == "Pow" and 12 <= v:
        made.append(Example([m.i(2, 3), m.f(3, low=0, high=3)], {}))
        made.append(Example([m.f(2, 3, low=1, high=2), m.i(3)], {}))
    return made


def old_broadcasts(x, y):
    """Before version 7 the second operand was aligned with an axis of the first one."""
    column = y[0, :, :1]
    return [Example([x, y[0, :, 0]], {"broadcast": 1, "axis": 1}, newer=(7, [x, column], {})),
            Example([x, y[0]], {"broadcast": 1}, newer=(7, [x, y[0]], {})),
            Example([x, y[0, 0, 0]], {"broadcast": 1}, newer=(7, [x, y[0, 0, 0]], {})),
            Example([x, y[0, 0]], {"broadcast": 1, "axis": -1}, newer=(7, [x, y[0, 0]], {}))]


@example(*TRUTHS)
def truth(m, name, v):
    x, y = m.b(2, 3, 4), m.b(2, 3, 4)
    return [Example([x, y], {})] + ([Example([x, y[0, :1]], {})] if 7 <= v else old_broadcasts(x, y))


@example(*BITS)
def bits(m, name, v):
    return [Example([m.i(2, 3, high=200, dtype=t), m.i(3, high=200, dtype=t)], {}) for t in (np.uint8, np.int64)]


@example("Not")
def negation(m, name, v):
    return [Example([m.b(2, 3)], {})]


@example("BitwiseNot")
def bitwise_not(m, name, v):
    return [Example([m.i(2, 3, dtype=np.int32)], {})]


@example("BitShift")
def bit_shift(m, name, v):
    types = [np.uint8, np.uint64] + ([np.int32] if 28 <= v else [])
    return [Example([m.i(2, 3, high=99, dtype=t), m.i(2, 3, dtype=t)], {"direction": d}) for t in types for d in ("LEFT", "RIGHT")]


@example("IsInf")
def is_inf(m, name, v):
    x = m.f(2, 3)
    x[0, 0], x[1, 2] = np.inf, -np.inf
    return [Example([x], {}), Example([x], {"detect_negative": 0})]


@example("Max", "Min", "Sum", "Mean")
def variadic(m, name, v):
    types = [t for t in (np.float32, np.int32, np.int64, np.int8) if takes(name, v, t)]
    shapes = [(2, 3), (2, 3), (2, 3)] if v < 8 else [(2, 3), (3,), (2, 1)]
    made = [Example([m.f(*s, low=-9, high=9).astype(t) for s in shapes], {}) for t in types]
    return made + [Example([m.f(2, 3)], {})]


@example("PRelu")
def prelu(m, name, v):
    x = m.f(2, 3, 4)
    return [Example([x, m.f(3)], {}), Example([x, m.f(1)], {})] if v < 7 else [Example([x, m.f(3, 1)], {}), Example([x, m.f(4)], {})]


@example("Clip")
def clip(m, name, v):
    if v < 11:
        return [Example([m.f(2, 3)], {"min": -0.5, "max": 0.5}), Example([m.f(2, 3)], {})]
    made = [Example([m.f(2, 3), const(-0.5, np.float32), const(0.5, np.float32)], {}), Example([m.f(2, 3), None, m.f()], {})]
    if 12 <= v:
        made += [Example([m.i(2, 3, high=9, dtype=t), const(2, t), const(5, t)], {}) for t in (np.int8, np.int64)]
    return made


@example("Cast")
def cast(m, name, v):
    to = {"FLOAT": 1, "INT32": 6, "BOOL": 9, "DOUBLE": 11, "INT64": 7}
    made = []
    for x, word in [*((m.f(2, 3), word) for word in to), (m.i(2, 3), "FLOAT")]:
        made.append(Example([x], {"to": word if v < 6 else to[word]}, newer=(9, [x], {"to": to[word]})))
    if 19 <= v:
        made += [Example([m.f(2, 3)], {"to": TensorProto.FLOAT8E4M3FN, "saturate": s}) for s in (0, 1)]
    return made


@example("CastLike")
def cast_like(m, name, v):
    return [Example([m.f(2, 3), m.i(1)], {})]


@example("BitCast")
def bit_cast(m, name, v):
    return [Example([m.f(2, 3)], {"to": TensorProto.INT32})]


@example("Where")
def where(m, name, v):
    return [Example([m.b(2, 1), m.f(2, 3), m.f(3)], {}), Example([m.b(2, 3), m.i(2, 3), m.i(1)], {})]


@example("ArgMax", "ArgMin")
def arg(m, name, v):
    made = [Example([m.f(2, 3, 4)], {"axis": 1}), Example([m.i(2, 3, 4, dtype=np.int32)], {"keepdims": 0})]
    if 12 <= v:
        made.append(Example([m.i(2, 3, 4, high=2).astype(np.float32)], {"axis": 2, "select_last_index": 1}))
    return made


@example(*(f"Reduce{kind}" for kind in REDUCTIONS))
def reduction(m, name, v):
    attribute = has(name, v, "axes")
    x = m.f(2, 3, 4, low=0.5, high=2)
    made = [Example([x], {"keepdims": 0}), Example([m.f(low=0.5, high=2)], {"keepdims": 0}), Example([m.f(low=0.5, high=2)], {})]
    if attribute:
        made += [Example([x], {"axes": [1], "keepdims": 0}), Example([x], {"axes": [0, 2]})]
        made += [Example([x], {"axes": [-1]})] if 11 <= v else []
    else:
        made += [Example([x, i64(1)], {"keepdims": 0}), Example([x, i64(0, -1)], {}),
                 Example([x, const([], np.int64)], {}), Example([x, const([], np.int64)], {"noop_with_empty_axes": 1}),
                 Example([x], {"noop_with_empty_axes": 1})]
    made += [Example([m.i(2, 3, low=1, dtype=t)], {}) for t in (np.int32, np.int64, np.int8) if takes(name, v, t) and "Log" not in name
             and name not in ("ReduceL2", "ReduceMean")]
    made += [Example([m.b(2, 3)], {}) for _ in "1" if takes(name, v, bool)]
    return made


@example("Softmax", "LogSoftmax", "Hardmax")
def softmax(m, name, v):
    return [Example([m.f(2, 3, 4)], {}), Example([m.f(2, 3, 4)], {"axis": 1}), Example([m.f(2, 3, 4)], {"axis": 0}), Example([m.f(2, 3)], {"axis": 1})]


@example("CumSum", "CumProd")
def cumulative(m, name, v):
    return [Example([m.f(2, 3), const(1, np.int64)], {}), Example([m.f(2, 3), const(-2, np.int32)], {"exclusive": 1, "reverse": 1})]


@example("Concat")
def concat(m, name, v):
    made = [Example([m.f(2, 3), m.f(2, 1)], {"axis": 1})]
    return made + ([Example([m.f(2, 3), m.f(2, 1)], {})] if v < 4 else [])


@example("Split")
def split(m, name, v):
    if v < 13:
        x, parts = m.f(2, 6), {"axis": 1, "split": [2, 4]}
        made = [Example([x], parts, 2, newer=(2, [x], parts)), Example([m.f(6, 2)], {}, 3)]
        return made if 2 <= v else made[:1] + [Example([x, const([2, 4], np.float32)], {"axis": 1}, 2, newer=(2, [x], parts))]
    made = [Example([m.f(2, 6), i64(2, 4)], {"axis": 1}, 2)]
    return made + [Example([m.f(2, 7)], {"axis": 1, "num_outputs": 3}, 3) if 18 <= v else Example([m.f(6, 2)], {}, 3)]


@example("Slice")
def slices(m, name, v):
    x = m.f(4, 5, 6)
    if v < 10:
        return [Example([x], {"starts": [1, -3], "ends": [3, 1000], "axes": [0, 2]}), Example([x], {"starts": [1], "ends": [-1]})]
    return [Example([x, i64(1, -3), i64(3, 2**31 - 1), i64(0, 2)], {}), Example([x, i64(1), i64(-1)], {}),
            Example([x, const([4, 0], np.int32), const([0, 9], np.int32), const([1, 2], np.int32), const([-2, 2], np.int32)], {}),
            Example([x, i64(-1), i64(-2**63), i64(1), i64(-1)], {})]


@example("Gather")
def gather(m, name, v):
    return [Example([m.f(4, 3), m.i(2, 2, high=4)], {}), Example([m.f(4, 3), m.i(2, high=3, dtype=np.int32)], {"axis": 1})] + (
        [Example([m.f(4, 3), const([-1, 0], np.int64)], {"axis": -1})] if 11 <= v else [])


@example("GatherElements")
def gather_elements(m, name, v):
    return [Example([m.f(4, 3), m.i(2, 3, low=-4, high=4)], {}), Example([m.f(4, 3), m.i(4, 2, high=3, dtype=np.int32)], {"axis": 1})]


@example("GatherND")
def gather_nd(m, name, v):
    return [Example([m.f(4, 3, 2), m.i(5, 2, high=3)], {})] + ([Example([m.f(2, 3, 4), m.i(2, 1, high=3)], {"batch_dims": 1})] if 12 <= v else [])


@example("Scatter", "ScatterElements")
def scatter(m, name, v):
    places = np.array([[0, 2, 1], [3, 0, 2]])
    made = [Example([m.f(4, 3), places, m.f(2, 3)], {}), Example([m.f(4, 3), m.rng.permuted(np.tile(np.arange(3), (4, 1)), axis=1), m.f(4, 3)], {"axis": 1})]
    words = (["add", "mul"] if 16 <= v else []) + (["max", "min"] if 18 <= v else [])
    return made + [Example([m.f(4, 3), m.i(2, 3, high=4), m.f(2, 3)], {"reduction": r}) for r in words]


@example("ScatterND")
def scatter_nd(m, name, v):
    words = (["add", "mul"] if 16 <= v else []) + (["max", "min"] if 18 <= v else [])
    return [Example([m.f(4, 3), np.array([[2], [0]]), m.f(2, 3)], {})] + [
        Example([m.f(4, 3), np.array([[2], [2]]), m.f(2, 3)], {"reduction": r}) for r in words]


@example("TensorScatter")
def tensor_scatter(m, name, v):
    return [Example([m.f(2, 6, 3), m.f(2, 2, 3), np.array([1, 3])], {}), Example([m.f(2, 6, 3), m.f(2, 2, 3), np.array([5, 0])], {"mode": "circular"})]


@example("TopK")
def top_k(m, name, v):
    x = m.rng.permutation(24).reshape(4, 6).astype(np.float32)
    if v < 10:
        return [Example([x], {"k": 2}, 2), Example([x], {"k": 3, "axis": 0}, 2)]
    made = [Example([x, i64(2)], {}, 2), Example([x, i64(3)], {"axis": 0}, 2)]
    if 11 <= v:
        made += [Example([x, i64(2)], {"largest": 0}, 2), Example([x.astype(np.int64), i64(2)], {"axis": -2}, 2)]
    return made


@example("OneHot")
def one_hot(m, name, v):
    return [Example([m.i(2, 3, low=-4, high=4), const(4, np.int64), m.f(2)], {}), Example([m.i(2, 3), i64(5), const([0, 1], np.int64)], {"axis": 1})]


@example("NonZero")
def non_zero(m, name, v):
    return [Example([const(m.b(3, 4))], {}), Example([const(m.i(3, 4, high=2))], {})]


@example("Compress")
def compress(m, name, v):
    return [Example([m.f(3, 4), const([True, False, True])], {"axis": 0}), Example([m.f(3, 4), const([True, False, True, True])], {})]


@example("ReverseSequence")
def reverse_sequence(m, name, v):
    return [Example([m.f(4, 3, 2), np.array([1, 4, 2])], {}), Example([m.f(3, 4), np.array([1, 4, 2])], {"time_axis": 1, "batch_axis": 0})]


@example("Unique")
def unique(m, name, v):
    return [Example([m.i(6).astype(np.float32)], {}, 4)]


@example("Transpose")
def transpose(m, name, v):
    return [Example([m.f(2, 3, 4)], {}), Example([m.f(2, 3, 4)], {"perm": [1, 0, 2]})]


@example("Reshape")
def reshape(m, name, v):
    if v < 5:
        return [Example([m.f(2, 3, 4)], {"shape": [0, -1]})]
    made = [Example([m.f(2, 3, 4), i64(0, -1)], {}), Example([m.f(2, 3, 4), i64(4, 6)], {}), Example([m.f(2, 0), i64(0, 0)], {})]
    return made + ([Example([m.f(2, 0), i64(0, 2)], {"allowzero": 1})] if 14 <= v else [])


@example("Flatten")
def flatten(m, name, v):
    return [Example([m.f(2, 3, 4)], {}), Example([m.f(2, 3, 4)], {"axis": 0})] + ([Example([m.f(2, 3, 4)], {"axis": -1})] if 11 <= v else [])


@example("Squeeze")
def squeeze(m, name, v):
    x = m.f(1, 3, 1)
    return [Example([x], {}), Example([x], {"axes": [0]}) if v < 13 else Example([x, i64(-1)], {})]


@example("Unsqueeze")
def unsqueeze(m, name, v):
    return [Example([m.f(2, 3)], {"axes": [0, 2]}) if v < 13 else Example([m.f(2, 3), i64(0, -1)], {})]


@example("Expand")
def expand(m, name, v):
    return [Example([m.f(3, 1), i64(2, 1, 4)], {})]


@example("Tile")
def tile(m, name, v):
    x = m.f(2, 3)
    if v < 6:
        return [Example([x, const(2, np.float32), const(1, np.float32)], {}, newer=(6, [x, i64(1, 2)], {}))]
    return [Example([x, i64(2, 3)], {})]


@example("Pad")
def pad(m, name, v):
    x = m.f(3, 4)
    if v < 11:
        word = "paddings" if v < 2 else "pads"
        return [Example([x], {word: [1, 0, 2, 3], "value": 0.5}), Example([x], {word: [1, 0, 2, 3], "mode": "edge"}), Example([x], {word: [1, 2, 2, 3], "mode": "reflect"})]
    made = [Example([x, i64(1, 0, 2, 3), const(0.5, np.float32)], {}), Example([x, i64(1, 0, 2, 3)], {"mode": "edge"}),
            Example([x, i64(-1, 0, 2, -2)], {})]
    made += [Example([x, i64(1, 2), None, i64(-1)], {})] if 18 <= v else []
    return made + ([Example([x, i64(1, 0, 2, 3)], {"mode": "wrap"})] if 19 <= v else [])


@example("CenterCropPad")
def center_crop_pad(m, name, v):
    return [Example([m.f(3, 6), i64(5, 3)], {}), Example([m.f(3, 6), i64(4)], {"axes": [1]})]


@example("DepthToSpace")
def depth_to_space(m, name, v):
    return [Example([m.f(1, 8, 2, 3)], {"blocksize": 2})] + ([Example([m.f(1, 8, 2, 3)], {"blocksize": 2, "mode": "CRD"})] if 11 <= v else [])


@example("SpaceToDepth")
def space_to_depth(m, name, v):
    return [Example([m.f(1, 2, 4, 6)], {"blocksize": 2})] + ([Example([m.f(1, 2, 4, 6)], {"blocksize": 2, "mode": "CRD"})] if has(name, v, "mode") else [])


@example("Shape")
def shape(m, name, v):
    return [Example([m.f(2, 3, 4)], {})] + ([Example([m.f(2, 3, 4)], {"start": 1, "end": -1})] if 15 <= v else [])


@example("Size")
def size(m, name, v):
    return [Example([m.f(2, 3, 4)], {})]


@example("Trilu")
def trilu(m, name, v):
    return [Example([m.f(3, 4)], {}), Example([m.f(2, 3, 4), const(1, np.int64)], {"upper": 0})]


@example("Constant")
def constant(m, name, v):
    made = [Example([], {"value": onnx.numpy_helper.from_array(m.f(2, 3))})]
    return made + ([Example([], a) for a in ({"value_floats": [1.0, 2.0]}, {"value_int": 3})] if 12 <= v else [])


@example("ConstantOfShape")
def constant_of_shape(m, name, v):
    return [Example([i64(2, 3)], {}), Example([i64(2, 3)], {"value": onnx.numpy_helper.from_array(np.array([7]))})]


@example("EyeLike")
def eye_like(m, name, v):
    return [Example([m.f(3, 4)], {}), Example([m.f(3, 4)], {"k": 1, "dtype": TensorProto.INT64})]


@example("Range")
def ranges(m, name, v):
    return [Example([const(1, np.int64), const(9, np.int64), const(3, np.int64)], {}), Example([const(t, np.float32) for t in (1, 0, -0.25)], {})]


@example("BlackmanWindow", "HammingWindow", "HannWindow")
def window(m, name, v):
    return [Example([const(7, np.int64)], {}), Example([const(6, np.int64)], {"periodic": 0})]


@example("Dropout")
def dropout(m, name, v):
    return [Example([m.f(2, 3)], {"is_test": 1} if v < 7 else {})] + ([Example([m.f(2, 3)], {}, 2)] if 12 <= v else [])


@example("MatMul")
def matmul(m, name, v):
    return [Example([m.f(2, 3), m.f(3, 4)], {}), Example([m.f(5, 2, 3), m.f(3, 4)], {}), Example([m.f(3), m.f(2, 3, 4)], {})] + (
        [Example([m.i(2, 3, dtype=np.int32), m.i(3, 4, dtype=np.int32)], {})] if 9 <= v else [])


@example("Gemm")
def gemm(m, name, v):
    made = []
    for a, b in ((0, 0), (1, 0), (0, 1), (1, 1)):
        x, y = m.f(*((3, 2) if a else (2, 3))), m.f(*((4, 3) if b else (3, 4)))
        flags = {"transA": a, "transB": b, "alpha": 0.5, "beta": 2.0}
        made.append(Example([x, y, m.f(2, 4)], dict(flags)))
        made.append(Example([x, const(y), const(m.f(4))], {**flags, **({"broadcast": 1} if v < 7 else {})}))
        made.append(Example([x, y, const(m.f(4))], {"transA": a, "transB": b, **({"broadcast": 1} if v < 7 else {})}))
    for one in made if v < 7 else []:
        one.newer = (7, one.inputs, {key: value for key, value in one.attributes.items() if key != "broadcast"})
    return made + ([Example([m.f(3, 2), m.f(3, 4)], {"transA": 1})] if 11 <= v else [])


@example("Einsum")
def einsum(m, name, v):
    return [Example([m.f(2, 3), m.f(4, 3)], {"equation": "ik,jk->ij"}), Example([m.f(2, 3, 4), m.f(2, 5, 4)], {"equation": "bij,bkj->bik"}),
            Example([m.f(2, 3)], {"equation": "ij->ji"}), Example([m.f(3, 3)], {"equation": "ii->i"})]


@example("MatMulInteger")
def matmul_integer(m, name, v):
    x, y = m.i(2, 3, high=200, dtype=np.uint8), m.i(3, 4, low=-99, high=99, dtype=np.int8)
    return [Example([x, y], {}), Example([x, y, const(3, np.uint8), const(-2, np.int8)], {})]


@example("ConvInteger")
def conv_integer(m, name, v):
    x, w = m.i(1, 2, 5, 5, high=200, dtype=np.uint8), m.i(3, 2, 3, 3, high=99, dtype=np.uint8)
    return [Example([x, w], {}), Example([x, w, const(3, np.uint8)], {"pads": [1, 1, 1, 1]})]


def quantized(m):
    return const(0.05, np.float32), const(3, np.uint8)


@example("QLinearMatMul")
def qlinear_matmul(m, name, v):
    (s, z), (t, u), (r, w) = quantized(m), quantized(m), quantized(m)
    return [Example([m.i(2, 3, high=200, dtype=np.uint8), s, z, m.i(3, 4, high=200, dtype=np.uint8), t, u, r, w], {})]


@example("QLinearConv")
def qlinear_conv(m, name, v):
    (s, z), (t, u), (r, w) = quantized(m), quantized(m), quantized(m)
    x, k = m.i(1, 2, 5, 5, high=200, dtype=np.uint8), m.i(3, 2, 3, 3, high=99, dtype=np.uint8)
    return [Example([x, s, z, k, t, u, r, w], {"pads": [1, 1, 1, 1]})]


@example("QuantizeLinear")
def quantize(m, name, v):
    made = [Example([m.f(2, 3), *quantized(m)], {}), Example([m.f(2, 3), const(0.1, np.float32)], {})]
    made += [Example([m.f(2, 3), const([0.1, 0.2, 0.3], np.float32), const([1, -2, 3], np.int8)], {"axis": 1})] if 13 <= v else []
    return made + ([Example([m.f(2, 4), const([[0.1, 0.2], [0.3, 0.4]], np.float32)], {"axis": 1, "block_size": 2})] if 21 <= v else [])


@example("DequantizeLinear")
def dequantize(m, name, v):
    x = m.i(2, 3, high=200, dtype=np.uint8)
    made = [Example([x, *quantized(m)], {})]
    made += [Example([x.astype(np.int8), const([0.1, 0.2, 0.3], np.float32), const([1, -2, 3], np.int8)], {"axis": 1})] if 13 <= v else []
    return made + ([Example([m.i(2, 4, dtype=np.uint8), const([[0.1, 0.2], [0.3, 0.4]], np.float32)], {"axis": 1, "block_size": 2})] if 21 <= v else [])


@example("DynamicQuantizeLinear")
def dynamic_quantize(m, name, v):
    return [Example([m.f(2, 3)], {}, 3)]


@example("Conv")
def conv(m, name, v):
    x = m.f(1, 4, 7, 6)
    made = [Example([x, m.f(6, 4, 3, 3), m.f(6)], {"pads": [1, 0, 1, 2], "strides": [2, 1]}), Example([x, const(m.f(4, 1, 3, 2))], {"group": 4, "dilations": [2, 1]})]
    return made + [Example([x, m.f(6, 4, 3, 3)], {"auto_pad": p, "strides": [2, 2]}) for p in ("SAME_UPPER", "SAME_LOWER", "VALID")] + [Example([m.f(1, 2, 8), m.f(3, 2, 3)], {})]


@example("ConvTranspose")
def conv_transpose(m, name, v):
    x = m.f(1, 4, 5, 4)
    return [Example([x, m.f(4, 3, 3, 3), m.f(3)], {"strides": [2, 1], "pads": [1, 0, 1, 0], "output_padding": [1, 0]}),
            Example([x, m.f(4, 1, 3, 3)], {"group": 2}), Example([x, m.f(4, 3, 3, 3)], {"strides": [2, 2], "auto_pad": "SAME_UPPER"})]


@example("DeformConv")
def deform_conv(m, name, v):
    return [Example([m.f(1, 2, 5, 5), m.f(3, 2, 3, 3), m.f(1, 18, 3, 3)], {"kernel_shape": [3, 3]})]


@example("MaxPool", "AveragePool", "LpPool")
def pool(m, name, v):
    x = m.f(1, 2, 7, 6)
    p = {"p": 3.0 if v < 2 else 3} if name == "LpPool" else {}
    made = [Example([x], {"kernel_shape": [3, 2], "strides": [2, 1], "pads": [1, 0, 1, 1], **p}), Example([x], {"kernel_shape": [3, 3]}),
            Example([x], {"kernel_shape": [3, 3], "strides": [2, 2], "auto_pad": "SAME_UPPER"}), Example([m.f(1, 2, 9)], {"kernel_shape": [3]})]
    if has(name, v, "ceil_mode"):
        made.append(Example([x], {"kernel_shape": [3, 3], "strides": [2, 2], "ceil_mode": 1}))
    # Kernels leave out a window that would begin in the padding; for LpPool onnx's inference counts it.
    if has(name, v, "ceil_mode") and name != "LpPool":
        made += [Example([m.f(1, 2, 9, 8)], {"kernel_shape": [2, 3], "strides": [2, 3], "pads": [0, 1, 0, 1], "ceil_mode": 1})]
    if has(name, v, "dilations"):
        made.append(Example([x], {"kernel_shape": [2, 2], "dilations": [2, 2]}))
    if has(name, v, "count_include_pad"):
        made.append(Example([x], {"kernel_shape": [3, 2], "pads": [1, 0, 1, 1], "count_include_pad": 1}))
    if has(name, v, "storage_order"):
        made.append(Example([x], {"kernel_shape": [3, 3], "strides": [2, 2]}, 2))
    for one in made if v < 7 else []:
        # The reference evaluator counts the padding, which version 1 leaves out.
        one.newer = (7, one.inputs, {**one.attributes, **({"p": 3} if "p" in one.attributes else {})})
    return made


@example("GlobalAveragePool", "GlobalMaxPool", "GlobalLpPool")
def global_pool(m, name, v):
    x = m.f(2, 3, 4, 5)
    if name != "GlobalLpPool":
        return [Example([x], {})]
    return [Example([x], {}, newer=(2, [x], {})), Example([x], {"p": 3.0 if v < 2 else 3}, newer=(2, [x], {"p": 3}))]


@example("MaxRoiPool")
def max_roi_pool(m, name, v):
    return [Example([m.f(1, 2, 6, 6), const([[0, 0, 0, 3, 3], [0, 1, 1, 5, 4]], np.float32)], {"pooled_shape": [2, 2]})]


@example("RoiAlign")
def roi_align(m, name, v):
    return [Example([m.f(1, 2, 6, 6), const([[0, 0, 3, 3], [1, 1, 5, 4]], np.float32), i64(0, 0)], {"output_height": 2, "output_width": 2, "sampling_ratio": 2})]


@example("MaxUnpool")
def max_unpool(m, name, v):
    return [Example([m.f(1, 1, 2, 2), np.array([[[[1, 3], [10, 15]]]])], {"kernel_shape": [2, 2], "strides": [2, 2]})]


@example("LRN")
def lrn(m, name, v):
    return [Example([m.f(1, 5, 3, 3)], {"size": 3}), Example([m.f(1, 5, 3, 3)], {"size": 5, "alpha": 0.1, "beta": 0.5, "bias": 2.0})]


@example("LpNormalization")
def lp_normalization(m, name, v):
    return [Example([m.f(2, 3)], {}), Example([m.f(2, 3)], {"p": 1, "axis": 0})]


@example("MeanVarianceNormalization")
def mean_variance(m, name, v):
    return [Example([m.f(2, 3, 4, 5)], {}), Example([m.f(2, 3, 4, 5)], {"axes": [1, 2]})]


@example("BatchNormalization")
def batch_norm(m, name, v):
    def stats(*shape):
        return [m.f(*shape), m.f(*shape), m.f(*shape), m.f(*shape, low=0.5, high=2)]
    more = {"is_test": 1} if v < 7 else {}
    more = {**more, "consumed_inputs": [0, 0, 0, 1, 1]} if v < 6 else more
    made = [Example([m.f(2, 3, 4, 5), *stats(3)], {"epsilon": 0.01, **more}), Example([m.f(2, 3), *map(const, stats(3))], dict(more))]
    made += [Example([m.f(2, 3, 4), *stats(3, 4)], {"spatial": 0, **more})] if v < 9 else []
    return made + ([Example([m.f(2, 3, 4), *stats(3)], {"training_mode": 1}, 3)] if 14 <= v else [])


@example("InstanceNormalization")
def instance_norm(m, name, v):
    return [Example([m.f(2, 3, 4, 5), m.f(3), m.f(3)], {"epsilon": 0.01})]


@example("GroupNormalization")
def group_norm(m, name, v):
    n = 2 if v < 21 else 4
    return [Example([m.f(2, 4, 3), m.f(n), m.f(n)], {"num_groups": 2})]


@example("LayerNormalization")
def layer_norm(m, name, v):
    return [Example([m.f(2, 3, 4), m.f(4), m.f(4)], {}), Example([m.f(2, 3, 4), m.f(3, 4)], {"axis": 1}, 3)]


@example("RMSNormalization")
def rms_norm(m, name, v):
    return [Example([m.f(2, 3, 4), m.f(4)], {}), Example([m.f(2, 3, 4), m.f(3, 4)], {"axis": 1, "epsilon": 0.1})]


@example("Upsample")
def upsample(m, name, v):
    x = m.f(1, 2, 3, 4)
    words = ["nearest", "bilinear" if v < 7 else "linear"]
    if v < 7:
        return [Example([x], {"height_scale": 2.0, "width_scale": 3.0, "mode": w},
                        newer=(7, [x], {"mode": w.removeprefix("bi"), "scales": [1.0, 1.0, 2.0, 3.0]})) for w in words]
    scales = [1.0, 1.0, 2.0, 1.5]
    return [Example([x] + ([const(scales, np.float32)] if 9 <= v else []), {"mode": w, **({} if 9 <= v else {"scales": scales})}) for w in words]


@example("Resize")
def resize(m, name, v):
    x = m.f(1, 2, 4, 6)
    none = const([], np.float32) if v < 13 else None
    scales = const([1, 1, 2, 1.5], np.float32)
    if v < 11:
        return [Example([x, scales], {"mode": w}) for w in ("nearest", "linear")]
    ways = ["half_pixel", "pytorch_half_pixel", "align_corners", "asymmetric"] + (["tf_half_pixel_for_nn"] if v < 13 else []) + (["half_pixel_symmetric"] if 19 <= v else [])
    made = []
    for way in ways:
        for mode in ("nearest", "linear", "cubic"):
            if (way == "tf_half_pixel_for_nn") and mode != "nearest":
                continue
            words = {"coordinate_transformation_mode": way, "mode": mode}
            made.append(Example([x, none, scales], dict(words)))
            made.append(Example([x, none, none, i64(1, 2, 7, 5)], dict(words)))
    made += [Example([x, none, scales], {"mode": "nearest", "nearest_mode": n}) for n in ("round_prefer_ceil", "floor", "ceil")]
    made += [Example([x, none, none, i64(1, 2, 3, 9)], {"mode": "cubic", "exclude_outside": 1, "cubic_coeff_a": -0.5})]
    made += [Example([x, const([0, 0, 0.1, 0.2, 1, 1, 0.7, 1.1], np.float32), none, i64(1, 2, 3, 9)],
                     {"mode": "linear", "coordinate_transformation_mode": "tf_crop_and_resize", "extrapolation_value": 9.0})]
    if 18 <= v:
        for policy in ("not_larger", "not_smaller", "stretch"):
            for mode in ("nearest", "linear", "cubic"):
                for sizes in ((9, 8), (3, 5)):
                    made.append(Example([x, None, None, i64(*sizes)], {"axes": [2, 3], "mode": mode, "keep_aspect_ratio_policy": policy}))
                made.append(Example([x, None, None, i64(7, 5)], {"axes": [3, 2], "mode": mode, "keep_aspect_ratio_policy": policy, "coordinate_transformation_mode": "asymmetric"}))
        made += [Example([x, None, const([0.6, 0.5], np.float32)], {"axes": [2, 3], "mode": mode, "antialias": 1}) for mode in ("linear", "cubic")]
    return made


@example("GridSample")
def grid_sample(m, name, v):
    modes = ("linear", "nearest", "cubic") if 20 <= v else ("bilinear", "nearest", "bicubic")
    return [Example([m.f(1, 2, 4, 5), m.f(1, 3, 2, 2, low=-1.2, high=1.2)], {"mode": mode, "padding_mode": pad, "align_corners": corners})
            for mode, pad, corners in zip(modes, ("zeros", "border", "reflection"), (0, 1, 0))]


@example("AffineGrid")
def affine_grid(m, name, v):
    return [Example([m.f(1, 2, 3), i64(1, 1, 3, 4)], {}), Example([m.f(1, 2, 3), i64(1, 1, 3, 4)], {"align_corners": 1})]


@example("RNN", "GRU", "LSTM")
def recurrent(m, name, v):
    gates = {"RNN": 1, "GRU": 3, "LSTM": 4}[name]
    hidden, size = 3, 2
    made = []
    for directions, word in ((1, "forward"), (1, "reverse"), (2, "bidirectional")):
        operands = [m.f(4, 2, size), m.f(directions, gates * hidden, size), m.f(directions, gates * hidden, hidden), m.f(directions, 2 * gates * hidden)]
        words = {"hidden_size": hidden, "direction": word}
        old = {"output_sequence": 1} if has(name, v, "output_sequence") else {}
        made.append(Example(operands, {**words, **old}, 2, newer=(7, operands, words)))
    if has(name, v, "linear_before_reset"):
        words = {"hidden_size": hidden, "linear_before_reset": 1}
        made.append(Example(operands := made[0].inputs, {**words, **old}, 2, newer=(7, operands, words)))
    return made


@example("NegativeLogLikelihoodLoss", "SoftmaxCrossEntropyLoss")
def loss(m, name, v):
    x, labels = m.f(3, 5), m.i(3, high=5)
    return [Example([x, labels, m.f(5, low=0.1)], {"reduction": word}) for word in ("none", "sum", "mean")] + [Example([x, labels], {"ignore_index": 1})]


@example("Attention")
def attention(m, name, v):
    return [Example([m.f(1, 2, 3, 4), m.f(1, 2, 5, 4), m.f(1, 2, 5, 4)], {}), Example([m.f(1, 3, 8), m.f(1, 5, 8), m.f(1, 5, 8)], {"q_num_heads": 2, "kv_num_heads": 2})]


@example("RotaryEmbedding")
def rotary(m, name, v):
    return [Example([m.f(1, 2, 3, 4), m.f(5, 2), m.f(5, 2), m.i(1, 3)], {})]


@example("LinearAttention", "CausalConvWithState", "FlexAttention", "SwiGLU", "DFT", "STFT", "MelWeightMatrix", "Col2Im", "Det", "ImageDecoder", "RegexFullMatch", "NonMaxSuppression")
def special(m, name, v):
    signal = m.f(1, 8, 1)
    return {
        "CausalConvWithState": lambda: [
            Example([m.f(1, 2, 5), m.f(2, 1, 3), m.f(2)], {}, 2),
            Example([m.f(1, 2, 5), m.f(2, 1, 3), None, m.f(1, 2, 2)], {"activation": "silu"}, 2),
        ],
        "SwiGLU": lambda: [Example([m.f(2, 3), m.f(2, 3)], {})],
        "DFT": lambda: [Example([signal], ({"axis": 1} if v < 20 else {}) | words) for words in ({}, {"onesided": 1}, {"inverse": 1})],
        "STFT": lambda: [Example([signal, const(2, np.int64), None, const(4, np.int64)], {})],
        "MelWeightMatrix": lambda: [Example([const(n, np.int64) for n in (4, 8, 8000)] + [const(n, np.float32) for n in (10, 3000)], {})],
        "Col2Im": lambda: [Example([m.f(1, 4, 6), i64(3, 4), i64(2, 2)], {})],
        "Det": lambda: [Example([m.f(2, 3, 3)], {})],
        "NonMaxSuppression": lambda: [Example([m.f(1, 4, 4, low=0, high=1), m.f(1, 1, 4, low=0, high=1), i64(3), const([0.5], np.float32)], {})],
    }.get(name, list)()


@example("Bernoulli", "Multinomial", "RandomNormal", "RandomNormalLike", "RandomUniform", "RandomUniformLike")
def random(m, name, v):
    if name in ("RandomNormal", "RandomUniform"):
        return [Example([], {"shape": [2, 3]})]
    return [Example([m.f(2, 3, low=0, high=1)], {})]


def inner_graph(name, nodes, inputs, outputs):
    info = lambda n, t, s: helper.make_tensor_value_info(n, t, s)
    return helper.make_graph(nodes, name, [info(*i) for i in inputs], [info(*o) for o in outputs])


@example("If")
def branches(m, name, v):
    relu = inner_graph("then", [helper.make_node("Relu", ["x0"], ["t"])], [], [("t", 1, [2, 3])])
    neg = inner_graph("else", [helper.make_node("Neg", ["x0"], ["e"])], [], [("e", 1, [2, 3])])
    return [Example([m.f(2, 3), np.array(True)], {"then_branch": relu, "else_branch": neg}, names=["x1"])]


@example("Loop")
def loop(m, name, v):
    nodes = [helper.make_node("Identity", ["c"], ["co"]), helper.make_node("Neg", ["s"], ["so"]), helper.make_node("Abs", ["s"], ["y"])]
    body = inner_graph("body", nodes, [("i", 7, []), ("c", 9, []), ("s", 1, [2, 3])], [("co", 9, []), ("so", 1, [2, 3]), ("y", 1, [2, 3])])
    inputs = [const(3, np.int64), const(True), m.f(2, 3)]
    return [Example(inputs, {"body": body}, 2, newer=(7, inputs, {"body": body}))]


@example("Scan")
def scan(m, name, v):
    nodes = [helper.make_node("Sub", ["s", "x"], ["so"]), helper.make_node("Neg", ["so"], ["y"])]
    body = inner_graph("body", nodes, [("s", 1, [3]), ("x", 1, [3])], [("so", 1, [3]), ("y", 1, [3])])
    if v < 9:
        return [Example([None, m.f(2, 3), m.f(2, 4, 3)], {"body": body, "num_scan_inputs": 1}, 2)]
    return [Example([m.f(3), m.f(4, 3)], {"body": body, "num_scan_inputs": 1}, 2)]


# Operators on strings, sequences and optional values, without numeric tensors as inputs or outputs.
FOREIGN = {"ConcatFromSequence", "ImageDecoder", "Optional", "OptionalGetElement", "OptionalHasElement", "RegexFullMatch", "SequenceAt",
           "SequenceConstruct", "SequenceEmpty", "SequenceErase", "SequenceInsert", "SequenceLength", "SequenceMap", "SplitToSequence",
           "StringConcat", "StringNormalizer", "StringSplit", "TfIdfVectorizer"}


def model_of(name, example, opset):
    """A model of the node alone, and its inputs."""
    names, infos, constants, feeds = [], [], [], {}
    for i, x in enumerate(example.inputs):
        if x is None:
            names.append("")
            continue
        names.append(f"x{i}")
        if isinstance(x, Const):
            constants.append(onnx.numpy_helper.from_array(np.asarray(x), names[-1]))
        else:
            x = np.asarray(x)
            feeds[names[-1]] = x
            infos.append(helper.make_tensor_value_info(names[-1], helper.np_dtype_to_tensor_dtype(x.dtype), x.shape))
    outputs = [f"y{i}" for i in range(example.outputs)]
    node = helper.make_node(name, example.names or names, outputs, **example.attributes)
    graph = helper.make_graph([node], "g", infos, [onnx.ValueInfoProto(name=o) for o in outputs], constants)
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", opset)], ir_version=10 if opset <= 22 else 13)
    inferred = onnx.shape_inference.infer_shapes(model)
    known = {o.name: o for o in [*inferred.graph.output, *inferred.graph.value_info]}
    for o in model.graph.output:
        if o.name in known and known[o.name].type.WhichOneof("value"):
            o.CopyFrom(known[o.name])
    return model, feeds


class Wrong(Exception):
    pass


def by_any(model, feeds, path):
    onnx.save(model, str(path))
    for run in (by_runtime, by_reference):
        try:
            return run(path, feeds), run
        except NotRun:
            continue
    return None, None


def peers(model, feeds, path):
    """The results of a peer, and the function that runs it."""
    found, run = by_any(model, feeds, path)
    if found is not None:
        return found, run
    opset = model.opset_import[0].version
    for newer in [n for n in (7, 8, 9, 10, 11, 13, 14, 18, 21) if opset < n]:
        try:
            converted = onnx.version_converter.convert_version(model, newer)
        except Exception:
            continue
        found, run = by_any(converted, feeds, path)
        if found is not None:
            return found, run
    return None, None


def command(optc, *args):
    done = subprocess.run([str(a) for a in (optc, *args)], capture_output=True, text=True, timeout=LIMIT_S)
    if done.returncode not in (0, 1) or "panicked" in done.stderr:
        raise Wrong(f"exit status {done.returncode}: {done.stderr.strip()[:300]}")
    return done


def accepts(path, full):
    try:
        onnx.checker.check_model(str(path), full_check=full)
        return None
    except Exception as error:
        return str(error)[:300]


def declares(model, found):
    """Declares outputs that inference knows nothing about, with the types of a peer's results."""
    for output in model.graph.output:
        known = output.type.WhichOneof("value") and output.type.tensor_type.HasField("shape")
        value = found.get(output.name)
        if not known and isinstance(value, np.ndarray | np.generic):
            output.CopyFrom(helper.make_tensor_value_info(output.name, helper.np_dtype_to_tensor_dtype(value.dtype), value.shape))


def agree(found, wanted, what):
    for name, value in wanted.items():
        if name not in found:
            raise Wrong(f"{what}: there is no output {name}")
        if not isinstance(value, np.ndarray | np.generic):
            continue
        problem = differs(np.asarray(found[name]), np.asarray(value), np.ones(np.shape(value), bool), 1e-3, 1e-5)
        if problem:
            raise Wrong(f"{what}, {name}: {problem}")


def check(optc, name, version, opset, example, state, folder):
    model, feeds = model_of(name, example, opset)
    path = folder / "model.onnx"
    random = re.match("Random|Bernoulli|Multinomial", name)
    wanted, run = (None, None) if random else expected(name, model, feeds, opset, example, folder / "peer.onnx")
    if wanted is not None:
        declares(model, wanted)
    onnx.save(model, str(path))
    problem = accepts(path, False)
    if problem:
        raise Wrong(f"the example: {problem}")
    full = accepts(path, True) is None
    printed = command(optc, "--pass=", path, "--emit=ir")
    if printed.returncode != 0:
        raise Wrong(f"import: {printed.stderr.strip()[:300]}")
    opaque = [l for l in printed.stdout.splitlines() if '"hbir.opaque"' in l and not re.search(r"onnx\.\w+ = @", l)]
    if opaque and state != "opaque":
        reason = next((l for l in printed.stderr.splitlines() if "opaque-op" in l), "")
        raise Wrong(f"opaque, {state} in docs/onnx-ops.md: {reason[:200]}")
    if not opaque and wanted is not None:
        np.savez(folder / "in.npz", **{k: stored(v) for k, v in feeds.items()})
        done = command(optc, "run", "--pass=", path, *(["--inputs", folder / "in.npz"] if feeds else []), "--output", folder / "out.npz")
        if done.returncode != 0:
            raise Wrong(f"run: {done.stderr.strip()[:300]}")
        with np.load(folder / "out.npz") as found:
            agree(dict(found), wanted, "run")
    for what, options in RUNS:
        output = folder / "out.onnx"
        done = command(optc, *options, path, "-o", output)
        if done.returncode != 0:
            raise Wrong(f"{what}: {done.stderr.strip()[:300]}")
        problem = accepts(output, full)
        if problem:
            raise Wrong(f"{what}: {problem}")
        if wanted is not None:
            try:
                found = peers_of(output, feeds, run)
            except NotRun as error:
                # A peer may run only the newer spelling of an example.
                if example.newer is None:
                    raise Wrong(f"{what}: {str(error)[:300]}") from None
                continue
            agree(found, wanted, what)
    return "opaque" if opaque else "checked" if wanted is None else "same"


def expected(name, model, feeds, opset, example, path):
    """The results of a peer for an example, or for its newer spelling."""
    if example.newer and opset < LEAST:
        newer, inputs, attributes = example.newer
        newer, feeds = model_of(name, dataclasses.replace(example, inputs=inputs, attributes=attributes), newer)
        return by_any(newer, feeds, path)
    found, run = peers(model, feeds, path)
    if found is None and example.newer:
        newer, inputs, attributes = example.newer
        newer, feeds = model_of(name, dataclasses.replace(example, inputs=inputs, attributes=attributes), newer)
        found, run = by_any(newer, feeds, path)
    return found, run


def peers_of(path, feeds, run):
    """The results of a written model, by the peer of the original or by another one."""
    try:
        return run(path, feeds)
    except NotRun:
        found, _ = peers(onnx.load(str(path)), feeds, path.with_name("again.onnx"))
        if found is None:
            raise
        return found


def states():
    """The state of each version of each operator according to docs/onnx-ops.md."""
    found = {}
    words = {"n": "native", "d": "decomposed", "o": "opaque", "x": "given up"}
    inside = False
    for line in (ROOT / "docs/onnx-ops.md").read_text().splitlines():
        if line.startswith("## "):
            inside = line == "## `ai.onnx`"
        cells = [c.strip() for c in line.split("|")[1:-1]]
        if inside and line.startswith("| `"):
            for opset, cell in enumerate(cells[2:-1], 1):
                if cell in words:
                    found[cells[0].strip("`"), opset] = words[cell]
    return found


def entries():
    """Each version of each operator, with the operator sets that it is tested in."""
    all_of = collections.defaultdict(list)
    for schema in onnx.defs.get_all_schemas_with_history():
        if schema.domain == "":
            all_of[schema.name].append((schema.since_version, schema.deprecated))
    for name in sorted(all_of):
        versions = sorted(all_of[name])
        for (since, deprecated), (after, _) in zip(versions, versions[1:] + [(NEWEST + 1, False)]):
            if not deprecated:
                yield name, since, sorted({since, after - 1})


def guarded(optc, name, version, opsets, state, keep):
    results = []
    if name in FOREIGN:
        return [("foreign", name, version, version, "")]
    examples = EXAMPLES[name](Made(name), name, version) if name in EXAMPLES else []
    if not examples:
        outcome = "checked" if state == "opaque" else "wrong"
        return [(outcome, name, version, version, "it has no example")]
    for opset in opsets:
        for number, one in enumerate(examples):
            with tempfile.TemporaryDirectory() as scratch:
                folder = pathlib.Path(scratch)
                if keep is not None:
                    folder = keep / f"{name}-{opset}-{number}"
                    folder.mkdir(parents=True, exist_ok=True)
                what = f"{number} {one.attributes}"
                try:
                    results.append((check(optc, name, version, opset, one, state, folder), name, version, opset, what))
                except Wrong as error:
                    results.append(("wrong", name, version, opset, f"{what}: {error}"))
                except subprocess.TimeoutExpired:
                    results.append(("wrong", name, version, opset, f"{what}: it took longer than {LIMIT_S} s"))
    return results


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("optc", type=pathlib.Path)
    parser.add_argument("--only", default="")
    parser.add_argument("--table", action="store_true")
    parser.add_argument("--keep", type=pathlib.Path)
    parser.add_argument("--jobs", type=int, default=os.cpu_count())
    args = parser.parse_args()
    optc = args.optc.resolve()
    known = states()
    total, bad = collections.Counter(), 0
    chosen = [e for e in entries() if re.search(args.only, f"{e[0]}-{e[1]}")]
    assert chosen, "no version has such a name"
    with concurrent.futures.ThreadPoolExecutor(args.jobs) as pool:
        rows = pool.map(lambda e: guarded(optc, *e, known.get((e[0], e[1]), "missing"), args.keep), chosen)
        for (name, version, _), results in zip(chosen, rows):
            worst = min((r[0] for r in results), key=["wrong", "checked", "opaque", "foreign", "same"].index)
            total[worst] += 1
            for outcome, _, _, opset, line in results:
                if outcome == "wrong":
                    print(f"wrong {name}-{version} in operator set {opset}: {line}", file=sys.stderr, flush=True)
            if args.table:
                print(f"{name} {version} {known.get((name, version))} {worst}", flush=True)
            bad += worst == "wrong"
    print(f"onnx {onnx.__version__}: {len(chosen)} versions of operators, " + ", ".join(f"{n} {o}" for o, n in sorted(total.items())))
    sys.exit(1 if bad else 0)


if __name__ == "__main__":
    main()
