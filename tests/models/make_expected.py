#!/usr/bin/env python3
"""Write expected/NAME.npz: what onnxruntime computes for each model of this folder.

usage: python make_expected.py

Inputs and weights that are not in the model are a formula of their position (`pattern`), which
tests/models.rs repeats.  Of a large output only every so-many-th element is kept, beside its shape.
Needs numpy, onnx and onnxruntime; their versions are written to expected/VERSIONS.
"""
import pathlib
import sys

import numpy as np
import onnx
import onnxruntime
from onnx import TensorProto, numpy_helper

HERE = pathlib.Path(__file__).resolve().parent
KEPT = 4096


def pattern(start, n):
    """Numbers from -2 to 2 in steps of 1/64; a formula of the position alone."""
    i = np.arange(start, start + n, dtype=np.uint64)
    bits = (i * np.uint64(2654435761)) % np.uint64(2**32)
    return ((bits >> np.uint64(24)).astype(np.float32) / np.float32(64) - np.float32(2)).astype(np.float32)


def fill_external(model):
    for tensor in model.graph.initializer:
        if tensor.data_location != TensorProto.EXTERNAL:
            continue
        assert tensor.data_type == TensorProto.FLOAT
        where = {e.key: e.value for e in tensor.external_data}
        n = int(np.prod(tensor.dims))
        values = pattern(int(where.get("offset", 0)) // 4, n) * np.float32(0.05)
        filled = numpy_helper.from_array(values.reshape(list(tensor.dims)), tensor.name)
        tensor.CopyFrom(filled)


def main():
    out = HERE / "expected"
    out.mkdir(exist_ok=True)
    for path in sorted(HERE.glob("*.onnx")):
        model = onnx.load(str(path), load_external_data=False)
        fill_external(model)
        session = onnxruntime.InferenceSession(
            model.SerializeToString(), providers=["CPUExecutionProvider"]
        )
        inputs = {}
        for k, i in enumerate(session.get_inputs()):
            assert i.type == "tensor(float)", (path.name, i.type)
            inputs[i.name] = pattern(1000 * k, int(np.prod(i.shape))).reshape(i.shape)
        names = [o.name for o in session.get_outputs()]
        arrays = {}
        for name, value in zip(names, session.run(names, inputs)):
            value = np.asarray(value)
            step = -(-value.size // KEPT)
            arrays[name] = value.reshape(-1)[::step]
            arrays[name + ":shape"] = np.array(value.shape, dtype=np.int64)
        np.savez_compressed(out / (path.stem + ".npz"), **arrays)
        print(path.name, {n: a.shape for n, a in arrays.items()})
    versions = [
        f"python {sys.version.split()[0]}",
        f"numpy {np.__version__}",
        f"onnx {onnx.__version__}",
        f"onnxruntime {onnxruntime.__version__}",
    ]
    (out / "VERSIONS").write_text("\n".join(versions) + "\n")


if __name__ == "__main__":
    main()
