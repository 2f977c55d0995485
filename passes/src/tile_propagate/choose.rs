//! Chooses the grid of one group: the dimensions of its last result and the sums that are cut, the block sizes, and the
//! order in which the programs run.
//!
//! Example: for a matmul of 1024 x 1024 x 1024 the candidate places are the two dimensions of the result and the sum. A
//! plan may cut the result into 256 x 256 blocks and the sum into blocks of 512, with the axis of the sum innermost.

use crate::tile_propagate::bound::{lower_bound, whole};
use crate::tile_propagate::carry::{Carried, Given, Stuck, carry};
use crate::tile_propagate::cost::{Cost, bytes_moved, cost, in_turn, work_untiled};
use crate::tile_propagate::legal::{check, check_order, ends, reads_parts, widen};
use crate::tile_propagate::limits::{ENOUGH_PARALLEL, Limits};
use crate::tile_propagate::local::{Local, LocalSource};
use crate::tile_propagate::online::{OnlineCut, online_cut};
use crate::tile_propagate::time::{Amounts, about, is_wasteful, untiled};
use optc_tile::Tiling;
use optc_tile::{Axis, Expr, OpTile, Order, Part, Span, Steps, Tile};
use rustc_hash::FxBuildHasher;
use std::cell::Cell;

type FastMap<K, V> = indexmap::IndexMap<K, V, FxBuildHasher>;

/// The plan of one group.
#[derive(Clone, Debug)]
pub(crate) struct LocalPlan {
    pub(crate) axes: Vec<Axis>,
    pub(crate) tiles: Vec<OpTile>,
    pub(crate) cost: Cost,
}

/// A place where a group may be cut.
#[derive(Clone, Debug)]
struct CutSite {
    op: usize,
    /// The dimension of the first result, or the number of the reduction.
    which: Which,
    /// The number of steps.
    extent: u64,
    /// Block sizes that are tried first, ascending. The last one is the whole extent.
    sizes: Vec<u64>,
    /// More block sizes, ascending, for a group that cannot be kept whole.
    fine: Vec<u64>,
    /// The operation that is computed online along the same part, a softmax that the sum reads, and the other sums that
    /// read it.
    online: Option<OnlineCut>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Which {
    Dim(usize),
    Sum(usize),
}

/// The most combinations of block sizes that are all tried.
const MAX_COMBINATIONS: usize = 64;
/// The same while groups grow.
const MAX_WHILE_GROWING: usize = 16;
/// While groups grow, no more combinations are tried once one of them fits.
const ENOUGH_WHILE_GROWING: usize = 24;
/// While groups grow, a plan is good enough if it takes no longer than the least time and one part of so many.
const NEAR: u64 = 16;
/// The most programs along one dimension that are tried first while groups grow.
const FEW_PROGRAMS: u64 = 16;
/// The most rounds of changing one block size at a time.
const ROUNDS: usize = 3;
/// The most sizes of a block that are tried along one dimension.
const MAX_SIZES: usize = 10;
/// The number of sizes on each side of the best one that are tried at the end.
const REFINED: usize = 3;
/// The most sums of a group that may be cut.
const MAX_SUMS: usize = 2;
/// The most parts that a sum is cut into.
const MOST_PARTS: u64 = 1 << 12;
/// The fewest steps of a sum that is cut.
const LEAST_SUM: u64 = 2;

/// The most operations of a group that tiles are carried from, one after another.
const MAX_ROOTS: usize = 3;

/// The effort of the search for plans, in counts that are the same on every machine.
#[derive(Clone, Debug, Default)]
pub(crate) struct Effort {
    /// The number of combinations of block sizes that were evaluated.
    pub(crate) candidates: Cell<u64>,
    /// The number of dimensions of operands and results whose tiles were carried for them.
    pub(crate) carried: Cell<u64>,
    /// The value of `carried` at which a search ends.
    end: Cell<u64>,
    /// True if a tile would have started at a sum of too many terms, since this was last reset.
    pub(crate) long: Cell<bool>,
}

impl Effort {
    /// Lets the following searches carry this many dimensions together.
    pub(crate) fn allow(&self, dimensions: u64) {
        self.end.set(self.carried.get().saturating_add(dimensions));
    }

    fn is_spent(&self) -> bool {
        self.end.get() <= self.carried.get()
    }

    fn add(&self, carried: u64) {
        self.carried.set(self.carried.get().saturating_add(carried));
    }
}

/// The number of dimensions of a group's operands and results: the effort to carry its tiles once.
fn dimensions(local: &Local) -> u64 {
    let shapes = local
        .ops
        .iter()
        .flat_map(|op| op.kind.operands.iter().chain(&op.kind.results));
    let counts = shapes.map(|shape| shape.dims.len() as u64 + 1);
    counts.fold(0, u64::saturating_add)
}

/// The best plan found for a group; `None` if no block size fits.
///
/// Without `thorough`, a plan that reaches the lower bound of time is taken as it is.
pub(crate) fn choose(
    local: &Local,
    limits: &Limits,
    thorough: bool,
    effort: &Effort,
) -> Option<LocalPlan> {
    let last = (0..local.ops.len())
        .rev()
        .find(|&at| local.ops[at].live_out.iter().any(|&l| l))?;
    let whole = whole(local);
    let bound = lower_bound(local, whole.as_ref().map(|(_, carried)| carried));
    let least = untiled(local, bound);
    let aims = Aims {
        work: work_untiled(local),
        bound,
        least: &least,
        // A plan of equal bytes is found in fewer steps while groups grow, if bytes alone decide.
        enough: match thorough || limits.is_timed() {
            true => limits.enough,
            false => limits.enough.max(ENOUGH_PARALLEL),
        },
        thorough,
    };
    let mut best: Option<(Score, LocalPlan)> = None;
    let roots = std::iter::once(last).chain(read_in_parts(local).filter(|&at| at != last));
    for root in roots.take(MAX_ROOTS) {
        let found = search(local, limits, root, aims, effort);
        let better =
            |(score, _): &(Score, LocalPlan)| best.as_ref().is_none_or(|(known, _)| score < known);
        best = found.filter(better).or(best);
        if best
            .as_ref()
            .is_some_and(|(score, _)| aims.reached(score, limits))
        {
            break;
        }
    }
    best.filter(|(score, _)| score.fits()).map(|(_, plan)| plan)
}

/// The goals of a search.
#[derive(Clone, Copy)]
struct Aims<'a> {
    /// The number of steps without tiles.
    work: u64,
    /// Lower bound of the bytes of every plan.
    bound: u64,
    /// The amounts of a plan that computes nothing twice and moves only these bytes.
    least: &'a Amounts,
    /// A number of parallel programs above which more are no better.
    enough: u64,
    thorough: bool,
}

impl Aims<'_> {
    /// Returns whether the search may stop.
    fn reached(&self, score: &Score, limits: &Limits) -> bool {
        !self.thorough
            && score.fits()
            && score.bytes <= self.bound
            && score.exact <= self.near(limits)
    }

    /// A time that is near enough to the least one while groups grow.
    fn near(&self, limits: &Limits) -> u64 {
        let least = self.time(limits, 1, limits.enough);
        least.saturating_add(least / NEAR)
    }

    /// The least time of this many programs, so many of them at a time.
    fn time(&self, limits: &Limits, programs: u64, parallel: u64) -> u64 {
        let mut least = self.least.clone();
        (least.programs, least.parallel) = (programs, parallel);
        let ends = least.time(limits);
        // Everything may overlap.
        limits.deciding(ends.overlapped(limits, programs))
    }
}

/// The operations of whose result several others each read a part, the last one first. Tiles of what they read may not
/// be boxes of one tile, for example of a rolled value.
fn read_in_parts(local: &Local) -> impl Iterator<Item = usize> + '_ {
    let mut readers = vec![0usize; local.ops.len()];
    for op in &local.ops {
        let domain = &op.kind.domain;
        let all = Steps {
            spans: domain.loops.iter().map(|l| Span::whole(l.extent)).collect(),
            exact: true,
        };
        for (i, source) in op.operands.iter().enumerate() {
            if let LocalSource::Inside(from, 0) = *source {
                let dims = &op.kind.operands[i].dims;
                let read = domain.operand(i, &all, dims, &[]).tile;
                let part = read.0.iter().zip(dims).any(|(s, &n)| !s.is_whole(n));
                readers[from] += usize::from(part);
            }
        }
    }
    (0..readers.len()).rev().filter(move |&at| 1 < readers[at])
}

/// The most operands that are looked at, over all combinations of a group's block sizes.
const MAX_LOOKED_AT: usize = 1 << 20;

/// Drops block sizes of a group with very many operands.
fn thin(places: &mut [CutSite], operands: usize) {
    let combinations = |places: &[CutSite]| {
        let sizes = places.iter().map(|p| p.sizes.len());
        sizes
            .fold(1usize, usize::saturating_mul)
            .min(MAX_COMBINATIONS)
    };
    if MAX_LOOKED_AT < operands.saturating_mul(MAX_COMBINATIONS) {
        places.iter_mut().for_each(|p| p.fine.clear());
    }
    while MAX_LOOKED_AT < combinations(places).saturating_mul(operands) {
        let Some(most) = places.iter_mut().max_by_key(|p| p.sizes.len()) else {
            return;
        };
        if most.sizes.len() < 3 {
            return;
        }
        // The smallest and the largest size stay.
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

/// The best plan with tiles carried from those of one operation.
fn search(
    local: &Local,
    limits: &Limits,
    root: usize,
    aims: Aims<'_>,
    effort: &Effort,
) -> Option<(Score, LocalPlan)> {
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
        aims,
        effort,
        dimensions: dimensions(local),
        short: false,
        here: None,
        best: None,
        known: FastMap::default(),
    };
    search.run();
    let best = search.best.as_ref()?;
    let plan = search.plan(best)?;
    Some((best.score, plan))
}

/// The score of a plan. Less is better, compared from the first number on.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct Score {
    /// Bytes on chip that are missing.
    excess: u64,
    /// True if it does more work than the target allows.
    wasteful: bool,
    /// True if a single program moves more than the target allows.
    alone: bool,
    /// The modelled time, without digits that do not count.
    time: u64,
    bytes: u64,
    /// The modelled time.
    exact: u64,
    serial: std::cmp::Reverse<u64>,
    programs: u64,
    footprint: u64,
}

impl Score {
    fn fits(&self) -> bool {
        self.excess == 0 && !self.wasteful && !self.alone
    }
}

/// An evaluated combination of block sizes.
#[derive(Clone, Debug)]
struct Tried {
    score: Score,
    sizes: Vec<u64>,
    /// The places that are cut, in the order of their axes.
    order: Vec<usize>,
    /// True if adjacent parts are joined.
    beside: bool,
}

struct Search<'a> {
    local: &'a Local,
    limits: &'a Limits,
    root: usize,
    places: &'a [CutSite],
    aims: Aims<'a>,
    effort: &'a Effort,
    /// The number of dimensions that one evaluation carries.
    dimensions: u64,
    /// True if a short search is enough: the group fits in one program, and groups still grow.
    short: bool,
    /// The best combination of the current walk.
    here: Option<Tried>,
    best: Option<Tried>,
    /// Results by block sizes; `None` if tiles cannot be carried.
    known: FastMap<Vec<u64>, Option<Tried>>,
}

impl Search<'_> {
    fn run(&mut self) {
        let whole: Vec<u64> = self.places.iter().map(|p| p.extent).collect();
        self.consider(&whole);
        if self.reached() {
            return;
        }
        let fits = self.best.as_ref().is_some_and(|b| b.score.fits());
        if !self.aims.thorough && self.limits.is_timed() {
            self.seed(&whole);
            if self.reached() {
                return;
            }
        }
        let combinations = self.places.iter().map(|p| p.sizes.len());
        let combinations = combinations.fold(1usize, usize::saturating_mul);
        self.short = fits && !self.aims.thorough && self.limits.is_timed();
        let most = match self.short {
            true => MAX_WHILE_GROWING,
            false => MAX_COMBINATIONS,
        };
        if combinations <= most {
            self.all(&mut whole.clone(), 0);
        } else {
            self.descend(!fits);
            // A group that does not fit whole may need a cut in one place alone: each place is tried as the first one.
            let starts = if fits { 0 } else { self.places.len() };
            for at in 0..starts {
                if self.reached() {
                    break;
                }
                let mut start = whole.clone();
                start[at] = self.places[at].sizes[0];
                self.here = None;
                self.consider(&start);
                self.descend(true);
            }
        }
        if !fits {
            self.here = self.best.clone();
            self.refine();
        }
    }

    /// Tries one cut into a few programs in each place. That is often enough while groups grow.
    fn seed(&mut self, whole: &[u64]) {
        let places = self.places;
        for (at, place) in places.iter().enumerate() {
            let steps = |size: &&u64| place.extent.div_ceil(**size) <= FEW_PROGRAMS;
            let Some(&size) = place.sizes.iter().find(steps) else {
                continue;
            };
            let mut sizes = whole.to_vec();
            sizes[at] = size;
            self.consider(&sizes);
            if self.reached() {
                return;
            }
        }
    }

    /// Returns whether the search may stop.
    fn reached(&self) -> bool {
        self.best
            .as_ref()
            .is_some_and(|b| self.aims.reached(&b.score, self.limits))
    }

    fn all(&mut self, sizes: &mut Vec<u64>, at: usize) {
        let places = self.places;
        let Some(place) = places.get(at) else {
            self.consider(sizes);
            return;
        };
        for &size in place.sizes.iter().rev() {
            if self.reached() {
                return;
            }
            sizes[at] = size;
            self.all(sizes, at + 1);
        }
    }

    /// Changes one block size of the walk's best plan at a time. With `trade` it also trades one size for another.
    fn descend(&mut self, trade: bool) {
        let places = self.places;
        self.rounds(|search| {
            for (at, place) in places.iter().enumerate() {
                let Some(mut sizes) = search.here.as_ref().map(|b| b.sizes.clone()) else {
                    return;
                };
                for &size in &place.sizes {
                    sizes[at] = size;
                    search.consider(&sizes);
                    if search.reached() {
                        return;
                    }
                }
            }
            if trade && !search.reached() {
                search.trade(|place| &place.sizes, 1);
            }
        });
    }

    /// Changes block sizes of the walk's best plan by small amounts.
    fn refine(&mut self) {
        let places = self.places;
        self.rounds(|search| {
            for (at, place) in places.iter().enumerate() {
                for larger in [false, true] {
                    let Some(mut sizes) = search.here.as_ref().map(|b| b.sizes.clone()) else {
                        return;
                    };
                    for _ in 0..REFINED {
                        let Some(next) = beside(&place.fine, sizes[at], larger) else {
                            break;
                        };
                        sizes[at] = next;
                        search.consider(&sizes);
                    }
                }
            }
            search.trade(|place| &place.sizes, MAX_SIZES);
            search.trade(|place| &place.fine, REFINED);
        });
    }

    /// Repeats `round` while the best of the walk improves, at most [`ROUNDS`] times.
    fn rounds(&mut self, mut round: impl FnMut(&mut Self)) {
        let rounds = if self.short { 1 } else { ROUNDS };
        for _ in 0..rounds {
            let before = self.here.as_ref().map(|b| b.score);
            round(self);
            if self.reached() || self.here.as_ref().map(|b| b.score) == before {
                return;
            }
        }
    }

    /// Makes the block larger in one place, by up to `far` sizes, and smaller in another as far as needed. If the
    /// memory on chip is full, a change of one size alone leads nowhere.
    fn trade(&mut self, list: impl Fn(&CutSite) -> &[u64], far: usize) {
        let places = self.places;
        for (a, larger) in places.iter().enumerate() {
            for (b, smaller) in places.iter().enumerate().filter(|&(b, _)| b != a) {
                let Some(mut sizes) = self.here.as_ref().map(|b| b.sizes.clone()) else {
                    return;
                };
                'larger: for _ in 0..far {
                    let Some(size) = beside(list(larger), sizes[a], true) else {
                        break;
                    };
                    sizes[a] = size;
                    loop {
                        self.consider(&sizes);
                        let known = self.known.get(&sizes).and_then(Option::as_ref);
                        if known.is_none_or(|tried| tried.score.fits()) {
                            break;
                        }
                        match beside(list(smaller), sizes[b], false) {
                            Some(size) => sizes[b] = size,
                            None => break 'larger,
                        }
                    }
                }
            }
        }
    }

    /// Evaluates the sizes, if they may be better than the best of the walk.
    fn consider(&mut self, sizes: &[u64]) {
        let better = |best: &Option<Tried>, score: Score| {
            best.as_ref().is_none_or(|known| score < known.score)
        };
        let found = match self.known.get(sizes) {
            Some(known) => known.clone(),
            None if !better(&self.here, self.at_best(sizes)) => return,
            None if self.spent() => return,
            None => {
                let found = self.evaluate(sizes);
                self.known.insert(sizes.to_vec(), found.clone());
                found
            }
        };
        let Some(found) = found else { return };
        if better(&self.best, found.score) {
            self.best = Some(found.clone());
        }
        if better(&self.here, found.score) {
            self.here = Some(found);
        }
    }

    /// Returns whether no more block sizes are evaluated. At least one result is found first.
    fn spent(&self) -> bool {
        let enough = self.short && ENOUGH_WHILE_GROWING <= self.known.len();
        let fits = self.best.as_ref().is_some_and(|b| b.score.fits());
        self.best.is_some() && self.effort.is_spent() || enough && fits
    }

    /// The best score that a plan with these block sizes could have.
    fn at_best(&self, sizes: &[u64]) -> Score {
        let extents = self.places.iter().zip(sizes);
        let mut parallel = 1u64;
        let mut programs = 1u64;
        for (place, &size) in extents {
            let steps = place.extent.div_ceil(size);
            programs = programs.saturating_mul(steps);
            if matches!(place.which, Which::Dim(_)) {
                parallel = parallel.saturating_mul(steps);
            }
        }
        let exact = self.aims.time(self.limits, programs, parallel);
        Score {
            excess: 0,
            wasteful: false,
            alone: false,
            time: about(exact),
            bytes: self.aims.bound,
            exact,
            serial: std::cmp::Reverse(parallel.min(self.aims.enough)),
            programs,
            footprint: 0,
        }
    }

    /// The axes that cut these places into blocks of these sizes, and the given tiles.
    fn lay(&self, sizes: &[u64], order: &[usize]) -> (Vec<Axis>, Vec<Given>) {
        let mut axes = Vec::with_capacity(order.len());
        let mut given = vec![Given::default(); self.local.ops.len()];
        let root = &self.local.ops[self.root];
        let shapes = root.kind.results.iter();
        let mut results: Vec<Tile> = shapes.map(|s| self.limits.whole(&s.dims)).collect();
        for &at in order {
            let place = &self.places[at];
            let block = sizes[at];
            let stride = i64::try_from(block).unwrap_or(i64::MAX);
            let span = Span::new(Expr::axis(axes.len()).times(stride), block);
            let order = match place.which {
                Which::Dim(dim) => {
                    // Results of one shape are cut in the same way.
                    for result in &mut results {
                        result.0[dim] = span.clone();
                    }
                    Order::Parallel
                }
                Which::Sum(which) => {
                    let others = place.online.iter().flat_map(|cut| cut.sums.iter().copied());
                    for (op, which) in std::iter::once((place.op, which)).chain(others) {
                        let reduce = &mut given[op].reduce;
                        if reduce.is_empty() {
                            let domain = &self.local.ops[op].kind.domain;
                            reduce.extend(domain.reductions().map(|(_, n, _)| Span::whole(n)));
                        }
                        reduce[which] = span.clone();
                    }
                    if let Some(cut) = &place.online {
                        given[cut.op].reduce = vec![span];
                    }
                    Order::Arbitrary
                }
            };
            let extent = place.extent.div_ceil(block);
            axes.push(Axis { extent, order });
        }
        given[self.root].results = Some(vec![results]);
        (axes, given)
    }

    /// The score of block sizes, in the best order of the parallel axes. The orders are rotations, so that each axis is
    /// innermost once.
    fn evaluate(&self, sizes: &[u64]) -> Option<Tried> {
        let cut = |(at, &size): (usize, &u64)| (size < self.places[at].extent).then_some(at);
        let cuts: Vec<usize> = sizes.iter().enumerate().filter_map(cut).collect();
        let is_sum = |&at: &usize| matches!(self.places[at].which, Which::Sum(_));
        let (sums, dims): (Vec<usize>, Vec<usize>) = cuts.into_iter().partition(is_sum);
        let order: Vec<usize> = dims.iter().chain(&sums).copied().collect();
        let (axes, given) = self.lay(sizes, &order);
        let grid: Vec<u64> = axes.iter().map(|a| a.extent).collect();
        let tried = |beside: bool, (score, run): (Score, Vec<usize>)| Tried {
            score,
            sizes: sizes.to_vec(),
            order: run.into_iter().map(|axis| order[axis]).collect(),
            beside,
        };
        self.effort
            .candidates
            .set(self.effort.candidates.get().saturating_add(1));
        let carried = self.carry(&given, &grid, true);
        let joined = carried.as_ref().map_or(true, |c| c.joined);
        let one = carried.ok();
        let one = one.and_then(|c| self.weigh(c, &given, &axes, dims.len()));
        let one = one.map(|found| tried(true, found));
        // A single program has no parts that might not be boxes. If the bound of bytes is reached, separate parts
        // cannot move less.
        let least = |one: &Tried| one.score.fits() && one.score.bytes <= self.aims.bound;
        if let Some(one) = &one
            && (!joined || grid.is_empty() || least(one))
        {
            return Some(one.clone());
        }
        let apart = self.carry(&given, &grid, false).ok();
        let apart = apart.and_then(|c| self.weigh(c, &given, &axes, dims.len()));
        let apart = apart.map(|found| tried(false, found));
        match (one, apart) {
            (Some(one), Some(apart)) if apart.score < one.score => Some(apart),
            (Some(one), _) => Some(one),
            (None, apart) => apart,
        }
    }

    fn carry(&self, given: &[Given], grid: &[u64], beside: bool) -> Result<Carried, Stuck> {
        self.effort.add(self.dimensions);
        let carried = carry(self.local, given, grid, beside);
        if carried.as_ref().is_err_and(|stuck| stuck.long) {
            self.effort.long.set(true);
        }
        carried
    }

    /// The score of a carried plan, if it is legal, and the order of axes with that score, the outermost first. The
    /// first `dims` axes, along which no sum runs, are rotated.
    fn weigh(
        &self,
        mut carried: Carried,
        given: &[Given],
        axes: &[Axis],
        dims: usize,
    ) -> Option<(Score, Vec<usize>)> {
        let (local, limits) = (self.local, self.limits);
        let grid: Vec<u64> = axes.iter().map(|a| a.extent).collect();
        let mut axes = axes.to_vec();
        // A group that grows may cut vectors where the final one does not.
        if self.aims.thorough && !reads_parts(local, &carried, limits) {
            return None;
        }
        widen(local, &mut carried, &grid, limits);
        in_order(local, &carried, &mut axes);
        check(local, &carried, given, &axes, limits).ok()?;
        let mut run = in_turn(&axes);
        let mut best: Option<(u64, Vec<usize>)> = None;
        for _ in 0..dims.max(1) {
            if check_order(local, &carried, given, &axes, &run, limits).is_ok() {
                let bytes = bytes_moved(local, &carried, &axes, &run, limits);
                if best.as_ref().is_none_or(|(least, _)| bytes < *least) {
                    best = Some((bytes, run.clone()));
                }
            }
            run[..dims].rotate_left(dims.min(1));
        }
        let (_, run) = best?;
        let ends = ends(local, given, &grid);
        let cost = cost(local, &carried, (&axes, &run), &ends, limits);
        Some((self.score(&cost, &grid), run))
    }

    fn score(&self, cost: &Cost, grid: &[u64]) -> Score {
        let time = self.limits.deciding(cost.time.total);
        let programs = grid.iter().fold(1, |a: u64, &n| a.saturating_mul(n));
        Score {
            excess: cost.footprint.saturating_sub(self.limits.memory),
            wasteful: is_wasteful(
                self.local,
                (cost.work, cost.operations),
                (self.aims.work, self.aims.least.operations),
                self.limits,
            ),
            time: about(time),
            alone: !self.limits.shares_out(programs, cost.bytes),
            bytes: cost.bytes,
            exact: time,
            serial: std::cmp::Reverse(cost.parallel.min(self.aims.enough)),
            programs,
            footprint: cost.footprint,
        }
    }

    /// The plan with block sizes that were evaluated.
    fn plan(&self, tried: &Tried) -> Option<LocalPlan> {
        let (local, limits) = (self.local, self.limits);
        let (mut axes, given) = self.lay(&tried.sizes, &tried.order);
        let grid: Vec<u64> = axes.iter().map(|a| a.extent).collect();
        let mut carried = carry(local, &given, &grid, tried.beside).ok()?;
        widen(local, &mut carried, &grid, limits);
        in_order(local, &carried, &mut axes);
        let ends = ends(local, &given, &grid);
        let cost = cost(local, &carried, (&axes, &in_turn(&axes)), &ends, limits);
        debug_assert_eq!(self.score(&cost, &grid), tried.score, "axes of other names");
        let tiles = op_tiles(local, carried, given, &grid);
        Some(LocalPlan { axes, tiles, cost })
    }
}

/// The tiles of a carried plan in written form, in group 0. For an operand, the fetched block is included where it
/// differs from the operation's own need.
pub(crate) fn op_tiles(
    local: &Local,
    carried: Carried,
    given: Vec<Given>,
    grid: &[u64],
) -> Vec<OpTile> {
    let mut tiles = Vec::with_capacity(local.ops.len());
    let all = carried.results.into_iter().zip(carried.steps).zip(given);
    for (op, ((results, steps), given)) in local.ops.iter().zip(all) {
        let part = |(results, steps): (Vec<Tile>, Steps)| {
            let read = |(i, source): (usize, &LocalSource)| {
                let LocalSource::Outside(id) = *source else {
                    return None;
                };
                let shape = &op.kind.operands[i].dims;
                let needed = op.kind.domain.operand(i, &steps, shape, grid).tile;
                let mut blocks = carried.inputs[id].iter();
                let block = blocks.find(|block| block.holds(&needed, shape, grid))?;
                (*block != needed).then(|| block.clone())
            };
            let mut reads: Vec<Option<Tile>> = op.operands.iter().enumerate().map(read).collect();
            if reads.iter().all(Option::is_none) {
                reads.clear();
            }
            Part { results, reads }
        };
        let mut parts = results.into_iter().zip(steps).map(part);
        let first = parts.next().unwrap_or_default();
        tiles.push(OpTile {
            group: 0,
            results: first.results,
            reduce: given.reduce,
            reads: first.reads,
            more: parts.collect(),
        });
    }
    tiles
}

/// Marks axes as sequential along which programs write the same block: axes on which a result that leaves the group
/// does not depend.
fn in_order(local: &Local, carried: &Carried, axes: &mut [Axis]) {
    for (op, pieces) in local.ops.iter().zip(&carried.results) {
        for (r, _) in op
            .live_out
            .iter()
            .enumerate()
            .filter(|(_, leaves)| **leaves)
        {
            for (a, axis) in axes.iter_mut().enumerate() {
                if 1 < axis.extent && !pieces.iter().any(|tiles| tiles[r].depends_on(a)) {
                    axis.order = Order::Arbitrary;
                }
            }
        }
    }
}

/// The places where the group may be cut.
fn places(local: &Local, root: usize, limits: &Limits) -> Vec<CutSite> {
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
        let (sizes, fine) = block_sizes(extent, unit, limits);
        if 1 < sizes.len() {
            places.push(CutSite {
                op: root,
                which: Which::Dim(d),
                extent,
                sizes,
                fine,
                online: None,
            });
        }
    }
    let mut sums = 0;
    for (at, op) in local.ops.iter().enumerate().rev() {
        for (which, (_, extent, _)) in op.kind.domain.reductions().enumerate() {
            let (mut sizes, mut fine) = block_sizes(extent, limits.padding.1, limits);
            for list in [&mut sizes, &mut fine] {
                list.retain(|&size| extent.div_ceil(size) <= MOST_PARTS);
            }
            let known = |place: &CutSite| {
                let mut cuts = place.online.iter().flat_map(|cut| &cut.sums);
                cuts.any(|&sum| sum == (at, which))
            };
            let joined = places.iter().any(known);
            if LEAST_SUM <= extent && sums < MAX_SUMS && 1 < sizes.len() && !joined {
                sums += 1;
                places.push(CutSite {
                    op: at,
                    which: Which::Sum(which),
                    extent,
                    sizes,
                    fine,
                    online: online_cut(local, (at, which)),
                });
            }
        }
    }
    places
}

/// Block sizes, ascending, in two lists.
///
/// The first has the divisors of the extent that are multiples of the unit, and powers of two times the unit, evenly
/// thinned, with the whole extent last. The second has all of them, and for each small number of steps the smallest
/// block that needs no more steps.
fn block_sizes(extent: u64, unit: u64, limits: &Limits) -> (Vec<u64>, Vec<u64>) {
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
    let tidy = |sizes: &mut Vec<u64>| {
        sizes.retain(|&b| b < extent && limits.rounded(b) == b);
        sizes.sort_unstable();
        sizes.dedup();
    };
    tidy(&mut sizes);
    let mut fine = sizes.clone();
    fine.extend((2..MAX_FINE).map(|n| extent.div_ceil(n).next_multiple_of(unit.max(1))));
    tidy(&mut fine);
    fine.push(extent);
    // The smallest and the largest size stay.
    if MAX_SIZES <= sizes.len() {
        let last = sizes.len() - 1;
        let kept = (0..MAX_SIZES - 1).map(|i| sizes[i * last / (MAX_SIZES - 2)]);
        sizes = kept.collect();
    }
    sizes.push(extent);
    (sizes, fine)
}

/// The next larger or smaller size in an ascending list.
fn beside(sizes: &[u64], size: u64, larger: bool) -> Option<u64> {
    match larger {
        true => sizes.iter().copied().find(|&s| size < s),
        false => sizes.iter().rev().copied().find(|&s| s < size),
    }
}

/// Numbers of steps along a dimension below this limit have a block size of their own.
const MAX_FINE: u64 = 33;

/// Divisors are searched below this number, with their complements.
const MAX_DIVISOR: u64 = 1 << 12;
