//! Remarks on the conversions that stay.

use super::conversion::Conversion;
use super::names::{name_of, reader_name};
use super::report::FoldReport;
use crate::codes;
use crate::pass::PassContext;
use optc_ir::{Diagnostic, Func, Module};

/// One remark a conversion: what forces it, what it costs, what would remove it.
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
            conversion.from,
            conversion.to,
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
                diag = diag.note(format!("the order it is in comes from {chain}"));
            }
            if let Some(chain) = &conversion.wanted_by {
                diag = diag.note(format!("the order it is read in comes from {chain}"));
            }
            diag = diag.note(blocker(func, conversion));
            if let Some(Some(bytes)) = report.freed.get(*index) {
                let line = "with a free boundary the function would convert";
                diag = diag.note(format!("{line} {bytes} bytes in all"));
            }
        }
        cx.remarks.push(diag);
    }
}

/// What forces a conversion and what would remove it.
fn blocker(func: &Func, conversion: &Conversion) -> String {
    let from_boundary = func.def_op(conversion.of).is_none();
    let to_boundary = conversion.readers.iter().any(Option::is_none);
    let name = func.values[conversion.of].name.as_deref().unwrap_or("");
    match (from_boundary, to_boundary) {
        (true, true) => format!(
            "argument %{name} and the result are both pinned; `--free-boundary={name}` or a free \
             result removes it"
        ),
        (true, false) => {
            format!("argument %{name} is pinned; `--free-boundary={name}` removes it here")
        }
        (false, true) => "the result is pinned; a free boundary removes it here".to_owned(),
        (false, false) => "producer and reader accept no common order on this target; a target \
                           row that accepts the other order removes it"
            .to_owned(),
    }
}
