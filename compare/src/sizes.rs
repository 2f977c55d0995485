//! Sizes for unknown dimensions when two programs are compared.

use crate::inputs::DEFAULT_SIZE;
use indexmap::IndexSet;
use optc_interp::reachable;
use optc_ir::size::NAMELESS;
use optc_ir::{Bindings, Dim, Func, Module, Type};
use std::sync::Arc;

/// The most elements of all values of both programs together at the sizes that are chosen for unbound names. Each value
/// is held a few times, at 4 or 8 bytes an element, so a comparison stays within some hundred megabytes.
pub const MAX_CHOSEN_ELEMENTS: u64 = 1 << 22;

/// Sizes that are tried, largest first.
const SCALES: [u64; 9] = [DEFAULT_SIZE, 64, 32, 16, 8, 4, 3, 2, 1];

/// Sizes of dimensions that are tried beside few samples if the first program runs with none of the others, as one does
/// that cuts a signal into windows.
const LONG: [u64; 3] = [512, 4096, 1 << 15];

/// The most elements of all values if the first program runs with none of the sizes within the usual limit.
const MAX_ELEMENTS_AT_LAST: u64 = MAX_CHOSEN_ELEMENTS << 4;

/// Candidates for the sizes of unbound names in the arguments of the first program.
pub(crate) struct Choices {
    /// Large sizes, at least one choice: first those as large as the limit of elements allows, up to
    /// [`DEFAULT_SIZE`] for one of them, then larger and smaller ones.
    pub(crate) large: Vec<Bindings>,
    /// Small sizes; none if all sizes are given.
    pub(crate) small: Vec<Bindings>,
}

impl Choices {
    /// The ways of choosing sizes, in the order in which they are tried:
    ///
    /// - Each name has another size than the one before it, so that a mix-up of dimensions shows. The large sizes
    ///   differ by an eighth, and so have the same divisors.
    /// - Each name has another size than the one after it, for programs in which a size is the difference of two.
    /// - One size is a multiple of another, for programs that halve sizes; once with few samples.
    /// - All sizes are equal, for programs that run only if two sizes are.
    /// - All sizes are 1, for programs that run only if broadcast dimensions have size 1.
    /// - Sizes are long, with few samples, for programs that cut signals into windows.
    pub(crate) fn new(programs: [(&Module, &Func); 2], given: &Bindings) -> Choices {
        let names = open_names(programs[0].1, given);
        let last = (names.len() as u64).saturating_sub(1);
        let of = |size: &dyn Fn(u64) -> u64| {
            let mut found = given.clone();
            for (name, i) in names.iter().zip(0..) {
                found.0.insert(name.clone(), size(i));
            }
            found
        };
        if names.is_empty() {
            return Choices {
                large: vec![given.clone()],
                small: Vec::new(),
            };
        }
        let step = |scale: u64| (scale / 8).max(1);
        let leads = leading(programs[0].1, &names, 3);
        let ways: [&dyn Fn(u64, u64) -> u64; 5] = [
            &|scale, i| scale + i * step(scale),
            &|scale, i| scale + (last - i) * step(scale),
            &|scale, i| scale << (i % 2),
            &|scale, i| {
                if leads.contains(&i) {
                    2
                } else {
                    scale << (i % 2)
                }
            },
            &|scale, _| scale,
        ];
        // With one name all ways are the same.
        let ways = if names.len() == 1 {
            &ways[..1]
        } else {
            &ways[..]
        };
        let within = |sizes: &Bindings, scale: u64, limit: u64| {
            let count = |(module, func)| elements(module, func, sizes, scale);
            let counts = programs.map(count);
            counts[0].saturating_add(counts[1]) <= limit
        };
        let at = |scale: u64, way: &dyn Fn(u64, u64) -> u64| of(&|i| way(scale, i));
        let mut large = Vec::new();
        for way in ways {
            let fits = |&scale: &u64| within(&at(scale, way), scale, MAX_CHOSEN_ELEMENTS);
            let scale = SCALES.into_iter().find(fits).unwrap_or(1);
            large.push(at(scale, way));
        }
        for scale in SCALES {
            for way in ways {
                let sizes = at(scale, way);
                if within(&sizes, scale, MAX_ELEMENTS_AT_LAST) && !large.contains(&sizes) {
                    large.push(sizes);
                }
            }
        }
        let samples = leading(programs[0].1, &names, 2);
        for scale in LONG {
            let sizes = of(&|i| {
                if samples.contains(&i) {
                    2
                } else {
                    scale + i * step(scale)
                }
            });
            if within(&sizes, scale, MAX_ELEMENTS_AT_LAST) {
                large.push(sizes);
            }
        }
        let mut small = vec![of(&|i| 3 + 2 * i)];
        if 1 < names.len() {
            small.push(of(&|i| 3 + 2 * (last - i)));
            small.push(of(&|_| 3));
        }
        Choices { large, small }
    }
}

/// The numbers of the names that are the first of so many dimensions or more.
fn leading(func: &Func, names: &IndexSet<Arc<str>>, rank: usize) -> Vec<u64> {
    let types = func.args.iter().filter_map(|&v| func.ty(v).as_tensor());
    let first = types
        .filter(|ty| rank <= ty.rank())
        .filter_map(|ty| ty.dims[0].size());
    let at = first.filter_map(|size| names.get_index_of(size.as_name()?));
    at.map(|i| i as u64).collect()
}

/// The names without a size in the types of the arguments, in order.
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

/// The number of elements of all values of a function and of those that it calls, each counted once. A dimension that
/// only a run determines counts as `open`.
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

#[cfg(test)]
mod tests {
    use super::*;
    use optc_interp::find_func;
    use optc_ir::text::parse;

    /// A window of hundreds of samples needs a long signal, whatever the batch is.
    #[test]
    fn signals_are_tried_last_and_long() {
        let ty = r#"tensor<?x?xf32, {dims = ["B", "N"]}>"#;
        let text = format!(
            "func.func @main(%x: {ty}) -> {ty} {{\n%0 = \"hbir.relu\"(%x) : ({ty}) -> {ty}\nreturn %0 : {ty}\n}}"
        );
        let module = parse(&text).unwrap();
        let func = find_func(&module, "main").unwrap();
        let choices = Choices::new([(&module, func), (&module, func)], &Bindings::default());
        let sizes = choices
            .large
            .iter()
            .map(|sizes| (sizes.0["B"], sizes.0["N"]));
        let last: Vec<(u64, u64)> = sizes.skip(choices.large.len() - LONG.len()).collect();
        assert_eq!(last, [(2, 576), (2, 4608), (2, 36864)]);
    }
}
