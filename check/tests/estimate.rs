//! Modelled times against numbers computed by hand.

use optc_check::Estimate;
use optc_check::estimate::{Limit, Prices};
use optc_ir::size::SizeTable;
use optc_ir::{DType, text};
use optc_target::Target;

/// A target with a rate of one product, one element on the vector unit, and one byte per nanosecond.
const TARGET: &str = "
name = 't'
summary = ''
spelling = 'order'
[[memory]]
name = 'm'
bandwidth = 1.0e9
[units.tensor]
summary = ''
rates = { 32 = 2.0e9, 8 = 8.0e9 }
[units.blocked]
summary = ''
rates = { 32 = 2.0e9 }
block = [8, 16, 32]
[units.vector]
summary = ''
rates = { f32 = 1.0e9 }
[units.silent]
summary = ''
[[rows]]
families = ['matmul']
unit = 'tensor'
take = [{}]
[[rows]]
families = ['conv']
unit = 'tensor'
take = [{}]
[[rows]]
families = ['elementwise']
unit = 'vector'
take = [{}]
[[rows]]
families = ['softmax']
unit = 'silent'
take = [{}]
[[rows]]
families = ['reduce']
unit = 'vector'
take = [{}]
[[rows]]
families = ['broadcast']
unit = 'vector'
take = [{}]
";

fn estimate_on(target: &str, body: &str, cast: Option<DType>) -> Estimate {
    let target = Target::parse(target).unwrap();
    let prices = Prices {
        target: &target,
        sizes: &SizeTable::default(),
        cast,
    };
    let module = text::parse(body).unwrap();
    Estimate::of(&module, &optc_ops::registry(), &prices).unwrap()
}

fn estimate(body: &str) -> Estimate {
    estimate_on(TARGET, body, None)
}

/// The work, bytes and number of operations of each item.
fn items(estimate: &Estimate) -> Vec<(u64, u64, usize)> {
    let items = estimate.items.iter();
    items
        .map(|item| (item.work, item.bytes, item.ops.len()))
        .collect()
}

#[track_caller]
fn assert_near(found: f64, wanted: f64) {
    assert!(
        (found - wanted).abs() <= 1e-9 * wanted.abs(),
        "{found} {wanted}"
    );
}

const MATMUL: &str =
    r#"%0 = "hbir.matmul"(%x, %y) : (tensor<10x20xf32>, tensor<20x30xf32>) -> tensor<10x30xf32>"#;

#[test]
fn a_product_is_bound_by_the_slower_of_work_and_bytes() {
    let found = estimate(MATMUL);
    let bytes = (10 * 20 + 20 * 30 + 10 * 30) * 4;
    assert_eq!(items(&found), [(2 * 10 * 20 * 30, bytes, 1)]);
    let item = &found.items[0];
    assert_eq!(
        (item.limit(), item.unit.as_deref()),
        (Limit::Compute, Some("tensor"))
    );
    assert_near(found.seconds(), 6000e-9);
    // With ten times the speed, the bytes dominate.
    assert_near(found.seconds_at(10.0), 4400e-9);
    let flat = estimate(
        r#"%0 = "hbir.matmul"(%x, %y) : (tensor<1x20xf32>, tensor<20x30xf32>) -> tensor<1x30xf32>"#,
    );
    assert_eq!(flat.items[0].limit(), Limit::Memory);
    assert_near(flat.seconds(), f64::from((20 + 600 + 30) * 4) * 1e-9);
}

#[test]
fn work_is_rounded_up_to_blocks() {
    let blocked = TARGET.replace(
        "['matmul']\nunit = 'tensor'",
        "['matmul']\nunit = 'blocked'",
    );
    let found = estimate_on(&blocked, MATMUL, None);
    assert_eq!(found.work(), 2 * 16 * 32 * 32);
    let batched = r#"%0 = "hbir.matmul"(%x, %y) : (tensor<3x10x20xf32>, tensor<3x20x30xf32>) -> tensor<3x10x30xf32>"#;
    assert_eq!(
        estimate_on(&blocked, batched, None).work(),
        3 * 2 * 16 * 32 * 32
    );
}

#[test]
fn convolutions_work_on_every_weight_of_every_window() {
    let plain = estimate(
        r#"%0 = "hbir.conv"(%x, %y) : (tensor<1x4x5x5xf32>, tensor<8x4x3x3xf32>) -> tensor<1x8x3x3xf32>"#,
    );
    assert_eq!(plain.work(), 2 * 8 * 9 * 4 * 9);
    let depthwise = estimate(
        r#"%0 = "hbir.conv"(%x, %y) <{group = 4}> : (tensor<1x4x5x5xf32>, tensor<4x1x3x3xf32>) -> tensor<1x4x3x3xf32>"#,
    );
    assert_eq!(depthwise.work(), 2 * 4 * 9 * 9);
    let transposed = estimate(
        r#"%0 = "hbir.conv"(%x, %y) <{transposed = true}> : (tensor<1x4x5x5xf32>, tensor<4x8x3x3xf32>) -> tensor<1x8x7x7xf32>"#,
    );
    assert_eq!(transposed.work(), 2 * 4 * 25 * 8 * 9);
}

#[test]
fn chains_read_and_write_once() {
    let found = estimate(
        r#"%0 = "hbir.relu"(%x) : (tensor<8x4xf32>) -> tensor<8x4xf32>
           %1 = "hbir.reshape"(%0) <{shape = [4, 8]}> : (tensor<8x4xf32>) -> tensor<4x8xf32>
           %2 = "hbir.neg"(%1) : (tensor<4x8xf32>) -> tensor<4x8xf32>
           %3 = "hbir.add"(%1, %2) : (tensor<4x8xf32>, tensor<4x8xf32>) -> tensor<4x8xf32>"#,
    );
    assert_eq!(items(&found), [(3 * 32, 2 * 32 * 4, 3)]);
    // A transpose between the operations moves elements, so it is in no chain.
    let apart = estimate(
        r#"%0 = "hbir.relu"(%x) : (tensor<8x4xf32>) -> tensor<8x4xf32>
           %1 = "hbir.transpose"(%0) <{perm = [1, 0]}> : (tensor<8x4xf32>) -> tensor<4x8xf32>
           %2 = "hbir.neg"(%1) : (tensor<4x8xf32>) -> tensor<4x8xf32>"#,
    );
    assert_eq!(items(&apart), [(32, 256, 1), (0, 256, 1), (32, 256, 1)]);
    assert_eq!(apart.items[1].unit, None);
}

/// A value that reaches the sum both directly and through a product is stored, since the sum depends on the product.
#[test]
fn no_chain_waits_for_itself() {
    let found = estimate(
        r#"%0 = "hbir.relu"(%x) : (tensor<4x4xf32>) -> tensor<4x4xf32>
           %1 = "hbir.matmul"(%0, %y) : (tensor<4x4xf32>, tensor<4x4xf32>) -> tensor<4x4xf32>
           %2 = "hbir.add"(%0, %1) : (tensor<4x4xf32>, tensor<4x4xf32>) -> tensor<4x4xf32>"#,
    );
    assert_eq!(items(&found), [(16, 128, 1), (128, 192, 1), (16, 192, 1)]);
}

#[test]
fn a_cast_prices_floats_alone() {
    let program = r#"%0 = "hbir.matmul"(%x, %y) : (tensor<10x20xf32>, tensor<20x30xf32>) -> tensor<10x30xf32>
        %1 = "hbir.gather"(%0, %i) <{axis = 0}> : (tensor<10x30xf32>, tensor<2xsi64>) -> tensor<2x30xf32>"#;
    let found = estimate_on(TARGET, program, Some(DType::SI8));
    let bytes: Vec<u64> = found.items.iter().map(|item| item.bytes).collect();
    assert_eq!(bytes[0], 200 + 600 + 300);
    assert_near(found.items[0].seconds(), 12000.0 / 8e9);
    let plain = estimate(program);
    // The bytes of the rows that are read and written, without the indices.
    let saved = plain.items[1].bytes - bytes[1];
    assert_eq!(saved, 2 * 60 * 3);
}

#[test]
fn what_is_constant_or_dead_takes_no_time() {
    let found = estimate(
        r#"func.func @main(%x: tensor<2x3xf32>) -> tensor<3x2xf32> {
             %0 = "hbir.constant"() <{value = dense<1.0> : tensor<2x3xf32>}> : () -> tensor<2x3xf32>
             %1 = "hbir.transpose"(%0) <{perm = [1, 0]}> : (tensor<2x3xf32>) -> tensor<3x2xf32>
             %2 = "hbir.exp"(%x) : (tensor<2x3xf32>) -> tensor<2x3xf32>
             return %1 : tensor<3x2xf32>
           }"#,
    );
    assert_eq!(items(&found), []);
    assert_near(found.seconds(), 0.0);
}

#[test]
fn work_without_a_rate_is_told() {
    let found = estimate(r#"%0 = "hbir.softmax"(%x) : (tensor<2x8xf32>) -> tensor<2x8xf32>"#);
    assert_eq!((found.unrated(), found.work()), (1, 5 * 16));
    assert_near(found.seconds(), 128e-9);
    // Every type narrower than one with a rate has a rate.
    let wide = estimate(r#"%0 = "hbir.exp"(%x) : (tensor<2x8xf64>) -> tensor<2x8xf64>"#);
    assert_eq!(wide.unrated(), 1);
    let narrow = estimate(r#"%0 = "hbir.exp"(%x) : (tensor<2x8xf16>) -> tensor<2x8xf16>"#);
    assert_eq!(narrow.unrated(), 0);
}

/// If a target takes only whole blocks, values without a layout are read and written in whole blocks.
#[test]
fn padding_that_a_row_wants_is_moved() {
    let target = TARGET.replace(
        "families = ['matmul']\nunit = 'tensor'\ntake = [{}]",
        "families = ['matmul']\nunit = 'tensor'\ntake = [{ block = 128 }]",
    );
    let found = estimate_on(&target, MATMUL, None);
    assert_eq!(found.bytes(), (10 + 20 + 10) * 128 * 4);
}

#[test]
fn unknown_sizes_are_those_of_the_table() {
    let found = estimate(
        r#"func.func @main(%x: tensor<?x4xf32>) -> tensor<?x4xf32> {
             %0 = "hbir.exp"(%x) : (tensor<?x4xf32>) -> tensor<?x4xf32>
             return %0 : tensor<?x4xf32>
           }"#,
    );
    assert_eq!(items(&found), [(128 * 4, 2 * 128 * 4 * 4, 1)]);
}

#[test]
fn a_target_without_memory_has_no_times() {
    let target = Target::parse("name='t'\nsummary=''\nspelling='order'\n[units]\n");
    let prices = Prices {
        target: &target.unwrap(),
        sizes: &SizeTable::default(),
        cast: None,
    };
    let module = text::parse(MATMUL).unwrap();
    assert_eq!(Estimate::of(&module, &optc_ops::registry(), &prices), None);
}
