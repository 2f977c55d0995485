//! The order in which operations and groups run.

use super::error::TileFault;
use optc_ir::{Func, Op, Registry};
use optc_tile::{Cycle, Plan, Unit, units};

/// How a function runs.
pub(crate) struct Schedule {
    pub(crate) units: Vec<Unit>,
    /// The values that something outside of their own group uses, by number.
    pub(crate) escapes: Vec<bool>,
}

/// The units of a function, and which values leave their groups.
///
/// # Errors
/// A group needs a value that is computed from its own results.
pub(crate) fn schedule(
    func: &Func,
    plan: Option<&Plan>,
    registry: &Registry,
) -> Result<Schedule, (Op, TileFault)> {
    let escapes = Plan::escapes(plan, func);
    let units = units(func, plan, registry)
        .map_err(|Cycle { group, op }| (op, TileFault::Cycle { group }))?;
    Ok(Schedule { units, escapes })
}
