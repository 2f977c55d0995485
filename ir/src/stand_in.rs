//! Numbers that stand for unknown sizes in decisions about layouts.

use crate::module::Func;
use crate::op::{Registry, ViewDims};
use crate::size::Size;
use crate::types::{Dim, TensorType};
use indexmap::IndexMap;
use optc_layout::ViewMap;
use std::sync::Arc;

/// The smallest stand-in primes to try, in order: the later ones are for shapes that overflow with larger primes.
pub const LEAST_PRIMES: [u64; 3] = [10_007, 503, 29];

/// Assigns a number to each unknown size. Each name, each sum and each `?` gets a prime of its own; a product gets the
/// product of its factors' numbers. So two products have equal numbers only if they are equal, and no cut divides a
/// name unless the program itself divides it.
///
/// Example: with 10,007 for `B` and 10,009 for `S`, the size `2*B*S` is 2 · 10,007 · 10,009.
///
/// The primes divide no known size of the program, so every number can be converted back into a size.
#[derive(Clone, Debug)]
pub struct StandIns {
    /// The meaning of each prime.
    atoms: IndexMap<u64, Atom>,
    by_size: IndexMap<Size, u64>,
    /// The multiple of its prime that a name gets, if the program cuts it into equal parts.
    scales: IndexMap<Arc<str>, u64>,
    /// The dimensions of the program, by their numbers.
    known: IndexMap<u64, Dim>,
    /// Cached numbers of named extents. The cache is cleared when a new sum or scale is added.
    by_dim: IndexMap<Dim, u64>,
    /// Known sizes that no prime may divide.
    avoid: Vec<u64>,
    least: u64,
    next: u64,
}

#[derive(Clone, Debug)]
enum Atom {
    /// A `?`.
    Nameless,
    /// A name, a sum or a quotient.
    Size(Size),
    /// A part of a name: the name is this multiple of the prime.
    Part(Arc<str>, u64),
}

impl StandIns {
    /// An empty table, with primes from `least` on.
    #[must_use]
    pub fn new(least: u64) -> StandIns {
        StandIns {
            atoms: IndexMap::new(),
            by_size: IndexMap::new(),
            scales: IndexMap::new(),
            known: IndexMap::new(),
            by_dim: IndexMap::new(),
            avoid: Vec::new(),
            least,
            next: least,
        }
    }

    /// Numbers for the values of a function; `None` if a value has 2^63 positions or more even with the smallest
    /// primes.
    #[must_use]
    pub fn for_func(func: &Func, registry: &Registry) -> Option<StandIns> {
        LEAST_PRIMES.iter().find_map(|&least| {
            let mut numbers = StandIns::new(least);
            let types = || func.values.ids().filter_map(|v| func.ty(v).as_tensor());
            types().for_each(|ty| numbers.avoid(&ty.dims));
            for &op in &func.body {
                let op = func.op_ref(op);
                let view = registry.rearrangement(&op);
                if let (Ok(view), Ok(x), Ok(y)) = (view, op.operand(0), op.result(0)) {
                    numbers.equate(&x.dims, &view.shape);
                    numbers.equate(&view.shape, &y.dims);
                }
            }
            let fits = |ty: &TensorType| {
                let named = ty.dims.iter().filter(|d| **d != Dim::Unknown);
                let sizes: Option<Vec<u64>> = named.map(|d| numbers.number(d)).collect();
                let open = ty.dims.iter().filter(|d| **d == Dim::Unknown);
                let open = open.map(|_| least.saturating_mul(2));
                let mut all = sizes?.into_iter().chain(open);
                let bits = u64::from(ty.dtype.bits());
                let total = all.try_fold(bits, u64::checked_mul)?;
                i64::try_from(total).ok()
            };
            let mut unfit = types().map(fits).filter(Option::is_none);
            let ok = unfit.next().is_none();
            ok.then_some(numbers)
        })
    }

    /// Registers the known sizes of `dims`: no later prime divides them.
    pub fn avoid(&mut self, dims: &[Dim]) {
        let large = dims.iter().filter_map(Dim::fixed);
        for n in large.filter(|&n| self.least <= n) {
            if !self.avoid.contains(&n) {
                self.avoid.push(n);
            }
        }
    }

    /// Handles two shapes with the same number of elements. If a quotient of a name such as `H//7` occurs, the name
    /// becomes a multiple of the number for that part, provided that this makes the volumes equal.
    pub fn equate(&mut self, from: &[Dim], to: &[Dim]) {
        let volume = |dims: &[Dim]| -> Option<Vec<Size>> { dims.iter().map(Dim::size).collect() };
        let (Some(from), Some(to)) = (volume(from), volume(to)) else {
            return;
        };
        let symbolic = from.iter().chain(&to).any(|s| s.as_constant().is_none());
        if !symbolic || Size::product(&from) == Size::product(&to) {
            return;
        }
        let old = self.scales.clone();
        self.by_dim.clear();
        for size in from.iter().chain(&to) {
            for factor in size.factors().1 {
                let Some((name, by)) = part_of_name(&factor) else {
                    continue;
                };
                let scale = self.scales.get(&name).copied().unwrap_or(1);
                if let Some(scale) = lcm(scale, by) {
                    self.scales.insert(name, scale);
                }
            }
        }
        let mut trial = StandIns {
            scales: self.scales.clone(),
            ..StandIns::new(self.least)
        };
        let mut number = |sizes: &[Size]| {
            let numbers: Option<Vec<u64>> = sizes.iter().map(|s| trial.number_of(s)).collect();
            numbers?.into_iter().try_fold(1u64, u64::checked_mul)
        };
        if number(&from) != number(&to) {
            self.scales = old;
        }
    }

    /// The number of an extent; a fresh one for each `?`. `None` if it is too large.
    pub fn number(&mut self, dim: &Dim) -> Option<u64> {
        match dim {
            Dim::Fixed(n) => Some(*n),
            Dim::Unknown => Some(self.fresh(Atom::Nameless)),
            Dim::Symbol(_) => {
                if let Some(&number) = self.by_dim.get(dim) {
                    return Some(number);
                }
                let number = self.number_of(&dim.size()?)?;
                self.known.entry(number).or_insert_with(|| dim.clone());
                self.by_dim.insert(dim.clone(), number);
                Some(number)
            }
        }
    }

    /// The numbers of `dims`, which has the same number of elements as the numbers `like`. A single `?` is found by
    /// division. Several are found if `dims` equals `like` except for extents of 1. `None` if a size remains open.
    pub fn complete(&mut self, dims: &[Dim], like: &[u64]) -> Option<Vec<u64>> {
        let mut known = Vec::with_capacity(dims.len());
        for dim in dims {
            known.push(match dim {
                Dim::Unknown => None,
                Dim::Fixed(_) | Dim::Symbol(_) => Some(self.number(dim)?),
            });
        }
        let sure: Vec<u64> = known.iter().copied().flatten().collect();
        if sure.len() == dims.len() {
            return Some(sure);
        }
        if sure.len() + 1 == dims.len()
            && let (Some(total), Some(others)) = (product(like), product(&sure))
            && others != 0
            && total.is_multiple_of(others)
        {
            let rest = u64::try_from(total / others).ok()?;
            return Some(known.into_iter().map(|n| n.unwrap_or(rest)).collect());
        }
        let mut long = like.iter().copied().filter(|&n| n != 1);
        let mut sizes = Vec::with_capacity(dims.len());
        for size in known {
            sizes.push(match size {
                Some(1) => 1,
                size => {
                    let next = long.next()?;
                    if size.is_some_and(|n| n != next) {
                        return None;
                    }
                    next
                }
            });
        }
        long.next().is_none().then_some(sizes)
    }

    /// The map of a rearrangement of a value of these numbers to a result of these dimensions. `None` if the sizes do not
    /// follow from each other.
    pub fn view_map(&mut self, from: &[u64], view: &ViewDims, result: &[Dim]) -> Option<ViewMap> {
        let shape = self.complete(&view.shape, from)?;
        let permuted: Vec<u64> = view.perm.iter().map(|&p| shape[p]).collect();
        let map = ViewMap {
            result: self.complete(result, &permuted)?,
            shape: Some(shape),
            perm: Some(view.perm.clone()),
        };
        map.check(from).is_ok().then_some(map)
    }

    fn number_of(&mut self, size: &Size) -> Option<u64> {
        let (count, factors) = size.factors();
        let Some(count) = u64::try_from(count).ok().filter(|&n| n != 0) else {
            return Some(self.prime(size));
        };
        let mut number = count;
        for factor in factors {
            number = number.checked_mul(self.number_of_factor(factor)?)?;
        }
        Some(number)
    }

    fn number_of_factor(&mut self, mut factor: Size) -> Option<u64> {
        if let Some(name) = factor.as_name()
            && let Some((name, &scale)) = self.scales.get_key_value(name)
        {
            let name = name.clone();
            return self.part(name).checked_mul(scale);
        }
        if let Some((name, by)) = part_of_name(&factor)
            && let Some(&scale) = self.scales.get(&name)
            && scale % by == 0
        {
            return self.part(name).checked_mul(scale / by);
        }
        // Divides out the sums that have a prime of their own.
        let mut number = 1u64;
        let sums = self.by_size.keys().filter(|s| s.as_name().is_none());
        let sums: Vec<Size> = sums.cloned().collect();
        for sum in sums {
            while sum != factor
                && let Some(rest) = factor.exact_quotient(&sum)
            {
                number = number.checked_mul(self.prime(&sum))?;
                factor = rest;
            }
        }
        number.checked_mul(self.prime(&factor))
    }

    /// The prime that a name is a multiple of.
    fn part(&mut self, name: Arc<str>) -> u64 {
        let scale = self.scales.get(&name).copied().unwrap_or(1);
        let size = Size::name(&name);
        if let Some(&prime) = self.by_size.get(&size) {
            return prime;
        }
        let prime = self.fresh(Atom::Part(name, scale));
        self.by_size.insert(size, prime);
        prime
    }

    fn prime(&mut self, size: &Size) -> u64 {
        if let Some(&prime) = self.by_size.get(size) {
            return prime;
        }
        let prime = self.fresh(Atom::Size(size.clone()));
        self.by_size.insert(size.clone(), prime);
        // Cached products may have the new sum as a factor.
        if size.as_name().is_none() {
            self.by_dim.clear();
        }
        prime
    }

    fn fresh(&mut self, atom: Atom) -> u64 {
        let divides = |n: u64, all: &[u64]| all.iter().any(|a| a.is_multiple_of(n));
        while !is_prime(self.next) || divides(self.next, &self.avoid) {
            self.next += 1;
        }
        let prime = self.next;
        self.next += 1;
        self.atoms.insert(prime, atom);
        prime
    }

    /// Registers a number that another table assigned to a `?`.
    pub fn adopt(&mut self, number: u64) {
        self.atoms.insert(number, Atom::Nameless);
    }

    /// Returns whether the table has a stand-in.
    #[must_use]
    pub fn any(&self) -> bool {
        !self.atoms.is_empty()
    }

    /// Returns whether a number contains a stand-in, and so stands for an unknown size.
    #[must_use]
    pub fn stands(&self, n: u64) -> bool {
        n != 0 && self.least <= n && self.atoms.keys().any(|&p| n.is_multiple_of(p))
    }

    /// The size for a number, which is a product of stand-ins and known sizes; a `?` in it is
    /// [`NAMELESS`](crate::size::NAMELESS).
    #[must_use]
    pub fn size(&self, n: u64) -> Option<Size> {
        if n == 0 || !self.stands(n) {
            return Some(Size::from(n));
        }
        let mut rest = n;
        let mut size = Size::constant(1);
        for (&prime, atom) in &self.atoms {
            while rest.is_multiple_of(prime) {
                rest /= prime;
                size = size.times(&match atom {
                    Atom::Nameless => Dim::Unknown.cost(),
                    Atom::Size(size) => size.clone(),
                    Atom::Part(name, scale) if rest.is_multiple_of(*scale) => {
                        rest /= scale;
                        Size::name(name)
                    }
                    Atom::Part(name, scale) => Size::name(name).quotient(&Size::from(*scale))?,
                })?;
            }
        }
        size.times(&Size::from(rest))
    }

    /// The dimension for a number: the number itself, unless a stand-in divides it.
    #[must_use]
    pub fn dim(&self, n: u64) -> Dim {
        match self.known.get(&n) {
            Some(dim) => dim.clone(),
            None => self
                .size(n)
                .map_or(Dim::Unknown, |size| Dim::of_size(&size)),
        }
    }

    /// A text with every number that stands for a size replaced by that size.
    #[must_use]
    pub fn reword(&self, text: &str) -> String {
        let mut out = String::with_capacity(text.len());
        let mut rest = text;
        while let Some(at) = rest.find(|c: char| c.is_ascii_digit()) {
            let (before, from) = rest.split_at(at);
            let end = from
                .find(|c: char| !c.is_ascii_digit())
                .unwrap_or(from.len());
            let (digits, after) = from.split_at(end);
            out.push_str(before);
            match digits.parse::<u64>() {
                Ok(n) if self.stands(n) => out.push_str(&self.dim(n).to_string()),
                Ok(_) | Err(_) => out.push_str(digits),
            }
            rest = after;
        }
        out.push_str(rest);
        out
    }
}

/// `(H, 7)` for `H//7`.
fn part_of_name(size: &Size) -> Option<(Arc<str>, u64)> {
    let (whole, by) = size.as_quotient()?;
    Some((Arc::from(whole.as_name()?), by.as_extent()?))
}

fn product(sizes: &[u64]) -> Option<u128> {
    sizes
        .iter()
        .try_fold(1u128, |a, &b| a.checked_mul(u128::from(b)))
}

fn lcm(a: u64, b: u64) -> Option<u64> {
    let (mut x, mut y) = (a, b);
    while y != 0 {
        (x, y) = (y, x % y);
    }
    a.checked_div(x)?.checked_mul(b)
}

fn is_prime(n: u64) -> bool {
    1 < n
        && (2..)
            .take_while(|d| d * d <= n)
            .all(|d| !n.is_multiple_of(d))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn dims(list: &[&str]) -> Vec<Dim> {
        let dim = |t: &&str| t.parse().map_or_else(|_| Dim::named(t), Dim::Fixed);
        list.iter().map(dim).collect()
    }

    fn volume(numbers: &mut StandIns, list: &[&str]) -> u64 {
        dims(list)
            .iter()
            .map(|d| numbers.number(d).unwrap())
            .product()
    }

    #[test]
    fn products_are_products_and_sums_are_primes() {
        let mut n = StandIns::new(503);
        assert_eq!(
            volume(&mut n, &["B", "S", "6"]),
            volume(&mut n, &["2*B*S", "3"])
        );
        assert_ne!(volume(&mut n, &["S+1"]), volume(&mut n, &["S"]) + 1);
        assert_eq!(volume(&mut n, &["S+1", "B"]), volume(&mut n, &["B*S+B"]));
        volume(&mut n, &["T-1"]);
        assert_eq!(
            volume(&mut n, &["S+1", "T-1"]),
            volume(&mut n, &["(S+1)*(T-1)"])
        );
    }

    #[test]
    fn a_number_says_what_it_stands_for() {
        let mut n = StandIns::new(503);
        n.avoid(&dims(&["1006", "509"]));
        let b = n.number(&Dim::named("B")).unwrap();
        assert_eq!(b, 521, "503 and 509 divide known sizes");
        assert_eq!(n.dim(6 * b).to_string(), "6*B");
        assert_eq!(n.dim(1006), Dim::Fixed(1006));
        let open = n.number(&Dim::Unknown).unwrap();
        assert_eq!(n.dim(open), Dim::Unknown);
        assert_eq!(n.size(2 * open).unwrap().to_string(), "2*?");
        assert_eq!(
            n.reword(&format!("from {b} to 7x{}", 2 * b)),
            "from B to 7x2*B"
        );
    }

    #[test]
    fn a_name_that_is_cut_is_a_multiple_of_its_part() {
        let mut n = StandIns::new(503);
        n.equate(&dims(&["B", "H", "768"]), &dims(&["B", "H//7", "7", "768"]));
        assert_eq!(volume(&mut n, &["H"]), volume(&mut n, &["H//7", "7"]));
        let h = n.number(&Dim::named("H")).unwrap();
        assert_eq!(
            (n.dim(h), n.dim(h / 7)),
            (Dim::named("H"), Dim::named("H//7"))
        );
        assert_eq!(n.dim(4 * h), Dim::named("4*H"));
        // A quotient that is not an exact part keeps a number of its own.
        n.equate(&dims(&["W"]), &dims(&["W//2"]));
        assert_ne!(volume(&mut n, &["W"]), volume(&mut n, &["W//2", "2"]));
    }
}
