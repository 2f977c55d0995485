//! Floats of at most eight bits: encoding and decoding.
//!
//! Example: the byte `0x38` of an `f8E4M3FN` has the exponent field 7, which is equal to the bias, and an empty
//! mantissa, so it is 1.0.

/// An element type of at most eight bits that holds a float.
///
/// These floats are stored, moved and converted; no operation computes with them. The name gives the number of exponent
/// bits and mantissa bits, and then: `FN` finite numbers and NaN only, `UZ` no negative zero, `U` no sign, `B11` a bias
/// of 11.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub enum MiniFloat {
    /// `f4E2M1FN`, in half a byte; without NaN.
    E2M1FN,
    /// `f8E3M4`, with infinities.
    E3M4,
    /// `f8E4M3`, with infinities.
    E4M3,
    /// `f8E4M3FN`
    E4M3FN,
    /// `f8E4M3FNUZ`
    E4M3FNUZ,
    /// `f8E4M3B11FNUZ`
    E4M3B11FNUZ,
    /// `f8E5M2`, with infinities.
    E5M2,
    /// `f8E5M2FNUZ`
    E5M2FNUZ,
    /// `f8E8M0FNU`: powers of two only.
    E8M0FNU,
}

/// The encodings that are not finite numbers.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Specials {
    /// The greatest exponent encodes infinity and NaN, as in IEEE 754.
    Ieee,
    /// NaN is encoded as all ones, except for the sign.
    AllOnes,
    /// NaN takes the encoding of negative zero.
    NegativeZero,
    /// There are none.
    None,
}

/// The division of the bits.
struct Format {
    exponent: u32,
    mantissa: u32,
    bias: i32,
    signed: bool,
    specials: Specials,
}

impl MiniFloat {
    /// All types.
    pub const ALL: [MiniFloat; 9] = [
        MiniFloat::E2M1FN,
        MiniFloat::E3M4,
        MiniFloat::E4M3,
        MiniFloat::E4M3FN,
        MiniFloat::E4M3FNUZ,
        MiniFloat::E4M3B11FNUZ,
        MiniFloat::E5M2,
        MiniFloat::E5M2FNUZ,
        MiniFloat::E8M0FNU,
    ];

    /// The name in MLIR's sources, such as `f8E4M3FN`.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            MiniFloat::E2M1FN => "f4E2M1FN",
            MiniFloat::E3M4 => "f8E3M4",
            MiniFloat::E4M3 => "f8E4M3",
            MiniFloat::E4M3FN => "f8E4M3FN",
            MiniFloat::E4M3FNUZ => "f8E4M3FNUZ",
            MiniFloat::E4M3B11FNUZ => "f8E4M3B11FNUZ",
            MiniFloat::E5M2 => "f8E5M2",
            MiniFloat::E5M2FNUZ => "f8E5M2FNUZ",
            MiniFloat::E8M0FNU => "f8E8M0FNU",
        }
    }

    /// The name in `.ir` text: that of MLIR 19, or a type of the dialect where MLIR 19 has none.
    #[must_use]
    pub fn text(self) -> &'static str {
        match self {
            MiniFloat::E2M1FN => "!hbir.f4E2M1FN",
            MiniFloat::E3M4 => "!hbir.f8E3M4",
            MiniFloat::E8M0FNU => "!hbir.f8E8M0FNU",
            MiniFloat::E4M3
            | MiniFloat::E4M3FN
            | MiniFloat::E4M3FNUZ
            | MiniFloat::E4M3B11FNUZ
            | MiniFloat::E5M2
            | MiniFloat::E5M2FNUZ => self.name(),
        }
    }

    /// The width in bits, 4 or 8.
    #[must_use]
    pub fn bits(self) -> u32 {
        let format = self.format();
        u32::from(format.signed) + format.exponent + format.mantissa
    }

    fn format(self) -> Format {
        let (exponent, mantissa, bias, specials) = match self {
            MiniFloat::E2M1FN => (2, 1, 1, Specials::None),
            MiniFloat::E3M4 => (3, 4, 3, Specials::Ieee),
            MiniFloat::E4M3 => (4, 3, 7, Specials::Ieee),
            MiniFloat::E4M3FN => (4, 3, 7, Specials::AllOnes),
            MiniFloat::E4M3FNUZ => (4, 3, 8, Specials::NegativeZero),
            MiniFloat::E4M3B11FNUZ => (4, 3, 11, Specials::NegativeZero),
            MiniFloat::E5M2 => (5, 2, 15, Specials::Ieee),
            MiniFloat::E5M2FNUZ => (5, 2, 16, Specials::NegativeZero),
            MiniFloat::E8M0FNU => (8, 0, 127, Specials::AllOnes),
        };
        Format {
            exponent,
            mantissa,
            bias,
            signed: self != MiniFloat::E8M0FNU,
            specials,
        }
    }

    /// The number that the low bits of `bits` encode.
    #[must_use]
    pub fn decode(self, bits: u8) -> f64 {
        let format = self.format();
        let code = bits & self.magnitude_mask();
        let negative = format.signed && bits & self.sign_bit() != 0;
        if format.specials == Specials::NegativeZero && negative && code == 0 {
            return f64::NAN;
        }
        let size = self.magnitude(code);
        if negative { -size } else { size }
    }

    /// The greatest finite number.
    #[must_use]
    pub fn greatest(self) -> f64 {
        self.magnitude(self.greatest_code())
    }

    /// The encoding of the number nearest to `x`. Ties go to the encoding whose last bit is 0; in `f8E8M0FNU` they go
    /// to the greater power of two. `ml_dtypes` and XLA round in the same way.
    ///
    /// A number that rounds beyond the greatest one becomes infinity, or else NaN. A type without either takes the
    /// greatest number instead, and negative zero instead of NaN. In a type without a sign, 0 and negative numbers
    /// become NaN.
    #[must_use]
    pub fn encode(self, x: f64) -> u8 {
        let format = self.format();
        if !format.signed && x <= 0.0 {
            return self.nan();
        }
        let sign = if format.signed && x.is_sign_negative() {
            self.sign_bit()
        } else {
            0
        };
        match self.encode_magnitude(x.abs()) {
            None if format.specials == Specials::NegativeZero || x.is_nan() => {
                self.nan() | sign & !self.magnitude_mask()
            }
            None => sign | self.beyond(),
            Some(0) if format.specials == Specials::NegativeZero => 0,
            Some(code) => sign | code,
        }
    }

    /// The code of the nearest magnitude; `None` beyond the greatest and for NaN.
    fn encode_magnitude(self, size: f64) -> Option<u8> {
        let last = self.greatest_code();
        let below = (0..=last).rev().find(|&code| self.magnitude(code) <= size);
        let Some(low) = below else {
            // Only a type without a zero has numbers below its least number.
            return (!size.is_nan()).then_some(0);
        };
        let floor = self.magnitude(low);
        let step = if low == last {
            // The number that would follow the greatest one, if there were one more.
            self.next_after_greatest() - floor
        } else {
            self.magnitude(low + 1) - floor
        };
        let rest = size - floor;
        // Powers of two have no mantissa that could be even: ties go up.
        let even = low.is_multiple_of(2) && self.format().mantissa != 0;
        let up = step / 2.0 < rest || (rest == step / 2.0 && !even);
        match (up, low == last) {
            (false, _) => Some(low),
            (true, false) => Some(low + 1),
            (true, true) => None,
        }
    }

    fn next_after_greatest(self) -> f64 {
        let (code, format) = (self.greatest_code(), self.format());
        let exponent = i32::from(code >> format.mantissa).max(1) - format.bias;
        self.greatest() + power(exponent - format.mantissa.cast_signed())
    }

    /// The code for a number beyond the greatest one.
    fn beyond(self) -> u8 {
        match self.format().specials {
            Specials::Ieee => self.greatest_code() + 1,
            Specials::AllOnes | Specials::NegativeZero => self.nan(),
            Specials::None => self.greatest_code(),
        }
    }

    /// The encoding of the usual NaN, positive if the type has a sign.
    fn nan(self) -> u8 {
        let format = self.format();
        match format.specials {
            // The quiet NaN: the highest bit of the mantissa is set.
            Specials::Ieee => (self.greatest_code() + 1) | 1 << (format.mantissa - 1),
            Specials::AllOnes => self.magnitude_mask(),
            Specials::NegativeZero | Specials::None => self.sign_bit(),
        }
    }

    /// All bits but the sign.
    fn magnitude_mask(self) -> u8 {
        let format = self.format();
        u8::MAX >> (8 - format.exponent - format.mantissa)
    }

    /// The sign bit; called only for types with a sign.
    fn sign_bit(self) -> u8 {
        self.magnitude_mask().wrapping_add(1)
    }

    fn greatest_code(self) -> u8 {
        let format = self.format();
        let all = self.magnitude_mask();
        match format.specials {
            Specials::Ieee => all - (1 << format.mantissa),
            Specials::AllOnes => all - 1,
            Specials::NegativeZero | Specials::None => all,
        }
    }

    /// The magnitude that a code encodes, without the sign. It grows with the code up to the greatest number.
    fn magnitude(self, code: u8) -> f64 {
        let format = self.format();
        let greatest = self.greatest_code();
        if greatest < code {
            let infinite = format.specials == Specials::Ieee && code == greatest + 1;
            return if infinite { f64::INFINITY } else { f64::NAN };
        }
        let exponent = i32::from(code >> format.mantissa);
        let mantissa = f64::from(code & ((1 << format.mantissa) - 1));
        let scale = format.mantissa.cast_signed();
        if !format.signed {
            return power(exponent - format.bias);
        }
        if exponent == 0 {
            return mantissa * power(1 - format.bias - scale);
        }
        (mantissa + power(scale)) * power(exponent - format.bias - scale)
    }
}

fn power(exponent: i32) -> f64 {
    2f64.powi(exponent)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_number_is_its_own_nearest() {
        for kind in MiniFloat::ALL {
            for code in 0..=u8::MAX >> (8 - kind.bits()) {
                let x = kind.decode(code);
                if !x.is_nan() {
                    assert_eq!(kind.encode(x), code, "{} {x}", kind.name());
                }
            }
        }
    }

    /// The bytes that `numpy.array(NUMBERS).astype(T)` gives for the types of `ml_dtypes` 0.6. NaN is left out for a
    /// type without NaN: its encoding is unspecified there.
    #[test]
    fn rounding_is_that_of_ml_dtypes() {
        let power = |e| 2f64.powi(e);
        #[rustfmt::skip]
        let numbers = [
            0.0, -0.0, 1.0, -1.5, 0.3, -0.7, 1.0625, 1.1875, 3.3, -5.0, 15.75, 16.0, 29.0, 31.0, 32.0,
            232.0, 248.0, 240.0, 456.0, 464.0, 465.0, -480.0, 57344.0, 61439.0, 61440.0, 65536.0,
            power(-6), power(-9), power(-10) * 1.5, power(-10), power(-11), power(-14), power(-17),
            power(-18), 1e-9, power(-127), power(-128), 3e38, f64::INFINITY, f64::NEG_INFINITY,
            f64::NAN, -f64::NAN, 0.25, 0.75, 0.125, 2.5, 3.5, -7.0, 5.0, 7.5, 1.4, 1.5, 1.6,
        ];
        #[rustfmt::skip]
        let wanted = [
            (MiniFloat::E2M1FN, "00 08 02 0b 01 09 02 02 05 0e 07 07 07 07 07 07 07 07 07 07 07 0f 07 07 07 07 00 00 00 00 00 00 00 00 00 00 00 07 07 0f 08 00 00 02 00 04 06 0f 06 07 03 03 03"),
            (MiniFloat::E3M4, "00 80 30 b8 13 a6 31 33 4a d4 70 70 70 70 70 70 70 70 70 70 70 f0 70 70 70 70 01 00 00 00 00 00 00 00 00 00 00 70 70 f0 78 f8 10 28 08 44 4c dc 54 5e 36 38 3a"),
            (MiniFloat::E4M3, "00 80 38 bc 2a b3 38 3a 45 ca 58 58 5e 60 60 76 78 77 78 78 78 f8 78 78 78 78 08 01 01 00 00 00 00 00 00 00 00 78 78 f8 7c fc 28 34 20 42 46 ce 4a 4f 3b 3c 3d"),
            (MiniFloat::E4M3FN, "00 80 38 bc 2a b3 38 3a 45 ca 58 58 5e 60 60 76 78 77 7e 7e 7f ff 7f 7f 7f 7f 08 01 01 00 00 00 00 00 00 00 00 7f 7f ff 7f ff 28 34 20 42 46 ce 4a 4f 3b 3c 3d"),
            (MiniFloat::E4M3FNUZ, "00 00 40 c4 32 bb 40 42 4d d2 60 60 66 68 68 7e 80 7f 80 80 80 80 80 80 80 80 10 02 02 01 00 00 00 00 00 00 00 80 80 80 80 80 30 3c 28 4a 4e d6 52 57 43 44 45"),
            (MiniFloat::E4M3B11FNUZ, "00 00 58 dc 4a d3 58 5a 65 ea 78 78 7e 80 80 80 80 80 80 80 80 80 80 80 80 80 28 10 0c 08 04 00 00 00 00 00 00 80 80 80 80 80 48 54 40 62 66 ee 6a 6f 5b 5c 5d"),
            (MiniFloat::E5M2, "00 80 3c be 35 ba 3c 3d 43 c5 4c 4c 4f 50 50 5b 5c 5c 5f 5f 5f e0 7b 7b 7c 7c 24 18 16 14 10 04 00 00 00 00 00 7c 7c fc 7e fe 34 3a 30 41 43 c7 45 48 3e 3e 3e"),
            (MiniFloat::E5M2FNUZ, "00 00 40 c2 39 be 40 41 47 c9 50 50 53 54 54 5f 60 60 63 63 63 e4 7f 7f 80 80 28 1c 1a 18 14 08 01 00 00 00 00 80 80 80 80 80 38 3e 34 45 47 cb 49 4c 42 42 42"),
            (MiniFloat::E8M0FNU, "ff ff 7f ff 7d ff 7f 7f 81 ff 83 83 84 84 84 87 87 87 88 88 88 ff 8f 8f 8f 8f 79 76 76 75 74 71 6e 6d 61 00 00 ff ff ff ff ff 7d 7f 7c 80 81 ff 81 82 7f 80 80"),
        ];
        for (kind, bytes) in wanted {
            let bytes = bytes.split(' ').map(|b| u8::from_str_radix(b, 16).unwrap());
            for (x, byte) in numbers.into_iter().zip(bytes) {
                if x.is_nan() && kind == MiniFloat::E2M1FN {
                    continue;
                }
                let found = kind.encode(x);
                assert_eq!(found, byte, "{} of {x}: {found:02x}", kind.name());
            }
        }
    }

    /// The greatest finite number and the least positive one, from the OCP and MLIR documents.
    #[test]
    fn limits_are_the_published_ones() {
        let wanted = [
            (MiniFloat::E2M1FN, 6.0, 0.5),
            (MiniFloat::E3M4, 15.5, 2f64.powi(-6)),
            (MiniFloat::E4M3, 240.0, 2f64.powi(-9)),
            (MiniFloat::E4M3FN, 448.0, 2f64.powi(-9)),
            (MiniFloat::E4M3FNUZ, 240.0, 2f64.powi(-10)),
            (MiniFloat::E4M3B11FNUZ, 30.0, 2f64.powi(-13)),
            (MiniFloat::E5M2, 57344.0, 2f64.powi(-16)),
            (MiniFloat::E5M2FNUZ, 57344.0, 2f64.powi(-17)),
            (MiniFloat::E8M0FNU, 2f64.powi(127), 2f64.powi(-126)),
        ];
        for (kind, greatest, least) in wanted {
            let found = (kind.greatest(), kind.decode(1));
            assert_eq!(found, (greatest, least), "{}", kind.name());
        }
    }
}
