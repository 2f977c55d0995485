//! The pass: writes gates as the operations of the `hbir` dialect, for targets without a kernel.

use crate::Gate;
use optc::ops::{Mul, Sigmoid};
use optc::passes::PassInfo;
use optc::{AttrDict, Changed, Diagnostic, Func, Module, Op, Operation, Pass, PassContext, Phase};
use std::sync::Arc;

static INFO: PassInfo = PassInfo {
    name: "lower-gates",
    summary: "write acme.gate as a sigmoid and a product",
    phases: (Phase::Imported, Phase::Laid),
    required: false,
    options: &[],
};

/// `acme.gate(x, g) -> mul(x, sigmoid(g))`, in the layouts the gate has.
#[derive(Clone, Copy, Debug)]
pub struct LowerGates;

impl Pass for LowerGates {
    fn info(&self) -> &'static PassInfo {
        &INFO
    }

    fn run(&self, module: &mut Module, _: &mut PassContext) -> Result<Changed, Box<Diagnostic>> {
        let mut changed = Changed::No;
        for func in &mut module.funcs {
            let mut body = Vec::with_capacity(func.body.len());
            for op in std::mem::take(&mut func.body) {
                if &*func.ops[op].name == Gate::NAME {
                    body.push(sigmoid_of(func, op));
                    changed = Changed::Yes;
                }
                body.push(op);
            }
            func.body = body;
        }
        Ok(changed)
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
