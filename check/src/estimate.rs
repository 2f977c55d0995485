//! Models the time of a program by a roofline from a target's rates and bandwidth. Nothing is measured.
//!
//! For example, `relu(x + bias)` is one item: the sum is not stored, and its bytes are those of `x`, `bias` and the
//! result.
//!
//! See `docs/stats.md` for the model in words.

use crate::amount::bytes_of;
use crate::roofline::{Arithmetic, seconds};
use crate::stats::{known_values, permuted_operand};
use indexmap::{IndexMap, IndexSet};
use optc_ir::analysis::live_ops;
use optc_ir::effects::Effects;
use optc_ir::entity::SideTable;
use optc_ir::size::SizeTable;
use optc_ir::{
    DType, Dim, FreedomClass, Func, Module, Op, OpDecl, OpRef, Registry, Structure, TensorType,
    Traffic, Type, Value, named_sizes,
};
use optc_layout::Notation;
use optc_target::{Alternative, MemoryLevel, Target, Unit};
use std::sync::Arc;

/// The parameters of a price.
#[derive(Clone, Copy, Debug)]
pub struct Prices<'a> {
    /// The target whose rates and outermost memory count.
    pub target: &'a Target,
    /// The sizes of names.
    pub sizes: &'a SizeTable,
    /// The element type in which every float value is priced; `None` for its own.
    pub cast: Option<DType>,
}

/// The modelled time of a program.
#[derive(Clone, Debug, PartialEq)]
pub struct Estimate {
    /// The operations and chains that take time, in the order of the program.
    pub items: Vec<Item>,
    /// Bandwidth of the outermost memory in bytes a second.
    pub bandwidth: f64,
    /// The ratio of the bytes of all values as they are priced to their bytes as they are.
    scale: f64,
}

/// An operation, or a chain of operations whose values between them are not stored.
#[derive(Clone, Debug, PartialEq)]
pub struct Item {
    /// The function.
    pub func: Arc<str>,
    /// The full names of the operations; empty for conversions that the target forces and that no operation stands for.
    pub ops: Vec<Arc<str>>,
    /// The unit that runs the first operation; `None` if its family has no row.
    pub unit: Option<String>,
    /// Arithmetic operations on elements; a product and a sum are two.
    pub work: u64,
    /// Bytes read plus written.
    pub bytes: u64,
    /// Seconds for the work.
    pub compute_seconds: f64,
    /// Seconds for the bytes.
    pub memory_seconds: f64,
    /// True if a unit states no rate for the type of some work; such work takes no time.
    pub unrated: bool,
}

/// The bound of an item's time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Limit {
    /// The rate of its unit.
    Compute,
    /// The bandwidth of memory.
    Memory,
}

impl Limit {
    /// The name in `optc stats --json`.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Limit::Compute => "compute",
            Limit::Memory => "memory",
        }
    }
}

impl Item {
    /// The modelled time in seconds. Work and bytes overlap, so this is the larger of both times.
    #[must_use]
    pub fn seconds(&self) -> f64 {
        self.compute_seconds.max(self.memory_seconds)
    }

    /// The larger of both times.
    #[must_use]
    pub fn limit(&self) -> Limit {
        if self.memory_seconds < self.compute_seconds {
            Limit::Compute
        } else {
            Limit::Memory
        }
    }
}

impl Estimate {
    /// The time of every operation that a result depends on, each function once; `None` if the target states no memory.
    #[must_use]
    pub fn of(module: &Module, registry: &Registry, prices: &Prices<'_>) -> Option<Estimate> {
        let bandwidth = outermost(prices.target)?.bandwidth;
        let module = &*named_sizes(module, registry);
        let effects = Effects::of_module(module, registry);
        let mut items = Vec::new();
        let (mut priced, mut plain) = (0.0, 0.0);
        for func in &module.funcs {
            let values = Values::of(func, prices);
            for value in func.values.ids() {
                plain += to_float(bytes(func.ty(value), prices.sizes));
                priced += to_float(bytes(&values.priced[value], prices.sizes));
            }
            let pricer = Pricer::of(func, registry, &effects, prices, values, bandwidth);
            items.extend(pricer.items());
        }
        let scale = if 0.0 < plain { priced / plain } else { 1.0 };
        Some(Estimate {
            items,
            bandwidth,
            scale,
        })
    }

    /// Adds conversions that no operation of the program stands for, of this many bytes in the values' own types.
    pub fn add_conversions(&mut self, bytes: u64) {
        let priced = to_float(bytes) * self.scale;
        if 0 < bytes {
            self.items.push(Item {
                func: Arc::from(""),
                ops: Vec::new(),
                unit: None,
                work: 0,
                bytes: to_whole(priced),
                compute_seconds: 0.0,
                memory_seconds: priced / self.bandwidth,
                unrated: false,
            });
        }
    }

    /// The modelled time in seconds: one item after the other.
    #[must_use]
    pub fn seconds(&self) -> f64 {
        self.seconds_at(1.0)
    }

    /// The modelled time if every unit computed `speed` times as fast.
    #[must_use]
    pub fn seconds_at(&self, speed: f64) -> f64 {
        let time = |item: &Item| (item.compute_seconds / speed).max(item.memory_seconds);
        self.items.iter().map(time).sum()
    }

    /// Arithmetic operations of all items.
    #[must_use]
    pub fn work(&self) -> u64 {
        let all = self.items.iter().map(|item| item.work);
        all.fold(0, u64::saturating_add)
    }

    /// Bytes read plus written of all items.
    #[must_use]
    pub fn bytes(&self) -> u64 {
        let all = self.items.iter().map(|item| item.bytes);
        all.fold(0, u64::saturating_add)
    }

    /// The number of items with work for which no rate is stated.
    #[must_use]
    pub fn unrated(&self) -> usize {
        self.items.iter().filter(|item| item.unrated).count()
    }
}

/// The memory whose bandwidth prices programs.
#[must_use]
pub fn outermost(target: &Target) -> Option<&MemoryLevel> {
    target.memory.first()
}

/// Returns whether a module has float values, to which [`Prices::cast`] applies.
#[must_use]
pub fn has_floats(module: &Module) -> bool {
    let float = |ty: &Type| ty.as_tensor().is_some_and(|t| t.dtype.is_float());
    let mut funcs = module.funcs.iter();
    funcs.any(|func| func.values.ids().any(|v| float(func.ty(v))))
}

/// The types of a function's values.
struct Values {
    /// Types with numbers for unknown sizes.
    bound: SideTable<Value, Type>,
    /// The same types with the element type in which they are priced.
    priced: SideTable<Value, Type>,
}

impl Values {
    fn of(func: &Func, prices: &Prices<'_>) -> Values {
        let blank = || SideTable::new(Type::Other(Arc::from("")));
        let (mut bound, mut priced) = (blank(), blank());
        for value in func.values.ids() {
            let ty = func.ty(value);
            let Some(tensor) = ty.as_tensor() else {
                bound[value] = ty.clone();
                priced[value] = ty.clone();
                continue;
            };
            let number = |dim: &Dim| Dim::Fixed(prices.sizes.value(&dim.cost()));
            let tensor = TensorType {
                dims: tensor.dims.iter().map(number).collect(),
                ..tensor.clone()
            };
            let cast = prices.cast.filter(|_| tensor.dtype.is_float());
            let dtype = cast.unwrap_or(tensor.dtype);
            bound[value] = Type::from(tensor.clone());
            priced[value] = Type::from(TensorType { dtype, ..tensor });
        }
        Values { bound, priced }
    }
}

/// An operation with these types of its values.
fn op_ref<'a>(func: &'a Func, op: Op, types: &'a SideTable<Value, Type>) -> OpRef<'a> {
    let data = &func.ops[op];
    OpRef {
        name: &data.name,
        operands: data.operands.iter().map(|&v| &types[v]).collect(),
        results: data.results.iter().map(|&v| &types[v]).collect(),
        props: &data.props,
    }
}

/// An operation that takes time.
#[derive(Clone)]
struct Timed {
    traffic: Traffic,
    /// True if the operation may be part of a chain.
    chains: bool,
    /// The number of times that a path to this operation leaves or enters a chain.
    phase: u32,
    /// The first operation of its chain; itself if it is in none.
    chain: Op,
}

/// Computes the times of one function.
struct Pricer<'a> {
    func: &'a Func,
    registry: &'a Registry,
    prices: &'a Prices<'a>,
    bandwidth: f64,
    values: Values,
    timed: SideTable<Op, Option<Timed>>,
    /// The value whose storage a value uses if an operation only renames it.
    renames: SideTable<Value, Option<Value>>,
    /// The operations that read a root.
    readers: IndexMap<Value, Vec<Op>>,
    /// Roots that are results of the function.
    returned: IndexSet<Value>,
}

impl<'a> Pricer<'a> {
    fn of(
        func: &'a Func,
        registry: &'a Registry,
        effects: &Effects<'_>,
        prices: &'a Prices<'a>,
        values: Values,
        bandwidth: f64,
    ) -> Pricer<'a> {
        let live = live_ops(func, effects);
        let known = known_values(func, registry, effects);
        let mut pricer = Pricer {
            func,
            registry,
            prices,
            bandwidth,
            values,
            timed: SideTable::new(None),
            renames: SideTable::new(None),
            readers: IndexMap::new(),
            returned: IndexSet::new(),
        };
        for &op in &func.body {
            let results = &func.ops[op].results;
            let at_compile_time = !results.is_empty() && results.iter().all(|&v| known[v]);
            if live[op] && !at_compile_time && func.ops[op].props.symbols().next().is_none() {
                pricer.enter(op);
            }
        }
        pricer.returned = func.results.iter().map(|&v| pricer.root(v)).collect();
        pricer
    }

    /// Adds an operation; all operations before it must have been added.
    fn enter(&mut self, op: Op) {
        let data = &self.func.ops[op];
        let decl = self.registry.get(&data.name);
        let traffic = self.traffic(op, decl);
        let class = decl.map(|d| d.freedom(&self.func.op_ref(op)).class);
        let renames = class == Some(FreedomClass::Rearrange)
            || self.registry.structure(&data.name) == Structure::View;
        if renames && traffic == Traffic::None {
            if let (Some(&from), Some(&to)) = (data.operands.first(), data.results.first()) {
                self.renames[to] = Some(self.root(from));
            }
            return;
        }
        let moves = matches!(traffic, Traffic::Movement | Traffic::Copy(..));
        let chains = !moves && decl.is_some_and(|d| CHAINED.contains(&d.family()));
        let mut phase = 0;
        let mut before: Vec<(u32, Op)> = Vec::new();
        for &operand in &data.operands {
            let value = self.root(operand);
            let readers = self.readers.entry(value).or_default();
            if !readers.contains(&op) {
                readers.push(op);
            }
            let producer = self.func.def_op(value);
            let Some((producer, timed)) = producer.and_then(|p| Some((p, self.timed[p].as_ref()?)))
            else {
                continue;
            };
            let within = chains && timed.chains;
            phase = phase.max(timed.phase + u32::from(!within));
            if within {
                before.push((timed.phase, producer));
            }
        }
        // A value that left a chain and returns by another path is in a later phase, so that no chain depends on
        // itself.
        let near = before.iter().filter(|(at, _)| *at == phase);
        let joined: Vec<Op> = near.map(|&(_, p)| self.chain(p)).collect();
        let chain = joined.first().copied().unwrap_or(op);
        for other in joined {
            if let Some(timed) = &mut self.timed[other] {
                timed.chain = chain;
            }
        }
        self.timed[op] = Some(Timed {
            traffic,
            chains,
            phase,
            chain,
        });
    }

    /// The traffic of an operation for pricing.
    fn traffic(&self, op: Op, decl: Option<&dyn OpDecl>) -> Traffic {
        match decl {
            Some(_) if permuted_operand(self.func, op, self.registry).is_some() => {
                Traffic::Movement
            }
            Some(decl) => decl.traffic(&op_ref(self.func, op, &self.values.priced)),
            None => Traffic::None,
        }
    }

    /// The value whose storage a value uses.
    fn root(&self, value: Value) -> Value {
        self.renames[value].unwrap_or(value)
    }

    /// The representative of an operation's chain.
    fn chain(&self, op: Op) -> Op {
        let mut at = op;
        while let Some(timed) = &self.timed[at] {
            if timed.chain == at {
                break;
            }
            at = timed.chain;
        }
        at
    }

    /// Returns whether a result of an operation is written to memory.
    fn is_stored(&self, op: Op, value: Value) -> bool {
        let chain = self.chain(op);
        let readers = self.readers.get(&value);
        let outside = |&reader: &Op| self.chain(reader) != chain;
        self.returned.contains(&value) || readers.is_some_and(|all| all.iter().any(outside))
    }

    fn items(&self) -> Vec<Item> {
        let mut chains: IndexMap<Op, Vec<Op>> = IndexMap::new();
        for &op in &self.func.body {
            if self.timed[op].is_some() {
                chains.entry(self.chain(op)).or_default().push(op);
            }
        }
        chains.values().map(|ops| self.item(ops)).collect()
    }

    fn item(&self, ops: &[Op]) -> Item {
        let (mut work, mut bytes) = (0u64, 0u64);
        let (mut compute_seconds, mut unrated) = (0.0, false);
        let mut read: IndexSet<Value> = IndexSet::new();
        for &op in ops {
            bytes = bytes.saturating_add(self.moved(op, &mut read));
            let Some(arithmetic) = self.arithmetic(op) else {
                continue;
            };
            let of = arithmetic.operations();
            work = work.saturating_add(of);
            match arithmetic.rate {
                Some(rate) => compute_seconds += seconds(of, rate),
                None => unrated |= 0 < of,
            }
        }
        let unit = ops.first().and_then(|&op| self.unit(op));
        Item {
            func: self.func.name.clone(),
            ops: ops
                .iter()
                .map(|&op| self.func.ops[op].name.clone())
                .collect(),
            unit: unit.map(|(name, _)| name.to_owned()),
            work,
            bytes,
            compute_seconds,
            memory_seconds: seconds(bytes, self.bandwidth),
            unrated,
        }
    }

    /// Bytes that an operation reads and writes. `read` holds the values that its chain has read already.
    fn moved(&self, op: Op, read: &mut IndexSet<Value>) -> u64 {
        let data = &self.func.ops[op];
        let sizes = self.prices.sizes;
        let of = |value: Value| bytes(&self.values.priced[value], sizes);
        let traffic = self.timed[op].as_ref().map(|timed| &timed.traffic);
        match traffic {
            Some(Traffic::Copy(from, to)) => {
                return sizes.value(from).saturating_add(sizes.value(to));
            }
            Some(Traffic::Movement) => {
                let permuted = permuted_operand(self.func, op, self.registry);
                let from = permuted.or(data.operands.first().copied());
                let ends = from.into_iter().chain(data.results.first().copied());
                return ends.map(of).fold(0, u64::saturating_add);
            }
            Some(Traffic::None | Traffic::Expand) | None => {}
        }
        let chain = self.chain(op);
        let within = |value: Value| {
            let producer = self.func.def_op(value);
            producer.is_some_and(|p| self.timed[p].is_some() && self.chain(p) == chain)
        };
        let operands = data.operands.iter().map(|&v| self.root(v));
        let new = operands.filter(|&v| !within(v) && read.insert(v));
        let ends: Vec<Value> = new.collect();
        let stored = data.results.iter().filter(|&&v| self.is_stored(op, v));
        ends.into_iter()
            .chain(stored.copied())
            .map(|value| self.at_port(op, value))
            .fold(0, u64::saturating_add)
    }

    /// Bytes of a value as an operation reads or writes it. A value without a layout is padded along its last dimension
    /// as the row of the operation's family wants it.
    fn at_port(&self, op: Op, value: Value) -> u64 {
        let ty = &self.values.priced[value];
        let sizes = self.prices.sizes;
        let decl = self.registry.get(&self.func.ops[op].name);
        let row = decl.and_then(|decl| self.prices.target.row(decl.family()));
        let Some((row, tensor)) = row.zip(ty.as_tensor()) else {
            return bytes(ty, sizes);
        };
        let last = tensor.dims.last().and_then(Dim::fixed).unwrap_or(1);
        let of = |a: &Alternative| a.block.or(a.run.filter(|&run| last < run));
        let unit = row.taken().find_map(of);
        let one = tensor.elements().is_some_and(|n| n <= 1);
        let unit = unit.filter(|_| tensor.notation == Notation::RowMajor && !one);
        let Some(unit) = unit.filter(|&unit| 0 < unit) else {
            return bytes(ty, sizes);
        };
        let mut padded = tensor.clone();
        if let Some(dim) = padded.dims.last_mut() {
            *dim = Dim::Fixed(last.div_ceil(unit).saturating_mul(unit));
        }
        bytes(&Type::from(padded), sizes)
    }

    /// The unit that the row of an operation's family names.
    fn unit(&self, op: Op) -> Option<(&'a str, &'a Unit)> {
        let decl = self.registry.get(&self.func.ops[op].name)?;
        let name = &self.prices.target.row(decl.family())?.unit;
        Some((name.as_str(), self.prices.target.units.get(name)?))
    }

    /// The arithmetic of an operation; `None` if it only moves elements or has no declaration.
    fn arithmetic(&self, op: Op) -> Option<Arithmetic> {
        let data = &self.func.ops[op];
        let decl = self.registry.get(&data.name)?;
        let timed = self.timed[op].as_ref();
        if timed.is_some_and(|timed| timed.traffic != Traffic::None) {
            return None;
        }
        let element = |value: Option<&Value>| {
            let ty = self.values.priced[*value?].as_tensor()?;
            Some(ty.dtype)
        };
        let elements = [
            element(data.operands.first()),
            element(data.results.first()),
        ];
        let bound = op_ref(self.func, op, &self.values.bound);
        let op = (&bound, &data.attrs);
        Some(Arithmetic::of(decl, op, elements, self.prices.target))
    }
}

/// Families that one kernel runs without storing the values between them.
const CHAINED: [&str; 4] = ["broadcast", "elementwise", "norm", "reduce"];

/// Physical bytes of a value of this type.
fn bytes(ty: &Type, sizes: &SizeTable) -> u64 {
    ty.as_tensor().map_or(0, |ty| bytes_of(ty, sizes).at(sizes))
}

/// Converts a count to a float for the computation of times.
#[expect(
    clippy::cast_precision_loss,
    reason = "a model needs no more digits than a float has"
)]
fn to_float(n: u64) -> f64 {
    n as f64
}

/// Rounds a non-negative float to the nearest count.
#[expect(
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    reason = "rounded before; what is too large becomes the largest number"
)]
fn to_whole(x: f64) -> u64 {
    x.round() as u64
}
