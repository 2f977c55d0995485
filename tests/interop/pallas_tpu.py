#!/usr/bin/env python3
"""The share of groups planned for a TPU that have a kernel which JAX lowers for one.

usage: python pallas_tpu.py OPTC [--target=NAME] [FILE.onnx ...]

Without files: the models of tests/models.  Each model is planned (`default,tile-propagate`, target tpu) and written as
Pallas. JAX lowers each kernel of the module by itself for a "TPU v5 lite", for which no such machine is needed.  A group
counts as lowered if nothing is raised. `NotImplementedError` is a failure like any other, and so is a group without a
kernel, which is written operation by operation.  Prints the share and the reasons; fails if a group is not lowered or
there is none.  Mosaic's compilation of a lowered kernel is tested by mosaic.py.  Needs jax and onnx (requirements.txt).
"""
import collections
import importlib.util
import pathlib
import re
import subprocess
import sys
import tempfile

import jax
import numpy as np
import onnx
import onnxruntime_peer as peer
from jax.experimental import pallas as pl

ROOT = pathlib.Path(__file__).resolve().parents[2]


def kernels(path):
    """The calls of `pl.pallas_call` in a module: a function for each call, and the shapes of its arguments."""
    calls = []

    def record(kernel, *rest, out_shape, **options):
        def call(*args):
            shapes = [jax.ShapeDtypeStruct(a.shape, a.dtype) for a in args]
            calls.append((pallas_call(kernel, *rest, out_shape=out_shape, **options), shapes))
            return jax.tree.map(lambda s: jax.numpy.zeros(s.shape, s.dtype), out_shape)
        return call

    spec = importlib.util.spec_from_file_location("written", path)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    pallas_call, pl.pallas_call = pl.pallas_call, record
    try:
        def shapes(arguments):
            return jax.eval_shape(lambda *a: module.main(*a, interpret=False), *arguments)
        yield module, shapes, calls
    finally:
        pl.pallas_call = pallas_call


def lowered(call, shapes):
    """The reason why JAX does not lower a kernel; None if it does."""
    chip = jax.sharding.AbstractDevice(device_kind="TPU v5 lite", num_cores=1, platform="tpu")
    mesh = jax.sharding.AbstractMesh((), (), abstract_device=chip)
    try:
        with jax.sharding.use_abstract_mesh(mesh):
            jax.jit(call).trace(*shapes).lower(lowering_platforms=("tpu",))
        return None
    except Exception as error:  # whatever JAX refuses is a finding
        text = re.sub(r"\x1b\[[0-9;]*m", "", str(error))
        primitive = re.search(r"primitive in Pallas TPU lowering[^:]*: (\w+)", text)
        return primitive.group(1) if primitive else f"{type(error).__name__}: {text.strip().splitlines()[0][:90]}"


def groups_of(optc, path, target, folder):
    """For each group of a model, the reason why it is not lowered; None if it is."""
    here, written = folder / path.name, folder / "model.py"
    onnx.save(peer.load(path, np.random.default_rng(5)), str(here))
    done = subprocess.run([optc, "--pass=default,tile-propagate", f"--target={target}", "--emit=pallas", str(here),
                           "-o", str(written)], capture_output=True, text=True)
    if done.returncode != 0:
        raise RuntimeError(f"{path.name}: {done.stderr[:800]}")
    model = onnx.load(here, load_external_data=False)
    weights = {w.name for w in model.graph.initializer}
    arguments = [
        jax.ShapeDtypeStruct([d.dim_value for d in i.type.tensor_type.shape.dim],
                             onnx.helper.tensor_dtype_to_np_dtype(i.type.tensor_type.elem_type))
        for i in model.graph.input if i.name not in weights]
    without = len(re.findall(r"# group \d+ has no kernel", written.read_text()))
    for _, shapes, calls in kernels(written):
        shapes(arguments)
    return ["no kernel"] * without + [lowered(*call) for call in calls]


def main():
    optc, target, files = sys.argv[1], "tpu", []
    for arg in sys.argv[2:]:
        if arg.startswith("--target="):
            target = arg.removeprefix("--target=")
        else:
            files.append(pathlib.Path(arg))
    reasons = collections.Counter()
    for path in files or sorted((ROOT / "tests/models").glob("*.onnx")):
        with tempfile.TemporaryDirectory() as folder:
            found = groups_of(optc, path, target, pathlib.Path(folder))
        reasons.update(found)
        print(f"{path.name}: {found.count(None)} of {len(found)} groups", flush=True)
    good = reasons.pop(None, 0)
    refused = sum(reasons.values())
    for why, count in reasons.most_common():
        print(f"{count:5} {why}")
    print(f"{good} of {good + refused} groups are lowered for {target}")
    return 0 if good > 0 and refused == 0 else 1


if __name__ == "__main__":
    sys.exit(main())
