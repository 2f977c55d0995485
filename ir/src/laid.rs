//! The layouts of the operands and results of an operation in terms of its labels, and the test whether the operation
//! exists over such axes.

use crate::op::{Axes, Freedom, LaidPort, OpDecl, OpRef};
use crate::stand_in::StandIns;
use crate::types::{Dim, TensorType};
use optc_layout::{Digit, Layout};

/// A port of this type with labelled dimensions; `None` if its layout is no order of digits.
#[must_use]
pub fn laid_port(
    ty: &TensorType,
    labels: &[Option<usize>],
    numbers: &mut StandIns,
) -> Option<LaidPort> {
    let sizes = ty.dims.iter().map(|d| numbers.number(d));
    let shape: Vec<u64> = sizes.collect::<Option<_>>()?;
    if shape.contains(&0) {
        return LaidPort::new(labels, shape, &[]);
    }
    let layout = Layout::new(ty.notation.clone(), &shape, ty.dtype.bits()).ok()?;
    let dims = Digit::all(&shape, &layout)?;
    LaidPort::new(labels, shape, &dims)
}

/// Returns whether an operation with ports in these layouts is the same operation over permuted axes, without
/// transposes.
///
/// True for an operation whose ports are all in the order of their own dimensions.
#[must_use]
pub fn is_over_axes(
    decl: &dyn OpDecl,
    op: &OpRef<'_>,
    freedom: &Freedom,
    ports: &[LaidPort],
) -> bool {
    ports.iter().all(LaidPort::is_natural)
        || Axes::suggested(freedom, ports, &Dim::Fixed)
            .iter()
            .any(|axes| {
                let form = decl.over_axes(op, axes);
                form.is_some_and(|form| axes.lie_so(&form))
            })
}
