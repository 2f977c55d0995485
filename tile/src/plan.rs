//! The plan of a function as attributes of the function and of its operations.
//!
//! The function lists the grids, one per group. Each operation of a group states the tiles of its results and the parts
//! of its cut reductions:
//!
//! ```mlir
//! func.func @main(…) -> … attributes {hbir.groups = [{grid = [4, 2], order = ["parallel", "arbitrary"]}]} {
//!   %0 = "hbir.linear"(%x, %w) {tile = {group = 0, reduce = ["64 @ g1 * 64"], result = ["16 @ g0 * 16", "128"]}} : …
//! ```
//!
//! - Programs run in the order of the grid, the last axis fastest. Along a `parallel` axis (the default) any order is
//!   right.
//! - `result` has a list of spans for each result; for an operation with one result it may be that list itself. Without
//!   it the tile is not decided yet.
//! - `reduce` has a span for each loop that the operation reduces over, in the order of its declaration
//!   ([`optc_ir::op::iteration_domain::IterationDomain`]). Without it no reduction is cut.
//! - `reduce` of a softmax is the part of its axis in a program. The softmax is then computed online, with the greatest
//!   element and the sum so far, and the product that reads it accumulates over the same part.
//! - `read` has a list of spans for each operand that a program reads from memory in blocks larger than the tile needs,
//!   as the rules of a target may require. The list is empty for other operands.
//! - `more` has further parts that an operation computes in a program, each with its own `result` and, if needed,
//!   `read`. They are for readers whose parts of a value do not form one box. Each reader takes the first part that
//!   holds what it needs. All parts share `reduce`.
//! - An operation with a cut reduction accumulates along the axes of `reduce`, which are its completion axes. Its
//!   readers in the group run only at the last step of these axes.

use crate::codes;
use crate::span::{Span, SpanError, Tile};
use optc_ir::analysis::live_outs;
use optc_ir::attr::{Attr, AttrDict};
use optc_ir::diag::Diagnostic;
use optc_ir::module::{Func, Op};
use std::collections::BTreeMap;
use thiserror::Error;

/// The attribute of a function with its grids.
pub const GROUPS: &str = "hbir.groups";
/// The attribute of an operation with its tile.
pub const TILE: &str = "tile";

/// The groups of a function and the tiles of their operations.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Plan {
    /// The groups, by number.
    pub groups: Vec<Group>,
    /// The tile of each operation that is in a group.
    pub tiles: BTreeMap<Op, OpTile>,
}

/// A grid and the operations that run once per program of it.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Group<T = Op> {
    /// The axes, the last one fastest.
    pub axes: Vec<Axis>,
    /// The operations, in execution order.
    pub ops: Vec<T>,
}

/// One axis of a grid.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct Axis {
    /// The number of steps, at least 1.
    pub extent: u64,
    /// The order of the steps.
    pub order: Order,
}

/// The orders in which the steps along an axis may run.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Default)]
pub enum Order {
    /// Any order, also concurrently.
    #[default]
    Parallel,
    /// One after the other: a reduction accumulates along it.
    Arbitrary,
}

/// The tile of one operation in a program of its group.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Default)]
pub struct OpTile {
    /// The number of the group.
    pub group: usize,
    /// The tile of each result; empty if it is not decided yet.
    pub results: Vec<Tile>,
    /// The part of each reduction loop; empty when none is cut.
    pub reduce: Vec<Span>,
    /// For each operand, the block that is fetched from memory if it differs from what the tile needs; empty if there
    /// is none.
    pub reads: Vec<Option<Tile>>,
    /// Further parts that it computes.
    pub more: Vec<Part>,
}

/// A further part that an operation computes in a program.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Default)]
pub struct Part {
    /// The tile of each result.
    pub results: Vec<Tile>,
    /// See [`OpTile::reads`].
    pub reads: Vec<Option<Tile>>,
}

impl OpTile {
    /// The number of parts; 0 if the tile is not decided yet.
    #[must_use]
    pub fn count(&self) -> usize {
        if self.results.is_empty() {
            0
        } else {
            1 + self.more.len()
        }
    }

    /// Each part as the tile of an operation with this part only.
    pub fn parts(&self) -> impl Iterator<Item = OpTile> + '_ {
        let first = (&self.results, &self.reads);
        let all = std::iter::once(first).chain(self.more.iter().map(|p| (&p.results, &p.reads)));
        all.take(self.count()).map(|(results, reads)| OpTile {
            group: self.group,
            results: results.clone(),
            reduce: self.reduce.clone(),
            reads: reads.clone(),
            more: Vec::new(),
        })
    }

    /// The tiles of one result, part by part.
    pub fn tiles_of(&self, result: usize) -> impl Iterator<Item = &Tile> {
        let more = self.more.iter().map(move |p| p.results.get(result));
        let all = std::iter::once(self.results.get(result)).chain(more);
        all.flatten()
    }

    /// The first part of a result that holds a tile, for a value of this shape.
    #[must_use]
    pub fn holding(
        &self,
        result: usize,
        wanted: &Tile,
        shape: &[u64],
        grid: &[u64],
    ) -> Option<usize> {
        let mut tiles = self.tiles_of(result);
        tiles.position(|tile| tile.holds(wanted, shape, grid))
    }
}

impl Order {
    /// The word in the text.
    #[must_use]
    pub fn word(self) -> &'static str {
        match self {
            Order::Parallel => "parallel",
            Order::Arbitrary => "arbitrary",
        }
    }
}

impl<T> Group<T> {
    /// The extents of the axes.
    #[must_use]
    pub fn grid(&self) -> Vec<u64> {
        self.axes.iter().map(|a| a.extent).collect()
    }

    /// The number of programs.
    #[must_use]
    pub fn programs(&self) -> u64 {
        let extents = self.axes.iter().map(|a| a.extent);
        extents.fold(1, u64::saturating_mul)
    }
}

impl Plan {
    /// Reads the attributes of a function; `None` if there are none.
    ///
    /// # Errors
    /// Attributes have another form, or a tile is in a group that does not exist.
    pub fn read(func: &Func) -> Result<Option<Plan>, Vec<Diagnostic>> {
        let mut diags = Vec::new();
        let mut plan = Plan::default();
        let groups = func.attrs.get(GROUPS);
        if let Some(attr) = groups {
            match read_groups(attr) {
                Ok(groups) => plan.groups = groups,
                Err(fault) => {
                    let diag = Diagnostic::error(codes::TILE_SYNTAX, fault.to_string());
                    return Err(vec![diag.at(func.span, "this function")]);
                }
            }
        }
        for &op in &func.body {
            let data = &func.ops[op];
            let Some(attr) = data.attrs.get(TILE) else {
                continue;
            };
            // Operations of other dialects may have a `tile` of their own.
            if groups.is_none() && !data.name.starts_with("hbir.") {
                continue;
            }
            let place = |diag: Diagnostic| diag.at(data.span, "this operation");
            match read_tile(attr, data.operands.len(), data.results.len()) {
                Ok(tile) if tile.group < plan.groups.len() => {
                    plan.groups[tile.group].ops.push(op);
                    plan.tiles.insert(op, tile);
                }
                Ok(tile) => {
                    let message = format!(
                        "{} is in group {}, wanted one of the {} groups of @{}",
                        data.name,
                        tile.group,
                        plan.groups.len(),
                        func.name
                    );
                    let hint = format!("`{GROUPS}` of the function lists the grids");
                    diags.push(place(
                        Diagnostic::error(codes::TILE_GROUP, message).hint(hint),
                    ));
                }
                Err(fault) => {
                    let message = format!("the tile of {}: {fault}", data.name);
                    diags.push(place(Diagnostic::error(codes::TILE_SYNTAX, message)));
                }
            }
        }
        if !diags.is_empty() {
            return Err(diags);
        }
        Ok((groups.is_some() || !plan.tiles.is_empty()).then_some(plan))
    }

    /// For each value, by number: true if something outside its own group uses it. The function's return and operations
    /// in no group count as outside.
    #[must_use]
    pub fn live_outs(&self, func: &Func) -> Vec<bool> {
        let group_of = |op: Op| Some(self.tiles.get(&op)?.group);
        let outs = live_outs(func, group_of);
        func.values.ids().map(|value| outs[value]).collect()
    }

    /// Writes the attributes of a function in place of its old ones.
    pub fn write(&self, func: &mut Func) {
        if self.groups.is_empty() {
            func.attrs.remove(GROUPS);
        } else {
            let groups = self.groups.iter().map(write_group);
            func.attrs.set(GROUPS, Attr::Array(groups.collect()));
        }
        for i in 0..func.body.len() {
            let op = func.body[i];
            match self.tiles.get(&op) {
                Some(tile) => func.ops[op].attrs.set(TILE, write_tile(tile)),
                None => {
                    func.ops[op].attrs.remove(TILE);
                }
            }
        }
    }
}

/// Why attributes are not a plan.
#[derive(Clone, Debug, Error, PartialEq, Eq)]
enum PlanError {
    /// An attribute has another form.
    #[error("{0}")]
    Wanted(&'static str),
    /// A dictionary has an unknown name.
    #[error("found `{found}`, wanted {known}")]
    Name { found: String, known: String },
    /// A grid has other numbers of extents and orders.
    #[error("group {group} has {extents} extents and {orders} orders, wanted one an axis")]
    Orders {
        group: usize,
        extents: usize,
        orders: usize,
    },
    /// A grid has an axis without steps, or with too many.
    #[error("group {group} has a grid axis of {extent}, wanted 1 or more")]
    Extent { group: usize, extent: i64 },
    /// Not every operand has a block.
    #[error("`read` has {found} blocks, wanted {operands}, one an operand")]
    Blocks { found: usize, operands: usize },
    /// Not every result has a tile.
    #[error("found {found} results, wanted {results}")]
    Results { found: usize, results: usize },
    /// A text is no span.
    #[error(transparent)]
    Span(#[from] SpanError),
}

fn read_groups(attr: &Attr) -> Result<Vec<Group>, PlanError> {
    let wanted = || {
        PlanError::Wanted(
            "`hbir.groups` wants a list of `{grid = [4, 2], order = [\"parallel\", \"arbitrary\"]}`",
        )
    };
    let list = attr.as_array().ok_or_else(wanted)?;
    let mut groups = Vec::with_capacity(list.len());
    for (i, item) in list.iter().enumerate() {
        let Attr::Dict(dict) = item else {
            return Err(wanted());
        };
        known_names(dict, &["grid", "order"])?;
        let extents = dict.ints("grid").ok_or_else(wanted)?;
        let order = match dict.get("order") {
            None => vec![Order::Parallel; extents.len()],
            Some(order) => read_order(order).ok_or_else(wanted)?,
        };
        if order.len() != extents.len() {
            return Err(PlanError::Orders {
                group: i,
                extents: extents.len(),
                orders: order.len(),
            });
        }
        let mut axes = Vec::with_capacity(extents.len());
        for (n, order) in extents.into_iter().zip(order) {
            let extent = u64::try_from(n).ok().filter(|n| (1..=1 << 40).contains(n));
            let extent = extent.ok_or(PlanError::Extent {
                group: i,
                extent: n,
            })?;
            axes.push(Axis { extent, order });
        }
        let ops = Vec::new();
        groups.push(Group { axes, ops });
    }
    Ok(groups)
}

fn read_order(attr: &Attr) -> Option<Vec<Order>> {
    let order = |word: &Attr| match word.as_str()? {
        "parallel" => Some(Order::Parallel),
        "arbitrary" => Some(Order::Arbitrary),
        _ => None,
    };
    attr.as_array()?.iter().map(order).collect()
}

fn known_names(dict: &AttrDict, known: &[&str]) -> Result<(), PlanError> {
    match dict.iter().find(|(name, _)| !known.contains(name)) {
        None => Ok(()),
        Some((name, _)) => Err(PlanError::Name {
            found: name.to_string(),
            known: known.join(", "),
        }),
    }
}

fn read_tile(attr: &Attr, operands: usize, results: usize) -> Result<OpTile, PlanError> {
    let wanted = || PlanError::Wanted("wanted `{group = 0, result = [\"16 @ g0 * 16\", \"128\"]}`");
    let Attr::Dict(dict) = attr else {
        return Err(wanted());
    };
    known_names(dict, &["group", "more", "read", "reduce", "result"])?;
    let group = dict.int("group").and_then(|n| usize::try_from(n).ok());
    let mut tile = OpTile {
        group: group.ok_or_else(wanted)?,
        ..OpTile::default()
    };
    if let Some(reduce) = dict.get("reduce") {
        tile.reduce = read_spans(reduce)?;
    }
    let first = read_part(dict, operands, results)?;
    (tile.results, tile.reads) = (first.results, first.reads);
    let Some(more) = dict.get("more") else {
        return Ok(tile);
    };
    let wanted = || {
        PlanError::Wanted("`more` wants a list of `{result = [\"16 @ g0 * 16 + 64\", \"128\"]}`")
    };
    if tile.results.is_empty() {
        return Err(PlanError::Wanted("`more` wants a `result` beside it"));
    }
    for item in more.as_array().ok_or_else(wanted)? {
        let Attr::Dict(dict) = item else {
            return Err(wanted());
        };
        known_names(dict, &["read", "result"])?;
        let part = read_part(dict, operands, results)?;
        if part.results.is_empty() && results != 0 {
            return Err(wanted());
        }
        tile.more.push(part);
    }
    Ok(tile)
}

/// The `result` and the `read` of one part.
fn read_part(dict: &AttrDict, operands: usize, results: usize) -> Result<Part, PlanError> {
    let mut part = Part::default();
    if let Some(read) = dict.get("read") {
        let list = read
            .as_array()
            .ok_or(PlanError::Wanted("`read` wants a list of lists of spans"))?;
        if list.len() != operands {
            return Err(PlanError::Blocks {
                found: list.len(),
                operands,
            });
        }
        for item in list {
            let spans = read_spans(item)?;
            part.reads.push((!spans.is_empty()).then_some(Tile(spans)));
        }
    }
    let Some(result) = dict.get("result") else {
        return Ok(part);
    };
    let wanted = "`result` wants a list of spans, `[\"16 @ g0 * 16\", \"128\"]`";
    let list = result.as_array().ok_or(PlanError::Wanted(wanted))?;
    let nested = list.iter().all(|a| a.as_array().is_some());
    if results == 1 && !(nested && list.len() == 1) {
        part.results.push(Tile(read_spans(result)?));
        return Ok(part);
    }
    if list.len() != results {
        return Err(PlanError::Results {
            found: list.len(),
            results,
        });
    }
    for item in list {
        part.results.push(Tile(read_spans(item)?));
    }
    Ok(part)
}

fn read_spans(attr: &Attr) -> Result<Vec<Span>, PlanError> {
    let wanted = || PlanError::Wanted("wanted a list of spans, `[\"16 @ g0 * 16\", \"128\"]`");
    let list = attr.as_array().ok_or_else(wanted)?;
    let mut spans = Vec::with_capacity(list.len());
    for item in list {
        let text = item.as_str().ok_or_else(wanted)?;
        spans.push(Span::parse(text)?);
    }
    Ok(spans)
}

fn write_group(group: &Group) -> Attr {
    let extents: Vec<u64> = group.grid();
    let order = group.axes.iter().map(|a| Attr::str(a.order.word()));
    let dict = AttrDict::new()
        .with("grid", Attr::ints(&extents))
        .with("order", Attr::Array(order.collect()));
    Attr::Dict(dict)
}

fn write_tile(tile: &OpTile) -> Attr {
    let spans = |spans: &[Span]| {
        let texts = spans.iter().map(|s| Attr::str(&s.to_string()));
        Attr::Array(texts.collect())
    };
    let read_into = |dict: &mut AttrDict, reads: &[Option<Tile>]| {
        if reads.iter().any(Option::is_some) {
            let read = |tile: &Option<Tile>| spans(tile.as_ref().map_or(&[][..], |t| &t.0));
            let blocks = reads.iter().map(read);
            dict.set("read", Attr::Array(blocks.collect()));
        }
    };
    let result_into = |dict: &mut AttrDict, results: &[Tile]| match results {
        [] => {}
        [one] => dict.set("result", spans(&one.0)),
        many => {
            let lists = many.iter().map(|t| spans(&t.0));
            dict.set("result", Attr::Array(lists.collect()));
        }
    };
    let group = i64::try_from(tile.group).unwrap_or(i64::MAX);
    let mut dict = AttrDict::new().with("group", Attr::int(group));
    if !tile.more.is_empty() {
        let part = |part: &Part| {
            let mut dict = AttrDict::new();
            read_into(&mut dict, &part.reads);
            result_into(&mut dict, &part.results);
            Attr::Dict(dict)
        };
        let parts = tile.more.iter().map(part);
        dict.set("more", Attr::Array(parts.collect()));
    }
    read_into(&mut dict, &tile.reads);
    if !tile.reduce.is_empty() {
        dict.set("reduce", spans(&tile.reduce));
    }
    result_into(&mut dict, &tile.results);
    Attr::Dict(dict)
}

#[cfg(test)]
mod tests {
    use super::*;
    use optc_ir::text;

    const PROGRAM: &str = r#"func.func @main(%x: tensor<64x128xf32>, %w: tensor<32x128xf32>) -> tensor<64x32xf32> attributes {hbir.groups = [{grid = [4, 2], order = ["parallel", "arbitrary"]}]} {
  %0 = "hbir.linear"(%x, %w) {tile = {group = 0, reduce = ["64 @ g1 * 64"], result = ["16 @ g0 * 16", "32"]}} : (tensor<64x128xf32>, tensor<32x128xf32>) -> tensor<64x32xf32>
  %1 = "hbir.relu"(%0) {tile = {group = 0}} : (tensor<64x32xf32>) -> tensor<64x32xf32>
  return %1 : tensor<64x32xf32>
}
"#;

    #[test]
    fn plans_read_and_write() {
        let mut module = text::parse(PROGRAM).unwrap();
        let plan = Plan::read(&module.funcs[0]).unwrap().unwrap();
        assert_eq!(plan.groups.len(), 1);
        assert_eq!(plan.groups[0].grid(), [4, 2]);
        assert_eq!(plan.groups[0].ops.len(), 2);
        let first = &plan.tiles[&plan.groups[0].ops[0]];
        assert_eq!(first.results[0].to_string(), "[16 @ g0 * 16, 32]");
        assert_eq!(first.reduce[0].to_string(), "64 @ g1 * 64");
        assert!(plan.tiles[&plan.groups[0].ops[1]].results.is_empty());
        assert!(first.reads.is_empty());
        Plan::default().write(&mut module.funcs[0]);
        assert_eq!(Plan::read(&module.funcs[0]).unwrap(), None);
        plan.write(&mut module.funcs[0]);
        assert_eq!(text::print(&module), PROGRAM);
    }

    #[test]
    fn parts_read_and_write() {
        let program = PROGRAM.replace(
            "group = 0, reduce",
            "group = 0, more = [{read = [[\"64\", \"64\"], []], result = [\"16 @ g0 * 16 + 1\", \"32\"]}], reduce",
        );
        let mut module = text::parse(&program).unwrap();
        let plan = Plan::read(&module.funcs[0]).unwrap().unwrap();
        let first = &plan.tiles[&plan.groups[0].ops[0]];
        assert_eq!((first.count(), first.parts().count()), (2, 2));
        let part = first.parts().nth(1).unwrap();
        assert_eq!(part.results[0].to_string(), "[16 @ g0 * 16 + 1, 32]");
        assert_eq!(part.reads[0].as_ref().unwrap().to_string(), "[64, 64]");
        assert_eq!(part.reduce, first.reduce);
        plan.write(&mut module.funcs[0]);
        assert_eq!(text::print(&module), program);
        for wrong in [
            "more = [1], reduce",
            "more = [{}], reduce",
            "more = 1, reduce",
        ] {
            let program = PROGRAM.replace("reduce = [\"64", &format!("{} = [\"64", wrong));
            let module = text::parse(&program).unwrap();
            assert!(Plan::read(&module.funcs[0]).is_err(), "{wrong}");
        }
    }

    #[test]
    fn blocks_that_are_fetched_read_and_write() {
        let program = PROGRAM.replace(
            "group = 0, reduce",
            "group = 0, read = [[\"64\", \"64 @ g1 * 64\"], []], reduce",
        );
        let mut module = text::parse(&program).unwrap();
        let plan = Plan::read(&module.funcs[0]).unwrap().unwrap();
        let first = &plan.tiles[&plan.groups[0].ops[0]];
        assert_eq!(
            first.reads[0].as_ref().unwrap().to_string(),
            "[64, 64 @ g1 * 64]"
        );
        assert_eq!(first.reads[1], None);
        plan.write(&mut module.funcs[0]);
        assert_eq!(text::print(&module), program);
    }

    #[test]
    fn faults_are_named() {
        for (from, to, wanted) in [
            ("[4, 2]", "[4]", "1 extents and 2 orders"),
            ("[4, 2]", "[4, 0]", "a grid axis of 0, wanted 1 or more"),
            ("\"arbitrary\"", "\"any\"", "`hbir.groups` wants"),
            (
                "group = 0, reduce",
                "group = 3, reduce",
                "wanted one of the 1 groups of @main",
            ),
            ("\"32\"]", "32]", "wanted a list of spans"),
            (
                "group = 0, reduce",
                "group = 0, read = [[]], reduce",
                "`read` has 1 blocks, wanted 2, one an operand",
            ),
            (
                "g1 * 64\"",
                "h1\"",
                "found `h1`, wanted a number, a grid index",
            ),
            (
                "reduce =",
                "reduced =",
                "found `reduced`, wanted group, more, read, reduce, result",
            ),
        ] {
            let module = text::parse(&PROGRAM.replacen(from, to, 1)).unwrap();
            let diags = Plan::read(&module.funcs[0]).unwrap_err();
            assert!(diags[0].message.contains(wanted), "{}", diags[0].message);
        }
    }
}
