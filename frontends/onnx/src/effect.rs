//! What operators do besides giving their results.

use optc_ir::Effect;

/// What an operator does besides giving its results: those of the standard are functions of their inputs, or
/// draw at random. Of other domains nothing is known but of those that onnxruntime brings.
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
