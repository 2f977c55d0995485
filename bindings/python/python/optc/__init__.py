"""optc makes the reshapes and transposes of tensor programs disappear.

>>> import optc
>>> answer = optc.fold("model.onnx", target="cpu")
>>> answer.stats["movement_bytes"], [kept.reason for kept in answer.conversions]
"""

from __future__ import annotations

import json
import os
import re
from collections.abc import Mapping
from typing import Any, Optional, Union

from . import _optc
from ._answer import Answer, Conversion, Free, Holder, Layout, Pins, Program, Tensor, Value
from ._error import Error

__version__ = _optc.__version__
__all__ = [
    "Answer",
    "Conversion",
    "Error",
    "Holder",
    "Layout",
    "Program",
    "Tensor",
    "Value",
    "fold",
    "load",
    "optimize",
]

Model = Union[str, "os.PathLike[str]", bytes, Any]


def load(model: Model, *, format: Optional[str] = None) -> Program:
    """Reads a program.

    ``model`` is a path, the bytes or the text of a file, an ``onnx.ModelProto``, or a function that JAX lowered or
    exported. A ``str`` with a line break or a ``%`` is a text. ``format`` is ``ir``, ``onnx``, ``stablehlo``,
    ``linalg`` or ``hlo``; without it the format is that of the extension or of the contents.
    """
    if isinstance(model, os.PathLike):
        return Program(_optc.Program.load(model, format))
    if isinstance(model, str):
        if "\n" in model or "%" in model:
            return Program(_optc.Program.read(model.encode(), "<text>", format))
        return Program(_optc.Program.load(model, format))
    if isinstance(model, (bytes, bytearray, memoryview)):
        return Program(_optc.Program.read(bytes(model), "<bytes>", format))
    if hasattr(model, "SerializeToString"):
        return Program(_optc.Program.read(model.SerializeToString(), "<model>", "onnx"))
    text = getattr(model, "mlir_module", None) or getattr(model, "as_text", None)
    if text is None:
        kind = type(model).__name__
        raise TypeError(f"found a {kind}, wanted a path, bytes, a text, an ONNX model, or a function that JAX lowered")
    return Program(_optc.Program.read(str(text()).encode(), "<jax>", "stablehlo"))


def fold(
    model: Union[Model, Program],
    *,
    target: Optional[str] = None,
    pins: Optional[Pins] = None,
    free: Free = None,
    alias: Optional[Mapping[str, str]] = None,
    bind: Optional[Mapping[str, int]] = None,
    passes: str = "default",
    format: Optional[str] = None,
) -> Answer:
    """Folds a program.

    :param model: a :class:`Program`, or what :func:`load` takes.
    :param target: the name of a target such as ``cpu``, or the path of a target file; by default that of the format.
    :param pins: layouts of arguments and results by name, such as ``{"x": "{order = [1, 0]}"}``.
    :param free: the arguments and results whose layouts are chosen; ``True`` stands for all.
    :param alias: results that are written in the memory of arguments, ``{argument: result}``.
    :param bind: numbers for sizes that have only names, at which costs are compared.
    :param passes: the pipeline.
    """
    program = model if isinstance(model, Program) else load(model, format=format)
    return program.fold(target=target, pins=pins, free=free, alias=alias, bind=bind, passes=passes)


def optimize(
    source: Union[str, os.PathLike[str]],
    destination: Union[str, os.PathLike[str]],
    *,
    target: Optional[str] = None,
    check: bool = False,
) -> dict[str, Any]:
    """Writes a model with fewer rearrangements, in the format of the original: ONNX, StableHLO or HLO.

    The result never moves more bytes than the original. With ``check`` both models are compared on seeded inputs
    before anything is written. Returns the summary of ``optc --json``.
    """
    args = ["optc", os.fspath(source), "-o", os.fspath(destination), "--json"]
    if target is not None:
        args.append(f"--target={target}")
    if check:
        args.append("--check")
    status, output, errors = _optc.call(args)
    if status != 0:
        raise _told(errors, os.fspath(source))
    summary: dict[str, Any] = json.loads(output)
    return summary


# `FILE:LINE:COLUMN: error[CODE]: MESSAGE`, with or without a place.
_ERROR = re.compile(r"^(?P<file>.*?)(?::(?P<line>\d+):(?P<column>\d+))?: error\[(?P<code>[a-z0-9-]+)\]: (?P<message>.*)$", re.M)


def _told(errors: str, file: str) -> Error:
    """The exception of a command that failed."""
    found = _ERROR.search(errors)
    if found is None:
        return Error("usage", errors.strip(), file, None, None, errors)
    line, column = (int(n) if n else None for n in (found["line"], found["column"]))
    return Error(found["code"], found["message"], found["file"], line, column, errors)
