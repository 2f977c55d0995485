#!/usr/bin/env python3
"""JAX computes the same as optc with the Pallas kernels that optc writes.

usage: python pallas.py OPTC [--cases=N] [FILE ...]

Without files: those of tests/plans, groups cut out of models, and groups of several families with random sizes and
random tiles (the same ones in every run), some with blocks that a TPU accepts.  Each plan is run in three ways: by the
reference interpreter, tile by tile (`--exec=tiled`), and as Pallas kernels in interpret mode.  Plans for a TPU are also
lowered for it, which runs Pallas's own checks of block shapes. For groups cut out of models only the numbers count:
Pallas may lack an operation on a TPU, or a part may have no kernel.  A file is a program with a plan; `// TPU` in it
says that a TPU accepts its blocks.  Without files the models of tests/models are also written as modules, and must give
onnxruntime's numbers in interpret mode; so must a file that ends in .onnx.  Needs jax and onnxruntime
(requirements.txt).
"""
import importlib.util
import pathlib
import random
import re
import subprocess
import sys
import tempfile

import numpy as np
import onnx
import onnxruntime_peer as peer

ROOT = pathlib.Path(__file__).resolve().parents[2]
DTYPES = {"f32": np.float32, "f16": np.float16, "si32": np.int32, "si64": np.int64, "i1": np.bool_}


def tensor(shape, dtype="f32"):
    return "tensor<" + "".join(f"{n}x" for n in shape) + dtype + ">"


def span(extent, start="0"):
    return f'"{extent}"' if start == "0" else f'"{extent} @ {start}"'


def tile(spans, reduce=None):
    cut = f"reduce = [{', '.join(reduce)}], " if reduce else ""
    return f"{{tile = {{group = 0, {cut}result = [{', '.join(spans)}]}}}}"


def function(arguments, result, grid, order, lines, last):
    args = ", ".join(f"%{name}: {tensor(shape)}" for name, shape in arguments)
    words = ", ".join(f'"{word}"' for word in order)
    grid = ", ".join(map(str, grid))
    body = "\n".join("  " + line for line in lines)
    return (f"func.func @main({args}) -> {tensor(result)} attributes "
            f"{{hbir.groups = [{{grid = [{grid}], order = [{words}]}}]}} {{\n{body}\n"
            f"  return %{last} : {tensor(result)}\n}}\n")


def up(a, b):
    return -(-a // b)


def linear(m, n, k, bm, bn, bk):
    """A product with a bias and a cut reduction, and a GELU that needs the complete sum."""
    t = [span(bm, f"g0 * {bm}"), span(bn, f"g1 * {bn}")]
    y = tensor([m, n])
    return function(
        [("x", [m, k]), ("w", [n, k]), ("b", [n])], [m, n],
        [up(m, bm), up(n, bn), up(k, bk)], ["parallel", "parallel", "arbitrary"],
        [f'%0 = "hbir.linear"(%x, %w, %b) {tile(t, [span(bk, f"g2 * {bk}")])} : '
         f"({tensor([m, k])}, {tensor([n, k])}, {tensor([n])}) -> {y}",
         f'%1 = "hbir.gelu"(%0) {tile(t)} : ({y}) -> {y}'], "1")


def heads(s, h, d, k, bs, bd):
    """A linear, a reshape into heads and a transpose: two nested loops if `bd` cuts a head."""
    flat, split, turned = [s, h * d], [s, h, d], [h, s, d]
    rows, head, inner = span(bs, f"g2 * {bs}"), span(1, "g0"), span(bd, f"g1 * {bd}")
    both = span(bd, f"g0 * {d} + g1 * {bd}")
    return function(
        [("x", [s, k]), ("w", [h * d, k])], turned, [h, d // bd, up(s, bs)], ["parallel"] * 3,
        [f'%0 = "hbir.linear"(%x, %w) {tile([rows, both])} : ({tensor([s, k])}, {tensor([h * d, k])}) -> {tensor(flat)}',
         f'%1 = "hbir.reshape"(%0) <{{shape = {split}}}> {tile([rows, head, inner])} : ({tensor(flat)}) -> {tensor(split)}',
         f'%2 = "hbir.transpose"(%1) <{{perm = [1, 0, 2]}}> {tile([head, rows, inner])} : ({tensor(split)}) -> {tensor(turned)}'],
        "2")


def attention(h, s, d, bs):
    """Scores, softmax and context of every head, with the heads merged."""
    q, scores, flat = [h, s, d], [h, s, s], [s, h * d]
    head, rows = span(1, "g0"), span(bs, f"g1 * {bs}")
    return function(
        [("q", q), ("k", q), ("v", q)], flat, [h, up(s, bs)], ["parallel"] * 2,
        [f'%0 = "hbir.transpose"(%k) <{{perm = [0, 2, 1]}}> {tile([head, span(d), span(s)])} : ({tensor(q)}) -> {tensor([h, d, s])}',
         f'%1 = "hbir.matmul"(%q, %0) {tile([head, rows, span(s)])} : ({tensor(q)}, {tensor([h, d, s])}) -> {tensor(scores)}',
         f'%2 = "hbir.softmax"(%1) <{{axis = 2}}> {tile([head, rows, span(s)])} : ({tensor(scores)}) -> {tensor(scores)}',
         f'%3 = "hbir.matmul"(%2, %v) {tile([head, rows, span(d)])} : ({tensor(scores)}, {tensor(q)}) -> {tensor(q)}',
         f'%4 = "hbir.transpose"(%3) <{{perm = [1, 0, 2]}}> {tile([rows, head, span(d)])} : ({tensor(q)}) -> {tensor([s, h, d])}',
         f'%5 = "hbir.reshape"(%4) <{{shape = {flat}}}> {tile([rows, span(d, f"g0 * {d}")])} : ({tensor([s, h, d])}) -> {tensor(flat)}'],
        "5")


def convolutions(c, m, h, w, bh):
    """Two 3x3 convolutions in strips of rows: the first one computes one more row on each side."""
    x, y = [1, c, h, w], [1, m, h, w]
    halo = [span(1), span(m), span(bh + 2, f"g0 * {bh} - 1"), span(w)]
    strip = [span(1), span(c), span(bh, f"g0 * {bh}"), span(w)]
    conv = "<{pads = [1, 1, 1, 1]}>"
    return function(
        [("x", x), ("w", [m, c, 3, 3]), ("v", [c, m, 3, 3])], x, [up(h, bh)], ["parallel"],
        [f'%0 = "hbir.conv"(%x, %w) {conv} {tile(halo)} : ({tensor(x)}, {tensor([m, c, 3, 3])}) -> {tensor(y)}',
         f'%1 = "hbir.relu"(%0) {tile(halo)} : ({tensor(y)}) -> {tensor(y)}',
         f'%2 = "hbir.conv"(%1, %v) {conv} {tile(strip)} : ({tensor(y)}, {tensor([c, m, 3, 3])}) -> {tensor(x)}'],
        "2")


def norm(m, n, bm):
    """A residual, a layer norm over whole rows, and a sum over them."""
    t, x = [span(bm, f"g0 * {bm}"), span(n)], tensor([m, n])
    return function(
        [("x", [m, n]), ("r", [m, n]), ("s", [n]), ("b", [n])], [m, n], [up(m, bm)], ["parallel"],
        [f'%0 = "hbir.add"(%x, %r) {tile(t)} : ({x}, {x}) -> {x}',
         f'%1 = "hbir.layer_norm"(%0, %s, %b) <{{axis = 1, epsilon = 1.0e-3}}> {tile(t)} : ({x}, {tensor([n])}, {tensor([n])}) -> {x}',
         f'%2 = "hbir.reduce"(%1) <{{axes = [1], keepdims = true, kind = "max"}}> {tile([t[0], span(1)])} : ({x}) -> {tensor([m, 1])}',
         f'%3 = "hbir.mul"(%1, %2) {tile(t)} : ({x}, {tensor([m, 1])}) -> {x}'], "3")


def random_plans(count):
    rng = random.Random(7)
    pick = rng.randint
    for i in range(count):
        kind = i % 5
        if kind == 0:
            m, n, k = pick(1, 20), pick(1, 20), pick(1, 20)
            text = linear(m, n, k, pick(1, m), pick(1, n), pick(1, k))
        elif kind == 1:
            s, d = pick(1, 12), rng.choice([2, 4, 6, 12])
            bd = rng.choice([b for b in range(1, d + 1) if d % b == 0])
            text = heads(s, pick(1, 4), d, pick(1, 8), pick(1, s), bd)
        elif kind == 2:
            s = pick(2, 12)
            text = attention(pick(1, 4), s, pick(1, 6), pick(1, s))
        elif kind == 3:
            h = pick(5, 14)
            text = convolutions(pick(1, 3), pick(1, 3), h, pick(3, 8), pick(1, h - 4))
        else:
            m = pick(1, 12)
            text = norm(m, pick(2, 9), pick(1, m))
        yield f"random {i}", text, False


def tpu_plans():
    yield "linear on a TPU", linear(256, 256, 512, 128, 128, 256), True
    yield "attention on a TPU", attention(2, 256, 128, 128), True
    yield "norm on a TPU", norm(64, 256, 16), True
    yield "heads on a TPU", heads(128, 2, 128, 256, 64, 128), True


def model_groups(optc):
    """Small groups cut out of models, planned for a TPU with much on-chip memory and with little."""
    for path in sorted((ROOT / "tests/cases/passes/tile-propagate/groups").glob("*_small.ir")):
        for memory in (1 << 24, 1 << 17, 1 << 15, 1 << 14):
            passes = f"--pass=view-fold,tile-propagate{{memory={memory}}}"
            for target in ("tpu", "cpu"):
                done = subprocess.run([optc, passes, f"--target={target}", str(path)], capture_output=True, text=True)
                if done.returncode != 0:
                    raise RuntimeError(done.stderr[:800])
                yield f"{path.stem} for {target} in {memory} bytes", done.stdout, "blocks" if target == "tpu" else "numbers"


def run_jax(path, inputs, tpu):
    import jax
    spec = importlib.util.spec_from_file_location("written", path)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    args = [jax.numpy.asarray(inputs[name]) for name in module.ARGUMENTS]
    found = module.main(*args, interpret=True)
    found = found if isinstance(found, tuple) else (found,)
    if tpu:
        chip = jax.sharding.AbstractDevice(device_kind="TPU v5 lite", num_cores=1, platform="tpu")
        mesh = jax.sharding.AbstractMesh((), (), abstract_device=chip)
        with jax.sharding.use_abstract_mesh(mesh):
            program = jax.jit(lambda *a: module.main(*a, interpret=False))
            try:
                program.trace(*args).lower(lowering_platforms=("tpu",))
            except NotImplementedError:
                if tpu != "blocks":
                    raise
    return dict(zip(module.RESULTS, map(np.asarray, found)))


def differs(found, wanted):
    """The difference of two sets of results, or None."""
    for key, w in wanted.items():
        f = found.get(key)
        if f is None or f.shape != w.shape:
            return f"{key} is {None if f is None else f.shape}, wanted {w.shape}"
        if not np.issubdtype(w.dtype, np.floating):
            if not np.array_equal(f, w):
                return f"{key} differs"
            continue
        error = np.max(np.abs(f.astype(np.float64) - w), initial=0)
        if not error <= 1e-4 * max(1, np.max(np.abs(w), initial=0)):
            return f"{key} differs by {error}"
    return None


def check(optc, text, tpu, folder):
    """The failure of one program; None if there is none."""
    path = folder / "plan.ir"
    path.write_text(text)

    def run(*args):
        done = subprocess.run([optc, *args], capture_output=True, text=True)
        if done.returncode != 0:
            raise RuntimeError(done.stderr[:800])

    rng = np.random.default_rng(11)
    inputs = {}
    signature = re.search(r"@main\((.*?)\) ->", text, re.S).group(1)
    for name, dims in re.findall(r"%(\w+): tensor<([^>,]*)[^>]*>", signature):
        *shape, dtype = dims.split("x")
        shape, dtype = [int(n) for n in shape], DTYPES[dtype]
        if np.issubdtype(dtype, np.floating):
            inputs[name] = rng.standard_normal(shape).astype(dtype)
        else:
            inputs[name] = rng.integers(0, 2, shape).astype(dtype)
    np.savez(folder / "in.npz", **inputs)
    try:
        results = {}
        for how in ("reference", "tiled"):
            out = folder / f"{how}.npz"
            run("run", "--pass=", str(path), "--inputs", str(folder / "in.npz"), "--output", str(out), f"--exec={how}")
            results[how] = dict(np.load(out))
        why = differs(results["tiled"], results["reference"])
        if why:
            return f"tile by tile, {why}"
        written = folder / "plan.py"
        run("--pass=", "--emit=pallas", str(path), "-o", str(written))
        model, tpu = isinstance(tpu, str), tpu if tpu != "numbers" else False
        if not model and "has no kernel" in written.read_text():
            return re.search(r"# (.*has no kernel.*)", written.read_text()).group(1)
        # Pallas has no convolutions on a TPU.
        if model and "_conv(" in written.read_text():
            tpu = False
        why = differs(run_jax(written, inputs, tpu), results["reference"])
        return f"in Pallas, {why}" if why else None
    except Exception as error:  # whatever JAX refuses is a finding
        return f"{type(error).__name__}: {str(error)[:800]}"


def model_runs(files):
    """Models, with plans for much on-chip memory and for little."""
    for path in files:
        for target, memory in (("tpu", 1 << 24), ("tpu", 1 << 17), ("cpu", 1 << 15)):
            yield path, target, memory


def check_model(optc, path, target, memory, folder):
    """The number of kernels of a model's module, and its failure; None if there is none."""
    here, written = folder / path.name, folder / "model.py"
    onnx.save(peer.load(path, np.random.default_rng(5)), str(here))
    wanted = peer.expected(here, 5, folder)
    passes = f"--pass=default,tile-propagate{{memory={memory}}}"
    done = subprocess.run([optc, passes, f"--target={target}", "--emit=pallas", str(here), "-o", str(written)],
                          capture_output=True, text=True)
    if done.returncode != 0:
        return 0, done.stderr[:800]
    kernels = written.read_text().count("pl.pallas_call(")
    try:
        with np.load(folder / "in.npz") as inputs:
            found = run_jax(written, dict(inputs), False)
        if sorted(found) != sorted(wanted):
            return kernels, f"gives {sorted(found)}, wanted {sorted(wanted)}"
        for name, value in wanted.items():
            peer.compare(found[name], value)
        return kernels, None
    except Exception as error:  # whatever JAX refuses is a finding
        return kernels, f"{type(error).__name__}: {str(error)[:800]}"


def main():
    optc, count, files = sys.argv[1], 40, []
    for arg in sys.argv[2:]:
        if arg.startswith("--cases="):
            count = int(arg.removeprefix("--cases="))
        else:
            files.append(pathlib.Path(arg))
    every = not files
    models = [f for f in files if f.suffix == ".onnx"]
    files = [f for f in files if f.suffix != ".onnx"]
    if every:
        files = sorted((ROOT / "tests/plans").glob("*.ir"))
        models = sorted((ROOT / "tests/models").glob("*.onnx"))
    plans = [(str(f), f.read_text(), "// TPU" in f.read_text()) for f in files]
    if every:
        plans += [*tpu_plans(), *random_plans(count), *model_groups(optc)]
    failed = 0
    for name, text, tpu in plans:
        with tempfile.TemporaryDirectory() as folder:
            why = check(optc, text, tpu, pathlib.Path(folder))
        if why:
            failed += 1
            print(f"{name}: {why}\n{text}")
    runs = kernels = 0
    for path, target, memory in model_runs(models):
        with tempfile.TemporaryDirectory() as folder:
            more, why = check_model(optc, path, target, memory, pathlib.Path(folder))
        runs, kernels = runs + 1, kernels + more
        if why:
            failed += 1
            print(f"{path.name} for {target} in {memory} bytes, against onnxruntime: {why}")
    if every and kernels < runs:
        failed += 1
        print(f"{kernels} kernels in {runs} modules of models, wanted one each or more")
    print(f"{len(models)} models, {runs} modules with {kernels} kernels against onnxruntime")
    print(f"{len(plans)} plans, {sum(1 for p in plans if p[2] is True)} of them lowered for a TPU, {failed} failures")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
