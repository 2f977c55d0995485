//! Conversions that stay.

use super::reason::Reason;
use optc_ir::size::Size;
use optc_ir::{Op, Value};
use optc_layout::Layout;

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
    /// True if the converted value is known at compile time, where the conversion happens then.
    pub constant: bool,
    /// The layout before, in which numbers stand for unknown sizes.
    pub from: Layout,
    /// The layout after, in the same way.
    pub to: Layout,
    /// Both layouts in words, with the names of unknown sizes.
    pub words_of_layouts: [String; 2],
    /// The operations of the old function that read the converted copy; `None` is the boundary.
    pub readers: Vec<Option<Op>>,
    /// The chain of operations to the one that fixes the order before the conversion.
    pub forced_by: Option<String>,
    /// The chain of operations to the one that fixes the order after the conversion.
    pub wanted_by: Option<String>,
    /// The reason why it stays, and the changes that remove it. `None` for constants.
    pub reason: Option<Reason>,
    /// The forms that the target leaves out of the operations that fix the orders, with reasons.
    pub left_out: Vec<String>,
}
