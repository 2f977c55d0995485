//! Options for the layouts of arguments and results.

use crate::args::CompileArgs;
use crate::failure::Failure;
use optc::interp::{argument_keys, result_keys};
use optc::layout::Notation;
use optc::{Boundary, Diagnostic, Error, Func, Program, TensorType};
use std::sync::Arc;

/// Adds what the options state without the program.
pub(crate) fn add(boundary: &mut Boundary, args: &CompileArgs) {
    let free = args.free_boundary.as_deref().unwrap_or(&[]);
    let named = free.iter().filter(|n| !n.is_empty());
    let named: Vec<String> = named
        .map(|n| n.trim_start_matches('%').to_owned())
        .collect();
    boundary.free_all |= args.free_boundary.is_some() && named.is_empty();
    boundary.free.extend(named);
    boundary.pin_bare |= args.pin_boundary;
}

/// Adds the pins and checks that every name is an argument or result. The layouts of pins are read with the types of
/// these.
pub(crate) fn resolve(
    boundary: &mut Boundary,
    program: &Program,
    pins: &[String],
    aliases: &[String],
) -> Result<(), Failure> {
    let Some(func) = program.entry() else {
        return Ok(());
    };
    for name in &boundary.free {
        port_type(func, name).ok_or_else(|| unknown_port("--free-boundary", name, func))?;
    }
    for pin in pins {
        let (name, layout) = split_pin(pin)?;
        port_type(func, name).ok_or_else(|| unknown_port("--pin", name, func))?;
        let layout = pinned(program, pin, name, layout)?;
        boundary.pins.insert(name.to_owned(), layout);
    }
    for alias in aliases {
        let Some((argument, result)) = alias.split_once('=') else {
            let message = format!("found `--alias {alias}`, wanted ARGUMENT=RESULT");
            return Err(Failure::usage(message));
        };
        let names = [argument, result].map(|name| name.trim().trim_start_matches('%').to_owned());
        for name in &names {
            port_type(func, name).ok_or_else(|| unknown_port("--alias", name, func))?;
        }
        boundary.aliases.push(names.into());
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

/// The type of an argument or result that is a tensor, by its key.
fn port_type<'f>(func: &'f Func, name: &str) -> Option<&'f TensorType> {
    let args = argument_keys(func).into_iter().zip(&func.args);
    let results = result_keys(func).into_iter().zip(&func.results);
    let (_, &value) = args.chain(results).find(|(key, _)| key == name)?;
    func.ty(value).as_tensor()
}

fn unknown_port(option: &'static str, name: &str, func: &Func) -> Failure {
    let mut known = argument_keys(func);
    known.extend(result_keys(func));
    let message = format!(
        "@{} has no tensor `{name}` among its arguments and results",
        func.name
    );
    let hint = format!("wanted one of {}", known.join(", "));
    let diag = Diagnostic::error(optc::codes::shared::UNKNOWN_PORT, message).note(hint);
    Failure::about(option, diag)
}

/// The layout of a pin; a mistake is shown in the option's text, whose end is the layout.
fn pinned(program: &Program, pin: &str, name: &str, layout: &str) -> Result<Notation, Error> {
    let pin = pin.trim_end();
    let before = u32::try_from(pin.len() - layout.len()).unwrap_or(u32::MAX);
    program.port_layout(name, layout).map_err(|mut error| {
        let labels = error.diagnostics.iter_mut().flat_map(|d| &mut d.labels);
        for (span, _) in labels {
            (span.start, span.end) = (span.start + before, span.end + before);
        }
        Error {
            file: "--pin".to_owned(),
            source: Arc::from(pin),
            ..error
        }
    })
}
