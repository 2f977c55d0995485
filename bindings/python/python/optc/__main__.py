"""``python -m optc`` is the command ``optc``."""

from __future__ import annotations

import sys

from . import _optc


def main() -> None:
    """Runs the command with the arguments of the process."""
    sys.stdout.flush()
    sys.exit(_optc.main(["optc", *sys.argv[1:]]))


if __name__ == "__main__":
    main()
