//! Detection of layers in programs whose names give none: ranges of operations that repeat.
//!
//! The operations of a layer, or of the whole function, are treated as a string. The range with the most operations
//! that repeats with some period becomes one layer per repetition, and the operations to its left and right are
//! searched in the same way. Example: `a b c b c b c d` becomes `a`, three layers `b c`, and `d`. (The real limits are
//! larger.)
//!
//! The repetitions begin where the fewest values cross. They are named after the common part of the names of their
//! constants.

use crate::graph::Graph;
use indexmap::{IndexMap, IndexSet};

/// A layer with fewer operations than this is not split further.
const FEWEST: usize = 90;
/// The shortest and the longest period that is searched for.
const PERIODS: (usize, usize) = (5, 1500);
/// A range of fewer operations than this is considered coincidence.
const SHORTEST: usize = 24;
/// The largest number of ranges that are searched for in one layer.
const MOST_STRETCHES: usize = 24;

/// Moves repeating operations into layers of their own, in layers that have very many operations.
pub(crate) fn find_layers(graph: &mut Graph) {
    let mut inside: IndexMap<usize, Vec<usize>> = IndexMap::new();
    for (i, node) in graph.nodes.iter().enumerate().filter(|(_, n)| !n.is_port()) {
        inside.entry(node.scope).or_default().push(i);
    }
    for (scope, nodes) in inside {
        if nodes.len() >= FEWEST {
            divide(graph, scope, &nodes);
        }
    }
}

fn divide(graph: &mut Graph, scope: usize, nodes: &[usize]) {
    let mut kinds: IndexSet<&str> = IndexSet::new();
    let text: Vec<usize> = nodes
        .iter()
        .map(|&i| kinds.insert_full(&graph.nodes[i].alike).0)
        .collect();
    let crossing = crossing(graph, nodes);
    let mut taken: Vec<String> = Vec::new();
    let mut open = vec![(0, nodes.len())];
    let mut layers = Vec::new();
    for _ in 0..MOST_STRETCHES {
        let Some((start, end)) = open.pop() else {
            break;
        };
        let Some(mut stretch) = longest(&text[start..end]) else {
            continue;
        };
        stretch.start += start;
        let phase = (0..=stretch.spare).min_by_key(|s| crossing[stretch.start + s]);
        stretch.start += phase.unwrap_or(0);
        let stop = stretch.start + stretch.period * stretch.count;
        open.push((stop, end));
        open.push((start, stretch.start));
        layers.extend((0..stretch.count).map(|k| {
            let from = stretch.start + k * stretch.period;
            (from, from + stretch.period)
        }));
    }
    layers.sort_unstable();
    for (number, (from, to)) in layers.into_iter().enumerate() {
        let name = common_name(graph, &nodes[from..to]).filter(|name| !taken.contains(name));
        let name = name.unwrap_or_else(|| format!("repetition {}", number + 1));
        taken.push(name.clone());
        let layer = graph.scopes.child(scope, &name);
        for &node in &nodes[from..to] {
            graph.nodes[node].scope = layer;
        }
    }
}

/// A range of operations that repeats with some period.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Stretch {
    start: usize,
    period: usize,
    count: usize,
    /// The number of operations by which it could start later and still repeat as often.
    spare: usize,
}

/// The range with the most operations; a longer period must cover a sixteenth more.
fn longest(text: &[usize]) -> Option<Stretch> {
    let mut best: Option<Stretch> = None;
    let most = PERIODS.1.min(text.len() / 2);
    for period in PERIODS.0..=most {
        let mut run = 0;
        for at in 0..text.len() - period {
            run = if text[at] == text[at + period] {
                run + 1
            } else {
                0
            };
            let count = run / period + 1;
            let covered = period * count;
            let better = best.map_or(covered >= SHORTEST, |b| 17 * b.covered() < 16 * covered);
            if count > 1 && (better || best.is_some_and(|b| b.grows(period, at + 1, run))) {
                best = Some(Stretch {
                    start: at + 1 - run,
                    period,
                    count,
                    spare: run % period,
                });
            }
        }
    }
    best
}

impl Stretch {
    fn covered(&self) -> usize {
        self.period * self.count
    }

    /// Returns whether a run of matches with this period, which ends at `end`, extends this range.
    fn grows(&self, period: usize, end: usize, run: usize) -> bool {
        self.period == period && self.start == end - run
    }
}

/// For each position between operations, the number of values that are made before it and read after it.
fn crossing(graph: &Graph, nodes: &[usize]) -> Vec<usize> {
    let place = |node: usize| nodes.partition_point(|&n| n < node);
    let mut change = vec![0isize; nodes.len() + 2];
    for wire in &graph.wires {
        let Some(&last) = wire.to.last() else {
            continue;
        };
        let from = place(wire.from + 1);
        let to = place(last).max(from);
        change[from] += 1;
        change[to + 1] -= 1;
    }
    let mut open = 0isize;
    let counts = change.iter().map(|c| {
        open += c;
        usize::try_from(open).unwrap_or(0)
    });
    counts.collect()
}

/// The common prefix of the names of the constants that these operations read, up to a separator.
fn common_name(graph: &Graph, nodes: &[usize]) -> Option<String> {
    let names = nodes
        .iter()
        .filter_map(|&i| graph.nodes[i].constant.as_deref());
    let mut common: Option<Vec<&str>> = None;
    for name in names {
        let parts: Vec<&str> = name.split('.').collect();
        let (_, folder) = parts.split_last()?;
        if folder.is_empty() {
            continue;
        }
        common = Some(match common {
            None => folder.to_vec(),
            Some(all) => {
                let same = all.iter().zip(folder).take_while(|(a, b)| a == b).count();
                all[..same].to_vec()
            }
        });
    }
    let name = common?.join(".");
    (!name.is_empty()).then_some(name)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(text: &str, wanted: Option<(usize, usize, usize, usize)>) {
        let text: Vec<usize> = text.bytes().map(usize::from).collect();
        let found = longest(&text).map(|s| (s.start, s.period, s.count, s.spare));
        assert_eq!(found, wanted);
    }

    #[test]
    fn the_longest_repetition_is_found() {
        check("abcdefghabcdefgh", None);
        check("xxabcdefghabcdefghabcdefghyy", Some((2, 8, 3, 0)));
        check("abcdefghabcdefghabcdefghabc", Some((0, 8, 3, 3)));
        check("aaaaaaaaaaaaaaaaaaaaaaaaaa", Some((0, 5, 5, 1)));
        let two = "abcdefghabcdefghabcdefghqqqq0123456789A0123456789A0123456789A";
        check(two, Some((28, 11, 3, 0)));
        check("", None);
    }
}
