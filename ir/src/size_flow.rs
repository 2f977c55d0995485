//! Propagation of sizes: a type that states a size determines another type that leaves it open.
//!
//! Example: the operand of an `hbir.exp` is a `tensor<?xf32>`, and its result is declared with the size `S`. Then the
//! operand has the size `S` too.

use crate::entity::SideTable;
use crate::module::{Func, Module, Op, Value};
use crate::op::{OpRef, Registry};
use crate::size::Size;
use crate::types::{Dim, TensorType, Type};
use indexmap::{IndexMap, IndexSet};
use std::borrow::Cow;
use std::sync::Arc;

/// Replaces each `?` in the types of a module that provably is a number or a name. A shape rule determines such a size
/// in one of two ways: it computes it from sizes of the operands, or it passes an operand's `?` through to a result
/// whose type states the size. Returns whether any type changed.
///
/// The arguments and results of functions that are named by something stay as declared, because the caller has the same
/// types.
pub fn name_sizes(module: &mut Module, registry: &Registry) -> bool {
    if !module.funcs.iter().any(is_open) {
        return false;
    }
    let ops = module.funcs.iter().flat_map(|f| f.ops.iter());
    let named: IndexSet<Arc<str>> = ops
        .flat_map(|(_, op)| op.props.symbols().map(Arc::from).collect::<Vec<_>>())
        .collect();
    let mut changed = false;
    for func in &mut module.funcs {
        let called = named.contains(&*func.name);
        if is_open(func) {
            changed |= name_in(func, registry, called);
        }
    }
    changed
}

/// The module with the sizes that [`name_sizes`] finds.
#[must_use]
pub fn named_sizes<'m>(module: &'m Module, registry: &Registry) -> Cow<'m, Module> {
    if !module.funcs.iter().any(is_open) {
        return Cow::Borrowed(module);
    }
    let mut named = module.clone();
    name_sizes(&mut named, registry);
    Cow::Owned(named)
}

/// Runs [`name_sizes`]. If the type of some value then still has two or more `?`, which cannot be told apart, every `?`
/// in the arguments of the module's only function gets a name: `dim_0` and so on. Each `?` gets its own name, so the
/// names add no information to the types.
pub fn name_arguments(module: &mut Module, registry: &Registry) {
    name_sizes(module, registry);
    let [open] = &mut module.funcs[..] else {
        return;
    };
    let unknown = |v: Value| {
        let dims = open.ty(v).as_tensor().map_or(&[][..], |ty| &ty.dims);
        dims.iter().filter(|d| **d == Dim::Unknown).count()
    };
    if !open.values.ids().any(|v| 1 < unknown(v)) {
        return;
    }
    let mut taken: IndexSet<Arc<str>> = IndexSet::new();
    for value in open.values.ids() {
        for dim in open
            .ty(value)
            .as_tensor()
            .into_iter()
            .flat_map(|ty| &ty.dims)
        {
            taken.extend(dim.size().into_iter().flat_map(|size| size.names()));
        }
    }
    let mut next = 0u32;
    let mut fresh = || loop {
        let name: Arc<str> = Arc::from(format!("dim_{next}"));
        next += 1;
        if taken.insert(name.clone()) {
            return Dim::of_size(&Size::name(&name));
        }
    };
    for arg in open.args.clone() {
        let Some(ty) = open.ty(arg).as_tensor() else {
            continue;
        };
        if !ty.dims.contains(&Dim::Unknown) {
            continue;
        }
        let mut ty = ty.clone();
        for dim in ty.dims.iter_mut().filter(|dim| **dim == Dim::Unknown) {
            *dim = fresh();
        }
        open.values[arg].ty = ty.into();
    }
    name_sizes(module, registry);
}

/// Returns whether the type of some value leaves a size open.
fn is_open(func: &Func) -> bool {
    let types = func.values.ids().filter_map(|v| func.ty(v).as_tensor());
    types.flat_map(|ty| &ty.dims).any(|d| *d == Dim::Unknown)
}

fn name_in(func: &mut Func, registry: &Registry, called: bool) -> bool {
    let mut flow = Flow::new(func);
    for &op in &func.body {
        flow.through(func, op, registry);
    }
    let mut kept: SideTable<Value, bool> = SideTable::new(false);
    for &value in func.args.iter().chain(&func.results).filter(|_| called) {
        kept[value] = true;
    }
    let values: Vec<Value> = func.values.ids().filter(|&v| !kept[v]).collect();
    let mut changed = false;
    for value in values {
        let Type::Tensor(ty) = &func.values[value].ty else {
            continue;
        };
        let known = |(dim, size): (&Dim, &Size)| match dim {
            Dim::Unknown => flow.settled(size),
            Dim::Fixed(_) | Dim::Symbol(_) => None,
        };
        let sizes = ty.dims.iter().zip(&flow.sizes[value]);
        let found: Vec<Option<Dim>> = sizes.map(known).collect();
        if found.iter().all(Option::is_none) {
            continue;
        }
        let mut ty = TensorType::clone(ty);
        for (dim, known) in ty.dims.iter_mut().zip(found) {
            *dim = known.unwrap_or_else(|| dim.clone());
        }
        func.values[value].ty = ty.into();
        changed = true;
    }
    changed
}

/// The sizes of values. Each `?` has a fresh name until it is known to equal another size.
struct Flow {
    sizes: SideTable<Value, Vec<Size>>,
    /// The size that a fresh name was found to equal, if any.
    open: IndexMap<Arc<str>, Option<Size>>,
}

/// The longest chain of equalities that is followed; the sizes of longer chains stay open.
const MAX_LINKS: usize = 32;

impl Flow {
    fn new(func: &Func) -> Flow {
        let types = || func.values.ids().filter_map(|v| func.ty(v).as_tensor());
        let sizes = types().flat_map(|ty| &ty.dims).filter_map(Dim::size);
        let taken: IndexSet<Arc<str>> = sizes.flat_map(|size| size.names()).collect();
        let mut flow = Flow {
            sizes: SideTable::new(Vec::new()),
            open: IndexMap::new(),
        };
        let mut next = 0usize;
        for value in func.values.ids() {
            let Some(ty) = func.ty(value).as_tensor() else {
                continue;
            };
            let mut all = Vec::with_capacity(ty.rank());
            for dim in &ty.dims {
                all.push(dim.size().unwrap_or_else(|| {
                    let mut name: Arc<str> = Arc::from(format!("?{next}"));
                    while taken.contains(&name) {
                        next += 1;
                        name = Arc::from(format!("?{next}"));
                    }
                    next += 1;
                    flow.open.insert(name.clone(), None);
                    Size::name(&name)
                }));
            }
            flow.sizes[value] = all;
        }
        flow
    }

    /// A size without fresh names; `None` if some `?` in it is still open.
    fn settled(&self, size: &Size) -> Option<Dim> {
        let size = self.followed(size);
        let known = size.names().iter().all(|n| !self.open.contains_key(n));
        known.then(|| Dim::of_size(&size))
    }

    /// Follows equalities: a size that is a single fresh name is replaced by the size that it equals.
    fn followed(&self, size: &Size) -> Size {
        let mut size = size.clone();
        for _ in 0..MAX_LINKS {
            let next = size.as_name().and_then(|name| self.open.get(name)?.clone());
            match next {
                Some(next) => size = next,
                None => break,
            }
        }
        size
    }

    /// The fresh name that a size consists of, if nothing is known about it.
    fn open_name(&self, size: &Size) -> Option<Arc<str>> {
        let name = size.as_name()?;
        let (name, known) = self.open.get_key_value(name)?;
        known.is_none().then(|| name.clone())
    }

    /// Equates the result sizes that an operation's shape rule infers with those of its result types.
    fn through(&mut self, func: &Func, op: Op, registry: &Registry) {
        let data = &func.ops[op];
        let Some(decl) = registry.get(&data.name) else {
            return;
        };
        let ports = || data.operands.iter().chain(&data.results);
        if ports().all(|&v| self.sizes[v].iter().all(|s| self.open_in(s).is_none())) {
            return;
        }
        if registry.rearrangement(&func.op_ref(op)).is_ok()
            && let (Some(&x), Some(&y)) = (data.operands.first(), data.results.first())
        {
            self.through_volume(x, y);
        }
        let typed = |value: &Value| self.typed(func, *value);
        let operands: Vec<Type> = data.operands.iter().map(typed).collect();
        let results: Vec<Type> = data.results.iter().map(typed).collect();
        let inferred = decl.infer(&OpRef {
            name: &data.name,
            operands: operands.iter().collect(),
            results: results.iter().collect(),
            props: &data.props,
        });
        // The rule may refuse fresh names where it would accept sizes that are equal.
        let Ok(inferred) = inferred else {
            return;
        };
        for (&result, inferred) in data.results.iter().zip(inferred) {
            if inferred.dims.len() != self.sizes[result].len() {
                continue;
            }
            for (at, dim) in inferred.dims.iter().enumerate() {
                if let Some(size) = dim.size() {
                    let declared = self.sizes[result][at].clone();
                    self.equate(&declared, &size);
                }
            }
        }
    }

    /// Equates the only `?` of one of two values with the same number of elements: it is the quotient of the other's
    /// volume by the product of its own other sizes.
    fn through_volume(&mut self, x: Value, y: Value) {
        for (all, open) in [(x, y), (y, x)] {
            let sizes = |flow: &Flow, value: Value| -> Vec<Size> {
                let sizes = flow.sizes[value].iter();
                sizes.map(|size| flow.followed(size)).collect()
            };
            let (all, mut some) = (sizes(self, all), sizes(self, open));
            let is_open = |size: &Size| self.open_in(size).is_some();
            let Some(at) = some.iter().position(is_open) else {
                continue;
            };
            let size = some.remove(at);
            if all.iter().chain(&some).any(is_open) {
                continue;
            }
            let volumes = Size::product(&all).zip(Size::product(&some));
            if let Some(rest) = volumes.and_then(|(all, some)| all.exact_quotient(&some)) {
                self.equate(&size, &rest);
            }
        }
    }

    fn open_in(&self, size: &Size) -> Option<Arc<str>> {
        let mut names = size.names().into_iter();
        names.find(|n| self.open.contains_key(n))
    }

    fn typed(&self, func: &Func, value: Value) -> Type {
        let Type::Tensor(ty) = func.ty(value) else {
            return func.ty(value).clone();
        };
        let sizes = self.sizes[value].iter();
        let dims = sizes.map(|size| Dim::of_size(&self.followed(size)));
        let dims = dims.collect();
        let ty = TensorType::clone(ty);
        TensorType { dims, ..ty }.into()
    }

    fn equate(&mut self, a: &Size, b: &Size) {
        let (a, b) = (self.followed(a), self.followed(b));
        if a == b {
            return;
        }
        for (open, other) in [(&a, &b), (&b, &a)] {
            if let Some(name) = self.open_name(open)
                && !other.names().contains(&name)
            {
                self.open.insert(name, Some(other.clone()));
                return;
            }
        }
    }
}
