//! The fold and its answer.

use crate::argument::{OptcBytes, given, list, text, wrong};
use crate::c_text;
use crate::error::{OptcError, enter};
use crate::options::OptcOptions;
use crate::program::{OptcProgram, format};
use optc::text::value_names;
use optc::{Absence, Answer, Compiler, Error, Fate, Format, Func, Holder, Value, ViewDecision};
use std::collections::BTreeMap;
use std::ffi::{CString, c_char};
use std::mem::MaybeUninit;
use std::ptr::null;
use std::sync::OnceLock;

/// The fate of a value in a fold.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub enum OptcFate {
    /// Values of the result have its elements: its holders.
    Held,
    /// Nothing depended on it.
    Dead,
    /// Operations of the result compute it inside.
    Inside,
    /// A pass removed it.
    Removed,
}

/// The fate of a reshape, a transpose or another rearrangement.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub enum OptcView {
    /// Its result is its operand in the same buffer.
    View,
    /// Operations of the result write the elements again.
    Moved,
    /// Operand and result are computed apart.
    Computed,
    /// The operand or the result is in no value.
    Absent,
}

/// A value of the result that has the elements of a value that went in. Texts and arrays live as long as the answer.
#[repr(C)]
#[derive(Debug)]
pub struct OptcHolder {
    /// The name of the function in the result.
    pub func: *const c_char,
    /// The name of the value in the result.
    pub value: *const c_char,
    /// The layout of the value that went in, in the buffer of `value`; NULL if no layout describes it.
    pub layout: *const c_char,
    /// The stride of each dimension in elements, NULL if one has several or a size is not known.
    pub strides: *const u64,
    /// The number of strides.
    pub rank: usize,
    /// The name of the value whose buffer it is.
    pub buffer: *const c_char,
    /// True if the elements are in pieces, in the buffers of operands.
    pub in_pieces: bool,
    /// True if the value is known when the program is compiled.
    pub is_constant: bool,
}

/// A conversion between layouts that the result runs. Texts live as long as the answer.
#[repr(C)]
#[derive(Debug)]
pub struct OptcConversion {
    /// The name of the converted value in the result.
    pub value: *const c_char,
    /// The layout that it reads; NULL if a size has no name.
    pub from: *const c_char,
    /// The layout that it writes; NULL if a size has no name.
    pub to: *const c_char,
    /// Bytes read plus written.
    pub bytes: u64,
    /// True if it runs when the program is compiled.
    pub is_constant: bool,
    /// The reason why it stays; NULL for a constant, and for a conversion that the program stated.
    pub reason: *const c_char,
}

#[derive(Debug)]
struct HolderText {
    holder: Holder,
    func: CString,
    value: CString,
    layout: Option<CString>,
    strides: Option<Vec<u64>>,
    buffer: CString,
}

#[derive(Debug)]
struct ConversionText {
    value: CString,
    from: Option<CString>,
    to: Option<CString>,
    reason: Option<CString>,
    bytes: u64,
    is_constant: bool,
}

/// A program after its fold, and the fate of each value that went in.
#[derive(Debug)]
pub struct OptcAnswer {
    compiler: Compiler,
    answer: Answer,
    values: Vec<Value>,
    /// The names of the values of each function of the result, made when they are asked for.
    names: Vec<OnceLock<BTreeMap<Value, String>>>,
    /// The texts of holders, made when they are asked for.
    holders: Vec<OnceLock<Vec<HolderText>>>,
    conversions: OnceLock<Vec<ConversionText>>,
    proof: CString,
}

/// Runs the passes on a program. NULL stands for the default options. The caller frees the answer.
#[unsafe(no_mangle)]
pub extern "C" fn optc_fold(
    program: Option<&OptcProgram>,
    options: Option<&OptcOptions>,
    answer: Option<&mut MaybeUninit<*mut OptcAnswer>>,
) -> Option<Box<OptcError>> {
    enter(|| {
        let (from, answer) = (given(program, "program")?, given(answer, "answer")?);
        let options = options.cloned().unwrap_or_default();
        let mut compiler = options.compiler;
        for (name, layout) in options.pins {
            let layout = from.program.port_layout(&name, &layout)?;
            compiler.boundary.pins.insert(name, layout);
        }
        let found = compiler.answer(&from.program, &options.pipeline)?;
        let proof = found.folded().map_or("none", |fold| fold.proof.name());
        answer.write(Box::into_raw(Box::new(OptcAnswer {
            values: from.values.iter().map(|(value, _)| *value).collect(),
            holders: from.values.iter().map(|_| OnceLock::new()).collect(),
            names: found
                .program()
                .module
                .funcs
                .iter()
                .map(|_| OnceLock::new())
                .collect(),
            conversions: OnceLock::new(),
            proof: c_text(proof),
            compiler,
            answer: found,
        })));
        Ok(())
    })
}

/// Frees an answer; NULL is allowed.
#[unsafe(no_mangle)]
pub extern "C" fn optc_answer_free(answer: Option<Box<OptcAnswer>>) {
    drop(answer);
}

impl OptcAnswer {
    fn func(&self, number: usize) -> &Func {
        &self.answer.program().module.funcs[number]
    }

    fn value(&self, value: usize) -> Result<Value, Error> {
        let count = self.values.len();
        let found = self.values.get(value).copied();
        found.ok_or_else(|| wrong(format!("found the value {value}, wanted one below {count}")))
    }

    fn name(&self, func: usize, value: Value) -> CString {
        let names = self.names[func].get_or_init(|| {
            let names = value_names(self.func(func)).into_iter();
            names.collect()
        });
        c_text(names.get(&value).map_or("", |name| name))
    }

    fn holders(&self, value: usize) -> Result<&[HolderText], Error> {
        let found = self.answer.holders(self.value(value)?)?;
        Ok(self.holders[value].get_or_init(|| {
            let texts = found.into_iter().map(|holder| HolderText {
                func: c_text(&*self.func(holder.func).name),
                value: self.name(holder.func, holder.value),
                layout: holder.layout.as_ref().map(|l| c_text(l.to_string())),
                strides: holder.layout.as_ref().and_then(|layout| {
                    let strides = layout.strides()?.into_iter();
                    strides.map(|stride| stride.fixed()).collect()
                }),
                buffer: self.name(holder.func, holder.place.buffer),
                holder,
            });
            texts.collect()
        }))
    }

    fn holder(&self, value: usize, number: usize) -> Result<&HolderText, Error> {
        let all = self.holders(value)?;
        let count = all.len();
        let found = all.get(number);
        found.ok_or_else(|| {
            wrong(format!(
                "found the holder {number}, wanted one below {count}"
            ))
        })
    }

    fn conversions(&self) -> &[ConversionText] {
        self.conversions.get_or_init(|| {
            let all = self.answer.conversions().into_iter();
            let texts = all.map(|conversion| {
                let (number, op) = (conversion.op.func, conversion.op.op);
                let results = &self.func(number).ops[op].results;
                ConversionText {
                    value: results
                        .first()
                        .map_or_else(CString::default, |&v| self.name(number, v)),
                    from: conversion.from.map(|l| c_text(l.to_string())),
                    to: conversion.to.map(|l| c_text(l.to_string())),
                    reason: conversion.reason.map(|r| c_text(r.to_string())),
                    bytes: conversion.bytes,
                    is_constant: conversion.is_constant,
                }
            });
            texts.collect()
        })
    }
}

fn pointer(text: Option<&CString>) -> *const c_char {
    text.map_or(null(), |text| text.as_ptr())
}

/// The fate of a value that went in, by its number in the program.
#[unsafe(no_mangle)]
pub extern "C" fn optc_answer_fate(
    answer: Option<&OptcAnswer>,
    value: usize,
    fate: Option<&mut MaybeUninit<OptcFate>>,
) -> Option<Box<OptcError>> {
    enter(|| {
        let (answer, fate) = (given(answer, "answer")?, given(fate, "fate")?);
        fate.write(match answer.answer.fate(answer.value(value)?)? {
            Fate::Absent(Absence::Dead) => OptcFate::Dead,
            Fate::Absent(Absence::Inside(_)) => OptcFate::Inside,
            Fate::Absent(_) => OptcFate::Removed,
            _ => OptcFate::Held,
        });
        Ok(())
    })
}

/// The number of holders of a value that went in.
#[unsafe(no_mangle)]
pub extern "C" fn optc_answer_holder_count(
    answer: Option<&OptcAnswer>,
    value: usize,
    count: Option<&mut MaybeUninit<usize>>,
) -> Option<Box<OptcError>> {
    enter(|| {
        let (answer, count) = (given(answer, "answer")?, given(count, "count")?);
        count.write(answer.holders(value)?.len());
        Ok(())
    })
}

/// A holder of a value that went in.
#[unsafe(no_mangle)]
pub extern "C" fn optc_answer_holder(
    answer: Option<&OptcAnswer>,
    value: usize,
    number: usize,
    holder: Option<&mut MaybeUninit<OptcHolder>>,
) -> Option<Box<OptcError>> {
    enter(|| {
        let (answer, holder) = (given(answer, "answer")?, given(holder, "holder")?);
        let found = answer.holder(value, number)?;
        let strides = found.strides.as_ref();
        holder.write(OptcHolder {
            func: found.func.as_ptr(),
            value: found.value.as_ptr(),
            layout: pointer(found.layout.as_ref()),
            strides: strides.map_or(null(), |s| s.as_ptr()),
            rank: strides.map_or(0, Vec::len),
            buffer: found.buffer.as_ptr(),
            in_pieces: found.holder.place.in_pieces,
            is_constant: found.holder.place.is_constant,
        });
        Ok(())
    })
}

/// The place of an element of a value that went in, in elements from the start of the holder's buffer.
#[unsafe(no_mangle)]
pub extern "C" fn optc_answer_offset(
    answer: Option<&OptcAnswer>,
    value: usize,
    number: usize,
    index: *const u64,
    rank: usize,
    offset: Option<&mut MaybeUninit<i64>>,
) -> Option<Box<OptcError>> {
    enter(|| {
        let (answer, offset) = (given(answer, "answer")?, given(offset, "offset")?);
        let index = list(index, rank, "index")?;
        let holder = &answer.holder(value, number)?.holder;
        offset.write(holder.offset(index).ok_or_else(|| {
            wrong(format!(
                "found the index {index:?}: it is outside, or its place is not known"
            ))
        })?);
        Ok(())
    })
}

/// The fate of the rearrangement that has this value as result.
#[unsafe(no_mangle)]
pub extern "C" fn optc_answer_view(
    answer: Option<&OptcAnswer>,
    value: usize,
    view: Option<&mut MaybeUninit<OptcView>>,
) -> Option<Box<OptcError>> {
    enter(|| {
        let (answer, view) = (given(answer, "answer")?, given(view, "view")?);
        let op = answer.answer.definition(answer.value(value)?)?;
        let op = op.ok_or_else(|| wrong(format!("the value {value} is an argument")))?;
        view.write(match answer.answer.is_view(op)? {
            ViewDecision::View { .. } => OptcView::View,
            ViewDecision::Moved(_) => OptcView::Moved,
            ViewDecision::Computed => OptcView::Computed,
            _ => OptcView::Absent,
        });
        Ok(())
    })
}

/// The number of conversions that stay, constants included.
#[unsafe(no_mangle)]
pub extern "C" fn optc_answer_conversion_count(
    answer: Option<&OptcAnswer>,
    count: Option<&mut MaybeUninit<usize>>,
) -> Option<Box<OptcError>> {
    enter(|| {
        let (answer, count) = (given(answer, "answer")?, given(count, "count")?);
        count.write(answer.conversions().len());
        Ok(())
    })
}

/// A conversion that stays.
#[unsafe(no_mangle)]
pub extern "C" fn optc_answer_conversion(
    answer: Option<&OptcAnswer>,
    number: usize,
    conversion: Option<&mut MaybeUninit<OptcConversion>>,
) -> Option<Box<OptcError>> {
    enter(|| {
        let answer = given(answer, "answer")?;
        let conversion = given(conversion, "conversion")?;
        let all = answer.conversions();
        let found = all.get(number).ok_or_else(|| {
            let count = all.len();
            wrong(format!(
                "found the conversion {number}, wanted one below {count}"
            ))
        })?;
        conversion.write(OptcConversion {
            value: found.value.as_ptr(),
            from: pointer(found.from.as_ref()),
            to: pointer(found.to.as_ref()),
            bytes: found.bytes,
            is_constant: found.is_constant,
            reason: pointer(found.reason.as_ref()),
        });
        Ok(())
    })
}

/// A figure of the result: a name of `docs/stats.md` such as `movement_bytes`, or `lower_bound_bytes`, `bytes_before`
/// and `bytes_after` of the fold, or `peak_bytes`, the most bytes that are alive at once.
#[unsafe(no_mangle)]
pub extern "C" fn optc_answer_stat(
    answer: Option<&OptcAnswer>,
    name: *const c_char,
    figure: Option<&mut MaybeUninit<u64>>,
) -> Option<Box<OptcError>> {
    enter(|| {
        let (answer, figure) = (given(answer, "answer")?, given(figure, "figure")?);
        let (answer, name) = (&answer.answer, text(name, "name")?);
        let fold = answer.folded();
        let found = match name {
            "lower_bound_bytes" => fold.map(|fold| fold.lower_bound_bytes),
            "bytes_before" => fold.map(|fold| fold.bytes_before),
            "bytes_after" => fold.map(|fold| fold.bytes_after),
            "peak_bytes" => Some(answer.peak_bytes()?),
            _ => {
                let fields = answer.stats().fields().into_iter();
                let mut fields = fields.filter(|(known, _)| *known == name);
                fields.next().map(|(_, n)| n)
            }
        };
        figure.write(found.ok_or_else(|| wrong(format!("found no figure `{name}`")))?);
        Ok(())
    })
}

/// The strength of the proof of the lower bound, such as `optimal`; `none` if the passes have no `view-fold`. It
/// lives as long as the answer.
#[unsafe(no_mangle)]
pub extern "C" fn optc_answer_proof(answer: Option<&OptcAnswer>) -> *const c_char {
    answer.map_or(null(), |answer| answer.proof.as_ptr())
}

/// Writes the result into memory: `ir`, `json`, `onnx`, `stablehlo`, `linalg` or `hlo`. The caller frees the bytes.
#[unsafe(no_mangle)]
pub extern "C" fn optc_answer_write(
    answer: Option<&OptcAnswer>,
    format: *const c_char,
    bytes: Option<&mut MaybeUninit<OptcBytes>>,
) -> Option<Box<OptcError>> {
    enter(|| {
        let (answer, bytes) = (given(answer, "answer")?, given(bytes, "bytes")?);
        let written = match text(format, "format")? {
            "json" => {
                let module = &answer.answer.program().module;
                optc::to_json(module, answer.compiler.registry()).into_bytes()
            }
            _ => {
                let format = self::format(format)?.unwrap_or(Format::Ir);
                answer.compiler.write(&answer.answer, format)?
            }
        };
        bytes.write(written.into());
        Ok(())
    })
}
