//! Attribute lists in MLIR's syntax.

use crate::hlo::{Line, attr};

/// `1, 0`
pub(super) fn comma(list: &[i64]) -> String {
    let texts: Vec<String> = list.iter().map(i64::to_string).collect();
    texts.join(", ")
}

/// `array<i64: 1, 0>`
pub(super) fn array(list: &[i64]) -> String {
    if list.is_empty() {
        return "array<i64>".to_owned();
    }
    format!("array<i64: {}>", comma(list))
}

/// The precision attribute of a product.
pub(super) fn precision(line: &Line) -> String {
    let given = attr(&line.attrs, "operand_precision").unwrap_or("");
    let words: Vec<String> = given
        .trim_matches(['{', '}'])
        .split(',')
        .filter(|word| !word.is_empty())
        .map(|word| format!("#stablehlo<precision {}>", word.trim().to_uppercase()))
        .collect();
    if words.is_empty() {
        return String::new();
    }
    format!(", precision_config = [{}]", words.join(", "))
}
