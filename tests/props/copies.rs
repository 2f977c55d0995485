//! The least bytes that a tiny program can move, copy and repeat on a machine whose rows have `parts`: every order of
//! every operation is tried and, for each, every set of values that may lie in the bytes of others.
//!
//! It uses no digits of layouts, no spreads and no search of optc: a buffer is a list of the element of a value at each
//! position, and a value in another buffer is a list of positions there. Each port of an operation reads or writes one
//! order. A value that is needed in an order in which it was not written is converted, once for each such order. In
//! addition, each part of a slice, split, gather or broadcast is copied or read in place, and each operand of a concat
//! or pad is copied or written in place. The rules of `optc_check::parts` hold: one writer for each byte; readers and
//! writers that accept the strides; pieces only of a value that is cut into all of its parts for one reader.

use super::brute::{
    Order, digit_orders, digit_orders_with, induced, ravel, shape, size_of, transposed, unravel,
};
use super::copies_place::{Instance, Plan, Reader, Writer};
use indexmap::{IndexMap, IndexSet};
use optc_ir::op::in_place;
use optc_ir::op::part::Port;
use optc_ir::{Func, Module, Op, OpRef, Registry, Value};
use optc_target::{Parts, PortRole, PricedPort, Row, Slower, Target};

pub(crate) use super::brute::Stored;

/// The bytes that are counted in addition to conversions and copies.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Counted {
    /// None.
    Moved,
    /// Repetition of elements.
    Expanded,
}

/// The result of the exhaustive search.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Found {
    /// The least bytes.
    Least(u64),
    /// No solution takes fewer bytes than the given number.
    NothingBelow,
    /// The model does not know an operation, or there are too many combinations.
    Unknown,
}

/// The largest number of steps of the search.
const MOST_STEPS: usize = 50_000;

/// The largest number of parts of a program.
const MOST_PARTS: usize = 10;

/// The least bytes of a program, if they are less than `below`.
pub(crate) fn least_below(
    below: u64,
    module: &Module,
    registry: &Registry,
    target: &Target,
    free_boundary: bool,
    counted: Counted,
) -> Found {
    let Some(mut search) = Search::new(module, registry, target, free_boundary, counted) else {
        return Found::Unknown;
    };
    search.best = below;
    let given = search.converted_for_the_caller();
    search.descend(0, given);
    match (search.steps <= MOST_STEPS, search.best < below) {
        (false, _) => Found::Unknown,
        (true, true) => Found::Least(search.best),
        (true, false) => Found::NothingBelow,
    }
}

/// A part of an operation.
#[derive(Clone, Debug)]
pub(crate) struct Piece {
    pub(crate) port: Port,
    /// For each element of the part, the element of the whole.
    pub(crate) places: Vec<usize>,
    /// The first and last index in each dimension of the whole.
    pub(crate) bounds: Vec<(usize, usize)>,
    /// The bytes that are saved if the part lies in place.
    saves: u64,
}

/// An operation that computes or copies.
pub(crate) struct Step {
    pub(crate) op: Op,
    /// The operands that are no constants, with their numbers.
    pub(crate) operands: Vec<(usize, Value)>,
    pub(crate) results: Vec<Value>,
    pub(crate) pieces: Vec<Piece>,
    /// The value that the pieces are parts of.
    pub(crate) whole: Option<Value>,
    /// The parts that its row takes.
    pub(crate) takes: Option<Parts>,
    /// If it works along dimensions of its operand: these dimensions, and its additional time if they are not
    /// innermost.
    along: Option<(Vec<usize>, u64)>,
    /// For a product: ports with the innermost dimensions for which an order is slower, and the additional time.
    slower: Vec<(Port, Vec<usize>, u64)>,
}

impl Step {
    /// Returns whether the results are parts of the operand.
    pub(crate) fn cuts(&self) -> bool {
        self.pieces
            .first()
            .is_some_and(|p| matches!(p.port, Port::Result(_)))
    }
}

/// Orders of several ports of an operation that go together.
type Ports = Vec<(Port, Order)>;

/// The options of some ports of a step: their orders, by number, and the additional time of the step.
struct Choice {
    step: usize,
    options: Vec<(Vec<(Port, usize)>, u64)>,
}

struct Search<'a> {
    func: &'a Func,
    free: bool,
    stored: IndexMap<Value, Stored>,
    steps_of: Vec<Step>,
    /// The orders in which each value with a buffer may be needed.
    orders: IndexMap<Value, IndexSet<Order>>,
    /// Choices that are made in sequence, each of the orders of some ports of a step.
    choices: Vec<Choice>,
    /// The copied bytes for each set of parts in place, cheapest first.
    sets: Vec<(u64, u64)>,
    /// The parts: the step, and the number within the step.
    parts: Vec<(usize, usize)>,
    produced: IndexMap<Value, usize>,
    /// The number of times that each order of a value is needed.
    wanted: IndexMap<Value, IndexMap<usize, usize>>,
    /// The chosen order at each port.
    chosen: IndexMap<(usize, Port), usize>,
    best: u64,
    steps: usize,
}

impl<'a> Search<'a> {
    fn new(
        module: &'a Module,
        registry: &Registry,
        target: &Target,
        free: bool,
        counted: Counted,
    ) -> Option<Search<'a>> {
        let func = &module.funcs[0];
        let mut search = Search {
            func,
            free,
            stored: IndexMap::new(),
            steps_of: Vec::new(),
            orders: IndexMap::new(),
            choices: Vec::new(),
            sets: Vec::new(),
            parts: Vec::new(),
            produced: IndexMap::new(),
            wanted: IndexMap::new(),
            chosen: IndexMap::new(),
            best: u64::MAX,
            steps: 0,
        };
        let mut copied = 0u64;
        let args = func.args.iter().copied();
        for value in args {
            search.stored.insert(value, own(func, value));
        }
        for &op in &func.body {
            let data = &func.ops[op];
            match &*data.name {
                "hbir.constant" => continue,
                "hbir.reshape" | "hbir.squeeze" | "hbir.unsqueeze" => {
                    let stored = search.stored.get(&data.operands[0])?.clone();
                    search.stored.insert(data.results[0], stored);
                }
                "hbir.transpose" => {
                    let stored = search.stored.get(&data.operands[0])?;
                    let stored = transposed(func, op, stored);
                    search.stored.insert(data.results[0], stored);
                }
                _ => {
                    for &result in &data.results {
                        search.stored.insert(result, own(func, result));
                    }
                    let (step, bytes) = step_of(func, op, registry, target, counted)?;
                    copied += bytes;
                    search.add(step)?;
                }
            }
        }
        search.boundary()?;
        search.list_sets(copied)?;
        Some(search)
    }

    /// Adds an operation and the possible orders of its ports.
    fn add(&mut self, step: Step) -> Option<()> {
        let at = self.steps_of.len();
        for group in orders_of(self.func, &step)? {
            let mut all: IndexMap<Vec<(Port, usize)>, u64> = IndexMap::new();
            for ports in group {
                let mut numbered = Vec::with_capacity(ports.len());
                let mut longer = 0;
                for (port, order) in ports {
                    if let (Port::Operand(0), Some((along, bytes))) = (port, &step.along) {
                        let operand = self.func.ops[step.op].operands[0];
                        if !goes_along(&order, &shape(self.func, operand), along) {
                            longer = *bytes;
                        }
                    }
                    let value = port.value(&self.func.ops[step.op])?;
                    let last = innermost(&order, &shape(self.func, value));
                    for (of, dims, bytes) in &step.slower {
                        if *of == port && last.is_some_and(|d| dims.contains(&d)) {
                            longer += bytes;
                        }
                    }
                    let stored = self.stored.get(&value)?;
                    let order = order.iter().map(|&i| stored.map[i]).collect();
                    let known = self.orders.entry(stored.root).or_default();
                    numbered.push((port, known.insert_full(order).0));
                }
                all.insert(numbered, longer);
            }
            self.choices.push(Choice {
                step: at,
                options: all.into_iter().collect(),
            });
        }
        for n in 0..step.pieces.len() {
            self.parts.push((at, n));
        }
        self.steps_of.push(step);
        Some(())
    }

    /// Adds the orders of arguments and results, if the boundary is as declared.
    fn boundary(&mut self) -> Option<()> {
        for result in &self.func.results {
            self.stored.get(result)?;
        }
        if self.free {
            return Some(());
        }
        for &arg in &self.func.args {
            let order = self.stored[&arg].map.clone();
            let number = self.orders.entry(arg).or_default().insert_full(order).0;
            self.produced.insert(arg, number);
        }
        for result in &self.func.results {
            let Stored { root, map } = self.stored[result].clone();
            let number = self.orders.entry(root).or_default().insert_full(map).0;
            *self
                .wanted
                .entry(root)
                .or_default()
                .entry(number)
                .or_default() += 1;
        }
        Some(())
    }

    /// The bytes of arguments that are returned to the caller in another order.
    fn converted_for_the_caller(&self) -> u64 {
        let bytes = |(root, &order): (&Value, &usize)| {
            let others = self.wanted.get(root).into_iter().flat_map(IndexMap::keys);
            others.filter(|&&o| o != order).count() as u64 * 2 * size_of(self.func, *root)
        };
        self.produced.iter().map(bytes).sum()
    }

    /// Lists all sets of parts that might lie in place, with the bytes copied for each.
    fn list_sets(&mut self, copied: u64) -> Option<()> {
        if MOST_PARTS < self.parts.len() {
            return None;
        }
        let saves = |set: u64| -> u64 {
            let all = self.parts.iter().enumerate();
            let those = all.filter(|(i, _)| set & (1 << i) != 0);
            those
                .map(|(_, &(step, n))| self.steps_of[step].pieces[n].saves)
                .sum()
        };
        let mut sets: Vec<(u64, u64)> = (0..1u64 << self.parts.len())
            .map(|set| (copied.saturating_sub(saves(set)), set))
            .collect();
        sets.sort_unstable();
        self.sets = sets;
        Some(())
    }

    /// Makes the choices from number `at` on; the previous choices convert `bytes`.
    fn descend(&mut self, at: usize, bytes: u64) {
        let copied = self.sets[0].0;
        self.steps += 1;
        if self.best <= bytes + copied || MOST_STEPS < self.steps {
            return;
        }
        if at == self.choices.len() {
            self.try_sets(bytes);
            return;
        }
        let step = self.choices[at].step;
        let options = std::mem::take(&mut self.choices[at].options);
        for (ports, longer) in &options {
            let mut more = *longer;
            for &(port, order) in ports {
                more += self.choose(step, port, order);
            }
            self.descend(at + 1, bytes + more);
            for &(port, order) in ports.iter().rev() {
                self.forget(step, port, order);
            }
        }
        self.choices[at].options = options;
    }

    /// Chooses the order of a port; returns the additional converted bytes.
    fn choose(&mut self, step: usize, port: Port, order: usize) -> u64 {
        let root = self.root_at(step, port);
        let bytes = 2 * size_of(self.func, root);
        self.chosen.insert((step, port), order);
        let wanted = self.wanted.entry(root).or_default();
        match port {
            Port::Result(_) => {
                self.produced.insert(root, order);
                wanted.keys().filter(|&&o| o != order).count() as u64 * bytes
            }
            Port::Operand(_) => {
                let is_new = !wanted.contains_key(&order);
                let first = wanted.is_empty();
                *wanted.entry(order).or_default() += 1;
                let given = match self.produced.get(&root) {
                    Some(&made) => made == order,
                    None => first,
                };
                if is_new && !given { bytes } else { 0 }
            }
        }
    }

    fn forget(&mut self, step: usize, port: Port, order: usize) {
        let root = self.root_at(step, port);
        match port {
            Port::Result(_) => {
                self.produced.swap_remove(&root);
            }
            Port::Operand(_) => {
                let wanted = &mut self.wanted[&root];
                wanted[&order] -= 1;
                if wanted[&order] == 0 {
                    wanted.swap_remove(&order);
                }
            }
        }
    }

    fn root_at(&self, step: usize, port: Port) -> Value {
        let op = self.steps_of[step].op;
        let value = port.value(&self.func.ops[op]).expect("a port");
        self.stored[&value].root
    }

    /// Tries all sets of parts in place, after all orders are chosen.
    fn try_sets(&mut self, bytes: u64) {
        // The order of an argument at a free boundary, and the copy of a value that the caller gets, are still open.
        let mut open: Vec<(Value, Vec<usize>)> = Vec::new();
        if self.free {
            let wanted = |root: &Value| {
                let orders = self.wanted.get(root).into_iter().flatten();
                orders.map(|(&o, _)| o).collect::<Vec<usize>>()
            };
            for arg in &self.func.args {
                let orders = wanted(arg);
                if !orders.is_empty() {
                    open.push((*arg, orders));
                }
            }
            for result in &self.func.results {
                let root = self.stored[result].root;
                let mut orders = wanted(&root);
                orders.extend(self.produced.get(&root));
                orders.sort_unstable();
                orders.dedup();
                if orders.is_empty() {
                    orders.push(0);
                }
                open.push((root, orders));
            }
        }
        let lists: Vec<usize> = open.iter().map(|(_, orders)| orders.len()).collect();
        let n_args = open.len()
            - if self.free {
                self.func.results.len()
            } else {
                0
            };
        let mut at = vec![0usize; lists.len()];
        loop {
            let pick = |i: usize| (open[i].0, open[i].1[at[i]]);
            let given: IndexMap<Value, usize> = (0..n_args).map(pick).collect();
            let kept: Vec<(Value, usize)> = (n_args..open.len()).map(pick).collect();
            self.try_with(bytes, &given, &kept);
            let moved = at.iter_mut().zip(&lists).any(|(i, &n)| {
                *i = (*i + 1) % n;
                *i != 0
            });
            if !moved {
                return;
            }
        }
    }

    fn try_with(&mut self, bytes: u64, given: &IndexMap<Value, usize>, kept: &[(Value, usize)]) {
        let plan = Plan {
            func: self.func,
            stored: &self.stored,
            steps: &self.steps_of,
            instances: self.instances(given, kept),
        };
        for &(copied, set) in &self.sets {
            if self.best <= bytes + copied {
                return;
            }
            let listed: IndexSet<(usize, Port)> = (0..self.parts.len())
                .filter(|i| set & (1 << i) != 0)
                .map(|i| {
                    let (step, n) = self.parts[i];
                    (step, self.steps_of[step].pieces[n].port)
                })
                .collect();
            if plan.takes(&listed) {
                self.best = bytes + copied;
                return;
            }
        }
    }

    /// The buffers: the written values and their conversions.
    fn instances(
        &self,
        given: &IndexMap<Value, usize>,
        kept: &[(Value, usize)],
    ) -> IndexMap<(Value, usize), Instance> {
        let mut all: IndexMap<(Value, usize), Instance> = IndexMap::new();
        let mut add = |root: Value, number: usize, writer: Writer| {
            let order = &self.orders[&root][number];
            all.entry((root, number))
                .or_insert_with(|| Instance::new(order, writer));
        };
        for &arg in &self.func.args {
            if let Some(&number) = given.get(&arg).or_else(|| self.produced.get(&arg)) {
                add(arg, number, Writer::Given);
            }
        }
        for (step, data) in self.steps_of.iter().enumerate() {
            for &result in &data.results {
                add(result, self.produced[&result], Writer::Step(step));
            }
        }
        for (&root, orders) in &self.wanted {
            for &number in orders.keys() {
                add(root, number, Writer::Conversion);
            }
        }
        for (&(step, port), &number) in &self.chosen {
            if let Port::Operand(n) = port {
                let reader = Reader { step, port: n };
                let root = self.root_at(step, port);
                all[&(root, number)].readers.push(reader);
            }
        }
        for result in self.func.results.iter().filter(|_| !self.free) {
            let Stored { root, map } = &self.stored[result];
            let number = self.orders[root].get_index_of(map).expect("it is wanted");
            all[&(*root, number)].whole = true;
        }
        for key in kept {
            // An argument that nothing reads has no order.
            if let Some(instance) = all.get_mut(key) {
                instance.whole = true;
            }
        }
        let converted: IndexSet<Value> = all
            .iter()
            .filter(|(_, i)| i.writer == Writer::Conversion)
            .map(|((root, _), _)| *root)
            .collect();
        for ((root, _), instance) in &mut all {
            instance.is_converted =
                instance.writer != Writer::Conversion && converted.contains(root);
        }
        all
    }
}

/// A value with a buffer of its own.
fn own(func: &Func, value: Value) -> Stored {
    Stored {
        root: value,
        map: (0..shape(func, value).iter().product()).collect(),
    }
}

/// The dimensions of its first operand that an operation works along, and the price of orders in which they are not
/// innermost. `None` if there are none, or if the row has no such price.
fn along(func: &Func, op: Op, row: Option<&Row>) -> Option<(Vec<usize>, u64)> {
    let data = &func.ops[op];
    let operand = *data.operands.first()?;
    let rank = shape(func, operand).len();
    let number = |axis: i64| usize::try_from(axis.rem_euclid(rank as i64)).ok();
    let axes: Vec<usize> = match &*data.name {
        "hbir.softmax" | "hbir.layer_norm" => number(data.props.int("axis").unwrap_or(-1))
            .into_iter()
            .collect(),
        "hbir.reduce" => data
            .props
            .ints("axes")?
            .iter()
            .filter_map(|&a| number(a))
            .collect(),
        _ => return None,
    };
    let any = row?.taken().find(|a| a.ends.is_empty())?;
    Some((axes, any.price?.of(size_of(func, operand))))
}

/// The ports of a product whose orders have a price, by the innermost dimensions of the order.
fn slower(func: &Func, op: Op, row: Option<&Row>) -> Vec<(Port, Vec<usize>, u64)> {
    let data = &func.ops[op];
    let is_linear = &*data.name == "hbir.linear";
    if !is_linear && &*data.name != "hbir.matmul" {
        return Vec::new();
    }
    let rank = |v: Value| shape(func, v).len();
    let batch = match is_linear {
        true => 0,
        false => rank(data.operands[0])
            .min(rank(data.operands[1]))
            .saturating_sub(2),
    };
    let role = |port: Port, dim: usize, rank: usize| match (port, rank - dim) {
        _ if dim < batch => PortRole::Batch,
        (Port::Operand(0), 1) => PortRole::K,
        (Port::Operand(1), last) if (last == 1) == is_linear => PortRole::K,
        (Port::Operand(1), _) | (Port::Result(_), 1) => PortRole::N,
        _ => PortRole::M,
    };
    let of = |slower: &Slower| {
        let port = match slower.port {
            PricedPort::Left => Port::Operand(0),
            PricedPort::Right => Port::Operand(1),
            PricedPort::Result => Port::Result(0),
        };
        let value = port.value(data)?;
        let rank = rank(value);
        let dims = (0..rank).filter(|&d| slower.is_of(role(port, d, rank)));
        Some((
            port,
            dims.collect(),
            slower.price().of(size_of(func, value)),
        ))
    };
    row.map_or_else(Vec::new, |row| row.slower.iter().filter_map(of).collect())
}

/// The dimension along which the second element of an order follows the first one.
fn innermost(order: &Order, shape: &[usize]) -> Option<usize> {
    let (first, second) = (
        unravel(*order.first()?, shape),
        unravel(*order.get(1)?, shape),
    );
    (0..shape.len()).find(|&d| first[d] != second[d])
}

/// Returns whether the elements of each line along these dimensions are consecutive, from first to last.
fn goes_along(order: &Order, shape: &[usize], along: &[usize]) -> bool {
    let n: usize = along.iter().map(|&d| shape[d]).product();
    order.chunks(n.max(1)).all(|run| {
        let indices: Vec<Vec<usize>> = run.iter().map(|&i| unravel(i, shape)).collect();
        let place = |index: &Vec<usize>| along.iter().fold(0, |at, &d| at * shape[d] + index[d]);
        let mut beside = indices.iter().map(|index| {
            let others = (0..shape.len()).filter(|d| !along.contains(d));
            others.map(|d| index[d]).collect::<Vec<usize>>()
        });
        let first = beside.next();
        let one = beside.all(|other| Some(&other) == first.as_ref());
        one && indices.iter().map(place).eq(0..n)
    })
}

/// An operation, and the bytes that it copies if nothing lies in place; `None` if the model does not know it.
fn step_of(
    func: &Func,
    op: Op,
    registry: &Registry,
    target: &Target,
    counted: Counted,
) -> Option<(Step, u64)> {
    let data = &func.ops[op];
    let decl = registry.get(&data.name)?;
    let view = func.op_ref(op);
    let known = |i: usize| in_place::constant(func, *data.operands.get(i)?);
    if decl.permutes(&view, &known).is_some() {
        return None;
    }
    let is_constant = |v: Value| {
        let op = func.def_op(v);
        op.is_some_and(|op| &*func.ops[op].name == "hbir.constant")
    };
    let operands = data.operands.iter().copied().enumerate();
    let mut step = Step {
        op,
        operands: operands.filter(|&(_, v)| !is_constant(v)).collect(),
        results: data.results.clone(),
        pieces: Vec::new(),
        whole: None,
        takes: target.row(decl.family_of(&view)).and_then(|row| row.parts),
        along: along(func, op, target.row(decl.family_of(&view))),
        slower: slower(func, op, target.row(decl.family_of(&view))),
    };
    let (bytes, saves) = copied_by(func, op, &view, counted)?;
    let parts = decl.parts(&view, &known);
    if saves.is_some() && parts.is_empty() {
        return None;
    }
    for part in parts.iter().filter(|_| step.takes.is_some()) {
        let (small, large) = (part.part.value(data)?, part.whole.value(data)?);
        let (of_part, of_whole) = (shape(func, small), shape(func, large));
        let at = |i: usize| -> Option<usize> {
            let index = unravel(i, &of_part);
            let there: Option<Vec<usize>> = part
                .dims
                .iter()
                .map(|along| {
                    let start = i64::try_from(along.start.as_constant()?).ok()?;
                    let i = along.from.map_or(0, |d| index[d]);
                    usize::try_from(start + along.step * i64::try_from(i).ok()?).ok()
                })
                .collect();
            Some(ravel(&there?, &of_whole))
        };
        let places: Vec<usize> = (0..of_part.iter().product())
            .map(at)
            .collect::<Option<_>>()?;
        let indices: Vec<Vec<usize>> = places.iter().map(|&i| unravel(i, &of_whole)).collect();
        let ends = |d: usize| {
            let along = indices.iter().map(|index| index[d]);
            (along.clone().min().unwrap_or(0), along.max().unwrap_or(0))
        };
        step.whole = Some(large);
        step.pieces.push(Piece {
            port: part.part,
            bounds: (0..of_whole.len()).map(ends).collect(),
            places,
            saves: match saves {
                Some(Saves::Part) => 2 * size_of(func, small),
                Some(Saves::All) => bytes,
                None => 0,
            },
        });
    }
    Some((step, bytes))
}

/// The saving of a part in place.
#[derive(Clone, Copy)]
enum Saves {
    /// Reading and writing the part.
    Part,
    /// Everything that the operation copies.
    All,
}

/// The bytes that an operation copies, and the saving of its parts.
fn copied_by(
    func: &Func,
    op: Op,
    view: &OpRef<'_>,
    counted: Counted,
) -> Option<(u64, Option<Saves>)> {
    let data = &func.ops[op];
    let all = |values: &[Value]| values.iter().map(|&v| size_of(func, v)).sum::<u64>();
    let (read, written) = (all(&data.operands[..1]), all(&data.results));
    Some(match &*data.name {
        "hbir.slice" => {
            let down = view.props.ints("strides");
            let down = down.is_some_and(|s| s.iter().any(|&s| s < 0));
            match read == written && !down {
                true => (0, None),
                false => (2 * written, Some(Saves::Part)),
            }
        }
        "hbir.split" if data.results.len() == 1 => (0, None),
        "hbir.concat" if data.operands.len() == 1 => (0, None),
        "hbir.split" | "hbir.gather" | "hbir.concat" => (2 * written, Some(Saves::Part)),
        "hbir.pad" if read == written => (0, None),
        "hbir.pad" => (read + written, Some(Saves::Part)),
        "hbir.broadcast" if read == written || counted == Counted::Moved => (0, None),
        "hbir.broadcast" => (read + written, Some(Saves::All)),
        _ => (0, None),
    })
}

const ELEMENTWISE: [&str; 10] = [
    "hbir.relu",
    "hbir.neg",
    "hbir.abs",
    "hbir.tanh",
    "hbir.sigmoid",
    "hbir.add",
    "hbir.sub",
    "hbir.mul",
    "hbir.max",
    "hbir.softmax",
];

/// The possible orders, for each group of ports whose orders depend on each other.
fn orders_of(func: &Func, step: &Step) -> Option<Vec<Vec<Ports>>> {
    let data = &func.ops[step.op];
    let name = &*data.name;
    let of = |v: Value| digit_orders(&shape(func, v));
    match name {
        "hbir.broadcast" => {}
        _ if ELEMENTWISE.contains(&name) => {}
        "hbir.slice" | "hbir.split" | "hbir.concat" | "hbir.pad" => {
            return Some(vec![orders_of_parts(func, step)?]);
        }
        "hbir.gather" | "hbir.reduce" => return Some(vec![orders_of_loops(func, step)?]),
        "hbir.matmul" | "hbir.linear" => return orders_of_product(func, step),
        _ => return None,
    }
    // One order, in which every operand is read.
    let result = data.results[0];
    let ports = |order: Order| {
        let reads = step
            .operands
            .iter()
            .map(|&(n, operand)| (Port::Operand(n), read_order(func, operand, result, &order)));
        let mut all: Ports = reads.collect();
        all.push((Port::Result(0), order));
        all
    };
    Some(vec![of(result).into_iter().map(ports).collect()])
}

/// The order in which the elements of a broadcast operand are first read.
fn read_order(func: &Func, operand: Value, result: Value, order: &Order) -> Order {
    let (all, mine) = (shape(func, result), shape(func, operand));
    let skip = all.len() - mine.len();
    let mut read: IndexSet<usize> = IndexSet::new();
    for &i in order {
        let index = unravel(i, &all);
        let pairs = index[skip..].iter().zip(&mine);
        let inner: Vec<usize> = pairs.map(|(&i, &n)| if n == 1 { 0 } else { i }).collect();
        read.insert(ravel(&inner, &mine));
    }
    read.into_iter().collect()
}

/// The orders of an operation that cuts or joins: the whole has an order, and the parts have the induced orders, each
/// an order of digits.
fn orders_of_parts(func: &Func, step: &Step) -> Option<Vec<Ports>> {
    let data = &func.ops[step.op];
    let whole = step.whole?;
    let of_whole = shape(func, whole);
    let whole_port = if step.cuts() {
        Port::Operand(0)
    } else {
        Port::Result(0)
    };
    let known: Vec<IndexSet<Order>> = step
        .pieces
        .iter()
        .map(|piece| {
            let value = piece.port.value(data).expect("a port");
            digit_orders(&shape(func, value)).into_iter().collect()
        })
        .collect();
    // A dimension with another stride than 1 has one digit, with the values of the part.
    let steps = data.props.ints("strides").unwrap_or_default();
    let uncut: Vec<usize> = (0..steps.len()).filter(|&d| steps[d] != 1).collect();
    let down = |d: usize| steps.get(d).is_some_and(|&by| by < 0);
    let turned = |places: &[usize]| -> Vec<usize> {
        let turn = |&i: &usize| {
            let mut index = unravel(i, &of_whole);
            for (d, i) in index.iter_mut().enumerate() {
                if down(d) {
                    *i = of_whole[d] - 1 - *i;
                }
            }
            ravel(&index, &of_whole)
        };
        places.iter().map(turn).collect()
    };
    let mut all = Vec::new();
    for order in digit_orders_with(&of_whole, &uncut) {
        let mut ports: Ports = vec![(whole_port, order.clone())];
        let mut fits = true;
        for (piece, known) in step.pieces.iter().zip(&known) {
            let own = induced(&order, &turned(&piece.places));
            fits &= known.contains(&own);
            ports.push((piece.port, own));
        }
        if fits {
            all.push(ports);
        }
    }
    Some(all)
}

/// The orders of a gather or a reduction, whose loops need not all be in the operand or in the result.
fn orders_of_loops(func: &Func, step: &Step) -> Option<Vec<Ports>> {
    let data = &func.ops[step.op];
    let of_operand = shape(func, data.operands[0]);
    let of_result = shape(func, data.results[0]);
    let rank = of_operand.len();
    let axis_of = |n: i64| usize::try_from(if n < 0 { n + rank as i64 } else { n }).ok();
    // The loops are the operand's dimensions, and those of the result that the operand lacks.
    let mut loops = of_operand.clone();
    let result_loops: Vec<Option<usize>> = if &*data.name == "hbir.gather" {
        let axis = axis_of(data.props.int("axis").unwrap_or(0))?;
        let indices = shape(func, data.operands[1]).len();
        let mut own: Vec<Option<usize>> = (0..axis).map(Some).collect();
        for d in 0..indices {
            own.push(Some(loops.len()));
            loops.push(of_result[axis + d]);
        }
        own.extend((axis + 1..rank).map(Some));
        own
    } else {
        let axes = data
            .props
            .ints("axes")
            .unwrap_or((0..rank as i64).collect());
        let axes: Vec<usize> = axes.into_iter().map(axis_of).collect::<Option<_>>()?;
        let kept = of_result.len() == rank;
        let all = (0..rank).filter(|d| kept || !axes.contains(d));
        all.map(|d| (!axes.contains(&d)).then_some(d)).collect()
    };
    let walk = |order: &Order| -> Ports {
        let (mut read, mut written) = (IndexSet::new(), IndexSet::new());
        for &i in order {
            let index = unravel(i, &loops);
            read.insert(ravel(&index[..rank], &of_operand));
            let there: Vec<usize> = result_loops
                .iter()
                .map(|l| l.map_or(0, |l| index[l]))
                .collect();
            written.insert(ravel(&there, &of_result));
        }
        vec![
            (Port::Operand(0), read.into_iter().collect()),
            (Port::Result(0), written.into_iter().collect()),
        ]
    };
    Some(digit_orders(&loops).iter().map(walk).collect())
}

/// The orders of a product's operands and result, each independent: batch is not innermost, and the reduced dimension
/// is one digit.
fn orders_of_product(func: &Func, step: &Step) -> Option<Vec<Vec<Ports>>> {
    let data = &func.ops[step.op];
    let (a, b) = (shape(func, data.operands[0]), shape(func, data.operands[1]));
    let y = shape(func, data.results[0]);
    let k = *a.last()?;
    let is_prime = (2..k).all(|d| !k.is_multiple_of(d));
    if a.len() < 2 || b.len() < 2 || !is_prime {
        return None;
    }
    // Batch dimensions are those that all three have.
    let batch = match &*data.name {
        "hbir.matmul" => a.len().min(b.len()) - 2,
        _ => 0,
    };
    let folds = match batch {
        0 => b.len() <= a.len(),
        _ => a.len() == b.len(),
    };
    if !folds {
        return None;
    }
    if (0..batch).any(|d| a[d] != b[d]) {
        return None;
    }
    let port = |port: Port, dims: &[usize]| -> Vec<Ports> {
        let inner_is_batch = |order: &Order| {
            let Some(&second) = order.get(1) else {
                return false;
            };
            let index = unravel(second, dims);
            let along = index.iter().position(|&i| i != 0);
            let others = dims[batch..].iter().any(|&n| 1 < n);
            along.is_some_and(|d| d < batch) && others
        };
        digit_orders(dims)
            .into_iter()
            .filter(|order| !inner_is_batch(order))
            .map(|order| vec![(port, order)])
            .collect()
    };
    Some(vec![
        port(Port::Operand(0), &a),
        port(Port::Operand(1), &b),
        port(Port::Result(0), &y),
    ])
}
