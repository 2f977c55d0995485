//! CuTe's notation and algebra: conversions, and every law checked by enumeration.

use crate::support;

use optc_layout::cute::{CuteError, CuteLayout, CuteMode};
use optc_layout::notation::parse_tensor;
use optc_layout::{Layout, NotationKind};
use support::{Rng, random_case, random_shape};

fn cute(text: &str) -> CuteLayout {
    CuteLayout::parse(text).unwrap_or_else(|error| panic!("{text}: {error}"))
}

fn layout(text: &str) -> Layout {
    parse_tensor(text)
        .unwrap_or_else(|error| panic!("{text}: {error}"))
        .layout
}

#[track_caller]
fn converts(tensor: &str, wanted: &str) {
    let found = CuteLayout::from_layout(&layout(tensor));
    assert_eq!(found.map(|cute| cute.to_string()), Ok(wanted.to_owned()));
    let back = cute(wanted).to_layout(8).expect("a notation writes it");
    assert!(back.same_function(&layout(tensor)), "{tensor}");
}

#[test]
fn text_in_and_out() {
    for text in [
        "8:1",
        "(4,8):(8,1)",
        "(4,(2,4)):(2,(1,8))",
        "():()",
        "((2,2),8):((1,4),-3)",
    ] {
        assert_eq!(cute(text).to_string(), text);
    }
    assert_eq!(
        cute(" ( _4 , (_2,4) ):(2,(_1,8)) ").to_string(),
        "(4,(2,4)):(2,(1,8))"
    );
    for (text, message) in [
        (
            "(4,8):(8)",
            "at character 6: found `(`, expected strides that nest as the sizes do",
        ),
        (
            "(4,-8):(8,1)",
            "at character 7: found `(`, expected strides that nest as the sizes do",
        ),
        ("(4,8)", "at character 5: found the end, expected `:`"),
        (
            "(4,x):(1,2)",
            "at character 3: found `x`, expected a number below 2^63, or `(`",
        ),
        (
            "4:1 5",
            "at character 4: found `5`, expected the end of the layout",
        ),
    ] {
        let found = CuteLayout::parse(text).map_err(|error| error.to_string());
        assert_eq!(found, Err(message.to_owned()));
    }
}

#[test]
fn tensors_in_modes() {
    converts("tensor<4x8xsi8>", "(4,8):(8,1)");
    converts("tensor<4x8xsi8, {order = [1, 0]}>", "(4,8):(1,4)");
    converts(
        "tensor<4x8xsi8, {block = \"2W2H\", order = [1, 0]}>",
        "((2,2),(2,4)):((1,4),(2,8))",
    );
    converts(
        "tensor<16x256xsi8, {block = \"8H128W|2H1W\"}>",
        "((2,4,2),(128,2)):((1,256,2048),(2,1024))",
    );
    assert_eq!(
        layout("(4,8):(1,4)").notation().to_string(),
        "order = [1, 0]"
    );
    assert_eq!(
        parse_tensor("f32 (4,8):(8,1)").expect("a tensor").elem_bits,
        32
    );
    for (tensor, reason) in [
        (
            "tensor<3x8xsi8, {block = \"2H\"}>",
            "dimension 0 is cut at 2 inside 3, which it does not divide",
        ),
        (
            "tensor<300xsi8, {block = \"128W\"}>",
            "its buffer of 384 positions is padded behind the last element at 299",
        ),
        (
            "tensor<8x9xsi8, {block = \"4H6W|3H4W\"}>",
            "dimension 0 is cut at 3 inside 4, which it does not divide",
        ),
        (
            "s8[4,3]{1,0:T(*,5)(2)}",
            "dimension 0 and the next are cut across each other",
        ),
        (
            "tensor<4xf32, {strides = [2], offset = 1}>",
            "element 0 does not lie at offset 0",
        ),
        (
            "f32[4]{0:S(1)}",
            "the element width or the memory space is not the type's own",
        ),
    ] {
        match CuteLayout::from_layout(&layout(tensor)) {
            Ok(cute) => assert!(reason.is_empty(), "{tensor} is {cute}"),
            Err(error) => {
                let wanted = format!("CuTe's notation cannot express this layout: {reason}");
                assert_eq!(error.to_string(), wanted, "{tensor}");
            }
        }
    }
}

#[test]
fn every_expressible_layout_goes_and_comes() {
    let mut rng = Rng::new(11);
    let (mut there, mut refused) = (0, 0);
    for _ in 0..3000 {
        let shape = random_shape(&mut rng, 4, 9, 400);
        let case = random_case(&mut rng, &shape);
        let layout = layout(&case.text);
        let Ok(cute) = CuteLayout::from_layout(&layout) else {
            refused += 1;
            continue;
        };
        there += 1;
        let again = CuteLayout::parse(&cute.to_string());
        if shape.len() != 1 || !matches!(cute.modes[0], CuteMode::Tuple(_)) {
            assert_eq!(again.as_ref(), Ok(&cute), "{}", case.text);
        }
        if case.table.is_empty() {
            continue;
        }
        let back = cute
            .to_layout(8)
            .unwrap_or_else(|error| panic!("{cute}: {error}"));
        assert!(back.same_function(&layout), "{} {cute}", case.text);
        if !case.strided {
            for notation in [NotationKind::Digits, NotationKind::Block, NotationKind::Xla] {
                let Ok(other) = layout.convert(notation) else {
                    continue;
                };
                assert_eq!(CuteLayout::from_layout(&other), Ok(cute.clone()));
            }
        }
    }
    assert!(500 < there && 500 < refused, "{there} {refused}");
}

fn random_mode(rng: &mut Rng, depth: u64) -> CuteMode {
    if 0 < depth && rng.chance(3) {
        let modes = (0..1 + rng.below(3)).map(|_| random_mode(rng, depth - 1));
        return CuteMode::Tuple(modes.collect());
    }
    CuteMode::Leaf {
        size: 1 + rng.below(6),
        stride: [0, 1, 2, 3, 4, 6, 8, 12, 24][rng.below(9) as usize],
    }
}

fn random_cute(rng: &mut Rng) -> CuteLayout {
    let modes = (0..1 + rng.below(3)).map(|_| random_mode(rng, 2));
    CuteLayout {
        modes: modes.collect(),
    }
}

fn values(layout: &CuteLayout) -> Vec<i64> {
    (0..layout.size()).map(|k| layout.value(k)).collect()
}

#[test]
fn the_algebra_by_enumeration() {
    let mut rng = Rng::new(12);
    let (mut composed, mut complements) = (0, 0);
    for _ in 0..10_000 {
        let (a, b) = (random_cute(&mut rng), random_cute(&mut rng));
        if 200 < a.size().max(b.size()) || 400 < a.cosize() {
            continue;
        }
        assert_eq!(values(&a.coalesce()), values(&a), "{a}");
        if b.cosize() <= a.size()
            && let Ok(both) = a.compose(&b)
        {
            composed += 1;
            let wanted: Vec<i64> = values(&b).iter().map(|&k| a.value(k as u64)).collect();
            assert_eq!(values(&both), wanted, "{a} after {b} = {both}");
        }
        let inverse = a.right_inverse();
        for k in 0..inverse.size() {
            assert_eq!(a.value(inverse.value(k) as u64), k as i64, "{a} {inverse}");
        }
        if let Ok(rest) = a.complement(60) {
            complements += 1;
            let mut all: Vec<i64> = values(&rest)
                .iter()
                .flat_map(|&x| values(&a.coalesce()).into_iter().map(move |y| x + y))
                .collect();
            all.sort_unstable();
            let distinct = a
                .coalesce()
                .modes
                .iter()
                .all(|mode| !matches!(mode, CuteMode::Leaf { size, stride: 0 } if 1 < *size));
            if distinct {
                let wanted: Vec<i64> = (0..all.len() as i64).collect();
                assert_eq!(all, wanted, "{a} {rest}");
                assert!(60 <= all.len());
            }
        }
        if let Ok(left) = a.left_inverse()
            && values(&a)
                .iter()
                .collect::<std::collections::BTreeSet<_>>()
                .len() as u64
                == a.size()
        {
            for k in 0..a.size() {
                assert_eq!(left.value(a.value(k) as u64), k as i64, "{a} {left}");
            }
        }
    }
    assert!(
        100 < composed && 1000 < complements,
        "{composed} {complements}"
    );
}

#[test]
fn examples_of_the_cutlass_documentation() {
    let composed = cute("(6,2):(8,2)").compose(&cute("(4,3):(3,1)"));
    assert_eq!(
        composed.map(|c| c.to_string()),
        Ok("((2,2),3):((24,2),8)".to_owned())
    );
    assert_eq!(
        cute("4:1").complement(24).map(|c| c.to_string()),
        Ok("6:4".to_owned())
    );
    assert_eq!(
        cute("(2,2):(1,6)").complement(24).map(|c| c.to_string()),
        Ok("(3,2):(2,12)".to_owned())
    );
    let tiles = cute("(4,2,3):(2,1,8)").divide(&cute("4:2"));
    assert_eq!(
        tiles.map(|c| c.to_string()),
        Ok("((2,2),(2,3)):((4,1),(2,8))".to_owned())
    );
    assert_eq!(
        cute("(4,3):(1,4)")
            .compose(&cute("3:3"))
            .map(|c| c.to_string()),
        Ok("3:3".to_owned())
    );
    let uneven = cute("(4,6,8):(2,3,5)").compose(&cute("6:3"));
    assert!(matches!(
        uneven,
        Err(CuteError::Divisibility {
            size: 6,
            stride: 3,
            ..
        })
    ));
    assert!(matches!(
        cute("(2,4):(8,1)").compose(&cute("(2,2):(1,1)")),
        Err(CuteError::Carry { below: 2, .. })
    ));
    assert!(matches!(
        cute("(4,2):(1,2)").complement(8),
        Err(CuteError::NoComplement { .. })
    ));
}
