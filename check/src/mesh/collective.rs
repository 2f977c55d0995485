//! The collectives that turn one sharding of a value into another.
//!
//! Sizes are bytes that each device sends over its link of a ring, with `n` devices along the axis and `b` bytes of the
//! value on one device:
//!
//! | collective | bytes | steps |
//! |---|---|---|
//! | all-gather to `b` | `b (n-1)/n` | `n-1` |
//! | reduce-scatter of `b` | `b (n-1)/n` | `n-1` |
//! | all-reduce of `b` | `2 b (n-1)/n` | `2 (n-1)` |
//! | all-to-all of `b` | `b (n-1)/n` | `n-1` |
//! | permute of `b` | `b` | 1 |
//!
//! A device that has all of a value takes its part of it for nothing.

use super::links::Links;
use optc_ir::Partial;
use optc_ir::shard::{Held, Piece, Sharding, Split};

/// The kind of a collective.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Kind {
    /// Every device gets the parts of all.
    AllGather,
    /// Partial results are combined; every device gets all of the combination.
    AllReduce,
    /// Every device sends a part to every other one.
    AllToAll,
    /// Every device sends its part to one other device.
    Permute,
    /// Partial results are combined; every device gets its part.
    ReduceScatter,
}

impl Kind {
    /// The name, as in XLA's text.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Kind::AllGather => "all-gather",
            Kind::AllReduce => "all-reduce",
            Kind::AllToAll => "all-to-all",
            Kind::Permute => "collective-permute",
            Kind::ReduceScatter => "reduce-scatter",
        }
    }
}

/// One collective along an axis.
#[derive(Clone, Debug, PartialEq)]
pub struct Collective {
    /// Its kind.
    pub kind: Kind,
    /// The axis of the mesh.
    pub axis: usize,
    /// The bytes that each device sends.
    pub bytes: u64,
    /// The modelled seconds.
    pub seconds: f64,
}

/// The state of a conversion: the sharding so far, and the collectives that led to it.
struct Conversion<'a> {
    links: &'a Links,
    now: Sharding,
    /// The bytes of the whole value, with the padding of its parts.
    whole: f64,
    made: Vec<Collective>,
}

/// The collectives that turn a value of `bytes` bytes from one sharding into another, in their order.
///
/// First each device takes what it has, then partial results are combined into parts, parts are exchanged, the rest of
/// the partial results is combined, and parts are gathered, over the slowest link first, where pieces are small.
#[must_use]
pub fn conversion(from: &Sharding, to: &Sharding, bytes: u64, links: &Links) -> Vec<Collective> {
    if from == to {
        return Vec::new();
    }
    let mut conversion = Conversion {
        links,
        now: from.clone(),
        whole: float(bytes),
        made: Vec::new(),
    };
    // Each step settles an axis or frees one, so a few steps for each axis suffice.
    for _ in 0..4 * links.0.len().max(1) {
        if conversion.now == *to || !conversion.step(to) {
            break;
        }
    }
    conversion.made
}

/// One step of a conversion.
#[derive(Clone, Debug, PartialEq)]
pub struct Step {
    /// The collective; `None` where each device takes its part of what it has.
    pub kind: Option<Kind>,
    /// The axes whose splits change: two for a permutation that exchanges their parts, else one.
    pub axes: Vec<usize>,
    /// The sharding before.
    pub from: Sharding,
    /// The sharding afterwards.
    pub to: Sharding,
}

/// The steps that turn a value from one sharding into another, those without a collective included; `None` if there are
/// none that do, as for a value that is to be split into partial results.
#[must_use]
pub fn steps(from: &Sharding, to: &Sharding, links: &Links) -> Option<Vec<Step>> {
    let mut conversion = Conversion {
        links,
        now: from.clone(),
        whole: 0.0,
        made: Vec::new(),
    };
    let mut all = Vec::new();
    while conversion.now != *to {
        let (before, sent) = (conversion.now.clone(), conversion.made.len());
        if all.len() == 4 * links.0.len() || !conversion.step(to) {
            return None;
        }
        let after = conversion.now.clone();
        let changed = |axis: &usize| before.on(*axis) != after.on(*axis);
        all.push(Step {
            kind: conversion.made.get(sent).map(|made| made.kind),
            axes: (0..links.0.len()).filter(changed).collect(),
            from: before,
            to: after,
        });
    }
    Some(all)
}

#[expect(
    clippy::cast_precision_loss,
    reason = "a model needs no more digits than a float has"
)]
fn float(n: u64) -> f64 {
    n as f64
}

impl Conversion<'_> {
    fn step(&mut self, to: &Sharding) -> bool {
        let axes: Vec<usize> = self.by_bandwidth();
        let fast = || axes.iter().rev().copied();
        fast().any(|a| self.take(a, to))
            || fast().any(|a| self.scatter(a, to))
            || fast().any(|a| self.swap(a, to))
            || fast().any(|a| self.exchange(a, to))
            || fast().any(|a| self.reduce(a))
            || axes.iter().any(|&a| self.gather(a, to, false))
            || axes.iter().any(|&a| self.gather(a, to, true))
    }

    /// The axes, the slowest link first.
    fn by_bandwidth(&self) -> Vec<usize> {
        let mut axes: Vec<usize> = (0..self.links.0.len()).collect();
        let key = |&a: &usize| self.links.0[a].bandwidth;
        axes.sort_by(|a, b| key(a).total_cmp(&key(b)).then(a.cmp(b)));
        axes
    }

    /// Returns whether the wanted split of an axis is beside the present ones of all other axes.
    fn fits(&self, split: &Split, except: Option<usize>) -> bool {
        let others = self.now.pieces();
        let mut others = others.filter(|(a, _)| *a != split.axis && Some(*a) != except);
        others.all(|(_, piece)| split.pieces().iter().all(|p| p.is_beside(piece)))
    }

    /// Returns whether a split has no digit in common with the present one of this axis.
    fn is_beside(&self, axis: usize, split: &Split) -> bool {
        let now = self.now.on(axis).map_or(&[][..], Split::pieces);
        let beside = |piece: &Piece| split.pieces().iter().all(|p| p.is_beside(piece));
        now.iter().all(beside)
    }

    fn put(&mut self, axis: usize, split: Option<&Split>) {
        let now = std::mem::take(&mut self.now);
        self.now = match split {
            Some(split) => now.with(split.clone()),
            None => now.without(axis),
        };
    }

    /// The bytes on one device.
    fn here(&self) -> f64 {
        self.whole / float(self.now.parts())
    }

    fn add(&mut self, kind: Kind, axis: usize, size: f64) {
        let link = &self.links.0[axis];
        let (n, ring) = (float(link.extent), float(link.extent - 1));
        let (bytes, steps) = match kind {
            Kind::AllGather | Kind::ReduceScatter | Kind::AllToAll => (size * ring / n, ring),
            Kind::AllReduce => (2.0 * size * ring / n, 2.0 * ring),
            Kind::Permute => (size, 1.0),
        };
        #[expect(
            clippy::cast_possible_truncation,
            clippy::cast_sign_loss,
            reason = "a size is not negative, and less than the bytes of a program"
        )]
        let whole = bytes.round() as u64;
        self.made.push(Collective {
            kind,
            axis,
            bytes: whole,
            seconds: bytes / link.bandwidth + steps * link.latency,
        });
    }

    /// Takes the wanted part of what every device of the axis has.
    fn take(&mut self, axis: usize, to: &Sharding) -> bool {
        match to.on(axis) {
            Some(split) if self.now.on(axis).is_none() && !is_partial(split) => {
                // The part must not be one that another axis still has, and gives away.
                let fits = self.fits(split, None);
                if fits {
                    self.put(axis, Some(split));
                }
                fits
            }
            _ => false,
        }
    }

    fn scatter(&mut self, axis: usize, to: &Sharding) -> bool {
        let partial = self.now.on(axis).is_some_and(is_partial);
        match to.on(axis) {
            Some(split) if partial && !is_partial(split) && self.fits(split, None) => {
                self.add(Kind::ReduceScatter, axis, self.here());
                self.put(axis, Some(split));
                true
            }
            _ => false,
        }
    }

    /// Parts that are wanted along another axis of the same extent go there in one permutation.
    fn swap(&mut self, axis: usize, to: &Sharding) -> bool {
        let Some(wanted) = to.on(axis).filter(|s| !is_partial(s)) else {
            return false;
        };
        if self.now.on(axis) == Some(wanted) || self.now.on(axis).is_some_and(is_partial) {
            return false;
        }
        let holds =
            |s: &&Split| s.axis != axis && s.held == wanted.held && to.on(s.axis) != Some(*s);
        let Some(other) = self.now.splits().iter().find(holds).map(|s| s.axis) else {
            return false;
        };
        let slower = match self.links.0[other].bandwidth < self.links.0[axis].bandwidth {
            true => other,
            false => axis,
        };
        self.add(Kind::Permute, slower, self.here());
        let moved = self.now.on(axis).map(|s| Split {
            axis: other,
            ..s.clone()
        });
        self.put(axis, Some(wanted));
        self.put(other, moved.as_ref());
        true
    }

    fn exchange(&mut self, axis: usize, to: &Sharding) -> bool {
        let split = self.now.on(axis).is_some_and(|s| !is_partial(s));
        match to.on(axis) {
            Some(wanted) if split && self.now.on(axis) != Some(wanted) && !is_partial(wanted) => {
                // Digits that overlap the present ones are no parts of a part.
                if !self.fits(wanted, None) || !self.is_beside(axis, wanted) {
                    return false;
                }
                self.add(Kind::AllToAll, axis, self.here());
                self.put(axis, Some(wanted));
                true
            }
            _ => false,
        }
    }

    fn reduce(&mut self, axis: usize) -> bool {
        let partial = self.now.on(axis).is_some_and(is_partial);
        if partial {
            self.add(Kind::AllReduce, axis, self.here());
            self.put(axis, None);
        }
        partial
    }

    /// Gathers an axis that is wanted whole, or, if nothing else helps, any that is wanted otherwise.
    fn gather(&mut self, axis: usize, to: &Sharding, any: bool) -> bool {
        let now = self.now.on(axis);
        if now.is_none() || now == to.on(axis) || !(any || to.on(axis).is_none()) {
            return false;
        }
        self.put(axis, None);
        self.add(Kind::AllGather, axis, self.here());
        true
    }
}

fn is_partial(split: &Split) -> bool {
    matches!(split.held, Held::Partial(_))
}

/// A mean of parts is a sum here: the weights are in the operation.
#[must_use]
pub(super) fn combined(partial: Partial) -> Partial {
    match partial {
        Partial::Mean => Partial::Add,
        other => other,
    }
}

#[cfg(test)]
mod tests {
    use super::super::links::AxisLink;
    use super::*;
    use optc_ir::shard::Mesh;

    fn made(from: &[&str], to: &[&str]) -> Vec<(Kind, usize, u64)> {
        let mesh: Mesh = "a:4,b:2".parse().unwrap();
        let link = |extent, bandwidth| AxisLink {
            extent,
            bandwidth,
            latency: 0.0,
        };
        let links = Links(vec![link(4, 1e9), link(2, 4e9)]);
        let read = |texts: &[&str]| Sharding::parse(texts.iter().copied(), &mesh).unwrap();
        let all = conversion(&read(from), &read(to), 4096, &links);
        all.iter().map(|c| (c.kind, c.axis, c.bytes)).collect()
    }

    #[test]
    fn collectives_have_the_bytes_of_a_ring() {
        assert_eq!(made(&[], &["a@d0/16"]), []);
        assert_eq!(made(&["a@d0/16"], &[]), [(Kind::AllGather, 0, 3072)]);
        assert_eq!(made(&["a@sum"], &[]), [(Kind::AllReduce, 0, 6144)]);
        assert_eq!(
            made(&["a@sum"], &["a@d0/16"]),
            [(Kind::ReduceScatter, 0, 3072)]
        );
        assert_eq!(made(&["a@d0/16"], &["a@d1/4"]), [(Kind::AllToAll, 0, 768)]);
        // A part first, so that less is reduced.
        assert_eq!(made(&["a@sum"], &["b@d1/8"]), [(Kind::AllReduce, 0, 3072)]);
        // Over the slow link first, where the pieces are small.
        let both = [(Kind::AllGather, 0, 1536), (Kind::AllGather, 1, 2048)];
        assert_eq!(made(&["a@d0/16", "b@d1/8"], &[]), both);
    }

    #[test]
    fn a_part_goes_to_another_axis_in_one_step() {
        let mesh: Mesh = "a:2,b:2".parse().unwrap();
        let link = AxisLink {
            extent: 2,
            bandwidth: 1e9,
            latency: 0.0,
        };
        let links = Links(vec![link.clone(), link]);
        let read = |texts: &[&str]| Sharding::parse(texts.iter().copied(), &mesh).unwrap();
        let kinds = |from: &[&str], to: &[&str]| -> Vec<(Kind, u64)> {
            let all = conversion(&read(from), &read(to), 64, &links);
            all.iter().map(|c| (c.kind, c.bytes)).collect()
        };
        assert_eq!(kinds(&["a@d0/2"], &["b@d0/2"]), [(Kind::Permute, 32)]);
        assert_eq!(
            kinds(&["a@d0/2", "b@d1/2"], &["a@d1/2", "b@d0/2"]),
            [(Kind::Permute, 16)]
        );
        assert_eq!(
            kinds(&["a@d0/2", "b@d0"], &["a@d0", "b@d0/2"]),
            [(Kind::Permute, 16)]
        );
    }

    #[test]
    fn steps_are_the_collectives_and_what_is_taken() {
        let mesh: Mesh = "a:2,b:2,c:4".parse().unwrap();
        let link = |extent| AxisLink {
            extent,
            bandwidth: 1e9,
            latency: 0.0,
        };
        let links = Links(vec![link(2), link(2), link(4)]);
        let texts: [&[&str]; 7] = [
            &[],
            &["a@d0/4"],
            &["b@d0/4", "c@d1/4"],
            &["a@d1/8", "c@d1/2"],
            &["a@d0", "c@d1"],
            &["c@d0%2*d1/8%2"],
            &["a@sum", "b@d0/2"],
        ];
        let all = texts.map(|t| Sharding::parse(t.iter().copied(), &mesh).unwrap());
        for from in &all {
            for to in &all[..6] {
                let steps = steps(from, to, &links).unwrap();
                let kinds: Vec<Kind> = steps.iter().filter_map(|step| step.kind).collect();
                let made = conversion(from, to, 4096, &links);
                assert_eq!(kinds, made.iter().map(|c| c.kind).collect::<Vec<_>>());
                let mut now = from;
                for step in &steps {
                    assert_eq!(&step.from, now);
                    now = &step.to;
                }
                assert_eq!(now, to);
            }
        }
        assert_eq!(steps(&all[0], &all[6], &links), None);
    }
}
