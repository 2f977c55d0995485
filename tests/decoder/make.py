"""Writes the decoder layers of this folder: `python make.py`."""

import functools
import pathlib

import jax
import jax.numpy as jnp
import numpy as np
import onnx
from onnx import TensorProto, helper

HERE = pathlib.Path(__file__).parent
WIDTH, HEADS, GROUPS, HEAD, ROWS, UNITS = 256, 8, 2, 32, 4096, 512
WEIGHTS = {
    "norm1": (WIDTH,),
    "norm2": (WIDTH,),
    "wq": (WIDTH, HEADS * HEAD),
    "wk": (WIDTH, GROUPS * HEAD),
    "wv": (WIDTH, GROUPS * HEAD),
    "wo": (HEADS * HEAD, WIDTH),
    "gate": (WIDTH, UNITS),
    "up": (WIDTH, UNITS),
    "down": (UNITS, WIDTH),
}


def in_onnx():
    """The layer whose cache grows by a `Concat`."""
    nodes, constants = [], []

    def constant(name, value):
        constants.append(onnx.numpy_helper.from_array(np.array(value), name))
        return name

    def op(kind, operands, name, **attributes):
        nodes.append(helper.make_node(kind, operands, [name], name=name, **attributes))
        return name

    def norm(x, name):
        square = op("Mul", [x, x], f"{name}_square")
        mean = op("ReduceMean", [square], f"{name}_mean", axes=[-1], keepdims=1)
        root = op("Sqrt", [op("Add", [mean, "epsilon"], f"{name}_sum")], f"{name}_root")
        return op("Mul", [op("Div", [x, root], f"{name}_whole"), name], f"{name}_scaled")

    def heads(x, weight, count):
        product = op("MatMul", [x, weight], f"{weight}_product")
        shape = constant(f"{weight}_shape", np.array([1, 1, count, HEAD], np.int64))
        return op("Transpose", [op("Reshape", [product, shape], f"{weight}_heads")], f"{weight}_first", perm=[0, 2, 1, 3])

    def rotated(x):
        low = op("Slice", [x, "zero", "half", "last"], f"{x}_low")
        high = op("Slice", [x, "half", "whole", "last"], f"{x}_high")
        turned = op("Concat", [op("Neg", [high], f"{x}_negative"), low], f"{x}_turned", axis=3)
        return op("Add", [op("Mul", [x, "cos"], f"{x}_cos"), op("Mul", [turned, "sin"], f"{x}_sin")], f"{x}_rotated")

    def repeated(x):
        wide = op("Unsqueeze", [x, "groups_axis"], f"{x}_wide")
        return op("Reshape", [op("Expand", [wide, "groups_shape"], f"{x}_groups"), "heads_shape"], f"{x}_repeated")

    constant("epsilon", np.float32(1e-5))
    for name, value in [("zero", 0), ("half", HEAD // 2), ("whole", HEAD), ("last", 3), ("groups_axis", 2)]:
        constant(name, np.array([value], np.int64))
    constant("groups_shape", np.array([1, GROUPS, HEADS // GROUPS, 1, 1], np.int64))
    constant("heads_shape", np.array([1, HEADS, -1, HEAD], np.int64))
    constant("flat", np.array([1, 1, HEADS * HEAD], np.int64))
    constant("scale", np.float32(HEAD**-0.5))
    x = norm("x", "norm1")
    q, k, v = heads(x, "wq", HEADS), heads(x, "wk", GROUPS), heads(x, "wv", GROUPS)
    keys = op("Concat", ["past_k", rotated(k)], "present_k", axis=2)
    values = op("Concat", ["past_v", v], "present_v", axis=2)
    turned = op("Transpose", [repeated(keys)], "keys", perm=[0, 1, 3, 2])
    scores = op("Mul", [op("MatMul", [rotated(q), turned], "products"), "scale"], "scores")
    context = op("MatMul", [op("Softmax", [scores], "weights", axis=-1), repeated(values)], "context")
    flat = op("Reshape", [op("Transpose", [context], "tokens", perm=[0, 2, 1, 3]), "flat"], "joined")
    h = op("Add", ["x", op("MatMul", [flat, "wo"], "projected")], "h")
    x = norm(h, "norm2")
    gate = op("MatMul", [x, "gate"], "gate_product")
    gate = op("Mul", [gate, op("Sigmoid", [gate], "gate_sigmoid")], "gated")
    units = op("Mul", [gate, op("MatMul", [x, "up"], "up_product")], "units")
    op("Add", [h, op("MatMul", [units, "down"], "down_product")], "y")

    def value(name, shape):
        return helper.make_tensor_value_info(name, TensorProto.FLOAT, shape)

    past, present = (1, GROUPS, ROWS, HEAD), (1, GROUPS, ROWS + 1, HEAD)
    inputs = {"x": (1, 1, WIDTH), "past_k": past, "past_v": past, "cos": (1, 1, 1, HEAD), "sin": (1, 1, 1, HEAD)}
    outputs = {"y": (1, 1, WIDTH), "present_k": present, "present_v": present}
    graph = helper.make_graph(
        nodes,
        "decoder",
        [value(name, shape) for name, shape in (inputs | WEIGHTS).items()],
        [value(name, shape) for name, shape in outputs.items()],
        constants,
    )
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)
    onnx.checker.check_model(model, full_check=True)
    onnx.save(model, HERE / "grow.onnx")


def layer(way, weights, keys, values, x, position, cos, sin):
    """The layer with a cache of rows, or of rows of heads for `heads`."""

    def norm(x, scale):
        return x * jax.lax.rsqrt(jnp.mean(x * x, -1, keepdims=True) + 1e-5) * scale

    def rotated(x):
        low, high = jnp.split(x, 2, -1)
        return x * cos + jnp.concatenate([-high, low], -1) * sin

    def written(cache, row):
        match way:
            case "grow":
                return jnp.concatenate([cache, row], 1)
            case "update":
                return jax.lax.dynamic_update_slice(cache, row, (0, position, 0, 0))
            case "heads":
                return jax.lax.dynamic_update_slice(cache, row.transpose(0, 2, 1, 3), (0, 0, position, 0))
            case "scatter":
                return cache.at[:, position].set(row[:, 0])

    n = norm(x, weights["norm1"])
    q = rotated((n @ weights["wq"]).reshape(1, 1, HEADS, HEAD))
    k = rotated((n @ weights["wk"]).reshape(1, 1, GROUPS, HEAD))
    v = (n @ weights["wv"]).reshape(1, 1, GROUPS, HEAD)
    keys, values = written(keys, k), written(values, v)
    rows = [cache.transpose(0, 2, 1, 3) if way == "heads" else cache for cache in (keys, values)]
    all_keys, all_values = (jnp.repeat(cache, HEADS // GROUPS, 2) for cache in rows)
    scores = jnp.einsum("bqhd,bkhd->bhqk", q, all_keys) * HEAD**-0.5
    if way != "grow":
        scores = jnp.where(jnp.arange(ROWS) <= position, scores, -1e30)
    context = jnp.einsum("bhqk,bkhd->bqhd", jax.nn.softmax(scores, -1), all_values)
    h = x + context.reshape(1, 1, HEADS * HEAD) @ weights["wo"]
    n = norm(h, weights["norm2"])
    return h + (jax.nn.silu(n @ weights["gate"]) * (n @ weights["up"])) @ weights["down"], keys, values


def in_jax(way):
    """The layer as JAX lowers it; where the cache keeps its size it is donated."""
    array = functools.partial(jax.ShapeDtypeStruct, dtype=jnp.float32)
    weights = {name: array(shape) for name, shape in WEIGHTS.items()}
    cache = array((1, GROUPS, ROWS, HEAD) if way == "heads" else (1, ROWS, GROUPS, HEAD))
    position = jax.ShapeDtypeStruct((), jnp.int32)
    made = jax.jit(functools.partial(layer, way), donate_argnums=() if way == "grow" else (1, 2))
    angles = array((1, 1, 1, HEAD))
    lowered = made.lower(weights, cache, cache, array((1, 1, WIDTH)), position, angles, angles)
    (HERE / f"{way}.mlir").write_text(lowered.as_text())


if __name__ == "__main__":
    in_onnx()
    for each in ["grow", "update", "heads", "scatter"]:
        in_jax(each)
