//! Expands `com.microsoft.DynamicQuantizeLSTM` to standard operators. Operands of products with weights are quantized
//! before: the inputs all at once, the states in each step.
//!
//! Source: onnxruntime's `rnn_helpers.cc`, `ComputeGemm` of quantized weights.

use optc_onnx_proto::{AttributeProto, GraphProto, NodeProto, ValueInfoProto, kind};
use prost::Message;
use prost::bytes::Bytes;

/// The first version of the standard that has all operators of the graph.
const SINCE: i64 = 11;

/// The graph that replaces the node; `None` if its attributes or inputs are unusual, or the standard is too old.
pub(crate) fn graph(node: &NodeProto, opset: i64) -> Option<GraphProto> {
    let attr = |name: &str| node.attribute.iter().find(|a| a.name == name);
    let input = |i: usize| node.input.get(i).filter(|name| !name.is_empty());
    let hidden = attr("hidden_size")?.i.filter(|&n| 0 < n)?;
    let coupled = attr("input_forget").and_then(|a| a.i).unwrap_or(0) != 0;
    let special = coupled || attr("clip").is_some() || attr("activations").is_some();
    // Sequence lengths, and peepholes.
    if special || input(4).is_some() || input(7).is_some() || opset < SINCE {
        return None;
    }
    let direction = attr("direction").and_then(|a| a.s.as_deref());
    let backwards: &[bool] = match direction.unwrap_or(b"forward") {
        b"forward" => &[false],
        b"reverse" => &[true],
        b"bidirectional" => &[false, true],
        _ => return None,
    };
    let mut made = Made::default();
    let names: Option<Vec<&str>> = [0, 1, 2, 8, 9, 10, 11]
        .into_iter()
        .map(|i| input(i).map(String::as_str))
        .collect();
    let &[x, w, r, w_scale, w_zero, r_scale, r_zero] = &names?[..] else {
        return None;
    };
    made.add(
        "DynamicQuantizeLinear",
        &[x],
        &["x_q", "x_scale", "x_zero"],
        vec![],
    );
    made.ints("row_shape", &[0, 1, -1, hidden]);
    made.ints("state_shape", &[1, -1, hidden]);
    if input(5).is_none() || input(6).is_none() {
        made.add("Shape", &[x], &["x_shape"], vec![]);
        made.ints("one", &[1]);
        made.add("Gather", &["x_shape", "one"], &["batch"], vec![]);
        made.ints("hidden", &[hidden]);
        let axis = int("axis", 0);
        made.add("Concat", &["batch", "hidden"], &["zeros_shape"], vec![axis]);
        made.add("ConstantOfShape", &["zeros_shape"], &["zeros"], vec![]);
    }
    let mut parts: [Vec<String>; 3] = Default::default();
    for (d, &backwards) in backwards.iter().enumerate() {
        let own = |name: &str| format!("{name}_{d}");
        let at = own("direction");
        made.number(&at, d as i64);
        for (from, to) in [
            (w, "w"),
            (w_scale, "w_scale"),
            (w_zero, "w_zero"),
            (r, "r"),
            (r_scale, "r_scale"),
            (r_zero, "r_zero"),
        ] {
            made.add("Gather", &[from, &at], &[&own(to)], vec![]);
        }
        let product = ["x_q", &own("w"), "x_zero", &own("w_zero")];
        made.scaled(product, ["x_scale", &own("w_scale")], &own("sums"));
        let mut sums = own("sums");
        if let Some(biases) = input(3) {
            made.add("Gather", &[biases, &at], &[&own("biases")], vec![]);
            let axis = int("axis", 0);
            let both = [own("of_inputs"), own("of_states")];
            let both = [both[0].as_str(), both[1].as_str()];
            made.add("Split", &[&own("biases")], &both, vec![axis]);
            made.add("Add", &both, &[&own("bias")], vec![]);
            made.add("Add", &[&sums, &own("bias")], &[&own("biased")], vec![]);
            sums = own("biased");
        }
        let mut states = Vec::new();
        for (i, name) in [(5, "first_state"), (6, "first_cell")] {
            states.push(match input(i) {
                Some(given) => {
                    made.add("Gather", &[given, &at], &[&own(name)], vec![]);
                    own(name)
                }
                None => "zeros".to_owned(),
            });
        }
        let turned = i64::from(backwards);
        let attrs = vec![
            int("num_scan_inputs", 1),
            ints("scan_input_directions", &[turned]),
            ints("scan_output_directions", &[turned]),
            AttributeProto {
                g: Some(Bytes::from(step(&own).encode_to_vec())),
                ..named("body", kind::GRAPH)
            },
        ];
        let results = ["last_state", "last_cell", "states"].map(own);
        let outputs: Vec<&str> = results.iter().map(String::as_str).collect();
        made.add("Scan", &[&states[0], &states[1], &sums], &outputs, attrs);
        for (part, (from, shape)) in [
            (&results[2], "row_shape"),
            (&results[0], "state_shape"),
            (&results[1], "state_shape"),
        ]
        .into_iter()
        .enumerate()
        {
            let name = format!("{from}_apart");
            made.add("Reshape", &[from, shape], &[&name], vec![]);
            parts[part].push(name);
        }
    }
    for (i, (parts, name)) in parts.iter().zip(["y", "y_h", "y_c"]).enumerate() {
        let parts: Vec<&str> = parts.iter().map(String::as_str).collect();
        made.add(
            "Concat",
            &parts,
            &[name],
            vec![int("axis", i64::from(i == 0))],
        );
        made.0.output.push(port(name));
    }
    Some(made.0)
}

/// One step: from the state, the cell and the inputs' part of the gates to the next state, the next cell, and the state
/// again.
fn step(own: &dyn Fn(&str) -> String) -> GraphProto {
    let mut made = Made::default();
    made.0.input = ["h", "c", "of_input"].map(port).to_vec();
    made.add(
        "DynamicQuantizeLinear",
        &["h"],
        &["h_q", "h_scale", "h_zero"],
        vec![],
    );
    let product = ["h_q", &own("r"), "h_zero", &own("r_zero")];
    made.scaled(product, ["h_scale", &own("r_scale")], "of_state");
    made.add("Add", &["of_input", "of_state"], &["gates"], vec![]);
    let gates = ["i", "o", "f", "g"];
    made.add("Split", &["gates"], &gates, vec![int("axis", 1)]);
    for gate in &gates[..3] {
        made.add("Sigmoid", &[gate], &[&format!("{gate}_open")], vec![]);
    }
    made.add("Tanh", &["g"], &["new"], vec![]);
    made.add("Mul", &["f_open", "c"], &["kept"], vec![]);
    made.add("Mul", &["i_open", "new"], &["added"], vec![]);
    made.add("Add", &["kept", "added"], &["next_c"], vec![]);
    made.add("Tanh", &["next_c"], &["shown"], vec![]);
    made.add("Mul", &["o_open", "shown"], &["next_h"], vec![]);
    made.add("Identity", &["next_h"], &["state"], vec![]);
    made.0.output = ["next_h", "next_c", "state"].map(port).to_vec();
    made.0
}

/// A graph under construction.
#[derive(Default)]
struct Made(GraphProto);

impl Made {
    fn add(
        &mut self,
        op_type: &str,
        inputs: &[&str],
        outputs: &[&str],
        attribute: Vec<AttributeProto>,
    ) {
        let list = |names: &[&str]| names.iter().map(|&name| name.to_owned()).collect();
        self.0.node.push(NodeProto {
            op_type: op_type.to_owned(),
            input: list(inputs),
            output: list(outputs),
            attribute,
            ..NodeProto::default()
        });
    }

    /// A product of integers less their zero points, multiplied by both scales.
    fn scaled(&mut self, operands: [&str; 4], scales: [&str; 2], to: &str) {
        let [product, float, scale] =
            ["product", "float", "scale"].map(|part| format!("{to}_{part}"));
        self.add("MatMulInteger", &operands, &[&product], vec![]);
        self.add("Cast", &[&product], &[&float], vec![int("to", 1)]);
        self.add("Mul", &scales, &[&scale], vec![]);
        self.add("Mul", &[&float, &scale], &[to], vec![]);
    }

    fn ints(&mut self, name: &str, numbers: &[i64]) {
        self.add("Constant", &[], &[name], vec![ints("value_ints", numbers)]);
    }

    fn number(&mut self, name: &str, number: i64) {
        self.add("Constant", &[], &[name], vec![int("value_int", number)]);
    }
}

fn named(name: &str, kind: i32) -> AttributeProto {
    AttributeProto {
        name: name.to_owned(),
        kind,
        ..AttributeProto::default()
    }
}

fn int(name: &str, number: i64) -> AttributeProto {
    AttributeProto {
        i: Some(number),
        ..named(name, kind::INT)
    }
}

fn ints(name: &str, numbers: &[i64]) -> AttributeProto {
    AttributeProto {
        ints: numbers.to_vec(),
        ..named(name, kind::INTS)
    }
}

fn port(name: &str) -> ValueInfoProto {
    ValueInfoProto {
        name: name.to_owned(),
        ty: None,
    }
}
