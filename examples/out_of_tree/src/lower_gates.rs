//! The pass: writes gates as the operations of the `hbir` dialect, for targets without a kernel.

use crate::Gate;
use optc::ops::{Mul, Sigmoid};
use optc::passes::PassInfo;
use optc::{
    AttrDict, Changed, Diagnostic, Func, Module, Op, Operation, Outcome, Pass, PassContext, Phase,
};
use std::sync::Arc;

static INFO: PassInfo = PassInfo {
    name: "lower-gates",
    summary: "write acme.gate as a sigmoid and a product",
    phases: (Phase::Imported, Phase::Laid),
    required: false,
    options: &[],
};

/// Counts of a run of the pass.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct GateReport {
    /// The gates that were written out.
    pub gates: usize,
}

/// `acme.gate(x, g) -> mul(x, sigmoid(g))`, in the layouts the gate has.
#[derive(Clone, Copy, Debug)]
pub struct LowerGates;

impl Pass for LowerGates {
    fn info(&self) -> &'static PassInfo {
        &INFO
    }

    fn run(&self, module: &mut Module, _: &mut PassContext) -> Result<Outcome, Box<Diagnostic>> {
        let mut gates = 0;
        for func in &mut module.funcs {
            let mut body = Vec::with_capacity(func.body.len());
            for op in std::mem::take(&mut func.body) {
                if &*func.ops[op].name == Gate::NAME {
                    body.push(sigmoid_of(func, op));
                    gates += 1;
                }
                body.push(op);
            }
            func.body = body;
        }
        let changed = if gates == 0 {
            Changed::No
        } else {
            Changed::Yes
        };
        Ok(Outcome::with(changed, GateReport { gates }))
    }
}

/// Makes the sigmoid of a gate's second operand, and of the gate the product with it.
fn sigmoid_of(func: &mut Func, gate: Op) -> Op {
    let (g, loc) = (func.ops[gate].operands[1], func.ops[gate].loc.clone());
    let ty = func.ty(g).clone();
    let sigmoid = func.make_op(
        Arc::from(Sigmoid::NAME),
        vec![g],
        AttrDict::new(),
        vec![ty],
        loc,
    );
    let data = func.ops[sigmoid].results[0];
    func.ops[gate].operands[1] = data;
    func.ops[gate].name = Arc::from(Mul::NAME);
    sigmoid
}
