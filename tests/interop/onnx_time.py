#!/usr/bin/env python3
"""The time of models and of optc's results in onnxruntime: processor time, interleaved pairs, one thread.

usage: python onnx_time.py OPTC MODEL.onnx... [--target T]... [--rounds N] [--seconds S] [--json FILE] [--report FILE]
                           [--goal R] [--from-ms M]

A model and its result are loaded by onnxruntime at its default level with one thread, and run in turns on the same
inputs: those that shipped_models.py has for a file of that name, else random ones.  A round is some runs of one model and
the same number of runs of the other, in an order that alternates; its ratio is that of the processor times.  A line has
the milliseconds of the original (median), the median of the ratios with its 95 % interval (from order statistics, so
without assuming a distribution), and the greatest relative difference of an output.  If onnxruntime's optimizer makes the
same graph of both, the ratio is 1 and nothing is measured.  There are at least `--rounds` rounds, and up to four times
as many while the interval contains the goal.

With `--goal` the exit status is 1 if a result takes more than R times as long: its whole interval is above R, the
original takes at least M milliseconds (2), and a second measurement confirms it.  Needs numpy, onnx and onnxruntime;
weights must be there.
"""
import argparse
import hashlib
import json
import math
import pathlib
import statistics
import subprocess
import sys
import tempfile
import time

import numpy as np
import onnx
import onnxruntime

import shipped_models
from onnx_out import random_inputs


def session(path, optimized=None):
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = 1
    options.inter_op_num_threads = 1
    options.log_severity_level = 4
    if optimized:
        options.optimized_model_filepath = str(optimized)
    return onnxruntime.InferenceSession(str(path), options, providers=["CPUExecutionProvider"])


def hashed(*parts):
    made = hashlib.sha256()
    for part in parts:
        made.update(part if isinstance(part, bytes) else repr(part).encode())
        made.update(b";")
    return made.digest()


def results(graph, known):
    """Hashes of the computation of a graph's results: operators, attributes, weights and inputs, without node names or order."""
    known = dict(known)
    for tensor in graph.initializer:
        known[tensor.name] = hashed(tensor.data_type, list(tensor.dims), onnx.numpy_helper.to_array(tensor).tobytes())
    known |= {info.name: hashed("input", i) for i, info in enumerate(graph.input) if info.name not in known}
    for node in graph.node:
        attributes = []
        for a in sorted(node.attribute, key=lambda a: a.name):
            inner = [results(g, known) for g in [*a.graphs, *([a.g] if a.HasField("g") else [])]]
            attributes.append((a.name, inner or a.SerializeToString(deterministic=True)))
        whole = hashed(node.domain, node.op_type, attributes, [known.get(name, name) for name in node.input])
        known |= {name: hashed(whole, i) for i, name in enumerate(node.output)}
    return [known.get(o.name) for o in graph.output]


def optimized(path, folder):
    made = folder / "optimized.onnx"
    session(path, made)
    model = onnx.load(str(made))
    for left in folder.glob("optimized.onnx*"):
        left.unlink()
    return results(model.graph, {})


def spent(here, inputs, runs):
    start = time.process_time()
    for _ in range(runs):
        here.run(None, inputs)
    return (time.process_time() - start) / runs


def interval(ratios):
    """The order statistics between which the median lies with a probability of 95 %."""
    n, below, k = len(ratios), 0.0, 0
    # The probability that the k-th smallest is above the median is that of fewer than k of n being below it.
    while below + math.comb(n, k) / 2**n <= 0.025:
        below += math.comb(n, k) / 2**n
        k += 1
    ordered = sorted(ratios)
    return ordered[max(k - 1, 0)], ordered[min(n - k, n - 1)]


def difference(a, b):
    if a.dtype.kind not in "fiub" or a.shape != b.shape:
        return math.inf
    a, b = np.float64(a), np.float64(b)
    known = np.isfinite(a) & np.isfinite(b)
    return float(np.max(np.abs(a - b)[known], initial=0) / max(np.max(np.abs(a)[known], initial=0), 1e-30))


def measure(before, after, args):
    pair = [session(before), session(after)]
    inputs = shipped_models.usual(before.stem) or random_inputs(before, 0)
    a, b = (s.run(None, inputs) for s in pair)
    worst = max(difference(np.asarray(x), np.asarray(y)) for x, y in zip(a, b))
    one = min(spent(pair[0], inputs, 1) for _ in range(2))
    rounds = max(11, args.rounds)
    runs = max(1, int(args.seconds / rounds / 2 / max(one, 1e-6)))
    ratios, own = [], []
    while len(ratios) < 4 * rounds:
        if rounds <= len(ratios):
            lower, upper = interval(ratios)
            if args.goal is None or upper <= args.goal or args.goal < lower:
                break
        times = [0.0, 0.0]
        for side in ((0, 1) if len(ratios) % 2 else (1, 0)):
            times[side] = spent(pair[side], inputs, runs)
        ratios.append(times[1] / times[0])
        own.append(times[0])
    lower, upper = interval(ratios)
    return {"ms": 1e3 * statistics.median(own), "ratio": statistics.median(ratios), "lower": lower, "upper": upper, "rounds": len(ratios), "difference": worst}


def timed(optc, path, target, args, known):
    """The measurements of one model, or a line with the reason why there are none; `known` maps results to their targets."""
    with tempfile.TemporaryDirectory() as folder:
        result = pathlib.Path(folder) / path.name
        done = subprocess.run([optc, path, f"--target={target}", "-o", result], capture_output=True, text=True)
        if done.returncode != 0:
            return "not written: " + " ".join(l for l in done.stderr.splitlines() if "error" in l)[-120:]
        content = hashlib.sha256(result.read_bytes()).digest()
        if content in known:
            return f"   as for {known[content]}, the same file"
        known[content] = target
        try:
            if optimized(path, pathlib.Path(folder)) == optimized(result, pathlib.Path(folder)):
                return "1: one graph after onnxruntime's optimizer"
            found = measure(path, result, args)
            if slow(found, args):
                found = measure(path, result, args)
            return found
        except Exception as error:
            return f"onnxruntime: {' '.join(str(error).split())[:120]}"


def slow(found, args):
    return args.goal is not None and args.goal < found["lower"] and args.from_ms <= found["ms"]


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("optc", type=pathlib.Path)
    parser.add_argument("models", type=pathlib.Path, nargs="+")
    parser.add_argument("--target", action="append")
    parser.add_argument("--rounds", type=int, default=15)
    parser.add_argument("--seconds", type=float, default=6.0)
    parser.add_argument("--json", type=pathlib.Path)
    parser.add_argument("--report", type=pathlib.Path)
    parser.add_argument("--goal", type=float)
    parser.add_argument("--from-ms", type=float, default=2.0)
    args = parser.parse_args()
    optc, all_, above, lines = args.optc.resolve(), {}, [], []

    def say(line):
        lines.append(line)
        print(line, flush=True)
        if args.report:
            args.report.write_text("\n".join(lines) + "\n")

    say(f"onnxruntime {onnxruntime.__version__}, 1 thread, processor time")
    say(f"{'model':52} {'target':12} {'ms':>9} {'ratio':>7} {'95 %':>15} {'rounds':>7} {'difference':>11}")
    for path in args.models:
        known = {}
        for target in args.target or ["onnxruntime"]:
            found = timed(optc, path, target, args, known)
            if isinstance(found, str):
                say(f"{path.stem:52} {target:12} {found}")
                continue
            all_.setdefault(path.stem, {})[target] = found
            is_slow = slow(found, args)
            above += [f"{path.stem} {target}"] if is_slow else []
            say(f"{path.stem:52} {target:12} {found['ms']:9.2f} {found['ratio']:7.3f} {found['lower']:7.3f} {found['upper']:7.3f} "
                f"{found['rounds']:7} {found['difference']:11.1e}{'  above the goal' if is_slow else ''}")
    if args.json:
        args.json.write_text(json.dumps(all_, indent=1) + "\n")
    if above:
        say(f"above {args.goal}: {', '.join(above)}")
        sys.exit(1)


if __name__ == "__main__":
    main()
