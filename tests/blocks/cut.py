"""Cuts a block out of a program in optc's text form, with smaller sizes.

    optc --pass= --emit=ir model.onnx -o model.ir
    python3 cut.py model.ir --results %55 --inputs %9 --sizes 768=48 197=13 > block.ir

The block is what computes the results from the inputs. Weights become external data, which the tests make
up; a value given as a weight is one, too. Sizes are replaced in types and in the attributes that hold sizes.
"""

import argparse
import re

OP = re.compile(r'\s*(%\w+)(?::\d+)? = "hbir\.(\w+)"\((.*?)\)( <\{.*\}>)? : \((.*?)\) -> (.*?)(?: loc\(.*\))?$')
SIZED = re.compile(r"\b(shape|limits|starts|sizes|group) = (\[[^\]]*\]|\d+)")
WIDTH = {"f32": 4, "f16": 2, "bf16": 2, "si64": 8, "si32": 4, "i1": 1}


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("program")
    parser.add_argument("--results", nargs="+", required=True)
    parser.add_argument("--inputs", nargs="*", default=[])
    parser.add_argument("--weights", nargs="*", default=[])
    parser.add_argument("--sizes", nargs="*", default=[])
    parser.add_argument("--about", default="")
    given = parser.parse_args()
    smaller = dict(pair.split("=") for pair in given.sizes)

    ops, types = {}, {}
    for line in open(given.program):
        head = re.match(r"\s*func\.func @\w+\((.*)\) ->", line)
        if head:
            types.update(re.findall(r"(%\w+): (tensor<[^>]*>)", head[1]))
        found = OP.match(line.rstrip())
        if not found:
            continue
        name, _, operands, _, _, result = found.groups()
        ops[name] = found.groups()
        of = re.findall(r"tensor<[^>]*>", result)
        for at, ty in enumerate(of):
            types[name if len(of) == 1 else f"{name}#{at}"] = ty

    def resized(text):
        return re.sub(r"\d+", lambda n: smaller.get(n[0], n[0]), text)

    def type_of(value):
        ty = types[value]
        dims, dtype = re.match(r"tensor<((?:\d+x)*)(\w+)>", ty).groups()
        return f"tensor<{resized(dims)}{dtype}>"

    # The operations behind the results, in the program's order.
    needed, arguments, waiting = set(), [], list(given.results)
    while waiting:
        value = waiting.pop()
        name = value.split("#")[0]
        if value in given.inputs or name not in ops:
            if value not in arguments:
                arguments.append(value)
        elif name not in needed:
            needed.add(name)
            if ops[name][1] != "constant" and name not in given.weights:
                waiting += [v.strip() for v in ops[name][2].split(",") if v.strip()]
    variances = {ops[n][2].split(", ")[4] for n in needed if ops[n][1] == "batch_norm"}

    names, offset, body = {}, 0, []
    for at, value in enumerate(sorted(arguments, key=lambda v: (v not in given.inputs, v))):
        names[value] = f"%x{at}"
    for name in ops:
        if name not in needed:
            continue
        _, op, operands, props, _, _ = ops[name]
        new = f"%{len(body)}"
        many = [v for v in types if v.startswith(name + "#")]
        for value in many or [name]:
            names[value] = new + value[len(name) :]
        if op == "constant" or name in given.weights:
            ty = type_of(name)
            sizes, dtype = re.match(r"tensor<((?:\d+x)*)(\w+)>", ty).groups()
            count = 1
            for n in re.findall(r"\d+", sizes):
                count *= int(n)
            if name in variances:
                props = " <{value = dense<0.75> : %s}>" % ty
            elif 1 < count or op != "constant" or "external" in props:
                length = count * WIDTH[dtype]
                props = f' <{{data = #hbir.external<"block.weights", {offset}, {length}>}}>'
                offset += (length + 63) // 64 * 64
            else:
                props = re.sub(r" : tensor<[^>]*>", f" : {ty}", props)
            body.append(f'  {new} = "hbir.constant"(){props} : () -> {ty}')
            continue
        reads = [v.strip() for v in operands.split(",")]
        props = SIZED.sub(lambda m: f"{m[1]} = {resized(m[2])}", props or "")
        result = ", ".join(type_of(v) for v in many or [name])
        result = f"({result})" if many else result
        count = f":{len(many)}" if many else ""
        read = ", ".join(names[v] for v in reads)
        of = ", ".join(type_of(v) for v in reads)
        body.append(f'  {new}{count} = "hbir.{op}"({read}){props} : ({of}) -> {result}')

    args = ", ".join(f"{names[v]}: {type_of(v)}" for v in names if names[v].startswith("%x"))
    given_types = ", ".join(type_of(v) for v in given.results)
    results = ", ".join(names[v] for v in given.results)
    outer = given_types if len(given.results) == 1 else f"({given_types})"
    if given.about:
        print(f"// {given.about}")
    print(f"func.func @main({args}) -> {outer} {{")
    print("\n".join(body))
    print(f"  return {results} : {given_types}\n}}")


main()
