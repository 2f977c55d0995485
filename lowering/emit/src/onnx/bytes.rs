//! Integers of 32 bits that are bytes minus a zero point: the operands of ONNX's integer operators.

use super::writer::{Outcome, Writer};
use optc_ir::op::Operation;
use optc_ir::{DType, OpData, Tensor, Value};
use optc_ops::{Broadcast, Cast, Flatten, Reshape, Slice, Squeeze, Sub, Transpose, Unsqueeze};

/// The largest number of operations that are looked through.
const MOST_STEPS: usize = 16;

/// Bytes, and their zero point; `None` means 0.
pub(super) struct Bytes {
    pub(super) name: String,
    pub(super) zero: Option<String>,
    pub(super) dtype: DType,
}

/// The bytes from which a value of integers was made; `None` if it is not known to be made of bytes.
pub(super) fn bytes(w: &mut Writer<'_>, value: Value) -> Outcome<Option<Bytes>> {
    if let Some(elements) = w.elements(value)? {
        return of_constant(w, &elements);
    }
    if let Some(found) = less_zero(w, value)? {
        return Ok(Some(found));
    }
    let Some(range) = range(w, value, 0)? else {
        return Ok(None);
    };
    let Some((dtype, zero)) = fitting(range) else {
        return Ok(None);
    };
    let wide = w.tensor(value)?.dtype;
    let mut name = w.name(value)?;
    if zero != 0 {
        let more = w.literal(&Tensor::from_i64(wide, vec![], [zero]))?;
        name = w.node("Add", &[&name, &more], vec![]);
    }
    name = super::shapes::cast(w, &name, wide, dtype)?;
    let zero = zero_point(w, dtype, zero)?;
    Ok(Some(Bytes { name, zero, dtype }))
}

/// The type of bytes that holds numbers in this range, and the zero point that must be added to them first.
fn fitting((least, most): (i64, i64)) -> Option<(DType, i64)> {
    match (least, most) {
        (0.., ..=255) => Some((DType::UI8, 0)),
        (-128.., ..=127) => Some((DType::SI8, 0)),
        (-255..0, _) if most - least <= 255 => Some((DType::UI8, -least)),
        _ => None,
    }
}

fn zero_point(w: &mut Writer<'_>, dtype: DType, zero: i64) -> Outcome<Option<String>> {
    match zero {
        0 => Ok(None),
        n => w.literal(&Tensor::from_i64(dtype, vec![], [n])).map(Some),
    }
}

fn of_constant(w: &mut Writer<'_>, elements: &Tensor) -> Outcome<Option<Bytes>> {
    let all = || (0..elements.len()).map(|i| elements.i64_at(i));
    let (least, most) = (all().min().unwrap_or(0), all().max().unwrap_or(0));
    let Some((dtype, zero)) = fitting((least, most)) else {
        return Ok(None);
    };
    let shape = elements.shape.clone();
    let made = Tensor::from_i64(dtype, shape, all().map(|n| n + zero));
    let name = w.literal(&made)?;
    let zero = zero_point(w, dtype, zero)?;
    Ok(Some(Bytes { name, zero, dtype }))
}

/// Matches bytes that were widened, with at most one zero point subtracted.
fn less_zero(w: &mut Writer<'_>, value: Value) -> Outcome<Option<Bytes>> {
    if let Some(source) = widened(w, value)? {
        let dtype = w.tensor(source)?.dtype;
        let name = w.name(source)?;
        let zero = None;
        return Ok(Some(Bytes { name, zero, dtype }));
    }
    let Some(data) = made_by(w, value).filter(|data| &*data.name == Sub::NAME) else {
        return Ok(None);
    };
    let (a, b) = (data.operands[0], data.operands[1]);
    let Some(source) = widened(w, a)? else {
        return Ok(None);
    };
    let one = |ty: &optc_ir::TensorType| ty.dims.iter().all(optc_ir::Dim::is_one);
    // The zero point is one number, and broadcasting it adds no dimensions to the bytes.
    let (bytes, less) = (w.tensor(source)?, w.tensor(b)?);
    if !one(less) || bytes.rank() < less.rank() {
        return Ok(None);
    }
    let dtype = bytes.dtype;
    let zero = if let Some(elements) = w.elements(b)? {
        let n = elements.i64_at(0);
        let fits = match dtype {
            DType::UI8 => (0..=255).contains(&n),
            _ => (-128..=127).contains(&n),
        };
        if !fits {
            return Ok(None);
        }
        w.literal(&Tensor::from_i64(dtype, vec![], [n]))?
    } else {
        let Some(zero) = widened(w, b)? else {
            return Ok(None);
        };
        let ty = w.tensor(zero)?;
        if ty.dtype != dtype {
            return Ok(None);
        }
        let from = ty.dims.clone();
        let name = w.name(zero)?;
        match from.is_empty() {
            true => name,
            false => super::shapes::reshaped(w, &name, &from, &[])?,
        }
    };
    let name = w.name(source)?;
    let zero = Some(zero);
    Ok(Some(Bytes { name, zero, dtype }))
}

fn made_by<'a>(w: &Writer<'a>, value: Value) -> Option<&'a OpData> {
    let func = w.func;
    func.def_op(value).map(|op| &func.ops[op])
}

/// Matches bytes that were only converted to a wider type.
fn widened(w: &Writer<'_>, value: Value) -> Outcome<Option<Value>> {
    let Some(data) = made_by(w, value).filter(|data| &*data.name == Cast::NAME) else {
        return Ok(None);
    };
    let source = data.operands[0];
    let is_byte = matches!(w.tensor(source)?.dtype, DType::UI8 | DType::SI8);
    Ok(is_byte.then_some(source))
}

/// The range of a value, `(minimum, maximum)`; `None` if it is not known.
fn range(w: &Writer<'_>, value: Value, steps: usize) -> Outcome<Option<(i64, i64)>> {
    if MOST_STEPS < steps {
        return Ok(None);
    }
    if let Some(elements) = w.elements(value)? {
        let all = || (0..elements.len()).map(|i| elements.i64_at(i));
        return Ok(all().min().zip(all().max()));
    }
    let Some(data) = made_by(w, value) else {
        return Ok(None);
    };
    let moves = [
        Broadcast::NAME,
        Flatten::NAME,
        Reshape::NAME,
        Slice::NAME,
        Squeeze::NAME,
        Transpose::NAME,
        Unsqueeze::NAME,
    ];
    let of = |i: usize| range(w, data.operands[i], steps + 1);
    Ok(match &*data.name {
        Cast::NAME => match w.tensor(data.operands[0])?.dtype {
            DType::UI8 => Some((0, 255)),
            DType::SI8 => Some((-128, 127)),
            dtype if dtype.is_bool() => Some((0, 1)),
            _ => None,
        },
        Sub::NAME => match (of(0)?, of(1)?) {
            (Some((a, b)), Some((c, d))) => a.checked_sub(d).zip(b.checked_sub(c)),
            _ => None,
        },
        name if moves.contains(&name) => of(0)?,
        _ => None,
    })
}
