//! Evaluates one operation in one program: its tile from the tiles of its operands.

use super::error::TileFault;
use super::fragment::{Fragment, Region, extents, for_each, intersection, is_empty, offset, whole};
use super::poison::{Poison, copy_element, poisoned, same_element};
use crate::error::OpFailure;
use optc_ir::op::iteration_domain::{IndexExpr, IterationDomain};
use optc_ir::op::iteration_domain_of;
use optc_ir::{
    Attr, AttrDict, Bindings, DType, EvalContext, Freedom, FreedomClass, OpDecl, OpRef, Role,
    Structure, Tensor, Type,
};
use std::ops::Range;

/// An operation in one program of its group.
pub(super) struct TiledOp<'a> {
    pub(super) decl: &'a dyn OpDecl,
    pub(super) name: &'a str,
    pub(super) props: &'a AttrDict,
    pub(super) bindings: &'a Bindings,
    pub(super) program: &'a [i64],
    /// The available part of each operand.
    pub(super) inputs: &'a [Fragment],
    /// The shape of each operand as a whole.
    pub(super) shapes: &'a [Vec<usize>],
    /// The region of each result to compute.
    pub(super) regions: &'a [Region],
    /// The shape and element type of each result as a whole.
    pub(super) results: &'a [(Vec<usize>, DType)],
    /// The operands that enter only the first step of a reduction.
    pub(super) epilogue: &'a [usize],
}

/// The types of tensors of these shapes.
fn types<'a>(all: impl IntoIterator<Item = (&'a [usize], DType)>) -> Vec<Type> {
    let ty = |(shape, dtype): (&[usize], DType)| {
        let shape: Vec<u64> = shape.iter().map(|&n| n as u64).collect();
        Type::tensor(&shape, dtype)
    };
    all.into_iter().map(ty).collect()
}

/// Operands cut to the part that a tile needs, and the extents of the results computed from them.
pub(super) struct Cut {
    pub(super) operands: Vec<Region>,
    /// Per operand and dimension: true if no smaller part would do.
    exact: Vec<Vec<bool>>,
    pub(super) results: Vec<Vec<usize>>,
}

impl TiledOp<'_> {
    /// Computes the elements of each result's region; those outside the value are poison.
    pub(super) fn compute(&self) -> Result<Vec<Tensor>, OpFailure> {
        if let Some(done) = self.rearranged()? {
            return Ok(vec![done]);
        }
        let inside: Vec<Region> = self.clipped();
        let mut missing = None;
        for regions in [self.regions, &inside] {
            let Some(cut) = self.cut(regions, &[]) else {
                break;
            };
            if let Err(fault) = self.missing(&cut) {
                if let TileFault::Missing { operand, dim, .. } = fault
                    && cut.exact[operand][dim]
                {
                    return Err(fault.into());
                }
                missing = Some(fault.into());
                break;
            }
            let inputs: Vec<Tensor> = self.crops(&cut.operands);
            if let Some(Ok(done)) = self.evaluate(&inputs, &cut.results) {
                return Ok(self.fit(done, regions));
            }
        }
        match (self.masked(), missing) {
            (Err(OpFailure::Tile(_) | OpFailure::Eval(_)), Some(missing)) => Err(missing),
            (done, _) => done,
        }
    }

    /// The regions cut to their values.
    fn clipped(&self) -> Vec<Region> {
        let clip =
            |(r, (shape, _)): (&Region, &(Vec<usize>, DType))| intersection(r, &whole(shape));
        self.regions.iter().zip(self.results).map(clip).collect()
    }

    /// Fits results of `regions` to the regions that are wanted.
    fn fit(&self, done: Vec<Tensor>, regions: &[Region]) -> Vec<Tensor> {
        let pairs = done.into_iter().zip(regions).zip(self.regions);
        pairs
            .map(|((tensor, from), to)| {
                if from == to {
                    return tensor;
                }
                let part = Fragment {
                    region: from.clone(),
                    tensor: tensor.into(),
                };
                part.crop(to, Poison::Nan)
            })
            .collect()
    }

    /// The operands' regions, as poisoned tensors.
    pub(super) fn crops(&self, regions: &[Region]) -> Vec<Tensor> {
        let pairs = self.inputs.iter().zip(regions);
        pairs.map(|(p, r)| p.crop(r, Poison::Nan)).collect()
    }

    /// An operation that only renames elements, element by element.
    fn rearranged(&self) -> Result<Option<Tensor>, OpFailure> {
        let ([input], [region], [(shape, dtype)]) = (self.inputs, self.regions, self.results)
        else {
            return Ok(None);
        };
        let operand = &self.shapes[0];
        let (inner, perm) = if self.decl.structure() == Structure::Convert {
            (operand.clone(), (0..operand.len()).collect())
        } else {
            let operands = types([(&operand[..], input.tensor.dtype)]);
            let results = types([(&shape[..], *dtype)]);
            let op = self.op(&operands, &results, self.props);
            let Ok(view) = self.decl.rearrangement(&op) else {
                return Ok(None);
            };
            let inner = view.shape.iter().map(|d| usize::try_from(d.fixed()?).ok());
            match inner.collect::<Option<Vec<usize>>>() {
                Some(inner) => (inner, view.perm),
                None => return Ok(None),
            }
        };
        let transposed: Vec<usize> = perm.iter().map(|&p| inner[p]).collect();
        let volume = |shape: &[usize]| shape.iter().product::<usize>();
        if volume(operand) != volume(&inner) || volume(&inner) != volume(shape) {
            return Ok(None);
        }
        let mut out = poisoned(*dtype, &extents(region), Poison::Nan);
        let (to, from) = (out.strides(), input.tensor.strides());
        let mut fault = None;
        for_each(&intersection(region, &whole(shape)), |at| {
            let place = index_of(number_of(at, shape), &transposed);
            let mut back = vec![0; place.len()];
            for (i, &p) in perm.iter().enumerate() {
                back[p] = place[i];
            }
            let source = index_of(number_of(&back, &inner), operand);
            match outside(&source, &input.region) {
                None => copy_element(
                    &mut out,
                    offset(at, region, &to),
                    &input.tensor,
                    offset(&source, &input.region, &from),
                ),
                Some(dim) => {
                    fault.get_or_insert_with(|| {
                        let needed = source[dim]..source[dim] + 1;
                        self.lacks(0, dim, &needed)
                    });
                }
            }
        });
        match fault {
            Some(fault) => Err(fault.into()),
            None => Ok(Some(out)),
        }
    }

    fn op<'b>(
        &'b self,
        operands: &'b [Type],
        results: &'b [Type],
        props: &'b AttrDict,
    ) -> OpRef<'b> {
        OpRef {
            name: self.name,
            operands: operands.iter().collect(),
            results: results.iter().collect(),
            props,
        }
    }

    /// The types of the operation's whole operands and results.
    fn whole_types(&self) -> (Vec<Type>, Vec<Type>) {
        let operands = self.shapes.iter().zip(self.inputs);
        let operands = operands.map(|(shape, part)| (&shape[..], part.tensor.dtype));
        let results = self.results.iter().map(|(shape, d)| (&shape[..], *d));
        (types(operands), types(results))
    }

    /// The loops of the operation.
    pub(super) fn iteration_domain(&self) -> IterationDomain {
        let (operands, results) = self.whole_types();
        iteration_domain_of(Some(self.decl), &self.op(&operands, &results, self.props))
    }

    /// The parts of the operands that the regions of the results need. They follow from the labels that the operation
    /// declares: equal labels are equal indices. `reduced` has a range for each reduction loop. `None` if the labels do
    /// not determine the parts.
    pub(super) fn cut(&self, regions: &[Region], reduced: &[Range<i64>]) -> Option<Cut> {
        let (operands, results) = self.whole_types();
        let freedom = self.decl.freedom(&self.op(&operands, &results, self.props));
        if !matches!(
            freedom.class,
            FreedomClass::Ordered | FreedomClass::Contract | FreedomClass::Window
        ) {
            return None;
        }
        let mut ranges: Vec<Option<Range<i64>>> = vec![None; freedom.labels.len()];
        let mut in_result = vec![false; freedom.labels.len()];
        for ((region, labels), (shape, _)) in regions.iter().zip(&freedom.results).zip(self.results)
        {
            for ((range, label), &size) in region.iter().zip(labels).zip(shape) {
                let all = range.start <= 0 && size as i64 <= range.end;
                let Some(label) = *label else {
                    if *range == (0..size as i64) {
                        continue;
                    }
                    return None;
                };
                in_result[label] = true;
                let free =
                    freedom.labels[label].granule == 0 && freedom.labels[label].role != Role::Axis;
                match (&ranges[label], free) {
                    (None, true) => ranges[label] = Some(range.clone()),
                    (Some(known), true) if known == range => {}
                    (_, false) if all && *range == (0..size as i64) => {}
                    _ => return None,
                }
            }
        }
        if !reduced.is_empty() {
            let domain = self.iteration_domain();
            let loops: Vec<usize> = domain.reductions().map(|r| r.0).collect();
            if loops.len() < reduced.len() {
                return None;
            }
            for (&id, range) in loops.iter().zip(reduced) {
                let label = label_of(&domain, id, &freedom)?;
                if in_result[label] {
                    return None;
                }
                ranges[label] = Some(range.clone());
            }
        }
        let exact = freedom.operands.iter().map(|labels| {
            let known = |label: &Option<usize>| label.is_some_and(|l| ranges[l].is_some());
            labels.iter().map(known).collect()
        });
        let exact = exact.collect();
        let operands = self.shapes.iter().zip(&freedom.operands);
        let operands = operands.map(|(shape, labels)| {
            let range = |(&size, label): (&usize, &Option<usize>)| {
                let known = label.and_then(|l| ranges[l].clone());
                known.unwrap_or(0..size as i64)
            };
            shape.iter().zip(labels).map(range).collect()
        });
        Some(Cut {
            operands: operands.collect(),
            exact,
            results: regions.iter().map(extents).collect(),
        })
    }

    /// Refuses regions of operands that their tiles do not hold.
    pub(super) fn missing(&self, cut: &Cut) -> Result<(), TileFault> {
        for (operand, (part, region)) in self.inputs.iter().zip(&cut.operands).enumerate() {
            let needed = intersection(region, &whole(&self.shapes[operand]));
            if is_empty(&needed) {
                continue;
            }
            for (dim, (need, have)) in needed.iter().zip(&part.region).enumerate() {
                if need.start < have.start || have.end < need.end {
                    return Err(self.lacks(operand, dim, need));
                }
            }
        }
        Ok(())
    }

    fn lacks(&self, operand: usize, dim: usize, needed: &Range<i64>) -> TileFault {
        let have = &self.inputs[operand].region[dim];
        TileFault::Missing {
            program: self.program.to_vec(),
            operand,
            dim,
            start: needed.start,
            stop: needed.end,
            from: have.start,
            to: have.end,
        }
    }

    /// Evaluates the declared semantics on these operands; `None` if the results have other extents than `wanted`.
    pub(super) fn evaluate(
        &self,
        inputs: &[Tensor],
        wanted: &[Vec<usize>],
    ) -> Option<Result<Vec<Tensor>, OpFailure>> {
        let operands = types(inputs.iter().map(|t| (&t.shape[..], t.dtype)));
        let results = wanted.iter().zip(self.results);
        let results = types(results.map(|(shape, (_, dtype))| (&shape[..], *dtype)));
        let said = self.said(wanted);
        let props = [Some(self.props), said.as_ref()];
        let fits = |props: &&AttrDict| {
            let op = self.op(&operands, &results, props);
            let Ok(inferred) = self.decl.infer(&op) else {
                return false;
            };
            let shape = |dims: &[optc_ir::Dim]| -> Option<Vec<usize>> {
                dims.iter()
                    .map(|d| usize::try_from(d.fixed()?).ok())
                    .collect()
            };
            inferred.len() == wanted.len()
                && inferred
                    .iter()
                    .zip(wanted)
                    .all(|(i, w)| shape(&i.dims).as_ref() == Some(w))
        };
        let props = props.into_iter().flatten().find(fits)?;
        let op = self.op(&operands, &results, props);
        let inputs: Vec<&Tensor> = inputs.iter().collect();
        let cx = EvalContext {
            bindings: self.bindings,
        };
        Some(self.decl.eval(&op, &inputs, &cx).map_err(OpFailure::from))
    }

    /// The attributes with another `shape`, for an operation that states the extents of its only result there.
    fn said(&self, wanted: &[Vec<usize>]) -> Option<AttrDict> {
        let ([wanted], [(shape, _)]) = (wanted, self.results) else {
            return None;
        };
        if self.props.get("shape")?.as_array()?.len() != shape.len() {
            return None;
        }
        let mut props = self.props.clone();
        props.set("shape", Attr::ints(wanted));
        Some(props)
    }

    /// Evaluates the whole operation with poison for missing elements of operands, then again with other poison, to see
    /// whether the regions depend on it.
    fn masked(&self) -> Result<Vec<Tensor>, OpFailure> {
        let full = self.inputs.iter().zip(self.shapes);
        let full = full.fold(true, |all, (p, s)| all && p.region == whole(s));
        let first = self.masked_with(Poison::Nan);
        if full {
            return first;
        }
        let small = self.masked_with(Poison::Small)?;
        // Not every number can replace an operand that is an index.
        let first = match first {
            Err(OpFailure::Eval(_)) => small.clone(),
            first => first?,
        };
        let large = match self.masked_with(Poison::Large) {
            Err(OpFailure::Eval(_)) => small.clone(),
            large => large?,
        };
        self.independent(&first, &small)?;
        self.independent(&first, &large)?;
        Ok(first)
    }

    /// Refuses results that differ between two kinds of poison.
    pub(super) fn independent(&self, one: &[Tensor], other: &[Tensor]) -> Result<(), TileFault> {
        for (result, (a, b)) in one.iter().zip(other).enumerate() {
            let inside = intersection(&self.regions[result], &whole(&self.results[result].0));
            let strides = a.strides();
            let mut differs = None;
            for_each(&inside, |at| {
                let i = offset(at, &self.regions[result], &strides);
                if differs.is_none() && !same_element(a, i, b, i) {
                    differs = Some(at.to_vec());
                }
            });
            if let Some(element) = differs {
                let program = self.program.to_vec();
                return Err(TileFault::Depends {
                    program,
                    result,
                    element,
                });
            }
        }
        Ok(())
    }

    fn masked_with(&self, poison: Poison) -> Result<Vec<Tensor>, OpFailure> {
        let inputs = self.inputs.iter().zip(self.shapes);
        let inputs: Vec<Tensor> = inputs
            .map(|(part, shape)| part.crop(&whole(shape), poison))
            .collect();
        let (operands, results) = self.whole_types();
        let op = self.op(&operands, &results, self.props);
        let inputs: Vec<&Tensor> = inputs.iter().collect();
        let cx = EvalContext {
            bindings: self.bindings,
        };
        let done = self.decl.eval(&op, &inputs, &cx)?;
        let crop = |(tensor, region): (Tensor, &Region)| {
            Fragment::of_memory(tensor.into()).crop(region, Poison::Nan)
        };
        Ok(done.into_iter().zip(self.regions).map(crop).collect())
    }
}

/// The first dimension along which an element lies outside of a box.
fn outside(at: &[i64], region: &Region) -> Option<usize> {
    at.iter().zip(region).position(|(i, r)| !r.contains(i))
}

/// The row-major number of an element.
fn number_of(at: &[i64], shape: &[usize]) -> i64 {
    at.iter()
        .zip(shape)
        .fold(0, |n, (i, &size)| n * size as i64 + i)
}

/// The element of this row-major number.
fn index_of(number: i64, shape: &[usize]) -> Vec<i64> {
    let mut rest = number;
    let mut at = vec![0; shape.len()];
    for (i, &size) in at.iter_mut().zip(shape).rev() {
        let size = (size as i64).max(1);
        *i = rest % size;
        rest /= size;
    }
    at
}

/// The label of the dimensions that a loop runs along, one element a step; `None` if the loop runs along other
/// dimensions, or together with another loop.
fn label_of(domain: &IterationDomain, id: usize, freedom: &Freedom) -> Option<usize> {
    let mut found = None;
    for (indices, labels) in domain.operands.iter().zip(&freedom.operands) {
        for (index, label) in indices.iter().zip(labels) {
            let runs = match index {
                IndexExpr::Sum { terms, .. } => terms.iter().any(|(of, _)| *of == id),
                IndexExpr::Digit { of, .. } => *of == id,
                IndexExpr::Whole => false,
            };
            if !runs {
                continue;
            }
            let IndexExpr::Sum { terms, offset: 0 } = index else {
                return None;
            };
            let mut long = terms.iter().filter(|(of, _)| 1 < domain.loops[*of].extent);
            let alone = long.all(|&(of, stride)| of == id && stride == 1);
            if !alone || found.is_some_and(|known| Some(known) != *label) {
                return None;
            }
            found = *label;
            found?;
        }
    }
    found
}
