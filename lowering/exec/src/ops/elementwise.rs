//! Element-wise operations on `f32` as links of chains.

use crate::access::Access;
use crate::nest::Nest;
use crate::ops::chain::{Chain, Code, From, Link};
use crate::ops::kernel::{Kernel, Site};
use optc_ir::{DType, Operation};
use optc_ops::{
    Abs, Add, Approximate, Ceil, Clamp, Cos, Div, Elu, Erf, Exp, Floor, Gelu, HardSigmoid,
    HardSwish, Identity, LeakyRelu, Log, Max, Min, Mul, Neg, Pow, Prelu, Reciprocal, Relu, Rsqrt,
    Sigmoid, Silu, Sin, Sqrt, Sub, Tanh,
};

/// The kernel of an element-wise operation, if it has one.
pub(crate) fn kernel(site: &Site<'_>) -> Option<Box<dyn Kernel>> {
    let code = code(site)?;
    let all = site.all()?;
    let (target, operands) = all.split_last()?;
    let shape = target.access.shape();
    let operands: Vec<Access> = operands
        .iter()
        .map(|s| s.access.broadcast(&shape))
        .collect();
    let second = operands.len().min(2) - 1;
    let from = [From::Operand(0), From::Operand(second)];
    let chain = Chain::of(&target.access, &operands, vec![Link { code, from }])?;
    Some(Box::new(chain))
}

/// What an operation does with its elements, if they and it are known.
pub(crate) fn code(site: &Site<'_>) -> Option<Code> {
    let data = site.data();
    let known = |slot: &&crate::memory::Slot| slot.dtype == DType::F32 && slot.width == 32;
    if data.results.len() != 1 || !site.all()?.iter().all(known) {
        return None;
    }
    match data.operands.len() {
        1 => unary(site),
        2 => binary(&data.name),
        _ => None,
    }
}

fn unary(site: &Site<'_>) -> Option<Code> {
    let op = site.func.op_ref(site.op);
    Some(match &*site.data().name {
        Identity::NAME => Code::Same,
        Neg::NAME => Code::Neg,
        Abs::NAME => Code::Abs,
        Exp::NAME => Code::Exp,
        Log::NAME => Code::Log,
        Sqrt::NAME => Code::Sqrt,
        Rsqrt::NAME => Code::Rsqrt,
        Reciprocal::NAME => Code::Reciprocal,
        Erf::NAME => Code::Erf,
        Tanh::NAME => Code::Tanh,
        Sigmoid::NAME => Code::Sigmoid,
        Silu::NAME => Code::Silu,
        Relu::NAME => Code::Relu,
        Sin::NAME => Code::Sin,
        Cos::NAME => Code::Cos,
        Floor::NAME => Code::Floor,
        Ceil::NAME => Code::Ceil,
        HardSwish::NAME => Code::HardSwish,
        Gelu::NAME => match Gelu::of(&op).ok()?.approximate {
            Approximate::None => Code::Gelu,
            Approximate::Tanh => Code::GeluTanh,
        },
        Clamp::NAME => {
            let clamp = Clamp::of(&op).ok()?;
            let (low, high) = (clamp.min.unwrap_or(f64::NEG_INFINITY), clamp.max);
            Code::Clamp(low as f32, high.unwrap_or(f64::INFINITY) as f32)
        }
        LeakyRelu::NAME => Code::LeakyRelu(LeakyRelu::of(&op).ok()?.alpha as f32),
        Elu::NAME => Code::Elu(Elu::of(&op).ok()?.alpha as f32),
        HardSigmoid::NAME => {
            let hard = HardSigmoid::of(&op).ok()?;
            Code::HardSigmoid(hard.alpha as f32, hard.beta as f32)
        }
        _ => return None,
    })
}

fn binary(name: &str) -> Option<Code> {
    Some(match name {
        Add::NAME => Code::Add,
        Sub::NAME => Code::Sub,
        Mul::NAME => Code::Mul,
        Div::NAME => Code::Div,
        Pow::NAME => Code::Pow,
        Max::NAME => Code::Max,
        Min::NAME => Code::Min,
        Prelu::NAME => Code::Prelu,
        _ => return None,
    })
}

/// Sets all elements of a result to a value that broadcasts to it: a bias before products are summed.
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
            return Err("an element lies outside of its buffer".to_owned());
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
