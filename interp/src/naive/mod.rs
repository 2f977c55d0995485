//! The naive physical interpreter: every value is a flat, poisoned buffer.
//!
//! A value is stored by scattering its elements, one by one, to the positions that the index formula of its layout
//! gives. It is read back in the same way. A read of a position that was never written is an error that names the
//! operation.
//!
//! - `hbir.view` forwards its operand's buffer and does not look at its shape or permutation. An illegal view therefore
//!   reads poison, reads wrong elements, or changes the size of the buffer.
//! - `hbir.layout_convert` copies element by element from one layout to the other.
//! - Values that the program places in the bytes of others lie there. The result of `hbir.subview`, and of a split with
//!   `in_place`, is a set of positions of the operand's buffer; an operand of a concat with `in_place` is written to
//!   positions of the result's buffer. A position that two operations write, or that is read before it is written, is
//!   an error.
//! - Every other operation, a remaining `reshape` or `transpose` included, gathers its operands to logical tensors,
//!   computes by its declared semantics and scatters the results.

pub mod error;
mod index;
mod shared;
mod text;

pub use error::IndexError;
pub use index::Formula;

use crate::data::DataSource;
use crate::error::{OpFailure, RunError};
use crate::frame::{Direct, Memory, Program, Shares, UNSCHEDULED};
use crate::limit::{MAX_ELEMENTS, elements_within_limit, shape_text};
use crate::uninterpreted::Opaque;
use crate::walk::run;
use indexmap::IndexMap;
use optc_ir::tensor::wrap_int;
use optc_ir::{Bindings, DType, Data, Module, Registry, Structure, Tensor, TensorType};
use std::cell::RefCell;
use std::rc::Rc;
use std::sync::Arc;

/// The bits of a poisoned `f32`, `f16` or `bf16`: a NaN that no computation returns.
pub const POISON_F32: u32 = 0x7FC0_DEAD;
/// The bits of a poisoned `f64`.
pub const POISON_F64: u64 = 0x7FF8_DEAD_DEAD_DEAD;
/// A poisoned integer, before it is wrapped into its type.
pub const POISON_INT: i64 = 0x5AA5_5AA5_5AA5_5AA5;
/// A poisoned element of a type that is held as bits, before it is cut to its width.
const POISON_BITS: u128 = 0x5AA5_5AA5_5AA5_5AA5_5AA5_5AA5_5AA5_5AA5;

/// The number of table entries at which the cache of index tables is emptied.
const CACHE_ENTRIES: usize = 1 << 27;

/// Runs a function on physical buffers, each value laid out as its type says.
///
/// The arguments are those of [`run_reference`](crate::run_reference), and so are the results: they
/// are gathered from the layouts that their types declare.
///
/// # Errors
/// As for [`run_reference`](crate::run_reference); also a layout that cannot be addressed, a view
/// that changes the size of its buffer, and a read of a position that was never written.
pub fn run_naive(
    module: &Module,
    registry: &Registry,
    func: &str,
    inputs: &IndexMap<String, Tensor>,
    data: &dyn DataSource,
    bindings: &Bindings,
) -> Result<IndexMap<String, Tensor>, RunError> {
    let mut memory = Physical::default();
    run(
        Program {
            module,
            registry,
            data,
            schedules: &UNSCHEDULED,
            opaque: Opaque::Refused,
            memo: None,
        },
        &mut memory,
        func,
        inputs,
        bindings,
    )
}

/// Positions of all elements of one layout and shape.
struct IndexTable {
    /// The layout's text, for messages.
    layout: String,
    /// The number of positions of the buffer.
    positions: usize,
    /// The memory space.
    space: i64,
    /// The bits of an element.
    element_bits: i64,
    map: Map,
}

enum Map {
    /// Every element lies at its row-major number, and there is no padding.
    Identity,
    /// The position of each element, in row-major order.
    Table(Vec<u32>),
}

/// A flat buffer with a flag for each position that was written.
struct Buffer {
    data: Data,
    written: Vec<bool>,
    space: i64,
    element_bits: i64,
}

/// A value: buffers, perhaps shared with other values, and its logical shape.
#[derive(Clone)]
pub(crate) struct Held {
    buffers: Buffers,
    /// For each position of a buffer of its own, the spot that replaces it; `None` if the value has a buffer of its
    /// own.
    at: Option<Rc<Vec<Spot>>>,
    shape: Vec<usize>,
}

type Buffers = Rc<Vec<Rc<RefCell<Buffer>>>>;

/// The number of a buffer, and a position there.
type Spot = (u32, u32);

/// The spot of a position that no element uses.
const NOWHERE: Spot = (u32::MAX, u32::MAX);

impl Held {
    fn own(buffer: Buffer, shape: Vec<usize>) -> Held {
        Held {
            buffers: Rc::new(vec![Rc::new(RefCell::new(buffer))]),
            at: None,
            shape,
        }
    }

    /// The number of positions that a buffer of its own would have.
    fn positions(&self) -> usize {
        match &self.at {
            Some(at) => at.len(),
            None => self.buffers[0].borrow().written.len(),
        }
    }

    fn spot(&self, position: usize) -> Spot {
        match &self.at {
            Some(at) => at[position],
            None => (
                0,
                u32::try_from(position).expect("below the limit of positions"),
            ),
        }
    }
}

/// Holds values as buffers.
#[derive(Default)]
pub(crate) struct Physical {
    /// Index tables by the text of the layout, the shape, and the width of the element type.
    tables: IndexMap<(String, Vec<usize>, u32), Rc<IndexTable>>,
    entries: usize,
}

impl Physical {
    fn table(&mut self, ty: &TensorType, shape: &[usize]) -> Result<Rc<IndexTable>, OpFailure> {
        let key = (ty.notation.to_string(), shape.to_vec(), ty.dtype.bits());
        if let Some(table) = self.tables.get(&key) {
            return Ok(Rc::clone(table));
        }
        let table = Rc::new(IndexTable::new(&key.0, shape, key.2)?);
        let entries = match &table.map {
            Map::Identity => 0,
            Map::Table(t) => t.len(),
        };
        if self.entries + entries > CACHE_ENTRIES {
            self.tables.clear();
            self.entries = 0;
        }
        self.entries += entries;
        self.tables.insert(key, Rc::clone(&table));
        Ok(table)
    }
}

impl IndexTable {
    fn new(layout: &str, shape: &[usize], type_bits: u32) -> Result<IndexTable, OpFailure> {
        elements_within_limit(shape)?;
        let extents: Vec<u64> = shape.iter().map(|&n| n as u64).collect();
        let formula = Formula::parse(layout, &extents)?;
        let too_large = || OpFailure::TooLarge {
            shape: format!("{} in the layout {layout}", shape_text(shape)),
            limit: MAX_ELEMENTS,
        };
        if formula.positions() > MAX_ELEMENTS {
            return Err(too_large());
        }
        let positions = usize::try_from(formula.positions()).map_err(|_| too_large())?;
        let (space, element_bits) = (formula.space(), formula.element_bits(type_bits));
        let layout = if layout.is_empty() {
            "row-major".to_owned()
        } else {
            layout.to_owned()
        };
        let map = match formula.is_plain() {
            true => Map::Identity,
            false => Map::of(&formula)?,
        };
        Ok(IndexTable {
            layout,
            positions,
            space,
            element_bits,
            map,
        })
    }

    /// The position of the element of this row-major number.
    fn position(&self, number: usize) -> usize {
        match &self.map {
            Map::Identity => number,
            Map::Table(t) => t[number] as usize,
        }
    }

    /// An error about one element, found at this row-major number.
    fn element(&self, number: usize, shape: &[usize]) -> (String, String, usize) {
        let position = self.position(number);
        (
            crate::limit::index_text(number, shape),
            self.layout.clone(),
            position,
        )
    }
}

impl Map {
    fn of(formula: &Formula) -> Result<Map, OpFailure> {
        let mut table = Vec::new();
        let mut identity = true;
        formula.each(|number, position| {
            identity &= number == position;
            table.push(u32::try_from(position).expect("below the limit of positions"));
        })?;
        let identity = identity && formula.positions() == table.len() as u64;
        Ok(if identity {
            Map::Identity
        } else {
            Map::Table(table)
        })
    }
}

impl Memory for Physical {
    type Held = Held;

    fn store(&mut self, tensor: Arc<Tensor>, ty: &TensorType) -> Result<Held, OpFailure> {
        let table = self.table(ty, &tensor.shape)?;
        let mut written = vec![false; table.positions];
        let shape = tensor.shape.clone();
        let data = scatter(&tensor, &table, &mut written).map_err(|number| {
            let (element, layout, position) = table.element(number, &shape);
            OpFailure::Overlap {
                element,
                layout,
                position,
            }
        })?;
        let (space, element_bits) = (table.space, table.element_bits);
        let buffer = Buffer {
            data,
            written,
            space,
            element_bits,
        };
        Ok(Held::own(buffer, shape))
    }

    fn load(&mut self, held: &Held, ty: &TensorType) -> Result<Arc<Tensor>, OpFailure> {
        let table = self.table(ty, &held.shape)?;
        if table.positions != held.positions() {
            return Err(resized(&table, held));
        }
        let data = match &held.at {
            None => gather(&held.buffers[0].borrow(), &table, &held.shape),
            Some(_) => shared::gather(held, &table, ty.dtype),
        };
        let data = data.map_err(|number| {
            let (element, layout, position) = table.element(number, &held.shape);
            OpFailure::Poison {
                element,
                layout,
                position,
            }
        })?;
        Ok(Arc::new(Tensor {
            dtype: ty.dtype,
            shape: held.shape.clone(),
            data,
        }))
    }

    fn sharing(&mut self) -> Option<&mut dyn Shares<Held = Held>> {
        Some(self)
    }

    fn handles(&self, structure: Structure) -> bool {
        matches!(structure, Structure::View | Structure::Convert)
    }

    fn direct(&mut self, step: &Direct<'_, Held>) -> Result<Held, OpFailure> {
        if step.structure == Structure::View {
            return self.view(step);
        }
        let tensor = self.load(step.operand, step.from)?;
        self.store(tensor, step.to)
    }
}

impl Physical {
    /// The result of a view: the operand's buffer, which is neither read nor written.
    fn view(&mut self, step: &Direct<'_, Held>) -> Result<Held, OpFailure> {
        if step.from.dtype != step.to.dtype {
            return Err(OpFailure::View(format!(
                "the element type changes from {} to {}",
                step.from.dtype, step.to.dtype
            )));
        }
        let table = self.table(step.to, &step.shape)?;
        let operand = step.operand;
        if table.positions != operand.positions() {
            return Err(resized(&table, operand));
        }
        let buffer = operand.buffers[0].borrow();
        if table.space != buffer.space {
            let (from, to) = (buffer.space, table.space);
            return Err(OpFailure::View(format!(
                "it leaves memory space {from} for {to}"
            )));
        }
        if table.element_bits != buffer.element_bits {
            return Err(OpFailure::View(
                "the bits an element takes change".to_owned(),
            ));
        }
        Ok(Held {
            buffers: Rc::clone(&operand.buffers),
            at: operand.at.clone(),
            shape: step.shape.clone(),
        })
    }
}

fn resized(table: &IndexTable, held: &Held) -> OpFailure {
    OpFailure::View(format!(
        "the layout {} needs {} positions and the buffer has {}",
        table.layout,
        table.positions,
        held.positions()
    ))
}

/// An element that can be compared exactly.
trait Exact: Copy {
    fn same(self, other: Self) -> bool;
}

impl Exact for f32 {
    fn same(self, other: f32) -> bool {
        self.to_bits() == other.to_bits()
    }
}

impl Exact for f64 {
    fn same(self, other: f64) -> bool {
        self.to_bits() == other.to_bits()
    }
}

impl Exact for u128 {
    fn same(self, other: u128) -> bool {
        self == other
    }
}

impl Exact for i64 {
    fn same(self, other: i64) -> bool {
        self == other
    }
}

/// Writes every element to its position in a poisoned buffer. The error is the row-major number of an element whose
/// position already holds a different one.
fn scatter(tensor: &Tensor, table: &IndexTable, written: &mut [bool]) -> Result<Data, usize> {
    let poison = poison(tensor.dtype);
    Ok(match (&tensor.data, poison) {
        (Data::F32(v), _) => {
            Data::F32(scatter_into(v, table, written, f32::from_bits(POISON_F32))?)
        }
        (Data::F64(v), _) => {
            Data::F64(scatter_into(v, table, written, f64::from_bits(POISON_F64))?)
        }
        (Data::I64(v), poison) => Data::I64(scatter_into(v, table, written, poison)?),
        (Data::Bits(v), _) => {
            let poison = POISON_BITS & (u128::MAX >> (128 - tensor.dtype.bits()));
            Data::Bits(scatter_into(v, table, written, poison)?)
        }
    })
}

fn poison(dtype: DType) -> i64 {
    wrap_int(POISON_INT, dtype)
}

fn scatter_into<T: Exact>(
    source: &[T],
    table: &IndexTable,
    written: &mut [bool],
    poison: T,
) -> Result<Vec<T>, usize> {
    let Map::Table(positions) = &table.map else {
        written.fill(true);
        return Ok(source.to_vec());
    };
    let mut out = vec![poison; table.positions];
    for (number, (&x, &position)) in source.iter().zip(positions).enumerate() {
        let position = position as usize;
        if written[position] && !out[position].same(x) {
            return Err(number);
        }
        out[position] = x;
        written[position] = true;
    }
    Ok(out)
}

/// Reads every element from its position. The error is the row-major number of an element whose position was never
/// written.
fn gather(buffer: &Buffer, table: &IndexTable, shape: &[usize]) -> Result<Data, usize> {
    let count = shape.iter().product();
    Ok(match &buffer.data {
        Data::F32(v) => Data::F32(gather_from(v, buffer, table, count)?),
        Data::F64(v) => Data::F64(gather_from(v, buffer, table, count)?),
        Data::I64(v) => Data::I64(gather_from(v, buffer, table, count)?),
        Data::Bits(v) => Data::Bits(gather_from(v, buffer, table, count)?),
    })
}

fn gather_from<T: Exact>(
    source: &[T],
    buffer: &Buffer,
    table: &IndexTable,
    count: usize,
) -> Result<Vec<T>, usize> {
    match &table.map {
        Map::Identity => match buffer.written.iter().position(|w| !w) {
            Some(number) => Err(number),
            None => Ok(source.to_vec()),
        },
        Map::Table(positions) => {
            let mut out = Vec::with_capacity(count);
            for (number, &position) in positions.iter().enumerate() {
                if !buffer.written[position as usize] {
                    return Err(number);
                }
                out.push(source[position as usize]);
            }
            Ok(out)
        }
    }
}
