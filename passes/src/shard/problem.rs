//! The choice as a problem of the solver: one variable for each operation and each value.
//!
//! - The state of an operation is its split loops. It costs the time of its part of the work.
//! - The state of a value is the sharding in which it is stored. It costs nothing, or its bytes where memory is priced.
//! - A table for each operand has the times of the collectives from the stored sharding to the one that is read, and a
//!   table for each result those from the one that is made to the stored one.

use super::pins::Pin;
use super::places::Places;
use super::states::{Digits, States, states, stored};
use indexmap::{IndexMap, IndexSet};
use optc_check::mesh::{Divided, Extents, Links, Site, conversion, seconds_of};
use optc_ir::shard::{Piece, Sharding};
use optc_ir::{Func, Registry, Value};
use optc_solver::{Aim, Asked, Columns, Draft, Solution, Starts, cost, movement};
use optc_target::Target;
use std::rc::Rc;

/// The parts of a function that do not change while it is solved.
pub(super) struct Given<'a> {
    pub(super) func: &'a Func,
    pub(super) sites: &'a [Site],
    pub(super) links: &'a Links,
    pub(super) registry: &'a Registry,
    pub(super) target: &'a Target,
    /// The pin of each value.
    pub(super) pins: &'a IndexMap<Value, Pin>,
    /// The pins of results of the function.
    pub(super) returned: &'a IndexMap<usize, Pin>,
}

/// The states and tables of a function.
pub(super) struct Choice<'a> {
    pub(super) given: &'a Given<'a>,
    /// The states of each operation of the body, by the number of its list.
    pub(super) lists: Vec<States>,
    pub(super) ops: Vec<usize>,
    /// The stored shardings of each value, by the number of its list.
    pub(super) stored: IndexSet<Vec<Sharding>>,
    pub(super) values: Vec<usize>,
    /// The variable of each value with a state; values that nothing in the body makes or reads have none.
    vars: IndexMap<Value, usize>,
    tables: IndexMap<Key, Rc<Columns>>,
    /// True if no state was left out.
    pub(super) complete: bool,
    /// The entries of all different tables, a count of the work.
    pub(super) entries: usize,
}

/// The key of a table of collectives: the lists of both sides and the bytes of the value.
type Key = (usize, Side, u64);

#[derive(Clone, PartialEq, Eq, Hash)]
enum Side {
    Read(usize, usize),
    Made(usize, usize),
}

/// The lists of the axes, given those of the extents.
fn by_axis<'p>(slots: &[Option<usize>], lists: &'p [Vec<Piece>]) -> Vec<&'p [Piece]> {
    let list = |slot: &Option<usize>| slot.map_or(&[][..], |s| lists[s].as_slice());
    slots.iter().map(list).collect()
}

/// The key of the states of an operation: its loops, the digits of all kinds, and whether these are all.
type SiteKey<'p> = (&'p Site, [&'p [Vec<Piece>]; 3], bool);

/// The chosen states.
pub(super) struct Chosen {
    /// For each operation of the body, its split loops.
    pub(super) ops: Vec<Divided>,
    /// The stored sharding of each value.
    pub(super) values: IndexMap<Value, Sharding>,
    pub(super) solution: Solution,
}

impl<'a> Choice<'a> {
    pub(super) fn of(given: &'a Given<'a>, places: &Places, most: usize) -> Choice<'a> {
        let mut choice = Choice {
            given,
            lists: Vec::new(),
            ops: Vec::new(),
            stored: IndexSet::new(),
            values: Vec::new(),
            vars: IndexMap::new(),
            tables: IndexMap::new(),
            complete: places.complete.iter().all(|c| *c),
            entries: 0,
        };
        choice.list_ops(places, most);
        choice.list_values(most);
        choice
    }

    fn list_ops(&mut self, places: &Places, most: usize) {
        let mut known: IndexMap<SiteKey<'_>, usize> = IndexMap::new();
        let slots = self.given.links.0.iter().map(|link| link.extent);
        let slot = |n: u64| places.extents.iter().position(|&e| e == n);
        let slots: Vec<Option<usize>> = slots.map(slot).collect();
        for (at, site) in self.given.sites.iter().enumerate() {
            let (digits, alone) = (&places.ops[at], &places.carried[at]);
            let complete = places.complete[at];
            let lists = &mut self.lists;
            let led = &places.led[at];
            let key = (site, [digits.as_slice(), alone, led], complete);
            let number = *known.entry(key).or_insert_with(|| {
                let digits = Digits {
                    axes: by_axis(&slots, digits),
                    alone: (!complete).then(|| by_axis(&slots, alone)),
                    led,
                };
                lists.push(states(site, &digits, most));
                lists.len() - 1
            });
            self.complete &= self.lists[number].complete;
            self.ops.push(number);
        }
    }

    fn list_values(&mut self, most: usize) {
        let func = self.given.func;
        let mut seen: IndexMap<Value, IndexSet<Sharding>> = IndexMap::new();
        for &arg in &func.args {
            seen.entry(arg).or_default();
        }
        for (at, &op) in func.body.iter().enumerate() {
            let data = &func.ops[op];
            let list = &self.lists[self.ops[at]].all;
            for (i, &v) in data.operands.iter().enumerate() {
                seen.entry(v)
                    .or_default()
                    .extend(list.iter().map(|d| d.operands[i].clone()));
            }
            for (i, &v) in data.results.iter().enumerate() {
                seen.entry(v)
                    .or_default()
                    .extend(list.iter().map(|d| d.results[i].clone()));
            }
        }
        let axes = self.given.links.0.len();
        for (value, mut ends) in seen {
            let pin = self.given.pins.get(&value);
            ends.extend(pin.map(|p| p.fixed.clone()));
            let returned = func
                .results
                .iter()
                .enumerate()
                .filter(|(_, v)| **v == value);
            ends.extend(
                returned.filter_map(|(i, _)| Some(self.given.returned.get(&i)?.fixed.clone())),
            );
            let (mut all, complete) = stored(ends.iter(), axes, most);
            if let Some(pin) = pin {
                all.retain(|s| pin.allows(s));
                if all.is_empty() {
                    all.push(pin.fixed.clone());
                }
            }
            self.complete &= complete;
            let (list, _) = self.stored.insert_full(all);
            self.vars.insert(value, self.ops.len() + self.values.len());
            self.values.push(list);
        }
    }

    /// The bytes of a value on all devices together.
    fn bytes(&self, value: Value) -> u64 {
        let size = Extents::of(self.given.func.ty(value));
        size.map_or(0, |size| size.bytes())
    }

    /// The problem if a byte of a stored value costs this many picoseconds, in 2^20 parts.
    pub(super) fn draft(&mut self, memory: u64) -> Draft {
        let ops = self.ops.iter().map(|&list| self.lists[list].all.len());
        let values = self.values.iter().map(|&list| self.stored[list].len());
        let mut draft = Draft::over(ops.chain(values).collect());
        self.add_ops(&mut draft);
        self.add_values(&mut draft, memory);
        draft
    }

    fn add_ops(&mut self, draft: &mut Draft) {
        let given = self.given;
        let mut times: IndexMap<(usize, &str), Rc<Columns>> = IndexMap::new();
        for (at, &op) in given.func.body.iter().enumerate() {
            let (site, list) = (&given.sites[at], self.ops[at]);
            let all = &self.lists[list].all;
            let name: &str = &given.func.ops[op].name;
            let table = times.entry((list, name)).or_insert_with(|| {
                let time = seconds_of(given.func, op, given.registry, given.target);
                let costs = all.iter().map(|d| cost(picoseconds(time(site, d)), 0));
                Rc::new(Columns::single(costs))
            });
            draft.add(&[at], table.clone());
            let data = &given.func.ops[op];
            for (i, &value) in data.operands.iter().enumerate() {
                let table = self.table(value, Side::Read(list, i));
                draft.add(&[self.vars[&value], at], table);
            }
            for (i, &value) in data.results.iter().enumerate() {
                if !site.source {
                    let table = self.table(value, Side::Made(list, i));
                    draft.add(&[self.vars[&value], at], table);
                }
            }
        }
    }

    /// The times of the collectives between the stored shardings of a value, one a row, and those of an operation's
    /// states, one a column.
    fn table(&mut self, value: Value, side: Side) -> Rc<Columns> {
        let bytes = self.bytes(value);
        let stored = self.values[self.vars[&value] - self.ops.len()];
        let key = (stored, side.clone(), bytes);
        if let Some(known) = self.tables.get(&key) {
            return known.clone();
        }
        let of = |d: &Divided| match side {
            Side::Read(_, i) => d.operands[i].clone(),
            Side::Made(_, i) => d.results[i].clone(),
        };
        let list = match side {
            Side::Read(list, _) | Side::Made(list, _) => list,
        };
        let mut kinds: IndexSet<Sharding> = IndexSet::new();
        let columns = self.lists[list]
            .all
            .iter()
            .map(|d| kinds.insert_full(of(d)).0)
            .collect();
        let mut costs = Vec::new();
        for row in &self.stored[stored] {
            for kind in &kinds {
                let (from, to) = match side {
                    Side::Read(..) => (row, kind),
                    Side::Made(..) => (kind, row),
                };
                costs.push(self.time(from, to, bytes));
            }
        }
        self.entries += costs.len();
        let table = Rc::new(Columns::of(costs, kinds.len(), columns));
        self.tables.insert(key, table.clone());
        table
    }

    /// The time of the collectives. The tie breaker has their bytes and then their number, so that an all-reduce is chosen
    /// over a reduce-scatter and an all-gather that take as long.
    fn time(&self, from: &Sharding, to: &Sharding, bytes: u64) -> optc_solver::Cost {
        let all = conversion(from, to, bytes, self.given.links);
        let seconds: f64 = all.iter().map(|c| c.seconds).sum();
        cost(
            picoseconds(seconds),
            all.iter().map(|c| 8 * c.bytes + 1).sum(),
        )
    }

    fn add_values(&mut self, draft: &mut Draft, memory: u64) {
        let func = self.given.func;
        for (&value, &var) in &self.vars {
            let bytes = self.bytes(value);
            let list = &self.stored[self.values[var - self.ops.len()]];
            let size = Extents::of(func.ty(value));
            let local = |s: &Sharding| size.as_ref().map_or(0, |size| size.local_bytes(s));
            let priced = |n: u64| {
                u64::try_from((u128::from(n) * u128::from(memory)) >> 20).unwrap_or(u64::MAX)
            };
            // Of equal times, the one that keeps the least of arguments on each device.
            let argument = matches!(func.values[value].def, optc_ir::ValueDef::Arg(_));
            let kept = |s: &Sharding| if argument { local(s) } else { 0 };
            let costs = list.iter().map(|s| cost(priced(local(s)), kept(s)));
            draft.add(&[var], Rc::new(Columns::single(costs)));
            for (i, _) in func
                .results
                .iter()
                .enumerate()
                .filter(|(_, v)| **v == value)
            {
                let Some(pin) = self.given.returned.get(&i) else {
                    continue;
                };
                let costs = list.iter().map(|s| match pin.allows(s) {
                    true => 0,
                    false => self.time(s, &pin.fixed, bytes),
                });
                draft.add(&[var], Rc::new(Columns::single(costs)));
            }
        }
    }

    /// A choice made from operation to operation: each takes the state that costs the least, given its operands, and
    /// stores results in the shardings that then cost the least.
    ///
    /// If it `follows`, an operation is split over those axes alone that split an operand, and combines partial results
    /// on all devices, as partitioners do that carry the splits of arguments through a program.
    pub(super) fn forward(&mut self, follows: bool) -> Vec<usize> {
        let given = self.given;
        let mut states = vec![0; self.variables()];
        for (at, &op) in given.func.body.iter().enumerate() {
            let (site, list) = (&given.sites[at], self.ops[at]);
            if site.source {
                continue;
            }
            let data = &given.func.ops[op];
            let time = seconds_of(given.func, op, given.registry, given.target);
            let all = self.lists[list].all.iter();
            let mut costs: Vec<_> = all.map(|d| cost(picoseconds(time(site, d)), 0)).collect();
            for (i, &value) in data.operands.iter().enumerate() {
                let row = states[self.vars[&value]];
                let table = self.table(value, Side::Read(list, i));
                let each = costs.iter_mut().enumerate();
                each.for_each(|(state, sum)| *sum = sum.saturating_add(table.at(row, state)));
            }
            let mut stores = Vec::with_capacity(data.results.len());
            for (i, &value) in data.results.iter().enumerate() {
                let best = self.stores(value, list, i, follows);
                let each = costs.iter_mut().zip(&best);
                each.for_each(|(sum, (cost, _))| *sum = sum.saturating_add(*cost));
                stores.push((value, best));
            }
            let allowed =
                |state: &usize| !follows || self.follows(&data.operands, list, *state, &states);
            let least = (0..costs.len())
                .filter(allowed)
                .min_by_key(|&state| costs[state]);
            let least = least.unwrap_or(0);
            states[at] = least;
            for (value, best) in stores {
                states[self.vars[&value]] = best[least].1;
            }
        }
        states
    }

    /// For each state of an operation the sharding in which a result is stored for the least cost, after that cost. In a
    /// choice that `follows` it is the one that is made, with partial results combined on all devices.
    fn stores(
        &mut self,
        value: Value,
        list: usize,
        result: usize,
        follows: bool,
    ) -> Vec<(optc_solver::Cost, usize)> {
        let table = self.table(value, Side::Made(list, result));
        let rows = &self.stored[self.values[self.vars[&value] - self.ops.len()]];
        let mut known: IndexMap<&Sharding, (optc_solver::Cost, usize)> = IndexMap::new();
        let all = self.lists[list].all.iter().enumerate();
        let best = all.map(|(state, divided)| {
            let made = &divided.results[result];
            *known.entry(made).or_insert_with(|| {
                let whole = made.splits().iter().filter(|s| s.pieces().is_empty());
                let kept = whole.fold(made.clone(), |kept, split| kept.without(split.axis));
                let own = rows.iter().position(|row| follows && *row == kept);
                let least = || (0..rows.len()).min_by_key(|&row| table.at(row, state));
                let row = own.or_else(least).unwrap_or(0);
                (table.at(row, state), row)
            })
        });
        best.collect()
    }

    /// Returns whether each axis that splits the loops of a state splits an operand, as it is stored, in the same way.
    fn follows(&self, operands: &[Value], list: usize, state: usize, states: &[usize]) -> bool {
        let divided = &self.lists[list].all[state];
        let stored = |value: &Value| {
            let var = self.vars[value];
            &self.stored[self.values[var - self.ops.len()]][states[var]]
        };
        let shared = |axis: usize| {
            operands.iter().zip(&divided.operands).any(|(value, read)| {
                let split = read.on(axis).filter(|s| !s.pieces().is_empty());
                split.is_some() && split == stored(value).on(axis)
            })
        };
        let all = divided.operands.iter().chain(&divided.results);
        all.flat_map(Sharding::splits)
            .all(|split| shared(split.axis))
    }

    /// Solves the problem. The choice costs no more than these two.
    pub(super) fn solve(&self, draft: &Draft, [near, safe]: &[Vec<usize>; 2]) -> Chosen {
        let written = draft.written();
        let found = written.solve(Starts {
            near: Some(near.clone()),
            safe: &mut || Some(safe.clone()),
            asked: Asked::surely(),
            aim: Aim::Both,
        });
        let solution = self.refined(&written, found, [near, safe]);
        let states = &solution.states;
        let ops = self
            .ops
            .iter()
            .zip(states)
            .map(|(&list, &s)| self.lists[list].all[s].clone());
        let values = self.vars.iter().map(|(&value, &var)| {
            let list = &self.stored[self.values[var - self.ops.len()]];
            (value, list[states[var]].clone())
        });
        Chosen {
            ops: ops.collect(),
            values: values.collect(),
            solution,
        }
    }

    /// The time of a choice, without the price of memory.
    pub(super) fn time_of(&self, chosen: &Chosen) -> u64 {
        let given = self.given;
        let mut sum = 0u64;
        for (at, &op) in given.func.body.iter().enumerate() {
            let (site, divided) = (&given.sites[at], &chosen.ops[at]);
            let time = seconds_of(given.func, op, given.registry, given.target)(site, divided);
            sum = sum.saturating_add(picoseconds(time));
            let data = &given.func.ops[op];
            for (value, read) in data.operands.iter().zip(&divided.operands) {
                let time = self.time(&chosen.values[value], read, self.bytes(*value));
                sum = sum.saturating_add(movement(time));
            }
            for (value, made) in data.results.iter().zip(&divided.results) {
                if !site.source {
                    let time = self.time(made, &chosen.values[value], self.bytes(*value));
                    sum = sum.saturating_add(movement(time));
                }
            }
        }
        for (i, value) in given.func.results.iter().enumerate() {
            let stored = &chosen.values[value];
            if let Some(pin) = given.returned.get(&i).filter(|pin| !pin.allows(stored)) {
                let time = self.time(stored, &pin.fixed, self.bytes(*value));
                sum = sum.saturating_add(movement(time));
            }
        }
        sum
    }

    /// The number of variables.
    pub(super) fn variables(&self) -> usize {
        self.ops.len() + self.values.len()
    }
}

#[expect(
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    reason = "a time is not negative, and a conversion saturates"
)]
fn picoseconds(seconds: f64) -> u64 {
    (seconds * 1e12).round() as u64
}
