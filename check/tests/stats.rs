//! Statistics that the declaration of an operation does not determine alone.

use optc_check::Stats;

#[track_caller]
fn stats(text: &str) -> Stats {
    let module = optc_ir::text::parse(text).expect("the program parses");
    Stats::of(&module, &optc_ops::registry())
}

/// The statistics of a product of `x` with this matrix.
fn product(matrix: &str) -> Stats {
    stats(&format!(
        r#"%m = "hbir.constant"() <{{value = dense<{matrix}> : tensor<2x2xf32>}}> : () -> tensor<2x2xf32>
%y = "hbir.matmul"(%x, %m) : (tensor<3x2xf32>, tensor<2x2xf32>) -> tensor<3x2xf32>
"#
    ))
}

#[test]
fn products_with_permutation_matrices_move() {
    let swapped = product("[[0.0, 1.0], [1.0, 0.0]]");
    assert_eq!((swapped.movement_ops, swapped.movement_bytes), (1, 48));
    assert_eq!(product("[[0.0, 1.0], [2.0, 0.0]]").movement_ops, 0);
    assert_eq!(product("[[0.0, 1.0], [0.0, 1.0]]").movement_ops, 0);
}

#[test]
fn opaque_operations_count_by_kind() {
    let opaque = |kind: &str, domain: &str| {
        stats(&format!(
            r#"%y = "hbir.opaque"(%x) <{{kind = "{kind}", domain = "{domain}"}}> : (tensor<3x2xf32>) -> tensor<2x2xf32>
"#
        ))
    };
    let reversed = opaque("ReverseSequence", "");
    assert_eq!((reversed.copy_ops, reversed.copy_bytes), (1, 40));
    let picked = opaque("Compress", "ai.onnx");
    assert_eq!((picked.copy_ops, picked.copy_bytes), (1, 32));
    assert_eq!(opaque("Compress", "other").copy_ops, 0);
    assert_eq!(opaque("LSTM", "").copy_ops, 0);
    assert_eq!(opaque("Tile", "").expand_ops, 1);
    let blocks = opaque("ReorderInput", "com.microsoft.nchwc");
    assert_eq!((blocks.movement_ops, blocks.movement_bytes), (1, 40));
}

#[test]
fn what_draws_at_random_is_no_constant() {
    let transposed = |effect: &str| {
        stats(&format!(
            r#"%c = "hbir.constant"() <{{value = dense<1.0> : tensor<2x3xf32>}}> : () -> tensor<2x3xf32>
%r = "hbir.opaque"(%c) <{{kind = "Det", domain = ""{effect}}}> : (tensor<2x3xf32>) -> tensor<2x3xf32>
%y = "hbir.transpose"(%r) <{{perm = [1, 0]}}> : (tensor<2x3xf32>) -> tensor<3x2xf32>
"#
        ))
    };
    for effect in ["random", "read", "write", "token"] {
        let drawn = transposed(&format!(", effect = \"{effect}\""));
        assert_eq!((drawn.movement_ops, drawn.constant_movement_ops), (1, 0));
    }
    // The operation is undeclared.
    let undeclared = transposed("");
    assert_eq!(
        (undeclared.movement_ops, undeclared.movement_bytes),
        (1, 48)
    );
    let computed = transposed(", effect = \"pure\"");
    assert_eq!(
        (computed.movement_ops, computed.constant_movement_ops),
        (0, 1)
    );
}
