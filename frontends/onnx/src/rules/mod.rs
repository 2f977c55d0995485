//! Translations of ONNX operators, by family.

mod attention;
mod blocks;
mod causal;
mod constant;
mod contract;
mod elementwise;
mod fourier;
mod grouped;
mod index;
mod loss;
mod norm;
mod quantize;
mod recurrent;
mod reduce;
mod shape;
mod window;

use crate::builder::Stop;
use crate::node::{Done, NodeCx};
use indexmap::IndexMap;
use optc_onnx_proto::{AttributeProto, NodeProto};

/// The kind of translation of an operator.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum State {
    /// The operator becomes one operation of the IR.
    Native,
    /// The operator becomes several operations, or is computed away.
    Decomposed,
}

/// The translation of one operator.
#[derive(Clone, Copy)]
pub(crate) struct Rule {
    pub(crate) op_type: &'static str,
    pub(crate) state: State,
    pub(crate) apply: fn(&mut NodeCx<'_, '_>) -> Done,
}

/// A translation to one operation.
const fn native(op_type: &'static str, apply: fn(&mut NodeCx<'_, '_>) -> Done) -> Rule {
    Rule {
        op_type,
        state: State::Native,
        apply,
    }
}

/// A translation to several operations, or to none.
const fn decomposed(op_type: &'static str, apply: fn(&mut NodeCx<'_, '_>) -> Done) -> Rule {
    Rule {
        op_type,
        state: State::Decomposed,
        apply,
    }
}

/// The operators that run graphs. Import converts their graphs to functions before it looks up a rule.
static RUNNERS: &[Rule] = &[
    native("If", runs_graphs),
    native("Loop", runs_graphs),
    native("Scan", runs_graphs),
];

fn runs_graphs(_: &mut NodeCx<'_, '_>) -> Done {
    Err(Stop::opaque("it runs graphs"))
}

/// The rules of the standard operators.
fn standard() -> impl Iterator<Item = &'static Rule> {
    [
        attention::RULES,
        causal::RULES,
        constant::RULES,
        contract::RULES,
        elementwise::RULES,
        fourier::RULES,
        index::RULES,
        loss::RULES,
        norm::RULES,
        quantize::RULES,
        recurrent::RULES,
        reduce::RULES,
        shape::RULES,
        window::RULES,
        RUNNERS,
    ]
    .into_iter()
    .flatten()
}

/// The rules of the operators of `com.microsoft`, which onnxruntime defines.
fn microsoft() -> impl Iterator<Item = &'static Rule> {
    [
        attention::MICROSOFT,
        grouped::MICROSOFT,
        contract::MICROSOFT,
        elementwise::MICROSOFT,
        norm::MICROSOFT,
        quantize::MICROSOFT,
        window::MICROSOFT,
    ]
    .into_iter()
    .flatten()
}

/// Standard operators that stay in one piece if large operators do: a runtime computes them in fewer steps.
const TRANSFORMS: &[&str] = &["DFT", "STFT"];

/// Operators of onnxruntime that stay in one piece if large operators do, even if few operations would replace them.
/// The runtime executes each as one kernel, on weights with fewer bits than those of the operations.
const KEPT: &[&str] = &[
    "BiasGelu",
    "FastGelu",
    "GatherBlockQuantized",
    "Gelu",
    "GroupQueryAttention",
    "MatMulNBits",
    "QuickGelu",
    "SimplifiedLayerNormalization",
    "SkipLayerNormalization",
    "SkipSimplifiedLayerNormalization",
];

/// True if an operator stays in one piece if large operators do.
pub(crate) fn is_kept(node: &NodeProto) -> bool {
    let op_type = &*node.op_type;
    let blocks = |attr: &AttributeProto| attr.name == "block_size" && attr.i != Some(0);
    match &*node.domain {
        // It is in the standard's domain, but not an operator of the standard.
        "" | "ai.onnx" if op_type == "SimplifiedLayerNormalization" => true,
        "" | "ai.onnx" => {
            let blocked = matches!(op_type, "DequantizeLinear" | "QuantizeLinear");
            TRANSFORMS.contains(&op_type) || blocked && node.attribute.iter().any(blocks)
        }
        "com.microsoft" => KEPT.contains(&op_type),
        _ => false,
    }
}

/// Rules by operator, for the standard domain and for `com.microsoft`.
pub(crate) struct Rules {
    standard: IndexMap<&'static str, &'static Rule>,
    microsoft: IndexMap<&'static str, &'static Rule>,
}

impl Rules {
    /// All rules.
    pub(crate) fn new() -> Rules {
        Rules {
            standard: standard().map(|r| (r.op_type, r)).collect(),
            microsoft: microsoft().map(|r| (r.op_type, r)).collect(),
        }
    }

    /// The rule of an operator.
    pub(crate) fn get(&self, domain: &str, op_type: &str) -> Option<&'static Rule> {
        match domain {
            "" | "ai.onnx" => self.standard.get(op_type).copied(),
            "com.microsoft" => self.microsoft.get(op_type).copied(),
            _ => None,
        }
    }
}

/// The operators of `com.microsoft` that import translates, sorted by name.
pub(crate) fn contrib_operators() -> Vec<(&'static str, State)> {
    let mut all: Vec<_> = microsoft().map(|r| (r.op_type, r.state)).collect();
    all.sort_unstable_by_key(|&(name, _)| name);
    all
}

/// The standard operators that import translates, sorted by name; all others stay opaque.
#[must_use]
pub fn operators() -> Vec<(&'static str, State)> {
    let mut all: Vec<_> = standard().map(|r| (r.op_type, r.state)).collect();
    all.sort_unstable_by_key(|&(name, _)| name);
    all
}
