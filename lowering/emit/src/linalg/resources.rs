//! Resources: the elements of constants, at the end of the module.

use super::mem::Outcome;
use super::stored::{Stored, StoredDim};
use crate::{ReadData, codes};
use indexmap::IndexMap;
use optc_ir::attr::Dense;
use optc_ir::{DType, Diagnostic, Span};
use optc_layout::Digit;
use std::fmt::Write as _;
use std::sync::Arc;

/// The location of the elements of a resource.
pub(super) enum ResourceData {
    /// In the program.
    Dense(Arc<Dense>),
    /// In a file: its name, offset and length.
    File(String, u64, u64),
}

/// The elements of a constant, in the order of its memory.
pub(super) struct Resource {
    pub(super) source: ResourceData,
    pub(super) dtype: DType,
    pub(super) order: Order,
    pub(super) span: Span,
}

/// The order of elements in memory, relative to their row-major source.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(super) struct Order {
    places: Vec<Position>,
    /// The extents of the value.
    shape: Vec<u64>,
}

/// A dimension of the memory.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
struct Position {
    place: StoredDim,
    /// The distance, in elements, between adjacent positions in the source.
    step: u64,
}

impl Order {
    /// The order of elements in memory.
    pub(super) fn of(stored: &Stored) -> Order {
        let shape = &stored.shape;
        let mut strides = vec![1u64; shape.len()];
        for d in (1..shape.len()).rev() {
            strides[d - 1] = strides[d].saturating_mul(shape[d]);
        }
        let position = |&place: &StoredDim| {
            let stride = strides.get(place.digit.of).copied().unwrap_or(0);
            let step = stride.saturating_mul(place.digit.div);
            Position { place, step }
        };
        Order {
            places: stored.places.iter().map(position).collect(),
            shape: shape.clone(),
        }
    }

    /// The number of positions, padding included.
    fn len(&self) -> u64 {
        let extents = self.places.iter().map(|p| p.place.extent);
        extents.fold(1, u64::saturating_mul)
    }

    /// Returns whether memory has the same order as the source.
    fn is_plain(&self) -> bool {
        let mut stride = 1;
        self.places.iter().rev().all(|p| {
            let fits = p.step == stride && p.place.extent == p.place.digit.extent;
            stride *= p.place.extent;
            fits
        })
    }

    /// Writes the elements of the memory's dimensions `places`, recursively. `at` is the position in the source of their
    /// first element, and `dims` is the index that the outer dimensions have reached. An element has `width` bytes; padding
    /// is zeros.
    fn write(
        places: &[Position],
        (at, dims): (u64, &mut [u64]),
        (shape, source): (&[u64], &[u8]),
        width: usize,
        out: &mut Vec<u8>,
    ) {
        let Some((position, below)) = places.split_first() else {
            let from = usize::try_from(at).map_or(usize::MAX, |at| at.saturating_mul(width));
            let element = source.get(from..from.saturating_add(width));
            return match element {
                Some(element) => out.extend_from_slice(element),
                None => out.resize(out.len() + width, 0),
            };
        };
        let Digit { of, div, extent } = position.place.digit;
        // The number of values of this digit that are inside of the dimension, given the digits above.
        let room = shape[of].saturating_sub(dims[of]).div_ceil(div);
        let held = extent.min(room);
        let size = |n: u64| usize::try_from(n).unwrap_or(usize::MAX);
        if below.is_empty() && position.step == 1 {
            let from = size(at).saturating_mul(width);
            let run = size(held).saturating_mul(width);
            let run = source.get(from..from.saturating_add(run));
            out.extend_from_slice(run.unwrap_or_default());
        } else {
            for i in 0..held {
                dims[of] += i * div;
                let next = (at + i * position.step, &mut *dims);
                Order::write(below, next, (shape, source), width, out);
                dims[of] -= i * div;
            }
        }
        let rest = below.iter().map(|p| p.place.extent);
        let rest = rest.fold(position.place.extent - held, u64::saturating_mul);
        out.resize(out.len() + size(rest).saturating_mul(width), 0);
    }
}

/// A range of a file, by offset and length, and the order in which it is read.
type OrderedRange = (String, u64, u64, Order);

/// The elements of constants, which are written behind the program.
#[derive(Default)]
pub(super) struct Resources {
    all: IndexMap<String, Resource>,
    /// Names of resources from files, by range and order.
    known: IndexMap<OrderedRange, String>,
}

impl Resources {
    /// Adds a resource and returns its name. Equal ranges of a file in the same order share one resource.
    pub(super) fn named(&mut self, resource: Resource) -> String {
        let fresh = format!("c{}", self.all.len());
        if let ResourceData::File(file, offset, length) = &resource.source {
            let key = (file.clone(), *offset, *length, resource.order.clone());
            if let Some(known) = self.known.get(&key) {
                return known.clone();
            }
            self.known.insert(key, fresh.clone());
        }
        self.all.insert(fresh.clone(), resource);
        fresh
    }

    /// Writes the section of all resources; files are read one constant at a time.
    pub(super) fn write(&self, out: &mut String, data: &ReadData<'_>) -> Outcome<()> {
        if self.all.is_empty() {
            return Ok(());
        }
        // Reserves the size of the whole text, so that it is not copied while it grows.
        let bytes = self.all.values().map(Resource::len);
        let text = bytes.fold(64usize, |sum, n| {
            sum.saturating_add(n.saturating_mul(2)).saturating_add(64)
        });
        // A failed reservation is ignored: the allocations below then fail and report it.
        let _ = out.try_reserve_exact(text);
        out.push_str("\n{-#\n  dialect_resources: {\n    builtin: {\n");
        for (i, (name, resource)) in self.all.iter().enumerate() {
            if 0 < i {
                out.push_str(",\n");
            }
            let align = width(resource.dtype).min(8);
            let _ = write!(out, "      {name}: \"0x{:02X}000000", align);
            hex(&resource.bytes(data)?, out);
            out.push('"');
        }
        out.push_str("\n    }\n  }\n#-}\n");
        Ok(())
    }
}

impl Resource {
    /// The size in bytes, padding included.
    fn len(&self) -> usize {
        usize::try_from(self.order.len()).map_or(0, |n| n.saturating_mul(width(self.dtype)))
    }

    fn bytes(&self, data: &ReadData<'_>) -> Outcome<Vec<u8>> {
        match &self.source {
            ResourceData::Dense(dense) => Ok(self.ordered(&dense.bytes)),
            ResourceData::File(file, offset, length) => {
                let read = data(file, *offset, *length, self.dtype);
                let bytes = read.map_err(|problem| missing(file, &problem, self.span))?;
                Ok(match self.order.is_plain() {
                    true => bytes,
                    false => self.ordered(&bytes),
                })
            }
        }
    }

    /// Elements in the order of the memory, with zeros for padding.
    pub(super) fn ordered(&self, bytes: &[u8]) -> Vec<u8> {
        if self.order.is_plain() {
            return bytes.to_vec();
        }
        let mut out = Vec::with_capacity(self.len());
        let Order { places, shape } = &self.order;
        let mut dims = vec![0; shape.len()];
        let start = (0, &mut *dims);
        Order::write(places, start, (shape, bytes), width(self.dtype), &mut out);
        out
    }
}

fn missing(file: &str, problem: &str, span: Span) -> Box<Diagnostic> {
    let message = format!("the data of a constant cannot be read: {problem}");
    let diag = Diagnostic::error(codes::LINALG_CONSTANT_DATA, message);
    let hint = format!(
        "put `{file}` where the program looks for it: MLIR text holds the numbers themselves"
    );
    Box::new(diag.at(span, "this constant").hint(hint))
}

/// The size of an element in bytes.
fn width(dtype: DType) -> usize {
    optc_ir::tensor::storage_bytes(dtype)
}

/// Appends each byte as two hexadecimal digits.
pub(super) fn hex(bytes: &[u8], out: &mut String) {
    const DIGITS: &[u8; 16] = b"0123456789ABCDEF";
    for &byte in bytes {
        out.push(char::from(DIGITS[usize::from(byte >> 4)]));
        out.push(char::from(DIGITS[usize::from(byte & 15)]));
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use optc_layout::notation::parse_tensor;

    /// Checks the order of the bytes 1, 2, … in a layout.
    #[track_caller]
    fn check(text: &str, wanted: &[u8]) {
        let layout = parse_tensor(text).expect("a layout").layout;
        let stored = Stored::of(layout.shape(), &layout, |_| false).expect("digits");
        let order = Order::of(&stored);
        let elements: Vec<u8> = (1..=layout.elements() as u8).collect();
        let mut out = Vec::new();
        let mut dims = vec![0; order.shape.len()];
        let start = (0, &mut *dims);
        Order::write(&order.places, start, (&order.shape, &elements), 1, &mut out);
        assert_eq!(out, wanted);
        assert_eq!(order.len(), wanted.len() as u64);
    }

    #[test]
    fn padding_is_zeros() {
        check("tensor<2x3xsi8, {order = [1, 0]}>", &[1, 4, 2, 5, 3, 6]);
        check(
            "tensor<2x3xsi8, {block = \"4W\"}>",
            &[1, 2, 3, 0, 4, 5, 6, 0],
        );
        check("tensor<5xsi8, {block = \"4W\"}>", &[1, 2, 3, 4, 5, 0, 0, 0]);
        check(
            "tensor<3x3xsi8, {block = \"2H2W\"}>",
            &[1, 2, 4, 5, 3, 0, 6, 0, 7, 8, 0, 0, 9, 0, 0, 0],
        );
        check("tensor<2x1xsi8, {block = \"2W\"}>", &[1, 0, 2, 0]);
    }
}
