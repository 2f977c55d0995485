//! The iteration domain of an operation: its loops, and the indexing maps that relate them to operands and results.

use crate::codes;
use crate::op::error::OpError;
use crate::op::freedom::{FreedomClass, Role};
use crate::op::op_ref::OpRef;
use crate::op::rearrangement::ViewDims;
use crate::types::{Dim, Type};
use optc_layout::gcd;

/// The loops of an operation, and the indexing map of each operand and result: one expression for each dimension.
///
/// One step of all loops reads one element of each operand and writes one element of each result. A result element is
/// written by all steps of the loops that are not [`LoopKind::Parallel`].
///
/// For example, a product of 2 x 3 and 3 x 4 has the loops `i` of 2, `j` of 4 and `k` of 3 steps. Its operands are
/// addressed by `i, k` and `k, j`, its result by `i, j`; `k` is a reduction.
///
/// The layout freedom follows from the iteration domain: see [`Freedom::of`](crate::op::Freedom::of).
#[derive(Clone, PartialEq, Eq, Hash, Debug, Default)]
pub struct IterationDomain {
    /// The kind of relation between the orders of operands and results.
    pub class: FreedomClass,
    /// The loops.
    pub loops: Vec<Loop>,
    /// The indexing map of each operand.
    pub operands: Vec<Vec<IndexExpr>>,
    /// The indexing map of each result.
    pub results: Vec<Vec<IndexExpr>>,
    /// Operands of the epilogue, such as a bias: they are added once, even if a reduction is cut.
    pub epilogue: Vec<usize>,
}

/// One loop.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct Loop {
    /// The number of steps; 0 if it is unknown.
    pub extent: u64,
    /// The kind of loop.
    pub kind: LoopKind,
    /// The role of the dimensions that it addresses.
    pub role: Role,
    /// A cut of the loop at `c` commutes with the operation only if `c` divides the granule; index expressions may
    /// forbid further cuts. 0 allows every cut, 1 allows none.
    pub granule: u64,
}

/// The kind of a loop.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum LoopKind {
    /// Each step writes other elements. The loop may be cut.
    Parallel,
    /// The steps are combined. The loop may be cut if the partial results are combined too.
    Reduce(Combine),
    /// The steps are sequential, and the loop is never cut: the positions of a window.
    Inner,
    /// The loop addresses dimensions that the operation needs whole. Tiles do not have this loop.
    Whole,
    /// The steps are sequential. The loop may be cut if the reader of the result accumulates over the same part. A
    /// softmax, for example, keeps the maximum and the sum of the elements read so far, so that each part of its result
    /// is right up to a factor; the reader corrects the factor at the end by the sum.
    Online,
}

/// The function that combines the partial results of a cut loop.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub enum Combine {
    /// The sum.
    Add,
    /// The product.
    Multiply,
    /// The maximum.
    Max,
    /// The minimum.
    Min,
}

/// The function that combines the partial results of a cut reduction.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub enum Partial {
    /// The sum.
    Add,
    /// The sum of means, each weighted by its share of the elements.
    Mean,
    /// The product.
    Multiply,
    /// The maximum.
    Max,
    /// The minimum.
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

/// The index of one dimension as a function of the steps of the loops.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub enum IndexExpr {
    /// The sum of `loop * stride` over the terms, plus `offset`. A step whose index is outside of the dimension touches
    /// no element. Without terms, the index is always `offset`.
    Sum {
        /// The loops with their strides.
        terms: Vec<(usize, i64)>,
        /// The constant term.
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
    /// The index is the step of one loop.
    #[must_use]
    pub fn of(id: usize) -> IndexExpr {
        IndexExpr::shifted(id, 1, 0)
    }

    /// The step of one loop as the index of each dimension.
    #[must_use]
    pub fn each(ids: &[usize]) -> Vec<IndexExpr> {
        ids.iter().map(|&id| IndexExpr::of(id)).collect()
    }

    /// `loop * stride + offset`.
    #[must_use]
    pub fn shifted(id: usize, stride: i64, offset: i64) -> IndexExpr {
        IndexExpr::Sum {
            terms: vec![(id, stride)],
            offset,
        }
    }

    /// The index is always 0.
    #[must_use]
    pub fn zero() -> IndexExpr {
        IndexExpr::Sum {
            terms: Vec::new(),
            offset: 0,
        }
    }

    /// Several loops as the digits of one number, the first one most significant. `loops` gives their extents.
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
    /// A barrier: nothing is known, and every dimension is whole.
    #[must_use]
    pub fn whole(op: &OpRef<'_>) -> IterationDomain {
        let whole = |_: &Dim| IndexExpr::Whole;
        IterationDomain::filled(op, FreedomClass::Barrier, whole)
    }

    /// A domain without loops: the index of a dimension of extent 1 is 0, every other dimension is whole.
    #[must_use]
    pub fn new(op: &OpRef<'_>, class: FreedomClass) -> IterationDomain {
        let index = |dim: &Dim| match dim.is_one() {
            true => IndexExpr::zero(),
            false => IndexExpr::Whole,
        };
        IterationDomain::filled(op, class, index)
    }

    fn filled(
        op: &OpRef<'_>,
        class: FreedomClass,
        index: impl Fn(&Dim) -> IndexExpr,
    ) -> IterationDomain {
        let map = |ty: &&Type| -> Vec<IndexExpr> {
            let dims = ty.as_tensor().map_or(&[][..], |t| t.dims.as_slice());
            dims.iter().map(&index).collect()
        };
        IterationDomain {
            class,
            loops: Vec::new(),
            operands: op.operands.iter().map(map).collect(),
            results: op.results.iter().map(map).collect(),
            epilogue: Vec::new(),
        }
    }

    /// The loops of an operation whose operands broadcast to its only result. Dimensions are aligned at the last one,
    /// and an extent of 1 is repeated if the result is longer.
    ///
    /// # Errors
    /// The operation does not have one result, or an operand has more dimensions than the result (`operand-kind`).
    pub fn broadcasting(op: &OpRef<'_>) -> Result<IterationDomain, OpError> {
        let result = op.only_result()?;
        let mut domain = IterationDomain {
            class: FreedomClass::Ordered,
            ..IterationDomain::default()
        };
        let ids = domain.over(&result.dims);
        domain.results.push(IndexExpr::each(&ids));
        for i in 0..op.operands.len() {
            let dims = &op.operand(i)?.dims;
            let lead = result.rank().checked_sub(dims.len()).ok_or_else(|| {
                let message = "the operand has a higher rank than the result";
                OpError::new(codes::OPERAND_KIND, message)
            })?;
            let repeated = |d: usize| dims[d].is_one() && !result.dims[lead + d].is_one();
            let index = |d: usize| match repeated(d) {
                true => IndexExpr::zero(),
                false => IndexExpr::of(ids[lead + d]),
            };
            let map = (0..dims.len()).map(index).collect();
            domain.operands.push(map);
        }
        Ok(domain)
    }

    /// As [`IterationDomain::broadcasting`], for an operation that works along these dimensions of the result.
    ///
    /// # Errors
    /// As [`IterationDomain::broadcasting`].
    pub fn broadcasting_along(op: &OpRef<'_>, axes: &[usize]) -> Result<IterationDomain, OpError> {
        let mut domain = IterationDomain::broadcasting(op)?;
        axes.iter().for_each(|&axis| domain.along(axis));
        Ok(domain)
    }

    /// The loops of an operation that only renames elements: those of its equivalent view, see
    /// [`IterationDomain::rearranged`]. Every dimension is whole if a size is unknown.
    ///
    /// # Errors
    /// The operand or the result is no tensor (`operand-kind`).
    pub fn of_view(op: &OpRef<'_>, view: &ViewDims) -> Result<IterationDomain, OpError> {
        let sizes = |dims: &[Dim]| dims.iter().map(Dim::fixed).collect::<Option<Vec<u64>>>();
        let (x, y) = (op.operand(0)?, op.result(0)?);
        let known = (sizes(&x.dims), sizes(&view.shape), sizes(&y.dims));
        Ok(match known {
            (Some(x), Some(shape), Some(y)) => {
                IterationDomain::rearranged(&x, &shape, &view.perm, &y)
            }
            _ => IterationDomain {
                class: FreedomClass::Rearrange,
                ..IterationDomain::whole(op)
            },
        })
    }

    /// Adds a loop. Along a parallel loop, or a sum of a contraction, the operation is independent
    /// ([`Role::Parallel`]); along any other loop it works ([`Role::Axis`]).
    pub fn add(&mut self, extent: u64, kind: LoopKind) -> usize {
        let contracted = self.class == FreedomClass::Contract && kind != LoopKind::Whole;
        let role = match kind == LoopKind::Parallel || contracted {
            true => Role::Parallel,
            false => Role::Axis,
        };
        self.add_as(extent, kind, role)
    }

    /// Adds a loop over the extent of a dimension, which may be unknown.
    pub fn add_for(&mut self, dim: &Dim, kind: LoopKind) -> usize {
        self.add(dim.fixed().unwrap_or(0), kind)
    }

    /// Adds a parallel loop for each dimension.
    pub fn over(&mut self, dims: &[Dim]) -> Vec<usize> {
        self.loops.reserve(dims.len());
        let add = |dim: &Dim| self.add_for(dim, LoopKind::Parallel);
        dims.iter().map(add).collect()
    }

    /// Marks a loop: the operation works along its dimensions and needs them whole.
    pub fn along(&mut self, id: usize) {
        self.loops[id].kind = LoopKind::Whole;
        self.loops[id].role = Role::Axis;
    }

    /// As [`IterationDomain::along`], for a loop of which no cut commutes with the operation.
    pub fn along_uncut(&mut self, id: usize) {
        self.along(id);
        self.uncut(id);
    }

    /// Adds a loop whose dimensions have this role.
    pub fn add_as(&mut self, extent: u64, kind: LoopKind, role: Role) -> usize {
        self.loops.push(Loop {
            extent,
            kind,
            role,
            granule: 0,
        });
        self.loops.len() - 1
    }

    /// Restricts the granule of a loop to divisors of `offset`.
    pub fn cut(&mut self, id: usize, offset: u64) {
        let known = &mut self.loops[id].granule;
        *known = gcd(*known, offset);
    }

    /// Marks a loop: no cut of it commutes with the operation.
    pub fn uncut(&mut self, id: usize) {
        self.loops[id].granule = 1;
    }

    /// The loops that reduce, in order.
    pub fn reductions(&self) -> impl Iterator<Item = (usize, u64, Combine)> + '_ {
        let reduce = |(id, l): (usize, &Loop)| match l.kind {
            LoopKind::Reduce(combine) => Some((id, l.extent, combine)),
            _ => None,
        };
        self.loops.iter().enumerate().filter_map(reduce)
    }

    /// The combination of partial results, if all reduction loops have the same one.
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

    /// The numbers of elements that the operation sums over in loops that may be cut, in the order of `reduce` in a
    /// plan of tiles: that of the online loop, else those of the reduction loops.
    #[must_use]
    pub fn sums(&self) -> Vec<u64> {
        match self.online() {
            Some((_, size)) => vec![size],
            None => self.reductions().map(|(_, size, _)| size).collect(),
        }
    }

    /// The dimension of the first result that is addressed by the online loop.
    #[must_use]
    pub fn online_dim(&self) -> Option<usize> {
        let (id, _) = self.online()?;
        self.results
            .first()?
            .iter()
            .position(|i| *i == IndexExpr::of(id))
    }

    /// For each dimension of an operand, its position in the only result; `None` for the dimension `along` and for
    /// extents of 1. The function returns `None` unless the operation sums along that dimension of the operand and
    /// along no other dimension of it. A factor for each row of the operand then is a factor for each element of the
    /// result.
    #[must_use]
    pub fn kept(&self, operand: usize, along: usize) -> Option<Vec<Option<usize>>> {
        let [result] = self.results.as_slice() else {
            return None;
        };
        // A bias would be multiplied by the factor too.
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

    /// For each dimension of an operand, its position in the only result; `None` for extents of 1. The function returns
    /// `None` unless every other dimension of the operand is a dimension of the result, step by step.
    #[must_use]
    pub fn passed(&self, operand: usize) -> Option<Vec<Option<usize>>> {
        let [result] = self.results.as_slice() else {
            return None;
        };
        let position = |index: &IndexExpr| {
            let IndexExpr::Sum { terms, offset: 0 } = index else {
                return None;
            };
            match terms.as_slice() {
                [] => Some(None),
                &[(id, 1)] if self.loops[id].kind == LoopKind::Parallel => {
                    Some(Some(result.iter().position(|i| i == index)?))
                }
                _ => None,
            }
        };
        self.operands.get(operand)?.iter().map(position).collect()
    }

    /// The position, among the reduction loops, of the loop along a dimension of an operand.
    #[must_use]
    pub fn reduction_along(&self, operand: usize, dim: usize) -> Option<usize> {
        let index = self.operands.get(operand)?.get(dim)?;
        self.reductions()
            .position(|(id, ..)| *index == IndexExpr::of(id))
    }

    /// The same domain, but a parallel loop over dimensions of different extents becomes [`LoopKind::Whole`].
    #[must_use]
    pub fn settled(mut self, op: &OpRef<'_>) -> IterationDomain {
        let sides = [(&op.operands, &self.operands), (&op.results, &self.results)];
        for (types, maps) in sides {
            for (ty, indices) in types.iter().zip(maps) {
                let dims = ty.as_tensor().map_or(&[][..], |t| t.dims.as_slice());
                for (dim, index) in dims.iter().zip(indices) {
                    if let IndexExpr::Sum { terms, .. } = index
                        && let &[(id, _)] = terms.as_slice()
                        && self.loops[id].kind == LoopKind::Parallel
                        && dim.fixed() != Some(self.loops[id].extent)
                    {
                        self.loops[id].kind = LoopKind::Whole;
                    }
                }
            }
        }
        self
    }

    /// The same domain without the loops of the kind [`LoopKind::Whole`]; the dimensions that they address become
    /// [`IndexExpr::Whole`].
    #[must_use]
    pub fn without_whole(mut self) -> IterationDomain {
        if self.loops.iter().all(|l| l.kind != LoopKind::Whole) {
            return self;
        }
        let mut kept = 0;
        let mut place = |l: &Loop| {
            (l.kind != LoopKind::Whole).then(|| {
                kept += 1;
                kept - 1
            })
        };
        let places: Vec<Option<usize>> = self.loops.iter().map(&mut place).collect();
        for index in self.operands.iter_mut().chain(&mut self.results).flatten() {
            let known = match index {
                IndexExpr::Sum { terms, .. } => {
                    terms.iter_mut().all(|(id, _)| renumber(id, &places))
                }
                IndexExpr::Digit { of, .. } => renumber(of, &places),
                IndexExpr::Whole => true,
            };
            if !known {
                *index = IndexExpr::Whole;
            }
        }
        self.loops.retain(|l| l.kind != LoopKind::Whole);
        self
    }
}

/// Replaces the number of a loop by its new one; returns false if the loop was removed.
fn renumber(id: &mut usize, places: &[Option<usize>]) -> bool {
    let place = places.get(*id).copied().flatten();
    *id = place.unwrap_or(*id);
    place.is_some()
}

impl IterationDomain {
    /// Returns whether the maps have one index expression for each dimension, and name only existing loops.
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
