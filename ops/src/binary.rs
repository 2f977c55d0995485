//! Element-wise operations of two operands: `y[i] = f(a[i'], b[i''])` with numpy's
//! broadcasting.
//!
//! Names and meanings follow ONNX and, where ONNX has none, StableHLO. Floats are computed in `f64` and rounded once to
//! the element type. Integers wrap, and an integer divided by 0 is 0. A shift by less than 0, or by the width or more,
//! gives 0 to the left, and only the sign (0 or -1) to the right.

use crate::prelude::*;
use crate::shape::{broadcast, operand_dims};
use Takes::{All, Any, Floats, Integers, IntegersAndBool, Numbers};

/// The element types that an operation accepts.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Takes {
    /// Any type, including those that no operation computes with.
    All,
    Any,
    Numbers,
    Floats,
    Integers,
    IntegersAndBool,
}

impl Takes {
    pub(crate) fn accepts(self, dtype: DType) -> bool {
        match self {
            All => true,
            Any => dtype.computes(),
            Numbers => dtype.computes() && !dtype.is_bool(),
            Floats => dtype.is_float(),
            Integers => dtype.is_int() && !dtype.is_bool(),
            IntegersAndBool => dtype.is_int(),
        }
    }

    pub(crate) fn wanted(self) -> &'static str {
        match self {
            All | Any | Numbers => "a float or an integer type",
            Floats => "a float type",
            Integers => "an integer type",
            IntegersAndBool => "i1 or an integer type",
        }
    }
}

/// Returns the extents and the element type of the result. C1: the operands have one element type. C2: the operation
/// accepts it. C3: the shapes broadcast.
pub(crate) fn operands(op: &OpRef<'_>, takes: Takes) -> Result<(Vec<Dim>, DType), OpError> {
    let dtype = common_dtype(op, BINARY_C1, 0..2)?;
    if !takes.accepts(dtype) {
        let message = format!("{} of {dtype}, wanted {}", op.name, takes.wanted());
        return Err(OpError::new(BINARY_C2, message));
    }
    Ok((broadcast(op, BINARY_C3, &operand_dims(op)?)?, dtype))
}

/// Operations of two operands: struct with attributes, if any, name, summary, element types, function. A function
/// that depends on the attributes reads them from the name after `as`.
macro_rules! binary {
    ($($op:ident $({ $($fields:tt)* } as $own:ident)? $name:literal $summary:literal
        $takes:expr, $function:expr;)*) => {$(
        attributes! {
            #[doc = concat!("`", $name, "`: ", $summary, ".")]
            pub struct $op { $($($fields)*)? }
        }

        impl Operation for $op {
            const NAME: &'static str = $name;
            const SUMMARY: &'static str = $summary;
            const FAMILY: &'static str = "elementwise";
            const OPERANDS: (usize, usize) = (2, 2);
            const CODES: &'static [Code] = CODES;

            fn infer(&self, op: &OpRef<'_>) -> Result<Vec<Inferred>, OpError> {
                let (dims, dtype) = operands(op, $takes)?;
                one(dims, dtype)
            }
            fn expression(&self) -> Option<Expr> {
                $(let $own = self;)?
                Some($function.of(Expr::A, Expr::B))
            }
        }
    )*

        /// Adds these operations.
        pub(crate) fn register(registry: &mut optc_ir::Registry) {
            $(registry.add::<$op>();)*
        }
    };
}

#[rustfmt::skip]
binary! {
    Add "hbir.add" "a + b; or on i1" Any, Binary::Add;
    Sub "hbir.sub" "a - b" Numbers, Binary::Sub;
    Mul "hbir.mul" "a * b; and on i1" Any, Binary::Mul;
    Div "hbir.div" "a / b; integers truncate" Numbers, Binary::Div;
    Pow "hbir.pow" "a^b" Numbers, Binary::Pow;
    Atan2 "hbir.atan2" "the angle of the point (b, a), -pi to pi" Floats, Binary::Atan2;
    Max "hbir.max" "the greater; NaN wins" Any, Binary::Max;
    Min "hbir.min" "the lesser; NaN wins" Any, Binary::Min;
    And "hbir.and" "a and b; on integers every bit" IntegersAndBool, Binary::And;
    Or "hbir.or" "a or b; on integers every bit" IntegersAndBool, Binary::Or;
    Xor "hbir.xor" "either a or b; on integers every bit" IntegersAndBool, Binary::Xor;
    ShiftLeft "hbir.shift_left" "a * 2^b" Integers, Binary::ShiftLeft;
    ShiftRight "hbir.shift_right" "a / 2^b, rounded down" Integers, Binary::ShiftRight;
    Mod {
        /// True if the result has the sign of `a`, as C's `fmod`; otherwise it has the sign of `b`.
        fmod: bool = false,
    } as modulo "hbir.mod" "the remainder with b's sign, with `fmod` a's" Numbers,
        if modulo.fmod { Binary::Rem } else { Binary::Mod };
    BitAnd "hbir.bit_and" "the bits in both" Integers, Binary::And;
    BitOr "hbir.bit_or" "the bits in either" Integers, Binary::Or;
    BitXor "hbir.bit_xor" "the bits in one only" Integers, Binary::Xor;
}

codes! {
    pub(crate) const CODES;

    BINARY_C1 = program(
        "the two operands of an element-wise operation have different element types",
        r#"%0 = "hbir.add"(%x, %y) : (tensor<2xf32>, tensor<2xsi32>) -> tensor<2xf32>"#,
        "convert one of them with `hbir.cast`",
    );
    BINARY_C2 = program(
        "an element-wise operation of two operands is not defined for their element type: arithmetic wants numbers, `and`, `or`, `xor` want `i1`, the `bit_` forms want integers",
        r#"%0 = "hbir.sub"(%x, %y) : (tensor<2xi1>, tensor<2xi1>) -> tensor<2xi1>"#,
        "use the operation for this type (`hbir.xor` for booleans, `hbir.bit_and` for integers), or cast first",
    );
    BINARY_C3 = program(
        "the shapes of the two operands do not broadcast: in some dimension, counted from the last, the sizes differ and none is 1",
        r#"%0 = "hbir.mul"(%x, %y) : (tensor<2xf32>, tensor<3xf32>) -> tensor<2xf32>"#,
        "insert unit dimensions with `hbir.reshape` so that the dimensions that belong together line up from the right",
    );
    BINARY_C4 = program(
        "the slope of `hbir.prelu` would enlarge the result: it must broadcast to the shape of the first operand",
        r#"%0 = "hbir.prelu"(%x, %y) : (tensor<2xf32>, tensor<3x2xf32>) -> tensor<3x2xf32>"#,
        "give the slope the shape of the first operand, or one that broadcasts to it",
    );
}
