//! Positions of the greatest elements of windows, against numbers computed by hand.

use crate::ops_support;

use ops_support::{check, f32s, i64s, props, refuse, ty};
use optc_ir::op::{FreedomClass, OpRef};
use optc_ir::{DType, Type};

#[test]
fn places_count_through_the_whole_operand() {
    #[rustfmt::skip]
    let x = f32s(&[1, 2, 3, 3], &[
        5.0, 1.0, 6.0,
        2.0, 0.0, 3.0,
        7.0, 8.0, 4.0,

        0.0, 1.0, 2.0,
        3.0, 4.0, 5.0,
        6.0, 7.0, 8.0,
    ]);
    let rows = i64s(&[1, 2, 2, 2], &[0, 2, 7, 7, 13, 14, 16, 17]);
    let kernel = props! { kernel: [2, 2] };
    check(
        "hbir.max_pool_indices",
        std::slice::from_ref(&x),
        &kernel,
        &[rows],
    );
    let columns = i64s(&[1, 2, 2, 2], &[0, 6, 5, 5, 13, 16, 14, 17]);
    let kernel = props! { kernel: [2, 2], storage_order: 1 };
    check("hbir.max_pool_indices", &[x], &kernel, &[columns]);
}

/// Sizes that differ: the first spatial dimension varies fastest, 0 0, 1 0, 0 1, …
#[test]
fn columns_of_a_box() {
    let x = |at: usize| {
        let values: Vec<f64> = (0..12).map(|i| f64::from(u8::from(i == at))).collect();
        f32s(&[1, 1, 2, 3, 2], &values)
    };
    let kernel = props! { kernel: [2, 3, 2], storage_order: 1 };
    // Row-major number 1 is (0, 0, 1), 2 is (0, 1, 0), 6 is (1, 0, 0).
    for (at, wanted) in [(0, 0), (1, 6), (2, 2), (6, 1), (11, 11)] {
        let y = i64s(&[1, 1, 1, 1, 1], &[wanted]);
        check("hbir.max_pool_indices", &[x(at)], &kernel, &[y]);
    }
}

/// The first of equal elements; NaN before numbers; padding is never chosen; an empty window gives -1.
#[test]
fn ties_nan_and_padding() {
    let x = f32s(&[1, 1, 5], &[-1.0, -1.0, f64::NAN, 7.0, 7.0]);
    let kernel = props! { kernel: [2], strides: [1], pads: [1, 0] };
    let y = i64s(&[1, 1, 5], &[0, 0, 2, 2, 3]);
    check("hbir.max_pool_indices", &[x], &kernel, &[y]);
    let x = f32s(&[1, 1, 1], &[3.0]);
    let far = props! { kernel: [1], strides: [1], pads: [1, 0] };
    let y = i64s(&[1, 1, 2], &[-1, 0]);
    check("hbir.max_pool_indices", &[x], &far, &[y]);
}

#[test]
fn orders_and_types_are_refused() {
    let x = ty("1x1x4", DType::F32);
    let order = props! { kernel: [2], storage_order: 2 };
    refuse("hbir.max_pool_indices", &[x], &order, "pool-c6");
    let x = ty("1x1x4", DType::BOOL);
    refuse(
        "hbir.max_pool_indices",
        &[x],
        &props! { kernel: [2] },
        "pool-c5",
    );
}

/// The indices of a part of the operand differ from those of the whole, so no dimension may be cut.
#[test]
fn no_dimension_is_cut() {
    let (x, y) = (ty("2x4x6", DType::F32), ty("2x4x5", DType::SI64));
    let (operands, props) = ([&x as &Type], props! { kernel: [2] });
    let op = OpRef {
        name: "hbir.max_pool_indices",
        operands: operands.to_vec(),
        results: vec![&y],
        props: &props,
    };
    let registry = optc_ops::registry();
    let decl = registry.get(op.name).unwrap();
    let freedom = decl.freedom(&op);
    assert_eq!(freedom.class, FreedomClass::Window);
    assert!(freedom.labels.iter().all(|label| label.granule == 1));
    assert!(decl.iteration_domain(&op).loops.is_empty());
}
