//! The rule: a product with a sigmoid is a gate. `canonicalize` applies it.

use optc::passes::rules::Rewrite;

/// `x * sigmoid(g)` is `acme.gate(x, g)`, where nothing is broadcast.
///
/// # Panics
/// Never: the text is an equation, and its names are known.
#[must_use]
pub fn make_gates() -> Rewrite {
    Rewrite::new(
        "make-gates",
        "(mul ?x (sigmoid ?g)) => (acme.gate ?x ?g) if (same-type ?x ?g)",
        "a product with a sigmoid is a gate",
        &[],
    )
    .expect("an equation between operations")
}
