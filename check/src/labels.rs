//! The labels of an operation at its ports, and what they are.

use optc_ir::{Freedom, FreedomClass, Func, Role, TensorType, Value};
use optc_target::PortRole;

pub(crate) fn labels_of(freedom: &Freedom, port: usize) -> &[Option<usize>] {
    let n = freedom.operands.len();
    let at = match port < n {
        true => freedom.operands.get(port),
        false => freedom.results.get(port - n),
    };
    at.map_or(&[], Vec::as_slice)
}

/// The extent of a label at a port; 1 where it has none.
pub(crate) fn extent(
    func: &Func,
    values: &[Value],
    freedom: &Freedom,
    port: usize,
    label: usize,
) -> u64 {
    let dim = labels_of(freedom, port)
        .iter()
        .position(|l| *l == Some(label));
    let shape = func
        .ty(values[port])
        .as_tensor()
        .and_then(TensorType::shape);
    match (dim, shape) {
        (Some(dim), Some(shape)) => shape.get(dim).copied().unwrap_or(1),
        _ => 1,
    }
}

pub(crate) fn labelled(freedom: &Freedom, port: usize, dims: &[usize]) -> Vec<Option<usize>> {
    let labels = labels_of(freedom, port);
    dims.iter()
        .map(|&d| labels.get(d).copied().flatten())
        .collect()
}

/// What a label is, as rows speak of it.
pub(crate) fn role(freedom: &Freedom, label: usize, n_operands: usize) -> PortRole {
    let has = |port: usize| labels_of(freedom, port).contains(&Some(label));
    let (left, right, result) = (has(0), 1 < n_operands && has(1), has(n_operands));
    match freedom.class {
        FreedomClass::Contract => match (left, right, result) {
            (true, true, true) => PortRole::Batch,
            (true, true, false) => PortRole::K,
            (true, false, _) => PortRole::M,
            (false, true, _) => PortRole::N,
            (false, false, _) => PortRole::Parallel,
        },
        FreedomClass::Window => match (freedom.labels[label].role, left, result) {
            (Role::Batch, ..) => PortRole::Batch,
            (Role::Spatial, ..) => PortRole::Spatial,
            (Role::Channel, true, true) => PortRole::Channel,
            (Role::Channel, false, true) => PortRole::Output,
            (Role::Channel, _, false) => PortRole::Input,
            (Role::Axis | Role::Parallel, ..) => PortRole::Tap,
        },
        _ => match freedom.labels[label].role {
            Role::Axis => PortRole::Axis,
            Role::Batch => PortRole::Batch,
            Role::Channel => PortRole::Channel,
            Role::Spatial => PortRole::Spatial,
            Role::Parallel => PortRole::Parallel,
        },
    }
}
