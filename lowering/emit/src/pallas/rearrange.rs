//! Operations that only rename elements, applied to tiles.

use super::cx::{Cx, Reason, shape_of};
use super::words::tuple;
use optc_ir::op::iteration_domain_of;
use optc_ir::{Attributes, DType, Dim, Op, OpRef, Operation, Registry, Type};
use optc_ops::Reshape;
use optc_tile::{Span, Tile, Tiling};
use std::collections::BTreeSet;

/// The tile of the operand, the extents of the tile between the reshapes, and the permutation.
pub(super) type Rearranged = (Tile, Vec<u64>, Vec<usize>);

/// The operand's tile for an operation that only renames elements, and the extents to which that tile is reshaped
/// before it is transposed. `None` for other operations.
pub(super) fn rearranged(
    cx: &Cx<'_>,
    op: Op,
    last: &Tile,
    grid: &[u64],
) -> Result<Option<Rearranged>, Reason> {
    let op_ref = cx.func.op_ref(op);
    let Ok(view) = cx.registry.rearrangement(&op_ref) else {
        return Ok(None);
    };
    let inner: Option<Vec<u64>> = view.shape.iter().map(Dim::fixed).collect();
    let inner = inner.ok_or("a size is not a number")?;
    let transposed: Vec<u64> = view.perm.iter().map(|&p| inner[p]).collect();
    let operand = shape_of(op_ref.operand(0).map_err(|e| e.message)?)?;
    let result = shape_of(op_ref.result(0).map_err(|e| e.message)?)?;
    let between = reshaped(cx.registry, &transposed, &result, last, grid)?;
    let mut back = vec![Span::whole(1); inner.len()];
    for (i, &p) in view.perm.iter().enumerate() {
        back[p] = between.0[i].clone();
    }
    let back = Tile(back);
    let first = reshaped(cx.registry, &operand, &inner, &back, grid)?;
    let extents = back.0.iter().map(|s| s.extent).collect();
    Ok(Some((first, extents, view.perm)))
}

/// The tile of `from` that a reshape to `to` needs for a tile of `to`; an error if it has more elements than the tile.
fn reshaped(
    registry: &Registry,
    from: &[u64],
    to: &[u64],
    tile: &Tile,
    grid: &[u64],
) -> Result<Tile, Reason> {
    if from == to {
        return Ok(tile.clone());
    }
    let (a, b) = (Type::tensor(from, DType::F32), Type::tensor(to, DType::F32));
    let dims: Vec<Dim> = to.iter().map(|&n| Dim::Fixed(n)).collect();
    let props = Reshape::of_dims(&dims).write();
    let op = OpRef {
        name: Reshape::NAME,
        operands: vec![&a],
        results: vec![&b],
        props: &props,
    };
    let domain = iteration_domain_of(registry.get(Reshape::NAME), &op);
    let steps = domain
        .steps(std::slice::from_ref(tile), &[], &[to], grid)
        .map_err(|e| e.to_string())?;
    let region = domain.operand(0, &steps, from, grid);
    let (found, wanted) = (region.tile.elements(), tile.elements());
    if found != wanted {
        return Err(format!(
            "a tile of {wanted} elements needs a box of {found} before the reshape"
        ));
    }
    Ok(region.tile)
}

/// A reshape, a transpose and a reshape of a whole value.
pub(super) fn rearrangement(
    x: &str,
    from: &[u64],
    inner: &[u64],
    perm: &[usize],
    to: &[u64],
) -> String {
    let turned: Vec<u64> = perm.iter().map(|&p| inner[p]).collect();
    if is_sorted(perm) {
        return reshaped_text(x.to_owned(), from, to);
    }
    let text = reshaped_text(x.to_owned(), from, inner);
    reshaped_text(transposed_text(text, perm), &turned, to)
}

/// The same of a tile in a kernel. A compiler of kernels reshapes rows and leading dimensions; lanes are cut and joined as
/// parts of matrices, by the helpers that are added to `helpers`. Dimensions of extent 1 are dropped before and inserted
/// behind.
pub(super) fn rearrangement_of_tile(
    x: &str,
    [from, inner, to]: [&[u64]; 3],
    perm: &[usize],
    helpers: &mut BTreeSet<&'static str>,
) -> Result<String, Reason> {
    let plain = || Ok(rearrangement(x, from, inner, perm, to));
    if leading_trimmed(from) == leading_trimmed(to) && is_sorted(perm) {
        return plain();
    }
    // Numbers that are matrices of their own, one or several of them to a row of lanes.
    let (units, behind) = (trailing_units(from), trailing_units(to));
    if 1 < units {
        let axes = tuple(from.len() - units..from.len());
        helpers.insert("_along");
        let text = format!("_along(jnp.max, {x}, {axes}, False)");
        let kept = &from[..from.len() - units];
        return rearrangement_of_tile(&text, [kept, inner, to], perm, helpers);
    }
    if 1 < behind || behind == 1 && to.len() == 2 {
        let kept = &to[..to.len() - behind];
        let text = rearrangement_of_tile(x, [from, inner, kept], perm, helpers)?;
        helpers.insert("_column");
        return Ok(format!("_column({text}, {behind})"));
    }
    Ok(of_matrices(x, [from, inner, to], perm, helpers)?
        .unwrap_or_else(|| rearrangement(x, from, inner, perm, to)))
}

/// The same of matrices in lanes; `None` if their dimensions are not cut into common ones.
fn of_matrices(
    x: &str,
    [from, inner, to]: [&[u64]; 3],
    perm: &[usize],
    helpers: &mut BTreeSet<&'static str>,
) -> Result<Option<String>, Reason> {
    let (own, wanted) = (matrices(from), matrices(to));
    let Some((inner, perm)) = refined(&own, inner, perm, &wanted) else {
        return Ok(None);
    };
    let turned: Vec<u64> = perm.iter().map(|&p| inner[p]).collect();
    let (Some(cut), Some(joined)) = (Ends::of(&own, &inner), Ends::of(&wanted, &turned)) else {
        return Ok(None);
    };
    let mut text = reshaped_text(x.to_owned(), from, &own);
    let mut have = own.clone();
    let parts = cut.parts(&inner).max(joined.parts(&turned));
    if MAX_PARTS < parts {
        return Err(format!(
            "it moves {parts} parts of the lanes, at most {MAX_PARTS} are moved"
        ));
    }
    // The parts of cut lanes come to lie before the rows.
    let mut order: Vec<usize> = (0..inner.len()).collect();
    if cut.parts(&inner) != 1 {
        order = cut.parts_first(&order);
        let lanes = inner[inner.len() - 1];
        text = format!("_split_lanes({text}, {lanes})");
        helpers.insert("_split_lanes");
        let [lead @ .., rows, _] = &own[..] else {
            return Ok(None);
        };
        have = [lead, &[cut.parts(&inner), *rows, lanes]].concat();
    }
    let joins = joined.parts(&turned) != 1;
    let target = match joins {
        true => joined.parts_first(&perm),
        false => perm,
    };
    let place = |p: &usize| order.iter().position(|o| o == p);
    let Some(moves) = target.iter().map(place).collect::<Option<Vec<usize>>>() else {
        return Ok(None);
    };
    if !is_sorted(&moves) {
        let shape: Vec<u64> = order.iter().map(|&p| inner[p]).collect();
        text = transposed_text(reshaped_text(text, &have, &shape), &moves);
        have = target.iter().map(|&p| inner[p]).collect();
    }
    if joins {
        let [lead @ .., rows, _] = &wanted[..] else {
            return Ok(None);
        };
        let parts = [
            lead,
            &[joined.parts(&turned), *rows, turned[turned.len() - 1]],
        ]
        .concat();
        text = format!("_merge_lanes({})", reshaped_text(text, &have, &parts));
        helpers.insert("_merge_lanes");
        have.clone_from(&wanted);
    }
    Ok(Some(reshaped_text(text, &have, to)))
}

/// The most parts that lanes are cut into, or that are joined to lanes: each is a line of its own for the compiler.
const MAX_PARTS: u64 = 256;

/// The number of extents of 1 behind the last other one; 0 if there is no other one.
fn trailing_units(extents: &[u64]) -> usize {
    let last = extents.iter().rposition(|&n| n != 1);
    last.map_or(0, |last| extents.len() - 1 - last)
}

/// The extents without those of 1 before the last two.
fn leading_trimmed(extents: &[u64]) -> Vec<u64> {
    let (lead, last) = extents.split_at(extents.len().saturating_sub(2));
    lead.iter()
        .copied()
        .filter(|&n| n != 1)
        .chain(last.iter().copied())
        .collect()
}

/// The extents other than 1, after as many of 1 as make two.
fn matrices(extents: &[u64]) -> Vec<u64> {
    let kept: Vec<u64> = extents.iter().copied().filter(|&n| n != 1).collect();
    [vec![1; 2usize.saturating_sub(kept.len())], kept].concat()
}

/// The last dimensions of a list: those that are the rows of matrices, and those that are their lanes.
struct Ends {
    /// The first dimension of the rows.
    rows: usize,
    /// The first dimension of the lanes.
    lanes: usize,
}

impl Ends {
    /// The dimensions of `inner` that are the last two of `matrices`.
    fn of(matrices: &[u64], inner: &[u64]) -> Option<Ends> {
        let [.., rows, lanes] = matrices else {
            return None;
        };
        let lanes = suffix(inner, *lanes)?;
        let rows = match rows {
            1 => lanes,
            rows => suffix(&inner[..lanes], *rows)?,
        };
        Some(Ends { rows, lanes })
    }

    /// The number of parts of the lanes, each of the last extent.
    fn parts(&self, extents: &[u64]) -> u64 {
        extents[self.lanes..extents.len() - 1].iter().product()
    }

    /// The dimensions with those of the parts before the rows.
    fn parts_first(&self, dims: &[usize]) -> Vec<usize> {
        let last = dims.len() - 1;
        let (rows, lanes) = (self.rows, self.lanes);
        [
            &dims[..rows],
            &dims[lanes..last],
            &dims[rows..lanes],
            &dims[last..],
        ]
        .concat()
    }
}

/// The dimensions between the reshapes without those of extent 1, cut so that those of `from` and those of `to` are runs
/// of them, and their permutation; `None` if they have no common refinement.
fn refined(
    from: &[u64],
    inner: &[u64],
    perm: &[usize],
    to: &[u64],
) -> Option<(Vec<u64>, Vec<usize>)> {
    // Cuts of each inner dimension, from the innermost extent on.
    let first = common(from, inner)?;
    let turned: Vec<u64> = perm.iter().map(|&p| inner[p]).collect();
    let second = common(to, &turned)?;
    let mut parts: Vec<Vec<u64>> = Vec::with_capacity(inner.len());
    for (d, cuts) in first.iter().enumerate() {
        let at = perm.iter().position(|&p| p == d)?;
        parts.push(merged(cuts, &second[at], inner[d])?);
    }
    let mut starts = Vec::with_capacity(inner.len());
    let mut all = Vec::new();
    for part in &mut parts {
        part.retain(|&n| n != 1);
        starts.push(all.len());
        all.extend(&*part);
    }
    let order = perm
        .iter()
        .flat_map(|&p| starts[p]..starts[p] + parts[p].len());
    let order: Vec<usize> = order.collect();
    (!all.is_empty()).then_some((all, order))
}

/// For each extent of `inner` the strides inside of it, from 1 on, at which a dimension of `outer` ends.
fn common(outer: &[u64], inner: &[u64]) -> Option<Vec<Vec<u64>>> {
    let mut ends = BTreeSet::new();
    let mut stride = 1u64;
    for &n in outer.iter().rev() {
        ends.insert(stride);
        stride = stride.checked_mul(n)?;
    }
    let mut cuts = Vec::with_capacity(inner.len());
    let mut low = 1u64;
    for &n in inner.iter().rev() {
        let high = low.checked_mul(n)?;
        let inside: Vec<u64> = ends
            .iter()
            .copied()
            .filter(|&e| low < e && e < high)
            .collect();
        if inside
            .iter()
            .any(|&e| !e.is_multiple_of(low) || !high.is_multiple_of(e))
        {
            return None;
        }
        cuts.push(inside.into_iter().map(|e| e / low).collect());
        low = high;
    }
    cuts.reverse();
    Some(cuts)
}

/// An extent cut at both lists of strides, as extents from the outermost on.
fn merged(a: &[u64], b: &[u64], extent: u64) -> Option<Vec<u64>> {
    let cuts: BTreeSet<u64> = a.iter().chain(b).copied().collect();
    let mut parts = Vec::new();
    let mut low = 1;
    for &cut in cuts.iter().chain([&extent]) {
        if !cut.is_multiple_of(low) {
            return None;
        }
        parts.push(cut / low);
        low = cut;
    }
    parts.reverse();
    Some(parts)
}

/// The first of the last dimensions that have this many elements together.
fn suffix(dims: &[u64], count: u64) -> Option<usize> {
    let mut at = dims.len();
    let mut found = 1u64;
    while found < count && 0 < at {
        at -= 1;
        found = found.saturating_mul(dims[at]);
    }
    (found == count).then_some(at)
}

fn is_sorted(perm: &[usize]) -> bool {
    perm.iter().enumerate().all(|(i, &p)| i == p)
}

fn reshaped_text(text: String, from: &[u64], to: &[u64]) -> String {
    match from == to {
        true => text,
        false => format!("{text}.reshape{}", tuple(to)),
    }
}

fn transposed_text(text: String, perm: &[usize]) -> String {
    match is_sorted(perm) {
        true => text,
        false => format!("jnp.transpose({text}, {})", tuple(perm)),
    }
}
