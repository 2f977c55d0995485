//! Element-wise operations of one operand: `y[i] = f(x[i])`.
//!
//! Names and meanings follow ONNX (`Neg`, `Erf`, `HardSwish`, …) and, where ONNX has none, StableHLO (`rsqrt`).
//! Floats are computed in `f64` and rounded once to the element type; integers wrap.

use crate::binary::Takes::{self, All, Floats, IntegersAndBool, Numbers};
use crate::prelude::*;
use std::f64::consts::{PI, SQRT_2};

/// C1: the operation accepts the element type. The result of a comparison is of truth values.
fn infer(op: &OpRef<'_>, takes: Takes, gives: Option<Expr>) -> Result<Vec<Inferred>, OpError> {
    let x = op.operand(0)?;
    if !takes.accepts(x.dtype) {
        let message = format!("{} of {}, wanted {}", op.name, x.dtype, takes.wanted());
        return Err(OpError::new(UNARY_C1, message));
    }
    let dtype = gives.and_then(|gives| gives.dtype(&[x.dtype]));
    one(x.dims.clone(), dtype.unwrap_or(x.dtype))
}

words! {
    /// The computation of the distribution function in a [`Gelu`].
    pub enum Approximate {
        /// By the error function.
        None = "none",
        /// By the hyperbolic tangent of a cubic polynomial.
        Tanh = "tanh",
    }
}

/// The element of the operand.
const X: Expr = Expr::A;

/// Operations of one operand: struct with attributes, if any, name, summary, element types, expression. An
/// expression reads the attributes from the name after `as`.
macro_rules! unary {
    ($($op:ident $({ $($fields:tt)* } as $own:ident)? $name:literal $summary:literal
        $takes:expr, $gives:expr;)*) => {$(
        attributes! {
            #[doc = concat!("`", $name, "`: ", $summary, ".")]
            pub struct $op { $($($fields)*)? }
        }

        impl Operation for $op {
            const NAME: &'static str = $name;
            const SUMMARY: &'static str = $summary;
            const FAMILY: &'static str = "elementwise";
            const OPERANDS: (usize, usize) = (1, 1);
            const MOVES_ONLY: bool = matches!($takes, All);
            const PASSES_ON: bool = matches!($takes, All);
            const CODES: &'static [Code] = CODES;

            fn infer(&self, op: &OpRef<'_>) -> Result<Vec<Inferred>, OpError> {
                infer(op, $takes, self.expression())
            }
            fn expression(&self) -> Option<Expr> {
                $(let $own = self;)?
                Some($gives)
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
unary! {
    Neg "hbir.neg" "-x" Numbers, X.negated();
    Abs "hbir.abs" "the absolute value" Numbers, X.abs();
    Sign "hbir.sign" "-1, 0 or 1" Numbers, X.sign();
    Exp "hbir.exp" "e^x" Floats, X.exp();
    Expm1 "hbir.expm1" "e^x - 1, exact near 0" Floats, X.expm1();
    Log "hbir.log" "the natural logarithm" Floats, X.log();
    Log1p "hbir.log1p" "log(1 + x), exact near 0" Floats, X.log1p();
    Sqrt "hbir.sqrt" "the square root" Floats, X.sqrt();
    Cbrt "hbir.cbrt" "the cube root" Floats, X.cbrt();
    Rsqrt "hbir.rsqrt" "1 / sqrt(x)" Floats, X.rsqrt();
    Reciprocal "hbir.reciprocal" "1 / x" Floats, X.reciprocal();
    Erf "hbir.erf" "the error function" Floats, X.erf();
    Erfc "hbir.erfc" "1 - erf(x), exact where that is near 0" Floats, X.erfc();
    Tanh "hbir.tanh" "the hyperbolic tangent" Floats, X.tanh();
    Sigmoid "hbir.sigmoid" "1 / (1 + e^-x)" Floats, X.sigmoid();
    Relu "hbir.relu" "max(x, 0)" Numbers, X.where_below_zero(0.0);
    Sin "hbir.sin" "the sine" Floats, X.sin();
    Cos "hbir.cos" "the cosine" Floats, X.cos();
    Tan "hbir.tan" "the tangent" Floats, X.tan();
    Asin "hbir.asin" "the inverse sine" Floats, X.asin();
    Acos "hbir.acos" "the inverse cosine" Floats, X.acos();
    Atan "hbir.atan" "the inverse tangent" Floats, X.atan();
    Sinh "hbir.sinh" "the hyperbolic sine" Floats, X.sinh();
    Cosh "hbir.cosh" "the hyperbolic cosine" Floats, X.cosh();
    Asinh "hbir.asinh" "the inverse hyperbolic sine" Floats, X.asinh();
    Acosh "hbir.acosh" "the inverse hyperbolic cosine" Floats, X.acosh();
    Atanh "hbir.atanh" "the inverse hyperbolic tangent" Floats, X.atanh();
    Floor "hbir.floor" "the greatest integer not above x" Floats, X.floor();
    Ceil "hbir.ceil" "the least integer not below x" Floats, X.ceil();
    Round "hbir.round" "the nearest integer, ties to even" Floats, X.rounded();
    Not "hbir.not" "not x; on integers every bit" IntegersAndBool, X.inverted();
    IsNan "hbir.is_nan" "whether x is NaN" Floats, Direction::Ne.of(X, X);
    IsInf "hbir.is_inf" "whether x is infinite" Floats, Direction::Eq.of(X.abs(), f64::INFINITY);
    Silu "hbir.silu" "x * sigmoid(x)" Floats, X * X.sigmoid();
    Softplus "hbir.softplus" "log(1 + e^x)" Floats, X.softplus();
    Softsign "hbir.softsign" "x / (1 + |x|)" Floats, X / (1.0 + X.abs());
    HardSwish "hbir.hard_swish" "x * max(0, min(1, x / 6 + 0.5))" Floats, X * (X / 6.0 + 0.5).max(0.0).min(1.0);
    Mish "hbir.mish" "x * tanh(softplus(x))" Floats, X * X.softplus().tanh();
    Identity "hbir.identity" "x" All, X;
    Elu {
        /// The distance of the least value from 0.
        alpha: f64 = 1.0,
    } as elu "hbir.elu" "alpha * (e^x - 1) below 0, else x" Floats, X.where_below_zero(elu.alpha * X.expm1());
    Celu {
        /// The distance of the least value from 0.
        alpha: f64 = 1.0,
    } as celu "hbir.celu" "alpha * (e^(x / alpha) - 1) below 0, else x" Floats,
        X.where_below_zero(celu.alpha * (X / celu.alpha).expm1());
    Selu {
        /// The distance of the least value from 0, before the scale.
        alpha: f64 = 1.673_263_192_176_818_8,
        /// The scale.
        gamma: f64 = 1.050_700_902_938_842_8,
    } as selu "hbir.selu" "gamma * elu(x, alpha)" Floats,
        selu.gamma * X.where_below_zero(selu.alpha * X.expm1());
    LeakyRelu {
        /// The slope below 0.
        alpha: f64 = 0.01,
    } as leaky "hbir.leaky_relu" "alpha * x below 0, else x" Floats, X.where_below_zero(leaky.alpha * X);
    HardSigmoid {
        /// The slope between 0 and 1.
        alpha: f64 = 0.2,
        /// The value at 0.
        beta: f64 = 0.5,
    } as hard "hbir.hard_sigmoid" "max(0, min(1, alpha * x + beta))" Floats,
        (hard.alpha * X + hard.beta).max(0.0).min(1.0);
    ThresholdedRelu {
        /// The threshold; elements that are not above it become 0.
        alpha: f64 = 1.0,
    } as relu "hbir.thresholded_relu" "x above alpha, else 0" Floats,
        Direction::Le.of(X, relu.alpha).select(0.0, X);
    Clamp {
        /// The least result; no bound when absent.
        min: Option<f64>,
        /// The greatest result; no bound when absent.
        max: Option<f64>,
    } as clamp "hbir.clamp" "min(max(x, `min`), `max`); a bound may be absent" Numbers, {
        let low = clamp.min.map_or(X, |low| X.max(low));
        clamp.max.map_or(low.clone(), |high| low.min(high))
    };
    Gelu {
        /// The computation of the distribution function.
        approximate: Approximate [UNARY_C2] = Approximate::None,
    } as gelu "hbir.gelu" "x * Phi(x); `approximate` = none or tanh" Floats, {
        let gate = match gelu.approximate {
            Approximate::None => (X / SQRT_2).erf(),
            Approximate::Tanh => ((2.0 / PI).sqrt() * (X + 0.044_715 * X * X * X)).tanh(),
        };
        0.5 * X * (1.0 + gate)
    };
}

codes! {
    const CODES;

    UNARY_C1 = program(
        "an element-wise operation of one operand is not defined for its element type",
        r#"%0 = "hbir.exp"(%x) : (tensor<2xsi32>) -> tensor<2xsi32>"#,
        "cast the operand: functions such as `hbir.exp` take floats, `hbir.not` takes `i1` and integers",
    );
    UNARY_C2 = program(
        r#"`approximate` of `hbir.gelu` is neither "none" nor "tanh""#,
        r#"%0 = "hbir.gelu"(%x) <{approximate = "fast"}> : (tensor<2xf32>) -> tensor<2xf32>"#,
        r#"write one of the two; without the attribute it is "none""#,
    );
}
