//! The index formula against the conformance vectors of the notations, and against cases of its own.

use optc_interp::naive::Formula;
use serde_json::Value;

/// The vectors of one file of `spec/vectors`.
fn vectors(file: &str) -> Vec<Value> {
    let path = format!("{}/../spec/vectors/{file}", env!("CARGO_MANIFEST_DIR"));
    let text = std::fs::read_to_string(path).expect("the vectors are part of the repository");
    let json: Value = serde_json::from_str(&text).expect("a JSON file");
    json["vectors"]
        .as_array()
        .expect("a list of vectors")
        .clone()
}

/// Splits `tensor<4x8xsi8, {block = "2W2H"}>` into the shape and the text inside of the braces.
fn tensor(text: &str) -> (Vec<u64>, String) {
    let inner = text
        .strip_prefix("tensor<")
        .and_then(|t| t.strip_suffix('>'))
        .expect("a tensor");
    let (dims, encoding) = inner.split_once(", ").unwrap_or((inner, "{}"));
    let parts: Vec<&str> = dims.split('x').collect();
    let shape = parts[..parts.len() - 1]
        .iter()
        .map(|n| n.parse().expect("a size"))
        .collect();
    let encoding = encoding
        .strip_prefix('{')
        .and_then(|t| t.strip_suffix('}'))
        .expect("braces");
    (shape, encoding.to_owned())
}

fn formula(text: &str) -> Formula {
    let (shape, encoding) = tensor(text);
    Formula::parse(&encoding, &shape).unwrap_or_else(|e| panic!("{text}: {e}"))
}

/// `memory[p]` is the row-major number of the element at position p, -1 for padding.
fn memory(formula: &Formula) -> Vec<i64> {
    let mut memory = vec![-1; usize::try_from(formula.positions()).unwrap()];
    formula
        .each(|number, position| {
            let cell = &mut memory[usize::try_from(position).unwrap()];
            assert_eq!(*cell, -1, "two elements at position {position}");
            *cell = i64::try_from(number).unwrap();
        })
        .unwrap();
    memory
}

fn numbers(json: &Value) -> Vec<u64> {
    json.as_array()
        .unwrap()
        .iter()
        .map(|n| n.as_u64().unwrap())
        .collect()
}

#[test]
fn tensor_index_vectors() {
    let all = vectors("tensor_index.json");
    assert!(all.len() > 500);
    for v in all {
        let f = formula(v["text"].as_str().unwrap());
        assert_eq!(
            f.index(&numbers(&v["index"])),
            v["linear_index"].as_u64(),
            "{v}"
        );
        assert_eq!(Some(f.positions()), v["positions"].as_u64(), "{v}");
    }
}

#[test]
fn tensor_map_vectors() {
    let all = vectors("tensor_maps.json");
    assert!(all.len() > 100);
    for v in all {
        let f = formula(v["text"].as_str().unwrap());
        let expected: Vec<i64> = v["memory"]
            .as_array()
            .unwrap()
            .iter()
            .map(|n| n.as_i64().unwrap())
            .collect();
        assert_eq!(memory(&f), expected, "{v}");
    }
}

#[test]
fn layout_equal_vectors() {
    let all = vectors("layout_equal.json");
    assert!(all.len() > 100);
    for v in all {
        let (a, b) = (
            formula(v["a"].as_str().unwrap()),
            formula(v["b"].as_str().unwrap()),
        );
        assert_eq!(
            Some(memory(&a) == memory(&b)),
            v["expected"].as_bool(),
            "{v}"
        );
    }
}

/// A chain is a view exactly if every element of the result is found at its position in the operand's buffer.
#[test]
fn view_vectors() {
    let all = vectors("view.json");
    assert!(all.len() > 100);
    for v in all {
        let (input, output) = (v["input"].as_str().unwrap(), v["output"].as_str().unwrap());
        let (from, to) = (formula(input), formula(output));
        let shape = v
            .get("shape")
            .filter(|s| !s.is_null())
            .map_or_else(|| tensor(input).0, numbers);
        let identity = (0..shape.len() as u64).collect();
        let perm = v
            .get("perm")
            .filter(|p| !p.is_null())
            .map_or(identity, numbers);
        let moved = transposed_numbers(&shape, &perm);
        let before = positions(&from);
        let after = positions(&to);
        let agree = moved
            .iter()
            .zip(&after)
            .all(|(&number, &p)| before[number] == p);
        let legal = agree && from.positions() == to.positions();
        assert_eq!(Some(legal), v["expected"].as_bool(), "{v}");
    }
}

/// The position of every element, in row-major order.
fn positions(formula: &Formula) -> Vec<u64> {
    let mut out = Vec::new();
    formula.each(|_, position| out.push(position)).unwrap();
    out
}

/// For every element of the transposed tensor, its row-major number before the transpose.
fn transposed_numbers(shape: &[u64], perm: &[u64]) -> Vec<usize> {
    let perm: Vec<usize> = perm.iter().map(|&p| usize::try_from(p).unwrap()).collect();
    let target: Vec<u64> = perm.iter().map(|&p| shape[p]).collect();
    let count: u64 = shape.iter().product();
    let mut out = Vec::new();
    for number in 0..count {
        let mut rest = number;
        let mut index = vec![0; shape.len()];
        for i in (0..perm.len()).rev() {
            index[perm[i]] = rest % target[i];
            rest /= target[i];
        }
        let before = index.iter().zip(shape).fold(0, |a, (e, n)| a * n + e);
        out.push(usize::try_from(before).unwrap());
    }
    out
}

#[track_caller]
fn check(encoding: &str, shape: &[u64], index: &[u64], expected: u64, positions: u64) {
    let f = Formula::parse(encoding, shape).unwrap();
    assert_eq!(
        (f.index(index), f.positions()),
        (Some(expected), positions),
        "{encoding}"
    );
}

#[test]
fn the_examples_of_the_notation() {
    for (h, w) in [(0, 0), (1, 5), (3, 7), (2, 4)] {
        let expected = ((w / 2) * 2 + h / 2) * 4 + (w % 2) * 2 + h % 2;
        check(
            "block = \"2W2H\", order = [1, 0]",
            &[4, 8],
            &[h, w],
            expected,
            32,
        );
    }
    for (e, at) in [0, 1, 2, 4, 5, 6].into_iter().enumerate() {
        check("block = \"3W|2W\"", &[6], &[e as u64], at, 8);
    }
    let numbered = "block = \"8d2 128d3\", order = [0, 1, 2, 3]";
    let grid = ((3 + 2) * 2 + 1) * 2 + 1;
    check(
        numbered,
        &[2, 3, 9, 130],
        &[1, 2, 8, 129],
        grid * 1024 + 1,
        24 * 1024,
    );
    check("digits = \"32:d0 4:d0/32\"", &[128], &[33], 5, 128);
    check("offset = 3, strides = [10, 2]", &[2, 3], &[1, 2], 17, 18);
    check(
        "offset = 3, size = 40, strides = [10, 2]",
        &[2, 3],
        &[1, 0],
        13,
        40,
    );
    check("offset = 5, strides = [-1]", &[6], &[5], 0, 6);
    check("", &[2, 3], &[1, 2], 5, 6);
    check("", &[], &[], 0, 1);
    let empty = Formula::parse("block = \"8H128W\"", &[2, 0]).unwrap();
    assert_eq!((empty.positions(), empty.index(&[0, 0])), (0, None));
}

#[test]
fn xla_tiles_are_applied_one_after_the_other() {
    check("xla = \"1,0:T(2,2)\"", &[3, 5], &[2, 3], 17, 24);
    check("xla = \"0:T(2,2)\"", &[8], &[5], 9, 16);
    check(
        "xla = \"1,0:T(8,128)(2,1)S(1)\"",
        &[16, 128],
        &[1, 1],
        3,
        2048,
    );
    check("xla = \"1,0:T(*,4)L(16)\"", &[3, 5], &[2, 4], 14, 16);
    check("xla = \":T(128)\"", &[], &[], 0, 128);
    let nested = Formula::parse("xla = \"1,0:T(8,128)(2,1)\"", &[9, 130]).unwrap();
    let block = Formula::parse("block = \"8H128W|2H1W\"", &[9, 130]).unwrap();
    let digits = Formula::parse("block = \"4H128W2H\"", &[9, 130]).unwrap();
    assert_eq!(memory(&nested), memory(&block));
    assert_eq!(memory(&nested), memory(&digits));
    let padded = Formula::parse("xla = \"1,0:T(4,6)(3,4)\"", &[5, 7]).unwrap();
    let levels = Formula::parse("block = \"4H6W|3H4W\"", &[5, 7]).unwrap();
    assert_eq!(memory(&padded), memory(&levels));
}

#[test]
fn what_cannot_be_read_is_an_error() {
    let bad = [
        ("block = \"2Q\"", 2),
        ("block = \"0W\"", 2),
        ("block = \"W\"", 2),
        ("block = \"2W2W|2W\"", 2),
        ("block = \"2W|2H\"", 2),
        ("block = \"4H4W|2H2W\", order = [[0, 1], [0]]", 2),
        ("order = [0]", 2),
        ("order = [0, 0]", 2),
        ("order = [0, 2]", 2),
        ("axes = \"A\", block = \"2A\"", 2),
        ("strides = [1]", 2),
        ("digits = \"2:d7\"", 2),
        ("digits = \"2:d0/0\"", 2),
        ("digits = \"x\"", 2),
        ("xla = \"0,0\"", 2),
        ("xla = \"1,0:T(0)\"", 2),
        ("xla = \"1,0:T(8,*)\"", 2),
        ("xla = \"1,0:Q(8)\"", 2),
        ("order", 2),
        ("order = ", 2),
        ("order = [0, 1", 2),
        ("block = \"2W", 2),
        ("colour = 3", 2),
        ("tail = 0, digits = \"4:d0 4:d1\"", 2),
        ("block = \"9223372036854775807W4H\"", 2),
        ("order = [[[[[[0]]]]]]", 1),
        ("digits = \"2:d0\"", 2),
    ];
    for (text, rank) in bad {
        let shape = vec![4; rank];
        assert!(Formula::parse(text, &shape).is_err(), "{text} is accepted");
    }
}

#[test]
fn elements_outside_the_buffer_are_errors() {
    let f = Formula::parse("size = 4, strides = [1]", &[6]).unwrap();
    assert!(f.each(|_, _| ()).is_err());
    let f = Formula::parse("strides = [-1]", &[6]).unwrap();
    assert!(f.each(|_, _| ()).is_err());
    assert_eq!(f.index(&[6]), None);
    assert_eq!(f.index(&[0, 0]), None);
}
