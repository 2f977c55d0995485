#!/usr/bin/env python3
"""Writes a small model for each operator of com.microsoft that import translates, and some with functions of their own.

usage: python contrib_models.py FOLDER

Run them with `onnxruntime_peer.py OPTC FOLDER/*.onnx`; FOLDER/branches has models with branches, which are opaque to
optc's interpreters and go out as they came: `onnx_out.py OPTC FOLDER/branches/*.onnx`.  Needs numpy and onnx.
"""
import itertools
import pathlib
import sys

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper

RNG = np.random.default_rng(0)
FLOAT, U8, I8 = TensorProto.FLOAT, TensorProto.UINT8, TensorProto.INT8


def f32(*shape):
    return (0.5 * RNG.standard_normal(shape)).astype(np.float32)


def u8(*shape):
    return RNG.integers(0, 255, shape).astype(np.uint8)


def scalar(value, dtype=np.float32):
    return np.array(value, dtype)


def model(op, inputs, outputs=("y",), out=FLOAT, **attributes):
    """A node; an input is a shape (of a graph input), an array (an initializer), or None."""
    names, infos, constants = [], [], []
    for i, value in enumerate(inputs):
        name = f"x{i}" if value is not None else ""
        names.append(name)
        if isinstance(value, np.ndarray):
            constants.append(numpy_helper.from_array(value, name))
        elif value is not None:
            dtype, shape = value if isinstance(value[-1], tuple) else (FLOAT, value)
            infos.append(helper.make_tensor_value_info(name, dtype, shape))
    node = helper.make_node(op, names, list(outputs), domain="com.microsoft", **attributes)
    results = [helper.make_tensor_value_info(o, out, None) for o in outputs if o]
    graph = helper.make_graph([node], "g", infos, results, constants)
    opsets = [helper.make_opsetid("", 17), helper.make_opsetid("com.microsoft", 1)]
    made = helper.make_model(graph, opset_imports=opsets)
    made.ir_version = 8
    return made


def models():
    yield "fused_matmul", model("FusedMatMul", [(2, 5, 3), (2, 4, 5)], transA=1, transB=1, alpha=0.5)
    yield "fused_matmul_batch", model("FusedMatMul", [(5, 2, 3), (2, 3, 4)], transBatchA=1)
    yield "fused_matmul_broadcast", model("FusedMatMul", [(2, 7, 3, 5), (4, 5)], transB=1)
    yield "fused_gemm", model("FusedGemm", [(2, 3), (4, 3), (4,)], transB=1, activation="Relu")
    yield "fused_gemm_leaky", model("FusedGemm", [(2, 3), (3, 4)], activation="LeakyRelu", activation_alpha=0.3)
    yield "fused_conv", model("FusedConv", [(1, 3, 5, 5), f32(4, 3, 3, 3), f32(4)], activation="Relu")
    yield "fused_conv_clip", model("FusedConv", [(1, 3, 5, 5), f32(4, 3, 3, 3)], activation="Clip",
                                   activation_params=[-0.1, 0.2])
    yield "bias_gelu", model("BiasGelu", [(2, 3), (3,)])
    yield "fast_gelu", model("FastGelu", [(2, 3)])
    yield "fast_gelu_bias", model("FastGelu", [(2, 3), (3,)])
    yield "gelu", model("Gelu", [(2, 3)])
    yield "quick_gelu", model("QuickGelu", [(2, 3)])
    yield "skip_norm", model("SkipLayerNormalization", [(2, 3, 4), (2, 3, 4), (4,), (4,), (4,)],
                             ("y", "", "", "sum"), epsilon=1e-5)
    yield "skip_norm_rms", model("SkipSimplifiedLayerNormalization", [(2, 3, 4), (2, 3, 4), (4,)],
                                 ("y", "", "", "sum"), epsilon=1e-5)
    yield "attention", model("Attention", [(2, 5, 8), f32(8, 24), f32(24)], num_heads=2)
    yield "attention_causal", model("Attention", [(2, 5, 8), f32(8, 24), f32(24)], num_heads=2, unidirectional=1)
    heads = [(2, 5, 8), (2, 7, 8), (2, 7, 8)]
    yield "multi_head", model("MultiHeadAttention", heads, num_heads=2)
    yield "multi_head_bias", model("MultiHeadAttention", [*heads, (24,)], num_heads=2)
    yield "multi_head_mask", model("MultiHeadAttention", [*heads, None, None, (2, 2, 5, 7)], num_heads=2, scale=0.3)
    angles = [np.arange(10).reshape(2, 5).astype(np.int64), f32(10, 2), f32(10, 2)]
    yield "rotary", model("RotaryEmbedding", [(2, 3, 5, 4), *angles])
    yield "rotary_flat", model("RotaryEmbedding", [(2, 5, 12), *angles], num_heads=3)
    yield "rotary_interleaved", model("RotaryEmbedding", [(2, 3, 5, 4), *angles], interleaved=1)
    point = [scalar(0.02), scalar(120, np.uint8)]
    yield "qlinear_add", model("QLinearAdd", [(U8, (2, 3)), *point, u8(3), *point, *point], out=U8)
    yield "qlinear_mul", model("QLinearMul", [(U8, (2, 3)), *point, u8(3), *point, *point], out=U8)
    yield "qlinear_sigmoid", model("QLinearSigmoid", [(U8, (2, 3)), *point, *point], out=U8)
    yield "qlinear_leaky", model("QLinearLeakyRelu", [(U8, (2, 3)), *point, *point], out=U8)
    yield "qlinear_pool", model("QLinearGlobalAveragePool", [(U8, (2, 3, 4, 4)), *point, scalar(0.017), point[1]],
                                out=U8)
    yield "integer_to_float", model("MatMulIntegerToFloat",
                                    [(U8, (2, 3)), u8(3, 4), scalar(0.1), scalar(0.2), scalar(3, np.uint8),
                                     scalar(100, np.uint8), f32(4)])
    yield "dynamic_quantize", model("DynamicQuantizeMatMul", [(2, 3), u8(3, 4), scalar(0.2), scalar(100, np.uint8)])


def with_functions():
    """Functions that call functions, with attributes, at the top and in a branch."""
    local = helper.make_opsetid("local", 1)
    opsets = [helper.make_opsetid("", 17), local]
    leaky = helper.make_node("LeakyRelu", ["t"], ["y"])
    refers = onnx.AttributeProto(name="alpha", ref_attr_name="slope", type=onnx.AttributeProto.FLOAT)
    leaky.attribute.append(refers)
    turn = [helper.make_node("Transpose", ["x"], ["t"], perm=[1, 0]), leaky]
    turned = helper.make_function("local", "Turn", ["x"], ["y"], turn, opsets, ["slope"])
    inner = helper.make_node("Turn", ["x"], ["m"], domain="local", slope=0.25)
    twice = [inner, helper.make_node("Turn", ["m"], ["y"], domain="local", slope=0.5)]
    functions = [turned, helper.make_function("local", "Twice", ["x"], ["y"], twice, opsets)]

    def made(nodes, inputs, shape):
        infos = [helper.make_tensor_value_info(name, kind, dims) for name, kind, dims in inputs]
        results = [helper.make_tensor_value_info("y", FLOAT, shape)]
        graph = helper.make_graph(nodes, "g", infos, results)
        return helper.make_model(graph, opset_imports=opsets, functions=functions, ir_version=8)

    calls = [helper.make_node("Twice", ["x0"], ["a"], domain="local"), helper.make_node("Relu", ["a"], ["b"]),
             helper.make_node("Turn", ["b"], ["y"], domain="local", slope=0.1)]
    yield "functions", made(calls, [("x0", FLOAT, (2, 3))], (3, 2))
    result = [helper.make_tensor_value_info("z", FLOAT, (2, 3))]
    then = helper.make_graph([helper.make_node("Twice", ["x0"], ["z"], domain="local")], "then", [], result)
    other = helper.make_graph([helper.make_node("Neg", ["x0"], ["z"])], "else", [], result)
    branch = helper.make_node("If", ["x1"], ["y"], then_branch=then, else_branch=other)
    yield "branches/functions", made([branch], [("x0", FLOAT, (2, 3)), ("x1", TensorProto.BOOL, ())], (2, 3))


def main():
    folder = pathlib.Path(sys.argv[1])
    (folder / "branches").mkdir(parents=True, exist_ok=True)
    for name, made in itertools.chain(models(), with_functions()):
        onnx.save(made, str(folder / f"{name}.onnx"))


if __name__ == "__main__":
    main()
