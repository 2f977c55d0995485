//! Any text is a layout, a shape or an algebraic layout, or is refused. A layout keeps its function in
//! every notation that can write it, what `propagate` and `deduce` give is a view, and it can be explained and
//! drawn; shapes print as they are read.
#![no_main]

use libfuzzer_sys::fuzz_target;
use optc_layout::cute::CuteLayout;
use optc_layout::notation::parse_tensor;
use optc_layout::{
    Axes, Drawing, Layout, NotationKind, ViewMap, XlaShape, deduce, explain, is_view, propagate,
};

/// Layouts of more positions are not walked through.
const MOST_POSITIONS: u64 = 4096;

fuzz_target!(|source: &str| {
    for line in source.split('\n') {
        shape(line);
        algebra(line);
    }
    let mut tensors = source
        .split('\n')
        .filter_map(|line| parse_tensor(line).ok());
    let Some(first) = tensors.next() else { return };
    let layout = first.layout;
    places(&layout);
    convert(&layout);
    rearrange(&layout);
    look(&layout);
    if let Some(second) = tensors.next() {
        let map = ViewMap::reshape(second.layout.shape());
        if is_view(&layout, &map, &second.layout).is_ok() {
            let propagated = propagate(&layout, &map).expect("a view has a layout");
            let same = ViewMap::reshape(second.layout.shape());
            assert!(is_view(&propagated, &same, &second.layout).is_ok());
        }
        if let Ok(maps) = deduce(&layout, &second.layout) {
            let mut at = layout;
            for map in &maps {
                at = propagate(&at, map).expect("each map of a deduced chain is a view");
            }
            let same = ViewMap::reshape(second.layout.shape());
            assert!(is_view(&at, &same, &second.layout).is_ok(), "{maps:?}");
        }
    }
});

/// What is printed reads as the same shape and prints the same.
fn shape(text: &str) {
    let Ok(shape) = XlaShape::parse(text) else {
        return;
    };
    let printed = shape.to_string();
    let again = XlaShape::parse(&printed).expect("what is printed is a shape");
    assert_eq!(again.to_string(), printed);
    assert!(again.compatible(&shape), "{printed}");
    for array in shape.leaves() {
        let bytes = array.bytes();
        assert!(bytes.is_err() || array.layout().is_ok(), "{array}");
    }
    let bare = shape.text_without_layouts();
    let bare = XlaShape::parse(&bare).expect("without layouts it is a shape");
    assert!(bare.compatible(&shape));
}

/// An algebraic layout prints as it is read, and its inverses undo it.
fn algebra(text: &str) {
    let Ok(layout) = CuteLayout::parse(text) else {
        return;
    };
    let again = CuteLayout::parse(&layout.to_string()).expect("what is printed is a layout");
    assert_eq!(again, layout);
    if MOST_POSITIONS < layout.size() {
        return;
    }
    let flat = layout.coalesce();
    for number in 0..layout.size() {
        assert_eq!(flat.value(number), layout.value(number), "{layout}");
    }
    let inverse = layout.right_inverse();
    for number in 0..inverse.size().min(MOST_POSITIONS) {
        let Ok(there) = u64::try_from(inverse.value(number)) else {
            continue;
        };
        assert_eq!(layout.value(there), number.cast_signed(), "{layout}");
    }
    if let Ok(tensor) = layout.to_layout(8)
        && let Ok(back) = CuteLayout::from_layout(&tensor)
    {
        for number in 0..layout.size() {
            assert_eq!(back.value(number), layout.value(number), "{layout}");
        }
    }
}

/// The explanation has words and a program, the drawing its two forms.
fn look(layout: &Layout) {
    if let Ok(explanation) = explain(layout) {
        assert!(!explanation.words().is_empty());
        assert!(explanation.ir("f32").starts_with("func.func"));
    }
    for axes in [Axes::Own, Axes::Xla] {
        if let Ok(drawing) = Drawing::new(layout, &axes) {
            assert!(drawing.svg().ends_with("</svg>\n"));
            assert!(!drawing.terminal(true).is_empty());
        }
    }
}

/// The first and the last element lie inside the buffer and are found there again.
fn places(layout: &Layout) {
    let shape = layout.shape();
    if shape.contains(&0) {
        return;
    }
    let first = vec![0; shape.len()];
    let last: Vec<u64> = shape.iter().map(|size| size - 1).collect();
    for element in [first, last] {
        let Some(position) = layout.index(&element) else {
            continue;
        };
        assert!(position < layout.positions(), "{element:?} at {position}");
        let _ = layout.element_at(position);
    }
}

fn convert(layout: &Layout) {
    for &notation in NotationKind::ALL {
        if let Ok(other) = layout.convert(notation) {
            assert!(other.same_function(layout), "{notation:?}: {other:?}");
            assert_eq!(other.function_hash(), layout.function_hash());
        }
    }
}

fn rearrange(layout: &Layout) {
    let shape = layout.shape();
    let perm: Vec<usize> = (0..shape.len()).rev().collect();
    let flat = ViewMap::reshape(&[layout.elements()]);
    let turned = ViewMap::transpose(shape, &perm);
    for map in [Some(flat), turned.ok()].into_iter().flatten() {
        if let Ok(propagated) = propagate(layout, &map) {
            assert!(is_view(layout, &map, &propagated).is_ok(), "{propagated:?}");
        }
    }
}
