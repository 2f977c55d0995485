//! Attributes as numbers: in the printed form `[1, 2]`, in the generic form `array<i64: 1, 2>` or `dense<[1, 2]> : …`.

/// The most numbers that one splat is expanded to.
const MOST: usize = 256;

/// The name of a function from its form in operations, `@f` or `@"f"`.
#[must_use]
pub fn symbol(text: &str) -> &str {
    text.trim_start_matches('@').trim_matches('"')
}

/// The number in `1 : i64`; truth values are read as 0 and 1.
#[must_use]
pub fn int(text: &str) -> Option<i64> {
    let first = text.split(':').next().unwrap_or("").trim();
    match first {
        "true" | "unit" => Some(1),
        "false" => Some(0),
        number => number.parse().ok(),
    }
}

/// The numbers of a list.
#[must_use]
pub fn ints(text: &str) -> Option<Vec<i64>> {
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

/// The last word of `#stablehlo<precision HIGH>` or of `HIGH`.
#[must_use]
pub fn last_word(text: &str) -> &str {
    let text = text.trim().trim_end_matches('>');
    text.rsplit([' ', '<']).next().unwrap_or(text)
}
