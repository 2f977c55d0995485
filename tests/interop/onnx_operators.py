#!/usr/bin/env python3
"""Writes the list of all ONNX operators that docs/onnx-ops.md is made from.

usage: python onnx_operators.py > frontends/onnx/src/operators.txt

A line an operator of the standard domain: its name and the versions in which it was defined or changed.
Needs onnx.
"""
import collections

import onnx
import onnx.defs


def main():
    versions = collections.defaultdict(set)
    for schema in onnx.defs.get_all_schemas_with_history():
        if schema.domain == "":
            versions[schema.name].add(schema.since_version)
    print(f"# onnx {onnx.__version__}, operator set {onnx.defs.onnx_opset_version()}")
    for name in sorted(versions):
        print(name, *sorted(versions[name]))


if __name__ == "__main__":
    main()
