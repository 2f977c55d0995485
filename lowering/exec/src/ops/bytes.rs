//! Operands of products that are bytes minus a zero point, converted to `si32` or `f32`: the bytes are multiplied instead,
//! in place.
//!
//! `sub(cast(x), 3)` of bytes `x`, as an operand of a product of `si32`, is read as the bytes `x` with zero point 3. The
//! zero point is constant or computed. A constant operand qualifies if the range of its elements fits in a byte. Sums are
//! exact, except that they wrap around, so the results are the same.

use crate::access::Access;
use crate::error::StepError;
use crate::memory::In;
use crate::ops::kernel::{Call, Family, Kernel, Site, rearranged};
use optc_ir::{Op, Operation, Structure, Value};
use optc_kernels::dequantize::Dequantizes;
use optc_kernels::element::{Kind, elements};
use optc_kernels::epilogue::{Dequantization, Epilogue};
use optc_kernels::gemm::{self, LEFT, Multiply, Products, Quantization};
use optc_kernels::scales;
use optc_ops::{Cast, Dequantize, Sub};
use std::sync::Arc;

/// Bytes that are read in place of the operands of a product.
#[derive(Clone, Debug)]
pub(crate) struct Bytes {
    pub(crate) sides: [Side; 2],
    /// For products of floats, the scale of the operand of bytes. The other operand is a constant, which is quantized
    /// later.
    pub(crate) scale: Option<f32>,
}

/// Bytes that are read in place of an operand.
#[derive(Clone, Debug)]
pub(crate) enum Side {
    Value(ByteOperand),
    /// Signed bytes at the offsets of a constant's elements, and their zero point.
    Constant {
        bytes: Arc<[u8]>,
        zero: i8,
    },
}

/// An operand that is converted from bytes.
#[derive(Clone, Debug)]
pub(crate) struct ByteOperand {
    /// The bytes.
    pub(crate) value: Value,
    /// Their offsets, by the indices of the operand.
    access: Access,
    unsigned: bool,
    /// Zero point: a constant byte, or the single element of another value.
    zero: Result<u8, Value>,
    /// The operations that convert them, the last first: a subtraction of the zero point, if there is one, and the cast.
    pub(crate) path: Vec<Op>,
    /// True if the bytes are read from the place of the last operation's result, where [`Copied`] has copied them.
    pub(crate) copied: bool,
}

/// The offsets of the scales of a dequantization.
pub(crate) fn scale_offsets(scale: &Dequantization) -> Access {
    Access::Sum {
        base: 0,
        tables: scale.tables.clone(),
    }
}

/// The kernel of products of operands, or of `bytes` in their place, and the bytes that it multiplies. `constants` are
/// the operands and the initial values that are constant floats. `along` gives the products with the offsets of an
/// epilogue's scales in place of those of the initial values.
pub(crate) fn multiplied(
    mut products: Products,
    kinds: [Kind; 2],
    bytes: Option<&Bytes>,
    constants: ([Option<&[u8]>; 2], Option<&[u8]>),
    mut epilogue: Option<Epilogue>,
    along: impl FnOnce(&Access) -> Option<Products>,
) -> Option<(Box<dyn Multiply>, Option<Bytes>)> {
    products.quantization = bytes.map(Bytes::quantization);
    let (floats, begins) = constants;
    let (bytes, mut dequantize) = match bytes {
        Some(bytes) => {
            let (bytes, dequantize) = bytes.of_floats(&products, floats, begins)?;
            (Some(bytes), dequantize)
        }
        None => (None, None),
    };
    if dequantize.is_some() {
        epilogue = Some(Epilogue::of_floats(epilogue));
    } else if let Some(of) = &epilogue
        && let Some(scale) = of.scale()
    {
        let along = along(&scale_offsets(scale))?;
        dequantize = Some(scales::of_epilogue(&products, &along, of)?);
    }
    let constants = bytes.as_ref().map_or(floats, Bytes::constants);
    let epilogue = epilogue.map(|epilogue| (epilogue, dequantize));
    let product = gemm::typed(products, kinds, constants, epilogue)?;
    Some((product, bytes))
}

/// Copies bytes to the place of the integers that they are converted to, and the zero point to its last byte; or one of
/// both.
#[derive(Debug)]
pub(crate) struct Copied {
    bytes: bool,
    /// Zero point: `None` if it is not copied, a constant byte, or an operand.
    zero: Option<Option<u8>>,
}

impl Copied {
    /// The copy that the operation at a site makes in place of its conversion, with its operands; the place must have room
    /// for the zero point behind the bytes.
    pub(crate) fn of(
        site: &Site<'_>,
        made: &ByteOperand,
        bytes: bool,
        zero: bool,
    ) -> Option<(Copied, Vec<Value>)> {
        let (from, to) = (
            site.slot(made.value)?,
            site.slot(*site.data().results.first()?)?,
        );
        let mut read = Vec::new();
        read.extend(bytes.then_some(made.value));
        read.extend(made.zero.err().filter(|_| zero));
        let apart = read
            .iter()
            .all(|&v| site.slot(v).is_some_and(|slot| !slot.overlaps(to)));
        let zero = zero.then_some(made.zero.ok());
        (apart && from.bytes < to.bytes).then_some((Copied { bytes, zero }, read))
    }
}

impl Kernel for Copied {
    fn name(&self) -> &'static str {
        "bytes"
    }

    fn family(&self) -> Family {
        Family::CopiedBytes
    }

    fn run(&self, Call { ins, out, .. }: Call<'_>) -> Result<(), StepError> {
        let mut ins = ins.iter().map(|operand| match operand {
            In::Bytes(bytes) => Ok(*bytes),
            In::Inplace | In::Aliased => Err(StepError::BytesWrittenOver),
        });
        let mut next = || ins.next().unwrap_or(Err(StepError::BytesMissing));
        let (last, to) = out.split_last_mut().ok_or(StepError::BytesNowhere)?;
        if self.bytes {
            let bytes = next()?;
            let to = to.get_mut(..bytes.len()).ok_or(StepError::BytesNowhere)?;
            to.copy_from_slice(bytes);
        }
        match self.zero {
            None => {}
            Some(Some(zero)) => *last = zero,
            Some(None) => {
                let zero_point = elements::<i32>(next()?)?.first();
                *last = *zero_point.ok_or(StepError::ZeroPointMissing)? as u8;
            }
        }
        Ok(())
    }
}

impl Bytes {
    /// The bytes that can be read in place of the operands at a site, if the product's sums are `si32` or `f32` and not
    /// both operands are constants.
    pub(crate) fn of(site: &Site<'_>) -> Option<Bytes> {
        let data = site.data();
        let [left, right, ..] = data.operands[..] else {
            return None;
        };
        let sums = site.slot(*data.results.first()?)?.kind();
        if sums == Some(Kind::F32) {
            return Bytes::scaled(site, [left, right]);
        }
        let computed = [left, right]
            .iter()
            .any(|&v| site.constant_buffer(v).is_none());
        if sums != Some(Kind::I32) || !computed {
            return None;
        }
        let sides = [Side::of(site, left)?, Side::of(site, right)?];
        Some(Bytes { sides, scale: None })
    }

    /// The bytes for a product of dequantized bytes by a constant of floats.
    fn scaled(site: &Site<'_>, operands: [Value; 2]) -> Option<Bytes> {
        let floats = |v: Value| {
            site.slot(v)
                .is_some_and(|slot| slot.kind() == Some(Kind::F32))
        };
        let constants = operands.map(|v| site.constant_buffer(v).is_some());
        let side = match constants {
            [false, true] => 0,
            [true, false] => 1,
            _ => return None,
        };
        if !operands.iter().all(|&v| floats(v)) {
            return None;
        }
        let (made, scale) = ByteOperand::scaled(site, operands[side])?;
        let none = Side::Constant {
            bytes: Arc::from([]),
            zero: 0,
        };
        let made = Side::Value(made);
        let sides = if side == 0 {
            [made, none]
        } else {
            [none, made]
        };
        Some(Bytes {
            sides,
            scale: Some(scale),
        })
    }

    /// Quantizes the constant of a product of floats: the bytes, and the scales and biases of the sums. `constants` are
    /// those of the operands and `begins` the initial values.
    pub(crate) fn of_floats(
        &self,
        of: &Products,
        constants: [Option<&[u8]>; 2],
        begins: Option<&[u8]>,
    ) -> Option<(Bytes, Option<Dequantizes>)> {
        let Some(scale) = self.scale else {
            return Some((self.clone(), None));
        };
        let side = match self.sides {
            [Side::Value(_), _] => 1,
            _ => 0,
        };
        let begins = match begins {
            Some(bytes) => Some(elements::<f32>(bytes).ok()?),
            None => None,
        };
        let floats = elements::<f32>(constants[side]?).ok()?;
        let (bytes, dequantize) = of.scaled_bytes(side + LEFT, floats, scale, begins)?;
        let mut made = self.clone();
        made.sides[side] = Side::Constant {
            bytes: bytes.into(),
            zero: 0,
        };
        Some((made, Some(dequantize)))
    }

    /// Signs and zero points, as products take them.
    pub(crate) fn quantization(&self) -> Quantization {
        let all = self.sides.each_ref().map(|side| match side {
            Side::Value(made) => (made.unsigned, made.zero.ok()),
            Side::Constant { zero, .. } => (false, Some(zero.cast_unsigned())),
        });
        Quantization {
            unsigned: all.map(|side| side.0),
            zeros: all.map(|side| side.1),
        }
    }

    /// The bytes of operands that are constants.
    pub(crate) fn constants(&self) -> [Option<&[u8]>; 2] {
        self.sides.each_ref().map(|side| match side {
            Side::Value(_) => None,
            Side::Constant { bytes, .. } => Some(&bytes[..]),
        })
    }

    /// Access of the bytes that are read in place of an operand.
    pub(crate) fn access(&self, side: usize) -> Option<&Access> {
        match self.sides.get(side)? {
            Side::Value(made) => Some(&made.access),
            Side::Constant { .. } => None,
        }
    }

    /// Replaces an operation's operands by the values that are read in their place.
    pub(crate) fn read(&self, operands: &mut [Value]) {
        for (operand, side) in operands.iter_mut().zip(&self.sides) {
            if let Side::Value(made) = side
                && !made.copied
            {
                *operand = made.value;
            }
        }
    }

    /// The bytes and the zero points of both operands, given the operands that are read.
    ///
    /// # Errors
    /// A zero point is missing.
    pub(crate) fn given<'a>(
        &'a self,
        operands: [&'a [u8]; 2],
    ) -> Result<([&'a [u8]; 2], [u8; 2]), StepError> {
        let mut found = (operands, [0; 2]);
        for (k, side) in self.sides.iter().enumerate() {
            found.1[k] = match side {
                Side::Constant { bytes, zero } => {
                    found.0[k] = bytes;
                    zero.cast_unsigned()
                }
                Side::Value(made) => match (made.zero, operands[k].last()) {
                    (Ok(zero), _) => zero,
                    (Err(_), Some(&zero)) if made.copied => zero,
                    (Err(_), _) => return Err(StepError::ZeroPointUnknown),
                },
            };
        }
        Ok(found)
    }

    /// Bytes that are kept for constant operands.
    pub(crate) fn packed_bytes(&self) -> usize {
        self.constants()
            .iter()
            .flatten()
            .map(|bytes| bytes.len())
            .sum()
    }
}

impl Side {
    fn of(site: &Site<'_>, operand: Value) -> Option<Side> {
        let slot = site.slot(operand)?;
        if slot.kind() != Some(Kind::I32) {
            return None;
        }
        match site.constant_buffer(operand) {
            Some(bytes) => Side::constant(bytes.get(slot.range())?, &slot.access),
            None => ByteOperand::of(site, operand).map(Side::Value),
        }
    }

    /// A constant whose range of elements, extended to 0, is at most 255 wide, as signed bytes with a zero point.
    fn constant(bytes: &[u8], access: &Access) -> Option<Side> {
        let numbers: &[i32] = bytemuck::try_cast_slice(bytes).ok()?;
        let (mut low, mut high, mut inside) = (0, 0, true);
        access.each(
            |at| match usize::try_from(at).ok().and_then(|at| numbers.get(at)) {
                Some(&number) => (low, high) = (low.min(number), high.max(number)),
                None => inside = false,
            },
        );
        let zero = match i8::try_from(low).is_ok() && i8::try_from(high).is_ok() {
            true => 0,
            false => i8::try_from((-128i32).checked_sub(low)?).ok()?,
        };
        let fits = inside && high.checked_sub(low)? <= 255;
        let mut own = vec![0u8; numbers.len()];
        access.each(|at| {
            if let Some(number) = numbers.get(at as usize) {
                own[at as usize] = number.wrapping_add(i32::from(zero)) as u8;
            }
        });
        fits.then(|| Side::Constant {
            bytes: own.into(),
            zero,
        })
    }
}

impl ByteOperand {
    /// Returns whether the bytes are unsigned.
    pub(crate) fn is_unsigned(&self) -> bool {
        self.unsigned
    }

    /// Returns whether the zero point is computed at run time.
    pub(crate) fn has_computed_zero_point(&self) -> bool {
        self.zero.is_err()
    }

    /// Dequantized bytes and their scale, possibly behind views.
    fn scaled(site: &Site<'_>, operand: Value) -> Option<(ByteOperand, f32)> {
        let func = site.func;
        let (mut value, mut names) = (operand, Vec::new());
        loop {
            let op = func.def_op(value)?;
            let data = &func.ops[op];
            let [from, ref numbers @ ..] = data.operands[..] else {
                return None;
            };
            if &*data.name == Dequantize::NAME && data.results.len() == 1 {
                let unsigned = byte(site, from)?;
                let (Kind::F32, bits) = site.number(*numbers.first()?)? else {
                    return None;
                };
                let zero = match numbers.get(1) {
                    None => 0,
                    Some(&zero) => match (byte(site, zero)? == unsigned, site.number(zero)?.1) {
                        (true, bits) => bits as u8,
                        (false, _) => return None,
                    },
                };
                let mut access = (*site.slot(from)?.access).clone();
                for &op in names.iter().rev() {
                    access = rearranged(func, op, site.registry, site.bindings, &access)?;
                }
                let same = access.shape() == site.slot(operand)?.access.shape();
                let made = ByteOperand {
                    value: from,
                    access,
                    unsigned,
                    zero: Ok(zero),
                    path: vec![op],
                    copied: false,
                };
                let scale = f32::from_bits(bits);
                let finite = scale.is_normal() && (scale * 256.0).is_finite();
                return (same && finite).then_some((made, scale));
            }
            if site.registry.structure(&data.name) != Structure::View || !numbers.is_empty() {
                return None;
            }
            names.push(op);
            value = from;
        }
    }

    /// Bytes that are cast and may have a zero point subtracted, possibly with views in between.
    fn of(site: &Site<'_>, operand: Value) -> Option<ByteOperand> {
        let func = site.func;
        let (mut value, mut zero) = (operand, None);
        let (mut path, mut names) = (Vec::new(), Vec::new());
        let shape = |v: Value| Some(site.slot(v)?.access.shape());
        loop {
            let op = func.def_op(value)?;
            let data = &func.ops[op];
            if data.results.len() != 1 {
                return None;
            }
            match (&*data.name, &data.operands[..]) {
                (Cast::NAME, &[from]) => {
                    path.push(op);
                    let unsigned = byte(site, from)?;
                    let zero = match zero {
                        None => Ok(0),
                        Some(zero_point) => zero_point_of(site, zero_point, unsigned)?,
                    };
                    let mut access = (*site.slot(from)?.access).clone();
                    for &op in names.iter().rev() {
                        access = rearranged(func, op, site.registry, site.bindings, &access)?;
                    }
                    let same = access.shape() == shape(operand)?;
                    return same.then_some(ByteOperand {
                        value: from,
                        access,
                        unsigned,
                        zero,
                        path,
                        copied: false,
                    });
                }
                (Sub::NAME, &[from, zero_point]) if zero.is_none() => {
                    let one = site.slot(zero_point)?.access.count() == 1;
                    if !one || shape(from)? != shape(value)? {
                        return None;
                    }
                    zero = Some(zero_point);
                    path.push(op);
                    value = from;
                }
                (name, &[from]) if site.registry.structure(name) == Structure::View => {
                    names.push(op);
                    value = from;
                }
                _ => return None,
            }
        }
    }
}

/// Returns whether elements are unsigned bytes; `None` if they are no bytes.
fn byte(site: &Site<'_>, value: Value) -> Option<bool> {
    match site.slot(value)?.kind()? {
        Kind::U8 => Some(true),
        Kind::I8 => Some(false),
        _ => None,
    }
}

/// A zero point: a constant as a byte of the type, or the value whose element it is, if that was cast from such a byte.
fn zero_point_of(site: &Site<'_>, zero_point: Value, unsigned: bool) -> Option<Result<u8, Value>> {
    if let Some((Kind::I32, bits)) = site.number(zero_point) {
        let number = bits.cast_signed();
        return Some(Ok(match unsigned {
            true => u8::try_from(number).ok()?,
            false => i8::try_from(number).ok()?.cast_unsigned(),
        }));
    }
    let data = &site.func.ops[site.func.def_op(zero_point)?];
    let slot = site.slot(zero_point)?;
    let first = *slot.access == Access::constant_zero(&slot.access.shape());
    let same = &*data.name == Cast::NAME && byte(site, *data.operands.first()?)? == unsigned;
    (same && first && slot.kind() == Some(Kind::I32)).then_some(Err(zero_point))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn constants_that_bytes_have_become_these() {
        let access = Access::strided(&[3], &[1]);
        for (numbers, zero) in [
            ([-128, 127, 0], Some(0)),
            ([-120, 135, 7], Some(-8)),
            ([0, 255, 3], Some(-128)),
            ([-255, 0, -3], Some(127)),
            ([-255, 1, 0], None),
            ([256, 0, 0], None),
            ([i32::MIN, 0, 0], None),
            ([i32::MAX, i32::MIN, 0], None),
        ] {
            let bytes: &[u8] = bytemuck::cast_slice(&numbers);
            let found = Side::constant(bytes, &access).map(|side| match side {
                Side::Constant { bytes, zero } => {
                    for (&byte, number) in bytes.iter().zip(numbers) {
                        assert_eq!(i32::from(byte.cast_signed()) - i32::from(zero), number);
                    }
                    zero
                }
                Side::Value(_) => 99,
            });
            assert_eq!(found, zero, "{numbers:?}");
        }
    }
}
