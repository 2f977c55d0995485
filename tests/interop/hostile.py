#!/usr/bin/env python3
"""optc terminates in bounded time and memory, with a proper message, on harmful inputs.

usage: python hostile.py OPTC [NAME…]

Each case writes its files into a folder of its own and runs OPTC there with 10 s of processor time (or
OPTC_HOSTILE_SECONDS) and 1 GB of address space.  The command must succeed or refuse the input with a coded error:
status 0, 1 or 2, no signal, no defect of the compiler.  With NAMEs only cases whose names start with one of them run.
Needs only Python and Linux.
"""
import functools
import os
import pathlib
import re
import resource
import struct
import subprocess
import sys
import tempfile
import zlib

# For a quiet machine. OPTC_HOSTILE_SECONDS allows more on a machine of unknown speed; nonlinear cases take minutes.
SECONDS = int(os.environ.get("OPTC_HOSTILE_SECONDS", 10))
BYTES = 1 << 30
# A command that blocks, on a pipe that nothing opens, uses no processor time.
PATIENCE = 120

CASES = []


def case(name, *args, code=None, files=None, **options):
    """A command, its files (name -> contents, or a function that makes the file at a path), and the code of the wanted
    error. Without a code any proper end is accepted."""
    CASES.append((name, args, code, files or {}, options))


@functools.lru_cache(maxsize=2)
def content(make, args):
    made = make(*args)
    return made.encode() if isinstance(made, str) else made


def later(make, *args):
    """A file that is made on demand."""
    return lambda path: path.write_bytes(content(make, args))


# ---- programs ----

def func(name, body, result, arg="%x: tensor<2xf32>", of="tensor<2xf32>", kind=""):
    return f"func.func {kind}@{name}({arg}) -> {of} {{\n{body}  return {result} : {of}\n}}\n"


def unary(n, op="hbir.relu", ty="tensor<2xf32>"):
    """n operations, each on the result of the one before."""
    lines = [f'  %{i} = "{op}"({"%x" if i == 0 else f"%{i - 1}"}) : ({ty}) -> {ty}\n' for i in range(n)]
    return func("main", "".join(lines), f"%{n - 1}", f"%x: {ty}", ty)


def functions(n):
    line = '  %0 = "hbir.relu"(%x) : (tensor<2xf32>) -> tensor<2xf32>\n'
    return "".join(func(f"f{i}", line, "%0") for i in range(n))


def doubled_calls(n):
    """2 ** n calls of the last function."""
    ty = "(tensor<2xf32>) -> tensor<2xf32>"
    text = ""
    for i in range(n):
        name, kind = (f"f{i}", "private ") if i else ("main", "")
        body = (f'  %0 = "hbir.call"(%x) <{{callee = @f{i + 1}}}> : {ty}\n'
                f'  %1 = "hbir.call"(%0) <{{callee = @f{i + 1}}}> : {ty}\n')
        text += func(name, body, "%1", kind=kind)
    return text + func(f"f{n}", f'  %0 = "hbir.relu"(%x) : {ty}\n', "%0", kind="private ")


def tensor(shape, dtype="f32"):
    return "tensor<" + "".join(f"{n}x" for n in shape) + dtype + ">"


def rearrangements(n):
    """n times a reshape whose cuts conflict with the previous ones, and a transpose."""
    primes = [2, 3, 5, 7, 11, 13]
    size = 30030
    lines, value, shape = [], "%x", [size]
    for i in range(n):
        a = 1
        for j, p in enumerate(primes):
            if (i + 1) * 37 >> j & 1:
                a *= p
        a = a if 1 < a < size else primes[i % 6]
        new = [a, size // a]
        lines.append(f'  %{2 * i} = "hbir.reshape"({value}) <{{shape = {new}}}> : ({tensor(shape)}) -> {tensor(new)}\n')
        turned = new[::-1]
        lines.append(f'  %{2 * i + 1} = "hbir.transpose"(%{2 * i}) <{{perm = [1, 0]}}> : '
                     f'({tensor(new)}) -> {tensor(turned)}\n')
        value, shape = f"%{2 * i + 1}", turned
    ty = tensor(shape)
    lines.append(f'  %{2 * n} = "hbir.relu"({value}) : ({ty}) -> {ty}\n')
    return func("main", "".join(lines), f"%{2 * n}", f"%x: {tensor([size])}", ty)


def chain_of_transposes(n):
    a, b = tensor([3, 5]), tensor([5, 3])
    lines = []
    for i in range(n):
        value = "%x" if i == 0 else f"%{2 * i - 1}"
        lines.append(f'  %{2 * i} = "hbir.transpose"({value}) <{{perm = [1, 0]}}> : ({a}) -> {b}\n')
        lines.append(f'  %{2 * i + 1} = "hbir.reshape"(%{2 * i}) <{{shape = [3, 5]}}> : ({b}) -> {a}\n')
    return func("main", "".join(lines), f"%{2 * n - 1}", f"%x: {a}", a)


def of_high_rank(n, rank):
    ty = tensor([2] * rank)
    perm = [(i + 1) % rank for i in range(rank)]
    lines = []
    for i in range(n):
        value = "%x" if i == 0 else f"%{i - 1}"
        op = '"hbir.relu"({})' if i % 2 else f'"hbir.transpose"({{}}) <{{{{perm = {perm}}}}}>'
        lines.append(f"  %{i} = {op.format(value)} : ({ty}) -> {ty}\n")
    return func("main", "".join(lines), f"%{n - 1}", f"%x: {ty}", ty)


def open_sizes():
    ty = 'tensor<?x?x?x?xf32, {dims = ["A", "B", "C", "D"]}>'
    return func("main", f'  %0 = "hbir.relu"(%x) : ({ty}) -> {ty}\n', "%0", f"%x: {ty}", ty)


def splat(n):
    ty = tensor([n])
    return func("main", f'  %0 = "hbir.constant"() <{{value = dense<1.5> : {ty}}}> : () -> {ty}\n', "%0", "", ty)


def external(file):
    ty = "tensor<4xsi8>"
    data = f'#hbir.external<"{file}", 0, 4>'
    return func("main", f'  %0 = "hbir.constant"() <{{data = {data}}}> : () -> {ty}\n', "%0", "", ty)


def hlo_tuples(n):
    """A parameter and a result that are tuples of n elements."""
    shape = "(" + ", ".join(["f32[4]{0}"] * n) + ")"
    lines = [f"  t = {shape} parameter(0)"]
    for i in range(n):
        lines.append(f"  g{i} = f32[4]{{0}} get-tuple-element(t), index={i}")
        lines.append(f"  n{i} = f32[4]{{0}} negate(g{i})")
    lines.append(f"  ROOT r = {shape} tuple(" + ", ".join(f"n{i}" for i in range(n)) + ")")
    return "HloModule m\n\nENTRY main {\n" + "\n".join(lines) + "\n}\n"


def hlo_parameters(n):
    shape = "(" + ", ".join(["f32[4]{0}"] * n) + ")"
    lines = [f"  p{i} = f32[4]{{0}} parameter({i})" for i in range(n)]
    lines.append(f"  ROOT r = {shape} tuple(" + ", ".join(f"p{i}" for i in range(n)) + ")")
    return "HloModule m\n\nENTRY main {\n" + "\n".join(lines) + "\n}\n"


# ---- ONNX, as bytes ----

STABLEHLO = """module @m {
  func.func public @main(%arg0: tensor<4x8xf32>) -> tensor<8x4xf32> {
    %c = stablehlo.constant dense<[[1.0, 2.0], [3.0, 4.0]]> : tensor<2x2xf32>
    %0 = stablehlo.transpose %arg0, dims = [1, 0] : (tensor<4x8xf32>) -> tensor<8x4xf32>
    %1 = "stablehlo.custom_call"(%0) <{call_target_name = "f", api_version = 2 : i32}> : (tensor<8x4xf32>) -> tensor<8x4xf32>
    return %1 : tensor<8x4xf32>
  }
}
"""


def stablehlo(body, result, of, arg="tensor<2xf32>"):
    return f"module @m {{\n  func.func public @main(%x: {arg}) -> {of} {{\n{body}    return {result} : {of}\n  }}\n}}\n"


def stablehlo_constant(text, ty):
    """A constant of this text and type, and a reader."""
    return stablehlo(f"    %c = stablehlo.constant {text} : {ty}\n    %0 = stablehlo.negate %c : {ty}\n", "%0", ty)


def stablehlo_regions(n):
    """Loops nested in the bodies of loops, n deep."""
    ty = "tensor<2xf32>"
    opened = f'"stablehlo.while"(%x) ({{\n^bb0(%a: {ty}):\n  %p = stablehlo.constant dense<true> : tensor<i1>\n' \
             f'  stablehlo.return %p : tensor<i1>\n}}, {{\n^bb0(%x: {ty}):\n'
    closed = f'  stablehlo.return %x : {ty}\n}}) : ({ty}) -> {ty}\n'
    return stablehlo(f"%r = {opened}" * n + closed * n, "%r", ty)


def stablehlo_tuples(n):
    return stablehlo("", "%x", "tuple<" * n + "tensor<f32>" + ">" * n)


def stablehlo_brackets(n):
    return stablehlo_constant("dense<" + "[" * n + "1.0" + "]" * n + ">", "tensor<1xf32>")


def stablehlo_attributes(n):
    text = "{a = " * n + "1 : i32" + "}" * n
    return stablehlo(f'    %0 = "stablehlo.custom_call"(%x) <{{b = {text}}}> : (tensor<2xf32>) -> tensor<2xf32>\n', "%0", "tensor<2xf32>")


def stablehlo_functions(n):
    """Functions that each call the previous one twice."""
    ty = "tensor<2xf32>"
    made = [f"  func.func private @f0(%x: {ty}) -> {ty} {{\n    return %x : {ty}\n  }}\n"]
    for i in range(1, n):
        made.append(f"  func.func private @f{i}(%x: {ty}) -> {ty} {{\n    %0 = call @f{i - 1}(%x) : ({ty}) -> {ty}\n"
                    f"    %1 = call @f{i - 1}(%0) : ({ty}) -> {ty}\n    return %1 : {ty}\n  }}\n")
    main = f"  func.func public @main(%x: {ty}) -> {ty} {{\n    %0 = call @f{n - 1}(%x) : ({ty}) -> {ty}\n    return %0 : {ty}\n  }}\n"
    return "module @m {\n" + "".join(made) + main + "}\n"


def stablehlo_circle(n):
    ty = "tensor<2xf32>"
    made = [f"  func.func {'public @main' if i == 0 else f'private @f{i}'}(%x: {ty}) -> {ty} {{\n"
            f"    %0 = call @{'main' if i == n - 1 else f'f{i + 1}'}(%x) : ({ty}) -> {ty}\n    return %0 : {ty}\n  }}\n" for i in range(n)]
    return "module @m {\n" + "".join(made) + "}\n"


def endless_loop():
    """A loop that never ends, with a transpose inside that is folded."""
    ty = "tensor<2x2xf32>"
    body = f"""    %w = stablehlo.while(%a = %x) : {ty}
    cond {{
      %p = stablehlo.constant dense<true> : tensor<i1>
      stablehlo.return %p : tensor<i1>
    }} do {{
      %t = stablehlo.transpose %a, dims = [1, 0] : ({ty}) -> {ty}
      %p = stablehlo.dot_general %t, %a, contracting_dims = [1] x [0] : ({ty}, {ty}) -> {ty}
      stablehlo.return %p : {ty}
    }}
"""
    return stablehlo(body, "%w", ty, ty)


def stablehlo_long_attribute(n):
    text = f'    %0 = "stablehlo.custom_call"(%x) <{{call_target_name = "{"a" * n}"}}> : (tensor<2xf32>) -> tensor<2xf32>\n'
    return stablehlo(text, "%0", "tensor<2xf32>")


def hlo_nested(n):
    shape = "(" * n + "f32[2]" + ")" * n
    return f"HloModule m\n\nENTRY e {{\n  ROOT x = {shape} parameter(0)\n}}\n"


def hlo_computations(n):
    """Computations that each call the previous one twice."""
    text = "HloModule m\n\nc0 {\n  ROOT x = f32[2] parameter(0)\n}\n"
    for i in range(1, n):
        text += f"\nc{i} {{\n  x = f32[2] parameter(0)\n  a = f32[2] call(x), to_apply=c{i - 1}\n  ROOT b = f32[2] call(a), to_apply=c{i - 1}\n}}\n"
    return text + f"\nENTRY e {{\n  x = f32[2] parameter(0)\n  ROOT r = f32[2] call(x), to_apply=c{n - 1}\n}}\n"


def hlo_splat():
    return ("HloModule m\n\nENTRY e {\n  x = f32[1000000000]{0} parameter(0)\n  c = f32[] constant(1)\n  b = f32[1000000000]{0} broadcast(c), dimensions={}\n"
            "  ROOT r = f32[1000000000]{0} add(x, b)\n}\n")


def varint(n):
    out = b""
    while True:
        if n < 128:
            return out + bytes([n])
        out += bytes([n & 127 | 128])
        n >>= 7


def field(number, data):
    if isinstance(data, int):
        return varint(number << 3) + varint(data)
    if isinstance(data, str):
        data = data.encode()
    return varint(number << 3 | 2) + varint(len(data)) + data


def onnx_value(name, dims):
    shape = b"".join(field(1, field(1, d)) for d in dims)
    return field(1, name) + field(2, field(1, field(1, 1) + field(2, shape)))


def onnx_node(op, inputs, outputs, ints=()):
    names = [field(1, i) for i in inputs] + [field(2, o) for o in outputs]
    attrs = [field(5, field(1, k) + field(3, v) + field(20, 2)) for k, v in ints]
    return field(1, b"".join(names) + field(4, op) + b"".join(attrs))


def onnx_model(nodes, inputs, outputs):
    graph = b"".join(nodes) + field(2, "g")
    graph += b"".join(field(11, v) for v in inputs) + b"".join(field(12, v) for v in outputs)
    return field(1, 8) + field(7, graph) + field(8, field(2, 18))


def split(n, outputs):
    """A Split into n parts; the first ones are results."""
    names = [f"y{i}" for i in range(n)]
    node = onnx_node("Split", ["x"], names, [("axis", 0), ("num_outputs", n)])
    return onnx_model([node], [onnx_value("x", [n, 2])], [onnx_value(y, [1, 2]) for y in names[:outputs]])


def split_and_joined(n):
    names, done = [f"y{i}" for i in range(n)], [f"z{i}" for i in range(n)]
    nodes = [onnx_node("Split", ["x"], names, [("axis", 0), ("num_outputs", n)])]
    nodes += [onnx_node("Relu", [y], [z]) for y, z in zip(names, done)]
    nodes.append(onnx_node("Concat", done, ["c"], [("axis", 0)]))
    return onnx_model(nodes, [onnx_value("x", [n, 2])], [onnx_value("c", [n, 2])])


def onnx_external(file):
    """An initializer whose data is in a file."""
    entries = [("location", file), ("offset", "0"), ("length", "8")]
    data = b"".join(field(13, field(1, k) + field(2, v)) for k, v in entries)
    weight = field(1, 2) + field(2, 1) + field(8, "w") + data + field(14, 1)
    node = onnx_node("Relu", ["w"], ["y"])
    graph = node + field(2, "g") + field(5, weight) + field(12, onnx_value("y", [2]))
    return field(1, 8) + field(7, graph) + field(8, field(2, 18))


def onnx_weight(dims):
    """An initializer with these extents and eight bytes of data."""
    weight = b"".join(field(1, d) for d in dims) + field(2, 1) + field(8, "w") + field(9, b"01234567")
    node = onnx_node("Relu", ["w"], ["y"])
    graph = node + field(2, "g") + field(5, weight) + field(12, onnx_value("y", [2]))
    return field(1, 8) + field(7, graph) + field(8, field(2, 18))


def nested_graphs(n):
    """Branches nested n deep, under a condition that is an input."""
    graph = onnx_node("Relu", ["x"], ["y"]) + field(2, "g") + field(12, onnx_value("y", [2]))
    for _ in range(n):
        attrs = b"".join(field(5, field(1, name) + field(6, graph) + field(20, 5)) for name in ["then_branch"])
        node = field(1, field(1, "c") + field(2, "y") + field(4, "If") + attrs)
        graph = node + field(2, "g") + field(12, onnx_value("y", [2]))
    condition = field(1, "c") + field(2, field(1, field(1, 9) + field(2, b"")))
    graph += field(11, onnx_value("x", [2])) + field(11, condition)
    return field(1, 8) + field(7, graph) + field(8, field(2, 18))


SOME_FUNCTIONS = (("A", ("B", "Relu")), ("B", ("Neg",)))


def onnx_functions(bodies):
    """A model that calls A; each function calls other functions and operators in sequence."""
    local = {name for name, _ in bodies}

    def node(op, source, result):
        return field(1, source) + field(2, result) + field(4, op) + (field(7, "local") if op in local else b"")

    made = b""
    for name, ops in bodies:
        names = ["x", *(f"m{i}" for i in range(len(ops) - 1)), "y"] if ops else ["x"]
        body = b"".join(field(7, node(op, names[i], names[i + 1])) for i, op in enumerate(ops))
        made += field(25, field(1, name) + field(4, "x") + field(5, "y") + body + field(9, field(2, 18)) + field(10, "local"))
    graph = field(1, node("A", "x", "y")) + field(2, "g") + field(11, onnx_value("x", [2])) + field(12, onnx_value("y", [2]))
    return field(1, 8) + field(7, graph) + field(8, field(2, 18)) + field(8, field(1, "local") + field(2, 1)) + made


def flipped(data, at):
    return lambda path: path.write_bytes(data[:at] + bytes([data[at] ^ 255]) + data[at + 1:])


def onnx_attribute(n):
    """An operator of an unknown domain with a string attribute of n bytes."""
    attr = field(5, field(1, "a") + field(4, "b" * n) + field(20, 3))
    node = field(1, field(1, "x") + field(2, "y") + field(4, "Foo") + field(7, "unknown") + attr)
    return onnx_model([node], [onnx_value("x", [2])], [onnx_value("y", [2])])


# ---- archives ----

def npz(path, name, shape, descr, body):
    """A deflated archive of one array, whose data is `body` zero bytes; the archive is about a thousand times smaller."""
    text = f"{{'descr': '{descr}', 'fortran_order': False, 'shape': {shape}, }}"
    text += " " * (-(len(text) + 11) % 64) + "\n"
    head = b"\x93NUMPY\x01\x00" + struct.pack("<H", len(text)) + text.encode()
    packer = zlib.compressobj(1, zlib.DEFLATED, -15)
    crc, step, left = zlib.crc32(head), bytes(1 << 24), body
    data = [packer.compress(head)]
    while left:
        part = step[:min(left, len(step))]
        crc = zlib.crc32(part, crc)
        data.append(packer.compress(part))
        left -= len(part)
    data = b"".join(data) + packer.flush()
    file, size = f"{name}.npy".encode(), len(head) + body
    common = struct.pack("<HHHHHIIIHH", 20, 0, 8, 0, 33, crc, len(data), size, len(file), 0)
    local = b"PK\x03\x04" + common + file + data
    central = b"PK\x01\x02" + struct.pack("<H", 20) + common + struct.pack("<HHHII", 0, 0, 0, 0, 0) + file
    end = b"PK\x05\x06" + struct.pack("<HHHHIIH", 0, 0, 1, 1, len(central), len(local), 0)
    path.write_bytes(local + central + end)


def sparse(size):
    def make(path):
        with open(path, "wb") as file:
            file.truncate(size)
    return make


# ---- the cases ----

SMALL = later(unary, 3)
LONG = later(unary, 2000)

for at, command in enumerate([
        ["in.ir"], ["long.ir"], ["--emit=json", "long.ir"], ["--emit=svg", "long.ir"], ["--emit=hlo", "long.ir"],
        ["--emit=pallas", "long.ir"], ["--list-passes"], ["--help"], ["-o", "/dev/full", "long.ir"],
        ["-o", "/dev/stdout", "long.ir"], ["stats", "in.ir"], ["stats", "--json", "long.ir"],
        ["verify", "in.ir", "in.ir"], ["layout", "size", "f32[3]"], ["layout", "draw", "-o", "-", "f32[90,90]"],
        ["layout", "draw", "-o", "/dev/full", "f32[90,90]"], ["layout", "explain", "f32[3,5]{1,0:T(2,2)}"],
        ["targets"], ["targets", "cpu"], ["completions", "bash"]]):
    case(f"full-{at}", *command, code="io-write", stdout="/dev/full",
         files={"in.ir": SMALL, "long.ir": LONG})

for fold in ["--pass=view-fold{max-layouts=1}", "--pass=view-fold", "--pass=view-fold,tile-propagate"]:
    short = fold.split("=", 1)[1]
    case(f"chain-unary {short}", fold, "in.ir", files={"in.ir": later(unary, 5000)})
    case(f"chain-moves {short}", fold, "in.ir", files={"in.ir": later(chain_of_transposes, 2000)})
for target in ["cpu", "triton", "tpu"]:
    tiles = ["--pass=view-fold,tile-propagate", f"--target={target}"]
    case(f"tiles-incompatible {target}", *tiles, "in.ir", files={"in.ir": later(rearrangements, 32)})
    case(f"tiles-rank {target}", *tiles, "in.ir", files={"in.ir": later(of_high_rank, 200, 20)})
    case(f"tiles-split {target}", *tiles, "in.onnx", files={"in.onnx": later(split_and_joined, 5000)})

for name, text in [("tuple", later(hlo_tuples, 40000)), ("parameters", later(hlo_parameters, 40000))]:
    for args in [[], ["--emit=hlo"], ["stats"], ["--pass=view-fold"]]:
        case(f"hlo-{name} {' '.join(args)}", *args, "in.hlo", files={"in.hlo": text})

for args in [[], ["stats"], ["--pass=canonicalize"], ["--pass=view-fold"], ["stats", "--pass=default"]]:
    for name, model in [("one", later(split, 200000, 1)), ("all", later(split, 200000, 200000))]:
        case(f"split-{name} {' '.join(args)}", *args, "in.onnx", files={"in.onnx": model})

for args in [["--emit=pallas"], ["--emit=hlo"], ["--pass=view-fold"], ["stats"]]:
    case(f"functions {args[0]}", *args, "in.ir", files={"in.ir": later(functions, 5000)})
    case(f"operations {args[0]}", *args, "in.ir", files={"in.ir": later(unary, 20000)})
    case(f"calls {args[0]}", *args, "in.ir", files={"in.ir": later(doubled_calls, 40)})
case("calls verify", "verify", "in.ir", "in.ir", code="run-steps", files={"in.ir": later(doubled_calls, 40)})
case("calls run", "run", "in.ir", "--inputs", "x.npz", "--output", "y.npz", code="run-steps",
     files={"in.ir": later(doubled_calls, 40), "x.npz": lambda path: npz(path, "x", (2,), "<f4", 8)})

case("open-sizes", "verify", "in.ir", "in.ir", files={"in.ir": open_sizes()})

for emit in ["ir", "json", "hlo", "pallas", "dot", "svg"]:
    case(f"splat {emit}", f"--emit={emit}", "in.ir", files={"in.ir": splat(10 ** 9)})

for source in ["ir", "onnx", "hlo"]:
    case(f"endless {source}", f"--from={source}", "/dev/zero", code="input-too-large")
    case(f"endless-stdin {source}", f"--from={source}", "-", code="input-too-large", stdin="/dev/zero")
case("endless target", "--target=/dev/zero", "in.ir", code="input-too-large", files={"in.ir": SMALL})
case("endless link", "in.ir", code="input-too-large", files={"in.ir": lambda path: path.symlink_to("/dev/zero")})
case("endless inputs", "run", "in.ir", "--inputs", "/dev/zero", "--output", "y.npz", code="input-too-large",
     files={"in.ir": SMALL})
case("endless certificate", "verify", "in.ir", "--certificate", "/dev/zero", code="input-too-large",
     files={"in.ir": SMALL})
case("endless vectors", "spec", "/dev/zero", code="input-too-large")
case("large file", "in.ir", code="input-too-large", files={"in.ir": sparse((1 << 31) + 1)})

for what, make in [("pipe", os.mkfifo), ("device", lambda path: path.symlink_to("/dev/zero")), ("folder", os.mkdir)]:
    case(f"external {what}", "run", "in.ir", "--output", "y.npz", code="constant-data",
         files={"in.ir": external("w"), "w": make})
    case(f"external-onnx {what}", "run", "in.onnx", "--output", "y.npz", code="constant-data",
         files={"in.onnx": onnx_external("w"), "w": make})

for what, make in [("pipe", os.mkfifo), ("device", lambda path: path.symlink_to("/dev/zero")), ("folder", os.mkdir)]:
    case(f"out external {what}", "in.onnx", "-o", "sub/out.onnx", code="onnx-constant-data",
         files={"in.onnx": onnx_external("w"), "w": make, "sub": os.mkdir})
for what, place in [("above", "../w"), ("absolute", "/etc/passwd"), ("roundabout", "a/../../w")]:
    case(f"out escapes {what}", "in.onnx", "-o", "out.onnx", code="external-path-escapes",
         files={"in.onnx": onnx_external(place)})
case("out link escapes", "in.onnx", "-o", "sub/out.onnx", code="onnx-constant-data",
     files={"in.onnx": onnx_external("w"), "w": lambda path: path.symlink_to("/etc/passwd"), "sub": os.mkdir})
case("out over data", "in.onnx", "-o", "w", "--emit=onnx", code="output-is-data",
     files={"in.onnx": onnx_external("w"), "w": "01234567"})
for n in [1, 20, 60]:
    case(f"out truncated {n}", "in.onnx", "-o", "out.onnx", files={"in.onnx": onnx_external("w")[:-n]})
for what, dims in [("elements", [1 << 40]), ("product", [1 << 32, 1 << 32]), ("negative", [(1 << 64) - 1])]:
    case(f"out lying {what}", "in.onnx", "-o", "out.onnx", files={"in.onnx": onnx_weight(dims)})
for target in ["onnx", "onnxruntime"]:
    case(f"out nested {target}", "in.onnx", "-o", "out.onnx", f"--target={target}", files={"in.onnx": later(nested_graphs, 3000)})
    case(f"out split {target}", "in.onnx", "-o", "out.onnx", f"--target={target}", files={"in.onnx": later(split_and_joined, 3000)})
case("out large file", "in.onnx", "-o", "out.onnx", code="input-too-large", files={"in.onnx": sparse((1 << 31) + 1)})

MLIR = ["in.mlir", "-o", "out.mlir"]
for part in range(1, 16):
    case(f"stablehlo truncated {part}", *MLIR, files={"in.mlir": STABLEHLO[:len(STABLEHLO) * part // 16]})
for at in range(0, len(STABLEHLO), 37):
    case(f"stablehlo hole {at}", *MLIR, files={"in.mlir": STABLEHLO[:at] + STABLEHLO[at + 5:]})
case("stablehlo bytes", *MLIR, files={"in.mlir": lambda path: path.write_bytes(STABLEHLO.encode()[:90] + bytes(range(256)))})
for name, make in [("regions", stablehlo_regions), ("tuples", stablehlo_tuples), ("brackets", stablehlo_brackets),
                   ("attributes", stablehlo_attributes)]:
    for n in [100, 50000]:
        case(f"stablehlo nested {name} {n}", *MLIR, files={"in.mlir": later(make, n)})
for n in [40, 5000]:
    case(f"stablehlo functions {n}", *MLIR, files={"in.mlir": later(stablehlo_functions, n)})
for n in [1, 2, 3000]:
    case(f"stablehlo circle {n}", *MLIR, files={"in.mlir": later(stablehlo_circle, n)})
for what, text, ty in [("fewer", "dense<[1.0, 2.0]>", "tensor<3xf32>"), ("more", "dense<[1.0, 2.0]>", "tensor<1xf32>"),
                       ("digits", 'dense<"0x0000803F0000803F">', "tensor<1000000000000xf32>"), ("odd", 'dense<"0x0000803">', "tensor<1xf32>"),
                       ("overflow", "dense<[1.0]>", "tensor<4294967296x4294967296x4294967296xf32>"),
                       ("negative", "dense<[1.0]>", "tensor<-1xf32>"), ("long", "dense<[1.0]>", f"tensor<{'9' * 400}xf32>")]:
    case(f"stablehlo lying {what}", *MLIR, wants=1, files={"in.mlir": stablehlo_constant(text, ty)})
for ty, one in [("tensor<1000000000xf32>", "1.0"), ("tensor<1000x1000x1000xf32>", "1.0"), ("tensor<1000000000000xi8>", "1"),
                ("tensor<1000000000x1000000000xf64>", "1.0")]:
    made = {"in.mlir": stablehlo_constant(f"dense<{one}>", ty)}
    for options in [["-o", "out.mlir"], ["--emit=hlo"], ["--emit=linalg"], ["--pass=default", "--target=cpu", "--emit=pallas"]]:
        case(f"stablehlo splat {' '.join(options)} {ty}", "in.mlir", *options, files=made)
# More elements than the interpreter accepts.
case("stablehlo splat --check", *MLIR, "--check", wants=1,
     files={"in.mlir": stablehlo_constant("dense<1>", "tensor<1000000000000xi8>")})
for ty in ["tensor<1000000000xf32>", "tensor<1000x1000x1000xi8>"]:
    case(f"stablehlo splat --check {ty}", *MLIR, "--check", code="tensor-too-large", files={"in.mlir": stablehlo_constant("dense<1>", ty)})
    case(f"stablehlo input --check {ty}", *MLIR, "--check", code="tensor-too-large",
         files={"in.mlir": stablehlo(f"    %0 = stablehlo.negate %x : {ty}\n", "%0", ty, ty)})
case("stablehlo endless loop --check", *MLIR, "--check", code="run-steps", files={"in.mlir": endless_loop()})
for name, text in [("twice", "  %0 = stablehlo.negate %x : tensor<2xf32>\n  %0 = stablehlo.negate %x : tensor<2xf32>\n"),
                   ("before", "  %0 = stablehlo.negate %1 : tensor<2xf32>\n  %1 = stablehlo.negate %0 : tensor<2xf32>\n"),
                   ("itself", "  %0 = stablehlo.negate %0 : tensor<2xf32>\n")]:
    case(f"stablehlo value {name}", *MLIR, wants=1, files={"in.mlir": stablehlo(text, "%0", "tensor<2xf32>")})
case("stablehlo function twice", *MLIR, wants=1,
     files={"in.mlir": stablehlo("", "%x", "tensor<2xf32>").replace("  }\n}", "  }\n  func.func private @main() {\n    return\n  }\n}")})
case("stablehlo attribute long", *MLIR, files={"in.mlir": later(stablehlo_long_attribute, 1 << 24)})

HLO = ["in.hlo", "-o", "out.hlo"]
HLO_TEXT = """HloModule m, entry_computation_layout={(f32[4,8]{1,0}, f32[8,8]{1,0})->f32[8,4]{1,0}}

add {
  a = f32[] parameter(0)
  b = f32[] parameter(1)
  ROOT s = f32[] add(a, b)
}

ENTRY e {
  x = f32[4,8]{1,0} parameter(0)
  w = f32[8,8]{1,0} parameter(1)
  p = f32[4,8]{1,0} dot(x, w), lhs_contracting_dims={1}, rhs_contracting_dims={0}
  z = f32[] constant(0)
  r = f32[4]{0} reduce(p, z), dimensions={1}, to_apply=add
  ROOT t = f32[8,4]{1,0} transpose(p), dimensions={1,0}
}
"""
for part in range(1, 16):
    case(f"hlo truncated {part}", *HLO, files={"in.hlo": HLO_TEXT[:len(HLO_TEXT) * part // 16]})
for at in range(0, len(HLO_TEXT), 23):
    case(f"hlo hole {at}", *HLO, files={"in.hlo": HLO_TEXT[:at] + HLO_TEXT[at + 5:]})
for what, old, new in [("extent", "f32[4,8]", "f32[99999999999999999999,8]"), ("product", "f32[4,8]", "f32[4294967296,4294967296]"),
                       ("negative", "f32[4,8]", "f32[-4,8]"), ("dimensions", "dimensions={1,0}", "dimensions={1,1}"),
                       ("far", "dimensions={1,0}", "dimensions={4294967296,0}"), ("contracted", "contracting_dims={1}", "contracting_dims={7}"),
                       ("layout", "{1,0} dot", "{3,0} dot"), ("tile", "{1,0} dot", "{1,0:T(0,128)} dot"),
                       ("tile large", "{1,0} dot", "{1,0:T(4294967296,4294967296)} dot"),
                       ("parameter", "parameter(1)\n  p", "parameter(99999999)\n  p"), ("itself", "dot(x, w)", "dot(x, t)"),
                       ("twice", "  z = f32[]", "  x = f32[]"), ("computation twice", "ENTRY e", "add"), ("recursion", "add(a, b)", "call(a, b), to_apply=add"),
                       ("root", "ROOT t", "t"), ("no computation", "to_apply=add", "to_apply=gone")]:
    assert old in HLO_TEXT, old
    case(f"hlo lying {what}", *HLO, files={"in.hlo": HLO_TEXT.replace(old, new)})
for n in [100, 50000]:
    case(f"hlo nested tuples {n}", *HLO, files={"in.hlo": later(hlo_nested, n)})
    case(f"hlo nested braces {n}", *HLO, files={"in.hlo": HLO_TEXT.replace("transpose(p)", "transpose(p), backend_config=" + "{" * n + "}" * n)})
for n in [40, 3000]:
    case(f"hlo computations {n}", *HLO, files={"in.hlo": later(hlo_computations, n)})
case("hlo constant", *HLO, wants=1, files={"in.hlo": HLO_TEXT.replace("f32[] constant(0)", "f32[1000000000] constant({1, 2})")})
case("hlo splat", *HLO, files={"in.hlo": hlo_splat()})
case("hlo splat --check", *HLO, "--check", code="tensor-too-large", files={"in.hlo": hlo_splat()})
case("hlo large file", *HLO, code="input-too-large", files={"in.hlo": sparse((1 << 31) + 1)})

ONNX = ["in.onnx", "-o", "out.onnx"]
for options in [[], ["--pass="], ["--check"]]:
    what = " ".join(options)
    for name, bodies, code in [("itself", {"A": ["A"]}, "function-expansion"), ("circle", {"A": ["B"], "B": ["C"], "C": ["A"]}, "function-expansion"),
                               ("doubling", {**{f"F{i}": [f"F{i + 1}"] * 2 for i in range(40)}, "A": ["F0"], "F40": []}, "function-expansion"),
                               ("deep", {**{f"F{i}": [f"F{i + 1}"] for i in range(5000)}, "A": ["F0"]}, "function-expansion"),
                               ("empty", {"A": []}, None)]:
        case(f"onnx functions {name} {what}", *ONNX, *options, code=code, files={"in.onnx": later(onnx_functions, tuple((k, tuple(v)) for k, v in bodies.items()))})
    case(f"onnx many functions {what}", *ONNX, *options, files={"in.onnx": later(onnx_functions, tuple([("A", ("F0",))] + [(f"F{i}", ("Neg",)) for i in range(20000)]))})
    for at in range(0, len(onnx_functions(SOME_FUNCTIONS)), 7):
        case(f"onnx functions flipped {at} {what}", *ONNX, *options, files={"in.onnx": flipped(onnx_functions(SOME_FUNCTIONS), at)})
for name, nodes in [("output twice", [onnx_node("Relu", ["x"], ["y"]), onnx_node("Neg", ["x"], ["y"])]),
                    ("itself", [onnx_node("Relu", ["y"], ["y"])]),
                    ("circle", [onnx_node("Relu", ["z"], ["y"]), onnx_node("Relu", ["y"], ["z"])]),
                    ("nothing", [])]:
    case(f"onnx value {name}", *ONNX, wants=1, files={"in.onnx": onnx_model(nodes, [onnx_value("x", [2])], [onnx_value("y", [2])])})
case("onnx input twice", *ONNX, wants=1,
     files={"in.onnx": onnx_model([onnx_node("Relu", ["x"], ["y"])], [onnx_value("x", [2])] * 2, [onnx_value("y", [2])])})
case("onnx output twice", *ONNX, files={"in.onnx": onnx_model([onnx_node("Relu", ["x"], ["y"])], [onnx_value("x", [2])], [onnx_value("y", [2])] * 2)})
case("onnx attribute long", *ONNX, files={"in.onnx": later(onnx_attribute, 1 << 25)})
for name, axis in [("far", 1 << 62), ("negative", (1 << 64) - 3)]:
    case(f"onnx axis {name}", *ONNX, files={"in.onnx": onnx_model([onnx_node("Softmax", ["x"], ["y"], [("axis", axis)])], [onnx_value("x", [2])],
                                                                  [onnx_value("y", [2])])})
for name, dims in [("product", [1 << 40, 1 << 40]), ("large", [1 << 62])]:
    case(f"onnx shape {name}", *ONNX, files={"in.onnx": onnx_model([onnx_node("Relu", ["x"], ["y"])], [onnx_value("x", dims)], [onnx_value("y", dims)])})
    case(f"onnx shape {name} --check", *ONNX, "--check", wants=1,
         files={"in.onnx": onnx_model([onnx_node("Relu", ["x"], ["y"])], [onnx_value("x", dims)], [onnx_value("y", dims)])})
for what, place in [("above", "../w"), ("absolute", "/etc/passwd"), ("roundabout", "a/../../w"), ("nothing", ""), ("zero", "w\0x")]:
    case(f"onnx escapes {what} --pass=", *ONNX, "--pass=", wants=1, files={"in.onnx": onnx_external(place)})
case("onnx external name long", *ONNX, "--pass=", files={"in.onnx": onnx_external("w" * 100000)})
case("stablehlo endless", "--from=stablehlo", "/dev/zero", code="input-too-large")
case("stablehlo large file", *MLIR, code="input-too-large", files={"in.mlir": sparse((1 << 31) + 1)})

case("npz shape", "run", "in.ir", "--inputs", "x.npz", "--output", "y.npz", code="input-shape",
     files={"in.ir": SMALL, "x.npz": lambda path: npz(path, "x", (1 << 29,), "<f4", 1 << 31)})
case("npz type", "run", "in.ir", "--inputs", "x.npz", "--output", "y.npz", code="npz-input",
     files={"in.ir": SMALL, "x.npz": lambda path: npz(path, "x", (2,), "<f8", 1 << 31)})
case("npz name", "run", "in.ir", "--inputs", "x.npz", "--output", "y.npz", code="npz-input",
     files={"in.ir": SMALL, "x.npz": lambda path: npz(path, "other", (1 << 31,), "|i1", 1 << 31)})
case("npz longer", "run", "in.ir", "--inputs", "x.npz", "--output", "y.npz", code="npz-input",
     files={"in.ir": SMALL, "x.npz": lambda path: npz(path, "x", (2,), "<f4", 1 << 31)})

for second in ["out.ir", "./out.ir", "link.ir"]:
    case(f"twice {second}", "--pass=view-fold", "-o", "out.ir", "--certificate", second, "in.ir", code="output-twice",
         files={"in.ir": SMALL, "link.ir": lambda path: path.symlink_to("out.ir")})


def limit():
    resource.setrlimit(resource.RLIMIT_CPU, (SECONDS, SECONDS))
    resource.setrlimit(resource.RLIMIT_AS, (BYTES, BYTES))
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))


def attempt(optc, args, code, files, stdin="/dev/null", stdout="/dev/null", wants=None):
    """The violation of a case, or None."""
    with tempfile.TemporaryDirectory() as folder:
        for name, written in files.items():
            path = pathlib.Path(folder, name)
            if callable(written):
                written(path)
            else:
                path.write_bytes(written.encode() if isinstance(written, str) else written)
        with open(stdin, "rb") as source, open(stdout, "wb") as sink:
            try:
                done = subprocess.run([optc, *args], cwd=folder, stdin=source, stdout=sink, stderr=subprocess.PIPE,
                                      preexec_fn=limit, timeout=PATIENCE)
            except subprocess.TimeoutExpired:
                return f"waits for more than {PATIENCE} s"
        # An output file is complete or absent.
        found = [p.name for p in pathlib.Path(folder).rglob("*") if p.name in ("out.onnx", "out.mlir") or p.name.startswith(".optc-")]
        left = f"status {done.returncode} and {found} left" if found and done.returncode else None
    said = done.stderr.decode(errors="replace")
    short = said.strip().replace("\n", " | ")[:200]
    codes = re.findall(r"error\[([a-z0-9-]+)\]", said)
    if done.returncode < 0:
        return f"signal {-done.returncode}: {short}"
    if done.returncode not in (0, 1, 2):
        return f"status {done.returncode}: {short}"
    if "internal-error" in codes or "panicked" in said:
        return f"a defect: {short}"
    if done.returncode == 1 and not codes:
        return f"status 1 without a code: {short}"
    if wants is not None and done.returncode != wants:
        return f"status {done.returncode}, wanted {wants}: {short}"
    if code and code not in codes:
        return f"status {done.returncode} and {codes}, wanted {code}: {short}"
    return left


def main():
    if len(sys.argv) < 2:
        sys.exit(__doc__)
    optc, names = os.path.abspath(sys.argv[1]), tuple(sys.argv[2:])
    passed = failed = 0
    for name, args, code, files, options in CASES:
        if names and not name.startswith(names):
            continue
        wrong = attempt(optc, args, code, files, **options)
        if wrong is None:
            passed += 1
        else:
            failed += 1
            print(f"{name}: {wrong}", flush=True)
    print(f"{passed} passed, {failed} failed")
    sys.exit(failed != 0)


main()
