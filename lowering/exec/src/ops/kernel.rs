//! What a kernel is, and what operations make of the places of their operands.

use crate::access::Access;
use crate::buffer::Buffer;
use crate::element::{Element, Kind, elements};
use crate::memory::{In, Slot, Storage};
use crate::ops::finish::Finish;
use crate::team::Context;
use half::{bf16, f16};
use indexmap::IndexMap;
use optc_ir::entity::SideTable;
use optc_ir::op::in_place;
use optc_ir::op::part::Port;
use optc_ir::{Bindings, Func, Op, OpData, Part, Registry, Structure, Value};
use std::fmt::Debug;

/// Bytes of memory of several kinds, of which one thread keeps each.
pub(crate) type Scratch = [usize; 4];

/// The kernels that operations have, and the orders in which these sum.
pub(crate) type Orders = IndexMap<Op, (&'static str, Vec<u32>)>;

/// The name of a kernel, and the order in which it sums.
pub(crate) fn order_of(kernel: &dyn Kernel) -> (&'static str, Vec<u32>) {
    (kernel.name(), kernel.order())
}

/// Computes the results of an operation in its buffers.
pub(crate) trait Kernel: Debug + Send + Sync {
    /// The name in a profile.
    fn name(&self) -> &'static str;

    /// Whether there is nothing to do: all elements lie where they go.
    fn is_idle(&self) -> bool {
        false
    }

    /// Whether it moves elements from where they lie to where they go, and looks at none of them.
    fn only_moves(&self) -> bool {
        false
    }

    /// The order in which it sums, where that depends on what lies where: kernels of one name and one order give the same bits.
    fn order(&self) -> Vec<u32> {
        Vec::new()
    }

    /// Bytes that it keeps between runs.
    fn own_bytes(&self) -> usize {
        0
    }

    /// Bytes that each thread needs besides while it runs.
    fn scratch(&self) -> Scratch {
        Scratch::default()
    }

    /// The kernel with sums of 32-bit integers that become elements of another place before they are written, if it can.
    fn finished(
        &self,
        site: &Site<'_>,
        operands: &[Value],
        result: &Slot,
        finish: Finish,
    ) -> Option<Box<dyn Kernel>> {
        let _ = (site, operands, result, finish);
        None
    }

    /// Writes the result of this number, and counts what is moved without computing.
    ///
    /// # Errors
    /// What is wrong with the operands.
    fn run(
        &self,
        result: usize,
        ins: &[In<'_>],
        out: &mut [u8],
        cx: &mut Context<'_>,
    ) -> Result<(), String>;
}

/// An operation, with the places of its operands and results and with constants.
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
    pub(crate) fn data(&self) -> &'a OpData {
        &self.func.ops[self.op]
    }

    pub(crate) fn slot(&self, value: Value) -> Option<&'a Slot> {
        self.slots[value].as_ref()
    }

    /// Whether an operation writes bytes of a place.
    pub(crate) fn writes(&self, op: Op, slot: &Slot) -> bool {
        let results = &self.func.ops[op].results;
        let mut places = results.iter().map(|&v| self.slot(v));
        places.any(|place| place.is_none_or(|place| place.overlaps(slot)))
    }

    /// The places of all operands, then of all results.
    pub(crate) fn all(&self) -> Option<Vec<&'a Slot>> {
        let data = self.data();
        let all = data.operands.iter().chain(&data.results);
        all.map(|&value| self.slot(value)).collect()
    }

    /// The bytes of an operand that is known.
    pub(crate) fn constant(&self, operand: usize) -> Option<&'a [u8]> {
        self.known(*self.data().operands.get(operand)?)
    }

    /// The number that all elements of a value are, if it is known; as the bits of an `f32` or an `i32`.
    pub(crate) fn number(&self, value: Value) -> Option<(Kind, u32)> {
        fn read<E: Element>(bytes: &[u8], at: usize) -> Option<u32> {
            let number = elements::<E>(bytes).ok()?.get(at)?.read();
            bytemuck::cast_slice(&[number]).first().copied()
        }
        let (slot, bytes) = (self.slot(value)?, self.known(value)?);
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

    /// The bytes of a place, if it is that of a constant.
    pub(crate) fn constant_of(&self, slot: &Slot) -> Option<&'a [u8]> {
        match slot.storage {
            Storage::Constant(number) => self.constants.get(number)?.bytes().get(slot.range()),
            _ => None,
        }
    }

    /// The bytes of the buffer of a value that is known.
    pub(crate) fn known(&self, value: Value) -> Option<&'a [u8]> {
        let slot = self.slot(value)?;
        match slot.storage {
            Storage::Constant(number) => self.constants.get(number).map(Buffer::bytes),
            _ => None,
        }
    }
}

/// Checks that the least and the greatest offset in each buffer lie inside of so many elements.
///
/// # Errors
/// One does not.
pub(crate) fn within<const N: usize>(
    reach: [(i64, i64); N],
    elements: [usize; N],
) -> Result<(), String> {
    let mut all = reach.into_iter().zip(elements);
    match all.all(|((low, high), n)| 0 <= low && high < n as i64) {
        true => Ok(()),
        false => Err("an element lies outside of its buffer".to_owned()),
    }
}

/// Whether all elements are floats of one type.
pub(crate) fn same_float(slots: &[&Slot]) -> bool {
    let kind = slots.first().and_then(|slot| slot.kind());
    kind.is_some_and(Kind::is_float) && slots.iter().all(|slot| slot.kind() == kind)
}

/// Floats as numbers.
///
/// # Errors
/// They are no whole numbers of them, or integers.
pub(crate) fn numbers(kind: Kind, bytes: &[u8]) -> Result<Vec<f32>, String> {
    fn all<E: Element<Number = f32>>(bytes: &[u8]) -> Result<Vec<f32>, String> {
        Ok(elements::<E>(bytes)?.iter().map(|x| x.read()).collect())
    }
    match kind {
        Kind::F32 => all::<f32>(bytes),
        Kind::F16 => all::<f16>(bytes),
        Kind::BF16 => all::<bf16>(bytes),
        Kind::I8 | Kind::U8 | Kind::I32 => Err("they are integers".to_owned()),
    }
}

/// Bytes as numbers.
///
/// # Errors
/// They are no whole numbers of them.
pub(crate) fn floats(bytes: &[u8]) -> Result<&[f32], String> {
    if bytes.is_empty() {
        return Ok(&[]);
    }
    bytemuck::try_cast_slice(bytes).map_err(|e| e.to_string())
}

/// Where the elements of a part of these extents lie, given where those of its whole do; what no dimension of the whole
/// comes from is repeated.
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

/// Where the elements of a result lie that an operation renames, cuts out of its operand or repeats where they lie, given where
/// those of the operand do.
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
        None => renamed(func, op, registry, bindings, access),
    }
}

/// Where the elements lie that an operation only renames.
pub(crate) fn renamed(
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

/// The shape that an operation gives its operand, and the order that it puts these dimensions into; a conversion leaves both.
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

/// Where the elements of its operand lie, given where those of an operation do that only renames them.
pub(crate) fn named_back(
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

/// The extents of a type, all of which are known.
pub(crate) fn shape(ty: &optc_ir::TensorType) -> Option<Vec<usize>> {
    let sizes = ty.shape()?;
    sizes.iter().map(|&n| usize::try_from(n).ok()).collect()
}
