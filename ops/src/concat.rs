//! `hbir.concat`: the operands one after another along `axis` (ONNX `Concat`, StableHLO `concatenate`).

use crate::prelude::*;
use crate::shape::result_bytes;

attributes! {
    /// The operands one after another along an axis.
    pub struct Concat {
        /// The axis; negative ones count from the end.
        axis: i64,
    }
}

impl Concat {
    /// The dimension that `axis` names.
    ///
    /// # Errors
    /// The first operand has no such dimension (`concat-c2`).
    pub fn along(&self, op: &OpRef<'_>) -> Result<usize, OpError> {
        as_axis(op, CONCAT_C2, self.axis, op.operand(0)?.rank())
    }
}

impl Operation for Concat {
    const NAME: &'static str = "hbir.concat";
    const SUMMARY: &'static str = "the operands one after another along an axis";
    const FAMILY: &'static str = "concat";
    const OPERANDS: (usize, usize) = (1, usize::MAX);
    const MOVES_ONLY: bool = true;
    const PASSES_ON: bool = true;
    const CODES: &'static [Code] = CODES;

    /// C1: one element type. C2: `axis` is an axis of the operands. C3: equal ranks, and equal extents except along the
    /// axis.
    fn infer(&self, op: &OpRef<'_>) -> Result<Vec<Inferred>, OpError> {
        let dtype = common_dtype(op, CONCAT_C1, 0..op.operands.len())?;
        let first = op.operand(0)?;
        let axis = self.along(op)?;
        let mut dims = first.dims.clone();
        for i in 1..op.operands.len() {
            let next = op.operand(i)?;
            let joined = join(&dims, &next.dims, axis).ok_or_else(|| {
                let message = format!(
                    "hbir.concat of {} and {} along axis {axis}, wanted equal sizes beside the axis",
                    show(&first.dims),
                    show(&next.dims)
                );
                OpError::new(CONCAT_C3, message)
            })?;
            dims = joined;
        }
        one(dims, dtype)
    }

    fn eval(&self, call: &Call<'_>) -> Result<Vec<Tensor>, EvalError> {
        let axis = self.along(call.op)?;
        let shape = call.shape();
        let outer: usize = shape[..axis].iter().product();
        let runs = || {
            (0..outer).flat_map(move |o| {
                call.inputs.iter().map(move |t| {
                    let run: usize = t.shape[axis..].iter().product();
                    (t, o * run..(o + 1) * run)
                })
            })
        };
        let mut data = call.input(0).data.emptied();
        for (tensor, run) in runs() {
            data.append(&tensor.data, run)?;
        }
        Ok(vec![Tensor {
            dtype: call.dtype(),
            shape,
            data,
        }])
    }

    fn over_axes(&self, op: &OpRef<'_>, axes: &Axes<'_>) -> Option<OverAxes> {
        let label = axes.label(0, self.along(op).ok()?)?;
        let at = axes.first(label).filter(|&at| axes.has_equal_parts(at))?;
        let axis = axes.own(0).iter().position(|run| *run == [at])? as i64;
        Some(axes.each_own(Concat { axis }.write()))
    }

    /// Operand i is addressed from the sum of the extents of the operands before it.
    fn iteration_domain(&self, op: &OpRef<'_>) -> Result<IterationDomain, OpError> {
        let result = op.result(0)?;
        let axis = self.along(op)?;
        let mut domain = IterationDomain::new(op, FreedomClass::Ordered);
        let ids = domain.over(&result.dims);
        domain.loops[axis].role = Role::Axis;
        domain.operands.fill(IndexExpr::each(&ids));
        domain.results[0] = IndexExpr::each(&ids);
        let mut before = 0i64;
        for i in 0..op.operands.len() {
            domain.operands[i][axis] = IndexExpr::shifted(axis, 1, -before);
            let extent = op.operand(i)?.dims[axis].fixed().unwrap_or(0);
            before = before.saturating_add_unsigned(extent);
        }
        Ok(domain)
    }

    /// Operand i is a part of the result, which starts at the sum of the extents of the operands before it.
    fn parts(&self, op: &OpRef<'_>, _: &Known<'_>) -> Vec<Part> {
        let Ok(axis) = self.along(op) else {
            return Vec::new();
        };
        let mut parts = Vec::with_capacity(op.operands.len());
        let mut before = Size::default();
        for i in 0..op.operands.len() {
            let Ok(ty) = op.operand(i) else { break };
            let along = |d: usize| match d == axis {
                true => Along::from(d, before.clone()),
                false => Along::whole(d),
            };
            parts.push(Part {
                part: Port::Operand(i),
                whole: Port::Result(0),
                dims: (0..ty.rank()).map(along).collect(),
            });
            let size = ty.dims.get(axis).and_then(Dim::size);
            let Some(next) = size.and_then(|n| before.plus(&n)) else {
                break;
            };
            before = next;
        }
        parts
    }

    fn traffic(&self, op: &OpRef<'_>) -> Traffic {
        if op.operands.len() == 1 {
            return Traffic::None;
        }
        let w = result_bytes(op);
        Traffic::Copy(w.clone(), w)
    }
}

/// The shape of a concatenation of two operands; `None` if their shapes do not allow it.
fn join(a: &[Dim], b: &[Dim], axis: usize) -> Option<Vec<Dim>> {
    if a.len() != b.len() {
        return None;
    }
    let sum = |a: &Dim, b: &Dim| match (a.fixed(), b.fixed()) {
        (Some(m), Some(n)) => m.checked_add(n).map(Dim::Fixed),
        _ => Some(computed(a, |m| m.plus(&b.size()?))),
    };
    let pairs = a.iter().zip(b).enumerate();
    pairs
        .map(|(d, (a, b))| if d == axis { sum(a, b) } else { unify(a, b) })
        .collect()
}

codes! {
    const CODES;

    CONCAT_C1 = program(
        "the operands of `hbir.concat` have different element types",
        r#"%0 = "hbir.concat"(%x, %y) <{axis = 0}> : (tensor<2xf32>, tensor<2xsi8>) -> tensor<4xf32>"#,
        "cast the operands to one element type",
    );
    CONCAT_C2 = program(
        "`hbir.concat` names an axis that its operands do not have",
        r#"%0 = "hbir.concat"(%x) <{axis = 1}> : (tensor<2xf32>) -> tensor<2xf32>"#,
        "count axes from 0, or from the end with negative numbers: rank 3 has the axes -3 to 2",
    );
    CONCAT_C3 = program(
        "the operands of `hbir.concat` differ in rank, or in a size beside the axis",
        r#"%0 = "hbir.concat"(%x, %y) <{axis = 0}> : (tensor<2x2xf32>, tensor<2x3xf32>) -> tensor<4x2xf32>"#,
        "all sizes but that of the axis must agree; transpose or reshape the operand that differs",
    );
}
