//! The layouts of a program as a picture: the positions of values in memory, and the movement of each conversion.
//!
//! Memory is drawn in the order of its positions, line by line, tile by tile; padding is hatched. A conversion is drawn
//! with both of its sides. In the result, each position has the colour of the operand's tile from which its element
//! comes. Values of one type, and conversions between the same types, are drawn once.

use crate::picture::{Charge, ChargeKind, Picture};
use crate::svg::draw::{HEADING, NAME, NOTE, Style, line, rectangle, sheet, width};
use crate::svg::layered::as_float;
use crate::words;
use indexmap::IndexMap;
use optc_ir::text::print_type;
use optc_ir::{Func, Op, Structure, TensorType, Type, Value};
use optc_layout::{Layout, Notation};
use std::collections::BTreeSet;
use std::sync::Arc;
use svg::Node;
use svg::node::element::{Definitions, Group, Path, Pattern};

/// The largest number of layouts, and of conversions, that are drawn.
const MOST: usize = 96;
/// The largest number of lines of one memory, and of positions in a line.
const LINES: u64 = 32;
const LINE: u64 = 256;
/// The largest number of tiles of one memory.
const TILES: u64 = 4;

const MARGIN: f64 = 18.0;
const GAP: f64 = 18.0;
const FULL: f64 = 1120.0;
const STRIP: (f64, f64) = (288.0, 5.0);
const TILE_GAP: f64 = 4.0;
const HEAD: f64 = 68.0;

/// The colours of the tiles of an operand, used cyclically.
pub(crate) const TILE: [&str; 8] = [
    "#90caf9", "#ffcc80", "#a5d6a7", "#f48fb1", "#ce93d8", "#80deea", "#e6ee9c", "#bcaaa4",
];
/// The colour of elements that come from nowhere else.
const FILLED: usize = 0;

/// The layouts of the last panel of a picture.
#[must_use]
pub fn write(picture: &Picture<'_>) -> String {
    let found = Found::of(picture);
    let mut page = Page {
        body: Group::new(),
        y: MARGIN + 20.0,
        right: width(&picture.title, HEADING),
    };
    match found.values.is_empty() {
        true => page.say("no value has a layout of known size", NOTE),
        false => page.say("hatched: padding, which holds no element", NOTE),
    }
    page.conversions(&found);
    page.values(&found);
    let document = sheet((page.right + MARGIN).ceil(), page.y.ceil())
        .add(Definitions::new().add(hatching()))
        .add(line(&picture.title, (MARGIN, MARGIN + 12.0), HEADING))
        .add(page.body);
    format!("{document}\n")
}

/// The drawing so far, and the position of the next item.
struct Page {
    body: Group,
    y: f64,
    right: f64,
}

impl Page {
    fn say(&mut self, text: &str, style: Style) {
        self.right = self.right.max(MARGIN + width(text, style));
        self.y += 18.0;
        self.add(line(text, (MARGIN, self.y - 7.0), style));
    }

    fn heading(&mut self, text: &str) {
        self.y += 10.0;
        self.say(text, NAME);
        self.y += 3.0;
    }

    fn add(&mut self, node: impl Into<Box<dyn Node>>) {
        self.body = std::mem::take(&mut self.body).add(node);
    }

    fn show(&mut self, shown: &Shown, x: f64) {
        self.right = self.right.max(x + shown.width());
        self.add(shown.draw((x, self.y)));
    }

    fn conversions(&mut self, found: &Found) {
        if found.conversions.is_empty() {
            return;
        }
        let colours = "conversions: the result has the colours of the operand's tiles, or lines, that its elements come from";
        self.heading(colours);
        for ((from, to), conversion) in found.conversions.iter().take(MOST) {
            self.say(&conversion.words(from, to), NOTE);
            let tile = |e: &[u64]| from.unit_of(e);
            let left = Shown::of(from, &[], &tile);
            let result = Shown::of(to, &[], &tile);
            let x = MARGIN + left.width() + 12.0;
            self.show(&left, MARGIN);
            self.add(arrow((x, self.y + left.height() / 2.0)));
            self.show(&result, x + 34.0);
            self.y += left.height().max(result.height()) + GAP;
        }
        let more = found.conversions.len().saturating_sub(MOST);
        if 0 < more {
            self.say(
                &format!("{more} more kinds of conversions are not drawn"),
                NOTE,
            );
        }
    }

    fn values(&mut self, found: &Found) {
        if found.values.is_empty() {
            return;
        }
        self.heading("values, those of one type once");
        let (mut x, mut tall) = (MARGIN, 0.0);
        for (memory, names) in found.values.iter().take(MOST) {
            let shown = Shown::of(memory, names, &|_| None);
            if FULL < x + shown.width() && MARGIN < x {
                (x, self.y, tall) = (MARGIN, self.y + tall + GAP, 0.0);
            }
            self.show(&shown, x);
            x += shown.width() + GAP;
            tall = f64::max(tall, shown.height());
        }
        self.y += tall + GAP;
        let more = found.values.len().saturating_sub(MOST);
        if 0 < more {
            self.say(&format!("{more} more layouts are not drawn"), NOTE);
        }
    }
}

/// The items to draw: each layout with its values, each kind of conversion with its operations.
#[derive(Default)]
struct Found {
    values: IndexMap<Memory, Vec<String>>,
    conversions: IndexMap<(Memory, Memory), Conversion>,
}

impl Found {
    fn of(picture: &Picture<'_>) -> Found {
        let mut found = Found::default();
        let Some(panel) = picture.panels.last() else {
            return found;
        };
        for (func, charges) in panel.funcs() {
            let charge = |op: Op| charges.and_then(|all| all[op]);
            for &value in &func.args {
                found.value(func, value);
            }
            for &op in &func.body {
                let data = &func.ops[op];
                for &value in &data.results {
                    found.value(func, value);
                }
                let converts = panel.registry.structure(&data.name) == Structure::Convert;
                let (from, to) = (data.operands.first(), data.results.first());
                if let (true, Some(&from), Some(&to)) = (converts, from, to)
                    && let (Some(a), Some(b)) = (Memory::of(func, from), Memory::of(func, to))
                    && a.converts_to(&b)
                {
                    let all = found.conversions.entry((a, b)).or_default();
                    all.add(name(func, to), charge(op));
                }
            }
        }
        found
    }

    fn value(&mut self, func: &Func, value: Value) {
        if let Some(memory) = Memory::of(func, value) {
            let names = self.values.entry(memory).or_default();
            names.push(name(func, value));
        }
    }
}

fn name(func: &Func, value: Value) -> String {
    let given = func.values[value].name.as_deref();
    given.map_or_else(|| value.to_string(), |n| format!("%{n}"))
}

/// At most two names, and the number of the others.
fn listed(names: &[String]) -> String {
    let first: Vec<&str> = names.iter().take(2).map(String::as_str).collect();
    match names.len().saturating_sub(2) {
        0 => first.join(", "),
        more => format!("{} and {more} more", first.join(", ")),
    }
}

/// The conversions between two types.
#[derive(Default)]
struct Conversion {
    names: Vec<String>,
    bytes: u64,
    constant: bool,
}

impl Conversion {
    fn add(&mut self, name: String, charge: Option<Charge>) {
        let Some(charge) = charge else {
            return;
        };
        self.names.push(name);
        match charge.kind {
            ChargeKind::Constant => self.constant = true,
            _ => self.bytes = self.bytes.saturating_add(charge.bytes),
        }
    }

    /// A text about the bytes that they move, and about the tiles from which the first tile of the result is made.
    fn words(&self, from: &Memory, to: &Memory) -> String {
        let names = listed(&self.names);
        let moved = match (self.bytes, self.constant) {
            (0, true) => "constants, at compile time".to_owned(),
            (bytes, true) => format!("moved {}, and constants", words::bytes(bytes)),
            (bytes, false) => format!("moved {}", words::bytes(bytes)),
        };
        format!("{names}: {moved}; {}", from.sources(to))
    }
}

/// A layout with its tile.
#[derive(Clone)]
pub(crate) struct Memory {
    ty: Arc<TensorType>,
    layout: Layout,
    /// The number of positions of a tile, or of a line if there are no tiles.
    volume: u64,
    line: u64,
    tiled: bool,
}

impl PartialEq for Memory {
    fn eq(&self, other: &Memory) -> bool {
        self.ty == other.ty
    }
}

impl Eq for Memory {}

impl std::hash::Hash for Memory {
    fn hash<H: std::hash::Hasher>(&self, state: &mut H) {
        self.ty.hash(state);
    }
}

impl Memory {
    /// `None` if sizes are unknown, or if there are no elements.
    pub(crate) fn of(func: &Func, value: Value) -> Option<Memory> {
        let Type::Tensor(ty) = func.ty(value).clone() else {
            return None;
        };
        let layout = ty.layout()?.ok()?;
        if layout.elements() == 0 {
            return None;
        }
        let run = layout.line();
        let alone = || match layout.notation() {
            Notation::Xla(xla) if !xla.tiles().is_empty() => Some(layout.positions()),
            _ => None,
        };
        let tile = layout.tile_volumes().first().copied().or_else(alone);
        Some(Memory {
            line: run.clamp(1, LINE),
            tiled: tile.is_some(),
            volume: tile.unwrap_or(run).max(1),
            ty,
            layout,
        })
    }

    /// True if a conversion may read this memory and write that one: both hold as many elements of the same indices.
    pub(crate) fn converts_to(&self, to: &Memory) -> bool {
        self.layout.shape() == to.layout.shape()
    }

    /// The tile, or the line, of each element of a tensor of the same shape.
    pub(crate) fn unit_of(&self, element: &[u64]) -> Option<u64> {
        Some(self.unit(self.layout.index(element)?))
    }

    /// A text about the tiles from which the first tile of a conversion's result is made.
    pub(crate) fn sources(&self, to: &Memory) -> String {
        let mut units: BTreeSet<u64> = BTreeSet::new();
        let (mut runs, mut count) = (0u64, 0u64);
        let mut last: Option<u64> = None;
        for p in 0..to.volume.min(to.layout.positions()).min(1 << 14) {
            let at = to.layout.element_at(p);
            let at = at.and_then(|e| self.layout.index(&e));
            if let Some(at) = at {
                count += 1;
                units.insert(self.unit(at));
                if last.is_none_or(|last| last + 1 != at) {
                    runs += 1;
                }
            }
            last = at;
        }
        let unit = |memory: &Memory| if memory.tiled { "tile" } else { "line" };
        let s = |n: u64| if n == 1 { "" } else { "s" };
        let from_units = units.len() as u64;
        format!(
            "the first {} of the result has {count} element{} of {from_units} {}{} of the operand, in {runs} run{}",
            unit(to),
            s(count),
            unit(self),
            s(from_units),
            s(runs),
        )
    }

    /// The number of the tile, or of the line, at a position.
    fn unit(&self, position: u64) -> u64 {
        position / self.volume
    }

    /// A text about the dimensions along a line and across lines, and about padding.
    fn words(&self) -> Vec<String> {
        let at = |p: u64| self.layout.element_at(p);
        let mut across: BTreeSet<usize> = BTreeSet::new();
        let mut filled = 0u64;
        let first = at(0);
        let differs = |all: &mut BTreeSet<usize>, e: &[u64]| {
            let first = first.iter().flatten();
            all.extend(
                first
                    .zip(e)
                    .enumerate()
                    .filter(|(_, (a, b))| a != b)
                    .map(|(d, _)| d),
            );
        };
        for e in (0..self.line).filter_map(at) {
            filled += 1;
            differs(&mut across, &e);
        }
        let mut down: BTreeSet<usize> = BTreeSet::new();
        let lines = (self.volume / self.line).min(LINES);
        for e in (1..lines).filter_map(|l| at(l * self.line)) {
            differs(&mut down, &e);
        }
        let dims = |all: &BTreeSet<usize>| -> String {
            let names: Vec<String> = all.iter().map(|d| format!("d{d}")).collect();
            names.join(" and ")
        };
        let mut shape = match across.is_empty() {
            true => format!("{filled} of {} positions of a line", self.line),
            false => format!(
                "{} along a line, {filled} of {} positions",
                dims(&across),
                self.line
            ),
        };
        down.retain(|d| !across.contains(d));
        if !down.is_empty() {
            shape = format!("{shape}; {} down a tile", dims(&down));
        }
        let bytes = self.layout.bytes();
        let held = self
            .layout
            .elements()
            .saturating_mul(self.layout.elem_bits().into())
            .div_ceil(8);
        let padding = bytes.saturating_sub(held);
        let size = match padding {
            0 => format!("{}, no padding", words::bytes(bytes)),
            _ => {
                let share = (padding.saturating_mul(1000) / bytes.max(1)) as f64 / 10.0;
                format!(
                    "{}, {} of it padding ({share} %)",
                    words::bytes(bytes),
                    words::bytes(padding)
                )
            }
        };
        vec![shape, size]
    }
}

/// A line that is drawn.
pub(crate) struct Strip {
    /// The number of its tile.
    pub(crate) tile: u64,
    /// Ranges of positions in the line with their colours, which are indices in [`TILE`]; padding has none.
    pub(crate) stretches: Vec<(u64, u64, Option<usize>)>,
}

/// A memory that is drawn.
pub(crate) struct Shown {
    pub(crate) lines: Vec<String>,
    pub(crate) strips: Vec<Strip>,
    /// The number of positions in a line.
    pub(crate) line: u64,
}

impl Shown {
    /// `source` gives the tile from which an element comes; it determines the colour.
    pub(crate) fn of(
        memory: &Memory,
        names: &[String],
        source: &dyn Fn(&[u64]) -> Option<u64>,
    ) -> Shown {
        let mut lines = Vec::new();
        if !names.is_empty() {
            lines.push(words::cut(&listed(names), 60));
        }
        lines.push(words::cut(
            &print_type(&Type::Tensor(memory.ty.clone())),
            96,
        ));
        lines.extend(memory.words());
        let positions = memory.layout.positions();
        let shown = positions.div_ceil(memory.line).min(LINES);
        let shown = match memory.tiled {
            true => shown.min(TILES * memory.volume.div_ceil(memory.line)),
            false => shown.min(8),
        };
        let mut strips = Vec::new();
        for l in 0..shown {
            let (from, to) = (l * memory.line, ((l + 1) * memory.line).min(positions));
            let mut stretches = Vec::new();
            for p in from..to {
                let colour = memory.layout.element_at(p).map(|e| match source(&e) {
                    Some(tile) => usize::try_from(tile % 8).unwrap_or(0),
                    None => FILLED,
                });
                match stretches.last_mut() {
                    Some((_, end, last)) if *last == colour => *end = p + 1 - from,
                    _ => stretches.push((p - from, p + 1 - from, colour)),
                }
            }
            strips.push(Strip {
                tile: memory.unit(from),
                stretches,
            });
        }
        let drawn = shown * memory.line;
        if drawn < positions {
            lines.push(format!("positions 0 to {} of {positions}", drawn - 1));
        }
        Shown {
            lines,
            strips,
            line: memory.line,
        }
    }

    fn width(&self) -> f64 {
        let text = self.lines.iter().map(|l| width(l, NAME));
        text.fold(STRIP.0, f64::max) + 20.0
    }

    fn gaps(&self) -> usize {
        let pairs = self.strips.windows(2);
        match self.tiled() {
            true => pairs.filter(|pair| pair[0].tile != pair[1].tile).count(),
            false => 0,
        }
    }

    /// Returns whether some tile has several lines.
    pub(crate) fn tiled(&self) -> bool {
        self.strips
            .windows(2)
            .any(|pair| pair[0].tile == pair[1].tile)
    }

    fn height(&self) -> f64 {
        HEAD + 12.0 + STRIP.1 * as_float(self.strips.len()) + TILE_GAP * as_float(self.gaps())
    }

    fn draw(&self, at: (f64, f64)) -> Group {
        let frame = rectangle(at, (self.width(), self.height()), 6.0)
            .set("fill", "#fbfcfd")
            .set("stroke", "#90a4ae");
        let mut group = Group::new().add(frame);
        for (i, text) in self.lines.iter().enumerate() {
            let style = if i == 0 { NAME } else { NOTE };
            let y = at.1 + 14.0 + 13.0 * as_float(i);
            group = group.add(line(text, (at.0 + 10.0, y), style));
        }
        let unit = STRIP.0 / self.line.max(1) as f64;
        let (mut y, mut last) = (at.1 + HEAD + 4.0, None);
        for Strip { tile, stretches } in &self.strips {
            if self.tiled() && last.is_some_and(|last| last != *tile) {
                y += TILE_GAP;
            }
            last = Some(*tile);
            for &(from, to, colour) in stretches {
                let corner = (at.0 + 10.0 + from as f64 * unit, y);
                let size = ((to - from) as f64 * unit, STRIP.1 - 0.6);
                let fill = colour.map_or("url(#padding)", |colour| TILE[colour]);
                let strip = rectangle(corner, size, 0.0).set("fill", fill);
                group = group.add(strip);
            }
            y += STRIP.1;
        }
        group
    }
}

/// The pattern for padding.
fn hatching() -> Pattern {
    let path = Path::new()
        .set("d", "M0 5 L5 0")
        .set("stroke", "#b0bec5")
        .set("stroke-width", 1.0);
    Pattern::new()
        .set("id", "padding")
        .set("width", 5)
        .set("height", 5)
        .set("patternUnits", "userSpaceOnUse")
        .add(path)
}

/// An arrow to the right.
fn arrow(at: (f64, f64)) -> Path {
    Path::new()
        .set(
            "d",
            format!("M{0} {1} h18 m-6 -4 l6 4 l-6 4", at.0.round(), at.1.round()),
        )
        .set("fill", "none")
        .set("stroke", "#d84315")
        .set("stroke-width", 1.8)
}
