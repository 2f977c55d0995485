//! Grows groups over the operations in order. An operation joins the groups that make its operands if the resulting
//! group fits, does not exceed the work that the target allows, and takes less time than its parts.
//!
//! Example: a relu joins the group of the matmul that it reads: the matmul's result then needs no memory.

use crate::tile_propagate::choose::{Effort, LocalPlan, choose};
use crate::tile_propagate::cost::Cost;
use crate::tile_propagate::limits::Limits;
use crate::tile_propagate::local::{Kinds, Local, Uses};
use optc_ir::Func;
use rustc_hash::FxBuildHasher;
use std::rc::Rc;

type FastMap<K, V> = indexmap::IndexMap<K, V, FxBuildHasher>;

/// The most operations of a group once the effort for larger groups is spent. Only programs of many thousand operations
/// that are all different spend it.
const MAX_OPS: usize = 48;
/// The dimensions that may be carried for groups of any size: so many, and so many more for each operation of the
/// program.
const LARGE: u64 = 1 << 23;
const LARGE_PER_OP: u64 = 1 << 9;
/// The most dimensions of operands and results whose tiles are carried to place one operation, and to join groups with
/// one. The largest exported models need two thirds of this.
const MAX_CARRIED: u64 = 1 << 20;
/// The most of these dimensions for each operation of a group in its final, thorough planning.
const MAX_SETTLED: u64 = 1 << 15;
/// The most groups that are joined with one group at the end.
const MAX_MERGES: usize = 4;
/// The most groups that are tried one by one as partners of their reader.
const MAX_TRIES: usize = 16;
/// The number of refusals after which a group is not tried again: a split of thousands has as many readers.
const MAX_REFUSED: u32 = 64;
/// The most operations that are visited to see whether a group would depend on itself.
const MAX_VISITS: usize = 512;

/// The rounds in which operations move between neighbours, and the groups that one group is tried with.
const SHIFTS: usize = 2;
const MAX_SHIFTED: usize = 2;
/// The part of a time that may be added for what does not overlap, if bytes become fewer: one in so many.
const SLACK: u64 = 16;

/// A group: positions in the body, ascending, and its plan.
pub(crate) struct Grown {
    pub(crate) places: Vec<usize>,
    pub(crate) plan: Rc<LocalPlan>,
    /// True if the first operation was refused by the groups that it reads because tiles would start at sums of too
    /// many terms.
    pub(crate) apart: bool,
}

/// The plan of a group, if it has one; `long` if tiles would start at sums of too many terms.
#[derive(Clone)]
struct Planned {
    plan: Option<Rc<LocalPlan>>,
    long: bool,
}

/// The thorough plans of groups, by their spellings.
type Settled = FastMap<Vec<u32>, Option<Rc<LocalPlan>>>;

/// The sums of what parts of a group cost by themselves.
#[derive(Default)]
struct Apart {
    time: u64,
    roofline: u64,
    bytes: u64,
}

impl Apart {
    fn add(&mut self, cost: &Cost, limits: &Limits) {
        let times = [cost.time.total, cost.time.roofline].map(|time| limits.deciding(time));
        self.time = self.time.saturating_add(times[0]);
        self.roofline = self.roofline.saturating_add(times[1]);
        self.bytes = self.bytes.saturating_add(cost.bytes);
    }

    /// Returns whether other parts are better: by the roofline they take no more time, and they move fewer bytes or take
    /// less time. The ends of a group, with which nothing overlaps, may take a little longer.
    fn is_worse(&self, other: &Apart) -> bool {
        other.roofline <= self.roofline
            && other.time <= self.time.saturating_add(self.time / SLACK)
            && (other.bytes < self.bytes || other.time < self.time)
    }
}

/// Grows groups. Each distinct spelling of a group is planned once.
pub(crate) struct Grow<'a> {
    func: &'a Func,
    kinds: &'a Kinds,
    uses: &'a Uses,
    limits: &'a Limits,
    /// The group of each operation of the body.
    of: Vec<Option<usize>>,
    groups: Vec<Option<Grown>>,
    /// For each group, how many times it was planned together with others in vain, and the effort of that.
    refused: Vec<(u32, u64)>,
    known: FastMap<Vec<u32>, Planned>,
    /// Operations that were refused because tiles would start at sums of too many terms.
    long: Vec<bool>,
    /// The effort at which groups stop to grow beyond [`MAX_OPS`]. Where bytes decide they do not: each larger group moves
    /// fewer bytes.
    large: u64,
    pub(crate) effort: Effort,
}

impl<'a> Grow<'a> {
    pub(crate) fn new(
        func: &'a Func,
        kinds: &'a Kinds,
        uses: &'a Uses,
        limits: &'a Limits,
    ) -> Grow<'a> {
        Grow {
            func,
            kinds,
            uses,
            limits,
            of: vec![None; func.body.len()],
            groups: Vec::new(),
            refused: Vec::new(),
            known: FastMap::default(),
            long: vec![false; func.body.len()],
            large: match limits.is_timed() {
                true => LARGE_PER_OP
                    .saturating_mul(func.body.len() as u64)
                    .saturating_add(LARGE),
                false => 0,
            },
            effort: Effort::default(),
        }
    }

    /// The groups in the order of their first operations. Operations in `taken` are left alone.
    pub(crate) fn run(&mut self, taken: &[bool]) -> Vec<Grown> {
        for (at, &taken) in taken.iter().enumerate() {
            if self.kinds.of[at].fits && !taken {
                self.effort.allow(MAX_CARRIED);
                self.place(at);
            }
        }
        // Two groups may gain where one operation by itself does not. Example: a softmax is cut only together with the
        // product that reads it; it then can join the product that it reads.
        for id in 0..self.groups.len() {
            self.effort.allow(MAX_CARRIED);
            self.merge(id);
        }
        for _ in 0..SHIFTS {
            for id in 0..self.groups.len() {
                self.effort.allow(MAX_CARRIED);
                self.shift(id);
            }
        }
        let mut known = FastMap::default();
        for id in 0..self.groups.len() {
            self.settle(id, &mut known);
            if self.limits.reads_row_major() {
                self.trim(id, &mut known);
            }
        }
        let mut groups: Vec<Grown> = std::mem::take(&mut self.groups)
            .into_iter()
            .flatten()
            .filter(|group| self.computes(group))
            .collect();
        groups.sort_by_key(|g| g.places[0]);
        for group in &mut groups {
            group.apart = self.long[group.places[0]];
        }
        groups
    }

    /// Returns whether a group is worth a kernel. Kernels over row-major arrays that only convert and rearrange would copy:
    /// the compiler around them chooses the layouts of arrays.
    fn computes(&self, group: &Grown) -> bool {
        let mut kinds = group.places.iter().map(|&at| &self.kinds.of[at]);
        !self.limits.reads_row_major() || kinds.any(|kind| !kind.converts && !kind.rearranges)
    }

    /// Joins a group with the groups that it reads, one after the other, while that moves fewer bytes.
    fn merge(&mut self, id: usize) {
        let mut id = id;
        for _ in 0..MAX_MERGES {
            let Some(group) = self.groups[id].as_ref() else {
                return;
            };
            let places = group.places.clone();
            let mut makers: Vec<usize> = Vec::new();
            for &at in &places {
                makers.extend(
                    self.makers(at)
                        .filter_map(|m| self.of[m])
                        .filter(|&g| g != id),
                );
            }
            makers.sort_unstable();
            makers.dedup();
            let mut joined = None;
            for &maker in makers.iter().rev().take(MAX_TRIES) {
                let tries = [vec![maker, id], self.products(maker)];
                let mut tries = tries.into_iter().filter(|t| t.contains(&id));
                joined = tries.find_map(|t| Some((self.join(&[], &t, &Cost::default())?, t)));
                if joined.is_some() {
                    break;
                }
            }
            let Some((joined, parts)) = joined else {
                return;
            };
            for part in parts {
                self.groups[part] = None;
            }
            id = self.groups.len();
            self.add(joined);
        }
    }

    /// A group with a softmax and the groups that read it, ascending, if these are several and few. The softmax is cut only
    /// together with all products that read it.
    fn products(&self, maker: usize) -> Vec<usize> {
        let places = self.groups[maker].as_ref().map(|g| g.places.as_slice());
        let places = places.unwrap_or_default();
        let online = |at: &usize| self.kinds.of[*at].domain.online().is_some();
        if !places.iter().any(online) {
            return Vec::new();
        }
        let readers = places.iter();
        let readers = readers.flat_map(|&at| self.uses.readers(self.func, at));
        let mut parts: Vec<usize> = readers.filter_map(|at| self.of[at]).collect();
        parts.push(maker);
        parts.sort_unstable();
        parts.dedup();
        match parts.len() {
            3..=MAX_MERGES => parts,
            _ => Vec::new(),
        }
    }

    /// Moves the last operations of groups that this one reads into it, and its first operations into them, while that
    /// is better. Example: a projection joined the rows of the layer before it; with the heads of the attention that
    /// reads it, it needs no memory between the two.
    fn shift(&mut self, id: usize) {
        for _ in 0..MAX_MERGES {
            let Some(reader) = self.groups[id].as_ref() else {
                return;
            };
            let places = reader.places.clone();
            let makers = places.iter().flat_map(|&at| self.maker_groups(at));
            let mut makers: Vec<usize> = makers.filter(|&g| g != id).collect();
            makers.sort_unstable();
            makers.dedup();
            let mut pairs = makers.into_iter().rev().take(MAX_SHIFTED);
            let shifted = |maker| Some((maker, self.shifted(maker, &places)?));
            let Some((maker, [first, second])) = pairs.find_map(shifted) else {
                return;
            };
            for (id, grown) in [(maker, first), (id, second)] {
                for &place in &grown.places {
                    self.of[place] = Some(id);
                }
                self.groups[id] = Some(grown);
            }
        }
    }

    /// The best way to move operations between a group and one that reads it: both groups.
    fn shifted(&mut self, maker: usize, reader: &[usize]) -> Option<[Grown; 2]> {
        let group = self.groups[maker].as_ref()?;
        let maker = group.places.clone();
        let mut best = Apart::default();
        for places in [&maker[..], reader] {
            best.add(&self.plan(places).plan?.cost, self.limits);
        }
        let heavy = |kinds: &Kinds, places: &[usize]| -> Vec<usize> {
            let heavy = (1..places.len()).filter(|&i| kinds.of[places[i]].is_heavy());
            heavy.collect()
        };
        let mut tries: Vec<[Vec<usize>; 2]> = Vec::new();
        for i in heavy(self.kinds, &maker) {
            let tail = maker[i..].iter().chain(reader).copied();
            tries.push([maker[..i].to_vec(), tail.collect()]);
        }
        for i in heavy(self.kinds, reader) {
            let head = maker.iter().chain(&reader[..i]).copied();
            tries.push([head.collect(), reader[i..].to_vec()]);
        }
        let mut found = None;
        for mut parts in tries {
            if self.large <= self.effort.carried.get() {
                break;
            }
            parts.iter_mut().for_each(|places| places.sort_unstable());
            if parts.iter().any(|places| self.waits_for_itself(places)) {
                continue;
            }
            let [first, second] = parts;
            let (Some(one), Some(two)) = (self.plan(&first).plan, self.plan(&second).plan) else {
                continue;
            };
            let mut sum = Apart::default();
            sum.add(&one.cost, self.limits);
            sum.add(&two.cost, self.limits);
            if best.is_worse(&sum) {
                best = sum;
                let grown = |places, plan| Grown {
                    places,
                    plan,
                    apart: false,
                };
                found = Some([grown(first, one), grown(second, two)]);
            }
        }
        found
    }

    fn place(&mut self, at: usize) {
        let Some(alone) = self.plan(&[at]).plan else {
            return;
        };
        let makers = self.maker_groups(at);
        // All makers at once, then each by itself, the latest first.
        let mut tries: Vec<Vec<usize>> = vec![makers.clone()];
        if 1 < makers.len() {
            tries.extend(makers.iter().rev().take(MAX_TRIES).map(|&g| vec![g]));
        }
        for parts in tries.into_iter().filter(|t| !t.is_empty()) {
            if let Some(joined) = self.join(&[at], &parts, &alone.cost) {
                for &g in &parts {
                    self.groups[g] = None;
                }
                self.add(joined);
                return;
            }
        }
        self.add(Grown {
            places: vec![at],
            plan: alone,
            apart: false,
        });
    }

    fn add(&mut self, grown: Grown) {
        let id = self.groups.len();
        for &place in &grown.places {
            self.of[place] = Some(id);
        }
        self.groups.push(Some(grown));
        self.refused.push((0, 0));
    }

    /// The groups that make operands of an operation, ascending.
    fn maker_groups(&self, at: usize) -> Vec<usize> {
        let mut makers: Vec<usize> = self.makers(at).filter_map(|m| self.of[m]).collect();
        makers.sort_unstable();
        makers.dedup();
        makers
    }

    /// The operations that make operands of an operation.
    fn makers(&self, at: usize) -> impl Iterator<Item = usize> + '_ {
        let operands = &self.func.ops[self.func.body[at]].operands;
        let maker = |&v: &optc_ir::Value| self.uses.maker(self.func, v).map(|(place, _)| place);
        operands.iter().filter_map(maker)
    }

    /// Joins operations and groups into one group, if that takes less time, or moves fewer bytes in the same time. `ops`
    /// cost `alone` by themselves.
    fn join(&mut self, ops: &[usize], parts: &[usize], alone: &Cost) -> Option<Grown> {
        let mut places = ops.to_vec();
        let mut apart = Apart::default();
        apart.add(alone, self.limits);
        for &g in parts {
            let group = self.groups[g].as_ref()?;
            places.extend(&group.places);
            apart.add(&group.plan.cost, self.limits);
        }
        if MAX_OPS < places.len() && self.large <= self.effort.carried.get() {
            return None;
        }
        let tired =
            |g: &usize| MAX_REFUSED <= self.refused[*g].0 || MAX_CARRIED <= self.refused[*g].1;
        if parts.iter().any(tired) {
            return None;
        }
        places.sort_unstable();
        if self.waits_for_itself(&places) {
            return None;
        }
        let before = self.effort.carried.get();
        let Planned { plan, long } = self.plan(&places);
        let plan = plan.filter(|plan| {
            let mut joined = Apart::default();
            joined.add(&plan.cost, self.limits);
            apart.is_worse(&joined)
        });
        if plan.is_none() {
            ops.iter().for_each(|&at| self.long[at] |= long);
            let carried = self.effort.carried.get() - before;
            for &g in parts {
                let (times, sum) = &mut self.refused[g];
                (*times, *sum) = (*times + 1, sum.saturating_add(carried));
            }
        }
        plan.map(|plan| Grown {
            places,
            plan,
            apart: false,
        })
    }

    /// Returns whether an operation outside of these would read one of them and be read by another, so that the group
    /// would depend on itself.
    fn waits_for_itself(&self, places: &[usize]) -> bool {
        let first = places[0];
        let inside = |at: usize| places.binary_search(&at).is_ok();
        let mut seen: FastMap<usize, ()> = FastMap::default();
        let mut open: Vec<usize> = Vec::new();
        // Operations of one group run together, so a dependence on one is a dependence on all.
        let mut enter = |at: usize, open: &mut Vec<usize>| {
            if first < at && !inside(at) && seen.insert(at, ()).is_none() {
                open.push(at);
            }
            seen.len()
        };
        for &place in places {
            for maker in self.makers(place) {
                enter(maker, &mut open);
            }
        }
        while let Some(at) = open.pop() {
            let together = self.of[at].and_then(|g| self.groups[g].as_ref());
            let together = together.map_or(&[][..], |g| g.places.as_slice());
            for &member in together {
                if enter(member, &mut open) > MAX_VISITS {
                    return true;
                }
            }
            for maker in self.makers(at) {
                if inside(maker) || enter(maker, &mut open) > MAX_VISITS {
                    return true;
                }
            }
        }
        false
    }

    fn plan(&mut self, places: &[usize]) -> Planned {
        let (local, key) = Local::new(self.func, self.kinds, self.uses, places);
        if let Some(known) = self.known.get(&key) {
            return known.clone();
        }
        self.effort.long.set(false);
        let plan = choose(&local, self.limits, false, &self.effort).map(Rc::new);
        let long = self.effort.long.get();
        let planned = Planned { plan, long };
        self.known.insert(key, planned.clone());
        planned
    }

    /// Plans a group thoroughly.
    fn settle(&mut self, id: usize, known: &mut Settled) {
        let places = self.groups[id].as_ref().map(|group| group.places.clone());
        let plan = places.and_then(|places| self.thorough(&places, known));
        if let (Some(plan), Some(group)) = (plan, &mut self.groups[id]) {
            group.plan = plan;
        }
    }

    /// Leaves those views at the edges of a group outside of it that are row-major on its side alone, unless the plan
    /// would be worse. Kernels read and write row-major boxes, and the fold proved that the view moves nothing.
    fn trim(&mut self, id: usize, known: &mut Settled) {
        while let Some(group) = self.groups[id].as_ref() {
            let (local, _) = Local::new(self.func, self.kinds, self.uses, &group.places);
            let ops = group.places.iter().zip(&local.ops);
            let (views, rest): (Vec<_>, Vec<_>) = ops.partition(|(_, op)| op.is_edge());
            let places: Vec<usize> = rest.iter().map(|(at, _)| **at).collect();
            if views.is_empty() || places.is_empty() {
                return;
            }
            let Some(plan) = self.thorough(&places, known) else {
                return;
            };
            let [before, after] = [&group.plan, &plan].map(|plan| {
                let mut of = Apart::default();
                of.add(&plan.cost, self.limits);
                of
            });
            if before.time < after.time || before.bytes < after.bytes {
                return;
            }
            views.iter().for_each(|(at, _)| self.of[**at] = None);
            self.groups[id] = Some(Grown {
                places,
                plan,
                apart: false,
            });
        }
    }

    /// The thorough plan of the operations at these positions. Each distinct spelling is planned once.
    fn thorough(&self, places: &[usize], known: &mut Settled) -> Option<Rc<LocalPlan>> {
        let (local, key) = Local::new(self.func, self.kinds, self.uses, places);
        let plan = known.entry(key).or_insert_with(|| {
            let ops = local.ops.len() as u64;
            self.effort.allow(MAX_SETTLED.saturating_mul(ops));
            choose(&local, self.limits, true, &self.effort).map(Rc::new)
        });
        plan.clone()
    }
}
