//! Calls of other computations, and instructions that stay opaque.

use super::func::{FuncCx, Operands};
use super::types::value_type;
use crate::module::Instruction;
use optc_ir::Effect;
use optc_ir::{Attr, AttrDict, Diagnostic, Type, Value};
use optc_layout::XlaShape;
use std::sync::Arc;

type Leaves = Vec<Option<Value>>;

impl<'a> FuncCx<'_, 'a> {
    /// A fusion or a call: an `hbir.call` of the computation's function.
    pub(super) fn calls(
        &mut self,
        made: &Instruction,
        operands: &Operands,
    ) -> Result<Option<Leaves>, Box<Diagnostic>> {
        let attr = match made.opcode {
            "fusion" => "calls",
            "call" => "to_apply",
            _ => return Ok(None),
        };
        let Some(&[callee]) = made.called(attr) else {
            return Ok(None);
        };
        let hlo = self.cx.hlo;
        let computation = &hlo.computations[callee];
        let parameters = computation.parameters();
        let shapes = parameters
            .iter()
            .map(|&p| &*computation.instructions[p].shape);
        let wanted: Vec<Type> = shapes.flat_map(XlaShape::parts).map(value_type).collect();
        let given: Option<Vec<Value>> = operands.iter().flatten().copied().collect();
        let Some(given) = given.filter(|g| g.len() == wanted.len()) else {
            return Err(self.refuse("an operand of a fusion or call is missing"));
        };
        let mut values = Vec::with_capacity(given.len());
        for (value, ty) in given.into_iter().zip(&wanted) {
            values.push(self.coerce(value, ty)?);
        }
        let root = &computation.root().shape;
        let results: Vec<Type> = root.parts().into_iter().map(value_type).collect();
        let name = self.cx.function_name(callee);
        let mut props = AttrDict::new().with("callee", Attr::Symbol(name));
        let effect = self.cx.effects.of_computation(callee);
        if effect != Effect::Pure {
            props.set("effect", Attr::str(effect.name()));
        }
        let loc = self.b.loc.clone();
        let op = self
            .b
            .func
            .push_op("hbir.call", values, props, results, loc);
        for (key, value) in made.attrs.iter().filter(|(key, _)| *key != attr) {
            let key = if key == "kind" { "fusion" } else { key };
            self.b.func.ops[op]
                .attrs
                .set(&format!("hlo.{key}"), Attr::str(value));
        }
        let mut leaves = Vec::new();
        let own: Vec<Type> = made.shape.parts().into_iter().map(value_type).collect();
        for (value, ty) in self.b.func.ops[op].results.clone().into_iter().zip(&own) {
            leaves.push(Some(self.coerce(value, ty)?));
        }
        Ok(Some(leaves))
    }

    /// The instruction as an opaque operation: attributes as text, computations as functions.
    pub(super) fn opaque(
        &mut self,
        index: usize,
        made: &Instruction<'a>,
        operands: &Operands,
    ) -> Result<Leaves, Box<Diagnostic>> {
        *self.cx.opaque.entry(made.opcode).or_insert(0) += 1;
        // A name of MLIR has its dialect before a dot.
        let domain = if made.opcode.contains('.') {
            "mlir"
        } else {
            "hlo"
        };
        let mut props = AttrDict::new()
            .with("kind", Attr::str(made.opcode))
            .with("domain", Attr::str(domain));
        if let Some(effect) = self.cx.effects.of(self.index, index) {
            props.set("effect", Attr::str(effect.name()));
        }
        let shapes: Vec<&XlaShape> = made
            .operands
            .iter()
            .map(|&o| &*self.computation.instructions[o].shape)
            .collect();
        if shapes.iter().any(|s| matches!(s, XlaShape::Tuple(_))) {
            let texts = shapes.iter().map(|s| Attr::str(&s.to_string())).collect();
            props.set("operand_shapes", Attr::Array(texts));
        }
        if matches!(*made.shape, XlaShape::Tuple(_)) {
            props.set("result_shape", Attr::str(&made.shape.to_string()));
        }
        if let Some(payload) = &made.payload {
            props.set("payload", Attr::str(payload));
            if made.opcode == "constant" && payload.contains("...") {
                props.set("elided", Attr::str(&self.cx.elided(&made.name)));
            }
        }
        for (key, text) in made.attrs.iter() {
            let value = match made.called(key) {
                Some(list) => self.symbols(key, list),
                None => Attr::str(text),
            };
            props.set(&format!("hlo.{key}"), value);
        }
        let values: Option<Vec<Value>> = operands.iter().flatten().copied().collect();
        let Some(values) = values else {
            return Err(self.refuse("the context of an asynchronous copy is used as a value"));
        };
        let results: Vec<Type> = made.shape.parts().into_iter().map(value_type).collect();
        let loc = self.b.loc.clone();
        let op = self
            .b
            .func
            .push_op("hbir.opaque", values, props, results, loc);
        Ok(self.b.func.ops[op]
            .results
            .iter()
            .map(|&v| Some(v))
            .collect())
    }

    fn symbols(&mut self, key: &str, list: &[usize]) -> Attr {
        let names: Vec<Arc<str>> = list.iter().map(|&i| self.cx.function_name(i)).collect();
        match &names[..] {
            [only] if !matches!(key, "branch_computations" | "called_computations") => {
                Attr::Symbol(only.clone())
            }
            _ => Attr::Array(names.into_iter().map(Attr::Symbol).collect()),
        }
    }
}
