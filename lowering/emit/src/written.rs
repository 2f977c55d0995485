//! Operations whose form in a format is given by a writer of the registry.
//!
//! Example: if a writer of ONNX gives `acme.gate(x, g)` as a product with a sigmoid, the emitter of ONNX gets a module
//! with `hbir.sigmoid` and `hbir.mul` in the place of the gate.

use crate::codes;
use crate::write_op::{OutputFormat, WriteOp, writer};
use indexmap::IndexSet;
use optc_ir::verify::verify;
use optc_ir::{
    Attr, AttrDict, Diagnostic, Func, FuncBuilder, Module, Op, OpError, Operation, Registry,
    Structure, TensorType, Type, Value, ValueDef,
};
use optc_ops::LayoutConvert;
use std::borrow::Cow;
use std::sync::Arc;

/// The most writers that use one another.
const MAX_DEPTH: usize = 16;

/// The mark of an operation that a writer made. Unlike an operator that was read from a model, it is checked.
pub(crate) const MARK: &str = "hbir.written";

/// The module with what the writers of the format make in place of their operations.
pub(crate) fn written<'m>(
    module: &'m Module,
    registry: &Registry,
    format: OutputFormat,
) -> Result<Cow<'m, Module>, Box<Diagnostic>> {
    let has_writer = |func: &Func, op: &Op| writer(registry, &func.ops[*op].name, format).is_some();
    let any = |func: &Func| func.body.iter().any(|op| has_writer(func, op));
    if !module.funcs.iter().any(any) {
        return Ok(Cow::Borrowed(module));
    }
    let mut module = module.clone();
    for func in &mut module.funcs {
        let mut writing = Writing { registry, format };
        for op in std::mem::take(&mut func.body) {
            writing.operation(func, op, 0)?;
        }
    }
    Ok(Cow::Owned(module))
}

struct Writing<'r> {
    registry: &'r Registry,
    format: OutputFormat,
}

impl Writing<'_> {
    /// Appends an operation, or what its writer makes of it.
    fn operation(&mut self, func: &mut Func, op: Op, depth: usize) -> Result<(), Box<Diagnostic>> {
        let Some(writer) = writer(self.registry, &func.ops[op].name, self.format) else {
            func.body.push(op);
            return Ok(());
        };
        let error = |func: &Func, error: OpError| {
            let data = &func.ops[op];
            let mut diag = Diagnostic::from(error);
            let format = self.format;
            diag.message = format!(
                "{} cannot be written in {format}: {}",
                data.name, diag.message
            );
            Box::new(diag.at(data.span, "this operation").of(data.loc.names()))
        };
        if depth == MAX_DEPTH {
            let message = format!("{MAX_DEPTH} writers use one another");
            return Err(error(func, OpError::new(codes::WRITER_RESULT, message)));
        }
        let made = self.made(func, op, writer).map_err(|e| error(func, e))?;
        for new in self.placed(func, op, &made) {
            self.operation(func, new, depth + 1)?;
        }
        Ok(())
    }

    /// The function that a writer makes of an operation: it has the operands as arguments.
    fn made(&self, func: &Func, op: Op, writer: &dyn WriteOp) -> Result<Func, OpError> {
        let data = &func.ops[op];
        let mut b = FuncBuilder::named(&data.name, self.registry);
        b.loc = data.loc.clone();
        let seen = func.op_ref(op);
        let operands = seen.operands.iter().enumerate();
        let operands: Vec<Value> = operands
            .map(|(i, ty)| b.arg(&format!("operand{i}"), (*ty).clone()))
            .collect();
        let results = writer.write(&seen, &operands, &mut b)?;
        if results.len() != seen.results.len() {
            let (found, wanted) = (results.len(), seen.results.len());
            let message = format!("its writer gives {found} results, wanted {wanted}");
            return Err(OpError::new(codes::WRITER_RESULT, message));
        }
        let module = b.finish(&results);
        verify(&module, self.registry).map_err(|diags| match diags.into_iter().next() {
            Some(diag) => OpError {
                code: diag.code,
                message: format!("what its writer makes is not well formed: {}", diag.message),
                hint: None,
            },
            None => OpError::new(codes::WRITER_RESULT, "its writer gives nothing"),
        })?;
        let made = module.funcs.into_iter().next().unwrap_or_default();
        for (i, (&value, &wanted)) in made.results.iter().zip(&seen.results).enumerate() {
            let found = made.ty(value);
            if !is_same(found, wanted) {
                let show = optc_ir::text::print_type;
                let (found, wanted) = (show(found), show(wanted));
                let message = format!("its writer gives {found} as result {i}, wanted {wanted}");
                return Err(OpError::new(codes::WRITER_RESULT, message));
            }
        }
        Ok(made)
    }

    /// Makes the operations of a writer in the function of the operation. The values that the operation has as results
    /// are those of the new operations.
    fn placed(&self, func: &mut Func, op: Op, made: &Func) -> Vec<Op> {
        let old = func.ops[op].clone();
        let effect = self.registry.effect(&func.op_ref(op));
        // The results that a new operation itself has; a conversion makes the others.
        let mut own: IndexSet<Value> = IndexSet::new();
        let direct: Vec<bool> = (made.results.iter())
            .map(|&value| {
                let maker = made.def_op(value).map(|op| &made.ops[op]);
                let view = |name: &str| self.registry.structure(name) == Structure::View;
                maker.is_some_and(|maker| !view(&maker.name)) && own.insert(value)
            })
            .collect();
        let mut here: indexmap::IndexMap<Value, Value> =
            made.args.iter().copied().zip(old.operands).collect();
        let mut placed = Vec::with_capacity(made.body.len());
        for &new in &made.body {
            let data = &made.ops[new];
            let operands: Vec<Value> = data.operands.iter().map(|v| here[v]).collect();
            let types = self.types(func, made, new, &operands);
            let mut props = data.props.clone();
            let opaque = self.registry.structure(&data.name) == Structure::Opaque;
            if opaque && props.get("effect").is_none() {
                props.set("effect", Attr::str(effect.name()));
            }
            let (name, loc) = (data.name.clone(), data.loc.clone());
            let op = func.make_op(name, operands, props, types, loc);
            func.ops[op].span = old.span;
            func.ops[op].attrs = data.attrs.clone().with(MARK, Attr::Unit);
            for (&from, &to) in data.results.iter().zip(&func.ops[op].results) {
                here.insert(from, to);
            }
            for (i, &value) in made.results.iter().enumerate() {
                let at = data.results.iter().position(|&v| v == value);
                if let Some(at) = at.filter(|_| direct[i]) {
                    here.insert(value, old.results[i]);
                    give(func, op, at, old.results[i]);
                }
            }
            placed.push(op);
        }
        for (i, &value) in made.results.iter().enumerate() {
            if direct[i] {
                continue;
            }
            let ty = func.ty(old.results[i]).clone();
            let name = Arc::from(LayoutConvert::NAME);
            let from = vec![here[&value]];
            let op = func.make_op(name, from, AttrDict::new(), vec![ty], old.loc.clone());
            give(func, op, 0, old.results[i]);
            placed.push(op);
        }
        // Attributes that formats keep beside an operation, such as its sharding, belong to the operation that makes the result.
        if let Some(last) = placed.last() {
            let attrs = old.attrs.iter();
            for (key, attr) in attrs {
                func.ops[*last].attrs.set(key, attr.clone());
            }
        }
        placed
    }

    /// The types of the results of an operation that a writer made. An element-wise one that states no layouts has that
    /// of its first operand of the same type: it moves nothing.
    fn types(&self, func: &Func, made: &Func, op: Op, operands: &[Value]) -> Vec<Type> {
        let seen = made.op_ref(op);
        let elementwise = self
            .registry
            .get(seen.name)
            .is_some_and(|decl| decl.family_of(&seen) == "elementwise");
        let laid = |ty: &TensorType| {
            let mut from = operands.iter().filter_map(|&v| func.ty(v).as_tensor());
            from.find(|from| elementwise && from.without_layout() == *ty)
                .cloned()
        };
        let ty = |ty: &&Type| match ty.as_tensor().and_then(laid) {
            Some(laid) => laid.into(),
            None => (*ty).clone(),
        };
        seen.results.iter().map(ty).collect()
    }
}

/// Makes a value result `at` of an operation, in place of the one that it has.
fn give(func: &mut Func, op: Op, at: usize, value: Value) {
    func.ops[op].results[at] = value;
    func.values[value].def = ValueDef::Result(op, at);
}

/// Returns whether two types are equal, except for layouts.
fn is_same(found: &Type, wanted: &Type) -> bool {
    match (found.as_tensor(), wanted.as_tensor()) {
        (Some(found), Some(wanted)) => found.without_layout() == wanted.without_layout(),
        _ => found == wanted,
    }
}
