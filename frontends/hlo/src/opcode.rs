//! HLO's opcodes: their names, numbers of operands, and attributes.

use indexmap::IndexMap;
use rustc_hash::FxBuildHasher;
use std::sync::LazyLock;

/// One instruction kind.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Opcode {
    pub(crate) name: &'static str,
    /// Least and greatest number of operands.
    pub(crate) operands: (usize, usize),
    /// Attributes in XLA's printing order; required ones end with `!`.
    attrs: &'static str,
    /// The attributes as a list, in [`KNOWN`].
    own: &'static [(&'static str, bool)],
    /// `-start`, `-update` or `-done` if the name is for a part of another instruction.
    pub(crate) part: Option<&'static str>,
}

const MANY: usize = usize::MAX;

/// Attributes that every instruction may have, in XLA's printing order.
pub(crate) const COMMON: &[&str] = &[
    "parameter_replication",
    "sharding",
    "frontend_attributes",
    "control-predecessors",
    "statistics",
    "origin",
    "original_value",
    "metadata",
    "backend_config",
];

/// Attributes that name computations.
pub(crate) const COMPUTATIONS: &[&str] = &[
    "calls",
    "to_apply",
    "condition",
    "body",
    "select",
    "scatter",
    "true_computation",
    "false_computation",
    "branch_computations",
    "called_computations",
];

const fn op(name: &'static str, least: usize, most: usize, attrs: &'static str) -> Opcode {
    Opcode {
        name,
        operands: (least, most),
        attrs,
        own: &[],
        part: None,
    }
}

const fn unary(name: &'static str) -> Opcode {
    op(name, 1, 1, "result_accuracy")
}

const fn binary(name: &'static str) -> Opcode {
    op(name, 2, 2, "")
}

const CONV: &str = "window dim_labels! feature_group_count batch_group_count operand_precision";
const GATHER: &str = "offset_dims! collapsed_slice_dims! start_index_map! operand_batching_dims \
    start_indices_batching_dims index_vector_dim! slice_sizes! indices_are_sorted";
const SCATTER: &str = "update_window_dims inserted_window_dims scatter_dims_to_operand_dims! \
    input_batching_dims scatter_indices_batching_dims index_vector_dim! indices_are_sorted \
    unique_indices to_apply!";
const ALL_REDUCE: &str = "channel_id replica_groups constrain_layout use_global_device_ids mode \
    to_apply!";
const ALL_GATHER: &str = "channel_id replica_groups constrain_layout dimensions! \
    use_global_device_ids mode";
const REDUCE_SCATTER: &str = "channel_id replica_groups constrain_layout use_global_device_ids \
    mode dimensions! to_apply!";
const ALL_TO_ALL: &str = "channel_id replica_groups constrain_layout dimensions mode";
const PERMUTE: &str = "channel_id source_target_pairs! slice_sizes mode";
const CUSTOM_CALL: &str = "window dim_labels feature_group_count batch_group_count \
    operand_precision padding_type custom_call_target! operand_layout_constraints \
    custom_call_has_side_effect literal output_to_operand_aliasing schedule api_version to_apply \
    called_computations";
const DOT: &str = "lhs_batch_dims lhs_contracting_dims rhs_batch_dims rhs_contracting_dims \
    operand_precision algorithm sparsity";
const RAGGED_DOT: &str = "lhs_batch_dims lhs_contracting_dims rhs_batch_dims \
    rhs_contracting_dims lhs_ragged_dims rhs_group_dims operand_precision";
const TRANSFER: &str = "channel_id is_host_transfer";
const ASYNC: &str = "async_group_id async_execution_thread calls";
const BATCH_NORM: &str = "epsilon! feature_index!";

#[rustfmt::skip]
const OPCODES: &[Opcode] = &[
    unary("abs"), unary("acos"), unary("acosh"), binary("add"), op("add-dependency", 2, 2, ""),
    op("after-all", 0, MANY, ""), op("all-gather", 1, MANY, ALL_GATHER),
    op("all-gather-start", 1, MANY, ALL_GATHER), op("all-gather-done", 1, 1, ""),
    op("all-reduce", 0, MANY, ALL_REDUCE), op("all-reduce-start", 0, MANY, ALL_REDUCE),
    op("all-reduce-done", 1, 1, ""), op("all-to-all", 1, MANY, ALL_TO_ALL), binary("and"),
    unary("asin"), unary("asinh"), op("async-start", 0, MANY, ASYNC),
    op("async-update", 1, 1, ASYNC), op("async-done", 1, 1, ASYNC), binary("atan2"),
    unary("atanh"), op("batch-norm-grad", 5, 5, BATCH_NORM),
    op("batch-norm-inference", 5, 5, BATCH_NORM), op("batch-norm-training", 3, 3, BATCH_NORM),
    unary("bitcast"), unary("bitcast-convert"), op("broadcast", 1, 1, "dimensions!"),
    op("call", 0, MANY, "is_composite to_apply!"), unary("cbrt"), unary("ceil"),
    op("cholesky", 1, 1, "lower"), op("clamp", 3, 3, ""),
    op("collective-broadcast", 1, MANY, "channel_id replica_groups! mode"),
    op("collective-permute", 1, MANY, PERMUTE), op("collective-permute-start", 1, MANY, PERMUTE),
    op("collective-permute-done", 1, 1, ""), op("compare", 2, 2, "direction! type"),
    binary("complex"), op("concatenate", 1, MANY, "dimensions!"),
    op("conditional", 1, MANY, "true_computation false_computation branch_computations"),
    op("constant", 0, 0, ""), unary("convert"), op("convolution", 2, 2, CONV),
    op("copy", 1, 1, ""), op("copy-start", 1, 1, "cross_program_prefetch_index"),
    op("copy-done", 1, 1, ""), unary("cosine"), unary("cosh"), unary("count-leading-zeros"),
    op("custom-call", 0, MANY, CUSTOM_CALL), binary("divide"), op("domain", 1, 1, "domain!"),
    op("dot", 2, 3, DOT), op("dynamic-reshape", 1, MANY, ""),
    op("dynamic-slice", 1, MANY, "dynamic_slice_sizes"), op("dynamic-update-slice", 2, MANY, ""),
    unary("erf"), unary("exponential"), unary("exponential-minus-one"),
    op("fft", 1, 1, "fft_type! fft_length!"), unary("floor"),
    op("fusion", 0, MANY, "kind! output_to_operand_aliasing calls!"), op("gather", 2, 2, GATHER),
    op("get-dimension-size", 1, 1, "dimensions!"), op("get-tuple-element", 1, 1, "index!"),
    unary("imag"), op("infeed", 1, 1, "infeed_config"), op("iota", 0, 0, "iota_dimension!"),
    unary("is-finite"), unary("log"), unary("log-plus-one"), unary("logistic"),
    op("map", 1, MANY, "dimensions to_apply!"), binary("maximum"), binary("minimum"),
    binary("multiply"), unary("negate"), unary("not"), op("opt-barrier", 1, 1, ""), binary("or"),
    op("outfeed", 1, 2, "outfeed_shape outfeed_config"), op("pad", 2, 2, "padding!"),
    op("parameter", 0, 0, ""), op("partition-id", 0, 0, "channel_id"), unary("popcnt"),
    binary("power"), op("ragged-all-to-all", 6, 6, "channel_id replica_groups mode"),
    op("ragged-dot", 3, 3, RAGGED_DOT), unary("real"), op("recv", 1, 1, TRANSFER),
    op("recv-done", 1, 1, TRANSFER), op("reduce", 2, MANY, "dimensions! to_apply!"),
    op("reduce-precision", 1, 1, "exponent_bits! mantissa_bits!"),
    op("reduce-scatter", 1, MANY, REDUCE_SCATTER),
    op("reduce-window", 2, MANY, "window to_apply!"), binary("remainder"),
    op("replica-id", 0, 0, ""), op("reshape", 1, 1, "inferred_dimension"),
    op("reverse", 1, 1, "dimensions!"), op("rng", 2, 2, "distribution!"),
    op("rng-bit-generator", 1, 1, "algorithm!"), op("rng-get-and-update-state", 0, 0, "delta!"),
    unary("round-nearest-afz"), unary("round-nearest-even"), unary("rsqrt"),
    op("scaled-dot", 2, MANY, DOT), op("scan", 1, MANY, "dimensions is_reverse is_associative \
        num_carries to_apply!"),
    op("scatter", 3, MANY, SCATTER), op("select", 3, 3, ""),
    op("select-and-scatter", 3, 3, "window select! scatter!"), op("send", 2, 2, TRANSFER),
    op("send-done", 1, 1, TRANSFER), op("set-dimension-size", 2, 2, "dimensions!"),
    binary("shift-left"), binary("shift-right-arithmetic"), binary("shift-right-logical"),
    unary("sign"), unary("sine"), unary("sinh"), op("slice", 1, 1, "slice!"),
    op("sort", 1, MANY, "dimensions! is_stable to_apply!"), unary("sqrt"),
    op("stochastic-convert", 2, 2, ""), binary("subtract"), unary("tan"), unary("tanh"),
    op("topk", 1, 1, "k! largest"), op("transpose", 1, 1, "dimensions!"),
    op("triangular-solve", 2, 2, "left_side lower unit_diagonal transpose_a"),
    op("tuple", 0, MANY, ""), op("while", 1, 1, "condition! body!"), binary("xor"),
];

/// The parts of an asynchronous instruction, `slice-start` for a `slice`.
const PARTS: [&str; 3] = ["-start", "-update", "-done"];

/// All instructions by their names.
static KNOWN: LazyLock<IndexMap<&'static str, Opcode, FxBuildHasher>> = LazyLock::new(|| {
    let known = OPCODES.iter().map(|opcode| {
        let words = opcode.attrs.split_ascii_whitespace();
        let own: Vec<(&'static str, bool)> = words
            .map(|name| match name.strip_suffix('!') {
                Some(name) => (name, true),
                None => (name, false),
            })
            .collect();
        let own: &'static [_] = Vec::leak(own);
        (opcode.name, Opcode { own, ..*opcode })
    });
    known.collect()
});

impl Opcode {
    /// The opcode of this name; `<op>-start`, `-update` and `-done` of others are known too.
    pub(crate) fn find(name: &str) -> Option<Opcode> {
        if let Some(known) = KNOWN.get(name) {
            return Some(*known);
        }
        let (base, part) = split_async(name)?;
        let base = KNOWN.get(base)?;
        let operands = if part == "-start" {
            base.operands
        } else {
            (1, 1)
        };
        Some(Opcode {
            operands,
            part: Some(part),
            ..*base
        })
    }

    /// Its own attributes in printing order, each with a flag that is true if it is required.
    pub(crate) fn own(&self) -> impl Iterator<Item = (&'static str, bool)> {
        self.own.iter().copied()
    }
}

/// `slice-start` as `slice` and `-start`; `None` if an instruction has the whole name.
pub(crate) fn split_async(name: &str) -> Option<(&str, &'static str)> {
    let part = PARTS.iter().find(|part| name.ends_with(**part))?;
    if KNOWN.contains_key(name) {
        return None;
    }
    let base = &name[..name.len() - part.len()];
    KNOWN.contains_key(base).then_some((base, part))
}

/// Names of all instructions, for hints.
pub(crate) fn names() -> impl Iterator<Item = &'static str> {
    OPCODES.iter().map(|o| o.name)
}
