//! Chooses the grid of one group: which dimensions of its last result and which sums are cut, into blocks
//! of what size, and in which order the programs run.

use crate::tile_propagate::carry::{Carried, Given, carry, covers};
use crate::tile_propagate::local::{Local, Shape, Source, bytes_of};
use optc_ir::tile::block::{Backend, BlockDim, BlockSpec, RankOne};
use optc_ir::tile::{Axis, Expr, Loop, OpTile, Order, Piece, Span, Steps, Tile};
use optc_target::{Blocks, Programs, Target};
use rustc_hash::FxBuildHasher;

type FastMap<K, V> = indexmap::IndexMap<K, V, FxBuildHasher>;

/// What a target says about tiles.
#[derive(Clone, Debug)]
pub(crate) struct Limits {
    /// Bytes on chip.
    pub(crate) memory: u64,
    /// The rules for blocks, if it has some.
    pub(crate) backend: Option<Backend>,
    /// The rows and lanes a tile on chip is padded to.
    pub(crate) padding: (u64, u64),
    /// Whether programs run at the same time and share nothing on chip.
    pub(crate) concurrent: bool,
}

/// Bytes on chip of a target that does not say.
const DEFAULT_MEMORY: u64 = 1 << 20;

impl Limits {
    /// `rank_one`: whether the documented rule for vectors holds in place of the present one.
    pub(crate) fn of(target: &Target, documented: bool) -> Limits {
        let memory = target.memory.iter().rev().find_map(|m| m.bytes);
        let rank_one = if documented {
            RankOne::Documented
        } else {
            RankOne::Current
        };
        let backend = target.blocks.map(|blocks| match blocks {
            Blocks::Tpu => Backend::Tpu(rank_one),
            Blocks::MosaicGpu => Backend::MosaicGpu,
            Blocks::Triton => Backend::Triton,
        });
        let tiles = target.tiles(32, &[1 << 20, 1 << 20]);
        let padding = match tiles.first().map(Vec::as_slice) {
            Some(&[.., rows, lanes]) => (rows, lanes),
            _ => (1, 1),
        };
        Limits {
            memory: memory.unwrap_or(DEFAULT_MEMORY),
            backend,
            padding,
            concurrent: target.programs == Programs::Concurrent,
        }
    }

    /// Whether what one program has on chip may be there for the next step along an axis: programs
    /// that run at the same time share nothing, the steps of a sum are one program.
    fn shares(&self, axis: &Axis) -> bool {
        !self.concurrent || axis.order == Order::Arbitrary
    }

    /// The extent of a block that holds so many elements along a dimension: some targets have blocks of
    /// a power of two alone, which reach over the end.
    fn rounded(&self, extent: u64) -> u64 {
        match self.backend {
            Some(Backend::Triton) => extent.checked_next_power_of_two().unwrap_or(extent),
            _ => extent,
        }
    }

    /// The block that holds all of a value.
    fn whole(&self, shape: &[u64]) -> Tile {
        let span = |&n: &u64| Span::whole(self.rounded(n));
        Tile(shape.iter().map(span).collect())
    }

    /// The bytes of a tile on chip, in the order of dimensions that pads least.
    fn bytes(&self, tile: &Tile, bits: u32) -> u64 {
        let mut dims: Vec<u64> = tile.0.iter().map(|s| s.extent).collect();
        dims.sort_unstable();
        let rank = dims.len();
        if let Some(lanes) = dims.last_mut() {
            *lanes = lanes.next_multiple_of(self.padding.1);
        }
        if 2 <= rank {
            dims[rank - 2] = dims[rank - 2].next_multiple_of(self.padding.0);
        }
        bytes_of(&dims, bits)
    }

    /// Whether a block of a value in memory keeps the target's rules; the reason if not.
    pub(crate) fn legal(&self, tile: &Tile, shape: &[u64], bits: u32) -> Result<(), String> {
        let Some(backend) = self.backend else {
            return Ok(());
        };
        if shape.is_empty() {
            return Ok(());
        }
        let whole = tile.0.iter().zip(shape).all(|(s, &n)| s.is_whole(n));
        let number = |n: u64| i64::try_from(n).unwrap_or(i64::MAX);
        let array: Vec<i64> = shape.iter().map(|&n| number(n)).collect();
        let aligned = |s: &Span| {
            let (step, least) = s.start.steps();
            step % number(s.extent) == 0 && least % number(s.extent) == 0
        };
        let blocked = tile.0.iter().all(aligned);
        let dim = |s: &Span| {
            let size = number(s.extent);
            if blocked {
                BlockDim::Blocked(size)
            } else {
                let lo = s.start.range(&[]).0.min(0).saturating_neg();
                BlockDim::Element { size, lo, hi: 0 }
            }
        };
        if whole && backend != Backend::MosaicGpu && backend != Backend::Triton {
            return Ok(());
        }
        let spec = BlockSpec::new(tile.0.iter().map(dim).collect()).map_err(|e| e.to_string())?;
        backend
            .check(&array, &spec, bits.max(8))
            .map_err(|e| e.to_string())
    }
}

/// What a plan costs.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Cost {
    /// Bytes read from and written to memory.
    pub(crate) bytes: u64,
    /// The most bytes on chip at once.
    pub(crate) footprint: u64,
    /// Programs that may run at the same time.
    pub(crate) parallel: u64,
    /// Steps of all loops of all programs.
    pub(crate) work: u64,
}

/// The plan of one group.
#[derive(Clone, Debug)]
pub(crate) struct LocalPlan {
    pub(crate) axes: Vec<Axis>,
    pub(crate) tiles: Vec<OpTile>,
    pub(crate) cost: Cost,
}

/// One place where a group may be cut.
#[derive(Clone, Debug)]
struct Place {
    op: usize,
    /// The dimension of the first result, or the number of the reduction.
    which: Which,
    /// The number of steps.
    extent: u64,
    /// The sizes of a block that are tried; the last one is all.
    sizes: Vec<u64>,
    /// The operation whose result runs on along the same part: a softmax that the sum reads.
    running: Option<usize>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Which {
    Dim(usize),
    Sum(usize),
}

/// The most combinations of block sizes that are all tried.
const MAX_COMBINATIONS: usize = 64;
/// Rounds of changing one block size at a time.
const ROUNDS: usize = 3;
/// The most sizes of a block that are tried along one dimension.
const MAX_SIZES: usize = 10;
/// The most sums of a group that may be cut.
const MAX_SUMS: usize = 2;
/// A sum of fewer steps is not cut.
const LEAST_SUM: u64 = 256;
/// More programs at the same time than this are no better.
const ENOUGH_PARALLEL: u64 = 256;

/// The most operations of a group whose tiles the others are carried from.
const MAX_ROOTS: usize = 3;

/// The best plan found for a group; none if no block size fits.
///
/// Without `thorough` a plan that moves no more than one program does is taken as it is: while groups grow
/// bytes alone decide.
pub(crate) fn choose(local: &Local, limits: &Limits, thorough: bool) -> Option<LocalPlan> {
    let last = (0..local.ops.len())
        .rev()
        .find(|&at| local.ops[at].leaves.iter().any(|&l| l))?;
    let base = work_untiled(local);
    let mut best: Option<Best> = None;
    let roots = std::iter::once(last).chain(read_in_parts(local).filter(|&at| at != last));
    for root in roots.take(MAX_ROOTS) {
        let found = search(local, limits, root, base);
        let better = |b: &Best| best.as_ref().is_none_or(|known| b.score < known.score);
        best = found.filter(better).or(best);
        let enough = |b: &Best| b.score.fits() && !b.score.wasteful && b.score.bytes <= b.least;
        if !thorough && best.as_ref().is_some_and(enough) {
            break;
        }
    }
    best.filter(|b| b.score.fits()).map(|b| b.plan)
}

/// The operations whose result several others read a part of each, the last first: tiles of what they
/// read may be no boxes of one tile, as of a value that is rolled.
fn read_in_parts(local: &Local) -> impl Iterator<Item = usize> + '_ {
    let mut readers = vec![0usize; local.ops.len()];
    for op in &local.ops {
        let access = &op.kind.access;
        let all = Steps {
            spans: access.loops.iter().map(|l| Span::whole(l.extent)).collect(),
            exact: true,
        };
        for (i, source) in op.operands.iter().enumerate() {
            if let Source::Inside(from, 0) = *source {
                let dims = &op.kind.operands[i].dims;
                let read = access.operand(i, &all, dims, &[]).tile;
                let part = read.0.iter().zip(dims).any(|(s, &n)| !s.is_whole(n));
                readers[from] += usize::from(part);
            }
        }
    }
    (0..readers.len()).rev().filter(move |&at| 1 < readers[at])
}

/// The most operands that are looked at for all block sizes of a group together.
const MAX_LOOKED_AT: usize = 1 << 20;

/// Leaves out block sizes of a group with very many operands.
fn thin(places: &mut [Place], operands: usize) {
    let combinations = |places: &[Place]| {
        let sizes = places.iter().map(|p| p.sizes.len());
        sizes
            .fold(1usize, usize::saturating_mul)
            .min(MAX_COMBINATIONS)
    };
    while MAX_LOOKED_AT < combinations(places).saturating_mul(operands) {
        let Some(most) = places.iter_mut().max_by_key(|p| p.sizes.len()) else {
            return;
        };
        if most.sizes.len() < 3 {
            return;
        }
        // The smallest and the largest stay.
        let last = most.sizes.len() - 1;
        let mut at = 0;
        most.sizes.retain(|_| {
            at += 1;
            at == last + 1 || at % 2 == 1
        });
        if most.sizes.len() == last + 1 {
            return;
        }
    }
}

/// The best plan whose tiles are carried from those of one operation.
fn search(local: &Local, limits: &Limits, root: usize, base: u64) -> Option<Best> {
    let mut places = places(local, root, limits);
    thin(
        &mut places,
        local.ops.iter().map(|op| op.operands.len()).sum(),
    );
    let mut search = Search {
        local,
        limits,
        root,
        places: &places,
        base,
        least: 0,
        best: None,
        known: FastMap::default(),
    };
    let mut sizes: Vec<usize> = places.iter().map(|p| p.sizes.len() - 1).collect();
    if let Some((score, _)) = search.evaluate(&sizes, &[]) {
        search.least = score.bytes;
    }
    let combinations = places
        .iter()
        .map(|p| p.sizes.len())
        .fold(1usize, usize::saturating_mul);
    if combinations <= MAX_COMBINATIONS {
        search.all(&mut sizes, 0);
    } else {
        search.consider(&sizes);
        let fits = search.best.as_ref().is_some_and(|b| b.score.fits());
        search.descend();
        // What is not kept whole may be cut in one place alone: each is tried as the first one.
        let starts = if fits { 0 } else { places.len() };
        for at in 0..starts {
            let before = search.best.take();
            let mut start = sizes.clone();
            start[at] = 0;
            search.consider(&start);
            search.descend();
            if let Some(before) = before
                && search.best.as_ref().is_none_or(|b| before.score <= b.score)
            {
                search.best = Some(before);
            }
        }
    }
    search.best
}

struct Best {
    score: Score,
    /// What one program moves, whether it fits or not.
    least: u64,
    sizes: Vec<usize>,
    plan: LocalPlan,
}

/// Less is better, from the first number on.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct Score {
    excess: u64,
    wasteful: bool,
    bytes: u64,
    serial: std::cmp::Reverse<u64>,
    programs: u64,
    footprint: u64,
}

impl Score {
    fn fits(&self) -> bool {
        self.excess == 0
    }
}

struct Search<'a> {
    local: &'a Local,
    limits: &'a Limits,
    root: usize,
    places: &'a [Place],
    base: u64,
    least: u64,
    best: Option<Best>,
    /// By block sizes that were evaluated: the best score and the order it has; none if no order is carried.
    known: FastMap<Vec<usize>, Option<(Score, Vec<usize>)>>,
}

impl Search<'_> {
    fn all(&mut self, sizes: &mut Vec<usize>, at: usize) {
        if at == self.places.len() {
            self.consider(sizes);
            return;
        }
        for size in (0..self.places[at].sizes.len()).rev() {
            sizes[at] = size;
            self.all(sizes, at + 1);
        }
    }

    /// Changes one block size of the best plan at a time.
    fn descend(&mut self) {
        for _ in 0..ROUNDS {
            let before = self.best.as_ref().map(|b| b.score);
            for at in 0..self.places.len() {
                let Some(mut sizes) = self.best.as_ref().map(|b| b.sizes.clone()) else {
                    return;
                };
                for size in 0..self.places[at].sizes.len() {
                    sizes[at] = size;
                    self.consider(&sizes);
                }
            }
            if self.best.as_ref().map(|b| b.score) == before {
                break;
            }
        }
    }

    /// Evaluates the sizes in every order of the parallel axes that brings another one innermost.
    fn consider(&mut self, sizes: &[usize]) {
        let cut = |(at, &size): (usize, &usize)| {
            let place = &self.places[at];
            (place.sizes[size] < place.extent).then_some(at)
        };
        let cuts: Vec<usize> = sizes.iter().enumerate().filter_map(cut).collect();
        let is_sum = |&at: &usize| matches!(self.places[at].which, Which::Sum(_));
        let (sums, dims): (Vec<usize>, Vec<usize>) = cuts.into_iter().partition(is_sum);
        let better = |best: &Option<Best>, score| best.as_ref().is_none_or(|b| score < b.score);
        if let Some(known) = self.known.get(sizes).cloned() {
            // Walks from several starts meet: the plan is made again only where it is the best.
            if let Some((score, order)) = known
                && better(&self.best, score)
                && let Some((score, plan)) = self.evaluate(sizes, &order)
            {
                self.improve(score, sizes, plan);
            }
            return;
        }
        let mut least: Option<(Score, Vec<usize>)> = None;
        for turn in 0..dims.len().max(1) {
            let mut order = dims.clone();
            order.rotate_left(turn);
            order.extend(&sums);
            let Some((score, plan)) = self.evaluate(sizes, &order) else {
                // Another order cannot be carried either.
                break;
            };
            if better(&self.best, score) {
                self.improve(score, sizes, plan);
            }
            if least.as_ref().is_none_or(|(known, _)| score < *known) {
                least = Some((score, order));
            }
        }
        self.known.insert(sizes.to_vec(), least);
    }

    fn improve(&mut self, score: Score, sizes: &[usize], plan: LocalPlan) {
        self.best = Some(Best {
            score,
            least: self.least,
            sizes: sizes.to_vec(),
            plan,
        });
    }

    fn evaluate(&self, sizes: &[usize], order: &[usize]) -> Option<(Score, LocalPlan)> {
        let mut axes = Vec::with_capacity(order.len());
        let mut given = vec![Given::default(); self.local.ops.len()];
        let root = &self.local.ops[self.root];
        let shapes = root.kind.results.iter();
        let mut results: Vec<Tile> = shapes.map(|s| self.limits.whole(&s.dims)).collect();
        for &at in order {
            let place = &self.places[at];
            let block = place.sizes[sizes[at]];
            let stride = i64::try_from(block).unwrap_or(i64::MAX);
            let span = Span::new(Expr::axis(axes.len()).times(stride), block);
            let order = match place.which {
                Which::Dim(dim) => {
                    // Results of one shape are cut alike.
                    for result in &mut results {
                        result.0[dim] = span.clone();
                    }
                    Order::Parallel
                }
                Which::Sum(which) => {
                    let reduce = &mut given[place.op].reduce;
                    if reduce.is_empty() {
                        let access = &self.local.ops[place.op].kind.access;
                        let all = access.reductions().map(|(_, n, _)| Span::whole(n));
                        reduce.extend(all);
                    }
                    reduce[which] = span.clone();
                    if let Some(from) = place.running {
                        given[from].reduce = vec![span];
                    }
                    Order::Arbitrary
                }
            };
            let extent = place.extent.div_ceil(block);
            axes.push(Axis { extent, order });
        }
        given[self.root].results = Some(vec![results]);
        let grid: Vec<u64> = axes.iter().map(|a| a.extent).collect();
        let carried = carry(self.local, &given, &grid, true);
        let joined = carried.as_ref().map_or(true, |c| c.joined);
        let one = carried.ok().and_then(|c| self.weigh(c, &given, &axes));
        // One program has no parts that could be no boxes.
        if one.is_some() && (!joined || grid.is_empty()) {
            return one;
        }
        let apart = carry(self.local, &given, &grid, false).ok();
        let apart = apart.and_then(|c| self.weigh(c, &given, &axes));
        match (one, apart) {
            (Some(one), Some(apart)) if apart.0 < one.0 => Some(apart),
            (Some(one), _) => Some(one),
            (None, apart) => apart,
        }
    }

    /// What a carried plan costs, if it is one.
    fn weigh(
        &self,
        mut carried: Carried,
        given: &[Given],
        axes: &[Axis],
    ) -> Option<(Score, LocalPlan)> {
        let grid: Vec<u64> = axes.iter().map(|a| a.extent).collect();
        let mut axes = axes.to_vec();
        widen(self.local, &mut carried, &grid, self.limits);
        in_order(self.local, &carried, &mut axes);
        check(self.local, &carried, given, &axes, self.limits).ok()?;
        let cost = cost(self.local, &carried, &axes, self.limits);
        let score = Score {
            excess: cost.footprint.saturating_sub(self.limits.memory),
            // A quarter more work than without tiles is the most that is worth fewer bytes.
            wasteful: self.base.saturating_add(self.base / 4) < cost.work,
            bytes: cost.bytes,
            serial: std::cmp::Reverse(cost.parallel.min(ENOUGH_PARALLEL)),
            programs: grid.iter().fold(1, |a: u64, &n| a.saturating_mul(n)),
            footprint: cost.footprint,
        };
        let tiles = op_tiles(self.local, carried, given.to_vec(), &grid);
        Some((score, LocalPlan { axes, tiles, cost }))
    }
}

/// The tiles of a carried plan as they are written down, in group 0; of an operand the block that is
/// fetched where it is not what the operation by itself needs.
pub(crate) fn op_tiles(
    local: &Local,
    carried: Carried,
    given: Vec<Given>,
    grid: &[u64],
) -> Vec<OpTile> {
    let mut tiles = Vec::with_capacity(local.ops.len());
    let all = carried.results.into_iter().zip(carried.steps).zip(given);
    for (op, ((results, steps), given)) in local.ops.iter().zip(all) {
        let piece = |(results, steps): (Vec<Tile>, Steps)| {
            let read = |(i, source): (usize, &Source)| {
                let Source::Outside(id) = *source else {
                    return None;
                };
                let shape = &op.kind.operands[i].dims;
                let needed = op.kind.access.operand(i, &steps, shape, grid).tile;
                let mut blocks = carried.inputs[id].iter();
                let block = blocks.find(|block| block.holds(&needed, shape, grid))?;
                (*block != needed).then(|| block.clone())
            };
            let mut reads: Vec<Option<Tile>> = op.operands.iter().enumerate().map(read).collect();
            if reads.iter().all(Option::is_none) {
                reads.clear();
            }
            Piece { results, reads }
        };
        let mut pieces = results.into_iter().zip(steps).map(piece);
        let first = pieces.next().unwrap_or_default();
        tiles.push(OpTile {
            group: 0,
            results: first.results,
            reduce: given.reduce,
            reads: first.reads,
            more: pieces.collect(),
        });
    }
    tiles
}

/// Along an axis on which a result that leaves the group does not depend, its programs write the same
/// block: they run one after the other.
fn in_order(local: &Local, carried: &Carried, axes: &mut [Axis]) {
    for (op, pieces) in local.ops.iter().zip(&carried.results) {
        for (r, _) in op.leaves.iter().enumerate().filter(|(_, leaves)| **leaves) {
            for (a, axis) in axes.iter_mut().enumerate() {
                if 1 < axis.extent && !pieces.iter().any(|tiles| tiles[r].depends_on(a)) {
                    axis.order = Order::Arbitrary;
                }
            }
        }
    }
}

/// Where the group may be cut.
fn places(local: &Local, root: usize, limits: &Limits) -> Vec<Place> {
    let mut places = Vec::new();
    let op = &local.ops[root];
    let shape = &op.kind.results[0].dims;
    let alike = op.kind.results.iter().all(|s| s.dims == *shape);
    for (d, &extent) in shape.iter().enumerate().filter(|_| alike) {
        let from_end = shape.len() - d;
        let unit = match from_end {
            1 => limits.padding.1,
            2 => limits.padding.0,
            _ => 1,
        };
        let sizes = block_sizes(extent, unit, limits);
        if 1 < sizes.len() {
            places.push(Place {
                op: root,
                which: Which::Dim(d),
                extent,
                sizes,
                running: None,
            });
        }
    }
    let mut sums = 0;
    for (at, op) in local.ops.iter().enumerate().rev() {
        for (which, (_, extent, _)) in op.kind.access.reductions().enumerate() {
            let sizes = block_sizes(extent, limits.padding.1, limits);
            if LEAST_SUM <= extent && sums < MAX_SUMS && 1 < sizes.len() {
                sums += 1;
                places.push(Place {
                    op: at,
                    which: Which::Sum(which),
                    extent,
                    sizes,
                    running: running(local, at, which),
                });
            }
        }
    }
    places
}

/// The softmax that a sum reads alone, along the axis that it adds up over: it can run on along the
/// parts of the sum.
fn running(local: &Local, at: usize, which: usize) -> Option<usize> {
    let access = &local.ops[at].kind.access;
    let sources = local.ops[at].operands.iter().enumerate();
    sources
        .filter_map(|(i, source)| match *source {
            Source::Inside(from, 0) => Some((i, from)),
            _ => None,
        })
        .find(|&(i, from)| {
            let op = &local.ops[from];
            let reads = |s: &&Source| matches!(**s, Source::Inside(f, _) if f == from);
            let users = local.ops.iter().flat_map(|o| &o.operands);
            let alone = users.filter(reads).count() == 1 && !op.leaves[0];
            let along = op.kind.access.running_dim();
            alone
                && along.is_some_and(|dim| {
                    access.reduction_along(i, dim) == Some(which) && access.kept(i, dim).is_some()
                })
        })
        .map(|(_, from)| from)
}

/// The divisors that are multiples of the unit, and powers of two times the unit; ascending, all of the
/// extent last.
fn block_sizes(extent: u64, unit: u64, limits: &Limits) -> Vec<u64> {
    let mut sizes = Vec::new();
    let mut n = 1u64;
    while n.saturating_mul(n) <= extent && n < MAX_DIVISOR {
        if extent.is_multiple_of(n) {
            sizes.extend([n, extent / n]);
        }
        n += 1;
    }
    sizes.retain(|&b| b.is_multiple_of(unit));
    let mut power = unit.max(1);
    while power < extent {
        sizes.push(power);
        power = power.saturating_mul(2);
    }
    sizes.retain(|&b| b < extent && limits.rounded(b) == b);
    sizes.sort_unstable();
    sizes.dedup();
    // Evenly thinned: the smallest and the largest stay.
    if MAX_SIZES <= sizes.len() {
        let last = sizes.len() - 1;
        let kept = (0..MAX_SIZES - 1).map(|i| sizes[i * last / (MAX_SIZES - 2)]);
        sizes = kept.collect();
    }
    sizes.push(extent);
    sizes
}

/// Divisors above this number and their complements are not looked for.
const MAX_DIVISOR: u64 = 1 << 12;

/// The steps of all loops of a group without tiles.
pub(crate) fn work_untiled(local: &Local) -> u64 {
    let loops = |op: &crate::tile_propagate::local::LocalOp| {
        let extents = op.kind.access.loops.iter().map(|l| l.extent);
        extents.fold(1u64, u64::saturating_mul)
    };
    local.ops.iter().map(loops).fold(0, u64::saturating_add)
}

/// Reads more of a value from memory where the part that is needed is no block that the target takes:
/// the next larger block, then all of its last two dimensions.
pub(crate) fn widen(local: &Local, carried: &mut Carried, grid: &[u64], limits: &Limits) {
    for (parts, shape) in carried.inputs.iter_mut().zip(&local.inputs) {
        let rank = shape.dims.len();
        for tile in parts.iter_mut() {
            for span in &mut tile.0 {
                span.extent = limits.rounded(span.extent);
            }
            for d in (rank.saturating_sub(2)..rank).rev() {
                if limits.legal(tile, &shape.dims, shape.bits).is_err() {
                    tile.0[d] = Span::whole(limits.rounded(shape.dims[d]));
                }
            }
        }
        let mut kept: Vec<Tile> = Vec::with_capacity(parts.len());
        for tile in parts.drain(..) {
            if !kept
                .iter()
                .any(|known| known.holds(&tile, &shape.dims, grid))
            {
                kept.retain(|known| !tile.holds(known, &shape.dims, grid));
                kept.push(tile);
            }
        }
        *parts = kept;
    }
}

/// Whether a carried plan is one: what leaves the group is covered, sums are complete where they are
/// read, and blocks keep the rules. The first operation or input that breaks it, in words.
pub(crate) fn check(
    local: &Local,
    carried: &Carried,
    given: &[Given],
    axes: &[Axis],
    limits: &Limits,
) -> Result<(), (Option<usize>, String)> {
    let grid: Vec<u64> = axes.iter().map(|a| a.extent).collect();
    let mut partial: Vec<Vec<usize>> = Vec::with_capacity(local.ops.len());
    for (at, op) in local.ops.iter().enumerate() {
        let mut sums: Vec<usize> = Vec::new();
        for source in &op.operands {
            if let Source::Inside(from, _) = source {
                sums.extend(&partial[*from]);
            }
        }
        // What runs on is there at every step.
        if op.kind.access.running().is_none() {
            for span in &given[at].reduce {
                span.start.axes(&mut |axis| sums.push(axis));
            }
        }
        sums.sort_unstable();
        sums.dedup();
        let pieces = &carried.results[at];
        if 1 < pieces.len() && (runs_on(local, given, at) || reads_running(local, given, at)) {
            let reason = "it runs on, and several parts of it are wanted".to_owned();
            return Err((Some(at), reason));
        }
        for (r, shape) in op
            .kind
            .results
            .iter()
            .enumerate()
            .filter(|(r, _)| op.leaves[*r])
        {
            let tiles: Vec<&Tile> = pieces.iter().map(|piece| &piece[r]).collect();
            if !covers(&tiles, &shape.dims, &grid) {
                let tiles: Vec<String> = tiles.iter().map(ToString::to_string).collect();
                let tiles = tiles.join(" and ");
                let reason = format!("the tiles {tiles} of its result {r} are not all of it");
                return Err((Some(at), reason));
            }
        }
        for (r, tile) in pieces.iter().flat_map(|piece| piece.iter().enumerate()) {
            if let Some(axis) = sums.iter().find(|&&a| tile.depends_on(a)) {
                let reason =
                    format!("its tile {tile} depends on g{axis}, along which it is added up");
                return Err((Some(at), reason));
            }
            let shape = &op.kind.results[r];
            if !op.leaves[r] || tile.is_outside(&shape.dims, &grid) {
                continue;
            }
            let outside = |(span, &size): (&Span, &u64)| {
                let (low, high) = span.start.range(&grid);
                let number = |n: u64| i64::try_from(n).unwrap_or(i64::MAX);
                low.saturating_add(number(span.extent)) <= 0 || number(size) <= high
            };
            if pieces.len() == 1 && tile.0.iter().zip(&shape.dims).any(outside) {
                let reason = format!("a program's part {tile} of its result {r} holds none of it");
                return Err((Some(at), reason));
            }
            revisits(tile, axes, limits.backend)
                .map_err(|e| (Some(at), format!("result {r} {e}")))?;
            limits
                .legal(tile, &shape.dims, shape.bits)
                .map_err(|e| (Some(at), format!("result {r} in blocks {tile}: {e}")))?;
        }
        partial.push(sums);
    }
    for (tiles, shape) in carried.inputs.iter().zip(&local.inputs) {
        for tile in tiles {
            limits
                .legal(tile, &shape.dims, shape.bits)
                .map_err(|e| (None, format!("a value from memory in blocks {tile}: {e}")))?;
        }
    }
    Ok(())
}

/// Whether the operation runs on along a part of its axis.
fn runs_on(local: &Local, given: &[Given], at: usize) -> bool {
    local.ops[at].kind.access.running().is_some() && !given[at].reduce.is_empty()
}

/// Whether it reads what runs on.
fn reads_running(local: &Local, given: &[Given], at: usize) -> bool {
    let mut sources = local.ops[at].operands.iter();
    sources.any(|s| matches!(*s, Source::Inside(from, _) if runs_on(local, given, from)))
}

/// Whether a block that a program writes is written by others only directly after one another.
fn revisits(tile: &Tile, axes: &[Axis], backend: Option<Backend>) -> Result<(), String> {
    let moves = (0..axes.len()).rev().find(|&a| tile.depends_on(a));
    let again = |a: &usize| 1 < axes[*a].extent && !tile.depends_on(*a);
    let sums = |a: &usize| again(a) && axes[*a].order == Order::Arbitrary;
    // The steps of a sum that an output waits for come after those that move the output.
    if let (Some(moves), Some(early)) = (moves, (0..axes.len()).find(sums))
        && early < moves
    {
        return Err(format!(
            "comes back to a block: g{early} runs outside of g{moves}"
        ));
    }
    let tpu = matches!(backend, Some(Backend::Tpu(_)));
    match (0..axes.len()).find(|a| tpu && again(a)) {
        Some(a) if axes[a].order == Order::Parallel => Err(format!(
            "is written by every step of g{a}, which is parallel, wanted arbitrary"
        )),
        _ => Ok(()),
    }
}

/// How often a tile is brought in or out: each time that it changes while the programs run in order, at
/// least 1; programs that share nothing bring it in each for itself.
fn fetches(tile: &Tile, axes: &[Axis], limits: &Limits) -> u64 {
    let apart = axes.iter().filter(|a| !limits.shares(a));
    let apart = apart.fold(1u64, |n, a| n.saturating_mul(a.extent));
    let shared: Vec<usize> = (0..axes.len())
        .filter(|&a| limits.shares(&axes[a]))
        .collect();
    let Some(last) = shared.iter().rposition(|&a| tile.depends_on(a)) else {
        return apart;
    };
    let outer = shared[..last].iter();
    let outer = outer.fold(apart, |n, &a| n.saturating_mul(axes[a].extent));
    // Along the innermost axis that it depends on, a quotient changes less often than the index.
    let (axis, steps) = (shared[last], axes[shared[last]].extent);
    let every = |s: &Span| s.start.depends_on(axis) && s.start.is_plain();
    if MAX_STEPS < steps || tile.0.iter().any(every) {
        return outer.saturating_mul(steps);
    }
    let mut index = vec![0i64; axes.len()];
    let mut changes = 0u64;
    let mut before: Option<Vec<i64>> = None;
    for step in 0..steps {
        index[axis] = i64::try_from(step).unwrap_or(i64::MAX);
        let starts: Vec<i64> = tile.0.iter().map(|s| s.start.eval(&index)).collect();
        if before.as_ref() != Some(&starts) {
            changes += 1;
            before = Some(starts);
        }
    }
    outer.saturating_mul(changes)
}

/// The most steps along one axis that are looked at one by one.
const MAX_STEPS: u64 = 1 << 12;

/// The bytes that move for a tile: each time that it changes all of it, but never what lies outside
/// of the value.
pub(crate) fn moved(tile: &Tile, shape: &Shape, axes: &[Axis], limits: &Limits) -> u64 {
    let grid: Vec<u64> = axes.iter().map(|a| a.extent).collect();
    let (shape, bits) = (shape.dims.as_slice(), shape.bits);
    let extents = tile.0.iter().zip(shape).map(|(s, &n)| s.extent.min(n));
    let dims: Vec<u64> = extents.collect();
    let times = fetches(tile, axes, limits);
    let mut bytes = u128::from(times) * u128::from(bytes_of(&dims, bits));
    let spans = tile.0.iter().zip(shape).map(|(span, &n)| (span, n));
    for (span, size) in spans {
        if let Some((inside, steps)) = inside(span, size, &grid) {
            bytes = bytes * inside / (u128::from(span.extent.min(size).max(1)) * steps);
        }
    }
    u64::try_from(bytes).unwrap_or(u64::MAX)
}

/// How many elements of a dimension the steps along the one axis that moves a span have together, what
/// is clipped at the ends left out, and the number of steps; none where several axes move it.
fn inside(span: &Span, size: u64, grid: &[u64]) -> Option<(u128, u128)> {
    let mut axes = Vec::new();
    span.start.axes(&mut |a| axes.push(a));
    axes.dedup();
    let (axis, steps) = match axes[..] {
        [] => (None, 1),
        [axis] if grid[axis] <= MAX_STEPS || span.start.is_plain() => (Some(axis), grid[axis]),
        _ => return None,
    };
    let count = match axis {
        None => clipped(span, &[], size),
        Some(axis) if span.start.is_plain() => evenly(span, size, grid, axis),
        Some(axis) => {
            let mut index = vec![0i64; grid.len()];
            let part = |step: u64| {
                index[axis] = i64::try_from(step).unwrap_or(i64::MAX);
                clipped(span, &index, size)
            };
            (0..steps).map(part).fold(0, u128::saturating_add)
        }
    };
    Some((count, u128::from(steps)))
}

/// The elements of a dimension that a span has in one program.
fn clipped(span: &Span, index: &[i64], size: u64) -> u128 {
    let part = span.clipped(index, size);
    u128::from(part.end - part.start)
}

/// The elements that the steps along an axis have together, of a span that starts the same distance
/// further at each: only those at the ends of the dimension are looked at one by one.
fn evenly(span: &Span, size: u64, grid: &[u64], axis: usize) -> u128 {
    let number = |n: u64| i64::try_from(n).unwrap_or(i64::MAX);
    let mut index = vec![0i64; grid.len()];
    let first = span.start.eval(&index);
    index[axis] = 1;
    let distance = span.start.eval(&index).saturating_sub(first);
    let (last, extent, size_i) = (number(grid[axis]) - 1, number(span.extent), number(size));
    let mut sum = |steps: std::ops::RangeInclusive<i64>| {
        let part = |step: i64| {
            index[axis] = step;
            clipped(span, &index, size)
        };
        steps.map(part).fold(0, u128::saturating_add)
    };
    if distance <= 0 {
        return sum(0..=last);
    }
    let floor = |n: i64| n.div_euclid(distance);
    let ceil = |n: i64| n.saturating_neg().div_euclid(distance).saturating_neg();
    // The steps that have something, and those of them that are not clipped.
    let some = floor((-extent).saturating_sub(first)) + 1..=ceil(size_i.saturating_sub(first)) - 1;
    let (start, end) = (*some.start().max(&0), *some.end().min(&last));
    let from = ceil(first.saturating_neg()).max(start);
    let to = floor(size_i.saturating_sub(extent).saturating_sub(first)).min(end);
    if to < from {
        return sum(start..=end);
    }
    let full = u128::from((to - from + 1).unsigned_abs()) * u128::from(span.extent);
    full + sum(start..=from - 1) + sum(to + 1..=end)
}

/// The steps of all loops that the programs of a grid run, those outside of the loops left out.
fn work_of(steps: &Steps, loops: &[Loop], grid: &[u64]) -> u64 {
    let programs = grid.iter().fold(1u64, |a, &n| a.saturating_mul(n));
    let all = steps.spans.iter().map(|s| s.extent);
    let all = all.fold(programs, u64::saturating_mul);
    let mut work = u128::from(all);
    for (span, of) in steps.spans.iter().zip(loops) {
        if let Some((inside, steps)) = inside(span, of.extent, grid) {
            work = work * inside / (u128::from(span.extent.max(1)) * steps);
        }
    }
    u64::try_from(work).unwrap_or(u64::MAX)
}

/// What a carried plan costs.
pub(crate) fn cost(local: &Local, carried: &Carried, axes: &[Axis], limits: &Limits) -> Cost {
    let grid: Vec<u64> = axes.iter().map(|a| a.extent).collect();
    let parallel = axes.iter().filter(|a| a.order == Order::Parallel);
    let mut out = Cost {
        parallel: parallel.fold(1, |n, a| n.saturating_mul(a.extent)),
        ..Cost::default()
    };
    // Two buffers for what changes while a chip runs: the next one is on its way.
    let changes = |tile: &Tile| {
        let moves = |(a, axis): (usize, &Axis)| limits.shares(axis) && tile.depends_on(a);
        axes.iter().enumerate().any(moves)
    };
    let buffers = |tile: &Tile| 1 + u64::from(changes(tile));
    let mut standing = 0u64;
    for (tiles, shape) in carried.inputs.iter().zip(&local.inputs) {
        for tile in tiles {
            let bytes = moved(tile, shape, axes, limits);
            out.bytes = out.bytes.saturating_add(bytes);
            let held = buffers(tile).saturating_mul(limits.bytes(tile, shape.bits));
            standing = standing.saturating_add(held);
        }
    }
    // What the group makes for itself lives until its last use.
    let mut last = vec![0usize; local.ops.len()];
    for (at, op) in local.ops.iter().enumerate() {
        for source in &op.operands {
            if let Source::Inside(from, _) = source {
                last[*from] = at;
                if op.kind.free {
                    last[at] = at;
                }
            }
        }
    }
    for at in (0..local.ops.len()).rev() {
        // A name for an operand keeps the operand.
        if local.ops[at].kind.free
            && let Some(Source::Inside(from, _)) = local.ops[at].operands.first()
        {
            last[*from] = last[*from].max(last[at]);
        }
    }
    let mut ends: Vec<u64> = vec![0; local.ops.len() + 1];
    let (mut live, mut peak) = (0u64, 0u64);
    for (at, op) in local.ops.iter().enumerate() {
        let kind = &op.kind;
        let mut own = 0u64;
        let pieces = carried.results[at].iter().zip(&carried.steps[at]);
        for (tiles, steps) in pieces {
            out.work = out
                .work
                .saturating_add(work_of(steps, &kind.access.loops, &grid));
            for (r, tile) in tiles.iter().enumerate() {
                let shape = &kind.results[r];
                if tile.is_outside(&shape.dims, &grid) {
                    continue;
                }
                let bytes = limits.bytes(tile, shape.bits);
                if op.leaves[r] {
                    let moved = moved(tile, shape, axes, limits);
                    out.bytes = out.bytes.saturating_add(moved);
                    standing = standing.saturating_add(buffers(tile).saturating_mul(bytes));
                } else if !kind.free {
                    own = own.saturating_add(bytes);
                }
                // The greatest and the sum of each row of what runs on stay from program to program.
                if let Some((id, size)) = kind.access.running()
                    && let Some(dim) = kind.access.running_dim()
                    && !steps.spans[id].is_whole(size)
                {
                    let mut rows = tile.clone();
                    rows.0[dim] = Span::whole(1);
                    standing = standing.saturating_add(limits.bytes(&rows, 32).saturating_mul(2));
                }
            }
        }
        live = live.saturating_add(own);
        peak = peak.max(live);
        ends[last[at].max(at)] += own;
        live = live.saturating_sub(ends[at]);
    }
    out.footprint = standing.saturating_add(peak);
    out
}
