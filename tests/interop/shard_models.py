"""Small models with seeded weights, and their standard splits: batch on `data`, Megatron's columns and rows on `model`.

A model is a function of a dictionary of weights and of inputs.  Names of weights end in `c` where their columns are
split, in `r` where their rows are; the first dimension of a weight that begins with `expert` is split.
"""
import jax
import jax.numpy as jnp
import numpy as np
from jax.sharding import PartitionSpec as P

BATCH, WIDTH, TOKENS = 8, 64, 16


def norm(w, name, x):
    x = x - jnp.mean(x, -1, keepdims=True)
    return x * jax.lax.rsqrt(jnp.mean(x * x, -1, keepdims=True) + 1e-5) * w[f"{name}.scale"] + w[f"{name}.shift"]


def heads(x, count):
    return x.reshape(*x.shape[:2], count, -1).transpose(0, 2, 1, 3)


def attend(q, k, v, mask=0.0):
    scores = jnp.einsum("bhqd,bhkd->bhqk", q, k) / np.sqrt(q.shape[-1])
    out = jnp.einsum("bhqk,bhkd->bhqd", jax.nn.softmax(scores + mask, axis=-1), v)
    return out.transpose(0, 2, 1, 3).reshape(q.shape[0], q.shape[2], -1)


def mlp(w, name, x):
    x = jax.nn.gelu(x @ w[f"{name}.up.c"] + w[f"{name}.up_bias.c"])
    return x @ w[f"{name}.down.r"] + w[f"{name}.down_bias"]


def separate(w, name, x, y, count, mask=0.0):
    """Attention with a product each for queries, keys and values."""
    q = heads(x @ w[f"{name}.q.c"], count)
    k, v = (heads(y @ w[f"{name}.{part}.c"], count) for part in "kv")
    return attend(q, k, v, mask) @ w[f"{name}.out.r"]


def vit(w, image):
    """One product for queries, keys and values, split into (3, heads, size) by a reshape."""
    n, side = image.shape[0], 8
    x = image.reshape(n, 4, side, 4, side, 3).transpose(0, 1, 3, 2, 4, 5).reshape(n, 16, side * side * 3)
    x = x @ w["patch"] + w["position"]
    y = (norm(w, "norm1", x) @ w["qkv.c"] + w["qkv_bias.c"]).reshape(n, 16, 3, 8, 8)
    q, k, v = y.transpose(2, 0, 3, 1, 4)
    x = x + attend(q, k, v) @ w["out.r"]
    x = x + mlp(w, "mlp", norm(w, "norm2", x))
    return jnp.mean(x, axis=1) @ w["head"]


def bert(w, ids, mask):
    x = norm(w, "embed_norm", w["embed"][ids] + w["position"])
    mask = (1.0 - mask[:, None, None, :]) * -1e4
    x = norm(w, "norm1", x + separate(w, "attention", x, x, 12, mask))
    return norm(w, "norm2", x + mlp(w, "mlp", x))


def gpt2(w, ids):
    """One product for queries, keys and values, cut in three along the columns."""
    x = w["embed"][ids] + w["position"]
    mask = jnp.where(jnp.tril(jnp.ones((TOKENS, TOKENS), bool)), 0.0, -1e9)
    q, k, v = jnp.split(norm(w, "norm1", x) @ w["qkv.c"] + w["qkv_bias.c"], 3, axis=-1)
    x = x + attend(heads(q, 8), heads(k, 8), heads(v, 8), mask) @ w["out.r"]
    x = x + mlp(w, "mlp", norm(w, "norm2", x))
    return x @ w["embed"].T


def llama(w, ids):
    """Eight heads of queries, four of keys and values."""
    def rms(name, x):
        return x * jax.lax.rsqrt(jnp.mean(x * x, -1, keepdims=True) + 1e-5) * w[name]

    def rotated(x):
        angle = np.arange(TOKENS)[:, None] / 100 ** (np.arange(4) / 4)
        cos, sin = (np.concatenate([f(angle)] * 2, -1).astype(np.float32) for f in (np.cos, np.sin))
        a, b = jnp.split(x, 2, axis=-1)
        return x * cos + jnp.concatenate([-b, a], axis=-1) * sin

    x = w["embed"][ids]
    y = rms("norm1", x)
    q, k, v = (heads(y @ w[f"{name}.c"], count) for name, count in (("q", 8), ("k", 4), ("v", 4)))
    k, v = (jnp.broadcast_to(t[:, :, None], (*t.shape[:2], 2, *t.shape[2:])).reshape(q.shape) for t in (rotated(k), v))
    mask = jnp.where(jnp.tril(jnp.ones((TOKENS, TOKENS), bool)), 0.0, -1e9)
    x = x + attend(rotated(q), k, v, mask) @ w["out.r"]
    y = rms("norm2", x)
    return x + (jax.nn.silu(y @ w["gate.c"]) * (y @ w["up.c"])) @ w["down.r"]


def swin(w, image):
    """Windows of 4 x 4 of an image of 8 x 8, shifted by 2."""
    n, side, size = image.shape[0], 8, 4
    x = jnp.roll(norm(w, "norm1", image), (-2, -2), axis=(1, 2))
    x = x.reshape(n, side // size, size, side // size, size, WIDTH).transpose(0, 1, 3, 2, 4, 5).reshape(-1, size * size, WIDTH)
    y = (x @ w["qkv.c"]).reshape(-1, size * size, 3, 8, 8).transpose(2, 0, 3, 1, 4)
    x = attend(*y, w["bias"]) @ w["out.r"]
    x = x.reshape(n, side // size, side // size, size, size, WIDTH).transpose(0, 1, 3, 2, 4, 5).reshape(n, side, side, WIDTH)
    x = image + jnp.roll(x, (2, 2), axis=(1, 2))
    return x + mlp(w, "mlp", norm(w, "norm2", x))


def whisper(w, sound, ids):
    """An encoder behind a convolution, and a decoder that attends to it."""
    dims = ("NHC", "HIO", "NHC")
    x = jax.nn.gelu(jax.lax.conv_general_dilated(sound, w["conv"], (2,), ((1, 1),), dimension_numbers=dims))
    x = x + separate(w, "encoder", norm(w, "norm1", x), norm(w, "norm1", x), 8)
    x = x + mlp(w, "encoder_mlp", norm(w, "norm2", x))
    y = w["embed"][ids]
    mask = jnp.where(jnp.tril(jnp.ones((TOKENS, TOKENS), bool)), 0.0, -1e9)
    y = y + separate(w, "self", norm(w, "norm3", y), norm(w, "norm3", y), 8, mask)
    y = y + separate(w, "cross", norm(w, "norm4", y), x, 8)
    return y + mlp(w, "decoder_mlp", norm(w, "norm5", y))


def moe(w, x):
    """Each token goes to one of eight experts, in dense form."""
    gates = jax.nn.softmax(x @ w["router"], axis=-1)
    chosen = jnp.where(jnp.argmax(gates, axis=-1)[..., None] == jnp.arange(gates.shape[-1]), gates, 0.0)
    hidden = jax.nn.relu(jnp.einsum("bsd,edf->ebsf", x, w["expert_up"]))
    return x + jnp.einsum("ebsf,efd,bse->bsd", hidden, w["expert_down"], chosen)


def norms(*names):
    return {f"{name}.{part}": (WIDTH,) for name in names for part in ("scale", "shift")}


def mlps(*names):
    shapes = {"up.c": (WIDTH, 256), "up_bias.c": (256,), "down.r": (256, WIDTH), "down_bias": (WIDTH,)}
    return {f"{name}.{part}": shape for name in names for part, shape in shapes.items()}


def attentions(*names, inner=WIDTH):
    columns = {f"{name}.{part}.c": (WIDTH, inner) for name in names for part in "qkv"}
    return columns | {f"{name}.out.r": (inner, WIDTH) for name in names}


MERGED = {"qkv.c": (WIDTH, 3 * WIDTH), "qkv_bias.c": (3 * WIDTH,), "out.r": (WIDTH, WIDTH)}
IDS, MASK = ("ids", (BATCH, TOKENS)), ("mask", (BATCH, TOKENS))
MODELS = {
    "vit": (vit, MERGED | norms("norm1", "norm2") | mlps("mlp") | {
        "patch": (192, WIDTH), "position": (16, WIDTH), "head": (WIDTH, 10)}, [("image", (BATCH, 32, 32, 3))]),
    "bert": (bert, attentions("attention", inner=96) | norms("embed_norm", "norm1", "norm2") | mlps("mlp") | {
        "embed": (100, WIDTH), "position": (TOKENS, WIDTH)}, [IDS, MASK]),
    "gpt2": (gpt2, MERGED | norms("norm1", "norm2") | mlps("mlp") | {
        "embed": (100, WIDTH), "position": (TOKENS, WIDTH)}, [IDS]),
    "llama": (llama, {"embed": (100, WIDTH), "norm1": (WIDTH,), "norm2": (WIDTH,), "q.c": (WIDTH, 64), "k.c": (WIDTH, 32),
                      "v.c": (WIDTH, 32), "out.r": (64, WIDTH), "gate.c": (WIDTH, 256), "up.c": (WIDTH, 256),
                      "down.r": (256, WIDTH)}, [IDS]),
    "swin": (swin, {"qkv.c": (WIDTH, 3 * WIDTH), "out.r": (WIDTH, WIDTH), "bias": (8, 16, 16)} | norms("norm1", "norm2")
             | mlps("mlp"), [("image", (BATCH, 8, 8, WIDTH))]),
    "whisper": (whisper, attentions("encoder", "self", "cross") | norms("norm1", "norm2", "norm3", "norm4", "norm5")
                | mlps("encoder_mlp", "decoder_mlp") | {"conv": (3, 20, WIDTH), "embed": (100, WIDTH)},
                [("sound", (BATCH, 32, 20)), IDS]),
    "moe": (moe, {"router": (WIDTH, 8), "expert_up": (8, WIDTH, 128), "expert_down": (8, 128, WIDTH)},
            [("x", (BATCH, TOKENS, WIDTH))]),
}


def built(name):
    """A model as a function of a flat list, the values, and the axes that the standard way splits in each dimension."""
    function, shapes, inputs = MODELS[name]
    rng = np.random.default_rng(7)
    values, splits = [], []
    for key, shape in shapes.items():
        values.append((rng.standard_normal(shape) / np.sqrt(shape[0] if len(shape) > 1 else 8)).astype(np.float32))
        kind = "e" if key.startswith("expert") else key[-2:]
        splits.append({".c": P(*[None] * (len(shape) - 1), "model"), ".r": P("model"), "e": P("model")}.get(kind, P()))
    for key, shape in inputs:
        high = {"ids": 100, "mask": 2}.get(key)
        value = rng.integers(0, high, shape) if high else rng.standard_normal(shape)
        values.append(value.astype(np.int32 if key == "ids" else np.float32))
        splits.append(P("data"))

    def flat(*args):
        return function(dict(zip(shapes, args)), *args[len(shapes):])

    return flat, values, splits
