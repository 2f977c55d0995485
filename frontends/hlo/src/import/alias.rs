//! Arguments and results of the entry that share memory.

use crate::module::HloModule;
use indexmap::IndexMap;
use optc_ir::{Attr, Func};
use optc_layout::XlaShape;

/// Writes the results that share memory with an argument, by number, into `hbir.alias` of the argument's port. Entries
/// that name no parameter or no result are ignored.
pub(super) fn mark(func: &mut Func, hlo: &HloModule<'_>) {
    let Some(text) = hlo.attrs.get("input_output_alias") else {
        return;
    };
    let computation = &hlo.computations[hlo.entry];
    let parameters = computation.parameters();
    let mut arguments: Vec<IndexMap<Vec<usize>, usize>> = Vec::with_capacity(parameters.len());
    let mut next = 0;
    for parameter in parameters {
        let shape = &computation.instructions[parameter].shape;
        arguments.push(leaves(shape, &mut next));
    }
    let results = leaves(&computation.root().shape, &mut 0);
    let mut found: Vec<(usize, usize)> = Vec::new();
    for (result, number, part) in pairs(text) {
        let argument = arguments.get(number).and_then(|parts| parts.get(&part));
        found.extend(argument.copied().zip(results.get(&result).copied()));
    }
    found.sort_unstable();
    for ports in found.chunk_by(|a, b| a.0 == b.0) {
        let results: Vec<usize> = ports.iter().map(|(_, result)| *result).collect();
        if let Some(port) = func.arg_ports.get_mut(ports[0].0) {
            port.attrs.set("hbir.alias", Attr::ints(&results));
        }
    }
}

/// The result's index, the parameter and the index in it, of each part of
/// `{ {0}: (1, {}, may-alias), {1,0}: (0, {2}) }`.
fn pairs(text: &str) -> Vec<(Vec<usize>, usize, Vec<usize>)> {
    let mut found = Vec::new();
    for part in text.split(')') {
        let Some((result, parameter)) = part.split_once('(') else {
            continue;
        };
        let Some((number, rest)) = parameter.split_once(',') else {
            continue;
        };
        let index = |text: &str| -> Option<Vec<usize>> {
            let (_, inner) = text.rsplit_once('{')?;
            let inner = inner.split('}').next()?.trim();
            let numbers = inner.split(',').filter(|n| !n.trim().is_empty());
            numbers.map(|n| n.trim().parse().ok()).collect()
        };
        let pair = index(result)
            .zip(index(rest))
            .zip(number.trim().parse().ok());
        found.extend(pair.map(|((result, part), number)| (result, number, part)));
    }
    found
}

/// The numbers of a shape's arrays by their indices in it, from `next` on.
fn leaves(shape: &XlaShape, next: &mut usize) -> IndexMap<Vec<usize>, usize> {
    let mut found = IndexMap::new();
    let mut stack = vec![(Vec::new(), shape)];
    while let Some((index, shape)) = stack.pop() {
        match shape {
            XlaShape::Tuple(parts) => {
                let within = |i: usize| [index.as_slice(), &[i]].concat();
                let inner = parts.iter().enumerate().rev();
                stack.extend(inner.map(|(i, part)| (within(i), part)));
            }
            XlaShape::Array(_) => {
                found.insert(index, *next);
                *next += 1;
            }
            XlaShape::Token | XlaShape::Opaque | XlaShape::Buffer(_) => *next += 1,
        }
    }
    found
}
