//! Programs: a module together with its origin.

use crate::codes;
use crate::error::{Error, render_all};
use crate::format::{Format, foreign};
use optc_ir::{Diagnostic, Func, Module, Span, TensorType, Value};
use optc_layout::Notation;
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
    /// The bytes of a model that is in no file.
    pub(crate) kept: Option<Arc<[u8]>>,
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
            kept: None,
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

    /// The layout of an argument or result of the default function, read from the text of an encoding. It can be its
    /// pin in [`Boundary::pins`](crate::Boundary::pins).
    ///
    /// ```
    /// let mut compiler = optc::Compiler::new();
    /// let text = "%0 = \"hbir.transpose\"(%x) <{perm = [1, 0]}> : (tensor<2x3xf32>) -> tensor<3x2xf32>";
    /// let program = compiler.parse("example.ir", text)?;
    /// let layout = program.port_layout("x", "{order = [1, 0]}")?;
    /// compiler.boundary.pins.insert("x".to_owned(), layout);
    /// # Ok::<(), optc::Error>(())
    /// ```
    ///
    /// # Errors
    /// `unknown-port` if there is no tensor of this name; the text is no encoding of a layout.
    pub fn port_layout(&self, name: &str, text: &str) -> Result<Notation, Error> {
        let ports = self.entry().map(ports).unwrap_or_default();
        let found = ports.iter().find(|(key, _)| key == name);
        let Some((_, ty)) = found else {
            let message = format!("found no tensor `{name}` among the arguments and results");
            let known: Vec<&str> = ports.iter().map(|(key, _)| key.as_str()).collect();
            let diag = Diagnostic::error(codes::shared::UNKNOWN_PORT, message);
            let diag = diag.note(format!("wanted one of {}", known.join(", ")));
            return Err(Error::about(&self.name, diag.suggest("", name, known)));
        };
        let dims = ty.dims.iter().map(|d| match d.fixed() {
            Some(n) => format!("{n}x"),
            None => "?x".to_owned(),
        });
        // An operation that uses the type is parsed.
        let dims: String = dims.collect();
        let head = format!("\"pin.of\"(%x) : (tensor<{dims}{}, ", ty.dtype);
        let refused = |diagnostics: Vec<Diagnostic>| Error {
            diagnostics,
            file: format!("the layout of `{name}`"),
            source: Arc::from(text),
        };
        let module = optc_ir::text::parse(&format!("{head}{text}>) -> ()")).map_err(|diags| {
            let place = |diag| moved(diag, head.len(), text.len());
            refused(diags.into_iter().map(place).collect())
        })?;
        let parsed = module.funcs.first();
        let parsed = parsed.and_then(|f| f.ty(*f.args.first()?).as_tensor());
        parsed.map(|ty| ty.notation.clone()).ok_or_else(|| {
            let message = format!("found `{text}`, wanted a layout's encoding");
            refused(vec![Diagnostic::error(codes::TENSOR_SYNTAX, message)])
        })
    }

    /// The arguments of the default function and the results of its operations in order, with their names: that of an
    /// argument as in files of inputs, that of a result as the text of the program prints it, without `%`.
    #[must_use]
    pub fn values(&self) -> Vec<(Value, String)> {
        let Some(func) = self.entry() else {
            return Vec::new();
        };
        let mut names = optc_ir::text::value_names(func);
        for (i, &arg) in func.args.iter().enumerate() {
            names.insert(arg, func.arg_key(i));
        }
        names.into_iter().collect()
    }

    /// The value of a name: one of [`Program::values`], a result of the default function as in files of results, or
    /// the first result of an operation whose origin has the name, such as a node of an ONNX model.
    ///
    /// ```
    /// let text = "%0 = \"hbir.relu\"(%x) : (tensor<2xf32>) -> tensor<2xf32> loc(\"node\")";
    /// let program = optc::Compiler::new().parse("example.ir", text)?;
    /// let (func, values) = (program.entry().expect("there is one"), program.values());
    /// assert_eq!(values, [(func.args[0], "x".to_owned()), (func.results[0], "0".to_owned())]);
    /// for name in ["0", "result0", "node"] {
    ///     assert_eq!(program.value(name), Some(func.results[0]));
    /// }
    /// # Ok::<(), optc::Error>(())
    /// ```
    #[must_use]
    pub fn value(&self, name: &str) -> Option<Value> {
        let func = self.entry()?;
        let mut named = self.values().into_iter();
        if let Some((value, _)) = named.find(|(_, known)| known == name) {
            return Some(value);
        }
        let mut results = (0..func.results.len()).map(|i| (func.result_key(i), func.results[i]));
        if let Some((_, value)) = results.find(|(key, _)| key == name) {
            return Some(value);
        }
        let mut ops = func.body.iter().map(|&op| &func.ops[op]);
        let op = ops.find(|op| op.loc.names().iter().any(|known| &***known == name));
        op?.results.first().copied()
    }

    /// The elements of the program's constants: those of files in its folder, and of the bytes that it keeps.
    ///
    /// ```
    /// use optc::{DType, interp::DataSource};
    ///
    /// let program = optc::Program::built("model", optc::Module::default());
    /// assert!(program.data().read("absent.bin", 0, 2, DType::UI8).is_err());
    /// ```
    #[cfg(feature = "interp")]
    #[must_use]
    pub fn data(&self) -> impl optc_interp::DataSource + use<> {
        let name = Path::new(&self.name).file_name();
        optc_interp::FallbackSource {
            first: Kept {
                name: name.map(|n| n.to_string_lossy().into_owned()),
                bytes: self.kept.clone(),
            },
            second: optc_interp::FolderSource::new(self.folder.clone()),
        }
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

/// The bytes of a model that is in no file.
#[cfg(feature = "interp")]
struct Kept {
    name: Option<String>,
    bytes: Option<Arc<[u8]>>,
}

#[cfg(feature = "interp")]
impl optc_interp::DataSource for Kept {
    fn read(
        &self,
        file: &str,
        offset: u64,
        length: u64,
        _: optc_ir::DType,
    ) -> Result<Vec<u8>, optc_interp::DataError> {
        let bytes = self
            .bytes
            .as_ref()
            .filter(|_| self.name.as_deref() == Some(file));
        let Some(bytes) = bytes else {
            return Err(optc_interp::DataError::Missing {
                file: file.to_owned(),
                place: String::new(),
            });
        };
        let start = usize::try_from(offset).ok();
        let end = offset
            .checked_add(length)
            .and_then(|end| usize::try_from(end).ok());
        let part = start
            .zip(end)
            .and_then(|(start, end)| bytes.get(start..end));
        part.map(<[u8]>::to_vec)
            .ok_or_else(|| optc_interp::DataError::Short {
                file: file.to_owned(),
                offset,
                length,
                found: bytes.len() as u64,
            })
    }
}

/// The arguments and results of a function that are tensors, by their keys.
fn ports(func: &Func) -> Vec<(String, &TensorType)> {
    let args = func
        .args
        .iter()
        .enumerate()
        .map(|(i, &v)| (func.arg_key(i), v));
    let results = func
        .results
        .iter()
        .enumerate()
        .map(|(i, &v)| (func.result_key(i), v));
    let tensor = |(key, v)| Some((key, func.ty(v).as_tensor()?));
    args.chain(results).filter_map(tensor).collect()
}

/// Moves the labels of a diagnostic back by the length of a text in front. Labels outside the rest are dropped.
fn moved(mut diag: Diagnostic, before: usize, len: usize) -> Diagnostic {
    let shift = |n: u32| {
        let at = (n as usize).checked_sub(before).filter(|at| *at <= len)?;
        u32::try_from(at).ok()
    };
    for (span, text) in std::mem::take(&mut diag.labels) {
        if let Some(start) = shift(span.start) {
            let end = shift(span.end).unwrap_or(start);
            diag.labels.push((Span { start, end }, text));
        }
    }
    diag
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
#[cfg(not(all(
    feature = "hlo",
    feature = "linalg",
    feature = "onnx",
    feature = "stablehlo"
)))]
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

/// Reads MLIR text in the dialect linalg.
#[cfg(feature = "linalg")]
pub(crate) fn read_linalg(name: &str, bytes: &[u8]) -> Result<Program, Error> {
    let source = decoded(name, bytes)?;
    let import = optc_linalg::import(&source).map(|import| (import.module, import.diags));
    imported(Format::Linalg, name, source, import)
}

/// The result of a front end for text.
#[cfg(any(feature = "hlo", feature = "linalg", feature = "stablehlo"))]
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
            kept: None,
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
            kept: None,
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
        kept: None,
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
