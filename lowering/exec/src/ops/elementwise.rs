//! Element-wise operations as links of chains.

use crate::access::Access;
use crate::error::StepError;
use crate::moved::Moved;
use crate::nest::Nest;
use crate::ops::chain::Chain;
use crate::ops::copy::copy_at;
use crate::ops::kernel::{Kernel, Site};
use optc_ir::Operation;
use optc_ir::op::{Binary, Expr, Unary};
use optc_kernels::element::Kind;
use optc_kernels::error::KernelError;
use optc_kernels::links::{ChainOp, Code, Comparison, From, of_integers, only_of_integers};
use optc_ops::Direction;
use optc_ops::{
    Approximate, Clamp, Dequantize, Elu, Gelu, HardSigmoid, HardSwish, IsInf, IsNan, LeakyRelu,
    Prelu, Quantize, Relu, Silu,
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

/// The function of an operation's elements, if the operation and the element type are known.
pub(crate) fn pieces(site: &Site<'_>) -> Option<Vec<Piece>> {
    let data = site.data();
    let all = site.all()?;
    let kinds: Option<Vec<Kind>> = all.iter().map(|slot| slot.cells()).collect();
    let kinds = kinds?;
    let (&kind, operands) = kinds.split_last()?;
    if data.results.len() != 1 {
        return None;
    }
    if matches!(&*data.name, Quantize::NAME | Dequantize::NAME) {
        return scaled(site, operands, kind);
    }
    let code = code(site)?;
    let first = *operands.first()?;
    let known = match first.is_float() {
        true => !only_of_integers(code),
        false => of_integers(code),
    };
    let fits = match code {
        Code::Cast | Code::Truth => true,
        Code::Compare(_) => operands.iter().all(|&own| own == first),
        Code::IsNan | Code::IsInf => known,
        _ => known && operands.iter().all(|&own| own == kind),
    };
    let second = (operands.len() == 2).then_some(1);
    fits.then(|| vec![Piece { code, kind, second }])
}

/// The function of numbers: a loop of its own, or that of the one function that its expression is.
pub(crate) fn code(site: &Site<'_>) -> Option<Code> {
    let all = site.all()?;
    let (target, operands) = all.split_last()?;
    let truths = operands.iter().all(|slot| slot.is_truth());
    let code = whole(site).or_else(|| {
        let expr = site.registry.expression(&site.func.op_ref(site.op))?;
        function(&expr)
    });
    match code? {
        Code::Cast if target.is_truth() && !truths => Some(Code::Truth),
        code @ (Code::Cast | Code::Compare(_)) => Some(code),
        code if truths => of_truths(code),
        code => Some(code),
    }
}

/// The operation on bytes that are 0 or 1.
fn of_truths(code: Code) -> Option<Code> {
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

/// The loop of an operation that is several functions.
fn whole(site: &Site<'_>) -> Option<Code> {
    let op = site.func.op_ref(site.op);
    Some(match &*site.data().name {
        IsNan::NAME => Code::IsNan,
        IsInf::NAME => Code::IsInf,
        Relu::NAME => Code::Relu,
        Prelu::NAME => Code::Prelu,
        Silu::NAME => Code::Silu,
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

/// The loop of a function of the operands in order.
fn function(expr: &Expr) -> Option<Code> {
    Some(match expr {
        Expr::Operand(0) => Code::Same,
        Expr::Cast(_, x) if **x == Expr::A => Code::Cast,
        Expr::Compare(direction, parts) if **parts == [Expr::A, Expr::B] => {
            Code::Compare(match direction {
                Direction::Eq => Comparison::Eq,
                Direction::Ne => Comparison::Ne,
                Direction::Lt => Comparison::Lt,
                Direction::Le => Comparison::Le,
                Direction::Gt => Comparison::Gt,
                Direction::Ge => Comparison::Ge,
            })
        }
        Expr::Unary(function, x) if **x == Expr::A => match function {
            Unary::Abs => Code::Abs,
            Unary::Ceil => Code::Ceil,
            Unary::Cos => Code::Cos,
            Unary::Erf => Code::Erf,
            Unary::Exp => Code::Exp,
            Unary::Floor => Code::Floor,
            Unary::Log => Code::Log,
            Unary::Neg => Code::Neg,
            Unary::Not => Code::Not,
            Unary::Reciprocal => Code::Reciprocal,
            Unary::Round => Code::Even,
            Unary::Rsqrt => Code::Rsqrt,
            Unary::Sigmoid => Code::Sigmoid,
            Unary::Sin => Code::Sin,
            Unary::Sqrt => Code::Sqrt,
            Unary::Tanh => Code::Tanh,
            _ => return None,
        },
        Expr::Binary(function, parts) if **parts == [Expr::A, Expr::B] => match function {
            Binary::Add => Code::Add,
            Binary::Sub => Code::Sub,
            Binary::Mul => Code::Mul,
            Binary::Div => Code::Div,
            Binary::Pow => Code::Pow,
            Binary::Max => Code::Max,
            Binary::Min => Code::Min,
            Binary::And => Code::And,
            Binary::Or => Code::Or,
            Binary::Xor => Code::Xor,
            _ => return None,
        },
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
    pub(crate) fn run(&self, source: Option<&[u8]>, out: &mut [u8]) -> Result<(), StepError> {
        let (zero, size) = ([0; 4], self.size);
        let source = source.unwrap_or(&zero[..size]);
        let fits = |k: usize, bytes: &[u8]| self.nest.fits(k, bytes.len() / size);
        if !fits(0, out) || !fits(1, source) {
            return Err(KernelError::OutOfBounds.into());
        }
        let mut none = Moved::default();
        copy_at(&self.nest, size, [0, 0], source, out, &mut none);
        Ok(())
    }
}
