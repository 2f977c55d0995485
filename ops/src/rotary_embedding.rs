//! `hbir.rotary_embedding`: pairs of elements rotated by angles that depend on the position in a sequence
//! (ONNX `RotaryEmbedding`).
//!
//! The operand has rank 4; the first dimension is the batch, the last one is rotated, and `sequence_axis` (1 or 2) is
//! the sequence. Only the first `size` elements of the last dimension are rotated (all if `size` is absent or 0). They
//! form pairs: element `i` of the first half with element `i` of the second half or, with `interleaved`, adjacent
//! elements.
//!
//! Cosines and sines are `[batch, sequence, size / 2]`. With a fourth operand, the positions `[batch, sequence]`, they
//! are `[positions, size / 2]`: each position is the row to use.

use crate::prelude::*;

attributes! {
    /// Pairs of elements rotated by angles that depend on the position.
    pub struct RotaryEmbedding {
        /// The sequence dimension, 1 or 2.
        sequence_axis: i64 = 2,
        /// The number of rotated elements, from the start of the last dimension; 0 for all.
        size: i64 = 0,
        /// True if adjacent elements form a pair; otherwise each pair has one element of each half.
        interleaved: bool = false,
    }
}

/// The attributes' values.
struct Config {
    sequence: usize,
    /// The number of rotated elements of the last dimension; `None` if it is unknown.
    size: Option<u64>,
}

impl RotaryEmbedding {
    /// The sequence dimension.
    ///
    /// # Errors
    /// The attribute is not 1 or 2 (`rotary-embedding-c2`).
    pub fn sequence(&self) -> Result<usize, OpError> {
        let axis = self.sequence_axis;
        let sequence = usize::try_from(axis).ok().filter(|a| (1..=2).contains(a));
        sequence.ok_or_else(|| {
            let message =
                format!("hbir.rotary_embedding has sequence_axis = {axis}, wanted 1 or 2");
            OpError::new(ROTARY_EMBEDDING_C2, message)
        })
    }

    /// The number of rotated elements of the last dimension. `None` if all are rotated and the extent is unknown.
    ///
    /// # Errors
    /// The number is negative, odd or above the extent (`rotary-embedding-c2`).
    pub fn rotated(&self, op: &OpRef<'_>) -> Result<Option<u64>, OpError> {
        let refuse = |message: String| OpError::new(ROTARY_EMBEDDING_C2, message);
        let dims = &op.operand(0)?.dims;
        let last = dims.last().and_then(Dim::fixed);
        let size = match self.size {
            0 => last,
            n => Some(
                u64::try_from(n)
                    .map_err(|_| refuse(format!("hbir.rotary_embedding has size = {n}")))?,
            ),
        };
        let wrong = |n: &u64| !n.is_multiple_of(2) || last.is_some_and(|last| last < *n);
        if let Some(size) = size.filter(wrong) {
            let message = format!("hbir.rotary_embedding rotates {size} of {}", show(dims));
            return Err(refuse(message));
        }
        Ok(size)
    }

    /// C2: `sequence_axis` is 1 or 2, and `size` is even and not above the extent.
    fn config(&self, op: &OpRef<'_>) -> Result<Config, OpError> {
        Ok(Config {
            sequence: self.sequence()?,
            size: self.rotated(op)?,
        })
    }
}

impl Operation for RotaryEmbedding {
    const NAME: &'static str = "hbir.rotary_embedding";
    const SUMMARY: &'static str = "pairs of elements rotated by angles that depend on the position";
    const FAMILY: &'static str = "norm";
    const OPERANDS: (usize, usize) = (3, 4);
    const CODES: &'static [Code] = CODES;

    /// C1: floats of one element type, the first operand of rank 4. C3: cosines and sines for every pair and position.
    /// C4: positions are integers, one for each element of the sequence.
    fn infer(&self, op: &OpRef<'_>) -> Result<Vec<Inferred>, OpError> {
        let x = op.operand(0)?;
        wants_float(op, ROTARY_EMBEDDING_C1, 0)?;
        let dtype = common_dtype(op, ROTARY_EMBEDDING_C1, 0..3)?;
        if x.rank() != 4 {
            let message = format!("hbir.rotary_embedding of {}, wanted rank 4", show(&x.dims));
            return Err(OpError::new(ROTARY_EMBEDDING_C1, message));
        }
        let config = self.config(op)?;
        let place = [x.dims[0].clone(), x.dims[config.sequence].clone()];
        let half = config.size.map_or(Dim::Unknown, |n| Dim::Fixed(n / 2));
        let by_row = 3 < op.operands.len();
        if by_row {
            wants_index(op, ROTARY_EMBEDDING_C4, 3)?;
            fits(op, 3, &place, ROTARY_EMBEDDING_C4)?;
        }
        let angles = if by_row {
            vec![Dim::Unknown, half]
        } else {
            [place.to_vec(), vec![half]].concat()
        };
        fits(op, 1, &angles, ROTARY_EMBEDDING_C3)?;
        fits(op, 2, &angles, ROTARY_EMBEDDING_C3)?;
        let (cos, sin) = (&op.operand(1)?.dims, &op.operand(2)?.dims);
        if cos.iter().zip(sin).any(|(a, b)| unify(a, b).is_none()) {
            let (cos, sin) = (show(cos), show(sin));
            let message = format!(
                "hbir.rotary_embedding has cosines of {cos} and sines of {sin}, wanted equal sizes"
            );
            return Err(OpError::new(ROTARY_EMBEDDING_C3, message));
        }
        one(x.dims.clone(), dtype)
    }

    fn eval(&self, call: &Call<'_>) -> Result<Vec<Tensor>, EvalError> {
        let config = self.config(call.op)?;
        let shape = call.shape();
        let last = shape[3];
        let size = config
            .size
            .and_then(|n| usize::try_from(n).ok())
            .unwrap_or(last);
        let mut values = call.input(0).to_f64();
        let (cos, sin) = (call.input(1), call.input(2));
        for (row, values) in values.chunks_exact_mut(last.max(1)).enumerate() {
            let (b, s) = match config.sequence {
                1 => (row / (shape[1] * shape[2]), row / shape[2] % shape[1]),
                _ => (row / (shape[1] * shape[2]), row % shape[2]),
            };
            let at = angle_row(call, b, s, shape[config.sequence])? * (size / 2);
            for i in 0..size / 2 {
                let (first, second) = if self.interleaved {
                    (2 * i, 2 * i + 1)
                } else {
                    (i, i + size / 2)
                };
                let (left, right) = (values[first], values[second]);
                let (cosine, sine) = (cos.f64_at(at + i), sin.f64_at(at + i));
                values[first] = cosine * left - sine * right;
                values[second] = sine * left + cosine * right;
            }
        }
        Ok(call.floats(values))
    }

    /// The last dimension is needed whole. The other operands follow batch and sequence, except that with positions all
    /// cosines and sines are needed whole.
    fn iteration_domain(&self, op: &OpRef<'_>) -> Result<IterationDomain, OpError> {
        let x = op.operand(0)?;
        let sequence = self.config(op)?.sequence;
        let mut domain = IterationDomain::new(op, FreedomClass::Ordered);
        let ids = domain.over(&x.dims);
        domain.along_uncut(x.rank() - 1);
        domain.operands[0] = IndexExpr::each(&ids);
        domain.results[0] = IndexExpr::each(&ids);
        let rows = 3 < op.operands.len();
        for i in 1..op.operands.len() {
            let angles = i < 3;
            let dims = &op.operand(i)?.dims;
            for (d, dim) in dims.iter().enumerate() {
                let row = angles && (d + 1 == dims.len() || rows);
                domain.operands[i][d] = match d {
                    _ if row => {
                        let id = domain.add_for(dim, LoopKind::Whole);
                        domain.uncut(id);
                        IndexExpr::of(id)
                    }
                    0 if dim.is_one() => IndexExpr::zero(),
                    0 if dim.same(&x.dims[0]) => IndexExpr::of(ids[0]),
                    0 => IndexExpr::Whole,
                    _ => IndexExpr::of(ids[sequence]),
                };
            }
        }
        Ok(domain)
    }

    /// The positions are indices of the rows of the cosines.
    fn indexed(&self, op: &OpRef<'_>) -> Option<(usize, Vec<Dim>)> {
        let rows = op.operand(1).ok()?.dims.first()?;
        (3 < op.operands.len()).then(|| (3, vec![rows.clone()]))
    }
}

/// Refuses an operand with other extents than `wanted`; the extent of the batch may be 1.
fn fits(op: &OpRef<'_>, i: usize, wanted: &[Dim], code: Code) -> Result<(), OpError> {
    let found = &op.operand(i)?.dims;
    let agrees =
        |(d, (a, b)): (usize, (&Dim, &Dim))| unify(a, b).is_some() || (d == 0 && a.is_one());
    if found.len() == wanted.len() && found.iter().zip(wanted).enumerate().all(agrees) {
        return Ok(());
    }
    let message = format!(
        "hbir.rotary_embedding has operand {i} of {}, wanted {}",
        show(found),
        show(wanted)
    );
    Err(OpError::new(code, message))
}

/// The row of the cosines for element `s` of the sequence in element `b` of the batch.
fn angle_row(call: &Call<'_>, b: usize, s: usize, length: usize) -> Result<usize, EvalError> {
    let Some(positions) = call.inputs.get(3) else {
        let batches = call.input(1).shape[0];
        return Ok(if batches == 1 { s } else { b * length + s });
    };
    let b = if positions.shape[0] == 1 { 0 } else { b };
    let rows = call.input(1).shape[0];
    let found = positions.i64_at(b * length + s);
    let row = usize::try_from(found).ok().filter(|&r| r < rows);
    row.ok_or_else(|| EvalError::new(format!("position {found} is not below {rows}")))
}

codes! {
    const CODES;

    ROTARY_EMBEDDING_C1 = program(
        "the operands of `hbir.rotary_embedding` are no floats of one element type, or the first has not rank 4",
        r#"%0 = "hbir.rotary_embedding"(%x, %y, %z) : (tensor<1x5x6xf32>, tensor<1x5x3xf32>, tensor<1x5x3xf32>) -> tensor<1x5x6xf32>"#,
        "reshape the operand to batch, heads and sequence in either order, and the rotated dimension",
    );
    ROTARY_EMBEDDING_C2 = program(
        "`sequence_axis` of `hbir.rotary_embedding` is not 1 or 2, or `size` is odd or more than the last dimension has",
        r#"%0 = "hbir.rotary_embedding"(%x, %y, %z) : (tensor<1x2x5x7xf32>, tensor<1x5x3xf32>, tensor<1x5x3xf32>) -> tensor<1x2x5x7xf32>"#,
        "rotate an even number of elements: `size = 6` leaves the last one as it is",
    );
    ROTARY_EMBEDDING_C3 = program(
        "cosines or sines of `hbir.rotary_embedding` do not have one number for each pair and position",
        r#"%0 = "hbir.rotary_embedding"(%x, %y, %z) : (tensor<1x2x4x6xf32>, tensor<1x5x3xf32>, tensor<1x5x3xf32>) -> tensor<1x2x4x6xf32>"#,
        "give `[batch, sequence, size / 2]`, or `[positions, size / 2]` with positions as fourth operand",
    );
    ROTARY_EMBEDDING_C4 = program(
        "the positions of `hbir.rotary_embedding` are no integers, or not one for each element of the sequence",
        r#"%0 = "hbir.rotary_embedding"(%x, %y, %z, %p) : (tensor<1x2x5x6xf32>, tensor<9x3xf32>, tensor<9x3xf32>, tensor<1x5xf32>) -> tensor<1x2x5x6xf32>"#,
        "cast the positions to `si64` and give them the shape `[batch, sequence]`",
    );
}
