"""A reader of HLO text for its layouts: shapes with tiles, their bytes and offsets, computations, trip counts, roles of dimensions.

It has only what `census.py` and `relayout.py` need; every instruction is taken as printed, and nothing is verified.
"""
import collections
import functools
import itertools
import math
import random
import re

BITS = {"pred": 8, "s2": 8, "u2": 8, "s4": 4, "u4": 4, "s8": 8, "u8": 8, "s16": 16, "u16": 16, "bf16": 16, "f16": 16, "s32": 32, "u32": 32,
        "f32": 32, "s64": 64, "u64": 64, "f64": 64, "c64": 64, "c128": 128}
ARRAY = re.compile(r"(\w+)\[([\d,<=]*)\](?:\{([^}]*)\})?")
HEADER = re.compile(r"^(ENTRY )?%?([\w.\-]+) (?:\(.*\) -> .*)?\{\s*$")
START = re.compile(r"\s+(ROOT )?%?([\w.\-]+) = ")

TRANSCENDENTAL = {"exponential", "exponential-minus-one", "log", "log-plus-one", "logistic", "tanh", "tan", "sine", "cosine", "rsqrt", "sqrt",
                  "cbrt", "power", "erf", "atan2"}
ARITHMETIC = {"add", "subtract", "multiply", "divide", "remainder", "maximum", "minimum", "abs", "negate", "sign", "floor", "ceil", "clamp",
              "round-nearest-afz", "round-nearest-even", "real", "imag", "complex", "is-finite", "reduce-precision", "and", "or", "xor", "not",
              "shift-left", "shift-right-logical", "shift-right-arithmetic", "compare", "convert", "bitcast-convert", "map", "popcnt",
              "count-leading-zeros", "stochastic-convert"}
ELEMENTWISE = TRANSCENDENTAL | ARITHMETIC | {"select"}


class Shape(collections.namedtuple("Shape", "dtype dims order tiles bits")):
    """An array: its order of dimensions from minor to major, and its tiles from outer to inner."""
    __slots__ = ()

    def elements(self):
        return math.prod(self.dims)

    def extents(self):
        """The extents in memory from major to minor. Each tile rounds up the dimensions that it cuts; an inner tile cuts those of the outer one."""
        places = [self.dims[i] for i in reversed(self.order)]
        for tile in self.tiles:
            while len(places) < len(tile):
                places.insert(0, 1)
            head, tail = places[:len(places) - len(tile)], places[len(places) - len(tile):]
            places = head + [-(-n // t) for n, t in zip(tail, tile)] + list(tile)
        return places

    def bytes(self):
        return math.prod(self.extents()) * self.bits // 8

    def logical_bytes(self):
        return self.elements() * self.bits // 8

    def padding(self):
        return self.bytes() - self.logical_bytes()

    def offset(self, index):
        """The position in memory of the element with a logical index, in elements."""
        places = [index[i] for i in reversed(self.order)]
        sizes = [self.dims[i] for i in reversed(self.order)]
        for tile in self.tiles:
            while len(places) < len(tile):
                places.insert(0, 0)
                sizes.insert(0, 1)
            k = len(places) - len(tile)
            places = places[:k] + [p // t for p, t in zip(places[k:], tile)] + [p % t for p, t in zip(places[k:], tile)]
            sizes = sizes[:k] + [-(-n // t) for n, t in zip(sizes[k:], tile)] + list(tile)
        at = 0
        for place, size in zip(places, sizes):
            at = at * size + place
        return at

    def lanes(self):
        """The dimension in lanes, None for a scalar."""
        return self.order[0] if self.order else None

    def rows(self):
        """The dimension in rows; None if there is none.  A one-dimensional tile puts its only dimension into rows and lanes."""
        if self.tiles and len(self.tiles[0]) == 1:
            return self.order[0] if self.order and self.dims[self.order[0]] > 128 else None
        return self.order[1] if len(self.order) > 1 else None

    def tile_text(self):
        return "".join("(%s)" % ",".join(map(str, t)) for t in self.tiles) or "none"

    def lanes_padded(self):
        return bool(self.tiles and self.order) and self.dims[self.order[0]] % self.tiles[0][-1] != 0

    def rows_padded(self):
        if not self.tiles or len(self.tiles[0]) < 2:
            return False
        return (self.dims[self.order[1]] if len(self.order) > 1 else 1) % self.tiles[0][-2] != 0

    def grid(self):
        """The dimensions above the tile from major to minor, without those of extent 1."""
        inside = len(self.tiles[0]) if self.tiles else 2
        return [i for i in reversed(self.order[inside:]) if self.dims[i] > 1]

    def in_layout(self, dims):
        """An array with these dimensions and the same layout."""
        return self._replace(dims=tuple(dims))


@functools.lru_cache(maxsize=None)
def shape(text):
    """The array in a type's text, or None."""
    m = ARRAY.match(text)
    if not m or m.group(1) not in BITS and not m.group(1).startswith("f8"):
        return None
    dims = tuple(int(x.lstrip("<=")) for x in m.group(2).split(",")) if m.group(2) else ()
    order, _, rest = (m.group(3) or "").partition(":")
    minor = tuple(int(x) for x in order.split(",")) if order.strip() else tuple(reversed(range(len(dims))))
    tiles = re.match(r"T((?:\([\d,]+\))+)", rest)
    tiles = tuple(tuple(int(x) for x in t.split(",")) for t in re.findall(r"\(([\d,]+)\)", tiles.group(1))) if tiles else ()
    width = re.search(r"E\((\d+)\)", rest)
    return Shape(m.group(1), dims, minor, tiles, int(width.group(1)) if width else BITS.get(m.group(1), 8))


def split(text):
    """The parts between commas outside of brackets."""
    parts, depth, start = [], 0, 0
    for i, c in enumerate(text):
        if c in "([{":
            depth += 1
        elif c in ")]}":
            depth -= 1
        elif c == "," and depth == 0:
            parts.append(text[start:i])
            start = i + 1
    parts.append(text[start:])
    return [re.sub(r"/\*.*?\*/", "", p).strip() for p in parts if p.strip()]


def closing(text, at):
    """The position of the bracket that closes the one at `at`."""
    depth = 0
    for i in range(at, len(text)):
        if text[i] == "(":
            depth += 1
        elif text[i] == ")":
            depth -= 1
            if depth == 0:
                return i
    return len(text)


class Instr:
    """One instruction; `shapes` has one entry for an array, and one for each element of a tuple."""

    def __init__(self, name, kind, op, operands, inside, attrs, root):
        self.name, self.op, self.operands, self.inside, self.attrs, self.root = name, op, operands, inside, attrs, root
        self.tuple = kind.startswith("(")
        self.shapes = [shape(p) for p in split(kind[1:-1])] if self.tuple else [shape(kind)]

    @property
    def shape(self):
        return None if self.tuple else self.shapes[0]

    def numbers(self, attr):
        m = re.search(r"\b%s=\{([\d,]*)\}" % attr, self.attrs)
        return tuple(int(x) for x in m.group(1).split(",")) if m and m.group(1) else ()

    def number(self, attr, default):
        m = re.search(r"\b%s=(\d+)" % attr, self.attrs)
        return int(m.group(1)) if m else default

    def called(self, attr="calls"):
        m = re.search(r"\b%s=%%?([\w.\-]+)" % attr, self.attrs)
        return m.group(1) if m else None

    def index(self):
        return self.number("index", 0)


class Computation:
    def __init__(self, name):
        self.name, self.instrs, self.root, self.params = name, {}, None, {}

    @functools.cached_property
    def users(self):
        found = collections.defaultdict(list)
        for i in self.instrs.values():
            for k, o in enumerate(i.operands):
                found[o].append((i, k))
        return found

    def operand(self, instr, k):
        return self.instrs.get(instr.operands[k]) if k < len(instr.operands) else None


class Module:
    def __init__(self, text):
        self.comps, self.entry = {}, None
        comp = None
        for line in text.splitlines():
            if comp is None:
                m = HEADER.match(line)
                if m:
                    comp = self.comps[m.group(2)] = Computation(m.group(2))
                    if m.group(1):
                        self.entry = comp
            elif line.startswith("}"):
                comp = None
            elif m := START.match(line):
                self.read(comp, line[m.end():], m.group(2), bool(m.group(1)))
        if self.entry is None and self.comps:
            self.entry = list(self.comps.values())[-1]

    @staticmethod
    def read(comp, text, name, root):
        end = closing(text, 0) + 1 if text.startswith("(") else text.find(" ")
        kind, rest = text[:end], text[end:].lstrip()
        op, paren, _ = rest.partition("(")
        if not paren:
            return
        stop = closing(rest, len(op))
        inside = rest[len(op) + 1:stop]
        attrs = rest[stop + 1:]
        operands = [] if op in ("constant", "parameter", "iota") else [p.split()[-1].lstrip("%") for p in split(inside)]
        comp.instrs[name] = i = Instr(name, kind, op, operands, inside, attrs, root)
        if op == "parameter" and inside.isdigit():
            comp.params[int(inside)] = name
        if root:
            comp.root = i

    def reads_part(self, i):
        """True if a fusion or call only expresses that an operation reads a part of a value: a slice of its argument."""
        inner = self.comps.get(i.called("to_apply") if i.op == "call" else i.called())

        def given(name):
            j = inner.instrs.get(name)
            while j and j.op == "bitcast":
                j = inner.instrs.get(j.operands[0])
            return bool(j and j.op == "parameter")
        return bool(inner) and any(j.op == "slice" and given(j.operands[0]) for j in inner.instrs.values())

    def scopes(self):
        """The computations whose values are stored, with the number of runs: the entry and the bodies of loops."""
        out, todo = [], [(self.entry, 1)]
        while todo:
            comp, times = todo.pop()
            out.append((comp, times))
            for i in comp.instrs.values():
                if i.op == "while":
                    body = self.comps.get(i.called("body"))
                    if body:
                        todo.append((body, times * self.trips(comp, i)))
                elif i.op == "call" and self.comps.get(i.called("to_apply")) and not self.reads_part(i):
                    todo.append((self.comps[i.called("to_apply")], times))
        return out

    def constant(self, comp, name):
        """The integer value of an instruction, followed through copies."""
        while (i := comp.instrs.get(name)) and i.op in ("copy", "bitcast", "copy-done", "copy-start", "convert") and i.operands:
            name = i.operands[0]
        return int(i.inside) if i and i.op == "constant" and re.fullmatch(r"-?\d+", i.inside) else None

    def trips(self, comp, loop):
        """The trip count of a loop: as stated in the text, or the bound that its condition compares a counter with; 1 if neither is known."""
        m = re.search(r'known_trip_count"?[:=]\s*\{\s*"?n"?\s*:\s*"?(\d+)', loop.attrs)
        if m:
            return int(m.group(1))
        cond = self.comps.get(loop.called("condition"))
        test = cond.root if cond else None
        if not test:
            return 1
        inner, names = cond, list(test.operands)
        if test.op == "fusion" and (inner := self.comps.get(test.called())):
            params = {inner.params[k]: o for k, o in enumerate(names) if k in inner.params}
            test = inner.root
            names = [params.get(o, o) for o in test.operands]
        if test.op != "compare" or len(names) < 2:
            return 1
        bound = self.constant(cond, names[1])
        if bound is None:
            bound = self.constant(inner, names[1])
        counter = cond.instrs.get(names[0])
        while counter and counter.op in ("copy", "bitcast"):
            counter = cond.instrs.get(counter.operands[0])
        if bound is None or not counter or counter.op != "get-tuple-element":
            return 1
        init, at = comp.instrs.get(loop.operands[0]), counter.index()
        start = self.constant(comp, init.operands[at]) if init and init.op == "tuple" else None
        step = self.step(loop, at)
        span = bound - (start or 0) + (1 if re.search(r"direction=(LE|GE)", test.attrs) else 0)
        return max(1, -(-span // step))

    def step(self, loop, at):
        body = self.comps.get(loop.called("body"))
        new = body.instrs.get(body.root.operands[at]) if body and body.root and body.root.op == "tuple" else None
        while new and new.op in ("copy", "bitcast"):
            new = body.instrs.get(new.operands[0])
        if new and new.op == "add":
            for o in new.operands:
                if (n := self.constant(body, o)):
                    return n
        return 1


def sample(dims, at_most=600):
    """Indices of an array: all of a small one, else its corners, powers of two along each dimension and a fixed random sample."""
    if math.prod(dims) <= at_most:
        return list(itertools.product(*(range(n) for n in dims)))
    draw = random.Random(7)
    found = [tuple(0 for _ in dims), tuple(n - 1 for n in dims)]
    for i, n in enumerate(dims):
        k = 1
        while k < n:
            found.append(tuple(k if j == i else 0 for j in range(len(dims))))
            k *= 2
    return found + [tuple(draw.randrange(n) for n in dims) for _ in range(at_most // 2)]


def linear(dims, index):
    at = 0
    for n, i in zip(dims, index):
        at = at * n + i
    return at


def delinear(dims, at):
    index = []
    for n in reversed(dims):
        at, r = divmod(at, n)
        index.append(r)
    return tuple(reversed(index))


@functools.lru_cache(maxsize=None)
def is_view(of, to, perm=None):
    """True if every element of `of` is at the same place in memory as the same element of `to`.  `perm`: `to` is `of` transposed by it."""
    if of.bits != to.bits or of.dtype != to.dtype or of.elements() != to.elements():
        return False
    for index in sample(to.dims):
        if perm is not None:
            source = [0] * len(index)
            for k, p in enumerate(perm):
                source[p] = index[k]
        elif of.dims == to.dims:
            source = index
        else:
            source = delinear(of.dims, linear(to.dims, index))
        if of.offset(source) != to.offset(index):
            return False
    return True


def moves(comp, i):
    """True if a copy, transpose or reshape changes the positions of elements."""
    of = comp.operand(i, 0)
    if of is None or of.shape is None or i.shape is None:
        return False
    if i.op == "transpose":
        return not is_view(of.shape, i.shape, i.numbers("dimensions"))
    if i.op == "copy" and of.shape.dtype != i.shape.dtype:
        return not is_view(of.shape._replace(bits=32, dtype="f32"), i.shape._replace(bits=32, dtype="f32")) \
            and of.shape.order != i.shape.order
    return not is_view(of.shape, i.shape)


# Roles

def window(i, rank):
    """The size, stride, padding, dilations of operand and window, and reversal for each spatial dimension."""
    m = re.search(r"window=\{([^}]*)\}", i.attrs)
    words = dict(w.split("=") for w in m.group(1).split()) if m and m.group(1).strip() else {}

    def list_of(word, default):
        return words[word].split("x") if word in words else [default] * rank

    pads = [tuple(int(x) for x in p.split("_")) for p in list_of("pad", "0_0")]
    return [(int(a), int(b), p, int(c), int(d), int(e)) for a, b, p, c, d, e in
            zip(list_of("size", "1"), list_of("stride", "1"), pads, list_of("lhs_dilate", "1"), list_of("rhs_dilate", "1"),
                list_of("rhs_reversal", "0"))]


@functools.lru_cache(maxsize=None)
def spatial_role(length, out, dim):
    """The role of a convolution's spatial dimension in a contraction: unit, M, N, K or batch; window if it has none of these roles."""
    size, stride, (low, _), dilate, inner, reverse = dim
    if length == out == size == 1:
        return "unit"
    if size * out > 4_000_000:
        return "window"
    pairs = []
    for o in range(out):
        for k in range(size):
            at = o * stride + k * inner - low
            if at % dilate == 0 and 0 <= at // dilate < length:
                pairs.append((at // dilate, size - 1 - k if reverse else k, o))
    if size == 1 and length == out and all(p == (o, 0, o) for p, o in zip(pairs, range(out))):
        return "M"
    if out == 1 and length == size and sorted(pairs) == [(k, k, 0) for k in range(size)]:
        return "K"
    if length == 1 and size == out and sorted(pairs) == [(0, k, k) for k in range(size)]:
        return "N"
    if length == size == out and sorted(pairs) == [(k, k, k) for k in range(size)]:
        return "batch"
    return "window"


def convolution_roles(i, lhs, rhs, out):
    """(op, roles of the left operand, of the right operand, of the result)."""
    m = re.search(r"dim_labels=([\w?]+)_([\w?]+)->([\w?]+)", i.attrs)
    left, right, result = m.groups()
    rank = sum(c.isdigit() for c in left)
    dims = window(i, rank)
    kinds = [spatial_role(lhs.dims[left.index(str(k))], out.dims[result.index(str(k))], dims[k]) for k in range(rank)]
    groups = i.number("feature_group_count", 1) * i.number("batch_group_count", 1)
    if groups == 1 and "window" not in kinds:
        lower = {"b": "M", "f": "K", "i": "K", "o": "N"}

        def named(labels, last):
            return [(last if c == "f" else lower[c]) if c in "bfio" else kinds[int(c)] for c in labels]

        return "contraction", named(left, "K"), named(right, "K"), named(result, "N")
    names = {"b": "batch", "i": "input channel", "o": "output channel"}
    op = "convolution" if groups == 1 else "depthwise convolution" if groups == lhs.dims[left.index("f")] else "grouped convolution"
    return (op, [names.get(c, "input channel" if c == "f" else "spatial") for c in left],
            [names.get(c, "window") for c in right],
            [names.get(c, "output channel" if c == "f" else "spatial") for c in result])


def dot_roles(i, lhs, rhs):
    batch, other = i.numbers("lhs_batch_dims"), i.numbers("rhs_batch_dims")
    left = ["batch" if d in batch else "K" if d in i.numbers("lhs_contracting_dims") else "M" for d in range(len(lhs.dims))]
    right = ["batch" if d in other else "K" if d in i.numbers("rhs_contracting_dims") else "N" for d in range(len(rhs.dims))]
    return left, right, ["batch"] * len(batch) + [r for r in left if r == "M"] + [r for r in right if r == "N"]


def place_of(s, d):
    return "lanes" if d == s.lanes() else "rows" if d == s.rows() else "grid"


def reshape_roles(of, to):
    """The roles on both sides: a dimension is kept, merged into a larger one, split into smaller ones, or regrouped with adjacent ones."""
    def body(dims):
        return [d for d, n in enumerate(dims) if n > 1]

    a, b = body(of.dims), body(to.dims)
    left, right = ["kept"] * len(of.dims), ["kept"] * len(to.dims)
    x = y = 0
    while x < len(a) and y < len(b):
        ga, gb, p, q = [a[x]], [b[y]], of.dims[a[x]], to.dims[b[y]]
        while p != q:
            if p < q and x + len(ga) < len(a):
                ga.append(a[x + len(ga)])
                p *= of.dims[ga[-1]]
            elif y + len(gb) < len(b):
                gb.append(b[y + len(gb)])
                q *= to.dims[gb[-1]]
            else:
                break
        role = "kept" if len(ga) == len(gb) == 1 else "merged" if len(gb) == 1 else "split" if len(ga) == 1 else "regrouped"
        for d in ga:
            left[d] = role
        for d in gb:
            right[d] = role
        x, y = x + len(ga), y + len(gb)
    return left, right


def ports(comp, i):
    """(op, {operand index: (port, roles)}, (port, roles) of the result); roles name the dimensions of the arrays as the operation has them."""
    ops = [comp.operand(i, k) for k in range(len(i.operands))]
    shapes = [o.shape if o else None for o in ops]
    out = i.shape or i.shapes[0]

    def plain(role, n=None):
        return [role] * len((out if n is None else shapes[n]).dims) if (out if n is None else shapes[n]) else []

    def all_of(op, role):
        return op, {k: ("operand", plain(role, k)) for k, s in enumerate(shapes) if s}, ("result", plain(role))

    def marked(op, role, changed, port="operand", result=None):
        """Roles of operand 0 and the result: `role` if `changed` is true, else kept. The other operands are scalars."""
        roles = [role if c else "kept" for c in changed]
        return op, {0: (port, roles)}, ("result", result if result is not None else roles)

    if i.op == "convolution" and all(shapes[:2]) and "dim_labels" in i.attrs:
        op, left, right, result = convolution_roles(i, shapes[0], shapes[1], out)
        return op, {0: ("lhs", left), 1: ("rhs", right)}, ("result", result)
    if i.op == "dot" and all(shapes[:2]):
        left, right, result = dot_roles(i, shapes[0], shapes[1])
        return "contraction", {0: ("lhs", left), 1: ("rhs", right)}, ("result", result)
    if i.op == "select":
        return "select", {k: ("mask" if k == 0 else "operand", plain("elementwise", k)) for k, s in enumerate(shapes) if s}, \
            ("result", plain("elementwise"))
    if i.op in ELEMENTWISE:
        return all_of("transcendental" if i.op in TRANSCENDENTAL else "elementwise", "elementwise")
    if i.op == "broadcast":
        to = i.numbers("dimensions")
        return "broadcast", {0: ("operand", plain("kept", 0))}, ("result", ["kept" if d in to else "broadcast" for d in range(len(out.dims))])
    if i.op == "reduce" and shapes[0]:
        gone = i.numbers("dimensions")
        roles = ["reduced" if d in gone else "kept" for d in range(len(shapes[0].dims))]
        left = ["kept from " + place_of(shapes[0], d) for d in range(len(shapes[0].dims)) if d not in gone]
        arrays = len(shapes) // 2
        return "reduce", {k: ("operand", roles) for k in range(arrays) if shapes[k]}, ("result", left)
    if i.op == "reduce-window" and shapes[0]:
        dims = window(i, len(shapes[0].dims))
        roles = ["kept" if w[0] == 1 else "reduced" if w[0] == 2 * n - 1 and w[1] == 1 else "spatial" for w, n in zip(dims, shapes[0].dims)]
        return "reduce-window", {0: ("operand", roles)}, ("result", roles)
    if i.op == "concatenate":
        at = i.numbers("dimensions")
        roles = ["concatenated" if d in at else "kept" for d in range(len(out.dims))]
        return "concatenate", {k: ("operand", roles) for k in range(len(shapes))}, ("result", roles)
    if i.op in ("slice", "dynamic-slice") and shapes[0]:
        return marked(i.op, "sliced", [a != b for a, b in zip(shapes[0].dims, out.dims)])
    if i.op == "dynamic-update-slice" and shapes[1]:
        roles = ["sliced" if a != b else "kept" for a, b in zip(shapes[1].dims, out.dims)]
        return i.op, {0: ("operand", roles), 1: ("update", roles)}, ("result", roles)
    if i.op == "pad" and shapes[0]:
        return marked("pad", "padded", [a != b for a, b in zip(shapes[0].dims, out.dims)])
    if i.op == "gather" and all(shapes[:2]):
        found = set(i.numbers("start_index_map")) | set(i.numbers("operand_batching_dims"))
        vector, offsets = i.number("index_vector_dim", -1), i.numbers("offset_dims")
        return "gather", {0: ("operand", ["gathered" if d in found else "kept" for d in range(len(shapes[0].dims))]),
                          1: ("indices", ["index vector" if d == vector else "gathered" for d in range(len(shapes[1].dims))])}, \
            ("result", ["kept" if d in offsets else "gathered" for d in range(len(out.dims))])
    if i.op == "scatter" and len(shapes) == 3 and all(shapes):
        found, windows = set(i.numbers("scatter_dims_to_operand_dims")), i.numbers("update_window_dims")
        roles = ["gathered" if d in found else "kept" for d in range(len(shapes[0].dims))]
        return "scatter", {0: ("operand", roles), 1: ("indices", plain("gathered", 1)),
                           2: ("update", ["kept" if d in windows else "gathered" for d in range(len(shapes[2].dims))])}, ("result", roles)
    if i.op in ("copy", "transpose") and shapes[0]:
        perm = i.numbers("dimensions") if i.op == "transpose" else tuple(range(len(out.dims)))
        roles = [""] * len(perm)
        for k, p in enumerate(perm):
            roles[p] = "to " + place_of(out, k)
        return i.op, {0: ("operand", roles)}, ("result", ["from " + place_of(shapes[0], p) for p in perm])
    if i.op == "reshape" and shapes[0]:
        left, right = reshape_roles(shapes[0], out)
        return "reshape", {0: ("operand", left)}, ("result", right)
    if i.op == "iota":
        at = i.number("iota_dimension", 0)
        return "iota", {}, ("result", ["counted" if d == at else "broadcast" for d in range(len(out.dims))])
    if i.op == "sort":
        at = i.numbers("dimensions")
        return "sort", {k: ("operand", ["sorted" if d in at else "kept" for d in range(len(s.dims))]) for k, s in enumerate(shapes) if s}, \
            ("result", ["sorted" if d in at else "kept" for d in range(len(out.dims))])
    if i.op == "reverse":
        at = i.numbers("dimensions")
        return marked("reverse", "reversed", [d in at for d in range(len(out.dims))])
    if i.op in ("copy-start", "copy-done", "slice-start", "slice-done"):
        return all_of("prefetch", "kept")
    return all_of(i.op, "none")
