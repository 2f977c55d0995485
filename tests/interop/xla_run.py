#!/usr/bin/env python3
"""optc computes the same as XLA: HLO modules on random inputs, by XLA's CPU backend and by `optc run`.

usage: python xla_run.py OPTC [FILE.hlo ...] [--cases N] [--seed S]

Without files: the modules of frontends/hlo/tests/modules/run, and N generated ones (60). Each generated one has a single
instruction with random shapes, attributes and layouts, drawn from seed S (1).  A module is run as imported by the
reference interpreter, and folded for the cpu by the naive one.  A module with an opaque operation cannot run; such
modules are counted separately and listed by opcode.  Needs jax (requirements.txt). Without it nothing is checked, which
is reported, and is an error if CI_REQUIRE_PEERS is set.
"""
import argparse
import os
import pathlib
import random
import subprocess
import sys
import tempfile

ROOT = pathlib.Path(__file__).resolve().parents[2]
RUNS = [("reference", ["--pass="]), ("naive, folded", ["--pass=default", "--target=cpu", "--exec=naive"])]
TOLERANCE = {"float32": 1e-4, "float64": 1e-9, "float16": 1e-2}


class Xla:
    """XLA's parser and CPU backend."""

    def __init__(self):
        os.environ.setdefault("JAX_PLATFORMS", "cpu")
        import jax
        from jaxlib import _hlo, _jax
        jax.config.update("jax_enable_x64", True)
        self.jax, self.hlo, self.lib = jax, _hlo, _jax
        self.devices = jax.devices()[:1]

    def parse(self, text):
        return self.hlo.hlo_module_from_text(text)

    def run(self, module, inputs):
        program = self.lib.mlir.hlo_to_stablehlo(module.as_serialized_hlo_module_proto())
        client = self.devices[0].client
        where = self.lib.DeviceList(tuple(self.devices))
        built = client.compile_and_load(program, where, self.lib.CompileOptions())
        given = [self.jax.device_put(x, self.devices[0]) for x in inputs]
        results = built.execute_sharded(given).disassemble_into_single_device_arrays()
        return [np.asarray(parts[0]) for parts in results]


def parameters(module):
    """The names, types and sizes of the entry's parameters in the printed text."""
    lines = module.to_string().split("\nENTRY ")[1].splitlines()[1:]
    found = {}
    for line in lines:
        if " parameter(" in line:
            name, rest = line.strip().removeprefix("ROOT ").split(" = ", 1)
            number = int(rest.split(" parameter(")[1].split(")")[0])
            element, dims = rest.split("[", 1)
            dims = [int(d) for d in dims.split("]")[0].split(",") if d]
            found[number] = (name.lstrip("%"), element, dims)
    return [found[i] for i in sorted(found)]


def draw(rng, element, dims):
    if element == "pred":
        return rng.integers(0, 2, dims).astype(bool)
    kinds = {"f32": "float32", "f64": "float64", "f16": "float16", "s32": "int32", "s64": "int64", "s8": "int8", "u8": "uint8", "u32": "uint32"}
    if element.startswith("f"):
        return rng.standard_normal(dims).astype(kinds[element])
    low = 0 if element.startswith("u") else -3
    return rng.integers(low, 9, dims).astype(kinds[element])


def agree(found, wanted):
    if list(found.shape) != list(wanted.shape):
        return f"shapes {found.shape} and {wanted.shape}"
    if wanted.dtype.kind != "f":
        equal = np.array_equal(found.astype(np.int64), wanted.astype(np.int64))
        return None if equal else f"{found.ravel()[:8]} and {wanted.ravel()[:8]}"
    a, b = found.astype(np.float64), wanted.astype(np.float64)
    if not np.array_equal(np.isfinite(a), np.isfinite(b)):
        return "other infinities or NaNs"
    good = np.isfinite(b)
    tolerance = TOLERANCE[str(wanted.dtype)] * max(1.0, np.abs(b[good]).max(initial=0.0))
    worst = np.abs(a[good] - b[good]).max(initial=0.0)
    return None if worst <= tolerance else f"numbers that differ by {worst}"


class Check:
    def __init__(self, optc, xla, folder):
        self.optc, self.xla, self.folder = optc, xla, pathlib.Path(folder)
        self.passed, self.failed, self.opaque = 0, 0, {}

    def module(self, name, text, seed):
        try:
            module = self.xla.parse(text)
        except Exception as error:  # the parser's own error has no class of its own
            return self.fail(name, text, f"XLA refuses it: {str(error)[:300]}")
        text = module.to_string()
        rng = np.random.default_rng(seed)
        given = [(name, draw(rng, element, dims)) for name, element, dims in parameters(module)]
        try:
            wanted = self.xla.run(module, [x for _, x in given])
        except Exception as error:
            return self.fail(name, text, f"XLA cannot run it: {str(error)[:300]}")
        source, inputs, outputs = (self.folder / n for n in ("m.hlo", "in.npz", "out.npz"))
        source.write_text(text)
        np.savez(inputs, **dict(given))
        for how, options in RUNS:
            command = [self.optc, "run", *options, str(source), "--inputs", str(inputs), "--output", str(outputs)]
            done = subprocess.run(command, capture_output=True, text=True)
            if done.returncode != 0:
                if "opaque" in done.stderr:
                    kind = name.split()[0]
                    self.opaque[kind] = self.opaque.get(kind, 0) + 1
                    return None
                return self.fail(name, text, f"{how}: {done.stderr[:600]}")
            with np.load(outputs) as results:
                found = [results[key] for key in results]
            if len(found) != len(wanted):
                return self.fail(name, text, f"{how}: {len(found)} results, wanted {len(wanted)}")
            for i, (a, b) in enumerate(zip(found, wanted)):
                why = agree(a, b)
                if why:
                    return self.fail(name, text, f"{how}: result {i}: {why}")
        self.passed += 1
        return None

    def fail(self, name, text, why):
        self.failed += 1
        print(f"{name}: {why}\n{text}")


# Generated modules.

UNARY = ("abs ceil cosine exponential exponential-minus-one floor log-plus-one logistic negate sign sine tanh "
         "round-nearest-even round-nearest-afz cbrt tan erf").split()
BINARY = "add subtract multiply divide maximum minimum power atan2 remainder".split()
INTEGER = "add subtract multiply maximum minimum and or xor".split()
REDUCERS = {"add": "0", "maximum": "-inf", "minimum": "inf", "multiply": "1"}


class Draw:
    """A generator of modules with one instruction; sizes are small and distinct."""

    def __init__(self, seed):
        self.rng = random.Random(seed)

    def sizes(self, low=1, high=4, most=7):
        return [self.rng.randint(1, most) for _ in range(self.rng.randint(low, high))]

    def order(self, rank):
        order = list(range(rank))
        self.rng.shuffle(order)
        return order

    def shape(self, sizes, element="f32"):
        """A shape with a random layout, sometimes the default one."""
        rank = len(sizes)
        order = self.order(rank) if self.rng.random() < 0.6 else list(reversed(range(rank)))
        layout = "{" + ",".join(map(str, order)) + "}" if rank else ""
        return f"{element}[{','.join(map(str, sizes))}]{layout}"

    def param(self, number, sizes, element="f32"):
        return f" p{number} = {self.shape(sizes, element)} parameter({number})\n"

    def entry(self, body, before=""):
        return f"HloModule generated\n{before}ENTRY e {{\n{body}}}\n"

    def unary(self):
        sizes = self.sizes(0)
        return self.entry(self.param(0, sizes) + f" ROOT r = {self.shape(sizes)} {self.rng.choice(UNARY)}(p0)\n")

    def binary(self):
        sizes = self.sizes(0)
        element, names = ("f32", BINARY) if self.rng.random() < 0.6 else ("s32", INTEGER)
        return self.entry(self.param(0, sizes, element) + self.param(1, sizes, element)
                          + f" ROOT r = {self.shape(sizes, element)} {self.rng.choice(names)}(p0, p1)\n")

    def compare(self):
        sizes = self.sizes(0)
        element = self.rng.choice(["f32", "s32", "u8"])
        how = self.rng.choice(["EQ", "NE", "GE", "GT", "LE", "LT"])
        body = self.param(0, sizes, element) + self.param(1, sizes, element)
        body += f" c = {self.shape(sizes, 'pred')} compare(p0, p1), direction={how}\n"
        return self.entry(body + f" ROOT r = {self.shape(sizes, element)} select(c, p0, p1)\n")

    def clamp(self):
        sizes = self.sizes(0)
        ends = self.rng.choice([[], sizes])
        return self.entry(self.param(0, ends) + self.param(1, sizes) + self.param(2, ends)
                          + f" ROOT r = {self.shape(sizes)} clamp(p0, p1, p2)\n")

    def convert(self):
        sizes = self.sizes(0)
        elements = ["f32", "s32", "s8", "f16", "s64", "pred"]
        a, b = self.rng.sample(elements, 2)
        return self.entry(self.param(0, sizes, a) + f" ROOT r = {self.shape(sizes, b)} convert(p0)\n")

    def broadcast(self):
        sizes = self.sizes(1, 5)
        kept = [d for d in range(len(sizes)) if self.rng.random() < 0.5]
        return self.entry(self.param(0, [sizes[d] for d in kept])
                          + f" ROOT r = {self.shape(sizes)} broadcast(p0), dimensions={{{','.join(map(str, kept))}}}\n")

    def transpose(self):
        sizes = self.sizes(1, 5)
        perm = self.order(len(sizes))
        body = self.param(0, sizes)
        body += f" t = {self.shape([sizes[p] for p in perm])} transpose(p0), dimensions={{{','.join(map(str, perm))}}}\n"
        whole = 1
        for size in sizes:
            whole *= size
        cuts, rest = [], whole
        for prime in (2, 3, 5, 7):
            while rest % prime == 0:
                rest //= prime
                cuts.append(prime)
        self.rng.shuffle(cuts)
        parts = [1] * self.rng.randint(1, 4)
        for cut in cuts:
            parts[self.rng.randrange(len(parts))] *= cut
        body += f" s = {self.shape(parts)} reshape(t)\n"
        return self.entry(body + f" ROOT r = {self.shape(parts)} copy(s)\n")

    def reverse(self):
        sizes = self.sizes()
        dims = [d for d in range(len(sizes)) if self.rng.random() < 0.5]
        return self.entry(self.param(0, sizes)
                          + f" ROOT r = {self.shape(sizes)} reverse(p0), dimensions={{{','.join(map(str, dims))}}}\n")

    def slice(self):
        sizes, out, parts = self.sizes(), [], []
        for size in sizes:
            start = self.rng.randint(0, size - 1)
            limit = self.rng.randint(start, size)
            step = self.rng.randint(1, 3)
            out.append(-(-(limit - start) // step))
            parts.append(f"[{start}:{limit}:{step}]")
        return self.entry(self.param(0, sizes) + f" ROOT r = {self.shape(out)} slice(p0), slice={{{', '.join(parts)}}}\n")

    def pad(self):
        sizes, out, parts = self.sizes(), [], []
        for size in sizes:
            inside = self.rng.choice([0, 0, 1, 2])
            low, high = self.rng.randint(-1, 3), self.rng.randint(-1, 3)
            new = size + low + high + (size - 1) * inside
            if new < 1:
                low = high = 1
                new = size + 2 + (size - 1) * inside
            out.append(new)
            parts.append(f"{low}_{high}_{inside}")
        fill = self.rng.choice(["0", "1.5", "-inf"])
        return self.entry(self.param(0, sizes) + f" v = f32[] constant({fill})\n"
                          + f" ROOT r = {self.shape(out)} pad(p0, v), padding={'x'.join(parts)}\n")

    def concatenate(self):
        sizes = self.sizes()
        axis = self.rng.randrange(len(sizes))
        body, total, count = "", 0, self.rng.randint(1, 3)
        for i in range(count):
            part = list(sizes)
            part[axis] = self.rng.randint(1, 5)
            total += part[axis]
            body += self.param(i, part)
        sizes[axis] = total
        names = ", ".join(f"p{i}" for i in range(count))
        return self.entry(body + f" ROOT r = {self.shape(sizes)} concatenate({names}), dimensions={{{axis}}}\n")

    def iota(self):
        sizes = self.sizes()
        return self.entry(f" ROOT r = {self.shape(sizes, self.rng.choice(['f32', 's32']))} iota(), "
                          f"iota_dimension={self.rng.randrange(len(sizes))}\n")

    def reducer(self, many=True):
        """A reducer. If a single element is reduced, XLA assumes that the initial value is neutral."""
        name = self.rng.choice(list(REDUCERS))
        body = f"f {{\n a = f32[] parameter(0)\n b = f32[] parameter(1)\n ROOT c = f32[] {name}(a, b)\n}}\n"
        start = "0.5" if many and self.rng.random() < 0.2 else REDUCERS[name]
        return body, f" i = f32[] constant({start})\n"

    def reduce(self):
        sizes = self.sizes(1, 5)
        dims = [d for d in range(len(sizes)) if self.rng.random() < 0.5]
        out = [s for d, s in enumerate(sizes) if d not in dims]
        before, start = self.reducer(any(sizes[d] != 1 for d in dims))
        return self.entry(self.param(0, sizes) + start + f" ROOT r = {self.shape(out)} reduce(p0, i), "
                          f"dimensions={{{','.join(map(str, dims))}}}, to_apply=f\n", before)

    def window(self):
        sizes, out, fields = [], [], {"size": [], "stride": [], "pad": [], "rhs_dilate": []}
        rank = self.rng.choice([2, 3, 4, 4])
        plain = self.rng.sample(range(rank), rank - self.rng.randint(1, 2))
        for d in range(rank):
            size = self.rng.randint(2, 8)
            window, step, dilate, low, high = 1, 1, 1, 0, 0
            if d not in plain:
                window = self.rng.randint(1, 3)
                step = self.rng.randint(1, 3)
                dilate = self.rng.choice([1, 1, 2])
                low, high = self.rng.randint(0, window - 1), self.rng.randint(0, window - 1)
            reach = (window - 1) * dilate + 1
            if size + low + high < reach:
                size = reach
            sizes.append(size)
            out.append((size + low + high - reach) // step + 1)
            for key, value in zip(fields, (window, step, f"{low}_{high}", dilate)):
                fields[key].append(value)
        return sizes, out, "{" + " ".join(f"{k}={'x'.join(map(str, v))}" for k, v in fields.items()) + "}"

    def reduce_window(self):
        sizes, out, window = self.window()
        before, start = self.reducer()
        return self.entry(self.param(0, sizes) + start + f" ROOT r = {self.shape(out)} reduce-window(p0, i), "
                          f"window={window}, to_apply=f\n", before)

    def dot(self):
        counts = [self.rng.randint(0, 2), self.rng.randint(0, 2), self.rng.randint(0, 2), self.rng.randint(0, 2)]
        batch, inner, left, right = [[self.rng.randint(1, 5) for _ in range(n)] for n in counts]

        def side(own):
            tags = [("b", i) for i in range(len(batch))] + [("k", i) for i in range(len(inner))] + [("o", i) for i in range(len(own))]
            self.rng.shuffle(tags)
            if self.rng.random() < 0.4:
                tags.sort(key=lambda t: ("bok".index(t[0]), t[1]))
            else:
                free = iter(sorted(t for t in tags if t[0] == "o"))
                tags = [next(free) if t[0] == "o" else t for t in tags]
            sizes = [{"b": batch, "k": inner, "o": own}[kind][i] for kind, i in tags]
            places = {kind: ",".join(str(tags.index((kind, i))) for i in range(n)) for kind, n in (("b", len(batch)), ("k", len(inner)))}
            return sizes, places

        (a, pa), (b, pb) = side(left), side(right)
        out = batch + left + right
        dims = f"lhs_batch_dims={{{pa['b']}}}, lhs_contracting_dims={{{pa['k']}}}, rhs_batch_dims={{{pb['b']}}}, rhs_contracting_dims={{{pb['k']}}}"
        return self.entry(self.param(0, a) + self.param(1, b) + f" ROOT r = {self.shape(out)} dot(p0, p1), {dims}\n")

    def convolution(self):
        n = self.rng.randint(1, 2)
        groups = self.rng.choice([1, 1, 2])
        batch, cin, cout = self.rng.randint(1, 3), self.rng.randint(1, 3), self.rng.randint(1, 3) * groups
        space, kernel, result, fields = [], [], [], {"size": [], "stride": [], "pad": [], "lhs_dilate": [], "rhs_dilate": []}
        for _ in range(n):
            size, window, step = self.rng.randint(3, 7), self.rng.randint(1, 3), self.rng.randint(1, 2)
            stretch, dilate = self.rng.choice([1, 1, 2]), self.rng.choice([1, 1, 2])
            low, high = self.rng.randint(0, 2), self.rng.randint(0, 2)
            whole, reach = (size - 1) * stretch + 1 + low + high, (window - 1) * dilate + 1
            if whole < reach:
                high += reach - whole
                whole = reach
            space.append(size)
            kernel.append(window)
            result.append((whole - reach) // step + 1)
            for key, value in zip(fields, (window, step, f"{low}_{high}", stretch, dilate)):
                fields[key].append(value)
        digits = [str(i) for i in range(n)]

        def spread(letters, sizes):
            places = list(zip(letters + digits, sizes))
            self.rng.shuffle(places)
            return "".join(c for c, _ in places), [s for _, s in places]

        x_labels, x = spread(["b", "f"], [batch, cin * groups] + space)
        w_labels, w = spread(["i", "o"], [cin, cout] + kernel)
        y_labels, y = spread(["b", "f"], [batch, cout] + result)
        window = "{" + " ".join(f"{k}={'x'.join(map(str, v))}" for k, v in fields.items()) + "}"
        return self.entry(self.param(0, x) + self.param(1, w)
                          + f" ROOT r = {self.shape(y)} convolution(p0, p1), window={window}, "
                          f"dim_labels={x_labels}_{w_labels}->{y_labels}, feature_group_count={groups}\n")

    def gather(self):
        """A gather by one index per row (an embedding, along any dimension), or of slices of a few rows."""
        sizes = self.sizes(1, 4)
        axis = self.rng.randrange(len(sizes))
        ids = self.sizes(0, 3, 4)
        taken = self.rng.randint(1, sizes[axis]) if self.rng.random() < 0.3 else 1
        drop = taken == 1 and self.rng.random() < 0.7
        slices = [taken if d == axis else s for d, s in enumerate(sizes)]
        window = [s for d, s in enumerate(slices) if d != axis or not drop]
        out, offset = self.among(ids, window)
        last = self.rng.random() < 0.5
        given, vector = (ids + [1], len(ids)) if last else (ids, len(ids))
        text = lambda values: "{" + ",".join(map(str, values)) + "}"
        return self.entry(
            self.param(0, sizes) + self.param(1, given, "s32") + f" ROOT r = {self.shape(out)} gather(p0, p1), "
            f"offset_dims={text(offset)}, collapsed_slice_dims={text([axis] if drop else [])}, start_index_map={text([axis])}, "
            f"index_vector_dim={vector}, slice_sizes={text(slices)}\n")

    def among(self, ids, window):
        """The extents of a gather's result, and the positions of the window's extents among them."""
        rank = len(ids) + len(window)
        offset = sorted(self.rng.sample(range(rank), len(window)))
        out, rest_ids, rest_window = [], list(ids), list(window)
        for d in range(rank):
            out.append((rest_window if d in offset else rest_ids).pop(0))
        return out, offset

    def gather_places(self):
        """A gather of parts at positions with several coordinates."""
        sizes = self.sizes(2, 4, 5)
        mapped = self.rng.sample(range(len(sizes)), self.rng.randint(2, len(sizes)))
        ids = self.sizes(0, 2, 4)
        vector = self.rng.randint(0, len(ids))
        given = ids[:vector] + [len(mapped)] + ids[vector:]
        dropped = sorted(d for d in mapped if self.rng.random() < 0.7)
        slices = [1 if d in mapped else s for d, s in enumerate(sizes)]
        window = [s for d, s in enumerate(slices) if d not in dropped]
        out, offset = self.among(ids, window)
        text = lambda values: "{" + ",".join(map(str, values)) + "}"
        return self.entry(
            self.param(0, sizes) + self.param(1, given, "s32") + f" ROOT r = {self.shape(out)} gather(p0, p1), "
            f"offset_dims={text(offset)}, collapsed_slice_dims={text(dropped)}, start_index_map={text(mapped)}, "
            f"index_vector_dim={vector}, slice_sizes={text(slices)}\n")

    def dynamic_slice(self):
        sizes = self.sizes()
        part = [self.rng.randint(1, s) for s in sizes]
        body = self.param(0, sizes) + "".join(self.param(i + 1, [], "s32") for i in range(len(sizes)))
        names = "".join(f", p{i + 1}" for i in range(len(sizes)))
        return self.entry(body + f" ROOT r = {self.shape(part)} dynamic-slice(p0{names}), "
                          f"dynamic_slice_sizes={{{','.join(map(str, part))}}}\n")

    def dynamic_update_slice(self):
        sizes = self.sizes()
        part = [self.rng.randint(1, s) for s in sizes]
        body = self.param(0, sizes) + self.param(1, part) + "".join(self.param(i + 2, [], "s32") for i in range(len(sizes)))
        names = "".join(f", p{i + 2}" for i in range(len(sizes)))
        return self.entry(body + f" ROOT r = {self.shape(sizes)} dynamic-update-slice(p0, p1{names})\n")

    KINDS = [unary, binary, compare, clamp, convert, broadcast, transpose, reverse, slice, pad, concatenate, iota, reduce,
             reduce_window, dot, convolution, gather, gather_places,
             dynamic_slice, dynamic_update_slice]


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("optc")
    parser.add_argument("files", nargs="*", type=pathlib.Path)
    parser.add_argument("--cases", type=int, default=60)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--only", help="an opcode")
    options = parser.parse_args()
    try:
        global np
        import numpy as np
        xla = Xla()
    except ImportError as error:
        print(f"skipped: jax is not installed ({error})")
        return 1 if os.environ.get("CI_REQUIRE_PEERS") else 0
    with tempfile.TemporaryDirectory() as folder:
        check = Check(options.optc, xla, folder)
        files = options.files or sorted((ROOT / "frontends/hlo/tests/modules/run").glob("*.hlo"))
        for path in files:
            check.module(path.name, path.read_text(), options.seed)
        for case in range(0 if options.files else options.cases):
            kind = Draw.KINDS[case % len(Draw.KINDS)]
            opcode = kind.__name__.replace("_", "-")
            if options.only in (None, opcode):
                check.module(f"{opcode} {options.seed}.{case}", kind(Draw(options.seed * 1_000_003 + case)), case)
    opaque = ", ".join(f"{count} {kind}" for kind, count in sorted(check.opaque.items()))
    print(f"{check.passed} modules agree with XLA, {check.failed} do not; opaque: {opaque or 'none'}")
    return 1 if check.failed else 0


if __name__ == "__main__":
    sys.exit(main())
