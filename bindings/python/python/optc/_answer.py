"""Programs, and the answer of a fold."""

from __future__ import annotations

import html
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Optional, Union

from . import _optc
from ._arrays import arrays, given

if TYPE_CHECKING:
    from ._arrays import Array, Inputs
    from ._optc import LayoutParts, Port, Size

Pins = Mapping[str, str]
Free = Union[None, bool, str, Sequence[str]]


@dataclass(frozen=True)
class Layout:
    """A layout of a value in its buffer. Sizes, strides and padding count elements; a size may be a polynomial of names."""

    text: str
    shape: tuple[Size, ...]
    strides: Optional[tuple[Size, ...]]
    padding: Optional[int]

    def __str__(self) -> str:
        return self.text


def _layout(parts: Optional[LayoutParts]) -> Optional[Layout]:
    if parts is None:
        return None
    text, shape, strides, padding = parts
    return Layout(text, tuple(shape), None if strides is None else tuple(strides), padding)


@dataclass(frozen=True)
class Holder:
    """A value of the result that has the elements of a value that went in."""

    func: str
    value: str
    layout: Optional[Layout]
    buffer: str
    in_pieces: bool
    is_constant: bool


@dataclass(frozen=True)
class Conversion:
    """A conversion between layouts that the result runs. ``bytes`` are read plus written."""

    value: str
    of: tuple[str, ...]
    source: Optional[Layout]
    target: Optional[Layout]
    bytes: int
    is_constant: bool
    reason: Optional[str]


@dataclass(frozen=True)
class Tensor:
    """An argument or result of a program. A size without a number has a name."""

    name: str
    dtype: str
    shape: tuple[Size, ...]


def _tensors(ports: list[Port]) -> tuple[Tensor, ...]:
    return tuple(Tensor(name, dtype, tuple(shape)) for name, dtype, shape in ports)


class Value:
    """A value of the program that went in, and its place in the result."""

    def __init__(self, answer: _optc.Answer, name: str) -> None:
        self._answer = answer
        self.name = name
        #: ``held``, ``dead``, ``inside`` or ``removed``.
        self.fate = answer.fate(name)[0]
        self.holders = tuple(
            Holder(func, value, _layout(layout), buffer, in_pieces, is_constant)
            for func, value, layout, buffer, in_pieces, is_constant in answer.holders(name)
        )

    @property
    def layout(self) -> Layout:
        """The layout in the buffer of the first holder."""
        found = self.holders[0].layout if self.holders else None
        if found is None:
            raise LookupError(f"{self.name} has no layout: it is {self.fate}")
        return found

    def offset(self, *index: int, holder: int = 0) -> Optional[int]:
        """The place of an element in the buffer of a holder, in elements; ``None`` if it is outside or not known."""
        return self._answer.offset(self.name, holder, list(index))

    @property
    def view(self) -> str:
        """The fate of the rearrangement that makes the value: ``view``, ``moved``, ``computed`` or ``absent``."""
        return self._answer.view(self.name)

    def __repr__(self) -> str:
        layout = self.holders[0].layout if self.holders else None
        return f"<optc.Value {self.name}: {layout or self.fate}>"


class Program:
    """A program that was read and verified."""

    def __init__(self, native: _optc.Program) -> None:
        self._native = native

    @property
    def arguments(self) -> tuple[Tensor, ...]:
        """The arguments of the default function."""
        return _tensors(self._native.arguments())

    @property
    def results(self) -> tuple[Tensor, ...]:
        """The results of the default function."""
        return _tensors(self._native.results())

    @property
    def names(self) -> list[str]:
        """The names of the values of the default function."""
        return self._native.names()

    def fold(
        self,
        *,
        target: Optional[str] = None,
        pins: Optional[Pins] = None,
        free: Free = None,
        alias: Optional[Mapping[str, str]] = None,
        bind: Optional[Mapping[str, int]] = None,
        passes: str = "default",
    ) -> Answer:
        """Folds the program; see :func:`optc.fold`."""
        names = [free] if isinstance(free, str) else list(free) if isinstance(free, Sequence) else []
        options: _optc.Options = {
            "target": target,
            "pins": list((pins or {}).items()),
            "free": names,
            "free_all": free is True,
            "alias": list((alias or {}).items()),
            "bind": list((bind or {}).items()),
            "passes": passes,
        }
        return Answer(_optc.fold(self._native, options))

    def random_inputs(
        self, seed: int = 0, bind: Optional[Mapping[str, int]] = None
    ) -> dict[str, Array]:
        """Inputs from a seed, as arrays by name; ``bind`` has the numbers of sizes that have only names."""
        return arrays(self._native.random_inputs(seed, list((bind or {}).items())))

    def run(self, inputs: Inputs) -> dict[str, Array]:
        """Runs the program on arrays, by name or in the order of the arguments."""
        return arrays(self._native.run(given(self._native.arguments(), inputs)))

    def __str__(self) -> str:
        return self._native.text()


class Answer:
    """A program after its fold: ``answer["x"]`` is the value ``x`` of the program that went in."""

    def __init__(self, native: _optc.Answer) -> None:
        self._native = native

    @property
    def before(self) -> Program:
        """The program that went in."""
        return Program(self._native.before())

    def __getitem__(self, name: str) -> Value:
        return Value(self._native, name)

    def __iter__(self) -> Iterator[str]:
        return iter(self._native.before().names())

    def __contains__(self, name: object) -> bool:
        return name in self._native.before().names()

    @property
    def conversions(self) -> tuple[Conversion, ...]:
        """The conversions between layouts that stay, with the reason of each."""
        return tuple(
            Conversion(value, tuple(of), _layout(source), _layout(target), n, is_constant, reason)
            for value, of, source, target, n, is_constant, reason in self._native.conversions()
        )

    @property
    def stats(self) -> dict[str, int]:
        """The figures of the result by their names in ``docs/stats.md``, and those of the fold."""
        figures = dict(self._native.stats(False))
        report = self._native.report()
        if report is not None:
            _, figures["bytes_before"], figures["bytes_after"], figures["lower_bound_bytes"], _ = report
        return figures

    @property
    def stats_before(self) -> dict[str, int]:
        """The figures of the program that went in."""
        return dict(self._native.stats(True))

    @property
    def target(self) -> Optional[str]:
        """The target; ``None`` if the passes chose no layouts."""
        report = self._native.report()
        return None if report is None else report[0]

    @property
    def proof(self) -> Optional[str]:
        """The strength of the proof of the lower bound, such as ``optimal``."""
        report = self._native.report()
        return None if report is None else report[4]

    @property
    def peak_bytes(self) -> int:
        """The most bytes that are alive at once."""
        return self._native.peak_bytes()

    @property
    def remarks(self) -> str:
        """The remarks as the command prints them."""
        return self._native.remarks()

    def run(self, inputs: Inputs) -> dict[str, Array]:
        """Runs the result on arrays, by name or in the order of the arguments."""
        return arrays(self._native.run(given(self._native.before().arguments(), inputs)))

    def verify(self, inputs: Optional[Inputs] = None, *, seeds: int = 2) -> None:
        """Compares both programs: on ``inputs``, else by the interpreters on seeded inputs and edge values.

        Raises :class:`optc.Error` with the code ``not-equivalent`` if they differ.
        """
        ports = self._native.before().arguments()
        self._native.verify(seeds, None if inputs is None else given(ports, inputs))

    def to_onnx(self) -> bytes:
        """The result as an ONNX model."""
        return self._native.write("onnx")

    def to_stablehlo(self) -> str:
        """The result as StableHLO text."""
        return self._native.write("stablehlo").decode()

    def __str__(self) -> str:
        return self._native.text()

    def __repr__(self) -> str:
        kept = [c for c in self.conversions if not c.is_constant]
        return f"<optc.Answer for {self.target}: {len(kept)} conversions, {self.stats['movement_bytes']} bytes move>"

    def _repr_html_(self) -> str:
        def table(head: Sequence[str], rows: Sequence[Sequence[Any]]) -> str:
            def line(cells: Sequence[Any], tag: str) -> str:
                return "".join(f"<{tag}>{html.escape(str(cell))}</{tag}>" for cell in cells)

            body = "".join(f"<tr>{line(row, 'td')}</tr>" for row in rows)
            return f"<table><tr>{line(head, 'th')}</tr>{body}</table>"

        before, after = self.stats_before, self.stats
        kinds = ("movement", "copy", "expand")
        figures = [(kind, before[f"{kind}_bytes"], after[f"{kind}_bytes"]) for kind in kinds]
        kept = [(c.value, c.source, c.target, c.bytes, c.reason or "") for c in self.conversions if not c.is_constant]
        text = f"<b>optc, for {html.escape(str(self.target))}</b>"
        text += table(("bytes", "before", "after"), figures)
        return text + table(("conversion that stays", "from", "to", "bytes", "reason"), kept)
