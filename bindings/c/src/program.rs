//! Programs.

use crate::argument::{given, list, optional_text, text, wrong};
use crate::c_text;
use crate::error::{OptcError, enter};
use optc::{Compiler, Error, Format, Program, Value};
use std::ffi::{CString, c_char};
use std::mem::MaybeUninit;
use std::path::Path;
use std::ptr::null;
use std::sync::Arc;

/// A program that was read and verified.
#[derive(Debug)]
pub struct OptcProgram {
    pub(crate) program: Program,
    pub(crate) values: Vec<(Value, CString)>,
}

impl OptcProgram {
    fn new(mut program: Program) -> OptcProgram {
        Compiler::new().name_sizes(&mut program);
        let values = program.values().into_iter();
        OptcProgram {
            values: values.map(|(v, name)| (v, c_text(name))).collect(),
            program,
        }
    }
}

/// The format of a name; `None` for NULL.
pub(crate) fn format(name: *const c_char) -> Result<Option<Format>, Error> {
    let Some(name) = optional_text(name, "format")? else {
        return Ok(None);
    };
    match Format::named(name) {
        Some(format) => Ok(Some(format)),
        None => Err(wrong(format!(
            "found the format `{name}`, wanted one of {}",
            Format::NAMES.join(", ")
        ))),
    }
}

/// Reads a program from memory. `name` is its name in messages; a file name gives the folder of external data.
/// `format` is `ir`, `onnx`, `stablehlo`, `linalg` or `hlo`; NULL detects it. The bytes are copied. The caller frees the
/// program.
#[unsafe(no_mangle)]
pub extern "C" fn optc_program_read(
    bytes: *const u8,
    len: usize,
    name: *const c_char,
    format: *const c_char,
    program: Option<&mut MaybeUninit<*mut OptcProgram>>,
) -> Option<Box<OptcError>> {
    enter(|| {
        let (bytes, name) = (list(bytes, len, "bytes")?, text(name, "name")?);
        let program = given(program, "program")?;
        let read = Compiler::new().read_memory(name, Arc::from(bytes), self::format(format)?)?;
        program.write(Box::into_raw(Box::new(OptcProgram::new(read))));
        Ok(())
    })
}

/// Reads a program from a file. `format` is as for `optc_program_read`. The caller frees the program.
#[unsafe(no_mangle)]
pub extern "C" fn optc_program_load(
    path: *const c_char,
    format: *const c_char,
    program: Option<&mut MaybeUninit<*mut OptcProgram>>,
) -> Option<Box<OptcError>> {
    enter(|| {
        let (path, program) = (text(path, "path")?, given(program, "program")?);
        let read = Compiler::new().load(Path::new(path), self::format(format)?)?;
        program.write(Box::into_raw(Box::new(OptcProgram::new(read))));
        Ok(())
    })
}

/// Frees a program; NULL is allowed. Its answers stay valid.
#[unsafe(no_mangle)]
pub extern "C" fn optc_program_free(program: Option<Box<OptcProgram>>) {
    drop(program);
}

/// The number of values of the default function: its arguments, then the results of its operations in order. A value
/// is given by its number.
#[unsafe(no_mangle)]
pub extern "C" fn optc_program_value_count(program: Option<&OptcProgram>) -> usize {
    program.map_or(0, |program| program.values.len())
}

/// The name of a value; NULL if there is none of this number. It lives as long as the program.
#[unsafe(no_mangle)]
pub extern "C" fn optc_program_value_name(
    program: Option<&OptcProgram>,
    value: usize,
) -> *const c_char {
    let found = program.and_then(|program| program.values.get(value));
    found.map_or(null(), |(_, name)| name.as_ptr())
}

/// Finds a value by its name, by the name of a result, or by that of a node or an instruction. The value is `SIZE_MAX`
/// if there is none.
#[unsafe(no_mangle)]
pub extern "C" fn optc_program_find(
    program: Option<&OptcProgram>,
    name: *const c_char,
    value: Option<&mut MaybeUninit<usize>>,
) -> Option<Box<OptcError>> {
    enter(|| {
        let (program, name) = (given(program, "program")?, text(name, "name")?);
        let value = given(value, "value")?;
        let found = program.program.value(name).and_then(|found| {
            let mut values = program.values.iter();
            values.position(|(value, _)| *value == found)
        });
        value.write(found.unwrap_or(usize::MAX));
        Ok(())
    })
}
