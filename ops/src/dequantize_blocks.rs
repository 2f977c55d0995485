//! `hbir.dequantize_blocks`: integers as floats; each block of `block` elements along an axis has its own scale and
//! zero point (onnxruntime `MatMulNBits`, `GatherBlockQuantized`).
//!
//! `y = (x - zero) * scale` in the scale's element type.
//!
//! - `bits` = 2, 4 or 8: the operand is packed. It is `ui8`, and each byte holds `8 / bits` elements of the last
//!   dimension, the first in the lowest bits. The last dimension of the result is longer by that factor.
//! - `bits` = 0: the operand is not packed.
//! - Scales have the extents of the result, except along `axis`, where they have one element for each block (the last
//!   block may be incomplete).
//! - Zero points are floats in the same shape as the scales, or integers packed in the same way as the operand. If they
//!   are absent, the zero point is `2^(bits - 1)`, or 0 if `bits` is 0.
//!
//! For example, with `bits` = 4 and `block` = 16 an operand of 2 x 16 bytes has a result of 2 x 32 floats, and scales
//! of 2 x 2.

use crate::prelude::*;

attributes! {
    /// Integers as floats, scaled block by block along an axis.
    pub struct DequantizeBlocks {
        /// The axis along which blocks lie; negative ones count from the end.
        axis: i64 = -1,
        /// The number of elements of a block.
        block: i64,
        /// The width in bits of a packed element; 0 if elements are not packed.
        bits: i64 = 0,
    }
}

/// The attributes as they were read.
struct Blocks {
    axis: usize,
    /// The number of elements of a block.
    length: u64,
    /// The number of elements in one byte of the operand; 1 if it is not packed.
    per_byte: u64,
}

impl DequantizeBlocks {
    /// C2: `axis` is an axis of the operand, `block` is 1 or more, and `bits` is 0, 2, 4 or 8.
    fn blocks(&self, op: &OpRef<'_>) -> Result<Blocks, OpError> {
        let axis = as_axis(op, DEQUANTIZE_BLOCKS_C2, self.axis, op.operand(0)?.rank())?;
        let length = u64::try_from(self.block).ok().filter(|&n| 0 < n);
        let per_byte = match self.bits {
            0 | 8 => Some(1),
            2 | 4 => u64::try_from(8 / self.bits).ok(),
            _ => None,
        };
        let (Some(length), Some(per_byte)) = (length, per_byte) else {
            let (block, bits) = (self.block, self.bits);
            let message = format!(
                "hbir.dequantize_blocks has block = {block} and bits = {bits}, wanted 1 or more, and 0, 2, 4 or 8"
            );
            return Err(OpError::new(DEQUANTIZE_BLOCKS_C2, message));
        };
        Ok(Blocks {
            axis,
            length,
            per_byte,
        })
    }

    /// The zero point if there is no operand for it.
    fn middle(&self) -> f64 {
        match self.bits {
            0 => 0.0,
            bits => f64::from(1 << (bits - 1)),
        }
    }
}

impl Blocks {
    /// The extents of the result and of the scales.
    fn extents(&self, x: &[Dim]) -> (Vec<Dim>, Vec<Dim>) {
        let mut whole = x.to_vec();
        if let Some(last) = whole.last_mut() {
            *last = computed(last, |n| n.times(&Size::from(self.per_byte)));
        }
        let mut scales = whole.clone();
        let of_blocks = |n: &Size| n.quotient_up(&Size::from(self.length));
        scales[self.axis] = computed(&scales[self.axis], of_blocks);
        (whole, scales)
    }

    /// The extents of zero points that are packed in the same way as the operand.
    fn held(&self, scales: &[Dim]) -> Vec<Dim> {
        let mut held = scales.to_vec();
        if let Some(last) = held.last_mut() {
            *last = computed(last, |n| n.quotient_up(&Size::from(self.per_byte)));
        }
        held
    }
}

impl Operation for DequantizeBlocks {
    const NAME: &'static str = "hbir.dequantize_blocks";
    const SUMMARY: &'static str = "packed integers as floats, scaled block by block";
    const FAMILY: &'static str = "elementwise";
    const OPERANDS: (usize, usize) = (2, 3);
    const CODES: &'static [Code] = CODES;

    /// C1: from integers (`ui8` if packed) to floats. C2: see `blocks`. C3: scales and zero points fit the blocks.
    fn infer(&self, op: &OpRef<'_>) -> Result<Vec<Inferred>, OpError> {
        let x = op.operand(0)?;
        let packed = self.bits != 0;
        if !x.dtype.is_int() || x.dtype.is_bool() || packed && x.dtype != DType::UI8 {
            let wanted = if packed { "ui8" } else { "an integer type" };
            let message = format!("{} of {}, wanted {wanted}", op.name, x.dtype);
            return Err(OpError::new(DEQUANTIZE_BLOCKS_C1, message));
        }
        let dtype = wants_float(op, DEQUANTIZE_BLOCKS_C1, 1)?;
        let blocks = self.blocks(op)?;
        let (whole, scales) = blocks.extents(&x.dims);
        fits(op, 1, &scales)?;
        if 2 < op.operands.len() {
            let zero = op.operand(2)?.dtype;
            match zero.is_float() {
                true => fits(op, 2, &scales)?,
                false if zero == x.dtype => fits(op, 2, &blocks.held(&scales))?,
                false => {
                    let message = format!("{} of {} has a zero point of {zero}", op.name, x.dtype);
                    return Err(OpError::new(DEQUANTIZE_BLOCKS_C1, message));
                }
            }
        }
        one(whole, dtype)
    }

    fn eval(&self, call: &Call<'_>) -> Result<Vec<Tensor>, EvalError> {
        let blocks = self.blocks(call.op)?;
        let length = usize::try_from(blocks.length).unwrap_or(usize::MAX);
        let shape = call.shape();
        let (Some((&last, outer)), Some((&runs, lead))) =
            (shape.split_last(), call.input(1).shape.split_last())
        else {
            return Err(EvalError::new("a scalar has no blocks"));
        };
        let along_last = blocks.axis == outer.len();
        let held = Held {
            bits: self.bits,
            per_byte: usize::try_from(blocks.per_byte).unwrap_or(1),
        };
        let (x, scales) = (call.input(0), call.input(1).to_f64());
        let zeros = call.inputs.get(2).copied();
        let width = x.shape.last().copied().unwrap_or(1);
        let rows: usize = outer.iter().product();
        let mut values = Vec::with_capacity(rows * last);
        for row in 0..rows {
            let (mut left, mut of_scales, mut stride) = (row, 0, 1);
            for (d, &extent) in outer.iter().enumerate().rev() {
                let index = left % extent;
                left /= extent;
                let index = if d == blocks.axis {
                    index / length
                } else {
                    index
                };
                of_scales += index * stride;
                stride *= lead[d];
            }
            for j in 0..last {
                let block = if along_last { j / length } else { j };
                let at = of_scales * runs + block;
                let zero = match zeros {
                    None => self.middle(),
                    Some(zeros) if zeros.dtype.is_float() => zeros.f64_at(at),
                    Some(zeros) => {
                        let width = zeros.shape.last().copied().unwrap_or(1);
                        held.element(zeros, of_scales * width, block)
                    }
                };
                values.push((held.element(x, row * width, j) - zero) * scales[at]);
            }
        }
        Ok(call.floats(values))
    }

    fn iteration_domain(&self, op: &OpRef<'_>) -> Result<IterationDomain, OpError> {
        let axis = self.blocks(op)?.axis;
        let mut domain = IterationDomain::new(op, FreedomClass::Ordered);
        let ids = domain.over(&op.result(0)?.dims);
        for &id in &ids {
            let packed = self.bits != 0 && id + 1 == ids.len();
            if id == axis || packed {
                domain.along_uncut(id);
            }
        }
        domain.operands.fill(IndexExpr::each(&ids));
        domain.results[0] = IndexExpr::each(&ids);
        Ok(domain)
    }
}

/// The packing of integers.
struct Held {
    bits: i64,
    per_byte: usize,
}

impl Held {
    /// Element `j` of the row whose first byte is `from`.
    fn element(&self, x: &Tensor, from: usize, j: usize) -> f64 {
        let byte = x.i64_at(from + j / self.per_byte);
        let value = match self.per_byte {
            1 => byte,
            n => (byte >> (self.bits * (j % n) as i64)) & ((1 << self.bits) - 1),
        };
        value as f64
    }
}

/// C3: an operand has these extents.
fn fits(op: &OpRef<'_>, i: usize, wanted: &[Dim]) -> Result<(), OpError> {
    wants_rank(op, DEQUANTIZE_BLOCKS_C3, i, wanted.len())?;
    let found = &op.operand(i)?.dims;
    if found.iter().zip(wanted).all(|(a, b)| unify(a, b).is_some()) {
        return Ok(());
    }
    let message = format!(
        "{} has operand {i} of {}, wanted {}",
        op.name,
        show(found),
        show(wanted)
    );
    Err(OpError::new(DEQUANTIZE_BLOCKS_C3, message))
}

codes! {
    const CODES;

    DEQUANTIZE_BLOCKS_C1 = program(
        "`hbir.dequantize_blocks` is not from integers (`ui8` where a byte holds several) to floats, or its zero points are neither floats nor integers of the operand's type",
        r#"%0 = "hbir.dequantize_blocks"(%x, %y) <{block = 16}> : (tensor<2x16xf32>, tensor<2x1xf32>) -> tensor<2x16xf32>"#,
        "give integers and scales of a float type",
    );
    DEQUANTIZE_BLOCKS_C2 = program(
        "`axis` of `hbir.dequantize_blocks` is none of the operand's dimensions, `block` is below 1, or `bits` is not 0, 2, 4 or 8",
        r#"%0 = "hbir.dequantize_blocks"(%x, %y) <{block = 16, bits = 3}> : (tensor<2x16xui8>, tensor<2x1xf32>) -> tensor<2x16xf32>"#,
        "use as many bits as divide a byte",
    );
    DEQUANTIZE_BLOCKS_C3 = program(
        "scales or zero points of `hbir.dequantize_blocks` have other extents than the blocks",
        r#"%0 = "hbir.dequantize_blocks"(%x, %y) <{block = 16, bits = 4}> : (tensor<2x16xui8>, tensor<2x1xf32>) -> tensor<2x32xf32>"#,
        "give a scale for each begun block along `axis`, and for each index of the other dimensions",
    );
}
