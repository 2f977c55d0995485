//! Effects of functions: the effects of their operations, including calls.
//!
//! The declaration of an operation states its own effect; the effect of a call depends on the module.

use crate::module::{Func, Module, Op};
use crate::op::{Effect, Registry, Structure};
use indexmap::IndexMap;
use std::sync::Arc;

/// The effects of the functions of a module, and of every operation in them.
///
/// A call has the effect of its callee; a callee that does not exist may have any effect ([`Effect::Write`]).
#[derive(Clone, Debug)]
pub struct Effects<'a> {
    registry: &'a Registry,
    funcs: IndexMap<Arc<str>, Effect>,
}

impl<'a> Effects<'a> {
    /// The effects of a module; linear in its operations. A recursive function may have any effect.
    #[must_use]
    pub fn of_module(module: &Module, registry: &'a Registry) -> Effects<'a> {
        let mut effects = Effects {
            registry,
            funcs: IndexMap::new(),
        };
        let by_name: IndexMap<&str, &Func> = module.funcs.iter().map(|f| (&*f.name, f)).collect();
        let mut begun: IndexMap<&str, Effect> = IndexMap::new();
        for func in &module.funcs {
            let mut stack: Vec<(&Func, usize)> = Vec::new();
            if !begun.contains_key(&*func.name) {
                begun.insert(&func.name, Effect::Pure);
                stack.push((func, 0));
            }
            while let Some((at, next)) = stack.pop() {
                let Some(&op) = at.body.get(next) else {
                    let all = begun.get(&*at.name).copied();
                    let all = all.unwrap_or(Effect::Write);
                    effects.funcs.insert(at.name.clone(), all);
                    continue;
                };
                let callee = effects.callee(at, op).and_then(|name| by_name.get(name));
                if let Some(&callee) = callee
                    && !begun.contains_key(&*callee.name)
                {
                    begun.insert(&callee.name, Effect::Pure);
                    stack.push((at, next));
                    stack.push((callee, 0));
                    continue;
                }
                let here = effects.of(at, op);
                if let Some(all) = begun.get_mut(&*at.name) {
                    *all = here.max(*all);
                }
                stack.push((at, next + 1));
            }
        }
        effects
    }

    /// The effect of an operation, besides its results.
    #[must_use]
    pub fn of(&self, func: &Func, op: Op) -> Effect {
        match self.callee(func, op) {
            Some(name) => self.funcs.get(name).copied().unwrap_or(Effect::Write),
            None => self.registry.effect(&func.op_ref(op)),
        }
    }

    /// The callee of an operation that is a call.
    fn callee<'f>(&self, func: &'f Func, op: Op) -> Option<&'f str> {
        let calls = self.registry.structure(&func.ops[op].name) == Structure::Call;
        func.callee(op).filter(|_| calls)
    }
}
