//! Operations in `jnp`: element by element.

use super::form::Form;
use super::words::{dtype, float, tuple};
use crate::python::Text;
use optc_ir::DType;
use optc_ir::op::{Binary, Direction, ExprBuilder, Operation, Unary};
use optc_ops::{
    Dequantize, Identity, IsInf, IsNan, LayoutConvert, Quantize, Relu, ShardingConstraint,
};
use std::convert::Infallible;

/// Operations that `jnp` has a form of by itself, as a text with `{}` for the operand.
const WHOLE: &[(&str, &str)] = &[
    (Identity::NAME, "{}"),
    (IsInf::NAME, "jnp.isinf({})"),
    (IsNan::NAME, "jnp.isnan({})"),
    (LayoutConvert::NAME, "{}"),
    (Relu::NAME, "jnp.maximum({}, 0)"),
    (ShardingConstraint::NAME, "{}"),
];

type Made = Result<Option<Text>, Infallible>;

impl ExprBuilder for Form<'_> {
    type Value = Text;
    type Error = Infallible;

    fn number(&mut self, x: f64, dtype: DType) -> Made {
        let text = match dtype.is_float() {
            true => float(x),
            false => format!("{x:.0}"),
        };
        Ok(Some(Text::tight(text)))
    }

    fn unary(&mut self, function: Unary, x: &Text, _: DType) -> Made {
        let name = match function {
            Unary::Neg => return Ok(Some(Text::loose(format!("-{}", x.part())))),
            Unary::Not => return Ok(Some(Text::loose(format!("~{}", x.part())))),
            Unary::Softplus => {
                let text = format!("jnp.logaddexp({}, 0.0)", x.text);
                return Ok(Some(Text::tight(text)));
            }
            _ => match unary_in_kernel(function) {
                Some(needs) if self.site.tile => {
                    needs.iter().for_each(|name| _ = self.helper(name));
                    needs.first().copied()
                }
                _ => unary(function),
            },
        };
        Ok(name.map(|name| Text::tight(format!("{name}({})", x.text))))
    }

    fn binary(&mut self, function: Binary, [a, b]: [&Text; 2], dtype: DType) -> Made {
        let sign = |sign: &str| Text::loose(format!("{} {sign} {}", a.part(), b.part()));
        let call = |name: &str| Text::tight(format!("{name}({}, {})", a.text, b.text));
        let (float, truth) = (dtype.is_float(), dtype.is_bool());
        let (x, by, bits) = (&a.text, b.part(), dtype.bits());
        let last = bits.saturating_sub(1);
        Ok(Some(match function {
            Binary::Add => sign("+"),
            Binary::Sub => sign("-"),
            Binary::Mul => sign("*"),
            Binary::Div if float => sign("/"),
            Binary::Div => call(self.helper("_int_div")),
            Binary::Rem if float => call("jnp.fmod"),
            Binary::Rem => call(self.helper("_int_rem")),
            Binary::Mod if float => call("jnp.mod"),
            Binary::Mod => call(self.helper("_int_mod")),
            Binary::Pow if float => call("jnp.power"),
            Binary::Pow => call(self.helper("_int_pow")),
            Binary::Atan2 if self.site.tile => {
                self.helper("_atan");
                call(self.helper("_atan2"))
            }
            Binary::Atan2 => call("jnp.arctan2"),
            Binary::Max if truth => sign("|"),
            Binary::Max => call("jnp.maximum"),
            Binary::Min if truth => sign("&"),
            Binary::Min => call("jnp.minimum"),
            Binary::And => sign("&"),
            Binary::Or => sign("|"),
            Binary::Xor => sign("^"),
            Binary::ShiftLeft => Text::tight(format!(
                "jnp.where((0 <= {by}) & ({by} < {bits}), jnp.left_shift({x}, jnp.clip({by}, 0, {last})), 0)"
            )),
            Binary::ShiftRight => Text::tight(format!(
                "jnp.right_shift({x}, jnp.where(({by} < 0) | ({bits} <= {by}), {last}, {by}))"
            )),
        }))
    }

    fn compare(&mut self, direction: Direction, operands: [&Text; 2], _: DType) -> Made {
        Ok(Some(Text::compared(direction, operands)))
    }

    fn select(&mut self, [cond, a, b]: [&Text; 3], _: DType) -> Made {
        let function = match self.site.tile {
            true => self.helper("_where"),
            false => "jnp.where",
        };
        let text = format!("{function}({}, {}, {})", cond.text, a.text, b.text);
        Ok(Some(Text::tight(text)))
    }

    fn cast(&mut self, x: &Text, from: DType, to: DType) -> Made {
        if to.is_bool() {
            return Ok(Some(Text::loose(format!("{} != 0", x.part()))));
        }
        let name = dtype(to);
        let text = match !from.is_int() && to.is_int() {
            // Floats outside of the integers' range saturate, NaN is 0.
            true => format!("jnp.nan_to_num({}).astype({name})", x.text),
            false => format!("{}.astype({name})", x.part()),
        };
        Ok(Some(Text::tight(text)))
    }
}

/// The helper for a function of one number that Mosaic does not have, and those that it calls.
fn unary_in_kernel(function: Unary) -> Option<&'static [&'static str]> {
    Some(match function {
        Unary::Acos => &["_acos", "_atan2", "_atan"],
        Unary::Acosh => &["_acosh"],
        Unary::Asin => &["_asin", "_atan2", "_atan"],
        Unary::Asinh => &["_asinh"],
        Unary::Atan => &["_atan"],
        Unary::Atanh => &["_atanh"],
        Unary::Cbrt => &["_cbrt"],
        Unary::Cosh => &["_cosh"],
        Unary::Erf => &["_erf"],
        Unary::Erfc => &["_erfc", "_erf"],
        Unary::Expm1 => &["_expm1"],
        Unary::Sinh => &["_sinh", "_expm1"],
        _ => return None,
    })
}

/// The function of one number in JAX.
fn unary(function: Unary) -> Option<&'static str> {
    Some(match function {
        Unary::Abs => "jnp.abs",
        Unary::Acos => "jnp.arccos",
        Unary::Acosh => "jnp.arccosh",
        Unary::Asin => "jnp.arcsin",
        Unary::Asinh => "jnp.arcsinh",
        Unary::Atan => "jnp.arctan",
        Unary::Atanh => "jnp.arctanh",
        Unary::Cbrt => "jnp.cbrt",
        Unary::Ceil => "jnp.ceil",
        Unary::Cos => "jnp.cos",
        Unary::Cosh => "jnp.cosh",
        Unary::Erf => "lax.erf",
        Unary::Erfc => "lax.erfc",
        Unary::Exp => "jnp.exp",
        Unary::Expm1 => "jnp.expm1",
        Unary::Floor => "jnp.floor",
        Unary::Log => "jnp.log",
        Unary::Log1p => "jnp.log1p",
        Unary::Round => "jnp.round",
        Unary::Rsqrt => "lax.rsqrt",
        Unary::Sigmoid => "jax.nn.sigmoid",
        Unary::Sign => "jnp.sign",
        Unary::Sin => "jnp.sin",
        Unary::Sinh => "jnp.sinh",
        Unary::Sqrt => "jnp.sqrt",
        Unary::Tan => "jnp.tan",
        Unary::Tanh => "jnp.tanh",
        Unary::Neg | Unary::Not | Unary::Reciprocal | Unary::Softplus => return None,
    })
}

impl Form<'_> {
    /// An element-wise operation, by its expression where `jnp` has no form of it by itself.
    pub(super) fn elementwise(&mut self) -> Option<String> {
        let name = self.op().name;
        if let Some((_, form)) = WHOLE.iter().find(|(n, _)| *n == name) {
            return Some(form.replace("{}", self.arg(0)?));
        }
        let expr = self.site.registry.expression(self.op())?;
        let mut operands = Vec::with_capacity(self.args.len());
        for (i, arg) in self.args.iter().enumerate() {
            operands.push((Text::tight(arg), self.operand(i)?.dtype));
        }
        let Ok(made) = expr.build(&operands, self);
        made.map(|made| made.text)
    }

    pub(super) fn bitcast_convert(&self) -> Option<String> {
        let (x, to) = (self.arg(0)?, dtype(self.ty()?.dtype));
        Some(format!("lax.bitcast_convert_type({x}, {to})"))
    }

    pub(super) fn quantize(&mut self) -> Option<String> {
        let axis = self.typed::<Quantize>()?.along(self.op()).ok()?;
        let (scale, zero) = self.scale_and_zero(axis)?;
        let (x, to) = (self.arg(0)?.to_owned(), dtype(self.ty()?.dtype));
        let quantize = self.helper("_quantize");
        Some(format!("{quantize}({x}, {scale}, {zero}, {to})"))
    }

    pub(super) fn dequantize(&self) -> Option<String> {
        let axis = self.typed::<Dequantize>()?.along(self.op()).ok()?;
        let (scale, zero) = self.scale_and_zero(axis)?;
        let (x, to) = (self.arg(0)?, dtype(self.ty()?.dtype));
        Some(format!(
            "({x}.astype(jnp.float32) - {zero}.astype(jnp.float32)).astype({to}) * {scale}"
        ))
    }

    /// Scale and zero point as they broadcast.
    pub(super) fn scale_and_zero(&self, axis: Option<usize>) -> Option<(String, String)> {
        let rank = self.operand(0)?.rank();
        let parameter = |i: usize| -> Option<String> {
            let text = self.arg(i)?;
            if self.operand(i)?.rank() == 0 {
                return Some(text.to_owned());
            }
            let shape = (0..rank).map(|d| if Some(d) == axis { "-1" } else { "1" });
            Some(format!("{text}.reshape{}", tuple(shape)))
        };
        let zero = match self.arg(2) {
            Some(_) => parameter(2)?,
            None => "jnp.int32(0)".to_owned(),
        };
        Some((parameter(1)?, zero))
    }
}
