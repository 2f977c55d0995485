//! What only moves: conversions, rearrangements that are no views, slices, splits, concatenations, repetitions.

use crate::access::Access;
use crate::convert::{ConversionOptions, ConversionPlan};
use crate::memory::{In, Slot};
use crate::moved::Moved;
use crate::nest::Nest;
use crate::ops::kernel::{Kernel, Site, part, renamed};
use optc_ir::op::in_place;
use optc_ir::op::part::Port;
use optc_ir::types::TensorType;
use optc_ir::{Func, Structure, Value};

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
        } else {
            pieces(site)?
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

/// The copies that an operation makes of parts: of its operand to its results, or of its operands to parts of its result,
/// which they fill.
fn pieces(site: &Site<'_>) -> Option<Vec<Vec<Piece>>> {
    let data = site.data();
    let slot = |port: Port| site.slot(port.value(data)?);
    let known = |i: usize| in_place::constant(site.func, *data.operands.get(i)?);
    let of = site.func.op_ref(site.op);
    let parts = site.registry.get(&data.name)?.parts(&of, &known);
    let mut results: Vec<Vec<Piece>> = data.results.iter().map(|_| Vec::new()).collect();
    let mut filled = vec![0; results.len()];
    for one in &parts {
        let (small, large) = (slot(one.part)?, slot(one.whole)?);
        let there = part(one, &small.access.shape(), &large.access)?;
        let (result, piece) = match (one.part, one.whole) {
            (Port::Operand(i), Port::Result(r)) => (r, piece(i, &small.access, &there)?),
            (Port::Result(r), Port::Operand(i)) => (r, piece(i, &there, &small.access)?),
            _ => return None,
        };
        filled[result] += small.access.count();
        results[result].push(piece);
    }
    let whole =
        |(result, n): (&Value, usize)| site.slot(*result).map(|s| s.access.count()) == Some(n);
    data.results
        .iter()
        .zip(filled)
        .all(whole)
        .then_some(results)
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
