//! Element-wise operations on types other than those of [`optc_kernels::element`]: integers as `i64` and floats as `f64`, a part
//! at a time. Conversions between all types are included.
//!
//! `add` of two `si64` values of 1000 elements loads 512 elements of each as `i64`, adds them, stores 512 results, then
//! handles the remaining 488.

use crate::access::Access;
use crate::error::StepError;
use crate::memory::{In, Slot};
use crate::nest::Nest;
use crate::ops::elementwise::code;
use crate::ops::kernel::{Call, Kernel, Site};
use half::{bf16, f16};
use optc_ir::DType;
use optc_ir::types::Sign;
use optc_kernels::links::{Code, compared, two};
use optc_kernels::vectorized::vectorized;

/// Elements that are computed at once.
const PART: usize = 512;

/// One operation of one or two operands.
#[derive(Debug)]
pub(crate) struct Wide {
    code: Code,
    /// The types of the operands, then of the result.
    types: Vec<Type>,
    /// Loops over the result, then the operands.
    nest: Nest<3>,
}

/// The type of the elements in a buffer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Type {
    F64,
    F32,
    F16,
    BF16,
    I8,
    I16,
    I32,
    I64,
    U8,
    U16,
    U32,
}

/// A part of the elements, as numbers.
#[derive(Debug)]
enum Numbers {
    Whole([i64; PART]),
    Float([f64; PART]),
}

/// Evaluates an expression with the Rust type of elements.
macro_rules! with_cell {
    ($ty:expr, $cell:ident => $work:expr) => {
        match $ty {
            Type::F64 => with_cell!(f64, $cell, $work),
            Type::F32 => with_cell!(f32, $cell, $work),
            Type::F16 => with_cell!(f16, $cell, $work),
            Type::BF16 => with_cell!(bf16, $cell, $work),
            Type::I8 => with_cell!(i8, $cell, $work),
            Type::I16 => with_cell!(i16, $cell, $work),
            Type::I32 => with_cell!(i32, $cell, $work),
            Type::I64 => with_cell!(i64, $cell, $work),
            Type::U8 => with_cell!(u8, $cell, $work),
            Type::U16 => with_cell!(u16, $cell, $work),
            Type::U32 => with_cell!(u32, $cell, $work),
        }
    };
    ($own:ty, $cell:ident, $work:expr) => {{
        type $cell = $own;
        $work
    }};
}

/// An element of a buffer.
trait Cell: bytemuck::Pod {
    fn whole(self) -> i64;
    fn float(self) -> f64;
    /// Wraps an integer, or rounds it to the nearest float.
    fn of_whole(x: i64) -> Self;
    /// Rounds to the nearest float, or truncates to an integer that saturates; 0 for NaN.
    fn of_float(x: f64) -> Self;
}

macro_rules! cells {
    ($($cell:ty: $whole:expr, $float:expr, $of_whole:expr, $of_float:expr;)*) => {$(
        impl Cell for $cell {
            #[inline(always)]
            fn whole(self) -> i64 {
                $whole(self)
            }
            #[inline(always)]
            fn float(self) -> f64 {
                $float(self)
            }
            #[inline(always)]
            fn of_whole(x: i64) -> $cell {
                $of_whole(x)
            }
            #[inline(always)]
            fn of_float(x: f64) -> $cell {
                $of_float(x)
            }
        }
    )*};
}

cells! {
    f64: |x: f64| x as i64, |x| x, |x| x as f64, |x| x;
    f32: |x: f32| x as i64, f64::from, |x| x as f32, |x: f64| x as f32;
    f16: |x: f16| x.to_f64() as i64, f16::to_f64, |x| f16::from_f64(x as f64), f16::from_f64;
    bf16: |x: bf16| x.to_f64() as i64, bf16::to_f64, |x| bf16::from_f64(x as f64), bf16::from_f64;
    i8: i64::from, f64::from, |x| x as i8, |x: f64| x as i8;
    i16: i64::from, f64::from, |x| x as i16, |x: f64| x as i16;
    i32: i64::from, f64::from, |x| x as i32, |x: f64| x as i32;
    i64: |x| x, |x: i64| x as f64, |x| x, |x: f64| x as i64;
    u8: i64::from, f64::from, |x| x as u8, |x: f64| x as u8;
    u16: i64::from, f64::from, |x| x as u16, |x: f64| x as u16;
    u32: i64::from, f64::from, |x| x as u32, |x: f64| x as u32;
}

impl Type {
    /// The type of elements whose width is that of their type, and of booleans, which are bytes of 0 or 1.
    fn of(slot: &Slot) -> Option<Type> {
        if slot.is_truth() {
            return (slot.width == 8).then_some(Type::U8);
        }
        let ty = match slot.dtype {
            DType::F64 => Type::F64,
            DType::F32 => Type::F32,
            DType::F16 => Type::F16,
            DType::BF16 => Type::BF16,
            DType::Int { bits, sign } => match (bits, sign != Sign::Unsigned) {
                (8, true) => Type::I8,
                (16, true) => Type::I16,
                (32, true) => Type::I32,
                (64, true) => Type::I64,
                (8, false) => Type::U8,
                (16, false) => Type::U16,
                (32, false) => Type::U32,
                _ => return None,
            },
            DType::Mini(_) | DType::Complex64 | DType::Complex128 => return None,
        };
        (slot.dtype.bits() == slot.width).then_some(ty)
    }

    fn is_float(self) -> bool {
        matches!(self, Type::F64 | Type::F32 | Type::F16 | Type::BF16)
    }

    /// Bytes of an element.
    fn size(self) -> usize {
        with_cell!(self, C => size_of::<C>())
    }

    /// Room for a part of elements as numbers.
    fn numbers(self) -> Numbers {
        match self.is_float() {
            true => Numbers::Float([0.0; PART]),
            false => Numbers::Whole([0; PART]),
        }
    }
}

impl Wide {
    pub(crate) fn of(site: &Site<'_>) -> Option<Wide> {
        let data = site.data();
        let all = site.all()?;
        let (target, operands) = all.split_last()?;
        if data.results.len() != 1 || !(1..=2).contains(&operands.len()) {
            return None;
        }
        let types: Vec<Type> = all
            .iter()
            .map(|slot| Type::of(slot))
            .collect::<Option<_>>()?;
        let code = code(site)?;
        let own = |of: &Type| match code {
            Code::Cast | Code::Truth | Code::Compare(_) | Code::IsNan | Code::IsInf => {
                *of == types[0]
            }
            _ => operands.iter().all(|slot| slot.dtype == target.dtype),
        };
        if !computes(code, types[0].is_float()) || !types[..operands.len()].iter().all(own) {
            return None;
        }
        let shape = target.access.shape();
        let broadcast: Vec<Access> = operands
            .iter()
            .map(|slot| slot.access.broadcast(&shape))
            .collect();
        let last = broadcast.last()?;
        Some(Wide {
            code,
            types,
            nest: Nest::of([&target.access, broadcast.first()?, last])?,
        })
    }

    /// Computes some elements of the innermost loop.
    fn part(
        &self,
        (at, count): ([i64; 3], usize),
        ins: &[In<'_>],
        out: &mut [u8],
        numbers: &mut [Numbers; 3],
    ) -> Result<(), StepError> {
        let (_, steps) = self.nest.inner;
        let [a, b, made] = numbers;
        for (k, (operand, to)) in ins.iter().zip([&mut *a, &mut *b]).enumerate() {
            let (source, port) = operand.source(k, out);
            with_cell!(self.types[k], C => {
                fetch::<C>(cast(source)?, (at[port], steps[port]), count, to);
            });
        }
        compute(self.code, (a, b), made, count);
        let target = self.types[ins.len()];
        with_cell!(target, C => {
            let out = bytemuck::try_cast_slice_mut::<u8, C>(out)?;
            store(made, count, out, (at[0], steps[0]));
        });
        Ok(())
    }
}

fn cast<C: Cell>(bytes: &[u8]) -> Result<&[C], StepError> {
    Ok(bytemuck::try_cast_slice(bytes)?)
}

/// Returns whether an operation has a loop for integers or floats.
fn computes(code: Code, float: bool) -> bool {
    match code {
        Code::Same | Code::Cast | Code::Truth | Code::Compare(_) => true,
        Code::Add | Code::Sub | Code::Mul | Code::Div | Code::Max | Code::Min => true,
        Code::Neg | Code::Abs | Code::Relu => true,
        Code::And | Code::Or | Code::Xor | Code::Not | Code::Flip => !float,
        Code::Sqrt | Code::Floor | Code::Ceil | Code::Even | Code::Reciprocal => float,
        Code::IsNan | Code::IsInf => float,
        _ => false,
    }
}

/// Loads elements as contiguous numbers.
fn fetch<C: Cell>(source: &[C], (from, step): (i64, i64), count: usize, to: &mut Numbers) {
    #[inline(always)]
    fn all<C: Cell, N: Copy>(
        source: &[C],
        (from, step): (i64, i64),
        to: &mut [N],
        number: impl Fn(C) -> N,
    ) {
        match step {
            0 => to.fill(number(source[from as usize])),
            1 => {
                let source = &source[from as usize..from as usize + to.len()];
                to.iter_mut()
                    .zip(source)
                    .for_each(|(to, x)| *to = number(*x));
            }
            _ => {
                for (i, to) in to.iter_mut().enumerate() {
                    *to = number(source[(from + step * i as i64) as usize]);
                }
            }
        }
    }
    vectorized(
        #[inline(always)]
        || match to {
            Numbers::Whole(to) => all(source, (from, step), &mut to[..count], C::whole),
            Numbers::Float(to) => all(source, (from, step), &mut to[..count], C::float),
        },
    );
}

/// Stores numbers as elements.
fn store<C: Cell>(found: &Numbers, count: usize, out: &mut [C], (at, step): (i64, i64)) {
    #[inline(always)]
    fn all<C: Cell, N: Copy>(
        found: &[N],
        out: &mut [C],
        (at, step): (i64, i64),
        element: impl Fn(N) -> C,
    ) {
        if step == 1 {
            let out = &mut out[at as usize..at as usize + found.len()];
            out.iter_mut()
                .zip(found)
                .for_each(|(to, x)| *to = element(*x));
            return;
        }
        for (i, x) in found.iter().enumerate() {
            out[(at + step * i as i64) as usize] = element(*x);
        }
    }
    vectorized(
        #[inline(always)]
        || match found {
            Numbers::Whole(found) => all(&found[..count], out, (at, step), C::of_whole),
            Numbers::Float(found) => all(&found[..count], out, (at, step), C::of_float),
        },
    );
}

/// Computes one operation on numbers.
fn compute(code: Code, (a, b): (&Numbers, &Numbers), made: &mut Numbers, count: usize) {
    vectorized(
        #[inline(always)]
        || match (a, b, made) {
            (Numbers::Whole(a), Numbers::Whole(b), Numbers::Whole(to)) => {
                wholes(code, &a[..count], &b[..count], &mut to[..count]);
            }
            (Numbers::Float(a), Numbers::Float(b), Numbers::Float(to)) => {
                floats(code, &a[..count], &b[..count], &mut to[..count]);
            }
            (Numbers::Float(a), Numbers::Float(b), Numbers::Whole(to)) => {
                tests(code, &a[..count], &b[..count], &mut to[..count]);
            }
            _ => {}
        },
    );
}

#[inline(always)]
fn wholes(code: Code, a: &[i64], b: &[i64], to: &mut [i64]) {
    match code {
        Code::Compare(comparison) => compared(comparison, a, b, to),
        Code::Truth => two(a, b, to, |a, _| i64::from(a != 0)),
        Code::Add => two(a, b, to, i64::wrapping_add),
        Code::Sub => two(a, b, to, i64::wrapping_sub),
        Code::Mul => two(a, b, to, i64::wrapping_mul),
        Code::Div => two(a, b, to, |a, b| if b == 0 { 0 } else { a.wrapping_div(b) }),
        Code::Max => two(a, b, to, i64::max),
        Code::Min => two(a, b, to, i64::min),
        Code::Neg => two(a, b, to, |a, _| a.wrapping_neg()),
        Code::Abs => two(a, b, to, |a, _| a.wrapping_abs()),
        Code::Relu => two(a, b, to, |a, _| a.max(0)),
        Code::And => two(a, b, to, |a, b| a & b),
        Code::Or => two(a, b, to, |a, b| a | b),
        Code::Xor => two(a, b, to, |a, b| a ^ b),
        Code::Not => two(a, b, to, |a, _| !a),
        Code::Flip => two(a, b, to, |a, _| a ^ 1),
        _ => to.copy_from_slice(a),
    }
}

#[inline(always)]
fn floats(code: Code, a: &[f64], b: &[f64], to: &mut [f64]) {
    match code {
        Code::Add => two(a, b, to, |a, b| a + b),
        Code::Sub => two(a, b, to, |a, b| a - b),
        Code::Mul => two(a, b, to, |a, b| a * b),
        Code::Div => two(a, b, to, |a, b| a / b),
        Code::Max => two(
            a,
            b,
            to,
            |a: f64, b| if a.is_nan() || b < a { a } else { b },
        ),
        Code::Min => two(
            a,
            b,
            to,
            |a: f64, b| if a.is_nan() || a < b { a } else { b },
        ),
        Code::Neg => two(a, b, to, |a, _| -a),
        Code::Abs => two(a, b, to, |a, _| a.abs()),
        Code::Relu => two(a, b, to, |a, _| if a < 0.0 { 0.0 } else { a }),
        Code::Sqrt => two(a, b, to, |a, _| a.sqrt()),
        Code::Floor => two(a, b, to, |a, _| a.floor()),
        Code::Ceil => two(a, b, to, |a, _| a.ceil()),
        Code::Even => two(a, b, to, |a, _| a.round_ties_even()),
        Code::Reciprocal => two(a, b, to, |a, _| 1.0 / a),
        _ => to.copy_from_slice(a),
    }
}

/// Computes booleans from floats.
#[inline(always)]
fn tests(code: Code, a: &[f64], b: &[f64], to: &mut [i64]) {
    match code {
        Code::Compare(comparison) => compared(comparison, a, b, to),
        Code::IsNan => two(a, b, to, |a, _| i64::from(a.is_nan())),
        Code::IsInf => two(a, b, to, |a, _| i64::from(a.is_infinite())),
        _ => two(a, b, to, |a, _| i64::from(a != 0.0)),
    }
}

impl Kernel for Wide {
    fn name(&self) -> &'static str {
        "wide"
    }

    fn run(&self, Call { ins, out, .. }: Call<'_>) -> Result<(), StepError> {
        let Some((&to, from)) = self.types.split_last() else {
            return Err(StepError::NoTypes);
        };
        if ins.len() != from.len() {
            return Err(StepError::OperandCount);
        }
        let size = |k: usize| k.checked_sub(1).map_or(to, |k| from[k]).size();
        self.nest.check(ins, out, size)?;
        // Conversions keep the numbers that they load; tests give integers.
        let tests = matches!(
            self.code,
            Code::Compare(_) | Code::Truth | Code::IsNan | Code::IsInf
        );
        let own = || from[0].numbers();
        let made = if tests { Type::I64.numbers() } else { own() };
        let mut numbers = [own(), own(), made];
        let (n, steps) = self.nest.inner;
        let mut done = Ok(());
        self.nest.each(|at| {
            for first in (0..n).step_by(PART) {
                let count = PART.min(n - first);
                let at = std::array::from_fn(|k| at[k] + steps[k] * first as i64);
                if done.is_ok() {
                    done = self.part((at, count), ins, out, &mut numbers);
                }
            }
        });
        done
    }
}
