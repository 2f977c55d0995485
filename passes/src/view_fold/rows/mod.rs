//! Rows of a target, compiled for one operation.
//!
//! A target file lists the alternatives of a row in the words of roles. [`OrderRule`] is such an alternative, read for
//! the ports of one operation on a machine without tiles. Each fact of it is one condition, and an alternative takes
//! what satisfies all of them. The search and the bound ask these questions:
//!
//! - [`takes_layout`]: is a layout taken at a port, in some form?
//! - [`side`]: which layouts of another port go with this one?
//! - [`Compiled::takes`]: are these layouts of all ports taken, and at what price?
//! - [`default_layout`], [`listed`], [`channel_orders`]: which layouts are tried?
//!
//! The checker of certificates (`optc_check::check_target`) reads the target file on its own. A test compares both on
//! random layouts.
//!
//! Example: `{ share = ["k"], one_run = ["k"], not_innermost = ["batch"] }` takes the orders `batch m k` and `m batch
//! k` of the left operand of a matmul. It refuses `k0 m k1`, as K is in two runs.

mod compiled;
mod contract;
mod port;
mod rule;
mod together;
mod window;

pub use compiled::Compiled;
pub(crate) use port::{accepts_layout, default_layout, listed, takes_at, takes_layout};
pub(crate) use rule::{Channels, Ends, OrderRule, PortRun, is_unpadded};
pub(crate) use together::{Side, is_over_axes, related, shared, side};
pub(crate) use window::{channel_orders, contracts_patches, contracts_pixels};
