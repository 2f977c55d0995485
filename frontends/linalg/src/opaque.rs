//! Operations that are not understood: they stay as text between row-major values.
//!
//! An `hbir.opaque` of the domain `mlir` has the text of the operation in `mlir.text`: `%{0}` is an operand, `%{=0}` a
//! value defined inside. The operations that compute numbers for it are in `mlir.before`, each with the number `%{~0}`
//! that it defines.

use crate::codes;
use crate::func::{FuncCx, Val, text};
use crate::types::Ty;
use indexmap::IndexMap;
use optc_ir::{Attr, AttrDict, Effect, NewOp, Operation, Value};
use optc_mlir_syntax::{Op, Parsed, Region, Use, verbatim, wrong};
use optc_ops::Opaque;
use std::fmt::Write as _;

/// The most operations that compute numbers for one operation.
const MOST_BEFORE: usize = 256;

/// The longest chain of operations that compute numbers for one another.
const LONGEST_CHAIN: usize = 64;

/// Dialects whose operations have no effect besides their results, if those in their regions have none.
const PURE: [&str; 6] = ["arith", "complex", "linalg", "math", "tensor", "scf"];

/// An operation under construction: its operands, and the operations before it.
#[derive(Default)]
struct Text {
    operands: Vec<Value>,
    before: Vec<String>,
    /// The number of the result of each operation before it, by the name of the value.
    numbers: IndexMap<String, usize>,
    /// The number of values that are defined inside.
    locals: usize,
    /// The number of readers of numbers whose text is being made.
    depth: usize,
}

impl<'a, 'm> FuncCx<'a, 'm>
where
    'm: 'a,
{
    /// An operation as it is: a number that its readers compute, or an opaque operation.
    pub(crate) fn kept(&mut self, op: &'m Op<'a>) -> Parsed<Vec<Val<'a>>> {
        let pure = is_pure(op);
        if let ([one], true) = (&op.result_types[..], pure)
            && matches!(self.ty(one), Ty::Scalar(_))
        {
            return Ok(vec![Val::Computed(op)]);
        }
        let Some(types) = self.tensor_types(op) else {
            let types = op.result_types.join(", ");
            let message = format!("`{}` gives {types}, wanted tensors of known sizes", op.name);
            return Err(wrong(codes::LINALG_TYPE, message, op.span));
        };
        let mut made = Text::default();
        let main = self.copied(&mut made, op)?;
        *self.opaque.entry(op.name.to_owned()).or_insert(0) += 1;
        let mut props = AttrDict::new()
            .with("kind", Attr::str(op.name))
            .with("domain", Attr::str("mlir"))
            .with("mlir.text", text(&main));
        if pure {
            props.set("effect", Attr::str(Effect::Pure.name()));
        }
        if !made.before.is_empty() {
            let before = made.before.iter().map(|t| Attr::str(t)).collect();
            props.set("mlir.before", Attr::Array(before));
        }
        let op = NewOp::new(Opaque::NAME, &made.operands, props).typed(types);
        let values = self.b.add(op).map_err(|e| {
            let message = format!("an operation cannot be kept: {e}");
            wrong(codes::LINALG_TYPE, message, optc_ir::Span::default())
        })?;
        Ok(values.into_iter().map(Val::Tensor).collect())
    }

    /// The text of an operation with numbers for its values. Operations that compute its numbers come before it.
    fn copied(&mut self, out: &mut Text, op: &'m Op<'a>) -> Parsed<String> {
        let found = verbatim(op, self.aliases, &crate::syntax::MLIR, |_| false);
        if found.text.contains("dense_resource<") {
            let message = format!(
                "`{}` has elements beside it, wanted them in a constant",
                op.name
            );
            return Err(wrong(codes::LINALG_CONSTANT, message, op.span));
        }
        let mut names = Vec::with_capacity(found.operands.len());
        for used in &found.operands {
            names.push(self.named(out, used, op)?);
        }
        let first = out.locals;
        let mut text = String::with_capacity(found.text.len());
        let mut pieces = found.text.split("%{");
        text.push_str(pieces.next().unwrap_or(""));
        for piece in pieces {
            let (number, rest) = piece.split_once('}').unwrap_or(("", piece));
            match number.strip_prefix('=').map(str::parse::<usize>) {
                Some(Ok(local)) => {
                    out.locals = out.locals.max(first + local + 1);
                    let _ = write!(text, "%{{={}}}", first + local);
                }
                _ => {
                    let name = number.parse().ok().and_then(|n: usize| names.get(n));
                    text.push_str(name.map_or("", String::as_str));
                }
            }
            text.push_str(rest);
        }
        Ok(text.replace('\n', " "))
    }

    /// The name of an operand in the text: a value of the IR, or a number that is computed before.
    fn named(&mut self, out: &mut Text, used: &Use<'a>, reader: &Op<'a>) -> Parsed<String> {
        let val = self.val(used)?.clone();
        let key = format!("{}#{}", used.name, used.part);
        if let Some(number) = out.numbers.get(&key) {
            return Ok(format!("%{{~{number}}}"));
        }
        out.depth += 1;
        if LONGEST_CHAIN < out.depth {
            let message = format!(
                "`{}` reads a number at the end of a long chain",
                reader.name
            );
            return Err(wrong(codes::LINALG_TYPE, message, reader.span));
        }
        let text = match val {
            Val::Number(_, op) | Val::Computed(op) => self.copied(out, op)?,
            Val::Empty(shape, dtype) => {
                let dims: String = shape.iter().map(|n| format!("{n}x")).collect();
                format!("\"tensor.empty\"() : () -> tensor<{dims}{dtype}>")
            }
            Val::Tensor(_) | Val::Splat(_) | Val::Parts(_) => {
                let value = self.tensor(used)?;
                let value = value.ok_or_else(|| {
                    let message = format!("an operand of `{}` cannot be kept", reader.name);
                    wrong(codes::LINALG_TYPE, message, reader.span)
                })?;
                let found = out.operands.iter().position(|&v| v == value);
                let number = found.unwrap_or_else(|| {
                    out.operands.push(value);
                    out.operands.len() - 1
                });
                out.depth -= 1;
                return Ok(format!("%{{{number}}}"));
            }
        };
        out.depth -= 1;
        if MOST_BEFORE <= out.before.len() {
            let message = format!("`{}` reads numbers of too many operations", reader.name);
            return Err(wrong(codes::LINALG_TYPE, message, reader.span));
        }
        let number = out.before.len();
        out.before.push(text);
        out.numbers.insert(key, number);
        Ok(format!("%{{~{number}}}"))
    }
}

/// Returns whether an operation has no effect besides its results.
fn is_pure(op: &Op<'_>) -> bool {
    fn region(region: &Region<'_>) -> bool {
        region.ops.iter().all(is_pure)
    }
    let dialect = op.name.split('.').next().unwrap_or("");
    PURE.contains(&dialect) && op.regions.iter().all(region)
}
