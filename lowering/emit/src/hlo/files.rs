//! The files that hold the elements of constants.

use crate::{ReadData, codes};
use indexmap::IndexMap;
use optc_ir::analysis::Uses;
use optc_ir::op::{OpRef, Operation};
use optc_ir::{Attr, Diagnostic, Func, Module, OpData};
use optc_ops::Constant;

/// A file, an offset and a length.
pub(super) type FileRange = (String, u64, u64);

/// The bytes of the files that constants refer to, by file, offset and length.
#[derive(Default)]
pub(super) struct Files(pub(super) IndexMap<FileRange, Vec<u8>>);

impl Files {
    /// Reads the data that live constants of these functions refer to.
    pub(super) fn read(
        module: &Module,
        funcs: &[usize],
        data: &ReadData<'_>,
    ) -> Result<Files, Box<Diagnostic>> {
        let mut files = Files::default();
        for &index in funcs {
            files.read_func(&module.funcs[index], data)?;
        }
        Ok(files)
    }

    fn read_func(&mut self, func: &Func, data: &ReadData<'_>) -> Result<(), Box<Diagnostic>> {
        let uses = Uses::of(func);
        for &op in &func.body {
            let made = &func.ops[op];
            let place = elements(made).as_ref().and_then(place);
            let Some((place, &[result])) = place.zip(made.results.first_chunk::<1>()) else {
                continue;
            };
            let Some(ty) = func.ty(result).as_tensor().filter(|_| uses.is_used(result)) else {
                continue;
            };
            if self.0.contains_key(&place) {
                continue;
            }
            let read = data(&place.0, place.1, place.2, ty.dtype);
            let bytes = read.map_err(|problem| {
                let message = format!("the data of a constant cannot be read: {problem}");
                let diag = Diagnostic::error(codes::HLO_CONSTANT_DATA, message);
                let hint = format!("put `{}` where the program looks for it: HLO text holds the numbers themselves", place.0);
                Box::new(diag.at(made.span, "this constant").hint(hint))
            })?;
            self.0.insert(place, bytes);
        }
        Ok(())
    }
}

/// The elements of a constant, or their location.
pub(super) fn elements(made: &OpData) -> Option<Constant> {
    let op = OpRef {
        name: &made.name,
        operands: Vec::new(),
        results: Vec::new(),
        props: &made.props,
    };
    Constant::of(&op).ok()
}

/// The location of the elements of a constant, if it is a file.
pub(super) fn place(made: &Constant) -> Option<FileRange> {
    match &made.data {
        Some(Attr::External {
            file,
            offset,
            length,
        }) => Some((file.to_string(), *offset, *length)),
        _ => None,
    }
}
