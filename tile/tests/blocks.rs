//! Grids and blocks: slices, refusals, blocks that backends accept, revisited output blocks.

use optc_tile::block::{
    Backend, BlockDim, BlockError, BlockIndex, BlockSpec, Grid, RankOne, check_revisits,
    check_whole,
};

fn blocks(sizes: &[i64]) -> BlockSpec {
    BlockSpec::new(sizes.iter().map(|&n| BlockDim::Blocked(n)).collect()).unwrap()
}

fn element(size: i64, lo: i64, hi: i64) -> BlockDim {
    BlockDim::Element { size, lo, hi }
}

#[track_caller]
fn refused<T: std::fmt::Debug>(result: Result<T, BlockError>, words: &str) {
    let text = result.unwrap_err().to_string();
    assert!(text.contains(words), "found `{text}`, wanted `{words}`");
}

#[test]
fn the_last_axis_of_a_grid_runs_fastest() {
    let grid = Grid::new(vec![2, 3]).unwrap();
    let all: Vec<Vec<i64>> = grid.programs().collect();
    let wanted = [[0, 0], [0, 1], [0, 2], [1, 0], [1, 1], [1, 2]];
    assert_eq!(all, wanted);
    assert_eq!(grid.program_id(&all[4], 1), Ok(1));
    assert_eq!(grid.num_programs(1), Ok(3));
    refused(grid.num_programs(2), "the grid has 2 axes, found axis 2");
    refused(
        Grid::new(vec![2, -1]),
        "axis 1 of the grid has the extent -1",
    );
}

#[test]
fn an_empty_grid_is_one_program_and_an_axis_of_zero_is_none() {
    assert_eq!(Grid::default().programs().count(), 1);
    assert_eq!(Grid::new(vec![4, 0, 2]).unwrap().programs().count(), 0);
    let large = Grid::new(vec![1 << 40, 1 << 40]).unwrap();
    assert_eq!(large.count(), i64::MAX);
    assert_eq!(Grid::new(vec![i64::MAX, 2, 0]).unwrap().count(), 0);
}

/// Checks every slice against the definition, element by element.
#[test]
fn slices_hold_the_elements_of_the_definition() {
    let modes = [
        BlockDim::Blocked(3),
        BlockDim::Squeezed,
        element(3, 0, 0),
        element(3, 2, 4),
    ];
    for mode in modes {
        let spec = BlockSpec::new(vec![mode]).unwrap();
        for extent in 0..8i64 {
            for i in -4..12i64 {
                let start = match mode {
                    BlockDim::Blocked(n) => i * n,
                    BlockDim::Element { lo, .. } => i - lo,
                    _ => i,
                };
                let covered: Vec<i64> = (start..start + mode.size())
                    .filter(|e| (0..extent).contains(e))
                    .collect();
                match spec.slices_at(&[extent], &[i]) {
                    Ok(slice) => {
                        let found: Vec<i64> = (slice[0].first..slice[0].last).collect();
                        assert_eq!(found, covered, "{mode} of {extent} at {i}");
                        assert_eq!(
                            (slice[0].start, slice[0].stop),
                            (start, start + mode.size())
                        );
                    }
                    Err(_) => assert!(covered.is_empty(), "{mode} of {extent} at {i}"),
                }
            }
        }
    }
}

#[test]
fn a_block_without_elements_is_refused_with_its_place() {
    let spec = BlockSpec::new(vec![element(3, 3, 0)]).unwrap();
    refused(spec.slices_at(&[6], &[0]), "only-virtual-padding");
    refused(spec.slices_at(&[6], &[9]), "out-of-bounds");
    refused(
        blocks(&[2, 4]).slices_at(&[4, 8], &[1, 2]),
        "dimension 1: the block [8, 12)",
    );
    let far = blocks(&[2]).slices_at(&[4], &[i64::MAX]);
    refused(far, "out-of-bounds");
}

#[test]
fn a_malformed_spec_is_refused() {
    refused(
        BlockSpec::new(vec![BlockDim::Blocked(0)]),
        "has the size 0, wanted 1 or more",
    );
    refused(BlockSpec::new(vec![element(2, -1, 0)]), "padded by (-1, 0)");
    refused(
        blocks(&[2]).check(2, 2),
        "the block has 1 dimensions, wanted 2",
    );
    refused(
        blocks(&[2, 2]).check(2, 1),
        "the index map gives 1 values, wanted 2",
    );
    let bounded = BlockSpec::new(vec![BlockDim::BoundedSlice(4)]).unwrap();
    refused(
        bounded.slices_at(&[8], &[1]),
        "BoundedSlice(4), and its index is a number",
    );
    let slice = |start, size| BlockIndex::Slice { start, size };
    refused(
        bounded.slices(&[8], &[slice(0, 5)]),
        "a slice of 5 elements, wanted 1 to 4",
    );
    refused(
        blocks(&[4]).slices(&[8], &[slice(0, 4)]),
        "its index is a slice",
    );
    let found = bounded.slices(&[8], &[slice(6, 3)]).unwrap();
    assert_eq!((found[0].start, found[0].stop, found[0].last), (6, 9, 8));
}

#[test]
fn a_kernel_does_not_see_squeezed_dimensions() {
    let dims = vec![BlockDim::Squeezed, BlockDim::Blocked(2), element(3, 1, 1)];
    let spec = BlockSpec::new(dims).unwrap();
    assert_eq!(spec.ref_shape(), [2, 3]);
    assert_eq!(BlockSpec::whole(&[4, 5]).unwrap(), blocks(&[4, 5]));
}

const TPU: Backend = Backend::Tpu(RankOne::Current);

#[test]
fn the_rules_of_one_dimension_differ_between_the_code_and_the_page() {
    let page = Backend::Tpu(RankOne::Documented);
    let one = |n| blocks(&[n]);
    refused(TPU.check(&[4096], &one(384), 32), "a power of two from 128");
    assert_eq!(page.check(&[4096], &one(384), 32), Ok(()));
    assert_eq!(TPU.check(&[4096], &one(256), 16), Ok(()));
    refused(TPU.check(&[4096], &one(256), 8), "a power of two from 512");
    assert_eq!(TPU.check(&[4096], &one(1024), 4), Ok(()));
    refused(TPU.check(&[], &blocks(&[]), 32), "wants at least one");
}

#[test]
fn backends_differ_in_how_dimensions_may_be_cut() {
    let mixed = BlockSpec::new(vec![element(8, 0, 0), BlockDim::Blocked(128)]).unwrap();
    refused(
        TPU.check(&[16, 256], &mixed, 32),
        "dimension 1 of the block is 128, which the TPU",
    );
    assert_eq!(Backend::Interpret.check(&[16, 256], &mixed, 32), Ok(()));
    let padded = BlockSpec::new(vec![element(8, 1, 0), element(128, 0, 0)]).unwrap();
    assert_eq!(TPU.check(&[16, 256], &padded, 32), Ok(()));
    refused(
        Backend::Triton.check(&[16, 256], &padded, 32),
        "which Triton does not take",
    );
    refused(
        Backend::MosaicGpu.check(&[16, 256], &padded, 32),
        "which Mosaic GPU does not take",
    );
    let bounded = BlockSpec::new(vec![BlockDim::BoundedSlice(4)]).unwrap();
    assert_eq!(Backend::TpuPipeline.check(&[8], &bounded, 32), Ok(()));
    refused(
        Backend::Interpret.check(&[8], &bounded, 32),
        "BoundedSlice(4)",
    );
}

#[test]
fn gpus_want_whole_16_bytes_or_powers_of_two() {
    let gpu = Backend::MosaicGpu;
    assert_eq!(gpu.check(&[3, 8], &blocks(&[3, 5]), 16), Ok(()));
    refused(
        gpu.check(&[3, 7], &blocks(&[3, 5]), 16),
        "rows of a multiple of 16 bytes",
    );
    assert_eq!(Backend::Triton.check(&[3, 7], &blocks(&[4, 8]), 16), Ok(()));
    refused(
        Backend::Triton.check(&[3, 7], &blocks(&[3, 8]), 16),
        "24 elements",
    );
}

#[test]
fn an_output_block_is_written_by_consecutive_programs() {
    use optc_tile::Order::{Arbitrary, Parallel};
    let grid = Grid::new(vec![2, 3]).unwrap();
    let last = |p: &[i64]| vec![p[0]];
    let first = |p: &[i64]| vec![p[1]];
    assert_eq!(check_revisits(&grid, &[Parallel, Arbitrary], last), Ok(()));
    refused(
        check_revisits(&grid, &[Arbitrary, Arbitrary], first),
        "[0] is written by program [0, 0], left, and written again by [1, 0]",
    );
    refused(
        check_revisits(&grid, &[Arbitrary, Parallel], last),
        "several programs of axis 1, which is parallel",
    );
}

#[test]
fn what_stays_in_main_memory_is_handed_over_whole() {
    assert_eq!(check_whole(&[4, 8], &blocks(&[4, 8]), &[0, 0]), Ok(()));
    refused(
        check_whole(&[4, 8], &blocks(&[4, 4]), &[0, 0]),
        "dimension 1",
    );
    refused(
        check_whole(&[4, 8], &blocks(&[4, 8]), &[1, 0]),
        "dimension 0",
    );
}
