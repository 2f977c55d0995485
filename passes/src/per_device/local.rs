//! One operation on the parts of a device.

use optc_check::mesh::Divided;
use optc_ir::op::Attributes;
use optc_ir::shard::{SHARD, Sharding, TAKE};
use optc_ir::{
    AttrDict, Dim, Func, FuncBuilder, NewOp, Op, OpRef, Operation, Registry, Structure, TensorType,
    Type, Value,
};
use optc_ops::{
    ArgMax, ArgMin, AvgPool, BatchNorm, Bounds, Broadcast, Concat, Conv, Cumprod, Cumsum,
    DotGeneral, Einsum, Gather, GatherElements, GatherNd, InstanceNorm, LayerNorm, Linear,
    LogSoftmax, Matmul, MaxPool, Pad, Reduce, Reshape, RmsNorm, ScatterElements, ScatterNd,
    ShardingConstraint, Slice, SlicePart, Softmax, Split, Subview, Tile, TopK, Transpose,
};
use optc_tile::TILE;

/// The reason why there is no program of one device.
pub(super) type Why = String;

/// The operations whose form on parts is their form on whole values, besides element-wise ones and views.
const BY_PARTS: &[&str] = &[
    ArgMax::NAME,
    ArgMin::NAME,
    AvgPool::NAME,
    BatchNorm::NAME,
    Broadcast::NAME,
    Concat::NAME,
    Conv::NAME,
    Cumprod::NAME,
    Cumsum::NAME,
    DotGeneral::NAME,
    Einsum::NAME,
    Gather::NAME,
    GatherElements::NAME,
    GatherNd::NAME,
    InstanceNorm::NAME,
    LayerNorm::NAME,
    Linear::NAME,
    LogSoftmax::NAME,
    Matmul::NAME,
    MaxPool::NAME,
    Pad::NAME,
    Reduce::NAME,
    RmsNorm::NAME,
    ScatterElements::NAME,
    ScatterNd::NAME,
    Slice::NAME,
    Softmax::NAME,
    Split::NAME,
    Subview::NAME,
    Tile::NAME,
    TopK::NAME,
];

/// An operation and the split of its work.
pub(super) struct Parts<'a> {
    pub(super) func: &'a Func,
    pub(super) op: Op,
    pub(super) divided: &'a Divided,
}

/// The dimensions of a part of a value of this shape.
fn extents(shape: &[u64], sharding: &Sharding) -> Vec<u64> {
    let dims = shape.iter().enumerate();
    dims.map(|(dim, &n)| sharding.local(dim, n)).collect()
}

/// The type of a part, row-major; `None` for a value that is no tensor of known shape.
pub(super) fn local(ty: &Type, sharding: &Sharding) -> Option<Type> {
    let tensor = ty.as_tensor()?;
    let dims = extents(&tensor.shape()?, sharding);
    Some(TensorType::fixed(&dims, tensor.dtype).into())
}

/// An operation as it is, on whole values.
pub(super) fn whole<'a>(func: &'a Func, op: Op, args: &[Value]) -> NewOp<'a> {
    let data = &func.ops[op];
    let mut made = NewOp::new(&data.name, args, data.props.clone());
    made.attrs = data.attrs.clone();
    for name in [SHARD, TAKE, TILE] {
        made.attrs.remove(name);
    }
    let all = Sharding::replicated();
    let types = data.results.iter().map(|&v| local(func.ty(v), &all));
    made.results = types.collect();
    made
}

/// The results of an operation on parts.
pub(super) fn on_parts(
    made: &mut FuncBuilder<'_>,
    parts: &Parts<'_>,
    args: &[Value],
) -> Result<Vec<Value>, Why> {
    let data = &parts.func.ops[parts.op];
    let registry = made.registry();
    let structure = registry.structure(&data.name);
    // A layout is not of a part, and a split is no statement there.
    if structure == Structure::Convert || &*data.name == ShardingConstraint::NAME {
        return Ok(args[..1].to_vec());
    }
    let none = || "it has no form on parts".to_owned();
    let op = parts.func.op_ref(parts.op);
    let split = parts.divided.parts != 1;
    if structure == Structure::View || split && registry.rearrangement(&op).is_ok() {
        return parts.view(made, args[0]).ok_or_else(none);
    }
    if split && !has_parts(&op, registry) {
        return Err(none());
    }
    let mut new = whole(parts.func, parts.op, args);
    let types = parts.results().ok_or_else(none)?;
    parts.state(&op, made, &mut new).ok_or_else(none)?;
    new.results = Some(types);
    made.add(new).map_err(|error| error.message)
}

/// Returns whether the form of an operation on parts is that on whole values.
fn has_parts(op: &OpRef<'_>, registry: &Registry) -> bool {
    match op.name {
        // The form of a transposed convolution has the number of groups.
        Conv::NAME => {
            Conv::of(op).is_ok_and(|conv| !conv.transposed || conv.groups().is_ok_and(|n| n == 1))
        }
        name => BY_PARTS.contains(&name) || registry.expression(op).is_some(),
    }
}

impl Parts<'_> {
    fn results(&self) -> Option<Vec<Type>> {
        let results = self.func.ops[self.op].results.iter();
        let each = results.zip(&self.divided.results);
        each.map(|(&v, sharding)| local(self.func.ty(v), sharding))
            .collect()
    }

    /// Changes the attributes that count elements of a dimension that is split. A layout's form of an operation becomes
    /// the plain one.
    fn state(&self, op: &OpRef<'_>, made: &FuncBuilder<'_>, new: &mut NewOp<'_>) -> Option<()> {
        let mut set = |name, props: AttrDict| (new.name, new.props) = (name, props);
        let here = |i: usize| made.tensor(new.operands[i])?.shape();
        match op.name {
            Broadcast::NAME => set(Broadcast::NAME, Broadcast { shape: None }.write()),
            Subview::NAME => {
                let subview = Subview::of(op).ok()?;
                match subview.broadcast {
                    true => set(Broadcast::NAME, Broadcast { shape: None }.write()),
                    false => set(Slice::NAME, self.slice(op, &subview.parts(op).ok()?)?),
                }
            }
            Slice::NAME => {
                let parts = Slice::of(op).ok()?.parts(op).ok()?;
                set(Slice::NAME, self.slice(op, &parts)?);
            }
            Pad::NAME => {
                let pad = self.pad(op, Pad::of(op).ok()?)?;
                set(Pad::NAME, pad.write());
            }
            Split::NAME => {
                let mut split = Split::of(op).ok()?;
                let axis = split.along(op).ok()?;
                for ((size, ty), sharding) in split
                    .sizes
                    .iter_mut()
                    .zip(&op.results)
                    .zip(&self.divided.results)
                {
                    let shape = ty.as_tensor()?.shape()?;
                    *size = i64::try_from(sharding.local(axis, shape[axis])).ok()?;
                }
                set(Split::NAME, split.write());
            }
            Conv::NAME if self.divided.parts != 1 => {
                let mut conv = Conv::of(op).ok()?;
                if !conv.transposed {
                    // Of parts there are fewer groups, or fewer channels in each.
                    let (channels, each) = (here(0)?[1], here(1)?[1]);
                    conv.group = i64::try_from(channels / each.max(1)).ok()?;
                }
                set(Conv::NAME, conv.write());
            }
            _ => {}
        }
        Some(())
    }

    /// The number of elements that a device has of `count` ones along a dimension of the first operand with `n`.
    fn here(&self, dim: usize, n: u64, count: i64) -> Option<i64> {
        let parts = n / self.divided.operands[0].local(dim, n).max(1);
        Some(count / i64::try_from(parts.max(1)).ok()?)
    }

    /// A pad of a part: of a dimension that is split, each device adds as many elements as any other.
    fn pad(&self, op: &OpRef<'_>, mut pad: Pad) -> Option<Pad> {
        let shape = op.operand(0).ok()?.shape()?;
        let amounts = pad.amounts(op).ok()?;
        let here = |all: Vec<i64>| -> Option<Vec<i64>> {
            let each = all.into_iter().zip(&shape).enumerate();
            let part = |(dim, (amount, &n)): (usize, (i64, &u64))| self.here(dim, n, amount);
            each.map(part).collect()
        };
        (pad.low, pad.high) = (Some(here(amounts.low)?), Some(here(amounts.high)?));
        Some(pad)
    }

    /// The attributes of a slice of a part: its bounds count the elements that the device has.
    fn slice(&self, op: &OpRef<'_>, parts: &[SlicePart]) -> Option<AttrDict> {
        let shape = op.operand(0).ok()?.shape()?;
        let mut made = [const { Vec::new() }; 3];
        let result = &self.divided.results[0];
        for (dim, (part, n)) in parts.iter().zip(shape).enumerate() {
            let start = i64::try_from(part.start.as_constant()?).ok()?;
            let start = self.here(dim, n, start)?;
            let count = i64::try_from(result.local(dim, part.size.fixed()?)).ok()?;
            let limit = match count {
                0 => start,
                _ => start + (count - 1) * part.stride + part.stride.signum(),
            };
            let bounds = [start, limit, part.stride];
            for (list, n) in made.iter_mut().zip(bounds) {
                list.push(n);
            }
        }
        let [starts, limits, strides] = made;
        let slice = Slice {
            starts: Bounds::of_ints(&starts),
            limits: Bounds::of_ints(&limits),
            strides: Some(strides).filter(|all| all.iter().any(|&n| n != 1)),
        };
        Some(slice.write())
    }

    /// A rearrangement of a part: a reshape, a transpose and a reshape, those that are needed.
    fn view(&self, made: &mut FuncBuilder<'_>, x: Value) -> Option<Vec<Value>> {
        let op = self.func.op_ref(self.op);
        let view = made.registry().rearrangement(&op).ok()?;
        let shape: Option<Vec<u64>> = view.shape.iter().map(Dim::fixed).collect();
        let from = op.operand(0).ok()?.shape()?;
        let inner = regrouped(&from, &self.divided.operands[0], &shape?)?;
        let [to] = <[Type; 1]>::try_from(self.results()?).ok()?;
        let to = to.as_tensor()?.clone();
        let x = reshaped(made, x, inner)?;
        let is_transposed = !view.perm.iter().copied().eq(0..view.perm.len());
        let x = match is_transposed {
            true => {
                let perm: Option<Vec<i64>> =
                    view.perm.iter().map(|&d| i64::try_from(d).ok()).collect();
                made.one(&Transpose { perm: perm? }, &[x]).ok()?
            }
            false => x,
        };
        Some(vec![reshaped(made, x, to.shape()?)?])
    }
}

/// The elements of a part in another shape.
fn reshaped(made: &mut FuncBuilder<'_>, x: Value, shape: Vec<u64>) -> Option<Value> {
    let ty = made.tensor(x)?;
    if ty.shape()? == shape {
        return Some(x);
    }
    let to = TensorType::fixed(&shape, ty.dtype).into();
    let op = NewOp::of(&Reshape { shape: None }, &[x]).typed(vec![to]);
    made.add_one(op).ok()
}

/// The dimensions of a part of a value that is reshaped from one shape to another; `None` if a digit that is split is cut
/// unevenly.
fn regrouped(from: &[u64], sharding: &Sharding, to: &[u64]) -> Option<Vec<u64>> {
    let below = |dim: usize| -> u64 { from[dim + 1..].iter().product() };
    let mut extents = to.to_vec();
    for (_, piece) in sharding.pieces() {
        let flat = |n: u64| n * below(piece.dim);
        let (low, high) = (flat(piece.stride), flat(piece.high()));
        let mut stride = 1;
        for (extent, &n) in extents.iter_mut().zip(to).rev() {
            let (a, b) = (low.max(stride), high.min(stride * n));
            if a < b {
                let parts = b / a;
                let even = b.is_multiple_of(a) && extent.is_multiple_of(parts);
                even.then(|| *extent /= parts)?;
            }
            stride *= n;
        }
    }
    Some(extents)
}
