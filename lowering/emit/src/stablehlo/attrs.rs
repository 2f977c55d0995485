//! Attributes of HLO text, and lists as MLIR writes them.

use crate::hlo::Line;

/// The text of an attribute in `, key=value, …`.
pub(super) fn attr<'t>(text: &'t str, name: &str) -> Option<&'t str> {
    let mut rest = text;
    loop {
        rest = rest.trim_start_matches([',', ' ']);
        let (key, after) = rest.split_once('=')?;
        let mut depth = 0usize;
        let (mut quoted, mut escaped) = (false, false);
        let end = after.char_indices().find(|(_, c)| {
            let was_escaped = std::mem::take(&mut escaped);
            match c {
                '\\' if quoted && !was_escaped => escaped = true,
                '"' if !was_escaped => quoted = !quoted,
                _ if quoted => {}
                '{' | '(' | '[' | '<' => depth += 1,
                '}' | ')' | ']' | '>' => depth = depth.saturating_sub(1),
                ',' => return depth == 0,
                _ => {}
            }
            false
        });
        let end = end.map_or(after.len(), |(at, _)| at);
        if key == name {
            return after.get(..end);
        }
        rest = after.get(end..)?;
    }
}

/// A list of numbers, `{1,0}`.
pub(super) fn ints(text: Option<&str>) -> Vec<i64> {
    let inner = text.unwrap_or("").trim_matches(['{', '}', ' ']);
    inner
        .split(',')
        .filter_map(|n| n.trim().parse().ok())
        .collect()
}

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

/// The precision of the operands of a product.
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
