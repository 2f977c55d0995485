//! Remarks on the conversions that stay.

use super::reason::Reason;
use super::report::{FoldReport, Proof};
use crate::codes;
use crate::names::{name_of, reader_name};
use crate::pass::PassContext;
use optc_ir::{Diagnostic, Module};

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
            if let Some(reason) = &conversion.reason {
                diag = diag.note(reason.to_string());
            }
            let chosen = matches!(conversion.reason, Some(Reason::Operations(_)));
            let (after, least) = (report.bytes_after, report.lower_bound_bytes);
            if chosen && least < after && report.proof == Proof::OptimalInCandidates {
                diag = diag.note(format!(
                    "optimal_in_candidates: no candidate layouts and forms cost less than {after} bytes in all, and no others less than {least}"
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
