//! The codes that the parts of the compiler report, each a list sorted by name, and those of the library around them.

use optc_ir::codes;

pub use optc_check::CODES as FOLDS;
#[cfg(feature = "emit")]
pub use optc_emit::CODES as FORMATS;
#[cfg(feature = "exec")]
pub use optc_exec::CODES as EXECUTION;
#[cfg(feature = "hlo")]
pub use optc_hlo::CODES as HLO;
#[cfg(feature = "interp")]
pub use optc_interp::CODES as RUNNING;
pub use optc_ir::CODES as PROGRAMS;
#[cfg(feature = "linalg")]
pub use optc_linalg::CODES as LINALG;
#[cfg(feature = "onnx")]
pub use optc_onnx::CODES as ONNX;
pub use optc_ops::codes as operations;
pub use optc_passes::CODES as PASSES;
#[cfg(feature = "stablehlo")]
pub use optc_stablehlo::CODES as STABLEHLO;
pub use optc_tile::CODES as PLANS;

codes! {
    /// Every code of reading, writing and finding what the library is asked for, sorted.
    pub const LIBRARY;

    FOREIGN_ARGUMENT = input(
        "a call through the C interface has an argument that is null, a text that is not UTF-8, a buffer of another length, or a number of nothing",
        "`optc_target_find(NULL, &target)`",
        "the header says for each argument what it takes",
    );
    FORMAT_UNSUPPORTED = command(
        "the input is in a format that is not read",
        &[("in.mlir", "%0 = tosa.add %a, %b : tensor<4xf32>")],
        "optc in.mlir",
        "convert it to a format that `--from` lists",
    );
    INDEX_BOUNDS = command(
        "an index is out of bounds of its tensor",
        &[],
        "optc layout index 'f32[3,5]' 3,0",
        "count from 0 in every dimension",
    );
    INDEX_RANK = command(
        "an index has more or fewer numbers than its tensor has dimensions",
        &[],
        "optc layout index 'f32[3,5]' 1",
        "write one number a dimension, separated by commas",
    );
    INPUT_TOO_LARGE = input(
        "an input is longer than what is read: 2 GiB of a regular file, 512 MiB of a pipe, a device or standard input",
        "`optc /dev/zero`",
        "keep large weights in external data; give a file instead of a pipe",
    );
    INTERNAL_ERROR = input(
        "the compiler failed; nothing was written",
        "no input is known that brings it about",
        "this is a defect of optc: report it with the input, or the file that `--reproducer` writes",
    );
    IO_READ = command(
        "a file cannot be read: it does not exist, is a folder, or may not be read",
        &[],
        "optc absent.ir",
        "check the path; `-` is standard input",
    );
    IO_WRITE = command(
        "a file or standard output cannot be written; what was in the file before is still there",
        &[(
            "in.ir",
            r#"%0 = "hbir.relu"(%x) : (tensor<5x6xf32>) -> tensor<5x6xf32>"#,
        )],
        "optc -o absent/out.ir in.ir",
        "check that the folder exists and has room",
    );
    LAYOUT_CONVERSION = command(
        "a tensor of one layout has no conversion to the other layout",
        &[],
        "optc layout bench 'f32[3,5]' 'f32[5,3]'",
        "give layouts of one shape and element width, in buffers that fit into memory",
    );
    LAYOUT_NOTATION = command(
        "a layout cannot be written in the notation asked for",
        &[],
        r#"optc layout convert --to=strided 'tensor<4x8xsi8, {block = "2W", order = [1, 0]}>'"#,
        "`--to=digits` writes every layout",
    );
    OUTPUT_TWICE = command(
        "two outputs of a command are the same file, so that one would be lost",
        &[(
            "in.ir",
            r#"%0 = "hbir.relu"(%x) : (tensor<5x6xf32>) -> tensor<5x6xf32>"#,
        )],
        "optc --pass=view-fold -o out.ir --certificate ./out.ir in.ir",
        "give each output a path of its own",
    );
    STALE_HANDLE = input(
        "a value or operation is of another program, or of a program that a pass has replaced since",
        "`answer.fate(value)` with a value of `answer.program()`",
        "`Answer::fate` takes the values of the program that went in, and gives those of the result",
    );
    TARGET_FILE = command(
        "a target file is not well formed",
        &[
            (
                "in.ir",
                r#"%0 = "hbir.relu"(%x) : (tensor<5x6xf32>) -> tensor<5x6xf32>"#,
            ),
            ("mine.toml", "name = 3"),
        ],
        "optc --target=mine.toml --pass=view-fold in.ir",
        "start from a built-in target; `optc targets` explains the fields",
    );
    TARGET_PRECISION = command(
        "a target has no products of f32 at a precision",
        &[(
            "in.ir",
            r#"%0 = "hbir.matmul"(%x, %y) : (tensor<5x6xf32>, tensor<6x7xf32>) -> tensor<5x7xf32>"#,
        )],
        "optc --target=cpu --precision=bf16 --pass=view-fold in.ir",
        "leave the option out, or name a target whose units have a rate for the precision",
    );
    TENSOR_SYNTAX = command(
        "the text of a tensor on the command line cannot be read",
        &[],
        "optc layout size 'tensor<4x8xsi8'",
        "write `tensor<4x8xsi8, {…}>` or `s8[4,8]{…}`",
    );
    TEXT_ENCODING = input(
        "the text of a program is not UTF-8",
        "a file `in.ir` with the byte FF",
        "save the file as UTF-8; for a model give `--from=onnx`",
    );
    UNKNOWN_TARGET = command(
        "a target does not exist",
        &[(
            "in.ir",
            r#"%0 = "hbir.relu"(%x) : (tensor<5x6xf32>) -> tensor<5x6xf32>"#,
        )],
        "optc --target=gpu --pass=view-fold in.ir",
        "`optc targets` lists the built-in ones; a file of your own is given by its path",
    );
    VIEW_SHAPE = command(
        "`--shape` or `--perm` of `optc layout view` does not fit the operand and the result",
        &[],
        "optc layout view 'f32[4,8]' 'f32[8,4]' --perm=1",
        "`--shape` has as many elements as the operand, `--perm` one entry for each of its dimensions",
    );
}

/// The codes of the library that programs around it report, too.
pub mod shared {
    use optc_ir::Code;

    /// A call through the C interface has a wrong argument.
    pub const FOREIGN_ARGUMENT: Code = super::FOREIGN_ARGUMENT;
    /// The compiler failed.
    pub const INTERNAL_ERROR: Code = super::INTERNAL_ERROR;
    /// A file cannot be written.
    pub const IO_WRITE: Code = super::IO_WRITE;
    /// A layout has no conversion to another one.
    pub const LAYOUT_CONVERSION: Code = super::LAYOUT_CONVERSION;
    /// A layout cannot be written in a notation.
    pub const LAYOUT_NOTATION: Code = super::LAYOUT_NOTATION;
    /// The shape or permutation of a view does not fit.
    pub const VIEW_SHAPE: Code = super::VIEW_SHAPE;
    /// An option names an argument or result that does not exist.
    pub const UNKNOWN_PORT: Code = optc_passes::shared_codes::UNKNOWN_PORT;
}
