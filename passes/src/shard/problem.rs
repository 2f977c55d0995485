//! The choice as a problem of the solver: one variable for each operation and each value.
//!
//! - The state of an operation is its split loops. It costs the time of its part of the work.
//! - The state of a value is the sharding in which it is stored. It costs nothing, or its bytes where memory is priced.
//! - A table for each operand has the times of the collectives from the stored sharding to the one that is read, and a
//!   table for each result those from the one that is made to the stored one.

use super::pins::Pin;
use super::places::Places;
use super::sites::{Port, Sites};
use super::states::{Digits, States, states, stored};
use crate::view_fold::maps::{FastMap, FastSet};
use indexmap::{IndexMap, IndexSet};
use optc_check::mesh::{Divided, Effort, Extents, Links, conversion};
use optc_ir::shard::{Piece, Sharding};
use optc_ir::{Func, Registry, Value};
use optc_solver::{Aim, Asked, Columns, Cost, Draft, Solution, Starts, cost, movement};
use optc_target::Target;
use rustc_hash::FxHashMap;
use std::rc::Rc;

/// The parts of a function that do not change while it is solved.
pub(super) struct Given<'a> {
    pub(super) func: &'a Func,
    pub(super) sites: &'a Sites,
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
    /// The times of the states of each operation.
    work: Vec<Rc<Columns>>,
    /// The stored shardings of each value, by the number of its list.
    pub(super) stored: IndexSet<Vec<Sharding>>,
    pub(super) values: Vec<usize>,
    /// The variable of each value with a state; values that nothing in the body makes or reads have none.
    vars: FastMap<Value, usize>,
    /// The bytes of each value on all devices together.
    bytes: Vec<u64>,
    /// For a value that is returned, the pins of these results.
    returned: FastMap<Value, Vec<&'a Pin>>,
    tables: FxHashMap<Key, Rc<Columns>>,
    /// The shardings in which results are stored, see [`Choice::stores`].
    best: FxHashMap<(Key, bool), Stores>,
    /// True if no state was left out.
    pub(super) complete: bool,
    /// The entries of all different tables, a count of the work.
    pub(super) entries: usize,
}

/// The key of a table of collectives: the lists of both sides, the port of the operation, and the bytes of the value.
type Key = (usize, (usize, Port), u64);

/// The lists of the axes, given those of the extents.
fn by_axis<'p>(slots: &[Option<usize>], lists: &'p [Vec<Piece>]) -> Vec<&'p [Piece]> {
    let list = |slot: &Option<usize>| slot.map_or(&[][..], |s| lists[s].as_slice());
    slots.iter().map(list).collect()
}

/// For each state of an operation a cost and the number of a stored sharding.
type Stores = Rc<[(Cost, usize)]>;

/// The key of the states of an operation: the number of its site, the digits of all kinds, and whether these are all.
type SiteKey<'p> = (usize, [&'p [Vec<Piece>]; 3], bool);

/// The sharding of a port.
fn of_port(divided: &Divided, port: Port) -> &Sharding {
    match port {
        Ok(i) => &divided.operands[i],
        Err(i) => &divided.results[i],
    }
}

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
            work: Vec::new(),
            stored: IndexSet::new(),
            values: Vec::new(),
            vars: FastMap::default(),
            bytes: Vec::new(),
            returned: FastMap::default(),
            tables: FxHashMap::default(),
            best: FxHashMap::default(),
            complete: places.complete.iter().all(|c| *c),
            entries: 0,
        };
        for (i, &value) in given.func.results.iter().enumerate() {
            if let Some(pin) = given.returned.get(&i) {
                choice.returned.entry(value).or_default().push(pin);
            }
        }
        choice.list_ops(places, most);
        choice.list_work();
        choice.list_values(most);
        choice
    }

    fn list_ops(&mut self, places: &Places, most: usize) {
        let mut known: FxHashMap<SiteKey<'_>, usize> = FxHashMap::default();
        let slots = self.given.links.0.iter().map(|link| link.extent);
        let slot = |n: u64| places.extents.iter().position(|&e| e == n);
        let slots: Vec<Option<usize>> = slots.map(slot).collect();
        let sites = self.given.sites;
        for at in 0..sites.len() {
            let (digits, alone) = (places.ops.at(at), places.carried.at(at));
            let complete = places.complete[at];
            let lists = &mut self.lists;
            let led = places.led.at(at);
            let key = (sites.number(at), [digits, alone, led], complete);
            let number = *known.entry(key).or_insert_with(|| {
                let digits = Digits {
                    axes: by_axis(&slots, digits),
                    alone: (!complete).then(|| by_axis(&slots, alone)),
                    led,
                };
                lists.push(states(sites.at(at), &digits, most));
                lists.len() - 1
            });
            self.complete &= self.lists[number].complete;
            self.ops.push(number);
        }
    }

    fn list_work(&mut self) {
        let given = self.given;
        let mut known: FxHashMap<(usize, Option<u64>), Rc<Columns>> = FxHashMap::default();
        for (at, &op) in given.func.body.iter().enumerate() {
            let (site, list) = (given.sites.at(at), self.ops[at]);
            let effort = Effort::of(given.func, op, given.registry, given.target);
            let times = known.entry((list, effort.key())).or_insert_with(|| {
                let all = self.lists[list].all.iter();
                let times = all.map(|d| cost(picoseconds(effort.seconds(site, d)), 0));
                Rc::new(Columns::single(times))
            });
            self.work.push(times.clone());
        }
    }

    fn list_values(&mut self, most: usize) {
        let func = self.given.func;
        // Values that are read and made alike, and that no pin names, are stored alike.
        let mut known: FxHashMap<Vec<(usize, Port)>, usize> = FxHashMap::default();
        let ports = func.body.iter().flat_map(|&op| {
            let data = &func.ops[op];
            data.operands.iter().chain(&data.results)
        });
        for &value in func.args.iter().chain(ports) {
            if self.vars.contains_key(&value) {
                continue;
            }
            let ports = self.given.sites.ports(value).iter();
            let ends = ports.map(|&(at, port)| (self.ops[at], port));
            let ends: Vec<_> = ends.collect::<FastSet<_>>().into_iter().collect();
            let pinned = self.given.pins.contains_key(&value) || self.returned.contains_key(&value);
            let list = match known.get(&ends).filter(|_| !pinned) {
                Some(&list) => list,
                None => {
                    let list = self.list_value(value, &ends, most);
                    if !pinned {
                        known.insert(ends, list);
                    }
                    list
                }
            };
            self.vars.insert(value, self.ops.len() + self.values.len());
            self.values.push(list);
            let size = Extents::of(func.ty(value));
            self.bytes.push(size.map_or(0, |size| size.bytes()));
        }
    }

    /// The list of the shardings in which a value with these ports may be stored.
    fn list_value(&mut self, value: Value, ends: &[(usize, Port)], most: usize) -> usize {
        let pin = self.given.pins.get(&value);
        let returned = self.returned.get(&value).into_iter().flatten();
        let pins = pin.into_iter().chain(returned.copied());
        let ends = ends.iter().flat_map(|&(list, port)| {
            let all = self.lists[list].all.iter();
            all.map(move |divided| of_port(divided, port))
        });
        let (mut all, complete) = stored(ends.chain(pins.map(|p| &p.fixed)), self.axes(), most);
        if let Some(pin) = pin {
            all.retain(|s| pin.allows(s));
            if all.is_empty() {
                all.push(pin.fixed.clone());
            }
        }
        self.complete &= complete;
        self.stored.insert_full(all).0
    }

    fn axes(&self) -> usize {
        self.given.links.0.len()
    }

    /// The shardings in which the value of a variable may be stored.
    fn stored_of(&self, var: usize) -> &[Sharding] {
        &self.stored[self.values[var - self.ops.len()]]
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
        for (at, &op) in given.func.body.iter().enumerate() {
            draft.add(&[at], self.work[at].clone());
            let data = &given.func.ops[op];
            for (i, value) in data.operands.iter().enumerate() {
                let var = self.vars[value];
                draft.add(&[var, at], self.table(self.key(var, at, Ok(i))));
            }
            if given.sites.at(at).source {
                continue;
            }
            for (i, value) in data.results.iter().enumerate() {
                let var = self.vars[value];
                draft.add(&[var, at], self.table(self.key(var, at, Err(i))));
            }
        }
    }

    /// The key of the table of a value and the port of an operation.
    fn key(&self, var: usize, at: usize, port: Port) -> Key {
        let value = var - self.ops.len();
        (self.values[value], (self.ops[at], port), self.bytes[value])
    }

    /// The times of the collectives between the stored shardings of a value, one a row, and those of an operation's
    /// states, one a column.
    fn table(&mut self, key: Key) -> Rc<Columns> {
        if let Some(known) = self.tables.get(&key) {
            return known.clone();
        }
        let (stored, (list, port), bytes) = key;
        let mut kinds: IndexSet<&Sharding> = IndexSet::new();
        let all = self.lists[list].all.iter();
        let columns = all.map(|d| kinds.insert_full(of_port(d, port)).0).collect();
        let mut costs = Vec::new();
        for row in &self.stored[stored] {
            for kind in &kinds {
                let (from, to) = match port {
                    Ok(_) => (row, *kind),
                    Err(_) => (*kind, row),
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
    fn time(&self, from: &Sharding, to: &Sharding, bytes: u64) -> Cost {
        let all = conversion(from, to, bytes, self.given.links);
        let seconds: f64 = all.iter().map(|c| c.seconds).sum();
        cost(
            picoseconds(seconds),
            all.iter().map(|c| 8 * c.bytes + 1).sum(),
        )
    }

    fn add_values(&self, draft: &mut Draft, memory: u64) {
        let func = self.given.func;
        for (&value, &var) in &self.vars {
            let list = self.stored_of(var);
            // Of equal times, the one that keeps the least of arguments on each device.
            let argument = matches!(func.values[value].def, optc_ir::ValueDef::Arg(_));
            if argument || memory != 0 {
                let size = Extents::of(func.ty(value));
                let local = |s: &Sharding| size.as_ref().map_or(0, |size| size.local_bytes(s));
                let priced = |n: u64| {
                    u64::try_from((u128::from(n) * u128::from(memory)) >> 20).unwrap_or(u64::MAX)
                };
                let kept = |s: &Sharding| if argument { local(s) } else { 0 };
                let costs = list.iter().map(|s| cost(priced(local(s)), kept(s)));
                draft.add(&[var], Rc::new(Columns::single(costs)));
            }
            let bytes = self.bytes[var - self.ops.len()];
            for pin in self.returned.get(&value).into_iter().flatten() {
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
            if given.sites.at(at).source {
                continue;
            }
            let list = self.ops[at];
            let data = &given.func.ops[op];
            let states_of = 0..self.lists[list].all.len();
            let mut costs: Vec<Cost> = states_of.map(|s| self.work[at].at(s, 0)).collect();
            for (i, value) in data.operands.iter().enumerate() {
                let var = self.vars[value];
                let table = self.table(self.key(var, at, Ok(i)));
                let each = costs.iter_mut().enumerate();
                each.for_each(|(state, sum)| {
                    *sum = sum.saturating_add(table.at(states[var], state));
                });
            }
            let mut stores = Vec::with_capacity(data.results.len());
            for (i, value) in data.results.iter().enumerate() {
                let var = self.vars[value];
                let best = self.stores(self.key(var, at, Err(i)), follows);
                let each = costs.iter_mut().zip(best.iter());
                each.for_each(|(sum, (cost, _))| *sum = sum.saturating_add(*cost));
                stores.push((var, best));
            }
            let allowed =
                |state: &usize| !follows || self.follows(&data.operands, list, *state, &states);
            let least = (0..costs.len())
                .filter(allowed)
                .min_by_key(|&state| costs[state]);
            let least = least.unwrap_or(0);
            states[at] = least;
            for (var, best) in stores {
                states[var] = best[least].1;
            }
        }
        states
    }

    /// For each state of an operation the sharding in which a result is stored for the least cost, after that cost. In a
    /// choice that `follows` it is the one that is made, with partial results combined on all devices.
    fn stores(&mut self, key: Key, follows: bool) -> Stores {
        if let Some(known) = self.best.get(&(key, follows)) {
            return known.clone();
        }
        let table = self.table(key);
        let (stored, (list, port), _) = key;
        let rows = &self.stored[stored];
        let mut known: IndexMap<&Sharding, (Cost, usize)> = IndexMap::new();
        let all = self.lists[list].all.iter().enumerate();
        let best = all.map(|(state, divided)| {
            let made = of_port(divided, port);
            *known.entry(made).or_insert_with(|| {
                let whole = made.splits().iter().filter(|s| s.pieces().is_empty());
                let kept = whole.fold(made.clone(), |kept, split| kept.without(split.axis));
                let own = rows.iter().position(|row| follows && *row == kept);
                let least = || (0..rows.len()).min_by_key(|&row| table.at(row, state));
                let row = own.or_else(least).unwrap_or(0);
                (table.at(row, state), row)
            })
        });
        let best: Stores = best.collect();
        self.best.insert((key, follows), best.clone());
        best
    }

    /// Returns whether each axis that splits the loops of a state splits an operand, as it is stored, in the same way.
    fn follows(&self, operands: &[Value], list: usize, state: usize, states: &[usize]) -> bool {
        let divided = &self.lists[list].all[state];
        let stored = |value: &Value| {
            let var = self.vars[value];
            &self.stored_of(var)[states[var]]
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
        let values = self
            .vars
            .iter()
            .map(|(&value, &var)| (value, self.stored_of(var)[states[var]].clone()));
        Chosen {
            ops: ops.collect(),
            values: values.collect(),
            solution,
        }
    }

    /// The time of a choice, without the price of memory.
    pub(super) fn time_of(&self, chosen: &Chosen) -> u64 {
        let given = self.given;
        let bytes = |value: &Value| self.bytes[self.vars[value] - self.ops.len()];
        let mut sum = 0u64;
        for (at, &op) in given.func.body.iter().enumerate() {
            let (site, divided) = (given.sites.at(at), &chosen.ops[at]);
            let effort = Effort::of(given.func, op, given.registry, given.target);
            sum = sum.saturating_add(picoseconds(effort.seconds(site, divided)));
            let data = &given.func.ops[op];
            for (value, read) in data.operands.iter().zip(&divided.operands) {
                let time = self.time(&chosen.values[value], read, bytes(value));
                sum = sum.saturating_add(movement(time));
            }
            for (value, made) in data.results.iter().zip(&divided.results) {
                if !site.source {
                    let time = self.time(made, &chosen.values[value], bytes(value));
                    sum = sum.saturating_add(movement(time));
                }
            }
        }
        for (value, pins) in &self.returned {
            let stored = &chosen.values[value];
            for pin in pins.iter().filter(|pin| !pin.allows(stored)) {
                let time = self.time(stored, &pin.fixed, bytes(value));
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
