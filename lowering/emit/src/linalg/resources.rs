//! The elements of constants behind the program.

use super::mem::Outcome;
use crate::codes;
use crate::hlo::ReadData;
use indexmap::IndexMap;
use optc_ir::attr::Dense;
use optc_ir::{DType, Diagnostic, Span};
use std::fmt::Write as _;
use std::sync::Arc;

/// Where the elements of a resource are.
pub(super) enum Source {
    /// In the program.
    Dense(Arc<Dense>),
    /// In a file: its name, offset and length.
    File(String, u64, u64),
}

/// The elements of a constant, in the order of its memory.
pub(super) struct Resource {
    pub(super) source: Source,
    pub(super) dtype: DType,
    /// The digits of the memory with the distance, in elements, between neighbours of each in the source.
    pub(super) order: Vec<(u64, u64)>,
    pub(super) span: Span,
}

/// A place in a file, its offset and length, and the order in which it is read.
type Place = (String, u64, u64, Vec<(u64, u64)>);

/// The elements of constants, written behind the program.
#[derive(Default)]
pub(super) struct Resources {
    all: IndexMap<String, Resource>,
    /// The resource of a place in a file in an order.
    known: IndexMap<Place, String>,
}

impl Resources {
    /// The name of a resource; one place of a file in one order is one resource.
    pub(super) fn named(&mut self, resource: Resource) -> String {
        let fresh = format!("c{}", self.all.len());
        if let Source::File(file, offset, length) = &resource.source {
            let key = (file.clone(), *offset, *length, resource.order.clone());
            if let Some(known) = self.known.get(&key) {
                return known.clone();
            }
            self.known.insert(key, fresh.clone());
        }
        self.all.insert(fresh.clone(), resource);
        fresh
    }

    /// The section of all resources; elements of files are read one constant after the other.
    pub(super) fn write(&self, out: &mut String, data: &ReadData<'_>) -> Outcome<()> {
        if self.all.is_empty() {
            return Ok(());
        }
        // Text of this size is not to be moved while it grows.
        let bytes = self.all.values().map(Resource::len);
        let text = bytes.fold(64usize, |sum, n| {
            sum.saturating_add(n.saturating_mul(2)).saturating_add(64)
        });
        // Where that much cannot be had, neither can the elements, which are asked for below.
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
    /// The number of bytes.
    fn len(&self) -> usize {
        let elements = self.order.iter().fold(1u64, |n, o| n.saturating_mul(o.0));
        usize::try_from(elements).map_or(0, |n| n.saturating_mul(width(self.dtype)))
    }

    fn bytes(&self, data: &ReadData<'_>) -> Outcome<Vec<u8>> {
        match &self.source {
            Source::Dense(dense) => Ok(self.ordered(&dense.bytes)),
            Source::File(file, offset, length) => {
                let read = data(file, *offset, *length, self.dtype);
                let bytes = read.map_err(|problem| missing(file, &problem, self.span))?;
                Ok(match self.is_ordered() {
                    true => bytes,
                    false => self.ordered(&bytes),
                })
            }
        }
    }

    /// Whether the elements lie in the source as they do in memory.
    fn is_ordered(&self) -> bool {
        let mut stride = 1;
        self.order.iter().rev().all(|&(extent, step)| {
            let fits = step == stride;
            stride *= extent;
            fits
        })
    }

    /// Elements in the order of the memory.
    pub(super) fn ordered(&self, bytes: &[u8]) -> Vec<u8> {
        if self.is_ordered() {
            return bytes.to_vec();
        }
        let width = width(self.dtype);
        let size = |n: u64| usize::try_from(n).unwrap_or(usize::MAX);
        let total: usize = self.order.iter().map(|o| size(o.0)).product();
        let mut out = Vec::with_capacity(bytes.len());
        let mut index = vec![0usize; self.order.len()];
        let mut at = 0usize;
        for _ in 0..total {
            let from = at * width;
            out.extend_from_slice(bytes.get(from..from + width).unwrap_or_default());
            for (i, &(extent, step)) in index.iter_mut().zip(&self.order).rev() {
                *i += 1;
                at += size(step);
                if *i < size(extent) {
                    break;
                }
                at -= size(step) * *i;
                *i = 0;
            }
        }
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

/// The bytes of an element.
fn width(dtype: DType) -> usize {
    optc_ir::tensor::storage_bytes(dtype)
}

/// Bytes as two digits each.
pub(super) fn hex(bytes: &[u8], out: &mut String) {
    const DIGITS: &[u8; 16] = b"0123456789ABCDEF";
    for &byte in bytes {
        out.push(char::from(DIGITS[usize::from(byte >> 4)]));
        out.push(char::from(DIGITS[usize::from(byte & 15)]));
    }
}
