//! Reductions that are cut: partial results accumulate over programs.

use super::error::TileFault;
use super::eval::{Cut, TiledOp};
use super::fragment::{Fragment, Region, intersection, whole};
use super::poison::Poison;
use crate::error::OpFailure;
use optc_ir::op::iteration_domain::IndexExpr;
use optc_ir::{DType, Partial as Combine, Tensor};
use std::ops::Range;

/// The combination of partial results; an error if the operation has none.
pub(super) fn combine(combine: Option<Combine>, name: &str) -> Result<Combine, TileFault> {
    combine.ok_or_else(|| TileFault::Reduction(format!("parts of {name} do not combine")))
}

/// Partial results, in wide element types.
pub(super) struct Partial {
    /// The first element of the result's tile.
    pub(super) start: Vec<i64>,
    pub(super) tensor: Tensor,
}

/// A float tensor in 64 bits.
fn widened(tensor: Tensor) -> Tensor {
    if tensor.dtype.is_float() {
        Tensor::from_f64(DType::F64, tensor.shape.clone(), tensor.to_f64())
    } else {
        tensor
    }
}

impl TiledOp<'_> {
    /// Runs one more step of a cut reduction. `reduced` has the part of each loop; `so_far` is the result of the steps
    /// before, `None` at the first.
    pub(super) fn accumulate(
        &self,
        combine: Combine,
        reduced: &[Range<i64>],
        sizes: &[u64],
        so_far: Option<Partial>,
    ) -> Result<Partial, OpFailure> {
        let refuse = |why: &str| OpFailure::Tile(TileFault::Reduction(why.to_owned()));
        let [region] = self.regions else {
            return Err(refuse("it has several results"));
        };
        let first = so_far.is_none();
        let done = match self.cut(self.regions, reduced) {
            Some(cut) => self.cropped(&cut, first)?,
            None if combine == Combine::Add => {
                let done = self.zeroed(first, reduced, Poison::Nan)?;
                let other = self.zeroed(first, reduced, Poison::Small)?;
                self.independent(&done, &other)?;
                done
            }
            None => return Err(refuse("the operation does not declare such a loop")),
        };
        let [mut tensor] =
            <[Tensor; 1]>::try_from(done).map_err(|_| refuse("its parts are several results"))?;
        if combine == Combine::Mean {
            let share = reduced.iter().zip(sizes);
            let share: f64 = share
                .map(|(r, &n)| (r.end - r.start) as f64 / n.max(1) as f64)
                .product();
            let scaled = tensor.to_f64().into_iter().map(|x| x * share);
            tensor = Tensor::from_f64(tensor.dtype, tensor.shape.clone(), scaled);
        }
        let start: Vec<i64> = region.iter().map(|r| r.start).collect();
        let tensor = match so_far {
            None => tensor,
            Some(before) if before.start != start => {
                return Err(TileFault::Moves {
                    program: self.program.to_vec(),
                    result: 0,
                    from: before.start,
                    to: start,
                }
                .into());
            }
            Some(before) => combined(combine, &before.tensor, &tensor),
        };
        Ok(Partial { start, tensor })
    }
}

impl TiledOp<'_> {
    /// A partial result from the parts of the operands that it needs.
    fn cropped(&self, cut: &Cut, first: bool) -> Result<Vec<Tensor>, OpFailure> {
        let refuse = |why: &str| OpFailure::Tile(TileFault::Reduction(why.to_owned()));
        self.missing(cut)?;
        let mut inputs: Vec<Tensor> = self.crops(&cut.operands).into_iter().map(widened).collect();
        for (i, input) in inputs.iter_mut().enumerate() {
            if !first && self.epilogue.contains(&i) {
                let zeros = std::iter::repeat_n(0.0, input.len());
                *input = Tensor::from_f64(input.dtype, input.shape.clone(), zeros);
            }
        }
        let done = self.evaluate(&inputs, &cut.results);
        done.ok_or_else(|| refuse("its parts have other shapes than its tile"))?
    }

    /// A partial sum of the whole operation. Its operands are zero outside the step's part of each loop, and poison
    /// where elements are missing.
    fn zeroed(
        &self,
        first: bool,
        reduced: &[Range<i64>],
        poison: Poison,
    ) -> Result<Vec<Tensor>, OpFailure> {
        let domain = self.iteration_domain();
        let loops: Vec<usize> = domain.reductions().map(|r| r.0).collect();
        let mut inputs = Vec::with_capacity(self.inputs.len());
        for (i, (part, shape)) in self.inputs.iter().zip(self.shapes).enumerate() {
            let all = whole(shape);
            let tensor = widened(part.crop(&all, poison));
            let there = intersection(&part.region, &all);
            let mut kept = all.clone();
            for (dim, index) in domain.operands[i].iter().enumerate() {
                let IndexExpr::Sum { terms, .. } = index else {
                    continue;
                };
                for (at, range) in loops.iter().zip(reduced) {
                    if terms.iter().any(|(id, _)| id == at) {
                        let mut others = terms.iter().filter(|(id, _)| id != at);
                        let alone = others.all(|(id, _)| domain.loops[*id].extent <= 1);
                        // Together with another loop, all available elements are kept; the other operands are zero for
                        // the rest.
                        kept[dim] = if alone {
                            range.clone()
                        } else {
                            there[dim].clone()
                        };
                    }
                }
            }
            if !first && self.epilogue.contains(&i) {
                kept.iter_mut().for_each(|r| r.end = r.start);
            }
            let zeros = std::iter::repeat_n(0.0, tensor.len());
            let mut zero = Tensor::from_f64(tensor.dtype, tensor.shape.clone(), zeros);
            let part = Fragment {
                region: all,
                tensor: tensor.into(),
            };
            let inner = Fragment {
                tensor: part.crop(&kept, Poison::Nan).into(),
                region: kept,
            };
            inner.copy_into(&mut zero, &part.region);
            inputs.push(zero);
        }
        let wanted: Vec<Vec<usize>> = self.results.iter().map(|r| r.0.clone()).collect();
        let done = self.evaluate(&inputs, &wanted);
        let done = done.ok_or_else(|| {
            OpFailure::Tile(TileFault::Reduction(
                "its parts have other shapes".to_owned(),
            ))
        })??;
        let crop = |(tensor, region): (Tensor, &Region)| {
            Fragment::of_memory(tensor.into()).crop(region, Poison::Nan)
        };
        Ok(done.into_iter().zip(self.regions).map(crop).collect())
    }
}

impl Partial {
    /// The result in its own element type.
    pub(super) fn finish(self, dtype: DType) -> Tensor {
        let Tensor { shape, .. } = &self.tensor;
        if self.tensor.dtype.is_float() {
            return Tensor::from_f64(dtype, shape.clone(), self.tensor.to_f64());
        }
        let elements = (0..self.tensor.len()).map(|i| self.tensor.i128_at(i));
        Tensor::from_i128(dtype, shape.clone(), elements)
    }
}

fn combined(combine: Combine, a: &Tensor, b: &Tensor) -> Tensor {
    if a.dtype.is_float() {
        let pairs = a.to_f64().into_iter().zip(b.to_f64());
        let both = |(x, y): (f64, f64)| match combine {
            Combine::Add | Combine::Mean => x + y,
            Combine::Multiply => x * y,
            Combine::Max if x.is_nan() || y.is_nan() => f64::NAN,
            Combine::Min if x.is_nan() || y.is_nan() => f64::NAN,
            Combine::Max => x.max(y),
            Combine::Min => x.min(y),
        };
        return Tensor::from_f64(a.dtype, a.shape.clone(), pairs.map(both));
    }
    let both = |i: usize| {
        let (x, y) = (a.i128_at(i), b.i128_at(i));
        match combine {
            Combine::Add | Combine::Mean => x.wrapping_add(y),
            Combine::Multiply => x.wrapping_mul(y),
            Combine::Max => x.max(y),
            Combine::Min => x.min(y),
        }
    };
    Tensor::from_i128(a.dtype, a.shape.clone(), (0..a.len()).map(both))
}
