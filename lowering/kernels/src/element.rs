//! Elements of buffers, and the numbers that kernels compute with.
//!
//! Floats of 16 bits are computed as `f32` and rounded when they are stored, to the nearest, ties to even. Integers of 8
//! bits are computed as `i32` and wrap around when they are stored.

use crate::error::KernelError;
use bytemuck::Pod;
pub use half::{bf16, f16};
use std::any::TypeId;
use std::fmt::Debug;

/// An element of a buffer.
pub trait Element: Pod + Debug + PartialEq + Send + Sync {
    /// `f32` or `i32`, whichever represents all values of the type.
    type Number: Number;

    /// The element as a number.
    fn read(self) -> Self::Number;

    /// Rounds a float to the nearest value, or wraps an integer.
    fn of(number: Self::Number) -> Self;
}

/// Numbers that kernels compute with.
pub trait Number: Element<Number = Self> + PartialOrd {
    /// The sum; integers wrap around.
    fn plus(self, other: Self) -> Self;

    /// The difference; integers wrap around.
    fn less(self, other: Self) -> Self;

    /// The product with an integer; integers wrap around.
    fn times(self, other: i32) -> Self;
}

impl Number for f32 {
    #[inline(always)]
    fn plus(self, other: f32) -> f32 {
        self + other
    }

    #[inline(always)]
    fn less(self, other: f32) -> f32 {
        self - other
    }

    #[inline(always)]
    fn times(self, other: i32) -> f32 {
        self * other as f32
    }
}

impl Number for i32 {
    #[inline(always)]
    fn plus(self, other: i32) -> i32 {
        self.wrapping_add(other)
    }

    #[inline(always)]
    fn less(self, other: i32) -> i32 {
        self.wrapping_sub(other)
    }

    #[inline(always)]
    fn times(self, other: i32) -> i32 {
        self.wrapping_mul(other)
    }
}

macro_rules! elements {
    ($($element:ty: $number:ty, $read:expr, $of:expr;)*) => {$(
        impl Element for $element {
            type Number = $number;
            #[inline(always)]
            fn read(self) -> $number {
                $read(self)
            }
            #[inline(always)]
            fn of(number: $number) -> $element {
                $of(number)
            }
        }
    )*};
}

elements! {
    f32: f32, |x| x, |x| x;
    bf16: f32, read_bf16, to_bf16;
    f16: f32, read_f16, to_f16;
    i32: i32, |x| x, |x| x;
    i8: i32, i32::from, |x| x as i8;
    u8: i32, i32::from, |x| x as u8;
}

#[inline(always)]
fn read_bf16(x: bf16) -> f32 {
    f32::from_bits(u32::from(x.to_bits()) << 16)
}

#[inline(always)]
fn to_bf16(x: f32) -> bf16 {
    let bits = x.to_bits();
    let rounded = bits.wrapping_add(0x7FFF + (bits >> 16 & 1)) >> 16;
    // The rounding addition would carry the bits of a NaN away.
    let quiet = bits >> 16 | 0x40;
    bf16::from_bits(if x.is_nan() { quiet } else { rounded } as u16)
}

/// The exponent of the least normal `f16`, in an `f32`.
const LEAST: u32 = 113 << 23;

#[inline(always)]
fn read_f16(x: f16) -> f32 {
    let bits = u32::from(x.to_bits());
    let (sign, all) = ((bits & 0x8000) << 16, (bits & 0x7FFF) << 13);
    let normal = all + (112 << 23);
    // Infinities and NaNs keep an exponent of ones.
    let special = if 0x7C00 << 13 <= all {
        normal + (112 << 23)
    } else {
        normal
    };
    let small = (f32::from_bits(all + LEAST) - f32::from_bits(LEAST)).to_bits();
    f32::from_bits(sign | if all < 0x400 << 13 { small } else { special })
}

#[inline(always)]
fn to_f16(x: f32) -> f16 {
    let sign = x.to_bits() >> 16 & 0x8000;
    let bits = x.to_bits() & 0x7FFF_FFFF;
    let normal =
        bits.wrapping_add((-(112i32 << 23)).cast_unsigned() + 0xFFF + (bits >> 13 & 1)) >> 13;
    // The addition rounds at the bit where the result's lowest bit is.
    let small = (f32::from_bits(bits) + 0.5)
        .to_bits()
        .wrapping_sub(0.5f32.to_bits());
    let finite = if bits < LEAST { small } else { normal };
    let large = if 0x7F80_0000 < bits { 0x7E00 } else { 0x7C00 };
    let found = if bits < 143 << 23 { finite } else { large };
    f16::from_bits((sign | found) as u16)
}

/// Element types that have kernels.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// 32-bit floats.
    F32,
    /// 16-bit floats of IEEE 754.
    F16,
    /// bfloat16.
    BF16,
    /// Signed bytes.
    I8,
    /// Unsigned bytes.
    U8,
    /// Signed 32-bit integers.
    I32,
}

impl Kind {
    /// Returns whether elements are computed as `f32`.
    pub fn is_float(self) -> bool {
        matches!(self, Kind::F32 | Kind::F16 | Kind::BF16)
    }

    /// Bytes of an element.
    pub fn size(self) -> usize {
        match self {
            Kind::F32 | Kind::I32 => 4,
            Kind::F16 | Kind::BF16 => 2,
            Kind::I8 | Kind::U8 => 1,
        }
    }
}

/// An element that is computed as `f32`: floats of every width, and integers that are exact in `f32`.
pub trait Float: Element {
    /// The element as an `f32`.
    fn float(self) -> f32;

    /// A sum plus its initial value.
    fn with(sum: f32, start: Self) -> Self;
}

macro_rules! floats {
    ($($element:ty),*) => {$(
        impl Float for $element {
            #[inline(always)]
            fn float(self) -> f32 {
                self.read()
            }

            #[inline(always)]
            fn with(sum: f32, start: $element) -> $element {
                <$element>::of(sum + start.read())
            }
        }
    )*};
}

floats!(f32, bf16, f16);

macro_rules! integers {
    ($($element:ty),*) => {$(
        impl Float for $element {
            #[inline(always)]
            fn float(self) -> f32 {
                self.read() as f32
            }

            #[inline(always)]
            fn with(sum: f32, start: $element) -> $element {
                <$element>::of((sum as i32).wrapping_add(start.read()))
            }
        }
    )*};
}

integers!(i8, u8, i32);

/// The elements as elements of `T`, if that is their type.
#[inline(always)]
pub fn same<E: Element, T: Element>(list: &[E]) -> Option<&[T]> {
    let same = TypeId::of::<E>() == TypeId::of::<T>();
    bytemuck::try_cast_slice(list).ok().filter(|_| same)
}

/// The elements as mutable elements of `T`, if that is their type.
#[inline(always)]
pub fn same_mut<E: Element, T: Element>(list: &mut [E]) -> Option<&mut [T]> {
    let same = TypeId::of::<E>() == TypeId::of::<T>();
    bytemuck::try_cast_slice_mut(list).ok().filter(|_| same)
}

/// Reinterprets bytes as elements.
///
/// # Errors
/// The bytes are no whole elements or not aligned.
pub fn elements<E: Element>(bytes: &[u8]) -> Result<&[E], KernelError> {
    if bytes.is_empty() {
        return Ok(&[]);
    }
    bytemuck::try_cast_slice(bytes).map_err(KernelError::Cast)
}

/// Reinterprets bytes as mutable elements.
///
/// # Errors
/// The bytes are no whole elements or not aligned.
pub fn elements_mut<E: Element>(bytes: &mut [u8]) -> Result<&mut [E], KernelError> {
    if bytes.is_empty() {
        return Ok(&mut []);
    }
    bytemuck::try_cast_slice_mut(bytes).map_err(KernelError::Cast)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn all_numbers_of_16_bits_are_read_and_written() {
        for bits in 0..=u16::MAX {
            let (a, b) = (f16::from_bits(bits), bf16::from_bits(bits));
            for (found, wanted) in [(a.read(), a.to_f32()), (b.read(), b.to_f32())] {
                assert!(
                    found == wanted || found.is_nan() && wanted.is_nan(),
                    "{bits:x}"
                );
            }
            assert!(f16::of(a.read()) == a || a.is_nan() && f16::of(a.read()).is_nan());
            assert!(bf16::of(b.read()) == b || b.is_nan() && bf16::of(b.read()).is_nan());
        }
    }

    #[test]
    fn numbers_are_rounded_to_the_nearest() {
        let mut bits = 0u32;
        for _ in 0..2_000_000 {
            bits = bits.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
            for x in [
                f32::from_bits(bits),
                f32::from_bits(bits & !0x1FFF | 0x1000),
                f32::from_bits(bits % (20 << 23) + (100 << 23)),
            ] {
                let (a, b) = (f16::from_f32(x), bf16::from_f32(x));
                assert!(
                    f16::of(x) == a || x.is_nan() && f16::of(x).is_nan(),
                    "{x:e}"
                );
                assert!(
                    bf16::of(x) == b || x.is_nan() && bf16::of(x).is_nan(),
                    "{x:e}"
                );
            }
        }
    }
}
