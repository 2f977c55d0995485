#!/usr/bin/env python3
"""Every operator with axes, between every pair of permutations: the result moves no more bytes than the original.

usage: python permuted_operators.py OPTC [--only TEXT] [--target T]... [--all] [--report FILE] [--keep FOLDER] [--jobs N]

An operator of CASES reads operands of rank 3 and 4 with distinct sizes.  For each permutation p of its operand and each
permutation q of its result there is a model: the operand transposed by p, the operator, the result transposed by q.  For
rank 3 there is a second one with named sizes.  The model is written for a target.  The failures are

  refused   nothing was written
  worse     movement, copies and expansions of the result are together more bytes than those of the model
  count     `optc stats` counts other bytes in the result than the summary said
  invalid   onnx.checker refuses the result, with inferred types and shapes
  wrong     onnxruntime does not load the result, or computes other numbers than the operator alone, transposed
  case      onnxruntime does not run the operator alone

Variants of an operator (VARIANTS) have one rank and one target, except with --all.  Results are counted, checked and run
in batches, as parts of one model, and one by one if a batch fails.  Needs numpy, onnx and onnxruntime.  The exit status
is 1 on any failure.
"""
import argparse
import collections
import concurrent.futures
import dataclasses
import itertools
import json
import math
import pathlib
import re
import subprocess
import sys
import tempfile

import numpy as np
import onnx
import onnxruntime
from onnx import TensorProto, helper, numpy_helper

from onnx_out import difference

OPSET, IR = 21, 10
# The number of models that are written, then counted, checked and run as one.
BATCH = 72
LIMIT_S = 120
BYTES = ("movement_bytes", "copy_bytes", "expand_bytes")
# Operators for which a target has rows of its own besides those of `onnx`.
OTHERS = {"onnxruntime": "^(MatMul|Gemm|Einsum)"}
VARIANTS = """Add_other Mul_channel Where_mask Cast Clip LayerNorm_two LpNorm_0 LpNorm_2 LpNorm_3 Softmax_flat LogSoftmax ReduceL2
    Gather_last Gather_arg GatherElements_turned ScatterElements_turned ScatterND_points Trilu_lower Expand_front Pad_reflect Pad_edge
    Concat_other Concat_weight Split_last Slice_steps MatMul_left_weight MatMul_one_batch Conv_1x1 Conv_strided Conv_depthwise
    ConvInteger MaxPool_ceil GlobalMaxPool GlobalLpPool QuantizeLinear DynamicQuantizeLinear Identity Relu Add_row
    DepthToSpace_CRD Resize_cubic GridSample_grid RotaryEmbedding QLinearMatMul DFT""".split()


@dataclasses.dataclass
class Arg:
    """An operand that is an argument, not transposed."""
    value: np.ndarray


@dataclasses.dataclass
class Turned:
    """An operand that is an argument transposed by p."""
    value: np.ndarray


@dataclasses.dataclass
class Case:
    name: str
    kind: str
    operands: list
    attrs: dict
    outputs: int = 1
    domain: str = ""
    opset: int = OPSET
    named: bool = False

    @property
    def rank(self):
        return next(o.value.ndim for o in self.operands if isinstance(o, Turned))


CASES = []
SIZES = {3: (2, 3, 5), 4: (2, 3, 5, 7)}
RNG = np.random.default_rng(38)


def floats(*shape):
    return RNG.standard_normal(shape).astype(np.float32)


def ints(low, high, *shape, dtype=np.int64):
    return RNG.integers(low, high, shape).astype(dtype)


def i64(*values):
    return np.array(values, np.int64)


def case(name, kind, *operands, outputs=1, domain="", opset=OPSET, **attrs):
    CASES.append(Case(name, kind, list(operands), attrs, outputs, domain, opset))


def elementwise(r, s):
    x = floats(*s)
    case(f"Relu_{r}", "Relu", Turned(x))
    case(f"Add_same_{r}", "Add", Turned(x), Turned(floats(*s)))
    case(f"Add_other_{r}", "Add", Turned(x), Arg(floats(*s)))
    case(f"Add_row_{r}", "Add", Turned(x), floats(s[-1]))
    case(f"Mul_channel_{r}", "Mul", Turned(x), floats(s[1], *[1] * (r - 2)))
    case(f"Where_{r}", "Where", Arg(floats(*s) > 0), Turned(x), Turned(floats(*s)))
    case(f"Where_mask_{r}", "Where", floats(s[-2], 1) > 0, Turned(x), np.float32(0))
    case(f"PRelu_{r}", "PRelu", Turned(x), floats(s[1], *[1] * (r - 2)))
    case(f"Cast_{r}", "Cast", Turned(x), to=TensorProto.INT32)
    case(f"Clip_{r}", "Clip", Turned(x), np.float32(-0.5), np.float32(0.5))


def norms(r, s):
    c = (floats(s[1]), floats(s[1]))
    x = floats(*s)
    case(f"BatchNorm_{r}", "BatchNormalization", Turned(x), *c, floats(s[1]), np.abs(floats(s[1])) + 1)
    case(f"InstanceNorm_{r}", "InstanceNormalization", Turned(x), *c)
    six = floats(2, 6, *s[2:])
    case(f"GroupNorm_{r}", "GroupNormalization", Turned(six), floats(6), floats(6), num_groups=3)
    case(f"LayerNorm_last_{r}", "LayerNormalization", Turned(x), floats(s[-1]), floats(s[-1]), axis=-1)
    case(f"LayerNorm_two_{r}", "LayerNormalization", Turned(x), floats(*s[-2:]), axis=-2)
    case(f"RMSNorm_{r}", "RMSNormalization", Turned(x), floats(s[-1]), opset=23)
    for axis in range(r):
        case(f"LpNorm_{axis}_{r}", "LpNormalization", Turned(x), axis=axis, p=2)
    if r == 4:
        case("LRN_4", "LRN", Turned(x), size=3)
    case(f"MeanVarianceNorm_{r}", "MeanVarianceNormalization", Turned(x), axes=[0, *range(2, r)])
    for axis in (1, r - 1):
        case(f"Softmax_{axis}_{r}", "Softmax", Turned(x), axis=axis)
    case(f"LogSoftmax_{r}", "LogSoftmax", Turned(x), axis=1)
    case(f"Hardmax_{r}", "Hardmax", Turned(x), axis=1)
    case(f"Softmax_flat_{r}", "Softmax", Turned(x), axis=1, opset=11)


def reductions(r, s):
    x = floats(*s)
    case(f"ReduceMean_keep_{r}", "ReduceMean", Turned(x), i64(1), keepdims=1)
    case(f"ReduceSum_drop_{r}", "ReduceSum", Turned(x), i64(1), keepdims=0)
    case(f"ReduceMax_two_{r}", "ReduceMax", Turned(x), i64(0, r - 1), keepdims=0)
    case(f"ReduceL2_{r}", "ReduceL2", Turned(x), i64(-1), keepdims=1)
    case(f"ArgMax_keep_{r}", "ArgMax", Turned(x), axis=1, keepdims=1)
    case(f"ArgMin_drop_{r}", "ArgMin", Turned(x), axis=r - 1, keepdims=0)
    case(f"CumSum_{r}", "CumSum", Turned(x), np.int64(1), reverse=1)
    case(f"TopK_{r}", "TopK", Turned(x), i64(2), axis=1, outputs=2)


def indexing(r, s):
    x = floats(*s)
    some = i64(2, 0)
    case(f"Gather_some_{r}", "Gather", Turned(x), some, axis=1)
    case(f"Gather_last_{r}", "Gather", Turned(x), i64(4, 1, 1), axis=r - 1)
    case(f"Gather_scalar_{r}", "Gather", Turned(x), np.int64(1), axis=1)
    if r == 3:
        case("Gather_matrix_3", "Gather", Turned(x), ints(0, 3, 4, 2), axis=1)
    case(f"Gather_arg_{r}", "Gather", Turned(x), Arg(some), axis=1)
    case(f"GatherElements_{r}", "GatherElements", Turned(x), ints(0, 3, s[0], 2, *s[2:]), axis=1)
    case(f"GatherElements_turned_{r}", "GatherElements", Turned(x), Turned(ints(0, 3, *s)), axis=1)
    case(f"GatherND_{r}", "GatherND", Turned(x), i64([0, 2], [1, 0], [1, 1]))
    case(f"GatherND_batch_{r}", "GatherND", Turned(x), ints(0, 3, s[0], 1), batch_dims=1)
    case(f"ScatterElements_{r}", "ScatterElements", Turned(x), np.stack([ints(0, 3, *s[2:])] * s[0])[:, None], Arg(floats(s[0], 1, *s[2:])), axis=1)
    rows = RNG.permuted(np.broadcast_to(np.arange(s[1]).reshape(1, -1, *[1] * (r - 2)), s), axis=1)
    case(f"ScatterElements_turned_{r}", "ScatterElements", Turned(x), Turned(rows.astype(np.int64)), Turned(floats(*s)), axis=1)
    case(f"ScatterND_{r}", "ScatterND", Turned(x), i64([0], [1]), Arg(floats(2, *s[1:])))
    case(f"ScatterND_points_{r}", "ScatterND", Turned(x), i64([0, 2], [1, 0]), floats(2, *s[2:]))
    case(f"Compress_{r}", "Compress", Turned(x), np.array([True, False, True]), axis=1)
    case(f"Trilu_{r}", "Trilu", Turned(x), upper=1)
    case(f"Trilu_lower_{r}", "Trilu", Turned(x), np.int64(1), upper=0)
    case(f"ReverseSequence_{r}", "ReverseSequence", Turned(x), i64(*([3, 2, 1][:s[0]])), batch_axis=0, time_axis=1)
    case(f"NonZero_{r}", "NonZero", Turned((floats(*s) > 0).astype(np.float32)))
    case(f"Unique_{r}", "Unique", Turned(ints(0, 3, *s).astype(np.float32)), axis=1)
    case(f"Unique_flat_{r}", "Unique", Turned(ints(0, 3, *s).astype(np.float32)))
    if r == 3:
        case("OneHot_last_3", "OneHot", Turned(ints(0, 4, *s)), np.int64(4), np.array([0, 1], np.float32), axis=-1)
        case("OneHot_inner_3", "OneHot", Turned(ints(0, 4, *s)), np.int64(4), np.array([0, 1], np.float32), axis=1)


def movement(r, s):
    x = floats(*s)
    each = lambda *values: i64(*([0] * (r - len(values))), *values)
    case(f"Tile_{r}", "Tile", Turned(x), i64(1, 2, *[1] * (r - 3), 3))
    case(f"Expand_{r}", "Expand", Turned(floats(s[0], 1, *s[2:])), i64(*s))
    case(f"Expand_front_{r}", "Expand", Turned(floats(*s[:-1], 1)), i64(*s))
    case(f"Pad_{r}", "Pad", Turned(x), i64(*([0] * (r - 2)), 1, 2, *([0] * (r - 2)), 0, 3), np.float32(1))
    case(f"Pad_negative_{r}", "Pad", Turned(x), i64(*([0] * (r - 2)), -1, 2, *([0] * (r - 2)), 0, -3))
    case(f"Pad_reflect_{r}", "Pad", Turned(x), i64(*([0] * (r - 1)), 1, *([0] * (r - 1)), 2), mode="reflect")
    case(f"Pad_edge_{r}", "Pad", Turned(x), i64(0, 1, *([0] * (r - 2)), 1, *([0] * (r - 1))), mode="edge")
    case(f"Concat_same_{r}", "Concat", Turned(x), Turned(floats(*s)), axis=1)
    case(f"Concat_other_{r}", "Concat", Turned(x), Arg(floats(s[0], 1, *s[2:])), axis=1)
    case(f"Concat_weight_{r}", "Concat", floats(*s[:-1], 2), Turned(x), axis=r - 1)
    case(f"Concat_empty_{r}", "Concat", Turned(x), np.zeros((s[0], 0, *s[2:]), np.float32), axis=1)
    case(f"Split_{r}", "Split", Turned(x), i64(1, 2), axis=1, outputs=2)
    case(f"Split_last_{r}", "Split", Turned(x), axis=r - 1, num_outputs=2, outputs=2)
    case(f"Slice_{r}", "Slice", Turned(x), i64(1), i64(3), i64(1))
    case(f"Slice_steps_{r}", "Slice", Turned(x), i64(-1, 1), i64(-100, 5), i64(1, r - 1), i64(-1, 2))
    case(f"Squeeze_{r}", "Squeeze", Turned(floats(s[0], 1, *s[2:])), i64(1))
    if r == 3:
        case("Unsqueeze_3", "Unsqueeze", Turned(x), i64(1))
    case(f"Flatten_{r}", "Flatten", Turned(x), axis=1)
    case(f"Flatten_two_{r}", "Flatten", Turned(x), axis=2)
    case(f"Reshape_merge_{r}", "Reshape", Turned(x), i64(*s[:-2], s[-2] * s[-1]))
    case(f"Reshape_split_{r}", "Reshape", Turned(floats(*s[:1], 6, *s[2:])), i64(s[0], 2, 3 * math.prod(s[2:])))
    case(f"Identity_{r}", "Identity", Turned(x))
    if r == 4:
        for mode in ("DCR", "CRD"):
            case(f"DepthToSpace_{mode}_4", "DepthToSpace", Turned(floats(2, 12, 3, 5)), blocksize=2, mode=mode)
        case("SpaceToDepth_4", "SpaceToDepth", Turned(floats(2, 3, 4, 10)), blocksize=2)


def products(r, s):
    x = floats(*s)
    k = s[-1]
    case(f"MatMul_weight_{r}", "MatMul", Turned(x), floats(k, 4))
    case(f"MatMul_left_weight_{r}", "MatMul", floats(4, s[-2]), Turned(x))
    case(f"MatMul_small_left_{r}", "MatMul", Arg(floats(1, s[-2])), Turned(x))
    case(f"MatMul_vector_{r}", "MatMul", Turned(x), floats(k))
    case(f"MatMul_vector_left_{r}", "MatMul", Arg(floats(s[-2])), Turned(x))
    case(f"MatMul_batched_{r}", "MatMul", Turned(x), Arg(floats(*s[:-2], k, 4)))
    case(f"MatMul_both_{r}", "MatMul", Turned(floats(*s[:-1], s[-2])), Turned(x))
    case(f"MatMul_one_batch_{r}", "MatMul", Turned(x), Arg(floats(*[1] * (r - 2), k, 4)))
    case(f"MatMulInteger_{r}", "MatMulInteger", Turned(ints(0, 255, *s, dtype=np.uint8)), ints(-128, 127, k, 4, dtype=np.int8), np.uint8(3))
    if r == 3:
        case("Einsum_bij_3", "Einsum", Turned(x), floats(4, k), equation="bij,kj->bik")
        case("Einsum_sum_3", "Einsum", Turned(x), Arg(floats(2, 4)), equation="bij,bk->jki")
    else:
        case("Einsum_heads_4", "Einsum", Turned(x), Arg(floats(2, 3, 4, 7)), equation="bhid,bhjd->bhij")
        case("Einsum_heads_last_4", "Einsum", Turned(x), Arg(floats(2, 4, 5, 7)), equation="bqhd,bkhd->bhqk")


def windows(r, s):
    n, c = s[:2]
    space = [1] * (r - 2)
    larger = floats(n, 4, *[v + 4 for v in s[2:]])
    case(f"Conv_{r}", "Conv", Turned(larger), floats(6, 4, *[3] * (r - 2)), floats(6))
    case(f"Conv_1x1_{r}", "Conv", Turned(larger), floats(6, 4, *space))
    case(f"Conv_strided_{r}", "Conv", Turned(larger), floats(6, 2, *[3] * (r - 2)), group=2, strides=[2] * (r - 2), pads=[1] * 2 * (r - 2))
    case(f"Conv_depthwise_{r}", "Conv", Turned(larger), floats(4, 1, *[3] * (r - 2)), group=4)
    case(f"ConvTranspose_{r}", "ConvTranspose", Turned(larger), floats(4, 3, *[2] * (r - 2)), strides=[2] * (r - 2))
    case(f"ConvInteger_{r}", "ConvInteger", Turned(ints(0, 255, *larger.shape, dtype=np.uint8)), ints(0, 255, 3, 4, *[2] * (r - 2), dtype=np.uint8), np.uint8(7))
    case(f"MaxPool_{r}", "MaxPool", Turned(larger), kernel_shape=[3] * (r - 2), strides=[2] * (r - 2))
    case(f"MaxPool_ceil_{r}", "MaxPool", Turned(larger), kernel_shape=[3] * (r - 2), strides=[2] * (r - 2), ceil_mode=1)
    case(f"MaxPool_indices_{r}", "MaxPool", Turned(larger), kernel_shape=[2] * (r - 2), outputs=2)
    case(f"AveragePool_{r}", "AveragePool", Turned(larger), kernel_shape=[2] * (r - 2), pads=[1] * 2 * (r - 2), count_include_pad=1)
    case(f"LpPool_{r}", "LpPool", Turned(larger), kernel_shape=[2] * (r - 2))
    for kind in ("GlobalAveragePool", "GlobalMaxPool", "GlobalLpPool"):
        case(f"{kind}_{r}", kind, Turned(larger))
    twice = np.array([1, 1, *[2] * (r - 2)], np.float32)
    case(f"Resize_nearest_{r}", "Resize", Turned(floats(*s)), None, twice)
    case(f"Resize_linear_{r}", "Resize", Turned(floats(*s)), None, None, i64(*s[:2], *[v + 3 for v in s[2:]]), mode="linear", coordinate_transformation_mode="align_corners")
    if r == 4:
        case("Resize_cubic_4", "Resize", Turned(floats(*s)), None, twice, mode="cubic")
        case("GridSample_4", "GridSample", Turned(floats(*s)), Arg(RNG.uniform(-1, 1, (2, 4, 6, 2)).astype(np.float32)))
        case("GridSample_grid_4", "GridSample", Arg(floats(2, 4, 6, 5)), Turned(RNG.uniform(-1, 1, (2, 3, 5, 2)).astype(np.float32)))
        boxes = np.array([[0, 0, 3, 3], [1, 1, 4, 2]], np.float32)
        case("RoiAlign_4", "RoiAlign", Turned(floats(*s)), boxes, i64(0, 1), output_height=2, output_width=3, sampling_ratio=2)
        case("MaxRoiPool_4", "MaxRoiPool", Turned(floats(*s)), np.array([[0, 0, 0, 3, 3]], np.float32), pooled_shape=[2, 2])
        case("Col2Im_3", "Col2Im", Turned(floats(2, 12, 6)), i64(3, 4), i64(2, 2))
        case("QLinearConv_4", "QLinearConv", Turned(ints(0, 255, *larger.shape, dtype=np.uint8)), np.float32(0.02), np.uint8(128),
             ints(0, 255, 3, 4, 3, 3, dtype=np.uint8), np.float32(0.03), np.uint8(120), np.float32(0.2), np.uint8(100))


def quantized(r, s):
    scales = np.abs(floats(s[1])) * 0.05 + 0.02
    zeros = ints(100, 150, s[1], dtype=np.uint8)
    x = floats(*s)
    case(f"QuantizeLinear_axis_{r}", "QuantizeLinear", Turned(x), scales, zeros, axis=1)
    case(f"DequantizeLinear_axis_{r}", "DequantizeLinear", Turned(ints(0, 255, *s, dtype=np.uint8)), scales, zeros, axis=1)
    case(f"QuantizeLinear_{r}", "QuantizeLinear", Turned(x), np.float32(0.03), np.uint8(128))
    case(f"DynamicQuantizeLinear_{r}", "DynamicQuantizeLinear", Turned(x), outputs=3)


def matrices():
    a = floats(5, 3)
    case("Gemm_2", "Gemm", Turned(a), floats(3, 4), floats(4))
    case("Gemm_trans_2", "Gemm", Turned(a), floats(4, 5), floats(4), transA=1, transB=1, alpha=0.5)
    case("Gemm_right_2", "Gemm", Arg(floats(4, 5)), Turned(a), floats(4, 1), beta=2.0)
    case("Gemm_both_2", "Gemm", Turned(a), Turned(floats(5, 3)), transB=1)
    case("MatMul_2", "MatMul", Turned(a), floats(3, 4))
    case("Softmax_2", "Softmax", Turned(a), axis=0)


def attention(r, s):
    if r == 4:
        q, k, v = floats(2, 3, 5, 4), floats(2, 3, 7, 4), floats(2, 3, 7, 6)
        case("Attention_4", "Attention", Turned(q), Turned(k), Turned(v), opset=23)
        case("RotaryEmbedding_4", "RotaryEmbedding", Turned(q), floats(2, 5, 2), floats(2, 5, 2), opset=23)
    else:
        q, k, v = floats(2, 5, 12), floats(2, 7, 12), floats(2, 7, 18)
        case("Attention_3", "Attention", Turned(q), Arg(k), Arg(v), q_num_heads=3, kv_num_heads=3, opset=23)
        case("RotaryEmbedding_3", "RotaryEmbedding", Turned(q), floats(2, 5, 2), floats(2, 5, 2), num_heads=3, opset=23)
        case("SkipLayerNorm_3", "SkipLayerNormalization", Turned(q), Turned(floats(2, 5, 12)), floats(12), floats(12), domain="com.microsoft")
    case(f"QLinearMatMul_{r}", "QLinearMatMul", Turned(ints(0, 255, *s, dtype=np.uint8)), np.float32(0.02), np.uint8(128),
         ints(0, 255, s[-1], 4, dtype=np.uint8), np.float32(0.03), np.uint8(120), np.float32(0.2), np.uint8(100))
    case(f"DFT_{r}", "DFT", Turned(floats(*s[:-1], 2)), None, np.int64(1), opset=20)
    case(f"Loss_{r}", "SoftmaxCrossEntropyLoss", Turned(floats(*s)), Arg(ints(0, s[1], s[0], *s[2:])), reduction="none")


def sequences(r, s):
    if r != 3:
        return
    x, h = floats(5, 2, 3), 4
    for kind, gates, outputs in (("RNN", 1, 2), ("GRU", 3, 2), ("LSTM", 4, 3)):
        case(f"{kind}_3", kind, Turned(x), floats(1, gates * h, 3), floats(1, gates * h, h), hidden_size=h, outputs=outputs)
    case("GRU_both_3", "GRU", Turned(x), floats(2, 12, 3), floats(2, 12, h), hidden_size=h, direction="bidirectional", outputs=2)


for rank, sizes in SIZES.items():
    for family in (elementwise, norms, reductions, indexing, movement, products, windows, quantized, attention, sequences):
        family(rank, sizes)
matrices()
CASES += [dataclasses.replace(it, name=it.name + "_named", named=True) for it in CASES if it.rank == 3]


def is_variant(it):
    """True if the operator is already tested in a similar form."""
    return it.rank == 4 and it.name.removesuffix("_4") in VARIANTS


# ---- models ----

def model_of(nodes, arguments, results, initializers, it):
    def info(name, value, named):
        # Equal sizes have one name.
        shape = [f"s{d}" if named and 1 < d else d for d in value.shape]
        return helper.make_tensor_value_info(name, helper.np_dtype_to_tensor_dtype(value.dtype), shape)
    infos = [info(n, v, it.named) for n, v in arguments.items()]
    outs = [info(n, v, False) for n, v in results.items()]
    for out in outs if it.named else []:
        for dim in out.type.tensor_type.shape.dim:
            dim.ClearField("value")
    given = [numpy_helper.from_array(np.asarray(v), n) for n, v in initializers.items()]
    opsets = [helper.make_opsetid("", it.opset), *([helper.make_opsetid(it.domain, 1)] if it.domain else [])]
    graph = helper.make_graph(nodes, "permuted", infos, outs, given)
    return helper.make_model(graph, opset_imports=opsets, ir_version=IR)


def operator(it):
    """The node, its arguments and its initializers by name."""
    names, arguments, initializers = [], {}, {}
    for i, operand in enumerate(it.operands):
        names.append("" if operand is None else f"a{i}")
        if isinstance(operand, (Arg, Turned)):
            arguments[f"a{i}"] = operand
        elif operand is not None:
            initializers[f"a{i}"] = operand
    node = helper.make_node(it.kind, names, [f"r{i}" for i in range(it.outputs)], domain=it.domain, **it.attrs)
    return node, arguments, initializers


def run(model, inputs):
    options = onnxruntime.SessionOptions()
    options.log_severity_level = 4
    options.intra_op_num_threads = 1
    options.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_DISABLE_ALL
    here = onnxruntime.InferenceSession(model.SerializeToString(), options, providers=["CPUExecutionProvider"])
    names = [o.name for o in here.get_outputs()]
    return dict(zip(names, here.run(names, inputs)))


def alone(it):
    """The results of the operator on its untransposed operands."""
    node, arguments, initializers = operator(it)
    results = {name: np.zeros(()) for name in node.output}
    model = model_of([node], {n: a.value for n, a in arguments.items()}, results, initializers, it)
    for info in model.graph.output:
        info.ClearField("type")
    model = onnx.shape_inference.infer_shapes(model, check_type=True)
    return run(model, {n: a.value for n, a in arguments.items()})


def permuted(it, wanted, p, q):
    """The model for two permutations, its inputs and its outputs."""
    node, arguments, initializers = operator(it)
    nodes, inputs, before = [], {}, {}
    for name, operand in arguments.items():
        turned = isinstance(operand, Turned) and operand.value.ndim == len(p)
        if turned:
            nodes.append(helper.make_node("Transpose", [f"x_{name}"], [name], perm=p))
        inputs[f"x_{name}" if turned else name] = operand.value.transpose(np.argsort(p)).copy() if turned else operand.value
    nodes.append(node)
    for name, value in wanted.items():
        turned = value.ndim == len(q)
        if turned:
            nodes.append(helper.make_node("Transpose", [name], [f"y_{name}"], perm=q))
        before[f"y_{name}" if turned else name] = value.transpose(q) if turned else value
    return model_of(nodes, inputs, before, initializers, it), inputs, before


def pairs(it, wanted):
    rank = next(iter(wanted.values())).ndim
    return list(itertools.product(itertools.permutations(range(it.rank)), itertools.permutations(range(rank))))


def merged(models):
    """Models side by side as one model; the names of each begin with its number."""
    whole = onnx.ModelProto()
    whole.CopyFrom(models[0])
    domains = {o.domain: o.version for m in models for o in m.opset_import}
    del whole.opset_import[:]
    whole.opset_import.extend(helper.make_opsetid(d, v) for d, v in domains.items())
    whole.ClearField("graph")
    graph = whole.graph
    graph.name = "merged"
    for i, model in enumerate(models):
        new = lambda name: name and f"{i}_{name}"
        for node in model.graph.node:
            made = graph.node.add()
            made.CopyFrom(node)
            made.name = new(node.name)
            made.input[:] = map(new, node.input)
            made.output[:] = map(new, node.output)
        for there, here in ((graph.input, model.graph.input), (graph.output, model.graph.output),
                            (graph.initializer, model.graph.initializer), (graph.value_info, model.graph.value_info)):
            for item in here:
                made = there.add()
                made.CopyFrom(item)
                made.name = new(item.name)
    return whole


# ---- checks ----

@dataclasses.dataclass
class Written:
    """A written model and its original."""
    pair: tuple
    path: pathlib.Path
    model: onnx.ModelProto
    inputs: dict
    wanted: dict
    before: int
    after: int


def summed(figures):
    return sum(figures[name] for name in BYTES)


def counted(optc, path):
    done = subprocess.run([optc, "stats", "--json", path], capture_output=True, text=True, timeout=LIMIT_S)
    assert done.returncode == 0, f"optc stats: {done.stderr[:300]}"
    return summed(json.loads(done.stdout))


def verdict(optc, folder, written):
    """The failure of written models, taken as one; None if there is none."""
    whole = merged([w.model for w in written])
    path = folder / "merged.onnx"
    onnx.save(whole, path)
    try:
        onnx.checker.check_model(whole, full_check=True)
    except Exception as error:
        return "invalid", f"onnx.checker: {str(error)[:200]}"
    after = counted(optc, path)
    if after != sum(w.after for w in written):
        return "count", f"{after} bytes counted in the result, {sum(w.after for w in written)} said"
    try:
        found = run(whole, {f"{i}_{n}": v for i, w in enumerate(written) for n, v in w.inputs.items()})
    except Exception as error:
        return "wrong", f"onnxruntime: {str(error)[:200]}"
    for i, w in enumerate(written):
        for name, value in w.wanted.items():
            why = difference(found.get(f"{i}_{name}"), value)
            if why:
                return "wrong", f"{name}: {why}"
    return None


def one_by_one(optc, folder, written):
    """The failures of written models, found by bisection."""
    found = verdict(optc, folder, written)
    if found is None:
        return []
    if len(written) == 1:
        return [(found[0], written[0].pair, found[1])]
    half = len(written) // 2
    return one_by_one(optc, folder, written[:half]) + one_by_one(optc, folder, written[half:])


def batch(optc, target, it, wanted, of, keep):
    """The failures of some pairs of an operator, and the bytes before and after."""
    failures, written = [], []
    with tempfile.TemporaryDirectory() as scratch:
        folder = pathlib.Path(scratch)
        for p, q in of:
            model, inputs, results = permuted(it, wanted, p, q)
            source, output = folder / "in.onnx", folder / "out.onnx"
            if keep:
                stem = f"{it.name}-{''.join(map(str, p))}-{''.join(map(str, q))}"
                source, output = keep / f"{stem}.onnx", keep / f"{stem}.{target}.onnx"
            onnx.save(model, source)
            done = subprocess.run([optc, source, f"--target={target}", "-o", output, "--json"], capture_output=True, text=True, timeout=LIMIT_S)
            if done.returncode != 0:
                failures.append(("refused", (p, q), " ".join(done.stderr.split())[:200]))
                continue
            said = json.loads(done.stdout)
            made = Written((p, q), output, onnx.load(output), inputs, results, summed(said["before"]), summed(said["after"]))
            if made.before < made.after:
                failures.append(("worse", (p, q), f"{made.before} -> {made.after} bytes"))
            written.append(made)
        if written:
            failures += one_by_one(optc, folder, written)
    return failures, sum(w.before for w in written), sum(w.after for w in written)


def check(optc, target, it, keep):
    """All pairs of one operator: their number, the failures, and the bytes before and after."""
    try:
        wanted = alone(it)
    except Exception as error:
        return 0, [("case", ((), ()), f"the operator alone: {str(error)[:200]}")], 0, 0
    of, failures, before, after = pairs(it, wanted), [], 0, 0
    for start in range(0, len(of), BATCH):
        found = batch(optc, target, it, wanted, of[start:start + BATCH], keep)
        failures += found[0]
        before, after = before + found[1], after + found[2]
    return len(of), failures, before, after


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("optc", type=pathlib.Path)
    parser.add_argument("--only", default="")
    parser.add_argument("--target", action="append")
    parser.add_argument("--all", action="store_true")
    parser.add_argument("--report", type=pathlib.Path)
    parser.add_argument("--keep", type=pathlib.Path)
    parser.add_argument("--jobs", type=int, default=2)
    args = parser.parse_args()
    if args.keep:
        args.keep.mkdir(parents=True, exist_ok=True)
    optc = args.optc.resolve()
    taken = [it for it in CASES if args.all or not is_variant(it)]
    work = [("onnx", it) for it in taken]
    work += [(target, it) for target, of in OTHERS.items() for it in taken if re.search(of, it.name) and (args.all or it.rank == 3)]
    if args.target:
        work = [(target, it) for target in args.target for it in taken]
    work = [(target, it) for target, it in work if re.search(args.only, it.name)]
    assert work, "no operator has such a name"
    total, kinds, lines = 0, collections.Counter(), []
    with concurrent.futures.ProcessPoolExecutor(args.jobs) as pool:
        # Operators with the most pairs come first, so that none of them remains for the end.
        work.sort(key=lambda w: -w[1].rank)
        results = pool.map(check, *zip(*((optc, target, it, args.keep) for target, it in work)))
        for (target, it), (n, failures, before, after) in zip(work, results):
            total += n
            of = collections.Counter(kind for kind, _, _ in failures)
            kinds.update(of)
            first = {kind: (pair, line) for kind, pair, line in reversed(failures)}
            for kind, (pair, line) in first.items():
                p, q = ("".join(map(str, axes)) for axes in pair)
                lines.append(f"{it.name:28} {target:12} {kind:8} {of[kind]:5} of {n:4}, first {p} {q}: {line}")
                print(lines[-1], file=sys.stderr, flush=True)
    said = ", ".join(f"{n} {kind}" for kind, n in sorted(kinds.items())) or "no failure"
    summary = f"onnxruntime {onnxruntime.__version__}: {len(work)} operators, {total} pairs of permutations: {said}"
    print(summary)
    if args.report:
        args.report.write_text("\n".join([summary, "", *sorted(lines, key=lambda l: (l.split()[2], l))]) + "\n")
    sys.exit(1 if kinds else 0)


if __name__ == "__main__":
    main()
