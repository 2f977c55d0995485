//! What only moves: conversions, rearrangements that are no views, slices, splits, concatenations, repetitions.

use crate::access::Access;
use crate::convert::{ConversionOptions, ConversionPlan};
use crate::memory::{In, Slot};
use crate::moved::Moved;
use crate::nest::Nest;
use crate::ops::kernel::{Kernel, Site, picked, renamed, shape};
use optc_ir::types::TensorType;
use optc_ir::{Func, Operation, Structure, Value};
use optc_ops::{Broadcast, Concat, Slice, Split};

/// Elements of one operand to where they go.
#[derive(Debug)]
struct Piece {
    operand: usize,
    nest: Nest<2>,
}

/// Copies pieces of operands into results.
#[derive(Debug)]
pub(crate) struct Copy {
    /// The pieces of each result.
    results: Vec<Vec<Piece>>,
    /// The conversion that it is, if it is one between layouts.
    plan: Option<ConversionPlan>,
    /// Bytes of an element.
    size: usize,
}

impl Copy {
    /// The copies that an operation is, if it is some.
    pub(crate) fn of(site: &Site<'_>) -> Option<Copy> {
        let (func, op, registry) = (site.func, site.op, site.registry);
        let data = site.data();
        let slots = |value: Value| site.slot(value);
        let operand = slots(*data.operands.first()?)?;
        let size = bytes_of_element(operand)?;
        let same = |slot: &Slot| slot.width == operand.width && slot.dtype == operand.dtype;
        if !site.all()?.into_iter().all(same) {
            return None;
        }
        let one = |source: &Access| {
            let target = slots(data.results[0])?;
            let piece = piece(0, source, &target.access)?;
            Some(vec![vec![piece]])
        };
        let name = &*data.name;
        let of = func.op_ref(op);
        let results = if registry.structure(name) == Structure::Convert
            || data.operands.len() == 1 && registry.get(name)?.rearrangement(&of).is_ok()
        {
            one(&renamed(func, op, registry, &operand.access)?)?
        } else if name == Slice::NAME {
            let parts = Slice::of(&of).ok()?.parts(&of).ok()?;
            one(&picked(
                &parts,
                &shape(of.result(0).ok()?)?,
                &operand.access,
            )?)?
        } else if name == Broadcast::NAME {
            one(&operand.access.broadcast(&shape(of.result(0).ok()?)?))?
        } else if name == Split::NAME {
            let axis = Split::of(&of).ok()?.along(&of).ok()?;
            let mut from = 0;
            let mut results = Vec::new();
            for &result in &data.results {
                let target = slots(result)?;
                let n = *target.access.shape().get(axis)?;
                let source = along(&operand.access, axis, from, n)?;
                results.push(vec![piece(0, &source, &target.access)?]);
                from += n;
            }
            results
        } else if name == Concat::NAME {
            let axis = Concat::of(&of).ok()?.along(&of).ok()?;
            let target = slots(data.results[0])?;
            let mut from = 0;
            let mut pieces = Vec::new();
            for (i, &value) in data.operands.iter().enumerate() {
                let source = slots(value)?;
                let n = *source.access.shape().get(axis)?;
                pieces.push(piece(
                    i,
                    &source.access,
                    &along(&target.access, axis, from, n)?,
                )?);
                from += n;
            }
            vec![pieces]
        } else {
            return None;
        };
        let converts = registry.structure(name) == Structure::Convert;
        let plan = match converts {
            true => conversion(func, data.operands[0], data.results[0]),
            false => None,
        };
        Some(Copy {
            results,
            plan,
            size,
        })
    }
}

/// The plan of a conversion from the layout of one value to that of another.
fn conversion(func: &Func, from: Value, to: Value) -> Option<ConversionPlan> {
    let layout = |value: Value| {
        let ty: &TensorType = func.ty(value).as_tensor()?;
        ty.layout()?.ok()
    };
    let (from, to) = (layout(from)?, layout(to)?);
    ConversionPlan::new(&from, &to, ConversionOptions::default()).ok()
}

fn bytes_of_element(slot: &Slot) -> Option<usize> {
    let bits = slot.width as usize;
    matches!(bits, 8 | 16 | 32 | 64 | 128).then_some(bits / 8)
}

fn piece(operand: usize, source: &Access, target: &Access) -> Option<Piece> {
    let nest = Nest::of([target, source])?;
    Some(Piece { operand, nest })
}

/// The elements from one on along a dimension.
fn along(access: &Access, axis: usize, from: usize, n: usize) -> Option<Access> {
    let shape = access.shape();
    if *shape.get(axis)? < from + n {
        return None;
    }
    let pick: Vec<Vec<usize>> = shape
        .iter()
        .enumerate()
        .map(|(dim, &size)| match dim == axis {
            true => (from..from + n).collect(),
            false => (0..size).collect(),
        })
        .collect();
    Some(access.picked(&pick))
}

impl Kernel for Copy {
    fn name(&self) -> &'static str {
        "copy"
    }

    fn moves(&self) -> bool {
        true
    }

    fn run(&self, result: usize, ins: &[In<'_>], out: &mut [u8]) -> Result<(), String> {
        if let (Some(plan), [In::Bytes(source)]) = (&self.plan, ins) {
            let fits = |bytes: &[u8], wanted: u64| bytes.len() as u64 == wanted;
            if fits(source, plan.source_bytes()) && fits(out, plan.target_bytes()) {
                let done = plan.execute(source, out, &mut Moved::default());
                return done.map_err(|e| e.to_string());
            }
        }
        for Piece { operand, nest } in self.results.get(result).into_iter().flatten() {
            let Some(In::Bytes(source)) = ins.get(*operand) else {
                return Err("an operand is written over as it is copied".to_owned());
            };
            let fits =
                nest.fits(0, out.len() / self.size) && nest.fits(1, source.len() / self.size);
            if !fits {
                return Err("an element lies outside of its buffer".to_owned());
            }
            copy_at(nest, self.size, [0, 0], source, out);
        }
        Ok(())
    }
}

/// Copies elements of so many bytes, all places moved by as many elements.
///
/// # Panics
/// One of them lies outside of its buffer.
pub(crate) fn copy_at(nest: &Nest<2>, size: usize, by: [i64; 2], source: &[u8], out: &mut [u8]) {
    match size {
        1 => copy::<1>(nest, by, source, out),
        2 => copy::<2>(nest, by, source, out),
        4 => copy::<4>(nest, by, source, out),
        8 => copy::<8>(nest, by, source, out),
        _ => copy::<16>(nest, by, source, out),
    }
}

fn copy<const N: usize>(nest: &Nest<2>, by: [i64; 2], source: &[u8], out: &mut [u8]) {
    let (source, _) = source.as_chunks::<N>();
    let (out, _) = out.as_chunks_mut::<N>();
    let (n, [to, from]) = nest.inner;
    nest.each(|[at, read]| {
        let (at, read) = ((at + by[0]) as usize, (read + by[1]) as usize);
        match (to, from) {
            (1, 1) => out[at..at + n].copy_from_slice(&source[read..read + n]),
            (1, 0) => out[at..at + n].fill(source[read]),
            _ => {
                for i in 0..n {
                    out[at + i * to as usize] = source[(read as i64 + from * i as i64) as usize];
                }
            }
        }
    });
}
