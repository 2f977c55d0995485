//! The loops of ONNX operators that stay opaque. Their parameters (amounts, bounds, axes, boxes) are known only at run
//! time, but for any parameters they work dimension by dimension.
//!
//! Operands with parameters are read in their own layout: they share no dimension with the data. The same is true for
//! the weights of recurrent networks and of deformable convolutions.

use crate::prelude::*;
use optc_ir::shared_codes::OPERAND_KIND;

/// Operators whose result has the dimensions of the first input; each may be longer or shorter than there.
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

/// Operators that give one image for each box, with the channels of the input images.
const BOXES: &[&str] = &["MaxRoiPool", "RoiAlign"];

/// Reductions. A reduction that drops its dimensions has labels only if the extents determine which dimensions these
/// are.
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

/// The loops of an operator of the ONNX standard; a barrier for any operator that is not listed here.
pub(crate) fn iteration_domain(kind: &str, op: &OpRef<'_>) -> Result<IterationDomain, OpError> {
    let stated = |name: &str| op.props.int(name);
    match kind {
        _ if op.props.int("captures").is_some() => Ok(IterationDomain::whole(op)),
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
            None => Ok(IterationDomain::whole(op)),
        },
        "Split" => dimensions(op, Some(stated("onnx.axis").unwrap_or(0))),
        "TopK" => dimensions(op, Some(stated("onnx.axis").unwrap_or(-1))),
        "GRU" | "LSTM" | "RNN" => recurrent(op),
        _ => Ok(IterationDomain::whole(op)),
    }
}

fn unfit(reason: &'static str) -> OpError {
    OpError::new(OPERAND_KIND, reason)
}

/// An axis as a number from 0 on; a negative one counts from the end.
fn counted(axis: i64, rank: usize) -> Result<usize, OpError> {
    let counted = if axis < 0 { axis + rank as i64 } else { axis };
    let found = usize::try_from(counted).ok().filter(|&a| a < rank);
    found.ok_or_else(|| unfit("the axis is none of the dimensions"))
}

/// The loops of an operator whose results all have the dimensions of the first operand. It works along one axis, or
/// along all if `axis` is `None`.
fn dimensions(op: &OpRef<'_>, axis: Option<i64>) -> Result<IterationDomain, OpError> {
    let x = op.operand(0)?;
    let axis = axis.map(|axis| counted(axis, x.rank())).transpose()?;
    let mut domain = IterationDomain::new(op, FreedomClass::Ordered);
    let ids = domain.over(&x.dims);
    for &id in &ids {
        if axis.is_none_or(|axis| axis == id) {
            domain.along_uncut(id);
        }
    }
    domain.operands[0] = IndexExpr::each(&ids);
    domain.results.fill(IndexExpr::each(&ids));
    Ok(domain)
}

/// The loops of a reduction whose result has only the dimensions that are not reduced. Their extents determine which
/// these are.
fn reduced_away(op: &OpRef<'_>) -> Result<IterationDomain, OpError> {
    let (x, y) = (op.operand(0)?, op.only_result()?);
    let kept = only_places(&y.dims, &x.dims);
    let kept = kept.ok_or_else(|| unfit("the sizes do not say which dimensions are left"))?;
    let mut domain = IterationDomain::new(op, FreedomClass::Ordered);
    let ids = domain.over(&x.dims);
    ids.iter().for_each(|&id| domain.along_uncut(id));
    domain.operands[0] = IndexExpr::each(&ids);
    domain.results[0] = IndexExpr::each(&kept);
    Ok(domain)
}

/// The positions of the dimensions `some` among `all`, in order; `None` unless exactly one assignment is possible.
fn only_places(some: &[Dim], all: &[Dim]) -> Option<Vec<usize>> {
    let may_be = |a: &Dim, b: &Dim| match (a.fixed(), b.fixed()) {
        (Some(a), Some(b)) => a == b,
        (None, _) | (_, None) => true,
    };
    // The assignment is unique if the leftmost one and the rightmost one are equal.
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

/// The loops of an operator whose result has the dimensions of the first operand, apart from dimensions of extent 1.
fn unit_dimensions(op: &OpRef<'_>) -> Result<IterationDomain, OpError> {
    let long =
        |t: &TensorType| -> Vec<usize> { (0..t.rank()).filter(|&d| !t.dims[d].is_one()).collect() };
    let (x, y) = (op.operand(0)?, op.only_result()?);
    let (of_x, of_y) = (long(x), long(y));
    let mut pairs = of_x.iter().zip(&of_y);
    if of_x.len() != of_y.len() || !pairs.all(|(&i, &j)| x.dims[i].same(&y.dims[j])) {
        return Err(unfit("the dimensions of more than one element differ"));
    }
    let mut domain = IterationDomain::new(op, FreedomClass::Ordered);
    for (&i, &j) in of_x.iter().zip(&of_y) {
        let id = domain.add_for(&x.dims[i], LoopKind::Parallel);
        domain.operands[0][i] = IndexExpr::of(id);
        domain.results[0][j] = IndexExpr::of(id);
    }
    Ok(domain)
}

/// The loops of an operator that repeats the first operand along dimensions of extent 1 and along new leading
/// dimensions.
fn expanded(op: &OpRef<'_>) -> Result<IterationDomain, OpError> {
    let (x, y) = (op.operand(0)?, op.only_result()?);
    let Some(lead) = y.rank().checked_sub(x.rank()) else {
        return Err(unfit("the operand has a higher rank than the result"));
    };
    let mut domain = IterationDomain::new(op, FreedomClass::Ordered);
    let ids = domain.over(&y.dims);
    ids.iter().for_each(|&id| domain.along_uncut(id));
    domain.operands[0] = IndexExpr::each(&ids[lead..]);
    domain.results[0] = IndexExpr::each(&ids);
    Ok(domain)
}

/// Inputs of a deformable convolution with data for each pixel: the offset of the place to read, and a factor.
const OFFSETS: usize = 2;
const MASK: usize = 4;

/// The loops of an operator whose result is images. The inputs at the positions `read` are images with the same
/// dimensions. The inputs at the positions `pixel` have the batch and spatial dimensions of the result, and their own
/// channels. All other inputs are read in their own layout. The operator works along every dimension except `apart`,
/// along which it is independent.
fn images(
    op: &OpRef<'_>,
    read: &[usize],
    pixel: &[usize],
    apart: Option<usize>,
) -> Result<IterationDomain, OpError> {
    let mut domain = IterationDomain::new(op, FreedomClass::Ordered);
    let ids = domain.over(&op.only_result()?.dims);
    for &id in ids.iter().filter(|&&id| apart != Some(id)) {
        domain.along_uncut(id);
    }
    for i in 0..op.operands.len() {
        match (position(op, i), &ids[..]) {
            (Some(p), _) if read.contains(&p) => domain.operands[i] = IndexExpr::each(&ids),
            (Some(p), [batch, _, spatial @ ..]) if pixel.contains(&p) => {
                let channels = op.operand(i)?.dims.get(1).unwrap_or(&Dim::Unknown);
                let own = domain.add_for(channels, LoopKind::Whole);
                domain.uncut(own);
                domain.operands[i] = IndexExpr::each(&[&[*batch, own], spatial].concat());
            }
            _ => {}
        }
    }
    domain.results[0] = IndexExpr::each(&ids);
    Ok(domain)
}

/// The loops of an operator that gives one number for each matrix: the last two dimensions are reduced.
fn determinants(op: &OpRef<'_>) -> Result<IterationDomain, OpError> {
    let mut domain = IterationDomain::new(op, FreedomClass::Ordered);
    let ids = domain.over(&op.operand(0)?.dims);
    let batch = ids.len().saturating_sub(2);
    ids[batch..].iter().for_each(|&id| domain.along_uncut(id));
    domain.operands[0] = IndexExpr::each(&ids);
    domain.results[0] = IndexExpr::each(&ids[..batch]);
    Ok(domain)
}

/// The loops of an operator that marks each index of the first operand along a new dimension at `axis`; a negative
/// `axis` counts from the end.
fn marked(op: &OpRef<'_>, axis: i64) -> Result<IterationDomain, OpError> {
    let y = op.only_result()?;
    let axis = counted(axis, y.rank())?;
    let mut domain = IterationDomain::new(op, FreedomClass::Ordered);
    let ids = domain.over(&y.dims);
    domain.along_uncut(axis);
    domain.operands[0] = IndexExpr::each(&[&ids[..axis], &ids[axis + 1..]].concat());
    domain.results[0] = IndexExpr::each(&ids);
    Ok(domain)
}

/// The number of the operator's input that an operand is. Inputs that are left out have no operand.
fn position(op: &OpRef<'_>, operand: usize) -> Option<usize> {
    match op.props.ints("input_positions") {
        Some(positions) => positions
            .get(operand)
            .and_then(|&n| usize::try_from(n).ok()),
        None => Some(operand),
    }
}

/// Inputs of a recurrent network: data, weights of inputs and of states, biases, lengths, initial states, and (of an
/// LSTM) initial cells and peepholes.
const INITIAL_STATE: usize = 5;
const INITIAL_CELL: usize = 6;

/// The loops of a recurrent network: the sequence, the batch, the input features, the direction and the state. Weights
/// are read in their own layout.
fn recurrent(op: &OpRef<'_>) -> Result<IterationDomain, OpError> {
    let batch_first = op.props.int("onnx.layout").unwrap_or(0) == 1;
    let mut domain = IterationDomain::new(op, FreedomClass::Ordered);
    let (x, y) = (op.operand(0)?, op.result(0)?);
    let ([sequence, batch, read], [direction, kept]) = match batch_first {
        true => ([1, 0, 2], [2, 3]),
        false => ([0, 1, 2], [1, 3]),
    };
    let loops = [
        (x, sequence, LoopKind::Whole),
        (x, batch, LoopKind::Parallel),
        (x, read, LoopKind::Whole),
        (y, direction, LoopKind::Parallel),
        (y, kept, LoopKind::Whole),
    ];
    let add = |(t, d, kind): (&TensorType, usize, LoopKind)| {
        domain.add_for(t.dims.get(d).unwrap_or(&Dim::Unknown), kind)
    };
    let [sequence, batch, read, direction, kept] = loops.map(add);
    for id in [sequence, read, direction, kept] {
        domain.uncut(id);
    }
    let data = match batch_first {
        true => [batch, sequence, read],
        false => [sequence, batch, read],
    };
    let state = match batch_first {
        true => [batch, direction, kept],
        false => [direction, batch, kept],
    };
    for i in 0..op.operands.len() {
        match position(op, i) {
            Some(0) => domain.operands[i] = IndexExpr::each(&data),
            Some(INITIAL_STATE | INITIAL_CELL) => domain.operands[i] = IndexExpr::each(&state),
            _ => {}
        }
    }
    domain.results.fill(IndexExpr::each(&state));
    domain.results[0] = IndexExpr::each(&match batch_first {
        true => [batch, sequence, direction, kept],
        false => [sequence, direction, batch, kept],
    });
    Ok(domain)
}
