//! A few conversions through every portable kernel, small enough for Miri.

mod support;

use optc_exec::{ConversionOptions, Isa, Padding};
use optc_layout::Layout;
use support::{Rng, check, expected, layout};

#[test]
fn portable_kernels_stay_inside_of_their_buffers() {
    let mut rng = Rng(21);
    for case in 0..40 {
        let rank = 1 + rng.below(4);
        let most = [0, 90, 10, 6, 4][rank];
        let shape: Vec<u64> = (0..rank).map(|_| 1 + rng.below(most) as u64).collect();
        let bits = [1, 4, 8, 16, 32, 64, 128][case % 7];
        let (from, to) = (
            layout(&mut rng, &shape, bits),
            layout(&mut rng, &shape, bits),
        );
        if 4096 < from.bytes() + to.bytes() {
            continue;
        }
        let source = rng.bytes(from.bytes());
        for padding in [Padding::Leave, Padding::Zero] {
            let wanted = expected(&from, &to, &source, padding);
            let options = ConversionOptions {
                padding,
                isa: Some(Isa::Portable),
                streamed_from: None,
            };
            check(&from, &to, &source, &wanted, options, 1);
        }
    }
}

/// Large enough for two threads, and small enough to be interpreted.
#[test]
fn threads_write_disjoint_places() {
    let shape = [96, 2, 176];
    let from = Layout::row_major(&shape, 16);
    let to = Layout::from_order(&shape, 16, &[2, 0, 1]).expect("a permutation");
    let source = Rng(8).bytes(from.bytes());
    let wanted = if cfg!(miri) {
        let mut wanted = vec![0; source.len()];
        for (i, pair) in source.chunks_exact(2).enumerate() {
            let at = (i % 176 * 192 + i / 176) * 2;
            wanted[at..at + 2].copy_from_slice(pair);
        }
        wanted
    } else {
        expected(&from, &to, &source, Padding::Leave)
    };
    check(
        &from,
        &to,
        &source,
        &wanted,
        ConversionOptions::default(),
        2,
    );
}
