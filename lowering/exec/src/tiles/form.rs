//! Compiles a sketch to a form: the kernels of a program and the layout of its scratch memory.

use super::group::Group;
use super::sketch::{Sketch, TileMemory};
use crate::job::Job;
use crate::join::{joined, products};
use crate::memory::{Slot, Storage};
use crate::ops::{self, Family, Kernel, Order, Orders, Site};
use crate::tiles::error::TileError;
use indexmap::{IndexMap, IndexSet};
use optc_ir::entity::SideTable;
use optc_ir::memory::ALIGNMENT;
use optc_ir::{AttrDict, Dim, Func, Loc, Op, Operation, TensorType, Type, Value};
use optc_kernels::gemm::Scratch;
use optc_ops::LayoutConvert;
use std::sync::Arc;

/// The steps of all programs that differ only in where their parts of whole buffers begin.
#[derive(Debug)]
pub(super) struct Form {
    pub(super) steps: Vec<TileStep>,
    /// The whole buffer of each read, and the bytes that are read.
    pub(super) reads: Vec<(usize, usize)>,
    /// The whole buffer of each write, and the bytes that are written.
    pub(super) writes: Vec<(usize, usize)>,
    /// Bytes of scratch memory of a program.
    pub(super) scratch: usize,
}

/// One kernel on tiles. Slots in the arena are in the program's scratch memory; slots in an argument or a result are in the
/// read or write of that number.
#[derive(Debug)]
pub(super) struct TileStep {
    pub(super) kernel: Box<dyn Kernel>,
    pub(super) operands: Vec<Slot>,
    pub(super) results: Vec<Slot>,
}

/// A sketch as a function with slots.
struct Made {
    func: Func,
    slots: SideTable<Value, Option<Slot>>,
    /// The operation of the original function that each operation stands for.
    origin: IndexMap<Op, Op>,
}

/// Compiles a sketch.
///
/// # Errors
/// An operation has no kernel for its tiles, or only one that sums in another order.
pub(super) fn form(sketch: &Sketch, group: &Group<'_>) -> Result<Form, TileError> {
    let made = made(sketch, group)?;
    let (func, of) = (&made.func, group.site(group.schedule.ops[0].op));
    let at = |op: Op| Site {
        func,
        op,
        slots: &made.slots,
        ..of
    };
    let mut steps = Vec::with_capacity(func.body.len());
    for &op in &func.body {
        let kernel = ops::kernel(&at(op));
        let refused = |error: TileError| error.of(group.name(made.origin[&op]));
        let kernel = kernel.ok_or_else(|| refused(TileError::NoKernel))?;
        let whole = group.orders.get(&made.origin[&op]);
        let own = Order::of(&*kernel);
        let contracts = own.family == Family::Contraction;
        if !contracts && !kernel.only_moves() && whole.is_some_and(|whole| *whole != own) {
            return Err(refused(TileError::TileOrder));
        }
        if !kernel.is_idle() {
            steps.push(Job {
                op,
                kernel: Some(kernel),
                operands: func.ops[op].operands.clone(),
                bytes: 0,
            });
        }
    }
    let mut own = Orders::new();
    if let Some(first) = func.body.first() {
        // The order of a product depends on its initial values, so it is compared after prologues are fused.
        let all: Vec<&Job> = steps.iter().collect();
        for (op, order) in products(&all, at(*first), false) {
            own.insert(made.origin[&op], order);
        }
        steps = joined(steps, at(*first), false);
    }
    let mut wanted = group.products.clone();
    wanted.retain(|op, _| sketch.ops.iter().any(|tile| tile.op == *op));
    if own.len() != wanted.len() || own.iter().any(|(op, own)| wanted.get(op) != Some(own)) {
        return Err(TileError::ProductOrder);
    }
    let places = Places::of(sketch, &steps, &made);
    let slot = |&value: &Value| -> Result<Slot, TileError> {
        let slot = made.slots[value].clone().ok_or(TileError::TileNowhere)?;
        Ok(places.put(slot))
    };
    let mut own = Vec::with_capacity(steps.len());
    for step in steps {
        let results = func.ops[step.op]
            .results
            .iter()
            .map(slot)
            .collect::<Result<_, _>>()?;
        let operands = step.operands.iter().map(slot).collect::<Result<_, _>>()?;
        if let Some(kernel) = step.kernel {
            own.push(TileStep {
                kernel,
                operands,
                results,
            });
        }
    }
    Ok(Form {
        steps: own,
        reads: sketch.reads.clone(),
        writes: sketch.writes.clone(),
        scratch: places.bytes,
    })
}

fn made(sketch: &Sketch, group: &Group<'_>) -> Result<Made, TileError> {
    let mut func = Func::new("tiles");
    let mut origin = IndexMap::new();
    let ty = |number: usize| -> Result<Type, TileError> {
        let tile = &sketch.values[number];
        let ty = group.func().ty(tile.of).as_tensor();
        let dtype = ty.ok_or(TileError::NoTensor)?.dtype;
        let dims = tile
            .access
            .shape()
            .into_iter()
            .map(|n| Dim::Fixed(n as u64));
        Ok(TensorType::new(dims.collect(), dtype).into())
    };
    let mut values: Vec<Option<Value>> = vec![None; sketch.values.len()];
    let mut made = IndexSet::new();
    for op in &sketch.ops {
        let mut operands = Vec::with_capacity(op.operands.len());
        for &number in &op.operands {
            let known = match values[number] {
                Some(known) => known,
                None => func.add_arg(ty(number)?, None),
            };
            values[number] = Some(known);
            operands.push(known);
        }
        let types = op.results.iter().map(|&number| ty(number));
        let types = types.collect::<Result<Vec<Type>, TileError>>()?;
        let (name, props) = match &op.props {
            Some(props) => (group.name(op.op), props.clone()),
            None => (LayoutConvert::NAME, AttrDict::new()),
        };
        let own = func.push_op(name, operands, props, types, Loc::Unknown);
        origin.insert(own, op.op);
        for (&number, &value) in op.results.iter().zip(&func.ops[own].results) {
            values[number] = Some(value);
            made.insert(number);
        }
    }
    let slots = slots(sketch, group, &mut func, &values, &made)?;
    Ok(Made {
        func,
        slots,
        origin,
    })
}

/// The slots of all tiles. Tiles that operations make (`made`) and that are read under another name or outside of the
/// program become results of the function.
fn slots(
    sketch: &Sketch,
    group: &Group<'_>,
    func: &mut Func,
    values: &[Option<Value>],
    made: &IndexSet<usize>,
) -> Result<SideTable<Value, Option<Slot>>, TileError> {
    // Tiles have disjoint memory until it is known which of them are written.
    let mut begins = Vec::with_capacity(sketch.scratch.len());
    let mut end = 0;
    for &bytes in &sketch.scratch {
        begins.push(end);
        end += aligned(bytes);
    }
    let mut in_scratch: IndexMap<usize, usize> = IndexMap::new();
    for (tile, value) in sketch.values.iter().zip(values) {
        if let (TileMemory::Scratch(number), Some(_)) = (tile.memory, value) {
            *in_scratch.entry(number).or_default() += 1;
        }
    }
    let mut slots = SideTable::new(None);
    for (number, (tile, value)) in sketch.values.iter().zip(values).enumerate() {
        let Some(value) = *value else { continue };
        let whole = group.slot(tile.of)?;
        let (storage, offset, bytes, shared) = match tile.memory {
            TileMemory::Scratch(number) => {
                let (offset, bytes) = (begins[number], sketch.scratch[number]);
                (Storage::Arena, offset, bytes, 1 < in_scratch[&number])
            }
            TileMemory::Read(number) => {
                (Storage::Argument(number), 0, sketch.reads[number].1, false)
            }
            TileMemory::Write(number) => {
                (Storage::Result(number), 0, sketch.writes[number].1, true)
            }
            TileMemory::Constant => (whole.storage, whole.offset, whole.bytes, false),
        };
        slots[value] = Some(Slot {
            storage,
            offset,
            bytes,
            access: Arc::new(tile.access.clone()),
            dtype: whole.dtype,
            width: whole.width,
            part: true,
        });
        if shared && made.contains(&number) {
            func.add_result(value, None);
        }
    }
    Ok(slots)
}

fn aligned(bytes: usize) -> usize {
    bytes.next_multiple_of(ALIGNMENT as usize)
}

/// Addresses of tiles in scratch memory, by first fit: tiles that are live at the same time are disjoint.
struct Places {
    /// The address of each tile, by its address while all tiles were disjoint.
    found: IndexMap<usize, usize>,
    bytes: usize,
}

impl Places {
    fn of(sketch: &Sketch, steps: &[Job], made: &Made) -> Places {
        // Size and live range (first and last step) of each tile.
        let mut lives: IndexMap<usize, (usize, usize, usize)> = IndexMap::new();
        for (at, step) in steps.iter().enumerate() {
            let results = &made.func.ops[step.op].results;
            for &value in step.operands.iter().chain(results) {
                let slot = made.slots[value].as_ref();
                if let Some(slot) = slot.filter(|s| s.storage == Storage::Arena) {
                    let life = lives.entry(slot.offset).or_insert((slot.bytes, at, at));
                    life.2 = at;
                }
            }
        }
        let mut placed: Vec<(usize, usize, (usize, usize))> = Vec::with_capacity(lives.len());
        let mut found = IndexMap::with_capacity(sketch.scratch.len());
        lives.sort_by(|_, a, _, b| b.0.cmp(&a.0));
        for (key, (bytes, first, last)) in lives {
            let bytes = aligned(bytes);
            let mut beside: Vec<(usize, usize)> = placed
                .iter()
                .filter(|(_, _, (from, to))| *from <= last && first <= *to)
                .map(|(from, to, _)| (*from, *to))
                .collect();
            beside.sort_unstable();
            let free = beside
                .iter()
                .fold(0, |at, &(from, to)| match at + bytes <= from {
                    true => at,
                    false => at.max(to),
                });
            placed.push((free, free + bytes, (first, last)));
            found.insert(key, free);
        }
        let bytes = placed.iter().map(|(_, end, _)| *end).max().unwrap_or(0);
        Places { found, bytes }
    }

    fn put(&self, mut slot: Slot) -> Slot {
        if slot.storage == Storage::Arena {
            slot.offset = self.found.get(&slot.offset).copied().unwrap_or(slot.offset);
        }
        slot
    }
}

impl Form {
    /// Bytes that its kernels keep.
    pub(super) fn packed_bytes(&self) -> usize {
        let kernels = self.steps.iter().map(|step| step.kernel.packed_bytes());
        kernels.fold(0, usize::saturating_add)
    }

    /// Bytes of scratch memory of its kernels, on each thread.
    pub(super) fn kernel_scratch(&self) -> Scratch {
        self.steps.iter().fold(Scratch::default(), |most, step| {
            let own = step.kernel.scratch();
            std::array::from_fn(|i| most[i].max(own[i]))
        })
    }
}
