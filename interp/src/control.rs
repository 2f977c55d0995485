//! Loops and branches: operations that run functions of the module, as their [`Control`] states.

use crate::error::OpFailure;
use crate::frame::{Frame, Memory};
use crate::uninterpreted::Opaque;
use optc_ir::{Control, DType, Dim, EvalError, Func, Op, Slices, Tensor, TensorType, Value};
use std::sync::Arc;

/// Runs functions of a module on tensors on behalf of a loop or branch.
pub trait RunsFunctions {
    /// The error of a failed run.
    type Error;

    /// The rank of each argument of a function; `None` for an argument that is not a tensor.
    ///
    /// # Errors
    /// There is no function of this name.
    fn arguments(&self, name: &str) -> Result<Vec<Option<usize>>, Self::Error>;

    /// The results of a function.
    ///
    /// # Errors
    /// The function cannot be run on these inputs.
    fn run(&mut self, name: &str, inputs: Vec<Arc<Tensor>>) -> Values<Self::Error>;

    /// Counts the bytes of a tensor that is held beside the values of functions.
    ///
    /// # Errors
    /// There is no room for it.
    fn hold(&mut self, dtype: DType, shape: &[usize]) -> Result<u64, Self::Error>;

    /// Releases bytes that were counted.
    fn release(&mut self, bytes: u64);

    /// The stacked result along this dimension if no round ran.
    ///
    /// # Errors
    /// The result is not a tensor.
    fn nothing(&self, result: usize, axis: usize) -> Result<Tensor, Self::Error>;

    /// An error for operands or results that do not fit.
    fn fault(&self, what: String) -> Self::Error;
}

/// Tensors, or an error.
pub type Values<E> = Result<Vec<Arc<Tensor>>, E>;

impl<M: Memory> Frame<'_, M> {
    /// The functions that an operation runs; `None` if the operation is treated as an uninterpreted function.
    pub(crate) fn control(&self, op: Op) -> Option<Control> {
        if let Opaque::Functions { loops: false, .. } = self.program.opaque {
            return None;
        }
        let op = self.func.op_ref(op);
        self.program.registry.get(op.name)?.control(&op)
    }

    /// Runs a loop or a branch.
    pub(crate) fn run_control(
        &mut self,
        op: Op,
        control: Option<Control>,
        inputs: Vec<Arc<Tensor>>,
    ) -> Result<Vec<Arc<Tensor>>, OpFailure> {
        let control = control.ok_or(OpFailure::Unknown)?;
        let results = self.func.ops[op].results.len();
        let mut here = Here { frame: self, op };
        run_control(&mut here, control, results, inputs)
    }
}

/// An operation of a call in progress.
struct Here<'f, 'a, M: Memory> {
    frame: &'f mut Frame<'a, M>,
    op: Op,
}

impl<M: Memory> RunsFunctions for Here<'_, '_, M> {
    type Error = OpFailure;

    fn arguments(&self, name: &str) -> Result<Vec<Option<usize>>, OpFailure> {
        let funcs = &self.frame.program.module.funcs;
        let func = funcs.iter().find(|f| *f.name == *name);
        let func = func.ok_or_else(|| OpFailure::NoCallee(name.to_owned()))?;
        Ok(ranks(func))
    }

    fn run(&mut self, name: &str, inputs: Vec<Arc<Tensor>>) -> Values<OpFailure> {
        self.frame.enter(name, inputs)
    }

    fn hold(&mut self, dtype: DType, shape: &[usize]) -> Result<u64, OpFailure> {
        self.frame.budget.hold(dtype, shape)
    }

    fn release(&mut self, bytes: u64) {
        self.frame.budget.release(bytes);
    }

    fn nothing(&self, result: usize, axis: usize) -> Result<Tensor, OpFailure> {
        let frame = &*self.frame;
        let value = frame.func.ops[self.op].results.get(result);
        let value = value.ok_or_else(|| self.fault("there is no such result".to_owned()))?;
        let ty = frame.tensor_type(*value)?;
        let size = |(i, dim): (usize, &Dim)| {
            // Unknown sizes count as 0.
            let known = frame.scope.bindings.size(dim).filter(|_| i != axis);
            known.and_then(|n| usize::try_from(n).ok()).unwrap_or(0)
        };
        let shape: Vec<usize> = ty.dims.iter().enumerate().map(size).collect();
        frame.budget.room(ty.dtype, &shape)?;
        Ok(empty(ty.dtype, shape))
    }

    fn fault(&self, what: String) -> OpFailure {
        OpFailure::Control(what)
    }
}

/// The rank of each argument of a function; `None` for an argument that is not a tensor.
#[must_use]
pub fn ranks(func: &Func) -> Vec<Option<usize>> {
    let rank = |&arg: &Value| func.ty(arg).as_tensor().map(TensorType::rank);
    func.args.iter().map(rank).collect()
}

/// A tensor of this shape that has no elements.
///
/// # Panics
/// The shape has elements.
#[must_use]
pub fn empty(dtype: DType, shape: Vec<usize>) -> Tensor {
    match dtype.computes() {
        true => Tensor::from_f64(dtype, shape, []),
        false => Tensor::from_bits(dtype, shape, []),
    }
}

/// Runs a loop or branch with this number of results.
///
/// # Errors
/// A function fails, or the operands or the results of functions do not fit.
pub fn run_control<R: RunsFunctions>(
    runs: &mut R,
    control: Control,
    results: usize,
    inputs: Vec<Arc<Tensor>>,
) -> Values<R::Error> {
    match control {
        Control::Loop { condition, body } => run_loop(runs, &condition, &body, inputs),
        Control::Branch(functions) => {
            let (taken, given) = branch(runs, &functions, &inputs)?;
            runs.run(&taken, given)
        }
        Control::Rounds {
            body,
            limit,
            condition,
            carried,
        } => {
            if inputs.len() < usize::from(limit) + usize::from(condition) + carried {
                return Err(fault(
                    runs,
                    "the loop has fewer operands than it carries values",
                ));
            }
            let mut inputs = inputs.into_iter();
            let most = limit.then(|| inputs.next()).flatten();
            let first = condition.then(|| inputs.next()).flatten();
            let rounds = Rounds {
                most: most.map(|t| number(runs, &t, &body)).transpose()?,
                first: first.map(|t| truth(runs, &t, &body)).transpose()?,
                carried: inputs.by_ref().take(carried).collect(),
                given: inputs.collect(),
            };
            run_rounds(runs, &body, results, rounds)
        }
        Control::Scan {
            body,
            carried,
            apart,
            stacked,
        } => run_scan(runs, &body, (carried, &apart, &stacked), &inputs),
    }
}

fn run_loop<R: RunsFunctions>(
    runs: &mut R,
    condition: &str,
    body: &str,
    mut values: Vec<Arc<Tensor>>,
) -> Values<R::Error> {
    loop {
        let goes_on = runs.run(condition, values.clone())?;
        let [goes_on] = &goes_on[..] else {
            return Err(condition_fault(runs, condition));
        };
        if !truth(runs, goes_on, condition)? {
            return Ok(values);
        }
        values = runs.run(body, values)?;
    }
}

/// A function and its operands.
type Taken = (Arc<str>, Vec<Arc<Tensor>>);

/// The function that a branch takes, and its operands.
fn branch<R: RunsFunctions>(
    runs: &R,
    functions: &[Arc<str>],
    inputs: &[Arc<Tensor>],
) -> Result<Taken, R::Error> {
    let wrong = |what: &str| fault(runs, &format!("the branch {what}"));
    let (which, rest) = inputs
        .split_first()
        .filter(|(which, _)| is_one(which) && which.dtype.is_int())
        .ok_or_else(|| wrong("has no operand that tells which function it takes"))?;
    let last = functions.len().checked_sub(1);
    let last = last.ok_or_else(|| wrong("has no functions"))?;
    let taken = match (which.dtype, which.i64_at(0)) {
        (DType::BOOL, value) => usize::from(value == 0),
        (_, number) => usize::try_from(number).unwrap_or(last),
    };
    let taken = taken.min(last);
    let mut start = 0;
    for (number, name) in functions.iter().enumerate() {
        let end = start + runs.arguments(name)?.len();
        if number == taken {
            let given = rest.get(start..end);
            let given = given.ok_or_else(|| wrong("has fewer operands than its functions"))?;
            return Ok((name.clone(), given.to_vec()));
        }
        start = end;
    }
    Err(wrong("has no functions"))
}

fn run_rounds<R: RunsFunctions>(
    runs: &mut R,
    body: &str,
    results: usize,
    rounds: Rounds,
) -> Values<R::Error> {
    let Rounds {
        most,
        first,
        mut carried,
        given,
    } = rounds;
    let ranks: Vec<usize> = runs
        .arguments(body)?
        .iter()
        .map(|rank| rank.unwrap_or(0))
        .collect();
    // The number of the round and the truth value have one element, with or without dimensions.
    let scalar = |i: usize, dtype: DType, n: i64| {
        let tensor = Tensor::from_i64(dtype, vec![], [n]);
        Arc::new(tensor.reshaped(vec![1; ranks.get(i).copied().unwrap_or(0)]))
    };
    let mut parts = Parts::new(results.saturating_sub(carried.len()));
    let mut goes_on = first.unwrap_or(true);
    let mut round = 0i64;
    while goes_on && most.is_none_or(|most| round < most) {
        let mut args = vec![
            scalar(0, DType::SI64, round),
            scalar(1, DType::BOOL, i64::from(goes_on)),
        ];
        let count = carried.len();
        args.append(&mut carried);
        args.extend(given.iter().cloned());
        let mut results = runs.run(body, args)?.into_iter();
        let next = results.next().ok_or_else(|| condition_fault(runs, body))?;
        goes_on = truth(runs, &next, body)?;
        carried = results.by_ref().take(count).collect();
        keep(runs, &mut parts, results, body)?;
        round += 1;
    }
    let stacked = vec![FIRST; parts.values.len()];
    join(runs, carried, parts, &stacked)
}

fn run_scan<R: RunsFunctions>(
    runs: &mut R,
    body: &str,
    (count, apart, stacked): (usize, &[Slices], &[Slices]),
    inputs: &[Arc<Tensor>],
) -> Values<R::Error> {
    let end = count + apart.len();
    let (Some(first), Some(taken), Some(given)) = (
        inputs.get(..count),
        inputs.get(count..end),
        inputs.get(end..),
    ) else {
        return Err(fault(
            runs,
            "the scan has fewer operands than it takes apart",
        ));
    };
    let mut extents = taken.iter().zip(apart).map(|(t, s)| t.shape.get(s.axis));
    let rounds = extents.next().flatten().copied();
    let rounds = rounds.ok_or_else(|| fault(runs, "the scan takes nothing apart"))?;
    if extents.any(|extent| extent != Some(&rounds)) {
        let what = "the scan takes operands apart that have unlike extents";
        return Err(fault(runs, what));
    }
    let mut carried = first.to_vec();
    let mut parts = Parts::new(stacked.len());
    for round in 0..rounds {
        let mut args = carried;
        for (whole, slices) in taken.iter().zip(apart) {
            let at = if slices.reverse {
                rounds - 1 - round
            } else {
                round
            };
            args.push(Arc::new(part(whole, slices.axis, at)));
        }
        args.extend(given.iter().cloned());
        let mut results = runs.run(body, args)?.into_iter();
        carried = results.by_ref().take(count).collect();
        keep(runs, &mut parts, results, body)?;
    }
    join(runs, carried, parts, stacked)
}

/// Keeps the parts that a round returned.
fn keep<R: RunsFunctions>(
    runs: &mut R,
    parts: &mut Parts,
    mut results: impl Iterator<Item = Arc<Tensor>>,
    body: &str,
) -> Result<(), R::Error> {
    for all in &mut parts.values {
        let Some(part) = results.next() else {
            return Err(fault(runs, &format!("@{body} gives too few results")));
        };
        let like = |first: &Arc<Tensor>| first.shape == part.shape && first.dtype == part.dtype;
        if !all.first().is_none_or(like) {
            let what = format!("the parts that @{body} gives have unlike types");
            return Err(fault(runs, &what));
        }
        parts.held += runs.hold(part.dtype, &part.shape)?;
        all.push(part);
    }
    match results.next() {
        None => Ok(()),
        Some(_) => Err(fault(runs, &format!("@{body} gives too many results"))),
    }
}

/// The results: first the carried values, then the parts, stacked.
fn join<R: RunsFunctions>(
    runs: &mut R,
    carried: Vec<Arc<Tensor>>,
    parts: Parts,
    stacked: &[Slices],
) -> Values<R::Error> {
    let mut results = carried;
    for (all, slices) in parts.values.iter().zip(stacked) {
        let Some(first) = all.first() else {
            results.push(Arc::new(runs.nothing(results.len(), slices.axis)?));
            continue;
        };
        let mut shape = first.shape.clone();
        if shape.len() < slices.axis {
            let what = "parts are stacked along a dimension that they cannot have";
            return Err(fault(runs, what));
        }
        shape.insert(slices.axis, all.len());
        let held = runs.hold(first.dtype, &shape)?;
        let stacked = stack(all, shape, *slices);
        results.push(Arc::new(stacked.map_err(|e| fault(runs, &e.to_string()))?));
        runs.release(held);
    }
    runs.release(parts.held);
    Ok(results)
}

/// A loop before its first round.
struct Rounds {
    most: Option<i64>,
    first: Option<bool>,
    carried: Vec<Arc<Tensor>>,
    given: Vec<Arc<Tensor>>,
}

/// Parts of results, as the rounds returned them, and the bytes counted for them.
struct Parts {
    values: Vec<Vec<Arc<Tensor>>>,
    held: u64,
}

impl Parts {
    fn new(count: usize) -> Parts {
        Parts {
            values: vec![Vec::new(); count],
            held: 0,
        }
    }
}

/// The parts follow one another along the first dimension.
const FIRST: Slices = Slices {
    axis: 0,
    reverse: false,
};

/// The part of a tensor at one index of a dimension, without that dimension.
fn part(whole: &Tensor, axis: usize, at: usize) -> Tensor {
    let mut shape = whole.shape.clone();
    let extent = shape.remove(axis);
    let inner: usize = shape[axis..].iter().product();
    whole.gather(shape, |i| (i / inner * extent + at) * inner + i % inner)
}

/// Stacks parts of one shape into this shape, along a new dimension.
fn stack(parts: &[Arc<Tensor>], shape: Vec<usize>, slices: Slices) -> Result<Tensor, EvalError> {
    let outer: usize = shape[..slices.axis].iter().product();
    let inner: usize = shape[slices.axis + 1..].iter().product();
    let mut data = parts[0].data.emptied();
    for o in 0..outer {
        for i in 0..parts.len() {
            let at = if slices.reverse {
                parts.len() - 1 - i
            } else {
                i
            };
            data.append(&parts[at].data, o * inner..(o + 1) * inner)?;
        }
    }
    Ok(Tensor {
        dtype: parts[0].dtype,
        shape,
        data,
    })
}

/// The only element of the operand that gives the number of rounds.
fn number<R: RunsFunctions>(runs: &R, tensor: &Tensor, body: &str) -> Result<i64, R::Error> {
    if is_one(tensor) && tensor.dtype.is_int() {
        return Ok(tensor.i64_at(0));
    }
    let what = format!("the loop of @{body} wants one integer as its number of rounds");
    Err(fault(runs, &what))
}

/// The only element of the truth value that decides whether a loop goes on.
fn truth<R: RunsFunctions>(runs: &R, tensor: &Tensor, body: &str) -> Result<bool, R::Error> {
    if is_one(tensor) && tensor.dtype == DType::BOOL {
        return Ok(tensor.i64_at(0) != 0);
    }
    Err(condition_fault(runs, body))
}

fn fault<R: RunsFunctions>(runs: &R, what: &str) -> R::Error {
    runs.fault(what.to_owned())
}

/// Returns whether a tensor has exactly one element.
fn is_one(tensor: &Tensor) -> bool {
    tensor.shape.iter().all(|&n| n == 1)
}

fn condition_fault<R: RunsFunctions>(runs: &R, name: &str) -> R::Error {
    let what = "wants one truth value that says whether it goes on";
    fault(runs, &format!("the loop of @{name} {what}"))
}
