//! Executes a function unit by unit. A [`Memory`] decides how values are held.

use crate::error::{OpFailure, RunError};
use crate::frame::{Frame, Memory, Program};
use crate::limit::{Budget, MAX_STEPS};
use crate::ports::{argument_keys, result_keys};
use crate::scope::{Scope, bind_inputs, find_func};
use crate::sharing::Sharing;
use crate::tiled::run_group;
use crate::uninterpreted::named_functions;
use indexmap::IndexMap;
use optc_ir::analysis::last_uses;
use optc_ir::entity::EntityId;
use optc_ir::{Attr, Bindings, Func, Module, Op, OpData, Structure, Tensor, Value};
use optc_tile::{Schedule, Unit};
use std::sync::Arc;

/// The deepest nesting of `hbir.call`.
pub const MAX_CALL_DEPTH: usize = 64;

/// The number of operations counted for entering a function.
const ENTRY_STEPS: usize = 32;

/// Runs a function of the program on named inputs.
pub(crate) fn run<M: Memory>(
    program: Program<'_>,
    memory: &mut M,
    func: &str,
    inputs: &IndexMap<String, Tensor>,
    bindings: &Bindings,
) -> Result<IndexMap<String, Tensor>, RunError> {
    let func = find_func(program.module, func)?;
    let (found, ends) = count_steps(program.module, func);
    if MAX_STEPS < found {
        return Err(RunError::Steps {
            func: func.name.to_string(),
            found,
            limit: MAX_STEPS,
        });
    }
    if !ends {
        return Err(RunError::Depth {
            func: func.name.to_string(),
            limit: MAX_CALL_DEPTH,
        });
    }
    let scope = bind_inputs(func, inputs, bindings)?;
    let args = argument_keys(func)
        .iter()
        .map(|k| Arc::new(inputs[k].clone()))
        .collect();
    let budget = Budget::new();
    let given = inputs.values().try_for_each(|input| {
        let held = budget.hold(input.dtype, &input.shape);
        held.map(|_| ())
    });
    given.map_err(|source| RunError::Boundary {
        func: func.name.to_string(),
        what: "the arguments".to_owned(),
        source: Box::new(source),
    })?;
    let results = run_func(program, memory, func, args, scope, (&budget, 0))?;
    let results = results.into_iter().map(Arc::unwrap_or_clone);
    Ok(result_keys(func).into_iter().zip(results).collect())
}

/// The functions that a function names: in calls, loops, branches and opaque operations.
fn named(func: &Func) -> impl Iterator<Item = &str> {
    let ops = func.body.iter().map(|&op| &func.ops[op]);
    ops.flat_map(|op| named_functions(&op.props))
}

/// The functions that a function calls, one entry a call.
fn callees(func: &Func) -> impl Iterator<Item = &str> {
    func.body.iter().filter_map(|&op| func.callee(op))
}

/// A function and all functions that it calls or names, directly or indirectly; itself first.
#[must_use]
pub fn reachable<'m>(module: &'m Module, func: &'m Func) -> Vec<&'m Func> {
    // The first of two functions with the same name is meant, as everywhere.
    let funcs = module.funcs.iter().rev();
    let known: IndexMap<&str, &Func> = funcs.map(|f| (&*f.name, f)).collect();
    let mut found = IndexMap::from([(&*func.name, func)]);
    let mut at = 0;
    while let Some((_, &func)) = found.get_index(at) {
        let called = named(func).filter_map(|name| known.get(name));
        found.extend(called.map(|f| (&*f.name, *f)));
        at += 1;
    }
    found.into_values().collect()
}

/// The number of operations that a run of a function executes, without loops and branches, whose counts only a run
/// tells. Calls are counted level by level down to the deepest allowed nesting, so that recursive functions have a
/// count, too. The flag is false if calls nest deeper.
fn count_steps(module: &Module, entry: &Func) -> (u64, bool) {
    let funcs = reachable(module, entry);
    let places: IndexMap<&str, usize> = funcs.iter().map(|f| &*f.name).zip(0..).collect();
    let calls: Vec<Vec<usize>> = funcs
        .iter()
        .map(|f| {
            callees(f)
                .filter_map(|name| places.get(name).copied())
                .collect()
        })
        .collect();
    let mut counts = vec![0u64; funcs.len()];
    for _ in 0..=MAX_CALL_DEPTH + 1 {
        let own = funcs.iter().map(|f| f.body.len() as u64);
        let with_calls = |(own, calls): (u64, &Vec<usize>)| {
            calls
                .iter()
                .map(|&at| counts[at])
                .fold(own, u64::saturating_add)
        };
        let next: Vec<u64> = own.zip(&calls).map(with_calls).collect();
        if next == counts {
            return (counts[0], true);
        }
        counts = next;
    }
    (counts[0], false)
}

/// Runs a function on tensors that fit its arguments.
fn run_func<M: Memory>(
    program: Program<'_>,
    memory: &mut M,
    func: &Func,
    args: Vec<Arc<Tensor>>,
    scope: Scope,
    (budget, depth): (&Budget, usize),
) -> Result<Vec<Arc<Tensor>>, RunError> {
    let values = (0..func.values.len()).map(|_| None).collect();
    let sharing = match memory.sharing() {
        Some(_) => Sharing::of(func, program.registry),
        None => Sharing::none(),
    };
    let mut frame = Frame {
        program,
        func,
        memory,
        values,
        counted: vec![0; func.values.len()],
        scope,
        sharing,
        reserved: IndexMap::new(),
        budget,
        depth,
    };
    for ((key, &value), tensor) in argument_keys(func).iter().zip(&func.args).zip(args) {
        let stored = frame.store_result(0, value, tensor);
        stored.map_err(|e| frame.boundary(&format!("argument `{key}`"), e))?;
    }
    let schedule = program.schedules.get(&*func.name);
    let body = || func.body.iter().map(|&op| Unit::Op(op)).collect();
    let units: Vec<Unit> = schedule.map_or_else(body, |s| s.units.clone());
    let steps: Vec<Vec<Op>> = units.iter().map(|&unit| ops_of(unit, schedule)).collect();
    let dying = last_uses(func, steps.iter().map(Vec::as_slice));
    for (&unit, dead) in units.iter().zip(&dying) {
        match (unit, schedule) {
            (Unit::Op(op), _) => frame.execute(op).map_err(|e| failed(func, op, e))?,
            (Unit::Group(number), Some(schedule)) => {
                run_group(&mut frame, schedule, number).map_err(|(op, e)| failed(func, op, e))?
            }
            (Unit::Group(_), None) => {}
        }
        for value in dead {
            frame.free(*value);
        }
    }
    let keys = result_keys(func);
    let mut results = Vec::with_capacity(keys.len());
    for (i, (key, &value)) in keys.iter().zip(&func.results).enumerate() {
        let loaded = frame.load(i, value);
        results.push(loaded.map_err(|e| frame.boundary(&format!("result `{key}`"), e))?);
    }
    budget.release(frame.counted.iter().sum());
    Ok(results)
}

fn failed(func: &Func, op: Op, failure: OpFailure) -> RunError {
    let data = &func.ops[op];
    RunError::Op {
        func: func.name.to_string(),
        op: data.name.to_string(),
        loc: data.loc.clone(),
        span: data.span,
        source: Box::new(failure),
    }
}

/// The operations of a unit.
fn ops_of(unit: Unit, schedule: Option<&Schedule>) -> Vec<Op> {
    match (unit, schedule) {
        (Unit::Op(op), _) => vec![op],
        (Unit::Group(number), Some(schedule)) => {
            let group = schedule.groups.get(number);
            group.map_or(Vec::new(), |g| g.ops.iter().map(|o| o.op).collect())
        }
        (Unit::Group(_), None) => Vec::new(),
    }
}

impl<M: Memory> Frame<'_, M> {
    /// Runs one operation and stores its results. A constant is read at its first use.
    fn execute(&mut self, op: Op) -> Result<(), OpFailure> {
        let func = self.func;
        let data = &func.ops[op];
        if self.structure(op) == Structure::Constant {
            return Ok(());
        }
        if self.parts_in_place(op)? {
            return Ok(());
        }
        if let Some(held) = self.direct(op)? {
            self.values[data.results[0].index()] = Some(held);
            return self.count_type(data.results[0]);
        }
        let inputs = self.inputs(data)?;
        let control = self.control(op);
        let outputs = match self.structure(op) {
            Structure::Call => self.call(data, inputs)?,
            Structure::Opaque if control.is_some() => self.run_control(op, control, inputs)?,
            Structure::Plain
            | Structure::View
            | Structure::Convert
            | Structure::Constant
            | Structure::Opaque => self.eval(op, &inputs)?,
        };
        if outputs.len() != data.results.len() {
            let (found, wanted) = (outputs.len(), data.results.len());
            return Err(OpFailure::ResultCount { found, wanted });
        }
        for (i, (tensor, &value)) in outputs.into_iter().zip(&data.results).enumerate() {
            if self.values[value.index()].is_none() {
                self.store_made(i, value, tensor)?;
            }
        }
        Ok(())
    }

    /// Counts a value that was stored without a tensor.
    fn count_type(&mut self, value: Value) -> Result<(), OpFailure> {
        let ty = self.tensor_type(value)?;
        match self.scope.shape(ty) {
            Some(shape) => self.count(value, ty.dtype, &shape),
            None => Ok(()),
        }
    }

    fn call(
        &mut self,
        data: &OpData,
        inputs: Vec<Arc<Tensor>>,
    ) -> Result<Vec<Arc<Tensor>>, OpFailure> {
        let callee = match data.props.get("callee") {
            Some(Attr::Symbol(name)) => &**name,
            _ => return Err(OpFailure::Constant("the call has no `callee`".to_owned())),
        };
        self.enter(callee, inputs)
    }

    /// Runs a function of the module on tensors.
    pub(crate) fn enter(
        &mut self,
        callee: &str,
        inputs: Vec<Arc<Tensor>>,
    ) -> Result<Vec<Arc<Tensor>>, OpFailure> {
        let program = self.program;
        let func = program.module.funcs.iter().find(|f| &*f.name == callee);
        let func = func.ok_or_else(|| OpFailure::NoCallee(callee.to_owned()))?;
        let fault = |problem: String| OpFailure::Call {
            callee: callee.to_owned(),
            problem,
        };
        if func.args.len() != inputs.len() {
            let (found, wanted) = (inputs.len(), func.args.len());
            return Err(fault(format!("found {found} operands, wanted {wanted}")));
        }
        let depth = self.depth + 1;
        if MAX_CALL_DEPTH < depth {
            let limit = MAX_CALL_DEPTH;
            return Err(OpFailure::Depth { limit });
        }
        if !self.budget.step(func.body.len() + ENTRY_STEPS) {
            return Err(OpFailure::Steps { limit: MAX_STEPS });
        }
        let mut scope = Scope::default();
        for ((key, &value), tensor) in argument_keys(func).iter().zip(&func.args).zip(&inputs) {
            let bound = scope.bind_input(key, func.ty(value), tensor);
            bound.map_err(|e| fault(e.to_string()))?;
        }
        scope.inherit(&self.scope);
        let place = (self.budget, depth);
        let done = run_func(program, self.memory, func, inputs, scope, place);
        done.map_err(|e| OpFailure::Inner {
            code: e.code(),
            text: e.to_string().into(),
        })
    }
}
