//! One module of an input and its result.

use optc::passes::Timing;
use optc::{Module, PassContext, Program};

/// One module of the input, before and after the passes.
pub(crate) struct Part {
    pub(crate) before: Program,
    pub(crate) after: Program,
    /// The context the passes ran in, with their remarks and reports.
    pub(crate) cx: PassContext,
    pub(crate) timings: Vec<Timing>,
    /// The input of `view-fold`, if a certificate is requested.
    pub(crate) canonical: Option<Module>,
}
