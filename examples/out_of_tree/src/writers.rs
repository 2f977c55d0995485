//! How formats write the operations. Acme's runtime has a kernel of a gate, and an energy is a sum of squares.

use optc::ops::{Opaque, Reduce, ReduceKind};
use optc::{Attr, FuncBuilder, OpError, OpRef, Value};

/// `acme.gate` as a node of Acme's own operators in an ONNX model.
pub(crate) fn gate_in_onnx(
    op: &OpRef<'_>,
    operands: &[Value],
    b: &mut FuncBuilder<'_>,
) -> Result<Vec<Value>, OpError> {
    let types = op.results.iter().map(|&ty| ty.clone()).collect();
    let mut node = Opaque::foreign("com.acme", "Gate", operands, types);
    node.props.set("domain_version", Attr::int(2));
    node.props.set("onnx.activation", Attr::str("sigmoid"));
    b.add(node)
}

/// `acme.gate` as a call of the kernel in HLO and StableHLO.
pub(crate) fn gate_in_hlo(
    op: &OpRef<'_>,
    operands: &[Value],
    b: &mut FuncBuilder<'_>,
) -> Result<Vec<Value>, OpError> {
    let types = op.results.iter().map(|&ty| ty.clone()).collect();
    let mut call = Opaque::foreign("", "acme_gate", operands, types);
    call.props
        .set("backend_config", Attr::str("activation=sigmoid"));
    b.add(call)
}

/// `acme.energy` as a sum of squares, which every format has.
pub(crate) fn energy(
    _: &OpRef<'_>,
    operands: &[Value],
    b: &mut FuncBuilder<'_>,
) -> Result<Vec<Value>, OpError> {
    let sum = Reduce {
        axes: Some(vec![-1]),
        keepdims: false,
        kind: ReduceKind::SumSquare,
    };
    b.op(&sum, operands)
}
