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

/// The line and the column, in characters, of a byte; both count from 1.
pub(crate) fn line_column(source: &str, offset: u32) -> (usize, usize) {
    let mut end = (offset as usize).min(source.len());
    while !source.is_char_boundary(end) {
        end -= 1;
    }
    let head = &source[..end];
    let start = head.rfind('\n').map_or(0, |at| at + 1);
    (
        head.matches('\n').count() + 1,
        head[start..].chars().count() + 1,
    )
}
