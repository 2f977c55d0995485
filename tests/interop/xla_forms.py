#!/usr/bin/env python3
"""XLA's CPU backend computes the same as optc from the HLO that optc writes for an operation.

usage: python xla_forms.py OPTC

Each program is one operation. It is written as HLO text and run in XLA, and run by `optc run` unchanged.  Covered are
operations whose forms are more than one instruction, especially those whose instructions optc does not read back.  The
tolerance is that of xla_run.py.  Needs jax (requirements.txt). Without it nothing is checked, which is reported, and is
an error if CI_REQUIRE_PEERS is set.
"""
import os
import pathlib
import subprocess
import sys
import tempfile

import xla_run

X, COLUMN = "tensor<2x4x3xf32>", "tensor<4xf32>"
INDEXED = "(tensor<5x4xf32>, tensor<3x{}xsi64>{}) -> {}"

# The name, the attributes, the types, and the largest index that integer operands may hold; `ties` is for data with few
# distinct values.
PROGRAMS = [
    ("arg_max", "axis = 1", f"({X}) -> tensor<2x3xsi64>"),
    ("arg_max", "axis = -1, keepdims = true, select_last_index = true", f"({X}) -> tensor<2x4x1xsi64>"),
    ("arg_min", "axis = 0", f"({X}) -> tensor<4x3xsi64>"),
    ("arg_min", "axis = 1", "(tensor<3x7xsi32>) -> tensor<3xsi64>"),
    ("batch_norm", "epsilon = 0.01", f"({X}, {COLUMN}, {COLUMN}, {COLUMN}, {COLUMN}) -> {X}"),
    ("dequantize", "axis = 1", "(tensor<2x4x3xsi8>, tensor<4xf32>, tensor<4xsi8>) -> tensor<2x4x3xf32>"),
    ("dequantize", "", "(tensor<2x4xsi32>, tensor<f32>) -> tensor<2x4xf32>"),
    ("einsum", 'equation = "bij,kj->ikb"', "(tensor<2x3x4xf32>, tensor<5x4xf32>) -> tensor<3x5x2xf32>"),
    ("einsum", 'equation = "ij->ji"', "(tensor<2x3xf32>) -> tensor<3x2xf32>"),
    ("gather_elements", "axis = 1", "(tensor<3x5xf32>, tensor<2x4xsi64>) -> tensor<2x4xf32>"),
    ("gather_elements", "axis = 0", "(tensor<5xf32>, tensor<4xsi32>) -> tensor<4xf32>"),
    ("gather_nd", "", INDEXED.format(1, "", "tensor<3x4xf32>")),
    ("gather_nd", "", INDEXED.format(2, "", "tensor<3xf32>")),
    ("gather_nd", "batch_dims = 1", "(tensor<3x5x4xf32>, tensor<3x2x1xsi64>) -> tensor<3x2x4xf32>"),
    ("group_norm", "num_groups = 2", f"({X}, {COLUMN}, {COLUMN}) -> {X}"),
    ("instance_norm", "", f"({X}, {COLUMN}, {COLUMN}) -> {X}"),
    ("one_hot", "depth = 5", "(tensor<2x3xsi64>) -> tensor<2x3x5xf32>"),
    ("one_hot", "depth = 5, axis = 0", "(tensor<2x3xsi64>, tensor<2xf32>) -> tensor<5x2x3xf32>"),
    ("quantize", "axis = 0, to = si8", "(tensor<4x9xf32>, tensor<4xf32>, tensor<4xsi8>) -> tensor<4x9xsi8>"),
    ("quantize", "to = ui8", "(tensor<4x9xf32>, tensor<f32>) -> tensor<4x9xui8>"),
    ("resize", 'scales = [1.0, 1.0, 2.0, 1.5]', "(tensor<1x2x3x4xf32>) -> tensor<1x2x6x6xf32>"),
    ("resize", 'sizes = [1, 2, 5, 3], mode = "linear"', "(tensor<1x2x3x4xf32>) -> tensor<1x2x5x3xf32>"),
    ("resize", 'sizes = [1, 2, 7, 4], mode = "cubic"', "(tensor<1x2x3x4xf32>) -> tensor<1x2x7x4xf32>"),
    ("rotary_embedding", "", "(tensor<2x3x5x4xf32>, tensor<2x5x2xf32>, tensor<2x5x2xf32>) -> tensor<2x3x5x4xf32>"),
    ("rotary_embedding", "interleaved = true, size = 4, sequence_axis = 1",
     "(tensor<2x3x5x6xf32>, tensor<7x2xf32>, tensor<7x2xf32>, tensor<2x3xsi64>) -> tensor<2x3x5x6xf32>"),
    ("scatter_elements", "axis = 1", "(tensor<3x5xf32>, tensor<2x1xsi64>, tensor<2x1xf32>) -> tensor<3x5xf32>"),
    ("scatter_elements", 'axis = 0, reduction = "add"', "(tensor<5x3xf32>, tensor<4x2xsi64>, tensor<4x2xf32>) -> tensor<5x3xf32>"),
    ("scatter_elements", 'axis = 0, reduction = "max"', "(tensor<5xsi32>, tensor<4xsi64>, tensor<4xsi32>) -> tensor<5xsi32>"),
    ("scatter_nd", 'reduction = "add"', INDEXED.format(1, ", tensor<3x4xf32>", "tensor<5x4xf32>")),
    ("scatter_nd", 'reduction = "mul"', INDEXED.format(2, ", tensor<3xf32>", "tensor<5x4xf32>")),
    ("scatter_nd", 'reduction = "min"', "(tensor<5x4xf32>, tensor<2x3x1xsi32>, tensor<2x3x4xf32>) -> tensor<5x4xf32>"),
    ("scatter_nd", "", "(tensor<5x4xf32>, tensor<1x2xsi64>, tensor<1xf32>) -> tensor<5x4xf32>"),
    ("top_k", "k = 3", "(tensor<2x7xf32>) -> (tensor<2x3xf32>, tensor<2x3xsi64>)"),
    ("top_k", "k = 4, axis = 0, largest = false", "(tensor<4x3xf32>) -> (tensor<4x3xf32>, tensor<4x3xsi64>)"),
    ("top_k", "k = 2, axis = 1", "(tensor<2x7x2xsi32>) -> (tensor<2x2x2xsi32>, tensor<2x2x2xsi64>)"),
    ("trilu", "", "(tensor<2x3x4xf32>) -> tensor<2x3x4xf32>"),
    ("trilu", "k = -1, upper = false", "(tensor<3x4xsi32>) -> tensor<3x4xsi32>"),
]
# Operations that are also run with special floats, whose order they must respect.
ODD = ["arg_max", "arg_min", "top_k"]


def source(name, attributes, types):
    operands, results = types.split(" -> ")
    count = operands.count("tensor<")
    args = ", ".join(f"%a{i}" for i in range(count))
    left = "%0" if results.count("tensor<") == 1 else "%0:2"
    return f'{left} = "hbir.{name}"({args}) <{{{attributes}}}> : {types}\n', count


def drawn(rng, name, module, odd):
    found = []
    for number, (key, element, dims) in enumerate(xla_run.parameters(module)):
        if element.startswith("f"):
            x = rng.standard_normal(dims).astype({"f32": "float32", "f64": "float64"}[element])
            # Scales and variances are positive.
            x = np.abs(x) + 0.1 if number == 4 or (number == 1 and "quantize" in name) else x
            x = np.round(2 * x) / 2 if name in ODD else x
            if odd and x.size:
                x.flat[rng.integers(x.size)] = np.nan
        elif number == 0 and name != "one_hot":
            x = rng.integers(-9, 9, dims).astype({"s32": "int32", "s8": "int8"}[element])
        else:
            # Indices of both signs, in the range of the smallest indexed extent.
            low, high = (0, 3) if name == "rotary_embedding" else (-4, 4)
            x = rng.integers(low, high, dims).astype({"s64": "int64", "s32": "int32", "s8": "int8"}[element])
        found.append((key, x))
    return found


def agree(found, wanted):
    if found.dtype.kind == "f" and np.isnan(wanted).any():
        if not np.array_equal(np.isnan(found), np.isnan(wanted)):
            return "other NaNs"
        found, wanted = np.nan_to_num(found), np.nan_to_num(wanted)
    return xla_run.agree(found, wanted)


def check(optc, xla, folder, program, seed, odd):
    """The failure of one program; None if there is none."""
    text, _ = source(*program)
    path, given, results = (folder / n for n in ("m.ir", "in.npz", "out.npz"))
    path.write_text(text)
    done = subprocess.run([optc, "--pass=", "--emit=hlo", str(path)], capture_output=True, text=True)
    if done.returncode != 0 or " custom-call(" in done.stdout:
        return f"no form: {done.stderr[:300]}"
    module = xla.parse(done.stdout)
    inputs = drawn(np.random.default_rng(seed), program[0], module, odd)
    np.savez(given, **dict(inputs))
    ran = subprocess.run([optc, "run", "--pass=", str(path), "--inputs", str(given), "--output", str(results)],
                         capture_output=True, text=True)
    if ran.returncode != 0:
        return f"optc run: {ran.stderr[:300]}"
    with np.load(results) as file:
        wanted = [file[key] for key in file]
    found = xla.run(module, [x for _, x in inputs])
    if len(found) != len(wanted):
        return f"{len(found)} results, wanted {len(wanted)}"
    for i, (a, b) in enumerate(zip(found, wanted)):
        why = agree(a, b)
        if why:
            return f"result {i}: {why}\n{done.stdout}"
    return None


def main():
    try:
        global np
        import numpy as np
        xla_run.np = np
        xla = xla_run.Xla()
    except ImportError as error:
        print(f"skipped: jax is not installed ({error})")
        return 1 if os.environ.get("CI_REQUIRE_PEERS") else 0
    failed = 0
    with tempfile.TemporaryDirectory() as folder:
        for program in PROGRAMS:
            for odd in [False, True][:1 + (program[0] in ODD)]:
                for seed in range(3):
                    try:
                        why = check(sys.argv[1], xla, pathlib.Path(folder), program, seed, odd)
                    except Exception as error:  # XLA's errors have no class of their own
                        why = str(error)[:600]
                    if why:
                        failed += 1
                        print(f"{program[0]} {program[1]}: {why}")
                        break
    print(f"{len(PROGRAMS)} operations run by XLA from optc's HLO, {failed} failures")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
