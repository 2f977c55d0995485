//! Carries tiles through a group: from results to operands, and from operands to results.
//!
//! Example: a tile of rows `8i..8i+8` of `relu(matmul(a, b))` demands the same rows of the matmul, these rows of `a`,
//! and all of `b`.

use crate::tile_propagate::local::{Local, LocalOp, LocalSource, Shape};
use optc_tile::Tiling;
use optc_tile::{Span, Steps, Tile};
use std::cell::Cell;

/// The given constraints of one operation.
#[derive(Clone, Debug, Default)]
pub(crate) struct Given {
    /// The tiles of the results, part by part, if they are fixed.
    pub(crate) results: Option<Vec<Vec<Tile>>>,
    /// The parts of the reductions; empty if none is cut.
    pub(crate) reduce: Vec<Span>,
    /// Per part and operand the block that is fetched, if it is fixed.
    pub(crate) reads: Vec<Vec<Option<Tile>>>,
}

/// The tiles and steps of each operation of a group.
#[derive(Clone, Debug)]
pub(crate) struct Carried {
    /// Per operation, part by part, the tile of each result.
    pub(crate) results: Vec<Vec<Vec<Tile>>>,
    /// Per operation, part by part, the steps of its loops.
    pub(crate) steps: Vec<Vec<Steps>>,
    /// Per input from memory, the parts that are read.
    pub(crate) inputs: Vec<Vec<Tile>>,
    /// True if adjacent parts were joined.
    pub(crate) joined: bool,
}

/// The most parts of one value that stay separate.
const MAX_PIECES: usize = 8;
/// The most results of an operation whose needed tiles are made as separate parts. An operation with more results makes
/// them together, because each part has a tile of every result.
const MAX_RESULTS: usize = 64;

/// The most axes in the start of a tile. Each cut that does not divide the previous ones doubles their number, as a
/// quotient and a remainder. A chain of cuts beyond this limit is no group.
pub(crate) const MAX_TERMS: usize = 64;

/// The greatest number of axes in the start of a span of a tile.
fn terms(tile: &Tile) -> usize {
    let of = |span: &Span| {
        let mut count = 0;
        span.start.axes(&mut |_| count += 1);
        count
    };
    tile.0.iter().map(of).max().unwrap_or(0)
}

/// Adds a part that is read to the parts of a value that are read already. Parts are merged into one box if that has
/// fewer elements than the two parts together, or with `beside` no more. Returns whether adjacent parts were joined.
fn join(parts: &mut Vec<Tile>, part: Tile, shape: &[u64], grid: &[u64], beside: bool) -> bool {
    let mut part = part;
    let mut joined = false;
    loop {
        if parts.iter().any(|known| known.holds(&part, shape, grid)) {
            return joined;
        }
        parts.retain(|known| !part.holds(known, shape, grid));
        let union = |known: &Tile| known.union(&part, grid).bounded(shape, grid);
        let full = MAX_PIECES <= parts.len();
        let near = parts.iter().position(|known| {
            let apart = held(known, shape).saturating_add(held(&part, shape));
            full || held(&union(known), shape) < apart.saturating_add(u64::from(beside))
        });
        let Some(near) = near else {
            parts.push(part);
            return joined;
        };
        let known = parts.remove(near);
        let together = union(&known);
        joined |= held(&known, shape).saturating_add(held(&part, shape)) == held(&together, shape);
        part = together;
    }
}

/// The elements of a tile. A block longer than its dimension counts as the dimension.
fn held(tile: &Tile, shape: &[u64]) -> u64 {
    let extents = tile.0.iter().zip(shape).map(|(s, &n)| s.extent.min(n));
    extents.fold(1, u64::saturating_mul)
}

/// The reason why tiles cannot be carried, with the operation's index in the group.
#[derive(Clone, Debug)]
pub(crate) struct Stuck {
    pub(crate) op: usize,
    /// The operation that demands something else, if one does.
    pub(crate) by: Option<usize>,
    pub(crate) reason: String,
    /// True if a tile would start at a sum of too many terms.
    pub(crate) long: bool,
}

/// Tiles for all operations, carried from the given ones. With `beside`, adjacent parts of a value that several readers
/// demand are joined. A joined part may be no box before a reshape.
///
/// # Errors
/// An operation cannot make the demanded tile, or nothing is demanded of it.
pub(crate) fn carry(
    local: &Local,
    given: &[Given],
    grid: &[u64],
    beside: bool,
) -> Result<Carried, Stuck> {
    let mut asked: Vec<Given> = given.to_vec();
    // Rounds: the given tiles alone; then with tiles that follow for users; then everything again, with operations that
    // still have no tile made whole.
    let mut rounds = 0;
    loop {
        let mut walk = Walk::new(local, grid, beside);
        walk.back(&asked)?;
        let Some(op) = walk.results.iter().position(Option::is_none) else {
            return walk.finish();
        };
        match rounds {
            0 | 1 => walk.forward(&mut asked),
            2 if given.iter().any(|g| g.results.is_some()) => walk.rest(&mut asked),
            _ => {
                return Err(Stuck {
                    op,
                    by: None,
                    reason: "no tile of the group determines the part of it that a program needs"
                        .to_owned(),
                    long: false,
                });
            }
        }
        rounds += 1;
    }
}

struct Walk<'a> {
    local: &'a Local,
    grid: &'a [u64],
    beside: bool,
    joined: Cell<bool>,
    results: Vec<Option<Vec<Vec<Tile>>>>,
    steps: Vec<Option<Vec<Steps>>>,
    /// The needs of the users of each result.
    needs: Vec<Vec<Need>>,
    inputs: Vec<Vec<Tile>>,
}

/// The need of the users of a result.
#[derive(Clone, Default)]
struct Need {
    parts: Vec<Tile>,
    /// A demanded tile without elements.
    outside: Option<Tile>,
    /// The last of the users.
    by: Option<usize>,
}

impl Need {
    /// The parts; if there are none, the demanded tile without elements, if any.
    fn tiles(&self) -> &[Tile] {
        match &self.outside {
            Some(outside) if self.parts.is_empty() => std::slice::from_ref(outside),
            _ => &self.parts,
        }
    }
}

impl<'a> Walk<'a> {
    fn new(local: &'a Local, grid: &'a [u64], beside: bool) -> Walk<'a> {
        let n = local.ops.len();
        let needs = local.ops.iter();
        let needs = needs.map(|op| vec![Need::default(); op.live_out.len()]);
        Walk {
            local,
            grid,
            beside,
            joined: Cell::new(false),
            results: vec![None; n],
            steps: vec![None; n],
            needs: needs.collect(),
            inputs: vec![Vec::new(); local.inputs.len()],
        }
    }

    /// From the last operation to the first: each makes the given tiles, or those that its users need.
    fn back(&mut self, given: &[Given]) -> Result<(), Stuck> {
        for at in (0..self.local.ops.len()).rev() {
            let op = &self.local.ops[at];
            let kind = &op.kind;
            let Some(pieces) = self.asked(at, &given[at])? else {
                continue;
            };
            let shapes: Vec<&[u64]> = kind.results.iter().map(|s| s.dims.as_slice()).collect();
            let reduce = &given[at].reduce;
            let mut results: Vec<Vec<Tile>> = Vec::with_capacity(pieces.len());
            let mut all_steps = Vec::with_capacity(pieces.len());
            for (number, mut piece) in pieces.into_iter().enumerate() {
                let mut steps = kind.domain.steps(&piece, reduce, &shapes, self.grid);
                if steps.is_err() && given[at].results.is_none() {
                    // If the demanded tile cannot be cut out, a larger one is made.
                    piece = kind.domain.around(&piece, &shapes, self.grid);
                    steps = kind.domain.steps(&piece, reduce, &shapes, self.grid);
                }
                let steps = steps.map_err(|fault| Stuck {
                    op: at,
                    by: self.needs[at].iter().find_map(|n| n.by),
                    reason: fault.to_string(),
                    long: false,
                })?;
                let holds = |known: &Vec<Tile>| {
                    let pairs = known.iter().zip(&piece).zip(&shapes);
                    let mut held = pairs.map(|((a, b), shape)| a.holds(b, shape, self.grid));
                    held.all(|held| held)
                };
                if given[at].results.is_none() && results.iter().any(holds) {
                    continue;
                }
                self.ask(at, &steps, given[at].reads.get(number))?;
                results.push(piece);
                all_steps.push(steps);
            }
            self.results[at] = Some(results);
            self.steps[at] = Some(all_steps);
        }
        Ok(())
    }

    /// Adds the reads of one part of an operation to the needs for its operands.
    ///
    /// # Errors
    /// A tile would start at a sum of more than [`MAX_TERMS`] terms.
    fn ask(
        &mut self,
        at: usize,
        steps: &Steps,
        reads: Option<&Vec<Option<Tile>>>,
    ) -> Result<(), Stuck> {
        let op = &self.local.ops[at];
        for (i, source) in op.operands.iter().enumerate() {
            let shape = &op.kind.operands[i].dims;
            let region = op.kind.domain.operand(i, steps, shape, self.grid).tile;
            if MAX_TERMS < terms(&region) {
                return Err(Stuck {
                    op: at,
                    by: self.needs[at].iter().find_map(|n| n.by),
                    reason: format!(
                        "the tile of its operand {i} would start at a sum of more than {MAX_TERMS} terms"
                    ),
                    long: true,
                });
            }
            let region = match reads.and_then(|r| r.get(i)) {
                Some(Some(block)) if block.holds(&region, shape, self.grid) => block.clone(),
                Some(Some(block)) => block.union(&region, self.grid).bounded(shape, self.grid),
                _ => region.trimmed(shape, self.grid),
            };
            let outside = region.is_outside(shape, self.grid);
            match *source {
                LocalSource::Inside(from, r) => {
                    let need = &mut self.needs[from][r];
                    need.by = Some(at);
                    if outside {
                        need.outside = Some(region);
                    } else {
                        let beside = self.beside;
                        if join(&mut need.parts, region, shape, self.grid, beside) {
                            self.joined.set(true);
                        }
                    }
                }
                LocalSource::Outside(id) => {
                    if !outside {
                        join(&mut self.inputs[id], region, shape, self.grid, true);
                    }
                }
            }
        }
        Ok(())
    }

    /// The tiles of one operation's results, part by part; `None` while nothing is known.
    fn asked(&self, at: usize, given: &Given) -> Result<Option<Vec<Vec<Tile>>>, Stuck> {
        let op = &self.local.ops[at];
        let needs = &self.needs[at];
        if let Some(fixed) = &given.results {
            for (r, need) in needs.iter().enumerate() {
                let shape = &op.kind.results[r].dims;
                let held = |tile: &&Tile| {
                    let mut pieces = fixed.iter();
                    !pieces.any(|piece| piece[r].holds(tile, shape, self.grid))
                };
                let Some(tile) = need.parts.iter().find(held) else {
                    continue;
                };
                let own: Vec<String> = fixed.iter().map(|p| p[r].to_string()).collect();
                return Err(Stuck {
                    op: at,
                    by: need.by,
                    reason: format!(
                        "its tile is {}, but {tile} of it is needed",
                        own.join(" and ")
                    ),
                    long: false,
                });
            }
            return Ok(Some(fixed.clone()));
        }
        if needs.iter().all(|need| need.tiles().is_empty()) {
            return Ok(None);
        }
        Ok(Some(match self.parts(op, needs) {
            Some(parts) => parts,
            None => vec![self.joint(op, needs)],
        }))
    }

    /// One part for each needed tile. `None` where the parts do not cover a result that leaves the group, or cannot be
    /// made one by one.
    fn parts(&self, op: &LocalOp, needs: &[Need]) -> Option<Vec<Vec<Tile>>> {
        let shapes: Vec<&[u64]> = op.kind.results.iter().map(|s| s.dims.as_slice()).collect();
        if MAX_RESULTS < shapes.len() {
            return None;
        }
        let mut parts: Vec<Vec<Tile>> = Vec::new();
        for (r, need) in needs.iter().enumerate() {
            for tile in need.tiles() {
                let makes = |known: &Vec<Tile>| known[r].holds(tile, shapes[r], self.grid);
                if parts.iter().any(makes) {
                    continue;
                }
                let made = match shapes.len() {
                    1 => vec![tile.clone()],
                    _ => op.kind.domain.made_for(r, tile, &shapes, self.grid)?,
                };
                let holds = |big: &[Tile], small: &[Tile]| {
                    let mut pairs = big.iter().zip(small).zip(&shapes);
                    pairs.all(|((a, b), shape)| a.holds(b, shape, self.grid))
                };
                parts.retain(|known| !holds(&made, known));
                parts.push(made);
                if MAX_PIECES < parts.len() {
                    return None;
                }
            }
        }
        if self.is_one(op, needs, &parts, &shapes) {
            return None;
        }
        for (r, shape) in shapes.iter().enumerate() {
            let tiles: Vec<&Tile> = parts.iter().map(|p| &p[r]).collect();
            if op.live_out[r] && !covers(&tiles, shape, self.grid) {
                return None;
            }
        }
        Some(parts)
    }

    /// Returns whether several results are made together in no more steps than part by part.
    fn is_one(&self, op: &LocalOp, needs: &[Need], parts: &[Vec<Tile>], shapes: &[&[u64]]) -> bool {
        if parts.len() < 2 || shapes.len() < 2 || !self.beside {
            return false;
        }
        let count = |tiles: &[Tile]| {
            let steps = op.kind.domain.steps(tiles, &[], shapes, self.grid).ok()?;
            let extents = steps.spans.iter().map(|s| s.extent);
            Some(extents.fold(1u64, u64::saturating_mul))
        };
        let apart = parts.iter().filter_map(|part| count(part));
        let apart = apart.fold(0, u64::saturating_add);
        let one = count(&self.joint(op, needs)).is_some_and(|together| together <= apart);
        if one {
            self.joined.set(true);
        }
        one
    }

    /// One part that holds everything that is needed.
    ///
    /// A result that nothing in the group reads is made whole. A result that leaves the group is made whole along the
    /// dimensions that the programs together would not cover otherwise.
    fn joint(&self, op: &LocalOp, needs: &[Need]) -> Vec<Tile> {
        let all = needs.iter().zip(&op.kind.results).enumerate();
        let tile = |(r, (need, shape)): (usize, (&Need, &Shape))| {
            let union = |a: Tile, b: &Tile| a.union(b, self.grid).bounded(&shape.dims, self.grid);
            match need.tiles().split_first() {
                Some((first, rest)) => {
                    let tile = rest.iter().fold(first.clone(), union);
                    if op.live_out[r] {
                        covering(&tile, &shape.dims, self.grid)
                    } else {
                        tile
                    }
                }
                None => Tile::whole(&shape.dims),
            }
        };
        all.map(tile).collect()
    }

    /// From the first operation to the last: an operation without a known tile gets the tile that it can make from the
    /// tiles of its operands.
    fn forward(&self, asked: &mut [Given]) {
        let mut known = self.results.clone();
        for (at, op) in self.local.ops.iter().enumerate() {
            if known[at].is_some() {
                continue;
            }
            let Some(pieces) = self.makeable(op, &known) else {
                continue;
            };
            // The tiles of a result that others in the group read come from their demands.
            if !op.used.iter().any(|&used| used) {
                asked[at].results = Some(self.covering(op, pieces.clone()));
            }
            known[at] = Some(pieces);
        }
    }

    /// The parts for which the tiles of the operands suffice. If there are none, the part for which the first operand
    /// alone suffices.
    fn makeable(&self, op: &LocalOp, known: &[Option<Vec<Vec<Tile>>>]) -> Option<Vec<Vec<Tile>>> {
        let kind = &op.kind;
        let shapes: Vec<&[u64]> = kind.results.iter().map(|s| s.dims.as_slice()).collect();
        let mut found: Vec<Vec<Tile>> = Vec::new();
        let mut first = None;
        for (i, source) in op.operands.iter().enumerate() {
            let LocalSource::Inside(from, r) = *source else {
                continue;
            };
            for piece in known[from].iter().flatten() {
                let shape = &kind.operands[i].dims;
                let steps = kind.domain.steps_within(i, &piece[r], shape, self.grid);
                let Some(steps) = steps else { continue };
                let results = shapes.iter().enumerate();
                let results =
                    results.map(|(r, s)| kind.domain.result(r, &steps, s, self.grid).tile);
                let results: Vec<Tile> = results.collect();
                if results.iter().any(|tile| MAX_TERMS < terms(tile)) {
                    continue;
                }
                let whole = self.suffices(op, &steps, known);
                let same = found.contains(&results);
                if whole && !same && found.len() < MAX_PIECES {
                    found.push(results.clone());
                }
                first.get_or_insert(results);
            }
        }
        if found.is_empty() {
            found.extend(first);
        }
        // A part that another part contains is dropped.
        let holds = |a: usize, b: usize| {
            let mut pairs = found[a].iter().zip(&found[b]).zip(&shapes);
            pairs.all(|((a, b), shape)| a.holds(b, shape, self.grid))
        };
        let n = found.len();
        let needless = |&b: &usize| {
            let better = |&a: &usize| a != b && holds(a, b) && (a < b || !holds(b, a));
            !(0..n).any(|a| better(&a))
        };
        let kept: Vec<usize> = (0..n).filter(needless).collect();
        let kept: Vec<Vec<Tile>> = kept.into_iter().map(|i| found[i].clone()).collect();
        (!kept.is_empty()).then_some(kept)
    }

    /// Returns whether the known tiles hold what these steps read from the group.
    fn suffices(&self, op: &LocalOp, steps: &Steps, known: &[Option<Vec<Vec<Tile>>>]) -> bool {
        let all = op.operands.iter().zip(&op.kind.operands).enumerate();
        let mut held = all.map(|(i, (source, shape))| {
            let LocalSource::Inside(from, r) = *source else {
                return true;
            };
            let needed = op
                .kind
                .domain
                .operand(i, steps, &shape.dims, self.grid)
                .tile;
            if needed.is_outside(&shape.dims, self.grid) {
                return true;
            }
            // A tile that is not known can be demanded.
            let Some(pieces) = &known[from] else {
                return true;
            };
            let mut pieces = pieces.iter();
            pieces.any(|piece| piece[r].holds(&needed, &shape.dims, self.grid))
        });
        held.all(|held| held)
    }

    /// The parts as they are, if they cover each result that leaves the group; else one part.
    fn covering(&self, op: &LocalOp, pieces: Vec<Vec<Tile>>) -> Vec<Vec<Tile>> {
        let shapes = op.kind.results.iter().zip(&op.live_out).enumerate();
        let mut leaving = shapes.filter(|(_, (_, leaves))| **leaves);
        let covered = leaving.all(|(r, (shape, _))| {
            let tiles: Vec<&Tile> = pieces.iter().map(|p| &p[r]).collect();
            covers(&tiles, &shape.dims, self.grid)
        });
        if covered {
            return pieces;
        }
        let results = op.kind.results.iter().zip(&op.live_out).enumerate();
        let one = results.map(|(r, (shape, &leaves))| {
            let tiles = pieces.iter().map(|p| p[r].clone());
            let union = |a: Tile, b: Tile| a.union(&b, self.grid).bounded(&shape.dims, self.grid);
            let tile = tiles.reduce(union);
            let tile = tile.unwrap_or_else(|| Tile::whole(&shape.dims));
            if leaves {
                covering(&tile, &shape.dims, self.grid)
            } else {
                tile
            }
        });
        vec![one.collect()]
    }

    /// Makes operations whole of which nothing is known and nothing in the group reads the results.
    fn rest(&self, asked: &mut [Given]) {
        for (at, op) in self.local.ops.iter().enumerate() {
            if self.results[at].is_none() && !op.used.iter().any(|&used| used) {
                let results = op.kind.results.iter().map(|s| Tile::whole(&s.dims));
                asked[at].results = Some(vec![results.collect()]);
            }
        }
    }

    fn finish(self) -> Result<Carried, Stuck> {
        let missing = |op| Stuck {
            op,
            by: None,
            reason: "nothing is asked of it".to_owned(),
            long: false,
        };
        let mut results = Vec::with_capacity(self.results.len());
        let mut steps = Vec::with_capacity(self.steps.len());
        for (op, (tile, step)) in self.results.into_iter().zip(self.steps).enumerate() {
            results.push(tile.ok_or_else(|| missing(op))?);
            steps.push(step.ok_or_else(|| missing(op))?);
        }
        let inputs = self.inputs.into_iter().zip(&self.local.inputs);
        let inputs = inputs.map(|(parts, shape)| match parts.is_empty() {
            true => vec![Tile::whole(&shape.dims)],
            false => parts,
        });
        Ok(Carried {
            joined: self.joined.get(),
            results,
            steps,
            inputs: inputs.collect(),
        })
    }
}

/// Returns whether the tiles of all programs together cover a value. `false` may be wrong where two dimensions depend
/// on one axis.
pub(crate) fn covers(tiles: &[&Tile], shape: &[u64], grid: &[u64]) -> bool {
    match tiles {
        [] => return false,
        [tile] => return covering(tile, shape, grid) == **tile,
        _ => {}
    }
    // All combinations of the parts of each dimension must exist, and the parts of each dimension must cover it.
    let mut seen = vec![false; grid.len()];
    let mut combinations = 1usize;
    for (d, &size) in shape.iter().enumerate() {
        let mut spans: Vec<&Span> = tiles.iter().map(|t| &t.0[d]).collect();
        spans.sort_unstable();
        spans.dedup();
        combinations = combinations.saturating_mul(spans.len());
        if spans.iter().all(|span| span.is_whole(size)) {
            continue;
        }
        let mut axes = Vec::new();
        for span in &spans {
            span.start.axes(&mut |axis| axes.push(axis));
        }
        axes.sort_unstable();
        axes.dedup();
        if axes.iter().any(|&a| seen[a]) || !span_all(&spans, size, &axes, grid) {
            return false;
        }
        axes.iter().for_each(|&a| seen[a] = true);
    }
    let mut different: Vec<&&Tile> = tiles.iter().collect();
    different.sort_unstable();
    different.dedup();
    different.len() == combinations
}

/// The tile, made whole along dimensions that its programs together do not cover, and along those that depend on an
/// axis that another dimension depends on.
pub(crate) fn covering(tile: &Tile, shape: &[u64], grid: &[u64]) -> Tile {
    let mut seen = vec![false; grid.len()];
    let mut out = tile.clone();
    for (span, &size) in out.0.iter_mut().zip(shape) {
        if span.is_whole(size) {
            continue;
        }
        let mut axes = Vec::new();
        span.start.axes(&mut |axis| axes.push(axis));
        axes.sort_unstable();
        axes.dedup();
        if axes.iter().any(|&a| seen[a]) || !span_all(&[&*span], size, &axes, grid) {
            *span = Span::whole(size);
            continue;
        }
        axes.iter().for_each(|&a| seen[a] = true);
    }
    out
}

/// Returns whether the parts of one dimension, over these axes, cover it.
fn span_all(spans: &[&Span], size: u64, axes: &[usize], grid: &[u64]) -> bool {
    let volume = axes
        .iter()
        .map(|&a| grid[a])
        .fold(1u64, u64::saturating_mul);
    if MAX_STARTS < volume {
        return false;
    }
    let number = |n: u64| i64::try_from(n).unwrap_or(i64::MAX);
    let mut index = vec![0i64; grid.len()];
    let mut parts = Vec::new();
    for n in 0..volume {
        let mut rest = n;
        for &a in axes {
            index[a] = number(rest % grid[a]);
            rest /= grid[a];
        }
        parts.extend(
            spans
                .iter()
                .map(|s| (s.start.eval(&index), number(s.extent))),
        );
    }
    parts.sort_unstable();
    let mut end = 0i64;
    for (start, extent) in parts {
        if end < start {
            return false;
        }
        end = end.max(start.saturating_add(extent));
    }
    number(size) <= end
}

/// The most tiles of one dimension that are checked one by one.
const MAX_STARTS: u64 = 1 << 16;
