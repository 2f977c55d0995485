//! Opaque operations as uninterpreted functions, by which two programs with the same opaque operations can be compared.
//!
//! The results are derived from the operation (its name, its attributes, the types of its results) and from its
//! operands. One operation gives equal results for equal operands; another operation, other attributes or other
//! operands give other results. Float results depend continuously on float operands: operands that agree within
//! rounding give results that agree within rounding.
//!
//! An operation that is kept as text names its operands by number. An operand that it uses twice may be listed once or
//! twice. Here every use in its text counts as an operand.

use crate::dimension_numbers::Canonical;
use indexmap::IndexMap;
use optc_ir::text::print_attr;
use optc_ir::{Attr, AttrDict, Bindings, DType, Data, Effect, OpRef, Tensor, TensorType, Type};
use std::borrow::Cow;
use std::sync::Arc;

/// The treatment of opaque operations in a run.
#[derive(Clone, Copy, Debug)]
pub enum Opaque<'a> {
    /// Opaque operations cannot be run.
    Refused,
    /// Opaque operations without effects are functions of their operands.
    Functions {
        /// The functions of the program that they may name, each with the number of its computation.
        same: &'a IndexMap<Arc<str>, usize>,
        /// True if loops and branches run the functions that they name.
        loops: bool,
        /// True if state outside the program that they read stays unchanged.
        reads: bool,
    },
}

/// The type that stands for a value that is not a tensor, such as a sequence: enough numbers to tell such values apart.
pub(crate) fn stand_in() -> TensorType {
    TensorType::fixed(&[8], DType::F32)
}

/// The size of a dimension that only running an operation would tell: an unusual number.
pub(crate) const OPEN_SIZE: usize = 5;

/// The number of sums over the operands from which the results are made.
const SUMS: usize = 4;

/// The results of an opaque operation whose results have these shapes.
///
/// # Errors
/// The reason why there are no results, in words.
pub(crate) fn apply(
    opaque: Opaque<'_>,
    op: &OpRef<'_>,
    effect: Effect,
    inputs: &[&Tensor],
    shapes: &[Vec<usize>],
    sizes: &Bindings,
) -> Result<Vec<Tensor>, String> {
    let none = IndexMap::new();
    let (same, reads) = match opaque {
        Opaque::Functions { same, reads, .. } => (same, reads),
        // A constant whose elements were left out of the program's text gets made-up ones.
        Opaque::Refused if inputs.is_empty() && op.props.str("elided").is_some() => (&none, false),
        Opaque::Refused => return Err("it has no semantics to run".to_owned()),
    };
    if effect != Effect::Pure && !(effect == Effect::Read && reads) {
        let effect = effect.name();
        return Err(format!(
            "its effect is `{effect}`, so that it is no function of its operands"
        ));
    }
    let named = named_functions(op.props);
    if let Some(name) = named.into_iter().find(|name| !same.contains_key(*name)) {
        return Err(format!(
            "it uses @{name}, which is not the same in both programs"
        ));
    }
    let used = op.props.str(TEXT).map(uses);
    let canonical = Canonical::of(op, inputs, shapes);
    let (props, inputs, shapes) = match &canonical {
        Some(c) => (
            &c.props,
            &c.inputs.iter().collect::<Vec<_>>()[..],
            &c.shapes[..],
        ),
        None => (op.props, inputs, shapes),
    };
    let text = used.as_ref().map(|u| &*u.0);
    let seed = seed_of((op, props), text, shapes, (sizes, same));
    let sums = match &used {
        Some((_, order)) => sums(seed, &by_use(inputs, order)),
        None => sums(seed, inputs),
    };
    let mut outputs = Vec::with_capacity(shapes.len());
    for ((number, ty), shape) in (1..).zip(&op.results).zip(shapes) {
        let ty = held_type(ty);
        let count: u64 = shape.iter().map(|&n| n as u64).product();
        let values = (0..count).map(|j| {
            let value = element(mixed(seed.wrapping_add(number)), j, &sums);
            // A truth value, or an index in the range of most axes.
            match ty.dtype.is_int() {
                true => f64::from(0.0 < value),
                false => value,
            }
        });
        outputs.push(Tensor::from_f64(ty.dtype, shape.clone(), values));
    }
    Ok(match canonical {
        Some(c) => c.back(outputs),
        None => outputs,
    })
}

/// The type as which a value is held.
#[must_use]
pub fn held_type(ty: &Type) -> Cow<'_, TensorType> {
    match ty.as_tensor() {
        Some(tensor) => Cow::Borrowed(tensor),
        None => Cow::Owned(stand_in()),
    }
}

/// The attributes of an operation with the names of functions replaced by the numbers of their computations.
fn numbered_functions(attr: &Attr, same: &IndexMap<Arc<str>, usize>) -> Attr {
    match attr {
        Attr::Symbol(name) => match same.get(name) {
            Some(number) => Attr::Symbol(Arc::from(number.to_string())),
            None => attr.clone(),
        },
        Attr::Array(items) => {
            let items = items.iter().map(|item| numbered_functions(item, same));
            Attr::Array(items.collect())
        }
        other => other.clone(),
    }
}

/// The symbols in an attribute.
fn symbols<'a>(attr: &'a Attr, found: &mut Vec<&'a str>) {
    match attr {
        Attr::Symbol(name) => found.push(name),
        Attr::Array(items) => items.iter().for_each(|item| symbols(item, found)),
        Attr::Dict(items) => items.iter().for_each(|(_, item)| symbols(item, found)),
        Attr::Unit
        | Attr::Bool(_)
        | Attr::Int(..)
        | Attr::Float(..)
        | Attr::Str(_)
        | Attr::Type(_)
        | Attr::Dense(_)
        | Attr::External { .. }
        | Attr::Raw(_) => {}
    }
}

/// The names of functions that the attributes hold.
#[must_use]
pub fn named_functions(props: &AttrDict) -> Vec<&str> {
    let mut found = Vec::new();
    props.iter().for_each(|(_, attr)| symbols(attr, &mut found));
    found
}

/// Two special attributes: a place, which does not affect the computation, and a text, in which names of sizes are not
/// replaced.
const PLACE: &str = "hlo.metadata";
const TEXT: &str = "hlo.text";

/// The text with `%{n}`, the operand of number n, replaced by `%{i}` at its use `i`, and the operands in the order of
/// their uses.
fn uses(text: &str) -> (String, Vec<usize>) {
    let (mut out, mut order) = (String::with_capacity(text.len()), Vec::new());
    let mut rest = text;
    while let Some(at) = rest.find("%{") {
        let (before, found) = rest.split_at(at + 2);
        let number = found.split_once('}').map(|(n, _)| n);
        out.push_str(before);
        rest = found;
        if let Some((digits, number)) = number.and_then(|n| Some((n, n.parse().ok()?))) {
            out.push_str(&order.len().to_string());
            order.push(number);
            rest = &found[digits.len()..];
        }
    }
    out.push_str(rest);
    (out, order)
}

/// The operands in the order of their uses, then those without a use in the text.
fn by_use<'t>(inputs: &[&'t Tensor], order: &[usize]) -> Vec<&'t Tensor> {
    let used = order.iter().filter_map(|&i| inputs.get(i));
    let rest = inputs
        .iter()
        .enumerate()
        .filter(|(i, _)| !order.contains(i));
    used.chain(rest.map(|(_, x)| x)).copied().collect()
}

/// A hash of an operation: FNV-1a over its text, with `text` for an operation that is kept as text. It does not depend
/// on the order of attributes or the names of sizes.
fn seed_of(
    (op, props): (&OpRef<'_>, &AttrDict),
    text: Option<&str>,
    shapes: &[Vec<usize>],
    (sizes, same): (&Bindings, &IndexMap<Arc<str>, usize>),
) -> u64 {
    let kept = props.iter().filter(|(name, _)| *name != PLACE);
    let one = |(name, attr): (&str, &Attr)| match text.filter(|_| name == TEXT) {
        Some(text) => format!("{name}={text}"),
        None => {
            let text = print_attr(&numbered_functions(attr, same));
            format!("{name}={}", numbered(&text, sizes))
        }
    };
    let mut texts: Vec<String> = kept.map(one).collect();
    texts.sort();
    let results = op.results.iter().zip(shapes);
    texts.extend(results.map(|(ty, shape)| type_text(ty, shape)));
    texts.push(op.name.to_owned());
    let bytes = texts.iter().flat_map(|text| text.bytes().chain([0]));
    bytes.fold(0xcbf2_9ce4_8422_2325, |hash, byte| {
        (hash ^ u64::from(byte)).wrapping_mul(0x0000_0100_0000_01b3)
    })
}

/// The text with each name of a size replaced by that size.
fn numbered(text: &str, sizes: &Bindings) -> String {
    let mut out = String::with_capacity(text.len());
    let mut rest = text;
    while !rest.is_empty() {
        let word = |c: char| c.is_alphanumeric() || c == '_';
        let end = rest.find(|c| !word(c)).unwrap_or(rest.len());
        let (name, after) = rest.split_at(end);
        match sizes.0.get(name) {
            Some(size) => out.push_str(&size.to_string()),
            None => out.push_str(name),
        }
        let next = after.find(word).unwrap_or(after.len());
        out.push_str(&after[..next]);
        rest = &after[next..];
    }
    out
}

/// A type without its layout and the names of its sizes.
fn type_text(ty: &Type, shape: &[usize]) -> String {
    match ty.as_tensor() {
        None => String::new(),
        Some(tensor) => {
            let dims = shape.iter().map(|n| format!("{n}x"));
            dims.chain([tensor.dtype.to_string()]).collect()
        }
    }
}

/// Bits that depend on all bits of a number: the step of SplitMix64.
fn mixed(x: u64) -> u64 {
    let x = x.wrapping_add(0x9E37_79B9_7F4A_7C15);
    let x = (x ^ (x >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
    let x = (x ^ (x >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
    x ^ (x >> 31)
}

/// A number between -1 and 1 for a place.
#[expect(clippy::cast_precision_loss, reason = "52 bits are kept")]
fn weight(seed: u64, place: u64) -> f64 {
    let bits = mixed(seed ^ mixed(place));
    (bits >> 12) as f64 / (1u64 << 51) as f64 - 1.0
}

/// Weighted sums over all elements of all operands, scaled so that their size does not depend on the number of
/// elements.
#[expect(clippy::cast_precision_loss, reason = "a count of elements in memory")]
fn sums(seed: u64, inputs: &[&Tensor]) -> [f64; SUMS] {
    let (mut sums, mut scales) = ([0.0; SUMS], [0.0; SUMS]);
    let mut count = 0u64;
    for tensor in inputs {
        let most = most(&tensor.data);
        for (small, large) in features(&tensor.data, most) {
            count += 1;
            for (k, sum) in (0..).zip(&mut sums) {
                let place = count * 2 * SUMS as u64 + 2 * k;
                *sum += weight(seed, place) * small + weight(seed, place + 1) * large;
            }
        }
        for (k, scale) in (0..).zip(&mut scales) {
            *scale += weight(seed ^ k, count) * logarithm(most) / 4.0;
        }
    }
    let whole = 3.0 / (count.max(1) as f64).sqrt();
    std::array::from_fn(|k| sums[k] * whole + scales[k])
}

/// The largest finite absolute value of floats; 1 if all are smaller, and for other types.
fn most(data: &Data) -> f64 {
    let largest = |most: f64, x: f64| match x.is_finite() {
        true => most.max(x.abs()),
        false => most,
    };
    match data {
        Data::F32(values) => values.iter().map(|&x| f64::from(x)).fold(1.0, largest),
        Data::F64(values) => values.iter().copied().fold(1.0, largest),
        Data::I64(_) | Data::Bits(_) => 1.0,
    }
}

/// Approximately the logarithm to base 2 of a number of at least 1: exact for powers of two, linear between them.
#[expect(
    clippy::cast_precision_loss,
    reason = "52 bits of a mantissa and 11 of an exponent"
)]
fn logarithm(x: f64) -> f64 {
    let bits = x.to_bits();
    let (exponent, mantissa) = (bits >> 52, bits & ((1 << 52) - 1));
    exponent as f64 - 1023.0 + mantissa as f64 / (1u64 << 52) as f64
}

/// Two numbers between -1 and 1 for each element: one distinguishes small numbers, the other numbers from 1 up to
/// `most`. Integers, and bits of types without arithmetic, are distinguished exactly.
fn features(data: &Data, most: f64) -> Box<dyn Iterator<Item = (f64, f64)> + '_> {
    let exact = |x: u64| (weight(x, 0), weight(x, 1));
    let float = move |x: f64| match x {
        _ if x.is_nan() => (0.37, 0.0),
        _ if x.is_infinite() => (x.signum(), 0.0),
        _ => (x / (1.0 + x.abs()), x / most),
    };
    match data {
        Data::F32(values) => Box::new(values.iter().map(move |&x| float(f64::from(x)))),
        Data::F64(values) => Box::new(values.iter().map(move |&x| float(x))),
        Data::I64(values) => Box::new(values.iter().map(move |x| exact(x.cast_unsigned()))),
        Data::Bits(values) => Box::new(values.iter().map(move |x| {
            let (low, high) = (*x & u128::from(u64::MAX), *x >> 64);
            let part = |x: u128| u64::try_from(x).unwrap_or(0);
            exact(part(low) ^ mixed(part(high)))
        })),
    }
}

/// Element `j` of a result: a non-linear function of the sums.
fn element(seed: u64, j: u64, sums: &[f64; SUMS]) -> f64 {
    let places = (j * (SUMS as u64 + 1))..;
    let terms = places.clone().skip(1).zip(sums);
    let own = weight(seed, j * (SUMS as u64 + 1));
    terms.fold(own, |sum, (place, s)| {
        sum + weight(seed, place) * s / (1.0 + s.abs())
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use optc_ir::{DType, TensorType};

    fn result(kind: &str, operand: &Tensor) -> Vec<f64> {
        let props = AttrDict::new().with("kind", Attr::str(kind));
        made(&props, &[operand])
    }

    /// The results of an operation that is kept as text, on these operands.
    fn kept(text: &str, operands: &[&Tensor]) -> Vec<f64> {
        made(&AttrDict::new().with(TEXT, Attr::str(text)), operands)
    }

    fn made(props: &AttrDict, operands: &[&Tensor]) -> Vec<f64> {
        let ty = Type::from(TensorType::fixed(&[4], DType::F32));
        let op = OpRef {
            name: "hbir.opaque",
            operands: Vec::new(),
            results: vec![&ty],
            props,
        };
        let none = IndexMap::new();
        let opaque = Opaque::Functions {
            same: &none,
            loops: false,
            reads: false,
        };
        let made = apply(
            opaque,
            &op,
            Effect::Pure,
            operands,
            &[vec![4]],
            &Bindings::default(),
        )
        .unwrap();
        (0..4).map(|i| made[0].f64_at(i)).collect()
    }

    fn floats_of(values: &[f64]) -> Tensor {
        Tensor::from_f64(DType::F64, vec![values.len()], values.iter().copied())
    }

    fn distance(a: &[f64], b: &[f64]) -> f64 {
        a.iter()
            .zip(b)
            .map(|(a, b)| (a - b).abs())
            .fold(0.0, f64::max)
    }

    #[test]
    fn equal_operations_agree_and_others_do_not() {
        let x = floats_of(&[1.0, -2.0, 3.0e6, f64::NAN]);
        let base = result("Foo", &x);
        assert_eq!(base, result("Foo", &x));
        assert!(base.iter().all(|v| v.is_finite()));
        let others = [
            floats_of(&[-2.0, 1.0, 3.0e6, f64::NAN]),
            floats_of(&[1.0, -2.0, 3.1e6, f64::NAN]),
            floats_of(&[1.0, -2.0, 3.0e6, f64::INFINITY]),
            floats_of(&[1.0, -2.0, 3.0e6]),
        ];
        for other in others {
            assert!(distance(&base, &result("Foo", &other)) > 1e-3, "{other:?}");
        }
        assert!(distance(&base, &result("Bar", &x)) > 1e-3);
        let ints = |n| Tensor::from_i64(DType::SI32, vec![2], [7, n]);
        assert!(distance(&result("Foo", &ints(8)), &result("Foo", &ints(9))) > 1e-3);
    }

    #[test]
    fn a_kept_text_counts_uses() {
        let (x, y) = (floats_of(&[1.0]), floats_of(&[2.0]));
        let base = kept("pad %{0}, %{1}, %{2} : f32", &[&x, &y, &y]);
        // One value for two equal operands, and operands in another order.
        assert_eq!(base, kept("pad %{0}, %{1}, %{1} : f32", &[&x, &y]));
        assert_eq!(base, kept("pad %{1}, %{0}, %{0} : f32", &[&y, &x]));
        let others = [
            kept("pad %{0}, %{0}, %{1} : f32", &[&x, &y]),
            kept("pad %{1}, %{0}, %{0} : f32", &[&x, &y]),
            kept("pad %{0}, %{1} : f32", &[&x, &y]),
            kept("pad %{0}, %{1}, %{1} : f16", &[&x, &y]),
        ];
        for other in others {
            assert!(distance(&base, &other) > 1e-3, "{other:?}");
        }
        // Values that are defined inside are not operands, and a name that is not a number stays.
        assert_eq!(
            uses("a %{=0} %{3} %{x} %{3} %{"),
            ("a %{=0} %{0} %{x} %{1} %{".to_owned(), vec![3, 3])
        );
    }

    #[test]
    fn rounding_of_operands_stays_rounding() {
        let values: Vec<f64> = (0..1000).map(|i| f64::from(i) - 500.0).collect();
        let near: Vec<f64> = values.iter().map(|x| x * (1.0 + 1e-7)).collect();
        let (a, b) = (
            result("Foo", &floats_of(&values)),
            result("Foo", &floats_of(&near)),
        );
        assert!(distance(&a, &b) < 1e-5);
    }

    #[test]
    fn it_is_not_linear() {
        let at = |x: f64| result("Foo", &floats_of(&[x]));
        let (zero, half, one) = (at(0.0), at(0.5), at(1.0));
        let middle: Vec<f64> = zero.iter().zip(&one).map(|(a, b)| (a + b) / 2.0).collect();
        assert!(distance(&half, &middle) > 1e-3);
    }
}
