//! States the splits of values over a mesh as operations, where a partitioner would not come to them by itself.
//!
//! ```ir before
//! module attributes {hbir.mesh = ["data:4"]} {
//!   func.func @main(%x: tensor<8x64xf32> {hbir.shard = ["data@d0/2"]}) -> tensor<64x8xf32> {
//!     %0 = "hbir.transpose"(%x) <{perm = [1, 0]}> {shard = ["data@d0/16"], take = [["data@d1/16"]]} : (tensor<8x64xf32>) -> tensor<64x8xf32>
//!     return %0 : tensor<64x8xf32>
//!   }
//! }
//! ```
//! ```ir after
//! module attributes {hbir.mesh = ["data:4"]} {
//!   func.func @main(%x: tensor<8x64xf32> {hbir.shard = ["data@d0/2"]}) -> tensor<64x8xf32> {
//!     %0 = "hbir.sharding_constraint"(%x) <{split = ["", "data:4"]}> {shard = ["data@d1/16"]} : (tensor<8x64xf32>) -> tensor<8x64xf32>
//!     %1 = "hbir.transpose"(%0) <{perm = [1, 0]}> {shard = ["data@d0/16"], take = [["data@d1/16"]]} : (tensor<8x64xf32>) -> tensor<64x8xf32>
//!     %2 = "hbir.sharding_constraint"(%1) <{split = ["data:4", ""]}> {shard = ["data@d0/16"]} : (tensor<64x8xf32>) -> tensor<64x8xf32>
//!     return %2 : tensor<64x8xf32>
//!   }
//! }
//! ```
//!
//! # Soundness
//! A constraint is its operand.
//!
//! # Not done
//! A partitioner splits dimensions. The split of an inner digit is stated where the digit is a dimension, that is at the
//! reshape that cuts it, and partial results are not stated.
//!
//! # Cost
//! Linear in operations and operands.
//!
//! # Neighbours
//! Run after `shard` and before `normalize-layouts`. The command does so when it writes JAX or StableHLO.
//!
//! # Source
//! `jax.lax.with_sharding_constraint`; Shardy's propagation, which carries splits through element-wise operations.

use crate::pass::{Changed, Outcome, Pass, PassContext, PassInfo, Phase};
use optc_ir::op::Attributes;
use optc_ir::shard::{self, Mesh, ShardError, Sharding};
use optc_ir::{Diagnostic, Func, Module, Op, Operation, Registry, Structure, Value};
use optc_ops::{DimSplits, ShardingConstraint, StatedSplit, stated_split};
use rustc_hash::FxHashMap;
use std::sync::Arc;

static INFO: PassInfo = PassInfo {
    name: "state-shards",
    summary: "state the splits of values over a mesh as operations",
    phases: (Phase::Imported, Phase::Laid),
    required: false,
    options: &[],
};

/// The pass.
#[derive(Clone, Copy, Debug, Default)]
pub struct StateShards;

impl Pass for StateShards {
    fn info(&self) -> &'static PassInfo {
        &INFO
    }

    fn run(&self, module: &mut Module, cx: &mut PassContext) -> Result<Outcome, Box<Diagnostic>> {
        let refused = |error: ShardError| Box::new(Diagnostic::from(error));
        let Some(mesh) = shard::mesh(module).map_err(refused)? else {
            return Ok(Changed::No.into());
        };
        let mut changed = Changed::No;
        for func in &mut module.funcs {
            let before = func.body.len();
            state(func, &mesh, &cx.registry).map_err(refused)?;
            if before != func.body.len() {
                changed = Changed::Yes;
            }
        }
        Ok(changed.into())
    }
}

/// The values with a stated split: of a value and the axes of its dimensions.
type Made = FxHashMap<(Value, Vec<String>), Value>;

/// States the splits of a function.
fn state(func: &mut Func, mesh: &Mesh, registry: &Registry) -> Result<(), ShardError> {
    let mut made = Made::default();
    let mut now: FxHashMap<Value, Value> = FxHashMap::default();
    for op in std::mem::take(&mut func.body) {
        let operands = func.ops[op].operands.clone();
        let takes = shard::take(func, op, mesh)?;
        let mut given = Vec::with_capacity(operands.len());
        for (i, &operand) in operands.iter().enumerate() {
            let take = takes.as_ref().and_then(|takes| takes.get(i));
            let take = take.filter(|take| {
                shard::stored(func, operand, mesh).ok().flatten().as_ref() != Some(*take)
            });
            let same = now.get(&operand).copied().unwrap_or(operand);
            let stated = take.and_then(|take| stated(func, operand, take, mesh, &mut made));
            given.push(stated.unwrap_or(same));
        }
        let follows = follows(func, op, takes.as_deref(), mesh, registry)?;
        func.ops[op].operands = given;
        func.body.push(op);
        for value in func.ops[op].results.clone() {
            if !follows
                && let Some(sharding) = shard::stored(func, value, mesh)?
                && let Some(new) = stated(func, value, &sharding, mesh, &mut made)
            {
                now.insert(value, new);
            }
        }
    }
    for i in 0..func.results.len() {
        let value = func.results[i];
        if let Some(&new) = now.get(&value) {
            func.results[i] = new;
        }
    }
    Ok(())
}

/// Returns whether a partitioner gives the result the split that it has: a constant, whose split is that of its reader, and
/// an element-wise operation with an operand of the same dimensions in the same split.
fn follows(
    func: &Func,
    op: Op,
    takes: Option<&[Sharding]>,
    mesh: &Mesh,
    registry: &Registry,
) -> Result<bool, ShardError> {
    let data = &func.ops[op];
    if registry.structure(&data.name) == Structure::Constant
        || *data.name == *ShardingConstraint::NAME
    {
        return Ok(true);
    }
    let (&[result], Some(_)) = (&data.results[..], registry.expression(&func.op_ref(op))) else {
        return Ok(false);
    };
    let dims = |value: Value| func.ty(value).as_tensor().map(|ty| &ty.dims);
    let wanted = shard::stored(func, result, mesh)?;
    for (i, &operand) in data.operands.iter().enumerate() {
        let found = match takes {
            Some(takes) => takes.get(i).cloned(),
            None => shard::stored(func, operand, mesh)?,
        };
        if dims(operand) == dims(result) && found == wanted {
            return Ok(true);
        }
    }
    Ok(false)
}

/// The value with its split stated; `None` where the split is none of whole dimensions.
fn stated(
    func: &mut Func,
    value: Value,
    sharding: &Sharding,
    mesh: &Mesh,
    made: &mut Made,
) -> Option<Value> {
    let ty = func.ty(value).clone();
    let shape = ty.as_tensor()?.shape()?;
    let StatedSplit { extents, splits } = stated_split(sharding, &shape, mesh)?;
    if sharding.is_partial() || extents != shape {
        return None;
    }
    let key = (value, splits.iter().map(ToString::to_string).collect());
    if let Some(&known) = made.get(&key) {
        return Some(known);
    }
    let split = DimSplits(splits);
    let loc = func.def_op(value).map(|op| func.ops[op].loc.clone());
    let op = func.make_op(
        Arc::from(ShardingConstraint::NAME),
        vec![value],
        ShardingConstraint { split }.write(),
        vec![ty],
        loc.unwrap_or_default(),
    );
    func.body.push(op);
    let new = func.ops[op].results[0];
    shard::set_value(func, new, sharding, mesh);
    made.insert(key, new);
    Some(new)
}
