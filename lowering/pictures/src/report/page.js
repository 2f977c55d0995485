// The page around the graphs: search, details, legend, sections. Keys are `n7` for a box, `g7` for a layer, `w7` for a
// value, each of one stage.

const data = JSON.parse(document.getElementById("data").textContent);
const $ = (id) => document.getElementById(id);
const most = Math.max(1, ...data.panels.flatMap((panel) => panel.nodes.map((node) => node.b ?? 0)));

const stages = data.panels.map((panel, number) => {
  const pane = document.createElement("div");
  pane.className = "pane";
  const line = panel.funcs.length == 1 ? panel.funcs[0].line : `${panel.funcs.length} functions`;
  pane.innerHTML = `<div class="cap"><b>${esc(panel.title)}</b><span title="${esc(line)}">${esc(line)}</span>
    <button data-do="all" title="Open all layers">expand</button><button data-do="none" title="Close all layers">collapse</button>
    <button data-do="fit" title="Show everything">fit</button><button data-do="out" title="Zoom out">−</button><button data-do="in" title="Zoom in">+</button></div>
    <svg xmlns="http://www.w3.org/2000/svg" role="img" aria-label="${esc(panel.title)}"></svg>`;
  $("panes").append(pane);
  const stage = new Stage(panel, pane.querySelector(":scope > svg"), most);
  stage.number = number;
  stage.onclick = (target) => clicked(stage, target);
  pane.querySelector(".cap").addEventListener("click", ({ target }) => tool(stage, target.dataset.do));
  return stage;
});
const last = stages.at(-1);

function tool(stage, name) {
  if (name == "in" || name == "out") return stage.zoom(name == "in" ? 1.3 : 1 / 1.3);
  if (name == "all") stage.groups.forEach((_, id) => stage.opened.add(id));
  if (name == "none") {
    stage.opened.clear();
    stage.funcs.forEach(({ root }) => stage.opened.add(root));
  }
  if (name == "all" || name == "none") stage.draw();
  if (name) stage.fit(name != "fit");
}

/** Opens or closes a layer, and the layer of the same name in the other programs. */
function toggle(stage, id) {
  stage.toggle(id);
  const open = stage.opened.has(id);
  for (const other of stages.filter((other) => other != stage)) {
    other.paths.forEach((path, twin) => {
      if (path == stage.paths[id] && other.opened.has(twin) != open) other.toggle(twin, open);
    });
  }
}

function clicked(stage, target) {
  const shut = target.closest("[data-shut]");
  if (shut && stage.groups[shut.dataset.shut].p != null) {
    toggle(stage, Number(shut.dataset.shut));
    return select(stage, `g${shut.dataset.shut}`);
  }
  const one = target.closest("[data-w], .box");
  if (!one) return select(null);
  const { w, n, g } = one.dataset;
  if (g != null) toggle(stage, Number(g));
  select(stage, w != null ? `w${w}` : n != null ? `n${n}` : `g${g}`);
}

/** Boxes of another program with the same elements. */
function relatives(stage, key, other) {
  if (!key || key[0] == "g") return [];
  const id = Number(key.slice(1));
  const node = key[0] == "w" ? stage.wires[id].f : id;
  if (other.number + 1 == stage.number) return stage.nodes[node].s ?? [];
  if (stage.number + 1 != other.number) return [];
  return other.nodes.flatMap((one, number) => (one.s?.includes(node) ? [number] : []));
}

function select(stage, key, move) {
  for (const other of stages) {
    if (other == stage) {
      other.mark(key, []);
      continue;
    }
    const kin = stage ? relatives(stage, key, other) : [];
    other.mark(null, kin);
    if (kin.length) other.centre(other.shown(kin[0]), other.view.k);
  }
  if (stage && move) {
    if (stage.reveal(key[0] == "g" ? stage.groups[key.slice(1)].p : stage.nodes[nodeOf(stage, key)].p)) {
      stage.draw();
    }
    stage.centre(key[0] == "w" ? `n${nodeOf(stage, key)}` : key);
  }
  $("detail").innerHTML = !stage ? welcome() : DETAILS[key[0]](stage, Number(key.slice(1)));
  $("detail").scrollTop = 0;
}

const nodeOf = (stage, key) => (key[0] == "w" ? stage.wires[key.slice(1)].f : Number(key.slice(1)));

// Details.

const WORDS = {
  compute: "computes", view: "view, moves nothing", movement: "moves bytes", copy: "copies a part",
  expand: "repeats elements", constant: "constants, at compile time", port: "argument or result",
};
const section = (title, body) => (body ? `<h3>${esc(title)}</h3>${body}` : "");
const link = (stage, key, text, more = "") =>
  `<button class="link" data-stage="${stage.number}" data-key="${key}"><b>${esc(text)}</b> <em>${esc(more)}</em></button>`;

function badge(node) {
  const heat = node.b ? ` style="background:rgba(var(--${node.k}),.25);border-color:rgb(var(--${node.k}))"` : "";
  const moved = node.b ? `${WORDS[node.k].split(" ")[0]} ${bytes(node.b)}` : WORDS[node.k];
  return `<span class="badge"${MOVES.includes(node.k) ? heat : ""}>${esc(moved)}</span>`;
}
const MOVES = ["movement", "copy", "expand"];

function value(stage, wire) {
  const { t, v } = stage.wires[wire];
  return link(stage, `w${wire}`, `%${v}`, data.types[t].t);
}

function rows(pairs) {
  return pairs.length ? `<dl>${pairs.map(([k, v]) => `<dt>${esc(k)}</dt><dd>${esc(v)}</dd>`).join("")}</dl>` : "";
}

const DETAILS = {
  n(stage, id) {
    const node = stage.nodes[id];
    const cost = node.c;
    const made = stage.wires.flatMap((wire, number) => (wire.f == id ? [number] : []));
    let out = `<h2>${esc(node.t)}</h2>`;
    out += `<p class="path">${esc((node.n ?? []).join(", "))}</p>${badge(node)}`;
    if (cost) out += reasons(cost);
    out += section("Attributes", rows(node.a ?? []));
    out += section("Reads", (node.i ?? []).map(([wire]) => value(stage, wire)).join(""));
    out += section("Makes", made.map((wire) => value(stage, wire)).join(""));
    const readers = [...new Set(made.flatMap((wire) => stage.wires[wire].to))];
    out += section("Read by", readers.map((to) => box(stage, to)).join(""));
    for (const other of stages.filter((other) => other != stage)) {
      const kin = relatives(stage, `n${id}`, other);
      out += section(`The same elements, ${other.title}`, kin.map((one) => box(other, one)).join(""));
    }
    return out;
  },
  g(stage, id) {
    const group = stage.groups[id];
    let out = `<h2>${esc(group.t)}</h2><p class="path">${esc(stage.paths[id])}</p>`;
    out += rows([["operations", group.n], ...group.m.map((line) => ["bytes", line])]);
    const inside = (node) => {
      for (let at = node.p; at != null; at = stage.groups[at].p) if (at == id) return true;
      return false;
    };
    const moving = stage.nodes.map((node, number) => [node, number]).filter(([node]) => node.b && inside(node));
    moving.sort(([a], [b]) => b.b - a.b);
    out += section("The most bytes", moving.slice(0, 12).map(([, number]) => box(stage, number)).join(""));
    return out;
  },
  w(stage, id) {
    const wire = stage.wires[id];
    const { t, s } = data.types[wire.t];
    let out = `<h2>%${esc(wire.v)}</h2><p><code>${esc(t)}</code></p>`;
    out += section("In memory", s ? memory(s) : '<p class="hint">Not drawn: a size or the layout is not known.</p>');
    out += section("Made by", box(stage, wire.f));
    out += section("Read by", [...new Set(wire.to)].map((to) => box(stage, to)).join(""));
    for (const other of stages.filter((other) => other != stage)) {
      const kin = relatives(stage, `w${id}`, other);
      out += section(`The same elements, ${other.title}`, kin.map((one) => box(other, one)).join(""));
    }
    return out;
  },
};

function box(stage, id) {
  const node = stage.nodes[id];
  return link(stage, `n${id}`, node.t, [node.n?.at(-1), node.b && bytes(node.b)].filter(Boolean).join(" · "));
}

/** The reason why an operation moves bytes, with the layouts that it reads and writes. */
function reasons(cost) {
  let out = cost.r.map(([heading, text]) => section(heading, `<p>${esc(text)}</p>`)).join("");
  const options = cost.o.map((option) => `<p><code>${esc(option)}</code></p>`).join("");
  out += section("Removed by", options || '<p class="hint">Nothing that was tried.</p>');
  const pair = data.pairs[cost.p];
  if (pair) {
    out += section("From and to", `${memory(pair.a)}<div class="arrow">↓</div>${memory(pair.b)}<p class="hint">${esc(pair.w)}. Colours: tiles or lines that elements come from.</p>`);
  } else if (cost.l) {
    out += section("From and to", `<p><code>${esc(cost.l[0])}</code></p><p><code>${esc(cost.l[1])}</code></p>`);
  }
  return out;
}

const COLOURS = ["#8ab8ea", "#f5bd74", "#93cb96", "#ea86ac", "#c08bd0", "#6fcfdb", "#d6dd7c", "#b09a90"];

/** Positions of memory in their order; hatched ones hold no element. */
function memory({ w, n, t, s }) {
  const [wide, line] = [300, Math.max(5, Math.min(9, 160 / Math.max(1, s.length)))];
  let [y, before, out] = [4, null, ""];
  for (const [tile, ranges] of s) {
    if (t && before != null && before != tile) y += 4;
    before = tile;
    for (const [from, to, colour] of ranges) {
      const fill = colour == null ? "url(#pad)" : COLOURS[colour];
      out += `<rect x="${px(4 + (wide * from) / n)}" y="${px(y)}" width="${px((wide * (to - from)) / n)}" height="${px(line - 0.7)}" fill="${fill}"/>`;
    }
    y += line;
  }
  const [first, ...more] = w;
  return `<div class="memory"><p>${esc(first ?? "")}</p><svg viewBox="0 0 ${wide + 8} ${px(y + 4)}">
    <defs><pattern id="pad" width="5" height="5" patternUnits="userSpaceOnUse"><path d="M0 5L5 0" stroke="#90a4ae" stroke-width=".8"/></pattern></defs>
    ${out}</svg>${more.map((text) => `<p>${esc(text)}</p>`).join("")}</div>`;
}

function welcome() {
  const top = last.nodes.map((node, id) => [node, id]).filter(([node]) => MOVES.includes(node.k) && node.b);
  top.sort(([a], [b]) => b.b - a.b);
  const listed = top.slice(0, 8).map(([, id]) => box(last, id)).join("");
  return `<h2>${esc(last.title == "before" ? "Program" : "What still moves")}</h2>
    ${listed || '<p class="hint">Nothing: every rearrangement is a view.</p>'}
    <h3>How to read</h3>
    <p class="hint">Click a layer (+) to open it in both programs, its name (−) to close it.</p>
    <p class="hint">Click a box for the reason why it moves bytes, a wire or a type for the layout in memory.</p>
    <p class="hint">Drag to move, scroll to zoom, / to search. A dashed outline marks the same elements in the other program.</p>`;
}

$("detail").addEventListener("click", ({ target }) => {
  const one = target.closest("[data-key]");
  if (one) select(stages[one.dataset.stage], one.dataset.key, true);
});

// Legend.

$("legend").innerHTML = ["compute", "view", "movement", "copy", "expand", "constant"]
  .map((kind) => {
    const style = MOVES.includes(kind)
      ? `background:linear-gradient(90deg,rgba(var(--${kind}),.12),rgba(var(--${kind}),.9));border-color:rgb(var(--${kind}))`
      : `background:var(--${kind});border-color:var(--${kind}-line)${kind == "constant" ? ";border-style:dashed" : ""}`;
    const words = { compute: "computes", view: "view", movement: "moves", copy: "copies", expand: "repeats", constant: "compile time" };
    return `<span><i style="${style}"></i>${words[kind]}</span>`;
  })
  .join("") + `<span>pale to full: up to ${bytes(most)}</span>`;

// Search.

const index = stages.flatMap((stage) =>
  stage.nodes.map((node, id) => ({ stage, key: `n${id}`, node, text: [node.t, ...(node.n ?? [])].join("\n").toLowerCase() }))
);
for (const stage of stages) {
  const first = index.findIndex((entry) => entry.stage == stage);
  for (const wire of stage.wires) index[first + wire.f].text += `\n%${wire.v}\n${data.types[wire.t].t.toLowerCase()}`;
}
let hits = [], at = -1;

function search(text) {
  const words = text.toLowerCase().split(/\s+/).filter(Boolean);
  hits = words.length ? index.filter((entry) => words.every((word) => entry.text.includes(word))) : [];
  at = -1;
  $("count").textContent = words.length ? `${hits.length} ${hits.length == 1 ? "hit" : "hits"}` : "";
  $("hits").hidden = !hits.length;
  $("hits").innerHTML = hits.slice(0, 60).map(({ stage, node }, i) =>
    `<button data-hit="${i}"><i>${esc(stage.title.slice(0, 6))}</i><span>${esc(node.t)} <em>${esc(node.n?.at(-1) ?? "")}</em></span><em>${node.b ? bytes(node.b) : ""}</em></button>`
  ).join("");
}

function visit(i) {
  if (!hits.length) return;
  at = (i + hits.length) % hits.length;
  const { stage, key } = hits[at];
  select(stage, key, true);
  $("count").textContent = `${at + 1} of ${hits.length}`;
  $("hits").querySelectorAll("button").forEach((one, k) => one.classList.toggle("on", k == at));
}

$("search").addEventListener("input", ({ target }) => search(target.value));
$("search").addEventListener("focus", () => ($("hits").hidden = !hits.length));
$("search").addEventListener("keydown", (event) => {
  if (event.key == "Enter") {
    visit(at + (event.shiftKey ? -1 : 1));
    $("hits").hidden = true;
  }
  if (event.key == "ArrowDown" || event.key == "ArrowUp") {
    event.preventDefault();
    visit(at + (event.key == "ArrowUp" ? -1 : 1));
  }
});
$("hits").addEventListener("click", ({ target }) => {
  const hit = target.closest("[data-hit]");
  if (hit) visit(Number(hit.dataset.hit));
  $("hits").hidden = true;
});
document.addEventListener("pointerdown", ({ target }) => {
  if (!target.closest("#find, #hits")) $("hits").hidden = true;
});
document.addEventListener("keydown", (event) => {
  if (event.key == "/" && event.target != $("search")) {
    event.preventDefault();
    $("search").select();
  }
  if (event.key == "Escape") {
    $("hits").hidden = true;
    document.activeElement?.blur();
    select(null);
  }
});

// Sections.

function tab(name) {
  document.querySelectorAll("#drawer nav button").forEach((one) => one.classList.toggle("on", one.dataset.tab == name));
  document.querySelectorAll("article").forEach((one) => one.classList.toggle("on", one.id == name));
}
document.querySelector("#drawer nav").addEventListener("click", ({ target }) => {
  const one = target.closest("[data-tab]");
  if (one) tab(one.dataset.tab);
});
const go = ({ target }) => {
  const one = target.closest("[data-go]");
  if (one && !window.getSelection().toString()) select(last, one.dataset.go, true);
};
$("sections").addEventListener("click", go);
$("sections").addEventListener("keydown", (event) => event.key == "Enter" && go(event));

$("grip").addEventListener("pointerdown", (event) => {
  $("grip").setPointerCapture(event.pointerId);
  $("grip").onpointermove = ({ clientY }) => {
    const height = Math.min(innerHeight * 0.8, Math.max(36, innerHeight - clientY));
    document.body.style.setProperty("--drawer", `${height}px`);
  };
  $("grip").onpointerup = () => ($("grip").onpointermove = null);
});

const tabs = [...document.querySelectorAll("#drawer nav button")];
const full = tabs.find((one) => Number(one.querySelector("small")?.textContent));
tab((full ?? tabs.find((one) => one.dataset.tab == "memory")).dataset.tab);
for (const stage of stages) {
  stage.draw();
  stage.fit(true);
}
select(null);
document.documentElement.dataset.ready = "1";
