"use strict";
// The graph of one program: places, drawing, moving and zooming. Text becomes markup through `esc` alone.

const ESCAPES = { "&": "&amp;", "<": "&lt;", ">": "&gt;", '"': "&quot;" };
const esc = (text) => String(text).replace(/[&<>"]/g, (c) => ESCAPES[c]);
const px = (x) => Math.round(x * 10) / 10;
const TITLE = 15, LINE = 12.5, STEM = 7, TAG = 12, HEADER = 22;

/** Bytes in decimal units, rounded down to a tenth. */
function bytes(n) {
  const units = [[1e12, "TB"], [1e9, "GB"], [1e6, "MB"], [1e3, "kB"]];
  const unit = units.find(([size]) => size <= n);
  return unit ? `${(Math.floor(n / (unit[0] / 10)) / 10).toFixed(1)} ${unit[1]}` : `${n} B`;
}

/**
 * A map of coordinates that gives each interval `[from, to, extra]` at least `extra` more space. It never brings two
 * coordinates nearer to one another, so that boxes beside an interval keep their distances.
 */
function stretch(intervals) {
  const grown = intervals.filter(([, , extra]) => 0 < extra);
  if (!grown.length) return (x) => x;
  const cuts = [...new Set(grown.flatMap(([from, to]) => [from, to]))].sort((a, b) => a - b);
  const gain = [0], rate = [];
  for (let i = 0; i + 1 < cuts.length; i++) {
    const middle = (cuts[i] + cuts[i + 1]) / 2;
    const here = grown.filter(([from, to]) => from < middle && middle < to);
    rate.push(Math.max(0, ...here.map(([from, to, extra]) => extra / (to - from))));
    gain.push(gain[i] + rate[i] * (cuts[i + 1] - cuts[i]));
  }
  return (x) => {
    if (x <= cuts[0]) return x;
    let i = cuts.findLastIndex((cut) => cut <= x);
    return x + gain[i] + (rate[i] ?? 0) * (x - cuts[i]);
  };
}

class Stage {
  /** `most` is the number of bytes with the fullest colour. */
  constructor(panel, svg, most) {
    Object.assign(this, panel, { svg, most, opened: new Set(), at: new Map(), view: { x: 0, y: 0, k: 1 } });
    this.paths = this.groups.map((group) => this.path(group));
    this.funcs.forEach(({ root }) => this.opened.add(root));
    this.openFew();
    this.listen();
  }

  /** The names of the layers around a layer and its own, below the function. */
  path(group) {
    const names = [];
    for (let at = group; at; at = this.groups[at.p]) names.unshift(at.t);
    return names.join("/");
  }

  /** A small program is open; a large one is opened until there are several boxes. */
  openFew() {
    if (this.nodes.length <= 60) return this.groups.forEach((_, id) => this.opened.add(id));
    for (let more = true; more; ) {
      const inner = [...this.opened].flatMap((id) => this.groups[id].open.kids);
      const shut = inner.filter(([layer, id]) => layer && !this.opened.has(id)).map(([, id]) => id);
      more = shut.length && inner.filter(([layer, id]) => layer || this.nodes[id].k != "port").length < 8;
      if (more) this.opened.add(shut.reduce((a, b) => (this.groups[a].n < this.groups[b].n ? b : a)));
    }
  }

  /** A layer with the places of what is in it: open layers inside of it need more space. */
  place(id) {
    const open = this.groups[id].open;
    const kids = open.kids.map(([layer, number, x, y]) => {
      const shut = layer ? this.groups[number].shut : this.nodes[number];
      const inner = layer && this.opened.has(number) ? this.place(number) : null;
      return { layer, number, x, y, shut, inner, body: inner ?? shut };
    });
    const grown = kids.filter((kid) => kid.inner);
    const across = stretch(grown.map((k) => [k.x, k.x + k.shut.w, k.body.w - k.shut.w]));
    const down = stretch(grown.map((k) => [k.y, k.y + k.shut.h, k.body.h - k.shut.h]));
    for (const kid of kids) {
      const { x, y, shut, body } = kid;
      kid.left = (across(x) + across(x + shut.w) - body.w) / 2;
      // A box without inputs stands close to its readers.
      kid.top = shut.i.length ? down(y) : down(y + shut.h) - body.h;
    }
    const port = (ports, wire) => ports.find(([other]) => other == wire)?.[1] ?? 0;
    const wires = new Map();
    for (const [wire, fx, fy, c0, c1, tx, ty, from, to] of open.pieces) {
      const [source, target] = [kids[from], kids[to]];
      const x0 = px(source ? source.left + port(source.body.o, wire) : across(fx));
      const y0 = px(source ? source.top + source.body.h : down(fy));
      const x1 = px(target ? target.left + port(target.body.i, wire) : across(tx));
      const y1 = px(target ? target.top : down(ty));
      const [a, b] = [px(Math.max(y0, down(c0))), px(down(c1))];
      const middle = px((a + b) / 2);
      const drawn = wires.get(wire) ?? { line: "", head: "" };
      drawn.line += `M${x0} ${y0}V${a}C${x0} ${middle} ${x1} ${middle} ${x1} ${b}V${y1}`;
      if (target && !target.inner) drawn.head += `M${x1 - 3} ${y1 - 6.5}h6L${x1} ${y1}Z`;
      wires.set(wire, drawn);
    }
    const ports = (all) => all.map(([wire, x]) => [wire, across(x)]);
    return { w: across(open.w), h: down(open.h), i: ports(open.i), o: ports(open.o), label: across(open.x), kids, wires };
  }

  draw() {
    this.at.clear();
    let [top, out] = [0, ""];
    this.wide = 0;
    for (const { root } of this.funcs) {
      const body = this.place(root);
      out += this.layer(root, body, [0, top], [0, top], 0);
      this.wide = Math.max(this.wide, body.w);
      top += body.h + 24;
    }
    this.tall = Math.max(1, top - 24);
    this.svg.innerHTML = `<g class="world">${out}</g>`;
    this.look();
    this.mark();
  }

  layer(id, body, [x, y], [left, top], depth) {
    this.at.set(`g${id}`, { x: left, y: top, w: body.w, h: body.h });
    const sign = depth ? "− " : "";
    const name = this.groups[id].t;
    let out = `<g class="frame${depth % 2 ? " odd" : ""}" data-g="${id}" transform="translate(${px(x)} ${px(y)})">`;
    out += `<rect width="${px(body.w)}" height="${px(body.h)}" rx="7"/>`;
    for (const [wire, { line, head }] of body.wires) {
      out += `<g class="w" data-w="${wire}"><path class="hit" d="${line}"/><path class="wire" d="${line}"/>`;
      out += (head ? `<path class="head" d="${head}"/>` : "") + "</g>";
    }
    out += `<text class="label" data-shut="${id}" x="${px(body.label)}" y="${HEADER - 7}">${sign}${esc(name)}</text>`;
    for (const kid of body.kids) {
      const place = [left + kid.left, top + kid.top];
      if (kid.inner) out += this.layer(kid.number, kid.inner, [kid.left, kid.top], place, depth + 1);
      else out += this.box(kid, place);
    }
    return out + "</g>";
  }

  box({ layer, number, left, top, shut }, [x, y]) {
    const key = `${layer ? "g" : "n"}${number}`;
    this.at.set(key, { x, y, w: shut.w, h: shut.h });
    const [entry, edge] = [layer ? this.groups[number] : this.nodes[number], (shut.w - shut.bw) / 2];
    const tone = entry.k;
    const heat = entry.b ? ` style="--heat:${px(0.12 + 0.78 * Math.sqrt(Math.min(1, entry.b / this.most)))}"` : "";
    const rect = (dx, dy, more) =>
      `<rect x="${px(edge + dx)}" y="${dy}" width="${shut.bw}" height="${shut.bh}" rx="${entry.k == "port" ? shut.bh / 2 : 5}" ${more}/>`;
    let out = `<g class="box" data-${layer ? "g" : "n"}="${number}" transform="translate(${px(left)} ${px(top)})">`;
    if (layer) out += rect(3, -3, `class="back ${tone}"${heat}`);
    // Below a colour that is not opaque lies the paper.
    out += rect(0, 0, 'fill="var(--paper)"') + rect(0, 0, `class="face ${tone}"${heat}`);
    const middle = px(shut.w / 2);
    out += `<text class="title" x="${middle}" y="${TITLE}">${esc(entry.t)}</text>`;
    shut.l.forEach((line, i) => {
      out += `<text class="line" x="${middle}" y="${TITLE + LINE * (i + 1)}">${esc(line)}</text>`;
    });
    shut.g.forEach(([tagX, lines], i) => {
      if (!lines.length) return;
      out += `<g class="w" data-w="${shut.o[i][0]}"><path class="stem" d="M${tagX} ${shut.bh}v${STEM}"/>`;
      lines.forEach((line, k) => {
        out += `<text class="tag" x="${tagX}" y="${shut.bh + STEM - 3 + TAG * (k + 1)}">${esc(line)}</text>`;
      });
      out += "</g>";
    });
    if (layer) out += `<g class="plus" transform="translate(${px(edge + shut.bw)} ${shut.bh})"><circle r="6"/><path d="M-3 0h6M0 -3v6"/></g>`;
    return out + "</g>";
  }

  /** Opens the layers around a box or layer; returns whether some were closed. */
  reveal(parent) {
    let any = false;
    for (let id = parent; id != null; id = this.groups[id].p) {
      any ||= !this.opened.has(id);
      this.opened.add(id);
    }
    return any;
  }

  /** The box, or the closed layer around it, that stands for a box now. */
  shown(node) {
    const around = [];
    for (let id = this.nodes[node].p; id != null; id = this.groups[id].p) around.unshift(id);
    const shut = around.find((id) => !this.opened.has(id));
    return shut == null ? `n${node}` : `g${shut}`;
  }

  /** Marks the selected box or value, and the boxes that belong to it. */
  mark(chosen = this.chosen, kin = this.kin ?? []) {
    [this.chosen, this.kin] = [chosen, kin];
    this.svg.querySelectorAll(".on, .kin").forEach((one) => one.classList.remove("on", "kin"));
    const find = (key) => this.svg.querySelectorAll(`[data-${key[0]}="${key.slice(1)}"]`);
    if (chosen) find(chosen).forEach((one) => one.classList.add("on"));
    for (const node of kin) find(this.shown(node)).forEach((one) => one.classList.add("kin"));
  }

  size() {
    const box = this.svg.getBoundingClientRect();
    return [Math.max(60, box.width), Math.max(60, box.height)];
  }

  look() {
    const { x, y, k } = this.view;
    this.svg.firstChild?.setAttribute("transform", `translate(${px(x)} ${px(y)}) scale(${k.toFixed(4)})`);
  }

  /** Shows everything; `legible` keeps text large enough to be read and shows the beginning. */
  fit(legible) {
    const [w, h] = this.size();
    const whole = Math.min((w - 24) / this.wide, (h - 24) / this.tall, 1.25);
    const k = legible ? Math.max(whole, Math.min(0.8, Math.max(0.55, (w - 24) / this.wide))) : whole;
    this.view = { k, x: Math.max(12, (w - this.wide * k) / 2), y: Math.max(12, (h - this.tall * k) / 2) };
    this.look();
  }

  zoom(by, [x, y] = this.size().map((s) => s / 2)) {
    const k = Math.min(4, Math.max(0.02, this.view.k * by));
    const scale = k / this.view.k;
    this.view = { k, x: x - (x - this.view.x) * scale, y: y - (y - this.view.y) * scale };
    this.look();
  }

  centre(key, least = 0.75) {
    const place = this.at.get(key);
    if (!place) return;
    const [w, h] = this.size();
    const k = Math.max(this.view.k, Math.min(least, (w - 24) / place.w));
    this.view = { k, x: w / 2 - (place.x + place.w / 2) * k, y: h / 2 - (place.y + Math.min(place.h, h / k) / 2) * k };
    this.look();
  }

  /** Opens or closes a layer; its upper edge stays where it is on the screen. */
  toggle(id, open = !this.opened.has(id)) {
    const before = this.at.get(`g${id}`);
    this.opened[open ? "add" : "delete"](id);
    this.draw();
    const after = this.at.get(`g${id}`);
    if (!before || !after) return;
    this.view.x += (before.x + before.w / 2 - after.x - after.w / 2) * this.view.k;
    this.view.y += (before.y - after.y) * this.view.k;
    this.look();
    const [top, bottom] = [after.y, after.y + after.h].map((y) => this.view.y + y * this.view.k);
    if (bottom < 0 || this.size()[1] < top) this.centre(`g${id}`, this.view.k);
  }

  listen() {
    const { svg } = this;
    let start = null;
    svg.addEventListener("wheel", (event) => {
      event.preventDefault();
      const box = svg.getBoundingClientRect();
      this.zoom(Math.exp(-event.deltaY * (event.deltaMode ? 0.05 : 0.0016)), [event.clientX - box.left, event.clientY - box.top]);
    }, { passive: false });
    svg.addEventListener("pointerdown", (event) => {
      start = { x: event.clientX, y: event.clientY, view: { ...this.view }, moved: false };
    });
    svg.addEventListener("pointermove", (event) => {
      if (!start || !event.buttons) return;
      const [dx, dy] = [event.clientX - start.x, event.clientY - start.y];
      if (!start.moved && Math.hypot(dx, dy) < 4) return;
      if (!start.moved) svg.setPointerCapture(event.pointerId);
      start.moved = true;
      svg.classList.add("drag");
      this.view = { ...this.view, x: start.view.x + dx, y: start.view.y + dy };
      this.look();
    });
    svg.addEventListener("pointerup", () => svg.classList.remove("drag"));
    svg.addEventListener("click", (event) => {
      const moved = start?.moved;
      start = null;
      if (!moved) this.onclick?.(event.target);
    });
  }
}
