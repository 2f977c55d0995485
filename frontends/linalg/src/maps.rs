//! Affine maps: `affine_map<(d0, d1) -> (d1, d0 * 2 + 1)>`.

/// The most loops of an operation that is read.
pub(crate) const MOST_LOOPS: usize = 64;

/// A sum of loops times numbers, plus a number.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Linear {
    /// Loops with their factors, sorted by loop; no factor is 0.
    pub(crate) terms: Vec<(usize, i64)>,
    pub(crate) constant: i64,
}

impl Linear {
    /// One loop.
    pub(crate) fn of(dim: usize) -> Linear {
        Linear {
            terms: vec![(dim, 1)],
            constant: 0,
        }
    }

    /// The loop, if this is one.
    pub(crate) fn dim(&self) -> Option<usize> {
        match self.terms[..] {
            [(dim, 1)] if self.constant == 0 => Some(dim),
            _ => None,
        }
    }

    fn plus(mut self, other: &Linear, factor: i64) -> Option<Linear> {
        self.constant = self
            .constant
            .checked_add(other.constant.checked_mul(factor)?)?;
        for &(dim, by) in &other.terms {
            let by = by.checked_mul(factor)?;
            match self.terms.iter_mut().find(|(d, _)| *d == dim) {
                Some((_, own)) => *own = own.checked_add(by)?,
                None => self.terms.push((dim, by)),
            }
        }
        self.terms.retain(|(_, by)| *by != 0);
        self.terms.sort_unstable();
        Some(self)
    }
}

/// The indices of one operand by the loops.
pub(crate) type Map = Vec<Linear>;

/// The number of loops, and the map with this text; `None` if it has other parts than sums of multiples.
pub(crate) fn map(text: &str) -> Option<(usize, Map)> {
    let inner = text.trim().strip_prefix("affine_map<")?.strip_suffix('>')?;
    let (left, right) = inner.split_once("->")?;
    let loops = list(left)?;
    let name = |name: &&str| name.starts_with(|c: char| c.is_alphabetic() || c == '_');
    if MOST_LOOPS < loops.len() || !loops.iter().all(name) {
        return None;
    }
    let results: Option<Map> = list(right)?
        .into_iter()
        .map(|e| linear(e, &loops))
        .collect();
    Some((loops.len(), results?))
}

/// The entries of `(a, b)`.
fn list(text: &str) -> Option<Vec<&str>> {
    let inner = text.trim().strip_prefix('(')?.strip_suffix(')')?;
    let parts = inner.split(',').map(str::trim);
    Some(parts.filter(|part| !part.is_empty()).collect())
}

/// The sum with this text; its parts may not be in parentheses.
fn linear(text: &str, loops: &[&str]) -> Option<Linear> {
    let mut sum = Linear::default();
    let mut sign = 1;
    for word in text.replace('+', " + ").split(" + ") {
        for (i, part) in word.split(" - ").enumerate() {
            let factor = if i == 0 { sign } else { -1 };
            sum = sum.plus(&product(part.trim(), loops)?, factor)?;
        }
        sign = 1;
    }
    Some(sum)
}

/// `d0`, `d0 * 2`, `-d0` or `3`.
fn product(text: &str, loops: &[&str]) -> Option<Linear> {
    let mut out = Linear {
        terms: Vec::new(),
        constant: 1,
    };
    for factor in text.split('*') {
        let factor = factor.trim();
        let (factor, sign) = match factor.strip_prefix('-') {
            Some(rest) => (rest, -1),
            None => (factor, 1),
        };
        let by = match loops.iter().position(|name| *name == factor) {
            Some(dim) => {
                if !out.terms.is_empty() {
                    return None;
                }
                out.terms.push((dim, 1));
                sign
            }
            None => factor.parse::<i64>().ok()?.checked_mul(sign)?,
        };
        out.constant = out.constant.checked_mul(by)?;
    }
    if let Some((_, by)) = out.terms.first_mut() {
        *by = std::mem::take(&mut out.constant);
        out.terms.retain(|(_, by)| *by != 0);
    }
    Some(out)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The terms of an index, and its constant.
    type Index<'t> = (&'t [(usize, i64)], i64);

    #[track_caller]
    fn check(text: &str, wanted: Option<&[Index<'_>]>) {
        let found = map(&format!("affine_map<{text}>")).map(|(_, results)| results);
        let wanted = wanted.map(|all| {
            let one = |(terms, constant): &Index<'_>| Linear {
                terms: terms.to_vec(),
                constant: *constant,
            };
            all.iter().map(one).collect::<Map>()
        });
        assert_eq!(found, wanted, "{text}");
    }

    #[test]
    fn sums_of_multiples_are_read_and_nothing_else() {
        check(
            "(d0, d1) -> (d1, d0)",
            Some(&[(&[(1, 1)], 0), (&[(0, 1)], 0)]),
        );
        check("(d0) -> ()", Some(&[]));
        check("(n, c) -> (c * 2)", Some(&[(&[(1, 2)], 0)]));
        check("() -> (0)", Some(&[(&[], 0)]));
        check(
            "(d0, d1) -> (d0 * 2 + d1 * 3 - 1)",
            Some(&[(&[(0, 2), (1, 3)], -1)]),
        );
        check(
            "(d0, d1) -> (-d0 + 6, d1 - d0)",
            Some(&[(&[(0, -1)], 6), (&[(0, -1), (1, 1)], 0)]),
        );
        check("(d0, d1) -> (d0 floordiv 2)", None);
        check("(d0, d1) -> (d0 * d1)", None);
        check("(d0)[s0] -> (d0 + s0)", None);
        check("(d0) -> (d1)", None);
    }
}
