"""Times models in onnxruntime and, folded for `cpu`, in `optc bench`, in turns.

`runtime_peers.py MODEL.onnx… [--optc=target/release/optc] [--rounds=N]`: the original model in onnxruntime at its default level,
denormals flushed, beside `optc bench --pass=inline,canonicalize,view-fold --target=cpu`; one thread, processor time, medians over
rounds in which either runs a few times. Models with attention (a product of two values that are computed) are called
transformers, the others convolutional. Inputs are random, sizes that have a name are 1; weights must be there.
"""

import math
import pathlib
import re
import statistics
import subprocess
import sys
import time

import numpy as np
import onnx
import onnxruntime

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


def attends(path):
    """Whether a product of two values that are computed is taken."""
    graph = onnx.load(path, load_external_data=False).graph
    known = {w.name for w in graph.initializer}
    for node in graph.node:
        if node.op_type in ("Constant", "Identity", "Transpose", "Cast") and all(i in known for i in node.input):
            known.update(node.output)
    return any(n.op_type == "MatMul" and not known.intersection(n.input) for n in graph.node)


def own(optc, path):
    """Milliseconds of a run of optc, and its slowest operations."""
    passes = "--pass=inline,canonicalize,view-fold"
    command = [optc, "bench", passes, "--target=cpu", "--runs", str(RUNS), str(path)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode != 0:
        raise RuntimeError(done.stderr.strip().splitlines()[0])
    median = float(re.search(r"median ([\d.]+) ms of a processor", done.stdout)[1])
    kinds = re.findall(r"^  (\w+) +(\w+) +\d+ +[\d.]+ +([\d.]+) +[\d.]+$", done.stdout, re.MULTILINE)
    return median, ", ".join(f"{op} ({kernel}) {share} %" for op, kernel, share in kinds[:3])


def main():
    arguments = dict(a.split("=", 1) for a in sys.argv[1:] if a.startswith("--"))
    paths = [pathlib.Path(a) for a in sys.argv[1:] if not a.startswith("--")]
    optc = arguments.get("--optc", "target/release/optc")
    rounds = int(arguments.get("--rounds", "6"))
    print(f"onnxruntime {onnxruntime.__version__}, {rounds} rounds of {RUNS} runs")
    print("| model | kind | onnxruntime ms | optc ms | ratio | slowest operations |")
    print("|---|---|---|---|---|---|")
    ratios = {"transformer": [], "convolutional": []}
    for path in paths:
        try:
            peer = session(path)
            given = inputs(peer)
            peer.run(None, given)
            theirs, ours, slowest = [], [], ""
            for _ in range(rounds):
                for _ in range(RUNS):
                    start = time.process_time()
                    peer.run(None, given)
                    theirs.append((time.process_time() - start) * 1e3)
                median, slowest = own(optc, path)
                ours.append(median)
        except Exception as why:  # The model is named with what is wrong, and the others are timed.
            print(f"| {path.stem} | {str(why).splitlines()[0][:90]} |")
            continue
        kind = "transformer" if attends(path) else "convolutional"
        a, b = statistics.median(theirs), statistics.median(ours)
        ratios[kind].append(b / a)
        print(f"| {path.stem} | {kind} | {a:.2f} | {b:.2f} | {b / a:.2f} | {slowest} |", flush=True)
    for kind, found in ratios.items():
        if found:
            mean = math.exp(statistics.fmean(map(math.log, found)))
            print(f"\n{kind}: {len(found)} models, geometric mean {mean:.2f}, least {min(found):.2f}, most {max(found):.2f}")


main()
