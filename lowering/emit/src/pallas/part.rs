//! `part`: the program of one device of a mesh, on its parts of all values.
//!
//! Example: a product whose sum is split over `model` is a product of parts and `lax.psum(…, "model")`. `sharded` maps
//! `part` over the mesh (`jax.shard_map`), so that the collectives are those that the shardings of the program state.
//!
//! The function is the one that the pass `per-device` made of `main`; its groups are kernels as those of any function.
//! Its arguments and results come and go as their digits ([`Shards::text`]), and what is on all devices as it is.

use super::moves;
use super::shards::parts_of;
use super::whole::{Function, Parts};
use super::words::tuple;
use crate::codes;
use optc_ir::shard::{self, Sharding};
use optc_ir::{Diagnostic, Func, Op, Operation, Structure, Value};
use optc_ops::{Constant, Reshard};

impl Function<'_> {
    fn shape(&self, value: Value) -> Vec<u64> {
        let tensor = self.func.ty(value).as_tensor();
        tensor
            .and_then(optc_ir::TensorType::shape)
            .unwrap_or_default()
    }

    /// The text of a value that comes from outside, as the part of this shape: its digits as the device has them, or
    /// all of it. `value` is the whole one, of `func`.
    fn entered(
        text: String,
        (func, value): (&Func, Value),
        (stored, local): (&Sharding, Vec<u64>),
        parts: &mut Parts,
    ) -> Option<String> {
        let shards = parts.shards.clone()?;
        if shards.entry(func, value).is_none() {
            return moves::converted(text, &Sharding::replicated(), stored, parts);
        }
        let digits = parts_of(&shards.stated(func, value, stored)?)?;
        Some(match digits == local {
            true => text,
            false => format!("{text}.reshape{}", tuple(local)),
        })
    }

    fn refused(&self, name: &str) -> Box<Diagnostic> {
        let message = format!(
            "found no collectives of JAX for {name} of @{}",
            self.func.name
        );
        Box::new(Diagnostic::error(codes::PALLAS_OP, message).at(self.func.span, "this function"))
    }

    /// The lines that make parts of what the arguments of `main` are outside.
    pub(super) fn arguments(
        &mut self,
        main: &Func,
        parts: &mut Parts,
    ) -> Result<(), Box<Diagnostic>> {
        for (i, (&arg, &whole)) in self.func.args.iter().zip(&main.args).enumerate() {
            let name = self.name(arg).to_owned();
            let refused = || self.refused(&format!("argument {i}"));
            let stored = parts.sharding(|mesh| shard::stored(main, whole, mesh));
            let local = (&stored, self.shape(arg));
            let text = Function::entered(name.clone(), (main, whole), local, parts);
            let text = text.ok_or_else(refused)?;
            if text != name {
                self.lines.push(format!("{name} = {text}"));
            }
        }
        Ok(())
    }

    /// The results in the digits that are split outside.
    pub(super) fn results(
        &self,
        main: &Func,
        parts: &mut Parts,
    ) -> Result<Vec<String>, Box<Diagnostic>> {
        let mut all = Vec::with_capacity(main.results.len());
        for (i, &value) in self.func.results.iter().enumerate() {
            let refused = || self.refused(&format!("result {i}"));
            let name = self.name(value).to_owned();
            let shards = parts.shards.clone().ok_or_else(refused)?;
            all.push(match shards.returned(main, i) {
                Some(stated) => {
                    let digits = parts_of(&stated).ok_or_else(refused)?;
                    match digits == self.shape(value) {
                        true => name,
                        false => format!("{name}.reshape{}", tuple(digits)),
                    }
                }
                None => {
                    let made = parts.sharding(|mesh| shard::result(main, i, mesh));
                    let whole = Sharding::replicated();
                    moves::converted(name, &made, &whole, parts).ok_or_else(refused)?
                }
            });
        }
        Ok(all)
    }

    /// The text of a conversion between two shardings; `None` for another operation.
    pub(super) fn collective(
        &self,
        op: Op,
        args: &[String],
        parts: &mut Parts,
    ) -> Result<Option<String>, Box<Diagnostic>> {
        let func = self.func;
        let mesh = parts.shards.as_ref().map(|shards| &shards.mesh);
        let reshard = mesh.and_then(|mesh| Reshard::of(&func.op_ref(op), mesh));
        let (Some(Reshard { from, to }), [text]) = (reshard, args) else {
            return Ok(None);
        };
        let data = &func.ops[op];
        let (text, whole) = (text.clone(), data.operands[0]);
        let stored = parts.sharding(|mesh| shard::stored(func, whole, mesh));
        let made = match to == stored && self.is_placed(whole, parts) {
            true => {
                let local = (&to, self.shape(data.results[0]));
                Function::entered(text, (func, whole), local, parts)
            }
            false => moves::converted(text, &from, &to, parts),
        };
        let refused = || self.refused("a conversion");
        made.map(Some).ok_or_else(refused)
    }

    /// Returns whether a value is a constant that comes as the device's part of it.
    fn is_placed(&self, value: Value, parts: &Parts) -> bool {
        let Some(op) = self.func.def_op(value) else {
            return false;
        };
        let op = self.func.op_ref(op);
        self.registry.structure(op.name) == Structure::Constant
            && parts.style.weights
            && Constant::of(&op).is_ok_and(|constant| constant.data.is_some())
            && parts
                .shards
                .as_ref()
                .is_some_and(|shards| shards.entry(self.func, value).is_some())
    }
}

impl Parts {
    /// A sharding on the mesh; on all devices where none is stated.
    fn sharding<E>(&self, read: impl Fn(&shard::Mesh) -> Result<Option<Sharding>, E>) -> Sharding {
        let mesh = self.shards.as_ref().map(|shards| &shards.mesh);
        let found = mesh.and_then(|mesh| read(mesh).ok().flatten());
        found.unwrap_or_default()
    }
}
