//! The record of where the values that went into a pipeline are now.
//!
//! Example: after `canonicalize` joins two transposes, the value between them is recorded as the first operand, seen
//! through the first transpose.
//!
//! A function records this if [`start`] was called on its module. A pass that edits a function in place calls
//! [`Func::record`] where one value replaces another. A pass that makes a new function calls [`moved`]. The rest follows
//! from the function itself: [`settle`] moves the record of a rearrangement that is gone to its operand.

mod record;

use crate::entity::SideTable;
use crate::module::{Func, Module, Op, Value, ValueDef};
use crate::op::{Registry, Structure};
use indexmap::IndexMap;

pub use record::{Held, Step, Trace};

/// Starts a record of every value of a module.
pub fn start(module: &mut Module) {
    for func in &mut module.funcs {
        let results = func.body.iter().flat_map(|&op| &func.ops[op].results);
        let held = func.args.iter().chain(results).map(|&value| Held {
            origin: value,
            value,
            steps: Vec::new(),
        });
        func.trace = Some(Box::new(Trace {
            held: held.collect(),
            ..Trace::default()
        }));
    }
}

/// Brings the records of a module up to date after a pass.
pub fn settle(module: &mut Module, registry: &Registry, pass: &'static str) {
    for func in &mut module.funcs {
        let Some(mut trace) = func.trace.take() else {
            continue;
        };
        let here = Here::new(func, registry);
        let (mut held, replaced) = (Vec::new(), std::mem::take(&mut trace.replaced));
        for mut one in std::mem::take(&mut trace.held) {
            match here.follow(&mut one, &replaced) {
                true => held.push(one),
                false => trace.lost.push((one.origin, pass)),
            }
        }
        trace.held = held;
        func.trace = Some(trace);
    }
}

/// The record of a new function, from the old function and pairs of values: a value of the old one, and a value of the
/// new one with the same elements at the same indices. A value without a pair is where its operand is, if it is a
/// rearrangement; `pass` is the pass to name if there is no such place. `None` if the old function has no record.
#[must_use]
pub fn moved(
    old: &Func,
    registry: &Registry,
    pairs: impl IntoIterator<Item = (Value, Value)>,
    pass: &'static str,
) -> Option<Box<Trace>> {
    let trace = old.trace.as_ref()?;
    let mut now: SideTable<Value, Vec<Value>> = SideTable::new(Vec::new());
    for (before, after) in pairs {
        if !now[before].contains(&after) {
            now[before].push(after);
        }
    }
    let mut new = Trace {
        lost: trace.lost.clone(),
        ..Trace::default()
    };
    for one in &trace.held {
        let mut one = one.clone();
        while now[one.value].is_empty() && back(old, registry, &mut one) {}
        let found = &now[one.value];
        if found.is_empty() {
            new.lost.push((one.origin, pass));
        }
        new.held.extend(found.iter().map(|&value| Held {
            value,
            ..one.clone()
        }));
    }
    Some(Box::new(new))
}

/// Moves a record from the result of a rearrangement or conversion to its operand. Returns whether it is one.
fn back(func: &Func, registry: &Registry, one: &mut Held) -> bool {
    let Some(op) = func.def_op(one.value) else {
        return false;
    };
    let data = &func.ops[op];
    let (&[operand], &[result]) = (&data.operands[..], &data.results[..]) else {
        return false;
    };
    if registry.structure(&data.name) != Structure::Convert {
        let view = registry.rearrangement(&func.op_ref(op));
        let (Ok(view), Some(ty)) = (view, func.ty(result).as_tensor()) else {
            return false;
        };
        let result = ty.dims.clone();
        one.steps.insert(0, Step { view, result });
    }
    one.value = operand;
    true
}

/// A function and the operations that are in its body.
struct Here<'a> {
    func: &'a Func,
    registry: &'a Registry,
    in_body: SideTable<Op, bool>,
}

impl<'a> Here<'a> {
    fn new(func: &'a Func, registry: &'a Registry) -> Here<'a> {
        let mut in_body = SideTable::new(false);
        func.body.iter().for_each(|&op| in_body[op] = true);
        Here {
            func,
            registry,
            in_body,
        }
    }

    /// Moves a record to a value that the function still has. Returns whether there is one.
    fn follow(&self, one: &mut Held, replaced: &IndexMap<Value, Value>) -> bool {
        // No chain is longer: a longer one would be a circle of wrong records.
        for _ in 0..=self.func.values.len() {
            if let Some(&next) = replaced.get(&one.value) {
                one.value = next;
                continue;
            }
            let Some(data) = self.func.values.get(one.value) else {
                return false;
            };
            let there = match data.def {
                ValueDef::Arg(i) => self.func.args.get(i) == Some(&one.value),
                ValueDef::Result(op, _) => self.in_body[op],
            };
            if there || !back(self.func, self.registry, one) {
                return there;
            }
        }
        false
    }
}

impl Func {
    /// Records that a value is replaced by another one with the same elements.
    pub fn record(&mut self, old: Value, new: Value) {
        if let Some(trace) = self.trace.as_mut().filter(|_| old != new) {
            trace.replaced.insert(old, new);
        }
    }

    /// Records that this function has the elements of a value of a function whose body was copied into it.
    pub fn record_copy(&mut self, from: &Func, now: impl Fn(Value) -> Option<Value>) {
        let (Some(trace), Some(from)) = (&mut self.trace, &from.trace) else {
            return;
        };
        let moved = from.held.iter().filter_map(|one| {
            Some(Held {
                value: now(one.value)?,
                ..one.clone()
            })
        });
        trace.held.extend(moved);
        trace.lost.extend(from.lost.iter().copied());
    }
}
