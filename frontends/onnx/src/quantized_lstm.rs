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
    let network = Network::read(node, opset)?;
    let mut made = Made::default();
    let x = network.inputs[0];
    made.add(
        "DynamicQuantizeLinear",
        &[x],
        &["x_q", "x_scale", "x_zero"],
        vec![],
    );
    made.ints("row_shape", &[0, 1, -1, network.hidden]);
    made.ints("state_shape", &[1, -1, network.hidden]);
    if input(node, 5).is_none() || input(node, 6).is_none() {
        made.add("Shape", &[x], &["x_shape"], vec![]);
        made.ints("one", &[1]);
        made.add("Gather", &["x_shape", "one"], &["batch"], vec![]);
        made.ints("hidden", &[network.hidden]);
        let axis = int("axis", 0);
        made.add("Concat", &["batch", "hidden"], &["zeros_shape"], vec![axis]);
        made.add("ConstantOfShape", &["zeros_shape"], &["zeros"], vec![]);
    }
    let mut parts: [Vec<String>; 3] = Default::default();
    for (d, &backwards) in network.backwards.iter().enumerate() {
        let results = network.direction(&mut made, d, backwards);
        for (part, name) in parts.iter_mut().zip(results) {
            part.push(name);
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

/// The name of an input that is there.
fn input(node: &NodeProto, i: usize) -> Option<&str> {
    node.input
        .get(i)
        .map(String::as_str)
        .filter(|name| !name.is_empty())
}

/// The node, with its attributes and inputs read.
struct Network<'a> {
    node: &'a NodeProto,
    hidden: i64,
    /// For each direction, whether it runs backwards.
    backwards: &'static [bool],
    /// The inputs, then the weights of the inputs and of the states, then the scale and the zero point of each.
    inputs: [&'a str; 7],
}

impl<'a> Network<'a> {
    fn read(node: &'a NodeProto, opset: i64) -> Option<Network<'a>> {
        let attr = |name: &str| node.attribute.iter().find(|a| a.name == name);
        let hidden = attr("hidden_size")?.i.filter(|&n| 0 < n)?;
        let coupled = attr("input_forget").and_then(|a| a.i).unwrap_or(0) != 0;
        let special = coupled || attr("clip").is_some() || attr("activations").is_some();
        // Sequence lengths, and peepholes.
        let more = input(node, 4).is_some() || input(node, 7).is_some();
        if special || more || opset < SINCE {
            return None;
        }
        let direction = attr("direction").and_then(|a| a.s.as_deref());
        let backwards: &[bool] = match direction.unwrap_or(b"forward") {
            b"forward" => &[false],
            b"reverse" => &[true],
            b"bidirectional" => &[false, true],
            _ => return None,
        };
        let numbers = [0, 1, 2, 8, 9, 10, 11].into_iter();
        let inputs: Option<Vec<&str>> = numbers.map(|i| input(node, i)).collect();
        Some(Network {
            node,
            hidden,
            backwards,
            inputs: inputs?.try_into().ok()?,
        })
    }

    /// Adds the nodes of one direction. Returns the names of its states, its last state and its last cell.
    fn direction(&self, made: &mut Made, d: usize, backwards: bool) -> [String; 3] {
        let [_, w, r, w_scale, w_zero, r_scale, r_zero] = self.inputs;
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
        let sums = self.sums(made, &own);
        let mut states = Vec::new();
        for (i, name) in [(5, "first_state"), (6, "first_cell")] {
            states.push(match input(self.node, i) {
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
        let apart = [
            (&results[2], "row_shape"),
            (&results[0], "state_shape"),
            (&results[1], "state_shape"),
        ];
        apart.map(|(from, shape)| {
            let name = format!("{from}_apart");
            made.add("Reshape", &[from, shape], &[&name], vec![]);
            name
        })
    }

    /// Adds the inputs' part of the gates, with the biases if there are any. Returns its name.
    fn sums(&self, made: &mut Made, own: &impl Fn(&str) -> String) -> String {
        let product = ["x_q", &own("w"), "x_zero", &own("w_zero")];
        made.scaled(product, ["x_scale", &own("w_scale")], &own("sums"));
        let Some(biases) = input(self.node, 3) else {
            return own("sums");
        };
        made.add(
            "Gather",
            &[biases, &own("direction")],
            &[&own("biases")],
            vec![],
        );
        let both = [own("of_inputs"), own("of_states")];
        let both = [both[0].as_str(), both[1].as_str()];
        made.add("Split", &[&own("biases")], &both, vec![int("axis", 0)]);
        made.add("Add", &both, &[&own("bias")], vec![]);
        made.add(
            "Add",
            &[&own("sums"), &own("bias")],
            &[&own("biased")],
            vec![],
        );
        own("biased")
    }
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
