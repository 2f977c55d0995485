//! The floats of 16 bits, `f16` and `bf16`: encoding and decoding.
//!
//! Example: `0x3c00` is 1.0 as an `f16`, and `0x3f80` as a `bf16`. Numbers are rounded to the nearest one, ties to even,
//! in the steps in which the crate `half` does it, with which kernels compute.

/// The bits of a signed infinity of an `f16` without the sign.
const F16_INFINITY: u16 = 0x7c00;
/// The bits of a signed infinity of an `f32` without the sign.
const F32_INFINITY: u32 = 0x7f80_0000;
/// The powers of two between the exponents of an `f16` and of an `f32` with the same exponent field.
const F16_BIAS: u32 = 127 - 15;

/// The bits of the `f16` nearest to `x`.
#[expect(clippy::cast_possible_truncation, reason = "rounding is the purpose")]
#[must_use]
pub fn f16_bits(x: f64) -> u16 {
    let bits = (x as f32).to_bits();
    let sign = (bits >> 16) as u16 & 0x8000;
    let size = bits & !(1 << 31);
    sign | match f32::from_bits(size) {
        x if x.is_nan() => F16_INFINITY | 0x200 | (size >> 13) as u16 & 0x1ff,
        x if 65_536.0 <= x => F16_INFINITY,
        // The last bit of a number from 0.5 to 1 counts as much as that of the numbers below the normal ones.
        x if x < 2f32.powi(-14) => ((x + 0.5).to_bits() - 0.5f32.to_bits()) as u16,
        _ => rounded(size - (F16_BIAS << 23), 13) as u16,
    }
}

/// The number that these bits of an `f16` encode.
#[must_use]
pub fn f16_number(bits: u16) -> f32 {
    let size = bits & 0x7fff;
    let wide = u32::from(size) << 13;
    let number = match size {
        F16_INFINITY => f32::INFINITY,
        // A NaN becomes a quiet one.
        _ if F16_INFINITY < size => f32::from_bits(F32_INFINITY | 1 << 22 | wide & 0x7f_ffff),
        _ => f32::from_bits(wide) * 2f32.powi(F16_BIAS.cast_signed()),
    };
    let sign = u32::from(bits & 0x8000) << 16;
    f32::from_bits(number.to_bits() | sign)
}

/// The bits of the `bf16` nearest to `x`. Of the mantissa of a double only the first 20 bits are looked at.
#[expect(clippy::cast_possible_truncation, reason = "rounding is the purpose")]
#[must_use]
pub fn bf16_bits(x: f64) -> u16 {
    let short = f64::from_bits(x.to_bits() & (u64::MAX << 32));
    if x.is_nan() || f64::from(f32::MIN_POSITIVE) <= short.abs() {
        return bf16_bits_of_single(if x.is_nan() { x } else { short } as f32);
    }
    // The last bit of this number counts as much as that of the numbers below the normal ones.
    let unit = 2f64.powi(-81);
    let sign = u16::from(x.is_sign_negative()) << 15;
    sign | ((short.abs() + unit).to_bits() - unit.to_bits()) as u16
}

/// The bits of the `bf16` nearest to a single.
#[expect(clippy::cast_possible_truncation, reason = "rounding is the purpose")]
pub(crate) fn bf16_bits_of_single(x: f32) -> u16 {
    match x.to_bits() {
        bits if x.is_nan() => (bits >> 16) as u16 | 0x40,
        bits => rounded(bits, 16) as u16,
    }
}

/// The number that these bits of a `bf16` encode; a NaN becomes a quiet one.
#[must_use]
pub fn bf16_number(bits: u16) -> f32 {
    let wide = u32::from(bits) << 16;
    match f32::from_bits(wide) {
        x if x.is_nan() => f32::from_bits(wide | 1 << 22),
        x => x,
    }
}

/// The bits without the last `dropped` ones, rounded to the nearest, ties to even. A carry grows the exponent.
fn rounded(bits: u32, dropped: u32) -> u32 {
    let even = (bits >> dropped) & 1;
    (bits + (1 << (dropped - 1)) - 1 + even) >> dropped
}

#[cfg(test)]
mod tests {
    use super::*;
    use half::{bf16, f16};

    /// Numbers around every encoding: itself, the middle between it and the next one, and what is beside these.
    fn numbers(number: fn(u16) -> f32) -> impl Iterator<Item = f64> {
        (0..u16::MAX).flat_map(move |bits| {
            let [x, next] = [bits, bits + 1].map(|bits| f64::from(number(bits)));
            let around = |x: f64| {
                let beside = |step| f64::from_bits(x.to_bits().wrapping_add_signed(step));
                [-(1 << 32), -(1 << 28), -1, 0, 1, 1 << 28, 1 << 29, 1 << 32].map(beside)
            };
            [x, f64::midpoint(x, next), x * 1.1]
                .into_iter()
                .flat_map(around)
        })
    }

    #[test]
    fn numbers_are_those_of_half() {
        for bits in 0..=u16::MAX {
            let (ours, wanted) = (f16_number(bits), f16::from_bits(bits).to_f32());
            assert_eq!(ours.to_bits(), wanted.to_bits(), "f16 {bits:#x}");
            let (ours, wanted) = (bf16_number(bits), bf16::from_bits(bits).to_f32());
            assert_eq!(ours.to_bits(), wanted.to_bits(), "bf16 {bits:#x}");
        }
    }

    #[test]
    fn rounding_is_that_of_half() {
        for x in numbers(f16_number) {
            // `half` rounds a double in one step or in two, by the machine, but a single always in one.
            let x = f64::from(x as f32);
            assert_eq!(f16_bits(x), f16::from_f64(x).to_bits(), "f16 of {x:e}");
        }
        for x in numbers(bf16_number) {
            assert_eq!(bf16_bits(x), bf16::from_f64(x).to_bits(), "bf16 of {x:e}");
            let single = x as f32;
            let wanted = bf16::from_f32(single).to_bits();
            assert_eq!(bf16_bits_of_single(single), wanted, "bf16 of {single:e}");
        }
    }
}
