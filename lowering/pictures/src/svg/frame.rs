//! Placement of nested boxes: each layer is placed by itself, from the inside out.

use crate::graph::{Graph, Tone, Totals};
use crate::svg::layered::{self, Cell, Net, Rank};
use crate::svg::nest::{Group, Item};
use crate::svg::text;
use indexmap::IndexMap;

/// Font sizes.
pub(crate) const TITLE: f64 = 11.0;
pub(crate) const LINE: f64 = 9.5;
pub(crate) const TAG: f64 = 9.0;
/// Line heights for each font size.
pub(crate) const TITLE_HEIGHT: f64 = 15.0;
pub(crate) const LINE_HEIGHT: f64 = 12.5;
pub(crate) const TAG_HEIGHT: f64 = 12.0;
/// The distance between the text of a box and its outline.
pub(crate) const PAD: f64 = 8.0;
/// The distance between a box and the type of its result.
pub(crate) const STEM: f64 = 7.0;
/// The height of a layer's label, and the margin around its contents.
pub(crate) const HEADER: f64 = 22.0;
const MARGIN: f64 = 14.0;
/// The largest number of results whose types are written separately.
const MOST_TAGS: usize = 4;

/// The type of one result, below its box.
#[derive(Clone, Debug)]
pub(crate) struct Tag {
    pub(crate) lines: Vec<String>,
    pub(crate) tip: String,
    /// The horizontal middle, from the left edge of the block.
    pub(crate) x: f64,
}

/// A block that is drawn as one rectangle.
#[derive(Clone, Debug)]
pub(crate) struct Label {
    pub(crate) tone: Tone,
    /// True for a closed layer, which is drawn as a pile.
    pub(crate) pile: bool,
    pub(crate) title: String,
    pub(crate) lines: Vec<String>,
    pub(crate) tip: String,
    pub(crate) width: f64,
    pub(crate) height: f64,
    pub(crate) tags: Vec<Tag>,
}

/// The contents of a layer.
#[derive(Clone, Debug)]
pub(crate) struct Frame {
    pub(crate) label: String,
    /// The horizontal start of the label.
    pub(crate) label_x: f64,
    pub(crate) children: Vec<((f64, f64), Block)>,
    pub(crate) pieces: Vec<Stretch>,
}

/// A piece of a wire in coordinates relative to the frame: straight down, across between two heights, straight down.
#[derive(Clone, Debug)]
pub(crate) struct Stretch {
    /// The number of the wire.
    pub(crate) wire: usize,
    pub(crate) from: (f64, f64),
    pub(crate) cross: (f64, f64),
    pub(crate) to: (f64, f64),
    /// True if the piece ends at a box.
    pub(crate) arrow: bool,
    /// The numbers of the children at which it starts and ends, if it does.
    pub(crate) ends: [Option<usize>; 2],
}

#[derive(Clone, Debug)]
pub(crate) enum Shape {
    Label(Label),
    Frame(Frame),
}

/// A box or layer with its size and the positions of wires on its edges.
#[derive(Clone, Debug)]
pub(crate) struct Block {
    pub(crate) width: f64,
    pub(crate) height: f64,
    pub(crate) shape: Shape,
    /// The wires that enter it, each with its distance from the left edge.
    pub(crate) ins: Vec<(usize, f64)>,
    /// The wires that leave it, in the same way.
    pub(crate) outs: Vec<(usize, f64)>,
}

/// Places the items of a whole function below its label.
pub(crate) fn function(graph: &Graph, items: &[Item], label: &str) -> Block {
    let places = Places::new(graph);
    places.frame(label, items, None)
}

/// Data about the whole graph that each layer needs.
pub(crate) struct Places<'a> {
    graph: &'a Graph,
    /// The wires that each node makes, without unused ones.
    makes: Vec<Vec<usize>>,
}

impl<'a> Places<'a> {
    pub(crate) fn new(graph: &'a Graph) -> Places<'a> {
        let mut makes = vec![Vec::new(); graph.nodes.len()];
        let read = graph
            .wires
            .iter()
            .enumerate()
            .filter(|(_, w)| !w.to.is_empty());
        for (k, wire) in read {
            makes[wire.from].push(k);
        }
        Places { graph, makes }
    }

    /// A box, or a layer with its contents.
    pub(crate) fn item(&self, item: &Item) -> Block {
        match item {
            Item::Node(node) => self.node(*node),
            Item::Group(group) => match &group.closed {
                Some(lines) => self.closed(group, lines),
                None => self.frame(&group.label, &group.items, Some(&group.nodes)),
            },
        }
    }

    fn node(&self, node: usize) -> Block {
        let data = &self.graph.nodes[node];
        let mut label = Label {
            tone: data.tone,
            pile: false,
            title: data.title.clone(),
            lines: data.lines.clone(),
            tip: data.tip.clone(),
            width: 0.0,
            height: 0.0,
            tags: Vec::new(),
        };
        self.label(&mut label, &data.reads, &self.makes[node])
    }

    fn closed(&self, group: &Group, lines: &[String]) -> Block {
        let (ins, outs) = self.boundary(&group.nodes);
        let totals = Totals::of(group.nodes.iter().map(|&n| &self.graph.nodes[n]));
        let tone = match (totals.movement.0, totals.copy.0) {
            (0, 0) => Tone::Compute,
            (0, _) => Tone::Copy,
            _ => Tone::Movement,
        };
        let mut label = Label {
            tone,
            pile: true,
            title: group.label.clone(),
            lines: lines.to_vec(),
            tip: format!("{}\n{}", group.label, lines.join("\n")),
            width: 0.0,
            height: 0.0,
            tags: Vec::new(),
        };
        self.label(&mut label, &ins, &outs)
    }

    /// Computes the size of a box from its text, with the types of its results below.
    fn label(&self, label: &mut Label, ins: &[usize], outs: &[usize]) -> Block {
        let several = outs.len() > MOST_TAGS;
        if several {
            let shapes = outs.iter().map(|&k| self.graph.wires[k].tag.join(", "));
            let mut shapes: Vec<String> = shapes.collect();
            shapes.dedup();
            let more = if shapes.len() > 1 { ", …" } else { "" };
            let first = shapes.first().map_or("", |s| &**s);
            label
                .lines
                .push(format!("→ {} × {first}{more}", outs.len()));
        }
        let tags = outs.iter().map(|&k| Tag {
            lines: if several {
                Vec::new()
            } else {
                self.graph.wires[k].tag.clone()
            },
            tip: self.graph.wires[k].tip.clone(),
            x: 0.0,
        });
        label.tags = tags.collect();
        let tags_width = label.tags.iter().map(tag_width).sum();
        label.width = label_width(label, ins.len().max(outs.len()), tags_width);
        label.height = box_height(label.lines.len());
        let width = label.width.max(tags_width);
        spread(&mut label.tags, width, tags_width);
        let tag_lines = label.tags.iter().map(|t| t.lines.len()).max().unwrap_or(0);
        let height = label.height + tags_height(tag_lines);
        let left = (width - label.width) / 2.0;
        let step = label.width / layered::as_float(ins.len() + 1);
        let mut x = left;
        let ins = ins.iter().map(|&k| {
            x += step;
            (k, x)
        });
        Block {
            width,
            height,
            ins: ins.collect(),
            outs: outs
                .iter()
                .copied()
                .zip(label.tags.iter().map(|t| t.x))
                .collect(),
            shape: Shape::Label(label.clone()),
        }
    }

    /// The wires that enter a set of nodes, and the wires that leave it.
    fn boundary(&self, nodes: &[usize]) -> (Vec<usize>, Vec<usize>) {
        let inside = |node: &usize| nodes.binary_search(node).is_ok();
        let mut ins: IndexMap<usize, ()> = IndexMap::new();
        let mut outs = Vec::new();
        for &node in nodes {
            for &wire in &self.graph.nodes[node].reads {
                if !inside(&self.graph.wires[wire].from) {
                    ins.insert(wire, ());
                }
            }
            for &wire in &self.makes[node] {
                if !self.graph.wires[wire].to.iter().all(inside) {
                    outs.push(wire);
                }
            }
        }
        (ins.into_keys().collect(), outs)
    }

    /// Places the items of a layer; `nodes` are all nodes in it, `None` for a whole function.
    pub(crate) fn frame(&self, label: &str, items: &[Item], nodes: Option<&[usize]>) -> Block {
        let (ins, outs) = nodes.map_or((Vec::new(), Vec::new()), |n| self.boundary(n));
        let blocks: Vec<Block> = items.iter().map(|item| self.item(item)).collect();
        let cells = cells(&ins, &blocks, &outs);
        let (nets, wires) = nets(&ins, &blocks, &outs);
        let placed = layered::place(&cells, &nets);
        let first = ins.len();
        let last = first + blocks.len();
        let ports: Vec<f64> = (0..first).map(|i| placed.at[i].0 + MARGIN).collect();
        let label_width = text::width(label, TITLE, true);
        let label_x = label_place(&ports, label_width);
        let width = (placed.width + 2.0 * MARGIN).max(label_x + label_width + 10.0);
        let height = placed.height + HEADER + MARGIN;
        let shifted = |(x, y): (f64, f64)| (x + MARGIN, y + HEADER);
        let pieces = placed.pieces.iter().map(|piece| {
            let mut wire = Stretch {
                wire: wires[piece.net],
                from: shifted(piece.from),
                cross: (piece.cross.0 + HEADER, piece.cross.1 + HEADER),
                to: shifted(piece.to),
                arrow: false,
                ends: [piece.source, piece.target].map(|cell| {
                    cell?
                        .checked_sub(first)
                        .filter(|&child| child < blocks.len())
                }),
            };
            if piece.source.is_some_and(|cell| cell < first) {
                wire.from.1 = 0.0;
            }
            match piece.target {
                Some(cell) if cell >= last => wire.to.1 = height,
                Some(cell) => wire.arrow = blocks[cell - first].is_label(),
                None => {}
            }
            wire
        });
        let pieces = pieces.collect();
        let corners = placed.at[first..last].iter().map(|&at| shifted(at));
        let out_ports = placed.at[last..].iter().map(|at| at.0 + MARGIN);
        Block {
            width,
            height,
            ins: ins.iter().copied().zip(ports).collect(),
            outs: outs.iter().copied().zip(out_ports).collect(),
            shape: Shape::Frame(Frame {
                label: label.to_owned(),
                label_x,
                children: corners.zip(blocks).collect(),
                pieces,
            }),
        }
    }
}

impl Block {
    fn is_label(&self) -> bool {
        matches!(self.shape, Shape::Label(_))
    }
}

/// The cells of a layer: incoming wires, blocks, outgoing wires.
fn cells(ins: &[usize], blocks: &[Block], outs: &[usize]) -> Vec<Cell> {
    let port = |place: Rank| Cell {
        width: 0.0,
        height: 0.0,
        ins: vec![0.0],
        outs: vec![0.0],
        place,
    };
    let block = |block: &Block| Cell {
        width: block.width,
        height: block.height,
        ins: block.ins.iter().map(|&(_, x)| x).collect(),
        outs: block.outs.iter().map(|&(_, x)| x).collect(),
        place: Rank::Free,
    };
    let ins = ins.iter().map(|_| port(Rank::First));
    let outs = outs.iter().map(|_| port(Rank::Last));
    ins.chain(blocks.iter().map(block)).chain(outs).collect()
}

/// The wires between the cells of a layer, and the number of each in the graph.
fn nets(ins: &[usize], blocks: &[Block], outs: &[usize]) -> (Vec<Net>, Vec<usize>) {
    let mut nets: IndexMap<usize, Net> = IndexMap::new();
    let mut start = |wire: usize, from: layered::End| {
        nets.insert(
            wire,
            Net {
                from,
                to: Vec::new(),
            },
        );
    };
    for (cell, &wire) in ins.iter().enumerate() {
        start(wire, (cell, 0));
    }
    for (i, block) in blocks.iter().enumerate() {
        for (port, &(wire, _)) in block.outs.iter().enumerate() {
            start(wire, (ins.len() + i, port));
        }
    }
    for (i, block) in blocks.iter().enumerate() {
        for (port, &(wire, _)) in block.ins.iter().enumerate() {
            if let Some(net) = nets.get_mut(&wire) {
                net.to.push((ins.len() + i, port));
            }
        }
    }
    for (i, &wire) in outs.iter().enumerate() {
        if let Some(net) = nets.get_mut(&wire) {
            net.to.push((ins.len() + blocks.len() + i, 0));
        }
    }
    let wires = nets.keys().copied().collect();
    (nets.into_values().collect(), wires)
}

/// The horizontal start of a frame's label: left of all incoming wires, or in the first gap between two of them that is
/// wide enough, or right of all.
fn label_place(ports: &[f64], width: f64) -> f64 {
    const CLEAR: f64 = 6.0;
    let mut ports = ports.to_vec();
    ports.sort_by(f64::total_cmp);
    let mut start = 10.0;
    for port in ports {
        if start + width + CLEAR <= port {
            break;
        }
        start = f64::max(start, port + CLEAR);
    }
    start
}

fn label_width(label: &Label, ports: usize, tags_width: f64) -> f64 {
    let title = text::width(&label.title, TITLE, true);
    let lines = label.lines.iter().map(|l| text::width(l, LINE, false));
    let text = lines.fold(title, f64::max) + 2.0 * PAD;
    let tags = if label.tags.len() > 1 {
        tags_width
    } else {
        0.0
    };
    let ports = 12.0 * layered::as_float(ports);
    text.max(tags).max(ports).max(44.0).ceil()
}

/// The height of a box with this number of lines below its title.
fn box_height(lines: usize) -> f64 {
    TITLE_HEIGHT + LINE_HEIGHT * layered::as_float(lines) + 7.0
}

/// The height of the types below a box.
fn tags_height(lines: usize) -> f64 {
    if lines == 0 {
        0.0
    } else {
        STEM + TAG_HEIGHT * layered::as_float(lines) + 2.0
    }
}

fn tag_width(tag: &Tag) -> f64 {
    let lines = tag.lines.iter().map(|l| text::width(l, TAG, false));
    (lines.fold(0.0, f64::max) + 10.0).ceil()
}

/// Distributes tags over a width, each in the middle of its share.
fn spread(tags: &mut [Tag], width: f64, tags_width: f64) {
    let spare = (width - tags_width).max(0.0) / layered::as_float(tags.len().max(1));
    let mut at = 0.0;
    for tag in tags {
        let share = tag_width(tag) + spare;
        tag.x = at + share / 2.0;
        at += share;
    }
}
