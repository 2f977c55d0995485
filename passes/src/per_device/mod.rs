//! Adds the program of one device of a mesh: a function on the device's parts of all values.
//!
//! ```ir before
//! module attributes {hbir.mesh = ["model:2"]} {
//!   func.func @main(%x: tensor<64x256xf32> {hbir.shard = ["model@d1/128"]}, %w: tensor<256x512xf32> {hbir.shard = ["model@d0/128"]}) -> (tensor<64x512xf32> {hbir.shard = []}) {
//!     %0 = "hbir.matmul"(%x, %w) {shard = []} : (tensor<64x256xf32>, tensor<256x512xf32>) -> tensor<64x512xf32>
//!     return %0 : tensor<64x512xf32>
//!   }
//! }
//! ```
//! ```ir after
//! module attributes {hbir.mesh = ["model:2"]} {
//!   func.func @main(%x: tensor<64x256xf32> {hbir.shard = ["model@d1/128"]}, %w: tensor<256x512xf32> {hbir.shard = ["model@d0/128"]}) -> (tensor<64x512xf32> {hbir.shard = []}) {
//!     %0 = "hbir.matmul"(%x, %w) {shard = []} : (tensor<64x256xf32>, tensor<256x512xf32>) -> tensor<64x512xf32>
//!     return %0 : tensor<64x512xf32>
//!   }
//!   func.func @main_part(%x: tensor<64x128xf32>, %w: tensor<128x512xf32>) -> tensor<64x512xf32> attributes {hbir.part_of = "main"} {
//!     %0 = "hbir.matmul"(%x, %w) : (tensor<64x128xf32>, tensor<128x512xf32>) -> tensor<64x512xf32>
//!     %1 = "hbir.opaque"(%0) <{domain = "mesh", effect = "pure", from = ["model@sum"], kind = "reshard", to = []}> : (tensor<64x512xf32>) -> tensor<64x512xf32>
//!     return %1 : tensor<64x512xf32>
//!   }
//! }
//! ```
//!
//! # Soundness
//! An operation is the same operation on parts, with the digits that are split left out of their dimensions
//! ([`optc_check::mesh::Site`]); amounts that count elements of such a dimension are divided. The shape rule of each
//! operation must give the types of the parts. Where a value is read or stored in another sharding, an opaque operation
//! `reshard` of the domain `mesh` stands for the collectives ([`optc_check::mesh::steps`]). The whole function stays.
//!
//! # Cost
//! Linear in operations and operands.
//!
//! # Not done
//! A function has no program of one device if a value states no sharding or a padded one, or if an operation that is
//! split has no form on parts; `hbir.no_part` of the function says why, and so does a remark. Layouts are left out:
//! those of the parts are chosen by the passes that follow.
//!
//! # Neighbours
//! Run after `shard`, and before `tile-propagate`, which then plans kernels for the parts. The command does so when it
//! writes JAX.
//!
//! # Source
//! The partitioner of XLA (GSPMD); `jax.shard_map`.

mod local;

use crate::codes;
use crate::pass::{Changed, Outcome, Pass, PassContext, PassInfo, Phase};
use indexmap::IndexMap;
use local::{Parts, Why, local, on_parts, whole};
use optc_check::mesh::{Links, Site, steps};
use optc_ir::entity::EntityId;
use optc_ir::shard::{self, Mesh, Sharding, Split};
use optc_ir::{
    Attr, Diagnostic, Func, FuncBuilder, Module, NewOp, Op, Operation, Registry, Type, Value,
};
use optc_ops::{Constant, Conv, Linear, Reshard};

static INFO: PassInfo = PassInfo {
    name: "per-device",
    summary: "add the program of one device of a mesh, on its parts of all values",
    phases: (Phase::Imported, Phase::Laid),
    required: false,
    options: &[],
};

/// The pass.
#[derive(Clone, Copy, Debug, Default)]
pub struct PerDevice;

impl Pass for PerDevice {
    fn info(&self) -> &'static PassInfo {
        &INFO
    }

    fn run(&self, module: &mut Module, cx: &mut PassContext) -> Result<Outcome, Box<Diagnostic>> {
        let mesh = shard::mesh(module).map_err(|error| Box::new(Diagnostic::from(error)))?;
        let (Some(mesh), Some(entry)) = (mesh, module.entry()) else {
            return Ok(Changed::No.into());
        };
        let func = &module.funcs[entry];
        if shard::part(module, func).is_some() {
            return Ok(Changed::No.into());
        }
        let made = Links::of(&mesh, &cx.target)
            .map_err(|error| error.message)
            .and_then(|links| part(module, func, &mesh, &links, &cx.registry));
        match made {
            Ok(part) => module.funcs.push(part),
            Err(why) => {
                let message = format!("@{} has no program of one device: {why}", func.name);
                let remark = Diagnostic::remark(codes::NO_PART, message);
                cx.remarks.push(remark.at(func.span, "this function"));
                module.funcs[entry]
                    .attrs
                    .set(shard::NO_PART, Attr::str(&why));
            }
        }
        Ok(Changed::Yes.into())
    }
}

/// The function of one device that is being made.
struct Part<'a> {
    func: &'a Func,
    mesh: &'a Mesh,
    links: &'a Links,
    made: FuncBuilder<'a>,
    /// The sharding in which each value is stored.
    stored: Vec<Sharding>,
    /// The device's part of each value.
    values: Vec<Option<Value>>,
    /// The values that are converted already.
    read: IndexMap<(Value, Sharding), Value>,
}

/// The program of one device.
fn part(
    module: &Module,
    func: &Func,
    mesh: &Mesh,
    links: &Links,
    registry: &Registry,
) -> Result<Func, Why> {
    let mut name = format!("{}_part", func.name);
    while module.funcs.iter().any(|known| *known.name == *name) {
        name.push('_');
    }
    let mut part = Part {
        func,
        mesh,
        links,
        made: FuncBuilder::named(&name, registry),
        stored: stored(func, mesh)?,
        values: vec![None; func.values.len()],
        read: IndexMap::new(),
    };
    for &arg in &func.args {
        let ty = part
            .ty(arg, &part.stored[arg.index()])
            .ok_or("an argument is no tensor")?;
        let name = func.values[arg].name.as_deref();
        part.values[arg.index()] = Some(part.made.func.add_arg(ty, name));
    }
    for &op in &func.body {
        let operation = part.operation(op);
        operation.map_err(|why| format!("{}: {why}", func.ops[op].name))?;
    }
    for (i, &value) in func.results.iter().enumerate() {
        let wanted = shard::result(func, i, mesh)
            .ok()
            .flatten()
            .unwrap_or_default();
        let stored = part.stored[value.index()].clone();
        let result = part.resharded(part.value(value)?, value, &stored, &wanted)?;
        let port = func
            .result_ports
            .get(i)
            .and_then(|port| port.name.as_deref());
        part.made.func.add_result(result, port);
    }
    let mut made = part.made.func;
    made.loc = func.loc.clone();
    made.attrs.set(shard::PART_OF, Attr::str(&func.name));
    Ok(made)
}

/// The sharding of every value that is used.
fn stored(func: &Func, mesh: &Mesh) -> Result<Vec<Sharding>, Why> {
    let made = func.body.iter().flat_map(|&op| func.ops[op].results.iter());
    let mut all = vec![Sharding::replicated(); func.values.len()];
    for &value in func.args.iter().chain(made) {
        let sharding = shard::stored(func, value, mesh).ok().flatten();
        let sharding = sharding.filter(|sharding| {
            let known = func
                .ty(value)
                .as_tensor()
                .is_some_and(|ty| ty.shape().is_some());
            known && !sharding.is_partial() && !sharding.splits().iter().any(|split| split.padded)
        });
        let from = || match func.def_op(value) {
            Some(op) => format!("a result of {}", func.ops[op].name),
            None => "an argument".to_owned(),
        };
        all[value.index()] =
            sharding.ok_or_else(|| format!("{} has no sharding without padding", from()))?;
    }
    Ok(all)
}

impl Part<'_> {
    fn value(&self, value: Value) -> Result<Value, Why> {
        self.values[value.index()].ok_or_else(|| "a value is used before it is made".to_owned())
    }

    /// The type of a part of a value, row-major.
    fn ty(&self, value: Value, sharding: &Sharding) -> Option<Type> {
        local(self.func.ty(value), sharding)
    }

    /// A part of `value`, in another sharding.
    fn resharded(
        &mut self,
        part: Value,
        value: Value,
        from: &Sharding,
        to: &Sharding,
    ) -> Result<Value, Why> {
        if from == to {
            return Ok(part);
        }
        let texts = |sharding: &Sharding| sharding.texts(self.mesh).join(", ");
        let none = || format!("[{}] does not become [{}]", texts(from), texts(to));
        // A value becomes a partial sum where one device keeps it.
        if !to.is_partial() {
            steps(from, to, self.links).ok_or_else(none)?;
        }
        let ty = self.ty(value, to).ok_or_else(none)?;
        let reshard = Reshard {
            from: from.clone(),
            to: to.clone(),
        };
        self.add_one(reshard.op(part, ty, self.mesh))
    }

    fn add_one(&mut self, op: NewOp<'_>) -> Result<Value, Why> {
        self.made.add_one(op).map_err(|error| error.message)
    }

    /// The operand of an operation in the sharding in which it is read.
    fn operand(&mut self, value: Value, read: &Sharding) -> Result<Value, Why> {
        let part = self.value(value)?;
        let stored = self.stored[value.index()].clone();
        if stored == *read {
            return Ok(part);
        }
        let key = (value, read.clone());
        if let Some(&known) = self.read.get(&key) {
            return Ok(known);
        }
        let new = self.resharded(part, value, &stored, read)?;
        self.read.insert(key, new);
        Ok(new)
    }

    fn operation(&mut self, op: Op) -> Result<(), Why> {
        let func = self.func;
        let data = &func.ops[op];
        self.made.loc = data.loc.clone();
        let loops = Site::of(func, op, self.made.registry());
        if loops.source {
            return self.source(op);
        }
        let stored = |v: &Value| self.stored[v.index()].clone();
        let kept: Vec<Sharding> = data.operands.iter().map(stored).collect();
        let takes = shard::take(func, op, self.mesh).ok().flatten();
        let results: Vec<Sharding> = data.results.iter().map(stored).collect();
        let divided = loops.following(&takes.unwrap_or(kept), &results, self.links.0.len());
        let mut args = Vec::with_capacity(data.operands.len());
        for (&value, read) in data.operands.iter().zip(&divided.operands) {
            args.push(self.operand(value, read)?);
        }
        let sums = divided.results.iter().flat_map(Sharding::splits);
        let sums: Vec<&Split> = sums.filter(|split| split.pieces().is_empty()).collect();
        // A bias is added to one of the partial sums.
        let biased = [Conv::NAME, Linear::NAME].contains(&&*data.name);
        if let (true, Some(&bias), false) = (biased, data.operands.get(2), sums.is_empty()) {
            let read = &divided.operands[2];
            let partial = sums
                .iter()
                .fold(read.clone(), |all, &split| all.with(split.clone()));
            args[2] = self.resharded(args[2], bias, read, &partial)?;
        }
        let site = Parts {
            func,
            op,
            divided: &divided,
        };
        let made = on_parts(&mut self.made, &site, &args)?;
        self.made(op, &made, &divided.results)
    }

    /// A constant or another value without operands: each device makes it whole, and takes its part of it. A constant
    /// in a file keeps its sharding, in which it may be loaded.
    fn source(&mut self, op: Op) -> Result<(), Why> {
        let func = self.func;
        let made = self
            .made
            .add(whole(func, op, &[]))
            .map_err(|error| error.message)?;
        let placed = Constant::of(&func.op_ref(op)).is_ok_and(|constant| constant.data.is_some());
        for (&value, &new) in func.ops[op].results.iter().zip(&made) {
            let stored = &self.stored[value.index()];
            if placed {
                shard::set_value(&mut self.made.func, new, stored, self.mesh);
            }
        }
        let all = vec![Sharding::replicated(); made.len()];
        self.made(op, &made, &all)
    }

    /// Keeps results that are made in these shardings.
    fn made(&mut self, op: Op, made: &[Value], shardings: &[Sharding]) -> Result<(), Why> {
        let results = self.func.ops[op].results.iter().zip(made);
        for ((&value, &new), sharding) in results.zip(shardings) {
            let stored = self.stored[value.index()].clone();
            let new = self.resharded(new, value, sharding, &stored)?;
            self.values[value.index()] = Some(new);
        }
        Ok(())
    }
}
