//! `hbir.gather` (ONNX `Gather`): the elements along `axis` at the positions in the indices. The dimensions of the
//! indices replace the axis: `y[i.., j.., k..] = x[i.., indices[j..], k..]`. An index below 0 counts from the end.

use crate::prelude::*;
use crate::shape::result_bytes;
use std::cmp::Ordering;

attributes! {
    /// The elements along an axis at the positions in the indices.
    pub struct Gather {
        /// The axis; negative ones count from the end.
        axis: i64 = 0,
    }
}

impl Gather {
    /// The dimension that `axis` names.
    ///
    /// # Errors
    /// The first operand has no such dimension (`gather-c1`).
    pub fn along(&self, op: &OpRef<'_>) -> Result<usize, OpError> {
        as_axis(op, GATHER_C1, self.axis, op.operand(0)?.rank())
    }

    fn as_part(&self, op: &OpRef<'_>, known: &Known<'_>) -> Option<Part> {
        let axis = self.along(op).ok()?;
        let (rank, n) = (
            op.operand(0).ok()?.rank(),
            op.operand(0).ok()?.dims[axis].fixed()?,
        );
        let indices = op.operand(1).ok()?;
        let long: Vec<usize> = (0..indices.rank())
            .filter(|&d| indices.dims[d] != Dim::Fixed(1))
            .collect();
        let (start, step) = evenly_spaced(&known(1)?, n)?;
        let start = Size::from(start);
        let picked = match long[..] {
            [] => Along::at(start),
            [d] => Along {
                step,
                ..Along::from(axis + d, start)
            },
            _ => return None,
        };
        let along = |d: usize| match d.cmp(&axis) {
            Ordering::Less => Along::whole(d),
            Ordering::Equal => picked.clone(),
            Ordering::Greater => Along::whole(d + indices.rank() - 1),
        };
        Some(Part {
            part: Port::Result(0),
            whole: Port::Operand(0),
            dims: (0..rank).map(along).collect(),
        })
    }
}

impl Operation for Gather {
    const NAME: &'static str = "hbir.gather";
    const SUMMARY: &'static str = "the elements along an axis that indices name";
    const FAMILY: &'static str = "gather";
    const OPERANDS: (usize, usize) = (2, 2);
    const MOVES_ONLY: bool = true;
    const PASSES_ON: bool = true;
    const CODES: &'static [Code] = CODES;

    /// C1: an axis of the first operand. C2: the indices are integers.
    fn infer(&self, op: &OpRef<'_>) -> Result<Vec<Inferred>, OpError> {
        let (x, indices) = (op.operand(0)?, op.operand(1)?);
        let axis = self.along(op)?;
        wants_index(op, GATHER_C2, 1)?;
        one(
            [&x.dims[..axis], &indices.dims, &x.dims[axis + 1..]].concat(),
            x.dtype,
        )
    }

    fn eval(&self, call: &Call<'_>) -> Result<Vec<Tensor>, EvalError> {
        let (x, indices) = (call.input(0), call.input(1));
        let axis = self.along(call.op)?;
        let n = x.shape[axis];
        let places: Result<Vec<usize>, EvalError> = (0..indices.len())
            .map(|i| position(indices.i64_at(i), n))
            .collect();
        let (places, inner) = (places?, x.shape[axis + 1..].iter().product::<usize>());
        let row = places.len() * inner;
        Ok(vec![x.gather(call.shape(), |i| {
            (i / row * n + places[i % row / inner]) * inner + i % inner
        })])
    }

    fn iteration_domain(&self, op: &OpRef<'_>) -> Result<IterationDomain, OpError> {
        let (x, indices) = (op.operand(0)?, op.operand(1)?.rank());
        let axis = self.along(op)?;
        let mut domain = IterationDomain::new(op, FreedomClass::Ordered);
        let ids = domain.over(&op.result(0)?.dims);
        let gathered = domain.add_for(&x.dims[axis], LoopKind::Whole);
        let own = [&ids[..axis], &[gathered], &ids[axis + indices..]].concat();
        domain.operands[0] = IndexExpr::each(&own);
        domain.operands[1] = IndexExpr::each(&ids[axis..axis + indices]);
        domain.results[0] = IndexExpr::each(&ids);
        Ok(domain)
    }

    /// The form: in the result, the axes of the indices replace the gathered axis of the data.
    fn over_axes(&self, op: &OpRef<'_>, axes: &Axes<'_>) -> Option<OverAxes> {
        let gathered = axes.whole(axes.label(0, self.along(op).ok()?)?)?;
        let (data, indices) = (axes.own(0), axes.own(1));
        let at = data.iter().position(|run| *run == gathered)?;
        let mut result = data.clone();
        result.splice(at..=at, indices.iter().cloned());
        let props = Gather { axis: at as i64 }.write();
        Some(OverAxes::new(props, vec![data, indices], vec![result]))
    }

    fn traffic(&self, op: &OpRef<'_>) -> Traffic {
        traffic(op)
    }

    /// The result is a part of the operand if the indices are constant and are one element or evenly spaced.
    fn parts(&self, op: &OpRef<'_>, known: &Known<'_>) -> Vec<Part> {
        self.as_part(op, known).into_iter().collect()
    }

    /// The gather only rearranges if the constant indices are a permutation of the axis.
    fn permutes(&self, op: &OpRef<'_>, known: &Known<'_>) -> Option<usize> {
        if op.operands.len() != 2 {
            return None;
        }
        let shape = op.operand(0).ok()?.shape()?;
        let axis = self.along(op).ok()?;
        is_permutation(&known(1)?, shape[axis]).then_some(0)
    }

    fn indexed(&self, op: &OpRef<'_>) -> Option<(usize, Vec<Dim>)> {
        indexed_axis(op, GATHER_C1, self.axis)
    }
}

/// The first of some positions in an axis of `n` elements, and the step between them; `None` if they are not evenly
/// spaced.
fn evenly_spaced(indices: &Tensor, n: u64) -> Option<(u64, i64)> {
    let size = i64::try_from(n).ok()?;
    let at = |i: usize| match indices.i64_at(i) {
        i if i < 0 => i.saturating_add(size),
        i => i,
    };
    let first = match indices.len() {
        0 => return None,
        _ => at(0),
    };
    let step = match indices.len() {
        1 => 1,
        _ => at(1).checked_sub(first)?,
    };
    let inside = |i: usize| (0..size).contains(&at(i));
    let even = |i: usize| at(i).checked_sub(at(i - 1)) == Some(step);
    let all = step != 0 && (0..indices.len()).all(inside) && (1..indices.len()).all(even);
    Some((u64::try_from(first).ok()?, step)).filter(|_| all)
}

/// Returns whether the indices are a permutation of the positions of an axis of `n` elements, other than the identity.
fn is_permutation(indices: &Tensor, n: u64) -> bool {
    if indices.len() as u64 != n {
        return false;
    }
    let size = i64::try_from(n).unwrap_or(i64::MAX);
    let places: Vec<i64> = (0..indices.len())
        .map(|i| indices.i64_at(i))
        .map(|i| if i < 0 { i + size } else { i })
        .collect();
    let mut sorted = places.clone();
    sorted.sort_unstable();
    let full = sorted.iter().zip(0i64..).all(|(&a, b)| a == b);
    let identity = places.iter().zip(0i64..).all(|(&a, b)| a == b);
    full && !identity
}

/// The number of the operand with the indices, and the extent that they index: that of this axis of the first operand.
pub(crate) fn indexed_axis(op: &OpRef<'_>, code: Code, axis: i64) -> Option<(usize, Vec<Dim>)> {
    let x = op.operand(0).ok()?;
    let axis = as_axis(op, code, axis, x.rank()).ok()?;
    Some((1, vec![x.dims[axis].clone()]))
}

/// As many bytes are read as written: those of the result, not of the whole operand.
pub(crate) fn traffic(op: &OpRef<'_>) -> Traffic {
    let w = result_bytes(op);
    Traffic::Copy(w.clone(), w)
}

/// The position that an index means in an axis of `n` elements.
pub(crate) fn position(index: i64, n: usize) -> Result<usize, EvalError> {
    let at = if index < 0 {
        index.saturating_add(n as i64)
    } else {
        index
    };
    usize::try_from(at)
        .ok()
        .filter(|&at| at < n)
        .ok_or_else(|| EvalError::new(format!("index {index} is out of bounds of {n} elements")))
}

codes! {
    const CODES;

    GATHER_C1 = program(
        "`hbir.gather` names an axis that its first operand does not have",
        r#"%0 = "hbir.gather"(%x, %y) <{axis = 2}> : (tensor<2x3xf32>, tensor<2xsi64>) -> tensor<2x3xf32>"#,
        "count axes from 0, or from the end with negative numbers: rank 3 has the axes -3 to 2",
    );
    GATHER_C2 = program(
        "the indices of `hbir.gather` are no integers",
        r#"%0 = "hbir.gather"(%x, %y) : (tensor<2x3xf32>, tensor<2xf32>) -> tensor<2x3xf32>"#,
        "cast the indices to `si64` or `si32`",
    );
}
