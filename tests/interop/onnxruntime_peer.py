#!/usr/bin/env python3
"""optc computes what onnxruntime computes, on random inputs.

usage: python onnxruntime_peer.py OPTC [MODEL.onnx ...]

Without models: those of tests/models.  Weights that are absent are filled at random.  The original
runs by optc's reference interpreter, the program folded for each target by the reference and by the
naive interpreter.  Numbers agree when max|a-b| <= tol * max(1, max|b|), integers when they are equal.
Needs numpy, onnx and onnxruntime.
"""
import pathlib
import subprocess
import sys
import tempfile

import numpy as np
import onnx
import onnxruntime
from onnx import TensorProto, numpy_helper

ROOT = pathlib.Path(__file__).resolve().parents[2]
TOLERANCE = {"float32": 1e-4, "float64": 1e-9, "float16": 1e-2}
TYPES = {"tensor(float)": np.float32, "tensor(double)": np.float64, "tensor(float16)": np.float16,
         "tensor(int64)": np.int64, "tensor(int32)": np.int32, "tensor(bool)": np.bool_}
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
    # Integers are 0 or 1 as well: in range as indices, and a mask once cast to float.
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


def check(optc, path, seed, folder):
    rng = np.random.default_rng(seed)
    model = load(path, rng)
    here = folder / path.name
    onnx.save(model, str(here))
    session = onnxruntime.InferenceSession(str(here), providers=["CPUExecutionProvider"])
    inputs = {i.name: random_input(rng, i) for i in session.get_inputs()}
    np.savez(folder / "in.npz", **inputs)
    names = [o.name for o in session.get_outputs()]
    wanted = dict(zip(names, session.run(names, inputs)))
    for what, options in RUNS:
        command = [optc, "run", *options, here, "--inputs", folder / "in.npz", "--output", folder / "out.npz"]
        done = subprocess.run([str(c) for c in command], capture_output=True, text=True)
        assert done.returncode == 0, f"{path.name}, {what}: {done.stderr}"
        with np.load(folder / "out.npz") as found:
            assert sorted(found.files) == sorted(names), (found.files, names)
            for name in names:
                try:
                    compare(found[name], wanted[name])
                except AssertionError as error:
                    raise AssertionError(f"{path.name}, {what}, seed {seed}, {name}: {error}") from None


def main():
    optc = pathlib.Path(sys.argv[1]).resolve()
    models = [pathlib.Path(p) for p in sys.argv[2:]] or sorted((ROOT / "tests/models").glob("*.onnx"))
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
