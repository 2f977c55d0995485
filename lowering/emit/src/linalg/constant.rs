//! Constants: small ones in the text, large ones behind it as resources.

use super::digits::{Digit, extents, row_major};
use super::types::tensor_text;
use super::writer::{Mem, Outcome, Writer};
use crate::codes;
use crate::hlo::ReadData;
use indexmap::IndexMap;
use optc_ir::attr::Dense;
use optc_ir::{Attr, DType, Diagnostic, OpData, Span};
use optc_ops::Constant;
use std::fmt::Write as _;
use std::sync::Arc;

/// Elements up to this many bytes are written where the constant stands.
const INLINE: usize = 64;

/// Where the elements of a resource are.
enum Source {
    /// In the program.
    Dense(Arc<Dense>),
    /// In a file: its name, offset and length.
    File(String, u64, u64),
}

/// The elements of a constant, in the order of its memory.
struct Resource {
    source: Source,
    dtype: DType,
    /// The digits of the memory with the distance, in elements, between neighbours of each in the source.
    order: Vec<(u64, u64)>,
    span: Span,
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
    fn ordered(&self, bytes: &[u8]) -> Vec<u8> {
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

fn hex(bytes: &[u8], out: &mut String) {
    const DIGITS: &[u8; 16] = b"0123456789ABCDEF";
    for &byte in bytes {
        out.push(char::from(DIGITS[usize::from(byte >> 4)]));
        out.push(char::from(DIGITS[usize::from(byte & 15)]));
    }
}

/// Truth values, eight a byte.
fn packed(bytes: &[u8]) -> Vec<u8> {
    let pack = |chunk: &[u8]| {
        let bits = chunk.iter().enumerate();
        bits.fold(0u8, |sum, (i, &b)| sum | (u8::from(b != 0) << i))
    };
    bytes.chunks(8).map(pack).collect()
}

/// A constant in the order of its memory.
pub(super) fn constant(w: &mut Writer<'_>, data: &OpData) -> Outcome<()> {
    let result = data.results[0];
    let ty = w.tensor(result)?;
    let digits = w.digits(result)?;
    let shape = w.shape(result)?;
    let Some(made) = w.typed::<Constant>(data) else {
        return Err(w.refuse("it has no elements"));
    };
    let source = match (&made.value, &made.data) {
        (Some(Attr::Dense(dense)), _) => Source::Dense(dense.clone()),
        (
            _,
            Some(Attr::External {
                file,
                offset,
                length,
            }),
        ) => Source::File(file.to_string(), *offset, *length),
        _ => return Err(w.refuse("it has neither a value nor data")),
    };
    let resource = Resource {
        order: order(&digits, &shape),
        source,
        dtype: ty.dtype,
        span: data.span,
    };
    let extents = extents(&digits);
    let mem = written(w, resource, &extents)?;
    w.set(result, mem);
    Ok(())
}

/// Extents of digits, with the distance between neighbours of each in row-major order.
fn order(digits: &[Digit], shape: &[u64]) -> Vec<(u64, u64)> {
    let mut strides = vec![1u64; shape.len()];
    for d in (1..shape.len()).rev() {
        strides[d - 1] = strides[d].saturating_mul(shape[d]);
    }
    let of = |d: &Digit| (d.extent, strides[d.of].saturating_mul(d.div));
    digits.iter().map(of).collect()
}

/// The constant in the text, or its name there.
fn written(w: &mut Writer<'_>, resource: Resource, shape: &[u64]) -> Outcome<Mem> {
    let dtype = resource.dtype;
    let ty = tensor_text(shape, dtype);
    let inline = |w: &mut Writer<'_>, bytes: &[u8]| {
        let mut text = "arith.constant dense<\"0x".to_owned();
        hex(bytes, &mut text);
        w.put(&format!("{text}\"> : {ty}"), shape, dtype)
    };
    if shape.contains(&0) {
        return Ok(w.put(&format!("arith.constant dense<> : {ty}"), shape, dtype));
    }
    if let Source::Dense(dense) = &resource.source {
        // Of truth values one byte that is all bits is all of them.
        let splat = |bytes: &[u8]| match dtype.is_bool() {
            true => vec![if bytes.iter().any(|b| *b != 0) {
                0xff
            } else {
                0
            }],
            false => bytes.to_vec(),
        };
        if dense.splat {
            return Ok(inline(w, &splat(&dense.bytes)));
        }
        if dtype.is_bool() {
            let bytes = resource.ordered(&dense.bytes);
            return Ok(match bytes.len() {
                1 => inline(w, &splat(&bytes)),
                _ => inline(w, &packed(&bytes)),
            });
        }
        if dense.bytes.len() <= INLINE || dtype.bits() < 8 {
            let bytes = resource.ordered(&dense.bytes);
            return Ok(inline(w, &bytes));
        }
    }
    if dtype.is_bool() {
        return Ok(truths(w, resource, shape));
    }
    if dtype.bits() < 8 {
        return Err(w.refuse("elements of less than a byte lie in a file"));
    }
    let name = named(w, resource);
    Ok(w.put(
        &format!("arith.constant dense_resource<{name}> : {ty}"),
        shape,
        dtype,
    ))
}

/// Truth values of a file, a byte each there.
fn truths(w: &mut Writer<'_>, resource: Resource, shape: &[u64]) -> Mem {
    let bytes = DType::UI8;
    let resource = Resource {
        dtype: bytes,
        ..resource
    };
    let name = named(w, resource);
    let ty = tensor_text(shape, bytes);
    let text = format!("arith.constant dense_resource<{name}> : {ty}");
    let mem = w.put(&text, shape, bytes);
    w.narrowed(&mem, DType::BOOL)
}

/// The name of a resource; one place of a file in one order is one resource.
fn named(w: &mut Writer<'_>, resource: Resource) -> String {
    let shared = &mut *w.shared;
    let fresh = format!("c{}", shared.all.len());
    if let Source::File(file, offset, length) = &resource.source {
        let key = (file.clone(), *offset, *length, resource.order.clone());
        if let Some(known) = shared.known.get(&key) {
            return known.clone();
        }
        shared.known.insert(key, fresh.clone());
    }
    shared.all.insert(fresh.clone(), resource);
    fresh
}

/// Numbers that are known while the program is written, as a tensor of one dimension.
pub(super) fn numbers(w: &mut Writer<'_>, values: &[f64], dtype: DType) -> Mem {
    let n = values.len() as u64;
    let texts: Vec<String> = values
        .iter()
        .map(|&x| super::types::number_text(x, dtype))
        .collect();
    let ty = tensor_text(&[n], dtype);
    let text = format!("arith.constant dense<[{}]> : {ty}", texts.join(", "));
    w.put(&text, &[n], dtype)
}

/// The row-major digits of one dimension.
pub(super) fn line_digits(of: usize, n: u64) -> Vec<Digit> {
    let mut digits = row_major(&[n]);
    digits.iter_mut().for_each(|d| d.of = of);
    digits
}
