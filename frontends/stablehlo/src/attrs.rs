//! Attributes of operations of StableHLO: those that an operation needs, fields, and lists in the form of HLO text.

use crate::codes;
use optc_mlir_syntax::{Op, Parsed, int, ints, last_word, symbol, wrong};

/// Attributes of an operation of StableHLO.
pub(crate) trait Attributes<'a> {
    /// The name of the function that the operation calls.
    fn callee(&self) -> Option<&'a str>;
    /// The direction of a comparison.
    fn direction(&self) -> Option<&'a str>;
    /// A required attribute.
    fn needs(&self, names: &[&str]) -> Parsed<&'a str>;
    /// A required list of numbers.
    fn needs_ints(&self, names: &[&str]) -> Parsed<Vec<i64>>;
    /// A required number.
    fn needs_int(&self, names: &[&str]) -> Parsed<i64>;
    /// The error for an attribute with a wrong value.
    fn bad(&self, names: &[&str], text: &str) -> Box<optc_ir::Diagnostic>;
}

impl<'a> Attributes<'a> for Op<'a> {
    fn callee(&self) -> Option<&'a str> {
        self.attr("callee").map(symbol)
    }

    fn direction(&self) -> Option<&'a str> {
        let stated = self.attr("comparison_direction");
        stated.or_else(|| self.attr("word")).map(last_word)
    }

    fn needs(&self, names: &[&str]) -> Parsed<&'a str> {
        let found = names.iter().find_map(|name| self.attr(name));
        found.ok_or_else(|| {
            let wanted = names.join("` or `");
            let message = format!("`{}` lacks the attribute `{wanted}`", self.name);
            wrong(codes::STABLEHLO_ATTRIBUTE, message, self.span)
        })
    }

    fn needs_ints(&self, names: &[&str]) -> Parsed<Vec<i64>> {
        let text = self.needs(names)?;
        ints(text).ok_or_else(|| self.bad(names, text))
    }

    fn needs_int(&self, names: &[&str]) -> Parsed<i64> {
        let text = self.needs(names)?;
        int(text).ok_or_else(|| self.bad(names, text))
    }

    fn bad(&self, names: &[&str], text: &str) -> Box<optc_ir::Diagnostic> {
        let name = names.first().copied().unwrap_or("");
        let text = optc_mlir_syntax::shortened(text);
        let message = format!("`{}`: found `{text}` for `{name}`", self.name);
        wrong(codes::STABLEHLO_ATTRIBUTE, message, self.span)
    }
}

/// The value of a field in `#stablehlo.gather<a = [1], b = 2>`; for a list, the text between its brackets.
pub(crate) fn field<'t>(text: &'t str, name: &str) -> Option<&'t str> {
    let mut rest = text;
    loop {
        let at = rest.find(name)?;
        let before = rest[..at].chars().next_back();
        let after = rest[at + name.len()..].trim_start();
        let whole = !before.is_some_and(|c| c.is_alphanumeric() || c == '_');
        if let Some(value) = after.strip_prefix('=').filter(|_| whole) {
            let value = value.trim_start();
            if value.starts_with('[') {
                return value.find(']').and_then(|end| value.get(..=end));
            }
            let end = value.find([',', '>', '}']).unwrap_or(value.len());
            return value.get(..end).map(str::trim);
        }
        rest = &rest[at + name.len()..];
    }
}

/// A field that is a list; empty if the field is absent.
pub(crate) fn field_ints(text: &str, name: &str) -> Option<Vec<i64>> {
    field(text, name).map_or(Some(Vec::new()), ints)
}

/// Numbers in the form of lists in HLO text.
pub(crate) fn braces(list: &[i64]) -> String {
    let texts: Vec<String> = list.iter().map(i64::to_string).collect();
    format!("{{{}}}", texts.join(","))
}

/// Numbers in the form of windows in HLO text.
pub(crate) fn times(list: &[i64]) -> String {
    let texts: Vec<String> = list.iter().map(i64::to_string).collect();
    texts.join("x")
}
