//! Spread buffers: the positions of a part's buffer in the buffer of its whole.
//!
//! A layout places elements in a compact buffer of its own. A part of a live value has no buffer: position `p` of its
//! compact buffer is a position in the whole's buffer that is linear in the digits of `p`. [`Spread`] holds these
//! digits, and gives the final strides of a layout's dimensions.
//!
//! For example, let a part be the first 5 columns of a row-major tensor of 6x10. Position `p` of the part's compact
//! buffer is position `p / 5 * 10 + p % 5` of the whole's: two runs, one of 5 positions with stride 1 and one of 6 with
//! stride 10.

use crate::layout::Layout;
use crate::modes::Mode;

/// Positions of a compact buffer that are evenly spaced in another one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Run {
    /// The step from one to the next in the compact buffer.
    step: u64,
    /// The number of positions.
    count: u64,
    /// The step from one to the next in the other buffer, in elements.
    stride: i64,
}

/// The place of a compact buffer in another one.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Spread {
    /// The place of its first position.
    offset: i64,
    /// The runs, minor to major. Each repeats the positions of the runs below it.
    runs: Vec<Run>,
}

/// The index along one dimension of a whole, by the index of its part: `start + step * part[from]`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Pick {
    /// The dimension of the part; `None` if all of its elements have the index `start`.
    pub from: Option<usize>,
    /// The index of the part's first element.
    pub start: u64,
    /// The step from one element of the part to the next.
    pub step: i64,
}

/// A digit of a layout and its stride in the buffer that contains it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Stride {
    /// The logical dimension.
    pub dim: usize,
    /// The number of indices that share a value of the digit.
    pub div: u64,
    /// The number of values of the digit.
    pub count: u64,
    /// The step from one value to the next in the compact buffer, in elements.
    pub compact: u64,
    /// The step from one value to the next, in elements; 0 if all values are the same elements.
    pub stride: i64,
}

impl Spread {
    /// A buffer of this many positions as its own whole.
    #[must_use]
    pub fn of(positions: u64) -> Spread {
        let run = Run {
            step: 1,
            count: positions.max(1),
            stride: 1,
        };
        Spread {
            offset: 0,
            runs: vec![run],
        }
    }

    /// The place of position `p` of the compact buffer, in elements.
    #[must_use]
    pub fn place(&self, p: u64) -> i64 {
        let run = |run: &Run| (p / run.step % run.count) as i64 * run.stride;
        self.offset + self.runs.iter().map(run).sum::<i64>()
    }

    /// The place of the first position, in elements.
    #[must_use]
    pub fn offset(&self) -> i64 {
        self.offset
    }

    /// Returns whether the compact buffer is the first positions of the other one.
    #[must_use]
    pub fn is_first(&self) -> bool {
        let even = |run: &Run| run.count == 1 || i64::try_from(run.step) == Ok(run.stride);
        self.offset == 0 && self.runs.iter().all(even)
    }

    /// Returns whether the compact buffer is contiguous, at any offset.
    #[cfg(test)]
    fn is_dense(&self) -> bool {
        matches!(
            self.runs[..],
            [] | [Run {
                step: 1,
                stride: 1,
                ..
            }]
        )
    }

    /// The digits of a layout of this buffer with their strides, major to minor in the compact buffer. `None` if a
    /// digit is not evenly spaced, or if the layout has no digits.
    #[must_use]
    pub fn strides(&self, layout: &Layout) -> Option<Vec<Stride>> {
        let modes = layout.modes()?;
        let mut out = Vec::with_capacity(modes.len());
        let mut step = 1u64;
        for mode in modes.iter().rev() {
            if 1 < mode.count {
                let pieces = evenly(&self.runs, step, mode.count)?;
                let whole = step;
                let stride = |(at, count, stride): (u64, u64, i64)| Stride {
                    dim: mode.dim,
                    div: mode.div * (at / whole),
                    count,
                    compact: at,
                    stride,
                };
                out.extend(pieces.into_iter().map(stride));
            }
            step = step.checked_mul(mode.extent)?;
        }
        out.reverse();
        Some(out)
    }

    /// The place of the compact buffer of a part, if `self` is the place of the whole's. `None` if a digit of the part
    /// is not evenly spaced there.
    #[must_use]
    pub fn part(&self, whole: &Layout, part: &Layout, picks: &[Pick]) -> Option<Spread> {
        let strides = self.strides(whole)?;
        let mut offset = self.offset;
        // For each dimension of the part, the whole's indices as runs over the part's.
        let mut along: Vec<Vec<Run>> = vec![Vec::new(); part.shape().len()];
        for (d, pick) in picks.iter().enumerate() {
            let mut digits: Vec<&Stride> = strides.iter().filter(|s| s.dim == d).collect();
            digits.sort_by_key(|s| s.div);
            let size = pick
                .from
                .map_or(Some(1), |d| part.shape().get(d).copied())?;
            let (start, runs) = pick.runs(&digits, size)?;
            offset = offset.checked_add(start)?;
            if let Some(dim) = pick.from {
                along[dim] = runs;
            }
        }
        let mut runs: Vec<Run> = Vec::new();
        let mut step = 1u64;
        for mode in part.modes()?.iter().rev() {
            mode.runs(&along, step, &mut runs)?;
            step = step.checked_mul(mode.extent)?;
        }
        Some(Spread {
            offset,
            runs: joined(runs, step)?,
        })
    }
}

impl Mode {
    /// Adds the runs of the values of a digit with this step in its compact buffer.
    fn runs(&self, along: &[Vec<Run>], step: u64, runs: &mut Vec<Run>) -> Option<()> {
        if self.count <= 1 {
            return Some(());
        }
        let line = along.get(self.dim)?;
        if line.is_empty() {
            runs.push(Run {
                step,
                count: self.count,
                stride: 0,
            });
            return Some(());
        }
        for (at, count, stride) in evenly(line, self.div, self.count)? {
            runs.push(Run {
                step: step.checked_mul(at / self.div)?,
                count,
                stride,
            });
        }
        Some(())
    }
}

impl Pick {
    /// The place of the first element, and the places of `size` indices of the part as runs over these.
    fn runs(&self, digits: &[&Stride], size: u64) -> Option<(i64, Vec<Run>)> {
        let place = digits.iter().try_fold(0i64, |sum, s| {
            let value = i64::try_from(self.start / s.div % s.count).ok()?;
            sum.checked_add(value.checked_mul(s.stride)?)
        })?;
        let run = |step: u64, count: u64, stride: i64| Run {
            step,
            count,
            stride,
        };
        let last = size.checked_sub(1);
        let (Some(last), false) = (last, digits.is_empty()) else {
            return Some((place, Vec::new()));
        };
        if last == 0 {
            return Some((place, vec![run(1, 1, 0)]));
        }
        for (k, digit) in digits.iter().enumerate() {
            let at = self.start / digit.div % digit.count;
            // All digits below this one are taken, in order.
            if self.step == 1 && self.start.is_multiple_of(digit.div) {
                let taken = size.div_ceil(digit.div);
                if at.checked_add(taken)? <= digit.count {
                    let below = digits[..k].iter();
                    let mut runs: Vec<Run> = below.map(|s| run(s.div, s.count, s.stride)).collect();
                    runs.push(run(digit.div, taken, digit.stride));
                    return Some((place, runs));
                }
            }
            // Digits below this one keep their values.
            let (steps, down) = (self.step.unsigned_abs(), self.step < 0);
            if steps.is_multiple_of(digit.div) {
                let far = (steps / digit.div).checked_mul(last)?;
                let inside = match down {
                    true => far <= at,
                    false => at.checked_add(far)? < digit.count,
                };
                if inside {
                    let by = i64::try_from(steps / digit.div).ok()?;
                    let stride = digit.stride.checked_mul(if down { -by } else { by })?;
                    return Some((place, vec![run(1, size, stride)]));
                }
            }
        }
        None
    }
}

/// The places of `count` positions at intervals of `step`, over runs: step, count and stride of each piece, minor to
/// major. `None` if they are not evenly spaced.
fn evenly(runs: &[Run], step: u64, count: u64) -> Option<Vec<(u64, u64, i64)>> {
    let (mut step, mut left) = (step, count);
    let mut out = Vec::new();
    for (i, run) in runs.iter().enumerate() {
        let end = run.step.checked_mul(run.count)?;
        if end <= step && i + 1 < runs.len() {
            continue;
        }
        if step < run.step || !step.is_multiple_of(run.step) {
            return None;
        }
        let every = step / run.step;
        let stride = run.stride.checked_mul(i64::try_from(every).ok()?)?;
        let here = run.count / every;
        if left <= here || (i + 1 == runs.len() && left == run.count.div_ceil(every)) {
            out.push((step, left, stride));
            return Some(out);
        }
        if !run.count.is_multiple_of(every) || !left.is_multiple_of(here.max(1)) {
            return None;
        }
        if 1 < here {
            out.push((step, here, stride));
        }
        left /= here.max(1);
        step = end;
    }
    None
}

/// Runs that cover one another without gaps, up to `positions` positions. Adjacent runs are joined if they are evenly
/// spaced together.
fn joined(mut runs: Vec<Run>, positions: u64) -> Option<Vec<Run>> {
    runs.sort_by_key(|run| run.step);
    let mut out: Vec<Run> = Vec::with_capacity(runs.len());
    let first = runs.first().map_or(positions.max(1), |run| run.step);
    if 1 < first {
        // Innermost positions that no element uses.
        out.push(Run {
            step: 1,
            count: first,
            stride: 1,
        });
    }
    for (i, run) in runs.iter().enumerate() {
        let end = runs.get(i + 1).map_or(positions, |next| next.step);
        if !end.is_multiple_of(run.step) {
            return None;
        }
        let run = Run {
            count: end / run.step,
            ..*run
        };
        let below = out.last_mut().filter(|below| {
            let whole = i64::try_from(below.count).ok();
            let even = whole.and_then(|n| n.checked_mul(below.stride));
            even == Some(run.stride) && (0 < i)
        });
        match below {
            Some(below) => below.count = below.count.checked_mul(run.count)?,
            None => out.push(run),
        }
    }
    Some(out)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn row_major(shape: &[u64]) -> Layout {
        Layout::row_major(shape, 32)
    }

    fn whole(d: usize) -> Pick {
        Pick {
            from: Some(d),
            start: 0,
            step: 1,
        }
    }

    fn from(d: usize, start: u64, step: i64) -> Pick {
        Pick {
            from: Some(d),
            start,
            step,
        }
    }

    /// Checks that every element of the part is at the position of its element in the whole.
    fn agrees(whole: &Layout, part: &Layout, picks: &[Pick], spread: &Spread) -> bool {
        let Some(strides) = spread.strides(part) else {
            return true;
        };
        let shape = part.shape().to_vec();
        let n: u64 = shape.iter().product();
        (0..n).all(|mut at| {
            let mut e = vec![0u64; shape.len()];
            for d in (0..shape.len()).rev() {
                e[d] = at % shape[d];
                at /= shape[d];
            }
            let index: Vec<u64> = picks
                .iter()
                .map(|p| {
                    let i = p.from.map_or(0, |d| e[d] as i64);
                    (p.start as i64 + p.step * i) as u64
                })
                .collect();
            let wanted = whole.index(&index).map(|p| p as i64);
            let found = strides.iter().fold(spread.offset, |sum, s| {
                sum + (e[s.dim] / s.div % s.count) as i64 * s.stride
            });
            wanted == Some(found)
        })
    }

    #[test]
    fn a_split_along_the_first_dimension_is_dense() {
        let (x, y) = (row_major(&[6, 4, 5]), row_major(&[2, 4, 5]));
        let picks = [from(0, 2, 1), whole(1), whole(2)];
        let spread = Spread::of(120).part(&x, &y, &picks).unwrap();
        assert!(spread.is_dense());
        assert_eq!(spread.offset, 40);
        assert!(agrees(&x, &y, &picks, &spread));
    }

    #[test]
    fn a_split_behind_the_first_dimension_has_strides() {
        let (x, y) = (row_major(&[6, 4, 5]), row_major(&[6, 2, 5]));
        let picks = [whole(0), from(1, 2, 1), whole(2)];
        let spread = Spread::of(120).part(&x, &y, &picks).unwrap();
        assert!(!spread.is_dense());
        let strides: Vec<i64> = spread
            .strides(&y)
            .unwrap()
            .iter()
            .map(|s| s.stride)
            .collect();
        assert_eq!(strides, [20, 5, 1]);
        // The rows of the part as one dimension are two digits.
        let flat = row_major(&[12, 5]);
        let strides = spread.strides(&flat).unwrap();
        let found: Vec<_> = strides
            .iter()
            .map(|s| (s.dim, s.div, s.count, s.stride))
            .collect();
        assert_eq!(found, [(0, 2, 6, 20), (0, 1, 2, 5), (1, 1, 5, 1)]);
        assert!(agrees(&x, &y, &picks, &spread));
    }

    #[test]
    fn what_is_cut_inside_a_window_does_not_lie_evenly() {
        let windows = Layout::from_modes(
            &[8],
            32,
            &[
                Mode {
                    dim: 0,
                    div: 1,
                    count: 4,
                    extent: 4,
                },
                Mode {
                    dim: 0,
                    div: 4,
                    count: 2,
                    extent: 2,
                },
            ],
        )
        .unwrap();
        let part = row_major(&[5]);
        assert_eq!(Spread::of(8).part(&windows, &part, &[from(0, 3, 1)]), None);
        let part = row_major(&[4]);
        let spread = Spread::of(8)
            .part(&windows, &part, &[from(0, 4, 1)])
            .unwrap();
        assert!(agrees(&windows, &part, &[from(0, 4, 1)], &spread));
    }

    proptest! {
        #[test]
        fn parts_of_random_layouts_lie_where_their_elements_do(
            cuts in prop::collection::vec((1u64..4, 1u64..4), 1..4),
            seed in any::<u64>(),
            steps in prop::collection::vec(-2i64..3, 3),
            flat in any::<bool>(),
        ) {
            let shape: Vec<u64> = cuts.iter().map(|(a, b)| a * b).collect();
            let mut modes: Vec<Mode> = Vec::new();
            for (dim, &(a, b)) in cuts.iter().enumerate() {
                for (div, count) in [(b, a), (1, b)] {
                    if 1 < count {
                        modes.push(Mode { dim, div, count, extent: count });
                    }
                }
            }
            let mut at = seed;
            for i in (1..modes.len()).rev() {
                modes.swap(i, (at % (i as u64 + 1)) as usize);
                at = at.rotate_right(7).wrapping_mul(0x9E37_79B9_7F4A_7C15);
            }
            let whole = Layout::from_modes(&shape, 32, &modes).unwrap();
            let mut picks = Vec::new();
            let mut small = Vec::new();
            for (d, &n) in shape.iter().enumerate() {
                let start = at % n;
                at = at.rotate_right(11).wrapping_mul(0x9E37_79B9_7F4A_7C15);
                let step = match steps[d] { 0 => 1, s => s };
                let most = if step < 0 { start / step.unsigned_abs() } else { (n - 1 - start) / step as u64 };
                small.push(1 + at % (most + 1));
                picks.push(from(d, start, step));
            }
            // A dimension that the whole does not have.
            small.push(2);
            let part = match flat {
                true => row_major(&small),
                false => {
                    let order: Vec<usize> = (0..small.len()).rev().collect();
                    Layout::from_order(&small, 32, &order).unwrap()
                }
            };
            let positions = whole.positions();
            if let Some(spread) = Spread::of(positions).part(&whole, &part, &picks) {
                prop_assert!(agrees(&whole, &part, &picks, &spread));
                // Once more: a part of the part.
                let picks2: Vec<Pick> = (0..small.len()).map(|d| from(d, small[d] - 1, -1)).collect();
                if let Some(second) = spread.part(&part, &part, &picks2) {
                    let chained: Vec<Pick> = picks.iter().enumerate().map(|(d, p)| Pick {
                        from: Some(d),
                        start: (p.start as i64 + p.step * (small[d] as i64 - 1)) as u64,
                        step: -p.step,
                    }).collect();
                    prop_assert!(agrees(&whole, &part, &chained, &second));
                }
            } else {
                // Dimensions of one digit are always evenly spaced.
                prop_assert!(cuts.iter().any(|&(a, b)| 1 < a && 1 < b));
            }
        }
    }
}
