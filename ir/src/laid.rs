//! How the operands and results of an operation lie, and whether it is itself over the axes of that.

use crate::op::{Axes, Freedom, LaidPort, OpDecl, OpRef};
use crate::stand_in::StandIns;
use crate::types::{Dim, TensorType};
use optc_layout::{Digit, Layout};

/// A port of this type, its dimensions labelled; nothing where its layout is no order of digits.
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

/// Whether an operation whose ports lie so is itself over some axes, with nothing transposed.
///
/// An operation in its own dimensions always is.
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
