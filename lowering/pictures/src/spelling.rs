//! One notation for all layouts of a picture, so that they can be compared by eye.

use crate::picture::Picture;
use indexmap::IndexSet;
use optc_ir::{TensorType, Type};
use optc_layout::{Notation, NotationKind};

/// The notation of the layouts in a picture; `None` if each layout keeps the notation of its program.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Spelling(Option<NotationKind>);

impl Spelling {
    /// The first notation of the programs that can write all drawn layouts, or else any notation that can. Nothing is
    /// rewritten if the programs use a single notation, or if none can write all layouts.
    pub(crate) fn of(picture: &Picture<'_>) -> Spelling {
        let mut types: IndexSet<&TensorType> = IndexSet::new();
        let funcs = picture.panels.iter().flat_map(|panel| panel.funcs());
        for (func, charges) in funcs {
            let drawn = func
                .body
                .iter()
                .filter(|&&op| charges.is_none_or(|c| c[op].is_some()));
            let results = drawn.flat_map(|&op| &func.ops[op].results);
            let values = func.args.iter().chain(results);
            let tensors = values.filter_map(|&v| func.ty(v).as_tensor());
            types.extend(tensors.filter(|t| t.notation.kind().is_some()));
        }
        let own: IndexSet<NotationKind> = types.iter().filter_map(|t| t.notation.kind()).collect();
        if own.len() < 2 {
            return Spelling(None);
        }
        let others = NotationKind::ALL.iter().filter(|kind| !own.contains(*kind));
        let writes_all = |kind: &&NotationKind| types.iter().all(|t| written(t, **kind).is_some());
        Spelling(own.iter().chain(others).find(writes_all).copied())
    }

    /// The layout of a type in this notation; `None` if the type has no layout.
    pub(crate) fn notation(self, ty: &Type) -> Option<Notation> {
        let tensor = ty.as_tensor()?;
        let kind = self.0.filter(|_| tensor.notation.kind().is_some());
        let found = kind.and_then(|kind| written(tensor, kind));
        Some(found.unwrap_or_else(|| tensor.notation.clone()))
    }
}

/// The layout of a tensor in a notation, if the notation can write it and the sizes are known.
fn written(tensor: &TensorType, kind: NotationKind) -> Option<Notation> {
    if tensor.notation.kind() == Some(kind) {
        return Some(tensor.notation.clone());
    }
    let layout = tensor.layout()?.ok()?;
    let other = layout.convert(kind).ok()?;
    Some(other.notation().clone())
}
