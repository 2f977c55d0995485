//! Names for sizes that a file leaves open.

use indexmap::IndexSet;
use optc_ir::{Dim, Size, TensorType};
use std::sync::Arc;

/// Names each extent of a type that the file leaves open: `x_dim_1` is dimension 1 of input `x`. If another size has this
/// name, a number is appended.
pub(crate) fn all_named(
    mut ty: TensorType,
    input: &str,
    taken: &mut IndexSet<Arc<str>>,
) -> TensorType {
    let plain = |c: char| if c.is_ascii_alphanumeric() { c } else { '_' };
    let stem: String = input.chars().map(plain).collect();
    for (axis, dim) in ty.dims.iter_mut().enumerate() {
        if *dim != Dim::Unknown {
            continue;
        }
        let first = format!("{stem}_dim_{axis}");
        let others = (1usize..).map(|i| format!("{first}_{i}"));
        let mut names = std::iter::once(first.clone()).chain(others);
        if let Some(name) = names.find(|name| !taken.contains(name.as_str())) {
            let name: Arc<str> = Arc::from(name);
            *dim = Dim::of_size(&Size::name(&name));
            taken.insert(name);
        }
    }
    ty
}
