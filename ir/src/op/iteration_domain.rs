//! The iteration domain of an operation: its loops, and the indexing maps by which they touch each operand
//! and result.

use crate::op::freedom::{Freedom, FreedomClass, Label, Role};
use crate::op::op_ref::OpRef;
use crate::types::Type;

/// The loops of an operation and the indexing map of each operand and result: an expression a dimension.
///
/// One step of all loops reads one element of each operand and writes one of each result. A result
/// element is written by one step for each step of the loops that are no [`LoopKind::Parallel`].
#[derive(Clone, PartialEq, Eq, Hash, Debug, Default)]
pub struct IterationDomain {
    /// The loops.
    pub loops: Vec<Loop>,
    /// The indexing map of each operand.
    pub operands: Vec<Vec<IndexExpr>>,
    /// The indexing map of each result.
    pub results: Vec<Vec<IndexExpr>>,
    /// Operands that are added once to a reduction, however it is cut, as a bias is.
    pub epilogue: Vec<usize>,
}

/// One loop.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct Loop {
    /// The number of steps.
    pub extent: u64,
    /// What it does.
    pub kind: LoopKind,
}

/// What a loop does.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum LoopKind {
    /// Each step writes other elements; may be cut.
    Parallel,
    /// The steps are combined; may be cut if the parts are combined too.
    Reduce(Combine),
    /// Sequential, never cut: the steps of a window, an axis that an operation needs whole.
    Inner,
    /// Sequential, and may be cut where what reads the result accumulates over the same part: with the
    /// greatest and the sum of what was read so far a softmax gives parts that are right up to a
    /// factor, which the sum makes good.
    Online,
}

/// How the parts of a cut reduction are combined.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub enum Combine {
    /// The sum.
    Add,
    /// The product.
    Multiply,
    /// The greatest.
    Max,
    /// The least.
    Min,
}

/// How partial results of a reduction that is cut become one.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum Partial {
    /// The sum.
    Add,
    /// The sum of means, each weighted by its share of the elements.
    Mean,
    /// The product.
    Multiply,
    /// The greatest.
    Max,
    /// The least.
    Min,
}

impl From<Combine> for Partial {
    fn from(combine: Combine) -> Partial {
        match combine {
            Combine::Add => Partial::Add,
            Combine::Multiply => Partial::Multiply,
            Combine::Max => Partial::Max,
            Combine::Min => Partial::Min,
        }
    }
}

/// The element of one dimension that a step of the loops touches.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub enum IndexExpr {
    /// The sum of `loop * stride` and a number; outside of the dimension there is no element. No
    /// term: the element `offset`.
    Sum {
        /// Loops and their strides.
        terms: Vec<(usize, i64)>,
        /// The number.
        offset: i64,
    },
    /// `(loop floordiv by) mod extent`.
    Digit {
        /// The loop.
        of: usize,
        /// The divisor.
        by: u64,
        /// The extent of the dimension.
        extent: u64,
    },
    /// Every element: the dimension is not addressed by loops and is never cut.
    Whole,
}

impl IndexExpr {
    /// The step of one loop.
    #[must_use]
    pub fn of(id: usize) -> IndexExpr {
        IndexExpr::shifted(id, 1, 0)
    }

    /// `loop * stride + offset`.
    #[must_use]
    pub fn shifted(id: usize, stride: i64, offset: i64) -> IndexExpr {
        IndexExpr::Sum {
            terms: vec![(id, stride)],
            offset,
        }
    }

    /// Always element 0.
    #[must_use]
    pub fn zero() -> IndexExpr {
        IndexExpr::Sum {
            terms: Vec::new(),
            offset: 0,
        }
    }

    /// Several loops as the digits of one number, the first one most significant; their extents are
    /// looked up.
    #[must_use]
    pub fn merged(ids: &[usize], loops: &[Loop]) -> IndexExpr {
        let mut stride = 1i64;
        let mut terms = Vec::with_capacity(ids.len());
        for &id in ids.iter().rev() {
            terms.push((id, stride));
            let extent = loops.get(id).map_or(1, |l| l.extent);
            stride = stride.saturating_mul(i64::try_from(extent).unwrap_or(i64::MAX));
        }
        terms.reverse();
        IndexExpr::Sum { terms, offset: 0 }
    }
}

impl IterationDomain {
    /// Every dimension whole.
    #[must_use]
    pub fn whole(op: &OpRef<'_>) -> IterationDomain {
        let blank = |types: &[&Type]| -> Vec<Vec<IndexExpr>> {
            let rank = |t: &&Type| t.as_tensor().map_or(0, |t| t.rank());
            let all = types.iter().map(rank);
            all.map(|rank| vec![IndexExpr::Whole; rank]).collect()
        };
        IterationDomain {
            loops: Vec::new(),
            operands: blank(&op.operands),
            results: blank(&op.results),
            epilogue: Vec::new(),
        }
    }

    /// A new loop.
    pub fn add(&mut self, extent: u64, kind: LoopKind) -> usize {
        self.loops.push(Loop { extent, kind });
        self.loops.len() - 1
    }

    /// The loops that reduce, in order.
    pub fn reductions(&self) -> impl Iterator<Item = (usize, u64, Combine)> + '_ {
        let reduce = |(id, l): (usize, &Loop)| match l.kind {
            LoopKind::Reduce(combine) => Some((id, l.extent, combine)),
            LoopKind::Parallel | LoopKind::Inner | LoopKind::Online => None,
        };
        self.loops.iter().enumerate().filter_map(reduce)
    }

    /// How the parts of a cut reduction become one: as every loop that reduces says, if they agree.
    #[must_use]
    pub fn partial(&self) -> Option<Partial> {
        let mut all = self.reductions().map(|(_, _, combine)| combine);
        let first = all.next()?;
        let agree = all.all(|combine| combine == first);
        agree.then(|| first.into())
    }

    /// The loop that may be computed online, and its extent.
    #[must_use]
    pub fn online(&self) -> Option<(usize, u64)> {
        let at = self.loops.iter().position(|l| l.kind == LoopKind::Online)?;
        Some((at, self.loops[at].extent))
    }

    /// The elements of each sum that may be cut, as `reduce` of a tile has them: of the loop that may be computed
    /// online, or of the reductions.
    #[must_use]
    pub fn sums(&self) -> Vec<u64> {
        match self.online() {
            Some((_, size)) => vec![size],
            None => self.reductions().map(|(_, size, _)| size).collect(),
        }
    }

    /// The dimension of the first result along which it may be computed online.
    #[must_use]
    pub fn online_dim(&self) -> Option<usize> {
        let (id, _) = self.online()?;
        self.results
            .first()?
            .iter()
            .position(|i| *i == IndexExpr::of(id))
    }

    /// Where the dimensions of an operand stand in the only result, if the operation accumulates along
    /// `along` of it and along nothing else of it: none for `along` itself and for extents of 1. Then
    /// a factor for each row of the operand is a factor for each element of the result.
    #[must_use]
    pub fn kept(&self, operand: usize, along: usize) -> Option<Vec<Option<usize>>> {
        let [result] = self.results.as_slice() else {
            return None;
        };
        // A bias would be scaled with the sum.
        if !self.epilogue.is_empty() {
            return None;
        }
        let mut out = Vec::new();
        for (d, index) in self.operands.get(operand)?.iter().enumerate() {
            let IndexExpr::Sum { terms, offset: 0 } = index else {
                return None;
            };
            out.push(match terms.as_slice() {
                [] => None,
                &[(id, 1)] if d == along => match self.loops[id].kind {
                    LoopKind::Reduce(Combine::Add) => None,
                    _ => return None,
                },
                &[(id, 1)] => Some(result.iter().position(|i| *i == IndexExpr::of(id))?),
                _ => return None,
            });
        }
        Some(out)
    }

    /// The number of the reduction that runs along a dimension of an operand.
    #[must_use]
    pub fn reduction_along(&self, operand: usize, dim: usize) -> Option<usize> {
        let index = self.operands.get(operand)?.get(dim)?;
        self.reductions()
            .position(|(id, ..)| *index == IndexExpr::of(id))
    }

    /// What the layout freedom of an operation says: parallel labels with one extent are loops, what
    /// a contraction sums over is a reduction, and everything else is whole.
    #[must_use]
    pub fn of_freedom(op: &OpRef<'_>, freedom: &Freedom) -> IterationDomain {
        let mut domain = IterationDomain::whole(op);
        let class = freedom.class;
        if !matches!(class, FreedomClass::Ordered | FreedomClass::Contract) {
            return domain;
        }
        let loops = label_loops(op, freedom);
        let ids: Vec<Option<usize>> = loops
            .iter()
            .map(|l| l.map(|l| domain.add(l.extent, l.kind)))
            .collect();
        let sides = [
            (&op.operands, &freedom.operands, &mut domain.operands),
            (&op.results, &freedom.results, &mut domain.results),
        ];
        for (types, marks, indices) in sides {
            for ((ty, marks), indices) in types.iter().zip(marks).zip(indices) {
                let Some(tensor) = ty.as_tensor() else {
                    continue;
                };
                for ((dim, mark), index) in tensor.dims.iter().zip(marks).zip(indices) {
                    match mark.and_then(|label| ids.get(label).copied().flatten()) {
                        Some(id) => *index = IndexExpr::of(id),
                        None if mark.is_none() && dim.is_one() => *index = IndexExpr::zero(),
                        None => {}
                    }
                }
            }
        }
        domain
    }
}

/// The loop of each label, if its dimensions may be cut.
fn label_loops(op: &OpRef<'_>, freedom: &Freedom) -> Vec<Option<Loop>> {
    /// What is known of the dimensions of one label.
    #[derive(Clone, Copy, Default)]
    struct Seen {
        extent: Option<u64>,
        differ: bool,
        in_result: bool,
    }
    let mut seen = vec![Seen::default(); freedom.labels.len()];
    let operands = op.operands.iter().zip(&freedom.operands);
    let results = op.results.iter().zip(&freedom.results);
    let all = operands
        .map(|p| (p, false))
        .chain(results.map(|p| (p, true)));
    for ((ty, marks), in_result) in all {
        let dims = ty.as_tensor().map_or(&[][..], |t| t.dims.as_slice());
        for (dim, mark) in dims.iter().zip(marks) {
            let Some(label) = mark.and_then(|label| seen.get_mut(label)) else {
                continue;
            };
            label.in_result |= in_result;
            label.differ |= dim.fixed().is_none();
            label.differ |= label.extent.is_some() && label.extent != dim.fixed();
            label.extent = dim.fixed();
        }
    }
    let contract = freedom.class == FreedomClass::Contract;
    let pairs = freedom.labels.iter().zip(&seen);
    let of = |(label, seen): (&Label, &Seen)| {
        let extent = seen.extent.filter(|_| !seen.differ)?;
        let kind = match (label.role, seen.in_result) {
            (Role::Parallel, true) => LoopKind::Parallel,
            (Role::Parallel, false) if contract => LoopKind::Reduce(Combine::Add),
            _ => return None,
        };
        Some(Loop { extent, kind })
    };
    pairs.map(of).collect()
}

impl IterationDomain {
    /// Whether there is an index for each dimension and every loop exists.
    pub(super) fn fits(&self, op: &OpRef<'_>) -> bool {
        let rank = |t: &Type| t.as_tensor().map_or(0, |t| t.rank());
        let sides = [(&op.operands, &self.operands), (&op.results, &self.results)];
        sides.iter().all(|(types, indices)| {
            types.len() == indices.len()
                && types.iter().zip(indices.iter()).all(|(ty, dims)| {
                    rank(ty) == dims.len() && dims.iter().all(|i| self.has_loops(i))
                })
        })
    }

    fn has_loops(&self, index: &IndexExpr) -> bool {
        match index {
            IndexExpr::Sum { terms, .. } => terms.iter().all(|(id, _)| *id < self.loops.len()),
            IndexExpr::Digit { of, .. } => *of < self.loops.len(),
            IndexExpr::Whole => true,
        }
    }
}
