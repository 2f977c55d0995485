//! The interface of kernels, and how view operations map the offsets of their operands to those of their results.

use crate::access::Access;
use crate::buffer::Buffer;
use crate::error::StepError;
use crate::memory::{In, Slot, Storage};
use crate::moved::Moved;
use half::{bf16, f16};
use indexmap::IndexMap;
use optc_ir::entity::SideTable;
use optc_ir::op::in_place;
use optc_ir::op::part::Port;
use optc_ir::{Bindings, Func, Op, OpData, Part, Registry, Structure, Value};
use optc_kernels::element::{Element, Kind, elements};
use optc_kernels::epilogue::Epilogue;
use optc_kernels::gemm::Scratch;
use optc_kernels::team::Team;
use std::fmt::Debug;

/// One run of a kernel: the number of the result that it writes, the operands, and the bytes of the result.
#[derive(Debug)]
pub(crate) struct Call<'a> {
    pub(crate) result: usize,
    pub(crate) ins: &'a [In<'a>],
    pub(crate) out: &'a mut [u8],
    pub(crate) cx: Context<'a>,
}

impl Call<'_> {
    /// The same run with other operands.
    pub(crate) fn of<'b>(&'b mut self, ins: &'b [In<'b>]) -> Call<'b> {
        Call {
            result: self.result,
            ins,
            out: self.out,
            cx: self.cx.again(),
        }
    }
}

/// The context that kernels run in.
#[derive(Debug)]
pub(crate) struct Context<'a> {
    pub(crate) team: &'a Team,
    /// Bytes moved without computing.
    pub(crate) moved: &'a mut Moved,
}

impl Context<'_> {
    /// The same context for one of several calls.
    pub(crate) fn again(&mut self) -> Context<'_> {
        Context {
            team: self.team,
            moved: self.moved,
        }
    }
}

/// The kind of a kernel, which decides what is fused with it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Family {
    Contraction,
    Convolution,
    /// One element-wise operation.
    Elementwise,
    /// Several element-wise operations.
    Chain,
    /// A copy of the bytes that products multiply in place of converted integers.
    CopiedBytes,
    /// A kernel that is not fused.
    Other,
}

/// The order in which a kernel sums. Kernels of equal orders give the same bits.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Order {
    pub(crate) family: Family,
    name: &'static str,
    terms: Vec<u32>,
}

impl Order {
    pub(crate) fn of(kernel: &dyn Kernel) -> Order {
        Order {
            family: kernel.family(),
            name: kernel.name(),
            terms: kernel.order(),
        }
    }

    /// The order of sums of integers, which are exact in any order.
    pub(crate) const EXACT: Order = Order {
        family: Family::CopiedBytes,
        name: "exact",
        terms: Vec::new(),
    };
}

/// The order in which each operation sums.
pub(crate) type Orders = IndexMap<Op, Order>;

/// Computes the results of an operation in its buffers.
pub(crate) trait Kernel: Debug + Send + Sync {
    /// The name in a profile.
    fn name(&self) -> &'static str;

    /// The family of the kernel, by which other operations are fused with it.
    fn family(&self) -> Family {
        Family::Other
    }

    /// Returns whether there is nothing to do, because all elements are in their places already.
    fn is_idle(&self) -> bool {
        false
    }

    /// Returns whether the kernel only moves elements and does not depend on their values.
    fn only_moves(&self) -> bool {
        false
    }

    /// The order in which the kernel sums, if it depends on the layout.
    fn order(&self) -> Vec<u32> {
        Vec::new()
    }

    /// Bytes that the kernel keeps between runs.
    fn packed_bytes(&self) -> usize {
        0
    }

    /// Bytes of scratch memory that each thread needs while the kernel runs.
    fn scratch(&self) -> Scratch {
        Scratch::default()
    }

    /// The kernel with an epilogue that turns its sums into elements of the slot `result`, if it can have one.
    fn with_epilogue(
        &self,
        site: &Site<'_>,
        operands: &[Value],
        result: &Slot,
        epilogue: Epilogue,
    ) -> Option<Box<dyn Kernel>> {
        let _ = (site, operands, result, epilogue);
        None
    }

    /// Writes a result, and counts bytes that are moved without computing.
    ///
    /// # Errors
    /// The operands are not as the kernel expects.
    fn run(&self, call: Call<'_>) -> Result<(), StepError>;
}

/// An operation with the slots of its operands and results, and constants.
#[derive(Clone, Copy)]
pub(crate) struct Site<'a> {
    pub(crate) func: &'a Func,
    pub(crate) op: Op,
    pub(crate) registry: &'a Registry,
    pub(crate) slots: &'a SideTable<Value, Option<Slot>>,
    pub(crate) constants: &'a [Buffer],
    pub(crate) bindings: &'a Bindings,
}

impl<'a> Site<'a> {
    /// Another operation of the function.
    pub(crate) fn at(&self, op: Op) -> Site<'a> {
        Site { op, ..*self }
    }

    pub(crate) fn data(&self) -> &'a OpData {
        &self.func.ops[self.op]
    }

    pub(crate) fn slot(&self, value: Value) -> Option<&'a Slot> {
        self.slots[value].as_ref()
    }

    /// Returns whether an operation writes bytes of a slot.
    pub(crate) fn writes(&self, op: Op, slot: &Slot) -> bool {
        let results = &self.func.ops[op].results;
        let mut places = results.iter().map(|&v| self.slot(v));
        places.any(|place| place.is_none_or(|place| place.overlaps(slot)))
    }

    /// The slots of all operands, then of all results.
    pub(crate) fn all(&self) -> Option<Vec<&'a Slot>> {
        let data = self.data();
        let all = data.operands.iter().chain(&data.results);
        all.map(|&value| self.slot(value)).collect()
    }

    /// The bytes of an operand that is a constant.
    pub(crate) fn constant_bytes(&self, operand: usize) -> Option<&'a [u8]> {
        self.constant_buffer(*self.data().operands.get(operand)?)
    }

    /// The number that all elements of a constant value are equal to, as the bits of an `f32` or an `i32`.
    pub(crate) fn number(&self, value: Value) -> Option<(Kind, u32)> {
        fn read<E: Element>(bytes: &[u8], at: usize) -> Option<u32> {
            let number = elements::<E>(bytes).ok()?.get(at)?.read();
            bytemuck::cast_slice(&[number]).first().copied()
        }
        let (slot, bytes) = (self.slot(value)?, self.constant_buffer(value)?);
        let (kind, bytes) = (slot.kind()?, bytes.get(slot.range())?);
        let (mut low, mut high) = (i64::MAX, i64::MIN);
        slot.access
            .each(|offset| (low, high) = (low.min(offset), high.max(offset)));
        let at = usize::try_from(low).ok().filter(|_| low == high)?;
        let number = match kind {
            Kind::F32 => read::<f32>(bytes, at),
            Kind::F16 => read::<f16>(bytes, at),
            Kind::BF16 => read::<bf16>(bytes, at),
            Kind::I8 => read::<i8>(bytes, at),
            Kind::U8 => read::<u8>(bytes, at),
            Kind::I32 => read::<i32>(bytes, at),
        };
        Some((kind, number?))
    }

    /// The bytes of a slot, if it is that of a constant.
    pub(crate) fn constant_of(&self, slot: &Slot) -> Option<&'a [u8]> {
        match slot.storage {
            Storage::Constant(number) => self.constants.get(number)?.bytes().get(slot.range()),
            _ => None,
        }
    }

    /// The bytes of the buffer of a value that is a constant.
    pub(crate) fn constant_buffer(&self, value: Value) -> Option<&'a [u8]> {
        let slot = self.slot(value)?;
        match slot.storage {
            Storage::Constant(number) => self.constants.get(number).map(Buffer::bytes),
            _ => None,
        }
    }
}

/// Returns whether all elements are floats of one type.
pub(crate) fn same_float(slots: &[&Slot]) -> bool {
    let kind = slots.first().and_then(|slot| slot.kind());
    kind.is_some_and(Kind::is_float) && slots.iter().all(|slot| slot.kind() == kind)
}

/// Converts floats to `f32`.
///
/// # Errors
/// The bytes are no whole elements, or the type is an integer.
pub(crate) fn numbers(kind: Kind, bytes: &[u8]) -> Result<Vec<f32>, StepError> {
    fn all<E: Element<Number = f32>>(bytes: &[u8]) -> Result<Vec<f32>, StepError> {
        Ok(elements::<E>(bytes)?.iter().map(|x| x.read()).collect())
    }
    match kind {
        Kind::F32 => all::<f32>(bytes),
        Kind::F16 => all::<f16>(bytes),
        Kind::BF16 => all::<bf16>(bytes),
        Kind::I8 | Kind::U8 | Kind::I32 => Err(StepError::Integers),
    }
}

/// Reinterprets bytes as `f32`.
///
/// # Errors
/// The bytes are no whole elements or not aligned.
pub(crate) fn floats(bytes: &[u8]) -> Result<&[f32], StepError> {
    if bytes.is_empty() {
        return Ok(&[]);
    }
    Ok(bytemuck::try_cast_slice(bytes)?)
}

/// Access of a part whose extents are `shape`, given the access of its whole. Dimensions of the part that correspond to no
/// dimension of the whole are broadcast.
pub(crate) fn part(part: &Part, shape: &[usize], whole: &Access) -> Option<Access> {
    let mut pick = Vec::with_capacity(part.dims.len());
    let mut own = vec![1; shape.len()];
    for along in &part.dims {
        let start = along.start.eval(&|_| None)?;
        let n = along.from.map_or(Some(1), |d| shape.get(d).copied())?;
        if let Some(d) = along.from {
            own[d] = n;
        }
        let index = |i: usize| usize::try_from(start + i as i128 * i128::from(along.step)).ok();
        pick.push((0..n).map(index).collect::<Option<Vec<usize>>>()?);
    }
    let mut inside = pick.iter().zip(whole.shape());
    let inside = inside.all(|(pick, n)| pick.iter().all(|&i| i < n));
    inside.then(|| whole.picked(&pick).reshaped(&own).broadcast(shape))
}

/// Access of the result of a view (a bitcast, slice or broadcast in place), given the access of the operand.
pub(crate) fn aliased(
    func: &Func,
    op: Op,
    result: usize,
    registry: &Registry,
    bindings: &Bindings,
    access: &Access,
) -> Option<Access> {
    let parts = in_place::settled(func, op, registry);
    match parts.iter().find(|p| p.part == Port::Result(result)) {
        Some(one) => {
            let ty = func.op_ref(op).result(result).ok()?;
            part(one, &shape(ty)?, access)
        }
        None if registry.get(&func.ops[op].name)?.is_part() => None,
        None => rearranged(func, op, registry, bindings, access),
    }
}

/// Access of the result of an operation that only rearranges its operand.
pub(crate) fn rearranged(
    func: &Func,
    op: Op,
    registry: &Registry,
    bindings: &Bindings,
    access: &Access,
) -> Option<Access> {
    let (middle, perm) = rearrangement(func, op, registry, bindings)?;
    let shape = shape(func.op_ref(op).result(0).ok()?)?;
    Some(access.reshaped(&middle).transposed(&perm).reshaped(&shape))
}

/// The shape that a rearrangement gives its operand, and the permutation of these dimensions; a layout conversion keeps
/// both.
fn rearrangement(
    func: &Func,
    op: Op,
    registry: &Registry,
    bindings: &Bindings,
) -> Option<(Vec<usize>, Vec<usize>)> {
    let name = &func.ops[op].name;
    if registry.structure(name) == Structure::Convert {
        let shape = shape(func.op_ref(op).operand(0).ok()?)?;
        let rank = shape.len();
        return Some((shape, (0..rank).collect()));
    }
    let dims = registry.get(name)?.rearrangement(&func.op_ref(op)).ok()?;
    let middle = dims
        .shape
        .iter()
        .map(|d| usize::try_from(bindings.size(d)?).ok());
    Some((middle.collect::<Option<_>>()?, dims.perm))
}

/// Access of the operand of a rearrangement, given the access of its result.
pub(crate) fn operand_access(
    func: &Func,
    op: Op,
    registry: &Registry,
    bindings: &Bindings,
    access: &Access,
) -> Option<Access> {
    let (middle, perm) = rearrangement(func, op, registry, bindings)?;
    let turned: Vec<usize> = perm
        .iter()
        .map(|&p| middle.get(p).copied())
        .collect::<Option<_>>()?;
    let mut back = vec![0; turned.len()];
    for (place, &dim) in perm.iter().enumerate() {
        *back.get_mut(dim)? = place;
    }
    let shape = shape(func.op_ref(op).operand(0).ok()?)?;
    Some(access.reshaped(&turned).transposed(&back).reshaped(&shape))
}

/// The extents of a type, if all are known.
pub(crate) fn shape(ty: &optc_ir::TensorType) -> Option<Vec<usize>> {
    let sizes = ty.shape()?;
    sizes.iter().map(|&n| usize::try_from(n).ok()).collect()
}
