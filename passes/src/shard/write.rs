//! Writes the chosen shardings into a function.

use super::pins::Wished;
use super::problem::Chosen;
use optc_ir::Func;
use optc_ir::shard::{self, Mesh};

/// Writes the sharding of each value, and what operations read in another one.
pub(super) fn write(func: &mut Func, chosen: &Chosen, wished: &Wished, mesh: &Mesh) {
    for (&value, sharding) in &chosen.values {
        if func.ty(value).as_tensor().is_some() {
            shard::set_value(func, value, sharding, mesh);
        }
    }
    for (at, divided) in chosen.ops.iter().enumerate() {
        let op = func.body[at];
        let mut reads = func.ops[op].operands.iter().zip(&divided.operands);
        match reads.all(|(value, read)| chosen.values.get(value) == Some(read)) {
            true => {
                func.ops[op].attrs.remove(shard::TAKE);
            }
            false => shard::set_take(func, op, &divided.operands, mesh),
        }
    }
    for i in 0..func.results.len() {
        let value = func.results[i];
        let Some(stored) = chosen.values.get(&value) else {
            continue;
        };
        let pin = wished.returned.get(&i).filter(|pin| !pin.allows(stored));
        let sharding = pin.map_or(stored, |pin| &pin.fixed);
        if func.ty(value).as_tensor().is_some() {
            shard::set_result(func, i, sharding, mesh);
        }
    }
}
