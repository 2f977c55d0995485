#!/usr/bin/env python3
"""optc's built-in FileCheck and LLVM's come to the same verdict, and name the same directive first.

usage: python filecheck.py OPTC

A case of filecheck.json is the verdict that is expected of both, directives, a text, and options.  optc runs it as a
file test whose command prints nothing: `FileCheck --input-file`.  `cargo test` runs the same cases without LLVM's.
Needs FileCheck-19 (or FILECHECK), of Debian's llvm-19-tools.
"""
import concurrent.futures
import json
import os
import pathlib
import re
import shlex
import subprocess
import sys
import tempfile

FILECHECK = os.environ.get("FILECHECK", "FileCheck-19")
CASES = pathlib.Path(__file__).with_suffix(".json")


def run(command, **kwargs):
    return subprocess.run([str(c) for c in command], capture_output=True, text=True, **kwargs)


def verdicts(optc, case):
    wanted, directives, text, options = [*case, ""][:4]
    with tempfile.TemporaryDirectory() as folder:
        folder = pathlib.Path(folder)
        checks, produced = folder / "checks.txt", folder / "text"
        checks.write_bytes(directives.encode() + b"\n")
        produced.write_bytes(text.encode())
        words = shlex.split(options)
        theirs = run([FILECHECK, checks, f"--input-file={produced}", *words])
        test = folder / "case.ir"
        quoted = shlex.join(words)
        test.write_text(f"// RUN: FileCheck {checks} --input-file={produced} {quoted}\n")
        ours = run([optc, "test", test])
        if theirs.returncode not in (0, 1, 2) or ours.returncode not in (0, 1):
            raise AssertionError(f"{case}\n{theirs.stderr}{ours.stdout}{ours.stderr}")
        found = [(run.returncode == 0, first_line(checks, run)) for run in (theirs, ours)]
        return wanted, *found, ours.stdout + theirs.stderr


def first_line(checks, run):
    """The line of the first directive that a run names; None if it names none."""
    found = re.search(rf"{re.escape(str(checks))}:(\d+):", run.stdout + run.stderr)
    return found and int(found[1])


def main():
    optc = pathlib.Path(sys.argv[1]).resolve()
    cases = [case for group in json.loads(CASES.read_text()).values() for case in group]
    failures = []
    with concurrent.futures.ThreadPoolExecutor(os.cpu_count() or 1) as pool:
        for case, found in zip(cases, pool.map(lambda case: verdicts(optc, case), cases)):
            wanted, theirs, ours, said = found
            if theirs != ours or wanted != theirs[0]:
                failures.append(f"{case}: wanted {wanted}, LLVM {theirs}, optc {ours}\n{said}")
    for failure in failures:
        print(failure, file=sys.stderr)
    passes = sum(case[0] for case in cases)
    print(f"FileCheck: {len(cases)} cases, {passes} pass and {len(cases) - passes} fail with both, "
          f"{len(failures)} differ")
    if failures or len(cases) < 60:
        sys.exit(1)


if __name__ == "__main__":
    main()
