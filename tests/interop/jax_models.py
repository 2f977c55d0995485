#!/usr/bin/env python3
"""JAX gives onnxruntime's numbers for the modules that `--emit=jax` writes.

usage: python jax_models.py OPTC [MODEL.onnx ...]

Without models: those of tests/models.  Absent weights are filled at random; inputs are random.  Each model is written as
imported, folded for the cpu, and with the kernels of a plan.  The tolerance is that of onnxruntime_peer.py.  Needs jax,
onnx and onnxruntime (requirements.txt).
"""
import importlib.util
import pathlib
import subprocess
import sys
import tempfile

import jax
import numpy as np
import onnx

import onnxruntime_peer as peer

PASSES = ["", "default", "default,tile-propagate"]


def written(optc, passes, here, path, *options):
    """The module that optc writes of a program; its error as an exception."""
    command = [optc, f"--pass={passes}", "--emit=jax", *options, str(here), "-o", str(path)]
    done = subprocess.run(command, capture_output=True, text=True)
    if done.returncode != 0:
        raise RuntimeError(done.stderr[:800])
    spec = importlib.util.spec_from_file_location(path.stem, path)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def run(module, inputs):
    """The results by name, of the compiled function."""
    options = {"weights": module.load()} if hasattr(module, "load") else {}
    args = [jax.numpy.asarray(inputs[name]) for name in module.ARGUMENTS]
    found = jax.jit(module.main)(*args, **options)
    found = found if isinstance(found, tuple) else (found,)
    return dict(zip(module.RESULTS, map(np.asarray, found)))


def check(optc, path, folder):
    """The failure of one model; None if there is none."""
    here = folder / path.name
    onnx.save(peer.load(path, np.random.default_rng(3)), str(here))
    wanted = peer.expected(here, 3, folder)
    with np.load(folder / "in.npz") as file:
        inputs = dict(file)
    for passes in PASSES:
        try:
            found = run(written(optc, passes, here, folder / "model.py", "--target=cpu"), inputs)
            for name, value in wanted.items():
                peer.compare(found[name], value)
        except Exception as error:  # JAX's errors have no class of their own
            return f"--pass={passes}: {type(error).__name__}: {str(error)[:600]}"
    return None


def main():
    optc, models = sys.argv[1], [pathlib.Path(m) for m in sys.argv[2:]]
    models = models or sorted((peer.ROOT / "tests/models").glob("*.onnx"))
    failed = 0
    for path in models:
        with tempfile.TemporaryDirectory() as folder:
            why = check(optc, path, pathlib.Path(folder))
        if why:
            failed += 1
            print(f"{path}: {why}", flush=True)
    print(f"{len(models)} models run by JAX from optc's modules, {failed} failures")
    return 1 if failed or not models else 0


if __name__ == "__main__":
    sys.exit(main())
