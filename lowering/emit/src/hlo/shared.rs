//! What the functions of a module share.

use super::files::Files;
use super::shape::{dtype_name, is_dtype};
use indexmap::IndexMap;
use optc_ir::{Attr, DType, Diagnostic, Registry};
use std::fmt::Write;

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

    /// The name of the computation that takes the second of two numbers.
    pub(super) fn second(&mut self, dtype: &str) -> String {
        let name = format!("second_{dtype}");
        self.reducers.entry(name.clone()).or_insert_with(|| {
            format!(
                "%{name} (lhs: {dtype}[], rhs: {dtype}[]) -> {dtype}[] {{\n  \
                 %lhs = {dtype}[] parameter(0)\n  ROOT %rhs = {dtype}[] parameter(1)\n}}\n"
            )
        });
        name
    }

    /// The name of the computation that says whether a number, which comes with its place, is sorted before
    /// another: greater ones where `greatest`, else less ones. NaN is greater than any.
    pub(super) fn before(&mut self, dtype: DType, places: DType, greatest: bool) -> String {
        let (kind, places) = (dtype_name(dtype), dtype_name(places));
        let (word, direction) = if greatest {
            ("greater", "GT")
        } else {
            ("less", "LT")
        };
        let name = format!("{word}_{kind}_{places}");
        let float = dtype.is_float();
        self.reducers.entry(name.clone()).or_insert_with(|| {
            let compare = |name: &str, a: &str, b: &str, how: &str| {
                format!("%{name} = pred[] compare(%{a}, %{b}), direction={how}\n")
            };
            let mut out = format!(
                "%{name} (a: {kind}[], b: {kind}[], i: {places}[], j: {places}[]) -> pred[] {{\n  \
                 %a = {kind}[] parameter(0)\n  %b = {kind}[] parameter(1)\n  \
                 %i = {places}[] parameter(2)\n  %j = {places}[] parameter(3)\n  "
            );
            if float {
                // The one that goes first where exactly one is NaN.
                let (nan, number) = if greatest { ("a", "b") } else { ("b", "a") };
                out.push_str(&compare("order", "a", "b", direction));
                let _ = write!(out, "  {}", compare("odd", nan, nan, "NE"));
                let _ = write!(out, "  {}", compare("plain", number, number, "EQ"));
                out.push_str("  %one = pred[] and(%odd, %plain)\n  ROOT %before = pred[] or(%order, %one)\n}\n");
            } else {
                let _ = writeln!(out, "ROOT {}}}", compare("order", "a", "b", direction));
            }
            out
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
