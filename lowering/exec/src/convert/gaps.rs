//! Padding of a target: the places that no element takes, as boxes.
//!
//! Elements at bits 0..8 and 16..24 of a buffer of 40 bits leave the gaps 8..16 and 24..40.

use super::nest::Nest;

/// Places of the target: runs of `unit` bits at the sums of `loops`, outermost first.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Places {
    pub(crate) base: usize,
    pub(crate) unit: usize,
    /// Counts and strides; each stride is at least the reach of the loops inside of it.
    pub(crate) loops: Vec<(usize, usize)>,
}

/// Most parts that one set of places is cut into at the borders of chunks.
const MAX_PARTS: usize = 64;

impl Places {
    /// The places that a nest writes.
    pub(crate) fn of(nest: &Nest) -> Places {
        let loops = nest.loops.iter().map(|l| (l.count, l.to.unsigned_abs()));
        Places {
            base: nest.to.unsigned_abs(),
            unit: nest.unit,
            loops: loops.collect(),
        }
    }

    /// Bits from the first place to the end of the last one.
    fn reach(&self) -> usize {
        let loops = self
            .loops
            .iter()
            .map(|(count, stride)| (count - 1) * stride);
        self.unit + loops.sum::<usize>()
    }

    fn stride(&self) -> usize {
        self.loops.first().map_or(0, |l| l.1)
    }

    fn run(base: usize, unit: usize) -> Places {
        Places {
            base,
            unit,
            loops: Vec::new(),
        }
    }
}

/// Places that repeat in consecutive chunks; `base` is relative to the chunk.
struct InChunks {
    /// Number of the first chunk plus one, so that places before the first chunk are in chunk 0.
    first: usize,
    chunks: usize,
    places: Places,
}

/// The parts of `[0, end)` that are in none of the sets; `None` if two sets are not known to be disjoint.
pub(crate) fn gaps(sets: &[Places], end: usize) -> Option<Vec<Places>> {
    let Some(stride) = sets.iter().map(Places::stride).max().filter(|&s| 0 < s) else {
        return between(sets, end);
    };
    let with_stride = sets.iter().filter(|s| s.stride() == stride);
    let origin = with_stride.map(|s| s.base % stride).min()?;
    let mut parts = Vec::new();
    for set in sets {
        cut(set, stride, origin, &mut parts)?;
    }
    let mut borders: Vec<usize> = parts
        .iter()
        .flat_map(|p| [p.first, p.first + p.chunks])
        .collect();
    // Chunk 0 ends at the origin; the last chunk may be shorter than the stride.
    let whole = (end.checked_sub(origin)?) / stride;
    borders.extend([0, 1, whole + 1, whole + 2]);
    borders.sort_unstable();
    borders.dedup();
    let mut found: Vec<Places> = Vec::new();
    for pair in borders.windows(2) {
        let (first, next) = (pair[0], pair[1]);
        if whole + 2 <= first {
            return None;
        }
        let (start, len) = match first {
            0 => (0, origin),
            n if n == whole + 1 => (origin + whole * stride, end - origin - whole * stride),
            n => (origin + (n - 1) * stride, stride),
        };
        let here = parts
            .iter()
            .filter(|p| p.first <= first && first < p.first + p.chunks);
        let mut inside: Vec<Places> = here.map(|p| p.places.clone()).collect();
        if first == 0 {
            for places in &mut inside {
                places.base = places.base.checked_sub(stride - origin)?;
            }
        }
        if len == 0 {
            if !inside.is_empty() {
                return None;
            }
            continue;
        }
        add(&mut found, gaps(&inside, len)?, start, next - first, len);
    }
    Some(found)
}

/// Adds the gaps of `chunks` chunks of `len` bits, the first of which is at `start`.
fn add(found: &mut Vec<Places>, free: Vec<Places>, start: usize, chunks: usize, len: usize) {
    for mut places in free {
        places.base += start;
        if places.loops.is_empty() && places.unit == len {
            places.unit = len * chunks;
        } else if 1 < chunks {
            places.loops.insert(0, (chunks, len));
        }
        match found.last_mut() {
            Some(before)
                if before.loops.is_empty()
                    && places.loops.is_empty()
                    && before.base + before.unit == places.base =>
            {
                before.unit += places.unit;
            }
            _ => found.push(places),
        }
    }
}

/// The gaps between runs.
fn between(sets: &[Places], end: usize) -> Option<Vec<Places>> {
    let mut runs: Vec<(usize, usize)> = sets.iter().map(|s| (s.base, s.unit)).collect();
    runs.sort_unstable();
    let mut at = 0usize;
    let mut found = Vec::new();
    for (base, unit) in runs {
        let free = base.checked_sub(at)?;
        if 0 < free {
            found.push(Places::run(at, free));
        }
        at = base + unit;
    }
    let free = end.checked_sub(at)?;
    if 0 < free {
        found.push(Places::run(at, free));
    }
    Some(found)
}

/// Cuts a set at the starts of chunks of `stride`, counted from `origin`.
fn cut(set: &Places, stride: usize, origin: usize, parts: &mut Vec<InChunks>) -> Option<()> {
    let limit = parts.len() + MAX_PARTS;
    // One more chunk, so that places before the origin have a number.
    let shift = stride - origin;
    let at = |base: usize| ((base + shift) / stride, (base + shift) % stride);
    if set.stride() == stride {
        let inner = Places {
            base: 0,
            unit: set.unit,
            loops: set.loops[1..].to_vec(),
        };
        let (first, base) = at(set.base);
        if stride < base + inner.reach() {
            return None;
        }
        parts.push(InChunks {
            first,
            chunks: set.loops[0].0,
            places: Places { base, ..inner },
        });
        return Some(());
    }
    // A run is treated as a loop over its bits.
    let (count, step, inner) = match set.loops.split_first() {
        Some((&(count, step), rest)) => (
            count,
            step,
            Places {
                base: 0,
                unit: set.unit,
                loops: rest.to_vec(),
            },
        ),
        None => (set.unit, 1, Places::run(0, 1)),
    };
    let is_run = set.loops.is_empty();
    let reach = inner.reach();
    let mut done = 0;
    while done < count {
        let (first, base) = at(set.base + done * step);
        let room = stride.checked_sub(base + reach)?;
        let fit = (room / step + 1).min(count - done);
        let chunks = match base {
            0 if stride.is_multiple_of(step) && fit == stride / step => (count - done) / fit,
            _ => 1,
        };
        let places = match is_run {
            true => Places::run(base, fit),
            false => {
                let mut loops = inner.loops.clone();
                if 1 < fit {
                    loops.insert(0, (fit, step));
                }
                Places {
                    base,
                    unit: inner.unit,
                    loops,
                }
            }
        };
        parts.push(InChunks {
            first,
            chunks,
            places,
        });
        done += fit * chunks;
        if limit < parts.len() {
            return None;
        }
    }
    Some(())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn mark(places: &Places, bits: &mut [u8]) {
        let mut bases = vec![places.base];
        for &(count, stride) in &places.loops {
            let steps = |base: &usize| {
                let base = *base;
                (0..count).map(move |i| base + i * stride)
            };
            bases = bases.iter().flat_map(steps).collect();
        }
        for base in bases {
            bits[base..base + places.unit]
                .iter_mut()
                .for_each(|b| *b += 1);
        }
    }

    #[test]
    fn gaps_and_sets_cover_each_place_once() {
        let set = |base, unit, loops: &[(usize, usize)]| Places {
            base,
            unit,
            loops: loops.to_vec(),
        };
        let cases = [
            (vec![set(7, 1, &[(3, 10), (5, 1)])], 40),
            (vec![set(0, 32, &[]), set(32, 3, &[(4, 8)])], 70),
            (
                vec![set(0, 8, &[(3, 16)]), set(8, 2, &[(3, 16), (2, 4)])],
                48,
            ),
            (vec![set(3, 2, &[])], 5),
            (vec![], 9),
        ];
        for (sets, end) in cases {
            let mut bits = vec![0u8; end];
            let free = gaps(&sets, end).expect("the sets are disjoint");
            sets.iter().chain(&free).for_each(|s| mark(s, &mut bits));
            assert!(bits.iter().all(|&b| b == 1), "{sets:?} {free:?} {bits:?}");
        }
        assert_eq!(gaps(&[set(0, 2, &[]), set(1, 2, &[])], 4), None);
    }
}
