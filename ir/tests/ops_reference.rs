//! The operations against onnxruntime: the cases that `ops_reference.py` wrote to `ops_reference.txt`.

mod ops_support;

use ops_support::{close, run, type_of};
use optc_ir::{Attr, AttrDict, Bindings, DType, Tensor, Type};

/// One case of the file.
#[derive(Default)]
struct Case {
    name: String,
    props: AttrDict,
    inputs: Vec<Tensor>,
    wanted: Vec<Tensor>,
}

fn numbers<T: std::str::FromStr>(words: &[&str]) -> Vec<T> {
    words
        .iter()
        .map(|w| w.parse().ok().expect("a number"))
        .collect()
}

fn attr(kind: &str, words: &[&str]) -> Attr {
    let first = words.first().copied().unwrap_or("");
    match kind {
        "int" => Attr::int(first.parse().unwrap()),
        "float" => Attr::float(first.parse().unwrap()),
        "bool" => Attr::Bool(first == "1"),
        "str" => Attr::str(first),
        "type" => Attr::Type(Type::Scalar(DType::parse(first).unwrap())),
        "ints" => Attr::ints(&numbers::<i64>(words)),
        "floats" => Attr::Array(numbers(words).into_iter().map(Attr::float).collect()),
        other => panic!("an attribute of kind {other}"),
    }
}

fn tensor(words: &[&str]) -> Tensor {
    let dtype = DType::parse(words[0]).unwrap();
    let sizes: Vec<&str> = words[1].split('x').filter(|w| *w != "-").collect();
    let shape = numbers(&sizes);
    if dtype.is_float() {
        Tensor::from_f64(dtype, shape, numbers(&words[3..]))
    } else {
        Tensor::from_i64(dtype, shape, numbers(&words[3..]))
    }
}

fn cases() -> Vec<Case> {
    let mut cases: Vec<Case> = Vec::new();
    for line in include_str!("ops_reference.txt").lines() {
        let words: Vec<&str> = line.split_whitespace().collect();
        match words.as_slice() {
            [] => {}
            ["op", name] => cases.push(Case {
                name: (*name).into(),
                ..Case::default()
            }),
            [word, rest @ ..] => {
                let case = cases.last_mut().expect("a case begins with op");
                match (*word, rest) {
                    ("attr", [name, kind, words @ ..]) => case.props.set(name, attr(kind, words)),
                    ("in", rest) => case.inputs.push(tensor(rest)),
                    ("out", rest) => case.wanted.push(tensor(rest)),
                    _ => panic!("a line {line}"),
                }
            }
        }
    }
    cases
}

#[test]
fn agree_with_onnxruntime() {
    let cases = cases();
    assert!(200 < cases.len(), "{} cases", cases.len());
    for (number, case) in cases.iter().enumerate() {
        let results: Vec<Type> = case.wanted.iter().map(type_of).collect();
        let found = run(
            &case.name,
            &case.inputs,
            &results,
            &case.props,
            &Bindings::default(),
        );
        let what = format!("case {number}, {} {:?}", case.name, case.props);
        let found = found.unwrap_or_else(|e| panic!("{what}: {e}"));
        assert_eq!(found.len(), case.wanted.len(), "{what}");
        for (found, wanted) in found.iter().zip(&case.wanted) {
            close(&what, found, wanted, 1e-5);
        }
    }
}
