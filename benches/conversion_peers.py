"""Times the cases of `conversion.rs` in NumPy, PyTorch, onnxruntime and XLA, as far as they are installed.

`conversion_peers.py [--rounds=N] > FILE` writes a line for each case, type and library. It has the ratio to a copy of
the same number of bytes in the same rounds: processor time, one thread, least of all rounds. `cargo bench -p
optc-bench --bench conversion -- --ratios=FILE` includes these among the peers. Results are compared with NumPy's before
they are timed. The smallest case is left out: a call from Python, even of a copy, takes longer than the work.
"""

import os

for name in ["OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS"]:
    os.environ.setdefault(name, "1")
os.environ.setdefault("XLA_FLAGS", "--xla_cpu_multi_thread_eigen=false intra_op_parallelism_threads=1")

import sys
import time

import numpy as np

CASES = [
    ("2d_4096", (4096, 4096), (1, 0)),
    ("2d_1024", (1024, 1024), (1, 0)),
    ("2d_1000x777", (1000, 777), (1, 0)),
    ("bert_heads", (384, 12, 64), (1, 0, 2)),
    ("attn_kT", (384, 12, 64), (1, 2, 0)),
    ("vit_heads_b8", (8, 197, 12, 64), (0, 2, 1, 3)),
    ("vit_kT_b8", (8, 197, 12, 64), (0, 2, 3, 1)),
    ("swin_win", (1, 8, 7, 8, 7, 96), (0, 1, 3, 2, 4, 5)),
    ("nchw_nhwc", (32, 64, 56, 56), (0, 2, 3, 1)),
    ("nhwc_nchw", (32, 56, 56, 64), (0, 3, 1, 2)),
    ("nhwc_nchw_c3", (8, 224, 224, 3), (0, 3, 1, 2)),
    ("nchw_nhwc_c3", (8, 3, 224, 224), (0, 2, 3, 1)),
    ("chan_shuffle", (8, 2, 116, 28, 28), (0, 2, 1, 3, 4)),
    ("pixel_shuffle", (3, 4, 4, 270, 480), (0, 3, 1, 4, 2)),
    ("p6_520413", (20, 16, 14, 12, 10, 18), (5, 2, 0, 4, 1, 3)),
    ("p6_204135", (20, 16, 14, 12, 10, 18), (2, 0, 4, 1, 3, 5)),
    ("p6_351042", (20, 16, 14, 12, 10, 18), (3, 5, 1, 0, 4, 2)),
    ("p3_210", (180, 200, 222), (2, 1, 0)),
    ("nChw16c", (32, 4, 16, 56, 56), (0, 1, 3, 4, 2)),
    ("tile_8x128", (1000, 1000), "tile"),
    ("tile_8x128_2x1", (1000, 1000), "tile2"),
]
# The padded shape in whole tiles, and the permutation.
TILES = {
    "tile": ((125, 8, 8, 128), (0, 2, 1, 3)),
    "tile2": ((125, 4, 2, 8, 128), (0, 3, 1, 4, 2)),
}
TYPES = [("f32", np.float32), ("u16", np.uint16), ("u8", np.uint8)]
SAMPLE = 4e-4


def with_numpy(x, perm):
    shape, order = TILES.get(perm, (x.shape, perm)) if isinstance(perm, str) else (x.shape, perm)
    out = np.zeros([shape[i] for i in order], x.dtype)
    if not isinstance(perm, str):
        return lambda: (np.copyto(out, x.transpose(perm)), out)[1]
    # The part in whole tiles, the last column of tiles, and its padding.
    back = out.transpose(np.argsort(order))
    head = x[:, :896].reshape(shape[:-2] + (7, 128))
    tail = x[:, 896:].reshape(shape[:-2] + (104,))

    def run():
        np.copyto(back[..., :7, :], head)
        np.copyto(back[..., 7, :104], tail)
        back[..., 7, 104:] = 0
        return out

    return run


def with_torch(x, perm):
    import torch

    torch.set_num_threads(1)
    source = torch.from_numpy(x)
    if isinstance(perm, str):
        shape, order = TILES[perm]
        out = torch.zeros([shape[i] for i in order], dtype=source.dtype)
        back = out.permute(tuple(np.argsort(order)))
        head = source[:, :896].reshape(shape[:-2] + (7, 128))
        tail = source[:, 896:].reshape(shape[:-2] + (104,))

        def run():
            back[..., :7, :].copy_(head)
            back[..., 7, :104].copy_(tail)
            back[..., 7, 104:].zero_()
            return out.numpy()

        return run
    view = source.permute(perm)
    out = torch.empty(view.shape, dtype=source.dtype)
    return lambda: out.copy_(view).numpy()


def with_onnxruntime(x, perm):
    import onnxruntime as ort
    from onnx import TensorProto, helper

    if isinstance(perm, str):
        return None
    kind = {"float32": TensorProto.FLOAT, "uint16": TensorProto.UINT16, "uint8": TensorProto.UINT8}[str(x.dtype)]
    shape = [x.shape[i] for i in perm]
    graph = helper.make_graph(
        [helper.make_node("Transpose", ["x"], ["y"], perm=list(perm))],
        "g",
        [helper.make_tensor_value_info("x", kind, x.shape)],
        [helper.make_tensor_value_info("y", kind, shape)],
    )
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)
    options = ort.SessionOptions()
    options.intra_op_num_threads = 1
    session = ort.InferenceSession(model.SerializeToString(), options, providers=["CPUExecutionProvider"])
    out = np.zeros(shape, x.dtype)
    binding = session.io_binding()
    binding.bind_input("x", "cpu", 0, x.dtype, x.shape, x.ctypes.data)
    binding.bind_output("y", "cpu", 0, x.dtype, shape, out.ctypes.data)
    return lambda: (session.run_with_iobinding(binding), out)[1]


def with_xla(x, perm):
    import jax
    import jax.numpy as jnp

    jax.config.update("jax_platforms", "cpu")

    def f(x):
        if isinstance(perm, str):
            shape, order = TILES[perm]
            return jnp.pad(x, ((0, 0), (0, 24))).reshape(shape).transpose(order)
        return x.transpose(perm)

    run, source = jax.jit(f), jax.device_put(x)
    return lambda: run(source).block_until_ready()


PEERS = [("numpy", with_numpy), ("torch", with_torch), ("onnxruntime", with_onnxruntime), ("xla", with_xla)]


class Contender:
    def __init__(self, run):
        self.run, self.calls, self.least = run, 1, float("inf")

    def sample(self):
        """Makes one call that is not timed first, so that the caches hold the contender's own data."""
        self.run()
        start = time.process_time()
        for _ in range(self.calls):
            self.run()
        spent = time.process_time() - start
        self.least = min(self.least, spent / self.calls)
        if spent < SAMPLE:
            self.calls *= 2
            return False
        return True

    def warm_up(self):
        while not self.sample():
            pass
        self.least = float("inf")


def main():
    rounds = next((int(a.split("=")[1]) for a in sys.argv[1:] if a.startswith("--rounds=")), 7)
    for case, shape, perm in CASES:
        for name, dtype in TYPES:
            x = (np.arange(np.prod(shape)) % 251).astype(dtype).reshape(shape)
            wanted = with_numpy(x, perm)()
            all = []
            for peer, make in PEERS:
                try:
                    run = make(x, perm)
                except ImportError:
                    continue
                if run is None:
                    continue
                assert np.array_equal(np.asarray(run()), wanted), f"{peer} is wrong at {case}"
                all.append((peer, Contender(run)))
            half = (x.nbytes + wanted.nbytes) // 2
            copy_from, copy_to = np.ones(half, np.uint8), np.zeros(half, np.uint8)
            copy = Contender(lambda: np.copyto(copy_to, copy_from))
            for one in [copy] + [c for _, c in all]:
                one.warm_up()
            for _ in range(rounds):
                for _, one in all:
                    copy.sample()
                    one.sample()
            for peer, one in all:
                print(case, name, peer, f"{copy.least / one.least:.3f}", flush=True)


main()
