//! Decides which values share memory: views lie in the bytes of their operand, and element-wise operations write over
//! operands that die there.
//!
//! ```ir before
//! func.func @main(%x: tensor<2x3xf32>) -> tensor<6xf32> {
//!   %0 = "hbir.exp"(%x) : (tensor<2x3xf32>) -> tensor<2x3xf32>
//!   %1 = "hbir.neg"(%0) : (tensor<2x3xf32>) -> tensor<2x3xf32>
//!   %2 = "hbir.view"(%1) : (tensor<2x3xf32>) -> tensor<6xf32>
//!   %3 = "hbir.softmax"(%2) <{axis = 0}> : (tensor<6xf32>) -> tensor<6xf32>
//!   return %3 : tensor<6xf32>
//! }
//! ```
//! ```ir after
//! module attributes {hbir.memory = "bufferized"} {
//!   func.func @main(%x: tensor<2x3xf32>) -> tensor<6xf32> {
//!     %0 = "hbir.exp"(%x) {memory = ["own"]} : (tensor<2x3xf32>) -> tensor<2x3xf32>
//!     %1 = "hbir.neg"(%0) {memory = ["over 0"]} : (tensor<2x3xf32>) -> tensor<2x3xf32>
//!     %2 = "hbir.view"(%1) {memory = ["alias 0"]} : (tensor<2x3xf32>) -> tensor<6xf32>
//!     %3 = "hbir.softmax"(%2) <{axis = 0}> {memory = ["result 0"]} : (tensor<6xf32>) -> tensor<6xf32>
//!     return %3 : tensor<6xf32>
//!   }
//! }
//! ```
//!
//! Every result of every operation gets a [`Place`]:
//! 1. `constant`, if it is known at compile time;
//! 2. `alias`, if it lies in the bytes of its operand: it only renames the elements (a view, a reshape, or a conversion
//!    that moves nothing), or it is a part or a repetition of them (a `subview`, or a result that is `in_place`);
//! 3. `over`, if its operation is element-wise, reads an operand with the same layout and element width for the last
//!    time, and no other value needs that memory; among several such operands the one with the oldest memory;
//! 4. `inside`, if a later operation needs it in its own result, as `elide-copies` found: it is written there directly,
//!    with the strides that this takes, and so are its aliases;
//! 5. `pieces`, if its operation is `in_pieces`: its readers read the operands, which live as long as it does;
//! 6. `result`, if the function returns it, or a value in its bytes;
//! 7. `own` memory otherwise, which `plan-memory` places.
//!
//! # Soundness
//! 1. An alias is written only where its parent is. An operation that writes `over` memory is the last one to read any
//!    value in it, aliases included.
//! 2. An element-wise operation reads of that operand only the element that it writes: dimensions of both stand for the
//!    same loops, the layouts are one function, and any other operand in this memory is the same value.
//! 3. Constants do not belong to the function and are never written. An argument is written only if it shares its
//!    memory with the result of the function that is written there (`hbir.alias`).
//! 4. An operation of a group that runs tile by tile writes only over values that its own group makes, because another
//!    program may still read the rest of any other value.
//! 5. A part lies among other elements and is not written over. A part that is returned is copied to the caller.
//! 6. A value is written inside another one only as the checker of parts accepts it: one writer a byte. The whole lives
//!    from the first of these writes on. An operation that is not element-wise and reads a value in that memory writes
//!    nothing else into it; the operand is copied then.
//!
//! With `max-live=N` a program with more than N bytes alive at once is refused.
//!
//! # Not done
//! Operations that are not element-wise never write over an operand. Tiles have no memory of their own here: values
//! inside a group have places like all others.
//!
//! # Cost
//! Linear in operations and operands.
//!
//! # Neighbours
//! Run last, after every pass that changes operations, and before `plan-memory`.
//!
//! # Source
//! MLIR's One-Shot Bufferize; XLA's `HloAliasAnalysis` and `BufferAssignment`.

use crate::codes;
use crate::names::printed_name;
use crate::pass::{Changed, OptionInfo, Options, Outcome, Pass, PassContext, PassInfo, Phase};
use optc_check::stats::known_values;
use optc_check::{Buffer, Memory, most_alive, parts};
use optc_ir::effects::Effects;
use optc_ir::entity::SideTable;
use optc_ir::memory::{self, Place, State};
use optc_ir::op::in_place;
use optc_ir::size::SizeTable;
use optc_ir::{Diagnostic, Func, Module, Op, Registry, Role, Structure, TensorType, Value};
use optc_layout::{Layout, Notation, ViewMap, is_view};
use optc_tile::Plan;
use std::collections::BTreeMap;

static INFO: PassInfo = PassInfo {
    name: "bufferize",
    summary: "decide which values share memory: views and parts alias, element-wise operations write in place",
    phases: (Phase::Imported, Phase::Bufferized),
    required: false,
    options: &[MAX_LIVE],
};

/// The family of operations that may write over an operand.
pub(crate) const IN_PLACE: &str = "elementwise";

/// The pass.
#[derive(Clone, Copy, Default, Debug)]
pub struct Bufferize;

impl Pass for Bufferize {
    fn info(&self) -> &'static PassInfo {
        &INFO
    }

    fn run(&self, module: &mut Module, cx: &mut PassContext) -> Result<Outcome, Box<Diagnostic>> {
        let limit = limit(&cx.options, &INFO)?;
        let changed = memory::State::of(module) != Some(State::Bufferized);
        if changed {
            share(module, &cx.registry);
        }
        if let Some(limit) = limit {
            check_limit(module, limit, cx)?;
        }
        Ok(Changed::from(changed).into())
    }
}

/// Writes into a module which of its values share memory.
fn share(module: &mut Module, registry: &Registry) {
    memory::clear(module);
    let effects = Effects::of_module(module, registry);
    let decided: Vec<Vec<(Op, Vec<Place>)>> = module
        .funcs
        .iter()
        .map(|func| Sharing::of(func, registry, &effects).places())
        .collect();
    for (func, decided) in module.funcs.iter_mut().zip(decided) {
        for (op, places) in decided {
            memory::set_places(&mut func.ops[op], &places);
        }
    }
    State::Bufferized.set(module);
}

/// The memory that values of each function have for themselves, as the module states, or as `bufferize` would decide if
/// it states nothing; see [`optc_check::memory_of`].
///
/// # Errors
/// The module's statements about its memory are refused.
pub fn memory_of(
    module: &Module,
    registry: &Registry,
    sizes: &SizeTable,
) -> Result<Vec<Memory>, Box<Diagnostic>> {
    if State::of(module).is_some() {
        return optc_check::memory_of(module, registry, sizes);
    }
    let mut shared = module.clone();
    share(&mut shared, registry);
    optc_check::memory_of(&shared, registry, sizes)
}

/// Refuses a module with more than `limit` bytes alive at once.
pub(crate) fn check_limit(
    module: &Module,
    limit: u64,
    cx: &PassContext,
) -> Result<(), Box<Diagnostic>> {
    let sizes = SizeTable::new(&cx.bindings);
    let all = memory_of(module, &cx.registry, &sizes)?;
    let mut both = module.funcs.iter().zip(&all);
    let above = both.find(|(_, memory)| limit < most_alive(&memory.buffers).0);
    match above {
        Some((func, memory)) => Err(Box::new(above_limit(func, &memory.buffers, limit))),
        None => Ok(()),
    }
}

/// The most buffers that are named in an error.
const NAMED: usize = 5;

/// The error for a function with more than `limit` bytes alive at once: how many, at which operation, and in which
/// buffers.
pub(crate) fn above_limit(func: &Func, buffers: &[Buffer], limit: u64) -> Diagnostic {
    let (bytes, place) = most_alive(buffers);
    let message = format!(
        "@{} keeps {bytes} bytes alive at once, wanted at most {limit} (max-live)",
        func.name
    );
    let mut diag = Diagnostic::error(codes::MAX_LIVE, message);
    if let Some(&op) = func.body.get(place) {
        diag = diag.at(func.ops[op].span, "here");
    }
    let there = |buffer: &&Buffer| buffer.first <= place && place <= buffer.last;
    let mut alive: Vec<&Buffer> = buffers.iter().filter(there).collect();
    alive.sort_by_key(|buffer| std::cmp::Reverse(buffer.bytes));
    let named = alive.iter().take(NAMED);
    let named = named.map(|b| format!("{}, {} bytes", printed_name(func, b.value), b.bytes));
    let named: Vec<String> = named.collect();
    let more = match alive.len().saturating_sub(NAMED) {
        0 => String::new(),
        n => format!("; and {n} more"),
    };
    diag.note(format!("alive there: {}{more}", named.join("; ")))
}

/// The limit that the option `max-live` of a pass states.
///
/// # Errors
/// It is not a number of bytes.
pub(crate) fn limit(options: &Options, info: &PassInfo) -> Result<Option<u64>, Box<Diagnostic>> {
    match options.get(info, MAX_LIVE.name) {
        text if text == MAX_LIVE.default => Ok(None),
        _ => options.number(info, MAX_LIVE.name).map(Some),
    }
}

/// The option of passes that decide which values are alive, or check it.
pub(crate) const MAX_LIVE: OptionInfo = OptionInfo {
    name: "max-live",
    default: "none",
    summary: "bytes that may be alive at once, at the sizes that costs are compared at",
};

/// The most bytes that are alive at once in any function of a module, at these sizes of names, by [`memory_of`].
///
/// # Errors
/// As for [`memory_of`].
pub fn live_bytes(
    module: &Module,
    registry: &Registry,
    sizes: &SizeTable,
) -> Result<u64, Box<Diagnostic>> {
    let all = memory_of(module, registry, sizes)?;
    let most = all.iter().map(|of| most_alive(&of.buffers).0);
    Ok(most.max().unwrap_or(0))
}

/// Facts about memory that values share, kept at the value that was there first.
#[derive(Clone, Copy, Default)]
struct Shared {
    /// The position of the first operation that writes it.
    first: usize,
    /// The position of the last operation that reads it.
    last: usize,
    /// The first result of the function that lies in it.
    result: Option<usize>,
    /// True if it is a function's argument or a constant.
    fixed: bool,
}

/// The memory of the values of one function.
struct Sharing<'a> {
    func: &'a Func,
    registry: &'a Registry,
    effects: &'a Effects<'a>,
    known: SideTable<Value, bool>,
    /// The group of each operation that runs tile by tile.
    tiles: BTreeMap<Op, usize>,
    /// The value whose memory contains a value.
    parent: SideTable<Value, Option<Value>>,
    /// True if a value is a part of its memory, or lies in a part.
    is_part: SideTable<Value, bool>,
    shared: SideTable<Value, Shared>,
    over: SideTable<Op, Option<usize>>,
    alias: SideTable<Value, bool>,
    /// True if a value is written inside the result of a later operation.
    inside: SideTable<Value, bool>,
    /// True if a value lies in the bytes of all operands.
    pieces: SideTable<Value, bool>,
    /// True if the memory of a root contains pieces of some value.
    holds_pieces: SideTable<Value, bool>,
}

impl<'a> Sharing<'a> {
    fn of(func: &'a Func, registry: &'a Registry, effects: &'a Effects<'a>) -> Self {
        let mut sharing = Sharing {
            func,
            registry,
            effects,
            known: known_values(func, registry, effects),
            tiles: groups(func),
            parent: SideTable::new(None),
            is_part: SideTable::new(false),
            shared: SideTable::new(Shared::default()),
            over: SideTable::new(None),
            alias: SideTable::new(false),
            inside: SideTable::new(false),
            pieces: SideTable::new(false),
            holds_pieces: SideTable::new(false),
        };
        sharing.aliases();
        sharing.insides();
        sharing.lifetimes();
        sharing.in_place();
        sharing
    }

    /// The value that represents the memory of a value.
    fn root(&mut self, value: Value) -> Value {
        let mut root = value;
        while let Some(up) = self.parent[root] {
            root = up;
        }
        let mut at = value;
        while let Some(up) = self.parent[at].filter(|&up| up != root) {
            self.parent[at] = Some(root);
            at = up;
        }
        root
    }

    /// Joins values with those whose bytes they lie in by definition.
    fn aliases(&mut self) {
        for &arg in &self.func.args {
            self.shared[arg].fixed = true;
        }
        for &op in &self.func.body {
            let data = &self.func.ops[op];
            let known = data.results.iter().any(|&r| self.known[r]);
            let gathers = !known && data.results.len() == 1 && in_place::is_in_pieces(data);
            for &result in &data.results {
                self.shared[result].fixed = known;
                self.pieces[result] = gathers;
                self.is_part[result] = gathers;
            }
            if gathers {
                continue;
            }
            let Some(&operand) = data.operands.first().filter(|_| !known) else {
                continue;
            };
            let renames = data.results.len() == 1 && renames(self.func, op, self.registry);
            let parts = in_place::lies_in_operand(self.func, op, self.registry);
            for (&result, part) in data.results.iter().zip(parts) {
                if part || renames {
                    self.alias[result] = true;
                    self.parent[result] = Some(self.root(operand));
                    self.is_part[result] = part || self.is_part[operand];
                }
            }
        }
    }

    /// Joins values with later values that need them in their bytes, the outermost first.
    fn insides(&mut self) {
        let func = self.func;
        let homes = parts::homes(func, self.registry, self.effects);
        if homes.is_empty() {
            return;
        }
        let mut readers: SideTable<Value, Vec<Op>> = SideTable::new(Vec::new());
        let mut order: SideTable<Op, usize> = SideTable::new(0);
        for (place, &op) in func.body.iter().enumerate() {
            order[op] = place;
            for &operand in &func.ops[op].operands {
                // The readers of an alias read this memory.
                let root = self.root(operand);
                let results = &func.ops[op].results;
                let own = !results.is_empty() && results.iter().all(|&r| self.alias[r]);
                if !own && readers[root].last() != Some(&op) {
                    readers[root].push(op);
                }
            }
        }
        let mut homes: Vec<(Value, Op)> = homes.into_iter().collect();
        // Of the operands of one operation, arguments come first: other values can be copied there.
        homes.sort_by_key(|&(value, home)| {
            (std::cmp::Reverse(order[home]), func.def_op(value).is_some())
        });
        for (value, home) in homes {
            let [whole] = func.ops[home].results[..] else {
                continue;
            };
            let writer = func.def_op(value);
            let memory = self.root(whole);
            let fixed = match writer {
                Some(_) => self.shared[value].fixed,
                None => !self.is_given(value, memory),
            };
            let updates = in_place::settled_update(func, home, self.registry).is_some();
            let tiled = updates && self.tiles.contains_key(&home);
            if self.alias[value] || fixed || tiled || self.parent[value].is_some() {
                continue;
            }
            let by_element = |sharing: &Self, op: Op| {
                let decl = sharing.registry.get(&func.ops[op].name);
                decl.is_some_and(|decl| decl.family() == IN_PLACE)
            };
            let reads = |sharing: &mut Self, op: Op| {
                let operands = &func.ops[op].operands;
                !by_element(sharing, op) && operands.iter().any(|&v| sharing.root(v) == memory)
            };
            let writes = |sharing: &mut Self, op: Op| {
                let results = &func.ops[op].results;
                let beside = op == home || by_element(sharing, op);
                !beside && results.iter().any(|&v| sharing.root(v) == memory)
            };
            let reads = writer.is_some_and(|writer| reads(self, writer));
            if reads || readers[value].iter().any(|&op| writes(self, op)) {
                continue;
            }
            self.parent[value] = Some(memory);
            (self.inside[value], self.is_part[value]) = (true, true);
            let mut gained = std::mem::take(&mut readers[value]);
            readers[memory].append(&mut gained);
        }
        for &op in &func.body {
            let data = &func.ops[op];
            let Some(&operand) = data.operands.first() else {
                continue;
            };
            for &result in &data.results {
                self.is_part[result] |= self.alias[result] && self.is_part[operand];
            }
        }
    }

    /// Returns whether an argument may be written, because the first result of the function in this memory shares its own
    /// with the argument.
    fn is_given(&mut self, arg: Value, memory: Value) -> bool {
        let aliased = in_place::aliased_results(self.func, arg);
        let mut results = self.func.results.iter();
        let first = results.position(|&r| self.root(r) == memory);
        let part = first.is_some_and(|first| self.is_part[self.func.results[first]]);
        !part && first.is_some_and(|first| aliased.contains(&first))
    }

    /// Finds the last reader of each memory, and whether the function returns it.
    fn lifetimes(&mut self) {
        for (place, &op) in self.func.body.iter().enumerate() {
            let data = &self.func.ops[op];
            for &result in &data.results {
                self.shared[result].first = place;
            }
            for &value in data.operands.iter().chain(&data.results) {
                let root = self.root(value);
                self.shared[root].last = place;
            }
        }
        for value in self.func.values.ids() {
            if self.inside[value] {
                let (root, first) = (self.root(value), self.shared[value].first);
                let memory = &mut self.shared[root];
                memory.first = memory.first.min(first);
            }
        }
        for &value in &self.func.results {
            let root = self.root(value);
            self.shared[root].last = self.func.body.len();
        }
        // A value in pieces is read from its pieces. Its readers come later, and so do readers of the values that it is
        // a piece of.
        for &op in self.func.body.iter().rev() {
            let data = &self.func.ops[op];
            let [result] = data.results[..] else { continue };
            if self.pieces[result] {
                let last = self.shared[result].last;
                for &operand in &data.operands {
                    let root = self.root(operand);
                    self.holds_pieces[root] = true;
                    let memory = &mut self.shared[root];
                    memory.last = memory.last.max(last);
                }
            }
        }
        for (number, &value) in self.func.results.iter().enumerate() {
            let root = self.root(value);
            let shared = &mut self.shared[root];
            if !self.is_part[value] && shared.result.is_none() {
                shared.result = Some(number);
            }
        }
    }

    /// Joins the results of element-wise operations with operands that die there.
    fn in_place(&mut self) {
        for (place, &op) in self.func.body.iter().enumerate() {
            let data = &self.func.ops[op];
            let [result] = data.results[..] else { continue };
            let shares = self.alias[result] || self.inside[result] || self.pieces[result];
            if shares || self.known[result] {
                continue;
            }
            // The oldest memory is preferred: the values along a residual network then stay in one place.
            let dying = (0..data.operands.len()).filter(|&i| self.dies_under(op, i, place));
            let dying: Vec<usize> = dying.collect();
            let found = dying
                .into_iter()
                .min_by_key(|&i| self.age(data.operands[i]));
            if let Some(operand) = found {
                let root = self.root(data.operands[operand]);
                let later = self.shared[result];
                let memory = &mut self.shared[root];
                (memory.last, memory.result) = (later.last, later.result);
                self.holds_pieces[root] |= self.holds_pieces[result];
                self.parent[result] = Some(root);
                self.over[op] = Some(operand);
            }
        }
    }

    /// The position of the operation that first wrote the memory of a value.
    fn age(&mut self, value: Value) -> usize {
        let root = self.root(value);
        self.shared[root].first
    }

    /// Returns whether the result of the operation at this position may be written over its operand of this number.
    fn dies_under(&mut self, op: Op, number: usize, place: usize) -> bool {
        let data = &self.func.ops[op];
        let (operand, result) = (data.operands[number], data.results[0]);
        if self.is_part[operand] || !same_bytes(self.func, operand, result) {
            return false;
        }
        // If an operation reads pieces, the bytes among these pieces must not be written.
        let mut roots = Vec::with_capacity(data.operands.len());
        for &v in &data.operands {
            roots.push(self.root(v));
        }
        if roots.iter().any(|&root| self.pieces[root]) {
            return false;
        }
        let root = self.root(operand);
        let group = |op: Op| self.tiles.get(&op);
        if let Some(own) = group(op)
            && self.func.def_op(root).and_then(group) != Some(own)
        {
            return false;
        }
        // All pieces of a value are in one memory, which must not be one that the caller gets.
        let holds = self.holds_pieces[root] || self.holds_pieces[result];
        if holds && self.shared[result].result.is_some() {
            return false;
        }
        let memory = self.shared[root];
        if memory.fixed || memory.last != place {
            return false;
        }
        let others = &data.operands;
        if (0..others.len()).any(|i| others[i] != operand && self.root(others[i]) == root) {
            return false;
        }
        self.effects.of(self.func, op).is_pure() && reads_what_it_writes(self, op, number)
    }

    /// The places of all results, operation by operation.
    fn places(mut self) -> Vec<(Op, Vec<Place>)> {
        let func = self.func;
        let mut all = Vec::with_capacity(func.body.len());
        for &op in func
            .body
            .iter()
            .filter(|&&op| !func.ops[op].results.is_empty())
        {
            let results = &func.ops[op].results;
            let places = results.iter().map(|&result| self.place(op, result));
            all.push((op, places.collect()));
        }
        all
    }

    fn place(&mut self, op: Op, result: Value) -> Place {
        if self.known[result] {
            return Place::Constant;
        }
        if self.alias[result] {
            return Place::Alias(0);
        }
        if self.inside[result] {
            return Place::Inside;
        }
        if self.pieces[result] {
            return Place::Pieces;
        }
        if let Some(operand) = self.over[op] {
            return Place::Over(operand);
        }
        match self.shared[result].result {
            Some(number) => Place::Result(number),
            None => Place::Own,
        }
    }
}

/// The groups of a function's plan of tiles; empty if the plan is malformed.
pub(crate) fn groups(func: &Func) -> BTreeMap<Op, usize> {
    let plan = Plan::read(func).ok().flatten().unwrap_or_default();
    let tiles = plan.tiles.into_iter();
    tiles.map(|(op, tile)| (op, tile.group)).collect()
}

/// Returns whether an operation with one result only renames the elements of its operand.
fn renames(func: &Func, op: Op, registry: &Registry) -> bool {
    let data = &func.ops[op];
    let op = func.op_ref(op);
    let (Ok(from), Ok(to)) = (op.operand(0), op.result(0)) else {
        return false;
    };
    match registry.structure(&data.name) {
        Structure::View => return true,
        Structure::Convert => return from.dtype == to.dtype && one_function(from, to),
        Structure::Plain => {}
        Structure::Constant | Structure::Call | Structure::Opaque => return false,
    }
    if data.operands.len() != 1 || from.dtype != to.dtype {
        return false;
    }
    let Some(Ok(dims)) = registry.get(&data.name).map(|decl| decl.rearrangement(&op)) else {
        return false;
    };
    let plain = |ty: &TensorType| ty.notation == Notation::RowMajor;
    if dims.is_reshape() && plain(from) && plain(to) {
        return true;
    }
    let fixed = dims.shape.iter().map(|dim| dim.fixed()).collect();
    let (Some(shape), Some(from), Some(to)) = (fixed, layout(from), layout(to)) else {
        return false;
    };
    let map = ViewMap {
        shape: Some(shape),
        perm: Some(dims.perm),
        result: to.shape().to_vec(),
    };
    is_view(&from, &map, &to).is_ok()
}

fn layout(ty: &TensorType) -> Option<Layout> {
    ty.layout()?.ok()
}

/// Returns whether the layouts of two types are one function. For unknown sizes, whether they are written in the same
/// way.
fn one_function(a: &TensorType, b: &TensorType) -> bool {
    match (layout(a), layout(b)) {
        (Some(a), Some(b)) => a.same_function(&b),
        _ => a.dims == b.dims && a.notation == b.notation,
    }
}

/// Returns whether each element of one value has the bytes of the same element of the other.
fn same_bytes(func: &Func, a: Value, b: Value) -> bool {
    let (Some(a), Some(b)) = (func.ty(a).as_tensor(), func.ty(b).as_tensor()) else {
        return false;
    };
    a.dims == b.dims && a.dtype.bits() == b.dtype.bits() && one_function(a, b)
}

/// Returns whether an operation is element-wise and, for each element of its result, reads only the same element of
/// this operand.
fn reads_what_it_writes(sharing: &Sharing<'_>, op: Op, operand: usize) -> bool {
    let name = &sharing.func.ops[op].name;
    let Some(decl) = sharing.registry.get(name) else {
        return false;
    };
    if decl.family() != IN_PLACE {
        return false;
    }
    let freedom = decl.freedom(&sharing.func.op_ref(op));
    let parallel = freedom.labels.iter().all(|l| l.role == Role::Parallel);
    let operand = freedom.operands.get(operand);
    parallel && operand.is_some() && operand == freedom.results.first()
}
