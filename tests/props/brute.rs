//! The least bytes that a tiny program can move on `cpu`, by trying every layout of every operation.
//!
//! It uses no digits, views or search: a buffer is a list of the element of a value at each position. An element-wise
//! operation runs over its index space in some order, and each operand must be stored in the order in which it is then
//! read. A value that is needed in an order in which it was not written is converted, once for each such order. On
//! request, an element-wise operation may run several times, each time in another order. A concat, slice or pad runs
//! over the longest of its values; the other values are in the order of their elements in that one, which must be an
//! order of digits.

use indexmap::{IndexMap, IndexSet};
use optc_ir::{Func, Module, Op, Value};

/// The element (row-major number) at each position, major to minor.
pub(crate) type Order = Vec<usize>;

/// A value as part of the buffer in which it is stored: element `i` of the value is element `map[i]` of the value
/// `root`.
#[derive(Clone)]
pub(crate) struct Stored {
    pub(crate) root: Value,
    pub(crate) map: Vec<usize>,
}

/// The largest number of combinations that are tried.
const LIMIT: usize = 200_000;

/// The least movement bytes, where each operation may run up to `most_runs` times. `None` if there are too many
/// combinations, or if the program has operations other than reshapes, transposes and element-wise ones.
pub(crate) fn least_bytes(module: &Module, free_boundary: bool, most_runs: usize) -> Option<u64> {
    let func = &module.funcs[0];
    let stored = store(func)?;
    let compute: Vec<Op> = func
        .body
        .iter()
        .copied()
        .filter(|&op| !is_rearrangement(func, op))
        .collect();
    let runs = |&op: &Op| {
        let most = match parts(func, op) {
            Some(_) => 1,
            None => most_runs,
        };
        sets(&orders_of(func, op), most)
    };
    let mut combinations = 1usize;
    let mut runs_of: Vec<Vec<Vec<Order>>> = Vec::new();
    for op in &compute {
        let all = runs(op)?;
        combinations = combinations.checked_mul(all.len())?;
        if LIMIT < combinations {
            return None;
        }
        runs_of.push(all);
    }
    let program = Program {
        func,
        stored,
        compute,
        free_boundary,
    };
    let mut least = u64::MAX;
    let mut at = vec![0usize; runs_of.len()];
    loop {
        let chosen: Vec<&[Order]> = at.iter().zip(&runs_of).map(|(&i, o)| &o[i][..]).collect();
        least = least.min(program.bytes(&chosen));
        if !advance(&mut at, &runs_of) {
            return Some(least);
        }
    }
}

/// All sets of one to `most` orders; `None` if there are too many.
fn sets(orders: &[Order], most: usize) -> Option<Vec<Vec<Order>>> {
    let mut all: Vec<Vec<usize>> = (0..orders.len()).map(|i| vec![i]).collect();
    let mut begin = 0;
    for _ in 1..most {
        let end = all.len();
        for at in begin..end {
            let last = all[at].last().copied().unwrap_or(0);
            for next in last + 1..orders.len() {
                all.push([&all[at][..], &[next]].concat());
            }
            if LIMIT < all.len() {
                return None;
            }
        }
        begin = end;
    }
    let of = |set: Vec<usize>| set.into_iter().map(|i| orders[i].clone()).collect();
    Some(all.into_iter().map(of).collect())
}

/// The orders in which an operation may run.
fn orders_of(func: &Func, op: Op) -> Vec<Order> {
    let data = &func.ops[op];
    let Some(parts) = parts(func, op) else {
        return digit_orders(&shape(func, data.results[0]));
    };
    let values = data.operands.iter().chain(&data.results);
    let known: Vec<IndexSet<Order>> = values
        .map(|&v| digit_orders(&shape(func, v)).into_iter().collect())
        .collect();
    let fits = |order: &Order| {
        let mut ports = parts.iter().zip(&known);
        ports.all(|(places, orders)| orders.contains(&induced(order, places)))
    };
    let whole = match &*data.name {
        "hbir.slice" => data.operands[0],
        _ => data.results[0],
    };
    let mut all = digit_orders(&shape(func, whole));
    all.retain(fits);
    all
}

/// For a concat, slice or pad: the position of the elements of each operand and result in the longest value.
fn parts(func: &Func, op: Op) -> Option<Vec<Vec<usize>>> {
    let data = &func.ops[op];
    let result = data.results[0];
    let all = |v: Value| (0..shape(func, v).iter().product()).collect::<Vec<usize>>();
    let ints = |name: &str, rank: usize| -> Vec<usize> {
        let list = data.props.ints(name).unwrap_or(vec![0; rank]);
        list.iter()
            .map(|&i| usize::try_from(i).expect("no negative part"))
            .collect()
    };
    let moved = |part: Value, whole: Value, by: &[usize]| -> Vec<usize> {
        let (small, large) = (shape(func, part), shape(func, whole));
        let place = |i| {
            let index = unravel(i, &small);
            let there: Vec<usize> = index.iter().zip(by).map(|(i, b)| i + b).collect();
            ravel(&there, &large)
        };
        all(part).into_iter().map(place).collect()
    };
    match &*data.name {
        "hbir.slice" => {
            let x = data.operands[0];
            let starts = ints("starts", shape(func, x).len());
            Some(vec![all(x), moved(result, x, &starts)])
        }
        "hbir.pad" => {
            let x = data.operands[0];
            let low = ints("low", shape(func, x).len());
            Some(vec![moved(x, result, &low), all(result)])
        }
        "hbir.concat" => {
            let rank = shape(func, result).len();
            let axis = data.props.int("axis").unwrap_or(0);
            let axis = usize::try_from(axis).expect("an axis");
            let mut by = vec![0; rank];
            let mut places = Vec::new();
            for &operand in &data.operands {
                places.push(moved(operand, result, &by));
                by[axis] += shape(func, operand)[axis];
            }
            places.push(all(result));
            Some(places)
        }
        _ => None,
    }
}

/// The elements at these places of a whole, in the order of the whole.
pub(crate) fn induced(order: &Order, places: &[usize]) -> Order {
    let mut position = vec![0; order.len()];
    for (at, &element) in order.iter().enumerate() {
        position[element] = at;
    }
    let mut all: Vec<usize> = (0..places.len()).collect();
    all.sort_by_key(|&i| position[places[i]]);
    all
}

fn advance(at: &mut [usize], orders: &[Vec<Vec<Order>>]) -> bool {
    for (digit, choices) in at.iter_mut().zip(orders) {
        *digit += 1;
        if *digit < choices.len() {
            return true;
        }
        *digit = 0;
    }
    false
}

fn is_rearrangement(func: &Func, op: Op) -> bool {
    matches!(&*func.ops[op].name, "hbir.reshape" | "hbir.transpose")
}

pub(crate) fn shape(func: &Func, value: Value) -> Vec<usize> {
    let ty = func
        .ty(value)
        .as_tensor()
        .expect("tiny programs have tensors");
    let shape = ty.shape().expect("tiny programs have known sizes");
    shape
        .iter()
        .map(|&n| usize::try_from(n).expect("tiny"))
        .collect()
}

/// The bytes of a value.
pub(crate) fn size_of(func: &Func, value: Value) -> u64 {
    let ty = func.ty(value).as_tensor();
    let ty = ty.expect("tiny programs have tensors");
    ty.elements().expect("known") * u64::from(ty.dtype.bits() / 8)
}

/// The buffer of each value; `None` if the model does not know an operation.
fn store(func: &Func) -> Option<IndexMap<Value, Stored>> {
    let mut stored: IndexMap<Value, Stored> = IndexMap::new();
    let own = |v: Value| {
        let n: usize = shape(func, v).iter().product();
        Stored {
            root: v,
            map: (0..n).collect(),
        }
    };
    for &arg in &func.args {
        stored.insert(arg, own(arg));
    }
    let elementwise = [
        "hbir.relu",
        "hbir.neg",
        "hbir.abs",
        "hbir.add",
        "hbir.sub",
        "hbir.mul",
        "hbir.max",
        "hbir.cast",
    ];
    for &op in &func.body {
        let data = &func.ops[op];
        let result = data.results[0];
        let entry = match &*data.name {
            "hbir.reshape" => stored[&data.operands[0]].clone(),
            "hbir.transpose" => transposed(func, op, &stored[&data.operands[0]]),
            name if elementwise.contains(&name) => own(result),
            "hbir.concat" | "hbir.slice" | "hbir.pad" => own(result),
            _ => return None,
        };
        stored.insert(result, entry);
    }
    Some(stored)
}

pub(crate) fn transposed(func: &Func, op: Op, operand: &Stored) -> Stored {
    let data = &func.ops[op];
    let perm = data
        .props
        .ints("perm")
        .expect("a transpose has a permutation");
    let perm: Vec<usize> = perm
        .iter()
        .map(|&p| usize::try_from(p).expect("an axis"))
        .collect();
    let (from, to) = (shape(func, data.operands[0]), shape(func, data.results[0]));
    let n: usize = to.iter().product();
    let source = |i: usize| {
        let index = unravel(i, &to);
        let mut back = vec![0; from.len()];
        for (axis, &p) in perm.iter().enumerate() {
            back[p] = index[axis];
        }
        operand.map[ravel(&back, &from)]
    };
    Stored {
        root: operand.root,
        map: (0..n).map(source).collect(),
    }
}

pub(crate) fn unravel(mut i: usize, shape: &[usize]) -> Vec<usize> {
    let mut index = vec![0; shape.len()];
    for (axis, &n) in shape.iter().enumerate().rev() {
        index[axis] = i % n;
        i /= n;
    }
    index
}

pub(crate) fn ravel(index: &[usize], shape: &[usize]) -> usize {
    index.iter().zip(shape).fold(0, |at, (&i, &n)| at * n + i)
}

/// Every order of a shape in which each dimension is cut into digits, and the digits are permuted.
pub(crate) fn digit_orders(shape: &[usize]) -> Vec<Order> {
    digit_orders_with(shape, &[])
}

/// As [`digit_orders`], with these dimensions not cut.
pub(crate) fn digit_orders_with(shape: &[usize], uncut: &[usize]) -> Vec<Order> {
    let mut lists: Vec<Vec<(usize, usize, usize)>> = vec![Vec::new()];
    for (dim, &n) in shape.iter().enumerate() {
        let mut cuts = factorizations(n);
        if uncut.contains(&dim) {
            cuts.retain(|cut| cut.len() <= 1);
        }
        let extended = lists.iter().flat_map(|list| {
            cuts.iter()
                .map(move |cut| [list.clone(), digits(dim, cut)].concat())
        });
        lists = extended.collect();
    }
    let mut found: IndexSet<Order> = IndexSet::new();
    for list in lists {
        permute(&mut list.clone(), 0, &mut |digits| {
            found.insert(walk(digits, shape));
        });
    }
    found.into_iter().collect()
}

/// `n` as products of factors greater than 1, in every order.
fn factorizations(n: usize) -> Vec<Vec<usize>> {
    if n == 1 {
        return vec![Vec::new()];
    }
    let first = (2..=n).filter(|f| n.is_multiple_of(*f));
    let with = |f: usize| {
        factorizations(n / f)
            .into_iter()
            .map(move |rest| [vec![f], rest].concat())
    };
    first.flat_map(with).collect()
}

/// The dimension, divisor and count of each factor, outermost first.
fn digits(dim: usize, factors: &[usize]) -> Vec<(usize, usize, usize)> {
    let divisor = |i: usize| factors[i + 1..].iter().product();
    factors
        .iter()
        .enumerate()
        .map(|(i, &count)| (dim, divisor(i), count))
        .collect()
}

fn permute<T: Copy>(items: &mut Vec<T>, from: usize, visit: &mut dyn FnMut(&[T])) {
    if from == items.len() {
        visit(items);
        return;
    }
    for i in from..items.len() {
        items.swap(from, i);
        permute(items, from + 1, visit);
        items.swap(from, i);
    }
}

fn walk(digits: &[(usize, usize, usize)], shape: &[usize]) -> Order {
    let counts: Vec<usize> = digits.iter().map(|d| d.2).collect();
    let n: usize = shape.iter().product();
    let element = |position: usize| {
        let mut index = vec![0; shape.len()];
        for (digit, value) in digits.iter().zip(unravel(position, &counts)) {
            index[digit.0] += digit.1 * value;
        }
        ravel(&index, shape)
    };
    (0..n).map(element).collect()
}

struct Program<'a> {
    func: &'a Func,
    stored: IndexMap<Value, Stored>,
    compute: Vec<Op>,
    free_boundary: bool,
}

impl Program<'_> {
    /// The converted bytes if each computing operation runs in each of the given orders.
    fn bytes(&self, orders: &[&[Order]]) -> u64 {
        let mut wanted: IndexMap<Value, IndexSet<Order>> = IndexMap::new();
        let mut written: IndexMap<Value, IndexSet<Order>> = IndexMap::new();
        let runs = self.compute.iter().zip(orders);
        for (op, order) in runs.flat_map(|(&op, orders)| orders.iter().map(move |o| (op, o))) {
            let parts = parts(self.func, op);
            for (i, &operand) in self.func.ops[op].operands.iter().enumerate() {
                let stored = &self.stored[&operand];
                let read = match &parts {
                    Some(parts) => induced(order, &parts[i]),
                    None => self.read_order(op, operand, order),
                };
                let buffer = read.iter().map(|&i| stored.map[i]).collect();
                wanted.entry(stored.root).or_default().insert(buffer);
            }
            let own = match &parts {
                Some(parts) => induced(order, &parts[parts.len() - 1]),
                None => order.clone(),
            };
            let result = self.func.ops[op].results[0];
            written.entry(result).or_default().insert(own);
        }
        if !self.free_boundary {
            for &arg in &self.func.args {
                let order = self.stored[&arg].map.clone();
                written.entry(arg).or_default().insert(order);
            }
            for result in &self.func.results {
                let stored = &self.stored[result];
                wanted
                    .entry(stored.root)
                    .or_default()
                    .insert(stored.map.clone());
            }
        }
        let cost = |(root, orders): (&Value, &IndexSet<Order>)| {
            let extra = match written.get(root) {
                Some(written) => orders.iter().filter(|o| !written.contains(*o)).count(),
                None => orders.len().saturating_sub(1),
            };
            extra as u64 * 2 * size_of(self.func, *root)
        };
        wanted.iter().map(cost).sum()
    }

    /// The order in which an operand's elements are first read if the operation runs in `order`.
    fn read_order(&self, op: Op, operand: Value, order: &Order) -> Order {
        let result = shape(self.func, self.func.ops[op].results[0]);
        let mine = shape(self.func, operand);
        let skip = result.len() - mine.len();
        let mut read: IndexSet<usize> = IndexSet::new();
        for &i in order {
            let index = unravel(i, &result);
            let inner: Vec<usize> = index[skip..]
                .iter()
                .zip(&mine)
                .map(|(&i, &n)| if n == 1 { 0 } else { i })
                .collect();
            read.insert(ravel(&inner, &mine));
        }
        read.into_iter().collect()
    }
}
