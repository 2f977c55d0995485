//! The numbers of element types in `TensorProto.DataType`.

use optc_ir::{DType, MiniFloat, Sign};
use std::fmt;

const fn int(bits: u8, sign: Sign) -> DType {
    DType::Int { bits, sign }
}

/// Each number with its element type of the IR.
const TYPES: [(i32, DType); 25] = [
    (1, DType::F32),
    (2, int(8, Sign::Unsigned)),
    (3, int(8, Sign::Signed)),
    (4, int(16, Sign::Unsigned)),
    (5, int(16, Sign::Signed)),
    (6, int(32, Sign::Signed)),
    (7, int(64, Sign::Signed)),
    (9, DType::BOOL),
    (10, DType::F16),
    (11, DType::F64),
    (12, int(32, Sign::Unsigned)),
    (13, int(64, Sign::Unsigned)),
    (14, DType::Complex64),
    (15, DType::Complex128),
    (16, DType::BF16),
    (17, DType::Mini(MiniFloat::E4M3FN)),
    (18, DType::Mini(MiniFloat::E4M3FNUZ)),
    (19, DType::Mini(MiniFloat::E5M2)),
    (20, DType::Mini(MiniFloat::E5M2FNUZ)),
    (21, int(4, Sign::Unsigned)),
    (22, int(4, Sign::Signed)),
    (23, DType::Mini(MiniFloat::E2M1FN)),
    (24, DType::Mini(MiniFloat::E8M0FNU)),
    (25, int(2, Sign::Unsigned)),
    (26, int(2, Sign::Signed)),
];

/// An element type that the IR does not have, described by its text.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum UnknownType {
    /// No type is given.
    None,
    /// Strings.
    Strings,
    /// The type with this number.
    Number(i32),
}

impl fmt::Display for UnknownType {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            UnknownType::None => f.write_str("no element type"),
            UnknownType::Strings => f.write_str("strings"),
            UnknownType::Number(code) => write!(f, "element type number {code}"),
        }
    }
}

impl std::error::Error for UnknownType {}

/// The element type with this number in `TensorProto.DataType`.
///
/// # Errors
/// The IR has no such type.
pub fn dtype(code: i32) -> Result<DType, UnknownType> {
    match (code, TYPES.iter().find(|(number, _)| *number == code)) {
        (_, Some((_, dtype))) => Ok(*dtype),
        (0, None) => Err(UnknownType::None),
        (8, None) => Err(UnknownType::Strings),
        _ => Err(UnknownType::Number(code)),
    }
}

/// The number of an element type, with signless integers as signed ones; `None` if ONNX has none.
#[must_use]
pub fn code(dtype: DType) -> Option<i32> {
    let signed = match dtype {
        DType::Int {
            bits,
            sign: Sign::Signless,
        } if !dtype.is_bool() => int(bits, Sign::Signed),
        other => other,
    };
    let found = TYPES.iter().find(|(_, known)| *known == signed);
    found.map(|(number, _)| *number)
}

/// The number of elements that share a byte of the file; `None` if an element takes a byte or more.
#[must_use]
pub fn per_byte(dtype: DType) -> Option<usize> {
    match dtype.bits() {
        bits @ (2 | 4) => Some(8 / bits as usize),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_and_types_are_one_to_one() {
        for number in 0..40 {
            if let Ok(known) = dtype(number) {
                assert_eq!(code(known), Some(number));
            }
        }
        assert_eq!(code(int(32, Sign::Signless)), Some(6));
        assert_eq!(code(int(1, Sign::Unsigned)), None);
    }
}
