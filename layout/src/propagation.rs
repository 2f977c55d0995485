//! Propagates a layout through a map: the function of the result if the buffer stays unchanged.

use crate::dims::{Dims, Sizes, product};
use crate::function::{Function, Groups};
use crate::map::{Refinement, ViewMap};
use crate::not_view::NotViewReason;
use crate::placement::Placement;

/// The positions of the result's elements if the buffer stays unchanged.
pub(crate) fn propagated_function(
    input: &Placement,
    map: &ViewMap,
) -> Result<Function, NotViewReason> {
    let function = input.function();
    let operand = input.shape();
    if function.program.is_some() {
        let same = map.result == operand && map.is_reshape(operand);
        let refused = NotViewReason::Positions;
        return same.then(|| function.clone()).ok_or(refused);
    }
    if function.order.is_none() && map.is_reshape(operand) || input.elements() <= 1 {
        return Ok(Function {
            order: None,
            ..function.clone()
        });
    }
    let middle = map.middle(operand);
    let axes = map.axes(middle.len());
    let (sizes, target) = match &function.order {
        None => plain_factors(middle, &axes),
        Some(order) => refined_factors(operand, order, middle, &axes).ok_or_else(|| {
            NotViewReason::CutAcross {
                sizes: operand.to_vec(),
            }
        })?,
    };
    let (sizes, target) = merge_neighbours(&sizes, &target);
    rearrange(function, &sizes, &target, &map.result)
}

/// The dimensions longer than 1 in their order, and their places after the transpose.
fn plain_factors(middle: &[u64], axes: &[usize]) -> (Sizes, Dims) {
    let long: Dims = (0..middle.len()).filter(|&axis| 1 < middle[axis]).collect();
    let sizes = long.iter().map(|&axis| middle[axis]).collect();
    let target = axes
        .iter()
        .filter_map(|axis| long.binary_search(axis).ok())
        .collect();
    (sizes, target)
}

/// The factors and their places for a chain that counts the operand's dimensions in another order.
fn refined_factors(
    operand: &[u64],
    order: &[usize],
    middle: &[u64],
    axes: &[usize],
) -> Option<(Sizes, Dims)> {
    let meet = Refinement::of(operand, middle)?;
    let source: Vec<usize> = order
        .iter()
        .flat_map(|&dim| meet.left[dim].clone())
        .collect();
    let sizes = source.iter().map(|&factor| meet.sizes[factor]).collect();
    let target = axes.iter().flat_map(|&axis| meet.right[axis].clone());
    let place = |factor| source.iter().position(|&other| other == factor);
    Some((sizes, target.map(place).collect::<Option<_>>()?))
}

/// Merges factors that stay adjacent in their order. `target` lists factors in the new order.
pub(crate) fn merge_neighbours(sizes: &[u64], target: &[usize]) -> (Sizes, Dims) {
    let starts: Dims = target
        .iter()
        .enumerate()
        .filter(|&(i, &factor)| i == 0 || target[i - 1] + 1 != factor)
        .map(|(_, &factor)| factor)
        .collect();
    let mut sorted = starts.clone();
    sorted.sort_unstable();
    let merged = |i: usize| {
        let stop = sorted.get(i + 1).copied().unwrap_or(sizes.len());
        product(&sizes[sorted[i]..stop])
    };
    let target = starts
        .iter()
        .filter_map(|start| sorted.binary_search(start).ok())
        .collect();
    ((0..sorted.len()).map(merged).collect(), target)
}

/// The function over the row-major numbers of `result`, given a chain that counts `sizes`, if the result counts them in
/// the order `target`.
fn rearrange(
    function: &Function,
    sizes: &[u64],
    target: &[usize],
    result: &[u64],
) -> Result<Function, NotViewReason> {
    let groups = Groups::of(&function.chain, sizes);
    if groups.len() == sizes.len() {
        return Ok(Function::logical(groups.in_order(target), function.offset));
    }
    let order = order_of_dims(sizes, target, result);
    let order = order.ok_or_else(|| NotViewReason::CutAcross {
        sizes: sizes.to_vec(),
    })?;
    Ok(Function::new(
        &order,
        function.chain.clone(),
        result,
        function.offset,
    ))
}

/// The dimensions of `result` in the order of `sizes`; `None` unless each factor consists of whole dimensions.
fn order_of_dims(sizes: &[u64], target: &[usize], result: &[u64]) -> Option<Vec<usize>> {
    let mut dims_of = vec![Vec::new(); sizes.len()];
    let mut dims = (0..result.len()).filter(|&dim| 1 < result[dim]);
    for &factor in target {
        let mut left = sizes[factor];
        while 1 < left {
            let dim = dims.next()?;
            if !left.is_multiple_of(result[dim]) {
                return None;
            }
            left /= result[dim];
            dims_of[factor].push(dim);
        }
    }
    Some(dims_of.concat())
}
