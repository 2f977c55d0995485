//! Element-wise operations on `f32`, broadcast operands in any order.

use crate::access::Access;
use crate::memory::In;
use crate::nest::Nest;
use crate::ops::kernel::{Kernel, Slots, floats, floats_mut};
use optc_ir::{DType, Func, Op, Operation};
use optc_ops::{
    Abs, Add, Ceil, Cos, Div, Erf, Exp, Floor, Gelu, HardSwish, Log, Max, Min, Mul, Neg, Pow,
    Reciprocal, Relu, Rsqrt, Sigmoid, Silu, Sin, Sqrt, Sub, Tanh,
};
use std::fmt;

/// The kernel of an element-wise operation, if it has one.
pub(crate) fn kernel<'a>(func: &Func, op: Op, slots: &Slots<'a>) -> Option<Box<dyn Kernel>> {
    let data = &func.ops[op];
    let all = data.operands.iter().chain(&data.results);
    for &value in all {
        let slot = slots(value)?;
        if slot.dtype != DType::F32 || slot.width != 32 {
            return None;
        }
    }
    let target = &slots(*data.results.first()?)?.access;
    let shape = target.shape();
    let source = |i: usize| Some(slots(*data.operands.get(i)?)?.access.broadcast(&shape));
    match data.operands.len() {
        1 => unary(&data.name, Nest::of([target, &source(0)?])?, func, op),
        2 => binary(&data.name, Nest::of([target, &source(0)?, &source(1)?])?),
        _ => None,
    }
}

fn unary(name: &str, nest: Nest<2>, func: &Func, op: Op) -> Option<Box<dyn Kernel>> {
    fn boxed(nest: Nest<2>, f: impl Fn(f32) -> f32 + 'static) -> Option<Box<dyn Kernel>> {
        Some(Box::new(Unary { nest, f }))
    }
    match name {
        Neg::NAME => boxed(nest, |x| -x),
        Abs::NAME => boxed(nest, f32::abs),
        Exp::NAME => boxed(nest, f32::exp),
        Log::NAME => boxed(nest, f32::ln),
        Sqrt::NAME => boxed(nest, f32::sqrt),
        Rsqrt::NAME => boxed(nest, |x| 1.0 / x.sqrt()),
        Reciprocal::NAME => boxed(nest, |x| 1.0 / x),
        Erf::NAME => boxed(nest, libm::erff),
        Tanh::NAME => boxed(nest, f32::tanh),
        Sigmoid::NAME => boxed(nest, sigmoid),
        Silu::NAME => boxed(nest, |x| x * sigmoid(x)),
        Relu::NAME => boxed(nest, |x| if x < 0.0 { 0.0 } else { x }),
        Sin::NAME => boxed(nest, f32::sin),
        Cos::NAME => boxed(nest, f32::cos),
        Floor::NAME => boxed(nest, f32::floor),
        Ceil::NAME => boxed(nest, f32::ceil),
        HardSwish::NAME => boxed(nest, |x| x * (x / 6.0 + 0.5).clamp(0.0, 1.0)),
        Gelu::NAME => {
            let of = func.op_ref(op);
            let plain = of.props.is_empty();
            plain.then(|| {
                boxed(nest, |x| {
                    0.5 * x * (1.0 + libm::erff(x * std::f32::consts::FRAC_1_SQRT_2))
                })
            })?
        }
        _ => None,
    }
}

fn binary(name: &str, nest: Nest<3>) -> Option<Box<dyn Kernel>> {
    fn boxed(nest: Nest<3>, f: impl Fn(f32, f32) -> f32 + 'static) -> Option<Box<dyn Kernel>> {
        Some(Box::new(Binary { nest, f }))
    }
    match name {
        Add::NAME => boxed(nest, |a, b| a + b),
        Sub::NAME => boxed(nest, |a, b| a - b),
        Mul::NAME => boxed(nest, |a, b| a * b),
        Div::NAME => boxed(nest, |a, b| a / b),
        Pow::NAME => boxed(nest, |a, b| if b == 2.0 { a * a } else { a.powf(b) }),
        Max::NAME => boxed(nest, |a, b| if a.is_nan() || b < a { a } else { b }),
        Min::NAME => boxed(nest, |a, b| if a.is_nan() || a < b { a } else { b }),
        _ => None,
    }
}

fn sigmoid(x: f32) -> f32 {
    1.0 / (1.0 + (-x).exp())
}

struct Unary<F> {
    nest: Nest<2>,
    f: F,
}

impl<F> fmt::Debug for Unary<F> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Unary").finish_non_exhaustive()
    }
}

impl<F: Fn(f32) -> f32> Kernel for Unary<F> {
    fn name(&self) -> &'static str {
        "elementwise"
    }

    fn run(&self, _: usize, ins: &[In<'_>], out: &mut [u8]) -> Result<(), String> {
        let out = floats_mut(out)?;
        let (n, [to, from]) = self.nest.inner;
        let f = &self.f;
        if !self.nest.fits(0, out.len()) {
            return Err(OUTSIDE.to_owned());
        }
        match ins {
            [In::Same] => self.nest.each(|[at, _]| {
                let at = at as usize;
                for i in 0..n {
                    let x = &mut out[at + i * to as usize];
                    *x = f(*x);
                }
            }),
            [In::Bytes(bytes)] => {
                let source = floats(bytes)?;
                if !self.nest.fits(1, source.len()) {
                    return Err(OUTSIDE.to_owned());
                }
                self.nest.each(|[at, read]| {
                    let (at, read) = (at as usize, read as usize);
                    if (to, from) == (1, 1) {
                        let pairs = out[at..at + n].iter_mut().zip(&source[read..read + n]);
                        pairs.for_each(|(y, &x)| *y = f(x));
                        return;
                    }
                    for i in 0..n {
                        let x = source[(read as i64 + from * i as i64) as usize];
                        out[at + i * to as usize] = f(x);
                    }
                });
            }
            _ => return Err("it has another number of operands".to_owned()),
        }
        Ok(())
    }
}

/// The numbers of an operand that is not the result's own bytes.
fn beside<'a>(operand: &In<'a>) -> Result<Option<&'a [f32]>, String> {
    match operand {
        In::Bytes(bytes) => floats(bytes).map(Some),
        In::Same => Ok(None),
    }
}

const OUTSIDE: &str = "an element lies outside of its buffer";

struct Binary<F> {
    nest: Nest<3>,
    f: F,
}

impl<F> fmt::Debug for Binary<F> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Binary").finish_non_exhaustive()
    }
}

impl<F: Fn(f32, f32) -> f32> Kernel for Binary<F> {
    fn name(&self) -> &'static str {
        "elementwise"
    }

    fn run(&self, _: usize, ins: &[In<'_>], out: &mut [u8]) -> Result<(), String> {
        let out = floats_mut(out)?;
        let [a, b] = ins else {
            return Err("it has another number of operands".to_owned());
        };
        let (a, b) = (beside(a)?, beside(b)?);
        let fits = |k: usize, v: Option<&[f32]>| v.is_none_or(|v| self.nest.fits(k, v.len()));
        if !self.nest.fits(0, out.len()) || !fits(1, a) || !fits(2, b) {
            return Err(OUTSIDE.to_owned());
        }
        let (n, strides) = self.nest.inner;
        let f = &self.f;
        self.nest.each(|[at, x, y]| {
            let (at, x, y) = (at as usize, x as usize, y as usize);
            match (strides, a, b) {
                ([1, 1, 1], Some(a), Some(b)) => {
                    let both = a[x..x + n].iter().zip(&b[y..y + n]);
                    out[at..at + n]
                        .iter_mut()
                        .zip(both)
                        .for_each(|(o, (&a, &b))| *o = f(a, b));
                }
                ([1, 1, 0], Some(a), Some(b)) => {
                    let b = b[y];
                    let pairs = out[at..at + n].iter_mut().zip(&a[x..x + n]);
                    pairs.for_each(|(o, &a)| *o = f(a, b));
                }
                ([1, 0, 1], Some(a), Some(b)) => {
                    let a = a[x];
                    let pairs = out[at..at + n].iter_mut().zip(&b[y..y + n]);
                    pairs.for_each(|(o, &b)| *o = f(a, b));
                }
                ([1, 1, 1], None, Some(b)) => {
                    let pairs = out[at..at + n].iter_mut().zip(&b[y..y + n]);
                    pairs.for_each(|(o, &b)| *o = f(*o, b));
                }
                ([1, 1, 1], Some(a), None) => {
                    let pairs = out[at..at + n].iter_mut().zip(&a[x..x + n]);
                    pairs.for_each(|(o, &a)| *o = f(a, *o));
                }
                ([1, 1, 0], None, Some(b)) => {
                    let b = b[y];
                    out[at..at + n].iter_mut().for_each(|o| *o = f(*o, b));
                }
                _ => {
                    let element =
                        |v: Option<&[f32]>, from: usize, k: usize, i: usize, own: f32| match v {
                            Some(v) => v[(from as i64 + strides[k] * i as i64) as usize],
                            None => own,
                        };
                    for i in 0..n {
                        let to = at + i * strides[0] as usize;
                        let own = out[to];
                        out[to] = f(element(a, x, 1, i, own), element(b, y, 2, i, own));
                    }
                }
            }
        });
        Ok(())
    }
}

/// Adds a value to all elements of a result that it broadcasts to: a bias before products are summed.
#[derive(Debug)]
pub(crate) struct Fill {
    nest: Nest<2>,
}

impl Fill {
    pub(crate) fn of(target: &Access, source: &Access) -> Option<Fill> {
        let nest = Nest::of([target, source])?;
        Some(Fill { nest })
    }

    pub(crate) fn run(&self, source: &[f32], out: &mut [f32]) -> Result<(), String> {
        if !self.nest.fits(0, out.len()) || !self.nest.fits(1, source.len()) {
            return Err(OUTSIDE.to_owned());
        }
        let (n, [to, from]) = self.nest.inner;
        self.nest.each(|[at, read]| {
            for i in 0..n {
                out[at as usize + i * to as usize] = source[(read + from * i as i64) as usize];
            }
        });
        Ok(())
    }
}
