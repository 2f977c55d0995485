//! The codes that the parser of MLIR text reports here.

use crate::codes;
use optc_mlir_syntax::Codes;

/// The codes of MLIR text.
pub(crate) const MLIR: Codes = Codes {
    syntax: codes::LINALG_SYNTAX,
    too_deep: codes::LINALG_TOO_DEEP,
    constant: codes::LINALG_CONSTANT,
};
