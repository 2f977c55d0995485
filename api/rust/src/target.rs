//! Finds a target by name or file, and the default target of a program.

use crate::codes;
use crate::error::Error;
use crate::format::Format;
use crate::input::read_text;
use crate::program::Program;
use optc_ir::{Diagnostic, OpDecl, Registry, Span, TensorType};
use optc_layout::Notation;
use optc_target::{Precision, Target, TargetError};
use std::path::Path;
use std::sync::Arc;

/// A target that was added to a compiler.
#[derive(Clone, Debug)]
pub(crate) struct Added {
    target: Target,
    text: Arc<str>,
}

/// The names of the built-in targets, then those of added ones.
pub(crate) fn names(added: &[Added]) -> Vec<&str> {
    let own = added.iter().map(|a| a.target.name.as_str());
    Target::names().into_iter().chain(own).collect()
}

/// The target of this name, added or built in; a generation follows a colon.
pub(crate) fn named(name: &str, added: &[Added]) -> Result<Target, TargetError> {
    let Some((own, generation)) = find_added(name, added) else {
        return Target::builtin(name).map_err(|error| match error {
            TargetError::Unknown { name, .. } => TargetError::Unknown {
                name,
                known: names(added).join(", "),
            },
            error => error,
        });
    };
    let target = own.target.clone();
    match generation {
        Some(generation) => target.with_generation(generation),
        None => Ok(target),
    }
}

/// The file of an added or built-in target; `None` if there is no target of this name.
pub(crate) fn file_of(name: &str, added: &[Added]) -> Option<String> {
    match find_added(name, added) {
        Some((own, _)) => Some(named(name, added).ok()?.file_from(&own.text)),
        None => Target::file(name),
    }
}

fn find_added<'a, 'n>(name: &'n str, added: &'a [Added]) -> Option<(&'a Added, Option<&'n str>)> {
    let (base, generation) = match name.split_once(':') {
        Some((base, generation)) => (base, Some(generation)),
        None => (name, None),
    };
    let own = added.iter().find(|own| own.target.name == base)?;
    Some((own, generation))
}

/// Reads the text of a target that is added beside these.
pub(crate) fn added(text: &str, registry: &Registry, others: &[Added]) -> Result<Added, Error> {
    let target = parsed("the added target", text.to_owned(), registry)?;
    if names(others).contains(&target.name.as_str()) || target.name.contains(':') {
        let wanted = format!("wanted a name other than {}", names(others).join(", "));
        let message = format!("found an added target called `{}`, {wanted}", target.name);
        let diag = Diagnostic::error(codes::TARGET_FILE, message);
        return Err(Error::about("the added target", diag));
    }
    Ok(Added {
        target,
        text: Arc::from(text),
    })
}

/// The target with this name, or the one in this file if the text ends in `.toml` or contains a path separator. The
/// file may name the families of the built-in operations; [`Compiler::find_target`](crate::Compiler::find_target) also
/// knows those of added operations.
///
/// ```
/// use optc::{Alternative, MemoryLevel, Precision, Precisions, Row, TargetError, Unit};
///
/// let target = optc::find_target("tpu")?;
/// let level: &MemoryLevel = target.memory.last().expect("it has a memory");
/// assert!(0.0 < level.bandwidth);
/// for (family, row) in &target.families {
///     let row: &Row = row;
///     let unit: &Unit = &target.units[&row.unit];
///     let named: Vec<&Alternative> = row.take.iter().filter(|one| one.name.is_some()).collect();
///     println!("{family} runs on {} ({}), {} layouts have names", row.unit, unit.summary, named.len());
/// }
/// let reduced: &Precisions = &target.units["tensor"].f32;
/// assert!(target.units["tensor"].rates.of(true, 32) < reduced.of(Precision::Bf16));
/// let problem: TargetError = optc::Target::parse("name = 1").expect_err("a name is a text");
/// println!("{problem}");
/// # Ok::<(), optc::Error>(())
/// ```
///
/// # Errors
/// There is no such target, or the file cannot be read or is refused.
pub fn find_target(name: &str) -> Result<Target, Error> {
    find_with(name, &optc_ops::registry(), &[])
}

/// Finds a target as [`find_target`] does, with the families of these operations, also among added targets.
pub(crate) fn find_with(name: &str, registry: &Registry, added: &[Added]) -> Result<Target, Error> {
    let path = Path::new(name);
    if !name.contains(['/', '\\']) && path.extension().is_none_or(|e| e != "toml") {
        return named(name, added).map_err(|e| {
            let hint = "a target of your own is given by its file, --target=path/to/target.toml";
            let diag = Diagnostic::error(codes::UNKNOWN_TARGET, e.to_string()).note(hint);
            Error::about("--target", diag.suggest("", name, names(added)))
        });
    }
    parsed(name, read_text(path)?, registry)
}

/// Reads the text of a target file of this name.
fn parsed(name: &str, text: String, registry: &Registry) -> Result<Target, Error> {
    let of_decl = |decl: &&dyn OpDecl| [Some(decl.family()), decl.family_if_free()];
    let mut families: Vec<&str> = registry.all().iter().flat_map(of_decl).flatten().collect();
    families.sort_unstable();
    families.dedup();
    Target::parse_with(&text, &families).map_err(|e| refused(name, text, &e, &families))
}

/// The refusal of a target file, at its place in the file.
fn refused(name: &str, text: String, error: &TargetError, families: &[&str]) -> Error {
    let mut diag = Diagnostic::error(codes::TARGET_FILE, error.to_string());
    if let Some(family) = error.unknown_family() {
        diag = diag.note(format!("the families are {}", families.join(", ")));
        diag = diag.suggest("", family, families.iter().copied());
    }
    if let TargetError::Syntax(fault) = error {
        // The message has the found text and the allowed texts in backticks.
        let mut quoted = fault.message().split('`').skip(1).step_by(2);
        if let Some(found) = quoted.next() {
            diag = diag.suggest("", found, quoted);
        }
    }
    if let Some(span) = error.span() {
        let place = |n: usize| u32::try_from(n).unwrap_or(u32::MAX);
        let (start, end) = (place(span.start), place(span.end));
        diag = diag.at(Span { start, end }, "");
    }
    Error {
        diagnostics: vec![diag],
        file: name.to_owned(),
        source: text.into(),
    }
}

/// The target with products of f32 at this precision.
pub(crate) fn at_precision(target: &Target, precision: Precision) -> Result<Target, Error> {
    target.clone().with_precision(precision).map_err(|error| {
        let diag = Diagnostic::error(codes::TARGET_PRECISION, error.to_string());
        Error::about(
            "--precision",
            diag.hint("`optc targets` lists the rates of a target's units"),
        )
    })
}

/// The default target of a program: the one that chose its layouts (`hbir.target`), else the one of its format if there
/// is one, else `tpu` for HLO text with tiled layouts and `xla` for other HLO text, else `cpu`.
///
/// # Errors
/// The program names a target that does not exist.
pub fn default_target(program: &Program) -> Result<Target, Error> {
    default_with(program, &[])
}

/// The default target of a program, which may be an added one.
pub(crate) fn default_with(program: &Program, added: &[Added]) -> Result<Target, Error> {
    if let Some(name) = program.module.attrs.str("hbir.target") {
        return named(name, added).map_err(|e| {
            let hint = "give the target's file with --target";
            let diag = Diagnostic::error(codes::UNKNOWN_TARGET, format!("`hbir.target`: {e}"));
            program.error(vec![diag.note(hint)])
        });
    }
    let tiled = program.format == Format::Hlo && has_tiles(program);
    let own = program
        .format
        .own_target()
        .or(tiled.then_some("tpu"))
        .or((program.format == Format::Hlo).then_some("xla"))
        .filter(|name| Target::names().contains(name));
    find_target(own.unwrap_or("cpu"))
}

/// Returns whether an argument of the program lies in tiles.
fn has_tiles(program: &Program) -> bool {
    let Some(entry) = program.entry() else {
        return false;
    };
    let tiled = |ty: &TensorType| matches!(&ty.notation, Notation::Xla(layout) if !layout.tiles().is_empty());
    let values = entry.args.iter().chain(&entry.results);
    values.filter_map(|&v| entry.ty(v).as_tensor()).any(tiled)
}

#[cfg(test)]
mod tests {
    use crate::Compiler;

    /// The file of a target of this name.
    fn file(name: &str) -> String {
        let cpu = Compiler::new().target_file("cpu").unwrap();
        cpu.replacen("name = \"cpu\"", &format!("name = \"{name}\""), 1)
    }

    #[test]
    fn an_added_target_is_found_by_its_name() {
        let mut compiler = Compiler::new();
        compiler.add_target(&file("acme")).unwrap();
        assert_eq!(compiler.target_names().last(), Some(&"acme"));
        assert_eq!(compiler.target_file("acme").unwrap(), file("acme"));
        let bytes = compiler.find_target("acme:bytes").unwrap();
        assert_eq!(bytes.name, "acme:bytes");
        let named = compiler.target_file("acme:bytes").unwrap();
        assert!(named.contains("name = \"acme:bytes\""), "{named}");

        // The layouts that it chose are checked, and it is the default of the program.
        let text = "%0 = \"hbir.transpose\"(%x) <{perm = [1, 0]}> : (tensor<2x3xf32>) -> tensor<3x2xf32>\n";
        let mut program = compiler.parse("a.ir", text).unwrap();
        compiler.target = Some(compiler.find_target("acme").unwrap().into());
        compiler.compile(&mut program, "view-fold").unwrap();
        compiler.target = None;
        let found = compiler.default_target(&program).unwrap();
        assert_eq!(found.name, "acme");
        assert!(compiler.target_of(&program.module).is_some());
        let unknown = Compiler::new().default_target(&program).unwrap_err();
        assert_eq!(unknown.code(), "unknown-target");
    }

    #[test]
    fn a_name_is_taken_once() {
        let mut compiler = Compiler::new();
        compiler.add_target(&file("acme")).unwrap();
        for (name, wanted) in [
            ("acme", "called `acme`"),
            ("cpu", "called `cpu`"),
            ("a:b", "`a:b`"),
        ] {
            let error = compiler.add_target(&file(name)).unwrap_err();
            assert_eq!(error.code(), "target-file");
            assert!(error.to_string().contains(wanted), "{error}");
        }
        let error = compiler.add_target("name = 3").unwrap_err();
        assert_eq!(error.code(), "target-file");
        let error = compiler.find_target("acne").unwrap_err().to_string();
        assert!(error.contains("did you mean acme?"), "{error}");
    }
}
