//! Operations by their compositions: softmax, norms, and whatever a user declares by one.
//!
//! Example: a softmax is a `reduce` with `maximum`, a `broadcast` of its result, `subtract`, `exponential`, a `reduce`
//! with `add`, another `broadcast`, and `divide`.

use super::compose::{combination, reduced};
use super::elementwise::Elementwise;
use super::func::{Outcome, Writer, list};
use super::norms::wide;
use super::shape::{shaped, sizes};
use crate::unwritten::{Form, known};
use optc_ir::op::{Combine, Composition, Expr, Stage};
use optc_ir::{OpData, TensorType};

/// Writes an operation that has a composition and returns the name of the result. Any other operation has no form here.
pub(super) fn write(w: &mut Writer<'_>, data: &OpData, ty: &TensorType) -> Form<String> {
    let composition = known(w.shared.registry.composition(&w.op_ref(data)))?;
    let ty_of_stages = wide(ty);
    let lanes = Lanes::of(&composition, &ty_of_stages);
    let counts = |stage: &Stage| matches!(stage, Stage::Reduce { then, .. } if then.reads(1));
    let counts = composition.stages.iter().any(counts);
    let fits = |lanes: &Lanes| ty.dtype.is_float() && (!counts || lanes.count.is_some());
    let lanes = known(lanes.filter(fits))?;
    let mut stages = Stages {
        data,
        at: &composition.at,
        made: vec![Made::default(); composition.at.len()],
        ty: ty_of_stages,
        lanes,
    };
    for stage in &composition.stages {
        let made = stages.stage(w, stage)?;
        stages.made.push(made);
    }
    let last = known(stages.made.pop().and_then(|made| made.each))?;
    Ok(w.put(ty, "convert", &[last], "")?)
}

/// The elements that are combined.
struct Lanes {
    /// The type with dimension 1 cut into groups, if there are several channels in a group.
    cut: Option<TensorType>,
    /// The dimensions that are combined, and those that are kept, of the cut type if there is one.
    along: Vec<usize>,
    kept: Vec<usize>,
    /// The type of a combination: the kept dimensions.
    flat: TensorType,
    /// The number of elements of a combination, if it is known.
    count: Option<u64>,
}

impl Lanes {
    /// `None` if the groups of channels are not known.
    fn of(composition: &Composition, ty: &TensorType) -> Option<Lanes> {
        let mut along = composition.along.clone();
        let mut cut = None;
        if let Some(groups) = composition.groups {
            let shape = sizes(ty)?;
            let size = composition.group(*shape.get(1)?)?;
            if size != 1 {
                let parts = [&[shape[0], groups, size], &shape[2..]].concat();
                along = std::iter::once(2)
                    .chain(along.iter().map(|d| d + 1))
                    .collect();
                cut = Some(shaped(ty, &parts));
            }
        }
        let whole = cut.as_ref().unwrap_or(ty);
        let kept: Vec<usize> = (0..whole.rank()).filter(|d| !along.contains(d)).collect();
        let dims = kept.iter().map(|&d| whole.dims[d].clone()).collect();
        let flat = TensorType::new(dims, ty.dtype);
        let count = along.iter().map(|&d| whole.dims[d].fixed()).product();
        Some(Lanes {
            cut,
            along,
            kept,
            flat,
            count,
        })
    }
}

/// An operand or a stage: the name of one number for each element, and of one for each combination.
#[derive(Clone, Default)]
struct Made {
    each: Option<String>,
    flat: Option<String>,
}

/// The stages of an operation that have been written.
struct Stages<'d> {
    data: &'d OpData,
    at: &'d [usize],
    /// Operands and stages.
    made: Vec<Made>,
    /// The type of a number for each element.
    ty: TensorType,
    lanes: Lanes,
}

impl Stages<'_> {
    fn stage(&mut self, w: &mut Writer<'_>, stage: &Stage) -> Form<Made> {
        match stage {
            Stage::Each(expr) => Ok(Made {
                each: Some(self.each(w, expr)?),
                flat: None,
            }),
            Stage::Reduce { combine, of, then } => {
                let x = self.each(w, of)?;
                Ok(Made {
                    each: None,
                    flat: Some(self.combined(w, *combine, x, then)?),
                })
            }
        }
    }

    /// An expression of each element.
    fn each(&mut self, w: &mut Writer<'_>, expr: &Expr) -> Form<String> {
        let mut operands = Vec::with_capacity(self.made.len());
        for i in 0..self.made.len() {
            let name = match expr.reads(i) {
                true => self.spread(w, i)?,
                false => String::new(),
            };
            operands.push((name, self.ty.dtype));
        }
        known(expr.build(&operands, &mut Elementwise { w, ty: &self.ty })?)
    }

    /// An operand or a stage, with a number for each element.
    fn spread(&mut self, w: &mut Writer<'_>, i: usize) -> Outcome<String> {
        if let Some(name) = &self.made[i].each {
            return Ok(name.clone());
        }
        let name = match (&self.made[i].flat, &self.lanes.cut) {
            (None, _) => {
                let name = w.spread_at(self.data.operands[i], &self.ty, self.at[i])?;
                w.put(&self.ty, "convert", &[name], "")?
            }
            (Some(flat), cut) => {
                let back = format!(", dimensions={}", list(&self.lanes.kept));
                let flat = std::slice::from_ref(flat);
                let name = w.put(cut.as_ref().unwrap_or(&self.ty), "broadcast", flat, &back)?;
                match cut {
                    Some(_) => w.put(&self.ty, "reshape", &[name], "")?,
                    None => name,
                }
            }
        };
        self.made[i].each = Some(name.clone());
        Ok(name)
    }

    /// A number for each combination of elements.
    fn combined(
        &self,
        w: &mut Writer<'_>,
        combine: Combine,
        mut x: String,
        then: &Expr,
    ) -> Form<String> {
        let (lanes, dtype) = (&self.lanes, self.ty.dtype);
        if let Some(cut) = &lanes.cut {
            x = w.put(cut, "reshape", &[x], "")?;
        }
        let (opcode, init) = combination(combine, dtype);
        let combined = reduced(w, &x, (opcode, &init), &lanes.along, &lanes.flat)?;
        let mut e = Elementwise { w, ty: &lanes.flat };
        let mut operands = vec![(combined, dtype)];
        if then.reads(1) {
            let count = known(lanes.count)?;
            operands.push((e.number(count as f64)?, dtype));
        }
        known(then.build(&operands, &mut e)?)
    }
}
