//! The share of each operation and argument in the statistics of a program.

use crate::stats::{CostClass, counted, known_values, padded, prices};
use indexmap::IndexMap;
use optc_ir::effects::Effects;
use optc_ir::size::SizeTable;
use optc_ir::{Module, Op, Registry, Value, ValueDef, named_sizes};
use optc_target::Target;

/// The source of bytes in the statistics.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum Source {
    /// An operation, the padding of its results included.
    Op(Op),
    /// An argument, which may be padded.
    Arg(Value),
}

/// The share of one operation or argument in the figures of [`Stats`](crate::Stats).
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Item {
    /// The number of the function.
    pub func: usize,
    /// The operation or argument.
    pub of: Source,
    /// The class of statistics.
    pub class: CostClass,
    /// Bytes read plus written, in this class.
    pub bytes: u64,
    /// Further bytes of movement: the price of the operation's alternative, on a machine with tiles.
    pub priced: u64,
    /// The extra time in these orders, in bytes, on a machine without tiles.
    pub slower: u64,
    /// Padding of the results.
    pub padding: u64,
}

/// All operations and arguments that add bytes to the figures of a module at these sizes of names, in the order of the
/// text. Their sum is [`Stats::on`](crate::Stats::on), or [`Stats::at`](crate::Stats::at) if no target chose the
/// layouts.
#[must_use]
pub fn items(
    module: &Module,
    registry: &Registry,
    sizes: &SizeTable,
    target: Option<&Target>,
) -> Vec<Item> {
    let tiled = target.is_some_and(Target::is_tiled);
    let prices = target.map(|target| prices(module, registry, sizes, target));
    let prices = prices.into_iter().flatten();
    let prices: IndexMap<(usize, Op), u64> =
        prices.map(|(op, amount)| (op, amount.at(sizes))).collect();
    let module = &*named_sizes(module, registry);
    let effects = Effects::of_module(module, registry);
    let mut found = Vec::new();
    for (index, func) in module.funcs.iter().enumerate() {
        let costs = counted(func, registry, &effects, sizes);
        let known = known_values(func, registry, &effects);
        let mut padding: IndexMap<Source, u64> = IndexMap::new();
        for (value, bytes) in padded(func, registry, &known, &costs) {
            let of = match func.values[value].def {
                ValueDef::Arg(_) => Source::Arg(value),
                ValueDef::Result(op, _) => Source::Op(op),
            };
            let sum = padding.entry(of).or_default();
            *sum = sum.saturating_add(bytes);
        }
        let all = func.args.iter().map(|&arg| Source::Arg(arg));
        let all = all.chain(func.body.iter().map(|&op| Source::Op(op)));
        for of in all {
            let (class, bytes, priced) = match of {
                Source::Op(op) => {
                    let cost = costs[op].as_ref();
                    let class = cost.map_or(CostClass::Free, |c| c.class);
                    let bytes = cost.map_or(0, |c| c.amount.at(sizes));
                    (class, bytes, prices.get(&(index, op)).copied().unwrap_or(0))
                }
                Source::Arg(_) => (CostClass::Free, 0, 0),
            };
            let padding = padding.get(&of).copied().unwrap_or(0);
            let (priced, slower) = if tiled { (priced, 0) } else { (0, priced) };
            if bytes != 0 || priced != 0 || slower != 0 || padding != 0 {
                found.push(Item {
                    func: index,
                    of,
                    class,
                    bytes,
                    priced,
                    slower,
                    padding,
                });
            }
        }
    }
    found
}
