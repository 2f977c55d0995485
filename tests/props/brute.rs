//! The least bytes that a tiny program can move on `cpu`, by trying every layout of every operation.
//!
//! It knows nothing of digits, views or search: a buffer is a list that says which element of a value
//! stands at each position. An element-wise operation runs over its index space in some order;
//! each operand must lie in the order in which it is then read. A value that is wanted in an order
//! that it was not written in is converted, once for each such order.

use indexmap::{IndexMap, IndexSet};
use optc_ir::{Func, Module, Op, Value};

/// Positions, major to minor: which element (row-major number) stands there.
type Order = Vec<usize>;

/// A value as part of the buffer it is stored in: element `i` of the value is element `map[i]` of
/// the value `root`.
#[derive(Clone)]
struct Stored {
    root: Value,
    map: Vec<usize>,
}

/// The most combinations that are tried.
const LIMIT: usize = 200_000;

/// The least movement bytes, or nothing if there are too many combinations or the program is not
/// made of reshapes, transposes and element-wise operations.
pub(crate) fn least_bytes(module: &Module, free_boundary: bool) -> Option<u64> {
    let func = &module.funcs[0];
    let stored = store(func)?;
    let compute: Vec<Op> = func
        .body
        .iter()
        .copied()
        .filter(|&op| !is_rearrangement(func, op))
        .collect();
    let orders: Vec<Vec<Order>> = compute
        .iter()
        .map(|&op| digit_orders(&shape(func, func.ops[op].results[0])))
        .collect();
    let combinations = orders
        .iter()
        .try_fold(1usize, |n, o| n.checked_mul(o.len()))?;
    if LIMIT < combinations {
        return None;
    }
    let program = Program {
        func,
        stored,
        compute,
        free_boundary,
    };
    let mut least = u64::MAX;
    let mut at = vec![0usize; orders.len()];
    loop {
        let chosen: Vec<&Order> = at.iter().zip(&orders).map(|(&i, o)| &o[i]).collect();
        least = least.min(program.bytes(&chosen));
        if !advance(&mut at, &orders) {
            return Some(least);
        }
    }
}

fn advance(at: &mut [usize], orders: &[Vec<Order>]) -> bool {
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

fn shape(func: &Func, value: Value) -> Vec<usize> {
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

/// Where each value is stored; nothing for operations that this model does not know.
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
    ];
    for &op in &func.body {
        let data = &func.ops[op];
        let result = data.results[0];
        let entry = match &*data.name {
            "hbir.reshape" => stored[&data.operands[0]].clone(),
            "hbir.transpose" => transposed(func, op, &stored[&data.operands[0]]),
            name if elementwise.contains(&name) => own(result),
            _ => return None,
        };
        stored.insert(result, entry);
    }
    Some(stored)
}

fn transposed(func: &Func, op: Op, operand: &Stored) -> Stored {
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

fn unravel(mut i: usize, shape: &[usize]) -> Vec<usize> {
    let mut index = vec![0; shape.len()];
    for (axis, &n) in shape.iter().enumerate().rev() {
        index[axis] = i % n;
        i /= n;
    }
    index
}

fn ravel(index: &[usize], shape: &[usize]) -> usize {
    index.iter().zip(shape).fold(0, |at, (&i, &n)| at * n + i)
}

/// Every order of a shape in which each dimension is cut into digits and the digits stand anywhere.
fn digit_orders(shape: &[usize]) -> Vec<Order> {
    let mut lists: Vec<Vec<(usize, usize, usize)>> = vec![Vec::new()];
    for (dim, &n) in shape.iter().enumerate() {
        let cuts = factorizations(n);
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

/// `n` as products of factors above 1, in every order.
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

/// (dimension, divisor, count) of each factor, outermost first.
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
    /// Bytes converted if each computing operation runs in the order given.
    fn bytes(&self, orders: &[&Order]) -> u64 {
        let mut wanted: IndexMap<Value, IndexSet<Order>> = IndexMap::new();
        let mut written: IndexMap<Value, Order> = IndexMap::new();
        for (&op, &order) in self.compute.iter().zip(orders) {
            for &operand in &self.func.ops[op].operands {
                let stored = &self.stored[&operand];
                let read = self.read_order(op, operand, order);
                let buffer = read.iter().map(|&i| stored.map[i]).collect();
                wanted.entry(stored.root).or_default().insert(buffer);
            }
            written.insert(self.func.ops[op].results[0], order.clone());
        }
        if !self.free_boundary {
            for &arg in &self.func.args {
                written.insert(arg, self.stored[&arg].map.clone());
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
                Some(order) => orders.iter().filter(|o| *o != order).count(),
                None => orders.len().saturating_sub(1),
            };
            extra as u64 * 2 * self.size(*root)
        };
        wanted.iter().map(cost).sum()
    }

    fn size(&self, value: Value) -> u64 {
        let ty = self
            .func
            .ty(value)
            .as_tensor()
            .expect("tiny programs have tensors");
        ty.elements().expect("known") * u64::from(ty.dtype.bits() / 8)
    }

    /// The order in which an operand's elements are read first, if the operation runs in `order`.
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
