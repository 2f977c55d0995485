//! Constants: small ones inline, large ones as resources at the end of the module.

use super::digits::{row_major, volume};
use super::mem::{Mem, Outcome};
use super::resources::{Order, Resource, ResourceData, hex};
use super::stored::Stored;
use super::writer::Writer;
use optc_ir::{Attr, DType, OpData, Value};
use optc_layout::Digit;
use optc_ops::Constant;

/// The largest size in bytes of an inline constant.
const INLINE: usize = 64;

/// A constant is written with its padding if that multiplies its size by at most this factor.
const MOST_PADDING: u64 = 2;

/// Packs booleans, eight per byte.
fn packed(bytes: &[u8]) -> Vec<u8> {
    let pack = |chunk: &[u8]| {
        let bits = chunk.iter().enumerate();
        bits.fold(0u8, |sum, (i, &b)| sum | (u8::from(b != 0) << i))
    };
    bytes.chunks(8).map(pack).collect()
}

/// Writes a constant in the order of its memory. If its memory has ragged dimensions, readers may need it unpacked, so it
/// is deferred until something reads it.
pub(super) fn constant<'a>(w: &mut Writer<'a>, data: &'a OpData) -> Outcome<()> {
    let result = data.results[0];
    let stored = w.stored(result)?;
    let source = source(w, data)?;
    if stored.shape.iter().any(|&n| w.sizes.stands(n)) {
        return Err(w.refuse("nothing says how many elements it has"));
    }
    if stored.is_ragged() {
        w.waiting[result] = Some(data);
        return Ok(());
    }
    let full = volume(&stored.shape).saturating_mul(MOST_PADDING);
    if volume(&stored.extents()) <= full {
        let mem = elements(w, data, source, &stored)?;
        w.set(result, mem);
        return Ok(());
    }
    // With padding the constant would exceed `MOST_PADDING` times its size, so it is written without padding.
    let digits = stored.digits();
    let mem = elements(w, data, source, &Stored::exact(&stored.shape, &digits))?;
    w.settle(result, &mem, &digits)
}

fn source(w: &Writer<'_>, data: &OpData) -> Outcome<ResourceData> {
    let Some(made) = w.typed::<Constant>(data) else {
        return Err(w.refuse("it has no elements"));
    };
    match (&made.value, &made.data) {
        (Some(Attr::Dense(dense)), _) => Ok(ResourceData::Dense(dense.clone())),
        (
            _,
            Some(Attr::External {
                file,
                offset,
                length,
            }),
        ) => Ok(ResourceData::File(file.to_string(), *offset, *length)),
        _ => Err(w.refuse("it has neither a value nor data")),
    }
}

/// The elements of a constant, in the order of a memory layout.
fn elements(
    w: &mut Writer<'_>,
    data: &OpData,
    source: ResourceData,
    stored: &Stored,
) -> Outcome<Mem> {
    let resource = Resource {
        order: Order::of(stored),
        source,
        dtype: w.tensor(data.results[0])?.dtype,
        span: data.span,
    };
    written(w, resource, &stored.extents())
}

impl Writer<'_> {
    /// Writes the memory of a deferred constant.
    pub(super) fn place_constant(&mut self, value: Value) -> Outcome<()> {
        let (Some(data), None) = (self.waiting[value], &self.mems[value]) else {
            return Ok(());
        };
        let stored = self.stored(value)?;
        if stored.is_digital() {
            let source = source(self, data)?;
            let mem = elements(self, data, source, &stored)?;
            self.set(value, mem);
            return Ok(());
        }
        let mem = self.mem(value)?;
        self.settle(value, &mem, &row_major(&stored.shape))
    }

    /// Writes the elements of a deferred constant in row-major order.
    pub(super) fn see_constant(&mut self, value: Value) -> Outcome<()> {
        let (Some(data), None) = (self.waiting[value], &self.seen[value]) else {
            return Ok(());
        };
        let shape = self.shape(value)?;
        let digits = row_major(&shape);
        let source = source(self, data)?;
        let mem = elements(self, data, source, &Stored::exact(&shape, &digits))?;
        self.seen[value] = Some((mem, digits));
        Ok(())
    }
}

/// Writes a constant inline, or as a reference to its resource.
fn written(w: &mut Writer<'_>, resource: Resource, shape: &[u64]) -> Outcome<Mem> {
    let dtype = resource.dtype;
    let ty = w.sizes.tensor(shape, dtype);
    let inline = |w: &mut Writer<'_>, bytes: &[u8]| {
        let mut text = "arith.constant dense<\"0x".to_owned();
        hex(bytes, &mut text);
        w.put(&format!("{text}\"> : {ty}"), shape, dtype)
    };
    if shape.contains(&0) {
        return Ok(w.put(&format!("arith.constant dense<> : {ty}"), shape, dtype));
    }
    if let ResourceData::Dense(dense) = &resource.source {
        // In MLIR's text, a splat of booleans is a single byte: all bits set for true, 0 for false.
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
        return Err(w.refuse("external data with elements narrower than a byte is not supported"));
    }
    let name = w.shared.named(resource);
    Ok(w.put(
        &format!("arith.constant dense_resource<{name}> : {ty}"),
        shape,
        dtype,
    ))
}

/// Writes booleans that a file stores as one byte each.
fn truths(w: &mut Writer<'_>, resource: Resource, shape: &[u64]) -> Mem {
    let bytes = DType::UI8;
    let resource = Resource {
        dtype: bytes,
        ..resource
    };
    let name = w.shared.named(resource);
    let ty = w.sizes.tensor(shape, bytes);
    let text = format!("arith.constant dense_resource<{name}> : {ty}");
    let mem = w.put(&text, shape, bytes);
    w.narrowed(&mem, DType::BOOL)
}

/// Numbers known at compile time, as a tensor of one dimension.
pub(super) fn numbers(w: &mut Writer<'_>, values: &[f64], dtype: DType) -> Mem {
    let n = values.len() as u64;
    let texts: Vec<String> = values
        .iter()
        .map(|&x| super::types::number_text(x, dtype))
        .collect();
    let ty = w.sizes.tensor(&[n], dtype);
    let text = format!("arith.constant dense<[{}]> : {ty}", texts.join(", "));
    w.put(&text, &[n], dtype)
}

/// The digits of a single dimension of extent `n`, as dimension `of` of a nest.
pub(super) fn line_digits(of: usize, n: u64) -> Vec<Digit> {
    let mut digits = row_major(&[n]);
    digits.iter_mut().for_each(|d| d.of = of);
    digits
}
