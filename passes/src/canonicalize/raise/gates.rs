//! Sigmoid, SiLU and GELU from their parts.
//!
//! A gate is a function of a polynomial of x, and the result is a polynomial of x and the gate. Comparing polynomials
//! covers every order and grouping of the factors and terms.
//!
//! Example: `0.5 * x * (1 + erf(x / sqrt 2))` is `0.5 x + 0.5 x t` with `t = erf(0.7071 x)`.

use super::seen::{Seen, Sight};
use super::{Leaves, Raised};
use crate::rules::{Refusal, ensure};
use optc_ir::Value;
use optc_ops::{
    Add, Approximate, Div, Erf, Erfc, Exp, Gelu, Mul, Neg, Pow, Sigmoid, Silu, Sub, Tanh,
};
use std::collections::BTreeMap;
use std::f64::consts::{FRAC_1_SQRT_2, PI};

/// 1 / (1 + exp(-x)).
pub(super) fn sigmoid(sight: &Sight<'_>, root: Value) -> Result<Raised, Refusal> {
    let root = sight.seen(root).ok_or(Refusal("no tensor"))?;
    let below = sight.inverted(&root).ok_or(Refusal("no quotient of 1"))?;
    let x = one_plus_power(sight, &below)?;
    Ok(Raised::new(Sigmoid {}, Leaves::of(&[x])))
}

/// x * sigmoid(x), also as x / (1 + exp(-x)).
pub(super) fn silu(sight: &Sight<'_>, root: Value) -> Result<Raised, Refusal> {
    let root = sight.seen(root).ok_or(Refusal("no tensor"))?;
    for [x, gate] in sight.pairs::<Mul>(&root) {
        if let Some(of) = sight.unary::<Sigmoid>(&gate)
            && sight.same(&of, &x)
        {
            let x = sight
                .whole(&x)
                .ok_or(Refusal("the operand has another type"))?;
            return Ok(Raised::new(Silu {}, Leaves::of(&[x])));
        }
    }
    let [x, below] = sight.quotient(&root).ok_or(Refusal("no quotient"))?;
    let of = one_plus_power(sight, &below)?;
    let x = sight
        .whole(&x)
        .ok_or(Refusal("the operand has another type"))?;
    ensure(x == of, "the gate is that of another value")?;
    Ok(Raised::new(Silu {}, Leaves::of(&[x])))
}

/// The operand of 1 + exp(-x).
fn one_plus_power(sight: &Sight<'_>, seen: &Seen) -> Result<Value, Refusal> {
    let (power, one) = sight
        .plus_number(seen)
        .ok_or(Refusal("no sum with a constant"))?;
    ensure(one == 1.0, "another constant than 1 is added")?;
    let negative = sight
        .unary::<Exp>(&power)
        .ok_or(Refusal("no exponential"))?;
    let x = sight
        .unary::<Neg>(&negative)
        .ok_or(Refusal("no exponential of -x"))?;
    sight
        .whole(&x)
        .ok_or(Refusal("the operand has another type"))
}

/// The function of a gate.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Function {
    Erf,
    Erfc,
    Tanh,
    Sigmoid,
}

/// The coefficients of a polynomial, by the powers of x and of the gate.
type Polynomial = BTreeMap<(u8, u8), f64>;

/// The highest power of x in a gate's argument.
const DEGREE: u8 = 3;
/// The greatest depth of operations in a polynomial.
const DEPTH: usize = 8;
/// The most values that are tried as x.
const CANDIDATES: usize = 12;

/// x * Phi(x), with the distribution function by erf, erfc, tanh or sigmoid.
pub(super) fn gelu(sight: &Sight<'_>, root: Value) -> Result<Raised, Refusal> {
    let root = sight.seen(root).ok_or(Refusal("no tensor"))?;
    let (function, gate, of) = gate(sight, &root, 4).ok_or(Refusal("there is no gate"))?;
    let mut candidates = Vec::new();
    add_candidates(sight, &of, DEPTH, &mut candidates);
    let found = candidates.iter().find_map(|x| {
        let argument = polynomial(sight, &of, x, None, DEPTH)?;
        let result = polynomial(sight, &root, x, Some(&gate), DEPTH)?;
        Some((
            sight.whole(x)?,
            approximation(sight, function, &argument, &result)?,
        ))
    });
    let (x, approximate) = found.ok_or(Refusal("it is another function of the gate"))?;
    Ok(Raised::new(Gelu { approximate }, Leaves::of(&[x])))
}

/// The gelu whose gate has this argument and whose result is this.
fn approximation(
    sight: &Sight<'_>,
    function: Function,
    argument: &Polynomial,
    result: &Polynomial,
) -> Option<Approximate> {
    let is = |found: &Polynomial, wanted: &[((u8, u8), f64)]| {
        let near =
            |(powers, y): &((u8, u8), f64)| found.get(powers).is_some_and(|x| sight.near(*x, *y));
        found.len() == wanted.len() && wanted.iter().all(near)
    };
    let cubic = |k: f64| [((1, 0), k), ((3, 0), k * 0.044_715)];
    let root = (2.0 / PI).sqrt();
    let halves = [((1, 0), 0.5), ((1, 1), 0.5)];
    let (approximate, wanted, whole): (_, &[_], &[_]) = match function {
        Function::Erf => (Approximate::None, &[((1, 0), FRAC_1_SQRT_2)], &halves),
        Function::Erfc => (Approximate::None, &[((1, 0), -FRAC_1_SQRT_2)], &halves[1..]),
        Function::Tanh => (Approximate::Tanh, &cubic(root), &halves),
        Function::Sigmoid => (Approximate::Tanh, &cubic(2.0 * root), &[((1, 1), 1.0)]),
    };
    (is(argument, wanted) && is(result, whole)).then_some(approximate)
}

/// The first gate among the factors and terms of a value, and its argument.
fn gate(sight: &Sight<'_>, seen: &Seen, depth: usize) -> Option<(Function, Seen, Seen)> {
    let found = sight.unary::<Erf>(seen).map(|of| (Function::Erf, of));
    let found = found.or_else(|| Some((Function::Erfc, sight.unary::<Erfc>(seen)?)));
    let found = found.or_else(|| Some((Function::Tanh, sight.unary::<Tanh>(seen)?)));
    let found = found.or_else(|| Some((Function::Sigmoid, sight.unary::<Sigmoid>(seen)?)));
    if let Some((function, of)) = found {
        return Some((function, seen.clone(), of));
    }
    let depth = depth.checked_sub(1)?;
    let parts = parts(sight, seen)?;
    parts.iter().find_map(|part| gate(sight, part, depth))
}

/// The operands of a product, quotient, sum or difference.
fn parts(sight: &Sight<'_>, seen: &Seen) -> Option<[Seen; 2]> {
    let sum = || {
        sight
            .binary::<Add>(seen)
            .or_else(|| sight.binary::<Sub>(seen))
    };
    let product = sight
        .binary::<Mul>(seen)
        .or_else(|| sight.binary::<Div>(seen));
    product.or_else(sum)
}

/// The values in a gate's argument that may be x, the outermost first.
fn add_candidates(sight: &Sight<'_>, seen: &Seen, depth: usize, all: &mut Vec<Seen>) {
    if CANDIDATES <= all.len() || all.contains(seen) {
        return;
    }
    if sight.whole(seen).is_some() {
        all.push(seen.clone());
    }
    let Some(depth) = depth.checked_sub(1) else {
        return;
    };
    let power = || sight.binary::<Pow>(seen);
    let below = parts(sight, seen).or_else(power);
    for part in below.into_iter().flatten().chain(sight.unary::<Neg>(seen)) {
        add_candidates(sight, &part, depth, all);
    }
}

/// A value as a polynomial of x and a gate.
fn polynomial(
    sight: &Sight<'_>,
    seen: &Seen,
    x: &Seen,
    gate: Option<&Seen>,
    depth: usize,
) -> Option<Polynomial> {
    let of = |part: &Seen| polynomial(sight, part, x, gate, depth - 1);
    if sight.same(seen, x) {
        return Some(BTreeMap::from([((1, 0), 1.0)]));
    }
    if gate.is_some_and(|gate| sight.same(seen, gate)) {
        return Some(BTreeMap::from([((0, 1), 1.0)]));
    }
    if let Some(number) = sight.number(seen) {
        return Some(BTreeMap::from([((0, 0), number)]));
    }
    if depth == 0 {
        return None;
    }
    if let Some([a, b]) = sight.binary::<Mul>(seen) {
        return times(&of(&a)?, &of(&b)?);
    }
    if let Some([a, b]) = sight.binary::<Div>(seen) {
        return times(
            &of(&a)?,
            &BTreeMap::from([((0, 0), 1.0 / sight.number(&b)?)]),
        );
    }
    if let Some([a, b]) = sight.binary::<Add>(seen) {
        return Some(plus(of(&a)?, &of(&b)?, 1.0));
    }
    if let Some([a, b]) = sight.difference(seen) {
        return Some(plus(of(&a)?, &of(&b)?, -1.0));
    }
    if let Some(a) = sight.unary::<Neg>(seen) {
        return Some(plus(BTreeMap::new(), &of(&a)?, -1.0));
    }
    let [a, power] = sight.binary::<Pow>(seen)?;
    let (base, power) = (of(&a)?, sight.number(&power)?);
    let power = (1..=DEGREE).find(|&n| f64::from(n) == power)?;
    (1..power).try_fold(base.clone(), |made, _| times(&made, &base))
}

/// The product, if its powers are low enough.
fn times(a: &Polynomial, b: &Polynomial) -> Option<Polynomial> {
    let mut out = Polynomial::new();
    for (&(i, j), x) in a {
        for (&(k, l), y) in b {
            let powers = (i + k, j + l);
            if DEGREE < powers.0 || 1 < powers.1 {
                return None;
            }
            *out.entry(powers).or_insert(0.0) += x * y;
        }
    }
    Some(out)
}

/// The sum with the second one times a factor.
fn plus(mut a: Polynomial, b: &Polynomial, factor: f64) -> Polynomial {
    for (&powers, y) in b {
        *a.entry(powers).or_insert(0.0) += factor * y;
    }
    a
}
