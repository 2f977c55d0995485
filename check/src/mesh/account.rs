//! The account of a program whose shardings are stated: its collectives, its time and the memory of a device.

use super::collective::{Collective, conversion};
use super::links::Links;
use super::loops::{Effort, Extents, Site};
use optc_ir::analysis::last_uses;
use optc_ir::shard::{self, Mesh, ShardError, Sharding};
use optc_ir::{Func, Module, Op, Registry, Structure, Value};
use optc_target::Target;

/// The place of a collective in a function.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Cause {
    /// The operation makes the value in another sharding than it is stored.
    Made(Op),
    /// The operation reads the value in another sharding than it is stored.
    Read(Op),
    /// The function returns the value in another sharding than it is stored.
    Returned(usize),
}

/// The collectives that turn a value from one sharding into another.
#[derive(Clone, Debug)]
pub struct Done {
    /// The number of the function in the module.
    pub func: usize,
    /// The value.
    pub value: Value,
    /// The place.
    pub cause: Cause,
    /// The sharding before.
    pub from: Sharding,
    /// The sharding afterwards.
    pub to: Sharding,
    /// The collectives, in their order.
    pub collectives: Vec<Collective>,
}

/// The cost of a program on a mesh.
#[derive(Clone, Debug, Default)]
pub struct Account {
    /// The collectives, in the order of the program.
    pub done: Vec<Done>,
    /// The modelled seconds of the operations on one device, one after the other.
    pub work_seconds: f64,
    /// The bytes of arguments and constants on one device.
    pub resident_bytes: u64,
    /// The most bytes of all values alive at once on one device, arguments and constants included.
    pub memory_bytes: u64,
}

impl Account {
    /// The account of a module on its mesh; `None` if it states no mesh. A value that states no sharding is on all
    /// devices.
    ///
    /// # Errors
    /// The mesh or a sharding is malformed, or an axis is over no link of the target.
    pub fn of(
        module: &Module,
        registry: &Registry,
        target: &Target,
    ) -> Result<Option<Account>, ShardError> {
        let Some(mesh) = shard::mesh(module)? else {
            return Ok(None);
        };
        let links = Links::of(&mesh, target)?;
        let mut account = Account::default();
        for (number, func) in module.funcs.iter().enumerate() {
            // The program of one device is another form of the whole one.
            if func.attrs.get(shard::PART_OF).is_some() {
                continue;
            }
            let counter = Counter {
                func,
                number,
                mesh: &mesh,
                links: &links,
            };
            counter.count(registry, target, &mut account)?;
        }
        Ok(Some(account))
    }

    /// All collectives.
    pub fn collectives(&self) -> impl Iterator<Item = &Collective> {
        self.done.iter().flat_map(|done| &done.collectives)
    }

    /// The bytes that each device sends along an axis.
    #[must_use]
    pub fn axis_bytes(&self, axis: usize) -> u64 {
        let along = self.collectives().filter(|c| c.axis == axis);
        along.map(|c| c.bytes).fold(0, u64::saturating_add)
    }

    /// The modelled seconds of collectives, one after the other.
    #[must_use]
    pub fn collective_seconds(&self) -> f64 {
        self.collectives().map(|c| c.seconds).sum()
    }

    /// The modelled seconds of the program on one device.
    #[must_use]
    pub fn seconds(&self) -> f64 {
        self.work_seconds + self.collective_seconds()
    }
}

struct Counter<'a> {
    func: &'a Func,
    number: usize,
    mesh: &'a Mesh,
    links: &'a Links,
}

impl Counter<'_> {
    fn count(
        &self,
        registry: &Registry,
        target: &Target,
        account: &mut Account,
    ) -> Result<(), ShardError> {
        let func = self.func;
        for &op in &func.body {
            let site = Site::of(func, op, registry);
            let stored = |&v: &Value| self.stored(v);
            let kept: Vec<Sharding> = func.ops[op]
                .operands
                .iter()
                .map(stored)
                .collect::<Result<_, _>>()?;
            let takes = shard::take(func, op, self.mesh)?.unwrap_or_else(|| kept.clone());
            let results: Vec<Sharding> = func.ops[op]
                .results
                .iter()
                .map(stored)
                .collect::<Result<_, _>>()?;
            if site.source {
                continue;
            }
            let divided = site.following(&takes, &results, self.mesh.axes.len());
            account.work_seconds += Effort::of(func, op, registry, target).seconds(&site, &divided);
            let operands = func.ops[op].operands.iter().enumerate();
            for (i, &value) in operands {
                let size = site.operands[i].as_ref();
                self.add(
                    account,
                    size,
                    (value, Cause::Read(op)),
                    (&kept[i], &divided.operands[i]),
                );
            }
            for (i, &value) in func.ops[op].results.iter().enumerate() {
                let size = site.results[i].as_ref();
                self.add(
                    account,
                    size,
                    (value, Cause::Made(op)),
                    (&divided.results[i], &results[i]),
                );
            }
        }
        for (i, &value) in func.results.iter().enumerate() {
            if let Some(wanted) = shard::result(func, i, self.mesh)? {
                let size = Extents::of(func.ty(value));
                let stored = self.stored(value)?;
                self.add(
                    account,
                    size.as_ref(),
                    (value, Cause::Returned(i)),
                    (&stored, &wanted),
                );
            }
        }
        let bytes = |value: Value| -> u64 {
            let stored = self.stored(value).unwrap_or_default();
            Extents::of(func.ty(value)).map_or(0, |size| size.local_bytes(&stored))
        };
        let [resident, most] = device_memory(func, registry, &bytes);
        account.resident_bytes = account.resident_bytes.saturating_add(resident);
        account.memory_bytes = account.memory_bytes.max(most);
        Ok(())
    }

    fn stored(&self, value: Value) -> Result<Sharding, ShardError> {
        shard::stored(self.func, value, self.mesh).map(Option::unwrap_or_default)
    }

    fn add(
        &self,
        account: &mut Account,
        size: Option<&Extents>,
        (value, cause): (Value, Cause),
        (from, to): (&Sharding, &Sharding),
    ) {
        let whole = size.map_or(0, Extents::bytes);
        let collectives = conversion(from, to, whole, self.links);
        if !collectives.is_empty() {
            account.done.push(Done {
                func: self.number,
                value,
                cause,
                from: from.clone(),
                to: to.clone(),
                collectives,
            });
        }
    }
}

/// The bytes of arguments and constants of a function, and the most bytes of all values that are alive at once, by the
/// bytes of each value.
#[must_use]
pub fn device_memory(func: &Func, registry: &Registry, bytes: &dyn Fn(Value) -> u64) -> [u64; 2] {
    let sum = |values: &[Value]| {
        let all = values.iter().map(|&value| bytes(value));
        all.fold(0u64, u64::saturating_add)
    };
    let is_constant = |op: Op| registry.structure(&func.ops[op].name) == Structure::Constant;
    let is_resident = |value: &Value| func.def_op(*value).is_none_or(is_constant);
    let mut resident = sum(&func.args);
    let (mut alive, mut most) = (0u64, 0u64);
    let dying = last_uses(func, func.body.iter().map(std::slice::from_ref));
    for (&op, mut dead) in func.body.iter().zip(dying) {
        let made = sum(&func.ops[op].results);
        let held = if is_constant(op) {
            &mut resident
        } else {
            &mut alive
        };
        *held = held.saturating_add(made);
        most = most.max(alive);
        dead.retain(|value| !is_resident(value));
        alive = alive.saturating_sub(sum(&dead));
    }
    [resident, resident.saturating_add(most)]
}
