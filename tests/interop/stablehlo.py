#!/usr/bin/env python3
"""JAX accepts the StableHLO that optc writes, and computes the same numbers from it.

usage: python stablehlo.py OPTC [FILE.mlir ...] [--seed S]

Without files: the modules of frontends/stablehlo/tests/modules.  Each is read and written unchanged, and folded for the
target `xla`. The written text is parsed and verified by jaxlib's MLIR, compiled by XLA's CPU backend, and run on random
inputs together with the original.  The tolerance is that of xla_run.py.  Needs jax (requirements.txt).
"""
import argparse
import os
import pathlib
import subprocess
import sys

import numpy as np

ROOT = pathlib.Path(__file__).resolve().parents[2]
RUNS = [("as it is", ["--pass="]), ("folded", ["--pass=default", "--target=xla"])]
TOLERANCE = {"float32": 1e-4, "float64": 1e-9, "float16": 1e-2, "bfloat16": 4e-2}


class Xla:
    """jaxlib's MLIR and CPU backend."""

    def __init__(self):
        os.environ.setdefault("JAX_PLATFORMS", "cpu")
        import jax
        from jax._src.interpreters import mlir
        from jaxlib import _jax
        from jaxlib.mlir import ir
        jax.config.update("jax_enable_x64", True)
        self.jax, self.lib, self.ir, self.mlir = jax, _jax, ir, mlir
        self.context = mlir.make_ir_context()
        self.context.allow_unregistered_dialects = False
        self.devices = jax.devices()[:1]
        # The kernels of custom calls are loaded when JAX itself first uses them.
        jax.numpy.linalg.solve(np.eye(2), jax.numpy.linalg.cholesky(np.eye(2)))

    def parse(self, text):
        with self.context:
            module = self.ir.Module.parse(text)
            module.operation.verify()
        return module

    def arguments(self, module):
        """The element types and extents of the arguments of `@main`."""
        with self.context:
            for op in module.body.operations:
                if op.operation.name == "func.func" and op.attributes["sym_name"].value == "main":
                    kinds = self.ir.FunctionType(op.attributes["function_type"].value).inputs
                    return [(str(t.element_type), list(t.shape)) for t in map(self.ir.RankedTensorType, kinds)]
        raise ValueError("no @main")

    def compile(self, module):
        with self.context:
            code = self.mlir.module_to_bytecode(module)
        where = self.lib.DeviceList(tuple(self.devices))
        return self.devices[0].client.compile_and_load(code, where, self.lib.CompileOptions())

    def put(self, inputs):
        return [self.jax.device_put(x, self.devices[0]) for x in inputs]

    def run(self, built, given):
        results = built.execute_sharded(given).disassemble_into_single_device_arrays()
        return [np.asarray(parts[0]) for parts in results]


def draw(rng, element, shape):
    """Numbers that keep deep models finite: products of about unit size, scales and variances around 1."""
    if element == "i1":
        return rng.integers(0, 2, shape).astype(bool)
    if element.startswith(("i", "ui")):
        bits = element.lstrip("ui")
        name = ("uint" if element.startswith("ui") else "int") + bits
        return rng.integers(0, 4, shape).astype(name)
    if element.startswith("complex"):
        values = rng.standard_normal(shape) + 1j * rng.standard_normal(shape)
        return values.astype("complex64" if "f32" in element else "complex128")
    values = rng.uniform(0.5, 1.5, shape) if len(shape) < 2 else rng.standard_normal(shape) / np.sqrt(max(shape[-2], 1))
    import ml_dtypes
    names = {"f32": "float32", "f64": "float64", "f16": "float16", "bf16": ml_dtypes.bfloat16,
             "f8E4M3FN": ml_dtypes.float8_e4m3fn, "f8E5M2": ml_dtypes.float8_e5m2}
    return np.asarray(values).astype(names[element])


def agree(found, wanted):
    if found.shape != wanted.shape or found.dtype != wanted.dtype:
        return f"{found.dtype}{found.shape} and {wanted.dtype}{wanted.shape}"
    name = str(wanted.dtype)
    if name not in TOLERANCE and wanted.dtype.kind != "c":
        return None if np.array_equal(found, wanted) else "other numbers"
    kind = np.complex128 if wanted.dtype.kind == "c" else np.float64
    a, b = found.astype(kind), wanted.astype(kind)
    if not np.array_equal(np.isfinite(a), np.isfinite(b)):
        return "other infinities or NaNs"
    good = np.isfinite(b)
    bound = TOLERANCE.get(name, 1e-4) * max(1.0, np.abs(b[good]).max(initial=0.0))
    worst = np.abs(a[good] - b[good]).max(initial=0.0)
    return None if worst <= bound else f"numbers that differ by {worst}, of up to {np.abs(b[good]).max(initial=0.0)}"


def optc(command, options, path):
    done = subprocess.run([command, *options, "--emit=stablehlo", str(path)], capture_output=True, text=True)
    if done.returncode != 0:
        raise ValueError(done.stderr[:800])
    return done.stdout


def check(command, xla, path, seed):
    """The failure of one module; None if there is none."""
    original = xla.parse(path.read_text())
    rng = np.random.default_rng(seed)
    given = [draw(rng, *kind) for kind in xla.arguments(original)]
    wanted = xla.run(xla.compile(original), xla.put(given))
    for how, options in RUNS:
        try:
            text = optc(command, options, path)
            found = xla.run(xla.compile(xla.parse(text)), xla.put(given))
        except Exception as error:  # XLA's errors and MLIR's have no class of their own
            return f"{how}: {str(error)[:1200]}"
        if len(found) != len(wanted):
            return f"{how}: {len(found)} results, wanted {len(wanted)}"
        for number, (a, b) in enumerate(zip(found, wanted)):
            why = agree(a, b)
            if why:
                return f"{how}: result {number}: {why}"
    return None


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("optc")
    parser.add_argument("files", nargs="*", type=pathlib.Path)
    parser.add_argument("--seed", type=int, default=1)
    options = parser.parse_args()
    files = options.files or sorted((ROOT / "frontends/stablehlo/tests/modules").glob("*.mlir"))
    xla, failed = Xla(), 0
    for path in files:
        why = check(options.optc, xla, path, options.seed)
        if why:
            failed += 1
            print(f"{path.name}: {why}", flush=True)
    print(f"{len(files)} StableHLO modules in, out and folded, run by XLA: {failed} failures")
    return 1 if failed or not files else 0


if __name__ == "__main__":
    sys.exit(main())
