//! The rule: a product with a sigmoid is a gate. `canonicalize` applies it.

use crate::Gate;
use optc::Operation;
use optc::ops::{Mul, Sigmoid};
use optc::passes::rules::{LocalRule, Patch, Plan, Refusal, Site, ensure};

/// `mul(x, sigmoid(g)) -> acme.gate(x, g)`, where nothing is broadcast.
#[derive(Clone, Copy, Debug)]
pub struct MakeGates;

impl LocalRule for MakeGates {
    fn name(&self) -> &str {
        "make-gates"
    }

    fn equation(&self) -> &str {
        "mul(x, sigmoid(g)) -> acme.gate(x, g)"
    }

    fn root(&self) -> &str {
        Mul::NAME
    }

    fn plan(&self, site: Site<'_>) -> Result<Plan, Refusal> {
        let sigmoid = site.producer::<Sigmoid>(1)?;
        let (x, g) = (site.operand(0)?, sigmoid.operand(0)?);
        ensure(
            site.func.ty(x) == site.func.ty(g),
            "one of the factors is broadcast",
        )?;
        Ok(Box::new(move |patch: &mut Patch<'_>| {
            let gate = patch.op(&Gate {}, &[x, g])?;
            patch.replace(&[gate]);
            Ok(())
        }))
    }
}
