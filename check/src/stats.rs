//! Statistics of a program: the bytes that it still moves, in exclusive classes.
//!
//! For example, a transpose of an `f32` tensor of 100 elements that moves them counts 800 bytes of movement: 400 read
//! and 400 written.

use crate::amount::{Amount, bytes_of};
pub use crate::known::known_values;
use crate::padding::padding;
use crate::target::Verdicts;
use indexmap::IndexMap;
use optc_ir::analysis::live_ops;
use optc_ir::effects::Effects;
use optc_ir::entity::SideTable;
use optc_ir::op::in_place;
use optc_ir::size::{NAMELESS, Size, SizeTable};
use optc_ir::{
    Dim, FreedomClass, Func, Module, Op, OpDecl, OpRef, Operation, Registry, Structure, TensorType,
    Traffic, Type, Value, named_sizes, unbound_sizes,
};
use optc_ops::{Dequantized, LayoutConvert, Reshape, Transpose, View};
use optc_target::Target;
use std::sync::Arc;

/// Counts and bytes; `docs/stats.md` defines the classes.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Stats {
    /// Live operations, constants left out.
    pub ops: u64,
    /// `hbir.reshape`.
    pub reshape: u64,
    /// `hbir.transpose`.
    pub transpose: u64,
    /// `hbir.view`.
    pub view: u64,
    /// `hbir.layout_convert`.
    pub layout_convert: u64,
    /// Operations that only rearrange and are not views.
    pub movement_ops: u64,
    /// Bytes that these operations read plus write, padding included, plus [`priced_bytes`](Stats::priced_bytes).
    pub movement_bytes: u64,
    /// Bytes that operations move by themselves: the prices of the target's alternatives that take their layouts.
    pub priced_bytes: u64,
    /// On a machine without tiles: the extra time of operations in the orders of their ports, by the prices of the
    /// target's alternatives that take them. The unit is bytes of a conversion that takes as long; nothing moves.
    pub slower_bytes: u64,
    /// Split, slice, concat, pad, gather and scatter that move data.
    pub copy_ops: u64,
    /// Bytes that these operations read plus write, of the elements that they touch.
    pub copy_bytes: u64,
    /// Expand and tile that repeat elements.
    pub expand_ops: u64,
    /// Bytes they read plus write.
    pub expand_bytes: u64,
    /// Rearrangements of constants.
    pub constant_movement_ops: u64,
    /// Bytes moved at compile time.
    pub constant_movement_bytes: u64,
    /// Bytes of stored values that hold no element, see [`padding`](crate::padding).
    pub padding_bytes: u64,
    /// The figures in bytes as polynomials in the program's unknown sizes. The figures above are their values at the
    /// bound sizes.
    pub polynomials: Polynomials,
}

/// The figures in bytes of [`Stats`], as polynomials; `None` if a layout has none.
///
/// Bytes that move only if a size `n` is more than 1 have the factor `min(1,n-1)`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Polynomials {
    /// The polynomial of `movement_bytes`.
    pub movement: Option<Size>,
    /// The polynomial of `priced_bytes`, which are part of `movement_bytes`.
    pub priced: Option<Size>,
    /// The polynomial of `slower_bytes`.
    pub slower: Option<Size>,
    /// The polynomial of `copy_bytes`.
    pub copy: Option<Size>,
    /// The polynomial of `expand_bytes`.
    pub expand: Option<Size>,
    /// The polynomial of `constant_movement_bytes`.
    pub constant_movement: Option<Size>,
}

impl Default for Polynomials {
    fn default() -> Polynomials {
        let zero = || Some(Size::default());
        Polynomials {
            movement: zero(),
            priced: zero(),
            slower: zero(),
            copy: zero(),
            expand: zero(),
            constant_movement: zero(),
        }
    }
}

impl Polynomials {
    /// The polynomials by the names of the figures.
    #[must_use]
    pub fn fields(&self) -> Vec<(&'static str, Option<&Size>)> {
        vec![
            ("movement_bytes", self.movement.as_ref()),
            ("priced_bytes", self.priced.as_ref()),
            ("slower_bytes", self.slower.as_ref()),
            ("copy_bytes", self.copy.as_ref()),
            ("expand_bytes", self.expand.as_ref()),
            ("constant_movement_bytes", self.constant_movement.as_ref()),
        ]
    }
}

/// The names of a module's unknown sizes, in order of appearance, and the numbers at which costs are compared. Sizes
/// without a name are [`NAMELESS`].
#[must_use]
pub fn bound_sizes(module: &Module, sizes: &SizeTable) -> IndexMap<Arc<str>, u64> {
    let mut found = IndexMap::new();
    for func in &module.funcs {
        let types = func.values.ids().filter_map(|v| func.ty(v).as_tensor());
        for dim in types.flat_map(|ty| &ty.dims) {
            let names = match dim {
                Dim::Fixed(_) => continue,
                Dim::Symbol(_) => dim.size().map(|size| size.names()).unwrap_or_default(),
                Dim::Unknown => vec![Arc::from(NAMELESS)],
            };
            for name in names {
                let size = sizes.get(&name);
                found.insert(name, size);
            }
        }
    }
    found
}

impl Stats {
    /// Counts a module at its [`compared_sizes`](optc_ir::compared_sizes). Values without users do not count.
    #[must_use]
    pub fn of(module: &Module, registry: &Registry) -> Stats {
        Stats::at(module, registry, &unbound_sizes(module, registry))
    }

    /// Counts a module at these sizes of names. Values without users do not count.
    #[must_use]
    pub fn at(module: &Module, registry: &Registry, sizes: &SizeTable) -> Stats {
        let module = &*named_sizes(module, registry);
        let mut counter = Counter {
            stats: Stats::default(),
            sizes,
            bytes: <[Amount; 4]>::default(),
        };
        let effects = Effects::of_module(module, registry);
        for func in &module.funcs {
            let costs = counted(func, registry, &effects, sizes);
            let known = known_values(func, registry, &effects);
            let padding = padded(func, registry, &known, &costs).into_iter();
            let padding = padding.fold(0, |sum: u64, (_, bytes)| sum.saturating_add(bytes));
            counter.stats.padding_bytes = counter.stats.padding_bytes.saturating_add(padding);
            for &op in &func.body {
                if let Some(cost) = &costs[op] {
                    counter.add(&func.ops[op].name, cost);
                }
            }
        }
        counter.finish()
    }

    /// Counts a module with the prices of this target's alternatives added, if this target chose the layouts.
    #[must_use]
    pub fn on(module: &Module, registry: &Registry, sizes: &SizeTable, target: &Target) -> Stats {
        let mut stats = Stats::at(module, registry, sizes);
        let mut priced = Amount::default();
        for (_, amount) in prices(module, registry, sizes, target) {
            priced.add(&amount, sizes);
        }
        if !target.is_tiled() {
            stats.slower_bytes = priced.at(sizes);
            stats.polynomials.slower = priced.polynomial();
            return stats;
        }
        stats.priced_bytes = priced.at(sizes);
        stats.movement_bytes = stats.movement_bytes.saturating_add(stats.priced_bytes);
        let movement = stats.polynomials.movement.take();
        stats.polynomials.priced = priced.polynomial();
        let priced = stats.polynomials.priced.as_ref();
        stats.polynomials.movement = movement.and_then(|m| m.plus(priced?));
        stats
    }

    /// The cost of a choice of layouts without copies, in bytes: movement, padding and slower orders.
    #[must_use]
    pub fn layout_bytes(&self) -> u64 {
        let moved = self.movement_bytes.saturating_add(self.padding_bytes);
        moved.saturating_add(self.slower_bytes)
    }

    /// The figures by the names that `--json` and `--fail-if` use.
    #[must_use]
    pub fn fields(&self) -> Vec<(&'static str, u64)> {
        vec![
            ("ops", self.ops),
            ("reshape", self.reshape),
            ("transpose", self.transpose),
            ("view", self.view),
            ("layout_convert", self.layout_convert),
            ("movement_ops", self.movement_ops),
            ("movement_bytes", self.movement_bytes),
            ("priced_bytes", self.priced_bytes),
            ("slower_bytes", self.slower_bytes),
            ("copy_ops", self.copy_ops),
            ("copy_bytes", self.copy_bytes),
            ("expand_ops", self.expand_ops),
            ("expand_bytes", self.expand_bytes),
            ("padding_bytes", self.padding_bytes),
            ("constant_movement_ops", self.constant_movement_ops),
            ("constant_movement_bytes", self.constant_movement_bytes),
        ]
    }
}

/// The cost of each operation by the prices of the target that chose a module's layouts: number of the function,
/// operation, bytes. Empty if another target chose them.
pub(crate) fn prices(
    module: &Module,
    registry: &Registry,
    sizes: &SizeTable,
    target: &Target,
) -> Vec<((usize, Op), Amount)> {
    let chosen = module.attrs.str("hbir.target") == Some(&*target.name);
    let mut found = Vec::new();
    if !chosen || !target.has_prices() {
        return found;
    }
    let effects = Effects::of_module(module, registry);
    let mut verdicts = Verdicts::new(registry, target);
    for (index, func) in module.funcs.iter().enumerate() {
        let live = live_ops(func, &effects);
        let known = known_values(func, registry, &effects);
        let dequantized = Dequantized::of(func, registry);
        for &op in func.body.iter().filter(|&&op| live[op]) {
            if !func.ops[op].results.iter().all(|&v| known[v]) {
                let price = verdicts.price((func, &dequantized), op, sizes);
                found.push(((index, op), price));
            }
        }
    }
    found
}

/// Padding of each stored value of a function, given the bytes that its operations move.
pub(crate) fn padded(
    func: &Func,
    registry: &Registry,
    known: &SideTable<Value, bool>,
    costs: &SideTable<Op, Option<Counted>>,
) -> Vec<(Value, u64)> {
    let mut moves = SideTable::new(None);
    for &op in &func.body {
        moves[op] = costs[op].as_ref().map(|c| c.class == CostClass::Movement);
    }
    padding(func, registry, known, &moves)
}

struct Counter<'a> {
    stats: Stats,
    sizes: &'a SizeTable,
    /// Bytes of movement, copies, expansions and constants.
    bytes: [Amount; 4],
}

impl Counter<'_> {
    fn finish(self) -> Stats {
        let mut stats = self.stats;
        let [movement, copy, expand, constant] = self.bytes;
        stats.movement_bytes = movement.at(self.sizes);
        stats.copy_bytes = copy.at(self.sizes);
        stats.expand_bytes = expand.at(self.sizes);
        stats.constant_movement_bytes = constant.at(self.sizes);
        stats.polynomials = Polynomials {
            movement: movement.polynomial(),
            priced: Some(Size::default()),
            slower: Some(Size::default()),
            copy: copy.polynomial(),
            expand: expand.polynomial(),
            constant_movement: constant.polynomial(),
        };
        stats
    }

    fn add(&mut self, name: &str, cost: &Counted) {
        let stats = &mut self.stats;
        stats.ops += u64::from(!cost.source);
        match name {
            Reshape::NAME => stats.reshape += 1,
            Transpose::NAME => stats.transpose += 1,
            View::NAME => stats.view += 1,
            LayoutConvert::NAME => stats.layout_convert += 1,
            _ => {}
        }
        let (ops, place) = match cost.class {
            CostClass::Free => return,
            CostClass::Movement => (&mut stats.movement_ops, 0),
            CostClass::Copy => (&mut stats.copy_ops, 1),
            CostClass::Expand => (&mut stats.expand_ops, 2),
            CostClass::Constant => (&mut stats.constant_movement_ops, 3),
        };
        *ops += 1;
        self.bytes[place].add(&cost.amount, self.sizes);
    }
}

/// The class of statistics that a live operation belongs to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CostClass {
    /// It computes, or is free.
    Free,
    /// It only rearranges and is not a view.
    Movement,
    /// It copies a part, or into a part.
    Copy,
    /// It repeats elements.
    Expand,
    /// It rearranges constants, at compile time.
    Constant,
}

/// The bytes that one live operation moves.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct OpCost {
    /// The class it counts in.
    pub class: CostClass,
    /// Bytes it reads plus writes, padding included; 0 in the class [`CostClass::Free`].
    pub bytes: u64,
    /// True if the operation is a constant or another source without operands whose layout matters.
    pub source: bool,
}

/// An [`OpCost`] with the bytes for all sizes.
#[derive(Clone, Debug)]
pub(crate) struct Counted {
    pub(crate) class: CostClass,
    pub(crate) amount: Amount,
    source: bool,
}

/// The cost of every operation of a function at these sizes of names; `None` for dead operations.
#[must_use]
pub fn op_costs(
    func: &Func,
    registry: &Registry,
    effects: &Effects<'_>,
    sizes: &SizeTable,
) -> SideTable<Op, Option<OpCost>> {
    let counted = counted(func, registry, effects, sizes);
    let mut costs = SideTable::new(None);
    for &op in &func.body {
        costs[op] = counted[op].as_ref().map(|cost| OpCost {
            class: cost.class,
            bytes: cost.amount.at(sizes),
            source: cost.source,
        });
    }
    costs
}

pub(crate) fn counted(
    func: &Func,
    registry: &Registry,
    effects: &Effects<'_>,
    sizes: &SizeTable,
) -> SideTable<Op, Option<Counted>> {
    let (live, known) = (
        live_ops(func, effects),
        known_values(func, registry, effects),
    );
    let mut costs = SideTable::new(None);
    for &op in &func.body {
        let data = &func.ops[op];
        let class = || registry.class(&func.op_ref(op));
        let source = data.operands.is_empty() && class() == Some(FreedomClass::Source);
        let folds = !data.operands.is_empty()
            && data.operands.iter().all(|&v| known[v])
            && effects.of(func, op).is_pure();
        if live[op] {
            costs[op] = Some(if source {
                source_cost(func, op)
            } else {
                op_cost(func, op, registry, folds, sizes)
            });
        }
    }
    costs
}

fn op_cost(func: &Func, op: Op, registry: &Registry, constant: bool, sizes: &SizeTable) -> Counted {
    let data = &func.ops[op];
    let permuted = permuted_operand(func, op, registry);
    let read = permuted.as_ref().or(data.operands.first());
    let ends = [read, data.results.first()];
    let whole = || {
        let mut sum = Amount::default();
        for &value in ends.into_iter().flatten() {
            if let Some(ty) = func.ty(value).as_tensor() {
                sum.add(&bytes_of(ty, sizes), sizes);
            }
        }
        sum
    };
    let moved = || where_it_moves(func, op, registry, whole());
    let (class, amount) = match traffic(func, op, registry) {
        Traffic::Movement if constant => (CostClass::Constant, whole()),
        Traffic::Movement => (CostClass::Movement, moved()),
        Traffic::Expand if !constant => (CostClass::Expand, moved()),
        Traffic::Copy(read, write) if !constant => {
            let mut sum = Amount::from(read);
            sum.add(&Amount::from(write), sizes);
            (CostClass::Copy, sum)
        }
        Traffic::None | Traffic::Expand | Traffic::Copy(..) => (CostClass::Free, Amount::default()),
    };
    Counted {
        class,
        amount,
        source: false,
    }
}

/// The cost of a source: a constant in another layout than that of its file is written once more.
fn source_cost(func: &Func, op: Op) -> Counted {
    let results = func.ops[op].results.iter();
    let laid = results.filter_map(|&result| {
        let layout = func.ty(result).as_tensor()?.layout()?.ok()?;
        (!layout.is_row_major_order()).then(|| layout.bytes().saturating_mul(2))
    });
    let bytes = laid.fold(0u64, u64::saturating_add);
    let class = if bytes == 0 {
        CostClass::Free
    } else {
        CostClass::Constant
    };
    Counted {
        class,
        amount: Amount::from(Size::from(bytes)),
        source: true,
    }
}

/// Multiplies the bytes of an operation by a factor that is 0 for the sizes at which it moves nothing (certain sizes
/// are 1), else 1.
fn where_it_moves(func: &Func, op: Op, registry: &Registry, amount: Amount) -> Amount {
    let factor = moving(func, op, registry).filter(|f| f.as_constant() != Some(1));
    match (&amount, factor) {
        (Amount::Exact(size), Some(factor)) => size.times(&factor).map_or(amount, Amount::Exact),
        (Amount::Exact(_) | Amount::At(_), _) => amount,
    }
}

/// The most names for which the size 1 is treated separately: each set of them is a case. An operation with more names
/// counts as always moving.
const MAX_NAMES: usize = 4;

/// The factor of [`where_it_moves`]: 1 if an operation moves something and 0 if not, as a polynomial in `min(1,n-1)` of
/// the names `n` in its types. `None` if there are no names, or too many.
fn moving(func: &Func, op: Op, registry: &Registry) -> Option<Size> {
    let data = &func.ops[op];
    let decl = registry.get(&data.name)?;
    let types = data.operands.iter().chain(&data.results);
    let dims = types
        .filter_map(|&v| func.ty(v).as_tensor())
        .flat_map(|ty| &ty.dims);
    let mut names: Vec<Arc<str>> = dims.filter_map(Dim::size).flat_map(|s| s.names()).collect();
    names.sort();
    names.dedup();
    if names.is_empty() || MAX_NAMES < names.len() {
        return None;
    }
    let one = Size::constant(1);
    let mut factor = Size::default();
    for subset in 0..1u32 << names.len() {
        let long = |i: usize| subset & (1 << i) != 0;
        let ones: Vec<&str> = (0..names.len())
            .filter(|&i| !long(i))
            .map(|i| &*names[i])
            .collect();
        if !moves_with(func, op, decl, &ones)? {
            continue;
        }
        let mut term = one.clone();
        for (i, name) in names.iter().enumerate() {
            let is_long = Size::name(name).minus(&one)?.minimum(&one)?;
            let here = if long(i) {
                is_long
            } else {
                one.minus(&is_long)?
            };
            term = term.times(&here)?;
        }
        factor = factor.plus(&term)?;
    }
    Some(factor)
}

/// Returns whether an operation moves something if these names are 1.
fn moves_with(func: &Func, op: Op, decl: &dyn OpDecl, ones: &[&str]) -> Option<bool> {
    let data = &func.ops[op];
    let ty = |&v: &Value| {
        let Some(tensor) = func.ty(v).as_tensor() else {
            return Some(func.ty(v).clone());
        };
        let mut dims = Vec::with_capacity(tensor.rank());
        for dim in &tensor.dims {
            dims.push(match dim.size() {
                Some(size) => {
                    let size = ones.iter().try_fold(size, |size, name| size.with(name, 1));
                    Dim::of_size(&size?)
                }
                None => Dim::Unknown,
            });
        }
        let tensor = TensorType {
            dims,
            ..tensor.clone()
        };
        Some(Type::from(tensor))
    };
    let operands: Vec<Type> = data.operands.iter().map(ty).collect::<Option<_>>()?;
    let results: Vec<Type> = data.results.iter().map(ty).collect::<Option<_>>()?;
    let op_ref = OpRef {
        name: &data.name,
        operands: operands.iter().collect(),
        results: results.iter().collect(),
        props: &data.props,
    };
    Some(decl.traffic(&op_ref) != Traffic::None)
}

fn traffic(func: &Func, op: Op, registry: &Registry) -> Traffic {
    match registry.get(&func.ops[op].name) {
        Some(_) if permuted_operand(func, op, registry).is_some() => Traffic::Movement,
        Some(decl) => beside_parts(func, op, decl.traffic(&func.op_ref(op)), registry),
        None => Traffic::None,
    }
}

/// The traffic of an operation without the parts that lie in place.
fn beside_parts(func: &Func, op: Op, traffic: Traffic, registry: &Registry) -> Traffic {
    let data = &func.ops[op];
    if in_place::is_in_pieces(data) {
        return Traffic::None;
    }
    if data.attrs.get(in_place::IN_PLACE).is_none() || traffic == Traffic::None {
        return traffic;
    }
    if let Some(update) = in_place::settled_update(func, op, registry) {
        let by = data
            .operands
            .get(update.by)
            .and_then(|&v| func.ty(v).as_tensor());
        let by = by.map_or_else(Size::default, TensorType::logical_bytes);
        return Traffic::Copy(by.clone(), by);
    }
    let mut left = traffic;
    for part in in_place::settled(func, op, registry) {
        let ty = part.part.value(data).and_then(|v| func.ty(v).as_tensor());
        let Some(bytes) = ty.map(TensorType::logical_bytes) else {
            continue;
        };
        left = match left {
            Traffic::Copy(read, write) => match (read.minus(&bytes), write.minus(&bytes)) {
                (Some(read), Some(write)) if write == Size::default() => {
                    debug_assert_eq!(read, Size::default(), "what is not written is not read");
                    Traffic::None
                }
                (Some(read), Some(write)) => Traffic::Copy(read, write),
                _ => Traffic::Copy(read, write),
            },
            Traffic::Expand => Traffic::None,
            other => other,
        };
    }
    left
}

/// Bytes that operations move in every layout, as a gather that permutes or a space to depth: bytes read plus written,
/// without padding, at these sizes of names.
#[must_use]
pub fn fixed_movement(module: &Module, registry: &Registry, sizes: &SizeTable) -> u64 {
    let mut total = 0u64;
    let effects = Effects::of_module(module, registry);
    for func in &module.funcs {
        let (live, known) = (
            live_ops(func, &effects),
            known_values(func, registry, &effects),
        );
        for &op in &func.body {
            let data = &func.ops[op];
            let rearranges = |n: &str| {
                let class = registry.get(n).map(|d| d.freedom(&func.op_ref(op)).class);
                (registry.structure(n) == Structure::Convert && !changes_space(func, op, registry))
                    || class == Some(FreedomClass::Rearrange)
            };
            let at_run_time = !data.operands.iter().all(|&v| known[v]);
            if live[op]
                && at_run_time
                && traffic(func, op, registry) == Traffic::Movement
                && !rearranges(&data.name)
            {
                let permuted = permuted_operand(func, op, registry);
                let read = permuted.as_ref().or(data.operands.first());
                let ends = [read, data.results.first()];
                let bytes = ends.iter().map(|v| logical_bytes(func, *v, sizes));
                total = total.saturating_add(bytes.fold(0, u64::saturating_add));
            }
        }
    }
    total
}

/// Returns whether an operation is a copy into another memory space, which no choice of layouts saves.
pub fn changes_space(func: &Func, op: Op, registry: &Registry) -> bool {
    registry.structure(&func.ops[op].name) == Structure::Convert && leaves_space(func, op)
}

/// Returns whether the first result of an operation lies in another memory space than its first operand.
pub fn leaves_space(func: &Func, op: Op) -> bool {
    let data = &func.ops[op];
    let space = |value: Option<&Value>| Some(func.ty(*value?).as_tensor()?.notation.space());
    space(data.operands.first()) != space(data.results.first())
}

/// Bytes of a value without padding.
fn logical_bytes(func: &Func, value: Option<&Value>, sizes: &SizeTable) -> u64 {
    let ty = value.and_then(|&v| func.ty(v).as_tensor());
    ty.map_or(0, |ty| bytes_of(&ty.without_layout(), sizes).at(sizes))
}

/// The operand of a product that the operation only rearranges, because the other operand is a constant permutation
/// matrix.
pub(crate) fn permuted_operand(func: &Func, op: Op, registry: &Registry) -> Option<Value> {
    let data = &func.ops[op];
    let known = |i: usize| in_place::constant(func, *data.operands.get(i)?);
    let at = registry
        .get(&data.name)?
        .permutes(&func.op_ref(op), &known)?;
    data.operands.get(at).copied()
}
