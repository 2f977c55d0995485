//! Carries tiles through a group: from results to operands, and from operands to results.

use crate::tile_propagate::local::{Local, Source};
use optc_ir::tile::{Span, Steps, Tile};

/// What is given of one operation.
#[derive(Clone, Debug, Default)]
pub(crate) struct Given {
    /// The tile of each result, if it is fixed.
    pub(crate) results: Option<Vec<Tile>>,
    /// The parts of the reductions; empty: none is cut.
    pub(crate) reduce: Vec<Span>,
    /// Per operand the block that is fetched, if it is fixed.
    pub(crate) reads: Vec<Option<Tile>>,
}

/// What each operation of a group does.
#[derive(Clone, Debug)]
pub(crate) struct Carried {
    /// Per operation the tile of each result.
    pub(crate) results: Vec<Vec<Tile>>,
    /// Per operation the steps of its loops.
    pub(crate) steps: Vec<Steps>,
    /// Per value from memory the part that is read.
    pub(crate) inputs: Vec<Tile>,
}

/// Why tiles cannot be carried: the operation by its place in the group, and the reason.
#[derive(Clone, Debug)]
pub(crate) struct Stuck {
    pub(crate) op: usize,
    /// The operation that asks for something else, if one does.
    pub(crate) by: Option<usize>,
    pub(crate) reason: String,
}

/// Tiles for all operations from those that are given.
///
/// # Errors
/// An operation cannot make what is asked of it, or nothing is asked of it.
pub(crate) fn carry(local: &Local, given: &[Given], grid: &[u64]) -> Result<Carried, Stuck> {
    let mut asked: Vec<Given> = given.to_vec();
    // What is given alone, then what follows for the users of it; then everything again, and what
    // still follows from nothing is made whole.
    let mut rounds = 0;
    loop {
        let mut walk = Walk::new(local, grid);
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
                    reason: "no tile of the group says what part of it a program needs".to_owned(),
                });
            }
        }
        rounds += 1;
    }
}

struct Walk<'a> {
    local: &'a Local,
    grid: &'a [u64],
    results: Vec<Option<Vec<Tile>>>,
    steps: Vec<Option<Steps>>,
    /// What the users of a result need of it, and the last of them.
    needs: Vec<Vec<Option<(Tile, usize)>>>,
    inputs: Vec<Option<Tile>>,
}

impl<'a> Walk<'a> {
    fn new(local: &'a Local, grid: &'a [u64]) -> Walk<'a> {
        let n = local.ops.len();
        let needs = local.ops.iter().map(|op| vec![None; op.leaves.len()]);
        Walk {
            local,
            grid,
            results: vec![None; n],
            steps: vec![None; n],
            needs: needs.collect(),
            inputs: vec![None; local.inputs.len()],
        }
    }

    /// From the last operation to the first: each makes what is given or what its users need.
    fn back(&mut self, given: &[Given]) -> Result<(), Stuck> {
        for at in (0..self.local.ops.len()).rev() {
            let op = &self.local.ops[at];
            let kind = &op.kind;
            let Some(results) = self.asked(at, &given[at])? else {
                continue;
            };
            let shapes: Vec<&[u64]> = kind.results.iter().map(|s| s.dims.as_slice()).collect();
            let reduce = &given[at].reduce;
            let mut results = results;
            let mut steps = kind.access.steps(&results, reduce, &shapes, self.grid);
            if steps.is_err() && given[at].results.is_none() {
                // More than is asked for: what cannot be cut so.
                results = kind.access.around(&results, &shapes, self.grid);
                steps = kind.access.steps(&results, reduce, &shapes, self.grid);
            }
            let steps = steps.map_err(|fault| Stuck {
                op: at,
                by: self.needs[at].iter().flatten().map(|n| n.1).next(),
                reason: fault.to_string(),
            })?;
            for (i, source) in op.operands.iter().enumerate() {
                let shape = &kind.operands[i].dims;
                let region = kind.access.operand(i, &steps, shape, self.grid).tile;
                let region = match given[at].reads.get(i) {
                    Some(Some(block)) => block.union(&region, self.grid),
                    _ => region,
                };
                let (slot, by) = match *source {
                    Source::Inside(from, r) => {
                        let need = &mut self.needs[from][r];
                        let joined = match need.take() {
                            Some((known, _)) => {
                                known.union(&region, self.grid).bounded(shape, self.grid)
                            }
                            None => region,
                        };
                        *need = Some((joined, at));
                        continue;
                    }
                    Source::Outside(id) => (&mut self.inputs[id], region),
                };
                *slot = Some(match slot.take() {
                    Some(known) => known.union(&by, self.grid).bounded(shape, self.grid),
                    None => by,
                });
            }
            self.results[at] = Some(results);
            self.steps[at] = Some(steps);
        }
        Ok(())
    }

    /// The tiles of the results of one operation; none while nothing is known.
    fn asked(&self, at: usize, given: &Given) -> Result<Option<Vec<Tile>>, Stuck> {
        let op = &self.local.ops[at];
        let needs = &self.needs[at];
        if let Some(fixed) = &given.results {
            for (r, need) in needs.iter().enumerate() {
                let Some((tile, by)) = need else { continue };
                let spans = fixed[r].0.iter().zip(&tile.0).zip(&op.kind.results[r].dims);
                let mut spans = spans.map(|((a, b), &n)| a.holds(b, n, self.grid));
                if !spans.all(|held| held) {
                    return Err(Stuck {
                        op: at,
                        by: Some(*by),
                        reason: format!("its tile is {}, but {tile} of it is needed", fixed[r]),
                    });
                }
            }
            return Ok(Some(fixed.clone()));
        }
        if needs.iter().all(Option::is_none) {
            return Ok(None);
        }
        // A result that nothing in the group reads is made whole, and so is one that leaves it along
        // the dimensions that the programs together do not have otherwise.
        let mut results = Vec::with_capacity(needs.len());
        for (r, (need, shape)) in needs.iter().zip(&op.kind.results).enumerate() {
            results.push(match need {
                Some((tile, _)) if op.leaves[r] => covering(tile, &shape.dims, self.grid),
                Some((tile, _)) => tile.clone(),
                None => Tile::whole(&shape.dims),
            });
        }
        Ok(Some(results))
    }

    /// From the first operation to the last: what an operation can make of the tiles of its operands
    /// is given for it, where nothing else is known.
    fn forward(&self, asked: &mut [Given]) {
        let mut known = self.results.clone();
        for (at, op) in self.local.ops.iter().enumerate() {
            if known[at].is_some() {
                continue;
            }
            let kind = &op.kind;
            let found = op.operands.iter().enumerate().find_map(|(i, source)| {
                let Source::Inside(from, r) = *source else {
                    return None;
                };
                let tile = &known[from].as_ref()?[r];
                let shape = &kind.operands[i].dims;
                let steps = kind.access.steps_within(i, tile, shape, self.grid)?;
                let results = kind.results.iter().enumerate();
                let tiles =
                    results.map(|(r, s)| kind.access.result(r, &steps, &s.dims, self.grid).tile);
                Some(tiles.collect::<Vec<Tile>>())
            });
            if let Some(tiles) = found {
                // What others of the group read is asked of it by them.
                if !op.used.iter().any(|&used| used) {
                    let leaving = tiles.iter().zip(&op.leaves).zip(&kind.results);
                    let all = leaving.map(|((tile, &leaves), shape)| {
                        if leaves {
                            covering(tile, &shape.dims, self.grid)
                        } else {
                            tile.clone()
                        }
                    });
                    asked[at].results = Some(all.collect());
                }
                known[at] = Some(tiles);
            }
        }
    }

    /// What nothing in the group reads, and nothing is known of, is made whole.
    fn rest(&self, asked: &mut [Given]) {
        for (at, op) in self.local.ops.iter().enumerate() {
            if self.results[at].is_none() && !op.used.iter().any(|&used| used) {
                let results = op.kind.results.iter().map(|s| Tile::whole(&s.dims));
                asked[at].results = Some(results.collect());
            }
        }
    }

    fn finish(self) -> Result<Carried, Stuck> {
        let missing = |op| Stuck {
            op,
            by: None,
            reason: "nothing is asked of it".to_owned(),
        };
        let mut results = Vec::with_capacity(self.results.len());
        let mut steps = Vec::with_capacity(self.steps.len());
        for (op, (tile, step)) in self.results.into_iter().zip(self.steps).enumerate() {
            results.push(tile.ok_or_else(|| missing(op))?);
            steps.push(step.ok_or_else(|| missing(op))?);
        }
        let inputs = self.inputs.into_iter().zip(&self.local.inputs);
        let inputs = inputs.map(|(tile, shape)| tile.unwrap_or_else(|| Tile::whole(&shape.dims)));
        Ok(Carried {
            results,
            steps,
            inputs: inputs.collect(),
        })
    }
}

/// Whether the tiles of all programs together are all of a value; a `false` may be wrong where two
/// dimensions depend on one axis.
pub(crate) fn covers(tile: &Tile, shape: &[u64], grid: &[u64]) -> bool {
    covering(tile, shape, grid) == *tile
}

/// The tile, but all of a dimension that its programs together do not have, or that depends on an
/// axis on which another one depends.
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
        if axes.iter().any(|&a| seen[a]) || !spans_all(span, size, &axes, grid) {
            *span = Span::whole(size);
            continue;
        }
        axes.iter().for_each(|&a| seen[a] = true);
    }
    out
}

/// Whether the parts of one dimension, over these axes, leave nothing out.
fn spans_all(span: &Span, size: u64, axes: &[usize], grid: &[u64]) -> bool {
    let volume = axes
        .iter()
        .map(|&a| grid[a])
        .fold(1u64, u64::saturating_mul);
    if MAX_STARTS < volume {
        return false;
    }
    let mut index = vec![0i64; grid.len()];
    let mut starts = Vec::new();
    for n in 0..volume {
        let mut rest = n;
        for &a in axes {
            index[a] = i64::try_from(rest % grid[a]).unwrap_or(0);
            rest /= grid[a];
        }
        starts.push(span.start.eval(&index));
    }
    starts.sort_unstable();
    let extent = i64::try_from(span.extent).unwrap_or(i64::MAX);
    let mut end = 0i64;
    for start in starts {
        if end < start {
            return false;
        }
        end = end.max(start.saturating_add(extent));
    }
    i64::try_from(size).unwrap_or(i64::MAX) <= end
}

/// The most tiles of one dimension that are looked at one by one.
const MAX_STARTS: u64 = 1 << 16;
