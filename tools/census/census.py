#!/usr/bin/env python3
"""The census of stored values in XLA:TPU's optimized modules: the dimensions in lanes and rows at each port of each operation.

usage: python census.py FOLDER --target targets/builtin/tpu.toml [--json OUT] > docs/tpu-census.md

FOLDER has optimized modules as HLO text (*.hlo) with tiled layouts. With --target, the rows of that file are checked: the output says which of the stored ports they accept.
"""
import argparse
import collections
import json
import math
import pathlib
import sys

import hlo
import rows

HEAD = """# What lies in lanes and rows in XLA:TPU's modules

Read this page to look up which dimensions XLA:TPU puts into the lanes and rows of a tile at each port of an operation, before you change the
rows of `targets/builtin/tpu.toml`.

Made by `tools/census/census.py FOLDER --target targets/builtin/tpu.toml > docs/tpu-census.md` from {modules} optimized modules of XLA:TPU: {names}. The modules are not in the repository.

**Stored values.** The tables count stored values: operands and results of the instructions of the entry computation and of loop bodies, times
the trip counts of the loops. These are {values} values; arrays of one element are left out. An operand of a fusion is followed into the fusion
to each operation that reads it, through bitcasts, converts, nested fusions, and copies, transposes and reshapes that move nothing. A result is
followed back in the same way to the operation that computes it. A value with n readers counts n times. The element width, the bytes and the tile
are those of the stored value. The roles are those of its dimensions at that operation.

**Lanes** is the most minor dimension in memory, **rows** the next one. Three words are not roles: `unit` is a dimension of one element that
holds the place, `same` a value of one dimension that a tile of one extent lays over rows and lanes, `none` no dimension at all.

**Roles.** A convolution whose windows only express a contraction is a `contraction`: each of its dimensions is `batch`, `M` (left operand and
result), `N` (right operand and result) or `K` (both operands). Roles at a slice, pad, concatenate, reduce or gather say whether the operation
changes the dimension or keeps it. Roles at a copy or transpose say where the dimension comes from and goes to (`to rows`, `from grid`). Roles at
a reshape say whether it merges or splits the dimension. Roles at the result of a reduction say where its dimensions were in the operand. XLA
cuts space into batch before most convolutions: if the model has a batch of 1, `batch` of a convolution consists of pieces of a spatial
dimension.

**Columns.** MB are physical bytes of one pass over the port, tile padding included. Share is the row's part of the bytes of its operation's
port. The three columns of percentages give the share of the counted ports whose lane dimension does not fill whole tiles, whose row dimension
does not fill whole tiles, and whose dimensions above the tile are in logical order.
"""

CANDIDATES = {
    ("contraction", "lhs"): ("batch", "M", "K"), ("contraction", "rhs"): ("batch", "N", "K"), ("contraction", "result"): ("batch", "M", "N"),
    ("convolution", "lhs"): ("batch", "input channel", "spatial"), ("convolution", "rhs"): ("input channel", "output channel", "window"),
    ("convolution", "result"): ("batch", "output channel", "spatial"),
    ("depthwise convolution", "lhs"): ("batch", "input channel", "spatial"),
    ("depthwise convolution", "result"): ("batch", "output channel", "spatial"),
    ("reduce", "operand"): ("kept", "reduced"), ("reduce", "result"): ("kept from lanes", "kept from rows", "kept from grid"),
    ("reduce-window", "operand"): ("kept", "reduced", "spatial"),
    ("gather", "operand"): ("gathered", "kept"), ("gather", "indices"): ("gathered", "index vector"), ("gather", "result"): ("gathered", "kept"),
    ("concatenate", "operand"): ("concatenated", "kept"), ("concatenate", "result"): ("concatenated", "kept"),
    ("slice", "operand"): ("sliced", "kept"), ("slice", "result"): ("sliced", "kept"),
    ("pad", "operand"): ("padded", "kept"), ("pad", "result"): ("padded", "kept"),
}
SELDOM_NAMED = {"elementwise", "transcendental", "select", "constant", "parameter", "root", "prefetch"}


def nothing(comp, i):
    """True if an instruction inside of a fusion forwards its operand: the same elements in the same places."""
    return i.op in ("bitcast", "convert", "bitcast-convert") or i.op in ("copy", "transpose", "reshape") and not hlo.moves(comp, i)


class Walk:
    """A walk over the stored values of one module and the ports that they reach."""

    def __init__(self, module):
        self.module, self.seen = module, set()

    def values(self):
        """(computation, number of runs, instruction, element of its tuple or None, array) for each stored value."""
        for comp, times in self.module.scopes():
            for i in comp.instrs.values():
                if i.op in ("bitcast", "get-tuple-element", "tuple", "copy-start", "slice-start", "while", "call", "conditional", "after-all"):
                    if i.op != "get-tuple-element" or comp.instrs[i.operands[0]].op not in ("parameter", "while", "call", "conditional"):
                        continue
                for k, s in enumerate(i.shapes):
                    if s and s.elements() > 1 and (not i.tuple or i.op in ("fusion", "sort", "reduce")):
                        yield comp, times, i, k if i.tuple else None, s

    def inside(self, comp, name, callers=()):
        """(computation, instruction, operand index) for the operations of a fusion that read one of its values.  `callers` are the fusions
        around that of `comp`, innermost last, each with its computation: the root of a nested fusion is followed in its caller."""
        if callers and comp.instrs[name].root:
            yield from self.inside(callers[-1][0], callers[-1][1].name, callers[:-1])
        for i, k in comp.users[name]:
            if i.op == "fusion":
                inner = self.module.comps[i.called()]
                if k in inner.params:
                    yield from self.inside(inner, inner.params[k], callers + ((comp, i),))
            elif nothing(comp, i):
                yield from self.inside(comp, i.name, callers)
            elif i.op != "tuple":
                yield comp, i, k

    def readers(self, comp, name, element=None):
        """As [`inside`] for a stored value. Views of it are followed; the root of the entry is a reader of its own kind (None)."""
        if element is not None:
            for i, _ in comp.users[name]:
                if i.op == "get-tuple-element" and i.index() == element:
                    yield from self.readers(comp, i.name)
            return
        if comp.instrs[name].root and comp is self.module.entry:
            yield comp, None, 0
        for i, k in comp.users[name]:
            if i.op == "bitcast":
                yield from self.readers(comp, i.name)
            elif i.op == "fusion":
                inner = self.module.comps[i.called()]
                if k in inner.params:
                    yield from self.inside(inner, inner.params[k])
            elif i.op == "tuple":
                if i.root and comp is self.module.entry:
                    yield comp, None, 0
            elif i.op not in ("while", "get-tuple-element"):
                yield comp, i, k

    def maker(self, comp, i, element):
        """(computation, instruction) that makes a stored value; (computation, None) if a fusion only forwards an operand."""
        inner = comp
        while True:
            if i is None or inner is not comp and i.op == "parameter":
                return inner, None
            if i.op == "fusion":
                inner = self.module.comps[i.called()]
                i = inner.root
                if element is not None and i.op == "tuple":
                    i, element = inner.instrs.get(i.operands[element]), None
            elif inner is not comp and nothing(inner, i):
                i = inner.instrs.get(i.operands[0])
            elif i.op == "get-tuple-element" and inner is not comp:
                i, element = inner.instrs.get(i.operands[0]), i.index()
            else:
                return inner, i

    def fused(self):
        """The computations of fusions that run, including nested ones, with the number of runs."""
        todo = [(comp, times, False) for comp, times in self.module.scopes()]
        while todo:
            comp, times, within = todo.pop()
            if within:
                yield comp, times
            for i in comp.instrs.values():
                if i.op == "fusion":
                    todo.append((self.module.comps[i.called()], times, True))


class Row:
    def __init__(self):
        self.count = self.bytes = self.lanes = self.rows = self.logical = 0
        self.tiles = collections.Counter()
        self.modules = set()


class Census:
    def __init__(self, accepted=None):
        self.accepted = accepted
        self.rows, self.fused = collections.defaultdict(Row), collections.defaultdict(Row)
        self.formats, self.values, self.modules = collections.Counter(), 0, []
        self.joint = collections.defaultdict(Row)

    def add(self, table, name, op, port, seen, roles, stored, times):
        """Adds one port: `seen` is the array as the operation has it, `stored` the array in memory."""
        if seen is None or seen.elements() <= 1:
            return
        if self.accepted and table is self.rows:
            self.accepted.add(op, port, seen, roles, stored, times)
        lanes, rows = seen.lanes(), seen.rows()

        def role(d):
            return "none" if d is None else "unit" if seen.dims[d] == 1 else roles[d]

        key = (op, port, stored.bits, role(lanes), "same" if rows is not None and rows == lanes else role(rows))
        r = table[key]
        r.count += times
        r.bytes += times * stored.bytes()
        r.lanes += times * stored.lanes_padded()
        r.rows += times * stored.rows_padded()
        r.logical += times * (stored.grid() == sorted(stored.grid()))
        r.tiles[stored.tile_text()] += times
        r.modules.add(name)

    def together(self, name, comp, i, times):
        """Adds the three ports of one contraction or convolution together."""
        op, operands, (_, roles) = hlo.ports(comp, i)
        if len(operands) != 2 or {p for p, _ in operands.values()} != {"lhs", "rhs"}:
            return
        sides = [(comp.operand(i, k).shape, r) for k, (_, r) in sorted(operands.items())] + [(i.shape, roles)]
        if any(s.elements() <= 1 for s, _ in sides):
            return

        def text(s, r):
            return " / ".join("none" if d is None else "unit" if s.dims[d] == 1 else r[d] for d in (s.lanes(), s.rows()))

        row = self.joint[(op,) + tuple(text(s, r) for s, r in sides)]
        row.count += times
        row.bytes += times * sum(s.bytes() for s, _ in sides)
        row.modules.add(name)

    def module(self, name, text):
        module = hlo.Module(text)
        walk = Walk(module)
        self.modules.append(name)
        ends = {}
        for comp, times, i, element, s in walk.values():
            self.values += times
            self.formats[s.bits, s.dims, s.order, s.tiles] += times
            inner, made = walk.maker(comp, i, element)
            if made is not None and made.op not in ("get-tuple-element", "while"):
                op, _, (port, roles) = hlo.ports(inner, made)
                seen = made.shape or made.shapes[element if element is not None and element < len(made.shapes) else 0]
                self.add(self.rows, name, op, port, seen, roles, s, times)
                walk.seen.add((inner.name, made.name, "result"))
                ends.setdefault((inner.name, made.name), [op, times, seen, []])[2] = seen
            for inner, reader, k in walk.readers(comp, i.name, element):
                if reader is None:
                    self.add(self.rows, name, "root", "operand", s, ["none"] * len(s.dims), s, times)
                    continue
                op, operands, _ = hlo.ports(inner, reader)
                if k in operands:
                    of = inner.operand(reader, k)
                    self.add(self.rows, name, op, operands[k][0], of.shape, operands[k][1], s, times)
                    walk.seen.add((inner.name, reader.name, k))
                    ends.setdefault((inner.name, reader.name), [op, times, None, []])[3].append((operands[k][0], of.shape))
        for op, times, result, operands in ends.values():
            for port, operand in operands:
                if self.accepted and result and operand and port == "operand":
                    self.accepted.together(op, operand, result, times)
        for comp, times in module.scopes():
            for i in comp.instrs.values():
                if i.op in ("convolution", "dot"):
                    self.together(name, comp, i, times)
        for comp, times in walk.fused():
            for i in comp.instrs.values():
                if i.op in ("parameter", "constant", "fusion", "tuple", "get-tuple-element", "broadcast", "iota") or i.op in hlo.ELEMENTWISE \
                        or nothing(comp, i) or not i.shapes[0]:
                    continue
                if i.op in ("convolution", "dot"):
                    self.together(name, comp, i, times)
                op, operands, (port, roles) = hlo.ports(comp, i)
                for k, (name_of, of_roles) in operands.items():
                    of = comp.operand(i, k)
                    if (comp.name, i.name, k) not in walk.seen and of and of.shape:
                        self.add(self.fused, name, op, name_of, of.shape, of_roles, of.shape, times)
                if (comp.name, i.name, "result") not in walk.seen:
                    self.add(self.fused, name, op, port, i.shapes[0], roles, i.shapes[0], times)


def table(rows):
    out = ["| operation | port | bits | lanes | rows | count | MB | share | lanes padded | rows padded | grid logical | tiles | modules |",
           "|---|---|---|---|---|---|---|---|---|---|---|---|---|"]
    total = collections.Counter()
    for (op, port, *_), r in rows.items():
        total[op, port] += r.bytes
    for key, r in sorted(rows.items(), key=lambda kr: (kr[0][:2], -kr[1].bytes, kr[0])):
        tiles = " ".join(f"`{t}`" for t, _ in r.tiles.most_common(2)) + (" …" if len(r.tiles) > 2 else "")
        out.append("| " + " | ".join(map(str, key)) + f" | {r.count} | {r.bytes / 1e6:.3f} | {share(r.bytes, total[key[:2]])} | {share(r.lanes, r.count)} | "
                   f"{share(r.rows, r.count)} | {share(r.logical, r.count)} | {tiles} | {len(r.modules)} |")
    return out


def share(part, whole):
    return f"{100 * part / whole:.0f} %" if whole else "0 %"


def together(census):
    out = ["| operation | lhs | rhs | result | count | MB | modules |", "|---|---|---|---|---|---|---|"]
    for key, r in sorted(census.joint.items(), key=lambda kr: (kr[0][0], -kr[1].count, kr[0])):
        out.append("| " + " | ".join(key) + f" | {r.count} | {r.bytes / 1e6:.3f} | {len(r.modules)} |")
    return out


def never(census):
    """Pairs of roles that no port has: never in memory, and those that are never inside of fusions either."""
    out = ["| operation | port | never stored, but inside of a fusion (lanes / rows) | never at all (lanes / rows) |", "|---|---|---|---|"]
    for (op, port), roles in CANDIDATES.items():
        stored = {k[3:] for k in census.rows if k[:2] == (op, port)}
        fused = {k[3:] for k in census.fused if k[:2] == (op, port)}
        pairs = [(a, b) for a in roles for b in roles]
        inner = [f"{a} / {b}" for a, b in pairs if (a, b) not in stored and (a, b) in fused]
        gone = [f"{a} / {b}" for a, b in pairs if (a, b) not in stored and (a, b) not in fused]
        out.append(f"| {op} | {port} | {', '.join(inner) or 'none'} | {', '.join(gone) or 'none'} |")
    return out


def power(n):
    return 1 << max(0, math.ceil(math.log2(n)))


def format_rule(bits, dims, order):
    """The tile predicted from the width and the extents."""
    pack = 32 // bits
    if len(dims) == 0:
        return ((128 * pack,),)
    if len(dims) == 1:
        run = min(1024, max(128 * pack, power(dims[0])))
        return ((run,),) if pack == 1 else ((run,), (128,), (pack, 1))
    rows = min(8, max(pack, power(dims[order[1]])))
    return ((rows, 128),) if pack == 1 else ((rows, 128), (pack, 1))


def rank_class(dims, order):
    """A word for the property that determines the tile: the rank if it is small, else the extent in rows."""
    if len(dims) < 2:
        return f"rank {len(dims)}, " + ("" if not dims else "up to 128" if dims[0] <= 128 else "up to 256" if dims[0] <= 256 else "up to 512" if dims[0] <= 512 else "above 512")
    n = dims[order[1]]
    return "rows " + ("1" if n == 1 else "2" if n == 2 else "3 or 4" if n <= 4 else "5 to 8" if n <= 8 else "above 8")


def formats(census):
    found, wrong, misses = collections.Counter(), collections.Counter(), collections.Counter()
    for (bits, dims, order, tiles), n in census.formats.items():
        key = (bits, rank_class(dims, order), tiles)
        found[key] += n
        if bits <= 32 and format_rule(bits, dims, order) != tiles:
            wrong[key] += n
            misses[bits, dims, order, tiles] += n
    out = ["| bits | class | tile | count | rule fails |", "|---|---|---|---|---|"]
    for key, n in sorted(found.items(), key=lambda kn: (kn[0][0], kn[0][1], -kn[1])):
        text = "".join("(%s)" % ",".join(map(str, t)) for t in key[2]) or "none"
        out.append(f"| {key[0]} | {key[1]} | `{text}` | {n} | {wrong[key]} |")
    out += ["", f"The rule fails for {sum(wrong.values())} of {sum(found.values())} stored values."]
    if misses:
        out += ["The most frequent failures:", ""]
        for (bits, dims, order, tiles), n in misses.most_common(12):
            text = "".join("(%s)" % ",".join(map(str, t)) for t in tiles) or "none"
            out.append(f"- {n} of {bits} bits, `[{','.join(map(str, dims))}]{{{','.join(map(str, order))}}}`: `{text}`")
    return out


def document(census, target=None):
    out = [HEAD.format(modules=len(census.modules), names=", ".join(census.modules), values=census.values), "## Stored values", ""]
    out += table(census.rows)
    if target:
        out += ["", "## What the rows take", ""]
        out += census.accepted.document(target.stem)
    out += ["", "## Inside of fusions", "",
            "Ports of the same modules that no stored value reaches: operands that an operation inside of a fusion reads from another one, and results",
            "that it passes to another one. Element-wise operations and broadcasts are left out. Bytes are those of the array in the fusion.", ""]
    out += table(census.fused)
    out += ["", "## Ports together", "",
            "The three ports of each contraction and convolution together (lanes / rows), with the operation's roles, stored or inside of a fusion.", ""]
    out += together(census)
    out += ["", "## Never seen", "", "Pairs of roles in lanes and rows that no port of these modules has. Pairs with `unit`, `same` or `none` are not listed.", ""]
    out += never(census)
    out += ["", "## Formats", "",
            "The rule for the tile, with p = 32 / bits: rank 0 has `(128 p)`. Rank 1 has runs of the next power of two of its extent, at least 128 p and at",
            "most 1024. Rank 2 and more have 128 lanes, and rows of the next power of two of the extent in rows, at least p and at most 8. If p > 1, the",
            "tile `(p,1)` packs inside, after `(128)` for rank 1.", ""]
    out += formats(census)
    return "\n".join(out) + "\n"


def main():
    args = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    args.add_argument("folder", type=pathlib.Path)
    args.add_argument("--target", type=pathlib.Path, help="a target file whose rows are asked about the stored ports")
    args.add_argument("--json", type=pathlib.Path, help="write the rows here too, with all their tiles and modules")
    args = args.parse_args()
    census = Census(rows.Accepted(rows.read(args.target)) if args.target else None)
    for path in sorted(args.folder.glob("*.hlo")):
        census.module(path.stem, path.read_text())
    if not census.modules:
        sys.exit(f"no .hlo files in {args.folder}")
    if args.json:
        names = ("operation", "port", "bits", "lanes", "rows")
        table = [dict(zip(names, key), stored=stored, count=r.count, bytes=r.bytes, lanes_padded=r.lanes, rows_padded=r.rows, grid_logical=r.logical,
                     tiles=dict(r.tiles), modules=sorted(r.modules))
                for stored, of in ((True, census.rows), (False, census.fused)) for key, r in sorted(of.items())]
        args.json.write_text(json.dumps(table, indent=1) + "\n")
    sys.stdout.write(document(census, args.target))


if __name__ == "__main__":
    main()
