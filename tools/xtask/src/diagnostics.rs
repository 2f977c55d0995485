//! The page of diagnostics, made from the lists of codes in the sources.

use optc_cli::explain::{AREAS, Language};
use optc_ir::{Code, Example};
use std::fmt::Write as _;

/// The page; `note`, below the heading, says how it is made.
pub(crate) fn page(note: &str) -> String {
    let mut text = format!("# Diagnostics\n\n{note}");
    text.push_str(
        "Every diagnostic has a stable code, printed in brackets: `file.ir:3:5: error[reshape-volume-mismatch]: …`, \
         with the place, what was found and wanted, and a hint.\n\
         Below, each code has an input that it is reported for; a test runs every program and command.\n\n",
    );
    for area in AREAS {
        let _ = writeln!(
            text,
            "- [{}](#{}): {}",
            area.title,
            anchor(area.title),
            area.intro
        );
    }
    for area in AREAS {
        let _ = writeln!(text, "\n## {}\n\n{}", area.title, area.intro);
        let fence = match area.language {
            Language::Ir | Language::Linalg | Language::StableHlo => "mlir",
            Language::Hlo => "text",
        };
        (area.codes)()
            .iter()
            .for_each(|code| entry(&mut text, fence, code));
    }
    text
}

fn anchor(title: &str) -> String {
    title.to_lowercase().replace(' ', "-")
}

fn entry(text: &mut String, language: &str, code: &Code) {
    let _ = writeln!(text, "\n### `{}`\n\n{}.\n", code.name, capital(code.says));
    match code.example {
        Example::Program(program) => fence(text, language, program),
        Example::Command { files, run } => {
            for (name, content) in files {
                let _ = writeln!(text, "`{name}`:\n");
                fence(text, "text", content);
            }
            fence(text, "sh", run);
        }
        Example::Input(what) => {
            let _ = writeln!(text, "Example: {what}.\n");
        }
    }
    let _ = writeln!(text, "To do: {}.", code.help);
}

fn fence(text: &mut String, language: &str, content: &str) {
    let _ = writeln!(text, "```{language}\n{}\n```\n", content.trim_end());
}

/// The text with a capital first letter.
pub(crate) fn capital(text: &str) -> String {
    let mut chars = text.chars();
    chars.next().map_or_else(String::new, |c| {
        c.to_uppercase().collect::<String>() + chars.as_str()
    })
}
