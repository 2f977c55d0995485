//! Errors of running a program.

use crate::codes;
use crate::data::DataError;
use crate::naive::IndexError;
use crate::tiled::TileFault;
use optc_ir::{CodeName, Diagnostic, EvalError, Loc, OpError, Span};
use thiserror::Error;

/// The reason why a function cannot be run on these inputs.
#[derive(Debug, Error)]
pub enum RunError {
    /// The module has no such function.
    #[error("there is no function @{name}; the module has {known}")]
    NoFunction {
        /// The function that was asked for.
        name: String,
        /// The functions there are, as text.
        known: String,
    },
    /// An input does not fit the function's arguments.
    #[error(transparent)]
    Input(#[from] InputError),
    /// The operations of nested calls add up to more than a run executes.
    #[error("@{func} executes {found} operations, calls included, wanted at most {limit}")]
    Steps {
        /// The function.
        func: String,
        /// The number of operations, saturated.
        found: u64,
        /// The limit.
        limit: u64,
    },
    /// Functions call functions without end, or deeper than a run follows.
    #[error("@{func}: calls are nested more than {limit} deep")]
    Depth {
        /// The function.
        func: String,
        /// The limit.
        limit: usize,
    },
    /// An operation cannot be executed.
    #[error("`{op}` in @{func}{}: {source}", place(loc))]
    Op {
        /// The function that contains the operation.
        func: String,
        /// The name of the operation.
        op: String,
        /// The origin of the operation.
        loc: Loc,
        /// The place of the operation in the source text.
        span: Span,
        /// The cause.
        source: Box<OpFailure>,
    },
    /// A returned value or an argument cannot be read or laid out.
    #[error("{what} of @{func}: {source}")]
    Boundary {
        /// The function.
        func: String,
        /// `argument x` or `result y`.
        what: String,
        /// The cause.
        source: Box<OpFailure>,
    },
}

impl RunError {
    /// A stable kebab-case name.
    #[must_use]
    pub fn code(&self) -> CodeName {
        match self {
            RunError::NoFunction { .. } => codes::FUNCTION_MISSING.into(),
            RunError::Input(e) => e.code(),
            RunError::Steps { .. } => codes::RUN_STEPS.into(),
            RunError::Depth { .. } => codes::RUN_CALL.into(),
            RunError::Op { source, .. } | RunError::Boundary { source, .. } => source.code(),
        }
    }

    /// The error as a diagnostic, with a label at the operation.
    #[must_use]
    pub fn to_diagnostic(&self) -> Diagnostic {
        let diag = Diagnostic::error(self.code(), self.to_string());
        match self {
            RunError::Op { span, source, .. } => {
                let diag = match *span == Span::default() {
                    true => diag,
                    false => diag.at(*span, "executed here"),
                };
                match &**source {
                    OpFailure::Opaque { .. } => diag.hint(
                        "`optc verify` takes opaque operations without effects for functions of their operands",
                    ),
                    _ => diag,
                }
            }
            RunError::Steps { .. } => diag
                .note("functions that each call another one twice double the work at every level"),
            RunError::Depth { .. }
            | RunError::NoFunction { .. }
            | RunError::Input(_)
            | RunError::Boundary { .. } => diag,
        }
    }
}

/// The reason why an input does not fit its argument.
#[derive(Clone, Debug, Error, PartialEq, Eq)]
pub enum InputError {
    /// An argument has no input.
    #[error("no input for argument `{name}` of type {wanted}")]
    Missing {
        /// The key of the argument.
        name: String,
        /// Its type.
        wanted: String,
    },
    /// An input has no argument.
    #[error("input `{name}` is no argument of @{func}; its arguments are {known}")]
    Extra {
        /// The key of the input.
        name: String,
        /// The function.
        func: String,
        /// The arguments there are.
        known: String,
    },
    /// The element types differ.
    #[error("input `{name}` has elements of type {found}, wanted {wanted}")]
    DType {
        /// The key.
        name: String,
        /// The element type of the input.
        found: String,
        /// The element type of the argument.
        wanted: String,
    },
    /// The shapes differ.
    #[error("input `{name}` has shape {found}, wanted {wanted}")]
    Shape {
        /// The key.
        name: String,
        /// The shape of the input.
        found: String,
        /// The shape of the argument.
        wanted: String,
    },
    /// A symbol would have two sizes.
    #[error(
        "input `{name}` has size {found} in dimension {dim}, but `{symbol}` is already {bound} ({by})"
    )]
    Symbol {
        /// The key.
        name: String,
        /// The dimension.
        dim: usize,
        /// The symbol.
        symbol: String,
        /// The size of this input.
        found: u64,
        /// The size that the symbol has already.
        bound: u64,
        /// The argument or option that gave the symbol its size.
        by: String,
    },
    /// The elements of the tensor do not match its own shape and element type.
    #[error("input `{name}` is not well formed: {problem}")]
    Malformed {
        /// The key.
        name: String,
        /// The defect.
        problem: String,
    },
    /// The argument is not a tensor.
    #[error("argument `{name}` is of type {found}; only tensors can be given")]
    NotTensor {
        /// The key.
        name: String,
        /// The type's text.
        found: String,
    },
    /// The argument is too large to be held.
    #[error("argument `{name}` of shape {shape} has more than {limit} elements")]
    TooLarge {
        /// The key.
        name: String,
        /// The shape.
        shape: String,
        /// The limit.
        limit: u64,
    },
}

impl InputError {
    /// A stable kebab-case name.
    #[must_use]
    pub fn code(&self) -> CodeName {
        match self {
            InputError::Missing { .. } => codes::INPUT_MISSING.into(),
            InputError::Extra { .. } => codes::INPUT_EXTRA.into(),
            InputError::DType { .. } => codes::INPUT_DTYPE.into(),
            InputError::Shape { .. } => codes::INPUT_SHAPE.into(),
            InputError::Symbol { .. } => codes::INPUT_SYMBOL.into(),
            InputError::Malformed { .. } => codes::INPUT_MALFORMED.into(),
            InputError::NotTensor { .. } => codes::INPUT_KIND.into(),
            InputError::TooLarge { .. } => codes::TENSOR_TOO_LARGE.into(),
        }
    }
}

/// The reason why one operation cannot be executed.
#[derive(Clone, Debug, Error, PartialEq)]
pub enum OpFailure {
    /// Nothing declares the operation.
    #[error("the operation is not known, so it has no semantics to run")]
    Unknown,
    /// An opaque operation: one of another format that is kept unchanged.
    #[error("the operator `{kind}` is opaque: {problem}")]
    Opaque {
        /// Its name in its own format.
        kind: String,
        /// The reason why it cannot be run.
        problem: String,
    },
    /// The operation is not well formed.
    #[error("the operation is not well formed: {0}")]
    Invalid(#[from] OpError),
    /// The declared semantics refuse these operands.
    #[error("{0}")]
    Eval(#[from] EvalError),
    /// The shape of a result differs from that of its type.
    #[error("result {index} has shape {found}, but its type says {wanted}")]
    ResultShape {
        /// The number of the result.
        index: usize,
        /// The shape computed.
        found: String,
        /// The shape declared.
        wanted: String,
    },
    /// The element type of a result differs from that of its type.
    #[error("result {index} has elements of type {found}, but its type says {wanted}")]
    ResultDType {
        /// The number of the result.
        index: usize,
        /// The element type computed.
        found: String,
        /// The element type declared.
        wanted: String,
    },
    /// The semantics return another number of results than declared.
    #[error("the operation gives {found} results, but {wanted} are declared")]
    ResultCount {
        /// The number computed.
        found: usize,
        /// The number declared.
        wanted: usize,
    },
    /// The elements of a result do not match its own shape and element type.
    #[error("result {index} is not well formed: {problem}")]
    Malformed {
        /// The number of the result.
        index: usize,
        /// The defect.
        problem: String,
    },
    /// An operand or result is not a tensor.
    #[error("only tensors can be computed, found the type `{found}`")]
    NotTensor {
        /// The type's text.
        found: String,
    },
    /// A tensor is too large to be held.
    #[error("a tensor of shape {shape} has more than {limit} elements")]
    TooLarge {
        /// The shape.
        shape: String,
        /// The limit.
        limit: u64,
    },
    /// There is no room for a tensor.
    #[error(
        "a tensor of shape {shape} takes {bytes} bytes beside {held} that are held, wanted at most {limit} in all"
    )]
    Memory {
        /// The shape.
        shape: String,
        /// The bytes of the tensor.
        bytes: u64,
        /// The bytes of other values at that time.
        held: u64,
        /// The limit.
        limit: u64,
    },
    /// A loop does not end within the limit of operations.
    #[error("the loop goes on after {limit} operations, as many as a run executes")]
    Steps {
        /// The limit.
        limit: u64,
    },
    /// Functions run functions too deep.
    #[error("calls, loops and branches are nested more than {limit} deep")]
    Depth {
        /// The limit.
        limit: usize,
    },
    /// A loop or a branch does not fit the functions that it runs.
    #[error("{0}")]
    Control(String),
    /// The bytes of a constant cannot be read.
    #[error("{0}")]
    Data(#[from] DataError),
    /// A constant whose attributes do not give a value.
    #[error("{0}")]
    Constant(String),
    /// The called function does not exist.
    #[error("the called function @{0} does not exist")]
    NoCallee(String),
    /// The call does not fit the called function.
    #[error("the call does not fit @{callee}: {problem}")]
    Call {
        /// The called function.
        callee: String,
        /// The mismatch.
        problem: String,
    },
    /// The called function failed.
    #[error("{text}")]
    Inner {
        /// The code of the error there.
        code: CodeName,
        /// The message and the place.
        text: Box<str>,
    },
    /// An operand is not defined before the operation.
    #[error("operand {0} is not defined before this operation")]
    Undefined(usize),
    /// A layout cannot be addressed.
    #[error("{0}")]
    Layout(#[from] IndexError),
    /// A read of a position that was never written.
    #[error(
        "element {element} of a value in the layout {layout} lies at position {position}, \
         which was never written: the value was stored in another layout"
    )]
    Poison {
        /// The logical index.
        element: String,
        /// The layout by which it is read.
        layout: String,
        /// The position in the buffer.
        position: usize,
    },
    /// Two elements with different values share a position.
    #[error(
        "in the layout {layout} element {element} overwrites another one at position {position}"
    )]
    Overlap {
        /// The logical index.
        element: String,
        /// The layout.
        layout: String,
        /// The position in the buffer.
        position: usize,
    },
    /// A plan of tiles that is incomplete or illegal.
    #[error("{0}")]
    Tile(#[from] TileFault),
    /// A view whose buffers cannot be the same.
    #[error("a view reuses its operand's buffer, but {0}")]
    View(String),
}

impl OpFailure {
    /// A stable kebab-case name.
    #[must_use]
    pub fn code(&self) -> CodeName {
        match self {
            OpFailure::Unknown => codes::RUN_UNKNOWN_OP.into(),
            OpFailure::Invalid(e) => e.code,
            OpFailure::Eval(_) => codes::RUN_FAILED.into(),
            OpFailure::Inner { code, .. } => *code,
            OpFailure::ResultShape { .. }
            | OpFailure::ResultDType { .. }
            | OpFailure::ResultCount { .. }
            | OpFailure::Malformed { .. } => codes::RUN_RESULT_TYPE.into(),
            OpFailure::NotTensor { .. } => codes::RUN_NOT_TENSOR.into(),
            OpFailure::TooLarge { .. } | OpFailure::Memory { .. } => codes::TENSOR_TOO_LARGE.into(),
            OpFailure::Steps { .. } | OpFailure::Depth { .. } => codes::RUN_STEPS.into(),
            OpFailure::Data(_) | OpFailure::Constant(_) => codes::CONSTANT_DATA.into(),
            OpFailure::NoCallee(_) | OpFailure::Call { .. } | OpFailure::Control(_) => {
                codes::RUN_CALL.into()
            }
            OpFailure::Opaque { .. } => codes::RUN_OPAQUE.into(),
            OpFailure::Undefined(_) => codes::RUN_UNDEFINED.into(),
            OpFailure::Layout(_) => codes::RUN_LAYOUT.into(),
            OpFailure::Tile(_) => codes::RUN_TILE.into(),
            OpFailure::Poison { .. } | OpFailure::Overlap { .. } | OpFailure::View(_) => {
                codes::RUN_ILLEGAL_VIEW.into()
            }
        }
    }
}

fn place(loc: &Loc) -> String {
    let text = loc_text(loc);
    if text.is_empty() {
        text
    } else {
        format!(" (from {text})")
    }
}

/// A location in words; empty if nothing is known.
pub(crate) fn loc_text(loc: &Loc) -> String {
    match loc {
        Loc::Unknown => String::new(),
        Loc::File(file, line, col) => format!("{file}:{line}:{col}"),
        Loc::Name(name) => format!("\"{name}\""),
        Loc::Fused(parts) => {
            let parts: Vec<String> = parts
                .iter()
                .map(loc_text)
                .filter(|t| !t.is_empty())
                .collect();
            parts.join(", ")
        }
    }
}
