//! Operations that run functions, and the values that they share with these functions.

use crate::module::{Func, Module, Op, Value};
use crate::op::{Control, ControlPort, Joint, Registry};
use crate::types::TensorType;
use indexmap::IndexMap;

/// An operation that runs functions of the module, together with these functions.
#[derive(Clone, Debug)]
pub struct Site<'m> {
    /// The function that contains the operation.
    pub func: &'m Func,
    /// The operation.
    pub op: Op,
    /// The control structure.
    pub control: Control,
    /// The functions that it runs, in the order of [`Control::functions`].
    pub functions: Vec<&'m Func>,
    /// Sets of ports that hold one value; see [`Control::joined`].
    pub joined: Vec<Vec<Joint>>,
}

impl<'m> Site<'m> {
    /// The site of an operation; `of_name` finds functions. `None` if the operation runs no function, if a function is
    /// missing, or if their arguments and results do not fit its operands and results.
    pub fn of(
        func: &'m Func,
        op: Op,
        registry: &Registry,
        of_name: impl Fn(&str) -> Option<&'m Func>,
    ) -> Option<Site<'m>> {
        let data = &func.ops[op];
        data.props.symbols().next()?;
        let control = registry.get(&data.name)?.control(&func.op_ref(op))?;
        let functions = control.functions().map(|name| of_name(name));
        let functions: Vec<&Func> = functions.collect::<Option<_>>()?;
        let arguments: Vec<usize> = functions.iter().map(|f| f.args.len()).collect();
        let joined = control.joined(data.operands.len(), data.results.len(), &arguments)?;
        let site = Site {
            func,
            op,
            control,
            functions,
            joined,
        };
        let mut places = site.joined.iter().flatten();
        places
            .all(|joint| site.value(joint.place).is_some())
            .then_some(site)
    }

    /// The sites of a module whose functions are named by nothing else, in order.
    #[must_use]
    pub fn alone(module: &'m Module, registry: &Registry) -> Vec<Site<'m>> {
        let mut by_name: IndexMap<&str, &Func> = IndexMap::new();
        let mut named: IndexMap<&str, usize> = IndexMap::new();
        for func in &module.funcs {
            by_name.entry(&func.name).or_insert(func);
            let symbols = |&op: &Op| func.ops[op].props.symbols();
            for name in func.body.iter().flat_map(symbols) {
                *named.entry(name).or_default() += 1;
            }
        }
        let alone = |func: &&Func| named.get(&*func.name) == Some(&1);
        let mut sites = Vec::new();
        for func in &module.funcs {
            for &op in &func.body {
                let site = Site::of(func, op, registry, |name| by_name.get(name).copied());
                sites.extend(site.filter(|site| site.functions.iter().all(alone)));
            }
        }
        sites
    }

    /// The value at a port, and the function that contains it.
    #[must_use]
    pub fn value(&self, place: ControlPort) -> Option<(&'m Func, Value)> {
        let data = &self.func.ops[self.op];
        let of = |function: usize| self.functions.get(function).copied();
        let (func, values, at) = match place {
            ControlPort::Operand(at) => (self.func, &data.operands, at),
            ControlPort::Result(at) => (self.func, &data.results, at),
            ControlPort::Argument(function, at) => (of(function)?, &of(function)?.args, at),
            ControlPort::Given(function, at) => (of(function)?, &of(function)?.results, at),
        };
        Some((func, *values.get(at)?))
    }

    /// The type at a port, if it is a tensor.
    #[must_use]
    pub fn tensor(&self, place: ControlPort) -> Option<&'m TensorType> {
        let (func, value) = self.value(place)?;
        func.ty(value).as_tensor()
    }
}
