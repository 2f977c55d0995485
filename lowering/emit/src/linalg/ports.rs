//! The operands and results of an operation, in terms of its loops.

use super::digits::labelled;
use super::mem::{Mem, Outcome, Port};
use super::nest::Nest;
use super::stored::Stored;
use super::writer::{How, Writer};
use crate::unwritten::{Form, Unwritten, known};
use optc_ir::op::Freedom;
use optc_ir::{OpData, Value};
use optc_layout::Digit;

/// The layout freedom of an operation, which relates the dimensions of its operands and results.
pub(super) fn freedom(w: &Writer<'_>, data: &OpData) -> Outcome<Freedom> {
    let found = w.registry.get(&data.name);
    let decl = found.ok_or_else(|| w.refuse("nobody declared it"))?;
    Ok(decl.freedom(&w.op_ref(data)))
}

/// The operands and the result of an operation, in terms of loops.
pub(super) struct Ports {
    pub(super) ins: Vec<Port>,
    /// The digits of the first result.
    pub(super) out: Vec<Digit>,
    /// Loops whose digits run beyond the extent, with these extents.
    pub(super) limits: Vec<(usize, u64)>,
    /// The result, the digits in which it is computed, and the memory that it must have.
    result: (Value, Vec<Digit>, Stored),
}

impl Ports {
    /// Puts a result into its memory.
    pub(super) fn settle(&self, w: &mut Writer<'_>, mem: &Mem) {
        let (value, digits, stored) = &self.result;
        let mem = w.placed(mem, digits, stored);
        w.set(*value, mem);
    }
}

/// The operands of an operation in terms of the loops of its freedom, and the digits of its first result. `None` if a
/// dimension has no loop; with [`How::Padded`], also if no loop runs over padding.
pub(super) fn ports(w: &mut Writer<'_>, data: &OpData, freedom: &Freedom, how: How) -> Form<Ports> {
    let result = data.results[0];
    let (Some(labels), false) = (freedom.results.first(), data.operands.is_empty()) else {
        return Err(Unwritten::NoForm);
    };
    let ports = data.operands.iter().zip(&freedom.operands);
    let ports: Vec<_> = ports.chain([(&result, labels)]).collect();
    let mut stored = Vec::with_capacity(ports.len());
    for (value, _) in &ports {
        let own = w.stored(**value)?;
        stored.push((own.clone(), own));
    }
    let mut limits = Vec::new();
    if how == How::Padded {
        let labels: Vec<&[Option<usize>]> = ports.iter().map(|port| &**port.1).collect();
        let Some(found) = widened(&labels, &mut stored) else {
            return Err(Unwritten::NoForm);
        };
        limits = found;
    }
    let mut ins = Vec::with_capacity(data.operands.len());
    for ((value, labels), (own, read)) in ports[..ports.len() - 1].iter().zip(&stored) {
        let value = **value;
        let port = match how {
            How::Padded => {
                let mem = w.storage(value)?;
                Port {
                    mem: w.roomy(&mem, own, read),
                    digits: read.digits(),
                }
            }
            How::Lies => w.operand(value, false)?,
            How::Plain => w.operand(value, true)?,
        };
        let Some(digits) = labelled(&port.digits, labels) else {
            return Err(Unwritten::NoForm);
        };
        let mem = port.mem;
        ins.push(Port { mem, digits });
    }
    let Some((stored, _)) = stored.pop() else {
        return Err(Unwritten::NoForm);
    };
    let made = match how {
        How::Padded => stored.digits(),
        How::Lies => w.wanted(result, false)?,
        How::Plain => w.wanted(result, true)?,
    };
    let out = known(labelled(&made, labels))?;
    let result = (result, made, stored);
    Ok(Ports {
        ins,
        out,
        limits,
        result,
    })
}

/// Widens ports whose digits run beyond the extents of their loops, so that all run as far; returns these loops with
/// their extents. Each port has its own memory, and the one in which it is read. The last port is the result. `None` if
/// there are no loops over all ports.
fn widened(
    labels: &[&[Option<usize>]],
    stored: &mut [(Stored, Stored)],
) -> Option<Vec<(usize, u64)>> {
    if !stored.iter().all(|s| s.0.is_digital()) {
        return None;
    }
    let owns = stored.iter().map(|s| &s.0);
    let all: Vec<_> = labels.iter().copied().zip(owns).collect();
    let found = ragged(&all)?;
    let operands = labels.len() - 1;
    for (at, (labels, (own, read))) in labels.iter().zip(stored.iter_mut()).enumerate() {
        for (dim, label) in labels.iter().enumerate() {
            let limit = found.iter().find(|l| Some(l.0) == *label);
            if let Some(&(_, size, filled)) = limit
                && own.shape.get(dim) == Some(&size)
            {
                match own.stretched(dim, filled) {
                    Some(wider) => {
                        *own = wider;
                        *read = read.stretched(dim, filled).unwrap_or(read.clone());
                    }
                    None if at == operands => {}
                    // The operand is copied into memory with more room.
                    None => *read = read.with_room(dim, filled).unwrap_or(read.clone()),
                }
            }
        }
    }
    // Checked before anything is written for the operands.
    let digits = labels.iter().zip(stored.iter());
    let digits = digits.map(|(labels, (_, read))| labelled(&read.digits(), labels));
    let digits: Vec<Vec<Digit>> = digits.collect::<Option<_>>()?;
    let all: Vec<&[Digit]> = digits.iter().map(|d| &**d).collect();
    Nest::of(&all)?;
    Some(
        found
            .iter()
            .map(|&(label, size, _)| (label, size))
            .collect(),
    )
}

/// The loops for which some memory has more indices than the extent: `(loop, extent, number of indices)`. `None` if
/// there is none, or if two ports disagree.
fn ragged(ports: &[(&[Option<usize>], &Stored)]) -> Option<Vec<(usize, u64, u64)>> {
    let mut found: Vec<(usize, u64, u64)> = Vec::new();
    for (labels, stored) in ports {
        for (dim, label) in labels.iter().enumerate() {
            let (n, filled) = (*stored.shape.get(dim)?, *stored.filled.get(dim)?);
            let Some(label) = label.filter(|_| n != filled) else {
                continue;
            };
            match found.iter().find(|l| l.0 == label) {
                Some(&(_, size, other)) if (size, other) != (n, filled) => return None,
                Some(_) => {}
                None => found.push((label, n, filled)),
            }
        }
    }
    (!found.is_empty()).then_some(found)
}
