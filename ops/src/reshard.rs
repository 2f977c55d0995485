//! The conversion of a value between two shardings, in the program of one device: what collectives do.
//!
//! Example: the operand of `kind = "reshard", domain = "mesh", from = ["model@d1/64"], to = []` is a device's part of a
//! value, 64 of whose columns are there; the result is all of the value, and devices along `model` send their parts.

use crate::opaque::{Opaque, StatedEffect};
use optc_ir::op::{AttrValue, Effect};
use optc_ir::shard::{self, Mesh, Sharding};
use optc_ir::{NewOp, OpRef, Operation, Type, Value};

/// The namespace of the operation.
const DOMAIN: &str = "mesh";
/// Its name there.
const KIND: &str = "reshard";
/// The attributes with the shardings before and afterwards.
const ENDS: [&str; 2] = ["from", "to"];

/// A conversion between two shardings, whose digits are those of the whole value.
#[derive(Clone, Debug, PartialEq)]
pub struct Reshard {
    /// The sharding of the operand.
    pub from: Sharding,
    /// The sharding of the result.
    pub to: Sharding,
}

impl Reshard {
    /// The operation: an opaque one, as its result is made by several devices.
    #[must_use]
    pub fn op(&self, value: Value, to: Type, mesh: &Mesh) -> NewOp<'static> {
        let mut op = Opaque::foreign(DOMAIN, KIND, &[value], vec![to]);
        op.props.set("effect", StatedEffect(Effect::Pure).to_attr());
        for (name, sharding) in ENDS.into_iter().zip([&self.from, &self.to]) {
            op.props.set(name, shard::attr(sharding, mesh));
        }
        op
    }

    /// The conversion that an operation does; `None` if it does none.
    #[must_use]
    pub fn of(op: &OpRef<'_>, mesh: &Mesh) -> Option<Reshard> {
        let opaque = Opaque::of(op).ok()?;
        if &*opaque.kind != KIND || opaque.domain.as_deref() != Some(DOMAIN) {
            return None;
        }
        let read = |name| shard::read(op.props.get(name)?, name, mesh).ok();
        let [from, to] = ENDS.map(read);
        Some(Reshard {
            from: from?,
            to: to?,
        })
    }
}
