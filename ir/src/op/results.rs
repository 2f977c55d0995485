//! Comparison of stated result types with those that the shape rule infers.

use crate::codes;
use crate::op::decl::OpDecl;
use crate::op::error::OpError;
use crate::op::op_ref::OpRef;
use crate::op::operation::Structure;
use crate::types::Dim;

/// Checks the result types of an operation against its shape rule: shapes and element types, not layouts.
///
/// # Errors
/// The rule refuses the operation, or infers other results.
pub(crate) fn check_results(op: &OpRef<'_>, decl: &dyn OpDecl) -> Result<(), OpError> {
    let inferred = match decl.infer(op) {
        // Without a shape rule the stated results are accepted, even if they are no tensors.
        Err(e) if e.code == codes::RESULT_KIND.name && is_open(decl) => return Ok(()),
        inferred => inferred?,
    };
    if inferred.len() != op.results.len() {
        let message = format!(
            "{} has {} results, wanted {}",
            op.name,
            op.results.len(),
            inferred.len()
        );
        return Err(OpError::new(codes::RESULT_COUNT, message));
    }
    for (i, wanted) in inferred.into_iter().enumerate() {
        let found = op.result(i)?;
        let same_rank = found.dims.len() == wanted.dims.len();
        if !same_rank || !found.dims.iter().zip(&wanted.dims).all(|(a, b)| fits(a, b)) {
            let (found, wanted) = (shape_text(&found.dims), shape_text(&wanted.dims));
            let message = format!(
                "result {i} of {} has shape {found}, wanted {wanted}",
                op.name
            );
            return Err(OpError::new(codes::RESULT_SHAPE_MISMATCH, message));
        }
        if found.dtype != wanted.dtype {
            let message = format!(
                "result {i} of {} has element type {}, wanted {}",
                op.name, found.dtype, wanted.dtype
            );
            return Err(OpError::new(codes::RESULT_TYPE_MISMATCH, message));
        }
    }
    Ok(())
}

/// Returns whether an operation has no shape rule of its own.
fn is_open(decl: &dyn OpDecl) -> bool {
    match decl.structure() {
        Structure::Call | Structure::Opaque => true,
        Structure::Plain | Structure::View | Structure::Convert | Structure::Constant => false,
    }
}

/// Returns whether a stated dimension is compatible with the inferred one.
fn fits(found: &Dim, wanted: &Dim) -> bool {
    let known = |dim: &Dim| match dim {
        Dim::Fixed(_) => true,
        Dim::Symbol(_) => dim.size().is_some_and(|size| size.as_name().is_some()),
        Dim::Unknown => false,
    };
    // The value of an expression is known only to the program, so it is compatible unless it provably differs. Two
    // plain names must be the same.
    if known(found) && known(wanted) {
        found == wanted
    } else {
        !found.differs(wanted)
    }
}

fn shape_text(dims: &[Dim]) -> String {
    let dims: Vec<String> = dims.iter().map(Dim::to_string).collect();
    format!("[{}]", dims.join(", "))
}
