#!/usr/bin/env python3
"""Language models in the form of onnxruntime-genai: read, run, folded, and written with the same operators.

usage: python language_models.py OPTC [--keep FOLDER]

Each model is a decoder of two layers with a cache and weights of a few bits.  A prompt and steps after it run in every
executor of optc and in onnxruntime, at several sizes of batch, sequence and past.  Written for `onnx` and
`onnxruntime` with --check, the model has its original operators, attributes and weights, and gives the same numbers in
onnxruntime.  Needs numpy, onnx and onnxruntime.
"""
import argparse
import collections
import pathlib
import subprocess
import sys
import tempfile

import numpy as np
import onnx
import onnxruntime
from onnx import TensorProto, helper, numpy_helper

FLOAT, INT64, INT32 = TensorProto.FLOAT, TensorProto.INT64, TensorProto.INT32
VOCABULARY, LAYERS, HEADS, KV_HEADS, SIZE, INNER, POSITIONS = 40, 2, 4, 2, 16, 96, 64
HIDDEN = HEADS * SIZE
RUNS = [("reference", ["--pass="]), ("folded", ["--pass=default", "--target=cpu"]),
        ("naive", ["--pass=default", "--target=cpu", "--exec=naive"]),
        ("physical", ["--pass=default", "--target=cpu", "--exec=physical"])]
# Operators that must stay whole; the others may be replaced by equivalent ones.
KEPT = ("GroupQueryAttention", "MatMulNBits", "GatherBlockQuantized", "SkipSimplifiedLayerNormalization",
        "SimplifiedLayerNormalization", "MultiHeadAttention", "Attention", "RotaryEmbedding")


class Graph:
    """A decoder under construction."""

    def __init__(self, seed, bits, block, zeros):
        self.rng = np.random.default_rng(seed)
        self.bits, self.block, self.zeros = bits, block, zeros
        self.nodes, self.constants = [], []

    def weight(self, name, value):
        self.constants.append(numpy_helper.from_array(value, name))
        return name

    def node(self, op, inputs, outputs, domain="", **attributes):
        name = "/" + outputs[0].replace(".", "/")
        self.nodes.append(helper.make_node(op, inputs, outputs, name=name, domain=domain, **attributes))
        return outputs[0]

    def packed(self, name, rows, columns, flat):
        """The weights, scales and zero points of a matrix in blocks."""
        blocks = -(-columns // self.block)
        row = self.block * self.bits // 8
        shape = (rows, columns * self.bits // 8) if flat else (rows, blocks, row)
        made = [self.weight(f"{name}.qweight", self.rng.integers(0, 256, shape).astype(np.uint8)),
                self.weight(f"{name}.scales", (self.rng.random((rows, blocks)) * 0.03 + 0.01).astype(np.float32))]
        if self.zeros:
            held = -(-blocks * self.bits // 8)
            made.append(self.weight(f"{name}.qzeros", self.rng.integers(0, 256, (rows, held)).astype(np.uint8)))
        return made

    def linear(self, x, name, rows, columns):
        packed = self.packed(name, rows, columns, False)
        return self.node("MatMulNBits", [x, *packed], [f"{name}.out"], "com.microsoft", K=columns, N=rows, bits=self.bits,
                         block_size=self.block, accuracy_level=0)


def decoder(*, seed=0, bits=4, block=32, zeros=True, packed=False, quantized_table=True, opset=21, window=-1, softcap=0.0):
    g = Graph(seed, bits, block, zeros)
    if quantized_table:
        table = g.packed("embed", VOCABULARY, HIDDEN, True)
        x = g.node("GatherBlockQuantized", [table[0], "input_ids", *table[1:]], ["embed.out"], "com.microsoft", bits=bits,
                   block_size=block, gather_axis=0, quantize_axis=1)
    else:
        table = g.weight("embed", g.rng.standard_normal((VOCABULARY, HIDDEN)).astype(np.float32))
        x = g.node("Gather", [table, "input_ids"], ["embed.out"])
    one = g.weight("one", np.array([1], np.int64))
    axis = g.weight("axis", np.array(1, np.int64))
    sums = g.node("ReduceSum", ["attention_mask", one], ["mask.sum"], keepdims=1)
    less = g.node("Sub", [sums, one], ["mask.less"])
    lengths = g.node("Cast", [less], ["seqlens_k"], to=INT32)
    shape = g.node("Shape", ["attention_mask"], ["mask.shape"])
    total = g.node("Gather", [shape, axis], ["mask.total"])
    total = g.node("Cast", [total], ["total_seq_len"], to=INT32)
    angles = np.outer(np.arange(POSITIONS), 1.0 / 100 ** (np.arange(SIZE // 2) / (SIZE // 2)))
    cos = g.weight("cos_cache", np.cos(angles).astype(np.float32))
    sin = g.weight("sin_cache", np.sin(angles).astype(np.float32))
    scale = lambda name: g.weight(name, (g.rng.random(HIDDEN) + 0.5).astype(np.float32))
    normal = g.node("SimplifiedLayerNormalization", [x, scale("norm.0")], ["norm.out"], axis=-1, epsilon=1e-6, stash_type=1)
    skip = x
    for i in range(LAYERS):
        if packed:
            heads = [g.linear(normal, f"{i}.qkv", (HEADS + 2 * KV_HEADS) * SIZE, HIDDEN), "", ""]
        else:
            heads = [g.linear(normal, f"{i}.{part}", n * SIZE, HIDDEN)
                     for part, n in (("q", HEADS), ("k", KV_HEADS), ("v", KV_HEADS))]
        past = [f"past_key_values.{i}.{what}" for what in ("key", "value")]
        outputs = [f"{i}.attention", *(f"present.{i}.{what}" for what in ("key", "value"))]
        y = g.node("GroupQueryAttention", [*heads, *past, lengths, total, cos, sin], outputs, "com.microsoft", num_heads=HEADS,
                   kv_num_heads=KV_HEADS, scale=1 / SIZE ** 0.5, local_window_size=window, softcap=softcap, do_rotary=1,
                   rotary_interleaved=0)
        y = g.linear(y, f"{i}.o", HIDDEN, HIDDEN)
        outputs = [f"{i}.post", "", "", f"{i}.sum"]
        y = g.node("SkipSimplifiedLayerNormalization", [skip, y, scale(f"{i}.post.norm")], outputs, "com.microsoft", epsilon=1e-6)
        gate = g.linear(y, f"{i}.gate", INNER, HIDDEN)
        up = g.linear(y, f"{i}.up", INNER, HIDDEN)
        sigmoid = g.node("Sigmoid", [gate], [f"{i}.sigmoid"])
        gate = g.node("Mul", [gate, sigmoid], [f"{i}.silu"])
        down = g.linear(g.node("Mul", [gate, up], [f"{i}.inner"]), f"{i}.down", HIDDEN, INNER)
        last = i + 1 == LAYERS
        outputs = [f"{i}.next"] if last else [f"{i}.next", "", "", f"{i}.skip"]
        normal = g.node("SkipSimplifiedLayerNormalization", [f"{i}.sum", down, scale(f"{i}.norm")], outputs, "com.microsoft",
                        epsilon=1e-6)
        skip = f"{i}.skip"
    g.linear(normal, "lm_head", VOCABULARY, HIDDEN)
    g.nodes[-1].output[0] = "logits"
    kv = lambda name, length: helper.make_tensor_value_info(name, FLOAT, ["batch_size", KV_HEADS, length, SIZE])
    inputs = [helper.make_tensor_value_info("input_ids", INT64, ["batch_size", "sequence_length"]),
              helper.make_tensor_value_info("attention_mask", INT64, ["batch_size", "total_sequence_length"])]
    results = [helper.make_tensor_value_info("logits", FLOAT, ["batch_size", "sequence_length", VOCABULARY])]
    for i in range(LAYERS):
        for what in ("key", "value"):
            inputs.append(kv(f"past_key_values.{i}.{what}", "past_sequence_length"))
            results.append(kv(f"present.{i}.{what}", "total_sequence_length"))
    graph = helper.make_graph(g.nodes, "main_graph", inputs, results, g.constants)
    opsets = [helper.make_opsetid("", opset), helper.make_opsetid("com.microsoft", 1)]
    return helper.make_model(graph, opset_imports=opsets, producer_name="decoder", ir_version=10 if opset > 20 else 7)


def models():
    yield "decoder", decoder()
    yield "decoder_packed", decoder(seed=1, packed=True, zeros=False, block=16, opset=14)
    yield "decoder_8_bits", decoder(seed=2, bits=8, quantized_table=False, window=3)
    yield "decoder_softcap", decoder(seed=3, softcap=5.0, opset=17)


def steps():
    """The inputs of a run: the tokens of each sequence, the size of the past, and the total length of each sequence."""
    yield "prompt", dict(tokens=5, past=0, lengths=[5])
    yield "prompts", dict(tokens=4, past=0, lengths=[4, 4])
    yield "step", dict(tokens=1, past=6, lengths=[7])
    yield "steps", dict(tokens=1, past=6, lengths=[7, 5])
    yield "more", dict(tokens=3, past=6, lengths=[9])


def feed(rng, tokens, past, lengths):
    batch, total = len(lengths), past + tokens
    mask = np.zeros((batch, total), np.int64)
    for b, n in enumerate(lengths):
        mask[b, total - n:] = 1
    made = {"input_ids": rng.integers(0, VOCABULARY, (batch, tokens)), "attention_mask": mask}
    for i in range(LAYERS):
        for what in ("key", "value"):
            made[f"past_key_values.{i}.{what}"] = rng.standard_normal((batch, KV_HEADS, past, SIZE)).astype(np.float32)
    return made


def by_runtime(path, inputs):
    options = onnxruntime.SessionOptions()
    options.log_severity_level = 4
    session = onnxruntime.InferenceSession(str(path), options, providers=["CPUExecutionProvider"])
    names = [o.name for o in session.get_outputs()]
    return dict(zip(names, session.run(names, inputs)))


def agree(what, found, wanted):
    assert sorted(found) == sorted(wanted), (what, sorted(found))
    for name, value in wanted.items():
        assert found[name].shape == value.shape, (what, name, found[name].shape, value.shape)
        worst = float(np.max(np.abs(found[name].astype(np.float64) - value), initial=0.0))
        bound = 1e-4 * max(1.0, float(np.max(np.abs(value), initial=0.0)))
        assert worst <= bound, f"{what}: {name} differs by {worst}, allowed {bound}"


def command(*words):
    done = subprocess.run([str(w) for w in words], capture_output=True, text=True, timeout=240)
    assert done.returncode == 0, f"{' '.join(map(str, words))}: {done.stderr}"
    return done.stderr


def operators(model):
    """The number of operators of each kind, and the operators of KEPT with their attributes."""
    # A number computed from a shape may be reshaped to a scalar.
    counts = collections.Counter(n.op_type for n in model.graph.node if n.op_type != "Reshape")
    of = lambda n: sorted((a.name, str(helper.get_attribute_value(a))) for a in n.attribute)
    kept = sorted((n.op_type, of(n)) for n in model.graph.node if n.op_type in KEPT)
    return counts, kept


def check(optc, name, model, folder):
    path = folder / f"{name}.onnx"
    onnx.save(model, str(path))
    said = command(optc, path, "--pass=", "-o", folder / "read.ir")
    assert "opaque" not in said, said
    rng = np.random.default_rng(0)
    data = {step: feed(rng, **given) for step, given in steps()}
    wanted = {step: by_runtime(path, inputs) for step, inputs in data.items()}
    for step, inputs in data.items():
        np.savez(folder / "in.npz", **inputs)
        for what, options in RUNS:
            command(optc, "run", *options, path, "--inputs", folder / "in.npz", "--output", folder / "out.npz")
            with np.load(folder / "out.npz") as found:
                agree(f"{name}, {step}, {what}", dict(found), wanted[step])
    weights = {t.name: t.raw_data for t in model.graph.initializer if t.data_type == TensorProto.UINT8}
    before, kept = operators(model)
    for target in ("onnx", "onnxruntime"):
        output = folder / f"{name}.{target}.onnx"
        command(optc, path, f"--target={target}", "--check", "-o", output)
        written = onnx.load(str(output))
        after, still = operators(written)
        assert still == kept, f"{name}, {target}: {after}, wanted {before}"
        assert sum(after.values()) <= sum(before.values()), f"{name}, {target}: {after}, wanted {before}"
        found = {t.name: t.raw_data for t in written.graph.initializer}
        assert all(found.get(n) == raw for n, raw in weights.items()), f"{name}, {target}: weights differ"
        for step, inputs in data.items():
            agree(f"{name}, {step}, written for {target}", by_runtime(output, inputs), wanted[step])


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("optc", type=pathlib.Path)
    parser.add_argument("--keep", type=pathlib.Path)
    args = parser.parse_args()
    failed, made = 0, list(models())
    for name, model in made:
        with tempfile.TemporaryDirectory() as scratch:
            folder = args.keep or pathlib.Path(scratch)
            try:
                check(args.optc.resolve(), name, model, folder)
            except AssertionError as error:
                failed += 1
                print(error, file=sys.stderr)
    print(f"onnxruntime {onnxruntime.__version__}: {len(made)} language models, {failed} failed")
    sys.exit(1 if failed else 0)


if __name__ == "__main__":
    main()
