//! `hbir.call`: the results of the function `callee` on the operands. The result types state shapes and element types;
//! the verifier compares them with the function. Interpreters run the function themselves.

use crate::opaque::declared_results;
use crate::prelude::*;
use optc_ir::field_values;
use optc_ir::op::AttrValue;
use std::sync::Arc;

/// The name of a function, as an attribute: `@name`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Symbol(pub Arc<str>);

impl AttrValue for Symbol {
    const KIND: &'static str = "@name";
    fn from_attr(attr: &Attr) -> Option<Self> {
        match attr {
            Attr::Symbol(name) => Some(Symbol(name.clone())),
            _ => None,
        }
    }
    fn to_attr(&self) -> Attr {
        Attr::Symbol(self.0.clone())
    }
}

field_values!(Symbol);

attributes! {
    /// The results of another function.
    pub struct CallOp {
        /// The name of the function.
        callee: Symbol [CALL_C1],
    }
}

impl Operation for CallOp {
    const NAME: &'static str = "hbir.call";
    const SUMMARY: &'static str = "the results of another function";
    const FAMILY: &'static str = "barrier";
    const OPERANDS: (usize, usize) = (0, usize::MAX);
    const MOVES_ONLY: bool = true;
    const STRUCTURE: Structure = Structure::Call;
    const OPEN: bool = true;
    const CODES: &'static [Code] = CODES;

    /// C1: `callee` names a function.
    fn infer(&self, op: &OpRef<'_>) -> Result<Vec<Inferred>, OpError> {
        declared_results(op)
    }

    fn eval(&self, _: &Call<'_>) -> Result<Vec<Tensor>, EvalError> {
        Err(by_the_interpreter())
    }

    /// Any effect: the effect of a call is that of its function, which is known only with the module.
    fn effect(&self, _: &OpRef<'_>) -> Effect {
        Effect::Write
    }
}

/// The error of a call that is evaluated without its module.
pub(crate) fn by_the_interpreter() -> EvalError {
    EvalError::new("a call is run by the interpreter, not by itself")
}

codes! {
    pub(crate) const CODES;

    CALL_C1 = program(
    "the attribute `callee` of `hbir.call` is not the name of a function",
    r#"%0 = "hbir.call"(%x) <{callee = "f"}> : (tensor<2xf32>) -> tensor<2xf32>"#,
    "write the name as a symbol: `callee = @f`",
);
}
