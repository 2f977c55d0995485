//! Shared code of operations over other axes: the dimensions of operands and results that stand in one another's place.

use optc_ir::op::{Axes, OverAxes, Run};
use optc_ir::size::Size;
use std::ops::Range;

/// The labels of some dimensions of a port.
pub(crate) fn of_dims(axes: &Axes<'_>, port: usize, dims: Range<usize>) -> Vec<Option<usize>> {
    dims.map(|d| axes.label(port, d)).collect()
}

/// All axes of these labels, in the order of the axes.
pub(crate) fn among(axes: &Axes<'_>, labels: &[Option<usize>]) -> Vec<Run> {
    let own = axes.list().iter().enumerate();
    let own = own.filter(|(_, axis)| labels.contains(&Some(axis.label)));
    own.map(|(at, _)| vec![at]).collect()
}

/// These labels in their order, a dimension each. Nothing where one is cut.
pub(crate) fn whole(axes: &Axes<'_>, labels: &[Option<usize>]) -> Option<Vec<Run>> {
    labels
        .iter()
        .map(|label| label.map_or_else(|| Some(Vec::new()), |label| axes.whole(label)))
        .collect()
}

/// Ports other than `same` have at dimension `along` a label of their own, in the place of the one that the first operand has there.
/// Nothing where it is cut, or where a label that is cut differs in extent.
pub(crate) fn exchanged(
    axes: &Axes<'_>,
    mut form: OverAxes,
    along: usize,
    same: &[usize],
) -> Option<OverAxes> {
    let first = axes.whole(axes.label(0, along)?)?;
    let own = axes.own(0);
    let at = own.iter().position(|run| *run == first)?;
    if !axes.is_even() {
        return None;
    }
    let n = axes.n_operands();
    let operands = form.operands.iter_mut().map(|(port, runs)| (*port, runs));
    let results = form.results.iter_mut().enumerate();
    for (port, runs) in operands.chain(results.map(|(i, runs)| (n + i, runs))) {
        runs.clone_from(&own);
        if !same.contains(&port) {
            runs[at] = axes.whole(axes.label(port, along)?)?;
        }
    }
    Some(form)
}

/// A size divided by a number that must divide it.
pub(crate) fn divided(size: &Size, by: u64) -> Option<Size> {
    if by == 1 {
        return Some(size.clone());
    }
    let n = size.as_constant()?;
    let by = i128::from(by);
    (n % by == 0).then(|| Size::constant(n / by))
}
