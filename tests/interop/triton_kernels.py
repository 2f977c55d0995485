#!/usr/bin/env python3
"""Triton takes the kernels that optc writes, and they compute what optc computes.

usage: python triton_kernels.py OPTC [--compile] [--models] [--numbers] [--capabilities=80,90] [--jobs=N] [--table] [FILE ...]

Without files: groups cut out of models, and programs of this script, and with `--models` the models of tests/models.
`--compile` compiles every distinct kernel down to machine code, which needs no graphics processor, and prints registers,
spilled bytes and shared memory; a refusal fails, and so does a product without the matrix units, but for those of IEEE's f32 and f64.  `--numbers` runs the modules in Triton's interpreter and compares them
with optc's reference interpreter.  Without either, both are done.  `--table` prints a line of markdown for each file.
Needs triton and numpy (requirements.txt); torch_shim.py stands in for torch.
"""
import argparse
import concurrent.futures
import hashlib
import importlib.util
import inspect
import os
import pathlib
import re
import subprocess
import sys
import tempfile

import numpy as np
import torch_shim

ROOT = pathlib.Path(__file__).resolve().parents[2]
PASSES = "--pass=inline,canonicalize,view-fold,tile-propagate"
DTYPES = {"f32": np.float32, "f16": np.float16, "f64": np.float64, "si32": np.int32, "si64": np.int64, "si8": np.int8,
          "ui8": np.uint8, "i32": np.int32, "i64": np.int64, "i8": np.int8, "i1": np.bool_}


def products(dtype, tolerance):
    """Products of a type, from and to f32."""
    text = f"""func.func @main(%x: tensor<40x70xf32>, %w: tensor<70x36xf32>, %b: tensor<36xf32>) -> tensor<40x36xf32> {{
  %0 = "hbir.cast"(%x) <{{to = {dtype}}}> : (tensor<40x70xf32>) -> tensor<40x70x{dtype}>
  %1 = "hbir.cast"(%w) <{{to = {dtype}}}> : (tensor<70x36xf32>) -> tensor<70x36x{dtype}>
  %2 = "hbir.cast"(%b) <{{to = {dtype}}}> : (tensor<36xf32>) -> tensor<36x{dtype}>
  %3 = "hbir.matmul"(%0, %1) : (tensor<40x70x{dtype}>, tensor<70x36x{dtype}>) -> tensor<40x36x{dtype}>
  %4 = "hbir.add"(%3, %2) : (tensor<40x36x{dtype}>, tensor<36x{dtype}>) -> tensor<40x36x{dtype}>
  %5 = "hbir.cast"(%4) <{{to = f32}}> : (tensor<40x36x{dtype}>) -> tensor<40x36xf32>
  return %5 : tensor<40x36xf32>
}}
"""
    return f"a product of {dtype}", text, tolerance


BYTES = ("a product of bytes", """func.func @main(%x: tensor<40x70xsi8>, %w: tensor<70x36xsi8>) -> tensor<40x36xsi32> {
  %0 = "hbir.dot_general"(%x, %w) <{lhs_contract = [1], rhs_contract = [0], to = si32}> : (tensor<40x70xsi8>, tensor<70x36xsi8>) -> tensor<40x36xsi32>
  %1 = "hbir.add"(%0, %0) : (tensor<40x36xsi32>, tensor<40x36xsi32>) -> tensor<40x36xsi32>
  return %1 : tensor<40x36xsi32>
}
""", 0)

MIXED = ("an attention of 16 bits", """func.func @main(%q: tensor<1x2x70x64xf32>, %k: tensor<1x2x70x64xf32>, %v: tensor<1x2x70x64xf32>) -> tensor<1x70x128xf32> {
  %0 = "hbir.cast"(%q) <{to = bf16}> : (tensor<1x2x70x64xf32>) -> tensor<1x2x70x64xbf16>
  %1 = "hbir.cast"(%k) <{to = bf16}> : (tensor<1x2x70x64xf32>) -> tensor<1x2x70x64xbf16>
  %2 = "hbir.cast"(%v) <{to = bf16}> : (tensor<1x2x70x64xf32>) -> tensor<1x2x70x64xbf16>
  %3 = "hbir.transpose"(%1) <{perm = [0, 1, 3, 2]}> : (tensor<1x2x70x64xbf16>) -> tensor<1x2x64x70xbf16>
  %4 = "hbir.matmul"(%0, %3) : (tensor<1x2x70x64xbf16>, tensor<1x2x64x70xbf16>) -> tensor<1x2x70x70xbf16>
  %5 = "hbir.constant"() <{value = dense<0.125> : tensor<bf16>}> : () -> tensor<bf16>
  %6 = "hbir.mul"(%4, %5) : (tensor<1x2x70x70xbf16>, tensor<bf16>) -> tensor<1x2x70x70xbf16>
  %7 = "hbir.softmax"(%6) <{axis = -1}> : (tensor<1x2x70x70xbf16>) -> tensor<1x2x70x70xbf16>
  %8 = "hbir.matmul"(%7, %2) : (tensor<1x2x70x70xbf16>, tensor<1x2x70x64xbf16>) -> tensor<1x2x70x64xbf16>
  %9 = "hbir.transpose"(%8) <{perm = [0, 2, 1, 3]}> : (tensor<1x2x70x64xbf16>) -> tensor<1x70x2x64xbf16>
  %10 = "hbir.reshape"(%9) <{shape = [1, 70, 128]}> : (tensor<1x70x2x64xbf16>) -> tensor<1x70x128xbf16>
  %11 = "hbir.cast"(%10) <{to = f32}> : (tensor<1x70x128xbf16>) -> tensor<1x70x128xf32>
  return %11 : tensor<1x70x128xf32>
}
""", 2e-2)


def at(precision, case):
    """A program whose products of f32 have this precision: its first line has the option."""
    name, text, tolerance = case
    return f"{name} as {precision}", f"// --precision={precision}\n{text}", tolerance


def written(optc, path, folder, passes=PASSES):
    """The module of a program."""
    out = folder / "module.py"
    head = path.read_bytes().split(b"\n", 1)[0].decode(errors="replace")
    options = [head.removeprefix("// ")] if head.startswith("// --precision=") else []
    done = subprocess.run([optc, passes, *options, "--target=triton", "--emit=triton", str(path), "-o", str(out)],
                          capture_output=True, text=True)
    if done.returncode != 0:
        raise RuntimeError(done.stderr[:600])
    return out


def loaded(path):
    name = "written_" + hashlib.sha256(path.read_bytes()).hexdigest()[:12]
    spec = importlib.util.spec_from_file_location(name, path)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def canonical(text):
    """The text of a kernel with its names numbered: kernels that are equal but for names are one."""
    names = {}

    def number(found):
        word = found.group(0)
        return names.setdefault(word, f"n{len(names)}") if re.fullmatch(r"[a-z]\w*", word) else word
    return re.sub(r"(?<![\w.\"])[a-zA-Z_]\w*(?!\w|\()", number, re.sub(r"def \w+", "def kernel", text))


def compiled(path, name, capability):
    """The figures of a kernel, or the reason why the compiler refuses it."""
    os.environ.pop("TRITON_INTERPRET", None)
    torch_shim.install()
    import triton
    from triton.backends.compiler import GPUTarget
    from triton.compiler import ASTSource
    module = loaded(pathlib.Path(path))
    kernel, parameters, options, programs = next(k for k in module.KERNELS if k[0].__name__ == name)
    order = {p: i for i, p in enumerate(parameters)}
    signature, constants, attributes = {}, {}, {}
    for parameter, kind in parameters.items():
        if kind == 1:
            signature[parameter], constants[parameter] = "constexpr", 1
            continue
        signature[parameter] = kind if isinstance(kind, str) else "i32"
        if isinstance(kind, str) or kind % 16 == 0:
            attributes[(order[parameter],)] = [["tt.divisibility", 16]]
    try:
        source = ASTSource(fn=kernel, signature=signature, constexprs=constants, attrs=attributes)
        made = triton.compile(source, target=GPUTarget("cuda", capability, 32), options=options)
    except Exception as error:  # whatever the compiler refuses is a finding
        while error.__cause__ is not None:
            error = error.__cause__
        return {"refused": f"{type(error).__name__}: {str(error).strip()[-300:]}"}
    ptx = made.asm["ptx"]
    tools = os.path.join(os.path.dirname(triton.__file__), "backends", "nvidia", "bin")
    with tempfile.NamedTemporaryFile(suffix=".cubin") as file:
        file.write(made.asm["cubin"])
        file.flush()
        said = subprocess.run([f"{tools}/cuobjdump", "-res-usage", file.name], capture_output=True, text=True)
    found = dict(re.findall(r"\b(REG|STACK|LOCAL):(\d+)", said.stdout + said.stderr))
    spilled = 0
    if int(found.get("LOCAL", 0)) + int(found.get("STACK", 0)):
        # Local memory holds spilled registers, and tables of functions such as the sine: the assembler tells them apart.
        with tempfile.NamedTemporaryFile("w", suffix=".ptx") as file:
            file.write(ptx)
            file.flush()
            chip = f"sm_{capability}" + ("a" if capability == 90 else "")
            said = subprocess.run([f"{tools}/ptxas", "-v", f"--gpu-name={chip}", file.name, "-o", os.devnull],
                                  capture_output=True, text=True)
            spilled = sum(map(int, re.findall(r"(\d+) bytes spill stores", said.stdout + said.stderr)))
    return {"registers": int(found.get("REG", 0)), "spilled": spilled,
            "shared": made.metadata.shared, "matrix": bool(re.search(r"\b(?:wgmma\.mma_async|mma\.sync)", ptx)),
            # The vector units compute products of f32 as IEEE defines them.
            "narrow": source_of(kernel).count("tl.dot(") - source_of(kernel).count("input_precision=\"ieee\"")}


def source_of(kernel):
    return inspect.getsource(kernel.fn)


def run(optc, *args):
    done = subprocess.run([optc, *args], capture_output=True, text=True)
    if done.returncode != 0:
        raise RuntimeError(done.stderr[:600])
    return done.stdout


def inputs_of(text, rng):
    inputs = {}
    signature = re.search(r"@main\((.*?)\) ->", text, re.S).group(1)
    for name, dims in re.findall(r"%(\w+): tensor<([^>,]*)[^>]*>", signature):
        *shape, dtype = dims.split("x")
        shape, dtype = [int(n) for n in shape], DTYPES[dtype]
        if np.issubdtype(dtype, np.floating):
            inputs[name] = rng.standard_normal(shape).astype(dtype)
        else:
            inputs[name] = rng.integers(0, 2 if dtype != np.int8 else 100, shape).astype(dtype)
    return inputs


def numbers(optc, path, folder, tolerance=1e-4):
    """The difference of a module's numbers in Triton's interpreter from the reference; None if they agree."""
    os.environ["TRITON_INTERPRET"] = "1"
    torch_shim.install()
    patch_interpreter()
    text = run(optc, "--pass=", "--emit=ir", str(path))
    inputs = inputs_of(text, np.random.default_rng(11))
    np.savez(folder / "in.npz", **inputs)
    run(optc, "run", "--pass=", str(path), "--inputs", str(folder / "in.npz"), "--output", str(folder / "out.npz"))
    module = loaded(written(optc, path, folder))
    dtypes = {np.dtype(d.stored): d for d in torch_shim.TYPES.values() if d.name != "bfloat16"}
    args = [torch_shim.Tensor.of(inputs[name], dtypes[inputs[name].dtype]) for name in module.ARGUMENTS]
    found = module.main(*args)
    found = found if isinstance(found, tuple) else (found,)
    wanted = dict(np.load(folder / "out.npz"))
    for key, value in zip(module.RESULTS, found):
        value, want = value.numpy(), wanted[key]
        if value.shape != want.shape:
            return f"{key} is {value.shape}, wanted {want.shape}"
        if want.dtype.kind != "f":
            if not np.array_equal(value, want):
                return f"{key} differs in {np.count_nonzero(value != want)} of {want.size}"
            continue
        error = np.max(np.abs(value.astype(np.float64) - want), initial=0)
        if not error <= tolerance * max(1, np.max(np.abs(want), initial=0)):
            return f"{key} differs by {error}"
    return None


def patch_interpreter():
    """Triton 3.9 multiplies the bits of bfloat16 in its interpreter, not the numbers, and has a block of truth values and
    a single one make integers."""
    import triton.language as tl
    from triton.runtime import interpreter
    builder = interpreter.InterpreterBuilder
    plain = builder.create_dot

    def create_dot(self, a, b, d, *rest):
        if a.dtype.scalar == tl.bfloat16:
            a, b = (self.cast_impl(x, tl.float32) for x in (a, b))
        return plain(self, a, b, d, *rest)
    def checked(plain, place):
        def call(self, *args):
            if len(args) > place:
                args[place].data = args[place].data.astype(np.bool_)
            return plain(self, *args)
        return call
    builder.create_dot = create_dot
    for name, place in (("create_masked_load", 1), ("create_masked_store", 2), ("create_select", 0)):
        setattr(builder, name, checked(getattr(builder, name), place))


def case_of(job):
    """Numbers of one program, in a process of its own."""
    optc, name, source, tolerance = job
    with tempfile.TemporaryDirectory() as folder:
        folder = pathlib.Path(folder)
        path = folder / "program.ir"
        if isinstance(source, pathlib.Path):
            path = folder / source.name
        if path.suffix == ".onnx":
            import onnx
            import onnxruntime_peer
            onnx.save(onnxruntime_peer.load(source, np.random.default_rng(5)), str(path))
        else:
            path.write_text(source.read_text() if isinstance(source, pathlib.Path) else source)
        try:
            return name, numbers(optc, path, folder, tolerance)
        except Exception as error:  # whatever Triton refuses is a finding
            while error.__cause__ is not None:
                error = error.__cause__
            return name, f"{type(error).__name__}: {str(error)[-600:]}"


def groups_of(optc, source, folder):
    """The module of a program, loaded, and its path."""
    path = source
    if not isinstance(source, pathlib.Path):
        path = folder / "program.ir"
        path.write_text(source)
    out = written(optc, path, folder)
    return loaded(out), out


def figures(optc, sources, capabilities, jobs, table):
    """Compiles every distinct kernel of these programs; returns the number of failures."""
    torch_shim.install()
    failed = 0
    with tempfile.TemporaryDirectory() as folder:
        folder = pathlib.Path(folder)
        modules, distinct = [], {}
        for number, (name, source) in enumerate(sources):
            place = folder / str(number)
            place.mkdir()
            try:
                module, path = groups_of(optc, source, place)
            except Exception as error:  # a program that is not written is a finding
                print(f"{name}: {str(error)[:300]}")
                failed += 1
                continue
            keys = {}
            for kernel, parameters, options, programs in module.KERNELS:
                text = canonical(source_of(kernel)) + str(list(parameters.values())) + str(options)
                key = hashlib.sha256(text.encode()).hexdigest()
                distinct.setdefault(key, (str(path), kernel.__name__, name))
                keys[kernel.__name__] = key
            modules.append((name, module, keys))
        found = {}
        with concurrent.futures.ProcessPoolExecutor(jobs) as pool:
            waiting = {(key, c): pool.submit(compiled, path, kernel, c)
                       for key, (path, kernel, _) in distinct.items() for c in capabilities}
            for at, future in waiting.items():
                found[at] = future.result()
        for (key, capability), got in found.items():
            _, kernel, name = distinct[key]
            if "refused" in got:
                failed += 1
                print(f"{name}: {kernel} for sm_{capability}: {got['refused']}")
            elif got["narrow"] and not got["matrix"]:
                failed += 1
                print(f"{name}: {kernel} for sm_{capability} has a product without the matrix units")
            elif got["spilled"]:
                print(f"{name}: {kernel} for sm_{capability} spills {got['spilled']} bytes, {got['registers']} registers")
            elif not table:
                print(f"{name}: {kernel} for sm_{capability}: {got['registers']} registers, {got['shared']} bytes of shared memory"
                      + (", matrix units" if got["matrix"] else ""))
        print(f"{len(distinct)} distinct kernels of {sum(len(k) for _, _, k in modules)}, {failed} refused")
        if table:
            lines(modules, found, capabilities)
    return failed


def lines(modules, found, capabilities):
    """A line of markdown for each program."""
    print("\n| program | groups | with kernels | kernels | " + " | ".join(f"sm_{c} | spills" for c in capabilities)
          + " | FLOPs in kernels |\n|---|--:|--:|--:|" + "--:|--:|" * len(capabilities) + "--:|")
    total = [0] * (3 + 2 * len(capabilities) + 2)
    for name, module, keys in modules:
        inside = sum(f for _, kernels, f, _ in module.GROUPS if kernels)
        outside = sum(f for _, f, _ in module.OUTSIDE)
        row = [len(module.GROUPS), sum(1 for g in module.GROUPS if g[1]), len(keys)]
        for c in capabilities:
            got = [found[key, c] for key in keys.values()]
            row += [sum("refused" not in g for g in got), sum(bool(g.get("spilled")) for g in got)]
        row += [inside, inside + outside]
        total = [a + b for a, b in zip(total, row)]
        print(f"| {name} | " + " | ".join(map(str, row[:-2])) + f" | {share(row)} |")
    print("| all | " + " | ".join(map(str, total[:-2])) + f" | {share(total)} |")


def share(row):
    return f"{100 * row[-2] / row[-1]:.1f} %" if row[-1] else "-"


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("optc")
    parser.add_argument("files", nargs="*", type=pathlib.Path)
    parser.add_argument("--compile", action="store_true")
    parser.add_argument("--numbers", action="store_true")
    parser.add_argument("--models", action="store_true")
    parser.add_argument("--table", action="store_true")
    parser.add_argument("--capabilities", default="80,90")
    parser.add_argument("--jobs", type=int, default=os.cpu_count())
    args = parser.parse_intermixed_args()
    optc = str(pathlib.Path(args.optc).resolve())
    cases = [(f.stem, f.resolve(), 1e-4) for f in args.files]
    large = []
    if not cases:
        folder = ROOT / "tests/cases/passes/tile-propagate/groups"
        cases = [(f.stem, f, 1e-4) for f in sorted(folder.glob("*_small.ir"))]
        cases += [products("f32", 1e-4), at("tf32", products("f32", 1e-4)), at("tf32x3", products("f32", 1e-4)), products("f16", 2e-2), products("bf16", 1e-1), BYTES, MIXED]
        blocks = sorted((ROOT / "tests/cases/lowering/triton").glob("*.*"))
        large = [(f.stem, f) for f in blocks if f.suffix != ".txt"]
        large += [("attention_block", ROOT / "tests/models/micro_attention_full.onnx")]
        if args.models:
            cases += [(f.stem, f, 1e-4) for f in sorted((ROOT / "tests/models").glob("*.onnx"))]
    both = not args.compile and not args.numbers
    failed = 0
    if args.numbers or both:
        with concurrent.futures.ProcessPoolExecutor(args.jobs) as pool:
            jobs = [(optc, name, source, tolerance) for name, source, tolerance in cases]
            for name, why in pool.map(case_of, jobs):
                if why:
                    failed += 1
                    print(f"{name}: {why}")
        print(f"{len(cases)} programs in Triton's interpreter, {failed} differ")
    if args.compile or both:
        # The small groups are for numbers; the blocks have their operations at the sizes of models.
        sources = large + [(name, source) for name, source, _ in cases if not large or isinstance(source, str)]
        capabilities = [int(c) for c in args.capabilities.split(",")]
        failed += figures(optc, sources, capabilities, args.jobs, args.table)
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
