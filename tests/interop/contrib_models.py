#!/usr/bin/env python3
"""Writes a small model for each operator of com.microsoft that import translates, and some models with functions.

usage: python contrib_models.py FOLDER

Run them with `onnxruntime_peer.py OPTC FOLDER/*.onnx`. FOLDER/branches has models with branches, which are opaque to
optc's interpreters and are written unchanged, and models that onnxruntime rounds differently when it optimizes: run
these with `onnx_out.py OPTC FOLDER/branches/*.onnx`.  Needs numpy and onnx.
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


def model(op, inputs, outputs=("y",), out=FLOAT, opset=17, **attributes):
    """A model of one node. An input is a shape (a graph input), an array or a tensor (an initializer), or None."""
    names, infos, constants = [], [], []
    for i, value in enumerate(inputs):
        name = f"x{i}" if value is not None else ""
        names.append(name)
        if isinstance(value, onnx.TensorProto):
            value.name = name
            constants.append(value)
        elif isinstance(value, np.ndarray):
            constants.append(numpy_helper.from_array(value, name))
        elif value is not None:
            dtype, shape = value if isinstance(value[-1], tuple) else (FLOAT, value)
            infos.append(helper.make_tensor_value_info(name, dtype, shape))
    node = helper.make_node(op, names, list(outputs), domain="com.microsoft", **attributes)
    results = [helper.make_tensor_value_info(o, out, None) for o in outputs if o]
    graph = helper.make_graph([node], "g", infos, results, constants)
    opsets = [helper.make_opsetid("", opset), helper.make_opsetid("com.microsoft", 1)]
    made = helper.make_model(graph, opset_imports=opsets)
    made.ir_version = 8 if opset < 21 else 10
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
    packed = [(2, 4, 8), f32(8, 24), f32(24)]
    ends = np.array([3, 2], np.int32)
    mask = np.array([[1, 1, 0, 1], [0, 0, 1, 1]], np.int32)
    long = np.array([[1, 1, 0, 1, 1, 1, 0], [0, 0, 0, 0, 1, 1, 1]], np.int32)
    past, present = (2, 2, 2, 3, 4), ("y", "present")
    for name, index in (("ends", ends), ("bounds", np.array([4, 4, 1, 2], np.int32)), ("mask", mask),
                        ("mask_each", np.stack([mask, 1 - mask, mask, mask], 1))):
        yield f"attention_{name}", model("Attention", [*packed, index], num_heads=2)
    yield "attention_filter", model("Attention", [*packed, mask], num_heads=2, mask_filter_value=-2.0)
    yield "attention_mask_causal", model("Attention", [*packed, mask], num_heads=2, unidirectional=1)
    yield "attention_mask_bias", model("Attention", [*packed, mask, None, (1, 2, 4, 4)], num_heads=2)
    yield "attention_past", model("Attention", [*packed, None, past], present, num_heads=2)
    yield "attention_past_causal", model("Attention", [*packed, long, past], present, num_heads=2, unidirectional=1)
    yield "multi_head_ends", model("MultiHeadAttention", [*heads, None, np.array([6, 3], np.int32)], num_heads=2)
    yield "multi_head_keys", model("MultiHeadAttention", [*heads, (24,), long], num_heads=2)
    yield "multi_head_each", model("MultiHeadAttention", [*heads, None, np.stack([long] * 5, 1)], num_heads=2)
    same = [(2, 4, 8)] * 3
    yield "multi_head_causal", model("MultiHeadAttention", same, num_heads=2, unidirectional=1)
    cache = [(2, 2, 3, 4)] * 2
    yield "multi_head_past", model("MultiHeadAttention", [*same, None, long, None, *cache], ("y", "key", "value"),
                                   num_heads=2, unidirectional=1)
    angles = [np.arange(10).reshape(2, 5).astype(np.int64), f32(10, 2), f32(10, 2)]
    yield "rotary_first", model("RotaryEmbedding", [(2, 3, 5, 4), np.array([3], np.int64), *angles[1:]])
    yield "rotary_first_flat", model("RotaryEmbedding", [(2, 5, 12), np.array([3], np.int64), *angles[1:]], num_heads=3)
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


def grouped_attention():
    """Attention with a cache: prompts, steps of one token and of several, buffers longer than the valid tokens."""
    heads, kv_heads, size = 4, 2, 16
    angles = f32(32, size // 2), f32(32, size // 2)

    def made(batch, tokens, past, total, valid, *, packed=False, rotated=(), more=(), kind=np.float32, **attributes):
        width = (heads + 2 * kv_heads if packed else heads) * size
        code = helper.np_dtype_to_tensor_dtype(np.dtype(kind))
        keys = None if packed else (code, (batch, tokens, kv_heads * size))
        cache = None if past is None else (code, (batch, kv_heads, past, size))
        given = [(code, (batch, tokens, width)), keys, keys, cache, cache, np.array(valid, np.int32), np.array([total], np.int32)]
        tables = [table.astype(kind) for table in rotated] or [None, None]
        return model("GroupQueryAttention", [*given, *tables, *more], ("y", "key", "value"), out=code, num_heads=heads,
                     kv_num_heads=kv_heads, do_rotary=int(bool(rotated)), **attributes)

    yield "grouped", made(1, 5, None, 5, [4])
    yield "grouped_prompt", made(2, 5, None, 5, [4, 4], rotated=angles)
    yield "grouped_buffer", made(2, 5, 9, 5, [4, 4], rotated=angles)
    yield "grouped_step", made(2, 1, 6, 7, [6, 4], rotated=angles)
    yield "grouped_step_buffer", made(2, 1, 9, 7, [6, 4], rotated=angles, scale=0.3)
    yield "grouped_steps", made(1, 3, 6, 9, [8], rotated=angles)
    yield "grouped_packed", made(2, 1, 6, 7, [6, 5], packed=True, rotated=angles, rotary_interleaved=1)
    yield "grouped_part", made(1, 5, None, 5, [4], rotated=(f32(32, 8), f32(32, 8)))
    yield "grouped_window", made(1, 7, None, 7, [6], local_window_size=3)
    yield "grouped_window_step", made(1, 1, 6, 7, [6], local_window_size=3)
    yield "grouped_softcap", made(1, 5, None, 5, [4], softcap=0.5, scale=0.8)
    yield "grouped_smooth", made(1, 5, None, 5, [4], smooth_softmax=1)
    yield "grouped_sink", made(2, 1, 6, 7, [6, 4], more=(None, None, f32(4)))
    yield "grouped_bias", made(2, 1, 6, 7, [6, 5], more=(None, f32(2, 4, 1, 7)))
    yield "grouped_bias_buffer", made(1, 1, 9, 7, [6], more=(None, (1, 1, 1, 7)))
    yield "grouped_all", made(2, 1, 6, 7, [6, 4], causal=0)
    yield "grouped_positions", made(2, 1, 6, 7, [6, 4], rotated=angles, more=(np.array([[5], [3]]),))
    yield "grouped_positions_prompt", made(2, 4, None, 4, [3, 3], rotated=angles, more=(np.array([[2, 3, 4, 5], [0, 1, 2, 3]]),))
    yield "grouped_half", made(2, 1, 6, 7, [6, 4], rotated=angles, kind=np.float16)


def blocks():
    """Weights of a few bits in blocks with scales and zero points, packed or not."""
    def packed(rows, count, bits, zeros, kind=np.float32, block=32):
        scales = (0.1 * RNG.random((rows, count)) + 0.01).astype(kind)
        if zeros == "floats":
            return [scales, (4 * RNG.random((rows, count)) + 6).astype(kind)]
        return [scales, u8(rows, -(-count * bits // 8)) if zeros else None]

    def product(bits, block, columns=96, zeros=False, kind=np.float32, more=(), rows=(2, 3), flat=False, **attributes):
        count, code = -(-columns // block), helper.np_dtype_to_tensor_dtype(np.dtype(kind))
        parameters = packed(8, count, bits, zeros, kind)
        if flat:
            parameters = [p if p is None else p.reshape(-1) for p in parameters]
        given = [(code, (*rows, columns)), u8(8, count, block * bits // 8), *parameters, *more]
        return model("MatMulNBits", given, out=code, K=columns, N=8, bits=bits, block_size=block, **attributes)

    for bits in (2, 4, 8):
        yield f"product_{bits}", product(bits, 16)
        yield f"product_{bits}_zeros", product(bits, 32, zeros=True, more=(None, f32(8)))
        yield f"product_{bits}_part", product(bits, 32, columns=40, zeros=True)
    yield "product_4_floats", product(4, 32, zeros="floats")
    yield "product_2_floats", product(2, 128, columns=256, zeros="floats", rows=())
    yield "product_4_half", product(4, 32, zeros=True, kind=np.float16, rows=(3,))
    yield "product_4_flat", product(4, 256, columns=512, zeros=True, flat=True, accuracy_level=1)
    yield "product_4_groups", product(4, 32, more=(RNG.integers(0, 3, 96).astype(np.int32),))

    def rows_of(bits, zeros, **attributes):
        scales, zeros = packed(10, 4, bits, zeros)
        return model("GatherBlockQuantized", [u8(10, 64 * bits // 8), (TensorProto.INT64, (2, 3)), scales, zeros], bits=bits,
                     block_size=16, **attributes)

    for bits in (2, 4, 8):
        yield f"rows_{bits}", rows_of(bits, False)
        yield f"rows_{bits}_zeros", rows_of(bits, True, quantize_axis=-1)

    def whole(code, gathered, blocked, zeros):
        shape, low = [10, 64, 6], 0 if code == TensorProto.UINT4 else -8
        count = [*shape]
        count[blocked] = -(-shape[blocked] // 16)
        tensor = lambda dims: helper.make_tensor("", code, dims, RNG.integers(low, low + 16, dims).reshape(-1).tolist())
        given = [tensor(shape), RNG.integers(0, shape[gathered], (2, 3)), (0.1 * RNG.random(count)).astype(np.float32)]
        given += [tensor(count)] if zeros else []
        shifted = model("GatherBlockQuantized", given, opset=21, gather_axis=gathered, quantize_axis=blocked, block_size=16)
        shifted.graph.node.append(helper.make_node("Mul", ["y", "x"], ["z"]))
        shifted.graph.input.append(helper.make_tensor_value_info("x", FLOAT, (1,)))
        shifted.graph.output[0].name = "z"
        return shifted

    for code, name in ((TensorProto.UINT4, "unsigned"), (TensorProto.INT4, "signed")):
        for gathered, blocked in ((0, 1), (1, 0), (2, 1), (1, 1)):
            yield f"rows_{name}_{gathered}{blocked}", whole(code, gathered, blocked, zeros=gathered < 2)


def graphs():
    """Operators on rows between transposes, and 4-bit weights that the standard operator dequantizes."""
    def made(nodes, shapes, constants, opset=17):
        infos = [helper.make_tensor_value_info(name, FLOAT, shape) for name, shape in shapes.items()]
        results = [helper.make_tensor_value_info(name, FLOAT, None) for name in nodes[-1].output]
        tensors = [numpy_helper.from_array(v, k) if isinstance(v, np.ndarray) else v for k, v in constants.items()]
        graph = helper.make_graph(nodes, "g", infos, results, tensors)
        opsets = [helper.make_opsetid("", opset), helper.make_opsetid("com.microsoft", 1)]
        return helper.make_model(graph, opset_imports=opsets, ir_version=8 if opset < 21 else 10)

    own = lambda op, inputs, outputs, **attributes: helper.make_node(op, inputs, outputs, domain="com.microsoft", **attributes)
    turn = lambda x, y: helper.make_node("Transpose", [x], [y], perm=[1, 0, 2])
    nodes = [turn("x", "xt"), turn("skip", "st"),
             own("MatMulNBits", ["xt", "w", "s"], ["a"], K=64, N=48, bits=4, block_size=32), own("QuickGelu", ["a"], ["b"]),
             own("BiasGelu", ["b", "bias"], ["c"]), own("FastGelu", ["c"], ["d"]),
             own("SkipSimplifiedLayerNormalization", ["d", "st", "g"], ["e", "", "", "sum"], epsilon=1e-5),
             own("SkipLayerNormalization", ["e", "sum", "g", "bias"], ["f"], epsilon=1e-5),
             turn("f", "y")]
    constants = {"w": u8(48, 2, 16), "s": 0.1 * RNG.random((48, 2)).astype(np.float32), "bias": f32(48), "g": f32(48)}
    yield "turned", made(nodes, {"x": (3, 5, 64), "skip": (3, 5, 48)}, constants)
    four = lambda name, *dims: helper.make_tensor(name, TensorProto.INT4, dims, RNG.integers(-8, 8, dims).reshape(-1).tolist())
    nodes = [helper.make_node("DequantizeLinear", ["w", "s", "z"], ["dense"], axis=0, block_size=16),
             helper.make_node("MatMul", ["x", "dense"], ["y"])]
    constants = {"w": four("w", 64, 6), "s": 0.1 * RNG.random((4, 6)).astype(np.float32), "z": four("z", 4, 6)}
    yield "branches/dequantized_blocks", made(nodes, {"x": (3, 64)}, constants, opset=21)


def with_functions():
    """Functions that call functions, with attributes, at top level and in a branch."""
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
    for name, made in itertools.chain(models(), grouped_attention(), blocks(), graphs(), with_functions()):
        onnx.save(made, str(folder / f"{name}.onnx"))


if __name__ == "__main__":
    main()
