//! Conversions of random layouts, for all instruction sets and numbers of threads, against the layout function.

use crate::support;

use optc_exec::{
    ConversionError, ConversionOptions, ConversionPlan, Isa, Moved, Padding, PlanCache,
};
use optc_layout::notation::parse_tensor;
use optc_layout::{Layout, affine_boxes};
use support::{Rng, check, expected, layout};

const WIDTHS: [u32; 14] = [1, 2, 4, 8, 8, 16, 16, 32, 32, 64, 128, 3, 12, 24];

/// All instruction sets, with and without streaming.
fn options(padding: Padding) -> impl Iterator<Item = ConversionOptions> {
    let some = Isa::available().into_iter();
    some.flat_map(move |isa| {
        [None, Some(0)].map(|streamed_from| ConversionOptions {
            padding,
            isa: Some(isa),
            streamed_from,
        })
    })
}

fn check_all(rng: &mut Rng, from: &Layout, to: &Layout, threads: &[usize]) {
    let source = rng.bytes(from.bytes());
    for padding in [Padding::Leave, Padding::Zero] {
        let wanted = expected(from, to, &source, padding);
        for options in options(padding) {
            for &threads in threads {
                check(from, to, &source, &wanted, options, threads);
            }
        }
    }
}

/// More cases on request: `OPTC_HAMMER=100000 cargo test --release -p optc-exec`.
#[test]
fn random_layouts_of_random_widths() {
    let cases = std::env::var("OPTC_HAMMER")
        .ok()
        .and_then(|n| n.parse().ok());
    let mut rng = Rng(11);
    for case in 0..cases.unwrap_or(4000) {
        let rank = 1 + rng.below(6);
        let most = [0, 700, 60, 20, 9, 6, 5][rank];
        let shape: Vec<u64> = (0..rank).map(|_| 1 + rng.below(most) as u64).collect();
        let bits = WIDTHS[rng.below(WIDTHS.len())];
        let (from, to) = (
            layout(&mut rng, &shape, bits),
            layout(&mut rng, &shape, bits),
        );
        let threads: &[usize] = if case % 8 == 0 { &[1, 3] } else { &[1] };
        check_all(&mut rng, &from, &to, threads);
    }
}

/// Several threads are used from 64 KB on.
#[test]
fn large_tensors_on_several_threads() {
    let mut rng = Rng(5);
    for _ in 0..60 {
        let rank = 2 + rng.below(3);
        let most = [0, 0, 700, 80, 26][rank];
        let shape: Vec<u64> = (0..rank).map(|_| (2 + rng.below(most)) as u64).collect();
        let bits = [4, 8, 16, 32, 64][rng.below(5)];
        let (from, to) = (
            layout(&mut rng, &shape, bits),
            layout(&mut rng, &shape, bits),
        );
        check_all(&mut rng, &from, &to, &[1, 2, 3]);
    }
}

/// Every kernel with all of its tails: one dimension is short on either side.
#[test]
fn permutations_with_short_dimensions() {
    let mut rng = Rng(3);
    for bits in [8, 16, 32, 64, 128] {
        for small in [2, 3, 4, 5, 7, 8, 9, 15, 16, 17, 31, 33, 65] {
            for large in [3, 16, 37, 129] {
                for perm in [[1, 0, 2], [0, 2, 1], [2, 1, 0], [2, 0, 1], [1, 2, 0]] {
                    let mut shape = [large, 3, small];
                    shape.rotate_left(rng.below(3));
                    let from = Layout::row_major(&shape, bits);
                    let to = Layout::from_order(&shape, bits, &perm).expect("a permutation");
                    check_all(&mut rng, &from, &to, &[1]);
                }
            }
        }
    }
}

/// Streams of all numbers and widths at many positions, where kernels process all positions at once.
#[test]
fn streams_at_many_places() {
    let mut rng = Rng(17);
    for bits in [8, 16, 32, 64, 128] {
        for streams in 2..=8 {
            for length in [5, 64, 80, 129] {
                let shape = [3, 2, 4, streams, length];
                let from = Layout::row_major(&shape, bits);
                for perm in [[0, 1, 2, 4, 3], [1, 0, 2, 4, 3], [2, 0, 1, 4, 3]] {
                    let to = Layout::from_order(&shape, bits, &perm).expect("a permutation");
                    check_all(&mut rng, &from, &to, &[1, 2]);
                    check_all(&mut rng, &to, &from, &[1]);
                }
            }
        }
    }
}

#[test]
fn the_tiles_of_accelerators() {
    let mut rng = Rng(2);
    for (dtype, tile) in [
        ("f32", "(8,128)"),
        ("bf16", "(8,128)(2,1)"),
        ("s8", "(8,128)(4,1)"),
    ] {
        let tiled = format!("{dtype}[100,300]{{1,0:T{tile}}}");
        let to = parse_tensor(&tiled).expect("a shape").layout;
        let from = Layout::row_major(&[100, 300], to.elem_bits());
        check_all(&mut rng, &from, &to, &[1, 2]);
        check_all(&mut rng, &to, &from, &[1, 2]);
        let plan = ConversionPlan::new(&from, &to, ConversionOptions::default());
        let kernels = plan.expect("the layouts fit").to_string();
        assert!(kernels.lines().count() <= 8, "{kernels}");
    }
}

#[test]
fn padding_is_boxes_too() {
    let to = parse_tensor("f32[1000,1000]{1,0:T(8,128)}")
        .expect("a shape")
        .layout;
    let from = Layout::row_major(&[1000, 1000], 32);
    let zeroed = ConversionOptions {
        padding: Padding::Zero,
        ..ConversionOptions::default()
    };
    let plan = ConversionPlan::new(&from, &to, zeroed).expect("the layouts fit");
    assert_eq!(plan.moved().written(), to.bytes(), "\n{plan}");
}

#[test]
fn elements_at_one_place_end_in_logical_order() {
    let mut rng = Rng(9);
    for text in ["strides = [1, 1]", "strides = [0, 1]", "strides = [3, 2]"] {
        let to = parse_tensor(&format!("tensor<5x7xsi8, {{{text}}}>"))
            .expect("a tensor")
            .layout;
        check_all(&mut rng, &Layout::row_major(&[5, 7], 8), &to, &[1, 3]);
    }
}

#[test]
fn boxes_have_every_element_once() {
    let mut rng = Rng(4);
    for _ in 0..500 {
        let rank = 1 + rng.below(4);
        let shape: Vec<u64> = (0..rank).map(|_| 1 + rng.below(12) as u64).collect();
        let (from, to) = (layout(&mut rng, &shape, 8), layout(&mut rng, &shape, 8));
        let Some(boxes) = affine_boxes(&from, &to, 1 << 12) else {
            continue;
        };
        let elements = boxes.iter().map(|b| b.sizes.iter().product::<u64>());
        assert_eq!(elements.sum::<u64>(), from.elements());
    }
}

#[test]
fn what_does_not_fit_is_refused() {
    let f32s = |shape: &[u64]| Layout::row_major(shape, 32);
    let plan = |from: &Layout, to: &Layout| {
        ConversionPlan::new(from, to, ConversionOptions::default()).map(|_| ())
    };
    let shape = plan(&f32s(&[2, 3]), &f32s(&[3, 2]));
    assert!(matches!(shape, Err(ConversionError::Shape { .. })));
    let width = plan(&f32s(&[2, 3]), &Layout::row_major(&[2, 3], 8));
    assert_eq!(
        width,
        Err(ConversionError::Width {
            found: 8,
            wanted: 32
        })
    );
    let large = plan(&f32s(&[1 << 62]), &f32s(&[1 << 62]));
    assert!(matches!(large, Err(ConversionError::TooLarge { .. })));
    let plan = ConversionPlan::new(&f32s(&[2]), &f32s(&[2]), ConversionOptions::default());
    let plan = plan.expect("the layouts fit");
    let mut moved = Moved::default();
    let short = plan.execute(&[0; 7], &mut [0; 8], &mut moved);
    assert_eq!(
        short,
        Err(ConversionError::SourceBytes {
            found: 7,
            wanted: 8
        })
    );
    let long = plan.execute(&[0; 8], &mut [0; 9], &mut moved);
    assert_eq!(
        long,
        Err(ConversionError::TargetBytes {
            found: 9,
            wanted: 8
        })
    );
    assert_eq!(moved.bytes(), 0);
}

#[test]
fn tensors_without_elements_and_of_one() {
    let mut rng = Rng(1);
    for shape in [&[][..], &[0], &[3, 0, 2], &[1, 1]] {
        let layout = Layout::row_major(shape, 16);
        check_all(&mut rng, &layout, &layout, &[1, 2]);
    }
}

#[test]
fn plans_are_made_once() {
    let mut cache = PlanCache::default();
    let from = Layout::row_major(&[4, 6], 32);
    let to = Layout::from_order(&[4, 6], 32, &[1, 0]).expect("a permutation");
    let options = ConversionOptions::default();
    let first = cache.plan(&from, &to, options).expect("the layouts fit");
    let strided = parse_tensor("tensor<4x6xf32, {strides = [1, 4]}>")
        .expect("a tensor")
        .layout;
    let second = cache
        .plan(&from, &strided, options)
        .expect("the layouts fit");
    assert!(std::sync::Arc::ptr_eq(&first, &second));
    let bytes = Layout::row_major(&[4, 6], 8);
    cache
        .plan(&bytes, &bytes, options)
        .expect("the layouts fit");
    assert_eq!(cache.len(), 2);
}
