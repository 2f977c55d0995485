//! Programs: a module together with its origin.

use crate::codes;
use crate::error::{Error, render_all};
use crate::format::{Format, foreign};
use optc_ir::{Diagnostic, Func, Module, Span};
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// One module and the text or file from which it was read.
///
/// ```
/// use optc::{Compiler, Func, Loc, OpData, OpDecl, Structure, ValueData, ValueDef};
///
/// let compiler = Compiler::new();
/// let program = compiler.parse("example.ir", "%0 = \"hbir.relu\"(%x) : (tensor<2xf32>) -> tensor<2xf32>")?;
/// let func: &Func = program.entry().expect("there is one");
/// for &op in &func.body {
///     let data: &OpData = &func.ops[op];
///     let declared: &dyn OpDecl = compiler.registry().get(&data.name).expect("a known operation");
///     assert_eq!((declared.name(), compiler.registry().structure(&data.name)), ("hbir.relu", Structure::Plain));
///     assert_eq!(data.loc, Loc::Unknown);
///     let result: &ValueData = &func.values[data.results[0]];
///     assert_eq!(result.def, ValueDef::Result(op, 0));
/// }
/// # Ok::<(), optc::Error>(())
/// ```
#[derive(Clone, Debug)]
pub struct Program {
    /// The module.
    pub module: Module,
    /// The format from which it was read.
    pub format: Format,
    /// The name of the input in messages.
    pub name: String,
    /// The folder of external data.
    pub folder: PathBuf,
    /// The warnings and remarks of the front end.
    pub diagnostics: Vec<Diagnostic>,
    source: Arc<str>,
    /// The offset of the module's own text in `source`.
    offset: usize,
}

impl Program {
    /// A program that was built, not read; `name` is its name in messages.
    #[must_use]
    pub fn built(name: &str, module: Module) -> Program {
        Program {
            module,
            format: Format::Ir,
            name: name.to_owned(),
            folder: PathBuf::new(),
            diagnostics: Vec::new(),
            source: Arc::from(""),
            offset: 0,
        }
    }

    /// The canonical text of the module.
    #[must_use]
    pub fn text(&self) -> String {
        optc_ir::text::print(&self.module)
    }

    /// The text from which the program was read; empty if it was not text.
    #[must_use]
    pub fn source(&self) -> &str {
        &self.source
    }

    /// The default function: `@main`, else the first.
    #[must_use]
    pub fn entry(&self) -> Option<&Func> {
        self.module.entry().map(|number| &self.module.funcs[number])
    }

    /// An error of this program. The diagnostics' labels count from the module's own text and are moved to the whole
    /// input.
    #[must_use]
    pub fn error(&self, diagnostics: Vec<Diagnostic>) -> Error {
        let diagnostics = self.placed(diagnostics);
        Error {
            diagnostics,
            file: self.name.clone(),
            source: self.source.clone(),
        }
    }

    /// Renders diagnostics of this program, such as remarks.
    #[must_use]
    pub fn render(&self, diagnostics: &[Diagnostic]) -> String {
        render_all(&self.placed(diagnostics.to_vec()), &self.name, &self.source)
    }

    /// The diagnostics with labels that count from the start of the whole input. Labels without a place become notes.
    #[must_use]
    pub fn placed(&self, diagnostics: Vec<Diagnostic>) -> Vec<Diagnostic> {
        diagnostics
            .into_iter()
            .map(|d| place(d, &self.source, self.offset))
            .collect()
    }
}

fn place(mut diag: Diagnostic, source: &str, offset: usize) -> Diagnostic {
    let labels = std::mem::take(&mut diag.labels);
    for (span, text) in labels {
        if source.is_empty() || span == Span::default() {
            if !text.is_empty() {
                let at = diag.parts().map(|parts| format!(": {parts}"));
                diag.notes.push(text + &at.unwrap_or_default());
            }
            continue;
        }
        let shift = |n: u32| {
            let at = (n as usize).saturating_add(offset).min(source.len());
            u32::try_from(at).unwrap_or(u32::MAX)
        };
        diag.labels.push((
            Span {
                start: shift(span.start),
                end: shift(span.end),
            },
            text,
        ));
    }
    diag
}

/// The refusal of a format whose front end is left out of this build.
#[cfg(not(all(feature = "hlo", feature = "onnx", feature = "stablehlo")))]
pub(crate) fn without_front_end(name: &str, format: Format) -> Error {
    let message = format!("found the format `{format}`, which this build of optc does not read");
    let hint = format!("the feature `{format}` of the crate `optc` reads it");
    let diag = Diagnostic::error(codes::FORMAT_UNSUPPORTED, message);
    Error::about(name, diag.hint(hint))
}

/// The bytes as text.
fn decoded(name: &str, bytes: &[u8]) -> Result<Arc<str>, Error> {
    std::str::from_utf8(bytes).map(Arc::from).map_err(|e| {
        let at = e.valid_up_to();
        let message = format!("found a byte that is no UTF-8 at offset {at}");
        Error::about(name, Diagnostic::error(codes::TEXT_ENCODING, message))
    })
}

/// Reads HLO text.
#[cfg(feature = "hlo")]
pub(crate) fn read_hlo(name: &str, bytes: &[u8]) -> Result<Program, Error> {
    let source = decoded(name, bytes)?;
    let import = optc_hlo::import(&source).map(|import| (import.module, import.diags));
    imported(Format::Hlo, name, source, import)
}

/// Reads StableHLO text.
#[cfg(feature = "stablehlo")]
pub(crate) fn read_stablehlo(name: &str, bytes: &[u8]) -> Result<Program, Error> {
    let source = decoded(name, bytes)?;
    let import = optc_stablehlo::import(&source).map(|import| (import.module, import.diags));
    imported(Format::StableHlo, name, source, import)
}

/// The result of a front end for text.
#[cfg(any(feature = "hlo", feature = "stablehlo"))]
fn imported(
    format: Format,
    name: &str,
    source: Arc<str>,
    import: Result<(Module, Vec<Diagnostic>), Vec<Diagnostic>>,
) -> Result<Program, Error> {
    match import {
        Ok((module, diagnostics)) => Ok(Program {
            module,
            format,
            name: name.to_owned(),
            folder: folder_of(name),
            diagnostics,
            source,
            offset: 0,
        }),
        Err(diagnostics) => Err(Error {
            diagnostics,
            file: name.to_owned(),
            source,
        }),
    }
}

/// Reads optc's own text; with `split`, the modules between `// -----` separately.
pub(crate) fn read_text(name: &str, bytes: &[u8], split: bool) -> Vec<Result<Program, Error>> {
    let source = match decoded(name, bytes) {
        Ok(source) => source,
        Err(error) => return vec![Err(error)],
    };
    if !split {
        return vec![read_part(name, &source, 0, &source)];
    }
    let parts = optc_ir::text::split(&source);
    parts
        .into_iter()
        .map(|(offset, part)| read_part(name, &source, offset, part))
        .collect()
}

fn read_part(name: &str, source: &Arc<str>, offset: usize, part: &str) -> Result<Program, Error> {
    match optc_ir::text::parse(part) {
        Ok(module) => Ok(Program {
            module,
            format: Format::Ir,
            name: name.to_owned(),
            folder: folder_of(name),
            diagnostics: Vec::new(),
            source: source.clone(),
            offset,
        }),
        Err(diags) => {
            let placed = diags.into_iter().map(|d| place(d, source, offset));
            let diagnostics = match foreign(part.as_bytes()) {
                Some(diag) => vec![*diag],
                None => placed.collect(),
            };
            Err(Error {
                diagnostics,
                file: name.to_owned(),
                source: source.clone(),
            })
        }
    }
}

/// Reads an ONNX model.
#[cfg(feature = "onnx")]
pub(crate) fn read_onnx(
    name: &str,
    bytes: &[u8],
    mut options: optc_onnx::Options,
) -> Result<Program, Error> {
    let file = Path::new(name).file_name();
    options.name = file.map(|f| f.to_string_lossy().into_owned());
    let import = optc_onnx::import(bytes, &options);
    let import = import.map_err(|diagnostics| Error {
        diagnostics,
        file: name.to_owned(),
        source: Arc::from(""),
    })?;
    Ok(Program {
        module: import.module,
        format: Format::Onnx,
        name: name.to_owned(),
        folder: folder_of(name),
        diagnostics: import.diags,
        source: Arc::from(""),
        offset: 0,
    })
}

/// The folder of a file; the current one for inputs without a path.
fn folder_of(name: &str) -> PathBuf {
    Path::new(name)
        .parent()
        .map(Path::to_path_buf)
        .unwrap_or_default()
}
