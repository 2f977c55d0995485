#!/usr/bin/env python3
"""JAX accepts optc's results for programs with unknown sizes, and computes the same numbers from them at every size.

usage: python stablehlo_sizes.py OPTC [NAME ...] [--keep FOLDER]

Each program is exported with symbolic shapes, read and written by optc unchanged, and folded for the target `xla`.  The
written text is parsed and verified by jaxlib's MLIR, put into the export in place of the original module, and called at
several sizes together with the original.  `--check` must accept the fold, or say that it cannot run the program.  A
program may state the largest number of transposes that the fold may leave.  No result has `!hlo.shape`, the former type
of values with unknown sizes.  Needs jax (requirements.txt).
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


def stages(x, w1, w2):
    """Convolutions and a pooling on any number of images of any size."""
    def conv(x, w, stride):
        return jax.lax.conv_general_dilated(x, w, (stride, stride), [(1, 1), (1, 1)], dimension_numbers=("NCHW", "OIHW", "NCHW"))
    y = jax.nn.relu(conv(x, w1, 2))
    y = jax.lax.reduce_window(y, -jnp.inf, jax.lax.max, (1, 1, 3, 3), (1, 1, 2, 2), [(0, 0), (0, 0), (1, 1), (1, 1)])
    return (conv(y, w2, 1) + y).mean((2, 3))


def causal(x, w):
    q, k, v = (x @ w).reshape(x.shape[0], x.shape[1], 3, 4, 8).transpose(2, 0, 3, 1, 4)
    mask = jnp.tril(jnp.ones((x.shape[1], x.shape[1]), bool))
    s = jax.nn.softmax(jnp.where(mask, q @ k.transpose(0, 1, 3, 2) / 3, -1e9), -1)
    return (s @ v).transpose(0, 2, 1, 3).reshape(x.shape)


def rotary(x, angles):
    turned = jnp.concatenate([-x[..., 4:], x[..., :4]], -1)
    return x * jnp.cos(angles)[None, :, None] + turned * jnp.sin(angles)[None, :, None]


def averages(x):
    x = jax.lax.reduce_window(x.transpose(0, 2, 3, 1), 0.0, jax.lax.add, (1, 2, 2, 1), (1, 2, 2, 1), "VALID")
    return x.transpose(0, 3, 1, 2) / 4


def same(x, w):
    """A strided convolution on an image of any size with `SAME` padding; the convolution is kept unchanged."""
    return jax.lax.conv_general_dilated(x, w, (2, 2), "SAME", dimension_numbers=("NHWC", "HWIO", "NHWC"))


IMAGES = [dict(b=1, h=9, w=7), dict(b=3, h=6, w=12)]
ROWS = [dict(b=2, s=5, t=3, n=4), dict(b=3, s=16, t=1, n=2)]

# The function, its arguments with their shapes, sizes for the calls, and the largest number of transposes after a fold.
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
    "prefix": (lambda x, y: x[:, :y.shape[1]] * y, [("b, s+t", F), ("b, s", F)], ROWS, None),
    "last": (lambda x: x[:, -1], [("b, s, 8", F)], ROWS, None),
    "backward": (lambda x: x[:, ::-1].transpose(0, 2, 1)[:, :, ::-1], [("b, s, 8", F)], ROWS, None),
    "parts": (lambda x: jnp.concatenate(jnp.split(x.T, 2, axis=0)[::-1], 0).T, [("b, 2*s", F)], ROWS, 0),
    "start": (lambda x, i: jax.lax.dynamic_slice(x.T, (i, 0), (1, x.shape[0])).T, [("b, s", F), ((), I)], ROWS, 0),
    "part": (lambda x, i: jax.lax.dynamic_slice(x, (0, i, 0), (x.shape[0], 2, 8)), [("b, 7, 8", F), ((), I)], ROWS, None),
    "half": (lambda x, i: jax.lax.dynamic_slice(x, (i, 0), (x.shape[0] // 2, 8)), [("b, 8", F), ((), I)], ROWS, None),
    "every_second": (lambda x: x[:, ::2], [("b, s", F)], ROWS, None),
    "columns": (lambda x: x[:, 2:5, ::2].transpose(0, 2, 1), [("b, 7, 8", F)], ROWS, 1),
    "corners": (lambda x: jnp.concatenate([x[:, i::2, j::2] for i in (0, 1) for j in (0, 1)], -1), [("b, 6, 8, 3", F)], ROWS, 0),
    "corners_of_sizes": (lambda x: jnp.concatenate([x[:, i::2, j::2] for i in (0, 1) for j in (0, 1)], -1), [("b, 2*h, 2*w, 3", F)], IMAGES, 0),
    "every_third_of_some": (lambda x: x[:, 1:-1:3], [("b, s+2, 8", F)], ROWS, None),
    "places": (lambda x, i: jnp.take(x.transpose(0, 2, 1), i, axis=2).transpose(0, 2, 1), [("b, s, 8", F), ("n", I)], ROWS, None),
    "places_along": (lambda x, i: jnp.take_along_axis(x, i[..., None], axis=1), [("b, s, 8", F), ("b, n", I)], ROWS, None),
    "pairs_of_places": (lambda x, i: x[jnp.arange(x.shape[0]), i], [("b, s, 8", F), ("b", I)], ROWS, None),
    "diagonal": (lambda x: jnp.diagonal(x, axis1=1, axis2=2), [("b, s, s", F)], ROWS, None),
    "pad": (lambda x: jnp.pad(x.transpose(0, 2, 1), ((0, 0), (0, 0), (1, 2))).transpose(0, 2, 1), [("b, s, 8", F)], ROWS, 0),
    "pad_by_size": (lambda x, y: jnp.pad(x, ((0, 0), (0, y.shape[0]))), [("b, s", F), ("t", F)], ROWS, None),
    "pad_inside": (lambda x: jax.lax.pad(x, 0.0, ((0, 0, 0), (1, 0, 2))), [("b, 7", F)], ROWS, None),
    "pad_to_eight": (lambda x: jnp.pad(x, ((0, 0), (0, -x.shape[1] % 8))), [("b, s", F)], ROWS, None),
    "shift": (lambda x: jnp.pad(x, ((0, 0), (1, 0), (0, 0)))[:, :-1], [("b, s, 8", F)], ROWS, None),
    "edges": (lambda x: jnp.pad(x, ((0, 0), (2, 2)), mode="edge"), [("b, s", F)], ROWS, None),
    "roll": (lambda x: jnp.roll(x, 1, axis=1), [("b, s", F)], ROWS, None),
    "running": (lambda x: jnp.cumsum(x.transpose(0, 2, 1), 2).transpose(0, 2, 1), [("b, s, 8", F)], ROWS, 0),
    "running_images": (lambda x: jnp.cumsum(x, 1)[:, ::-1], [("b, 7", F)], ROWS, None),
    "cache": (lambda k, n, i: jax.lax.dynamic_update_slice(k, n, (0, 0, i, 0)), [("b, 4, s, 8", F), ("b, 4, 1, 8", F), ((), I)], ROWS, None),
    "overwrite": (lambda x, y: x.at[:, :y.shape[1]].set(y), [("b, s+t", F), ("b, s", F)], ROWS, None),
    "causal": (causal, [("b, s, 32", F), ((32, 96), F)], ROWS, 4),
    "rotary": (rotary, [("b, s, 4, 8", F), ("s, 8", F)], ROWS, None),
    "images": (stages, [("b, 3, 32, 32", F), ((8, 3, 3, 3), F), ((8, 8, 3, 3), F)], IMAGES, None),
    "images_of_sizes": (stages, [("b, 3, h+8, w+8", F), ((8, 3, 3, 3), F), ((8, 8, 3, 3), F)], IMAGES, None),
    "averages": (averages, [("b, 3, h, w", F)], IMAGES, 0),
    "same": (same, [("b, h, w, 3", F), ((3, 3, 3, 8), F)], IMAGES, None),
    "transposed_convolution": (lambda x, w: jax.lax.conv_transpose(x, w, (2, 2), "SAME"), [("b, h, 7, 3", F), ((4, 4, 3, 8), F)], IMAGES, None),
    "samples": (lambda x, w: jax.lax.conv_general_dilated(x, w, (2,), [(2, 0)], dimension_numbers=("NTC", "TIO", "NTC")).transpose(0, 2, 1),
                [("b, 2*s, 4", F), ((3, 4, 6), F)], ROWS, None),
    "resize": (lambda x: jax.image.resize(x, (x.shape[0], 2 * x.shape[1], 16, 3), "nearest"), [("b, h, 8, 3", F)], IMAGES, None),
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
    """The export with another module in place of its own, which MLIR's verifier must accept."""
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
                if found.shape != wanted.shape or not np.allclose(found, wanted, rtol=1e-4, atol=1e-4, equal_nan=True):
                    return f"{how}: other numbers at {size}"
        except Exception as error:  # XLA's errors and MLIR's have no class of their own
            return f"{how}: {str(error)[:1200]}"
    checked = subprocess.run([command, str(path), "-o", str(folder / "checked.mlir"), "--check"], capture_output=True, text=True)
    if checked.returncode != 0:
        return f"--check: {checked.stderr[:800]}"
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
