//! Targets and the options of a fold.

use crate::argument::{given, optional_text, text, wrong};
use crate::c_text;
use crate::error::{OptcError, enter};
use optc::{Compiler, Error, Target};
use std::ffi::{CString, c_char};
use std::mem::MaybeUninit;
use std::ptr::null;
use std::sync::Arc;

/// A machine: the layouts that it takes, and their prices.
#[derive(Debug)]
pub struct OptcTarget {
    target: Arc<Target>,
    name: CString,
}

fn made(target: Target) -> *mut OptcTarget {
    Box::into_raw(Box::new(OptcTarget {
        name: c_text(&*target.name),
        target: Arc::new(target),
    }))
}

/// Finds a built-in target by its name, such as `cpu`, or reads the file of one if the name ends in `.toml` or has a
/// slash. The caller frees the target.
#[unsafe(no_mangle)]
pub extern "C" fn optc_target_find(
    name: *const c_char,
    target: Option<&mut MaybeUninit<*mut OptcTarget>>,
) -> Option<Box<OptcError>> {
    enter(|| {
        let target = given(target, "target")?;
        target.write(made(optc::find_target(text(name, "name")?)?));
        Ok(())
    })
}

/// Reads a target from the text of its file. The caller frees the target.
#[unsafe(no_mangle)]
pub extern "C" fn optc_target_parse(
    file: *const c_char,
    target: Option<&mut MaybeUninit<*mut OptcTarget>>,
) -> Option<Box<OptcError>> {
    enter(|| {
        let (file, target) = (text(file, "file")?, given(target, "target")?);
        let mut compiler = Compiler::new();
        compiler.add_target(file)?;
        let name = compiler
            .target_names()
            .last()
            .map(|name| (*name).to_owned());
        target.write(made(compiler.find_target(&name.unwrap_or_default())?));
        Ok(())
    })
}

/// The name of a target. It lives as long as the target.
#[unsafe(no_mangle)]
pub extern "C" fn optc_target_name(target: Option<&OptcTarget>) -> *const c_char {
    target.map_or(null(), |target| target.name.as_ptr())
}

/// Frees a target; NULL is allowed.
#[unsafe(no_mangle)]
pub extern "C" fn optc_target_free(target: Option<Box<OptcTarget>>) {
    drop(target);
}

/// The options of a fold. Names are those of arguments and results of the program; they are checked by the fold.
#[derive(Clone, Debug)]
pub struct OptcOptions {
    pub(crate) compiler: Compiler,
    pub(crate) pins: Vec<(String, String)>,
    pub(crate) pipeline: String,
}

impl Default for OptcOptions {
    fn default() -> OptcOptions {
        OptcOptions {
            compiler: Compiler::new(),
            pins: Vec::new(),
            pipeline: "default".to_owned(),
        }
    }
}

/// The default options: the pipeline `default` for the default target of the program, all layouts of the boundary as
/// declared. The caller frees them.
#[unsafe(no_mangle)]
pub extern "C" fn optc_options_new() -> Box<OptcOptions> {
    Box::default()
}

/// Frees options; NULL is allowed.
#[unsafe(no_mangle)]
pub extern "C" fn optc_options_free(options: Option<Box<OptcOptions>>) {
    drop(options);
}

fn change(
    options: Option<&mut OptcOptions>,
    change: impl FnOnce(&mut OptcOptions) -> Result<(), Error>,
) -> Option<Box<OptcError>> {
    enter(|| change(given(options, "options")?))
}

/// Sets the target. It may be freed before the options.
#[unsafe(no_mangle)]
pub extern "C" fn optc_options_target(
    options: Option<&mut OptcOptions>,
    target: Option<&OptcTarget>,
) -> Option<Box<OptcError>> {
    change(options, |options| {
        options.compiler.target = Some(given(target, "target")?.target.clone());
        Ok(())
    })
}

/// Sets the passes, such as `canonicalize,view-fold,bufferize,plan-memory`.
#[unsafe(no_mangle)]
pub extern "C" fn optc_options_pipeline(
    options: Option<&mut OptcOptions>,
    pipeline: *const c_char,
) -> Option<Box<OptcError>> {
    change(options, |options| {
        options.pipeline = text(pipeline, "pipeline")?.to_owned();
        Ok(())
    })
}

/// Gives an argument or result a layout, such as `{order = [1, 0]}`.
#[unsafe(no_mangle)]
pub extern "C" fn optc_options_pin(
    options: Option<&mut OptcOptions>,
    name: *const c_char,
    layout: *const c_char,
) -> Option<Box<OptcError>> {
    change(options, |options| {
        let (name, layout) = (text(name, "name")?, text(layout, "layout")?);
        options.pins.push((name.to_owned(), layout.to_owned()));
        Ok(())
    })
}

/// Lets the fold choose the layout of an argument or result; NULL stands for all of them.
#[unsafe(no_mangle)]
pub extern "C" fn optc_options_free_boundary(
    options: Option<&mut OptcOptions>,
    name: *const c_char,
) -> Option<Box<OptcError>> {
    change(options, |options| {
        let boundary = &mut options.compiler.boundary;
        match optional_text(name, "name")? {
            Some(name) => boundary.free.push(name.to_owned()),
            None => boundary.free_all = true,
        }
        Ok(())
    })
}

/// Has a result written in the memory of an argument.
#[unsafe(no_mangle)]
pub extern "C" fn optc_options_alias(
    options: Option<&mut OptcOptions>,
    argument: *const c_char,
    result: *const c_char,
) -> Option<Box<OptcError>> {
    change(options, |options| {
        let (argument, result) = (text(argument, "argument")?, text(result, "result")?);
        options.compiler.alias(argument, result);
        Ok(())
    })
}

/// Compares costs with this size, above 0, for a size that the program only names.
#[unsafe(no_mangle)]
pub extern "C" fn optc_options_bind(
    options: Option<&mut OptcOptions>,
    symbol: *const c_char,
    size: u64,
) -> Option<Box<OptcError>> {
    change(options, |options| {
        let symbol = text(symbol, "symbol")?;
        if size == 0 {
            return Err(wrong("found the size 0, wanted one above 0"));
        }
        options.compiler.bindings.0.insert(symbol.into(), size);
        Ok(())
    })
}
