//! `optc explain CODE`: prints the reference entry of a code.

use crate::args::ExplainArgs;
use crate::codes::CODES;
use crate::driver::Main;
use crate::failure::{Failure, Status};
use crate::streams::Streams;
use optc::{Code, Example, codes};
use std::fmt::Write as _;
use std::sync::LazyLock;

/// The language of a program.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Language {
    /// optc's own text.
    Ir,
    /// XLA's HLO text.
    Hlo,
    /// MLIR text in the dialect linalg.
    Linalg,
    /// StableHLO text.
    StableHlo,
}

/// A part of the compiler and the codes it reports.
#[derive(Clone, Copy, Debug)]
pub struct Area {
    /// The heading.
    pub title: &'static str,
    /// The task of the part.
    pub intro: &'static str,
    /// The codes, sorted.
    pub codes: fn() -> &'static [Code],
    /// The language of the programs among the examples.
    pub language: Language,
    /// The file with the list, from the root of the repository.
    pub list: &'static str,
}

/// Every list of codes. A code that two parts report is in two lists.
pub const AREAS: &[Area] = &[
    Area {
        title: "Programs",
        intro: "What the parser and the verifier refuse.",
        codes: || codes::PROGRAMS,
        language: Language::Ir,
        list: "ir/src/codes.rs",
    },
    Area {
        title: "Plans",
        intro: "What the verifier refuses of tiles and groups.",
        codes: || codes::PLANS,
        language: Language::Ir,
        list: "tile/src/codes.rs",
    },
    Area {
        title: "Operations",
        intro: "The constraints of the operations, numbered by family, which the verifier checks.",
        codes: codes::operations,
        language: Language::Ir,
        list: "ops/src/",
    },
    Area {
        title: "ONNX models",
        intro: "What the ONNX front end refuses, and what it remarks.",
        codes: || codes::ONNX,
        language: Language::Ir,
        list: "frontends/onnx/src/codes.rs",
    },
    Area {
        title: "HLO text",
        intro: "What the HLO text front end refuses, and what it remarks.",
        codes: || codes::HLO,
        language: Language::Hlo,
        list: "frontends/hlo/src/codes.rs",
    },
    Area {
        title: "StableHLO",
        intro: "What the StableHLO front end refuses.",
        codes: || codes::STABLEHLO,
        language: Language::StableHlo,
        list: "frontends/stablehlo/src/codes.rs",
    },
    Area {
        title: "linalg",
        intro: "The front end for MLIR text in the dialect linalg: refusals and remarks.",
        codes: || codes::LINALG,
        language: Language::Linalg,
        list: "frontends/linalg/src/codes.rs",
    },
    Area {
        title: "Passes",
        intro: "What pipelines and passes refuse and remark.",
        codes: || codes::PASSES,
        language: Language::Ir,
        list: "passes/src/codes.rs",
    },
    Area {
        title: "Execution",
        intro: "What the executor of bufferized programs refuses.",
        codes: || codes::EXECUTION,
        language: Language::Ir,
        list: "lowering/exec/src/codes.rs",
    },
    Area {
        title: "Folds",
        intro: "What the checker of a fold and of a target's layouts refuses.",
        codes: || codes::FOLDS,
        language: Language::Ir,
        list: "check/src/codes.rs",
    },
    Area {
        title: "Running programs",
        intro: "Why a program cannot be run on its inputs.",
        codes: || codes::RUNNING,
        language: Language::Ir,
        list: "interp/src/codes.rs",
    },
    Area {
        title: "The command",
        intro: "What the command and the library around the parts above refuse.",
        codes: own_codes,
        language: Language::Ir,
        list: "tools/cli/src/codes.rs",
    },
];

/// The codes of the command, of the library around the parts and of the output formats, sorted. A code that two of them
/// report has the same words in both, and is here once.
fn own_codes() -> &'static [Code] {
    static ALL: LazyLock<Vec<Code>> = LazyLock::new(|| {
        let mut all = [CODES, codes::LIBRARY, codes::FORMATS].concat();
        all.sort_by_key(|code| code.name);
        all.dedup();
        all
    });
    &ALL
}

/// The codes that a command explains: optc's, then those added.
pub(crate) fn known(driver: &Main) -> impl Iterator<Item = &'static Code> {
    let all = AREAS.iter().flat_map(|area| (area.codes)());
    all.chain(driver.codes)
}

pub(crate) fn command(
    driver: &Main,
    args: &ExplainArgs,
    streams: &mut Streams<'_>,
) -> Result<Status, Failure> {
    let name = args.code.trim();
    let found = known(driver).filter(|c| c.name == name);
    let texts: Vec<String> = found.map(entry).collect();
    if texts.is_empty() {
        let known = known(driver).map(|c| c.name);
        let advice = "docs/diagnostics.md lists them";
        return Err(Failure::unknown("explain", "code", name, known, advice));
    }
    streams.print(&driver.with_name(&texts.join("\n")));
    Ok(Status::Done)
}

/// The entry of a code as plain text.
fn entry(code: &Code) -> String {
    let mut text = format!("{}: {}\n\n", code.name, code.says);
    match code.example {
        Example::Program(program) => quote(&mut text, "for example", program),
        Example::Command { files, run } => {
            for (name, content) in files {
                quote(&mut text, name, content);
            }
            quote(&mut text, "for example", run);
        }
        Example::Input(what) => {
            let _ = writeln!(text, "for example: {what}\n");
        }
    }
    let _ = writeln!(text, "to do: {}", code.help);
    text
}

/// An indented text below a title.
fn quote(text: &mut String, title: &str, content: &str) {
    let _ = writeln!(text, "{title}:");
    for line in content.trim_end().lines() {
        let _ = writeln!(text, "{}", format!("    {line}").trim_end());
    }
    text.push('\n');
}
