"""Times small generated quantized models in onnxruntime and in `optc bench`, in turns.

`quantized_peers.py [--optc=target/release/optc] [--rounds=N]`. The models are: three convolutions of 28x28 with 64 and
128 channels; grouped and depthwise convolutions of 64 channels (groups of 8 channels, and of 1); and two products of
128 rows by 384x1536 and back. They use `QLinearConv` and `QLinearMatMul`, or float operators between `DequantizeLinear`
and `QuantizeLinear`, or `DynamicQuantizeLinear` and `MatMulInteger`, on signed and unsigned bytes. One thread, elapsed
time, medians over rounds in which each model runs 25 times.
"""

import pathlib
import re
import statistics
import subprocess
import sys
import tempfile
import time

import numpy as np
import onnx
import onnxruntime
from onnx import TensorProto, helper, numpy_helper

RUNS = 25
TYPES = {"u8": (TensorProto.UINT8, np.uint8), "s8": (TensorProto.INT8, np.int8)}
CONVOLUTIONS = [(64, 64, 3), (128, 64, 1), (64, 128, 3)]
PRODUCTS = [(384, 1536), (1536, 384)]
IMAGE, ROWS = [1, 64, 28, 28], [128, 384]


class Model:
    """The nodes and constants of a model whose weights are random."""

    def __init__(self):
        self.random = np.random.default_rng(0)
        self.nodes, self.constants = [], {}

    def node(self, op, inputs, output, **attributes):
        self.nodes.append(helper.make_node(op, inputs, output if isinstance(output, list) else [output], **attributes))

    def constant(self, name, values, dtype=np.float32):
        self.constants[name] = np.asarray(values, dtype)
        return name

    def bytes(self, name, shape, kind):
        dtype = TYPES[kind][1]
        ends = np.iinfo(dtype)
        return self.constant(name, self.random.integers(ends.min, ends.max + 1, size=shape), dtype)

    def saved(self, path, given, made):
        values = [numpy_helper.from_array(array, name) for name, array in self.constants.items()]
        ends = [[helper.make_tensor_value_info(*end)] for end in (given, made)]
        graph = helper.make_graph(self.nodes, path.stem, ends[0], ends[1], values)
        model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 21)], ir_version=10)
        onnx.checker.check_model(model)
        onnx.save(model, path)
        return path


def scales(model, i, n):
    return model.constant(f"ws{i}", model.random.random(n) * 0.001 + 0.0005)


def qlinear(path, kinds, zeros, image):
    """`QLinearConv` with one scale for each channel, or `QLinearMatMul`."""
    model, (kind, wide) = Model(), kinds
    value, scale = "x", model.constant("xs", 0.02)
    zero = model.constant("z", zeros[0], TYPES[kind][1])
    for i, sizes in enumerate(CONVOLUTIONS if image else PRODUCTS):
        shape = [sizes[0], sizes[1], sizes[2], sizes[2]] if image else list(sizes)
        weights = [model.bytes(f"w{i}", shape, wide)]
        channels = image and zeros[1] == 0
        weights.append(scales(model, i, sizes[0]) if channels else model.constant(f"ws{i}", 0.001))
        count = np.full(sizes[0] if channels else (), zeros[1])
        weights.append(model.constant(f"wz{i}", count, TYPES[wide][1]))
        own = model.constant(f"ys{i}", 0.05 if image else 0.3)
        inputs = [value, scale, zero, *weights, own, zero]
        if image:
            inputs.append(model.constant(f"b{i}", model.random.integers(-1000, 1000, size=sizes[0]), np.int32))
            model.node("QLinearConv", inputs, f"y{i}", pads=[sizes[2] // 2] * 4)
        else:
            model.node("QLinearMatMul", inputs, f"y{i}")
        value, scale = f"y{i}", own
    shape, dtype = (IMAGE if image else ROWS), TYPES[kind][0]
    return model.saved(path, ("x", dtype, shape), (value, dtype, shape))


def grouped(path, kinds, zeros, groups):
    """Three `QLinearConv` of 64 channels in groups."""
    model, (kind, wide) = Model(), kinds
    value, scale = "x", model.constant("xs", 0.02)
    zero = model.constant("z", zeros, TYPES[kind][1])
    n = IMAGE[1]
    for i in range(3):
        weights = [model.bytes(f"w{i}", [n, n // groups, 3, 3], wide), scales(model, i, n)]
        weights.append(model.constant(f"wz{i}", np.zeros(n), TYPES[wide][1]))
        own = model.constant(f"ys{i}", 0.05 / groups**0.5)
        bias = model.constant(f"b{i}", model.random.integers(-100, 100, size=n), np.int32)
        model.node("QLinearConv", [value, scale, zero, *weights, own, zero, bias], f"y{i}", pads=[1] * 4, group=groups)
        value, scale = f"y{i}", own
    return model.saved(path, ("x", TYPES[kind][0], IMAGE), (value, TYPES[kind][0], IMAGE))


def around(path, kind, zero, image):
    """Products of floats between `DequantizeLinear` and `QuantizeLinear`."""
    model = Model()
    scale = model.constant("xs", 0.02)
    zero = model.constant("z", zero, TYPES[kind][1])
    value = "x"
    for i, sizes in enumerate(CONVOLUTIONS if image else PRODUCTS):
        shape = [sizes[0], sizes[1], sizes[2], sizes[2]] if image else list(sizes)
        n = sizes[0] if image else sizes[1]
        weights = [model.bytes(f"w{i}", shape, "s8"), scales(model, i, n), model.constant(f"wz{i}", np.zeros(n), np.int8)]
        model.node("DequantizeLinear", [value, scale, zero], f"d{i}")
        model.node("DequantizeLinear", weights, f"dw{i}", axis=0 if image else 1)
        if image:
            model.node("Conv", [f"d{i}", f"dw{i}"], f"p{i}", pads=[sizes[2] // 2] * 4)
        else:
            model.node("MatMul", [f"d{i}", f"dw{i}"], f"p{i}")
        scale = model.constant(f"ys{i}", 0.05 if image else 0.3)
        model.node("QuantizeLinear", [f"p{i}", scale, zero], f"q{i}")
        value = f"q{i}"
    shape, dtype = (IMAGE if image else ROWS), TYPES[kind][0]
    return model.saved(path, ("x", dtype, shape), (value, dtype, shape))


def dynamic(path, wide, zero):
    """`MatMulInteger` of the outputs of `DynamicQuantizeLinear`."""
    model, value = Model(), "x"
    for i, sizes in enumerate(PRODUCTS):
        model.node("DynamicQuantizeLinear", [value], [f"q{i}", f"s{i}", f"z{i}"])
        own = [model.bytes(f"w{i}", list(sizes), wide), f"z{i}", model.constant(f"wz{i}", zero, TYPES[wide][1])]
        model.node("MatMulInteger", [f"q{i}", *own], f"p{i}")
        model.node("Cast", [f"p{i}"], f"c{i}", to=TensorProto.FLOAT)
        model.node("Mul", [f"s{i}", model.constant(f"ws{i}", 0.002)], f"m{i}")
        model.node("Mul", [f"c{i}", f"m{i}"], f"y{i}")
        value = f"y{i}"
    return model.saved(path, ("x", TensorProto.FLOAT, ROWS), (value, TensorProto.FLOAT, ROWS))


def models(folder):
    for image, name in [(True, "qlinear_conv"), (False, "qlinear_matmul")]:
        for kinds, zeros in [(("u8", "s8"), (128, 0)), (("u8", "u8"), (128, 120)), (("s8", "s8"), (3, 0))]:
            yield qlinear(folder / f"{name}_{kinds[0]}{kinds[1]}.onnx", kinds, zeros, image)
    for groups in [8, 64]:
        for kinds, zero in [(("u8", "s8"), 128), (("s8", "s8"), 3)]:
            yield grouped(folder / f"qlinear_groups{groups}_{kinds[0]}{kinds[1]}.onnx", kinds, zero, groups)
    for image, name in [(True, "qdq_conv"), (False, "qdq_matmul")]:
        for kind, zero in [("u8", 128), ("s8", 0)]:
            yield around(folder / f"{name}_{kind}s8.onnx", kind, zero, image)
    yield dynamic(folder / "dynamic_u8s8.onnx", "s8", 0)
    yield dynamic(folder / "dynamic_u8u8.onnx", "u8", 125)


def session(path):
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = options.inter_op_num_threads = 1
    return onnxruntime.InferenceSession(str(path), options, providers=["CPUExecutionProvider"])


def peer(session):
    given = session.get_inputs()[0]
    random = np.random.default_rng(1)
    values = random.integers(0, 127, size=given.shape)
    dtype = {"tensor(uint8)": np.uint8, "tensor(int8)": np.int8}.get(given.type, np.float32)
    values = (values / 127 - 0.5 if dtype == np.float32 else values).astype(dtype)
    times = []
    for _ in range(RUNS):
        start = time.perf_counter()
        session.run(None, {given.name: values})
        times.append((time.perf_counter() - start) * 1e3)
    return statistics.median(times)


def own(optc, path):
    done = subprocess.run([optc, "bench", f"--runs={RUNS}", path], capture_output=True, text=True, check=True)
    return float(re.search(r"median ([\d.]+) ms", done.stdout).group(1))


def main():
    named = dict(a[2:].split("=") for a in sys.argv[1:])
    optc, rounds = named.get("optc", "target/release/optc"), int(named.get("rounds", 4))
    print("| model | onnxruntime ms | optc ms | ratio |\n|---|---|---|---|")
    with tempfile.TemporaryDirectory() as folder:
        for path in models(pathlib.Path(folder)):
            other = session(path)
            turns = [(peer(other), own(optc, path)) for _ in range(rounds)]
            theirs, ours = (statistics.median(t) for t in zip(*turns))
            print(f"| {path.stem} | {theirs:.3f} | {ours:.3f} | {ours / theirs:.2f} |", flush=True)


if __name__ == "__main__":
    main()
