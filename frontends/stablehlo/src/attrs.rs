//! Attributes as numbers: in the printed form `[1, 2]`, in the generic form `array<i64: 1, 2>` or `dense<[1, 2]> : …`.

use crate::codes;
use crate::cursor::{Parsed, wrong};
use crate::tree::Op;

/// The most numbers that one splat is expanded to.
const MOST: usize = 256;

/// The name of a function from its form in operations, `@f` or `@"f"`.
pub(crate) fn symbol(text: &str) -> &str {
    text.trim_start_matches('@').trim_matches('"')
}

impl<'a> Op<'a> {
    /// The name of the function that the operation calls.
    pub(crate) fn callee(&self) -> Option<&'a str> {
        self.attr("callee").map(symbol)
    }

    /// The direction of a comparison.
    pub(crate) fn direction(&self) -> Option<&'a str> {
        let stated = self.attr("comparison_direction");
        stated.or_else(|| self.attr("word")).map(last_word)
    }

    /// A required attribute.
    pub(crate) fn needs(&self, names: &[&str]) -> Parsed<&'a str> {
        let found = names.iter().find_map(|name| self.attr(name));
        found.ok_or_else(|| {
            let wanted = names.join("` or `");
            let message = format!("`{}` lacks the attribute `{wanted}`", self.name);
            wrong(codes::STABLEHLO_ATTRIBUTE, message, self.span)
        })
    }

    /// A required list of numbers.
    pub(crate) fn needs_ints(&self, names: &[&str]) -> Parsed<Vec<i64>> {
        let text = self.needs(names)?;
        ints(text).ok_or_else(|| self.bad(names, text))
    }

    /// A required number.
    pub(crate) fn needs_int(&self, names: &[&str]) -> Parsed<i64> {
        let text = self.needs(names)?;
        int(text).ok_or_else(|| self.bad(names, text))
    }

    /// The error for an attribute with a wrong value.
    pub(crate) fn bad(&self, names: &[&str], text: &str) -> Box<optc_ir::Diagnostic> {
        let name = names.first().copied().unwrap_or("");
        let text = crate::types::shortened(text);
        let message = format!("`{}`: found `{text}` for `{name}`", self.name);
        wrong(codes::STABLEHLO_ATTRIBUTE, message, self.span)
    }
}

/// The number in `1 : i64`; truth values are read as 0 and 1.
pub(crate) fn int(text: &str) -> Option<i64> {
    let first = text.split(':').next().unwrap_or("").trim();
    match first {
        "true" | "unit" => Some(1),
        "false" => Some(0),
        number => number.parse().ok(),
    }
}

/// The numbers of a list.
pub(crate) fn ints(text: &str) -> Option<Vec<i64>> {
    let text = text.trim();
    if let Some(inner) = text
        .strip_prefix("array<")
        .and_then(|t| t.strip_suffix('>'))
    {
        let numbers = inner.split_once(':').map_or("", |(_, numbers)| numbers);
        return list(numbers);
    }
    if let Some(rest) = text.strip_prefix("dense<") {
        let (inner, ty) = rest.rsplit_once(":")?;
        let inner = inner.trim().strip_suffix('>')?;
        let found = list(&inner.replace(['[', ']'], " "))?;
        let count: usize = ty
            .trim()
            .strip_prefix("tensor<")?
            .split('x')
            .map_while(|n| n.trim().parse::<usize>().ok())
            .try_fold(1usize, usize::checked_mul)
            .filter(|&n| n <= MOST)?;
        return match found[..] {
            [one] => Some(vec![one; count]),
            _ => (found.len() == count).then_some(found),
        };
    }
    let inner = text.strip_prefix('[')?.strip_suffix(']')?;
    list(&inner.replace(['[', ']'], " "))
}

fn list(text: &str) -> Option<Vec<i64>> {
    let parts = text.split(',').filter(|part| !part.trim().is_empty());
    parts.map(int).collect()
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

/// The last word of `#stablehlo<precision HIGH>` or of `HIGH`.
pub(crate) fn last_word(text: &str) -> &str {
    let text = text.trim().trim_end_matches('>');
    text.rsplit([' ', '<']).next().unwrap_or(text)
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
