//! Traffic: the bytes that an operation moves.

use crate::size::Size;

/// The traffic of an operation, in the classes of the statistics; bytes are logical.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Traffic {
    /// The operation computes, or is free.
    None,
    /// The operation only rearranges (transpose, layout_convert): it reads and writes the whole value.
    Movement,
    /// The operation repeats elements.
    Expand,
    /// The operation copies a part, or into a part: (bytes read, bytes written), polynomials in unknown sizes.
    Copy(Size, Size),
}
