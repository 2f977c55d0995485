//! Operations that only rename elements, and the one that only moves them.
//!
//! - `hbir.reshape`: the row-major elements in another `shape` (ONNX `Reshape`, StableHLO `reshape`); an entry
//!   is a number, a symbol's name or one -1; without `shape` it is the result type's.
//! - `hbir.transpose`: `perm[i]` is the input axis of output axis `i` (ONNX and StableHLO).
//! - `hbir.squeeze` drops the extents of 1 at `axes` (all of them when absent), `hbir.unsqueeze` adds some at
//!   these axes of the result, `hbir.flatten` merges the dimensions before `axis` and those from it on (ONNX).
//! - `hbir.view`: reshape to `shape` (default: the operand's), transpose by `perm` (default: identity), row-major
//!   reshape to the result's shape. It moves nothing; that the layouts agree is checked elsewhere.
//! - `hbir.layout_convert`: the same value in the result's layout. Its freedom is a barrier: the passes
//!   know it as the one operation that changes a layout.

use crate::op::{Freedom, FreedomClass, Inferred, OpError, OpRef, Registry, Traffic};
use crate::ops::decl::{Call, Decl};
use crate::ops::einsum::Equation;
use crate::ops::labels::{marks, or_barrier};
use crate::ops::shape::{
    Volume, axes, completed, int_or, moves, one, same_volume, show, target_shape,
};
use crate::size::Size;
use crate::tensor::{EvalError, Tensor};
use crate::tile::{Access, Index, LoopKind};
use crate::types::{Dim, TensorType};

const RESHAPE: Decl = Decl::new(
    "hbir.reshape",
    "rearrange",
    "the row-major elements in another shape",
    (1, 1),
    infer_reshape,
    eval,
)
.freedom(rearranges)
.access(access);

const TRANSPOSE: Decl = Decl::new(
    "hbir.transpose",
    "rearrange",
    "the axes in another order",
    (1, 1),
    infer_transpose,
    eval,
)
.freedom(freedom_transpose)
.access(access)
.traffic(traffic_transpose);

const SQUEEZE: Decl = Decl::new(
    "hbir.squeeze",
    "rearrange",
    "without dimensions of extent 1",
    (1, 1),
    infer_squeeze,
    eval,
)
.freedom(rearranges)
.access(access);

const UNSQUEEZE: Decl = Decl::new(
    "hbir.unsqueeze",
    "rearrange",
    "with more dimensions of extent 1",
    (1, 1),
    infer_unsqueeze,
    eval,
)
.freedom(rearranges)
.access(access);

const FLATTEN: Decl = Decl::new(
    "hbir.flatten",
    "rearrange",
    "as a matrix: the dimensions before an axis and those from it on",
    (1, 1),
    infer_flatten,
    eval,
)
.freedom(rearranges)
.access(access);

const VIEW: Decl = Decl::new(
    "hbir.view",
    "rearrange",
    "a reshape, a transpose and a reshape that move nothing",
    (1, 1),
    infer_view,
    eval,
)
.freedom(rearranges)
.access(access);

const LAYOUT_CONVERT: Decl = Decl::new(
    "hbir.layout_convert",
    "rearrange",
    "the same value in another layout",
    (1, 1),
    infer_same,
    eval_same,
)
.access(access_same)
.traffic(|_| Traffic::Movement);

/// Whether values of the two shapes may have equally many elements; `false` where no sizes of what is
/// unknown in them make it so.
#[must_use]
pub fn may_reshape(from: &[Dim], to: &[Dim]) -> bool {
    Volume::of(from).may_equal(&Volume::of(to))
}

/// An operation as the `hbir.view` that does the same: reshape to `shape`, transpose by `perm`,
/// row-major reshape to the result's shape.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ViewDims {
    /// The dimensions that are transposed.
    pub shape: Vec<Dim>,
    /// `perm[i]` is the entry of `shape` that comes at place `i`.
    pub perm: Vec<usize>,
}

impl ViewDims {
    fn reshape(dims: &[Dim]) -> ViewDims {
        ViewDims {
            shape: dims.to_vec(),
            perm: (0..dims.len()).collect(),
        }
    }

    /// The dimensions after the transpose.
    #[must_use]
    pub fn transposed(&self) -> Vec<Dim> {
        self.perm.iter().map(|&p| self.shape[p].clone()).collect()
    }
}

/// What an operation of class [`FreedomClass::Rearrange`] does, as a view: reshape, transpose, squeeze,
/// unsqueeze, flatten, view, and an einsum that permutes.
///
/// # Errors
/// The operation is none of these, or the first of its constraints that does not hold.
pub fn view_of(op: &OpRef<'_>) -> Result<ViewDims, OpError> {
    let x = op.operand(0)?;
    match op.name {
        "hbir.transpose" => Ok(ViewDims {
            shape: x.dims.clone(),
            perm: permutation(op, x.rank())?,
        }),
        "hbir.view" => view_dims(op, x),
        "hbir.einsum" => {
            let perm = Equation::of(op)?
                .permutation()
                .ok_or_else(|| not_a_view(op))?;
            Ok(ViewDims {
                shape: x.dims.clone(),
                perm,
            })
        }
        "hbir.reshape" | "hbir.squeeze" | "hbir.unsqueeze" | "hbir.flatten" => {
            Ok(ViewDims::reshape(&x.dims))
        }
        _ => Err(not_a_view(op)),
    }
}

fn not_a_view(op: &OpRef<'_>) -> OpError {
    OpError::new(
        "not-a-rearrangement",
        format!("{} does more than rearrange", op.name),
    )
}

/// C1: well-formed entries. C2: the number of elements stays.
fn infer_reshape(op: &OpRef<'_>) -> Result<Vec<Inferred>, OpError> {
    let x = op.operand(0)?;
    one(
        target_shape(op, ["reshape-c1", "reshape-volume-mismatch"], &x.dims)?,
        x.dtype,
    )
}

/// C1: one entry a dimension. C2: a permutation.
fn infer_transpose(op: &OpRef<'_>) -> Result<Vec<Inferred>, OpError> {
    let x = op.operand(0)?;
    let perm = permutation(op, x.rank())?;
    one(perm.iter().map(|&p| x.dims[p].clone()).collect(), x.dtype)
}

fn permutation(op: &OpRef<'_>, rank: usize) -> Result<Vec<usize>, OpError> {
    let found = op.ints("perm")?;
    let codes = if op.name == "hbir.view" {
        ["view-c2", "view-c3"]
    } else {
        ["transpose-c1", "transpose-c2"]
    };
    if found.len() != rank {
        let message = format!(
            "{} has {} entries in perm = {found:?}, wanted {rank}",
            op.name,
            found.len()
        );
        return Err(OpError::new(codes[0], message));
    }
    let mut perm: Vec<usize> = Vec::with_capacity(rank);
    for &p in &found {
        let axis = usize::try_from(p)
            .ok()
            .filter(|&a| a < rank && !perm.contains(&a));
        perm.push(axis.ok_or_else(|| {
            let message = format!(
                "{} has perm = {found:?}, wanted each of 0 to {} once",
                op.name,
                rank - 1
            );
            OpError::new(codes[1], message)
        })?);
    }
    Ok(perm)
}

/// C1: axes of the operand, each once. C2: they are not known to differ from 1.
fn infer_squeeze(op: &OpRef<'_>) -> Result<Vec<Inferred>, OpError> {
    let x = op.operand(0)?;
    let dropped = if op.props.get("axes").is_some() {
        axes(op, "squeeze-c1", "axes", x.rank())?
    } else {
        (0..x.rank()).filter(|&d| x.dims[d].is_one()).collect()
    };
    if let Some(&d) = dropped
        .iter()
        .find(|&&d| x.dims[d].fixed().is_some_and(|n| n != 1))
    {
        let message = format!(
            "hbir.squeeze of {} drops axis {d} of size {}, wanted 1",
            show(&x.dims),
            x.dims[d]
        );
        return Err(OpError::new("squeeze-c2", message));
    }
    let kept = (0..x.rank()).filter(|d| !dropped.contains(d));
    one(kept.map(|d| x.dims[d].clone()).collect(), x.dtype)
}

/// C1: axes of the result, each once.
fn infer_unsqueeze(op: &OpRef<'_>) -> Result<Vec<Inferred>, OpError> {
    let x = op.operand(0)?;
    let rank = x.rank() + op.ints("axes")?.len();
    let new = axes(op, "unsqueeze-c1", "axes", rank)?;
    let mut old = x.dims.iter().cloned();
    let dim = |d| {
        if new.contains(&d) {
            Some(Dim::Fixed(1))
        } else {
            old.next()
        }
    };
    one((0..rank).filter_map(dim).collect(), x.dtype)
}

/// C1: an axis of the operand, or its rank.
fn infer_flatten(op: &OpRef<'_>) -> Result<Vec<Inferred>, OpError> {
    let x = op.operand(0)?;
    let axis = int_or(op, "axis", 1)?;
    let rank = x.rank() as i64;
    let at = if axis < 0 {
        axis.saturating_add(rank)
    } else {
        axis
    };
    let at = usize::try_from(at)
        .ok()
        .filter(|&a| a <= x.rank())
        .ok_or_else(|| {
            let message = format!("hbir.flatten has axis {axis}, wanted {} to {rank}", -rank);
            OpError::new("flatten-c1", message)
        })?;
    one(vec![merged(&x.dims[..at]), merged(&x.dims[at..])], x.dtype)
}

/// The extent of several dimensions as one.
fn merged(dims: &[Dim]) -> Dim {
    let long: Vec<&Dim> = dims.iter().filter(|d| !d.is_one()).collect();
    match long.as_slice() {
        [] => Dim::Fixed(1),
        [one] => (*one).clone(),
        many => {
            let sizes: Option<Vec<Size>> = many.iter().map(|d| d.size()).collect();
            let product = sizes.and_then(|sizes| Size::product(&sizes));
            product.map_or(Dim::Unknown, |size| Dim::of_size(&size))
        }
    }
}

/// C1: well-formed entries of `shape`. C2, C3: `perm` is a permutation of its dimensions. C4: the
/// numbers of elements stay.
fn infer_view(op: &OpRef<'_>) -> Result<Vec<Inferred>, OpError> {
    let x = op.operand(0)?;
    let view = view_dims(op, x)?;
    let result = op.result(0)?;
    same_volume(op, "view-c4", &view.shape, &result.dims)?;
    let dims = completed(result.dims.clone(), &view.transposed());
    one(dims, x.dtype)
}

fn view_dims(op: &OpRef<'_>, x: &TensorType) -> Result<ViewDims, OpError> {
    let shape = if op.props.get("shape").is_some() {
        target_shape(op, ["view-c1", "view-c4"], &x.dims)?
    } else {
        x.dims.clone()
    };
    let perm = if op.props.get("perm").is_some() {
        permutation(op, shape.len())?
    } else {
        (0..shape.len()).collect()
    };
    Ok(ViewDims { shape, perm })
}

fn infer_same(op: &OpRef<'_>) -> Result<Vec<Inferred>, OpError> {
    let x = op.operand(0)?;
    one(x.dims.clone(), x.dtype)
}

/// Every rearrangement is the view it stands for.
fn eval(call: &Call<'_>) -> Result<Vec<Tensor>, EvalError> {
    let x = call.input(0);
    let view = view_of(call.op).map_err(|e| EvalError::new(e.message))?;
    let identity = view.perm.iter().enumerate().all(|(i, &p)| i == p);
    if identity {
        return Ok(vec![x.reshaped(call.shape())]);
    }
    let shape = call.bind(&view.shape)?;
    Ok(vec![
        x.reshaped(shape)
            .transposed(&view.perm)
            .reshaped(call.shape()),
    ])
}

fn eval_same(call: &Call<'_>) -> Result<Vec<Tensor>, EvalError> {
    Ok(vec![call.input(0).clone()])
}

/// Labels say which result dimension is which operand dimension, where one is: none of a reshape.
fn rearranges(op: &OpRef<'_>) -> Freedom {
    Freedom {
        class: FreedomClass::Rearrange,
        ..Freedom::barrier(op)
    }
}

fn freedom_transpose(op: &OpRef<'_>) -> Freedom {
    or_barrier(op, FreedomClass::Rearrange, |f| {
        let rank = op.operand(0)?.rank();
        let labels = f.fresh_for(rank);
        f.operand(marks(&labels));
        f.result(
            permutation(op, rank)?
                .into_iter()
                .map(|p| Some(labels[p]))
                .collect(),
        );
        Ok(())
    })
}

fn traffic_transpose(op: &OpRef<'_>) -> Traffic {
    match op
        .operand(0)
        .and_then(|x| Ok((x, permutation(op, x.rank())?)))
    {
        Ok((x, perm)) if !moves(&x.dims, &perm) => Traffic::None,
        _ => Traffic::Movement,
    }
}

/// The loops are the digits that operand, `shape` and result share; see [`Access::rearranged`].
fn access(op: &OpRef<'_>) -> Result<Access, OpError> {
    let (x, y) = (op.operand(0)?, op.result(0)?);
    let view = view_of(op)?;
    let sizes =
        |dims: &[Dim]| -> Vec<u64> { dims.iter().map(|d| d.fixed().unwrap_or(0)).collect() };
    let shape: Option<Vec<u64>> = view.shape.iter().map(Dim::fixed).collect();
    let shape = shape.ok_or_else(|| not_a_view(op))?;
    Ok(Access::rearranged(
        &sizes(&x.dims),
        &shape,
        &view.perm,
        &sizes(&y.dims),
    ))
}

fn access_same(op: &OpRef<'_>) -> Result<Access, OpError> {
    let dims = &op.result(0)?.dims;
    let mut access = Access::whole(op);
    for (d, dim) in dims.iter().enumerate() {
        let id = access.add(dim.fixed().unwrap_or(0), LoopKind::Parallel);
        access.operands[0][d] = Index::of(id);
        access.results[0][d] = Index::of(id);
    }
    Ok(access)
}

pub(super) fn register(registry: &mut Registry) {
    for op in [
        RESHAPE,
        TRANSPOSE,
        SQUEEZE,
        UNSQUEEZE,
        FLATTEN,
        VIEW,
        LAYOUT_CONVERT,
    ] {
        registry.add(op);
    }
}
