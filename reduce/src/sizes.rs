//! Programs with smaller extents.
//!
//! An extent is replaced everywhere at once. Example: with 4 in place of 512, `reshape` of `8x512` to `[4096]` becomes one
//! of `8x4` to `[32]`. The shape rules of operations say what follows; a program that they refuse is not tried.

use crate::Search;
use indexmap::IndexSet;
use optc_ir::entity::SideTable;
use optc_ir::{
    Attr, AttrDict, Dense, Dim, Func, FuncBuilder, Module, NewOp, Registry, TensorType, Type, Value,
};
use std::sync::Arc;

/// A new number for an extent, also where it is a factor of another one.
#[derive(Clone, Copy)]
struct Change {
    from: u64,
    to: u64,
    factors: bool,
}

impl Change {
    fn of(self, n: u64) -> u64 {
        match self.factors && n.is_multiple_of(self.from) || n == self.from {
            true => n / self.from * self.to,
            false => n,
        }
    }

    fn ty(self, ty: &Type) -> Type {
        let Some(tensor) = ty.as_tensor() else {
            return ty.clone();
        };
        let dim = |dim: &Dim| dim.fixed().map_or(dim.clone(), |n| Dim::Fixed(self.of(n)));
        let dims = tensor.dims.iter().map(dim).collect();
        Type::from(TensorType {
            dims,
            ..tensor.clone()
        })
    }

    fn attr(self, attr: &Attr) -> Attr {
        match attr {
            Attr::Int(n, dtype) => {
                let new = u64::try_from(*n).ok().map(|n| self.of(n));
                let new = new.and_then(|n| i64::try_from(n).ok());
                Attr::Int(new.unwrap_or(*n), *dtype)
            }
            Attr::Array(all) => Attr::Array(all.iter().map(|a| self.attr(a)).collect()),
            other => other.clone(),
        }
    }

    /// A constant of another type: the first elements.
    fn constant(self, attr: &Attr, ty: &Type) -> Option<Attr> {
        let tensor = ty.as_tensor()?;
        let elements: u64 = tensor.shape()?.iter().product();
        let bytes = elements * u64::from(tensor.dtype.bits().max(8)) / 8;
        Some(match attr {
            Attr::Dense(dense) => {
                let end = usize::try_from(bytes).ok()?.min(dense.bytes.len());
                let data = if dense.splat {
                    &dense.bytes[..]
                } else {
                    &dense.bytes[..end]
                };
                Attr::Dense(Arc::new(Dense {
                    ty: self.ty(&dense.ty),
                    bytes: data.to_vec(),
                    splat: dense.splat,
                }))
            }
            Attr::External { file, offset, .. } => Attr::External {
                file: file.clone(),
                offset: *offset,
                length: bytes,
            },
            other => other.clone(),
        })
    }
}

/// Tries smaller numbers for each extent, the smallest first.
pub(crate) fn smaller(search: &mut Search<'_>) {
    let mut done: IndexSet<u64> = IndexSet::new();
    while let Some(from) = extents(&search.best)
        .into_iter()
        .find(|n| !done.contains(n))
    {
        done.insert(from);
        let tries = [1, 2, 3, 4, from / 2]
            .into_iter()
            .filter(|&to| 0 < to && to < from);
        'found: for to in tries {
            for factors in [true, false] {
                let change = Change { from, to, factors };
                let made = resized(&search.best, search.registry, change);
                if made.is_some_and(|made| search.accepts(made)) {
                    break 'found;
                }
            }
        }
    }
}

/// The extents above 1, the largest first.
fn extents(module: &Module) -> Vec<u64> {
    let mut all: Vec<u64> = Vec::new();
    for func in &module.funcs {
        let made = func.body.iter().flat_map(|&op| &func.ops[op].results);
        let types = func.args.iter().chain(made);
        let types = types.filter_map(|&v| func.ty(v).as_tensor());
        all.extend(types.flat_map(|ty| ty.dims.iter().filter_map(Dim::fixed)));
    }
    all.retain(|&n| 1 < n);
    all.sort_unstable_by(|a, b| b.cmp(a));
    all.dedup();
    all
}

fn resized(module: &Module, registry: &Registry, change: Change) -> Option<Module> {
    let funcs = module
        .funcs
        .iter()
        .map(|func| rebuilt(func, registry, change));
    Some(Module {
        funcs: funcs.collect::<Option<Vec<Func>>>()?,
        ..module.clone()
    })
}

/// The function with other extents. `None` if a shape rule refuses an operation.
fn rebuilt(func: &Func, registry: &Registry, change: Change) -> Option<Func> {
    let mut b = FuncBuilder::named(&func.name, registry);
    let mut now: SideTable<Value, Option<Value>> = SideTable::new(None);
    for (&arg, port) in func.args.iter().zip(&func.arg_ports) {
        let name = func.values[arg].name.clone();
        let new = b.func.add_arg(change.ty(func.ty(arg)), name.as_deref());
        if let Some(last) = b.func.arg_ports.last_mut() {
            last.clone_from(port);
        }
        now[arg] = Some(new);
    }
    for &op in &func.body {
        let data = &func.ops[op];
        let operands: Option<Vec<Value>> = data.operands.iter().map(|&v| now[v]).collect();
        let operands = operands?;
        let types: Vec<Type> = data
            .results
            .iter()
            .map(|&v| change.ty(func.ty(v)))
            .collect();
        let props = |all: bool| {
            let mut props = AttrDict::new();
            for (name, attr) in data.props.iter() {
                let constant = types.first().and_then(|ty| change.constant(attr, ty));
                let attr = match attr {
                    Attr::Dense(_) | Attr::External { .. } => constant?,
                    other if all || name == "shape" => change.attr(other),
                    other => other.clone(),
                };
                props.set(name, attr);
            }
            Some(props)
        };
        let ways = [(false, true), (true, true), (false, false), (true, false)];
        let made = ways.into_iter().find_map(|(all, stated)| {
            let new = NewOp {
                attrs: data.attrs.clone(),
                results: stated.then(|| types.clone()),
                loc: data.loc.clone(),
                ..NewOp::new(&data.name, &operands, props(all)?)
            };
            b.add(new).ok()
        })?;
        for (&old, new) in data.results.iter().zip(made) {
            now[old] = Some(new);
        }
    }
    for (&value, port) in func.results.iter().zip(&func.result_ports) {
        b.func.add_result(now[value]?, port.name.as_deref());
        if let Some(last) = b.func.result_ports.last_mut() {
            last.clone_from(port);
        }
    }
    Some(Func {
        attrs: func.attrs.clone(),
        bare: func.bare,
        ..b.func
    })
}
