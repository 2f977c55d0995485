//! Functions on `[0, n)` written as a chain of cuts: the exact arithmetic under every layout.
//!
//! A chain `[(t1, s1), (t2, s2), .., (1, sk)]` with `t1 > t2 > .. > 1` maps `k` to `s1*(k/t1) + s2*((k%t1)/t2) +
//! s3*(((k%t1)%t2)/t3) + ..`. A cut need not divide the one before it; padding inside padding has this form.
//!
//! For example, the column-major order of a 4x8 tensor is the chain `[(8, 1), (1, 4)]`: the element with row-major
//! number 19 = 2 * 8 + 3 is at position 2 * 1 + 3 * 4 = 14.
//!
//! Normal form: every cut is smaller than its remaining domain, and no two adjacent cuts are one linear run. In normal
//! form a function is linear exactly if its chain has at most one cut. On a domain of at most one value the chain is
//! empty.

use smallvec::{Array, SmallVec};

/// One step of a chain: `stride` positions for each multiple of `size`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub(crate) struct Cut {
    /// The number of consecutive indices between two steps.
    pub(crate) size: u64,
    /// The step in elements of the linear buffer.
    pub(crate) stride: i64,
}

/// A chain in normal form for a domain that the caller knows.
pub(crate) type Chain = SmallVec<[Cut; 8]>;

/// The linear function with the given stride.
pub(crate) fn linear(stride: i64, n: u64) -> Chain {
    if n <= 1 {
        Chain::new()
    } else {
        Chain::from_slice(&[Cut { size: 1, stride }])
    }
}

/// `n / d` rounded up; `d` is not zero.
pub(crate) fn ceil_div(n: u64, d: u64) -> u64 {
    n.div_ceil(d)
}

/// Returns whether `outer` continues the run of `inner`, so that one cut replaces both.
fn continues(outer: Cut, inner: Cut) -> bool {
    outer.size.is_multiple_of(inner.size)
        && i128::from(outer.stride)
            == i128::from(inner.stride) * i128::from(outer.size / inner.size)
}

/// The normal form of a list of cuts with falling sizes over `[0, n)`.
///
/// The last cut must have size 1 if its remaining domain has more than one value.
pub(crate) fn normalize(cuts: impl IntoIterator<Item = Cut>, n: u64) -> Chain {
    let mut chain = Chain::new();
    let mut domain = n;
    for cut in cuts {
        if cut.size < domain {
            domain = cut.size;
            chain.push(cut);
        }
    }
    merge_runs(&mut chain);
    chain
}

/// Joins adjacent cuts that are one linear run, innermost first.
fn merge_runs(chain: &mut Chain) {
    let mut i = chain.len();
    while i >= 2 {
        if continues(chain[i - 2], chain[i - 1]) {
            chain.remove(i - 2);
        }
        i -= 1;
    }
}

/// The value at `k`.
pub(crate) fn eval(chain: &[Cut], mut k: u64) -> i64 {
    let mut value = 0i64;
    for cut in chain {
        let steps = i64::try_from(k / cut.size).unwrap_or(i64::MAX);
        value = value.wrapping_add(cut.stride.wrapping_mul(steps));
        k %= cut.size;
    }
    value
}

/// The part of the chain that matters on `[0, n)`.
pub(crate) fn restrict(chain: &[Cut], n: u64) -> &[Cut] {
    let skip = chain.iter().take_while(|cut| n <= cut.size).count();
    &chain[skip..]
}

/// `k -> outer(k / c) + inner(k % c)` on `[0, n)`, in normal form.
pub(crate) fn compose(outer: &[Cut], c: u64, inner: &[Cut], n: u64) -> Chain {
    if n <= c {
        return Chain::from_slice(restrict(inner, n));
    }
    let mut chain = Chain::new();
    chain.extend(outer.iter().map(|cut| Cut {
        size: cut.size.saturating_mul(c),
        ..*cut
    }));
    if let (Some(&last), Some(&next)) = (chain.last(), inner.first())
        && continues(last, next)
    {
        chain.pop();
    }
    chain.extend_from_slice(inner);
    chain
}

/// The product of a stride and a count. It is a value of the function, and so does not overflow.
fn scaled(stride: i64, by: u64) -> i64 {
    stride.wrapping_mul(by as i64)
}

/// Writes `f` on `[0, n)` as `outer(k / c) + inner(k % c)`.
///
/// Exact: `None` means that no such pair of functions exists. Both parts are in normal form, on `[0, ceil(n / c))` and
/// `[0, min(c, n))`.
pub(crate) fn split(chain: &[Cut], n: u64, c: u64) -> Option<(Chain, Chain)> {
    if n <= c {
        return Some((Chain::new(), Chain::from_slice(chain)));
    }
    if c <= 1 {
        return Some((Chain::from_slice(chain), Chain::new()));
    }
    // Cuts that `c` divides belong to the outer part.
    let above = |cut: &&Cut| c < cut.size && cut.size.is_multiple_of(c);
    let (above, rest) = chain.split_at(chain.iter().take_while(above).count());
    let &Cut { size: t, stride } = rest.first()?;
    let (outer, inner) = match c.is_multiple_of(t) {
        true => {
            let outer = linear(scaled(stride, c / t), 2);
            (outer, Chain::from_slice(restrict(rest, c)))
        }
        false => split_unaligned(rest, above.last().map_or(n, |cut| cut.size), c)?,
    };
    // The outer part, innermost first.
    let mut whole: Chain = outer.iter().rev().copied().collect();
    for cut in above.iter().rev() {
        let size = cut.size / c;
        let head = Cut { size, ..*cut };
        if !whole.last().is_some_and(|&next| continues(head, next)) {
            whole.push(head);
        }
    }
    whole.reverse();
    Some((whole, inner))
}

/// [`split`] in place: `chain` becomes the outer part, and the inner one goes to `inner`. Returns false and changes
/// nothing if that is impossible.
pub(crate) fn split_off<A: Array<Item = Cut>>(
    chain: &mut Chain,
    n: u64,
    c: u64,
    inner: &mut SmallVec<A>,
) -> bool {
    // Cuts that `c` divides belong to the outer part, cuts that divide `c` to the inner one.
    let outer = chain.iter().take_while(|cut| cut.size.is_multiple_of(c));
    let outer = outer.count();
    let domain = match outer.checked_sub(1) {
        None => n,
        Some(last) => chain[last].size,
    };
    let mut next = None;
    if c < domain {
        match chain.get(outer) {
            Some(&Cut { size, stride }) if c.is_multiple_of(size) => {
                next = Some(scaled(stride, c / size));
            }
            _ => {
                let Some((above, below)) = split(chain, n, c) else {
                    return false;
                };
                inner.extend_from_slice(&below);
                *chain = above;
                return true;
            }
        }
    }
    inner.extend_from_slice(&chain[outer..]);
    chain.truncate(outer);
    chain.iter_mut().for_each(|cut| cut.size /= c);
    chain.extend(next.map(|stride| Cut { size: 1, stride }));
    true
}

/// Appends `inner` below a chain. `below` is the number of values of all that will follow `inner`; the cuts of the
/// chain are multiples of the number of values of `inner` times `below`.
pub(crate) fn append(chain: &mut Chain, inner: &[Cut], below: u64) {
    let scaled = |cut: &Cut| Cut {
        size: cut.size.saturating_mul(below),
        ..*cut
    };
    if let (Some(&last), Some(next)) = (chain.last(), inner.first().map(scaled))
        && continues(last, next)
    {
        chain.pop();
    }
    chain.extend(inner.iter().map(scaled));
}

/// `outer` on `[0, size)`, repeated every `size` with an increment of `stride`.
fn prepend(size: u64, stride: i64, outer: &Chain) -> Chain {
    let head = Cut { size, stride };
    let mut chain = Chain::new();
    if !outer.first().is_some_and(|&next| continues(head, next)) {
        chain.push(head);
    }
    chain.extend_from_slice(outer);
    chain
}

/// [`split`] if neither the outermost cut nor `c` divides the other.
///
/// Suppose that two such additive cuts cover at least two of the larger one. Then the function is linear above their
/// greatest common divisor (Fine and Wilf, applied to its differences). On a smaller domain there are at most two
/// blocks, and the ranges are compared directly.
fn split_unaligned(chain: &[Cut], n: u64, c: u64) -> Option<(Chain, Chain)> {
    let Cut { size: t, stride } = chain[0];
    if n / 2 >= t.max(c) {
        let g = gcd(t, c);
        let (outer, inner) = split(&chain[1..], t, g)?;
        let [
            Cut {
                size: 1,
                stride: slope,
            },
        ] = outer[..]
        else {
            return None;
        };
        if i128::from(stride) != i128::from(slope) * i128::from(t / g) {
            return None;
        }
        let above = compose(&outer, g, &inner, c);
        return Some((linear(scaled(slope, c / g), 2), above));
    }
    if t < c {
        return same_shift(chain, 0, c, n - c).then(|| {
            (
                linear(eval(chain, c), 2),
                Chain::from_slice(restrict(chain, c)),
            )
        });
    }
    split_two_blocks(chain, n, c)
}

/// [`split`] below the outermost cut `t`, for `c < t < n < 2t`.
fn split_two_blocks(chain: &[Cut], n: u64, c: u64) -> Option<(Chain, Chain)> {
    let t = chain[0].size;
    let (outer, inner) = split(&chain[1..], t, c)?;
    let blocks = ceil_div(t, c);
    let last = (blocks - 1) * c;
    if !same_shift(chain, 0, last, c.min(n - last)) {
        return None;
    }
    let next = blocks.checked_mul(c).filter(|&next| next < n);
    let Some(next) = next else {
        return Some((outer, inner));
    };
    let straight = restrict(&outer, ceil_div(n - t, c)).len() <= 1;
    if !straight || !same_shift(chain, 0, next, c.min(n - next)) {
        return None;
    }
    Some((prepend(blocks, eval(chain, next), &outer), inner))
}

/// Returns whether `f(a + j) - f(a) == f(b + j) - f(b)` for every `j < len`.
fn same_shift(chain: &[Cut], a: u64, b: u64, len: u64) -> bool {
    let Some(&Cut { size: t, .. }) = chain.first() else {
        return true;
    };
    if len <= 1 || a % t == b % t {
        return true;
    }
    let (a, b) = if b % t < a % t { (a, b) } else { (b, a) };
    let (ra, rb) = (a % t, b % t);
    // The run from `a` reaches the end of its block first.
    let (first, second) = (t - ra, t - rb);
    let rest = &chain[1..];
    if !same_shift(rest, ra, rb, first.min(len)) {
        return false;
    }
    if len <= first {
        return true;
    }
    if !same_step(chain, a, b, first)
        || !same_shift(rest, 0, rb + first, (second - first).min(len - first))
    {
        return false;
    }
    len <= second
        || same_step(chain, a, b, second)
            && same_shift(
                rest,
                second - first,
                0,
                (t - (second - first)).min(len - second),
            )
}

/// Returns whether `f(a + j) - f(a) == f(b + j) - f(b)` for this `j`.
fn same_step(chain: &[Cut], a: u64, b: u64, j: u64) -> bool {
    let step = |from: u64| i128::from(eval(chain, from + j)) - i128::from(eval(chain, from));
    step(a) == step(b)
}

/// Returns whether two chains in normal form are the same function on `[0, n)`.
pub(crate) fn equal(f: &[Cut], g: &[Cut], n: u64) -> bool {
    if f == g {
        return true;
    }
    if f.len() <= 1 || g.len() <= 1 {
        return false;
    }
    let Cut { size: t, stride } = f[0];
    let Some((outer, inner)) = split(g, n, t) else {
        return false;
    };
    // Linear functions on two or more values have one normal form.
    let same_outer = matches!(outer[..], [Cut { size: 1, stride: s }] if s == stride);
    same_outer && equal(&f[1..], &inner, t)
}

/// Some `k` at which the chain takes `value`, or `None`.
///
/// The search is exact for chains in which each stride is larger than the reach of the steps below it. All layouts that
/// consist of digits are of this kind. Other strided layouts are searched with a bounded number of steps.
pub(crate) fn find(chain: &[Cut], n: u64, value: i64) -> Option<u64> {
    if n == 0 {
        return None;
    }
    let mut steps = steps(chain, n);
    steps.sort_by_key(|step| std::cmp::Reverse(step.cut.stride.unsigned_abs()));
    let mut budget = 200_000u32;
    let wanted = i128::from(value);
    search(&steps, wanted, 0, &mut budget, &mut |k| {
        k < n && eval(chain, k) == value
    })
}

/// The highest value on `[0, n)` of a chain without negative strides.
pub(crate) fn highest(chain: &[Cut], n: u64) -> u64 {
    let Some((&Cut { size, stride }, rest)) = chain.split_first() else {
        return 0;
    };
    let last = n.saturating_sub(1);
    let steps = last / size;
    let at = |steps: u64, n: u64| {
        stride
            .unsigned_abs()
            .saturating_mul(steps)
            .saturating_add(highest(rest, n))
    };
    let tail = at(steps, last % size + 1);
    if steps == 0 {
        tail
    } else {
        tail.max(at(steps - 1, size))
    }
}

/// A cut together with the number of values of its step.
#[derive(Clone, Copy)]
pub(crate) struct CountedCut {
    pub(crate) cut: Cut,
    pub(crate) count: u64,
}

/// The cuts of a chain on `[0, n)` with their counts, outermost first.
pub(crate) fn steps(chain: &[Cut], n: u64) -> Vec<CountedCut> {
    let mut domain = n;
    let with_count = |&cut: &Cut| {
        let count = ceil_div(domain, cut.size);
        domain = cut.size;
        CountedCut { cut, count }
    };
    chain.iter().map(with_count).collect()
}

/// Lowest and highest sum of the steps.
pub(crate) fn reach(steps: &[CountedCut]) -> (i128, i128) {
    steps.iter().fold((0, 0), |(low, high), step| {
        let last = i128::from(step.cut.stride) * i128::from(step.count.saturating_sub(1));
        (
            low.saturating_add(last.min(0)),
            high.saturating_add(last.max(0)),
        )
    })
}

/// Depth-first search for step values that add up to `wanted`, largest stride first.
fn search(
    steps: &[CountedCut],
    wanted: i128,
    k: u64,
    budget: &mut u32,
    accept: &mut impl FnMut(u64) -> bool,
) -> Option<u64> {
    let Some((step, rest)) = steps.split_first() else {
        return (wanted == 0 && accept(k)).then_some(k);
    };
    let (low, high) = reach(rest);
    let stride = i128::from(step.cut.stride);
    let (mut from, mut to) = (0i128, i128::from(step.count) - 1);
    if stride != 0 {
        let (x, y) = (wanted.saturating_sub(high), wanted.saturating_sub(low));
        let (x, y) = if stride < 0 { (-y, -x) } else { (x, y) };
        from = from.max(-(-x).div_euclid(stride.abs()));
        to = to.min(y.div_euclid(stride.abs()));
    }
    while from <= to {
        *budget = budget.checked_sub(1)?;
        let add = u64::try_from(from)
            .ok()
            .and_then(|digit| digit.checked_mul(step.cut.size));
        let next = add.and_then(|add| k.checked_add(add));
        if let Some(next) = next
            && let Some(found) = search(rest, wanted - from * stride, next, budget, accept)
        {
            return Some(found);
        }
        from += 1;
    }
    None
}

/// The greatest common divisor of two numbers; that of 0 and `n` is `n`.
#[must_use]
pub fn gcd(mut a: u64, mut b: u64) -> u64 {
    while b != 0 {
        (a, b) = (b, a % b);
    }
    a
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A small random number generator, so that the test needs no crate.
    struct Rng(u64);

    impl Rng {
        fn below(&mut self, n: u64) -> u64 {
            self.0 = self
                .0
                .wrapping_mul(6_364_136_223_846_793_005)
                .wrapping_add(1);
            (self.0 >> 33) % n
        }
    }

    fn random_chain(rng: &mut Rng, n: u64) -> Chain {
        let mut cuts = Vec::new();
        let mut domain = n;
        while domain > 1 {
            let size = match rng.below(3) {
                0 => 1,
                _ => 1 + rng.below(domain - 1),
            };
            let stride = match rng.below(3) {
                0 => size as i64,
                1 => rng.below(4) as i64,
                _ => rng.below(3) as i64 * size as i64,
            };
            cuts.push(Cut { size, stride });
            domain = size;
        }
        normalize(cuts, n)
    }

    fn table(chain: &[Cut], n: u64) -> Vec<i64> {
        (0..n).map(|k| eval(chain, k)).collect()
    }

    fn additive(values: &[i64], c: usize) -> bool {
        (0..values.len()).all(|k| values[k] == values[k / c * c] + values[k % c])
    }

    fn hammer(cases: u32, seed: u64, max_n: u64) {
        let mut rng = Rng(seed);
        for _ in 0..cases {
            let n = 1 + rng.below(max_n);
            let f = random_chain(&mut rng, n);
            let values = table(&f, n);
            let line = n > 1 && (0..n as usize).all(|k| values[k] == values[1] * k as i64);
            assert_eq!(line, f.len() == 1, "{f:?} {n}");
            for c in 1..=n {
                let parts = split(&f, n, c);
                assert_eq!(
                    parts.is_some(),
                    additive(&values, c as usize),
                    "{f:?} {n} {c}"
                );
                let Some((outer, inner)) = parts else {
                    continue;
                };
                let whole: Vec<i64> = (0..n)
                    .map(|k| eval(&outer, k / c) + eval(&inner, k % c))
                    .collect();
                assert_eq!(whole, values, "{f:?} {n} {c}");
                assert_eq!(outer, normalize(outer.iter().copied(), ceil_div(n, c)));
                assert_eq!(inner, normalize(inner.iter().copied(), c.min(n)));
                let g = compose(&outer, c, &inner, n);
                assert_eq!(g, normalize(g.iter().copied(), n));
                assert!(equal(&f, &g, n) && equal(&g, &f, n), "{f:?} {g:?} {n} {c}");
            }
            let g = random_chain(&mut rng, n);
            assert_eq!(equal(&f, &g, n), values == table(&g, n), "{f:?} {g:?} {n}");
            let value = values[rng.below(n) as usize];
            let k = find(&f, n, value).expect("the value is taken");
            assert_eq!(values[k as usize], value);
        }
    }

    #[test]
    fn split_and_equal_agree_with_enumeration() {
        hammer(20_000, 1, 12);
        hammer(6_000, 2, 40);
    }

    /// Run by hand with `OPTC_HAMMER=1000000 cargo test --release`.
    #[test]
    fn hammer_split_and_equal() {
        let cases = std::env::var("OPTC_HAMMER")
            .ok()
            .and_then(|text| text.parse().ok());
        let cases: u32 = cases.unwrap_or(500);
        hammer(cases, 3, 16);
        hammer(cases / 4, 4, 64);
    }
}
