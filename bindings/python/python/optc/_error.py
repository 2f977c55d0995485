"""The exception of optc."""

from __future__ import annotations

from typing import Optional


class Error(Exception):
    """An input was refused, or a step failed.

    ``code`` is stable (``docs/diagnostics.md`` lists the codes); ``line`` and ``column`` count from 1 and are ``None`` if
    the error is about no place in a text. ``str(error)`` is the text that the command prints.
    """

    code: str
    message: str
    file: str
    line: Optional[int]
    column: Optional[int]

    def __init__(
        self,
        code: str,
        message: str,
        file: str,
        line: Optional[int],
        column: Optional[int],
        text: str,
    ) -> None:
        super().__init__(text.rstrip())
        self.code = code
        self.message = message
        self.file = file
        self.line = line
        self.column = column

    def __reduce__(self) -> tuple[type[Error], tuple[object, ...]]:
        parts = (self.code, self.message, self.file, self.line, self.column, str(self))
        return (Error, parts)
