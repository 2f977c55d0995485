//! Runs bufferized programs in real buffers, which are strided, tiled and padded as their layouts say, and converts tensors
//! between layouts at the speed of memory.
//!
//! An internal part of `optc`; only the crate `optc` has a stable interface.
//!
//! An [`Executable`] is compiled once from a function whose memory is planned (`bufferize`, `plan-memory`): each operation
//! becomes a step with the slots of its operands and results, or is fused into another step, and constants are packed. A
//! run fills the arguments' buffers, executes the steps and reads the results.
//!
//! An operation has a kernel of its own, or is run by its declared semantics: its operands are gathered to row-major order,
//! it is evaluated, and the results are scattered. The bytes that this moves are counted as
//! [`staged`](StepProfile::staged). Threads share the work of a step by parts of its result, never a sum, so that no result
//! depends on the number of threads.
//!
//! A [`ConversionPlan`] moves a tensor from one layout to another. It is made once: the layouts are cut into boxes in which
//! both are affine, padding into boxes of its own, and each box gets a kernel. Running it is loops around these kernels, on
//! one thread or several, and the bytes are the same for any number of threads.
//!
//! A [`Moved`] counts the bytes that loops of this crate read and write.
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
//! Kernels of moves write by pointers, and threads share a target. A plan proves before it is run that every box is inside of
//! both buffers and that no two boxes write one byte; where it cannot prove this, elements are moved one by one through
//! slices. The portable kernels run under Miri (`cargo +nightly miri test -p optc-exec --test miri`), and all kernels under
//! AddressSanitizer (`tools/sanitize.sh`).
//!
//! # Files
//! - `convert`: `plan.rs` cuts two layouts into boxes in which both are affine, `gaps.rs` cuts padding into boxes of its
//!   own, `nest.rs` merges loops, `task.rs` chooses a kernel and the loops around it.
//! - `compile.rs` compiles a function to steps. `access.rs` has the offsets of an operand's elements, `memory.rs` the
//!   slices that a step reads and writes. `fuse.rs` fuses element-wise operations, `prologue.rs` and `epilogue.rs` fuse
//!   prologues and epilogues of products, `bytes.rs` turns products of integers into products of bytes with zero points.
//! - `ops` has a kernel for each kind of operation: it turns the accesses of the operands into the offsets that the loops of
//!   the crate `optc-kernels` take. `nest.rs` has generic loops over accesses.
//! - `tiles` runs the groups of a plan program by program: `sketch.rs` describes one program, `form.rs` compiles equal
//!   sketches to kernels, `run.rs` runs the grid.

mod access;
mod buffer;
mod bytes;
mod codes;
mod compile;
mod convert;
mod epilogue;
mod error;
mod fuse;
mod job;
mod join;
mod memory;
mod moved;
mod nest;
mod ops;
mod profile;
mod prologue;
mod run;
mod tiles;

pub use codes::CODES;
pub use compile::{ExecOptions, Executable};
pub use convert::{ConversionError, ConversionOptions, ConversionPlan, Padding, PlanCache};
pub use moved::Moved;
pub use optc_kernels::isa::{Isa, IsaError, VARIABLE as ISA_VARIABLE};
pub use profile::{Profile, StepProfile};
pub use tiles::Untiled;
