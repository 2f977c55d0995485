#!/usr/bin/env python3
"""XLA's own parser reads the HLO text that optc writes.

usage: python jaxlib_hlo.py OPTC [FILE ...]

Without files: the modules of frontends/hlo/tests/modules and the programs of tests/cases/pipelines.  Every file is
written as HLO text unchanged; HLO modules also after the default pipeline for the cpu and the tpu.  Needs jaxlib
(requirements.txt). Without it nothing is checked, which is reported, and is an error if CI_REQUIRE_PEERS is set.
"""
import os
import pathlib
import subprocess
import sys

ROOT = pathlib.Path(__file__).resolve().parents[2]
FOLDED = [["--pass=default", "--target=cpu"], ["--pass=default", "--target=tpu"]]


def parser():
    """XLA's parser, or the reason why it is missing."""
    try:
        from jaxlib import _hlo
        return _hlo.hlo_module_from_text, None
    except ImportError as error:
        return None, f"jaxlib with an HLO parser is not installed ({error})"


def main():
    optc, files = sys.argv[1], [pathlib.Path(f) for f in sys.argv[2:]]
    read, reason = parser()
    if read is None:
        print(f"skipped: {reason}")
        return 1 if os.environ.get("CI_REQUIRE_PEERS") else 0
    if not files:
        files = sorted((ROOT / "frontends/hlo/tests/modules").rglob("*.hlo"))
        files += sorted((ROOT / "tests/cases/pipelines").rglob("*.ir"))
    failed = 0
    for path in files:
        runs = [["--pass="]] if path.suffix == ".ir" else [["--pass="], *FOLDED]
        for run in runs:
            done = subprocess.run([optc, *run, "--emit=hlo", str(path)], capture_output=True, text=True)
            message = done.stderr
            if done.returncode == 0:
                try:
                    read(done.stdout)
                    continue
                except Exception as error:  # the parser's own error has no class of its own
                    message = str(error)
            failed += 1
            print(f"{path} {' '.join(run)}: {message[:600]}")
    print(f"{len(files)} files, {failed} failures")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
