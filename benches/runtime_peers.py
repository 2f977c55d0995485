"""Times models in onnxruntime and, folded for `cpu`, in `optc bench`, in turns.

`runtime_peers.py MODEL.onnx… [--small] [--optc=target/release/optc] [--rounds=N]`. The original model runs in
onnxruntime at its default level with denormals flushed, and in `optc bench --pass=inline,canonicalize,view-fold
--target=cpu`: one thread, processor time, medians over rounds in which each runs a few times. Models with attention (a
product of two computed values) are called transformers, those with a recurrent network recurrent, the others
convolutional. Inputs are those that `tests/interop/shipped_models.py` has for a file of that name, else random with 1 for
named sizes. The weights must be there. `--small` adds the models of SMALL, which have one or a few operators each.
"""

import math
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

sys.path.insert(0, str(pathlib.Path(__file__).parents[1] / "tests" / "interop"))
import shipped_models  # noqa: E402

RUNS = 5
TYPES = {
    "tensor(float)": np.float32,
    "tensor(double)": np.float64,
    "tensor(int64)": np.int64,
    "tensor(int32)": np.int32,
    "tensor(bool)": np.bool_,
}


def session(path):
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = 1
    options.inter_op_num_threads = 1
    options.log_severity_level = 3
    options.add_session_config_entry("session.set_denormal_as_zero", "1")
    return onnxruntime.InferenceSession(str(path), options, providers=["CPUExecutionProvider"])


def inputs(session):
    random = np.random.default_rng(0)
    made = {}
    for given in session.get_inputs():
        shape = [n if isinstance(n, int) else 1 for n in given.shape]
        dtype = TYPES[given.type]
        values = random.standard_normal(shape) if np.issubdtype(dtype, np.floating) else np.zeros(shape)
        made[given.name] = values.astype(dtype)
    return made


# Recurrent networks: operator; direction; whether sequences have lengths; and the sizes: steps, sequences, inputs and
# states.
NETWORKS = {
    "gru_24x2x256": ("GRU", "forward", False, (24, 2, 256, 256)),
    "gru_200x1x256_both": ("GRU", "bidirectional", False, (200, 1, 128, 256)),
    "gru_30x5x64_lengths": ("GRU", "bidirectional", True, (30, 5, 48, 64)),
    "lstm_32x1x128": ("LSTM", "forward", False, (32, 1, 128, 128)),
    "lstm_20x8x512_both": ("LSTM", "bidirectional", False, (20, 8, 512, 512)),
    "lstm_50x4x100_lengths": ("LSTM", "bidirectional", True, (50, 4, 80, 100)),
    "rnn_64x4x96_reverse": ("RNN", "reverse", False, (64, 4, 96, 96)),
}


def model(nodes, given, results, weights=()):
    info = lambda ports: [helper.make_tensor_value_info(*port) for port in ports]
    graph = helper.make_graph(nodes, "small", info(given), info(results), [numpy_helper.from_array(v, n) for n, v in weights])
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 16)], ir_version=9)


def network(kind, direction, lengths, sizes):
    """A recurrent network with random weights."""
    steps, batch, read, hidden = sizes
    random = np.random.default_rng(0)
    rows = {"GRU": 3, "LSTM": 4, "RNN": 1}[kind] * hidden
    directions = 2 if direction == "bidirectional" else 1
    shapes = {"w": (rows, read), "r": (rows, hidden), "b": (2 * rows,)}
    weights = [(n, (random.standard_normal((directions, *shape)) / hidden**0.5).astype(np.float32)) for n, shape in shapes.items()]
    if lengths:
        weights.append(("n", (steps - np.arange(batch) * steps // (2 * batch)).astype(np.int32)))
    options = {"linear_before_reset": 1} if kind == "GRU" else {}
    node = helper.make_node(kind, ["x", "w", "r", "b", *["n"] * lengths], ["y", "h"], direction=direction, hidden_size=hidden, **options)
    ports = [("y", (steps, directions, batch, hidden)), ("h", (directions, batch, hidden))]
    real = TensorProto.FLOAT
    return model([node], [("x", real, (steps, batch, read))], [(n, real, shape) for n, shape in ports], weights)


def compared():
    """A comparison of broadcast operands, and a cast of its result."""
    nodes = [helper.make_node("Equal", ["x", "y"], ["e"]), helper.make_node("Cast", ["e"], ["z"], to=TensorProto.FLOAT)]
    given = [("x", TensorProto.INT32, (2, 2048, 1)), ("y", TensorProto.INT32, (1, 1, 257))]
    return model(nodes, given, [("z", TensorProto.FLOAT, (2, 2048, 257))])


def one(kind, given, result, weights=(), **options):
    """A model of one operator on floats."""
    names = [*given, *(n for n, _ in weights)]
    node = helper.make_node(kind, names, ["y"], **options)
    real = TensorProto.FLOAT
    return model([node], [(n, real, shape) for n, shape in given.items()], [("y", real, result)], weights)


def top_k():
    node = helper.make_node("TopK", ["x", "k"], ["y", "i"], axis=-1)
    results = [("y", TensorProto.FLOAT, (64, 50)), ("i", TensorProto.INT64, (64, 50))]
    return model([node], [("x", TensorProto.FLOAT, (64, 4000))], results, [("k", np.array([50]))])


SMALL = {
    **{name: lambda of=of: network(*of) for name, of in NETWORKS.items()},
    "compare_cast": compared,
    "grid_sample": lambda: one("GridSample", {"x": (1, 32, 64, 64), "grid": (1, 64, 64, 2)}, (1, 32, 64, 64)),
    "scatter_elements": lambda: one(
        "ScatterElements", {"x": (512, 256)}, (512, 256),
        [("i", np.random.default_rng(0).permuted(np.tile(np.arange(512), (256, 1)), axis=1).T[:64].copy()),
         ("u", np.ones((64, 256), np.float32))]),
    "top_k": top_k,
    "conv_transpose": lambda: one("ConvTranspose", {"x": (1, 64, 32, 32)}, (1, 32, 64, 64),
                                  [("w", np.random.default_rng(0).standard_normal((64, 32, 2, 2)).astype(np.float32))], strides=[2, 2]),
}


def kind_of(path):
    """The kind: recurrent; transformer if it has a product of two computed values; else convolutional."""
    graph = onnx.load(path, load_external_data=False).graph
    if shipped_models.kinds(graph).keys() & {"GRU", "LSTM", "RNN", "DynamicQuantizeLSTM"}:
        return "recurrent"
    known = {w.name for w in graph.initializer}
    for node in graph.node:
        if node.op_type in ("Constant", "Identity", "Transpose", "Cast") and all(i in known for i in node.input):
            known.update(node.output)
    attends = any(n.op_type == "MatMul" and not known.intersection(n.input) for n in graph.node)
    return "transformer" if attends else "convolutional"


def own(optc, path, given):
    """The milliseconds of a run of optc, and its slowest operations."""
    passes = "--pass=inline,canonicalize,view-fold"
    command = [optc, "bench", passes, "--target=cpu", "--runs", str(RUNS), "--inputs", str(given), str(path)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode != 0:
        raise RuntimeError(done.stderr.strip().splitlines()[0])
    median = float(re.search(r"median ([\d.]+) ms of a processor", done.stdout)[1])
    kinds = re.findall(r"^  (\w+) +(\w+) +\d+ +[\d.]+ +([\d.]+) +[\d.]+$", done.stdout, re.MULTILINE)
    return median, ", ".join(f"{op} ({kernel}) {share} %" for op, kernel, share in kinds[:3])


def main():
    flags = [a for a in sys.argv[1:] if a.startswith("--")]
    arguments = dict(a.split("=", 1) for a in flags if "=" in a)
    paths = [pathlib.Path(a) for a in sys.argv[1:] if not a.startswith("--")]
    optc = arguments.get("--optc", "target/release/optc")
    rounds = int(arguments.get("--rounds", "6"))
    print(f"onnxruntime {onnxruntime.__version__}, {rounds} rounds of {RUNS} runs")
    print("| model | kind | onnxruntime ms | optc ms | ratio | slowest operations |")
    print("|---|---|---|---|---|---|")
    with tempfile.TemporaryDirectory() as scratch:
        folder = pathlib.Path(scratch)
        for name, make in SMALL.items() if "--small" in flags else ():
            onnx.save(make(), str(folder / f"{name}.onnx"))
            paths.append(folder / f"{name}.onnx")
        table(paths, optc, rounds, folder / "inputs.npz")


def table(paths, optc, rounds, saved):
    ratios = {}
    for path in paths:
        try:
            peer = session(path)
            given = shipped_models.usual(path.stem) or inputs(peer)
            np.savez(saved, **given)
            peer.run(None, given)
            theirs, ours, slowest = [], [], ""
            for _ in range(rounds):
                for _ in range(RUNS):
                    start = time.process_time()
                    peer.run(None, given)
                    theirs.append((time.process_time() - start) * 1e3)
                median, slowest = own(optc, path, saved)
                ours.append(median)
        except Exception as why:  # The failure is reported with the model, and the other models are timed.
            print(f"| {path.stem} | {str(why).splitlines()[0][:90]} |", flush=True)
            continue
        kind = kind_of(path)
        a, b = statistics.median(theirs), statistics.median(ours)
        ratios.setdefault(kind, []).append(b / a)
        print(f"| {path.stem} | {kind} | {a:.3f} | {b:.3f} | {b / a:.2f} | {slowest} |", flush=True)
    ratios["all"] = [ratio for found in ratios.values() for ratio in found]
    for kind, found in ratios.items():
        if found:
            mean = math.exp(statistics.fmean(map(math.log, found)))
            print(f"\n{kind}: {len(found)} models, geometric mean {mean:.2f}, least {min(found):.2f}, most {max(found):.2f}")


main()
