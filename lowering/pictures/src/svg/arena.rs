//! An arena over time: the bytes of each value, from the operation that writes it to its last use.
//!
//! Operations are on the x axis, bytes on the y axis. A value that is written over another one continues its rectangle.
//! The line shows the live bytes at each operation; its maximum is a lower bound of the size of the arena.

use crate::picture::Picture;
use crate::svg::draw::{
    HEADING, NAME, NOTE, Style, coordinate, line, rectangle, sheet, tip, width,
};
use crate::words;
use indexmap::IndexMap;
use optc_ir::analysis::Order;
use optc_ir::entity::SideTable;
use optc_ir::memory::{self, Place};
use optc_ir::op::in_place;
use optc_ir::{Func, Op, Registry, Value};
use std::fmt::Write as _;
use svg::Node;
use svg::node::element::{Group, Path};

/// The largest number of values that are drawn; the largest values come first.
const MOST: usize = 3000;
/// The size of the plot of one function.
const PLOT: (f64, f64) = (1120.0, 420.0);
const MARGIN: f64 = 18.0;
/// The space for byte labels to the left of the plot.
const SCALE: f64 = 74.0;
/// The smallest size of a rectangle that contains its text.
const TEXT: f64 = 11.0;

/// The colours of kinds of operations, in the order of the bytes that they write. The last one is for all other kinds.
const COLOURS: [&str; 9] = [
    "#90caf9", "#ffcc80", "#a5d6a7", "#f48fb1", "#ce93d8", "#80deea", "#e6ee9c", "#bcaaa4",
    "#cfd8dc",
];
const LIVE: &str = "#b71c1c";

const INSIDE: Style = Style::new(9.5, "#263238").middle();

/// The arenas of the last panel of a picture.
#[must_use]
pub fn write(picture: &Picture<'_>) -> String {
    let mut body = Group::new();
    let mut y = MARGIN + 24.0;
    let mut right = MARGIN + SCALE + PLOT.0;
    right = right.max(MARGIN + width(&picture.title, HEADING));
    let panel = picture.panels.last();
    let funcs = panel.map(|panel| panel.module.funcs.iter().map(move |f| (f, panel.registry)));
    let mut drawn = false;
    for (func, registry) in funcs.into_iter().flatten() {
        let arena = Arena::of(func, registry);
        if arena.buffers.is_empty() {
            continue;
        }
        drawn = true;
        let (group, height, needed) = arena.draw((MARGIN, y));
        body = body.add(group);
        y += height;
        right = right.max(needed);
    }
    if !drawn {
        let text = "no value lies in an arena: run bufferize,plan-memory";
        body = body.add(line(text, (MARGIN, y + 10.0), NOTE));
        y += 18.0;
    }
    let document = sheet((right + MARGIN).ceil(), (y + MARGIN).ceil())
        .add(line(&picture.title, (MARGIN, MARGIN + 12.0), HEADING))
        .add(body);
    format!("{document}\n")
}

/// A range of bytes of the arena that a value, and the values written over it, occupy for some time.
struct Buffer<'a> {
    op: Op,
    kind: &'a str,
    offset: u64,
    bytes: u64,
    first: usize,
    last: usize,
    /// The operations whose results are written over the first value.
    over: Vec<Op>,
}

/// The arena of a function.
struct Arena<'a> {
    func: &'a Func,
    order: Order,
    bytes: u64,
    buffers: Vec<Buffer<'a>>,
}

impl<'a> Arena<'a> {
    fn of(func: &'a Func, registry: &Registry) -> Arena<'a> {
        let mut buffers: Vec<Buffer<'a>> = Vec::new();
        let mut buffer_of: SideTable<Value, Option<usize>> = SideTable::new(None);
        for (place, &op) in func.body.iter().enumerate() {
            let data = &func.ops[op];
            let places = memory::places(data).ok().flatten().unwrap_or_default();
            for (&result, at) in data.results.iter().zip(places) {
                let Place::Arena(offset) = at else { continue };
                let layout = func.ty(result).as_tensor().and_then(|ty| ty.layout()?.ok());
                buffer_of[result] = Some(buffers.len());
                buffers.push(Buffer {
                    op,
                    kind: words::op_name(&data.name),
                    offset,
                    bytes: layout.map_or(0, |layout| layout.bytes()),
                    first: place,
                    last: place,
                    over: Vec::new(),
                });
            }
        }
        let wholes = in_place::wholes(func, registry);
        let mut pieces: SideTable<Value, Vec<usize>> = SideTable::new(Vec::new());
        for (place, &op) in func.body.iter().enumerate() {
            let data = &func.ops[op];
            for &operand in &data.operands {
                for &buffer in buffer_of[operand].iter().chain(&pieces[operand]) {
                    buffers[buffer].last = buffers[buffer].last.max(place);
                }
            }
            let places = memory::places(data).ok().flatten().unwrap_or_default();
            for (&result, at) in data.results.iter().zip(places) {
                match at {
                    Place::Alias(operand) | Place::Over(operand) => {
                        let buffer = data.operands.get(operand).and_then(|&v| buffer_of[v]);
                        buffer_of[result] = buffer;
                        let seen = data.operands.get(operand).map(|&v| pieces[v].clone());
                        pieces[result] = seen.unwrap_or_default();
                        if let (Some(buffer), Place::Over(_)) = (buffer, at) {
                            buffers[buffer].over.push(op);
                        }
                    }
                    Place::Inside => {
                        let buffer = wholes.get(&result).and_then(|&whole| buffer_of[whole]);
                        buffer_of[result] = buffer;
                        if let Some(buffer) = buffer {
                            buffers[buffer].first = buffers[buffer].first.min(place);
                        }
                    }
                    Place::Pieces => {
                        let all = data.operands.iter();
                        let all = all.flat_map(|&v| buffer_of[v].iter().chain(&pieces[v]).copied());
                        pieces[result] = all.collect();
                    }
                    Place::Arena(_) | Place::Own | Place::Constant | Place::Result(_) => {}
                }
            }
        }
        for &result in &func.results {
            if let Some(buffer) = buffer_of[result] {
                buffers[buffer].last = func.body.len();
            }
        }
        Arena {
            func,
            order: Order::of(func),
            bytes: memory::arena(func),
            buffers,
        }
    }

    /// The live bytes at each operation, listed where they change.
    fn alive(&self) -> Vec<(usize, u64)> {
        let mut changes = vec![0i128; self.func.body.len() + 2];
        for buffer in &self.buffers {
            changes[buffer.first] += i128::from(buffer.bytes);
            changes[buffer.last + 1] -= i128::from(buffer.bytes);
        }
        let mut now = 0i128;
        let mut steps = Vec::new();
        for (place, change) in changes.into_iter().enumerate() {
            now += change;
            if change != 0 || place == 0 {
                steps.push((place, u64::try_from(now).unwrap_or(0)));
            }
        }
        steps
    }

    /// The kinds of operations with a colour of their own, in the order of the bytes that they write.
    fn kinds(&self) -> IndexMap<&'a str, u64> {
        let mut kinds: IndexMap<&str, u64> = IndexMap::new();
        for buffer in &self.buffers {
            let bytes = kinds.entry(buffer.kind).or_default();
            *bytes = bytes.saturating_add(buffer.bytes);
        }
        kinds.sort_by(|a, x, b, y| y.cmp(x).then(a.cmp(b)));
        kinds.truncate(COLOURS.len() - 1);
        kinds
    }

    /// The plot with its corner at `at`, its height and its right end.
    fn draw(&self, at: (f64, f64)) -> (Group, f64, f64) {
        let alive = self.alive();
        let most = alive.iter().map(|&(_, bytes)| bytes).max().unwrap_or(0);
        let plot = Plot {
            at: (at.0 + SCALE, at.1 + 46.0),
            steps: self.func.body.len().max(1) as f64,
            bytes: self.bytes.max(most).max(1) as f64,
        };
        let kinds = self.kinds();
        let ratio = self.bytes as f64 / most.max(1) as f64;
        let text = format!(
            "@{}: {} operations, {} values in an arena of {}, {} alive at once ({ratio:.3} times)",
            self.func.name,
            self.func.body.len(),
            self.buffers.len(),
            words::bytes(self.bytes),
            words::bytes(most),
        );
        let mut group = Group::new().add(line(&text, (at.0, at.1 + 12.0), NAME));
        let mut right = at.0 + width(&text, NAME);
        let (legend, end) = legend(&kinds, (at.0, at.1 + 30.0));
        group = group.add(legend);
        right = right.max(end);
        group = plot.scale(group);
        let mut shown: Vec<&Buffer<'_>> = self.buffers.iter().collect();
        shown.sort_by_key(|b| {
            std::cmp::Reverse(b.bytes.saturating_mul((b.last - b.first + 1) as u64))
        });
        let left_out = shown.len().saturating_sub(MOST);
        for buffer in shown.into_iter().take(MOST) {
            let colour = kinds.get_index_of(buffer.kind).unwrap_or(COLOURS.len() - 1);
            group = group.add(self.rectangle(&plot, buffer, COLOURS[colour]));
        }
        group = group.add(plot.line(&alive));
        let mut height = 46.0 + PLOT.1 + 34.0;
        if 0 < left_out {
            let text = format!("{left_out} small values are not drawn");
            group = group.add(line(&text, (at.0, at.1 + height - 6.0), NOTE));
            height += 14.0;
        }
        (group, height, right)
    }

    fn rectangle(&self, plot: &Plot, buffer: &Buffer<'_>, colour: &str) -> Group {
        let (x, right) = (plot.x(buffer.first), plot.x(buffer.last + 1));
        let (top, bottom) = (
            plot.y(buffer.offset.saturating_add(buffer.bytes)),
            plot.y(buffer.offset),
        );
        let (wide, high) = ((right - x).max(0.6), (bottom - top).max(0.6));
        let shown = rectangle((x, top), (wide, high), 0.0)
            .set("fill", colour)
            .set("stroke", "#546e7a")
            .set("stroke-width", "0.4");
        let mut group = Group::new().add(tip(&self.said(buffer))).add(shown);
        let text = buffer.kind;
        if TEXT < high && width(text, INSIDE) + 4.0 < wide {
            let middle = (x + wide / 2.0, top + high / 2.0 + 3.3);
            group = group.add(line(text, middle, INSIDE));
        }
        group
    }

    /// The tooltip of a buffer.
    fn said(&self, buffer: &Buffer<'_>) -> String {
        let number = |op: Op| match self.order.number(op) {
            Some(number) => format!("%{number}"),
            None => "?".to_owned(),
        };
        let mut text = format!(
            "{} {}\n{} at {}\noperations {} to {}",
            number(buffer.op),
            words::op_tip(self.func, buffer.op),
            words::bytes(buffer.bytes),
            buffer.offset,
            buffer.first,
            buffer.last,
        );
        if !buffer.over.is_empty() {
            let over: Vec<String> = buffer.over.iter().take(8).map(|&op| number(op)).collect();
            let _ = write!(text, "\nwritten over by {}", over.join(", "));
            if 8 < buffer.over.len() {
                let _ = write!(text, " and {} more", buffer.over.len() - 8);
            }
        }
        text
    }
}

/// The mapping of operations and bytes to coordinates.
struct Plot {
    at: (f64, f64),
    steps: f64,
    bytes: f64,
}

impl Plot {
    fn x(&self, step: usize) -> f64 {
        self.at.0 + (step as f64).min(self.steps) / self.steps * PLOT.0
    }

    fn y(&self, byte: u64) -> f64 {
        self.at.1 + PLOT.1 - byte as f64 / self.bytes * PLOT.1
    }

    /// The frame, with bytes at its left and operations below it.
    fn scale(&self, mut group: Group) -> Group {
        let frame = rectangle(self.at, PLOT, 0.0)
            .set("fill", "#fafbfc")
            .set("stroke", "#b0bec5");
        group = group.add(frame);
        for part in 0..=4u32 {
            let share = f64::from(part) / 4.0;
            let y = self.at.1 + PLOT.1 - share * PLOT.1;
            let text = words::bytes((self.bytes * share) as u64);
            let x = self.at.0 - 6.0 - width(&text, NOTE);
            group = group.add(line(&text, (x, y + 4.0), NOTE));
            let step = (self.steps * share) as u64;
            let x = self.at.0 + share * PLOT.0;
            let text = step.to_string();
            let half = width(&text, NOTE) / 2.0;
            group = group.add(line(&text, (x - half, self.at.1 + PLOT.1 + 14.0), NOTE));
        }
        group
    }

    /// The line of live bytes.
    fn line(&self, alive: &[(usize, u64)]) -> Path {
        let mut path = String::new();
        for (i, &(step, bytes)) in alive.iter().enumerate() {
            let (x, y) = (coordinate(self.x(step)), coordinate(self.y(bytes)));
            let _ = match i {
                0 => write!(path, "M{x} {y}"),
                _ => write!(path, "H{x}V{y}"),
            };
        }
        Path::new()
            .set("d", path)
            .set("fill", "none")
            .set("stroke", LIVE)
            .set("stroke-width", "1.1")
    }
}

/// The legend of colours and kinds of operations, and its end.
fn legend(kinds: &IndexMap<&str, u64>, at: (f64, f64)) -> (Group, f64) {
    let mut group = Group::new();
    let mut x = at.0;
    let others = (kinds.len() == COLOURS.len() - 1).then_some("others");
    let names = kinds.keys().copied().chain(others);
    let mut add = |x: &mut f64, mark: Box<dyn Node>, text: &str| {
        group = std::mem::take(&mut group)
            .add(mark)
            .add(line(text, (*x + 14.0, at.1 + 4.0), NOTE));
        *x += 14.0 + width(text, NOTE) + 14.0;
    };
    for (i, name) in names.enumerate() {
        let mark = rectangle((x, at.1 - 5.0), (10.0, 10.0), 0.0).set("fill", COLOURS[i]);
        add(&mut x, Box::new(mark), name);
    }
    let bar = rectangle((x, at.1 - 1.0), (10.0, 1.6), 0.0).set("fill", LIVE);
    add(&mut x, Box::new(bar), "alive at once");
    (group, x)
}
