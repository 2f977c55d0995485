#!/usr/bin/env python3
"""XLA's CPU backend on StableHLO folded by optc: CPU time relative to the original, and bytes of pure movement.

usage: python stablehlo_time.py OPTC FILE.mlir ... [--target T] [--pairs N] [--bytes-only]

The line of each module has: the transposes in both StableHLO texts; the MB read plus written by `copy` and `transpose`
in XLA's optimized HLO of both, including those inside of fusions; and the median of the ratios of CPU time, result over
original, with its quartiles.  Both are run in turns, in pairs, each on one thread; every second pair begins with the
other one.  Inputs are random.
"""
import argparse
import os
import pathlib
import re
import time

os.environ["XLA_FLAGS"] = os.environ.get("XLA_FLAGS", "") + " --xla_cpu_multi_thread_eigen=false intra_op_parallelism_threads=1"
os.environ.setdefault("OMP_NUM_THREADS", "1")

import numpy as np

import stablehlo

WIDTH = {"pred": 1, "s8": 1, "u8": 1, "bf16": 2, "f16": 2, "s16": 2, "u16": 2, "f32": 4, "s32": 4, "u32": 4, "f64": 8,
         "s64": 8, "u64": 8, "c64": 8, "c128": 16}
VALUE = re.compile(r"%([\w.-]+) = (\w+)\[([\d,]*)\](?:\{([\d,]*)[^}]*\})? ([\w-]+)\((?:%([\w.-]+))?(.*)")


def numbers(text):
    return [int(n) for n in text.split(",") if n]


def moved(built):
    """The bytes that copies and transposes of a compiled program read and write. A transpose into a layout in which nothing
    moves does not count."""
    total, layouts = 0, {}
    for line in built.hlo_modules()[0].to_string().splitlines():
        found = VALUE.search(line)
        if not found:
            continue
        name, element, dims, layout, opcode, operand, rest = found.groups()
        sizes, order = numbers(dims), numbers(layout or "")
        if not line.startswith((" ", "\t")):
            layouts = {}
        layouts[name] = order
        if opcode not in ("copy", "transpose"):
            continue
        if opcode == "transpose":
            perm = numbers(rest.split("dimensions={")[1].split("}")[0])
            here = [perm[d] for d in order if sizes[d] != 1]
            there = [d for d in layouts.get(operand, []) if d in here]
            if here == there:
                continue
        total += 2 * int(np.prod(sizes, dtype=np.int64)) * WIDTH.get(element, 4)
    return total


def seconds(xla, built, given):
    start = time.process_time()
    xla.run(built, given)
    return time.process_time() - start


def ratios(xla, before, after, given, pairs):
    for built in (before, after) * 2:
        xla.run(built, given)
    found = []
    for number in range(pairs):
        if number % 2:
            b = seconds(xla, after, given)
            a = seconds(xla, before, given)
        else:
            a = seconds(xla, before, given)
            b = seconds(xla, after, given)
        found.append(b / a)
    return found


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("optc")
    parser.add_argument("files", nargs="+", type=pathlib.Path)
    parser.add_argument("--target", default="xla")
    parser.add_argument("--pairs", type=int, default=15)
    parser.add_argument("--bytes-only", action="store_true")
    options = parser.parse_args()
    xla = stablehlo.Xla()
    print("| model | transposes | MB moved in XLA's HLO | CPU time, result / original |\n|---|---|---|---|")
    for path in options.files:
        source = path.read_text()
        text = stablehlo.optc(options.optc, ["--pass=default", f"--target={options.target}"], path)
        original = xla.parse(source)
        rng = np.random.default_rng(1)
        given = xla.put([stablehlo.draw(rng, *kind) for kind in xla.arguments(original)])
        before, after = xla.compile(original), xla.compile(xla.parse(text))
        counts = [len(re.findall(r"stablehlo\.transpose\b", t)) for t in (source, text)]
        bytes_moved = [moved(built) / 1e6 for built in (before, after)]
        shown = "not measured"
        if not options.bytes_only:
            low, middle, high = np.percentile(ratios(xla, before, after, given, options.pairs), [25, 50, 75])
            shown = f"{middle:.3f} ({low:.3f} to {high:.3f})"
        print(f"| {path.stem} | {counts[0]} → {counts[1]} | {bytes_moved[0]:.1f} → {bytes_moved[1]:.1f} | {shown} |", flush=True)


if __name__ == "__main__":
    main()
