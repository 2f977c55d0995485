//! The operands and results of an operation, by the loops that its dimensions run over.

use super::digits::labelled;
use super::mem::{Outcome, Port};
use super::writer::Writer;
use optc_ir::OpData;
use optc_ir::op::Freedom;
use optc_layout::Digit;

/// How the dimensions of operands and results of an operation run together.
pub(super) fn freedom(w: &Writer<'_>, data: &OpData) -> Outcome<Freedom> {
    let found = w.registry.get(&data.name);
    let decl = found.ok_or_else(|| w.refuse("nobody declared it"))?;
    Ok(decl.freedom(&w.op_ref(data)))
}

/// The operands of an operation by the loops of its freedom, and the digits of its first result: as they lie, or in
/// row-major order; nothing where a dimension has no loop.
pub(super) fn ports(
    w: &mut Writer<'_>,
    data: &OpData,
    freedom: &Freedom,
    plain: bool,
) -> Outcome<Option<(Vec<Port>, Vec<Digit>)>> {
    let mut ins = Vec::with_capacity(data.operands.len());
    for (&value, labels) in data.operands.iter().zip(&freedom.operands) {
        let port = w.operand(value, plain)?;
        let Some(digits) = labelled(&port.digits, labels) else {
            return Ok(None);
        };
        let mem = port.mem;
        ins.push(Port { mem, digits });
    }
    let out = w.wanted(data.results[0], plain)?;
    let out = freedom.results.first().and_then(|l| labelled(&out, l));
    Ok(out.map(|out| (ins, out)))
}
