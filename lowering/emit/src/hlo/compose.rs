//! Operations that become several instructions: reductions, products.

use super::elementwise::Elementwise;
use super::func::{Outcome, Writer, list};
use super::number::limits;
use super::shape::{dtype_name, tensor_text};
use crate::unwritten::{Form, Unwritten};
use optc_ir::op::{Combine, Operation};
use optc_ir::{DType, Dim, OpData, Sign, TensorType};
use optc_ops::{Linear, Matmul, Reduce, ReduceKind};

/// The name of the result; nothing where the operation is none of these.
pub(super) fn write(w: &mut Writer<'_>, data: &OpData, ty: &TensorType) -> Form<String> {
    match &*data.name {
        Reduce::NAME => reduce(w, data, ty),
        Matmul::NAME => matmul(w, data, ty),
        Linear::NAME => linear(w, data, ty),
        _ => Err(Unwritten::NoForm),
    }
}

/// Elements along `axes` combined, from a first value.
pub(super) fn reduced(
    w: &mut Writer<'_>,
    x: &str,
    (opcode, init): (&str, &str),
    axes: &[usize],
    ty: &TensorType,
) -> Outcome<String> {
    let init = w.scalar(init, ty.dtype);
    let dtype = dtype_name(ty.dtype);
    let reducer = w.shared.reducer(opcode, &dtype);
    let attrs = format!(", dimensions={}, to_apply=%{reducer}", list(axes));
    w.put(ty, "reduce", &[x.to_owned(), init], &attrs)
}

/// No bit and every bit of an integer or truth type, as text.
fn bits(dtype: DType) -> (String, String) {
    match dtype {
        DType::Int {
            sign: Sign::Signed, ..
        } => ("0".into(), "-1".into()),
        DType::Int { bits: 1, .. } => ("false".into(), "true".into()),
        dtype => ("0".into(), limits(dtype).1),
    }
}

/// The function of each element whose values a reduction adds up.
fn before_reduction(
    w: &mut Writer<'_>,
    kind: ReduceKind,
    x: String,
    from: &TensorType,
) -> Outcome<String> {
    match kind {
        ReduceKind::L1 => w.put(from, "abs", &[x], ""),
        ReduceKind::L2 | ReduceKind::SumSquare => w.put(from, "multiply", &[x.clone(), x], ""),
        ReduceKind::LogSumExp => w.put(from, "exponential", &[x], ""),
        _ => Ok(x),
    }
}

/// The instruction that combines two numbers, and the number that a combination begins with, as text.
pub(super) fn combination(combine: Combine, dtype: DType) -> (&'static str, String) {
    match combine {
        Combine::Add => ("add", "0".to_owned()),
        Combine::Multiply => ("multiply", "1".to_owned()),
        Combine::Max => ("maximum", limits(dtype).0),
        Combine::Min => ("minimum", limits(dtype).1),
    }
}

/// The instruction and the first number of a reduction. Kinds whose parts do not combine by themselves add up.
fn reduction_step(kind: ReduceKind, dtype: DType) -> (&'static str, String) {
    match kind {
        ReduceKind::And => ("and", bits(dtype).1),
        ReduceKind::Or => ("or", bits(dtype).0),
        _ => combination(kind.combine().unwrap_or(Combine::Add), dtype),
    }
}

fn reduce(w: &mut Writer<'_>, data: &OpData, ty: &TensorType) -> Form<String> {
    let from = w.tensor(data.operands[0])?.clone();
    let about = w.typed::<Reduce>(data)?;
    let mut axes = about.reduced(&w.op_ref(data))?;
    axes.sort_unstable();
    let kind = about.kind;
    let count: Option<u64> = axes.iter().map(|&a| from.dims[a].fixed()).product();
    if kind == ReduceKind::Mean && count.is_none() {
        return Err(Unwritten::NoForm);
    }
    let x = w.name(data.operands[0])?;
    let x = before_reduction(w, kind, x, &from.without_layout())?;
    let kept = (0..from.rank()).filter(|d| !axes.contains(d));
    let kept: Vec<Dim> = kept.map(|d| from.dims[d].clone()).collect();
    let flat = if about.keepdims {
        TensorType::new(kept, ty.dtype)
    } else {
        ty.clone()
    };
    let (opcode, init) = reduction_step(kind, ty.dtype);
    let mut y = reduced(w, &x, (opcode, &init), &axes, &flat)?;
    match kind {
        ReduceKind::Mean => {
            let mut e = Elementwise { w, ty: &flat };
            let count = e.number(count.unwrap_or(1) as f64)?;
            y = e.of("divide", &[&y, &count])?;
        }
        ReduceKind::L2 => y = w.put(&flat, "sqrt", &[y], "")?,
        ReduceKind::LogSum | ReduceKind::LogSumExp => y = w.put(&flat, "log", &[y], "")?,
        _ => {}
    }
    if about.keepdims {
        y = w.put(ty, "reshape", &[y], "")?;
    }
    Ok(y)
}

/// numpy's product of operands of rank 2 or more, as a dot over broadcast batches.
fn matmul(w: &mut Writer<'_>, data: &OpData, ty: &TensorType) -> Form<String> {
    let (a, b) = (
        w.tensor(data.operands[0])?.clone(),
        w.tensor(data.operands[1])?.clone(),
    );
    if a.rank() < 2 || b.rank() < 2 {
        return Err(Unwritten::NoForm);
    }
    let rank = ty.rank();
    let mut names = Vec::with_capacity(2);
    // A right operand without batches needs none of its own.
    let shared = b.rank() == 2 && a.rank() == rank;
    for (i, x) in [&a, &b].into_iter().enumerate() {
        if shared {
            names.push(w.name(data.operands[i])?);
            continue;
        }
        let tail = &x.dims[x.rank() - 2..];
        let mut wanted = TensorType::new(ty.dims.clone(), x.dtype);
        wanted.dims[rank - 2..].clone_from_slice(tail);
        names.push(w.spread(data.operands[i], &wanted)?);
    }
    let batch: Vec<usize> = if shared {
        Vec::new()
    } else {
        (0..rank - 2).collect()
    };
    let mut attrs = String::new();
    for (side, contract) in [
        ("lhs", rank - 1),
        ("rhs", if shared { 0 } else { rank - 2 }),
    ] {
        if !batch.is_empty() {
            attrs.push_str(&format!(", {side}_batch_dims={}", list(&batch)));
        }
        attrs.push_str(&format!(", {side}_contracting_dims={{{contract}}}"));
    }
    Ok(w.put(ty, "dot", &names, &attrs)?)
}

fn linear(w: &mut Writer<'_>, data: &OpData, ty: &TensorType) -> Form<String> {
    let names = [w.name(data.operands[0])?, w.name(data.operands[1])?];
    let last = w.tensor(data.operands[0])?.rank().saturating_sub(1);
    let attrs = format!(", lhs_contracting_dims={{{last}}}, rhs_contracting_dims={{1}}");
    let mut y = w.put(ty, "dot", &names, &attrs)?;
    if let Some(&bias) = data.operands.get(2) {
        let bias = w.spread(bias, ty)?;
        y = w.raw(&tensor_text(ty)?, "add", &[y, bias], "");
    }
    Ok(y)
}
