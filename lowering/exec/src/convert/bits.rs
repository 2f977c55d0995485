//! Conversions of elements that are no whole bytes, and of tensors that are moved one element at a time.

use super::nest::Nest;
use optc_layout::Placement;

/// Copies `len` bits. Bit `i` of a buffer is bit `i % 8` of byte `i / 8`, counted from the lowest.
fn copy(source: &[u8], mut from: usize, target: &mut [u8], mut to: usize, mut len: usize) {
    if from.is_multiple_of(8) && to.is_multiple_of(8) && len.is_multiple_of(8) {
        let source = &source[from / 8..(from + len) / 8];
        target[to / 8..(to + len) / 8].copy_from_slice(source);
        return;
    }
    while 0 < len {
        let room = (8 - from % 8).min(8 - to % 8).min(len);
        let mask = (0xff >> (8 - room)) as u8;
        let bits = (source[from / 8] >> (from % 8)) & mask;
        let place = &mut target[to / 8];
        *place = *place & !(mask << (to % 8)) | bits << (to % 8);
        (from, to, len) = (from + room, to + room, len - room);
    }
}

/// Moves a nest whose offsets are in bits.
pub(crate) fn run(nest: &Nest, source: &[u8], target: &mut [u8]) {
    let mut steps = vec![0usize; nest.loops.len()];
    let (mut from, mut to) = (nest.from, nest.to);
    for _ in 0..nest.units() {
        copy(
            source,
            from.unsigned_abs(),
            target,
            to.unsigned_abs(),
            nest.unit,
        );
        for (step, l) in steps.iter_mut().zip(&nest.loops).rev() {
            *step += 1;
            from += l.from;
            to += l.to;
            if *step < l.count {
                break;
            }
            from -= l.from * l.count as isize;
            to -= l.to * l.count as isize;
            *step = 0;
        }
    }
}

/// Moves elements one by one in row-major order; if several share a place, the last one stays.
pub(crate) fn one_by_one(from: &Placement, to: &Placement, source: &[u8], target: &mut [u8]) {
    let shape = from.shape();
    let bits = from.elem_bits() as usize;
    let mut e = vec![0u64; shape.len()];
    for _ in 0..from.elements() {
        if let (Some(read), Some(written)) = (from.index(&e), to.index(&e)) {
            copy(
                source,
                read as usize * bits,
                target,
                written as usize * bits,
                bits,
            );
        }
        for (index, size) in e.iter_mut().zip(shape).rev() {
            *index += 1;
            if *index < *size {
                break;
            }
            *index = 0;
        }
    }
}
