#!/usr/bin/env python3
"""Every operation that optc writes as ONNX operators, in every operator set from 7 on.

usage: python onnx_opsets.py OPTC [--only TEXT] [--jobs N] [--keep FOLDER] [--table]

The programs are those of ops/tests/ops_reference.txt: an operation, inputs and results.  Each is written in each operator
set.  onnx.checker must accept the model in full, and onnxruntime (or onnx's reference evaluator, if onnxruntime cannot
run it) must give the results.  SINCE names the operations that are refused before an operator set, since no operators of
earlier sets can express them and no model in an earlier set has them.  The exit status is 1 if anything else is refused,
invalid or different.  Needs numpy, onnx, onnxruntime and ml_dtypes.
"""
import argparse
import concurrent.futures
import os
import pathlib
import re
import subprocess
import sys
import tempfile

import numpy as np
import onnx

from onnx_out import NotRun, by_reference, by_runtime, difference

ROOT = pathlib.Path(__file__).resolve().parents[2]
OPSETS = range(7, onnx.defs.onnx_opset_version() + 1)
DTYPES = {"f32": np.float32, "f64": np.float64, "f16": np.float16, "si64": np.int64, "si32": np.int32, "si8": np.int8, "ui8": np.uint8, "i1": bool}
# The first operator set in which operations are written.
SINCE = {"hbir." + name: opset for opset, names in {
    9: "acosh asinh atanh cosh sinh erf gelu is_nan sign compare max min",
    10: "is_inf max_pool matmul mod thresholded_relu slice",
    11: "cumsum depth_to_space round shift_left shift_right",
    12: "arg_max arg_min einsum gather_nd",
    13: "dequantize quantize",
    14: "trilu",
    18: "bit_and bit_or bit_xor scatter_elements scatter_nd",
    19: "avg_pool pad",
}.items() for name in names.split()}


def tensors(words):
    """The array in a text `DTYPE SHAPE : NUMBERS`."""
    head, _, numbers = words.partition(" : ")
    dtype, shape = head.split()
    shape = [] if shape == "-" else [int(n) for n in shape.split("x")]
    values = [float(n) if dtype[0] == "f" else int(n) for n in numbers.split()]
    return dtype, np.array(values).astype(DTYPES[dtype]).reshape(shape)


def cases():
    """The operation, its attributes as text, inputs and results of each case."""
    for block in (ROOT / "ops/tests/ops_reference.txt").read_text().strip().split("\n\n"):
        name, attrs, inputs, outputs = None, [], [], []
        for line in block.splitlines():
            word, rest = line.split(" ", 1)
            if word == "op":
                name = rest
            elif word == "attr":
                key, kind, value = (rest + " ").split(" ", 2)
                value = value.strip()
                listed = "[" + ", ".join(value.split()) + "]"
                text = {"bool": "true" if value == "1" else "false", "str": f'"{value}"', "ints": listed, "floats": listed}.get(kind, value)
                attrs.append(f"{key} = {text}")
            elif word in ("in", "out"):
                (inputs if word == "in" else outputs).append(tensors(rest if " : " in rest else rest + " "))
        yield name, attrs, inputs, outputs


def program(name, attrs, inputs, outputs, opset):
    """A module with the operation alone, for an operator set."""
    ty = lambda t: "tensor<" + "".join(f"{n}x" for n in t[1].shape) + t[0] + ">"
    args = ", ".join(f'%a{i}: {ty(t)} {{hbir.name = "a{i}"}}' for i, t in enumerate(inputs))
    names = ", ".join(f"%a{i}" for i in range(len(inputs)))
    results = ", ".join(f'{ty(t)} {{hbir.name = "y{i}"}}' for i, t in enumerate(outputs))
    types = [", ".join(map(ty, side)) for side in (inputs, outputs)]
    many = f"%0:{len(outputs)}" if len(outputs) > 1 else "%0"
    made = ", ".join(f"%0#{i}" for i in range(len(outputs))) if len(outputs) > 1 else "%0"
    return (f"module attributes {{hbir.onnx_opset = {opset}}} {{\n  func.func @main({args}) -> ({results}) {{\n"
            f'    {many} = "{name}"({names}) <{{{", ".join(attrs)}}}> : ({types[0]}) -> ({types[1]})\n'
            f"    return {made} : {types[1]}\n  }}\n}}\n")


def check(optc, case, opset, folder):
    """The outcome, and a line about it."""
    name, attrs, inputs, outputs = case
    source, output = folder / "p.ir", folder / "p.onnx"
    source.write_text(program(*case, opset))
    done = subprocess.run([str(optc), "--pass=", str(source), "-o", str(output)], capture_output=True, text=True, timeout=60)
    if done.returncode == 1 and "error[onnx-op]" in done.stderr:
        return "refused", done.stderr.strip()[:200]
    if done.returncode != 0:
        return "wrong", f"exit status {done.returncode}: {done.stderr.strip()[:300]}"
    try:
        onnx.checker.check_model(str(output), full_check=True)
    except Exception as error:
        return "wrong", f"onnx.checker: {str(error)[:300]}"
    feeds = {f"a{i}": x for i, (_, x) in enumerate(inputs)}
    problems = []
    for run in (by_runtime, by_reference):
        try:
            found = run(output, feeds)
        except NotRun as error:
            problems.append(str(error)[:200])
            continue
        for i, (_, wanted) in enumerate(outputs):
            why = difference(found[f"y{i}"], wanted)
            if why:
                return "wrong", f"y{i}: {why}"
        return "same", ""
    return "wrong", f"not run: {problems}"


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("optc", type=pathlib.Path)
    parser.add_argument("--only", default="")
    parser.add_argument("--table", action="store_true")
    parser.add_argument("--keep", type=pathlib.Path)
    parser.add_argument("--jobs", type=int, default=os.cpu_count())
    args = parser.parse_args()
    optc = args.optc.resolve()
    chosen = [(n, c) for n, c in enumerate(cases()) if re.search(args.only, c[0])]
    assert chosen, "no operation has such a name"

    def one(item):
        number, case = item
        found = []
        for opset in OPSETS:
            with tempfile.TemporaryDirectory() as scratch:
                folder = pathlib.Path(scratch)
                if args.keep:
                    folder = args.keep / f"{number}-{case[0]}-{opset}"
                    folder.mkdir(parents=True, exist_ok=True)
                found.append((opset, *check(optc, case, opset, folder)))
        return found

    bad, runs = 0, 0
    with concurrent.futures.ThreadPoolExecutor(args.jobs) as pool:
        for (number, case), results in zip(chosen, pool.map(one, chosen)):
            name, attrs, _, _ = case
            written = [opset for opset, outcome, _ in results if outcome == "same"]
            runs += len(written)
            first = min(written, default=OPSETS[-1] + 1)
            if args.table and first != OPSETS[0]:
                print(f"{number} {name} {attrs}: from {first} on", flush=True)
            for opset, outcome, line in results:
                if outcome == "wrong" or outcome == "refused" and SINCE.get(name, OPSETS[0]) <= opset:
                    bad += 1
                    print(f"{outcome} {number} {name} {attrs} in operator set {opset}: {line}", file=sys.stderr, flush=True)
    print(f"onnx {onnx.__version__}: {len(chosen)} uses of operations, {runs} models are the same, {bad} are not")
    sys.exit(1 if bad else 0)


if __name__ == "__main__":
    main()
