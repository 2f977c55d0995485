//! Matrix products and einsum.

use super::{Rule, decomposed, native};
use crate::builder::{Stop, Val};
use crate::node::{Done, NodeCx, props};
use optc_ir::{Attr, AttrDict, DType};

/// The rules of this family.
pub(super) static RULES: &[Rule] = &[
    native("Einsum", einsum),
    decomposed("Gemm", gemm),
    native("MatMul", matmul),
    decomposed("MatMulInteger", matmul_integer),
];

/// The rules of this family in the domain `com.microsoft`.
pub(super) static MICROSOFT: &[Rule] = &[decomposed("FusedMatMul", fused_matmul)];

fn matmul(cx: &mut NodeCx<'_, '_>) -> Done {
    let operands = [cx.need(0)?, cx.need(1)?];
    cx.finish("hbir.matmul", &operands, AttrDict::new())
}

fn einsum(cx: &mut NodeCx<'_, '_>) -> Done {
    let operands = cx.all_inputs()?;
    let equation = cx.string("equation");
    let equation =
        equation.ok_or_else(|| Stop::error("attribute-missing", "`equation` is missing"))?;
    let equation: String = equation.chars().filter(|c| !c.is_whitespace()).collect();
    cx.finish(
        "hbir.einsum",
        &operands,
        props([("equation", Attr::str(&equation))]),
    )
}

/// `alpha * A' * B' + beta * C`
fn gemm(cx: &mut NodeCx<'_, '_>) -> Done {
    let (a, b) = (cx.need(0)?, cx.need(1)?);
    for operand in [a, b] {
        let rank = cx.rank(operand)?;
        if rank != 2 {
            return Err(Stop::error(
                "gemm-rank",
                format!("an operand has rank {rank}, wanted 2"),
            ));
        }
    }
    let a = swapped(cx, a, cx.flag("transA", false))?;
    let b = swapped(cx, b, cx.flag("transB", false))?;
    let product = cx.emit("hbir.matmul", &[a, b], AttrDict::new())?;
    let mut result = scaled(cx, product, cx.float("alpha", 1.0))?;
    let beta = cx.float("beta", 1.0);
    if let Some(c) = cx.input(2).filter(|_| beta != 0.0) {
        let c = scaled(cx, c, beta)?;
        result = cx.emit("hbir.add", &[result, c], AttrDict::new())?;
    }
    cx.set(0, result);
    Ok(())
}

/// The value with its last two dimensions swapped, if `yes`.
fn swapped(cx: &mut NodeCx<'_, '_>, x: Val, yes: bool) -> Result<Val, Stop> {
    let rank = cx.rank(x)?;
    if !yes || rank < 2 {
        return Ok(x);
    }
    let mut perm: Vec<usize> = (0..rank).collect();
    perm.swap(rank - 2, rank - 1);
    cx.emit("hbir.transpose", &[x], props([("perm", Attr::ints(&perm))]))
}

fn scaled(cx: &mut NodeCx<'_, '_>, x: Val, factor: f64) -> Result<Val, Stop> {
    if factor == 1.0 {
        return Ok(x);
    }
    let factor = cx.scalar_like(factor, x)?;
    cx.emit("hbir.mul", &[x, factor], AttrDict::new())
}

fn fused_matmul(cx: &mut NodeCx<'_, '_>) -> Done {
    if cx.flag("transBatchA", false) || cx.flag("transBatchB", false) {
        return Err(Stop::opaque("it moves the batch dimensions"));
    }
    let (a, b) = (cx.need(0)?, cx.need(1)?);
    let a = swapped(cx, a, cx.flag("transA", false))?;
    let b = swapped(cx, b, cx.flag("transB", false))?;
    let product = cx.emit("hbir.matmul", &[a, b], AttrDict::new())?;
    let result = scaled(cx, product, cx.float("alpha", 1.0))?;
    cx.set(0, result);
    Ok(())
}

/// The product of 32-bit integers from which the zero points are taken away.
fn matmul_integer(cx: &mut NodeCx<'_, '_>) -> Done {
    let a = centred(cx, 0, 2, true)?;
    let b = centred(cx, 1, 3, false)?;
    cx.finish("hbir.matmul", &[a, b], AttrDict::new())
}

fn centred(cx: &mut NodeCx<'_, '_>, x: usize, zero: usize, rows: bool) -> Result<Val, Stop> {
    let value = cx.need(x)?;
    let wide = cx.cast(value, DType::SI32)?;
    let Some(zero) = cx.input(zero) else {
        return Ok(wide);
    };
    let mut zero = cx.cast(zero, DType::SI32)?;
    if rows && cx.rank(zero)? == 1 && 1 < cx.rank(wide)? {
        zero = cx.emit(
            "hbir.unsqueeze",
            &[zero],
            props([("axes", Attr::ints(&[1i64]))]),
        )?;
    }
    cx.emit("hbir.sub", &[wide, zero], AttrDict::new())
}
