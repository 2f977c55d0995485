//! Remarks on the conversions and copies that stay.

use super::reason::Reason;
use super::report::{FoldReport, Proof};
use crate::codes;
use crate::elide_copies::Left;
use crate::names::{name_of, reader_name};
use crate::pass::PassContext;
use indexmap::IndexSet;
use optc_check::stats::CostClass;
use optc_check::{Item, Source};
use optc_ir::{Diagnostic, FreedomClass, Func, Module, Op, Structure};

/// Adds one remark a conversion: its cause, its cost, and the changes that would remove it.
pub(crate) fn remark_conversions(report: &FoldReport, original: &Module, cx: &mut PassContext) {
    for (index, conversion) in &report.conversions {
        let func = &original.funcs[*index];
        let what = if conversion.constant {
            "constant conversion"
        } else {
            "conversion"
        };
        let producer = name_of(func, conversion.of);
        let readers: Vec<String> = conversion
            .readers
            .iter()
            .map(|r| reader_name(func, *r))
            .collect();
        let message = format!(
            "{what} of {producer} from {} to {} stays: {}, read by {}",
            conversion.words_of_layouts[0],
            conversion.words_of_layouts[1],
            conversion.words,
            readers.join(", ")
        );
        let code = if conversion.constant {
            codes::CONSTANT_CONVERSION
        } else {
            codes::CONVERSION_STAYS
        };
        let mut diag = Diagnostic::remark(code, message);
        if let Some(op) = func.def_op(conversion.of) {
            diag = diag.at(func.ops[op].span, "produced here");
        }
        if !conversion.constant {
            if let Some(chain) = &conversion.forced_by {
                diag = diag.note(format!("its present order is fixed by {chain}"));
            }
            if let Some(chain) = &conversion.wanted_by {
                diag = diag.note(format!(
                    "the order that its readers need is fixed by {chain}"
                ));
            }
            if let Some(reason) = &conversion.reason {
                diag = diag.note(reason.to_string());
            }
            for line in &conversion.left_out {
                diag = diag.note(line.clone());
            }
            let chosen = matches!(conversion.reason, Some(Reason::Operations { .. }));
            let (after, least) = (report.bytes_after, report.lower_bound_bytes);
            if chosen && least < after && report.proof == Proof::OptimalInCandidates {
                diag = diag.note(format!(
                    "optimal_in_candidates: {after} bytes is the minimum over the candidate layouts; the lower bound over all layouts is {least} bytes"
                ));
            }
            if let Some(Some(bytes)) = report.freed.get(*index) {
                let line = "with a free boundary the function would convert";
                diag = diag.note(format!("{line} {bytes} bytes in all"));
            }
        }
        cx.remarks.push(diag);
    }
}

/// Adds one remark for each operation that copies, repeats or rearranges and is no conversion: the bytes that it moves,
/// and the reason why its result is not in place in another value.
pub(crate) fn remark_copies(module: &Module, all: &[Item], left: &Left, cx: &mut PassContext) {
    for item in all {
        let (func, Source::Op(op)) = (&module.funcs[item.func], item.of) else {
            continue;
        };
        let what = match item.class {
            CostClass::Copy => "copy",
            CostClass::Expand => "repetition",
            CostClass::Movement => "rearrangement",
            CostClass::Free | CostClass::Constant => continue,
        };
        let data = &func.ops[op];
        let (Some(&value), false) = (
            data.results.first(),
            cx.registry.structure(&data.name) == Structure::Convert,
        ) else {
            continue;
        };
        let (name, bytes) = (name_of(func, value), item.bytes);
        let message = format!("{what} by {name} stays: {bytes} bytes read and written");
        let diag = Diagnostic::remark(codes::COPY_STAYS, message).at(data.span, "this operation");
        let why = left.why(item.func, op);
        let why = why.unwrap_or_else(|| no_part(func, op, cx));
        cx.remarks.push(diag.note(why));
    }
}

/// Adds one remark for each family of operations that has freedom and no row.
pub(crate) fn remark_families(module: &Module, cx: &mut PassContext) {
    let mut seen: IndexSet<&str> = IndexSet::new();
    for func in &module.funcs {
        for &op in &func.body {
            let data = &func.ops[op];
            let Some(decl) = cx.registry.get(&data.name) else {
                continue;
            };
            let of = func.op_ref(op);
            let family = decl.family_of(&of);
            if cx.target.row(family).is_some() || seen.contains(family) {
                continue;
            }
            match decl.freedom(&of).class {
                FreedomClass::Ordered | FreedomClass::Contract | FreedomClass::Window => {}
                FreedomClass::Rearrange | FreedomClass::Source | FreedomClass::Barrier => continue,
            }
            seen.insert(family);
            let message = format!(
                "target `{}` has no row for the family `{family}`: `{}` takes row-major order at every port",
                cx.target.name, data.name
            );
            let diag = Diagnostic::remark(codes::ROW_ABSENT, message);
            cx.remarks.push(diag.at(data.span, "this operation"));
        }
    }
}

/// The reason why an operation copies, if `elide-copies` did not consider it.
fn no_part(func: &Func, op: Op, cx: &PassContext) -> String {
    let (name, target) = (&func.ops[op].name, &cx.target);
    let decl = cx.registry.get(name);
    let row = decl.and_then(|decl| target.row(decl.family_of(&func.op_ref(op))));
    match row.is_some_and(|row| row.parts.is_some()) {
        true => "its result cannot be addressed by strides inside another value".to_owned(),
        false => format!(
            "target `{}` gives the result of `{name}` a buffer of its own",
            target.name
        ),
    }
}
