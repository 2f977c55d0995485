//! Operations in `jnp`: element by element.

use super::form::Form;
use super::words::{dtype, float, tuple};
use optc_ops::{
    Approximate, Celu, Clamp, Compare, Dequantize, Direction, Elu, Gelu, HardSigmoid, LeakyRelu,
    Mod, Quantize, Selu, ThresholdedRelu,
};

impl Form<'_> {
    pub(super) fn bitcast_convert(&self) -> Option<String> {
        let (x, to) = (self.arg(0)?, dtype(self.ty()?.dtype));
        Some(format!("lax.bitcast_convert_type({x}, {to})"))
    }

    pub(super) fn binary(&self, sign: &str) -> Option<String> {
        Some(format!("{} {sign} {}", self.arg(0)?, self.arg(1)?))
    }

    pub(super) fn call2(&self, function: &str) -> Option<String> {
        Some(format!("{function}({}, {})", self.arg(0)?, self.arg(1)?))
    }

    /// Of two operands, by a function of the module's own.
    pub(super) fn call2_of(&mut self, helper: &'static str) -> Option<String> {
        let function = self.helper(helper);
        self.call2(function)
    }

    pub(super) fn gelu(&mut self) -> Option<String> {
        Some(match self.typed::<Gelu>()?.approximate {
            Approximate::Tanh => format!("jax.nn.gelu({}, approximate=True)", self.arg(0)?),
            Approximate::None => format!("{}({})", self.helper("_gelu"), self.arg(0)?),
        })
    }

    pub(super) fn modulo(&mut self) -> Option<String> {
        match (self.typed::<Mod>()?.fmod, self.is_float()) {
            (true, true) => self.call2("jnp.fmod"),
            (true, false) => self.call2_of("_int_rem"),
            (false, true) => self.call2("jnp.mod"),
            (false, false) => self.call2_of("_int_mod"),
        }
    }

    pub(super) fn shift_left(&self) -> Option<String> {
        let (a, b, bits) = (self.arg(0)?, self.arg(1)?, self.ty()?.dtype.bits());
        let last = bits - 1;
        Some(format!(
            "jnp.where((0 <= {b}) & ({b} < {bits}), jnp.left_shift({a}, jnp.clip({b}, 0, {last})), 0)"
        ))
    }

    pub(super) fn shift_right(&self) -> Option<String> {
        let (a, b, bits) = (self.arg(0)?, self.arg(1)?, self.ty()?.dtype.bits());
        let last = bits - 1;
        Some(format!(
            "jnp.right_shift({a}, jnp.where(({b} < 0) | ({bits} <= {b}), {last}, {b}))"
        ))
    }

    pub(super) fn prelu(&self) -> Option<String> {
        let (x, slope) = (self.arg(0)?, self.arg(1)?);
        Some(format!("jnp.where({x} < 0, {slope} * {x}, {x})"))
    }

    pub(super) fn compare(&self) -> Option<String> {
        self.binary(match self.typed::<Compare>()?.direction {
            Direction::Eq => "==",
            Direction::Ne => "!=",
            Direction::Lt => "<",
            Direction::Le => "<=",
            Direction::Gt => ">",
            Direction::Ge => ">=",
        })
    }

    pub(super) fn select(&self) -> Option<String> {
        let (c, a, b) = (self.arg(0)?, self.arg(1)?, self.arg(2)?);
        Some(format!("jnp.where({c}, {a}, {b})"))
    }

    pub(super) fn cast(&self) -> Option<String> {
        let (x, from, to) = (self.arg(0)?, self.operand(0)?.dtype, self.ty()?.dtype);
        if to.is_bool() {
            return Some(format!("{x} != 0"));
        }
        let name = dtype(to);
        if !from.is_int() && to.is_int() {
            // What lies outside of the integers saturates, NaN is 0.
            return Some(format!("jnp.nan_to_num({x}).astype({name})"));
        }
        Some(format!("{x}.astype({name})"))
    }

    pub(super) fn clamp(&self) -> Option<String> {
        let bounds = self.typed::<Clamp>()?;
        let number = |x: f64| match self.is_float() {
            true => float(x),
            false => format!("{x:.0}"),
        };
        let mut text = self.arg(0)?.to_owned();
        if let Some(low) = bounds.min {
            text = format!("jnp.maximum({text}, {})", number(low));
        }
        if let Some(high) = bounds.max {
            text = format!("jnp.minimum({text}, {})", number(high));
        }
        Some(text)
    }

    pub(super) fn leaky_relu(&self) -> Option<String> {
        let (x, alpha) = (self.arg(0)?, float(self.typed::<LeakyRelu>()?.alpha));
        Some(format!("jnp.where({x} < 0, {alpha} * {x}, {x})"))
    }

    pub(super) fn elu(&self) -> Option<String> {
        let (x, alpha) = (self.arg(0)?, float(self.typed::<Elu>()?.alpha));
        Some(format!("jax.nn.elu({x}, {alpha})"))
    }

    pub(super) fn celu(&self) -> Option<String> {
        let (x, alpha) = (self.arg(0)?, float(self.typed::<Celu>()?.alpha));
        Some(format!("jax.nn.celu({x}, {alpha})"))
    }

    pub(super) fn selu(&self) -> Option<String> {
        let (x, Selu { alpha, gamma }) = (self.arg(0)?, self.typed()?);
        let (alpha, gamma) = (float(alpha), float(gamma));
        Some(format!("{gamma} * jax.nn.elu({x}, {alpha})"))
    }

    pub(super) fn hard_sigmoid(&self) -> Option<String> {
        let (x, HardSigmoid { alpha, beta }) = (self.arg(0)?, self.typed()?);
        let (alpha, beta) = (float(alpha), float(beta));
        Some(format!("jnp.clip({alpha} * {x} + {beta}, 0.0, 1.0)"))
    }

    pub(super) fn thresholded_relu(&self) -> Option<String> {
        let (x, alpha) = (self.arg(0)?, float(self.typed::<ThresholdedRelu>()?.alpha));
        Some(format!("jnp.where({x} > {alpha}, {x}, 0.0)"))
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
