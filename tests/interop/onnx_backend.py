#!/usr/bin/env python3
"""optc against the backend tests of the `onnx` package: every operator, with inputs and expected outputs.

usage: python onnx_backend.py OPTC [--filter TEXT] [--table] [--keep FOLDER] [--jobs N]

Each test is a small model.  It is imported and verified, its printed program is parsed again and must print the same, and
the default pipeline folds it for the target cpu.  If no operator stays opaque it is run by the reference interpreter as
imported, and by the reference and the naive interpreter as folded. Each run is compared with the outputs that the package
expects.  The outcome of a test is

  pass     all runs agree; inputs that are shapes, axes or bounds may be replaced by constants
  opaque   some operator stays `hbir.opaque` and runs no functions: imported, printed and folded, but not run
  wrong    a run disagrees, a step fails, or the command panics
  refused  the import is refused with a diagnostic

`--table` prints the counts per operator.  The exit status is 1 if a test is wrong, or refused for a reason that is not
in REFUSALS.  Needs numpy, onnx and ml_dtypes.
"""
import argparse
import collections
import concurrent.futures
import dataclasses
import pathlib
import re
import subprocess
import sys
import tempfile

import ml_dtypes
import numpy as np
import onnx
import onnx.numpy_helper
from onnx.backend.test.case.node import collect_testcases

TOLERANCE = {"float32": 1e-4, "float64": 1e-6, "float16": 1e-2, "bfloat16": 4e-2}
# The codes with which an import may be refused: the IR has no such element type.
REFUSALS = {"unsupported-dtype"}
# Tests whose expected values no runtime gives: align_corners with an extent that is not exactly the scaled one.
CONTESTED = {"test_resize_downsample_scales_linear_align_corners", "test_resize_downsample_scales_cubic_align_corners"}
LIMIT_S = 120


def stored(array):
    """An array in the form of an .npz for optc: bf16 and smaller floats as their bits, integers below 8 bits as int8."""
    if array.dtype.name.startswith(("float8", "float4")):
        return array.view(np.uint8)
    if array.dtype == ml_dtypes.bfloat16:
        return array.view(np.uint16)
    if array.dtype.name in ("int4", "uint4", "int2", "uint2"):
        return array.astype(np.int8)
    return array


def defined(case, inputs, wanted):
    """A mask of the elements that the standard defines: a float outside of an integer type's range is undefined."""
    x = np.asarray(inputs[0]) if inputs else np.zeros(())
    if not re.search("_cast(like)?_", case.name) or x.shape != wanted.shape or x.dtype.name[0] not in "fb":
        return np.ones(wanted.shape, bool)
    if not is_integer(wanted.dtype):
        return np.ones(wanted.shape, bool)
    limits = ml_dtypes.iinfo(wanted.dtype)
    whole = np.trunc(x.astype(np.float64))
    return (int(limits.min) <= whole) & (whole <= int(limits.max))


def is_integer(dtype):
    return dtype.kind in "iu" or dtype.name in ("int4", "uint4", "int2", "uint2")


def compare(found, wanted, kept, rtol, atol):
    """The difference of two arrays where `kept` is true, or None."""
    if wanted.dtype == ml_dtypes.bfloat16:
        found = found.view(ml_dtypes.bfloat16)
    if tuple(found.shape) != tuple(wanted.shape):
        return f"shape {found.shape}, wanted {wanted.shape}"
    if wanted.dtype.name.startswith(("float8", "float4")):
        # Stored and moved bit by bit, one byte per element. If numbers are computed, zeros of both signs are equal.
        found = found.view(np.uint8)
        numbers = found.view(wanted.dtype).astype(np.float32) == wanted.astype(np.float32)
        same = (found == wanted.view(np.uint8)) | numbers | ~kept
        return None if same.all() else f"{(~same).sum()} of {same.size} elements have other bits"
    if wanted.dtype.kind == "c":
        same = (found == wanted) | (np.isnan(found) & np.isnan(wanted)) | ~kept
        return None if same.all() else f"{(~same).sum()} of {same.size} complex numbers differ"
    if wanted.dtype.kind == "b" or is_integer(wanted.dtype):
        same = (found.astype(np.int64) == wanted.astype(np.int64)) | ~kept
        return None if same.all() else f"{(~same).sum()} of {same.size} integers differ"
    bound = TOLERANCE[wanted.dtype.name]
    a, b = found.astype(np.float64), wanted.astype(np.float64)
    if not np.array_equal(np.isnan(a), np.isnan(b)):
        return "NaN in other places"
    infinite = np.isinf(b)
    if not np.array_equal(a[infinite], b[infinite]):
        return "infinities differ"
    kept = ~(infinite | np.isnan(b))
    a, b = a[kept], b[kept]
    worst = float(np.max(np.abs(a - b), initial=0.0))
    if worst <= bound * max(1.0, float(np.max(np.abs(b), initial=0.0))) or np.allclose(a, b, rtol, atol):
        return None
    return f"differs by {worst}"


class Refused(Exception):
    pass


class Wrong(Exception):
    pass


def command(optc, *args):
    done = subprocess.run([str(a) for a in (optc, *args)], capture_output=True, text=True, timeout=LIMIT_S)
    if done.returncode not in (0, 1) or "panicked" in done.stderr:
        raise Wrong(f"exit status {done.returncode}: {done.stderr.strip()[:300]}")
    return done


def must(optc, what, *args):
    done = command(optc, *args)
    if done.returncode != 0:
        raise Wrong(f"{what}: {done.stderr.strip()[:400]}")
    return done


def execute(optc, what, options, model, case, sets, names, folder):
    """Runs a model on each data set and compares."""
    for i, (inputs, outputs) in enumerate(sets):
        arrays = {k: stored(v) for k, v in zip(names[0], inputs)}
        np.savez(folder / "in.npz", **arrays)
        done = command(optc, "run", *options, model, "--inputs", folder / "in.npz", "--output", folder / "out.npz")
        if done.returncode != 0:
            raise Wrong(f"{what}, data {i}: {done.stderr.strip()[:400]}")
        with np.load(folder / "out.npz") as found:
            for name, wanted in zip(names[1], outputs):
                if name not in found.files:
                    raise Wrong(f"{what}: there is no output {name}")
                problem = compare(found[name], wanted, defined(case, inputs, wanted), max(case.rtol, 1e-3), case.atol)
                if problem:
                    raise Wrong(f"{what}, data {i}, {name}: {problem}")


def array(value):
    """A value of a data set as an array; None if it is no numeric tensor."""
    if isinstance(value, onnx.TensorProto):
        value = onnx.numpy_helper.to_array(value)
    if not isinstance(value, (np.ndarray, np.generic, int, float)):
        return None
    value = np.asarray(value)
    return None if value.dtype.kind in "OSUc" else value


def with_constants(case):
    """The test with all inputs but the first as initializers, since these are mostly shapes, axes and bounds."""
    if len(case.data_sets) != 1:
        return None
    model = onnx.ModelProto()
    model.CopyFrom(case.model)
    inputs, outputs = case.data_sets[0]
    kept = []
    for info, value in list(zip(model.graph.input, inputs))[1:]:
        value = array(value)
        if value is None:
            return None
        model.graph.initializer.append(onnx.numpy_helper.from_array(value, info.name))
        kept.append(info)
    for info in kept:
        model.graph.input.remove(info)
    return dataclasses.replace(case, model=model, data_sets=[(list(inputs[:1]), outputs)]) if kept else None


def check(optc, case, folder):
    """The outcome of a test; if an operator stays opaque, with its parameters as constants."""
    outcome, line = check_once(optc, case, folder)
    constant = with_constants(case) if outcome == "opaque" else None
    if constant is not None:
        again = check_once(optc, constant, folder)
        if again[0] != "opaque":
            return again
    return outcome, line


def check_once(optc, case, folder):
    """The outcome of a test and a line about it."""
    model = folder / "model.onnx"
    onnx.save(case.model, str(model))
    first, second, folded = (folder / n for n in ("a.ir", "b.ir", "c.ir"))
    done = command(optc, "--pass=", model, "--emit=ir", "-o", first)
    if done.returncode != 0:
        code = re.search(r"error\[([a-z0-9-]+)\]", done.stderr)
        return "refused", f"{code.group(1) if code else '?'}: {done.stderr.strip().splitlines()[0]}"
    must(optc, "re-parse", "--pass=", first, "--emit=ir", "-o", second)
    if first.read_text() != second.read_text():
        raise Wrong("the printed program prints differently")
    must(optc, "fold", "--pass=default", "--target=cpu", "--verify-each", model, "--emit=ir", "-o", folded)
    # Opaque branches and loops whose graphs are functions can be run.
    opaque = [l for l in first.read_text().splitlines() if '"hbir.opaque"' in l and not re.search(r"onnx\.\w+ = @", l)]
    if opaque:
        kinds = sorted(set(re.findall(r'kind = "([^"]+)"', "\n".join(opaque))))
        return "opaque", " ".join(kinds)
    sets = [([array(v) for v in i], [array(v) for v in o]) for i, o in case.data_sets]
    if any(v is None for pair in sets for part in pair for v in part):
        return "opaque", "its data are no tensors"
    graph = case.model.graph
    constants = {t.name for t in graph.initializer}
    names = ([i.name for i in graph.input if i.name not in constants], [o.name for o in graph.output])
    execute(optc, "imported, reference", ["--pass="], model, case, sets, names, folder)
    execute(optc, "folded, reference", ["--pass=default", "--target=cpu"], model, case, sets, names, folder)
    execute(optc, "folded, naive", ["--pass=default", "--target=cpu", "--exec=naive"], model, case, sets, names, folder)
    return "pass", ""


def guarded(optc, case, keep):
    with tempfile.TemporaryDirectory() as scratch:
        folder = pathlib.Path(scratch) if keep is None else keep / case.name
        folder.mkdir(parents=True, exist_ok=True)
        try:
            return check(optc, case, folder)
        except Wrong as error:
            return "wrong", str(error)
        except subprocess.TimeoutExpired:
            return "wrong", f"it took longer than {LIMIT_S} s"


def operator(case):
    """The operator that a test is about."""
    nodes = case.model.graph.node
    kinds = [f"{n.domain}.{n.op_type}" if n.domain not in ("", "ai.onnx") else n.op_type for n in nodes]
    if "_expanded" in case.name:
        return "(expanded functions)"
    return kinds[0] if len(kinds) == 1 else "(graphs)"


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("optc", type=pathlib.Path)
    parser.add_argument("--filter", default="")
    parser.add_argument("--table", action="store_true")
    parser.add_argument("--keep", type=pathlib.Path)
    parser.add_argument("--jobs", type=int, default=2)
    args = parser.parse_args()
    optc = args.optc.resolve()
    cases = [c for c in collect_testcases(None) if c.model is not None and re.search(args.filter, c.name)
             and c.name not in CONTESTED]
    assert cases, "no test has such a name"
    table = collections.defaultdict(collections.Counter)
    total = collections.Counter()
    bad = []
    with concurrent.futures.ThreadPoolExecutor(args.jobs) as pool:
        results = pool.map(lambda c: guarded(optc, c, args.keep), cases)
        for case, (outcome, line) in zip(cases, results):
            table[operator(case)][outcome] += 1
            total[outcome] += 1
            unexpected = outcome == "refused" and line.split(":")[0] not in REFUSALS
            if outcome == "wrong" or unexpected:
                bad.append(f"{outcome} {case.name}: {line}")
            elif outcome != "pass" and args.table:
                print(f"{outcome} {case.name}: {line}")
    outcomes = ["pass", "opaque", "wrong", "refused"]
    if args.table:
        print(f"{'operator':36}" + "".join(f"{o:>9}" for o in outcomes))
        for name in sorted(table):
            print(f"{name:36}" + "".join(f"{table[name][o] or '':>9}" for o in outcomes))
    for line in bad:
        print(line, file=sys.stderr)
    print(f"onnx {onnx.__version__}: {len(cases)} tests, " + ", ".join(f"{total[o]} {o}" for o in outcomes))
    if bad:
        sys.exit(1)


if __name__ == "__main__":
    main()
