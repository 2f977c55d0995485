#!/usr/bin/env python3
"""optc computes the same as onnxruntime, on random inputs.

usage: python onnxruntime_peer.py OPTC [MODEL.onnx ...]
       python onnxruntime_peer.py OPTC --sweep FOLDER [--weights SCRIPT] [--only TEXT] [--naive-below S] [--limit S]

Without models: those of tests/models.  Absent weights are filled at random.  The original is run by optc's reference
interpreter, and the program folded for each target by the reference and by the naive interpreter.  Numbers agree if
max|a-b| <= tol * max(1, max|b|), integers if they are equal.

`--sweep` takes the models of a folder one after the other and prints a line for each.  SCRIPT IN.onnx OUT.onnx writes a
model with weights; without it they are random.  The original and the program folded for the cpu are run by the reference
interpreter, and if that took less than `--naive-below` seconds the folded program is also run by the naive one.  A run of
more than `--limit` seconds counts as slow, not as failed.  Needs numpy, onnx and onnxruntime.
"""
import argparse
import pathlib
import re
import subprocess
import sys
import tempfile
import time

import numpy as np
import onnx
import onnxruntime
from onnx import TensorProto, numpy_helper

ROOT = pathlib.Path(__file__).resolve().parents[2]
TOLERANCE = {"float32": 1e-4, "float64": 1e-9, "float16": 1e-2}
TYPES = {"tensor(float)": np.float32, "tensor(double)": np.float64, "tensor(float16)": np.float16,
         "tensor(int64)": np.int64, "tensor(uint8)": np.uint8, "tensor(int8)": np.int8, "tensor(int32)": np.int32, "tensor(bool)": np.bool_}
RUNS = [("original, reference", ["--pass="]),
        ("cpu, reference", ["--pass=default", "--target=cpu"]),
        ("cpu, naive", ["--pass=default", "--target=cpu", "--exec=naive"]),
        ("journey6, naive", ["--pass=default", "--target=journey6", "--exec=naive"])]


def load(path, rng):
    try:
        return onnx.load(str(path))
    except FileNotFoundError:
        pass
    except onnx.checker.ValidationError:
        pass
    model = onnx.load(str(path), load_external_data=False)
    for tensor in model.graph.initializer:
        if tensor.data_location == TensorProto.EXTERNAL:
            dtype = onnx.helper.tensor_dtype_to_np_dtype(tensor.data_type)
            values = (0.02 * rng.standard_normal(list(tensor.dims))).astype(dtype)
            tensor.CopyFrom(numpy_helper.from_array(values, tensor.name))
    return model


def random_input(rng, info):
    shape = [d if isinstance(d, int) else 2 for d in info.shape]
    dtype = np.dtype(TYPES[info.type])
    if dtype.kind == "f":
        return rng.standard_normal(shape).astype(dtype)
    # Integers are 0 or 1 too: valid as indices, and as a mask after a cast to float.
    return rng.integers(0, 2, shape).astype(dtype)


def compare(found, wanted):
    assert found.shape == wanted.shape, (found.shape, wanted.shape)
    if wanted.dtype.kind != "f":
        assert np.array_equal(found, wanted), "integers differ"
        return 0.0
    a, b = found.astype(np.float64), wanted.astype(np.float64)
    bound = TOLERANCE[str(wanted.dtype)] * max(1.0, float(np.max(np.abs(b), initial=0.0)))
    worst = float(np.max(np.abs(a - b), initial=0.0))
    assert worst <= bound, f"differs by {worst}, allowed {bound}"
    return worst


def expected(here, seed, folder):
    """Writes inputs, and returns onnxruntime's results for them, by output."""
    rng = np.random.default_rng(seed)
    options = onnxruntime.SessionOptions()
    options.log_severity_level = 3
    session = onnxruntime.InferenceSession(str(here), options, providers=["CPUExecutionProvider"])
    inputs = {i.name: random_input(rng, i) for i in session.get_inputs()}
    np.savez(folder / "in.npz", **inputs)
    names = [o.name for o in session.get_outputs()]
    return dict(zip(names, session.run(names, inputs)))


def run(optc, options, here, wanted, folder, limit=None):
    """Runs a model; returns the greatest distance from `wanted`, or raises an AssertionError with the failure."""
    command = [optc, "run", *options, here, "--inputs", folder / "in.npz", "--output", folder / "out.npz"]
    done = subprocess.run([str(c) for c in command], capture_output=True, text=True, timeout=limit)
    assert done.returncode == 0, done.stderr
    with np.load(folder / "out.npz") as found:
        assert sorted(found.files) == sorted(wanted), (found.files, list(wanted))
        return max(compare(found[name], wanted[name]) for name in wanted)


def check(optc, path, seed, folder):
    here = folder / path.name
    onnx.save(load(path, np.random.default_rng(seed)), str(here))
    wanted = expected(here, seed, folder)
    for what, options in RUNS:
        try:
            run(optc, options, here, wanted, folder)
        except AssertionError as error:
            raise AssertionError(f"{path.name}, {what}, seed {seed}: {error}") from None


def sweep_one(optc, path, args, folder):
    """The outcome of one model, in words; raises an AssertionError on a difference."""
    here = folder / path.name
    if args.weights:
        script = [sys.executable, str(args.weights), str(path), str(here)]
        subprocess.run(script, check=True, capture_output=True, cwd=folder)
    else:
        onnx.save(load(path, np.random.default_rng(0)), str(here))
    try:
        wanted = expected(here, 0, folder)
    except onnxruntime.capi.onnxruntime_pybind11_state.InvalidGraph as error:
        return f"onnxruntime does not run it: {str(error)[-120:]}"
    said, quick = [], True
    runs = [("reference", ["--pass="]), ("folded", ["--pass=default", "--target=cpu"]),
            ("naive", ["--pass=default", "--target=cpu", "--exec=naive"])]
    for what, options in runs:
        if what == "naive" and not quick:
            continue
        start = time.monotonic()
        try:
            worst = run(optc, options, here, wanted, folder, args.limit)
        except subprocess.TimeoutExpired:
            said.append(f"{what} slow")
            quick = False
            continue
        except AssertionError as error:
            raise AssertionError(f"{what}: {error}") from None
        spent = time.monotonic() - start
        quick = quick and spent < args.naive_below
        said.append(f"{what} {spent:.1f} s, {worst:.1e}")
    return "; ".join(said)


def sweep(optc, args):
    models = sorted(p for p in args.sweep.glob("*.onnx") if re.search(args.only, p.name))
    failed = 0
    for path in models:
        with tempfile.TemporaryDirectory() as folder:
            try:
                line = sweep_one(optc, path, args, pathlib.Path(folder))
            except AssertionError as error:
                failed += 1
                line = f"FAILED {str(error).strip()[:400]}"
        print(f"{path.name}: {line}", flush=True)
    print(f"onnxruntime {onnxruntime.__version__}: {len(models)} models, {failed} failed")
    return failed


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("optc", type=pathlib.Path)
    parser.add_argument("models", type=pathlib.Path, nargs="*")
    parser.add_argument("--sweep", type=pathlib.Path)
    parser.add_argument("--weights", type=pathlib.Path)
    parser.add_argument("--only", default="")
    parser.add_argument("--naive-below", type=float, default=5.0)
    parser.add_argument("--limit", type=float, default=600.0)
    args = parser.parse_args()
    optc = args.optc.resolve()
    if args.sweep:
        sys.exit(1 if sweep(optc, args) else 0)
    models = args.models or sorted((ROOT / "tests/models").glob("*.onnx"))
    assert models, "there are no models"
    failures = []
    for path in models:
        for seed in range(2):
            with tempfile.TemporaryDirectory() as folder:
                try:
                    check(optc, path, seed, pathlib.Path(folder))
                except AssertionError as error:
                    failures.append(str(error))
    for failure in failures:
        print(failure, file=sys.stderr)
    print(f"onnxruntime {onnxruntime.__version__}: {len(models)} models, "
          f"{2 * len(RUNS) * len(models)} runs, {len(failures)} failed")
    if failures:
        sys.exit(1)


if __name__ == "__main__":
    main()
