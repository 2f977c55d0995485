//! Smaller programs on which a test still fails.
//!
//! An internal part of `optc`; only the crate `optc` has a stable interface.
//!
//! Example: a test fails on a model of 2,000 operations because one `softmax` has the axis 3. [`reduce`] finds the program
//! of one argument and this softmax, with extents of 1.
//!
//! Every program that is tried is well formed and smaller than the one before: fewer operations, arguments and results,
//! fewer elements, or fewer attributes. The same program and the same test give the same result; a program is tried
//! once. The steps are repeated until none helps:
//!
//! 1. `cut.rs` removes operations, large groups of them first. Arguments take the place of what they gave.
//! 2. `cut.rs` removes results, and joins arguments and values of one type.
//! 3. `sizes.rs` makes extents smaller, everywhere in the program at once.
//! 4. `plain.rs` removes attributes and layouts.

mod cut;
mod plain;
mod sizes;

use indexmap::IndexSet;
use optc_ir::analysis::live_ops;
use optc_ir::effects::Effects;
use optc_ir::verify::verify;
use optc_ir::{Module, Registry, text};

/// A program that a test still fails on.
#[derive(Clone, Debug)]
pub struct Reduced {
    /// The program.
    pub module: Module,
    /// The number of programs that the test was run on.
    pub tests: usize,
}

/// Finds a small program on which `fails` still returns true. `None` if it returns false for the program itself.
pub fn reduce(
    module: &Module,
    registry: &Registry,
    fails: &mut dyn FnMut(&Module) -> bool,
) -> Option<Reduced> {
    if !fails(module) {
        return None;
    }
    let mut search = Search {
        best: module.clone(),
        registry,
        fails,
        tried: IndexSet::new(),
        tests: 1,
    };
    loop {
        let before = size(&search.best);
        cut::operations(&mut search);
        cut::values(&mut search);
        sizes::smaller(&mut search);
        plain::plainer(&mut search);
        if before <= size(&search.best) {
            break;
        }
    }
    Some(Reduced {
        module: search.best,
        tests: search.tests,
    })
}

/// The smallest program so far, and the test.
struct Search<'a> {
    best: Module,
    registry: &'a Registry,
    fails: &'a mut dyn FnMut(&Module) -> bool,
    /// The texts of the programs that were tried.
    tried: IndexSet<String>,
    tests: usize,
}

impl Search<'_> {
    /// Takes a program in place of the best one if it is well formed and smaller, and the test fails on it. Returns
    /// whether it did.
    fn accepts(&mut self, mut module: Module) -> bool {
        sweep(&mut module, self.registry);
        if size(&self.best) <= size(&module) || verify(&module, self.registry).is_err() {
            return false;
        }
        if !self.tried.insert(text::print(&module)) {
            return false;
        }
        self.tests += 1;
        let fails = (self.fails)(&module);
        if fails {
            self.best = module;
        }
        fails
    }
}

/// Removes operations that nothing depends on, unused arguments, and functions that nothing names.
fn sweep(module: &mut Module, registry: &Registry) {
    let effects = Effects::of_module(module, registry);
    let live: Vec<_> = module.funcs.iter().map(|f| live_ops(f, &effects)).collect();
    drop(effects);
    for (func, live) in module.funcs.iter_mut().zip(live) {
        func.body.retain(|&op| live[op]);
    }
    let ops = module
        .funcs
        .iter()
        .flat_map(|f| f.body.iter().map(|&op| &f.ops[op]));
    let named: IndexSet<String> = ops
        .flat_map(|op| op.props.symbols())
        .map(str::to_owned)
        .collect();
    let entry = entry(module);
    let mut number = 0;
    module.funcs.retain(|func| {
        number += 1;
        number - 1 == entry || named.contains(&*func.name)
    });
    let entry = self::entry(module);
    let Some(func) = module.funcs.get_mut(entry) else {
        return;
    };
    let reads = func.body.iter().flat_map(|&op| &func.ops[op].operands);
    let used: IndexSet<_> = reads.chain(&func.results).copied().collect();
    let keep: Vec<bool> = func.args.iter().map(|arg| used.contains(arg)).collect();
    if !func.bare {
        func.retain_args(|i| keep[i]);
    }
}

/// The number of the function that is reduced.
fn entry(module: &Module) -> usize {
    module.entry().unwrap_or(0)
}

/// The measures of a program's size, the most important first.
fn size(module: &Module) -> [u64; 5] {
    let mut size = [0; 5];
    for func in &module.funcs {
        size[0] += func.body.len() as u64;
        size[1] += (func.args.len() + func.results.len()) as u64;
        let made = func.body.iter().flat_map(|&op| &func.ops[op].results);
        let operands = func.body.iter().map(|&op| func.ops[op].operands.len());
        size[3] += operands.sum::<usize>() as u64;
        for &value in func.args.iter().chain(made) {
            let Some(ty) = func.ty(value).as_tensor() else {
                continue;
            };
            let extents = ty.dims.iter().map(|dim| dim.fixed().unwrap_or(1 << 20));
            size[2] = extents.fold(size[2], u64::saturating_add);
            size[4] += u64::from(*ty != ty.without_layout());
        }
        size[4] += plain::attributes(func) as u64;
    }
    size[4] += module.attrs.iter().count() as u64;
    size
}
