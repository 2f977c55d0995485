//! Assigns an offset in one arena to every value that needs memory of its own.
//!
//! ```ir before
//! module attributes {hbir.memory = "bufferized"} {
//!   func.func @main(%x: tensor<2x8xf32>) -> tensor<2x8xf32> {
//!     %0 = "hbir.softmax"(%x) <{axis = 1}> {memory = ["own"]} : (tensor<2x8xf32>) -> tensor<2x8xf32>
//!     %1 = "hbir.softmax"(%0) <{axis = 0}> {memory = ["own"]} : (tensor<2x8xf32>) -> tensor<2x8xf32>
//!     %2 = "hbir.softmax"(%1) <{axis = 1}> {memory = ["own"]} : (tensor<2x8xf32>) -> tensor<2x8xf32>
//!     %3 = "hbir.softmax"(%2) <{axis = 0}> {memory = ["result 0"]} : (tensor<2x8xf32>) -> tensor<2x8xf32>
//!     return %3 : tensor<2x8xf32>
//!   }
//! }
//! ```
//! ```ir after
//! module attributes {hbir.memory = "planned"} {
//!   func.func @main(%x: tensor<2x8xf32>) -> tensor<2x8xf32> attributes {hbir.arena = 128} {
//!     %0 = "hbir.softmax"(%x) <{axis = 1}> {memory = ["arena 0"]} : (tensor<2x8xf32>) -> tensor<2x8xf32>
//!     %1 = "hbir.softmax"(%0) <{axis = 0}> {memory = ["arena 64"]} : (tensor<2x8xf32>) -> tensor<2x8xf32>
//!     %2 = "hbir.softmax"(%1) <{axis = 1}> {memory = ["arena 0"]} : (tensor<2x8xf32>) -> tensor<2x8xf32>
//!     %3 = "hbir.softmax"(%2) <{axis = 0}> {memory = ["result 0"]} : (tensor<2x8xf32>) -> tensor<2x8xf32>
//!     return %3 : tensor<2x8xf32>
//!   }
//! }
//! ```
//!
//! 1. A buffer lives from the first operation that writes it, or a part of it, to the last one that reads it, or a part
//!    of it. Its life is prolonged where several operations can be one step:
//!    - A buffer that a group reads lives to the last operation of the group.
//!    - A sum of products may only be added to something, inside another value. A buffer that the sum reads then lives to
//!      the addition.
//!    - A convolution may only be normalized with known means. A buffer that it reads then lives to the norm.
//!    - Element-wise operations alone may make smaller elements of the result of a sum, a softmax or a norm. A buffer that
//!      the sum, softmax or norm reads then lives to the last of these operations. So does a value that element-wise
//!      operations widened into such a buffer.
//! 2. Buffers that hold pieces of one value form one block, each of which lives until the last of them dies. In a block
//!    they stand in the order in which the program runs, so that an operation that reads pieces writes behind them.
//! 3. Offsets are assigned in several orders (`assign.rs`): as the program runs, then by size, by size times life, and
//!    by life. The smallest arena is taken. If it is larger than the bytes that are alive at once, the buffer that
//!    reaches highest is moved forward and the order is tried again.
//!
//! # Soundness
//! Buffers that are alive at one operation share no byte: an operation reads its operands while it writes its results.
//! The checker decides this independently (`memory-overlap`).
//!
//! # Not done
//! Operations keep their order, though another order may need less memory. A value of unknown size stays in memory of
//! its own (remark `memory-unplanned`).
//!
//! # Cost
//! The order of the program takes n log n in the number of buffers. The other orders look at pairs of buffers that are
//! alive together, and stop after `effort` such looks for each buffer.
//!
//! # Neighbours
//! Run after `bufferize`.
//!
//! # Source
//! The greedy orders of TFLite's `GreedyMemoryPlanner` and XLA's `GlobalDecreasingSizeBestFitHeap`; the repair of
//! `minimalloc` and TelaMalloc.

mod assign;
mod report;

pub use report::{ArenaReport, MemoryReport};

use crate::bufferize::{IN_PLACE, groups};
use crate::codes;
use crate::pass::{OptionInfo, Outcome, Pass, PassContext, PassInfo, Phase};
use assign::{Assignment, Buffer};
use optc_check::check_memory;
use optc_ir::analysis::Uses;
use optc_ir::entity::SideTable;
use optc_ir::memory::{self, ALIGNMENT, Place, State};
use optc_ir::op::in_place;
use optc_ir::{Attr, Diagnostic, FreedomClass, Func, Module, Op, Operation, Registry, Role, Value};
use optc_ops::{Add, BatchNorm, Conv};
use std::collections::BTreeMap;

static INFO: PassInfo = PassInfo {
    name: "plan-memory",
    summary: "give every value that needs memory of its own an offset in one arena",
    phases: (Phase::Bufferized, Phase::Bufferized),
    required: false,
    options: &[OptionInfo {
        name: "effort",
        default: "400",
        summary: "pairs of buffers to look at, for each buffer, before the best arena so far is taken",
    }],
};

/// The pass.
#[derive(Clone, Copy, Default, Debug)]
pub struct PlanMemory;

impl Pass for PlanMemory {
    fn info(&self) -> &'static PassInfo {
        &INFO
    }

    fn run(&self, module: &mut Module, cx: &mut PassContext) -> Result<Outcome, Box<Diagnostic>> {
        let effort = cx.options.number(&INFO, "effort")?;
        // Statements of a file about memory have been checked. Those of a module that a library user built have not.
        if let Some(diag) = check_memory(module, &cx.registry).into_iter().next() {
            return Err(Box::new(diag));
        }
        let mut changed = State::of(module) != Some(State::Planned);
        let mut report = MemoryReport::default();
        for func in &mut module.funcs {
            let planned = Planned::of(func, &cx.registry, effort);
            if 0 < planned.unknown {
                cx.remarks.push(unplanned(func, planned.unknown));
            }
            changed |= planned.write(func)?;
            report.funcs.push(planned.report);
        }
        State::Planned.set(module);
        Ok(Outcome::with(changed.into(), report))
    }
}

fn unplanned(func: &Func, count: usize) -> Diagnostic {
    let message = format!(
        "@{} has values of unknown size, each of which has memory of its own: {count}",
        func.name
    );
    let remark = Diagnostic::remark(codes::MEMORY_UNPLANNED, message);
    remark.at(func.span, "this function")
}

/// The buffers of a function and their positions.
struct Planned {
    /// The value that each buffer is made for: an operation and the number of its result.
    owners: Vec<(Op, usize)>,
    assignment: Assignment,
    /// The number of values of unknown size that need memory.
    unknown: usize,
    report: ArenaReport,
}

impl Planned {
    fn of(func: &Func, registry: &Registry, effort: u64) -> Planned {
        let mut lives = Lives::of(func);
        lives.follow(func, registry);
        lives.extend(func, registry);
        let Lives {
            owners,
            mut buffers,
            together,
            unknown,
            ..
        } = lives;
        let blocks = Blocks::of(&buffers, &together);
        for (buffer, &(block, _)) in buffers.iter_mut().zip(&blocks.places) {
            // Bytes between pieces must not be written while any piece is read, so all pieces live as long as the
            // block.
            buffer.last = blocks.buffers[block].last;
        }
        let whole = (&blocks.places[..], &blocks.buffers[..]);
        let assignment = assign::assign_blocks(&buffers, whole, effort);
        let report = ArenaReport {
            func: func.name.to_string(),
            buffers: buffers.len(),
            arena_bytes: assignment.bytes,
            live_bytes: assign::most_alive(&buffers),
            order: assignment.order,
        };
        Planned {
            owners,
            assignment,
            unknown,
            report,
        }
    }

    /// Writes the offsets. Returns whether anything changed.
    fn write(&self, func: &mut Func) -> Result<bool, Box<Diagnostic>> {
        if i64::try_from(self.assignment.bytes).is_err() {
            let message = format!("the values of @{} need 2^63 bytes or more", func.name);
            let error = Diagnostic::error(codes::VALUE_TOO_LARGE, message);
            return Err(Box::new(error.at(func.span, "this function")));
        }
        let mut changed = false;
        let mut at = 0;
        while let Some(&(op, _)) = self.owners.get(at) {
            let mut places = places(func, op);
            while let Some(&(_, number)) = self.owners.get(at).filter(|(next, _)| *next == op) {
                let place = Place::Arena(self.assignment.offsets[at]);
                changed |= places[number] != place;
                places[number] = place;
                at += 1;
            }
            memory::set_places(&mut func.ops[op], &places);
        }
        let size = Attr::int(self.assignment.bytes as i64);
        changed |= func.attrs.get(memory::ARENA) != Some(&size);
        func.attrs.set(memory::ARENA, size);
        Ok(changed)
    }
}

/// The buffers of a function with their live ranges.
struct Lives {
    /// The operation and the number of the result that each buffer is of.
    owners: Vec<(Op, usize)>,
    buffers: Vec<Buffer>,
    buffer_of: SideTable<Value, Option<usize>>,
    /// Pairs of buffers that hold pieces of one value.
    together: Vec<[usize; 2]>,
    /// Results of unknown size.
    unknown: usize,
}

impl Lives {
    /// A buffer for each result that has memory of its own.
    fn of(func: &Func) -> Lives {
        let mut lives = Lives {
            owners: Vec::new(),
            buffers: Vec::new(),
            buffer_of: SideTable::new(None),
            together: Vec::new(),
            unknown: 0,
        };
        for (place, &op) in func.body.iter().enumerate() {
            let results = &func.ops[op].results;
            for (number, (&result, at)) in results.iter().zip(places(func, op)).enumerate() {
                if !matches!(at, Place::Own | Place::Arena(_)) {
                    continue;
                }
                let Some(bytes) = bytes(func, result) else {
                    lives.unknown += 1;
                    continue;
                };
                lives.buffer_of[result] = Some(lives.buffers.len());
                lives.owners.push((op, number));
                lives.buffers.push(Buffer {
                    bytes: bytes.div_ceil(ALIGNMENT).saturating_mul(ALIGNMENT),
                    first: place,
                    last: place,
                });
            }
        }
        lives
    }

    /// Extends the live range of a value's buffer to a reader.
    fn read(&mut self, value: Value, place: usize) {
        if let Some(buffer) = self.buffer_of[value] {
            let last = &mut self.buffers[buffer].last;
            *last = place.max(*last);
        }
    }

    /// Extends live ranges to the last use, through values that lie in others.
    fn follow(&mut self, func: &Func, registry: &Registry) {
        let wholes = in_place::wholes(func, registry);
        for (place, &op) in func.body.iter().enumerate() {
            let data = &func.ops[op];
            for &operand in &data.operands {
                self.read(operand, place);
            }
            for (&result, at) in data.results.iter().zip(places(func, op)) {
                match at {
                    Place::Alias(operand) | Place::Over(operand) => {
                        let operand = data.operands.get(operand).copied();
                        self.buffer_of[result] = operand.and_then(|v| self.buffer_of[v]);
                    }
                    Place::Inside => {
                        let buffer = wholes.get(&result).and_then(|&whole| self.buffer_of[whole]);
                        self.buffer_of[result] = buffer;
                        if let Some(buffer) = buffer {
                            let first = &mut self.buffers[buffer].first;
                            *first = place.min(*first);
                        }
                    }
                    Place::Pieces => {
                        let all = data.operands.iter().filter_map(|&v| self.buffer_of[v]);
                        let all: Vec<usize> = all.collect();
                        self.buffer_of[result] = all.first().copied();
                        self.together
                            .extend(all.iter().map(|&other| [all[0], other]));
                    }
                    Place::Own | Place::Arena(_) | Place::Result(_) | Place::Constant => {}
                }
            }
        }
    }

    /// Extends live ranges to readers that run later than their place in the body says.
    fn extend(&mut self, func: &Func, registry: &Registry) {
        let sums = read_by_sums(func, registry).into_iter();
        for (operand, place) in sums.chain(read_by_narrowed(func, registry)) {
            self.read(operand, place);
        }
        // Every program of a group reads until the last operation of the group has run.
        let groups = groups(func);
        let mut ends: BTreeMap<usize, usize> = BTreeMap::new();
        for (place, op) in func.body.iter().enumerate() {
            if let Some(&group) = groups.get(op) {
                ends.insert(group, place);
            }
        }
        for (op, group) in &groups {
            for &operand in &func.ops[*op].operands {
                self.read(operand, ends.get(group).copied().unwrap_or(0));
            }
        }
        for &result in &func.results {
            self.read(result, func.body.len());
        }
    }
}

/// Blocks of buffers that must be adjacent, such as the pieces of one value.
struct Blocks {
    buffers: Vec<Buffer>,
    /// For each of the original buffers, its block and its offset in it.
    places: Vec<(usize, u64)>,
}

impl Blocks {
    /// Makes blocks of the buffers that belong together, directly or through others. In a block they stand in the order
    /// in which their owners run. An operation that reads pieces thus writes behind all of them, or into another block.
    fn of(buffers: &[Buffer], together: &[[usize; 2]]) -> Blocks {
        let mut first: Vec<usize> = (0..buffers.len()).collect();
        let root = |first: &[usize], buffer: usize| {
            let mut at = buffer;
            while first[at] != at {
                at = first[at];
            }
            at
        };
        for &[a, b] in together {
            let (a, b) = (root(&first, a), root(&first, b));
            first[a.max(b)] = a.min(b);
        }
        let mut blocks = Blocks {
            buffers: Vec::new(),
            places: Vec::with_capacity(buffers.len()),
        };
        for (number, buffer) in buffers.iter().enumerate() {
            let root = root(&first, number);
            if root == number {
                blocks.places.push((blocks.buffers.len(), 0));
                blocks.buffers.push(*buffer);
                continue;
            }
            let (block, _) = blocks.places[root];
            let whole: &mut Buffer = &mut blocks.buffers[block];
            blocks.places.push((block, whole.bytes));
            whole.bytes = whole.bytes.saturating_add(buffer.bytes);
            whole.first = whole.first.min(buffer.first);
            whole.last = whole.last.max(buffer.last);
        }
        blocks
    }
}

/// Operands of sums of products whose only reader is an addition that writes inside another value, with the position of
/// the addition. Both operations are one step if the operands are still alive.
fn read_by_sums(func: &Func, registry: &Registry) -> Vec<(Value, usize)> {
    let uses = Uses::of(func);
    let mut all = Vec::new();
    for (place, &op) in func.body.iter().enumerate() {
        let data = &func.ops[op];
        let adds = &*data.name == Add::NAME && places(func, op).contains(&Place::Inside);
        for &operand in data.operands.iter().filter(|_| adds) {
            let Some(sum) = func.def_op(operand) else {
                continue;
            };
            let decl = registry.get(&func.ops[sum].name);
            let class = decl.map(|decl| decl.freedom(&func.op_ref(sum)).class);
            let alone = uses.readers(operand).len() == 1 && !uses.is_returned(operand);
            if class == Some(FreedomClass::Contract) && alone {
                let operands = func.ops[sum].operands.iter();
                all.extend(operands.map(|&operand| (operand, place)));
            }
        }
    }
    all
}

/// The most element-wise operations between a result and the narrower value made of it.
const MOST_NARROWING: usize = 8;

/// Operands that must stay alive so that several operations can be one step, with the position of the last of these
/// operations.
///
/// The first case: an operation computes along dimensions, and element-wise operations alone make elements of fewer
/// bits of its result. The second case: a convolution is normalized with known means.
fn read_by_narrowed(func: &Func, registry: &Registry) -> Vec<(Value, usize)> {
    let uses = Uses::of(func);
    let bits = |value: Value| func.ty(value).as_tensor().map(|ty| ty.dtype.bits());
    let along = |op: Op| {
        let decl = registry.get(&func.ops[op].name);
        decl.is_some_and(|decl| {
            let freedom = decl.freedom(&func.op_ref(op));
            let sums = matches!(freedom.class, FreedomClass::Contract | FreedomClass::Window);
            sums || freedom.labels.iter().any(|label| label.role == Role::Axis)
        })
    };
    let by_element = |op: Op| {
        let decl = registry.get(&func.ops[op].name);
        decl.is_some_and(|decl| decl.family() == IN_PLACE)
    };
    let mut all = Vec::new();
    let alone = |v: &Value| uses.readers(*v).len() == 1 && !uses.is_returned(*v);
    for (place, &op) in func.body.iter().enumerate() {
        let data = &func.ops[op];
        let norm = data
            .operands
            .first()
            .filter(|_| &*data.name == BatchNorm::NAME);
        if let Some(conv) = norm.filter(|v| alone(v)).and_then(|&v| func.def_op(v))
            && &*func.ops[conv].name == Conv::NAME
        {
            let operands = func.ops[conv].operands.iter();
            all.extend(operands.map(|&operand| (operand, place)));
        }
        let (Some(&last), true) = (data.results.first(), by_element(op)) else {
            continue;
        };
        // Walks back through values that only the next operation reads.
        let mut value = data.operands.first().copied();
        for _ in 0..MOST_NARROWING {
            let Some((own, before)) = value.filter(alone).and_then(|v| Some((v, func.def_op(v)?)))
            else {
                break;
            };
            let operands = &func.ops[before].operands;
            if by_element(before) {
                value = operands.first().copied();
                continue;
            }
            if along(before) && bits(last) < bits(own) {
                all.extend(operands.iter().map(|&operand| (operand, place)));
                all.extend(sources(func, before, &by_element).map(|source| (source, place)));
            }
            break;
        }
    }
    all
}

/// The narrower values that element-wise operations widened into operands of a sum of products: the sum may read these
/// instead.
fn sources(func: &Func, sum: Op, by_element: &impl Fn(Op) -> bool) -> impl Iterator<Item = Value> {
    let bits = |value: Value| func.ty(value).as_tensor().map(|ty| ty.dtype.bits());
    let operands = func.ops[sum].operands.iter();
    operands.filter_map(move |&operand| {
        let mut value = operand;
        for _ in 0..MOST_NARROWING {
            let made = func.def_op(value).filter(|&op| by_element(op))?;
            value = *func.ops[made].operands.first()?;
            if bits(value) < bits(operand) {
                return Some(value);
            }
        }
        None
    })
}

/// The positions in memory of an operation's results.
fn places(func: &Func, op: Op) -> Vec<Place> {
    let data = &func.ops[op];
    let places = memory::places(data).ok().flatten();
    places.unwrap_or_else(|| vec![Place::Own; data.results.len()])
}

/// The bytes of a value in memory, padding included. `None` where a size is unknown or the value is no tensor.
fn bytes(func: &Func, value: Value) -> Option<u64> {
    let layout = func.ty(value).as_tensor()?.layout()?.ok()?;
    Some(layout.bytes())
}
