//! Instructions with computations, which become operations with regions; windows.

use super::attrs::{array, comma};
use super::windows::{HANDED_WINDOWS, window};
use super::writer::{Leaf, Outcome, Writer};
use crate::hlo::{Inside, Line, attr, ints};
use indexmap::IndexMap;
use optc_layout::XlaShape;

impl Writer<'_> {
    /// Writes loops, branches, and operations that apply a computation to elements; `None` for any other instruction.
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
                let computations = [get("condition").unwrap_or(""), get("body").unwrap_or("")];
                return self.looped(line, computations, &all, shape).map(Some);
            }
            "conditional" => return self.conditional(line, operands, shape).map(Some),
            "reduce" => {
                let dims = array(&ints(get("dimensions")));
                ("stablehlo.reduce", format!("dimensions = {dims}"))
            }
            "reduce-window" if all.len() == HANDED_WINDOWS => {
                let attrs = format!(
                    "api_version = 2 : i32, call_target_name = \"stablehlo.dynamic_reduce_window\", \
                     called_computations = [@{}]",
                    self.symbol(applied)
                );
                let made = self.generic(line, "stablehlo.custom_call", &all, &attrs, "", shape);
                return Ok(Some(made));
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

    /// Writes a loop. Values that are loop-invariant are captured by its regions instead of being carried.
    fn looped(
        &mut self,
        line: &Line,
        [condition, body]: [&str; 2],
        all: &[Leaf],
        shape: &XlaShape,
    ) -> Outcome<Vec<Leaf>> {
        let handed_on = self.handed_on(body, all.len());
        let fixed: Vec<Option<Leaf>> = (all.iter().enumerate())
            .map(|(i, leaf)| Some(leaf.clone()).filter(|_| handed_on.contains(&i)))
            .collect();
        let (kept, parts): (Vec<Leaf>, Vec<XlaShape>) = (all.iter().zip(shape.parts()))
            .zip(&fixed)
            .filter(|(_, fixed)| fixed.is_none())
            .map(|((leaf, part), _)| (leaf.clone(), part.clone()))
            .unzip();
        let cond = self.turn(condition, &fixed, false)?;
        let body = self.turn(body, &fixed, true)?;
        let regions = format!("{cond}, {body}");
        let shape = XlaShape::Tuple(parts);
        let given = self.generic(line, "stablehlo.while", &kept, "", &regions, &shape);
        let mut given = given.into_iter();
        let each = fixed
            .into_iter()
            .map(|fixed| fixed.or_else(|| given.next()));
        Ok(each.flatten().collect())
    }

    /// The numbers of the carried values that the loop body returns unchanged. Empty if that would be all of them: a
    /// loop must carry at least one value.
    fn handed_on(&self, body: &str, count: usize) -> Vec<usize> {
        let Some(made) = self.computations.get(body.trim_start_matches('%')) else {
            return Vec::new();
        };
        let lines = made.lines.iter().map(|line| (line.name.as_str(), line));
        let lines: IndexMap<&str, &Line> = lines.collect();
        let line = |name: &str| lines.get(name).copied();
        let operands = |line: &Line| match &line.inside {
            Inside::Operands(names) => names.clone(),
            Inside::Payload(_) | Inside::Elements(_) | Inside::Verbatim { .. } => Vec::new(),
        };
        let results = line(&made.root).filter(|root| root.opcode == "tuple");
        let results = results.map(operands).unwrap_or_default();
        let [(parameter, _)] = &made.parameters[..] else {
            return Vec::new();
        };
        let same = |(i, name): (usize, &String)| {
            let part = line(name).filter(|part| part.opcode == "get-tuple-element")?;
            let index = attr(&part.attrs, "index")?.parse::<usize>().ok()?;
            (index == i && operands(part) == [parameter.as_str()]).then_some(i)
        };
        let found: Vec<usize> = results.iter().enumerate().filter_map(same).collect();
        let plain = results.len() == count && found.len() < count;
        if plain { found } else { Vec::new() }
    }

    /// Writes a conditional. The branches capture their operands.
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
        // Two branches selected by a boolean are an `if`, whatever the instruction is called.
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
