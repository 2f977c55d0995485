//! The plan of a program as a picture: every operation with the tiles of its result.
//!
//! A box is an operation of a group; a dashed box is a value that the group reads from memory. Each box shows a tensor,
//! cut at the ends of tiles. The last dimension runs to the right, the one before it runs down, and the other
//! dimensions are pages.
//!
//! A cell has the colour and the index of the program that works on it. `*` stands for every step of an axis, `0-1` for
//! overlapping steps, as in a halo. A cell on which several programs work has a colour of its own, which the legend
//! explains.
//!
//! An arrow along a dimension is the direction in which an axis of the grid runs. If two axes share a dimension, the
//! faster one is drawn over its first round.

use crate::svg::draw::{
    HEADING, NAME, NOTE, Style, coordinate, curve, line, rectangle, sheet, width,
};
use crate::svg::layered::{self, Cell, Net, Piece, Placed, Rank};
use optc_ir::{Func, Module, Op, Registry, TensorType, Value};
use optc_tile::plan::GROUPS;
use optc_tile::{GroupSchedule, Schedule, Tile};
use std::collections::{BTreeMap, BTreeSet};

use svg::node::element::{Group, Path};

/// The largest number of steps of an axis that are drawn; a longer axis has its first steps and its last one.
const MAX_STEPS: u64 = 6;
/// The largest number of programs that are sampled.
const MAX_PROGRAMS: u64 = 600;
/// The largest number of cells of one tensor that are drawn.
const MAX_CELLS: usize = 400;

/// The largest number of values in a picture of one group.
const MAX_BOXES: usize = 160;

const MARGIN: f64 = 18.0;
const LEVEL_GAP: f64 = 34.0;
const CELL: (f64, f64) = (38.0, 22.0);
const PAGE_GAP: f64 = 10.0;
const ARROW: f64 = 15.0;

/// The colours of the axes' arrows.
const AXES: [&str; 6] = [
    "#1565c0", "#d84315", "#2e7d32", "#6a1b9a", "#00838f", "#5d4037",
];
/// The colours of the steps of the first axis.
const STEPS: [[u8; 3]; 8] = [
    [144, 202, 249],
    [255, 204, 128],
    [165, 214, 167],
    [244, 143, 177],
    [206, 147, 216],
    [128, 222, 234],
    [230, 238, 156],
    [188, 170, 164],
];

/// The colour of a cell on which several programs work. It differs from every shade of `STEPS`.
const SEVERAL: &str = "#ef5350";
/// The colour of a cell on which all programs work.
const EVERY: &str = "#cfd8dc";
/// The height of the line of the legend.
const LEGEND: f64 = 22.0;

const INDEX: Style = Style::new(9.5, "#263238").middle();

/// The plans of a module as a picture. `None` if no function has a plan, or if sizes are unknown, so that there are no
/// cells to draw.
#[must_use]
pub fn write(title: &str, module: &Module, registry: &Registry) -> Option<String> {
    let panels = panels(module, registry);
    (!panels.is_empty()).then(|| drawn(title, &panels))
}

/// Each group as a picture of its own, by the number of its function and its own; none if sizes are unknown. Groups of
/// very many values are left out.
pub(crate) fn groups(module: &Module, registry: &Registry) -> Vec<((usize, usize), String)> {
    let panels = panels(module, registry).into_iter();
    let panels = panels.filter(|panel| panel.boxes.len() <= MAX_BOXES);
    let groups = panels.map(|panel| (panel.of, drawn("", std::slice::from_ref(&panel))));
    groups.collect()
}

/// The boxes of a group, and its heading.
struct Panel {
    /// The number of the function, and that of the group.
    of: (usize, usize),
    heading: String,
    boxes: Vec<Shown>,
}

/// The groups that have operations; none if sizes are unknown.
fn panels(module: &Module, registry: &Registry) -> Vec<Panel> {
    let mut panels = Vec::new();
    let funcs = module.funcs.iter().enumerate();
    for (at, func) in funcs.filter(|_| has_sizes(module)) {
        let Ok(Some(schedule)) = Schedule::read(func, registry) else {
            continue;
        };
        for (number, group) in schedule.groups.iter().enumerate() {
            if !group.ops.is_empty() {
                let picture = Picture {
                    func,
                    group,
                    grid: group.grid(),
                };
                panels.push(Panel {
                    of: (at, number),
                    heading: heading(func, group, number),
                    boxes: picture.boxes(),
                });
            }
        }
    }
    panels
}

fn drawn(title: &str, panels: &[Panel]) -> String {
    let (mut wires, mut body) = (Group::new(), Group::new());
    let mut y = MARGIN + 26.0 + LEGEND;
    let shown = panels.iter().flat_map(|panel| &panel.boxes);
    let (legend, legend_width) = legend(shown, (MARGIN, MARGIN + 24.0));
    let mut right = width(title, HEADING).max(legend_width);
    for Panel { heading, boxes, .. } in panels {
        body = body.add(line(heading, (MARGIN, y + 14.0), NOTE));
        right = right.max(width(heading, NOTE));
        y += 28.0;
        let placed = place(boxes);
        for (shown, &(x, top)) in boxes.iter().zip(&placed.at) {
            body = body.add(shown.draw((MARGIN + x, y + top)));
        }
        for piece in &placed.pieces {
            wires = wires.add(wire(piece, (MARGIN, y)));
        }
        right = right.max(placed.width);
        y += placed.height + LEVEL_GAP;
    }
    let (full, height) = ((right + 2.0 * MARGIN).ceil(), y.ceil());
    let document = sheet(full, height)
        .add(line(title, (MARGIN, MARGIN + 12.0), HEADING))
        .add(legend)
        .add(wires)
        .add(body);
    format!("{document}\n")
}

/// Returns whether a module has a plan that cannot be drawn because its sizes are unknown.
pub(crate) fn leaves_out(module: &Module) -> bool {
    let planned = |func: &Func| func.attrs.get(GROUPS).is_some();
    module.funcs.iter().any(planned) && !has_sizes(module)
}

/// Returns whether the sizes of all values are known.
fn has_sizes(module: &Module) -> bool {
    module.funcs.iter().all(|func| {
        let results = func.body.iter().flat_map(|&op| &func.ops[op].results);
        let mut tensors = func.args.iter().chain(results);
        tensors.all(|&v| func.ty(v).as_tensor().is_none_or(|t| t.shape().is_some()))
    })
}

/// The legend for the colours of the cells that occur, and its width.
fn legend<'a>(shown: impl Iterator<Item = &'a Shown>, at: (f64, f64)) -> (Group, f64) {
    let cells = shown.flat_map(|s| s.tensor.cells.values());
    let there: BTreeSet<Workers> = cells.map(|steps| Workers::of(steps)).collect();
    let mut group = Group::new();
    let mut x = at.0;
    for workers in there {
        let (colour, words) = match workers {
            Workers::One => ("#90caf9", "colours: one step of each axis"),
            Workers::Several => (SEVERAL, "overlap: several steps"),
            Workers::Every => (EVERY, "not cut: every program"),
        };
        let patch = rectangle((x, at.1), (22.0, 12.0), 0.0)
            .set("fill", colour)
            .set("stroke", "#607d8b")
            .set("stroke-width", 0.8);
        group = group
            .add(patch)
            .add(line(words, (x + 28.0, at.1 + 10.0), NOTE));
        x += 28.0 + width(words, NOTE) + 18.0;
    }
    (group, x - at.0)
}

fn heading(func: &Func, group: &GroupSchedule, number: usize) -> String {
    let axes = group.axes.iter().enumerate();
    let axes = axes.map(|(i, a)| format!("g{i} = {} {}", a.extent, a.order.word()));
    let axes: Vec<String> = axes.collect();
    let grid = if axes.is_empty() {
        "one program".to_owned()
    } else {
        axes.join(", ")
    };
    format!("@{}, group {number}: {grid}", func.name)
}

/// The positions of the boxes and the routes of the wires between them.
fn place(boxes: &[Shown]) -> Placed {
    let at: BTreeMap<Value, usize> = boxes
        .iter()
        .enumerate()
        .map(|(i, b)| (b.value, i))
        .collect();
    let mut readers: Vec<Vec<layered::End>> = vec![Vec::new(); boxes.len()];
    let mut cells = Vec::with_capacity(boxes.len());
    for (number, shown) in boxes.iter().enumerate() {
        let before = |v: &Value| at.get(v).copied().filter(|&from| from < number);
        let reads: BTreeSet<usize> = shown.reads.iter().filter_map(before).collect();
        let step = shown.width() / layered::as_float(reads.len() + 1);
        let mut x = 0.0;
        let mut ins = Vec::with_capacity(reads.len());
        for (port, from) in reads.into_iter().enumerate() {
            readers[from].push((number, port));
            x += step;
            ins.push(x);
        }
        cells.push(Cell {
            width: shown.width(),
            height: shown.height(),
            ins,
            outs: vec![shown.width() / 2.0],
            place: Rank::Free,
        });
    }
    let nets = readers.into_iter().enumerate().map(|(from, to)| Net {
        from: (from, 0),
        to,
    });
    let nets: Vec<Net> = nets.filter(|net| !net.to.is_empty()).collect();
    layered::place(&cells, &nets)
}

/// A piece of a wire, with an arrowhead if it ends at a box.
fn wire(piece: &Piece, at: (f64, f64)) -> Group {
    let mut data = String::new();
    curve(&mut data, (piece.from, piece.cross, piece.to), at);
    let path = Path::new()
        .set("d", data)
        .set("fill", "none")
        .set("stroke", "#78909c")
        .set("stroke-width", 1.3);
    let group = Group::new().add(path);
    match piece.target {
        Some(_) => group.add(head(
            (at.0 + piece.to.0, at.1 + piece.to.1),
            (0.0, 1.0),
            "#78909c",
        )),
        None => group,
    }
}

/// An arrowhead that points in a direction.
fn head(tip: (f64, f64), way: (f64, f64), colour: &str) -> Path {
    let (back, side) = (7.0, 3.2);
    let base = (tip.0 - way.0 * back, tip.1 - way.1 * back);
    let (a, b) = (
        (base.0 - way.1 * side, base.1 + way.0 * side),
        (base.0 + way.1 * side, base.1 - way.0 * side),
    );
    let points = [tip, a, b].map(|p| format!("{},{}", coordinate(p.0), coordinate(p.1)));
    Path::new()
        .set(
            "d",
            format!("M{} L{} L{} Z", points[0], points[1], points[2]),
        )
        .set("fill", colour)
}

/// A group that is drawn.
struct Picture<'a> {
    func: &'a Func,
    group: &'a GroupSchedule,
    grid: Vec<u64>,
}

impl Picture<'_> {
    /// The boxes in topological order. A value from memory precedes the first operation that reads it.
    fn boxes(&self) -> Vec<Shown> {
        let func = self.func;
        let inner: BTreeSet<Op> = self.group.ops.iter().map(|op| op.op).collect();
        let mut read: BTreeSet<Value> = BTreeSet::new();
        let mut boxes = Vec::new();
        for op in &self.group.ops {
            let data = &func.ops[op.op];
            for (i, &operand) in data.operands.iter().enumerate() {
                let local = func.def_op(operand).is_some_and(|d| inner.contains(&d));
                if !local && read.insert(operand) {
                    let tiles = op.parts.iter().map(|part| part.operands.get(i));
                    let tiles = tiles.filter_map(|operand| operand?.tile.clone());
                    boxes.push(self.shown(operand, tiles.collect(), Vec::new(), "from memory"));
                }
            }
            let name = data.name.strip_prefix("hbir.").unwrap_or(&data.name);
            for (i, &value) in data.results.iter().enumerate() {
                let made = op.parts.iter().filter_map(|part| part.results.get(i));
                let made = made.cloned().collect();
                boxes.push(self.shown(value, made, data.operands.clone(), name));
            }
        }
        boxes
    }

    fn shown(&self, value: Value, tiles: Vec<Tile>, reads: Vec<Value>, name: &str) -> Shown {
        let ty = self.func.ty(value).as_tensor();
        let shape = ty.and_then(TensorType::shape).unwrap_or_default();
        let dims: Vec<String> = shape.iter().map(u64::to_string).collect();
        let given = self.func.values[value].name.as_deref();
        let label = given.map_or_else(|| value.to_string(), |n| format!("%{n}"));
        let dtype = ty.map_or(String::new(), |t| t.dtype.to_string());
        let title = format!("{name}  {label}");
        let note = format!("{}x{dtype}", dims.join("x"));
        let memory = reads.is_empty();
        // Parts that are outside of the value are not drawn.
        let mut tiles = tiles;
        if 1 < tiles.len() {
            tiles.retain(|tile| !tile.is_outside(&shape, &self.grid));
            tiles.sort_unstable();
            tiles.dedup();
        }
        let spans: Vec<String> = tiles.iter().map(Tile::to_string).collect();
        let mut tensor = Tensor::of(&shape, &tiles, &self.grid);
        if tiles.is_empty() {
            tensor.arrows.clear();
        }
        Shown {
            value,
            reads,
            memory,
            lines: vec![
                title,
                note,
                match spans.is_empty() {
                    true => "no tile yet".to_owned(),
                    false => spans.join(" and "),
                },
            ],
            tensor,
        }
    }
}

/// A box.
struct Shown {
    value: Value,
    reads: Vec<Value>,
    memory: bool,
    lines: Vec<String>,
    tensor: Tensor,
}

impl Shown {
    fn width(&self) -> f64 {
        let text = self.lines.iter().map(|l| width(l, NAME));
        text.fold(self.tensor.size().0, f64::max) + 20.0
    }
    fn height(&self) -> f64 {
        58.0 + self.tensor.size().1 + 10.0
    }
    fn draw(&self, at: (f64, f64)) -> Group {
        let mut frame = rectangle(at, (self.width(), self.height()), 6.0)
            .set("fill", "#fbfcfd")
            .set("stroke", "#90a4ae");
        if self.memory {
            frame = frame.set("stroke-dasharray", "5 3");
        }
        let mut group = Group::new().add(frame);
        for (i, text) in self.lines.iter().enumerate() {
            let style = if i == 0 { NAME } else { NOTE };
            let y = at.1 + 17.0 + 15.0 * [0.0, 1.0, 2.0][i.min(2)];
            group = group.add(line(text, (at.0 + 10.0, y), style));
        }
        let inset = (self.width() - self.tensor.size().0) / 2.0;
        group.add(self.tensor.draw((at.0 + inset, at.1 + 56.0)))
    }
}

/// A dimension, cut at the ends of tiles.
struct Cuts {
    /// The first element of each segment, and the end of the last one.
    ends: Vec<u64>,
}

impl Cuts {
    /// The cuts of a dimension at both ends of some ranges.
    fn of(size: u64, parts: impl Iterator<Item = std::ops::Range<u64>>) -> Cuts {
        let ends = parts.flat_map(|part| [part.start, part.end]);
        let ends: BTreeSet<u64> = ends.chain([0, size]).collect();
        let mut ends: Vec<u64> = ends.into_iter().collect();
        if ends.len() < 2 {
            ends.push(ends[0]);
        }
        Cuts { ends }
    }

    fn count(&self) -> usize {
        self.ends.len() - 1
    }
    /// The segments of a range of elements.
    fn range(&self, part: &std::ops::Range<u64>) -> std::ops::Range<usize> {
        let at = |x: u64| self.ends.iter().position(|&e| e == x).unwrap_or(0);
        at(part.start)..at(part.end)
    }
}

/// The arrow of an axis along a dimension, over these segments.
struct Arrow {
    axis: usize,
    dim: usize,
    segments: std::ops::Range<usize>,
}

/// The arrows of the axes along which a tile moves. `axes` has the steps of each axis that are drawn.
fn arrows(tile: &Tile, shape: &[u64], cuts: &[Cuts], axes: &[Vec<i64>]) -> Vec<Arrow> {
    let zeros = vec![0; axes.len()];
    let mut arrows = Vec::new();
    for (d, span) in tile.0.iter().enumerate() {
        let segments = |program: &[i64]| cuts[d].range(&span.clipped(program, shape[d]));
        // The distance of two steps of an axis.
        let pace = |axis: usize| {
            let mut one = zeros.clone();
            one[axis] = 1;
            (span.start.eval(&one) - span.start.eval(&zeros)).abs()
        };
        for (axis, steps) in axes.iter().enumerate() {
            if !span.start.depends_on(axis) || steps.len() < 2 {
                continue;
            }
            // Faster axes complete their round at the last step.
            let mut program = zeros.clone();
            for (other, steps) in axes.iter().enumerate() {
                if other == axis || pace(other) < pace(axis) {
                    program[other] = *steps.last().unwrap_or(&0);
                }
            }
            let (from, to) = (segments(&zeros), segments(&program));
            let segments = from.start.min(to.start)..from.end.max(to.end);
            arrows.push(Arrow {
                axis,
                dim: d,
                segments,
            });
        }
    }
    arrows
}

/// A tensor with its cells.
struct Tensor {
    cuts: Vec<Cuts>,
    sizes: Vec<u64>,
    /// For each drawn cell, given by its segments: the steps of each axis that work on it.
    cells: BTreeMap<Vec<usize>, Vec<BTreeSet<i64>>>,
    steps: Vec<usize>,
    arrows: Vec<Arrow>,
}

/// The sampled steps of an axis.
fn samples(extent: u64, most: u64) -> Vec<i64> {
    let extent = extent.cast_signed();
    let most = most.cast_signed();
    if extent <= most {
        return (0..extent).collect();
    }
    (0..most - 1).chain([extent - 1]).collect()
}

impl Tensor {
    /// Finds the cuts of a tensor and the programs that work on each cell, by sampling programs.
    ///
    /// Tiles may overlap, leave gaps and exceed the tensor. Therefore each axis is sampled (its first steps and its
    /// last), and the ends of the sampled programs' tiles are the cuts. The number of steps is reduced until all
    /// sampled programs can be evaluated. If a tensor has too many cells, only the first ones are drawn.
    fn of(shape: &[u64], tiles: &[Tile], grid: &[u64]) -> Tensor {
        let whole = Tile::whole(shape);
        let of_rank = |t: &&Tile| t.0.len() == shape.len();
        let mut tiles: Vec<&Tile> = tiles.iter().filter(of_rank).collect();
        if tiles.is_empty() {
            tiles.push(&whole);
        }
        let depends_on = |axis: usize| tiles.iter().any(|t| t.depends_on(axis));
        let axes = |most: u64| -> Vec<Vec<i64>> {
            let axis = |(a, &n): (usize, &u64)| {
                if depends_on(a) {
                    samples(n, most)
                } else {
                    vec![0]
                }
            };
            grid.iter().enumerate().map(axis).collect()
        };
        let volume = |axes: &[Vec<i64>]| axes.iter().map(|a| a.len() as u64).product::<u64>();
        let most = (2..=MAX_STEPS)
            .rev()
            .find(|&n| volume(&axes(n)) <= MAX_PROGRAMS);
        let axes = axes(most.unwrap_or(2));
        let programs = product(&axes);
        let runs = || {
            let programs = programs.iter();
            programs.flat_map(|p| tiles.iter().map(move |t| (&**p, *t)))
        };
        let cut = |(d, &size): (usize, &u64)| {
            Cuts::of(
                size,
                runs().map(|(program, tile)| tile.0[d].clipped(program, size)),
            )
        };
        let cuts: Vec<Cuts> = shape.iter().enumerate().map(cut).collect();
        let mut cells: BTreeMap<Vec<usize>, Vec<BTreeSet<i64>>> = BTreeMap::new();
        for (program, tile) in runs() {
            let ranges = shape.iter().enumerate().map(|(d, &size)| {
                let range = cuts[d].range(&tile.0[d].clipped(program, size));
                range.map(|s| s as i64).collect::<Vec<i64>>()
            });
            for cell in product(&ranges.collect::<Vec<_>>()) {
                let cell = cell
                    .iter()
                    .map(|&s| usize::try_from(s).unwrap_or(0))
                    .collect();
                if cells.len() >= MAX_CELLS && !cells.contains_key(&cell) {
                    continue;
                }
                let steps = cells
                    .entry(cell)
                    .or_insert_with(|| vec![BTreeSet::new(); grid.len()]);
                for (axis, &step) in program.iter().enumerate() {
                    steps[axis].insert(step);
                }
            }
        }
        // An axis on which the tile does not depend runs over every cell.
        for steps in cells.values_mut() {
            for (axis, steps) in steps.iter_mut().enumerate() {
                if !depends_on(axis) {
                    steps.clear();
                }
            }
        }
        // The first part represents all parts, since axes run alike in them.
        let arrows = arrows(tiles[0], shape, &cuts, &axes);
        Tensor {
            cuts,
            sizes: shape.to_vec(),
            cells,
            steps: axes.iter().map(Vec::len).collect(),
            arrows,
        }
    }

    /// The numbers of columns, rows and pages.
    fn counts(&self) -> (usize, usize, usize) {
        let rank = self.cuts.len();
        let of = |back: usize| rank.checked_sub(back).map_or(1, |d| self.cuts[d].count());
        let pages = self.cuts[..rank.saturating_sub(2)].iter().map(Cuts::count);
        (of(1), of(2), pages.product::<usize>().max(1))
    }

    /// The space for arrows above, at the left, and above the pages.
    fn lanes(&self) -> (f64, f64, f64) {
        let rank = self.cuts.len();
        let lanes = |wanted: &dyn Fn(usize) -> bool| {
            let count = self.arrows.iter().filter(|a| wanted(a.dim)).count();
            ARROW * (0..count).fold(0.0, |n, _| n + 1.0)
        };
        (
            lanes(&|d| d + 1 == rank),
            lanes(&|d| d + 2 == rank),
            lanes(&|d| d + 2 < rank),
        )
    }

    fn page(&self) -> (f64, f64) {
        let (columns, rows, _) = self.counts();
        let times = |n: usize, x: f64| (0..n).fold(0.0, |sum, _| sum + x);
        (
            times(columns, CELL.0).max(60.0),
            times(rows, CELL.1).max(34.0),
        )
    }

    fn size(&self) -> (f64, f64) {
        let (above, left, pages) = self.lanes();
        let (_, _, count) = self.counts();
        let page = self.page();
        let wide = (0..count).fold(0.0, |sum, _| sum + page.0 + PAGE_GAP) - PAGE_GAP;
        (left + wide + 34.0, above + pages + page.1 + 18.0)
    }

    /// Draws pages first, then cells, then sizes and arrows, since later shapes cover earlier ones. All are relative to
    /// the origin of the page, so that a change of margins moves them together.
    fn draw(&self, at: (f64, f64)) -> Group {
        let (above, left, over) = self.lanes();
        let (columns, rows, pages) = self.counts();
        let page = self.page();
        let cell = (page.0 / float(columns), page.1 / float(rows));
        let rank = self.cuts.len();
        let origin = |p: usize| {
            (
                at.0 + left + float(p) * (page.0 + PAGE_GAP),
                at.1 + above + over,
            )
        };
        let mut group = Group::new();
        for p in 0..pages {
            group = group.add(
                rectangle(origin(p), page, 0.0)
                    .set("fill", "#eceff1")
                    .set("stroke", "#90a4ae"),
            );
        }
        for (segments, steps) in &self.cells {
            let column = rank.checked_sub(1).map_or(0, |d| segments[d]);
            let row = rank.checked_sub(2).map_or(0, |d| segments[d]);
            let p = self.page_of(segments);
            let corner = origin(p);
            let corner = (
                corner.0 + float(column) * cell.0,
                corner.1 + float(row) * cell.1,
            );
            let shape = rectangle(corner, cell, 0.0)
                .set("fill", colour(steps))
                .set("stroke", "#607d8b")
                .set("stroke-width", 0.8);
            let place = (corner.0 + cell.0 / 2.0, corner.1 + cell.1 / 2.0 + 3.5);
            group = group.add(shape).add(line(&self.index(steps), place, INDEX));
        }
        let first = origin(0);
        group = self.draw_arrows(group, above, cell, &origin);
        let below = first.1 + page.1 + 13.0;
        if let Some(n) = self.sizes.last() {
            let middle = (first.0 + page.0 / 2.0, below);
            group = group.add(line(&n.to_string(), middle, INDEX));
        }
        if let Some(d) = rank.checked_sub(2) {
            let last = origin(pages - 1);
            let place = (last.0 + page.0 + 12.0, first.1 + page.1 / 2.0 + 4.0);
            group = group.add(line(&self.sizes[d].to_string(), place, INDEX));
        }
        if 2 < rank {
            let sizes: Vec<String> = self.sizes[..rank - 2].iter().map(u64::to_string).collect();
            let words = format!("pages: {}", sizes.join("x"));
            let style = Style {
                middle: false,
                ..INDEX
            };
            let right = (first.0 + page.0 / 2.0 + 14.0, below);
            group = group.add(line(&words, right, style));
        }
        group
    }

    /// Draws the directions in which axes run. `above` is the height over the pages, `cell` the size of a cell, and
    /// `origin` the corner of a page.
    fn draw_arrows(
        &self,
        mut group: Group,
        above: f64,
        cell: (f64, f64),
        origin: &dyn Fn(usize) -> (f64, f64),
    ) -> Group {
        let (first, page, rank) = (origin(0), self.page(), self.cuts.len());
        let (mut lane_above, mut lane_left, mut lane_over) = (0.0, 0.0, 0.0);
        for arrow in &self.arrows {
            let ends = (float(arrow.segments.start), float(arrow.segments.end));
            let axis = arrow.axis;
            if arrow.dim + 1 == rank {
                lane_above += ARROW;
                let y = first.1 - lane_above + 8.0;
                let (a, b) = (first.0 + ends.0 * cell.0, first.0 + ends.1 * cell.0);
                group = group.add(direction((a + 2.0, y), (b - 2.0, y), axis));
            } else if arrow.dim + 2 == rank {
                lane_left += ARROW;
                let x = first.0 - lane_left + 8.0;
                let (a, b) = (first.1 + ends.0 * cell.1, first.1 + ends.1 * cell.1);
                group = group.add(direction((x, a + 2.0), (x, b - 2.0), axis));
            } else {
                lane_over += ARROW;
                let y = first.1 - above - lane_over + 8.0;
                let stride: usize = self.cuts[arrow.dim + 1..rank - 2]
                    .iter()
                    .map(Cuts::count)
                    .product();
                let last = origin(arrow.segments.end.saturating_sub(1) * stride).0 + page.0;
                group = group.add(direction((first.0 + 2.0, y), (last - 2.0, y), axis));
            }
        }
        group
    }

    fn page_of(&self, segments: &[usize]) -> usize {
        let lead = self.cuts.len().saturating_sub(2);
        let pairs = segments.iter().zip(&self.cuts).take(lead);
        pairs.fold(0, |n, (s, cuts)| n * cuts.count() + s)
    }

    /// The index of the program that works on a cell.
    fn index(&self, steps: &[BTreeSet<i64>]) -> String {
        let one = |(axis, steps): (usize, &BTreeSet<i64>)| match (steps.first(), steps.last()) {
            (Some(a), Some(b)) if a == b => a.to_string(),
            (Some(_), Some(_)) if steps.len() == self.steps[axis] && 2 < steps.len() => {
                "*".to_owned()
            }
            (Some(a), Some(b)) => format!("{a}-{b}"),
            _ => "*".to_owned(),
        };
        let parts: Vec<String> = steps.iter().enumerate().map(one).collect();
        parts.join(",")
    }
}

/// The arrow of an axis, with its name.
fn direction(from: (f64, f64), to: (f64, f64), axis: usize) -> Group {
    let colour = AXES[axis % AXES.len()];
    let along = from.1 == to.1;
    let way = if along { (1.0, 0.0) } else { (0.0, 1.0) };
    let end = (to.0 - way.0 * 5.0, to.1 - way.1 * 5.0);
    let path = Path::new()
        .set(
            "d",
            format!(
                "M{},{} L{},{}",
                coordinate(from.0),
                coordinate(from.1),
                coordinate(end.0),
                coordinate(end.1)
            ),
        )
        .set("stroke", colour)
        .set("stroke-width", 1.6);
    let style = Style {
        size: 9.5,
        bold: true,
        colour,
        middle: true,
    };
    let place = if along {
        ((from.0 + to.0) / 2.0, from.1 - 2.5)
    } else {
        (from.0 - 2.0, (from.1 + to.1) / 2.0 + 3.0)
    };
    let halo = rectangle((place.0 - 8.0, place.1 - 8.5), (16.0, 10.0), 2.0).set("fill", "#fbfcfd");
    let mut group = Group::new().add(path).add(head(to, way, colour));
    if !along {
        group = group.add(halo);
    }
    group.add(line(&format!("g{axis}"), place, style))
}

/// The programs that work on a cell.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Workers {
    /// One step of each axis that distinguishes cells.
    One,
    /// Several steps of an axis, whose tiles overlap here.
    Several,
    /// All programs.
    Every,
}

impl Workers {
    /// From the steps of each axis that work on a cell; the set is empty for an axis that distinguishes no cells.
    fn of(steps: &[BTreeSet<i64>]) -> Workers {
        match steps.iter().map(BTreeSet::len).max() {
            None | Some(0) => Workers::Every,
            Some(1) => Workers::One,
            Some(_) => Workers::Several,
        }
    }
}

/// The colour of a cell. For a cell of one program, the first axis that distinguishes cells gives the hue, and the next
/// one the paleness.
fn colour(steps: &[BTreeSet<i64>]) -> String {
    match Workers::of(steps) {
        Workers::One => {}
        Workers::Several => return SEVERAL.to_owned(),
        Workers::Every => return EVERY.to_owned(),
    }
    let mut told = steps.iter().filter_map(|s| s.first().copied());
    let first = told.next().unwrap_or(0);
    let hue = STEPS[usize::try_from(first).unwrap_or(0) % STEPS.len()];
    let pale = told.next().map_or(0, |s| s.rem_euclid(4));
    let mix = |c: u8| {
        let c = i64::from(c);
        c + (255 - c) * pale * 22 / 100
    };
    format!("#{:02x}{:02x}{:02x}", mix(hue[0]), mix(hue[1]), mix(hue[2]))
}

fn float(n: usize) -> f64 {
    layered::as_float(n)
}

/// The Cartesian product of lists; the last list varies fastest.
fn product(lists: &[Vec<i64>]) -> Vec<Vec<i64>> {
    let mut all = vec![Vec::new()];
    for list in lists {
        let longer = all.iter().flat_map(|head: &Vec<i64>| {
            list.iter().map(move |&x| {
                let mut next = head.clone();
                next.push(x);
                next
            })
        });
        all = longer.collect();
    }
    all
}
