//! Evaluation of expressions of element-wise operations: floats as `f64`, rounded once at the end; integers as `i128`,
//! wrapped at the end.

use crate::op::eval::Call;
use crate::op::expression::{Binary, Direction, Expr, ExprBuilder, Unary};
use crate::op::iteration_domain::Combine;
use crate::tensor::{EvalError, Offsets, Tensor};
use crate::types::DType;
use std::cmp::Ordering;
use std::convert::Infallible;
use std::f64::consts::PI;
use std::rc::Rc;

/// Numbers: one for each element of the result, or one for all of them.
#[derive(Clone, Debug)]
pub(crate) enum Numbers {
    Floats(Rc<[f64]>),
    Integers(Rc<[i128]>),
}

impl Call<'_> {
    /// The first result, computed by an expression of the operands, which broadcast to it.
    ///
    /// # Errors
    /// The expression reads an operand that is missing.
    pub fn elementwise(&self, expr: &Expr) -> Result<Vec<Tensor>, EvalError> {
        let shape = self.shape();
        // An expression of a single operand only moves elements, so they may be of any type.
        if let Expr::Operand(i) = expr {
            let x = self.input(*i);
            let at = Offsets::broadcast(&x.shape, &shape);
            return Ok(vec![x.picked(shape, at)]);
        }
        let inputs = self.inputs.iter();
        let operands: Vec<_> = inputs.map(|x| (Numbers::of(x, &shape), x.dtype)).collect();
        let Ok(found) = expr.build(&operands, &mut Evaluation);
        let count = shape.iter().product();
        match found {
            Some(Numbers::Floats(found)) => Ok(self.floats(every(&found, count))),
            Some(Numbers::Integers(found)) => Ok(self.integers(every(&found, count))),
            None => Err(EvalError::new(
                "an expression reads an operand that is missing",
            )),
        }
    }
}

impl Expr {
    /// The expression of floats; `None` if it reads an operand that is missing.
    pub(crate) fn evaluated(&self, operands: &[Numbers]) -> Option<Numbers> {
        let operands: Vec<_> = operands.iter().map(|x| (x.clone(), DType::F64)).collect();
        let Ok(found) = self.build(&operands, &mut Evaluation);
        found
    }
}

impl Combine {
    /// The combination of two numbers.
    pub(crate) fn of_floats(self, a: f64, b: f64) -> f64 {
        float_operation(self.function()).map_or(f64::NAN, |f| f(a, b))
    }
}

impl Numbers {
    pub(crate) fn floats(x: Vec<f64>) -> Numbers {
        Numbers::Floats(x.into())
    }

    /// The floats, one for each of `count` elements; `None` of integers.
    pub(crate) fn all(&self, count: usize) -> Option<Vec<f64>> {
        match self {
            Numbers::Floats(x) => Some(every(x, count).collect()),
            Numbers::Integers(_) => None,
        }
    }

    /// The elements of a tensor that broadcasts to a shape.
    fn of(x: &Tensor, shape: &[usize]) -> Numbers {
        let at = Offsets::broadcast(&x.shape, shape);
        match (x.dtype.is_float(), x.shape == shape) {
            (true, true) => Numbers::Floats(x.to_f64().into()),
            (true, false) => Numbers::Floats(at.picked(&x.to_f64()).into()),
            (false, _) => Numbers::Integers(at.map(|i| x.i128_at(i)).collect()),
        }
    }
}

/// All numbers, or `count` times the only one.
fn every<T: Copy>(numbers: &[T], count: usize) -> impl Iterator<Item = T> {
    let (step, count) = match numbers.len() {
        1 => (0, count),
        n => (1, n),
    };
    (0..count).map(move |i| numbers[i * step])
}

fn one<T: Copy, U>(x: &[T], f: impl Fn(T) -> U) -> Rc<[U]> {
    x.iter().map(|&x| f(x)).collect()
}

fn two<T: Copy, U>(a: &[T], b: &[T], f: impl Fn(T, T) -> U) -> Rc<[U]> {
    match (a, b) {
        ([a], b) => b.iter().map(|&b| f(*a, b)).collect(),
        (a, [b]) => a.iter().map(|&a| f(a, *b)).collect(),
        (a, b) => a.iter().zip(b).map(|(&a, &b)| f(a, b)).collect(),
    }
}

fn picked<T: Copy>(cond: &[i128], a: &[T], b: &[T]) -> Rc<[T]> {
    let count = cond.len().max(a.len()).max(b.len());
    let pairs = every(a, count).zip(every(b, count));
    let all = every(cond, count).zip(pairs);
    all.map(|(cond, (a, b))| if cond != 0 { a } else { b })
        .collect()
}

/// The reference semantics of expressions.
struct Evaluation;

type Found = Result<Option<Numbers>, Infallible>;

impl ExprBuilder for Evaluation {
    type Value = Numbers;
    type Error = Infallible;

    fn number(&mut self, x: f64, dtype: DType) -> Found {
        Ok(Some(match dtype.is_float() {
            true => Numbers::Floats([x].into()),
            false => Numbers::Integers([integer(x)].into()),
        }))
    }

    fn unary(&mut self, function: Unary, x: &Numbers, dtype: DType) -> Found {
        Ok(match x {
            Numbers::Floats(x) => float_function(function).map(|f| Numbers::Floats(one(x, f))),
            Numbers::Integers(x) => {
                integer_function(function, dtype).map(|f| Numbers::Integers(one(x, f)))
            }
        })
    }

    fn binary(&mut self, function: Binary, operands: [&Numbers; 2], _: DType) -> Found {
        Ok(match operands {
            [Numbers::Floats(a), Numbers::Floats(b)] => {
                float_operation(function).map(|f| Numbers::Floats(two(a, b, f)))
            }
            [Numbers::Integers(a), Numbers::Integers(b)] => {
                integer_operation(function).map(|f| Numbers::Integers(two(a, b, f)))
            }
            _ => None,
        })
    }

    fn compare(&mut self, direction: Direction, operands: [&Numbers; 2], _: DType) -> Found {
        let holds = |order| i128::from(direction.holds(order));
        let found = match operands {
            [Numbers::Floats(a), Numbers::Floats(b)] => two(a, b, |a, b| holds(a.partial_cmp(&b))),
            [Numbers::Integers(a), Numbers::Integers(b)] => {
                two(a, b, |a, b| holds(Some(a.cmp(&b))))
            }
            _ => return Ok(None),
        };
        Ok(Some(Numbers::Integers(found)))
    }

    fn select(&mut self, operands: [&Numbers; 3], _: DType) -> Found {
        Ok(match operands {
            [
                Numbers::Integers(cond),
                Numbers::Floats(a),
                Numbers::Floats(b),
            ] => Some(Numbers::Floats(picked(cond, a, b))),
            [
                Numbers::Integers(cond),
                Numbers::Integers(a),
                Numbers::Integers(b),
            ] => Some(Numbers::Integers(picked(cond, a, b))),
            _ => None,
        })
    }

    fn cast(&mut self, x: &Numbers, dtype: DType, to: DType) -> Found {
        let from = match x {
            Numbers::Floats(x) => Tensor::from_f64(DType::F64, vec![x.len()], x.iter().copied()),
            Numbers::Integers(x) => Tensor::from_i128(dtype, vec![x.len()], x.iter().copied()),
        };
        Ok(Some(Numbers::of(&from.converted(to), &from.shape)))
    }
}

impl Direction {
    /// Returns whether the comparison holds for two numbers in this order; `None` means that one of them is NaN.
    fn holds(self, order: Option<Ordering>) -> bool {
        match self {
            Direction::Eq => order == Some(Ordering::Equal),
            Direction::Ne => order != Some(Ordering::Equal),
            Direction::Lt => order == Some(Ordering::Less),
            Direction::Le => order.is_some_and(Ordering::is_le),
            Direction::Gt => order == Some(Ordering::Greater),
            Direction::Ge => order.is_some_and(Ordering::is_ge),
        }
    }
}

/// A number as an integer; a number beyond the range saturates.
#[expect(
    clippy::cast_possible_truncation,
    reason = "a number beyond the range saturates"
)]
fn integer(x: f64) -> i128 {
    x as i128
}

/// The function on floats; `None` if the definition of the function is used instead.
fn float_function(function: Unary) -> Option<fn(f64) -> f64> {
    Some(match function {
        Unary::Abs => f64::abs,
        Unary::Acos => f64::acos,
        Unary::Acosh => f64::acosh,
        Unary::Asin => f64::asin,
        Unary::Asinh => f64::asinh,
        Unary::Atan => f64::atan,
        Unary::Atanh => f64::atanh,
        Unary::Cbrt => f64::cbrt,
        Unary::Ceil => f64::ceil,
        Unary::Cos => f64::cos,
        Unary::Cosh => f64::cosh,
        Unary::Erf => erf,
        Unary::Erfc => erfc,
        Unary::Exp => f64::exp,
        Unary::Expm1 => f64::exp_m1,
        Unary::Floor => f64::floor,
        Unary::Log => f64::ln,
        Unary::Log1p => f64::ln_1p,
        Unary::Neg => |x| -x,
        Unary::Round => f64::round_ties_even,
        Unary::Sigmoid => sigmoid,
        Unary::Sin => f64::sin,
        Unary::Sinh => f64::sinh,
        Unary::Sqrt => f64::sqrt,
        Unary::Tan => f64::tan,
        Unary::Tanh => f64::tanh,
        Unary::Not | Unary::Reciprocal | Unary::Rsqrt | Unary::Sign | Unary::Softplus => {
            return None;
        }
    })
}

fn integer_function(function: Unary, dtype: DType) -> Option<fn(i128) -> i128> {
    Some(match function {
        Unary::Abs => i128::wrapping_abs,
        Unary::Neg => i128::wrapping_neg,
        Unary::Not if dtype.is_bool() => |x| i128::from(x == 0),
        Unary::Not => |x| !x,
        _ => return None,
    })
}

fn float_operation(function: Binary) -> Option<fn(f64, f64) -> f64> {
    Some(match function {
        Binary::Add => |a, b| a + b,
        Binary::Sub => |a, b| a - b,
        Binary::Mul => |a, b| a * b,
        Binary::Div => |a, b| a / b,
        Binary::Rem => |a, b| a % b,
        Binary::Pow => f64::powf,
        Binary::Atan2 => f64::atan2,
        Binary::Max => |a, b| if a.is_nan() || b < a { a } else { b },
        Binary::Min => |a, b| if a.is_nan() || a < b { a } else { b },
        _ => return None,
    })
}

fn integer_operation(function: Binary) -> Option<fn(i128, i128) -> i128> {
    Some(match function {
        Binary::Add => i128::wrapping_add,
        Binary::Sub => i128::wrapping_sub,
        Binary::Mul => i128::wrapping_mul,
        Binary::Div => |a, b| a.checked_div(b).unwrap_or(0),
        Binary::Rem => |a, b| a.checked_rem(b).unwrap_or(0),
        Binary::Pow => power,
        Binary::Max => i128::max,
        Binary::Min => i128::min,
        Binary::And => |a, b| a & b,
        Binary::Or => |a, b| a | b,
        Binary::Xor => |a, b| a ^ b,
        Binary::ShiftLeft => |a, by| if (0..64).contains(&by) { a << by } else { 0 },
        Binary::ShiftRight => |a, by| a >> if by < 0 { 127 } else { by.min(127) },
        Binary::Mod | Binary::Atan2 => return None,
    })
}

/// Repeated squaring modulo 2^128; a negative exponent truncates towards 0.
fn power(base: i128, exponent: i128) -> i128 {
    if exponent < 0 {
        return match base {
            1 => 1,
            -1 if exponent % 2 == 0 => 1,
            -1 => -1,
            _ => 0,
        };
    }
    let (mut result, mut square, mut left) = (1i128, base, exponent);
    while 0 < left {
        if left % 2 == 1 {
            result = result.wrapping_mul(square);
        }
        square = square.wrapping_mul(square);
        left /= 2;
    }
    result
}

fn sigmoid(x: f64) -> f64 {
    if x < 0.0 {
        x.exp() / (1.0 + x.exp())
    } else {
        1.0 / (1.0 + (-x).exp())
    }
}

/// The error function, to about 1e-15.
///
/// Below 3 the series `2/sqrt(pi) * exp(-x^2) * sum 2^n x^(2n+1) / (2n+1)!!`, whose terms are all
/// positive; above, the continued fraction of its complement.
fn erf(x: f64) -> f64 {
    let a = x.abs();
    if x.is_nan() || a == 0.0 {
        return x;
    }
    if 6.0 <= a {
        return x.signum();
    }
    if a < 3.0 {
        let scale = (-a * a).exp() / PI.sqrt();
        let (mut term, mut sum, mut n) = (a, a, 1.0);
        while 1e-17 * sum < term {
            term *= 2.0 * a * a / (2.0 * n + 1.0);
            sum += term;
            n += 1.0;
        }
        return (2.0 * scale * sum).copysign(x);
    }
    (1.0 - erfc_above(a)).copysign(x)
}

/// The complement of [`erf`] to 1.
fn erfc(x: f64) -> f64 {
    if 1.5 <= x {
        erfc_above(x)
    } else {
        1.0 - erf(x)
    }
}

/// The complement of [`erf`] to 1 by its continued fraction, which converges fast for numbers that are not small.
fn erfc_above(x: f64) -> f64 {
    let scale = (-x * x).exp() / PI.sqrt();
    let fraction = (1..120)
        .rev()
        .fold(x, |tail, k| x + f64::from(k) / 2.0 / tail);
    scale / fraction
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn integers_between_functions_wrap() {
        // The square of the number is slightly below 2^127, so twice the square does not fit into 128 bits.
        let x = 0xb504_f333_f9de_6484;
        let operands = [(Numbers::Integers([x].into()), DType::SI64)];
        let square = || Expr::A * Expr::A;
        let Ok(found) = (square() + square()).build(&operands, &mut Evaluation);
        let Some(Numbers::Integers(found)) = found else {
            panic!("integers give integers");
        };
        assert_eq!(*found, [(x * x).wrapping_mul(2)]);
    }
}
