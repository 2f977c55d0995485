//! Shared code of forms of operations over other axes.

use crate::prelude::*;
use std::ops::Range;

/// The labels of a range of dimensions of a port.
pub(crate) fn of_dims(axes: &Axes<'_>, port: usize, dims: Range<usize>) -> Vec<Option<usize>> {
    dims.map(|d| axes.label(port, d)).collect()
}

/// The axes with one of these labels, one dimension each, in the order of the axes.
pub(crate) fn among(axes: &Axes<'_>, labels: &[Option<usize>]) -> Vec<Run> {
    let own = axes.list().iter().enumerate();
    let own = own.filter(|(_, axis)| labels.contains(&Some(axis.label)));
    own.map(|(at, _)| vec![at]).collect()
}

/// One dimension for each label, in the order of the labels; a dimension without a label has extent 1. `None` if a
/// label is cut.
pub(crate) fn whole(axes: &Axes<'_>, labels: &[Option<usize>]) -> Option<Vec<Run>> {
    labels
        .iter()
        .map(|label| label.map_or_else(|| Some(Vec::new()), |label| axes.whole(label)))
        .collect()
}

/// The form in which every port has the axes of the first operand, except for dimension `along`: there, ports not
/// listed in `same` have the axis of their own label. `None` if that label is cut, or if a cut label has different
/// extents at different ports.
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

/// The quotient of a size by a number that must divide it; `None` otherwise.
pub(crate) fn divided(size: &Size, by: u64) -> Option<Size> {
    if by == 1 {
        return Some(size.clone());
    }
    let n = size.as_constant()?;
    let by = i128::from(by);
    (n % by == 0).then(|| Size::constant(n / by))
}
