//! Conditions on the runs of a contraction's ports, on a machine without tiles: their roles, and the length of the
//! innermost one in bytes.
//!
//! Example: a row may demand K innermost in the left operand, with a run of at least 16 bytes and other strides in
//! multiples of 16 bytes.

use super::super::signature::{ContractRole, Signature};
use super::{OrderRule, PortRun};
use optc_layout::Mode;
use optc_target::PortRole;

/// Roles in the order in which they are tried innermost if the target does not take row-major.
pub(crate) const TRIED: [ContractRole; 4] = [
    ContractRole::K,
    ContractRole::N,
    ContractRole::M,
    ContractRole::Other,
];

/// Returns whether the digits of a port are in the runs that an alternative wants. `modes` are major to minor.
pub(super) fn has_runs(sig: &Signature, rule: &OrderRule, port: usize, modes: &[Mode]) -> bool {
    let long: Vec<Option<PortRole>> = modes
        .iter()
        .filter(|m| 1 < m.count)
        .map(|m| role(sig, port, m))
        .collect();
    let never = |of: &Option<PortRole>| of.is_some_and(|r| rule.not_innermost.contains(&r));
    if long.last().is_some_and(never) && !long.iter().all(never) {
        return false;
    }
    let one = |wanted: &PortRole| {
        let first = long.iter().position(|r| *r == Some(*wanted));
        let last = long.iter().rposition(|r| *r == Some(*wanted));
        let between = first.zip(last).map_or(&[][..], |(a, b)| &long[a..=b]);
        between.iter().all(|r| *r == Some(*wanted)) || ends_in_run(sig, rule, port, modes)
    };
    rule.one_run.iter().all(one) && ends_well(sig, rule, port, modes)
}

/// Returns whether the innermost run of a port is long enough for other digits to be in several runs.
fn ends_in_run(sig: &Signature, rule: &OrderRule, port: usize, modes: &[Mode]) -> bool {
    let run = innermost(sig, port, modes).map_or(1, |(_, run)| run);
    let bits = u64::from(sig.bits[port]).saturating_mul(run);
    rule.several_runs.is_some_and(|least| least <= bits)
}

/// Returns whether the innermost run of a port is as the alternative demands.
fn ends_well(sig: &Signature, rule: &OrderRule, port: usize, modes: &[Mode]) -> bool {
    let Some(run_of) = rule.runs.get(port) else {
        return true;
    };
    let Some((last, run)) = innermost(sig, port, modes) else {
        return true;
    };
    let allowed = roles_at(sig, rule, port, run_of);
    let listed = run_of.innermost.is_some() && !allowed.is_empty();
    if listed && !allowed.iter().any(|r| Some(*r) == last) {
        return false;
    }
    let mut long = modes.iter().filter(|p| 1 < p.count);
    let alone = long.all(|p| role(sig, port, p) == last);
    let bits = sig.bits[port];
    run_of.takes(run, bits, alone) || !allowed.iter().any(|r| run_of.may_take(sig, port, *r))
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
fn roles_at(sig: &Signature, rule: &OrderRule, port: usize, run: &PortRun) -> Vec<PortRole> {
    let mut all: Vec<PortRole> = Vec::new();
    for (label, _) in sig.long_labels(port) {
        let role = sig.port_role(label);
        if !all.contains(&role) {
            all.push(role);
        }
    }
    let taken = |role: &PortRole| match &run.innermost {
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
