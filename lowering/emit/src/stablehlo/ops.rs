//! Instructions as operations in generic form: names and attributes.

use super::attrs::{array, comma, precision};
use super::types::ty;
use super::windows::convolution;
use super::writer::{Leaf, Names, Outcome, Writer, refuse};
use crate::hlo::{Inside, Line, attr, ints, parsed};
use optc_layout::XlaShape;
use optc_ops::DimSplit;
use std::fmt::Write;

/// Instructions that become an operation of CHLO.
const CHLO: [&str; 8] = [
    "acos", "acosh", "asin", "asinh", "atanh", "cosh", "erf", "sinh",
];

/// Instructions that become the operation of StableHLO with the same name, without attributes.
const SAME: &[&str] = &[
    "abs",
    "add",
    "and",
    "atan2",
    "bitcast-convert",
    "cbrt",
    "ceil",
    "clamp",
    "complex",
    "convert",
    "cosine",
    "count-leading-zeros",
    "divide",
    "dynamic-update-slice",
    "exponential",
    "exponential-minus-one",
    "floor",
    "imag",
    "is-finite",
    "log",
    "log-plus-one",
    "logistic",
    "maximum",
    "minimum",
    "multiply",
    "negate",
    "not",
    "or",
    "popcnt",
    "power",
    "real",
    "remainder",
    "reshape",
    "round-nearest-afz",
    "round-nearest-even",
    "rsqrt",
    "select",
    "shift-left",
    "shift-right-arithmetic",
    "shift-right-logical",
    "sign",
    "sine",
    "sqrt",
    "subtract",
    "tan",
    "tanh",
    "xor",
];

impl Writer<'_> {
    /// Writes an instruction and returns its values.
    pub(super) fn line(&mut self, line: &Line, names: &Names) -> Outcome<Vec<Leaf>> {
        if line.opcode == "constant" {
            return self.constant(line);
        }
        let names_of = match &line.inside {
            Inside::Operands(operands) | Inside::Verbatim { operands, .. } => operands.as_slice(),
            Inside::Payload(_) | Inside::Elements(_) => &[],
        };
        let shape = parsed(&line.shape);
        if let ("broadcast", [operand]) = (&*line.opcode, names_of)
            && let Some(known) = names.get(operand)
            && let Some(leaf) = self.filled(&known[0], &shape, known)
        {
            return Ok(vec![leaf]);
        }
        let mut operands = Vec::with_capacity(names_of.len());
        for name in names_of {
            operands.push(self.leaves(names, name)?);
        }
        match &*line.opcode {
            "tuple" => return Ok(operands.concat()),
            "get-tuple-element" => {
                let tuple = names_of.first().and_then(|name| self.shapes.get(name));
                return Ok(element(line, tuple, &operands.concat()));
            }
            "copy" if operands.len() == 1 => return Ok(operands.concat()),
            "sharding-constraint" if self.mesh.is_none() => return Ok(operands.concat()),
            _ => {}
        }
        if let Inside::Verbatim {
            text, computations, ..
        } = &line.inside
        {
            return Ok(self.verbatim(line, text, &operands.concat(), computations));
        }
        if let Some(done) = self.with_regions(line, &operands, &shape)? {
            return Ok(done);
        }
        let (name, attrs) = self.plain(line, &operands.concat(), &shape)?;
        Ok(self.generic(line, &name, &operands.concat(), &attrs, "", &shape))
    }

    /// Writes an operation in generic form.
    pub(super) fn generic(
        &mut self,
        line: &Line,
        name: &str,
        operands: &[Leaf],
        attrs: &str,
        regions: &str,
        shape: &XlaShape,
    ) -> Vec<Leaf> {
        let given: Vec<&str> = operands.iter().map(|leaf| leaf.name.as_str()).collect();
        let types: Vec<String> = operands.iter().map(|leaf| ty(&leaf.shape)).collect();
        let mut text = format!("\"{name}\"({})", given.join(", "));
        if !attrs.is_empty() {
            let _ = write!(text, " <{{{attrs}}}>");
        }
        if !regions.is_empty() {
            let _ = write!(text, " ({regions})");
        }
        let parts = shape.parts();
        let results: Vec<String> = parts.iter().map(|part| ty(part)).collect();
        let results = match &results[..] {
            [one] => one.clone(),
            many => format!("({})", many.join(", ")),
        };
        let _ = write!(text, " : ({}) -> {results}", types.join(", "));
        self.assigned(line, &text, &parts)
    }

    /// Writes an operation that returns values of these shapes.
    pub(super) fn assigned(&mut self, line: &Line, text: &str, parts: &[&XlaShape]) -> Vec<Leaf> {
        let indent = self.indent();
        let loc = location(line);
        let leaf = |name: String, part: &XlaShape| Leaf {
            name,
            shape: part.clone(),
        };
        if parts.is_empty() {
            let _ = writeln!(self.out, "{indent}{text}{loc}");
            return Vec::new();
        }
        let name = self.fresh();
        if let [part] = parts {
            let _ = writeln!(self.out, "{indent}{name} = {text}{loc}");
            return vec![leaf(name, part)];
        }
        let _ = writeln!(self.out, "{indent}{name}:{} = {text}{loc}", parts.len());
        let number = |(i, part): (usize, &&XlaShape)| leaf(format!("{name}#{i}"), part);
        parts.iter().enumerate().map(number).collect()
    }

    /// Writes the kept text of an operation, with the current names of its values and functions.
    fn verbatim(
        &mut self,
        line: &Line,
        text: &str,
        operands: &[Leaf],
        computations: &[String],
    ) -> Vec<Leaf> {
        let number = self.number();
        let mut out = String::with_capacity(text.len());
        let mut rest = text;
        while let Some(at) = rest.find(['%', '@', '"']) {
            let (before, found) = rest.split_at(at);
            out.push_str(before);
            if let Some(inside) = found.strip_prefix('"') {
                let mut escaped = false;
                let end = inside.find(|c| {
                    let ends = c == '"' && !escaped;
                    escaped = c == '\\' && !escaped;
                    ends
                });
                let end = end.map_or(found.len(), |end| end + 2);
                out.push_str(&found[..end]);
                rest = &found[end..];
                continue;
            }
            let named = found[1..]
                .strip_prefix('{')
                .and_then(|inner| inner.split_once('}'));
            let Some((inside, after)) = named else {
                out.push_str(&found[..1]);
                rest = &found[1..];
                continue;
            };
            let index = inside
                .trim_start_matches('=')
                .parse::<usize>()
                .unwrap_or(usize::MAX);
            if found.starts_with('@') {
                let name = computations.get(index).map_or("missing", String::as_str);
                let _ = write!(out, "@{}", self.symbol(name));
            } else if inside.starts_with('=') {
                let _ = write!(out, "%inner{number}_{index}");
            } else {
                out.push_str(
                    operands
                        .get(index)
                        .map_or("%missing", |leaf| leaf.name.as_str()),
                );
            }
            rest = after;
        }
        out.push_str(rest);
        let shape = parsed(&line.shape);
        self.assigned(line, &out, &shape.parts())
    }

    /// The sharding of a constraint, from its splits in the text of HLO.
    fn sharding(&self, splits: &str, shape: &XlaShape) -> Outcome<String> {
        let mesh = self
            .mesh
            .ok_or_else(|| refuse("a sharding without a mesh"))?;
        let splits = splits.trim_matches(['{', '}']).split(',');
        let splits: Result<Vec<DimSplit>, ()> = splits.map(str::parse).collect();
        let splits = splits.map_err(|()| refuse("a sharding of another form"))?;
        let is_scalar = shape.as_array().is_some_and(|a| a.dims.is_empty());
        let splits = if is_scalar { &[] } else { &splits[..] };
        Ok(format!("sharding = {}", mesh.sharding(splits)))
    }

    /// The name and the attributes of an operation without regions.
    fn plain(
        &mut self,
        line: &Line,
        operands: &[Leaf],
        shape: &XlaShape,
    ) -> Outcome<(String, String)> {
        let opcode = &*line.opcode;
        let get = |name: &str| attr(&line.attrs, name);
        let stable = |name: &str| format!("stablehlo.{name}");
        if let Some(name) = sized(opcode, operands.len(), shape)? {
            return Ok((stable(name), sized_attrs(line, shape)));
        }
        if SAME.contains(&opcode) {
            return Ok((stable(&opcode.replace('-', "_")), String::new()));
        }
        if CHLO.contains(&opcode) {
            return Ok((format!("chlo.{opcode}"), String::new()));
        }
        if opcode.starts_with("chlo.") {
            return Ok((opcode.to_owned(), String::new()));
        }
        let dimensions = ints(get("dimensions"));
        Ok(match opcode {
            "transpose" => (
                stable("transpose"),
                format!("permutation = {}", array(&dimensions)),
            ),
            "broadcast" => (stable("broadcast_in_dim"), broadcast(line)),
            "reverse" => (
                stable("reverse"),
                format!("dimensions = {}", array(&dimensions)),
            ),
            "concatenate" => {
                let dim = dimensions.first().copied().unwrap_or(0);
                (stable("concatenate"), format!("dimension = {dim} : i64"))
            }
            "iota" => (stable("iota"), iota(line)),
            "slice" => (stable("slice"), slice(get("slice").unwrap_or(""))),
            "pad" => (stable("pad"), pad(get("padding").unwrap_or(""))),
            "compare" => (stable("compare"), comparison(line)),
            "dynamic-slice" => {
                let sizes = array(&ints(get("dynamic_slice_sizes")));
                (stable("dynamic_slice"), format!("slice_sizes = {sizes}"))
            }
            "dot" => (stable("dot_general"), dot(line)),
            "convolution" => (stable("convolution"), convolution(line, shape, true)),
            "gather" => (stable("gather"), gather(line, true)),
            "call" | "fusion" => {
                let callee = get("to_apply").or_else(|| get("calls")).unwrap_or("");
                (
                    "func.call".to_owned(),
                    format!("callee = @{}", self.symbol(callee)),
                )
            }
            "get-dimension-size" | "set-dimension-size" => {
                let dim = dimensions.first().copied().unwrap_or(0);
                (
                    stable(&opcode.replace('-', "_")),
                    format!("dimension = {dim} : i64"),
                )
            }
            "reduce-precision" => (stable("reduce_precision"), reduced_precision(line)),
            "topk" if get("largest") != Some("false") => {
                let k = get("k").unwrap_or("1");
                ("chlo.top_k".to_owned(), format!("k = {k} : i64"))
            }
            "sharding-constraint" => (
                "sdy.sharding_constraint".to_owned(),
                self.sharding(get("split").unwrap_or(""), shape)?,
            ),
            "opt-barrier" => (stable("optimization_barrier"), String::new()),
            "custom-call" => (stable("custom_call"), custom_call(line)),
            "bitcast" if operands.len() == 1 && operands[0].shape == *shape => {
                (stable("reshape"), String::new())
            }
            _ => return Err(refuse(&format!("the instruction `{opcode}`"))),
        })
    }
}

/// The attributes of an instruction that has the sizes of its result as an operand.
fn sized_attrs(line: &Line, shape: &XlaShape) -> String {
    match &*line.opcode {
        "broadcast" => broadcast(line),
        "iota" => iota(line),
        "gather" => gather(line, false),
        "convolution" => convolution(line, shape, false),
        _ => String::new(),
    }
}

fn broadcast(line: &Line) -> String {
    let dimensions = array(&ints(attr(&line.attrs, "dimensions")));
    format!("broadcast_dimensions = {dimensions}")
}

fn iota(line: &Line) -> String {
    let dim = attr(&line.attrs, "iota_dimension").unwrap_or("0");
    format!("iota_dimension = {dim} : i64")
}

fn comparison(line: &Line) -> String {
    let direction = attr(&line.attrs, "direction").unwrap_or("EQ");
    let direction = format!("comparison_direction = #stablehlo<comparison_direction {direction}>");
    match attr(&line.attrs, "type") {
        Some("TOTALORDER") => {
            format!("compare_type = #stablehlo<comparison_type TOTALORDER>, {direction}")
        }
        _ => direction,
    }
}

fn reduced_precision(line: &Line) -> String {
    let bits = |name: &str| attr(&line.attrs, name).unwrap_or("0");
    format!(
        "exponent_bits = {} : i32, mantissa_bits = {} : i32",
        bits("exponent_bits"),
        bits("mantissa_bits")
    )
}

/// The dynamic operation for unknown sizes, which takes the sizes of its result or of its attributes as operands.
fn sized(opcode: &str, operands: usize, shape: &XlaShape) -> Outcome<Option<&'static str>> {
    let (name, own) = match (opcode, operands) {
        ("reshape", _) => ("dynamic_reshape", 1),
        ("broadcast", _) => ("dynamic_broadcast_in_dim", 1),
        ("iota", _) => ("dynamic_iota", 0),
        ("slice", 4) => return Ok(Some("real_dynamic_slice")),
        ("gather", 3) => return Ok(Some("dynamic_gather")),
        ("pad", 5) => return Ok(Some("dynamic_pad")),
        ("convolution", 3) => return Ok(Some("dynamic_conv")),
        _ => return Ok(None),
    };
    let open = shape
        .as_array()
        .is_some_and(|array| array.bounds().is_none());
    match (open, operands) {
        (false, _) => Ok(None),
        (true, n) if n == own + 1 => Ok(Some(name)),
        (true, _) => Err(refuse(&format!("`{opcode}` into sizes that nothing gives"))),
    }
}

/// One element of a tuple of this shape; the values of the elements before it are skipped.
fn element(line: &Line, tuple: Option<&XlaShape>, leaves: &[Leaf]) -> Vec<Leaf> {
    let index = attr(&line.attrs, "index").and_then(|i| i.parse::<usize>().ok());
    let (Some(XlaShape::Tuple(parts)), Some(index)) = (tuple, index) else {
        return Vec::new();
    };
    let counts: Vec<usize> = parts.iter().map(|part| part.parts().len()).collect();
    let start: usize = counts.iter().take(index).sum();
    let count = counts.get(index).copied().unwrap_or(0);
    leaves
        .get(start..start + count)
        .unwrap_or_default()
        .to_vec()
}

/// The location with the name in the metadata.
fn location(line: &Line) -> String {
    let metadata = attr(&line.attrs, "metadata").unwrap_or("");
    let name = metadata.split_once("op_name=\"").map(|(_, rest)| rest);
    let Some(name) = name else {
        return String::new();
    };
    let mut escaped = false;
    let end = name.find(|c| {
        let ends = c == '"' && !escaped;
        escaped = c == '\\' && !escaped;
        ends
    });
    format!(" loc(\"{}\")", &name[..end.unwrap_or(0)])
}

/// The attributes of a slice, from `{[0:4], [1:9:2]}`.
fn slice(text: &str) -> String {
    let mut lists = [vec![], vec![], vec![]];
    for range in text.trim_matches(['{', '}']).split("],") {
        let range = range.trim().trim_matches(['[', ']']);
        if range.is_empty() {
            continue;
        }
        let mut ends = range
            .split(':')
            .map(|n| n.trim().parse::<i64>().unwrap_or(0));
        lists[0].push(ends.next().unwrap_or(0));
        lists[1].push(ends.next().unwrap_or(0));
        lists[2].push(ends.next().unwrap_or(1));
    }
    let [starts, limits, steps] = lists;
    format!(
        "limit_indices = {}, start_indices = {}, strides = {}",
        array(&limits),
        array(&starts),
        array(&steps)
    )
}

/// The attributes of a pad, from `1_2x0_0_1`.
fn pad(text: &str) -> String {
    let mut lists = [vec![], vec![], vec![]];
    for part in text.split('x').filter(|part| !part.is_empty()) {
        let mut amounts = part
            .split('_')
            .map(|n| n.trim().parse::<i64>().unwrap_or(0));
        for list in &mut lists {
            list.push(amounts.next().unwrap_or(0));
        }
    }
    let [low, high, inside] = lists;
    format!(
        "edge_padding_high = {}, edge_padding_low = {}, interior_padding = {}",
        array(&high),
        array(&low),
        array(&inside)
    )
}

fn dot(line: &Line) -> String {
    let list = |name: &str| comma(&ints(attr(&line.attrs, name)));
    let mut attrs = format!(
        "dot_dimension_numbers = #stablehlo.dot<lhs_batching_dimensions = [{}], rhs_batching_dimensions = [{}], \
         lhs_contracting_dimensions = [{}], rhs_contracting_dimensions = [{}]>",
        list("lhs_batch_dims"),
        list("rhs_batch_dims"),
        list("lhs_contracting_dims"),
        list("rhs_contracting_dims")
    );
    attrs.push_str(&precision(line));
    if let Some(algorithm) = attr(&line.attrs, "algorithm").filter(|a| a.starts_with('<')) {
        let _ = write!(attrs, ", algorithm = #stablehlo.dot_algorithm{algorithm}");
    }
    attrs
}

/// The attributes of a gather. Its slice sizes are an attribute if `stated`, else an operand.
fn gather(line: &Line, stated: bool) -> String {
    let list = |name: &str| comma(&ints(attr(&line.attrs, name)));
    let sizes = match stated {
        true => {
            let sizes = array(&ints(attr(&line.attrs, "slice_sizes")));
            format!(", slice_sizes = {sizes}")
        }
        false => String::new(),
    };
    format!(
        "dimension_numbers = #stablehlo.gather<offset_dims = [{}], collapsed_slice_dims = [{}], operand_batching_dims = [{}], \
         start_indices_batching_dims = [{}], start_index_map = [{}], index_vector_dim = {}>, indices_are_sorted = {}{sizes}",
        list("offset_dims"),
        list("collapsed_slice_dims"),
        list("operand_batching_dims"),
        list("start_indices_batching_dims"),
        list("start_index_map"),
        attr(&line.attrs, "index_vector_dim").unwrap_or("0"),
        attr(&line.attrs, "indices_are_sorted").unwrap_or("false"),
    )
}

fn custom_call(line: &Line) -> String {
    let get = |name: &str| attr(&line.attrs, name);
    let mut attrs = format!(
        "call_target_name = {}",
        get("custom_call_target").unwrap_or("\"\"")
    );
    if get("custom_call_has_side_effect") == Some("true") {
        attrs.push_str(", has_side_effect = true");
    }
    if let Some(config) = get("backend_config").filter(|c| c.starts_with('"')) {
        let _ = write!(attrs, ", backend_config = {config}");
    }
    attrs
}
