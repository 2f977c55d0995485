//! The iteration domain of an operation: its loops, and the indexing maps by which they touch each operand
//! and result.

use crate::codes;
use crate::op::error::OpError;
use crate::op::freedom::{FreedomClass, Role};
use crate::op::op_ref::OpRef;
use crate::op::rearrangement::ViewDims;
use crate::types::{Dim, Type};
use optc_layout::gcd;

/// The loops of an operation and the indexing map of each operand and result: an expression a dimension.
///
/// One step of all loops reads one element of each operand and writes one of each result. A result
/// element is written by one step for each step of the loops that are no [`LoopKind::Parallel`].
///
/// The layout freedom follows from it: see [`Freedom::of`](crate::op::Freedom::of).
#[derive(Clone, PartialEq, Eq, Hash, Debug, Default)]
pub struct IterationDomain {
    /// The kind of agreement between orders that the operation needs.
    pub class: FreedomClass,
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
    /// The number of steps; 0 where it is not known.
    pub extent: u64,
    /// The kind of loop.
    pub kind: LoopKind,
    /// The role of the dimensions that it addresses.
    pub role: Role,
    /// A cut of the loop at `c` commutes with the operation only if `c` divides this, apart from what the index
    /// expressions say: 0 allows every cut, 1 none.
    pub granule: u64,
}

/// The kind of a loop.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum LoopKind {
    /// Each step writes other elements; may be cut.
    Parallel,
    /// The steps are combined; may be cut if the parts are combined too.
    Reduce(Combine),
    /// Sequential, never cut: the steps of a window.
    Inner,
    /// Addresses dimensions that the operation needs whole; tiles do not know the loop.
    Whole,
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

    /// The step of one loop in each dimension.
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
    /// Every dimension whole, of which nothing is known: a barrier.
    #[must_use]
    pub fn whole(op: &OpRef<'_>) -> IterationDomain {
        let whole = |_: &Dim| IndexExpr::Whole;
        IterationDomain::filled(op, FreedomClass::Barrier, whole)
    }

    /// No loops yet: a dimension of one element is its element 0, every other one is whole.
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

    /// Every operand broadcasts to the only result: aligned at the last dimension, and an extent of 1 is repeated where the
    /// result is longer.
    ///
    /// # Errors
    /// There is not one result, or an operand has more dimensions than it (`operand-kind`).
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

    /// As [`IterationDomain::broadcasting`], and the operation works along these dimensions of the result.
    ///
    /// # Errors
    /// As there.
    pub fn broadcasting_along(op: &OpRef<'_>, axes: &[usize]) -> Result<IterationDomain, OpError> {
        let mut domain = IterationDomain::broadcasting(op)?;
        axes.iter().for_each(|&axis| domain.along(axis));
        Ok(domain)
    }

    /// The loops of the view that does the same, of an operation that only renames elements; see
    /// [`IterationDomain::rearranged`]. Every dimension is whole where a size is not known.
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

    /// A new loop. The operation is independent along it if it is parallel or a sum of a contraction, and works along it
    /// otherwise.
    pub fn add(&mut self, extent: u64, kind: LoopKind) -> usize {
        let contracted = self.class == FreedomClass::Contract && kind != LoopKind::Whole;
        let role = match kind == LoopKind::Parallel || contracted {
            true => Role::Parallel,
            false => Role::Axis,
        };
        self.add_as(extent, kind, role)
    }

    /// A new loop whose dimensions have this extent, if it is known.
    pub fn add_for(&mut self, dim: &Dim, kind: LoopKind) -> usize {
        self.add(dim.fixed().unwrap_or(0), kind)
    }

    /// A parallel loop for each dimension.
    pub fn over(&mut self, dims: &[Dim]) -> Vec<usize> {
        self.loops.reserve(dims.len());
        let add = |dim: &Dim| self.add_for(dim, LoopKind::Parallel);
        dims.iter().map(add).collect()
    }

    /// The operation works along the dimensions of a loop, and needs them whole.
    pub fn along(&mut self, id: usize) {
        self.loops[id].kind = LoopKind::Whole;
        self.loops[id].role = Role::Axis;
    }

    /// As [`IterationDomain::along`], and no cut of the loop commutes with the operation.
    pub fn along_uncut(&mut self, id: usize) {
        self.along(id);
        self.uncut(id);
    }

    /// A new loop whose dimensions have this role.
    pub fn add_as(&mut self, extent: u64, kind: LoopKind, role: Role) -> usize {
        self.loops.push(Loop {
            extent,
            kind,
            role,
            granule: 0,
        });
        self.loops.len() - 1
    }

    /// The granule of a loop must divide `offset` too.
    pub fn cut(&mut self, id: usize, offset: u64) {
        let known = &mut self.loops[id].granule;
        *known = gcd(*known, offset);
    }

    /// No cut of a loop commutes with the operation.
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

    /// The same where a parallel loop of which the dimensions have several extents needs them whole.
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

    /// The same without the loops of the kind [`LoopKind::Whole`]: what they address is [`IndexExpr::Whole`].
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

/// Writes the new number of a loop, if it has one.
fn renumber(id: &mut usize, places: &[Option<usize>]) -> bool {
    let place = places.get(*id).copied().flatten();
    *id = place.unwrap_or(*id);
    place.is_some()
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
