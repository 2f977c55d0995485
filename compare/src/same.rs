//! Finds the opaque operations and functions that two programs have in common.

use indexmap::IndexMap;
use optc_interp::{MAX_CALL_DEPTH, Opaque, named_functions, reachable};
use optc_ir::text::{print_attr, print_type};
use optc_ir::{Attr, Effect, Func, Module, Op, Registry, Structure, Type, Value};
use std::sync::Arc;

/// The common part of two programs.
pub(crate) struct Same {
    /// For each program, the functions that opaque operations name and that have a counterpart in the other program.
    /// Functions that compute the same have the same number.
    functions: [IndexMap<Arc<str>, usize>; 2],
    /// True if all loops and branches are run. They are if one of them runs a function that the programs do not have in
    /// common, or if only a run tells the size of a result. Otherwise none is run, as it may take long.
    loops: bool,
    /// True if no operation writes outside state, so that reads give the same in both programs.
    reads: bool,
}

impl Same {
    pub(crate) fn of(programs: [(&Module, &Func); 2], registry: &Registry) -> Same {
        let mut numbers = Numbers {
            registry,
            all: IndexMap::new(),
            depth: 0,
        };
        let mut functions = programs.map(|(module, _)| numbers.named(module));
        let found: Vec<Vec<usize>> = (functions.iter())
            .map(|f| f.values().copied().collect())
            .collect();
        for (own, other) in functions.iter_mut().zip(found.iter().rev()) {
            own.retain(|_, number| other.contains(number));
        }
        let ops = |which: usize| {
            let (module, func) = programs[which];
            let ops = |func| ops(func).map(move |op: Op| Func::op_ref(func, op));
            reachable(module, func).into_iter().flat_map(ops)
        };
        let loops = (0..2).any(|which| {
            ops(which).any(|op| {
                let control = registry.get(op.name).and_then(|decl| decl.control(&op));
                let mut types = op.results.iter().filter_map(|ty| ty.as_tensor());
                let open = types.any(|ty| ty.shape().is_none());
                let known = |name: &str| functions[which].contains_key(name);
                control.is_some_and(|c| open || c.functions().any(|name| !known(name)))
            })
        });
        let writes = |effect| matches!(effect, Effect::Write | Effect::Token);
        let reads = !(0..2).any(|which| {
            ops(which).any(|op| {
                let decl = registry.get(op.name);
                decl.is_none_or(|decl| {
                    decl.structure() != Structure::Call && writes(decl.effect(&op))
                })
            })
        });
        Same {
            functions,
            loops,
            reads,
        }
    }

    /// The meaning of opaque operations of the first or the second program.
    pub(crate) fn opaque(&self, which: usize) -> Opaque<'_> {
        Opaque::Functions {
            same: &self.functions[which],
            loops: self.loops,
            reads: self.reads,
        }
    }
}

fn ops(func: &Func) -> impl Iterator<Item = Op> {
    func.body.iter().copied()
}

/// Value numbers by how values are computed. Equal numbers are equal values, whatever the order of operations, and also
/// if a value is computed twice or is dead.
struct Numbers<'r> {
    registry: &'r Registry,
    all: IndexMap<String, usize>,
    /// The nesting depth of functions that name one another.
    depth: usize,
}

impl Numbers<'_> {
    fn number(&mut self, what: String) -> usize {
        let next = self.all.len();
        *self.all.entry(what).or_insert(next)
    }

    /// The numbers of a module's functions that opaque operations name.
    fn named(&mut self, module: &Module) -> IndexMap<Arc<str>, usize> {
        let mut known = IndexMap::new();
        let mut named = IndexMap::new();
        for func in &module.funcs {
            for op in ops(func).map(|op| &func.ops[op]) {
                if self.registry.structure(&op.name) != Structure::Opaque {
                    continue;
                }
                for name in named_functions(&op.props) {
                    if let Some(number) = self.function(module, name, &mut known) {
                        named.insert(Arc::from(name), number);
                    }
                }
            }
        }
        named
    }

    /// The number of a function's computation; `None` if the function does not exist or names itself.
    fn function(
        &mut self,
        module: &Module,
        name: &str,
        known: &mut IndexMap<Arc<str>, Option<usize>>,
    ) -> Option<usize> {
        if let Some(&number) = known.get(name) {
            return number;
        }
        known.insert(Arc::from(name), None);
        let func = module.funcs.iter().find(|f| &*f.name == name)?;
        if MAX_CALL_DEPTH <= self.depth {
            return None;
        }
        self.depth += 1;
        let number = self.body(module, func, known);
        self.depth -= 1;
        known.insert(Arc::from(name), number);
        number
    }

    fn body(
        &mut self,
        module: &Module,
        func: &Func,
        known: &mut IndexMap<Arc<str>, Option<usize>>,
    ) -> Option<usize> {
        let mut values: IndexMap<Value, usize> = IndexMap::new();
        for (i, &arg) in func.args.iter().enumerate() {
            let number = self.number(format!("argument {i} {}", plain(func.ty(arg))));
            values.insert(arg, number);
        }
        // Operations with effects happen in an order.
        let mut events = Vec::new();
        for op in ops(func) {
            let data = &func.ops[op];
            let of = |v: &Value| values.get(v).copied();
            let operands = data.operands.iter().map(of).collect::<Option<Vec<_>>>()?;
            if self.registry.structure(&data.name) == Structure::Convert {
                values.extend(data.results.iter().copied().zip(operands));
                continue;
            }
            let mut props = Vec::new();
            for (name, attr) in data.props.iter() {
                let attr = self.symbols(module, attr, known)?;
                props.push(format!("{name}={}", print_attr(&attr)));
            }
            props.sort();
            let decl = self.registry.get(&data.name);
            let pure = decl.is_some_and(|d| d.effect(&func.op_ref(op)) == Effect::Pure);
            let when = (!pure).then_some(events.len());
            let types = data.results.iter().map(|&v| plain(func.ty(v)));
            let types: Vec<String> = types.collect();
            let what = format!("{} {props:?} {operands:?} {types:?} {when:?}", data.name);
            let number = self.number(what);
            if !pure {
                events.push(number);
            }
            for (i, &result) in data.results.iter().enumerate() {
                let number = self.number(format!("{number}.{i}"));
                values.insert(result, number);
            }
        }
        let results = func.results.iter().map(|v| values.get(v).copied());
        let results = results.collect::<Option<Vec<_>>>()?;
        let args = func.args.iter().map(|&v| plain(func.ty(v)));
        let args: Vec<String> = args.collect();
        Some(self.number(format!("function {args:?} {results:?} {events:?}")))
    }

    /// An attribute with the names of functions replaced by their numbers.
    fn symbols(
        &mut self,
        module: &Module,
        attr: &Attr,
        known: &mut IndexMap<Arc<str>, Option<usize>>,
    ) -> Option<Attr> {
        Some(match attr {
            Attr::Symbol(name) => {
                let number = self.function(module, name, known)?;
                Attr::Symbol(Arc::from(number.to_string()))
            }
            Attr::Array(items) => {
                let items = items.iter().map(|item| self.symbols(module, item, known));
                Attr::Array(items.collect::<Option<_>>()?)
            }
            other => other.clone(),
        })
    }
}

/// A type without its layout.
fn plain(ty: &Type) -> String {
    match ty.as_tensor() {
        Some(tensor) => print_type(&tensor.without_layout().into()),
        None => print_type(ty),
    }
}
