//! Dimension numbers instead of transposes: a product or convolution reads a transposed operand directly, and a
//! convolution writes its result in the order of its user.
//!
//! Example: `dot(transpose(x), y)` that contracts dimension 1 of the transpose becomes `dot(x, y)` that contracts
//! dimension 0 of `x`.

use super::attrs::{attr, ints};
use super::line::{Inside, Line, Written, parsed};
use indexmap::IndexMap;
use optc_layout::XlaShape;

/// Folds transposes of operands into the products and convolutions of a computation, and transposes of results into
/// convolutions. Dead transposes and reshapes are removed.
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
    let mut before: IndexMap<usize, Vec<Line>> = IndexMap::new();
    for at in 0..made.lines.len() {
        if matches!(&*made.lines[at].opcode, "dot" | "convolution") {
            for side in 0..2 {
                operand(made, &places, (at, side), &mut before);
            }
        }
        if made.lines[at].opcode == "convolution" && made.lines[at].name != made.root {
            result(made, &uses, at);
        }
    }
    let mut lines = Vec::with_capacity(made.lines.len());
    for (at, line) in std::mem::take(&mut made.lines).into_iter().enumerate() {
        lines.extend(before.shift_remove(&at).unwrap_or_default());
        lines.push(line);
    }
    made.lines = lines;
    drop_unread(made);
}

fn operands(line: &Line) -> &[String] {
    match &line.inside {
        Inside::Operands(names)
        | Inside::Verbatim {
            operands: names, ..
        } => names,
        Inside::Payload(_) | Inside::Elements(_) => &[],
    }
}

/// The permutation and the operand of a transpose.
fn transpose(line: &Line) -> Option<(Vec<usize>, String)> {
    if line.opcode != "transpose" {
        return None;
    }
    let perm = ints(attr(&line.attrs, "dimensions"));
    let perm = perm
        .into_iter()
        .map(|p| usize::try_from(p).ok())
        .collect::<Option<Vec<_>>>()?;
    Some((perm, operands(line).first()?.clone()))
}

/// Replaces a transposed operand by the operand of the transpose. A reshape between them that only adds or drops
/// dimensions of extent 1 is looked through.
fn operand(
    made: &mut Written,
    places: &IndexMap<String, usize>,
    (at, side): (usize, usize),
    before: &mut IndexMap<usize, Vec<Line>>,
) {
    let Some(name) = operands(&made.lines[at]).get(side) else {
        return;
    };
    let Some(&place) = places.get(name) else {
        return;
    };
    let (found, added) = match transpose(&made.lines[place]) {
        Some(found) => (Some(found), None),
        None => match seen_through(made, places, place) {
            Some((perm, line)) => (Some((perm, line.name.clone())), Some(line)),
            None => (None, None),
        },
    };
    let Some((perm, source)) = found else { return };
    let line = &made.lines[at];
    let attrs = match &*line.opcode {
        "dot" => dot(line, &perm, side),
        _ => labels(line, side, &perm, false),
    };
    let Some(attrs) = attrs else { return };
    before.entry(at).or_default().extend(added);
    let line = &mut made.lines[at];
    line.attrs = attrs;
    if let Inside::Operands(names) = &mut line.inside {
        names[side] = source;
    }
}

/// For a reshape of a transpose that only drops and adds dimensions of extent 1: the same reshape of the transpose's
/// operand, and the permutation from it to the original value.
fn seen_through(
    made: &Written,
    places: &IndexMap<String, usize>,
    place: usize,
) -> Option<(Vec<usize>, Line)> {
    let line = &made.lines[place];
    if line.opcode != "reshape" {
        return None;
    }
    let inner = &made.lines[*places.get(operands(line).first()?)?];
    let (perm, source) = transpose(inner)?;
    let sizes = |line: &Line| {
        parsed(&line.shape)
            .as_array()
            .and_then(|array| array.sizes())
    };
    let (from, to) = (sizes(inner)?, sizes(line)?);
    let long =
        |sizes: &[u64]| -> Vec<usize> { (0..sizes.len()).filter(|&d| sizes[d] != 1).collect() };
    let (before, after) = (long(&from), long(&to));
    let same = before
        .iter()
        .map(|&d| from[d])
        .eq(after.iter().map(|&d| to[d]));
    if !same {
        return None;
    }
    let mut order: Vec<(usize, usize)> = after
        .iter()
        .zip(&before)
        .map(|(&a, &b)| (perm[b], a))
        .collect();
    order.sort_unstable();
    let units = (0..to.len()).filter(|&d| to[d] == 1);
    let order: Vec<usize> = units.chain(order.into_iter().map(|(_, d)| d)).collect();
    let mut back = vec![0; order.len()];
    for (new, &old) in order.iter().enumerate() {
        back[old] = new;
    }
    let mut array = parsed(&line.shape).as_array()?.clone();
    array.dims = order.iter().map(|&d| array.dims[d].clone()).collect();
    array.notation = None;
    let line = Line {
        name: format!("{}.seen.{}", line.name, place),
        shape: XlaShape::Array(array).to_string(),
        opcode: "reshape".to_owned(),
        inside: Inside::Operands(vec![source]),
        attrs: String::new(),
    };
    Some((back, line))
}

/// The attributes of a product that reads the operand of a transpose. `None` if the order of its free dimensions would
/// change.
fn dot(line: &Line, perm: &[usize], side: usize) -> Option<String> {
    let prefix = ["lhs", "rhs"][side];
    let mut attrs = line.attrs.clone();
    let mut bound = Vec::new();
    for key in ["batch_dims", "contracting_dims"] {
        let key = format!("{prefix}_{key}");
        let Some(text) = attr(&line.attrs, &key) else {
            continue;
        };
        let dims = ints(Some(text));
        let dims: Vec<usize> = dims
            .into_iter()
            .map(|d| usize::try_from(d).unwrap_or(usize::MAX))
            .collect();
        let moved: Vec<usize> = dims
            .iter()
            .map(|&d| perm.get(d).copied())
            .collect::<Option<_>>()?;
        bound.extend(&dims);
        let texts: Vec<String> = moved.iter().map(usize::to_string).collect();
        attrs = attrs.replace(
            &format!(" {key}={text}"),
            &format!(" {key}={{{}}}", texts.join(",")),
        );
    }
    let free: Vec<usize> = (0..perm.len())
        .filter(|d| !bound.contains(d))
        .map(|d| perm[d])
        .collect();
    free.is_sorted().then_some(attrs)
}

/// The attributes of a convolution with the labels of one side permuted. `inverse` is set if that side is the operand
/// of the transpose.
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
        // Dimension `to` of a transpose's result is dimension `from` of its operand.
        let (to, from) = if inverse { (from, to) } else { (to, from) };
        *sides[side].get_mut(from)? = *old.get(to)?;
    }
    let [left, right, out] = sides.map(|side| String::from_utf8_lossy(&side).into_owned());
    let new = format!(" dim_labels={left}_{right}->{out}");
    Some(line.attrs.replace(&format!(" dim_labels={text}"), &new))
}

/// If the only user of a convolution's result is a transpose, the convolution writes the transposed result itself.
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
    let (name, instead) = (made.lines[reader].name.clone(), made.lines[at].name.clone());
    for &user in uses.get(&name).map_or(&[][..], Vec::as_slice) {
        if let Inside::Operands(names)
        | Inside::Verbatim {
            operands: names, ..
        } = &mut made.lines[user].inside
        {
            names
                .iter_mut()
                .filter(|n| **n == name)
                .for_each(|n| n.clone_from(&instead));
        }
    }
    if made.root == name {
        made.root = instead;
    }
}

/// Removes dead transposes and reshapes.
fn drop_unread(made: &mut Written) {
    let mut read: IndexMap<String, ()> = IndexMap::new();
    read.insert(made.root.clone(), ());
    let mut kept = Vec::with_capacity(made.lines.len());
    for line in std::mem::take(&mut made.lines).into_iter().rev() {
        if matches!(&*line.opcode, "transpose" | "reshape") && !read.contains_key(&line.name) {
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
