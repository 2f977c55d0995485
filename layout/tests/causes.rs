//! Refused views name the dimension that the layouts disagree on.

use optc_layout::notation::parse_tensor;
use optc_layout::{Layout, ViewMap, is_view};

fn layout(text: &str) -> Layout {
    parse_tensor(text)
        .unwrap_or_else(|error| panic!("{text}: {error}"))
        .layout
}

#[test]
fn refusals_name_the_dimension() {
    let cases = [
        (
            "f32[1,56,56,96]{3,2,1,0:T(8,128)}",
            "f32[8,7,8,7,96]{4,3,2,1,0:T(8,128)}",
            &[][..],
            "dimension 3 of the result is padded from 7 to 8",
        ),
        (
            "f32[1,56,56,256]{3,2,1,0:T(8,128)}",
            "f32[8,7,8,7,256]{4,3,2,1,0:T(8,128)}",
            &[],
            "dimension 2 of the operand is cut at 7 inside a tile of 8",
        ),
        (
            "f32[8,1024]{1,0:T(8,128)}",
            "f32[8,16,64]{2,1,0:T(8,128)}",
            &[],
            "dimension 1 of the operand is cut at 64 inside a tile of 128",
        ),
        (
            "f32[12,4,128]{2,1,0:T(8,128)}",
            "f32[48,128]{1,0:T(8,128)}",
            &[],
            "dimension 1 of the operand is padded from 4 to 8",
        ),
        (
            "f32[12,4,256]{2,1,0:T(8,128)}",
            "f32[48,256]{1,0:T(8,128)}",
            &[],
            "dimension 0 of the result is cut at 4 inside a tile of 8",
        ),
        (
            "f32[4,8]{1,0}",
            "f32[8,4]{1,0}",
            &[1, 0],
            "where the result wants dimension 1, the operand has what becomes dimension 0",
        ),
        (
            "f32[16,256]{1,0:T(8,128)}",
            "f32[16,256]{1,0:T(4,128)}",
            &[],
            "dimension 0 is in runs of 8 in the operand and of 4 in the result",
        ),
        (
            "f32[4,100]{1,0:T(8,128)}",
            "f32[4,100]{1,0:T(8,64)}",
            &[],
            "dimension 1 is in runs of 100 in the operand and of 64 in the result",
        ),
        (
            "f32[4,100]{1,0:T(4,128)}",
            "f32[4,100]{1,0:T(4,256)}",
            &[],
            "dimension 1 takes 128 positions in the operand and 256 in the result",
        ),
    ];
    for (input, output, perm, wanted) in cases {
        let (a, b) = (layout(input), layout(output));
        let map = match perm {
            [] => ViewMap::reshape(b.shape()),
            perm => ViewMap::transpose(a.shape(), perm).expect("a permutation"),
        };
        let refusal = is_view(&a, &map, &b).expect_err(input);
        let cause = refusal.cause.map(|cause| cause.to_string());
        assert_eq!(cause.as_deref(), Some(wanted), "{input} -> {output}");
        assert!(refusal.to_string().ends_with(wanted), "{refusal}");
    }
}
