"""The share of the stored ports of XLA:TPU's modules that the rows of a target file accept.

A port is checked alone: some alternative of its operation's row must have the roles of its lanes and rows, as in
`check/src/tiles.rs`. If an alternative has one order at all ports, the stored operands and results of an operation are checked together.
"""
import collections
import tomllib

FAMILIES = {
    "contraction": "matmul", "convolution": "conv", "depthwise convolution": "conv", "grouped convolution": "conv", "reduce": "reduce",
    "reduce-window": "pool", "gather": "gather", "scatter": "gather", "concatenate": "concat", "slice": "slice", "dynamic-slice": "slice",
    "dynamic-update-slice": "slice", "pad": "slice", "broadcast": "broadcast", "elementwise": "elementwise", "transcendental": "elementwise",
    "select": "elementwise",
}
"""The family whose row applies to an operation of the census. An operation that is missing here moves, is an input or output, or has no row."""

NAMED = {"batch": "batch", "M": "m", "N": "n", "K": "k", "input channel": "input", "output channel": "output", "spatial": "spatial", "window": "tap",
         "reduced": "axis", "gathered": "axis", "concatenated": "axis", "sliced": "axis", "padded": "axis", "elementwise": "parallel", "kept": "parallel",
         "broadcast": "parallel"}
PORTS = {"lhs": "left", "rhs": "right", "operand": "left", "indices": "right", "result": "result"}
CHANNELS = ("input", "output", "channel")


def role(op, port, name):
    """A role of the census in the words of rows."""
    if op == "depthwise convolution" and name in ("input channel", "output channel"):
        return "channel"
    if op == "reduce-window":
        return {"kept": "channel", "reduced": "spatial"}.get(name, name)
    # The positions of an index are ordinary dimensions of the result.
    if op in ("gather", "scatter") and port in ("indices", "result"):
        return "parallel"
    if op == "reduce" and port == "result":
        return "parallel"
    return NAMED.get(name, "parallel")


def kind(name):
    return "spatial" if name == "batch" else name


def covers(listed, name):
    return listed is None or any(r == name or r == "channel" and name in CHANNELS for r in listed)


def read(path):
    """The rows of a target file by family."""
    rows = {}
    for row in tomllib.loads(path.read_text()).get("rows", []):
        for family in row["families"]:
            rows[family] = row
    return rows


def takes(alternative, op, port, seen, roles):
    """None if an alternative accepts the lanes and rows of a port, else the reason, in words."""
    when = alternative.get("when")
    other = {"depthwise": op != "depthwise convolution", "mixing": op == "depthwise convolution", "untiled": True, "pointwise": True}
    if "refused" in alternative or "price" in alternative or other.get(when, False):
        return "no alternative is for it"
    own = alternative.get(PORTS.get(port, ""), {})
    listed = [own.get(place, alternative.get(place)) for place in ("lanes", "rows")]
    named = [role(op, port, r) for r in roles]
    lanes, rows = seen.lanes(), seen.rows()
    found = [None if d is None or seen.dims[d] == 1 else named[d] for d in (lanes, rows if rows != lanes else None)]
    for place, name, of in zip(("lanes", "rows"), found, listed):
        if name is not None and not covers(of, name):
            return f"`{name}` in the {place}"
    if alternative.get("distinct"):
        there = [kind(f) for f in found if f is not None]
        if len(there) == 2 and there[0] == there[1]:
            return f"`{there[0]}` in lanes and rows"
        could = {kind(n) for d, n in enumerate(named) if seen.dims[d] > 1 and any(covers(of, n) for of in listed)}
        if len(there) < min(len(could), 2) and rows != lanes:
            return "one role in its tile, and could have two"
    return None


class Accepted:
    """The ports that rows accept, by operation and port."""

    def __init__(self, rows):
        self.rows = rows
        self.ports = collections.defaultdict(lambda: [0, 0, 0, 0])
        self.why, self.left = collections.Counter(), collections.Counter()
        self.pairs = collections.defaultdict(lambda: [0, 0])

    def add(self, op, port, seen, roles, stored, times):
        row = self.rows.get(FAMILIES.get(op))
        if row is None:
            self.left[op] += times
            return
        faults = [takes(a, op, port, seen, roles) for a in row["take"]]
        good = None in faults
        at = self.ports[op, port]
        at[0] += times
        at[1] += times * good
        at[2] += times * stored.bytes()
        at[3] += times * good * stored.bytes()
        if not good:
            why = [f for f in faults if f != "no alternative is for it"]
            self.why[op, port, (why or faults)[0]] += times

    def together(self, op, operand, result, times):
        """Checks a stored operand and the stored result of an operation that takes one order of dimensions."""
        row = self.rows.get(FAMILIES.get(op))
        if row is None or len(operand.dims) != len(result.dims) or not any(a.get("share") == "all" for a in row["take"]):
            return

        def order(s):
            return [d for d in s.order if operand.dims[d] > 1 and result.dims[d] > 1]

        at = self.pairs[op]
        at[0] += times
        at[1] += times * (order(operand) == order(result))

    def document(self, name):
        count, good, size, taken = (sum(at[k] for at in self.ports.values()) for k in range(4))
        out = [f"The rows of `{name}` take {good} of {count} stored ports, {percent(good, count)}, and {taken / 1e6:.1f} of {size / 1e6:.1f} MB, {percent(taken, size)}. "
               "Each port is checked alone,",
               "against the row of its family: some alternative must have the roles of its lanes and rows at that port.", "",
               "| operation | port | family | ports | taken | share | MB | taken MB | share |", "|---|---|---|---|---|---|---|---|---|"]
        for (op, port), (n, ok, whole, part) in sorted(self.ports.items()):
            out.append(f"| {op} | {port} | {FAMILIES[op]} | {n} | {ok} | {percent(ok, n)} | {whole / 1e6:.3f} | {part / 1e6:.3f} | {percent(part, whole)} |")
        out += ["", "Ports that no alternative takes:", ""]
        out += [f"- {n} of {op}, {port}: {why}" for (op, port, why), n in sorted(self.why.items(), key=lambda w: (-w[1], w[0]))] or ["- nothing"]
        out += ["", "Some rows have one order at all ports. The pairs are a stored operand and the stored result of one operation, dimensions of one element left out:", "",
                "| operation | pairs | in one order | share |", "|---|---|---|---|"]
        out += [f"| {op} | {n} | {ok} | {percent(ok, n)} |" for op, (n, ok) in sorted(self.pairs.items())]
        left = ", ".join(f"{op} ({n})" for op, n in sorted(self.left.items()))
        out += ["", f"No row is checked for operations that move, for inputs and outputs, and for barriers: {left}."]
        return out


def percent(part, whole):
    return f"{100 * part / whole:.2f} %" if whole else "none"
