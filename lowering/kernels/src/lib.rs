//! Kernels of tensors in memory, for each instruction set: matrix products, convolutions, softmax, norms and reductions of
//! rows, and moves of bytes. They know offsets and strides, and neither programs nor layouts.
//!
//! An internal part of `optc`; only the crate `optc` has a stable interface.
//!
//! A product is described once by lists of offsets, its constant operands are packed, and it is run on buffers:
//!
//! ```
//! use optc_kernels::element::Kind;
//! use optc_kernels::gemm::{self, InitialBytes, Products};
//! use optc_kernels::team::Team;
//!
//! // C[i, j] = A[i, k] * B[k, j] of 2x3 and 3x2, row-major: offsets in C, A, B and the initial value, loop by loop.
//! let rows = [vec![0, 2], vec![0, 3], vec![0, 0], vec![0, 0]];
//! let columns = [vec![0, 1], vec![0, 0], vec![0, 1], vec![0, 0]];
//! let terms = [vec![0; 3], vec![0, 1, 2], vec![0, 2, 4], vec![0; 3]];
//! let loops = [rows, columns, terms];
//! let of = Products::of([0; 4], &loops, [false; 2], Kind::F32).expect("all loops have steps");
//! let product = gemm::typed(of, [Kind::F32; 2], [None; 2], None).expect("floats have a kernel");
//! let (a, b) = ([1f32, 2., 3., 4., 5., 6.], [1f32, 0., 0., 1., 1., 1.]);
//! let mut c = [0f32; 4];
//! let operands = [bytemuck::cast_slice(&a), bytemuck::cast_slice(&b)];
//! let team = Team::new(1, false).expect("one thread");
//! let out = bytemuck::cast_slice_mut(&mut c);
//! product.run(out, operands, [0; 2], InitialBytes::Zero, &team).expect("offsets are inside of the buffers");
//! assert_eq!(c, [4., 5., 10., 11.]);
//! ```
//!
//! # Unsafe code
//! Vector instructions, pointers to rows, and moves of bytes are unsafe code. The least and the greatest offset of a product
//! are compared with its buffers before it is run; depthwise kernels check all that they read and write against the slices
//! that they get; whoever moves bytes promises that all places are inside of the buffers. A set of instructions is used
//! only if the machine has it (`isa`).
//!
//! # Files
//! - `gemm.rs` multiplies matrices: packed panels of columns by rows. `product` has its micro-kernels, `epilogue.rs` and
//!   `requantize.rs` what happens to sums before they are stored, `dequantize.rs` and `scales.rs` scales of bytes.
//! - `window.rs` and `image.rs` are im2col for convolutions; `depthwise.rs`, `taps.rs` and `channels.rs` convolve channel by
//!   channel. `gates.rs` multiplies few rows by constant weights, for recurrent networks.
//! - `lanes.rs` and `softmax.rs` compute rows. `links.rs` and `math.rs` are element-wise functions.
//! - `moves` copies runs, transposes and interleaves bytes.
//! - `isa.rs` chooses the instruction set, `team.rs` shares work between threads, `loops.rs` has nested loops of offsets.

pub mod cache;
mod channels;
pub mod depthwise;
pub mod dequantize;
pub mod element;
pub mod epilogue;
pub mod error;
pub mod gates;
pub mod gemm;
pub mod geometry;
pub mod image;
pub mod isa;
pub mod lanes;
pub mod links;
pub mod loops;
pub mod math;
pub mod moves;
pub mod product;
pub mod requantize;
pub mod scales;
#[cfg(target_arch = "x86_64")]
mod simd;
pub mod softmax;
mod taps;
pub mod team;
pub mod vectorized;
pub mod window;

pub use isa::{Isa, IsaError};
