//! The codes that the parser of MLIR text reports here.

use crate::codes;
use optc_mlir_syntax::Codes;

/// The codes of MLIR text.
pub(crate) const MLIR: Codes = Codes {
    syntax: codes::STABLEHLO_SYNTAX,
    too_deep: codes::STABLEHLO_TOO_DEEP,
    constant: codes::STABLEHLO_CONSTANT,
};
