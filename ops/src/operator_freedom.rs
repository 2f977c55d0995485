//! What operators of ONNX that stay opaque leave free: what they are told to do is known when the program runs, but
//! they work dimension by dimension, whatever they are told.
//!
//! Inputs that say what to do (amounts, bounds, axes, boxes) are read as they are: they share no dimension with what is
//! worked on. So are the weights of recurrent networks and of deformable convolutions.

use crate::labels::{Labels, marks, or_barrier};
use optc_ir::op::{Freedom, FreedomClass, OpError, OpRef, Role};
use optc_ir::shared_codes::OPERAND_KIND;
use optc_ir::types::{Dim, TensorType};

/// Operators whose result has the dimensions of their first input, each longer or shorter than there.
const EACH_DIMENSION: &[&str] = &[
    "CenterCropPad",
    "CumProd",
    "CumSum",
    "DFT",
    "Hardmax",
    "Pad",
    "Resize",
    "Slice",
    "Tile",
    "Trilu",
    "Upsample",
];

/// Operators that give an image for each box, of the channels of the images that they are given.
const BOXES: &[&str] = &["MaxRoiPool", "RoiAlign"];

/// Reductions. One that does not keep the dimensions that it reduces has labels where the sizes say which these are.
const REDUCTIONS: &[&str] = &[
    "ReduceL1",
    "ReduceL2",
    "ReduceLogSum",
    "ReduceLogSumExp",
    "ReduceMax",
    "ReduceMean",
    "ReduceMin",
    "ReduceProd",
    "ReduceSum",
    "ReduceSumSquare",
];

/// The freedom of an operator of the ONNX standard; a barrier where nothing is known of it.
pub(crate) fn freedom(kind: &str, op: &OpRef<'_>) -> Freedom {
    let stated = |name: &str| op.props.int(name);
    match kind {
        _ if op.props.int("captures").is_some() => Freedom::barrier(op),
        _ if EACH_DIMENSION.contains(&kind) => dimensions(op, None),
        _ if REDUCTIONS.contains(&kind) && stated("onnx.keepdims") != Some(0) => {
            dimensions(op, None)
        }
        _ if REDUCTIONS.contains(&kind) => reduced_away(op),
        _ if BOXES.contains(&kind) => images(op, &[0], &[], Some(1)),
        "DeformConv" => images(op, &[0], &[OFFSETS, MASK], Some(0)),
        "Det" => determinants(op),
        "Expand" => expanded(op),
        "LRN" => dimensions(op, Some(1)),
        "MaxUnpool" => images(op, &[0, 1], &[], None),
        "OneHot" => marked(op, stated("onnx.axis").unwrap_or(-1)),
        "Squeeze" | "Unsqueeze" => unit_dimensions(op),
        "Compress" => match stated("onnx.axis") {
            Some(axis) => dimensions(op, Some(axis)),
            None => Freedom::barrier(op),
        },
        "Split" => dimensions(op, Some(stated("onnx.axis").unwrap_or(0))),
        "TopK" => dimensions(op, Some(stated("onnx.axis").unwrap_or(-1))),
        "GRU" | "LSTM" | "RNN" => recurrent(op),
        _ => Freedom::barrier(op),
    }
}

fn unfit(reason: &'static str) -> OpError {
    OpError::new(OPERAND_KIND, reason)
}

/// All results have the dimensions of the first operand, and the operator works along one or along all of them.
fn dimensions(op: &OpRef<'_>, axis: Option<i64>) -> Freedom {
    or_barrier(op, FreedomClass::Ordered, |f| {
        let rank = op.operand(0)?.rank();
        let axis = match axis {
            None => None,
            Some(axis) => {
                let counted = if axis < 0 { axis + rank as i64 } else { axis };
                let found = usize::try_from(counted).ok().filter(|&a| a < rank);
                Some(found.ok_or_else(|| unfit("the axis is none of the dimensions"))?)
            }
        };
        let labels = f.fresh_for(rank);
        for (d, &label) in labels.iter().enumerate() {
            if axis.is_none_or(|axis| axis == d) {
                f.role(label, Role::Axis);
                f.uncut(label);
            }
        }
        f.operand(marks(&labels));
        told(f, op, 1)?;
        for i in 0..op.results.len() {
            if op.result(i)?.rank() != rank {
                return Err(unfit("a result has another rank"));
            }
            f.result(marks(&labels));
        }
        Ok(())
    })
}

/// The result has those dimensions of the first operand that are not reduced, which are only as its sizes say.
fn reduced_away(op: &OpRef<'_>) -> Freedom {
    or_barrier(op, FreedomClass::Ordered, |f| {
        let (x, y) = (op.operand(0)?, op.result(0)?);
        let kept = only_places(&y.dims, &x.dims);
        let kept = kept.ok_or_else(|| unfit("the sizes do not say which dimensions are left"))?;
        let labels = f.fresh_for(x.rank());
        for &label in &labels {
            f.role(label, Role::Axis);
            f.uncut(label);
        }
        f.operand(marks(&labels));
        told(f, op, 1)?;
        f.result(kept.iter().map(|&d| Some(labels[d])).collect());
        Ok(())
    })
}

/// Where these dimensions stand among others, in order, if there is only one way in which they may.
fn only_places(some: &[Dim], all: &[Dim]) -> Option<Vec<usize>> {
    let may_be = |a: &Dim, b: &Dim| match (a.fixed(), b.fixed()) {
        (Some(a), Some(b)) => a == b,
        (None, _) | (_, None) => true,
    };
    // As far in front as they may stand, and as far behind.
    let mut first = Vec::with_capacity(some.len());
    let mut at = 0;
    for dim in some {
        at += all[at..].iter().position(|other| may_be(dim, other))?;
        first.push(at);
        at += 1;
    }
    let mut last = Vec::with_capacity(some.len());
    let mut end = all.len();
    for dim in some.iter().rev() {
        end = all[..end].iter().rposition(|other| may_be(dim, other))?;
        last.push(end);
    }
    last.reverse();
    (first == last).then_some(first)
}

/// The dimensions of the result are those of the first operand, beside some of one element.
fn unit_dimensions(op: &OpRef<'_>) -> Freedom {
    or_barrier(op, FreedomClass::Ordered, |f| {
        let long = |t: &TensorType| -> Vec<usize> {
            (0..t.rank()).filter(|&d| !t.dims[d].is_one()).collect()
        };
        let (x, y) = (op.operand(0)?, op.result(0)?);
        let (of_x, of_y) = (long(x), long(y));
        let mut pairs = of_x.iter().zip(&of_y);
        if of_x.len() != of_y.len() || !pairs.all(|(&i, &j)| x.dims[i].same(&y.dims[j])) {
            return Err(unfit("the dimensions of more than one element differ"));
        }
        let labels = f.fresh_for(of_x.len());
        let labelled = |t: &TensorType, long: &[usize]| {
            let mut own = vec![None; t.rank()];
            for (&d, &label) in long.iter().zip(&labels) {
                own[d] = Some(label);
            }
            own
        };
        f.operand(labelled(x, &of_x));
        told(f, op, 1)?;
        f.result(labelled(y, &of_y));
        Ok(())
    })
}

/// The first operand repeated along dimensions of one element and along new ones before its own.
fn expanded(op: &OpRef<'_>) -> Freedom {
    or_barrier(op, FreedomClass::Ordered, |f| {
        let (x, y) = (op.operand(0)?, op.result(0)?);
        let Some(lead) = y.rank().checked_sub(x.rank()) else {
            return Err(unfit("the operand has a higher rank than the result"));
        };
        let labels = f.fresh_for(y.rank());
        for &label in &labels {
            f.role(label, Role::Axis);
            f.uncut(label);
        }
        f.operand(marks(&labels[lead..]));
        told(f, op, 1)?;
        f.result(marks(&labels));
        Ok(())
    })
}

/// The inputs of a deformable convolution that say of each pixel where it is read, and how much it counts.
const OFFSETS: usize = 2;
const MASK: usize = 4;

/// The result has images in the place of those that are read at these positions. What is said at each `pixel` has channels
/// of its own, all other inputs are read as they are. The dimensions are worked along but for one, if any, whose indices
/// have nothing to do with one another.
fn images(op: &OpRef<'_>, read: &[usize], pixel: &[usize], apart: Option<usize>) -> Freedom {
    or_barrier(op, FreedomClass::Ordered, |f| {
        let y = op.result(0)?;
        let labels = f.fresh_for(y.rank());
        for (d, &label) in labels.iter().enumerate() {
            if apart != Some(d) {
                f.role(label, Role::Axis);
                f.uncut(label);
            }
        }
        for i in 0..op.operands.len() {
            match (position(op, i), &labels[..]) {
                (Some(p), _) if read.contains(&p) => f.operand(marks(&labels)),
                (Some(p), [batch, _, spatial @ ..]) if pixel.contains(&p) => {
                    let own = f.fresh(Role::Axis);
                    f.uncut(own);
                    f.operand(marks(&[&[*batch, own], spatial].concat()));
                }
                _ => f.operand(vec![None; op.operand(i)?.rank()]),
            }
        }
        f.result(marks(&labels));
        Ok(())
    })
}

/// One number for each matrix, which are the last two dimensions.
fn determinants(op: &OpRef<'_>) -> Freedom {
    or_barrier(op, FreedomClass::Ordered, |f| {
        let batch = f.fresh_for(op.result(0)?.rank());
        let matrix = [f.fresh(Role::Axis), f.fresh(Role::Axis)];
        for label in matrix {
            f.uncut(label);
        }
        f.operand(marks(&[&batch[..], &matrix].concat()));
        f.result(marks(&batch));
        Ok(())
    })
}

/// Each index of the first operand marked along a new dimension, counted from behind where it is negative.
fn marked(op: &OpRef<'_>, axis: i64) -> Freedom {
    or_barrier(op, FreedomClass::Ordered, |f| {
        let rank = op.result(0)?.rank();
        let counted = if axis < 0 { axis + rank as i64 } else { axis };
        let axis = usize::try_from(counted).ok().filter(|&a| a < rank);
        let axis = axis.ok_or_else(|| unfit("the axis is none of the dimensions"))?;
        let labels = f.fresh_for(rank);
        f.role(labels[axis], Role::Axis);
        f.uncut(labels[axis]);
        f.operand(marks(&[&labels[..axis], &labels[axis + 1..]].concat()));
        told(f, op, 1)?;
        f.result(marks(&labels));
        Ok(())
    })
}

/// Which input of the operator an operand is: those that are left out are no operands.
fn position(op: &OpRef<'_>, operand: usize) -> Option<usize> {
    match op.props.ints("input_positions") {
        Some(positions) => positions
            .get(operand)
            .and_then(|&n| usize::try_from(n).ok()),
        None => Some(operand),
    }
}

/// The operands from `first` on are read as they are.
fn told(f: &mut Labels, op: &OpRef<'_>, first: usize) -> Result<(), OpError> {
    for i in first..op.operands.len() {
        f.operand(vec![None; op.operand(i)?.rank()]);
    }
    Ok(())
}

/// Inputs of a recurrent network: data, weights of inputs and of states, biases, lengths, initial states, and (of an
/// LSTM) initial cells and peepholes.
const INITIAL_STATE: usize = 5;
const INITIAL_CELL: usize = 6;

/// Batch and sequence, and what is read and remembered: weights are read as they are.
fn recurrent(op: &OpRef<'_>) -> Freedom {
    let batch_first = op.props.int("onnx.layout").unwrap_or(0) == 1;
    or_barrier(op, FreedomClass::Ordered, |f| {
        let [sequence, batch, read, direction, kept] = [
            Role::Axis,
            Role::Parallel,
            Role::Axis,
            Role::Parallel,
            Role::Axis,
        ]
        .map(|role| f.fresh(role));
        [sequence, read, direction, kept]
            .iter()
            .for_each(|&label| f.uncut(label));
        let state = match batch_first {
            true => [batch, direction, kept],
            false => [direction, batch, kept],
        };
        for i in 0..op.operands.len() {
            match position(op, i) {
                Some(0) if batch_first => f.operand(marks(&[batch, sequence, read])),
                Some(0) => f.operand(marks(&[sequence, batch, read])),
                Some(INITIAL_STATE | INITIAL_CELL) => f.operand(marks(&state)),
                _ => f.operand(vec![None; op.operand(i)?.rank()]),
            }
        }
        for i in 0..op.results.len() {
            match (i, batch_first) {
                (0, true) => f.result(marks(&[batch, sequence, direction, kept])),
                (0, false) => f.result(marks(&[sequence, direction, batch, kept])),
                _ => f.result(marks(&state)),
            }
        }
        Ok(())
    })
}
