#!/usr/bin/env python3
"""How long onnxruntime takes for models and for what optc makes of them: CPU time, paired and interleaved.

usage: python onnx_time.py OPTC MODEL.onnx... [--target T] [--rounds N] [--seconds S] [--json FILE] [--worst R]

A model and its result are loaded by onnxruntime at its default level with one thread, and run in turns on the same random
inputs.  A round is some runs of the one and as many of the other, the order changing from round to round; its ratio is
that of the CPU times of the process.  A line has the medians: milliseconds of the original, the ratio, the lower and
the upper quartile of the ratios, and the greatest relative difference of an output.  With `--worst` the exit status is 1 if a
ratio is above it.
Needs numpy, onnx and onnxruntime; weights must be there.
"""
import argparse
import json
import pathlib
import statistics
import subprocess
import sys
import tempfile
import time

import numpy as np
import onnxruntime

from onnx_out import random_inputs


def session(path):
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = 1
    options.inter_op_num_threads = 1
    options.log_severity_level = 3
    return onnxruntime.InferenceSession(str(path), options, providers=["CPUExecutionProvider"])


def spent(here, inputs, runs):
    start = time.process_time()
    for _ in range(runs):
        here.run(None, inputs)
    return (time.process_time() - start) / runs


def measure(before, after, args):
    pair = [session(before), session(after)]
    inputs = random_inputs(before, 0)
    a, b = (s.run(None, inputs) for s in pair)
    worst = max(float(np.max(np.abs(np.float64(x) - np.float64(y)), initial=0) / max(np.max(np.abs(np.float64(x)), initial=0), 1e-30))
                for x, y in zip(a, b))
    one = min(spent(pair[0], inputs, 1) for _ in range(2))
    rounds = max(5, args.rounds)
    runs = max(1, int(args.seconds / rounds / 2 / max(one, 1e-6)))
    ratios, own = [], []
    for i in range(rounds):
        times = [0.0, 0.0]
        for side in ((0, 1) if i % 2 else (1, 0)):
            times[side] = spent(pair[side], inputs, runs)
        ratios.append(times[1] / times[0])
        own.append(times[0])
    quarter = statistics.quantiles(ratios, n=4)
    return {"ms": 1e3 * statistics.median(own), "ratio": statistics.median(ratios), "lower": quarter[0], "upper": quarter[2], "difference": worst}


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("optc", type=pathlib.Path)
    parser.add_argument("models", type=pathlib.Path, nargs="+")
    parser.add_argument("--target", default="onnxruntime")
    parser.add_argument("--rounds", type=int, default=15)
    parser.add_argument("--seconds", type=float, default=6.0)
    parser.add_argument("--json", type=pathlib.Path)
    parser.add_argument("--worst", type=float)
    args = parser.parse_args()
    optc, all_ = args.optc.resolve(), {}
    print(f"onnxruntime {onnxruntime.__version__}, 1 thread, target {args.target}")
    print(f"{'model':28} {'ms':>9} {'ratio':>7} {'quartiles':>15} {'difference':>11}")
    for path in args.models:
        with tempfile.TemporaryDirectory() as folder:
            result = pathlib.Path(folder) / path.name
            done = subprocess.run([optc, path, f"--target={args.target}", "-o", result], capture_output=True, text=True)
            if done.returncode != 0:
                sys.exit(f"{path.name}: {done.stderr.strip()}")
            try:
                found = measure(path, result, args)
            except Exception as error:
                print(f"{path.stem:28} onnxruntime: {str(error)[:90]}", flush=True)
                continue
        all_[path.stem] = found
        print(f"{path.stem:28} {found['ms']:9.2f} {found['ratio']:7.3f} {found['lower']:7.3f} {found['upper']:7.3f} {found['difference']:11.1e}", flush=True)
    if args.json:
        args.json.write_text(json.dumps(all_, indent=1) + "\n")
    slow = {name: f["ratio"] for name, f in all_.items() if args.worst and args.worst < f["ratio"]}
    if slow:
        sys.exit(f"slower: {slow}")


if __name__ == "__main__":
    main()
