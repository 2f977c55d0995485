"""Arrays of numpy as the native part takes them. numpy is imported when an array is needed."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from importlib import import_module
from typing import TYPE_CHECKING, Any, Union

if TYPE_CHECKING:
    import numpy as np

    from ._optc import Given, Made, Port

    Array = np.ndarray[Any, np.dtype[Any]]
    Inputs = Union[Mapping[str, Any], Sequence[Any]]

# Element types that numpy has, by their names in optc; ml_dtypes has the others.
_NUMPY = {"i1": "bool", "bf16": "bfloat16", "complex<f32>": "complex64", "complex<f64>": "complex128"}
_PREFIXES = (("ui", "uint"), ("si", "int"), ("i", "int"))


def dtype(name: str) -> np.dtype[Any]:
    """The type of numpy or ml_dtypes for an element type of optc."""
    import numpy as np

    plain = _NUMPY.get(name)
    if plain is None and name in ("f16", "f32", "f64"):
        plain = "float" + name[1:]
    if plain is None:
        for prefix, word in _PREFIXES:
            if name.startswith(prefix) and name[len(prefix) :].isdigit():
                plain = word + name[len(prefix) :]
                break
    if plain is None:
        # f8E4M3FN is float8_e4m3fn.
        head, _, tail = name[1:].partition("E")
        plain = f"float{head}_e{tail.lower()}"
    try:
        return np.dtype(plain)
    except TypeError:
        made: np.dtype[Any] = np.dtype(getattr(import_module("ml_dtypes"), plain))
        return made


def given(ports: list[Port], inputs: Inputs) -> list[Given]:
    """Inputs by name, or in the order of the arguments."""
    import numpy as np

    if not isinstance(inputs, Mapping):
        if len(inputs) != len(ports):
            raise TypeError(f"found {len(inputs)} inputs, wanted {len(ports)}")
        inputs = dict(zip((port[0] for port in ports), inputs))
    wanted = {name: dtype(element) for name, element, _ in ports}
    made = []
    for name, value in inputs.items():
        array = np.asarray(value)
        known = wanted.get(name)
        if known is not None and array.dtype != known:
            raise TypeError(f"the input {name!r} has elements of {array.dtype}, wanted {known}")
        made.append((name, array.shape, np.ascontiguousarray(array).tobytes()))
    return made


def arrays(made: list[Made]) -> dict[str, Array]:
    """Results by name."""
    import numpy as np

    return {
        name: np.frombuffer(data, dtype=dtype(element)).reshape(shape).copy()
        for name, element, shape, data in made
    }
