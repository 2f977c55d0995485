//! Buffers of bytes, aligned to cache lines, and reading and writing elements of any width.

use crate::access::Access;
use optc_ir::tensor::storage_bytes;
use optc_ir::{DType, EvalError, Tensor};
use optc_kernels::vectorized::CACHE_LINE;

/// Bytes of the unit that memory is allocated in.
const UNIT: usize = 16;
/// Content of memory before it is written, with poison: NaN as `f32`.
const POISON: u128 = 0x7FC0_DEAD_7FC0_DEAD_7FC0_DEAD_7FC0_DEAD;

/// Bytes, aligned to a cache line.
#[derive(Clone, Debug, Default)]
pub(crate) struct Buffer {
    units: Vec<u128>,
    /// Units before the first aligned one.
    skip: usize,
    bytes: usize,
}

impl Buffer {
    /// A buffer of `bytes` bytes, poisoned or 0; `None` if the allocation fails.
    pub(crate) fn new(bytes: usize, poisoned: bool) -> Option<Buffer> {
        let count = bytes.div_ceil(UNIT).checked_add(CACHE_LINE / UNIT)?;
        let mut units = Vec::new();
        units.try_reserve_exact(count).ok()?;
        units.resize(count, if poisoned { POISON } else { 0 });
        let address = units.as_ptr().addr();
        let skip = address.next_multiple_of(CACHE_LINE).saturating_sub(address) / UNIT;
        Some(Buffer { units, skip, bytes })
    }

    /// Poisons memory that begins at the start of a buffer.
    pub(crate) fn poison(bytes: &mut [u8]) {
        let poison = POISON.to_ne_bytes();
        bytes
            .iter_mut()
            .zip(poison.into_iter().cycle())
            .for_each(|(byte, poison)| *byte = poison);
    }

    pub(crate) fn bytes(&self) -> &[u8] {
        let all: &[u8] = bytemuck::cast_slice(&self.units);
        let from = (self.skip * UNIT).min(all.len());
        &all[from..(from + self.bytes).min(all.len())]
    }

    pub(crate) fn bytes_mut(&mut self) -> &mut [u8] {
        let (skip, bytes) = (self.skip * UNIT, self.bytes);
        let all: &mut [u8] = bytemuck::cast_slice_mut(&mut self.units);
        let from = skip.min(all.len());
        let to = (from + bytes).min(all.len());
        &mut all[from..to]
    }
}

/// Gathers the elements of a value into a row-major tensor.
///
/// # Errors
/// The elements do not fit the type.
pub(crate) fn gather(
    bytes: &[u8],
    access: &Access,
    dtype: DType,
    width: u32,
) -> Result<Tensor, EvalError> {
    let size = storage_bytes(dtype);
    let mut out = Vec::with_capacity(access.count() * size);
    if width as usize == size * 8 {
        access.each(|offset| {
            let at = offset as usize * size;
            out.extend_from_slice(&bytes[at..at + size]);
        });
    } else {
        access.each(|offset| {
            let bits = read_bits(bytes, offset as u64 * u64::from(width), width);
            out.extend_from_slice(&bits.to_le_bytes()[..size]);
        });
    }
    Tensor::from_bytes(dtype, access.shape(), &out)
}

/// Scatters the elements of a row-major tensor to their places.
pub(crate) fn scatter(tensor: &Tensor, bytes: &mut [u8], access: &Access, width: u32) {
    let size = storage_bytes(tensor.dtype);
    let elements = tensor.to_bytes();
    let mut next = elements.chunks_exact(size);
    if width as usize == size * 8 {
        access.each(|offset| {
            let at = offset as usize * size;
            if let Some(element) = next.next() {
                bytes[at..at + size].copy_from_slice(element);
            }
        });
    } else {
        access.each(|offset| {
            let Some(element) = next.next() else { return };
            let mut wide = [0u8; 16];
            wide[..size].copy_from_slice(element);
            let at = offset as u64 * u64::from(width);
            write_bits(bytes, at, width, u128::from_le_bytes(wide));
        });
    }
}

/// Reads `width` bits from bit `from` on, the lowest bit of a byte first.
fn read_bits(bytes: &[u8], from: u64, width: u32) -> u128 {
    let mut bits = 0u128;
    for i in 0..u64::from(width).min(128) {
        let at = from + i;
        let bit = bytes[(at / 8) as usize] >> (at % 8) & 1;
        bits |= u128::from(bit) << i;
    }
    bits
}

fn write_bits(bytes: &mut [u8], from: u64, width: u32, bits: u128) {
    for i in 0..u64::from(width).min(128) {
        let at = from + i;
        let byte = &mut bytes[(at / 8) as usize];
        let mask = 1u8 << (at % 8);
        match bits >> i & 1 {
            0 => *byte &= !mask,
            _ => *byte |= mask,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn buffers_begin_at_a_line_and_are_poisoned() {
        let mut buffer = Buffer::new(100, true).expect("there is memory");
        assert_eq!(buffer.bytes().len(), 100);
        assert_eq!(buffer.bytes().as_ptr().addr() % CACHE_LINE, 0);
        let number = f32::from_le_bytes([
            buffer.bytes()[0],
            buffer.bytes()[1],
            buffer.bytes()[2],
            buffer.bytes()[3],
        ]);
        assert!(number.is_nan());
        buffer.bytes_mut().fill(0);
        assert!(buffer.bytes().iter().all(|&b| b == 0));
        assert!(Buffer::new(usize::MAX, false).is_none());
    }

    #[test]
    fn bits_are_read_as_they_are_written() {
        let mut bytes = vec![0xFFu8; 8];
        for (i, bits) in [5u128, 0, 9, 15, 2].into_iter().enumerate() {
            write_bits(&mut bytes, i as u64 * 4, 4, bits);
            assert_eq!(read_bits(&bytes, i as u64 * 4, 4), bits);
        }
        assert_eq!(read_bits(&bytes, 0, 4), 5);
        assert_eq!(bytes[7], 0xFF);
    }
}
