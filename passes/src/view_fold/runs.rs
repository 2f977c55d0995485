//! Demands on the innermost run of a contraction's ports, on a machine without tiles: its role, and its length in
//! bytes.
//!
//! Example: a row may demand K innermost in the left operand, with a run of at least 16 bytes and other strides in
//! multiples of 16 bytes.

use super::signature::{ContractRole, PortRun, Signature};
use optc_layout::Mode;
use optc_target::PortRole;

/// Returns whether the innermost run of a port is as the row demands. `modes` are major to minor.
pub(crate) fn ends_well(sig: &Signature, port: usize, modes: &[Mode]) -> bool {
    let Some(rule) = sig.runs.get(port) else {
        return true;
    };
    let Some((last, run)) = innermost(sig, port, modes) else {
        return true;
    };
    let allowed = roles_at(sig, port, rule);
    if rule.innermost.is_some() && !allowed.is_empty() && !allowed.iter().any(|r| Some(*r) == last)
    {
        return false;
    }
    let mut long = modes.iter().filter(|p| 1 < p.count);
    let alone = long.all(|p| role(sig, port, p) == last);
    let bits = sig.bits[port];
    rule.takes(run, bits, alone) || !allowed.iter().any(|r| rule.may_take(sig, port, *r))
}

/// The innermost role at a port, and the number of elements in its run. `modes` are major to minor.
pub(crate) fn innermost(
    sig: &Signature,
    port: usize,
    modes: &[Mode],
) -> Option<(Option<PortRole>, u64)> {
    let long = || modes.iter().rev().filter(|p| 1 < p.count);
    let last = role(sig, port, long().next()?);
    let run = long().take_while(|p| role(sig, port, p) == last);
    Some((last, run.fold(1, |n, p| n.saturating_mul(p.count))))
}

/// The role of the dimension of a digit.
fn role(sig: &Signature, port: usize, digit: &Mode) -> Option<PortRole> {
    let label = sig.labels(port).get(digit.dim).copied().flatten();
    label.map(|label| sig.port_role(label))
}

/// The roles of a port that may stand innermost: those that the row lists, or all except those that it excludes.
fn roles_at(sig: &Signature, port: usize, rule: &PortRun) -> Vec<PortRole> {
    let dims = sig.labels(port).iter().zip(&sig.shapes[port]);
    let mut all: Vec<PortRole> = Vec::new();
    for label in dims.filter(|(_, n)| 1 < **n).filter_map(|(l, _)| *l) {
        let role = sig.port_role(label);
        if !all.contains(&role) {
            all.push(role);
        }
    }
    let taken = |role: &PortRole| match &rule.innermost {
        Some(listed) => listed.iter().any(|r| r.covers(*role)),
        None => !rule.not_innermost.contains(role),
    };
    all.into_iter().filter(taken).collect()
}

impl PortRun {
    /// Returns whether a run of this many elements is long enough and aligned. `alone` says that the port has nothing
    /// else.
    fn takes(&self, run: u64, bits: u32, alone: bool) -> bool {
        let bits = run.saturating_mul(u64::from(bits));
        self.least <= bits && (alone || bits.is_multiple_of(self.align))
    }

    /// Returns whether all of the port's elements of a role, as one run, are long enough and aligned.
    fn may_take(&self, sig: &Signature, port: usize, role: PortRole) -> bool {
        let dims = sig.labels(port).iter().zip(&sig.shapes[port]);
        let of_role = |label: &Option<usize>| label.is_some_and(|l| sig.port_role(l) == role);
        let (mut run, mut alone) = (1u64, true);
        for (label, &size) in dims.filter(|(_, n)| 1 < **n) {
            match of_role(label) {
                true => run = run.saturating_mul(size),
                false => alone = false,
            }
        }
        self.takes(run, sig.bits[port], alone)
    }
}

/// Roles in the order in which they are tried innermost if the target does not take row-major.
pub(crate) const TRIED: [ContractRole; 4] = [
    ContractRole::K,
    ContractRole::N,
    ContractRole::M,
    ContractRole::Other,
];
