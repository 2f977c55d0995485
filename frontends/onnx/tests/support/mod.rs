//! A writer of ONNX models for tests, field by field, without the messages of the crate.

#![allow(dead_code, reason = "each test file uses a part of it")]

use optc_ir::{Func, OpData};

/// A protobuf message being written.
#[derive(Clone, Default)]
pub(crate) struct Msg(Vec<u8>);

impl Msg {
    pub(crate) fn new() -> Msg {
        Msg::default()
    }
    pub(crate) fn done(self) -> Vec<u8> {
        self.0
    }
    fn varint(&mut self, mut n: u64) {
        while 0x7f < n {
            self.0.push((n as u8 & 0x7f) | 0x80);
            n >>= 7;
        }
        self.0.push(n as u8);
    }
    pub(crate) fn int(mut self, field: u64, value: i64) -> Msg {
        self.varint(field << 3);
        self.varint(value as u64);
        self
    }
    pub(crate) fn float(mut self, field: u64, value: f32) -> Msg {
        self.varint(field << 3 | 5);
        self.0.extend(value.to_le_bytes());
        self
    }
    pub(crate) fn bytes(mut self, field: u64, value: &[u8]) -> Msg {
        self.varint(field << 3 | 2);
        self.varint(value.len() as u64);
        self.0.extend(value);
        self
    }
    pub(crate) fn str(self, field: u64, value: &str) -> Msg {
        self.bytes(field, value.as_bytes())
    }
    pub(crate) fn msg(self, field: u64, value: Msg) -> Msg {
        self.bytes(field, &value.0)
    }
    pub(crate) fn packed(self, field: u64, values: &[i64]) -> Msg {
        let mut list = Msg::new();
        values.iter().for_each(|&v| list.varint(v as u64));
        self.msg(field, list)
    }
}

pub(crate) const F32: i64 = 1;
pub(crate) const I64: i64 = 7;

/// An extent of a value: a number, a name, or none.
#[derive(Clone, Copy)]
pub(crate) enum D<'a> {
    N(i64),
    P(&'a str),
    Open,
}

pub(crate) fn value(name: &str, elem: i64, dims: &[D<'_>]) -> Msg {
    let dim = |d: &D<'_>| match d {
        D::N(n) => Msg::new().int(1, *n),
        D::P(p) => Msg::new().str(2, p),
        D::Open => Msg::new(),
    };
    let shape = dims.iter().fold(Msg::new(), |m, d| m.msg(1, dim(d)));
    let tensor = Msg::new().int(1, elem).msg(2, shape);
    Msg::new().str(1, name).msg(2, Msg::new().msg(1, tensor))
}

pub(crate) fn fixed(name: &str, elem: i64, dims: &[i64]) -> Msg {
    let dims: Vec<D<'_>> = dims.iter().map(|&n| D::N(n)).collect();
    value(name, elem, &dims)
}

pub(crate) fn node(op: &str, inputs: &[&str], outputs: &[&str], attrs: Vec<Msg>) -> Msg {
    let m = inputs.iter().fold(Msg::new(), |m, i| m.str(1, i));
    let m = outputs.iter().fold(m, |m, o| m.str(2, o));
    let m = m.str(3, &format!("{}_node", outputs[0])).str(4, op);
    attrs.into_iter().fold(m, |m, a| m.msg(5, a))
}

pub(crate) fn attr_int(name: &str, n: i64) -> Msg {
    Msg::new().str(1, name).int(3, n).int(20, 2)
}
pub(crate) fn attr_float(name: &str, x: f32) -> Msg {
    Msg::new().str(1, name).float(2, x).int(20, 1)
}
pub(crate) fn attr_str(name: &str, text: &str) -> Msg {
    Msg::new().str(1, name).str(4, text).int(20, 3)
}
pub(crate) fn attr_ints(name: &str, list: &[i64]) -> Msg {
    list.iter()
        .fold(Msg::new().str(1, name), |m, &n| m.int(8, n))
        .int(20, 7)
}
pub(crate) fn attr_tensor(name: &str, tensor: Msg) -> Msg {
    Msg::new().str(1, name).msg(5, tensor).int(20, 4)
}
pub(crate) fn attr_graph(name: &str, graph: Msg) -> Msg {
    Msg::new().str(1, name).msg(6, graph).int(20, 5)
}

fn tensor(name: &str, elem: i64, dims: &[i64]) -> Msg {
    dims.iter()
        .fold(Msg::new(), |m, &d| m.int(1, d))
        .int(2, elem)
        .str(8, name)
}
pub(crate) fn raw(name: &str, elem: i64, dims: &[i64], data: &[u8]) -> Msg {
    tensor(name, elem, dims).bytes(9, data)
}
pub(crate) fn ints(name: &str, values: &[i64]) -> Msg {
    tensor(name, I64, &[values.len() as i64]).packed(7, values)
}
pub(crate) fn scalar_int(name: &str, value: i64) -> Msg {
    tensor(name, I64, &[]).packed(7, &[value])
}
pub(crate) fn floats(name: &str, dims: &[i64], values: &[f32]) -> Msg {
    let bytes: Vec<u8> = values.iter().flat_map(|x| x.to_le_bytes()).collect();
    tensor(name, F32, dims).bytes(4, &bytes)
}
pub(crate) fn external(name: &str, dims: &[i64], entries: &[(&str, &str)]) -> Msg {
    let entry = |(k, v): &(&str, &str)| Msg::new().str(1, k).str(2, v);
    entries
        .iter()
        .fold(tensor(name, F32, dims), |m, e| m.msg(13, entry(e)))
        .int(14, 1)
}

/// A model of one graph.
#[derive(Clone, Default)]
pub(crate) struct Graph {
    pub(crate) nodes: Vec<Msg>,
    pub(crate) inputs: Vec<Msg>,
    pub(crate) outputs: Vec<Msg>,
    pub(crate) constants: Vec<Msg>,
    pub(crate) infos: Vec<Msg>,
    pub(crate) functions: Vec<Msg>,
    pub(crate) opset: i64,
}

impl Graph {
    pub(crate) fn new() -> Graph {
        Graph {
            opset: 17,
            ..Graph::default()
        }
    }
    pub(crate) fn node(mut self, node: Msg) -> Graph {
        self.nodes.push(node);
        self
    }
    pub(crate) fn input(mut self, value: Msg) -> Graph {
        self.inputs.push(value);
        self
    }
    pub(crate) fn output(mut self, value: Msg) -> Graph {
        self.outputs.push(value);
        self
    }
    pub(crate) fn constant(mut self, tensor: Msg) -> Graph {
        self.constants.push(tensor);
        self
    }
    pub(crate) fn info(mut self, value: Msg) -> Graph {
        self.infos.push(value);
        self
    }
    pub(crate) fn graph(&self) -> Msg {
        let all = [
            (1, &self.nodes),
            (5, &self.constants),
            (11, &self.inputs),
            (12, &self.outputs),
        ];
        let m = all.into_iter().fold(Msg::new(), |m, (field, list)| {
            list.iter().fold(m, |m, x| m.msg(field, x.clone()))
        });
        self.infos.iter().fold(m, |m, x| m.msg(13, x.clone()))
    }
    pub(crate) fn bytes(&self) -> Vec<u8> {
        let opset = Msg::new().str(1, "").int(2, self.opset);
        let m = Msg::new().int(1, 8).msg(7, self.graph()).msg(8, opset);
        let m = m.msg(8, Msg::new().str(1, "local").int(2, 1));
        self.functions
            .iter()
            .fold(m, |m, f| m.msg(25, f.clone()))
            .done()
    }
}

/// The operations of a function, in order.
pub(crate) fn ops(func: &Func) -> Vec<&OpData> {
    func.body.iter().map(|&op| &func.ops[op]).collect()
}

/// The names of a function's operations without `hbir.`, except constants.
pub(crate) fn names(func: &Func) -> Vec<&str> {
    let names = ops(func)
        .into_iter()
        .map(|op| op.name.trim_start_matches("hbir."));
    names.filter(|n| *n != "constant").collect()
}
