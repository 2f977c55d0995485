//! Named pipelines.

/// The pipeline named `default`: what a model in and a model out goes through.
pub const DEFAULT: &[&str] = &[
    // A program without parts: what is called is laid out with its callers.
    "inline",
    // One spelling of every rearrangement, and nothing dead, before layouts are chosen.
    "canonicalize",
    // Chooses every layout; what it leaves is final.
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
