//! Instructions with computations, as operations with regions; windows.

use super::ops::{array, comma, ints, precision};
use super::writer::{Leaf, Outcome, Writer, attr};
use crate::hlo::Line;
use optc_layout::XlaShape;

impl Writer<'_> {
    /// Loops, branches, and what applies a computation to elements; none of others.
    pub(super) fn with_regions(
        &mut self,
        line: &Line,
        operands: &[Vec<Leaf>],
        shape: &XlaShape,
    ) -> Outcome<Option<Vec<Leaf>>> {
        let get = |name: &str| attr(&line.attrs, name);
        let all = operands.concat();
        let applied = get("to_apply").unwrap_or("");
        let (name, attrs) = match &*line.opcode {
            "while" => {
                let cond = self.region(get("condition").unwrap_or(""), None)?;
                let body = self.region(get("body").unwrap_or(""), None)?;
                let regions = format!("{cond}, {body}");
                return Ok(Some(self.generic(line, "stablehlo.while", &all, "", &regions, shape)));
            }
            "conditional" => return self.conditional(line, operands, shape).map(Some),
            "reduce" => {
                let dims = array(&ints(get("dimensions")));
                ("stablehlo.reduce", format!("dimensions = {dims}"))
            }
            "reduce-window" => ("stablehlo.reduce_window", window(get("window").unwrap_or(""))),
            "sort" => {
                let dim = ints(get("dimensions")).first().copied().unwrap_or(0);
                let stable = get("is_stable").unwrap_or("false");
                ("stablehlo.sort", format!("dimension = {dim} : i64, is_stable = {stable}"))
            }
            "scatter" => ("stablehlo.scatter", scatter(line)),
            "map" => {
                let dims = array(&ints(get("dimensions")));
                ("stablehlo.map", format!("dimensions = {dims}"))
            }
            _ => return Ok(None),
        };
        let region = self.region(applied, None)?;
        Ok(Some(self.generic(line, name, &all, &attrs, &region, shape)))
    }

    /// Branches read what they are handed from outside.
    fn conditional(
        &mut self,
        line: &Line,
        operands: &[Vec<Leaf>],
        shape: &XlaShape,
    ) -> Outcome<Vec<Leaf>> {
        let get = |name: &str| attr(&line.attrs, name);
        let (index, handed) = operands.split_first().unwrap_or((const { &Vec::new() }, &[]));
        let (name, computations) = match get("branch_computations") {
            Some(list) => {
                let names = list.trim_matches(['{', '}']).split(',');
                ("stablehlo.case", names.map(str::trim).collect::<Vec<_>>())
            }
            None => {
                let both = ["true_computation", "false_computation"];
                ("stablehlo.if", both.iter().filter_map(|key| get(key)).collect())
            }
        };
        // Two branches on a truth value are an `if`, however they are named.
        let truth = index.first().and_then(|leaf| leaf.shape.as_array()).is_some_and(|a| a.element.name() == "pred");
        let mut regions = Vec::with_capacity(computations.len());
        for (computation, given) in computations.iter().zip(handed) {
            regions.push(self.region(computation, Some(std::slice::from_ref(given)))?);
        }
        let name = if truth { "stablehlo.if" } else { name };
        Ok(self.generic(line, name, index, "", &regions.join(", "), shape))
    }
}

/// The fields of `{size=2x2 stride=1x1 pad=0_0x1_1}`.
fn fields(text: &str, name: &str) -> Option<Vec<i64>> {
    let inner = text.trim_matches(['{', '}', ' ']);
    let mut found = inner.split_whitespace().filter_map(|field| field.split_once('='));
    let (_, value) = found.find(|(key, _)| *key == name)?;
    Some(value.split(['x', '_']).filter_map(|n| n.parse().ok()).collect())
}

/// `dense<[[0, 0], [1, 1]]> : tensor<2x2xi64>`
fn padding(pads: &[i64]) -> String {
    let pairs: Vec<String> = pads.chunks(2).map(|pair| format!("[{}]", comma(pair))).collect();
    let rank = pairs.len();
    if rank == 0 {
        return "dense<> : tensor<0x2xi64>".to_owned();
    }
    format!("dense<[{}]> : tensor<{rank}x2xi64>", pairs.join(", "))
}

fn window(text: &str) -> String {
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

/// The attributes of a convolution.
pub(super) fn convolution(line: &Line, shape: &XlaShape) -> String {
    let get = |name: &str| attr(&line.attrs, name);
    let labels = get("dim_labels").unwrap_or("");
    let side = |text: &str| -> String {
        let places: Vec<String> = text.chars().map(String::from).collect();
        format!("[{}]", places.join(", "))
    };
    let (left, rest) = labels.split_once('_').unwrap_or(("", ""));
    let (right, out) = rest.split_once("->").unwrap_or(("", ""));
    let text = get("window").unwrap_or("");
    let rank = shape.as_array().map_or(0, |array| array.dims.len()).saturating_sub(2);
    let list = |name: &str| array(&fields(text, name).unwrap_or_else(|| vec![1; rank]));
    let pads = fields(text, "pad").unwrap_or_else(|| vec![0; 2 * rank]);
    let reversed = fields(text, "rhs_reversal").unwrap_or_else(|| vec![0; rank]);
    let reversed: Vec<&str> = reversed.iter().map(|&r| if r == 0 { "false" } else { "true" }).collect();
    let reversed = match reversed.is_empty() {
        true => "array<i1>".to_owned(),
        false => format!("array<i1: {}>", reversed.join(", ")),
    };
    format!(
        "batch_group_count = {} : i64, dimension_numbers = #stablehlo.conv<{}x{}->{}>, feature_group_count = {} : i64, \
         lhs_dilation = {}, padding = {}, rhs_dilation = {}, window_reversal = {reversed}, window_strides = {}{}",
        get("batch_group_count").unwrap_or("1"),
        side(left),
        side(right),
        side(out),
        get("feature_group_count").unwrap_or("1"),
        list("lhs_dilate"),
        padding(&pads),
        list("rhs_dilate"),
        list("stride"),
        precision(line)
    )
}

fn scatter(line: &Line) -> String {
    let list = |name: &str| comma(&ints(attr(&line.attrs, name)));
    let flag = |name: &str| attr(&line.attrs, name).unwrap_or("false").to_owned();
    format!(
        "indices_are_sorted = {}, scatter_dimension_numbers = #stablehlo.scatter<update_window_dims = [{}], \
         inserted_window_dims = [{}], input_batching_dims = [{}], scatter_indices_batching_dims = [{}], \
         scatter_dims_to_operand_dims = [{}], index_vector_dim = {}>, unique_indices = {}",
        flag("indices_are_sorted"),
        list("update_window_dims"),
        list("inserted_window_dims"),
        list("input_batching_dims"),
        list("scatter_indices_batching_dims"),
        list("scatter_dims_to_operand_dims"),
        attr(&line.attrs, "index_vector_dim").unwrap_or("0"),
        flag("unique_indices")
    )
}

