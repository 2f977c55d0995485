//! Shared code of quantize and dequantize. Their parameters are scale and zero point: scalars, or one element for each
//! index along an axis.

use crate::prelude::*;
use optc_ir::op::AxisOf;

/// The axis along which parameters change; `None` if every parameter is a scalar.
pub(crate) fn parameter_axis(op: &OpRef<'_>, axis: i64) -> Result<Option<usize>, OpError> {
    let mut scalar = true;
    for i in 1..op.operands.len() {
        scalar &= op.operand(i)?.rank() == 0;
    }
    if scalar {
        return Ok(None);
    }
    as_axis(op, QUANTIZE_C2, axis, op.operand(0)?.rank()).map(Some)
}

/// C2: each parameter is a scalar, or has one element for each index along the axis.
pub(crate) fn check_parameters(op: &OpRef<'_>, axis: i64) -> Result<(), OpError> {
    let Some(axis) = parameter_axis(op, axis)? else {
        return Ok(());
    };
    let wanted = &op.operand(0)?.dims[axis];
    for i in 1..op.operands.len() {
        let found = &op.operand(i)?.dims;
        let fits = match found.as_slice() {
            [] => true,
            [n] => unify(n, wanted).is_some() || n.is_one(),
            _ => false,
        };
        if !fits {
            let message = format!(
                "{} has operand {i} of {}, wanted [] or [{wanted}]",
                op.name,
                show(found)
            );
            return Err(OpError::new(QUANTIZE_C2, message));
        }
    }
    Ok(())
}

/// A function from the number of an element of the operand to the number of its element of parameter `i`; `None` if
/// there is no such parameter.
pub(crate) fn parameter(
    call: &Call<'_>,
    axis: i64,
    i: usize,
) -> Result<impl Fn(usize) -> Option<usize>, EvalError> {
    let axis = parameter_axis(call.op, axis)?;
    let shape = &call.input(0).shape;
    let (n, inner) = axis.map_or((1, 1), |a| {
        (shape[a], shape[a + 1..].iter().product::<usize>())
    });
    let len = call.inputs.get(i).map(|t| t.len());
    Ok(move |e: usize| len.map(|len| if len == 1 { 0 } else { e / inner % n }))
}

/// The loops: a parameter that is no scalar is addressed by the axis of the first operand.
pub(crate) fn iteration_domain(op: &OpRef<'_>, axis: i64) -> Result<IterationDomain, OpError> {
    let x = op.operand(0)?;
    let mut domain = IterationDomain::new(op, FreedomClass::Ordered);
    let ids = domain.over(&x.dims);
    let axis = parameter_axis(op, axis)?;
    domain.operands[0] = IndexExpr::each(&ids);
    domain.results[0] = IndexExpr::each(&ids);
    for (i, indices) in domain.operands.iter_mut().enumerate().skip(1) {
        for (dim, index) in op.operand(i)?.dims.iter().zip(indices) {
            if let Some(a) = axis.filter(|&a| !dim.is_one() || x.dims[a].is_one()) {
                *index = IndexExpr::of(ids[a]);
            }
        }
    }
    Ok(domain)
}

/// The attribute `axis` of the form if the parameters change along dimension `dim`: the position of its axis. Any
/// position if the dimension has extent 1; `None` if its label is cut.
pub(crate) fn over_axis(axes: &Axes<'_>, dim: usize) -> Option<i64> {
    match axes.of_label(axes.label(0, dim)?) {
        AxisOf::Whole(axis) => {
            let mut own = axes.own(0).into_iter();
            own.position(|run| run == [axis]).map(|at| at as i64)
        }
        AxisOf::Unit => Some(0),
        AxisOf::Cut => None,
    }
}

codes! {
    pub(crate) const CODES;

    QUANTIZE_C1 = program(
        "`hbir.quantize` is not from floats to integers, or `hbir.dequantize` not from integers to floats",
        r#"%0 = "hbir.quantize"(%x, %y) : (tensor<2x2xsi8>, tensor<2xf32>) -> tensor<2x2xui8>"#,
        "use `hbir.cast` between other types",
    );
    QUANTIZE_C2 = program(
        "scale or zero point is neither a scalar nor a vector of one element for each of the axis",
        r#"%0 = "hbir.quantize"(%x, %y) : (tensor<2x2xf32>, tensor<3xf32>) -> tensor<2x2xui8>"#,
        "give one scale for the whole tensor, or as many as `axis` has elements",
    );
    QUANTIZE_C3 = program(
        "the integer types of the quantized tensor, of the zero point and of `to` differ",
        r#"%0 = "hbir.quantize"(%x, %y, %z) <{to = ui8}> : (tensor<2x2xf32>, tensor<2xf32>, tensor<2xsi8>) -> tensor<2x2xui8>"#,
        "give the zero point the type of the quantized tensor",
    );
}
