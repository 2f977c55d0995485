//! The labels of an operation at its ports, and their roles.

use crate::ports::{of_floats, ports, some_size};
use optc_ir::{Freedom, FreedomClass, Func, Op, Role};
use optc_ops::Dequantized;
use optc_target::{PortRole, When};

pub(crate) fn labels_of(freedom: &Freedom, port: usize) -> &[Option<usize>] {
    let n = freedom.operands.len();
    let at = match port < n {
        true => freedom.operands.get(port),
        false => freedom.results.get(port - n),
    };
    at.map_or(&[], Vec::as_slice)
}

/// Returns whether an operation is one of those that an alternative or a price is for.
pub(crate) fn is_of(
    (func, dequantized): (&Func, &Dequantized),
    op: Op,
    freedom: &Freedom,
    when: Option<When>,
) -> bool {
    let pointwise = || pointwise_groups(func, op, freedom).is_some();
    match when {
        None | Some(When::Untiled) => true,
        Some(When::Pointwise) => pointwise(),
        Some(When::Depthwise) => freedom.is_depthwise(),
        Some(When::Mixing) => !freedom.is_depthwise(),
        Some(When::Patches) => reads_once(func, op, freedom) && !pointwise(),
        Some(When::Floats) => of_floats(func, op),
        Some(When::Unquantized) => of_floats(func, op) && !dequantized.multiplied_by(func, op),
        Some(When::Matrices) => is_of_matrices(func, op, freedom),
    }
}

/// Returns whether a contraction has several elements in dimensions of its left operand alone, and of its right operand
/// alone. A stand-in replaces each unknown size.
fn is_of_matrices(func: &Func, op: Op, freedom: &Freedom) -> bool {
    let n_operands = freedom.operands.len();
    let values = ports(func, op);
    let alone = |port: usize, wanted: PortRole| {
        let shape = values.get(port).and_then(|&v| some_size(func, v)?.shape());
        let dims = shape.into_iter().flatten().zip(labels_of(freedom, port));
        let mut long = dims.filter_map(|(n, label)| (*label).filter(|_| 1 < n));
        long.any(|label| role(freedom, label, n_operands) == wanted)
    };
    freedom.class == FreedomClass::Contract && alone(0, PortRole::M) && alone(1, PortRole::N)
}

/// The number of groups of a convolution that only mixes channels: every extent of the kernel is 1 and the image keeps
/// its size. `None` for any other operation.
pub(crate) fn pointwise_groups(func: &Func, op: Op, freedom: &Freedom) -> Option<u64> {
    let [x, w, y] = convolved(func, op, freedom)?;
    let groups = x[1].checked_div(w[1]).filter(|&groups| groups != 0)?;
    let same_image = x[2..] == y[2..] && w[2..].iter().all(|&k| k == 1);
    let whole = groups * w[1] == x[1] && w[0] == y[1] && y[1].is_multiple_of(groups);
    (same_image && whole).then_some(groups)
}

/// The shapes of the data, the weights and the result of a convolution that is not transposed and has at least two
/// dimensions. A stand-in replaces each unknown size.
fn convolved(func: &Func, op: Op, freedom: &Freedom) -> Option<[Vec<u64>; 3]> {
    let data = &func.ops[op];
    let values = [
        data.operands.first()?,
        data.operands.get(1)?,
        data.results.first()?,
    ];
    let shapes = values.map(|&v| some_size(func, v).and_then(|ty| ty.shape()));
    let [Some(x), Some(w), Some(y)] = shapes else {
        return None;
    };
    let ranked = [&x, &w, &y].iter().all(|shape| 2 <= shape.len());
    // In a transposed convolution the first dimension of the weights is that of the input.
    let output = freedom.results.first().and_then(|l| l.get(1));
    let straight = output.is_some() && freedom.operands[1].first() == output;
    let found = freedom.class == FreedomClass::Window && ranked && straight;
    found.then_some([x, w, y])
}

/// Returns whether the operation is a convolution of one group that reads each position of its data once: the extents
/// of the data are those of the result times those of the kernel.
pub(crate) fn reads_once(func: &Func, op: Op, freedom: &Freedom) -> bool {
    let Some([x, w, y]) = convolved(func, op, freedom) else {
        return false;
    };
    let rank = x.len();
    let once = |d: usize| y[d].checked_mul(w[d]) == Some(x[d]);
    let ranked = 3 <= rank && w.len() == rank && y.len() == rank;
    ranked && x[1] == w[1] && y[1] == w[0] && (2..rank).all(once)
}

/// The role of a label in the words of target rows.
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
