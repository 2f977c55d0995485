//! Operations of `arith` and `math` on elements, which become element-wise operations on tensors.

use crate::func::FuncCx;
use optc_ir::op::Direction;
use optc_ir::{Attr, DType, Operation, Sign, Value};
use optc_mlir_syntax::{Op, int};
use optc_ops::{
    Abs, Acos, Acosh, Add, And, Asin, Asinh, Atan, Atan2, Atanh, BitcastConvert, Cast, Cbrt, Ceil,
    Compare, Constant, Cos, Cosh, Div, Erf, Exp, Expm1, Floor, Log, Log1p, Max, Min, Mod, Mul, Neg,
    Not, Or, Pow, Relu, Round, Rsqrt, Select, ShiftLeft, ShiftRight, Sin, Sinh, Sqrt, Sub, Tan,
    Tanh, Xor,
};

impl<'a, 'm> FuncCx<'a, 'm>
where
    'm: 'a,
{
    /// The result of an operation on elements, of element type `to`; operands broadcast. `None` if it is not known.
    pub(crate) fn element(&mut self, op: &Op<'a>, operands: &[Value], to: DType) -> Option<Value> {
        match *operands {
            [x] => self.unary(op, x, to),
            [x, y] => self.binary(op, x, y),
            [c, x, y] if op.name == "arith.select" => match self.is_relu(c, x, y) {
                true => self.one(&Relu {}, &[y]),
                false => self.one(&Select {}, &[c, x, y]),
            },
            [x, y, z] if op.name == "math.fma" => {
                let product = self.one(&Mul {}, &[x, y])?;
                self.one(&Add {}, &[product, z])
            }
            _ => None,
        }
    }

    /// Returns whether a selection is `y < 0 ? 0 : y`, the meaning of `hbir.relu`.
    fn is_relu(&self, condition: Value, zero: Value, y: Value) -> bool {
        let func = &self.b.func;
        let data = |value: Value| func.def_op(value).map(|op| &func.ops[op]);
        let is_zero = |value: Value| {
            let made = data(value).filter(|data| &*data.name == Constant::NAME);
            let dense = match made.and_then(|data| data.props.get("value")) {
                Some(Attr::Dense(dense)) => dense,
                _ => return false,
            };
            func.ty(value).as_tensor().is_some_and(|ty| ty.rank() == 0)
                && dense.bytes.iter().all(|&b| b == 0)
        };
        let Some(compared) = data(condition) else {
            return false;
        };
        let less =
            Compare::of(&func.op_ref_of(compared)).is_ok_and(|op| op.direction == Direction::Lt);
        let [left, right] = compared.operands[..] else {
            return false;
        };
        less && left == y && is_zero(right) && is_zero(zero)
    }

    fn unary(&mut self, op: &Op<'a>, x: Value, to: DType) -> Option<Value> {
        let from = self.dtype(x);
        let cast = Cast { to };
        let of = &[x];
        match op.name {
            "arith.negf" => self.one(&Neg {}, of),
            "arith.bitcast" => self.one(&BitcastConvert { to }, of),
            "arith.extf" | "arith.truncf" | "arith.index_cast" | "arith.fptosi"
                if !to.is_bool() && !from.is_bool() =>
            {
                self.one(&cast, of)
            }
            "arith.extsi" | "arith.sitofp" if from.is_bool() => {
                // The only bit of `i1` is its sign.
                let number = self.one(&cast, of)?;
                self.one(&Neg {}, &[number])
            }
            "arith.extui" | "arith.uitofp" if from.is_bool() => self.one(&cast, of),
            "arith.extui" | "arith.uitofp" | "arith.index_castui" => {
                let bits = self.one(
                    &BitcastConvert {
                        to: unsigned(from)?,
                    },
                    of,
                )?;
                self.one(&cast, &[bits])
            }
            "arith.fptoui" if !to.is_bool() => {
                let bits = self.one(&Cast { to: unsigned(to)? }, of)?;
                self.one(&BitcastConvert { to }, &[bits])
            }
            "arith.extsi" | "arith.sitofp" => self.one(&cast, of),
            "arith.trunci" if !to.is_bool() => self.one(&cast, of),
            "math.absf" | "math.absi" => self.one(&Abs {}, of),
            "math.acos" => self.one(&Acos {}, of),
            "math.acosh" => self.one(&Acosh {}, of),
            "math.asin" => self.one(&Asin {}, of),
            "math.asinh" => self.one(&Asinh {}, of),
            "math.atan" => self.one(&Atan {}, of),
            "math.atanh" => self.one(&Atanh {}, of),
            "math.cbrt" => self.one(&Cbrt {}, of),
            "math.ceil" => self.one(&Ceil {}, of),
            "math.cos" => self.one(&Cos {}, of),
            "math.cosh" => self.one(&Cosh {}, of),
            "math.erf" => self.one(&Erf {}, of),
            "math.exp" => self.one(&Exp {}, of),
            "math.expm1" => self.one(&Expm1 {}, of),
            "math.floor" => self.one(&Floor {}, of),
            "math.log" => self.one(&Log {}, of),
            "math.log1p" => self.one(&Log1p {}, of),
            "math.roundeven" => self.one(&Round {}, of),
            "math.rsqrt" => self.one(&Rsqrt {}, of),
            "math.sin" => self.one(&Sin {}, of),
            "math.sinh" => self.one(&Sinh {}, of),
            "math.sqrt" => self.one(&Sqrt {}, of),
            "math.tan" => self.one(&Tan {}, of),
            "math.tanh" => self.one(&Tanh {}, of),
            _ => None,
        }
    }

    fn binary(&mut self, op: &Op<'a>, x: Value, y: Value) -> Option<Value> {
        let of = &[x, y];
        let truth = self.dtype(x).is_bool();
        match op.name {
            // Sums and differences of one bit.
            "arith.addi" | "arith.subi" if truth => self.one(&Xor {}, of),
            "arith.addf" | "arith.addi" => self.one(&Add {}, of),
            "arith.subf" | "arith.subi" => self.one(&Sub {}, of),
            "arith.mulf" | "arith.muli" => self.one(&Mul {}, of),
            "arith.divf" => self.one(&Div {}, of),
            "arith.andi" => self.one(&And {}, of),
            "arith.ori" => self.one(&Or {}, of),
            "arith.xori" => self.one(&Xor {}, of),
            "arith.maximumf" => self.one(&Max {}, of),
            "arith.minimumf" => self.one(&Min {}, of),
            "arith.remf" => self.one(&Mod { fmod: true }, of),
            "math.powf" => self.one(&Pow {}, of),
            "math.atan2" => self.one(&Atan2 {}, of),
            "arith.cmpf" => self.compare_floats(op, x, y),
            "arith.cmpi" => self.compare_integers(op, x, y),
            // The other operations have another meaning for one bit, whose sign is set.
            _ if truth => None,
            "arith.divsi" => self.one(&Div {}, of),
            "arith.remsi" => self.one(&Mod { fmod: true }, of),
            "arith.maxsi" => self.one(&Max {}, of),
            "arith.minsi" => self.one(&Min {}, of),
            "arith.shli" => self.one(&ShiftLeft {}, of),
            "arith.shrsi" => self.one(&ShiftRight {}, of),
            "arith.divui" => self.unsigned(of, |cx, of| cx.one(&Div {}, of)),
            "arith.remui" => self.unsigned(of, |cx, of| cx.one(&Mod { fmod: true }, of)),
            "arith.maxui" => self.unsigned(of, |cx, of| cx.one(&Max {}, of)),
            "arith.minui" => self.unsigned(of, |cx, of| cx.one(&Min {}, of)),
            "arith.shrui" => self.unsigned(of, |cx, of| cx.one(&ShiftRight {}, of)),
            _ => None,
        }
    }

    /// An operation on the bits as unsigned integers.
    fn unsigned(
        &mut self,
        operands: &[Value; 2],
        apply: impl FnOnce(&mut Self, &[Value]) -> Option<Value>,
    ) -> Option<Value> {
        let [x, y] = self.as_unsigned(operands)?;
        let made = apply(self, &[x, y])?;
        let to = self.dtype(operands[0]);
        self.one(&BitcastConvert { to }, &[made])
    }

    fn as_unsigned(&mut self, operands: &[Value; 2]) -> Option<[Value; 2]> {
        let to = unsigned(self.dtype(operands[0]))?;
        let x = self.one(&BitcastConvert { to }, &[operands[0]])?;
        let y = self.one(&BitcastConvert { to }, &[operands[1]])?;
        Some([x, y])
    }

    fn compared(&mut self, direction: Direction, of: [Value; 2]) -> Option<Value> {
        self.one(&Compare { direction }, &of)
    }

    /// A comparison of floats. One that holds for NaN is the opposite of one that does not.
    fn compare_floats(&mut self, op: &Op<'a>, x: Value, y: Value) -> Option<Value> {
        use Direction::{Eq, Ge, Gt, Le, Lt, Ne};
        let of = [x, y];
        let number = |cx: &mut Self| {
            let (x, y) = (cx.compared(Eq, [x, x])?, cx.compared(Eq, [y, y])?);
            cx.one(&And {}, &[x, y])
        };
        let apart = |cx: &mut Self| {
            let (less, more) = (cx.compared(Lt, of)?, cx.compared(Gt, of)?);
            cx.one(&Or {}, &[less, more])
        };
        match int(op.attr("predicate")?)? {
            1 => self.compared(Eq, of),
            2 => self.compared(Gt, of),
            3 => self.compared(Ge, of),
            4 => self.compared(Lt, of),
            5 => self.compared(Le, of),
            6 => apart(self),
            7 => number(self),
            8 => apart(self).and_then(|c| self.one(&Not {}, &[c])),
            9 => self.compared(Le, of).and_then(|c| self.one(&Not {}, &[c])),
            10 => self.compared(Lt, of).and_then(|c| self.one(&Not {}, &[c])),
            11 => self.compared(Ge, of).and_then(|c| self.one(&Not {}, &[c])),
            12 => self.compared(Gt, of).and_then(|c| self.one(&Not {}, &[c])),
            13 => self.compared(Ne, of),
            14 => number(self).and_then(|c| self.one(&Not {}, &[c])),
            _ => None,
        }
    }

    fn compare_integers(&mut self, op: &Op<'a>, x: Value, y: Value) -> Option<Value> {
        use Direction::{Eq, Ge, Gt, Le, Lt, Ne};
        let predicate = int(op.attr("predicate")?)?;
        let direction = [Eq, Ne, Lt, Le, Gt, Ge, Lt, Le, Gt, Ge];
        let direction = *direction.get(usize::try_from(predicate).ok()?)?;
        match predicate {
            0 | 1 => self.compared(direction, [x, y]),
            _ if self.dtype(x).is_bool() => None,
            2..=5 => self.compared(direction, [x, y]),
            _ => {
                let of = self.as_unsigned(&[x, y])?;
                self.compared(direction, of)
            }
        }
    }
}

/// The unsigned integers of the same width.
fn unsigned(dtype: DType) -> Option<DType> {
    match dtype {
        DType::Int { bits, .. } if !dtype.is_bool() => Some(DType::Int {
            bits,
            sign: Sign::Unsigned,
        }),
        _ => None,
    }
}
