//! Element-wise operations as links of chains.

use crate::access::Access;
use crate::element::Kind;
use crate::moved::Moved;
use crate::nest::Nest;
use crate::ops::chain::Chain;
use crate::ops::copy::copy_at;
use crate::ops::kernel::{Kernel, Site};
use crate::ops::links::{ChainOp, Code, From, of_integers, only_of_integers};
use optc_ir::Operation;
use optc_ops::{
    Abs, Add, And, Approximate, BitAnd, BitOr, BitXor, Cast, Ceil, Clamp, Compare, Cos, Dequantize,
    Div, Elu, Erf, Exp, Floor, Gelu, HardSigmoid, HardSwish, Identity, IsInf, IsNan, LeakyRelu,
    Log, Max, Min, Mul, Neg, Not, Or, Pow, Prelu, Quantize, Reciprocal, Relu, Round, Rsqrt,
    Sigmoid, Silu, Sin, Sqrt, Sub, Tanh, Xor,
};

/// One or several links that an operation is: each takes what the one before gives, the first one the first operand.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Piece {
    pub(crate) code: Code,
    /// The type of its result.
    pub(crate) kind: Kind,
    /// The operand of the operation that it takes besides; none if it takes nothing else.
    pub(crate) second: Option<usize>,
}

/// The kernel of an element-wise operation, if it has one.
pub(crate) fn kernel(site: &Site<'_>) -> Option<Box<dyn Kernel>> {
    let pieces = pieces(site)?;
    let all = site.all()?;
    let (target, slots) = all.split_last()?;
    let shape = target.access.shape();
    let mut operands = Vec::with_capacity(slots.len());
    for slot in slots {
        operands.push((slot.access.broadcast(&shape), slot.cells()?));
    }
    let chain = Chain::of(&target.access, &operands, links(&pieces))?;
    Some(Box::new(chain))
}

/// The links of an operation by itself.
pub(crate) fn links(pieces: &[Piece]) -> Vec<ChainOp> {
    let mut links: Vec<ChainOp> = Vec::with_capacity(pieces.len());
    for piece in pieces {
        let before = links.len().checked_sub(1);
        let first = before.map_or(From::Operand(0), From::Code);
        links.push(ChainOp {
            code: piece.code,
            kind: piece.kind,
            from: [first, piece.second.map_or(first, From::Operand)],
        });
    }
    links
}

/// What an operation does with its elements, if they and it are known.
pub(crate) fn pieces(site: &Site<'_>) -> Option<Vec<Piece>> {
    let data = site.data();
    let all = site.all()?;
    let kinds: Option<Vec<Kind>> = all.iter().map(|slot| slot.cells()).collect();
    let kinds = kinds?;
    let (&kind, operands) = kinds.split_last()?;
    let (to, from) = all.split_last()?;
    if data.results.len() != 1 {
        return None;
    }
    let truths = from.iter().filter(|slot| slot.is_truth()).count();
    match &*data.name {
        Cast::NAME => {
            let code = match to.is_truth() && truths == 0 {
                true => Code::Truth,
                false => Code::Cast,
            };
            return Some(vec![Piece {
                code,
                kind,
                second: None,
            }]);
        }
        Quantize::NAME | Dequantize::NAME => return scaled(site, operands, kind),
        Compare::NAME => {
            let [a, b] = operands else { return None };
            let direction = Compare::of(&site.func.op_ref(site.op)).ok()?.direction;
            return (a == b).then(|| {
                vec![Piece {
                    code: Code::Compare(direction),
                    kind,
                    second: Some(1),
                }]
            });
        }
        _ => {}
    }
    let (code, second) = match operands.len() {
        1 => (unary(site)?, None),
        2 => (binary(&data.name)?, Some(1)),
        _ => return None,
    };
    let code = match (truths == from.len(), code) {
        (true, code) => of_truths(code)?,
        (false, code) => code,
    };
    let tests = matches!(code, Code::IsNan | Code::IsInf);
    if !tests && operands.iter().any(|&own| own != kind) {
        return None;
    }
    let known = match operands[0].is_float() {
        true => !only_of_integers(code),
        false => of_integers(code),
    };
    known.then(|| vec![Piece { code, kind, second }])
}

/// The operation on bytes that are 0 or 1.
pub(crate) fn of_truths(code: Code) -> Option<Code> {
    Some(match code {
        Code::Add | Code::Or | Code::Max => Code::Or,
        Code::Mul | Code::And | Code::Min => Code::And,
        Code::Not => Code::Flip,
        Code::Xor | Code::Same => code,
        _ => return None,
    })
}

/// Integers from floats and back, by one scale or one for each index of the last dimension.
fn scaled(site: &Site<'_>, operands: &[Kind], kind: Kind) -> Option<Vec<Piece>> {
    let op = site.func.op_ref(site.op);
    let quantizes = &*site.data().name == Quantize::NAME;
    let along = match quantizes {
        true => Quantize::of(&op).ok()?.along(&op).ok()?,
        false => Dequantize::of(&op).ok()?.along(&op).ok()?,
    };
    let rank = op.operand(0).ok()?.rank();
    if along.is_some_and(|axis| axis + 1 != rank) {
        return None;
    }
    let zero = (operands.len() == 3).then_some(2);
    let narrow = |kind: Kind| matches!(kind, Kind::I8 | Kind::U8);
    let piece = |code: Code, kind: Kind, second: Option<usize>| Piece { code, kind, second };
    if quantizes {
        let code = zero.map_or(Code::Round, |_| Code::RoundPlus);
        let fits = operands[0].is_float() && operands.get(1)?.is_float() && narrow(kind);
        return fits.then(|| {
            vec![
                piece(Code::Div, Kind::F32, Some(1)),
                piece(code, kind, zero),
            ]
        });
    }
    let fits = !operands[0].is_float() && operands.get(1)?.is_float() && kind.is_float();
    if !fits || zero.is_some() && !narrow(operands[0]) {
        return None;
    }
    let less = zero.map(|_| piece(Code::Sub, Kind::I32, zero));
    let times = piece(Code::Dequantize, kind, Some(1));
    Some(less.into_iter().chain([times]).collect())
}

/// The code of an operation of one operand, if it has one.
pub(crate) fn unary(site: &Site<'_>) -> Option<Code> {
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
        Round::NAME => Code::Even,
        Not::NAME => Code::Not,
        IsNan::NAME => Code::IsNan,
        IsInf::NAME => Code::IsInf,
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

/// The same of two operands.
pub(crate) fn binary(name: &str) -> Option<Code> {
    Some(match name {
        Add::NAME => Code::Add,
        Sub::NAME => Code::Sub,
        Mul::NAME => Code::Mul,
        Div::NAME => Code::Div,
        Pow::NAME => Code::Pow,
        Max::NAME => Code::Max,
        Min::NAME => Code::Min,
        Prelu::NAME => Code::Prelu,
        And::NAME | BitAnd::NAME => Code::And,
        Or::NAME | BitOr::NAME => Code::Or,
        Xor::NAME | BitXor::NAME => Code::Xor,
        _ => return None,
    })
}

/// Sets all elements of a result to a value of its type that broadcasts to it: a bias before products are summed.
#[derive(Debug)]
pub(crate) struct Fill {
    nest: Nest<2>,
    /// Bytes of an element.
    size: usize,
}

impl Fill {
    pub(crate) fn of(target: &Access, source: &Access, kind: Kind) -> Option<Fill> {
        let nest = Nest::of([target, source])?;
        let size = kind.size();
        Some(Fill { nest, size })
    }

    /// Without a source all are 0.
    pub(crate) fn run(&self, source: Option<&[u8]>, out: &mut [u8]) -> Result<(), String> {
        let (zero, size) = ([0; 4], self.size);
        let source = source.unwrap_or(&zero[..size]);
        let fits = |k: usize, bytes: &[u8]| self.nest.fits(k, bytes.len() / size);
        if !fits(0, out) || !fits(1, source) {
            return Err("an element lies outside of its buffer".to_owned());
        }
        let mut none = Moved::default();
        copy_at(&self.nest, size, [0, 0], source, out, &mut none);
        Ok(())
    }
}
