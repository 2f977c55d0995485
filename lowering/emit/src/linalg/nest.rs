//! The loop nest of an operation: the digits of its dimensions, with the same cuts at all ports.

use super::body::{Body, Idx, Scalar};
use super::digits::volume;
use optc_layout::{Cuts, Digit};

/// Loops; each is a digit of one dimension of the iteration space.
#[derive(Clone, Debug)]
pub(super) struct Nest {
    pub(super) loops: Vec<Digit>,
    cuts: Cuts,
    /// Dimensions whose loops run beyond the extent, with these extents.
    pub(super) limits: Vec<(usize, u64)>,
}

impl Nest {
    /// The loops for these ports, in the order of their first occurrence. `None` if cuts do not divide one another or
    /// extents differ.
    pub(super) fn of(ports: &[&[Digit]]) -> Option<Nest> {
        Nest::cut(ports, Cuts::of(ports))
    }

    /// As [`Nest::of`], with additional cuts.
    pub(super) fn cut(ports: &[&[Digit]], cuts: Cuts) -> Option<Nest> {
        let mut loops: Vec<Digit> = Vec::new();
        for digits in ports {
            for digit in cuts.refine(digits)? {
                match loops.iter().find(|l| l.key() == digit.key()) {
                    Some(known) if known.extent != digit.extent => return None,
                    Some(_) => {}
                    None => loops.push(digit),
                }
            }
        }
        Some(Nest {
            loops,
            cuts,
            limits: Vec::new(),
        })
    }

    /// The loops for a single port.
    pub(super) fn plain(digits: &[Digit]) -> Nest {
        Nest {
            loops: digits.to_vec(),
            cuts: Cuts::default(),
            limits: Vec::new(),
        }
    }

    /// The same loops, with the extents of dimensions whose loops run beyond them.
    pub(super) fn within(self, limits: &[(usize, u64)]) -> Nest {
        let limits = limits.to_vec();
        Nest { limits, ..self }
    }

    /// Returns whether the reduction to a result with these refined digits runs over padding.
    pub(super) fn sums_padding(&self, out: &[Digit]) -> bool {
        self.summed(out).next().is_some()
    }

    /// The limits of the dimensions that are reduced for a result with these refined digits.
    fn summed<'a>(&'a self, out: &'a [Digit]) -> impl Iterator<Item = (usize, u64)> + 'a {
        let whole = |of: usize| {
            let mut own = self.loops.iter().filter(|l| l.of == of);
            own.all(|l| out.iter().any(|d| d.key() == l.key()))
        };
        self.limits.iter().copied().filter(move |l| !whole(l.0))
    }

    /// The number of elements that are combined into one element of these refined digits.
    pub(super) fn combined(&self, out: &[Digit]) -> u64 {
        let limited = |of: usize| self.limits.iter().any(|l| l.0 == of);
        let loops = self.loops.iter().filter(|l| !limited(l.of));
        let own = loops.filter(|l| !out.iter().any(|d| d.key() == l.key()));
        let extents = own.map(|l| l.extent).chain(self.summed(out).map(|l| l.1));
        volume(&extents.collect::<Vec<_>>())
    }

    /// Guards a reduction step against padding: selects `made` inside of the limits, else the previous value of the
    /// result.
    pub(super) fn without_padding(
        &self,
        b: &mut Body,
        out: &[Digit],
        made: Scalar,
        before: &Scalar,
    ) -> Scalar {
        let mut made = made;
        for (of, size) in self.summed(out) {
            let (at, end) = (self.index(b, of), b.extent(size));
            let inside = b.index_compare("slt", &at, &end);
            let after = b.stored(&made, before.ty);
            made = b.select(&inside, &after, before);
        }
        made
    }

    /// The digits of a port, cut like the loops.
    pub(super) fn refined(&self, digits: &[Digit]) -> Vec<Digit> {
        // No nest is made of ports that do not fit.
        self.cuts.refine(digits).unwrap_or_else(|| digits.to_vec())
    }

    /// The number of the loop for a digit.
    pub(super) fn place(&self, digit: &Digit) -> Option<usize> {
        self.loops.iter().position(|l| l.key() == digit.key())
    }

    /// The numbers of the loops for refined digits.
    pub(super) fn places(&self, digits: &[Digit]) -> Vec<usize> {
        digits.iter().filter_map(|d| self.place(d)).collect()
    }

    /// The indexing map of refined digits.
    pub(super) fn map(&self, digits: &[Digit]) -> String {
        let at: Vec<String> = self
            .places(digits)
            .iter()
            .map(|i| format!("d{i}"))
            .collect();
        map_text(self.loops.len(), &at)
    }

    /// The iterator type of each loop for a result with these refined digits.
    pub(super) fn kinds(&self, out: &[Digit]) -> Vec<&'static str> {
        let kept = self.places(out);
        let kind = |i| match kept.contains(&i) {
            true => "parallel",
            false => "reduction",
        };
        (0..self.loops.len()).map(kind).collect()
    }

    /// The current index along a dimension, from its loops.
    pub(super) fn index(&self, b: &mut Body, of: usize) -> Idx {
        let mut sum = Idx::Const(0);
        for (id, digit) in self.loops.iter().enumerate() {
            if digit.of == of {
                let step = b.step(id);
                let part = b.scaled(&step, digit.div);
                sum = b.plus(&sum, &part);
            }
        }
        sum
    }
}

/// An affine map with this number of loops.
pub(super) fn map_text(loops: usize, at: &[String]) -> String {
    let dims: Vec<String> = (0..loops).map(|i| format!("d{i}")).collect();
    format!("affine_map<({}) -> ({})>", dims.join(", "), at.join(", "))
}
