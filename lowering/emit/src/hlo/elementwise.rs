//! Element-wise operations, by their expressions.

use super::func::{Outcome, Writer};
use super::number::{is_unsigned, number_text};
use crate::unwritten::{Form, known};
use optc_ir::op::{Binary, Direction, Expr, ExprBuilder, Operation, Unary};
use optc_ir::{DType, Diagnostic, OpData, TensorType};
use optc_ops::Relu;

/// The name of the result; nothing where the operation has no expression. Operands have the shape of the result.
pub(super) fn write(w: &mut Writer<'_>, data: &OpData, ty: &TensorType) -> Form<String> {
    let expr = match &*data.name {
        // XLA has no other form of it.
        Relu::NAME => Some(Expr::A.max(0.0)),
        _ => w.shared.registry.expression(&w.op_ref(data)),
    };
    let expr = known(expr)?;
    let mut operands = Vec::with_capacity(data.operands.len());
    for &value in &data.operands {
        operands.push((w.spread(value, ty)?, w.tensor(value)?.dtype));
    }
    if let (Expr::Operand(_), [(x, _)]) = (&expr, operands.as_slice()) {
        return Ok(w.put(ty, "copy", std::slice::from_ref(x), "")?);
    }
    known(expr.build(&operands, &mut Elementwise { w, ty })?)
}

/// Element-wise work in a value's own type.
pub(super) struct Elementwise<'w, 'a, 't> {
    pub(super) w: &'w mut Writer<'a>,
    pub(super) ty: &'t TensorType,
}

impl Elementwise<'_, '_, '_> {
    pub(super) fn number(&mut self, x: f64) -> Outcome<String> {
        self.w.filled(&number_text(x, self.ty.dtype), self.ty)
    }

    pub(super) fn of(&mut self, opcode: &str, operands: &[&String]) -> Outcome<String> {
        self.put(self.ty.dtype, opcode, operands, "")
    }

    /// The comparison of `a` with `b` in a direction of HLO.
    pub(super) fn test(&mut self, direction: &str, a: &String, b: &String) -> Outcome<String> {
        let attrs = format!(", direction={direction}");
        self.put(DType::BOOL, "compare", &[a, b], &attrs)
    }

    /// The type of a part: laid as the result where it has its element type.
    fn typed(&self, dtype: DType) -> TensorType {
        match dtype == self.ty.dtype {
            true => self.ty.clone(),
            false => TensorType {
                dtype,
                ..self.ty.without_layout()
            },
        }
    }

    fn put(
        &mut self,
        dtype: DType,
        opcode: &str,
        operands: &[&String],
        attrs: &str,
    ) -> Outcome<String> {
        let operands: Vec<String> = operands.iter().map(|&x| x.clone()).collect();
        let ty = self.typed(dtype);
        self.w.put(&ty, opcode, &operands, attrs)
    }
}

type Made = Outcome<Option<String>>;

impl ExprBuilder for Elementwise<'_, '_, '_> {
    type Value = String;
    type Error = Box<Diagnostic>;

    fn number(&mut self, x: f64, dtype: DType) -> Made {
        let ty = self.typed(dtype);
        self.w.filled(&number_text(x, dtype), &ty).map(Some)
    }

    fn unary(&mut self, function: Unary, x: &String, dtype: DType) -> Made {
        let Some(opcode) = unary(function, self.w.shared.mlir) else {
            return Ok(None);
        };
        self.put(dtype, opcode, &[x], "").map(Some)
    }

    fn binary(&mut self, function: Binary, operands: [&String; 2], dtype: DType) -> Made {
        let Some(opcode) = binary(function, dtype) else {
            return Ok(None);
        };
        self.put(dtype, opcode, &operands, "").map(Some)
    }

    fn compare(&mut self, direction: Direction, operands: [&String; 2], _: DType) -> Made {
        let [a, b] = operands;
        self.test(&direction.word().to_uppercase(), a, b).map(Some)
    }

    fn select(&mut self, operands: [&String; 3], dtype: DType) -> Made {
        self.put(dtype, "select", &operands, "").map(Some)
    }

    fn cast(&mut self, x: &String, _: DType, to: DType) -> Made {
        self.put(to, "convert", &[x], "").map(Some)
    }
}

/// The instruction of a function of one number.
fn unary(function: Unary, mlir: bool) -> Option<&'static str> {
    Some(match function {
        Unary::Abs => "abs",
        Unary::Acos => "acos",
        Unary::Acosh => "acosh",
        Unary::Asin => "asin",
        Unary::Asinh => "asinh",
        Unary::Atanh => "atanh",
        Unary::Cbrt => "cbrt",
        Unary::Ceil => "ceil",
        Unary::Cos => "cosine",
        Unary::Cosh => "cosh",
        Unary::Erf => "erf",
        Unary::Erfc if mlir => "chlo.erfc",
        Unary::Exp => "exponential",
        Unary::Expm1 => "exponential-minus-one",
        Unary::Floor => "floor",
        Unary::Log => "log",
        Unary::Log1p => "log-plus-one",
        Unary::Neg => "negate",
        Unary::Not => "not",
        Unary::Round => "round-nearest-even",
        Unary::Rsqrt => "rsqrt",
        Unary::Sigmoid => "logistic",
        Unary::Sign => "sign",
        Unary::Sin => "sine",
        Unary::Sinh => "sinh",
        Unary::Sqrt => "sqrt",
        Unary::Tan => "tan",
        Unary::Tanh => "tanh",
        Unary::Atan | Unary::Erfc | Unary::Reciprocal | Unary::Softplus => return None,
    })
}

/// The instruction of a function of two numbers.
fn binary(function: Binary, dtype: DType) -> Option<&'static str> {
    Some(match function {
        Binary::Add => "add",
        Binary::Sub => "subtract",
        Binary::Mul => "multiply",
        Binary::Div => "divide",
        Binary::Rem => "remainder",
        Binary::Mod if is_unsigned(dtype) => "remainder",
        Binary::Mod => return None,
        Binary::Pow => "power",
        Binary::Atan2 => "atan2",
        Binary::Max => "maximum",
        Binary::Min => "minimum",
        Binary::And => "and",
        Binary::Or => "or",
        Binary::Xor => "xor",
        Binary::ShiftLeft => "shift-left",
        Binary::ShiftRight if is_unsigned(dtype) => "shift-right-logical",
        Binary::ShiftRight => "shift-right-arithmetic",
    })
}
