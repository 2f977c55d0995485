//! Programs that are written line by line.

use std::fmt::Write as _;

/// One more line of a program, of an operation and its attributes with a space between; the name of its result, which has this number.
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
