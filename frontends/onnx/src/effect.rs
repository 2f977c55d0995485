//! Effects of operators.

use optc_ir::Effect;

/// The effect of an operator. Standard operators are functions of their inputs or draw random numbers. Of other domains
/// only the operators of onnxruntime are known.
pub(crate) fn effect(domain: &str, kind: &str) -> Option<Effect> {
    let random = kind.starts_with("Random") || matches!(kind, "Bernoulli" | "Multinomial");
    let known =
        domain.is_empty() || domain.starts_with("ai.onnx") || domain.starts_with("com.microsoft");
    match (random, known) {
        (true, _) => Some(Effect::Random),
        (false, true) => Some(Effect::Pure),
        (false, false) => None,
    }
}
