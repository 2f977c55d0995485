//! Tiled execution: runs a function with a plan program by program.
//!
//! A group runs once per program of its grid, in lexicographic order. In each program every operation of the group
//! computes its tile from the tiles of its operands. An operand is either the tile that its own operation in the group
//! computed in the same program, or the part that is needed of a value in memory. Elements outside a tile are poison,
//! NaN or the least integer, so a tile that is too small shows.
//!
//! - A tile that runs past its value is computed whole on poison, and the rest is dropped.
//! - An operation whose reduction is cut starts anew at the first step, accumulates, and is available to others at the
//!   last step.
//! - A softmax whose axis is cut is online: its numbers are right up to a factor for each row. The operation that
//!   accumulates them rescales as the factor changes.
//! - A value that is used outside its group is written to memory tile by tile. Every element must be written, and
//!   elements that are written twice must be the same.

mod error;
mod eval;
mod fragment;
mod group;
mod online;
mod poison;
mod reduce;

pub use error::TileFault;
pub(crate) use group::run_group;

use crate::data::DataSource;
use crate::error::RunError;
use crate::frame::{Program, Schedules};
use crate::reference::Logical;
use crate::scope::find_func;
use crate::uninterpreted::Opaque;
use crate::walk::{reachable, run};
use indexmap::IndexMap;
use optc_ir::{Bindings, Diagnostic, Func, Module, Registry, Tensor};
use optc_tile::Schedule;

/// Runs a function by its plan ([`optc_tile::Plan`]). Operations outside all groups run as in
/// [`run_reference`](crate::run_reference), and so does a function without a plan.
///
/// # Errors
/// As [`run_reference`](crate::run_reference), and for a plan that is incomplete or illegal. The error names the
/// operation, the program and the elements.
pub fn run_tiled(
    module: &Module,
    registry: &Registry,
    func: &str,
    inputs: &IndexMap<String, Tensor>,
    data: &dyn DataSource,
    bindings: &Bindings,
) -> Result<IndexMap<String, Tensor>, RunError> {
    let mut schedules = Schedules::new();
    for func in reachable(module, find_func(module, func)?) {
        let schedule = Schedule::read(func, registry).map_err(|diags| refused(func, &diags))?;
        schedules.extend(schedule.map(|schedule| (func.name.to_string(), schedule)));
    }
    run_scheduled(module, registry, func, inputs, data, bindings, &schedules)
}

/// Runs functions by the schedules of their names. The schedules are not checked: a wrong one is an error, or gives
/// wrong numbers.
///
/// # Errors
/// As [`run_tiled`].
pub fn run_scheduled(
    module: &Module,
    registry: &Registry,
    func: &str,
    inputs: &IndexMap<String, Tensor>,
    data: &dyn DataSource,
    bindings: &Bindings,
    schedules: &Schedules,
) -> Result<IndexMap<String, Tensor>, RunError> {
    let program = Program {
        module,
        registry,
        data,
        schedules,
        opaque: Opaque::Refused,
        memo: None,
    };
    run(program, &mut Logical, func, inputs, bindings)
}

/// The error of a plan that does not resolve: its first diagnostic.
fn refused(func: &Func, diags: &[Diagnostic]) -> RunError {
    let text = diags.first().map_or("", |d| &d.message);
    RunError::Boundary {
        func: func.name.to_string(),
        what: "the plan".to_owned(),
        source: Box::new(TileFault::Plan(text.to_owned()).into()),
    }
}
