//! Loops and branches: operations that run functions of the module, as [`Control`] says.

use crate::error::OpFailure;
use crate::frame::{Frame, Memory};
use crate::uninterpreted::Opaque;
use optc_ir::{Control, DType, Op, Tensor};
use std::rc::Rc;

impl<M: Memory> Frame<'_, M> {
    /// What an operation runs, unless it is taken for a function that nobody knows.
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
        control: Option<Control>,
        inputs: Vec<Rc<Tensor>>,
    ) -> Result<Vec<Rc<Tensor>>, OpFailure> {
        match control {
            Some(Control::Loop { condition, body }) => self.run_loop(&condition, &body, inputs),
            Some(Control::Branch(functions)) => {
                let (callee, given) = self.branch(&functions, &inputs)?;
                self.enter(&callee, given)
            }
            None => Err(OpFailure::Unknown),
        }
    }

    fn run_loop(
        &mut self,
        condition: &str,
        body: &str,
        mut values: Vec<Rc<Tensor>>,
    ) -> Result<Vec<Rc<Tensor>>, OpFailure> {
        loop {
            let goes_on = self.enter(condition, values.clone())?;
            let [goes_on] = &goes_on[..] else {
                return Err(condition_fault(condition));
            };
            if goes_on.dtype != DType::BOOL || !is_one(goes_on) {
                return Err(condition_fault(condition));
            }
            if goes_on.i64_at(0) == 0 {
                return Ok(values);
            }
            values = self.enter(body, values)?;
        }
    }

    /// The function that a branch takes, and its operands.
    fn branch(
        &self,
        functions: &[std::sync::Arc<str>],
        inputs: &[Rc<Tensor>],
    ) -> Result<(std::sync::Arc<str>, Vec<Rc<Tensor>>), OpFailure> {
        let fault = |what: &str| OpFailure::Control(format!("the branch {what}"));
        let (which, rest) = inputs
            .split_first()
            .filter(|(which, _)| is_one(which) && which.dtype.is_int())
            .ok_or_else(|| fault("has no operand that tells which function it takes"))?;
        let last = functions.len().checked_sub(1);
        let last = last.ok_or_else(|| fault("has no functions"))?;
        let taken = match (which.dtype, which.i64_at(0)) {
            (DType::BOOL, value) => usize::from(value == 0),
            (_, number) => usize::try_from(number).unwrap_or(last),
        };
        let taken = taken.min(last);
        let mut start = 0;
        for (number, name) in functions.iter().enumerate() {
            let found = self.program.module.funcs.iter().find(|f| f.name == *name);
            let found = found.ok_or_else(|| OpFailure::NoCallee(name.to_string()))?;
            let end = start + found.args.len();
            if number == taken {
                let given = rest.get(start..end);
                let given = given.ok_or_else(|| fault("has fewer operands than its functions"))?;
                return Ok((name.clone(), given.to_vec()));
            }
            start = end;
        }
        Err(fault("has no functions"))
    }
}

/// Whether a tensor has one element.
fn is_one(tensor: &Tensor) -> bool {
    tensor.shape.iter().all(|&n| n == 1)
}

fn condition_fault(name: &str) -> OpFailure {
    OpFailure::Control(format!(
        "the condition @{name} of a loop wants one truth value as its result"
    ))
}
