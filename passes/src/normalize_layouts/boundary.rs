//! The declared layouts of arguments and results, for formats that have layouts at the boundary of a function only.

use optc_ir::{Func, FuncBuilder, NewOp, OpError, Type, Value};
use optc_layout::Notation;
use optc_ops::LayoutConvert;

/// Restores the layouts that `old` declares for arguments and results, in a function that is otherwise row-major. An
/// argument is read in its declared layout. A result that nothing else reads is computed in its declared layout; any other
/// result is converted.
///
/// # Errors
/// A conversion does not fit its value.
pub(super) fn keep(b: &mut FuncBuilder<'_>, old: &Func) -> Result<(), OpError> {
    let ports = old.args.iter().zip(b.func.args.clone());
    let laid: Vec<(Value, Type)> = ports
        .filter_map(|(&old_arg, arg)| Some((arg, declared(old, old_arg, &b.func, arg)?)))
        .collect();
    for (arg, ty) in laid {
        b.func.values[arg].ty = ty;
    }
    for (i, &result) in old.results.iter().enumerate() {
        let value = b.func.results[i];
        let Some(ty) = declared(old, result, &b.func, value) else {
            continue;
        };
        if b.func.def_op(value).is_some() && reads(&b.func, value) == 1 {
            b.func.values[value].ty = ty;
            continue;
        }
        let convert = NewOp {
            results: Some(vec![ty]),
            ..NewOp::of(&LayoutConvert {}, &[value])
        };
        b.func.results[i] = b.add(convert)?.remove(0);
    }
    Ok(())
}

/// The declared type of an argument or result, if it has a layout that the new value lacks and the same dimensions.
fn declared(old: &Func, before: Value, new: &Func, after: Value) -> Option<Type> {
    let (ty, now) = (old.ty(before).as_tensor()?, new.ty(after).as_tensor()?);
    let laid = ty.notation != Notation::RowMajor && ty.notation != now.notation;
    (laid && ty.dims == now.dims).then(|| ty.clone().into())
}

/// The number of reads of a value, results included.
fn reads(func: &Func, value: Value) -> usize {
    let operands = func.body.iter().flat_map(|&op| &func.ops[op].operands);
    let all = operands.chain(&func.results);
    all.filter(|&&read| read == value).count()
}
