//! Any text and any numbers give a layout or an error, never a panic.

use optc_layout::notation::parse_tensor;
use optc_layout::{Field, Layout, Mode, Notation, NotationKind, ViewMap, is_view, propagate};
use proptest::prelude::*;

/// Calls every query of a layout.
fn exercise(layout: &Layout, perm: &[usize]) {
    let shape = layout.shape().to_vec();
    let _ = (
        layout.bytes(),
        layout.function_hash(),
        layout.is_row_major(),
    );
    let _ = (layout.notation_hint(), layout.notation().to_string());
    let last: Vec<u64> = shape.iter().map(|size| size.saturating_sub(1)).collect();
    let p = layout.index(&last);
    let _ = p.and_then(|p| layout.element_at(p));
    let _ = (
        layout.element_at(u64::MAX),
        layout.index(&[]),
        layout.element_at(0),
    );
    for &notation in NotationKind::ALL {
        let _ = layout.convert(notation);
    }
    if let Some(modes) = layout.modes() {
        let _ = Layout::from_modes(&shape, 8, &modes);
    }
    let flat = ViewMap::reshape(&[layout.elements()]);
    let map = ViewMap {
        shape: None,
        perm: Some(perm.to_vec()),
        result: perm
            .iter()
            .filter_map(|&axis| shape.get(axis).copied())
            .collect(),
    };
    for map in [flat, map] {
        if let Ok(propagated) = propagate(layout, &map) {
            assert!(is_view(layout, &map, &propagated).is_ok());
        }
        let _ = is_view(layout, &map, layout);
        let _ = map.then(&shape, &map);
        let _ = map.inverse(&shape);
    }
}

fn token() -> impl Strategy<Value = String> {
    let words = [
        "tensor<",
        "4x8xsi8",
        "2x3x5xf32",
        "f32[3,5]",
        "xsi8",
        ", {",
        "}>",
        ">",
        "block = ",
        "order = ",
        "axes = ",
        "digits = ",
        "strides = ",
        "offset = ",
        "size = ",
        "tail = ",
        "space = ",
        "ebits = ",
        "xla = ",
        "\"2W2H\"",
        "\"8H128W|2H1W\"",
        "\"HW\"",
        "[1, 0]",
        "[[0, 1], [1, 0]]",
        "{1,0:T(2,2)}",
        "\"1,0:T(2,2)(2,1)S(1)\"",
        "\"4:d0 8:d1\"",
        "\"8:(d0*d1)%3/2 _\"",
        "0",
        "-1",
        "9223372036854775807",
        "18446744073709551615",
        ", ",
        "é",
        "\"",
        "[",
        "]",
        "(",
        ")",
        ":",
        "|",
    ];
    prop::sample::select(words.to_vec()).prop_map(str::to_owned)
}

fn size() -> impl Strategy<Value = u64> {
    prop_oneof![
        6 => 0..13u64,
        2 => Just(1u64 << 31),
        1 => Just(i64::MAX.unsigned_abs()),
        1 => any::<u64>(),
    ]
}

fn number() -> impl Strategy<Value = i64> {
    prop_oneof![4 => -2..9i64, 1 => any::<i64>(), 1 => Just(i64::MAX), 1 => Just(i64::MIN)]
}

fn field() -> impl Strategy<Value = (String, Field)> {
    let key = prop::sample::select(vec![
        "block", "order", "axes", "digits", "strides", "offset", "size", "tail", "space", "ebits",
        "xla",
    ]);
    let text = prop_oneof![
        "[0-9]{1,2}[HWC]([0-9]{1,2}[HWC]){0,2}(\\|[0-9]{1,2}[HWC]){0,2}",
        "[0-9]{1,19}d[0-2]( [0-9]{1,19}d[0-2]){0,3}",
        "[0-9]{1,20}:(d[0-2]|_|\\(d0\\*d1\\))(/[0-9]{1,19})?(%[0-9]{1,19})?",
        "([0-9]{1,2}:(d[0-2]|_)(/[0-9])?(%[0-9])? ?){0,4}",
        "[0-2](,[0-2]){0,2}(:T\\(([0-9]{1,19}|\\*)(,[0-9]{1,3}){0,3}\\))?(L\\([0-9]{1,19}\\))?",
        ".{0,12}",
    ];
    let value = prop_oneof![
        3 => text.prop_map(Field::Str),
        1 => number().prop_map(Field::Int),
        2 => prop::collection::vec(number(), 0..4).prop_map(Field::Ints),
        1 => prop::collection::vec(prop::collection::vec(number(), 0..4), 0..3).prop_map(Field::IntLists),
    ];
    (key.prop_map(str::to_owned), value)
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 2000, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn text(tokens in prop::collection::vec(token(), 0..12)) {
        if let Ok(tensor) = parse_tensor(&tokens.concat()) {
            exercise(&tensor.layout, &[1, 0]);
        }
    }

    #[test]
    fn fields(
        fields in prop::collection::vec(field(), 0..3),
        shape in prop::collection::vec(size(), 0..4),
        bits in prop_oneof![Just(8u32), any::<u32>()],
    ) {
        if let Ok(notation) = Notation::from_fields(&fields, shape.len()) {
            let again = Notation::from_fields(&notation.fields(), shape.len());
            prop_assert_eq!(again.as_ref(), Ok(&notation));
            if let Ok(layout) = Layout::new(notation, &shape, bits) {
                exercise(&layout, &(0..shape.len()).rev().collect::<Vec<_>>());
            }
        }
    }

    #[test]
    fn row_major_saturates(shape in prop::collection::vec(size(), 0..5)) {
        let layout = Layout::row_major(&shape, 32);
        let rev: Vec<usize> = (0..shape.len()).rev().collect();
        let map = ViewMap { shape: None, perm: Some(rev.clone()), result: shape.iter().rev().copied().collect() };
        let _ = (propagate(&layout, &map), is_view(&layout, &map, &layout), map.then(&shape, &map));
        let _ = (layout.modes(), layout.function_hash(), layout.element_at(5), layout.bytes());
        let _ = (layout.convert(NotationKind::Strided), layout.convert(NotationKind::Digits));
        let _ = Layout::from_order(&shape, 8, &rev);
    }

    #[test]
    fn modes(
        shape in prop::collection::vec(size(), 0..3),
        list in prop::collection::vec((0..3usize, size(), size(), size()), 0..4),
    ) {
        let mode = |&(dim, div, count, extent): &(usize, u64, u64, u64)| Mode { dim, div, count, extent };
        let modes: Vec<Mode> = list.iter().map(mode).collect();
        if let Ok(layout) = Layout::from_modes(&shape, 8, &modes) {
            let _ = (layout.modes(), layout.function_hash(), layout.notation().to_string());
        }
    }
}
