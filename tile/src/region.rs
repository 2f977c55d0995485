//! Carries tiles through an operation: from the tile of a result to the loops that compute it and to the part of each
//! operand that these loops read, and back from the tile of an operand to the results that can be computed from it.
//!
//! For example, in the product of `x` (M x K) and `w` (K x N) the tile `[16 @ g0 * 16, N]` of the result needs 16 steps
//! of the loop over rows and all steps of the other two. It reads the tile `[16 @ g0 * 16, K]` of `x` and all of `w`.

use crate::expr::Expr;
use crate::span::{Span, Tile};
use optc_ir::op::iteration_domain::{IndexExpr, IterationDomain, LoopKind};
use thiserror::Error;

/// The part of each loop that one program runs.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Steps {
    /// One span a loop.
    pub spans: Vec<Span>,
    /// True if the steps make exactly what is asked.
    pub exact: bool,
}

/// The reason why an operation cannot make a tile.
#[derive(Clone, PartialEq, Eq, Debug, Error)]
pub enum RegionError {
    /// The dimension is sequential, and only a part of it is wanted.
    #[error(
        "dimension {dim} of result {result} is worked along: found `{span}`, wanted {size}, all of it"
    )]
    Whole {
        /// The result.
        result: usize,
        /// Its dimension.
        dim: usize,
        /// The part asked for.
        span: Box<Span>,
        /// The size of the dimension.
        size: u64,
    },
    /// Two dimensions want different parts of one loop.
    #[error(
        "dimension {dim} of result {result} wants the steps `{found}`, another one wants `{other}`"
    )]
    Disagree {
        /// The result.
        result: usize,
        /// Its dimension.
        dim: usize,
        /// Its part.
        found: Box<Span>,
        /// The other part.
        other: Box<Span>,
    },
    /// A reduction that cannot be cut.
    #[error("{found} spans of cut reductions, wanted {wanted}, one a reduction")]
    Reductions {
        /// The number of spans given.
        found: usize,
        /// The number of reductions.
        wanted: usize,
    },
}

/// The part of an operand that a tile reads.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Region {
    /// The smallest box that holds it.
    pub tile: Tile,
    /// The number of elements in the box that the steps read; the others are read unused.
    pub needed: u64,
}

/// The dimensions that are the digits of one loop.
struct Digits {
    id: usize,
    /// The first of the dimensions.
    dim: usize,
    /// The divisor and the part of each.
    parts: Vec<(u64, Span)>,
}

/// Maps tiles of results to the steps and operands of an operation with these loops, and back.
pub trait Tiling {
    /// The steps of all loops that make these tiles of the results, with these parts of the
    /// reductions (none: all of them). `shapes` are those of the results.
    ///
    /// The steps may make more than the tiles if these do not consist of whole steps.
    ///
    /// # Errors
    /// The operation cannot make such tiles.
    fn steps(
        &self,
        results: &[Tile],
        reduce: &[Span],
        shapes: &[&[u64]],
        grid: &[u64],
    ) -> Result<Steps, RegionError>;

    /// The tiles of all results that are made by the steps for a tile of one result; `None` if the tile cannot be made.
    /// The steps may make elements of other results that no one needs.
    #[must_use]
    fn made_for(
        &self,
        result: usize,
        tile: &Tile,
        shapes: &[&[u64]],
        grid: &[u64],
    ) -> Option<Vec<Tile>>;

    /// The smallest tiles of the results that the operation can make and that hold these. Sequential dimensions are
    /// made whole. If two results want different steps of one loop, both get the steps of both. If that is still
    /// impossible, all of the results.
    #[must_use]
    fn around(&self, results: &[Tile], shapes: &[&[u64]], grid: &[u64]) -> Vec<Tile>;

    /// The part of an operand that these steps read; `shape` is the operand's.
    #[must_use]
    fn operand(&self, operand: usize, steps: &Steps, shape: &[u64], grid: &[u64]) -> Region;

    /// The part of a result that these steps write; `shape` is the result's.
    #[must_use]
    fn result(&self, result: usize, steps: &Steps, shape: &[u64], grid: &[u64]) -> Region;

    /// The steps that read only elements of this part of an operand, as far as the operand alone determines them. Other
    /// loops run whole. `None` if the part is too small for any step, or if a dimension is cut that must not be cut.
    #[must_use]
    fn steps_within(
        &self,
        operand: usize,
        tile: &Tile,
        shape: &[u64],
        grid: &[u64],
    ) -> Option<Steps>;
}

impl Tiling for IterationDomain {
    fn steps(
        &self,
        results: &[Tile],
        reduce: &[Span],
        shapes: &[&[u64]],
        grid: &[u64],
    ) -> Result<Steps, RegionError> {
        let mut steps: Vec<Option<Span>> = vec![None; self.loops.len()];
        let mut by: Vec<usize> = vec![0; self.loops.len()];
        let mut exact = true;
        for (r, ((tile, dims), shape)) in results.iter().zip(&self.results).zip(shapes).enumerate()
        {
            exact &= inverse(dims, &tile.0, shape, grid, &mut |dim, id, span| {
                let span = match id {
                    Some(id) => (id, span),
                    None => {
                        let size = shape.get(dim).copied().unwrap_or(1);
                        return Err(RegionError::Whole {
                            result: r,
                            dim,
                            span: Box::new(span),
                            size,
                        });
                    }
                };
                let (id, span) = span;
                match &steps[id] {
                    // Two results are different parts of one loop: take the steps of both.
                    Some(other) if *other != span && are_parts(self, by[id], r, dim) => {
                        steps[id] = Some(other.union(&span, grid));
                        Ok(())
                    }
                    Some(other) if *other != span => Err(RegionError::Disagree {
                        result: r,
                        dim,
                        found: Box::new(span),
                        other: Box::new(other.clone()),
                    }),
                    _ => {
                        steps[id] = Some(span);
                        by[id] = r;
                        Ok(())
                    }
                }
            })?;
        }
        let mut reductions: Vec<usize> = self.reductions().map(|(id, ..)| id).collect();
        if let Some((id, size)) = self.online() {
            let asked = steps[id].clone().unwrap_or_else(|| Span::whole(size));
            let given = reduce.first().cloned();
            let given = given.unwrap_or_else(|| Span::whole(size));
            if asked != given && !(asked.is_whole(size) && given.is_whole(size)) {
                return Err(RegionError::Whole {
                    result: 0,
                    dim: self.online_dim().unwrap_or(0),
                    span: Box::new(asked),
                    size,
                });
            }
            reductions = vec![id];
        }
        if !reduce.is_empty() && reduce.len() != reductions.len() {
            return Err(RegionError::Reductions {
                found: reduce.len(),
                wanted: reductions.len(),
            });
        }
        for (id, span) in reductions.into_iter().zip(reduce) {
            steps[id] = Some(span.clone());
        }
        let spans = filled(self, steps);
        Ok(Steps { spans, exact })
    }

    fn made_for(
        &self,
        result: usize,
        tile: &Tile,
        shapes: &[&[u64]],
        grid: &[u64],
    ) -> Option<Vec<Tile>> {
        let one = IterationDomain {
            loops: self.loops.clone(),
            results: vec![self.results.get(result)?.clone()],
            ..IterationDomain::default()
        };
        let shape = *shapes.get(result)?;
        let steps = one
            .steps(std::slice::from_ref(tile), &[], &[shape], grid)
            .ok()?;
        let all = shapes.iter().enumerate();
        let made: Vec<Tile> = all
            .map(|(r, shape)| match r == result {
                true => tile.clone(),
                false => self.result(r, &steps, shape, grid).tile,
            })
            .collect();
        self.steps(&made, &[], shapes, grid).ok().map(|_| made)
    }

    fn around(&self, results: &[Tile], shapes: &[&[u64]], grid: &[u64]) -> Vec<Tile> {
        let mut steps: Vec<Option<Span>> = vec![None; self.loops.len()];
        for ((tile, dims), shape) in results.iter().zip(&self.results).zip(shapes) {
            let set = &mut |_: usize, id: Option<usize>, span: Span| {
                if let Some(id) = id {
                    steps[id] = Some(match steps[id].take() {
                        Some(known) => known.union(&span, grid),
                        None => span,
                    });
                }
                Ok::<(), ()>(())
            };
            let _ = inverse(dims, &tile.0, shape, grid, set);
        }
        if let Some((id, _)) = self.online() {
            steps[id] = None;
        }
        let steps = Steps {
            spans: filled(self, steps),
            exact: false,
        };
        let made = shapes.iter().enumerate();
        let made: Vec<Tile> = made
            .map(|(r, shape)| self.result(r, &steps, shape, grid).tile)
            .collect();
        let holds =
            |((big, small), shape): ((&Tile, &Tile), &&[u64])| big.holds(small, shape, grid);
        let held = made.iter().zip(results).zip(shapes).all(holds);
        if held && self.steps(&made, &[], shapes, grid).is_ok() {
            return made;
        }
        shapes.iter().map(|shape| Tile::whole(shape)).collect()
    }

    fn operand(&self, operand: usize, steps: &Steps, shape: &[u64], grid: &[u64]) -> Region {
        let dims = self.operands.get(operand).map_or(&[][..], Vec::as_slice);
        forward(self, dims, &steps.spans, shape, grid)
    }

    fn result(&self, result: usize, steps: &Steps, shape: &[u64], grid: &[u64]) -> Region {
        let dims = self.results.get(result).map_or(&[][..], Vec::as_slice);
        forward(self, dims, &steps.spans, shape, grid)
    }

    fn steps_within(
        &self,
        operand: usize,
        tile: &Tile,
        shape: &[u64],
        grid: &[u64],
    ) -> Option<Steps> {
        let dims = self.operands.get(operand)?;
        let mut steps: Vec<Option<Span>> = vec![None; self.loops.len()];
        let plain: Vec<(usize, IndexExpr, Span)> = narrowed(self, dims, tile, shape, grid)?;
        let indices: Vec<IndexExpr> = plain.iter().map(|(_, i, _)| i.clone()).collect();
        let spans: Vec<Span> = plain.iter().map(|(.., s)| s.clone()).collect();
        let sizes: Vec<u64> = plain.iter().map(|&(d, ..)| shape[d]).collect();
        let set = &mut |_: usize, id: Option<usize>, span: Span| match id {
            None => Err(()),
            Some(id) => match &steps[id] {
                Some(other) if *other != span => Err(()),
                _ => {
                    steps[id] = Some(span);
                    Ok(())
                }
            },
        };
        let exact = inverse(&indices, &spans, &sizes, grid, set).ok()?;
        let cut = |(id, size): (usize, u64)| steps[id].as_ref().is_some_and(|s| !s.is_whole(size));
        if self.online().is_some_and(cut) {
            return None;
        }
        let spans = filled(self, steps);
        Some(Steps { spans, exact })
    }
}

/// Returns whether a dimension is another part of the loop in one result than in the other, as in the results of a
/// split.
fn are_parts(domain: &IterationDomain, one: usize, other: usize, dim: usize) -> bool {
    one != other && domain.results[one].get(dim) != domain.results[other].get(dim)
}

/// Inverts index expressions: calls `set` with the steps of each loop that a tile of an operand or result fixes, or
/// with no loop if a dimension is cut that must not be cut.
///
/// A sum of loops is divided by its strides, the greatest first. Digits of one loop may be in several dimensions,
/// and none of them alone fixes the loop; they are collected and joined at the end. Returns whether the steps make
/// exactly the tile; if not, they cover more.
fn inverse<E>(
    dims: &[IndexExpr],
    tile: &[Span],
    shape: &[u64],
    grid: &[u64],
    set: &mut dyn FnMut(usize, Option<usize>, Span) -> Result<(), E>,
) -> Result<bool, E> {
    let mut exact = true;
    // The digits of one loop, most significant first, are in several dimensions.
    let mut digits: Vec<Digits> = Vec::new();
    for (d, (index, span)) in dims.iter().zip(tile).enumerate() {
        match index {
            IndexExpr::Sum { terms, offset } => {
                let mut rest = Span::new(span.start.offset(-offset), span.extent);
                for (n, &(id, stride)) in terms.iter().enumerate() {
                    let last = n + 1 == terms.len();
                    let Ok(by) = u64::try_from(stride) else {
                        continue;
                    };
                    if last && by == 1 {
                        set(d, Some(id), rest.clone())?;
                        break;
                    }
                    let (outer, inner, fits) = rest.divide(by, grid);
                    exact &= fits;
                    set(d, Some(id), outer)?;
                    rest = inner;
                }
            }
            IndexExpr::Digit { of, by, .. } => {
                let part = (*by, span.clone());
                match digits.iter_mut().find(|known| known.id == *of) {
                    Some(known) => known.parts.push(part),
                    None => digits.push(Digits {
                        id: *of,
                        dim: d,
                        parts: vec![part],
                    }),
                }
            }
            IndexExpr::Whole => {
                let size = shape.get(d).copied().unwrap_or(1);
                if !span.is_whole(size) {
                    set(d, None, span.clone())?;
                }
            }
        }
    }
    for Digits { id, dim, parts } in digits {
        let mut start = Expr::default();
        let (mut last, mut product) = (0u64, 1u64);
        for (by, span) in parts {
            product = product.saturating_mul(span.extent);
            let stride = i64::try_from(by).unwrap_or(i64::MAX);
            start = start.plus(&span.start.times(stride));
            last = last.saturating_add(span.extent.saturating_sub(1).saturating_mul(by));
        }
        let extent = last.saturating_add(1);
        exact &= product == extent;
        set(dim, Some(id), Span::new(start, extent))?;
    }
    Ok(exact)
}

/// The tile of an operand or result for these steps of the loops.
fn forward(
    domain: &IterationDomain,
    dims: &[IndexExpr],
    steps: &[Span],
    shape: &[u64],
    grid: &[u64],
) -> Region {
    let mut spans = Vec::with_capacity(dims.len());
    let mut needed = 1u64;
    for (index, &size) in dims.iter().zip(shape) {
        let (span, count) = dimension(domain, index, steps, size, grid);
        needed = needed.saturating_mul(count.min(span.extent));
        spans.push(span);
    }
    let tile = Tile(spans).bounded(shape, grid);
    let needed = needed.min(tile.elements());
    Region { tile, needed }
}

/// The span of one dimension and the number of its elements that are needed.
fn dimension(
    domain: &IterationDomain,
    index: &IndexExpr,
    steps: &[Span],
    size: u64,
    grid: &[u64],
) -> (Span, u64) {
    match index {
        IndexExpr::Whole => (Span::whole(size), size),
        IndexExpr::Sum { terms, offset } => {
            let mut start = Expr::number(*offset);
            let (mut extent, mut needed) = (1u64, 1u64);
            for &(id, stride) in terms {
                let Some(step) = steps.get(id) else { continue };
                let last = step.extent.saturating_sub(1);
                let from = if stride < 0 {
                    let last = i64::try_from(last).unwrap_or(i64::MAX);
                    step.start.offset(last)
                } else {
                    step.start.clone()
                };
                start = start.plus(&from.times(stride));
                extent = extent.saturating_add(last.saturating_mul(stride.unsigned_abs()));
                needed = needed.saturating_mul(step.extent);
            }
            (Span::new(start, extent), needed)
        }
        IndexExpr::Digit { of, by, extent } => {
            let step = steps.get(*of).cloned().unwrap_or_else(|| Span::whole(1));
            let (quotient, _, _) = step.divide(*by, grid);
            let total = domain.loops.get(*of).map_or(1, |l| l.extent);
            if total <= by.saturating_mul(*extent) {
                return (quotient.clone(), quotient.extent);
            }
            let (_, digit, _) = quotient.divide(*extent, grid);
            (digit.clone(), digit.extent)
        }
    }
}

/// The dimensions of an operand reduced by the overlap of windows. For an index `p * stride + k - low` over a part
/// of the dimension, this is the part of `p` for which all `k` lie in it. A dimension that is read whole gives no
/// bound.
fn narrowed(
    domain: &IterationDomain,
    dims: &[IndexExpr],
    tile: &Tile,
    shape: &[u64],
    grid: &[u64],
) -> Option<Vec<(usize, IndexExpr, Span)>> {
    let mut out = Vec::with_capacity(dims.len());
    for (d, ((index, span), &size)) in dims.iter().zip(&tile.0).zip(shape).enumerate() {
        if span.is_whole(size) {
            continue;
        }
        let IndexExpr::Sum { terms, offset } = index else {
            out.push((d, index.clone(), span.clone()));
            continue;
        };
        let inner = |&&(id, _): &&(usize, i64)| domain.loops[id].kind == LoopKind::Inner;
        let reach: u64 = terms
            .iter()
            .filter(inner)
            .map(|&(id, stride)| {
                (domain.loops[id].extent - 1).saturating_mul(stride.unsigned_abs())
            })
            .sum();
        let outer: Vec<(usize, i64)> = terms.iter().filter(|t| !inner(t)).copied().collect();
        if reach == 0 && *offset == 0 && outer.iter().all(|t| 0 < t.1) {
            out.push((
                d,
                IndexExpr::Sum {
                    terms: outer,
                    offset: 0,
                },
                span.clone(),
            ));
            continue;
        }
        let &[(id, stride)] = outer.as_slice() else {
            return None;
        };
        let by = u64::try_from(stride).ok().filter(|n| 0 < *n)?;
        let room = span.extent.checked_sub(reach.checked_add(1)?)?;
        // The first step at or after the start of the part.
        let start = span.start.offset(-offset);
        let (step, least) = start.steps();
        let aligned = step % stride == 0 && least % stride == 0;
        let extent = if aligned {
            room / by + 1
        } else {
            (room.checked_sub(by - 1)?) / by + 1
        };
        let first = start.offset(stride - 1).floordiv(stride, grid);
        let first = if aligned {
            start.floordiv(stride, grid)
        } else {
            first
        };
        out.push((d, IndexExpr::of(id), Span::new(first, extent)));
    }
    Some(out)
}

/// The steps of all loops: a loop that nothing fixes runs whole.
fn filled(domain: &IterationDomain, steps: Vec<Option<Span>>) -> Vec<Span> {
    let all = steps.into_iter().zip(&domain.loops);
    all.map(|(s, l)| s.unwrap_or_else(|| Span::whole(l.extent)))
        .collect()
}
