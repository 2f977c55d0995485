//! Products that read transposed operands directly: `Gemm`, and `FusedMatMul` if the model is for onnxruntime.
//!
//! Example: a product of two matrices whose right operand is a transpose of `w` is a `Gemm` of `w` with `transB = 1`.

use super::attrs::{int, text};
use super::shapes::reshaped;
use super::writer::{Outcome, Writer, name_of};
use optc_ir::op::Operation;
use optc_ir::{DType, Dim, OpData, TensorType, Value};
use optc_ops::{Matmul, Reshape, Transpose};
use std::iter::repeat_n;

/// Groups of dimensions that stay adjacent under a transpose. Each has its extent, and its position in the result.
type Groups = Vec<(u64, usize)>;

/// The matrices of an operand. If the operand is a transpose, `value` is the value before that transpose, and the
/// matrices are read from it. Unknown extents are stand-in numbers.
#[derive(Clone, Debug, PartialEq, Eq)]
struct OperandMatrices {
    value: Value,
    /// The extents of the batch.
    lead: Vec<u64>,
    rows: u64,
    columns: u64,
    /// True if the matrices are stored transposed, with columns before rows.
    turned: bool,
    /// True if the batch is stored between the two dimensions of a matrix.
    batch_inside: bool,
}

impl OperandMatrices {
    /// The number of matrices.
    fn batch(&self) -> u64 {
        volume(&self.lead)
    }

    /// The extents of the stored value, with the batch in `dims` dimensions.
    fn extents(&self, dims: usize) -> Vec<u64> {
        let [first, last] = match self.turned {
            true => [self.columns, self.rows],
            false => [self.rows, self.columns],
        };
        let ones = repeat_n(1, dims.saturating_sub(self.lead.len()));
        let batch: Vec<u64> = ones.chain(self.lead.iter().copied()).collect();
        match self.batch_inside {
            true => [&[first], &batch[..], &[last]].concat(),
            false => [&batch[..], &[first, last]].concat(),
        }
    }
}

fn volume(extents: &[u64]) -> u64 {
    extents.iter().copied().fold(1, u64::saturating_mul)
}

/// The batch of a product of operands with these batches.
fn broadcast(left: &[u64], right: &[u64]) -> Vec<u64> {
    let dims = left.len().max(right.len());
    let at = |batch: &[u64], i: usize| (i + batch.len()).checked_sub(dims).map_or(1, |i| batch[i]);
    let both = (0..dims).map(|i| [at(left, i), at(right, i)]);
    both.map(|[a, b]| if a == 1 { b } else { a }).collect()
}

/// Writes a product as an operator that transposes an operand itself; `None` if no operand is transposed or no operator
/// fits.
pub(super) fn matmul(w: &mut Writer<'_>, data: &OpData) -> Outcome<Option<String>> {
    let dtype = w.tensor(data.operands[0])?.dtype;
    let result = w.tensor(data.results[0])?.clone();
    if !dtype.is_float() || result.dtype != dtype || result.rank() < 2 {
        return Ok(None);
    }
    let Some(mut right) = source(w, data.operands[1], false)? else {
        return Ok(None);
    };
    // If there is a single matrix on the right, all dimensions of the left operand before K count as rows. This is used
    // only if the left operand is stored transposed.
    let mut left = source(w, data.operands[0], right.batch() == 1)?;
    if left.as_ref().is_some_and(|s| !s.turned) {
        left = source(w, data.operands[0], false)?;
    }
    let Some(mut left) = left else {
        return Ok(None);
    };
    // onnxruntime transposes a left matrix again for each strip of columns. So the left operand is written as a
    // transpose, and the product reads that.
    if w.options.fused && left.turned {
        let Some(read) = itself(w, data.operands[0], false)? else {
            return Ok(None);
        };
        left = read;
    }
    let plain = |s: &OperandMatrices| !s.turned && !s.batch_inside;
    if plain(&left) && plain(&right) {
        return Ok(None);
    }
    let known = [DType::F32, DType::F16, DType::BF16].contains(&dtype);
    // Of a product with one matrix on the right, all rows of the left operand are one matrix.
    if left.batch() != 1 && right.batch() == 1 && right.turned && !(w.options.fused && known) {
        let Some(flat) = itself(w, data.operands[0], true)? else {
            return Ok(None);
        };
        left = flat;
    }
    let one = left.batch() == 1 && right.batch() == 1 && w.needs_no_more("Gemm", 2);
    if !(one || w.options.fused && known) {
        return Ok(None);
    }
    if one {
        (left.lead, right.lead) = (Vec::new(), Vec::new());
    }
    let given = as_read(w, [&left, &right])?;
    let mut attrs = Vec::new();
    for (source, [turned, inside]) in [
        (&left, ["transA", "transBatchA"]),
        (&right, ["transB", "transBatchB"]),
    ] {
        if source.turned {
            attrs.push(int(turned, 1));
        }
        if source.batch_inside {
            attrs.push(int(inside, 1));
        }
    }
    let made = match one {
        true => {
            w.gemms.insert(data.results[0], w.nodes.len());
            w.node("Gemm", &given, attrs)
        }
        false => w.microsoft("FusedMatMul", &given, attrs),
    };
    if one {
        let at = w.nodes.len() - 1;
        w.matrices.insert(at, [left.rows, right.columns]);
    }
    let mut has = broadcast(&left.lead, &right.lead);
    has.extend([left.rows, right.columns]);
    with_dims(w, made, &has, &result).map(Some)
}

/// The operands of a product in the shapes that the operator reads.
fn as_read(w: &mut Writer<'_>, [left, right]: [&OperandMatrices; 2]) -> Outcome<Vec<String>> {
    // The batch may be inside only if both operands have the same rank.
    let inside = left.batch_inside || right.batch_inside;
    let dims = if inside {
        left.lead.len().max(right.lead.len())
    } else {
        0
    };
    let mut given = Vec::with_capacity(2);
    for source in [left, right] {
        let name = w.name(source.value)?;
        let from = w.tensor(source.value)?.dims.clone();
        let to = w.dims(&source.extents(dims));
        given.push(match from == to {
            true => name,
            false => reshaped(w, &name, &from, &to)?,
        });
    }
    Ok(given)
}

/// A value of these extents, in the shape of a type.
fn with_dims(w: &mut Writer<'_>, made: String, has: &[u64], ty: &TensorType) -> Outcome<String> {
    let has = w.dims(has);
    if ty.dims == has {
        return Ok(made);
    }
    let own = TensorType::new(has.clone(), ty.dtype);
    w.made.insert(made.clone(), own);
    reshaped(w, &made, &has, &ty.dims)
}

/// Restores a `Gemm` that import split into a product of two matrices and a sum with a constant over its columns. The
/// node of the product becomes the `Gemm`. Its name, which now is that of the sum, is returned. `None` if the operation
/// is no such sum.
pub(super) fn rejoined(w: &mut Writer<'_>, data: &OpData) -> Outcome<Option<String>> {
    let &[a, b] = &data.operands[..] else {
        return Ok(None);
    };
    for (product, bias) in [(a, b), (b, a)] {
        let Some(&at) = w.matmuls.get(&product) else {
            continue;
        };
        let made = w.func.def_op(product).map(|op| &w.func.ops[op]);
        let one = made.is_some_and(|made| made.loc == data.loc && name_of(&made.loc).is_some());
        let (ty, own) = (w.tensor(product)?, w.tensor(bias)?);
        let over_columns = own.rank() == 1 && own.dims.last() == ty.dims.last();
        if !one || !over_columns || w.uses(product) != 1 {
            continue;
        }
        let Some(name) = w.reshaped_constant(bias, &own.dims)? else {
            continue;
        };
        w.nodes[at].op_type = "Gemm".into();
        w.nodes[at].input.push(name);
        return w.name(product).map(Some);
    }
    Ok(None)
}

/// Adds a constant over rows or columns to a `Gemm` that has no bias yet. The name of the `Gemm`, which now is that of
/// the sum, is returned. `None` if the operation is no such sum.
pub(super) fn biased(w: &mut Writer<'_>, data: &OpData) -> Outcome<Option<String>> {
    let &[a, b] = &data.operands[..] else {
        return Ok(None);
    };
    for (product, bias) in [(a, b), (b, a)] {
        let Some(at) = gemm_of(w, product) else {
            continue;
        };
        let ty = w.tensor(product)?.clone();
        if w.tensor(data.results[0])?.dims != ty.dims {
            continue;
        }
        let (Some(dims), Some(own)) = (w.extents(product)?, w.tensor(bias)?.shape()) else {
            continue;
        };
        let Some([rows, columns]) = w.matrix(at) else {
            continue;
        };
        let lead = dims.len().checked_sub(own.len());
        let Some(lead) = lead else { continue };
        let has = |at: usize| lead <= at && own[at - lead] != 1;
        let elements: u64 = own.iter().product();
        let all = |first: usize, last: usize| (first..last).all(|d| has(d) || dims[d] == 1);
        let cut = |n: u64| (0..=dims.len()).find(|&d| dims[..d].iter().product::<u64>() == n);
        let Some(cut) = cut(rows) else { continue };
        let shape = if elements == rows && all(0, cut) {
            vec![Dim::Fixed(rows), Dim::Fixed(1)]
        } else if elements == columns && all(cut, dims.len()) {
            vec![Dim::Fixed(columns)]
        } else {
            continue;
        };
        let Some(name) = w.reshaped_constant(bias, &shape)? else {
            continue;
        };
        w.nodes[at].input.push(name);
        let name = w.name(product)?;
        return Ok(Some(name));
    }
    Ok(None)
}

/// Writes the sum of a reshaped product and a constant over the product's columns. The sum is written before the
/// reshape, since runtimes fuse a product with its bias. `None` if the operation is no such sum.
pub(super) fn biased_first(w: &mut Writer<'_>, data: &OpData) -> Outcome<Option<String>> {
    let &[a, b] = &data.operands[..] else {
        return Ok(None);
    };
    for (sum, bias) in [(a, b), (b, a)] {
        let to = w.tensor(data.results[0])?.dims.clone();
        let Some(product) = product_of(w, sum).filter(|p| *p != sum) else {
            continue;
        };
        if w.tensor(sum)?.dims != to {
            continue;
        }
        let (from, own) = (w.tensor(product)?.shape(), w.tensor(bias)?.shape());
        let (Some(from), Some(own), Some(dims)) = (from, own, w.tensor(sum)?.shape()) else {
            continue;
        };
        let columns = from.last().copied().unwrap_or(1);
        let Some(lead) = dims.len().checked_sub(own.len()) else {
            continue;
        };
        // The first of the trailing dimensions that form the columns. The constant must have all of these dimensions.
        let cut = (0..dims.len()).rfind(|&d| dims[d..].iter().product::<u64>() == columns);
        let has = |d: usize| dims[d] == 1 || (lead <= d && own[d - lead] != 1);
        let whole = cut.is_some_and(|cut| (cut..dims.len()).all(has));
        if !whole || own.iter().product::<u64>() != columns || columns == 1 {
            continue;
        }
        let Some(bias) = w.reshaped_constant(bias, &[Dim::Fixed(columns)])? else {
            continue;
        };
        let name = w.name(product)?;
        let made = w.node("Add", &[&name, &bias], vec![]);
        let ty = w.tensor(product)?.clone();
        let dims = ty.dims.clone();
        w.made.insert(made.clone(), ty);
        return reshaped(w, &made, &dims, &to).map(Some);
    }
    Ok(None)
}

/// The product behind a value: the value itself, or the operand of its reshapes. `None` if there is another reader in
/// between.
fn product_of(w: &Writer<'_>, mut value: Value) -> Option<Value> {
    loop {
        if w.uses(value) != 1 {
            return None;
        }
        let data = &w.func.ops[w.func.def_op(value)?];
        match (&*data.name, data.operands.as_slice()) {
            (Reshape::NAME, &[from]) => value = from,
            (Matmul::NAME, &[_, weights]) => return w.is_lazy(weights).then_some(value),
            _ => return None,
        }
    }
}

/// The node of a `Gemm` without a bias behind a value: the value itself, or the operand of its reshapes. `None` if
/// there is another reader in between.
fn gemm_of(w: &Writer<'_>, mut value: Value) -> Option<usize> {
    loop {
        if w.uses(value) != 1 {
            return None;
        }
        if let Some(&at) = w.gemms.get(&value) {
            return (w.nodes[at].input.len() == 2).then_some(at);
        }
        let data = &w.func.ops[w.func.def_op(value)?];
        match (&*data.name, data.operands.as_slice()) {
            (Reshape::NAME, &[from]) => value = from,
            _ => return None,
        }
    }
}

/// The matrices of an operand, read from the operand itself. With `flat`, all its rows form one matrix.
fn itself(w: &mut Writer<'_>, operand: Value, flat: bool) -> Outcome<Option<OperandMatrices>> {
    let Some(shape) = w.extents(operand)? else {
        return Ok(None);
    };
    let [lead @ .., rows, columns] = &shape[..] else {
        return Ok(None);
    };
    let (mut lead, mut rows) = (lead.to_vec(), *rows);
    if flat {
        rows = rows.saturating_mul(volume(&lead));
        lead = Vec::new();
    }
    Ok((!shape.contains(&0)).then_some(OperandMatrices {
        value: operand,
        lead,
        rows,
        columns: *columns,
        turned: false,
        batch_inside: false,
    }))
}

/// The matrices of an operand. If the operand is a transpose that swaps rows and columns or moves the batch, they are
/// read from the value before it, else from the operand itself. With `flat`, all rows form one matrix.
fn source(w: &mut Writer<'_>, operand: Value, flat: bool) -> Outcome<Option<OperandMatrices>> {
    let Some(itself) = itself(w, operand, flat)? else {
        return Ok(None);
    };
    let (batch, rows, columns) = (itself.batch(), itself.rows, itself.columns);
    let Some((value, groups)) = groups(w, operand)? else {
        return Ok(Some(itself));
    };
    let wanted = [batch, rows, columns];
    let Some(groups) = cut(&groups, &wanted) else {
        return Ok(Some(itself));
    };
    // The groups in the order of the stored value, each with its position in the operand.
    let found = match &groups[..] {
        [(a, 1), (b, 0)] if batch == 1 && (*b, *a) == (rows, columns) => Some((true, false)),
        [(n, 0), (a, 2), (b, 1)] if *n == batch && (*b, *a) == (rows, columns) => {
            Some((true, false))
        }
        [(a, 1), (n, 0), (b, 2)] if *n == batch && (*a, *b) == (rows, columns) => {
            Some((false, true))
        }
        [(a, 2), (n, 0), (b, 1)] if *n == batch && (*b, *a) == (rows, columns) => {
            Some((true, true))
        }
        _ => None,
    };
    Ok(Some(match found {
        Some((turned, batch_inside)) => OperandMatrices {
            value,
            turned,
            batch_inside,
            ..itself
        },
        None => itself,
    }))
}

/// Cuts the groups at the extents `wanted` of the operand; `None` if these do not fit.
fn cut(groups: &[(u64, usize)], wanted: &[u64]) -> Option<Groups> {
    let mut order: Vec<usize> = (0..groups.len()).collect();
    order.sort_by_key(|&i| groups[i].1);
    // The parts of each group in the order of the operand, each with its position there.
    let mut parts: Vec<Vec<(u64, usize)>> = vec![Vec::new(); groups.len()];
    let mut place = 0;
    let mut wanted = wanted.iter().copied().filter(|&n| n != 1);
    let mut open = wanted.next().unwrap_or(1);
    for i in order {
        let mut left = groups[i].0;
        while left != 1 {
            let part = if left <= open { left } else { open };
            if !left.is_multiple_of(part) || !open.is_multiple_of(part) || part == 1 {
                return None;
            }
            parts[i].push((part, place));
            (place, left, open) = (place + 1, left / part, open / part);
            if open == 1 {
                open = wanted.next().unwrap_or(1);
            }
        }
    }
    Some(parts.concat())
}

/// For an operand that is a transpose, perhaps followed by reshapes: the value before the transpose, and the groups of
/// its dimensions. `None` for any other operand.
fn groups(w: &mut Writer<'_>, operand: Value) -> Outcome<Option<(Value, Groups)>> {
    let mut value = operand;
    let made = loop {
        let Some(op) = w.func.def_op(value) else {
            return Ok(None);
        };
        let data = &w.func.ops[op];
        match (&*data.name, data.operands.as_slice()) {
            (Reshape::NAME, &[from]) => value = from,
            (Transpose::NAME, _) => break data,
            _ => return Ok(None),
        }
    };
    let perm = w.typed::<Transpose>(made)?.perm;
    let source = made.operands[0];
    // The transpose of a constant is folded when the constant is written.
    if w.is_lazy(source) {
        return Ok(None);
    }
    let Some(dims) = w.extents(source)? else {
        return Ok(None);
    };
    let perm: Vec<usize> = perm
        .iter()
        .filter_map(|&p| usize::try_from(p).ok())
        .collect();
    Ok(grouped(&dims, &perm).map(|groups| (source, groups)))
}

/// The groups of dimensions that stay adjacent under a permutation, in the order of the operand, each with its position
/// in the result. Dimensions of extent 1 are left out.
fn grouped(dims: &[u64], perm: &[usize]) -> Option<Groups> {
    let perm: Vec<usize> = perm
        .iter()
        .copied()
        .filter(|&p| dims.get(p).is_some_and(|&n| n != 1))
        .collect();
    let mut groups: Vec<(u64, usize, usize)> = Vec::new();
    for dim in (0..dims.len()).filter(|&d| dims[d] != 1) {
        let at = perm.iter().position(|&p| p == dim)?;
        match groups.last_mut() {
            Some((extent, _, end)) if *end == at => {
                *extent = extent.saturating_mul(dims[dim]);
                *end += 1;
            }
            _ => groups.push((dims[dim], at, at + 1)),
        }
    }
    let starts: Vec<usize> = groups.iter().map(|g| g.1).collect();
    let place = |start: usize| starts.iter().filter(|&&s| s < start).count();
    let groups = groups.into_iter().map(|(n, start, _)| (n, place(start)));
    Some(groups.collect())
}

/// Writes a transpose between two reshapes as `DepthToSpace`, if it is a pixel shuffle; `None` otherwise.
pub(super) fn shuffled(w: &mut Writer<'_>, data: &OpData) -> Outcome<Option<String>> {
    let Some((mut source, found)) = groups(w, data.operands[0])? else {
        return Ok(None);
    };
    while let Some(op) = w.func.def_op(source) {
        let made = &w.func.ops[op];
        match (&*made.name, made.operands.as_slice()) {
            (Reshape::NAME, &[from]) => source = from,
            _ => break,
        }
    }
    let shapes = [
        w.tensor(source)?.shape(),
        w.tensor(data.results[0])?.shape(),
    ];
    let [Some(from), Some(to)] = shapes else {
        return Ok(None);
    };
    let (&[batch, channels, h, v], &[outer, inner, height, width]) = (&from[..], &to[..]) else {
        return Ok(None);
    };
    if from.contains(&0) || batch != outer || !height.is_multiple_of(h) {
        return Ok(None);
    }
    let r = height / h;
    let fits = v.checked_mul(r) == Some(width) && inner.checked_mul(r * r) == Some(channels);
    if r < 2 || !fits || !w.has_attribute("DepthToSpace", "mode") {
        return Ok(None);
    }
    let modes = [
        ("CRD", [batch, inner, r, r, h, v], [0, 1, 4, 2, 5, 3]),
        ("DCR", [batch, r, r, inner, h, v], [0, 3, 4, 1, 5, 2]),
    ];
    let mode = modes
        .into_iter()
        .find(|(_, dims, perm)| grouped(dims, perm).as_ref() == Some(&found));
    let Some((mode, ..)) = mode else {
        return Ok(None);
    };
    let name = w.name(source)?;
    let size = int("blocksize", i64::try_from(r).unwrap_or(0));
    Ok(Some(w.node(
        "DepthToSpace",
        &[&name],
        vec![size, text("mode", mode)],
    )))
}
