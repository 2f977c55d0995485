//! The options about the layouts of arguments and results.

use crate::args::CompileArgs;
use crate::failure::Failure;
use optc::interp::{argument_keys, result_keys};
use optc::layout::Spelling;
use optc::{Boundary, Diagnostic, Error, Func, Program, Type};

/// What the options say without a look at the program.
pub(crate) fn of(args: &CompileArgs) -> Boundary {
    let free = args.free_boundary.as_deref().unwrap_or(&[]);
    let named: Vec<String> = free.iter().filter(|n| !n.is_empty()).cloned().collect();
    Boundary {
        free_all: args.free_boundary.is_some() && named.is_empty(),
        free: named
            .iter()
            .map(|n| n.trim_start_matches('%').to_owned())
            .collect(),
        pin_bare: args.pin_boundary,
        ..Boundary::default()
    }
}

/// Adds the pins, whose layouts are read with the types of the program's arguments and results, and
/// checks that every name is one of them.
pub(crate) fn resolve(
    boundary: &mut Boundary,
    program: &Program,
    pins: &[String],
) -> Result<(), Failure> {
    let Some(func) = program.entry() else {
        return Ok(());
    };
    for name in &boundary.free {
        port_type(func, name).ok_or_else(|| unknown_port("--free-boundary", name, func))?;
    }
    for pin in pins {
        let (name, layout) = split_pin(pin)?;
        let ty = port_type(func, name).ok_or_else(|| unknown_port("--pin", name, func))?;
        boundary
            .pins
            .insert(name.to_owned(), spelling(pin, layout, ty)?);
    }
    Ok(())
}

fn split_pin(pin: &str) -> Result<(&str, &str), Failure> {
    let split = pin
        .split_once('=')
        .map(|(name, layout)| (name.trim(), layout.trim()));
    match split {
        Some((name, layout)) if !name.is_empty() && layout.starts_with('{') => {
            Ok((name.trim_start_matches('%'), layout))
        }
        _ => {
            let wanted = "NAME={…} with a layout's encoding, such as x='{order = [1, 0]}'";
            Err(Failure::usage(format!(
                "found `--pin {pin}`, wanted {wanted}"
            )))
        }
    }
}

/// The type of an argument or result, by its key.
fn port_type<'f>(func: &'f Func, name: &str) -> Option<&'f Type> {
    let arg = argument_keys(func)
        .iter()
        .position(|k| k == name)
        .map(|i| func.args[i]);
    let result = || {
        result_keys(func)
            .iter()
            .position(|k| k == name)
            .map(|i| func.results[i])
    };
    arg.or_else(result).map(|value| func.ty(value))
}

fn unknown_port(option: &'static str, name: &str, func: &Func) -> Failure {
    let mut known = argument_keys(func);
    known.extend(result_keys(func));
    let message = format!("@{} has no argument or result `{name}`", func.name);
    let hint = format!("wanted one of {}", known.join(", "));
    let diag = Diagnostic::error("unknown-port", message).note(hint);
    Failure::about(option, diag)
}

/// Reads an encoding as the layout of a value of type `ty`, by parsing an operation that uses one.
fn spelling(pin: &str, layout: &str, ty: &Type) -> Result<Spelling, Failure> {
    let Some(tensor) = ty.as_tensor() else {
        let diag = Diagnostic::error(
            "pin-kind",
            "found a value that is no tensor, which has no layout",
        );
        return Err(Failure::about("--pin", diag));
    };
    let dims = tensor.dims.iter().map(|d| match d.fixed() {
        Some(n) => format!("{n}x"),
        None => "?x".to_owned(),
    });
    let dims: String = dims.collect();
    let head = format!("\"pin.of\"(%x) : (tensor<{dims}{}, ", tensor.dtype);
    let text = format!("{head}{layout}>) -> ()");
    let module = optc::text::parse(&text).map_err(|diags| {
        let notes = diags.into_iter().map(|mut diag| {
            // The labels point into the text made here; the option itself is what the user knows.
            diag.labels.clear();
            diag.note(format!("in `--pin {pin}`"))
        });
        Error {
            diagnostics: notes.collect(),
            file: "--pin".to_owned(),
            source: std::sync::Arc::from(""),
        }
    })?;
    let parsed = module
        .funcs
        .first()
        .and_then(|f| f.args.first().map(|&v| f.ty(v)));
    let parsed = parsed.and_then(Type::as_tensor).map(|t| t.spelling.clone());
    parsed.ok_or_else(|| Failure::usage(format!("found `--pin {pin}`, wanted a layout's encoding")))
}
