//! Operations that all ports of which follow one order: they run over the axes of that order.

use super::axes::{Axes, Port, Ports};
use super::digits;
use super::memory::Memory;

use optc_ir::op::Operation;
use optc_ir::{AttrDict, Attributes, Dim, Freedom, NewOp, OpError, OpRef, Role, Size, Value};
use optc_ops::{
    ArgMax, ArgMin, Bound, Bounds, Broadcast, Concat, Cumprod, Cumsum, Dequantize, Gather,
    LayerNorm, LogSoftmax, Pad, Quantize, Reduce, RmsNorm, Slice, Softmax, Split, TopK,
};

/// What an operation becomes over axes.
struct Form {
    props: AttrDict,
    /// How each operand comes to it.
    operands: Operands,
}

/// How operands lie over axes.
enum Operands {
    /// Each over the axes whose labels it has.
    Own,
    /// Each over all axes, 1 where it lacks the label.
    Broadcast,
    /// The first over the axes whose labels it has, the others over the last so many.
    Trailing(usize),
}

/// Writes an operation over the axes of its ports: its results in memory. Nothing where it has no such form.
pub(super) fn write(
    memory: &mut Memory<'_>,
    op: &OpRef<'_>,
    family: &str,
    freedom: &Freedom,
    operands: &[Value],
) -> Result<Option<Vec<Value>>, OpError> {
    let Some(ports) = Ports::of(op, freedom, &mut memory.numbers) else {
        return Ok(None);
    };
    if op.name == Gather::NAME {
        return gather(memory, op, &ports, operands);
    }
    let worked: Vec<usize> = (0..freedom.labels.len())
        .filter(|&l| freedom.labels[l].role == Role::Axis)
        .collect();
    let all: Vec<&Port> = ports.all.iter().collect();
    let Some(axes) = Axes::of(&all, &worked) else {
        return Ok(None);
    };
    let Some(form) = form(op, family, &ports, &axes, &worked, memory)? else {
        return Ok(None);
    };
    let mut given = Vec::with_capacity(operands.len());
    for (i, (&value, port)) in operands.iter().zip(&ports.all).enumerate() {
        let made = match form.operands {
            Operands::Broadcast => axes.broadcast(memory, port, value)?,
            Operands::Own => own(memory, &axes, port, value, 0)?,
            Operands::Trailing(_) if i == 0 => own(memory, &axes, port, value, 0)?,
            Operands::Trailing(n) => own(memory, &axes, port, value, axes.0.len() - n)?,
        };
        let Some(made) = made else { return Ok(None) };
        given.push(made);
    }
    let made = memory.b.add(NewOp::new(op.name, &given, form.props))?;
    stored(memory, &axes, &ports, made)
}

/// The memory of a port over the axes from `first` on whose labels it has.
fn own(
    memory: &mut Memory<'_>,
    axes: &Axes,
    port: &Port,
    value: Value,
    first: usize,
) -> Result<Option<Value>, OpError> {
    let Some(value) = axes.arranged(memory, port, value)? else {
        return Ok(None);
    };
    let extents = match first {
        0 => axes.own_extents(port),
        _ => axes.extents(port)[first..].to_vec(),
    };
    let wanted = digits::dims(extents, &memory.numbers);
    memory.reshape(value, &wanted).map(Some)
}

fn stored(
    memory: &mut Memory<'_>,
    axes: &Axes,
    ports: &Ports,
    made: Vec<Value>,
) -> Result<Option<Vec<Value>>, OpError> {
    let results = &ports.all[ports.n_operands..];
    let mut out = Vec::with_capacity(made.len());
    for (value, port) in made.into_iter().zip(results) {
        match axes.stored(memory, port, value)? {
            Some(value) => out.push(value),
            None => return Ok(None),
        }
    }
    Ok(Some(out))
}

fn form(
    op: &OpRef<'_>,
    family: &str,
    ports: &Ports,
    axes: &Axes,
    worked: &[usize],
    memory: &Memory<'_>,
) -> Result<Option<Form>, OpError> {
    let own = |props: Option<AttrDict>| {
        props.map(|props| Form {
            props,
            operands: Operands::Own,
        })
    };
    let broadcast = |props: AttrDict| {
        Some(Form {
            props,
            operands: Operands::Broadcast,
        })
    };
    let label = |dim: usize| ports.all.first().and_then(|p| *p.labels.get(dim)?);
    let whole = |dim: usize| label(dim).and_then(|label| axes.whole(label));
    let axis = |at: usize| at as i64;
    Ok(match op.name {
        Softmax::NAME => {
            own(whole(Softmax::of(op)?.along(op)?).map(|at| Softmax { axis: axis(at) }.write()))
        }
        LogSoftmax::NAME => {
            own(whole(LogSoftmax::of(op)?.along(op)?)
                .map(|at| LogSoftmax { axis: axis(at) }.write()))
        }
        Cumsum::NAME => {
            let typed = Cumsum::of(op)?;
            let at = dim_of(op, typed.axis).and_then(whole);
            own(at.map(|at| {
                let axis = axis(at);
                Cumsum { axis, ..typed }.write()
            }))
        }
        Cumprod::NAME => {
            let typed = Cumprod::of(op)?;
            let at = dim_of(op, typed.axis).and_then(whole);
            own(at.map(|at| {
                let axis = axis(at);
                Cumprod { axis, ..typed }.write()
            }))
        }
        ArgMax::NAME => {
            let typed = ArgMax::of(op)?;
            let at = dim_of(op, typed.axis).and_then(whole);
            own(at.map(|at| {
                let (axis, keepdims) = (axis(at), false);
                ArgMax {
                    axis,
                    keepdims,
                    ..typed
                }
                .write()
            }))
        }
        ArgMin::NAME => {
            let typed = ArgMin::of(op)?;
            let at = dim_of(op, typed.axis).and_then(whole);
            own(at.map(|at| {
                let (axis, keepdims) = (axis(at), false);
                ArgMin {
                    axis,
                    keepdims,
                    ..typed
                }
                .write()
            }))
        }
        TopK::NAME => {
            let typed = TopK::of(op)?;
            let at = dim_of(op, typed.axis).and_then(whole);
            own(at.map(|at| {
                let axis = axis(at);
                TopK { axis, ..typed }.write()
            }))
        }
        Reduce::NAME => {
            let typed = Reduce::of(op)?;
            let reduced = typed.reduced(op)?;
            let labels: Option<Vec<usize>> = reduced.into_iter().map(label).collect();
            own(labels.map(|labels| {
                let at = labels.iter().flat_map(|&l| axes.all(l));
                let mut at: Vec<i64> = at.map(axis).collect();
                at.sort_unstable();
                Reduce {
                    axes: Some(at),
                    keepdims: false,
                    ..typed
                }
                .write()
            }))
        }
        LayerNorm::NAME => {
            let typed = LayerNorm::of(op)?;
            let first = typed.first_axis(op)?;
            trailing(axes, ports, first).map(|n| Form {
                props: LayerNorm {
                    axis: -axis(n),
                    ..typed
                }
                .write(),
                operands: Operands::Trailing(n),
            })
        }
        RmsNorm::NAME => {
            let typed = RmsNorm::of(op)?;
            let first = typed.first_axis(op)?;
            trailing(axes, ports, first).map(|n| Form {
                props: RmsNorm {
                    axis: -axis(n),
                    ..typed
                }
                .write(),
                operands: Operands::Trailing(n),
            })
        }
        Concat::NAME => {
            let at = label(Concat::of(op)?.along(op)?).and_then(|l| axes.first(l));
            let at = at.filter(|&at| equal_parts(axes, ports, at));
            own(at.map(|at| Concat { axis: axis(at) }.write()))
        }
        Split::NAME => {
            let typed = Split::of(op)?;
            let at = dim_of(op, typed.axis)
                .and_then(label)
                .and_then(|l| axes.first(l));
            let at = at.filter(|&at| equal_parts(axes, ports, at));
            own(at.and_then(|at| {
                let low = i64::try_from(axes.0[at].low).ok()?;
                let whole = typed.sizes.iter().all(|n| n % low == 0);
                let sizes = typed.sizes.iter().map(|n| n / low).collect();
                let axis = axis(at);
                whole.then(|| Split { axis, sizes }.write())
            }))
        }
        Quantize::NAME => {
            let typed = Quantize::of(op)?;
            own(parameters(axes, typed.along(op)?.and_then(label))
                .map(|axis| Quantize { axis, ..typed }.write()))
        }
        Dequantize::NAME => own(
            parameters(axes, Dequantize::of(op)?.along(op)?.and_then(label))
                .map(|axis| Dequantize { axis }.write()),
        ),
        Slice::NAME => own(slice(op, ports, axes)?),
        Pad::NAME => own(pad(op, ports, axes)?),
        Broadcast::NAME => {
            let Some(result) = ports.all.get(1) else {
                return Ok(None);
            };
            let dims = digits::dims(axes.extents(result), &memory.numbers);
            let known = dims.iter().all(|d| d.fixed().is_some());
            let sizes: Vec<u64> = dims.iter().filter_map(Dim::fixed).collect();
            match known {
                true => broadcast(Broadcast::to(&sizes).write()),
                false => None,
            }
        }
        _ if family == "elementwise" && worked.is_empty() => broadcast(op.props.clone()),
        _ => None,
    })
}

/// The dimension of the first operand that an attribute names.
fn dim_of(op: &OpRef<'_>, axis: i64) -> Option<usize> {
    let rank = op.operand(0).ok()?.rank() as i64;
    let at = if axis < 0 { axis + rank } else { axis };
    usize::try_from(at).ok().filter(|_| at < rank)
}

/// How many axes the dimensions from `first` on are, if these are the last ones, each whole, in this order at all
/// operands that have them.
fn trailing(axes: &Axes, ports: &Ports, first: usize) -> Option<usize> {
    let labels = &ports.all.first()?.labels[first..];
    let at: Option<Vec<usize>> = labels.iter().map(|l| axes.whole((*l)?)).collect();
    let mut at = at?;
    at.sort_unstable();
    let n = at.len();
    let rank = axes.0.len();
    (at.first().copied() == rank.checked_sub(n)).then_some(n)
}

/// The axis of scale and zero point, of the label along which they change; any where it has one element, as they are
/// scalars then. Nothing where its digits are in several places.
fn parameters(axes: &Axes, label: Option<usize>) -> Option<i64> {
    let label = label.filter(|&label| !axes.all(label).is_empty());
    label.map_or(Some(0), |label| axes.whole(label).map(|at| at as i64))
}

/// Whether the part of the axis below `at`, of the same label, is as long at all ports.
fn equal_parts(axes: &Axes, ports: &Ports, at: usize) -> bool {
    let (label, low) = (axes.0[at].label, axes.0[at].low);
    let sizes = ports.all.iter().filter_map(|p| p.size(label));
    sizes.into_iter().all(|n| n.is_multiple_of(low))
}

/// A size divided by a number that must divide it.
fn divided(size: &Size, by: u64) -> Option<Size> {
    if by == 1 {
        return Some(size.clone());
    }
    let n = size.as_constant()?;
    let by = i128::from(by);
    (n % by == 0).then(|| Size::constant(n / by))
}

fn slice(op: &OpRef<'_>, ports: &Ports, axes: &Axes) -> Result<Option<AttrDict>, OpError> {
    let typed = Slice::of(op)?;
    let parts = typed.parts(op)?;
    let rank = axes.0.len();
    let mut starts = vec![Bound::At(Size::default()); rank];
    let mut limits = vec![Bound::End; rank];
    let mut strides = vec![1; rank];
    let (x, y) = (&ports.all[0], &ports.all[1]);
    for (dim, part) in parts.iter().enumerate() {
        let all = x.labels[dim].map_or_else(Vec::new, |l| axes.all(l));
        if part.is_whole(&x.ty.dims[dim]) || (all.is_empty() && x.shape[dim] == y.shape[dim]) {
            continue;
        }
        let Some(at) = x.labels[dim].and_then(|l| axes.first(l)) else {
            return Ok(None);
        };
        let low = axes.0[at].low;
        if low == 1 {
            starts[at] = typed.starts.0[dim].clone();
            limits[at] = typed.limits.0[dim].clone();
            strides[at] = part.stride;
            continue;
        }
        let size = part.size.size().and_then(|size| divided(&size, low));
        let start = divided(&part.start, low);
        let (Some(start), Some(size), 1) = (start, size, part.stride) else {
            return Ok(None);
        };
        let Some(limit) = start.plus(&size) else {
            return Ok(None);
        };
        starts[at] = Bound::At(start);
        limits[at] = Bound::At(limit);
    }
    let strided = strides.iter().any(|&s| s != 1);
    let made = Slice {
        starts: Bounds(starts),
        limits: Bounds(limits),
        strides: strided.then_some(strides),
    };
    Ok(Some(made.write()))
}

fn pad(op: &OpRef<'_>, ports: &Ports, axes: &Axes) -> Result<Option<AttrDict>, OpError> {
    let typed = Pad::of(op)?;
    let amounts = typed.amounts(op)?;
    let rank = axes.0.len();
    let (mut low, mut high) = (vec![0; rank], vec![0; rank]);
    let x = &ports.all[0];
    for (dim, label) in x.labels.iter().enumerate() {
        let wanted = (amounts.low[dim], amounts.high[dim]);
        if wanted == (0, 0) {
            continue;
        }
        let Some(at) = label.and_then(|l| axes.first(l)) else {
            return Ok(None);
        };
        let by = axes.0[at].low;
        // What is mirrored or repeated is so element by element.
        if by != 1 && typed.mode != optc_ops::PadMode::Constant {
            return Ok(None);
        }
        let Ok(by) = i64::try_from(by) else {
            return Ok(None);
        };
        if wanted.0 % by != 0 || wanted.1 % by != 0 || !equal_parts(axes, ports, at) {
            return Ok(None);
        }
        (low[at], high[at]) = (wanted.0 / by, wanted.1 / by);
    }
    let made = Pad {
        low: Some(low),
        high: Some(high),
        ..typed
    };
    Ok(Some(made.write()))
}

/// A gather: the axes of the indices stand in the result where the gathered one stands in the data.
fn gather(
    memory: &mut Memory<'_>,
    op: &OpRef<'_>,
    ports: &Ports,
    operands: &[Value],
) -> Result<Option<Vec<Value>>, OpError> {
    let axis = Gather::of(op)?.along(op)?;
    let ([data, indices, result], &[x, i]) = (&ports.all[..], operands) else {
        return Ok(None);
    };
    let Some(gathered) = data.labels[axis] else {
        return Ok(None);
    };
    let scattered: Vec<usize> = indices.labels.iter().flatten().copied().collect();
    let several = !indices.digits.is_empty();
    let (hub, all) = match several {
        true => (vec![result, indices], Axes::of(&[indices, result], &[])),
        false => (vec![data], Axes::of(&[data], &[gathered])),
    };
    let Some(mut axes) = all else { return Ok(None) };
    let mut of_result = axes.clone();
    if several {
        let at: Vec<usize> = (0..axes.0.len())
            .filter(|&a| scattered.contains(&axes.0[a].label))
            .collect();
        let Some((&first, &last)) = at.first().zip(at.last()) else {
            return Ok(None);
        };
        if last - first + 1 != at.len() {
            return Ok(None);
        }
        let one = super::axes::Axis {
            label: gathered,
            low: 1,
            high: None,
        };
        axes.0.splice(first..=last, [one]);
        let mut cuts = optc_layout::Cuts::default();
        hub.iter().for_each(|p| cuts.add(&p.digits));
    } else {
        of_result.0.retain(|a| a.label != gathered);
    }
    let Some(at) = axes.whole(gathered) else {
        return Ok(None);
    };
    let Some(x) = own(memory, &axes, data, x, 0)? else {
        return Ok(None);
    };
    let i = match several {
        true => own(memory, &of_result, indices, i, 0)?,
        false => Some(memory.reshape(i, &[])?),
    };
    let Some(i) = i else { return Ok(None) };
    let made = Gather { axis: at as i64 };
    let made = memory.b.op(&made, &[x, i])?;
    let results = Ports {
        all: vec![result.clone()],
        n_operands: 0,
    };
    stored(memory, &of_result, &results, made)
}
