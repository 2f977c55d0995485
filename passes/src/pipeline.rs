//! Named pipelines.

/// The passes of the pipeline named `default`, which takes a model as input and gives a model as output.
pub const DEFAULT: &[&str] = &[
    // Puts functions in place of their calls, so that they are laid out with their callers.
    "inline",
    // One spelling of every rearrangement, and no dead operations, before layouts are chosen.
    "canonicalize",
    // Chooses every layout; the result is final.
    "view-fold",
];

/// Every named pipeline with its passes, sorted by name.
pub const NAMED: &[(&str, &[&str])] = &[("default", DEFAULT)];

/// The passes of a pipeline of this name.
#[must_use]
pub fn named(name: &str) -> Option<&'static [&'static str]> {
    let found = NAMED.iter().find(|(known, _)| *known == name);
    found.map(|(_, passes)| *passes)
}
