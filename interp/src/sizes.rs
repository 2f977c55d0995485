//! The sizes of unknown dimensions where two programs are compared.

use crate::walk::reachable;
use indexmap::IndexSet;
use optc_ir::size::NAMELESS;
use optc_ir::{Bindings, Dim, Func, Module, Type};
use std::sync::Arc;

/// The most elements of all values of both programs together at the sizes that are chosen for what is
/// not bound. Each value is held a few times over, at 4 or 8 bytes an element, so that a comparison
/// stays within some hundred megabytes.
pub const MAX_CHOSEN_ELEMENTS: u64 = 1 << 22;

/// Sizes that are tried, largest first.
const SCALES: [u64; 9] = [crate::DEFAULT_SIZE, 64, 32, 16, 8, 4, 3, 2, 1];

/// Sizes for the names in the arguments of the first program that nobody gave, as it may run with.
pub(crate) struct Choices {
    /// As large as the limit of elements allows, up to [`DEFAULT_SIZE`](crate::DEFAULT_SIZE) for one of them; at least one.
    pub(crate) large: Vec<Bindings>,
    /// Small ones; none where all sizes are given.
    pub(crate) small: Vec<Bindings>,
}

impl Choices {
    /// First each name has another size than the one before it, so that one dimension taken for another shows; the large
    /// ones differ by an eighth, and so divide alike. Then each has another one than the one after it, for programs in
    /// which a size is the difference of two. Then all have the same, for programs that run only where two are equal, and at last
    /// all are 1, for those that run only where what is broadcast is.
    pub(crate) fn new(programs: [(&Module, &Func); 2], given: &Bindings) -> Choices {
        let names = open_names(programs[0].1, given);
        let last = (names.len() as u64).saturating_sub(1);
        let sizes = |size: &dyn Fn(u64, u64) -> u64| largest(programs, given, &names, size);
        let step = |scale: u64| (scale / 8).max(1);
        let mut large = vec![sizes(&|scale, i| scale + i * step(scale))];
        let mut small = Vec::new();
        let of = |size: &dyn Fn(u64) -> u64| {
            let mut found = given.clone();
            for (name, i) in names.iter().zip(0..) {
                found.0.insert(name.clone(), size(i));
            }
            found
        };
        if 1 < names.len() {
            large.push(sizes(&|scale, i| scale + (last - i) * step(scale)));
            large.push(sizes(&|scale, _| scale));
        }
        if !names.is_empty() {
            small.push(of(&|i| 3 + 2 * i));
            small.push(of(&|i| 3 + 2 * (last - i)));
            small.push(of(&|_| 3));
            large.push(of(&|_| 1));
        }
        Choices { large, small }
    }
}

/// The sizes of the largest scale that stays within the limit, else of the smallest one.
fn largest(
    programs: [(&Module, &Func); 2],
    given: &Bindings,
    names: &IndexSet<Arc<str>>,
    size: &dyn Fn(u64, u64) -> u64,
) -> Bindings {
    let mut found = given.clone();
    for scale in SCALES {
        for (name, i) in names.iter().zip(0..) {
            found.0.insert(name.clone(), size(scale, i));
        }
        let counts = programs.map(|(module, func)| elements(module, func, &found, scale));
        if counts[0].saturating_add(counts[1]) <= MAX_CHOSEN_ELEMENTS {
            break;
        }
    }
    found
}

/// The names in the types of the arguments that have no size, in order.
fn open_names(func: &Func, given: &Bindings) -> IndexSet<Arc<str>> {
    let types = func.args.iter().filter_map(|&v| func.ty(v).as_tensor());
    let names = types
        .flat_map(|ty| &ty.dims)
        .flat_map(|dim| match (dim, dim.size()) {
            (Dim::Unknown, _) => vec![Arc::from(NAMELESS)],
            (_, Some(size)) => size.names(),
            (_, None) => Vec::new(),
        });
    names.filter(|name| !given.0.contains_key(name)).collect()
}

/// The elements of all values of a function and of those it calls, each counted once; a dimension
/// that only running the program tells counts as `open`.
fn elements(module: &Module, func: &Func, sizes: &Bindings, open: u64) -> u64 {
    let dim = |dim: &Dim| match dim {
        Dim::Unknown => sizes.0.get(NAMELESS).copied().unwrap_or(open),
        Dim::Fixed(_) | Dim::Symbol(_) => sizes.size(dim).unwrap_or(open),
    };
    let count = |ty: &Type| {
        let dims = ty.as_tensor().map_or(&[][..], |t| &t.dims);
        dims.iter().map(dim).fold(1, u64::saturating_mul)
    };
    let funcs = reachable(module, func);
    let values = funcs.iter().flat_map(|f| f.values.ids().map(|v| f.ty(v)));
    values.map(count).fold(0, u64::saturating_add)
}
