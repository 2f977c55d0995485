//! Raises operations that are written in parts: a softmax, a norm, a gate.
//!
//! Example: `exp(x - max x) / sum exp(x - max x)` becomes `softmax(x)`, in every spelling of its broadcasts, its means
//! and its quotients.
//!
//! 1. [`seen`] sees values through broadcasts, reshapes, transposes and casts, and says once what a mean over some axes
//!    is, what a quotient, and what the constant of a broadcast.
//! 2. Each rule says what an operation is in these terms, and names the values that remain operands (leaves).
//! 3. Values between the leaves and the result must have no other readers: these would keep the parts alive, and the
//!    work would be done twice.
//!
//! The numbers of the raised operation are those of its parts within the tolerance of the element type. So a softmax
//! without its maximum is not raised, because its exponentials overflow. Nor is a variance written as the mean of squares
//! less the square of the mean, because its difference cancels.

mod gates;
mod norms;
mod seen;
mod softmax;

use crate::canonicalize::{replaces, resolve, resolve_operands};
use crate::pass::RuleInfo;
use crate::rules::{Patch, Refusal, ensure};
use optc_ir::analysis::Uses;
use optc_ir::entity::{EntityId, SideTable};
use optc_ir::{Dense, Dim, Func, Op, Operation, Registry, Tensor, TensorType, Value};
use optc_ops::{Add, Constant, Div, Erf, Erfc, Exp, LayerNorm, Log, Mul, Pow};
use optc_ops::{Reciprocal, Reshape, RmsNorm, Rsqrt, Sigmoid, Sqrt, Sub, Tanh};
use seen::{Placed, Sight};

/// A rule that raises.
pub(super) struct Raise {
    pub(super) info: RuleInfo<'static>,
    /// The operations that may be the last one.
    roots: &'static [&'static str],
    /// Operations of which the function must have one.
    needs: &'static [&'static str],
    of: fn(&Sight<'_>, Value) -> Result<Raised, Refusal>,
}

/// The rules, in the order in which they are tried.
pub(super) const RAISES: &[Raise] = &[
    Raise {
        info: RuleInfo {
            name: "raise-softmax",
            equation: "(div (exp (sub ?x (max ?x))) (sum (exp (sub ?x (max ?x))))) => (softmax ?x)",
            summary: "exponentials less the maximum, divided by their sum, are a softmax",
        },
        roots: &[Div::NAME, Mul::NAME],
        needs: &[Exp::NAME],
        of: softmax::softmax,
    },
    Raise {
        info: RuleInfo {
            name: "raise-log-softmax",
            equation: "(sub (sub ?x (max ?x)) (log (sum (exp (sub ?x (max ?x)))))) => (log_softmax ?x)",
            summary: "a value less its maximum and less the logarithm of the sum of exponentials is a log-softmax",
        },
        roots: &[Sub::NAME],
        needs: &[Log::NAME],
        of: softmax::log_softmax,
    },
    Raise {
        info: RuleInfo {
            name: "raise-layer-norm",
            equation: "(mul (sub ?x (mean ?x)) (rsqrt (add (mean (square (sub ?x (mean ?x)))) ?epsilon))) => (layer_norm ?x (ones))",
            summary: "a difference from the mean, divided by the root of its mean square, is a layer norm",
        },
        roots: &[Mul::NAME, Div::NAME],
        needs: &[Rsqrt::NAME, Sqrt::NAME, Pow::NAME],
        of: norms::layer_norm,
    },
    Raise {
        info: RuleInfo {
            name: "raise-rms-norm",
            equation: "(mul ?x (rsqrt (add (mean (square ?x)) ?epsilon))) => (rms_norm ?x (ones))",
            summary: "a value divided by the root of its mean square is an RMS norm",
        },
        roots: &[Mul::NAME, Div::NAME],
        needs: &[Rsqrt::NAME, Sqrt::NAME, Pow::NAME],
        of: norms::rms_norm,
    },
    Raise {
        info: RuleInfo {
            name: "norm-takes-scale",
            equation: "(mul (norm ?x (ones)) ?w) => (norm ?x ?w)",
            summary: "a product with a norm that has no scale is the norm with this scale",
        },
        roots: &[Mul::NAME],
        needs: &[LayerNorm::NAME, RmsNorm::NAME],
        of: norms::scale,
    },
    Raise {
        info: RuleInfo {
            name: "norm-takes-bias",
            equation: "(add (layer_norm ?x ?w) ?b) => (layer_norm ?x ?w ?b)",
            summary: "a sum with a layer norm that has no bias is the norm with this bias",
        },
        roots: &[Add::NAME],
        needs: &[LayerNorm::NAME],
        of: norms::bias,
    },
    Raise {
        info: RuleInfo {
            name: "raise-silu",
            equation: "(mul ?x (sigmoid ?x)) => (silu ?x)",
            summary: "a product with the own sigmoid, written in one operation or in parts, is a SiLU",
        },
        roots: &[Mul::NAME, Div::NAME],
        needs: &[Sigmoid::NAME, Exp::NAME],
        of: gates::silu,
    },
    Raise {
        info: RuleInfo {
            name: "raise-sigmoid",
            equation: "(div (one) (add (one) (exp (neg ?x)))) => (sigmoid ?x)",
            summary: "1 / (1 + exp(-x)) is the sigmoid",
        },
        roots: &[Div::NAME, Reciprocal::NAME],
        needs: &[Exp::NAME],
        of: gates::sigmoid,
    },
    Raise {
        info: RuleInfo {
            name: "raise-gelu",
            equation: "(mul (mul (half) ?x) (add (one) (erf (div ?x (root-of-2))))) => (gelu ?x)",
            summary: "a product with the normal distribution function, by erf, erfc, tanh or sigmoid, is a GELU",
        },
        roots: &[Mul::NAME, Div::NAME, Add::NAME],
        needs: &[Erf::NAME, Erfc::NAME, Tanh::NAME, Sigmoid::NAME],
        of: gates::gelu,
    },
];

/// The operands of a raised operation.
pub(super) struct Leaves {
    first: Vec<Value>,
    last: Last,
}

/// The last operand of a raised operation.
enum Last {
    /// It has no further operand.
    None,
    /// Ones for the elements from this dimension on.
    Ones(usize),
    /// A value for the elements from this dimension on.
    Placed(usize, Placed),
}

impl Leaves {
    /// These operands.
    fn of(values: &[Value]) -> Leaves {
        Leaves {
            first: values.to_vec(),
            last: Last::None,
        }
    }

    /// A value, and a scale or ones for its elements along the dimensions from `axis` on.
    fn scaled(x: Value, axis: i64, scale: Option<Placed>) -> Leaves {
        let axis = usize::try_from(axis).unwrap_or(0);
        let last = scale.map_or(Last::Ones(axis), |scale| Last::Placed(axis, scale));
        Leaves {
            first: vec![x],
            last,
        }
    }

    /// The values that remain.
    fn values(&self) -> Vec<Value> {
        let mut values = self.first.clone();
        if let Last::Placed(_, placed) = &self.last {
            values.push(placed.value);
        }
        values
    }

    /// The operands, with a constant or a reshape made where one is needed. `ty` is the type of the result.
    fn operands(self, patch: &mut Patch<'_>, ty: &TensorType) -> Result<Vec<Value>, Refusal> {
        let mut operands = self.first;
        match self.last {
            Last::None => {}
            Last::Ones(axis) => operands.push(patch.op(&ones(ty, axis)?, &[])?),
            Last::Placed(axis, placed) => operands.push(match placed.reshaped {
                true => patch.op(&Reshape::of_dims(&ty.dims[axis..]), &[placed.value])?,
                false => placed.value,
            }),
        }
        Ok(operands)
    }
}

/// A constant of ones in the shape of the last dimensions.
fn ones(ty: &TensorType, axis: usize) -> Result<Constant, Refusal> {
    let dims: Option<Vec<u64>> = ty.dims[axis..].iter().map(Dim::fixed).collect();
    let dims = dims.ok_or(Refusal("a normalized size is unknown"))?;
    let bytes = Tensor::from_f64(ty.dtype, vec![], [1.0]).to_bytes();
    let splat = dims.iter().product::<u64>() != 1;
    let ty = TensorType::fixed(&dims, ty.dtype).into();
    Ok(Constant::dense(Dense { ty, bytes, splat }))
}

/// An axis as an attribute states it.
fn number(axis: usize) -> i64 {
    i64::try_from(axis).unwrap_or(i64::MAX)
}

type Make = Box<dyn FnOnce(&mut Patch<'_>, Leaves, &TensorType) -> Result<Value, Refusal>>;

/// An operation in place of its parts.
pub(super) struct Raised {
    leaves: Leaves,
    make: Make,
}

impl Raised {
    fn new<T: Operation + 'static>(op: T, leaves: Leaves) -> Raised {
        let make: Make = Box::new(move |patch, leaves, ty| {
            let operands = leaves.operands(patch, ty)?;
            patch.op(&op, &operands)
        });
        Raised { leaves, make }
    }
}

/// Raises what is written in parts, from the first operation to the last. Returns whether anything was raised. An
/// operation that is made is not taken for a part of another one: for that the function is read again.
pub(super) fn raise(func: &mut Func, registry: &Registry) -> bool {
    let has = |name: &&str| func.body.iter().any(|&op| *func.ops[op].name == **name);
    let rules = RAISES.iter().filter(|rule| rule.needs.iter().any(has));
    let rules: Vec<&Raise> = rules.collect();
    if rules.is_empty() {
        return false;
    }
    let uses = Uses::of(func);
    let fresh = func.values.len();
    let mut replaced: SideTable<Value, Option<Value>> = SideTable::new(None);
    let mut body = Vec::with_capacity(func.body.len());
    let mut raised = false;
    for op in std::mem::take(&mut func.body) {
        resolve_operands(func, op, &replaced);
        let name = func.ops[op].name.clone();
        let mut own = rules.iter().filter(|rule| rule.roots.contains(&&*name));
        let made = own.find_map(|rule| {
            let made = apply(func, registry, (&uses, fresh), rule, op);
            match &made {
                Ok(_) => tracing::debug!(rule = rule.info.name, %op, "fired"),
                Err(reason) => {
                    tracing::trace!(rule = rule.info.name, %op, reason = reason.0, "refused");
                }
            }
            made.ok()
        });
        let Some((ops, value)) = made else {
            body.push(op);
            continue;
        };
        let old = func.ops[op].results[0];
        replaced[old] = Some(value);
        func.record(old, value);
        body.extend(ops);
        raised = true;
    }
    func.body = body;
    for i in 0..func.results.len() {
        func.results[i] = resolve(func.results[i], &replaced);
    }
    raised
}

/// Makes the operation that a rule raises, and its operands. Returns them, and the value in place of the result.
fn apply(
    func: &mut Func,
    registry: &Registry,
    (uses, fresh): (&Uses, usize),
    rule: &Raise,
    op: Op,
) -> Result<(Vec<Op>, Value), Refusal> {
    let [root] = func.ops[op].results[..] else {
        return Err(Refusal("there are several results"));
    };
    let sight = Sight::of(func, registry, root)
        .ok_or(Refusal("no floats of known sizes without a layout"))?;
    let Raised { leaves, make } = (rule.of)(&sight, root)?;
    let ty = sight.ty.clone();
    alone(func, (uses, fresh), op, &leaves.values())?;
    let mut patch = Patch::new(func, registry, op);
    let value = make(&mut patch, leaves, &ty)?;
    let ops: Vec<Op> = std::mem::take(&mut patch.ops);
    let fits = replaces(func, op, Some(vec![value])).is_ok();
    ensure(fits, "the raised operation has another type")?;
    Ok((ops, value))
}

/// The most operations between leaves and a result.
const MAX_PARTS: usize = 64;

/// Checks that nothing but the operation reads the values between it and the leaves. Constants may have other readers.
fn alone(
    func: &Func,
    (uses, fresh): (&Uses, usize),
    root: Op,
    leaves: &[Value],
) -> Result<(), Refusal> {
    let mut parts = vec![root];
    let mut next = 0;
    while let Some(&op) = parts.get(next) {
        next += 1;
        for value in &func.ops[op].operands {
            let Some(maker) = func.def_op(*value).filter(|_| !leaves.contains(value)) else {
                continue;
            };
            ensure(value.index() < fresh, "a part was just raised")?;
            if !func.ops[maker].operands.is_empty() && !parts.contains(&maker) {
                parts.push(maker);
            }
        }
        ensure(parts.len() <= MAX_PARTS, "there are too many parts")?;
    }
    for &op in &parts[1..] {
        for &value in &func.ops[op].results {
            let inside = uses
                .readers(value)
                .iter()
                .all(|reader| parts.contains(reader));
            ensure(
                inside && !uses.is_returned(value),
                "a part has another reader",
            )?;
        }
    }
    Ok(())
}
