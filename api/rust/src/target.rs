//! Finds a target by name or file, and the default target of a program.

use crate::codes;
use crate::error::Error;
use crate::format::Format;
use crate::input::read_text;
use crate::program::Program;
use optc_ir::{Diagnostic, OpDecl, Registry, Span, TensorType};
use optc_layout::Notation;
use optc_target::{Target, TargetError};
use std::path::Path;

/// The target with this name, or the one in this file if the text ends in `.toml` or contains a path separator. The
/// file may name the families of the built-in operations; [`Compiler::find_target`](crate::Compiler::find_target) also
/// knows those of added operations.
///
/// # Errors
/// There is no such target, or the file cannot be read or is refused.
pub fn find_target(name: &str) -> Result<Target, Error> {
    find_with(name, &optc_ops::registry())
}

/// Finds a target as [`find_target`] does, with the families of these operations.
pub(crate) fn find_with(name: &str, registry: &Registry) -> Result<Target, Error> {
    let path = Path::new(name);
    if !name.contains(['/', '\\']) && path.extension().is_none_or(|e| e != "toml") {
        return Target::builtin(name).map_err(|e| {
            let hint = "a target of your own is given by its file, --target=path/to/target.toml";
            let diag = Diagnostic::error(codes::UNKNOWN_TARGET, e.to_string()).note(hint);
            Error::about("--target", diag.suggest("", name, Target::names()))
        });
    }
    let text = read_text(path)?;
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

/// The default target of a program: the one that chose its layouts (`hbir.target`), else the one of its format if there
/// is one, else `tpu` for HLO text with tiled layouts and `xla` for other HLO text, else `cpu`.
///
/// # Errors
/// The program names a target that does not exist.
pub fn default_target(program: &Program) -> Result<Target, Error> {
    if let Some(name) = program.module.attrs.str("hbir.target") {
        return Target::builtin(name).map_err(|e| {
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
