#!/usr/bin/env python3
"""ONNX models that optc writes are valid and compute the same as the originals.

usage: python onnx_out.py OPTC [MODEL.onnx ...] [--only TEXT] [--keep FOLDER]
       python onnx_out.py OPTC --backend [--only TEXT] [--jobs N] [--table]
       python onnx_out.py OPTC --large

Each model goes through the command as in RUNS.  onnx.checker must accept the result, its inputs and outputs must be the
original's, and onnxruntime (or onnx's reference evaluator, if onnxruntime cannot run the original) must compute the same
numbers with both.  Without a pass the result has no more nodes than the original, and the same functions.  Without
models: those of tests/models.

`--backend` takes the models of the backend tests of the `onnx` package, every operator.  The outcome of a test is

  same      the runs agree: in onnxruntime, or in onnx's reference evaluator if onnxruntime cannot run the original
  checked   nothing runs the original, and onnx.checker accepts the result
  refused   the import or the export is refused with a diagnostic whose code is in REFUSALS
  wrong     anything else

`--large` makes a model with 2 GB of weights in a separate file, which must be processed with 300 MB of memory.

Needs numpy, onnx, onnxruntime and ml_dtypes.  The exit status is 1 if something is wrong.
"""
import argparse
import collections
import concurrent.futures
import pathlib
import re
import resource
import subprocess
import sys
import tempfile

import numpy as np
import onnx
import onnx.inliner
import onnx.reference
import onnx.reference.op_run
import onnxruntime
from onnx import TensorProto

ROOT = pathlib.Path(__file__).resolve().parents[2]
RUNS = [("no pass", ["--pass="]),
        ("folded for the cpu", ["--pass=default", "--target=cpu"]),
        ("its own target", []),
        ("for onnxruntime", ["--target=onnxruntime"])]
TOLERANCE = {"float32": 1e-4, "float64": 1e-7, "float16": 1e-2, "bfloat16": 4e-2}
# The codes of refusals: element types that the IR does not have, and values that are no tensors.
REFUSALS = {"unsupported-dtype", "onnx-type"}
# The layouts of another machine may need a reshape of two sizes without names.
FOREIGN = ("folded for the cpu", "normalize-layout")
LIMIT_S = 240


class Wrong(Exception):
    pass


class Refused(Exception):
    pass


class NotRun(Exception):
    pass


def nodes(model):
    """The number of nodes that compute something, with functions inlined."""
    if model.functions:
        model = onnx.inliner.inline_local_functions(model)
    return count(model.graph)


def count(graph):
    """The number of nodes of a graph that compute something, including those of inner graphs."""
    inner = (g for n in graph.node for a in n.attribute for g in [*a.graphs, *([a.g] if a.HasField("g") else [])])
    return sum(n.op_type not in ("Constant", "Identity") for n in graph.node) + sum(map(count, inner))


def session(path, level="ORT_DISABLE_ALL"):
    options = onnxruntime.SessionOptions()
    options.log_severity_level = 4
    options.graph_optimization_level = getattr(onnxruntime.GraphOptimizationLevel, level)
    try:
        return onnxruntime.InferenceSession(str(path), options, providers=["CPUExecutionProvider"])
    except Exception as error:
        raise NotRun(str(error)) from None


def random_inputs(path, seed):
    rng = np.random.default_rng(seed)
    graph = onnx.load(str(path), load_external_data=False).graph
    given = {t.name for t in graph.initializer}
    made = {}
    for info in graph.input:
        if info.name in given:
            continue
        of = info.type.tensor_type
        shape = [d.dim_value if d.dim_value > 0 else 2 for d in of.shape.dim]
        dtype = onnx.helper.tensor_dtype_to_np_dtype(of.elem_type)
        if dtype.kind == "f" or dtype.name == "bfloat16":
            made[info.name] = rng.standard_normal(shape).astype(dtype)
        else:
            # 0 or 1: valid as indices, and as a mask.
            made[info.name] = rng.integers(0, 2, shape).astype(dtype)
    return made


def by_runtime(path, inputs):
    here = session(path)
    names = [o.name for o in here.get_outputs()]
    try:
        return dict(zip(names, here.run(names, inputs)))
    except Exception as error:
        raise NotRun(str(error)) from None


class FusedMatMul(onnx.reference.op_run.OpRun):
    """onnxruntime's product, for the reference evaluator."""
    op_domain = "com.microsoft"

    def _run(self, a, b, alpha=1.0, transA=0, transB=0, transBatchA=0, transBatchB=0):
        def turned(x, last, batch):
            if batch:
                x = np.moveaxis(x, 0, -2)
            return np.swapaxes(x, -1, -2) if last else x
        return ((turned(a, transA, transBatchA) @ turned(b, transB, transBatchB) * alpha).astype(a.dtype),)


def by_reference(path, inputs):
    try:
        model = onnx.load(str(path))
        evaluator = onnx.reference.ReferenceEvaluator(model, new_ops=[FusedMatMul])
        names = [o.name for o in model.graph.output]
        return dict(zip(names, evaluator.run(names, inputs)))
    except Exception as error:
        raise NotRun(f"{type(error).__name__}: {error}") from None


def difference(found, wanted):
    """The difference of two results, or None."""
    if isinstance(wanted, (list, tuple)):
        if not isinstance(found, (list, tuple)) or len(found) != len(wanted):
            return "sequences of other lengths"
        return next(filter(None, map(difference, found, wanted)), None)
    if wanted is None or found is None:
        return None if wanted is found else "nothing in one of them"
    found, wanted = np.asarray(found), np.asarray(wanted)
    if found.shape != wanted.shape or found.dtype != wanted.dtype:
        return f"{found.dtype}{found.shape}, wanted {wanted.dtype}{wanted.shape}"
    if wanted.dtype.name not in TOLERANCE:
        return None if found.tobytes() == wanted.tobytes() or (found == wanted).all() else "elements differ"
    a, b = found.astype(np.float64), wanted.astype(np.float64)
    if not np.array_equal(np.isnan(a), np.isnan(b)):
        return "NaN in other places"
    infinite = np.isinf(b)
    if not np.array_equal(a[infinite], b[infinite]):
        return "infinities differ"
    kept = np.isfinite(b)
    worst = float(np.max(np.abs(a[kept] - b[kept]), initial=0.0))
    bound = TOLERANCE[wanted.dtype.name] * max(1.0, float(np.max(np.abs(b[kept]), initial=0.0)))
    return None if worst <= bound else f"differs by {worst:.3e}, allowed {bound:.3e}"


def write(optc, options, source, output):
    command = [str(c) for c in (optc, *options, source, "-o", output)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=LIMIT_S)
    if done.returncode == 1 and "panicked" not in done.stderr and "internal-error" not in done.stderr:
        code = re.search(r"error\[([a-z0-9-]+)\]", done.stderr)
        raise Refused(f"{code.group(1) if code else '?'}: {done.stderr.strip()[:400]}")
    if done.returncode != 0:
        raise Wrong(f"exit status {done.returncode}: {done.stderr.strip()[:400]}")


def ports(infos):
    kept = []
    for info in infos:
        of = info.type.tensor_type
        kept.append((info.name, of.elem_type, [d.dim_param or d.dim_value for d in of.shape.dim] if of.HasField("shape") else None))
    return kept


def same_port(before, after):
    """True if a port is unchanged; a size without a number, or one that exporters call `?`, may have got a name."""
    if before[:2] != after[:2] or before[2] is None or after[2] is None:
        return before == after
    nameless = lambda d: d == "?" or (isinstance(d, int) and d <= 0)
    same = lambda d, e: d == e or (nameless(d) and isinstance(e, str))
    return len(before[2]) == len(after[2]) and all(map(same, before[2], after[2]))


def valid(source, output, keeps_nodes):
    """Checks that the result is valid and has the ports of the original."""
    try:
        onnx.checker.check_model(str(output))
    except Exception as error:
        # An original that the checker refuses may be written unchanged.
        if source.read_bytes() != output.read_bytes():
            raise Wrong(f"onnx.checker: {str(error)[:400]}") from None
    before, after = (onnx.load(str(p), load_external_data=False) for p in (source, output))
    # In the first versions of the format every weight was listed as an input.
    given = lambda m: {t.name for t in m.graph.initializer} if m.ir_version < 4 else set()
    a, b = (ports(i for i in m.graph.input if i.name not in given(m)) for m in (before, after))
    if len(a) != len(b) or not all(map(same_port, a, b)):
        raise Wrong(f"inputs {b}, wanted {a}")
    names = [o.name for o in before.graph.output]
    if names != [o.name for o in after.graph.output]:
        raise Wrong(f"outputs {[o.name for o in after.graph.output]}, wanted {names}")
    props = lambda m: sorted((p.key, p.value) for p in m.metadata_props)
    if props(before) != props(after):
        raise Wrong("the metadata differ")
    whole = lambda m: [f.SerializeToString() for f in m.functions]
    if keeps_nodes and whole(before) != whole(after):
        raise Wrong(f"the functions {[f.name for f in after.functions]}, wanted {[f.name for f in before.functions]}")
    if keeps_nodes and nodes(before) < nodes(after):
        raise Wrong(f"{nodes(after)} nodes, {nodes(before)} in the original")


def compare(output, wanted, inputs, run):
    found = run(output, inputs)
    for name, value in wanted.items():
        why = difference(found.get(name), value)
        if why:
            raise Wrong(f"{name}: {why}")


def check_model(optc, path, folder):
    data = [random_inputs(path, seed) for seed in range(2)]
    try:
        run, wanted = by_runtime, [by_runtime(path, d) for d in data]
    except NotRun as error:
        print(f"{path.name}: by onnx's reference evaluator, as onnxruntime says {str(error)[:200]}", flush=True)
        run, data = by_reference, data[:1]
        wanted = [by_reference(path, d) for d in data]
    for what, options in RUNS:
        output = folder / f"{path.stem}.{what.replace(' ', '_')}.onnx"
        try:
            write(optc, options, path, output)
            valid(path, output, what == "no pass")
            for inputs, results in zip(data, wanted):
                compare(output, results, inputs, run)
            output.unlink()
        except (Wrong, Refused, NotRun) as error:
            raise Wrong(f"{what}: {error}") from None


def models(optc, args):
    paths = args.models or sorted((ROOT / "tests/models").glob("*.onnx"))
    paths = [p.resolve() for p in paths if re.search(args.only, p.name)]
    assert paths, "there are no models"
    failed = 0
    for path in paths:
        with tempfile.TemporaryDirectory() as scratch:
            folder = args.keep or pathlib.Path(scratch)
            try:
                if not has_weights(path):
                    path = with_weights(path, folder)
                check_model(optc, path, folder)
            except (Wrong, NotRun) as error:
                failed += 1
                print(f"{path.name}: {error}", file=sys.stderr, flush=True)
    print(f"onnxruntime {onnxruntime.__version__}: {len(paths)} models, {len(RUNS) * len(paths)} results, {failed} failed")
    return failed


def has_weights(path):
    model = onnx.load(str(path), load_external_data=False)
    places = {e.value for t in model.graph.initializer for e in t.external_data if e.key == "location"}
    return all((path.parent / place).exists() for place in places)


def with_weights(path, folder):
    """The model with random weights if their file is absent."""
    model = onnx.load(str(path), load_external_data=False)
    rng = np.random.default_rng(0)
    for tensor in model.graph.initializer:
        if tensor.data_location == TensorProto.EXTERNAL:
            dtype = onnx.helper.tensor_dtype_to_np_dtype(tensor.data_type)
            values = (0.02 * rng.standard_normal(list(tensor.dims))).astype(dtype)
            tensor.CopyFrom(onnx.numpy_helper.from_array(values, tensor.name))
    made = folder / path.name
    onnx.save(model, str(made))
    return made


# ---- the backend tests ----

def case_inputs(case):
    names = [i.name for i in case.model.graph.input]
    for values, _ in case.data_sets:
        yield {n: onnx.numpy_helper.to_array(v) if isinstance(v, TensorProto) else v for n, v in zip(names, values)}


def check_case(optc, case, folder):
    source = folder / "model.onnx"
    onnx.save(case.model, str(source))
    data = list(case_inputs(case))
    wanted, run = None, None
    for run in (by_runtime, by_reference):
        try:
            wanted = [run(source, d) for d in data]
            break
        except NotRun:
            continue
    for what, options in RUNS:
        output = folder / "out.onnx"
        try:
            write(optc, options, source, output)
        except Refused as error:
            return "refused", f"{what}: {error}"
        except Wrong as error:
            return "wrong", f"{what}: {error}"
        try:
            valid(source, output, what == "no pass")
            # The evaluator does not know onnxruntime's own operators.
            known = run is not by_reference or what != "for onnxruntime"
            for inputs, results in zip(data, wanted if wanted and known else []):
                compare(output, results, inputs, run)
        except (Wrong, NotRun) as error:
            return "wrong", f"{what}: {str(error)[:400]}"
    return ("same", "") if wanted is not None else ("checked", "")


def backend(optc, args):
    from onnx.backend.test.case.node import collect_testcases
    cases = [c for c in collect_testcases(None) if c.model is not None and re.search(args.only, c.name)]
    # Random numbers have no expected values.
    cases = [c for c in cases if not re.search("_bernoulli|_multinomial|_random|training_dropout", c.name)]
    assert cases, "no test has such a name"

    def one(case):
        with tempfile.TemporaryDirectory() as scratch:
            folder = pathlib.Path(scratch)
            if args.keep:
                folder = args.keep / case.name
                folder.mkdir(parents=True, exist_ok=True)
            try:
                return check_case(optc, case, folder)
            except subprocess.TimeoutExpired:
                return "wrong", f"it took longer than {LIMIT_S} s"

    total, bad = collections.Counter(), 0
    with concurrent.futures.ThreadPoolExecutor(args.jobs) as pool:
        for case, (outcome, line) in zip(cases, pool.map(one, cases)):
            unexpected = outcome == "refused" and line.split(": ")[1] not in REFUSALS
            unexpected &= tuple(line.split(": ")[:2]) != FOREIGN
            total[outcome] += 1
            bad += outcome == "wrong" or unexpected
            if outcome == "wrong" or unexpected or (args.table and outcome != "same"):
                print(f"{outcome} {case.name}: {line}", file=sys.stderr, flush=True)
    print(f"onnx {onnx.__version__}: {len(cases)} backend tests, " + ", ".join(f"{n} {o}" for o, n in sorted(total.items())))
    return bad


# ---- weights larger than memory ----

def large(optc):
    """A model with 2 GB of sparse weights, in 300 MB of memory: without a pass, and with a fold that changes no weight."""
    rows, columns, layers = 4096, 8192, 16
    weights, nodes, value = [], [], "x"
    for i in range(layers):
        dims = [rows, columns] if i % 2 == 0 else [columns, rows]
        tensor = TensorProto(name=f"w{i}", data_type=TensorProto.FLOAT, dims=dims, data_location=TensorProto.EXTERNAL)
        size = 4 * rows * columns
        for key, text in (("location", "weights.bin"), ("offset", i * size), ("length", size)):
            tensor.external_data.add(key=key, value=str(text))
        weights.append(tensor)
        nodes.append(onnx.helper.make_node("MatMul", [value, f"w{i}"], [f"y{i}"]))
        value = f"y{i}"
    nodes.append(onnx.helper.make_node("Transpose", [value], ["t"], perm=[1, 0]))
    nodes.append(onnx.helper.make_node("Relu", ["t"], ["r"]))
    nodes.append(onnx.helper.make_node("Transpose", ["r"], ["y"], perm=[1, 0]))
    info = lambda name: onnx.helper.make_tensor_value_info(name, TensorProto.FLOAT, [4, rows])
    graph = onnx.helper.make_graph(nodes, "large", [info("x")], [info("y")], weights)
    model = onnx.helper.make_model(graph, opset_imports=[onnx.helper.make_opsetid("", 17)], ir_version=8)
    limit = lambda: resource.setrlimit(resource.RLIMIT_DATA, (300 << 20, 300 << 20))
    bad = 0
    with tempfile.TemporaryDirectory() as scratch:
        folder = pathlib.Path(scratch)
        onnx.save(model, str(folder / "large.onnx"))
        with open(folder / "weights.bin", "wb") as file:
            file.truncate(4 * rows * columns * layers)
        (folder / "elsewhere").mkdir()
        for output in ("out.onnx", "elsewhere/out.onnx"):
            for options in (["--pass="], ["--target=onnx"], ["--target=onnxruntime"]):
                command = [str(optc), *options, "large.onnx", "-o", output]
                done = subprocess.run(command, cwd=folder, capture_output=True, text=True, preexec_fn=limit, timeout=LIMIT_S)
                made = folder / output
                fine = done.returncode == 0 and (made.parent / "weights.bin").stat().st_size == 4 * rows * columns * layers
                kept = fine and onnx.load(str(made), load_external_data=False)
                fine = fine and all(t.data_location == TensorProto.EXTERNAL for t in kept.graph.initializer if t.name[0] == "w")
                if not fine:
                    bad += 1
                    print(f"{' '.join(command[1:])}: status {done.returncode}: {done.stderr.strip()[:300]}", file=sys.stderr)
    print(f"2 GB of weights in 300 MB: {bad} failed")
    return bad


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("optc", type=pathlib.Path)
    parser.add_argument("models", type=pathlib.Path, nargs="*")
    parser.add_argument("--backend", action="store_true")
    parser.add_argument("--large", action="store_true")
    parser.add_argument("--only", default="")
    parser.add_argument("--keep", type=pathlib.Path)
    parser.add_argument("--jobs", type=int, default=2)
    parser.add_argument("--table", action="store_true")
    parser.add_argument("--runs", default="", help="take the runs alone whose names have this")
    args = parser.parse_args()
    RUNS[:] = [run for run in RUNS if re.search(args.runs, run[0])]
    optc = args.optc.resolve()
    if args.large:
        sys.exit(1 if large(optc) else 0)
    sys.exit(1 if (backend if args.backend else models)(optc, args) else 0)


if __name__ == "__main__":
    main()
