//! Conversions that stay.

use super::reason::Reason;
use optc_ir::size::Size;
use optc_ir::{Op, Value};

/// One conversion that stays.
#[derive(Clone, Debug)]
pub struct Conversion {
    /// The operation in the new function.
    pub op: Op,
    /// The value of the old function whose storage is converted.
    pub of: Value,
    /// Bytes read plus written, at the sizes that costs are compared at.
    pub bytes: u64,
    /// The bytes as a polynomial in unknown sizes, where there is one.
    pub polynomial: Option<Size>,
    /// The bytes in words.
    pub words: String,
    /// Whether it is of a constant and happens at compile time.
    pub constant: bool,
    /// The layouts, as texts.
    pub from: String,
    /// See `from`.
    pub to: String,
    /// The operations of the old function that read the converted copy; `None` is the boundary.
    pub readers: Vec<Option<Op>>,
    /// The chain of operations to what fixes the order it is in.
    pub forced_by: Option<String>,
    /// The chain of operations to what fixes the order it is read in.
    pub wanted_by: Option<String>,
    /// Why it stays, and what removes it; nothing is said of constants.
    pub reason: Option<Reason>,
    /// The forms that the target leaves out of the operations that fix the orders, and why.
    pub left_out: Vec<String>,
}
