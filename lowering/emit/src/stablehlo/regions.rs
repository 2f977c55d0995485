//! Instructions with computations, as operations with regions; windows.

use super::attrs::{array, comma};
use super::windows::window;
use super::writer::{Leaf, Outcome, Writer};
use crate::hlo::{Line, attr, ints};
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
                return Ok(Some(self.generic(
                    line,
                    "stablehlo.while",
                    &all,
                    "",
                    &regions,
                    shape,
                )));
            }
            "conditional" => return self.conditional(line, operands, shape).map(Some),
            "reduce" => {
                let dims = array(&ints(get("dimensions")));
                ("stablehlo.reduce", format!("dimensions = {dims}"))
            }
            "reduce-window" => (
                "stablehlo.reduce_window",
                window(get("window").unwrap_or("")),
            ),
            "sort" => {
                let dim = ints(get("dimensions")).first().copied().unwrap_or(0);
                let stable = get("is_stable").unwrap_or("false");
                (
                    "stablehlo.sort",
                    format!("dimension = {dim} : i64, is_stable = {stable}"),
                )
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
        let (index, handed) = operands
            .split_first()
            .unwrap_or((const { &Vec::new() }, &[]));
        let (name, computations) = match get("branch_computations") {
            Some(list) => {
                let names = list.trim_matches(['{', '}']).split(',');
                ("stablehlo.case", names.map(str::trim).collect::<Vec<_>>())
            }
            None => {
                let both = ["true_computation", "false_computation"];
                (
                    "stablehlo.if",
                    both.iter().filter_map(|key| get(key)).collect(),
                )
            }
        };
        // Two branches on a truth value are an `if`, however they are named.
        let truth = index
            .first()
            .and_then(|leaf| leaf.shape.as_array())
            .is_some_and(|a| a.element.name() == "pred");
        let mut regions = Vec::with_capacity(computations.len());
        for (computation, given) in computations.iter().zip(handed) {
            regions.push(self.region(computation, Some(std::slice::from_ref(given)))?);
        }
        let name = if truth { "stablehlo.if" } else { name };
        Ok(self.generic(line, name, index, "", &regions.join(", "), shape))
    }
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
