//! Output of placed blocks as SVG elements.

use crate::graph::{Graph, Tone};
use crate::svg::frame::{
    Block, Frame, HEADER, LINE, LINE_HEIGHT, Label, STEM, Shape, Stretch, TAG, TAG_HEIGHT, TITLE,
    TITLE_HEIGHT, Tag,
};
use crate::svg::text;
use indexmap::IndexMap;
use std::fmt::Write as _;
use svg::Document;
use svg::Node as _;
use svg::node::element::{Element, Group, Path, Rectangle, Text, Title};

const WIRE: &str = "#78909c";
const INK: &str = "#263238";
const FAINT: &str = "#455a64";

/// A coordinate with at most one digit after the point.
pub(crate) fn coordinate(x: f64) -> String {
    let text = format!("{x:.1}");
    let text = text.strip_suffix(".0").unwrap_or(&text);
    if text == "-0" {
        "0".to_owned()
    } else {
        text.to_owned()
    }
}

/// An empty white picture.
pub(crate) fn sheet(width: f64, height: f64) -> Document {
    Document::new()
        .set("width", coordinate(width))
        .set("height", coordinate(height))
        .set("viewBox", format!("0 0 {width} {height}"))
        .set("font-family", text::FONTS)
        .add(
            Rectangle::new()
                .set("width", "100%")
                .set("height", "100%")
                .set("fill", "#ffffff"),
        )
}

/// The text without characters that XML forbids.
fn clean(text: &str) -> String {
    let allowed = |c: &char| !c.is_control() || *c == '\n';
    text.chars().filter(allowed).collect()
}

/// The style of a line of text.
#[derive(Clone, Copy)]
pub(crate) struct Style {
    pub(crate) size: f64,
    pub(crate) bold: bool,
    pub(crate) colour: &'static str,
    pub(crate) middle: bool,
}

/// The style of the title of a drawing of tiles, layouts or arenas.
impl Style {
    /// Plain text that starts at its place.
    pub(crate) const fn new(size: f64, colour: &'static str) -> Style {
        Style {
            size,
            bold: false,
            colour,
            middle: false,
        }
    }

    /// The same style in bold.
    pub(crate) const fn bold(self) -> Style {
        Style { bold: true, ..self }
    }

    /// The same style around its place.
    pub(crate) const fn middle(self) -> Style {
        Style {
            middle: true,
            ..self
        }
    }
}

pub(crate) const HEADING: Style = Style::new(15.0, "#102027").bold();
/// The style of the name of a drawn item.
pub(crate) const NAME: Style = Style::new(12.0, "#102027").bold();
/// The style of notes on a drawn item.
pub(crate) const NOTE: Style = Style::new(11.0, "#37474f");

/// One line of text; `at` is the left end of its baseline, or the middle.
pub(crate) fn line(text: &str, at: (f64, f64), style: Style) -> Element {
    let mut element: Element = Text::new(clean(text)).into();
    element.assign("x", coordinate(at.0));
    element.assign("y", coordinate(at.1));
    element.assign("font-size", coordinate(style.size));
    element.assign("fill", style.colour);
    if style.bold {
        element.assign("font-weight", "bold");
    }
    if style.middle {
        element.assign("text-anchor", "middle");
    }
    element
}

/// A rectangle with rounded corners.
pub(crate) fn rectangle(at: (f64, f64), size: (f64, f64), radius: f64) -> Rectangle {
    Rectangle::new()
        .set("x", coordinate(at.0))
        .set("y", coordinate(at.1))
        .set("width", coordinate(size.0))
        .set("height", coordinate(size.1))
        .set("rx", coordinate(radius))
}

pub(crate) fn tip(text: &str) -> Title {
    Title::new(clean(text))
}

/// A block with its contents and its corner at `at`; `depth` is the number of frames around it.
pub(crate) fn block(graph: &Graph, block: &Block, at: (f64, f64), depth: usize) -> Group {
    match &block.shape {
        Shape::Label(shown) => label(block, shown, at),
        Shape::Frame(shown) => frame(graph, block, shown, at, depth),
    }
}

fn frame(graph: &Graph, block: &Block, frame: &Frame, at: (f64, f64), depth: usize) -> Group {
    let fill = if depth.is_multiple_of(2) {
        "#fbfcfd"
    } else {
        "#f1f5f8"
    };
    let back = rectangle(at, (block.width, block.height), 7.0)
        .set("fill", fill)
        .set("stroke", "#b0bec5");
    let style = Style::new(TITLE, FAINT).bold();
    let mut group = Group::new().add(back);
    for (wire, stretches) in by_wire(&frame.pieces) {
        group = group.add(wire_of(graph, wire, &stretches, at));
    }
    let name = (at.0 + frame.label_x, at.1 + HEADER - 7.0);
    group = group.add(line(&frame.label, name, style));
    for ((x, y), child) in &frame.children {
        group = group.add(self::block(graph, child, (at.0 + x, at.1 + y), depth + 1));
    }
    group
}

fn by_wire(pieces: &[Stretch]) -> IndexMap<usize, Vec<&Stretch>> {
    let mut wires: IndexMap<usize, Vec<&Stretch>> = IndexMap::new();
    for piece in pieces {
        wires.entry(piece.wire).or_default().push(piece);
    }
    wires
}

/// All pieces of one wire in one layer, with its type as tooltip.
fn wire_of(graph: &Graph, wire: usize, pieces: &[&Stretch], at: (f64, f64)) -> Group {
    let (mut lines, mut heads) = (String::new(), String::new());
    for piece in pieces {
        curve(&mut lines, (piece.from, piece.cross, piece.to), at);
        if piece.arrow {
            let (x, y) = (at.0 + piece.to.0, at.1 + piece.to.1);
            let [left, right, top, tip] = [x - 3.0, x + 3.0, y - 6.5, y].map(coordinate);
            let _ = write!(
                heads,
                "M{left} {top}L{right} {top}L{} {tip}Z",
                coordinate(x)
            );
        }
    }
    let mut group = Group::new();
    let mut ink = WIRE;
    if let Some(data) = graph.wires.get(wire) {
        group = group.add(tip(&data.tip));
        ink = data.ink.as_ref().map_or(WIRE, |ink| ink.colour);
    }
    group = group.add(
        Path::new()
            .set("d", lines)
            .set("fill", "none")
            .set("stroke", ink)
            .set("stroke-width", if ink == WIRE { "1.2" } else { "2" }),
    );
    if !heads.is_empty() {
        group = group.add(Path::new().set("d", heads).set("fill", ink));
    }
    group
}

/// A path from the first point straight down, across between two heights, and straight down to the last point.
pub(crate) fn curve(
    out: &mut String,
    (from, cross, to): ((f64, f64), (f64, f64), (f64, f64)),
    at: (f64, f64),
) {
    let place = |(x, y): (f64, f64)| format!("{} {}", coordinate(at.0 + x), coordinate(at.1 + y));
    let ((x0, y0), (x1, y1)) = (from, to);
    let _ = write!(out, "M{}", place((x0, y0)));
    if (x0 - x1).abs() < 0.05 {
        let _ = write!(out, "L{}", place((x1, y1)));
        return;
    }
    let (top, bottom) = cross;
    let middle = (top + bottom) / 2.0;
    let _ = write!(
        out,
        "L{}C{} {} {}L{}",
        place((x0, top)),
        place((x0, middle)),
        place((x1, middle)),
        place((x1, bottom)),
        place((x1, y1))
    );
}

fn label(block: &Block, label: &Label, at: (f64, f64)) -> Group {
    let (fill, stroke, ink) = label.tone.colours();
    let left = at.0 + (block.width - label.width) / 2.0;
    let size = (label.width, label.height);
    let mut group = Group::new();
    for tag in &label.tags {
        group = group.add(self::tag(tag, at, label.height));
    }
    let mut shown = Group::new().add(tip(&label.tip));
    if label.pile {
        for step in [5.0, 2.5] {
            let behind = rectangle((left + step, at.1 - step), size, 4.0);
            shown = shown.add(behind.set("fill", fill).set("stroke", stroke));
        }
    }
    let radius = match label.tone {
        Tone::Port | Tone::Collective => label.height / 2.0,
        _ => 4.0,
    };
    let mut front = rectangle((left, at.1), size, radius)
        .set("fill", fill)
        .set("stroke", stroke);
    if label.tone == Tone::Constant {
        front = front.set("stroke-dasharray", "4 3");
    }
    shown = shown.add(front);
    let middle = left + label.width / 2.0;
    let title = Style::new(TITLE, ink).bold().middle();
    shown = shown.add(line(&label.title, (middle, at.1 + TITLE_HEIGHT), title));
    let small = Style {
        size: LINE,
        bold: false,
        ..title
    };
    let mut y = at.1 + TITLE_HEIGHT;
    for text in &label.lines {
        y += LINE_HEIGHT;
        shown = shown.add(line(text, (middle, y), small));
    }
    group.add(shown)
}

/// The type of a result, beside the wire that leaves the box.
fn tag(tag: &Tag, at: (f64, f64), box_height: f64) -> Group {
    let x = at.0 + tag.x;
    let top = at.1 + box_height;
    let mut group = Group::new().add(tip(&tag.tip));
    if tag.lines.is_empty() {
        return group;
    }
    let stem = format!(
        "M{x} {}L{x} {}",
        coordinate(top),
        coordinate(top + STEM),
        x = coordinate(x)
    );
    group = group.add(
        Path::new()
            .set("d", stem)
            .set("stroke", WIRE)
            .set("stroke-width", "1.2"),
    );
    let style = Style::new(TAG, INK).middle();
    let mut y = top + STEM - 3.0;
    for text in &tag.lines {
        y += TAG_HEIGHT;
        group = group.add(line(text, (x, y), style));
    }
    group
}

/// The width of a line in a style.
pub(crate) fn width(words: &str, style: Style) -> f64 {
    text::width(words, style.size, style.bold)
}
