//! Values in the bytes of others: each position of their own buffer is replaced by a position of another buffer.

use super::{
    Buffer, Buffers, Exact, Held, IndexTable, NOWHERE, POISON_BITS, POISON_F32, POISON_F64,
    Physical, Spot, poison,
};
use crate::error::OpFailure;
use crate::frame::{Piece, Shares, Site};
use optc_ir::{DType, Data, Tensor};
use std::cell::RefCell;
use std::rc::Rc;

impl Shares for Physical {
    type Held = Held;

    fn reserve(&mut self, value: &Site) -> Result<Held, OpFailure> {
        let table = self.table(&value.ty, &value.shape)?;
        Ok(Held::own(
            poisoned(&table, value.ty.dtype),
            value.shape.clone(),
        ))
    }

    fn within(
        &mut self,
        (whole, large): (&Held, &Site),
        part: &Site,
        numbers: &[usize],
        shape: &[usize],
    ) -> Result<Held, OpFailure> {
        let from = self.table(&large.ty, &large.shape)?;
        let to = self.table(&part.ty, &part.shape)?;
        if from.positions != whole.positions() {
            return Err(super::resized(&from, whole));
        }
        let mut at = vec![NOWHERE; to.positions];
        for (number, &of_whole) in numbers.iter().enumerate() {
            at[to.position(number)] = whole.spot(from.position(of_whole));
        }
        Ok(Held {
            buffers: Rc::clone(&whole.buffers),
            at: Some(Rc::new(at)),
            shape: shape.to_vec(),
        })
    }

    fn in_pieces(&mut self, value: &Site, parts: &[Piece<Held>]) -> Result<Held, OpFailure> {
        let own = self.table(&value.ty, &value.shape)?;
        let mut buffers = vec![Rc::new(RefCell::new(poisoned(&own, value.ty.dtype)))];
        let spot = |p: usize| (0, u32::try_from(p).expect("below the limit of positions"));
        let mut at: Vec<Spot> = (0..own.positions).map(spot).collect();
        for ((held, part), (view, numbers)) in parts {
            let first = u32::try_from(buffers.len()).unwrap_or(u32::MAX);
            buffers.extend(held.buffers.iter().cloned());
            let of_view = self.table(&view.ty, &view.shape)?;
            let of_part = self.table(&part.ty, &part.shape)?;
            if of_view.positions != own.positions {
                return Err(super::resized(&of_view, held));
            }
            for (number, &of_whole) in numbers.iter().enumerate() {
                let (buffer, position) = held.spot(of_part.position(number));
                at[of_view.position(of_whole)] = (first.saturating_add(buffer), position);
            }
        }
        Ok(Held {
            buffers: Rc::new(buffers),
            at: Some(Rc::new(at)),
            shape: value.shape.clone(),
        })
    }

    fn write(
        &mut self,
        held: &Held,
        tensor: &Tensor,
        value: &Site,
        written: &[usize],
    ) -> Result<(), OpFailure> {
        let mut wanted = vec![Spotted::Unwritten; tensor.len()];
        for &number in written {
            wanted[number] = Spotted::Same;
        }
        self.put(held, tensor, value, &wanted)
    }

    fn overwrite(&mut self, held: &Held, tensor: &Tensor, value: &Site) -> Result<(), OpFailure> {
        self.put(held, tensor, value, &vec![Spotted::Written; tensor.len()])
    }
}

impl Physical {
    /// Writes every element of a tensor to its spot, which must have the wanted content.
    fn put(
        &mut self,
        held: &Held,
        tensor: &Tensor,
        value: &Site,
        wanted: &[Spotted],
    ) -> Result<(), OpFailure> {
        let table = self.table(&value.ty, &value.shape)?;
        if table.positions != held.positions() {
            return Err(super::resized(&table, held));
        }
        let done = match &tensor.data {
            Data::F32(v) => scatter(v, held, &table, wanted, |d| match d {
                Data::F32(out) => Some(out),
                Data::F64(_) | Data::I64(_) | Data::Bits(_) => None,
            }),
            Data::F64(v) => scatter(v, held, &table, wanted, |d| match d {
                Data::F64(out) => Some(out),
                Data::F32(_) | Data::I64(_) | Data::Bits(_) => None,
            }),
            Data::I64(v) => scatter(v, held, &table, wanted, |d| match d {
                Data::I64(out) => Some(out),
                Data::F32(_) | Data::F64(_) | Data::Bits(_) => None,
            }),
            Data::Bits(v) => scatter(v, held, &table, wanted, |d| match d {
                Data::Bits(out) => Some(out),
                Data::F32(_) | Data::F64(_) | Data::I64(_) => None,
            }),
        };
        done.map_err(|number| {
            let (element, layout, position) = table.element(number, &value.shape);
            OpFailure::Overlap {
                element,
                layout,
                position,
            }
        })
    }
}

/// The content that a spot must have when an element is written to it.
#[derive(Clone, Copy)]
enum Spotted {
    /// None.
    Unwritten,
    /// The element itself.
    Same,
    /// Any element.
    Written,
}

/// A buffer that was never written.
fn poisoned(table: &IndexTable, dtype: DType) -> Buffer {
    let n = table.positions;
    let data = match Tensor::from_i64(dtype, vec![0], []).data {
        Data::F32(_) => Data::F32(vec![f32::from_bits(POISON_F32); n]),
        Data::F64(_) => Data::F64(vec![f64::from_bits(POISON_F64); n]),
        Data::I64(_) => Data::I64(vec![poison(dtype); n]),
        Data::Bits(_) => Data::Bits(vec![POISON_BITS & (u128::MAX >> (128 - dtype.bits())); n]),
    };
    Buffer {
        data,
        written: vec![false; n],
        space: table.space,
        element_bits: table.element_bits,
    }
}

fn buffer(buffers: &Buffers, (number, position): Spot) -> Option<(&RefCell<Buffer>, usize)> {
    let buffer = buffers.get(number as usize)?;
    Some((buffer, position as usize))
}

/// Writes every element to its spot. The error is the row-major number of an element whose spot has not the wanted
/// content.
fn scatter<T: Exact>(
    source: &[T],
    held: &Held,
    table: &IndexTable,
    wanted: &[Spotted],
    of: impl Fn(&mut Data) -> Option<&mut Vec<T>>,
) -> Result<(), usize> {
    for (number, (&x, wanted)) in source.iter().zip(wanted).enumerate() {
        let spot = held.spot(table.position(number));
        let (buffer, position) = buffer(&held.buffers, spot).ok_or(number)?;
        let buffer = &mut *buffer.borrow_mut();
        let out = of(&mut buffer.data).ok_or(number)?;
        let fits = match wanted {
            Spotted::Unwritten => !buffer.written[position],
            Spotted::Same => buffer.written[position] && out[position].same(x),
            Spotted::Written => buffer.written[position],
        };
        if !fits {
            return Err(number);
        }
        out[position] = x;
        buffer.written[position] = true;
    }
    Ok(())
}

/// Reads every element from its spot. The error is the row-major number of an element that was never written.
pub(super) fn gather(held: &Held, table: &IndexTable, dtype: DType) -> Result<Data, usize> {
    let count: usize = held.shape.iter().product();
    let mut data = Tensor::from_i64(dtype, vec![0], []).data;
    for number in 0..count {
        let spot = held.spot(table.position(number));
        let (buffer, position) = buffer(&held.buffers, spot).ok_or(number)?;
        let buffer = buffer.borrow();
        if !buffer.written[position] {
            return Err(number);
        }
        match (&mut data, &buffer.data) {
            (Data::F32(out), Data::F32(v)) => out.push(v[position]),
            (Data::F64(out), Data::F64(v)) => out.push(v[position]),
            (Data::I64(out), Data::I64(v)) => out.push(v[position]),
            (Data::Bits(out), Data::Bits(v)) => out.push(v[position]),
            (Data::F32(_) | Data::F64(_) | Data::I64(_) | Data::Bits(_), _) => return Err(number),
        }
    }
    Ok(data)
}
