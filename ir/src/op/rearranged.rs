//! The loops of reshapes and transposes: one loop for each digit that both sides share.

use crate::op::freedom::FreedomClass;
use crate::op::iteration_domain::{IndexExpr, IterationDomain, LoopKind};

/// A range of positions of a row-major shape: a digit with stride `low`, whose next more significant digit has stride
/// `high`.
#[derive(Clone, Copy, Debug)]
struct Digit {
    high: u64,
    low: u64,
    /// True if the cuts of the two shapes have no common refinement in this range.
    torn: bool,
}

/// The range of a dimension in the row-major shape: the strides before and after it.
#[derive(Clone, Copy)]
struct DimStrides {
    high: u64,
    low: u64,
}

impl Digit {
    fn extent(&self) -> u64 {
        self.high / self.low
    }
    fn is_in(&self, place: DimStrides) -> bool {
        place.low <= self.low && self.high <= place.high
    }
    fn holds(&self, place: DimStrides) -> bool {
        self.low <= place.low && place.high <= self.high
    }
}

/// The ranges of the dimensions in row-major order.
fn places(dims: &[u64]) -> Vec<DimStrides> {
    let mut low = 1u64;
    let mut places: Vec<DimStrides> = Vec::with_capacity(dims.len());
    for &n in dims.iter().rev() {
        let high = low.saturating_mul(n);
        places.push(DimStrides { high, low });
        low = high;
    }
    places.reverse();
    places
}

/// The common digits of two shapes with the same number of elements, most significant first. A digit ends where either
/// shape has a cut. A range is torn if the cuts of the two shapes do not divide one another there.
fn common(a: &[DimStrides], b: &[DimStrides]) -> Vec<Digit> {
    let cuts = |places: &[DimStrides]| -> Vec<u64> {
        let mut cuts: Vec<u64> = places.iter().flat_map(|p| [p.high, p.low]).collect();
        cuts.push(1);
        cuts.sort_unstable_by(|x, y| y.cmp(x));
        cuts.dedup();
        cuts
    };
    let (a, b) = (cuts(a), cuts(b));
    let mut all: Vec<u64> = a.iter().chain(&b).copied().collect();
    all.sort_unstable_by(|x, y| y.cmp(x));
    all.dedup();
    let mut digits = Vec::with_capacity(all.len());
    let mut start = 0;
    for end in 1..all.len() {
        let shared = a.contains(&all[end]) && b.contains(&all[end]);
        if !shared {
            continue;
        }
        let run = &all[start..=end];
        start = end;
        if run.windows(2).all(|w| w[0].is_multiple_of(w[1])) {
            let pairs = run.windows(2);
            digits.extend(pairs.map(|w| Digit {
                high: w[0],
                low: w[1],
                torn: false,
            }));
        } else {
            digits.push(Digit {
                high: run[0],
                low: run[run.len() - 1],
                torn: true,
            });
        }
    }
    digits
}

impl IterationDomain {
    /// The loops of: reshape `operand` to `shape`, transpose by `perm`, reshape to `result`.
    ///
    /// Example: 6 to 2, 3 has a loop of 2 and a loop of 3. There is one loop for each digit of a dimension that one
    /// side splits and the other merges. Cuts of a reshape without a common refinement (3, 4 to 4, 3) give one loop
    /// over the elements in row-major order. If there is also a transpose, the dimensions concerned are
    /// [`IndexExpr::Whole`].
    #[must_use]
    pub fn rearranged(
        operand: &[u64],
        shape: &[u64],
        perm: &[usize],
        result: &[u64],
    ) -> IterationDomain {
        let mut domain = IterationDomain {
            class: FreedomClass::Rearrange,
            operands: vec![vec![IndexExpr::Whole; operand.len()]],
            results: vec![vec![IndexExpr::Whole; result.len()]],
            ..IterationDomain::default()
        };
        let volume = |dims: &[u64]| dims.iter().try_fold(1u64, |a, &n| a.checked_mul(n));
        let total = volume(operand).filter(|&n| 0 < n);
        let same = total.is_some() && volume(shape) == total && volume(result) == total;
        if !same || perm.len() != shape.len() || perm.iter().any(|&p| shape.len() <= p) {
            return domain;
        }
        let long: Vec<usize> = perm.iter().copied().filter(|&p| shape[p] != 1).collect();
        if long.is_sorted() {
            domain.reshaped(operand, result);
        } else {
            domain.permuted(operand, shape, perm, result);
        }
        domain
    }

    fn reshaped(&mut self, operand: &[u64], result: &[u64]) {
        let (x, y) = (places(operand), places(result));
        let digits = common(&x, &y);
        for digit in &digits {
            self.add(digit.extent(), LoopKind::Parallel);
        }
        let index = |place: DimStrides, size: u64, loops: &[crate::op::iteration_domain::Loop]| {
            if size == 1 {
                return IndexExpr::zero();
            }
            let torn = digits.iter().position(|d| d.torn && d.holds(place));
            if let Some(id) = torn {
                let by = place.low / digits[id].low;
                return IndexExpr::Digit {
                    of: id,
                    by,
                    extent: size,
                };
            }
            let own = digits.iter().enumerate().filter(|(_, d)| d.is_in(place));
            let ids: Vec<usize> = own.map(|(id, _)| id).collect();
            IndexExpr::merged(&ids, loops)
        };
        for (d, (&place, &size)) in x.iter().zip(operand).enumerate() {
            self.operands[0][d] = index(place, size, &self.loops);
        }
        for (d, (&place, &size)) in y.iter().zip(result).enumerate() {
            self.results[0][d] = index(place, size, &self.loops);
        }
    }

    fn permuted(&mut self, operand: &[u64], shape: &[u64], perm: &[usize], result: &[u64]) {
        let (x, middle) = (places(operand), places(shape));
        let digits = common(&x, &middle);
        // The digits in the order of the transposed dimensions; for a torn dimension, the whole dimension.
        let mut order: Vec<(Option<usize>, u64)> = Vec::new();
        for &p in perm.iter().filter(|&&p| shape[p] != 1) {
            if digits.iter().any(|d| d.torn && d.holds(middle[p])) {
                order.push((None, shape[p]));
                continue;
            }
            let own = digits
                .iter()
                .enumerate()
                .filter(|(_, d)| d.is_in(middle[p]));
            order.extend(own.map(|(id, d)| (Some(id), d.extent())));
        }
        let extents: Vec<u64> = order.iter().map(|(_, n)| *n).collect();
        let (moved, y) = (places(&extents), places(result));
        let fine = common(&moved, &y);
        // The loop of each fine digit, and the fine loops of each digit; `None` if either digit is torn.
        let mut ids: Vec<Option<usize>> = Vec::with_capacity(fine.len());
        let mut parts: Vec<Option<Vec<usize>>> = vec![None; digits.len()];
        for small in &fine {
            let from = order.iter().zip(&moved).find(|(_, m)| small.is_in(**m));
            let digit = from.and_then(|((id, _), _)| *id).filter(|_| !small.torn);
            ids.push(digit.map(|digit| {
                let id = self.add(small.extent(), LoopKind::Parallel);
                parts[digit].get_or_insert_default().push(id);
                id
            }));
        }
        for (d, (&place, &size)) in x.iter().zip(operand).enumerate() {
            let own = digits.iter().zip(&parts).filter(|(d, _)| d.is_in(place));
            let whole = digits.iter().any(|d| d.torn && d.holds(place));
            let ids: Option<Vec<Vec<usize>>> = own.map(|(_, part)| part.clone()).collect();
            self.operands[0][d] = match ids {
                _ if size == 1 => IndexExpr::zero(),
                Some(ids) if !whole => IndexExpr::merged(&ids.concat(), &self.loops),
                _ => IndexExpr::Whole,
            };
        }
        for (d, (&place, &size)) in y.iter().zip(result).enumerate() {
            let own = fine.iter().zip(&ids).filter(|(d, _)| d.is_in(place));
            let whole = fine.iter().any(|d| d.torn && d.holds(place));
            let ids: Option<Vec<usize>> = own.map(|(_, id)| *id).collect();
            self.results[0][d] = match ids {
                _ if size == 1 => IndexExpr::zero(),
                Some(ids) if !whole => IndexExpr::merged(&ids, &self.loops),
                _ => IndexExpr::Whole,
            };
        }
    }
}
