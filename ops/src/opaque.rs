//! `hbir.opaque`: an operation that the dialect does not know, from another format. `kind` is its name there, `domain`
//! the namespace of the name; other attributes are kept.
//!
//! It has no semantics, except for operations on sizes, and no pass looks inside. If the kind is known to copy, the
//! bytes that it moves are counted. If the kind is known to work dimension by dimension, layouts are propagated through
//! it, even though its amounts, bounds or axes are known only at run time.

use crate::operator_control::{self, symbol};
use crate::operator_loops;
use crate::operator_rows;
use crate::prelude::*;
use optc_ir::op::{AttrValue, Control};
use optc_ir::types::Type;
use optc_ir::{NewOp, Value};
use std::sync::Arc;

/// The effect that an operation states of itself, as an attribute.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct StatedEffect(pub Effect);

impl AttrValue for StatedEffect {
    const KIND: &'static str = "one of pure, random, read, write, token";
    fn from_attr(attr: &Attr) -> Option<Self> {
        Effect::of_name(attr.as_str()?).map(StatedEffect)
    }
    fn to_attr(&self) -> Attr {
        Attr::str(self.0.name())
    }
}

attributes! {
    /// An operation of another format, unknown here.
    pub struct Opaque {
        /// The name in that format.
        kind: Arc<str>,
        /// The namespace of the name.
        domain: Option<Arc<str>>,
        /// The effect besides the results; any effect when absent.
        effect: Option<StatedEffect> [OPAQUE_C2],
    }
}

impl Operation for Opaque {
    const NAME: &'static str = "hbir.opaque";
    const SUMMARY: &'static str = "an operation of another format, unknown here";
    const FAMILY: &'static str = "barrier";
    const FAMILY_IF_FREE: Option<&'static str> = Some("operator");
    const OPERANDS: (usize, usize) = (0, usize::MAX);
    const MOVES_ONLY: bool = true;
    const STRUCTURE: Structure = Structure::Opaque;
    const OPEN: bool = true;
    const CODES: &'static [Code] = CODES;

    /// C1: `kind` is a name. C2: `effect` is a known effect.
    fn infer(&self, op: &OpRef<'_>) -> Result<Vec<Inferred>, OpError> {
        if self.kind.is_empty() {
            return Err(OpError::new(
                OPAQUE_C1,
                "hbir.opaque wants `kind` = the name of an operation",
            ));
        }
        declared_results(op)
    }

    /// Two kinds of operations on sizes have semantics: the extent of a dimension, and an assertion.
    fn eval(&self, call: &Call<'_>) -> Result<Vec<Tensor>, EvalError> {
        if let Some(extent) = self.extent(call) {
            return Ok(vec![extent]);
        }
        if let ([condition, ..], true) = (call.inputs, asserts(call.op))
            && condition.dtype.is_int()
        {
            let holds = (0..condition.len()).all(|i| condition.i64_at(i) != 0);
            return match holds {
                true => Ok(Vec::new()),
                false => Err(EvalError::stop(format!(
                    "what {} asserts does not hold",
                    self.kind
                ))),
            };
        }
        Err(EvalError::new(format!(
            "the operation {} has no meaning here",
            self.kind
        )))
    }

    fn effect(&self, _: &OpRef<'_>) -> Effect {
        self.effect.map_or(Effect::Write, |stated| stated.0)
    }

    fn iteration_domain(&self, op: &OpRef<'_>) -> Result<IterationDomain, OpError> {
        let domain = match self.domain.as_deref().unwrap_or_default() {
            _ if self.on_rows() => operator_rows::iteration_domain(&self.kind, op)?,
            "" | "ai.onnx" => operator_loops::iteration_domain(&self.kind, op)?,
            _ => IterationDomain::whole(op),
        };
        // No shape rule has checked the stated types, so the dimensions of one loop may have different extents.
        Ok(domain.settled(op))
    }

    fn family_if_free(&self, op: &OpRef<'_>) -> Option<&'static str> {
        match self.on_rows() {
            true => Some(operator_rows::family(&self.kind, op)),
            false => Self::FAMILY_IF_FREE,
        }
    }

    fn over_axes(&self, op: &OpRef<'_>, axes: &Axes<'_>) -> Option<OverAxes> {
        match self.on_rows() {
            true => operator_rows::over_axes(&self.kind, op, axes),
            false => None,
        }
    }

    /// The loops and branches of HLO and of ONNX.
    fn control(&self, op: &OpRef<'_>) -> Option<Control> {
        match self.domain.as_deref().unwrap_or_default() {
            "hlo" => {}
            "" | "ai.onnx" => return operator_control::control(&self.kind, op),
            _ => return None,
        }
        let named = |key: &str| symbol(op.props.get(key)?);
        match &*self.kind {
            "while" => Some(Control::Loop {
                condition: named("hlo.condition")?,
                body: named("hlo.body")?,
            }),
            "conditional" => {
                let functions = match op.props.get("hlo.branch_computations") {
                    Some(Attr::Array(branches)) => branches.iter().map(symbol).collect(),
                    Some(_) => None,
                    None => ["hlo.true_computation", "hlo.false_computation"]
                        .map(named)
                        .into_iter()
                        .collect(),
                };
                functions.map(Control::Branch)
            }
            _ => None,
        }
    }

    /// The bytes that an operator of another format moves, if they are known.
    fn traffic(&self, op: &OpRef<'_>) -> Traffic {
        let kind = &*self.kind;
        let domain = self.domain.as_deref().unwrap_or_default();
        if domain == "com.microsoft.nchwc" && matches!(kind, "ReorderInput" | "ReorderOutput") {
            return if one_pixel(op, kind) {
                Traffic::None
            } else {
                Traffic::Movement
            };
        }
        if !matches!(domain, "" | "ai.onnx") {
            return Traffic::None;
        }
        let all = |types: &[&Type]| {
            types
                .iter()
                .try_fold(0u64, |sum, ty| sum.checked_add(bytes(ty)?))
        };
        let written = all(&op.results);
        match kind {
            "Expand" | "Tile" => Traffic::Expand,
            _ if PICKS.contains(&kind) => copy(written.unwrap_or(0), written.unwrap_or(0)),
            _ if COPIES.contains(&kind) => {
                let read = op.operands.first().and_then(|ty| bytes(ty));
                match read.zip(written) {
                    Some((read, written)) => copy(read, written),
                    None => copy(0, 0),
                }
            }
            _ => Traffic::None,
        }
    }
}

impl Opaque {
    /// An operation of another format with results of these types, for a writer of an operation of one's own. Its effect
    /// is that of the operation which the writer writes.
    ///
    /// - In ONNX it is a node with the operator `kind` of `domain`; an empty domain is that of the standard operators.
    ///   An attribute `onnx.NAME` of it is the attribute `NAME` of the node, and `domain_version` is the version of the
    ///   domain that the model imports, 1 if it is absent.
    /// - In HLO and StableHLO it is a custom call with the target `domain.kind`, or `kind` if the domain is empty. The
    ///   text of its attribute `backend_config` is the configuration.
    /// - In HLO and StableHLO, with the domain `hlo`, it is the instruction `kind`. The text of an attribute `hlo.NAME`
    ///   is the attribute `NAME` of the instruction.
    #[must_use]
    pub fn foreign(
        domain: &str,
        kind: &str,
        operands: &[Value],
        results: Vec<Type>,
    ) -> NewOp<'static> {
        let made = Opaque {
            kind: Arc::from(kind),
            domain: Some(Arc::from(domain)).filter(|_| !domain.is_empty()),
            effect: None,
        };
        NewOp::of(&made, operands).typed(results)
    }

    /// Returns whether this is an operator of onnxruntime that works on rows or on single elements.
    #[must_use]
    pub fn on_rows(&self) -> bool {
        let own = matches!(self.domain.as_deref(), Some("com.microsoft"));
        let norm = &*self.kind == "SimplifiedLayerNormalization";
        (own || norm) && operator_rows::is_known(&self.kind)
    }

    /// The extent of the operand along a dimension, if this is HLO's `get-dimension-size`.
    fn extent(&self, call: &Call<'_>) -> Option<Tensor> {
        let ours = self.domain.as_deref() == Some("hlo") && &*self.kind == "get-dimension-size";
        let ([x], [result]) = (call.inputs, &call.results[..]) else {
            return None;
        };
        let dim = call.op.props.str(DIMENSIONS).filter(|_| ours)?;
        let dim: usize = dim.trim_matches(['{', '}', ' ']).parse().ok()?;
        let extent = i64::try_from(*x.shape.get(dim)?).ok()?;
        let scalar = result.dtype.is_int() && result.shape.is_empty();
        scalar.then(|| Tensor::from_i64(result.dtype, Vec::new(), [extent]))
    }
}

/// Returns whether the operation is an assertion: it has no results, and stops the program if its first operand is
/// false.
fn asserts(op: &OpRef<'_>) -> bool {
    op.props.str(ASSERTS) == Some("true") && op.results.is_empty()
}

/// The attribute of `get-dimension-size` that names the dimension; import keeps it unread.
const DIMENSIONS: &str = "hlo.dimensions";

/// The attribute that marks an operation as an assertion.
const ASSERTS: &str = "hlo.asserts";

/// ONNX operators that copy their first operand: they read all of it.
const COPIES: [&str; 8] = [
    "Concat",
    "ConcatFromSequence",
    "Pad",
    "ReverseSequence",
    "ScatterElements",
    "ScatterND",
    "Split",
    "SplitToSequence",
];

/// ONNX operators that copy a selection: they read as many bytes as they write.
const PICKS: [&str; 5] = ["Compress", "Gather", "GatherElements", "GatherND", "Slice"];

/// A copy of known bytes.
fn copy(read: u64, written: u64) -> Traffic {
    Traffic::Copy(Size::constant(read.into()), Size::constant(written.into()))
}

/// Bytes of a tensor of known extents.
fn bytes(ty: &Type) -> Option<u64> {
    let ty = ty.as_tensor()?;
    let bits = ty.elements()?.checked_mul(u64::from(ty.dtype.bits()))?;
    Some(bits.div_ceil(8))
}

/// The attribute of an operator with channels in the last dimension; import keeps it unread.
const CHANNELS_LAST: &str = "onnx.channels_last";

/// The attribute with the number of channels.
const CHANNELS: &str = "onnx.channels";

/// Returns whether a reordering into blocks of channels moves nothing: there is only one pixel, and the blocks need no
/// padding or there is one sample.
fn one_pixel(op: &OpRef<'_>, kind: &str) -> bool {
    let plain = if kind == "ReorderOutput" {
        op.result(0)
    } else {
        op.operand(0)
    };
    let shape = plain.ok().and_then(TensorType::shape);
    let Some(shape) = shape.filter(|s| 2 <= s.len()) else {
        return false;
    };
    let last = op.props.int(CHANNELS_LAST).is_some_and(|n| n != 0);
    let stated = op.props.int(CHANNELS).and_then(|n| u64::try_from(n).ok());
    let channels = stated.unwrap_or(if last {
        shape[shape.len() - 1]
    } else {
        shape[1]
    });
    let volume = shape.iter().try_fold(1u64, |a, &n| a.checked_mul(n));
    let whole = shape[0] <= 1 || channels.is_multiple_of(8);
    whole && volume.is_some() && volume == shape[0].checked_mul(channels)
}

/// The results as their stated types.
pub(crate) fn declared_results(op: &OpRef<'_>) -> Result<Vec<Inferred>, OpError> {
    let result = |i| {
        let ty = op.result(i)?;
        Ok(Inferred {
            dims: ty.dims.clone(),
            dtype: ty.dtype,
        })
    };
    (0..op.results.len()).map(result).collect()
}

codes! {
    const CODES;

    OPAQUE_C1 = program(
        "`kind` of `hbir.opaque` is empty",
        r#"%0 = "hbir.opaque"(%x) <{kind = ""}> : (tensor<2xf32>) -> tensor<2xf32>"#,
        r#"name the operator that stays opaque, such as `kind = "NonZero"`"#,
    );
    OPAQUE_C2 = program(
        "`effect` of `hbir.opaque` is no known effect",
        r#"%0 = "hbir.opaque"(%x) <{kind = "Foo", effect = "none"}> : (tensor<2xf32>) -> tensor<2xf32>"#,
        r#"use one of the words that the message lists, or leave it out: then the operation may do anything; "pure" does nothing besides"#,
    );
}
