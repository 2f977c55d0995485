//! Operations that are the same operation over permuted axes: they run over the axes of their ports in memory.
//!
//! Example: a softmax along dimension 0 of a value in the order `[1, 0]` becomes a softmax along dimension 1 of its
//! memory.

use super::memory::Memory;

use optc_ir::{
    AttrDict, Axes, Dim, Freedom, LaidPort, NewOp, OpDecl, OpError, OpRef, Run, Structure,
    TensorType, Type, Value, laid_port,
};
use optc_layout::Digit;

/// An operation over axes.
struct Form {
    props: AttrDict,
    /// The index of each operand, and its order.
    operands: Vec<(usize, Lies)>,
    results: Vec<Lies>,
    /// True if leading dimensions of one element may be left out.
    broadcasts: bool,
    /// The bits that are transposed, without operands that are constants.
    transposed: u128,
}

/// The order of a port over axes: its digits, major to minor, and its dimensions.
struct Lies {
    digits: Vec<Digit>,
    dims: Vec<Dim>,
}

/// Writes an operation over the axes for which the fewest bits are transposed. Returns the memory of its results.
/// `None` where it has no such form, or transposes less in its own dimensions.
pub(super) fn write(
    memory: &mut Memory<'_>,
    op: &OpRef<'_>,
    decl: &dyn OpDecl,
    freedom: &Freedom,
    operands: &[Value],
) -> Result<Option<Vec<Value>>, OpError> {
    let Some(ports) = ports(memory, op, freedom) else {
        return Ok(None);
    };
    let counts: Vec<bool> = (0..ports.len())
        .map(|port| operands.get(port).is_none_or(|&v| !memory.is_constant(v)))
        .collect();
    let bits = |port: usize| -> u128 {
        let ty = op.operands.iter().chain(&op.results).nth(port);
        let width = ty
            .and_then(|ty| ty.as_tensor())
            .map_or(0, |ty| ty.dtype.bits());
        let sizes = ports[port].shape.iter().map(|&n| u128::from(n));
        sizes.fold(u128::from(width), u128::saturating_mul)
    };
    let cost = |moves: &[bool]| -> u128 {
        let moved = (0..ports.len()).filter(|&p| counts[p] && moves[p]);
        moved.fold(0, |sum, p| sum.saturating_add(bits(p)))
    };
    let unnatural: Vec<bool> = ports.iter().map(|port| !port.is_natural()).collect();
    let in_own_dimensions = cost(&unnatural);
    let form = |axes: &Axes<'_>| form_over(decl, op, axes, &cost);
    let sizes = |n: u64| memory.numbers.dim(n);
    let all = Axes::suggested(freedom, &ports, &sizes);
    let best = all.iter().filter_map(form).min_by_key(|f| f.transposed);
    let Some(form) = best.filter(|form| form.transposed <= in_own_dimensions) else {
        return Ok(None);
    };
    let mut given = Vec::with_capacity(operands.len());
    for (port, lies) in &form.operands {
        let Some(made) = arranged(memory, operands[*port], &ports[*port], &lies.digits)? else {
            return Ok(None);
        };
        given.push(made);
    }
    let stays = form.broadcasts && form.props == *op.props && decl.family() == "elementwise";
    if !(stays && broadcast_so(memory, &given, &form.operands)) {
        for (value, (port, lies)) in given.iter_mut().zip(&form.operands) {
            *value = match form.broadcasts {
                true => over_all(memory, *value, &lies.dims)?,
                false if ports[*port].is_told() => {
                    memory.reshape(*value, &op.operand(*port)?.dims)?
                }
                false => memory.reshape(*value, &lies.dims)?,
            };
        }
    }
    let Form { props, results, .. } = form;
    let mut new = NewOp::new(op.name, &given, props);
    // An operator of another format has the results that its types state.
    if decl.structure() == Structure::Opaque {
        let typed = results.iter().zip(&op.results).map(|(lies, ty)| {
            let ty = ty.as_tensor()?;
            Some(TensorType::new(lies.dims.clone(), ty.dtype).into())
        });
        new.results = typed.collect();
    }
    let made = memory.b.add(new)?.into_iter().zip(results);
    let stored = made.zip(&ports[operands.len()..]);
    let stored = stored.map(|((value, lies), port)| match port.is_empty() {
        true => Ok(Some(value)),
        false => memory.arrange(value, &lies.digits, &port.digits),
    });
    stored.collect()
}

/// The operation with these axes, and the bytes of ports that `cost` counts for its transposes.
fn form_over(
    decl: &dyn OpDecl,
    op: &OpRef<'_>,
    axes: &Axes<'_>,
    cost: &dyn Fn(&[bool]) -> u128,
) -> Option<Form> {
    let over = decl.over_axes(op, axes)?;
    let lies = |port: usize, runs: &[Run]| Lies {
        digits: axes.digits(port, runs),
        dims: axes.dims(port, runs),
    };
    let first = op.operands.len();
    let mut transposed = vec![false; first + op.results.len()];
    for (port, runs) in &over.operands {
        transposed[*port] = !axes.lies_so(*port, runs);
    }
    for (i, runs) in over.results.iter().enumerate() {
        transposed[first + i] = !axes.lies_so(first + i, runs);
    }
    let result = |(i, runs): (usize, &Vec<Run>)| lies(first + i, runs);
    Some(Form {
        operands: (over.operands.iter())
            .map(|(port, runs)| (*port, lies(*port, runs)))
            .collect(),
        results: over.results.iter().enumerate().map(result).collect(),
        transposed: cost(&transposed),
        props: over.props,
        broadcasts: over.broadcasts,
    })
}

/// The operands and results in memory; `None` where a layout is no order of digits.
pub(super) fn ports(
    memory: &mut Memory<'_>,
    op: &OpRef<'_>,
    freedom: &Freedom,
) -> Option<Vec<LaidPort>> {
    let types = op.operands.iter().chain(&op.results);
    let labels = freedom.operands.iter().chain(&freedom.results);
    let port = |(ty, labels): (&&Type, &Vec<Option<usize>>)| {
        laid_port(ty.as_tensor()?, labels, &mut memory.numbers)
    };
    types.zip(labels).map(port).collect()
}

/// The memory of a port with its digits in another order.
fn arranged(
    memory: &mut Memory<'_>,
    value: Value,
    port: &LaidPort,
    wanted: &[Digit],
) -> Result<Option<Value>, OpError> {
    match port.is_empty() {
        true => Ok(Some(value)),
        false => memory.arrange(value, &port.digits, wanted),
    }
}

/// Returns whether values broadcast over the axes in their present dimensions: counted from the last dimension, each
/// axis is the same dimension in all values that have it. The positions of dimensions of one element are left to the
/// producers of the values, because runtimes fuse operations with no reshape between them.
fn broadcast_so(memory: &Memory<'_>, values: &[Value], wanted: &[(usize, Lies)]) -> bool {
    let long = |dims: &[Dim]| -> Vec<(usize, Dim)> {
        let dims = dims.iter().enumerate().filter(|(_, d)| !d.is_one());
        dims.map(|(at, d)| (at, d.clone())).collect()
    };
    // The axis of each dimension, counted from the last.
    let mut axes: Vec<Option<usize>> = Vec::new();
    for (&value, (_, lies)) in values.iter().zip(wanted) {
        let dims = memory.dims(value);
        let (has, wants) = (long(&dims), long(&lies.dims));
        let same = has.len() == wants.len() && has.iter().zip(&wants).all(|(a, b)| a.1 == b.1);
        if !same || dims.contains(&Dim::Unknown) {
            return false;
        }
        for ((at, _), (axis, _)) in has.into_iter().zip(wants) {
            let from_last = dims.len() - 1 - at;
            if axes.len() <= from_last {
                axes.resize(from_last + 1, None);
            }
            match axes[from_last] {
                Some(known) if known != axis => return false,
                _ => axes[from_last] = Some(axis),
            }
        }
    }
    let known: Vec<usize> = axes.iter().rev().copied().flatten().collect();
    known.is_sorted_by(|a, b| a < b)
}

/// A value over all axes, without leading axes of one element.
fn over_all(memory: &mut Memory<'_>, value: Value, wanted: &[Dim]) -> Result<Value, OpError> {
    let ones = |dims: &[Dim]| dims.iter().take_while(|d| d.is_one()).count();
    let has = memory.dims(value);
    if has.len() <= wanted.len() && has[ones(&has)..] == wanted[ones(wanted)..] {
        return Ok(value);
    }
    memory.reshape(value, &wanted[ones(wanted)..])
}
