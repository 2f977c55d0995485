//! Sinks merges of named sizes behind operations: an operation on merged sizes becomes the same operation on the
//! separate sizes, and the merge follows it.
//!
//! Example: `relu(reshape [N, S, 4] -> [N*S, 4])` becomes `reshape(relu [N, S, 4]) -> [N*S, 4]`.
//!
//! No notation cuts a dimension `N*S` at a size that has a name. So a layout in which `N` and `S` are exchanged can be
//! stated for `[S, N, ..]` and not for `[N*S, ..]`.

use crate::rules::{Plan, Refusal, Site, ensure};
use optc_ir::size::Size;
use optc_ir::{Dim, Freedom, FreedomClass, OpRef, TensorType, Type};
use optc_layout::Notation;
use optc_ops::Reshape;

/// A dimension of an operand that a reshape merges from several.
#[derive(PartialEq, Eq)]
struct Merge {
    dim: usize,
    /// The sizes that are merged, two or more.
    parts: Vec<Dim>,
}

/// f(merge(x)) = merge(f(x)), if `f` is independent along the merged dimension.
pub(super) fn sink_merge(site: Site<'_>) -> Result<Plan, Refusal> {
    let Separate {
        operands,
        result,
        merged,
    } = separate(&site)?;
    let values = site.func.ops[site.op].operands.clone();
    Ok(Box::new(move |patch| {
        let mut apart = Vec::with_capacity(values.len());
        for (value, ty) in values.into_iter().zip(operands) {
            let dims = ty.as_tensor().map(|ty| ty.dims.clone());
            let changed = dims.filter(|_| patch.ty(value) != ty);
            apart.push(match changed {
                Some(dims) => patch.op_typed(&Reshape::of_dims(&dims), &[value], vec![ty])[0],
                None => value,
            });
        }
        let y = patch.same_op(&apart, vec![result]);
        let shape = Reshape::of_dims(&merged.dims);
        let y = patch.op_typed(&shape, &y, vec![merged.into()]);
        patch.replace(&y);
        Ok(())
    }))
}

/// The types of an operation on the separate sizes.
struct Separate {
    operands: Vec<Type>,
    result: Type,
    /// The type of the result on the merged sizes.
    merged: TensorType,
}

/// The operation on the separate sizes, or why it is another one there.
fn separate(site: &Site<'_>) -> Result<Separate, Refusal> {
    let data = &site.func.ops[site.op];
    let op = site.op_ref();
    let n_operands = data.operands.len();
    let first = (0..n_operands).find_map(|i| Some((i, merge_of(site, i, None)?)));
    let (at, Merge { dim, parts }) = first.ok_or(Refusal("no operand merges named sizes"))?;
    ensure(data.results.len() == 1, "there are several results")?;
    ensure(
        data.attrs.is_empty() && site.registry.effect(&op).is_pure(),
        "it does more than compute",
    )?;
    let decl = site.registry.get(op.name);
    let decl = decl.ok_or(Refusal("nobody declared it"))?;
    let freedom = decl.freedom(&op);
    let free = matches!(
        freedom.class,
        FreedomClass::Ordered | FreedomClass::Contract
    );
    ensure(
        free && freedom.operands.len() == n_operands,
        "it wants one layout",
    )?;
    let label = freedom.operands.get(at).and_then(|d| *d.get(dim)?);
    let label = label.ok_or(Refusal("it drops the merged dimension"))?;
    let operands = separate_operands(site, &op, &freedom.operands, label, &parts)?;
    let merged = tensor(op.result(0).ok())?.clone();
    let labels = freedom.results.first();
    let labels = labels.ok_or(Refusal("nothing is known of its result"))?;
    let result = apart(&merged, labels, label, &parts)?;
    let longer = |ty: &TensorType| merged.rank() < ty.rank();
    ensure(
        result.as_tensor().is_some_and(longer),
        "the result has no such dimension",
    )?;
    let view = OpRef {
        name: op.name,
        operands: operands.iter().collect(),
        results: vec![&result],
        props: op.props,
    };
    let types = site.registry.result_types(&view);
    ensure(
        types.is_ok_and(|types| types == [result.clone()]),
        "the shape rule has another result",
    )?;
    ensure(
        agree(&freedom, label, parts.len(), &decl.freedom(&view)),
        "it is another operation on the sizes apart",
    )?;
    Ok(Separate {
        operands,
        result,
        merged,
    })
}

/// The types of the operands with each dimension of the label cut into parts. Each operand must merge the same parts.
fn separate_operands(
    site: &Site<'_>,
    op: &OpRef<'_>,
    ports: &[Vec<Option<usize>>],
    label: usize,
    parts: &[Dim],
) -> Result<Vec<Type>, Refusal> {
    let operand = |(i, labels): (usize, &Vec<Option<usize>>)| {
        let ty = tensor(op.operand(i).ok())?;
        let mut of_label = (0..labels.len()).filter(|&d| labels[d] == Some(label));
        let same = |d| merge_of(site, i, Some(d)).is_some_and(|m| m.parts == parts);
        ensure(
            of_label.all(same),
            "an operand does not merge the same sizes",
        )?;
        apart(ty, labels, label, parts)
    };
    ports.iter().enumerate().map(operand).collect()
}

/// The type with each dimension of a label cut into parts.
fn apart(
    ty: &TensorType,
    labels: &[Option<usize>],
    label: usize,
    parts: &[Dim],
) -> Result<Type, Refusal> {
    ensure(ty.notation == Notation::RowMajor, "a value has a layout")?;
    let mut dims = Vec::with_capacity(ty.rank() + parts.len());
    for (dim, own) in ty.dims.iter().zip(labels) {
        match *own == Some(label) {
            true => dims.extend(parts.iter().cloned()),
            false => dims.push(dim.clone()),
        }
    }
    Ok(TensorType::new(dims, ty.dtype).into())
}

fn tensor(ty: Option<&TensorType>) -> Result<&TensorType, Refusal> {
    ty.ok_or(Refusal("no tensor"))
}

/// The merge that makes dimension `dim` of operand `i`, or any of its dimensions if `dim` is `None`. A dimension that
/// is cut at known sizes alone has notations and does not count as a merge.
fn merge_of(site: &Site<'_>, i: usize, dim: Option<usize>) -> Option<Merge> {
    let value = site.operand(i).ok()?;
    let to = site.func.ty(value).as_tensor()?;
    let named = |d: &Dim| matches!(d, Dim::Symbol(_));
    if !to.dims.iter().any(named) {
        return None;
    }
    let reshape = site.producer::<Reshape>(i).ok()?;
    let from = site.func.ty(reshape.operand(0).ok()?).as_tensor()?;
    let plain = from.notation == Notation::RowMajor && to.notation == Notation::RowMajor;
    let sizes = |dims: &[Dim]| dims.iter().map(Dim::size).collect::<Option<Vec<Size>>>();
    let (x, z) = (sizes(&from.dims)?, sizes(&to.dims)?);
    let parts = |d: usize| {
        let before = Size::product(&z[..d])?;
        let start = (0..=x.len()).find(|&a| Size::product(&x[..a]).as_ref() == Some(&before))?;
        let whole = |&b: &usize| Size::product(&x[start..b]).as_ref() == Some(&z[d]);
        let end = (start..=x.len()).find(whole)?;
        let long = from.dims[start..end].iter().filter(|d| !d.is_one());
        Some(long.cloned().collect::<Vec<Dim>>())
    };
    let merge = |d: usize| {
        let parts = parts(d)?;
        let inner = parts.get(1..)?;
        inner.iter().any(named).then_some(Merge { dim: d, parts })
    };
    if !plain {
        return None;
    }
    match dim {
        Some(d) => merge(d),
        None => (0..z.len()).find_map(merge),
    }
}

/// Returns whether `apart` is `whole` with label `label` replaced by `parts` labels, adjacent and in order.
fn agree(whole: &Freedom, label: usize, parts: usize, apart: &Freedom) -> bool {
    let ports = |f: &Freedom| -> Vec<Vec<Option<usize>>> {
        f.operands.iter().chain(&f.results).cloned().collect()
    };
    // The new labels of each old one. Labels of the parts come after the old ones.
    let old = whole.labels.len();
    let wanted = |labels: Vec<Option<usize>>| -> Vec<Option<usize>> {
        let parts_of = |own: Option<usize>| match own == Some(label) {
            true => (old..old + parts).map(Some).collect(),
            false => vec![own],
        };
        labels.into_iter().flat_map(parts_of).collect()
    };
    let role = |a: usize| Some(whole.labels.get(if a < old { a } else { label })?.role);
    let mut pairs: Vec<(usize, usize)> = Vec::new();
    let mut same = |a: Option<usize>, b: Option<usize>| match (a, b) {
        (None, None) => true,
        (Some(a), Some(b)) => {
            let known = pairs.iter().find(|(x, y)| *x == a || *y == b);
            let fits = known.is_none_or(|pair| *pair == (a, b));
            pairs.push((a, b));
            fits && role(a).is_some_and(|role| apart.labels.get(b).is_some_and(|l| l.role == role))
        }
        _ => false,
    };
    let (wholes, aparts) = (ports(whole), ports(apart));
    whole.class == apart.class
        && wholes.len() == aparts.len()
        && wholes.into_iter().zip(aparts).all(|(a, b)| {
            let a = wanted(a);
            a.len() == b.len() && a.into_iter().zip(b).all(|(a, b)| same(a, b))
        })
}
