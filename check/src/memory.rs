//! Judges `bufferize` and `plan-memory`: checks that every value still has its elements when it is read.
//!
//! The body is followed operation by operation. Each value has a storage and the number of the write that gave it its
//! elements. The storage is an argument's, a constant's, that of a result of the function, or one that is made for the
//! value. A value whose storage was written since then is lost, and reading it is refused. Storages in the arena occupy
//! their bytes from the first write to the last read. A value inside another one has the storage of that one, which
//! exists from the first write into it on.
//!
//! For example, `%1 = relu(%0)` written over `%0` is the second write to the storage of `%0`, whose elements came from
//! the first write. A later read of `%0` is therefore refused.

use crate::alive::{Alive, Buffer, Memory};
use crate::amount::bytes_of;
use crate::codes;
use crate::parts::homes;
use indexmap::IndexMap;
use optc_ir::effects::Effects;
use optc_ir::entity::SideTable;
use optc_ir::memory::{self, ALIGNMENT, ARENA, Place, State};
use optc_ir::op::in_place;
use optc_ir::size::SizeTable;
use optc_ir::{
    Code, Diagnostic, FreedomClass, Func, Module, Op, Registry, Role, Structure, Value, ValueDef,
};
use optc_layout::{Layout, Notation, ViewMap, is_view};
use std::collections::BTreeMap;
use std::ops::Range;

/// All errors in the memory of a module; none if its memory is not decided.
#[must_use]
pub fn check_memory(module: &Module, registry: &Registry) -> Vec<Diagnostic> {
    let Some(state) = State::of(module) else {
        return Vec::new();
    };
    let stated = module.attrs.str(memory::STATE);
    if stated != Some(state.word()) {
        let message = format!(
            "found `{}` for {}, wanted bufferized or planned",
            stated.unwrap_or_default(),
            memory::STATE
        );
        return vec![Diagnostic::error(codes::MEMORY_SYNTAX, message)];
    }
    let effects = Effects::of_module(module, registry);
    let mut diags = Vec::new();
    for func in &module.funcs {
        let mut walk = Walk::new(func, registry, &effects, state);
        if let Err(diag) = walk.run() {
            diags.push(*diag);
        }
    }
    diags
}

/// Totals of a module's memory.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct MemoryUse {
    /// Bytes of the largest arena of a function.
    pub arena_bytes: u64,
    /// The bytes that are alive at once in that function: no arena is smaller.
    pub live_bytes: u64,
    /// The bytes that all values would need without sharing.
    pub unshared_bytes: u64,
    /// Values in an arena.
    pub arena_values: u64,
    /// Values that lie in the bytes of another.
    pub aliases: u64,
    /// Values that are written over another one.
    pub in_place: u64,
}

impl MemoryUse {
    /// Counts a module; `None` if its memory is not planned, or the plan is refused.
    #[must_use]
    pub fn of(module: &Module, registry: &Registry) -> Option<MemoryUse> {
        if State::of(module) != Some(State::Planned) {
            return None;
        }
        let effects = Effects::of_module(module, registry);
        let mut total = MemoryUse::default();
        for func in &module.funcs {
            let mut walk = Walk::new(func, registry, &effects, State::Planned);
            walk.run().ok()?;
            let mut one = walk.counted;
            one.arena_bytes = memory::arena(func);
            one.live_bytes = walk.alive.most;
            let larger = total.arena_bytes < one.arena_bytes;
            let (arena_bytes, live_bytes) = match larger {
                true => (one.arena_bytes, one.live_bytes),
                false => (total.arena_bytes, total.live_bytes),
            };
            total = MemoryUse {
                arena_bytes,
                live_bytes,
                unshared_bytes: total.unshared_bytes.saturating_add(one.unshared_bytes),
                arena_values: total.arena_values + one.arena_values,
                aliases: total.aliases + one.aliases,
                in_place: total.in_place + one.in_place,
            };
        }
        Some(total)
    }

    /// The figures by their names.
    #[must_use]
    pub fn fields(&self) -> [(&'static str, u64); 6] {
        [
            ("arena_bytes", self.arena_bytes),
            ("live_bytes", self.live_bytes),
            ("unshared_bytes", self.unshared_bytes),
            ("arena_values", self.arena_values),
            ("aliases", self.aliases),
            ("in_place", self.in_place),
        ]
    }
}

/// The buffers that the values of each function need, at these sizes of names. Arguments, constants and values that are
/// written as a result of the function need none.
///
/// # Errors
/// The module's memory is not decided, or is refused.
pub fn memory_of(
    module: &Module,
    registry: &Registry,
    sizes: &SizeTable,
) -> Result<Vec<Memory>, Box<Diagnostic>> {
    let Some(state) = State::of(module) else {
        let message = format!("found no {}, wanted bufferized or planned", memory::STATE);
        return Err(Box::new(Diagnostic::error(codes::MEMORY_SYNTAX, message)));
    };
    let effects = Effects::of_module(module, registry);
    let of = |func| {
        let mut walk = Walk::new(func, registry, &effects, state);
        walk.run()?;
        Ok(walk.memory(sizes))
    };
    module.funcs.iter().map(of).collect()
}

/// The kind of a storage's memory.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Kind {
    /// An argument or a constant: never written.
    Fixed,
    /// Memory of the function, or of the caller for a result.
    Own,
}

/// Memory that values lie in.
#[derive(Clone, Copy, Debug)]
struct Storage {
    kind: Kind,
    /// The number of writes so far.
    writes: usize,
    /// The value that the storage was made for; `None` for the storage of an argument, a constant or a result.
    of: Option<Value>,
    /// The positions of the first and the last operation that need it.
    lives: [usize; 2],
}

/// The place of a value.
#[derive(Clone, Copy, Debug)]
struct Held {
    storage: usize,
    /// The write that gave it its elements.
    write: usize,
    /// True if the value is only a part of the storage.
    part: bool,
}

/// The walk over one function, operation by operation.
struct Walk<'a> {
    func: &'a Func,
    registry: &'a Registry,
    effects: &'a Effects<'a>,
    state: State,
    storages: Vec<Storage>,
    held: SideTable<Value, Option<Held>>,
    /// The places of the values that are in pieces.
    pieces: SideTable<Value, Vec<Held>>,
    /// The bytes of storages in the arena.
    ranges: IndexMap<usize, Range<u64>>,
    /// Values that are known before the program runs.
    constant: SideTable<Value, bool>,
    /// The whole of each value that lies inside another one.
    wholes: IndexMap<Value, Value>,
    /// The operation that wants a value inside its result.
    homes: IndexMap<Value, Op>,
    /// The storages of wholes into which something was written already.
    begun: IndexMap<Value, usize>,
    /// The storages that are written for results of the function, by the results' numbers.
    results: BTreeMap<usize, usize>,
    /// Values whose last reader is the operation.
    dying: Vec<Vec<Value>>,
    /// The number of values in a storage that still have readers.
    needed: Vec<usize>,
    alive: Alive,
    counted: MemoryUse,
    /// The number of operations of the body that are done.
    at: usize,
}

type Outcome<T> = Result<T, Box<Diagnostic>>;

impl<'a> Walk<'a> {
    fn new(func: &'a Func, registry: &'a Registry, effects: &'a Effects<'a>, state: State) -> Self {
        let mut last_read: SideTable<Value, usize> = SideTable::new(0);
        let mut dying = vec![Vec::new(); func.body.len()];
        for (place, &op) in func.body.iter().enumerate() {
            let data = &func.ops[op];
            for &value in data.operands.iter().chain(&data.results) {
                last_read[value] = place;
            }
        }
        for &value in &func.results {
            last_read[value] = func.body.len();
        }
        for value in func.values.ids() {
            if let Some(list) = dying.get_mut(last_read[value]) {
                list.push(value);
            }
        }
        Walk {
            func,
            registry,
            effects,
            state,
            storages: Vec::new(),
            held: SideTable::new(None),
            pieces: SideTable::new(Vec::new()),
            ranges: IndexMap::new(),
            constant: SideTable::new(false),
            wholes: in_place::wholes(func, registry),
            homes: homes(func, registry, effects),
            begun: IndexMap::new(),
            results: BTreeMap::new(),
            dying,
            needed: Vec::new(),
            alive: Alive::default(),
            counted: MemoryUse::default(),
            at: 0,
        }
    }

    fn refuse<T>(&self, op: Op, code: Code, message: String) -> Outcome<T> {
        let span = self.func.ops[op].span;
        let diag = Diagnostic::error(code, message);
        Err(Box::new(diag.at(span, "this operation")))
    }

    fn storage(&mut self, kind: Kind) -> usize {
        self.storages.push(Storage {
            kind,
            writes: 1,
            of: None,
            lives: [self.at, self.func.body.len()],
        });
        self.needed.push(0);
        self.storages.len() - 1
    }

    /// Makes a storage for a value.
    fn own(&mut self, value: Value) -> usize {
        let storage = self.storage(Kind::Own);
        self.storages[storage].of = Some(value);
        storage
    }

    /// The buffers that were made for values, at these sizes of names.
    fn memory(&self, sizes: &SizeTable) -> Memory {
        let mut memory = Memory {
            buffers: Vec::new(),
            of: SideTable::new(None),
        };
        let mut numbers = vec![None; self.storages.len()];
        for (storage, number) in self.storages.iter().zip(&mut numbers) {
            let Some(value) = storage.of else { continue };
            let Some(ty) = self.func.ty(value).as_tensor() else {
                continue;
            };
            let [first, last] = storage.lives;
            *number = Some(memory.buffers.len());
            memory.buffers.push(Buffer {
                value,
                bytes: bytes_of(ty, sizes).at(sizes),
                first,
                last,
            });
        }
        for value in self.func.values.ids() {
            memory.of[value] = self.held[value].and_then(|held| numbers[held.storage]);
        }
        memory
    }

    fn hold(&mut self, value: Value, held: Held) {
        self.held[value] = Some(held);
        self.needed[held.storage] += 1;
    }

    /// The place of a value: one storage, or those of its pieces.
    fn holds(&self, value: Value) -> impl Iterator<Item = Held> {
        let pieces = self.pieces[value].iter();
        self.held[value].into_iter().chain(pieces.copied())
    }

    fn run(&mut self) -> Outcome<()> {
        self.arena()?;
        for &arg in &self.func.args {
            let storage = match self.in_result(arg)? {
                Some(storage) => storage,
                None => self.storage(Kind::Fixed),
            };
            self.hold(arg, self.last(storage));
        }
        for (at, &op) in self.func.body.iter().enumerate() {
            self.at = at;
            self.operands(op)?;
            self.results(op)?;
            for value in std::mem::take(&mut self.dying[at]) {
                self.release(value);
            }
        }
        for (number, &value) in self.func.results.iter().enumerate() {
            self.returned(number, value)?;
        }
        Ok(())
    }

    /// Checks that the function states the size of its arena exactly if offsets are decided.
    fn arena(&self) -> Outcome<()> {
        let size = self.func.attrs.get(ARENA);
        let wanted = match (self.state, size) {
            (State::Bufferized, None) => return Ok(()),
            (State::Planned, Some(size)) if size.as_int().is_some_and(|n| 0 <= n) => return Ok(()),
            (State::Bufferized, Some(_)) => "none before memory is planned",
            (State::Planned, _) => "a number of bytes",
        };
        let message = format!(
            "the attribute {ARENA} of @{}: wanted {wanted}",
            self.func.name
        );
        let diag = Diagnostic::error(codes::MEMORY_SYNTAX, message);
        Err(Box::new(diag.at(self.func.span, "this function")))
    }

    /// Checks that the operands of an operation still have their elements.
    fn operands(&self, op: Op) -> Outcome<()> {
        for (number, &value) in self.func.ops[op].operands.iter().enumerate() {
            let lost = |held: Held| self.storages[held.storage].writes != held.write;
            if self.holds(value).any(lost) {
                let message =
                    format!("operand {number} is read after another value was written over it");
                return self.refuse(op, codes::MEMORY_OVERLAP, message);
            }
        }
        Ok(())
    }

    fn results(&mut self, op: Op) -> Outcome<()> {
        let data = &self.func.ops[op];
        let places = match memory::places(data) {
            Ok(Some(places)) => places,
            Ok(None) if data.results.is_empty() => return Ok(()),
            Ok(None) => {
                let message = format!(
                    "the operation has no attribute `{}`, wanted a place for each result",
                    memory::MEMORY
                );
                return self.refuse(op, codes::MEMORY_SYNTAX, message);
            }
            Err(fault) => return self.refuse(op, codes::MEMORY_SYNTAX, fault.to_string()),
        };
        let parts = in_place::lies_in_operand(self.func, op, self.registry);
        for ((&result, place), part) in data.results.iter().zip(places).zip(parts) {
            if let Some(pieces) = self.in_pieces(op, place, part)? {
                self.counted.aliases += 1;
                pieces
                    .iter()
                    .for_each(|held| self.needed[held.storage] += 1);
                self.pieces[result] = pieces;
                continue;
            }
            let held = self.place(op, result, place, part)?;
            self.beside_pieces(op, held)?;
            let held = self.changed(op, held)?;
            self.hold(result, held);
        }
        Ok(())
    }

    /// The storage of the result of the function in whose memory an argument lies; `None` for an argument with memory of
    /// its own.
    fn in_result(&mut self, arg: Value) -> Outcome<Option<usize>> {
        let Some(&whole) = self
            .wholes
            .get(&arg)
            .filter(|_| self.homes.contains_key(&arg))
        else {
            return Ok(None);
        };
        if self.begun.contains_key(&whole) {
            return Ok(None);
        }
        let storage = self.begin(whole)?;
        self.counted.aliases += u64::from(storage.is_some());
        Ok(storage)
    }

    /// The storage of a value in which others lie. It is made at the first write into it. `None` for a value that has no
    /// memory of its own.
    fn begin(&mut self, whole: Value) -> Outcome<Option<usize>> {
        if let Some(&storage) = self.begun.get(&whole) {
            return Ok(Some(storage));
        }
        let ValueDef::Result(maker, number) = self.func.values[whole].def else {
            return Ok(None);
        };
        let places = memory::places(&self.func.ops[maker]).ok().flatten();
        let place = places.and_then(|places| places.get(number).copied());
        let Some(place @ (Place::Own | Place::Arena(_) | Place::Result(_))) = place else {
            return Ok(None);
        };
        let held = self.place(maker, whole, place, false)?;
        self.begun.insert(whole, held.storage);
        Ok(Some(held.storage))
    }

    /// The place of the result of an operation. An update that keeps the other elements where they lie writes the
    /// storage once more.
    fn changed(&mut self, op: Op, held: Held) -> Outcome<Held> {
        let Some(update) = in_place::settled_update(self.func, op, self.registry) else {
            return Ok(held);
        };
        let data = &self.func.ops[op];
        let there = |v: Value| self.holds(v).any(|h| h.storage == held.storage);
        if !data.operands.get(update.of).is_some_and(|&v| there(v)) {
            return Ok(held);
        }
        let mut others = data.operands.iter().enumerate();
        if others.any(|(i, &v)| i != update.of && there(v)) {
            let message = "the operation reads another value in the memory that it writes";
            return self.refuse(op, codes::MEMORY_ALIAS, message.to_owned());
        }
        self.counted.in_place += 1;
        self.storages[held.storage].writes += 1;
        Ok(self.last(held.storage))
    }

    /// A place in a storage with the elements of its last write.
    fn last(&self, storage: usize) -> Held {
        Held {
            write: self.storages[storage].writes,
            ..first(storage)
        }
    }

    /// The pieces that a result lies in, if it is in pieces: those of all operands, or of the operand that it is a view
    /// or a part of.
    fn in_pieces(&self, op: Op, place: Place, part: bool) -> Outcome<Option<Vec<Held>>> {
        let data = &self.func.ops[op];
        let refused = |why: &str| self.refuse(op, codes::MEMORY_ALIAS, why.to_owned());
        match place {
            Place::Pieces => {
                let joins = in_place::is_in_pieces(data) && data.results.len() == 1;
                let there = |&v: &Value| self.holds(v).next().is_some();
                if !joins || !data.operands.iter().all(there) {
                    return refused(
                        "the result lies in pieces, and the operation is not `in_pieces`",
                    );
                }
                let all = data.operands.iter().flat_map(|&v| self.holds(v));
                let part = |held: Held| Held { part: true, ..held };
                Ok(Some(all.map(part).collect()))
            }
            Place::Alias(operand) => {
                let value = data.operands.get(operand).copied();
                let Some(value) = value.filter(|&v| !self.pieces[v].is_empty()) else {
                    return Ok(None);
                };
                let one = (data.results.len() == 1 || part) && operand == 0;
                if !one || !(part || self.moves_nothing(op)) {
                    return refused("the result is no view of the operand whose memory it has");
                }
                Ok(Some(self.pieces[value].clone()))
            }
            _ => Ok(None),
        }
    }

    /// Checks that a result is not written between the first and the last byte of an operand that lies in pieces.
    fn beside_pieces(&self, op: Op, held: Held) -> Outcome<()> {
        let Some(own) = self.ranges.get(&held.storage) else {
            return Ok(());
        };
        for (number, &value) in self.func.ops[op].operands.iter().enumerate() {
            let ranges = self.pieces[value].iter();
            let ranges: Option<Vec<&Range<u64>>> =
                ranges.map(|h| self.ranges.get(&h.storage)).collect();
            let ranges = ranges.unwrap_or_default();
            let start = ranges.iter().map(|range| range.start).min();
            let end = ranges.iter().map(|range| range.end).max();
            if start
                .zip(end)
                .is_some_and(|(start, end)| start < own.end && own.start < end)
            {
                let message = format!("the result lies between the pieces of operand {number}");
                return self.refuse(op, codes::MEMORY_OVERLAP, message);
            }
        }
        Ok(())
    }

    /// The place of a result. `part` is true if the result is a part of the operand.
    fn place(&mut self, op: Op, result: Value, place: Place, part: bool) -> Outcome<Held> {
        let bytes = bytes(self.func, result);
        let counted = &mut self.counted;
        if !matches!(place, Place::Constant | Place::Alias(_) | Place::Pieces) {
            counted.unshared_bytes = counted.unshared_bytes.saturating_add(bytes.unwrap_or(0));
        }
        if let Some(&storage) = self.begun.get(&result) {
            return Ok(self.last(storage));
        }
        match place {
            Place::Inside => self.inside(op, result),
            Place::Own if self.state == State::Planned && bytes.is_some() => self.refuse(
                op,
                codes::MEMORY_PLACE,
                "a value of known size has memory of its own, wanted an offset in the arena"
                    .to_owned(),
            ),
            Place::Own => Ok(first(self.own(result))),
            Place::Arena(offset) => self.in_arena(op, (result, bytes), offset),
            Place::Constant => self.constant(op),
            Place::Result(number) => self.for_result(op, number),
            Place::Alias(operand) => self.alias(op, operand, part),
            Place::Over(operand) => self.over(op, operand),
            Place::Pieces => {
                let message = "the value lies in pieces, and others lie inside of it".to_owned();
                self.refuse(op, codes::MEMORY_PLACE, message)
            }
        }
    }

    /// The place of a result in the storage of its whole. The storage is made at the first write into the whole.
    fn inside(&mut self, op: Op, result: Value) -> Outcome<Held> {
        let whole = self.wholes.get(&result).copied();
        let listed = self.homes.contains_key(&result);
        let made = |&whole: &Value| matches!(self.func.values[whole].def, ValueDef::Result(..));
        let Some(whole) = whole.filter(|whole| listed && made(whole)) else {
            let message = "the place is `inside`, but no later operation lists the value in `in_place`, or it cannot be there";
            return self.refuse(op, codes::MEMORY_PLACE, message.to_owned());
        };
        let Some(storage) = self.begin(whole)? else {
            let message = "the place is `inside` a value that has no memory of its own";
            return self.refuse(op, codes::MEMORY_PLACE, message.to_owned());
        };
        let data = &self.func.ops[op];
        let same = |v: &Value| self.holds(*v).any(|held| held.storage == storage);
        let home = data
            .operands
            .iter()
            .filter(|v| same(v))
            .all(|&v| self.is_home(v, op));
        let decl = self.registry.get(&data.name);
        if !home && decl.is_none_or(|decl| decl.family() != "elementwise") {
            let message = "the operation reads another value in the memory that it writes";
            return self.refuse(op, codes::MEMORY_ALIAS, message.to_owned());
        }
        self.counted.aliases += 1;
        Ok(Held {
            part: true,
            ..self.last(storage)
        })
    }

    /// Returns whether an operation wants the memory of a value inside its result.
    fn is_home(&self, value: Value, op: Op) -> bool {
        let path = in_place::path(self.func, value);
        path.last().and_then(|v| self.homes.get(v)) == Some(&op)
    }

    fn in_arena(
        &mut self,
        op: Op,
        (value, bytes): (Value, Option<u64>),
        offset: u64,
    ) -> Outcome<Held> {
        let Some(bytes) = bytes.filter(|_| self.state == State::Planned) else {
            let message = "the place is `arena`, but the size is unknown or `hbir.memory` is not `planned`; run `plan-memory`";
            return self.refuse(op, codes::MEMORY_PLACE, message.to_owned());
        };
        let size = memory::arena(self.func);
        if !offset.is_multiple_of(ALIGNMENT) || size < offset.saturating_add(bytes) {
            let message = format!(
                "{bytes} bytes from {offset} on, wanted a multiple of {ALIGNMENT} and an end within the arena of {size}"
            );
            return self.refuse(op, codes::MEMORY_PLACE, message);
        }
        let storage = self.own(value);
        self.counted.arena_values += 1;
        match self.alive.take(storage, offset, bytes) {
            Ok(()) => {
                let end = offset.saturating_add(bytes);
                self.ranges.insert(storage, offset..end);
                Ok(first(storage))
            }
            Err(_) => {
                let message = format!(
                    "{bytes} bytes from {offset} on, where another value lies that is still read"
                );
                self.refuse(op, codes::MEMORY_OVERLAP, message)
            }
        }
    }

    fn constant(&mut self, op: Op) -> Outcome<Held> {
        let data = &self.func.ops[op];
        let all = data.operands.iter().all(|&v| self.constant[v]);
        let class = || self.registry.class(&self.func.op_ref(op));
        let source = || class() == Some(FreedomClass::Source);
        let known = all && (!data.operands.is_empty() || source());
        if !known || !self.effects.of(self.func, op).is_pure() {
            let message = "the value is not known before the program runs".to_owned();
            return self.refuse(op, codes::MEMORY_PLACE, message);
        }
        for &result in &data.results {
            self.constant[result] = true;
        }
        Ok(first(self.storage(Kind::Fixed)))
    }

    fn for_result(&mut self, op: Op, number: usize) -> Outcome<Held> {
        if self.func.results.len() <= number {
            let message = format!(
                "result {number} of the function, which has {}",
                self.func.results.len()
            );
            return self.refuse(op, codes::MEMORY_PLACE, message);
        }
        if self.results.contains_key(&number) {
            let message = format!("two values are written as result {number} of the function");
            return self.refuse(op, codes::MEMORY_OVERLAP, message);
        }
        let storage = self.storage(Kind::Own);
        self.results.insert(number, storage);
        Ok(first(storage))
    }

    /// The operand whose storage a result shares, and its place.
    fn shared(&self, op: Op, operand: usize) -> Outcome<(Value, Held)> {
        let value = self.func.ops[op].operands.get(operand).copied();
        let held = value.and_then(|v| Some((v, self.held[v]?)));
        match held {
            Some(found) => Ok(found),
            None => {
                let message = format!("the memory of operand {operand}, which is not there");
                self.refuse(op, codes::MEMORY_PLACE, message)
            }
        }
    }

    fn alias(&mut self, op: Op, operand: usize, part: bool) -> Outcome<Held> {
        let (_, held) = self.shared(op, operand)?;
        let one = (self.func.ops[op].results.len() == 1 || part) && operand == 0;
        if !one || !(part || self.moves_nothing(op)) {
            let message = "the result is no view of the operand whose memory it has".to_owned();
            return self.refuse(op, codes::MEMORY_ALIAS, message);
        }
        self.counted.aliases += 1;
        Ok(Held {
            part: held.part || part,
            ..held
        })
    }

    /// Returns whether the elements of the result are at the positions of the operand's.
    fn moves_nothing(&self, op: Op) -> bool {
        let data = &self.func.ops[op];
        let structure = self.registry.structure(&data.name);
        if structure == Structure::View {
            // The verifier has compared the layouts.
            return true;
        }
        let op = self.func.op_ref(op);
        let (Ok(from), Ok(to)) = (op.operand(0), op.result(0)) else {
            return false;
        };
        let map = match self.registry.get(&data.name) {
            Some(decl) => decl.rearrangement(&op),
            None => return false,
        };
        if from.dtype != to.dtype {
            return false;
        }
        let layouts = (
            layout_of(self.func, data.operands[0]),
            layout_of(self.func, data.results[0]),
        );
        if structure == Structure::Convert {
            return match layouts {
                (Some(a), Some(b)) => a.same_function(&b),
                _ => from == to,
            };
        }
        let Ok(dims) = map else { return false };
        match (
            layouts,
            dims.shape.iter().map(optc_ir::Dim::fixed).collect(),
        ) {
            ((Some(a), Some(b)), Some(shape)) => {
                let (perm, result) = (Some(dims.perm), b.shape().to_vec());
                let shape = Some(shape);
                is_view(
                    &a,
                    &ViewMap {
                        shape,
                        perm,
                        result,
                    },
                    &b,
                )
                .is_ok()
            }
            _ => {
                let plain = [from, to]
                    .iter()
                    .all(|ty| ty.notation == Notation::RowMajor);
                plain && dims.is_reshape()
            }
        }
    }

    fn over(&mut self, op: Op, number: usize) -> Outcome<Held> {
        let (operand, held) = self.shared(op, number)?;
        let data = &self.func.ops[op];
        let refused = |fault: &str| self.refuse(op, codes::MEMORY_ALIAS, fault.to_owned());
        if self.storages[held.storage].kind == Kind::Fixed {
            return refused("an argument or a constant would be written");
        }
        if held.part || data.results.len() != 1 {
            return refused(
                "a part of another value would be written, or several results over one",
            );
        }
        if !self.same_element(op, number) {
            return refused(
                "the operation reads more of the operand than the element that it writes",
            );
        }
        let mut others = data.operands.iter().filter(|&&v| v != operand);
        if others.any(|&v| self.holds(v).any(|h| h.storage == held.storage)) {
            return refused("the operation reads another value in the memory that it writes");
        }
        self.counted.in_place += 1;
        let storage = &mut self.storages[held.storage];
        storage.writes += 1;
        Ok(Held {
            write: storage.writes,
            ..held
        })
    }

    /// Returns whether an element-wise operation computes each element from the element of the operand in the same
    /// bytes.
    fn same_element(&self, op: Op, number: usize) -> bool {
        let data = &self.func.ops[op];
        let Some(decl) = self.registry.get(&data.name) else {
            return false;
        };
        let freedom = decl.freedom(&self.func.op_ref(op));
        let alone = |label: &optc_ir::Label| label.role == Role::Parallel;
        let elementwise = decl.family() == "elementwise" && freedom.labels.iter().all(alone);
        let same = freedom.operands.get(number) == freedom.results.first();
        if !elementwise || !same || !self.effects.of(self.func, op).is_pure() {
            return false;
        }
        let (Some(a), Some(b)) = (
            self.func.ty(data.operands[number]).as_tensor(),
            self.func.ty(data.results[0]).as_tensor(),
        ) else {
            return false;
        };
        let layouts = (
            layout_of(self.func, data.operands[number]),
            layout_of(self.func, data.results[0]),
        );
        let together = match layouts {
            (Some(a), Some(b)) => a.same_function(&b),
            _ => a.notation == b.notation,
        };
        together && a.dims == b.dims && a.dtype.bits() == b.dtype.bits()
    }

    /// Releases a value after its last reader.
    fn release(&mut self, value: Value) {
        for held in self.holds(value).collect::<Vec<_>>() {
            let needed = &mut self.needed[held.storage];
            *needed = needed.saturating_sub(1);
            if *needed == 0 {
                self.alive.give(held.storage);
                self.storages[held.storage].lives[1] = self.at;
            }
        }
    }

    /// Checks that a result of the function still has its elements, and lies in the storage written for it.
    fn returned(&self, number: usize, value: Value) -> Outcome<()> {
        let meant = self.results.get(&number);
        let fine = |held: Held| {
            let there = self.storages[held.storage].writes == held.write;
            there && meant.is_none_or(|&storage| storage == held.storage && !held.part)
        };
        if self.holds(value).all(fine) {
            return Ok(());
        }
        let message = format!(
            "result {number} of @{} was written over, or another value was written for it",
            self.func.name
        );
        let diag = Diagnostic::error(codes::MEMORY_OVERLAP, message);
        Err(Box::new(diag.at(self.func.span, "this function")))
    }
}

/// A storage that was written once.
fn first(storage: usize) -> Held {
    Held {
        storage,
        write: 1,
        part: false,
    }
}

fn layout_of(func: &Func, value: Value) -> Option<Layout> {
    func.ty(value).as_tensor()?.layout()?.ok()
}

/// The bytes of a value in memory, padding included.
fn bytes(func: &Func, value: Value) -> Option<u64> {
    layout_of(func, value).map(|layout| layout.bytes())
}
