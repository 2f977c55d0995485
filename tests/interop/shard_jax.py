#!/usr/bin/env python3
"""Programs on eight devices: shardings that JAX prints are kept by optc, and splits that optc chooses run in JAX.

usage: python shard_jax.py OPTC [MODEL ...]

The models of shard_models.py, each on meshes of 8, 4 x 2 and 2 x 2 x 2 host devices:

- `standard`: JAX with the standard splits of arguments, compiled by XLA;
- `kept`: the same program as StableHLO with its shardings, folded and written again by optc, compiled by XLA;
- `chosen`: the program with its standard splits of arguments; optc chooses all others (`--pass=shard`) for links so slow
  that bytes decide, and writes JAX;
- `kernels`: the same for a TPU's links, with the program of one device planned (`tile-propagate`): its kernels run in
  interpret mode inside of `shard_map`.

All must give the numbers of one device.  Of each the collectives of XLA's module are counted: their kinds, and the bytes
that a device sends by the formulas of a ring.  `chosen` must send at most what `standard` sends.  Attention whose heads are
split, and windows of an image whose windows are split, must send nothing as `chosen`: no all-to-all, and no other collective.  Constraints inside of a program, on values
whose transposes and reshapes are folded, are tested by themselves.  Needs jax (requirements.txt).
"""
import collections
import importlib.util
import math
import os
import pathlib
import re
import subprocess
import sys
import tempfile

os.environ["XLA_FLAGS"] = os.environ.get("XLA_FLAGS", "") + " --xla_force_host_platform_device_count=8"
os.environ["JAX_PLATFORMS"] = "cpu"

import jax  # noqa: E402
import jax.numpy as jnp  # noqa: E402
import numpy as np  # noqa: E402
from jax._src.interpreters import mlir  # noqa: E402
from jax._src.sharding_impls import GSPMDSharding  # noqa: E402
from jax.sharding import NamedSharding, PartitionSpec as P  # noqa: E402
from jaxlib import _jax  # noqa: E402
from jaxlib.mlir import ir  # noqa: E402

import shard_models  # noqa: E402

ROOT = pathlib.Path(__file__).resolve().parents[2]
MESHES = {"8": {"model": 8}, "4x2": {"data": 4, "model": 2}, "2x2x2": {"data": 2, "extra": 2, "model": 2}}
TOLERANCE = 1e-4
BYTES = {"pred": 1, "s8": 1, "u8": 1, "bf16": 2, "f16": 2, "s32": 4, "u32": 4, "f32": 4, "s64": 8, "f64": 8}
COLLECTIVE = re.compile(
    r"= (\S+|\(.*?\)) (all-reduce|all-gather|all-to-all|collective-permute|reduce-scatter)(?:-start)?\((.*)")


def mesh_of(axes):
    kinds = (jax.sharding.AxisType.Auto,) * len(axes)
    return jax.make_mesh(tuple(axes.values()), tuple(axes), kinds)


def on(mesh, split):
    """A split by those axes that the mesh has; None, a free one, stays."""
    return split if split is None else NamedSharding(mesh, P(*(axis if axis in mesh.axis_names else None for axis in split)))


def group_size(text):
    """The number of devices of a group: listed, as the last extent of an array, or as axes of a mesh."""
    listed = re.search(r"replica_groups=\{\{([\d,]*)\}", text)
    if listed:
        return len(listed.group(1).split(","))
    array = re.search(r"replica_groups=\[\d+,(\d+)\]", text)
    if array:
        return int(array.group(1))
    mesh, axes = re.search(r"replica_groups=mesh\[(.*?)\][^{]* \{(.*?)\}", text).groups()
    extents = dict(re.findall(r"'(\w+)'=(\d+)", mesh))
    return math.prod(int(part or extents[axis]) for axis, part in re.findall(r"'(\w+)'(?::\(\d+\)(\d+))?", axes))


def collectives(text):
    """The bytes that a device sends, by kind of collective."""
    found = collections.Counter()
    for shape, kind, rest in COLLECTIVE.findall(text):
        parts = re.findall(r"(\w+)\[([\d,]*)\]", shape)
        size = sum(BYTES[t] * math.prod(int(n) for n in dims.split(",") if n) for t, dims in parts)
        if kind == "collective-permute":
            found[kind] += size
            continue
        n = group_size(rest)
        factor = {"all-reduce": 2 * (n - 1) / n, "reduce-scatter": n - 1}.get(kind, (n - 1) / n)
        found[kind] += round(size * factor)
    return found


def difference(found, wanted):
    """The reason why results differ; None if they agree."""
    for f, w in zip(found, wanted, strict=True):
        f, w = np.asarray(f, np.float64), np.asarray(w, np.float64)
        if f.shape != w.shape:
            return f"found shape {f.shape}, wanted {w.shape}"
        error = float(np.max(np.abs(f - w), initial=0))
        if not error <= TOLERANCE * max(1, float(np.max(np.abs(w), initial=0))):
            return f"differs by {error}"
    return None


def optc_of(optc, text, folder, *options):
    """What optc writes of StableHLO text."""
    path = folder / "program.mlir"
    path.write_text(text)
    done = subprocess.run([optc, *options, str(path)], capture_output=True, text=True)
    if done.returncode != 0:
        raise RuntimeError(done.stderr[:800])
    return done.stdout


def compiled(text):
    """StableHLO text with shardings, compiled for all devices."""
    context = mlir.make_ir_context()
    with context:
        module = ir.Module.parse(text)
        module.operation.verify()
        code = mlir.module_to_bytecode(module)
    options = _jax.CompileOptions()
    build = options.executable_build_options
    build.num_partitions, build.use_spmd_partitioning, build.use_shardy_partitioner = 8, True, True
    build.device_assignment = _jax.DeviceAssignment.create(np.arange(8).reshape(1, 8))
    devices = jax.devices()
    return devices[0].client.compile_and_load(code, _jax.DeviceList(tuple(devices)), options)


def run_text(text, values, mesh, splits):
    """The results of StableHLO text on the mesh, and its collectives. Results are put together from their parts."""
    built = compiled(text)
    given = [jax.device_put(value, on(mesh, split)) for value, split in zip(values, splits)]
    parts = built.execute_sharded(given).disassemble_into_single_device_arrays()
    shardings = built.get_output_shardings()
    shapes = [re.findall(r"\d+", t) for t in re.findall(r"tensor<([^>]*)x[a-z]\w*>", results_of(text))]
    found = []
    for result, sharding, shape in zip(parts, shardings, shapes, strict=True):
        shape = tuple(map(int, shape))
        named = GSPMDSharding(tuple(jax.devices()), sharding)
        found.append(np.asarray(jax.make_array_from_single_device_arrays(shape, named, result)))
    return found, collectives(built.hlo_modules()[0].to_string())


def results_of(text):
    """The text of the results of main."""
    return re.search(r"@main\(.*?\) -> (.*?) \{\n", text, re.S).group(1)


def standard(function, values, mesh, splits, result=None):
    """The results of JAX with these splits, the collectives, and the program as StableHLO. A split of None is free."""
    stated = [on(mesh, split) for split in splits]
    lowered = jax.jit(function, in_shardings=stated, out_shardings=on(mesh, result)).lower(*values)
    built = lowered.compile()
    given = [jax.device_put(value, split) for value, split in zip(values, built.input_shardings[0])]
    return jax.tree.leaves(built(*given)), collectives(built.as_text()), lowered.as_text()


def slow_links(folder):
    """The file of a target whose links are so slow that the bytes over them decide."""
    text = (ROOT / "targets/builtin/xla.toml").read_text()
    link = r"(\[\[links\]\]\nname = .*\n)bandwidth = .*\nlatency = .*"
    path = folder / "slow.toml"
    path.write_text(re.sub(link, r"\1bandwidth = 1.0e7\nlatency = 0.0", text))
    return path


def chosen(optc, text, values, folder, more="", target=None):
    """The results of the module of JAX in which optc chose the splits inside of a program, its collectives, and its
    text."""
    passes = "--pass=inline,canonicalize,shard" + more
    path = folder / "chosen.py"
    path.write_text(optc_of(optc, text, folder, passes, f"--target={target or slow_links(folder)}", "--emit=jax"))
    spec = importlib.util.spec_from_file_location("chosen", path)
    module = importlib.util.module_from_spec(spec)
    # A module with positions of 64 bits enables them for all of JAX.
    wide = jax.config.jax_enable_x64
    spec.loader.exec_module(module)
    over = module.mesh()
    weights = [module.load()] if hasattr(module, "load") else []
    try:
        with jax.set_mesh(over):
            given = module.place(over, values, *weights)
            built = module.sharded(over).lower(*given).compile()
            return jax.tree.leaves(module.whole(built(*given))), collectives(built.as_text()), path.read_text()
    finally:
        jax.config.update("jax_enable_x64", wide)


def constrained(mesh):
    """A program with constraints inside: behind a transpose, at a merged dimension, and one that is open."""
    def function(x, w):
        y = x @ w
        z = jax.lax.with_sharding_constraint(y.reshape(8, 4, 16).transpose(1, 0, 2), on(mesh, P("model", "data")))
        z = jnp.exp(z).transpose(1, 0, 2).reshape(8, 64)
        z = jax.lax.with_sharding_constraint(z * 2, on(mesh, P(P.UNCONSTRAINED, "model")))
        return jax.nn.softmax(z.reshape(8, 4, 16).transpose(2, 0, 1), axis=2)
    rng = np.random.default_rng(3)
    values = [rng.standard_normal((8, 32), np.float32) / 8, rng.standard_normal((32, 64), np.float32) / 8]
    return function, values, [P("data"), P(None, "model")]


def check_inner(optc, folder):
    """The failures of constraints inside of a program."""
    mesh = mesh_of(MESHES["4x2"])
    function, values, splits = constrained(mesh)
    wanted, before, text = standard(function, values, mesh, splits)
    written = optc_of(optc, text, folder, "--pass=default", "--target=xla", "--emit=stablehlo")
    count = written.count("sdy.sharding_constraint")
    if count != text.count("sdy.sharding_constraint"):
        return [f"constraints: found {count} of them written, wanted {text.count('sdy.sharding_constraint')}"]
    found, after = run_text(written, values, mesh, splits)
    print(f"constraints  4x2    standard {dict(before)}  kept {dict(after)}")
    why = difference(found, wanted)
    moved = written.count("stablehlo.transpose")
    if text.count("stablehlo.transpose") < moved:
        return [f"constraints: {moved} transposes are written, wanted no more than were read"]
    return [f"constraints: {why}"] if why else []


def check_parts(optc, label, axes, folder):
    """The failures of attention with split heads, and of images with split windows: they need no collective at all."""
    mesh = mesh_of(axes)
    failures = []
    for name, function, values, splits, result in shard_models.parts(axes, label):
        one = jax.tree.leaves(jax.jit(function)(*values))
        _, known, text = standard(function, values, mesh, splits, result)
        found, own, _ = chosen(optc, text, values, folder)
        print(f"{name:17} {label:6} standard {dict(known)}  chosen {dict(own)}", flush=True)
        why = difference(found, one)
        if own:
            why = f"found {dict(own)}, wanted no collective"
        failures += [f"{name} on {label}: {why}"] if why else []
    return failures


def check(optc, name, axes, folder):
    """The failures of one model on one mesh, after a line with its collectives."""
    label, axes = axes
    function, values, splits = shard_models.built(name)
    one = jax.tree.leaves(jax.jit(function)(*values))
    mesh = mesh_of(axes)
    found, known, text = standard(function, values, mesh, splits)
    failures = [("standard", difference(found, one))]
    written = optc_of(optc, text, folder, "--pass=default", "--target=xla", "--emit=stablehlo")
    found, kept = run_text(written, values, mesh, splits)
    failures.append(("kept", difference(found, one)))
    found, own, _ = chosen(optc, text, values, folder)
    failures.append(("chosen", difference(found, one)))
    found, _, written = chosen(optc, text, values, folder, ",tile-propagate", "tpu")
    kernels = written.partition("\ndef part(")[2].count("pl.pallas_call(")
    failures.append(("kernels", difference(found, one)))
    if kernels == 0 or "has no kernel" in written:
        failures.append(("kernels", f"found {kernels} kernels of one device, wanted one for each group"))
    sent = [f"{way} {bytes.total()} {dict(bytes)}" for way, bytes in (("standard", known), ("kept", kept), ("chosen", own))]
    print(f"{name:12} {label:6} {'  '.join(sent)}  {kernels} kernels", flush=True)
    failures = [f"{name} on {label}, {way}: {why}" for way, why in failures if why]
    if known.total() < own.total():
        failures.append(f"{name} on {label}, chosen: found {own.total()} bytes, wanted at most {known.total()}")
    return failures


def main():
    optc, names = sys.argv[1], sys.argv[2:] or list(shard_models.MODELS)
    failures = []
    with tempfile.TemporaryDirectory() as folder:
        folder = pathlib.Path(folder)
        failures += check_inner(optc, folder)
        for label, axes in MESHES.items():
            failures += check_parts(optc, label, axes, folder)
        for name in names:
            for mesh in MESHES.items():
                try:
                    failures += check(optc, name, mesh, folder)
                except Exception as error:  # JAX's errors have no class of their own
                    failures.append(f"{name} on {mesh[0]}: {type(error).__name__}: {str(error)[:600]}")
    for failure in failures:
        print(failure)
    print(f"{len(names)} models on {len(MESHES)} meshes of 8 devices, {len(failures)} failures")
    return 1 if failures else 0


if __name__ == "__main__":
    sys.exit(main())
