//! Computes cheap values once for each order that they are read in, where that moves fewer bytes than converting them.
//!
//! Example: `y = cast(x)` widens `bf16` to `f32` and is read row-major and transposed. Instead of a conversion of `y`,
//! `x` is converted, which moves half the bytes, and a second cast is computed from the result.
//!
//! A conversion that stays may convert the result of a cheap operation: element-wise or a broadcast. The operation can
//! be computed once more in the wanted order. Each operand is then either available in that order at no cost, or
//! computed once more itself where that is cheaper, or converted. Conversions that save bytes in this way, alone or
//! together, are replaced in a second program. There the readers of each conversion have a copy of each such value.
//! Copies in one layout are shared. The second program is folded like any other, and is taken if it costs less than the
//! one that it came from.

use super::attempt::{Attempt, attempt};
use super::costs::{bytes, laid};
use super::folded::Folded;
use super::groups::{Functions, Group, NodeKind};
use super::layouts::LayoutId;
use super::maps::{FastMap, FastSet};
use super::shared::Shared;
use crate::codes;
use crate::elide_copies;
use crate::names::name_of;
use crate::pass::PassContext;
use optc_check::stats::changes_space;
use optc_ir::{Diagnostic, Dim, Func, Op, Operation, Registry, Type, Value};
use optc_ops::View;
use optc_solver::movement;

/// The most rounds of looking for copies in the result of the previous round.
const MOST_ROUNDS: usize = 4;

/// The most values that are converted for one repeated value. If there are more, the value itself is converted.
const MOST_SOURCES: usize = 8;

/// The most rounds of looking for conversions that are worth replacing beside those chosen already.
const MOST_LOOKS: usize = 16;

/// Above this number of groups, a function is folded once more only for a large saving.
const MANY_GROUPS: usize = 1 << 10;

/// For a function of many groups, copies must save at least one part in this many of its bytes.
const LEAST_SHARE: u64 = 16;

/// Families of operations that may run once more: their computation costs less than their reads and writes.
const CHEAP: &[&str] = &["elementwise", "broadcast"];

/// A function with some values computed several times.
pub(super) struct Twice {
    pub(super) func: Func,
    /// Operations that run once more, with the operation of the function that each is a copy of.
    pub(super) ops: FastMap<Op, Op>,
    /// Their results and views of these, with the value that each is a copy of.
    pub(super) values: FastMap<Value, Value>,
}

impl Twice {
    /// The operation of the original function.
    pub(super) fn op(&self, op: Op) -> Op {
        self.ops.get(&op).copied().unwrap_or(op)
    }

    /// The value of the original function.
    pub(super) fn value(&self, value: Value) -> Value {
        self.values.get(&value).copied().unwrap_or(value)
    }

    /// Returns whether some operation runs several times. Otherwise this is the original function.
    fn repeats(&self) -> bool {
        let mut seen: FastSet<Op> = FastSet::default();
        !self.func.body.iter().all(|&op| seen.insert(self.op(op)))
    }

    /// Rewrites a fold of the function with copies in terms of the original function, and records the saving.
    pub(super) fn name(&self, folded: &mut Folded, saved: u64) {
        for (old, _) in &mut folded.operations {
            *old = self.op(*old);
        }
        for (old, _) in folded.held.iter_mut().chain(&mut folded.stored) {
            *old = self.value(*old);
        }
        for conversion in &mut folded.conversions {
            conversion.of = self.value(conversion.of);
            let readers = conversion.readers.iter_mut().flatten();
            readers.for_each(|reader| *reader = self.op(*reader));
        }
        let times = times(&folded.operations);
        let new: FastMap<Op, Op> = folded.operations.iter().map(|&(a, b)| (b, a)).collect();
        for (value, text) in &mut folded.why {
            let op = folded.func.def_op(*value).and_then(|op| new.get(&op));
            if let Some(times) = op.and_then(|op| times.get(op)) {
                *text += &format!(
                    "; computed {times} times, once for each order: with all that it computes so the function costs {saved} bytes less"
                );
            }
        }
        folded.repeated = times.into_iter().collect();
        folded.saved = saved;
    }
}

/// The operations that run several times, with the number of runs, given pairs of old and new operations.
fn times(operations: &[(Op, Op)]) -> FastMap<Op, usize> {
    let mut times: FastMap<Op, usize> = FastMap::default();
    for (old, _) in operations {
        *times.entry(*old).or_default() += 1;
    }
    times.retain(|_, times| 1 < *times);
    times
}

/// A function that computes values several times and costs less than `first`, with its fold and the bytes saved; `None`
/// if none was found.
pub(super) fn cheaper(
    func: &Func,
    first: &Attempt,
    (functions, cx): (&Functions<'_>, &PassContext),
    shared: &mut Shared,
) -> Option<(Twice, Attempt, u64)> {
    let mut best: Option<(Twice, Attempt)> = None;
    let mut costs: Option<[u64; 2]> = None;
    for _ in 0..MOST_ROUNDS {
        let (before, folded) = match &best {
            Some((twice, folded)) => (&twice.func, folded),
            None => (func, first),
        };
        let Some(plan) = Plan::of(before, folded, cx, shared) else {
            break;
        };
        let mut twice = plan.carry_out(before);
        if !twice.repeats() {
            break;
        }
        if let Some((last, _)) = &best {
            twice.compose(last);
        }
        // Layouts of functions with unknown sizes are dropped when another function begins.
        let mut tables = shared.clone();
        let Some(found) = twice.fold((functions, cx), &mut tables) else {
            break;
        };
        let [once, least] = costs.unwrap_or_else(|| [cost(&first.emitted.func, cx); 2]);
        let now = cost(&found.emitted.func, cx);
        if least <= now {
            break;
        }
        costs = Some([once, now]);
        *shared = tables;
        best = Some((twice, found));
    }
    let ((twice, found), [once, least]) = best.zip(costs)?;
    Some((twice, found, once - least))
}

/// The cost of a folded function in bytes: movement, padding, copies, repetitions and prices of slower orders.
fn cost(func: &Func, cx: &PassContext) -> u64 {
    bytes(&laid(vec![func.clone()], cx), cx).all
}

/// The folds of a module's functions as they are, or with each value computed once. The latter is taken if, after
/// copies are elided, the module costs no more that way, or fits its limit of memory only that way.
pub(super) fn if_cheaper(
    all: Vec<Folded>,
    limit: Option<u64>,
    cx: &mut PassContext,
) -> Vec<Folded> {
    if all.iter().all(|folded| folded.once.is_none()) {
        return all;
    }
    let with = all.iter().map(|folded| folded.func.clone()).collect();
    let without = all.iter().map(|folded| match &folded.once {
        Some(once) => once.func.clone(),
        None => folded.func.clone(),
    });
    let without = without.collect();
    let mut cost = |funcs: Vec<Func>| {
        let mut module = laid(funcs, cx);
        let said = cx.remarks.len();
        let fits = elide_copies::run_on(&mut module, limit, cx);
        cx.remarks.truncate(said);
        fits.map_or(u64::MAX, |_| bytes(&module, cx).all)
    };
    if cost(with) < cost(without) {
        return all;
    }
    let once = |folded: Folded| match folded.once {
        Some(once) => *once,
        None => folded,
    };
    all.into_iter().map(once).collect()
}

/// Adds remarks on values that are computed several times.
pub(super) fn remark(func: &Func, folded: &Folded, cx: &mut PassContext) {
    for &(op, times) in &folded.repeated {
        let value = func.ops[op].results[0];
        let message = format!(
            "{} is computed {times} times, once for each order that it is read in",
            name_of(func, value)
        );
        let diag = Diagnostic::remark(codes::COMPUTED_TWICE, message);
        let diag = diag.at(func.ops[op].span, "this operation");
        cx.remarks.push(diag.note(format!(
            "computing values several times saves {1} bytes in @{0}",
            func.name, folded.saved
        )));
    }
}

/// Returns whether an operation may run once more.
fn is_cheap(func: &Func, op: Op, registry: &Registry) -> bool {
    let (data, op_ref) = (&func.ops[op], func.op_ref(op));
    let family = registry.get(&data.name).map(|decl| decl.family_of(&op_ref));
    let known = |value: &Value| {
        let ty = func.ty(*value).as_tensor();
        ty.is_some_and(|ty| !ty.dims.contains(&Dim::Unknown))
    };
    family.is_some_and(|family| CHEAP.contains(&family))
        && registry.effect(&op_ref).is_pure()
        && data.results.len() == 1
        && data.props.symbols().next().is_none()
        && data.operands.iter().chain(&data.results).all(known)
        && !changes_space(func, op, registry)
}

/// A group and a layout of it.
type Key = (Group, LayoutId);

/// Operand ports of the operation that produces a group, and the layouts wanted there.
type Wanted = Vec<(usize, Key)>;

/// The way in which a group gets a layout.
#[derive(Clone)]
enum Way {
    /// It has the layout already.
    There,
    Converted,
    Computed(Wanted),
}

/// Groups to convert, with the bytes of each conversion.
type Sources = Vec<(Key, u64)>;

/// A conversion that may be replaced by a computation.
struct Instead {
    key: Key,
    bytes: u64,
    wanted: Wanted,
    sources: Sources,
}

impl Instead {
    /// Bytes of the conversions that it needs, besides those that are paid for already.
    fn more(&self, paid: &FastSet<Key>) -> u64 {
        let more = self.sources.iter().filter(|(key, _)| !paid.contains(key));
        more.fold(0, |sum, (_, bytes)| sum.saturating_add(*bytes))
    }
}

/// The values that are computed once more, and their readers.
struct Plan<'a> {
    folded: &'a Attempt,
    ways: FastMap<Key, Way>,
    /// By operation and port, or by result of the function.
    readers: FastMap<(Op, usize), Key>,
    returns: FastMap<usize, Key>,
}

impl<'a> Plan<'a> {
    /// `None` where no copies save bytes.
    fn of(
        func: &Func,
        folded: &'a Attempt,
        cx: &PassContext,
        shared: &mut Shared,
    ) -> Option<Plan<'a>> {
        let mut finder = Finder {
            func,
            registry: &cx.registry,
            folded,
            shared,
            known: FastMap::default(),
        };
        let turned = &folded.emitted.turned;
        let all: Vec<Instead> = turned
            .iter()
            .filter_map(|&(group, layout, _)| finder.instead((group, layout)))
            .collect();
        let mut chosen = worthwhile(all);
        if chosen.is_empty() || !is_worth_a_fold(&chosen, folded) {
            return None;
        }
        let ways = finder.known.into_iter();
        let mut plan = Plan {
            folded,
            ways: ways.map(|(key, (way, _))| (key, way)).collect(),
            readers: FastMap::default(),
            returns: FastMap::default(),
        };
        let unread = plan.read_by(func, &chosen);
        chosen.retain(|instead| !unread.contains(&instead.key));
        let keys: FastSet<Key> = chosen.iter().map(|instead| instead.key).collect();
        plan.readers.retain(|_, key| keys.contains(key));
        plan.returns.retain(|_, key| keys.contains(key));
        let computed = chosen.into_iter();
        plan.ways
            .extend(computed.map(|instead| (instead.key, Way::Computed(instead.wanted))));
        let any = !plan.readers.is_empty() || !plan.returns.is_empty();
        any.then_some(plan)
    }

    /// Finds the readers of the conversions. Returns the conversions that have other readers as well.
    fn read_by(&mut self, func: &Func, chosen: &[Instead]) -> FastSet<Key> {
        let emitted = &self.folded.emitted;
        let graph = &self.folded.graph;
        let keys: FastSet<Key> = chosen.iter().map(|instead| instead.key).collect();
        let turned = emitted.turned.iter();
        let by_value: FastMap<Value, Key> = turned
            .map(|&(group, layout, value)| (value, (group, layout)))
            .filter(|(_, key)| keys.contains(key))
            .collect();
        let new = &emitted.func;
        let read = |old: Value, value: Value| {
            let mut at = value;
            while let Some(op) = new.def_op(at)
                && &*new.ops[op].name == View::NAME
            {
                at = new.ops[op].operands[0];
            }
            let key = by_value.get(&at).copied()?;
            (graph.member(old)?.group == key.0).then_some(key)
        };
        let mut found: FastSet<(Key, Option<Op>)> = FastSet::default();
        for &(old, made) in &emitted.operations {
            let operands = func.ops[old].operands.iter().zip(&new.ops[made].operands);
            for (port, (&before, &after)) in operands.enumerate() {
                if let Some(key) = read(before, after) {
                    self.readers.insert((old, port), key);
                    found.insert((key, Some(old)));
                }
            }
        }
        for (i, (&before, &after)) in func.results.iter().zip(&new.results).enumerate() {
            if let Some(key) = read(before, after) {
                self.returns.insert(i, key);
                found.insert((key, None));
            }
        }
        let mut unread = FastSet::default();
        for conversion in &emitted.conversions {
            let result = new.ops[conversion.op].results.first();
            let Some(&key) = result.and_then(|value| by_value.get(value)) else {
                continue;
            };
            let mut readers = conversion.readers.iter();
            if !readers.all(|reader| found.contains(&(key, *reader))) {
                unread.insert(key);
            }
        }
        unread
    }

    /// The function with the copies, each in front of the first operation that reads it.
    fn carry_out(&self, func: &Func) -> Twice {
        let mut copier = Copier {
            plan: self,
            twice: Twice {
                func: func.clone(),
                ops: FastMap::default(),
                values: FastMap::default(),
            },
            made: FastMap::default(),
        };
        copier.twice.func.body = Vec::with_capacity(func.body.len());
        for &op in &func.body {
            for (port, &value) in func.ops[op].operands.iter().enumerate() {
                if let Some(&key) = self.readers.get(&(op, port)) {
                    let copy = copier.copy(func, value, key);
                    copier.twice.func.ops[op].operands[port] = copy;
                }
            }
            copier.twice.func.body.push(op);
        }
        for (i, &value) in func.results.iter().enumerate() {
            if let Some(&key) = self.returns.get(&i) {
                copier.twice.func.results[i] = copier.copy(func, value, key);
            }
        }
        copier.twice.drop_unread();
        copier.twice
    }
}

/// Returns whether the saving justifies folding the function once more: that takes long for many groups.
fn is_worth_a_fold(chosen: &[Instead], folded: &Attempt) -> bool {
    if folded.graph.groups.len() <= MANY_GROUPS {
        return true;
    }
    let sum = |bytes: &mut dyn Iterator<Item = u64>| bytes.fold(0u64, u64::saturating_add);
    let gone = sum(&mut chosen.iter().map(|instead| instead.bytes));
    let sources = chosen.iter().flat_map(|instead| &instead.sources);
    let sources: FastMap<Key, u64> = sources.copied().collect();
    let saved = gone.saturating_sub(sum(&mut sources.into_values()));
    movement(folded.choice.cost) / LEAST_SHARE <= saved
}

/// The conversions that are worth replacing: each by itself, or together with others that need the same values
/// converted.
fn worthwhile(all: Vec<Instead>) -> Vec<Instead> {
    let mut paid: FastSet<Key> = FastSet::default();
    let (mut chosen, mut left) = (Vec::new(), all);
    for _ in 0..MOST_LOOKS {
        let (more, rest): (Vec<Instead>, Vec<Instead>) = left
            .into_iter()
            .partition(|instead| instead.more(&paid) < instead.bytes);
        left = rest;
        if more.is_empty() {
            break;
        }
        let sources = more.iter().flat_map(|instead| &instead.sources);
        paid.extend(sources.map(|(key, _)| *key));
        chosen.extend(more);
    }
    // The rest saves nothing one by one. Conversions that need exactly the same values converted may save bytes
    // together.
    let mut alike: FastMap<Vec<Key>, Vec<Instead>> = FastMap::default();
    for instead in left {
        let mut keys: Vec<Key> = instead.sources.iter().map(|(key, _)| *key).collect();
        keys.retain(|key| !paid.contains(key));
        alike.entry(keys).or_default().push(instead);
    }
    for (_, together) in alike {
        let saved = together
            .iter()
            .fold(0u64, |sum, instead| sum.saturating_add(instead.bytes));
        if together
            .first()
            .is_some_and(|first| first.more(&paid) < saved)
        {
            chosen.extend(together);
        }
    }
    chosen
}

/// Finds the ways in which groups may get layouts.
struct Finder<'a> {
    func: &'a Func,
    registry: &'a Registry,
    folded: &'a Attempt,
    shared: &'a mut Shared,
    known: FastMap<Key, (Way, Sources)>,
}

impl Finder<'_> {
    /// The computation that may replace a conversion, if it converts no more bytes.
    fn instead(&mut self, key: Key) -> Option<Instead> {
        let wanted = self.wanted(key)?;
        for &(_, operand) in &wanted {
            self.find(operand);
        }
        let sources = self.sources(&wanted)?;
        let bytes = self.converted(key);
        let instead = Instead {
            key,
            bytes,
            wanted,
            sources,
        };
        (instead.more(&FastSet::default()) <= bytes).then_some(instead)
    }

    fn converted(&self, (group, layout): Key) -> u64 {
        let layouts = &self.shared.layouts;
        let produced = self.folded.choice.groups[group].produced;
        let from = layouts.bytes(self.folded.candidates[group][produced]);
        from.saturating_add(layouts.bytes(layout))
    }

    /// Returns whether a group has a layout already.
    fn is_there(&self, (group, layout): Key) -> bool {
        let all = &self.folded.candidates[group];
        let state = self.folded.choice.groups[group];
        let at = all.iter().position(|&l| l == layout);
        at.is_some_and(|at| at == state.produced || state.extras & (1u64 << at) != 0)
    }

    /// The layouts that a group's producer needs at its operands to produce the group in a layout. `None` if the
    /// producer is not cheap, or if no views lead to such a layout.
    fn wanted(&mut self, (group, layout): Key) -> Option<Wanted> {
        let graph = &self.folded.graph;
        let (node, port) = graph.groups[group].producer?;
        let node = &graph.nodes[node];
        let (NodeKind::Op(op), Some(id)) = (&node.kind, node.signature) else {
            return None;
        };
        if !is_cheap(self.func, *op, self.registry) {
            return None;
        }
        let Shared {
            layouts,
            signatures,
            ..
        } = &mut *self.shared;
        let transfers = signatures.transfers(layouts, id, port, layout);
        let mut wanted = Vec::new();
        for (port, data) in node.ports.iter().enumerate().filter(|(_, p)| !p.is_result) {
            let member = graph.member(data.value)?;
            let longer = graph.shapes[data.value].iter().filter(|&&n| 1 < n).count();
            // A value with only one possible order has that order.
            if longer < 2 || graph.groups[member.group].is_known() {
                continue;
            }
            let there = transfers.iter().find(|(other, _)| *other == port);
            let root = graph.at_root(layouts, data.value, there?.1)?;
            wanted.push((port, (member.group, root)));
        }
        Some(wanted)
    }

    /// Finds the way in which a group gets a layout, and the ways of the groups that it is computed of.
    fn find(&mut self, key: Key) {
        let mut open = vec![(key, false)];
        while let Some((key, is_ready)) = open.pop() {
            if self.known.contains_key(&key) {
                continue;
            }
            let found = match self.is_there(key) {
                true => (Way::There, Vec::new()),
                false => {
                    let bytes = self.converted(key);
                    let wanted = self.wanted(key);
                    if let Some(wanted) = wanted.as_ref().filter(|_| !is_ready) {
                        open.push((key, true));
                        open.extend(wanted.iter().map(|&(_, operand)| (operand, false)));
                        continue;
                    }
                    let sources = wanted.as_ref().and_then(|wanted| self.sources(wanted));
                    let less = sources.filter(|all| {
                        let sum = all.iter().fold(0u64, |sum, (_, n)| sum.saturating_add(*n));
                        sum < bytes
                    });
                    match (wanted, less) {
                        (Some(wanted), Some(sources)) => (Way::Computed(wanted), sources),
                        _ => (Way::Converted, vec![(key, bytes)]),
                    }
                }
            };
            self.known.insert(key, found);
        }
    }

    /// The groups to convert for these operands; `None` if there are too many.
    fn sources(&self, wanted: &Wanted) -> Option<Sources> {
        let mut all: Sources = Vec::new();
        for (_, operand) in wanted {
            let (_, sources) = self.known.get(operand)?;
            for source in sources {
                if !all.contains(source) {
                    all.push(*source);
                }
            }
        }
        (all.len() <= MOST_SOURCES).then_some(all)
    }
}

/// Makes the copies of a plan.
struct Copier<'p, 'a> {
    plan: &'p Plan<'a>,
    twice: Twice,
    made: FastMap<(Value, Key), Value>,
}

impl Copier<'_, '_> {
    /// The value, or a copy of it that is computed for this layout.
    fn copy(&mut self, func: &Func, value: Value, key: Key) -> Value {
        let mut open = vec![(value, key, false)];
        while let Some((value, key, is_ready)) = open.pop() {
            if self.made.contains_key(&(value, key)) {
                continue;
            }
            let sources = self.operands(func, value, key);
            let (Some(op), Some(sources)) = (func.def_op(value), sources) else {
                self.made.insert((value, key), value);
                continue;
            };
            if !is_ready {
                open.push((value, key, true));
                open.extend(sources.iter().map(|&(_, v, k)| (v, k, false)));
                continue;
            }
            let data = &func.ops[op];
            let mut operands = data.operands.clone();
            for (port, value, key) in sources {
                operands[port] = self.made.get(&(value, key)).copied().unwrap_or(value);
            }
            let types = data.results.iter().map(|&v| func.ty(v).clone()).collect();
            let (name, props, loc) = (data.name.clone(), data.props.clone(), data.loc.clone());
            let new = &mut self.twice.func;
            let made = new.make_op(name, operands, props, types, loc);
            new.ops[made].attrs = data.attrs.clone();
            new.ops[made].span = data.span;
            new.body.push(made);
            self.twice.ops.insert(made, op);
            let results = &self.twice.func.ops[made].results;
            let results = results.iter().zip(&data.results);
            self.twice.values.extend(results.map(|(&a, &b)| (a, b)));
            let result = self.twice.func.ops[made].results[0];
            self.made.insert((value, key), result);
        }
        self.made.get(&(value, key)).copied().unwrap_or(value)
    }

    /// The operands that have copies of their own where a value is computed once more: ports, values and their layouts.
    /// `None` where the value is read as it is.
    fn operands(&self, func: &Func, value: Value, key: Key) -> Option<Vec<(usize, Value, Key)>> {
        let Some(Way::Computed(wanted)) = self.plan.ways.get(&key) else {
            return None;
        };
        let operands = &func.ops[func.def_op(value)?].operands;
        if self.plan.folded.graph.groups[key.0].root != value {
            return Some(vec![(0, *operands.first()?, key)]);
        }
        let wanted = wanted.iter();
        let wanted = wanted.map(|&(port, key)| Some((port, *operands.get(port)?, key)));
        wanted.collect()
    }
}

impl Twice {
    /// Maps copies of copies to what they were first copied from.
    fn compose(&mut self, last: &Twice) {
        for op in self.ops.values_mut() {
            *op = last.op(*op);
        }
        for value in self.values.values_mut() {
            *value = last.value(*value);
        }
        self.ops.extend(last.ops.iter().map(|(&a, &b)| (a, b)));
        let values = last.values.iter().map(|(&a, &b)| (a, b));
        self.values.extend(values);
    }

    /// Folds the function. Copies that turn out equal are joined, and the function is folded again.
    fn fold(
        &mut self,
        (functions, cx): (&Functions<'_>, &PassContext),
        tables: &mut Shared,
    ) -> Option<Attempt> {
        loop {
            let folded = attempt(&self.func, functions, cx, tables).ok()?;
            if !self.join(&folded) {
                return Some(folded);
            }
        }
    }

    /// Joins operations that compute the same result from the same operands. Returns whether there were any.
    fn join(&mut self, folded: &Attempt) -> bool {
        let new = &folded.emitted.func;
        let named = folded.emitted.operations.iter();
        let named: Vec<(Op, Op)> = named.map(|&(old, made)| (self.op(old), made)).collect();
        let repeated = times(&named);
        let mut first: FastMap<(Op, &[Value], &Type), Op> = FastMap::default();
        let mut instead: FastMap<Value, Value> = FastMap::default();
        for &(old, made) in &folded.emitted.operations {
            let of = self.op(old);
            if !repeated.contains_key(&of) {
                continue;
            }
            let data = &new.ops[made];
            let key = (of, &data.operands[..], new.ty(data.results[0]));
            let known = *first.entry(key).or_insert(old);
            if known != old {
                let result = |op: Op| self.func.ops[op].results[0];
                instead.insert(result(old), result(known));
            }
        }
        if instead.is_empty() {
            return false;
        }
        let other = |value: &mut Value| {
            if let Some(&known) = instead.get(value) {
                *value = known;
            }
        };
        for &op in &self.func.body {
            self.func.ops[op].operands.iter_mut().for_each(other);
        }
        self.func.results.iter_mut().for_each(other);
        self.drop_unread();
        true
    }

    /// Drops copies that nothing reads, and originals that nothing reads any more.
    fn drop_unread(&mut self) {
        let copied: FastSet<Op> = self.ops.iter().flat_map(|(&a, &b)| [a, b]).collect();
        let mut read: FastSet<Value> = self.func.results.iter().copied().collect();
        let mut body = Vec::with_capacity(self.func.body.len());
        for &op in self.func.body.iter().rev() {
            let data = &self.func.ops[op];
            if copied.contains(&op) && !data.results.iter().any(|v| read.contains(v)) {
                continue;
            }
            read.extend(data.operands.iter().copied());
            body.push(op);
        }
        body.reverse();
        self.func.body = body;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use optc_ir::text;

    #[test]
    fn a_program_repeats_something_only_where_an_operation_is_there_twice() {
        let source = "func.func @main(%x: tensor<2x3xf32>) -> tensor<2x3xf32> {
            %0 = \"hbir.exp\"(%x) : (tensor<2x3xf32>) -> tensor<2x3xf32>
            %1 = \"hbir.exp\"(%x) : (tensor<2x3xf32>) -> tensor<2x3xf32>
            %2 = \"hbir.neg\"(%1) : (tensor<2x3xf32>) -> tensor<2x3xf32>
            return %2 : tensor<2x3xf32>
        }";
        let module = text::parse(source).expect("the program is well formed");
        let func = module.funcs.into_iter().next().expect("it has a function");
        let [first, copy] = [func.body[0], func.body[1]];
        let mut twice = Twice {
            func,
            ops: FastMap::default(),
            values: FastMap::default(),
        };
        twice.ops.insert(copy, first);
        assert!(twice.repeats());
        twice.drop_unread();
        assert_eq!(twice.func.body.len(), 2);
        assert!(
            !twice.repeats(),
            "the copy is in the place of what it is of"
        );
    }
}
