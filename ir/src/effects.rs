//! What the operations of a module do besides giving results, calls included.

use crate::module::{Func, Module, Op};
use crate::op::{Effect, Registry, Structure};
use indexmap::IndexMap;
use std::sync::Arc;

/// The effects of the functions of a module, and of every operation in them.
///
/// A call does what its function does; a function that does not exist may do anything.
#[derive(Clone, Debug)]
pub struct Effects<'a> {
    registry: &'a Registry,
    funcs: IndexMap<Arc<str>, Summary>,
}

/// What is known of an operation, or of all operations of a function.
#[derive(Clone, Copy, Debug)]
struct Summary {
    effect: Effect,
    /// Whether every operation has semantics here.
    computes: bool,
}

impl Summary {
    const NOTHING: Summary = Summary {
        effect: Effect::Pure,
        computes: true,
    };
    const ANYTHING: Summary = Summary {
        effect: Effect::Write,
        computes: false,
    };

    fn and(self, other: Summary) -> Summary {
        Summary {
            effect: self.effect.max(other.effect),
            computes: self.computes && other.computes,
        }
    }
}

impl<'a> Effects<'a> {
    /// The effects of a module; linear in its operations. Functions that call themselves may do
    /// anything.
    #[must_use]
    pub fn of_module(module: &Module, registry: &'a Registry) -> Effects<'a> {
        let mut effects = Effects {
            registry,
            funcs: IndexMap::new(),
        };
        let by_name: IndexMap<&str, &Func> = module.funcs.iter().map(|f| (&*f.name, f)).collect();
        let mut begun: IndexMap<&str, Summary> = IndexMap::new();
        for func in &module.funcs {
            let mut stack: Vec<(&Func, usize)> = Vec::new();
            if !begun.contains_key(&*func.name) {
                begun.insert(&func.name, Summary::NOTHING);
                stack.push((func, 0));
            }
            while let Some((at, next)) = stack.pop() {
                let Some(&op) = at.body.get(next) else {
                    let all = begun.get(&*at.name).copied();
                    let all = all.unwrap_or(Summary::ANYTHING);
                    effects.funcs.insert(at.name.clone(), all);
                    continue;
                };
                let callee = effects.callee(at, op).and_then(|name| by_name.get(name));
                if let Some(&callee) = callee
                    && !begun.contains_key(&*callee.name)
                {
                    begun.insert(&callee.name, Summary::NOTHING);
                    stack.push((at, next));
                    stack.push((callee, 0));
                    continue;
                }
                let here = effects.summary(at, op);
                if let Some(all) = begun.get_mut(&*at.name) {
                    *all = all.and(here);
                }
                stack.push((at, next + 1));
            }
        }
        effects
    }

    /// The effects of one function whose module is not at hand: every call may do anything.
    #[must_use]
    pub fn of_func(registry: &'a Registry) -> Effects<'a> {
        Effects {
            registry,
            funcs: IndexMap::new(),
        }
    }

    /// What running an operation does besides giving its results.
    #[must_use]
    pub fn of(&self, func: &Func, op: Op) -> Effect {
        self.summary(func, op).effect
    }

    /// Whether what an operation gives on constants is a constant that can be computed before the program
    /// runs: it is pure, and has semantics here.
    #[must_use]
    pub fn folds(&self, func: &Func, op: Op) -> bool {
        let summary = self.summary(func, op);
        summary.effect.is_pure() && summary.computes
    }

    fn summary(&self, func: &Func, op: Op) -> Summary {
        if let Some(name) = self.callee(func, op) {
            return self.funcs.get(name).copied().unwrap_or(Summary::ANYTHING);
        }
        let op_ref = func.op_ref(op);
        let computes = match self.registry.get(op_ref.name).map(|d| d.structure()) {
            None | Some(Structure::Opaque) => false,
            Some(
                Structure::Plain
                | Structure::View
                | Structure::Convert
                | Structure::Constant
                | Structure::Call,
            ) => true,
        };
        Summary {
            effect: self.registry.effect(&op_ref),
            computes,
        }
    }

    /// The function that an operation calls, if it does nothing else.
    fn callee<'f>(&self, func: &'f Func, op: Op) -> Option<&'f str> {
        let calls = self.registry.structure(&func.ops[op].name) == Structure::Call;
        func.callee(op).filter(|_| calls)
    }
}
