//! optc inside another compiler: an IR of its own goes in, layouts come out, and loops of its own run them.
//!
//! The program is one attention block. Its heads are split by a reshape and a transpose, and merged by a transpose and a
//! reshape. The loops read and write each value where the answer says, and the reshapes and transposes are gone.

#![expect(clippy::print_stdout, reason = "this is a program")]

use indexmap::IndexMap;
use optc::ops::{Matmul, Reshape, Softmax, Transpose};
use optc::{Answer, Compiler, DType, Error, Fate, FuncBuilder, Module, TensorType, Value};

/// An operation of the compiler's own IR. Operands are numbers of earlier nodes.
enum Node {
    Input(&'static str, Vec<u64>),
    Matmul(usize, usize),
    Reshape(usize, Vec<u64>),
    Transpose(usize, Vec<i64>),
    Softmax(usize),
}

fn attention(batch: u64, length: u64, heads: u64, depth: u64) -> Vec<Node> {
    let width = heads * depth;
    let mut nodes = vec![Node::Input("x", vec![batch, length, width])];
    let mut add = |node| {
        nodes.push(node);
        nodes.len() - 1
    };
    let mut split = Vec::new();
    for name in ["wq", "wk", "wv"] {
        let weight = add(Node::Input(name, vec![width, width]));
        let flat = add(Node::Matmul(0, weight));
        let cut = add(Node::Reshape(flat, vec![batch, length, heads, depth]));
        split.push(add(Node::Transpose(cut, vec![0, 2, 1, 3])));
    }
    let keys = add(Node::Transpose(split[1], vec![0, 1, 3, 2]));
    let scores = add(Node::Matmul(split[0], keys));
    let shares = add(Node::Softmax(scores));
    let mixed = add(Node::Matmul(shares, split[2]));
    let rows = add(Node::Transpose(mixed, vec![0, 2, 1, 3]));
    add(Node::Reshape(rows, vec![batch, length, width]));
    nodes
}

/// The bridge: the nodes as a module, and the value of each node.
fn bridge(compiler: &Compiler, nodes: &[Node]) -> Result<(Module, Vec<Value>), Error> {
    let mut b = FuncBuilder::new(compiler.registry());
    let mut values: Vec<Value> = Vec::new();
    for node in nodes {
        let value = match node {
            Node::Input(name, shape) => b.arg(name, TensorType::fixed(shape, DType::F32)),
            Node::Matmul(x, y) => b.one(&Matmul { to: None }, &[values[*x], values[*y]])?,
            Node::Reshape(x, shape) => b.one(&Reshape::to(shape), &[values[*x]])?,
            Node::Transpose(x, perm) => b.one(&Transpose { perm: perm.clone() }, &[values[*x]])?,
            Node::Softmax(x) => b.one(&Softmax { axis: 3 }, &[values[*x]])?,
        };
        values.push(value);
    }
    let result: Vec<Value> = values.last().copied().into_iter().collect();
    Ok((b.finish(&result), values))
}

/// The buffers of a run: one for each value of the result that is no view and no part of another one.
struct Run<'a> {
    answer: &'a Answer,
    buffers: IndexMap<Value, Vec<f32>>,
}

impl Run<'_> {
    fn shape(&self, value: Value) -> Vec<u64> {
        let ty = self.answer.program().module.funcs[0].ty(value);
        ty.as_tensor()
            .and_then(TensorType::shape)
            .expect("sizes are known")
    }

    /// Calls `f` with every index of a value.
    fn each(shape: &[u64], mut f: impl FnMut(&[u64])) {
        for mut number in 0..shape.iter().product() {
            let mut index = vec![0; shape.len()];
            for (i, &size) in index.iter_mut().zip(shape).rev() {
                (*i, number) = (number % size, number / size);
            }
            f(&index);
        }
    }

    /// The buffer of an element, and the element's place there.
    fn slot(&self, value: Value, index: &[u64]) -> (Value, usize) {
        let place = self.answer.place(0, value).expect("a value of the result");
        let at = place.offset(index).and_then(|at| usize::try_from(at).ok());
        (place.buffer, at.expect("the index is inside"))
    }

    fn read(&self, value: Value, index: &[u64]) -> f32 {
        let (buffer, at) = self.slot(value, index);
        self.buffers[&buffer][at]
    }

    /// Computes a value, element by element, where the answer puts it.
    fn write(&mut self, value: Value, element: impl Fn(&Self, &[u64]) -> f32) {
        Self::each(&self.shape(value), |index| {
            let number = element(self, index);
            let (buffer, at) = self.slot(value, index);
            let buffer = self.buffers.entry(buffer).or_default();
            buffer.resize(buffer.len().max(at + 1), f32::NAN);
            buffer[at] = number;
        });
    }

    /// The loops of one operation. A view needs none.
    fn op(&mut self, name: &str, operands: &[Value], result: Value) {
        let x = operands[0];
        match name {
            "hbir.view" => {}
            "hbir.layout_convert" => self.write(result, |run, index| run.read(x, index)),
            "hbir.matmul" => {
                let depth = self.shape(x).last().copied().unwrap_or(1);
                let y = operands[1];
                let rank = self.shape(y).len();
                self.write(result, |run, index| {
                    let last = index.len() - 1;
                    let (mut a, mut b) = (index.to_vec(), index[index.len() - rank..].to_vec());
                    let term = |k| {
                        (a[last], b[rank - 2]) = (k, k);
                        run.read(x, &a) * run.read(y, &b)
                    };
                    (0..depth).map(term).sum()
                });
            }
            "hbir.softmax" => {
                let size = self.shape(x).last().copied().unwrap_or(1);
                self.write(result, |run, index| {
                    let mut row = index.to_vec();
                    let last = row.len() - 1;
                    let mut exp = |k| {
                        row[last] = k;
                        run.read(x, &row).exp()
                    };
                    let sum: f32 = (0..size).map(&mut exp).sum();
                    exp(index[last]) / sum
                });
            }
            other => panic!("no loops for {other}"),
        }
    }
}

/// Folds the nodes and runs the result; returns what the last node holds, in row-major order.
fn run(nodes: &[Node], input: impl Fn(&str, &[u64]) -> f32) -> Result<Vec<f32>, Error> {
    let compiler = Compiler::new();
    let (module, values) = bridge(&compiler, nodes)?;
    let answer = compiler.fold(&compiler.program("attention", module)?)?;
    for (number, &value) in values.iter().enumerate() {
        match answer.fate(value)? {
            Fate::Held(holders) => println!("node {number}: {}", holders[0]),
            Fate::Absent(why) => println!("node {number}: {why:?}"),
            _ => {}
        }
    }
    let (bytes, kept) = (answer.stats().movement_bytes, answer.conversions().len());
    println!("{bytes} bytes move, in {kept} conversions");
    let func = &answer.program().module.funcs[0];
    let mut run = Run {
        answer: &answer,
        buffers: IndexMap::new(),
    };
    for (i, &arg) in func.args.iter().enumerate() {
        run.write(arg, |_, index| input(&func.arg_key(i), index));
    }
    for &op in &func.body {
        let data = &func.ops[op];
        run.op(&data.name, &data.operands, data.results[0]);
    }
    let (y, mut numbers) = (func.results[0], Vec::new());
    Run::each(&run.shape(y), |index| numbers.push(run.read(y, index)));
    Ok(numbers)
}

fn input(name: &str, index: &[u64]) -> f32 {
    let seed = name.bytes().map(u64::from).sum::<u64>();
    let number = index.iter().fold(seed, |sum, i| sum * 31 + i * 7 + 3);
    (number % 17) as f32 / 17.0 - 0.5
}

fn main() -> Result<(), Error> {
    let numbers = run(&attention(2, 5, 3, 4), input)?;
    println!(
        "the last of {} numbers: {:?}",
        numbers.len(),
        numbers.last()
    );
    Ok(())
}

#[cfg(test)]
mod tests;
