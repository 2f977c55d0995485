//! Element-wise expressions in Triton and in torch.

use super::words::{block_type, float, torch_type, wide};
use crate::python::Text;
use optc_ir::DType;
use optc_ir::op::{Binary, Direction, Expr, ExprBuilder, Unary};
use std::collections::BTreeSet;
use std::convert::Infallible;

/// The language of an expression.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Language {
    Triton,
    Torch,
}

/// A writer of expressions.
pub(super) struct Number<'h> {
    language: Language,
    helpers: &'h mut BTreeSet<&'static str>,
}

fn tight(text: impl Into<String>) -> Made {
    Ok(Some(Text::tight(text)))
}

fn loose(text: impl Into<String>) -> Made {
    Ok(Some(Text::loose(text)))
}

type Made = Result<Option<Text>, Infallible>;

impl<'h> Number<'h> {
    /// A writer of expressions in a kernel.
    pub(super) fn kernel(helpers: &'h mut BTreeSet<&'static str>) -> Number<'h> {
        Number {
            language: Language::Triton,
            helpers,
        }
    }

    /// A writer of expressions on torch's tensors.
    pub(super) fn torch(helpers: &'h mut BTreeSet<&'static str>) -> Number<'h> {
        Number {
            language: Language::Torch,
            helpers,
        }
    }

    /// The text of an expression on these operands; `None` if it has no form.
    pub(super) fn build(&mut self, expr: &Expr, operands: &[(String, DType)]) -> Option<String> {
        let operands: Vec<(Text, DType)> = operands
            .iter()
            .map(|(text, dtype)| (Text::tight(text), *dtype))
            .collect();
        let Ok(made) = expr.build(&operands, self);
        made.map(|made| made.text)
    }

    fn helper(&mut self, name: &'static str) -> &'static str {
        self.helpers.insert(name);
        name
    }
}

impl ExprBuilder for Number<'_> {
    type Value = Text;
    type Error = Infallible;

    fn number(&mut self, x: f64, dtype: DType) -> Made {
        if self.language == Language::Torch {
            let kind = torch_type(dtype).unwrap_or_else(|| "torch.float32".to_owned());
            return tight(format!("torch.tensor({}, dtype={kind})", float(x)));
        }
        match dtype.is_float() {
            true => tight(float(x)),
            false => tight(format!("{x:.0}")),
        }
    }

    fn unary(&mut self, function: Unary, x: &Text, dtype: DType) -> Made {
        match function {
            Unary::Neg => return loose(format!("-{}", x.part())),
            Unary::Not => return loose(format!("~{}", x.part())),
            _ => {}
        }
        if self.language == Language::Torch {
            let Some(name) = torch_unary(function) else {
                return Ok(None);
            };
            return tight(format!("{name}({})", x.text));
        }
        let name = match function {
            Unary::Abs => "tl.abs",
            Unary::Ceil if dtype.is_float() => "tl.ceil",
            Unary::Floor if dtype.is_float() => "tl.floor",
            Unary::Cos => "tl.cos",
            Unary::Sin => "tl.sin",
            Unary::Erf => "tl.erf",
            Unary::Exp => "tl.exp",
            Unary::Log => "tl.log",
            Unary::Sqrt => "tl.sqrt_rn",
            Unary::Rsqrt => "tl.rsqrt",
            Unary::Sigmoid => "tl.sigmoid",
            Unary::Round => self.helper("_round"),
            Unary::Tanh => self.helper("_tanh"),
            Unary::Sinh => self.helper("_sinh"),
            Unary::Cosh => self.helper("_cosh"),
            Unary::Tan => return loose(format!("tl.sin({0}) / tl.cos({0})", x.text)),
            _ => return Ok(None),
        };
        // The root that is rounded to the nearest number has f32 alone.
        let name = if name == "tl.sqrt_rn" && wide(dtype) != DType::F32 {
            "tl.sqrt"
        } else {
            name
        };
        tight(format!("{name}({})", x.text))
    }

    fn binary(&mut self, function: Binary, [a, b]: [&Text; 2], dtype: DType) -> Made {
        let sign = |sign: &str| loose(format!("{} {sign} {}", a.part(), b.part()));
        let (float, truth) = (dtype.is_float(), dtype.is_bool());
        let (x, y, bits) = (&a.text, &b.text, dtype.bits());
        let triton = self.language == Language::Triton;
        let call = |name: &str| tight(format!("{name}({x}, {y})"));
        match function {
            Binary::Add if truth => sign("|"),
            Binary::Mul if truth => sign("&"),
            Binary::Add => sign("+"),
            Binary::Sub => sign("-"),
            Binary::Mul => sign("*"),
            Binary::Div if float => sign("/"),
            Binary::Div if triton => call(self.helper("_int_div")),
            Binary::Div => call(self.helper("_div")),
            Binary::Rem if float && triton => call(self.helper("_fmod")),
            Binary::Rem if float => call("torch.fmod"),
            Binary::Rem if triton => call(self.helper("_int_rem")),
            Binary::Rem => call(self.helper("_rem")),
            Binary::Mod if float && !triton => call("torch.remainder"),
            Binary::Mod => Ok(None),
            Binary::Pow if float && triton => match y.as_str() {
                "2.0" => loose(format!("{0} * {0}", a.part())),
                "3.0" => loose(format!("{0} * {0} * {0}", a.part())),
                "0.5" => tight(format!("tl.sqrt({x})")),
                _ => call(self.helper("_pow")),
            },
            Binary::Pow if !triton => call("torch.pow"),
            Binary::Pow => Ok(None),
            Binary::Atan2 if triton => Ok(None),
            Binary::Atan2 => call("torch.atan2"),
            Binary::Max if truth => sign("|"),
            Binary::Min if truth => sign("&"),
            Binary::Max if triton && float => tight(format!(
                "tl.maximum({x}, {y}, propagate_nan=tl.PropagateNan.ALL)"
            )),
            Binary::Min if triton && float => tight(format!(
                "tl.minimum({x}, {y}, propagate_nan=tl.PropagateNan.ALL)"
            )),
            Binary::Max if triton => call("tl.maximum"),
            Binary::Min if triton => call("tl.minimum"),
            Binary::Max => call("torch.maximum"),
            Binary::Min => call("torch.minimum"),
            Binary::And => sign("&"),
            Binary::Or => sign("|"),
            Binary::Xor => sign("^"),
            Binary::ShiftLeft if !triton => {
                let shift = self.helper("_shift_left");
                tight(format!("{shift}({x}, {y}, {bits})"))
            }
            Binary::ShiftRight if !triton => {
                let shift = self.helper("_shift_right");
                tight(format!("{shift}({x}, {y}, {bits})"))
            }
            Binary::ShiftLeft => tight(format!(
                "tl.where(({y} >= 0) & ({y} < {bits}), {x} << {y}, 0)"
            )),
            Binary::ShiftRight => {
                let last = bits.saturating_sub(1);
                tight(format!(
                    "({x} >> tl.where(({y} < 0) | ({y} >= {bits}), {last}, {y}))"
                ))
            }
        }
    }

    fn compare(&mut self, direction: Direction, operands: [&Text; 2], _: DType) -> Made {
        Ok(Some(Text::compared(direction, operands)))
    }

    fn select(&mut self, [cond, a, b]: [&Text; 3], _: DType) -> Made {
        let name = match self.language {
            Language::Triton => "tl.where",
            Language::Torch => "torch.where",
        };
        tight(format!("{name}({}, {}, {})", cond.text, a.text, b.text))
    }

    fn cast(&mut self, x: &Text, from: DType, to: DType) -> Made {
        if to.is_bool() {
            return loose(format!("{} != 0", x.part()));
        }
        if self.language == Language::Torch {
            let Some(kind) = torch_type(to) else {
                return Ok(None);
            };
            return match from.is_float() && to.is_int() {
                true => tight(format!("torch.nan_to_num({}).to({kind})", x.text)),
                false => tight(format!("{}.to({kind})", x.part())),
            };
        }
        let Some(kind) = block_type(to) else {
            return Ok(None);
        };
        let narrow = matches!(to, DType::F16 | DType::BF16);
        match from.is_float() && to.is_int() {
            true => tight(format!(
                "tl.where({0} == {0}, {0}, 0.0).to({kind})",
                x.part()
            )),
            false if narrow => tight(format!("{}.to({kind}).to(tl.float32)", x.part())),
            false => tight(format!("{}.to({kind})", x.part())),
        }
    }
}

/// The function of one number in torch.
fn torch_unary(function: Unary) -> Option<&'static str> {
    Some(match function {
        Unary::Abs => "torch.abs",
        Unary::Acos => "torch.acos",
        Unary::Acosh => "torch.acosh",
        Unary::Asin => "torch.asin",
        Unary::Asinh => "torch.asinh",
        Unary::Atan => "torch.atan",
        Unary::Atanh => "torch.atanh",
        Unary::Ceil => "torch.ceil",
        Unary::Cos => "torch.cos",
        Unary::Cosh => "torch.cosh",
        Unary::Erf => "torch.erf",
        Unary::Erfc => "torch.erfc",
        Unary::Exp => "torch.exp",
        Unary::Expm1 => "torch.expm1",
        Unary::Floor => "torch.floor",
        Unary::Log => "torch.log",
        Unary::Log1p => "torch.log1p",
        Unary::Reciprocal => "torch.reciprocal",
        Unary::Round => "torch.round",
        Unary::Rsqrt => "torch.rsqrt",
        Unary::Sigmoid => "torch.sigmoid",
        Unary::Sign => "torch.sign",
        Unary::Sin => "torch.sin",
        Unary::Sinh => "torch.sinh",
        Unary::Sqrt => "torch.sqrt",
        Unary::Tan => "torch.tan",
        Unary::Tanh => "torch.tanh",
        Unary::Cbrt | Unary::Neg | Unary::Not | Unary::Softplus => return None,
    })
}
