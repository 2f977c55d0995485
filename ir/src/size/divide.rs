//! Quotients of polynomials, exact or rounded down.

use super::{Atom, MAX_DEPTH, Monomial, Size};
use std::sync::Arc;

/// The largest number of steps of a long division; a quotient has no more terms than that.
const MAX_STEPS: usize = 256;

/// The greatest common divisor, never negative.
pub(super) fn gcd(a: i128, b: i128) -> i128 {
    let (mut a, mut b) = (a.unsigned_abs(), b.unsigned_abs());
    while b != 0 {
        (a, b) = (b, a % b);
    }
    i128::try_from(a).unwrap_or(1)
}

/// The quotient rounded down; `None` on a division by 0 and on overflow.
pub(super) fn floor(a: i128, b: i128) -> Option<i128> {
    let (q, r) = (a.checked_div(b)?, a.checked_rem(b)?);
    let below = r != 0 && (r < 0) != (b < 0);
    Some(if below { q - 1 } else { q })
}

impl Size {
    fn leading(&self) -> Option<(&Monomial, i128)> {
        self.terms.last_key_value().map(|(m, &c)| (m, c))
    }

    /// The polynomial whose product with `by` is `self`, if there is one.
    #[must_use]
    pub fn exact_quotient(&self, by: &Size) -> Option<Size> {
        let (lead, c) = by.leading()?;
        let mut rest = self.clone();
        let mut quotient = Size::default();
        for _ in 0..MAX_STEPS {
            let Some((m, a)) = rest.leading() else {
                return Some(quotient);
            };
            if a.checked_rem(c)? != 0 {
                return None;
            }
            let term = Size::term(m.without(lead)?, a.checked_div(c)?);
            rest = rest.minus(&term.times(by)?)?;
            quotient = quotient.plus(&term)?;
        }
        None
    }

    /// `self` divided by `by`, rounded down. `None` if `by` is not known to be positive.
    #[must_use]
    pub fn quotient(&self, by: &Size) -> Option<Size> {
        if !by.is_at_least(1) {
            return None;
        }
        if let (Some(a), Some(b)) = (self.as_constant(), by.as_constant()) {
            return floor(a, b).map(Size::constant);
        }
        if let Some(exact) = self.exact_quotient(by) {
            return Some(exact);
        }
        let (whole, rest) = match by.as_constant() {
            Some(n) => self.whole_part(n)?,
            None => self.divided_terms(by)?,
        };
        if rest.is_at_least(0) && by.minus(&rest)?.is_at_least(1) {
            return Some(whole);
        }
        let below = Size::default().minus(&rest)?;
        if below.is_at_least(1) && by.minus(&below)?.is_at_least(0) {
            return whole.minus(&Size::constant(1));
        }
        if MAX_DEPTH <= rest.depth().max(by.depth()) {
            return None;
        }
        let (rest, by) = reduced(rest, by)?;
        if by.as_constant() == Some(1) {
            return whole.plus(&rest);
        }
        let atom = Size::atom(Atom::Quotient(Arc::new(rest), Arc::new(by)));
        whole.plus(&atom)
    }

    /// `self` divided by `by`, rounded up.
    #[must_use]
    pub fn quotient_up(&self, by: &Size) -> Option<Size> {
        self.plus(by)?.minus(&Size::constant(1))?.quotient(by)
    }

    /// The remainder of a division by `by`: `self - by * (self // by)`.
    #[must_use]
    pub fn remainder(&self, by: &Size) -> Option<Size> {
        self.minus(&self.quotient(by)?.times(by)?)
    }

    /// `(w, r)` with `self = n * w + r`, the coefficients of `r` in `0..n`.
    fn whole_part(&self, n: i128) -> Option<(Size, Size)> {
        let (mut whole, mut rest) = (Size::default(), Size::default());
        for (m, &c) in &self.terms {
            let q = floor(c, n)?;
            let r = c.checked_sub(q.checked_mul(n)?)?;
            whole = whole.plus(&Size::term(m.clone(), q))?;
            rest = rest.plus(&Size::term(m.clone(), r))?;
        }
        Some((whole, rest))
    }

    /// `(w, r)` with `self = by * w + r`. If `by` has more than one term, `w` is 0.
    fn divided_terms(&self, by: &Size) -> Option<(Size, Size)> {
        let (mut whole, mut rest) = (Size::default(), Size::default());
        let (lead, c) = by.leading()?;
        for (m, &a) in &self.terms {
            let term = Size::term(m.clone(), a);
            let divided = m
                .without(lead)
                .filter(|_| by.terms.len() == 1 && a.checked_rem(c) == Some(0));
            match divided {
                Some(left) => whole = whole.plus(&Size::term(left, a.checked_div(c)?))?,
                None => rest = rest.plus(&term)?,
            }
        }
        Some((whole, rest))
    }
}

/// The same quotient with smaller numbers: `(4*S+3)//8` becomes `(S)//2`.
fn reduced(rest: Size, by: &Size) -> Option<(Size, Size)> {
    let Some(n) = by.as_constant() else {
        return Some((rest, by.clone()));
    };
    let one = Monomial::default();
    let others = rest.terms.iter().filter(|(m, _)| **m != one);
    let shared = others.map(|(_, &c)| c).fold(n, gcd);
    if shared <= 1 {
        return Some((rest, by.clone()));
    }
    let mut small = Size::default();
    for (m, &c) in &rest.terms {
        small = small.plus(&Size::term(m.clone(), floor(c, shared)?))?;
    }
    Some((small, Size::constant(n / shared)))
}
