#!/usr/bin/env python3
"""Decoder layers with a cache of 4096 rows compute in place what JAX and onnxruntime compute.

usage: python decoder.py OPTC

The layers of `tests/decoder` are folded for `cpu` with their caches in place, and run in buffers. Positions inside and
outside of the cache give JAX's results: an update clamps them, and a scatter leaves them out.
"""
import functools
import pathlib
import subprocess
import sys
import tempfile

import jax
import numpy as np
import onnxruntime

LAYERS = pathlib.Path(__file__).resolve().parents[1] / "decoder"
sys.path.insert(0, str(LAYERS))
import make  # noqa: E402

NEAR = {"rtol": 2e-5, "atol": 2e-6}


def run(optc, file, inputs, aliases, folder):
    """The results of a layer by name, from the executor."""
    np.savez(folder / "in.npz", **inputs)
    command = [optc, "run", "--target=cpu", "--pass=inline,canonicalize,view-fold", "--exec=physical", str(LAYERS / file)]
    command += [f"--alias={pair}" for pair in aliases]
    files = ["--inputs", str(folder / "in.npz"), "--output", str(folder / "out.npz")]
    done = subprocess.run(command + files, capture_output=True, text=True)
    if done.returncode != 0:
        sys.exit(f"{file}: {done.stderr}")
    return dict(np.load(folder / "out.npz"))


def array(rng, *shape):
    return rng.standard_normal(shape).astype(np.float32)


def in_jax(optc, way, position, rng, folder):
    weights = {name: array(rng, *shape) / 16 for name, shape in make.WEIGHTS.items()}
    rows = (make.GROUPS, make.ROWS) if way == "heads" else (make.ROWS, make.GROUPS)
    caches = [array(rng, 1, *rows, make.HEAD) for _ in range(2)]
    angles = [array(rng, 1, 1, 1, make.HEAD) for _ in range(2)]
    given = (weights, *caches, array(rng, 1, 1, make.WIDTH), np.int32(position), *angles)
    wanted = jax.jit(functools.partial(make.layer, way))(*given)
    # An argument that nothing reads is no argument of the lowered function.
    leaves = [leaf for leaf in jax.tree_util.tree_leaves(given) if way != "grow" or np.shape(leaf) != ()]
    inputs = {f"arg{i}": leaf for i, leaf in enumerate(leaves)}
    aliases = ["arg9=result1", "arg10=result2"] if way == "grow" else []
    found = run(optc, f"{way}.mlir", inputs, aliases, folder)
    for i, tensor in enumerate(wanted):
        np.testing.assert_allclose(found[f"result{i}"], tensor, err_msg=f"{way} at {position}: result {i}", **NEAR)


def in_onnx(optc, rng, folder):
    session = onnxruntime.InferenceSession(LAYERS / "grow.onnx", providers=["CPUExecutionProvider"])
    inputs = {}
    for made in session.get_inputs():
        scale = 16 if made.name in make.WEIGHTS else 1
        inputs[made.name] = array(rng, *made.shape) / scale
    names = [made.name for made in session.get_outputs()]
    wanted = session.run(names, inputs)
    found = run(optc, "grow.onnx", inputs, ["past_k=present_k", "past_v=present_v"], folder)
    for name, tensor in zip(names, wanted):
        np.testing.assert_allclose(found[name], tensor, err_msg=f"grow.onnx: {name}", **NEAR)


def main():
    (optc,) = sys.argv[1:]
    rng, runs = np.random.default_rng(0), 0
    with tempfile.TemporaryDirectory() as made:
        folder = pathlib.Path(made)
        in_onnx(optc, rng, folder)
        for way, positions in [("grow", [0]), *((way, [5, -1, 5000, -5000]) for way in ["update", "heads", "scatter"])]:
            for position in positions:
                in_jax(optc, way, position, rng, folder)
                runs += 1
    print(f"decoder layers: {runs} runs as in JAX, 1 as in onnxruntime")


main()
