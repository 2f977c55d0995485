//! Matrix products and einsum.

use super::{Rule, decomposed, native};
use crate::builder::{Stop, Val};
use crate::codes;
use crate::node::{Done, NodeCx};
use optc_ir::DType;
use optc_ops::{
    Add, Clamp, Einsum, HardSigmoid, LeakyRelu, Matmul, Mul, Relu, Sigmoid, Sub, Tanh, Transpose,
    Unsqueeze, ints,
};

/// The rules of this family.
pub(super) static RULES: &[Rule] = &[
    native("Einsum", einsum),
    decomposed("Gemm", gemm),
    native("MatMul", matmul),
    decomposed("MatMulInteger", matmul_integer),
];

/// The rules of this family in the domain `com.microsoft`.
pub(super) static MICROSOFT: &[Rule] = &[
    decomposed("FusedGemm", fused_gemm),
    decomposed("FusedMatMul", fused_matmul),
    decomposed("TransposeMatMul", fused_matmul),
];

fn matmul(cx: &mut NodeCx<'_, '_>) -> Done {
    let operands = [cx.need(0)?, cx.need(1)?];
    operands.iter().for_each(|&x| cx.show_permutation(x));
    cx.finish(&Matmul { to: None }, &operands)
}

fn einsum(cx: &mut NodeCx<'_, '_>) -> Done {
    let operands = cx.all_inputs()?;
    let equation = cx.string("equation");
    let equation =
        equation.ok_or_else(|| Stop::error(codes::ATTRIBUTE_MISSING, "`equation` is missing"))?;
    let equation: String = equation.chars().filter(|c| !c.is_whitespace()).collect();
    cx.finish(
        &Einsum {
            equation: equation.into(),
            to: None,
        },
        &operands,
    )
}

/// `alpha * A' * B' + beta * C`
fn gemm(cx: &mut NodeCx<'_, '_>) -> Done {
    let result = gemm_value(cx)?;
    cx.set(0, result);
    Ok(())
}

/// `com.microsoft.FusedGemm`: a Gemm and an activation.
fn fused_gemm(cx: &mut NodeCx<'_, '_>) -> Done {
    let sum = gemm_value(cx)?;
    let name = cx.string("activation").unwrap_or_default();
    let float =
        |cx: &NodeCx<'_, '_>, key: &str, default| cx.float(&format!("activation_{key}"), default);
    let parameters = [float(cx, "alpha", f64::NAN), float(cx, "beta", f64::NAN)];
    let result = activated(cx, sum, &name, parameters)?;
    cx.set(0, result);
    Ok(())
}

/// An activation by its name in the fused operators; parameters that are not given are NaN.
pub(super) fn activated(
    cx: &mut NodeCx<'_, '_>,
    x: Val,
    name: &str,
    [alpha, beta]: [f64; 2],
) -> Result<Val, Stop> {
    let or = |given: f64, default: f32| {
        if given.is_nan() {
            f64::from(default)
        } else {
            given
        }
    };
    match name {
        "" => Ok(x),
        "Relu" => cx.emit(&Relu {}, &[x]),
        "Tanh" => cx.emit(&Tanh {}, &[x]),
        "Sigmoid" => cx.emit(&Sigmoid {}, &[x]),
        "LeakyRelu" => {
            let alpha = or(alpha, 0.01);
            cx.emit(&LeakyRelu { alpha }, &[x])
        }
        "Clip" if alpha.is_nan() || beta.is_nan() => {
            Err(Stop::opaque("its activation lacks a bound"))
        }
        "Clip" => {
            let (min, max) = (Some(alpha), Some(beta));
            cx.emit(&Clamp { min, max }, &[x])
        }
        "HardSigmoid" => {
            let (alpha, beta) = (or(alpha, 0.2), or(beta, 0.5));
            cx.emit(&HardSigmoid { alpha, beta }, &[x])
        }
        found => Err(Stop::opaque(format!("its activation is `{found}`"))),
    }
}

fn gemm_value(cx: &mut NodeCx<'_, '_>) -> Result<Val, Stop> {
    let (a, b) = (cx.need(0)?, cx.need(1)?);
    for operand in [a, b] {
        let rank = cx.rank(operand)?;
        if rank != 2 {
            return Err(Stop::error(
                codes::GEMM_RANK,
                format!("an operand has rank {rank}, wanted 2"),
            ));
        }
    }
    let product = product(cx, a, b)?;
    let mut result = scaled(cx, product, cx.float("alpha", 1.0))?;
    let beta = cx.float("beta", 1.0);
    if let Some(c) = cx.input(2).filter(|_| beta != 0.0) {
        let c = scaled(cx, c, beta)?;
        result = cx.emit(&Add {}, &[result, c])?;
    }
    Ok(result)
}

/// The product of `a` and `b`, transposed by `transA`, `transB`, `transBatchA` and `transBatchB`.
///
/// A constant is transposed; for other operands the flags change the order of a contraction's dimensions.
fn product(cx: &mut NodeCx<'_, '_>, a: Val, b: Val) -> Result<Val, Stop> {
    let mut sides =
        [(a, "transA", "transBatchA"), (b, "transB", "transBatchB")].map(|(val, last, batch)| {
            Side {
                val,
                swap: cx.flag(last, false),
                batch: cx.flag(batch, false),
            }
        });
    for side in &mut sides {
        if side.swap && !side.batch && cx.b.is_constant(side.val) {
            side.val = swapped(cx, side.val, true)?;
            side.swap = false;
        }
    }
    let ranks = [cx.rank(sides[0].val)?, cx.rank(sides[1].val)?];
    let turned = |(side, &rank): (&Side, &usize)| 2 <= rank && (side.swap || side.batch);
    if !sides.iter().zip(&ranks).any(turned) {
        sides.iter().for_each(|side| cx.show_permutation(side.val));
        return cx.emit(&Matmul { to: None }, &[sides[0].val, sides[1].val]);
    }
    if ranks.iter().any(|r| !(2..=MAX_LETTERS).contains(r)) {
        return Err(Stop::opaque("it transposes an operand of this rank"));
    }
    let terms = [
        sides[0].letters(ranks[0], 'M', 'K'),
        sides[1].letters(ranks[1], 'K', 'N'),
    ];
    let batch = ranks[0].max(ranks[1]) - 2;
    let result: String = letters(batch).chain(['M', 'N']).collect();
    let equation = format!("{},{}->{result}", terms[0], terms[1]);
    cx.einsum(&equation, &[sides[0].val, sides[1].val])
}

/// The most dimensions of an operand whose transpose is part of the product.
const MAX_LETTERS: usize = 20;

/// One operand of a product.
struct Side {
    val: Val,
    /// The last two dimensions are swapped.
    swap: bool,
    /// The batch dimensions come after the first one.
    batch: bool,
}

impl Side {
    /// One letter for each dimension; `row` and `column` for the last two dimensions of the product.
    fn letters(&self, rank: usize, row: char, column: char) -> String {
        let (row, column) = if self.swap {
            (column, row)
        } else {
            (row, column)
        };
        let batch = letters(rank - 2);
        if self.batch {
            std::iter::once(row).chain(batch).chain([column]).collect()
        } else {
            batch.chain([row, column]).collect()
        }
    }
}

/// Letters for `n` batch dimensions, counted from the last dimension, so that they do not depend on `n`.
fn letters(n: usize) -> impl Iterator<Item = char> {
    let letters: Vec<char> = (b'a'..=b'z').map(char::from).take(n).collect();
    letters.into_iter().rev()
}

/// The value with its last two dimensions swapped, if `yes`.
fn swapped(cx: &mut NodeCx<'_, '_>, x: Val, yes: bool) -> Result<Val, Stop> {
    let rank = cx.rank(x)?;
    if !yes || rank < 2 {
        return Ok(x);
    }
    let mut perm: Vec<usize> = (0..rank).collect();
    perm.swap(rank - 2, rank - 1);
    cx.emit(&Transpose { perm: ints(&perm) }, &[x])
}

fn scaled(cx: &mut NodeCx<'_, '_>, x: Val, factor: f64) -> Result<Val, Stop> {
    if factor == 1.0 {
        return Ok(x);
    }
    let factor = cx.scalar_like(factor, x)?;
    cx.emit(&Mul {}, &[x, factor])
}

fn fused_matmul(cx: &mut NodeCx<'_, '_>) -> Done {
    let (a, b) = (cx.need(0)?, cx.need(1)?);
    let product = product(cx, a, b)?;
    let result = scaled(cx, product, cx.float("alpha", 1.0))?;
    cx.set(0, result);
    Ok(())
}

/// The product of 32-bit integers after subtraction of the zero points.
fn matmul_integer(cx: &mut NodeCx<'_, '_>) -> Done {
    let a = centred(cx, 0, 2, true)?;
    let b = centred(cx, 1, 3, false)?;
    cx.finish(&Matmul { to: None }, &[a, b])
}

/// Input `x` in `si32` less the zero point in input `zero`; with `rows` the zero point may be one for each row.
pub(super) fn centred(
    cx: &mut NodeCx<'_, '_>,
    x: usize,
    zero: usize,
    rows: bool,
) -> Result<Val, Stop> {
    let value = cx.need(x)?;
    let wide = cx.cast(value, DType::SI32)?;
    let Some(zero) = cx.input(zero) else {
        return Ok(wide);
    };
    let mut zero = cx.cast(zero, DType::SI32)?;
    if rows && cx.rank(zero)? == 1 && 1 < cx.rank(wide)? {
        zero = cx.emit(
            &Unsqueeze {
                axes: ints(&[1i64]),
            },
            &[zero],
        )?;
    }
    cx.emit(&Sub {}, &[wide, zero])
}
