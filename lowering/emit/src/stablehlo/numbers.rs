//! Dimension numbers instead of transposes: a product or a convolution reads its operands as they lie, and a convolution writes
//! its result as it is read.

use super::ops::ints;
use super::types::parsed;
use super::writer::attr;
use crate::hlo::{Inside, Line, Written};
use indexmap::IndexMap;
use optc_layout::XlaShape;

/// Takes transposes of operands into the products and convolutions of a computation, and those of results into convolutions.
/// What nothing reads any more goes.
pub(super) fn absorb(made: &mut Written) {
    let places: IndexMap<String, usize> = (made.lines.iter().enumerate())
        .map(|(at, line)| (line.name.clone(), at))
        .collect();
    let mut uses: IndexMap<String, Vec<usize>> = IndexMap::new();
    for (at, line) in made.lines.iter().enumerate() {
        for name in operands(line) {
            uses.entry(name.clone()).or_default().push(at);
        }
    }
    for at in 0..made.lines.len() {
        if matches!(&*made.lines[at].opcode, "dot" | "convolution") {
            for side in 0..2 {
                operand(made, &places, at, side);
            }
        }
        if made.lines[at].opcode == "convolution" && made.lines[at].name != made.root {
            result(made, &uses, at);
        }
    }
    drop_unread(made);
}

fn operands(line: &Line) -> &[String] {
    match &line.inside {
        Inside::Operands(names) | Inside::Verbatim { operands: names, .. } => names,
        Inside::Payload(_) | Inside::Elements(_) => &[],
    }
}

/// The permutation and the operand of a transpose.
fn transpose(line: &Line) -> Option<(Vec<usize>, String)> {
    if line.opcode != "transpose" {
        return None;
    }
    let perm = ints(attr(&line.attrs, "dimensions"));
    let perm = perm.into_iter().map(|p| usize::try_from(p).ok()).collect::<Option<Vec<_>>>()?;
    Some((perm, operands(line).first()?.clone()))
}

/// An operand that is transposed is read as it is.
fn operand(made: &mut Written, places: &IndexMap<String, usize>, at: usize, side: usize) {
    let Some(name) = operands(&made.lines[at]).get(side) else {
        return;
    };
    let found = places.get(name).and_then(|&place| transpose(&made.lines[place]));
    let Some((perm, source)) = found else { return };
    let line = &made.lines[at];
    let attrs = match &*line.opcode {
        "dot" => dot(line, &perm, side),
        _ => labels(line, side, &perm, false),
    };
    let Some(attrs) = attrs else { return };
    let line = &mut made.lines[at];
    line.attrs = attrs;
    if let Inside::Operands(names) = &mut line.inside {
        names[side] = source;
    }
}

/// The attributes of a product that reads the operand of a transpose; none where its free dimensions would change places.
fn dot(line: &Line, perm: &[usize], side: usize) -> Option<String> {
    let prefix = ["lhs", "rhs"][side];
    let mut attrs = line.attrs.clone();
    let mut bound = Vec::new();
    for key in ["batch_dims", "contracting_dims"] {
        let key = format!("{prefix}_{key}");
        let Some(text) = attr(&line.attrs, &key) else { continue };
        let dims = ints(Some(text));
        let dims: Vec<usize> = dims.into_iter().map(|d| usize::try_from(d).unwrap_or(usize::MAX)).collect();
        let moved: Vec<usize> = dims.iter().map(|&d| perm.get(d).copied()).collect::<Option<_>>()?;
        bound.extend(&dims);
        let texts: Vec<String> = moved.iter().map(usize::to_string).collect();
        attrs = attrs.replace(&format!(" {key}={text}"), &format!(" {key}={{{}}}", texts.join(",")));
    }
    let free: Vec<usize> = (0..perm.len()).filter(|d| !bound.contains(d)).map(|d| perm[d]).collect();
    free.is_sorted().then_some(attrs)
}

/// The attributes of a convolution, the labels of one side in another order: `inverse` where that side is what a transpose reads.
fn labels(line: &Line, side: usize, perm: &[usize], inverse: bool) -> Option<String> {
    let text = attr(&line.attrs, "dim_labels")?;
    let (inputs, out) = text.split_once("->")?;
    let (left, right) = inputs.split_once('_')?;
    let mut sides = [left, right, out].map(|side| side.as_bytes().to_vec());
    let old = sides[side].clone();
    if perm.len() != old.len() {
        return None;
    }
    for (to, &from) in perm.iter().enumerate() {
        // Dimension `to` of a transpose is dimension `from` of its operand.
        let (to, from) = if inverse { (from, to) } else { (to, from) };
        *sides[side].get_mut(from)? = *old.get(to)?;
    }
    let [left, right, out] = sides.map(|side| String::from_utf8_lossy(&side).into_owned());
    let new = format!(" dim_labels={left}_{right}->{out}");
    Some(line.attrs.replace(&format!(" dim_labels={text}"), &new))
}

/// A convolution whose result only one transpose reads writes it so; the transpose is then a copy.
fn result(made: &mut Written, uses: &IndexMap<String, Vec<usize>>, at: usize) {
    let Some(&[reader]) = uses.get(&made.lines[at].name).map(Vec::as_slice) else {
        return;
    };
    let Some((perm, _)) = transpose(&made.lines[reader]) else {
        return;
    };
    let Some(attrs) = labels(&made.lines[at], 2, &perm, true) else {
        return;
    };
    let XlaShape::Array(_) = parsed(&made.lines[reader].shape) else {
        return;
    };
    made.lines[at].attrs = attrs;
    made.lines[at].shape = made.lines[reader].shape.clone();
    made.lines[reader].opcode = "copy".to_owned();
    made.lines[reader].attrs = String::new();
}

/// Transposes that nothing reads go.
fn drop_unread(made: &mut Written) {
    let mut read: IndexMap<String, ()> = IndexMap::new();
    read.insert(made.root.clone(), ());
    let mut kept = Vec::with_capacity(made.lines.len());
    for line in std::mem::take(&mut made.lines).into_iter().rev() {
        if line.opcode == "transpose" && !read.contains_key(&line.name) {
            continue;
        }
        for name in operands(&line) {
            read.insert(name.clone(), ());
        }
        kept.push(line);
    }
    kept.reverse();
    made.lines = kept;
}
