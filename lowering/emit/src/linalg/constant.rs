//! Constants: small ones in the text, large ones behind it as resources.

use super::digits::{extents, row_major};
use super::mem::{Mem, Outcome};
use super::resources::{Resource, Source, hex};
use super::writer::Writer;
use optc_ir::{Attr, DType, OpData};
use optc_layout::Digit;
use optc_ops::Constant;

/// Elements up to this many bytes are written where the constant stands.
const INLINE: usize = 64;

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
    if shape.iter().any(|&n| w.sizes.stands(n)) {
        return Err(w.refuse("nothing says how many elements it has"));
    }
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
    let ty = w.sizes.tensor(shape, dtype);
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
    let name = w.shared.named(resource);
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
    let name = w.shared.named(resource);
    let ty = w.sizes.tensor(shape, bytes);
    let text = format!("arith.constant dense_resource<{name}> : {ty}");
    let mem = w.put(&text, shape, bytes);
    w.narrowed(&mem, DType::BOOL)
}

/// Numbers that are known while the program is written, as a tensor of one dimension.
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

/// The row-major digits of one dimension.
pub(super) fn line_digits(of: usize, n: u64) -> Vec<Digit> {
    let mut digits = row_major(&[n]);
    digits.iter_mut().for_each(|d| d.of = of);
    digits
}
