//! Analyses of a function that hold until it changes: order, uses, liveness, live-outs.
//!
//! Each is linear in the operations and operands of the function and is a table beside it. They are here once,
//! so that passes, interpreters and emitters agree on what a use is: a returned value is used, and an operand
//! that an operation reads twice is two uses.

mod live_outs;
mod liveness;
mod order;
mod uses;

#[cfg(test)]
mod tests;

pub use live_outs::live_outs;
pub use liveness::{last_uses, live_ops};
pub use order::Order;
pub use uses::Uses;
