//! Operations that only rename elements, applied to tiles.

use super::cx::{Cx, Reason, shape_of};
use super::words::tuple;
use optc_ir::op::iteration_domain_of;
use optc_ir::{Attributes, DType, Dim, Op, OpRef, Operation, Registry, Type};
use optc_ops::Reshape;
use optc_tile::{Span, Tile, Tiling};

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

/// A reshape, a transpose and a reshape of a tile.
pub(super) fn rearrangement(
    x: &str,
    from: &[u64],
    inner: &[u64],
    perm: &[usize],
    to: &[u64],
) -> String {
    let mut text = x.to_owned();
    let ordered = perm.iter().enumerate().all(|(i, &p)| i == p);
    let turned: Vec<u64> = perm.iter().map(|&p| inner[p]).collect();
    if !ordered {
        if from != inner {
            text = format!("{text}.reshape{}", tuple(inner));
        }
        text = format!("jnp.transpose({text}, {})", tuple(perm));
        if turned != to {
            text = format!("{text}.reshape{}", tuple(to));
        }
        return text;
    }
    if from != to {
        text = format!("{text}.reshape{}", tuple(to));
    }
    text
}
