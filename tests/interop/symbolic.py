#!/usr/bin/env python3
"""A model with named sizes has the same meaning as the model with numbers.

usage: python symbolic.py OPTC [MODEL.onnx ...] [--table FILE] [--no-sequence]

Each model is rewritten so that its batch, and the length of integer inputs, are `dim_param`s: declared types inside are
dropped, and constants with these sizes become 0, -1, or computed shapes.  optc must import it without an opaque operator
or an unnamed size, fold it without a reshape or transpose, read its printed text back, and give polynomials that equal
the statistics of the model with numbers at the original sizes, before and after the fold.  Models whose weights are there
are also run, by optc before and after the fold and by onnxruntime, at the original sizes (against the model with numbers)
and at others.

Without models it makes small ones; those run in CI.
"""
import argparse
import json
import math
import pathlib
import subprocess
import sys
import tempfile
import time

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper, shape_inference

BYTES = ["movement_bytes", "copy_bytes", "expand_bytes", "constant_movement_bytes"]
ELEMENTWISE = {"Add", "Sub", "Mul", "Div", "Pow", "Where", "And", "Or", "Equal", "Less", "Greater", "Max", "Min"}


class Unfit(Exception):
    """The model cannot be rewritten: a size is used in an unsupported way."""


class Rewriter:
    """The rewriter, which makes sizes of a model's inputs symbolic."""

    def __init__(self, model, sequence):
        self.model = onnx.ModelProto()
        self.model.CopyFrom(model)
        self.graph = self.model.graph
        self.opset = next(o.version for o in model.opset_import if o.domain in ("", "ai.onnx"))
        self.constants = {t.name: t for t in self.graph.initializer}
        for node in self.graph.node:
            if node.op_type == "Constant" and node.attribute[0].name == "value":
                self.constants[node.output[0]] = node.attribute[0].t
        self.static = {}
        for info in [*self.graph.value_info, *self.graph.input, *self.graph.output]:
            dims = info.type.tensor_type.shape.dim
            self.static[info.name] = [d.dim_value for d in dims]
        for name, tensor in self.constants.items():
            self.static[name] = list(tensor.dims)
        self.types, self.origin, self.sizes = {}, {}, {}
        self.nodes, self.made, self.fresh = [], {}, 0
        # Values that depend on constants only.
        self.fixed = set(self.constants)
        self.inputs(sequence)

    def inputs(self, sequence):
        for info in self.graph.input:
            if info.name in self.constants:
                continue
            tensor = info.type.tensor_type
            for axis, dim in enumerate(tensor.shape.dim):
                is_length = axis == 1 and len(tensor.shape.dim) == 2 and tensor.elem_type == TensorProto.INT64
                name = "B" if axis == 0 else "S" if is_length and sequence else None
                if name is None or self.sizes.setdefault(name, dim.dim_value) != dim.dim_value:
                    continue
                self.origin.setdefault(name, (info.name, axis))
                dim.Clear()
                dim.dim_param = name
            self.types[info.name] = info.type

    def run(self):
        for name, tensor in self.constants.items():
            self.types[name] = helper.make_tensor_type_proto(tensor.data_type, list(tensor.dims))
        for node in list(self.graph.node):
            self.node(node)
        del self.graph.node[:]
        self.graph.node.extend(self.nodes)
        del self.graph.value_info[:]
        for info in self.graph.output:
            for dim, size in zip(info.type.tensor_type.shape.dim, self.dims(info.name)):
                dim.Clear()
                if isinstance(size, int):
                    dim.dim_value = size
        return self.model

    def dims(self, name):
        """The extents: numbers, names, or None."""
        shape = self.types[name].tensor_type.shape.dim
        return [d.dim_value if d.HasField("dim_value") else d.dim_param or None for d in shape]

    def add(self, op, inputs, **attributes):
        self.fresh += 1
        name = f"symbolic_{self.fresh}"
        self.nodes.append(helper.make_node(op, inputs, [name], name, **attributes))
        return name

    def ints(self, *values):
        key = ("ints", values)
        if key not in self.made:
            self.fresh += 1
            name = f"symbolic_{self.fresh}"
            self.graph.initializer.append(numpy_helper.from_array(np.array(values, np.int64), name))
            self.made[key] = name
        return self.made[key]

    def size(self, value, axis):
        """The extent of a dimension of a value, as a tensor of one element."""
        key = ("size", value, axis)
        if key not in self.made:
            shape = self.add("Shape", [value])
            self.made[key] = self.add("Gather", [shape, self.ints(axis)], axis=0)
        return self.made[key]

    def named(self, name):
        return self.size(*self.origin[name])

    def node(self, node):
        inputs = list(node.input)
        if node.op_type == "Reshape" and node.input[1] in self.constants:
            inputs[1] = self.target(node)
        elif node.op_type == "Expand" and node.input[1] in self.constants:
            inputs[1] = self.expanded(node)
        elif node.op_type in ELEMENTWISE:
            inputs = self.broadcast(node)
        elif node.op_type == "Concat":
            inputs = self.joined(node)
        new = onnx.NodeProto()
        new.CopyFrom(node)
        del new.input[:]
        new.input.extend(inputs)
        for attribute in new.attribute:
            if (node.op_type, attribute.name) == ("Reshape", "allowzero"):
                attribute.i = 0
        self.nodes.append(new)
        self.infer(new)
        if node.input and all(n in self.fixed for n in node.input if n):
            self.fixed.update(node.output)

    def infer(self, node):
        domain = node.domain if node.domain != "ai.onnx" else ""
        found = {}
        if node.op_type not in ("Reshape", "Expand", "Constant"):
            known = {n: self.types[n] for n in node.input if n}
            data = {n: self.constants[n] for n in node.input if n in self.constants and not self.absent(n)}
            schema = onnx.defs.get_schema(node.op_type, self.opset, domain)
            ops = [helper.make_opsetid(domain, self.opset)]
            found = shape_inference.infer_node_outputs(schema, node, known, data, opset_imports=ops)
        for output in filter(None, node.output):
            if output in self.types and node.op_type in ("Reshape", "Expand", "Constant"):
                continue
            ty = found.get(output)
            static = self.static.get(output)
            if static is None:
                raise Unfit(f"nothing says the shape of {output}")
            fits = ty is not None and len(ty.tensor_type.shape.dim) == len(static)
            merged = []
            for axis, number in enumerate(static):
                dim = ty.tensor_type.shape.dim[axis] if fits else None
                if dim is None or dim.HasField("dim_value"):
                    merged.append(number)
                else:
                    self.fresh += 1
                    name = dim.dim_param or f"u{self.fresh}"
                    self.sizes.setdefault(name, number)
                    merged.append(name)
            elem = ty.tensor_type.elem_type if ty is not None else self.types[node.input[0]].tensor_type.elem_type
            self.types[output] = helper.make_tensor_type_proto(elem, merged)

    def absent(self, name):
        return self.constants[name].data_location == TensorProto.EXTERNAL

    def number(self, size):
        if isinstance(size, int):
            return size
        return math.prod(int(s) if s.isdigit() else self.sizes[s] for s in size.split("*"))

    def target(self, node):
        """The shape of a reshape, with named sizes in place of their numbers."""
        data, output = node.input[0], node.output[0]
        dims, wanted = self.dims(data), self.static[output]
        result = [None] * len(wanted)
        entries = list(wanted)
        i = j = 0
        while i < len(dims) or j < len(wanted):
            a, b = i + 1, j + 1
            left = self.number(dims[i]) if i < len(dims) else 1
            right = wanted[j] if j < len(wanted) else 1
            while left != right:
                if left < right:
                    left, a = left * self.number(dims[a]), a + 1
                else:
                    right, b = right * wanted[b], b + 1
            self.segment(data, dims, (i, min(a, len(dims))), (j, min(b, len(wanted))), entries, result)
            i, j = a, b
        elem = self.types[data].tensor_type.elem_type
        self.types[output] = helper.make_tensor_type_proto(
            elem, [n if r is None else r for n, r in zip(wanted, result)])
        if all(isinstance(e, int) for e in entries):
            return self.ints(*entries)
        parts = [self.ints(e) if isinstance(e, int) else e for e in entries]
        return self.add("Concat", parts, axis=0)

    def segment(self, data, dims, rows, columns, entries, result):
        """Maps dimensions `rows` of the operand to `columns` of the result."""
        factors = [f for d in dims[slice(*rows)] for f in str(d).split("*")]
        names = [f for f in factors if not f.isdigit()]
        if not names:
            return
        (i, a), (j, b) = rows, columns
        if (a - i, b - j) == (1, 1):
            result[j] = dims[i]
            entries[j] = 0 if i == j else self.size(data, i)
            return
        if b - j == 1:
            rest = math.prod(int(f) for f in factors if f.isdigit())
            result[j] = "*".join([*names, *([str(rest)] if rest != 1 else [])])
            entries[j] = -1 if -1 not in entries else self.product(data, i, a)
            return
        # Each name goes to the first extent with its number; a leading name goes to the first extent if there is none.
        for name in names:
            fits = [c for c in range(j, b) if result[c] is None and entries[c] == self.sizes[name]]
            if name not in self.origin or not (fits or factors[0] == name and result[j] is None):
                raise Unfit(f"{name} is cut")
            if fits:
                result[fits[0]], entries[fits[0]] = name, self.named(name)
            else:
                rest, odd = divmod(entries[j], self.sizes[name])
                if odd:
                    raise Unfit(f"{name} is cut")
                result[j] = f"{name}*{rest}"
                entries[j] = self.add("Mul", [self.named(name), self.ints(rest)])

    def product(self, data, i, a):
        sizes = [self.size(data, d) for d in range(i, a)]
        while len(sizes) > 1:
            sizes = [self.add("Mul", sizes[:2]), *sizes[2:]]
        return sizes[0]

    def expanded(self, node):
        """The shape of an expand whose numbers were sizes of the values that it is combined with."""
        data, output = node.input[0], node.output[0]
        dims, wanted = self.dims(data), list(self.static[output])
        lead = len(wanted) - len(dims)
        entries = list(wanted)
        for axis, size in enumerate(dims):
            if not isinstance(size, int):
                entries[lead + axis], wanted[lead + axis] = 1, size
        if wanted and wanted[0] == self.sizes["B"] and (lead or dims[0] in (1, "B")):
            wanted[0] = "B"
            entries[0] = self.named("B")
        elem = self.types[data].tensor_type.elem_type
        self.types[output] = helper.make_tensor_type_proto(elem, wanted)
        return self.add("Concat", [self.ints(e) if isinstance(e, int) else e for e in entries], axis=0)

    def broadcast(self, node):
        """Replaces each constant by the slice of it that is combined with a named size."""
        out = list(node.input)
        for k, name in enumerate(node.input):
            if name not in self.fixed:
                continue
            cut = name
            for other in node.input:
                dims = self.dims(other)
                for back in range(1, min(len(dims), len(self.static[name])) + 1):
                    size, number = dims[-back], self.static[name][-back]
                    axis = len(self.static[name]) - back
                    if number > 1 and size in self.origin and self.dims(cut)[axis] == number:
                        part = self.dims(cut)
                        part[axis] = size
                        cut = self.add("Slice", [cut, self.ints(0), self.named(size), self.ints(axis)])
                        elem = self.types[name].tensor_type.elem_type
                        self.types[cut] = helper.make_tensor_type_proto(elem, part)
            out[k] = cut
        return out

    def joined(self, node):
        """Replaces constants that are one element of a batch by their repetition for the whole batch."""
        out = list(node.input)
        axis = helper.get_node_attr_value(node, "axis")
        for k, name in enumerate(node.input):
            batched = any(self.dims(other)[:1] == ["B"] for other in node.input)
            if batched and axis != 0 and self.dims(name)[0] in (1, self.sizes["B"]):
                dims = self.dims(name)
                shape = [self.named("B"), *(self.ints(1) for _ in dims[1:])]
                out[k] = self.add("Expand", [name, self.add("Concat", shape, axis=0)])
                elem = self.types[name].tensor_type.elem_type
                self.types[out[k]] = helper.make_tensor_type_proto(elem, ["B", *dims[1:]])
        return out


def run(command):
    done = subprocess.run([str(c) for c in command], capture_output=True, text=True)
    assert done.returncode == 0, f"$ {' '.join(map(str, command))}\n{done.stdout}{done.stderr}"
    return done.stdout


def figures(optc, path, sizes):
    bind = [f"--bind={n}={v}" for n, v in sizes.items()]
    return json.loads(run([optc, "stats", "--json", "--pass=default", "--target=cpu", *bind, path]))


def evaluate(polynomial, sizes):
    return eval(polynomial, {"__builtins__": {}, "min": min, "max": max}, dict(sizes))


class Case:
    """One model with numbers and its twin with names."""

    def __init__(self, optc, model, name, folder, weights, sequence=True):
        self.optc, self.name, self.weights = optc, name, weights
        rewriter = Rewriter(model, sequence)
        self.model, self.twin = model, rewriter.run()
        self.sizes = {n: rewriter.sizes[n] for n in rewriter.origin}
        self.static = folder / f"{name}.onnx"
        self.path = folder / f"{name}.symbolic.onnx"
        onnx.save(self.model, self.static)
        onnx.save(self.twin, self.path)
        self.row = {"model": name, "sizes": " ".join(f"{n}={v}" for n, v in self.sizes.items())}

    def check(self):
        self.texts()
        self.costs()
        if self.weights:
            self.numbers()
        return self.row

    def texts(self):
        folder = self.path.parent
        for kind, flags in {"read": ["--pass="], "fold": ["--pass=default", "--target=cpu"]}.items():
            out, again = folder / f"{self.name}.{kind}.ir", folder / "again.ir"
            begin = time.monotonic()
            run([self.optc, *flags, self.path, "-o", out])
            self.row[f"{kind} s"] = f"{time.monotonic() - begin:.1f}"
            text = out.read_text()
            for word in ["hbir.opaque", '"?"', "tensor<?x?xf32>"]:
                assert word not in text, f"{self.name}: {word} in {out.name}"
            run([self.optc, "--pass=", out, "-o", again])
            assert text == again.read_text(), f"{self.name}: {out.name} reads back otherwise"
        for word in ["hbir.reshape", "hbir.transpose"]:
            assert word not in text, f"{self.name}: {word} after the fold"

    def costs(self):
        mine, theirs = figures(self.optc, self.path, self.sizes), figures(self.optc, self.static, {})
        self.row["differs"] = ""
        for when in ["before", "after"]:
            for name in BYTES:
                polynomial = mine[when]["polynomials"][name]
                value = evaluate(polynomial, self.sizes)
                assert value == mine[when][name], f"{self.name}: {when} {name}: {polynomial} is {value}"
                if mine[when][name] != theirs[when][name]:
                    self.row["differs"] += f" {when}.{name}: {mine[when][name]} for {theirs[when][name]}"
        self.row["movement before"] = mine["before"]["polynomials"]["movement_bytes"]
        self.row["at original"] = str(mine["before"]["movement_bytes"])
        self.row["movement after"] = mine["after"]["polynomials"]["movement_bytes"]
        self.row["proof"] = mine["proof"]

    def numbers(self):
        import onnxruntime
        session = {}
        for kind, path in {"static": self.static, "twin": self.path}.items():
            session[kind] = onnxruntime.InferenceSession(str(path), providers=["CPUExecutionProvider"])
        smaller = {n: max(2, v - 1) if n == "S" else v + 1 for n, v in self.sizes.items()}
        for sizes in [self.sizes, smaller]:
            inputs = self.random(sizes)
            wanted = session["twin"].run(None, inputs)
            if sizes == self.sizes:
                close(f"{self.name}: onnxruntime", wanted, session["static"].run(None, inputs))
            np.savez(self.path.parent / "in.npz", **inputs)
            for flags in [["--pass="], ["--pass=default", "--target=cpu", "--exec=naive"]]:
                out = self.path.parent / "out.npz"
                run([self.optc, "run", *flags, self.path, "--inputs", self.path.parent / "in.npz", "--output", out])
                with np.load(out) as found:
                    names = [o.name for o in self.twin.graph.output]
                    close(f"{self.name} {flags} at {sizes}", [found[n] for n in names], wanted)
        self.row["numbers"] = "2 sizes"

    def random(self, sizes):
        rng = np.random.default_rng(7)
        inputs = {}
        for info in self.twin.graph.input:
            if info.name in {t.name for t in self.twin.graph.initializer}:
                continue
            tensor = info.type.tensor_type
            shape = [sizes[d.dim_param] if d.dim_param else d.dim_value for d in tensor.shape.dim]
            integer = tensor.elem_type == TensorProto.INT64
            inputs[info.name] = rng.integers(0, 2, shape) if integer else rng.normal(size=shape).astype(np.float32)
        return inputs


def close(what, found, wanted):
    for a, b in zip(found, wanted, strict=True):
        assert a.shape == b.shape, f"{what}: shape {a.shape}, wanted {b.shape}"
        worst = np.max(np.abs(a.astype(np.float64) - b)) / max(1, np.max(np.abs(b)))
        assert worst <= 1e-4, f"{what}: differs by {worst}"


# Models made here, with small prime sizes if possible.

class Maker:
    def __init__(self, name):
        self.name, self.nodes, self.weights = name, [], []
        self.rng = np.random.default_rng(len(name))

    def op(self, kind, *inputs, **attributes):
        output = f"v{len(self.nodes)}"
        self.nodes.append(helper.make_node(kind, list(inputs), [output], f"{kind}_{output}", **attributes))
        return output

    def weight(self, *shape):
        return self.constant(self.rng.normal(size=shape).astype(np.float32))

    def constant(self, array):
        name = f"w{len(self.weights)}"
        self.weights.append(numpy_helper.from_array(np.asarray(array), name))
        return name

    def shape(self, x, *sizes):
        return self.op("Reshape", x, self.constant(np.array(sizes, np.int64)))

    def linear(self, x, n, m):
        return self.op("Add", self.op("MatMul", x, self.weight(n, m)), self.weight(m))

    def model(self, inputs, output):
        infos = [helper.make_tensor_value_info(n, t, s) for n, t, s in inputs]
        out = helper.make_tensor_value_info(output, TensorProto.FLOAT, None)
        graph = helper.make_graph(self.nodes, self.name, infos, [out], self.weights)
        model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)
        return shape_inference.infer_shapes(model, strict_mode=True)

    def attention(self, x, b, s, heads, head, mask=None):
        n = heads * head
        q, k, v = (self.op("Transpose", self.shape(self.linear(x, n, n), b, s, heads, head), perm=[0, 2, 1, 3])
                   for _ in range(3))
        scores = self.op("MatMul", q, self.op("Transpose", k, perm=[0, 1, 3, 2]))
        if mask is not None:
            scores = self.op("Add", scores, mask)
        mixed = self.op("MatMul", self.op("Softmax", scores, axis=-1), v)
        return self.shape(self.op("Transpose", mixed, perm=[0, 2, 1, 3]), b, s, n)


def encoder():
    """Token embeddings, positions from a table, attention with merged rows as Gemm requires."""
    m, (b, s) = Maker("encoder"), (2, 7)
    x = m.op("Gather", m.weight(11, 15), "ids")
    x = m.op("Add", x, m.weight(1, s, 15))
    x = m.op("Add", x, m.attention(x, b, s, 3, 5))
    rows = m.op("Gemm", m.shape(x, b * s, 15), m.weight(15, 13), m.weight(13))
    x = m.shape(m.op("Relu", rows), b, s, 13)
    return m.model([("ids", TensorProto.INT64, [b, s])], x)


def decoder():
    """A causal mask sliced from a constant, and heads that share keys."""
    m, (b, s) = Maker("decoder"), (3, 5)
    mask = np.triu(np.full((s, s), -1e4, np.float32), 1)[None, None]
    x = m.op("Gather", m.weight(11, 12), "ids")
    x = m.attention(x, b, s, 2, 6, m.constant(mask))
    k = m.shape(m.linear(x, 12, 6), b, s, 1, 1, 6)
    k = m.op("Expand", k, m.constant(np.array([b, s, 1, 4, 6])))
    x = m.op("Mul", m.shape(k, b, s, 24), m.weight(24))
    return m.model([("ids", TensorProto.INT64, [b, s])], x)


def patches():
    """Patches of an image after a class token, which is one more position."""
    m, b = Maker("patches"), 2
    x = m.op("Conv", "image", m.weight(10, 3, 4, 4), strides=[4, 4])
    x = m.op("Transpose", m.shape(x, b, 10, 6), perm=[0, 2, 1])
    x = m.op("Concat", m.op("Expand", m.weight(1, 1, 10), m.constant(np.array([b, 1, 10]))), x, axis=1)
    x = m.attention(m.op("Add", x, m.weight(1, 7, 10)), b, 7, 2, 5)
    x = m.op("Gather", x, m.constant(np.array(0)), axis=1)
    return m.model([("image", TensorProto.FLOAT, [b, 3, 8, 12])], m.linear(x, 10, 3))


def windows():
    """Windows of an image with attention inside of each, put back."""
    m, b = Maker("windows"), 3
    x = m.shape("x", b, 2, 5, 3, 5, 4)
    x = m.shape(m.op("Transpose", x, perm=[0, 1, 3, 2, 4, 5]), b * 6, 25, 4)
    x = m.attention(x, b * 6, 25, 2, 2)
    x = m.op("Transpose", m.shape(x, b, 2, 3, 5, 5, 4), perm=[0, 1, 3, 2, 4, 5])
    return m.model([("x", TensorProto.FLOAT, [b, 10, 15, 4])], m.op("Relu", m.shape(x, b, 10, 15, 4)))


def made(optc, folder):
    for make in [encoder, decoder, patches, windows]:
        yield lambda make=make: Case(optc, make(), make.__name__, folder, True)


def given(optc, folder, paths, sequence):
    for path in paths:
        model = onnx.load(path, load_external_data=False)
        external = any(t.data_location == TensorProto.EXTERNAL for t in model.graph.initializer)
        yield lambda m=model, p=path, e=external: Case(optc, m, p.stem, folder, not e, sequence)


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("optc", type=pathlib.Path)
    parser.add_argument("models", type=pathlib.Path, nargs="*")
    parser.add_argument("--no-sequence", action="store_true")
    args = parser.parse_args()
    optc = args.optc.resolve()
    rows, failures = [], []
    with tempfile.TemporaryDirectory() as folder:
        folder = pathlib.Path(folder)
        cases = given(optc, folder, args.models, not args.no_sequence) if args.models else made(optc, folder)
        for case in cases:
            try:
                row = case().check()
                rows.append(row)
                print(" | ".join(f"{k}: {v}" for k, v in row.items()), flush=True)
                if row["differs"] and not args.models:
                    failures.append(f"{row['model']}:{row['differs']}")
            except (AssertionError, Unfit) as error:
                failures.append(f"{type(error).__name__}: {error}")
                print(failures[-1][:2000], file=sys.stderr, flush=True)
    for failure in failures:
        print(failure[:400], file=sys.stderr)
    print(f"symbolic sizes: {len(rows)} models, {len(failures)} failed")
    sys.exit(1 if failures or not rows else 0)


if __name__ == "__main__":
    main()
