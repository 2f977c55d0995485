#!/usr/bin/env python3
"""JAX takes what optc makes of programs with unknown sizes, and computes the same numbers from it at every size.

usage: python stablehlo_sizes.py OPTC [NAME ...] [--keep FOLDER]

Each program is exported with symbolic shapes, read and written by optc as it is, and folded for the target `xla`.  What is
written is parsed and verified by the MLIR of jaxlib, put into the export in the place of the module, and called at several
sizes beside the original.  A program that says so may keep no more transposes than it names; none that was exported is left
with `!hlo.shape`, which is what a value of unknown sizes was when nothing could be done with it.  Needs jax
(requirements.txt).
"""
import argparse
import dataclasses
import os
import pathlib
import re
import subprocess
import sys
import tempfile

import numpy as np

os.environ.setdefault("JAX_PLATFORMS", "cpu")
import jax
import jax.numpy as jnp
from jax import export
from jax._src.export import _export
from jax._src.interpreters import mlir
from jaxlib.mlir import ir

RUNS = [("as it is", ["--pass="]), ("folded", ["--pass=default", "--target=xla"])]
F, I = jnp.float32, jnp.int32


def encoder(x, w, scale):
    def norm(x):
        mean, variance = x.mean(-1, keepdims=True), x.var(-1, keepdims=True)
        return (x - mean) / jnp.sqrt(variance + 1e-5) * scale
    h = (norm(x) @ w).reshape(x.shape[0], x.shape[1], 3, 4, 8).transpose(2, 0, 3, 1, 4)
    q, k, v = h
    s = jax.nn.softmax(q @ k.transpose(0, 1, 3, 2) / 4, -1)
    return x + (s @ v).transpose(0, 2, 1, 3).reshape(x.shape)


def convolution(x, w):
    y = jax.lax.conv_general_dilated(x, w, (2, 2), "SAME", dimension_numbers=("NHWC", "HWIO", "NHWC"))
    return jnp.mean(jax.nn.relu(y).transpose(0, 3, 1, 2).reshape(y.shape[0], 8, -1), -1)


def windows(x, w):
    b, h, n, c = x.shape
    x = x.reshape(b, h // 4, 4, n // 4, 4, c).transpose(0, 1, 3, 2, 4, 5).reshape(-1, 16, c)
    y = jax.nn.softmax(x @ w, -1)
    return y.reshape(b, h // 4, n // 4, 4, 4, c).transpose(0, 1, 3, 2, 4, 5).reshape(b, h, n, c)


def recurrent(x, w):
    def step(h, part):
        h = jnp.tanh(h @ w + part)
        return h, h
    _, ys = jax.lax.scan(step, jnp.zeros((x.shape[0], 8), F), x.transpose(1, 0, 2))
    return ys.transpose(1, 0, 2)


def branches(x):
    return jax.lax.cond(x.sum() > 0, lambda x: x.T + 1.0, lambda x: (x * 2.0).T, x)


# The function, its arguments with their shapes, sizes to call it at, and the most transposes that a fold may leave.
PROGRAMS = {
    "two_arguments": (lambda x, y: x @ y.T + 1, [("b, 16", F), ("b, 16", F)], [dict(b=1), dict(b=7)], 1),
    "cancel": (lambda x: jnp.tanh(x.transpose(1, 2, 0)).transpose(2, 0, 1), [("b, s, 8", F)], [dict(b=2, s=3), dict(b=5, s=1)], 0),
    "heads": (lambda x, w: jnp.exp((x @ w).reshape(*x.shape[:2], 4, 8).transpose(0, 2, 1, 3)).transpose(0, 2, 1, 3).reshape(x.shape),
              [("b, s, 32", F), ((32, 32), F)], [dict(b=2, s=3), dict(b=1, s=9)], 0),
    "pairs": (lambda x: x.reshape(-1, 2, 16).transpose(1, 0, 2), [("2*b, 16", F)], [dict(b=1), dict(b=6)], 1),
    "embedding": (lambda t, i: jnp.take(t, i, axis=0) + jnp.arange(i.shape[1], dtype=F)[None, :, None],
                  [((100, 16), F), ("b, s", I)], [dict(b=2, s=5), dict(b=3, s=1)], 0),
    "slices": (lambda x: jnp.concatenate([x[:, 1:], x[:, :1]], 1) * x[:, ::-1], [("b, s", F)], [dict(b=2, s=5), dict(b=3, s=8)], None),
    "halves": (lambda x: x[:, :x.shape[1] // 2], [("b, s", F)], [dict(b=2, s=5), dict(b=3, s=8)], None),
    "convolution": (convolution, [("b, 16, 16, 3", F), ((3, 3, 3, 8), F)], [dict(b=1), dict(b=3)], None),
    "windows": (windows, [("b, 4*h, 4*w, 8", F), ((8, 8), F)], [dict(b=1, h=1, w=2), dict(b=2, h=3, w=1)], 2),
    "recurrent": (recurrent, [("b, 6, 8", F), ((8, 8), F)], [dict(b=1), dict(b=4)], None),
    "branches": (branches, [("b, s", F)], [dict(b=2, s=3), dict(b=4, s=1)], None),
    "encoder": (encoder, [("b, s, 32", F), ((32, 96), F), ((32,), F)], [dict(b=1, s=4), dict(b=3, s=7)], 4),
}


def extents(shape, sizes):
    if not isinstance(shape, str):
        return shape
    return tuple(int(eval(part, {}, dict(sizes))) for part in shape.split(","))


def draw(rng, dtype, shape):
    if dtype == I:
        return rng.integers(0, 100, shape).astype(np.int32)
    return rng.standard_normal(shape).astype(np.float32)


def replaced(exported, text):
    """The export with another module in the place of its own; MLIR's verifier has to take it."""
    context = mlir.make_ir_context()
    context.allow_unregistered_dialects = False
    with context:
        module = ir.Module.parse(text)
        module.operation.verify()
        code = _export._module_to_bytecode(module)
    return dataclasses.replace(exported, mlir_module_serialized=code)


def check(command, name, folder):
    function, arguments, sizes, most = PROGRAMS[name]
    scope = export.SymbolicScope()
    dims = lambda shape: export.symbolic_shape(shape, scope=scope) if isinstance(shape, str) else shape
    exported = export.export(jax.jit(function))(*[jax.ShapeDtypeStruct(dims(s), d) for s, d in arguments])
    path = folder / f"{name}.mlir"
    path.write_text(exported.mlir_module())
    rng = np.random.default_rng(1)
    for how, options in RUNS:
        done = subprocess.run([command, *options, "--emit=stablehlo", str(path)], capture_output=True, text=True)
        if done.returncode != 0:
            return f"{how}: {done.stderr[:800]}"
        (folder / f"{name}.{options[0][7:] or 'same'}.mlir").write_text(done.stdout)
        left = len(re.findall(r"stablehlo\.transpose\b", done.stdout))
        if how == "folded" and most is not None and most < left:
            return f"{how}: {left} transposes are left, at most {most} were expected"
        try:
            other = replaced(exported, done.stdout)
            for size in sizes:
                given = [draw(rng, d, extents(s, size)) for s, d in arguments]
                wanted, found = np.asarray(jax.jit(exported.call)(*given)), np.asarray(jax.jit(other.call)(*given))
                if found.shape != wanted.shape or not np.allclose(found, wanted, rtol=1e-4, atol=1e-4):
                    return f"{how}: other numbers at {size}"
        except Exception as error:  # XLA's errors and MLIR's have no class of their own
            return f"{how}: {str(error)[:1200]}"
    read = subprocess.run([command, "--pass=", "--emit=ir", str(path)], capture_output=True, text=True)
    if read.returncode != 0 or "!hlo.shape" in read.stdout:
        return "a value has no type with named sizes"
    return None


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("optc")
    parser.add_argument("names", nargs="*")
    parser.add_argument("--keep", type=pathlib.Path)
    options = parser.parse_args()
    failed, names = 0, options.names or list(PROGRAMS)
    with tempfile.TemporaryDirectory() as folder:
        folder = options.keep or pathlib.Path(folder)
        for name in names:
            why = check(options.optc, name, folder)
            if why:
                failed += 1
                print(f"{name}: {why}", flush=True)
    print(f"{len(names)} programs with unknown sizes, in, out and folded, called at several sizes: {failed} failures")
    return 1 if failed or not names else 0


if __name__ == "__main__":
    sys.exit(main())
