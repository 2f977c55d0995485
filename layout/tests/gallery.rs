//! Layouts of machines and libraries, each compared at every element with the formula that its public source gives.

use optc_layout::notation::parse_tensor;

/// A layout of the gallery: the type, and the offset of an element in elements by the published formula.
struct Known {
    name: &'static str,
    ty: &'static str,
    formula: fn(&[u64], &[u64]) -> u64,
}

/// The smallest number of blocks that cover an extent.
fn blocks(extent: u64, block: u64) -> u64 {
    extent.div_ceil(block)
}

/// Arm Ethos-U: bricks of 16 channels, `[n][h][c / 16][w][c % 16]`.
fn nhcwb16(s: &[u64], i: &[u64]) -> u64 {
    let rows = i[0] * s[1] + i[1];
    ((rows * blocks(s[3], 16) + i[3] / 16) * s[2] + i[2]) * 16 + i[3] % 16
}

/// Ascend: `reshape([N, H, W, C1, C0]).transpose([0, 3, 1, 2, 4])`.
fn nc1hwc0(s: &[u64], i: &[u64]) -> u64 {
    let planes = i[0] * blocks(s[3], 16) + i[3] / 16;
    ((planes * s[1] + i[1]) * s[2] + i[2]) * 16 + i[3] % 16
}

/// Ascend's fractal NZ of a matrix: blocks of 16x16 in row-major order inside, columns of blocks outside.
fn fractal_nz(s: &[u64], i: &[u64]) -> u64 {
    let (m, n) = (i[0], i[1]);
    let block = n / 16 * blocks(s[0], 16) + m / 16;
    block * 256 + m % 16 * 16 + n % 16
}

/// Ascend's fractal ZZ of a matrix: blocks of 16x16 in row-major order inside and outside.
fn fractal_zz(s: &[u64], i: &[u64]) -> u64 {
    let (m, n) = (i[0], i[1]);
    let block = m / 16 * blocks(s[1], 16) + n / 16;
    block * 256 + m % 16 * 16 + n % 16
}

/// Ascend's fractal ZN of a matrix: rows of blocks outside, columns inside of a block.
fn fractal_zn(s: &[u64], i: &[u64]) -> u64 {
    let (m, n) = (i[0], i[1]);
    let block = m / 16 * blocks(s[1], 16) + n / 16;
    block * 256 + n % 16 * 16 + m % 16
}

/// oneDNN: `n * CHW + (c / B) * HWB + h * WB + w * B + c % B`.
fn channels_blocked(s: &[u64], i: &[u64], b: u64) -> u64 {
    let planes = i[0] * blocks(s[1], b) + i[1] / b;
    ((planes * s[2] + i[2]) * s[3] + i[3]) * b + i[1] % b
}

fn n_chw16c(s: &[u64], i: &[u64]) -> u64 {
    channels_blocked(s, i, 16)
}

fn n_chw8c(s: &[u64], i: &[u64]) -> u64 {
    channels_blocked(s, i, 8)
}

/// The number of a block of weights `OIhw` in blocks of 16x16 channels.
fn weights(s: &[u64], i: &[u64]) -> u64 {
    let pairs = i[0] / 16 * blocks(s[1], 16) + i[1] / 16;
    (pairs * s[2] + i[2]) * s[3] + i[3]
}

fn oihw16i16o(s: &[u64], i: &[u64]) -> u64 {
    weights(s, i) * 256 + i[1] % 16 * 16 + i[0] % 16
}

fn oihw16o16i(s: &[u64], i: &[u64]) -> u64 {
    weights(s, i) * 256 + i[0] % 16 * 16 + i[1] % 16
}

/// oneDNN: the input channels of a block are cut once more, for products of pairs of bytes: `OIhw4i16o4i`.
fn oihw4i16o4i(s: &[u64], i: &[u64]) -> u64 {
    weights(s, i) * 256 + i[1] % 16 / 4 * 64 + i[0] % 16 * 4 + i[1] % 4
}

/// Hexagon: a block of 8x8 places and 32 channels, `[n][h / 8][w / 8][c / 32][h % 8][w % 8][c % 32]`.
fn crouton_8(s: &[u64], i: &[u64]) -> u64 {
    let rows = i[0] * blocks(s[1], 8) + i[1] / 8;
    let block = (rows * blocks(s[2], 8) + i[2] / 8) * blocks(s[3], 32) + i[3] / 32;
    block * 2048 + (i[1] % 8 * 8 + i[2] % 8) * 32 + i[3] % 32
}

/// Hexagon, 16 bit: `[n][h / 8][w / 4][c / 32][h % 8][(w % 4) / 2][c % 32][w % 2]`.
fn crouton_16(s: &[u64], i: &[u64]) -> u64 {
    let rows = i[0] * blocks(s[1], 8) + i[1] / 8;
    let block = (rows * blocks(s[2], 4) + i[2] / 4) * blocks(s[3], 32) + i[3] / 32;
    block * 1024 + ((i[1] % 8 * 2 + i[2] % 4 / 2) * 32 + i[3] % 32) * 2 + i[2] % 2
}

const GALLERY: &[Known] = &[
    Known {
        name: "NHCWB16",
        ty: "tensor<1x5x7x40xsi8, {digits = \"1:d0 5:d1 3:d3/16 7:d2 16:d3%16\"}>",
        formula: nhcwb16,
    },
    Known {
        name: "NHCWB16",
        ty: "tensor<2x3x4x32xsi16, {block = \"16C\", order = [0, 1, 3, 2]}>",
        formula: nhcwb16,
    },
    Known {
        name: "NC1HWC0",
        ty: "tensor<2x5x3x40xf16, {digits = \"2:d0 3:d3/16 5:d1 3:d2 16:d3%16\"}>",
        formula: nc1hwc0,
    },
    Known {
        name: "NC1HWC0",
        ty: "tensor<2x5x3x32xf16, {block = \"16C\", order = [0, 3, 1, 2]}>",
        formula: nc1hwc0,
    },
    Known {
        name: "fractal NZ",
        ty: "tensor<20x40xf16, {digits = \"3:d1/16 2:d0/16 16:d0%16 16:d1%16\"}>",
        formula: fractal_nz,
    },
    Known {
        name: "fractal NZ",
        ty: "tensor<32x48xf16, {block = \"16H16W\", order = [1, 0]}>",
        formula: fractal_nz,
    },
    Known {
        name: "fractal ZZ",
        ty: "tensor<20x40xf16, {digits = \"2:d0/16 3:d1/16 16:d0%16 16:d1%16\"}>",
        formula: fractal_zz,
    },
    Known {
        name: "fractal ZN",
        ty: "tensor<20x40xf16, {digits = \"2:d0/16 3:d1/16 16:d1%16 16:d0%16\"}>",
        formula: fractal_zn,
    },
    Known {
        name: "nChw16c",
        ty: "tensor<2x20x5x4xf32, {digits = \"2:d0 2:d1/16 5:d2 4:d3 16:d1%16\"}>",
        formula: n_chw16c,
    },
    Known {
        name: "nChw8c",
        ty: "tensor<2x20x5x4xf32, {digits = \"2:d0 3:d1/8 5:d2 4:d3 8:d1%8\"}>",
        formula: n_chw8c,
    },
    Known {
        name: "OIhw16i16o",
        ty: "tensor<20x40x3x3xf32, {digits = \"2:d0/16 3:d1/16 3:d2 3:d3 16:d1%16 16:d0%16\"}>",
        formula: oihw16i16o,
    },
    Known {
        name: "OIhw16o16i",
        ty: "tensor<20x40x3x3xf32, {digits = \"2:d0/16 3:d1/16 3:d2 3:d3 16:d0%16 16:d1%16\"}>",
        formula: oihw16o16i,
    },
    Known {
        name: "OIhw4i16o4i",
        ty: "tensor<20x40x3x3xsi8, {digits = \"2:d0/16 3:d1/16 3:d2 3:d3 4:d1%16/4 16:d0%16 4:d1%4\"}>",
        formula: oihw4i16o4i,
    },
    Known {
        name: "crouton of 8 bits",
        ty: "tensor<1x9x10x40xui8, {digits = \"1:d0 2:d1/8 2:d2/8 2:d3/32 8:d1%8 8:d2%8 32:d3%32\"}>",
        formula: crouton_8,
    },
    Known {
        name: "crouton of 16 bits",
        ty: "tensor<1x9x6x40xf16, {digits = \"1:d0 2:d1/8 2:d2/4 2:d3/32 8:d1%8 2:d2%4/2 32:d3%32 2:d2%2\"}>",
        formula: crouton_16,
    },
];

/// Every element lies where the formula says, and what is padded lies behind or between.
#[test]
fn layouts_of_machines_lie_as_their_sources_say() {
    for Known { name, ty, formula } in GALLERY {
        let layout = parse_tensor(ty)
            .unwrap_or_else(|error| panic!("{name}, {ty}: {error}"))
            .layout;
        let shape: Vec<u64> = layout.shape().to_vec();
        let count: u64 = shape.iter().product();
        for number in 0..count {
            let mut rest = number;
            let mut index = vec![0; shape.len()];
            for d in (0..shape.len()).rev() {
                index[d] = rest % shape[d];
                rest /= shape[d];
            }
            let wanted = formula(&shape, &index);
            assert_eq!(
                layout.index(&index),
                Some(wanted),
                "{name}, {ty} at {index:?}"
            );
        }
    }
}
