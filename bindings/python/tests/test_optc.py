"""Tests of the Python package: run with an interpreter in which it is installed, from the root of the repository.

Parts that need numpy, onnx, onnxruntime or jax are left out, and named, where these are not installed.
"""

import contextlib
import gc
import os
import pathlib
import pickle
import signal
import subprocess
import sys
import tempfile
import threading
import time

import optc

ATTENTION = "tests/models/micro_attention_full.onnx"
TEXT = """func.func @main(%x: tensor<2x3xf32>) -> tensor<3x2xf32> {
  %0 = "hbir.transpose"(%x) <{perm = [1, 0]}> : (tensor<2x3xf32>) -> tensor<3x2xf32> loc("turn")
  return %0 : tensor<3x2xf32>
}
"""
SKIPPED = set()


def needs(*modules):
    """Leaves a test out if a module is missing."""

    def wrap(test):
        def run():
            for module in modules:
                try:
                    __import__(module)
                except ImportError:
                    SKIPPED.add(module)
                    return
            test()

        run.__name__ = test.__name__
        return run

    return wrap


@contextlib.contextmanager
def refused(code):
    try:
        yield
    except optc.Error as error:
        assert error.code == code, error.code
    else:
        raise AssertionError(f"nothing was refused, wanted {code}")


def test_what_stays():
    answer = optc.fold(TEXT)
    (kept,) = answer.conversions
    assert (kept.bytes, str(kept.source), str(kept.target)) == (48, "row-major", "order = [1, 0]")
    assert "pinned" in kept.reason and answer.proof == "optimal" and answer.target == "cpu"
    assert answer.stats["movement_bytes"] == 48 == answer.stats["lower_bound_bytes"]
    assert answer.stats_before["transpose"] == 1 and answer.peak_bytes == 0 < optc.fold(ATTENTION).peak_bytes
    assert "stays" in answer.remarks and kept.reason in answer._repr_html_()
    assert "1 conversions" in repr(answer)


def test_free_pinned_and_named():
    for free in (True, ["result0"], "result0"):
        answer = optc.fold(TEXT, free=free, pins={"x": "{order = [0, 1]}"} if free is not True else None)
        assert answer.stats["movement_bytes"] == 0 and not answer.conversions
    turned = answer["turn"]
    assert (turned.fate, turned.view, turned.layout.strides, turned.holders[0].buffer) == ("held", "view", (1, 3), "x")
    assert turned.layout.shape == (3, 2) and turned.layout.padding == 0
    assert (turned.offset(1, 1), turned.offset(9, 9)) == (4, None)
    assert list(answer) == ["x", "0"] and "x" in answer and answer["result0"].name == "result0"
    try:
        answer["z"]
    except KeyError:
        pass
    else:
        raise AssertionError("z is no value")
    named = optc.load(TEXT.replace("2x3xf32", "?x3xf32").replace("3x2xf32", "3x?xf32"))
    assert named.arguments[0].shape == ("?", 3) and named.fold(free=True).stats["movement_bytes"] == 0


def test_aliases():
    grow = """func.func @main(%past: tensor<8x4xf32>, %new: tensor<1x4xf32>) -> tensor<9x4xf32> {
  %0 = "hbir.concat"(%past, %new) <{axis = 0}> : (tensor<8x4xf32>, tensor<1x4xf32>) -> tensor<9x4xf32>
  return %0 : tensor<9x4xf32>
}"""
    assert "in_place = [0]" in str(optc.fold(grow, target="cpu", alias={"past": "result0"}))


def test_errors_have_code_and_place():
    with refused("unknown-target"):
        optc.fold(TEXT, target="gpu")
    with refused("unknown-port"):
        optc.fold(TEXT, pins={"z": "{order = [0, 1]}"})
    with refused("io-read"):
        optc.load("absent.onnx")
    try:
        optc.load("\n%0 = ")
    except optc.Error as error:
        again = pickle.loads(pickle.dumps(error))
        for one in (error, again):
            assert (one.code, one.line, one.column, one.file) == ("syntax", 2, 5, "<text>"), vars(one)
            assert one.message in str(one)
    for wrong in (lambda: optc.load(3), lambda: optc.load(TEXT, format="gif"), lambda: optc.fold(TEXT)["x"].view):
        try:
            wrong()
        except (TypeError, ValueError):
            pass
        else:
            raise AssertionError("nothing was refused")


def test_inputs_of_every_kind():
    path = pathlib.Path(ATTENTION)
    wanted = str(optc.fold(path))
    for model in (ATTENTION, path.read_bytes()):
        assert optc.fold(model).stats == optc.fold(path).stats
    assert "hbir." in wanted
    stablehlo = pathlib.Path("frontends/stablehlo/tests/modules/attention.mlir").read_text()
    assert optc.fold(stablehlo).target == "xla"
    hlo = pathlib.Path("frontends/hlo/tests/modules/contractions.hlo").read_bytes()
    assert optc.load(hlo).arguments


@needs("numpy", "ml_dtypes")
def test_arrays():
    import ml_dtypes
    import numpy as np

    program = optc.load(TEXT)
    assert (program.arguments[0].shape, program.results[0].dtype) == ((2, 3), "f32")
    x = np.arange(6, dtype=np.float32).reshape(2, 3)
    answer = program.fold()
    for run in (program.run, answer.run):
        for inputs in ([x], {"x": x}, [np.asfortranarray(x)]):
            assert np.array_equal(run(inputs)["result0"], x.T)
    answer.verify()
    answer.verify([x])
    made = program.random_inputs(seed=1)["x"]
    assert np.array_equal(answer.run([made])["result0"], made.T)
    for wrong in ([x.astype(np.float64)], [x, x]):
        try:
            program.run(wrong)
        except TypeError:
            pass
        else:
            raise AssertionError("wrong inputs were taken")
    with refused("unknown-port"):
        program.run({"z": x})
    for name, kind in (("bf16", ml_dtypes.bfloat16), ("f8E4M3FN", ml_dtypes.float8_e4m3fn), ("si8", np.int8),
                       ("ui16", np.uint16), ("f16", np.float16), ("i1", np.bool_)):
        y = np.ones((2, 3), dtype=kind)
        turned = optc.fold(TEXT.replace("f32", name)).run([y])["result0"]
        assert turned.dtype == np.dtype(kind) and np.array_equal(turned, y.T), name


@needs("numpy", "onnx", "onnxruntime")
def test_onnx():
    import numpy as np
    import onnx
    import onnxruntime

    model = onnx.load(ATTENTION)
    answer = optc.fold(model, target="cpu")
    answer.verify()
    inputs = answer.before.random_inputs()
    original = onnxruntime.InferenceSession(ATTENTION).run(None, inputs)
    for bytes_ in (optc.fold(ATTENTION).to_onnx(), optc.fold(model).to_onnx()):
        onnx.checker.check_model(onnx.load_from_string(bytes_))
        written = onnxruntime.InferenceSession(bytes_).run(None, inputs)
        for a, b, c in zip(original, written, answer.run(inputs).values()):
            np.testing.assert_allclose(a, b, rtol=1e-3, atol=1e-4)
            np.testing.assert_allclose(a, c, rtol=1e-3, atol=1e-4)


def test_optimize():
    with tempfile.TemporaryDirectory() as folder:
        out = os.path.join(folder, "m.opt.onnx")
        summary = optc.optimize(ATTENTION, out, check=True)
        assert summary["checked"] and os.path.getsize(out)
        assert summary["after"]["movement_bytes"] < summary["before"]["movement_bytes"]
        with refused("io-read"):
            optc.optimize("absent.onnx", out)
        with refused("unknown-target"):
            optc.optimize(ATTENTION, out, target="gpu")


@needs("numpy", "jax")
def test_jax():
    import jax
    import jax.numpy as jnp
    import numpy as np
    from jax import export

    def f(x, w):
        return jnp.einsum("bhsd,hde->bse", x.transpose(0, 2, 1, 3), w)

    shapes = [(2, 5, 3, 4), (3, 4, 7)]
    arrays = [np.random.default_rng(0).normal(size=s).astype(np.float32) for s in shapes]
    wanted = np.asarray(f(*arrays))
    for model in (jax.jit(f).lower(*arrays), export.export(jax.jit(f))(*arrays)):
        answer = optc.fold(model)
        (found,) = answer.run(arrays).values()
        np.testing.assert_allclose(found, wanted, rtol=1e-4, atol=1e-4)
        assert "stablehlo." in answer.to_stablehlo()
        assert optc.load(answer.to_stablehlo()).arguments


def test_the_command():
    run = [sys.executable, "-m", "optc"]
    found = subprocess.run([*run, "layout", "index", "f32[2,3]", "1,0"], capture_output=True, text=True)
    assert (found.returncode, found.stdout) == (0, "3\n"), found
    found = subprocess.run([*run, "absent.ir"], capture_output=True, text=True)
    assert found.returncode == 1 and "io-read" in found.stderr, found
    found = subprocess.run([*run, "--version"], capture_output=True, text=True)
    assert optc.__version__ in found.stdout


def long_program():
    """A program whose fold takes seconds: products of differently transposed operands."""
    lines = ["func.func @main(%x: tensor<64x64x64xf32>) -> tensor<64x64x64xf32> {"]
    value, kind = "%x", "tensor<64x64x64xf32>"
    for i in range(20_000):
        perm = ("[1, 2, 0]", "[2, 1, 0]", "[0, 2, 1]")[i % 3]
        lines.append(f'  %t{i} = "hbir.transpose"({value}) <{{perm = {perm}}}> : ({kind}) -> {kind}')
        lines.append(f'  %m{i} = "hbir.matmul"(%t{i}, {value}) : ({kind}, {kind}) -> {kind}')
        value = f"%m{i}"
    return "\n".join([*lines, f"  return {value} : {kind}", "}"])


def test_interrupts():
    program = optc.load(long_program())
    ticks = []

    def other():
        for _ in range(20):
            ticks.append(time.monotonic())
            time.sleep(0.01)
        os.kill(os.getpid(), signal.SIGINT)

    thread = threading.Thread(target=other)
    began = time.monotonic()
    thread.start()
    try:
        program.fold(target="cpu")
    except KeyboardInterrupt:
        pass
    else:
        raise AssertionError("the fold was too quick to be interrupted")
    thread.join()
    # The other thread ran beside the fold: the interpreter lock was free.
    assert len(ticks) == 20 and time.monotonic() - began < 10
    # The fold ends in the background; its memory would disturb the test of leaks.
    time.sleep(6)


def resident():
    pages = pathlib.Path("/proc/self/statm").read_text().split()[1]
    return int(pages) * os.sysconf("SC_PAGE_SIZE")


def test_no_leak():
    if not os.path.exists("/proc/self/statm"):
        SKIPPED.add("/proc")
        return
    model = pathlib.Path("tests/models/micro_channel_shuffle.onnx").read_bytes()

    def folds(count):
        for _ in range(count):
            answer = optc.fold(model)
            assert answer.conversions is not None and [answer[name].holders for name in answer]
            try:
                optc.load("%0 = ")
            except optc.Error:
                pass
        gc.collect()
        return resident()

    settled = folds(200)
    grown = folds(1000) - settled
    print(f"  1,000 folds: {grown / 1e6:+.1f} MB")
    assert grown < 8e6, grown


def main():
    wanted = sys.argv[1:]
    for name, test in list(globals().items()):
        if name.startswith("test_") and (not wanted or name in wanted):
            began = time.monotonic()
            test()
            print(f"{name}: {time.monotonic() - began:.1f} s", flush=True)
    if SKIPPED:
        print("NOT CHECKED, not installed here:", ", ".join(sorted(SKIPPED)))


if __name__ == "__main__":
    main()
