//! Runs what optc lays out: bufferized programs in real buffers, strided, tiled and padded as their layouts say, and
//! conversions between layouts at the speed of memory.
//!
//! An [`Executable`] is made once of a function whose memory is decided (`bufferize`, `plan-memory`): every operation
//! becomes a step with the places of its operands and results, and constants are prepared. Running it fills the arguments'
//! buffers, executes the steps and reads the results.
//!
//! An operation has a kernel of its own, or goes the way that is there for all: its operands are gathered to logical order,
//! it is evaluated by the semantics that it declares, and the results are scattered. What that moves is counted as
//! [`staged`](StepProfile::staged) bytes. Threads share the work of a step by parts of its result, never a sum: no result depends on their number.
//!
//! A [`ConversionPlan`] moves a tensor from one layout to any other one. It is made once: layouts are cut into
//! boxes in which both are affine, padding into boxes of its own, and each box gets a kernel. Running it is loops
//! around that kernel, on one thread or several, and the bytes are the same for any number of them.
//!
//! What moves is counted: a [`Moved`] has the bytes that loops of this crate have read and written.
//!
//! ```
//! use optc_exec::{ConversionOptions, ConversionPlan, Moved};
//! use optc_layout::Layout;
//!
//! let rows = Layout::row_major(&[2, 3], 8);
//! let columns = Layout::from_order(&[2, 3], 8, &[1, 0])?;
//! let plan = ConversionPlan::new(&rows, &columns, ConversionOptions::default())?;
//! let (mut out, mut moved) = ([0; 6], Moved::default());
//! plan.execute(&[1, 2, 3, 4, 5, 6], &mut out, &mut moved)?;
//! assert_eq!(out, [1, 4, 2, 5, 3, 6]);
//! assert_eq!(moved.bytes(), 12);
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! # Unsafe code
//! This is the one crate that has any, in the kernels below `kernels`, where threads share a target and where sums of products
//! are handed rows. A plan proves before it is run that every box lies inside both buffers and that no two boxes write one
//! byte; what it cannot prove this of goes element by element through slices. The reach of all offsets of a contraction is
//! compared with its buffers before it is run; sums over the places of a kernel compare what they read and write with the lists
//! that they are given. The portable kernels run under Miri:
//! `cargo +nightly miri test -p optc-exec --test miri`.
//!
//! # Files
//! - `convert`: `plan.rs` cuts two layouts into boxes in which both are affine, `gaps.rs` padding into boxes of its own, `nest.rs` merges
//!   strides, `task.rs` chooses a kernel and the loops around it.
//! - `compile.rs` makes the steps of a function. `access.rs` has the offsets of an operand's elements, `memory.rs` what a step borrows, `fuse.rs`
//!   element-wise operations that become one step, `begin.rs` and `finish.rs` prologues and epilogues of sums, `bytes.rs` products of integers with
//!   zero points.
//! - `ops` has a step a kind of operation, `kernels` the loops that move bytes and sum products, in a portable form and for AVX2 and AVX-512.
//! - `team.rs` shares the work of a step by threads. `tiles` runs groups of a plan program by program: `sketch.rs` is one program, `form.rs` the
//!   kernels of equal sketches, `run.rs` the grid.

mod access;
mod begin;
mod buffer;
mod bytes;
mod cache;
mod codes;
mod compile;
mod convert;
mod element;
mod finish;
mod fuse;
mod isa;
mod job;
mod join;
mod kernels;
mod memory;
mod moved;
mod nest;
mod ops;
mod profile;
mod run;
mod team;
mod tiles;

pub use codes::CODES;
pub use compile::{ExecOptions, Executable};
pub use convert::{ConversionError, ConversionOptions, ConversionPlan, Padding, PlanCache};
pub use isa::Isa;
pub use moved::Moved;
pub use profile::{Profile, StepProfile};
pub use tiles::Untiled;
