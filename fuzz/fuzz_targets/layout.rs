//! Any text is a layout or is refused; a layout keeps its function in every notation that can
//! write it, and what `pull` gives is a view.
#![no_main]

use libfuzzer_sys::fuzz_target;
use optc_layout::notation::parse_tensor;
use optc_layout::{Layout, Notation, ViewMap, is_view, pull};

fuzz_target!(|source: &str| {
    let mut tensors = source
        .split('\n')
        .filter_map(|line| parse_tensor(line).ok());
    let Some(first) = tensors.next() else { return };
    let layout = first.layout;
    places(&layout);
    respell(&layout);
    rearrange(&layout);
    if let Some(second) = tensors.next() {
        let map = ViewMap::reshape(second.layout.shape());
        if is_view(&layout, &map, &second.layout).is_ok() {
            let pulled = pull(&layout, &map).expect("a view has a layout");
            assert!(pulled.same_function(&second.layout));
        }
    }
});

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

fn respell(layout: &Layout) {
    let notations = [
        Notation::Block,
        Notation::Strided,
        Notation::Digits,
        Notation::Xla,
    ];
    for notation in notations {
        if let Ok(other) = layout.respell(notation) {
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
        if let Ok(pulled) = pull(layout, &map) {
            assert!(is_view(layout, &map, &pulled).is_ok(), "{pulled:?}");
        }
    }
}
