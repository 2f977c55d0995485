//! Attributes of windows and convolutions.

use super::attrs::{array, comma, precision};
use crate::hlo::{Line, attr};
use optc_layout::XlaShape;

/// The number of operands of a window reduction whose sizes are operands. StableHLO expresses it as a call that names
/// the function.
pub(super) const HANDED_WINDOWS: usize = 7;

/// One field of `{size=2x2 stride=1x1 pad=0_0x1_1}` as a list.
fn fields(text: &str, name: &str) -> Option<Vec<i64>> {
    let inner = text.trim_matches(['{', '}', ' ']);
    let mut found = inner
        .split_whitespace()
        .filter_map(|field| field.split_once('='));
    let (_, value) = found.find(|(key, _)| *key == name)?;
    Some(
        value
            .split(['x', '_'])
            .filter_map(|n| n.parse().ok())
            .collect(),
    )
}

/// `dense<[[0, 0], [1, 1]]> : tensor<2x2xi64>`
fn padding(pads: &[i64]) -> String {
    let pairs: Vec<String> = pads
        .chunks(2)
        .map(|pair| format!("[{}]", comma(pair)))
        .collect();
    let rank = pairs.len();
    if rank == 0 {
        return "dense<> : tensor<0x2xi64>".to_owned();
    }
    format!("dense<[{}]> : tensor<{rank}x2xi64>", pairs.join(", "))
}

/// The attributes of a window reduction.
pub(super) fn window(text: &str) -> String {
    let sizes = fields(text, "size").unwrap_or_default();
    let rank = sizes.len();
    let list = |name: &str| array(&fields(text, name).unwrap_or_else(|| vec![1; rank]));
    let pads = fields(text, "pad").unwrap_or_else(|| vec![0; 2 * rank]);
    format!(
        "base_dilations = {}, padding = {}, window_dilations = {}, window_dimensions = {}, window_strides = {}",
        list("lhs_dilate"),
        padding(&pads),
        list("rhs_dilate"),
        array(&sizes),
        list("stride")
    )
}

/// The attributes of a convolution. Its padding is an attribute if `stated`, else an operand.
pub(super) fn convolution(line: &Line, shape: &XlaShape, stated: bool) -> String {
    let get = |name: &str| attr(&line.attrs, name);
    let labels = get("dim_labels").unwrap_or("");
    let side = |text: &str| -> String {
        let places: Vec<String> = text.chars().map(String::from).collect();
        format!("[{}]", places.join(", "))
    };
    let (left, rest) = labels.split_once('_').unwrap_or(("", ""));
    let (right, out) = rest.split_once("->").unwrap_or(("", ""));
    let text = get("window").unwrap_or("");
    let rank = shape
        .as_array()
        .map_or(0, |array| array.dims.len())
        .saturating_sub(2);
    let list = |name: &str| array(&fields(text, name).unwrap_or_else(|| vec![1; rank]));
    let pads = fields(text, "pad").unwrap_or_else(|| vec![0; 2 * rank]);
    let reversed = fields(text, "rhs_reversal").unwrap_or_else(|| vec![0; rank]);
    let reversed: Vec<&str> = reversed
        .iter()
        .map(|&r| if r == 0 { "false" } else { "true" })
        .collect();
    let reversed = match reversed.is_empty() {
        true => "array<i1>".to_owned(),
        false => format!("array<i1: {}>", reversed.join(", ")),
    };
    format!(
        "batch_group_count = {} : i64, dimension_numbers = #stablehlo.conv<{}x{}->{}>, feature_group_count = {} : i64, \
         lhs_dilation = {}{}, rhs_dilation = {}, window_reversal = {reversed}, window_strides = {}{}",
        get("batch_group_count").unwrap_or("1"),
        side(left),
        side(right),
        side(out),
        get("feature_group_count").unwrap_or("1"),
        list("lhs_dilate"),
        if stated {
            format!(", padding = {}", padding(&pads))
        } else {
            String::new()
        },
        list("rhs_dilate"),
        list("stride"),
        precision(line)
    )
}
