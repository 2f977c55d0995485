//! Executes a function operation by operation; how values are held is left to a [`Memory`].

use crate::constant::constant;
use crate::data::DataSource;
use crate::error::{OpFailure, RunError};
use crate::ports::{argument_keys, result_keys};
use crate::scope::well_formed;
use crate::scope::{Clash, Scope, bind_inputs, dims_text, find_func, shape_text, type_text};
use crate::tiled::{Schedule, TileFault, run_group, schedule};
use crate::uninterpreted::{self, Opaque};
use indexmap::IndexMap;
use optc_ir::analysis::last_uses;
use optc_ir::entity::EntityId;
use optc_ir::{
    Attr, Bindings, EvalContext, Func, Module, Op, OpData, OpDecl, OpRef, Registry, Structure,
    Tensor, TensorType, Type, Value, ValueDef,
};
use optc_tile::{Plan, Unit};
use std::rc::Rc;

/// The most elements one tensor may have; a program that declares more is refused before anything
/// is allocated.
pub const MAX_ELEMENTS: u64 = 1 << 31;

/// How deep `hbir.call` may nest.
pub const MAX_CALL_DEPTH: usize = 64;

/// The most operations that one run executes, those of called functions counted for every call. It is
/// some forty times what the largest models have, and takes seconds where the tensors are small.
pub const MAX_STEPS: u64 = 1 << 22;

/// How one interpreter holds values.
pub(crate) trait Memory {
    /// A value as it is held.
    type Held: Clone;

    /// Whether the groups of a plan run tile by tile; otherwise their operations run one by one.
    const TILED: bool = false;

    /// Puts a logical tensor into memory as its type says.
    fn store(&mut self, tensor: Rc<Tensor>, ty: &TensorType) -> Result<Self::Held, OpFailure>;

    /// Reads a value as a logical tensor.
    fn load(&mut self, held: &Self::Held, ty: &TensorType) -> Result<Rc<Tensor>, OpFailure>;

    /// Whether this memory executes operations of this name itself, without the declared semantics.
    fn handles(&self, structure: Structure) -> bool;

    /// Executes an operation that this memory handles.
    fn direct(&mut self, step: &Direct<'_, Self::Held>) -> Result<Self::Held, OpFailure>;
}

/// What [`Memory::direct`] sees of an operation with one operand and one result.
pub(crate) struct Direct<'a, H> {
    pub(crate) structure: Structure,
    pub(crate) operand: &'a H,
    pub(crate) from: &'a TensorType,
    pub(crate) to: &'a TensorType,
    /// The result's extents.
    pub(crate) shape: Vec<usize>,
}

/// What stays the same during a run.
#[derive(Clone, Copy)]
pub(crate) struct Program<'a> {
    pub(crate) module: &'a Module,
    pub(crate) registry: &'a Registry,
    pub(crate) data: &'a dyn DataSource,
    pub(crate) opaque: Opaque<'a>,
}

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
        .map(|k| Rc::new(inputs[k].clone()))
        .collect();
    let results = run_func(program, memory, func, args, scope)?;
    let results = results.into_iter().map(Rc::unwrap_or_clone);
    Ok(result_keys(func).into_iter().zip(results).collect())
}

/// The functions that a function calls, one entry a call.
fn callees(func: &Func) -> impl Iterator<Item = &str> {
    func.body.iter().filter_map(|&op| func.callee(op))
}

/// A function and all that it calls, directly or not; itself first.
pub(crate) fn reachable<'m>(module: &'m Module, func: &'m Func) -> Vec<&'m Func> {
    // Of two with one name the first is meant, as everywhere.
    let funcs = module.funcs.iter().rev();
    let known: IndexMap<&str, &Func> = funcs.map(|f| (&*f.name, f)).collect();
    let mut found = IndexMap::from([(&*func.name, func)]);
    let mut at = 0;
    while let Some((_, &func)) = found.get_index(at) {
        let called = callees(func).filter_map(|name| known.get(name));
        found.extend(called.map(|f| (&*f.name, *f)));
        at += 1;
    }
    found.into_values().collect()
}

/// How many operations a run of a function executes: there is no control flow but calls, so that this
/// is known before. Calls are counted level by level as deep as they may nest, so that functions which
/// call themselves have a count too; false where calls nest deeper.
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
    args: Vec<Rc<Tensor>>,
    scope: Scope,
) -> Result<Vec<Rc<Tensor>>, RunError> {
    let values = (0..func.values.len()).map(|_| None).collect();
    let mut frame = Frame {
        program,
        func,
        memory,
        values,
        scope,
    };
    for ((key, &value), tensor) in argument_keys(func).iter().zip(&func.args).zip(args) {
        let stored = frame.store_result(0, value, tensor);
        stored.map_err(|e| frame.boundary(&format!("argument `{key}`"), e))?;
    }
    let plan = if M::TILED { plan_of(func)? } else { None };
    let Schedule { units, escapes } = schedule(func, plan.as_ref(), program.registry)
        .map_err(|(op, fault)| failed(func, op, fault.into()))?;
    let steps = units.iter().map(|unit| ops_of(unit, plan.as_ref()));
    let dying = last_uses(func, steps);
    for (&unit, dead) in units.iter().zip(&dying) {
        match (unit, &plan) {
            (Unit::Op(op), _) => frame.execute(op).map_err(|e| failed(func, op, e))?,
            (Unit::Group(group), Some(plan)) => run_group(&mut frame, plan, group, &escapes)
                .map_err(|(op, e)| failed(func, op, e))?,
            (Unit::Group(_), None) => {}
        }
        for value in dead {
            frame.values[value.index()] = None;
        }
    }
    let keys = result_keys(func);
    let mut results = Vec::with_capacity(keys.len());
    for (i, (key, &value)) in keys.iter().zip(&func.results).enumerate() {
        let loaded = frame.load(i, value);
        results.push(loaded.map_err(|e| frame.boundary(&format!("result `{key}`"), e))?);
    }
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

/// The plan in the attributes of a function.
fn plan_of(func: &Func) -> Result<Option<Plan>, RunError> {
    Plan::read(func).map_err(|diags| {
        let text = diags.first().map_or("", |d| &d.message);
        RunError::Boundary {
            func: func.name.to_string(),
            what: "the plan".to_owned(),
            source: Box::new(TileFault::Plan(text.to_owned()).into()),
        }
    })
}

/// The operations of a unit.
fn ops_of<'f>(unit: &'f Unit, plan: Option<&'f Plan>) -> &'f [Op] {
    match (unit, plan) {
        (Unit::Op(op), _) => std::slice::from_ref(op),
        (Unit::Group(group), Some(plan)) => &plan.groups[*group].ops,
        (Unit::Group(_), None) => &[],
    }
}

/// One call in progress.
pub(crate) struct Frame<'a, M: Memory> {
    pub(crate) program: Program<'a>,
    pub(crate) func: &'a Func,
    memory: &'a mut M,
    values: Vec<Option<M::Held>>,
    pub(crate) scope: Scope,
}

impl<M: Memory> Frame<'_, M> {
    fn boundary(&self, what: &str, failure: OpFailure) -> RunError {
        let func = self.func.name.to_string();
        RunError::Boundary {
            func,
            what: what.to_owned(),
            source: Box::new(failure),
        }
    }

    /// What the compiler makes of an operation.
    pub(crate) fn structure(&self, op: Op) -> Structure {
        self.program.registry.structure(&self.func.ops[op].name)
    }

    /// Runs one operation and stores its results. A constant is read when it is first used.
    fn execute(&mut self, op: Op) -> Result<(), OpFailure> {
        let func = self.func;
        let data = &func.ops[op];
        if self.structure(op) == Structure::Constant {
            return Ok(());
        }
        if let Some(held) = self.direct(op)? {
            self.values[data.results[0].index()] = Some(held);
            return Ok(());
        }
        let inputs = self.inputs(data)?;
        let outputs = match self.structure(op) {
            Structure::Call => self.call(data, inputs)?,
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
            self.store_result(i, value, tensor)?;
        }
        Ok(())
    }

    fn inputs(&mut self, data: &OpData) -> Result<Vec<Rc<Tensor>>, OpFailure> {
        data.operands
            .iter()
            .enumerate()
            .map(|(i, &v)| self.load(i, v))
            .collect()
    }

    /// An operation of one operand and one result that the memory executes itself.
    fn direct(&mut self, op: Op) -> Result<Option<M::Held>, OpFailure> {
        let func = self.func;
        let data = &func.ops[op];
        let ([operand], [result]) = (&data.operands[..], &data.results[..]) else {
            return Ok(None);
        };
        let (Some(from), Some(to)) = (func.ty(*operand).as_tensor(), func.ty(*result).as_tensor())
        else {
            return Ok(None);
        };
        let structure = self.structure(op);
        if !self.memory.handles(structure) {
            return Ok(None);
        }
        self.declaration(&func.op_ref(op))?;
        let held = self.held(0, *operand)?;
        let shape = match self.scope.shape(to) {
            Some(shape) => shape,
            None => self.computed_shape(op, *operand, to)?,
        };
        elements_within_limit(&shape)?;
        self.memory
            .direct(&Direct {
                structure,
                operand: &held,
                from,
                to,
                shape,
            })
            .map(Some)
    }

    /// The shape of a result that its type leaves open: what the declared semantics give.
    fn computed_shape(
        &mut self,
        op: Op,
        operand: Value,
        ty: &TensorType,
    ) -> Result<Vec<usize>, OpFailure> {
        let input = self.load(0, operand)?;
        let results = self.eval(op, &[input])?;
        let result = results.first().ok_or(OpFailure::ResultCount {
            found: 0,
            wanted: 1,
        })?;
        self.bind_result(0, self.func.ops[op].results[0], ty, &result.shape)?;
        Ok(result.shape.clone())
    }

    /// The declaration of an operation that is well formed by it.
    pub(crate) fn declaration(&self, op: &OpRef<'_>) -> Result<&dyn OpDecl, OpFailure> {
        let decl = self
            .program
            .registry
            .get(op.name)
            .ok_or(OpFailure::Unknown)?;
        decl.infer(op)?;
        Ok(decl)
    }

    /// The declared semantics, on operands that have the declared shapes.
    fn eval(&self, op: Op, inputs: &[Rc<Tensor>]) -> Result<Vec<Rc<Tensor>>, OpFailure> {
        let op = self.func.op_ref(op);
        let decl = self.declaration(&op)?;
        for ty in &op.results {
            if let Some(shape) = ty.as_tensor().and_then(|t| self.scope.shape(t)) {
                elements_within_limit(&shape)?;
            }
        }
        let inputs: Vec<&Tensor> = inputs.iter().map(|t| &**t).collect();
        let cx = EvalContext {
            bindings: &self.scope.bindings,
        };
        let outputs = match decl.eval(&op, &inputs, &cx) {
            Err(_) if decl.structure() == Structure::Opaque => {
                let shape = |ty: &&Type| ty.as_tensor().and_then(|t| self.scope.shape(t));
                let shapes: Vec<_> = op.results.iter().map(shape).collect();
                let opaque = self.program.opaque;
                let done = uninterpreted::apply(opaque, &op, decl.effect(&op), &inputs, &shapes);
                done.map_err(|problem| OpFailure::Opaque {
                    kind: op.props.str("kind").unwrap_or(op.name).to_owned(),
                    problem,
                })?
            }
            done => done?,
        };
        Ok(outputs.into_iter().map(Rc::new).collect())
    }

    fn call(
        &mut self,
        data: &OpData,
        inputs: Vec<Rc<Tensor>>,
    ) -> Result<Vec<Rc<Tensor>>, OpFailure> {
        let callee = match data.props.get("callee") {
            Some(Attr::Symbol(name)) => &**name,
            _ => return Err(OpFailure::Constant("the call has no `callee`".to_owned())),
        };
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
        let mut scope = Scope::default();
        for ((key, &value), tensor) in argument_keys(func).iter().zip(&func.args).zip(&inputs) {
            let bound = scope.bind_input(key, func.ty(value), tensor);
            bound.map_err(|e| fault(e.to_string()))?;
        }
        scope.inherit(&self.scope);
        let done = run_func(program, self.memory, func, inputs, scope);
        done.map_err(|e| OpFailure::Inner(e.to_string().into()))
    }

    pub(crate) fn tensor_type(&self, value: Value) -> Result<&TensorType, OpFailure> {
        match self.func.ty(value) {
            Type::Tensor(ty) => Ok(ty),
            other @ (Type::Scalar(_) | Type::Other(_)) => Err(OpFailure::NotTensor {
                found: type_text(other),
            }),
        }
    }

    /// Checks a tensor against the type of the value it is for, and stores it.
    pub(crate) fn store_result(
        &mut self,
        index: usize,
        value: Value,
        tensor: Rc<Tensor>,
    ) -> Result<(), OpFailure> {
        let func = self.func;
        let Type::Tensor(ty) = func.ty(value) else {
            return Err(OpFailure::NotTensor {
                found: type_text(func.ty(value)),
            });
        };
        well_formed(&tensor).map_err(|problem| OpFailure::Malformed { index, problem })?;
        if tensor.dtype != ty.dtype {
            let (found, wanted) = (tensor.dtype.to_string(), ty.dtype.to_string());
            return Err(OpFailure::ResultDType {
                index,
                found,
                wanted,
            });
        }
        self.bind_result(index, value, ty, &tensor.shape)?;
        let held = self.memory.store(tensor, ty)?;
        self.values[value.index()] = Some(held);
        Ok(())
    }

    /// Checks the shape of a result against its type.
    fn bind_result(
        &mut self,
        index: usize,
        value: Value,
        ty: &TensorType,
        shape: &[usize],
    ) -> Result<(), OpFailure> {
        let by = || format!("from {value}");
        self.scope.bind(&ty.dims, shape, by).map_err(|clash| {
            let wanted = match clash {
                Clash::Shape => dims_text(&ty.dims),
                Clash::Symbol {
                    symbol, bound, by, ..
                } => {
                    format!("{} with {symbol} = {bound} ({by})", dims_text(&ty.dims))
                }
            };
            OpFailure::ResultShape {
                index,
                found: shape_text(shape),
                wanted,
            }
        })
    }

    /// How a value is held; a constant that was not needed before is read now.
    fn held(&mut self, operand: usize, value: Value) -> Result<M::Held, OpFailure> {
        if let Some(held) = &self.values[value.index()] {
            return Ok(held.clone());
        }
        let ValueDef::Result(op, 0) = self.func.values[value].def else {
            return Err(OpFailure::Undefined(operand));
        };
        let data = &self.func.ops[op];
        if self.structure(op) != Structure::Constant {
            return Err(OpFailure::Undefined(operand));
        }
        let ty = self.tensor_type(value)?;
        let tensor = constant(&data.props, ty, self.scope.shape(ty), self.program.data)?;
        self.store_result(0, value, Rc::new(tensor))?;
        self.values[value.index()]
            .clone()
            .ok_or(OpFailure::Undefined(operand))
    }

    pub(crate) fn load(&mut self, operand: usize, value: Value) -> Result<Rc<Tensor>, OpFailure> {
        let held = self.held(operand, value)?;
        let func = self.func;
        let Type::Tensor(ty) = func.ty(value) else {
            return Err(OpFailure::NotTensor {
                found: type_text(func.ty(value)),
            });
        };
        self.memory.load(&held, ty)
    }
}

/// The number of elements of a shape.
pub(crate) fn elements_within_limit(shape: &[usize]) -> Result<u64, OpFailure> {
    if shape.contains(&0) {
        return Ok(0);
    }
    let count = shape.iter().try_fold(1u64, |a, &n| a.checked_mul(n as u64));
    count
        .filter(|&n| n <= MAX_ELEMENTS)
        .ok_or_else(|| OpFailure::TooLarge {
            shape: shape_text(shape),
            limit: MAX_ELEMENTS,
        })
}
