//! Shape arithmetic over sizes that are not all known.

use optc_ir::{Dim, Tensor};
use std::sync::Arc;

/// One element of an integer tensor that describes a shape.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) enum Entry {
    /// A known number.
    Int(i64),
    /// The size of a symbol.
    Symbol(Arc<str>),
    /// Not known.
    Unknown,
}

impl Entry {
    /// The number, if it is known.
    pub(crate) fn int(&self) -> Option<i64> {
        match self {
            Entry::Int(n) => Some(*n),
            Entry::Symbol(_) | Entry::Unknown => None,
        }
    }

    /// The extent of this size; negative numbers are no extents.
    pub(crate) fn dim(&self) -> Dim {
        match self {
            Entry::Int(n) => u64::try_from(*n).map_or(Dim::Unknown, Dim::Fixed),
            Entry::Symbol(name) => Dim::Symbol(name.clone()),
            Entry::Unknown => Dim::Unknown,
        }
    }
}

impl From<&Dim> for Entry {
    fn from(dim: &Dim) -> Entry {
        match dim {
            Dim::Fixed(n) => i64::try_from(*n).map_or(Entry::Unknown, Entry::Int),
            Dim::Symbol(name) => Entry::Symbol(name.clone()),
            Dim::Unknown => Entry::Unknown,
        }
    }
}

/// All numbers, if all are known.
pub(crate) fn ints(entries: &[Entry]) -> Option<Vec<i64>> {
    entries.iter().map(Entry::int).collect()
}

/// The entries of an integer tensor.
pub(crate) fn of_tensor(tensor: &Tensor) -> Vec<Entry> {
    (0..tensor.len())
        .map(|i| Entry::Int(tensor.i64_at(i)))
        .collect()
}

/// What a shape computation of an ONNX operator gives; `None` when the operator is none.
///
/// `inputs` holds the entries of each input, where they are known.
pub(crate) fn apply(
    op_type: &str,
    inputs: &[Option<Vec<Entry>>],
    args: &Args,
) -> Option<Vec<Entry>> {
    let first = inputs.first()?.clone()?;
    let second = inputs.get(1).cloned().flatten();
    match op_type {
        "Identity" | "Cast" | "Squeeze" | "Unsqueeze" | "Reshape" | "Flatten" => Some(first),
        "Concat" => {
            let parts: Option<Vec<Vec<Entry>>> = inputs.iter().cloned().collect();
            Some(parts?.concat())
        }
        "Gather" => gather(&first, &second?),
        "Slice" => {
            let (start, end, step) = args.slice?;
            Some(slice(&first, start, end, step))
        }
        "Add" | "Sub" | "Mul" | "Div" => broadcast(op_type, &first, &second?),
        _ => None,
    }
}

/// What [`apply`] needs beside the inputs.
#[derive(Default)]
pub(crate) struct Args {
    /// Start, end and step of a one-dimensional slice.
    pub(crate) slice: Option<(i64, i64, i64)>,
}

fn gather(entries: &[Entry], indices: &[Entry]) -> Option<Vec<Entry>> {
    let n = i64::try_from(entries.len()).ok()?;
    let at = |index: &Entry| {
        let i = index.int()?;
        let i = if i < 0 { i.checked_add(n)? } else { i };
        entries.get(usize::try_from(i).ok()?).cloned()
    };
    indices.iter().map(at).collect()
}

fn slice(entries: &[Entry], start: i64, end: i64, step: i64) -> Vec<Entry> {
    let n = i64::try_from(entries.len()).unwrap_or(i64::MAX);
    let (start, limit) = clamp_slice(n, start, end, step);
    let mut out = Vec::new();
    let mut i = start;
    while (0 < step && i < limit) || (step < 0 && limit < i) {
        let at = usize::try_from(i).ok().and_then(|i| entries.get(i));
        out.push(at.cloned().unwrap_or(Entry::Unknown));
        match i.checked_add(step) {
            Some(next) => i = next,
            None => break,
        }
    }
    out
}

/// Start and exclusive limit of an ONNX slice along an extent of `n`; the limit is -1 when a
/// negative step runs past the first element.
pub(crate) fn clamp_slice(n: i64, start: i64, end: i64, step: i64) -> (i64, i64) {
    let from_end = |x: i64| if x < 0 { x.saturating_add(n) } else { x };
    let (low, high) = if step < 0 { (-1, n - 1) } else { (0, n) };
    let start = from_end(start).clamp(0.min(high), high);
    (start, from_end(end).clamp(low, high))
}

fn broadcast(op_type: &str, a: &[Entry], b: &[Entry]) -> Option<Vec<Entry>> {
    let n = a.len().max(b.len());
    let fits = |x: &[Entry]| x.len() == n || x.len() == 1;
    if !fits(a) || !fits(b) {
        return None;
    }
    let at = |x: &[Entry], i: usize| x[if x.len() == 1 { 0 } else { i }].clone();
    Some(
        (0..n)
            .map(|i| arithmetic(op_type, &at(a, i), &at(b, i)))
            .collect(),
    )
}

fn arithmetic(op_type: &str, a: &Entry, b: &Entry) -> Entry {
    let result = match (op_type, a, b) {
        ("Add", Entry::Int(x), Entry::Int(y)) => x.checked_add(*y),
        ("Sub", Entry::Int(x), Entry::Int(y)) => x.checked_sub(*y),
        ("Mul", Entry::Int(x), Entry::Int(y)) => x.checked_mul(*y),
        ("Div", Entry::Int(x), Entry::Int(y)) => x.checked_div(*y),
        ("Add" | "Sub", _, Entry::Int(0)) | ("Mul" | "Div", _, Entry::Int(1)) => return a.clone(),
        ("Add", Entry::Int(0), _) | ("Mul", Entry::Int(1), _) => return b.clone(),
        _ => None,
    };
    result.map_or(Entry::Unknown, Entry::Int)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn slices_clamp_as_onnx_says() {
        assert_eq!(clamp_slice(5, 1, i64::MAX, 1), (1, 5));
        assert_eq!(clamp_slice(5, -2, 5, 1), (3, 5));
        assert_eq!(clamp_slice(5, -1, i64::MIN, -1), (4, -1));
        assert_eq!(clamp_slice(5, 9, -9, -2), (4, -1));
        assert_eq!(clamp_slice(0, 0, 5, 1), (0, 0));
        assert_eq!(clamp_slice(0, 0, i64::MIN, -1), (-1, -1));
        assert_eq!(clamp_slice(5, -9, i64::MIN, -1), (0, -1));
    }

    #[test]
    fn symbols_pass_through_neutral_arithmetic() {
        let b = Entry::Symbol("B".into());
        assert_eq!(arithmetic("Mul", &b, &Entry::Int(1)), b);
        assert_eq!(arithmetic("Add", &Entry::Int(0), &b), b);
        assert_eq!(arithmetic("Mul", &b, &Entry::Int(2)), Entry::Unknown);
        assert_eq!(
            arithmetic("Div", &Entry::Int(7), &Entry::Int(0)),
            Entry::Unknown
        );
    }
}
