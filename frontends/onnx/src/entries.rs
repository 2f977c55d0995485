//! Shape arithmetic over sizes, some of which are unknown.
//!
//! For example, `Shape` of a tensor `[B, 12, 64]` has the entries `B`, 12 and 64; `Mul` of the first two is the size
//! `12*B`.

use optc_ir::{Attr, Dim, Size, Tensor};

/// One element of a tensor that describes a shape.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) enum Entry {
    /// A known number.
    Int(i64),
    /// A size that depends on named sizes and is not a number.
    Size(Size),
    /// The first divided by the second, not rounded.
    Ratio(Size, Size),
    /// The truth value of first < second, which depends on the sizes.
    Below(Size, Size),
    /// Not known.
    Unknown,
}

impl Entry {
    /// The number, if it is known.
    pub(crate) fn int(&self) -> Option<i64> {
        match self {
            Entry::Int(n) => Some(*n),
            Entry::Size(_) | Entry::Ratio(..) | Entry::Below(..) | Entry::Unknown => None,
        }
    }

    /// The number as a polynomial, if it is known.
    pub(crate) fn size(&self) -> Option<Size> {
        match self {
            Entry::Int(n) => Some(Size::constant(i128::from(*n))),
            Entry::Size(size) => Some(size.clone()),
            Entry::Ratio(..) | Entry::Below(..) | Entry::Unknown => None,
        }
    }

    /// Returns whether the entry has no known value that could be an extent.
    pub(crate) fn is_unknown(&self) -> bool {
        matches!(self, Entry::Ratio(..) | Entry::Below(..) | Entry::Unknown)
    }

    /// The extent of this size; a negative number is not an extent.
    pub(crate) fn dim(&self) -> Dim {
        self.size().map_or(Dim::Unknown, |size| Dim::of_size(&size))
    }
}

impl From<&Dim> for Entry {
    fn from(dim: &Dim) -> Entry {
        Entry::from(dim.size())
    }
}

impl From<Option<Size>> for Entry {
    fn from(size: Option<Size>) -> Entry {
        let Some(size) = size else {
            return Entry::Unknown;
        };
        match size.as_constant() {
            Some(n) => i64::try_from(n).map_or(Entry::Unknown, Entry::Int),
            None => Entry::Size(size),
        }
    }
}

impl From<bool> for Entry {
    fn from(truth: bool) -> Entry {
        Entry::Int(i64::from(truth))
    }
}

/// An extent, or the file's declaration if the extent is unknown.
pub(crate) fn known_or(own: Dim, said: &Dim) -> Dim {
    if own == Dim::Unknown {
        said.clone()
    } else {
        own
    }
}

/// All numbers, if all are known.
pub(crate) fn ints(entries: &[Entry]) -> Option<Vec<i64>> {
    entries.iter().map(Entry::int).collect()
}

/// The entries of a tensor: integers, and floats with whole values.
pub(crate) fn of_tensor(tensor: &Tensor) -> Vec<Entry> {
    let whole = |x: f64| {
        let small = x.fract() == 0.0 && x.abs() < 9e15;
        if small {
            Entry::Int(x as i64)
        } else {
            Entry::Unknown
        }
    };
    let entry = |i: usize| {
        if tensor.dtype.is_float() {
            whole(tensor.f64_at(i))
        } else if tensor.dtype.is_int() {
            Entry::Int(tensor.i64_at(i))
        } else {
            Entry::Unknown
        }
    };
    (0..tensor.len()).map(entry).collect()
}

/// The result of an ONNX operator that does arithmetic on sizes; `None` for other operators. Operators that only move
/// sizes are tracked by the operations that they become.
///
/// `inputs` has the entries of each input, if they are known.
pub(crate) fn apply(
    op_type: &str,
    inputs: &[Option<Vec<Entry>>],
    args: &Args,
) -> Option<Vec<Entry>> {
    let first = inputs.first()?.clone()?;
    let second = || inputs.get(1).cloned().flatten();
    match op_type {
        "Cast" if args.rounds => Some(first.iter().map(toward_zero).collect()),
        "Cast" => Some(first),
        "Floor" => Some(first.iter().map(floor).collect()),
        "Ceil" => Some(first.iter().map(ceil).collect()),
        "Neg" => Some(
            first
                .iter()
                .map(|x| arithmetic("Sub", &Entry::Int(0), x))
                .collect(),
        ),
        "Abs" => {
            let negative = |x: &Entry| arithmetic("Sub", &Entry::Int(0), x);
            let largest = |x: &Entry| arithmetic("Max", x, &negative(x));
            Some(first.iter().map(largest).collect())
        }
        "Not" => Some(first.iter().map(negation).collect()),
        "ReduceProd" => fold(&first, "Mul", args),
        "ReduceSum" => fold(&first, "Add", args),
        "ReduceMax" => fold(&first, "Max", args),
        "ReduceMin" => fold(&first, "Min", args),
        "Where" => {
            let third = inputs.get(2).cloned().flatten()?;
            chosen(&first, &second()?, &third)
        }
        "Div" if args.float => zip(&first, &second()?, ratio),
        "Mod" if args.float => None,
        "Mod" if args.fmod => zip(&first, &second()?, |a, b| match a.size() {
            Some(size) if size.is_at_least(0) => arithmetic("Mod", a, b),
            _ => Entry::Unknown,
        }),
        "Add" | "Sub" | "Mul" | "Div" | "Mod" | "And" | "Or" | "Equal" | "Less" | "LessOrEqual"
        | "Greater" | "GreaterOrEqual" => zip(&first, &second()?, |a, b| arithmetic(op_type, a, b)),
        "Max" | "Min" => {
            let mut all = first;
            for other in &inputs[1..] {
                all = zip(&all, other.as_ref()?, |a, b| arithmetic(op_type, a, b))?;
            }
            Some(all)
        }
        _ => None,
    }
}

/// Further arguments of [`apply`].
#[derive(Default)]
pub(crate) struct Args {
    /// True if the inputs are floats; a division then does not round.
    pub(crate) float: bool,
    /// True if a remainder has the sign of its dividend.
    pub(crate) fmod: bool,
    /// True if the result has integers for the input's floats.
    pub(crate) rounds: bool,
    /// The number of elements of the result, if it is known.
    pub(crate) elements: Option<usize>,
}

/// Start and exclusive limit of an ONNX slice along an extent of `n`; the limit is -1 when a
/// negative step runs past the first element.
pub(crate) fn clamp_slice(n: i64, start: i64, end: i64, step: i64) -> (i64, i64) {
    let from_end = |x: i64| if x < 0 { x.saturating_add(n) } else { x };
    let (low, high) = if step < 0 { (-1, n - 1) } else { (0, n) };
    let start = from_end(start).clamp(0.min(high), high);
    (start, from_end(end).clamp(low, high))
}

/// Elementwise with numpy's broadcasting of one element.
fn zip(a: &[Entry], b: &[Entry], f: impl Fn(&Entry, &Entry) -> Entry) -> Option<Vec<Entry>> {
    let n = a.len().max(b.len());
    let fits = |x: &[Entry]| x.len() == n || x.len() == 1;
    if !fits(a) || !fits(b) {
        return None;
    }
    Some((0..n).map(|i| f(repeated(a, i), repeated(b, i))).collect())
}

fn repeated(x: &[Entry], i: usize) -> &Entry {
    &x[if x.len() == 1 { 0 } else { i }]
}

/// All elements combined to one.
fn fold(entries: &[Entry], op_type: &str, args: &Args) -> Option<Vec<Entry>> {
    let (first, rest) = entries.split_first()?;
    let joined = |all: Entry, next: &Entry| arithmetic(op_type, &all, next);
    (args.elements == Some(1)).then(|| vec![rest.iter().fold(first.clone(), joined)])
}

fn chosen(condition: &[Entry], a: &[Entry], b: &[Entry]) -> Option<Vec<Entry>> {
    let n = condition.len().max(a.len()).max(b.len());
    if [condition, a, b]
        .iter()
        .any(|x| x.len() != n && x.len() != 1)
    {
        return None;
    }
    let pick = |i: usize| {
        let (a, b) = (repeated(a, i), repeated(b, i));
        match repeated(condition, i).int() {
            Some(0) => b.clone(),
            Some(_) => a.clone(),
            None if a == b => a.clone(),
            None => Entry::Unknown,
        }
    };
    Some((0..n).map(pick).collect())
}

fn arithmetic(op_type: &str, a: &Entry, b: &Entry) -> Entry {
    let result = || {
        let (x, y) = (a.size()?, b.size()?);
        let zero = Size::default();
        match op_type {
            "Add" => x.plus(&y),
            "Sub" => x.minus(&y),
            "Mul" => x.times(&y),
            // Integer division rounds toward zero.
            "Div" if x.is_at_least(0) => x.quotient(&y),
            "Div" => zero.minus(&zero.minus(&x).filter(|x| x.is_at_least(0))?.quotient(&y)?),
            "Mod" => x.remainder(&y),
            "Max" => x.maximum(&y),
            "Min" => x.minimum(&y),
            _ => None,
        }
    };
    match (op_type, a, b) {
        ("Mul", Entry::Int(0), _) | ("Mul", _, Entry::Int(0)) => Entry::Int(0),
        ("And", Entry::Int(0), _) | ("And", _, Entry::Int(0)) => Entry::from(false),
        ("Or", Entry::Int(n), other) | ("Or", other, Entry::Int(n)) => {
            if *n == 0 {
                other.clone()
            } else {
                Entry::from(true)
            }
        }
        ("And", Entry::Int(_), other) | ("And", other, Entry::Int(_)) => other.clone(),
        ("Equal" | "Less" | "LessOrEqual" | "Greater" | "GreaterOrEqual", ..) => {
            let known = comparison(op_type, a, b).map(Entry::from);
            known
                .or_else(|| below(op_type, a, b))
                .unwrap_or(Entry::Unknown)
        }
        _ => Entry::from(result()),
    }
}

/// The truth value of a comparison, if it does not depend on the sizes.
fn comparison(op_type: &str, a: &Entry, b: &Entry) -> Option<bool> {
    let (x, y) = (a.size()?, b.size()?);
    let above = |x: &Size, y: &Size, by: i128| x.minus(y).is_some_and(|d| d.is_at_least(by));
    let less = |x: &Size, y: &Size| match (above(y, x, 1), above(x, y, 0)) {
        (true, _) => Some(true),
        (_, true) => Some(false),
        (false, false) => None,
    };
    match op_type {
        "Equal" if x == y => Some(true),
        "Equal" => x.minus(&y).filter(Size::is_nonzero).map(|_| false),
        "Less" => less(&x, &y),
        "Greater" => less(&y, &x),
        "LessOrEqual" => less(&y, &x).map(|is| !is),
        _ => less(&x, &y).map(|is| !is),
    }
}

/// A comparison whose truth value depends on the sizes.
fn below(op_type: &str, a: &Entry, b: &Entry) -> Option<Entry> {
    let (x, y) = (a.size()?, b.size()?);
    let next = |size: Size| size.plus(&Size::constant(1));
    match op_type {
        "Less" => Some(Entry::Below(x, y)),
        "Greater" => Some(Entry::Below(y, x)),
        "LessOrEqual" => Some(Entry::Below(x, next(y)?)),
        "GreaterOrEqual" => Some(Entry::Below(y, next(x)?)),
        _ => None,
    }
}

fn negation(x: &Entry) -> Entry {
    match x {
        Entry::Below(a, b) => {
            let above = a.plus(&Size::constant(1));
            above.map_or(Entry::Unknown, |above| Entry::Below(b.clone(), above))
        }
        _ => x.int().map_or(Entry::Unknown, |n| Entry::from(n == 0)),
    }
}

/// A division of floats.
fn ratio(a: &Entry, b: &Entry) -> Entry {
    let (Some(x), Some(y)) = (a.size(), b.size()) else {
        return Entry::Unknown;
    };
    match x.exact_quotient(&y) {
        Some(exact) => Entry::from(Some(exact)),
        None if y.is_at_least(1) => Entry::Ratio(x, y),
        None => Entry::Unknown,
    }
}

fn floor(x: &Entry) -> Entry {
    match x {
        Entry::Ratio(a, b) => Entry::from(a.quotient(b)),
        Entry::Int(_) | Entry::Size(_) | Entry::Below(..) | Entry::Unknown => x.clone(),
    }
}

fn ceil(x: &Entry) -> Entry {
    match x {
        Entry::Ratio(a, b) => Entry::from(a.quotient_up(b)),
        Entry::Int(_) | Entry::Size(_) | Entry::Below(..) | Entry::Unknown => x.clone(),
    }
}

fn toward_zero(x: &Entry) -> Entry {
    match x {
        Entry::Ratio(a, _) if !a.is_at_least(0) => Entry::Unknown,
        Entry::Ratio(..) | Entry::Int(_) | Entry::Size(_) | Entry::Below(..) | Entry::Unknown => {
            floor(x)
        }
    }
}

/// A size as an attribute: a number, or a named size as text; -1 if it is unknown.
pub(crate) fn size_attr(entry: &Entry) -> Attr {
    match entry {
        Entry::Int(n) => Attr::int(*n),
        Entry::Size(size) => Attr::str(&size.to_text()),
        Entry::Ratio(..) | Entry::Below(..) | Entry::Unknown => Attr::int(-1),
    }
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

    fn entry(text: &str) -> Entry {
        Entry::from(Some(Size::parse(text).unwrap()))
    }

    #[track_caller]
    fn check(op_type: &str, a: &str, b: &str, wanted: &str) {
        let found = apply(
            op_type,
            &[Some(vec![entry(a)]), Some(vec![entry(b)])],
            &Args::default(),
        );
        let text = match &found.unwrap()[0] {
            Entry::Int(n) => n.to_string(),
            Entry::Size(size) => size.to_string(),
            Entry::Below(a, b) => format!("{a}<{b}"),
            Entry::Ratio(..) | Entry::Unknown => "?".to_owned(),
        };
        assert_eq!(text, wanted, "{op_type} of {a} and {b}");
    }

    #[test]
    fn sizes_are_computed_with() {
        check("Mul", "B", "S", "B*S");
        check("Add", "S", "1", "S+1");
        check("Sub", "S+1", "S", "1");
        check("Div", "6*B", "4", "B+(B//2)");
        check("Div", "7", "0", "?");
        check("Div", "-3*S", "2", "-S-(S//2)");
        check("Div", "S-5", "2", "?");
        check("Mod", "S", "7", "S-7*(S//7)");
        check("Mod", "S-5", "7", "S-7*((S+2)//7)+2");
        check("Min", "S", "S+1", "S");
        check("Equal", "S", "-1", "0");
        check("Equal", "S", "S", "1");
        check("Equal", "S", "1", "?");
        check("Less", "S", "S+1", "1");
        check("LessOrEqual", "S", "7", "S<8");
        check("GreaterOrEqual", "S", "1", "1");
        check("Greater", "S", "1", "1<S");
    }

    #[test]
    fn a_size_that_is_kept_beside_a_marker_stays() {
        let list = |texts: &[&str]| Some(texts.iter().map(|t| entry(t)).collect::<Vec<_>>());
        let shape = list(&["B", "-1", "S"]);
        let marks = apply("Equal", &[shape.clone(), list(&["-1"])], &Args::default());
        assert_eq!(marks, list(&["0", "1", "0"]));
        let kept = apply("Where", &[marks, list(&["1"]), shape], &Args::default());
        assert_eq!(kept, list(&["B", "1", "S"]));
    }

    #[test]
    fn floats_round_where_the_model_says() {
        let float = Args {
            float: true,
            ..Args::default()
        };
        let inputs = [Some(vec![entry("S+1")]), Some(vec![entry("2")])];
        let half = apply("Div", &inputs, &float).unwrap();
        assert!(half[0].is_unknown());
        let down = apply("Floor", &[Some(half.clone())], &float).unwrap();
        assert_eq!(down, [entry("(S+1)//2")]);
        let up = apply("Ceil", &[Some(half)], &float).unwrap();
        assert_eq!(up, [entry("(S+2)//2")]);
    }
}
