#!/usr/bin/env python3
"""The printed text is MLIR, and mlir-opt's output has the same meaning to optc.

usage: python mlir_opt.py OPTC

For each case of tests/cases that optc accepts, and each model of tests/models, the text as read and the text folded for
each target goes through `mlir-opt --allow-unregistered-dialect`, as it is and in the generic form, and back through
optc.  `optc verify` then compares both programs.  Needs mlir-opt-19 (or MLIR_OPT).
"""
import concurrent.futures
import os
import pathlib
import re
import shutil
import subprocess
import sys
import tempfile

ROOT = pathlib.Path(__file__).resolve().parents[2]
MLIR_OPT = os.environ.get("MLIR_OPT", "mlir-opt-19")
FORMS = {"plain": [], "generic": ["--mlir-print-op-generic"]}
PASSES = {"read": ["--pass="], "cpu": ["--pass=default", "--target=cpu"],
          "journey6": ["--pass=default", "--target=journey6"]}


def run(command, **kwargs):
    return subprocess.run([str(c) for c in command], capture_output=True, text=True, **kwargs)


def need(command, what):
    done = run(command)
    if done.returncode != 0:
        words = " ".join(str(c) for c in command)
        raise AssertionError(f"{what}\n$ {words}\n{done.stdout}{done.stderr}")
    return done.stdout


def inputs():
    """(path, whether it may be refused, whether it can be run)"""
    for path in sorted((ROOT / "tests/cases").rglob("*.ir")):
        text = path.read_text()
        if re.search(r"^// (EXIT: [12]|expected-error)", text, re.M) or "--split-input-file" in text \
                or "--verify-diagnostics" in text:
            continue
        if re.search(r"^// RUN:.*%S/", text, re.M):
            continue
        runs = not re.search(r"^// EVAL: off", text, re.M)
        yield path, runs
    for path in sorted((ROOT / "tests/models").glob("*.onnx")):
        yield path, True


def bindings(path):
    """Values for the named sizes of a program; optc refuses a size that the program does not have."""
    text = pathlib.Path(path).read_text()
    dims = " ".join(re.findall(r"dims = \[([^\]]*)\]", text))
    sizes = {n: v for n, v in {"B": 2, "S": 3, "H": 14}.items() if re.search(rf"\b{n}\b", dims)}
    if re.search(r"(^|, )\?|tensor<[^{>]*\?[^{>]*>", dims) or re.search(r"tensor<[^{>]*\?[^{>]*>", text):
        sizes["?"] = 4
    return ["--bind", ",".join(f"{n}={v}" for n, v in sizes.items())] if sizes else []


def same(optc, a, b, runs, what):
    if runs:
        need([optc, "verify", "--random-weights", "--seeds", "1", *bindings(a), a, b], what)
    else:
        left, right = (need([optc, "stats", "--json", "--pass=", f], what) for f in (a, b))
        assert left == right, f"{what}\n{left}{right}"


def check(optc, path, runs):
    done = 0
    with tempfile.TemporaryDirectory() as folder:
        folder = pathlib.Path(folder)
        if path.suffix == ".onnx":
            shutil.copy(path, folder)
        for kind, options in PASSES.items():
            ours = folder / f"{path.stem}.{kind}.ir"
            folded = run([optc, *options, path, "-o", ours])
            if "error[target-wants-sizes]" in folded.stderr:
                print(f"{path.name}: left out for {kind}, which pads a size that is unknown")
                continue
            need([optc, *options, path, "-o", ours], f"{path}: optc refuses it")
            for form, flags in FORMS.items():
                what = f"{path}: {kind}, {form} form"
                theirs = folder / f"{path.stem}.{kind}.{form}.mlir"
                text = need([MLIR_OPT, "--allow-unregistered-dialect", *flags, ours], what)
                theirs.write_text(text)
                back = folder / f"{path.stem}.{kind}.{form}.ir"
                need([optc, "--pass=", theirs, "-o", back], what)
                # The reference takes long on a model, so only its original text is compared.
                if path.suffix != ".onnx" or (kind, form) == ("read", "plain"):
                    same(optc, ours, back, runs, what)
                again = folder / "again.ir"
                need([optc, "--pass=", back, "-o", again], what)
                assert back.read_text() == again.read_text(), f"{what}: printing is not stable"
                done += 1
    return done


def main():
    optc = pathlib.Path(sys.argv[1]).resolve()
    jobs = list(inputs())
    failures = []
    total = 0
    with concurrent.futures.ThreadPoolExecutor(os.cpu_count() or 1) as pool:
        futures = [(path, pool.submit(check, optc, path, runs)) for path, runs in jobs]
        for path, future in futures:
            try:
                total += future.result()
            except AssertionError as error:
                failures.append(str(error))
    for failure in failures:
        print(failure, file=sys.stderr)
    print(f"mlir-opt: {len(jobs)} programs, {total} texts there and back, {len(failures)} failed")
    if failures or len(jobs) < 50:
        sys.exit(1)


if __name__ == "__main__":
    main()
