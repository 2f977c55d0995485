#!/usr/bin/env python3
"""Models with unnamed input sizes, or with computed shapes, run as in onnxruntime.

usage: python open_sizes.py OPTC [NAME ...]

Each model is made here. optc must import it without an opaque operator (`If`, `Loop` and `Scan` run functions), and
compute the same as onnxruntime at two sizes: on logical tensors as imported, and in buffers after the fold.
"""
import pathlib
import re
import subprocess
import sys
import tempfile

import numpy as np
import onnx
import onnxruntime
from onnx import TensorProto, helper, numpy_helper

F, I, B = TensorProto.FLOAT, TensorProto.INT64, TensorProto.BOOL
FAR = [10**9, 2**31 - 1, 2**63 - 1]


def value(name, shape, elem=F):
    return helper.make_tensor_value_info(name, elem, shape)


class Model:
    def __init__(self):
        self.nodes, self.weights, self.rng = [], [], np.random.default_rng(3)

    def op(self, kind, *inputs, outputs=1, **attributes):
        names = [f"v{len(self.nodes)}_{i}" for i in range(outputs)]
        self.nodes.append(helper.make_node(kind, list(inputs), names, **attributes))
        return names[0] if outputs == 1 else names

    def const(self, array):
        name = f"w{len(self.weights)}"
        self.weights.append(numpy_helper.from_array(np.asarray(array), name))
        return name

    def ints(self, *numbers):
        return self.const(np.array(numbers, np.int64))

    def weight(self, *shape):
        return self.const(self.rng.normal(size=shape).astype(np.float32) / 2)

    def size(self, x, axis):
        return self.op("Gather", self.op("Shape", x), self.ints(axis), axis=0)

    def scalar(self, x):
        return self.op("Squeeze", x, self.ints(0))

    def made(self, inputs, output):
        outputs = [output] if isinstance(output, str) else output
        outputs = [onnx.ValueInfoProto(name=name) for name in outputs]
        graph = helper.make_graph(self.nodes, "g", inputs, outputs, self.weights)
        opsets = [helper.make_opsetid("", 17), helper.make_opsetid("com.microsoft", 1)]
        model = helper.make_model(graph, opset_imports=opsets, ir_version=8)
        return onnx.shape_inference.infer_shapes(model)


def graph(name, nodes, inputs, outputs, weights=()):
    return helper.make_graph(nodes, name, inputs, [onnx.ValueInfoProto(name=o) for o in outputs], list(weights))


def floats(*shape):
    return np.random.default_rng(sum(shape)).normal(size=shape).astype(np.float32)


def product():
    m = Model()
    y = m.op("MatMul", m.op("Transpose", "x", perm=[0, 2, 1]), m.weight(8, 5))
    return m.made([value("x", [None, 8, None])], y), [{"x": floats(2, 8, 3)}, {"x": floats(1, 8, 7)}]


def computed_reshape():
    m = Model()
    p = m.op("GlobalAveragePool", "x")
    batch = m.op("Slice", m.op("Shape", p), m.ints(0), m.ints(1))
    y = m.op("Relu", m.op("Reshape", p, m.op("Concat", batch, m.ints(4), axis=0)))
    return m.made([value("x", [None, 4, None, None])], y), [{"x": floats(2, 4, 3, 5)}, {"x": floats(1, 4, 6, 2)}]


def slices_to_the_end():
    m = Model()
    x = "x"
    for far in FAR:
        x = m.op("Slice", x, m.ints(0), m.ints(far), m.ints(0))
    rows = m.size("x", 0)
    most = m.op("Reshape", m.op("ReduceMax", x, axes=[1], keepdims=0), m.op("Concat", rows, m.ints(1), axis=0))
    e = m.op("Exp", m.op("MatMul", m.op("Sub", x, most), m.weight(4, 3)))
    total = m.op("Reshape", m.op("ReduceSum", e, m.ints(1), keepdims=0), m.op("Concat", rows, m.ints(1), axis=0))
    return m.made([value("x", ["N", 4])], m.op("Div", e, total)), [{"x": floats(5, 4)}, {"x": floats(2, 4)}]


def sum_with_an_upsampled_pool():
    m = Model()
    x = m.op("MaxPool", "x", kernel_shape=[3, 3], pads=[1, 1, 1, 1], strides=[2, 2])
    p = m.op("MaxPool", x, kernel_shape=[2, 2], strides=[2, 2])
    scales = m.const(np.array([1, 1, 2, 2], np.float32))
    u = m.op("Resize", p, "", scales, mode="nearest", coordinate_transformation_mode="asymmetric",
             nearest_mode="floor")
    y = m.op("Conv", m.op("Add", x, u), m.weight(8, 4, 1, 1))
    shapes = [(1, 4, 8, 12), (2, 4, 4, 16)]
    return m.made([value("x", ["N", 4, "H", "W"])], y), [{"x": floats(*s)} for s in shapes]


def expanded():
    m = Model()
    both = m.op("Slice", m.op("Shape", "x"), m.ints(0), m.ints(2))
    wide = m.op("Expand", m.op("Unsqueeze", "x", m.ints(2)), m.op("Concat", both, m.ints(3, 2, 4), axis=0))
    y = m.op("Reshape", m.op("Transpose", wide, perm=[0, 3, 2, 1, 4]), m.ints(0, 2, 3, -1, 4))
    return m.made([value("x", [None, None, 2, 4])], y), [{"x": floats(2, 5, 2, 4)}, {"x": floats(1, 3, 2, 4)}]


def padded_to_a_multiple():
    """PyTorch's export of `pad`: the amounts in pairs, in reverse order."""
    m = Model()
    n = m.size("x", 1)
    more = m.op("Sub", m.op("Mul", m.op("Div", m.op("Add", n, m.ints(7)), m.ints(8)), m.ints(8)), n)
    pairs = m.op("Reshape", m.op("Concat", m.ints(0), more, m.ints(0, 0), axis=0), m.ints(-1, 2))
    back = m.op("Slice", pairs, m.ints(-1), m.ints(-(2**63) + 1), m.ints(0), m.ints(-1))
    pads = m.op("Reshape", m.op("Transpose", back, perm=[1, 0]), m.ints(-1))
    y = m.op("Reshape", m.op("Pad", "x", pads), m.ints(0, -1, 8))
    return m.made([value("x", [None, None])], m.op("ReduceSum", y, m.ints(2))), [
        {"x": floats(2, 13)}, {"x": floats(3, 16)}]


def filled_or_cut():
    """Features of speech: any number of samples becomes one number, from either side."""
    m = Model()
    missing = m.op("Sub", m.ints(12), m.size("x", 1))
    x = m.op("Pad", "x", m.op("Concat", m.ints(0, 0, 0), missing, axis=0), m.const(np.float32(0.5)))
    # Of the other end one column is cut off, and the number of samples is less by one.
    back = m.op("Sub", m.size(x, 1), m.op("Add", m.size("x", 1), m.ints(1)))
    y = m.op("Pad", "x", m.op("Concat", m.ints(0), back, m.ints(0, -1), axis=0), m.const(np.float32(-1)))
    return m.made([value("x", ["N", "S"])], [m.op("Reshape", x, m.ints(0, 3, 4)), y]), [
        {"x": floats(2, 7)}, {"x": floats(3, 12)}, {"x": floats(1, 20)}]


def resized_to_another():
    """A pyramid of features: the small one gets the extents of the large one."""
    m = Model()
    small = m.op("Conv", "x", m.weight(4, 4, 3, 3), strides=[2, 2], pads=[1, 1, 1, 1])
    sizes = m.op("Concat", m.op("Slice", m.op("Shape", small), m.ints(0), m.ints(2)),
                 m.op("Slice", m.op("Shape", "x"), m.ints(2), m.ints(4)), axis=0)
    near = m.op("Resize", small, "", "", sizes, mode="nearest", coordinate_transformation_mode="asymmetric",
                nearest_mode="floor")
    line = m.op("Resize", small, "", "", sizes, mode="linear", coordinate_transformation_mode="half_pixel")
    y = m.op("Transpose", m.op("Add", m.op("Add", near, line), "x"), perm=[0, 2, 3, 1])
    return m.made([value("x", ["N", 4, "H", "W"])], y), [{"x": floats(1, 4, 7, 10)}, {"x": floats(2, 4, 16, 5)}]


def same_windows(kind, mode, kernel, stride, **attributes):
    """Pads that give one position for each stride, in extents of which none is known to be a multiple of it."""
    m = Model()
    attributes |= {"auto_pad": f"SAME_{mode}", "strides": [stride, stride]}
    weights = [m.weight(4, 4, kernel, kernel)] if kind.startswith("Conv") else []
    if kind != "ConvTranspose":
        attributes["kernel_shape"] = [kernel, kernel]
    y = m.op("Transpose", m.op(kind, "x", *weights, **attributes), perm=[0, 2, 3, 1])
    shapes = [(1, 4, 9, 10), (2, 4, 11, 5), (1, 4, 8, 12)]
    return m.made([value("x", ["N", 4, "H", "W"])], y), [{"x": floats(*s)} for s in shapes]


def windows():
    """Rows that overlap by half, as in a short-time Fourier transform."""
    m = Model()
    n = m.op("Max", m.op("Div", m.size("x", 0), m.ints(4)), m.ints(1))
    least = m.op("Max", m.op("Sub", m.ints(4), m.size("x", 0)), m.ints(0))
    x = m.op("Pad", "x", m.op("Concat", m.ints(0), least, axis=0))
    x = m.op("Pad", x, m.ints(0, 8))
    whole = m.op("Mul", m.op("Div", m.size(x, 0), m.ints(4)), m.ints(4))
    x = m.op("Reshape", m.op("Slice", x, m.ints(0), whole), m.ints(-1, 4))
    parts = [m.op("Slice", x, m.ints(i), m.op("Add", n, m.ints(i)), m.ints(0)) for i in range(2)]
    y = m.op("MatMul", m.op("Concat", *parts, axis=1), m.weight(8, 3))
    return m.made([value("x", ["samples"])], y), [{"x": floats(17)}, {"x": floats(3)}]


def positions():
    m = Model()
    places = m.op("Range", m.const(np.int64(0)), m.scalar(m.size("x", 1)), m.const(np.int64(1)))
    ones = m.op("ConstantOfShape", m.op("Shape", "x"), value=numpy_helper.from_array(np.array([1], np.int64)))
    rows, columns = m.op("Split", m.op("NonZero", ones), outputs=2, axis=0)
    grid = m.op("Reshape", m.op("Add", rows, columns), m.op("Shape", "x"))
    y = m.op("Add", m.op("Mul", "x", m.op("Cast", places, to=F)), m.op("Cast", grid, to=F))
    return m.made([value("x", [None, None])], y), [{"x": floats(2, 5)}, {"x": floats(4, 3)}]


def halves():
    m = Model()
    a, b = m.op("Split", "x", outputs=2, axis=1)
    return m.made([value("x", [None, None])], m.op("Mul", a, m.op("Sigmoid", b))), [
        {"x": floats(2, 6)}, {"x": floats(3, 2)}]


def sorted_batch():
    m = Model()
    lengths, order = m.op("TopK", "n", m.size("n", 0), outputs=2)
    count = m.scalar(m.size("n", 0))
    places = m.op("Range", m.const(np.int64(0)), count, m.const(np.int64(1)))
    zeros = m.op("ConstantOfShape", m.op("Shape", order), value=numpy_helper.from_array(np.array([0], np.int64)))
    back = m.op("ScatterElements", zeros, order, places, axis=0)
    x = m.op("Transpose", m.op("Gather", "x", order, axis=0), perm=[1, 0, 2])
    state = m.op("ConstantOfShape", m.op("Concat", m.ints(2), m.size(x, 1), m.ints(3), axis=0))
    y, last = m.op("GRU", x, m.weight(2, 9, 4), m.weight(2, 9, 3), m.weight(2, 18),
                   m.op("Cast", lengths, to=TensorProto.INT32), state, outputs=2,
                   direction="bidirectional", hidden_size=3, linear_before_reset=1)
    y = m.op("Reshape", m.op("Transpose", y, perm=[0, 2, 1, 3]), m.ints(0, 0, -1))
    y = m.op("Gather", m.op("Transpose", y, perm=[1, 0, 2]), back, axis=0)
    inputs = [value("x", ["b", "s", 4]), value("n", ["b"], I)]
    return m.made(inputs, [y, last]), [
        {"x": floats(3, 5, 4), "n": np.array([2, 5, 3])}, {"x": floats(1, 4, 4), "n": np.array([4])}]


def recurrent(kind, direction, layout, **attributes):
    gates, ways = {"RNN": 1, "GRU": 3, "LSTM": 4}[kind], 2 if direction == "bidirectional" else 1
    m = Model()
    inputs = ["x", m.weight(ways, 3 * gates, 4), m.weight(ways, 3 * gates, 3), m.weight(ways, 6 * gates), "n"]
    outputs = m.op(kind, *inputs, outputs=2, direction=direction, hidden_size=3, layout=layout, **attributes)
    shape = ["s", None, 4]
    return m.made([value("x", shape), value("n", [None], TensorProto.INT32)], outputs), [
        {"x": floats(5, 3, 4), "n": np.array([2, 5, 1], np.int32)},
        {"x": floats(2, 1, 4), "n": np.array([2], np.int32)}]


def reversed_sequences():
    m = Model()
    batch, time = m.size("x", 1), m.size("x", 0)
    whole = m.op("ReverseSequence", "x", m.op("Expand", time, batch), time_axis=0, batch_axis=1)
    own = m.op("ReverseSequence", "x", "n", time_axis=0, batch_axis=1)
    inputs = [value("x", [None, None, 2]), value("n", [None], I)]
    return m.made(inputs, m.op("Add", whole, own)), [
        {"x": floats(5, 3, 2), "n": np.array([2, 5, 1])}, {"x": floats(4, 1, 2), "n": np.array([3])}]


def counted_loop():
    """A loop over rows while the counter is less than the number of rows."""
    m = Model()
    x = m.op("Transpose", "x", perm=[1, 0, 2])
    count = m.op("Cast", m.scalar(m.size(x, 0)), to=TensorProto.INT32)
    zeros = m.op("ConstantOfShape", m.op("Concat", m.size(x, 1), m.ints(4), axis=0))
    w = m.weight(4, 4)
    one = numpy_helper.from_array(np.array(1, np.int32), "one")
    body = graph("body", [
        helper.make_node("Gather", [x, "i"], ["row"], axis=0),
        helper.make_node("MatMul", ["state", w], ["moved"]),
        helper.make_node("Add", ["row", "moved"], ["sum"]),
        helper.make_node("Tanh", ["sum"], ["next"]),
        helper.make_node("Add", ["i", "one"], ["j"]),
        helper.make_node("Identity", ["n"], ["n_out"]),
        helper.make_node("Less", ["j", "n"], ["more"]),
        helper.make_node("Transpose", ["next"], ["part"], perm=[1, 0]),
    ], [value("round", [], I), value("go", [], B), value("i", [], TensorProto.INT32),
        value("state", [None, 4]), value("n", [], TensorProto.INT32)],
        ["more", "j", "next", "n_out", "part"], [one])
    zero = m.const(np.array(0, np.int32))
    outputs = m.op("Loop", "", m.op("Less", zero, count), zero, zeros, count, outputs=4, body=body)
    y = m.op("Transpose", outputs[3], perm=[2, 0, 1])
    return m.made([value("x", [None, None, 4])], [outputs[1], y]), [{"x": floats(2, 5, 4)}, {"x": floats(3, 1, 4)}]


def squeezed_if_one():
    """PyTorch's export of `squeeze` of one dimension: the other branch has a rank that the remaining model refuses."""
    m = Model()
    x = m.op("Conv", "x", m.weight(4, 2, 8), strides=[8])
    one = m.op("Equal", m.size(x, 2), m.ints(1))
    yes = graph("yes", [helper.make_node("Squeeze", [x, m.ints(2)], ["flat"])], [], ["flat"])
    no = graph("no", [helper.make_node("Identity", [x], ["same"])], [], ["same"])
    y = m.op("If", one, then_branch=yes, else_branch=no)
    y, last = m.op("RNN", m.op("Unsqueeze", y, m.ints(0)), m.weight(1, 3, 4), m.weight(1, 3, 3), m.weight(1, 6),
                   outputs=2, hidden_size=3)
    model = m.made([value("x", [None, 2, None])], [y, last])
    return model, [{"x": floats(2, 2, 8)}, {"x": floats(3, 2, 11)}]


def quantized_lstm():
    """An operator of onnxruntime that quantizes inputs and states before it multiplies them."""
    m = Model()
    wide = [m.const(m.rng.integers(-90, 90, (2, n, 12)).astype(np.int8)) for n in (4, 3)]
    numbers = []
    for scale in (0.01, 0.02):
        numbers += [m.const(np.array([scale, scale / 2], np.float32)), m.const(np.array([3, -2], np.int8))]
    y = m.op("DynamicQuantizeLSTM", "x", *wide, m.weight(2, 24), "", m.weight(2, 1, 3), "", "", *numbers,
             outputs=3, domain="com.microsoft", direction="bidirectional", hidden_size=3)
    return m.made([value("x", ["s", 1, 4])], y), [{"x": floats(5, 1, 4)}, {"x": floats(2, 1, 4)}]


def triangle():
    """A triangle from a computed diagonal on, as for a causal mask after a past."""
    m = Model()
    k = m.op("Sub", m.size("x", 1), m.size("x", 0))
    mask = m.op("Trilu", "x", m.scalar(m.op("Add", k, m.ints(1))), upper=1)
    depth = m.op("OneHot", "i", m.size("x", 1), m.const(np.array([0, 1], np.float32)))
    inputs = [value("x", [None, None]), value("i", [None], I)]
    return m.made(inputs, m.op("Add", mask, m.op("ReduceSum", depth, m.ints(0)))), [
        {"x": floats(3, 5), "i": np.array([1, -1, 4])}, {"x": floats(2, 2), "i": np.array([0])}]


CASES = {
    f.__name__: f for f in [
        product, computed_reshape, slices_to_the_end, sum_with_an_upsampled_pool, expanded, padded_to_a_multiple,
        filled_or_cut, resized_to_another, windows, positions, halves, sorted_batch, reversed_sequences, counted_loop, squeezed_if_one,
        quantized_lstm, triangle]
}
for kind in ["RNN", "GRU", "LSTM"]:
    for direction in ["forward", "reverse", "bidirectional"]:
        CASES[f"{kind}_{direction}".lower()] = lambda k=kind, d=direction: recurrent(k, d, 0)

for kind in ["Conv", "ConvTranspose", "MaxPool", "AveragePool", "LpPool"]:
    for mode in ["UPPER", "LOWER"]:
        for kernel, stride in [(3, 2), (2, 2), (4, 3)]:
            whole = {"count_include_pad": 1} if kind == "AveragePool" else {}
            CASES[f"{kind}_same_{mode}_{kernel}_{stride}".lower()] = (
                lambda k=kind, args=(mode, kernel, stride), more=whole: same_windows(k, *args, **more))


def run(command):
    done = subprocess.run([str(c) for c in command], capture_output=True, text=True)
    assert done.returncode == 0, f"$ {' '.join(map(str, command))}\n{done.stdout}{done.stderr}"


def check(optc, name, folder):
    model, feeds = CASES[name]()
    path = folder / f"{name}.onnx"
    onnx.save(model, path)
    text = folder / f"{name}.ir"
    run([optc, "--pass=", path, "-o", text])
    opaque = re.findall(r'hbir\.opaque.*kind = "(\w+)"', text.read_text())
    left = set(opaque) - {"If", "Loop", "Scan"}
    assert not left, f"{name}: {left} stays opaque"
    session = onnxruntime.InferenceSession(str(path), providers=["CPUExecutionProvider"])
    for feed in feeds:
        wanted = session.run(None, feed)
        np.savez(folder / "in.npz", **feed)
        for flags in [["--pass="], ["--pass=default", "--exec=physical"]]:
            out = folder / "out.npz"
            run([optc, "run", *flags, path, "--inputs", folder / "in.npz", "--output", out])
            with np.load(out) as found:
                for output, b in zip(session.get_outputs(), wanted):
                    a = found[output.name]
                    assert a.shape == b.shape, f"{name} {flags}: shape {a.shape}, wanted {b.shape}"
                    worst = np.max(np.abs(a.astype(np.float64) - b), initial=0) / max(1, np.max(np.abs(b), initial=0))
                    assert worst <= 1e-4, f"{name} {flags}: {output.name} differs by {worst}"


def main():
    optc, names = pathlib.Path(sys.argv[1]).resolve(), sys.argv[2:] or list(CASES)
    failed = []
    with tempfile.TemporaryDirectory() as folder:
        for name in names:
            try:
                check(optc, name, pathlib.Path(folder))
            except AssertionError as error:
                failed.append(f"{name}: {error}")
    print("\n".join(failed) or f"{len(names)} models of open sizes run as in onnxruntime")
    sys.exit(bool(failed))


if __name__ == "__main__":
    main()
