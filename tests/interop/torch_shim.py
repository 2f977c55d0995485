"""The part of torch that modules of `--emit=triton` use, on numpy, for Triton's interpreter.

`install()` makes it `torch` if torch itself is not installed.  torch is several hundred megabytes; the interpreter takes
any tensor that has an address, an element type and a storage.  bfloat16 lies in memory as 16 bits, and computes in f32.
"""
import sys
import types

import numpy as np


class Type:
    def __init__(self, name, stored, computes=None):
        self.name, self.stored, self.computes = name, np.dtype(stored), np.dtype(computes or stored)

    def __repr__(self):
        return f"torch.{self.name}"


TYPES = {name: Type(name, name) for name in
         ("float64", "float32", "float16", "int64", "int32", "int16", "int8", "uint8", "uint16", "uint32", "uint64")}
TYPES["bool"] = Type("bool", np.bool_)
TYPES["bfloat16"] = Type("bfloat16", np.uint16, np.float32)


def rounded(x):
    """f32 as the bits of bfloat16, ties to even."""
    bits = np.ascontiguousarray(x, np.float32).view(np.uint32)
    near = (bits + 0x7FFF + ((bits >> 16) & 1)) >> 16
    return np.where(np.isnan(x), 0x7FC0, near).astype(np.uint16)


class Storage:
    def __init__(self, array):
        self.array = array

    def data_ptr(self):
        return self.array.ctypes.data

    def cpu(self):
        return self

    def copy_(self, other):
        pass


class Tensor:
    """A strided view of a numpy array."""

    def __init__(self, data, dtype, base=None):
        self.data, self.dtype, self.base = data, dtype, base if base is not None else data
        self.device = "cpu"

    @staticmethod
    def of(x, dtype):
        """Numbers in the type in which they compute, stored in a type."""
        data = rounded(x) if dtype.name == "bfloat16" else np.ascontiguousarray(x).astype(dtype.stored)
        return Tensor(np.asarray(data).reshape(np.shape(x)), dtype)

    def numpy(self):
        """Numbers in the type in which they compute."""
        if self.dtype.name == "bfloat16":
            return (np.ascontiguousarray(self.data).astype(np.uint32) << 16).view(np.float32)
        return self.data

    shape = property(lambda self: self.data.shape)
    mT = property(lambda self: self.view_of(np.swapaxes(self.data, -1, -2)))

    def view_of(self, data):
        return Tensor(data, self.dtype, self.base)

    # Triton's interpreter copies storages to the host and back; here they are there already.
    def data_ptr(self):
        return self.data.ctypes.data

    def untyped_storage(self):
        return Storage(self.base)

    def storage_offset(self):
        return self

    def size(self):
        return self.data.shape

    def stride(self):
        return tuple(s // self.data.itemsize for s in self.data.strides)

    def new_empty(self, *_, **__):
        return Tensor(self.data, self.dtype, self.base)

    def set_(self, storage, whole, *_):
        self.data, self.base = whole.data, storage.array

    def dim(self):
        return self.data.ndim

    def to(self, where):
        return Tensor.of(self.numpy().astype(where.computes), where) if isinstance(where, Type) else self

    def reshape(self, *shape):
        shape = shape[0] if len(shape) == 1 and isinstance(shape[0], (tuple, list)) else shape
        return self.view_of(self.data.reshape(shape))

    def permute(self, *order):
        order = order[0] if len(order) == 1 and isinstance(order[0], (tuple, list)) else order
        return self.view_of(np.transpose(self.data, order))

    def expand(self, *shape):
        shape = shape[0] if len(shape) == 1 and isinstance(shape[0], (tuple, list)) else shape
        return self.view_of(np.broadcast_to(self.data, shape))

    def unsqueeze(self, axis):
        return self.view_of(np.expand_dims(self.data, axis))

    def repeat(self, repeats):
        return Tensor(np.tile(self.data, repeats), self.dtype)

    def __getitem__(self, at):
        at = tuple(i.data if isinstance(i, Tensor) else i for i in (at if isinstance(at, tuple) else (at,)))
        return self.view_of(self.data[at])


def plain(x):
    return x.numpy() if isinstance(x, Tensor) else x


def typed(*args):
    return next((a.dtype for a in args if isinstance(a, Tensor) and a.dim()), None) or args[0].dtype


def lifted(function, truth=False):
    """A function of numpy on tensors; its result has the type of the first operand, or is a truth value."""
    def call(*args):
        found = function(*map(plain, args))
        return Tensor.of(found, TYPES["bool"] if truth else typed(*args))
    return call


for sign, function in {"add": np.add, "sub": np.subtract, "mul": np.multiply, "and": np.bitwise_and,
                       "or": np.bitwise_or, "xor": np.bitwise_xor, "truediv": np.true_divide}.items():
    setattr(Tensor, f"__{sign}__", lifted(function))
    setattr(Tensor, f"__r{sign}__", lifted(lambda b, a, f=function: f(a, b)))
for sign, function in {"eq": np.equal, "ne": np.not_equal, "lt": np.less, "le": np.less_equal,
                       "gt": np.greater, "ge": np.greater_equal}.items():
    setattr(Tensor, f"__{sign}__", lifted(function, True))
Tensor.__neg__ = lifted(np.negative)
Tensor.__invert__ = lifted(np.invert)
Tensor.__hash__ = object.__hash__


def empty(shape, dtype, device=None):
    # Elements that no kernel writes show.
    hole = np.full(shape, 0x7FC0 if dtype.name == "bfloat16" else (np.nan if dtype.stored.kind == "f" else 77), dtype.stored)
    return Tensor(hole, dtype)


def tensor(values, dtype=None, device=None):
    return Tensor.of(np.asarray(values), dtype or TYPES["int64"])


def module():
    torch = types.ModuleType("torch")
    for name, dtype in TYPES.items():
        setattr(torch, name, dtype)
    torch.empty, torch.tensor, torch.Tensor = empty, tensor, Tensor
    torch.device = str
    torch.full = lambda shape, x, dtype, device=None: Tensor.of(np.full(shape, x, dtype.computes), dtype)
    torch.arange = lambda n, device=None: Tensor.of(np.arange(n), TYPES["int64"])
    torch.frombuffer = lambda data, dtype: Tensor(np.frombuffer(data, dtype.stored).copy(), dtype)
    torch.matmul = lifted(np.matmul)
    torch.einsum = lambda equation, *args: lifted(lambda *a: np.einsum(equation, *a, optimize=True))(*args)
    torch.where = lambda c, a, b: Tensor.of(np.where(plain(c), plain(a), plain(b)), typed(*[x for x in (a, b) if isinstance(x, Tensor)]))
    torch.cat = lambda parts, axis: Tensor.of(np.concatenate([plain(p) for p in parts], axis), parts[0].dtype)
    torch.flip = lambda x, axes: x.view_of(np.flip(x.data, axes))
    torch.narrow = lambda x, axis, start, size: x.view_of(np.take(x.data, range(start, start + size), axis))
    torch.index_select = lambda x, axis, i: Tensor.of(np.take(plain(x), plain(i), axis), x.dtype)
    torch.gather = lambda x, axis, i: Tensor.of(np.take_along_axis(plain(x), plain(i), axis), x.dtype)
    torch.softmax = lambda x, axis: lifted(softmax)(x, axis)
    for name, function in {"sum": np.sum, "mean": np.mean, "amax": np.max, "amin": np.min}.items():
        setattr(torch, name, lambda x, dims, keep, f=function: Tensor.of(f(plain(x), dims, keepdims=keep), x.dtype))
    for name in ("exp", "log", "sqrt", "abs", "floor", "ceil", "sin", "cos", "tanh", "maximum", "minimum", "isnan", "isinf"):
        setattr(torch, name, lifted(getattr(np, name), name.startswith("is")))
    torch.round = lifted(np.round)
    torch.relu = lifted(lambda x: np.maximum(x, 0))
    torch.rsqrt = lifted(lambda x: 1 / np.sqrt(x))
    torch.sigmoid = lifted(lambda x: 1 / (1 + np.exp(-x)))
    torch.nan_to_num = lifted(np.nan_to_num)
    torch.clamp = lambda x, low, high: Tensor.of(np.clip(plain(x), low, high), x.dtype)
    torch.triu = lambda x, k: Tensor.of(np.triu(plain(x), k), x.dtype)
    torch.tril = lambda x, k: Tensor.of(np.tril(plain(x), k), x.dtype)
    torch.nn = types.SimpleNamespace(functional=types.SimpleNamespace(pad=pad))
    return torch


def softmax(x, axis):
    x = np.exp(x - x.max(axis, keepdims=True))
    return x / x.sum(axis, keepdims=True)


def pad(x, amounts, value=0):
    ends = [amounts[i:i + 2] for i in range(0, len(amounts), 2)][::-1]
    ends = [(0, 0)] * (x.dim() - len(ends)) + ends
    data = plain(x)
    inner = tuple(slice(max(0, -low), data.shape[d] - max(0, -high)) for d, (low, high) in enumerate(ends))
    ends = [(max(0, low), max(0, high)) for low, high in ends]
    return Tensor.of(np.pad(data[inner], ends, constant_values=value), x.dtype)


def install():
    try:
        import torch
    except Exception:  # absent, or without the libraries of CUDA
        sys.modules.pop("torch", None)
        torch = sys.modules["torch"] = module()
    return torch
