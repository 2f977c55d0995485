//! Attributes of instructions, in text form.

/// The value of an attribute in the text `, key=value, …`.
pub(crate) fn attr<'t>(text: &'t str, name: &str) -> Option<&'t str> {
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
pub(crate) fn ints(text: Option<&str>) -> Vec<i64> {
    let inner = text.unwrap_or("").trim_matches(['{', '}', ' ']);
    inner
        .split(',')
        .filter_map(|n| n.trim().parse().ok())
        .collect()
}
