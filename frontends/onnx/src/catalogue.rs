//! The list of all ONNX operators and their translations.

use crate::rules::{self, State};
use indexmap::IndexMap;
use optc_onnx_proto::{schema_source, schemas};

/// One operator of a list of operators.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Operator {
    /// Its domain; empty for the standard.
    pub domain: &'static str,
    /// Its name.
    pub name: &'static str,
    /// Its versions, by the first operator set of each; empty if they are not listed.
    pub versions: Vec<Version>,
    /// The translation of its newest version; `None` if it always stays opaque.
    pub state: Option<State>,
    /// A remark on the translation, or on the cases in which it stays opaque; may be empty.
    pub remark: &'static str,
}

/// One version of an operator.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Version {
    /// The first operator set with this version.
    pub since: i64,
    /// True if the operator is deprecated in it.
    pub deprecated: bool,
    /// The translation; `None` if it always stays opaque.
    pub state: Option<State>,
}

/// Versions of translated operators that stay opaque.
const OPAQUE_VERSIONS: &[(&str, i64)] = &[("Scan", 8)];

/// The first version of the standard operator with this name; `None` if there is none.
pub(crate) fn first_version(name: &str) -> Option<i64> {
    let mut all = schemas().iter();
    let found = all.find(|s| s.domain.is_empty() && s.name == name);
    found.map(|s| s.since)
}

/// The package of the list of operators.
#[must_use]
pub fn source() -> &'static str {
    schema_source()
}

/// All operators of ONNX, and the translated ones of other domains, sorted by domain and name.
#[must_use]
pub fn catalogue() -> Vec<Operator> {
    let remarks: IndexMap<&str, &str> = REMARKS.iter().copied().collect();
    let mut all: IndexMap<(&str, &str), Operator> = IndexMap::new();
    let standard = rules::operators()
        .into_iter()
        .map(|(name, s)| ("", name, s));
    let contrib = rules::contrib_operators().into_iter();
    let contrib = contrib.map(|(name, s)| ("com.microsoft", name, s));
    for (domain, name, state) in standard.chain(contrib) {
        let remark = match domain {
            "" => remarks.get(name).copied().unwrap_or_default(),
            _ => contrib_remark(name),
        };
        let operator = Operator {
            domain,
            name,
            versions: Vec::new(),
            state: Some(state),
            remark,
        };
        all.insert((domain, name), operator);
    }
    for schema in schemas() {
        let key = (schema.domain, schema.name);
        let operator = all.entry(key).or_insert_with(|| Operator {
            domain: schema.domain,
            name: schema.name,
            versions: Vec::new(),
            state: None,
            remark: "",
        });
        let opaque = OPAQUE_VERSIONS.contains(&(schema.name, schema.since));
        operator.versions.push(Version {
            since: schema.since,
            deprecated: schema.deprecated,
            state: operator.state.filter(|_| !opaque),
        });
    }
    let mut all: Vec<Operator> = all.into_values().collect();
    all.sort_by_key(|o| (o.domain, o.name));
    all
}

/// Remarks on contrib operators.
fn contrib_remark(name: &str) -> &'static str {
    match name {
        "Attention" => {
            "opaque with cumulated lengths, a cache that is longer than what is valid, or rotation"
        }
        "FusedConv" | "FusedGemm" => "opaque with an activation that no operation stands for",
        "GatherBlockQuantized" => "goes out as it came; opaque of small floats",
        "GroupQueryAttention" => {
            "goes out as it came; opaque with a quantized cache, one that drops tokens, norms of heads, or padded queries"
        }
        "MatMulNBits" => "goes out as it came; opaque with other than 2, 4 or 8 bits",
        "MultiHeadAttention" => {
            "opaque when packed, or with cumulated lengths or a cache that is longer than what is valid"
        }
        "RotaryEmbedding" => "opaque when scaled or packed",
        "SkipLayerNormalization" | "SkipSimplifiedLayerNormalization" => {
            "opaque when its statistics are used"
        }
        _ => "",
    }
}

/// Remarks on standard operators.
const REMARKS: &[(&str, &str)] = &[
    ("AffineGrid", "opaque when the size is computed at run time"),
    (
        "Attention",
        "contractions, so that no operand is transposed; opaque when heads do not divide, or an extent it masks by is unknown",
    ),
    (
        "BatchNormalization",
        "opaque in training before opset 14, or with statistics of another type",
    ),
    (
        "BitCast",
        "bools become bytes; opaque from bytes to bools, and from and to types that no operation computes with",
    ),
    (
        "BlackmanWindow",
        "a constant; opaque when the size is computed at run time",
    ),
    (
        "Cast",
        "opaque to or from strings and complex numbers, and to `f8E8M0FNU`",
    ),
    (
        "CausalConvWithState",
        "a convolution of each channel; opaque when the number of channels is unknown",
    ),
    (
        "CenterCropPad",
        "slice and pad; opaque when the shape is computed at run time",
    ),
    (
        "Compress",
        "a gather; opaque when the condition is computed at run time",
    ),
    ("Constant", "opaque for strings"),
    (
        "ConstantOfShape",
        "opaque when the shape is computed at run time",
    ),
    ("Conv", "opaque above three spatial dimensions"),
    ("CumProd", "opaque when the axis is computed at run time"),
    ("CumSum", "opaque when the axis is computed at run time"),
    ("DequantizeLinear", "per tensor, axis or block"),
    (
        "DFT",
        "a product with a constant matrix; goes out as it came; opaque of unknown extents, and with a matrix of over 8 million elements",
    ),
    ("Dropout", "opaque in training"),
    (
        "DynamicQuantizeLinear",
        "reductions, then quantized by a computed scale",
    ),
    ("Expand", "opaque when the shape is computed at run time"),
    (
        "Gather",
        "a reshape when constant indices name every element in order",
    ),
    (
        "Gemm",
        "flags of constants become transposes, those of data the order of a contraction",
    ),
    (
        "HammingWindow",
        "a constant; opaque when the size is computed at run time",
    ),
    (
        "HannWindow",
        "a constant; opaque when the size is computed at run time",
    ),
    (
        "GRU",
        "like LSTM and RNN opaque with activations of its own, clipping or peepholes",
    ),
    ("Hardmax", "opaque when the extent is unknown"),
    (
        "If",
        "runs functions that its branches became, or the branch taken when the condition is a constant; opaque when a result is of another element type or number of dimensions in each branch, unless what comes after it is right with one branch alone",
    ),
    (
        "Loop",
        "runs a function that its body became; opaque when a round changes the element type or number of dimensions of what is carried; the body's condition counts also where the node has none, as in onnxruntime",
    ),
    ("LRN", "opaque at other ranks than 3 and 4"),
    ("LpPool", "a convolution with ones"),
    (
        "MaxUnpool",
        "a scatter into zeros; opaque when the shape is computed at run time",
    ),
    (
        "MelWeightMatrix",
        "a constant; opaque when an input is computed at run time",
    ),
    (
        "NonZero",
        "of constants, and ranges over one dimension; opaque when the operand is computed at run time",
    ),
    ("OneHot", "opaque when the depth is computed at run time"),
    (
        "Pad",
        "opaque when the amounts or the value are computed at run time",
    ),
    ("QuantizeLinear", "per tensor, axis or block"),
    ("Range", "opaque when the bounds are computed at run time"),
    (
        "ReduceSum",
        "like all reductions opaque when the axes are computed at run time",
    ),
    (
        "Reshape",
        "opaque when more than one extent is computed at run time",
    ),
    (
        "Resize",
        "opaque when scales or sizes are computed at run time, or it crops and scales",
    ),
    ("RotaryEmbedding", "one operation, its caches indexed by it"),
    (
        "Scan",
        "runs a function that its body became; opaque in version 8, which has batches",
    ),
    (
        "Shape",
        "computed; an opaque operation where something uses an unknown extent as data",
    ),
    (
        "Slice",
        "opaque when the bounds are computed at run time, or cut an unknown extent in the middle",
    ),
    (
        "SpaceToDepth",
        "mode CRD is a reshape, a transpose and a reshape",
    ),
    (
        "STFT",
        "a convolution with a constant kernel; goes out as it came; opaque when step or length are computed at run time",
    ),
    ("Split", "opaque when the sizes are computed at run time"),
    ("Tile", "opaque when the repeats are computed at run time"),
    ("TopK", "opaque when k is computed at run time"),
    (
        "Trilu",
        "compares places when the diagonal is computed at run time",
    ),
    ("Unsqueeze", "opaque when the axes are computed at run time"),
];

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_remark_is_about_an_operator_that_is_listed() {
        let all = catalogue();
        for (name, _) in REMARKS {
            assert!(all.iter().any(|o| o.name == *name), "{name}");
        }
        assert!(source().starts_with("onnx "), "{}", source());
        assert!(200 < all.iter().filter(|o| !o.versions.is_empty()).count());
    }
}
