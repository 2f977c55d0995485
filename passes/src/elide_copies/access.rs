//! The accesses that a row lets an operation have to a buffer that is spread out in a larger one.
//!
//! The pass decides by this file. The checker of parts (`optc_check::parts`) judges on its own; a test compares both.
//!
//! Example: a matmul whose row says `one_run = ["k"]` reads every second row of a larger matrix as its left operand. It
//! does not read every second column, as K then is in no one run.

use super::in_tiles;
use crate::view_fold::{Elements, Signature};
use optc_check::parts::Site;
use optc_check::pieces::Pieces;
use optc_ir::op::part::Port;
use optc_ir::{Freedom, FreedomClass, Op, Role, Structure};
use optc_layout::{Layout, Spread, Stride};
use optc_target::{Parts, PortRole, Row, Target};

/// An operation whose row takes parts of larger values.
struct Access<'t> {
    signature: Signature,
    row: &'t Row,
    parts: Parts,
}

impl<'t> Access<'t> {
    /// Reads the row of an operation; `None` for a conversion, which takes all.
    ///
    /// # Errors
    /// The row takes no parts; the text says why.
    fn of(site: &Site<'_>, target: &'t Target, op: Op) -> Result<Option<Access<'t>>, String> {
        let data = &site.func.ops[op];
        if site.registry.structure(&data.name) == Structure::Convert {
            return Ok(None);
        }
        let decl = site.registry.get(&data.name);
        let decl = decl.ok_or("nothing is known of it")?;
        let op_ref = site.func.op_ref(op);
        let family = decl.family_of(&op_ref);
        let row = target.row(family);
        let parts = row.and_then(|row| Some((row, row.parts?)));
        let (row, parts) = parts.ok_or("its row takes no parts of larger values")?;
        let values = data.operands.iter().chain(&data.results);
        let layouts: Vec<_> = values.map(|&value| site.layout(value)).collect();
        let shape = |l: &Option<&Layout>| l.map_or_else(Vec::new, |l| l.shape().to_vec());
        let bits = |l: &Option<&Layout>| l.map_or(0, |l| l.elem_bits());
        let signature = Signature::new(
            (family, Elements::of(site.func, op, site.dequantized())),
            decl.freedom(&op_ref),
            layouts.iter().map(shape).collect(),
            layouts.iter().map(bits).collect(),
            data.operands.len(),
            Vec::new(),
            target,
        );
        Ok(Some(Access {
            signature,
            row,
            parts,
        }))
    }

    fn label(&self, port: usize, dim: usize) -> Option<usize> {
        self.signature.labels(port).get(dim).copied().flatten()
    }

    fn role(&self, port: usize, dim: usize) -> Option<PortRole> {
        let label = self.label(port, dim)?;
        Some(self.signature.port_role(label))
    }

    /// The roles whose digits must be one run.
    fn one_run(&self) -> impl Iterator<Item = PortRole> {
        let rules = self.signature.orders.iter();
        rules.flat_map(|rule| rule.one_run.iter().copied())
    }

    /// The role that the row wants in one run at a port and that these digits, major to minor, have in several.
    fn torn(&self, port: usize, digits: &[Stride]) -> Option<PortRole> {
        if self.ends_in_run(port, digits) {
            return None;
        }
        let is_torn = |wanted: &PortRole| {
            let mut wants: Option<Option<i64>> = None;
            let of_role = |s: &&Stride| self.role(port, s.dim) == Some(*wanted);
            !digits.iter().rev().filter(of_role).all(|s| {
                let count = i64::try_from(s.count).ok();
                let fits = wants.is_none_or(|stride| stride == Some(s.stride));
                wants = Some(count.and_then(|n| n.checked_mul(s.stride)));
                fits
            })
        };
        self.one_run().find(is_torn)
    }

    /// Returns whether a port ends in a run that is long enough for the rest to be in several.
    fn ends_in_run(&self, port: usize, digits: &[Stride]) -> bool {
        let mut rules = self.signature.orders.iter();
        let Some(least) = rules.find_map(|rule| rule.several_runs) else {
            return false;
        };
        let mut elements = 1u64;
        let mut role = None;
        // Elements that repeat stand below the run.
        if digits.iter().all(|s| s.stride != 0) {
            let next = |run: u64| {
                digits
                    .iter()
                    .find(move |s| i64::try_from(run) == Ok(s.stride))
            };
            while let Some(digit) = next(elements) {
                let own = self.role(port, digit.dim);
                if 1 < elements && own != role || digit.count <= 1 {
                    break;
                }
                role = own;
                elements = elements.saturating_mul(digit.count);
            }
        }
        let bits = u64::from(self.signature.bits[port]);
        least <= bits.saturating_mul(elements)
    }

    /// Returns whether elements of the result are computed from the elements at the same indices.
    fn is_elementwise(&self) -> bool {
        let Freedom { class, labels, .. } = &self.signature.freedom;
        *class == FreedomClass::Ordered && labels.iter().all(|l| l.role == Role::Parallel)
    }

    /// Returns whether a contraction reads a port line by line: its last dimensions are summed, and the others are the
    /// first of the result and not repeated over a batch.
    fn reads_lines(&self, port: usize) -> bool {
        let sig = &self.signature;
        let result = sig.n_operands;
        let rank = sig.labels(port).len();
        let summed = (0..rank).find(|&d| self.role(port, d) == Some(PortRole::K));
        let lines = summed.unwrap_or(rank);
        let repeats = |d: usize| {
            let batch = self.role(port, d) == Some(PortRole::Batch);
            batch && sig.shapes.get(result).and_then(|s| s.get(d)) != Some(&1)
        };
        sig.freedom.class == FreedomClass::Contract
            && (lines..rank).all(|d| self.role(port, d) == Some(PortRole::K))
            && (0..lines).all(|d| sig.labels(result).get(d) == sig.labels(port).get(d))
            && !(0..lines).any(repeats)
    }
}

/// Returns whether the row of a target lets an operation read or write a buffer that is spread out in another one.
///
/// # Errors
/// The row does not let it; the text says why.
pub fn takes(
    site: &Site<'_>,
    target: &Target,
    op: Op,
    port: Port,
    spread: &Spread,
) -> Result<(), String> {
    let data = &site.func.ops[op];
    let value = port.value(data).ok_or("there is no such port")?;
    let layout = site.layout(value).ok_or("its layout is not known")?;
    let strides = spread.strides(layout);
    let strides = strides.ok_or("its elements do not lie evenly there")?;
    let Some(access) = Access::of(site, target, op)? else {
        return Ok(());
    };
    let at = port.index(data.operands.len());
    let moved = |s: &Stride| i64::try_from(s.compact) != Ok(s.stride);
    let batch = |s: &Stride| {
        let label = access.label(at, s.dim);
        label.is_some_and(|l| access.signature.freedom.labels[l].role == Role::Batch)
    };
    if site.is_tiled(target) {
        let row = (access.row, access.parts);
        return in_tiles::takes(row, layout, target, (spread.offset(), &strides));
    }
    match (access.parts, access.torn(at, &strides)) {
        (Parts::Leading, _) if strides.iter().any(|s| moved(s) && !batch(s)) => {
            Err("it is not in one piece beside the batch".to_owned())
        }
        (Parts::Any | Parts::Tiles, Some(role)) => {
            Err(format!("{} is in no one run there", role.name()))
        }
        (Parts::Leading, _) | (Parts::Any | Parts::Tiles, None) => Ok(()),
    }
}

/// Returns whether an operation writes a result that is in several pieces.
///
/// # Errors
/// It does not; the text says why.
pub fn writes_pieces(site: &Site<'_>, target: &Target, op: Op) -> Result<(), String> {
    let access = Access::of(site, target, op);
    match access.is_ok_and(|a| a.is_none_or(|a| a.parts == Parts::Any)) {
        true => Ok(()),
        false => {
            let name = &site.func.ops[op].name;
            Err(format!("`{name}` writes its result in one piece"))
        }
    }
}

/// The fewest bits of a run of elements if no digit beside the pieces has stride 1.
const LEAST_RUN: u64 = 256;

/// Returns whether the row of a target lets an operation read an operand that is in pieces.
#[must_use]
pub fn takes_pieces(
    site: &Site<'_>,
    target: &Target,
    op: Op,
    operand: usize,
    pieces: &Pieces,
) -> bool {
    let access = match Access::of(site, target, op) {
        Ok(Some(access)) => access,
        Ok(None) => return true,
        Err(_) => return false,
    };
    let mut roles = pieces.dims.iter().map(|&dim| access.role(operand, dim));
    let Some(own) = roles.next().flatten() else {
        return false;
    };
    if access.parts != Parts::Any
        || !access.row.pieces.contains(&own)
        || roles.any(|r| r != Some(own))
    {
        return false;
    }
    let one = pieces.dims.len() == 1;
    if !one && !access.is_elementwise() && !access.reads_lines(operand) {
        return false;
    }
    let bits = u64::from(access.signature.bits[operand]);
    let long = pieces
        .run
        .is_some_and(|run| LEAST_RUN <= run.elements.saturating_mul(bits));
    let (along, across): (Vec<&Stride>, Vec<&Stride>) = pieces
        .beside
        .iter()
        .partition(|s| access.role(operand, s.dim) == Some(own));
    let unit = |digits: &[&Stride]| digits.iter().any(|s| s.stride == 1);
    let in_runs =
        !access.one_run().any(|role| role == own) || unit(&across) || (long && along.is_empty());
    (long || unit(&along) || unit(&across))
        && in_runs
        && access.torn(operand, &pieces.beside).is_none()
}
