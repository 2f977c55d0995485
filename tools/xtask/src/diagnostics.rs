//! The page of diagnostics, from the lists beside the code.

use optc_ir::{Code, Example};
use std::fmt::Write as _;

/// The language of a program.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Language {
    /// optc's own text.
    Ir,
    /// XLA's HLO text.
    Hlo,
}

/// A part of the compiler and the codes it reports.
#[derive(Clone, Copy, Debug)]
pub struct Area {
    /// The heading.
    pub title: &'static str,
    /// What the part does.
    pub intro: &'static str,
    /// The codes, sorted.
    pub codes: fn() -> &'static [Code],
    /// The language of the programs among the examples.
    pub language: Language,
    /// Where the list is kept, from the root of the repository.
    pub list: &'static str,
}

/// Every list of codes. A code may stand in two of them, where two parts report it.
pub const AREAS: &[Area] = &[
    Area {
        title: "Programs",
        intro: "What the parser and the verifier refuse.",
        codes: || optc_ir::CODES,
        language: Language::Ir,
        list: "ir/src/codes.rs",
    },
    Area {
        title: "Plans",
        intro: "What the verifier refuses of tiles and groups.",
        codes: || optc_tile::CODES,
        language: Language::Ir,
        list: "tile/src/codes.rs",
    },
    Area {
        title: "Operations",
        intro: "The constraints of the operations, numbered by family, which the verifier checks.",
        codes: optc_ops::codes,
        language: Language::Ir,
        list: "ops/src/",
    },
    Area {
        title: "ONNX models",
        intro: "What the ONNX front end refuses, and what it remarks.",
        codes: || optc_onnx::CODES,
        language: Language::Ir,
        list: "frontends/onnx/src/codes.rs",
    },
    Area {
        title: "HLO text",
        intro: "What the HLO text front end refuses, and what it remarks.",
        codes: || optc_hlo::CODES,
        language: Language::Hlo,
        list: "frontends/hlo/src/codes.rs",
    },
    Area {
        title: "Passes",
        intro: "What pipelines and passes refuse and remark.",
        codes: || optc_passes::CODES,
        language: Language::Ir,
        list: "passes/src/codes.rs",
    },
    Area {
        title: "Folds",
        intro: "What the checker of a fold and of a target's layouts refuses.",
        codes: || optc_check::CODES,
        language: Language::Ir,
        list: "check/src/codes.rs",
    },
    Area {
        title: "Running programs",
        intro: "Why a program cannot be run on its inputs.",
        codes: || optc_interp::CODES,
        language: Language::Ir,
        list: "interp/src/codes.rs",
    },
    Area {
        title: "The command",
        intro: "What the command and the library around the parts above refuse.",
        codes: || optc_cli::CODES,
        language: Language::Ir,
        list: "tools/cli/src/codes.rs",
    },
];

/// The page; `note` says below the heading how it is made.
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
            Language::Ir => "mlir",
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
