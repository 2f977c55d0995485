//! Operations of StableHLO and CHLO that are one instruction of HLO on the same operands, without attributes.

use optc_ir::Effect;
use optc_mlir_syntax::Op;

/// Instructions by the name of the operation with its dialect; sorted.
const SAME: &[(&str, &str)] = &[
    ("chlo.acos", "acos"),
    ("chlo.acosh", "acosh"),
    ("chlo.asin", "asin"),
    ("chlo.asinh", "asinh"),
    ("chlo.atanh", "atanh"),
    ("chlo.cosh", "cosh"),
    ("chlo.erf", "erf"),
    ("chlo.erfc", "erfc"),
    ("chlo.sinh", "sinh"),
    ("chlo.square", "square"),
    ("chlo.tan", "tan"),
    ("stablehlo.abs", "abs"),
    ("stablehlo.add", "add"),
    ("stablehlo.and", "and"),
    ("stablehlo.atan2", "atan2"),
    ("stablehlo.bitcast_convert", "bitcast-convert"),
    ("stablehlo.cbrt", "cbrt"),
    ("stablehlo.ceil", "ceil"),
    ("stablehlo.clamp", "clamp"),
    ("stablehlo.complex", "complex"),
    ("stablehlo.convert", "convert"),
    ("stablehlo.cosine", "cosine"),
    ("stablehlo.count_leading_zeros", "count-leading-zeros"),
    ("stablehlo.divide", "divide"),
    ("stablehlo.dynamic_update_slice", "dynamic-update-slice"),
    ("stablehlo.exponential", "exponential"),
    ("stablehlo.exponential_minus_one", "exponential-minus-one"),
    ("stablehlo.floor", "floor"),
    ("stablehlo.imag", "imag"),
    ("stablehlo.is_finite", "is-finite"),
    ("stablehlo.log", "log"),
    ("stablehlo.log_plus_one", "log-plus-one"),
    ("stablehlo.logistic", "logistic"),
    ("stablehlo.maximum", "maximum"),
    ("stablehlo.minimum", "minimum"),
    ("stablehlo.multiply", "multiply"),
    ("stablehlo.negate", "negate"),
    ("stablehlo.not", "not"),
    ("stablehlo.or", "or"),
    ("stablehlo.popcnt", "popcnt"),
    ("stablehlo.power", "power"),
    ("stablehlo.real", "real"),
    ("stablehlo.remainder", "remainder"),
    ("stablehlo.reshape", "reshape"),
    ("stablehlo.round_nearest_afz", "round-nearest-afz"),
    ("stablehlo.round_nearest_even", "round-nearest-even"),
    ("stablehlo.rsqrt", "rsqrt"),
    ("stablehlo.select", "select"),
    ("stablehlo.shift_left", "shift-left"),
    ("stablehlo.shift_right_arithmetic", "shift-right-arithmetic"),
    ("stablehlo.shift_right_logical", "shift-right-logical"),
    ("stablehlo.sign", "sign"),
    ("stablehlo.sine", "sine"),
    ("stablehlo.sqrt", "sqrt"),
    ("stablehlo.subtract", "subtract"),
    ("stablehlo.tan", "tan"),
    ("stablehlo.tanh", "tanh"),
    ("stablehlo.xor", "xor"),
];

/// The instruction of this operation.
pub(crate) fn same(name: &str) -> Option<&'static str> {
    let found = SAME.binary_search_by(|(known, _)| (*known).cmp(name));
    found.ok().map(|at| SAME[at].1)
}

/// The effect of an operation that stays opaque, without its regions.
fn effect(name: &str) -> Effect {
    let Some(op) = name.strip_prefix("stablehlo.") else {
        let pure = name.starts_with("chlo.") || matches!(name, "return" | "func.return");
        return if pure { Effect::Pure } else { Effect::Write };
    };
    match op {
        "all_gather"
        | "all_reduce"
        | "all_to_all"
        | "collective_broadcast"
        | "collective_permute"
        | "custom_call"
        | "reduce_scatter"
        | "composite" => Effect::Write,
        "rng" => Effect::Random,
        "partition_id" | "replica_id" => Effect::Read,
        "after_all" | "create_token" | "infeed" | "outfeed" | "recv" | "send" => Effect::Token,
        _ => Effect::Pure,
    }
}

/// The effect of an operation that stays opaque, including its regions.
pub(crate) fn effect_of(op: &Op<'_>) -> Effect {
    let inner = op.regions.iter().flat_map(|region| &region.ops);
    let mut all = inner
        .map(effect_of)
        .max()
        .unwrap_or(Effect::Pure)
        .max(effect(op.name));
    if op.name == "stablehlo.custom_call" && op.attr("has_side_effect") != Some("true") {
        all = Effect::Read;
    }
    all
}

/// Returns whether an operation stops the program if its first operand is false.
pub(crate) fn is_assertion(op: &Op<'_>) -> bool {
    op.name == "stablehlo.custom_call" && target(op) == Some("shape_assertion")
}

/// The target of a custom call.
pub(crate) fn target<'a>(op: &'a Op<'_>) -> Option<&'a str> {
    let target = op.attr("@").or_else(|| op.attr("call_target_name"));
    target.map(optc_mlir_syntax::symbol)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_table_is_sorted() {
        assert!(SAME.is_sorted());
        assert_eq!(same("stablehlo.add"), Some("add"));
        assert_eq!(same("stablehlo.dot"), None);
    }
}
