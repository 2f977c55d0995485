//! The ids of values and operations.

use crate::owned_id;

owned_id! {
    /// A value of one function: an argument or the result of an operation.
    Value, "%"
}
owned_id! {
    /// An operation of one function.
    Op, "op"
}
const _: () = assert!(size_of::<Option<Value>>() == size_of::<Value>());
