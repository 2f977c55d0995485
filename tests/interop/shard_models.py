"""Small models with seeded weights, and their standard splits: batch on `data`, Megatron's columns and rows on `model`.

Also parts of them, whose splits of heads and windows need no collective.  A model is a function of a dictionary of weights and of inputs.  Names of weights end in `c` where their columns are
split, in `r` where their rows are; the first dimension of a weight that begins with `expert` is split.
"""
import jax
import jax.numpy as jnp
import numpy as np
from jax.sharding import NamedSharding, PartitionSpec as P

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


def crossed(w, name, x, y, count, mask=0.0):
    """Attention with a product each for queries, keys and values."""
    q = heads(x @ w[f"{name}.q.c"], count)
    k, v = (heads(y @ w[f"{name}.{part}.c"], count) for part in "kv")
    return attend(q, k, v, mask)


def separate(w, name, x, y, count, mask=0.0):
    return crossed(w, name, x, y, count, mask) @ w[f"{name}.out.r"]


def reshaped(w, x):
    """Attention with one product for queries, keys and values, split into (3, heads, size) by a reshape."""
    y = (x @ w["qkv.c"] + w["qkv_bias.c"]).reshape(*x.shape[:2], 3, 8, 8)
    return attend(*y.transpose(2, 0, 3, 1, 4))


def cut(w, x):
    """Attention with one product for queries, keys and values, cut in three along the columns."""
    q, k, v = jnp.split(x @ w["qkv.c"] + w["qkv_bias.c"], 3, axis=-1)
    mask = jnp.where(jnp.tril(jnp.ones((TOKENS, TOKENS), bool)), 0.0, -1e9)
    return attend(heads(q, 8), heads(k, 8), heads(v, 8), mask)


def grouped(w, x):
    """Attention with rotations, eight heads of queries, and four of keys and values."""
    def rotated(x):
        angle = np.arange(TOKENS)[:, None] / 100 ** (np.arange(4) / 4)
        cos, sin = (np.concatenate([f(angle)] * 2, -1).astype(np.float32) for f in (np.cos, np.sin))
        a, b = jnp.split(x, 2, axis=-1)
        return x * cos + jnp.concatenate([-b, a], axis=-1) * sin

    q, k, v = (heads(x @ w[f"{name}.c"], count) for name, count in (("q", 8), ("k", 4), ("v", 4)))
    k, v = (jnp.broadcast_to(t[:, :, None], (*t.shape[:2], 2, *t.shape[2:])).reshape(q.shape) for t in (rotated(k), v))
    mask = jnp.where(jnp.tril(jnp.ones((TOKENS, TOKENS), bool)), 0.0, -1e9)
    return attend(rotated(q), k, v, mask)


def windowed(w, image):
    """Attention in windows of 4 x 4 of an image of 8 x 8."""
    n, side, size = image.shape[0], 8, 4
    x = image.reshape(n, side // size, size, side // size, size, WIDTH).transpose(0, 1, 3, 2, 4, 5)
    y = (x.reshape(-1, size * size, WIDTH) @ w["qkv.c"]).reshape(-1, size * size, 3, 8, 8).transpose(2, 0, 3, 1, 4)
    x = attend(*y, w["bias"]) @ w["out.r"]
    x = x.reshape(n, side // size, side // size, size, size, WIDTH).transpose(0, 1, 3, 2, 4, 5)
    return x.reshape(n, side, side, WIDTH)


def vit(w, image):
    n, side = image.shape[0], 8
    x = image.reshape(n, 4, side, 4, side, 3).transpose(0, 1, 3, 2, 4, 5).reshape(n, 16, side * side * 3)
    x = x @ w["patch"] + w["position"]
    x = x + reshaped(w, norm(w, "norm1", x)) @ w["out.r"]
    x = x + mlp(w, "mlp", norm(w, "norm2", x))
    return jnp.mean(x, axis=1) @ w["head"]


def bert(w, ids, mask):
    x = norm(w, "embed_norm", w["embed"][ids] + w["position"])
    mask = (1.0 - mask[:, None, None, :]) * -1e4
    x = norm(w, "norm1", x + separate(w, "attention", x, x, 12, mask))
    return norm(w, "norm2", x + mlp(w, "mlp", x))


def gpt2(w, ids):
    x = w["embed"][ids] + w["position"]
    x = x + cut(w, norm(w, "norm1", x)) @ w["out.r"]
    x = x + mlp(w, "mlp", norm(w, "norm2", x))
    return x @ w["embed"].T


def llama(w, ids):
    def rms(name, x):
        return x * jax.lax.rsqrt(jnp.mean(x * x, -1, keepdims=True) + 1e-5) * w[name]

    x = w["embed"][ids]
    x = x + grouped(w, rms("norm1", x)) @ w["out.r"]
    y = rms("norm2", x)
    return x + (jax.nn.silu(y @ w["gate.c"]) * (y @ w["up.c"])) @ w["down.r"]


def swin(w, image):
    """Windows that are shifted by 2."""
    x = jnp.roll(norm(w, "norm1", image), (-2, -2), axis=(1, 2))
    x = image + jnp.roll(windowed(w, x), (2, 2), axis=(1, 2))
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


# Parts: a function, its weights, its inputs, and the number of heads. The batch of inputs and results is split over `data`,
# and the heads, side by side in the last dimension of results, over `model`. The splits of weights are free.
ROWS = ("x", (BATCH, TOKENS, WIDTH))
ATTENTIONS = {
    "vit": (reshaped, {"qkv.c": (WIDTH, 3 * WIDTH), "qkv_bias.c": (3 * WIDTH,)}, [ROWS], 8),
    "bert": (lambda w, x, mask: crossed(w, "attention", x, x, 12, (1.0 - mask[:, None, None, :]) * -1e4),
             {f"attention.{part}.c": (WIDTH, 96) for part in "qkv"}, [ROWS, MASK], 12),
    "gpt2": (cut, {"qkv.c": (WIDTH, 3 * WIDTH), "qkv_bias.c": (3 * WIDTH,)}, [ROWS], 8),
    "llama": (grouped, {"q.c": (WIDTH, 64), "k.c": (WIDTH, 32), "v.c": (WIDTH, 32)}, [ROWS], 8),
    "whisper": (lambda w, x, y: crossed(w, "cross", x, y, 8), {f"cross.{part}.c": (WIDTH, WIDTH) for part in "qkv"},
                [ROWS, ("sound", (BATCH, 32, WIDTH))], 8),
}
WINDOWS = (windowed, {"qkv.c": (WIDTH, 3 * WIDTH), "out.r": (WIDTH, WIDTH), "bias": (8, 16, 16)},
           [("image", (BATCH, 8, 8, WIDTH))])
# The splits of images and results: batch, rows of windows, columns of windows.
WINDOW_SPLITS = {"8": P("model"), "4x2": P("data", "model"), "2x2x2": P("data", "extra", "model")}


def flat(function, shapes, inputs):
    """A model as a function of a flat list, and the values."""
    rng = np.random.default_rng(7)
    values = []
    for shape in shapes.values():
        values.append((rng.standard_normal(shape) / np.sqrt(shape[0] if len(shape) > 1 else 8)).astype(np.float32))
    for key, shape in inputs:
        high = {"ids": 100, "mask": 2}.get(key)
        value = rng.integers(0, high, shape) if high else rng.standard_normal(shape)
        values.append(value.astype(np.int32 if key == "ids" else np.float32))
    return lambda *args: function(dict(zip(shapes, args)), *args[len(shapes):]), values


def built(name):
    """A model as a function of a flat list, the values, and the axes that the standard way splits in each dimension."""
    function, shapes, inputs = MODELS[name]
    splits = []
    for key, shape in shapes.items():
        kind = "e" if key.startswith("expert") else key[-2:]
        splits.append({".c": P(*[None] * (len(shape) - 1), "model"), ".r": P("model"), "e": P("model")}.get(kind, P()))
    return *flat(function, shapes, inputs), splits + [P("data")] * len(inputs)


def parts(mesh, label):
    """The parts that the mesh splits: a name, a flat function, values, splits (None is free), and the split of the result."""
    for name, (function, shapes, inputs, heads) in ATTENTIONS.items():
        if heads % mesh["model"] == 0:
            splits = [None] * len(shapes) + [P("data")] * len(inputs)
            yield f"{name} attention", *flat(function, shapes, inputs), splits, P("data", None, "model")
    function, shapes, inputs = WINDOWS
    split = WINDOW_SPLITS[label]
    yield "swin windows", *flat(function, shapes, inputs), [None] * len(shapes) + [split], split
