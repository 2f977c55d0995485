//! The texts that each notation reads, prints and refuses.

use optc_layout::notation::parse_tensor;
use optc_layout::{Layout, NotationKind, ViewMap, is_view, propagate};

fn layout(text: &str) -> Layout {
    parse_tensor(text)
        .unwrap_or_else(|error| panic!("{text}: {error}"))
        .layout
}

#[track_caller]
fn reads(text: &str, canonical: &str) {
    assert_eq!(layout(text).notation().to_string(), canonical, "{text}");
}

#[track_caller]
fn refuses(text: &str, message: &str) {
    match parse_tensor(text) {
        Ok(tensor) => panic!("{text} reads as {}", tensor.layout.notation()),
        Err(error) => assert_eq!(error.to_string(), message, "{text}"),
    }
}

#[track_caller]
fn converts(text: &str, notation: NotationKind, wanted: &str) {
    let got = match layout(text).convert(notation) {
        Ok(other) => other.notation().to_string(),
        Err(error) => error.to_string(),
    };
    assert_eq!(got, wanted, "{text}");
}

/// A buffer of 2^63 bytes or more is refused, whatever the padding.
#[test]
fn padding_has_fewer_than_2_to_the_63_bytes() {
    let tail = |n: u64| format!("tensor<4xf32, {{xla = \"0:L({n})\"}}>");
    let large = (1u64 << 61) - 1;
    assert_eq!(layout(&tail(large)).bytes(), 4 * large);
    assert_eq!(
        layout(&format!(
            "tensor<4xsi8, {{xla = \"0:L({})\"}}>",
            (1u64 << 62)
        ))
        .bytes(),
        1 << 62
    );
    for n in [1u64 << 61, (1 << 63) - 1] {
        refuses(
            &tail(n),
            "at character 12: the buffer of a tensor of shape [4] has more than 2^63-1 positions or bytes",
        );
    }
}

#[test]
fn canonical_text_and_sugar() {
    let two = "block = \"2W2H\", order = [1, 0]";
    reads("tensor<4x8xsi8, {block = \"2W2H\", order = [1, 0]}>", two);
    reads("tensor<4x8xsi8, block = \"2W2H\", order = [1, 0]>", two);
    reads(
        "tensor<4x8xsi8, layout = {block = 2W2H, order = [1, 0]}>",
        two,
    );
    reads(
        "tensor<4x8xsi8, {order = [1 : i64, 0 : i64], block = 2W2H}>",
        two,
    );
    reads(
        "tensor<4x8xsi8, {order = array<i64: 1, 0>}>",
        "order = [1, 0]",
    );
    reads(
        "tensor<4x8xsi8, {block = 2d1 8d0}>",
        "block = \"2d1 8d0\", order = [0, 1]",
    );
    reads(
        "tensor<128xsi8, digits = 32:d0 4:d0/32>",
        "digits = \"32:d0 4:d0/32\"",
    );
    reads(
        "tensor<5x6x2x2xsi8, digits = \"*:d0 2:d1 3:d1/2 *:(d2*d3)\">",
        "digits = \"*:d0 2:d1 3:d1/2 *:(d2*d3)\"",
    );
    reads("tensor<4x8xsi8>", "");
    reads("tensor<f32>", "");
    reads("f32[3,5]{1,0:T(2,2)}", "xla = \"1,0:T(2,2)\"");
    reads("f32[3,5]{ 1, 0 : T(2,2) S(1) }", "xla = \"1,0:T(2,2)S(1)\"");
    reads(
        "tensor<4x8xi4, {space = 1, ebits = 8, digits = \"4:d0 8:d1\"}>",
        "digits = \"4:d0 8:d1\", ebits = 8, space = 1",
    );
    reads(
        "tensor<6x6xf32, {axes = \"dh\", block = \"2d3h\"}>",
        "axes = \"dh\", block = \"2d3h\", order = [0, 1]",
    );
}

#[test]
fn refusals_point_at_the_mistake() {
    refuses(
        "tensor<4x8xsi8, {block = \"2X\"}>",
        "at character 26: `X` names no dimension, expected one of HW",
    );
    refuses(
        "tensor<4x8xsi8, {block = \"2W0H\"}>",
        "at character 28: in `block = \"2W0H\"` at character 2: found `0`, expected a block size of 1 or more",
    );
    refuses(
        "tensor<4x8xsi8, {order = [0, 0]}>",
        "at character 25: `order` is [0, 0], expected a permutation of 0 to 2 (exclusive)",
    );
    refuses(
        "tensor<4x8xsi8, {block = \"2W2W|2W\"}>",
        "at character 26: level 1 of the block names W twice; only the last level may",
    );
    refuses(
        "tensor<4x8xsi8, {block = \"2W|2H\"}>",
        "at character 26: level 2 of the block cuts H, which the level outside it does not name",
    );
    refuses(
        "tensor<4x8xfoo>",
        "at character 11: found `foo`, expected an element type such as f32 or si8",
    );
    refuses(
        "tensor<?x8xsi8>",
        "at character 7: found `?x8xsi8`, expected a known size: a layout needs the sizes",
    );
    refuses(
        "f32[8]{0:S(1)T(8)}",
        "at character 13: found `T`, expected `}`, or attributes in the order T, L, E, S, SC, M after `:`",
    );
}

#[test]
fn digits_are_a_bijection() {
    refuses(
        "tensor<4xsi8, {digits = \"2:d0\"}>",
        "at character 25: no digit holds values 0 to 3 of d0: elements would share a position",
    );
    refuses(
        "tensor<4x4xsi8, {digits = \"4:d0\"}>",
        "at character 27: no digit holds values 0 to 3 of d1: elements would share a position",
    );
    refuses(
        "tensor<4xsi8, {digits = \"4:d0 4:d0\"}>",
        "at character 25: digit `4:d0` overlaps digit `4:d0`: together they are no mixed radix",
    );
    refuses(
        "tensor<6xsi8, {digits = \"2:d0 3:d0\"}>",
        "at character 25: no digit holds values 0 to 5 of d0: elements would share a position",
    );
}

/// `*` means as many positions as the dimensions have indices.
#[test]
fn whole_digits_are_as_long_as_their_dimensions() {
    for size in [0, 1, 3, 128] {
        let of = |digits: &str| {
            layout(&format!(
                "tensor<{size}x6x2xsi8, {{digits = \"{digits}\"}}>"
            ))
        };
        let whole = of("2:d1 *:(d0*d2) 3:d1/2");
        assert!(whole.same_function(&of(&format!("2:d1 {}:(d0*d2) 3:d1/2", size * 2))));
        let rest = of("2:d1 *:d2 *:d1/2 *:d0/4 4:d0");
        let sized = format!("2:d1 2:d2 3:d1/2 {}:d0/4 4:d0", u64::div_ceil(size, 4));
        assert!(rest.same_function(&of(&sized)));
    }
    refuses(
        "tensor<4xsi8, {digits = \"*:_ 4:d0\"}>",
        "at character 27: in `digits = \"*:_ 4:d0\"` at character 2: found `_`, expected `d`",
    );
}

#[test]
fn one_function_in_other_notations() {
    let tiled = "tensor<20x300xf32, {xla = \"1,0:T(8,128)(2,1)\"}>";
    // An inner tile cuts a dimension that the outer tiles do not cut: one block.
    converts(
        "tensor<5x1x8x7xf32, {xla = \"3,0,2,1:T(4,2)(2,1)(5,1,1,1,1,1,1,1)\"}>",
        NotationKind::Block,
        "block = \"2N2C2N5H\", order = [1, 2, 0, 3]",
    );
    converts(
        tiled,
        NotationKind::Block,
        "block = \"8H128W|2H1W\", order = [0, 1]",
    );
    converts(
        tiled,
        NotationKind::Digits,
        "digits = \"3:d0/8 3:d1/128 4:d0/2 128:d1 2:d0\"",
    );
    converts(
        tiled,
        NotationKind::Strided,
        "strided notation cannot express this layout: d1 is not one run with a constant stride",
    );
    converts(
        "tensor<16xf32, {block = \"8W|3W\"}>",
        NotationKind::Digits,
        "digits = \"2:d0/8 9:d0%8\"",
    );
    converts(
        "tensor<16xf32, {block = \"8W|3W\"}>",
        NotationKind::Xla,
        "xla = \"0:T(8)(3)\"",
    );
    let blocked = "tensor<20x300xf32, {block = \"8H128W|2H1W\", order = [0, 1]}>";
    converts(blocked, NotationKind::Xla, "xla = \"1,0:T(8,128)(2,1)\"");
    let flat = "tensor<32x128xf32, {block = \"128W\", order = [0, 1]}>";
    converts(flat, NotationKind::Strided, "strides = [128, 1]");
}

#[test]
fn propagated_layouts_keep_their_notation() {
    let x = layout("tensor<128x128xsi8, {block = \"128W\", order = [0, 1]}>");
    let split =
        propagate(&x, &ViewMap::reshape(&[4, 32, 128])).expect("a reshape of a dense value");
    assert_eq!(
        split.notation().to_string(),
        "block = \"128C\", order = [0, 1, 2]"
    );
    let map = ViewMap::transpose(split.shape(), &[1, 0, 2]).expect("a permutation");
    let moved = propagate(&split, &map).expect("a transpose");
    assert_eq!(
        moved.notation().to_string(),
        "block = \"128C\", order = [1, 0, 2]"
    );
    let columns = Layout::from_order(&[4, 32], 8, &[1, 0]).expect("an order");
    let flat = propagate(&columns, &ViewMap::reshape(&[128])).expect("a reshape");
    assert_eq!(flat.notation().to_string(), "digits = \"32:d0 4:d0/32\"");
    let tail = layout("tensor<12xsi8, {block = \"5W\"}>");
    let map = ViewMap {
        shape: Some(vec![3, 4]),
        perm: Some(vec![1, 0]),
        result: vec![4, 3],
    };
    let moved = propagate(&tail, &map).expect("padding at the end stays there");
    assert_eq!(
        moved.notation().to_string(),
        "digits = \"3:d1 4:d0\", tail = 15"
    );
}

#[test]
fn a_mistaken_block_letter_gets_a_hint() {
    let x = layout("tensor<128x128xsi8, {block = \"128W\", order = [0, 1]}>");
    let y = layout("tensor<4x32x128xsi8, {block = \"128W\", order = [0, 1, 2]}>");
    let error = is_view(&x, &ViewMap::reshape(&[4, 32, 128]), &y).expect_err("W is the 32");
    assert_eq!(
        error.to_string(),
        "the operand's buffer has 16384 bytes, the result's 65536; \
         dimension 1 of the result is padded from 32 to 128; \
         W is dimension 1 (size 32) of HWC; did you mean 128C or axes = \"NHW\"?"
    );
}

#[test]
fn sizes_count_padding_width_and_space() {
    let x = layout("bf16[8,1,1280,16384]{3,2,0,1:T(8,128)(2,1)}");
    assert_eq!(x.bytes(), 335_544_320);
    let packed = layout("s4[64,128]{1,0:T(64,128)(8,1)E(4)S(1)}");
    assert_eq!(
        (packed.bytes(), packed.elem_bits(), packed.space()),
        (4096, 4, 1)
    );
    assert_eq!(layout("f32[3,5]{1,0:T(2,2)}").index(&[2, 3]), Some(17));
    assert_eq!(layout("tensor<0x8xf32, {block = \"4W\"}>").bytes(), 0);
}

#[test]
fn tiles_over_merged_dimensions_come_back_from_digits() {
    let cases = [
        (
            "2x7x8x11x10",
            "4,3,2,1,0:T(*,*,2,*,3)",
            "4,3,2,1,0:T(2,*,3)",
        ),
        ("4x6x130", "2,1,0:T(*,8,128)", "2,1,0:T(*,8,128)"),
        (
            "4x6x130",
            "2,1,0:T(*,8,128)(2,1)S(1)",
            "2,1,0:T(*,8,128)(2,1)S(1)",
        ),
        ("6x10", "1,0:T(*,7)", "1,0:L(7)"),
        ("6x10", "0,1:L(64)", "0,1:L(8)"),
    ];
    for (dims, tiles, wanted) in cases {
        let parse = |encoding: &str| {
            let text = format!("tensor<{dims}xf32, {{{encoding}}}>");
            parse_tensor(&text)
                .unwrap_or_else(|error| panic!("{text}: {error}"))
                .layout
        };
        let layout = parse(&format!("xla = \"{tiles}\""));
        let digits = layout
            .convert(NotationKind::Digits)
            .expect("digits write it");
        let digits = parse(&digits.notation().to_string());
        let back = digits.convert(NotationKind::Xla).expect("tiles write it");
        assert!(back.same_function(&layout), "{tiles}");
        assert_eq!(
            back.notation().to_string(),
            format!("xla = \"{wanted}\""),
            "{tiles}"
        );
    }
}

#[test]
fn repeated_tiles_sort_digits() {
    let cases = [
        "tensor<1x58x28x28xf32, {digits = \"2:d1 29:d1/2 28:d2 28:d3\"}>",
        "tensor<4x3136x96xf32, {digits = \"4:d0 28:d1/112 56:d1 2:d1/56 96:d2\"}>",
        "tensor<128x64xf32, {digits = \"128:d0 64:d1 128:_\"}>",
        "tensor<3x5x7xf32, {digits = \"3:d0 5:d1 7:d2\", tail = 128}>",
        "tensor<64x768xbf16, {digits = \"64:d0 8:d1/128 128:d1%64 2:d1/64\"}>",
        "tensor<33x129xsi8, {digits = \"10:(d0*d1)/512 128:(d0*d1) 4:(d0*d1)/128\"}>",
        "tensor<8x9x10xf32, {digits = \"5:d2/2 2:d0 3:d1/3 4:d0/2 2:_ 3:d1 2:d2\", space = 1}>",
    ];
    for text in cases {
        let layout = layout(text);
        let tiles = layout
            .convert(NotationKind::Xla)
            .unwrap_or_else(|error| panic!("{text}: {error}"));
        assert!(tiles.same_function(&layout), "{text}: {}", tiles.notation());
        let back = tiles
            .convert(NotationKind::Digits)
            .expect("digits write it");
        assert!(back.same_function(&layout), "{text}");
    }
    converts(
        "tensor<4x6xsi8, {strides = [13, 2]}>",
        NotationKind::Xla,
        "xla notation cannot express this layout: its strides do not divide one another",
    );
}
