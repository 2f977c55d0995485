//! Converts paths and options to programs, pipelines and contexts.

use crate::args::CompileArgs;
use crate::boundary;
use crate::codes;
use crate::driver::Main;
use crate::failure::Failure;
use crate::mesh;
use crate::streams::Streams;
use crate::terminal;
use indexmap::IndexSet;
use optc::interp::{DataSource, FallbackSource, FolderSource, RandomSource};
use optc::{
    Bindings, Compiler, Diagnostic, Error, Format, PassContext, Program, SizeTable, Stage,
    bound_sizes, read_file, read_stream,
};
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// The bytes of an input and its name in messages.
pub(crate) struct Input {
    pub(crate) name: String,
    pub(crate) bytes: Vec<u8>,
    /// The folder of data beside it. It is kept apart, since the name need not be the path, which may not be valid
    /// text.
    folder: PathBuf,
}

impl Input {
    /// Reads a file, or the input stream for `-`.
    pub(crate) fn read(path: &Path, streams: &mut Streams<'_>) -> Result<Input, Failure> {
        if path == Path::new("-") {
            let name = "<stdin>".to_owned();
            let bytes = read_stream(&name, &mut *streams.input)?;
            return Ok(Input {
                name,
                bytes,
                folder: PathBuf::new(),
            });
        }
        Ok(Input {
            name: path.display().to_string(),
            bytes: read_file(path)?,
            folder: path.parent().map(Path::to_path_buf).unwrap_or_default(),
        })
    }

    fn placed(&self, mut program: Program) -> Program {
        program.folder.clone_from(&self.folder);
        program
    }

    /// The only program in it.
    pub(crate) fn program(
        &self,
        compiler: &Compiler,
        from: Option<&str>,
    ) -> Result<Program, Error> {
        terminal::doing(|| format!("{}: reading", self.name));
        let mut read = compiler.read(&self.name, &self.bytes, format(from), false);
        read.remove(0).map(|program| self.placed(program))
    }

    /// The programs in it, separated by `// -----`.
    pub(crate) fn programs(
        &self,
        compiler: &Compiler,
        from: Option<&str>,
        split: bool,
    ) -> Vec<Result<Program, Error>> {
        terminal::doing(|| format!("{}: reading", self.name));
        let read = compiler.read(&self.name, &self.bytes, format(from), split);
        let placed = |program: Result<Program, Error>| program.map(|p| self.placed(p));
        read.into_iter().map(placed).collect()
    }
}

/// The format of an input by `--from`, by its extension, or, if that is ambiguous, by its text. An input stream is not
/// looked at.
pub(crate) fn format_of(path: Option<&Path>, args: &CompileArgs) -> Option<Format> {
    if let Some(name) = args.from.as_deref() {
        return Format::named(name);
    }
    let path = path.filter(|path| *path != Path::new("-"))?;
    let name = path.display().to_string();
    match Format::of_extension(&name) {
        Some(format) => Some(format),
        None => Format::detect(&name, &read_file(path).ok()?).ok(),
    }
}

fn format(from: Option<&str>) -> Option<Format> {
    from.and_then(Format::named)
}

/// The compiler of a command with the options. [`context`] resolves the pins for each program.
pub(crate) fn compiler(driver: &Main, args: &CompileArgs) -> Result<Compiler, Failure> {
    let mut compiler = driver.compiler.clone();
    if let Some(name) = &args.target {
        compiler.target = Some(Arc::new(compiler.find_target(name)?));
    }
    compiler.precision = args.precision.as_deref().and_then(|name| name.parse().ok());
    bind(&mut compiler, &args.bind)?;
    boundary::add(&mut compiler.boundary, args);
    mesh::add(&mut compiler.shard, args)?;
    Ok(compiler)
}

/// The pipeline of the options; `own` without `--pass`.
pub(crate) fn stages(
    compiler: &Compiler,
    args: &CompileArgs,
    own: &str,
) -> Result<Vec<Stage>, Failure> {
    let mut stages = compiler.pipeline(args.pass.as_deref().unwrap_or(own))?;
    if let Some(rules) = &args.rules {
        let rules = rules.replace(',', "+");
        set_option(
            &mut stages,
            "rules",
            &rules,
            "a pass with rules, such as --pass=view-fold",
        )?;
    }
    if let Some(bytes) = args.max_live {
        let wanted = "a pass that decides what is alive, such as --pass=view-fold";
        set_option(&mut stages, "max-live", &bytes.to_string(), wanted)?;
    }
    Ok(stages)
}

/// Sets the option of this name in all passes that have it, for the short forms `--rules` and `--max-live`.
fn set_option(stages: &mut [Stage], name: &str, value: &str, wanted: &str) -> Result<(), Failure> {
    let mut found = false;
    for stage in stages {
        if stage.pass.info().options.iter().any(|o| o.name == name) {
            let options = &mut stage.options.0;
            options.insert(name.to_owned(), value.to_owned());
            found = true;
        }
    }
    match found {
        true => Ok(()),
        false => Err(Failure::usage(format!("--{name} wants {wanted}"))),
    }
}

/// The context of the passes for one program.
pub(crate) fn context(
    compiler: &Compiler,
    program: &Program,
    args: &CompileArgs,
) -> Result<PassContext, Failure> {
    let mut cx = compiler.context(program)?;
    boundary::resolve(&mut cx.boundary, program, &args.pin, &args.alias)?;
    Ok(cx)
}

/// Adds the sizes of `--bind` to those of the compiler; they replace sizes of the same names.
pub(crate) fn bind(compiler: &mut Compiler, texts: &[String]) -> Result<(), Failure> {
    compiler.bindings.0.extend(bindings(texts)?.0);
    Ok(())
}

/// Reads `B=1`, `S=128`.
fn bindings(texts: &[String]) -> Result<Bindings, Failure> {
    let mut bindings = Bindings::default();
    for text in texts {
        let (name, size) = text.split_once('=').unwrap_or((text, ""));
        let size = size.trim().parse::<u64>().ok().filter(|&n| n > 0);
        match size {
            Some(size) if !name.trim().is_empty() => {
                bindings.0.insert(Arc::from(name.trim()), size);
            }
            _ => {
                let message = format!("found `--bind {text}`, wanted NAME=SIZE with SIZE above 0");
                return Err(Failure::usage(message));
            }
        }
    }
    Ok(bindings)
}

/// Checks that every name with a size by `--bind` is the name of an unknown size in one of these programs.
pub(crate) fn check_bindings(texts: &[String], programs: &[&Program]) -> Result<(), Failure> {
    let Some(first) = programs.first() else {
        return Ok(());
    };
    let mut known = IndexSet::new();
    for program in programs {
        known.extend(bound_sizes(&program.module, &SizeTable::default()).into_keys());
    }
    let bound = bindings(texts)?.0.into_keys();
    let Some(name) = bound.into_iter().find(|name| !known.contains(name)) else {
        return Ok(());
    };
    let known: Vec<&str> = known.iter().map(|name| &**name).collect();
    let advice = match known.is_empty() {
        true => format!("{} has no unknown sizes", first.name),
        false => format!("wanted one of {}", known.join(", ")),
    };
    Err(Failure::unknown("--bind", "size", &name, known, &advice))
}

/// Reads numbers separated by commas; brackets around them are allowed.
pub(crate) fn numbers<T: std::str::FromStr>(what: &str, text: &str) -> Result<Vec<T>, Failure> {
    let inner = text.trim();
    let inner = inner
        .strip_prefix('[')
        .and_then(|t| t.strip_suffix(']'))
        .unwrap_or(inner);
    let parts = inner.split(',').map(str::trim);
    let all: Option<Vec<T>> = match inner.trim() {
        "" => Some(Vec::new()),
        _ => parts.map(|p| p.parse().ok()).collect(),
    };
    all.ok_or_else(|| Failure::usage(format!("found {what} `{text}`, wanted numbers and commas")))
}

/// Sets the folder of a program's data to this one.
pub(crate) fn set_data(program: &mut Program, folder: Option<&Path>) -> Result<(), Failure> {
    let Some(folder) = folder else {
        return Ok(());
    };
    if !folder.is_dir() {
        let folder = folder.display();
        return Err(Failure::usage(format!(
            "--data wants a folder, found `{folder}`"
        )));
    }
    program.folder = folder.to_path_buf();
    Ok(())
}

/// The source of a program's weights: its folder, and on request made-up numbers for absent files.
pub(crate) fn weights(program: &Program, invent: bool) -> Box<dyn DataSource> {
    let folder = FolderSource::new(program.folder.clone());
    if invent {
        Box::new(FallbackSource {
            first: folder,
            second: RandomSource,
        })
    } else {
        Box::new(folder)
    }
}

/// The name of the function to run: the requested one, else `main`, else the first.
pub(crate) fn function(program: &Program, asked: Option<&str>) -> Result<String, Failure> {
    let Some(asked) = asked else {
        let entry = program.entry().map(|f| f.name.to_string());
        return entry.ok_or_else(|| {
            let diag = Diagnostic::error(codes::FUNCTION_MISSING, "found no function to run");
            program.error(vec![diag]).into()
        });
    };
    let name = asked.strip_prefix('@').unwrap_or(asked);
    let known: Vec<&str> = program.module.funcs.iter().map(|f| &*f.name).collect();
    if known.contains(&name) {
        return Ok(name.to_owned());
    }
    let has = match known.is_empty() {
        true => "no functions".to_owned(),
        false => known.join(", "),
    };
    let message = format!("found no function `{name}`: {} has {has}", program.name);
    let diag = Diagnostic::error(codes::FUNCTION_MISSING, message).suggest("@", name, known);
    Err(Failure::about("--func", diag))
}
