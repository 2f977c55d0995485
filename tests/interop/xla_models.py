#!/usr/bin/env python3
"""XLA's CPU backend gives onnxruntime's numbers for the HLO that optc writes of a folded model.

usage: python xla_models.py OPTC [MODEL.onnx ...]

Without models: those of tests/models.  Absent weights are filled at random; inputs are random.  Each model is written as
imported, and folded for the cpu.  The tolerance is that of onnxruntime_peer.py.  Needs jax, onnx and onnxruntime
(requirements.txt).
"""
import pathlib
import subprocess
import sys
import tempfile

import numpy as np
import onnx

import onnxruntime_peer as peer
import xla_run

PASSES = ["", "default"]


def check(optc, xla, path, folder):
    """The failure of one model; None if there is none."""
    here = folder / path.name
    onnx.save(peer.load(path, np.random.default_rng(3)), str(here))
    wanted = list(peer.expected(here, 3, folder).values())
    with np.load(folder / "in.npz") as file:
        given = {name: file[name] for name in file}
    for passes in PASSES:
        command = [optc, f"--pass={passes}", "--target=cpu", "--emit=hlo", str(here)]
        done = subprocess.run(command, capture_output=True, text=True)
        if done.returncode != 0:
            return f"--pass={passes}: {done.stderr[:600]}"
        module = xla.parse(done.stdout)
        found = xla.run(module, list(given.values()))
        if len(found) != len(wanted):
            return f"--pass={passes}: {len(found)} results, wanted {len(wanted)}"
        for a, b in zip(found, wanted):
            try:
                peer.compare(a, b)
            except AssertionError as error:
                return f"--pass={passes}: {error}"
    return None


def main():
    optc, models = sys.argv[1], [pathlib.Path(m) for m in sys.argv[2:]]
    models = models or sorted((peer.ROOT / "tests/models").glob("*.onnx"))
    xla_run.np = np
    xla, failed = xla_run.Xla(), 0
    for path in models:
        with tempfile.TemporaryDirectory() as folder:
            try:
                why = check(optc, xla, path, pathlib.Path(folder))
            except Exception as error:  # XLA's errors have no class of their own
                why = str(error)[:600]
        if why:
            failed += 1
            print(f"{path}: {why}")
    print(f"{len(models)} models run by XLA from optc's HLO, {failed} failures")
    return 1 if failed or not models else 0


if __name__ == "__main__":
    sys.exit(main())
