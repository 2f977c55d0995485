//! A helper that writes the text of a program line by line.

use std::fmt::Write as _;

/// Adds a line with one operation to a program, and returns the name of the result: `%` and `count`, which then grows by
/// one. `operation` is a name without `hbir.`, optionally followed by a space and the attributes.
pub(crate) fn line(
    text: &mut String,
    count: &mut usize,
    operation: &str,
    (names, types): (&[&str], &[&str]),
    result: &str,
) -> String {
    let name = format!("%{count}");
    *count += 1;
    let (operation, attributes) = operation.split_once(' ').unwrap_or((operation, ""));
    let _ = writeln!(
        text,
        "  {name} = \"hbir.{operation}\"({}) <{{{attributes}}}> : ({}) -> {result}",
        names.join(", "),
        types.join(", ")
    );
    name
}
