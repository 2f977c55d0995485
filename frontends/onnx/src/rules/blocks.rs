//! Weights in blocks of few bits, each block with a scale and a zero point: `com.microsoft.MatMulNBits` and
//! `GatherBlockQuantized`.

use crate::builder::{Stop, Val};
use crate::node::{Done, NodeCx};
use optc_ir::DType;
use optc_ops::{DequantizeBlocks, Gather, Linear};

/// The default number of elements of a block.
const BLOCK: i64 = 128;

/// The default number of bits of an element.
const BITS: i64 = 4;

fn bits(cx: &NodeCx<'_, '_>) -> Result<i64, Stop> {
    match cx.int("bits").unwrap_or(BITS) {
        bits @ (2 | 4 | 8) => Ok(bits),
        bits => Err(Stop::opaque(format!("its elements have {bits} bits"))),
    }
}

/// The product with the transpose of weights `[N, K]` whose rows are blocks of bytes.
pub(super) fn matmul(cx: &mut NodeCx<'_, '_>) -> Done {
    let (x, packed, scales) = (cx.need(0)?, cx.need(1)?, cx.need(2)?);
    let size = |name: &str| {
        let size = cx.int(name).filter(|&n| 0 < n);
        size.ok_or_else(|| Stop::opaque(format!("its `{name}` is no size")))
    };
    let (n, k, block) = (size("N")?, size("K")?, size("block_size")?);
    if cx.int("weight_prepacked").is_some_and(|n| n != 0) {
        return Err(Stop::opaque(
            "its weights are prepacked for one kind of device (`weight_prepacked`)",
        ));
    }
    let bits = bits(cx)?;
    let blocks = (k - 1) / block + 1;
    let row = blocks.saturating_mul(block);
    if cx.ty(packed)?.elements() == Some(0) || row.saturating_mul(bits) % 8 != 0 {
        return Err(Stop::opaque("its weights are left out"));
    }
    let packed = cx.reshape(packed, &[n, row.saturating_mul(bits) / 8])?;
    let scales = cx.reshape(scales, &[n, blocks])?;
    let mut operands = vec![packed, scales];
    if let Some(zeros) = cx.input(3) {
        let held = match cx.dtype(zeros)?.is_float() {
            true => blocks,
            false => blocks.saturating_mul(bits).saturating_add(7) / 8,
        };
        operands.push(cx.reshape(zeros, &[n, held])?);
    }
    let mut op = DequantizeBlocks {
        axis: 1,
        block,
        bits,
    };
    if let Some(groups) = cx.input(4) {
        by_group(cx, &mut op, &mut operands, (groups, k, row))?;
    }
    let weights = cx.emit(&op, &operands)?;
    let weights = cx.cut(weights, 1, 0, k)?;
    let weights = cx.cast(weights, cx.dtype(x)?)?;
    let operands: Vec<Val> = [x, weights].into_iter().chain(cx.input(5)).collect();
    cx.finish(&Linear { to: None }, &operands)
}

/// Replaces scales and zero points by block with those by the group of each of `k` columns, for rows of length `row`.
fn by_group(
    cx: &mut NodeCx<'_, '_>,
    op: &mut DequantizeBlocks,
    operands: &mut [Val],
    (groups, k, row): (Val, i64, i64),
) -> Done {
    let zeros = operands.get(2).copied();
    let packed = match zeros {
        Some(zeros) => !cx.dtype(zeros)?.is_float(),
        None => false,
    };
    if packed || op.bits != BITS || k != row || cx.ty(groups)?.elements() != u64::try_from(k).ok() {
        return Err(Stop::opaque(
            "its columns have groups, and zero points of their own or not 4 bits",
        ));
    }
    for parameter in &mut operands[1..] {
        *parameter = cx.emit(&Gather { axis: 1 }, &[*parameter, groups])?;
    }
    op.block = 1;
    Ok(())
}

/// Gathers rows of a table in blocks of few bits.
pub(super) fn gather(cx: &mut NodeCx<'_, '_>) -> Done {
    let (data, indices, scales) = (cx.need(0)?, cx.need(1)?, cx.need(2)?);
    let rank = cx.rank(data)?;
    let gathered = cx.axis(cx.int("gather_axis").unwrap_or(0), rank)?;
    let blocked = cx.axis(cx.int("quantize_axis").unwrap_or(1), rank)?;
    let dtype = cx.dtype(data)?;
    if !dtype.is_int() {
        return Err(Stop::opaque(format!("its elements are {dtype}")));
    }
    let bits = match dtype {
        DType::UI8 => bits(cx)?,
        _ => 0,
    };
    let block = cx.int("block_size").unwrap_or(BLOCK);
    let mut operands: Vec<Val> = [data, scales].into_iter().chain(cx.input(3)).collect();
    let mut op = DequantizeBlocks {
        axis: blocked as i64,
        block,
        bits,
    };
    if bits != 0 && gathered + 1 == rank {
        return Err(Stop::opaque("it gathers parts of bytes"));
    }
    let pick = Gather {
        axis: gathered as i64,
    };
    if gathered == blocked {
        let table = cx.emit(&op, &operands)?;
        return cx.finish(&pick, &[table, indices]);
    }
    // Only the gathered rows are converted to floats.
    for operand in &mut operands {
        *operand = cx.emit(&pick, &[*operand, indices])?;
    }
    if gathered < blocked {
        op.axis += cx.rank(indices)? as i64 - 1;
    }
    cx.finish(&op, &operands)
}
