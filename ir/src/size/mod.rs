//! Sizes that may be unknown: exact integer polynomials in named symbols.
//!
//! Example: `2*B*S + 4` and `2*(B*S + 2)` are the same value, printed as `2*B*S+4`. The sizes `B*S` and `S*B` are
//! equal, and `B*S` divided by `S` is `B`.

mod divide;
mod parse;
mod remembered;

pub use remembered::Remembered;

use indexmap::IndexMap;
use std::cmp::Ordering;
use std::collections::BTreeMap;
use std::fmt;
use std::sync::Arc;

/// The largest number of terms of a polynomial. No model needs as many; the limit keeps hostile text from making one
/// huge.
const MAX_TERMS: usize = 256;
/// The largest number of pairs of terms in one multiplication.
const MAX_PRODUCT: usize = 4096;
/// The largest degree of a term.
const MAX_DEGREE: u32 = 32;
/// The largest number of nested replacements of atoms by bounds in the search for a lower bound of a polynomial.
const MAX_BOUNDS: usize = 3;
/// The largest nesting depth of quotients.
const MAX_DEPTH: u32 = 16;

/// The name of an unknown size that has no name in the program; it prints as `?`.
pub const NAMELESS: &str = "?";

/// An integer that may depend on named sizes: a polynomial with integer coefficients.
///
/// The atoms of a polynomial are names, and quotients rounded down, minima and maxima of polynomials. Equal polynomials
/// are equal values of this type and have one printed form: `2*B*S+4`, `(S+1)//2`. A name is a size of at least 1.
/// Arithmetic is exact; a result that would overflow 128 bits or exceed the limits of this type is `None`.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Default)]
pub struct Size {
    /// Nonzero coefficients.
    terms: BTreeMap<Monomial, i128>,
}

/// An atom of a polynomial.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
enum Atom {
    /// A named size.
    Name(Arc<str>),
    /// The quotient of the first by the second, rounded down.
    Quotient(Arc<Size>, Arc<Size>),
    /// The minimum.
    Min(Arc<Size>, Arc<Size>),
    /// The maximum.
    Max(Arc<Size>, Arc<Size>),
}

/// A factor of a term of a [`Size`].
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Factor<'s> {
    /// A named size.
    Name(&'s Arc<str>),
    /// The quotient of the first by the second, rounded down.
    Quotient(&'s Size, &'s Size),
    /// The minimum.
    Min(&'s Size, &'s Size),
    /// The maximum.
    Max(&'s Size, &'s Size),
}

/// A product of atoms, sorted, each once with its exponent.
#[derive(Clone, PartialEq, Eq, Hash, Debug, Default)]
struct Monomial(Vec<(Atom, u32)>);

impl Monomial {
    fn degree(&self) -> u32 {
        self.0.iter().map(|(_, e)| *e).sum()
    }

    fn times(&self, other: &Monomial) -> Option<Monomial> {
        let mut all: BTreeMap<&Atom, u32> = BTreeMap::new();
        for (atom, e) in self.0.iter().chain(&other.0) {
            *all.entry(atom).or_default() += e;
        }
        let product = Monomial(all.into_iter().map(|(a, e)| (a.clone(), e)).collect());
        (product.degree() <= MAX_DEGREE).then_some(product)
    }

    /// The factors, each repeated as often as its exponent says.
    fn factors(&self) -> Vec<Factor<'_>> {
        let mut all = Vec::new();
        for (atom, exponent) in &self.0 {
            let factor = match atom {
                Atom::Name(name) => Factor::Name(name),
                Atom::Quotient(a, b) => Factor::Quotient(a, b),
                Atom::Min(a, b) => Factor::Min(a, b),
                Atom::Max(a, b) => Factor::Max(a, b),
            };
            all.extend((0..*exponent).map(|_| factor));
        }
        all
    }

    /// The product without the factors of `other`; `None` if one of them is missing.
    fn without(&self, other: &Monomial) -> Option<Monomial> {
        let mut rest: BTreeMap<&Atom, u32> = self.0.iter().map(|(a, e)| (a, *e)).collect();
        for (atom, e) in &other.0 {
            let left = rest.get_mut(atom)?;
            *left = left.checked_sub(*e)?;
        }
        let kept = rest.into_iter().filter(|(_, e)| *e != 0);
        Some(Monomial(kept.map(|(a, e)| (a.clone(), e)).collect()))
    }

    /// The greatest common divisor of two products.
    fn common(&self, other: &Monomial) -> Monomial {
        let both = |(atom, e): &(Atom, u32)| {
            let there = other.0.iter().find(|(a, _)| a == atom)?;
            Some((atom.clone(), (*e).min(there.1)))
        };
        Monomial(self.0.iter().filter_map(both).collect())
    }
}

impl Ord for Monomial {
    /// By degree, then by the exponents of the atoms in their order. The order is a monomial order: multiplication
    /// preserves it.
    fn cmp(&self, other: &Monomial) -> Ordering {
        let by_exponents = || {
            for ((a, x), (b, y)) in self.0.iter().zip(&other.0) {
                let order = b.cmp(a).then(x.cmp(y));
                if order != Ordering::Equal {
                    return order;
                }
            }
            self.0.len().cmp(&other.0.len())
        };
        self.degree().cmp(&other.degree()).then_with(by_exponents)
    }
}

impl PartialOrd for Monomial {
    fn partial_cmp(&self, other: &Monomial) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl From<u64> for Size {
    fn from(n: u64) -> Size {
        Size::constant(i128::from(n))
    }
}

impl Size {
    /// A constant.
    #[must_use]
    pub fn constant(n: i128) -> Size {
        Size::term(Monomial::default(), n)
    }

    /// The size of this name, whatever characters it has; see [`Size::parse`] for expressions.
    #[must_use]
    pub fn name(name: &str) -> Size {
        Size::atom(Atom::Name(Arc::from(name)))
    }

    fn atom(atom: Atom) -> Size {
        Size::term(Monomial(vec![(atom, 1)]), 1)
    }

    fn term(monomial: Monomial, coefficient: i128) -> Size {
        let mut terms = BTreeMap::new();
        if coefficient != 0 {
            terms.insert(monomial, coefficient);
        }
        Size { terms }
    }

    /// The number, if the size has no names.
    #[must_use]
    pub fn as_constant(&self) -> Option<i128> {
        let Some((monomial, &c)) = self.terms.last_key_value() else {
            return Some(0);
        };
        monomial.0.is_empty().then_some(c)
    }

    /// Both numbers, if neither size has names. Most sizes are constants, and numbers are cheaper than polynomials.
    fn constants(&self, other: &Size) -> Option<(i128, i128)> {
        Some((self.as_constant()?, other.as_constant()?))
    }

    /// The number as an extent, if it is one.
    #[must_use]
    pub fn as_extent(&self) -> Option<u64> {
        self.as_constant().and_then(|n| u64::try_from(n).ok())
    }

    /// The name, if the size is a single name.
    #[must_use]
    pub fn as_name(&self) -> Option<&str> {
        match self.as_atom()? {
            Atom::Name(name) => Some(name),
            Atom::Quotient(..) | Atom::Min(..) | Atom::Max(..) => None,
        }
    }

    /// Dividend and divisor, if the size is a single quotient.
    #[must_use]
    pub fn as_quotient(&self) -> Option<(&Size, &Size)> {
        match self.as_atom()? {
            Atom::Quotient(a, b) => Some((a, b)),
            Atom::Name(_) | Atom::Min(..) | Atom::Max(..) => None,
        }
    }

    /// `(name, factor, constant)`, if the size is `factor * name + constant`.
    #[must_use]
    pub fn as_linear(&self) -> Option<(&Arc<str>, i128, i128)> {
        let (leading, &factor) = self.terms.last_key_value()?;
        let [(Atom::Name(name), 1)] = &leading.0[..] else {
            return None;
        };
        let rest = self.terms.get(&Monomial::default()).copied();
        let count = 1 + usize::from(rest.is_some());
        (self.terms.len() == count).then(|| (name, factor, rest.unwrap_or(0)))
    }

    /// The terms of the sum, highest degree first: the coefficient and the other factors.
    pub fn terms(&self) -> impl Iterator<Item = (i128, Vec<Factor<'_>>)> {
        self.terms.iter().rev().map(|(m, &c)| (c, m.factors()))
    }

    fn as_atom(&self) -> Option<&Atom> {
        let (monomial, &coefficient) = self.terms.first_key_value()?;
        match (self.terms.len(), &monomial.0[..], coefficient) {
            (1, [(atom, 1)], 1) => Some(atom),
            _ => None,
        }
    }

    /// The names, each once, in order of appearance.
    #[must_use]
    pub fn names(&self) -> Vec<Arc<str>> {
        let mut names = Vec::new();
        self.collect_names(&mut names);
        names
    }

    fn collect_names(&self, names: &mut Vec<Arc<str>>) {
        for (atom, _) in self.terms.keys().rev().flat_map(|m| &m.0) {
            match atom {
                Atom::Name(name) if names.contains(name) => {}
                Atom::Name(name) => names.push(name.clone()),
                Atom::Quotient(a, b) | Atom::Min(a, b) | Atom::Max(a, b) => {
                    a.collect_names(names);
                    b.collect_names(names);
                }
            }
        }
    }

    fn depth(&self) -> u32 {
        let of = |atom: &Atom| match atom {
            Atom::Name(_) => 0,
            Atom::Quotient(a, b) | Atom::Min(a, b) | Atom::Max(a, b) => {
                1 + a.depth().max(b.depth())
            }
        };
        let atoms = self.terms.keys().flat_map(|m| &m.0);
        atoms.map(|(atom, _)| of(atom)).max().unwrap_or(0)
    }

    /// The sum.
    #[must_use]
    pub fn plus(&self, other: &Size) -> Option<Size> {
        if let Some((a, b)) = self.constants(other) {
            return a.checked_add(b).map(Size::constant);
        }
        let mut sum = self.clone();
        for (monomial, &c) in &other.terms {
            sum.add_term(monomial.clone(), c)?;
        }
        Some(sum)
    }

    fn add_term(&mut self, monomial: Monomial, c: i128) -> Option<()> {
        let sum = self
            .terms
            .get(&monomial)
            .map_or(Some(c), |a| a.checked_add(c))?;
        if sum == 0 {
            self.terms.remove(&monomial);
        } else {
            self.terms.insert(monomial, sum);
        }
        (self.terms.len() <= MAX_TERMS).then_some(())
    }

    /// The difference.
    #[must_use]
    pub fn minus(&self, other: &Size) -> Option<Size> {
        if let Some((a, b)) = self.constants(other) {
            return a.checked_sub(b).map(Size::constant);
        }
        self.plus(&other.times(&Size::constant(-1))?)
    }

    /// The product.
    #[must_use]
    pub fn times(&self, other: &Size) -> Option<Size> {
        if let Some((a, b)) = self.constants(other) {
            return a.checked_mul(b).map(Size::constant);
        }
        if MAX_PRODUCT < self.terms.len() * other.terms.len() {
            return None;
        }
        let mut product = Size::default();
        for (m, &a) in &self.terms {
            for (n, &b) in &other.terms {
                product.add_term(m.times(n)?, a.checked_mul(b)?)?;
            }
        }
        Some(product)
    }

    /// The product of all sizes.
    #[must_use]
    pub fn product<'a>(sizes: impl IntoIterator<Item = &'a Size>) -> Option<Size> {
        sizes
            .into_iter()
            .try_fold(Size::constant(1), |product, size| product.times(size))
    }

    /// The minimum of both.
    #[must_use]
    pub fn minimum(&self, other: &Size) -> Option<Size> {
        self.choose(other, true)
    }

    /// The maximum of both.
    #[must_use]
    pub fn maximum(&self, other: &Size) -> Option<Size> {
        self.choose(other, false)
    }

    fn choose(&self, other: &Size, smaller: bool) -> Option<Size> {
        let pick = |first: bool| Some(if first == smaller { self } else { other }.clone());
        if other.minus(self)?.is_at_least(0) {
            return pick(true);
        }
        if self.minus(other)?.is_at_least(0) {
            return pick(false);
        }
        let is_of = |whole: &Size, part: &Size| match (whole.as_atom(), smaller) {
            (Some(Atom::Min(a, b)), true) | (Some(Atom::Max(a, b)), false) => {
                **a == *part || **b == *part
            }
            _ => false,
        };
        if is_of(self, other) {
            return Some(self.clone());
        }
        if is_of(other, self) {
            return Some(other.clone());
        }
        if MAX_DEPTH <= self.depth().max(other.depth()) {
            return None;
        }
        let (a, b) = if self < other {
            (self, other)
        } else {
            (other, self)
        };
        let (a, b) = (Arc::new(a.clone()), Arc::new(b.clone()));
        Some(Size::atom(if smaller {
            Atom::Min(a, b)
        } else {
            Atom::Max(a, b)
        }))
    }

    /// Returns whether the size provably is at least `least` for all positive values of the names.
    #[must_use]
    pub fn is_at_least(&self, least: i128) -> bool {
        self.reaches(least, MAX_BOUNDS)
    }

    /// [`Size::is_at_least`] with at most `steps` nested replacements of an atom by a bound.
    fn reaches(&self, least: i128, steps: usize) -> bool {
        if let Some(n) = self.as_constant() {
            return least <= n;
        }
        if self.is_somewhere_below(least) {
            return false;
        }
        self.least_by_terms(steps).is_some_and(|n| least <= n)
            || steps
                .checked_sub(1)
                .is_some_and(|steps| self.reaches_by_bounds(least, steps))
    }

    /// Returns whether the size is less than `least` for one of a few trial values of the names.
    fn is_somewhere_below(&self, least: i128) -> bool {
        let hash = |name: &str| {
            let step = |sum: u64, byte: u8| (sum ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3);
            name.bytes().fold(0xcbf2_9ce4_8422_2325, step)
        };
        let sizes: [&dyn Fn(&str) -> u64; 4] =
            [&|_| 1, &|_| 2, &|name| 1 + hash(name) % 13, &|name| {
                1 + (hash(name) >> 32) % 1009
            }];
        sizes.iter().any(|size_of| {
            let value = self.eval(&|name| Some(size_of(name)));
            value.is_some_and(|value| value < least)
        })
    }

    /// The sum of the lower bounds of the terms.
    fn least_by_terms(&self, steps: usize) -> Option<i128> {
        // A term of names alone is at least its coefficient. A term with another atom is at least 0.
        let mut bound = 0i128;
        for (monomial, &c) in &self.terms {
            let all = |least| {
                let mut atoms = monomial.0.iter();
                atoms.all(|(atom, _)| atom.is_at_least(least, steps))
            };
            let term = match monomial.0.is_empty() {
                true => c,
                false if c < 0 => return None,
                false if all(1) => c,
                false if all(0) => 0,
                false => return None,
            };
            bound = bound.checked_add(term)?;
        }
        Some(bound)
    }

    /// Returns whether the size is at least `least` after a replacement of one atom, which must be the whole term apart
    /// from the coefficient, by a bound that makes the sum no larger.
    fn reaches_by_bounds(&self, least: i128, steps: usize) -> bool {
        self.terms.iter().any(|(monomial, &c)| {
            let [(atom, 1)] = &monomial.0[..] else {
                return false;
            };
            let with = |scale: i128, other: &Size, least: i128| {
                let rest = self.minus(&Size::term(monomial.clone(), c))?;
                let rest = rest.times(&Size::constant(scale))?;
                let sum = rest.plus(&other.times(&Size::constant(c))?)?;
                Some(sum.reaches(least, steps))
            };
            let reached = match atom {
                // `a//b` is at most `a/b` and at least `(a-b+1)/b`; the sum is an integer.
                Atom::Quotient(a, b) => b.as_constant().filter(|&b| 0 < b).and_then(|b| {
                    let above = least.checked_sub(1)?.checked_mul(b)?.checked_add(1)?;
                    let lost = if c < 0 { 0 } else { b.checked_sub(1)? };
                    with(b, &a.minus(&Size::constant(lost))?, above)
                }),
                Atom::Min(a, b) if c < 0 => {
                    let either = [a, b].map(|part| with(1, part, least));
                    either.contains(&Some(true)).then_some(true)
                }
                Atom::Max(a, b) if 0 < c => {
                    let either = [a, b].map(|part| with(1, part, least));
                    either.contains(&Some(true)).then_some(true)
                }
                Atom::Min(..) | Atom::Max(..) | Atom::Name(_) => None,
            };
            reached == Some(true)
        })
    }

    /// Returns whether the size provably is not 0.
    #[must_use]
    pub fn is_nonzero(&self) -> bool {
        let negative = || self.times(&Size::constant(-1));
        self.is_odd_one_out() || self.is_at_least(1) || negative().is_some_and(|n| n.is_at_least(1))
    }

    /// Returns whether some number divides all terms except the constant one, as 2 does for `2*(S//2)+1`.
    fn is_odd_one_out(&self) -> bool {
        let named = self.terms.iter().filter(|(m, _)| !m.0.is_empty());
        let divisor = named.fold(0, |all, (_, &c)| divide::gcd(all, c));
        let number = self.terms.iter().find(|(m, _)| m.0.is_empty());
        number.is_some_and(|(_, &c)| divisor != 0 && c.checked_rem(divisor) != Some(0))
    }

    /// The value of the size for these values of the names; `None` if a name has no value, on a division by 0 and on
    /// overflow.
    #[must_use]
    pub fn eval(&self, size_of: &dyn Fn(&str) -> Option<u64>) -> Option<i128> {
        let mut sum = 0i128;
        for (monomial, &c) in &self.terms {
            let mut product = c;
            for (atom, exponent) in &monomial.0 {
                let n = atom.eval(size_of)?;
                product = product.checked_mul(n.checked_pow(*exponent)?)?;
            }
            sum = sum.checked_add(product)?;
        }
        Some(sum)
    }

    /// The size with `name` replaced by `number`.
    #[must_use]
    pub fn with(&self, name: &str, number: u64) -> Option<Size> {
        self.substituted(&|own| (own == name).then(|| Size::from(number)))
    }

    /// The bytes of this many elements of `bits` bits each, rounded up.
    #[must_use]
    pub fn in_bytes(&self, bits: u32) -> Option<Size> {
        let number = |n: u32| Size::from(u64::from(n));
        match bits % 8 {
            0 => self.times(&number(bits / 8)),
            _ => self.times(&number(bits))?.quotient_up(&number(8)),
        }
    }

    /// The size with each name replaced by the result of `meant`; a name for which that is `None` stays.
    #[must_use]
    pub fn substituted(&self, meant: &dyn Fn(&str) -> Option<Size>) -> Option<Size> {
        let mut sum = Size::default();
        for (monomial, &c) in &self.terms {
            let mut product = Size::constant(c);
            for (atom, exponent) in &monomial.0 {
                let factor = atom.substituted(meant)?;
                for _ in 0..*exponent {
                    product = product.times(&factor)?;
                }
            }
            sum = sum.plus(&product)?;
        }
        Some(sum)
    }

    /// Solves for the only name without a value: `self` must equal `total`. `None` if the solution is no integer of at
    /// least 0, or if `self` is not linear in exactly one such name.
    #[must_use]
    pub fn solve(
        &self,
        total: u64,
        size_of: &dyn Fn(&str) -> Option<u64>,
    ) -> Option<(Arc<str>, u64)> {
        let mut open = self.names().into_iter().filter(|n| size_of(n).is_none());
        let (name, None) = (open.next()?, open.next()) else {
            return None;
        };
        let at = |n: u64| self.eval(&|s| if *s == *name { Some(n) } else { size_of(s) });
        let (base, one, two) = (at(0)?, at(1)?, at(2)?);
        let step = one.checked_sub(base)?;
        let linear = two.checked_sub(one)? == step && step != 0;
        let rest = i128::from(total).checked_sub(base)?;
        let exact = linear && rest.checked_rem(step) == Some(0);
        let size = u64::try_from(rest.checked_div(step)?).ok();
        let size = size.filter(|&n| exact && at(n) == Some(i128::from(total)))?;
        Some((name, size))
    }

    /// The largest number, names and powers of names that divide every term, and the remaining polynomial. Their
    /// product is `self`.
    #[must_use]
    pub fn factors(&self) -> (i128, Vec<Size>) {
        let mut terms = self.terms.iter();
        let Some((first, &c)) = terms.next() else {
            return (0, Vec::new());
        };
        let (mut number, mut shared) = (c, first.clone());
        for (monomial, &c) in terms {
            number = divide::gcd(number, c);
            shared = shared.common(monomial);
        }
        let mut factors: Vec<Size> = Vec::new();
        for (atom, e) in &shared.0 {
            factors.extend((0..*e).map(|_| Size::atom(atom.clone())));
        }
        let content = Size::term(shared, number);
        match self.exact_quotient(&content) {
            Some(rest) if rest.as_constant() == Some(1) => {}
            Some(rest) => factors.push(rest),
            // Unreachable: the content divides every term.
            None => return (1, vec![self.clone()]),
        }
        (number, factors)
    }
}

impl Atom {
    fn is_at_least(&self, least: i128, steps: usize) -> bool {
        match self {
            Atom::Name(_) => least <= 1,
            // `a//b` is at least `n` if `a` is at least `n*b`.
            Atom::Quotient(a, b) => {
                let rest = b.times(&Size::constant(least)).and_then(|nb| a.minus(&nb));
                b.reaches(1, steps) && rest.is_some_and(|rest| rest.reaches(0, steps))
            }
            Atom::Min(a, b) => a.reaches(least, steps) && b.reaches(least, steps),
            Atom::Max(a, b) => a.reaches(least, steps) || b.reaches(least, steps),
        }
    }

    fn substituted(&self, meant: &dyn Fn(&str) -> Option<Size>) -> Option<Size> {
        let part = |size: &Size| size.substituted(meant);
        match self {
            Atom::Name(own) => Some(meant(own).unwrap_or_else(|| Size::atom(self.clone()))),
            Atom::Quotient(a, b) => part(a)?.quotient(&part(b)?),
            Atom::Min(a, b) => part(a)?.minimum(&part(b)?),
            Atom::Max(a, b) => part(a)?.maximum(&part(b)?),
        }
    }

    fn eval(&self, size_of: &dyn Fn(&str) -> Option<u64>) -> Option<i128> {
        match self {
            Atom::Name(name) => size_of(name).map(i128::from),
            Atom::Quotient(a, b) => {
                let (a, b) = (a.eval(size_of)?, b.eval(size_of)?);
                divide::floor(a, b)
            }
            Atom::Min(a, b) => Some(a.eval(size_of)?.min(b.eval(size_of)?)),
            Atom::Max(a, b) => Some(a.eval(size_of)?.max(b.eval(size_of)?)),
        }
    }
}

/// Returns whether a name can be written in an expression without backquotes.
fn is_plain(name: &str) -> bool {
    let mut bytes = name.bytes();
    let first = bytes.next();
    first.is_some_and(|b| b.is_ascii_alphabetic() || b == b'_')
        && bytes.all(|b| b.is_ascii_alphanumeric() || matches!(b, b'_' | b'.' | b'$'))
        && !matches!(name, "min" | "max" | "floor" | "ceil")
}

impl fmt::Display for Atom {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let part = |size: &Size| {
            let simple = size.as_atom().is_some_and(|a| matches!(a, Atom::Name(_)));
            if simple || size.as_extent().is_some() {
                format!("{size}")
            } else {
                format!("({size})")
            }
        };
        match self {
            Atom::Name(name) if is_plain(name) || &**name == NAMELESS => f.write_str(name),
            Atom::Name(name) => write!(f, "`{name}`"),
            Atom::Quotient(a, b) => write!(f, "({}//{})", part(a), part(b)),
            Atom::Min(a, b) => write!(f, "min({a},{b})"),
            Atom::Max(a, b) => write!(f, "max({a},{b})"),
        }
    }
}

impl fmt::Display for Size {
    /// `2*B*S+4`; with `{:#}` there are spaces around the signs between terms. [`Size::parse`] reads it back. It is
    /// also a Python expression, except for names that are no Python identifiers.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if let Some(Atom::Quotient(..)) = self.as_atom() {
            let text = self.as_atom().map(Atom::to_string).unwrap_or_default();
            let bare = text.strip_prefix('(').and_then(|t| t.strip_suffix(')'));
            return f.write_str(bare.unwrap_or(&text));
        }
        if self.terms.is_empty() {
            return f.write_str("0");
        }
        let gap = if f.alternate() { " " } else { "" };
        for (i, (monomial, &c)) in self.terms.iter().rev().enumerate() {
            let sign = match (i, c < 0) {
                (0, true) => "-".to_owned(),
                (0, false) => String::new(),
                (_, true) => format!("{gap}-{gap}"),
                (_, false) => format!("{gap}+{gap}"),
            };
            f.write_str(&sign)?;
            let mut factors: Vec<String> = Vec::new();
            if c.unsigned_abs() != 1 || monomial.0.is_empty() {
                factors.push(c.unsigned_abs().to_string());
            }
            for (atom, e) in &monomial.0 {
                factors.extend((0..*e).map(|_| atom.to_string()));
            }
            f.write_str(&factors.join("*"))?;
        }
        Ok(())
    }
}

/// Values of names for comparing costs: the given values, else a default.
#[derive(Clone, Debug, Default)]
pub struct SizeTable {
    given: IndexMap<Arc<str>, u64>,
}

/// The value of a name that no binding gives, for comparing costs.
pub const DEFAULT_BINDING: u64 = 128;

impl SizeTable {
    /// A table with these values.
    #[must_use]
    pub fn new(given: &IndexMap<Arc<str>, u64>) -> SizeTable {
        SizeTable {
            given: given.clone(),
        }
    }

    /// The value of a name: the given one, else [`DEFAULT_BINDING`].
    #[must_use]
    pub fn get(&self, name: &str) -> u64 {
        self.given.get(name).copied().unwrap_or(DEFAULT_BINDING)
    }

    /// The value of a polynomial. A negative one counts as 0; one that cannot be computed or is too large counts as the
    /// largest number.
    #[must_use]
    pub fn value(&self, size: &Size) -> u64 {
        match size.eval(&|name| Some(self.get(name))) {
            Some(n) => u64::try_from(n.max(0)).unwrap_or(u64::MAX),
            None => u64::MAX,
        }
    }
}

#[cfg(test)]
mod tests;
