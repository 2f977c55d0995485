//! What the functions of a module share.

use super::files::Files;
use super::shape::is_dtype;
use indexmap::IndexMap;
use optc_ir::{Attr, Diagnostic, Registry};

/// What all functions share.
pub(super) struct Shared {
    pub(super) registry: Registry,
    /// Whether XLA is to assign the layouts of instructions: before that it takes no bitcasts.
    pub(super) logical: bool,
    /// The computation that each function becomes.
    pub(super) names: IndexMap<String, String>,
    /// Reducers by name.
    pub(super) reducers: IndexMap<String, String>,
    /// The data of constants.
    pub(super) files: Files,
    pub(super) warnings: Vec<Diagnostic>,
}

impl Shared {
    /// The name of the computation that combines two numbers of an element type.
    pub(super) fn reducer(&mut self, opcode: &str, dtype: &str) -> String {
        let name = format!("{opcode}_{dtype}");
        self.reducers.entry(name.clone()).or_insert_with(|| {
            format!(
                "%{name} (lhs: {dtype}[], rhs: {dtype}[]) -> {dtype}[] {{\n  \
                 %lhs = {dtype}[] parameter(0)\n  %rhs = {dtype}[] parameter(1)\n  \
                 ROOT %{opcode} = {dtype}[] {opcode}(%lhs, %rhs)\n}}\n"
            )
        });
        name
    }

    /// The symbols an attribute names, as computations.
    pub(super) fn computations(&self, attr: &Attr) -> Option<String> {
        let name = |attr: &Attr| match attr {
            Attr::Symbol(name) => self.names.get(&**name).map(|n| format!("%{n}")),
            _ => None,
        };
        match attr {
            Attr::Array(items) => {
                let names: Vec<String> = items.iter().map(name).collect::<Option<_>>()?;
                Some(format!("{{{}}}", names.join(", ")))
            }
            single => name(single),
        }
    }
}

/// A name of HLO text.
pub(super) fn sanitized(name: &str) -> String {
    let fits = |c: char| c.is_ascii_alphanumeric() || matches!(c, '_' | '.' | '-');
    let mut out: String = name
        .chars()
        .map(|c| if fits(c) { c } else { '_' })
        .collect();
    if !out.starts_with(|c: char| c.is_ascii_alphabetic() || c == '_') {
        out.insert(0, '_');
    }
    let dtype = is_dtype(&out);
    if dtype || out.ends_with('-') {
        out.push('_');
    }
    out
}
