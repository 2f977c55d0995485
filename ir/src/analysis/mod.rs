//! Analyses of a function that hold until it changes: order, uses, liveness, live-outs.
//!
//! Each analysis takes time linear in the operations and operands of the function, and gives a table beside it. All
//! passes, interpreters and emitters share these analyses, so that they agree on the meaning of a use: a returned value
//! is used, and an operand that an operation reads twice is two uses.

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
