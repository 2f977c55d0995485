#!/usr/bin/env python3
"""The pass plugin of bindings/mlir folds linalg programs to what optc finds from their models, and the numbers stay.

usage: python mlir_plugin.py OPTC LIBRARY [--random N] [--seed S]

LIBRARY is liboptc_c.a.  The plugin is built against MLIR's headers.  The programs are the models of tests/models and the
blocks of tests/blocks, written as linalg without any pass; programs of tests/interop/linalg_reports; and N random
programs (500 unless stated).  Each goes through `mlir-opt --load-pass-plugin`.  Then:

- the folded program moves no more bytes than optc leaves in the model itself;
- what `--emit=linalg` writes, read back and folded again, moves no more than before;
- MLIR's own tools compute the same numbers from the program before and after.

Needs numpy, onnx, g++, libmlir-19-dev, llvm-19-dev, mlir-opt-19 (or MLIR_OPT) and mlir-cpu-runner-19 (or MLIR_RUNNER).
"""
import argparse
import concurrent.futures
import json
import os
import pathlib
import random
import re
import shutil
import sys
import tempfile

import numpy as np
import onnx

import linalg
import onnxruntime_peer as peer
from linalg import MLIR_OPT, ROOT, need

# Blocks whose numbers MLIR's loops compute in seconds.
RUN = ["bert", "shufflenet", "nhwc_convolutions", "swin", "mixer", "visformer", "gpt2"]
FOLD = ["--pass=default", "--target=cpu", "--pin-boundary"]
PASS = "builtin.module(optc-view-fold{target=cpu remarks=true})"
# Programs of one module of random programs.
BATCH = 25


def moved(figures):
    return sum(figures[name] for name in ("movement_bytes", "copy_bytes", "expand_bytes"))


def generic(path, folder):
    """The program in the generic form."""
    here = folder / f"{path.stem}.generic.mlir"
    need([MLIR_OPT, "--mlir-print-op-generic", path, "-o", here])
    return here


def figures(optc, path, *options):
    return json.loads(need([optc, "stats", "--json", *FOLD, *options, path]))


class Plugin:
    def __init__(self, library, folder):
        self.path = folder / "libOptc.so"
        need([ROOT / "bindings/mlir/build.sh", library, self.path])

    def fold(self, path, out, pipeline=PASS):
        """What the pass says; the folded program is in `out`."""
        done = linalg.run([MLIR_OPT, f"--load-pass-plugin={self.path}", f"--pass-pipeline={pipeline}", path, "-o", out])
        said = done.stderr.decode(errors="replace")
        assert done.returncode == 0, f"mlir-opt fails: {said[:1500]}"
        return said


def sources(folder):
    """(name, path of a program with all weights, whether its numbers are compared)"""
    for path in sorted((ROOT / "tests/models").glob("*.onnx")):
        here = folder / path.name
        onnx.save(peer.load(path, np.random.default_rng(3)), str(here))
        yield path.stem, here, True
    for path in sorted((ROOT / "tests/blocks").glob("*.ir")):
        text = path.read_text()
        parts = re.findall(r'#hbir\.external<"block\.weights", (\d+), (\d+)>', text)
        own = folder / path.stem
        own.mkdir()
        shutil.copy(path, own)
        size = max((int(start) + int(length) for start, length in parts), default=0)
        narrow = "16xf" in text or "xbf16" in text
        weights = np.random.default_rng(5).standard_normal(size // 4 + 1).astype(np.float32) * np.float32(0.1)
        (own / "block.weights").write_bytes((np.zeros_like(weights) if narrow else weights).tobytes()[:size])
        yield path.stem, own / path.name, path.stem in RUN


def same_numbers(optc, source, before, after, folder):
    args, results = linalg.signature(optc, source)
    rng = np.random.default_rng(7)
    inputs = [(element, linalg.drawn(rng, element, shape, i, "")) for i, (_, element, shape) in enumerate(args)]
    a, b = (lowered(folder / text, folder) for text in (before, after))
    wanted, found = (linalg.executed(header(text), inputs, results, folder) for text in (a, b))
    for i, (x, y) in enumerate(zip(found, wanted, strict=True)):
        try:
            linalg.agree(x, y)
        except AssertionError as error:
            raise AssertionError(f"result {i}: {error}") from None


def header(text):
    """The text with the results of @main in brackets, as the harness of linalg.py wants them."""
    return re.sub(r"(func\.func @main\(.*?\)) -> (tensor<[^>]*>) ", r"\1 -> (\2) ", text, count=1)


def left(said):
    """The bytes that a function moves after the pass, by its remarks; 0 if it moved none before."""
    assert not re.search(r"as it is: (?!it moves)", said), said[:800]
    found = re.search(r"bytes moved to (\d+)|it moves (\d+) bytes", said)
    return int(found[1] or found[2]) if found else 0


def check(optc, plugin, source, runs, folder):
    """One model: the figures of optc from the model, and through the plugin."""
    read, folded, emitted = folder / "read.mlir", folder / "folded.mlir", folder / "emitted.mlir"
    need([optc, "--pass=", "--pin-boundary", "--emit=linalg", source, "-o", read])
    said = plugin.fold(read, folded)
    model = figures(optc, source)
    before, wanted = moved(model["before"]), moved(model["after"])
    found = left(said)
    assert found <= wanted, f"moves {found} bytes through the plugin, {wanted} from the model: {said[:800]}"
    # A program that is folded has no more operations that move elements than the model keeps conversions.
    kept, count = model["after"]["layout_convert"], len(linalg.MOVES.findall(folded.read_text()))
    assert count <= kept or "it moves" in said, f"{count} moves, {kept} conversions"
    need([optc, *FOLD, "--emit=linalg", source, "-o", emitted])
    again = moved(figures(optc, generic(emitted, folder), "--from=linalg")["after"])
    assert again <= wanted, f"moves {again} bytes after reading back, {wanted} before"
    if runs:
        same_numbers(optc, source, read.name, folded.name, folder)
    return before, found


def lowered(path, folder):
    """A program with its packs lowered, in the text form. MLIR 19 loses a `linalg.transpose` of the identity when it bufferizes
    it, so they are folded before."""
    (folder / "unpack.mlir").write_text(linalg.UNPACK)
    return need([MLIR_OPT, path, f"-transform-preload-library=transform-library-paths={folder / 'unpack.mlir'}",
                 "-transform-interpreter", "-canonicalize"]).decode()


class Random:
    """A random program of linalg and tensor on f32."""

    def __init__(self, seed):
        self.random = random.Random(seed)
        self.lines, self.values, self.next, self.scalars = [], [], 0, {}

    def fresh(self):
        self.next += 1
        return f"%v{self.next}"

    @staticmethod
    def ty(shape):
        return f"tensor<{''.join(f'{n}x' for n in shape)}f32>"

    def put(self, text, shape):
        name = self.fresh()
        self.lines.append(f"{name} = {text}")
        self.values.append((name, shape))
        return name

    def scalar(self, number):
        if number not in self.scalars:
            name = self.fresh()
            self.scalars[number] = name
            self.lines.append(f"{name} = arith.constant {number} : f32")
        return self.scalars[number]

    def empty(self, shape):
        name = self.fresh()
        self.lines.append(f"{name} = tensor.empty() : {self.ty(shape)}")
        return name

    def filled(self, shape, number="0.0"):
        out, name = self.empty(shape), None
        name = self.fresh()
        self.lines.append(f"{name} = linalg.fill ins({self.scalar(number)} : f32) outs({out} : {self.ty(shape)}) -> {self.ty(shape)}")
        return name

    def pick(self, least=0):
        known = [v for v in self.values if least <= len(v[1])]
        return self.random.choice(known[-6:]) if known else None

    def generic(self, maps, kinds, ins, out, shape, body):
        maps = ", ".join(f"affine_map<({', '.join(f'd{i}' for i in range(len(kinds)))}) -> ({', '.join(m)})>" for m in maps)
        kinds = ", ".join(f'"{k}"' for k in kinds)
        given = f"ins({', '.join(n for n, _ in ins)} : {', '.join(self.ty(s) for _, s in ins)}) " if ins else ""
        args = ", ".join([f"%i{i}: f32" for i in range(len(ins))] + ["%o: f32"])
        return self.put(f"linalg.generic {{indexing_maps = [{maps}], iterator_types = [{kinds}]}} {given}outs({out} : {self.ty(shape)}) {{\n"
                        f"^bb0({args}):\n{body}\n}} -> {self.ty(shape)}", shape)

    def transpose(self):
        value = self.pick(2)
        if not value:
            return
        name, shape = value
        perm = self.random.sample(range(len(shape)), len(shape))
        out = [shape[p] for p in perm]
        if self.random.random() < 0.5:
            self.put(f"linalg.transpose ins({name} : {self.ty(shape)}) outs({self.empty(out)} : {self.ty(out)}) permutation = {perm}", out)
        else:
            self.generic([[f"d{d}" for d in range(len(perm))], [f"d{p}" for p in perm]], ["parallel"] * len(perm), [value],
                         self.empty(out), out, "linalg.yield %i0 : f32")

    def pointwise(self):
        """Two operands in orders and with dimensions of their own."""
        first = self.pick(1)
        shape = first[1]
        rank = len(shape)
        own = self.random.sample(range(rank), rank)
        extents = [0] * rank
        for d, n in zip(own, shape):
            extents[d] = n
        ins, maps = [first], [[f"d{d}" for d in own]]
        for name, other in self.random.sample(self.values, len(self.values)):
            dims, used = [], set()
            for n in other:
                free = [d for d in range(rank) if extents[d] == n and d not in used]
                if not free:
                    break
                dims.append(self.random.choice(free))
                used.add(dims[-1])
            if len(dims) == len(other):
                ins.append((name, other))
                maps.append([f"d{d}" for d in dims])
                break
        order = self.random.sample(range(rank), rank)
        out = [extents[d] for d in order]
        maps.append([f"d{d}" for d in order])
        body = self.random.choice(["%a = arith.addf %i0, %L : f32", "%a = arith.subf %L, %i0 : f32", "%a = arith.maximumf %i0, %L : f32",
                                   "%m = math.tanh %i0 : f32\n%a = arith.mulf %m, %L : f32",
                                   "%c = arith.cmpf ogt, %i0, %L : f32\n%a = arith.select %c, %i0, %L : f32"])
        last = f"%i{len(ins) - 1}" if 1 < len(ins) else self.scalar("0.5")
        self.generic(maps, ["parallel"] * rank, ins, self.empty(out), out, body.replace("%L", last) + "\nlinalg.yield %a : f32")

    def reduction(self):
        value = self.pick(2)
        if not value:
            return
        name, shape = value
        axis = self.random.randrange(len(shape))
        left = [d for d in range(len(shape)) if d != axis]
        self.random.shuffle(left)
        out = [shape[d] for d in left]
        op, number = self.random.choice([("arith.addf", "0.0"), ("arith.maximumf", "0xFF800000"), ("arith.addf", "1.5")])
        kinds = ["reduction" if d == axis else "parallel" for d in range(len(shape))]
        self.generic([[f"d{d}" for d in range(len(shape))], [f"d{d}" for d in left]], kinds, [value], self.filled(out, number), out,
                     f"%a = {op} %o, %i0 : f32\nlinalg.yield %a : f32")

    def contraction(self):
        a, b = self.pick(2), self.pick(2)
        if not a or not b:
            return
        common = [(i, j) for i, n in enumerate(a[1]) for j, m in enumerate(b[1]) if n == m]
        if not common:
            return
        i, j = self.random.choice(common)
        left = [f"d{d}" for d in range(len(a[1]))]
        right = [f"d{len(a[1]) + d}" for d in range(len(b[1]))]
        right[j] = left[i]
        # Numbers of loops without a gap.
        loops = sorted(set(left + right), key=lambda d: int(d[1:]))
        names = {d: f"d{n}" for n, d in enumerate(loops)}
        left, right = [names[d] for d in left], [names[d] for d in right]
        extents = dict(zip(left + right, a[1] + b[1]))
        free = [d for d in names.values() if d != left[i]]
        batch = [d for d in free if d in left and d in right]
        assert not batch
        self.random.shuffle(free)
        out = [extents[d] for d in free]
        if np.prod(out) * extents[left[i]] > 20000:
            return
        kinds = ["reduction" if d == left[i] else "parallel" for d in names.values()]
        self.generic([left, right, free], kinds, [a, b], self.filled(out), out,
                     "%m = arith.mulf %i0, %i1 : f32\n%a = arith.addf %o, %m : f32\nlinalg.yield %a : f32")

    def matmul(self):
        value = self.pick(2)
        if not value or len(value[1]) != 2:
            return
        name, (m, k) = value
        n = self.random.choice([2, 3, 4])
        weights = np.random.default_rng(self.next).standard_normal((k, n)).round(3).tolist()
        w = self.fresh()
        self.lines.append(f"{w} = arith.constant dense<{weights}> : {self.ty([k, n])}")
        self.put(f"linalg.matmul ins({name}, {w} : {self.ty([m, k])}, {self.ty([k, n])}) outs({self.filled([m, n])} : {self.ty([m, n])}) -> {self.ty([m, n])}", [m, n])

    def reshape(self):
        name, shape = self.pick(1)
        if len(shape) > 1 and self.random.random() < 0.5:
            at = self.random.randrange(len(shape) - 1)
            groups = [[d] for d in range(at)] + [[at, at + 1]] + [[d] for d in range(at + 2, len(shape))]
            out = shape[:at] + [shape[at] * shape[at + 1]] + shape[at + 2:]
            self.put(f"tensor.collapse_shape {name} {groups} : {self.ty(shape)} into {self.ty(out)}", out)
            return
        if len(shape) > 5:
            return
        at = self.random.randrange(len(shape))
        factor = self.random.choice([f for f in (1, 2, 3, 4) if shape[at] % f == 0])
        pair = self.random.choice([[factor, shape[at] // factor], [shape[at] // factor, factor]])
        groups = [[d] for d in range(at)] + [[at, at + 1]] + [[d + 1] for d in range(at + 1, len(shape))]
        out = shape[:at] + pair + shape[at + 1:]
        self.put(f"tensor.expand_shape {name} {groups} output_shape {out} : {self.ty(shape)} into {self.ty(out)}", out)

    def slice(self):
        name, shape = self.pick(1)
        at = self.random.randrange(len(shape))
        start = self.random.randrange(shape[at])
        size = self.random.randint(1, shape[at] - start)
        stride = self.random.choice([1, 1, 2])
        size = (size + stride - 1) // stride
        starts = [start if d == at else 0 for d in range(len(shape))]
        out = [size if d == at else n for d, n in enumerate(shape)]
        strides = [stride if d == at else 1 for d in range(len(shape))]
        self.put(f"tensor.extract_slice {name}{starts} {out} {strides} : {self.ty(shape)} to {self.ty(out)}", out)

    def pad(self):
        name, shape = self.pick(1)
        low, high = ([self.random.choice([0, 0, 1, 2]) for _ in shape] for _ in range(2))
        out = [a + n + b for a, n, b in zip(low, shape, high)]
        args = ", ".join(f"%x{d}: index" for d in range(len(shape)))
        number = self.scalar(self.random.choice(["0.0", "-1.0"]))
        self.put(f"tensor.pad {name} low{low} high{high} {{\n^bb0({args}):\ntensor.yield {number} : f32\n}} : {self.ty(shape)} to {self.ty(out)}", out)

    def joined(self):
        """Parts written side by side into an empty tensor."""
        name, shape = self.pick(1)
        others = [v for v in self.values if v[1] == shape]
        other, _ = self.random.choice(others)
        axis = self.random.randrange(len(shape))
        out = [2 * n if d == axis else n for d, n in enumerate(shape)]
        ones, into = [1] * len(shape), self.empty(out)
        for i, part in enumerate([name, other]):
            starts = [i * shape[axis] if d == axis else 0 for d in range(len(shape))]
            made = self.fresh()
            self.lines.append(f"{made} = tensor.insert_slice {part} into {into}{starts} {shape} {ones} : {self.ty(shape)} into {self.ty(out)}")
            into = made
        self.values.append((into, out))

    def packed(self):
        """A pack, something element-wise, and the unpack."""
        name, shape = self.pick(2)
        dims = self.random.sample(range(len(shape)), self.random.randint(1, 2))
        tiles = [self.random.choice([2, 3, 4]) for _ in dims]
        counts = [-(-n // tiles[dims.index(d)]) if d in dims else n for d, n in enumerate(shape)]
        outer = list(range(len(shape)))
        # MLIR 19 forgets the order of the tiles where there is one tile in each dimension.
        if any(1 < counts[d] for d in dims) and self.random.random() < 0.5:
            self.random.shuffle(outer)
        out = [counts[d] for d in outer] + tiles
        order = f"outer_dims_perm = {outer} " if outer != list(range(len(shape))) else ""
        ragged = any(shape[d] % t for d, t in zip(dims, tiles))
        filler = f"padding_value({self.scalar('0.0')} : f32) " if ragged else ""
        packed = self.put(f"tensor.pack {name} {filler}{order}inner_dims_pos = {dims} inner_tiles = {tiles} into {self.empty(out)} : {self.ty(shape)} -> {self.ty(out)}", out)
        if self.random.random() < 0.3:
            return
        loops = [f"d{d}" for d in range(len(out))]
        inner = self.generic([loops, loops], ["parallel"] * len(out), [(packed, out)], self.empty(out), out,
                             "%a = math.tanh %i0 : f32\nlinalg.yield %a : f32")
        # MLIR 19 reads outside of the value where it unpacks one tile in each dimension and not all dimensions have tiles.
        if all(n == 1 for n in counts) and len(dims) < len(shape):
            return
        self.put(f"tensor.unpack {inner} {order}inner_dims_pos = {dims} inner_tiles = {tiles} into {self.empty(shape)} : {self.ty(out)} -> {self.ty(shape)}", shape)

    def repeated(self):
        name, shape = self.pick(1)
        if 3 < len(shape):
            return
        at, n = self.random.randint(0, len(shape)), self.random.choice([1, 2, 3])
        out = shape[:at] + [n] + shape[at:]
        self.put(f"linalg.broadcast ins({name} : {self.ty(shape)}) outs({self.empty(out)} : {self.ty(out)}) dimensions = [{at}]", out)

    def unknown(self):
        """An operation that optc does not understand."""
        name, shape = self.pick(2)
        out = list(reversed(shape))
        args = ", ".join(f"%x{d}: index" for d in range(len(out)))
        index = ", ".join(f"%x{d}" for d in reversed(range(len(out))))
        self.put(f"tensor.generate {{\n^bb0({args}):\n%e = tensor.extract {name}[{index}] : {self.ty(shape)}\ntensor.yield %e : f32\n}} : {self.ty(out)}", out)

    def function(self, name):
        """(text, types of the arguments, types of the results)"""
        args = [[self.random.choice([1, 2, 3, 4, 6]) for _ in range(self.random.randint(2, 4))] for _ in range(self.random.randint(1, 2))]
        self.values = [(f"%a{i}", shape) for i, shape in enumerate(args)]
        steps = [self.transpose] * 4 + [self.pointwise] * 4 + [self.reshape] * 5 + [
            self.reduction, self.contraction, self.contraction, self.matmul, self.slice, self.pad, self.joined, self.packed, self.packed,
            self.repeated, self.unknown]
        for _ in range(self.random.randint(4, 10)):
            if 4000 < np.prod(self.values[-1][1]):
                break
            self.random.choice(steps)()
        results = [v for v in self.values[-1:]]
        # A function that only returns an argument has nothing to fold.
        given = ", ".join(f"%a{i}: {self.ty(s)}" for i, s in enumerate(args))
        gives = ", ".join(self.ty(s) for _, s in results)
        body = "\n".join(self.lines)
        text = f"func.func @{name}({given}) -> ({gives}) {{\n{body}\nreturn {', '.join(n for n, _ in results)} : {gives}\n}}\n"
        return text, [("f32", s) for s in args], [("f32", s) for _, s in results]


def batch(plugin, seeds, folder):
    """Random programs in one module, and an entry that calls all of them: their numbers before and after."""
    texts, takes, gives, calls, makes = [], [], [], [], []
    for seed in seeds:
        text, args, results = Random(seed).function(f"p{seed}")
        texts.append(text)
        first = len(takes)
        takes += args
        tensors = [Random.ty(s) for _, s in args]
        named = ", ".join(f"%a{first + i}" for i in range(len(args)))
        outs = ", ".join(Random.ty(s) for _, s in results)
        calls.append(f"%c{seed} = func.call @p{seed}({named}) : ({', '.join(tensors)}) -> ({outs})")
        makes.append((f"%c{seed}", results[0][1]))
        gives += results
    given = ", ".join(f"%a{i}: {Random.ty(s)}" for i, (_, s) in enumerate(takes))
    types = ", ".join(Random.ty(s) for _, s in makes)
    lines = "\n".join(calls)
    main = f"  func.func @main({given}) -> ({types}) {{\n{lines}\nreturn {', '.join(n for n, _ in makes)} : {types}\n  }}"
    before, after = folder / "before.mlir", folder / "after.mlir"
    before.write_text("".join(texts))
    said = plugin.fold(before, after, "builtin.module(optc-view-fold{target=cpu remarks=true})")
    rng = np.random.default_rng(seeds[0])
    inputs = [(element, rng.standard_normal(shape).astype(np.float32)) for element, shape in takes]
    ran = []
    for path in (before, after):
        # Large constants are written behind the module.
        text, mark, constants = lowered(path, folder).partition("{-#")
        text = text.rstrip().removesuffix("}") + main + "\n}\n" + mark + constants
        ran.append(linalg.executed(text, inputs, gives, folder))
    for seed, found, wanted in zip(seeds, ran[1], ran[0], strict=True):
        try:
            linalg.agree(found, wanted)
        except AssertionError as error:
            raise AssertionError(f"random program {seed}: {error}") from None
    unread = re.findall(r"remark: optc leaves @(\w+) as it is: (?!it moves)(.*)", said)
    assert not unread, f"{unread[:3]}"
    return len(re.findall(r"remark: optc folds @", said))


def reports(plugin, optc, folder):
    """Programs as they are in reports of users: each states in a comment how many bytes may still be moved."""
    tried = 0
    for path in sorted((ROOT / "tests/interop/linalg_reports").glob("*.mlir")):
        text = path.read_text()
        wanted = int(re.search(r"^// moves (\d+) bytes", text, re.M)[1])
        out = folder / path.name
        found = left(plugin.fold(path, out))
        assert found == wanted, f"{path.name}: {found} bytes, wanted {wanted}"
        moves = linalg.MOVES.findall(out.read_text())
        assert not moves, f"{path.name}: {moves} stay"
        again = moved(figures(optc, generic(out, folder), "--from=linalg")["after"])
        assert again <= wanted, f"{path.name}: {again} bytes after reading back, wanted {wanted}"
        types = lambda part: [("f32", [int(n) for n in re.findall(r"(\d+)x", ty)]) for ty in re.findall(r"tensor<[^>]*>", part)]
        takes, gives = (types(part) for part in re.search(r"func\.func @main\((.*?)\) -> (.*) \{", text).groups())
        rng = np.random.default_rng(11)
        inputs = [(element, rng.standard_normal(shape).astype(np.float32)) for element, shape in takes]
        ran = [linalg.executed(header(lowered(p, folder)), inputs, gives, folder) for p in (path, out)]
        for a, b in zip(*ran, strict=True):
            linalg.agree(b, a)
        tried += 1
    return tried


def refusals(plugin, folder):
    """What the pass cannot do is said, and changes nothing."""
    path, out = folder / "open.mlir", folder / "open.out.mlir"
    path.write_text("func.func @main(%x: tensor<?x4xf32>) -> tensor<?x4xf32> {\n  return %x : tensor<?x4xf32>\n}\n")
    said = plugin.fold(path, out)
    assert "remark: optc leaves @main as it is" in said and "[linalg-type]" in said, said
    assert need([MLIR_OPT, path]) == out.read_bytes(), "an unread function changed"
    path.write_text("func.func @main(%x: tensor<4xf32>) -> tensor<4xf32> {\n  %0 = \"test.numbers\"(%x) : (tensor<4xf32>) -> memref<4xf32>\n"
                    "  return %x : tensor<4xf32>\n}\n")
    done = linalg.run([MLIR_OPT, "--allow-unregistered-dialect", f"--load-pass-plugin={plugin.path}", f"--pass-pipeline={PASS}", path])
    assert done.returncode == 0 and b"open.mlir:2:8: remark: optc leaves @main" in done.stderr, done.stderr
    done = linalg.run([MLIR_OPT, f"--load-pass-plugin={plugin.path}", "--pass-pipeline=builtin.module(optc-view-fold{target=nothing})", path])
    assert done.returncode == 1 and b"error: " in done.stderr and b"[unknown-target]" in done.stderr, done.stderr
    path.write_text("func.func @main(%x: tensor<4xf32>) -> tensor<4xf32> {\n  return %x : tensor<4xf32>\n}\n")
    done = linalg.run([MLIR_OPT, f"--load-pass-plugin={plugin.path}", "--pass-pipeline=builtin.module(optc-view-fold{pipeline=nothing})", path])
    assert done.returncode == 1 and b"[unknown-pass]" in done.stderr, done.stderr


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("optc", type=pathlib.Path)
    parser.add_argument("library", type=pathlib.Path)
    parser.add_argument("--random", type=int, default=500)
    parser.add_argument("--seed", type=int, default=0)
    args = parser.parse_args()
    optc, failed = args.optc.resolve(), 0

    def tried(what, call):
        nonlocal failed
        with tempfile.TemporaryDirectory() as folder:
            try:
                return call(pathlib.Path(folder))
            except AssertionError as error:
                failed += 1
                print(f"{what}: {error}", flush=True)
        return None

    with tempfile.TemporaryDirectory() as folder, concurrent.futures.ThreadPoolExecutor(os.cpu_count() or 1) as pool:
        folder = pathlib.Path(folder)
        plugin = Plugin(args.library.resolve(), folder)
        tried("refusals", lambda own: refusals(plugin, own))
        cases = tried("reports", lambda own: reports(plugin, optc, own))
        models = list(sources(folder))
        done = list(pool.map(lambda m: tried(m[0], lambda own: check(optc, plugin, m[1], m[2], own)), models))
        for (name, *_), found in zip(models, done):
            if found:
                print(f"{name}: {found[0]} bytes moved, {found[1]} folded")
        seeds = list(range(args.seed, args.seed + args.random))
        groups = [seeds[i:i + BATCH] for i in range(0, len(seeds), BATCH)]
        folds = list(pool.map(lambda g: tried(f"random programs from {g[0]}", lambda own: batch(plugin, g, own)), groups))
        better = sum(n or 0 for n in folds)
    print(f"{len(models)} models and blocks, {cases} reports, {len(seeds)} random programs of which {better} got better; {failed} failures")
    return 1 if failed or not cases or not better else 0


if __name__ == "__main__":
    sys.exit(main())
