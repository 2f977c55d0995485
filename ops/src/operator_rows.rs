//! Operators of onnxruntime that are kept as one operation and work on rows, the last dimension. The dimensions before
//! it may be of any number and in any order.

use crate::prelude::*;
use optc_ir::shared_codes::OPERAND_KIND;

/// Operators on rows, and the number of their first inputs that consist of rows. Other inputs are read in their own
/// layout.
const ROWS: &[(&str, usize)] = &[
    ("BiasGelu", 1),
    ("FastGelu", 1),
    ("Gelu", 1),
    ("MatMulNBits", 1),
    ("QuickGelu", 1),
    ("SimplifiedLayerNormalization", 1),
    ("SkipLayerNormalization", 2),
    ("SkipSimplifiedLayerNormalization", 2),
];

/// The operators among them that work on single elements if they have no bias along rows.
const ELEMENTS: &[&str] = &["FastGelu", "Gelu", "QuickGelu"];

/// Returns whether an operator works on rows.
pub(crate) fn is_known(kind: &str) -> bool {
    ROWS.iter().any(|(name, _)| *name == kind)
}

/// The row of a target in which an operator is looked up.
pub(crate) fn family(kind: &str, op: &OpRef<'_>) -> &'static str {
    match on_elements(kind, op) {
        true => "elementwise",
        false => "norm",
    }
}

fn on_elements(kind: &str, op: &OpRef<'_>) -> bool {
    ELEMENTS.contains(&kind) && op.operands.len() == 1
}

/// The loops of an operator. It is a barrier if a row is several dimensions, or if rows are repeated.
pub(crate) fn iteration_domain(kind: &str, op: &OpRef<'_>) -> Result<IterationDomain, OpError> {
    if on_elements(kind, op) {
        return IterationDomain::broadcasting(op);
    }
    let rows = ROWS.iter().find(|(name, _)| *name == kind);
    let rows = rows.map_or(0, |&(_, rows)| rows);
    let axis = op.props.int("onnx.axis").unwrap_or(-1);
    let x = op.operand(0)?;
    let lead = x.rank().saturating_sub(1);
    if axis != -1 && usize::try_from(axis) != Ok(lead) {
        return Err(OpError::new(OPERAND_KIND, "a row is several dimensions"));
    }
    let mut domain = IterationDomain::new(op, FreedomClass::Ordered);
    let ids = domain.over(&x.dims);
    if let Some(&last) = ids.last() {
        domain.along_uncut(last);
    }
    for i in 0..op.operands.len().min(rows) {
        let ty = op.operand(i)?;
        if ty.rank() != x.rank() || !ty.dims.iter().zip(&x.dims).all(|(a, b)| a.same(b)) {
            return Err(OpError::new(OPERAND_KIND, "rows are repeated"));
        }
        domain.operands[i] = IndexExpr::each(&ids);
    }
    for i in 0..op.results.len() {
        let ty = op.result(i)?;
        let before = ty.dims.iter().zip(&x.dims).take(lead);
        if ty.rank() != x.rank() || !before.into_iter().all(|(a, b)| a.same(b)) {
            return Err(OpError::new(OPERAND_KIND, "a result has other rows"));
        }
        domain.results[i] = IndexExpr::each(&ids);
    }
    Ok(domain)
}

/// The form of an operator over other axes. An operator on single elements takes any axes. Otherwise the row is the
/// last dimension, and the other axes come before it in their order; they are merged into one dimension if the operand
/// does not have as many dimensions.
pub(crate) fn over_axes(kind: &str, op: &OpRef<'_>, axes: &Axes<'_>) -> Option<OverAxes> {
    let props = op.props.clone();
    if on_elements(kind, op) {
        return Some(axes.each_own(props));
    }
    let rank = op.operand(0).ok()?.rank();
    let row = axes.whole(axes.label(0, rank.checked_sub(1)?)?)?;
    let mut dims = axes.own(0);
    dims.retain(|run| *run != row);
    if rank <= dims.len() {
        dims = vec![dims.concat()];
    }
    dims.push(row);
    let rows = |port: usize| match axes.ports()[port].is_told() {
        true => Vec::new(),
        false => dims.clone(),
    };
    let ports: Vec<Vec<Run>> = (0..axes.ports().len()).map(rows).collect();
    let (operands, results) = ports.split_at(axes.n_operands());
    Some(OverAxes::new(props, operands.to_vec(), results.to_vec()))
}
