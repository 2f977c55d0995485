//! Traffic: what executing an operation moves.

use crate::size::Size;

/// What executing an operation moves, in the classes of the statistics; bytes are logical.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Traffic {
    /// Computes, or is free.
    None,
    /// Only rearranges (transpose, layout_convert): reads and writes the whole value.
    Movement,
    /// Repeats elements.
    Expand,
    /// Copies a part or into a part: (bytes read, bytes written), polynomials in unknown sizes.
    Copy(Size, Size),
}
