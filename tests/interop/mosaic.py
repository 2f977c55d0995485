#!/usr/bin/env python3
"""The kernels that optc writes for a TPU get through both stages of their compiler, on a machine without a TPU.

usage: python mosaic.py OPTC [--expect-refused=N] [--figures] [--precision=P] [FILE.onnx | FILE.ir | FILE.mlir ...]

Without files: the models of tests/models and the attention blocks of tests/cases.  Each program is planned (`inline,
canonicalize,view-fold,tile-propagate`, target tpu) and written as Pallas.  JAX lowers each kernel for a TPU (stage one), and
Mosaic's passes give its vectors layouts (stage two): jax 0.8.0 with jaxlib 0.8.0 is the last pair that carries these passes
(mosaic.txt).  Kernels that are equal but for names are compiled once.

Prints for each program the number of kernels, of those that pass, and the share of the operations of products (two for each
multiplication and addition) that they hold; then each refusal with its kernel.  Any refusal fails, also
`NotImplementedError` and a crash of the compiler, beyond the number that is expected.  With `--figures` also, for each
kernel, the bytes of its blocks and the operations on vector registers of one program after stage two, by kind.  Each kernel is compiled in a process
of its own.
"""
import collections
import hashlib
import importlib.util
import json
import os
import pathlib
import re
import subprocess
import sys
import tempfile

import jax
import numpy as np
from jax._src import tpu_custom_call
from jax.experimental import pallas as pl
from jaxlib.mlir import ir, passmanager
from jaxlib.mosaic.python import tpu as dialect

ROOT = pathlib.Path(__file__).resolve().parents[2]
PASSES = "inline,canonicalize,view-fold,tile-propagate"
SECONDS = 120
# Blocks of models of real size: attention, windows of Swin with a shift, a block of ConvNeXt, an MLP.
BLOCKS = ["bert_attention", "convnext_block", "llama_attention", "mixer_mlp", "swin_block_shifted", "vit_attention"]
GENERATION = "hardware-generation=5"
LANES = "sublane-count=8 lane-count=128"
STAGE_TWO = [
    f"func.func(tpu-infer-memref-layout{{{GENERATION}}})", "canonicalize,cse",
    f"func.func(tpu-canonicalize-mosaic{{{GENERATION}}})", "canonicalize,cse",
    f"func.func(tpu-infer-vector-layout{{{GENERATION} {LANES}}})",
    f"func.func(tpu-relayout-insertion{{{GENERATION} {LANES}}})",
    f"func.func(tpu-apply-vector-layout{{{LANES} {GENERATION} mxu-contracting-size=128 mxu-noncontracting-size=128 "
    "max-sublanes-in-scratch=72 vmem-banks=16 max-shuffle-sublane-offset=-1})",
]
# Kinds of operations on vector registers, of 8 rows of 128 lanes, after stage two. What is rearranged moves between rows or
# lanes; casts of registers (`bitcast_vreg`) and lists of them (`roll_vectors`) are no instructions.
KINDS = {
    "products": ["tpu.matmul"],
    "loads": ["tpu.load", "tpu.strided_load"],
    "stores": ["tpu.store", "tpu.strided_store"],
    "rearranged": ["tpu.rotate", "tpu.dynamic_rotate", "tpu.transpose", "tpu.gather", "tpu.dynamic_gather", "tpu.shuffled_load",
                   "tpu.shuffled_store", "tpu.relayout"],
    "reductions": ["tpu.all_reduce"],
    "none": ["arith.constant", "arith.index_cast", "tpu.bitcast_vreg", "tpu.bitcast", "tpu.roll_vectors", "tpu.unroll_vectors",
             "tpu.create_mask", "tpu.memref_slice", "tpu.erase_memref_layout", "tpu.reinterpret_cast", "func.func",
             "func.return", "builtin.module", "scf.if", "scf.for", "scf.yield"],
}
FIGURES = ["products", "loads", "stores", "arithmetic", "reductions", "rearranged"]


class Refused(Exception):
    """A pass of stage two that refuses a kernel."""


def vectors(module):
    """Runs the passes of stage two over the module of a kernel."""
    with module.context, module.operation.location:
        dialect.register_dialect(module.context)
        op = module.operation.clone()
        for step in STAGE_TWO:
            try:
                passmanager.PassManager.parse(f"builtin.module({step})").run(op)
            except Exception as error:  # MLIR's errors have no class of their own
                lines = [line for line in str(error).splitlines() if "error" in line or "'" in line]
                raise Refused(re.split(r"\)+: ", (lines or [str(error)])[0].strip())[-1][-160:]) from None
        names = collections.Counter()
        op.walk(lambda inner: names.update([inner.name]) or ir.WalkResult.ADVANCE)
        kinds = {name: kind for kind, group in KINDS.items() for name in group}
        found = collections.Counter()
        for name, count in names.items():
            found[kinds.get(name) or ("arithmetic" if name.startswith(("arith.", "math.")) else "other")] += count
        return found


def refusal(call, shapes, found=None):
    """The reason why a kernel is refused; None if both stages take it.  Counts kinds of operations into `found`."""
    real = tpu_custom_call._lower_mosaic_module_to_asm

    def hooked(module, **options):
        counts = vectors(module)
        if found is not None:
            found.update(counts)
        return real(module, **options)

    tpu_custom_call._lower_mosaic_module_to_asm = hooked
    try:
        jax.jit(call).trace(*shapes).lower(lowering_platforms=("tpu",))
        return None
    except Refused as error:
        return f"stage two: {error}"
    except Exception as error:  # whatever JAX refuses is a finding
        text = re.sub(r"\x1b\[[0-9;]*m", "", str(error)).strip() or type(error).__name__
        return f"stage one: {type(error).__name__}: {text.splitlines()[0][:160]}"
    finally:
        tpu_custom_call._lower_mosaic_module_to_asm = real


def apart(call, shapes):
    """`refusal` in a process of its own: a compiler that aborts ends no more than it.  Also the counts of operations."""
    read, write = os.pipe()
    child = os.fork()
    if child == 0:
        os.dup2(os.open(os.devnull, os.O_WRONLY), 2)
        import signal
        signal.alarm(SECONDS)
        found = collections.Counter()
        why = refusal(call, shapes, found)
        os.write(write, json.dumps([why and why[:2000], found]).encode())
        os._exit(0)
    os.close(write)
    with os.fdopen(read, "rb") as pipe:
        text = pipe.read().decode()
    os.waitpid(child, 0)
    if not text:
        return f"the compiler aborted, or took over {SECONDS} s", {}
    return json.loads(text)


def operations(jaxpr):
    """The operations of the products and convolutions of a program, without those inside of kernels."""
    count = 0
    for eqn in jaxpr.eqns:
        size = lambda shape: int(np.prod(shape, dtype=np.int64))
        if eqn.primitive.name == "pallas_call":
            continue
        if eqn.primitive.name == "dot_general":
            (contracted, _), _ = eqn.params["dimension_numbers"]
            shape = eqn.invars[0].aval.shape
            count += 2 * size([shape[d] for d in contracted]) * size(eqn.outvars[0].aval.shape)
        if eqn.primitive.name == "conv_general_dilated":
            weights, out = eqn.invars[1].aval.shape, eqn.params["dimension_numbers"].rhs_spec[0]
            count += 2 * size(eqn.outvars[0].aval.shape) * size(weights) // weights[out]
        for inner in inside(eqn):
            count += operations(inner)
    return count


def inside(eqn):
    """The programs that an equation runs."""
    for value in eqn.params.values():
        for part in value if isinstance(value, (tuple, list)) else (value,):
            part = getattr(part, "jaxpr", part)
            if hasattr(part, "eqns"):
                yield part


def kernel_calls(jaxpr):
    for eqn in jaxpr.eqns:
        if eqn.primitive.name == "pallas_call":
            yield eqn
        for inner in inside(eqn):
            yield from kernel_calls(inner)


def held(eqn):
    """Bytes of the blocks of a program of a kernel."""
    blocks = eqn.params["grid_mapping"].block_mappings
    return sum(int(np.prod([getattr(n, "block_size", n) or 1 for n in block.block_shape], dtype=np.int64)) *
               block.block_aval.dtype.itemsize for block in blocks)


def arguments(optc, path, names):
    """The shapes of a program's arguments, as optc prints them."""
    done = subprocess.run([optc, "--pass=", str(path)], capture_output=True, text=True, check=True)
    header = re.search(r"func\.func @main\((.*?)\) ->", done.stdout, re.S) or re.search(r"func\.func @\w+\((.*?)\) ->", done.stdout, re.S)
    types = re.findall(r"%[\w.$-]+: tensor<([^,>]*)", header.group(1))
    kinds = {"i1": "bool", "bf16": "bfloat16", "f16": "float16", "f32": "float32", "f64": "float64"}
    shapes = []
    for text in types:
        *dims, kind = text.split("x")
        kind = kinds.get(kind) or kind.replace("si", "int").replace("ui", "uint")
        shapes.append(jax.ShapeDtypeStruct([int(d) for d in dims], jax.numpy.dtype(kind)))
    assert len(shapes) == len(names), (path, types, names)
    return shapes


def judge(optc, path, known, options, printed=False):
    """Prints the share of a program that is in kernels that both stages take; the refusals."""
    with tempfile.TemporaryDirectory() as folder:
        written = pathlib.Path(folder) / "model.py"
        done = subprocess.run([optc, f"--pass={PASSES}", "--target=tpu", *options, "--emit=pallas", str(path), "-o", str(written)],
                              capture_output=True, text=True)
        if done.returncode != 0:
            raise RuntimeError(f"{path.name}: {done.stderr[:800]}")
        without = re.findall(r"# group \d+ has no kernel: (.*)", written.read_text())
        spec = importlib.util.spec_from_file_location("written", written)
        module = importlib.util.module_from_spec(spec)
        spec.loader.exec_module(module)
    if hasattr(module, "_weights"):  # only the shapes matter
        module._weights = lambda name, offset, length, dtype, shape: jax.numpy.zeros(shape, dtype)
    calls, real = [], pl.pallas_call

    def record(kernel, *rest, out_shape, **options):
        def call(*args):
            shapes = [jax.ShapeDtypeStruct(a.shape, a.dtype) for a in args]
            calls.append((kernel.__name__, real(kernel, *rest, out_shape=out_shape, **options), shapes))
            return jax.tree.map(lambda s: jax.numpy.zeros(s.shape, s.dtype), out_shape)
        return call

    shapes = arguments(optc, path, module.ARGUMENTS)
    pl.pallas_call = record
    try:
        outside = operations(jax.make_jaxpr(lambda *a: module.main(*a, interpret=False))(*shapes).jaxpr)
    finally:
        pl.pallas_call = real
    inner, taken, refused, figures = 0, 0, [], []
    for name, call, given in calls:
        text = jax.make_jaxpr(call)(*given)
        [eqn] = kernel_calls(text.jaxpr)
        programs = int(np.prod(eqn.params["grid_mapping"].grid, dtype=np.int64))
        own = operations(eqn.params["jaxpr"]) * programs
        inner += own
        key = hashlib.sha256(re.sub(rf"{name}|[\w./-]*model\.py:\d+|0x[0-9a-f]+", "", str(text)).encode()).hexdigest()
        if key not in known:
            known[key] = apart(call, given)
        why, found = known[key]
        figures += [f"    {name}: {programs} programs, blocks of {held(eqn)} bytes; "
                    + ", ".join(f"{found.get(kind, 0)} {kind}" for kind in FIGURES)] if why is None else []
        if why is None:
            taken += own
        else:
            refused.append(f"{path.name} {name}: {why}")
    whole = max(inner + outside, 1)
    good = len(calls) - len(refused)
    print(f"{path.name}: {good} of {len(calls)} kernels pass, {taken / whole:.1%} of {whole / 1e9:.2f} GFLOP"
          f" ({len(without)} groups without a kernel)", *(figures if printed else []), sep="\n", flush=True)
    return refused, collections.Counter(without), (len(calls), taken, inner + outside)


def main():
    sys.setrecursionlimit(20_000)
    optc, expected, figures, options, files = sys.argv[1], 0, False, [], []
    for arg in sys.argv[2:]:
        if arg.startswith("--expect-refused="):
            expected = int(arg.removeprefix("--expect-refused="))
        elif arg.startswith("--precision="):
            options.append(arg)
        elif arg == "--figures":
            figures = True
        else:
            files.append(pathlib.Path(arg))
    groups = ROOT / "tests/cases/passes/tile-propagate/groups"
    blocks = [groups / f"{name}.ir" for name in BLOCKS]
    known, refused, without, sums = {}, [], collections.Counter(), np.zeros(3, np.int64)
    for path in files or sorted((ROOT / "tests/models").glob("*.onnx")) + blocks:
        own, missing, counts = judge(optc, path, known, options, figures)
        refused += own
        without += missing
        sums += counts
    for line in refused:
        print(line)
    for why, count in without.most_common():
        print(f"{count:5} groups without a kernel: {why}")
    kernels, taken, whole = sums
    print(f"{kernels - len(refused)} of {kernels} kernels pass, {len(known)} of them distinct; they hold"
          f" {taken / max(whole, 1):.1%} of {whole / 1e9:.1f} GFLOP")
    return 0 if len(refused) <= expected else 1


if __name__ == "__main__":
    sys.exit(main())
