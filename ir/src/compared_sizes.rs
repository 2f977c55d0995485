//! Numbers that stand for named sizes when costs are compared.
//!
//! Example: a signal of `N` samples has `N//160` frames. At `N = 128` there would be no frame, and whatever is done with
//! frames would cost nothing. The next number that has two frames or more is 320.

use crate::module::{Func, Module, Op};
use crate::op::Registry;
use crate::size::{DEFAULT_BINDING, Factor, Size, SizeTable};
use crate::size_flow::named_sizes;
use crate::types::Dim;
use indexmap::{IndexMap, IndexSet};
use std::sync::Arc;

/// The least number for a dimension whose size is an expression. A rearrangement of a dimension of 1 is free.
const LEAST_EXTENT: i128 = 2;
/// The largest number that is tried for a name.
const MAX_NUMBER: u64 = 1 << 24;
/// The most numbers in a row that are tried for a name, for divisions that are exact only beside multiples of the divisor.
const MAX_IN_A_ROW: u64 = 512;
/// The most rounds over all names, for conditions on several names.
const MAX_ROUNDS: usize = 4;

/// The given numbers of names, and numbers for those other names of a module for which [`DEFAULT_BINDING`] will not do.
///
/// These grow until no dimension is shorter than 2, and each rearrangement has as many elements before as after: if a
/// reshape splits `H` into `H//7` and 7, `H` is a multiple of 7. Dimensions for which no number does so are disregarded,
/// such as `min(1,N)`. Every count of costs before and after a pass uses the numbers of the program before it.
#[must_use]
pub fn compared_sizes(
    module: &Module,
    registry: &Registry,
    given: &IndexMap<Arc<str>, u64>,
) -> IndexMap<Arc<str>, u64> {
    let module = &*named_sizes(module, registry);
    let mut found = Found::default();
    for func in &module.funcs {
        found.collect(func, registry);
    }
    let conditions = Conditions::new(found);
    let mut numbers = given.clone();
    for _ in 0..MAX_ROUNDS {
        let failed = conditions.all.iter().filter(|c| !c.holds(&numbers, None));
        let names: IndexSet<Arc<str>> = failed.flat_map(Condition::names).collect();
        let open = names.into_iter().filter(|name| !given.contains_key(name));
        let open: IndexSet<Arc<str>> = open.collect();
        let before = numbers.clone();
        for name in &open {
            conditions.grow(&IndexSet::from([name.clone()]), &mut numbers);
        }
        if 1 < open.len() {
            conditions.grow(&open, &mut numbers);
        }
        if numbers == before {
            break;
        }
    }
    numbers
}

/// The [`compared_sizes`] of a module of whose names none is given.
#[must_use]
pub fn unbound_sizes(module: &Module, registry: &Registry) -> SizeTable {
    SizeTable::new(&compared_sizes(module, registry, &IndexMap::new()))
}

/// A condition on the numbers.
enum Condition {
    /// A dimension is long enough.
    Extent(Size),
    /// The dimensions of two values have the same product.
    Volume([Vec<Size>; 2]),
}

impl Condition {
    fn sizes(&self) -> Vec<&Size> {
        match self {
            Condition::Extent(size) => vec![size],
            Condition::Volume(ends) => ends.iter().flatten().collect(),
        }
    }

    fn names(&self) -> Vec<Arc<str>> {
        self.sizes().into_iter().flat_map(Size::names).collect()
    }

    /// Returns whether the condition holds at these numbers, of which `tried` replaces those of some names.
    fn holds(&self, numbers: &IndexMap<Arc<str>, u64>, tried: Option<Tried<'_>>) -> bool {
        let number = |name: &str| match tried {
            Some((names, number)) if names.contains(name) => number,
            _ => numbers.get(name).copied().unwrap_or(DEFAULT_BINDING),
        };
        let value = |size: &Size| size.eval(&|name| Some(number(name)));
        match self {
            Condition::Extent(size) => value(size).is_none_or(|n| LEAST_EXTENT <= n),
            Condition::Volume([before, after]) => {
                let volume = |dims: &[Size]| {
                    let mut extents = dims.iter().map(value);
                    extents.try_fold(1i128, |all, n| all.checked_mul(n?))
                };
                volume(before) == volume(after)
            }
        }
    }
}

/// Names, and the number that is tried for them.
type Tried<'a> = (&'a IndexSet<Arc<str>>, u64);

/// The sizes of conditions, each once.
#[derive(Default)]
struct Found {
    extents: IndexSet<Size>,
    volumes: IndexSet<[Vec<Size>; 2]>,
}

impl Found {
    fn collect(&mut self, func: &Func, registry: &Registry) {
        for value in func.values.ids() {
            let dims = func.ty(value).as_tensor().map_or(&[][..], |ty| &ty.dims);
            self.extents
                .extend(named(dims).filter(|size| size.as_name().is_none()));
        }
        for &op in &func.body {
            self.volumes.extend(volumes(func, op, registry));
        }
    }
}

/// All conditions, and those of each name.
struct Conditions {
    all: Vec<Condition>,
    of: IndexMap<Arc<str>, IndexSet<usize>>,
}

impl Conditions {
    fn new(found: Found) -> Conditions {
        let extents = found.extents.into_iter().map(Condition::Extent);
        let volumes = found.volumes.into_iter().map(Condition::Volume);
        let all: Vec<Condition> = extents.chain(volumes).collect();
        let mut of: IndexMap<Arc<str>, IndexSet<usize>> = IndexMap::new();
        for (i, condition) in all.iter().enumerate() {
            for name in condition.names() {
                of.entry(name).or_default().insert(i);
            }
        }
        Conditions { all, of }
    }

    /// Gives some names the first number that meets the most conditions, if it meets more than their present ones.
    fn grow(&self, names: &IndexSet<Arc<str>>, numbers: &mut IndexMap<Arc<str>, u64>) {
        let of = names.iter().filter_map(|name| self.of.get(name));
        let concerned: IndexSet<usize> = of.flatten().copied().collect();
        let fails = |&i: &usize, tried| !self.all[i].holds(numbers, tried);
        let failed: Vec<usize> = concerned
            .iter()
            .copied()
            .filter(|i| fails(i, None))
            .collect();
        let sizes = failed.iter().flat_map(|&i| self.all[i].sizes());
        let step = sizes.map(divisor).max().unwrap_or(1);
        let first = DEFAULT_BINDING.next_multiple_of(step);
        let multiples = std::iter::successors(Some(first), |n| n.checked_mul(2));
        let multiples = multiples.take_while(|&n| n <= MAX_NUMBER);
        let in_a_row = DEFAULT_BINDING..DEFAULT_BINDING + step.min(MAX_IN_A_ROW);
        let (mut least, mut best) = (failed.len(), None);
        for number in multiples.chain(in_a_row) {
            if least == 0 {
                break;
            }
            let tried = Some((names, number));
            let count = concerned.iter().filter(|i| fails(i, tried)).count();
            if count < least {
                (least, best) = (count, Some(number));
            }
        }
        if let Some(number) = best {
            numbers.extend(names.iter().map(|name| (name.clone(), number)));
        }
    }
}

/// The dimensions that are not plain numbers.
fn named(dims: &[Dim]) -> impl Iterator<Item = Size> {
    let symbols = dims.iter().filter(|dim| matches!(dim, Dim::Symbol(_)));
    symbols.filter_map(Dim::size)
}

/// The dimensions before and after a rearrangement that cuts or merges named sizes.
fn volumes(func: &Func, op: Op, registry: &Registry) -> Option<[Vec<Size>; 2]> {
    let data = &func.ops[op];
    let ([from], [to]) = (&data.operands[..], &data.results[..]) else {
        return None;
    };
    let [before, after] = [from, to].map(|&v| func.ty(v).as_tensor().map(|ty| &ty.dims));
    let (before, after) = (before?, after?);
    let divides = |dims: &[Dim]| named(dims).any(|size| divisor(&size) != 1);
    let cuts = before != after && (divides(before) || divides(after));
    let rearranges = cuts && registry.rearrangement(&func.op_ref(op)).is_ok();
    rearranges.then(|| [before, after].map(|dims| dims.iter().map(Dim::cost).collect()))
}

/// The least common multiple of the numbers by which a size divides; 1 if it is too large.
fn divisor(size: &Size) -> u64 {
    let multiple = |a: u64, b: u64| {
        let (mut x, mut y) = (a, b);
        while y != 0 {
            (x, y) = (y, x % y);
        }
        let found = (a / x).checked_mul(b).filter(|&n| n <= MAX_NUMBER);
        found.unwrap_or(1)
    };
    let of = |factor: Factor<'_>| match factor {
        Factor::Name(_) => 1,
        Factor::Quotient(a, b) => {
            let by = b.as_extent().filter(|&n| n != 0).unwrap_or(1);
            multiple(by.min(MAX_NUMBER), divisor(a))
        }
        Factor::Min(a, b) | Factor::Max(a, b) => multiple(divisor(a), divisor(b)),
    };
    let factors = size.terms().flat_map(|(_, factors)| factors);
    factors.map(of).fold(1, multiple)
}
