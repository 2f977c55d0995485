//! A Python module: a function on arrays of JAX, in `jnp` and `lax`.
//!
//! Example: an `hbir.add` and an `hbir.relu` are two lines of a function `main`, which `jax.jit` compiles.
//!
//! - The lines are those that the Pallas emitter writes outside of kernels; the groups of a plan are kernels here too.
//! - Constants that are in files are the option `weights` of `main`, which `load` reads: as arguments of a compiled
//!   function they are no part of its program.
//! - A module with a mesh has `sharded` and `place` too: main for the devices of a mesh, and its arguments split over
//!   them.

use crate::pallas::{Style, python};
use optc_check::mesh::Links;
use optc_ir::shard;
use optc_ir::{Attr, Diagnostic, Func, Module, Operation, Registry, Structure};
use optc_ops::Constant;
use optc_target::Target;
use optc_tile::GROUPS;

/// The operations that the format lacks, sorted by name.
pub use crate::pallas::WITHOUT_FORM;

/// The module as Python; `main`, or the first function, becomes `main`.
///
/// # Errors
/// No function, an operation without a form in `jnp`, or a plan for a target whose kernels Pallas does not compile for a
/// TPU.
pub fn emit(
    module: &Module,
    registry: &Registry,
    target: &Target,
) -> Result<String, Box<Diagnostic>> {
    let has_plan = |func: &Func| func.attrs.get(GROUPS).is_some();
    let mut style = match module.funcs.iter().any(has_plan) {
        true => Style::of_kernels(target)?,
        false => Style::default(),
    };
    style.weights = has_files(module, registry);
    style.shards = true;
    style.precision = target.precision;
    let mesh = shard::mesh(module).ok().flatten();
    let links = mesh.and_then(|mesh| Links::of(&mesh, target).ok());
    python(module, registry, style, links.as_ref())
}

/// Returns whether a constant of the module is in a file.
fn has_files(module: &Module, registry: &Registry) -> bool {
    module.funcs.iter().any(|func| {
        func.body.iter().any(|&op| {
            let op = func.op_ref(op);
            registry.structure(op.name) == Structure::Constant
                && Constant::of(&op).is_ok_and(|c| matches!(c.data, Some(Attr::External { .. })))
        })
    })
}
