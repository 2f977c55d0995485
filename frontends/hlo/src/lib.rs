//! The HLO text front end: XLA's textual modules in, [`HloModule`]s and programs out.
//!
//! [`parse`] reads the text of a whole module, as XLA prints it for any backend, optimized or not.
//! [`print()`] writes it in XLA's canonical form, [`import`] brings it into the IR with the text's
//! layouts.
//! Nothing here reads a file.

mod cursor;
mod error;
mod import;
mod infer;
mod literal;
mod module;
mod opcode;
mod parse;
mod print;
mod shape;

pub use error::HloError;
pub use import::{Import, import, in_space_of, lower, tensor_type};
pub use module::{Attrs, Computation, HloModule, Instruction};
pub use parse::{Strictness, parse};
pub use print::{PrintedComputation, PrintedInstruction, print, printed};
pub use shape::{ArrayShape, Extent, Shape};

/// The codes of the diagnostics of this crate, each with a line that explains it.
pub const CODES: &[(&str, &str)] = &[
    ("hlo-attribute-duplicate", "an attribute is given twice"),
    ("hlo-attribute-missing", "an instruction lacks an attribute"),
    (
        "hlo-attribute-unknown",
        "an attribute that the instruction does not have",
    ),
    (
        "hlo-attribute-value",
        "an attribute has a value of the wrong kind",
    ),
    ("hlo-computation-duplicate", "two computations of one name"),
    (
        "hlo-computation-empty",
        "a computation without instructions",
    ),
    (
        "hlo-computation-unknown",
        "a computation is used and not defined before",
    ),
    ("hlo-entry-duplicate", "two entries in one module"),
    (
        "hlo-instruction-duplicate",
        "two instructions of one name in a computation",
    ),
    (
        "hlo-layout",
        "a layout that is malformed or does not fit its shape",
    ),
    (
        "hlo-literal",
        "a literal that does not fit its shape or element type",
    ),
    ("hlo-name", "a name that is a word of the language"),
    (
        "hlo-number",
        "a number of HLO text that 64 bits do not hold",
    ),
    ("hlo-opcode-unknown", "an opcode that HLO does not have"),
    (
        "hlo-operand-count",
        "another number of operands than the opcode has",
    ),
    (
        "hlo-operand-shape",
        "an operand is stated to be of another shape than it is",
    ),
    (
        "hlo-operand-unknown",
        "an operand is used and not defined before",
    ),
    (
        "hlo-parameter-number",
        "parameters are not numbered from 0 up",
    ),
    ("hlo-root-duplicate", "two roots in one computation"),
    ("hlo-shape", "a shape that is malformed"),
    (
        "hlo-shape-missing",
        "a shape that is left out does not follow from the operands",
    ),
    (
        "hlo-syntax",
        "something else was found than the grammar of HLO text wants",
    ),
    (
        "hlo-too-deep",
        "tuples, operands or computations nest too deep",
    ),
];
