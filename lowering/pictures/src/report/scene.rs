//! The programs of a report as data for its script: boxes, layers with the places of what is in them, wires and types.
//!
//! Each layer is placed by itself with the layers in it closed, so the data grows with the program and not with the ways
//! to open it. Coordinates are relative to the layer.

use crate::graph::{Graph, Totals};
use crate::picture::Panel;
use crate::report::Report;
use crate::spelling::Spelling;
use crate::svg::frame::{Block, Frame, Label, Places, Shape};
use crate::svg::layouts::{Memory, Shown};
use crate::svg::nest::{self, Item};
use crate::words;
use indexmap::IndexMap;
use optc_ir::text::{print_attr, print_type, value_names};
use optc_ir::{Func, Loc, Op, Structure, Value};
use serde_json::{Map, Value as Json, json};

/// The longest text of an attribute in characters.
const LONGEST: usize = 400;
/// The largest number of layouts, and of pairs of layouts, that are drawn.
const MOST_DRAWN: usize = 1000;

/// The data, and the numbers of boxes that the tables of the page lead to.
pub(crate) struct Scene {
    pub(crate) data: Json,
    /// The box of each operation of the last panel, by the number of its function.
    boxes: IndexMap<(usize, Op), usize>,
    /// The wire of each value of the last panel.
    wires: IndexMap<(usize, Value), usize>,
}

impl Scene {
    pub(crate) fn of(report: &Report<'_>) -> Scene {
        let spelling = Spelling::of(&report.picture);
        let mut types = Types::default();
        let mut panels = Vec::new();
        let mut last = Sheet::default();
        let panes = &report.picture.panels;
        for (number, panel) in panes.iter().enumerate() {
            let mut sheet = Sheet::default();
            for (func, graph) in panel.graphs(spelling) {
                sheet.func(func, &graph, &mut types);
            }
            if 0 < number {
                sheet.link(panel, &last);
            }
            if number + 1 == panes.len() {
                sheet.costs(report, panel, &mut types);
            }
            panels.push(json!({
                "title": panel.title,
                "funcs": sheet.funcs,
                "nodes": sheet.nodes,
                "groups": sheet.groups,
                "wires": sheet.wires,
            }));
            last = sheet;
        }
        let data = json!({
            "panels": panels,
            "types": types.all.values().collect::<Vec<_>>(),
            "pairs": types.pairs.values().collect::<Vec<_>>(),
        });
        Scene {
            data,
            boxes: last.box_of,
            wires: last.wire_of,
        }
    }

    /// The box of an operation of a function; `None` if it is dead or drawn in its readers.
    pub(crate) fn box_of(&self, op: (usize, Op)) -> Option<usize> {
        self.boxes.get(&op).copied()
    }

    /// The wire of a value of a function.
    pub(crate) fn wire_of(&self, value: (usize, Value)) -> Option<usize> {
        self.wires.get(&value).copied()
    }
}

/// Types and drawings of their layouts, each once.
#[derive(Default)]
struct Types {
    all: IndexMap<String, Json>,
    pairs: IndexMap<(usize, usize), Json>,
}

impl Types {
    fn number(&mut self, func: &Func, value: Value) -> usize {
        let text = print_type(func.ty(value));
        if let Some(number) = self.all.get_index_of(&text) {
            return number;
        }
        let memory = Memory::of(func, value).filter(|_| self.all.len() < MOST_DRAWN);
        let shown = memory.map(|memory| drawing(&Shown::of(&memory, &[], &|_| None)));
        let entry = json!({ "t": text, "s": shown });
        self.all.insert_full(text, entry).0
    }

    /// The drawing of a conversion from one value to another.
    fn pair(&mut self, func: &Func, from: Value, to: Value) -> Option<usize> {
        let key = (self.number(func, from), self.number(func, to));
        if let Some(number) = self.pairs.get_index_of(&key) {
            return Some(number);
        }
        let (a, b) = (Memory::of(func, from)?, Memory::of(func, to)?);
        if !a.converts_to(&b) || MOST_DRAWN <= self.pairs.len() {
            return None;
        }
        let unit = |element: &[u64]| a.unit_of(element);
        let entry = json!({
            "a": drawing(&Shown::of(&a, &[], &unit)),
            "b": drawing(&Shown::of(&b, &[], &unit)),
            "w": a.sources(&b),
        });
        Some(self.pairs.insert_full(key, entry).0)
    }
}

/// Positions of memory, line by line: the tile of the line, then the ranges with the numbers of their colours.
fn drawing(shown: &Shown) -> Json {
    let strips = shown.strips.iter().map(|strip| {
        let ranges = strip.stretches.iter();
        let ranges = ranges.map(|&(from, to, colour)| json!([from, to, colour]));
        json!([strip.tile, ranges.collect::<Vec<_>>()])
    });
    json!({
        "w": shown.lines,
        "n": shown.line,
        "t": shown.tiled(),
        "s": strips.collect::<Vec<_>>(),
    })
}

/// One panel.
#[derive(Default)]
struct Sheet {
    funcs: Vec<Json>,
    nodes: Vec<Map<String, Json>>,
    groups: Vec<Map<String, Json>>,
    wires: Vec<Json>,
    box_of: IndexMap<(usize, Op), usize>,
    /// The box that makes each value, and its wire.
    maker_of: IndexMap<Value, usize>,
    wire_of: IndexMap<(usize, Value), usize>,
    /// The boxes with each name of the original model.
    named: IndexMap<String, Vec<usize>>,
}

/// The numbers of the first box and wire of a function.
#[derive(Clone, Copy)]
struct Base {
    node: usize,
    wire: usize,
}

impl Sheet {
    fn func(&mut self, func: &Func, graph: &Graph, types: &mut Types) {
        let base = Base {
            node: self.nodes.len(),
            wire: self.wires.len(),
        };
        let names = value_names(func);
        let name = |value: Value| names.get(&value).map_or("", |n| n);
        for node in &graph.nodes {
            let number = self.nodes.len();
            let mut entry = Map::new();
            entry.insert("t".into(), json!(node.title));
            entry.insert("k".into(), json!(format!("{:?}", node.tone).to_lowercase()));
            if 0 < node.charge.bytes {
                entry.insert("b".into(), json!(node.charge.bytes));
            }
            if let Some(op) = node.op {
                self.op(func, op, number, &mut entry);
            }
            self.nodes.push(entry);
        }
        for wire in &graph.wires {
            let number = self.wires.len();
            self.maker_of.insert(wire.value, base.node + wire.from);
            self.wire_of.insert((self.funcs.len(), wire.value), number);
            let readers = wire.to.iter().map(|to| base.node + to);
            self.wires.push(json!({
                "f": base.node + wire.from,
                "to": readers.collect::<Vec<_>>(),
                "t": types.number(func, wire.value),
                "v": name(wire.value),
            }));
        }
        let items = nest::layers(graph);
        let places = Places::new(graph);
        let mut layers = Layers {
            sheet: self,
            graph,
            places,
            base,
        };
        let root = layers.layer(&format!("@{}", func.name), &items, None, None);
        let line = graph.totals().line();
        let entry = json!({ "name": &*func.name, "root": root, "line": line });
        self.funcs.push(entry);
    }

    /// The name of an operation in the original model, and its attributes.
    fn op(&mut self, func: &Func, op: Op, number: usize, entry: &mut Map<String, Json>) {
        let data = &func.ops[op];
        self.box_of.insert((self.funcs.len(), op), number);
        let mut names = Vec::new();
        all_names(&data.loc, &mut names);
        for name in &names {
            let boxes = self.named.entry(name.clone()).or_default();
            boxes.push(number);
        }
        if !names.is_empty() {
            entry.insert("n".into(), json!(names));
        }
        let attrs = data.props.iter();
        let attrs = attrs.map(|(name, attr)| json!([name, words::cut(&print_attr(attr), LONGEST)]));
        let attrs: Vec<Json> = attrs.collect();
        if !attrs.is_empty() {
            entry.insert("a".into(), json!(attrs));
        }
    }

    /// Links boxes to those of the panel before that have the same elements, or else the same name.
    fn link(&mut self, panel: &Panel<'_>, before: &Sheet) {
        let mut links: Vec<Vec<usize>> = vec![Vec::new(); self.nodes.len()];
        let traces = panel.module.funcs.iter().filter_map(|f| f.trace.as_ref());
        for held in traces.flat_map(|trace| &trace.held) {
            let ends = (
                self.maker_of.get(&held.value),
                before.maker_of.get(&held.origin),
            );
            if let (Some(&after), Some(&origin)) = ends
                && !links[after].contains(&origin)
            {
                links[after].push(origin);
            }
        }
        for (name, boxes) in &self.named {
            let Some(origins) = before.named.get(name) else {
                continue;
            };
            for &number in boxes {
                if links[number].is_empty() {
                    links[number].extend(origins);
                }
            }
        }
        for (entry, links) in self.nodes.iter_mut().zip(links) {
            if !links.is_empty() {
                entry.insert("s".into(), json!(links));
            }
        }
    }

    /// Adds the reasons of operations that move bytes.
    fn costs(&mut self, report: &Report<'_>, panel: &Panel<'_>, types: &mut Types) {
        for cost in &report.costs {
            let number = self.box_of.get(&(cost.func, cost.op));
            let (Some(&number), Some(func)) = (number, panel.module.funcs.get(cost.func)) else {
                continue;
            };
            let data = &func.ops[cost.op];
            let converts = panel.registry.structure(&data.name) == Structure::Convert;
            let ends = data.operands.first().zip(data.results.first());
            let pair = ends.filter(|_| converts);
            let pair = pair.and_then(|(&from, &to)| types.pair(func, from, to));
            let entry = json!({
                "k": cost.kind,
                "b": cost.bytes,
                "l": cost.layouts,
                "r": cost.reasons,
                "o": cost.removed_by,
                "p": pair,
            });
            self.nodes[number].insert("c".into(), entry);
        }
    }
}

fn all_names(loc: &Loc, names: &mut Vec<String>) {
    match loc {
        Loc::Name(name) => {
            let name = name.to_string();
            if !names.contains(&name) {
                names.push(name);
            }
        }
        Loc::Fused(parts) => parts.iter().for_each(|part| all_names(part, names)),
        Loc::Unknown | Loc::File(..) => {}
    }
}

/// The layers of one function.
struct Layers<'a> {
    sheet: &'a mut Sheet,
    graph: &'a Graph,
    places: Places<'a>,
    base: Base,
}

impl Layers<'_> {
    /// Places a layer with the layers in it closed, then each of these; returns its number.
    fn layer(
        &mut self,
        label: &str,
        items: &[Item],
        nodes: Option<&[usize]>,
        parent: Option<usize>,
    ) -> usize {
        let number = self.sheet.groups.len();
        self.sheet.groups.push(Map::new());
        let shut = items.iter().map(|item| match item {
            Item::Node(node) => Item::Node(*node),
            Item::Group(group) => Item::Group(group.shut(self.graph)),
        });
        let block = self.places.frame(label, &shut.collect::<Vec<_>>(), nodes);
        let mut children = Vec::new();
        if let Shape::Frame(frame) = &block.shape {
            for (((x, y), child), item) in frame.children.iter().zip(items) {
                let (kind, inner) = match item {
                    Item::Node(node) => (0, self.node(*node, child, number)),
                    Item::Group(group) => {
                        let nodes = Some(&group.nodes[..]);
                        let inner = self.layer(&group.label, &group.items, nodes, Some(number));
                        self.closed(inner, child);
                        (1, inner)
                    }
                };
                children.push(json!([kind, inner, round(*x), round(*y)]));
            }
            self.open(number, label, parent, (&block, frame), children);
        }
        let all = 0..self.graph.nodes.len();
        let inside = nodes.map_or(all.collect(), <[usize]>::to_vec);
        let totals = Totals::of(inside.iter().map(|&n| &self.graph.nodes[n]));
        let moved = totals
            .classes()
            .iter()
            .map(|(_, (_, bytes))| bytes)
            .sum::<u64>();
        let entry = &mut self.sheet.groups[number];
        entry.insert("n".into(), json!(totals.ops));
        entry.insert("b".into(), json!(moved));
        entry.insert("m".into(), json!(totals.words()));
        entry.insert("k".into(), json!(tone(&totals)));
        number
    }

    fn open(
        &mut self,
        number: usize,
        label: &str,
        parent: Option<usize>,
        (block, frame): (&Block, &Frame),
        children: Vec<Json>,
    ) {
        let wire = |wire: usize| self.base.wire + wire;
        let pieces = frame.pieces.iter().map(|piece| {
            let end = |end: Option<usize>| end.map_or(json!(-1), |child| json!(child));
            json!([
                wire(piece.wire),
                round(piece.from.0),
                round(piece.from.1),
                round(piece.cross.0),
                round(piece.cross.1),
                round(piece.to.0),
                round(piece.to.1),
                end(piece.ends[0]),
                end(piece.ends[1]),
            ])
        });
        let pieces: Vec<Json> = pieces.collect();
        let (ins, outs) = self.ports(block);
        let entry = &mut self.sheet.groups[number];
        entry.insert("t".into(), json!(label));
        entry.insert("p".into(), json!(parent));
        let open = json!({
            "w": round(block.width),
            "h": round(block.height),
            "i": ins,
            "o": outs,
            "x": round(frame.label_x),
            "kids": children,
            "pieces": pieces,
        });
        entry.insert("open".into(), open);
    }

    fn closed(&mut self, number: usize, block: &Block) {
        let closed = self.label(block);
        self.sheet.groups[number].insert("shut".into(), Json::Object(closed));
    }

    fn node(&mut self, node: usize, block: &Block, parent: usize) -> usize {
        let number = self.base.node + node;
        let mut label = self.label(block);
        label.insert("p".into(), json!(parent));
        self.sheet.nodes[number].extend(label);
        number
    }

    /// A box with its text, the types below it and its ports.
    fn label(&self, block: &Block) -> Map<String, Json> {
        let mut entry = Map::new();
        let Shape::Label(label) = &block.shape else {
            return entry;
        };
        let (ins, outs) = self.ports(block);
        entry.insert("w".into(), json!(round(block.width)));
        entry.insert("h".into(), json!(round(block.height)));
        entry.insert("bw".into(), json!(round(label.width)));
        entry.insert("bh".into(), json!(round(label.height)));
        entry.insert("l".into(), json!(label.lines));
        entry.insert("i".into(), ins);
        entry.insert("o".into(), outs);
        entry.insert("g".into(), tags(label));
        entry
    }

    fn ports(&self, block: &Block) -> (Json, Json) {
        let ports = |all: &[(usize, f64)]| {
            let all = all.iter();
            let all = all.map(|&(wire, x)| json!([self.base.wire + wire, round(x)]));
            Json::Array(all.collect())
        };
        (ports(&block.ins), ports(&block.outs))
    }
}

/// The class in which a layer moves the most bytes, as the colour of its closed box.
fn tone(totals: &Totals) -> &'static str {
    let classes = ["movement", "copy", "expand"].into_iter();
    let bytes = classes
        .zip(totals.classes())
        .map(|(class, (_, (_, bytes)))| (bytes, class));
    let most = bytes
        .filter(|(bytes, _)| 0 < *bytes)
        .rev()
        .max_by_key(|(bytes, _)| *bytes);
    most.map_or("layer", |(_, class)| class)
}

fn tags(label: &Label) -> Json {
    let tags = label.tags.iter();
    let tags = tags.map(|tag| json!([round(tag.x), tag.lines]));
    Json::Array(tags.collect())
}

/// A coordinate with at most one digit after the point.
fn round(x: f64) -> Json {
    let tenths = (x * 10.0).round();
    match tenths % 10.0 == 0.0 {
        true => json!((tenths / 10.0) as i64),
        false => json!(tenths / 10.0),
    }
}
