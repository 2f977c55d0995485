//! The formats of input programs.

use crate::codes;
use optc_ir::Diagnostic;
use std::fmt;
use std::path::Path;

/// A format of an input.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Format {
    /// optc's own text: MLIR's generic form with the dialect `hbir`.
    Ir,
    /// HLO text, as XLA prints a module.
    Hlo,
    /// MLIR text in the dialects linalg, tensor, arith and math.
    Linalg,
    /// An ONNX model.
    Onnx,
    /// StableHLO text, as JAX prints a lowered function.
    StableHlo,
}

impl Format {
    /// The names that `--from` takes.
    pub const NAMES: [&'static str; 6] = ["ir", "mlir", "hlo", "linalg", "onnx", "stablehlo"];

    /// The format of this name.
    #[must_use]
    pub fn named(name: &str) -> Option<Format> {
        match name {
            "ir" | "mlir" => Some(Format::Ir),
            "hlo" => Some(Format::Hlo),
            "linalg" => Some(Format::Linalg),
            "onnx" => Some(Format::Onnx),
            "stablehlo" => Some(Format::StableHlo),
            _ => None,
        }
    }

    /// The default target for a program of this format, if that target exists.
    #[must_use]
    pub fn own_target(self) -> Option<&'static str> {
        match self {
            Format::Ir | Format::Hlo | Format::Linalg => None,
            Format::Onnx => Some("onnx"),
            Format::StableHlo => Some("xla"),
        }
    }

    /// Detects the format of an input by its extension. An input without an extension (`-`) or with an unknown one is
    /// HLO if its text starts like HLO, an ONNX model if it has control characters, which no text has, and else optc's
    /// own text.
    ///
    /// # Errors
    /// The text is in a dialect of MLIR that is not read.
    pub fn detect(name: &str, bytes: &[u8]) -> Result<Format, Box<Diagnostic>> {
        match Format::of_extension(name) {
            Some(format) => Ok(format),
            None if !has_extension(name, "mlir") && starts_hlo(bytes) => Ok(Format::Hlo),
            None if bytes.iter().any(is_control) => Ok(Format::Onnx),
            None => mlir(bytes),
        }
    }

    /// The format of the extension of a name; `None` if the extension is not decisive.
    #[must_use]
    pub fn of_extension(name: &str) -> Option<Format> {
        let named = [
            ("onnx", Format::Onnx),
            ("hlo", Format::Hlo),
            ("ir", Format::Ir),
        ];
        let mut named = named.into_iter();
        named.find_map(|(extension, format)| has_extension(name, extension).then_some(format))
    }
}

impl fmt::Display for Format {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Format::Ir => "ir",
            Format::Hlo => "hlo",
            Format::Linalg => "linalg",
            Format::Onnx => "onnx",
            Format::StableHlo => "stablehlo",
        })
    }
}

fn has_extension(name: &str, extension: &str) -> bool {
    Path::new(name).extension().is_some_and(|e| e == extension)
}

/// Returns whether a text starts, after comments, with the header of an HLO module.
fn starts_hlo(bytes: &[u8]) -> bool {
    const HEADER: &[u8] = b"HloModule";
    let mut rest = bytes.trim_ascii_start();
    while let Some(comment) = rest.strip_prefix(b"//") {
        let end = comment.iter().position(|&c| c == b'\n');
        rest = comment[end.unwrap_or(comment.len())..].trim_ascii_start();
    }
    let after = rest.strip_prefix(HEADER);
    after.is_some_and(|after| after.first().is_none_or(u8::is_ascii_whitespace))
}

/// Returns whether a byte is a control character other than white space.
fn is_control(byte: &u8) -> bool {
    byte.is_ascii_control() && !byte.is_ascii_whitespace()
}

const STABLEHLO: &str = "stablehlo";
const CHLO: &str = "chlo";
const LINALG: &str = "linalg";

/// The format of an MLIR text, by the dialect inside.
fn mlir(bytes: &[u8]) -> Result<Format, Box<Diagnostic>> {
    match dialect(bytes) {
        Some((STABLEHLO | CHLO, _)) => Ok(Format::StableHlo),
        Some((LINALG, _)) => Ok(Format::Linalg),
        Some((dialect, name)) => Err(unsupported(dialect, name)),
        None => Ok(Format::Ir),
    }
}

/// Dialects of other tools whose operations make up a program, and the names of these formats.
const FOREIGN: [(&str, &str); 6] = [
    (STABLEHLO, "StableHLO"),
    (CHLO, "StableHLO"),
    ("vhlo", "VHLO"),
    ("mhlo", "MHLO"),
    ("tosa", "TOSA"),
    (LINALG, "linalg"),
];

/// The refusal of a text in a foreign dialect if optc's own text was expected.
pub(crate) fn foreign(bytes: &[u8]) -> Option<Box<Diagnostic>> {
    dialect(bytes).map(|(dialect, name)| unsupported(dialect, name))
}

/// The foreign dialect of a text. Its operations must occur outside comments and strings, and no operation of `hbir`
/// may occur. Names of attributes, as in the header that JAX prints, are not operations.
fn dialect(bytes: &[u8]) -> Option<(&'static str, &'static str)> {
    let text = std::str::from_utf8(bytes).ok()?;
    let code = text
        .lines()
        .map(|line| line.split("//").next().unwrap_or(""));
    let mut found = None;
    for line in code {
        if line.contains("hbir.") {
            return None;
        }
        found = found.or_else(|| FOREIGN.iter().find(|(dialect, _)| line_uses(line, dialect)));
    }
    found.copied()
}

fn unsupported(dialect: &str, name: &str) -> Box<Diagnostic> {
    let message = format!(
        "found {name} (the MLIR dialect `{dialect}`), wanted optc's own text, StableHLO, linalg, HLO text or an ONNX model"
    );
    let hint = match dialect {
        "vhlo" | "mhlo" => "JAX prints StableHLO by `jax.jit(f).lower(x).as_text()`".to_owned(),
        "stablehlo" | "chlo" => "read it with `--from=stablehlo`".to_owned(),
        LINALG => "read it with `--from=linalg`".to_owned(),
        _ => {
            let known = Format::NAMES.join(", ");
            format!("the format is told by the extension or by --from, one of {known}")
        }
    };
    Box::new(Diagnostic::error(codes::FORMAT_UNSUPPORTED, message).hint(hint))
}

/// Returns whether an operation of the dialect is in the line: at its start or after `=`.
fn line_uses(line: &str, dialect: &str) -> bool {
    line.match_indices(dialect).any(|(at, _)| {
        let before = line[..at].trim_end_matches('"').trim_end();
        let starts = before.is_empty() || before.ends_with('=');
        starts && line[at + dialect.len()..].starts_with('.')
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(name: &str, text: &str, wanted: Result<Format, &str>) {
        let found = Format::detect(name, text.as_bytes()).map_err(|d| d.message);
        match (found, wanted) {
            (Ok(found), Ok(wanted)) => assert_eq!(found, wanted),
            (Err(found), Err(wanted)) => assert!(found.contains(wanted), "{found}"),
            (found, wanted) => panic!("{found:?} instead of {wanted:?}"),
        }
    }

    #[test]
    fn extensions_and_dialects_tell_the_format() {
        check("a.onnx", "", Ok(Format::Onnx));
        check("a.ir", "stablehlo.add", Ok(Format::Ir));
        check("-", "", Ok(Format::Ir));
        check("a.mlir", "%0 = \"hbir.relu\"(%x)", Ok(Format::Ir));
        check(
            "a.mlir",
            "// stablehlo.add\n%0 = \"test.op\"()",
            Ok(Format::Ir),
        );
        check("a.mlir", "%0 = stablehlo.add %a, %b", Ok(Format::StableHlo));
        check(
            "a.mlir",
            "%0 = \"stablehlo.add\"(%a, %b)",
            Ok(Format::StableHlo),
        );
        let jax = "module @jit_f attributes {mhlo.num_partitions = 1 : i32, mhlo.num_replicas = 1 : i32} {\n\
                   %0 = stablehlo.add %a, %b : tensor<2xf32>";
        for name in ["a.mlir", "a.txt", "-"] {
            check(name, jax, Ok(Format::StableHlo));
        }
        check(
            "a.mlir",
            "%0 = \"linalg.generic\"(%a, %b)",
            Ok(Format::Linalg),
        );
        check("a.mlir", "%0 = \"mhlo.add\"(%a, %b)", Err("found MHLO"));
        check("a.hlo", "", Ok(Format::Hlo));
        check("-", "// a dump\n\nHloModule m\n", Ok(Format::Hlo));
        check("a.txt", "HloModules", Ok(Format::Ir));
        check("a.ir", "HloModule m", Ok(Format::Ir));
        check("-", "\u{8}\n:\u{5}", Ok(Format::Onnx));
        check("a.ir", "\u{8}", Ok(Format::Ir));
    }
}
