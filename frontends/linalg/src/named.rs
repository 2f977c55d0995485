//! The maps of named operations.
//!
//! A row has the indices of each operand as letters, the result last. `"mk", "kn", "mn"` is a product of matrices. A
//! capital letter is a window: in the input it is the loop of the result times the stride, plus the loop of the window
//! (the small letter) times the dilation.

use crate::maps::{Linear, Map};

/// Named operations, each with the indices of its operands.
#[rustfmt::skip]
const NAMED: &[(&str, &[&str])] = &[
    ("matmul", &["mk", "kn", "mn"]),
    ("matmul_transpose_a", &["km", "kn", "mn"]),
    ("matmul_transpose_b", &["mk", "nk", "mn"]),
    ("batch_matmul", &["bmk", "bkn", "bmn"]),
    ("batch_matmul_transpose_a", &["bkm", "bkn", "bmn"]),
    ("batch_matmul_transpose_b", &["bmk", "bnk", "bmn"]),
    ("batch_reduce_matmul", &["bmk", "bkn", "mn"]),
    ("matvec", &["mk", "k", "m"]),
    ("vecmat", &["k", "kn", "n"]),
    ("batch_matvec", &["bmk", "bk", "bm"]),
    ("batch_vecmat", &["bk", "bkn", "bn"]),
    ("dot", &["k", "k", ""]),
    ("mmt4d", &["mkij", "nkrj", "mnir"]),
    ("batch_mmt4d", &["bmkij", "bnkrj", "bmnir"]),
    ("conv_1d", &["W", "w", "W"]),
    ("conv_1d_ncw_fcw", &["ncW", "fcw", "nfW"]),
    ("conv_1d_nwc_wcf", &["nWc", "wcf", "nWf"]),
    ("conv_2d", &["HW", "hw", "HW"]),
    ("conv_2d_nchw_fchw", &["ncHW", "fchw", "nfHW"]),
    ("conv_2d_ngchw_fgchw", &["ngcHW", "fgchw", "ngfHW"]),
    ("conv_2d_ngchw_gfchw", &["ngcHW", "gfchw", "ngfHW"]),
    ("conv_2d_nhwc_fhwc", &["nHWc", "fhwc", "nHWf"]),
    ("conv_2d_nhwc_hwcf", &["nHWc", "hwcf", "nHWf"]),
    ("conv_2d_nhwgc_gfhwc", &["nHWgc", "gfhwc", "nHWgf"]),
    ("conv_3d", &["DHW", "dhw", "DHW"]),
    ("conv_3d_ncdhw_fcdhw", &["ncDHW", "fcdhw", "nfDHW"]),
    ("conv_3d_ndhwc_dhwcf", &["nDHWc", "dhwcf", "nDHWf"]),
    ("depthwise_conv_1d_ncw_cw", &["ncW", "cw", "ncW"]),
    ("depthwise_conv_1d_nwc_wc", &["nWc", "wc", "nWc"]),
    ("depthwise_conv_1d_nwc_wcm", &["nWc", "wcm", "nWcm"]),
    ("depthwise_conv_2d_nchw_chw", &["ncHW", "chw", "ncHW"]),
    ("depthwise_conv_2d_nhwc_hwc", &["nHWc", "hwc", "nHWc"]),
    ("depthwise_conv_2d_nhwc_hwcm", &["nHWc", "hwcm", "nHWcm"]),
    ("depthwise_conv_3d_ncdhw_cdhw", &["ncDHW", "cdhw", "ncDHW"]),
    ("depthwise_conv_3d_ndhwc_dhwc", &["nDHWc", "dhwc", "nDHWc"]),
    ("pooling_nchw_max", &["ncHW", "hw", "ncHW"]),
    ("pooling_nchw_sum", &["ncHW", "hw", "ncHW"]),
    ("pooling_ncw_max", &["ncW", "w", "ncW"]),
    ("pooling_ncw_sum", &["ncW", "w", "ncW"]),
    ("pooling_ndhwc_max", &["nDHWc", "dhw", "nDHWc"]),
    ("pooling_ndhwc_min", &["nDHWc", "dhw", "nDHWc"]),
    ("pooling_ndhwc_sum", &["nDHWc", "dhw", "nDHWc"]),
    ("pooling_nhwc_max", &["nHWc", "hw", "nHWc"]),
    ("pooling_nhwc_min", &["nHWc", "hw", "nHWc"]),
    ("pooling_nhwc_sum", &["nHWc", "hw", "nHWc"]),
    ("pooling_nwc_max", &["nWc", "w", "nWc"]),
    ("pooling_nwc_min", &["nWc", "w", "nWc"]),
    ("pooling_nwc_sum", &["nWc", "w", "nWc"]),
];

/// Named operations on single elements.
const ELEMENTWISE: &[&str] = &[
    "abs",
    "add",
    "ceil",
    "copy",
    "div",
    "div_unsigned",
    "elemwise_binary",
    "elemwise_unary",
    "erf",
    "exp",
    "floor",
    "log",
    "map",
    "max",
    "min",
    "mul",
    "negf",
    "powf",
    "reciprocal",
    "round",
    "rsqrt",
    "select",
    "sqrt",
    "square",
    "sub",
    "tanh",
];

/// Returns whether an operation of `linalg` has maps here.
pub(crate) fn is_named(name: &str) -> bool {
    NAMED.iter().any(|(known, _)| *known == name)
}

/// The number of loops, which of them are reductions, and the maps.
pub(crate) struct Loops {
    pub(crate) reduced: Vec<bool>,
    pub(crate) maps: Vec<Map>,
}

/// The loops of a named operation of `linalg`. `rank` is that of its result, `operands` their number with the result;
/// a window moves by `strides`, and its elements are `dilations` apart.
pub(crate) fn loops(
    name: &str,
    operands: usize,
    rank: usize,
    strides: Option<&[i64]>,
    dilations: Option<&[i64]>,
) -> Option<Loops> {
    let name = name.strip_prefix("linalg.")?;
    if ELEMENTWISE.contains(&name) {
        let same: Map = (0..rank).map(Linear::of).collect();
        return Some(Loops {
            reduced: vec![false; rank],
            maps: vec![same; operands],
        });
    }
    let (_, rows) = NAMED.iter().find(|(known, _)| *known == name)?;
    let (result, inputs) = rows.split_last()?;
    let mut letters: Vec<char> = result.chars().collect();
    let parallel = letters.len();
    for letter in inputs.iter().flat_map(|row| row.chars()) {
        if !letters.contains(&letter) {
            letters.push(letter);
        }
    }
    let at = |letter: char| letters.iter().position(|&l| l == letter);
    let mut windows = 0;
    let mut maps = Vec::with_capacity(rows.len());
    for (i, row) in rows.iter().enumerate() {
        let mut map = Map::new();
        for letter in row.chars() {
            let dim = at(letter)?;
            if !letter.is_uppercase() || i != 0 {
                map.push(Linear::of(dim));
                continue;
            }
            let by = |list: Option<&[i64]>| list.map_or(Some(1), |list| list.get(windows).copied());
            let mut terms = vec![
                (dim, by(strides)?),
                (at(letter.to_ascii_lowercase())?, by(dilations)?),
            ];
            terms.sort_unstable();
            map.push(Linear { terms, constant: 0 });
            windows += 1;
        }
        maps.push(map);
    }
    Some(Loops {
        reduced: (0..letters.len()).map(|d| parallel <= d).collect(),
        maps,
    })
}
