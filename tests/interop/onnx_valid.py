#!/usr/bin/env python3
"""Models that optc writes are as valid as the originals, load, and compute the same.

usage: python onnx_valid.py OPTC [MODEL.onnx ...] [--only TEXT] [--keep FOLDER] [--numbers]

Each model goes through the command for `onnx` and for `onnxruntime`.  The result must pass onnx.checker (with full_check
if the original does), load in onnxruntime if the original does, and have the interface of the original.  Without models:
those of tests/models, and the models of CASES. Each of these is easily written wrong: names that inner graphs capture,
inputs with default values, regions without a form.  For these, and with `--numbers`, the result must compute the same in
onnxruntime; CASES also states the operators that may be written unchanged.

Needs numpy, onnx and onnxruntime.  The exit status is 1 if something is wrong.
"""
import argparse
import json
import pathlib
import re
import subprocess
import sys
import tempfile

import numpy as np
import onnx
import onnx.parser

import onnx_out

TARGETS = ["onnx", "onnxruntime"]
HEADER = '<ir_version: 8, opset_import: ["" : 17]>'

# Name, inputs and outputs, nodes, and the names of operators that may be written unchanged.
CASES = [
    # An operator keeps its graphs if its results have different ranks in them.
    ("branch_takes_renamed", "(float[1, 4, L] x, bool c) => (float o)", """
        [one] r = Relu(x)
        [two] y = If(c) <
            then_branch = g () => (float[4, L] a) { k = Constant<value_ints = [0]>() a = Squeeze(r, k) },
            else_branch = h () => (float[1, 4, L] b) { b = Identity(r) }>
        [three] o = ReduceMean<keepdims = 0>(y)""", []),
    ("branch_takes_output", "(float[1, 4] x, bool c) => (float[1, 4] r, float o)", """
        r = Relu(x)
        y = If(c) <
            then_branch = g () => (float[4] a) { k = Constant<value_ints = [0]>() a = Squeeze(r, k) },
            else_branch = h () => (float[1, 4] b) { b = Identity(r) }>
        o = ReduceMean<keepdims = 0>(y)""", []),
    ("branch_takes_transposed", "(float[2, 3] x, bool c) => (float o)", """
        t = Transpose<perm = [1, 0]>(x)
        r = Relu(t)
        y = If(c) <
            then_branch = g () => (float[6] a) { k = Constant<value_ints = [6]>() a = Reshape(r, k) },
            else_branch = h () => (float[3, 2] b) { b = Neg(r) }>
        o = ReduceSum<keepdims = 0>(y)""", []),
    # The node has the same name as a value inside of the branch.
    ("branch_defines_name_of_node", "(float[1, 4] x, bool c) => (float o)", """
        [a] r = Relu(x)
        [b] s = Neg(r)
        y = If(c) <
            then_branch = g () => (float[4] a) { k = Constant<value_ints = [0]>() a = Squeeze(r, k) },
            else_branch = h () => (float[1, 4] b) { b = Add(r, s) }>
        [k] o = ReduceMean<keepdims = 0>(y)""", []),
    ("branches_in_branches", "(float[1, 4] x, bool c, bool d) => (float o)", """
        [n] r = Relu(x)
        [m] s = Tanh(x)
        y = If(c) <
            then_branch = g () => (float[4] a) {
                k = Constant<value_ints = [0]>()
                p = If(d) <
                    then_branch = gg () => (float[4] aa) { aa = Squeeze(r, k) },
                    else_branch = gh () => (float[1, 4] ab) { ab = Mul(s, r) }>
                q = Constant<value_ints = [4]>()
                a = Reshape(p, q) },
            else_branch = h () => (float[1, 4] b) { b = Identity(s) }>
        o = ReduceMean<keepdims = 0>(y)""", []),
    ("loop_takes_renamed", "(float[2, 3] x, int64 n) => (float o)", """
        [first] r = Relu(x)
        t = Transpose<perm = [1, 0]>(r)
        on = Constant<value = bool {1}>()
        [turn] v = Loop(n, on, x) <body = b (int64 i, bool go, float[] v_in) => (bool go_out, float[] v_out) {
            u = Add(r, r)
            s = Shape(t)
            w = Cast<to = 1>(s)
            z = ReduceSum<keepdims = 0>(w)
            q = Add(u, z)
            a = Constant<value_ints = [0]>()
            v_out = Unsqueeze(q, a)
            go_out = Identity(go) }>
        o = ReduceMean<keepdims = 0>(v)""", []),
    ("loop_body_is_folded", "(float[2, 3] x, int64 n) => (float[2, 3] v)", """
        [first] r = Relu(x)
        on = Constant<value = bool {1}>()
        [turn] v = Loop(n, on, x) <body = b (int64 i, bool go, float[2, 3] v_in) => (bool go_out, float[2, 3] v_out) {
            t = Transpose<perm = [1, 0]>(v_in)
            e = Exp(t)
            f = Transpose<perm = [1, 0]>(e)
            g = Tanh(f)
            v_out = Add(g, r)
            go_out = Identity(go) }>""", []),
    ("scan_takes_renamed", "(float[2, 3] x, float[5, 3] xs) => (float[5, 3] ys)", """
        [first] r = ReduceSum<keepdims = 0>(x)
        [turn] ys = Scan<num_scan_inputs = 1, body = b (float[3] e) => (float[3] y) { y = Mul(e, r) }>(xs)""", []),
    # There is no layout in which the results of both branches are transposes of one value.
    ("branches_end_in_transpose_and_reshape", "(float[5, 17] x, bool c) => (float[5, 17] o)", """
        s = Constant<value_ints = [5, 17]>()
        [one] y = If(c) <
            then_branch = g () => (float[5, 17] a) { p = Transpose(x) a = Reshape(p, s) },
            else_branch = h () => (float[5, 17] b) { q = Transpose(x) b = Reshape(q, s) }>
        t = Transpose(y)
        u = Relu(t)
        o = Transpose(u)""", ["one"]),
    ("a_constant_is_a_result", "(float[2] x) => (float[2] k, float[2] y)", """
        k = Constant<value = float[2] {1, 2}>()
        y = Add(x, k)""", []),
    ("an_input_is_a_result", "(float[2, 2] x) => (float[2, 2] y, float[2, 2] z)", """
        y = Identity(x)
        t = Transpose(x)
        z = Transpose(t)""", []),
]


def parsed(name, ports, nodes):
    """A model from a text."""
    return onnx.parser.parse_model(f"{HEADER} {name} {ports} {{ {nodes} }}")


def overridable():
    """Inputs with default values: a weight, a shift that nothing multiplies, and one with an open size."""
    info = onnx.helper.make_tensor_value_info
    F = onnx.TensorProto.FLOAT
    w = np.arange(20, dtype=np.float32).reshape(5, 4)
    shift = np.linspace(-1, 1, 5, dtype=np.float32)
    nodes = [onnx.helper.make_node("Transpose", ["w"], ["wt"], perm=[1, 0]),
             onnx.helper.make_node("MatMul", ["x", "wt"], ["m"]),
             onnx.helper.make_node("Add", ["m", "shift"], ["y"]),
             onnx.helper.make_node("ReduceSum", ["free"], ["s"], keepdims=0)]
    inputs = [info("x", F, [3, 4]), info("w", F, [5, 4]), info("shift", F, [5]), info("free", F, ["N"])]
    outputs = [info("y", F, [3, 5]), info("s", F, [])]
    weights = [onnx.numpy_helper.from_array(a, n) for a, n in ((w, "w"), (shift, "shift"), (shift[:3], "free"))]
    graph = onnx.helper.make_graph(nodes, "overridable", inputs, outputs, weights)
    return onnx.helper.make_model(graph, opset_imports=[onnx.helper.make_opsetid("", 17)], ir_version=8)


def made(folder):
    """The models of CASES, with the operators of each that may be written unchanged."""
    models = {name: (parsed(name, ports, nodes), kept) for name, ports, nodes, kept in CASES}
    models["overridable"] = (overridable(), [])
    # In the first versions of the format every weight was listed as an input without being one.
    old = overridable()
    old.ir_version = 3
    models["weights_listed_as_inputs"] = (old, [])
    for name, (model, kept) in models.items():
        path = folder / f"{name}.onnx"
        onnx.save(model, str(path))
        yield path, kept


def why_invalid(path, full):
    try:
        onnx.checker.check_model(str(path), full_check=full)
    except Exception as error:
        return str(error)[:400]


def interface(path):
    """The inputs and outputs; for an old file only inputs that are no weights."""
    model = onnx.load(str(path), load_external_data=False)
    given = {t.name for t in model.graph.initializer}
    listed = model.ir_version < 4
    inputs = [i for i in model.graph.input if not (listed and i.name in given)]
    values = sorted(t.name for t in model.graph.initializer if not listed and t.name in {i.name for i in inputs})
    return onnx_out.ports(inputs), [o.name for o in model.graph.output], values


def inputs_of(path, seed):
    """Seeded inputs, once without those that have default values and once with all."""
    model = onnx.load(str(path), load_external_data=False)
    rng = np.random.default_rng(seed)
    values = {t.name for t in model.graph.initializer}
    some = onnx_out.random_inputs(path, seed)
    yield some
    if 4 <= model.ir_version and values & {i.name for i in model.graph.input}:
        more = {t.name: rng.standard_normal(t.dims).astype(np.float32) for t in model.graph.initializer
                if t.name in {i.name for i in model.graph.input}}
        yield {**some, **more}


def check(optc, path, folder, numbers, kept):
    full = why_invalid(path, True) is None
    plain = full or why_invalid(path, False) is None
    try:
        onnx_out.session(path)
        loads = True
    except onnx_out.NotRun:
        loads = False
    wrong = []
    for target in TARGETS:
        output = folder / f"{path.stem}.{target}.onnx"
        command = [str(optc), str(path), f"--target={target}", "--json", "-o", str(output)]
        done = subprocess.run(command, capture_output=True, text=True, timeout=onnx_out.LIMIT_S)
        if done.returncode != 0:
            wrong.append(f"{target}: exit status {done.returncode}: {done.stderr.strip()[:400]}")
            continue
        try:
            why = plain and why_invalid(output, full)
            if why:
                raise onnx_out.Wrong(f"onnx.checker: {why}")
            before, after = interface(path), interface(output)
            if before != after:
                raise onnx_out.Wrong(f"the interface {after}, wanted {before}")
            if loads:
                onnx_out.session(output)
            if kept is not None:
                out = {node for entry in json.loads(done.stdout)["kept"] for node in entry["nodes"] or ["the model"]}
                if out - set(kept):
                    raise onnx_out.Wrong(f"{sorted(out)} went out as it came in")
            if loads and numbers:
                for seed in range(2):
                    for inputs in inputs_of(path, seed):
                        wanted = onnx_out.by_runtime(path, inputs)
                        onnx_out.compare(output, wanted, inputs, onnx_out.by_runtime)
        except (onnx_out.Wrong, onnx_out.NotRun) as error:
            wrong.append(f"{target}: {error}")
    return wrong


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("optc", type=pathlib.Path)
    parser.add_argument("models", type=pathlib.Path, nargs="*")
    parser.add_argument("--only", default="")
    parser.add_argument("--keep", type=pathlib.Path)
    parser.add_argument("--numbers", action="store_true")
    args = parser.parse_args()
    optc = args.optc.resolve()
    with tempfile.TemporaryDirectory() as scratch:
        folder = args.keep or pathlib.Path(scratch)
        (folder / "in").mkdir(exist_ok=True)
        models = [(p.resolve(), None) for p in args.models]
        if not models:
            tests = sorted((onnx_out.ROOT / "tests/models").glob("*.onnx"))
            models = [(p, None) for p in tests] + list(made(folder / "in"))
        models = [(p, kept) for p, kept in models if re.search(args.only, p.name)]
        assert models, "there are no models"
        failed = 0
        for path, kept in models:
            wrong = check(optc, path, folder, args.numbers or kept is not None, kept)
            failed += bool(wrong)
            for line in wrong:
                print(f"{path.name}: {line}", file=sys.stderr, flush=True)
    print(f"onnx {onnx.__version__}, onnxruntime {onnx_out.onnxruntime.__version__}: {len(models)} models for {len(TARGETS)} targets, {failed} failed")
    sys.exit(1 if failed else 0)


if __name__ == "__main__":
    main()
