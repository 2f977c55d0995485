//! Programs that are written line by line.

use std::fmt::Write as _;

/// Adds a line to a program, with an operation and its attributes separated by a space. Returns the name of its result,
/// which has the number `count`.
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
