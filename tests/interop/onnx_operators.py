#!/usr/bin/env python3
"""Writes the table of all versions of all ONNX operators, for import, export and docs/onnx-ops.md.

usage: python onnx_operators.py > formats/onnx/src/schemas.txt

Each line is a version of an operator: its name (after its domain and a `:` if that is not the standard one), the operator
set that introduced it (with a `!` if it is deprecated from then on), the minimal and the maximal number of inputs and of
outputs (`-` for any number), the element types of each input, those of each output, and its attributes.  Element types
are a hexadecimal mask: bit n for data type n of the format, bit 0 for values that are no tensors.  Needs onnx.
"""
import onnx
import onnx.defs

ANY = 2**31 - 1


def mask(port):
    """The mask of the element types that an input accepts."""
    bits = 0
    for text in port.types:
        name = text.removeprefix("tensor(").removesuffix(")")
        if text.startswith("tensor("):
            bits |= 1 << onnx.TensorProto.DataType.Value({"float": "FLOAT", "double": "DOUBLE"}.get(name, name.upper()))
        else:
            bits |= 1
    return f"{bits:x}"


def line(schema):
    count = lambda n: "-" if ANY <= n else str(n)
    counts = [schema.min_input, schema.max_input, schema.min_output, schema.max_output]
    ports = [",".join(map(mask, side)) or "." for side in (schema.inputs, schema.outputs)]
    domain = f"{schema.domain}:" if schema.domain else ""
    version = f"{schema.since_version}{'!' if schema.deprecated else ''}"
    return " ".join([domain + schema.name, version, *map(count, counts), *ports, *sorted(schema.attributes)])


def main():
    schemas = onnx.defs.get_all_schemas_with_history()
    print(f"# onnx {onnx.__version__}, operator set {onnx.defs.onnx_opset_version()}")
    for schema in sorted(schemas, key=lambda s: (s.domain, s.name, s.since_version)):
        print(line(schema))


if __name__ == "__main__":
    main()
