//! Strictness: the treatment of unknown attributes.

/// The strictness with which a text is read.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Strictness {
    /// Attributes that this version does not know are kept with a warning.
    #[default]
    KeepUnknown,
    /// They are errors, as in XLA's own parser.
    Exact,
}
