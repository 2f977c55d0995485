//! Random small layouts of every notation against plain enumeration.
//!
//! The oracle makes the same random choices as the text that the crate parses, and follows the definitions with index
//! arithmetic only. `OPTC_HAMMER=1000000 cargo test --release` runs more cases.

use crate::support;

use optc_layout::notation::parse_tensor;
use optc_layout::{Layout, Mode, Notation, NotationKind, ViewMap, deduce, is_view, propagate};
use support::{Case, Rng, random_case, random_shape};

/// The number of cases of a test, larger on request.
fn cases(usual: u64) -> u64 {
    let asked = std::env::var("OPTC_HAMMER")
        .ok()
        .and_then(|text| text.parse::<u64>().ok());
    asked.map_or(usual, |asked| asked.max(usual))
}

fn parsed(case: &Case) -> Layout {
    parse_tensor(&case.text)
        .unwrap_or_else(|error| panic!("{}: {error}", case.text))
        .layout
}

fn unravel(mut k: u64, shape: &[u64]) -> Vec<u64> {
    let mut e = vec![0; shape.len()];
    for (index, size) in e.iter_mut().zip(shape).rev() {
        *index = k % size;
        k /= size;
    }
    e
}

/// The offset of every element, in row-major order.
fn table(layout: &Layout) -> Vec<u64> {
    let number = |k| {
        layout
            .index(&unravel(k, layout.shape()))
            .expect("an index in bounds")
    };
    (0..layout.elements()).map(number).collect()
}

/// Prints the layout and reads it back, which must give the same function.
#[track_caller]
fn check_text(layout: &Layout) {
    let dims: String = layout
        .shape()
        .iter()
        .map(|size| format!("{size}x"))
        .collect();
    let encoding = layout.notation().to_string();
    let comma = if encoding.is_empty() {
        String::new()
    } else {
        format!(", {{{encoding}}}")
    };
    let text = format!("tensor<{dims}si8{comma}>");
    let again = parse_tensor(&text)
        .unwrap_or_else(|error| panic!("{text}: {error}"))
        .layout;
    assert!(again.same_function(layout), "{text}");
    assert_eq!(table(&again), table(layout), "{text}");
    assert_eq!(again.positions(), layout.positions(), "{text}");
    assert_eq!(again.notation(), layout.notation(), "{text}");
}

#[test]
fn positions_and_their_inverse() {
    let mut rng = Rng::new(1);
    for _ in 0..cases(4000) {
        let shape = random_shape(&mut rng, 6, 12, 3000);
        let case = random_case(&mut rng, &shape);
        let layout = parsed(&case);
        assert_eq!(table(&layout), case.table, "{}", case.text);
        assert_eq!(layout.positions(), case.positions, "{}", case.text);
        let bytes = (case.positions * case.bits).div_ceil(8);
        assert_eq!(layout.bytes(), bytes, "{}", case.text);
        let mut owner = vec![None; case.positions as usize];
        for (k, &p) in case.table.iter().enumerate() {
            owner[p as usize] = Some(unravel(k as u64, &shape));
        }
        for (p, element) in owner.iter().enumerate() {
            assert_eq!(
                &layout.element_at(p as u64),
                element,
                "{} at {p}",
                case.text
            );
        }
        assert_eq!(layout.element_at(case.positions), None);
        check_text(&layout);
    }
}

#[test]
fn other_notations_and_modes() {
    let mut rng = Rng::new(2);
    for _ in 0..cases(4000) {
        let shape = random_shape(&mut rng, 6, 12, 3000);
        let case = random_case(&mut rng, &shape);
        let layout = parsed(&case);
        for &notation in NotationKind::ALL {
            match layout.convert(notation) {
                Ok(other) => {
                    assert!(other.same_function(&layout), "{} {notation:?}", case.text);
                    check_text(&other);
                }
                Err(error) => assert!(
                    notation != NotationKind::Digits
                        || case.strided
                        || error.to_string().contains("across the padding")
                        || (case.text.contains('*') && error.to_string().contains("strides")),
                    "{}: {error}",
                    case.text
                ),
            }
        }
        let Some(modes) = layout.modes() else {
            continue;
        };
        let again = Layout::from_modes(&shape, 8, &modes)
            .unwrap_or_else(|error| panic!("{}: {error} {modes:?}", case.text));
        assert_eq!(table(&again), case.table, "{} {modes:?}", case.text);
        assert_eq!(again.positions(), case.positions, "{} {modes:?}", case.text);
        check_text(&again);
        let values = modes.iter().map(|mode| mode.extent).product::<u64>();
        assert!(
            case.table.is_empty() || values == case.positions,
            "{}",
            case.text
        );
    }
}

/// Any modes can be written, including padded digits and digits that do not divide one another.
#[test]
fn modes_are_written() {
    let mut rng = Rng::new(31);
    let mut padded = 0;
    for _ in 0..cases(4000) {
        let shape = random_shape(&mut rng, 4, 12, 3000);
        let mut modes = Vec::new();
        for (dim, &size) in shape.iter().enumerate() {
            let mut domain = size;
            while 1 < domain {
                let div = 1 + rng.below(domain - 1);
                let count = domain.div_ceil(div);
                let extent = count + rng.below(8).saturating_sub(5);
                modes.push(Mode {
                    dim,
                    div,
                    count,
                    extent,
                });
                domain = div;
            }
        }
        for i in (1..modes.len()).rev() {
            modes.swap(i, rng.below(i as u64 + 1) as usize);
        }
        let layout = Layout::from_modes(&shape, 8, &modes)
            .unwrap_or_else(|error| panic!("{error}: {modes:?} of {shape:?}"));
        let positions = modes.iter().map(|m| m.extent).product::<u64>();
        let stored = if layout.elements() == 0 { 0 } else { positions };
        assert_eq!(layout.positions(), stored, "{modes:?} of {shape:?}");
        padded += u64::from(0 < layout.elements() && layout.elements() < positions);
        check_text(&layout);
    }
    assert!(cases(4000) / 4 < padded, "{padded} are padded");
}

/// Converts between all notations: each one reads its own output as the same function, and every other notation that
/// can express the function converts back.
#[test]
fn notations_read_what_they_write_and_lead_back() {
    let mut rng = Rng::new(23);
    let mut written = vec![0; NotationKind::ALL.len()];
    let mut back = vec![0; NotationKind::ALL.len()];
    for _ in 0..cases(2000) {
        let shape = random_shape(&mut rng, 5, 12, 2000);
        let case = random_case(&mut rng, &shape);
        let layout = parsed(&case);
        for (place, &notation) in NotationKind::ALL.iter().enumerate() {
            let Ok(own) = layout.convert(notation) else {
                continue;
            };
            written[place] += 1;
            assert_eq!(own.notation().kind(), Some(notation), "{}", case.text);
            let read = Notation::from_fields(&own.notation().fields(), shape.len());
            assert_eq!(read.as_ref(), Ok(own.notation()), "{}", case.text);
            let read = Layout::new(own.notation().clone(), &shape, 8);
            let same = read.is_ok_and(|read| table(&read) == case.table);
            assert!(same, "{} as {}", case.text, own.notation());
            for other in NotationKind::ALL.iter().filter(|&&other| other != notation) {
                let Ok(again) = own.convert(*other).and_then(|o| o.convert(notation)) else {
                    continue;
                };
                back[place] += 1;
                assert_eq!(table(&again), case.table, "{} by {other:?}", case.text);
            }
        }
    }
    for (place, notation) in NotationKind::ALL.iter().enumerate() {
        let (name, few) = (notation.name(), cases(2000) / 20);
        assert!(
            few < written[place] && few < back[place],
            "{name} is hardly ever written"
        );
    }
}

#[test]
fn same_function_is_equality_of_tables() {
    let mut rng = Rng::new(3);
    let mut equal = 0;
    for _ in 0..cases(12_000) {
        let shape = random_shape(&mut rng, 3, 9, 300);
        let (x, y) = (random_case(&mut rng, &shape), random_case(&mut rng, &shape));
        let (a, b) = (parsed(&x), parsed(&y));
        let buffer = |case: &Case| (case.positions, case.bits, case.space);
        let same = x.table == y.table && buffer(&x) == buffer(&y);
        assert_eq!(a.same_function(&b), same, "{} {}", x.text, y.text);
        assert_eq!(b.same_function(&a), same, "{} {}", x.text, y.text);
        assert!(
            !same || a.function_hash() == b.function_hash(),
            "{} {}",
            x.text,
            y.text
        );
        let usual = (x.bits, x.space) == (8, 0);
        let dense = usual && x.positions == a.elements() && x.table.is_sorted();
        assert_eq!(a.is_row_major(), dense, "{}", x.text);
        equal += u32::from(same);
    }
    assert!(0 < equal);
}

/// A factorization of `n` into random dimensions.
fn random_factors(rng: &mut Rng, mut n: u64) -> Vec<u64> {
    let mut shape = Vec::new();
    for _ in 0..4 {
        let divisors: Vec<u64> = (1..=n).filter(|d| n.is_multiple_of(*d)).collect();
        let size = divisors[rng.below(divisors.len() as u64) as usize];
        shape.push(size);
        n /= size;
    }
    shape.push(n);
    if rng.chance(2) {
        shape.retain(|&size| 1 < size);
    }
    shape
}

fn random_map(rng: &mut Rng, operand: &[u64]) -> ViewMap {
    let n: u64 = operand.iter().product();
    let factors = |rng: &mut Rng| match n {
        0 => vec![rng.below(3), 0],
        n => random_factors(rng, n),
    };
    let shape = rng.chance(2).then(|| factors(rng));
    let middle = shape.clone().unwrap_or_else(|| operand.to_vec());
    let perm = (!rng.chance(4)).then(|| rng.permutation(middle.len()));
    let permuted: Vec<u64> = match &perm {
        Some(perm) => perm.iter().map(|&axis| middle[axis]).collect(),
        None => middle,
    };
    let result = if rng.chance(2) {
        factors(rng)
    } else {
        permuted
    };
    ViewMap {
        shape,
        perm,
        result,
    }
}

/// For each element of the result, its number in the operand.
fn map_table(operand: &[u64], map: &ViewMap) -> Vec<u64> {
    let middle = map.shape.clone().unwrap_or_else(|| operand.to_vec());
    let perm = map
        .perm
        .clone()
        .unwrap_or_else(|| (0..middle.len()).collect());
    let permuted: Vec<u64> = perm.iter().map(|&axis| middle[axis]).collect();
    let n: u64 = operand.iter().product();
    let source = |k| {
        let e = unravel(k, &permuted);
        let mut number = 0;
        for (axis, size) in middle.iter().enumerate() {
            let place = perm
                .iter()
                .position(|&other| other == axis)
                .expect("a permutation");
            number = number * size + e[place];
        }
        number
    };
    (0..n).map(source).collect()
}

#[test]
fn view_and_propagate() {
    let mut rng = Rng::new(4);
    let (mut propagated_count, mut views) = (0, 0);
    for _ in 0..cases(12_000) {
        let shape = random_shape(&mut rng, 6, 12, 400);
        let case = random_case(&mut rng, &shape);
        let input = parsed(&case);
        let map = random_map(&mut rng, &shape);
        let moved: Vec<u64> = map_table(&shape, &map)
            .iter()
            .map(|&k| case.table[k as usize])
            .collect();
        let random = random_case(&mut rng, &map.result);
        let output = parsed(&random);
        // Positions of less than a byte may take the same number of bytes.
        let bytes = |case: &Case| (case.positions * case.bits).div_ceil(8);
        let buffer = |case: &Case| (bytes(case), case.bits, case.space);
        let expected = random.table == moved && buffer(&random) == buffer(&case);
        let decided = is_view(&input, &map, &output);
        assert_eq!(
            decided.is_ok(),
            expected,
            "{} {map:?} {}",
            case.text,
            random.text
        );
        views += u32::from(expected);
        match propagate(&input, &map) {
            Ok(propagated) => {
                propagated_count += 1;
                assert_eq!(table(&propagated), moved, "{} {map:?}", case.text);
                assert_eq!(
                    propagated.positions(),
                    case.positions,
                    "{} {map:?}",
                    case.text
                );
                check_text(&propagated);
                assert!(
                    is_view(&input, &map, &propagated).is_ok(),
                    "{} {map:?}",
                    case.text
                );
                let back = map.inverse(&shape).expect("the map fits");
                assert!(
                    is_view(&propagated, &back, &input).is_ok(),
                    "{} {map:?}",
                    case.text
                );
            }
            Err(_) => assert!(!expected || 1 < moved.len(), "{} {map:?}", case.text),
        }
    }
    assert!(0 < propagated_count && 0 < views);
}

#[test]
fn maps_compose() {
    let mut rng = Rng::new(5);
    let mut composed = 0;
    for _ in 0..cases(4000) {
        let shape = random_shape(&mut rng, 4, 8, 200);
        let first = random_map(&mut rng, &shape);
        let second = random_map(&mut rng, &first.result);
        let (a, b) = (map_table(&shape, &first), map_table(&first.result, &second));
        let wanted: Vec<u64> = b.iter().map(|&k| a[k as usize]).collect();
        let identity = wanted.iter().enumerate().all(|(k, &from)| k as u64 == from);
        if let Some(both) = first.then(&shape, &second) {
            composed += 1;
            both.check(&shape).expect("the composition fits");
            assert_eq!(both.result, second.result);
            assert_eq!(map_table(&shape, &both), wanted, "{first:?} {second:?}");
            assert!(!both.is_reshape(&shape) || identity);
        }
        for k in 0..wanted.len() as u64 {
            let e = unravel(k, &first.result);
            let from = unravel(a[k as usize], &shape);
            assert_eq!(first.operand_index(&shape, &e), Some(from), "{first:?}");
        }
    }
    assert!(0 < composed);
}

/// For each element after a chain of maps, its number in the operand.
fn chain_table(operand: &[u64], maps: &[ViewMap]) -> Vec<u64> {
    let n: u64 = operand.iter().product();
    let mut numbers: Vec<u64> = (0..n).collect();
    let mut shape = operand;
    for map in maps {
        map.check(shape).expect("the map fits");
        let from = map_table(shape, map);
        numbers = from.iter().map(|&k| numbers[k as usize]).collect();
        shape = &map.result;
    }
    numbers
}

#[test]
fn deduce_finds_the_map() {
    let mut rng = Rng::new(6);
    let (mut found, mut missed, mut refused) = (0, 0, 0);
    for _ in 0..cases(12_000) {
        let shape = random_shape(&mut rng, 6, 12, 400);
        let case = random_case(&mut rng, &shape);
        let input = parsed(&case);
        let map = random_map(&mut rng, &shape);
        let Ok(output) = propagate(&input, &map) else {
            continue;
        };
        match deduce(&input, &output) {
            Ok(maps) => {
                found += 1;
                assert!((1..=3).contains(&maps.len()));
                let last = maps.last().expect("one map at least");
                assert_eq!(last.result, output.shape());
                let numbers = chain_table(&shape, &maps);
                let moved: Vec<u64> = numbers.iter().map(|&k| case.table[k as usize]).collect();
                assert_eq!(moved, table(&output), "{} {map:?} {maps:?}", case.text);
            }
            Err(_) => missed += 1,
        }
        let random = random_case(&mut rng, &map.result);
        let other = parsed(&random);
        match deduce(&input, &other) {
            Ok(maps) => {
                let numbers = chain_table(&shape, &maps);
                let moved: Vec<u64> = numbers.iter().map(|&k| case.table[k as usize]).collect();
                assert_eq!(moved, random.table, "{} {maps:?}", case.text);
            }
            Err(_) => refused += 1,
        }
    }
    assert!(0 < refused);
    assert!(missed * 1000 < found, "{found} found, {missed} missed");
}
