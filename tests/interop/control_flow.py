#!/usr/bin/env python3
"""optc against onnxruntime on programs with If, Loop and Scan.

usage: python control_flow.py OPTC [--filter TEXT] [--keep FOLDER]

Each program is run by onnxruntime on several inputs, and by optc: as imported; folded for the target cpu by the
reference and by the naive interpreter; and by the executor, if all sizes are known before it runs. It is written as a
model in four ways: folded, without a pass, from its text, and from its folded text. Each of these models passes the full
check of `onnx`, still has its operators, and gives the same numbers in onnxruntime. Programs marked so move nothing after
the fold. The operators of KEPT keep their graphs: the written model passes `--check` and gives the same numbers.
"""
import argparse
import json
import pathlib
import subprocess
import sys
import tempfile

import numpy as np
import onnx
import onnx.checker
import onnx.parser
import onnxruntime

F = np.float32
RNG = np.random.default_rng(20261126)


def floats(*shape):
    return RNG.standard_normal(shape).astype(F)


def whole(n):
    return np.asarray(n, np.int64)


HEADER = '<ir_version: 9, opset_import: ["" : 18]>\n'

# Name, text, sets of inputs, whether nothing moves after the fold, and whether the model is written without a pass. It
# is not if it has an opaque operator that reads a shape with named sizes.
PROGRAMS = []


def program(name, text, sets, still=False, header=HEADER, kept=True):
    PROGRAMS.append((name, header + text, sets, still, kept))


program("for", """
g (float[2,3] x, int64 n) => (float[2,3] y, float[r,2,3] all) {
  go = Constant <value = bool {1}> ()
  y, all = Loop (n, go, x) <body = b (int64 i, bool c, float[2,3] v) => (bool d, float[2,3] w, float[2,3] s) {
    d = Identity (c)
    t = Transpose <perm = [1, 0]> (v)
    u = Tanh (t)
    w = Transpose <perm = [1, 0]> (u)
    s = Neg (w)
  }>
}""", [{"x": floats(2, 3), "n": whole(n)} for n in (0, 1, 5, -2)], still=True)

program("transposes_around_branch", """
g (bool c, float[2,3,4] x) => (float[2,3,4] y) {
  t = Transpose <perm = [2, 0, 1]> (x)
  u = If (c) <
    then_branch = a () => (float[4,2,3] p) { p = Relu (t) },
    else_branch = b () => (float[4,2,3] q) { q = Sigmoid (t) }
  >
  y = Transpose <perm = [1, 2, 0]> (u)
}""", [{"c": np.asarray(c), "x": floats(2, 3, 4)} for c in (True, False)], still=True)

program("transposes_around_loop", """
g (float[2,3,4] x, int64 n) => (float[2,3,4] y, float[r,2,3,4] all) {
  go = Constant <value = bool {1}> ()
  t = Transpose <perm = [2, 0, 1]> (x)
  u, parts = Loop (n, go, t) <body = b (int64 i, bool c, float[4,2,3] v) => (bool d, float[4,2,3] w, float[4,2,3] s) {
    d = Identity (c)
    e = Mul (v, t)
    w = Tanh (e)
    s = Neg (w)
  }>
  y = Transpose <perm = [1, 2, 0]> (u)
  all = Transpose <perm = [0, 2, 3, 1]> (parts)
}""", [{"x": floats(2, 3, 4), "n": whole(n)} for n in (0, 1, 5)], still=True)

program("transposes_around_scan", """
g (float[3,4] h, float[6,4,3] x) => (float[3,4] k, float[3,6,4] y) {
  t = Transpose <perm = [0, 2, 1]> (x)
  s = Transpose <perm = [1, 0]> (h)
  z = Transpose <perm = [1, 0]> (s)
  l, u = Scan (z, t) <body = b (float[3,4] v, float[3,4] p) => (float[3,4] w, float[3,4] o) {
    w = Add (v, p)
    o = Relu (w)
  }, num_scan_inputs = 1>
  k = Identity (l)
  y = Transpose <perm = [1, 0, 2]> (u)
}""", [{"h": floats(3, 4), "x": floats(6, 4, 3)}])

program("fixed", """
g (float[2,3] x) => (float[8,3] y) {
  n = Constant <value = int64 {4}> ()
  last, all = Loop (n, , x) <body = b (int64 i, bool c, float[2,3] v) => (bool d, float[2,3] w, float[2,3] s) {
    d = Constant <value = bool {1}> ()
    w = Sin (v)
    k = Cast <to = 1> (i)
    s = Add (w, k)
  }>
  shape = Constant <value = int64[2] {8, 3}> ()
  y = Reshape (all, shape)
}""", [{"x": floats(2, 3)}, {"x": floats(2, 3)}])

program("while", """
g (float[2,3] x, float limit) => (float[2,3] y, float[r,2,3] all) {
  zero = Constant <value = float {0.0}> ()
  go = Less (zero, limit)
  y, all = Loop (, go, x) <body = b (int64 i, bool c, float[2,3] v) => (bool d, float[2,3] w, float[2,3] s) {
    t = Transpose <perm = [1, 0]> (v)
    a = Abs (t)
    one = Constant <value = float {1.0}> ()
    u = Add (a, one)
    w = Transpose <perm = [1, 0]> (u)
    sum = ReduceSum <keepdims = 0> (w)
    d = Less (sum, limit)
    s = Identity (v)
  }>
}""", [{"x": floats(2, 3), "limit": np.asarray(l, F)} for l in (-1.0, 0.5, 20.0, 60.0)], still=True)

program("limit_and_exit", """
g (float[2,3] x, int64 n, int64 last, bool go) => (float[2,3] y) {
  y = Loop (n, go, x) <body = b (int64 i, bool c, float[2,3] v) => (bool d, float[2,3] w) {
    w = Add (v, v)
    d = Less (i, last)
  }>
}""", [{"x": floats(2, 3), "n": whole(n), "last": whole(l), "go": np.asarray(go)}
       for n, l, go in ((6, 2, True), (2, 9, True), (6, 2, False), (0, 2, True))])

program("if_in_loop", """
g (float[2,3] x, int64 n) => (float[2,3] y) <float[3,2] weight = {0.5, -1.0, 0.25, 2.0, 1.5, -0.75}> {
  go = Constant <value = bool {1}> ()
  two = Constant <value = int64 {2}> ()
  bias = Relu (x)
  y = Loop (n, go, x) <body = b (int64 i, bool c, float[2,3] v) => (bool d, float[2,3] w) {
    d = Identity (c)
    rest = Mod (i, two)
    zero = Constant <value = int64 {0}> ()
    even = Equal (rest, zero)
    w = If (even) <then_branch = a () => (float[2,3] p) {
        turned = Transpose <perm = [1, 0]> (weight)
        half = Mul (turned, v)
        p = Add (half, bias)
      }, else_branch = e () => (float[2,3] q) {
        t = Transpose <perm = [1, 0]> (v)
        r = Sigmoid (t)
        q = Transpose <perm = [1, 0]> (r)
      }>
  }>
}""", [{"x": floats(2, 3), "n": whole(n)} for n in (0, 1, 4)], still=True)

program("captured_product", """
g (float[B,3] x, float[4,3] m, int64 n) => (float[B,3] y) {
  turned = Transpose <perm = [1, 0]> (m)
  square = MatMul (turned, m)
  y = Loop (n, , x) <body = b (int64 i, bool c, float[B,3] v) => (bool d, float[B,3] w) {
    d = Identity (c)
    p = MatMul (v, square)
    w = Tanh (p)
  }>
}""", [{"x": floats(b, 3), "m": floats(4, 3), "n": whole(n)} for b, n in ((2, 3), (5, 1), (1, 0))])

program("if", """
g (float[2,3,4] x, bool c) => (float[4,6] y) {
  y = If (c) <then_branch = a () => (float[4,6] p) {
      t = Transpose <perm = [2, 0, 1]> (x)
      s = Constant <value = int64[2] {4, 6}> ()
      p = Reshape (t, s)
    }, else_branch = e () => (float[4,6] q) {
      s = Constant <value = int64[2] {4, 6}> ()
      r = Reshape (x, s)
      q = Exp (r)
    }>
}""", [{"x": floats(2, 3, 4), "c": np.asarray(c)} for c in (True, False)])

program("if_of_unlike_shapes", """
g (float[2,3] x, bool c) => (float[a,3] y) {
  t = If (c) <then_branch = a () => (float[2,3] p) {
      p = Neg (x)
    }, else_branch = e () => (float[4,3] q) {
      q = Concat <axis = 0> (x, x)
    }>
  y = Relu (t)
}""", [{"x": floats(2, 3), "c": np.asarray(c)} for c in (True, False)])

program("if_of_values_around_it", """
g (float[2,3] x, float[2,3] z, bool c) => (float[2,3] y, float[2,3] k) {
  y, k = If (c) <then_branch = a () => (float[2,3] p, float[2,3] p2) {
      p = Identity (x)
      p2 = Identity (x)
    }, else_branch = e () => (float[2,3] q, float[2,3] q2) {
      q = Identity (z)
      q2 = Constant <value = float[2,3] {1.0, 2.0, 3.0, 4.0, 5.0, 6.0}> ()
    }>
}""", [{"x": floats(2, 3), "z": floats(2, 3), "c": np.asarray(c)} for c in (True, False)])

program("growing", """
g (float[1,3] x, int64 n) => (float[r,3] y) {
  y = Loop (n, , x) <body = b (int64 i, bool c, float[k,3] v) => (bool d, float[k2,3] w) {
    d = Identity (c)
    w = Concat <axis = 0> (v, x)
  }>
}""", [{"x": floats(1, 3), "n": whole(n)} for n in (0, 1, 4)])

program("loop_in_loop", """
g (float[2,3] x, int64 n, int64 m) => (float[2,3] y, float[r,s,3,2] all) {
  y, all = Loop (n, , x) <body = b (int64 i, bool c, float[2,3] v) => (bool d, float[2,3] w, float[s,3,2] part) {
    d = Identity (c)
    w, part = Loop (m, , v) <body = inner (int64 j, bool e, float[2,3] a) => (bool f, float[2,3] o, float[3,2] q) {
      f = Identity (e)
      scaled = Cos (a)
      o = Add (scaled, x)
      q = Transpose <perm = [1, 0]> (o)
    }>
  }>
}""", [{"x": floats(2, 3), "n": whole(n), "m": whole(m)} for n, m in ((2, 3), (3, 1))])

program("scan", """
g (float[2,5,3] x, float[2,3] h) => (float[2,3] last, float[2,5,3] all) {
  last, all = Scan <num_scan_inputs = 1, scan_input_axes = [1], scan_output_axes = [1], body = b (float[2,3] s, float[2,3] v) => (float[2,3] t, float[2,3] o) {
    u = Transpose <perm = [1, 0]> (s)
    k = Transpose <perm = [1, 0]> (v)
    a = Add (u, k)
    e = Tanh (a)
    t = Transpose <perm = [1, 0]> (e)
    o = Neg (t)
  }> (h, x)
}""", [{"x": floats(2, 5, 3), "h": floats(2, 3)} for _ in range(2)], still=True)

program("scan_backwards", """
g (float[2,3,N] x, float[N,3] z, float[3] h, float[3] k) => (float[3] last, float[N,3] all, float[2,3,N] other) {
  last, all, other = Scan <num_scan_inputs = 2, scan_input_axes = [-1, 0], scan_input_directions = [1, 0],
      scan_output_axes = [0, -1], scan_output_directions = [0, 1],
      body = b (float[3] s, float[2,3] v, float[3] w) => (float[3] t, float[3] o, float[2,3] q) {
    m = ReduceSum <keepdims = 0> (v)
    a = Mul (s, k)
    c = Add (a, m)
    t = Sub (c, w)
    o = Identity (t)
    q = Mul (v, w)
  }> (h, x, z)
}""", [{"x": floats(2, 3, n), "z": floats(n, 3), "h": floats(3), "k": floats(3)} for n in (1, 4)])

# Exporters of other frameworks give numbers of rounds and conditions as vectors of one element.
program("vectors_of_one", """
g (float[4,3] x, int64[1] n, bool[1] go) => (float[4,3] y) {
  y = Loop (n, go, x) <body = b (int64[1] i, bool[1] c, float[4,3] v) => (bool[1] d, float[4,3] w) {
    t = Transpose <perm = [1, 0]> (v)
    e = Exp (t)
    u = Transpose <perm = [1, 0]> (e)
    f = Cast <to = 1> (i)
    w = Add (u, f)
    total = ReduceSum <keepdims = 0> (w)
    most = Constant <value = float[1] {100.0}> ()
    d = Less (total, most)
  }>
}""", [{"x": floats(4, 3) / 4, "n": whole([n]), "go": np.asarray([go])} for n, go in ((0, True), (1, True), (3, True), (2, False))])

program("scan_in_loop", """
g (float[4,3] x, int64 n) => (float[4,3] y) {
  y = Loop (n, , x) <body = b (int64 i, bool c, float[4,3] v) => (bool d, float[4,3] w) {
    d = Identity (c)
    start = Constant <value = float[3] {0.0, 0.0, 0.0}> ()
    end, sums = Scan <num_scan_inputs = 1, scan_input_directions = [1], body = inner (float[3] s, float[3] r) => (float[3] t, float[3] o) {
      t = Add (s, r)
      o = Sin (t)
    }> (start, v)
    w = Add (sums, end)
  }>
}""", [{"x": floats(4, 3), "n": whole(n)} for n in (0, 3)])

program("sizes", """
g (float[B,S,6] x, int64 n) => (float[B,S,6] y) {
  shape = Shape (x)
  y = Loop (n, , x) <body = b (int64 i, bool c, float[B,S,6] v) => (bool d, float[B,S,6] w) {
    d = Identity (c)
    heads = Constant <value = int64[4] {0, 0, 2, 3}> ()
    h = Reshape (v, heads)
    t = Transpose <perm = [0, 2, 1, 3]> (h)
    u = Relu (t)
    back = Transpose <perm = [0, 2, 1, 3]> (u)
    w = Reshape (back, shape)
  }>
}""", [{"x": floats(b, s, 6), "n": whole(n)} for b, s, n in ((1, 4, 2), (3, 2, 1), (2, 5, 0))], still=True, kept=False)

program("function", """
g (float[2,3] x, bool c) => (float[2,3] y) {
  a = local.F (x, c)
  y = local.F (a, c)
}
<domain: "local", opset_import: ["" : 18]>
F (p, q) => (r) {
  inner = Tanh (p)
  r = If (q) <then_branch = a () => (float[2,3] s) {
      s = Mul (inner, p)
    }, else_branch = e () => (float[2,3] t) {
      t = Sub (inner, p)
    }>
}""", [{"x": floats(2, 3), "c": np.asarray(c)} for c in (True, False)],
        header='<ir_version: 9, opset_import: ["" : 18, "local" : 1]>\n')


# Programs with a size that is known only at run time, which the executor refuses.
OPEN = {"for", "transposes_around_loop", "while", "growing", "loop_in_loop", "if_of_unlike_shapes"}


class Wrong(Exception):
    pass


# Branches of different ranks, and one that no pass can rearrange.
KEPT = {
    "captured": ("""
g (float[1,4,L] x) => (float o) {
  r = Relu (x)
  s = Shape (r)
  two = Constant <value = int64 {2}> ()
  one = Constant <value = int64 {1}> ()
  axis = Constant <value = int64[1] {2}> ()
  d = Gather (s, two)
  q = Equal (d, one)
  y = If (q) <then_branch = a () => (float[1,4] t) { t = Squeeze (r, axis) }, else_branch = b () => (float[1,4,N] e) { e = Identity (r) }>
  o = ReduceMean <keepdims = 0> (y)
}""", [{"x": floats(1, 4, n)} for n in (1, 3)]),
    "branches_of_reshapes": ("""
g (float[5,17] x, bool c) => (float[5,17] y) {
  shape = Constant <value = int64[2] {5, 17}> ()
  y = If (c) <
    then_branch = a () => (float[5,17] p) { t = Transpose <perm = [1, 0]> (x) p = Reshape (t, shape) },
    else_branch = b () => (float[5,17] q) { u = Transpose <perm = [1, 0]> (x) q = Reshape (u, shape) }
  >
}""", [{"x": floats(5, 17), "c": np.asarray(c)} for c in (True, False)]),
}


def check_kept(optc, text, sets, folder):
    model = onnx.parser.parse_model(HEADER + text)
    path, out = folder / "m.onnx", folder / "out.onnx"
    onnx.save(model, str(path))
    names = [o.name for o in model.graph.output]
    for target in ("onnx", "onnxruntime"):
        command(optc, path, f"--target={target}", "-o", out, "--check")
        onnx.checker.check_model(onnx.load(str(out)), full_check=True)
        for i, inputs in enumerate(sets):
            same(f"{target}, data {i}", names, session(out).run(None, inputs), session(path).run(None, inputs))


def command(*args):
    done = subprocess.run([str(a) for a in args], capture_output=True, text=True, timeout=120)
    if done.returncode != 0:
        raise Wrong(f"{' '.join(str(a) for a in args[1:])}: {done.stderr.strip()[:600]}")
    return done.stdout


def session(path):
    options = onnxruntime.SessionOptions()
    options.log_severity_level = 3
    return onnxruntime.InferenceSession(str(path), options, providers=["CPUExecutionProvider"])


def same(what, names, found, wanted):
    for name, a, b in zip(names, found, wanted):
        if a.shape != b.shape or a.dtype != b.dtype:
            raise Wrong(f"{what}, {name}: {a.dtype}{a.shape}, wanted {b.dtype}{b.shape}")
        if not np.allclose(a, b, rtol=1e-5, atol=1e-5):
            raise Wrong(f"{what}, {name}: differs by {np.abs(a - b).max()}")


def operators(graph):
    kinds = []
    for node in graph.node:
        kinds += [node.op_type] if node.op_type in ("If", "Loop", "Scan") else []
        for attribute in node.attribute:
            if attribute.type == onnx.AttributeProto.GRAPH:
                kinds += operators(attribute.g)
    return sorted(kinds)


def check(optc, name, text, sets, still, kept, folder):
    model = onnx.parser.parse_model(text)
    onnx.checker.check_model(model, full_check=True)
    path = folder / "m.onnx"
    onnx.save(model, str(path))
    names = [o.name for o in model.graph.output]
    wanted = [session(path).run(None, inputs) for inputs in sets]
    runs = {
        "imported": ["--pass="],
        "folded": ["--pass=default", "--target=cpu"],
        "folded, naive": ["--pass=default", "--target=cpu", "--exec=naive"],
        "canonical": ["--pass=canonicalize"],
    }
    for i, (inputs, outputs) in enumerate(zip(sets, wanted)):
        np.savez(folder / "in.npz", **inputs)
        if name not in OPEN:
            runs["executed"] = ["--pass=default", "--target=cpu", "--exec=physical"]
        for what, options in runs.items():
            command(optc, "run", *options, path, "--inputs", folder / "in.npz", "--output", folder / "out.npz")
            with np.load(folder / "out.npz") as found:
                same(f"{what}, data {i}", names, [found[n] for n in names], outputs)
    text = folder / "m.ir"
    command(optc, "--pass=", path, "--emit=ir", "-o", text)
    if "= @" not in text.read_text():
        raise Wrong("its graphs are no functions")
    written = {"folded": [path], "as it came": ["--pass=", path], "by its text": ["--pass=", text],
               "by its text, folded": ["--pass=default", "--target=onnx", text]}
    if not kept:
        del written["as it came"]
    for what, args in written.items():
        out = folder / "out.onnx"
        command(optc, *args, "-o", out)
        made = onnx.load(str(out))
        onnx.checker.check_model(made, full_check=True)
        inlined = {} if not model.functions else None
        if inlined is not None and operators(made.graph) != operators(model.graph):
            raise Wrong(f"{what}: it has {operators(made.graph)}, wanted {operators(model.graph)}")
        if inlined is None and what != "as it came" and not operators(made.graph):
            raise Wrong(f"{what}: it has no branches")
        run = session(out)
        for i, (inputs, outputs) in enumerate(zip(sets, wanted)):
            same(f"{what}, data {i}", names, run.run(None, inputs), outputs)
    for target in ("cpu", "onnx"):
        stats = json.loads(command(optc, "stats", "--pass=default", f"--target={target}", path, "--json"))
        moved = stats["after"]["movement_ops"]
        if still and moved:
            raise Wrong(f"{moved} rearrangements are left at {target}")


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("optc", type=pathlib.Path)
    parser.add_argument("--filter", default="")
    parser.add_argument("--keep", type=pathlib.Path)
    args = parser.parse_args()
    optc = args.optc.resolve()
    bad = []
    chosen = [(p[0], check, p) for p in PROGRAMS if args.filter in p[0]]
    chosen += [(name, check_kept, rest) for name, rest in KEPT.items() if args.filter in name]
    assert chosen, "no program has such a name"
    for name, judge, rest in chosen:
        with tempfile.TemporaryDirectory() as scratch:
            folder = pathlib.Path(scratch) if args.keep is None else args.keep / name
            folder.mkdir(parents=True, exist_ok=True)
            try:
                judge(optc, *rest, folder)
            except Wrong as error:
                bad.append(f"{name}: {error}")
            except Exception as error:  # A refusal by a peer is a failure too.
                bad.append(f"{name}: {type(error).__name__}: {error}")
    for line in bad:
        print(line, file=sys.stderr)
    print(f"onnxruntime {onnxruntime.__version__}: {len(chosen)} programs with branches and loops, {len(bad)} wrong")
    sys.exit(1 if bad else 0)


if __name__ == "__main__":
    main()
