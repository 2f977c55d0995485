//! Programs as SVG pictures. No other tool is needed, and the same program gives the same bytes.
//!
//! An operation is a box, coloured by its cost. A value is a wire from the box that makes it to the boxes that read it;
//! its type is below the first box. Layers are frames around their operations, as far as names from the original model
//! tell. In programs of more than a few dozen operations, a layer that repeats an earlier one is drawn closed. If the
//! program still would not fit, further layers are closed; the picture says so. Tooltips have the full type, the
//! attributes and the source location.

mod align;
pub mod arena;
mod draw;
pub(crate) mod frame;
mod layered;
pub mod layouts;
pub(crate) mod nest;
mod text;
pub mod tiles;

use crate::graph::{Graph, Ink, Tone, Totals};
use crate::picture::{OnMesh, Panel, Picture};
use crate::spelling::Spelling;
use crate::svg::draw::{Style, line, rectangle, width};
use crate::svg::frame::Block;
use crate::svg::nest::Item;
use crate::words;

use std::collections::{BTreeMap, BTreeSet};
use svg::node::element::{Group, Path};

const MARGIN: f64 = 16.0;
const PANEL_GAP: f64 = 28.0;
const FUNCTION_GAP: f64 = 20.0;

const TITLE: Style = Style::new(16.0, "#102027").bold();
const SUBTITLE: Style = Style::new(12.0, "#37474f");
const HEADING: Style = Style::new(13.0, "#102027").bold();

/// The picture as an SVG document, ending with a line break.
#[must_use]
pub fn write(picture: &Picture<'_>) -> String {
    let spelling = Spelling::of(picture);
    let columns = columns(picture, spelling);
    let subtitle = subtitle(&columns);
    let top = MARGIN + 66.0;
    let mut body = Group::new();
    let mut x = MARGIN;
    let mut bottom = top;
    for column in &columns {
        body = body.add(column.draw((x, top)));
        x += column.width + PANEL_GAP;
        bottom = f64::max(bottom, top + column.height());
    }
    let (legend, legend_width) = legend((MARGIN, MARGIN + 42.0), &columns);
    let text = width(&picture.title, TITLE)
        .max(width(&subtitle, SUBTITLE))
        .max(legend_width);
    let full = (x - PANEL_GAP + MARGIN).max(text + 2.0 * MARGIN).ceil();
    let height = (bottom + MARGIN).ceil();
    let document = draw::sheet(full, height)
        .add(line(&picture.title, (MARGIN, MARGIN + 14.0), TITLE))
        .add(line(&subtitle, (MARGIN, MARGIN + 34.0), SUBTITLE))
        .add(legend)
        .add(body);
    format!("{document}\n")
}

/// The panels. If there are two, the same layers are closed in both, and equal operations are at the same height.
fn columns(picture: &Picture<'_>, spelling: Spelling) -> Vec<Column> {
    let graphs = |panel: &Panel<'_>| -> Vec<(String, Graph)> {
        let graphs = panel.graphs(spelling);
        graphs
            .map(|(func, graph)| (func.name.to_string(), graph))
            .collect()
    };
    let drawn: Vec<Vec<(String, Graph)>> = picture.panels.iter().map(graphs).collect();
    let mut closed: BTreeMap<String, BTreeSet<String>> = BTreeMap::new();
    if drawn.len() > 1 {
        for (name, graph) in drawn.iter().flatten() {
            let layers = closed.entry(name.clone()).or_default();
            layers.extend(nest::closed_layers(graph));
        }
    }
    let both = picture.panels.iter().zip(drawn);
    let mut columns: Vec<Column> = both
        .map(|(panel, graphs)| Column::of(panel, graphs, &closed))
        .collect();
    if let [before, after] = &mut columns[..] {
        let alike = before.functions.len() == after.functions.len();
        let pairs = before.functions.iter_mut().zip(&mut after.functions);
        for (a, b) in pairs.filter(|(a, b)| alike && a.name == b.name) {
            let sides = [a, b].map(|drawn| align::Side {
                graph: &drawn.graph,
                items: &drawn.items,
                block: &mut drawn.block,
            });
            let [a, b] = sides;
            align::align(a, b);
        }
        let head = before.lines.len().max(after.lines.len());
        for column in &mut columns {
            column.head = head;
        }
    }
    columns
}

/// The summary of the picture in one line: numbers before and after, if there are two panels.
fn subtitle(columns: &[Column]) -> String {
    match columns {
        [] => "no program".to_owned(),
        [only] => only.totals.line(),
        [before, .., after] => {
            let pairs = before
                .totals
                .classes()
                .into_iter()
                .zip(after.totals.classes());
            let there = pairs.filter(|((name, b), (_, a))| *name == "moved" || b.0 + a.0 > 0);
            let words: Vec<String> = there
                .map(|((name, b), (_, a))| {
                    let (from, to) = (words::bytes(b.1), words::bytes(a.1));
                    format!("{name} {from} → {to} ({} → {} ops)", b.0, a.0)
                })
                .collect();
            words.join("   ·   ")
        }
    }
}

/// The placed functions of one panel.
struct Column {
    title: String,
    lines: Vec<String>,
    /// The number of lines for which there is space.
    head: usize,
    functions: Vec<Drawn>,
    totals: Totals,
    width: f64,
}

/// A placed function with its items.
struct Drawn {
    name: String,
    graph: Graph,
    block: Block,
    items: Vec<Item>,
}

impl Column {
    fn of(
        panel: &Panel<'_>,
        graphs: Vec<(String, Graph)>,
        closed: &BTreeMap<String, BTreeSet<String>>,
    ) -> Column {
        let mut functions = Vec::new();
        let mut totals = Totals::default();
        let mut lines: Vec<String> = Vec::new();
        let none = BTreeSet::new();
        for (name, graph) in graphs {
            totals = totals.plus(graph.totals());
            let (items, notes) = nest::nest(&graph, closed.get(&name).unwrap_or(&none));
            for note in notes {
                if !lines.contains(&note) {
                    lines.push(note);
                }
            }
            functions.push(Drawn {
                block: frame::function(&graph, &items, &format!("@{name}")),
                name,
                graph,
                items,
            });
        }
        if tiles::leaves_out(panel.module) {
            lines.push("the plan of tiles is not drawn: it wants sizes that are known".to_owned());
        }
        lines.extend(panel.mesh.iter().flat_map(OnMesh::lines));
        lines.insert(0, totals.line());
        let text = lines.iter().map(|l| width(l, SUBTITLE));
        let text = text.fold(width(&panel.title, HEADING), f64::max);
        let wide = functions.iter().map(|f| f.block.width);
        Column {
            title: panel.title.clone(),
            totals,
            width: wide.fold(text, f64::max),
            head: lines.len(),
            lines,
            functions,
        }
    }

    fn height(&self) -> f64 {
        let functions = self.functions.iter();
        let tall: f64 = functions.map(|f| f.block.height + FUNCTION_GAP).sum();
        26.0 + 16.0 * layered::as_float(self.head) + tall
    }

    fn draw(&self, at: (f64, f64)) -> Group {
        let mut group = Group::new().add(line(&self.title, (at.0, at.1 + 14.0), HEADING));
        let mut y = at.1 + 14.0;
        for text in &self.lines {
            y += 16.0;
            group = group.add(line(text, (at.0, y), SUBTITLE));
        }
        y = at.1 + 26.0 + 16.0 * layered::as_float(self.head);
        for drawn in &self.functions {
            let x = at.0 + (self.width - drawn.block.width) / 2.0;
            group = group.add(draw::block(&drawn.graph, &drawn.block, (x, y), 0));
            y += drawn.block.height + FUNCTION_GAP;
        }
        group
    }
}

/// The legend of the colours, and its width.
fn legend(at: (f64, f64), columns: &[Column]) -> (Group, f64) {
    let graphs = || columns.iter().flat_map(|c| &c.functions).map(|f| &f.graph);
    let mut inks: Vec<&Ink> = Vec::new();
    for ink in graphs()
        .flat_map(|g| &g.wires)
        .filter_map(|w| w.ink.as_ref())
    {
        if !inks.contains(&ink) {
            inks.push(ink);
        }
    }
    let mut entries = vec![
        (Tone::Compute, "computes"),
        (Tone::View, "view, moves nothing"),
        (Tone::Movement, "moves bytes"),
        (Tone::Copy, "copies a part"),
        (Tone::Expand, "repeats elements"),
        (Tone::Constant, "constants, at compile time"),
    ];
    if graphs()
        .flat_map(|g| &g.nodes)
        .any(|n| n.tone == Tone::Collective)
    {
        entries.push((
            Tone::Collective,
            "collective, the bytes that a device sends",
        ));
    }
    let style = Style {
        size: 10.5,
        ..SUBTITLE
    };
    let mut group = Group::new();
    let mut x = at.0;
    for (tone, words) in entries {
        let (fill, stroke, _) = tone.colours();
        let mut patch = rectangle((x, at.1), (22.0, 12.0), 3.0)
            .set("fill", fill)
            .set("stroke", stroke);
        if tone == Tone::Constant {
            patch = patch.set("stroke-dasharray", "4 3");
        }
        group = group
            .add(patch)
            .add(line(words, (x + 28.0, at.1 + 10.0), style));
        x += 28.0 + width(words, style) + 18.0;
    }
    for Ink { colour, words } in inks {
        let stroke = format!(
            "M{x} {y}h22",
            x = draw::coordinate(x),
            y = draw::coordinate(at.1 + 6.0)
        );
        let stroke = Path::new()
            .set("d", stroke)
            .set("stroke", *colour)
            .set("stroke-width", "2");
        group = group
            .add(stroke)
            .add(line(words, (x + 28.0, at.1 + 10.0), style));
        x += 28.0 + width(words, style) + 18.0;
    }
    (group, x - at.0)
}
