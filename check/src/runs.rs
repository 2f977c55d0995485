//! Checks that the ports of a contraction end in the runs of bytes that an alternative wants, on a machine without tiles.

use crate::digits::digits;
use crate::ports::{layout_of, ports};
use optc_ir::{Freedom, Func, Op};
use optc_target::{Alternative, PortRole, PortRule};

/// Checks each port of a contraction by itself.
///
/// # Errors
/// The port and the digits that it ends in, in words.
pub(crate) fn check(
    func: &Func,
    op: Op,
    freedom: &Freedom,
    taken: &Alternative,
) -> Result<(), String> {
    let values = ports(func, op);
    let n_operands = freedom.operands.len();
    for (port, &value) in values.iter().enumerate() {
        let named = port < 2 || n_operands <= port;
        let Some(layout) = layout_of(func, value).filter(|_| named && taken.has_runs()) else {
            continue;
        };
        let role = |dim: usize| role_of(freedom, port, dim);
        // The digits of the port from the minor end, and of these the extents longer than 1, as roles.
        let all = digits(&layout)?;
        let long = all.iter().rev().filter(|p| 1 < p.count);
        let minor: Vec<(PortRole, u64)> = long.map(|p| (role(p.dim), p.count)).collect();
        ends(
            &minor,
            layout.elem_bits(),
            &taken.port(port, n_operands),
            taken,
        )
        .map_err(|found| format!("port {port} {found}"))?;
    }
    Ok(())
}

/// Returns whether digits, from the minor end, end as the port takes them.
fn ends(
    minor: &[(PortRole, u64)],
    bits: u32,
    rule: &PortRule,
    taken: &Alternative,
) -> Result<(), String> {
    let Some(&(last, _)) = minor.first() else {
        return Ok(());
    };
    let may_end = |role: PortRole| match &rule.innermost {
        Some(listed) => listed.contains(&role),
        None => !taken.not_innermost.contains(&role),
    };
    let some = minor.iter().any(|(role, _)| may_end(*role));
    if some && !may_end(last) {
        return Err(format!("has `{}` innermost", last.name()));
    }
    let long_enough = |elements: u64, alone: bool| {
        let bits = u128::from(elements) * u128::from(bits);
        let of = |bytes: u64| u128::from(bytes) * 8;
        let long = rule.min_run.is_none_or(|bytes| of(bytes) <= bits);
        let even = rule.align.is_none_or(|bytes| bits % of(bytes) == 0);
        long && (alone || even)
    };
    let product = |of: &mut dyn Iterator<Item = u64>| of.fold(1u64, u64::saturating_mul);
    let at_end = minor.iter().take_while(|(role, _)| *role == last);
    let run = product(&mut at_end.map(|(_, n)| *n));
    let is_all = |of: PortRole| minor.iter().all(|(role, _)| *role == of);
    if long_enough(run, is_all(last)) {
        return Ok(());
    }
    // A run is wanted only if the sizes of the port allow one.
    let possible = minor.iter().any(|&(role, _)| {
        let own = minor.iter().filter(|(other, _)| *other == role);
        may_end(role) && long_enough(product(&mut own.map(|(_, n)| *n)), is_all(role))
    });
    match possible {
        true => Err(format!(
            "ends in a run of {run} elements of {bits} bits of `{}`",
            last.name()
        )),
        false => Ok(()),
    }
}

/// The role of a dimension of a port in a contraction.
fn role_of(freedom: &Freedom, port: usize, dim: usize) -> PortRole {
    let n_operands = freedom.operands.len();
    let labels = match port.checked_sub(n_operands) {
        Some(result) => &freedom.results[result],
        None => &freedom.operands[port],
    };
    let label = labels.get(dim).copied().flatten();
    let has = |of: Option<&Vec<Option<usize>>>| {
        label.is_some() && of.is_some_and(|labels| labels.contains(&label))
    };
    let at = [
        has(freedom.operands.first()),
        has(freedom.operands.get(1)),
        has(freedom.results.first()),
    ];
    match at {
        [true, true, true] => PortRole::Batch,
        [true, true, false] => PortRole::K,
        [true, false, true] => PortRole::M,
        [false, true, true] => PortRole::N,
        _ => PortRole::Parallel,
    }
}
