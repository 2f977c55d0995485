//! Assigns offsets to buffers with lives: several orders are tried, and the smallest arena is taken.
//!
//! Example: buffers of 8, 4 and 4 bytes with the lives 0..1, 1..2 and 2..3 need 12 bytes. The third one reuses the
//! bytes of the first.

use std::collections::{BTreeMap, BTreeSet};

/// A buffer and its life.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Buffer {
    /// Its size in bytes, a multiple of the alignment.
    pub(super) bytes: u64,
    /// The position in the body of the operation that writes it first.
    pub(super) first: usize,
    /// The position of the last operation that needs it, inclusive.
    pub(super) last: usize,
}

impl Buffer {
    /// The number of operations in its life.
    fn life(&self) -> u64 {
        (self.last - self.first + 1) as u64
    }
}

/// The positions of the buffers.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Assignment {
    /// The offset of each buffer.
    pub(super) offsets: Vec<u64>,
    /// The end of the last buffer.
    pub(super) bytes: u64,
    /// The name of the order that found the assignment.
    pub(super) order: &'static str,
}

/// The most repairs of an order: each moves the buffer that reaches highest forward, and assigns all buffers again.
const REPAIRS: usize = 64;

/// The smallest assignment found. The budget is `effort` looks at pairs of buffers that are alive together, for each
/// buffer. Deterministic: equal buffers keep the order of the program.
pub(super) fn assign(buffers: &[Buffer], effort: u64) -> Assignment {
    let least = most_alive(buffers);
    let mut best = as_it_runs(buffers);
    let mut looks = effort.saturating_mul(buffers.len() as u64);
    let index = Lives::of(buffers);
    let mut start: Option<(u64, Vec<usize>, Way)> = None;
    for &(name, key, ends) in ORDERS {
        if best.bytes <= least {
            return best;
        }
        let way = Way {
            name,
            ceiling: ends.then_some(least),
        };
        let order = sorted(buffers, key);
        let Some(found) = in_order(buffers, (&[], &order), &index, &mut looks, way) else {
            return best;
        };
        if start
            .as_ref()
            .is_none_or(|(bytes, ..)| found.bytes < *bytes)
        {
            start = Some((found.bytes, order, way));
        }
        if found.bytes < best.bytes {
            best = found;
        }
    }
    if let Some((_, order, way)) = start {
        repair(buffers, (order, way), &index, &mut looks, least, &mut best);
    }
    best
}

/// [`assign`] for buffers of which some must be adjacent, in blocks. Each buffer has its block and its offset in it. A
/// buffer outside a block may lie in a part of the block that is not written yet.
pub(super) fn assign_blocks(
    buffers: &[Buffer],
    (places, blocks): (&[(usize, u64)], &[Buffer]),
    effort: u64,
) -> Assignment {
    let whole = assign(blocks, effort);
    let offset = |&(block, at): &(usize, u64)| whole.offsets[block].saturating_add(at);
    let mut best = Assignment {
        offsets: places.iter().map(offset).collect(),
        ..whole
    };
    let mut sizes = vec![0usize; blocks.len()];
    places.iter().for_each(|&(block, _)| sizes[block] += 1);
    let several: Vec<usize> = (0..blocks.len()).filter(|&b| 1 < sizes[b]).collect();
    if several.is_empty() || best.bytes <= most_alive(buffers) {
        return best;
    }
    let alone: Vec<Buffer> = several.iter().map(|&block| blocks[block]).collect();
    let placed = assign(&alone, effort);
    let fixed = |(i, &(block, at)): (usize, &(usize, u64))| {
        let number = several.binary_search(&block).ok()?;
        Some((i, placed.offsets[number].saturating_add(at)))
    };
    let fixed: Vec<(usize, u64)> = places.iter().enumerate().filter_map(fixed).collect();
    let index = Lives::of(buffers);
    let mut looks = effort.saturating_mul(buffers.len() as u64);
    for &(name, key, ends) in ORDERS {
        let least = most_alive(buffers).max(placed.bytes);
        let way = Way {
            name,
            ceiling: ends.then_some(least),
        };
        let order = sorted(buffers, key).into_iter();
        let order = order.filter(|&i| fixed.binary_search_by_key(&i, |f| f.0).is_err());
        let order: Vec<usize> = order.collect();
        let found = in_order(buffers, (&fixed, &order), &index, &mut looks, way);
        let Some(found) = found else { break };
        if found.bytes < best.bytes {
            best = found;
        }
    }
    best
}

/// The way in which the buffers of an order are placed.
#[derive(Clone, Copy)]
struct Way {
    name: &'static str,
    /// The intended height of the arena. Buffers then go to its ends, the bottom first, so that the free space between
    /// them stays in one piece. Otherwise values in a sequence, such as the sums along a residual network, would come
    /// to lie above the largest values.
    ceiling: Option<u64>,
}

/// The key that buffers are ordered by, the greatest first.
type Key = fn(&Buffer) -> u64;

/// The orders, and whether buffers go to both ends.
const ORDERS: &[(&str, Key, bool)] = &[
    ("size", |b| b.bytes, false),
    ("size times life", size_times_life, false),
    ("life", Buffer::life, false),
    ("life, to both ends", Buffer::life, true),
    ("size times life, to both ends", size_times_life, true),
    ("size, to both ends", |b| b.bytes, true),
];

fn size_times_life(buffer: &Buffer) -> u64 {
    buffer.bytes.saturating_mul(buffer.life())
}

fn sorted(buffers: &[Buffer], key: Key) -> Vec<usize> {
    let mut order: Vec<usize> = (0..buffers.len()).collect();
    order.sort_by_key(|&i| std::cmp::Reverse((key(&buffers[i]), buffers[i].bytes)));
    order
}

/// The most bytes that are alive at once: a lower bound of every assignment.
pub(super) fn most_alive(buffers: &[Buffer]) -> u64 {
    let mut steps: BTreeMap<usize, (u64, u64)> = BTreeMap::new();
    for buffer in buffers {
        let begins = &mut steps.entry(buffer.first).or_default().0;
        *begins = begins.saturating_add(buffer.bytes);
        let ends = &mut steps.entry(buffer.last + 1).or_default().1;
        *ends = ends.saturating_add(buffer.bytes);
    }
    let (mut alive, mut most) = (0u64, 0u64);
    for (begins, ends) in steps.into_values() {
        alive = alive.saturating_sub(ends).saturating_add(begins);
        most = most.max(alive);
    }
    most
}

/// The free ranges of an arena that grows, by offset and by size.
#[derive(Default)]
struct Free {
    by_offset: BTreeMap<u64, u64>,
    by_size: BTreeSet<(u64, u64)>,
    end: u64,
}

impl Free {
    fn add(&mut self, offset: u64, bytes: u64) {
        self.by_offset.insert(offset, bytes);
        self.by_size.insert((bytes, offset));
    }

    fn remove(&mut self, offset: u64, bytes: u64) {
        self.by_offset.remove(&offset);
        self.by_size.remove(&(bytes, offset));
    }

    /// Takes the smallest range that is large enough. If there is none, takes bytes at the end, including a free range
    /// there.
    fn take(&mut self, bytes: u64) -> u64 {
        if let Some(&(size, offset)) = self.by_size.range((bytes, 0)..).next() {
            self.remove(offset, size);
            if bytes < size {
                self.add(offset + bytes, size - bytes);
            }
            return offset;
        }
        let last = self.by_offset.last_key_value().map(|(&o, &s)| (o, s));
        let offset = match last.filter(|(offset, size)| offset + size == self.end) {
            Some((offset, size)) => {
                self.remove(offset, size);
                offset
            }
            None => self.end,
        };
        self.end = offset.saturating_add(bytes);
        offset
    }

    /// Frees a range and joins it with adjacent free ranges.
    fn give(&mut self, mut offset: u64, mut bytes: u64) {
        let before = self.by_offset.range(..offset).next_back();
        if let Some((&at, &size)) = before.filter(|&(&at, &size)| at + size == offset) {
            self.remove(at, size);
            (offset, bytes) = (at, bytes + size);
        }
        if let Some(&size) = self.by_offset.get(&(offset + bytes)) {
            self.remove(offset + bytes, size);
            bytes += size;
        }
        self.add(offset, bytes);
    }
}

/// Best fit in the order in which the program needs the buffers.
fn as_it_runs(buffers: &[Buffer]) -> Assignment {
    let mut free = Free::default();
    let mut offsets = vec![0; buffers.len()];
    let mut dying: BTreeSet<(usize, usize)> = BTreeSet::new();
    let mut order: Vec<usize> = (0..buffers.len()).collect();
    order.sort_by_key(|&i| (buffers[i].first, std::cmp::Reverse(buffers[i].bytes)));
    for i in order {
        let Buffer { bytes, first, last } = buffers[i];
        while let Some(&(end, dead)) = dying.first().filter(|(end, _)| *end < first) {
            dying.remove(&(end, dead));
            free.give(offsets[dead], buffers[dead].bytes);
        }
        if bytes == 0 {
            continue;
        }
        offsets[i] = free.take(bytes);
        dying.insert((last, i));
    }
    Assignment {
        offsets,
        bytes: free.end,
        order: "as it runs",
    }
}

/// A segment tree over time: the buffers whose lives meet a given life are found without looking at the others.
struct Lives {
    /// The number of leaves of the tree, a power of two.
    leaves: usize,
    /// The moments at which lives begin, sorted.
    moments: Vec<usize>,
}

impl Lives {
    fn of(buffers: &[Buffer]) -> Lives {
        let mut moments: Vec<usize> = buffers.iter().map(|b| b.first).collect();
        moments.sort_unstable();
        moments.dedup();
        Lives {
            leaves: moments.len().next_power_of_two(),
            moments,
        }
    }

    /// The range of moment numbers at which a buffer is alive.
    fn span(&self, buffer: &Buffer) -> (usize, usize) {
        let from = self.moments.partition_point(|&m| m < buffer.first);
        let to = self.moments.partition_point(|&m| m <= buffer.last);
        (from, to.max(from + 1))
    }

    /// Calls `each` with the tree nodes that make up a span.
    fn cover(&self, span: (usize, usize), mut each: impl FnMut(usize)) {
        let (mut from, mut to) = (span.0 + self.leaves, span.1 + self.leaves);
        while from < to {
            if from % 2 == 1 {
                each(from);
                from += 1;
            }
            if to % 2 == 1 {
                to -= 1;
                each(to);
            }
            (from, to) = (from / 2, to / 2);
        }
    }
}

/// The placed buffers, each at the nodes of its span. The nodes above are marked.
struct Placed<'a> {
    lives: &'a Lives,
    at: Vec<Vec<usize>>,
    /// True if a buffer is placed below the node.
    below: Vec<bool>,
}

impl<'a> Placed<'a> {
    fn new(lives: &'a Lives) -> Self {
        Placed {
            lives,
            at: vec![Vec::new(); 2 * lives.leaves],
            below: vec![false; 2 * lives.leaves],
        }
    }

    fn add(&mut self, buffer: usize, span: (usize, usize)) {
        let (at, below) = (&mut self.at, &mut self.below);
        self.lives.cover(span, |node| {
            at[node].push(buffer);
            let mut up = node / 2;
            while 0 < up && !below[up] {
                below[up] = true;
                up /= 2;
            }
        });
    }

    /// Collects every placed buffer that is alive in a span, each once.
    fn meeting(&self, span: (usize, usize), found: &mut Vec<usize>) {
        let mut stack = Vec::new();
        self.lives.cover(span, |node| {
            let mut up = node / 2;
            while 0 < up {
                found.extend_from_slice(&self.at[up]);
                up /= 2;
            }
            stack.push(node);
        });
        while let Some(node) = stack.pop() {
            found.extend_from_slice(&self.at[node]);
            if self.below[node] {
                stack.extend([2 * node, 2 * node + 1]);
            }
        }
        found.sort_unstable();
        found.dedup();
    }
}

/// Places the buffers in this order. Each goes into the smallest gap between the placed buffers that are alive with it.
/// The buffers in `fixed` are placed first, at given offsets. `None` if that takes more looks than are left.
fn in_order(
    buffers: &[Buffer],
    (fixed, order): (&[(usize, u64)], &[usize]),
    lives: &Lives,
    looks: &mut u64,
    way: Way,
) -> Option<Assignment> {
    let mut placed = Placed::new(lives);
    let mut offsets = vec![0u64; buffers.len()];
    let mut end = 0u64;
    let mut found = Vec::new();
    for &(i, offset) in fixed {
        offsets[i] = offset;
        end = end.max(offset.saturating_add(buffers[i].bytes));
        placed.add(i, lives.span(&buffers[i]));
    }
    for &i in order {
        let buffer = &buffers[i];
        if buffer.bytes == 0 {
            continue;
        }
        let span = lives.span(buffer);
        found.clear();
        placed.meeting(span, &mut found);
        *looks = looks.checked_sub(found.len() as u64)?;
        found.sort_unstable_by_key(|&other| (offsets[other], other));
        let offset = best_gap(buffers, &offsets, &found, (buffer.bytes, way.ceiling));
        offsets[i] = offset;
        end = end.max(offset.saturating_add(buffer.bytes));
        placed.add(i, span);
    }
    Some(Assignment {
        offsets,
        bytes: end,
        order: way.name,
    })
}

/// The offset of the smallest gap between buffers, sorted by offset, that has at least `bytes`; else the offset behind
/// all of them. With a ceiling, its two ends are preferred to any gap.
fn best_gap(
    buffers: &[Buffer],
    offsets: &[u64],
    sorted: &[usize],
    (bytes, ceiling): (u64, Option<u64>),
) -> u64 {
    let (mut end, mut best) = (0u64, None::<(u64, u64)>);
    for &other in sorted {
        let gap = offsets[other].saturating_sub(end);
        if bytes <= gap {
            if ceiling.is_some() && end == 0 {
                return 0;
            }
            if best.is_none_or(|(least, _)| gap < least) {
                best = Some((gap, end));
            }
        }
        end = end.max(offsets[other].saturating_add(buffers[other].bytes));
    }
    let top = ceiling.and_then(|ceiling| ceiling.checked_sub(bytes));
    match top.filter(|top| end <= *top && 0 < end) {
        Some(top) => top,
        None => best.map_or(end, |(_, offset)| offset),
    }
}

/// Moves the buffer that reaches highest forward in the order and places all buffers again, as long as looks are left
/// and the arena is larger than the lower bound.
fn repair(
    buffers: &[Buffer],
    (mut order, way): (Vec<usize>, Way),
    lives: &Lives,
    looks: &mut u64,
    least: u64,
    best: &mut Assignment,
) {
    let way = Way {
        name: "repaired",
        ..way
    };
    let mut found = in_order(buffers, (&[], &order), lives, looks, way);
    for _ in 0..REPAIRS {
        let Some(now) = &found else { return };
        let highest = (0..buffers.len())
            .filter(|&i| 0 < buffers[i].bytes)
            .max_by_key(|&i| now.offsets[i].saturating_add(buffers[i].bytes));
        let Some(highest) = highest else { return };
        let Some(place) = order.iter().position(|&i| i == highest) else {
            return;
        };
        // Halfway to the front: it now goes before half of the buffers that it came after.
        order.remove(place);
        order.insert(place / 2, highest);
        if place == 0 {
            return;
        }
        found = in_order(buffers, (&[], &order), lives, looks, way);
        if let Some(now) = found.as_ref().filter(|now| now.bytes < best.bytes) {
            *best = now.clone();
        }
        if best.bytes <= least {
            return;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn buffer(bytes: u64, first: usize, last: usize) -> Buffer {
        Buffer { bytes, first, last }
    }

    /// Checks that no two buffers that are alive together share a byte, and that the arena holds all of them.
    #[track_caller]
    fn is_sound(buffers: &[Buffer], found: &Assignment) {
        for (i, a) in buffers.iter().enumerate() {
            assert!(found.offsets[i] + a.bytes <= found.bytes || a.bytes == 0);
            for (j, b) in buffers.iter().enumerate().skip(i + 1) {
                let together = a.first <= b.last && b.first <= a.last;
                let (x, y) = (found.offsets[i], found.offsets[j]);
                let apart = x + a.bytes <= y || y + b.bytes <= x || a.bytes == 0 || b.bytes == 0;
                assert!(!together || apart, "{a:?} at {x}, {b:?} at {y}");
            }
        }
    }

    /// Pseudo-random numbers.
    fn numbers(seed: u64) -> impl FnMut(u64) -> u64 {
        let mut state = seed.wrapping_mul(0x9E37_79B9_7F4A_7C15) | 1;
        move |below| {
            state ^= state << 13;
            state ^= state >> 7;
            state ^= state << 17;
            state % below
        }
    }

    #[test]
    fn nothing_overlaps_in_any_order() {
        for seed in 1..200 {
            let mut next = numbers(seed);
            let buffers: Vec<Buffer> = (0..40)
                .map(|_| {
                    let first = next(50) as usize;
                    buffer(next(9) * 64, first, first + next(12) as usize)
                })
                .collect();
            let mut looks = u64::MAX;
            let lives = Lives::of(&buffers);
            is_sound(&buffers, &as_it_runs(&buffers));
            for &(name, key, ends) in ORDERS {
                let order = sorted(&buffers, key);
                let ceiling = ends.then(|| most_alive(&buffers));
                let way = Way { name, ceiling };
                let found = in_order(&buffers, (&[], &order), &lives, &mut looks, way);
                is_sound(&buffers, &found.expect("looks are left"));
            }
            let best = assign(&buffers, 1000);
            is_sound(&buffers, &best);
            assert!(most_alive(&buffers) <= best.bytes);
        }
    }

    #[test]
    fn blocks_stay_together() {
        for seed in 1..200 {
            let mut next = numbers(seed);
            // The members of each block are adjacent and live to the end of the block.
            let (mut buffers, mut places, mut blocks) = (Vec::new(), Vec::new(), Vec::new());
            for _ in 0..12 {
                let (mut first, last) = (next(50) as usize, 50 + next(20) as usize);
                let mut whole = buffer(0, first, last);
                for _ in 0..1 + next(4) {
                    let member = buffer(next(9) * 64, first, last);
                    places.push((blocks.len(), whole.bytes));
                    whole.bytes += member.bytes;
                    first = last.min(first + next(8) as usize);
                    buffers.push(member);
                }
                blocks.push(whole);
            }
            for effort in [0, 1000] {
                let found = assign_blocks(&buffers, (&places, &blocks), effort);
                is_sound(&buffers, &found);
                let starts = places.iter().zip(&found.offsets);
                let mut known = std::collections::BTreeMap::new();
                for (&(block, at), offset) in starts {
                    assert_eq!(*known.entry(block).or_insert(offset - at), offset - at);
                }
                assert!(most_alive(&buffers) <= found.bytes);
            }
        }
    }

    #[test]
    fn what_is_not_written_yet_is_free() {
        // The third buffer is dead before the second member of the block is written, so it lies in that member's bytes.
        let buffers = [buffer(64, 0, 9), buffer(256, 5, 9), buffer(256, 1, 4)];
        let blocks = [buffer(320, 0, 9), buffer(256, 1, 4)];
        let found = assign_blocks(&buffers, (&[(0, 0), (0, 64), (1, 0)], &blocks), 1000);
        is_sound(&buffers, &found);
        assert_eq!(found.bytes, 320);
    }

    #[test]
    fn no_more_than_is_alive_where_lives_nest() {
        let buffers = [
            buffer(64, 0, 3),
            buffer(128, 1, 2),
            buffer(192, 3, 4),
            buffer(0, 0, 9),
        ];
        let best = assign(&buffers, 1000);
        is_sound(&buffers, &best);
        assert_eq!((best.bytes, most_alive(&buffers)), (256, 256));
        assert_eq!(assign(&[], 1000).bytes, 0);
    }

    /// Each of the long-lived buffers is alive together with the next one, while the large ones come and go.
    #[test]
    fn residuals_leave_the_middle_free() {
        let mut buffers = Vec::new();
        for layer in 0..6 {
            let at = layer * 10;
            buffers.push(buffer(64, at, at + 10));
            buffers.push(buffer(256, at + 2, at + 4));
            buffers.push(buffer(256, at + 4, at + 6));
            buffers.push(buffer(192, at + 7, at + 8));
        }
        let best = assign(&buffers, 1000);
        is_sound(&buffers, &best);
        assert_eq!(
            (best.bytes, most_alive(&buffers)),
            (576, 576),
            "{}",
            best.order
        );
    }

    #[test]
    fn without_effort_the_order_of_the_program_is_taken() {
        let buffers = [
            buffer(64, 0, 1),
            buffer(128, 1, 2),
            buffer(64, 2, 3),
            buffer(192, 3, 3),
        ];
        let best = assign(&buffers, 0);
        is_sound(&buffers, &best);
        assert_eq!(best.order, "as it runs");
    }
}
