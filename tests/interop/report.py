#!/usr/bin/env python3
"""The page of `optc report` works in a browser, and Model Explorer reads the graphs of `--emit=model-explorer`.

usage: python report.py OPTC [--pictures FOLDER MODEL.onnx...]

In headless Chromium (`chromium`, or CHROMIUM) without a network: each page opens from a file and asks for nothing else,
the search finds a node, a click on a conversion shows its reason, a click on a wire the layout, layers open and close,
and no script fails.  A program of 5,000 operations, with names and without, is drawn, searched and opened in less than
SECONDS.  The graphs are read by the classes of the package ai-edge-model-explorer, whose own page shows one of them.  With --pictures, pages of the models
are photographed into the folder instead.
"""
import base64
import contextlib
import dataclasses
import itertools
import json
import os
import pathlib
import re
import shutil
import socket
import subprocess
import sys
import tempfile
import time
import types
import typing

HERE = pathlib.Path(__file__).resolve().parent
MODELS = HERE.parent / "models"
SECONDS = 5.0
OPERATIONS = 5_000


class Browser:
    """Headless Chromium, driven by its devtools protocol over a pipe."""

    def __init__(self, folder, size=(1440, 900), dark=False, local=False):
        to_child, from_parent = os.pipe()
        to_parent, from_child = os.pipe()
        command = [os.environ.get("CHROMIUM", "chromium"), "--headless", "--no-sandbox"]
        # A page of a server on this machine draws by WebGL, in software.
        command += ["--use-angle=swiftshader", "--enable-unsafe-swiftshader"] if local else ["--disable-gpu"]
        command += ["--hide-scrollbars", f"--window-size={size[0]},{size[1]}", f"--user-data-dir={folder}"]
        rules = "MAP * ~NOTFOUND, EXCLUDE 127.0.0.1" if local else "MAP * ~NOTFOUND"
        command += [f"--host-resolver-rules={rules}", "--remote-debugging-pipe", "--no-first-run"]
        command += ["--blink-settings=preferredColorScheme=0"] if dark else []

        def pipes():
            # The protocol reads descriptor 3 and writes descriptor 4; both are moved aside first.
            inward, outward = os.dup(to_child), os.dup(from_child)
            inward, outward = os.dup2(inward, 103), os.dup2(outward, 104)
            os.dup2(inward, 3), os.dup2(outward, 4)

        self.process = subprocess.Popen(
            command, close_fds=False, preexec_fn=pipes, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL
        )
        os.close(to_child), os.close(from_child)
        self.write, self.read = os.fdopen(from_parent, "wb"), os.fdopen(to_parent, "rb")
        self.numbers, self.pending, self.events = itertools.count(1), b"", []
        self.session = None
        target = self.call("Target.createTarget", url="about:blank")["targetId"]
        self.session = self.call("Target.attachToTarget", targetId=target, flatten=True)["sessionId"]
        for domain in ["Page", "Runtime", "Network"]:
            self.call(f"{domain}.enable")
        self.call("Emulation.setDeviceMetricsOverride", width=size[0], height=size[1], deviceScaleFactor=1, mobile=False)
        if dark:
            scheme = [{"name": "prefers-color-scheme", "value": "dark"}]
            self.call("Emulation.setEmulatedMedia", features=scheme)

    def close(self):
        self.process.terminate()
        self.process.wait()
        self.write.close(), self.read.close()

    def message(self):
        while b"\0" not in self.pending:
            part = os.read(self.read.fileno(), 1 << 20)
            if not part:
                raise AssertionError("the browser is gone")
            self.pending += part
        text, self.pending = self.pending.split(b"\0", 1)
        return json.loads(text)

    def call(self, method, **params):
        number = next(self.numbers)
        message = {"id": number, "method": method, "params": params}
        if self.session:
            message["sessionId"] = self.session
        self.write.write(json.dumps(message).encode() + b"\0")
        self.write.flush()
        while True:
            answer = self.message()
            if answer.get("id") == number:
                if "error" in answer:
                    raise AssertionError(f"{method}: {answer['error']}")
                return answer["result"]
            self.events.append(answer)

    def run(self, script):
        """The value of an expression in the page."""
        answer = self.call("Runtime.evaluate", expression=script, returnByValue=True, awaitPromise=True)
        if "exceptionDetails" in answer:
            raise AssertionError(f"{script}: {json.dumps(answer['exceptionDetails'])[:600]}")
        return answer["result"].get("value")

    def open(self, path):
        """Opens a page and waits until it is drawn; returns the seconds that took."""
        start = time.perf_counter()
        self.call("Page.navigate", url=path.resolve().as_uri())
        while not self.run("document.documentElement?.dataset.ready && document.readyState == 'complete'"):
            if 60 < time.perf_counter() - start:
                raise AssertionError(f"{path} is not drawn after a minute: {self.faults()}")
            time.sleep(0.02)
        return time.perf_counter() - start

    def faults(self):
        """Failures of scripts, and requests for anything but the page."""
        found = []
        for event in self.events:
            params = event.get("params", {})
            if event.get("method") == "Runtime.exceptionThrown":
                found.append(json.dumps(params["exceptionDetails"])[:600])
            if event.get("method") == "Network.requestWillBeSent":
                url = params["request"]["url"]
                if not url.startswith(("file:", "data:")):
                    found.append(f"asks for {url}")
        return found

    def click(self, selector):
        """A click of the mouse on the first element of a selector that is inside of the window."""
        place = self.run(
            f"""(() => {{
                for (const one of document.querySelectorAll({json.dumps(selector)})) {{
                    const box = one.getBoundingClientRect();
                    const [x, y] = [box.x + box.width / 2, box.y + box.height / 2];
                    const top = document.elementFromPoint(x, y);
                    if (top && (one.contains(top) || top.closest({json.dumps(selector)}) == one)) return [x, y];
                }}
                return null;
            }})()"""
        )
        if not place:
            raise AssertionError(f"no {selector} can be clicked")
        for kind in ["mouseMoved", "mousePressed", "mouseReleased"]:
            buttons = 1 if kind == "mousePressed" else 0
            button = "none" if kind == "mouseMoved" else "left"
            self.call(
                "Input.dispatchMouseEvent", type=kind, x=place[0], y=place[1], button=button, buttons=buttons, clickCount=1
            )

    def search(self, text):
        """Types a text into the search field and goes to the first hit; returns the number of hits."""
        self.run("document.getElementById('search').select()")
        self.call("Input.insertText", text=text)
        hits = self.run("hits.length")
        self.call("Input.dispatchKeyEvent", type="keyDown", key="Enter", code="Enter", windowsVirtualKeyCode=13)
        self.call("Input.dispatchKeyEvent", type="keyUp", key="Enter", code="Enter", windowsVirtualKeyCode=13)
        return hits

    def photograph(self, path):
        data = self.call("Page.captureScreenshot", format="png")["data"]
        path.write_bytes(base64.b64decode(data))


@contextlib.contextmanager
def browser(**options):
    folder = tempfile.mkdtemp()
    try:
        one = Browser(folder, **options)
        try:
            yield one
        finally:
            one.close()
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def run(command):
    done = subprocess.run([str(c) for c in command], capture_output=True, text=True)
    if done.returncode != 0:
        raise AssertionError(f"{command}: {done.stderr}")
    return done


def report(optc, model, page, *options):
    run([optc, "report", *options, model, "-o", page])
    return page


def is_marked(chrome):
    """The text of the selected box, if it is inside of its pane."""
    return chrome.run(
        """(() => {
            const one = document.querySelector(".box.on"), pane = one?.closest("svg").getBoundingClientRect();
            const box = one?.getBoundingClientRect();
            const inside = box && pane.left <= box.right && box.left <= pane.right && pane.top <= box.bottom && box.top <= pane.bottom;
            return inside ? one.querySelector(".title").textContent : null;
        })()"""
    )


def detail(chrome):
    return chrome.run("document.getElementById('detail').innerText")


def check_page(optc, folder):
    """A conversion between two chains, in layers."""
    model = MODELS / "micro_window_partition_reverse.onnx"
    page = report(optc, model, folder / "page.html", "--target=tpu")
    remarks = run([optc, "--pass=default", "--target=tpu", "--remarks=json", model, "-o", folder / "out.ir"]).stderr
    remarks = [json.loads(line) for line in remarks.splitlines()]
    stays = [r for r in remarks if r["code"] == "conversion-stays"]
    assert stays, "the model has no conversion that stays"
    with browser() as chrome:
        chrome.open(page)
        assert "How to read" in detail(chrome)
        text = chrome.run("document.body.textContent")
        for remark in remarks:
            for line in [remark["message"], *remark["notes"]]:
                assert line in text, f"the page does not say: {line}"
        assert chrome.search("layout_convert") >= len(stays), "the search finds no conversion"
        assert is_marked(chrome) == "layout_convert", is_marked(chrome)
        said = detail(chrome)
        assert "Why it stays" in said and any(note in said for stay in stays for note in stay["notes"]), said
        assert "From and to" in said and chrome.run("document.querySelectorAll('#detail .memory svg').length") == 2
        chrome.run("select(null)")
        assert is_marked(chrome) is None
        chrome.click(".pane:last-child .box:has(.face.movement)")
        said = detail(chrome)
        assert "layout_convert" in said and "Why it stays" in said and "Removed by" in said, said
        chrome.click(".pane:last-child .tag")
        assert "In memory" in detail(chrome), detail(chrome)
        chrome.run("tab('conversions')")
        chrome.click("#conversions tr[data-go]")
        assert is_marked(chrome) == "layout_convert"
        for name in ["memory", "tiles"]:
            drawn = chrome.run(f"document.querySelectorAll('#{name} svg').length")
            assert 0 < drawn, f"{name}: no drawing"
        assert "one program" in chrome.run("document.getElementById('tiles').textContent")
        # On this target the group is cut.
        chrome.open(report(optc, model, folder / "cut.html", "--target=triton"))
        assert "for g0 in" in chrome.run("document.getElementById('tiles').textContent")
        assert not chrome.faults(), chrome.faults()
    print(f"page: search, click, layout, {len(remarks)} remarks")


def large(named):
    """A program of OPERATIONS operations, with some that move."""
    lines, ty = [], "tensor<8x16xf32>"
    for i in range(OPERATIONS // 4):
        x = f"%v{i}" if i else "%x"
        loc = f' loc("/block.{i // 100}/layer.{i // 10 % 10}/part.{i % 10}/op")' if named else ""
        turned = "tensor<16x8xf32>"
        lines += [
            f'%a{i} = "hbir.transpose"({x}) <{{perm = [1, 0]}}> : ({ty}) -> {turned}{loc}',
            f'%b{i} = "hbir.softmax"(%a{i}) <{{axis = 0}}> : ({turned}) -> {turned}{loc}',
            f'%c{i} = "hbir.transpose"(%b{i}) <{{perm = [1, 0]}}> : ({turned}) -> {ty}{loc}',
            f'%v{i + 1} = "hbir.add"(%c{i}, %x) : ({ty}, {ty}) -> {ty}{loc}',
        ]
    body = "\n  ".join(lines)
    return f"func.func @main(%x: {ty}) -> {ty} {{\n  {body}\n  return %v{OPERATIONS // 4} : {ty}\n}}\n"


def check_large(optc, folder):
    for named in [True, False]:
        program = folder / f"large{named}.ir"
        program.write_text(large(named))
        start = time.perf_counter()
        page = report(optc, program, folder / "large.html", "--rules=none")
        wrote = time.perf_counter() - start
        with browser() as chrome:
            start = time.perf_counter()
            opened = chrome.open(page)
            hits = chrome.search("softmax" if not named else "block.11/layer.9/part.3")
            assert 0 < hits and is_marked(chrome), (hits, is_marked(chrome))
            chrome.click(".pane:first-child .frame .label")
            took = time.perf_counter() - start
            # Everything open at once is no common view, but must not fail.
            start = time.perf_counter()
            chrome.run("tool(stages[0], 'all')")
            boxes = chrome.run("stages[0].svg.querySelectorAll('.box').length")
            assert OPERATIONS <= boxes, boxes
            full = time.perf_counter() - start
            assert not chrome.faults(), chrome.faults()
        size = page.stat().st_size / 1e6
        print(
            f"{OPERATIONS} operations {'with' if named else 'without'} names: written in {wrote:.1f} s, {size:.1f} MB, "
            f"opened in {opened:.1f} s, usable in {took:.1f} s, all open in {full:.1f} s more"
        )
        assert took < SECONDS, f"usable after {took:.1f} s"


def build(kind, value):
    """A value of a dataclass of Model Explorer from JSON; refuses keys and types that it does not declare."""
    origin, args = typing.get_origin(kind), typing.get_args(kind)
    if origin in (typing.Union, types.UnionType):
        errors = []
        for one in args:
            try:
                return build(one, value)
            except AssertionError as error:
                errors.append(str(error))
        raise AssertionError(f"{value!r} is none of {args}: {errors}")
    if origin is list:
        assert isinstance(value, list), value
        return [build(args[0], one) for one in value]
    if origin is dict:
        assert isinstance(value, dict), value
        return {key: build(args[1], one) for key, one in value.items()}
    if dataclasses.is_dataclass(kind):
        assert isinstance(value, dict), value
        hints = typing.get_type_hints(kind)
        unknown = set(value) - set(hints)
        assert not unknown, f"{kind.__name__} has no {unknown}"
        return kind(**{key: build(hints[key], one) for key, one in value.items()})
    if origin is typing.Literal:
        assert value in args, value
        return value
    if kind is float:
        assert isinstance(value, (int, float)), value
        return value
    assert isinstance(value, kind if isinstance(kind, type) else object), (kind, value)
    return value


def check_explorer(optc, folder):
    from model_explorer import graph_builder, node_data_builder

    program = folder / "large.ir"
    program.write_text(large(False))
    for model in [*sorted(MODELS.glob("*.onnx")), program]:
        out = folder / "graphs.json"
        run([optc, "--pass=default", "--emit=model-explorer", model, "-o", out])
        collection = build(graph_builder.GraphCollection, json.loads(out.read_text()))
        data = json.loads(out.with_suffix(".bytes.json").read_text())
        data = {graph: build(node_data_builder.GraphNodeData, one) for graph, one in data.items()}
        assert set(data) == {graph.id for graph in collection.graphs}
        for graph in collection.graphs:
            nodes = {node.id: node for node in graph.nodes}
            assert len(nodes) == len(graph.nodes), "ids are not unique"
            for node in graph.nodes:
                assert node.namespace, f"{model.name}: {node.label} has no namespace"
                for edge in node.incomingEdges:
                    source = nodes[edge.sourceNodeId]
                    outputs = {item.id for item in source.outputsMetadata}
                    assert edge.sourceNodeOutputId in outputs, (model.name, edge)
            assert set(data[graph.id].results) <= set(nodes)
            levels = {}
            for node in graph.nodes:
                levels[node.namespace] = levels.get(node.namespace, 0) + 1
            assert max(levels.values()) <= 125, f"{model.name}: {max(levels.values())} nodes in one namespace"
    print(f"model-explorer: the graphs of {len(list(MODELS.glob('*.onnx'))) + 1} programs are what its classes declare")


@contextlib.contextmanager
def explorer(graphs):
    """The address of Model Explorer's page on the graphs of a file and their bytes."""
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    log = graphs.with_suffix(".log")
    command = [pathlib.Path(sys.executable).parent / "model-explorer", "--no_open_in_browser", "--host=127.0.0.1"]
    command += [f"--port={port}", "--skip_health_check", f"--node_data_paths={graphs.with_suffix('.bytes.json')}", str(graphs)]
    with log.open("w") as out:
        server = subprocess.Popen(command, stdout=out, stderr=subprocess.STDOUT, env={**os.environ, "PYTHONUNBUFFERED": "1"})
    try:
        start, found = time.perf_counter(), None
        while not found:
            found = re.search(rf"http://127\.0\.0\.1:{port}\S+", log.read_text())
            if server.poll() is not None or 60 < time.perf_counter() - start:
                raise AssertionError(f"Model Explorer serves no page: {log.read_text()[:600]}")
            time.sleep(0.1)
        yield found.group(0)
    finally:
        server.kill()
        server.wait()


def check_explorer_page(optc, folder):
    """Model Explorer's own page shows the operations of a program and the bytes that belong to them."""
    out = folder / "shown.json"
    run([optc, "--pass=default", "--emit=model-explorer", MODELS / "micro_attention_full.onnx", "-o", out])
    [first, *_] = json.loads(out.read_text())["graphs"]
    wanted = [first["id"], "op node count", str(len(first["nodes"])), "NODE DATA PROVIDERS"]
    with explorer(out) as address, browser(local=True) as chrome:
        chrome.call("Page.navigate", url=address)
        start = time.perf_counter()
        while True:
            text = chrome.run("document.body?.innerText ?? ''")
            if all(part in text for part in wanted) and "Processing graph" not in text:
                break
            if 60 < time.perf_counter() - start:
                raise AssertionError(f"Model Explorer's page does not show {wanted}: {text[:1200]}")
            time.sleep(0.2)
        counted = re.search(r"op node count\s+(\d+)", text)
        assert counted and int(counted[1]) == len(first["nodes"]), text
    print(f"model-explorer: its page shows the {len(first['nodes'])} operations of {first['id']}, with their bytes")


def pictures(optc, folder, models):
    """Each model with a layer open in both programs, and the box selected that moves the most bytes after the passes."""
    shown = """(() => {
        const moving = last.nodes.map((node, id) => [node.b ?? 0, id]).filter(([b, id]) => MOVES.includes(last.nodes[id].k));
        const most = moving.reduce((a, b) => (a[0] < b[0] ? b : a), [0, null])[1];
        const layers = last.groups.map((group, id) => [group, id]).filter(([group, id]) => !last.opened.has(id) && group.n < 120);
        const layer = layers.find(([group]) => group.b) ?? layers.find(([group]) => 8 < group.n) ?? layers[0];
        if (most != null) {
            select(last, `n${most}`, true);
            stages[0].reveal(stages[0].nodes[stages[0].kin[0]]?.p) && stages[0].draw();
            if (stages[0].kin.length) stages[0].centre(`n${stages[0].kin[0]}`, last.view.k);
        } else if (layer) {
            toggle(last, layer[1]);
        }
    })()"""
    folder.mkdir(exist_ok=True)
    with tempfile.TemporaryDirectory() as temporary:
        for number, model in enumerate(map(pathlib.Path, models)):
            page = report(optc, model, pathlib.Path(temporary) / "page.html", "--target=tpu")
            with browser(size=(1280, 800), dark=number % 3 == 2) as chrome:
                chrome.open(page)
                chrome.run(shown)
                chrome.run(f"tab({json.dumps(['conversions', 'memory', 'tiles'][number % 3])})")
                chrome.photograph(folder / f"{model.stem}.png")


def main():
    optc = pathlib.Path(sys.argv[1]).resolve()
    if sys.argv[2:3] == ["--pictures"]:
        return pictures(optc, pathlib.Path(sys.argv[3]), sys.argv[4:])
    with tempfile.TemporaryDirectory() as folder:
        folder = pathlib.Path(folder)
        check_page(optc, folder)
        check_large(optc, folder)
        check_explorer(optc, folder)
        check_explorer_page(optc, folder)


if __name__ == "__main__":
    main()
