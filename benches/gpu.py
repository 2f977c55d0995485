#!/usr/bin/env python3
"""Times the Triton kernels that optc writes for whole blocks, beside torch, on a GPU.

usage: python gpu.py OPTC [--seconds=N] [--only=NAME] [FILE ...]

Without files: the blocks of tests/cases/lowering/triton and the attention block of the README, and a product and an
attention of 16 bits of this script.  Each is written twice: folded (`view-fold`) and unfolded.  The module runs with its
kernels, and so do its operations in torch: a third module is written without a plan, so that torch computes everything,
eager and by `torch.compile`.  The product is also timed as `torch.matmul` (cuBLAS), the attention as
`scaled_dot_product_attention`.  Numbers of all are compared.  Times are medians over runs between events of the device,
after a warm-up; `--seconds` bounds the whole script (220).  Without torch or a GPU every kernel is compiled for sm_80
and sm_90 and nothing is timed.  Needs torch and triton; nothing else depends on this script.
"""
import argparse
import importlib.util
import pathlib
import subprocess
import sys
import tempfile
import time

ROOT = pathlib.Path(__file__).resolve().parents[1]
FOLDED = "--pass=inline,canonicalize,view-fold,tile-propagate"
UNFOLDED = "--pass=inline,canonicalize,tile-propagate"
TORCH = "--pass=inline,canonicalize"

PRODUCT = """func.func @main(%x: tensor<4096x4096xbf16>, %w: tensor<4096x4096xbf16>) -> tensor<4096x4096xbf16> {
  %0 = "hbir.matmul"(%x, %w) : (tensor<4096x4096xbf16>, tensor<4096x4096xbf16>) -> tensor<4096x4096xbf16>
  return %0 : tensor<4096x4096xbf16>
}
"""
T = "tensor<4x16x1024x64xbf16>"
S = "tensor<4x16x1024x1024xbf16>"
ATTENTION = f"""func.func @main(%q: {T}, %k: {T}, %v: {T}) -> {T} {{
  %0 = "hbir.transpose"(%k) <{{perm = [0, 1, 3, 2]}}> : ({T}) -> tensor<4x16x64x1024xbf16>
  %1 = "hbir.matmul"(%q, %0) : ({T}, tensor<4x16x64x1024xbf16>) -> {S}
  %2 = "hbir.constant"() <{{value = dense<0.125> : tensor<bf16>}}> : () -> tensor<bf16>
  %3 = "hbir.mul"(%1, %2) : ({S}, tensor<bf16>) -> {S}
  %4 = "hbir.softmax"(%3) <{{axis = -1}}> : ({S}) -> {S}
  %5 = "hbir.matmul"(%4, %v) : ({S}, {T}) -> {T}
  return %5 : {T}
}}
"""


def programs(folder):
    cases = ROOT / "tests/cases/lowering/triton"
    for path in sorted(cases.glob("*.*")):
        if path.suffix != ".txt":
            yield path.stem, path
    yield "attention_block", ROOT / "tests/models/micro_attention_full.onnx"
    for name, text in (("product", PRODUCT), ("attention", ATTENTION)):
        path = folder / f"{name}.ir"
        path.write_text(text)
        yield name, path


def module(optc, path, passes, folder):
    out = folder / f"{path.stem}_{abs(hash(passes)) % 10**6}.py"
    done = subprocess.run([optc, passes, "--target=triton", "--emit=triton", str(path), "-o", str(out)],
                          capture_output=True, text=True)
    if done.returncode != 0:
        raise RuntimeError(done.stderr[:400])
    spec = importlib.util.spec_from_file_location(out.stem, out)
    loaded = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(loaded)
    return loaded


def shapes(optc, path):
    """The shape and the type of each argument."""
    import re
    text = subprocess.run([optc, "--pass=", "--emit=ir", str(path)], capture_output=True, text=True, check=True).stdout
    signature = re.search(r"@main\((.*?)\) ->", text, re.S).group(1)
    for dims in re.findall(r"%\w+: tensor<([^>,]*)", signature):
        *shape, dtype = dims.split("x")
        yield [int(n) for n in shape], dtype


def median(torch, function, seconds):
    """The median time of a call in microseconds."""
    for _ in range(3):
        function()
    torch.cuda.synchronize()
    times, end = [], time.monotonic() + seconds
    while len(times) < 5 or (time.monotonic() < end and len(times) < 200):
        start, stop = torch.cuda.Event(enable_timing=True), torch.cuda.Event(enable_timing=True)
        start.record()
        function()
        stop.record()
        torch.cuda.synchronize()
        times.append(start.elapsed_time(stop) * 1e3)
    return sorted(times)[len(times) // 2]


def measure(torch, optc, name, path, folder, seconds):
    """The times of one program, by the way in which it runs, and the greatest difference from torch."""
    types = {"f32": torch.float32, "bf16": torch.bfloat16, "f16": torch.float16, "si64": torch.int64, "i1": torch.bool}
    torch.manual_seed(5)
    args = []
    for shape, dtype in shapes(optc, path):
        kind = types[dtype]
        floats = kind.is_floating_point
        args.append((torch.randn(shape, device="cuda") * 0.05).to(kind) if floats else torch.zeros(shape, dtype=kind, device="cuda"))
    plain = module(optc, path, TORCH, folder).main
    ways = {"folded": module(optc, path, FOLDED, folder).main, "unfolded": module(optc, path, UNFOLDED, folder).main,
            "torch eager": plain, "torch.compile": torch.compile(plain)}
    if name == "product":
        ways["cuBLAS"] = torch.matmul
    if name == "attention":
        ways["scaled_dot_product_attention"] = torch.nn.functional.scaled_dot_product_attention
    first = lambda r: (r[0] if isinstance(r, tuple) else r).float()
    with torch.no_grad():
        wanted = first(plain(*args))
        found, worst = {}, {}
        for way, function in ways.items():
            try:
                worst[way] = ((first(function(*args)) - wanted).abs().max() / wanted.abs().max().clamp(min=1e-6)).item()
                found[way] = median(torch, lambda: function(*args), seconds / (len(ways) + 2))
            except Exception as error:  # a way that fails is a finding, not the end
                found[way] = f"{type(error).__name__}: {str(error)[:80]}"
    return found, worst


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("optc")
    parser.add_argument("files", nargs="*", type=pathlib.Path)
    parser.add_argument("--seconds", type=float, default=220)
    parser.add_argument("--only")
    args = parser.parse_intermixed_args()
    end = time.monotonic() + args.seconds
    try:
        import torch
        present = torch.cuda.is_available()
    except Exception as error:
        print(f"torch: {error}")
        present = False
    with tempfile.TemporaryDirectory() as folder:
        folder = pathlib.Path(folder)
        chosen = [(f.stem, f) for f in args.files] or list(programs(folder))
        chosen = [(name, path) for name, path in chosen if args.only in (None, name)]
        if not present:
            print("there is no GPU here: the kernels are compiled, and nothing is timed")
            script = ROOT / "tests/interop/triton_kernels.py"
            files = [str(path) for _, path in chosen]
            return subprocess.call([sys.executable, "-W", "ignore", str(script), args.optc, "--compile", "--table", *files])
        print(torch.cuda.get_device_name(), "torch", torch.__version__)
        torch.backends.cuda.matmul.allow_tf32 = False
        failed = 0
        for at, (name, path) in enumerate(chosen):
            left = end - time.monotonic()
            if left < 5:
                print(f"{name}: no time is left")
                continue
            found, worst = measure(torch, args.optc, name, path, folder, left / (len(chosen) - at) / 2)
            for way, took in found.items():
                wrong = worst.get(way, 0)
                failed += isinstance(took, str) or 2e-2 < wrong
                shown = took if isinstance(took, str) else f"{took:.1f} us, differs from torch by {wrong:.1e}"
                print(f"{name}: {way}: {shown}")
        return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
