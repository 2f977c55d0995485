//! The bodies that named operations mean.

use optc_mlir_syntax::{Op, Region, Use};

/// The names of the arguments of a body that is made: the elements of the operands, that of the result last.
const ARGS: [&str; 4] = ["in0", "in1", "in2", "in3"];

/// The names of the values in a body that is made.
const VALUES: [&str; 4] = ["made0", "made1", "made2", "made3"];

/// An element-wise operation on floats and on integers.
#[rustfmt::skip]
const ELEMENTWISE: &[(&str, &str, &str)] = &[
    ("abs", "math.absf", "math.absi"),
    ("add", "arith.addf", "arith.addi"),
    ("ceil", "math.ceil", ""),
    ("div", "arith.divf", "arith.divsi"),
    ("erf", "math.erf", ""),
    ("exp", "math.exp", ""),
    ("floor", "math.floor", ""),
    ("log", "math.log", ""),
    ("max", "arith.maximumf", "arith.maxsi"),
    ("min", "arith.minimumf", "arith.minsi"),
    ("mul", "arith.mulf", "arith.muli"),
    ("negf", "arith.negf", ""),
    ("powf", "math.powf", ""),
    ("rsqrt", "math.rsqrt", ""),
    ("select", "arith.select", "arith.select"),
    ("sqrt", "math.sqrt", ""),
    ("sub", "arith.subf", "arith.subi"),
    ("tanh", "math.tanh", ""),
];

/// A body under construction.
struct Body<'a> {
    args: Vec<(&'a str, &'a str)>,
    ops: Vec<Op<'a>>,
}

impl<'a> Body<'a> {
    /// Adds an operation with a result of type `to`; returns the name of the result.
    fn op(&mut self, name: &'a str, operands: &[&'a str], to: &'a str) -> Option<&'a str> {
        let result = *VALUES.get(self.ops.len())?;
        let types = operands.iter().map(|name| self.ty(name)).collect();
        self.ops.push(Op {
            name,
            results: vec![(result, 1)],
            operands: operands.iter().map(|name| used(name)).collect(),
            operand_types: types,
            result_types: vec![to],
            ..Op::default()
        });
        Some(result)
    }

    fn ty(&self, name: &str) -> &'a str {
        let arg = self.args.iter().find(|(arg, _)| *arg == name);
        let made = self
            .ops
            .iter()
            .find(|op| op.results.iter().any(|(own, _)| *own == name));
        arg.map_or_else(|| made.map_or("", |op| op.result_types[0]), |(_, ty)| *ty)
    }

    fn finish(mut self, value: &'a str) -> Region<'a> {
        self.ops.push(Op {
            name: "linalg.yield",
            operands: vec![used(value)],
            ..Op::default()
        });
        Region {
            args: self.args,
            ops: self.ops,
            free: Vec::new(),
        }
    }
}

fn used(name: &str) -> Use<'_> {
    Use {
        name,
        part: 0,
        span: optc_ir::Span::default(),
    }
}

/// The element type of a tensor.
fn element(ty: &str) -> &str {
    let inner = ty.strip_prefix("tensor<").and_then(|t| t.strip_suffix('>'));
    inner.map_or(ty, |inner| inner.rsplit('x').next().unwrap_or(inner))
}

fn is_float(ty: &str) -> bool {
    ty.starts_with('f') || ty.starts_with("bf")
}

/// The body with an argument for each operand.
fn begun<'a>(op: &Op<'a>, count: usize) -> Option<Body<'a>> {
    let types = op.operand_types.iter().take(count).map(|ty| element(ty));
    let args: Vec<(&str, &str)> = ARGS.into_iter().zip(types).collect();
    (args.len() == count).then_some(Body {
        args,
        ops: Vec::new(),
    })
}

/// The body of a reduction or of a map by one operation.
pub(crate) fn combining<'a>(op: &Op<'a>, name: &'a str) -> Option<Region<'a>> {
    let count = op.operand_types.len();
    let own = if op.name == "linalg.map" {
        count - 1
    } else {
        count
    };
    let mut body = begun(op, own)?;
    let to = element(op.operand_types.last()?);
    let operands: Vec<&str> = body.args.iter().map(|(name, _)| *name).collect();
    let value = body.op(name, &operands, to)?;
    Some(body.finish(value))
}

/// The body of a named operation; `None` if its name has no body here.
pub(crate) fn body<'a>(op: &Op<'a>) -> Option<Region<'a>> {
    let name = op.name.strip_prefix("linalg.")?;
    let count = op.operand_types.len();
    let mut body = begun(op, count)?;
    let (out, to) = *body.args.last()?;
    let float = is_float(to);
    let by = |floats: &'static str, integers: &'static str| if float { floats } else { integers };
    let add = by("arith.addf", "arith.addi");
    if let Some((_, floats, integers)) = ELEMENTWISE.iter().find(|(own, ..)| *own == name) {
        let operands: Vec<&str> = ARGS[..count - 1].to_vec();
        let value = body.op(by(floats, integers), &operands, to)?;
        return Some(body.finish(value));
    }
    if name.starts_with("pooling_") {
        let combine = match name.rsplit('_').next()? {
            "max" => by("arith.maximumf", "arith.maxsi"),
            "min" => by("arith.minimumf", "arith.minsi"),
            "sum" => add,
            _ => return None,
        };
        let value = body.op(combine, &[out, ARGS[0]], to)?;
        return Some(body.finish(value));
    }
    if name == "copy" {
        return Some(body.finish(ARGS[0]));
    }
    // All other named operations that are read are sums of products.
    if count != 3 || !crate::named::is_named(name) {
        return None;
    }
    let mut factors = [ARGS[0], ARGS[1]];
    for factor in &mut factors {
        let from = body.ty(factor);
        if from != to {
            *factor = body.op(by("arith.extf", "arith.extsi"), &[*factor], to)?;
        }
    }
    let product = body.op(by("arith.mulf", "arith.muli"), &factors, to)?;
    let value = body.op(add, &[out, product], to)?;
    Some(body.finish(value))
}
