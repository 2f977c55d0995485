//! The layout freedom that follows from the loops of an operation.

use crate::op::freedom::{Freedom, FreedomClass, Label};
use crate::op::iteration_domain::{IndexExpr, IterationDomain, LoopKind};
use crate::op::op_ref::OpRef;
use crate::types::Dim;
use optc_layout::gcd;

impl Freedom {
    /// The freedom that follows from the loops and index expressions of an operation; a barrier if they do not fit its
    /// types.
    ///
    /// A label is a loop that addresses a dimension alone, or several loops that address one dimension together, such
    /// as the group and the channels of the group. Beside other loops, the steps of a window and loops of one step do
    /// not count. The role of the label is that of the loop (the last one of several). Labels are in the order of the
    /// loops.
    ///
    /// The granule of a label is the greatest common divisor of:
    /// - the loop's granule,
    /// - the extents of the label's dimensions, if these differ,
    /// - the offsets at which parts begin; 1 if the loop has a stride.
    ///
    /// An operation that only renames elements has no labels: its index map says more.
    ///
    /// For example, a concatenation of 2 x 3 and 2 x 5 along the second dimension has the loops `i` of 2 steps and `j`
    /// of 8 steps. The result is addressed by `i, j`, its operands by `i, j` and `i, j - 3`. The labels are `i`, which
    /// may be cut everywhere, and `j` with the granule 1, the greatest common divisor of 3, 5 and 8.
    #[must_use]
    pub fn of(op: &OpRef<'_>, domain: &IterationDomain) -> Freedom {
        let mut freedom = Freedom::barrier(op);
        if domain.class == FreedomClass::Barrier || !domain.fits(op) {
            return freedom;
        }
        freedom.class = domain.class;
        if domain.class == FreedomClass::Rearrange {
            return freedom;
        }
        let mut found: Vec<Addressed<'_>> = Vec::with_capacity(domain.loops.len());
        let sides = [
            (&op.operands, &domain.operands, &mut freedom.operands),
            (&op.results, &domain.results, &mut freedom.results),
        ];
        for (types, maps, marks) in sides {
            for ((ty, indices), marks) in types.iter().zip(maps).zip(marks) {
                let dims = ty.as_tensor().map_or(&[][..], |t| t.dims.as_slice());
                for ((dim, index), mark) in dims.iter().zip(indices).zip(marks) {
                    *mark = Addressed::count(&mut found, domain, index, dim);
                }
            }
        }
        if !found.is_sorted_by_key(|axis| axis.place) {
            let mut order: Vec<usize> = (0..found.len()).collect();
            order.sort_by_key(|&label| found[label].place);
            let mut numbers = vec![0; order.len()];
            for (number, label) in order.into_iter().enumerate() {
                numbers[label] = number;
            }
            let ports = freedom.operands.iter_mut().chain(&mut freedom.results);
            for mark in ports.flatten().flatten() {
                *mark = numbers[*mark];
            }
            found.sort_by_key(|axis| axis.place);
        }
        freedom.labels = found.iter().map(|axis| axis.label(domain)).collect();
        freedom
    }
}

/// The dimensions that are addressed by one loop, or by several loops together.
struct Addressed<'a> {
    /// The first and the last of the loops.
    loops: [usize; 2],
    /// The position of the label in the order of labels: the number of a loop.
    place: usize,
    /// The extent of the first such dimension.
    first: &'a Dim,
    /// True if a cut of one dimension is not always a cut of the others.
    cut: bool,
    /// The greatest common divisor of extents and offsets.
    gcd: u64,
}

impl<'a> Addressed<'a> {
    /// Adds a dimension to the entry of its loops, and returns the index of that entry in the list.
    fn count(
        all: &mut Vec<Addressed<'a>>,
        domain: &IterationDomain,
        index: &IndexExpr,
        dim: &'a Dim,
    ) -> Option<usize> {
        let IndexExpr::Sum { terms, offset } = index else {
            return None;
        };
        let (loops, place) = match terms.as_slice() {
            &[(id, _)] => ([id, id], id),
            terms => {
                let ids = terms.iter().map(|&(id, _)| id);
                let ids = ids.filter(|&id| domain.loops[id].kind != LoopKind::Inner);
                let place = ids.clone().next_back()?;
                let mut long = ids.filter(|&id| domain.loops[id].extent != 1);
                let first = long.next().unwrap_or(place);
                ([first, long.next_back().unwrap_or(first)], place)
            }
        };
        let at = all.iter().position(|known| known.loops == loops);
        match at {
            Some(at) => all[at].cut |= !all[at].first.same(dim),
            None => all.push(Addressed {
                loops,
                place,
                first: dim,
                cut: false,
                gcd: 0,
            }),
        }
        let at = at.unwrap_or(all.len() - 1);
        let known = &mut all[at];
        known.place = known.place.min(place);
        known.gcd = gcd(known.gcd, dim.fixed().unwrap_or(1));
        if let &[(_, stride)] = terms.as_slice()
            && (stride, *offset) != (1, 0)
        {
            known.cut = true;
            let step = if stride == 1 {
                offset.unsigned_abs()
            } else {
                1
            };
            known.gcd = gcd(known.gcd, step);
        }
        Some(at)
    }

    fn label(&self, domain: &IterationDomain) -> Label {
        let loops = self.loops.map(|id| domain.loops[id]);
        let own = gcd(loops[0].granule, loops[1].granule);
        let granule = match self.cut || own != 0 {
            true => gcd(self.gcd, own).max(1),
            false => 0,
        };
        Label {
            role: loops[1].role,
            granule,
        }
    }
}
