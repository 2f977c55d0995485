//! Nanoseconds of the layout queries that the passes make.
#![expect(clippy::print_stdout, reason = "a benchmark prints its figures")]

use optc_bench::nanoseconds;
use optc_layout::notation::parse_tensor;
use optc_layout::{Layout, ViewMap, is_view, propagate};
use std::hint::black_box;

struct Case {
    name: &'static str,
    input: Layout,
    map: ViewMap,
}

fn order(shape: &[u64], order: &[usize]) -> Layout {
    Layout::from_order(shape, 32, order).expect("the order is one of the shape")
}

fn tiled(text: &str) -> Layout {
    parse_tensor(text).expect("the text is a tensor").layout
}

fn cases() -> Vec<Case> {
    let map = |shape: &[u64], perm: &[usize], result: &[u64]| ViewMap {
        shape: Some(shape.to_vec()),
        perm: Some(perm.to_vec()),
        result: result.to_vec(),
    };
    vec![
        Case {
            name: "heads split",
            input: Layout::row_major(&[8, 128, 768], 32),
            map: map(&[8, 128, 12, 64], &[0, 2, 1, 3], &[8, 12, 128, 64]),
        },
        Case {
            name: "heads merged",
            input: order(&[8, 12, 128, 64], &[0, 2, 1, 3]),
            map: map(&[8, 12, 128, 64], &[0, 2, 1, 3], &[8, 128, 768]),
        },
        Case {
            name: "windows cut",
            input: Layout::row_major(&[1, 56, 56, 96], 32),
            map: map(&[1, 8, 7, 8, 7, 96], &[0, 1, 3, 2, 4, 5], &[64, 49, 96]),
        },
        Case {
            name: "3x4 to 4x3",
            input: Layout::row_major(&[3, 4], 32),
            map: map(&[3, 4], &[0, 1], &[4, 3]),
        },
        Case {
            name: "tiles turned",
            input: tiled("bf16[8,128,768]{2,1,0:T(8,128)(2,1)}"),
            map: map(&[8, 128, 768], &[1, 0, 2], &[128, 8, 768]),
        },
        Case {
            name: "tiles split",
            input: tiled("f32[8,256,768]{2,1,0:T(8,128)}"),
            map: map(&[8, 32, 8, 768], &[0, 1, 2, 3], &[8, 32, 8, 768]),
        },
        Case {
            name: "tiles padded",
            input: tiled("f32[4,56,56,96]{3,2,1,0:T(8,128)}"),
            map: map(&[224, 56, 96], &[0, 1, 2], &[224, 56, 96]),
        },
    ]
}

fn main() {
    println!(
        "{:14} {:>9} {:>9} {:>9} {:>9} {:>9} {:>9}",
        "ns a call", "index", "inverse", "is_view", "propagate", "same", "modes"
    );
    for case in cases() {
        let (input, map) = (&case.input, &case.map);
        let output = propagate(input, map).expect("the chain is a view");
        let last: Vec<u64> = input.shape().iter().map(|n| n - 1).collect();
        let place = input.index(&last).expect("the last element is one");
        let other = propagate(input, map).expect("the chain is a view");
        println!(
            "{:14} {:9.0} {:9.0} {:9.0} {:9.0} {:9.0} {:9.0}",
            case.name,
            nanoseconds(|| black_box(input).index(&last)),
            nanoseconds(|| black_box(input).element_at(place)),
            nanoseconds(|| is_view(black_box(input), map, &output)),
            nanoseconds(|| propagate(black_box(input), map)),
            nanoseconds(|| black_box(&output).same_function(&other)),
            nanoseconds(|| black_box(&output).modes()),
        );
    }
}
