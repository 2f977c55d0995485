//! The operations of the `hbir` dialect, one family a file.
use crate::op::Registry;
/// Adds every operation of the dialect.
pub fn register(registry: &mut Registry) {
    let _ = registry;
}
