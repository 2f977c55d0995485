#!/usr/bin/env python3
"""The bytes that two compilers move between stored values only to change layouts, and the padding of their stored values.

usage: python relayout.py A.hlo B.hlo
       python relayout.py --folders DIR_A DIR_B        (modules of one name in both)
       python relayout.py --one A.hlo...

Counted in the entry computation, and in loop bodies times their trip counts, as bytes read plus written with tile padding:
copies, transposes and reshapes that change the position of some element; slices, pads, concatenates and reversals; and fusions
that only do such moves (including XLA's concatenation as the maximum of padded operands).  A slice reads the bytes that it writes.
Moves between memory spaces do not count.

`stem` is the part of these moves around a convolution whose window XLA split (space to batch): chains of moves that end at its data
operand or start at its result. It is not included in `relayout`.  Such a convolution has a window that is padded along one dimension
and not along another, or is preceded by a chain of moves that pads or slices, and splits. A chain ends at a move that the module
names after a rearranging source operation.

Padding is the physical minus the logical bytes of each stored value, counted once for its write and once if anything reads it.
Parameters and constants are only read; arrays of one element are left out.  `stem padding` is the part of it in results of moves in
stems.  In a module without fusions (except fusions and calls of a slice and its reader), some values are not stored: an element-wise
or broadcast value that only element-wise operations read, or a single reduction, contraction or convolution; and the result of a
contraction that a single element-wise operation reads.
"""
import argparse
import collections
import pathlib
import re
import sys

import hlo

VIEWS = {"bitcast", "get-tuple-element", "tuple", "copy-start", "copy-done", "slice-start", "slice-done", "after-all"}
CHEAP = {"parameter", "constant", "bitcast", "bitcast-convert", "convert", "broadcast", "iota", "compare", "and", "or", "not", "select", "tuple",
         "get-tuple-element"}
MOVERS = {"copy", "transpose", "reshape", "slice", "pad", "concatenate", "reverse"}
# The last words of the names of source operations that rearrange.
REARRANGES = {"transpose", "reshape", "slice", "concatenate", "split", "pad", "gather", "rev", "squeeze", "broadcast_in_dim"}
FUSIBLE = hlo.ELEMENTWISE | {"broadcast", "iota"}


def infinite(comp, name):
    """True if a value is minus infinity everywhere."""
    i = comp.instrs.get(name)
    while i and i.op in ("broadcast", "convert", "copy", "bitcast"):
        i = comp.instrs.get(i.operands[0])
    return bool(i and i.op == "constant" and i.inside == "-inf")


def part(comp, name):
    """True if a value is minus infinity outside of a part: an operand of a concatenation written as a maximum."""
    i = comp.instrs.get(name)
    while i and i.op in ("bitcast", "convert") and i.operands:
        i = comp.instrs.get(i.operands[0])
    if i is None:
        return False
    if i.op == "pad":
        return infinite(comp, i.operands[1])
    if i.op == "select":
        return any(infinite(comp, o) for o in i.operands[1:])
    return i.op == "maximum" and all(part(comp, o) for o in i.operands)


class Counter:
    def __init__(self, text):
        self.module = hlo.Module(text)
        self.made = collections.Counter()
        self.list = []
        self.fuses = any(i.op == "fusion" and not self.module.reads_part(i) for comp in self.module.comps.values() for i in comp.instrs.values())
        for comp, times in self.module.scopes():
            moved = {i.name: self.cost(comp, i) for i in comp.instrs.values()}
            moved = {n: c for n, c in moved.items() if c}
            stems = self.stems(comp, moved)
            for n, (kind, size) in moved.items():
                self.made["stem" if n in stems else "relayout"] += times * size
                self.made[kind] += times * (0 if n in stems else size)
                self.made["moves"] += times
                self.list.append((times * size, "stem" if n in stems else kind, comp.instrs[n]))
            self.padding(comp, times, stems)

    def kind(self, i):
        """The kind of operation of an instruction; for a fusion or call that reads a part, that of its root."""
        while not self.fuses and i.op in ("fusion", "call") and self.module.reads_part(i):
            inner = self.module.comps[i.called("to_apply") if i.op == "call" else i.called()]
            i = next(j for j in inner.instrs.values() if j.root)
        return i.op

    @staticmethod
    def view(comp, i):
        """True if an instruction makes no value of its own: another name, or the same bytes in another memory space."""
        return i.op in VIEWS or i.op == "custom-call" and '"ConcatBitcast"' in i.attrs \
            or i.op in ("copy", "transpose", "reshape") and (of := comp.operand(i, 0)) is not None and of.shape is not None \
            and of.shape.dtype == i.shape.dtype and not hlo.moves(comp, i)

    # Moves

    def cost(self, comp, i):
        """(kind, bytes read and written) of a move, or None."""
        of = comp.operand(i, 0)
        if i.op in ("copy", "transpose", "reshape"):
            if of is None or not of.shape or not hlo.moves(comp, i):
                return None
            return ("reshapes" if i.op == "reshape" else "copies"), of.shape.bytes() + i.shape.bytes()
        if i.op == "slice" and of and of.shape:
            return "slices", of.shape.in_layout(i.shape.dims).bytes() + i.shape.bytes()
        if i.op in ("pad", "reverse") and of and of.shape:
            return "slices", of.shape.bytes() + i.shape.bytes()
        if i.op == "concatenate":
            return "slices", sum(comp.operand(i, k).shape.bytes() for k in range(len(i.operands))) + i.shape.bytes()
        if (i.op == "fusion" or i.op == "call" and self.module.reads_part(i)) \
                and self.only_moves(inner := self.module.comps[i.called("to_apply" if i.op == "call" else "calls")]):
            read = sum(self.reads(inner, k, o) for k, n in enumerate(i.operands) if (o := comp.instrs.get(n)) and o.shape)
            return "fusions", read + sum(s.bytes() for s in i.shapes if s)
        return None

    def moves_within(self, comp):
        """True if a computation moves and does nothing else, False if it does nothing, None if it does more."""
        found = False
        for i in comp.instrs.values():
            if i.op == "fusion":
                inner = self.moves_within(self.module.comps[i.called()])
                if inner is None:
                    return None
                found |= inner
            elif i.op in ("copy", "transpose", "reshape"):
                found |= hlo.moves(comp, i)
            elif i.op in MOVERS:
                found = True
            elif i.op == "maximum":
                if not all(part(comp, o) for o in i.operands):
                    return None
            elif i.op not in CHEAP:
                return None
        return found

    def only_moves(self, comp):
        return bool(self.moves_within(comp))

    def reads(self, comp, k, outer):
        """The bytes that a fusion reads of an operand: only those of its slices, if nothing else reads it."""
        name = comp.params.get(k)
        if name is None:
            return 0
        whole, total, todo = outer.shape.bytes(), 0, [name]
        while todo:
            for i, _ in comp.users[todo.pop()]:
                if i.op in ("bitcast", "convert"):
                    todo.append(i.name)
                elif i.op == "slice":
                    total += comp.operand(i, 0).shape.in_layout(i.shape.dims).bytes()
                else:
                    return whole
        return min(whole, total)

    # Stems

    def convolutions(self, comp):
        """The names of instructions with a convolution that has a real window. For each, the numbers of the operands that its data comes
        from, and whether its window shows that XLA split it."""
        found = {}
        for i in comp.instrs.values():
            if i.op == "convolution" and (lhs := comp.operand(i, 0)) and lhs.shape:
                op, *_ = hlo.ports(comp, i)
                if op != "contraction":
                    found[i.name] = {0}, self.split_window(comp, i)
            elif i.op == "fusion":
                inner = self.module.comps[i.called()]
                for n, (places, split) in self.convolutions(inner).items():
                    data, before = found.get(i.name, (set(), False))
                    found[i.name] = data | {k for p in places for k in self.sources(inner, inner.instrs[n].operands[p])}, split or before
        return found

    @staticmethod
    def split_window(comp, i):
        """True if the window is padded along one spatial dimension but not along another one of equal size, which became batch."""
        lhs = comp.operand(i, 0)
        if not lhs or not lhs.shape or "dim_labels" not in i.attrs:
            return False
        rank = sum(c.isdigit() for c in i.attrs.split("dim_labels=")[1].split("_")[0])
        real = [w for w in hlo.window(i, rank) if w[0] > 1 and w[3] == 1 and not w[5]]
        return any(w[2] == (0, 0) and w[1] < w[0] for w in real) and any(sum(w[2]) for w in real)

    def sources(self, comp, name):
        """The parameters of a fusion on which the data operand of its convolution depends."""
        numbers = {n: k for k, n in comp.params.items()}
        found, todo, seen = set(), [name], set()
        while todo:
            n = todo.pop()
            if n in seen:
                continue
            seen.add(n)
            if n in numbers:
                found.add(numbers[n])
            elif n in comp.instrs:
                todo += comp.instrs[n].operands
        return found

    def stems(self, comp, moved):
        """The names of moves and views around convolutions that XLA split. The split is recognized by the window, or by a preceding chain
        of moves that pads or slices and splits a dimension."""
        found = set()
        for name, (places, split) in self.convolutions(comp).items():
            conv = comp.instrs[name]
            chain, ahead = set(), [conv.operands[p] for p in places if p < len(conv.operands)]
            while ahead:
                i = comp.instrs.get(ahead.pop())
                if i and i.name not in chain and self.of_stem(i, moved):
                    chain.add(i.name)
                    ahead += i.operands
            if not (split or any(comp.instrs[n].op in ("pad", "slice") for n in chain) and any(self.splits(comp, comp.instrs[n]) for n in chain)):
                continue
            ahead = [name]
            while ahead:
                for i, _ in comp.users[ahead.pop()]:
                    if i.name not in chain and self.of_stem(i, moved) and not i.root:
                        chain.add(i.name)
                        ahead.append(i.name)
            found |= chain
        return found

    @staticmethod
    def of_stem(i, moved):
        """True if a chain around a convolution continues at a move or view; it ends at a rearrangement of the model itself."""
        name = re.search(r'op_name="([^"]*)"', i.attrs)
        own = name and name.group(1).rsplit("/", 1)[-1] in REARRANGES
        return i.op in VIEWS or i.name in moved and not own

    @staticmethod
    def splits(comp, i):
        of = comp.operand(i, 0)
        return i.op in ("bitcast", "reshape") and bool(of and of.shape and i.shape and "split" in hlo.reshape_roles(of.shape, i.shape)[0])

    # Padding

    def padding(self, comp, times, stems):
        for i in comp.instrs.values():
            if self.view(comp, i) or i.op in ("while", "call", "conditional") and not (i.op == "call" and self.module.reads_part(i)):
                loop = comp.operand(i, 0) if i.op == "get-tuple-element" else None
                if not loop or loop.op not in ("parameter", "while", "call", "conditional"):
                    continue
            for k, s in enumerate(i.shapes):
                if s is None or s.elements() <= 1 or i.tuple and i.op not in ("fusion", "reduce", "sort") or not self.stored(comp, i):
                    continue
                written = i.op not in ("parameter", "constant", "get-tuple-element")
                n = times * s.padding() * (written + self.read(comp, i.name, k if i.tuple else None))
                self.made["stored"] += times
                self.made["padding"] += n
                self.made["stem padding"] += n if i.name in stems else 0

    def readers(self, comp, name, element=None):
        """The instructions that read a value, through views of it and moves between memory spaces."""
        for i, _ in comp.users[name]:
            if i.op == "get-tuple-element" and element is not None:
                if i.index() == element:
                    yield from self.readers(comp, i.name)
            elif self.view(comp, i):
                if i.op not in ("tuple", "get-tuple-element"):
                    yield from self.readers(comp, i.name)
            elif i.op != "while":
                yield i

    def read(self, comp, name, element):
        return next(self.readers(comp, name, element), None) is not None

    def stored(self, comp, i):
        """True if a value is in memory: every value in a module with fusions; else it depends on the maker and the readers."""
        op = self.kind(i)
        if self.fuses or i.root or op not in FUSIBLE | {"convolution", "dot"}:
            return True
        readers = list(self.readers(comp, i.name))
        if not readers or any(u.op == "tuple" for u, _ in comp.users[i.name]):
            return True
        if all(self.kind(r) in FUSIBLE for r in readers):
            return op not in FUSIBLE and len(readers) > 1
        return not (op in FUSIBLE and len(readers) == 1 and self.kind(readers[0]) in ("reduce", "dot", "convolution"))


def count(path):
    return Counter(path.read_text())


def mb(n):
    return f"{n / 1e6:.2f}"


def ratio(a, b):
    return f"{b / a:.2f}" if a else "-"


def compare(pairs):
    """A table of modules counted on both sides, and its totals."""
    out = ["| module | relayout A | relayout B | B / A | stem A | stem B | padding A | padding B | B / A | of it stem A | of it stem B |", "|---" * 11 + "|"]

    def line(name, a, b):
        out.append(f"| {name} | {mb(a['relayout'])} | {mb(b['relayout'])} | {ratio(a['relayout'], b['relayout'])} | {mb(a['stem'])} | {mb(b['stem'])} | "
                   f"{mb(a['padding'])} | {mb(b['padding'])} | {ratio(a['padding'], b['padding'])} | {mb(a['stem padding'])} | {mb(b['stem padding'])} |")

    totals = [collections.Counter() for _ in range(4)]
    for name, a, b in pairs:
        line(name, a.made, b.made)
        totals[0].update(a.made)
        totals[1].update(b.made)
        if name != "swin_t_b4":
            totals[2].update(a.made)
            totals[3].update(b.made)
    if len(pairs) > 1:
        line("total", *totals[:2])
        if len(pairs) != sum(name != "swin_t_b4" for name, *_ in pairs):
            line("total without swin_t_b4", *totals[2:])
    return out


def alone(counted):
    """A table of single modules, by kind of move."""
    kinds = ("relayout", "copies", "reshapes", "slices", "fusions", "stem", "padding", "stem padding", "moves")
    out = ["| module | " + " | ".join(kinds) + " |", "|---" * (len(kinds) + 1) + "|"]

    def line(name, made):
        out.append(f"| {name} | " + " | ".join(str(made[k]) if k == "moves" else mb(made[k]) for k in kinds) + " |")

    total, rest = collections.Counter(), collections.Counter()
    for name, c in counted:
        line(name, c.made)
        total.update(c.made)
        if name != "swin_t_b4":
            rest.update(c.made)
    if len(counted) > 1:
        line("total", total)
        if rest != total:
            line("total without swin_t_b4", rest)
    return out


def main():
    args = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    args.add_argument("paths", type=pathlib.Path, nargs="+")
    args.add_argument("--folders", action="store_true", help="the two paths are folders; modules of one name in both are compared")
    args.add_argument("--one", action="store_true", help="count each module alone")
    args.add_argument("--list", type=int, default=0, metavar="N", help="name the N largest moves of each module too")
    args = args.parse_args()
    if args.one:
        counted = [(p.stem, count(p)) for p in args.paths]
        lines, modules = alone(counted), counted
    else:
        if len(args.paths) != 2:
            sys.exit("two modules or two folders are compared")
        a, b = args.paths
        names = sorted({p.name for p in a.glob("*.hlo")} & {p.name for p in b.glob("*.hlo")}) if args.folders else [None]
        if not names:
            sys.exit("the folders have no module of one name")
        pairs = [(pathlib.Path(n or a).stem, count(a / n if n else a), count(b / n if n else b)) for n in names]
        lines, modules = compare(pairs), [m for n, x, y in pairs for m in ((n + " A", x), (n + " B", y))]
    print("MB read and written to change layouts, and MB of padding of stored values.\n")
    print("\n".join(lines))
    for name, c in modules if args.list else ():
        print(f"\n{name}")
        for size, kind, i in sorted(c.list, key=lambda m: -m[0])[:args.list]:
            print(f"  {mb(size):>9} {kind:9} {i.name}: {i.op}")


if __name__ == "__main__":
    main()
